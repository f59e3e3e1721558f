/* SPDX-License-Identifier: Apache-2.0
 * tests/support/expect.c: see expect.h. One function for each operation, in the order of ops.h. */
#include "expect.h"

#include <math.h>
#include <stddef.h>

static const struct periodic *operand(const struct expectation *e, int role)
{
    int i;
    for (i = 0; i < e->operands; i++)
        if (e->operand[i].role == role) return &e->operand[i];
    return NULL;
}

static double scalar(const struct expectation *e, int role, double unbound)
{
    int i;
    for (i = 0; i < e->scalars; i++)
        if (e->scalar[i].role == role) return e->scalar[i].value;
    return unbound;
}

double expect_content(const struct periodic *p, int64_t offset)
{
    return offset == p->plant ? EXPECT_PLANTED : p->table[offset % p->period];
}

/* The element at coordinates; a dim of 1 is broadcast. */
static int64_t place(const anydnn_tensor *t, const int64_t *at)
{
    int64_t offset = 0;
    int i;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] > 1) offset += at[i] * t->strides[i];
    return offset;
}

static double content(const struct expectation *e, int role, const int64_t *at)
{
    const struct periodic *p = operand(e, role);
    return expect_content(p, place(&p->tensor, at));
}

bool expect_coordinates(const anydnn_tensor *t, int64_t offset, int64_t at[ANYDNN_MAX_DIMS])
{
    bool done[ANYDNN_MAX_DIMS] = { false };
    int i, k;
    for (k = 0; k < t->ndim; k++) {
        int widest = -1;
        for (i = 0; i < t->ndim; i++)
            if (!done[i] && t->dims[i] > 1 && (widest < 0 || t->strides[i] > t->strides[widest])) widest = i;
        if (widest < 0) break;
        done[widest] = true;
        at[widest] = offset / t->strides[widest];
        offset %= t->strides[widest];
        if (at[widest] >= t->dims[widest]) return false;
    }
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] <= 1) at[i] = 0;
    return offset == 0;
}

/* Digits of n in mixed radix, the last one fastest. */
static void digits(int64_t n, const int64_t *sizes, int count, int64_t *digit)
{
    int i;
    for (i = count - 1; i >= 0; n /= sizes[i], i--) digit[i] = n % sizes[i];
}

static int64_t product(const int64_t *sizes, int count)
{
    int64_t n = 1;
    int i;
    for (i = 0; i < count; i++) n *= sizes[i];
    return n;
}

/* One operand of a dot product: elements from `start` on, `step` apart. */
struct row {
    const struct periodic *p;
    int64_t start, step;
};

static double dot(struct row a, double a_zero, struct row b, int64_t n)
{
    int64_t i = a.start % a.p->period, j = b.start % b.p->period, k;
    const int64_t a_step = a.step % a.p->period, b_step = b.step % b.p->period;
    double sum = 0;
    for (k = 0; k < n; k++) {
        sum += (a.p->table[i] - a_zero) * b.p->table[j];
        i += a_step, j += b_step;
        if (i >= a.p->period) i -= a.p->period;
        if (j >= b.p->period) j -= b.p->period;
    }
    return sum;
}

static int64_t or_one(int64_t value)
{
    return value ? value : 1;
}

/* Where the filter's place `tap` of output place `at` lies in x, behind `offset`; false: in the padding. */
static bool tap_place(const anydnn_conv *op, const anydnn_tensor *x, const int64_t *tap, const int64_t *at,
                      int64_t *offset)
{
    int a;
    for (a = 0; a < x->ndim - 2; a++) {
        const int64_t place = at[2 + a] * or_one(op->stride[a]) - op->pad[a] + tap[a] * or_one(op->dilation[a]);
        if (place < 0 || place >= x->dims[2 + a]) return false;
        *offset += place * x->strides[2 + a];
    }
    return true;
}

