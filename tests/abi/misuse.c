/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/misuse.c [DEVICE]: what every public function answers to bad input: the status, a message that names the
 * argument, and nothing written. On the CPU, or on the device named. */
#include "../unit/unit.h"

#include <anydnn/anydnn.h>
#include <anydnn/cuda.h>
#include <anydnn/opencl.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static anydnn_context *context, *other;
static anydnn_stream *stream, *foreign;

/* `call` must give `status`, and the message must hold `named`. */
#define REFUSED(call, wanted, named)                                                                                   \
    do {                                                                                                               \
        const anydnn_status got_ = (call);                                                                             \
        CHECK_CASE(got_ == (wanted), #call);                                                                           \
        CHECK_CASE(strstr(anydnn_message(), named) != NULL, #call);                                                    \
        if (got_ != (wanted) || !strstr(anydnn_message(), named))                                                      \
            printf("  got %s: %s\n", anydnn_status_name(got_), anydnn_message());                                      \
    } while (0)
#define INVALID(call, named) REFUSED(call, ANYDNN_INVALID, named)

static void devices(void)
{
    anydnn_device_info info;
    memset(&info, 0, sizeof info);
    CHECK(anydnn_device_count() >= 1);
    INVALID(anydnn_device_get(0, NULL), "info is NULL");
    INVALID(anydnn_device_get(0, &info), "struct_size is 0");
    info.struct_size = sizeof info;
    INVALID(anydnn_device_get(-1, &info), "index is -1");
    INVALID(anydnn_device_get(anydnn_device_count(), &info), "accepted: 0 to");
    INVALID(anydnn_context_info(NULL, &info), "context is NULL");
    CHECK(strcmp(anydnn_backend_note(99), "") == 0);
    CHECK(anydnn_backend_note(ANYDNN_BACKEND_CPU)[0] != 0);
}

static void opening(void)
{
    static const char *const wrong[] = { "", "gpu", "cpu:0", "cuda", "cuda:", "cuda:x", "opencl:1x", "CPU", "opencl:-1" };
    anydnn_context *made = (anydnn_context *)&unit_passed;
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_CASE(anydnn_open(wrong[i], NULL, &made) == ANYDNN_INVALID, wrong[i]);
        CHECK_CASE(strstr(anydnn_message(), "accepted: auto, cpu") != NULL, wrong[i]);
    }
    CHECK(anydnn_open("cuda:99", NULL, &made) != ANYDNN_OK && anydnn_open("opencl:99", NULL, &made) != ANYDNN_OK);
    INVALID(anydnn_open(NULL, NULL, &made), "device is NULL");
    INVALID(anydnn_open("cpu", NULL, NULL), "context is NULL");
    options.struct_size = 3;
    INVALID(anydnn_open("cpu", &options, &made), "struct_size is 3");
    options.struct_size = (uint32_t)offsetof(anydnn_open_options, log) + 4; /* would read half of a pointer */
    INVALID(anydnn_open("cpu", &options, &made), "options: struct_size is 28");
    options.struct_size = UINT32_MAX;
    INVALID(anydnn_open("cpu", &options, &made), "options: struct_size is 4294967295");
    options.struct_size = sizeof options;
    options.math = 17;
    INVALID(anydnn_open("cpu", &options, &made), "options.math is 17");
    options.math = 0, options.deterministic = 2;
    INVALID(anydnn_open("cpu", &options, &made), "options.deterministic is 2");
    options.deterministic = 0, options.cpu_threads = -1;
    INVALID(anydnn_open("cpu", &options, &made), "options.cpu_threads is -1");
    options.cpu_threads = 0, options.log_level = 9;
    INVALID(anydnn_open("cpu", &options, &made), "options.log_level is 9");
    options.log_level = 0, options.plan_cache = -2;
    INVALID(anydnn_open("cpu", &options, &made), "options.plan_cache is -2");
    options.plan_cache = 0, options.oracle = 2;
    INVALID(anydnn_open("cpu", &options, &made), "options.oracle is 2");
    options.oracle = 0, options.batch_invariant = -1;
    INVALID(anydnn_open("cpu", &options, &made), "options.batch_invariant is -1");
    CHECK(made == (anydnn_context *)&unit_passed);
    anydnn_close(NULL);
    CHECK(anydnn_cuda_open(NULL, NULL, &made) == ANYDNN_INVALID);
    CHECK(anydnn_opencl_open(NULL, NULL, NULL, &made) == ANYDNN_INVALID);
    CHECK(anydnn_cuda_native_context(NULL) == NULL && anydnn_opencl_native_queue(NULL) == NULL);
}

static void memory(void)
{
    anydnn_mem mem = anydnn_mem_none(), empty = mem, wrong;
    void *host = &unit_passed;
    char bytes[64];
    INVALID(anydnn_alloc(NULL, 4, &mem), "context is NULL");
    INVALID(anydnn_alloc(context, 4, NULL), "mem is NULL");
    INVALID(anydnn_alloc(context, UINT64_MAX, &mem), "bytes is");
    CHECK(anydnn_alloc(context, (uint64_t)1 << 60, &mem) == ANYDNN_OUT_OF_MEMORY);
    CHECK(anydnn_message()[0] != 0);
    INVALID(anydnn_alloc_host(context, 4, NULL), "host is NULL");
    CHECK(anydnn_alloc_host(context, (uint64_t)1 << 60, &host) == ANYDNN_OUT_OF_MEMORY && host == &unit_passed);
    CHECK(anydnn_alloc(context, 64, &mem) == ANYDNN_OK && anydnn_alloc(context, 0, &empty) == ANYDNN_OK);
    INVALID(anydnn_copy_in(NULL, mem, bytes, 64), "stream is NULL");
    INVALID(anydnn_copy_in(stream, mem, NULL, 64), "src is NULL");
    INVALID(anydnn_copy_in(stream, mem, bytes, 65), "accepted: 65 or more");
    INVALID(anydnn_copy_in(stream, anydnn_mem_at(mem, 1), bytes, 64), "from offset 1");
    INVALID(anydnn_copy_out(stream, NULL, mem, 64), "dst is NULL");
    INVALID(anydnn_copy_out(stream, bytes, anydnn_mem_at(mem, UINT64_MAX), 64), "offset");
    INVALID(anydnn_copy(stream, mem, anydnn_mem_at(mem, 8), 16), "overlaps");
    CHECK(anydnn_copy(stream, mem, anydnn_mem_at(mem, 16), 16) == ANYDNN_OK);
    INVALID(anydnn_set(stream, mem, 0, 65), "dst");
    wrong = mem;
    wrong.kind = mem.kind == ANYDNN_MEM_HOST ? ANYDNN_MEM_CUDA : ANYDNN_MEM_HOST;
    INVALID(anydnn_set(stream, wrong, 0, 4), "memory kind is");
    INVALID(anydnn_free(context, wrong), "memory kind is");
    INVALID(anydnn_free(context, anydnn_mem_at(mem, 4)), "offset is 4");
    wrong = mem;
    wrong.base = NULL;
    INVALID(anydnn_set(stream, wrong, 0, 4), "base is NULL");
    CHECK(anydnn_copy_in(stream, empty, NULL, 0) == ANYDNN_OK && anydnn_set(stream, empty, 1, 0) == ANYDNN_OK);
    CHECK(anydnn_stream_sync(stream) == ANYDNN_OK);
    CHECK(anydnn_free(context, mem) == ANYDNN_OK && anydnn_free(context, empty) == ANYDNN_OK);
    CHECK(anydnn_free(context, anydnn_mem_none()) == ANYDNN_OK);
    anydnn_free_host(context, NULL);
}

/* Buffers of another cl_context, and sizes that the buffer does not have: CUDA and CPU memory cannot be asked. */
static void alien_memory(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 8);
    anydnn_activation op = anydnn_activation_init();
    anydnn_mem mem = anydnn_mem_none(), alien = mem;
    anydnn_binding rows[2];
    char bytes[64] = "";
    CHECK(anydnn_alloc(context, 32, &mem) == ANYDNN_OK && anydnn_alloc(other, 64, &alien) == ANYDNN_OK);
    if (mem.kind == ANYDNN_MEM_OPENCL) {
        rows[0] = anydnn_bind(ANYDNN_X, &t, alien);
        rows[1] = anydnn_bind(ANYDNN_Y, &t, mem);
        INVALID(anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2), "x: its cl_mem is of another cl_context");
        rows[0] = anydnn_bind(ANYDNN_X, &t, mem);
        rows[1] = anydnn_bind(ANYDNN_Y, &t, alien);
        INVALID(anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2), "y: its cl_mem is of another cl_context");
        INVALID(anydnn_copy_in(stream, alien, bytes, 4), "dst: its cl_mem is of another cl_context");
        INVALID(anydnn_copy_out(stream, bytes, alien, 4), "src: its cl_mem is of another cl_context");
        INVALID(anydnn_copy(stream, mem, alien, 4), "src: its cl_mem is of another cl_context");
        INVALID(anydnn_set(stream, alien, 0, 4), "dst: its cl_mem is of another cl_context");
        mem.size = 0; /* unknown here, but not to the driver */
        INVALID(anydnn_copy_in(stream, mem, bytes, 36), "accepted: a buffer of 36 or more");
        INVALID(anydnn_set(stream, anydnn_mem_at(mem, 16), 0, 20), "accepted: a buffer of 36 or more");
        mem.size = 64;
        INVALID(anydnn_copy_out(stream, bytes, mem, 36), "accepted: a buffer of 36 or more");
    }
    CHECK(anydnn_free(context, mem) == ANYDNN_OK && anydnn_free(other, alien) == ANYDNN_OK);
}

