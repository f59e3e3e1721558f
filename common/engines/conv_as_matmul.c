/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_as_matmul.c: convolutions of one tap as matrix products. See conv_as_matmul.h. */
#include "conv_as_matmul.h"

#include "matmul_tile.h"
#include "matmul_tile_params.h"
#include "plan_conv.h"

#include <string.h>

/* A matrix of the product for each group, and strides of further batches. */
struct side {
    int from;
    int64_t rows, columns;
    int64_t row, column, group;
    int64_t batch[ANYDNN_MAX_DIMS];
};

struct product {
    struct side a, b, y;
    int64_t groups;
    int batches; /* beside the groups */
    int64_t size[ANYDNN_MAX_DIMS];
};

int adn_conv_tensor_role(int op, enum adn_conv_tensor tensor)
{
    static const int roles[3][ADN_CONV_TENSORS] = { { ANYDNN_X, ANYDNN_W, ANYDNN_Y, ANYDNN_BIAS },
                                                    { ANYDNN_DX, ANYDNN_W, ANYDNN_DY, ANYDNN_BIAS },
                                                    { ANYDNN_X, ANYDNN_DW, ANYDNN_DY, ANYDNN_BIAS } };
    return roles[op == ANYDNN_OP_CONV_FORWARD ? 0 : op == ANYDNN_OP_CONV_BACKWARD_DATA ? 1 : 2][tensor];
}

bool adn_conv_is_product(const struct adn_problem *p, struct adn_refusal *why)
{
    const int dtype = adn_tensor(p, adn_conv_tensor_role(p->def->op, ADN_CONV_X))->dtype;
    int i;
    for (i = ADN_CONV_X; i <= ADN_CONV_Y; i++) {
        const int role = adn_conv_tensor_role(p->def->op, (enum adn_conv_tensor)i);
        const anydnn_tensor *t = adn_tensor(p, role);
        if (t->dtype != dtype || (dtype != ANYDNN_F32 && dtype != ANYDNN_F16 && dtype != ANYDNN_BF16))
            return adn_refuse(why, ANYDNN_REASON_DTYPE, role, "dtype", t->dtype, ANYDNN_F32,
                              "tensors must have one dtype of f32, f16, bf16");
        if (adn_is_empty(t)) return adn_refuse(why, ANYDNN_REASON_SHAPE, role, "dims", 0, 1, "an empty convolution");
    }
    return adn_conv_is_plain(p, why);
}

bool adn_conv_pointwise_of(const struct adn_problem *p, struct adn_conv_pointwise *c, struct adn_refusal *why)
{
    struct adn_conv_geometry *g = &c->g;
    const bool data = p->def->op == ANYDNN_OP_CONV_BACKWARD_DATA;
    int j;
    memset(c, 0, sizeof *c);
    adn_conv_geometry(p, g);
    for (j = 0; j < 3; j++) {
        if (g->filter[j] != 1)
            return adn_refuse(why, ANYDNN_REASON_SHAPE, adn_conv_tensor_role(p->def->op, ADN_CONV_W), "filter",
                              g->filter[j], 1, "the filter's spatial size must be 1");
        if (g->pad[j] || (g->out[j] - 1) * g->stride[j] >= g->in[j])
            return adn_refuse(why, ANYDNN_REASON_SHAPE, 0, "pad", g->pad[j] ? g->pad[j] : g->pad_end[j], 0,
                              "every position must lie inside of x");
        if (data && g->in[j] != g->out[j])
            return adn_refuse(why, ANYDNN_REASON_SHAPE, 0, "stride", g->stride[j], 1, "strides must be 1");
        g->xs[2 + j] *= g->stride[j];
    }
    for (j = 0; j < 3; j++)
        c->alignment[j] = adn_tensor(p, adn_conv_tensor_role(p->def->op, (enum adn_conv_tensor)j))->alignment;
    return true;
}

static anydnn_tensor positions_of(const struct adn_conv_geometry *g, const int64_t *strides)
{
    const int64_t dims[4] = { g->n, g->out[0], g->out[1], g->out[2] };
    anydnn_tensor t = anydnn_tensor_packed(ANYDNN_F32, 4, dims);
    t.strides[0] = strides[0];
    memcpy(t.strides + 1, strides + 2, 3 * sizeof *strides);
    return t;
}

/* Positions of x and y together; those of `first` set the order. */
static void walk_positions(const struct adn_conv_geometry *g, const int64_t *first, const int64_t *second,
                           struct adn_walk *walk)
{
    const anydnn_tensor a = positions_of(g, first), b = positions_of(g, second);
    const anydnn_tensor *const both[2] = { &a, &b };
    adn_walk_init(walk, &a, ~0u, 2, both, false);
}

