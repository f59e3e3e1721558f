/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/optimizer_ref.c: SGD and Adam, element by element over any strides. Moments and parameters are computed
 * in double from their stored values and rounded once. */
#include "engines.h"

struct optimizer_job {
    struct adn_walk walk; /* param, grad, moment1, moment2 */
    struct adn_view param, grad, moment1, moment2;
    int nesterov, decoupled;
    double lr, momentum, weight_decay, beta1, beta2, epsilon;
    double correction1, correction2;
};

static void sgd_range(void *argument, int64_t first, int64_t last)
{
    const struct optimizer_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const int64_t p_at = r.at[0] + i * r.step[0], m_at = r.at[2] + i * r.step[2];
            const double p = adn_get(&job->param, p_at);
            double g = adn_get(&job->grad, r.at[1] + i * r.step[1]) + job->weight_decay * p;
            if (job->moment1.t) {
                const double m = job->momentum * adn_get(&job->moment1, m_at) + g;
                adn_put(&job->moment1, m_at, m);
                g = job->nesterov ? g + job->momentum * m : m;
            }
            adn_put(&job->param, p_at, p - job->lr * g);
        }
}

static void adam_range(void *argument, int64_t first, int64_t last)
{
    const struct optimizer_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const int64_t p_at = r.at[0] + i * r.step[0], m1_at = r.at[2] + i * r.step[2];
            const int64_t m2_at = r.at[3] + i * r.step[3];
            double p = adn_get(&job->param, p_at), g = adn_get(&job->grad, r.at[1] + i * r.step[1]), m1, m2;
            if (job->decoupled)
                p -= job->lr * job->weight_decay * p;
            else
                g += job->weight_decay * p;
            m1 = job->beta1 * adn_get(&job->moment1, m1_at) + (1 - job->beta1) * g;
            m2 = job->beta2 * adn_get(&job->moment2, m2_at) + (1 - job->beta2) * g * g;
            adn_put(&job->moment1, m1_at, m1);
            adn_put(&job->moment2, m2_at, m2);
            adn_put(&job->param, p_at,
                    p - job->lr * (m1 / job->correction1) / (sqrt(m2 / job->correction2) + job->epsilon));
        }
}

static anydnn_status optimizer_run(const anydnn_plan *plan, anydnn_stream *stream,
                                   const struct adn_arguments *arguments)
{
    const int adam = plan->problem.desc.head.op == ANYDNN_OP_ADAM;
    struct optimizer_job job;
    const struct adn_view *views[] = { &job.param, &job.grad, &job.moment1, &job.moment2 };
    double step;
    memset(&job, 0, sizeof job);
    job.param = adn_view_of(plan, arguments, ANYDNN_PARAM);
    job.grad = adn_view_of(plan, arguments, ANYDNN_GRAD);
    job.moment1 = adn_view_of(plan, arguments, ANYDNN_MOMENT1);
    job.moment2 = adn_view_of(plan, arguments, ANYDNN_MOMENT2);
    job.nesterov = plan->problem.desc.optimizer.nesterov;
    job.decoupled = plan->problem.desc.optimizer.decoupled;
    job.lr = adn_scalar(plan, arguments, ANYDNN_LR, 0.001);
    job.momentum = adn_scalar(plan, arguments, ANYDNN_MOMENTUM, 0);
    job.weight_decay = adn_scalar(plan, arguments, ANYDNN_WEIGHT_DECAY, 0);
    job.beta1 = adn_scalar(plan, arguments, ANYDNN_BETA1, 0.9);
    job.beta2 = adn_scalar(plan, arguments, ANYDNN_BETA2, 0.999);
    job.epsilon = adn_scalar(plan, arguments, ANYDNN_EPSILON, 1e-8);
    step = (double)adn_scalar_i64(plan, arguments, ANYDNN_STEP, 1);
    job.correction1 = 1 - pow(job.beta1, step);
    job.correction2 = 1 - pow(job.beta2, step);
    adn_walk_views(&job.walk, job.param.t, ~0u, false, 4, views);
    adn_pool_for(adn_stream_pool(stream), job.walk.count, adam ? 20 : 8, adam ? adam_range : sgd_range, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_optimizer_ref = {
    .name = "optimizer_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_SGD) | ADN_OP_BIT(ANYDNN_OP_ADAM),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = optimizer_run,
};
