/* SPDX-License-Identifier: Apache-2.0
 * anydnn/ops.h: the operations: their structs, roles, formulas and rules.
 *
 * How to read
 *   Each operation takes bindings: a role with a tensor and its memory, or a role with a scalar. "in", "out" and
 *   "in-out" say what the library does with a role; [optional] roles may be left unbound.
 *   alpha, beta: outputs marked "scaled" are out = alpha * result + beta * out, alpha 1 and beta 0 where unbound.
 *   With beta = 0 the old output is not read (NaN there does not matter); with alpha = 0 the inputs that alpha scales
 *   are not read (a bias, which it does not scale, is; so are inputs that statistics or indices are taken from).
 *   Scalars are host doubles (rounded to f32 where a device computes in f32), or where marked [device] one element in
 *   device memory, aligned to its size, read when the work runs. A host value outside the range that is stated, or NaN
 *   there, is INVALID; where no range is stated every double enters the formula, NaN and infinities too. Device values
 *   are not checked. Values of scalars are never part of a plan: one plan serves every learning rate, ratio, seed or
 *   factor (alpha and beta: one plan for each class of value 0, 1, other).
 *   dtypes: f32, f16, bf16, and f64 on the CPU (elsewhere UNSUPPORTED), unless said otherwise; all tensors of a call
 *   have the same dtype unless said otherwise; parameters, statistics, moments and losses that are said to be f32 are
 *   f64 with f64 data.
 *   f16 and bf16 accumulate and compute in f32 and round once, to nearest even, on store. NaN propagates.
 *   Shapes: tensors have 1 to 8 dims unless said otherwise; dims in brackets are those of the role, in the order of
 *   tensor.h. Any strides (tensor.h), each tensor its own; a dim of 0 makes sums empty (0) and leaves empty outputs.
 *   Aliases: an output may share its first element and strides with the inputs named under "in place"; any other
 *   overlap of an output with anything, scalars in device memory and workspace too, is INVALID. Two views whose bytes
 *   interleave must be apart modulo a stride of one of them (halves of the channels of one buffer are).
 *   Zero in a struct member means the stated default; values that are not listed are INVALID. Structs only ever grow at
 *   their end.
 *   Statuses of every operation: OK; INVALID (shape, dtype, role, alias, bounds: the message names it); UNSUPPORTED
 *   (no engine on this device: anydnn_explain tells why); OUT_OF_MEMORY; DEVICE; INTERNAL.
 *   Determinism: bit-equal from run to run on one device with one engine, unless an engine's traits say otherwise.
 *   Threads and ownership: core.h. The last line of each operation names where its definition comes from.
 */
#ifndef ANYDNN_OPS_H
#define ANYDNN_OPS_H
#include <anydnn/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Operations. Numbers are part of the ABI. */
typedef enum anydnn_op_id {
    ANYDNN_OP_CONV_FORWARD = 1,
    ANYDNN_OP_CONV_BACKWARD_DATA = 2,
    ANYDNN_OP_CONV_BACKWARD_FILTER = 3,
    ANYDNN_OP_CONV_BACKWARD_BIAS = 4,
    ANYDNN_OP_MATMUL = 5,
    ANYDNN_OP_POOL_FORWARD = 6,
    ANYDNN_OP_POOL_BACKWARD = 7,
    ANYDNN_OP_ACTIVATION_FORWARD = 8,
    ANYDNN_OP_ACTIVATION_BACKWARD = 9,
    ANYDNN_OP_SOFTMAX_FORWARD = 10,
    ANYDNN_OP_SOFTMAX_BACKWARD = 11,
    ANYDNN_OP_CROSS_ENTROPY_FORWARD = 12,
    ANYDNN_OP_CROSS_ENTROPY_BACKWARD = 13,
    ANYDNN_OP_BATCHNORM_TRAINING = 14,
    ANYDNN_OP_BATCHNORM_INFERENCE = 15,
    ANYDNN_OP_BATCHNORM_BACKWARD = 16,
    ANYDNN_OP_BINARY = 17,
    ANYDNN_OP_BINARY_BACKWARD = 18,
    ANYDNN_OP_REDUCE = 19,
    ANYDNN_OP_REDUCE_BACKWARD = 20,
    ANYDNN_OP_COPY = 21,
    ANYDNN_OP_FILL = 22,
    ANYDNN_OP_SCALE = 23,
    ANYDNN_OP_DROPOUT_FORWARD = 24,
    ANYDNN_OP_DROPOUT_BACKWARD = 25,
    ANYDNN_OP_SGD = 26,
    ANYDNN_OP_ADAM = 27
} anydnn_op_id;

