/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/legacy.c [device]: the calls that programs written for cuDNN make, as api/docs/cudnn.md maps them, against
 * plain loops: convolution with factors, residuals in place, mixed layouts and engines found for other shapes;
 * arithmetic with broadcasts and scales, reductions, transforms and crops. The layers are in legacy_layers.c. */
#include "../support/arrays.h"

static struct array x, w, y, z, b;
static struct array *const arrays[] = { &x, &w, &y, &z, &b };
enum { COUNT = sizeof arrays / sizeof arrays[0] };

/* ---- convolution ---- */

/* Adds alpha times every product to what is wanted of the output: x, w and y stand for their gradients too. */
static void convolve(const anydnn_conv *conv, double alpha)
{
    const int64_t groups = conv->groups ? conv->groups : 1, dh = conv->dilation[0] ? conv->dilation[0] : 1,
                  dv = conv->dilation[1] ? conv->dilation[1] : 1, sh = conv->stride[0] ? conv->stride[0] : 1,
                  sv = conv->stride[1] ? conv->stride[1] : 1, per_group = w.t.dims[0] / groups;
    int64_t i, j;
    for (i = 0; i < count_of(&y); i++)
        for (j = 0; j < w.t.dims[1] * w.t.dims[2] * w.t.dims[3]; j++) {
            const int64_t q = i % y.t.dims[3], p = i / y.t.dims[3] % y.t.dims[2], k = channel_of(&y, i),
                          n = i / (y.t.dims[1] * y.t.dims[2] * y.t.dims[3]), s = j % w.t.dims[3],
                          r = j / w.t.dims[3] % w.t.dims[2], c = j / (w.t.dims[2] * w.t.dims[3]);
            const int64_t h = p * sh - conv->pad[0] + r * dh, v = q * sv - conv->pad[1] + s * dv;
            const int64_t at_w =
                conv->mode ? number_of(&w, k, c, w.t.dims[2] - 1 - r, w.t.dims[3] - 1 - s) : number_of(&w, k, c, r, s);
            const int64_t at_x = number_of(&x, n, k / per_group * w.t.dims[1] + c, h, v);
            if (h < 0 || h >= x.t.dims[2] || v < 0 || v >= x.t.dims[3]) continue;
            switch (conv->op) {
            case ANYDNN_OP_CONV_FORWARD:
                y.want[i] += alpha * x.was[at_x] * w.was[at_w];
                break;
            case ANYDNN_OP_CONV_BACKWARD_DATA:
                x.want[at_x] += alpha * y.was[i] * w.was[at_w];
                break;
            default:
                w.want[at_w] += alpha * y.was[i] * x.was[at_x];
                break;
            }
        }
}

static anydnn_conv padded(void)
{
    anydnn_conv conv = anydnn_conv_init();
    conv.pad[0] = conv.pad[1] = 1;
    return conv;
}

static void give_convolution(void)
{
    give(&x, nchw(2, 4, 7, 6));
    give(&w, nchw(6, 2, 3, 3));
    give(&y, nchw(2, 6, 4, 3));
}

/* alpha, beta of each call, and both kinds of filter. */
static void convolution_forward(void)
{
    static const double factors[][2] = { { 1, 0 }, { 1, 1 }, { 0.5, 2 } };
    anydnn_conv conv = padded();
    int i;
    conv.stride[0] = conv.stride[1] = 2;
    conv.groups = 2;
    for (i = 0; i < 4; i++) {
        const double alpha = factors[i % 3][0], beta = factors[i % 3][1];
        conv.mode = i == 3;
        give_convolution();
        if (i == 0) give_value(&y, y.t, NAN);
        want_scaled(&y, beta);
        convolve(&conv, alpha);
        RUN(&conv, bind(ANYDNN_X, &x), bind(ANYDNN_W, &w), bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, alpha),
            value(ANYDNN_BETA, beta));
        expect(&y, "ConvolutionForward");
    }
}

