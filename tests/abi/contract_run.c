/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/contract_run.c [DEVICE]: what the library promises of every operation, on the CPU or the device named.
 *   workspace   every engine runs in exactly plan_info.workspace_bytes, touches nothing around it, does not depend on
 *               its content, and refuses one byte less and the place of an operand
 *   shared      one plan, run by four threads on four streams at once: bit-equal with one thread
 *   handed      plans made by one thread, run by a second, released by a third
 *   order       the same 200 calls in two random orders, by one thread and by eight: bit-equal
 *   contexts    several of one device at once, and one after another
 *   first       the first calls of eight threads on a context at the same moment, 100 times
 *   empty       every dim of every operation made empty in turn: succeeds, and gives what the CPU gives
 *   repeated    every operation 20 times in deterministic mode: bit-equal
 *   in place    where ops.h allows it, with the same bits as out of place
 *   counters    COPY between i64 and i32 with whole factors is exact
 *   rounding    COPY from wide numbers rounds once, not first to what the device computes in
 * Limits: small problems; what results are right is for the case files to say. */
#include "contract.h"

#include <math.h>

enum { STREAMS = 4, RUNS = 50, CALLS = 200, ROUNDS = 100, CROWD = 8, REPEATS = 20, CONTEXTS = 3, REOPENED = 5 };

static const char *device;
static anydnn_context *context;
static struct contract contracts[EXAMPLES]; /* with what they give when run alone */

/* ---- workspace ---- */

struct scratch {
    anydnn_mem whole, inner; /* inner: the exact bytes between two guards */
    uint64_t bytes;
};

static bool scratch_set(const struct scratch *scratch, anydnn_stream *stream, uint8_t content)
{
    return anydnn_set(stream, scratch->whole, GUARD_BYTE, scratch->bytes + 2 * GUARD) == ANYDNN_OK &&
           anydnn_set(stream, anydnn_mem_at(scratch->whole, GUARD), content, scratch->bytes) == ANYDNN_OK;
}

static bool scratch_guarded(const struct scratch *scratch, anydnn_stream *stream)
{
    unsigned char guard[2][GUARD];
    int i;
    if (anydnn_copy_out(stream, guard[0], scratch->whole, GUARD) != ANYDNN_OK ||
        anydnn_copy_out(stream, guard[1], anydnn_mem_at(scratch->whole, GUARD + scratch->bytes), GUARD) != ANYDNN_OK ||
        anydnn_stream_sync(stream) != ANYDNN_OK)
        return false;
    for (i = 0; i < GUARD && guard[0][i] == GUARD_BYTE && guard[1][i] == GUARD_BYTE; i++) {
    }
    return i == GUARD;
}

/* A workspace in the place of any operand is refused, inputs included: it is written. */
static void apart_from_operands(const struct contract *c, const struct place *place, const anydnn_plan *plan,
                                uint64_t bytes, const char *engine)
{
    int i;
    for (i = 0; i < c->count; i++) {
        const bool there = c->row[i].tensor ? anydnn_tensor_bytes(c->row[i].tensor) > 0 : scalar_bytes(&c->row[i]) > 0;
        anydnn_mem over = anydnn_mem_at(place->slab, c->row[i].mem.offset);
        if (!there || over.offset + bytes > SLAB) continue;
        CHECK_CASE(contract_run(c, place, plan, &over) == ANYDNN_INVALID && strstr(anydnn_message(), "workspace overlaps"),
                   engine);
    }
}

