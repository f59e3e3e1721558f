/* SPDX-License-Identifier: Apache-2.0
 * common/ops/rules.c: the table of operations, and checks that their rules share. */
#include "rules.h"

static const struct adn_op_def *const table[] = {
    &adn_op_conv_forward, &adn_op_conv_backward_data, &adn_op_conv_backward_filter, &adn_op_conv_backward_bias,
    &adn_op_matmul, &adn_op_pool_forward, &adn_op_pool_backward, &adn_op_activation_forward,
    &adn_op_activation_backward, &adn_op_softmax_forward, &adn_op_softmax_backward, &adn_op_cross_entropy_forward,
    &adn_op_cross_entropy_backward, &adn_op_batchnorm_training, &adn_op_batchnorm_inference,
    &adn_op_batchnorm_backward, &adn_op_binary, &adn_op_binary_backward, &adn_op_reduce, &adn_op_reduce_backward,
    &adn_op_copy, &adn_op_fill, &adn_op_scale, &adn_op_dropout_forward, &adn_op_dropout_backward, &adn_op_sgd,
    &adn_op_adam,
};
enum { TABLE_SIZE = sizeof table / sizeof table[0] };

/* Ids count from 1 in the order of the table. */
const struct adn_op_def *adn_op_def(int op) { return op >= 1 && op <= TABLE_SIZE ? table[op - 1] : NULL; }

const char *anydnn_op_name(int op)
{
    const struct adn_op_def *def = adn_op_def(op);
    return def ? def->name : NULL;
}

int anydnn_op_by_name(const char *name)
{
    int i;
    for (i = 0; name && i < TABLE_SIZE; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i]->op;
    return 0;
}

int anydnn_op_role(int op, int index, uint32_t *flags)
{
    const struct adn_op_def *def = adn_op_def(op);
    int i;
    if (!def || index < 0) return 0;
    for (i = 0; i < index; i++)
        if (!def->roles[i].role) return 0;
    if (def->roles[index].role && flags) *flags = def->roles[index].flags;
    return def->roles[index].role;
}

static const struct {
    int role;
    const char *name;
} roles[] = {
    { ANYDNN_X, "x" }, { ANYDNN_W, "w" }, { ANYDNN_Y, "y" }, { ANYDNN_BIAS, "bias" }, { ANYDNN_DX, "dx" },
    { ANYDNN_DW, "dw" }, { ANYDNN_DY, "dy" }, { ANYDNN_DBIAS, "dbias" }, { ANYDNN_A, "a" }, { ANYDNN_B, "b" },
    { ANYDNN_DA, "da" }, { ANYDNN_DB, "db" }, { ANYDNN_INDICES, "indices" }, { ANYDNN_LABELS, "labels" },
    { ANYDNN_LOSS, "loss" }, { ANYDNN_DLOSS, "dloss" }, { ANYDNN_GAMMA, "gamma" }, { ANYDNN_SHIFT, "shift" },
    { ANYDNN_DGAMMA, "dgamma" }, { ANYDNN_DSHIFT, "dshift" }, { ANYDNN_RUNNING_MEAN, "running_mean" },
    { ANYDNN_RUNNING_VAR, "running_var" }, { ANYDNN_SAVED_MEAN, "saved_mean" },
    { ANYDNN_SAVED_INVSTD, "saved_invstd" }, { ANYDNN_PARAM, "param" }, { ANYDNN_GRAD, "grad" },
    { ANYDNN_MOMENT1, "moment1" }, { ANYDNN_MOMENT2, "moment2" }, { ANYDNN_ALPHA, "alpha" }, { ANYDNN_BETA, "beta" },
    { ANYDNN_ALPHA2, "alpha2" }, { ANYDNN_COEF, "coef" }, { ANYDNN_EPSILON, "epsilon" }, { ANYDNN_FACTOR, "factor" },
    { ANYDNN_VALUE, "value" }, { ANYDNN_RATIO, "ratio" }, { ANYDNN_SEED, "rng_seed" }, { ANYDNN_OFFSET, "rng_offset" },
    { ANYDNN_LR, "lr" }, { ANYDNN_MOMENTUM, "momentum" }, { ANYDNN_WEIGHT_DECAY, "weight_decay" },
    { ANYDNN_BETA1, "beta1" }, { ANYDNN_BETA2, "beta2" }, { ANYDNN_STEP, "step" }, { ANYDNN_SMOOTHING, "smoothing" },
    { ANYDNN_Z, "z" }, { ANYDNN_SCALES, "scales" }, { ANYDNN_X_ZERO, "x_zero" }, { ANYDNN_Y_ZERO, "y_zero" },
    { ANYDNN_PARAM_ALPHA, "param_alpha" }, { ANYDNN_PARAM_BETA, "param_beta" },
};