static double conv_forward(const struct expectation *e, const int64_t *at)
{
    const anydnn_conv *op = (const anydnn_conv *)e->op;
    const struct periodic *x = operand(e, ANYDNN_X), *w = operand(e, ANYDNN_W);
    const anydnn_tensor *xt = &x->tensor, *wt = &w->tensor;
    const int spatial = xt->ndim - 2;
    const int64_t channels = wt->dims[1], group = at[1] / (wt->dims[0] / or_one(op->groups)),
                  taps = product(wt->dims + 2, spatial);
    const double zero = scalar(e, ANYDNN_X_ZERO, 0);
    int64_t n, tap[3];
    double sum = 0;
    for (n = 0; n < taps; n++) {
        struct row a = { x, at[0] * xt->strides[0] + group * channels * xt->strides[1], xt->strides[1] };
        struct row b = { w, at[1] * wt->strides[0], wt->strides[1] };
        int i;
        digits(n, wt->dims + 2, spatial, tap);
        if (!tap_place(op, xt, tap, at, &a.start)) continue;
        for (i = 0; i < spatial; i++) b.start += tap[i] * wt->strides[2 + i];
        sum += dot(a, zero, b, channels);
    }
    return scalar(e, ANYDNN_ALPHA, 1) * sum;
}

static double conv_backward_data(const struct expectation *e, const int64_t *at)
{
    const anydnn_conv *op = (const anydnn_conv *)e->op;
    const struct periodic *dy = operand(e, ANYDNN_DY), *w = operand(e, ANYDNN_W);
    const anydnn_tensor *yt = &dy->tensor, *wt = &w->tensor;
    const int spatial = yt->ndim - 2;
    const int64_t group = at[1] / wt->dims[1], filters = wt->dims[0] / or_one(op->groups),
                  taps = product(wt->dims + 2, spatial);
    int64_t n, tap[3];
    double sum = 0;
    for (n = 0; n < taps; n++) {
        struct row a = { dy, at[0] * yt->strides[0] + group * filters * yt->strides[1], yt->strides[1] };
        struct row b = { w, group * filters * wt->strides[0] + at[1] % wt->dims[1] * wt->strides[1], wt->strides[0] };
        bool inside = true;
        int i;
        digits(n, wt->dims + 2, spatial, tap);
        for (i = 0; i < spatial && inside; i++) {
            const int64_t stride = or_one(op->stride[i]),
                          step = at[2 + i] + op->pad[i] - tap[i] * or_one(op->dilation[i]);
            inside = step >= 0 && step % stride == 0 && step / stride < yt->dims[2 + i];
            a.start += step / stride * yt->strides[2 + i];
            b.start += tap[i] * wt->strides[2 + i];
        }
        if (inside) sum += dot(a, 0, b, filters);
    }
    return scalar(e, ANYDNN_ALPHA, 1) * sum;
}

static double conv_backward_filter(const struct expectation *e, const int64_t *at)
{
    const anydnn_conv *op = (const anydnn_conv *)e->op;
    const struct periodic *x = operand(e, ANYDNN_X), *dy = operand(e, ANYDNN_DY);
    const anydnn_tensor *xt = &x->tensor, *yt = &dy->tensor;
    const int last = xt->ndim - 1, inner = last - 2;
    const int64_t filters = yt->dims[1] / or_one(op->groups), channels = xt->dims[1] / or_one(op->groups),
                  channel = at[0] / filters * channels + at[1], stride = or_one(op->stride[inner]),
                  shift = at[last] * or_one(op->dilation[inner]) - op->pad[inner];
    int64_t y_at[ANYDNN_MAX_DIMS], sizes[ANYDNN_MAX_DIMS], n, first = 0, end = yt->dims[last];
    double sum = 0;
    int i;
    while (first < end && first * stride + shift < 0) first++;
    while (end > first && (end - 1) * stride + shift >= xt->dims[last]) end--;
    for (i = 0; i < last; i++) sizes[i] = i == 1 ? 1 : yt->dims[i];
    for (n = 0; n < product(sizes, last); n++) {
        struct row a = { x, 0, stride * xt->strides[last] }, b = { dy, 0, yt->strides[last] };
        digits(n, sizes, last, y_at);
        y_at[1] = at[0];
        y_at[last] = first;
        a.start = y_at[0] * xt->strides[0] + channel * xt->strides[1];
        b.start = place(yt, y_at);
        if (first < end && tap_place(op, xt, at + 2, y_at, &a.start)) sum += dot(a, 0, b, end - first);
    }
    return scalar(e, ANYDNN_ALPHA, 1) * sum;
}