/* The plan in exactly `bytes` of workspace, poisoned in two ways, and in one byte less. */
static void exact_workspace(const struct contract *c, const struct place *place, const anydnn_plan *plan,
                            uint64_t bytes, const char *engine)
{
    struct scratch s = { anydnn_mem_none(), anydnn_mem_none(), bytes };
    unsigned char *first = malloc(c->bytes);
    if (!first || anydnn_alloc(place->context, bytes + 2 * GUARD, &s.whole) != ANYDNN_OK) {
        CHECK_CASE(!"memory for a workspace", c->line);
        free(first);
        return;
    }
    s.inner = anydnn_mem_at(s.whole, GUARD);
    s.inner.size = s.inner.offset + bytes;
    CHECK_CASE(scratch_set(&s, place->stream, 0xff) && contract_run(c, place, plan, &s.inner) == ANYDNN_OK, engine);
    memcpy(first, place->bytes, c->bytes);
    CHECK_CASE(scratch_guarded(&s, place->stream) && contract_guarded(c, first), engine);
    CHECK_CASE(scratch_set(&s, place->stream, 0) && contract_run(c, place, plan, &s.inner) == ANYDNN_OK, engine);
    CHECK_CASE(memcmp(first, place->bytes, c->bytes) == 0, engine);
    s.inner.size--;
    CHECK_CASE(contract_run(c, place, plan, &s.inner) == ANYDNN_INVALID && strstr(anydnn_message(), "workspace"),
               engine);
    apart_from_operands(c, place, plan, bytes, engine);
    anydnn_free(place->context, s.whole);
    free(first);
}

/* Vendor libraries choose anew under each limit, within it. */
static bool is_workspace(const anydnn_plan_info *info, uint64_t bytes)
{
    return info->traits & ANYDNN_TRAIT_LIBRARY ? info->workspace_bytes <= bytes : info->workspace_bytes == bytes;
}

/* Allowed that much, the engine runs; allowed a byte less, it refuses or makes do with less. */
static void limited_workspace(const struct contract *c, const char *engine, uint64_t bytes)
{
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    anydnn_plan_info info;
    anydnn_plan *plan = NULL;
    anydnn_status status;
    info.struct_size = (uint32_t)sizeof info;
    prefs.engine = engine;
    prefs.workspace_limit = bytes;
    status = anydnn_plan_create(context, anydnn_problem_op(c->problem), &prefs, c->row, c->count, &plan);
    CHECK_CASE(status == ANYDNN_OK && anydnn_plan_get_info(plan, &info) == ANYDNN_OK && is_workspace(&info, bytes),
               engine);
    if (status == ANYDNN_OK) anydnn_plan_release(plan);
    prefs.workspace_limit = bytes > 1 ? bytes - 1 : ANYDNN_NO_WORKSPACE;
    status = anydnn_plan_create(context, anydnn_problem_op(c->problem), &prefs, c->row, c->count, &plan);
    CHECK_CASE(status == ANYDNN_UNSUPPORTED || (status == ANYDNN_OK && anydnn_plan_get_info(plan, &info) == ANYDNN_OK &&
                                                info.workspace_bytes < bytes),
               engine);
    if (status == ANYDNN_OK) anydnn_plan_release(plan);
}

/* Every engine that takes the problem; the number of those that want workspace. */
static int each_engine(const struct contract *c, const struct place *place)
{
    static anydnn_verdict verdict[64];
    anydnn_plan_info info;
    anydnn_plan *plan;
    anydnn_status status;
    int i, count = 0, wanting = 0;
    info.struct_size = (uint32_t)sizeof info;
    CHECK_CASE(anydnn_candidates(context, anydnn_problem_op(c->problem), NULL, c->row, c->count, verdict, 64, &count) ==
                       ANYDNN_OK &&
                   count > 0,
               c->line);
    for (i = 0; i < count && i < 64; i++) {
        /* Other parameter sets of one engine share its code: the first that wants workspace stands for them. */
        if (verdict[i].traits & ANYDNN_TRAIT_SLOW_START) continue;
        if (verdict[i].workspace_bytes == 0 || (i > 8 && wanting)) continue;
        status = contract_plan(c, place, verdict[i].engine, &plan);
        if (status == ANYDNN_UNSUPPORTED && (verdict[i].traits & ANYDNN_TRAIT_LIBRARY)) continue;
        CHECK_CASE(status == ANYDNN_OK, verdict[i].engine);
        if (status != ANYDNN_OK) continue;
        CHECK_CASE(anydnn_plan_get_info(plan, &info) == ANYDNN_OK && is_workspace(&info, verdict[i].workspace_bytes),
                   verdict[i].engine);
        if (info.workspace_bytes) {
            wanting++;
            exact_workspace(c, place, plan, info.workspace_bytes, verdict[i].engine);
            limited_workspace(c, verdict[i].engine, info.workspace_bytes);
        }
        anydnn_plan_release(plan);
    }
    return wanting;
}

