/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/softmax_ref.c: softmax, log-softmax and their gradients over any set of axes. A work item is one row
 * (the elements along those axes): the largest element, the sum, then the outputs; nothing is stored between the
 * passes, so that y may lie on x and dx on dy. */
#include "engines.h"

struct softmax_job {
    struct adn_walk outer, inner; /* out, x or y, dy */
    struct adn_view out, in, dy;  /* backward: in = y */
    int log;
    double alpha, beta;
};

/* Largest element of the row at `at`; a NaN wins. */
static double row_max(const struct softmax_job *job, int64_t at)
{
    double max = -INFINITY;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double v = adn_get(&job->in, at + r.at[1] + i * r.step[1]);
            if (v != v) return v;
            if (v > max) max = v;
        }
    return max;
}

static double row_sum(const struct softmax_job *job, int64_t at, double max)
{
    double sum = 0;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) sum += exp(adn_get(&job->in, at + r.at[1] + i * r.step[1]) - max);
    return sum;
}

static void forward_row(const struct softmax_job *job, int64_t y_at, int64_t x_at)
{
    const double max = row_max(job, x_at), sum = row_sum(job, x_at, max), log_sum = log(sum);
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double x = adn_get(&job->in, x_at + r.at[1] + i * r.step[1]) - max;
            adn_put_scaled(&job->out, y_at + r.at[0] + i * r.step[0],
                           job->alpha * (job->log ? x - log_sum : exp(x) / sum), job->beta);
        }
}

static void backward_row(const struct softmax_job *job, int64_t dx_at, int64_t y_at, int64_t dy_at)
{
    double sum = 0;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double dy = adn_get(&job->dy, dy_at + r.at[2] + i * r.step[2]);
            sum += job->log ? dy : dy * adn_get(&job->in, y_at + r.at[1] + i * r.step[1]);
        }
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double y = adn_get(&job->in, y_at + r.at[1] + i * r.step[1]);
            const double dy = adn_get(&job->dy, dy_at + r.at[2] + i * r.step[2]);
            adn_put_scaled(&job->out, dx_at + r.at[0] + i * r.step[0],
                           job->alpha * (job->log ? dy - exp(y) * sum : y * (dy - sum)), job->beta);
        }
}

static void rows_range(void *argument, int64_t first, int64_t last)
{
    const struct softmax_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->outer, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const int64_t out = r.at[0] + i * r.step[0], in = r.at[1] + i * r.step[1];
            if (job->dy.t)
                backward_row(job, out, in, r.at[2] + i * r.step[2]);
            else
                forward_row(job, out, in);
        }
}

static anydnn_status softmax_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const int backward = plan->problem.desc.head.op == ANYDNN_OP_SOFTMAX_BACKWARD;
    const uint32_t axes = plan->problem.desc.softmax.axes;
    struct softmax_job job;
    const struct adn_view *views[] = { &job.out, &job.in, &job.dy };
    memset(&job, 0, sizeof job);
    job.out = adn_view_of(plan, arguments, backward ? ANYDNN_DX : ANYDNN_Y);
    job.in = adn_view_of(plan, arguments, backward ? ANYDNN_Y : ANYDNN_X);
    job.dy = adn_view_of(plan, arguments, ANYDNN_DY);
    job.log = plan->problem.desc.softmax.mode == ANYDNN_LOG_SOFTMAX;
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    if (job.alpha == 0) {
        adn_rescale(stream, &job.out, job.beta);
        return ANYDNN_OK;
    }
    adn_walk_views(&job.outer, job.out.t, ~axes, false, backward ? 3 : 2, views);
    adn_walk_views(&job.inner, job.out.t, axes, false, backward ? 3 : 2, views);
    adn_pool_for(adn_stream_pool(stream), job.outer.count, 40 + 25 * (double)job.inner.count, rows_range, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_softmax_ref = {
    .name = "softmax_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_SOFTMAX_FORWARD) | ADN_OP_BIT(ANYDNN_OP_SOFTMAX_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = softmax_run,
};
