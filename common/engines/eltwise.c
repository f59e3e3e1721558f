/* SPDX-License-Identifier: Apache-2.0
 * common/engines/eltwise.c: engine `eltwise`: everything that computes each output element from the elements at its
 * place: activations, binary operations with broadcasting, copy, fill, scale, dropout, sgd, adam, and the backward pass
 * of sums and means. One kernel launch, no workspace.
 * Limits: f32, f16, bf16; copy and fill take every dtype (f64 in a copy only where the device has it). */
#include "eltwise_params.h"
#include "plan_walk.h"

#include <math.h>
#include <string.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "eltwise", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#include "eltwise.variants"
#undef ADN_VARIANT
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* ---- Laying out: tensors in the order of the kernel's memories, the output first. ---- */

struct layout {
    int tensors;
    int role[4];
    const anydnn_tensor *tensor[4];
    int width;       /* elements of a unit */
    uint32_t splat;  /* tensors with one value for a unit */
    int64_t tail;    /* elements behind the units */
    struct adn_walk walk;
};

static void add_tensor(struct layout *l, const struct adn_problem *p, int role)
{
    l->role[l->tensors] = role;
    l->tensor[l->tensors++] = adn_tensor(p, role);
}

/* Walks over units of `width` elements where strides and alignment allow it, else over single ones. */
static void lay_out(struct layout *l, int width, bool keep_order, bool splats)
{
    adn_walk_init(&l->walk, l->tensor[0], ~0u, l->tensors, l->tensor, keep_order);
    l->width = 1;
    l->splat = adn_walk_splats(&l->walk, l->tensors);
    if (width == 1 || (l->splat && !splats) || !adn_walk_fits(&l->walk, l->tensors, l->tensor, width, true)) return;
    l->width = width;
    l->tail = l->walk.rank == 1 ? l->walk.count % width : 0;
    adn_walk_units(&l->walk, l->tensors, width);
}

static void fill_walk(const struct layout *l, struct adn_walk_dims *dims, struct adn_strides stride[4], adn_i64 *tail)
{
    int i;
    adn_walk_params(&l->walk, dims);
    for (i = 0; i < l->tensors; i++) stride[i] = adn_walk_strides(&l->walk, i);
    *tail = l->tail;
}

/* Elements of 16 bytes: 4 of f32, 8 of the half types. */
static int pack_width(const anydnn_tensor *t) { return 16 / (int)anydnn_dtype_size(t->dtype); }

static const struct adn_variant *find(const char *kernel, int dtype, int width)
{
    int i;
    for (i = 0; i < VARIANTS; i++)
        if (strcmp(variants[i].kernel, kernel) == 0 && variants[i].dtype == dtype && variants[i].constant[0] == width)
            return &variants[i];
    return NULL;
}

/* Adds the step with the layout's tensors as its first memories and prices the plan. */
static struct adn_step *add_step(struct adn_engine_plan *plan, const struct layout *l, const struct adn_problem *p,
                                 const struct adn_device *device, const struct adn_variant *variant, const void *params,
                                 size_t size)
{
    struct adn_step *step = adn_add_step(plan, variant, adn_blocks(l->walk.count + l->tail, variant->block, device),
                                         params, size);
    double bytes = 0.0, flops = 0.0, depth = 0.0;
    int i;
    for (i = 0; i < l->tensors; i++) {
        const int64_t count = anydnn_tensor_bytes(l->tensor[i]);
        bytes += count > 0 ? (double)count : 0.0;
        adn_step_role(step, p, l->role[i]);
    }
    p->def->cost(p, &flops, &depth);
    plan->cost_ns = adn_estimate_ns(device, l->width > 1 ? bytes : 2.0 * bytes, flops, 0.1);
    return step;
}

static bool refuse_dtype(struct adn_refusal *why, int role, int dtype)
{
    return adn_refuse(why, ANYDNN_REASON_DTYPE, role, "dtype", dtype, ANYDNN_F32, "no kernel for %s",
                      anydnn_dtype_name(dtype));
}

/* ---- Plans. ---- */

