/* SPDX-License-Identifier: Apache-2.0
 * common/engines/batchnorm.c: engine `batchnorm`: training, inference and backward, spatial and per activation.
 *
 * One launch, one team of threads for each feature, when there are many features, the batch is short, or no workspace
 * is allowed. Else features are cut into chunks: a launch leaves partial sums in the workspace, the next one joins
 * them in order and writes the outputs. Backward without saved statistics puts the statistics' launch in front.
 * Parameters of its id: threads of a team and chunks of a feature ("batchnorm:256x4").
 * Limits: f32, f16, bf16 data. */
#include "batchnorm_params.h"
#include "plan_team.h"

#include <stdio.h>
#include <string.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "batchnorm", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#include "batchnorm.variants"
#undef ADN_VARIANT
};
enum { VARIANTS = sizeof variants / sizeof variants[0], PARAMETERS = 6 };

_Static_assert(sizeof(struct adn_batchnorm_params) <= ADN_MAX_PARAMS, "parameters fit a launch");

/* ---- geometry ---- */

struct layout {
    int data_roles[3], datas;
    int parameter_roles[PARAMETERS]; /* by the numbers of batchnorm_params.h; 0 = none */
};

static struct layout layout_of(const struct adn_problem *p)
{
    static const struct layout forward = { { ANYDNN_X, ANYDNN_Y, 0 },
                                           2,
                                           { ANYDNN_GAMMA, ANYDNN_SHIFT, ANYDNN_RUNNING_MEAN, ANYDNN_RUNNING_VAR,
                                             ANYDNN_SAVED_MEAN, ANYDNN_SAVED_INVSTD } };
    static const struct layout backward = { { ANYDNN_X, ANYDNN_DY, ANYDNN_DX },
                                            3,
                                            { ANYDNN_GAMMA, 0, ANYDNN_DGAMMA, ANYDNN_DSHIFT, ANYDNN_SAVED_MEAN,
                                              ANYDNN_SAVED_INVSTD } };
    return p->def->op == ANYDNN_OP_BATCHNORM_BACKWARD ? backward : forward;
}

static int64_t stride_of(const anydnn_tensor *t, int axis)
{
    return t && t->dims[axis] != 1 ? t->strides[axis] : 0;
}

/* The kept axes as a walk over data and parameters at once: more tensors than adn_walk_init takes. Axes stand in the
 * order of x's strides; neighbours merge where every tensor allows it. */
static void keep_axes(const struct adn_problem *p, const struct layout *l, struct adn_walk *kept,
                      struct adn_batchnorm_params *params)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X), *data[3], *parameter[PARAMETERS];
    const int last = p->desc.batchnorm.mode == ANYDNN_BATCHNORM_SPATIAL ? 1 : x->ndim - 1;
    int order[ANYDNN_MAX_DIMS], count = 0, axis, i, j;
    for (i = 0; i < l->datas; i++) data[i] = adn_tensor(p, l->data_roles[i]);
    for (i = 0; i < PARAMETERS; i++) parameter[i] = l->parameter_roles[i] ? adn_tensor(p, l->parameter_roles[i]) : NULL;
    for (axis = 1; axis <= last; axis++) {
        if (x->dims[axis] == 1) continue;
        for (j = count++; j > 0 && x->strides[order[j - 1]] < x->strides[axis]; j--) order[j] = order[j - 1];
        order[j] = axis;
    }
    memset(kept, 0, sizeof *kept);
    kept->count = 1;
    for (j = 0; j < count; j++) {
        const int64_t size = x->dims[order[j]];
        int k = kept->rank - 1;
        bool merge = kept->rank > 0;
        for (i = 0; i < l->datas && merge; i++) merge = kept->stride[i][k] == size * stride_of(data[i], order[j]);
        for (i = 0; i < PARAMETERS && merge; i++)
            merge = params->parameter[i][k] == size * stride_of(parameter[i], order[j]);
        if (!merge) kept->size[k = kept->rank++] = 1;
        kept->size[k] *= size;
        kept->count *= size;
        for (i = 0; i < l->datas; i++) kept->stride[i][k] = stride_of(data[i], order[j]);
        for (i = 0; i < PARAMETERS; i++) params->parameter[i][k] = stride_of(parameter[i], order[j]);
    }
}

