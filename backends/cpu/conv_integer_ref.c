/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/conv_integer_ref.c: forward convolution of 8-bit integers: exact sums in 32 bits that wrap, then the
 * steps of ops.h in f32, one rounding each, so that every backend can give the same bits. A work item is one row of
 * outputs along the last spatial axis. */
#include "engines.h"

struct integer_job {
    struct adn_conv_geometry g;
    struct adn_view x, w, bias, z, scales, y;
    int32_t x_zero;
    int activation;
    float alpha, beta, alpha2, coef, y_zero;
};

static int32_t x_at(const struct integer_job *job, int64_t offset)
{
    return (job->x.dtype == ANYDNN_I8 ? ((const int8_t *)job->x.data)[offset] : ((const uint8_t *)job->x.data)[offset]) -
           job->x_zero;
}

/* Products of one output; outside x they are 0. Unsigned, so that an overflow wraps. */
static uint32_t sum_of(const struct integer_job *job, int64_t n, int64_t k, const int64_t out[3])
{
    const struct adn_conv_geometry *g = &job->g;
    const int64_t cg = g->c / g->groups, first = k / (g->k / g->groups) * cg;
    const int8_t *w = (const void *)job->w.data;
    int64_t c, t, r, s;
    uint32_t sum = 0;
    for (t = 0; t < g->filter[0]; t++) {
        const int64_t d = out[0] * g->stride[0] - g->pad[0] + t * g->dilation[0];
        if (d < 0 || d >= g->in[0]) continue;
        for (r = 0; r < g->filter[1]; r++) {
            const int64_t h = out[1] * g->stride[1] - g->pad[1] + r * g->dilation[1];
            if (h < 0 || h >= g->in[1]) continue;
            for (s = 0; s < g->filter[2]; s++) {
                const int64_t v = out[2] * g->stride[2] - g->pad[2] + s * g->dilation[2];
                const int64_t ft = g->flip ? g->filter[0] - 1 - t : t, fr = g->flip ? g->filter[1] - 1 - r : r;
                const int64_t fs = g->flip ? g->filter[2] - 1 - s : s;
                const int64_t x = n * g->xs[0] + first * g->xs[1] + d * g->xs[2] + h * g->xs[3] + v * g->xs[4];
                const int64_t f = k * g->ws[0] + ft * g->ws[2] + fr * g->ws[3] + fs * g->ws[4];
                if (v < 0 || v >= g->in[2]) continue;
                for (c = 0; c < cg; c++)
                    sum += (uint32_t)(x_at(job, x + c * g->xs[1]) * (int32_t)w[f + c * g->ws[1]]);
            }
        }
    }
    return sum;
}

/* One statement a rounding: a compiler must not contract a product and a sum. */
static float value_of(const struct integer_job *job, int32_t sum, int64_t k, int64_t at, int64_t z_at)
{
    const struct adn_view *bias = &job->bias, *scales = &job->scales;
    float factor = job->alpha, v = (float)sum, term;
    if (scales->data) factor *= ((const float *)scales->data)[scales->t->dims[1] > 1 ? k * scales->t->strides[1] : 0];
    v *= factor;
    if (bias->data && bias->dtype == ANYDNN_F32)
        v += ((const float *)bias->data)[bias->t->dims[1] > 1 ? k * bias->t->strides[1] : 0];
    if (job->z.data && job->alpha2 != 0) {
        term = job->alpha2 * (float)adn_load(job->z.data, job->z.dtype, z_at);
        v += term;
    }
    if (job->beta != 0) {
        term = job->beta * (float)adn_load(job->y.data, job->y.dtype, at);
        v += term;
    }
    /* Products of floats are exact in double: one rounding here too. */
    return job->activation ? (float)adn_activated(job->activation - 1, (double)job->coef, (double)v) : v;
}

static void store(const struct integer_job *job, uint32_t sum, int64_t k, int64_t at, int64_t z_at)
{
    const struct adn_view *bias = &job->bias;
    int32_t whole;
    float v;
    if (bias->data && bias->dtype == ANYDNN_I32)
        sum += (uint32_t)((const int32_t *)bias->data)[bias->t->dims[1] > 1 ? k * bias->t->strides[1] : 0];
    memcpy(&whole, &sum, sizeof whole);
    if (job->y.dtype == ANYDNN_I32) {
        ((int32_t *)job->y.data)[at] = whole;
        return;
    }
    v = value_of(job, whole, k, at, z_at);
    if (job->y.dtype != ANYDNN_F32) v = (v != v ? 0.0f : rintf(v)) + job->y_zero;
    adn_store(job->y.data, job->y.dtype, at, v);
}

static void rows(void *argument, int64_t first, int64_t last)
{
    const struct integer_job *job = argument;
    const struct adn_conv_geometry *g = &job->g;
    int64_t item;
    for (item = first; item < last; item++) {
        int64_t out[3] = { item / g->out[1] % g->out[0], item % g->out[1], 0 };
        const int64_t k = item / g->out[1] / g->out[0] % g->k, n = item / g->out[1] / g->out[0] / g->k;
        const int64_t at = n * g->ys[0] + k * g->ys[1] + out[0] * g->ys[2] + out[1] * g->ys[3];
        const int64_t z_at = n * g->zs[0] + k * g->zs[1] + out[0] * g->zs[2] + out[1] * g->zs[3];
        for (; out[2] < g->out[2]; out[2]++)
            store(job, job->alpha != 0 ? sum_of(job, n, k, out) : 0, k, at + out[2] * g->ys[4], z_at + out[2] * g->zs[4]);
    }
}

anydnn_status adn_conv_integer(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    struct integer_job job = { .x_zero = (int32_t)adn_scalar(plan, arguments, ANYDNN_X_ZERO, 0) };
    const struct adn_conv_geometry *g = &job.g;
    adn_conv_geometry(&plan->problem, &job.g);
    job.x = adn_view_of(plan, arguments, ANYDNN_X);
    job.w = adn_view_of(plan, arguments, ANYDNN_W);
    job.bias = adn_view_of(plan, arguments, ANYDNN_BIAS);
    job.z = adn_view_of(plan, arguments, ANYDNN_Z);
    job.scales = adn_view_of(plan, arguments, ANYDNN_SCALES);
    job.y = adn_view_of(plan, arguments, ANYDNN_Y);
    job.activation = plan->problem.desc.conv.activation;
    job.alpha = (float)adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = (float)adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    job.alpha2 = (float)adn_scalar(plan, arguments, ANYDNN_ALPHA2, 1);
    job.coef = (float)adn_scalar(plan, arguments, ANYDNN_COEF, 0);
    job.y_zero = (float)adn_scalar(plan, arguments, ANYDNN_Y_ZERO, 0);
    adn_pool_for(adn_stream_pool(stream), g->n * g->k * g->out[0] * g->out[1],
                 (double)g->out[2] * (4 + (double)(g->c / g->groups * g->filter[0] * g->filter[1] * g->filter[2])), rows, &job);
    return ANYDNN_OK;
}
