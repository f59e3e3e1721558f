/* SPDX-License-Identifier: Apache-2.0
 * common/ops/conv.c: rules of convolution (formulas in anydnn/ops.h). */
#include "rules.h"

static const char *const mode_names[] = { "cross_correlation", "convolution", NULL };
static const char *const pad_mode_names[] = { "symmetric", "explicit", NULL };
static const char *const activation_names[] = { "identity", "relu", "leaky_relu", "clipped_relu", "sigmoid", "tanh", NULL };
static const struct adn_key_def keys[] = {
    { "stride", ADN_KEY_I64S, offsetof(anydnn_conv, stride), NULL },
    { "pad", ADN_KEY_I64S, offsetof(anydnn_conv, pad), NULL },
    { "pad_end", ADN_KEY_I64S, offsetof(anydnn_conv, pad_end), NULL },
    { "dilation", ADN_KEY_I64S, offsetof(anydnn_conv, dilation), NULL },
    { "groups", ADN_KEY_I64, offsetof(anydnn_conv, groups), NULL },
    { "mode", ADN_KEY_ENUM, offsetof(anydnn_conv, mode), mode_names },
    { "pad_mode", ADN_KEY_ENUM, offsetof(anydnn_conv, pad_mode), pad_mode_names },
    { "activation", ADN_KEY_ENUM, offsetof(anydnn_conv, activation), activation_names },
    ADN_KEYS_END
};

/* x, w and y stand for the tensors or their gradients. Any may be NULL. */
struct sides {
    int x_role, w_role, y_role;
    const anydnn_tensor *x, *w, *y;
};

static struct sides sides_of(const struct adn_problem *p)
{
    struct sides s;
    s.x_role = adn_slot(p, ANYDNN_X) >= 0 ? ANYDNN_X : ANYDNN_DX;
    s.w_role = adn_slot(p, ANYDNN_W) >= 0 ? ANYDNN_W : ANYDNN_DW;
    s.y_role = adn_slot(p, ANYDNN_Y) >= 0 ? ANYDNN_Y : ANYDNN_DY;
    s.x = adn_tensor(p, s.x_role);
    s.w = adn_tensor(p, s.w_role);
    s.y = adn_tensor(p, s.y_role);
    return s;
}

/* Size of y along spatial axis i from x and w. */
static int64_t out_size(const anydnn_conv *c, const struct sides *s, int i)
{
    return adn_window_count(s->x->dims[i + 2], c->pad[i] + c->pad_end[i], s->w->dims[i + 2], c->stride[i], c->dilation[i]);
}

static anydnn_status check_out(const anydnn_conv *c, const struct sides *s)
{
    int i;
    for (i = 0; i < s->x->ndim - 2; i++) {
        int64_t size = out_size(c, s, i);
        if (s->x->dims[i + 2] == 0 || s->w->dims[i + 2] == 0) continue;
        if (size < 1)
            return adn_fail(ANYDNN_INVALID,
                            "spatial axis %d: input %lld with pads %lld+%lld is smaller than the filter's reach "
                            "%lld*(%lld-1)+1; accepted: at least its reach",
                            i, (long long)s->x->dims[i + 2], (long long)c->pad[i], (long long)c->pad_end[i],
                            (long long)c->dilation[i], (long long)s->w->dims[i + 2]);
        if (s->y && s->y->dims[i + 2] != size)
            return adn_fail(ANYDNN_INVALID, "%s: dims[%d] is %lld; accepted: %lld", adn_role_text(s->y_role), i + 2,
                            (long long)s->y->dims[i + 2], (long long)size);
    }
    return ANYDNN_OK;
}

static anydnn_status check_channels(const struct adn_problem *p, const struct sides *s, int64_t groups)
{
    if (s->x && s->x->dims[1] % groups)
        return adn_fail(ANYDNN_INVALID, "groups is %lld; accepted: a divisor of %s's %lld channels", (long long)groups,
                        adn_role_text(s->x_role), (long long)s->x->dims[1]);
    if (s->w && s->w->dims[0] % groups)
        return adn_fail(ANYDNN_INVALID, "groups is %lld; accepted: a divisor of %s's %lld filters", (long long)groups,
                        adn_role_text(s->w_role), (long long)s->w->dims[0]);
    if (s->y && s->y->dims[1] % groups)
        return adn_fail(ANYDNN_INVALID, "groups is %lld; accepted: a divisor of %s's %lld channels", (long long)groups,
                        adn_role_text(s->y_role), (long long)s->y->dims[1]);
    if (s->w && s->w->dims[1] > INT64_MAX / groups)
        return adn_fail(ANYDNN_INVALID, "groups is %lld with %s: dims[1] %lld; accepted: a product below 2^63",
                        (long long)groups, adn_role_text(s->w_role), (long long)s->w->dims[1]);
    if (s->x && s->w) ADN_TRY(adn_need_dim(p, s->w_role, 1, s->x->dims[1] / groups));
    if (s->y && s->w) ADN_TRY(adn_need_dim(p, s->y_role, 1, s->w->dims[0]));
    if (s->y && s->x) ADN_TRY(adn_need_dim(p, s->y_role, 0, s->x->dims[0]));
    return ANYDNN_OK;
}

