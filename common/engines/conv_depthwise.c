/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_depthwise.c: convolution forward, backward data and backward filter with one input channel to a
 * group and 1 to 8 filters to a channel (common/engines/conv_depthwise_params.h).
 *
 * Outputs   A thread makes one position, or four down an axis H of stride and dilation 1; four channels where they lie
 *           side by side. Where channels are inside and the work is worth a launch, the filter is first copied to the
 *           workspace with its channels side by side.
 * Filter    A block sums a row of taps. Where blocks are too few for the device, images and positions are cut into
 *           segments whose float sums go to the workspace, as far as its limit allows; a second step adds them up.
 * Limits    Filters up to 7 along each axis; coordinates below 2^30; work items and filter elements below 2^31. */
#include "common/backend.h"
#include "conv_depthwise_params.h"
#include "plan_conv.h"
#include "plan_tile.h"

#include <string.h>

#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "conv_depthwise", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#define ADN_VARIANT_CL ADN_VARIANT
static const struct adn_variant variants[] = {
#include "conv_depthwise.variants"
};
enum { VARIANTS = sizeof variants / sizeof variants[0], WIDTH = 4, MULTIPLIER = 8, SEGMENTS = 128 };
static const int64_t limit = ADN_CONV_LIMIT;

/* What the plans of the three operations have in common. */
struct shape {
    struct adn_conv_geometry g;
    struct adn_depthwise_params params;
    const anydnn_tensor *in, *out; /* the tensor read at taps and the one walked: x and y, dy and dx, x and dy */
    int dtype;
    int64_t taps;
    double bytes, flops;
};

/* First variant of a kernel and dtype with this block (0 = any) and constant. */
static const struct adn_variant *find(const char *kernel, int dtype, int block, int constant)
{
    int i;
    for (i = 0; i < VARIANTS; i++)
        if (variants[i].dtype == dtype && strcmp(variants[i].kernel, kernel) == 0 &&
            (block == 0 || variants[i].block == block) && variants[i].constant[0] == constant)
            return &variants[i];
    return NULL;
}

/* Channels inside of every spatial axis. */
static bool is_channel_inner(int64_t channels, int64_t stride, const int64_t *size, const int64_t *strides)
{
    int j;
    for (j = 0; j < 3; j++)
        if (size[j] > 1 && strides[j] <= stride) return false;
    return channels > 1;
}

static bool accepts(const struct adn_conv_geometry *g, struct adn_refusal *why)
{
    int j;
    if (g->c < 1 || g->groups != g->c)
        return adn_refuse(why, ANYDNN_REASON_SHAPE, 0, "groups", g->groups, g->c, "wants a group for each channel");
    if (g->k < g->c || g->k > MULTIPLIER * g->c)
        return adn_refuse(why, ANYDNN_REASON_SHAPE, 0, "filters", g->k, MULTIPLIER * g->c,
                          "wants 1 to %d filters for each channel", MULTIPLIER);
    for (j = 0; j < 3; j++) {
        if (g->filter[j] > ADN_DEPTHWISE_TAPS)
            return adn_refuse(why, ANYDNN_REASON_SHAPE, 0, "filter", g->filter[j], ADN_DEPTHWISE_TAPS,
                              "spatial axis %d of the filter is longer than %d", j, ADN_DEPTHWISE_TAPS);
        /* Each below the limit first, so that the sum cannot overflow. */
        if (g->in[j] + g->pad[j] + g->pad_end[j] >= limit || g->out[j] >= limit || g->stride[j] >= limit ||
            g->dilation[j] >= limit ||
            g->in[j] + 2 * g->pad[j] + (g->out[j] + 1) * g->stride[j] + 2 * g->filter[j] * g->dilation[j] >= limit)
            return adn_refuse(why, ANYDNN_REASON_SIZE, 0, "coordinate", g->in[j], limit - 1,
                              "positions, strides and pads of spatial axis %d exceed %lld", j, (long long)limit - 1);
    }
    return true;
}

