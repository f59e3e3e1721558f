/* SPDX-License-Identifier: Apache-2.0
 * common/ops/pool.c: rules of pooling (formulas in anydnn/ops.h). */
#include "rules.h"

static const char *const mode_names[] = { "max", "avg_include", "avg_exclude", NULL };
static const char *const pad_mode_names[] = { "symmetric", "explicit", NULL };
static const struct adn_key_def keys[] = {
    { "mode", ADN_KEY_ENUM, offsetof(anydnn_pool, mode), mode_names },
    { "window", ADN_KEY_I64S, offsetof(anydnn_pool, window), NULL },
    { "stride", ADN_KEY_I64S, offsetof(anydnn_pool, stride), NULL },
    { "pad", ADN_KEY_I64S, offsetof(anydnn_pool, pad), NULL },
    { "pad_end", ADN_KEY_I64S, offsetof(anydnn_pool, pad_end), NULL },
    { "dilation", ADN_KEY_I64S, offsetof(anydnn_pool, dilation), NULL },
    { "ceil_mode", ADN_KEY_I32, offsetof(anydnn_pool, ceil_mode), NULL },
    { "pad_mode", ADN_KEY_ENUM, offsetof(anydnn_pool, pad_mode), pad_mode_names },
    ADN_KEYS_END
};

static anydnn_status check_window(anydnn_pool *c, int rank)
{
    int i;
    ADN_TRY(adn_need_range("mode", c->mode, ANYDNN_POOL_MAX, ANYDNN_POOL_AVG_EXCLUDE));
    ADN_TRY(adn_need_range("ceil_mode", c->ceil_mode, 0, 1));
    ADN_TRY(adn_need_range("reserved", c->reserved, 0, 0));
    ADN_TRY(adn_spatial_defaults(rank, c->pad_mode, c->stride, c->pad, c->pad_end, c->dilation));
    c->pad_mode = ANYDNN_PAD_EXPLICIT;
    for (i = 0; i < 3; i++) {
        int64_t reach;
        if (i >= rank && c->window[i] == 0) c->window[i] = 1;
        ADN_TRY(adn_need_range("window", c->window[i], 1, i < rank ? INT32_MAX : 1));
        ADN_TRY(adn_need_range("dilation", c->dilation[i], 1, INT32_MAX));
        reach = c->dilation[i] * (c->window[i] - 1) + 1;
        if (c->pad[i] >= reach || c->pad_end[i] >= reach)
            return adn_fail(ANYDNN_INVALID, "pad[%d] is %lld+%lld with a window reaching over %lld; accepted: each smaller than that",
                            i, (long long)c->pad[i], (long long)c->pad_end[i], (long long)reach);
    }
    return ANYDNN_OK;
}

/* Outputs along one axis; 0 for an empty input. */
static int64_t out_size(const anydnn_pool *c, int64_t size, int i)
{
    const int64_t pads = c->pad[i] + c->pad_end[i];
    int64_t count;
    if (size == 0) return 0;
    count = adn_window_count(size, pads, c->window[i], c->stride[i], c->dilation[i]);
    if (count < 1 || !c->ceil_mode) return count;
    /* A last window that does not fit whole counts, unless it would begin behind input and leading pad. */
    if ((size + pads - c->dilation[i] * (c->window[i] - 1) - 1) % c->stride[i] != 0 &&
        count * c->stride[i] < size + c->pad[i])
        count++;
    return count;
}

static anydnn_status check_sizes(const struct adn_problem *p, const anydnn_tensor *x, int x_role)
{
    const anydnn_pool *c = &p->desc.pool;
    int i;
    for (i = 0; i < x->ndim - 2; i++)
        if (x->dims[i + 2] > 0 && out_size(c, x->dims[i + 2], i) < 1)
            return adn_fail(ANYDNN_INVALID,
                            "window[%d] is %lld (dilation %lld), but %s with its pads is %lld there; accepted: up to that",
                            i, (long long)c->window[i], (long long)c->dilation[i], adn_role_text(x_role),
                            (long long)(x->dims[i + 2] + c->pad[i] + c->pad_end[i]));
    return ANYDNN_OK;
}

static anydnn_tensor out_tensor(const struct adn_problem *p, const anydnn_tensor *x, int dtype)
{
    anydnn_tensor y = *x;
    int i;
    for (i = 0; i < x->ndim - 2; i++) y.dims[i + 2] = out_size(&p->desc.pool, x->dims[i + 2], i);
    return anydnn_tensor_packed(dtype, y.ndim, y.dims);
}

static anydnn_status check_indices(const struct adn_problem *p, const anydnn_tensor *x)
{
    int64_t plane = 1;
    int i;
    if (!adn_tensor(p, ANYDNN_INDICES)) return ANYDNN_OK;
    if (p->desc.pool.mode != ANYDNN_POOL_MAX)
        return adn_fail(ANYDNN_INVALID, "indices is bound with mode %s; accepted: mode max",
                        mode_names[p->desc.pool.mode]);
    ADN_TRY(adn_need_dtype(p, ANYDNN_INDICES, 1u << ANYDNN_I32));
    for (i = 2; x && i < x->ndim; i++) {
        if (x->dims[i] && plane > INT32_MAX / x->dims[i])
            return adn_fail(ANYDNN_INVALID, "indices (i32) cannot number a plane of x; accepted: planes below 2^31 elements");
        plane *= x->dims[i];
    }
    return ANYDNN_OK;
}