static void streams_and_events(void)
{
    anydnn_stream *made = (anydnn_stream *)&unit_passed;
    anydnn_event *event = NULL, *second = NULL, *alien = NULL;
    double ns = -1;
    INVALID(anydnn_stream_create(NULL, 0, &made), "context is NULL");
    INVALID(anydnn_stream_create(context, 0, NULL), "stream is NULL");
    INVALID(anydnn_stream_create(context, (uint64_t)1 << 63, &made), "workspace_bytes is 9223372036854775808");
    CHECK(anydnn_stream_create(context, (uint64_t)1 << 60, &made) == ANYDNN_OUT_OF_MEMORY);
    CHECK(made == (anydnn_stream *)&unit_passed);
    INVALID(anydnn_stream_sync(NULL), "stream is NULL");
    anydnn_stream_destroy(NULL);
    anydnn_event_destroy(NULL);
    CHECK(anydnn_stream_context(NULL) == NULL && anydnn_stream_context(stream) == context);
    INVALID(anydnn_event_create(NULL, &event), "context is NULL");
    CHECK(anydnn_event_create(context, &event) == ANYDNN_OK && anydnn_event_create(context, &second) == ANYDNN_OK);
    CHECK(anydnn_event_create(other, &alien) == ANYDNN_OK);
    INVALID(anydnn_event_sync(event), "never recorded");
    INVALID(anydnn_stream_wait(stream, event), "never recorded");
    INVALID(anydnn_event_elapsed(event, second, &ns), "start was never recorded");
    INVALID(anydnn_event_record(event, foreign), "another context");
    INVALID(anydnn_event_record(NULL, stream), "event is NULL");
    INVALID(anydnn_event_record(event, NULL), "stream is NULL");
    INVALID(anydnn_event_create(context, NULL), "event is NULL");
    INVALID(anydnn_event_sync(NULL), "event is NULL");
    INVALID(anydnn_stream_wait(NULL, event), "stream is NULL");
    INVALID(anydnn_stream_wait(stream, NULL), "event is NULL");
    INVALID(anydnn_event_elapsed(NULL, second, &ns), "start is NULL");
    INVALID(anydnn_event_elapsed(event, NULL, &ns), "end is NULL");
    CHECK(anydnn_event_record(event, stream) == ANYDNN_OK && anydnn_event_record(second, stream) == ANYDNN_OK);
    CHECK(anydnn_event_record(alien, foreign) == ANYDNN_OK);
    INVALID(anydnn_event_elapsed(event, alien, &ns), "different contexts");
    INVALID(anydnn_event_elapsed(event, second, NULL), "nanoseconds is NULL");
    INVALID(anydnn_stream_wait(foreign, event), "another context");
    CHECK(ns == -1 && anydnn_event_elapsed(event, second, &ns) == ANYDNN_OK && ns >= 0);
    anydnn_event_destroy(event);
    anydnn_event_destroy(second);
    anydnn_event_destroy(alien);
}

