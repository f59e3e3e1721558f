/* SPDX-License-Identifier: Apache-2.0
 * common/engines/pool.c: engine `pool`: max and average pooling, forward and backward, one thread for each element of
 * the output, without workspace.
 * Limits: f32, f16, bf16; axes, pads and dilated windows below 2^30. */
#include "plan_walk.h"
#include "pool_params.h"

#include <string.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "pool", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#include "pool.variants"
#undef ADN_VARIANT
};
enum { VARIANTS = sizeof variants / sizeof variants[0], AXIS_LIMIT = 1 << 30 };

/* Strides of N, C, D, H, W; axes that the tensor lacks get 0. */
static void strides_of(const anydnn_tensor *t, adn_i64 strides[5])
{
    const int rank = t ? t->ndim - 2 : 0;
    int i;
    if (!t) return;
    strides[0] = t->strides[0], strides[1] = t->strides[1];
    for (i = 0; i < rank; i++) strides[5 - rank + i] = t->strides[2 + i];
}

/* A stride that nothing steps by, and a dilation of one cell, may be of any length. */
static bool fill_axis(struct adn_pool_axis *axis, const struct adn_conv_geometry *g, int k, struct adn_refusal *why)
{
    const int64_t stride = g->out[k] > 1 ? g->stride[k] : 1, dilation = g->filter[k] > 1 ? g->dilation[k] : 1;
    const int64_t parts[] = { g->in[k], g->filter[k], stride, g->pad[k], g->pad_end[k], dilation };
    int64_t sum = 0;
    size_t i;
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sum += parts[i] < AXIS_LIMIT ? parts[i] : AXIS_LIMIT;
        if (sum >= AXIS_LIMIT)
            return adn_refuse(why, ANYDNN_REASON_SIZE, ANYDNN_X, "axis", parts[i], AXIS_LIMIT - 1,
                              "size, window, stride, pads and dilation of an axis exceed 2^30 together");
    }
    axis->in = (adn_i32)g->in[k], axis->out = (adn_i32)g->out[k], axis->window = (adn_i32)g->filter[k];
    axis->pad = (adn_i32)g->pad[k];
    axis->padded = (adn_i32)(g->pad[k] + g->in[k] + g->pad_end[k]);
    axis->reach = (adn_i32)((g->filter[k] - 1) * dilation);
    axis->stride = adn_divisor_of(stride);
    axis->dilation = adn_divisor_of(dilation);
    return true;
}

static bool fill(const struct adn_problem *p, struct adn_pool_params *params, struct adn_refusal *why)
{
    const bool forward = p->def->op == ANYDNN_OP_POOL_FORWARD;
    const anydnn_tensor *walked = adn_tensor(p, forward ? ANYDNN_Y : ANYDNN_DX);
    struct adn_conv_geometry g;
    int k;
    adn_pool_geometry(p, &g);
    params->count = anydnn_tensor_count(walked);
    for (k = 0; k < 3 && params->count > 0; k++) {
        if (!fill_axis(&params->axis[k], &g, k, why)) return false;
        params->size[k] = adn_divisor_of(forward ? g.out[k] : g.in[k]);
    }
    params->channels = adn_divisor_of(walked->dims[1] > 0 ? walked->dims[1] : 1);
    strides_of(adn_tensor(p, ANYDNN_X), params->x);
    strides_of(adn_tensor(p, forward ? ANYDNN_Y : ANYDNN_DY), params->y);
    strides_of(adn_tensor(p, ANYDNN_DX), params->dx);
    strides_of(adn_tensor(p, ANYDNN_INDICES), params->indices);
    params->mode = p->desc.pool.mode;
    params->has_indices = adn_tensor(p, ANYDNN_INDICES) != NULL;
    params->channels_last = walked->dims[1] > 1 && walked->strides[1] < walked->strides[walked->ndim - 1];
    params->narrow = params->count <= INT32_MAX;
    return true;
}

/* Each output element costs its window, backward with a search one window for each window that covers it. */
static double work(const struct adn_problem *p, double *bytes)
{
    const bool forward = p->def->op == ANYDNN_OP_POOL_FORWARD;
    const anydnn_tensor *in = adn_tensor(p, forward ? ANYDNN_X : ANYDNN_DY),
                        *out = adn_tensor(p, forward ? ANYDNN_Y : ANYDNN_DX);
    const double outputs = (double)anydnn_tensor_count(forward ? out : in);
    struct adn_conv_geometry g;
    double window;
    adn_pool_geometry(p, &g);
    window = (double)g.filter[0] * (double)g.filter[1] * (double)g.filter[2];
    *bytes = (double)anydnn_tensor_count(in) + (double)anydnn_tensor_count(out);
    if (!forward && adn_tensor(p, ANYDNN_X)) *bytes += (double)anydnn_tensor_count(adn_tensor(p, ANYDNN_X));
    *bytes *= (double)anydnn_dtype_size(in->dtype);
    if (forward || p->desc.pool.mode != ANYDNN_POOL_MAX || adn_tensor(p, ANYDNN_INDICES)) return outputs * window;
    return outputs * window * window;
}

static bool plan_pool(const struct adn_problem *p, const struct adn_device *device, const char *params_text,
                      struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const bool forward = p->def->op == ANYDNN_OP_POOL_FORWARD;
    const int dtype = adn_tensor(p, forward ? ANYDNN_Y : ANYDNN_DX)->dtype;
    const struct adn_variant *variant =
        adn_find_variant(variants, VARIANTS, forward ? "pool_forward" : "pool_backward", dtype, NULL);
    struct adn_pool_params params;
    struct adn_step *step;
    double bytes, flops;
    (void)params_text;
    if (!variant)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, forward ? ANYDNN_Y : ANYDNN_DX, "dtype", dtype, ANYDNN_F32,
                          "no kernel for %s", anydnn_dtype_name(dtype));
    if (device->info.max_block_threads < variant->block)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, variant->block,
                          "needs blocks of %d threads", (int)variant->block);
    memset(&params, 0, sizeof params);
    if (!fill(p, &params, why)) return false;
    step = adn_add_step(plan, variant, adn_blocks(params.count, variant->block, device), &params, sizeof params);
    if (forward) {
        adn_step_role(step, p, ANYDNN_X);
        adn_step_role(step, p, ANYDNN_Y);
        adn_step_role(step, p, ANYDNN_INDICES);
    } else {
        adn_step_role(step, p, ANYDNN_DY);
        adn_step_role(step, p, ANYDNN_X);
        adn_step_role(step, p, ANYDNN_INDICES);
        adn_step_role(step, p, ANYDNN_DX);
    }
    flops = work(p, &bytes);
    plan->cost_ns = adn_estimate_ns(device, bytes, flops, 0.05);
    return true;
}

static void bind_pool(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                      void *params)
{
    struct adn_pool_params *q = params;
    (void)plan, (void)step;
    q->alpha = (float)scalar[adn_slot(p, ANYDNN_ALPHA)];
    q->beta = (float)scalar[adn_slot(p, ANYDNN_BETA)];
}

const struct adn_engine adn_engine_pool = {
    .name = "pool",
    .ops = ADN_OP_BIT(ANYDNN_OP_POOL_FORWARD) | ADN_OP_BIT(ANYDNN_OP_POOL_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_pool,
    .bind = bind_pool,
};