/* x decides: with integers w is i8 and y one of four; else all are alike. */
static anydnn_status check_dtypes(const struct adn_problem *p, const struct sides *s)
{
    const int first = s->x ? s->x_role : s->y_role;
    const bool forward = p->def->op == ANYDNN_OP_CONV_FORWARD;
    ADN_TRY(adn_need_dtype(p, first, ADN_FLOATS | (forward ? ADN_BYTES : 0u)));
    if (!adn_is_byte(adn_tensor(p, first)->dtype)) {
        ADN_TRY(adn_need_same_dtype(p, s->w_role, first));
        return adn_need_same_dtype(p, s->y_role, first);
    }
    ADN_TRY(adn_need_dtype(p, s->w_role, 1u << ANYDNN_I8));
    return adn_need_dtype(p, s->y_role, ADN_BYTES | 1u << ANYDNN_F32 | 1u << ANYDNN_I32);
}

static anydnn_status check(struct adn_problem *p)
{
    anydnn_conv *c = &p->desc.conv;
    const struct sides s = sides_of(p);
    const anydnn_tensor *first = s.x ? s.x : s.y;
    const int ndim = first->ndim;
    if (c->groups == 0) c->groups = 1;
    ADN_TRY(adn_need_range("groups", c->groups, 1, INT64_MAX));
    ADN_TRY(adn_need_range("mode", c->mode, 0, 1));
    ADN_TRY(adn_need_ndim(p, s.x ? s.x_role : s.y_role, 3, 5));
    ADN_TRY(adn_need_ndim(p, s.w_role, ndim, ndim));
    ADN_TRY(adn_need_ndim(p, s.y_role, ndim, ndim));
    ADN_TRY(adn_need_ndim(p, s.x_role, ndim, ndim));
    ADN_TRY(adn_spatial_defaults(ndim - 2, c->pad_mode, c->stride, c->pad, c->pad_end, c->dilation));
    c->pad_mode = ANYDNN_PAD_EXPLICIT;
    ADN_TRY(adn_need_range("activation", c->activation, ANYDNN_CONV_IDENTITY,
                           p->def->op == ANYDNN_OP_CONV_BACKWARD_FILTER ? ANYDNN_CONV_IDENTITY : ANYDNN_CONV_TANH));
    ADN_TRY(adn_need_range("reserved", c->reserved, 0, 0));
    ADN_TRY(check_dtypes(p, &s));
    ADN_TRY(check_channels(p, &s, c->groups));
    if (s.x && s.w) ADN_TRY(check_out(c, &s));
    return ANYDNN_OK;
}

static anydnn_status too_far(int axis, int role, int64_t size)
{
    return adn_fail(ANYDNN_INVALID,
                    "spatial axis %d: %s of %lld with these strides and dilations reaches too far; accepted: below 2^60 "
                    "in all",
                    axis, adn_role_text(role), (long long)size);
}

/* Smallest input that gives y, and the filter that uses the whole input. */
static anydnn_status least_input(const anydnn_conv *c, const struct sides *s, int i, int64_t *size)
{
    const int64_t span = adn_window_span(s->y->dims[i + 2], s->w->dims[i + 2], c->stride[i], c->dilation[i]);
    *size = 0;
    if (s->y->dims[i + 2] == 0) return ANYDNN_OK;
    if (span == INT64_MIN) return too_far(i, s->y_role, s->y->dims[i + 2]);
    *size = span - c->pad[i] - c->pad_end[i];
    if (*size > 0 || anydnn_tensor_count(s->y) == 0) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID,
                    "spatial axis %d: %s of %lld with pads %lld+%lld comes from an input of %lld; accepted: pads that leave 1 "
                    "or more, or a bound %s",
                    i, adn_role_text(s->y_role), (long long)s->y->dims[i + 2], (long long)c->pad[i],
                    (long long)c->pad_end[i], (long long)*size, adn_role_text(s->x_role));
}