/* Roles. Numbers are part of the ABI; 1..99 are tensors, 100.. are scalars. */
typedef enum anydnn_role {
    ANYDNN_X = 1, ANYDNN_W = 2, ANYDNN_Y = 3, ANYDNN_BIAS = 4,
    ANYDNN_DX = 5, ANYDNN_DW = 6, ANYDNN_DY = 7, ANYDNN_DBIAS = 8,
    ANYDNN_A = 9, ANYDNN_B = 10, ANYDNN_DA = 11, ANYDNN_DB = 12,
    ANYDNN_INDICES = 13, ANYDNN_LABELS = 14, ANYDNN_LOSS = 15, ANYDNN_DLOSS = 16,
    ANYDNN_GAMMA = 17, ANYDNN_SHIFT = 18, ANYDNN_DGAMMA = 19, ANYDNN_DSHIFT = 20,
    ANYDNN_RUNNING_MEAN = 21, ANYDNN_RUNNING_VAR = 22, ANYDNN_SAVED_MEAN = 23, ANYDNN_SAVED_INVSTD = 24,
    ANYDNN_PARAM = 25, ANYDNN_GRAD = 26, ANYDNN_MOMENT1 = 27, ANYDNN_MOMENT2 = 28,
    ANYDNN_Z = 29, ANYDNN_SCALES = 30,

    ANYDNN_ALPHA = 100, ANYDNN_BETA = 101, ANYDNN_ALPHA2 = 102,
    ANYDNN_COEF = 103, ANYDNN_EPSILON = 104, ANYDNN_FACTOR = 105, ANYDNN_VALUE = 106,
    ANYDNN_RATIO = 107, ANYDNN_SEED = 108, ANYDNN_OFFSET = 109,
    ANYDNN_LR = 110, ANYDNN_MOMENTUM = 111, ANYDNN_WEIGHT_DECAY = 112,
    ANYDNN_BETA1 = 113, ANYDNN_BETA2 = 114, ANYDNN_STEP = 115, ANYDNN_SMOOTHING = 116,
    ANYDNN_X_ZERO = 117, ANYDNN_Y_ZERO = 118,
    ANYDNN_PARAM_ALPHA = 119, ANYDNN_PARAM_BETA = 120
} anydnn_role;

/* What every operation struct begins with. struct_size = sizeof the whole struct; 0 is INVALID. A longer struct than
 * the library knows is accepted when its tail is zero, UNSUPPORTED otherwise; a shorter one reads as zero-filled. */
typedef struct anydnn_op {
    uint32_t struct_size;
    int32_t op; /* anydnn_op_id */
} anydnn_op;

typedef enum anydnn_pad_mode {
    ANYDNN_PAD_SYMMETRIC = 0, /* pad counts on both sides; pad_end must be 0 */
    ANYDNN_PAD_EXPLICIT = 1   /* pad leads, pad_end trails */
} anydnn_pad_mode;

/* ---------------------------------------------------------------- convolution --------------------------------- */

/* What a convolution does to its result before it stores it; the numbers are those of anydnn_activation_mode plus 1. */
typedef enum anydnn_conv_activation {
    ANYDNN_CONV_IDENTITY = 0,
    ANYDNN_CONV_RELU = 1,
    ANYDNN_CONV_LEAKY_RELU = 2,   /* coef 0.01 where unbound */
    ANYDNN_CONV_CLIPPED_RELU = 3, /* coef 6 where unbound */
    ANYDNN_CONV_SIGMOID = 4,
    ANYDNN_CONV_TANH = 5
} anydnn_conv_activation;