/* Problems with long sums and few outputs, for engines that split them. */
static void workspace(const struct place *place)
{
    static const char *const splits[] = {
        "conv_backward_filter x=2x4x48x48/f32 dy=2x8x48x48/f32 dw=8x4x3x3/f32 pad=1,1",
        "conv_forward x=1x256x5x5/f32 w=8x256x3x3/f32 pad=1,1",
        "matmul a=8x4099/f32 b=4099x8/f32",
        "reduce x=30011/f32 mode=sum",
        "conv_backward_bias dy=2x3x101x101/f32",
        "batchnorm_training x=2x3x101x101/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32",
        "cross_entropy_forward x=3001x5/f32 labels=3001x1/i32",
        "binary_backward dy=2x3x101x101/f32 a=2x3x101x101/f32 b=1x3x1x1/f32 da=2x3x101x101/f32 db=1x3x1x1/f32 mode=mul",
        "softmax_forward x=2x30011/f32",
    };
    int i, wanting = 0;
    for (i = 0; i < EXAMPLES; i++) wanting += each_engine(&contracts[i], place);
    for (i = 0; i < (int)(sizeof splits / sizeof *splits); i++) {
        struct contract c;
        const bool made = contract_make(&c, splits[i]);
        CHECK_CASE(made, splits[i]);
        if (made) wanting += each_engine(&c, place);
        contract_free(&c);
    }
    printf("workspace: %d plans want some\n", wanting);
    CHECK(wanting > 0 || strcmp(device, "cpu") == 0);
}

/* ---- threads ---- */

struct handed {
    anydnn_plan *plan[EXAMPLES];
    int runs; /* of each plan, by each thread */
};

static void make_plans(void *argument, int index)
{
    struct handed *handed = argument;
    struct place place;
    const bool made = place_make(&place, context);
    int i;
    (void)index;
    for (i = 0; i < EXAMPLES; i++)
        check_in_thread(made && contract_plan(&contracts[i], &place, NULL, &handed->plan[i]) == ANYDNN_OK, "a plan",
                        contracts[i].line);
    place_free(&place);
}

static void run_plans(void *argument, int index)
{
    const struct handed *handed = argument;
    struct place place;
    const bool made = place_make(&place, context);
    int i, run;
    (void)index;
    for (i = 0; i < EXAMPLES; i++) {
        bool good = made;
        for (run = 0; good && run < handed->runs; run++)
            good = contract_repeats(&contracts[i], &place, handed->plan[i]);
        check_in_thread(good, "another's plan", contracts[i].line);
    }
    place_free(&place);
}

static void release_plans(void *argument, int index)
{
    const struct handed *handed = argument;
    int i;
    (void)index;
    for (i = 0; i < EXAMPLES; i++) anydnn_plan_release(handed->plan[i]);
}

/* Plans made by a first thread, run by four at once, and by another, released by a last one. */
static void shared_and_handed(void)
{
    struct handed handed = { { NULL }, RUNS };
    together(1, make_plans, &handed);
    if (unit_failed) return;
    together(STREAMS, run_plans, &handed);
    handed.runs = 1;
    together(1, run_plans, &handed);
    together(1, release_plans, &handed);
}

/* ---- order ---- */

struct queue {
    int call[CALLS];
    int next; /* atomic */
};

static uint32_t random_state = 12345;
static int below(int limit)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((uint64_t)random_state * (uint64_t)limit >> 32);
}

static void take_calls(void *argument, int index)
{
    struct queue *queue = argument;
    struct place place;
    const bool made = place_make(&place, context);
    int i;
    (void)index;
    check_in_thread(made, "a place", "order");
    while (made && (i = __atomic_fetch_add(&queue->next, 1, __ATOMIC_RELAXED)) < CALLS)
        check_in_thread(contract_repeats(&contracts[queue->call[i]], &place, NULL), "in another order",
                        contracts[queue->call[i]].line);
    place_free(&place);
}

