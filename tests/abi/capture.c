/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/capture.c [DEVICE]: a whole training step in a CUDA graph: convolution, batch normalisation, activation,
 * pooling, dropout, matrix product, cross entropy, their backward passes, SGD and Adam. The learning rate, the offset
 * of the random numbers and Adam's step lie in device memory and are advanced by the captured work itself. Everything
 * that the step reads or writes is one slab of memory, compared bit by bit.
 *   plain      ten steps by ordinary calls on one stream: what must come out after each step
 *   replayed   the step captured once on another stream, its first use of the library, then launched ten times
 *   mixed      on one stream: a call, a capture, a call; the graph launched between calls
 * for f32, f16 and bf16, in bf16 with the matrix products of cuBLASLt where it is there. Exit code 77 without a GPU.
 * With DEVICE (cpu, opencl:0) the plain steps alone, twice: on any device they must train and repeat themselves.
 * Limits: the driver API of CUDA 11.4 or later, opened by name; no CUDA header is needed. */
#include "../unit/unit.h"

#include <anydnn/anydnn.h>
#include <anydnn/cuda.h>
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- the driver ---- */

struct driver {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*instantiate)(void **executable, void *graph, unsigned long long flags);
    int (*launch)(void *executable, void *stream);
    int (*executable_destroy)(void *executable);
    int (*graph_destroy)(void *graph);
};
enum { NON_BLOCKING = 1, CAPTURE_GLOBAL = 0 /* any call that a capture forbids fails, on whatever thread */ };

static bool take(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    if (!symbol) printf("the driver has no %s\n", name);
    return symbol != NULL;
}

static bool load(struct driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("no libcuda.so.1\n");
        return false;
    }
    return take(library, "cuInit", &d->init) && take(library, "cuDeviceGet", &d->device_get) &&
           take(library, "cuDevicePrimaryCtxRetain", &d->primary_retain) &&
           take(library, "cuDevicePrimaryCtxRelease_v2", &d->primary_release) &&
           take(library, "cuCtxPushCurrent_v2", &d->push) && take(library, "cuCtxPopCurrent_v2", &d->pop) &&
           take(library, "cuStreamCreate", &d->stream_create) &&
           take(library, "cuStreamDestroy_v2", &d->stream_destroy) &&
           take(library, "cuStreamSynchronize", &d->stream_synchronize) &&
           take(library, "cuStreamBeginCapture_v2", &d->begin_capture) &&
           take(library, "cuStreamEndCapture", &d->end_capture) &&
           take(library, "cuGraphInstantiateWithFlags", &d->instantiate) &&
           take(library, "cuGraphLaunch", &d->launch) && take(library, "cuGraphExecDestroy", &d->executable_destroy) &&
           take(library, "cuGraphDestroy", &d->graph_destroy);
}

/* ---- the step ---- */

