/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/big.c [DEVICE] [--small]: tensors of more than 2^31 elements, where 32-bit index arithmetic overflows.
 * Inputs repeat a table of a prime number of elements, written once and doubled on the device; outputs are prefilled
 * with NaN. The automatic choice and each engine by name run; then windows of the outputs are read back (the first,
 * middle and last elements, those around the 2^31-th element and the 2^31-th and 2^32-th byte, and scattered ones, with
 * the bytes between and behind the elements) and compared with the formula (../support/expect.h), and all elements are
 * searched for NaN. Then bytes are set around 2^31, 2^32 and so on to 2^35. Without --small it needs a GPU with 48 GiB;
 * with it, the same cases run on small tensors, and bytes are set as far as the device's largest allocation goes. */
#include "../support/expect.h"
#include "../support/job.h"
#include "bench/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 256, SCATTERED = 24, SCATTER = 32, WINDOWS = 8 + SCATTERED, SAMPLES = 8192, GUARD = 64, VERDICTS = 96 };

static const int64_t periods[] = { 65521, 65519, 65497, 65479, 65449, 65447, 65437, 65423 };
static const double longest_ns = 5e9, work = 1e9; /* estimate of an engine to run; operations to spend on one case */
static const uint64_t gib = (uint64_t)1 << 30;

enum { PLANT = 1, GENERIC = 2 }; /* the last element of x is the largest; run the generic engine whatever it takes */

