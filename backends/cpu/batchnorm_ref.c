/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/batchnorm_ref.c: batch normalisation: training, inference, gradients. A work item is one parameter (a
 * channel, or a channel at a position): mean, then variance around it, then the outputs, each a pass over its elements.
 * Parameters may have any strides; outputs may lie on the inputs named in ops.h. */
#include "engines.h"

struct norm_job {
    struct adn_walk inner; /* x, out, dy */
    struct adn_view x, dy, out, gamma, shift, running_mean, running_var, saved_mean, saved_invstd, dgamma, dshift;
    uint32_t outer_axes;
    double alpha, beta, epsilon, factor, n, param_alpha, param_beta;
    int training;
};

static int64_t at_parameter(const struct adn_view *view, int64_t number)
{
    return adn_offset_of(view->t, view->t, ~0u, number);
}

static double parameter(const struct adn_view *view, int64_t number)
{
    return adn_get(view, at_parameter(view, number));
}

static void write_parameter(const struct adn_view *view, int64_t number, double v)
{
    if (view->t) adn_put(view, at_parameter(view, number), v);
}

static void add_gradient(const struct norm_job *job, const struct adn_view *view, int64_t number, double v)
{
    adn_put_scaled(view, at_parameter(view, number), job->param_alpha == 0 ? 0 : job->param_alpha * v, job->param_beta);
}

static int64_t at_element(const struct norm_job *job, const struct adn_view *view, int64_t number)
{
    return view->t ? adn_offset_of(view->t, job->x.t, job->outer_axes, number) : 0;
}

static double mean_of(const struct norm_job *job, int64_t at)
{
    double sum = 0;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) sum += adn_get(&job->x, at + r.at[0] + i * r.step[0]);
    return job->n > 0 ? sum / job->n : 0;
}

static double variance_of(const struct norm_job *job, int64_t at, double mean)
{
    double sum = 0;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double d = adn_get(&job->x, at + r.at[0] + i * r.step[0]) - mean;
            sum += d * d;
        }
    return job->n > 0 ? sum / job->n : 0;
}

/* running = (1 - factor) * running + factor * statistic. */
static void move_running(const struct norm_job *job, int64_t number, double mean, double variance)
{
    const double unbiased = job->n > 1 ? variance * (job->n / (job->n - 1)) : 0, f = job->factor;
    if (!job->running_mean.t || job->n == 0) return;
    write_parameter(&job->running_mean, number, (1 - f) * parameter(&job->running_mean, number) + f * mean);
    write_parameter(&job->running_var, number, (1 - f) * parameter(&job->running_var, number) + f * unbiased);
}

static void forward_range(void *argument, int64_t first, int64_t last)
{
    const struct norm_job *job = argument;
    int64_t number, i;
    for (number = first; number < last; number++) {
        const int64_t x_at = at_element(job, &job->x, number), y_at = at_element(job, &job->out, number);
        const double mean = job->training ? mean_of(job, x_at) : parameter(&job->running_mean, number);
        const double var = job->training ? variance_of(job, x_at, mean) : parameter(&job->running_var, number);
        const double invstd = 1 / sqrt(var + job->epsilon);
        const double gamma = parameter(&job->gamma, number), shift = parameter(&job->shift, number);
        struct adn_rows r;
        if (job->training) {
            write_parameter(&job->saved_mean, number, mean);
            write_parameter(&job->saved_invstd, number, invstd);
            move_running(job, number, mean, var);
        }
        for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
            for (i = 0; i < r.run; i++) {
                double v = 0;
                if (job->alpha != 0)
                    v = job->alpha *
                        (gamma * (adn_get(&job->x, x_at + r.at[0] + i * r.step[0]) - mean) * invstd + shift);
                adn_put_scaled(&job->out, y_at + r.at[1] + i * r.step[1], v, job->beta);
            }
    }
}

/* Sums of dy and dy * (x - mean) * invstd. */
static void gradient_sums(const struct norm_job *job, int64_t x_at, int64_t dy_at, double mean, double invstd,
                          double *dshift, double *dgamma)
{
    struct adn_rows r;
    int64_t i;
    *dshift = *dgamma = 0;
    for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const double dy = adn_get(&job->dy, dy_at + r.at[2] + i * r.step[2]);
            *dshift += dy;
            *dgamma += dy * ((adn_get(&job->x, x_at + r.at[0] + i * r.step[0]) - mean) * invstd);
        }
}

