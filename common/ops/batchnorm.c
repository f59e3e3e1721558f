/* SPDX-License-Identifier: Apache-2.0
 * common/ops/batchnorm.c: rules of batch normalisation (formulas in anydnn/ops.h). */
#include "rules.h"

static const char *const mode_names[] = { "spatial", "per_activation", NULL };
static const struct adn_key_def keys[] = { { "mode", ADN_KEY_ENUM, offsetof(anydnn_batchnorm, mode), mode_names },
                                           ADN_KEYS_END };

static anydnn_tensor parameter_tensor(const struct adn_problem *p)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X);
    int64_t dims[ANYDNN_MAX_DIMS];
    int i;
    for (i = 0; i < x->ndim; i++)
        dims[i] = i == 0 ? 1 : i == 1 || p->desc.batchnorm.mode == ANYDNN_BATCHNORM_PER_ACTIVATION ? x->dims[i] : 1;
    return anydnn_tensor_packed(adn_parameter_dtype(x->dtype), x->ndim, dims);
}

static anydnn_status check_parameter(const struct adn_problem *p, int role)
{
    const anydnn_tensor want = parameter_tensor(p);
    int i;
    ADN_TRY(adn_need_dtype(p, role, 1u << want.dtype));
    ADN_TRY(adn_need_ndim(p, role, want.ndim, want.ndim));
    for (i = 0; i < want.ndim; i++) ADN_TRY(adn_need_dim(p, role, i, want.dims[i]));
    return ANYDNN_OK;
}

static anydnn_status check_pair(const struct adn_problem *p, int a, int b)
{
    if (!adn_tensor(p, a) == !adn_tensor(p, b)) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "only one of %s and %s is bound; accepted: both or neither", adn_role_text(a),
                    adn_role_text(b));
}

static anydnn_status check(struct adn_problem *p)
{
    static const int parameters[] = { ANYDNN_GAMMA, ANYDNN_SHIFT, ANYDNN_RUNNING_MEAN, ANYDNN_RUNNING_VAR,
                                      ANYDNN_SAVED_MEAN, ANYDNN_SAVED_INVSTD };
    size_t i;
    ADN_TRY(adn_need_range("mode", p->desc.batchnorm.mode, 0, 1));
    ADN_TRY(adn_need_range("reserved", p->desc.batchnorm.reserved, 0, 0));
    ADN_TRY(adn_need_ndim(p, ANYDNN_X, 2, 5));
    ADN_TRY(adn_need_dtype(p, ANYDNN_X, ADN_FLOATS));
    for (i = 0; i < sizeof parameters / sizeof parameters[0]; i++) ADN_TRY(check_parameter(p, parameters[i]));
    ADN_TRY(check_pair(p, ANYDNN_RUNNING_MEAN, ANYDNN_RUNNING_VAR));
    ADN_TRY(check_pair(p, ANYDNN_SAVED_MEAN, ANYDNN_SAVED_INVSTD));
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_DY, ANYDNN_X));
    return adn_need_same_dims(p, ANYDNN_DY, ANYDNN_X);
}

static anydnn_status infer(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X);
    *out = role == ANYDNN_Y || role == ANYDNN_DX ? adn_packed_like(x, x->dtype) : parameter_tensor(p);
    return ANYDNN_OK;
}

static void cost(const struct adn_problem *p, double *flops, double *depth)
{
    const anydnn_tensor parameters = parameter_tensor(p);
    const int64_t outputs = anydnn_tensor_count(&parameters);
    adn_cost_per_element(p, ANYDNN_X, 8.0, flops, depth);
    *depth = outputs ? (double)anydnn_tensor_count(adn_tensor(p, ANYDNN_X)) / (double)outputs : 1.0;
}

static const struct adn_role_def training_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(GAMMA, ADN_IN), ADN_ROLE(SHIFT, ADN_IN),
    ADN_ROLE_INPLACE(Y, ADN_OUT | ADN_SCALED, ANYDNN_X, 0), ADN_ROLE(SAVED_MEAN, ADN_OUT | ADN_OPT),
    ADN_ROLE(SAVED_INVSTD, ADN_OUT | ADN_OPT), ADN_ROLE(RUNNING_MEAN, ADN_IN | ADN_OUT | ADN_OPT),
    ADN_ROLE(RUNNING_VAR, ADN_IN | ADN_OUT | ADN_OPT), ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0),
    ADN_SCALAR(FACTOR, 0.1), ADN_SCALAR(EPSILON, 1e-5), ADN_ROLES_END
};
static const struct adn_role_def inference_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(GAMMA, ADN_IN), ADN_ROLE(SHIFT, ADN_IN), ADN_ROLE(RUNNING_MEAN, ADN_IN),
    ADN_ROLE(RUNNING_VAR, ADN_IN), ADN_ROLE_INPLACE(Y, ADN_OUT | ADN_SCALED, ANYDNN_X, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_SCALAR(EPSILON, 1e-5), ADN_ROLES_END
};
static const struct adn_role_def backward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(DY, ADN_IN), ADN_ROLE(GAMMA, ADN_IN), ADN_ROLE(SAVED_MEAN, ADN_IN | ADN_OPT),
    ADN_ROLE(SAVED_INVSTD, ADN_IN | ADN_OPT), ADN_ROLE_INPLACE(DX, ADN_OUT | ADN_SCALED, ANYDNN_DY, 0),
    ADN_ROLE(DGAMMA, ADN_OUT | ANYDNN_ROLE_PARAM_SCALED), ADN_ROLE(DSHIFT, ADN_OUT | ANYDNN_ROLE_PARAM_SCALED),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_SCALAR(EPSILON, 1e-5), ADN_SCALAR(PARAM_ALPHA, 1.0),
    ADN_SCALAR(PARAM_BETA, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_batchnorm_training = { ANYDNN_OP_BATCHNORM_TRAINING, "batchnorm_training",
                                                      sizeof(anydnn_batchnorm), training_roles, keys, check, infer, cost };
const struct adn_op_def adn_op_batchnorm_inference = { ANYDNN_OP_BATCHNORM_INFERENCE, "batchnorm_inference",
                                                       sizeof(anydnn_batchnorm), inference_roles, keys, check, infer, cost };
const struct adn_op_def adn_op_batchnorm_backward = { ANYDNN_OP_BATCHNORM_BACKWARD, "batchnorm_backward",
                                                      sizeof(anydnn_batchnorm), backward_roles, keys, check, infer, cost };
