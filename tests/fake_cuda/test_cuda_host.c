/* SPDX-License-Identifier: Apache-2.0
 * tests/fake_cuda/test_cuda_host.c: the CUDA backend's host side through the public API on the fake driver: what it
 * calls, whose context is current afterwards, and that every driver call may fail without a leak or a lie.
 * Prints "N passed, N failed". */
#include "fake_cuda.h"

#include <anydnn/anydnn.h>
#include <anydnn/cuda.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 64, BYTES = ELEMENTS * 4, UNKNOWN = 999, OUT_OF_MEMORY = 2, NO_BINARY = 209 };

static int passed, failed_checks;

static void check(int ok, const char *what, int line)
{
    if (ok) {
        passed++;
    } else {
        failed_checks++;
        printf("test_cuda_host.c:%d: %s; message \"%s\"; complaint \"%s\"\n", line, what, anydnn_message(),
               fake_cuda_complaint());
    }
}
#define CHECK(condition) check((condition) != 0, #condition, __LINE__)

static int total(struct fake_cuda_counts c)
{
    return c.contexts + c.memories + c.host_memories + c.streams + c.events + c.modules;
}

/* ---- One run through everything: stops at the first failure and gives back what it has made. ---- */

struct scene {
    anydnn_context *context;
    anydnn_stream *stream, *other;
    anydnn_event *start, *end;
    anydnn_mem x, y;
    float *host;
};

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        anydnn_status try_ = (expression);                                                                             \
        if (try_ != ANYDNN_OK) return try_;                                                                            \
    } while (0)

static anydnn_status make(struct scene *s)
{
    TRY(anydnn_open("cuda:0", NULL, &s->context));
    TRY(anydnn_stream_create(s->context, (uint64_t)64 << 20, &s->stream));
    TRY(anydnn_stream_create(s->context, ANYDNN_NO_WORKSPACE, &s->other));
    TRY(anydnn_event_create(s->context, &s->start));
    TRY(anydnn_event_create(s->context, &s->end));
    TRY(anydnn_alloc(s->context, BYTES, &s->x));
    TRY(anydnn_alloc(s->context, BYTES, &s->y));
    return anydnn_alloc_host(s->context, BYTES, (void **)&s->host);
}

static anydnn_status move(struct scene *s, int *same)
{
    double nanoseconds = -1.0;
    int i;
    for (i = 0; i < ELEMENTS; i++) s->host[i] = (float)i;
    TRY(anydnn_event_record(s->start, s->stream));
    TRY(anydnn_copy_in(s->stream, s->x, s->host, BYTES));
    TRY(anydnn_set(s->stream, s->y, 0, BYTES));
    TRY(anydnn_copy(s->stream, anydnn_mem_at(s->y, 16), s->x, BYTES - 16));
    TRY(anydnn_event_record(s->end, s->stream));
    TRY(anydnn_stream_wait(s->other, s->end));
    memset(s->host, 0xff, BYTES);
    TRY(anydnn_copy_out(s->stream, s->host, s->y, BYTES));
    TRY(anydnn_event_elapsed(s->start, s->end, &nanoseconds));
    TRY(anydnn_event_sync(s->end));
    TRY(anydnn_stream_sync(s->stream));
    *same = nanoseconds == 5e5;
    for (i = 0; i < ELEMENTS; i++) *same &= s->host[i] == (i < 4 ? 0.0f : (float)(i - 4));
    return ANYDNN_OK;
}

static anydnn_status relu(struct scene *s)
{
    anydnn_activation op = anydnn_activation_init();
    anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, ELEMENTS);
    anydnn_binding bindings[2];
    op.op = ANYDNN_OP_ACTIVATION_FORWARD;
    op.mode = ANYDNN_RELU;
    bindings[0] = anydnn_bind(ANYDNN_X, &t, s->x);
    bindings[1] = anydnn_bind(ANYDNN_Y, &t, s->y);
    return anydnn_run(s->stream, (const anydnn_op *)&op, NULL, bindings, 2);
}

static anydnn_status matmul(struct scene *s)
{
    anydnn_matmul op = anydnn_matmul_init();
    anydnn_tensor t = anydnn_tensor_2d(ANYDNN_F32, 8, 8);
    anydnn_binding bindings[3];
    bindings[0] = anydnn_bind(ANYDNN_A, &t, s->x);
    bindings[1] = anydnn_bind(ANYDNN_B, &t, s->x);
    bindings[2] = anydnn_bind(ANYDNN_Y, &t, s->y);
    return anydnn_run(s->stream, (const anydnn_op *)&op, NULL, bindings, 3);
}

