/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_product.c: a convolution as a gathered matrix product. See conv_product.h. */
#include "conv_product.h"

#include "plan_conv.h"

#include <string.h>

static const int64_t limit = ADN_CONV_LIMIT;

/* Whether axis u lies closer in memory than every spatial axis: then it is the inner digit. */
static int is_inner(int64_t size, int64_t stride, const int64_t *sizes, const int64_t *strides)
{
    int j;
    for (j = 0; j < 3; j++)
        if (sizes[j] > 1 && strides[j] <= stride) return 0;
    return size > 1;
}

/* An axis of forward or backward filter: `columns` and `taps` positions whose steps add up to the coordinate. */
static void plain_axis(struct adn_conv_axis *axis, int64_t columns, int64_t taps, int64_t column_step,
                       int64_t depth_step, const struct adn_conv_geometry *g, int j)
{
    axis->columns = adn_divisor_of(columns);
    axis->depth[0] = axis->depth[1] = adn_divisor_of(taps);
    axis->column_step = (int32_t)column_step;
    axis->depth_step = (int32_t)depth_step;
    axis->limit = (int32_t)g->in[j];
    axis->extent = (int32_t)columns;
    axis->taps = (int32_t)taps;
    axis->pad = (int32_t)-g->pad[j];
    axis->phases = axis->stride = axis->dilation = axis->tap_step = 1;
}

/* An axis of backward data: a phase for each remainder of the position by the stride. */
static void phased_axis(struct adn_conv_axis *axis, const struct adn_conv_geometry *g, int j)
{
    const int64_t stride = g->stride[j], step = stride / adn_gcd(stride, g->dilation[j]), taps = g->filter[j];
    axis->columns = adn_divisor_of((g->in[j] + stride - 1) / stride);
    axis->depth[0] = adn_divisor_of((taps + step - 1) / step);
    axis->depth[1] = adn_divisor_of(taps < step ? 1 : taps / step);
    axis->column_step = 1;
    axis->depth_step = (int32_t)(-g->dilation[j] * step / stride);
    axis->limit = (int32_t)g->out[j];
    axis->extent = (int32_t)g->in[j];
    axis->taps = (int32_t)taps;
    axis->pad = (int32_t)g->pad[j];
    axis->phases = (int32_t)adn_smaller(stride, g->in[j]);
    axis->stride = (int32_t)stride;
    axis->dilation = (int32_t)g->dilation[j];
    axis->tap_step = (int32_t)step;
}

static void forward(struct adn_conv_product *m, const struct adn_conv_geometry *g)
{
    struct adn_conv_igemm_params *p = &m->params;
    const int64_t kg = g->k / g->groups, cg = g->c / g->groups;
    int64_t ws[5];
    int j;
    p->a_origin = adn_conv_filter_strides(g, ws);
    p->a_row = ws[0], p->a_u = ws[1], p->a_group = kg * ws[0];
    p->b_column_u = g->xs[0], p->b_depth_u = g->xs[1], p->b_group = cg * g->xs[1];
    p->y_row = g->ys[1], p->y_u = g->ys[0], p->y_group = kg * g->ys[1];
    for (j = 0; j < 3; j++) {
        plain_axis(&p->axis[j], g->out[j], g->filter[j], g->stride[j], g->dilation[j], g, j);
        p->axis[j].a = ws[2 + j], p->axis[j].b = g->xs[2 + j], p->axis[j].y = g->ys[2 + j];
    }
    p->column_u = adn_divisor_of(g->n), p->depth_u = adn_divisor_of(cg);
    p->column_u_inner = is_inner(g->n, g->ys[0], g->out, g->ys + 2);
    p->depth_u_inner = is_inner(cg, g->xs[1], g->in, g->xs + 2);
    m->rows = kg;
}

