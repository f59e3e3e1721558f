/* SPDX-License-Identifier: Apache-2.0
 * common/ops/elementwise.c: rules of copy, fill, scale, dropout and the optimisers (formulas in anydnn/ops.h). */
#include "rules.h"

static const struct adn_key_def no_keys[] = { ADN_KEYS_END };

static anydnn_status check_nothing(struct adn_problem *p)
{
    (void)p;
    return ANYDNN_OK;
}

static anydnn_status check_floats(struct adn_problem *p) { return adn_need_dtype(p, p->def->roles[0].role, ADN_FLOATS); }

static anydnn_status infer_like_first(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    (void)role;
    *out = adn_packed_like(&p->operand[0].t, p->operand[0].t.dtype);
    return ANYDNN_OK;
}

static anydnn_status infer_copy(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    *out = adn_packed_like(adn_tensor(p, ANYDNN_X), 0);
    if (!adn_tensor(p, role)) out->dtype = adn_tensor(p, ANYDNN_X)->dtype;
    return ANYDNN_OK;
}

/* What fill writes and scale scales has whatever shape and dtype it has. */
static anydnn_status infer_itself(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *t = adn_tensor(p, role);
    if (!t) return adn_fail(ANYDNN_INVALID, "%s is not bound; accepted by %s: bound", adn_role_text(role), p->def->name);
    *out = *t;
    return ANYDNN_OK;
}

static void cost_first(const struct adn_problem *p, double *flops, double *depth)
{
    adn_cost_per_element(p, p->def->roles[0].role, 1.0, flops, depth);
}

static const struct adn_role_def copy_roles[] = { ADN_ROLE(X, ADN_IN), ADN_ROLE(Y, ADN_OUT | ADN_SCALED),
                                                  ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END };
static const struct adn_role_def fill_roles[] = { ADN_ROLE(Y, ADN_OUT), ADN_SCALAR(VALUE, 0.0), ADN_ROLES_END };
static const struct adn_role_def scale_roles[] = { ADN_ROLE(Y, ADN_IN | ADN_OUT), ADN_SCALAR(ALPHA, 1.0),
                                                   ADN_ROLES_END };
const struct adn_op_def adn_op_copy = { ANYDNN_OP_COPY, "copy", sizeof(anydnn_elementwise), copy_roles, no_keys,
                                        check_nothing, infer_copy, cost_first };
const struct adn_op_def adn_op_fill = { ANYDNN_OP_FILL, "fill", sizeof(anydnn_elementwise), fill_roles, no_keys,
                                        check_nothing, infer_itself, cost_first };
const struct adn_op_def adn_op_scale = { ANYDNN_OP_SCALE, "scale", sizeof(anydnn_elementwise), scale_roles, no_keys,
                                         check_floats, infer_itself, cost_first };

