/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/reports.c [DEVICE]: public bug reports on other libraries whose right answer is known: values worked out by
 * hand, for every engine that takes the problem, and rules of calls. Problems without such values, compared with the
 * CPU reference instead, are in tests/cases/reports.cases. */
#include "../support/job.h"
#include "../unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/wait.h>
#include <unistd.h>
#endif

static struct session s;
static const char *device;

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

/* ---- Refusals ---- */

/* The line is refused, with a message that names what is wrong. */
static void refused(const char *name, const char *line, const char *named)
{
    struct job job;
    const anydnn_status status = job_open(&job, line);
    if (status == ANYDNN_OK) job_close(&job);
    CHECK_CASE(status == ANYDNN_INVALID, name);
    CHECK_CASE(strstr(anydnn_message(), named) != NULL, name);
    if (!strstr(anydnn_message(), named)) printf("  the message is: %s\n", anydnn_message());
}

static void refusals(void)
{
    refused("pytorch/pytorch#9592: a filter's reach of 5 in 4 pixels",
            "conv_forward x=1x1x4x4/f32 w=1x1x3x3/f32 stride=2,2 dilation=2,2", "spatial axis 0");
    refused("ROCm/MIOpen#55: a transposed convolution without output",
            "conv_backward_data dy=1x6x4x4/f32 w=6x4x1x1/f32 dx=1x4x1x1/f32 pad=2,2", "dims[2]");
    refused("uxlfoundation/oneDNN#1721: a window that exceeds its axis",
            "pool_forward x=1x64x1x64:nhwc/f32 window=64,1", "window[0] is 64");
    refused("apache/mxnet#6191: windows of padding only", "pool_forward x=1x1x2x2/f32 window=2,2 pad=2,2", "pad[0]");
    refused("CNugteren/CLBlast#346: an output that overlaps itself",
            "matmul a=2x3x4/f32 b=2x4x5/f32 y=2x3x5:s0,5,1/f32 beta=1", "y: its strides");
    refused("ROCm/MIOpen#1441: inference without statistics",
            "batchnorm_inference x=2x3x4x4/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32", "running_mean");
    refused("ggml-org/ggml#1521: dx over y", "softmax_backward y=4x5/f32 dy=4x5/f32 dx=4x5/f32&y", "dx");
}

/* Memory that is of no such device, or not there, is refused and nothing is written. */
static void memory_kinds(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 4);
    const anydnn_mem x = s.arena;
    anydnn_mem y = anydnn_mem_at(s.arena, 256), wrong = y;
    float out[4];
    anydnn_activation op = anydnn_activation_init();
    anydnn_binding rows[2];
    int i;
    CHECK(anydnn_set(s.stream, s.arena, 0, 512) == ANYDNN_OK);
    for (i = 0; i < 3; i++) {
        if (i == 0) wrong.kind = y.kind == ANYDNN_MEM_HOST ? ANYDNN_MEM_OPENCL : ANYDNN_MEM_HOST;
        if (i == 1) wrong = y, wrong.base = NULL;
        if (i == 2) wrong = anydnn_mem_none();
        rows[0] = anydnn_bind(ANYDNN_X, &t, x), rows[1] = anydnn_bind(ANYDNN_Y, &t, wrong);
        CHECK_CASE(anydnn_run(s.stream, (anydnn_op *)&op, NULL, rows, 2) == ANYDNN_INVALID,
                   "artyom-beilis/pytorch_dlprim#6");
        CHECK_CASE(strstr(anydnn_message(), "y") != NULL, "artyom-beilis/pytorch_dlprim#6: the message names y");
    }
    CHECK(anydnn_copy_out(s.stream, out, y, sizeof out) == ANYDNN_OK && anydnn_stream_sync(s.stream) == ANYDNN_OK);
    for (i = 0; i < 4; i++) CHECK_CASE(out[i] == 0, "artyom-beilis/pytorch_dlprim#6: nothing is written");
}

/* ---- Repeats, caches, order ---- */

