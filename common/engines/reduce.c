/* SPDX-License-Identifier: Apache-2.0
 * common/engines/reduce.c: engine `reduce`: everything that joins elements over axes: sums, means, maxima, minima and
 * norms, the bias gradient of convolutions, the gradients of binary operations summed over broadcast axes, and the
 * backward pass of the maximum. Rows (outputs) are shared out to teams of threads (team_params.h); where there are few
 * and long rows, these are cut into segments whose results a second launch joins (workspace: 4 bytes for each; without
 * workspace one launch does it all). No atomics: the order of every sum is fixed by the plan.
 * Limits: f32, f16, bf16. */
#include "plan_team.h"
#include "reduce_params.h"

#include <string.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "reduce", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#include "reduce.variants"
#undef ADN_VARIANT
};
enum { VARIANTS = sizeof variants / sizeof variants[0], BLOCK = 256, MAX_SEGMENTS = 1024 };
static const adn_u32 SIGN = 0x80000000u;

/* One reduction: out = join over `axes` of the term of the inputs. */
struct job {
    int role[4]; /* inputs; the output's is `out` */
    int inputs, out;
    int term;    /* enum adn_reduce_term */
    bool maximum;
    double divisor;
    int finish;          /* enum adn_reduce_finish */
    adn_u32 clear, flip; /* sign bits of elements, of maxima */
};

/* Its layout: tensors of the walks are the inputs, then the output. */
struct rows {
    const anydnn_tensor *tensor[4];
    struct adn_walk kept, reduced;
    int width;
    bool fold; /* units lie along the rows */
};

static const struct adn_variant *find(const char *kernel, int dtype, int width, int operation, int terms)
{
    const int32_t constants[6] = { width, operation, terms, 1, 0, 0 };
    return adn_find_variant(variants, VARIANTS, kernel, dtype, constants);
}

/* ---- Layout. ---- */

static uint32_t reduced_axes(const anydnn_tensor *in, const anydnn_tensor *out)
{
    uint32_t axes = 0;
    int i;
    for (i = 0; i < in->ndim; i++)
        if (in->dims[i] != 1 && out->dims[i] == 1) axes |= 1u << i;
    return axes;
}

/* Units along `inner` need outer strides, those of the other walk too, that keep their alignment. */
static bool fits(const struct adn_walk *inner, const struct adn_walk *other, int inputs,
                 const anydnn_tensor *const *tensor, int width)
{
    int t, k;
    if (!adn_walk_fits(inner, inputs, tensor, width, false)) return false;
    for (t = 0; t < inputs; t++)
        for (k = 0; k < other->rank && inner->stride[t][inner->rank - 1] != 0; k++)
            if (other->stride[t][k] % width != 0) return false;
    return true;
}

static bool rows_are_contiguous(const struct rows *r)
{
    const struct adn_walk *kept = &r->kept, *reduced = &r->reduced;
    if (kept->rank == 0 || reduced->rank == 0) return kept->rank == 0;
    return reduced->stride[0][reduced->rank - 1] <= kept->stride[0][kept->rank - 1];
}

static void lay_out(struct rows *r, const struct adn_problem *p, const struct job *job)
{
    int i;
    uint32_t axes;
    for (i = 0; i < job->inputs; i++) r->tensor[i] = adn_tensor(p, job->role[i]);
    r->tensor[job->inputs] = adn_tensor(p, job->out);
    axes = reduced_axes(r->tensor[0], r->tensor[job->inputs]);
    adn_walk_init(&r->kept, r->tensor[0], ~axes, job->inputs + 1, r->tensor, false);
    adn_walk_init(&r->reduced, r->tensor[0], axes, job->inputs + 1, r->tensor, false);
    r->fold = rows_are_contiguous(r);
    r->width = 16 / (int)anydnn_dtype_size(r->tensor[0]->dtype);
    if (!(r->fold ? fits(&r->reduced, &r->kept, job->inputs, r->tensor, r->width)
                  : fits(&r->kept, &r->reduced, job->inputs, r->tensor, r->width)))
        r->width = 1;
}

/* Output strides of the kept dims for results that lie packed in the order of the walk. */
static void pack_outputs(struct adn_walk *kept, int tensor)
{
    int64_t stride = 1;
    int i;
    for (i = kept->rank - 1; i >= 0; i--) {
        kept->stride[tensor][i] = stride;
        stride *= kept->size[i];
    }
}

/* ---- Splitting. ---- */

