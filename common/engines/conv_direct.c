/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_direct.c: convolution straight from its formulas: takes every legal problem, needs no workspace.
 * One thread for each element of y or dx, one block for each element of dw. conv_bias: the bias gradient in f64, a block
 * for each channel; the reduce engine serves the other dtypes. */
#include "common/backend.h"
#include "conv_direct_params.h"
#include "plan_conv.h"

#include <string.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "conv_direct", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#include "conv_direct.variants"
#undef ADN_VARIANT
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* Channel inside of the spatial axes where it lies closer in memory than the last of them. */
static bool is_channel_inner(const anydnn_tensor *t)
{
    const int last = t->ndim - 1;
    return t->dims[1] > 1 && t->dims[last] > 1 && t->strides[1] < t->strides[last];
}

static void fill(const struct adn_problem *p, const struct adn_conv_geometry *g, const anydnn_tensor *out,
                 struct adn_conv_direct_params *q)
{
    const bool filter = p->def->op == ANYDNN_OP_CONV_BACKWARD_FILTER;
    const int64_t *size = p->def->op == ANYDNN_OP_CONV_BACKWARD_DATA ? g->in : g->out;
    int64_t numbers = anydnn_tensor_count(out);
    int j;
    adn_conv_epilogue_of(p, &q->e);
    memcpy(q->in, g->in, sizeof q->in);
    memcpy(q->filter, g->filter, sizeof q->filter);
    memcpy(q->out, g->out, sizeof q->out);
    memcpy(q->stride, g->stride, sizeof q->stride);
    memcpy(q->pad, g->pad, sizeof q->pad);
    memcpy(q->dilation, g->dilation, sizeof q->dilation);
    memcpy(q->xs, g->xs, sizeof q->xs);
    memcpy(q->ys, g->ys, sizeof q->ys);
    memcpy(q->zs, g->zs, sizeof q->zs);
    q->w_origin = adn_conv_filter_strides(g, q->ws);
    q->count = numbers;
    q->n = g->n;
    q->k_group = g->k / g->groups;
    q->c_group = g->c / g->groups;
    for (j = 0; j < 3; j++) q->size[1 + j] = adn_divisor_of(size[j]);
    q->size[0] = adn_divisor_of(filter ? 1 : out->dims[1]);
    q->channel_inner = !filter && is_channel_inner(out);
    if (filter) numbers = g->n * size[0] * size[1] * size[2];
    q->narrow = numbers <= INT32_MAX;
}

/* Part of the arithmetic peak: every product loads both factors; few outputs leave threads idle. A CPU carries a block of
 * the filter's gradient out item by item, between barriers. */
static double share_of(const struct adn_device *device, bool filter, double threads)
{
    const double room =
        (device->info.is_cpu ? 1.0 : 1024.0) * (device->info.compute_units > 0 ? device->info.compute_units : 1);
    const double best = !device->info.is_cpu ? 0.04 : filter ? 0.001 : 0.01;
    return threads < room ? best * (threads + 1) / (room + 1) : best;
}

/* dbias: a block for each channel, over the positions of dy. */
static bool plan_bias(const struct adn_problem *p, const struct adn_device *device, const char *params,
                      struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY), *dbias = adn_tensor(p, ANYDNN_DBIAS);
    const double count = (double)anydnn_tensor_count(dy);
    struct adn_conv_direct_params q = { 0 };
    struct adn_step *step;
    int j;
    if (params && params[0])
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "engine", 0, 0, "conv_bias has no parameters");
    if (dy->dtype != ANYDNN_F64)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, ANYDNN_DY, "dtype", dy->dtype, ANYDNN_F64, "sums f64 alone");
    if (!adn_conv_has_dtype(device, dy->dtype, why)) return false;
    adn_conv_epilogue_of(p, &q.e);
    q.ys[0] = dy->strides[0], q.ys[1] = dy->strides[1];
    for (j = 0; j < 3; j++) {
        const int axis = j + dy->ndim - 3;
        q.size[1 + j] = adn_divisor_of(axis < 2 ? 1 : dy->dims[axis]);
        q.ys[2 + j] = axis < 2 ? 0 : dy->strides[axis];
    }
    q.size[0] = adn_divisor_of(1);
    q.n = dy->dims[0];
    q.ws[0] = dbias->strides[1];
    q.count = dbias->dims[1];
    q.narrow = count <= INT32_MAX;
    step = adn_add_step(plan, adn_find_variant(variants, VARIANTS, "conv_direct_bias", dy->dtype, NULL),
                        (uint64_t)q.count, &q, sizeof q);
    adn_step_role(step, p, ANYDNN_DY);
    adn_step_role(step, p, ANYDNN_DBIAS);
    plan->cost_ns = adn_estimate_ns(device, 8.0 * count, count, 0.05);
    return true;
}