static void fill(const struct adn_problem *p, const struct layout *l, struct adn_batchnorm_params *params)
{
    const uint32_t kept_axes = p->desc.batchnorm.mode == ANYDNN_BATCHNORM_SPATIAL ? 2u : ~1u;
    const anydnn_tensor *data[3] = { NULL };
    struct adn_strides strides[3] = { { { 0 } } };
    struct adn_walk kept, reduced;
    int i;
    for (i = 0; i < l->datas; i++) data[i] = adn_tensor(p, l->data_roles[i]);
    keep_axes(p, l, &kept, params);
    adn_walk_init(&reduced, data[0], ~kept_axes, l->datas, data, false);
    adn_team_fill(&kept, &reduced, l->datas, &params->walk, strides);
    for (i = 0; i < l->datas; i++) memcpy(params->data[i], strides[i].stride, sizeof params->data[i]);
    params->has_running = p->def->op == ANYDNN_OP_BATCHNORM_TRAINING && adn_tensor(p, ANYDNN_RUNNING_MEAN);
    params->has_saved = adn_tensor(p, ANYDNN_SAVED_MEAN) != NULL;
}

/* ---- parts and splits ---- */

/* Features that lie side by side: memory lines of 128 bytes for each part. */
static int side_by_side(const struct adn_team_walk *walk, int block, size_t element)
{
    const int line = (int)(128 / element);
    int rows = 1;
    while (rows < line && rows < walk->rows) rows *= 2;
    return block / rows;
}

static int choose_splits(const struct adn_batchnorm_params *params, int each, const struct adn_device *device)
{
    const int64_t units = device->info.compute_units > 0 ? device->info.compute_units : 1;
    const int64_t step = (int64_t)each << params->walk.parts_log2;
    int64_t splits = params->walk.groups ? units * 4 / params->walk.groups : 1;
    if (splits > params->walk.length / (2 * step)) splits = params->walk.length / (2 * step);
    return splits < 2 ? 1 : splits > 256 ? 256 : (int)splits;
}

/* Bytes of an array of partial results: a pair for each chunk and row, and the rows' pivots. */
static uint64_t partial_bytes(int splits, int64_t rows)
{
    return (8 * (uint64_t)splits + 4) * (uint64_t)rows;
}

/* Chunks of whole steps; fewer when the workspace cannot hold `arrays` (0 to 2) arrays of partial results. */
static void split(struct adn_batchnorm_params *params, int splits, int each, int arrays, uint64_t limit)
{
    const int64_t step = (int64_t)each << params->walk.parts_log2, length = params->walk.length;
    for (; splits > 1; splits--) {
        const uint64_t bytes = partial_bytes(splits, params->walk.rows), aligned = (bytes + 255) / 256 * 256;
        if ((arrays > 1 ? aligned : 0) + (arrays ? bytes : 0) <= limit) break;
    }
    params->chunk = length;
    params->splits = 1;
    if (splits < 2 || length == 0) return;
    params->chunk = ((length - 1) / splits / step + 1) * step;
    params->splits = (adn_i32)((length - 1) / params->chunk + 1);
    if (params->splits == 1) params->chunk = length;
}

static uint64_t book_partial(struct adn_engine_plan *plan, const struct adn_batchnorm_params *params)
{
    return adn_book(plan, partial_bytes(params->splits, params->walk.rows));
}

/* ---- steps ---- */