/* beta 1 adds to the gradients that are there, twice: with a filter as it lies and flipped. */
static void convolution_backward(void)
{
    anydnn_conv conv = padded();
    int64_t i;
    int pass;
    conv.stride[0] = conv.stride[1] = 2;
    conv.groups = 2;
    give_convolution();
    give(&b, nchw(1, 6, 1, 1));
    for (pass = 0; pass < 2; pass++) {
        conv.mode = pass;
        conv.op = ANYDNN_OP_CONV_BACKWARD_DATA;
        want_scaled(&x, 1);
        convolve(&conv, 1);
        RUN(&conv, bind(ANYDNN_DY, &y), bind(ANYDNN_W, &w), bind(ANYDNN_DX, &x), value(ANYDNN_BETA, 1));
        expect(&x, "ConvolutionBackwardData");
        conv.op = ANYDNN_OP_CONV_BACKWARD_FILTER;
        want_scaled(&w, 1);
        convolve(&conv, 1);
        RUN(&conv, bind(ANYDNN_X, &x), bind(ANYDNN_DY, &y), bind(ANYDNN_DW, &w), value(ANYDNN_BETA, 1));
        expect(&w, "ConvolutionBackwardFilter");
        conv.op = ANYDNN_OP_CONV_BACKWARD_BIAS;
        want_scaled(&b, 1);
        for (i = 0; i < count_of(&y); i++) b.want[channel_of(&y, i)] += y.was[i];
        RUN(&conv, bind(ANYDNN_DY, &y), bind(ANYDNN_DBIAS, &b), value(ANYDNN_BETA, 1));
        expect(&b, "ConvolutionBackwardBias");
    }
}

/* y = f(alpha1 * conv + alpha2 * z + bias) with z = y. */
static void convolution_bias_activation(void)
{
    anydnn_conv conv = padded();
    int64_t k;
    int i;
    for (i = 0; i < 4; i++) {
        const double alpha2 = i & 1;
        conv.activation = i & 2 ? ANYDNN_CONV_RELU : ANYDNN_CONV_IDENTITY;
        give(&x, nchw(2, 4, 5, 5));
        give(&w, nchw(6, 4, 3, 3));
        give(&y, nchw(2, 6, 5, 5));
        give(&b, nchw(1, 6, 1, 1));
        if (alpha2 == 0) give_value(&y, y.t, NAN);
        want_scaled(&y, alpha2);
        convolve(&conv, 1);
        for (k = 0; k < count_of(&y); k++) {
            y.want[k] += b.was[channel_of(&y, k)];
            if (conv.activation == ANYDNN_CONV_RELU && y.want[k] < 0) y.want[k] = 0;
        }
        RUN(&conv, bind(ANYDNN_X, &x), bind(ANYDNN_W, &w), bind(ANYDNN_BIAS, &b), bind(ANYDNN_Z, &y),
            bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, 1), value(ANYDNN_ALPHA2, alpha2));
        expect(&y, "ConvolutionBiasActivationForward, z is y");
    }
}

/* Engine `row` on y = f(alpha1 * conv + alpha2 * z + bias + beta * y) with z = y; what it was said to want of workspace
 * is what its plan wants. */
static void fused_by(const anydnn_conv *conv, const anydnn_verdict *row, double alpha2, double beta)
{
    const anydnn_binding rows[] = { bind(ANYDNN_X, &x),           bind(ANYDNN_W, &w),      bind(ANYDNN_BIAS, &b),
                                    bind(ANYDNN_Z, &y),           bind(ANYDNN_Y, &y),      value(ANYDNN_ALPHA, 0.5),
                                    value(ANYDNN_ALPHA2, alpha2), value(ANYDNN_BETA, beta) };
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    anydnn_plan_info info = { sizeof info, 0, 0, 0, "" };
    anydnn_plan *plan = NULL;
    int64_t k;
    want_scaled(&y, alpha2 + beta);
    convolve(conv, 0.5);
    for (k = 0; k < count_of(&y); k++) {
        y.want[k] += b.was[channel_of(&y, k)];
        if (y.want[k] < 0) y.want[k] = 0;
    }
    prefs.engine = row->engine;
    prefs.workspace_limit = row->workspace_bytes ? row->workspace_bytes : ANYDNN_NO_WORKSPACE;
    CHECK_CASE(anydnn_plan_create(context, (const anydnn_op *)conv, &prefs, rows, 8, &plan) == ANYDNN_OK, row->engine);
    CHECK_CASE(anydnn_plan_get_info(plan, &info) == ANYDNN_OK && info.workspace_bytes == row->workspace_bytes,
               row->engine);
    CHECK_CASE(run_plan(plan, rows, 8), row->engine);
    anydnn_plan_release(plan);
    expect(&y, row->engine);
}

