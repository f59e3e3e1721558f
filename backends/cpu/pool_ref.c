/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/pool_ref.c: pooling over 1 to 3 spatial dimensions. Forward visits the window of each output; backward
 * gathers, for each input, dy of the windows that cover it (for max without indices it repeats each window's search),
 * so that every element is summed in double in a fixed order and written once. */
#include "engines.h"

struct pool_job {
    struct adn_conv_geometry g;
    struct adn_view x, y, dx, indices; /* backward: dy is called y */
    int mode;
    int64_t is[5], dxs[5]; /* strides of indices and dx; g.xs are those of x */
    double alpha, beta;
};

/* Cells of one window along one axis: taps from..to-1 are inside the input, padded counts those inside the padding. */
struct span {
    int64_t begin, from, to, padded;
};

static struct span span_of(const struct adn_conv_geometry *g, int axis, int64_t o)
{
    const int64_t step = g->dilation[axis], size = g->filter[axis];
    struct span span = { o * g->stride[axis] - g->pad[axis], 0, 0, 0 };
    const int64_t room = g->in[axis] - span.begin, padded = room + g->pad_end[axis];
    span.from = span.begin < 0 ? (-span.begin + step - 1) / step : 0;
    span.to = room <= 0 ? 0 : (room + step - 1) / step;
    if (span.to > size) span.to = size;
    span.padded = padded <= 0 ? 0 : (padded + step - 1) / step;
    if (span.padded > size) span.padded = size;
    return span;
}

struct window {
    struct span span[3];
    int64_t divisor;
};

static struct window window_of(const struct pool_job *job, int64_t o, int64_t p, int64_t q)
{
    const int64_t at[3] = { o, p, q };
    struct window w = { .divisor = 1 };
    int i;
    for (i = 0; i < 3; i++) {
        const struct span *s = &w.span[i];
        w.span[i] = span_of(&job->g, i, at[i]);
        w.divisor *= job->mode == ANYDNN_POOL_AVG_INCLUDE ? s->padded : s->to > s->from ? s->to - s->from : 0;
    }
    return w;
}

/* Largest element (max) or sum of the window of plane x_at; *winner = its row-major place in the plane, -1 if the
 * window meets no element. */
static double search(const struct pool_job *job, const struct window *w, int64_t x_at, int64_t *winner)
{
    const struct adn_conv_geometry *g = &job->g;
    double result = job->mode == ANYDNN_POOL_MAX ? -INFINITY : 0;
    int64_t t, r, s;
    *winner = -1;
    for (t = w->span[0].from; t < w->span[0].to; t++)
        for (r = w->span[1].from; r < w->span[1].to; r++)
            for (s = w->span[2].from; s < w->span[2].to; s++) {
                const int64_t d = w->span[0].begin + t * g->dilation[0], h = w->span[1].begin + r * g->dilation[1];
                const int64_t c = w->span[2].begin + s * g->dilation[2];
                const double v = adn_get(&job->x, x_at + d * g->xs[2] + h * g->xs[3] + c * g->xs[4]);
                if (job->mode != ANYDNN_POOL_MAX) {
                    result += v;
                } else if (*winner < 0 || v > result || (v != v && result == result)) {
                    result = v;
                    *winner = (d * g->in[1] + h) * g->in[2] + c;
                }
            }
    return result;
}

/* Splits an element number into five coordinates of shape {n, c, size[0..2]}. */
static void coordinates(const struct adn_conv_geometry *g, const int64_t size[3], int64_t item, int64_t at[5])
{
    int i;
    for (i = 2; i >= 0; i--) {
        at[2 + i] = item % size[i];
        item /= size[i];
    }
    at[1] = item % g->c;
    at[0] = item / g->c;
}

static int64_t offset5(const int64_t strides[5], const int64_t at[5])
{
    return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3] + at[4] * strides[4];
}

static void forward_range(void *argument, int64_t first, int64_t last)
{
    const struct pool_job *job = argument;
    const struct adn_conv_geometry *g = &job->g;
    int64_t item, at[5], winner;
    for (item = first; item < last; item++) {
        struct window w;
        double v;
        coordinates(g, g->out, item, at);
        w = window_of(job, at[2], at[3], at[4]);
        v = search(job, &w, at[0] * g->xs[0] + at[1] * g->xs[1], &winner);
        if (job->mode != ANYDNN_POOL_MAX) v /= (double)w.divisor;
        adn_put_scaled(&job->y, offset5(g->ys, at), job->alpha == 0 ? 0 : job->alpha * v, job->beta);
        if (job->indices.t) ((int32_t *)(void *)job->indices.data)[offset5(job->is, at)] = (int32_t)winner;
    }
}