static void backward_data(struct adn_conv_product *m, const struct adn_conv_geometry *g)
{
    struct adn_conv_igemm_params *p = &m->params;
    const int64_t kg = g->k / g->groups, cg = g->c / g->groups;
    int64_t ws[5];
    int j;
    p->a_origin = adn_conv_filter_strides(g, ws);
    p->a_row = ws[1], p->a_u = ws[0], p->a_group = kg * ws[0];
    p->b_column_u = g->ys[0], p->b_depth_u = g->ys[1], p->b_group = kg * g->ys[1];
    p->y_row = g->xs[1], p->y_u = g->xs[0], p->y_group = cg * g->xs[1];
    for (j = 0; j < 3; j++) {
        phased_axis(&p->axis[j], g, j);
        p->axis[j].a = ws[2 + j], p->axis[j].b = g->ys[2 + j], p->axis[j].y = g->xs[2 + j];
    }
    p->column_u = adn_divisor_of(g->n), p->depth_u = adn_divisor_of(kg);
    p->column_u_inner = is_inner(g->n, g->xs[0], g->in, g->xs + 2);
    p->depth_u_inner = is_inner(kg, g->ys[1], g->out, g->ys + 2);
    m->rows = cg;
}

static void backward_filter(struct adn_conv_product *m, const struct adn_conv_geometry *g)
{
    struct adn_conv_igemm_params *p = &m->params;
    const int64_t kg = g->k / g->groups, cg = g->c / g->groups;
    int64_t ws[5];
    int j;
    p->y_origin = adn_conv_filter_strides(g, ws);
    p->a_row = g->ys[1], p->a_u = g->ys[0], p->a_group = kg * g->ys[1];
    p->b_column_u = g->xs[1], p->b_depth_u = g->xs[0], p->b_group = cg * g->xs[1];
    p->y_row = ws[0], p->y_u = ws[1], p->y_group = kg * ws[0];
    for (j = 0; j < 3; j++) {
        plain_axis(&p->axis[j], g->filter[j], g->out[j], g->dilation[j], g->stride[j], g, j);
        p->axis[j].a = g->ys[2 + j], p->axis[j].b = g->xs[2 + j], p->axis[j].y = ws[2 + j];
    }
    p->column_u = adn_divisor_of(cg), p->depth_u = adn_divisor_of(g->n);
    p->column_u_inner = is_inner(cg, g->xs[1], g->in, g->xs + 2);
    p->depth_u_inner = is_inner(g->n, g->ys[0], g->out, g->ys + 2);
    m->rows = kg;
}

static bool is_aligned(const anydnn_tensor *t, int width)
{
    return t->alignment >= width * (int32_t)anydnn_dtype_size(t->dtype);
}

/* Whether depths width * i .. width * i + width - 1 lie side by side in B and pass its limits together: they then differ in u alone. */
static bool b_has_vectors(const struct adn_conv_product *m, const anydnn_tensor *b, int width)
{
    const struct adn_conv_igemm_params *p = &m->params;
    const int64_t taps = p->axis[0].depth[0].value * p->axis[1].depth[0].value * p->axis[2].depth[0].value;
    int j;
    if (!is_aligned(b, width) || p->b_depth_u != 1 || p->depth_u.value % width || (taps > 1 && !p->depth_u_inner)) return false;
    if ((p->column_u.value > 1 && p->b_column_u % width) || (m->groups > 1 && p->b_group % width)) return false;
    for (j = 0; j < 3; j++)
        if (p->axis[j].limit > 1 && p->axis[j].b % width) return false;
    return true;
}

