/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/scenario.c: see scenario.h. Host buffers are static: a copy may be on its way when a pass gives up. */
#include "scenario.h"

#include <anydnn/opencl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ELEMENTS = 64, BYTES = ELEMENTS * 4 };

int scenario_passed, scenario_failed;
char scenario_case[160];

bool scenario_check(bool good, const char *file, int line, const char *what)
{
    if (good) {
        scenario_passed++;
    } else {
        scenario_failed++;
        printf("%s:%d: failed: %s (%s); message \"%s\"\n", file, line, what, scenario_case, anydnn_message());
    }
    return good;
}

int scenario_end(int skipped)
{
    printf("%d passed, %d failed, %d skipped\n", scenario_passed, scenario_failed, skipped);
    return scenario_failed > 0 || scenario_passed == 0;
}

struct scene {
    anydnn_context *context, *wrapped;
    anydnn_stream *stream, *other, *wrapping;
    anydnn_event *start, *end;
    anydnn_plan *plan[2];
    anydnn_mem ones, x, y;
    float *host;
};

static float ones[ELEMENTS], numbers[ELEMENTS], back[ELEMENTS];

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        const anydnn_status try_ = (expression);                                                                       \
        if (try_ != ANYDNN_OK) return try_;                                                                            \
    } while (0)

static anydnn_status make(struct scene *s, const char *device)
{
    TRY(anydnn_open(device, NULL, &s->context));
    TRY(anydnn_stream_create(s->context, 1 << 20, &s->stream));
    TRY(anydnn_stream_create(s->context, ANYDNN_NO_WORKSPACE, &s->other));
    TRY(anydnn_event_create(s->context, &s->start));
    TRY(anydnn_event_create(s->context, &s->end));
    TRY(anydnn_alloc(s->context, BYTES, &s->ones));
    TRY(anydnn_alloc(s->context, BYTES, &s->x));
    TRY(anydnn_alloc(s->context, BYTES, &s->y));
    TRY(anydnn_alloc_host(s->context, BYTES, (void **)&s->host));
    if (!anydnn_opencl_native_context(s->context)) return ANYDNN_OK;
    TRY(anydnn_opencl_open(anydnn_opencl_native_context(s->context), anydnn_opencl_native_device(s->context), NULL,
                           &s->wrapped));
    return anydnn_opencl_stream(s->wrapped, anydnn_opencl_native_queue(s->stream), ANYDNN_NO_WORKSPACE, &s->wrapping);
}

static anydnn_status move(struct scene *s, bool *right)
{
    double nanoseconds = -1;
    int i;
    for (i = 0; i < ELEMENTS; i++) ones[i] = 1.0f, s->host[i] = numbers[i] = (float)i;
    TRY(anydnn_copy_in(s->stream, s->ones, ones, BYTES));
    TRY(anydnn_event_record(s->start, s->stream));
    TRY(anydnn_copy_in(s->stream, s->x, s->host, BYTES));
    TRY(anydnn_set(s->stream, s->y, 0, BYTES));
    TRY(anydnn_copy(s->stream, anydnn_mem_at(s->y, 16), s->x, BYTES - 16));
    TRY(anydnn_event_record(s->end, s->stream));
    TRY(anydnn_stream_wait(s->other, s->end));
    memset(back, 0xff, sizeof back);
    TRY(anydnn_copy_out(s->other, back, s->y, BYTES));
    TRY(anydnn_event_elapsed(s->start, s->end, &nanoseconds));
    TRY(anydnn_event_sync(s->end));
    TRY(anydnn_stream_sync(s->other));
    *right = *right && nanoseconds >= 0;
    for (i = 0; i < ELEMENTS; i++) *right = *right && back[i] == (i < 4 ? 0.0f : (float)(i - 4));
    return ANYDNN_OK;
}

static anydnn_status read_back(struct scene *s, anydnn_stream *stream)
{
    memset(back, 0xff, sizeof back);
    TRY(anydnn_copy_out(stream, back, s->y, BYTES));
    return anydnn_stream_sync(stream);
}

/* A 3x3 window of ones over a padded 3x3 plane of ones counts what lies inside. */
static anydnn_status convolve(struct scene *s, bool *right)
{
    static const float want[9] = { 4, 6, 4, 6, 9, 6, 4, 6, 4 };
    const anydnn_tensor t = anydnn_tensor_nchw(ANYDNN_F32, 1, 1, 3, 3);
    anydnn_conv op = anydnn_conv_init();
    op.pad[0] = op.pad[1] = 1;
    TRY(anydnn_conv_forward(s->stream, &op, &t, s->ones, &t, s->ones, NULL, anydnn_mem_none(), &t, s->y));
    TRY(read_back(s, s->stream));
    *right = *right && memcmp(back, want, sizeof want) == 0;
    return ANYDNN_OK;
}

/* Rows of `numbers` times ones: the sums of eight consecutive numbers. */
static void check_sums(bool *right)
{
    int i;
    for (i = 0; i < 64; i++) *right = *right && back[i] == (float)(i / 8 * 64 + 28);
}

static anydnn_status multiply(struct scene *s, bool *right)
{
    const anydnn_tensor t = anydnn_tensor_2d(ANYDNN_F32, 8, 8);
    const anydnn_matmul op = anydnn_matmul_init();
    TRY(anydnn_matmul_run(s->stream, &op, &t, s->x, &t, s->ones, NULL, anydnn_mem_none(), &t, s->y));
    TRY(read_back(s, s->stream));
    check_sums(right);
    return ANYDNN_OK;
}