/* Lines of problem.h, where T is the dtype of data and parameters; then the name of the memory behind each role. */
static const struct {
    const char *line, *memory;
} step[] = {
    { "conv_forward x=8x3x12x12/T w=8x3x3x3/T bias=1x8x1x1/T pad=1,1", "x=image w=filter bias=fbias y=conv" },
    { "batchnorm_training x=8x8x12x12/T gamma=1x8x1x1/f32 shift=1x8x1x1/f32 saved_mean=1x8x1x1/f32 "
      "saved_invstd=1x8x1x1/f32 running_mean=1x8x1x1/f32 running_var=1x8x1x1/f32",
      "x=conv y=norm gamma=gamma shift=shift saved_mean=mean saved_invstd=invstd running_mean=rmean running_var=rvar" },
    { "activation_forward x=8x8x12x12/T mode=relu", "x=norm y=relu" },
    { "pool_forward x=8x8x12x12/T indices=8x8x6x6/i32 mode=max window=2,2 stride=2,2",
      "x=relu y=pool indices=winners" },
    { "dropout_forward x=8x288/T ratio=0.25 rng_seed=device:5 rng_offset=device:0",
      "x=pool y=drop rng_seed=seed rng_offset=offset" },
    { "matmul a=8x288/T b=288x10/T bias=1x10/T", "a=drop b=weight bias=wbias y=logits" },
    { "cross_entropy_forward x=8x10/T labels=8x1/i32", "x=logits labels=labels loss=loss" },
    { "cross_entropy_backward x=8x10/T labels=8x1/i32", "x=logits labels=labels dx=dlogits" },
    { "matmul a=8x288/T b=8x10/T trans_a=1", "a=drop b=dlogits y=dweight" },
    { "matmul a=8x10/T b=288x10/T trans_b=1", "a=dlogits b=weight y=ddrop" },
    { "reduce x=8x10/T mode=sum axes=0", "x=dlogits y=dwbias" },
    { "dropout_backward dy=8x288/T ratio=0.25 rng_seed=device:5 rng_offset=device:0",
      "dy=ddrop dx=dpool rng_seed=seed rng_offset=offset" },
    { "pool_backward dy=8x8x6x6/T indices=8x8x6x6/i32 dx=8x8x12x12/T mode=max window=2,2 stride=2,2",
      "dy=dpool indices=winners dx=drelu" },
    { "activation_backward dy=8x8x12x12/T x=8x8x12x12/T mode=relu", "dy=drelu x=norm dx=dnorm" },
    { "batchnorm_backward x=8x8x12x12/T dy=8x8x12x12/T gamma=1x8x1x1/f32 saved_mean=1x8x1x1/f32 "
      "saved_invstd=1x8x1x1/f32",
      "x=conv dy=dnorm gamma=gamma saved_mean=mean saved_invstd=invstd dx=dconv dgamma=dgamma dshift=dshift" },
    { "conv_backward_filter x=8x3x12x12/T dy=8x8x12x12/T dw=8x3x3x3/T pad=1,1", "x=image dy=dconv dw=dfilter" },
    { "conv_backward_bias dy=8x8x12x12/T", "dy=dconv dbias=dfbias" },
    { "conv_backward_data dy=8x8x12x12/T w=8x3x3x3/T dx=8x3x12x12/T pad=1,1", "dy=dconv w=filter dx=dimage" },
    { "sgd grad=8x3x3x3/T param=8x3x3x3/T moment1=8x3x3x3/f32 lr=device:0.05 momentum=0.9",
      "grad=dfilter param=filter moment1=mfilter lr=lr" },
    { "sgd grad=1x8x1x1/T param=1x8x1x1/T lr=device:0.05", "grad=dfbias param=fbias lr=lr" },
    { "sgd grad=1x8x1x1/f32 param=1x8x1x1/f32 lr=device:0.05", "grad=dgamma param=gamma lr=lr" },
    { "sgd grad=1x8x1x1/f32 param=1x8x1x1/f32 lr=device:0.05", "grad=dshift param=shift lr=lr" },
    { "adam grad=288x10/T param=288x10/T moment1=288x10/f32 moment2=288x10/f32 lr=device:0.05 step=device:1",
      "grad=dweight param=weight moment1=m1weight moment2=m2weight lr=lr step=step" },
    { "adam grad=1x10/T param=1x10/T moment1=1x10/f32 moment2=1x10/f32 lr=device:0.05 step=device:1",
      "grad=dwbias param=wbias moment1=m1wbias moment2=m2wbias lr=lr step=step" },
    { "copy x=1/i64 y=1/i64 alpha=576 beta=1", "x=one y=offset" }, /* counters that 8 * 288 elements of dropout use */
    { "copy x=1/i64 y=1/i64 beta=1", "x=one y=step" },
    { "scale y=1/f32 alpha=0.875", "y=lr" },
    { "copy x=1x1/f32 y=1x1/f32 beta=1", "x=loss y=total" },
};
enum { CALLS = (int)(sizeof step / sizeof *step), SPOTS = 64, STEPS = 10, ROWS = 16, ALIGNMENT = 256 };

/* A named piece of the slab. */
struct spot {
    char name[16];
    uint64_t offset, bytes;
    int dtype;
};

struct call {
    anydnn_problem *problem;
    anydnn_prefs prefs;
    anydnn_binding row[ROWS]; /* mem.offset: place in the slab */
    int count;
};

struct network {
    anydnn_context *context;
    anydnn_mem slab;
    struct call call[CALLS];
    struct spot spot[SPOTS];
    int spots;
    uint64_t bytes;
    unsigned char *initial, *got, *want[STEPS + 1]; /* slabs; want[i] after i steps */
};