static const struct big {
    int flags;
    const char *line, *small;
} cases[] = {
    { PLANT, "reduce x=2147483649/f16 mode=sum", "reduce x=65537/f16 mode=sum" },
    { PLANT, "reduce x=2147483649/f16 mode=max", "reduce x=65537/f16 mode=max" },
    { 0, "reduce x=32769x65536/f16 axes=1", "reduce x=33x512/f16 axes=1" },
    { 0, "reduce x=65536x32769/f16 axes=0", "reduce x=512x33/f16 axes=0" },
    { 0, "copy x=2147483647/i8", "copy x=65535/i8" },
    { 0, "copy x=2147483648/i8", "copy x=65536/i8" },
    { 0, "copy x=2147483649/i8", "copy x=65537/i8" },
    { 0, "copy x=46341x46341/i8 y=46341x46341:s1,46341/i8", "copy x=181x181/i8 y=181x181:s1,181/i8" },
    { 0, "copy x=129x16x1024x1024/f16 y=129x16x1024x1024:nhwc/f16", "copy x=3x16x16x16/f16 y=3x16x16x16:nhwc/f16" },
    /* ggml-org/llama.cpp#24912: a small tensor with a large stride */
    { 0, "copy x=2x3:s2147483650,1/f16 y=2x3/f16", "copy x=2x3:s65538,1/f16 y=2x3/f16" },
    { 0, "copy x=2x3/f16 y=2x3:s2147483650,1/f16", "copy x=2x3/f16 y=2x3:s65538,1/f16" },
    { 0, "fill y=2147483649/f16 value=1.5", "fill y=65537/f16 value=1.5" },
    { 0, "scale y=2147483649/f16 alpha=0.5", "scale y=65537/f16 alpha=0.5" },
    { 0, "activation_forward x=2147483649/f16 mode=relu", "activation_forward x=65537/f16 mode=relu" },
    { 0, "activation_forward x=3x46341x15451/f16 y=3x46341x15451:s716014791,1,46341/f16 mode=sigmoid",
      "activation_forward x=3x181x61/f16 y=3x181x61:s11041,1,181/f16 mode=sigmoid" },
    { 0, "binary a=33000x65536/f16 b=1x65536/f16 mode=add", "binary a=33x512/f16 b=1x512/f16 mode=add" },
    { 0, "binary a=65536x33000/f16 b=65536x1/f16 mode=mul", "binary a=512x33/f16 b=512x1/f16 mode=mul" },
    { 0, "dropout_forward x=2147483649/f16 ratio=0.5 rng_seed=7 rng_offset=4294967000",
      "dropout_forward x=65537/f16 ratio=0.5 rng_seed=7 rng_offset=4294967000" },
    { 0, "sgd param=2147483649/f16 grad=2147483649/f16 moment1=2147483649/f32 lr=0.5 momentum=0.5",
      "sgd param=65537/f16 grad=65537/f16 moment1=65537/f32 lr=0.5 momentum=0.5" },
    /* microsoft/onnxruntime#32299: many short rows */
    { 0, "softmax_forward x=429496730x5/f16", "softmax_forward x=13107x5/f16" },
    { 0, "softmax_forward x=1x5x20725x20725/f16", "softmax_forward x=1x5x115x115/f16" },
    { 0,
      "batchnorm_inference x=129x16x1024x1024:nhwc/f16 gamma=1x16x1x1/f32 shift=1x16x1x1/f32 "
      "running_mean=1x16x1x1/f32 running_var=1x16x1x1/f32 y=129x16x1024x1024:nhwc/f16",
      "batchnorm_inference x=3x16x16x16:nhwc/f16 gamma=1x16x1x1/f32 shift=1x16x1x1/f32 running_mean=1x16x1x1/f32 "
      "running_var=1x16x1x1/f32 y=3x16x16x16:nhwc/f16" },
    /* pytorch/pytorch#68418 */
    { 0, "pool_forward x=190x64x64x2933/f16 mode=max window=2,2 stride=2,2",
      "pool_forward x=7x16x16x29/f16 mode=max window=2,2 stride=2,2" },
    { 0, "pool_forward x=190x64x64x2933/f16 mode=avg_exclude window=2,2 stride=2,2",
      "pool_forward x=7x16x16x29/f16 mode=avg_exclude window=2,2 stride=2,2" },
    /* pytorch/pytorch#52822 */
    { 0, "pool_forward x=70x32x100x100x100/f16 mode=max window=5,5,5 stride=5,5,5",
      "pool_forward x=3x4x10x10x10/f16 mode=max window=5,5,5 stride=5,5,5" },
    { 0, "pool_forward x=129x16x1024x1024:nhwc/f16 y=129x16x1023x1023:nhwc/f16 mode=max window=2,2",
      "pool_forward x=3x16x16x16:nhwc/f16 y=3x16x15x15:nhwc/f16 mode=max window=2,2" },
    { 0, "pool_forward x=1x1x46342x46342/f16 mode=max window=2,2",
      "pool_forward x=1x1x182x182/f16 mode=max window=2,2" },
    { 0, "matmul a=129x4096x32/f16 b=129x32x4096/f16", "matmul a=3x64x32/f16 b=3x32x64/f16" },
    { 0, "matmul a=65537x32768/f16 b=32768x8/f16", "matmul a=129x256/f16 b=256x8/f16" },
    { 0, "matmul a=8x64/f16 b=33554433x64/f16 trans_b=1", "matmul a=8x64/f16 b=1025x64/f16 trans_b=1" },
    { 0, "conv_forward x=32x64x1024x1024:nhwc/f16 w=64x64x1x1:nhwc/f16 y=32x64x1024x1024:nhwc/f16",
      "conv_forward x=3x64x8x8:nhwc/f16 w=64x64x1x1:nhwc/f16 y=3x64x8x8:nhwc/f16" },
    { 0, "conv_forward x=33x64x1024x1024/f16 w=64x64x1x1/f16", "conv_forward x=3x64x8x8/f16 w=64x64x1x1/f16" },
    { 0, "conv_forward x=129x16x1024x1024/f16 w=16x16x3x3/f16 pad=1,1",
      "conv_forward x=3x16x16x16/f16 w=16x16x3x3/f16 pad=1,1" },
    { 0, "conv_forward x=129x16x1024x1024:nhwc/f16 w=16x16x3x3:nhwc/f16 y=129x16x1024x1024:nhwc/f16 pad=1,1",
      "conv_forward x=3x16x16x16:nhwc/f16 w=16x16x3x3:nhwc/f16 y=3x16x16x16:nhwc/f16 pad=1,1" },
    /* one plane of more than 2^31 elements */
    { GENERIC, "conv_forward x=1x1x46342x46342/f16 w=1x1x3x3/f16 pad=1,1",
      "conv_forward x=1x1x182x182/f16 w=1x1x3x3/f16 pad=1,1" },
    /* pytorch/pytorch#43476 */
    { GENERIC, "conv_forward x=1x32x512x512x256/f16 w=1x32x1x1x1/f16",
      "conv_forward x=1x32x8x8x8/f16 w=1x32x1x1x1/f16" },
    { 0, "conv_forward x=1x32x512x512x257/f16 w=1x32x1x1x1/f16", "conv_forward x=1x32x8x8x9/f16 w=1x32x1x1x1/f16" },
    /* pytorch/pytorch#163539: fewer than 2^31 elements, more bytes */
    { 0, "conv_forward x=1x16x124x1282x722/bf16 w=16x16x1x3x3/bf16",
      "conv_forward x=1x16x4x9x10/bf16 w=16x16x1x3x3/bf16" },
    /* pytorch/pytorch#152816: depthwise */
    { 0, "conv_forward x=33x64x1024x1024/f16 w=64x1x3x3/f16 pad=1,1 groups=64",
      "conv_forward x=3x64x8x8/f16 w=64x1x3x3/f16 pad=1,1 groups=64" },
    { 0, "conv_forward x=33x64x1024x1024:nhwc/f16 w=64x1x3x3/f16 y=33x64x1024x1024:nhwc/f16 pad=1,1 groups=64",
      "conv_forward x=3x64x8x8:nhwc/f16 w=64x1x3x3/f16 y=3x64x8x8:nhwc/f16 pad=1,1 groups=64" },
    { 0,
      "conv_forward x=33x64x1024x1024:nhwc/u8 w=64x64x1x1:nhwc/i8 y=33x64x1024x1024:nhwc/i8 alpha=0.00048828125 "
      "x_zero=3",
      "conv_forward x=3x64x8x8:nhwc/u8 w=64x64x1x1:nhwc/i8 y=3x64x8x8:nhwc/i8 alpha=0.00048828125 x_zero=3" },
    { 0, "conv_forward x=129x16x1024x1024/u8 w=16x16x3x3/i8 y=129x16x1024x1024/i32 pad=1,1",
      "conv_forward x=3x16x16x16/u8 w=16x16x3x3/i8 y=3x16x16x16/i32 pad=1,1" },
    { 0, "conv_backward_data dy=129x16x1024x1024/f16 w=16x16x3x3/f16 pad=1,1",
      "conv_backward_data dy=3x16x16x16/f16 w=16x16x3x3/f16 pad=1,1" },
    { 0, "conv_backward_data dy=33x64x1024x1024:nhwc/f16 w=64x64x1x1:nhwc/f16 dx=33x64x1024x1024:nhwc/f16",
      "conv_backward_data dy=3x64x8x8:nhwc/f16 w=64x64x1x1:nhwc/f16 dx=3x64x8x8:nhwc/f16" },
    { 0, "conv_backward_data dy=33x64x1024x1024/f16 w=64x1x3x3/f16 pad=1,1 groups=64",
      "conv_backward_data dy=3x64x8x8/f16 w=64x1x3x3/f16 pad=1,1 groups=64" },
    { 0, "conv_backward_filter x=129x16x1024x1024/f16 dy=129x16x1024x1024/f16 dw=16x16x3x3/f16 pad=1,1",
      "conv_backward_filter x=3x16x16x16/f16 dy=3x16x16x16/f16 dw=16x16x3x3/f16 pad=1,1" },
    { 0, "conv_backward_filter x=33x64x1024x1024:nhwc/f16 dy=33x64x1024x1024:nhwc/f16 dw=64x64x1x1:nhwc/f16",
      "conv_backward_filter x=3x64x8x8:nhwc/f16 dy=3x64x8x8:nhwc/f16 dw=64x64x1x1:nhwc/f16" },
    { 0, "conv_backward_filter x=33x64x1024x1024/f16 dy=33x64x1024x1024/f16 dw=64x1x3x3/f16 pad=1,1 groups=64",
      "conv_backward_filter x=3x64x8x8/f16 dy=3x64x8x8/f16 dw=64x1x3x3/f16 pad=1,1 groups=64" },
};

