/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/abi.c: sizes and offsets that programs were compiled with. A line that fails here is an ABI break: it needs
 * a new major version, not a new number in this file. */
#include "../unit/unit.h"

#include <anydnn/anydnn.h>

#define SIZE(type, bytes) CHECK_CASE(sizeof(type) == (bytes), #type)
#define AT(type, member, offset) CHECK_CASE(offsetof(type, member) == (offset), #type "." #member)

static void structs(void)
{
    SIZE(anydnn_mem, 32);
    AT(anydnn_mem, base, 0);
    AT(anydnn_mem, offset, 8);
    AT(anydnn_mem, size, 16);
    AT(anydnn_mem, kind, 24);
    SIZE(anydnn_tensor, 160);
    AT(anydnn_tensor, dtype, 0);
    AT(anydnn_tensor, ndim, 4);
    AT(anydnn_tensor, alignment, 8);
    AT(anydnn_tensor, dims, 16);
    AT(anydnn_tensor, strides, 80);
    AT(anydnn_tensor, reserved, 144);
    SIZE(anydnn_binding, 64);
    AT(anydnn_binding, role, 0);
    AT(anydnn_binding, index, 4);
    AT(anydnn_binding, tensor, 8);
    AT(anydnn_binding, mem, 16);
    AT(anydnn_binding, value, 48);
    SIZE(anydnn_prefs, 32);
    AT(anydnn_prefs, math, 4);
    AT(anydnn_prefs, deterministic, 8);
    AT(anydnn_prefs, workspace_limit, 16);
    AT(anydnn_prefs, engine, 24);
    /* 40 bytes until oracle and reserved came: structs that callers size themselves may grow at their end. */
    SIZE(anydnn_open_options, 48);
    AT(anydnn_open_options, log, 24);
    AT(anydnn_open_options, log_user, 32);
    AT(anydnn_open_options, oracle, 40);
    SIZE(anydnn_op, 8);
    SIZE(anydnn_conv, 128);
    AT(anydnn_conv, pad_mode, 8);
    AT(anydnn_conv, groups, 16);
    AT(anydnn_conv, stride, 24);
    AT(anydnn_conv, pad, 48);
    AT(anydnn_conv, pad_end, 72);
    AT(anydnn_conv, dilation, 96);
    SIZE(anydnn_pool, 144);
    AT(anydnn_pool, mode, 8);
    AT(anydnn_pool, window, 24);
    AT(anydnn_pool, dilation, 120);
    SIZE(anydnn_matmul, 16);
    SIZE(anydnn_activation, 16);
    SIZE(anydnn_softmax, 16);
    SIZE(anydnn_cross_entropy, 16);
    SIZE(anydnn_batchnorm, 16);
    SIZE(anydnn_binary, 16);
    SIZE(anydnn_reduce, 16);
    SIZE(anydnn_elementwise, 8);
    SIZE(anydnn_dropout, 8);
    SIZE(anydnn_optimizer, 16);
    SIZE(anydnn_plan_info, 88);
    SIZE(anydnn_verdict, 304);
    SIZE(anydnn_device_info, 352);
}

/* Numbers that are written in programs and files. */
static void numbers(void)
{
    CHECK(ANYDNN_OP_CONV_FORWARD == 1 && ANYDNN_OP_MATMUL == 5 && ANYDNN_OP_BINARY == 17 && ANYDNN_OP_ADAM == 27);
    CHECK(ANYDNN_X == 1 && ANYDNN_MOMENT2 == 28 && ANYDNN_ALPHA == 100 && ANYDNN_SMOOTHING == 116);
    CHECK(ANYDNN_Z == 29 && ANYDNN_SCALES == 30 && ANYDNN_X_ZERO == 117 && ANYDNN_Y_ZERO == 118);
    CHECK(ANYDNN_PARAM_ALPHA == 119 && ANYDNN_PARAM_BETA == 120);
    CHECK(ANYDNN_F32 == 1 && ANYDNN_I64 == 8);
    CHECK(ANYDNN_OK == 0 && ANYDNN_INVALID == 1 && ANYDNN_UNSUPPORTED == 2 && ANYDNN_OUT_OF_MEMORY == 3 &&
          ANYDNN_DEVICE == 4 && ANYDNN_INTERNAL == 5);
    CHECK(ANYDNN_MEM_HOST == 1 && ANYDNN_MEM_CUDA == 2 && ANYDNN_MEM_OPENCL == 3);
    CHECK(anydnn_version() == ANYDNN_VERSION);
}

/* An old caller's shorter struct reads as zero-filled; a newer caller's longer one is taken while its tail is zero. */
static void growing(void)
{
    struct {
        anydnn_conv conv;
        int64_t more[2];
    } longer = { anydnn_conv_init(), { 0, 0 } };
    anydnn_conv shorter = anydnn_conv_init();
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    anydnn_context *context = NULL;
    const anydnn_tensor x = anydnn_tensor_nchw(ANYDNN_F32, 1, 2, 5, 5), w = anydnn_tensor_nchw(ANYDNN_F32, 3, 2, 3, 3);
    anydnn_binding rows[2];
    anydnn_tensor y;
    rows[0] = anydnn_bind(ANYDNN_X, &x, anydnn_mem_none());
    rows[1] = anydnn_bind(ANYDNN_W, &w, anydnn_mem_none());
    longer.conv.struct_size = sizeof longer;
    CHECK(anydnn_output((const anydnn_op *)&longer, rows, 2, ANYDNN_Y, &y) == ANYDNN_OK && y.dims[2] == 3);
    longer.more[1] = 1;
    CHECK(anydnn_output((const anydnn_op *)&longer, rows, 2, ANYDNN_Y, &y) == ANYDNN_UNSUPPORTED);
    shorter.struct_size = 24; /* ends before stride: defaults */
    shorter.stride[0] = shorter.stride[1] = -5;
    CHECK(anydnn_output((const anydnn_op *)&shorter, rows, 2, ANYDNN_Y, &y) == ANYDNN_OK && y.dims[2] == 3);
    shorter.struct_size = 0;
    CHECK(anydnn_output((const anydnn_op *)&shorter, rows, 2, ANYDNN_Y, &y) == ANYDNN_INVALID);
    options.oracle = 2;
    CHECK(anydnn_open("cpu", &options, &context) == ANYDNN_INVALID);
    options.struct_size = 40; /* ends before oracle */
    CHECK(anydnn_open("cpu", &options, &context) == ANYDNN_OK);
    anydnn_close(context);
}

int main(void)
{
    structs();
    numbers();
    growing();
    return unit_end();
}
