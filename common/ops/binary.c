/* SPDX-License-Identifier: Apache-2.0
 * common/ops/binary.c: rules of elementwise binary operations and reductions (formulas in anydnn/ops.h). */
#include "rules.h"

static const char *const binary_names[] = { "add", "sub", "mul", "div", "max", "min", NULL };
static const struct adn_key_def binary_keys[] = { { "mode", ADN_KEY_ENUM, offsetof(anydnn_binary, mode), binary_names },
                                                  ADN_KEYS_END };

static anydnn_status check_binary(struct adn_problem *p)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B);
    int i;
    ADN_TRY(adn_need_range("mode", p->desc.binary.mode, ANYDNN_ADD, ANYDNN_MINIMUM));
    ADN_TRY(adn_need_range("reserved", p->desc.binary.reserved, 0, 0));
    ADN_TRY(adn_need_dtype(p, ANYDNN_A, ADN_FLOATS));
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_B, ANYDNN_A));
    ADN_TRY(adn_need_ndim(p, ANYDNN_B, a->ndim, a->ndim));
    for (i = 0; i < a->ndim; i++)
        if (a->dims[i] != 1 && b->dims[i] != 1) ADN_TRY(adn_need_dim(p, ANYDNN_B, i, a->dims[i]));
    return ANYDNN_OK;
}

static anydnn_status infer_binary(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B);
    int64_t dims[ANYDNN_MAX_DIMS];
    int i;
    (void)role;
    for (i = 0; i < a->ndim; i++) dims[i] = a->dims[i] == 1 ? b->dims[i] : a->dims[i];
    *out = anydnn_tensor_packed(a->dtype, a->ndim, dims);
    return ANYDNN_OK;
}

/* a or b (or da, db for its shape) must broadcast to dy. */
static anydnn_status check_operand(const struct adn_problem *p, int role)
{
    const anydnn_tensor *t = adn_tensor(p, role), *dy = adn_tensor(p, ANYDNN_DY);
    int i;
    if (!t) return ANYDNN_OK;
    ADN_TRY(adn_need_same_dtype(p, role, ANYDNN_DY));
    ADN_TRY(adn_need_ndim(p, role, dy->ndim, dy->ndim));
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] != 1) ADN_TRY(adn_need_dim(p, role, i, dy->dims[i]));
    return ANYDNN_OK;
}

/* Each dim of dy must come from one of the operands. */
static anydnn_status check_cover(const struct adn_problem *p)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B), *dy = adn_tensor(p, ANYDNN_DY);
    int i;
    for (i = 0; a && b && i < dy->ndim; i++)
        if (dy->dims[i] != (a->dims[i] == 1 ? b->dims[i] : a->dims[i]))
            return adn_need_dim(p, ANYDNN_DY, i, a->dims[i] == 1 ? b->dims[i] : a->dims[i]);
    return ANYDNN_OK;
}

static anydnn_status check_binary_backward(struct adn_problem *p)
{
    const int mode = p->desc.binary.mode;
    ADN_TRY(adn_need_range("mode", mode, ANYDNN_ADD, ANYDNN_MINIMUM));
    ADN_TRY(adn_need_range("reserved", p->desc.binary.reserved, 0, 0));
    ADN_TRY(adn_need_dtype(p, ANYDNN_DY, ADN_FLOATS));
    ADN_TRY(check_operand(p, ANYDNN_A));
    ADN_TRY(check_operand(p, ANYDNN_B));
    ADN_TRY(check_operand(p, ANYDNN_DA));
    ADN_TRY(check_operand(p, ANYDNN_DB));
    ADN_TRY(check_cover(p));
    if (mode >= ANYDNN_MUL && (!adn_tensor(p, ANYDNN_A) || !adn_tensor(p, ANYDNN_B)))
        return adn_fail(ANYDNN_INVALID, "%s is not bound; accepted by binary_backward with mode %s: a and b bound",
                        adn_tensor(p, ANYDNN_A) ? "b" : "a", binary_names[mode]);
    if (!adn_tensor(p, ANYDNN_DA) && !adn_tensor(p, ANYDNN_DB))
        return adn_fail(ANYDNN_INVALID, "neither da nor db is bound; accepted by binary_backward: one or both bound");
    ADN_TRY(adn_need_same_dims(p, ANYDNN_DA, ANYDNN_A));
    return adn_need_same_dims(p, ANYDNN_DB, ANYDNN_B);
}