const char *anydnn_role_name(int role)
{
    size_t i;
    for (i = 0; i < sizeof roles / sizeof roles[0]; i++)
        if (roles[i].role == role) return roles[i].name;
    return NULL;
}

int anydnn_role_by_name(const char *name)
{
    size_t i;
    for (i = 0; name && i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(roles[i].name, name) == 0) return roles[i].role;
    return 0;
}

const char *adn_role_text(int role)
{
    const char *name = anydnn_role_name(role);
    return name ? name : "?";
}

anydnn_status adn_need_dtype(const struct adn_problem *p, int role, unsigned mask)
{
    const anydnn_tensor *t = adn_tensor(p, role);
    char accepted[64] = "";
    int dtype;
    if (!t || (mask >> t->dtype & 1u)) return ANYDNN_OK;
    for (dtype = 1; dtype <= ANYDNN_I64; dtype++)
        if (mask >> dtype & 1u) {
            if (accepted[0]) strcat(accepted, ", ");
            strcat(accepted, anydnn_dtype_name(dtype));
        }
    return adn_fail(ANYDNN_INVALID, "%s: dtype is %s; accepted by %s: %s", adn_role_text(role),
                    anydnn_dtype_name(t->dtype), p->def->name, accepted);
}

anydnn_status adn_need_same_dtype(const struct adn_problem *p, int role, int like)
{
    const anydnn_tensor *t = adn_tensor(p, role), *l = adn_tensor(p, like);
    if (!t || !l || t->dtype == l->dtype) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "%s: dtype is %s; accepted: %s, that of %s", adn_role_text(role),
                    anydnn_dtype_name(t->dtype), anydnn_dtype_name(l->dtype), adn_role_text(like));
}

anydnn_status adn_need_same_dims(const struct adn_problem *p, int role, int like)
{
    const anydnn_tensor *t = adn_tensor(p, role), *l = adn_tensor(p, like);
    char have[192], want[192];
    if (!t || !l) return ANYDNN_OK;
    if (t->ndim == l->ndim && memcmp(t->dims, l->dims, (size_t)t->ndim * sizeof t->dims[0]) == 0) return ANYDNN_OK;
    adn_dims_text(t, have, sizeof have);
    adn_dims_text(l, want, sizeof want);
    return adn_fail(ANYDNN_INVALID, "%s: dims are %s; accepted: %s, those of %s", adn_role_text(role), have, want,
                    adn_role_text(like));
}

anydnn_status adn_need_dim(const struct adn_problem *p, int role, int axis, int64_t size)
{
    const anydnn_tensor *t = adn_tensor(p, role);
    if (!t || t->dims[axis] == size) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "%s: dims[%d] is %lld; accepted: %lld", adn_role_text(role), axis,
                    (long long)t->dims[axis], (long long)size);
}

anydnn_status adn_need_ndim(const struct adn_problem *p, int role, int least, int most)
{
    const anydnn_tensor *t = adn_tensor(p, role);
    if (!t || (t->ndim >= least && t->ndim <= most)) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "%s: ndim is %d; accepted by %s: %d to %d", adn_role_text(role), t->ndim,
                    p->def->name, least, most);
}