/* Convolution of 1 to 3 spatial dimensions. Axes: x [N, C, (D, H,) W], w [K, C/groups, (T, R,) S], y [N, K, (O, P,) Q];
 * the array members below hold one entry for each spatial axis, in the order of the tensor's dims.
 *   P = floor((H + pad + pad_end - dilation*(R-1) - 1) / stride) + 1, likewise for the other axes; where H and R are not
 *   0, a result below 1 is INVALID, whatever the other dims; where one of them is 0, P is 0. anydnn_output derives y so;
 *   dx as the smallest that gives dy; dw as the largest.
 *   forward          sum[n,k,p,q]  = sum over c,r,s of x[n, c, p*stride - pad + r*dilation, ...] * w[k, c, r, s]
 *   backward data    sum[n,c,h,w]  = sum over k,r,s, p,q with p*stride - pad + r*dilation = h of
 *                                    dy[n,k,p,q] * w[k,c,r,s]
 *   backward filter  dw[k,c,r,s]   = sum over n,p,q of dy[n,k,p,q] * x[n, c, p*stride - pad + r*dilation, ...]
 *   backward bias    dbias[0,k,0,0] = sum over n,p,q of dy[n,k,p,q]
 * with c counted inside the group of k, and elements outside x and dy equal to 0 (engines may skip these products or
 * compute them: only where the other factor, w or in backward filter dy, is NaN or infinite can that be seen). This is
 * cross-correlation, as in cudnnConvolutionForward with CUDNN_CROSS_CORRELATION and ONNX Conv.
 * f32 is computed at f32 accuracy: TF32 and other reduced products only where prefs.math or the context's math allows
 * them (unlike cuDNN's default).
 *   forward and backward data store  out = f(alpha * sum + bias + alpha2 * z + beta * out),  f = activation
 *   CONV_FORWARD          in x, w, bias [optional; 1,K,1,1], z [optional; dims of y], scales [integer x only; optional;
 *                         1,K,1,1 or all 1]; out y (scaled). In place: y on z
 *   CONV_BACKWARD_DATA    in dy, w, bias [optional; 1,C,1,1], z [optional; dims of dx]; out dx (scaled). In place: dx
 *                         on z. It is the transposed convolution (ONNX ConvTranspose): dy is its input, dx its output;
 *                         a bound dx chooses among the sizes of H that give P, which is what output padding does
 *   CONV_BACKWARD_FILTER  in x, dy; out dw (scaled)
 *   CONV_BACKWARD_BIAS    in dy; out dbias [1,K,1,1] (scaled); the struct's members play no part
 * alpha scales the sum alone: with alpha = 0 bias and z are read still, with alpha2 = 0 z is not.
 * Scalars: alpha, beta; forward and backward data also alpha2 (1 where unbound), coef (of the activation).
 * Any layout and mix of layouts by strides. cudnnConvolutionForward, ...BackwardData, ...BackwardFilter,
 * ...BackwardBias, cudnnConvolutionBiasActivationForward.
 *
 * dtypes: f32, f16, bf16, f64 (devices that have it), one for all tensors of a call; CONV_FORWARD also integers:
 *   x i8 or u8, w i8, y (and z) i8, u8, f32 or i32; bias i32 or f32; scales f32. Products are of (x - x_zero), with
 *   x_zero outside x too, and w; their sum and an i32 bias are added exactly in 32 bits (beyond these they wrap). Then,
 *   each step rounded to f32, so that every device gives the same bits:
 *     v = float(sum + bias_i32);  v = v * (alpha * scales[k]);  v = v + bias_f32;  v = v + alpha2 * z;
 *     v = v + beta * y;  v = f(v), f not sigmoid or tanh;  y f32: v;  y i8 or u8: v rounded half to even, plus y_zero, saturated; NaN
 *     gives y_zero. z and the old y enter as they are stored.
 *   y i32 is sum + bias_i32 alone: no scales, z, activation or f32 bias, alpha 1, beta 0.
 *   Scalars x_zero (range of x's dtype), y_zero (of y's): 0 where unbound. ONNX QLinearConv with w_zero_point 0. */