/* A relu of 8 floats, and every way to get its plan or run wrong. */
static void plans(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 8), half = anydnn_tensor_1d(ANYDNN_F16, 8);
    anydnn_tensor bad;
    anydnn_activation op = anydnn_activation_init();
    const anydnn_op *relu = (const anydnn_op *)&op;
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    anydnn_plan *plan = (anydnn_plan *)&unit_passed, *aligned = NULL;
    anydnn_plan_info info;
    anydnn_binding rows[4];
    anydnn_mem x = anydnn_mem_none(), y = x, wrong;
    float values[8] = { -1, 2, -3, 4, -5, 6, -7, 8 }, out[8];
    int i, count = -1;
    CHECK(anydnn_alloc(context, 64, &x) == ANYDNN_OK && anydnn_alloc(context, 64, &y) == ANYDNN_OK);
    CHECK(anydnn_copy_in(stream, x, values, 32) == ANYDNN_OK && anydnn_set(stream, y, 0x5a, 64) == ANYDNN_OK);
    rows[0] = anydnn_bind(ANYDNN_X, &t, x);
    rows[1] = anydnn_bind(ANYDNN_Y, &t, y);
    INVALID(anydnn_plan_create(NULL, relu, NULL, rows, 2, &plan), "context is NULL");
    INVALID(anydnn_plan_create(context, NULL, NULL, rows, 2, &plan), "op is NULL");
    INVALID(anydnn_plan_create(context, relu, NULL, NULL, 2, &plan), "bindings");
    INVALID(anydnn_plan_create(context, relu, NULL, rows, -1, &plan), "-1 rows");
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 1, &plan), "y is not bound");
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, NULL), "plan is NULL");
    op.op = 999;
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, &plan), "op.op is 999");
    op.op = ANYDNN_OP_ACTIVATION_FORWARD, op.struct_size = 0;
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, &plan), "struct_size is 0");
    op.struct_size = sizeof op, op.mode = -1;
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, &plan), "mode is -1");
    op.mode = ANYDNN_RELU;
    prefs.engine = "no_such_engine";
    REFUSED(anydnn_plan_create(context, relu, &prefs, rows, 2, &plan), ANYDNN_UNSUPPORTED, "no_such_engine");
    prefs.engine = NULL, prefs.math = 77;
    INVALID(anydnn_plan_create(context, relu, &prefs, rows, 2, &plan), "prefs.math is 77");
    prefs.math = 0, prefs.struct_size = 0;
    INVALID(anydnn_plan_create(context, relu, &prefs, rows, 2, &plan), "prefs: struct_size is 0");
    rows[2] = anydnn_bind(ANYDNN_W, &t, x);
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 3, &plan), "no such role");
    rows[2] = rows[0];
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 3, &plan), "x is bound twice");
    rows[1].tensor = NULL;
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, &plan), "y: tensor is NULL");
    rows[1].tensor = &half;
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, &plan), "y: dtype is f16");
    for (i = 0; i < 7; i++) {
        static const char *const named[] = { "dtype is 99", "ndim is 0", "ndim is 9", "dims[0] is -1", "strides[0] is -4",
                                             "alignment is 3", "reserved" };
        bad = t;
        if (i == 0) bad.dtype = 99;
        if (i == 1) bad.ndim = 0;
        if (i == 2) bad.ndim = 9;
        if (i == 3) bad.dims[0] = -1;
        if (i == 4) bad.strides[0] = -4;
        if (i == 5) bad.alignment = 3;
        if (i == 6) bad.reserved[1] = 1;
        rows[1] = anydnn_bind(ANYDNN_Y, &bad, y);
        INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, &plan), named[i]);
    }
    rows[1] = anydnn_bind(ANYDNN_Y, &t, anydnn_mem_at(x, 4));
    INVALID(anydnn_plan_create(context, relu, NULL, rows, 2, &plan), "y overlaps x");
    CHECK(plan == (anydnn_plan *)&unit_passed);

    rows[1] = anydnn_bind(ANYDNN_Y, &t, y);
    CHECK(anydnn_plan_create(context, relu, NULL, rows, 2, &plan) == ANYDNN_OK);
    INVALID(anydnn_plan_run(NULL, stream, rows, 2, NULL), "plan is NULL");
    INVALID(anydnn_plan_run(plan, NULL, rows, 2, NULL), "stream is NULL");
    INVALID(anydnn_plan_run(plan, foreign, rows, 2, NULL), "another context");
    INVALID(anydnn_plan_run(plan, stream, rows, 1, NULL), "y is not bound");
    INVALID(anydnn_plan_run(plan, stream, NULL, 2, NULL), "bindings");
    rows[1].tensor = &half;
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "differs from the plan");
    rows[1].tensor = NULL;
    rows[1].mem = anydnn_mem_at(y, 2);
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "multiples of 4");
    rows[1].mem = anydnn_mem_at(y, 36);
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "accepted: 68 or more");
    rows[1].mem = x;
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "not promised");
    rows[1].mem = anydnn_mem_at(x, 28);
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "overlaps x");
    rows[1].mem = anydnn_mem_none();
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "memory kind is 0");
    wrong = y;
    wrong.kind = y.kind == ANYDNN_MEM_HOST ? ANYDNN_MEM_OPENCL : ANYDNN_MEM_HOST;
    rows[1].mem = wrong;
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "memory kind is");
    rows[1].mem = y;
    rows[2] = anydnn_bind_value(ANYDNN_BETA, 0.5);
    INVALID(anydnn_plan_run(plan, stream, rows, 3, NULL), "beta is 0.5");
    rows[2] = anydnn_bind_value(ANYDNN_LR, 0.5);
    INVALID(anydnn_plan_run(plan, stream, rows, 3, NULL), "no such role");
    /* Nothing of all that wrote anything. */
    CHECK(anydnn_copy_out(stream, out, y, 32) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    for (i = 0; i < 32; i++) CHECK(((unsigned char *)out)[i] == 0x5a);
    CHECK(anydnn_plan_run(plan, stream, rows, 2, NULL) == ANYDNN_OK);
    CHECK(anydnn_copy_out(stream, out, y, 32) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    for (i = 0; i < 8; i++) CHECK(out[i] == (values[i] < 0 ? 0 : values[i]));

    bad = t;
    bad.alignment = 16; /* a promise that this memory does not keep */
    rows[0] = anydnn_bind(ANYDNN_X, &bad, x), rows[1].tensor = &bad;
    CHECK(anydnn_plan_create(context, relu, NULL, rows, 2, &aligned) == ANYDNN_OK);
    rows[1].mem = anydnn_mem_at(y, 8);
    INVALID(anydnn_plan_run(aligned, stream, rows, 2, NULL), "y: is not aligned to the 16 bytes");
    rows[1].mem = anydnn_mem_at(y, 16);
    CHECK(anydnn_plan_run(aligned, stream, rows, 2, NULL) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    anydnn_plan_release(aligned);
    rows[0].tensor = rows[1].tensor = &t, rows[1].mem = y;

    INVALID(anydnn_plan_get_info(NULL, &info), "plan is NULL");
    info.struct_size = 4;
    INVALID(anydnn_plan_get_info(plan, &info), "struct_size is 4");
    info.struct_size = sizeof info;
    CHECK(anydnn_plan_get_info(plan, &info) == ANYDNN_OK && info.engine[0] && info.workspace_bytes == 0);
    CHECK(anydnn_plan_retain(plan) == plan && anydnn_plan_retain(NULL) == NULL);
    anydnn_plan_release(plan);
    anydnn_plan_release(plan);
    anydnn_plan_release(NULL);

    INVALID(anydnn_run(NULL, relu, NULL, rows, 2), "stream is NULL");
    INVALID(anydnn_explain(context, relu, NULL, rows, 2, NULL, 4, &count), "rows");
    INVALID(anydnn_explain(context, relu, NULL, rows, 2, NULL, 0, NULL), "count is NULL");
    INVALID(anydnn_candidates(NULL, relu, NULL, rows, 2, NULL, 0, &count), "context is NULL");
    CHECK(count == -1);
    INVALID(anydnn_engine_name(context, 0, 0, (char *)out, NULL), "op is 0");
    INVALID(anydnn_engine_name(context, 1, 99, (char *)out, NULL), "index is 99");
    INVALID(anydnn_engine_name(context, 1, 0, NULL, NULL), "name is NULL");
    INVALID(anydnn_output(relu, rows, 1, ANYDNN_X, &bad), "role is 1");
    INVALID(anydnn_output(relu, rows, 1, ANYDNN_Y, NULL), "tensor is NULL");
    CHECK(anydnn_free(context, x) == ANYDNN_OK && anydnn_free(context, y) == ANYDNN_OK);
}

/* A plan that needs workspace refuses to run without enough of it; device scalars must keep their promise. */
static void promises(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 8);
    anydnn_dropout op = anydnn_dropout_init();
    anydnn_binding rows[3];
    anydnn_plan *plan;
    anydnn_mem x = anydnn_mem_none(), seed = x;
    CHECK(anydnn_alloc(context, 32, &x) == ANYDNN_OK && anydnn_alloc(context, 16, &seed) == ANYDNN_OK);
    CHECK(anydnn_set(stream, seed, 0, 16) == ANYDNN_OK && anydnn_set(stream, x, 0, 32) == ANYDNN_OK);
    rows[0] = anydnn_bind(ANYDNN_X, &t, x);
    rows[1] = anydnn_bind(ANYDNN_Y, &t, x);
    rows[2] = anydnn_bind(ANYDNN_SEED, NULL, seed);
    CHECK(anydnn_plan_create(context, (const anydnn_op *)&op, NULL, rows, 3, &plan) == ANYDNN_OK);
    INVALID(anydnn_plan_run(plan, stream, rows, 2, NULL), "rng_seed is not bound");
    rows[2] = anydnn_bind_value(ANYDNN_SEED, 1);
    INVALID(anydnn_plan_run(plan, stream, rows, 3, NULL), "in device memory");
    rows[2] = anydnn_bind(ANYDNN_SEED, NULL, anydnn_mem_at(seed, 4));
    INVALID(anydnn_plan_run(plan, stream, rows, 3, NULL), "multiple of 8");
    rows[2].mem = anydnn_mem_at(seed, 16);
    INVALID(anydnn_plan_run(plan, stream, rows, 3, NULL), "accepted: 24 or more");
    rows[2].mem = anydnn_mem_at(x, 24); /* in the output's last bytes */
    INVALID(anydnn_plan_run(plan, stream, rows, 3, NULL), "y overlaps rng_seed");
    rows[2].mem = seed;
    CHECK(anydnn_plan_run(plan, stream, rows, 3, NULL) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    anydnn_plan_release(plan);
    CHECK(anydnn_free(context, x) == ANYDNN_OK && anydnn_free(context, seed) == ANYDNN_OK);
}

/* What a run reads must lie apart from what it writes: scalars in device memory, and the caller's workspace. */
static void overlaps(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 8), row = anydnn_tensor_2d(ANYDNN_F32, 1, 131072);
    const anydnn_tensor one = anydnn_tensor_2d(ANYDNN_F32, 1, 1);
    anydnn_optimizer sgd = anydnn_sgd_init();
    anydnn_activation relu = anydnn_activation_init();
    anydnn_reduce reduce = anydnn_reduce_init();
    anydnn_plan_info info = { sizeof info, 0, 0, 0, "" };
    anydnn_binding rows[3];
    anydnn_plan *plan = NULL;
    anydnn_mem mem = anydnn_mem_none(), moved;
    unsigned char out[64];
    int i;
    CHECK(anydnn_alloc(context, 1 << 20, &mem) == ANYDNN_OK && anydnn_set(stream, mem, 0x5a, 1 << 20) == ANYDNN_OK);
    rows[0] = anydnn_bind(ANYDNN_GRAD, &t, anydnn_mem_at(mem, 64));
    rows[1] = anydnn_bind(ANYDNN_PARAM, &t, mem);
    rows[2] = anydnn_bind(ANYDNN_LR, NULL, anydnn_mem_at(mem, 28));
    INVALID(anydnn_run(stream, (const anydnn_op *)&sgd, NULL, rows, 3), "param overlaps lr");
    rows[0] = anydnn_bind(ANYDNN_X, &row, mem);
    rows[1] = anydnn_bind(ANYDNN_Y, &one, anydnn_mem_at(mem, row.dims[1] * 4));
    CHECK(anydnn_plan_create(context, (const anydnn_op *)&reduce, NULL, rows, 2, &plan) == ANYDNN_OK);
    CHECK(anydnn_plan_get_info(plan, &info) == ANYDNN_OK && row.dims[1] * 4 + 512 + info.workspace_bytes < 1 << 20);
    if (info.workspace_bytes) {
        moved = anydnn_mem_at(mem, row.dims[1] * 4 - 256);
        INVALID(anydnn_plan_run(plan, stream, rows, 2, &moved), "workspace overlaps x");
        moved = anydnn_mem_at(mem, row.dims[1] * 4);
        INVALID(anydnn_plan_run(plan, stream, rows, 2, &moved), "workspace overlaps y");
        moved = anydnn_mem_at(mem, row.dims[1] * 4 + 128);
        INVALID(anydnn_plan_run(plan, stream, rows, 2, &moved), "workspace: is not aligned to 256 bytes");
        moved = anydnn_mem_none();
        INVALID(anydnn_plan_run(plan, stream, rows, 2, &moved), "workspace: memory kind is 0");
    }
    CHECK(anydnn_copy_out(stream, out, anydnn_mem_at(mem, row.dims[1] * 4), 64) == ANYDNN_OK &&
          anydnn_stream_sync(stream) == ANYDNN_OK);
    for (i = 0; i < 64; i++) CHECK(out[i] == 0x5a);
    anydnn_plan_release(plan);
    /* One place, said in two ways, is in place. */
    if (mem.kind != ANYDNN_MEM_OPENCL) {
        moved = mem;
        moved.base = (char *)mem.base + 64, moved.size = 0;
        rows[0] = anydnn_bind(ANYDNN_X, &t, anydnn_mem_at(mem, 64));
        rows[1] = anydnn_bind(ANYDNN_Y, &t, moved);
        CHECK(anydnn_run(stream, (const anydnn_op *)&relu, NULL, rows, 2) == ANYDNN_OK);
        moved.base = (char *)mem.base + 68;
        rows[1] = anydnn_bind(ANYDNN_Y, &t, moved);
        INVALID(anydnn_run(stream, (const anydnn_op *)&relu, NULL, rows, 2), "y overlaps x");
    }
    CHECK(anydnn_stream_sync(stream) == ANYDNN_OK && anydnn_free(context, mem) == ANYDNN_OK);
}

/* The inline calls, without what they take. */
static void typed(void)
{
    const anydnn_tensor t = anydnn_tensor_nchw(ANYDNN_F32, 1, 1, 3, 3);
    const anydnn_conv conv = anydnn_conv_init();
    const anydnn_pool pool = anydnn_pool_init();
    const anydnn_softmax softmax = anydnn_softmax_init();
    const anydnn_matmul matmul = anydnn_matmul_init();
    const anydnn_mem m = anydnn_mem_none();
    INVALID(anydnn_conv_forward(stream, NULL, &t, m, &t, m, NULL, m, &t, m), "op is NULL");
    INVALID(anydnn_conv_forward(NULL, &conv, &t, m, &t, m, NULL, m, &t, m), "stream is NULL");
    INVALID(anydnn_conv_forward(stream, &conv, NULL, m, &t, m, NULL, m, &t, m), "x: tensor is NULL");
    INVALID(anydnn_conv_forward(stream, &conv, &t, m, &t, m, NULL, m, NULL, m), "y: tensor is NULL");
    INVALID(anydnn_conv_backward_data(stream, NULL, &t, m, &t, m, &t, m), "op is NULL");
    INVALID(anydnn_conv_backward_data(stream, &conv, &t, m, NULL, m, &t, m), "w: tensor is NULL");
    INVALID(anydnn_conv_backward_filter(stream, NULL, &t, m, &t, m, &t, m), "op is NULL");
    INVALID(anydnn_conv_backward_filter(stream, &conv, &t, m, &t, m, NULL, m), "dw: tensor is NULL");
    INVALID(anydnn_conv_backward_bias(stream, NULL, m, &t, m), "dy: tensor is NULL");
    INVALID(anydnn_matmul_run(stream, NULL, &t, m, &t, m, NULL, m, &t, m), "op is NULL");
    INVALID(anydnn_matmul_run(stream, &matmul, &t, m, NULL, m, NULL, m, &t, m), "b: tensor is NULL");
    INVALID(anydnn_pool_forward(stream, NULL, &t, m, &t, m), "op is NULL");
    INVALID(anydnn_pool_forward(stream, &pool, &t, m, &t, m), "window is 0");
    INVALID(anydnn_pool_backward(stream, NULL, &t, m, NULL, m, &t, m), "op is NULL");
    INVALID(anydnn_activation_forward(stream, 5, &t, m, &t, m), "mode is 5");
    INVALID(anydnn_activation_backward(stream, 0, &t, m, NULL, m, NULL, m, &t, m), "neither x nor y");
    INVALID(anydnn_softmax_forward(stream, NULL, &t, m, &t, m), "op is NULL");
    INVALID(anydnn_softmax_forward(stream, &softmax, &t, m, &t, m), "memory kind is 0");
    INVALID(anydnn_softmax_backward(stream, NULL, &t, m, &t, m, &t, m), "op is NULL");
    INVALID(anydnn_binary_run(stream, -1, &t, m, &t, m, &t, m), "mode is -1");
    INVALID(anydnn_reduce_run(stream, 7, 0, &t, m, &t, m), "mode is 7");
    INVALID(anydnn_reduce_run(stream, 0, 16, &t, m, &t, m), "axes is 0x10");
    INVALID(anydnn_copy_tensor(stream, &t, m, NULL, m), "y: tensor is NULL");
    INVALID(anydnn_fill_tensor(stream, NULL, m, 0), "y: tensor is NULL");
    INVALID(anydnn_scale_tensor(NULL, &t, m, 0), "stream is NULL");
}

/* Measuring and tuning files. */
static void tuning(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 8), half = anydnn_tensor_1d(ANYDNN_F16, 8);
    anydnn_activation op = anydnn_activation_init();
    const anydnn_op *relu = (const anydnn_op *)&op;
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    anydnn_binding rows[2];
    anydnn_verdict found[1];
    anydnn_mem x = anydnn_mem_none(), y = x;
    unsigned char out[64];
    int i, count = -1;
    CHECK(anydnn_alloc(context, 64, &x) == ANYDNN_OK && anydnn_alloc(context, 64, &y) == ANYDNN_OK);
    CHECK(anydnn_set(stream, x, 0, 64) == ANYDNN_OK && anydnn_set(stream, y, 0x5a, 64) == ANYDNN_OK);
    memset(found, 0x33, sizeof found);
    rows[0] = anydnn_bind(ANYDNN_X, &t, x);
    rows[1] = anydnn_bind(ANYDNN_Y, &t, y);
    INVALID(anydnn_find(NULL, relu, NULL, rows, 2, 0, found, 1, &count), "stream is NULL");
    INVALID(anydnn_find(stream, NULL, NULL, rows, 2, 0, found, 1, &count), "op is NULL");
    INVALID(anydnn_find(stream, relu, NULL, NULL, 2, 0, found, 1, &count), "bindings");
    INVALID(anydnn_find(stream, relu, NULL, rows, 1, 0, found, 1, &count), "y is not bound");
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, -1, found, 1, &count), "budget_ns is -1");
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, NAN, found, 1, &count), "budget_ns is");
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, NULL, 1, &count), "rows");
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, found, -1, &count), "-1 rows");
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, found, 1, NULL), "rows_count is NULL");
    prefs.engine = "no_such_engine";
    REFUSED(anydnn_find(stream, relu, &prefs, rows, 2, 0, found, 1, &count), ANYDNN_UNSUPPORTED, "no_such_engine");
    rows[1].tensor = &half;
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, found, 1, &count), "y: dtype is f16");
    rows[1] = anydnn_bind(ANYDNN_Y, &t, anydnn_mem_none());
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, found, 1, &count), "y: memory kind is 0");
    rows[1].mem = anydnn_mem_at(y, 36);
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, found, 1, &count), "accepted: 68 or more");
    rows[1].mem = anydnn_mem_at(y, 2);
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, found, 1, &count), "multiples of 4");
    rows[1].mem = y, rows[0].mem = anydnn_mem_none();
    INVALID(anydnn_find(stream, relu, NULL, rows, 2, 0, found, 1, &count), "x: memory kind is 0");
    rows[0].mem = x;
    CHECK(count == -1 && ((unsigned char *)found)[0] == 0x33);
    CHECK(anydnn_find(stream, relu, NULL, rows, 2, 1e6, NULL, 0, &count) == ANYDNN_OK && count > 0);
    CHECK(anydnn_copy_out(stream, out, y, 64) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    for (i = 0; i < 64; i++) CHECK(out[i] == 0x5a);
    INVALID(anydnn_tuning_load(NULL, "x"), "context is NULL");
    INVALID(anydnn_tuning_load(context, NULL), "path is NULL");
    INVALID(anydnn_tuning_load(context, ""), "cannot be read");
    INVALID(anydnn_tuning_save(NULL, "x"), "context is NULL");
    INVALID(anydnn_tuning_save(context, NULL), "path is NULL");
    INVALID(anydnn_tuning_save(context, "/no such folder/x"), "cannot be written");
    CHECK(anydnn_free(context, x) == ANYDNN_OK && anydnn_free(context, y) == ANYDNN_OK);
}

