/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_text.c: the text form: round trips for every operation, defaults that are derived, and lines that
 * must be refused with a message that names the word. */
#include "unit.h"

#include <anydnn/anydnn.h>
#include <locale.h>
#include <string.h>

static const char *const lines[] = {
    "conv_forward x=64x3x224x224:nhwc/f16 w=64x3x7x7:nhwc/f16 stride=2,2 pad=3,3",
    "conv_forward x=2x4x5 w=6x2x3 groups=2 pad=1 pad_end=2 bias=1x6x1 alpha=0.5 beta=2 engine=conv_direct ws=0 det=1",
    "conv_forward x=1x2x3x4x5 w=4x2x1x2x3 dilation=1,2,1 mode=convolution math=tf32 seed=17 align=16",
    "conv_backward_data dy=2x4x8x8 w=4x3x3x3 pad=1,1 stride=2,2",
    "conv_backward_data dy=2x4x4x4 w=4x3x3x3 dx=2x3x8x8 pad=1,1 stride=2,2",
    "conv_backward_filter x=2x3x8x8 dy=2x4x8x8 dw=4x3x3x3 pad=1,1",
    "conv_backward_bias dy=2x4x8x8/bf16",
    "matmul a=3x4 b=5x4 trans_b=1 bias=1x5",
    "matmul a=2x1x3x4/f16 b=1x7x4x5/f16 y=2x7x3x5:s105,1050,35,7/f16@64",
    "pool_forward x=1x2x7x7 window=3,3 stride=2,2 pad=1,1 ceil_mode=1 mode=avg_exclude",
    "pool_forward x=1x2x7x7 window=2,2 indices=1x2x6x6/i32",
    "pool_backward dy=1x2x3x3 x=1x2x7x7 window=3,3 stride=2,2",
    "activation_forward x=4x5 y=4x5&x mode=leaky_relu coef=0.1",
    "activation_backward dy=4x5 y=4x5 mode=tanh",
    "softmax_forward x=4x5x6 axes=1,2 mode=log",
    "softmax_backward y=4x5 dy=4x5 dx=4x5&dy",
    "cross_entropy_forward x=8x10 labels=8x1/i32 reduction=none smoothing=0.1",
    "cross_entropy_backward x=8x10 labels=8x1/i64 dloss=1x1",
    "batchnorm_training x=4x3x5x5:nhwc gamma=1x3x1x1 shift=1x3x1x1 running_mean=1x3x1x1 running_var=1x3x1x1 saved_mean=1x3x1x1 saved_invstd=1x3x1x1 factor=0.01",
    "batchnorm_inference x=4x3/f16 gamma=1x3 shift=1x3 running_mean=1x3 running_var=1x3 epsilon=0",
    "batchnorm_backward x=4x3x5 dy=4x3x5 gamma=1x3x5 mode=per_activation",
    "binary a=4x1x3 b=1x5x3 mode=max alpha2=-1",
    "binary_backward dy=4x5 da=4x1 db=1x5 a=4x1 b=1x5 mode=mul",
    "reduce x=3x4x5 axes=0,2 mode=mean",
    "reduce_backward dy=1x4x1 dx=3x4x5 axes=0,2 mode=sum",
    "copy x=2x3x4x5/f32 y=2x3x4x5:nhwc/i8",
    "fill y=70000x3/i64 value=-7",
    "scale y=3x5:s10,2 alpha=1e-30",
    "dropout_forward x=3x5 ratio=0.25 rng_seed=device:9007199254740991 rng_offset=12",
    "dropout_backward dy=3x5",
    "sgd param=7/f16 grad=7/f16 moment1=7 nesterov=1 momentum=0.9 lr=device:0.1",
    "adam param=7 grad=7 moment1=7 moment2=7 decoupled=1 step=device:3",
    "conv_forward x=0x3x8x8 w=4x3x3x3",
    "fill y=0x5x6466666666666666666x127", /* strides beyond 63 bits */
};

static void round_trip(const char *line)
{
    char first[4096], second[4096];
    anydnn_problem *a = NULL, *b = NULL;
    size_t length = 0;
    anydnn_status status = anydnn_problem_parse(line, &a);
    CHECK_CASE(status == ANYDNN_OK, line);
    if (status != ANYDNN_OK) {
        printf("  %s\n", anydnn_message());
        return;
    }
    CHECK(anydnn_problem_print(a, first, sizeof first, &length) == ANYDNN_OK && length == strlen(first));
    status = anydnn_problem_parse(first, &b);
    CHECK_CASE(status == ANYDNN_OK, first);
    if (status == ANYDNN_OK) {
        CHECK(anydnn_problem_print(b, second, sizeof second, NULL) == ANYDNN_OK);
        CHECK_CASE(strcmp(first, second) == 0, first);
    }
    CHECK(anydnn_problem_print(a, second, 10, &length) == ANYDNN_OK && length == strlen(first) && strlen(second) == 9);
    anydnn_problem_destroy(a);
    anydnn_problem_destroy(b);
}

