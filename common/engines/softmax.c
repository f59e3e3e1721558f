/* SPDX-License-Identifier: Apache-2.0
 * common/engines/softmax.c: engine `softmax`: softmax and log-softmax over any axes, forward and backward, one launch,
 * no workspace. Parameter of its id: threads of a row's team ("softmax:32").
 * Limits: f32, f16, bf16. */
#include "plan_team.h"
#include "softmax_params.h"

#include <stdio.h>
#include <string.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "softmax", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#include "softmax.variants"
#undef ADN_VARIANT
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* Tensors in the order of the kernel's arguments; returns how many. */
static int roles_of(const struct adn_problem *p, int roles[3])
{
    const bool forward = p->def->op == ANYDNN_OP_SOFTMAX_FORWARD;
    roles[0] = forward ? ANYDNN_X : ANYDNN_Y;
    roles[1] = forward ? ANYDNN_Y : ANYDNN_DY;
    roles[2] = ANYDNN_DX;
    return forward ? 2 : 3;
}

static void fill(const struct adn_problem *p, const int *roles, int count, struct adn_softmax_params *params)
{
    const anydnn_tensor *tensors[3] = { NULL };
    struct adn_walk kept, reduced;
    int i;
    for (i = 0; i < count; i++) tensors[i] = adn_tensor(p, roles[i]);
    adn_walk_init(&kept, tensors[0], ~p->desc.softmax.axes, count, tensors, false);
    adn_walk_init(&reduced, tensors[0], p->desc.softmax.axes, count, tensors, false);
    adn_team_fill(&kept, &reduced, count, &params->walk, params->stride);
    params->log = p->desc.softmax.mode == ANYDNN_LOG_SOFTMAX;
}

static bool plan_softmax(const struct adn_problem *p, const struct adn_device *device, const char *text,
                         struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const bool forward = p->def->op == ANYDNN_OP_SOFTMAX_FORWARD;
    const anydnn_tensor *y = adn_tensor(p, ANYDNN_Y);
    const double count = (double)anydnn_tensor_count(y);
    const struct adn_variant *variant =
        adn_find_variant(variants, VARIANTS, forward ? "softmax_forward" : "softmax_backward", y->dtype, NULL);
    struct adn_softmax_params params;
    struct adn_step *step;
    int roles[3], tensors, parts, i;
    if (!variant)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, ANYDNN_Y, "dtype", y->dtype, ANYDNN_F32, "no kernel for %s",
                          anydnn_dtype_name(y->dtype));
    if (device->info.max_block_threads < variant->block)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, variant->block,
                          "needs blocks of %d threads", adn_team_most(variant->block, device));
    if (!adn_team_parse(text, variant->block, device, &parts, NULL))
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "parts", 0, adn_team_most(variant->block, device),
                          "'%s' is no power of two up to %d", text, adn_team_most(variant->block, device));
    memset(&params, 0, sizeof params);
    tensors = roles_of(p, roles);
    fill(p, roles, tensors, &params);
    adn_team_split(&params.walk, parts, p->batch_invariant, variant->block, variant->constant[0], device);
    if (adn_is_empty(y)) params.walk.groups = 0;
    step = adn_add_step(plan, variant, adn_blocks(params.walk.groups, 1, device), &params, sizeof params);
    for (i = 0; i < tensors; i++) adn_step_role(step, p, roles[i]);
    if (parts) snprintf(plan->params, sizeof plan->params, "%d", parts);
    plan->cost_ns = adn_estimate_ns(device, count * tensors * (double)anydnn_dtype_size(y->dtype), 30.0 * count, 0.5);
    return true;
}

static void bind_softmax(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan,
                         int step, void *params)
{
    struct adn_softmax_params *q = params;
    (void)plan, (void)step;
    q->alpha = (float)scalar[adn_slot(p, ANYDNN_ALPHA)];
    q->beta = (float)scalar[adn_slot(p, ANYDNN_BETA)];
}

const struct adn_engine adn_engine_softmax = {
    .name = "softmax",
    .ops = ADN_OP_BIT(ANYDNN_OP_SOFTMAX_FORWARD) | ADN_OP_BIT(ANYDNN_OP_SOFTMAX_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_softmax,
    .candidate = adn_team_candidate,
    .bind = bind_softmax,
};