static bool plan_direct(const struct adn_problem *p, const struct adn_device *device, const char *params,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    static const struct {
        int op, in[2], out;
        const char *kernel;
    } table[] = {
        { ANYDNN_OP_CONV_FORWARD, { ANYDNN_X, ANYDNN_W }, ANYDNN_Y, "conv_direct_forward" },
        { ANYDNN_OP_CONV_BACKWARD_DATA, { ANYDNN_DY, ANYDNN_W }, ANYDNN_DX, "conv_direct_data" },
        { ANYDNN_OP_CONV_BACKWARD_FILTER, { ANYDNN_X, ANYDNN_DY }, ANYDNN_DW, "conv_direct_filter" },
    };
    struct adn_conv_direct_params q = { 0 };
    struct adn_conv_geometry g;
    const anydnn_tensor *out;
    const struct adn_variant *variant;
    struct adn_step *step;
    double flops, bytes = 0;
    uint64_t blocks;
    int row = 0, i;
    if (params && params[0])
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "engine", 0, 0, "conv_direct has no parameters");
    while (table[row].op != p->def->op) row++;
    out = adn_tensor(p, table[row].out);
    variant = adn_find_variant(variants, VARIANTS, table[row].kernel, p->operand[0].t.dtype, NULL);
    if (!adn_conv_has_dtype(device, p->operand[0].t.dtype, why)) return false;
    adn_conv_geometry(p, &g);
    fill(p, &g, out, &q);
    blocks = (uint64_t)q.count;
    if (table[row].op != ANYDNN_OP_CONV_BACKWARD_FILTER) blocks = (blocks + 127) / 128;
    if (blocks > INT32_MAX) blocks = INT32_MAX;
    step = adn_add_step(plan, variant, blocks, &q, sizeof q);
    for (i = 0; i < 2; i++) adn_step_role(step, p, table[row].in[i]);
    adn_conv_step_roles(step, p, table[row].out);
    for (i = 0; i < p->slots; i++)
        if (p->operand[i].present && p->operand[i].t.ndim > 0)
            bytes += (double)anydnn_tensor_count(&p->operand[i].t) * (double)anydnn_dtype_size(p->operand[i].t.dtype);
    flops = 2.0 * (double)g.n * (double)g.k * (double)q.c_group;
    for (i = 0; i < 3; i++) flops *= (double)g.out[i] * (double)g.filter[i];
    plan->cost_ns = adn_estimate_ns(device, bytes, flops,
                                    share_of(device, table[row].op == ANYDNN_OP_CONV_BACKWARD_FILTER,
                                             (double)blocks * (device->info.is_cpu ? 1.0 : 128.0)));
    return true;
}

const struct adn_engine adn_engine_conv_direct = {
    .name = "conv_direct",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_direct,
    .bind = adn_conv_bind,
};

const struct adn_engine adn_engine_conv_bias = {
    .name = "conv_bias",
    .ops = ADN_OP_BIT(ANYDNN_OP_CONV_BACKWARD_BIAS),
    .traits = ANYDNN_TRAIT_DETERMINISTIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_bias,
    .bind = adn_conv_bind,
};