static anydnn_status multiply_by_plan(struct scene *s, bool *right)
{
    const anydnn_tensor t = anydnn_tensor_2d(ANYDNN_F32, 8, 8);
    const anydnn_matmul op = anydnn_matmul_init();
    const anydnn_binding rows[] = { anydnn_bind(ANYDNN_A, &t, s->x), anydnn_bind(ANYDNN_B, &t, s->ones),
                                    anydnn_bind(ANYDNN_Y, &t, s->y) };
    TRY(anydnn_plan_create(s->context, (const anydnn_op *)&op, NULL, rows, 3, &s->plan[0]));
    TRY(anydnn_plan_run(s->plan[0], s->stream, rows, 3, NULL));
    TRY(read_back(s, s->stream));
    check_sums(right);
    return ANYDNN_OK;
}

/* Eight equal numbers share one. */
static anydnn_status soften(struct scene *s, bool *right)
{
    const anydnn_tensor t = anydnn_tensor_2d(ANYDNN_F32, 8, 8);
    anydnn_softmax op = anydnn_softmax_init();
    anydnn_binding rows[2];
    int round, i;
    rows[0] = anydnn_bind(ANYDNN_X, &t, s->ones);
    rows[1] = anydnn_bind(ANYDNN_Y, &t, s->y);
    op.op = ANYDNN_OP_SOFTMAX_FORWARD;
    for (round = 0; round < 2; round++) {
        if (round == 0) {
            TRY(anydnn_softmax_forward(s->stream, &op, &t, s->ones, &t, s->y));
        } else {
            TRY(anydnn_plan_create(s->context, (const anydnn_op *)&op, NULL, rows, 2, &s->plan[1]));
            TRY(anydnn_plan_run(s->plan[1], s->stream, rows, 2, NULL));
        }
        TRY(read_back(s, s->stream));
        for (i = 0; i < 64; i++) *right = *right && fabsf(back[i] - 0.125f) < 1e-6f;
    }
    return ANYDNN_OK;
}

static anydnn_status use_wrapped(struct scene *s, bool *right)
{
    int i;
    if (!s->wrapped) return ANYDNN_OK;
    TRY(anydnn_set(s->wrapping, s->y, 0, BYTES));
    TRY(read_back(s, s->wrapping));
    for (i = 0; i < ELEMENTS; i++) *right = *right && back[i] == 0.0f;
    return ANYDNN_OK;
}

/* What a free answers is not the pass's: what it gave back, the counts of the tests tell. */
static void unmake(struct scene *s)
{
    anydnn_plan_release(s->plan[1]);
    anydnn_plan_release(s->plan[0]);
    anydnn_stream_destroy(s->wrapping);
    anydnn_close(s->wrapped);
    anydnn_event_destroy(s->end);
    anydnn_event_destroy(s->start);
    anydnn_stream_destroy(s->other);
    if (s->stream) anydnn_stream_sync(s->stream);
    anydnn_free_host(s->context, s->host);
    if (s->y.kind) anydnn_free(s->context, s->y);
    if (s->x.kind) anydnn_free(s->context, s->x);
    if (s->ones.kind) anydnn_free(s->context, s->ones);
    anydnn_stream_destroy(s->stream);
    anydnn_close(s->context);
}

anydnn_status scenario_run(const char *device, bool *right)
{
    static anydnn_status (*const parts[])(struct scene *, bool *) = { move,   convolve,   multiply, multiply_by_plan,
                                                                      soften, use_wrapped };
    struct scene s;
    anydnn_status status;
    size_t i;
    memset(&s, 0, sizeof s);
    *right = true;
    status = make(&s, device);
    for (i = 0; i < sizeof parts / sizeof parts[0] && status == ANYDNN_OK; i++) status = parts[i](&s, right);
    unmake(&s);
    return status;
}

static anydnn_status relu(struct scene *s, bool *right)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, ELEMENTS);
    int i;
    for (i = 0; i < ELEMENTS; i++) numbers[i] = (float)(i - 32);
    TRY(anydnn_copy_in(s->stream, s->x, numbers, BYTES));
    TRY(anydnn_activation_forward(s->stream, ANYDNN_RELU, &t, s->x, &t, s->y));
    TRY(read_back(s, s->stream));
    for (i = 0; i < ELEMENTS; i++) *right = *right && back[i] == (i < 32 ? 0.0f : numbers[i]);
    return ANYDNN_OK;
}

anydnn_status scenario_relu(const char *device, bool *right)
{
    struct scene s;
    anydnn_status status;
    memset(&s, 0, sizeof s);
    *right = true;
    status = anydnn_open(device, NULL, &s.context);
    if (status == ANYDNN_OK) status = anydnn_stream_create(s.context, ANYDNN_NO_WORKSPACE, &s.stream);
    if (status == ANYDNN_OK) status = anydnn_alloc(s.context, BYTES, &s.x);
    if (status == ANYDNN_OK) status = anydnn_alloc(s.context, BYTES, &s.y);
    if (status == ANYDNN_OK) status = relu(&s, right);
    unmake(&s);
    return status;
}
