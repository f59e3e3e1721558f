/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/conv_mma.c: conv_igemm on tensor cores: conv_mma for f16 and bf16, conv_mma_tf32 for f32 where the math
 * mode lets products be rounded to tf32. Parameters: the tile, "128x128x32". Tiles, splits and limits as conv_igemm. */
#include "common/engines/conv_product.h"
#include "common/engines/plan_conv.h"
#include "cuda.h"

#include <string.h>

/* Pipelined kernels: their stages, a table of depths and the tile's place in dynamic shared memory. */
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "conv_mma", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f },                                        \
      (f) ? (f) * ((a) + (b)) * 64 + (block)*32 + 256 : 0 },
static const struct adn_variant variants[] = {
#include "common/engines/conv_mma.variants"
};
enum { VARIANTS = sizeof variants / sizeof variants[0], VECTOR_BYTES = 16 };

/* Shares of what plain arithmetic could reach, before the factor below: tiles of 128 rows were measured behind. */
static const struct adn_tile_speed speed = { 0.35, 0.5, 0.35, 0.0, 0.0 };

/* The kernel that serves the product's layouts. */
static const char *kernel_for(const struct adn_conv_product *m)
{
    const bool halves = anydnn_dtype_size(m->dtype) == 2;
    if (m->params.a_vector && m->params.b_vector) return "conv_mma_pipe";
    if (halves && m->a_lines && m->params.b_vector) return "conv_mma_pipe_a";
    if (halves && m->a_lines && m->b_lines) return "conv_mma_pipe_ab";
    return "conv_mma";
}

/* Its rows, which lie side by side. */
static const struct adn_variant *kernels_for(const struct adn_conv_product *m, int *count)
{
    const char *kernel = kernel_for(m);
    const struct adn_variant *first = variants;
    while (strcmp(first->kernel, kernel) != 0) first++;
    for (*count = 0; first + *count < variants + VARIANTS && !strcmp(first[*count].kernel, kernel);) ++*count;
    return first;
}

static bool plan_mma(const struct adn_problem *p, const struct adn_device *device, const char *params, double factor,
                     struct adn_engine_plan *plan, struct adn_refusal *why)
{
    static const int32_t none[6] = { 0 };
    const int dtype = p->operand[0].t.dtype, out = adn_conv_role(p->def->op, ANYDNN_Y, ANYDNN_DX, ANYDNN_DW);
    const int bytes = (int)anydnn_dtype_size(dtype);
    const struct adn_variant *kernels;
    struct adn_conv_product m;
    struct adn_tile_layout l;
    int count;
    if (device->info.capability < 80)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "capability", device->info.capability, 80,
                          "wants tensor cores of compute capability 8.0 or more");
    if (!adn_conv_z_lies_as(p, out, why) || !adn_conv_product_of(p, VECTOR_BYTES / bytes, &m, why)) return false;
    kernels = kernels_for(&m, &count);
    if (!adn_conv_choose(kernels, count, speed, bytes, &m, p, device, params, &l, why)) return false;
    adn_tile_name(l.variant, plan->params);
    adn_conv_add_steps(&m, p, &l, adn_find_variant(variants, VARIANTS, "conv_mma_sum", dtype, none), plan);
    plan->cost_ns = adn_estimate_ns(device, m.bytes, m.flops, l.share * factor);
    return true;
}

static bool plan_halves(const struct adn_problem *p, const struct adn_device *device, const char *params,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const int dtype = p->operand[0].t.dtype;
    if (dtype != ANYDNN_F16 && dtype != ANYDNN_BF16)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, 0, "dtype", dtype, ANYDNN_F16, "multiplies f16 and bf16");
    return plan_mma(p, device, params, 5.0, plan, why);
}

static bool plan_tf32(const struct adn_problem *p, const struct adn_device *device, const char *params,
                      struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const int dtype = p->operand[0].t.dtype;
    if (dtype != ANYDNN_F32)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, 0, "dtype", dtype, ANYDNN_F32, "multiplies f32");
    return plan_mma(p, device, params, 2.5, plan, why);
}

static bool candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32])
{
    const int dtype = p->operand[0].t.dtype;
    const struct adn_variant *kernels, *v;
    struct adn_conv_product m;
    int count;
    if (!adn_conv_product_of(p, VECTOR_BYTES / (int)anydnn_dtype_size(dtype), &m, NULL)) return false;
    kernels = kernels_for(&m, &count);
    v = adn_tile_at(kernels, count, dtype, device, index);
    if (v) adn_tile_name(v, params);
    return v != NULL;
}

const struct adn_engine adn_cuda_engine_conv_mma = {
    .name = "conv_mma",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT,
    .revision = 2,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_halves,
    .candidate = candidate,
    .bind = adn_conv_bind,
};

const struct adn_engine adn_cuda_engine_conv_mma_tf32 = {
    .name = "conv_mma_tf32",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_REDUCED_MATH,
    .revision = 2,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_tf32,
    .candidate = candidate,
    .bind = adn_conv_bind,
};