static void add_forward(struct adn_engine_plan *plan, const struct adn_problem *p, const struct adn_variant *variant,
                        const struct adn_batchnorm_params *params, const struct adn_device *device, uint64_t partial)
{
    const bool forward = p->def->op != ANYDNN_OP_BATCHNORM_BACKWARD;
    const uint64_t blocks = adn_blocks(params->walk.groups * params->splits, 1, device);
    struct adn_step *step = adn_add_step(plan, variant, blocks, params, sizeof *params);
    static const int roles[] = { ANYDNN_Y,           ANYDNN_GAMMA,      ANYDNN_SHIFT,       ANYDNN_RUNNING_MEAN,
                                 ANYDNN_RUNNING_VAR, ANYDNN_SAVED_MEAN, ANYDNN_SAVED_INVSTD };
    size_t i;
    adn_step_role(step, p, ANYDNN_X);
    for (i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (forward)
            adn_step_role(step, p, roles[i]);
        else
            adn_step_null(step);
    }
    if (params->splits > 1 && params->statistics != ADN_BATCHNORM_FROM_TENSORS)
        adn_step_workspace(step, partial);
    else
        adn_step_null(step);
}

static void add_backward(struct adn_engine_plan *plan, const struct adn_problem *p, const struct adn_variant *variant,
                         const struct adn_batchnorm_params *params, const struct adn_device *device, uint64_t moments,
                         uint64_t partial)
{
    const uint64_t blocks = adn_blocks(params->walk.groups * params->splits, 1, device);
    struct adn_step *step = adn_add_step(plan, variant, blocks, params, sizeof *params);
    static const int roles[] = { ANYDNN_X,          ANYDNN_DY,           ANYDNN_DX,     ANYDNN_GAMMA,
                                 ANYDNN_SAVED_MEAN, ANYDNN_SAVED_INVSTD, ANYDNN_DGAMMA, ANYDNN_DSHIFT };
    size_t i;
    for (i = 0; i < sizeof roles / sizeof roles[0]; i++) adn_step_role(step, p, roles[i]);
    if (params->statistics == ADN_BATCHNORM_FROM_PARTIALS)
        adn_step_workspace(step, moments);
    else
        adn_step_null(step);
    if (params->splits > 1)
        adn_step_workspace(step, partial);
    else
        adn_step_null(step);
}

static void plan_forward(struct adn_engine_plan *plan, const struct adn_problem *p, const struct adn_variant *variant,
                         struct adn_batchnorm_params *params, const struct adn_device *device)
{
    const bool inference = p->def->op == ANYDNN_OP_BATCHNORM_INFERENCE;
    uint64_t partial = 0;
    if (params->splits > 1 && !inference) {
        partial = book_partial(plan, params);
        add_forward(plan, p, variant, params, device, partial);
        params->statistics = ADN_BATCHNORM_FROM_PARTIALS;
    }
    if (inference) params->statistics = ADN_BATCHNORM_FROM_TENSORS;
    params->finish = 1;
    add_forward(plan, p, variant, params, device, partial);
}

static void plan_backward(struct adn_engine_plan *plan, const struct adn_problem *p, const struct adn_variant *variant,
                          const struct adn_variant *forward, struct adn_batchnorm_params *params,
                          const struct adn_device *device)
{
    uint64_t moments = 0, partial = 0;
    if (params->has_saved) {
        params->statistics = ADN_BATCHNORM_FROM_TENSORS;
    } else if (params->splits > 1) {
        moments = book_partial(plan, params);
        add_forward(plan, p, forward, params, device, moments);
        params->statistics = ADN_BATCHNORM_FROM_PARTIALS;
    }
    if (params->splits > 1) {
        partial = book_partial(plan, params);
        add_backward(plan, p, variant, params, device, moments, partial);
        params->sums = ADN_BATCHNORM_FROM_PARTIALS;
    }
    params->finish = 1;
    add_backward(plan, p, variant, params, device, moments, partial);
}

