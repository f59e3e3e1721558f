/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/contract.h: what the programs contract_*.c share: one small legal problem for every operation, and the
 * means to run it through the public API alone.
 *
 * A problem is a line of problem.h with letters for dims ("x=NxC/f32" with "N5 C3"), so that one dim at a time can be
 * made empty. P and Q are the outputs of a window of R by S (3 where there is none) with stride 1 and pad 1.
 * All tensors of a problem lie in one slab of memory, apart and with guard bytes between them: what a run writes is the
 * slab, and two runs are equal when their slabs are, guard bytes included. Plans and one-shot calls get the same
 * promises (alignment, most workspace), so that both choose the same engine.
 * Limits: one header for one translation unit; 32 roles; slabs of SLAB bytes. */
#ifndef ANYDNN_TESTS_CONTRACT_H
#define ANYDNN_TESTS_CONTRACT_H
#include "../unit/unit.h"

#include <anydnn/anydnn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SLAB = 1 << 20, WORKSPACE = 4 << 20, GUARD = 256, MAX_ROWS = 32, MAX_THREADS = 16, SKIPPED = 77 };
enum { GUARD_BYTE = 0xa5, OUTPUT_BYTE = 0x7b };

/* ---- problems ---- */

struct example {
    const char *line, *dims;
};

static const struct example examples[] = {
    { "conv_forward x=NxCxHxW/f32 w=KxCxRxS/f32 bias=1xKx1x1/f32 pad=1,1", "N2 C5 H9 W8 K7 R3 S3" },
    { "conv_backward_data dy=NxKxPxQ/f32 w=KxCxRxS/f32 dx=NxCxHxW/f32 pad=1,1", "N2 C5 H9 W8 K7 R3 S3" },
    { "conv_backward_filter x=NxCxHxW/f32 dy=NxKxPxQ/f32 dw=KxCxRxS/f32 pad=1,1", "N2 C5 H9 W8 K7 R3 S3" },
    { "conv_backward_bias dy=NxKxPxQ/f32", "N3 K7 H5 W6" },
    { "matmul a=BxMxK/f32 b=BxKxN/f32 bias=1x1xN/f32", "B2 M33 K17 N29" },
    { "pool_forward x=NxCxHxW/f32 indices=NxCxPxQ/i32 mode=max window=3,3 pad=1,1", "N2 C5 H9 W11" },
    { "pool_backward dy=NxCxPxQ/f32 x=NxCxHxW/f32 dx=NxCxHxW/f32 mode=max window=3,3 pad=1,1", "N2 C5 H9 W11" },
    { "activation_forward x=NxC/f32 mode=tanh", "N7 C37" },
    { "activation_backward dy=NxC/f32 y=NxC/f32 mode=sigmoid", "N7 C37" },
    { "softmax_forward x=NxCxH/f32 mode=log", "N5 C37 H2" },
    { "softmax_backward y=NxCxH/f32 dy=NxCxH/f32", "N5 C37 H2" },
    { "cross_entropy_forward x=NxCxH/f32 labels=Nx1xH/i32", "N9 C11 H2" },
    { "cross_entropy_backward x=NxCxH/f32 labels=Nx1xH/i64 dloss=1x1x1/f32", "N9 C11 H2" },
    { "batchnorm_training x=NxCxHxW/f32 gamma=1xCx1x1/f32 shift=1xCx1x1/f32 saved_mean=1xCx1x1/f32 "
      "saved_invstd=1xCx1x1/f32 running_mean=1xCx1x1/f32 running_var=1xCx1x1/f32",
      "N4 C7 H5 W6" },
    { "batchnorm_inference x=NxCxHxW/f32 gamma=1xCx1x1/f32 shift=1xCx1x1/f32 running_mean=1xCx1x1/f32 "
      "running_var=1xCx1x1/f32",
      "N4 C7 H5 W6" },
    { "batchnorm_backward x=NxCxHxW/f32 dy=NxCxHxW/f32 gamma=1xCx1x1/f32 saved_mean=1xCx1x1/f32 "
      "saved_invstd=1xCx1x1/f32",
      "N4 C7 H5 W6" },
    { "binary a=NxCxH/f32 b=1xCx1/f32 mode=mul alpha=0.5 beta=2", "N5 C7 H9" },
    { "binary_backward a=NxCxH/f32 b=1xCx1/f32 dy=NxCxH/f32 da=NxCxH/f32 db=1xCx1/f32 mode=mul", "N5 C7 H9" },
    { "reduce x=NxCxH/f32 mode=sum axes=0,2", "N5 C7 H9" },
    { "reduce_backward dy=Nx1xH/f32 x=NxCxH/f32 dx=NxCxH/f32 mode=max axes=1", "N5 C7 H9" },
    { "copy x=NxCxHxW/f32 y=NxCxHxW:nhwc/f32", "N2 C17 H5 W7" },
    { "fill y=NxC/f32 value=0.5", "N7 C37" },
    { "scale y=NxC/f32 alpha=0.75", "N7 C37" },
    { "dropout_forward x=NxC/f32 ratio=0.25 rng_seed=device:5", "N7 C37" },
    { "dropout_backward dy=NxC/f32 ratio=0.25 rng_seed=5", "N7 C37" },
    { "sgd grad=NxC/f32 param=NxC/f32 moment1=NxC/f32 lr=device:0.05 momentum=0.9", "N7 C37" },
    { "adam grad=NxC/f32 param=NxC/f32 moment1=NxC/f32 moment2=NxC/f32 lr=device:0.05 step=device:3", "N7 C37" },
};
enum { EXAMPLES = (int)(sizeof examples / sizeof *examples) };

