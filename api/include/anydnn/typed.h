/* SPDX-License-Identifier: Apache-2.0
 * anydnn/typed.h: one inline function for each common call, over anydnn_run: each takes the operation's struct, then
 * tensor and memory of each role, inputs first. Formulas, shapes, aliases and statuses stand in anydnn/ops.h; engine
 * choice and threads in anydnn/plan.h. Optional inputs take NULL tensors; any other NULL is INVALID. The struct's `op`
 * member is set here (but for matmul, which has one), so one anydnn_conv serves all directions. `alpha` and `beta` are
 * 1 and 0; use anydnn_run for other values. Statuses: those of anydnn_run. */
#ifndef ANYDNN_TYPED_H
#define ANYDNN_TYPED_H
#include <anydnn/plan.h>
#ifdef __cplusplus
extern "C" {
#endif

/* y = conv(x, w) + bias (bias NULL: none). cudnnConvolutionForward. */
static inline anydnn_status anydnn_conv_forward(anydnn_stream *stream, const anydnn_conv *conv, const anydnn_tensor *x,
                                                anydnn_mem xm, const anydnn_tensor *w, anydnn_mem wm,
                                                const anydnn_tensor *bias, anydnn_mem biasm, const anydnn_tensor *y,
                                                anydnn_mem ym)
{
    anydnn_conv op;
    anydnn_binding rows[4];
    int n = 0;
    if (!conv) return anydnn_run(stream, NULL, NULL, NULL, 0); /* refuses it */
    op = *conv;
    op.op = ANYDNN_OP_CONV_FORWARD;
    rows[n++] = anydnn_bind(ANYDNN_X, x, xm);
    rows[n++] = anydnn_bind(ANYDNN_W, w, wm);
    rows[n++] = anydnn_bind(ANYDNN_Y, y, ym);
    if (bias) rows[n++] = anydnn_bind(ANYDNN_BIAS, bias, biasm);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, n);
}

/* dx from dy and w. cudnnConvolutionBackwardData. */
static inline anydnn_status anydnn_conv_backward_data(anydnn_stream *stream, const anydnn_conv *conv,
                                                      const anydnn_tensor *dy, anydnn_mem dym, const anydnn_tensor *w,
                                                      anydnn_mem wm, const anydnn_tensor *dx, anydnn_mem dxm)
{
    anydnn_conv op;
    anydnn_binding rows[3];
    if (!conv) return anydnn_run(stream, NULL, NULL, NULL, 0); /* refuses it */
    op = *conv;
    op.op = ANYDNN_OP_CONV_BACKWARD_DATA;
    rows[0] = anydnn_bind(ANYDNN_DY, dy, dym);
    rows[1] = anydnn_bind(ANYDNN_W, w, wm);
    rows[2] = anydnn_bind(ANYDNN_DX, dx, dxm);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 3);
}

/* dw from x and dy. cudnnConvolutionBackwardFilter. */
static inline anydnn_status anydnn_conv_backward_filter(anydnn_stream *stream, const anydnn_conv *conv,
                                                        const anydnn_tensor *x, anydnn_mem xm, const anydnn_tensor *dy,
                                                        anydnn_mem dym, const anydnn_tensor *dw, anydnn_mem dwm)
{
    anydnn_conv op;
    anydnn_binding rows[3];
    if (!conv) return anydnn_run(stream, NULL, NULL, NULL, 0); /* refuses it */
    op = *conv;
    op.op = ANYDNN_OP_CONV_BACKWARD_FILTER;
    rows[0] = anydnn_bind(ANYDNN_X, x, xm);
    rows[1] = anydnn_bind(ANYDNN_DY, dy, dym);
    rows[2] = anydnn_bind(ANYDNN_DW, dw, dwm);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 3);
}