anydnn_status adn_need_range(const char *name, int64_t value, int64_t least, int64_t most)
{
    if (value >= least && value <= most) return ANYDNN_OK;
    if (most == INT64_MAX)
        return adn_fail(ANYDNN_INVALID, "%s is %lld; accepted: %lld or more", name, (long long)value, (long long)least);
    return adn_fail(ANYDNN_INVALID, "%s is %lld; accepted: %lld to %lld", name, (long long)value, (long long)least,
                    (long long)most);
}

int adn_parameter_dtype(int data_dtype) { return data_dtype == ANYDNN_F64 ? ANYDNN_F64 : ANYDNN_F32; }

anydnn_tensor adn_packed_like(const anydnn_tensor *like, int dtype)
{
    return anydnn_tensor_packed(dtype, like->ndim, like->dims);
}

void adn_cost_per_element(const struct adn_problem *p, int role, double each, double *flops, double *depth)
{
    const anydnn_tensor *t = adn_tensor(p, role);
    *flops = t ? each * (double)anydnn_tensor_count(t) : 0.0;
    *depth = 1.0;
}

static anydnn_status check_axis(const char *name, int axis, int64_t value, int64_t least, int rank)
{
    char text[32];
    size_t length = strlen(name);
    memcpy(text, name, length);
    text[length] = '[', text[length + 1] = (char)('0' + axis), text[length + 2] = ']', text[length + 3] = 0;
    if (axis >= rank && value != 0 && value != least)
        return adn_fail(ANYDNN_INVALID, "%s is %lld, but x has %d spatial dims; accepted there: 0", text,
                        (long long)value, rank);
    return adn_need_range(text, value, least, INT64_MAX / 4);
}

anydnn_status adn_spatial_defaults(int rank, int pad_mode, int64_t *stride, int64_t *pad, int64_t *pad_end,
                                   int64_t *dilation)
{
    int i;
    ADN_TRY(adn_need_range("pad_mode", pad_mode, ANYDNN_PAD_SYMMETRIC, ANYDNN_PAD_EXPLICIT));
    for (i = 0; i < 3; i++) {
        if (stride[i] == 0) stride[i] = 1;
        if (dilation[i] == 0) dilation[i] = 1;
        ADN_TRY(check_axis("stride", i, stride[i], 1, rank));
        ADN_TRY(check_axis("dilation", i, dilation[i], 1, rank));
        ADN_TRY(check_axis("pad", i, pad[i], 0, rank));
        ADN_TRY(check_axis("pad_end", i, pad_end[i], 0, rank));
        if (pad_mode == ANYDNN_PAD_EXPLICIT) continue;
        if (pad_end[i] != 0)
            return adn_fail(ANYDNN_INVALID, "pad_end[%d] is %lld with pad_mode symmetric; accepted: 0, or pad_mode explicit",
                            i, (long long)pad_end[i]);
        pad_end[i] = pad[i];
    }
    return ANYDNN_OK;
}

int64_t adn_window_span(int64_t count, int64_t window, int64_t stride, int64_t dilation)
{
    const int64_t most = INT64_MAX / 8;
    if (count - 1 > most / stride || window - 1 > most / dilation) return INT64_MIN;
    return (count - 1) * stride + dilation * (window - 1) + 1;
}

int64_t adn_window_count(int64_t size, int64_t pads, int64_t window, int64_t stride, int64_t dilation)
{
    int64_t reach, room;
    if (window - 1 > (INT64_MAX / 4) / dilation || size > INT64_MAX / 4) return -1;
    reach = dilation * (window - 1) + 1;
    room = size + pads - reach;
    /* C division truncates: a negative room must give 0 or less, not 1. */
    return room < 0 ? -((-room + stride - 1) / stride) + 1 : room / stride + 1;
}
