/* SPDX-License-Identifier: Apache-2.0
 * bench/peers/clblast.c: CLBlast as a peer for matmul on OpenCL, through its C API (version 1.5), declared here so
 * that neither header nor library is needed to build. It compiles its kernels at the first run of a size. */
#include "peer.h"

#include <anydnn/opencl.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112, NO_HALF_PRECISION = -2045 };

/* Alpha and beta are float, or the bits of a half; everything else is alike. */
#define GEMM(scalar)                                                                                                   \
    int (*)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, scalar alpha, void *a,                 \
            size_t a_offset, size_t lda, void *b, size_t b_offset, size_t ldb, scalar beta, void *y, size_t y_offset,  \
            size_t ldy, void **queue, void **event)
#define BATCHED(scalar)                                                                                                \
    int (*)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, scalar alpha, void *a,                 \
            size_t a_offset, size_t lda, size_t a_stride, void *b, size_t b_offset, size_t ldb, size_t b_stride,       \
            scalar beta, void *y, size_t y_offset, size_t ldy, size_t y_stride, size_t batch, void **queue,            \
            void **event)

struct state {
    anydnn_stream *stream;
    void *gemm[2], *batched[2]; /* f32, f16 */
};

struct job {
    struct state *state;
    struct peer_matmul matmul;
};

static const char *open_state(anydnn_stream *stream, void **opened)
{
    static const char *const names[] = { "libclblast.so.1", "libclblast.so", NULL };
    static const char *const symbols[] = { "CLBlastSgemm", "CLBlastHgemm", "CLBlastSgemmStridedBatched",
                                           "CLBlastHgemmStridedBatched" };
    void *address[4];
    struct state *state;
    const char *why = peer_functions(names, symbols, 4, address);
    if (why) return why;
    state = calloc(1, sizeof *state);
    if (!state) return "out of memory";
    state->stream = stream;
    memcpy(state->gemm, address, sizeof state->gemm);
    memcpy(state->batched, address + 2, sizeof state->batched);
    *opened = state;
    return NULL;
}

static void close_state(void *opened)
{
    free(opened);
}

/* Only 1 and 0 are asked for in half precision. */
static uint16_t half_of(double value)
{
    return value == 1 ? 0x3c00 : 0;
}

static int call(const struct job *job, void *a, size_t a_offset, void *b, size_t b_offset, void *y, size_t y_offset)
{
    const struct peer_matmul *p = &job->matmul;
    const int ta = p->trans_a ? TRANSPOSE : NO_TRANSPOSE, tb = p->trans_b ? TRANSPOSE : NO_TRANSPOSE;
    const size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    const size_t lda = (size_t)p->lda, ldb = (size_t)p->ldb, ldy = (size_t)p->ldy;
    const size_t sa = (size_t)p->stride_a, sb = (size_t)p->stride_b, sy = (size_t)p->stride_y;
    void *queue = anydnn_opencl_native_queue(job->state->stream);
    const float alpha = (float)p->alpha, beta = (float)p->beta;
    const uint16_t half_alpha = half_of(p->alpha), half_beta = half_of(p->beta);
    const int half = p->dtype == ANYDNN_F16;
    if (p->batch > 1 && half)
        return ((BATCHED(uint16_t))job->state->batched[1])(ROW_MAJOR, ta, tb, m, n, k, half_alpha, a, a_offset, lda, sa,
                                                           b, b_offset, ldb, sb, half_beta, y, y_offset, ldy, sy,
                                                           (size_t)p->batch, &queue, NULL);
    if (p->batch > 1)
        return ((BATCHED(float))job->state->batched[0])(ROW_MAJOR, ta, tb, m, n, k, alpha, a, a_offset, lda, sa, b,
                                                        b_offset, ldb, sb, beta, y, y_offset, ldy, sy, (size_t)p->batch,
                                                        &queue, NULL);
    if (half)
        return ((GEMM(uint16_t))job->state->gemm[1])(ROW_MAJOR, ta, tb, m, n, k, half_alpha, a, a_offset, lda, b,
                                                     b_offset, ldb, half_beta, y, y_offset, ldy, &queue, NULL);
    return ((GEMM(float))job->state->gemm[0])(ROW_MAJOR, ta, tb, m, n, k, alpha, a, a_offset, lda, b, b_offset, ldb,
                                              beta, y, y_offset, ldy, &queue, NULL);
}

static const char *run_job(void *prepared, const anydnn_binding *bindings, int count)
{
    const struct job *job = prepared;
    const size_t size = anydnn_dtype_size(job->matmul.dtype);
    const anydnn_mem a = peer_memory(bindings, count, ANYDNN_A), b = peer_memory(bindings, count, ANYDNN_B);
    const anydnn_mem y = peer_memory(bindings, count, ANYDNN_Y);
    const int code = call(job, a.base, a.offset / size, b.base, b.offset / size, y.base, y.offset / size);
    if (code == NO_HALF_PRECISION) return "it needs cl_khr_fp16, which the device lacks";
    return code == 0 ? NULL : "its gemm failed";
}

static const char *prepare_job(void *opened, const anydnn_problem *problem, const anydnn_binding *bindings, int count,
                               void **prepared)
{
    struct job *job = calloc(1, sizeof *job);
    const char *why = NULL;
    if (!job) return "out of memory";
    job->state = opened;
    if (!peer_matmul_from(problem, &job->matmul) ||
        (job->matmul.dtype != ANYDNN_F32 && job->matmul.dtype != ANYDNN_F16))
        why = "only matmul of f32 and f16 with unit inner strides and without bias";
    else if (job->matmul.dtype == ANYDNN_F16 && (job->matmul.alpha != 1 || job->matmul.beta != 0))
        why = "half precision only with alpha 1 and beta 0";
    else
        why = run_job(job, bindings, count); /* compiles */
    if (why)
        free(job);
    else
        *prepared = job;
    return why;
}

const struct peer peer_clblast = {
    "clblast", ANYDNN_BACKEND_OPENCL, open_state, close_state, prepare_job, run_job, free,
};