static void fused_by_every_engine(void)
{
    anydnn_conv conv = padded();
    anydnn_verdict rows[16];
    int count = 0, i, k, ran = 0;
    conv.activation = ANYDNN_CONV_RELU;
    for (k = 0; k < 4; k++) {
        give(&x, nhwc(2, 4, 5, 5));
        give(&w, nchw(6, 4, 3, 3));
        give(&y, nchw(2, 6, 5, 5));
        give(&b, nchw(1, 6, 1, 1));
        CHECK(anydnn_explain(context, (const anydnn_op *)&conv, NULL,
                             ROWS(bind(ANYDNN_X, &x), bind(ANYDNN_W, &w), bind(ANYDNN_BIAS, &b), bind(ANYDNN_Z, &y),
                                  bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, 0.5), value(ANYDNN_BETA, k & 2 ? 0.25 : 0)),
                             rows, 16, &count) == ANYDNN_OK);
        for (i = 0; i < count && i < 16; i++)
            if (rows[i].status == ANYDNN_OK) fused_by(&conv, &rows[i], k & 1, k & 2 ? 0.25 : 0), ran++;
    }
    CHECK(ran >= 4);
}

/* x, w and y each in a layout of its own; a batch of one may carry any stride. */
static void mixed_layouts(void)
{
    anydnn_conv conv = padded();
    int i;
    for (i = 0; i < 2; i++) {
        give(&x, strided(nhwc(1, 4, 6, 5), i ? 1 : 1000000007, 1, 20, 4));
        give(&w, i ? strided(nchw(6, 4, 3, 3), 50, 1, 16, 5) : nhwc(6, 4, 3, 3));
        give(&y, i ? strided(nchw(1, 6, 6, 5), 3, 40, 6, 1) : nchw(1, 6, 6, 5));
        want_scaled(&y, 0);
        convolve(&conv, 1);
        RUN(&conv, bind(ANYDNN_X, &x), bind(ANYDNN_W, &w), bind(ANYDNN_Y, &y));
        expect(&y, "x NHWC, w strided, y NCHW");
    }
}

/* What was found for one shape runs others too. */
static void found_engine(void)
{
    anydnn_conv conv = padded();
    anydnn_verdict best;
    int count = 0, i;
    memset(&best, 0, sizeof best);
    give(&x, nchw(2, 4, 8, 8));
    give(&w, nchw(8, 4, 3, 3));
    give(&y, nchw(2, 8, 8, 8));
    CHECK(anydnn_find(stream, (const anydnn_op *)&conv, NULL,
                      ROWS(bind(ANYDNN_X, &x), bind(ANYDNN_W, &w), bind(ANYDNN_Y, &y)), 1, &best, 1,
                      &count) == ANYDNN_OK);
    CHECK(count >= 1 && best.engine[0] != 0 && best.status == ANYDNN_OK);
    for (i = 0; i < 2; i++) {
        give(&x, nchw(1, 4, 9 + i, 5));
        give(&w, nchw(8, 4, 3, 3));
        conv.stride[0] = 1 + i;
        give(&y, nchw(1, 8, i ? 5 : 9, 5));
        want_scaled(&y, 0);
        convolve(&conv, 1);
        CHECK_CASE(call(&conv, best.engine, ROWS(bind(ANYDNN_X, &x), bind(ANYDNN_W, &w), bind(ANYDNN_Y, &y))),
                   best.engine);
        expect(&y, best.engine);
    }
}

/* ---- arithmetic ---- */

