/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/reports.c [DEVICE]: public bug reports on other libraries whose right answer is known: values worked out by
 * hand, for every engine that takes the problem. Problems without such values, compared with the CPU reference instead,
 * are in tests/cases/reports.cases; rules of calls are in report_calls.c. */
#include "../support/job.h"
#include "../unit/unit.h"

#include <math.h>

static struct session s;

/* ---- Values ---- */

/* Contents of a role: `count` values, repeated as often as needed. */
struct content {
    int role, count;
    double values[32];
    double tolerance;
};

struct report {
    const char *name, *line;
    struct content given[6], want[4]; /* a count of 0 ends each */
};

#define EPS_STD 0.9999950000374997 /* 1 / sqrt(1 + 1e-5) */

static const struct report reports[] = {
    { "pytorch/pytorch#19912: grouped 1x1 convolution of one pixel",
      "conv_forward x=1x4x1x1/f32 w=16x2x1x1/f32 groups=2",
      { { ANYDNN_X, 4, { 0, 0, 0, 1 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 } },
      { { ANYDNN_Y, 16, { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1 }, 0 } } },
    { "pytorch/pytorch#54036: 1x1 with stride",
      "conv_forward x=1x1x3x3/f32 w=1x1x1x1/f32 stride=2,2",
      { { ANYDNN_X, 9, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 0 }, { ANYDNN_W, 1, { 2 }, 0 } },
      { { ANYDNN_Y, 4, { 2, 6, 14, 18 }, 0 } } },
    { "pytorch/pytorch#54036: 1x1 with padding, whose border is the bias",
      "conv_forward x=1x1x1x1/f32 w=1x1x1x1/f32 bias=1x1x1x1/f32 pad=1,1",
      { { ANYDNN_X, 1, { 3 }, 0 }, { ANYDNN_W, 1, { 2 }, 0 }, { ANYDNN_BIAS, 1, { 0.5 }, 0 } },
      { { ANYDNN_Y, 9, { 0.5, 0.5, 0.5, 0.5, 6.5, 0.5, 0.5, 0.5, 0.5 }, 0 } } },
    { "apache/mxnet#11203: transposed convolution, filter 1 at its centre",
      "conv_backward_data dy=1x1x3x3/f32 w=1x1x3x3/f32 dx=1x1x5x5/f32 stride=2,2 pad=2,2 dilation=2,2",
      { { ANYDNN_DY, 9, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 0 }, { ANYDNN_W, 9, { 0, 0, 0, 0, 1, 0, 0, 0, 0 }, 0 } },
      { { ANYDNN_DX, 25, { 1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8, 0, 9 }, 0 } } },
    { "apache/mxnet#11203: transposed convolution, filter all 1",
      "conv_backward_data dy=1x1x3x3/f32 w=1x1x3x3/f32 dx=1x1x5x5/f32 stride=2,2 pad=2,2 dilation=2,2",
      { { ANYDNN_DY, 9, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 } },
      { { ANYDNN_DX,
          25,
          { 12, 0, 21, 0, 16, 0, 0, 0, 0, 0, 27, 0, 45, 0, 33, 0, 0, 0, 0, 0, 24, 0, 39, 0, 28 },
          0 } } },
    { "tensorflow/tensorflow#14657: filter gradient of an empty batch",
      "conv_backward_filter x=0x3x3x3/f32 dy=0x3x1x1/f32 dw=3x3x3x3/f32",
      { { 0, 0, { 0 }, 0 } },
      { { ANYDNN_DW, 1, { 0 }, 0 } } },
    { "tensorflow/tensorflow#14657: the same with beta",
      "conv_backward_filter x=0x3x3x3/f32 dy=0x3x1x1/f32 dw=3x3x3x3/f32 beta=0.5",
      { { ANYDNN_DW, 2, { 4, -6 }, 0 } },
      { { ANYDNN_DW, 2, { 2, -3 }, 0 } } },
    { "tensorflow/tensorflow#14657: batch normalisation of an empty batch",
      "batchnorm_training x=0x2x4x4/f32 gamma=1x2x1x1/f32 shift=1x2x1x1/f32 running_mean=1x2x1x1/f32 "
      "running_var=1x2x1x1/f32",
      { { ANYDNN_GAMMA, 1, { 1 }, 0 },
        { ANYDNN_SHIFT, 1, { 0 }, 0 },
        { ANYDNN_RUNNING_MEAN, 2, { 3, 4 }, 0 },
        { ANYDNN_RUNNING_VAR, 2, { 5, 6 }, 0 } },
      { { ANYDNN_RUNNING_MEAN, 2, { 3, 4 }, 0 }, { ANYDNN_RUNNING_VAR, 2, { 5, 6 }, 0 } } },
    { "pytorch/pytorch#19599: convolution of an empty batch",
      "conv_forward x=0x3x3x3/f32 w=3x3x3x3/f32",
      { { ANYDNN_W, 1, { 1 }, 0 } },
      { { ANYDNN_Y, 1, { 0 }, 0 } } },
    { "chainer/chainer#3554: pooling of an empty row",
      "pool_forward x=1x1x1x0/f32 window=1,1",
      { { 0, 0, { 0 }, 0 } },
      { { ANYDNN_Y, 1, { 0 }, 0 } } },
    { "pytorch/pytorch#4500: a filter expanded by stride 0",
      "conv_forward x=1x1x3/f32 w=1x1x2:s1,1,0/f32",
      { { ANYDNN_X, 1, { 1 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 } },
      { { ANYDNN_Y, 1, { 2 }, 0 } } },
    { "ggml-org/llama.cpp#25568: sum over a permuted tensor",
      "reduce x=3x4:s1,3/f32 axes=1",
      { { ANYDNN_X, 12, { 1, 2, 3, 4, 10, 20, 30, 40, 100, 200, 300, 400 }, 0 } },
      { { ANYDNN_Y, 3, { 10, 100, 1000 }, 0 } } },
    { "pytorch/pytorch#39846: max pooling of NaN alone",
      "pool_forward x=1x1x4x4x4/f32 indices=1x1x2x2x2/i32 mode=max window=2,2,2 stride=2,2,2",
      { { ANYDNN_X, 1, { NAN }, 0 } },
      { { ANYDNN_Y, 1, { NAN }, 0 }, { ANYDNN_INDICES, 8, { 0, 2, 8, 10, 32, 34, 40, 42 }, 0 } } },
    { "pytorch/pytorch#7645: max pooling of NaN at each place of the window",
      "pool_forward x=1x5x1x4/f32 indices=1x5x1x1/i32 mode=max window=1,4",
      { { ANYDNN_X, 20, { NAN, 1, 2, 3, 4, NAN, 2, 3, 4, 1, NAN, 3, 4, 1, 2, NAN, 1, 2, INFINITY, 3 }, 0 } },
      { { ANYDNN_Y, 5, { NAN, NAN, NAN, NAN, INFINITY }, 0 }, { ANYDNN_INDICES, 5, { 0, 1, 2, 3, 2 }, 0 } } },
    { "apache/mxnet#11115: relu of NaN",
      "activation_forward x=9/f32 mode=relu",
      { { ANYDNN_X, 5, { NAN, -1, 2, -INFINITY, INFINITY }, 0 } },
      { { ANYDNN_Y, 5, { NAN, 0, 2, 0, INFINITY }, 0 } } },
    { "apache/mxnet#11115: clipped relu of NaN",
      "activation_forward x=9/f16 mode=clipped_relu",
      { { ANYDNN_X, 5, { NAN, -1, 2, -INFINITY, INFINITY }, 0 } },
      { { ANYDNN_Y, 5, { NAN, 0, 2, 0, 6 }, 0 } } },
    { "apache/mxnet#11115: maximum with NaN",
      "binary a=4/f32 b=4/f32 mode=max",
      { { ANYDNN_A, 4, { NAN, 1, NAN, 3 }, 0 }, { ANYDNN_B, 4, { 1, NAN, NAN, 2 }, 0 } },
      { { ANYDNN_Y, 4, { NAN, NAN, NAN, 3 }, 0 } } },
    { "apache/mxnet#13141: softmax of very negative rows",
      "softmax_forward x=2x4/f32",
      { { ANYDNN_X, 8, { -1e38, -1e38, -1e38, -1e38, -3e38, 0, -3e38, -3e38 }, 0 } },
      { { ANYDNN_Y, 8, { 0.25, 0.25, 0.25, 0.25, 0, 1, 0, 0 }, 1e-7 } } },
    { "uxlfoundation/oneDNN#106: softmax of values that overflow alone",
      "softmax_forward x=1x4/f32",
      { { ANYDNN_X, 4, { 1000, 1000, -INFINITY, 1000 }, 0 } },
      { { ANYDNN_Y, 4, { 1. / 3, 1. / 3, 0, 1. / 3 }, 1e-7 } } },
    { "no digits lost in a sum of 131073 exponentials: softmax",
      "softmax_forward x=1x131073/f32 mode=log",
      { { ANYDNN_X, 2, { 0, -0.75 }, 0 } },
      { { ANYDNN_Y, 2, { -11.477236258464831, -12.227236258464831 }, 1e-5 } } },
    { "no digits lost in a sum of 131073 exponentials: loss",
      "cross_entropy_forward x=1x131073/f32 labels=1x1/i32",
      { { ANYDNN_X, 2, { 0, -0.75 }, 0 }, { ANYDNN_LABELS, 1, { 2 }, 0 } },
      { { ANYDNN_LOSS, 1, { 11.477236258464831 }, 1e-5 } } },
    { "pytorch/pytorch#12484: one NaN in the filter",
      "conv_forward x=1x2x6/f32 w=2x2x3/f32",
      { { ANYDNN_X, 1, { 1 }, 0 }, { ANYDNN_W, 12, { 1, 1, 1, 1, 1, 1, 1, NAN, 1, 1, 1, 1 }, 0 } },
      { { ANYDNN_Y, 8, { 6, 6, 6, 6, NAN, NAN, NAN, NAN }, 0 } } },
    { "BVLC/caffe#3963: batch normalisation of a constant",
      "batchnorm_training x=1x1x3x3/f32 gamma=1x1x1x1/f32 shift=1x1x1x1/f32 saved_mean=1x1x1x1/f32 "
      "saved_invstd=1x1x1x1/f32",
      { { ANYDNN_X, 1, { 100 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 }, { ANYDNN_SHIFT, 1, { 0 }, 0 } },
      { { ANYDNN_Y, 1, { 0 }, 0 },
        { ANYDNN_SAVED_MEAN, 1, { 100 }, 0 },
        { ANYDNN_SAVED_INVSTD, 1, { 316.227766 }, 1e-3 } } },
    { "tensorflow/tensorflow#118701: a mean of 1e4",
      "batchnorm_training x=2x3x2x2/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32",
      { { ANYDNN_X, 2, { 9999, 10001 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 }, { ANYDNN_SHIFT, 1, { 0 }, 0 } },
      { { ANYDNN_Y, 2, { -EPS_STD, EPS_STD }, 1e-6 } } },
    { "tensorflow/tensorflow#118701: a mean of 1e5",
      "batchnorm_training x=2x8x1x2/f32 gamma=1x8x1x1/f32 shift=1x8x1x1/f32",
      { { ANYDNN_X, 2, { 99999, 100001 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 }, { ANYDNN_SHIFT, 1, { 0 }, 0 } },
      { { ANYDNN_Y, 2, { -EPS_STD, EPS_STD }, 1e-6 } } },
    { "tensorflow/tensorflow#118701: a mean of 1e7",
      "batchnorm_training x=2x3x2x2/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32",
      { { ANYDNN_X, 2, { 9999999, 10000001 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 }, { ANYDNN_SHIFT, 1, { 0 }, 0 } },
      { { ANYDNN_Y, 2, { -EPS_STD, EPS_STD }, 1e-6 } } },
    { "tensorflow/tensorflow#118701: gradients at a mean of 1e7",
      "batchnorm_backward x=1x1x2x2/f32 dy=1x1x2x2/f32 gamma=1x1x1x1/f32",
      { { ANYDNN_X, 2, { 9999999, 10000001 }, 0 }, { ANYDNN_DY, 4, { 1, 0, 0, 0 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 } },
      { { ANYDNN_DX, 4, { 0.5, 0, -0.5, 0 }, 2e-5 },
        { ANYDNN_DGAMMA, 1, { -EPS_STD }, 1e-6 },
        { ANYDNN_DSHIFT, 1, { 1 }, 0 } } },
    { "tensorflow/tensorflow#34062: one value for each channel",
      "batchnorm_training x=1x4x1x1/f32 gamma=1x4x1x1/f32 shift=1x4x1x1/f32 running_mean=1x4x1x1/f32 "
      "running_var=1x4x1x1/f32 factor=0.5",
      { { ANYDNN_X, 4, { 3, -5, 7, 1000 }, 0 },
        { ANYDNN_GAMMA, 1, { 2 }, 0 },
        { ANYDNN_SHIFT, 4, { 1, 2, 3, 4 }, 0 },
        { ANYDNN_RUNNING_MEAN, 1, { 1 }, 0 },
        { ANYDNN_RUNNING_VAR, 4, { 2, 4, 6, 8 }, 0 } },
      { { ANYDNN_Y, 4, { 1, 2, 3, 4 }, 0 },
        { ANYDNN_RUNNING_MEAN, 4, { 2, -2, 4, 500.5 }, 0 },
        { ANYDNN_RUNNING_VAR, 4, { 1, 2, 3, 4 }, 0 } } },
    { "apache/mxnet#21111: the running variance is the unbiased one",
      "batchnorm_training x=1x6x5/f32 gamma=1x6x1/f32 shift=1x6x1/f32 running_mean=1x6x1/f32 running_var=1x6x1/f32 "
      "factor=1",
      { { ANYDNN_X, 5, { 1, 2, 3, 4, 5 }, 0 },
        { ANYDNN_GAMMA, 1, { 1 }, 0 },
        { ANYDNN_SHIFT, 1, { 0 }, 0 },
        { ANYDNN_RUNNING_MEAN, 1, { 9 }, 0 },
        { ANYDNN_RUNNING_VAR, 1, { 9 }, 0 } },
      { { ANYDNN_RUNNING_MEAN, 1, { 3 }, 1e-6 }, { ANYDNN_RUNNING_VAR, 1, { 2.5 }, 1e-6 } } },
    { "tensorflow/tensorflow#8090: epsilon 0",
      "batchnorm_training x=1x2x1x2/f32 gamma=1x2x1x1/f32 shift=1x2x1x1/f32 epsilon=0",
      { { ANYDNN_X, 4, { 0, 2, 1, 1.5 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 }, { ANYDNN_SHIFT, 1, { 0 }, 0 } },
      { { ANYDNN_Y, 2, { -1, 1 }, 1e-6 } } },
    { "pytorch/pytorch#1623: epsilon 1e-12 is taken as given",
      "batchnorm_training x=1x1x1x2/f32 gamma=1x1x1x1/f32 shift=1x1x1x1/f32 saved_mean=1x1x1x1/f32 "
      "saved_invstd=1x1x1x1/f32 epsilon=1e-12",
      { { ANYDNN_X, 1, { 5 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 }, { ANYDNN_SHIFT, 1, { 0 }, 0 } },
      { { ANYDNN_Y, 1, { 0 }, 0 }, { ANYDNN_SAVED_INVSTD, 1, { 1e6 }, 1 } } },
    { "microsoft/onnxruntime#29034: squares that overflow half",
      "batchnorm_training x=2x2x2x2/f16 gamma=1x2x1x1/f32 shift=1x2x1x1/f32",
      { { ANYDNN_X, 2, { -30000, 30000 }, 0 }, { ANYDNN_GAMMA, 1, { 1 }, 0 }, { ANYDNN_SHIFT, 1, { 0 }, 0 } },
      { { ANYDNN_Y, 2, { -1, 1 }, 0 } } },
    { "ROCm/MIOpen#2109: an average of 65025 halves",
      "pool_forward x=1x3x255x255/f16 mode=avg_include window=255,255",
      { { ANYDNN_X, 3, { 0.25, 0.75, 0.5 }, 0 } },
      { { ANYDNN_Y, 1, { 0.5 }, 2e-4 } } },
    { "ROCm/MIOpen#2109: no digits lost in an average of 131072",
      "pool_forward x=1x1x256x512/f32 mode=avg_include window=256,512",
      { { ANYDNN_X, 2, { 0.1, 0.7 }, 0 } },
      { { ANYDNN_Y, 1, { 0.4 }, 1e-6 } } },
    { "pytorch/pytorch#2391: a sum whose parts overflow half",
      "reduce x=8/f16",
      { { ANYDNN_X, 8, { 32000, 32000, 32000, 32000, -32000, -32000, -32000, -32000 }, 0 } },
      { { ANYDNN_Y, 1, { 0 }, 0 } } },
    { "ROCm/composable_kernel#135: whole numbers in bf16",
      "conv_forward x=1x32x5x5/bf16 w=4x32x3x3/bf16",
      { { ANYDNN_X, 1, { 1 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 } },
      { { ANYDNN_Y, 1, { 288 }, 0 } } },
    { "ROCm/composable_kernel#135: the same in 3-D",
      "conv_forward x=1x8x4x4x4/bf16 w=5x8x3x3x3/bf16",
      { { ANYDNN_X, 1, { 1 }, 0 }, { ANYDNN_W, 1, { -1 }, 0 } },
      { { ANYDNN_Y, 1, { -216 }, 0 } } },
    { "clMathLibraries/clBLAS#201: beta 0 does not read y",
      "matmul a=17x33/f32 b=33x65/f32 beta=0",
      { { ANYDNN_A, 1, { 1 }, 0 }, { ANYDNN_B, 1, { 2 }, 0 } },
      { { ANYDNN_Y, 1, { 66 }, 0 } } },
    { "clMathLibraries/clBLAS#201: alpha 0 reads no input",
      "matmul a=17x33/f32 b=33x65/f32 alpha=0 beta=0.5",
      { { ANYDNN_Y, 1, { 3 }, 0 } },
      { { ANYDNN_Y, 1, { 1.5 }, 0 } } },
    { "microsoft/onnxruntime#16203: padding counts in the divisor up to its end",
      "pool_forward x=1x1x9/f32 mode=avg_include window=7 stride=3 pad=3 ceil_mode=1",
      { { ANYDNN_X, 9, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 0 } },
      { { ANYDNN_Y, 4, { 10. / 7, 4, 39. / 7, 4 }, 1e-6 } } },
    { "microsoft/onnxruntime#16203: without padding",
      "pool_forward x=1x1x9/f32 mode=avg_exclude window=7 stride=3 pad=3 ceil_mode=1",
      { { ANYDNN_X, 9, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 0 } },
      { { ANYDNN_Y, 4, { 2.5, 4, 6.5, 8 }, 1e-6 } } },
    { "webmachinelearning/webnn#935: no window begins behind the input",
      "pool_forward x=1x1x5x5/f32 y=1x1x2x2/f32 mode=max window=3,3 stride=3,3 pad=1,1 ceil_mode=1",
      { { ANYDNN_X,
          25,
          { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25 },
          0 } },
      { { ANYDNN_Y, 4, { 7, 10, 22, 25 }, 0 } } },
    { "sonos/tract#2851: a last window cut by the input's end",
      "pool_forward x=1x1x5/f32 mode=avg_include window=2 stride=2 ceil_mode=1",
      { { ANYDNN_X, 5, { 1, 2, 3, 4, 5 }, 0 } },
      { { ANYDNN_Y, 3, { 1.5, 3.5, 5 }, 0 } } },
    { "apache/mxnet#6191: dilated windows that leap over the input, the largest",
      "pool_forward x=1x1x1/f32 indices=1x1x3/i32 mode=max window=2 dilation=3 pad=2 pad_end=3",
      { { ANYDNN_X, 1, { 6 }, 0 } },
      { { ANYDNN_Y, 3, { -INFINITY, -INFINITY, 6 }, 0 }, { ANYDNN_INDICES, 3, { -1, -1, 0 }, 0 } } },
    { "apache/mxnet#6191: dilated windows that leap over the input, the average with padding",
      "pool_forward x=1x1x1/f32 mode=avg_include window=2 dilation=3 pad=2 pad_end=3",
      { { ANYDNN_X, 1, { 6 }, 0 } },
      { { ANYDNN_Y, 3, { 0, 0, 3 }, 0 } } },
    { "apache/mxnet#6191: dilated windows that leap over the input, the average without padding",
      "pool_forward x=1x1x1/f32 mode=avg_exclude window=2 dilation=3 pad=2 pad_end=3",
      { { ANYDNN_X, 1, { 6 }, 0 } },
      { { ANYDNN_Y, 3, { NAN, NAN, 6 }, 0 } } },
    { "apache/mxnet#6191: dilated windows that leap over the input, gradients",
      "pool_backward dy=1x1x3/f32 dx=1x1x1/f32 mode=avg_exclude window=2 dilation=3 pad=2 pad_end=3",
      { { ANYDNN_DY, 3, { 5, 7, 2 }, 0 } },
      { { ANYDNN_DX, 1, { 2 }, 0 } } },
    { "apache/mxnet#6191: dilated windows that leap over the input, gradients of the largest",
      "pool_backward dy=1x1x3/f32 x=1x1x1/f32 dx=1x1x1/f32 mode=max window=2 dilation=3 pad=2 pad_end=3",
      { { ANYDNN_DY, 3, { 5, 7, 2 }, 0 }, { ANYDNN_X, 1, { 6 }, 0 } },
      { { ANYDNN_DX, 1, { 2 }, 0 } } },
    { "apache/mxnet#13141: rows of +inf, of -inf and with NaN",
      "softmax_forward x=4x3/f32",
      { { ANYDNN_X, 12, { 1, INFINITY, 2, -INFINITY, -INFINITY, -INFINITY, 1, NAN, 2, 5, -INFINITY, -INFINITY }, 0 } },
      { { ANYDNN_Y, 12, { NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 1, 0, 0 }, 0 } } },
    { "a loss of rows of +inf, of -inf and with NaN",
      "cross_entropy_forward x=4x3/f32 labels=4x1/i32 reduction=none",
      { { ANYDNN_X, 12, { 1, INFINITY, 2, -INFINITY, -INFINITY, -INFINITY, 1, NAN, 2, 5, -INFINITY, -INFINITY }, 0 },
        { ANYDNN_LABELS, 1, { 0 }, 0 } },
      { { ANYDNN_LOSS, 4, { NAN, NAN, NAN, 0 }, 0 } } },
    { "NVIDIA/TensorRT#3009: half to even, saturated",
      "copy x=14/f32 y=14/i8",
      { { ANYDNN_X,
          14,
          { 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, -128.5, -129, 1e9, NAN, INFINITY, -INFINITY },
          0 } },
      { { ANYDNN_Y, 14, { 0, 2, 2, 0, -2, -2, 126, 127, -128, -128, 127, 0, 127, -128 }, 0 } } },
    { "NVIDIA/TensorRT#3009: the same for bytes without sign",
      "copy x=9/f16 y=9/u8",
      { { ANYDNN_X, 9, { 0.5, 1.5, 2.5, -0.5, -3, 255, 256, 65504, NAN }, 0 } },
      { { ANYDNN_Y, 9, { 0, 2, 2, 0, 0, 255, 255, 255, 0 }, 0 } } },
    { "NVIDIA/TensorRT#3009: the same for 32 bits",
      "copy x=8/f32 y=8/i32",
      { { ANYDNN_X, 8, { 0.5, 1.5, -2.5, 2147483520, 2147483648, -2147483648, -3e9, NAN }, 0 } },
      { { ANYDNN_Y, 8, { 0, 2, -2, 2147483520, 2147483647, -2147483648, -2147483648, 0 }, 0 } } },
    { "microsoft/onnxruntime#32452: quantising is not truncating",
      "copy x=2/f16 y=2/i8 alpha=10.002440595",
      { { ANYDNN_X, 2, { 0.0500183, -0.0500183 }, 0 } },
      { { ANYDNN_Y, 2, { 1, -1 }, 0 } } },
    { "openvinotoolkit/openvino#35651: sums of int8 saturate",
      "copy x=3/i8 y=3/i8 beta=1",
      { { ANYDNN_X, 3, { 100, -10, -1 }, 0 }, { ANYDNN_Y, 3, { 100, -128, 1 }, 0 } },
      { { ANYDNN_Y, 3, { 127, -128, 0 }, 0 } } },
    { "NVIDIA/TensorRT#3009: an int8 convolution of 1x1 rounds half to even",
      "conv_forward x=1x1x1x1/i8 w=6x1x1x1/i8 bias=1x6x1x1/i32 y=1x6x1x1/i8 alpha=0.5",
      { { ANYDNN_X, 1, { 1 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 }, { ANYDNN_BIAS, 6, { 0, 2, 4, -2, -4, -6 }, 0 } },
      { { ANYDNN_Y, 6, { 0, 2, 2, 0, -2, -2 }, 0 } } },
    { "NVIDIA/TensorRT#3009: an int8 convolution of 3x3 rounds half to even",
      "conv_forward x=1x1x3x3/i8 w=6x1x3x3/i8 bias=1x6x1x1/i32 y=1x6x1x1/i8 alpha=0.5",
      { { ANYDNN_X, 1, { 1 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 }, { ANYDNN_BIAS, 6, { -8, -6, -4, -10, -12, -14 }, 0 } },
      { { ANYDNN_Y, 6, { 0, 2, 2, 0, -2, -2 }, 0 } } },
    { "NVIDIA/TensorRT#3009: an int8 convolution of 5x5 rounds half to even",
      "conv_forward x=1x1x5x5/i8 w=6x1x5x5/i8 bias=1x6x1x1/i32 y=1x6x1x1/i8 alpha=0.5",
      { { ANYDNN_X, 1, { 1 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 }, { ANYDNN_BIAS, 6, { -24, -22, -20, -26, -28, -30 }, 0 } },
      { { ANYDNN_Y, 6, { 0, 2, 2, 0, -2, -2 }, 0 } } },
    { "uxlfoundation/oneDNN#476: pairs of int8 products that exceed 16 bits",
      "conv_forward x=1x4x1x4/i8 w=4x4x1x1/i8 y=1x4x1x4/i32",
      { { ANYDNN_X, 16, { -47, -96, 70, -46, -123, -38, -60, -91, -10, 82, -66, 109, 92, 40, -127, 101 }, 0 },
        { ANYDNN_W, 16, { 124, -40, 103, 24, 8, 4, -84, 115, -74, -50, 88, 123, 32, -84, -66, 54 }, 0 } },
      { { ANYDNN_Y,
          16,
          { 270, -978, 1234, 11587, 10552, -3208, -8741, 1727, 20064, 21140, -23609, 29969, 14456, -3132, 4778, 4432 },
          0 } } },
    { "openvinotoolkit/openvino#35651: an int8 residual saturates",
      "conv_forward x=1x1x1x2/i8 w=1x1x1x1/i8 z=1x1x1x2/i8 y=1x1x1x2/i8",
      { { ANYDNN_X, 2, { 100, -10 }, 0 }, { ANYDNN_W, 1, { 1 }, 0 }, { ANYDNN_Z, 2, { 100, -128 }, 0 } },
      { { ANYDNN_Y, 2, { 127, -128 }, 0 } } },
    { "artyom-beilis/pytorch_dlprim#72: the loss of two rows",
      "cross_entropy_forward x=2x4/f32 labels=2x1/i64",
      { { ANYDNN_X, 4, { 0, 0, 0, 0 }, 0 }, { ANYDNN_LABELS, 2, { 1, 3 }, 0 } },
      { { ANYDNN_LOSS, 1, { 1.3862943611198906 }, 1e-6 } } },
};

static bool is_right(double got, double want, double tolerance)
{
    if (isnan(want)) return isnan(got);
    return got == want || fabs(got - want) <= tolerance;
}

static void compare(const char *name, const char *engine, const struct operand *o, const struct content *want)
{
    int64_t i;
    for (i = 0; i < o->count && is_right(o->got[i], want->values[i % want->count], want->tolerance); i++) continue;
    CHECK_CASE(i == o->count, name);
    if (i < o->count)
        printf("  %s: %s[%lld] is %.9g, right is %.9g\n", engine, anydnn_role_name(o->role), (long long)i, o->got[i],
               want->values[i % want->count]);
}

static void values(const struct report *r)
{
    static char engines[JOB_ENGINES][64];
    struct job job;
    const struct content *c;
    int i, count;
    CHECK_CASE(job_open(&job, r->line) == ANYDNN_OK, r->name);
    for (c = r->given; c->count; c++) job_set(&job, c->role, c->values, c->count);
    count = job_engines(&s, &job, !s.info.is_cpu, engines);
    CHECK_CASE(count > 0, r->name);
    for (i = 0; i < count; i++) {
        const anydnn_status status = job_run(&s, &job, NULL, engines[i]);
        CHECK_CASE(status == ANYDNN_OK, r->name);
        if (status) printf("  %s: %s: %s\n", engines[i], anydnn_status_name(status), anydnn_message());
        for (c = r->want; !status && c->count; c++) compare(r->name, engines[i], job_operand(&job, c->role), c);
    }
    job_close(&job);
}

int main(int argc, char **argv)
{
    size_t i;
    const int code = session_open(&s, argc > 1 ? argv[1] : "cpu", NULL, 16 << 20);
    if (code) return code;
    for (i = 0; i < sizeof reports / sizeof *reports; i++) values(&reports[i]);
    session_close(&s);
    return unit_end();
}