/* Mode and tensors of the operations that the kernel `map` serves. */
static void map_inputs(const struct adn_problem *p, struct layout *l, struct adn_map_params *params)
{
    const bool slope = p->def->op == ANYDNN_OP_ACTIVATION_BACKWARD;
    const int mode = p->desc.activation.mode;
    int other;
    params->mode = ADN_MAP_IDENTITY;
    switch (p->def->op) {
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_COPY:
        add_tensor(l, p, ANYDNN_Y), add_tensor(l, p, ANYDNN_X);
        if (p->def->op == ANYDNN_OP_ACTIVATION_FORWARD) params->mode = ADN_MAP_RELU + mode;
        break;
    case ANYDNN_OP_SCALE: add_tensor(l, p, ANYDNN_Y), add_tensor(l, p, ANYDNN_Y); break;
    case ANYDNN_OP_BINARY:
        add_tensor(l, p, ANYDNN_Y), add_tensor(l, p, ANYDNN_A), add_tensor(l, p, ANYDNN_B);
        params->mode = ADN_MAP_ADD + p->desc.binary.mode;
        break;
    default: add_tensor(l, p, ANYDNN_DX), add_tensor(l, p, ANYDNN_DY); break;
    }
    if (p->def->op == ANYDNN_OP_REDUCE_BACKWARD && p->desc.reduce.mode == ANYDNN_REDUCE_MEAN)
        params->mode = ADN_MAP_DIVIDE;
    if (!slope) return;
    other = mode >= ANYDNN_SIGMOID ? ANYDNN_Y : ANYDNN_X;
    if (!adn_tensor(p, other)) other = other == ANYDNN_Y ? ANYDNN_X : ANYDNN_Y;
    params->mode = ADN_MAP_RELU_SLOPE + mode;
    if (mode >= ANYDNN_SIGMOID && other == ANYDNN_X) params->mode = ADN_MAP_SIGMOID_SLOPE_X + (mode - ANYDNN_SIGMOID);
    add_tensor(l, p, other);
}

static bool plan_map(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                     struct adn_refusal *why)
{
    struct layout l = { 0 };
    struct adn_map_params params;
    const struct adn_variant *variant;
    struct adn_step *step;
    memset(&params, 0, sizeof params);
    map_inputs(p, &l, &params);
    if (!find("map", l.tensor[0]->dtype, 1)) return refuse_dtype(why, l.role[0], l.tensor[0]->dtype);
    lay_out(&l, pack_width(l.tensor[0]), false, true);
    fill_walk(&l, &params.dims, params.stride, &params.tail);
    params.splat = l.splat;
    variant = find("map", l.tensor[0]->dtype, l.width);
    step = add_step(plan, &l, p, device, variant, &params, sizeof params);
    if (l.tensors < 3) adn_step_null(step);
    return true;
}

static bool plan_dropout(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                         struct adn_refusal *why)
{
    const bool forward = p->def->op == ANYDNN_OP_DROPOUT_FORWARD;
    struct layout l = { 0 };
    struct adn_dropout_params params;
    struct adn_step *step;
    memset(&params, 0, sizeof params);
    add_tensor(&l, p, forward ? ANYDNN_Y : ANYDNN_DX);
    add_tensor(&l, p, forward ? ANYDNN_X : ANYDNN_DY);
    if (!find("dropout", l.tensor[0]->dtype, 1)) return refuse_dtype(why, l.role[0], l.tensor[0]->dtype);
    lay_out(&l, pack_width(l.tensor[0]), true, false);
    fill_walk(&l, &params.dims, params.stride, &params.tail);
    step = add_step(plan, &l, p, device, find("dropout", l.tensor[0]->dtype, l.width), &params, sizeof params);
    adn_step_role(step, p, ANYDNN_SEED);
    adn_step_role(step, p, ANYDNN_OFFSET);
    return true;
}

static bool plan_optimizer(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                           struct adn_refusal *why)
{
    const bool adam = p->def->op == ANYDNN_OP_ADAM;
    struct layout l = { 0 };
    struct adn_optimizer_params params;
    struct adn_step *step;
    int i;
    memset(&params, 0, sizeof params);
    add_tensor(&l, p, ANYDNN_PARAM);
    add_tensor(&l, p, ANYDNN_GRAD);
    if (adn_tensor(p, ANYDNN_MOMENT1)) add_tensor(&l, p, ANYDNN_MOMENT1);
    if (adam) add_tensor(&l, p, ANYDNN_MOMENT2);
    for (i = 0; i < l.tensors; i++)
        if (l.tensor[i]->dtype > ANYDNN_BF16) return refuse_dtype(why, l.role[i], l.tensor[i]->dtype);
    lay_out(&l, 4, false, false);
    fill_walk(&l, &params.dims, params.stride, &params.tail);
    params.param_dtype = l.tensor[0]->dtype, params.grad_dtype = l.tensor[1]->dtype;
    params.moments = l.tensors > 2;
    params.variant = adam ? p->desc.optimizer.decoupled : p->desc.optimizer.nesterov;
    step = add_step(plan, &l, p, device, find(adam ? "adam" : "sgd", ANYDNN_F32, l.width), &params, sizeof params);
    if (l.tensors < 3) adn_step_null(step);
    adn_step_role(step, p, ANYDNN_LR);
    if (adam) adn_step_role(step, p, ANYDNN_STEP);
    return true;
}