/* ---- A case ---- */

struct sample {
    int operand;
    int64_t offset;
    double want;
    bool gap; /* no element is there: the byte 0xff of before */
};

struct run {
    const struct big *big;
    anydnn_problem *problem;
    struct expectation e;
    anydnn_mem mem[EXPECT_OPERANDS];
    uint32_t flags[EXPECT_OPERANDS];
    unsigned char *table[EXPECT_OPERANDS]; /* as the dtype stores it */
    struct sample sample[SAMPLES];
    int samples;
};

static anydnn_context *context;
static anydnn_stream *stream;
static anydnn_device_info info;
static int passed, failed, skipped;

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool is_output(const struct run *r, int i)
{
    return (r->flags[i] & ANYDNN_ROLE_OUT) != 0;
}

static bool is_in_out(const struct run *r, int i)
{
    return is_output(r, i) && (r->flags[i] & ANYDNN_ROLE_IN);
}

/* Bytes of the operand with a guard behind it. */
static uint64_t bytes_of(const struct run *r, int i)
{
    const anydnn_tensor *t = &r->e.operand[i].tensor;
    return (uint64_t)anydnn_tensor_bytes(t) + GUARD * anydnn_dtype_size(t->dtype);
}

/* Values on a coarse grid, so that sums are exact in f32; those of floats add up to 0, so that sums stay small. */
static void make_table(struct periodic *p)
{
    int64_t i;
    double sum = 0;
    for (i = 0; i < p->period; i++) {
        const uint64_t bits = random_bits((uint64_t)p->role, (uint64_t)i);
        p->table[i] = p->tensor.dtype == ANYDNN_I8   ? (double)(bits % 255) - 127
                      : p->tensor.dtype == ANYDNN_U8 ? (double)(bits % 256)
                                                     : ((double)(bits % 17) - 8) / 8;
        sum += p->table[i];
    }
    for (i = 0; i < p->period && !value_is_integer(p->tensor.dtype); i++) {
        const double step = sum > 0 && p->table[i] > -1 ? -0.125 : sum < 0 && p->table[i] < 1 ? 0.125 : 0;
        p->table[i] += step;
        sum += step;
        if (p->role == ANYDNN_RUNNING_VAR) p->table[i] += 2;
    }
}

