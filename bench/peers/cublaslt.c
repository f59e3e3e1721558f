/* SPDX-License-Identifier: Apache-2.0
 * bench/peers/cublaslt.c: NVIDIA cuBLASLt as a peer for matmul, through its C API as published with CUDA 12 and 13,
 * declared here so that neither header nor library is needed to build. cuBLASLt is column-major, so it computes the
 * transposed product y^T = b'^T * a'^T, whose operands lie in memory as they are.
 * Of up to eight plans of its heuristic the one that is fastest on the benchmark's own memory is taken. Accuracy
 * follows the line: strict f32 and the half types compute in f32, math=tf32 in TF32. */
#include "peer.h"

#include <anydnn/cuda.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;
typedef struct {
    uint64_t data[8];
} lt_algorithm;
typedef struct {
    lt_algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
} lt_result;

enum { COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77, TYPE_32F = 0, TYPE_16F = 2, TYPE_16BF = 14 };
enum { DESC_TRANSA = 3, DESC_TRANSB = 4, LAYOUT_BATCH_COUNT = 5, LAYOUT_BATCH_OFFSET = 6, PREF_MAX_WORKSPACE = 1 };
enum { MAX_RESULTS = 8, TIMED_RUNS = 10 };
static const uint64_t workspace_bytes = (uint64_t)64 << 20;

struct api {
    int (*cublasLtCreate)(handle *);
    int (*cublasLtDestroy)(handle);
    int (*cublasLtMatmulDescCreate)(handle *, int compute, int scale);
    int (*cublasLtMatmulDescDestroy)(handle);
    int (*cublasLtMatmulDescSetAttribute)(handle, int attribute, const void *, size_t);
    int (*cublasLtMatrixLayoutCreate)(handle *, int type, uint64_t rows, uint64_t columns, int64_t ld);
    int (*cublasLtMatrixLayoutDestroy)(handle);
    int (*cublasLtMatrixLayoutSetAttribute)(handle, int attribute, const void *, size_t);
    int (*cublasLtMatmulPreferenceCreate)(handle *);
    int (*cublasLtMatmulPreferenceDestroy)(handle);
    int (*cublasLtMatmulPreferenceSetAttribute)(handle, int attribute, const void *, size_t);
    int (*cublasLtMatmulAlgoGetHeuristic)(handle, handle desc, handle a, handle b, handle c, handle d,
                                          handle preference, int requested, lt_result *, int *returned);
    int (*cublasLtMatmul)(handle, handle desc, const void *alpha, const void *a, handle a_layout, const void *b,
                          handle b_layout, const void *beta, const void *c, handle c_layout, void *d, handle d_layout,
                          const lt_algorithm *, void *workspace, size_t, void *stream);
};

struct state {
    struct api api;
    anydnn_stream *stream;
    anydnn_mem workspace;
    handle lt;
};

struct job {
    struct state *state;
    struct peer_matmul matmul;
    float alpha, beta;
    handle desc, a, b, y;
    lt_algorithm algorithm;
};

static const char *load(struct api *api)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL };
    static const char *const symbols[] = {
        "cublasLtCreate",
        "cublasLtDestroy",
        "cublasLtMatmulDescCreate",
        "cublasLtMatmulDescDestroy",
        "cublasLtMatmulDescSetAttribute",
        "cublasLtMatrixLayoutCreate",
        "cublasLtMatrixLayoutDestroy",
        "cublasLtMatrixLayoutSetAttribute",
        "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceDestroy",
        "cublasLtMatmulPreferenceSetAttribute",
        "cublasLtMatmulAlgoGetHeuristic",
        "cublasLtMatmul",
    };
    enum { SYMBOLS = sizeof symbols / sizeof *symbols };
    void *address[SYMBOLS];
    const char *why = peer_functions(names, symbols, SYMBOLS, address);
    if (why) return why;
    _Static_assert(sizeof address == sizeof *api, "the table has one entry for each member, in order");
    memcpy(api, address, sizeof *api);
    return NULL;
}