static void fill_axis(struct adn_depthwise_axis *axis, const struct adn_conv_geometry *g, int j, bool data)
{
    const int64_t stride = g->stride[j], dilation = g->dilation[j], divide = data ? stride : 1;
    const int64_t pad = data ? (g->filter[j] - 1) * dilation - g->pad[j] : g->pad[j];
    axis->divide = adn_divisor_of(divide);
    axis->taps = (int32_t)g->filter[j];
    axis->scale = (int32_t)(data ? 1 : stride);
    axis->pad = (int32_t)pad;
    axis->dilation = (int32_t)dilation;
    axis->limit = (int32_t)(data ? g->out[j] : g->in[j]);
    axis->extent = (int32_t)(data ? g->in[j] : g->out[j]);
    axis->tap_step = (int32_t)(divide / adn_gcd(divide, dilation));
    axis->step = (int32_t)(dilation / adn_gcd(divide, dilation));
    axis->lift_quotient = (int32_t)(pad > 0 ? adn_ceil_div(pad, divide) : 0);
    axis->lift = (int32_t)(axis->lift_quotient * divide);
    axis->dilation_rest = (int32_t)(dilation % divide);
}

static bool shape_of(const struct adn_problem *p, struct shape *m, struct adn_refusal *why)
{
    const bool data = p->def->op == ANYDNN_OP_CONV_BACKWARD_DATA, filter = p->def->op == ANYDNN_OP_CONV_BACKWARD_FILTER;
    struct adn_conv_geometry *g = &m->g;
    struct adn_depthwise_params *q = &m->params;
    int j;
    memset(m, 0, sizeof *m);
    adn_conv_geometry(p, g);
    if (!accepts(g, why)) return false;
    m->in = adn_tensor(p, data ? ANYDNN_DY : ANYDNN_X);
    m->out = adn_tensor(p, data ? ANYDNN_DX : filter ? ANYDNN_DY : ANYDNN_Y);
    m->dtype = m->in->dtype;
    m->taps = g->filter[0] * g->filter[1] * g->filter[2];
    adn_conv_epilogue_of(p, &q->e);
    memcpy(q->in, data ? g->ys : g->xs, sizeof q->in);
    memcpy(q->out, data ? g->xs : g->ys, sizeof q->out);
    q->w_channel = g->ws[0];
    q->channels = g->k;
    q->up = adn_divisor_of(data ? 1 : g->k / g->c);
    q->down = (int32_t)(data ? g->k / g->c : 1);
    for (j = 0; j < 3; j++) {
        fill_axis(&q->axis[j], g, j, data);
        q->w[j] = g->ws[2 + j];
        q->size[1 + j] = adn_divisor_of(q->axis[j].extent);
        /* Backward data counts the taps backwards. */
        if (g->flip != data) q->w_origin += (g->filter[j] - 1) * q->w[j], q->w[j] = -q->w[j];
    }
    m->bytes = adn_element_bytes(m->in) + adn_element_bytes(m->out);
    m->flops = 2.0 * (double)g->n * (double)g->k * (double)m->taps;
    for (j = 0; j < 3; j++) m->flops *= (double)g->out[j];
    if (g->k * m->taps > INT32_MAX)
        return adn_refuse(why, ANYDNN_REASON_SIZE, 0, "filters", g->k, INT32_MAX / m->taps, "too many filter elements");
    return true;
}

/* Whether four channels at every position of a tensor are one aligned vector. */
static bool has_vectors(const anydnn_tensor *t)
{
    int j;
    if (t->dims[1] % WIDTH || t->strides[1] != 1 || t->alignment < WIDTH * (int32_t)anydnn_dtype_size(t->dtype))
        return false;
    for (j = 0; j < t->ndim; j++)
        if (j != 1 && t->dims[j] > 1 && t->strides[j] % WIDTH) return false;
    return true;
}

static uint64_t blocks_of(int64_t count, const struct adn_variant *v)
{
    return (uint64_t)adn_ceil_div(count, v->block);
}

static bool chooses_window(const struct adn_problem *p, const struct shape *m, const struct adn_device *device)
{
    const struct adn_depthwise_axis *y = &m->params.axis[1];
    const double outputs = (double)anydnn_tensor_count(m->out) / ADN_DEPTHWISE_ROWS;
    const int units = device->info.compute_units > 0 ? device->info.compute_units : 1;
    if (y->scale != 1 || y->divide.value != 1 || y->dilation != 1 || y->extent < ADN_DEPTHWISE_ROWS) return false;
    /* Fewer threads than a GPU wants cost more than the rows that they share save. */
    return (y->taps == 3 || y->taps == 5 || y->taps == 7) && (device->info.is_cpu || p->batch_invariant || outputs >= 256.0 * units);
}

