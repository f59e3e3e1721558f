/* SPDX-License-Identifier: Apache-2.0
 * common/engines/matmul_tile.c: matmul in plain float arithmetic, any strides and batches. Parameters: the tile,
 * "128x128x8". Takes every legal problem.
 *
 * Batches  that b shares and whose rows follow on in a and y become rows of one product.
 * Tiles    Rows of matmul_tile.variants; those of one work item (matmul_tile_cpu) are for CPUs behind OpenCL.
 * Splits   Where tiles are too few for the device, the depth is cut and float partial sums go to the workspace, as
 *          far as its limit allows; a second step adds them up in order. */
#include "common/backend.h"
#include "matmul_tile.h"
#include "matmul_tile_params.h"
#include "plan_tile.h"

#include <stdio.h>
#include <string.h>

#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "matmul_tile", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#define ADN_VARIANT_CL ADN_VARIANT
static const struct adn_variant variants[] = {
#include "matmul_tile.variants"
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* Stride of an axis; 0 where it has one element, so that broadcast and any stride there are harmless. */
static int64_t stride_of(const anydnn_tensor *t, int axis)
{
    return t->dims[axis] == 1 ? 0 : t->strides[axis];
}

static void swap(int64_t *list, int i, int j)
{
    const int64_t keep = list[i];
    list[i] = list[j];
    list[j] = keep;
}

/* Batch axes, those that continue the rows folded into them. */
static void fill_batches(const anydnn_tensor *a, const anydnn_tensor *b, const anydnn_tensor *bias,
                         const anydnn_tensor *y, struct adn_matmul_tile_params *q)
{
    bool folding = true;
    int axis, i;
    q->batches = 1;
    for (axis = y->ndim - 3; axis >= 0; axis--) {
        const int64_t size = y->dims[axis], as = stride_of(a, axis), bs = stride_of(b, axis), ys = stride_of(y, axis);
        const int64_t step = bias ? stride_of(bias, axis) : 0;
        if (size == 1) continue;
        folding =
            folding && bs == 0 && as == q->rows * q->a_row && ys == q->rows * q->y_row && step == q->rows * q->bias_row;
        if (folding) {
            q->rows *= size;
            continue;
        }
        i = q->batch_rank++;
        q->batches *= size;
        q->batch_size[i] = size, q->a_batch[i] = as, q->b_batch[i] = bs, q->y_batch[i] = ys, q->bias_batch[i] = step;
    }
    for (i = 0; i < q->batch_rank / 2; i++) {
        const int j = q->batch_rank - 1 - i;
        swap(q->batch_size, i, j);
        swap(q->a_batch, i, j);
        swap(q->b_batch, i, j);
        swap(q->y_batch, i, j);
        swap(q->bias_batch, i, j);
    }
}

/* How an operand may be loaded: 1 or 2 where four depths or four lines lie side by side, aligned to four elements. */
static int32_t mode_of(const anydnn_tensor *t, const struct adn_matmul_tile_params *q, const int64_t *batch,
                       int64_t lines, int64_t line_step, int64_t depth_step)
{
    int i;
    if (t->alignment < 4 * (int32_t)anydnn_dtype_size(t->dtype)) return 0;
    for (i = 0; i < q->batch_rank; i++)
        if (batch[i] % 4) return 0;
    if (depth_step == 1 && q->depth % 4 == 0 && (lines == 1 || line_step % 4 == 0)) return 1;
    if (line_step == 1 && lines % 4 == 0 && (q->depth == 1 || depth_step % 4 == 0)) return 2;
    return 0;
}

static void fill(const struct adn_problem *p, struct adn_matmul_tile_params *q)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B), *y = adn_tensor(p, ANYDNN_Y);
    const anydnn_tensor *bias = adn_tensor(p, ANYDNN_BIAS);
    const int last = y->ndim - 1, ta = p->desc.matmul.trans_a != 0, tb = p->desc.matmul.trans_b != 0;
    q->rows = y->dims[last - 1];
    q->columns = y->dims[last];
    q->depth = a->dims[last - ta];
    q->a_row = a->strides[last - 1 + ta], q->a_depth = a->strides[last - ta];
    q->b_depth = b->strides[last - 1 + tb], q->b_column = b->strides[last - tb];
    q->y_row = y->strides[last - 1], q->y_column = y->strides[last];
    q->biased = bias != NULL;
    q->bias_row = bias ? stride_of(bias, last - 1) : 0;
    q->bias_column = bias ? stride_of(bias, last) : 0;
    fill_batches(a, b, bias, y, q);
    q->part = q->batches * q->rows * q->columns;
    q->a_mode = mode_of(a, q, q->a_batch, q->rows, q->a_row, q->a_depth);
    q->b_mode = mode_of(b, q, q->b_batch, q->columns, q->b_column, q->b_depth);
}

