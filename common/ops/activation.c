/* SPDX-License-Identifier: Apache-2.0
 * common/ops/activation.c: rules of activations, softmax and cross entropy (formulas in anydnn/ops.h). */
#include "rules.h"

static const char *const activation_names[] = { "relu", "leaky_relu", "clipped_relu", "sigmoid", "tanh", NULL };
static const struct adn_key_def activation_keys[] = {
    { "mode", ADN_KEY_ENUM, offsetof(anydnn_activation, mode), activation_names }, ADN_KEYS_END
};

static anydnn_status check_activation(struct adn_problem *p)
{
    const int first = adn_slot(p, ANYDNN_DY) >= 0 ? ANYDNN_DY : ANYDNN_X;
    const int coef = adn_slot(p, ANYDNN_COEF);
    ADN_TRY(adn_need_range("mode", p->desc.activation.mode, ANYDNN_RELU, ANYDNN_TANH));
    ADN_TRY(adn_need_range("reserved", p->desc.activation.reserved, 0, 0));
    /* The default of coef depends on the mode; the table holds leaky's. */
    p->operand[coef].otherwise = p->desc.activation.mode == ANYDNN_CLIPPED_RELU ? 6.0 : 0.01;
    if (!p->operand[coef].present) p->operand[coef].value = p->operand[coef].otherwise;
    ADN_TRY(adn_need_dtype(p, first, ADN_FLOATS));
    if (first == ANYDNN_X) return ANYDNN_OK;
    if (!adn_tensor(p, ANYDNN_X) && !adn_tensor(p, ANYDNN_Y))
        return adn_fail(ANYDNN_INVALID, "neither x nor y is bound; accepted by activation_backward: one or both bound");
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_X, first));
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_Y, first));
    ADN_TRY(adn_need_same_dims(p, ANYDNN_X, first));
    return adn_need_same_dims(p, ANYDNN_Y, first);
}

/* Outputs look like the first input: x, dy or y by operation. */
static anydnn_status infer_like_first(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    (void)role;
    *out = adn_packed_like(&p->operand[0].t, p->operand[0].t.dtype);
    return ANYDNN_OK;
}

static void cost_elementwise(const struct adn_problem *p, double *flops, double *depth)
{
    adn_cost_per_element(p, p->def->roles[0].role, 2.0, flops, depth);
}

/* From y alone the sign of x is known only while coef keeps it. */
static anydnn_status check_leaky(const struct adn_problem *p, const double *scalar)
{
    const double coef = scalar[adn_slot(p, ANYDNN_COEF)];
    if (p->desc.activation.mode != ANYDNN_LEAKY_RELU || adn_tensor(p, ANYDNN_X) || coef >= 0.0) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "coef is %g with y bound and x not; accepted: 0 or more, or x bound", coef);
}

static const struct adn_role_def activation_forward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE_INPLACE(Y, ADN_OUT | ADN_SCALED, ANYDNN_X, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_SCALAR(COEF, 0.01), ADN_ROLES_END
};
static const struct adn_role_def activation_backward_roles[] = {
    ADN_ROLE(DY, ADN_IN), ADN_ROLE(X, ADN_IN | ADN_OPT), ADN_ROLE(Y, ADN_IN | ADN_OPT),
    ADN_ROLE_INPLACE(DX, ADN_OUT | ADN_SCALED, ANYDNN_DY, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_SCALAR(COEF, 0.01), ADN_ROLES_END
};
const struct adn_op_def adn_op_activation_forward = { ANYDNN_OP_ACTIVATION_FORWARD, "activation_forward",
                                                      sizeof(anydnn_activation), activation_forward_roles,
                                                      activation_keys, check_activation, infer_like_first,
                                                      cost_elementwise };
const struct adn_op_def adn_op_activation_backward = { ANYDNN_OP_ACTIVATION_BACKWARD, "activation_backward",
                                                       sizeof(anydnn_activation), activation_backward_roles,
                                                       activation_keys, check_activation, infer_like_first,
                                                       cost_elementwise, check_leaky };

/* ---- softmax ---- */

static const char *const softmax_names[] = { "softmax", "log", NULL };
static const struct adn_key_def softmax_keys[] = {
    { "mode", ADN_KEY_ENUM, offsetof(anydnn_softmax, mode), softmax_names },
    { "axes", ADN_KEY_AXES, offsetof(anydnn_softmax, axes), NULL },
    ADN_KEYS_END
};

static anydnn_status check_axes(uint32_t axes, int ndim)
{
    if (axes >> ndim == 0) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "axes is 0x%x for a tensor of %d dims; accepted: bits 0 to %d", axes, ndim, ndim - 1);
}

static anydnn_status check_softmax(struct adn_problem *p)
{
    anydnn_softmax *s = &p->desc.softmax;
    const anydnn_tensor *t = &p->operand[0].t;
    ADN_TRY(adn_need_range("mode", s->mode, ANYDNN_SOFTMAX, ANYDNN_LOG_SOFTMAX));
    if (s->axes == 0) {
        s->axes = 2;
        ADN_TRY(adn_need_ndim(p, p->def->roles[0].role, 2, ANYDNN_MAX_DIMS));
    }
    ADN_TRY(check_axes(s->axes, t->ndim));
    ADN_TRY(adn_need_dtype(p, p->def->roles[0].role, ADN_FLOATS));
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_DY, p->def->roles[0].role));
    return adn_need_same_dims(p, ANYDNN_DY, p->def->roles[0].role);
}

