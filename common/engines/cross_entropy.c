/* SPDX-License-Identifier: Apache-2.0
 * common/engines/cross_entropy.c: engine `cross_entropy`: softmax and cross entropy in one, forward and backward.
 *
 * Forward: one launch where each row's loss is wanted; else one that leaves partial sums in the workspace and one that
 * adds them, or a single block without workspace. Backward: one launch, which divides by the counted rows: they are
 * counted by a launch before it, or, for few rows or without workspace, by every block for itself.
 * Parameter of its id: threads of a row's team ("cross_entropy:32").
 * Limits: f32, f16, bf16 logits. */
#include "cross_entropy_params.h"
#include "plan_team.h"

#include <stdio.h>
#include <string.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "cross_entropy", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#include "cross_entropy.variants"
#undef ADN_VARIANT
};
enum { VARIANTS = sizeof variants / sizeof variants[0], FEW_ROWS = 4096, MOST_PARTIALS = 1024 };

_Static_assert(sizeof(struct adn_cross_entropy_params) <= ADN_MAX_PARAMS, "parameters fit a launch");

static const struct adn_variant *variant_of(const char *kernel, int dtype)
{
    return adn_find_variant(variants, VARIANTS, kernel, dtype, NULL);
}

static void fill(const struct adn_problem *p, struct adn_cross_entropy_params *params)
{
    const bool forward = p->def->op == ANYDNN_OP_CROSS_ENTROPY_FORWARD;
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X), *labels = adn_tensor(p, ANYDNN_LABELS);
    const anydnn_tensor *loss = adn_tensor(p, forward ? ANYDNN_LOSS : ANYDNN_DLOSS), *dx = adn_tensor(p, ANYDNN_DX);
    const anydnn_tensor *tensors[4];
    struct adn_walk kept, reduced;
    tensors[0] = x, tensors[1] = labels, tensors[2] = loss ? loss : labels, tensors[3] = dx ? dx : x;
    adn_walk_init(&kept, x, ~2u, 4, tensors, false);
    adn_walk_init(&reduced, x, 2u, 4, tensors, false);
    adn_team_fill(&kept, &reduced, 4, &params->walk, params->stride);
    params->x_class = x->dims[1] > 1 ? x->strides[1] : 0;
    params->mean = p->desc.cross_entropy.reduction == ANYDNN_LOSS_MEAN;
    params->wide_labels = labels->dtype == ANYDNN_I64;
    params->has_dloss = !forward && loss != NULL;
}

/* Blocks whose partial results fit; 0 where fewer than two do. */
static uint64_t partial_blocks(uint64_t blocks, uint64_t most, uint64_t limit)
{
    const uint64_t room = limit / sizeof(struct adn_loss_partial);
    if (blocks > most) blocks = most;
    if (blocks > room) blocks = room;
    return blocks < 2 ? 0 : blocks;
}

static void plan_forward(struct adn_engine_plan *plan, const struct adn_problem *p, int dtype,
                         struct adn_cross_entropy_params *params, const struct adn_device *device)
{
    const bool rows = p->desc.cross_entropy.reduction == ANYDNN_LOSS_NONE;
    const uint64_t all = adn_blocks(params->walk.groups, 1, device);
    const uint64_t blocks = rows ? 0 : partial_blocks(all, UINT32_MAX, p->workspace_limit);
    struct adn_step *step;
    uint64_t partial = 0;
    params->emit = rows ? ADN_LOSS_EMIT_ROWS : blocks ? ADN_LOSS_EMIT_PARTIALS : ADN_LOSS_EMIT_TOTAL;
    if (blocks) partial = adn_book(plan, blocks * sizeof(struct adn_loss_partial));
    if (params->walk.groups > 0) {
        step = adn_add_step(plan, variant_of("cross_entropy_forward", dtype),
                            rows     ? all
                            : blocks ? blocks
                                     : 1,
                            params, sizeof *params);
        adn_step_role(step, p, ANYDNN_X);
        adn_step_role(step, p, ANYDNN_LABELS);
        adn_step_role(step, p, ANYDNN_LOSS);
        if (blocks)
            adn_step_workspace(step, partial);
        else
            adn_step_null(step);
    }
    /* Without any row this launch alone writes the loss, 0. */
    if (rows || (!blocks && params->walk.groups > 0)) return;
    params->emit = ADN_LOSS_EMIT_TOTAL;
    params->partials = (adn_i32)blocks;
    step = adn_add_step(plan, variant_of("cross_entropy_finish", dtype), 1, params, sizeof *params);
    if (blocks)
        adn_step_workspace(step, partial);
    else
        adn_step_null(step);
    adn_step_role(step, p, ANYDNN_LOSS);
}