/* Books the packed filter and adds the step that makes it. */
static void add_pack(const struct adn_problem *p, struct shape *m, struct adn_engine_plan *plan)
{
    struct adn_depthwise_params *q = &m->params;
    const struct adn_variant *v = find("depthwise_pack", m->dtype, 0, 1);
    const int64_t count = m->taps * q->channels;
    struct adn_step *step;
    q->count = count;
    step = adn_add_step(plan, v, blocks_of(count, v), q, sizeof *q);
    adn_step_role(step, p, ANYDNN_W);
    adn_step_workspace(step, adn_book(plan, (uint64_t)count * anydnn_dtype_size(m->dtype)));
    q->packed = 1;
    q->w_origin = 0, q->w_channel = 1;
    q->w[2] = q->channels, q->w[1] = q->w[2] * m->g.filter[2], q->w[0] = q->w[1] * m->g.filter[1];
}

/* Part of the arithmetic peak. CPUs behind OpenCL work on neighbouring outputs with one vector, which taps that only some
 * of them meet break up; so do strides and dilations along a row, where no window of taps is loaded at once. */
static double share_of(const struct adn_depthwise_params *q, int width, const struct adn_device *device)
{
    const bool partial = q->axis[0].divide.value * q->axis[1].divide.value * q->axis[2].divide.value > 1;
    if (!device->info.is_cpu) return width > 1 ? 0.25 : 0.15;
    if (q->channel_inner) return partial ? 0.014 : 0.05;
    return partial || !q->window ? 0.008 : 0.05;
}

static bool plan_gather(const struct adn_problem *p, const struct adn_device *device, struct shape *m,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct adn_depthwise_params *q = &m->params;
    const int64_t extent[] = { q->axis[0].extent, q->axis[1].extent, q->axis[2].extent };
    const int64_t filter_bytes = m->taps * q->channels * (int64_t)anydnn_dtype_size(m->dtype);
    const int64_t count = anydnn_tensor_count(m->out);
    const bool data = p->def->op == ANYDNN_OP_CONV_BACKWARD_DATA;
    const anydnn_tensor *z = adn_tensor(p, ANYDNN_Z);
    int width = 1;
    const struct adn_variant *v;
    struct adn_step *step;
    q->channel_inner = is_channel_inner(m->out->dims[1], m->out->strides[1], extent, q->out + 2);
    if (q->channel_inner && m->g.k == m->g.c && has_vectors(m->in) && has_vectors(m->out) && (!z || has_vectors(z)))
        width = WIDTH;
    q->size[0] = adn_divisor_of(m->out->dims[1] / width);
    q->rows = chooses_window(p, m, device) ? ADN_DEPTHWISE_ROWS : 1;
    q->window = q->rows > 1 ? q->axis[1].taps : 0;
    q->size[2] = adn_divisor_of(adn_ceil_div(extent[1], q->rows));
    if (q->channel_inner && m->taps > 1 && (uint64_t)filter_bytes <= p->workspace_limit &&
        m->flops >= 65536.0 * (device->info.compute_units > 0 ? device->info.compute_units : 1))
        add_pack(p, m, plan);
    q->count = count > 0 ? m->g.n * q->size[0].value * q->size[1].value * q->size[2].value * q->size[3].value : 0;
    if (q->count > INT32_MAX)
        return adn_refuse(why, ANYDNN_REASON_SIZE, data ? ANYDNN_DX : ANYDNN_Y, "elements", q->count, INT32_MAX,
                          "%lld work items are too many", (long long)q->count);
    v = find("depthwise_gather", m->dtype, 0, width);
    step = adn_add_step(plan, v, blocks_of(q->count, v), q, sizeof *q);
    adn_step_role(step, p, data ? ANYDNN_DY : ANYDNN_X);
    if (q->packed)
        adn_step_workspace(step, 0);
    else
        adn_step_role(step, p, ANYDNN_W);
    adn_conv_step_roles(step, p, data ? ANYDNN_DX : ANYDNN_Y);
    plan->cost_ns = adn_estimate_ns(device, m->bytes, m->flops, share_of(q, width, device));
    return true;
}

/* Cuts images and positions into segments where units are too few for the device, as far as the workspace allows. */
static void cut(const struct adn_problem *p, const struct adn_device *device, struct shape *m, int64_t units, int lanes)
{
    struct adn_depthwise_params *q = &m->params;
    const int64_t processors = device->info.compute_units > 0 ? device->info.compute_units : 1;
    const int64_t wanted = processors * (device->info.is_cpu ? 2 : 8), least = lanes * (device->info.is_cpu ? 4096 : 8);
    const double part = (double)m->taps * (double)q->channels * sizeof(float);
    int64_t segments = 1;
    if (units > 0 && units < wanted)
        segments = adn_smaller(adn_smaller(adn_ceil_div(wanted, units), q->positions / least), SEGMENTS);
    if ((double)segments * part > (double)p->workspace_limit) segments = (int64_t)((double)p->workspace_limit / part);
    if (segments < 1) segments = 1;
    q->segment = q->positions > 0 ? adn_ceil_div(q->positions, segments) : 1;
    q->segments = q->positions > 0 ? adn_ceil_div(q->positions, q->segment) : 1;
}