static void unmake(struct scene *s)
{
    if (s->host) anydnn_free_host(s->context, s->host);
    if (s->y.kind) CHECK(anydnn_free(s->context, s->y) == ANYDNN_OK || fake_cuda_failed()[0]);
    if (s->x.kind) CHECK(anydnn_free(s->context, s->x) == ANYDNN_OK || fake_cuda_failed()[0]);
    anydnn_event_destroy(s->end);
    anydnn_event_destroy(s->start);
    anydnn_stream_destroy(s->other);
    anydnn_stream_destroy(s->stream);
    anydnn_close(s->context);
}

/* *same: the copies came through, where the run got so far. */
static anydnn_status run_scene(int *same)
{
    struct scene s;
    anydnn_status status;
    memset(&s, 0, sizeof s);
    *same = 1;
    status = make(&s);
    if (status == ANYDNN_OK) status = move(&s, same);
    if (status == ANYDNN_OK) status = relu(&s);
    if (status == ANYDNN_OK) status = matmul(&s);
    if (status != ANYDNN_OK) CHECK(fake_cuda_failed()[0] && strstr(anydnn_message(), fake_cuda_failed()));
    unmake(&s);
    return status;
}

static int test_clean_run(void)
{
    int same;
    fake_cuda_reset();
    CHECK(run_scene(&same) == ANYDNN_OK);
    CHECK(same);
    CHECK(total(fake_cuda_live()) == 0);
    CHECK(fake_cuda_depth() == 0);
    CHECK(fake_cuda_complaint()[0] == 0);
    CHECK(fake_cuda_launches() >= 2);
    CHECK(strncmp(fake_cuda_last_function(), "adn_", 4) == 0);
    return fake_cuda_calls();
}

/* A refused kernel may be replaced by another engine's: then the run completes. */
static void test_every_failure(int calls, int code)
{
    int n, same;
    for (n = 1; n <= calls; n++) {
        anydnn_status status;
        int live;
        fake_cuda_reset();
        fake_cuda_fail_after(n, code);
        status = run_scene(&same);
        live = total(fake_cuda_live());
        if (live || !same || fake_cuda_complaint()[0] || fake_cuda_depth())
            printf("call %d (%s) fails with %d: status %d, %d alive, depth %d\n", n, fake_cuda_failed(), code,
                   (int)status, live, fake_cuda_depth());
        CHECK(live == 0 && same && fake_cuda_complaint()[0] == 0 && fake_cuda_depth() == 0);
        if (code == OUT_OF_MEMORY) CHECK(status == ANYDNN_OK || status == ANYDNN_OUT_OF_MEMORY);
        if (code == UNKNOWN) CHECK(status == ANYDNN_OK || status == ANYDNN_DEVICE);
    }
    test_clean_run();
}

/* The list of devices is built once in a process: a child for each failure. */
static void test_probe_failures(void)
{
    int n;
    for (n = 0; n <= 12; n++) {
        int outcome = 0;
        pid_t child = fork();
        if (child == 0) {
            anydnn_context *context = NULL;
            int ok;
            fake_cuda_fail_after(n, UNKNOWN);
            ok = anydnn_device_count() >= 1 && anydnn_backend_note(ANYDNN_BACKEND_CUDA)[0];
            if (n > 0)
                ok = ok && (!fake_cuda_failed()[0] || strstr(anydnn_backend_note(ANYDNN_BACKEND_CUDA), "UNKNOWN"));
            if (anydnn_open("cuda:0", NULL, &context) != ANYDNN_OK) ok = ok && anydnn_message()[0];
            anydnn_close(context);
            _exit(ok && total(fake_cuda_live()) == 0 ? 0 : 1);
        }
        waitpid(child, &outcome, 0);
        CHECK(outcome == 0);
    }
}