typedef struct anydnn_conv {
    uint32_t struct_size;
    int32_t op;
    int32_t pad_mode;    /* anydnn_pad_mode */
    int32_t mode;        /* 0 = cross-correlation; 1 = convolution (flipped filter) */
    int64_t groups;      /* 0 = 1; divides C and K */
    int64_t stride[3];   /* 0 = 1 */
    int64_t pad[3];      /* leading zeros, >= 0 */
    int64_t pad_end[3];  /* trailing zeros, >= 0, with ANYDNN_PAD_EXPLICIT */
    int64_t dilation[3]; /* 0 = 1 */
    int32_t activation;  /* anydnn_conv_activation; CONV_FORWARD and CONV_BACKWARD_DATA */
    int32_t reserved;    /* 0 */
} anydnn_conv;

/* ---------------------------------------------------------------- matmul -------------------------------------- */

/* y[..., m, n] = alpha * sum over k of a'[..., m, k] * b'[..., k, n] + bias[..., n] + beta * y[..., m, n]
 * over the last two dims, a' = a or its transpose, likewise b'. Leading dims are batches: equal, or 1 in a or b
 * (broadcast); a, b and y have the same ndim (2..8).
 *   MATMUL  in a [..., M, K], b [..., K, N], bias [optional; all dims 1 but the last = N]; out y [..., M, N] (scaled).
 *           Scalars alpha, beta. With alpha = 0 the bias is read still.
 * Backward is the same operation: da = dy * b', db = a' * dy with the transposes exchanged.
 * ONNX MatMul, Gemm; cublasGemmStridedBatchedEx. */
typedef struct anydnn_matmul {
    uint32_t struct_size;
    int32_t op;
    int32_t trans_a; /* 1: a is stored [..., K, M] */
    int32_t trans_b; /* 1: b is stored [..., N, K] */
} anydnn_matmul;

/* ---------------------------------------------------------------- pooling ------------------------------------- */

typedef enum anydnn_pool_mode {
    ANYDNN_POOL_MAX = 0,
    ANYDNN_POOL_AVG_INCLUDE = 1, /* divisor: window cells inside the padded input (pad + size + pad_end) */
    ANYDNN_POOL_AVG_EXCLUDE = 2  /* divisor: window cells inside the input */
} anydnn_pool_mode;

/* Pooling over 1 to 3 spatial dimensions: x [N, C, (D, H,) W], y [N, C, (O, P,) Q], arrays as in anydnn_conv.
 *   P = floor((H + pad + pad_end - dilation*(window-1) - 1) / stride) + 1; with ceil_mode ceil instead of floor, less
 *   one where the last window would begin behind H + pad. pad and pad_end must be smaller than the (dilated) window,
 *   window and dilation below 2^31; a P below 1 from a non-empty input is INVALID.
 *   forward  max: the largest element (NaN wins; ties: the first in row-major order; padding never wins);
 *            avg: sum of the elements inside / divisor. Dilated windows may hold no element: then max is -inf,
 *            AVG_INCLUDE 0 and AVG_EXCLUDE NaN.
 *   backward max: dx receives dy at the winning element, found from `indices` where bound, else by repeating the search
 *            in x; avg: dy / divisor to each element inside. Windows that share an element add up.
 *   indices (i32) hold the winner's row-major offset within its [D, H, W] plane of x; -1 for a window without element.
 *   POOL_FORWARD   in x; out y (scaled), indices [optional, max only, shape of y]
 *   POOL_BACKWARD  in dy, x [needed for max without indices], indices [optional, max only, shape of dy];
 *                  out dx (scaled)
 *   Where indices are bound a plane of x has fewer than 2^31 elements.
 * Scalars: alpha, beta. ONNX MaxPool, AveragePool; cudnnPoolingForward, cudnnPoolingBackward. */
typedef struct anydnn_pool {
    uint32_t struct_size;
    int32_t op;
    int32_t mode;      /* anydnn_pool_mode */
    int32_t pad_mode;  /* anydnn_pad_mode */
    int32_t ceil_mode; /* 1: round the output size up */
    int32_t reserved;  /* 0 */
    int64_t window[3]; /* >= 1 */
    int64_t stride[3]; /* 0 = 1 */
    int64_t pad[3];
    int64_t pad_end[3];
    int64_t dilation[3]; /* 0 = 1 */
} anydnn_pool;

/* ---------------------------------------------------------------- activation ---------------------------------- */