static anydnn_status infer_binary_backward(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *like = adn_tensor(p, role == ANYDNN_DA ? ANYDNN_A : ANYDNN_B);
    if (!like) like = adn_tensor(p, role); /* add and sub: check_operand has compared it with dy */
    if (!like)
        return adn_fail(ANYDNN_INVALID, "%s is not bound; accepted by binary_backward: bound, or %s bound for its dims",
                        adn_role_text(role), role == ANYDNN_DA ? "a" : "b");
    *out = adn_packed_like(like, like->dtype);
    return ANYDNN_OK;
}

static void cost_binary(const struct adn_problem *p, double *flops, double *depth)
{
    adn_cost_per_element(p, ANYDNN_Y, 1.0, flops, depth);
}

static void cost_binary_backward(const struct adn_problem *p, double *flops, double *depth)
{
    adn_cost_per_element(p, ANYDNN_DY, 4.0, flops, depth);
    *depth = (double)anydnn_tensor_count(adn_tensor(p, ANYDNN_DY));
}

static const struct adn_role_def binary_roles[] = {
    ADN_ROLE(A, ADN_IN), ADN_ROLE(B, ADN_IN), ADN_ROLE_INPLACE(Y, ADN_OUT | ADN_SCALED, ANYDNN_A, ANYDNN_B),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(ALPHA2, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
static const struct adn_role_def binary_backward_roles[] = {
    ADN_ROLE(DY, ADN_IN), ADN_ROLE(A, ADN_IN | ADN_OPT), ADN_ROLE(B, ADN_IN | ADN_OPT),
    ADN_ROLE_INPLACE(DA, ADN_OUT | ADN_OPT | ADN_SCALED, ANYDNN_DY, 0),
    ADN_ROLE_INPLACE(DB, ADN_OUT | ADN_OPT | ADN_SCALED, ANYDNN_DY, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_binary = { ANYDNN_OP_BINARY, "binary", sizeof(anydnn_binary), binary_roles, binary_keys,
                                          check_binary, infer_binary, cost_binary };
const struct adn_op_def adn_op_binary_backward = { ANYDNN_OP_BINARY_BACKWARD, "binary_backward", sizeof(anydnn_binary),
                                                   binary_backward_roles, binary_keys, check_binary_backward,
                                                   infer_binary_backward, cost_binary_backward };

/* ---- reduce ---- */

static const char *const reduce_names[] = { "sum", "mean", "max", "min", "amax", "norm1", "norm2", NULL };
static const struct adn_key_def reduce_keys[] = {
    { "mode", ADN_KEY_ENUM, offsetof(anydnn_reduce, mode), reduce_names },
    { "axes", ADN_KEY_AXES, offsetof(anydnn_reduce, axes), NULL },
    ADN_KEYS_END
};

static anydnn_status check_reduce_axes(anydnn_reduce *r, int ndim)
{
    ADN_TRY(adn_need_range("mode", r->mode, ANYDNN_REDUCE_SUM, ANYDNN_REDUCE_NORM2));
    if (r->axes == 0) r->axes = (1u << ndim) - 1u;
    if (r->axes >> ndim)
        return adn_fail(ANYDNN_INVALID, "axes is 0x%x for a tensor of %d dims; accepted: bits 0 to %d", r->axes, ndim,
                        ndim - 1);
    return ANYDNN_OK;
}

static anydnn_status check_reduce(struct adn_problem *p)
{
    ADN_TRY(check_reduce_axes(&p->desc.reduce, p->operand[0].t.ndim));
    return adn_need_dtype(p, ANYDNN_X, ADN_FLOATS);
}

static anydnn_status infer_reduce(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    anydnn_tensor t = *adn_tensor(p, ANYDNN_X);
    int i;
    (void)role;
    for (i = 0; i < t.ndim; i++)
        if (p->desc.reduce.axes >> i & 1u) t.dims[i] = 1;
    *out = anydnn_tensor_packed(t.dtype, t.ndim, t.dims);
    return ANYDNN_OK;
}

static anydnn_status check_reduce_backward(struct adn_problem *p)
{
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY), *x = adn_tensor(p, ANYDNN_X), *dx = adn_tensor(p, ANYDNN_DX);
    const anydnn_tensor *full = x ? x : dx;
    int i;
    ADN_TRY(check_reduce_axes(&p->desc.reduce, dy->ndim));
    if (p->desc.reduce.mode > ANYDNN_REDUCE_MAX)
        return adn_fail(ANYDNN_INVALID, "mode is %s; accepted by reduce_backward: sum, mean, max",
                        reduce_names[p->desc.reduce.mode]);
    ADN_TRY(adn_need_dtype(p, ANYDNN_DY, ADN_FLOATS));
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_X, ANYDNN_DY));
    ADN_TRY(adn_need_ndim(p, ANYDNN_X, dy->ndim, dy->ndim));
    ADN_TRY(adn_need_ndim(p, ANYDNN_DX, dy->ndim, dy->ndim));
    ADN_TRY(adn_need_same_dims(p, ANYDNN_DX, ANYDNN_X));
    if (p->desc.reduce.mode == ANYDNN_REDUCE_MAX && !x)
        return adn_fail(ANYDNN_INVALID, "x is not bound; accepted by reduce_backward with mode max: bound");
    if (!full) return adn_fail(ANYDNN_INVALID, "neither x nor dx is bound; accepted by reduce_backward: one or both bound, for their dims");
    for (i = 0; i < dy->ndim; i++)
        ADN_TRY(adn_need_dim(p, ANYDNN_DY, i, p->desc.reduce.axes >> i & 1u ? 1 : full->dims[i]));
    return ANYDNN_OK;
}

static anydnn_status infer_reduce_backward(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X), *dx = adn_tensor(p, role);
    *out = adn_packed_like(x ? x : dx, adn_tensor(p, ANYDNN_DY)->dtype);
    return ANYDNN_OK;
}

