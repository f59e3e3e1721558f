/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/activation_ref.c: activations and their gradients, element by element over any strides. coef is rounded
 * to f32 unless the data is f64, so that thresholds compare as on every device. */
#include "engines.h"

struct activation_job {
    struct adn_walk walk;          /* out, in, from */
    struct adn_view out, in, from; /* backward: dx, dy and x or y */
    int mode, by_output;           /* 1: `from` is y where that matters */
    double coef, alpha, beta;
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double adn_activated(int mode, double coef, double x)
{
    switch (mode) {
    case ANYDNN_RELU:
        return x < 0 ? 0 : x;
    case ANYDNN_LEAKY_RELU:
        return x < 0 ? coef * x : x;
    case ANYDNN_CLIPPED_RELU:
        return x < 0 ? 0 : x > coef ? coef : x;
    case ANYDNN_SIGMOID:
        return sigmoid(x);
    default:
        return tanh(x);
    }
}

/* f' from v, which is x or y. */
static double slope_of(const struct activation_job *job, double v)
{
    if (v != v) return v;
    switch (job->mode) {
    case ANYDNN_RELU:
        return v > 0;
    case ANYDNN_LEAKY_RELU:
        return v > 0 ? 1 : job->coef;
    case ANYDNN_CLIPPED_RELU:
        return v > 0 && v < job->coef;
    case ANYDNN_SIGMOID:
        return job->by_output ? v * (1 - v) : sigmoid(v) * sigmoid(-v);
    default:
        v = job->by_output ? v : tanh(v);
        return 1 - v * v;
    }
}

static void forward_range(void *argument, int64_t first, int64_t last)
{
    const struct activation_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double x = adn_get(&job->in, r.at[1] + i * r.step[1]);
            adn_put_scaled(&job->out, r.at[0] + i * r.step[0], job->alpha * adn_activated(job->mode, job->coef, x),
                           job->beta);
        }
}

static void backward_range(void *argument, int64_t first, int64_t last)
{
    const struct activation_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double dy = adn_get(&job->in, r.at[1] + i * r.step[1]);
            const double slope = slope_of(job, adn_get(&job->from, r.at[2] + i * r.step[2]));
            adn_put_scaled(&job->out, r.at[0] + i * r.step[0], job->alpha * (slope * dy), job->beta);
        }
}

/* Sigmoid and tanh take y where it is bound, the others x. */
static void choose_source(const anydnn_plan *plan, const struct adn_arguments *arguments, struct activation_job *job)
{
    const struct adn_view x = adn_view_of(plan, arguments, ANYDNN_X), y = adn_view_of(plan, arguments, ANYDNN_Y);
    const int prefer_output = job->mode == ANYDNN_SIGMOID || job->mode == ANYDNN_TANH;
    job->by_output = y.t && (prefer_output || !x.t);
    job->from = job->by_output ? y : x;
}

static anydnn_status activation_run(const anydnn_plan *plan, anydnn_stream *stream,
                                    const struct adn_arguments *arguments)
{
    const int backward = plan->problem.desc.head.op == ANYDNN_OP_ACTIVATION_BACKWARD;
    struct activation_job job;
    const struct adn_view *views[] = { &job.out, &job.in, &job.from };
    memset(&job, 0, sizeof job);
    job.out = adn_view_of(plan, arguments, backward ? ANYDNN_DX : ANYDNN_Y);
    job.in = adn_view_of(plan, arguments, backward ? ANYDNN_DY : ANYDNN_X);
    job.mode = plan->problem.desc.activation.mode;
    job.coef = adn_scalar(plan, arguments, ANYDNN_COEF, 0);
    if (job.out.dtype != ANYDNN_F64) job.coef = (double)(float)job.coef;
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    if (backward) choose_source(plan, arguments, &job);
    if (backward && job.mode == ANYDNN_LEAKY_RELU && job.by_output && !(job.coef >= 0))
        return adn_fail(ANYDNN_INVALID, "coef is %g; accepted: 0 or more where leaky_relu goes back from y", job.coef);
    if (job.alpha == 0) {
        adn_rescale(stream, &job.out, job.beta);
        return ANYDNN_OK;
    }
    adn_walk_views(&job.walk, job.out.t, ~0u, false, backward ? 3 : 2, views);
    adn_pool_for(adn_stream_pool(stream), job.walk.count, job.mode < ANYDNN_SIGMOID ? 4 : 20,
                 backward ? backward_range : forward_range, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_activation_ref = {
    .name = "activation_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_ACTIVATION_FORWARD) | ADN_OP_BIT(ANYDNN_OP_ACTIVATION_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = activation_run,
};