static double axes_length(const anydnn_tensor *t, uint32_t axes)
{
    double length = 1.0;
    int i;
    for (i = 0; i < t->ndim; i++)
        if (axes >> i & 1u) length *= (double)t->dims[i];
    return length;
}

static void cost_softmax(const struct adn_problem *p, double *flops, double *depth)
{
    adn_cost_per_element(p, p->def->roles[0].role, 5.0, flops, depth);
    *depth = axes_length(&p->operand[0].t, p->desc.softmax.axes);
}

static const struct adn_role_def softmax_forward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE_INPLACE(Y, ADN_OUT | ADN_SCALED, ANYDNN_X, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
static const struct adn_role_def softmax_backward_roles[] = {
    ADN_ROLE(Y, ADN_IN), ADN_ROLE(DY, ADN_IN), ADN_ROLE_INPLACE(DX, ADN_OUT | ADN_SCALED, ANYDNN_DY, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_softmax_forward = { ANYDNN_OP_SOFTMAX_FORWARD, "softmax_forward", sizeof(anydnn_softmax),
                                                   softmax_forward_roles, softmax_keys, check_softmax,
                                                   infer_like_first, cost_softmax };
const struct adn_op_def adn_op_softmax_backward = { ANYDNN_OP_SOFTMAX_BACKWARD, "softmax_backward",
                                                    sizeof(anydnn_softmax), softmax_backward_roles, softmax_keys,
                                                    check_softmax, infer_like_first, cost_softmax };

/* ---- cross entropy ---- */

static const char *const reduction_names[] = { "mean", "sum", "none", NULL };
static const struct adn_key_def cross_entropy_keys[] = {
    { "reduction", ADN_KEY_ENUM, offsetof(anydnn_cross_entropy, reduction), reduction_names }, ADN_KEYS_END
};

static anydnn_tensor loss_tensor(const struct adn_problem *p)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X), *labels = adn_tensor(p, ANYDNN_LABELS);
    static const int64_t ones[ANYDNN_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    return anydnn_tensor_packed(adn_parameter_dtype(x->dtype), x->ndim,
                                p->desc.cross_entropy.reduction == ANYDNN_LOSS_NONE ? labels->dims : ones);
}

static anydnn_status check_cross_entropy(struct adn_problem *p)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X), *dloss = adn_tensor(p, ANYDNN_DLOSS);
    anydnn_tensor loss;
    int i;
    ADN_TRY(adn_need_range("reduction", p->desc.cross_entropy.reduction, ANYDNN_LOSS_MEAN, ANYDNN_LOSS_NONE));
    ADN_TRY(adn_need_range("reserved", p->desc.cross_entropy.reserved, 0, 0));
    ADN_TRY(adn_need_ndim(p, ANYDNN_X, 2, ANYDNN_MAX_DIMS));
    ADN_TRY(adn_need_dtype(p, ANYDNN_X, ADN_FLOATS));
    ADN_TRY(adn_need_dtype(p, ANYDNN_LABELS, 1u << ANYDNN_I32 | 1u << ANYDNN_I64));
    ADN_TRY(adn_need_ndim(p, ANYDNN_LABELS, x->ndim, x->ndim));
    for (i = 0; i < x->ndim; i++) ADN_TRY(adn_need_dim(p, ANYDNN_LABELS, i, i == 1 ? 1 : x->dims[i]));
    if (!dloss) return ANYDNN_OK;
    loss = loss_tensor(p);
    ADN_TRY(adn_need_dtype(p, ANYDNN_DLOSS, 1u << loss.dtype));
    ADN_TRY(adn_need_ndim(p, ANYDNN_DLOSS, x->ndim, x->ndim));
    for (i = 0; i < x->ndim; i++) ADN_TRY(adn_need_dim(p, ANYDNN_DLOSS, i, loss.dims[i]));
    return ANYDNN_OK;
}

static anydnn_status infer_loss(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    (void)role;
    *out = loss_tensor(p);
    return ANYDNN_OK;
}

static void cost_cross_entropy(const struct adn_problem *p, double *flops, double *depth)
{
    adn_cost_per_element(p, ANYDNN_X, 5.0, flops, depth);
    *depth = (double)p->operand[0].t.dims[1];
    /* A summed loss adds up one term a row. */
    if (adn_slot(p, ANYDNN_LOSS) >= 0 && p->desc.cross_entropy.reduction != ANYDNN_LOSS_NONE && *depth > 0)
        *depth = (double)anydnn_tensor_count(&p->operand[0].t);
}

static const struct adn_role_def cross_entropy_forward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(LABELS, ADN_IN), ADN_ROLE(LOSS, ADN_OUT), ADN_SCALAR(SMOOTHING, 0.0), ADN_ROLES_END
};
static const struct adn_role_def cross_entropy_backward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(LABELS, ADN_IN), ADN_ROLE(DLOSS, ADN_IN | ADN_OPT),
    ADN_ROLE_INPLACE(DX, ADN_OUT, ANYDNN_X, 0), ADN_SCALAR(SMOOTHING, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_cross_entropy_forward = { ANYDNN_OP_CROSS_ENTROPY_FORWARD, "cross_entropy_forward",
                                                         sizeof(anydnn_cross_entropy), cross_entropy_forward_roles,
                                                         cross_entropy_keys, check_cross_entropy, infer_loss,
                                                         cost_cross_entropy };
const struct adn_op_def adn_op_cross_entropy_backward = { ANYDNN_OP_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward",
                                                          sizeof(anydnn_cross_entropy), cross_entropy_backward_roles,
                                                          cross_entropy_keys, check_cross_entropy, infer_like_first,
                                                          cost_cross_entropy };
