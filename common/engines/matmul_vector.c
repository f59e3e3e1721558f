/* SPDX-License-Identifier: Apache-2.0
 * common/engines/matmul_vector.c: matmul of up to 4 rows or up to 4 columns: a matrix times a few vectors, as in fully
 * connected layers at inference. Time goes into reading the matrix, which happens once.
 *
 * Sides    The operand with more lines (rows of a, columns of b) is the matrix, the other one holds the vectors.
 * Batches  that share the vectors become more lines, those that share the matrix more vectors, where strides allow.
 * Layouts  Depths side by side: the threads of a team lie along the depth. Lines side by side: across the lines, and
 *          teams cut the depth. A team's sums are joined in a fixed order.
 * Splits   Where tiles are too few for the device, the depth is cut and float partial sums go to the workspace, as far
 *          as its limit allows; a second step adds them up in order.
 * CPUs     behind OpenCL have a shape of one work item, without barriers: parts 1.
 * Parameters: "PARTS" or "PARTSxSPLITS", threads that share a sum and pieces of the depth. */
#include "common/backend.h"
#include "matmul_vector_params.h"

#include <stdio.h>
#include <stdlib.h>

static const struct adn_variant variants[] = {
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "matmul_vector", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#define ADN_VARIANT_CL ADN_VARIANT
#include "matmul_vector.variants"
#undef ADN_VARIANT
#undef ADN_VARIANT_CL
};
enum { VARIANTS = sizeof variants / sizeof variants[0], BLOCK = 256, MAX_SPLITS = 256 };

/* The two operands in their parts, and how the matrix lies. */
struct sides {
    const anydnn_tensor *l, *s;
    bool across;
    int width;
};

static int64_t ceil_div(int64_t n, int64_t unit)
{
    return n / unit + (n % unit != 0);
}
static int64_t distance(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}
static int64_t units_of(const struct adn_device *d)
{
    return d->info.compute_units > 0 ? d->info.compute_units : 1;
}

/* Stride of an axis; 0 where it has one element, so that broadcast and any stride there are harmless. */
static int64_t stride_of(const anydnn_tensor *t, int axis)
{
    return t->dims[axis] == 1 ? 0 : t->strides[axis];
}

/* ---- Layout. ---- */

/* Batch axes, innermost first, without those that become lines or vectors. */
static void fill_batches(const struct sides *side, const anydnn_tensor *y, struct adn_matmul_vector_params *q)
{
    int axis, i;
    q->batches = 1;
    for (axis = y->ndim - 3; axis >= 0; axis--) {
        const int64_t size = y->dims[axis];
        const int64_t l = stride_of(side->l, axis), s = stride_of(side->s, axis), out = stride_of(y, axis);
        if (size == 1) continue;
        if (s == 0 && l == q->lines * q->l_line && out == q->lines * q->y_line && q->bias_line == 0) {
            q->lines *= size;
        } else if (l == 0 && q->few * size <= ADN_VECTOR_FEW && s == q->few * q->s_few && out == q->few * q->y_few &&
                   q->bias_few == 0) {
            q->few *= (int32_t)size;
        } else {
            i = q->batch_rank++;
            q->batches *= size;
            q->batch_size[i] = size, q->l_batch[i] = l, q->s_batch[i] = s, q->y_batch[i] = out;
        }
    }
}

/* True where units of `width` elements side by side keep the alignment that the tensor promises. */
static bool fits(const anydnn_tensor *t, int width, const int64_t *batch, int batches, int64_t inner, int64_t count,
                 int64_t outer, int64_t outer_count)
{
    int i;
    if (t->alignment < 16 || inner != 1 || count % width != 0 || (outer_count > 1 && outer % width != 0)) return false;
    for (i = 0; i < batches; i++)
        if (batch[i] % width != 0) return false;
    return true;
}