/* Segments of each row so that the device has enough to do and each thread enough for its segment. */
static int64_t choose_segments(const struct adn_reduce_params *q, const struct adn_device *device)
{
    const int64_t units = device->info.compute_units > 0 ? device->info.compute_units : 1;
    const int64_t wanted = units * (device->info.is_cpu ? 4 : 6);
    const int64_t least = ((int64_t)1 << q->walk.parts_log2) * (device->info.is_cpu ? 1024 : 16);
    const int64_t busy = device->info.is_cpu ? q->walk.rows : q->walk.groups; /* what runs at once without segments */
    int64_t segments;
    if (busy < 1 || busy >= wanted) return 1;
    segments = (wanted + busy - 1) / busy;
    if (segments > q->walk.length / least) segments = q->walk.length / least;
    return segments < MAX_SEGMENTS ? segments : MAX_SEGMENTS;
}

/* Cuts rows into equal segments, multiples of a team's stride; fewer if workspace is short. */
static void cut(struct adn_reduce_params *q, int64_t outputs, uint64_t workspace, const struct adn_device *device)
{
    const int64_t parts = (int64_t)1 << q->walk.parts_log2;
    int64_t segments = choose_segments(q, device);
    if (outputs > 0 && (uint64_t)segments > workspace / 4 / (uint64_t)outputs)
        segments = (int64_t)(workspace / 4 / (uint64_t)outputs);
    q->segments = 1;
    q->segment = q->walk.length;
    if (segments < 2) return;
    q->segment = ((q->walk.length + segments - 1) / segments + parts - 1) / parts * parts;
    q->segments = (q->walk.length + q->segment - 1) / q->segment;
    if (q->segments < 2) q->segments = 1;
}

static uint64_t workspace_left(const struct adn_problem *p, const struct adn_engine_plan *plan)
{
    const uint64_t used = (plan->workspace + 255) / 256 * 256;
    return p->workspace_limit > used ? p->workspace_limit - used : 0;
}

static uint64_t grid_of(const struct adn_reduce_params *q, const struct adn_device *device)
{
    return adn_blocks(q->walk.groups > 0 ? q->walk.groups * q->segments : 0, 1, device);
}

/* ---- Plans. ---- */

/* The second launch: joins the segments' results, packed as [segment][output] floats. */
static void add_finish(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                       const struct job *job, const struct adn_walk *outputs, const struct adn_reduce_params *first,
                       uint64_t offset)
{
    struct adn_reduce_params q;
    struct adn_walk kept = *outputs, reduced;
    struct adn_step *step;
    memset(&q, 0, sizeof q);
    memset(&reduced, 0, sizeof reduced);
    memcpy(kept.stride[1], outputs->stride[job->inputs], sizeof kept.stride[1]);
    pack_outputs(&kept, 0);
    reduced.rank = 1;
    reduced.count = reduced.size[0] = first->segments;
    reduced.stride[0][0] = kept.count;
    adn_team_fill(&kept, &reduced, 2, &q.walk, q.stride);
    q.stride[3] = q.stride[1];
    q.walk.lanes = kept.count == 1;
    adn_team_split(&q.walk, 0, false, BLOCK, 4, device);
    q.segments = 1, q.segment = first->segments;
    q.fold = q.last = 1;
    q.inputs = 1;
    q.out_dtype = adn_tensor(p, job->out)->dtype;
    q.divisor = (float)job->divisor;
    q.finish = job->finish;
    q.keep = ~0u;
    step = adn_add_step(plan, find("reduce", ANYDNN_F32, 1, job->maximum, 0), grid_of(&q, device), &q, sizeof q);
    adn_step_workspace(step, offset);
    adn_step_null(step);
    adn_step_null(step);
    adn_step_role(step, p, job->out);
}

static void add_first(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                      const struct job *job, const struct adn_variant *variant, const struct adn_reduce_params *q,
                      uint64_t offset)
{
    struct adn_step *step = adn_add_step(plan, variant, grid_of(q, device), q, sizeof *q);
    int i;
    for (i = 0; i < 3; i++) {
        if (i < job->inputs) adn_step_role(step, p, job->role[i]);
        else adn_step_null(step);
    }
    if (q->last) adn_step_role(step, p, job->out);
    else adn_step_workspace(step, offset);
}

static void price(const struct adn_device *device, struct adn_engine_plan *plan, const struct job *job,
                  const struct rows *r, const struct adn_reduce_params *q)
{
    double bytes = 0.0;
    int i;
    for (i = 0; i <= job->inputs; i++) {
        const int64_t size = anydnn_tensor_bytes(r->tensor[i]);
        bytes += size > 0 ? (double)size : 0.0;
    }
    /* Rows that leave the device idle take as long as they would on its busy part. */
    plan->cost_ns += adn_estimate_ns(device, bytes, 2.0 * (double)r->kept.count * (double)r->reduced.count, 0.1);
    if (q->segments > 1) plan->cost_ns += adn_estimate_ns(device, 0.0, 0.0, 1.0);
}