/* Element of a that broadcasts to element `number` of like. */
static double broadcast(const struct array *a, const struct array *like, int64_t number)
{
    anydnn_tensor t = anydnn_tensor_packed(ANYDNN_F32, 4, a->t.dims);
    anydnn_tensor seen = like->t;
    int axis;
    for (axis = 0; axis < 4; axis++) seen.strides[axis] = t.dims[axis] == 1 ? 0 : t.strides[axis];
    return a->was[offset_of(&seen, number)];
}

/* AddTensor: y = alpha * bias + beta * y. */
static void add_tensor(void)
{
    const anydnn_tensor shapes[] = { nchw(1, 5, 1, 1), nchw(1, 5, 3, 4), nchw(2, 5, 3, 4) };
    anydnn_binary add = anydnn_binary_init();
    int64_t k;
    int i;
    for (i = 0; i < 3; i++) {
        give(&b, shapes[i]);
        give(&y, i == 1 ? nhwc(2, 5, 3, 4) : nchw(2, 5, 3, 4));
        for (k = 0; k < count_of(&y); k++) y.want[k] = 2 * broadcast(&b, &y, k) + 0.5 * y.was[k];
        RUN(&add, bind(ANYDNN_A, &b), bind(ANYDNN_B, &y), bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, 2),
            value(ANYDNN_ALPHA2, 0.5));
        expect(&y, "AddTensor");
    }
}

static double joined_by(int mode, double p, double q)
{
    return mode == ANYDNN_ADD ? p + q : mode == ANYDNN_MUL ? p * q : mode == ANYDNN_MAXIMUM ? fmax(p, q) : fmin(p, q);
}

/* OpTensor: y = op(alpha1 * x, alpha2 * b) + beta * y; then x = op(x, b). */
static void op_tensor(void)
{
    static const int modes[] = { ANYDNN_ADD, ANYDNN_MUL, ANYDNN_MAXIMUM, ANYDNN_MINIMUM };
    anydnn_binary op = anydnn_binary_init();
    int64_t k;
    int i;
    for (i = 0; i < 4; i++) {
        op.mode = modes[i];
        give(&x, strided(nchw(2, 5, 3, 4), 90, 18, 6, 1));
        give(&b, nchw(1, 5, 1, 1));
        give(&y, nhwc(2, 5, 3, 4));
        for (k = 0; k < count_of(&y); k++) {
            const double p = 0.5 * x.was[k], q = -2 * broadcast(&b, &y, k);
            y.want[k] = joined_by(op.mode, p, q) + 0.25 * y.was[k];
        }
        RUN(&op, bind(ANYDNN_A, &x), bind(ANYDNN_B, &b), bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, 0.5),
            value(ANYDNN_ALPHA2, -2), value(ANYDNN_BETA, 0.25));
        expect(&y, "OpTensor");
        for (k = 0; k < count_of(&x); k++) x.want[k] = joined_by(op.mode, x.was[k], broadcast(&b, &x, k));
        RUN(&op, bind(ANYDNN_A, &x), bind(ANYDNN_B, &b), bind(ANYDNN_Y, &x));
        expect(&x, "OpTensor in place");
    }
}

static double joined(int mode, double joined, double v, bool first)
{
    switch (mode) {
    case ANYDNN_REDUCE_MAX:
        return first || v > joined || isnan(v) ? v : joined;
    case ANYDNN_REDUCE_MIN:
        return first || v < joined || isnan(v) ? v : joined;
    case ANYDNN_REDUCE_AMAX:
        return first || fabs(v) > joined || isnan(v) ? fabs(v) : joined;
    case ANYDNN_REDUCE_NORM1:
        return joined + fabs(v);
    case ANYDNN_REDUCE_NORM2:
        return joined + v * v;
    default:
        return joined + v;
    }
}