static void plan_backward(struct adn_engine_plan *plan, const struct adn_problem *p, int dtype,
                          struct adn_cross_entropy_params *params, const struct adn_device *device)
{
    const uint64_t blocks = adn_blocks(params->walk.groups, 1, device);
    uint64_t partials = 0, partial = 0;
    struct adn_step *step;
    if (params->mean && params->walk.rows > FEW_ROWS)
        partials = partial_blocks(adn_blocks(params->walk.rows, 256, device), MOST_PARTIALS, p->workspace_limit);
    if (partials) {
        partial = adn_book(plan, partials * sizeof(struct adn_loss_partial));
        step = adn_add_step(plan, variant_of("cross_entropy_count", dtype), partials, params, sizeof *params);
        adn_step_role(step, p, ANYDNN_LABELS);
        adn_step_workspace(step, partial);
    }
    params->partials = (adn_i32)partials;
    step = adn_add_step(plan, variant_of("cross_entropy_backward", dtype), blocks, params, sizeof *params);
    adn_step_role(step, p, ANYDNN_X);
    adn_step_role(step, p, ANYDNN_LABELS);
    adn_step_role(step, p, ANYDNN_DLOSS);
    adn_step_role(step, p, ANYDNN_DX);
    if (partials)
        adn_step_workspace(step, partial);
    else
        adn_step_null(step);
}

static bool plan_cross_entropy(const struct adn_problem *p, const struct adn_device *device, const char *text,
                               struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const bool forward = p->def->op == ANYDNN_OP_CROSS_ENTROPY_FORWARD;
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X);
    const double count = (double)anydnn_tensor_count(x), bytes = count * (double)anydnn_dtype_size(x->dtype);
    const struct adn_variant *variant = variant_of("cross_entropy_forward", x->dtype);
    struct adn_cross_entropy_params params;
    int parts;
    if (!variant)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, ANYDNN_X, "dtype", x->dtype, ANYDNN_F32, "no kernel for %s",
                          anydnn_dtype_name(x->dtype));
    if (device->info.max_block_threads < variant->block)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, variant->block,
                          "needs blocks of %d threads", adn_team_most(variant->block, device));
    if (!adn_team_parse(text, variant->block, device, &parts, NULL))
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "parts", 0, adn_team_most(variant->block, device),
                          "'%s' is no power of two up to %d", text, adn_team_most(variant->block, device));
    if (parts) snprintf(plan->params, sizeof plan->params, "%d", parts);
    memset(&params, 0, sizeof params);
    fill(p, &params);
    adn_team_split(&params.walk, parts, p->batch_invariant, variant->block, variant->constant[0], device);
    if (forward)
        plan_forward(plan, p, x->dtype, &params, device);
    else
        plan_backward(plan, p, x->dtype, &params, device);
    plan->cost_ns =
        adn_estimate_ns(device, forward ? bytes : 2 * bytes, 30.0 * count, 0.5) + 3000.0 * (plan->steps - 1);
    return true;
}

static void bind_cross_entropy(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan,
                               int step, void *params)
{
    struct adn_cross_entropy_params *q = params;
    (void)plan, (void)step;
    q->smoothing = (float)scalar[adn_slot(p, ANYDNN_SMOOTHING)];
}

const struct adn_engine adn_engine_cross_entropy = {
    .name = "cross_entropy",
    .ops = ADN_OP_BIT(ANYDNN_OP_CROSS_ENTROPY_FORWARD) | ADN_OP_BIT(ANYDNN_OP_CROSS_ENTROPY_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_cross_entropy,
    .candidate = adn_team_candidate,
    .bind = bind_cross_entropy,
};
