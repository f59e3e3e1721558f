/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/ref.c: what the reference engines share: views, scalars, offsets, the plan, y = beta * y. */
#include "ref.h"

struct adn_view adn_view_of(const anydnn_plan *plan, const struct adn_arguments *arguments, int role)
{
    struct adn_view view = { adn_tensor(&plan->problem, role), NULL, 0 };
    if (view.t) {
        const struct adn_place *place = &arguments->place[adn_slot(&plan->problem, role)];
        view.data = place->base ? (unsigned char *)place->base + place->offset : NULL;
        view.dtype = view.t->dtype;
    }
    return view;
}

double adn_scalar(const anydnn_plan *plan, const struct adn_arguments *arguments, int role, double absent)
{
    const int slot = adn_slot(&plan->problem, role);
    float value;
    if (slot < 0) return absent;
    if (!plan->problem.operand[slot].device) return arguments->scalar[slot];
    memcpy(&value, (const char *)arguments->place[slot].base + arguments->place[slot].offset, sizeof value);
    return value;
}

int64_t adn_scalar_i64(const anydnn_plan *plan, const struct adn_arguments *arguments, int role, int64_t absent)
{
    const int slot = adn_slot(&plan->problem, role);
    int64_t value;
    if (slot < 0) return absent;
    if (!plan->problem.operand[slot].device) return (int64_t)arguments->scalar[slot];
    memcpy(&value, (const char *)arguments->place[slot].base + arguments->place[slot].offset, sizeof value);
    return value;
}

struct adn_pool *adn_stream_pool(const anydnn_stream *stream)
{
    return stream->context->native;
}

uint32_t adn_axes_kept(const anydnn_tensor *t, const anydnn_tensor *shape)
{
    uint32_t axes = 0;
    int i;
    for (i = 0; i < shape->ndim; i++)
        if (t->dims[i] == shape->dims[i] && t->dims[i] != 1) axes |= 1u << i;
    return axes;
}

int64_t adn_offset_of(const anydnn_tensor *t, const anydnn_tensor *shape, uint32_t axes, int64_t n)
{
    int64_t offset = 0;
    int i;
    for (i = shape->ndim - 1; i >= 0; i--) {
        if (!(axes >> i & 1) || shape->dims[i] < 2) continue;
        if (t->dims[i] != 1) offset += n % shape->dims[i] * t->strides[i];
        n /= shape->dims[i];
    }
    return offset;
}

void adn_walk_views(struct adn_walk *walk, const anydnn_tensor *shape, uint32_t axes, bool keep_order, int count,
                    const struct adn_view *const *views)
{
    const anydnn_tensor *tensors[4];
    int i;
    for (i = 0; i < count; i++) tensors[i] = views[i]->t ? views[i]->t : views[0]->t;
    memset(walk, 0, sizeof *walk);
    adn_walk_init(walk, shape, axes, count, tensors, keep_order);
}

struct rescale {
    struct adn_walk walk;
    struct adn_view y;
    double beta;
};

static void rescale_range(void *argument, int64_t first, int64_t last)
{
    const struct rescale *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const int64_t at = r.at[0] + i * r.step[0];
            adn_put(&job->y, at, job->beta == 0 ? 0 : job->beta * adn_get(&job->y, at));
        }
}

void adn_rescale(anydnn_stream *stream, const struct adn_view *y, double beta)
{
    struct rescale job;
    const struct adn_view *views[] = { y };
    if (beta == 1) return;
    job.y = *y;
    job.beta = beta;
    adn_walk_views(&job.walk, y->t, ~0u, false, 1, views);
    adn_pool_for(adn_stream_pool(stream), job.walk.count, 2, rescale_range, &job);
}

bool adn_ref_plan(const struct adn_problem *p, const struct adn_device *device, const char *params,
                  struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const int threads = device->info.compute_units > 0 ? device->info.compute_units : 1;
    double flops = 0, depth = 0;
    int i;
    if (params && params[0])
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "engine", 0, 0, "the reference engines take no parameters");
    if (p->def->cost) p->def->cost(p, &flops, &depth);
    plan->workspace = 0;
    plan->cost_ns = 1000 + flops / threads;
    for (i = 0; i < p->slots; i++)
        if (p->operand[i].present && p->operand[i].t.ndim) {
            const int64_t count = anydnn_tensor_count(&p->operand[i].t);
            if (count > 0) plan->cost_ns += (double)count / threads;
        }
    return true;
}