/* Forward (output y, depth c) and backward data (output dx, depth k). */
static void channels_by_positions(const struct adn_conv_geometry *g, bool data, struct product *m)
{
    const int64_t kg = g->k / g->groups, cg = g->c / g->groups;
    const int64_t rows = data ? cg : kg, depth = data ? kg : cg;
    const int64_t *in = data ? g->ys : g->xs, *out = data ? g->xs : g->ys;
    const struct side a = { ADN_CONV_W, rows, depth, g->ws[data ? 1 : 0], g->ws[data ? 0 : 1], kg * g->ws[0], { 0 } };
    struct adn_walk walk;
    int last, i;
    walk_positions(g, out, in, &walk);
    last = walk.rank ? walk.rank - 1 : 0;
    m->a = a;
    m->b = (struct side){
        data ? ADN_CONV_Y : ADN_CONV_X, depth, walk.size[last], in[1], walk.stride[1][last], depth * in[1], { 0 }
    };
    m->y = (struct side){
        data ? ADN_CONV_X : ADN_CONV_Y, rows, walk.size[last], out[1], walk.stride[0][last], rows * out[1], { 0 }
    };
    m->batches = last;
    for (i = 0; i < last; i++) {
        m->size[i] = walk.size[i];
        m->y.batch[i] = walk.stride[0][i];
        m->b.batch[i] = walk.stride[1][i];
    }
}

/* Backward filter: depth is the positions. */
static bool filters_by_channels(const struct adn_conv_geometry *g, struct product *m, struct adn_refusal *why)
{
    const int64_t kg = g->k / g->groups, cg = g->c / g->groups;
    struct adn_walk walk;
    walk_positions(g, g->xs, g->ys, &walk);
    if (walk.rank > 1)
        return adn_refuse(why, ANYDNN_REASON_LAYOUT, ANYDNN_X, "strides", walk.rank, 1,
                          "no single stride walks the positions of all images in x and in dy");
    m->a = (struct side){ ADN_CONV_Y, kg, walk.size[0], g->ys[1], walk.stride[1][0], kg * g->ys[1], { 0 } };
    m->b = (struct side){ ADN_CONV_X, walk.size[0], cg, walk.stride[0][0], g->xs[1], cg * g->xs[1], { 0 } };
    m->y = (struct side){ ADN_CONV_W, kg, cg, g->ws[0], g->ws[1], kg * g->ws[0], { 0 } };
    m->batches = 0;
    return true;
}

static struct side transposed(const struct side *s)
{
    struct side t = *s;
    t.rows = s->columns, t.columns = s->rows;
    t.row = s->column, t.column = s->row;
    return t;
}

/* Tiles are written along their columns: these should be neighbours, and more than one. */
static bool wants_turn(const struct side *y)
{
    if (y->rows == 1 || y->columns == 1) return y->rows > 1;
    return y->row < y->column;
}

static void turn_product(struct product *m)
{
    const struct side a = transposed(&m->b), b = transposed(&m->a);
    m->a = a, m->b = b;
    m->y = transposed(&m->y);
}

/* Puts a matrix into a slot: axes are the group, the batches, row and column. */
static anydnn_tensor *put(struct adn_conv_matmul *to, int role, int dtype, const struct product *m,
                          const struct side *s, int32_t alignment)
{
    const int slot = adn_slot(&to->problem, role);
    struct adn_operand *o = &to->problem.operand[slot];
    int64_t dims[ANYDNN_MAX_DIMS] = { 1 };
    int i;
    dims[0] = m->groups;
    for (i = 0; i < m->batches; i++) dims[1 + i] = s->batch[i] == 0 && s != &m->y ? 1 : m->size[i];
    dims[1 + m->batches] = s->rows, dims[2 + m->batches] = s->columns;
    o->present = true;
    o->t = anydnn_tensor_packed(dtype, 3 + m->batches, dims);
    o->t.alignment = alignment;
    o->t.strides[0] = s->group;
    for (i = 0; i < m->batches; i++) o->t.strides[1 + i] = s->batch[i];
    o->t.strides[1 + m->batches] = s->row, o->t.strides[2 + m->batches] = s->column;
    to->from[slot] = s->from;
    return &o->t;
}

/* The bias goes with the output's channels, which are its rows, or its columns when turned. */
static void put_bias(struct adn_conv_matmul *to, const anydnn_tensor *bias, const struct product *m, bool turned)
{
    const int64_t step = bias->strides[1], channels = turned ? m->y.columns : m->y.rows;
    struct side s = { ADN_CONV_BIAS, channels, 1, step, 0, channels * step, { 0 } };
    if (turned) s = transposed(&s);
    put(to, ANYDNN_BIAS, bias->dtype, m, &s, bias->alignment);
}