static void reduce_case(int mode, uint32_t axes, anydnn_tensor from, anydnn_tensor to, float special)
{
    static const char *const names[] = { "sum", "mean", "max", "min", "amax", "norm1", "norm2" };
    anydnn_reduce op = anydnn_reduce_init();
    const double per = (double)anydnn_tensor_count(&from) / (double)anydnn_tensor_count(&to);
    double result[64];
    bool seen[64] = { false };
    int64_t k;
    op.mode = mode, op.axes = axes;
    give(&x, from);
    if (special != 0) x.host[offset_of(&from, 3)] = special, send(&x);
    give(&y, to);
    for (k = 0; k < count_of(&y); k++) result[k] = 0;
    for (k = 0; k < count_of(&x); k++) {
        const int64_t row = y.t.dims[1] > 1 ? channel_of(&x, k) : 0;
        result[row] = joined(mode, result[row], x.was[k], !seen[row]);
        seen[row] = true;
    }
    for (k = 0; k < count_of(&y); k++) {
        if (mode == ANYDNN_REDUCE_MEAN) result[k] /= per;
        if (mode == ANYDNN_REDUCE_NORM2) result[k] = sqrt(result[k]);
        y.want[k] = 2 * result[k] + 0.5 * y.was[k];
    }
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, 2), value(ANYDNN_BETA, 0.5));
    expect(&y, names[mode]);
}

static void reduce_tensor(void)
{
    int mode;
    for (mode = ANYDNN_REDUCE_SUM; mode <= ANYDNN_REDUCE_NORM2; mode++) {
        reduce_case(mode, 1u << 0 | 1u << 2 | 1u << 3, nchw(3, 5, 4, 4), nchw(1, 5, 1, 1), 0);
        reduce_case(mode, 1u << 0 | 1u << 2 | 1u << 3, strided(nchw(2, 8, 3, 4), 200, 1, 50, 10), nchw(1, 8, 1, 1),
                    NAN);
        reduce_case(mode, 0, nchw(1, 1, 1, LIMIT), nchw(1, 1, 1, 1), -3000); /* a squared half would overflow */
    }
}

/* ReduceTensor onto a tensor of the same dims: an axis of size 1 behind both is reduced. */
static void reduce_nothing(void)
{
    const int64_t dims[] = { 2, 3, 4, 5, 1 };
    const anydnn_tensor longer = anydnn_tensor_packed(ANYDNN_F32, 5, dims);
    anydnn_reduce op = anydnn_reduce_init();
    int64_t k;
    op.mode = ANYDNN_REDUCE_AMAX, op.axes = 1u << 4;
    give(&x, nchw(2, 3, 4, 5));
    give(&y, x.t);
    for (k = 0; k < count_of(&y); k++) y.want[k] = fabs(x.was[k]) + 0.5 * y.was[k];
    RUN(&op, anydnn_bind(ANYDNN_X, &longer, x.mem), anydnn_bind(ANYDNN_Y, &longer, y.mem), value(ANYDNN_BETA, 0.5));
    expect(&y, "ReduceTensor of one element");
}

/* TransformTensorEx with positive pads: zeros, then x in the middle. */
static void pad_tensor(void)
{
    const anydnn_elementwise copy = anydnn_copy_init(), fill = anydnn_fill_init();
    anydnn_tensor inner;
    int64_t k;
    give(&x, nhwc(2, 5, 2, 4));
    give(&y, nchw(2, 5, 4, 6));
    inner = y.t;
    inner.dims[2] = 2, inner.dims[3] = 4;
    for (k = 0; k < count_of(&y); k++) y.want[k] = 0;
    for (k = 0; k < count_of(&x); k++)
        y.want[number_of(&y, k / 40, channel_of(&x, k), k / 4 % 2 + 1, k % 4 + 1)] = 2 * x.was[k];
    RUN(&fill, bind(ANYDNN_Y, &y));
    RUN(&copy, bind(ANYDNN_X, &x), value(ANYDNN_ALPHA, 2),
        anydnn_bind(ANYDNN_Y, &inner, anydnn_mem_at(y.mem, 4 * (uint64_t)(y.t.strides[2] + y.t.strides[3]))));
    expect(&y, "TransformTensorEx with pads");
}

/* TransformTensorEx with folds of 2x2: channel (c, i, j) of y at (p, q) is x at (c, 2p + i, 2q + j). Both tensors are
 * seen with the dims n, c, i, j, p, q; the way back exchanges them. */