static void problems(void)
{
    anydnn_problem *p = (anydnn_problem *)&unit_passed;
    int count = 7;
    INVALID(anydnn_problem_parse(NULL, &p), "line is NULL");
    INVALID(anydnn_problem_parse("fill y=1", NULL), "problem is NULL");
    INVALID(anydnn_problem_create(NULL, NULL, NULL, 0, &p), "op is NULL");
    INVALID(anydnn_problem_print(NULL, NULL, 0, NULL), "problem is NULL");
    INVALID(anydnn_problem_cost(NULL, NULL, NULL, NULL), "problem is NULL");
    CHECK(p == (anydnn_problem *)&unit_passed);
    CHECK(anydnn_problem_op(NULL) == NULL && anydnn_problem_prefs(NULL) == NULL && anydnn_problem_seed(NULL) == 0);
    CHECK(anydnn_problem_bindings(NULL, &count) == NULL && count == 0 && anydnn_problem_alias(NULL, 1) == 0);
    anydnn_problem_destroy(NULL);
    CHECK(anydnn_op_name(0) == NULL && anydnn_op_name(28) == NULL && anydnn_op_by_name("x") == 0 && anydnn_op_by_name(NULL) == 0);
    CHECK(anydnn_role_name(0) == NULL && anydnn_role_by_name(NULL) == 0 && anydnn_role_by_name("dy") == ANYDNN_DY);
    CHECK(anydnn_op_role(0, 0, NULL) == 0 && anydnn_op_role(1, -1, NULL) == 0 && anydnn_op_role(1, 100, NULL) == 0);
    CHECK(anydnn_dtype_size(0) == 0 && anydnn_dtype_size(9) == 0 && strcmp(anydnn_dtype_name(-1), "?") == 0);
    CHECK(anydnn_tensor_count(NULL) == -1 && anydnn_tensor_bytes(NULL) == -1);
    CHECK(strcmp(anydnn_status_name((anydnn_status)77), "unknown status") == 0);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cpu";
    devices();
    opening();
    problems();
    if (anydnn_open(device, NULL, &context) == ANYDNN_UNSUPPORTED) {
        printf("skipped: no %s here: %s\n", device, anydnn_message());
        return 77;
    }
    anydnn_close(context);
    if (anydnn_open(device, NULL, &context) || anydnn_open(device, NULL, &other) ||
        anydnn_stream_create(context, 1 << 20, &stream) || anydnn_stream_create(other, ANYDNN_NO_WORKSPACE, &foreign)) {
        printf("cannot open %s: %s\n", device, anydnn_message());
        return 1;
    }
    memory();
    alien_memory();
    streams_and_events();
    plans();
    promises();
    overlaps();
    typed();
    tuning();
    anydnn_stream_destroy(stream);
    anydnn_stream_destroy(foreign);
    anydnn_close(context);
    anydnn_close(other);
    return unit_end();
}