/* The dim behind `letter`, 0 where it is the empty one; -1 when the example has no such letter. */
static inline long example_dim(const struct example *example, char letter, char empty)
{
    const char *at;
    if (letter == 'P' || letter == 'Q') {
        const char input = letter == 'P' ? 'H' : 'W', window = letter == 'P' ? 'R' : 'S';
        const long size = strchr(example->dims, window) ? example_dim(example, window, empty) : 3;
        const long dim = example_dim(example, input, empty) + 3 - size;
        return dim > 0 ? dim : 0;
    }
    at = strchr(example->dims, letter);
    if (!at) return -1;
    return letter == empty ? 0 : strtol(at + 1, NULL, 10);
}

/* Writes the example's line with its dims; those of letter `empty` are 0. */
static inline void example_line(const struct example *example, char empty, char *line, size_t capacity)
{
    const char *at;
    size_t used = 0;
    for (at = example->line; *at && used + 24 < capacity; at++) {
        const long dim = *at >= 'A' && *at <= 'Z' ? example_dim(example, *at, empty) : -1;
        if (dim >= 0)
            used += (size_t)snprintf(line + used, capacity - used, "%ld", dim);
        else
            line[used++] = *at;
    }
    line[used] = 0;
}

/* A parsed problem, its rows placed in a slab. */
struct contract {
    char line[512];
    anydnn_problem *problem;
    int count;
    anydnn_binding row[MAX_ROWS]; /* mem.offset: place in the slab */
    uint64_t bytes;               /* of the slab */
    unsigned char *initial;
    unsigned char *expected; /* the slab after the run; NULL until contract_expect */
};

static inline bool is_written(const struct contract *c, int role)
{
    const int op = anydnn_problem_op(c->problem)->op;
    uint32_t flags;
    int i;
    for (i = 0; anydnn_op_role(op, i, &flags); i++)
        if (anydnn_op_role(op, i, NULL) == role) return (flags & ANYDNN_ROLE_OUT) && !(flags & ANYDNN_ROLE_IN);
    return false;
}

static inline bool is_positive(int role)
{
    return role == ANYDNN_RUNNING_VAR || role == ANYDNN_SAVED_INVSTD || role == ANYDNN_MOMENT2;
}

/* Quarters from -1.5 to 1.5, which every float type holds; small counts for integers. */
static inline void contract_fill(unsigned char *to, const anydnn_tensor *t, int role)
{
    const int64_t elements = anydnn_tensor_bytes(t) / (int64_t)anydnn_dtype_size(t->dtype);
    int64_t i;
    for (i = 0; i < elements; i++) {
        const int32_t k = (int32_t)((i * 5 + i / 7 + i / 12 + role) % 13);
        const float value = is_positive(role) ? 0.25f * (float)(k + 1) : 0.25f * (float)(k - 6);
        const int64_t wide = k % 3;
        static const uint16_t halves[] = { 0xbe00, 0xbd00, 0xbc00, 0xba00, 0xb800, 0xb400, 0,
                                           0x3400, 0x3800, 0x3a00, 0x3c00, 0x3d00, 0x3e00 };
        if (t->dtype == ANYDNN_F32) memcpy(to + 4 * i, &value, 4);
        if (t->dtype == ANYDNN_F16) memcpy(to + 2 * i, &halves[k], 2);
        if (t->dtype == ANYDNN_I32) {
            const int32_t narrow = (int32_t)wide;
            memcpy(to + 4 * i, &narrow, 4);
        }
        if (t->dtype == ANYDNN_I64) memcpy(to + 8 * i, &wide, 8);
    }
}

/* A scalar in device memory: lr is f32, the others are i64. */
static inline uint64_t scalar_bytes(const anydnn_binding *row)
{
    if (row->tensor || row->mem.kind == ANYDNN_MEM_NONE) return 0;
    return row->role == ANYDNN_LR ? 4 : 8;
}