static bool add_job(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                    struct adn_refusal *why, const struct job *job)
{
    const int terms = job->term != ADN_TERM_VALUE;
    const struct adn_variant *variant;
    struct rows r = { 0 };
    struct adn_reduce_params q;
    struct adn_walk outputs;
    uint64_t offset = 0;
    memset(&q, 0, sizeof q);
    lay_out(&r, p, job);
    variant = find("reduce", r.tensor[0]->dtype, r.width, job->maximum, terms);
    if (!variant)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, job->role[0], "dtype", r.tensor[0]->dtype, ANYDNN_F32,
                          "no kernel for %s", anydnn_dtype_name(r.tensor[0]->dtype));
    outputs = r.kept;
    q.fold = r.fold;
    q.splat = adn_walk_splats(r.fold ? &r.reduced : &r.kept, job->inputs);
    q.out_lane = r.fold || r.kept.rank == 0 ? 0 : r.kept.stride[job->inputs][r.kept.rank - 1];
    if (r.width > 1) adn_walk_units(r.fold ? &r.reduced : &r.kept, job->inputs + 1, r.width);
    adn_team_fill(&r.kept, &r.reduced, job->inputs + 1, &q.walk, q.stride);
    q.walk.lanes = r.fold;
    adn_team_split(&q.walk, 0, false, BLOCK, r.width > 1 ? 4 : 8, device);
    cut(&q, outputs.count, workspace_left(p, plan), device);
    q.term = job->term, q.inputs = job->inputs;
    q.divisor = (float)job->divisor;
    q.finish = job->finish;
    q.keep = ~job->clear, q.flip = job->flip;
    q.last = q.segments == 1;
    q.out_dtype = q.last ? r.tensor[job->inputs]->dtype : ANYDNN_F32;
    if (q.last) {
        q.stride[3] = adn_walk_strides(&r.kept, job->inputs);
    } else {
        struct adn_walk packed = outputs;
        pack_outputs(&packed, 0);
        if (r.width > 1 && !r.fold) adn_walk_units(&packed, 1, r.width);
        q.stride[3] = adn_walk_strides(&packed, 0);
        q.out_lane = 1;
        q.out_segment = outputs.count;
        offset = adn_book(plan, (uint64_t)outputs.count * (uint64_t)q.segments * 4);
    }
    add_first(p, device, plan, job, variant, &q, offset);
    if (!q.last) add_finish(p, device, plan, job, &outputs, &q, offset);
    price(device, plan, job, &r, &q);
    return true;
}

static bool plan_reduce(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                        struct adn_refusal *why)
{
    struct job job = { .role = { ANYDNN_X }, .inputs = 1, .out = ANYDNN_Y, .divisor = 1.0 };
    const int mode = p->desc.reduce.mode;
    job.maximum = mode == ANYDNN_REDUCE_MAX || mode == ANYDNN_REDUCE_MIN || mode == ANYDNN_REDUCE_AMAX;
    if (mode == ANYDNN_REDUCE_MIN) job.flip = SIGN, job.finish = ADN_FINISH_NEGATE;
    if (mode == ANYDNN_REDUCE_AMAX) job.clear = SIGN, job.finish = ADN_FINISH_POSITIVE;
    if (mode == ANYDNN_REDUCE_NORM1) job.term = ADN_TERM_MAGNITUDE;
    if (mode == ANYDNN_REDUCE_NORM2) job.term = ADN_TERM_SQUARE, job.finish = ADN_FINISH_ROOT;
    if (mode == ANYDNN_REDUCE_MEAN) {
        const anydnn_tensor *x = adn_tensor(p, ANYDNN_X);
        int i;
        for (i = 0; i < x->ndim; i++)
            if (p->desc.reduce.axes >> i & 1u) job.divisor *= (double)x->dims[i];
    }
    return add_job(p, device, plan, why, &job);
}

/* The term of da or db; inputs behind dy by what the term reads. */
static struct job gradient(const struct adn_problem *p, bool of_a)
{
    struct job job = { .role = { ANYDNN_DY }, .inputs = 1, .out = of_a ? ANYDNN_DA : ANYDNN_DB, .divisor = 1.0 };
    switch (p->desc.binary.mode) {
    case ANYDNN_ADD: break;
    case ANYDNN_SUB: job.term = of_a ? ADN_TERM_VALUE : ADN_TERM_NEGATIVE; break;
    case ANYDNN_MUL:
        job.term = ADN_TERM_TIMES;
        job.role[job.inputs++] = of_a ? ANYDNN_B : ANYDNN_A;
        break;
    case ANYDNN_DIV:
        job.term = of_a ? ADN_TERM_OVER : ADN_TERM_QUOTIENT;
        if (!of_a) job.role[job.inputs++] = ANYDNN_A;
        job.role[job.inputs++] = ANYDNN_B;
        break;
    default:
        job.term = p->desc.binary.mode == ANYDNN_MAXIMUM ? (of_a ? ADN_TERM_MAX_A : ADN_TERM_MAX_B)
                                                         : (of_a ? ADN_TERM_MIN_A : ADN_TERM_MIN_B);
        job.role[job.inputs++] = ANYDNN_A;
        job.role[job.inputs++] = ANYDNN_B;
        break;
    }
    return job;
}