static const struct adn_tile_speed speed = { 0.8, 0.55, 0.4, 0.65, 0.4 };

static bool choose(struct adn_matmul_tile_params *q, int dtype, bool may_split, const struct adn_problem *p,
                   const struct adn_device *device, const char *params, struct adn_tile_layout *l,
                   struct adn_refusal *why)
{
    struct adn_tile_product m = { 0 };
    m.dtype = dtype;
    m.copies = q->batches, m.rows = q->rows, m.columns = q->columns, m.depth = q->depth;
    m.multiplications = (double)q->part * (double)q->depth;
    m.may_split = may_split && !p->batch_invariant;
    m.as_listed = p->batch_invariant;
    m.part = q->part;
    m.speed = speed;
    if (!adn_tile_choose(variants, VARIANTS, &m, device, p->workspace_limit, params, l, why)) return false;
    q->row_tiles = l->row_tiles, q->column_tiles = l->column_tiles, q->tiles = l->tiles;
    q->splits = l->splits, q->split_depth = l->split_depth;
    q->partial = l->splits > 1;
    return true;
}

/* The second step of a split product. */
static void add_sum(const struct adn_problem *p, const struct adn_matmul_tile_params *q, int dtype, uint64_t parts,
                    struct adn_engine_plan *plan)
{
    static const int32_t none[6] = { 0 };
    struct adn_step *step = adn_add_step(plan, adn_find_variant(variants, VARIANTS, "matmul_tile_sum", dtype, none),
                                         (uint64_t)adn_smaller(adn_ceil_div(q->part, 256), INT32_MAX), q, sizeof *q);
    adn_step_workspace(step, parts);
    adn_step_role(step, p, ANYDNN_BIAS);
    adn_step_role(step, p, ANYDNN_Y);
}

bool adn_matmul_tile_plan(const struct adn_problem *p, const struct adn_device *device, const char *params, bool raw,
                          struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B), *y = adn_tensor(p, ANYDNN_Y);
    struct adn_matmul_tile_params q = { 0 };
    struct adn_tile_layout l;
    struct adn_step *step;
    uint64_t parts = 0;
    fill(p, &q);
    if (!choose(&q, a->dtype, !raw, p, device, params, &l, why)) return false;
    if (raw) q.partial = 2;
    adn_tile_name(l.variant, plan->params);
    step = adn_add_step(plan, l.variant, (uint64_t)adn_smaller(q.tiles, INT32_MAX), &q, sizeof q);
    adn_step_role(step, p, ANYDNN_A);
    adn_step_role(step, p, ANYDNN_B);
    adn_step_role(step, p, ANYDNN_BIAS);
    if (raw) {
        adn_step_null(step);
        adn_step_role(step, p, ANYDNN_Y);
    } else {
        adn_step_role(step, p, ANYDNN_Y);
        if (q.splits > 1)
            adn_step_workspace(step, parts = adn_book(plan, (uint64_t)(q.splits * q.part) * sizeof(float)));
        else
            adn_step_null(step);
    }
    if (q.splits > 1) add_sum(p, &q, a->dtype, parts, plan);
    plan->cost_ns = adn_estimate_ns(device, adn_element_bytes(a) + adn_element_bytes(b) + adn_element_bytes(y),
                                    2.0 * (double)q.part * (double)q.depth, l.share);
    return true;
}

static bool plan_tile(const struct adn_problem *p, const struct adn_device *device, const char *params,
                      struct adn_engine_plan *plan, struct adn_refusal *why)
{
    return adn_matmul_tile_plan(p, device, params, false, plan, why);
}

static bool candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32])
{
    const struct adn_variant *v = adn_tile_at(variants, VARIANTS, adn_tensor(p, ANYDNN_Y)->dtype, device, index);
    if (!v) return false;
    adn_tile_name(v, params);
    return true;
}

static void bind(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                 void *params)
{
    struct adn_matmul_tile_params *q = params;
    (void)plan, (void)step;
    q->alpha = (float)scalar[adn_slot(p, ANYDNN_ALPHA)];
    q->beta = (float)scalar[adn_slot(p, ANYDNN_BETA)];
}

const struct adn_engine adn_engine_matmul_tile = {
    .name = "matmul_tile",
    .ops = ADN_OP_BIT(ANYDNN_OP_MATMUL),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_tile,
    .candidate = candidate,
    .bind = bind,
};