static inline void fill_scalar(unsigned char *to, const anydnn_binding *row)
{
    const float narrow = (float)row->value;
    const int64_t wide = (int64_t)row->value;
    if (scalar_bytes(row) == 4)
        memcpy(to, &narrow, 4);
    else
        memcpy(to, &wide, 8);
}

/* Gives every row its place: aliased roles share one. */
static inline void contract_place(struct contract *c)
{
    uint64_t at = GUARD;
    int i, j;
    for (i = 0; i < c->count; i++) {
        anydnn_binding *row = &c->row[i];
        const uint64_t bytes = row->tensor ? (uint64_t)anydnn_tensor_bytes(row->tensor) : scalar_bytes(row);
        const int shared = row->tensor ? anydnn_problem_alias(c->problem, row->role) : 0;
        if (!row->tensor && !bytes) continue;
        row->mem.offset = at;
        for (j = 0; shared && j < c->count; j++)
            if (c->row[j].role == shared) row->mem.offset = j < i ? c->row[j].mem.offset : at;
        for (j = 0; j < i; j++)
            if (c->row[j].tensor && anydnn_problem_alias(c->problem, c->row[j].role) == row->role)
                row->mem.offset = c->row[j].mem.offset;
        if (row->mem.offset == at) at += (bytes + GUARD - 1) / GUARD * GUARD + GUARD;
    }
    c->bytes = at;
}

static inline void contract_initialise(struct contract *c)
{
    int pass, i;
    memset(c->initial, GUARD_BYTE, c->bytes);
    for (pass = 0; pass < 2; pass++) /* inputs last: an output may share their place */
        for (i = 0; i < c->count; i++) {
            const anydnn_binding *row = &c->row[i];
            unsigned char *to = c->initial + row->mem.offset;
            const bool written = row->tensor && is_written(c, row->role);
            if (written != (pass == 0)) continue;
            if (scalar_bytes(row)) fill_scalar(to, row);
            if (row->tensor && written) memset(to, OUTPUT_BYTE, (size_t)anydnn_tensor_bytes(row->tensor));
            if (row->tensor && !written) contract_fill(to, row->tensor, row->role);
        }
}

static inline void contract_free(struct contract *c)
{
    anydnn_problem_destroy(c->problem);
    free(c->initial);
    free(c->expected);
    memset(c, 0, sizeof *c);
}

static inline bool contract_make(struct contract *c, const char *line)
{
    const anydnn_binding *given;
    memset(c, 0, sizeof *c);
    if (snprintf(c->line, sizeof c->line, "%s align=16", line) >= (int)sizeof c->line) return false;
    if (anydnn_problem_parse(c->line, &c->problem) != ANYDNN_OK) return false;
    given = anydnn_problem_bindings(c->problem, &c->count);
    if (c->count > MAX_ROWS) return false;
    memcpy(c->row, given, (size_t)c->count * sizeof *given);
    contract_place(c);
    c->initial = c->bytes <= SLAB ? malloc(c->bytes) : NULL;
    if (c->initial) contract_initialise(c);
    return c->initial != NULL;
}

static inline bool contract_example(struct contract *c, int index, char empty)
{
    char line[512];
    example_line(&examples[index], empty, line, sizeof line);
    return contract_make(c, line);
}

/* ---- running ---- */

/* A thread's own stream, slab and host memory. */
struct place {
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_mem slab;
    unsigned char *bytes;
};

static inline void place_free(struct place *place)
{
    anydnn_stream_destroy(place->stream);
    if (place->context) anydnn_free(place->context, place->slab);
    free(place->bytes);
    memset(place, 0, sizeof *place);
}

static inline bool place_make(struct place *place, anydnn_context *context)
{
    memset(place, 0, sizeof *place);
    place->context = context;
    place->bytes = malloc(SLAB);
    return place->bytes && anydnn_stream_create(context, WORKSPACE, &place->stream) == ANYDNN_OK &&
           anydnn_alloc(context, SLAB, &place->slab) == ANYDNN_OK;
}

/* The problem's rows in the memory of a place. */
static inline void contract_rows(const struct contract *c, const struct place *place, anydnn_binding rows[MAX_ROWS])
{
    int i;
    memcpy(rows, c->row, (size_t)c->count * sizeof *rows);
    for (i = 0; i < c->count; i++)
        if (rows[i].tensor || scalar_bytes(&rows[i])) rows[i].mem = anydnn_mem_at(place->slab, c->row[i].mem.offset);
}