static void order(void)
{
    struct queue queue;
    int i, shuffle, threads;
    for (i = 0; i < CALLS; i++) queue.call[i] = i % EXAMPLES;
    for (shuffle = 0; shuffle < 2; shuffle++) {
        for (i = CALLS - 1; i > 0; i--) {
            const int j = below(i + 1), kept = queue.call[i];
            queue.call[i] = queue.call[j];
            queue.call[j] = kept;
        }
        for (threads = 1; threads <= CROWD; threads += CROWD - 1) {
            queue.next = 0;
            together(threads, take_calls, &queue);
        }
    }
}

/* ---- contexts ---- */

static void contexts(void)
{
    anydnn_context *several[CONTEXTS];
    struct place place[CONTEXTS];
    int i, k;
    for (k = 0; k < CONTEXTS; k++) CHECK(place_make(&place[k], several[k] = contract_open(device, NULL)));
    for (i = 0; i < EXAMPLES; i++) /* one another's work in between */
        for (k = 0; k < CONTEXTS; k++)
            if (i % CONTEXTS == k || i < 4)
                CHECK_CASE(contract_repeats(&contracts[i], &place[k], NULL), contracts[i].line);
    for (k = 0; k < CONTEXTS; k++) {
        place_free(&place[k]);
        anydnn_close(several[k]);
    }
    for (k = 0; k < REOPENED; k++) {
        anydnn_context *again = contract_open(device, NULL);
        CHECK(place_make(&place[0], again));
        for (i = k; i < EXAMPLES; i += REOPENED)
            CHECK_CASE(contract_repeats(&contracts[i], &place[0], NULL), contracts[i].line);
        place_free(&place[0]);
        anydnn_close(again);
    }
}

struct first {
    anydnn_context *context;
    int round;
};

/* Half of the threads make the same call, the others each another one of the same stem or of a second. */
static void first_call(void *argument, int index)
{
    static const int calls[] = { 7, 7, 7, 7, 8, 20, 16, 18 };
    const struct first *first = argument;
    const struct contract *c = &contracts[first->round % 4 ? calls[index] : (first->round / 4 + index / 4) % EXAMPLES];
    struct place place;
    const bool good = place_make(&place, first->context) && contract_repeats(c, &place, NULL);
    check_in_thread(good, "a first call", c->line);
    place_free(&place);
}

static void first_calls(void)
{
    struct first first;
    for (first.round = 0; first.round < ROUNDS; first.round++) {
        first.context = contract_open(device, NULL);
        together(CROWD, first_call, &first);
        anydnn_close(first.context);
    }
}

/* ---- empty tensors ---- */

static bool near(float a, float b)
{
    return a == b || (isnan(a) && isnan(b)) || fabsf(a - b) <= 1e-5f * (1.0f + fabsf(b));
}

/* Rows of f32 agree with the CPU's, all other bytes are equal. */
static bool agrees(const struct contract *c, const unsigned char *got, const unsigned char *want)
{
    int64_t i;
    int k;
    for (k = 0; k < c->count; k++) {
        const anydnn_tensor *t = c->row[k].tensor;
        const uint64_t at = c->row[k].mem.offset;
        const int64_t bytes = t ? anydnn_tensor_bytes(t) : 0;
        if (!t || t->dtype != ANYDNN_F32) {
            if (memcmp(got + at, want + at, (size_t)bytes)) return false;
            continue;
        }
        for (i = 0; i < bytes; i += 4) {
            float a, b;
            memcpy(&a, got + at + (uint64_t)i, 4);
            memcpy(&b, want + at + (uint64_t)i, 4);
            if (!near(a, b)) return false;
        }
    }
    return contract_guarded(c, got);
}

static void empty(const struct place *place)
{
    anydnn_context *cpu = contract_open("cpu", NULL);
    struct place reference;
    int i, cases = 0;
    CHECK(place_make(&reference, cpu));
    for (i = 0; i < EXAMPLES; i++) {
        const char *at;
        for (at = examples[i].dims; *at; at++) {
            struct contract c;
            bool good;
            if (*at < 'A' || *at > 'Z') continue;
            good = contract_example(&c, i, *at) && contract_run(&c, place, NULL, NULL) == ANYDNN_OK &&
                   contract_run(&c, &reference, NULL, NULL) == ANYDNN_OK;
            if (!good) printf("  %s\n", anydnn_message());
            CHECK_CASE(good && agrees(&c, place->bytes, reference.bytes), c.line);
            contract_free(&c);
            cases++;
        }
    }
    printf("empty: %d cases\n", cases);
    place_free(&reference);
    anydnn_close(cpu);
}