/* What the window of output at[] gives to the input element number `place` of its plane. */
static double share(const struct pool_job *job, const int64_t at[5], int64_t place)
{
    const struct adn_conv_geometry *g = &job->g;
    const double dy = adn_get(&job->y, offset5(g->ys, at));
    struct window w;
    int64_t winner;
    if (job->mode == ANYDNN_POOL_MAX && job->indices.t)
        return ((const int32_t *)(const void *)job->indices.data)[offset5(job->is, at)] == place ? dy : 0;
    w = window_of(job, at[2], at[3], at[4]);
    if (job->mode != ANYDNN_POOL_MAX) return dy / (double)w.divisor;
    search(job, &w, at[0] * g->xs[0] + at[1] * g->xs[1], &winner);
    return winner == place ? dy : 0;
}

/* Output whose window's tap r lies on input i; -1 if there is none. */
static int64_t covering(const struct adn_conv_geometry *g, int axis, int64_t i, int64_t r)
{
    const int64_t at = i + g->pad[axis] - r * g->dilation[axis];
    if (at < 0 || at % g->stride[axis] != 0 || at / g->stride[axis] >= g->out[axis]) return -1;
    return at / g->stride[axis];
}

static double gather(const struct pool_job *job, const int64_t in[5])
{
    const struct adn_conv_geometry *g = &job->g;
    const int64_t place = (in[2] * g->in[1] + in[3]) * g->in[2] + in[4];
    int64_t at[5] = { in[0], in[1], 0, 0, 0 }, t, r, s;
    double sum = 0;
    for (t = g->filter[0] - 1; t >= 0; t--) {
        if ((at[2] = covering(g, 0, in[2], t)) < 0) continue;
        for (r = g->filter[1] - 1; r >= 0; r--) {
            if ((at[3] = covering(g, 1, in[3], r)) < 0) continue;
            for (s = g->filter[2] - 1; s >= 0; s--)
                if ((at[4] = covering(g, 2, in[4], s)) >= 0) sum += share(job, at, place);
        }
    }
    return sum;
}

static void backward_range(void *argument, int64_t first, int64_t last)
{
    const struct pool_job *job = argument;
    int64_t item, at[5];
    for (item = first; item < last; item++) {
        coordinates(&job->g, job->g.in, item, at);
        adn_put_scaled(&job->dx, offset5(job->dxs, at), job->alpha * gather(job, at), job->beta);
    }
}

/* Strides of N, C, D, H, W of a tensor of one to three spatial dims. */
static void spread_strides(const anydnn_tensor *t, int64_t strides[5])
{
    int i;
    if (!t) return;
    strides[0] = t->strides[0];
    strides[1] = t->strides[1];
    for (i = 2; i < t->ndim; i++) strides[5 - t->ndim + i] = t->strides[i];
}

static anydnn_status pool_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const int backward = plan->problem.desc.head.op == ANYDNN_OP_POOL_BACKWARD;
    struct adn_pool *pool = adn_stream_pool(stream);
    const struct adn_view *out;
    struct pool_job job;
    double cells;
    memset(&job, 0, sizeof job);
    adn_pool_geometry(&plan->problem, &job.g);
    job.mode = plan->problem.desc.pool.mode;
    job.x = adn_view_of(plan, arguments, ANYDNN_X);
    job.y = adn_view_of(plan, arguments, backward ? ANYDNN_DY : ANYDNN_Y);
    job.dx = adn_view_of(plan, arguments, ANYDNN_DX);
    job.indices = adn_view_of(plan, arguments, ANYDNN_INDICES);
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    spread_strides(job.indices.t, job.is);
    spread_strides(job.x.t, job.g.xs);
    spread_strides(job.dx.t, job.dxs);
    out = backward ? &job.dx : &job.y;
    cells = (double)job.g.filter[0] * (double)job.g.filter[1] * (double)job.g.filter[2];
    if (adn_is_empty(out->t)) return ANYDNN_OK;
    if (job.alpha == 0 && (backward || !job.indices.t))
        adn_rescale(stream, out, job.beta);
    else
        adn_pool_for(pool, anydnn_tensor_count(out->t), 50 + 4 * cells, backward ? backward_range : forward_range,
                     &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_pool_ref = {
    .name = "pool_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_POOL_FORWARD) | ADN_OP_BIT(ANYDNN_OP_POOL_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = pool_run,
};