static anydnn_status whole_filter(const anydnn_conv *c, const struct sides *s, int i, int64_t *size)
{
    const int64_t span = adn_window_span(s->y->dims[i + 2], 1, c->stride[i], 1);
    int64_t room;
    if (span == INT64_MIN) return too_far(i, s->y_role, s->y->dims[i + 2]);
    if (s->x->dims[i + 2] > INT64_MAX / 8) return too_far(i, s->x_role, s->x->dims[i + 2]);
    room = s->x->dims[i + 2] + c->pad[i] + c->pad_end[i] - span;
    *size = room < 0 ? 1 : room / c->dilation[i] + 1;
    return ANYDNN_OK;
}

static anydnn_status infer(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_conv *c = &p->desc.conv;
    const struct sides s = sides_of(p);
    const anydnn_tensor *bound = adn_tensor(p, role);
    int64_t dims[ANYDNN_MAX_DIMS];
    int ndim = s.y ? s.y->ndim : s.x->ndim, i;
    if (bound && (role == s.x_role || role == s.w_role)) {
        *out = *bound; /* check() has compared it with the others */
        return ANYDNN_OK;
    }
    dims[0] = role == s.w_role ? s.y->dims[1] : role == s.x_role ? s.y->dims[0] : s.x->dims[0];
    dims[1] = role == s.w_role ? s.x->dims[1] / c->groups : role == s.x_role ? s.w->dims[1] * c->groups : s.w->dims[0];
    for (i = 0; i < ndim - 2; i++) {
        if (role == s.x_role) ADN_TRY(least_input(c, &s, i, &dims[i + 2]));
        else if (role == s.w_role) ADN_TRY(whole_filter(c, &s, i, &dims[i + 2]));
        else dims[i + 2] = s.x->dims[i + 2] == 0 || s.w->dims[i + 2] == 0 ? 0 : out_size(c, &s, i);
    }
    *out = anydnn_tensor_packed(s.x ? s.x->dtype : s.y->dtype, ndim, dims);
    if (adn_is_byte(out->dtype)) out->dtype = bound ? bound->dtype : ANYDNN_F32;
    return ANYDNN_OK;
}

static void cost(const struct adn_problem *p, double *flops, double *depth)
{
    struct adn_conv_geometry g;
    double taps, outputs;
    adn_conv_geometry(p, &g);
    taps = (double)g.filter[0] * (double)g.filter[1] * (double)g.filter[2];
    outputs = (double)g.n * (double)g.out[0] * (double)g.out[1] * (double)g.out[2];
    *flops = 2.0 * outputs * (double)g.k * ((double)g.c / (double)g.groups) * taps;
    *depth = p->def->op == ANYDNN_OP_CONV_FORWARD         ? taps * (double)g.c / (double)g.groups
             : p->def->op == ANYDNN_OP_CONV_BACKWARD_DATA ? taps * (double)g.k / (double)g.groups
                                                          : outputs;
}

/* A role with one number for each channel of the output: [1, channels, 1, ...]. */
static anydnn_status check_per_channel(const struct adn_problem *p, int role, int64_t channels)
{
    const anydnn_tensor *t = adn_tensor(p, role);
    int i;
    ADN_TRY(adn_need_ndim(p, role, p->operand[0].t.ndim, p->operand[0].t.ndim));
    for (i = 0; i < t->ndim; i++) ADN_TRY(adn_need_dim(p, role, i, i == 1 ? channels : 1));
    return ANYDNN_OK;
}

/* z has the dims of the output, which may be missing yet, and its dtype. */
static anydnn_status check_residual(const struct adn_problem *p, int out_role)
{
    const anydnn_tensor *z = adn_tensor(p, ANYDNN_Z);
    anydnn_tensor out;
    int i;
    if (!z) return ANYDNN_OK;
    ADN_TRY(infer(p, out_role, &out));
    ADN_TRY(adn_need_ndim(p, ANYDNN_Z, out.ndim, out.ndim));
    for (i = 0; i < out.ndim; i++) ADN_TRY(adn_need_dim(p, ANYDNN_Z, i, out.dims[i]));
    return adn_need_dtype(p, ANYDNN_Z, 1u << out.dtype);
}