/* ---- deterministic mode, in place ---- */

static void repeated(void)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    struct place place;
    anydnn_context *strict;
    int i, k;
    options.deterministic = 1;
    strict = contract_open(device, &options);
    CHECK(place_make(&place, strict));
    for (i = 0; i < EXAMPLES; i++) {
        struct contract c;
        bool good = contract_example(&c, i, 0) && contract_expect(&c, &place);
        for (k = 1; good && k < REPEATS; k++) good = contract_repeats(&c, &place, NULL);
        CHECK_CASE(good, c.line);
        contract_free(&c);
    }
    place_free(&place);
    anydnn_close(strict);
}

static const anydnn_binding *row_of(const struct contract *c, int role)
{
    int i;
    for (i = 0; i < c->count && c->row[i].role != role; i++) {
    }
    return i < c->count ? &c->row[i] : NULL;
}

/* The same call with the last tensor of the line apart and in place: its bytes must agree. */
static void in_place(const struct place *place)
{
    static const struct {
        int role;
        const char *line, *here;
    } pairs[] = {
        { ANYDNN_Y, "activation_forward x=7x37/f32 mode=tanh y=7x37/f32", "&x" },
        { ANYDNN_Y, "activation_forward x=7x37/f16 mode=leaky_relu y=7x37/f16", "&x" },
        { ANYDNN_DX, "activation_backward dy=7x37/f32 x=7x37/f32 mode=relu dx=7x37/f32", "&dy" },
        { ANYDNN_Y, "softmax_forward x=5x37x2/f32 y=5x37x2/f32", "&x" },
        { ANYDNN_DX, "softmax_backward y=5x37x2/f32 dy=5x37x2/f32 dx=5x37x2/f32", "&dy" },
        { ANYDNN_DX, "cross_entropy_backward x=9x11/f32 labels=9x1/i32 dx=9x11/f32", "&x" },
        { ANYDNN_Y, "batchnorm_training x=4x7x5x6/f32 gamma=1x7x1x1/f32 shift=1x7x1x1/f32 y=4x7x5x6/f32", "&x" },
        { ANYDNN_Y,
          "batchnorm_inference x=4x7x5x6/f32 gamma=1x7x1x1/f32 shift=1x7x1x1/f32 running_mean=1x7x1x1/f32 "
          "running_var=1x7x1x1/f32 y=4x7x5x6/f32",
          "&x" },
        { ANYDNN_DX, "batchnorm_backward x=4x7x5x6/f32 dy=4x7x5x6/f32 gamma=1x7x1x1/f32 dx=4x7x5x6/f32", "&dy" },
        { ANYDNN_Y, "binary a=5x7x9/f32 b=5x7x9/f32 mode=sub y=5x7x9/f32", "&a" },
        { ANYDNN_Y, "binary a=5x7x9/f32 b=5x7x9/f32 mode=sub y=5x7x9/f32", "&b" },
        { ANYDNN_DA, "binary_backward a=5x7x9/f32 b=5x7x9/f32 dy=5x7x9/f32 mode=mul da=5x7x9/f32", "&dy" },
        { ANYDNN_DB, "binary_backward a=5x7x9/f32 b=5x7x9/f32 dy=5x7x9/f32 mode=div db=5x7x9/f32", "&dy" },
        { ANYDNN_Y, "dropout_forward x=7x37/f32 ratio=0.25 y=7x37/f32", "&x" },
        { ANYDNN_DX, "dropout_backward dy=7x37/f32 ratio=0.25 dx=7x37/f32", "&dy" },
    };
    size_t i;
    for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct contract apart, here;
        char line[512];
        const anydnn_binding *a, *b;
        bool good;
        snprintf(line, sizeof line, "%s%s", pairs[i].line, pairs[i].here);
        good = contract_make(&apart, pairs[i].line) && contract_expect(&apart, place);
        good = contract_make(&here, line) && good && contract_expect(&here, place);
        if (!good) printf("  %s\n", anydnn_message());
        a = good ? row_of(&apart, pairs[i].role) : NULL;
        b = good ? row_of(&here, pairs[i].role) : NULL;
        CHECK_CASE(a && b &&
                       memcmp(apart.expected + a->mem.offset, here.expected + b->mem.offset,
                              (size_t)anydnn_tensor_bytes(a->tensor)) == 0,
                   line);
        CHECK_CASE(good && contract_guarded(&here, here.expected), line);
        contract_free(&apart);
        contract_free(&here);
    }
}