static void choose_loads(struct sides *side, struct adn_matmul_vector_params *q)
{
    const int width = 16 / (int)anydnn_dtype_size(side->l->dtype);
    bool whole;
    side->across = q->lines > 1 && (q->depth <= 1 || distance(q->l_line) < distance(q->l_depth));
    whole = side->across ? fits(side->l, width, q->l_batch, q->batch_rank, q->l_line, q->lines, q->l_depth, q->depth)
                         : fits(side->l, width, q->l_batch, q->batch_rank, q->l_depth, q->depth, q->l_line, q->lines);
    side->width = whole ? width : 1;
    q->s_packed = whole && !side->across &&
                  fits(side->s, width, q->s_batch, q->batch_rank, q->s_depth, q->depth, q->s_few, q->few);
}

/* Rows as lines and columns as vectors, or the other way round; false where both are many. */
static bool fill(const struct adn_problem *p, struct sides *side, struct adn_matmul_vector_params *q,
                 struct adn_refusal *why)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B), *y = adn_tensor(p, ANYDNN_Y);
    const anydnn_tensor *bias = adn_tensor(p, ANYDNN_BIAS);
    const int last = y->ndim - 1, ta = p->desc.matmul.trans_a != 0, tb = p->desc.matmul.trans_b != 0;
    const int64_t rows = y->dims[last - 1], columns = y->dims[last];
    const int64_t bias_step = bias ? stride_of(bias, last) : 0;
    const bool by_rows = rows >= columns;
    if (rows > ADN_VECTOR_FEW && columns > ADN_VECTOR_FEW)
        return adn_refuse(why, ANYDNN_REASON_SHAPE, ANYDNN_Y, by_rows ? "columns" : "rows", by_rows ? columns : rows,
                          ADN_VECTOR_FEW, "%lld rows and %lld columns; accepted: up to %d of either", (long long)rows,
                          (long long)columns, ADN_VECTOR_FEW);
    q->depth = a->dims[last - ta];
    q->biased = bias != NULL;
    side->l = by_rows ? a : b, side->s = by_rows ? b : a;
    q->lines = by_rows ? rows : columns, q->few = (int32_t)(by_rows ? columns : rows);
    q->l_line = by_rows ? a->strides[last - 1 + ta] : b->strides[last - tb];
    q->l_depth = by_rows ? a->strides[last - ta] : b->strides[last - 1 + tb];
    q->s_few = by_rows ? b->strides[last - tb] : a->strides[last - 1 + ta];
    q->s_depth = by_rows ? b->strides[last - 1 + tb] : a->strides[last - ta];
    q->y_line = y->strides[by_rows ? last - 1 : last], q->y_few = y->strides[by_rows ? last : last - 1];
    q->bias_line = by_rows ? 0 : bias_step, q->bias_few = by_rows ? bias_step : 0;
    fill_batches(side, y, q);
    q->part = q->batches * q->lines * q->few;
    choose_loads(side, q);
    return true;
}

/* ---- Shape. ---- */

/* The kernel for the fewest vectors that are enough. */
static const struct adn_variant *find(const struct adn_matmul_vector_params *q, const struct sides *side, bool cpu)
{
    const int few = q->few < 1 ? 1 : q->few;
    int i;
    for (i = 0; i < VARIANTS; i++) {
        const struct adn_variant *v = &variants[i];
        if (v->dtype == side->l->dtype && (v->block == 1) == cpu && v->constant[0] >= few &&
            v->constant[1] == side->across && (cpu || v->constant[2] == side->width))
            return v;
    }
    return NULL;
}

static int64_t tile_lines(const struct adn_variant *v, int parts)
{
    return v->block / parts * v->constant[3];
}

/* Lines of a team first, as many threads as they or the depth can use; then more threads for a sum while tiles are too
 * few for the device. Across the lines neighbours keep to whole stretches of 64 bytes. */