static bool is_integer(int dtype) { return dtype >= ANYDNN_I8 && dtype <= ANYDNN_I64; }

/* Float is enough between float types and from small integers; anything else computes in double where there is one. */
static int copy_kind(int out, int in, bool has_f64)
{
    const bool float_in = in <= ANYDNN_BF16 || in == ANYDNN_I8 || in == ANYDNN_U8;
    return (out <= ANYDNN_BF16 && float_in) || !has_f64 ? ADN_COPY_FLOAT : ADN_COPY_DOUBLE;
}

static bool plan_copy(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan,
                      struct adn_refusal *why)
{
    struct layout l = { 0 };
    struct adn_copy_params params;
    int i;
    memset(&params, 0, sizeof params);
    add_tensor(&l, p, ANYDNN_Y);
    add_tensor(&l, p, ANYDNN_X);
    if (l.tensor[0]->dtype == l.tensor[1]->dtype && find("map", l.tensor[0]->dtype, 1)) return plan_map(p, device, plan, why);
    for (i = 0; i < 2; i++)
        if (l.tensor[i]->dtype == ANYDNN_F64 && !device->info.has_f64)
            return refuse_dtype(why, l.role[i], ANYDNN_F64);
    lay_out(&l, 4, false, true);
    fill_walk(&l, &params.dims, params.stride, &params.tail);
    params.splat = l.splat;
    params.out_dtype = l.tensor[0]->dtype, params.in_dtype = l.tensor[1]->dtype;
    params.kind = copy_kind(params.out_dtype, params.in_dtype, device->info.has_f64);
    add_step(plan, &l, p, device, find("copy", ANYDNN_F32, l.width), &params, sizeof params);
    return true;
}

static bool plan_fill(const struct adn_problem *p, const struct adn_device *device, struct adn_engine_plan *plan)
{
    struct layout l = { 0 };
    struct adn_fill_params params;
    memset(&params, 0, sizeof params);
    add_tensor(&l, p, ANYDNN_Y);
    lay_out(&l, pack_width(l.tensor[0]), false, false);
    fill_walk(&l, &params.dims, params.stride, &params.tail);
    params.size = (adn_i32)anydnn_dtype_size(l.tensor[0]->dtype);
    params.wide = l.width > 1;
    add_step(plan, &l, p, device, find("fill", ANYDNN_F32, 1), &params, sizeof params);
    return true;
}

static bool plan_eltwise(const struct adn_problem *p, const struct adn_device *device, const char *params,
                         struct adn_engine_plan *plan, struct adn_refusal *why)
{
    (void)params;
    if (device->info.max_block_threads < variants[0].block)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, variants[0].block,
                          "needs blocks of %d threads", (int)variants[0].block);
    switch (p->def->op) {
    case ANYDNN_OP_DROPOUT_FORWARD:
    case ANYDNN_OP_DROPOUT_BACKWARD: return plan_dropout(p, device, plan, why);
    case ANYDNN_OP_SGD:
    case ANYDNN_OP_ADAM: return plan_optimizer(p, device, plan, why);
    case ANYDNN_OP_COPY: return plan_copy(p, device, plan, why);
    case ANYDNN_OP_FILL: return plan_fill(p, device, plan);
    case ANYDNN_OP_REDUCE_BACKWARD:
        if (p->desc.reduce.mode == ANYDNN_REDUCE_MAX)
            return adn_refuse(why, ANYDNN_REASON_FEATURE, 0, "mode", ANYDNN_REDUCE_MAX, ANYDNN_REDUCE_MEAN,
                              "mode max needs a search: engine reduce");
        return plan_map(p, device, plan, why);
    default: return plan_map(p, device, plan, why);
    }
}

/* ---- Scalars of a run. ---- */

static double scalar_of(const struct adn_problem *p, const double *scalar, int role, double otherwise)
{
    const int slot = adn_slot(p, role);
    return slot < 0 ? otherwise : scalar[slot];
}

static bool in_memory(const struct adn_problem *p, int role) { return p->operand[adn_slot(p, role)].device; }