static bool plan_batchnorm(const struct adn_problem *p, const struct adn_device *device, const char *text,
                           struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const bool backward = p->def->op == ANYDNN_OP_BATCHNORM_BACKWARD;
    const int dtype = adn_tensor(p, ANYDNN_X)->dtype;
    const double bytes = (double)anydnn_tensor_count(adn_tensor(p, ANYDNN_X)) * (double)anydnn_dtype_size(dtype);
    const struct adn_variant *forward = adn_find_variant(variants, VARIANTS, "batchnorm_forward", dtype, NULL);
    const struct adn_variant *variant =
        backward ? adn_find_variant(variants, VARIANTS, "batchnorm_backward", dtype, NULL) : forward;
    const struct layout l = layout_of(p);
    struct adn_batchnorm_params params;
    int parts, splits, each, arrays;
    if (!variant || !forward)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, ANYDNN_X, "dtype", dtype, ANYDNN_F32, "no kernel for %s",
                          anydnn_dtype_name(dtype));
    if (device->info.max_block_threads < variant->block)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, variant->block,
                          "needs blocks of %d threads", adn_team_most(variant->block, device));
    if (!adn_team_parse(text, variant->block, device, &parts, &splits))
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "params", 0, adn_team_most(variant->block, device),
                          "'%s' is not PARTS or PARTSxSPLITS: a power of two up to %d, 1 to 256", text,
                          adn_team_most(variant->block, device));
    if (parts && splits)
        snprintf(plan->params, sizeof plan->params, "%dx%d", parts, splits);
    else if (parts)
        snprintf(plan->params, sizeof plan->params, "%d", parts);
    memset(&params, 0, sizeof params);
    fill(p, &l, &params);
    each = variant->constant[0];
    if (!parts && !params.walk.lanes && !device->info.is_cpu)
        parts = side_by_side(&params.walk, variant->block, anydnn_dtype_size(dtype));
    adn_team_split(&params.walk, parts, false, variant->block, each, device);
    arrays = p->def->op == ANYDNN_OP_BATCHNORM_INFERENCE ? 0 : backward && !params.has_saved ? 2 : 1;
    split(&params, splits ? splits : choose_splits(&params, each, device), each, arrays, p->workspace_limit);
    if (backward)
        plan_backward(plan, p, variant, forward, &params, device);
    else
        plan_forward(plan, p, variant, &params, device);
    plan->cost_ns = adn_estimate_ns(device,
                                    bytes * (backward ? 5
                                             : arrays ? 3
                                                      : 2),
                                    bytes * 4, 0.5) +
                    3000.0 * (plan->steps - 1);
    return true;
}

static bool candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32])
{
    static const int parts[] = { 256, 64, 16, 8, 4, 1 }, splits[] = { 1, 4, 16, 64 };
    (void)p, (void)device;
    if (index < 0 || index >= 24) return false;
    snprintf(params, 32, "%dx%d", parts[index / 4], splits[index % 4]);
    return true;
}

static float scalar_of(const struct adn_problem *p, const double *scalar, int role)
{
    const int slot = adn_slot(p, role);
    return slot < 0 ? 0.0f : (float)scalar[slot];
}

static void bind_batchnorm(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan,
                           int step, void *params)
{
    struct adn_batchnorm_params *q = params;
    (void)plan, (void)step;
    q->alpha = scalar_of(p, scalar, ANYDNN_ALPHA);
    q->beta = scalar_of(p, scalar, ANYDNN_BETA);
    q->epsilon = scalar_of(p, scalar, ANYDNN_EPSILON);
    q->factor = scalar_of(p, scalar, ANYDNN_FACTOR);
    q->param_alpha = scalar_of(p, scalar, ANYDNN_PARAM_ALPHA);
    q->param_beta = scalar_of(p, scalar, ANYDNN_PARAM_BETA);
}

const struct adn_engine adn_engine_batchnorm = {
    .name = "batchnorm",
    .ops = ADN_OP_BIT(ANYDNN_OP_BATCHNORM_TRAINING) | ADN_OP_BIT(ANYDNN_OP_BATCHNORM_INFERENCE) |
           ADN_OP_BIT(ANYDNN_OP_BATCHNORM_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_batchnorm,
    .candidate = candidate,
    .bind = bind_batchnorm,
};