/* The name behind "role=" in a call's list of memories. */
static bool name_of(const char *memory, const char *role, char name[16])
{
    const size_t length = strlen(role);
    const char *at;
    for (at = memory; *at; at += strcspn(at, " "), at += *at == ' ') {
        if (strncmp(at, role, length) != 0 || at[length] != '=') continue;
        snprintf(name, 16, "%.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
        return true;
    }
    return false;
}

/* Finds or makes a spot; one memory has one size, whatever the dims. */
static struct spot *spot_of(struct network *n, const char *name, uint64_t bytes, int dtype)
{
    struct spot *spot;
    int i;
    for (i = 0; i < n->spots; i++) {
        if (strcmp(n->spot[i].name, name) != 0) continue;
        return n->spot[i].bytes == bytes && n->spot[i].dtype == dtype ? &n->spot[i] : NULL;
    }
    if (n->spots == SPOTS) return NULL;
    spot = &n->spot[n->spots++];
    snprintf(spot->name, sizeof spot->name, "%s", name);
    spot->offset = n->bytes;
    spot->bytes = bytes;
    spot->dtype = dtype;
    n->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return spot;
}

/* A line's T is replaced by the dtype: it stands behind '/' alone. */
static void with_dtype(const char *line, const char *dtype, char *text, size_t capacity)
{
    size_t used = 0;
    for (; *line && used + 8 < capacity; line++) {
        if (*line == 'T')
            used += (size_t)snprintf(text + used, capacity - used, "%s", dtype);
        else
            text[used++] = *line;
    }
    text[used] = 0;
}

static bool make_call(struct network *n, int index, const char *dtype)
{
    struct call *call = &n->call[index];
    const anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    const anydnn_binding *given;
    char line[512], name[16];
    int i;
    call->prefs = prefs;
    with_dtype(step[index].line, dtype, line, sizeof line);
    if (anydnn_problem_parse(line, &call->problem) != ANYDNN_OK) return false;
    given = anydnn_problem_bindings(call->problem, &call->count);
    if (call->count > ROWS) return false;
    for (i = 0; i < call->count; i++) {
        anydnn_binding *row = &call->row[i];
        const struct spot *spot;
        *row = given[i];
        if (!row->tensor && row->mem.kind == ANYDNN_MEM_NONE) continue;
        if (!name_of(step[index].memory, anydnn_role_name(row->role), name)) {
            printf("  %s: no memory for %s\n", line, anydnn_role_name(row->role));
            return false;
        }
        if (row->tensor)
            spot = spot_of(n, name, (uint64_t)anydnn_tensor_bytes(row->tensor), row->tensor->dtype);
        else
            spot = spot_of(n, name, row->role == ANYDNN_LR ? 4 : 8, row->role == ANYDNN_LR ? ANYDNN_F32 : ANYDNN_I64);
        if (!spot) {
            printf("  %s: %s has another size or dtype elsewhere\n", line, name);
            return false;
        }
        row->mem.offset = spot->offset;
    }
    return true;
}

/* Sixteenths from -6 to 6, exact in every dtype. */
static void store(unsigned char *to, int dtype, int64_t i, float value)
{
    uint32_t bits;
    uint16_t narrow;
    const int64_t wide = (int64_t)value;
    const int32_t whole = (int32_t)value;
    memcpy(&bits, &value, 4);
    narrow = (uint16_t)(bits >> 16);
    if (dtype == ANYDNN_F16)
        narrow = value == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000u) | (((bits & 0x7fffffffu) - 0x38000000u) >> 13));
    if (dtype == ANYDNN_F32) memcpy(to + 4 * i, &value, 4);
    if (dtype == ANYDNN_F16 || dtype == ANYDNN_BF16) memcpy(to + 2 * i, &narrow, 2);
    if (dtype == ANYDNN_I32) memcpy(to + 4 * i, &whole, 4);
    if (dtype == ANYDNN_I64) memcpy(to + 8 * i, &wide, 8);
}