static void cost_reduce(const struct adn_problem *p, double *flops, double *depth)
{
    const anydnn_tensor *t = &p->operand[0].t;
    int i;
    adn_cost_per_element(p, p->def->roles[0].role, 1.0, flops, depth);
    *depth = 1.0;
    for (i = 0; i < t->ndim; i++)
        if (p->desc.reduce.axes >> i & 1u) *depth *= (double)t->dims[i];
}

static const struct adn_role_def reduce_roles[] = { ADN_ROLE(X, ADN_IN), ADN_ROLE(Y, ADN_OUT | ADN_SCALED),
                                                    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END };
static const struct adn_role_def reduce_backward_roles[] = {
    ADN_ROLE(DY, ADN_IN), ADN_ROLE(X, ADN_IN | ADN_OPT), ADN_ROLE(DX, ADN_OUT | ADN_SCALED), ADN_SCALAR(ALPHA, 1.0),
    ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_reduce = { ANYDNN_OP_REDUCE, "reduce", sizeof(anydnn_reduce), reduce_roles, reduce_keys,
                                          check_reduce, infer_reduce, cost_reduce };
const struct adn_op_def adn_op_reduce_backward = { ANYDNN_OP_REDUCE_BACKWARD, "reduce_backward", sizeof(anydnn_reduce),
                                                   reduce_backward_roles, reduce_keys, check_reduce_backward,
                                                   infer_reduce_backward, cost_reduce };