static void bind_map(const struct adn_problem *p, const double *scalar, struct adn_map_params *params)
{
    const double alpha = scalar_of(p, scalar, ANYDNN_ALPHA, 1.0);
    const bool binary = p->def->op == ANYDNN_OP_BINARY;
    params->alpha = binary ? 1.0f : (float)alpha;
    params->beta = (float)scalar_of(p, scalar, ANYDNN_BETA, 0.0);
    params->scale_a = binary ? (float)alpha : alpha != 0.0;
    params->scale_b = binary ? (float)scalar_of(p, scalar, ANYDNN_ALPHA2, 1.0)
                             : p->def->op == ANYDNN_OP_ACTIVATION_BACKWARD && alpha != 0.0;
    params->coef = (float)scalar_of(p, scalar, ANYDNN_COEF, 0.0);
    if (params->mode == ADN_MAP_DIVIDE) {
        const anydnn_tensor *dx = adn_tensor(p, ANYDNN_DX), *dy = adn_tensor(p, ANYDNN_DY);
        params->coef = (float)((double)anydnn_tensor_count(dx) / (double)anydnn_tensor_count(dy));
    }
}

static void bind_dropout(const struct adn_problem *p, const double *scalar, struct adn_dropout_params *params)
{
    const double ratio = scalar_of(p, scalar, ANYDNN_RATIO, 0.5);
    params->seed_device = in_memory(p, ANYDNN_SEED);
    params->offset_device = in_memory(p, ANYDNN_OFFSET);
    params->seed = params->seed_device ? 0 : (adn_i64)scalar_of(p, scalar, ANYDNN_SEED, 0.0);
    params->offset = params->offset_device ? 0 : (adn_i64)scalar_of(p, scalar, ANYDNN_OFFSET, 0.0);
    params->threshold = (adn_u32)ceil(ratio * 16777216.0);
    params->scale = ratio < 1.0 ? (float)(1.0 / (1.0 - ratio)) : 0.0f;
}

static void bind_optimizer(const struct adn_problem *p, const double *scalar, struct adn_optimizer_params *params)
{
    const bool adam = p->def->op == ANYDNN_OP_ADAM;
    const double beta1 = scalar_of(p, scalar, adam ? ANYDNN_BETA1 : ANYDNN_MOMENTUM, 0.0);
    const double beta2 = scalar_of(p, scalar, ANYDNN_BETA2, 0.0);
    params->lr_device = in_memory(p, ANYDNN_LR);
    params->lr = params->lr_device ? 0.0f : (float)scalar_of(p, scalar, ANYDNN_LR, 0.0);
    params->weight_decay = (float)scalar_of(p, scalar, ANYDNN_WEIGHT_DECAY, 0.0);
    params->beta1 = (float)beta1, params->rest1 = (float)(1.0 - beta1);
    params->beta2 = (float)beta2, params->rest2 = (float)(1.0 - beta2);
    if (!adam) return;
    params->epsilon = (float)scalar_of(p, scalar, ANYDNN_EPSILON, 0.0);
    params->step_device = in_memory(p, ANYDNN_STEP);
    params->log_beta1 = (float)log(beta1), params->log_beta2 = (float)log(beta2);
    if (params->step_device) return;
    params->correction1 = (float)(1.0 - pow(beta1, scalar_of(p, scalar, ANYDNN_STEP, 1.0)));
    params->correction2 = (float)(1.0 - pow(beta2, scalar_of(p, scalar, ANYDNN_STEP, 1.0)));
}

static bool is_counter(int dtype) { return dtype == ANYDNN_I32 || dtype == ANYDNN_I64; }
static bool is_whole(double v) { return v == nearbyint(v) && fabs(v) <= 0x1p53; }

/* Plain copies between integers, and i32 and i64 with whole factors: exact in 64-bit integers. */
static bool copies_integers(const struct adn_copy_params *params, double alpha, double beta)
{
    if (alpha == 1.0 && beta == 0.0) return is_integer(params->in_dtype) && is_integer(params->out_dtype);
    return is_counter(params->in_dtype) && is_counter(params->out_dtype) && is_whole(alpha) && is_whole(beta);
}