static double matmul(const struct expectation *e, const int64_t *at)
{
    const anydnn_matmul *op = (const anydnn_matmul *)e->op;
    const struct periodic *a = operand(e, ANYDNN_A), *b = operand(e, ANYDNN_B);
    const int n = a->tensor.ndim - 1, a_k = op->trans_a ? n - 1 : n, b_k = op->trans_b ? n : n - 1;
    int64_t a_at[ANYDNN_MAX_DIMS] = { 0 }, b_at[ANYDNN_MAX_DIMS] = { 0 };
    struct row left = { a, 0, a->tensor.strides[a_k] }, right = { b, 0, b->tensor.strides[b_k] };
    int i;
    for (i = 0; i < n - 1; i++) a_at[i] = b_at[i] = at[i];
    a_at[op->trans_a ? n : n - 1] = at[n - 1];
    b_at[op->trans_b ? n - 1 : n] = at[n];
    left.start = place(&a->tensor, a_at);
    right.start = place(&b->tensor, b_at);
    return scalar(e, ANYDNN_ALPHA, 1) * dot(left, 0, right, a->tensor.dims[a_k]);
}

static double pool_forward(const struct expectation *e, const int64_t *at)
{
    const anydnn_pool *op = (const anydnn_pool *)e->op;
    const struct periodic *x = operand(e, ANYDNN_X);
    const int spatial = x->tensor.ndim - 2;
    const int64_t cells = product(op->window, spatial);
    int64_t n, cell[3], x_at[ANYDNN_MAX_DIMS] = { 0 };
    double sum = 0, most = -INFINITY;
    x_at[0] = at[0], x_at[1] = at[1];
    for (n = 0; n < cells; n++) {
        double v;
        int i;
        digits(n, op->window, spatial, cell);
        for (i = 0; i < spatial; i++)
            x_at[2 + i] = at[2 + i] * or_one(op->stride[i]) + cell[i] * or_one(op->dilation[i]);
        v = expect_content(x, place(&x->tensor, x_at));
        sum += v;
        most = fmax(most, v);
    }
    return op->mode == ANYDNN_POOL_MAX ? most : sum / (double)cells;
}

static double activation_forward(const struct expectation *e, const int64_t *at)
{
    const double x = content(e, ANYDNN_X, at);
    switch (((const anydnn_activation *)e->op)->mode) {
    case ANYDNN_RELU:
        return x < 0 ? 0 : x;
    case ANYDNN_SIGMOID:
        return 1 / (1 + exp(-x));
    default:
        return NAN;
    }
}

/* Sizes of the axes to reduce (1 in the others), their number of elements in *count. */
static void reduced(const anydnn_tensor *x, uint32_t axes, int64_t sizes[ANYDNN_MAX_DIMS], int64_t *count)
{
    int i;
    for (i = 0; i < x->ndim; i++) sizes[i] = axes >> i & 1 ? x->dims[i] : 1;
    *count = product(sizes, x->ndim);
}