/* dbias = sum of dy over all axes but channels. cudnnConvolutionBackwardBias. */
static inline anydnn_status anydnn_conv_backward_bias(anydnn_stream *stream, const anydnn_tensor *dy, anydnn_mem dym,
                                                      const anydnn_tensor *dbias, anydnn_mem dbiasm)
{
    anydnn_conv op = anydnn_conv_init();
    anydnn_binding rows[2];
    op.op = ANYDNN_OP_CONV_BACKWARD_BIAS;
    rows[0] = anydnn_bind(ANYDNN_DY, dy, dym);
    rows[1] = anydnn_bind(ANYDNN_DBIAS, dbias, dbiasm);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

/* y = a' * b' + bias (bias NULL: none). ONNX MatMul, Gemm. */
static inline anydnn_status anydnn_matmul_run(anydnn_stream *stream, const anydnn_matmul *matmul, const anydnn_tensor *a,
                                              anydnn_mem am, const anydnn_tensor *b, anydnn_mem bm,
                                              const anydnn_tensor *bias, anydnn_mem biasm, const anydnn_tensor *y,
                                              anydnn_mem ym)
{
    anydnn_binding rows[4];
    int n = 0;
    rows[n++] = anydnn_bind(ANYDNN_A, a, am);
    rows[n++] = anydnn_bind(ANYDNN_B, b, bm);
    rows[n++] = anydnn_bind(ANYDNN_Y, y, ym);
    if (bias) rows[n++] = anydnn_bind(ANYDNN_BIAS, bias, biasm);
    return anydnn_run(stream, (const anydnn_op *)matmul, NULL, rows, n);
}

/* y = pool(x). cudnnPoolingForward. */
static inline anydnn_status anydnn_pool_forward(anydnn_stream *stream, const anydnn_pool *pool, const anydnn_tensor *x,
                                                anydnn_mem xm, const anydnn_tensor *y, anydnn_mem ym)
{
    anydnn_pool op;
    anydnn_binding rows[2];
    if (!pool) return anydnn_run(stream, NULL, NULL, NULL, 0); /* refuses it */
    op = *pool;
    op.op = ANYDNN_OP_POOL_FORWARD;
    rows[0] = anydnn_bind(ANYDNN_X, x, xm);
    rows[1] = anydnn_bind(ANYDNN_Y, y, ym);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

/* dx from dy and, for max, x (x NULL for averages). cudnnPoolingBackward. */
static inline anydnn_status anydnn_pool_backward(anydnn_stream *stream, const anydnn_pool *pool, const anydnn_tensor *dy,
                                                 anydnn_mem dym, const anydnn_tensor *x, anydnn_mem xm,
                                                 const anydnn_tensor *dx, anydnn_mem dxm)
{
    anydnn_pool op;
    anydnn_binding rows[3];
    int n = 0;
    if (!pool) return anydnn_run(stream, NULL, NULL, NULL, 0); /* refuses it */
    op = *pool;
    op.op = ANYDNN_OP_POOL_BACKWARD;
    rows[n++] = anydnn_bind(ANYDNN_DY, dy, dym);
    rows[n++] = anydnn_bind(ANYDNN_DX, dx, dxm);
    if (x) rows[n++] = anydnn_bind(ANYDNN_X, x, xm);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, n);
}

/* y = f(x); y may be x. cudnnActivationForward. */
static inline anydnn_status anydnn_activation_forward(anydnn_stream *stream, int mode, const anydnn_tensor *x,
                                                      anydnn_mem xm, const anydnn_tensor *y, anydnn_mem ym)
{
    anydnn_activation op = anydnn_activation_init();
    anydnn_binding rows[2];
    op.mode = mode;
    rows[0] = anydnn_bind(ANYDNN_X, x, xm);
    rows[1] = anydnn_bind(ANYDNN_Y, y, ym);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

/* dx = f'(x) * dy from x or y (the other NULL); dx may be dy. cudnnActivationBackward. */
static inline anydnn_status anydnn_activation_backward(anydnn_stream *stream, int mode, const anydnn_tensor *dy,
                                                       anydnn_mem dym, const anydnn_tensor *x, anydnn_mem xm,
                                                       const anydnn_tensor *y, anydnn_mem ym, const anydnn_tensor *dx,
                                                       anydnn_mem dxm)
{
    anydnn_activation op = anydnn_activation_init();
    anydnn_binding rows[4];
    int n = 0;
    op.op = ANYDNN_OP_ACTIVATION_BACKWARD;
    op.mode = mode;
    rows[n++] = anydnn_bind(ANYDNN_DY, dy, dym);
    rows[n++] = anydnn_bind(ANYDNN_DX, dx, dxm);
    if (x) rows[n++] = anydnn_bind(ANYDNN_X, x, xm);
    if (y) rows[n++] = anydnn_bind(ANYDNN_Y, y, ym);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, n);
}

/* y = softmax(x) over the struct's axes; y may be x. cudnnSoftmaxForward. */
static inline anydnn_status anydnn_softmax_forward(anydnn_stream *stream, const anydnn_softmax *softmax,
                                                   const anydnn_tensor *x, anydnn_mem xm, const anydnn_tensor *y,
                                                   anydnn_mem ym)
{
    anydnn_softmax op;
    anydnn_binding rows[2];
    if (!softmax) return anydnn_run(stream, NULL, NULL, NULL, 0); /* refuses it */
    op = *softmax;
    op.op = ANYDNN_OP_SOFTMAX_FORWARD;
    rows[0] = anydnn_bind(ANYDNN_X, x, xm);
    rows[1] = anydnn_bind(ANYDNN_Y, y, ym);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

/* dx from y and dy; dx may be dy. cudnnSoftmaxBackward. */
static inline anydnn_status anydnn_softmax_backward(anydnn_stream *stream, const anydnn_softmax *softmax,
                                                    const anydnn_tensor *y, anydnn_mem ym, const anydnn_tensor *dy,
                                                    anydnn_mem dym, const anydnn_tensor *dx, anydnn_mem dxm)
{
    anydnn_softmax op;
    anydnn_binding rows[3];
    if (!softmax) return anydnn_run(stream, NULL, NULL, NULL, 0); /* refuses it */
    op = *softmax;
    op.op = ANYDNN_OP_SOFTMAX_BACKWARD;
    rows[0] = anydnn_bind(ANYDNN_Y, y, ym);
    rows[1] = anydnn_bind(ANYDNN_DY, dy, dym);
    rows[2] = anydnn_bind(ANYDNN_DX, dx, dxm);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 3);
}

/* y = mode(a, b) with broadcasting; y may be a or b. cudnnOpTensor. */
static inline anydnn_status anydnn_binary_run(anydnn_stream *stream, int mode, const anydnn_tensor *a, anydnn_mem am,
                                              const anydnn_tensor *b, anydnn_mem bm, const anydnn_tensor *y,
                                              anydnn_mem ym)
{
    anydnn_binary op = anydnn_binary_init();
    anydnn_binding rows[3];
    op.mode = mode;
    rows[0] = anydnn_bind(ANYDNN_A, a, am);
    rows[1] = anydnn_bind(ANYDNN_B, b, bm);
    rows[2] = anydnn_bind(ANYDNN_Y, y, ym);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 3);
}

