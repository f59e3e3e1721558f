/* SPDX-License-Identifier: Apache-2.0
 * tests/support/arrays.h: a small frame for calls through the public API on f32 arrays that plain loops check: memory
 * of a fixed size each, gaps between elements and bytes behind the workspace watched, workspace as asked for and no
 * more. One test program, one device. */
#ifndef ADN_TESTS_ARRAYS_H
#define ADN_TESTS_ARRAYS_H
#include "../unit/unit.h"

#include <anydnn/anydnn.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LIMIT = 16384, GUARD = 256, WORKSPACE = 8 << 20, NO_DEVICE = 77 };

/* A tensor with its memory. `host` lies as in memory, `was` and `want` hold the elements in row-major order. */
struct array {
    anydnn_tensor t;
    anydnn_mem mem;
    float host[LIMIT];
    double was[LIMIT], want[LIMIT];
};

static anydnn_context *context;
static anydnn_stream *stream;
static anydnn_mem scratch;
static uint64_t largest_workspace;

/* ---- arrays ---- */

static inline int64_t offset_of(const anydnn_tensor *t, int64_t number)
{
    int64_t offset = 0;
    int axis;
    for (axis = t->ndim - 1; axis >= 0; number /= t->dims[axis], axis--)
        offset += number % t->dims[axis] * t->strides[axis];
    return offset;
}

static inline int64_t number_of(const struct array *a, int64_t n, int64_t c, int64_t h, int64_t v)
{
    return ((n * a->t.dims[1] + c) * a->t.dims[2] + h) * a->t.dims[3] + v;
}

static inline int64_t channel_of(const struct array *a, int64_t number)
{
    return number / (a->t.dims[2] * a->t.dims[3]) % a->t.dims[1];
}

static inline int64_t count_of(const struct array *a)
{
    return anydnn_tensor_count(&a->t);
}

static inline void send(struct array *a)
{
    int64_t i;
    for (i = 0; i < count_of(a); i++) a->want[i] = a->was[i] = a->host[offset_of(&a->t, i)];
    CHECK(anydnn_copy_in(stream, a->mem, a->host, sizeof a->host) == ANYDNN_OK &&
          anydnn_stream_sync(stream) == ANYDNN_OK);
}

/* Eighths in [-1, 1], whose sums of products are exact, between gaps of 77. */
static inline void give(struct array *a, anydnn_tensor t)
{
    static uint32_t state = 1;
    int64_t i;
    a->t = t;
    for (i = 0; i < LIMIT; i++) a->host[i] = 77;
    for (i = 0; i < count_of(a); i++) {
        state = state * 1664525u + 1013904223u;
        a->host[offset_of(&t, i)] = (float)((int)(state >> 16) % 17 - 8) / 8;
    }
    send(a);
}

static inline void give_value(struct array *a, anydnn_tensor t, float value)
{
    int64_t i;
    give(a, t);
    for (i = 0; i < count_of(a); i++) a->host[offset_of(&t, i)] = value;
    send(a);
}

static inline void want_scaled(struct array *a, double beta)
{
    int64_t i;
    for (i = 0; i < count_of(a); i++) a->want[i] = beta == 0 ? 0 : beta * a->was[i];
}

/* Whether the memory holds what is wanted, and nothing beside it has changed; it becomes what `was`. */
static inline void expect(struct array *a, const char *what)
{
    static float got[LIMIT];
    bool good =
        anydnn_copy_out(stream, got, a->mem, sizeof got) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK;
    int64_t i;
    for (i = 0; i < count_of(a) && good; i++) {
        const int64_t at = offset_of(&a->t, i);
        good = isnan(a->want[i]) ? isnan(got[at]) : fabs(got[at] - a->want[i]) <= 2e-5 * (1 + fabs(a->want[i]));
        if (!good) printf("%s: element %d is %.9g, not %.9g\n", what, (int)i, got[at], a->want[i]);
        a->host[at] = got[at];
        a->was[i] = got[at];
    }
    CHECK_CASE(good, what);
    CHECK_CASE(!good || memcmp(got, a->host, sizeof got) == 0, what);
}