static const struct adn_role_def dropout_forward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE_INPLACE(Y, ADN_OUT, ANYDNN_X, 0), ADN_SCALAR(RATIO, 0.5),
    ADN_SCALAR_DEVICE(SEED, 0.0), ADN_SCALAR_DEVICE(OFFSET, 0.0), ADN_ROLES_END
};
static const struct adn_role_def dropout_backward_roles[] = {
    ADN_ROLE(DY, ADN_IN), ADN_ROLE_INPLACE(DX, ADN_OUT, ANYDNN_DY, 0), ADN_SCALAR(RATIO, 0.5),
    ADN_SCALAR_DEVICE(SEED, 0.0), ADN_SCALAR_DEVICE(OFFSET, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_dropout_forward = { ANYDNN_OP_DROPOUT_FORWARD, "dropout_forward", sizeof(anydnn_dropout),
                                                   dropout_forward_roles, no_keys, check_floats, infer_like_first,
                                                   cost_first };
const struct adn_op_def adn_op_dropout_backward = { ANYDNN_OP_DROPOUT_BACKWARD, "dropout_backward",
                                                    sizeof(anydnn_dropout), dropout_backward_roles, no_keys,
                                                    check_floats, infer_like_first, cost_first };

/* ---- optimisers ---- */

static const struct adn_key_def sgd_keys[] = { { "nesterov", ADN_KEY_I32, offsetof(anydnn_optimizer, nesterov), NULL },
                                               ADN_KEYS_END };
static const struct adn_key_def adam_keys[] = { { "decoupled", ADN_KEY_I32, offsetof(anydnn_optimizer, decoupled), NULL },
                                                ADN_KEYS_END };

static anydnn_status check_optimizer(struct adn_problem *p)
{
    static const int moments[] = { ANYDNN_MOMENT1, ANYDNN_MOMENT2 };
    const bool adam = p->def->op == ANYDNN_OP_ADAM;
    size_t i;
    ADN_TRY(adn_need_range("nesterov", p->desc.optimizer.nesterov, 0, adam ? 0 : 1));
    ADN_TRY(adn_need_range("decoupled", p->desc.optimizer.decoupled, 0, adam ? 1 : 0));
    ADN_TRY(adn_need_dtype(p, ANYDNN_PARAM, ADN_FLOATS));
    ADN_TRY(adn_need_dtype(p, ANYDNN_GRAD, ADN_FLOATS));
    ADN_TRY(adn_need_same_dims(p, ANYDNN_PARAM, ANYDNN_GRAD));
    for (i = 0; i < 2; i++) {
        ADN_TRY(adn_need_dtype(p, moments[i], 1u << adn_parameter_dtype(adn_tensor(p, ANYDNN_PARAM)->dtype)));
        ADN_TRY(adn_need_same_dims(p, moments[i], ANYDNN_GRAD));
    }
    if (!adam && p->desc.optimizer.nesterov && !adn_tensor(p, ANYDNN_MOMENT1))
        return adn_fail(ANYDNN_INVALID, "moment1 is not bound; accepted by sgd with nesterov: bound");
    return ANYDNN_OK;
}

static void cost_optimizer(const struct adn_problem *p, double *flops, double *depth)
{
    adn_cost_per_element(p, ANYDNN_GRAD, p->def->op == ANYDNN_OP_ADAM ? 14.0 : 4.0, flops, depth);
}

static const struct adn_role_def sgd_roles[] = {
    ADN_ROLE(GRAD, ADN_IN), ADN_ROLE(PARAM, ADN_IN | ADN_OUT), ADN_ROLE(MOMENT1, ADN_IN | ADN_OUT | ADN_OPT),
    ADN_SCALAR_DEVICE(LR, 0.001), ADN_SCALAR(MOMENTUM, 0.0), ADN_SCALAR(WEIGHT_DECAY, 0.0), ADN_ROLES_END
};
static const struct adn_role_def adam_roles[] = {
    ADN_ROLE(GRAD, ADN_IN), ADN_ROLE(PARAM, ADN_IN | ADN_OUT), ADN_ROLE(MOMENT1, ADN_IN | ADN_OUT),
    ADN_ROLE(MOMENT2, ADN_IN | ADN_OUT), ADN_SCALAR_DEVICE(LR, 0.001), ADN_SCALAR(BETA1, 0.9), ADN_SCALAR(BETA2, 0.999),
    ADN_SCALAR(EPSILON, 1e-8), ADN_SCALAR(WEIGHT_DECAY, 0.0), ADN_SCALAR_DEVICE(STEP, 1.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_sgd = { ANYDNN_OP_SGD, "sgd", sizeof(anydnn_optimizer), sgd_roles, sgd_keys,
                                       check_optimizer, infer_itself, cost_optimizer };
const struct adn_op_def adn_op_adam = { ANYDNN_OP_ADAM, "adam", sizeof(anydnn_optimizer), adam_roles, adam_keys,
                                        check_optimizer, infer_itself, cost_optimizer };