static double softmax_forward(const struct expectation *e, const int64_t *at)
{
    const anydnn_softmax *op = (const anydnn_softmax *)e->op;
    const struct periodic *x = operand(e, ANYDNN_X);
    int64_t sizes[ANYDNN_MAX_DIMS], digit[ANYDNN_MAX_DIMS], n, count;
    double sum = 0;
    reduced(&x->tensor, op->axes ? op->axes : 2, sizes, &count);
    for (n = 0; n < count; n++) {
        int i;
        digits(n, sizes, x->tensor.ndim, digit);
        for (i = 0; i < x->tensor.ndim; i++)
            if (sizes[i] == 1) digit[i] = at[i];
        sum += exp(expect_content(x, place(&x->tensor, digit)));
    }
    return exp(content(e, ANYDNN_X, at)) / sum;
}

static double batchnorm_inference(const struct expectation *e, const int64_t *at)
{
    const double spread = sqrt(content(e, ANYDNN_RUNNING_VAR, at) + scalar(e, ANYDNN_EPSILON, 1e-5));
    return content(e, ANYDNN_GAMMA, at) * (content(e, ANYDNN_X, at) - content(e, ANYDNN_RUNNING_MEAN, at)) / spread +
           content(e, ANYDNN_SHIFT, at);
}

static double binary(const struct expectation *e, const int64_t *at)
{
    const double a = content(e, ANYDNN_A, at), b = content(e, ANYDNN_B, at);
    switch (((const anydnn_binary *)e->op)->mode) {
    case ANYDNN_ADD:
        return a + b;
    case ANYDNN_MUL:
        return a * b;
    default:
        return NAN;
    }
}

/* Sum or maximum of n elements: whole periods are counted, not walked. */
static double along(const struct periodic *p, int64_t start, int64_t step, int64_t n, bool sum)
{
    const int64_t walk = n < p->period ? n : p->period, rest = n % p->period, planted = p->plant - start;
    double total = 0, part = 0, most = -INFINITY;
    int64_t i;
    for (i = 0; i < walk; i++) {
        const double v = p->table[(start + i % p->period * step) % p->period];
        if (i < rest) part += v;
        total += v;
        most = fmax(most, v);
    }
    total = (double)(n / p->period) * total + part;
    if (p->plant < 0 || planted < 0 || planted % step || planted / step >= n) return sum ? total : most;
    return sum ? total + EXPECT_PLANTED - p->table[p->plant % p->period] : fmax(most, EXPECT_PLANTED);
}

static double reduce(const struct expectation *e, const int64_t *at)
{
    const anydnn_reduce *op = (const anydnn_reduce *)e->op;
    const struct periodic *x = operand(e, ANYDNN_X);
    const uint32_t axes = op->axes ? op->axes : (1u << x->tensor.ndim) - 1;
    int64_t sizes[ANYDNN_MAX_DIMS], digit[ANYDNN_MAX_DIMS], n, count;
    double sum = 0, most = -INFINITY;
    int i, inner = x->tensor.ndim - 1;
    while (!(axes >> inner & 1)) inner--;
    reduced(&x->tensor, axes & ~(1u << inner), sizes, &count);
    for (n = 0; n < count; n++) {
        double v;
        digits(n, sizes, x->tensor.ndim, digit);
        for (i = 0; i < x->tensor.ndim; i++) digit[i] += at[i];
        v = along(x, place(&x->tensor, digit), x->tensor.strides[inner], x->tensor.dims[inner],
                  op->mode != ANYDNN_REDUCE_MAX);
        sum += v;
        most = fmax(most, v);
    }
    return op->mode == ANYDNN_REDUCE_MAX ? most : sum;
}