/* What the message must hold for each bad line. */
static const struct {
    const char *line, *named;
} bad[] = {
    { "", "empty" },
    { "convolve x=1", "convolve" },
    { "relu", "relu" },
    { "activation_forward", "x is not bound" },
    { "activation_forward x", "'x'" },
    { "activation_forward x=", "'x='" },
    { "activation_forward x=4x", "x=4x" },
    { "activation_forward x=4x-1", "dims[1] is -1" },
    { "activation_forward x=99999999999999999999", "99999999999999999999" },
    { "activation_forward x=4294967296x4294967296x4294967296", "2^63" },
    { "activation_forward x=1x1x1x1x1x1x1x1x1", "x=1x1" },
    { "activation_forward x=4/f33", "f33" },
    { "activation_forward x=4/i32", "i32" },
    { "activation_forward x=4x5:s5", "s5" },
    { "activation_forward x=4 x=4", "twice" },
    { "activation_forward x=4 y=5", "dims[0] is 5" },
    { "activation_forward x=4 y=4/f16", "f16" },
    { "activation_forward x=4 mode=rulu", "mode=rulu" },
    { "activation_forward x=4 y=4:s0", "overlap" },
    { "activation_forward x=4 y=4&w", "w" },
    { "activation_forward x=4x4 y=4x4:s1,4&x", "overlaps" },
    { "activation_forward x=4 stride=2", "stride=2" },
    { "activation_forward x=4 align=3", "alignment is 3" },
    { "activation_forward x=4 align=16,16,16", "align" },
    { "conv_forward x=1x2x3x3 w=4x3x3x3", "w: dims[1] is 3" },
    { "conv_forward x=1x2x3x3 w=4x2x5x3", "spatial axis 0" },
    { "conv_forward x=1x2x4x4 w=1x2x3x3 dilation=2,2 stride=2,2", "spatial axis 0" },
    { "conv_forward x=1x2x4x4 w=1x2x3x3 pad=-1,0", "pad[0] is -1" },
    { "conv_forward x=1x2x4x4 w=1x2x3x3 stride=-1,1", "stride[0] is -1" },
    { "conv_forward x=1x2x4x4 w=1x2x3x3 pad=1,1,1", "pad[2] is 1" },
    { "conv_forward x=1x3x4x4 w=4x1x3x3 groups=2", "groups is 2" },
    { "conv_forward x=1x3x4x4 w=4x3x3x3 bias=4", "bias: ndim is 1" },
    { "conv_forward x=1x3x4x4 w=4x3x3x3 lr=1", "lr=1" },
    { "conv_backward_filter x=2x9x1x1 dy=2x7x9x1", "dims[2] is 9" }, /* no filter gives such a dy */
    { "matmul a=3x4 b=5x6", "b: dims[0] is 5" },
    { "matmul a=2x3x4 b=3x4x5", "b: dims[0] is 3" },
    { "pool_forward x=1x64x1x64 window=64,1", "window[0] is 64" },
    { "pool_forward x=1x1x8x8 window=2,2 pad=2,0", "pad[0] is 2" },
    { "pool_forward x=1x1x8x8", "window is 0" },
    { "pool_backward dy=1x1x4x4 dx=1x1x8x8 window=2,2 stride=2,2", "x or indices" },
    { "softmax_forward x=4x5 axes=2", "axes is 0x4" },
    { "cross_entropy_forward x=8x10 labels=8/i32", "labels: ndim is 1" },
    { "cross_entropy_forward x=8x10 labels=8x1/f32", "labels: dtype is f32" },
    { "batchnorm_training x=4x3 gamma=1x3 shift=1x3 running_mean=1x3", "both or neither" },
    { "batchnorm_training x=4x3 gamma=3 shift=1x3", "gamma: ndim is 1" },
    { "batchnorm_training x=4x3/f16 gamma=1x3/f16 shift=1x3", "gamma: dtype is f16" },
    { "batchnorm_training x=4x3 gamma=1x3 shift=1x3 epsilon=-1", "epsilon is -1" },
    { "batchnorm_training x=4x3 gamma=1x3 shift=1x3 factor=2", "factor is 2" },
    { "binary a=4x3 b=2x3", "b: dims[0] is 2" },
    { "binary_backward dy=4x3", "neither da nor db" },
    { "reduce x=4x3 y=4x3 axes=1", "y: dims[1] is 3" },
    { "dropout_forward x=4 ratio=1.5", "ratio is 1.5" },
    { "dropout_forward x=4 ratio=device:0.5", "device memory" },
    { "dropout_forward x=4 rng_seed=0.5", "rng_seed is 0.5" },
    { "sgd param=4 grad=4 nesterov=1", "moment1" },
    { "sgd param=4 grad=5", "param: dims are 4" },
    { "adam param=4 grad=4 moment1=4 moment2=4 step=0", "step is 0" },
    { "fill", "y is not bound" },
};

static void refused(const char *line, const char *named)
{
    anydnn_problem *problem = (anydnn_problem *)&unit_passed;
    anydnn_status status = anydnn_problem_parse(line, &problem);
    CHECK_CASE(status == ANYDNN_INVALID, line);
    CHECK_CASE(problem == (anydnn_problem *)&unit_passed, line); /* not written */
    CHECK_CASE(strstr(anydnn_message(), named) != NULL, line);
    if (status == ANYDNN_INVALID && !strstr(anydnn_message(), named)) printf("  message: %s\n", anydnn_message());
}

static void derived(void)
{
    anydnn_problem *p = NULL;
    const anydnn_binding *rows;
    int count, i, seen = 0;
    CHECK(anydnn_problem_parse("conv_forward x=2x3x9x9:nhwc w=8x3x3x3 stride=2,2", &p) == ANYDNN_OK);
    rows = anydnn_problem_bindings(p, &count);
    for (i = 0; i < count; i++)
        if (rows[i].role == ANYDNN_Y) {
            seen = 1;
            CHECK(rows[i].tensor->dims[1] == 8 && rows[i].tensor->dims[2] == 4 && rows[i].tensor->strides[1] == 1);
        }
    CHECK(seen);
    anydnn_problem_destroy(p);
}

int main(void)
{
    size_t i;
    for (i = 0; i < sizeof lines / sizeof lines[0]; i++) round_trip(lines[i]);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) refused(bad[i].line, bad[i].named);
    derived();
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8")) round_trip("activation_forward x=4 coef=0.125 mode=leaky_relu");
    return unit_end();
}