static int choose_parts(const struct adn_matmul_vector_params *q, const struct sides *side, const struct adn_variant *v,
                        const struct adn_device *device)
{
    const int64_t wanted = 4 * units_of(device), stretch = 64 / (int64_t)anydnn_dtype_size(side->l->dtype);
    int parts = 1;
    if (v->block == 1) return 1;
    if (side->across) {
        while (parts < BLOCK && 2 * parts <= q->depth && tile_lines(v, 2 * parts) >= q->lines) parts *= 2;
        while (parts < BLOCK && 4 * parts <= q->depth && tile_lines(v, 2 * parts) >= stretch &&
               q->batches * ceil_div(q->lines, tile_lines(v, parts)) < wanted)
            parts *= 2;
    } else {
        while (parts < 32 && (int64_t)parts * side->width < q->depth) parts *= 2;
        while (parts < BLOCK && 2 * (int64_t)parts * side->width <= q->depth &&
               q->batches * ceil_div(q->lines, tile_lines(v, parts)) < wanted)
            parts *= 2;
    }
    return parts;
}

/* Tiles and splits; `splits` 0 leaves their number to what the device wants. */
static void lay_out(struct adn_matmul_vector_params *q, const struct adn_variant *v, int parts, int64_t splits,
                    uint64_t workspace, const struct adn_device *device)
{
    const int64_t unit = v->block == 1 ? 16 : (int64_t)parts * (v->constant[2] > 1 ? v->constant[2] : 4);
    const double part = (double)q->part * sizeof(float);
    while (1 << q->parts_log2 < parts) q->parts_log2++;
    q->line_tiles = ceil_div(q->lines, tile_lines(v, parts));
    q->tiles = q->few > 0 ? q->batches * q->line_tiles : 0;
    q->splits = 1;
    q->split_depth = q->depth;
    if (q->tiles == 0 || q->depth == 0) return;
    if (splits == 0 && q->tiles < units_of(device)) {
        const int64_t most = q->depth / (unit * (v->block == 1 ? 64 : 8));
        splits = ceil_div(2 * units_of(device), q->tiles);
        if (splits > most) splits = most;
    }
    if (splits > MAX_SPLITS) splits = MAX_SPLITS;
    if (part * (double)splits > (double)workspace) splits = (int64_t)((double)workspace / part);
    if (splits < 2) return;
    q->split_depth = ceil_div(ceil_div(q->depth, splits), unit) * unit;
    q->splits = ceil_div(q->depth, q->split_depth);
    q->tiles *= q->splits;
}

static void add_steps(const struct adn_problem *p, const struct sides *side, const struct adn_variant *v,
                      const struct adn_matmul_vector_params *q, struct adn_engine_plan *plan)
{
    static const int32_t none[6] = { 0 };
    const bool by_rows = side->l == adn_tensor(p, ANYDNN_A);
    struct adn_step *step =
        adn_add_step(plan, v, (uint64_t)(q->tiles < INT32_MAX ? q->tiles : INT32_MAX), q, sizeof *q);
    adn_step_role(step, p, by_rows ? ANYDNN_A : ANYDNN_B);
    adn_step_role(step, p, by_rows ? ANYDNN_B : ANYDNN_A);
    adn_step_role(step, p, ANYDNN_BIAS);
    adn_step_role(step, p, ANYDNN_Y);
    if (q->splits == 1) {
        adn_step_null(step);
        return;
    }
    adn_step_workspace(step, adn_book(plan, (uint64_t)(q->splits * q->part) * sizeof(float)));
    step = adn_add_step(plan, adn_find_variant(variants, VARIANTS, "matmul_vector_sum", v->dtype, none),
                        (uint64_t)(q->part < INT32_MAX ? ceil_div(q->part, BLOCK) : INT32_MAX / BLOCK), q, sizeof *q);
    adn_step_workspace(step, 0);
    adn_step_role(step, p, ANYDNN_BIAS);
    adn_step_role(step, p, ANYDNN_Y);
}