/* The same of A, which has no limits: they differ in u alone, or u is outside and the spatial digits are packed. */
static bool a_has_vectors(const struct adn_conv_product *m, const anydnn_tensor *a, int width)
{
    const struct adn_conv_igemm_params *p = &m->params;
    int64_t taps = 1;
    bool packed = true, spread = true;
    int j;
    for (j = 2; j >= 0; j--) {
        const int64_t size = p->axis[j].taps;
        if (size > 1 && p->axis[j].a != taps) packed = false;
        if (size > 1 && p->axis[j].a % width) spread = false;
        if (p->axis[j].tap_step > 1) packed = false;
        taps *= size;
    }
    if (!is_aligned(a, width) || (m->rows > 1 && p->a_row % width) || (m->groups > 1 && p->a_group % width)) return false;
    if (spread && p->a_u == 1 && p->depth_u.value % width == 0 && (taps == 1 || p->depth_u_inner)) return true;
    if (!packed || (p->depth_u_inner && p->depth_u.value > 1)) return false;
    if (p->depth_u.value == 1 || p->a_u == taps) return m->depth % width == 0;
    return taps % width == 0 && p->a_u % width == 0;
}

/* Whether rows width * i .. width * i + width - 1 of A lie side by side, aligned, at every depth. */
static bool a_has_lines(const struct adn_conv_product *m, const anydnn_tensor *a, int width)
{
    const struct adn_conv_igemm_params *p = &m->params;
    int j;
    if (!is_aligned(a, width) || p->a_row != 1 || m->rows % width) return false;
    if ((p->depth_u.value > 1 && p->a_u % width) || (m->groups > 1 && p->a_group % width)) return false;
    for (j = 0; j < 3; j++)
        if (p->axis[j].taps > 1 && p->axis[j].a % width) return false;
    return true;
}

/* The same of columns of B, which then differ in u alone and so pass its limits together. */
static bool b_has_lines(const struct adn_conv_product *m, const anydnn_tensor *b, int width)
{
    const struct adn_conv_igemm_params *p = &m->params;
    const bool one_digit = m->columns == (int64_t)p->column_u.value;
    int j;
    if (!is_aligned(b, width) || p->b_column_u != 1 || p->column_u.value % width) return false;
    if (!one_digit && !p->column_u_inner) return false;
    if ((p->depth_u.value > 1 && p->b_depth_u % width) || (m->groups > 1 && p->b_group % width)) return false;
    for (j = 0; j < 3; j++)
        if (p->axis[j].limit > 1 && p->axis[j].b % width) return false;
    return true;
}

bool adn_conv_product_of(const struct adn_problem *p, int width, struct adn_conv_product *m, struct adn_refusal *why)
{
    struct adn_conv_geometry g;
    const anydnn_tensor *a, *b;
    int64_t taps = 1;
    int j;
    memset(m, 0, sizeof *m);
    adn_conv_geometry(p, &g);
    if (!adn_conv_fits(&g, why)) return false;
    m->groups = g.groups;
    switch (p->def->op) {
    case ANYDNN_OP_CONV_FORWARD:
        forward(m, &g);
        break;
    case ANYDNN_OP_CONV_BACKWARD_DATA:
        backward_data(m, &g);
        break;
    default:
        backward_filter(m, &g);
        break;
    }
    a = adn_tensor(p, p->def->op == ANYDNN_OP_CONV_BACKWARD_FILTER ? ANYDNN_DY : ANYDNN_W);
    b = adn_tensor(p, p->def->op == ANYDNN_OP_CONV_BACKWARD_DATA ? ANYDNN_DY : ANYDNN_X);
    m->dtype = b->dtype;
    m->columns = m->params.column_u.value;
    m->phases = 1;
    for (j = 0; j < 3; j++) {
        m->columns *= m->params.axis[j].columns.value;
        m->phases *= m->params.axis[j].phases;
        taps *= m->params.axis[j].taps;
    }
    m->flops =
        2.0 * (double)m->groups * (double)m->rows * (double)m->columns * (double)m->params.depth_u.value * (double)taps;
    m->depth = m->params.depth_u.value * taps;
    if (m->rows >= limit || m->columns >= limit || m->depth >= limit || m->groups >= limit || m->phases >= limit)
        return adn_refuse(why, ANYDNN_REASON_SIZE, 0, "columns", m->columns, limit - 1,
                          "a matrix of %lld x %lld x %lld is too large", (long long)m->rows, (long long)m->columns,
                          (long long)m->depth);
    m->params.a_vector = a_has_vectors(m, a, width);
    m->params.b_vector = b_has_vectors(m, b, width);
    m->a_lines = a_has_lines(m, a, width);
    m->b_lines = b_has_lines(m, b, width);
    if (m->phases > 1) m->depth = (m->depth + m->phases - 1) / m->phases;
    adn_conv_epilogue_of(p, &m->params.e);
    m->bytes = adn_element_bytes(a) + adn_element_bytes(b) +
               (double)m->groups * (double)m->rows * (double)m->columns * (double)m->phases *
                   (double)anydnn_dtype_size(a->dtype);
    return true;
}