typedef enum anydnn_activation_mode {
    ANYDNN_RELU = 0,         /* x < 0 ? 0 : x */
    ANYDNN_LEAKY_RELU = 1,   /* x < 0 ? coef * x : x; coef 0.01 where unbound */
    ANYDNN_CLIPPED_RELU = 2, /* x < 0 ? 0 : x > coef ? coef : x; coef 6 where unbound */
    ANYDNN_SIGMOID = 3,      /* 1 / (1 + exp(-x)) */
    ANYDNN_TANH = 4
} anydnn_activation_mode;

/* y = f(x), elementwise, and dx = f'(x) * dy.
 *   f': relu x > 0; leaky x > 0 ? 1 : coef; clipped 0 < x < coef; sigmoid y(1-y); tanh 1-y^2; a NaN x gives NaN.
 *   ACTIVATION_FORWARD   in x; out y (scaled). In place: y on x.
 *   ACTIVATION_BACKWARD  in dy, and x or y (at least one): relu, leaky and clipped use x where bound, else y (leaky
 *                        then needs coef >= 0, checked when it runs); sigmoid and tanh use y where bound, else x;
 *                        out dx (scaled). In place: dx on dy.
 * Any shape, equal in all tensors. Scalars: alpha, beta, coef. ONNX Relu, LeakyRelu, Clip, Sigmoid, Tanh;
 * cudnnActivationForward, cudnnActivationBackward. */
typedef struct anydnn_activation {
    uint32_t struct_size;
    int32_t op;
    int32_t mode; /* anydnn_activation_mode */
    int32_t reserved;
} anydnn_activation;

/* ---------------------------------------------------------------- softmax ------------------------------------- */

typedef enum anydnn_softmax_mode { ANYDNN_SOFTMAX = 0, ANYDNN_LOG_SOFTMAX = 1 } anydnn_softmax_mode;

/* Over the axes of `axes`, jointly, with m = max x; all tensors have one shape, of 2 dims at least where axes is 0:
 *   softmax      y = exp(x - m) / sum exp(x - m)          dx = y * (dy - sum(dy * y))
 *   log-softmax  y = x - m - log(sum exp(x - m))          dx = dy - exp(y) * sum(dy)
 * A row with a NaN or +inf, or of nothing but -inf, is NaN throughout; cross entropy below takes the same p.
 *   SOFTMAX_FORWARD   in x; out y (scaled). In place: y on x.
 *   SOFTMAX_BACKWARD  in y (of forward), dy; out dx (scaled). In place: dx on dy.
 * Scalars: alpha, beta. ONNX Softmax, LogSoftmax; cudnnSoftmaxForward, cudnnSoftmaxBackward. */
typedef struct anydnn_softmax {
    uint32_t struct_size;
    int32_t op;
    int32_t mode;  /* anydnn_softmax_mode */
    uint32_t axes; /* bit i = axis i; 0 = axis 1 (channels) */
} anydnn_softmax;

/* ---------------------------------------------------------------- cross entropy ------------------------------- */

typedef enum anydnn_loss_reduction { ANYDNN_LOSS_MEAN = 0, ANYDNN_LOSS_SUM = 1, ANYDNN_LOSS_NONE = 2 } anydnn_loss_reduction;

/* Softmax and cross entropy in one. x [N, C, ...] (2 to 8 dims) are logits, labels [N, 1, ...] class numbers (i32 or
 * i64, the dims of x with C replaced by 1). With p = softmax over axis 1 and e = smoothing:
 *   row loss  l = -(1-e) * log p[label] - e/C * sum over c of log p[c]
 *   mean = sum of l / number of counted rows; a negative label leaves its row out (loss 0, gradient 0); no counted
 *   row at all: mean is 0 and gradients are 0. A label >= C gives NaN in its row's loss and gradient; nothing is read
 *   out of bounds.
 *   dx[n,c] = (p[c] - (1-e)*[c = label] - e/C) * g, g = dloss / counted rows (mean), dloss (sum), dloss[n] (none)
 *   CROSS_ENTROPY_FORWARD   in x, labels; out loss: all dims 1 (mean, sum), or the dims of labels (none); f32
 *   CROSS_ENTROPY_BACKWARD  in x, labels, dloss [optional: 1; f32; shape of loss]; out dx. In place: dx on x.
 * Scalars: smoothing (0 where unbound, 0..1). ONNX SoftmaxCrossEntropyLoss. */