static void start_problem(const struct adn_problem *p, struct adn_problem *m)
{
    static const int scalars[2] = { ANYDNN_ALPHA, ANYDNN_BETA };
    int i;
    memset(m, 0, sizeof *m);
    m->def = adn_op_def(ANYDNN_OP_MATMUL);
    m->desc.matmul = anydnn_matmul_init();
    while (m->slots < ADN_MAX_ROLES && m->def->roles[m->slots].role) m->operand[m->slots++].alias = -1;
    for (i = 0; i < 2; i++) m->operand[adn_slot(m, scalars[i])] = p->operand[adn_slot(p, scalars[i])];
    m->alpha_class = p->alpha_class, m->beta_class = p->beta_class;
    m->math = p->math;
    m->deterministic = p->deterministic;
    m->batch_invariant = p->batch_invariant;
    m->workspace_limit = p->workspace_limit;
}

bool adn_conv_as_matmul(const struct adn_problem *p, const struct adn_conv_pointwise *c, bool turn,
                        struct adn_conv_matmul *product, struct adn_refusal *why)
{
    const int op = p->def->op, dtype = adn_tensor(p, adn_conv_tensor_role(op, ADN_CONV_X))->dtype;
    const anydnn_tensor *bias = adn_tensor(p, ANYDNN_BIAS);
    struct product m = { 0 };
    memset(product->from, 0, sizeof product->from);
    start_problem(p, &product->problem);
    m.groups = c->g.groups;
    if (op != ANYDNN_OP_CONV_BACKWARD_FILTER)
        channels_by_positions(&c->g, op == ANYDNN_OP_CONV_BACKWARD_DATA, &m);
    else if (!filters_by_channels(&c->g, &m, why))
        return false;
    turn = turn && wants_turn(&m.y);
    if (turn) turn_product(&m);
    put(product, ANYDNN_A, dtype, &m, &m.a, c->alignment[m.a.from]);
    put(product, ANYDNN_B, dtype, &m, &m.b, c->alignment[m.b.from]);
    put(product, ANYDNN_Y, c->raw ? ANYDNN_F32 : dtype, &m, &m.y, c->alignment[m.y.from]);
    if (bias && !c->raw) put_bias(product, bias, &m, turn);
    return true;
}

void adn_conv_rename(const struct adn_conv_matmul *product, const struct adn_conv_places *places, int first,
                     struct adn_engine_plan *plan)
{
    int i, j;
    for (i = first; i < plan->steps; i++)
        for (j = 0; j < plan->step[i].memories; j++) {
            const int slot = plan->step[i].memory[j].source;
            if (slot < 0) continue;
            plan->step[i].memory[j].source = places->source[product->from[slot]];
            plan->step[i].memory[j].offset += places->offset[product->from[slot]];
        }
}

void adn_conv_places_of(const struct adn_problem *p, struct adn_conv_places *places)
{
    int i;
    for (i = 0; i < ADN_CONV_TENSORS; i++) {
        const int slot = adn_slot(p, adn_conv_tensor_role(p->def->op, (enum adn_conv_tensor)i));
        places->source[i] = slot >= 0 && p->operand[slot].present ? slot : ADN_FROM_NULL;
        places->offset[i] = 0;
    }
}

bool adn_conv_tile_plan(const struct adn_problem *p, const struct adn_conv_pointwise *c,
                        const struct adn_conv_places *places, const struct adn_device *device, const char *params,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct adn_conv_matmul product;
    const int first = plan->steps;
    const uint64_t taken = (plan->workspace + 255) / 256 * 256;
    if (!adn_conv_as_matmul(p, c, true, &product, why)) return false;
    if (p->workspace_limit != UINT64_MAX)
        product.problem.workspace_limit = p->workspace_limit > taken ? p->workspace_limit - taken : 0;
    if (!adn_matmul_tile_plan(&product.problem, device, params, c->raw, plan, why)) return false;
    adn_conv_rename(&product, places, first, plan);
    return true;
}

bool adn_conv_tile_candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32])
{
    struct adn_problem product;
    start_problem(p, &product);
    product.operand[adn_slot(&product, ANYDNN_Y)].t.dtype =
        adn_tensor(p, adn_conv_tensor_role(p->def->op, ADN_CONV_X))->dtype;
    product.operand[adn_slot(&product, ANYDNN_Y)].present = true;
    return adn_engine_matmul_tile.candidate(&product, device, index, params);
}

void adn_conv_tile_bind(const struct adn_problem *p, const double *scalar, void *params)
{
    struct adn_matmul_tile_params *q = params;
    q->alpha = (float)scalar[adn_slot(p, ANYDNN_ALPHA)];
    q->beta = (float)scalar[adn_slot(p, ANYDNN_BETA)];
}