static anydnn_status check_forward(struct adn_problem *p)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X);
    ADN_TRY(adn_need_ndim(p, ANYDNN_X, 3, 5));
    ADN_TRY(adn_need_dtype(p, ANYDNN_X, ADN_FLOATS));
    ADN_TRY(check_window(&p->desc.pool, x->ndim - 2));
    ADN_TRY(check_sizes(p, x, ANYDNN_X));
    return check_indices(p, x);
}

static anydnn_status infer_forward(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *x = adn_tensor(p, ANYDNN_X);
    *out = out_tensor(p, x, role == ANYDNN_INDICES ? ANYDNN_I32 : x->dtype);
    return ANYDNN_OK;
}

static anydnn_status check_against(const struct adn_problem *p, const anydnn_tensor *x, int x_role)
{
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY);
    anydnn_tensor y;
    int i;
    ADN_TRY(adn_need_ndim(p, x_role, dy->ndim, dy->ndim));
    ADN_TRY(adn_need_same_dtype(p, x_role, ANYDNN_DY));
    ADN_TRY(check_sizes(p, x, x_role));
    y = out_tensor(p, x, x->dtype);
    for (i = 0; i < dy->ndim; i++) ADN_TRY(adn_need_dim(p, ANYDNN_DY, i, y.dims[i]));
    return ANYDNN_OK;
}

static anydnn_status check_backward(struct adn_problem *p)
{
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY), *x = adn_tensor(p, ANYDNN_X), *dx = adn_tensor(p, ANYDNN_DX);
    ADN_TRY(adn_need_ndim(p, ANYDNN_DY, 3, 5));
    ADN_TRY(adn_need_dtype(p, ANYDNN_DY, ADN_FLOATS));
    ADN_TRY(check_window(&p->desc.pool, dy->ndim - 2));
    ADN_TRY(check_indices(p, x ? x : dx));
    ADN_TRY(adn_need_same_dims(p, ANYDNN_INDICES, ANYDNN_DY));
    if (p->desc.pool.mode == ANYDNN_POOL_MAX && !x && !adn_tensor(p, ANYDNN_INDICES))
        return adn_fail(ANYDNN_INVALID, "x is not bound; accepted by pool_backward with mode max: x or indices bound");
    if (x) ADN_TRY(check_against(p, x, ANYDNN_X));
    if (dx) ADN_TRY(check_against(p, dx, ANYDNN_DX));
    return adn_need_same_dims(p, ANYDNN_DX, ANYDNN_X);
}

static anydnn_status infer_backward(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_tensor *dy = adn_tensor(p, ANYDNN_DY), *x = adn_tensor(p, ANYDNN_X), *dx = adn_tensor(p, role);
    const anydnn_pool *c = &p->desc.pool;
    anydnn_tensor t = *dy;
    int i;
    if (x || dx) {
        *out = adn_packed_like(x ? x : dx, dy->dtype);
        return ANYDNN_OK;
    }
    for (i = 0; i < dy->ndim - 2; i++) {
        const int64_t span = adn_window_span(dy->dims[i + 2], c->window[i], c->stride[i], c->dilation[i]);
        if (span == INT64_MIN)
            return adn_fail(ANYDNN_INVALID,
                            "dy: dims[%d] is %lld, and its windows reach too far; accepted: below 2^60 in all, or dx bound",
                            i + 2, (long long)dy->dims[i + 2]);
        t.dims[i + 2] = span - c->pad[i] - c->pad_end[i];
        if (t.dims[i + 2] < 1) t.dims[i + 2] = 1;
        if (dy->dims[i + 2] == 0) t.dims[i + 2] = 0;
    }
    *out = anydnn_tensor_packed(dy->dtype, t.ndim, t.dims);
    return ANYDNN_OK;
}

static void cost(const struct adn_problem *p, double *flops, double *depth)
{
    const anydnn_pool *c = &p->desc.pool;
    const double cells = (double)c->window[0] * (double)c->window[1] * (double)c->window[2];
    adn_cost_per_element(p, adn_slot(p, ANYDNN_Y) >= 0 ? ANYDNN_Y : ANYDNN_DY, cells, flops, depth);
    *depth = cells;
}

static const struct adn_role_def forward_roles[] = {
    ADN_ROLE(X, ADN_IN), ADN_ROLE(Y, ADN_OUT | ADN_SCALED), ADN_ROLE(INDICES, ADN_OUT | ADN_OPT),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
static const struct adn_role_def backward_roles[] = {
    ADN_ROLE(DY, ADN_IN), ADN_ROLE(X, ADN_IN | ADN_OPT), ADN_ROLE(INDICES, ADN_IN | ADN_OPT),
    ADN_ROLE(DX, ADN_OUT | ADN_SCALED), ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_pool_forward = { ANYDNN_OP_POOL_FORWARD, "pool_forward", sizeof(anydnn_pool),
                                                forward_roles, keys, check_forward, infer_forward, cost };
const struct adn_op_def adn_op_pool_backward = { ANYDNN_OP_POOL_BACKWARD, "pool_backward", sizeof(anydnn_pool),
                                                 backward_roles, keys, check_backward, infer_backward, cost };
