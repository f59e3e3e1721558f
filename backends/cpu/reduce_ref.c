/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/reduce_ref.c: reduction over a set of axes, and its gradient. Forward: an output element walks its part
 * of x in memory order (sums) and is rounded once. Backward of sum and mean: elementwise; of max: for each dy the first
 * largest element is searched in row-major order, then its part of dx is written. */
#include "engines.h"

struct reduce_job {
    struct adn_walk outer, inner; /* tensors: x or dx, y or dy, x */
    struct adn_view x, y, dx;
    int mode;
    double alpha, beta, scale;
};

static bool selects(int mode)
{
    return mode == ANYDNN_REDUCE_MAX || mode == ANYDNN_REDUCE_MIN || mode == ANYDNN_REDUCE_AMAX;
}

/* What an element counts as; the minimum is the maximum of negatives. */
static double term_of(int mode, double v)
{
    switch (mode) {
    case ANYDNN_REDUCE_MIN:
        return -v;
    case ANYDNN_REDUCE_AMAX:
    case ANYDNN_REDUCE_NORM1:
        return fabs(v);
    case ANYDNN_REDUCE_NORM2:
        return v * v;
    default:
        return v;
    }
}

static double finish(const struct reduce_job *job, double joined)
{
    switch (job->mode) {
    case ANYDNN_REDUCE_MEAN:
        return joined / (double)job->inner.count;
    case ANYDNN_REDUCE_MIN:
        return -joined;
    case ANYDNN_REDUCE_NORM2:
        return sqrt(joined);
    default:
        return joined;
    }
}

static double reduce_part(const struct reduce_job *job, int64_t at)
{
    const bool select = selects(job->mode);
    double result = select && job->mode != ANYDNN_REDUCE_AMAX ? -INFINITY : 0;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double v = term_of(job->mode, adn_get(&job->x, at + r.at[0] + i * r.step[0]));
            if (!select)
                result += v;
            else if (v > result || v != v)
                result = v;
            else if (result != result)
                return result;
        }
    return finish(job, result);
}

static void reduce_range(void *argument, int64_t first, int64_t last)
{
    const struct reduce_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->outer, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++)
            adn_put_scaled(&job->y, r.at[1] + i * r.step[1], job->alpha * reduce_part(job, r.at[0] + i * r.step[0]),
                           job->beta);
}

static void reduce(anydnn_stream *stream, struct reduce_job *job)
{
    const struct adn_view *views[] = { &job->x, &job->y };
    const uint32_t kept = adn_axes_kept(job->y.t, job->x.t);
    if (adn_is_empty(job->y.t)) return;
    if (job->alpha == 0) {
        adn_rescale(stream, &job->y, job->beta);
        return;
    }
    adn_walk_views(&job->outer, job->y.t, kept, false, 2, views);
    adn_walk_views(&job->inner, job->x.t, ~kept, selects(job->mode), 1, views);
    adn_pool_for(adn_stream_pool(stream), job->outer.count, 20 + 2 * (double)job->inner.count, reduce_range, job);
}

void adn_reduce_sum(anydnn_stream *stream, const struct adn_view *x, const struct adn_view *y, double alpha,
                    double beta)
{
    struct reduce_job job;
    memset(&job, 0, sizeof job);
    job.x = *x;
    job.y = *y;
    job.mode = ANYDNN_REDUCE_SUM;
    job.alpha = alpha;
    job.beta = beta;
    reduce(stream, &job);
}

/* dx = scale * dy, element by element. */
static void spread_range(void *argument, int64_t first, int64_t last)
{
    const struct reduce_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->outer, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++)
            adn_put_scaled(&job->dx, r.at[0] + i * r.step[0],
                           job->alpha * (adn_get(&job->y, r.at[1] + i * r.step[1]) / job->scale), job->beta);
}

/* Number of the first largest element of a part; the first NaN wins. */
static int64_t winner_of(const struct reduce_job *job, int64_t at)
{
    int64_t winner = 0, i;
    double best = -INFINITY;
    struct adn_rows r;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double v = adn_get(&job->x, at + r.at[1] + i * r.step[1]);
            if (v != v) return r.number + i;
            if (v > best) {
                best = v;
                winner = r.number + i;
            }
        }
    return winner;
}

static void max_range(void *argument, int64_t first, int64_t last)
{
    const struct reduce_job *job = argument;
    struct adn_rows o, r;
    int64_t i, k;
    for (adn_rows_begin(&o, &job->outer, first, last); o.run; adn_rows_next(&o))
        for (k = 0; k < o.run; k++) {
            const int64_t dx_at = o.at[0] + k * o.step[0];
            const int64_t winner = winner_of(job, o.at[2] + k * o.step[2]);
            const double dy = job->alpha * adn_get(&job->y, o.at[1] + k * o.step[1]);
            for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
                for (i = 0; i < r.run; i++)
                    adn_put_scaled(&job->dx, dx_at + r.at[0] + i * r.step[0], r.number + i == winner ? dy : 0,
                                   job->beta);
        }
}

static void reduce_backward(anydnn_stream *stream, struct reduce_job *job)
{
    const struct adn_view *outer[] = { &job->dx, &job->y, &job->x }, *inner[] = { &job->dx, &job->x };
    const uint32_t kept = adn_axes_kept(job->y.t, job->dx.t);
    struct adn_pool *pool = adn_stream_pool(stream);
    if (adn_is_empty(job->dx.t)) return;
    if (job->alpha == 0) {
        adn_rescale(stream, &job->dx, job->beta);
    } else if (job->mode == ANYDNN_REDUCE_MAX) {
        adn_walk_views(&job->outer, job->y.t, kept, false, 3, outer);
        adn_walk_views(&job->inner, job->dx.t, ~kept, true, 2, inner);
        adn_pool_for(pool, job->outer.count, 20 + 4 * (double)job->inner.count, max_range, job);
    } else {
        job->scale = 1;
        if (job->mode == ANYDNN_REDUCE_MEAN)
            job->scale = (double)(anydnn_tensor_count(job->dx.t) / anydnn_tensor_count(job->y.t));
        adn_walk_views(&job->outer, job->dx.t, ~0u, false, 2, outer);
        adn_pool_for(pool, job->outer.count, 4, spread_range, job);
    }
}

static anydnn_status reduce_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const int backward = plan->problem.desc.head.op == ANYDNN_OP_REDUCE_BACKWARD;
    struct reduce_job job;
    memset(&job, 0, sizeof job);
    job.x = adn_view_of(plan, arguments, ANYDNN_X);
    job.y = adn_view_of(plan, arguments, backward ? ANYDNN_DY : ANYDNN_Y);
    job.dx = adn_view_of(plan, arguments, ANYDNN_DX);
    job.mode = plan->problem.desc.reduce.mode;
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    if (backward)
        reduce_backward(stream, &job);
    else
        reduce(stream, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_reduce_ref = {
    .name = "reduce_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_REDUCE) | ADN_OP_BIT(ANYDNN_OP_REDUCE_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = reduce_run,
};