/* Writes the table to the start of the memory, then doubles what is there. */
static anydnn_status fill(const struct run *r, int i)
{
    const struct periodic *p = &r->e.operand[i];
    const uint64_t size = anydnn_dtype_size(p->tensor.dtype), bytes = bytes_of(r, i);
    uint64_t done = (uint64_t)p->period * size < bytes ? (uint64_t)p->period * size : bytes, next;
    unsigned char plant[8];
    anydnn_status status = anydnn_copy_in(stream, r->mem[i], r->table[i], done);
    for (; !status && done < bytes; done += next) {
        next = done < bytes - done ? done : bytes - done;
        status = anydnn_copy(stream, anydnn_mem_at(r->mem[i], done), r->mem[i], next);
    }
    if (status || p->plant < 0) return status;
    value_store(p->tensor.dtype, plant, EXPECT_PLANTED);
    status = anydnn_copy_in(stream, anydnn_mem_at(r->mem[i], (uint64_t)p->plant * size), plant, size);
    return status ? status : anydnn_stream_sync(stream);
}

/* Outputs to NaN, or to their old values. */
static anydnn_status prefill(const struct run *r)
{
    anydnn_status status = ANYDNN_OK;
    int i;
    for (i = 0; i < r->e.operands && !status; i++)
        if (is_in_out(r, i))
            status = fill(r, i);
        else if (is_output(r, i))
            status = anydnn_set(stream, r->mem[i], 0xff, bytes_of(r, i));
    return status;
}

static uint32_t role_flags(int op, int role)
{
    uint32_t flags = 0;
    int i, found;
    for (i = 0; (found = anydnn_op_role(op, i, &flags)) != 0 && found != role; i++) continue;
    return found ? flags : 0;
}