static void random_data(struct job *job)
{
    int64_t i;
    int k;
    for (k = 0; k < job->operands; k++)
        for (i = 0; i < job->operand[k].count; i++)
            if (job->operand[k].flags & ANYDNN_ROLE_IN)
                job->operand[k].data[i] = (double)((i * 7919 + k * 31) % 1021) / 1021 - 0.5;
}

/* Every deterministic engine gives the same bits 20 times. */
static void repeats(const char *name, const char *line)
{
    static char engines[JOB_ENGINES][64];
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    struct job job;
    struct operand *o;
    double *first;
    int i, k, count, out = 0;
    prefs.deterministic = 1;
    CHECK_CASE(job_open(&job, line) == ANYDNN_OK, name);
    random_data(&job);
    while (!(job.operand[out].flags & ANYDNN_ROLE_OUT)) out++;
    o = &job.operand[out];
    first = malloc((size_t)o->count * sizeof *first);
    count = job_engines(&s, &job, !s.info.is_cpu, engines);
    CHECK_CASE(count > 0 && first, name);
    for (i = 0; first && i < count; i++) {
        CHECK_CASE(job_run(&s, &job, &prefs, engines[i]) == ANYDNN_OK, name);
        memcpy(first, o->got, (size_t)o->count * sizeof *first);
        for (k = 1; k < 20; k++) {
            CHECK_CASE(job_run(&s, &job, &prefs, engines[i]) == ANYDNN_OK, name);
            CHECK_CASE(!memcmp(first, o->got, (size_t)o->count * sizeof *first), name);
        }
    }
    free(first);
    job_close(&job);
}

/* The masks of two calls differ, and the same seed and offset repeat them. */
static void dropout_masks(void)
{
    static const double one = 1;
    struct job job;
    struct operand *y;
    double masks[4][4096];
    int i, k, kept = 0;
    CHECK(job_open(&job, "dropout_forward x=4096/f32 ratio=0.5") == ANYDNN_OK);
    job_set(&job, ANYDNN_X, &one, 1);
    y = job_operand(&job, ANYDNN_Y);
    for (k = 0; k < 4; k++) { /* the first call, the next one, the first again, another seed */
        job_scalar(&job, ANYDNN_SEED, k == 3 ? 8 : 7);
        job_scalar(&job, ANYDNN_OFFSET, k == 1 ? 1024 : 0);
        CHECK(job_run(&s, &job, NULL, NULL) == ANYDNN_OK);
        memcpy(masks[k], y->got, sizeof masks[k]);
    }
    for (i = 0; i < 4096; i++) kept += masks[0][i] == 2;
    CHECK_CASE(memcmp(masks[0], masks[1], sizeof *masks) != 0,
               "PaddlePaddle/Paddle#7796: the next call's mask differs");
    CHECK_CASE(memcmp(masks[0], masks[3], sizeof *masks) != 0, "PaddlePaddle/Paddle#7796: another seed's mask differs");
    CHECK_CASE(!memcmp(masks[0], masks[2], sizeof *masks), "PaddlePaddle/Paddle#7796: a repeat repeats");
    CHECK_CASE(kept > 1900 && kept < 2200, "PaddlePaddle/Paddle#7796: about half is kept, scaled by 2");
    job_close(&job);
}