static void bind_copy(const struct adn_problem *p, const double *scalar, struct adn_copy_params *params)
{
    const double alpha = scalar_of(p, scalar, ANYDNN_ALPHA, 1.0), beta = scalar_of(p, scalar, ANYDNN_BETA, 0.0);
    memcpy(&params->alpha_bits, &alpha, sizeof alpha);
    memcpy(&params->beta_bits, &beta, sizeof beta);
    params->alpha = (float)alpha, params->beta = (float)beta;
    if (!copies_integers(params, alpha, beta)) return;
    params->kind = ADN_COPY_INTEGER;
    params->alpha_bits = (adn_i64)alpha, params->beta_bits = (adn_i64)beta;
}

/* v rounded half to even to `digits` significant bits, in multiples of 2^least at the finest. */
static double round_to(double v, int digits, int least)
{
    int exponent;
    if (v == 0.0 || !isfinite(v)) return v;
    (void)frexp(v, &exponent);
    exponent = exponent - digits > least ? exponent - digits : least;
    return ldexp(nearbyint(ldexp(v, -exponent)), exponent);
}

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static uint64_t f16_bits(double v)
{
    const double rounded = round_to(v, 11, -24), size = fabs(rounded);
    const uint64_t sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v)) return 0x7e00;
    if (size > 65504.0) return sign | 0x7c00;
    if (size < 0x1p-14) return sign | (uint64_t)(size * 0x1p24);
    return sign | ((float_bits((float)size) >> 13) - (112u << 10));
}

/* v as an integer of `bits` bits: half to even, saturated, NaN as 0. */
static uint64_t integer_bits(double v, int bits, bool is_signed)
{
    const double high = ldexp(1.0, is_signed ? bits - 1 : bits), low = is_signed ? -high : 0.0;
    if (isnan(v)) return 0;
    v = nearbyint(v);
    if (v >= high) return ((uint64_t)1 << (is_signed ? bits - 1 : bits)) - 1;
    return (uint64_t)(int64_t)(v < low ? low : v);
}

static uint64_t element_bits(double v, int dtype)
{
    uint64_t bits = 0;
    switch (dtype) {
    case ANYDNN_F32: return float_bits((float)v);
    case ANYDNN_F16: return f16_bits(v);
    case ANYDNN_BF16: return isnan(v) ? 0x7fc0 : float_bits((float)round_to(v, 8, -133)) >> 16;
    case ANYDNN_F64: memcpy(&bits, &v, sizeof v); return bits;
    case ANYDNN_I8: return integer_bits(v, 8, true);
    case ANYDNN_U8: return integer_bits(v, 8, false);
    case ANYDNN_I32: return integer_bits(v, 32, true);
    default: return integer_bits(v, 64, true);
    }
}

static void bind_fill(const struct adn_problem *p, const double *scalar, struct adn_fill_params *params)
{
    uint64_t bits = element_bits(scalar_of(p, scalar, ANYDNN_VALUE, 0.0), adn_tensor(p, ANYDNN_Y)->dtype);
    if (params->size == 1) bits = (bits & 0xff) * 0x101;
    if (params->size <= 2) bits = (bits & 0xffff) * 0x10001;
    if (params->size <= 4) bits = (bits & 0xffffffff) * 0x100000001;
    params->pattern = bits;
}

static void bind_eltwise(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                         void *params)
{
    const char *kernel = plan->step[step].variant->kernel;
    if (strcmp(kernel, "map") == 0) bind_map(p, scalar, params);
    else if (strcmp(kernel, "dropout") == 0) bind_dropout(p, scalar, params);
    else if (strcmp(kernel, "copy") == 0) bind_copy(p, scalar, params);
    else if (strcmp(kernel, "fill") == 0) bind_fill(p, scalar, params);
    else bind_optimizer(p, scalar, params);
}

const struct adn_engine adn_engine_eltwise = {
    .name = "eltwise",
    .ops = ADN_OP_BIT(ANYDNN_OP_ACTIVATION_FORWARD) | ADN_OP_BIT(ANYDNN_OP_ACTIVATION_BACKWARD) |
           ADN_OP_BIT(ANYDNN_OP_BINARY) | ADN_OP_BIT(ANYDNN_OP_COPY) | ADN_OP_BIT(ANYDNN_OP_FILL) |
           ADN_OP_BIT(ANYDNN_OP_SCALE) | ADN_OP_BIT(ANYDNN_OP_DROPOUT_FORWARD) |
           ADN_OP_BIT(ANYDNN_OP_DROPOUT_BACKWARD) | ADN_OP_BIT(ANYDNN_OP_SGD) | ADN_OP_BIT(ANYDNN_OP_ADAM) |
           ADN_OP_BIT(ANYDNN_OP_REDUCE_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 2,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_eltwise,
    .bind = bind_eltwise,
};