static anydnn_status make_operand(struct run *r, const anydnn_binding *row)
{
    const int i = r->e.operands++;
    struct periodic *p = &r->e.operand[i];
    const size_t size = anydnn_dtype_size(row->tensor->dtype);
    anydnn_status status;
    int64_t k;
    p->role = row->role;
    p->tensor = *row->tensor;
    p->tensor.alignment = 128;
    p->period = periods[i % (int)(sizeof periods / sizeof *periods)];
    p->plant = r->big->flags & PLANT && row->role == ANYDNN_X ? anydnn_tensor_count(&p->tensor) - 1 : -1;
    p->table = malloc((size_t)p->period * sizeof *p->table);
    r->table[i] = malloc((size_t)p->period * size);
    r->flags[i] = role_flags(r->e.op->op, row->role);
    if (!p->table || !r->table[i]) return ANYDNN_OUT_OF_MEMORY;
    make_table(p);
    for (k = 0; k < p->period; k++) value_store(p->tensor.dtype, r->table[i] + (size_t)k * size, p->table[k]);
    status = anydnn_alloc(context, bytes_of(r, i), &r->mem[i]);
    return status || is_output(r, i) ? status : fill(r, i);
}

static void close_run(struct run *r)
{
    int i;
    anydnn_stream_sync(stream);
    for (i = 0; i < r->e.operands; i++) {
        anydnn_free(context, r->mem[i]);
        free(r->e.operand[i].table);
        free(r->table[i]);
    }
    anydnn_problem_destroy(r->problem);
    free(r);
}

/* ---- What is compared ---- */

/* Takes every `stride`-th element of a window. */
static void add_window(struct run *r, int operand, int64_t first, int64_t count, int64_t stride, int64_t *number)
{
    const struct periodic *p = &r->e.operand[operand];
    const int64_t end = (int64_t)(bytes_of(r, operand) / anydnn_dtype_size(p->tensor.dtype));
    int64_t at[ANYDNN_MAX_DIMS], offset;
    for (offset = first < 0 ? 0 : first; offset < first + count && offset < end; offset++) {
        struct sample *s = &r->sample[r->samples];
        const bool gap = !expect_coordinates(&p->tensor, offset, at);
        if (r->samples == SAMPLES || (!gap && (*number)++ % stride)) continue;
        s->operand = operand;
        s->offset = offset;
        s->gap = gap && !is_in_out(r, operand);
        s->want = !gap ? expect_element(&r->e, p->role, at) : s->gap ? NAN : expect_content(p, offset);
        r->samples++;
    }
}

static void choose_samples(struct run *r)
{
    const int64_t limit = (int64_t)1 << 31;
    double depth = 1;
    int64_t number = 0, stride;
    int i, k;
    anydnn_problem_cost(r->problem, NULL, NULL, &depth);
    stride = (int64_t)(depth * (6 * WINDOW + SCATTERED * SCATTER) / work) + 1;
    for (i = 0; i < r->e.operands; i++) {
        const int64_t size = (int64_t)anydnn_dtype_size(r->e.operand[i].tensor.dtype),
                      end = (int64_t)bytes_of(r, i) / size;
        const int64_t starts[] = {
            0, end / 2, end - WINDOW, limit - WINDOW / 2, limit / size - WINDOW / 2, 2 * limit / size - WINDOW / 2
        };
        if (!is_output(r, i)) continue;
        for (k = 0; k < 6 && r->samples + WINDOW + SCATTERED * SCATTER <= SAMPLES; k++)
            add_window(r, i, starts[k], WINDOW, stride, &number);
        for (k = 0; k < SCATTERED; k++)
            add_window(r, i, (int64_t)(random_bits(1, (uint64_t)k) % (uint64_t)end), SCATTER, stride, &number);
    }
}

static bool is_right(const struct sample *s, int dtype, const unsigned char *bytes)
{
    const double roundoff = value_roundoff(dtype), got = value_load(dtype, bytes);
    size_t i;
    if (!s->gap) return fabs(got - s->want) <= 1.25 * roundoff * fabs(s->want) + (roundoff > 0 ? 1e-6 : 0);
    for (i = 0; i < anydnn_dtype_size(dtype); i++)
        if (bytes[i] != 0xff) return false;
    return true;
}