/* The matrix is read once for each batch, and a compute unit alone draws about four times its share of the memory. On
 * CPUs the engine runs by name alone: matmul_tile's shape for them reads matrices in wider stretches. */
static double price(const struct adn_matmul_vector_params *q, const struct adn_device *device, int dtype)
{
    const double elements = (double)q->part + (double)q->batches * (double)q->depth * (double)(q->lines + q->few);
    const double busy = 4.0 * (double)q->tiles / (double)units_of(device);
    const double bytes = elements * (double)anydnn_dtype_size(dtype) / (busy > 0 && busy < 1 ? busy : 1.0);
    return adn_estimate_ns(device, bytes, 2.0 * (double)q->part * (double)q->depth, 0.5) *
           (device->info.is_cpu ? 1000.0 : 1.0);
}

/* "PARTS" or "PARTSxSPLITS"; 0 where the choice is left to the engine. */
static bool parse(const char *text, long *parts, long *splits)
{
    char *end;
    *parts = *splits = 0;
    if (!text || !text[0]) return true;
    *parts = strtol(text, &end, 10);
    if (*parts < 1 || *parts > BLOCK || (*parts & (*parts - 1))) return false;
    if (*end == 'x') {
        *splits = strtol(end + 1, &end, 10);
        if (*splits < 1 || *splits > MAX_SPLITS) return false;
    }
    return *end == 0;
}

static bool plan_vector(const struct adn_problem *p, const struct adn_device *device, const char *params,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const int dtype = adn_tensor(p, ANYDNN_Y)->dtype;
    struct adn_matmul_vector_params q = { 0 };
    struct sides side = { 0 };
    const struct adn_variant *v;
    long parts, splits;
    if (!parse(params, &parts, &splits))
        return adn_refuse(why, ANYDNN_REASON_NAME, 0, "engine", 0, BLOCK,
                          "'%s'; accepted: PARTS or PARTSxSPLITS, a power of two up to %d and 1 to %d", params,
                          (int)BLOCK, (int)MAX_SPLITS);
    if (device->info.is_cpu && parts > 1)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "parts", parts, 1, "parts %ld; accepted on a CPU: 1", parts);
    if (!fill(p, &side, &q, why)) return false;
    v = find(&q, &side, device->info.is_cpu);
    if (!v)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, ANYDNN_Y, "dtype", dtype, ANYDNN_F32, "no kernel for %s",
                          anydnn_dtype_name(dtype));
    if (v->block > device->info.max_block_threads)
        return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "block", device->info.max_block_threads, v->block,
                          "needs blocks of %d threads", (int)v->block);
    if (parts == 0) parts = choose_parts(&q, &side, v, device);
    lay_out(&q, v, (int)parts, splits, p->workspace_limit, device);
    add_steps(p, &side, v, &q, plan);
    if (params && params[0])
        snprintf(plan->params, sizeof plan->params, "%s", params);
    else
        snprintf(plan->params, sizeof plan->params, "%dx%d", (int)parts, (int)q.splits);
    plan->cost_ns = price(&q, device, dtype);
    return true;
}

static bool candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32])
{
    (void)p;
    if (device->info.is_cpu || index < 0 || index > 8) return false;
    snprintf(params, 32, "%d", 1 << index);
    return true;
}

static void bind(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                 void *params)
{
    struct adn_matmul_vector_params *q = params;
    (void)plan, (void)step;
    q->alpha = (float)scalar[adn_slot(p, ANYDNN_ALPHA)];
    q->beta = (float)scalar[adn_slot(p, ANYDNN_BETA)];
}

const struct adn_engine adn_engine_matmul_vector = {
    .name = "matmul_vector",
    .ops = ADN_OP_BIT(ANYDNN_OP_MATMUL),
    .traits = ANYDNN_TRAIT_DETERMINISTIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_vector,
    .candidate = candidate,
    .bind = bind,
};
