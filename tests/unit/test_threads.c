/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_threads.c: what the library promises to threads, for a thread sanitizer above all.
 *   list       the first anydnn_device_count of the process, from all threads at once
 *   calls      eight threads share a context, problems and a plan, each with a stream of its own: one-shot calls of
 *              more shapes than the plan cache holds, so that plans are evicted while others run them. Every result
 *              must equal, bit by bit, that of the same call made alone.
 *   contexts   opened, used and closed by all threads at once */
#include "common/os.h"
#include "unit.h"

#include <anydnn/anydnn.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 3, REOPENED = 4, CACHED_PLANS = 4, MAX_BYTES = 1 << 18 };

static const char *const lines[] = {
    "conv_forward x=2x5x9x8/f32 w=7x5x3x3/f32 pad=1,1",
    "conv_forward x=1x8x12x12/f32 w=6x8x5x5/f32 stride=2,2",
    "conv_backward_data dy=2x7x9x8/f32 w=7x5x3x3/f32 dx=2x5x9x8/f32 pad=1,1",
    "conv_backward_filter x=2x5x9x8/f32 dy=2x7x9x8/f32 dw=7x5x3x3/f32 pad=1,1",
    "matmul a=33x17/f32 b=17x29/f32",
    "matmul a=64x64/f32 b=64x64/f32 y=64x64/f32 alpha=0.5 beta=2",
    "matmul a=3x65/f16 b=65x5/f16",
    "matmul a=128x96/f32 b=96x128/f32",
    "conv_forward x=4x16x14x14/f32 w=16x16x3x3/f32 pad=1,1",
    ("batchnorm_training x=4x7x5x6/f32 gamma=1x7x1x1/f32 shift=1x7x1x1/f32 saved_mean=1x7x1x1/f32 "
     "saved_invstd=1x7x1x1/f32 running_mean=1x7x1x1/f32 running_var=1x7x1x1/f32"),
    "pool_forward x=2x5x9x11/f32 mode=max window=3,3 stride=2,2 pad=1,1",
    "softmax_forward x=5x37/f32 mode=log",
    "dropout_forward x=777/f32 ratio=0.25",
    "reduce x=5x7x9/f32 mode=sum",
};
enum { LINES = (int)(sizeof lines / sizeof *lines) };

struct job {
    anydnn_problem *problem;
    unsigned char *expected; /* all tensors behind the call, one after the other */
    uint64_t bytes;
};
static struct job jobs[LINES];
static anydnn_context *shared;
static anydnn_plan *shared_plan; /* of jobs[0] */

/* One thread: checks are counted when it has been joined. */
struct worker {
    int index, counted, good, bad;
    char why[256];
};

static void judge(struct worker *worker, bool good, const char *what)
{
    if (good) {
        worker->good++;
        return;
    }
    if (worker->bad++ == 0) snprintf(worker->why, sizeof worker->why, "%s (%s)", what, anydnn_message());
}

static bool all_threads(struct worker workers[THREADS], void (*run)(void *))
{
    adn_thread *threads[THREADS];
    bool started = true;
    int i;
    for (i = 0; i < THREADS; i++) {
        memset(&workers[i], 0, sizeof workers[i]);
        workers[i].index = i;
        threads[i] = adn_thread_start(run, &workers[i]);
        started = started && threads[i];
    }
    for (i = 0; i < THREADS; i++) {
        if (!threads[i]) continue;
        adn_thread_join(threads[i]);
        unit_passed += workers[i].good;
        unit_failed += workers[i].bad;
        if (workers[i].bad) printf("thread %d: failed: %s\n", i, workers[i].why);
    }
    return started;
}

/* Every tensor begins with the same content, whoever calls: halves of small whole numbers, or the index 0. */
static void fill(unsigned char *to, const anydnn_tensor *tensor, int role)
{
    static const uint16_t halves[] = { 0x3800, 0xb800, 0x3c00, 0xbe00, 0x4000, 0x3e00, 0xbc00 }; /* 0.5, -0.5, ... */
    static const float floats[] = { 0.5f, -0.5f, 1.0f, -1.5f, 2.0f, 1.5f, -1.0f };
    const int64_t count = anydnn_tensor_count(tensor);
    int64_t i;
    for (i = 0; i < count; i++) {
        const int64_t k = (i * 5 + i / 7 + role) % 7;
        if (tensor->dtype == ANYDNN_F16) memcpy(to + 2 * i, &halves[k], 2);
        if (tensor->dtype == ANYDNN_F32) memcpy(to + 4 * i, &floats[k], 4);
    }
}

/* Runs a job in `memory`; all of its tensors are then in `bytes`. The plan NULL: a one-shot call. */
static anydnn_status run_job(const struct job *job, const anydnn_plan *plan, anydnn_stream *stream, anydnn_mem memory,
                             unsigned char *bytes, uint64_t *used)
{
    anydnn_binding rows[32];
    anydnn_status status;
    uint64_t at = 0;
    int count, i;
    const anydnn_binding *given = anydnn_problem_bindings(job->problem, &count);
    memset(bytes, 0, MAX_BYTES);
    for (i = 0; i < count; i++) {
        rows[i] = given[i];
        if (!rows[i].tensor) continue;
        rows[i].mem = anydnn_mem_at(memory, at);
        fill(bytes + at, rows[i].tensor, rows[i].role);
        at += ((uint64_t)anydnn_tensor_bytes(rows[i].tensor) + 255) / 256 * 256;
    }
    *used = at;
    status = anydnn_copy_in(stream, memory, bytes, at);
    if (status == ANYDNN_OK)
        status =
            plan ? anydnn_plan_run(plan, stream, rows, count, NULL)
                 : anydnn_run(stream, anydnn_problem_op(job->problem), anydnn_problem_prefs(job->problem), rows, count);
    if (status == ANYDNN_OK) status = anydnn_copy_out(stream, bytes, memory, at);
    if (status == ANYDNN_OK) status = anydnn_stream_sync(stream);
    return status;
}