static bool compare(const struct run *r, const char *engine)
{
    static unsigned char got[SAMPLES][8];
    anydnn_status status = ANYDNN_OK;
    int i;
    for (i = 0; i < r->samples && !status; i++) {
        const size_t size = anydnn_dtype_size(r->e.operand[r->sample[i].operand].tensor.dtype);
        status = anydnn_copy_out(
            stream, got[i], anydnn_mem_at(r->mem[r->sample[i].operand], (uint64_t)r->sample[i].offset * size), size);
    }
    if (!status) status = anydnn_stream_sync(stream);
    if (status) printf("FAILED %s: reading back: %s\n", engine, anydnn_message());
    for (i = 0; i < r->samples && !status; i++) {
        const struct sample *s = &r->sample[i];
        const struct periodic *p = &r->e.operand[s->operand];
        if (is_right(s, p->tensor.dtype, got[i])) continue;
        printf("FAILED %s: %s at offset %lld is %.9g, not %.9g\n", engine, anydnn_role_name(p->role),
               (long long)s->offset, value_load(p->tensor.dtype, got[i]), s->want);
        return false;
    }
    return !status;
}

/* The largest element of a packed output is NaN if any of them was not written. */
static bool all_written(const struct run *r, const char *engine)
{
    anydnn_mem largest = anydnn_mem_none();
    anydnn_status status = anydnn_alloc(context, 8, &largest);
    bool nan = false;
    int i;
    for (i = 0; i < r->e.operands && !status && !nan; i++) {
        const anydnn_tensor *t = &r->e.operand[i].tensor, flat = anydnn_tensor_1d(t->dtype, anydnn_tensor_count(t)),
                            one = anydnn_tensor_1d(t->dtype, 1);
        unsigned char got[8];
        if (!is_output(r, i) || value_is_integer(t->dtype) || anydnn_tensor_bytes(&flat) != anydnn_tensor_bytes(t))
            continue;
        status = anydnn_reduce_run(stream, ANYDNN_REDUCE_MAX, 0, &flat, r->mem[i], &one, largest);
        if (!status) status = anydnn_copy_out(stream, got, largest, anydnn_dtype_size(t->dtype));
        if (!status) status = anydnn_stream_sync(stream);
        nan = !status && isnan(value_load(t->dtype, got));
        if (nan) printf("FAILED %s: an element of %s is NaN\n", engine, anydnn_role_name(r->e.operand[i].role));
    }
    if (status) printf("FAILED %s: searching for NaN: %s\n", engine, anydnn_message());
    anydnn_free(context, largest);
    return !status && !nan;
}

/* ---- Running ---- */

static int bind(const struct run *r, anydnn_binding rows[2 * EXPECT_OPERANDS])
{
    int i, count = 0;
    for (i = 0; i < r->e.operands; i++)
        rows[count++] = anydnn_bind(r->e.operand[i].role, &r->e.operand[i].tensor, r->mem[i]);
    for (i = 0; i < r->e.scalars; i++) rows[count++] = r->e.scalar[i];
    return count;
}

/* Through a plan with a workspace of its own. */
static anydnn_status run_plan(const struct run *r, const char *engine, const anydnn_binding *rows, int count,
                              uint64_t workspace_bytes)
{
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    anydnn_mem workspace = anydnn_mem_none();
    anydnn_plan *plan = NULL;
    anydnn_status status;
    prefs.engine = engine;
    status = anydnn_plan_create(context, r->e.op, &prefs, rows, count, &plan);
    if (status) return status;
    if (workspace_bytes) status = anydnn_alloc(context, workspace_bytes, &workspace);
    if (!status && workspace_bytes) status = anydnn_set(stream, workspace, 0xff, workspace_bytes);
    if (!status) status = anydnn_plan_run(plan, stream, rows, count, workspace_bytes ? &workspace : NULL);
    if (!status) status = anydnn_stream_sync(stream);
    anydnn_free(context, workspace);
    anydnn_plan_release(plan);
    return status;
}

/* One engine, NULL = the automatic choice. */
static bool run_engine(const struct run *r, const char *engine, uint64_t workspace_bytes)
{
    anydnn_binding rows[2 * EXPECT_OPERANDS];
    const int count = bind(r, rows);
    const char *name = engine ? engine : "automatic";
    anydnn_status status = prefill(r);
    if (!status)
        status =
            engine ? run_plan(r, engine, rows, count, workspace_bytes) : anydnn_run(stream, r->e.op, NULL, rows, count);
    if (!status) status = anydnn_stream_sync(stream);
    if (status) printf("FAILED %s: %s: %s\n", name, anydnn_status_name(status), anydnn_message());
    return !status && compare(r, name) && all_written(r, name);
}