/* ---- counters ---- */

/* y = alpha * x + beta * y for one element; the place's slab holds x, y. */
static bool counts(const struct place *place, int in, int out, int64_t x, double alpha, int64_t y, double beta,
                   int64_t want)
{
    const anydnn_tensor tx = anydnn_tensor_1d(in, 1), ty = anydnn_tensor_1d(out, 1);
    const anydnn_elementwise op = anydnn_copy_init();
    const int32_t narrow[2] = { (int32_t)x, (int32_t)y };
    anydnn_binding rows[4];
    int64_t got = 0;
    int32_t small = 0;
    const size_t size = anydnn_dtype_size(out);
    rows[0] = anydnn_bind(ANYDNN_X, &tx, place->slab);
    rows[1] = anydnn_bind(ANYDNN_Y, &ty, anydnn_mem_at(place->slab, GUARD));
    rows[2] = anydnn_bind_value(ANYDNN_ALPHA, alpha);
    rows[3] = anydnn_bind_value(ANYDNN_BETA, beta);
    if (anydnn_copy_in(place->stream, rows[0].mem, in == ANYDNN_I32 ? (const void *)&narrow[0] : &x,
                       anydnn_dtype_size(in)) ||
        anydnn_copy_in(place->stream, rows[1].mem, out == ANYDNN_I32 ? (const void *)&narrow[1] : &y, size) ||
        anydnn_run(place->stream, (const anydnn_op *)&op, NULL, rows, 4) ||
        anydnn_copy_out(place->stream, out == ANYDNN_I32 ? (void *)&small : &got, rows[1].mem, size) ||
        anydnn_stream_sync(place->stream))
        return false;
    return (out == ANYDNN_I32 ? small : got) == want;
}

static void counters(const struct place *place)
{
    const int64_t big = (int64_t)1 << 53, least = INT64_MIN;
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I64, 1, 1, big, 1, big + 1));
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I64, 1, 1, INT64_MAX, 1, least));
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I64, 3, -1, big + 2, 1, big - 1));
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I64, big + 1, 2, big + 3, -1, big - 1));
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I64, 12345, 9007199254740991.0, 1, 1, INT64_C(513410357520224200)));
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I64, INT64_MAX, 0, big + 1, -1, -big - 1));
    CHECK(counts(place, ANYDNN_I32, ANYDNN_I64, INT32_MIN, 1, big + 1, 1, big + 1 + INT32_MIN));
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I32, big, 1, 5, 1, INT32_MAX));
    CHECK(counts(place, ANYDNN_I64, ANYDNN_I32, -big, 1, 5, 1, INT32_MIN));
    CHECK(counts(place, ANYDNN_I32, ANYDNN_I32, 1, 1, 41, 1, 42));
    CHECK(counts(place, ANYDNN_I32, ANYDNN_I32, 1, 0.5, 3, 0.5, 2)); /* not whole: rounded as ever */
}

/* ---- rounding ---- */