/* One-shot calls that differ only in `lines`, in turn: each has its own answer at y[0]. */
static void in_turn(const char *name, const char *const *lines, const double *answers, int count)
{
    static const double counting[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    int round, i, k;
    for (round = 0; round < 3; round++)
        for (i = 0; i < count; i++) {
            const int at = round == 1 ? count - 1 - i : i;
            struct job job;
            CHECK_CASE(job_open(&job, lines[at]) == ANYDNN_OK, name);
            for (k = 0; k < job.operands; k++)
                if (job.operand[k].flags & ANYDNN_ROLE_IN) job_set(&job, job.operand[k].role, counting, 9);
            job.one_shot = true;
            CHECK_CASE(job_run(&s, &job, NULL, NULL) == ANYDNN_OK, name);
            CHECK_CASE(fabs(job_operand(&job, ANYDNN_Y)->got[0] - answers[at]) < 1e-5, name);
            job_close(&job);
        }
}

static void plan_keys(void)
{
    static const char *const pools[] = { "pool_forward x=1x1x3x3/f32 mode=avg_include window=2,2 pad=1,1",
                                         "pool_forward x=1x1x3x3/f32 mode=avg_exclude window=2,2 pad=1,1",
                                         "pool_forward x=1x1x3x3/f32 mode=max window=2,2 pad=1,1",
                                         "pool_forward x=1x1x3x3/f32 mode=avg_include window=2,2",
                                         "pool_forward x=1x1x3x3:s9,9,1,3/f32 mode=max window=2,1" };
    static const double pooled[] = { 0.25, 1, 1, 3, 4 };
    static const char *const convs[] = { "conv_forward x=1x1x3x3/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x2x2/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x2x4/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x4x2/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x3x3/f32 w=1x1x2x2/f32 mode=convolution",
                                         "conv_forward x=1x1x3x3/f32 w=1x1x2x2/f32 dilation=2,2" };
    static const double convolved[] = { 37, 30, 44, 30, 23, 64 };
    in_turn("kulinseth/pytorch#273: pools that differ in mode, padding or strides", pools, pooled, 5);
    in_turn("davisking/dlib#2531: convolutions of one filter at sizes in turn", convs, convolved, 6);
}

/* Work of a stream runs in its order, and another stream that waits for an event sees all of it. */
static void stream_order(void)
{
    const anydnn_tensor big = anydnn_tensor_2d(ANYDNN_F32, 192, 192), t = anydnn_tensor_1d(ANYDNN_F32, 64);
    const anydnn_mem a = s.arena, x = anydnn_mem_at(a, 1 << 20), y = anydnn_mem_at(a, 2 << 20);
    const anydnn_matmul product = anydnn_matmul_init();
    anydnn_stream *second = NULL;
    anydnn_event *done = NULL;
    float out[64] = { 0 };
    int i;
    CHECK(anydnn_stream_create(s.context, ANYDNN_NO_WORKSPACE, &second) == ANYDNN_OK);
    CHECK(anydnn_event_create(s.context, &done) == ANYDNN_OK);
    CHECK(anydnn_fill_tensor(s.stream, &big, a, 1) == ANYDNN_OK && anydnn_fill_tensor(s.stream, &t, x, 1) == ANYDNN_OK);
    for (i = 0; i < 4; i++) /* the long kernels before */
        CHECK(anydnn_matmul_run(s.stream, &product, &big, a, &big, a, NULL, anydnn_mem_none(), &big, y) == ANYDNN_OK);
    for (i = 0; i < 20; i++) CHECK(anydnn_scale_tensor(s.stream, &t, x, 2) == ANYDNN_OK);
    CHECK(anydnn_event_record(done, s.stream) == ANYDNN_OK && anydnn_stream_wait(second, done) == ANYDNN_OK);
    CHECK(anydnn_copy_tensor(second, &t, x, &t, anydnn_mem_at(x, 4096)) == ANYDNN_OK);
    CHECK(anydnn_copy_out(second, out, anydnn_mem_at(x, 4096), sizeof out) == ANYDNN_OK);
    CHECK(anydnn_stream_sync(second) == ANYDNN_OK);
    for (i = 0; i < 64; i++) CHECK_CASE(out[i] == 1048576, "pytorch/pytorch#2984: order on the stream");
    CHECK(anydnn_stream_sync(s.stream) == ANYDNN_OK);
    anydnn_event_destroy(done);
    anydnn_stream_destroy(second);
}

/* Every engine that declines says why. */
static void reasons(void)
{
    static anydnn_verdict rows[JOB_ENGINES];
    static const char *const lines[] = {
        "conv_forward x=1x3x9x9:s300,97,11,1/f32 w=5x3x3x3/f32 pad=1,1",
        "conv_backward_filter x=2x12x49/f16 dy=2x12x50/f16 dw=12x6x128/f16 pad=64 groups=2",
        "matmul a=3x5/bf16 b=5x7/bf16"
    };
    int i, k, count = 0, bound;
    for (i = 0; i < 3; i++) {
        struct job job;
        const anydnn_binding *b;
        CHECK(job_open(&job, lines[i]) == ANYDNN_OK);
        b = anydnn_problem_bindings(job.problem, &bound);
        CHECK(anydnn_explain(s.context, job.op, NULL, b, bound, rows, JOB_ENGINES, &count) == ANYDNN_OK && count > 0);
        for (k = 0; k < count && k < JOB_ENGINES; k++)
            CHECK_CASE(rows[k].status == ANYDNN_OK || (rows[k].reason && rows[k].text[0]),
                       "NVIDIA/cudnn-frontend#116: a reason each");
        job_close(&job);
    }
}

/* A context may be opened again after it was closed; what it cached is gone with it. */
static void reopening(void)
{
    int i;
    for (i = 0; i < 3; i++) {
        session_close(&s);
        CHECK_CASE(session_open(&s, device, NULL, 16 << 20) == 0, "CNugteren/CLBlast#47: open again");
        values(&reports[0]);
    }
}

#ifdef __linux__
static long resident_pages(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long total = 0, resident = 0;
    if (!f || fscanf(f, "%ld %ld", &total, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return resident;
}

static void many_shapes(int from, int to)
{
    static const double one = 1;
    int i;
    for (i = from; i < to; i++) {
        char line[128];
        struct job job;
        snprintf(line, sizeof line, "conv_forward x=1x3x3x%d/f32 w=2x3x3x3/f32", 3 + i);
        CHECK(job_open(&job, line) == ANYDNN_OK);
        job_set(&job, ANYDNN_X, &one, 1), job_set(&job, ANYDNN_W, &one, 1);
        job.one_shot = true;
        CHECK_CASE(job_run(&s, &job, NULL, NULL) == ANYDNN_OK && job_operand(&job, ANYDNN_Y)->got[i] == 27, line);
        job_close(&job);
    }
}

/* Memory does not grow with the number of shapes once the plan cache is full. Drivers keep memory of their own, so this
 * is measured on the CPU alone. */
static void growth(void)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    long before;
    options.plan_cache = 32;
    session_close(&s);
    CHECK(session_open(&s, device, &options, 16 << 20) == 0);
    many_shapes(0, 100);
    before = resident_pages();
    many_shapes(100, 1500);
    if (s.info.backend == ANYDNN_BACKEND_CPU)
        CHECK_CASE(resident_pages() - before < 512, "pytorch/pytorch#104701, #32037: memory after 1400 further shapes");
    else
        values(&reports[0]);
}

/* A child that does nothing leaves the parent's device as it is. */
static void forked_child(void)
{
    int i, status = -1;
    for (i = 0; i < 3; i++) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        values(&reports[i]);
    }
}
#endif

int main(int argc, char **argv)
{
    size_t i;
    int code;
    device = argc > 1 ? argv[1] : "cpu";
    code = session_open(&s, device, NULL, 16 << 20);
    if (code) return code;
    for (i = 0; i < sizeof reports / sizeof *reports; i++) values(&reports[i]);
    refusals();
    memory_kinds();
    repeats("pytorch/pytorch#3614: filter gradients",
            "conv_backward_filter x=4x5x9x9/f32 dy=4x6x9x9/f32 dw=6x5x3x3/f32 pad=1,1");
    repeats("soumith/cudnn.torch#274: data gradients",
            "conv_backward_data dy=4x6x9x9/f32 w=6x5x3x3/f32 dx=4x5x9x9/f32 pad=1,1");
    repeats("soumith/cudnn.torch#274: bias gradients", "conv_backward_bias dy=8x3x33x31/f32");
    repeats("soumith/cudnn.torch#274: overlapping windows", "pool_backward dy=2x3x5x5/f32 x=2x3x9x9/f32 dx=2x3x9x9/f32 "
                                                            "mode=max window=5,5");
    dropout_masks();
    plan_keys();
    stream_order();
    reasons();
    reopening();
#ifdef __linux__
    growth();
    forked_child();
#endif
    session_close(&s);
    return unit_end();
}