static float initial_value(const char *name, int64_t i)
{
    static const struct {
        const char *name;
        float value;
    } constant[] = { { "lr", 0.0625f }, { "one", 1 },     { "step", 1 },   { "seed", 5 },    { "offset", 0 },
                     { "gamma", 1 },    { "rvar", 1 },    { "total", 0 },  { "mfilter", 0 }, { "m1weight", 0 },
                     { "m2weight", 0 }, { "m1wbias", 0 }, { "m2wbias", 0 } };
    size_t k;
    for (k = 0; k < sizeof constant / sizeof *constant; k++)
        if (strcmp(constant[k].name, name) == 0) return constant[k].value;
    if (strcmp(name, "labels") == 0) return (float)(i * 3 % 10);
    return (float)((i * 7 + i / 5 + i / 11 + name[0]) % 13 - 6) / (strcmp(name, "image") == 0 ? 4.0f : 16.0f);
}

static void fill(struct network *n)
{
    int64_t i;
    int k;
    memset(n->initial, 0x5a, n->bytes);
    for (k = 0; k < n->spots; k++) {
        const struct spot *spot = &n->spot[k];
        const int64_t count = (int64_t)(spot->bytes / anydnn_dtype_size(spot->dtype));
        for (i = 0; i < count; i++) store(n->initial + spot->offset, spot->dtype, i, initial_value(spot->name, i));
    }
}

static void network_free(struct network *n)
{
    int i;
    for (i = 0; i < CALLS; i++) anydnn_problem_destroy(n->call[i].problem);
    for (i = 0; i <= STEPS; i++) free(n->want[i]);
    free(n->initial);
    free(n->got);
    anydnn_free(n->context, n->slab);
    memset(n, 0, sizeof *n);
}

static bool network_make(struct network *n, anydnn_context *context, const char *dtype)
{
    bool good = true;
    int i, k;
    memset(n, 0, sizeof *n);
    n->context = context;
    for (i = 0; good && i < CALLS; i++) good = make_call(n, i, dtype);
    n->initial = malloc(n->bytes + 1);
    n->got = malloc(n->bytes + 1);
    for (i = 0; i <= STEPS; i++) good = (n->want[i] = malloc(n->bytes + 1)) != NULL && good;
    if (!good || !n->initial || !n->got || anydnn_alloc(context, n->bytes, &n->slab) != ANYDNN_OK) return false;
    for (i = 0; i < CALLS; i++)
        for (k = 0; k < n->call[i].count; k++) {
            anydnn_binding *row = &n->call[i].row[k];
            if (row->tensor || row->mem.kind != ANYDNN_MEM_NONE) row->mem = anydnn_mem_at(n->slab, row->mem.offset);
        }
    fill(n);
    return true;
}

/* Matrix products by the engine named, where it takes them. */
static int pin_products(struct network *n, const char *engine)
{
    int i, pinned = 0;
    for (i = 0; i < CALLS; i++) {
        struct call *call = &n->call[i];
        anydnn_plan *plan;
        if (anydnn_problem_op(call->problem)->op != ANYDNN_OP_MATMUL) continue;
        call->prefs.engine = engine;
        if (anydnn_plan_create(n->context, anydnn_problem_op(call->problem), &call->prefs, call->row, call->count,
                               &plan) == ANYDNN_OK) {
            anydnn_plan_release(plan);
            pinned++;
        } else {
            call->prefs.engine = NULL;
        }
    }
    return pinned;
}

/* ---- running ---- */

static bool one_step(const struct network *n, anydnn_stream *stream)
{
    int i;
    for (i = 0; i < CALLS; i++) {
        const struct call *call = &n->call[i];
        if (anydnn_run(stream, anydnn_problem_op(call->problem), &call->prefs, call->row, call->count) == ANYDNN_OK)
            continue;
        printf("  %s: %s\n", step[i].line, anydnn_message());
        return false;
    }
    return true;
}

static bool put_slab(const struct network *n, anydnn_stream *stream)
{
    return anydnn_copy_in(stream, n->slab, n->initial, n->bytes) == ANYDNN_OK &&
           anydnn_stream_sync(stream) == ANYDNN_OK;
}

static bool take_slab(const struct network *n, anydnn_stream *stream, unsigned char *to)
{
    if (anydnn_copy_out(stream, to, n->slab, n->bytes) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK)
        return true;
    printf("  %s\n", anydnn_message());
    return false;
}