typedef struct anydnn_cross_entropy {
    uint32_t struct_size;
    int32_t op;
    int32_t reduction; /* anydnn_loss_reduction */
    int32_t reserved;
} anydnn_cross_entropy;

/* ---------------------------------------------------------------- batch normalisation ------------------------- */

typedef enum anydnn_batchnorm_mode {
    ANYDNN_BATCHNORM_SPATIAL = 0,       /* statistics per channel; parameters [1, C, 1, ...] */
    ANYDNN_BATCHNORM_PER_ACTIVATION = 1 /* statistics per (channel, position); parameters [1, C, spatial...] */
} anydnn_batchnorm_mode;

/* x, y, dy, dx [N, C, spatial...] of 2 to 5 dims. With mean and var (biased) over n = N * spatial elements (spatial) or
 * N (per activation), two-pass in at least f32:
 *   y = gamma * (x - mean) * invstd + shift, invstd = 1 / sqrt(var + epsilon)
 *   running = (1 - factor) * running + factor * batch statistic; running_var takes the unbiased var * n/(n-1)
 *   (n = 1: 0, and y = shift).
 *   dshift = sum dy, dgamma = sum dy * (x - mean) * invstd,
 *   dx = gamma * invstd * (dy - dshift/n - (x - mean) * invstd * dgamma/n)
 *   BATCHNORM_TRAINING   in x, gamma, shift; out y (scaled), saved_mean, saved_invstd [both or neither];
 *                        in-out running_mean, running_var [both or neither]. Scalars factor (0.1 where unbound;
 *                        0..1), epsilon. In place: y on x.
 *   BATCHNORM_INFERENCE  in x, gamma, shift, running_mean, running_var; out y (scaled). In place: y on x.
 *   BATCHNORM_BACKWARD   in x, dy, gamma, saved_mean, saved_invstd [both or neither: recomputed]; out dx (scaled),
 *                        dgamma, dshift (scaled by scalars of their own: param_alpha * result + param_beta * old; 1
 *                        and 0 where unbound, and with 0 the old ones are not read). In place: dx on dy.
 * Scalars: alpha, beta, epsilon (1e-5 where unbound, >= 0). Parameters, statistics and their gradients are f32 with
 * f32, f16 and bf16 data. An empty batch gives gradients of 0, saved_mean 0 and saved_invstd 1/sqrt(epsilon), and
 * leaves running statistics unchanged.
 * ONNX BatchNormalization; cudnnBatchNormalizationForwardTraining, ...Inference, ...Backward. */
typedef struct anydnn_batchnorm {
    uint32_t struct_size;
    int32_t op;
    int32_t mode; /* anydnn_batchnorm_mode */
    int32_t reserved;
} anydnn_batchnorm;

/* ---------------------------------------------------------------- elementwise binary -------------------------- */

typedef enum anydnn_binary_mode {
    ANYDNN_ADD = 0, ANYDNN_SUB = 1, ANYDNN_MUL = 2, ANYDNN_DIV = 3,
    ANYDNN_MAXIMUM = 4, ANYDNN_MINIMUM = 5 /* NaN wins in both */
} anydnn_binary_mode;

/* y = op(alpha * a, alpha2 * b) + beta * y with broadcasting: a, b and y have the same ndim, each dim of a and b is
 * that of y or 1. With alpha = 0 a is not read and counts as 0, with alpha2 = 0 b.
 *   BINARY           in a, b; out y. In place: y on a or b where that has y's shape.
 *   BINARY_BACKWARD  in a, b [needed by mul, div, max, min], dy; out da [optional], db [optional], at least one:
 *                    the gradient of op(a, b), summed over broadcast axes; shapes of a and b. Max and min give the
 *                    gradient to a on ties. da, db are scaled. In place: da or db on dy where that has dy's shape and
 *                    it is the only output.
 * Scalars: alpha, alpha2 (1 where unbound), beta in BINARY; alpha, beta in BINARY_BACKWARD.
 * cudnnOpTensor, cudnnAddTensor; ONNX Add, Sub, Mul, Div, Max, Min. */