/* A thread's own stream and memory. */
struct place {
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_mem memory;
    unsigned char *bytes;
};

static bool place_make(struct place *place, anydnn_context *context)
{
    memset(place, 0, sizeof *place);
    place->context = context;
    place->bytes = malloc(MAX_BYTES);
    return place->bytes && anydnn_stream_create(context, 1 << 20, &place->stream) == ANYDNN_OK &&
           anydnn_alloc(context, MAX_BYTES, &place->memory) == ANYDNN_OK;
}

static void place_free(struct place *place)
{
    anydnn_stream_destroy(place->stream);
    anydnn_free(place->context, place->memory);
    free(place->bytes);
}

static void try_job(struct worker *worker, const struct place *place, const struct job *job, const anydnn_plan *plan,
                    const char *line)
{
    uint64_t used;
    const anydnn_status status = run_job(job, plan, place->stream, place->memory, place->bytes, &used);
    judge(worker, status == ANYDNN_OK && used == job->bytes && memcmp(place->bytes, job->expected, used) == 0, line);
}

/* ---- list ---- */

static void count_devices(void *argument)
{
    struct worker *worker = argument;
    anydnn_device_info info = { (uint32_t)sizeof info };
    worker->counted = anydnn_device_count();
    judge(worker, worker->counted >= 1 && anydnn_device_get(0, &info) == ANYDNN_OK && !strcmp(info.id, "cpu"),
          "the device list");
}

/* ---- calls ---- */

static void make_calls(void *argument)
{
    struct worker *worker = argument;
    struct place place;
    anydnn_problem *wrong = NULL;
    int round, i;
    if (!place_make(&place, shared)) {
        judge(worker, false, "a stream and memory of the shared context");
        place_free(&place);
        return;
    }
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < LINES; i++) { /* half of the threads in step, the others each from a place of its own */
            const int k = (i + (worker->index % 2 ? worker->index : 0)) % LINES;
            try_job(worker, &place, &jobs[k], NULL, lines[k]);
        }
        try_job(worker, &place, &jobs[0], shared_plan, "the shared plan");
        judge(worker, anydnn_problem_parse("matmul a=2x3/f32 b=4x5/f32", &wrong) == ANYDNN_INVALID && *anydnn_message(),
              "a message of this thread");
    }
    place_free(&place);
}

/* ---- contexts ---- */

static void reopen(void *argument)
{
    struct worker *worker = argument;
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    int i;
    for (i = 0; i < REOPENED; i++) {
        const int k = (worker->index + i) % LINES;
        anydnn_context *context;
        struct place place;
        anydnn_status status;
        options.cpu_threads = 1 + (worker->index + i) % 3;
        options.plan_cache = worker->index % 2 ? -1 : 1;
        status = anydnn_open("cpu", &options, &context);
        judge(worker, status == ANYDNN_OK, "anydnn_open");
        if (status != ANYDNN_OK) continue;
        if (place_make(&place, context))
            try_job(worker, &place, &jobs[k], NULL, lines[k]);
        else
            judge(worker, false, "a stream and memory of an own context");
        place_free(&place);
        anydnn_close(context);
    }
}

/* ---- the serial run ---- */

/* What the calls give when made alone, with one thread and a cache that holds all plans. */
static bool expect(void)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    anydnn_context *context;
    struct place place;
    bool good;
    int i;
    options.cpu_threads = 1;
    if (anydnn_open("cpu", &options, &context) != ANYDNN_OK) return false;
    good = place_make(&place, context);
    for (i = 0; good && i < LINES; i++) {
        struct job *job = &jobs[i];
        job->expected = malloc(MAX_BYTES);
        good = job->expected && anydnn_problem_parse(lines[i], &job->problem) == ANYDNN_OK &&
               run_job(job, NULL, place.stream, place.memory, job->expected, &job->bytes) == ANYDNN_OK;
        CHECK_CASE(good && job->bytes <= MAX_BYTES, lines[i]);
        if (!good) printf("  %s\n", anydnn_message());
    }
    place_free(&place);
    anydnn_close(context);
    return good;
}

static bool share(void)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    int count;
    const anydnn_binding *given = anydnn_problem_bindings(jobs[0].problem, &count);
    options.cpu_threads = 2;
    options.plan_cache = CACHED_PLANS;
    return anydnn_open("cpu", &options, &shared) == ANYDNN_OK &&
           anydnn_plan_create(shared, anydnn_problem_op(jobs[0].problem), NULL, given, count, &shared_plan) ==
               ANYDNN_OK;
}

int main(void)
{
    static struct worker workers[THREADS];
    int i;
    CHECK(all_threads(workers, count_devices));
    for (i = 1; i < THREADS; i++) CHECK(workers[i].counted == workers[0].counted);
    if (expect() && share()) {
        CHECK(all_threads(workers, make_calls));
        anydnn_plan_release(shared_plan);
        anydnn_close(shared);
        CHECK(all_threads(workers, reopen));
    } else {
        CHECK(!"the serial run and the shared context");
    }
    for (i = 0; i < LINES; i++) {
        anydnn_problem_destroy(jobs[i].problem);
        free(jobs[i].expected);
    }
    return unit_end();
}
