/* SPDX-License-Identifier: Apache-2.0
 * bench/peers/cudnn.c: NVIDIA cuDNN as a peer for convolutions of two and three dimensions, through the C API of its
 * version 9 (the calls that bear the names of versions 5 to 7), declared here so that neither header nor library is
 * needed to build. cuDNN's own exhaustive search on the benchmark's memory chooses the algorithm; plans that only its
 * graph interface has are not among them, so that it can be faster than this peer. Accuracy follows the line: strict
 * f32 forbids tensor cores, math=tf32 allows them, half types sum in f32. */
#include "peer.h"

#include <anydnn/cuda.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;
/* What its searches report of an algorithm; one layout for the three directions. */
typedef struct {
    int algorithm, status;
    float milliseconds;
    size_t workspace;
    int determinism, math, reserved[3];
} search_result;

enum { TYPE_FLOAT = 0, TYPE_HALF = 2, TYPE_BFLOAT16 = 9, FORMAT_NCHW = 0, FORMAT_NHWC = 1 };
enum { MATH_DEFAULT = 0, MATH_TENSOR = 1, MATH_FMA = 3, MAX_RESULTS = 12 };
static const uint64_t workspace_bytes = (uint64_t)1 << 30;

/* The three directions differ in what the first, second and last tensor are. */
typedef int search_function(handle, handle first, const void *, handle second, const void *, handle convolution,
                            handle last, void *, int requested, int *returned, search_result *, void *workspace,
                            size_t);
typedef int run_function(handle, const void *alpha, handle first, const void *, handle second, const void *,
                         handle convolution, int algorithm, void *workspace, size_t, const void *beta, handle last,
                         void *);

struct api {
    int (*cudnnCreate)(handle *);
    int (*cudnnDestroy)(handle);
    int (*cudnnSetStream)(handle, void *stream);
    int (*cudnnCreateTensorDescriptor)(handle *);
    int (*cudnnDestroyTensorDescriptor)(handle);
    int (*cudnnSetTensorNdDescriptor)(handle, int type, int ndim, const int *dims, const int *strides);
    int (*cudnnCreateFilterDescriptor)(handle *);
    int (*cudnnDestroyFilterDescriptor)(handle);
    int (*cudnnSetFilterNdDescriptor)(handle, int type, int format, int ndim, const int *dims);
    int (*cudnnCreateConvolutionDescriptor)(handle *);
    int (*cudnnDestroyConvolutionDescriptor)(handle);
    int (*cudnnSetConvolutionNdDescriptor)(handle, int axes, const int *pad, const int *stride, const int *dilation,
                                           int mode, int type);
    int (*cudnnSetConvolutionGroupCount)(handle, int groups);
    int (*cudnnSetConvolutionMathType)(handle, int math);
    int (*cudnnGetConvolutionNdForwardOutputDim)(handle, handle x, handle w, int ndim, int *dims);
    search_function *search[3];
    run_function *run[3];
};

struct state {
    struct api api;
    anydnn_stream *stream;
    anydnn_mem workspace;
    handle cudnn;
};

struct job {
    struct state *state;
    int direction;        /* 0 forward, 1 backward data, 2 backward filter */
    int role[3];          /* of the first, second and last tensor */
    handle tensor[3];     /* x, w, y */
    handle descriptor[3]; /* those of `role` */
    handle convolution;
    float alpha, beta;
    int algorithm;
};