typedef struct anydnn_binary {
    uint32_t struct_size;
    int32_t op;
    int32_t mode; /* anydnn_binary_mode */
    int32_t reserved;
} anydnn_binary;

/* ---------------------------------------------------------------- reduce -------------------------------------- */

typedef enum anydnn_reduce_mode {
    ANYDNN_REDUCE_SUM = 0, ANYDNN_REDUCE_MEAN = 1, ANYDNN_REDUCE_MAX = 2,
    ANYDNN_REDUCE_MIN = 3,
    ANYDNN_REDUCE_AMAX = 4,  /* largest |x| */
    ANYDNN_REDUCE_NORM1 = 5, /* sum of |x| */
    ANYDNN_REDUCE_NORM2 = 6  /* root of the sum of x^2 */
} anydnn_reduce_mode;

/* Reduction of x over a set of axes; y has the dims of x with 1 in the reduced axes. Over no elements: sum 0, mean
 * NaN, max -inf, min +inf, amax and norms 0. NaN wins in max, min and amax. Squares are summed in f32 (f64 for f64):
 * no f16 overflows there, but magnitudes beyond 2^63 do.
 *   REDUCE           in x; out y (scaled)
 *   REDUCE_BACKWARD  in dy, x [max only]; out dx (scaled): sum dy; mean dy / count; max dy at the first largest
 *                    element in row-major order (the first NaN before all), 0 elsewhere; the other modes are INVALID
 * Scalars: alpha, beta. cudnnReduceTensor; ONNX ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceL1, ReduceL2
 * (keepdims 1). */
typedef struct anydnn_reduce {
    uint32_t struct_size;
    int32_t op;
    int32_t mode;  /* anydnn_reduce_mode */
    uint32_t axes; /* bit i = axis i; 0 = all axes */
} anydnn_reduce;

/* ---------------------------------------------------------------- copy, fill, scale --------------------------- */

/* COPY   in x; out y (scaled): y = alpha * x + beta * y, equal dims, any strides and any pair of dtypes (all of
 *        anydnn_dtype; f64 where the device has it).
 *        To integers: round half to even, saturate, NaN gives 0. To floats with alpha 1 and beta 0: x is rounded once,
 *        whatever the device computes in. Where x and y are i32 or i64 and alpha and beta are
 *        whole numbers (up to 2^53 in magnitude), the sum is exact modulo 2^64, then saturated to i32: alpha 1 and
 *        beta 1 advance a counter in device memory. Scalars alpha, beta. cudnnTransformTensor, ONNX Cast.
 * FILL   out y = value (any dtype, converted as by COPY). Scalar value (0 where unbound). cudnnSetTensor, ONNX
 *        ConstantOfShape.
 * SCALE  in-out y = alpha * y. Scalar alpha. cudnnScaleTensor. */
typedef struct anydnn_elementwise {
    uint32_t struct_size;
    int32_t op;
} anydnn_elementwise;

/* ---------------------------------------------------------------- dropout ------------------------------------- */

/* y = u >= ratio ? x * (1 / (1 - ratio)) : 0 with u uniform in [0, 1); ratio = 1 gives 0 throughout.
 * u of element i (row-major number in the dims, whatever the strides) is (r >> 8) * 2^-24, r = word i%4 of
 * Philox4x32-10 with key = seed (low word first) and counter = offset + i/4 (low word first, 128 bits): the same
 * bits on every device. A call uses ceil(count / 4) counters: advance offset by that much for the next one.
 *   DROPOUT_FORWARD   in x; out y. In place: y on x.
 *   DROPOUT_BACKWARD  in dy; out dx, the same mask from the same ratio, seed and offset. In place: dx on dy.
 * Scalars: ratio (0.5 where unbound, 0..1), seed and offset [device: i64] (0 where unbound; as host values whole
 * numbers from 0 below 2^53). Salmon et al., SC 2011; cudnnDropoutForward, ONNX Dropout. */
typedef struct anydnn_dropout {
    uint32_t struct_size;
    int32_t op;
} anydnn_dropout;

/* ---------------------------------------------------------------- optimisers ---------------------------------- */