/* The slab is what `steps` plain steps left; else the first differing memory is named. */
static bool is_after(const struct network *n, anydnn_stream *stream, int steps)
{
    int k;
    if (!take_slab(n, stream, n->got)) return false;
    if (memcmp(n->got, n->want[steps], n->bytes) == 0) return true;
    for (k = 0; k < n->spots; k++)
        if (memcmp(n->got + n->spot[k].offset, n->want[steps] + n->spot[k].offset, n->spot[k].bytes) != 0) {
            printf("  after %d steps '%s' differs\n", steps, n->spot[k].name);
            break;
        }
    return false;
}

static const void *spot_data(const struct network *n, const unsigned char *slab, const char *name)
{
    int k;
    for (k = 0; k < n->spots && strcmp(n->spot[k].name, name) != 0; k++) {
    }
    return slab + n->spot[k < n->spots ? k : 0].offset;
}

/* The plain steps train: counters count, the loss is a number and falls. */
static void check_plain(const struct network *n)
{
    int64_t offset, count;
    float lr, loss[2];
    memcpy(&offset, spot_data(n, n->want[STEPS], "offset"), sizeof offset);
    memcpy(&count, spot_data(n, n->want[STEPS], "step"), sizeof count);
    memcpy(&lr, spot_data(n, n->want[STEPS], "lr"), sizeof lr);
    memcpy(&loss[0], spot_data(n, n->want[1], "loss"), sizeof loss[0]);
    memcpy(&loss[1], spot_data(n, n->want[STEPS], "loss"), sizeof loss[1]);
    printf("loss %.4f after the first step, %.4f after the last\n", (double)loss[0], (double)loss[1]);
    CHECK(offset == 576 * STEPS && count == 1 + STEPS);
    CHECK(fabs((double)lr - 0.0625 * pow(0.875, STEPS)) < 1e-6);
    CHECK(isfinite(loss[0]) && isfinite(loss[1]) && loss[1] < loss[0]);
}

static bool plain(struct network *n, anydnn_stream *stream)
{
    int i;
    bool good = put_slab(n, stream) && take_slab(n, stream, n->want[0]);
    for (i = 1; good && i <= STEPS; i++) good = one_step(n, stream) && take_slab(n, stream, n->want[i]);
    CHECK(good);
    return good;
}

/* Captures one step; the executable graph, or NULL. The capture is ended whatever happened in it. */
static void *capture(const struct driver *d, const struct network *n, anydnn_stream *stream, void *native)
{
    void *graph = NULL, *executable = NULL;
    bool good;
    int code = d->begin_capture(native, CAPTURE_GLOBAL);
    if (code) printf("  cuStreamBeginCapture gave %d\n", code);
    if (code) return NULL;
    good = one_step(n, stream);
    code = d->end_capture(native, &graph);
    if (code) printf("  cuStreamEndCapture gave %d\n", code);
    if (good && !code && graph) {
        code = d->instantiate(&executable, graph, 0);
        if (code) printf("  cuGraphInstantiateWithFlags gave %d\n", code);
    }
    if (graph) d->graph_destroy(graph);
    return code ? NULL : executable;
}

static bool launch(const struct driver *d, void *executable, void *native)
{
    const int code = d->launch(executable, native), waited = code ? 0 : d->stream_synchronize(native);
    if (code || waited) printf("  cuGraphLaunch gave %d, waiting for it %d\n", code, waited);
    return code == 0 && waited == 0;
}

static void replayed(const struct driver *d, const struct network *n, anydnn_stream *other, anydnn_stream *stream,
                     void *native)
{
    void *executable;
    int i;
    CHECK(put_slab(n, other));
    executable = capture(d, n, stream, native);
    CHECK(executable != NULL);
    if (!executable) return;
    CHECK(is_after(n, other, 0)); /* capturing runs nothing */
    for (i = 1; i <= STEPS; i++) CHECK(launch(d, executable, native) && is_after(n, stream, i));
    CHECK(put_slab(n, other)); /* calls before and behind launches of the graph */
    CHECK(one_step(n, other) && is_after(n, other, 1));
    CHECK(launch(d, executable, native) && is_after(n, stream, 2));
    CHECK(one_step(n, other) && is_after(n, other, 3));
    d->executable_destroy(executable);
}