static void close_state(void *opened)
{
    struct state *state = opened;
    if (state->lt) state->api.cublasLtDestroy(state->lt);
    anydnn_free(anydnn_stream_context(state->stream), state->workspace);
    free(state);
}

static const char *open_state(anydnn_stream *stream, void **opened)
{
    anydnn_context *context = anydnn_stream_context(stream);
    struct state *state = calloc(1, sizeof *state);
    const char *why = state ? load(&state->api) : "out of memory";
    if (!why) {
        state->stream = stream;
        if (!peer_make_current(stream))
            why = "cuCtxSetCurrent failed";
        else if (state->api.cublasLtCreate(&state->lt) != 0)
            why = "cublasLtCreate failed";
        else if (anydnn_alloc(context, workspace_bytes, &state->workspace) != ANYDNN_OK)
            why = "no memory for workspace";
    }
    if (!why)
        *opened = state;
    else if (state && state->stream)
        close_state(state);
    else
        free(state);
    return why;
}

static int type_of(int dtype)
{
    return dtype == ANYDNN_F32 ? TYPE_32F : dtype == ANYDNN_F16 ? TYPE_16F : dtype == ANYDNN_BF16 ? TYPE_16BF : -1;
}

/* A row-major matrix of rows x columns is a column-major one of columns x rows. */
static bool layout(const struct job *job, handle *made, int64_t rows, int64_t columns, int64_t ld, int64_t stride)
{
    const struct api *api = &job->state->api;
    const int32_t batch = (int32_t)job->matmul.batch;
    if (api->cublasLtMatrixLayoutCreate(made, type_of(job->matmul.dtype), (uint64_t)columns, (uint64_t)rows, ld) != 0)
        return false;
    return batch == 1 ||
           (api->cublasLtMatrixLayoutSetAttribute(*made, LAYOUT_BATCH_COUNT, &batch, sizeof batch) == 0 &&
            api->cublasLtMatrixLayoutSetAttribute(*made, LAYOUT_BATCH_OFFSET, &stride, sizeof stride) == 0);
}

static bool describe(struct job *job, bool tf32)
{
    const struct api *api = &job->state->api;
    const struct peer_matmul *m = &job->matmul;
    const int32_t trans_first = m->trans_b, trans_second = m->trans_a;
    if (api->cublasLtMatmulDescCreate(&job->desc, tf32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F, TYPE_32F) != 0)
        return false;
    return api->cublasLtMatmulDescSetAttribute(job->desc, DESC_TRANSA, &trans_first, sizeof trans_first) == 0 &&
           api->cublasLtMatmulDescSetAttribute(job->desc, DESC_TRANSB, &trans_second, sizeof trans_second) == 0 &&
           layout(job, &job->a, m->trans_a ? m->k : m->m, m->trans_a ? m->m : m->k, m->lda, m->stride_a) &&
           layout(job, &job->b, m->trans_b ? m->n : m->k, m->trans_b ? m->k : m->n, m->ldb, m->stride_b) &&
           layout(job, &job->y, m->m, m->n, m->ldy, m->stride_y);
}

static char *address_of(const anydnn_binding *bindings, int count, int role)
{
    const anydnn_mem mem = peer_memory(bindings, count, role);
    return (char *)mem.base + mem.offset;
}

static const char *run_job(void *prepared, const anydnn_binding *bindings, int count)
{
    struct job *job = prepared;
    const struct state *state = job->state;
    char *y = address_of(bindings, count, ANYDNN_Y);
    const int code =
        state->api.cublasLtMatmul(state->lt, job->desc, &job->alpha, address_of(bindings, count, ANYDNN_B), job->b,
                                  address_of(bindings, count, ANYDNN_A), job->a, &job->beta, y, job->y, y, job->y,
                                  &job->algorithm, (char *)state->workspace.base + state->workspace.offset,
                                  workspace_bytes, anydnn_cuda_native_stream(state->stream));
    return code == 0 ? NULL : "cublasLtMatmul failed";
}