/* Halfway between two numbers of the narrow type, and a little more or less that a step in between would lose. */
static const struct conversion {
    int in, out;
    double f64;
    int64_t i64;
    uint32_t want; /* bits */
} conversions[] = {
    { ANYDNN_F64, ANYDNN_F32, 0x1.0000010000001p0, 0, 0x3f800001 },
    { ANYDNN_F64, ANYDNN_F16, 0x1.0020000000001p0, 0, 0x3c01 },
    { ANYDNN_F64, ANYDNN_F16, 0x1.005fffffffffdp0, 0, 0x3c01 },
    { ANYDNN_F64, ANYDNN_BF16, 0x1.0100000000001p0, 0, 0x3f81 },
    { ANYDNN_F64, ANYDNN_BF16, -0x1.02fffffffffffp0, 0, 0xbf81 },
    { ANYDNN_F64, ANYDNN_BF16, 0x1.fefffffffffffp127, 0, 0x7f7f },
    { ANYDNN_I32, ANYDNN_BF16, 0, 0x1010001, 0x4b81 },
    { ANYDNN_I32, ANYDNN_BF16, 0, -0x1010001, 0xcb81 },
    { ANYDNN_I64, ANYDNN_F32, 0, INT64_C(0x1000001000000001), 0x5d800001 },
    { ANYDNN_I64, ANYDNN_F32, 0, INT64_C(-0x1000002fffffffff), 0xdd800001 },
    { ANYDNN_I64, ANYDNN_BF16, 0, INT64_C(0x1010000000000001), 0x5d81 },
    { ANYDNN_I64, ANYDNN_BF16, 0, INT64_C(-0x102fffffffffffff), 0xdd81 },
};

static void rounding(const struct place *place)
{
    const anydnn_elementwise op = anydnn_copy_init();
    anydnn_device_info info = { (uint32_t)sizeof info, 0, { 0 }, { 0 }, { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    size_t i;
    CHECK(anydnn_context_info(context, &info) == ANYDNN_OK);
    for (i = 0; i < sizeof conversions / sizeof *conversions; i++) {
        const struct conversion *c = &conversions[i];
        const anydnn_tensor x = anydnn_tensor_1d(c->in, 1), y = anydnn_tensor_1d(c->out, 1);
        const int32_t narrow = (int32_t)c->i64;
        const void *from = c->in == ANYDNN_F64   ? (const void *)&c->f64
                           : c->in == ANYDNN_I32 ? (const void *)&narrow
                                                 : &c->i64;
        unsigned char got[4] = { 0 }, want[4] = { 0 };
        anydnn_binding rows[2];
        char text[64];
        int k;
        if (c->in == ANYDNN_F64 && !info.has_f64) continue;
        snprintf(text, sizeof text, "%s to %s, row %zu", anydnn_dtype_name(c->in), anydnn_dtype_name(c->out), i);
        for (k = 0; k < 4; k++) want[k] = (unsigned char)(c->want >> 8 * k);
        rows[0] = anydnn_bind(ANYDNN_X, &x, place->slab);
        rows[1] = anydnn_bind(ANYDNN_Y, &y, anydnn_mem_at(place->slab, GUARD));
        CHECK_CASE(!anydnn_copy_in(place->stream, rows[0].mem, from, anydnn_dtype_size(c->in)) &&
                       !anydnn_run(place->stream, (const anydnn_op *)&op, NULL, rows, 2) &&
                       !anydnn_copy_out(place->stream, got, rows[1].mem, anydnn_dtype_size(c->out)) &&
                       !anydnn_stream_sync(place->stream) && memcmp(got, want, sizeof got) == 0,
                   text);
    }
}

int main(int argc, char **argv)
{
    struct place place;
    int i;
    device = argc > 1 ? argv[1] : "cpu";
    context = contract_open(device, NULL);
    CHECK(place_make(&place, context));
    for (i = 0; i < EXAMPLES; i++) {
        const bool good = contract_example(&contracts[i], i, 0) && contract_expect(&contracts[i], &place);
        if (!good) printf("  %s\n", anydnn_message());
        CHECK_CASE(good && contract_guarded(&contracts[i], contracts[i].expected), contracts[i].line);
        CHECK_CASE(good && anydnn_problem_op(contracts[i].problem)->op == i + 1, contracts[i].line);
    }
    if (unit_failed) return unit_end();
    workspace(&place);
    shared_and_handed();
    order();
    contexts();
    first_calls();
    empty(&place);
    repeated();
    in_place(&place);
    counters(&place);
    rounding(&place);
    for (i = 0; i < EXAMPLES; i++) contract_free(&contracts[i]);
    place_free(&place);
    anydnn_close(context);
    return unit_end();
}