/* SGD   g = grad + weight_decay * param;
 *       with moment1 bound (nesterov needs it): m = momentum * m + g, and g = m, or g + momentum * m with nesterov;
 *       param -= lr * g.                                           Sutskever et al., ICML 2013
 *       in grad; in-out param, moment1 [optional, f32]. Scalars lr [device: f32] (0.001 where unbound), momentum (0),
 *       weight_decay (0).
 * ADAM  g = grad + weight_decay * param (decoupled: param -= lr * weight_decay * param first, g = grad);
 *       m1 = beta1 * m1 + (1-beta1) * g; m2 = beta2 * m2 + (1-beta2) * g^2;
 *       param -= lr * (m1 / (1 - beta1^step)) / (sqrt(m2 / (1 - beta2^step)) + epsilon).
 *                                                    Kingma and Ba, ICLR 2015; Loshchilov and Hutter, ICLR 2019
 *       in grad; in-out param, moment1, moment2 (f32). Scalars lr [device: f32] (0.001 where unbound), beta1 (0.9)
 *       and beta2 (0.999) from 0 below 1, epsilon (1e-8, >= 0), weight_decay (0), step [device: i64] (1; whole numbers
 *       from 1 below 2^53).
 * param and grad each have a dtype of their own; all shapes are equal, strides free. */
typedef struct anydnn_optimizer {
    uint32_t struct_size;
    int32_t op;
    int32_t nesterov;  /* SGD */
    int32_t decoupled; /* ADAM: AdamW */
} anydnn_optimizer;

/* Inits: the struct with its size, operation and defaults. */
#define ANYDNN_DEFINE_INIT(name, type, id)                                                                             \
    static inline type name(void)                                                                                      \
    {                                                                                                                  \
        type op;                                                                                                       \
        unsigned char *bytes = (unsigned char *)&op;                                                                   \
        size_t i;                                                                                                      \
        for (i = 0; i < sizeof op; i++) bytes[i] = 0;                                                                  \
        op.struct_size = (uint32_t)sizeof op;                                                                          \
        op.op = id;                                                                                                    \
        return op;                                                                                                     \
    }
ANYDNN_DEFINE_INIT(anydnn_conv_init, anydnn_conv, ANYDNN_OP_CONV_FORWARD)
ANYDNN_DEFINE_INIT(anydnn_matmul_init, anydnn_matmul, ANYDNN_OP_MATMUL)
ANYDNN_DEFINE_INIT(anydnn_pool_init, anydnn_pool, ANYDNN_OP_POOL_FORWARD)
ANYDNN_DEFINE_INIT(anydnn_activation_init, anydnn_activation, ANYDNN_OP_ACTIVATION_FORWARD)
ANYDNN_DEFINE_INIT(anydnn_softmax_init, anydnn_softmax, ANYDNN_OP_SOFTMAX_FORWARD)
ANYDNN_DEFINE_INIT(anydnn_cross_entropy_init, anydnn_cross_entropy, ANYDNN_OP_CROSS_ENTROPY_FORWARD)
ANYDNN_DEFINE_INIT(anydnn_batchnorm_init, anydnn_batchnorm, ANYDNN_OP_BATCHNORM_TRAINING)
ANYDNN_DEFINE_INIT(anydnn_binary_init, anydnn_binary, ANYDNN_OP_BINARY)
ANYDNN_DEFINE_INIT(anydnn_reduce_init, anydnn_reduce, ANYDNN_OP_REDUCE)
ANYDNN_DEFINE_INIT(anydnn_copy_init, anydnn_elementwise, ANYDNN_OP_COPY)
ANYDNN_DEFINE_INIT(anydnn_fill_init, anydnn_elementwise, ANYDNN_OP_FILL)
ANYDNN_DEFINE_INIT(anydnn_scale_init, anydnn_elementwise, ANYDNN_OP_SCALE)
ANYDNN_DEFINE_INIT(anydnn_dropout_init, anydnn_dropout, ANYDNN_OP_DROPOUT_FORWARD)
ANYDNN_DEFINE_INIT(anydnn_sgd_init, anydnn_optimizer, ANYDNN_OP_SGD)
ANYDNN_DEFINE_INIT(anydnn_adam_init, anydnn_optimizer, ANYDNN_OP_ADAM)
#undef ANYDNN_DEFINE_INIT

#ifdef __cplusplus
}
#endif
#endif
