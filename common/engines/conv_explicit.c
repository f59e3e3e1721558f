/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_explicit.c: convolution by explicit columns: the elements of x under each tap are written out as
 * a matrix in the workspace, with which the convolution is one of a single tap over channels * taps channels
 * (conv_as_matmul.h), that is a product of matmul_tile. Parameters: its tile, "128x128x8".
 *
 * Forward, filter  columns of x in its dtype, then the product.
 * Backward data    the product writes columns in float, which are gathered into dx with the bias and rounded once.
 * Matrix           [group][depth][position] or, where x has its channels innermost, [position][group][depth]; the depth
 *                  (channels and taps of a group) follows the order of w in memory, and takes the flip on itself.
 * Copies           What no single stride walks is packed by the same kernels: channels and taps of w or dw, and for the
 *                  filter the positions of dy.
 * Limits           Coordinates below 2^30; the matrix must fit into the workspace. */
#include "conv_as_matmul.h"
#include "conv_explicit_params.h"
#include "plan_conv.h"
#include "plan_tile.h"

#include <string.h>

#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    { "conv_explicit", #kernel, #dtype, ANYDNN_##dtype, block, { a, b, c, d, e, f } },
#define ADN_VARIANT_CL ADN_VARIANT
static const struct adn_variant variants[] = {
#include "conv_explicit.variants"
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

struct job {
    struct adn_conv_geometry g;
    int op, dtype;
    bool data, dw;     /* op is backward data, backward filter */
    int64_t depth;     /* channels * taps of a group */
    int64_t positions; /* of all images */
    int64_t unit[4];   /* depths from one channel, and one tap of each axis, to the next */
    int64_t w_step;    /* stride of w from one depth to the next; 0: there is none, w is packed */
    bool channel_inner;
    struct adn_conv_explicit_params matrix;
    uint64_t matrix_bytes;
    struct adn_conv_pointwise product;
    struct adn_conv_places places;
    double moved_ns;
};

static uint64_t size_of(const struct job *m)
{
    return anydnn_dtype_size(m->dtype);
}

static bool is_channel_inner(const struct adn_conv_geometry *g)
{
    int j;
    if (g->c == 1) return false;
    for (j = 2; j >= 0; j--)
        if (g->in[j] > 1) return g->xs[1] < g->xs[2 + j];
    return true;
}

/* The order of the depth: that of w where one stride walks it. */
static void order_depth(struct job *m)
{
    const struct adn_conv_geometry *g = &m->g;
    const int64_t dims[4] = { g->c / g->groups, g->filter[0], g->filter[1], g->filter[2] };
    anydnn_tensor w = anydnn_tensor_packed(ANYDNN_F32, 4, dims);
    const anydnn_tensor *const one = &w;
    const int64_t packed[4] = { w.strides[0], w.strides[1], w.strides[2], w.strides[3] };
    struct adn_walk walk;
    int j;
    memcpy(w.strides, g->ws + 1, 4 * sizeof *w.strides);
    adn_walk_init(&walk, &w, ~0u, 1, &one, false);
    m->w_step = walk.rank == 0 ? 1 : walk.rank == 1 ? walk.stride[0][0] : 0;
    for (j = 0; j < 4; j++) m->unit[j] = dims[j] == 1 ? 0 : m->w_step ? w.strides[j] / m->w_step : packed[j];
    m->depth = dims[0] * dims[1] * dims[2] * dims[3];
}

/* The walk of a kernel: over n * c * size elements. */
static void fill_walk(struct adn_conv_explicit_params *q, int64_t n, int64_t c, const int64_t *size)
{
    int j;
    q->count = n * c * size[0] * size[1] * size[2];
    q->narrow = q->count <= INT32_MAX;
    q->size[0] = adn_divisor_of(c);
    for (j = 0; j < 3; j++) q->size[1 + j] = adn_divisor_of(size[j]);
}

static void fill_matrix(struct job *m)
{
    const struct adn_conv_geometry *g = &m->g;
    const int64_t depth_step = m->channel_inner ? 1 : m->positions;
    const int64_t step = m->channel_inner ? g->groups * m->depth : 1;
    struct adn_conv_explicit_params *q = &m->matrix;
    int j;
    fill_walk(q, g->n, g->c, m->data ? g->in : g->out);
    memcpy(q->tensor, g->xs, sizeof q->tensor);
    q->n = g->out[0] * g->out[1] * g->out[2] * step;
    q->group = m->depth * depth_step;
    q->c = m->unit[0] * depth_step;
    q->position[0] = g->out[1] * g->out[2] * step, q->position[1] = g->out[2] * step, q->position[2] = step;
    q->channels = adn_divisor_of(g->c / g->groups);
    for (j = 0; j < 3; j++) {
        q->tap[j] = m->unit[1 + j] * depth_step;
        q->stride[j] = adn_divisor_of(g->stride[j]);
        q->extent[j] = (int32_t)(m->data ? g->out[j] : g->in[j]);
        q->taps[j] = (int32_t)g->filter[j];
        q->step[j] = (int32_t)(g->flip ? -g->dilation[j] : g->dilation[j]);
        q->origin[j] = (int32_t)((g->flip ? (g->filter[j] - 1) * g->dilation[j] : 0) - g->pad[j]);
    }
    q->channel_inner = m->channel_inner;
}

/* Between a tensor of n * c * size elements and a matrix with these strides of n and c: nothing but its layout changes.
 */
static void fill_copy(struct adn_conv_explicit_params *q, int64_t n, int64_t c, const int64_t *size,
                      const int64_t *strides, int64_t n_step, int64_t c_step)
{
    int j;
    memset(q, 0, sizeof *q);
    fill_walk(q, n, c, size);
    memcpy(q->tensor, strides, sizeof q->tensor);
    q->n = n_step, q->c = c_step;
    q->position[0] = size[1] * size[2], q->position[1] = size[2], q->position[2] = 1;
    q->channels = q->size[0];
    for (j = 0; j < 3; j++) {
        q->stride[j] = adn_divisor_of(1);
        q->extent[j] = (int32_t)size[j];
        q->taps[j] = q->step[j] = 1;
    }
}

enum move { COLUMNS, GATHER };

static const struct adn_variant *find(const char *kernel, int dtype, bool cpu)
{
    int i;
    for (i = 0;
         strcmp(variants[i].kernel, kernel) != 0 || variants[i].dtype != dtype || (variants[i].block == 1) != cpu;)
        i++;
    return &variants[i];
}

/* Moving an element costs as much as this many operations: about 25 instructions, on CPUs without vectors. */
static void add_move(enum move move, const struct adn_device *device, struct job *m,
                     const struct adn_conv_explicit_params *q, int slot, uint64_t offset, struct adn_engine_plan *plan)
{
    const bool gather = move == GATHER;
    const char *kernel = gather ? "conv_explicit_gather" : "conv_explicit_columns";
    const double size = (double)size_of(m);
    const double elements = (double)q->count * q->taps[0] * q->taps[1] * q->taps[2];
    const struct adn_variant *variant = find(kernel, m->dtype, device->info.is_cpu);
    const int64_t blocks = adn_ceil_div(q->count, variant->block);
    const int64_t most = device->info.is_cpu ? 8 * (int64_t)device->info.compute_units : INT32_MAX;
    struct adn_step *step = adn_add_step(plan, variant, (uint64_t)adn_smaller(blocks, most), q, sizeof *q);
    if (gather) {
        adn_step_workspace(step, offset);
        adn_step_slot(step, q->biased ? m->places.source[ADN_CONV_BIAS] : ADN_FROM_NULL);
    }
    adn_step_slot(step, slot);
    if (!gather) adn_step_workspace(step, offset);
    m->moved_ns += adn_estimate_ns(device, (double)q->count * size + elements * (gather ? sizeof(float) : size),
                                   elements * (device->info.is_cpu ? 768.0 : 200.0), 1.0);
}

/* Books memory for a tensor, which from now on lies there, packed. */
static uint64_t book(struct job *m, enum adn_conv_tensor tensor, uint64_t bytes, struct adn_engine_plan *plan)
{
    const uint64_t offset = adn_book(plan, bytes);
    m->places.source[tensor] = ADN_FROM_WORKSPACE;
    m->places.offset[tensor] = offset;
    m->product.alignment[tensor] = 256;
    return offset;
}

static void use_columns(struct job *m)
{
    struct adn_conv_geometry *g = &m->product.g;
    *g = m->g;
    g->c = g->groups * m->depth;
    g->xs[0] = m->matrix.n;
    g->xs[1] = m->channel_inner ? 1 : m->positions;
    memcpy(g->xs + 2, m->matrix.position, sizeof m->matrix.position);
    g->ws[1] = m->w_step;
}

/* w is read, or dw written, in packed form: [k][depth]. */
static void use_packed_filter(struct job *m, struct adn_conv_explicit_params *q)
{
    const struct adn_conv_geometry *g = &m->g;
    fill_copy(q, g->k, g->c / g->groups, g->filter, g->ws, m->depth, g->filter[0] * g->filter[1] * g->filter[2]);
    m->product.g.ws[0] = m->depth;
    m->product.g.ws[1] = 1;
}

/* Positions of dy that no single stride walks in the order of the matrix: [k][position]. */
static void pack_dy(struct job *m, const struct adn_device *device, struct adn_engine_plan *plan)
{
    const struct adn_conv_geometry *g = &m->g;
    const int64_t dims[4] = { g->n, g->out[0], g->out[1], g->out[2] }, area = dims[1] * dims[2] * dims[3];
    anydnn_tensor dy = anydnn_tensor_packed(ANYDNN_F32, 4, dims);
    const anydnn_tensor *const one = &dy;
    const int slot = m->places.source[ADN_CONV_Y];
    struct adn_conv_explicit_params q;
    struct adn_walk walk;
    dy.strides[0] = g->ys[0];
    memcpy(dy.strides + 1, g->ys + 2, 3 * sizeof *g->ys);
    adn_walk_init(&walk, &dy, ~0u, 1, &one, true);
    if (walk.rank <= 1) return;
    fill_copy(&q, g->n, g->k, g->out, g->ys, area, m->positions);
    add_move(COLUMNS, device, m, &q, slot, book(m, ADN_CONV_Y, (uint64_t)(g->k * m->positions) * size_of(m), plan),
             plan);
    m->product.g.ys[0] = area, m->product.g.ys[1] = m->positions;
    memcpy(m->product.g.ys + 2, q.position, sizeof q.position);
}

static bool fits(const struct adn_problem *p, const struct adn_device *device, const struct job *m,
                 struct adn_refusal *why)
{
    const int64_t most = device->info.max_alloc_bytes > 0 ? device->info.max_alloc_bytes : INT64_MAX / 2;
    const double elements = (double)m->positions * (double)m->g.groups * (double)m->depth;
    if (elements * sizeof(float) > (double)most)
        return adn_refuse(why, ANYDNN_REASON_SIZE, 0, "columns", INT64_MAX, most,
                          "a matrix of %.0f elements is too large for the device", elements);
    if (m->matrix_bytes > p->workspace_limit)
        return adn_refuse(why, ANYDNN_REASON_WORKSPACE, 0, "workspace", (int64_t)p->workspace_limit,
                          (int64_t)m->matrix_bytes, "wants %llu bytes of workspace for its columns, allowed are %llu",
                          (unsigned long long)m->matrix_bytes, (unsigned long long)p->workspace_limit);
    return true;
}

static bool start(const struct adn_problem *p, const struct adn_device *device, struct job *m, struct adn_refusal *why)
{
    const anydnn_tensor *x = adn_tensor(p, adn_conv_tensor_role(p->def->op, ADN_CONV_X));
    const anydnn_tensor *bias = adn_tensor(p, ANYDNN_BIAS);
    int j;
    memset(m, 0, sizeof *m);
    m->op = p->def->op;
    m->data = m->op == ANYDNN_OP_CONV_BACKWARD_DATA;
    m->dw = m->op == ANYDNN_OP_CONV_BACKWARD_FILTER;
    m->dtype = x->dtype;
    adn_conv_geometry(p, &m->g);
    if (!adn_conv_fits(&m->g, why)) return false;
    m->channel_inner = is_channel_inner(&m->g);
    m->positions = m->g.n * m->g.out[0] * m->g.out[1] * m->g.out[2];
    order_depth(m);
    m->matrix_bytes =
        (uint64_t)m->positions * (uint64_t)(m->g.groups * m->depth) * (m->data ? sizeof(float) : size_of(m));
    if (!fits(p, device, m, why)) return false;
    fill_matrix(m);
    if (m->data && bias) m->matrix.biased = 1, m->matrix.bias_step = bias->strides[1];
    use_columns(m);
    adn_conv_places_of(p, &m->places);
    for (j = 0; j < 3; j++)
        m->product.alignment[j] = adn_tensor(p, adn_conv_tensor_role(m->op, (enum adn_conv_tensor)j))->alignment;
    return true;
}

static bool plan_explicit(const struct adn_problem *p, const struct adn_device *device, const char *params,
                          struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct job m;
    struct adn_conv_explicit_params filter;
    uint64_t columns, packed = 0;
    bool copied;
    int x, w;
    if (!adn_conv_is_product(p, why) || !start(p, device, &m, why)) return false;
    x = m.places.source[ADN_CONV_X], w = m.places.source[ADN_CONV_W];
    copied = m.w_step == 0;
    columns = book(&m, ADN_CONV_X, m.matrix_bytes, plan);
    if (!m.data) add_move(COLUMNS, device, &m, &m.matrix, x, columns, plan);
    if (m.dw) pack_dy(&m, device, plan);
    if (copied) {
        use_packed_filter(&m, &filter);
        packed = book(&m, ADN_CONV_W, (uint64_t)(m.g.k * m.depth) * (m.dw ? sizeof(float) : size_of(&m)), plan);
    }
    if (copied && !m.dw) add_move(COLUMNS, device, &m, &filter, w, packed, plan);
    m.product.raw = m.data || (copied && m.dw);
    if (!adn_conv_tile_plan(p, &m.product, &m.places, device, params, plan, why)) return false;
    if (m.data) add_move(GATHER, device, &m, &m.matrix, x, columns, plan);
    if (copied && m.dw) add_move(GATHER, device, &m, &filter, w, packed, plan);
    plan->cost_ns += m.moved_ns;
    return true;
}

static void bind(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                 void *params)
{
    const struct adn_variant *variant = plan->step[step].variant;
    struct adn_conv_explicit_params *q = params;
    if (variant < variants || variant >= variants + VARIANTS) {
        adn_conv_tile_bind(p, scalar, params);
        return;
    }
    q->alpha = (float)scalar[adn_slot(p, ANYDNN_ALPHA)];
    q->beta = (float)scalar[adn_slot(p, ANYDNN_BETA)];
}

const struct adn_engine adn_engine_conv_explicit = {
    .name = "conv_explicit",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_DETERMINISTIC,
    .revision = 1,
    .variants = variants,
    .variant_count = VARIANTS,
    .plan = plan_explicit,
    .candidate = adn_conv_tile_candidate,
    .bind = bind,
};
