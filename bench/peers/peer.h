/* SPDX-License-Identifier: Apache-2.0
 * bench/peers/peer.h: other libraries that the benchmark runs beside anydnn. They are found when the program runs and
 * are never linked. An adapter is one constant `struct peer`; it works on the stream and the memory of anydnn, so that
 * one pair of events times both. Functions that can fail return NULL or a sentence that says why. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H
#include <anydnn/anydnn.h>
#include <stdbool.h>

struct peer {
    const char *name;
    int backend; /* anydnn_backend that it runs on */

    /* Loads the library for the stream's context. */
    const char *(*open)(anydnn_stream *stream, void **state);
    void (*close)(void *state);

    /* Makes the problem ready to run. `bindings` have tensors and memory; a peer that has several ways may try them
     * there, since the content of outputs is not needed. A problem that the peer cannot do is refused here. */
    const char *(*prepare)(void *state, const anydnn_problem *problem, const anydnn_binding *bindings, int count,
                           void **job);
    /* Enqueues the job once, on other memory of the same layout. */
    const char *(*run)(void *job, const anydnn_binding *bindings, int count);
    void (*finish)(void *job);
};

extern const struct peer peer_cublaslt, peer_cudnn, peer_clblast;

/* A matrix product as BLAS sees it: y (m x n) = alpha * a' * b' + beta * y, row-major with leading dimensions, `batch`
 * of them at a stride. False when the problem is none, or has strides or a bias that BLAS does not have. */
struct peer_matmul {
    int dtype;
    int64_t m, n, k, batch;
    bool trans_a, trans_b;
    int64_t lda, ldb, ldy, stride_a, stride_b, stride_y; /* elements */
    double alpha, beta;
};
bool peer_matmul_from(const anydnn_problem *problem, struct peer_matmul *matmul);

/* The row of a role; NULL when it is not bound. */
const anydnn_binding *peer_binding(const anydnn_binding *bindings, int count, int role);
/* The memory of a role; kind NONE when it is not bound. */
anydnn_mem peer_memory(const anydnn_binding *bindings, int count, int role);

/* Makes the CUDA context of a stream the calling thread's own, as libraries over it expect. */
bool peer_make_current(anydnn_stream *stream);

/* Opens the first library that is there, and looks up symbols; NULL where there is none. */
void *peer_library(const char *const *names);
void *peer_symbol(void *library, const char *name);
/* Fills a table of `count` functions by their names. */
const char *peer_functions(const char *const *libraries, const char *const *symbols, int count, void **functions);
#endif