/* Word `word` of Philox4x32-10 at a 64-bit counter. */
static uint32_t philox(uint64_t counter, uint64_t seed, int word)
{
    uint32_t c[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), 0, 0 },
             k[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    int round;
    for (round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next[4] = { (uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k[1],
                                   (uint32_t)p };
        c[0] = next[0], c[1] = next[1], c[2] = next[2], c[3] = next[3];
        k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
    }
    return c[word];
}

static double dropout_forward(const struct expectation *e, const int64_t *at)
{
    const anydnn_tensor *x = &operand(e, ANYDNN_X)->tensor;
    const double ratio = scalar(e, ANYDNN_RATIO, 0.5);
    int64_t number = 0;
    uint32_t r;
    int i;
    for (i = 0; i < x->ndim; i++) number = number * x->dims[i] + at[i];
    r = philox((uint64_t)scalar(e, ANYDNN_OFFSET, 0) + (uint64_t)(number / 4), (uint64_t)scalar(e, ANYDNN_SEED, 0),
               (int)(number % 4));
    return (r >> 8) * 0x1p-24 >= ratio ? content(e, ANYDNN_X, at) / (1 - ratio) : 0;
}

static double sgd(const struct expectation *e, int role, const int64_t *at)
{
    const double moment = scalar(e, ANYDNN_MOMENTUM, 0) * content(e, ANYDNN_MOMENT1, at) + content(e, ANYDNN_GRAD, at);
    return role == ANYDNN_MOMENT1 ? moment : content(e, ANYDNN_PARAM, at) - scalar(e, ANYDNN_LR, 0) * moment;
}

bool expect_knows(int op)
{
    switch (op) {
    case ANYDNN_OP_CONV_FORWARD:
    case ANYDNN_OP_CONV_BACKWARD_DATA:
    case ANYDNN_OP_CONV_BACKWARD_FILTER:
    case ANYDNN_OP_MATMUL:
    case ANYDNN_OP_POOL_FORWARD:
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_SOFTMAX_FORWARD:
    case ANYDNN_OP_BATCHNORM_INFERENCE:
    case ANYDNN_OP_BINARY:
    case ANYDNN_OP_REDUCE:
    case ANYDNN_OP_COPY:
    case ANYDNN_OP_FILL:
    case ANYDNN_OP_SCALE:
    case ANYDNN_OP_DROPOUT_FORWARD:
    case ANYDNN_OP_SGD:
        return true;
    default:
        return false;
    }
}

static double exact(const struct expectation *e, int role, const int64_t *at)
{
    switch (e->op->op) {
    case ANYDNN_OP_CONV_FORWARD:
        return conv_forward(e, at);
    case ANYDNN_OP_CONV_BACKWARD_DATA:
        return conv_backward_data(e, at);
    case ANYDNN_OP_CONV_BACKWARD_FILTER:
        return conv_backward_filter(e, at);
    case ANYDNN_OP_MATMUL:
        return matmul(e, at);
    case ANYDNN_OP_POOL_FORWARD:
        return pool_forward(e, at);
    case ANYDNN_OP_ACTIVATION_FORWARD:
        return activation_forward(e, at);
    case ANYDNN_OP_SOFTMAX_FORWARD:
        return softmax_forward(e, at);
    case ANYDNN_OP_BATCHNORM_INFERENCE:
        return batchnorm_inference(e, at);
    case ANYDNN_OP_BINARY:
        return binary(e, at);
    case ANYDNN_OP_REDUCE:
        return reduce(e, at);
    case ANYDNN_OP_COPY:
        return scalar(e, ANYDNN_ALPHA, 1) * content(e, ANYDNN_X, at);
    case ANYDNN_OP_FILL:
        return scalar(e, ANYDNN_VALUE, 0);
    case ANYDNN_OP_SCALE:
        return scalar(e, ANYDNN_ALPHA, 1) * content(e, ANYDNN_Y, at);
    case ANYDNN_OP_DROPOUT_FORWARD:
        return dropout_forward(e, at);
    case ANYDNN_OP_SGD:
        return sgd(e, role, at);
    default:
        return NAN;
    }
}

double expect_element(const struct expectation *e, int role, const int64_t at[ANYDNN_MAX_DIMS])
{
    const double v = exact(e, role, at);
    switch (operand(e, role)->tensor.dtype) {
    case ANYDNN_I8:
        return fmin(fmax(nearbyint(v), -128), 127);
    case ANYDNN_U8:
        return fmin(fmax(nearbyint(v), 0), 255);
    default:
        return v;
    }
}