static bool plan_filter(const struct adn_problem *p, const struct adn_device *device, struct shape *m,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct adn_depthwise_params *q = &m->params;
    const struct adn_conv_geometry *g = &m->g;
    const struct adn_variant *v = find("depthwise_filter", m->dtype, device->info.is_cpu ? 1 : 256, 1);
    const bool inner =
        is_channel_inner(g->k, g->ys[1], g->out, g->ys + 2) && is_channel_inner(g->c, g->xs[1], g->in, g->xs + 2);
    struct adn_step *step;
    int64_t units;
    double room, threads, share;
    if (device->info.max_block_threads < v->block)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, v->block,
                          "needs blocks of %d threads", (int)v->block);
    while (v->block > 1 && inner && q->lanes_log2 < 5 && (1 << q->lanes_log2) < g->k) q->lanes_log2++;
    q->tap_rows = adn_divisor_of(g->filter[0] * g->filter[1]);
    q->chunks = adn_divisor_of(adn_ceil_div(g->k, (int64_t)1 << q->lanes_log2));
    q->size[0] = adn_divisor_of(1);
    q->positions = g->n * g->out[0] * g->out[1] * g->out[2];
    units = m->taps > 0 ? q->tap_rows.value * q->chunks.value : 0;
    cut(p, device, m, units, v->block >> q->lanes_log2);
    q->count = units * q->segments;
    if (q->count > INT32_MAX || q->positions > INT32_MAX)
        return adn_refuse(why, ANYDNN_REASON_SIZE, ANYDNN_DY, "positions", q->positions, INT32_MAX,
                          "%lld positions are too many", (long long)q->positions);
    step = adn_add_step(plan, v, (uint64_t)q->count, q, sizeof *q);
    adn_step_role(step, p, ANYDNN_X);
    adn_step_role(step, p, ANYDNN_DY);
    adn_step_role(step, p, ANYDNN_DW);
    threads = (double)q->count * v->block;
    if (q->segments > 1) {
        adn_step_workspace(step, adn_book(plan, (uint64_t)(q->segments * m->taps * q->channels) * sizeof(float)));
        v = find("depthwise_sum", m->dtype, 0, 1);
        q->count = m->taps * q->channels;
        step = adn_add_step(plan, v, blocks_of(q->count, v), q, sizeof *q);
        adn_step_workspace(step, 0);
        adn_step_role(step, p, ANYDNN_DW);
    } else {
        adn_step_null(step);
    }
    room = (device->info.is_cpu ? 1.0 : 1024.0) * (device->info.compute_units > 0 ? device->info.compute_units : 1);
    share = !device->info.is_cpu ? 0.15 : inner ? 0.008 : 0.004;
    if (threads < room) share *= (threads + 1) / (room + 1);
    plan->cost_ns = adn_estimate_ns(device, m->bytes, m->flops, share);
    return true;
}

static bool plan_depthwise(const struct adn_problem *p, const struct adn_device *device, const char *params,
                           struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct shape m;
    if (params && params[0])
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "engine", 0, 0, "conv_depthwise has no parameters");
    if (!shape_of(p, &m, why)) return false;
    if (!adn_conv_z_lies_as(p, p->def->op == ANYDNN_OP_CONV_BACKWARD_DATA ? ANYDNN_DX : ANYDNN_Y, why)) return false;
    if (!find("depthwise_gather", m.dtype, 0, 1))
        return adn_refuse(why, ANYDNN_REASON_DTYPE, 0, "dtype", m.dtype, ANYDNN_F32, "no kernel for %s",
                          anydnn_dtype_name(m.dtype));
    if (p->def->op == ANYDNN_OP_CONV_BACKWARD_FILTER) return plan_filter(p, device, &m, plan, why);
    return plan_gather(p, device, &m, plan, why);
}

const struct adn_engine adn_engine_conv_depthwise = {
    .name = "conv_depthwise",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_depthwise,
    .bind = adn_conv_bind,
};
