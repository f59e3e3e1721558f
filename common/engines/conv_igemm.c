/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_igemm.c: convolution forward, backward data and backward filter as one gathered matrix product
 * (common/index/conv_index.h). Parameters: the tile, "128x128x8".
 *
 * Tiles    Rows of conv_igemm.variants; those of one work item (conv_igemm_cpu) are for CPUs behind OpenCL.
 * Splits   Where tiles are too few for the device, the depth is cut and float partial sums go to the workspace, as
 *          far as its limit allows; a second step adds them up in order.
 * Limits   Rows, columns, depths and coordinates below 2^30, tiles below 2^31: conv_direct takes the rest. */
#include "conv_product.h"
#include "plan_conv.h"

#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "conv_igemm", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#define ADN_VARIANT_CL ADN_VARIANT
static const struct adn_variant variants[] = {
#include "conv_igemm.variants"
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

static const struct adn_tile_speed speed = { 0.7, 0.5, 0.35, 0.35, 0.22 };

/* Part of the arithmetic peak. A CPU gathers an element of a tile's columns in the time of this many operations, which
 * counts where a tile has few rows to use it for. */
static double share_of(const struct adn_conv_product *m, const struct adn_tile_layout *l, const struct adn_device *device)
{
    const double gather = 160.0, elements = (double)m->phases * (double)m->groups * (double)l->row_tiles *
                                            (double)m->columns * (double)m->depth;
    if (!device->info.is_cpu || !(m->flops > 0)) return l->share;
    return m->flops / (m->flops / l->share + gather * elements);
}

static bool plan_igemm(const struct adn_problem *p, const struct adn_device *device, const char *params,
                       struct adn_engine_plan *plan, struct adn_refusal *why)
{
    static const int32_t none[6] = { 0 };
    const int dtype = p->operand[0].t.dtype, out = adn_conv_role(p->def->op, ANYDNN_Y, ANYDNN_DX, ANYDNN_DW);
    struct adn_conv_product m;
    struct adn_tile_layout l;
    if (!adn_conv_has_dtype(device, dtype, why) || !adn_conv_z_lies_as(p, out, why)) return false;
    if (!adn_conv_product_of(p, 4, &m, why)) return false;
    if (!adn_conv_choose(variants, VARIANTS, speed, 0, &m, p, device, params, &l, why)) return false;
    adn_tile_name(l.variant, plan->params);
    adn_conv_add_steps(&m, p, &l, adn_find_variant(variants, VARIANTS, "conv_igemm_sum", dtype, none), plan);
    plan->cost_ns = adn_estimate_ns(device, m.bytes, m.flops, share_of(&m, &l, device));
    return true;
}

static bool candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32])
{
    const struct adn_variant *v = adn_tile_at(variants, VARIANTS, p->operand[0].t.dtype, device, index);
    if (!v) return false;
    adn_tile_name(v, params);
    return true;
}

const struct adn_engine adn_engine_conv_igemm = {
    .name = "conv_igemm",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_igemm,
    .candidate = candidate,
    .bind = adn_conv_bind,
};