/* Why an engine is not run; NULL = it is. */
static const char *left_out(const struct run *r, const anydnn_verdict *v)
{
    if (v->traits & ANYDNN_TRAIT_SLOW_START) return "starts slowly";
    if (v->workspace_bytes > (uint64_t)info.max_alloc_bytes || v->workspace_bytes > (uint64_t)info.memory_bytes / 4)
        return "wants too much workspace";
    if (r->big->flags & GENERIC && v->traits & ANYDNN_TRAIT_GENERIC) return NULL;
    return v->estimated_ns > longest_ns ? "would take too long" : NULL;
}

/* Adds an engine and why it is not run (NULL = it is). */
static void note(char *notes, size_t capacity, const char *engine, const char *why)
{
    const size_t used = strlen(notes);
    if (why)
        snprintf(notes + used, capacity - used, " (not %.63s: %s)", engine, why);
    else
        snprintf(notes + used, capacity - used, " %.63s", engine);
}

/* The own choice of each engine by name. Their names and what became of them go to `notes`. */
static bool each_engine(const struct run *r, char *notes, size_t capacity)
{
    static anydnn_verdict verdict[VERDICTS];
    anydnn_binding rows[2 * EXPECT_OPERANDS];
    const int bound = bind(r, rows);
    int i, k, count = 0;
    bool right =
        anydnn_candidates(context, r->e.op, NULL, rows, bound, verdict, VERDICTS, &count) == ANYDNN_OK && count > 0;
    if (!right) printf("FAILED candidates: %s\n", anydnn_message());
    for (i = 0; i < count && i < VERDICTS; i++) {
        const size_t length = strcspn(verdict[i].engine, ":");
        const char *why = left_out(r, &verdict[i]);
        for (k = 0; k < i; k++)
            if (!strncmp(verdict[k].engine, verdict[i].engine, length) && strcspn(verdict[k].engine, ":") == length)
                break;
        if (k < i) continue;
        note(notes, capacity, verdict[i].engine, why);
        if (!why) right &= run_engine(r, verdict[i].engine, verdict[i].workspace_bytes);
    }
    return right;
}

/* Makes a case; OUT_OF_MEMORY where the device lacks room for it. */
static anydnn_status open_run(struct run *r, const char *line)
{
    const anydnn_binding *rows;
    int i, count;
    anydnn_status status = anydnn_problem_parse(line, &r->problem);
    if (status) return status;
    r->e.op = anydnn_problem_op(r->problem);
    rows = anydnn_problem_bindings(r->problem, &count);
    for (i = 0; i < count && !status; i++)
        if (!rows[i].tensor)
            r->e.scalar[r->e.scalars++] = rows[i];
        else if (anydnn_tensor_bytes(rows[i].tensor) + GUARD * 8 > info.max_alloc_bytes)
            return ANYDNN_OUT_OF_MEMORY;
        else
            status = make_operand(r, &rows[i]);
    return status;
}

static void run_case(const struct big *big, const char *line)
{
    struct run *r = calloc(1, sizeof *r);
    char notes[1024] = "";
    const double start = now();
    anydnn_status status = ANYDNN_OUT_OF_MEMORY;
    if (!r) return;
    r->big = big;
    status = open_run(r, line);
    if (status == ANYDNN_OUT_OF_MEMORY) {
        printf("skipped: no room for %s\n", line);
        skipped++;
    } else if (status || !expect_knows(r->e.op->op)) {
        printf("FAILED %s: %s\n", line, anydnn_message());
        failed++;
    } else {
        bool right;
        choose_samples(r);
        right = run_engine(r, NULL, 0);
        right &= each_engine(r, notes, sizeof notes);
        printf("%s %.1f s %s: %d elements, engines automatic%s\n", right ? "PASSED" : "FAILED", now() - start, line,
               r->samples, notes);
        *(right ? &passed : &failed) += 1;
    }
    fflush(stdout);
    close_run(r);
}

/* ---- Setting bytes far behind the start: drivers count in 32 bits there ---- */

enum { MARGIN = 512, BEFORE = 0x11, AFTER = 0xa5 };