/* y i32 holds the exact sums: nothing that is computed in f32 may come between. */
static anydnn_status check_sums(const struct adn_problem *p)
{
    static const int roles[] = { ANYDNN_Z, ANYDNN_SCALES };
    int i;
    for (i = 0; i < 2; i++)
        if (adn_tensor(p, roles[i]))
            return adn_fail(ANYDNN_INVALID, "%s: bound with y i32; accepted: not bound, or y i8, u8 or f32",
                            adn_role_text(roles[i]));
    ADN_TRY(adn_need_range("activation", p->desc.conv.activation, ANYDNN_CONV_IDENTITY, ANYDNN_CONV_IDENTITY));
    return adn_need_dtype(p, ANYDNN_BIAS, 1u << ANYDNN_I32);
}

static anydnn_status check_integers(const struct adn_problem *p)
{
    const anydnn_tensor *y = adn_tensor(p, ANYDNN_Y), *scales = adn_tensor(p, ANYDNN_SCALES);
    ADN_TRY(adn_need_dtype(p, ANYDNN_BIAS, 1u << ANYDNN_I32 | 1u << ANYDNN_F32));
    ADN_TRY(adn_need_dtype(p, ANYDNN_SCALES, 1u << ANYDNN_F32));
    if (scales)
        ADN_TRY(check_per_channel(p, ANYDNN_SCALES, scales->ndim > 1 && scales->dims[1] == 1 ? 1 : p->operand[1].t.dims[0]));
    if (p->desc.conv.activation > ANYDNN_CONV_CLIPPED_RELU)
        return adn_fail(ANYDNN_INVALID, "activation is %s with integer x; accepted: identity, relu, leaky_relu, clipped_relu",
                        activation_names[p->desc.conv.activation]);
    return y && y->dtype == ANYDNN_I32 ? check_sums(p) : ANYDNN_OK;
}

/* The default of coef depends on the activation. */
static void default_coef(struct adn_problem *p)
{
    struct adn_operand *coef = &p->operand[adn_slot(p, ANYDNN_COEF)];
    coef->otherwise = p->desc.conv.activation == ANYDNN_CONV_CLIPPED_RELU ? 6.0 : 0.01;
    if (!coef->present) coef->value = coef->otherwise;
}

static anydnn_status check_forward(struct adn_problem *p)
{
    ADN_TRY(check(p));
    default_coef(p);
    ADN_TRY(check_residual(p, ANYDNN_Y));
    if (adn_tensor(p, ANYDNN_BIAS)) ADN_TRY(check_per_channel(p, ANYDNN_BIAS, p->operand[1].t.dims[0]));
    if (adn_is_byte(p->operand[0].t.dtype)) return check_integers(p);
    if (adn_tensor(p, ANYDNN_SCALES))
        return adn_fail(ANYDNN_INVALID, "scales: bound with x %s; accepted: not bound, or x i8 or u8",
                        anydnn_dtype_name(p->operand[0].t.dtype));
    return adn_need_same_dtype(p, ANYDNN_BIAS, ANYDNN_X);
}

static anydnn_status check_data(struct adn_problem *p)
{
    ADN_TRY(check(p));
    default_coef(p);
    ADN_TRY(check_residual(p, ANYDNN_DX));
    if (adn_tensor(p, ANYDNN_BIAS))
        ADN_TRY(check_per_channel(p, ANYDNN_BIAS, p->operand[1].t.dims[1] * p->desc.conv.groups));
    return adn_need_same_dtype(p, ANYDNN_BIAS, ANYDNN_DY);
}

static anydnn_status check_zero(const char *name, double value, int dtype)
{
    const double low = dtype == ANYDNN_I8 ? -128 : 0, high = dtype == ANYDNN_I8 ? 127 : dtype == ANYDNN_U8 ? 255 : 0;
    if (value >= low && value <= high && value == (double)(int64_t)value) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "%s is %g for a tensor of %s; accepted: whole numbers from %g to %g", name, value,
                    anydnn_dtype_name(dtype), low, high);
}

static anydnn_status check_forward_values(const struct adn_problem *p, const double *scalar)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X), *y = adn_tensor(p, ANYDNN_Y);
    const double alpha = scalar[adn_slot(p, ANYDNN_ALPHA)], beta = scalar[adn_slot(p, ANYDNN_BETA)];
    ADN_TRY(check_zero("x_zero", scalar[adn_slot(p, ANYDNN_X_ZERO)], x->dtype));
    if (y) ADN_TRY(check_zero("y_zero", scalar[adn_slot(p, ANYDNN_Y_ZERO)], y->dtype));
    if (!y || y->dtype != ANYDNN_I32 || (alpha == 1.0 && beta == 0.0)) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "alpha is %g and beta %g with y i32; accepted: 1 and 0", alpha, beta);
}