static void test_info(void)
{
    anydnn_context *context = NULL;
    anydnn_device_info info;
    info.struct_size = sizeof info;
    CHECK(anydnn_open("cuda:1", NULL, &context) == ANYDNN_OK);
    CHECK(anydnn_context_info(context, &info) == ANYDNN_OK);
    CHECK(strcmp(info.id, "cuda:1") == 0 && strcmp(info.name, "Fake device 1") == 0);
    CHECK(strcmp(info.driver, "CUDA 13.0") == 0 && info.capability == 90 && info.compute_units == 132);
    CHECK(info.local_memory_bytes == 232448 && info.max_block_threads == 1024);
    CHECK(strcmp(anydnn_backend_note(ANYDNN_BACKEND_CUDA), "CUDA 13.0, 2 devices") == 0);
    anydnn_close(context);
}

/* ---- The caller's contexts and streams. ---- */

static void test_current_context(void)
{
    void *callers;
    int same;
    fake_cuda_reset();
    callers = fake_cuda_make_context(1);
    fake_cuda_set_current(callers);
    CHECK(run_scene(&same) == ANYDNN_OK && same);
    CHECK(fake_cuda_current() == callers && fake_cuda_depth() == 1);
    fake_cuda_set_current(NULL);
    fake_cuda_drop(callers);
    CHECK(total(fake_cuda_live()) == 0);
}

static void test_wrapped(void)
{
    void *mine = fake_cuda_make_context(1), *others = fake_cuda_make_context(0);
    void *my_stream = fake_cuda_make_stream(mine), *other_stream = fake_cuda_make_stream(others);
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL, *foreign = NULL, *standard = NULL;
    anydnn_device_info info;
    info.struct_size = sizeof info;
    fake_cuda_reset();
    CHECK(anydnn_cuda_open(NULL, NULL, &context) == ANYDNN_INVALID);
    CHECK(anydnn_cuda_open(mine, NULL, &context) == ANYDNN_OK);
    CHECK(anydnn_context_info(context, &info) == ANYDNN_OK && strcmp(info.name, "Fake device 1") == 0);
    CHECK(anydnn_cuda_stream(context, my_stream, ANYDNN_NO_WORKSPACE, &stream) == ANYDNN_OK);
    CHECK(anydnn_cuda_stream(context, other_stream, ANYDNN_NO_WORKSPACE, &foreign) == ANYDNN_INVALID && !foreign);
    CHECK(anydnn_cuda_stream(context, NULL, ANYDNN_NO_WORKSPACE, &standard) == ANYDNN_OK);
    CHECK(anydnn_cuda_native_context(context) == mine && anydnn_cuda_native_stream(stream) == my_stream);
    CHECK(anydnn_cuda_native_stream(standard) == NULL);
    CHECK(anydnn_stream_sync(standard) == ANYDNN_OK);
    anydnn_stream_destroy(standard);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    CHECK(fake_cuda_live().streams == 2 && fake_cuda_live().contexts == 2 && fake_cuda_depth() == 0);
    CHECK(fake_cuda_complaint()[0] == 0);
    fake_cuda_drop(my_stream), fake_cuda_drop(other_stream);
    fake_cuda_drop(mine), fake_cuda_drop(others);
    CHECK(total(fake_cuda_live()) == 0);
}

/* Once its plan is cached, an operation does nothing that a capture forbids, and only launches. */
static void test_capture(void)
{
    struct scene s;
    int before;
    memset(&s, 0, sizeof s);
    fake_cuda_reset();
    CHECK(make(&s) == ANYDNN_OK && relu(&s) == ANYDNN_OK && matmul(&s) == ANYDNN_OK);
    before = fake_cuda_calls();
    fake_cuda_capture(1);
    CHECK(relu(&s) == ANYDNN_OK && matmul(&s) == ANYDNN_OK);
    fake_cuda_capture(0);
    CHECK(fake_cuda_calls() - before <= 4 * fake_cuda_launches());
    CHECK(fake_cuda_complaint()[0] == 0);
    unmake(&s);
    CHECK(total(fake_cuda_live()) == 0);
}

int main(void)
{
    int calls;
    test_probe_failures();
    calls = test_clean_run();
    CHECK(calls > 20);
    test_info();
    test_current_context();
    test_wrapped();
    test_capture();
    test_every_failure(calls, UNKNOWN);
    test_every_failure(calls, OUT_OF_MEMORY);
    test_every_failure(calls, NO_BINARY);
    printf("%d passed, %d failed\n", passed, failed_checks);
    return failed_checks != 0;
}