static inline anydnn_tensor nchw(int64_t n, int64_t c, int64_t h, int64_t v)
{
    return anydnn_tensor_nchw(ANYDNN_F32, n, c, h, v);
}

static inline anydnn_tensor nhwc(int64_t n, int64_t c, int64_t h, int64_t v)
{
    return anydnn_tensor_nhwc(ANYDNN_F32, n, c, h, v);
}

static inline anydnn_tensor strided(anydnn_tensor t, int64_t s0, int64_t s1, int64_t s2, int64_t s3)
{
    t.strides[0] = s0, t.strides[1] = s1, t.strides[2] = s2, t.strides[3] = s3;
    return t;
}

/* ---- calls ---- */

static inline anydnn_binding bind(int role, const struct array *a)
{
    return anydnn_bind(role, &a->t, a->mem);
}

static inline anydnn_binding value(int role, double v)
{
    return anydnn_bind_value(role, v);
}

/* Plan, workspace as asked for, run. */
static inline bool run_plan(const anydnn_plan *plan, const anydnn_binding *rows, int count)
{
    anydnn_plan_info info;
    anydnn_mem given = scratch;
    unsigned char guard[GUARD], after[GUARD];
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    memset(guard, 0x5a, sizeof guard);
    if (anydnn_plan_get_info(plan, &info) || info.workspace_bytes > WORKSPACE) return false;
    if (info.workspace_bytes > largest_workspace) largest_workspace = info.workspace_bytes;
    if (anydnn_copy_in(stream, anydnn_mem_at(scratch, info.workspace_bytes), guard, GUARD)) return false;
    if (info.workspace_bytes) {
        given.size = info.workspace_bytes - 1;
        CHECK(anydnn_plan_run(plan, stream, rows, count, &given) == ANYDNN_INVALID);
        given.size = info.workspace_bytes;
    }
    return anydnn_plan_run(plan, stream, rows, count, info.workspace_bytes ? &given : NULL) == ANYDNN_OK &&
           anydnn_copy_out(stream, after, anydnn_mem_at(scratch, info.workspace_bytes), GUARD) == ANYDNN_OK &&
           anydnn_stream_sync(stream) == ANYDNN_OK && memcmp(guard, after, GUARD) == 0;
}

static inline bool call(const void *op, const char *engine, const anydnn_binding *rows, int count)
{
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    anydnn_plan *plan = NULL;
    bool good;
    prefs.engine = engine;
    good = anydnn_plan_create(context, op, &prefs, rows, count, &plan) == ANYDNN_OK && run_plan(plan, rows, count);
    if (!good) printf("message: %s\n", anydnn_message());
    anydnn_plan_release(plan);
    return good;
}

#define ROWS(...)                                                                                                      \
    ((const anydnn_binding[]){ __VA_ARGS__ }),                                                                         \
        (int)(sizeof((const anydnn_binding[]){ __VA_ARGS__ }) / sizeof(anydnn_binding))
#define RUN(op, ...) CHECK(call(op, NULL, ROWS(__VA_ARGS__)))

/* ---- device ---- */

/* Result: 0, or the exit code of the test. */
static inline int open_arrays(const char *device, struct array *const *arrays, int count)
{
    const anydnn_status status = anydnn_open(device, NULL, &context);
    int i;
    if (status == ANYDNN_UNSUPPORTED) {
        printf("skipped: no %s here: %s\n", device, anydnn_message());
        return NO_DEVICE;
    }
    CHECK(status == ANYDNN_OK && anydnn_stream_create(context, ANYDNN_NO_WORKSPACE, &stream) == ANYDNN_OK);
    CHECK(anydnn_alloc(context, WORKSPACE + GUARD, &scratch) == ANYDNN_OK);
    for (i = 0; i < count; i++) CHECK(anydnn_alloc(context, sizeof arrays[i]->host, &arrays[i]->mem) == ANYDNN_OK);
    return unit_failed > 0;
}

static inline int close_arrays(struct array *const *arrays, int count)
{
    int i;
    for (i = 0; i < count; i++) CHECK(anydnn_free(context, arrays[i]->mem) == ANYDNN_OK);
    CHECK(anydnn_free(context, scratch) == ANYDNN_OK);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return unit_end();
}

#endif