/* Time of several runs in nanoseconds; negative where it does not run. */
static double time_job(struct job *job, anydnn_event *const event[2], const anydnn_binding *bindings, int count)
{
    double elapsed = -1;
    int i;
    if (run_job(job, bindings, count)) return -1;
    if (anydnn_event_record(event[0], job->state->stream) != ANYDNN_OK) return -1;
    for (i = 0; i < TIMED_RUNS; i++)
        if (run_job(job, bindings, count)) return -1;
    if (anydnn_event_record(event[1], job->state->stream) != ANYDNN_OK) return -1;
    return anydnn_event_elapsed(event[0], event[1], &elapsed) == ANYDNN_OK ? elapsed : -1;
}

static const char *choose(struct job *job, const lt_result *results, int found, const anydnn_binding *bindings,
                          int count)
{
    anydnn_context *context = anydnn_stream_context(job->state->stream);
    anydnn_event *event[2] = { NULL, NULL };
    double best = -1;
    int i, chosen = -1;
    if (anydnn_event_create(context, &event[0]) == ANYDNN_OK && anydnn_event_create(context, &event[1]) == ANYDNN_OK) {
        for (i = 0; i < found; i++) {
            double elapsed;
            if (results[i].state != 0) continue;
            job->algorithm = results[i].algorithm;
            elapsed = time_job(job, event, bindings, count);
            if (elapsed < 0 || (chosen >= 0 && elapsed >= best)) continue;
            best = elapsed;
            chosen = i;
        }
    }
    anydnn_event_destroy(event[0]);
    anydnn_event_destroy(event[1]);
    if (chosen < 0) return "none of its plans runs";
    job->algorithm = results[chosen].algorithm;
    return NULL;
}

static const char *search(struct job *job, const anydnn_binding *bindings, int count)
{
    const struct state *state = job->state;
    lt_result results[MAX_RESULTS];
    handle preference = NULL;
    int found = 0, code;
    memset(results, 0, sizeof results);
    code = state->api.cublasLtMatmulPreferenceCreate(&preference);
    if (code == 0)
        code = state->api.cublasLtMatmulPreferenceSetAttribute(preference, PREF_MAX_WORKSPACE, &workspace_bytes,
                                                               sizeof workspace_bytes);
    if (code == 0)
        code = state->api.cublasLtMatmulAlgoGetHeuristic(state->lt, job->desc, job->b, job->a, job->y, job->y,
                                                         preference, MAX_RESULTS, results, &found);
    if (preference) state->api.cublasLtMatmulPreferenceDestroy(preference);
    return code == 0 ? choose(job, results, found, bindings, count) : "its heuristic has no plan";
}

static void finish_job(void *prepared)
{
    struct job *job = prepared;
    const struct api *api = &job->state->api;
    if (job->a) api->cublasLtMatrixLayoutDestroy(job->a);
    if (job->b) api->cublasLtMatrixLayoutDestroy(job->b);
    if (job->y) api->cublasLtMatrixLayoutDestroy(job->y);
    if (job->desc) api->cublasLtMatmulDescDestroy(job->desc);
    free(job);
}

static const char *prepare_job(void *opened, const anydnn_problem *problem, const anydnn_binding *bindings, int count,
                               void **prepared)
{
    struct state *state = opened;
    struct job *job = calloc(1, sizeof *job);
    const char *why = NULL;
    if (!job) return "out of memory";
    job->state = state;
    if (!peer_matmul_from(problem, &job->matmul) || type_of(job->matmul.dtype) < 0 || job->matmul.batch > INT32_MAX)
        why = "only matmul of f32, f16, bf16 with unit inner strides and without bias";
    else {
        const int math = anydnn_problem_prefs(problem)->math;
        job->alpha = (float)job->matmul.alpha;
        job->beta = (float)job->matmul.beta;
        if (!peer_make_current(state->stream))
            why = "cuCtxSetCurrent failed";
        else if (!describe(job, job->matmul.dtype == ANYDNN_F32 && math >= ANYDNN_MATH_TF32))
            why = "a descriptor could not be made";
        else
            why = search(job, bindings, count);
    }
    if (why)
        finish_job(job);
    else
        *prepared = job;
    return why;
}

const struct peer peer_cublaslt = {
    "cublaslt", ANYDNN_BACKEND_CUDA, open_state, close_state, prepare_job, run_job, finish_job,
};