static inline anydnn_status contract_plan(const struct contract *c, const struct place *place, const char *engine,
                                          anydnn_plan **plan)
{
    anydnn_binding rows[MAX_ROWS];
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    prefs.engine = engine;
    if (!engine) prefs.workspace_limit = WORKSPACE;
    contract_rows(c, place, rows);
    return anydnn_plan_create(place->context, anydnn_problem_op(c->problem), &prefs, rows, c->count, plan);
}

/* Runs the problem in a place, by its plan or as a one-shot call; the slab is then in place->bytes. Copies that are on
 * their way are waited for whatever happens. */
static inline anydnn_status contract_run(const struct contract *c, const struct place *place, const anydnn_plan *plan,
                                         const anydnn_mem *workspace)
{
    anydnn_binding rows[MAX_ROWS];
    anydnn_status status = anydnn_copy_in(place->stream, place->slab, c->initial, c->bytes), synced;
    contract_rows(c, place, rows);
    if (status == ANYDNN_OK)
        status = plan ? anydnn_plan_run(plan, place->stream, rows, c->count, workspace)
                      : anydnn_run(place->stream, anydnn_problem_op(c->problem), NULL, rows, c->count);
    if (status == ANYDNN_OK) status = anydnn_copy_out(place->stream, place->bytes, place->slab, c->bytes);
    synced = anydnn_stream_sync(place->stream);
    return status == ANYDNN_OK ? synced : status;
}

/* Runs it and keeps what came out as what must come out. */
static inline bool contract_expect(struct contract *c, const struct place *place)
{
    if (contract_run(c, place, NULL, NULL) != ANYDNN_OK) return false;
    if (!c->expected) c->expected = malloc(c->bytes);
    if (c->expected) memcpy(c->expected, place->bytes, c->bytes);
    return c->expected != NULL;
}

static inline bool contract_repeats(const struct contract *c, const struct place *place, const anydnn_plan *plan)
{
    return contract_run(c, place, plan, NULL) == ANYDNN_OK && memcmp(place->bytes, c->expected, c->bytes) == 0;
}

/* All bytes that belong to no tensor and no scalar are as they were. */
static inline bool contract_guarded(const struct contract *c, const unsigned char *slab)
{
    uint64_t at = 0, next, end = 0;
    int i;
    while (at < c->bytes) {
        next = c->bytes;
        for (i = 0; i < c->count; i++) {
            const anydnn_binding *row = &c->row[i];
            const uint64_t bytes = row->tensor ? (uint64_t)anydnn_tensor_bytes(row->tensor) : scalar_bytes(row);
            if (!bytes || row->mem.offset < at || row->mem.offset >= next) continue;
            next = row->mem.offset;
            end = next + bytes;
        }
        for (; at < next; at++)
            if (slab[at] != GUARD_BYTE) return false;
        if (next < c->bytes) at = end;
    }
    return true;
}

/* ---- threads ---- */

static pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;

/* CHECK_CASE for any thread. */
static inline void check_in_thread(bool good, const char *what, const char *text)
{
    pthread_mutex_lock(&check_lock);
    if (!good) printf("  %s: %s\n", what, anydnn_message());
    CHECK_CASE(good, text);
    pthread_mutex_unlock(&check_lock);
}

struct crowd {
    pthread_barrier_t start;
    void (*run)(void *argument, int index);
    void *argument;
    struct member {
        struct crowd *crowd;
        int index;
    } member[MAX_THREADS];
};

static inline void *crowd_main(void *argument)
{
    struct member *member = argument;
    pthread_barrier_wait(&member->crowd->start);
    member->crowd->run(member->crowd->argument, member->index);
    return NULL;
}

/* Runs run(argument, 0 .. threads-1), all at the same moment. */
static inline void together(int threads, void (*run)(void *, int), void *argument)
{
    pthread_t thread[MAX_THREADS];
    struct crowd crowd;
    int i;
    memset(&crowd, 0, sizeof crowd);
    crowd.run = run;
    crowd.argument = argument;
    pthread_barrier_init(&crowd.start, NULL, (unsigned)threads);
    for (i = 0; i < threads; i++) {
        crowd.member[i].crowd = &crowd;
        crowd.member[i].index = i;
        if (pthread_create(&thread[i], NULL, crowd_main, &crowd.member[i]) != 0) {
            printf("a thread could not be started\n");
            exit(1);
        }
    }
    for (i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&crowd.start);
}

/* Ends the program where there is no such device. */
static inline anydnn_context *contract_open(const char *device, const anydnn_open_options *options)
{
    anydnn_context *context = NULL;
    const anydnn_status status = anydnn_open(device, options, &context);
    if (status == ANYDNN_OK) return context;
    printf("%s: %s: %s\n", status == ANYDNN_UNSUPPORTED ? "skipped" : "failed", device, anydnn_message());
    exit(status == ANYDNN_UNSUPPORTED ? SKIPPED : 1);
}

#endif
