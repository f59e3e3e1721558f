/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/dropout_ref.c: dropout and its gradient: the same map of another tensor. Elements are walked in
 * row-major order of their dims, because their number selects the random word. Comparison and product are in f32 (f64
 * data: the product in double), so that every device gives the same bits. */
#include "engines.h"
#include "common/index/philox.h"

struct dropout_job {
    struct adn_walk walk; /* out, in */
    struct adn_view out, in;
    uint64_t seed, offset;
    float ratio, scale;
    double scale64;
};

static void dropout_range(void *argument, int64_t first, int64_t last)
{
    const struct dropout_job *job = argument;
    struct adn_philox words = { { 0 } };
    int64_t block = -1, i;
    struct adn_rows r;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const int64_t number = r.number + i;
            const double x = adn_get(&job->in, r.at[1] + i * r.step[1]);
            double v = 0;
            if (number / 4 != block) {
                const uint64_t low = job->offset + (uint64_t)(number / 4);
                block = number / 4;
                words = adn_philox4x32(low, low < job->offset, job->seed);
            }
            if ((float)(words.word[number % 4] >> 8) * 0x1p-24f >= job->ratio)
                v = job->out.dtype == ANYDNN_F64 ? x * job->scale64 : (double)((float)x * job->scale);
            adn_put(&job->out, r.at[0] + i * r.step[0], v);
        }
}

static anydnn_status dropout_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const int backward = plan->problem.desc.head.op == ANYDNN_OP_DROPOUT_BACKWARD;
    const double ratio = adn_scalar(plan, arguments, ANYDNN_RATIO, 0.5);
    struct dropout_job job;
    const struct adn_view *views[] = { &job.out, &job.in };
    memset(&job, 0, sizeof job);
    job.out = adn_view_of(plan, arguments, backward ? ANYDNN_DX : ANYDNN_Y);
    job.in = adn_view_of(plan, arguments, backward ? ANYDNN_DY : ANYDNN_X);
    job.seed = (uint64_t)adn_scalar_i64(plan, arguments, ANYDNN_SEED, 0);
    job.offset = (uint64_t)adn_scalar_i64(plan, arguments, ANYDNN_OFFSET, 0);
    job.ratio = (float)ratio;
    job.scale64 = 1 / (1 - ratio);
    job.scale = (float)job.scale64;
    adn_walk_views(&job.walk, job.out.t, ~0u, true, 2, views);
    adn_pool_for(adn_stream_pool(stream), job.walk.count, 10, dropout_range, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_dropout_ref = {
    .name = "dropout_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_DROPOUT_FORWARD) | ADN_OP_BIT(ANYDNN_OP_DROPOUT_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = dropout_run,
};