static const char *load(struct api *api)
{
    static const char *const names[] = { "libcudnn.so.9", "libcudnn.so", NULL };
    static const char *const symbols[] = {
        "cudnnCreate",
        "cudnnDestroy",
        "cudnnSetStream",
        "cudnnCreateTensorDescriptor",
        "cudnnDestroyTensorDescriptor",
        "cudnnSetTensorNdDescriptor",
        "cudnnCreateFilterDescriptor",
        "cudnnDestroyFilterDescriptor",
        "cudnnSetFilterNdDescriptor",
        "cudnnCreateConvolutionDescriptor",
        "cudnnDestroyConvolutionDescriptor",
        "cudnnSetConvolutionNdDescriptor",
        "cudnnSetConvolutionGroupCount",
        "cudnnSetConvolutionMathType",
        "cudnnGetConvolutionNdForwardOutputDim",
        "cudnnFindConvolutionForwardAlgorithmEx",
        "cudnnFindConvolutionBackwardDataAlgorithmEx",
        "cudnnFindConvolutionBackwardFilterAlgorithmEx",
        "cudnnConvolutionForward",
        "cudnnConvolutionBackwardData",
        "cudnnConvolutionBackwardFilter",
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
    if (state->cudnn) state->api.cudnnDestroy(state->cudnn);
    if (state->stream) anydnn_free(anydnn_stream_context(state->stream), state->workspace);
    free(state);
}

static const char *open_state(anydnn_stream *stream, void **opened)
{
    struct state *state = calloc(1, sizeof *state);
    const char *why = state ? load(&state->api) : "out of memory";
    if (!why) {
        state->stream = stream;
        if (!peer_make_current(stream))
            why = "cuCtxSetCurrent failed";
        else if (anydnn_alloc(anydnn_stream_context(stream), workspace_bytes, &state->workspace) != ANYDNN_OK)
            why = "no memory for workspace";
        else if (state->api.cudnnCreate(&state->cudnn) != 0)
            why = "cudnnCreate failed";
        else if (state->api.cudnnSetStream(state->cudnn, anydnn_cuda_native_stream(stream)) != 0)
            why = "cudnnSetStream failed";
    }
    if (!why)
        *opened = state;
    else if (state)
        close_state(state);
    return why;
}

static int type_of(int dtype)
{
    return dtype == ANYDNN_F32    ? TYPE_FLOAT
           : dtype == ANYDNN_F16  ? TYPE_HALF
           : dtype == ANYDNN_BF16 ? TYPE_BFLOAT16
                                  : -1;
}

/* Sizes as cuDNN takes them; false where one does not fit an int. */
static bool to_ints(const int64_t *from, int count, int *to)
{
    int i;
    for (i = 0; i < count; i++) {
        if (from[i] > INT32_MAX) return false;
        to[i] = (int)from[i];
    }
    return true;
}

static bool describe_tensor(const struct api *api, const anydnn_tensor *t, handle *made)
{
    int dims[ANYDNN_MAX_DIMS], strides[ANYDNN_MAX_DIMS];
    return to_ints(t->dims, t->ndim, dims) && to_ints(t->strides, t->ndim, strides) &&
           api->cudnnCreateTensorDescriptor(made) == 0 &&
           api->cudnnSetTensorNdDescriptor(*made, type_of(t->dtype), t->ndim, dims, strides) == 0;
}

static bool has_strides_of(const anydnn_tensor *t, anydnn_tensor like)
{
    int i;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] > 1 && t->strides[i] != like.strides[i]) return false;
    return true;
}

/* Filters have no strides in cuDNN: they are packed, channels first or last. */
static bool describe_filter(const struct api *api, const anydnn_tensor *t, handle *made)
{
    const bool first = has_strides_of(t, anydnn_tensor_packed(t->dtype, t->ndim, t->dims));
    const bool last = has_strides_of(t, anydnn_tensor_channels_last(t->dtype, t->ndim, t->dims));
    int dims[ANYDNN_MAX_DIMS];
    return (first || last) && to_ints(t->dims, t->ndim, dims) && api->cudnnCreateFilterDescriptor(made) == 0 &&
           api->cudnnSetFilterNdDescriptor(*made, type_of(t->dtype), last ? FORMAT_NHWC : FORMAT_NCHW, t->ndim, dims) ==
               0;
}

static bool describe_convolution(struct job *job, const anydnn_conv *op, int axes, int dtype, int math)
{
    const struct api *api = &job->state->api;
    const bool single = dtype == ANYDNN_F32;
    int pad[3], stride[3], dilation[3], i;
    if (!to_ints(op->pad, axes, pad)) return false;
    for (i = 0; i < axes; i++) {
        stride[i] = op->stride[i] ? (int)op->stride[i] : 1;
        dilation[i] = op->dilation[i] ? (int)op->dilation[i] : 1;
    }
    return api->cudnnCreateConvolutionDescriptor(&job->convolution) == 0 &&
           api->cudnnSetConvolutionNdDescriptor(job->convolution, axes, pad, stride, dilation, !op->mode, TYPE_FLOAT) ==
               0 &&
           api->cudnnSetConvolutionGroupCount(job->convolution, op->groups ? (int)op->groups : 1) == 0 &&
           api->cudnnSetConvolutionMathType(job->convolution, !single                    ? MATH_TENSOR
                                                              : math >= ANYDNN_MATH_TF32 ? MATH_DEFAULT
                                                                                         : MATH_FMA) == 0;
}

/* cuDNN pads both ends alike: its output must be as large as the problem's. */
static bool is_padded_alike(const struct job *job, const anydnn_tensor *y)
{
    int dims[ANYDNN_MAX_DIMS], i;
    if (job->state->api.cudnnGetConvolutionNdForwardOutputDim(job->convolution, job->tensor[0], job->tensor[1], y->ndim,
                                                              dims) != 0)
        return false;
    for (i = 0; i < y->ndim; i++)
        if (dims[i] != y->dims[i]) return false;
    return true;
}