static const struct adn_role_def forward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(W, ADN_IN), ADN_ROLE(BIAS, ADN_IN | ADN_OPT), ADN_ROLE(Z, ADN_IN | ADN_OPT),
    ADN_ROLE(SCALES, ADN_IN | ADN_OPT), ADN_ROLE_INPLACE(Y, ADN_OUT | ADN_SCALED, ANYDNN_Z, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_SCALAR(ALPHA2, 1.0), ADN_SCALAR(COEF, 0.01),
    ADN_SCALAR(X_ZERO, 0.0), ADN_SCALAR(Y_ZERO, 0.0), ADN_ROLES_END
};
static const struct adn_role_def data_roles[] = {
    ADN_ROLE(DY, ADN_IN), ADN_ROLE(W, ADN_IN), ADN_ROLE(BIAS, ADN_IN | ADN_OPT), ADN_ROLE(Z, ADN_IN | ADN_OPT),
    ADN_ROLE_INPLACE(DX, ADN_OUT | ADN_SCALED, ANYDNN_Z, 0),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_SCALAR(ALPHA2, 1.0), ADN_SCALAR(COEF, 0.01), ADN_ROLES_END
};
static const struct adn_role_def filter_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(DY, ADN_IN), ADN_ROLE(DW, ADN_OUT | ADN_SCALED),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
static const struct adn_role_def bias_roles[] = {
    ADN_ROLE(DY, ADN_IN), ADN_ROLE(DBIAS, ADN_OUT | ADN_SCALED), ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0),
    ADN_ROLES_END
};

const struct adn_op_def adn_op_conv_forward = { ANYDNN_OP_CONV_FORWARD, "conv_forward", sizeof(anydnn_conv),
                                                forward_roles, keys, check_forward, infer, cost,
                                                check_forward_values };
const struct adn_op_def adn_op_conv_backward_data = { ANYDNN_OP_CONV_BACKWARD_DATA, "conv_backward_data",
                                                      sizeof(anydnn_conv), data_roles, keys, check_data, infer, cost };
const struct adn_op_def adn_op_conv_backward_filter = { ANYDNN_OP_CONV_BACKWARD_FILTER, "conv_backward_filter",
                                                        sizeof(anydnn_conv), filter_roles, keys, check, infer, cost };

/* The bias gradient knows dy alone; the struct's other members play no part and are put to their defaults. */
static anydnn_status check_bias(struct adn_problem *p)
{
    anydnn_conv *c = &p->desc.conv;
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY);
    ADN_TRY(adn_need_ndim(p, ANYDNN_DY, 3, 5));
    ADN_TRY(adn_need_dtype(p, ANYDNN_DY, ADN_FLOATS));
    if (c->groups == 0) c->groups = 1;
    ADN_TRY(adn_need_range("groups", c->groups, 1, INT64_MAX));
    ADN_TRY(adn_need_range("mode", c->mode, 0, 1));
    ADN_TRY(adn_need_range("reserved", c->reserved, 0, 0));
    ADN_TRY(adn_spatial_defaults(dy->ndim - 2, c->pad_mode, c->stride, c->pad, c->pad_end, c->dilation));
    memset(c->pad, 0, sizeof c->pad);
    memset(c->pad_end, 0, sizeof c->pad_end);
    c->stride[0] = c->stride[1] = c->stride[2] = c->dilation[0] = c->dilation[1] = c->dilation[2] = c->groups = 1;
    c->mode = c->activation = c->reserved = 0;
    c->pad_mode = ANYDNN_PAD_EXPLICIT;
    return ANYDNN_OK;
}

static anydnn_status infer_bias(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY);
    int64_t dims[ANYDNN_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    (void)role;
    dims[1] = dy->dims[1];
    *out = anydnn_tensor_packed(dy->dtype, dy->ndim, dims);
    return ANYDNN_OK;
}

static void cost_bias(const struct adn_problem *p, double *flops, double *depth)
{
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY);
    adn_cost_per_element(p, ANYDNN_DY, 1.0, flops, depth);
    *depth = dy->dims[1] ? *flops / (double)dy->dims[1] : 1.0;
}

const struct adn_op_def adn_op_conv_backward_bias = { ANYDNN_OP_CONV_BACKWARD_BIAS, "conv_backward_bias",
                                                      sizeof(anydnn_conv), bias_roles, keys, check_bias, infer_bias,
                                                      cost_bias };