static void mixed(const struct driver *d, const struct network *n, anydnn_stream *stream, void *native)
{
    void *executable;
    CHECK(put_slab(n, stream) && one_step(n, stream) && is_after(n, stream, 1));
    executable = capture(d, n, stream, native);
    CHECK(executable != NULL);
    CHECK(one_step(n, stream) && is_after(n, stream, 2));
    if (!executable) return;
    CHECK(launch(d, executable, native) && is_after(n, stream, 3));
    CHECK(one_step(n, stream) && is_after(n, stream, 4));
    d->executable_destroy(executable);
}

/* Everything for one dtype; streams[1] has not been used before. */
static void train(const struct driver *d, anydnn_context *context, anydnn_stream *streams[2], void *natives[2],
                  const char *dtype, const char *engine)
{
    struct network n;
    const bool made = network_make(&n, context, dtype);
    if (!made) printf("  %s\n", anydnn_message());
    CHECK_CASE(made, dtype);
    if (made) {
        const int pinned = engine ? pin_products(&n, engine) : 0;
        printf("%s: %llu bytes, %d products by %s\n", dtype, (unsigned long long)n.bytes, pinned,
               engine ? engine : "choice");
        if (plain(&n, streams[0])) {
            check_plain(&n);
            replayed(d, &n, streams[0], streams[1], natives[1]);
            mixed(d, &n, streams[1], natives[1]);
        }
    }
    network_free(&n);
}

static const struct {
    const char *dtype, *engine;
} runs[] = { { "f32", NULL }, { "f16", NULL }, { "bf16", "matmul_cublaslt" } };
enum { RUNS = (int)(sizeof runs / sizeof *runs) };

static int plain_twice(const char *device)
{
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL;
    int i, k;
    if (anydnn_open(device, NULL, &context) != ANYDNN_OK || anydnn_stream_create(context, 0, &stream) != ANYDNN_OK) {
        printf("skipped: no %s here: %s\n", device, anydnn_message());
        return 77;
    }
    for (i = 0; i < RUNS; i++) {
        struct network n;
        CHECK_CASE(network_make(&n, context, runs[i].dtype), runs[i].dtype);
        if (!unit_failed && plain(&n, stream)) {
            check_plain(&n);
            CHECK(put_slab(&n, stream));
            for (k = 1; k <= STEPS; k++) CHECK(one_step(&n, stream) && is_after(&n, stream, k));
        }
        network_free(&n);
    }
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return unit_end();
}

int main(int argc, char **argv)
{
    struct driver d;
    void *current = NULL, *handle = NULL, *natives[2] = { NULL, NULL };
    anydnn_context *context = NULL;
    int device = 0, i;
    if (argc > 1 && strncmp(argv[1], "cuda", 4) != 0) return plain_twice(argv[1]);
    if (!load(&d) || d.init(0) || d.device_get(&device, 0) || d.primary_retain(&handle, device) || d.push(handle)) {
        printf("skipped: no CUDA device here\n");
        return 77;
    }
    i = anydnn_cuda_open(handle, NULL, &context);
    if (i != ANYDNN_OK) {
        printf("%s: %s\n", i == ANYDNN_UNSUPPORTED ? "skipped" : "failed", anydnn_message());
        return i == ANYDNN_UNSUPPORTED ? 77 : 1;
    }
    for (i = 0; i < RUNS; i++) {
        anydnn_stream *streams[2] = { NULL, NULL };
        int k;
        for (k = 0; k < 2; k++)
            CHECK(d.stream_create(&natives[k], NON_BLOCKING) == 0 &&
                  anydnn_cuda_stream(context, natives[k], 0, &streams[k]) == ANYDNN_OK);
        if (streams[0] && streams[1]) train(&d, context, streams, natives, runs[i].dtype, runs[i].engine);
        for (k = 0; k < 2; k++) {
            anydnn_stream_destroy(streams[k]);
            CHECK(d.stream_destroy(natives[k]) == 0);
        }
    }
    anydnn_close(context);
    d.pop(&current);
    d.primary_release(device);
    return unit_end();
}