/* Sets `bytes` from `start` on and compares the margin around `edge`, which lies in the middle of it. */
static bool set_at(anydnn_mem memory, uint64_t edge, uint64_t start, uint64_t bytes)
{
    unsigned char got[MARGIN];
    const uint64_t first = edge - MARGIN / 2;
    uint64_t i;
    anydnn_status status;
    memset(got, BEFORE, sizeof got);
    status = anydnn_copy_in(stream, anydnn_mem_at(memory, first), got, sizeof got);
    if (!status) status = anydnn_set(stream, anydnn_mem_at(memory, start), AFTER, bytes);
    if (!status) status = anydnn_copy_out(stream, got, anydnn_mem_at(memory, first), sizeof got);
    if (!status) status = anydnn_stream_sync(stream);
    if (status)
        printf("FAILED setting %llu bytes at %llu: %s\n", (unsigned long long)bytes, (unsigned long long)start,
               anydnn_message());
    for (i = 0; i < MARGIN && !status; i++) {
        const bool set = first + i >= start && first + i < start + bytes;
        if (got[i] == (set ? AFTER : BEFORE)) continue;
        printf("FAILED setting %llu bytes at %llu: byte %llu is %d\n", (unsigned long long)bytes,
               (unsigned long long)start, (unsigned long long)(first + i), got[i]);
        return false;
    }
    return !status;
}

/* Around one edge; where `whole`, also everything before and behind it in one call. */
static bool sets_around(anydnn_mem memory, uint64_t edge, uint64_t size, bool whole)
{
    static const int starts[] = { -100, -16, -1, 0, 1, 17 };
    static const uint64_t lengths[] = { 1, 15, 16, 31, 100 };
    bool right = true;
    int i, k;
    for (i = 0; i < (int)(sizeof starts / sizeof *starts); i++)
        for (k = 0; k < (int)(sizeof lengths / sizeof *lengths); k++)
            right &= set_at(memory, edge, edge - 128 + (uint64_t)(128 + starts[i]), lengths[k]);
    if (whole) right &= set_at(memory, edge, 3, size - 5);
    if (whole) right &= set_at(memory, size - MARGIN / 2, 3, size - 5);
    return right;
}

static void far_sets(bool small)
{
    const uint64_t slack = 2 * MARGIN;
    anydnn_mem memory = anydnn_mem_none();
    int shift;
    for (shift = 31; shift <= 35; shift++) {
        const uint64_t edge = (uint64_t)1 << shift, size = edge + slack;
        if (small && shift > 32) break;
        if (size > (uint64_t)info.max_alloc_bytes || anydnn_alloc(context, size, &memory) != ANYDNN_OK) {
            printf("skipped: no room for setting bytes around 2^%d\n", shift);
            skipped++;
            continue;
        }
        *(sets_around(memory, edge, size, !small) ? &passed : &failed) += 1;
        printf("set bytes around 2^%d\n", shift);
        anydnn_free(context, memory);
    }
    fflush(stdout);
}

/* 0, or the exit code of the test, which has said why. */
static int open_device(const char *device, bool small)
{
    const anydnn_status status = anydnn_open(device, NULL, &context);
    if (status == ANYDNN_UNSUPPORTED) {
        printf("skipped: no %s here: %s\n", device, anydnn_message());
        return SESSION_NO_DEVICE;
    }
    info.struct_size = sizeof info;
    if (status || anydnn_context_info(context, &info) || anydnn_stream_create(context, 0, &stream)) {
        printf("cannot open %s: %s\n", device, anydnn_message());
        return 1;
    }
    if (small || (!info.is_cpu && (uint64_t)info.memory_bytes >= 48 * gib)) return 0;
    printf("skipped: %s has %lld GiB; tensors of 2^31 elements need a GPU with 48 GiB\n", device,
           (long long)((uint64_t)info.memory_bytes / gib));
    return SESSION_NO_DEVICE;
}

int main(int argc, char **argv)
{
    const char *device;
    const bool small = test_arguments(argc, argv, "--small", &device);
    const int code = open_device(device, small);
    int i;
    for (i = 0; !code && i < (int)(sizeof cases / sizeof *cases); i++)
        run_case(&cases[i], small ? cases[i].small : cases[i].line);
    if (!code) far_sets(small);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    if (code) return code;
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}