static void backward_range(void *argument, int64_t first, int64_t last)
{
    const struct norm_job *job = argument;
    int64_t number, i;
    for (number = first; number < last; number++) {
        const int64_t x_at = at_element(job, &job->x, number), dx_at = at_element(job, &job->out, number);
        const int64_t dy_at = at_element(job, &job->dy, number);
        const double mean = job->saved_mean.t ? parameter(&job->saved_mean, number) : mean_of(job, x_at);
        const double invstd = job->saved_invstd.t ? parameter(&job->saved_invstd, number)
                                                  : 1 / sqrt(variance_of(job, x_at, mean) + job->epsilon);
        const double scale = job->alpha * parameter(&job->gamma, number) * invstd;
        double dshift, dgamma;
        struct adn_rows r;
        gradient_sums(job, x_at, dy_at, mean, invstd, &dshift, &dgamma);
        add_gradient(job, &job->dshift, number, dshift);
        add_gradient(job, &job->dgamma, number, dgamma);
        for (adn_rows_begin(&r, &job->inner, 0, job->inner.count); r.run; adn_rows_next(&r))
            for (i = 0; i < r.run; i++) {
                double v = 0;
                if (job->alpha != 0) {
                    const double x_hat = (adn_get(&job->x, x_at + r.at[0] + i * r.step[0]) - mean) * invstd;
                    v = scale * (adn_get(&job->dy, dy_at + r.at[2] + i * r.step[2]) - dshift / job->n -
                                 x_hat * (dgamma / job->n));
                }
                adn_put_scaled(&job->out, dx_at + r.at[1] + i * r.step[1], v, job->beta);
            }
    }
}

static anydnn_status batchnorm_run(const anydnn_plan *plan, anydnn_stream *stream,
                                   const struct adn_arguments *arguments)
{
    const int op = plan->problem.desc.head.op, backward = op == ANYDNN_OP_BATCHNORM_BACKWARD;
    struct norm_job job;
    const struct adn_view *views[] = { &job.x, &job.out, &job.dy };
    memset(&job, 0, sizeof job);
    job.x = adn_view_of(plan, arguments, ANYDNN_X);
    job.dy = adn_view_of(plan, arguments, ANYDNN_DY);
    job.out = adn_view_of(plan, arguments, backward ? ANYDNN_DX : ANYDNN_Y);
    job.gamma = adn_view_of(plan, arguments, ANYDNN_GAMMA);
    job.shift = adn_view_of(plan, arguments, ANYDNN_SHIFT);
    job.running_mean = adn_view_of(plan, arguments, ANYDNN_RUNNING_MEAN);
    job.running_var = adn_view_of(plan, arguments, ANYDNN_RUNNING_VAR);
    job.saved_mean = adn_view_of(plan, arguments, ANYDNN_SAVED_MEAN);
    job.saved_invstd = adn_view_of(plan, arguments, ANYDNN_SAVED_INVSTD);
    job.dgamma = adn_view_of(plan, arguments, ANYDNN_DGAMMA);
    job.dshift = adn_view_of(plan, arguments, ANYDNN_DSHIFT);
    job.training = op == ANYDNN_OP_BATCHNORM_TRAINING;
    job.outer_axes = plan->problem.desc.batchnorm.mode == ANYDNN_BATCHNORM_SPATIAL ? 2u : ~1u;
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    job.epsilon = adn_scalar(plan, arguments, ANYDNN_EPSILON, 1e-5);
    job.factor = adn_scalar(plan, arguments, ANYDNN_FACTOR, 0.1);
    job.param_alpha = adn_scalar(plan, arguments, ANYDNN_PARAM_ALPHA, 1);
    job.param_beta = adn_scalar(plan, arguments, ANYDNN_PARAM_BETA, 0);
    adn_walk_views(&job.inner, job.x.t, ~job.outer_axes, false, 3, views);
    job.n = (double)job.inner.count;
    adn_pool_for(adn_stream_pool(stream), anydnn_tensor_count(job.gamma.t), 100 + 8 * job.n,
                 backward ? backward_range : forward_range, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_batchnorm_ref = {
    .name = "batchnorm_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_BATCHNORM_TRAINING) | ADN_OP_BIT(ANYDNN_OP_BATCHNORM_INFERENCE) |
           ADN_OP_BIT(ANYDNN_OP_BATCHNORM_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = batchnorm_run,
};