/* y = x reduced over `axes` (0 = all). cudnnReduceTensor. */
static inline anydnn_status anydnn_reduce_run(anydnn_stream *stream, int mode, uint32_t axes, const anydnn_tensor *x,
                                              anydnn_mem xm, const anydnn_tensor *y, anydnn_mem ym)
{
    anydnn_reduce op = anydnn_reduce_init();
    anydnn_binding rows[2];
    op.mode = mode;
    op.axes = axes;
    rows[0] = anydnn_bind(ANYDNN_X, x, xm);
    rows[1] = anydnn_bind(ANYDNN_Y, y, ym);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

/* y = x in another layout or dtype. cudnnTransformTensor. */
static inline anydnn_status anydnn_copy_tensor(anydnn_stream *stream, const anydnn_tensor *x, anydnn_mem xm,
                                               const anydnn_tensor *y, anydnn_mem ym)
{
    const anydnn_elementwise op = anydnn_copy_init();
    anydnn_binding rows[2];
    rows[0] = anydnn_bind(ANYDNN_X, x, xm);
    rows[1] = anydnn_bind(ANYDNN_Y, y, ym);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

/* y = value. cudnnSetTensor. */
static inline anydnn_status anydnn_fill_tensor(anydnn_stream *stream, const anydnn_tensor *y, anydnn_mem ym, double value)
{
    const anydnn_elementwise op = anydnn_fill_init();
    anydnn_binding rows[2];
    rows[0] = anydnn_bind(ANYDNN_Y, y, ym);
    rows[1] = anydnn_bind_value(ANYDNN_VALUE, value);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

/* y = alpha * y. cudnnScaleTensor. */
static inline anydnn_status anydnn_scale_tensor(anydnn_stream *stream, const anydnn_tensor *y, anydnn_mem ym, double alpha)
{
    const anydnn_elementwise op = anydnn_scale_init();
    anydnn_binding rows[2];
    rows[0] = anydnn_bind(ANYDNN_Y, y, ym);
    rows[1] = anydnn_bind_value(ANYDNN_ALPHA, alpha);
    return anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
}

#ifdef __cplusplus
}
#endif
#endif