static bool plan_binary_backward(const struct adn_problem *p, const struct adn_device *device,
                                 struct adn_engine_plan *plan, struct adn_refusal *why)
{
    int i;
    for (i = 0; i < 2; i++) {
        const struct job job = gradient(p, i == 0);
        if (adn_tensor(p, job.out) && !add_job(p, device, plan, why, &job)) return false;
    }
    return true;
}

static bool plan_max_backward(const struct adn_problem *p, const struct adn_device *device,
                              struct adn_engine_plan *plan, struct adn_refusal *why)
{
    static const int roles[] = { ANYDNN_X, ANYDNN_DY, ANYDNN_DX };
    const anydnn_tensor *tensor[3];
    const struct adn_variant *variant;
    struct adn_reduce_max_backward_params q;
    struct adn_walk kept, reduced;
    struct adn_step *step;
    uint32_t axes;
    int i;
    memset(&q, 0, sizeof q);
    for (i = 0; i < 3; i++) tensor[i] = adn_tensor(p, roles[i]);
    variant = adn_find_variant(variants, VARIANTS, "reduce_max_backward", tensor[2]->dtype, NULL);
    if (!variant)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, ANYDNN_DX, "dtype", tensor[2]->dtype, ANYDNN_F32,
                          "no kernel for %s", anydnn_dtype_name(tensor[2]->dtype));
    axes = reduced_axes(tensor[0], tensor[1]);
    adn_walk_init(&kept, tensor[0], ~axes, 3, tensor, false);
    adn_walk_init(&reduced, tensor[0], axes, 3, tensor, true);
    adn_team_fill(&kept, &reduced, 3, &q.walk, q.stride);
    adn_team_split(&q.walk, 0, false, BLOCK, 8, device);
    if (kept.count == 0 || reduced.count == 0) q.walk.groups = 0;
    step = adn_add_step(plan, variant, adn_blocks(q.walk.groups, 1, device), &q, sizeof q);
    for (i = 0; i < 3; i++) adn_step_role(step, p, roles[i]);
    plan->cost_ns = adn_estimate_ns(device, 3.0 * (double)kept.count * (double)reduced.count *
                                                (double)anydnn_dtype_size(tensor[0]->dtype), 0.0, 1.0);
    return true;
}

static bool plan_any(const struct adn_problem *p, const struct adn_device *device, const char *params,
                     struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const struct job bias = { .role = { ANYDNN_DY }, .inputs = 1, .out = ANYDNN_DBIAS, .divisor = 1.0 };
    (void)params;
    if (device->info.max_block_threads < BLOCK)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, BLOCK,
                          "needs blocks of %d threads", (int)BLOCK);
    switch (p->def->op) {
    case ANYDNN_OP_REDUCE: return plan_reduce(p, device, plan, why);
    case ANYDNN_OP_CONV_BACKWARD_BIAS: return add_job(p, device, plan, why, &bias);
    case ANYDNN_OP_BINARY_BACKWARD: return plan_binary_backward(p, device, plan, why);
    default:
        if (p->desc.reduce.mode != ANYDNN_REDUCE_MAX)
            return adn_refuse(why, ANYDNN_REASON_FEATURE, 0, "mode", p->desc.reduce.mode, ANYDNN_REDUCE_MAX,
                              "sum and mean need no search: engine eltwise");
        return plan_max_backward(p, device, plan, why);
    }
}

static void bind_reduce(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                        void *params)
{
    const float alpha = (float)scalar[adn_slot(p, ANYDNN_ALPHA)], beta = (float)scalar[adn_slot(p, ANYDNN_BETA)];
    (void)plan, (void)step;
    if (p->def->op == ANYDNN_OP_REDUCE_BACKWARD) {
        struct adn_reduce_max_backward_params *q = params;
        q->alpha = alpha, q->beta = beta;
    } else {
        struct adn_reduce_params *q = params;
        q->alpha = alpha, q->beta = beta;
        q->skip = alpha == 0.0f;
    }
}

const struct adn_engine adn_engine_reduce = {
    .name = "reduce",
    .ops = ADN_OP_BIT(ANYDNN_OP_REDUCE) | ADN_OP_BIT(ANYDNN_OP_CONV_BACKWARD_BIAS) |
           ADN_OP_BIT(ANYDNN_OP_BINARY_BACKWARD) | ADN_OP_BIT(ANYDNN_OP_REDUCE_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_any,
    .bind = bind_reduce,
};