/* Problems of several stride phases are not split: their depths differ. */
bool adn_conv_choose(const struct adn_variant *rows, int count, struct adn_tile_speed speed, int element_bytes,
                     const struct adn_conv_product *m, const struct adn_problem *p, const struct adn_device *device,
                     const char *params, struct adn_tile_layout *l, struct adn_refusal *why)
{
    struct adn_tile_product t = { 0 };
    t.dtype = m->dtype;
    t.copies = m->phases * m->groups, t.rows = m->rows, t.columns = m->columns, t.depth = m->depth;
    t.multiplications = m->flops / 2;
    t.may_split = m->phases == 1 && !p->batch_invariant;
    t.as_listed = p->batch_invariant;
    t.part = m->groups * m->rows * m->columns;
    t.thread_bytes = sizeof(struct adn_igemm_depth);
    t.element_bytes = element_bytes;
    t.speed = speed;
    if (!adn_tile_choose(rows, count, &t, device, p->workspace_limit, params, l, why)) return false;
    if (l->splits == 1) l->split_depth = limit;
    if (l->tiles > INT32_MAX)
        return adn_refuse(why, ANYDNN_REASON_SIZE, 0, "tiles", l->tiles, INT32_MAX, "%lld tiles are too many",
                          (long long)l->tiles);
    return true;
}

int adn_conv_role(int op, int forward_role, int data_role, int filter_role)
{
    return op == ANYDNN_OP_CONV_FORWARD ? forward_role : op == ANYDNN_OP_CONV_BACKWARD_DATA ? data_role : filter_role;
}

void adn_conv_add_steps(struct adn_conv_product *m, const struct adn_problem *p, const struct adn_tile_layout *l,
                        const struct adn_variant *sum, struct adn_engine_plan *plan)
{
    struct adn_conv_igemm_params *q = &m->params;
    const int op = p->def->op, out = adn_conv_role(op, ANYDNN_Y, ANYDNN_DX, ANYDNN_DW);
    struct adn_step *step;
    q->rows = (int32_t)m->rows, q->columns = (int32_t)m->columns, q->groups = (int32_t)m->groups;
    q->row_tiles = (int32_t)l->row_tiles, q->column_tiles = (int32_t)l->column_tiles;
    q->splits = (int32_t)l->splits, q->split_depth = (int32_t)l->split_depth;
    q->tiles = (int32_t)l->tiles;
    q->part = m->groups * m->rows * m->columns;
    step = adn_add_step(plan, l->variant, (uint64_t)l->tiles, q, sizeof *q);
    adn_step_role(step, p, adn_conv_role(op, ANYDNN_W, ANYDNN_W, ANYDNN_DY));
    adn_step_role(step, p, adn_conv_role(op, ANYDNN_X, ANYDNN_DY, ANYDNN_X));
    adn_conv_step_roles(step, p, out);
    if (l->splits == 1) {
        adn_step_null(step);
        return;
    }
    adn_step_workspace(step, adn_book(plan, (uint64_t)(l->splits * q->part * adn_tile_sum_bytes(m->dtype))));
    step = adn_add_step(plan, sum, (uint64_t)adn_smaller((q->part + 255) / 256, INT32_MAX), q, sizeof *q);
    adn_step_workspace(step, 0);
    adn_conv_step_roles(step, p, out);
}