static void fold_tensor(void)
{
    const int64_t dims[] = { 2, 3, 2, 2, 2, 3 };
    const anydnn_elementwise copy = anydnn_copy_init();
    anydnn_tensor whole = anydnn_tensor_packed(ANYDNN_F32, 6, dims), folded = whole;
    int64_t k;
    give(&x, nchw(2, 3, 4, 6));
    give(&y, nchw(2, 12, 2, 3));
    whole.strides[0] = x.t.strides[0], whole.strides[1] = x.t.strides[1];
    whole.strides[2] = x.t.strides[2], whole.strides[3] = x.t.strides[3];
    whole.strides[4] = 2 * x.t.strides[2], whole.strides[5] = 2 * x.t.strides[3];
    for (k = 0; k < count_of(&y); k++) {
        const int64_t channel = channel_of(&y, k), p = k / 3 % 2, q = k % 3;
        y.want[k] = x.was[number_of(&x, k / 72, channel / 4, 2 * p + channel / 2 % 2, 2 * q + channel % 2)];
    }
    RUN(&copy, anydnn_bind(ANYDNN_X, &whole, x.mem), anydnn_bind(ANYDNN_Y, &folded, y.mem));
    expect(&y, "TransformTensorEx, folded");
    for (k = 0; k < count_of(&x); k++) x.want[k] = 2 * x.was[k];
    RUN(&copy, anydnn_bind(ANYDNN_X, &folded, y.mem), anydnn_bind(ANYDNN_Y, &whole, x.mem), value(ANYDNN_BETA, 1));
    expect(&x, "TransformTensorEx, unfolded");
}

/* TransformTensor between layouts, and a crop: a view of the middle. */
static void transform_tensor(void)
{
    const anydnn_elementwise copy = anydnn_copy_init();
    anydnn_tensor crop;
    int64_t k;
    give(&x, nhwc(2, 5, 4, 6));
    give(&y, nchw(2, 5, 4, 6));
    for (k = 0; k < count_of(&y); k++) y.want[k] = 2 * x.was[k] + 0.5 * y.was[k];
    RUN(&copy, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, 2), value(ANYDNN_BETA, 0.5));
    expect(&y, "TransformTensor");
    crop = x.t;
    crop.dims[2] = 2, crop.dims[3] = 4;
    give(&y, nchw(2, 5, 2, 4));
    for (k = 0; k < count_of(&y); k++)
        y.want[k] = x.was[number_of(&x, k / 40, channel_of(&y, k), k / 4 % 2 + 1, k % 4 + 1)];
    CHECK(call(&copy, NULL,
               ROWS(anydnn_bind(ANYDNN_X, &crop, anydnn_mem_at(x.mem, 4 * (uint64_t)(x.t.strides[2] + x.t.strides[3]))),
                    bind(ANYDNN_Y, &y))));
    expect(&y, "crop");
}

static void scale_and_set(void)
{
    const anydnn_elementwise scale = anydnn_scale_init(), fill = anydnn_fill_init();
    give(&y, strided(nchw(2, 3, 4, 5), 100, 30, 7, 1));
    want_scaled(&y, -0.5);
    RUN(&scale, bind(ANYDNN_Y, &y), value(ANYDNN_ALPHA, -0.5));
    expect(&y, "ScaleTensor");
    give_value(&z, y.t, 1.5f);
    memcpy(y.want, z.was, sizeof y.want);
    RUN(&fill, bind(ANYDNN_Y, &y), value(ANYDNN_VALUE, 1.5));
    expect(&y, "SetTensor");
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cpu";
    const int opened = open_arrays(device, arrays, COUNT);
    if (opened) return opened;
    convolution_forward();
    convolution_backward();
    convolution_bias_activation();
    fused_by_every_engine();
    mixed_layouts();
    found_engine();
    add_tensor();
    op_tensor();
    reduce_tensor();
    reduce_nothing();
    transform_tensor();
    pad_tensor();
    fold_tensor();
    scale_and_set();
    CHECK(strcmp(device, "cpu") == 0 || largest_workspace > 0); /* the long reductions want some */
    return close_arrays(arrays, COUNT);
}
