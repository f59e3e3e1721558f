/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/binary_ref.c: binary operations with broadcasting, and their gradients. Forward goes element by element
 * of y. Backward: a work item is an element of da (or db), which walks over the elements of dy that it was broadcast
 * to. */
#include "engines.h"

struct binary_job {
    struct adn_walk outer, inner; /* forward: y, a, b; backward: out, dy, a, b */
    struct adn_view a, b, y, dy, out;
    int mode, second; /* second: the gradient of b */
    double alpha, alpha2, beta;
};

/* True when a is the result of maximum or minimum: a NaN wins, ties are a's. */
static int takes_first(int mode, double a, double b)
{
    if (a != a || b != b) return a != a;
    return mode == ANYDNN_MAXIMUM ? a >= b : a <= b;
}

static double apply(int mode, double a, double b)
{
    switch (mode) {
    case ANYDNN_ADD:
        return a + b;
    case ANYDNN_SUB:
        return a - b;
    case ANYDNN_MUL:
        return a * b;
    case ANYDNN_DIV:
        return a / b;
    default:
        return takes_first(mode, a, b) ? a : b;
    }
}

static void forward_range(void *argument, int64_t first, int64_t last)
{
    const struct binary_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->outer, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double a = job->alpha == 0 ? 0 : job->alpha * adn_get(&job->a, r.at[1] + i * r.step[1]);
            const double b = job->alpha2 == 0 ? 0 : job->alpha2 * adn_get(&job->b, r.at[2] + i * r.step[2]);
            adn_put_scaled(&job->y, r.at[0] + i * r.step[0], apply(job->mode, a, b), job->beta);
        }
}

/* Gradient of op(a, b) in a or b, times dy. */
static double slope(const struct binary_job *job, double dy, int64_t a_at, int64_t b_at)
{
    double a, b;
    if (job->mode == ANYDNN_ADD) return dy;
    if (job->mode == ANYDNN_SUB) return job->second ? -dy : dy;
    a = adn_get(&job->a, a_at);
    b = adn_get(&job->b, b_at);
    if (job->mode == ANYDNN_MUL) return dy * (job->second ? a : b);
    if (job->mode == ANYDNN_DIV) return job->second ? -dy * a / (b * b) : dy / b;
    return takes_first(job->mode, a, b) == !job->second ? dy : 0;
}

static void backward_range(void *argument, int64_t first, int64_t last)
{
    const struct binary_job *job = argument;
    struct adn_rows o, r;
    int64_t i, k;
    for (adn_rows_begin(&o, &job->outer, first, last); o.run; adn_rows_next(&o))
        for (k = 0; k < o.run; k++) {
            const int64_t dy_at = o.at[1] + k * o.step[1], a_at = o.at[2] + k * o.step[2];
            const int64_t b_at = o.at[3] + k * o.step[3];
            double sum = 0;
            for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
                for (i = 0; i < r.run; i++)
                    sum += slope(job, adn_get(&job->dy, dy_at + r.at[1] + i * r.step[1]),
                                 a_at + r.at[2] + i * r.step[2], b_at + r.at[3] + i * r.step[3]);
            adn_put_scaled(&job->out, o.at[0] + k * o.step[0], job->alpha * sum, job->beta);
        }
}

static void backward(anydnn_stream *stream, struct binary_job *job)
{
    const struct adn_view *views[] = { &job->out, &job->dy, &job->a, &job->b };
    uint32_t kept;
    if (!job->out.t || adn_is_empty(job->out.t)) return;
    if (job->alpha == 0) {
        adn_rescale(stream, &job->out, job->beta);
        return;
    }
    kept = adn_axes_kept(job->out.t, job->dy.t);
    adn_walk_views(&job->outer, job->dy.t, kept, false, 4, views);
    adn_walk_views(&job->inner, job->dy.t, ~kept, true, 4, views);
    adn_pool_for(adn_stream_pool(stream), job->outer.count, 20 + 6 * (double)job->inner.count, backward_range, job);
}

static anydnn_status binary_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    struct binary_job job;
    const struct adn_view *views[] = { &job.y, &job.a, &job.b };
    memset(&job, 0, sizeof job);
    job.a = adn_view_of(plan, arguments, ANYDNN_A);
    job.b = adn_view_of(plan, arguments, ANYDNN_B);
    job.y = adn_view_of(plan, arguments, ANYDNN_Y);
    job.dy = adn_view_of(plan, arguments, ANYDNN_DY);
    job.mode = plan->problem.desc.binary.mode;
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.alpha2 = adn_scalar(plan, arguments, ANYDNN_ALPHA2, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    if (plan->problem.desc.head.op == ANYDNN_OP_BINARY) {
        adn_walk_views(&job.outer, job.y.t, ~0u, false, 3, views);
        adn_pool_for(adn_stream_pool(stream), job.outer.count, 5, forward_range, &job);
        return ANYDNN_OK;
    }
    job.out = adn_view_of(plan, arguments, ANYDNN_DA);
    backward(stream, &job);
    job.out = adn_view_of(plan, arguments, ANYDNN_DB);
    job.second = 1;
    backward(stream, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_binary_ref = {
    .name = "binary_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_BINARY) | ADN_OP_BIT(ANYDNN_OP_BINARY_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = binary_run,
};