static const char *describe(struct job *job, const anydnn_problem *problem, const anydnn_binding *bindings, int count)
{
    static const int operations[3] = { ANYDNN_OP_CONV_FORWARD, ANYDNN_OP_CONV_BACKWARD_DATA,
                                       ANYDNN_OP_CONV_BACKWARD_FILTER };
    /* x, w, y by direction; then which of them come first, second and last */
    static const int roles[3][3] = { { ANYDNN_X, ANYDNN_W, ANYDNN_Y },
                                     { ANYDNN_DX, ANYDNN_W, ANYDNN_DY },
                                     { ANYDNN_X, ANYDNN_DW, ANYDNN_DY } };
    static const int order[3][3] = { { 0, 1, 2 }, { 1, 2, 0 }, { 0, 2, 1 } };
    const anydnn_conv *op = (const anydnn_conv *)(const void *)anydnn_problem_op(problem);
    const anydnn_binding *row[3];
    int i;
    while (job->direction < 3 && operations[job->direction] != op->op) job->direction++;
    if (job->direction == 3) return "only convolutions";
    for (i = 0; i < 3; i++) {
        row[i] = peer_binding(bindings, count, roles[job->direction][i]);
        if (!row[i] || type_of(row[i]->tensor->dtype) < 0 || row[i]->tensor->dtype != row[0]->tensor->dtype)
            return "only f32, f16, bf16";
    }
    if (row[0]->tensor->ndim < 4 || op->pad_mode != ANYDNN_PAD_EXPLICIT) return "only two and three dimensions";
    if (op->activation || peer_binding(bindings, count, ANYDNN_BIAS) || peer_binding(bindings, count, ANYDNN_Z))
        return "nothing fused";
    if (!describe_tensor(&job->state->api, row[0]->tensor, &job->tensor[0]) ||
        !describe_filter(&job->state->api, row[1]->tensor, &job->tensor[1]) ||
        !describe_tensor(&job->state->api, row[2]->tensor, &job->tensor[2]) ||
        !describe_convolution(job, op, row[0]->tensor->ndim - 2, row[0]->tensor->dtype,
                              anydnn_problem_prefs(problem)->math))
        return "it has no descriptor of this";
    for (i = 0; i < 3; i++) {
        job->role[i] = roles[job->direction][order[job->direction][i]];
        job->descriptor[i] = job->tensor[order[job->direction][i]];
    }
    return is_padded_alike(job, row[2]->tensor) ? NULL : "only paddings alike at both ends";
}

static char *address_of(const anydnn_binding *bindings, int count, int role)
{
    const anydnn_mem mem = peer_memory(bindings, count, role);
    return (char *)mem.base + mem.offset;
}

static const char *search(struct job *job, const anydnn_binding *bindings, int count)
{
    const struct state *state = job->state;
    search_result results[MAX_RESULTS];
    int found = 0;
    memset(results, 0, sizeof results);
    if (state->api.search[job->direction](
            state->cudnn, job->descriptor[0], address_of(bindings, count, job->role[0]), job->descriptor[1],
            address_of(bindings, count, job->role[1]), job->convolution, job->descriptor[2],
            address_of(bindings, count, job->role[2]), MAX_RESULTS, &found, results,
            (char *)state->workspace.base + state->workspace.offset, workspace_bytes) != 0)
        return "its search failed";
    if (found == 0 || results[0].status != 0) return "none of its algorithms runs";
    job->algorithm = results[0].algorithm;
    return state->api.cudnnSetConvolutionMathType(job->convolution, results[0].math) == 0 ? NULL : "its search failed";
}

static const char *run_job(void *prepared, const anydnn_binding *bindings, int count)
{
    const struct job *job = prepared;
    const struct state *state = job->state;
    const int code = state->api.run[job->direction](
        state->cudnn, &job->alpha, job->descriptor[0], address_of(bindings, count, job->role[0]), job->descriptor[1],
        address_of(bindings, count, job->role[1]), job->convolution, job->algorithm,
        (char *)state->workspace.base + state->workspace.offset, workspace_bytes, &job->beta, job->descriptor[2],
        address_of(bindings, count, job->role[2]));
    return code == 0 ? NULL : "its convolution failed";
}

static void finish_job(void *prepared)
{
    struct job *job = prepared;
    const struct api *api = &job->state->api;
    if (job->tensor[0]) api->cudnnDestroyTensorDescriptor(job->tensor[0]);
    if (job->tensor[1]) api->cudnnDestroyFilterDescriptor(job->tensor[1]);
    if (job->tensor[2]) api->cudnnDestroyTensorDescriptor(job->tensor[2]);
    if (job->convolution) api->cudnnDestroyConvolutionDescriptor(job->convolution);
    free(job);
}

static const char *prepare_job(void *opened, const anydnn_problem *problem, const anydnn_binding *bindings, int count,
                               void **prepared)
{
    const anydnn_binding *alpha = peer_binding(bindings, count, ANYDNN_ALPHA),
                         *beta = peer_binding(bindings, count, ANYDNN_BETA);
    struct job *job = calloc(1, sizeof *job);
    const char *why;
    if (!job) return "out of memory";
    job->state = opened;
    job->alpha = alpha ? (float)alpha->value : 1;
    job->beta = beta ? (float)beta->value : 0;
    why = peer_make_current(job->state->stream) ? describe(job, problem, bindings, count) : "cuCtxSetCurrent failed";
    if (!why) why = search(job, bindings, count);
    if (why)
        finish_job(job);
    else
        *prepared = job;
    return why;
}

const struct peer peer_cudnn = {
    "cudnn", ANYDNN_BACKEND_CUDA, open_state, close_state, prepare_job, run_job, finish_job,
};
