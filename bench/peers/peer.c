/* SPDX-License-Identifier: Apache-2.0
 * bench/peers/peer.c: what the adapters share. See peer.h. */
#include "peer.h"

#include <anydnn/cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *peer_library(const char *const *names)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

void *peer_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

const char *peer_functions(const char *const *libraries, const char *const *symbols, int count, void **functions)
{
    static char why[256];
    void *library = peer_library(libraries);
    int i;
    if (!library) {
        snprintf(why, sizeof why, "%s not found", libraries[0]);
        return why;
    }
    for (i = 0; i < count; i++) {
        functions[i] = peer_symbol(library, symbols[i]);
        if (functions[i]) continue;
        snprintf(why, sizeof why, "%s is missing in %s", symbols[i], libraries[0]);
        return why;
    }
    return NULL;
}

bool peer_make_current(anydnn_stream *stream)
{
    static const char *const names[] = { "libcuda.so.1", NULL };
    void *driver = peer_library(names), *address = driver ? peer_symbol(driver, "cuCtxSetCurrent") : NULL;
    int (*set_current)(void *);
    if (!address) return false;
    memcpy(&set_current, &address, sizeof set_current);
    return set_current(anydnn_cuda_native_context(anydnn_stream_context(stream))) == 0;
}

const anydnn_binding *peer_binding(const anydnn_binding *bindings, int count, int role)
{
    int i;
    for (i = 0; i < count; i++)
        if (bindings[i].role == role) return &bindings[i];
    return NULL;
}

anydnn_mem peer_memory(const anydnn_binding *bindings, int count, int role)
{
    const anydnn_binding *binding = peer_binding(bindings, count, role);
    return binding ? binding->mem : anydnn_mem_none();
}

/* Rows with a leading dimension, and batches that one stride reaches. */
static bool matrix_from(const anydnn_tensor *t, int64_t batch, int64_t *ld, int64_t *stride)
{
    const int row = t->ndim - 2, column = t->ndim - 1;
    int64_t expected;
    int i;
    if (t->strides[column] != 1 && t->dims[column] != 1) return false;
    *ld = t->dims[row] == 1 ? t->dims[column] : t->strides[row];
    *stride = 0;
    if (*ld < t->dims[column]) return false;
    for (i = row - 1, expected = 0; i >= 0; i--) {
        if (t->dims[i] == 1) continue;
        if (expected == 0)
            *stride = t->strides[i];
        else if (t->strides[i] != expected)
            return false;
        expected = t->strides[i] * t->dims[i];
    }
    return batch == 1 || *stride > 0 || anydnn_tensor_count(t) == t->dims[row] * t->dims[column];
}

static int64_t batches(const anydnn_tensor *t)
{
    const int64_t matrix = t->dims[t->ndim - 2] * t->dims[t->ndim - 1];
    return matrix ? anydnn_tensor_count(t) / matrix : 0;
}

bool peer_matmul_from(const anydnn_problem *problem, struct peer_matmul *out)
{
    int count;
    const anydnn_binding *bindings = anydnn_problem_bindings(problem, &count);
    const anydnn_binding *a = peer_binding(bindings, count, ANYDNN_A), *b = peer_binding(bindings, count, ANYDNN_B);
    const anydnn_binding *y = peer_binding(bindings, count, ANYDNN_Y), *scalar;
    const anydnn_matmul *op = (const anydnn_matmul *)(const void *)anydnn_problem_op(problem);
    if (op->op != ANYDNN_OP_MATMUL || !a || !b || !y || peer_binding(bindings, count, ANYDNN_BIAS)) return false;
    if (a->tensor->dtype != y->tensor->dtype || b->tensor->dtype != y->tensor->dtype) return false;
    memset(out, 0, sizeof *out);
    out->dtype = y->tensor->dtype;
    out->trans_a = op->trans_a != 0;
    out->trans_b = op->trans_b != 0;
    out->m = y->tensor->dims[y->tensor->ndim - 2];
    out->n = y->tensor->dims[y->tensor->ndim - 1];
    out->k = a->tensor->dims[a->tensor->ndim - (out->trans_a ? 2 : 1)];
    out->batch = batches(y->tensor);
    scalar = peer_binding(bindings, count, ANYDNN_ALPHA);
    out->alpha = scalar ? scalar->value : 1;
    scalar = peer_binding(bindings, count, ANYDNN_BETA);
    out->beta = scalar ? scalar->value : 0;
    if (out->m * out->n * out->k * out->batch == 0) return false;
    /* A batch dim of 1 in a or b is a stride of 0; a mix of both in several dims is not. */
    if (batches(a->tensor) != out->batch && batches(a->tensor) != 1) return false;
    if (batches(b->tensor) != out->batch && batches(b->tensor) != 1) return false;
    return matrix_from(a->tensor, out->batch, &out->lda, &out->stride_a) &&
           matrix_from(b->tensor, out->batch, &out->ldb, &out->stride_b) &&
           matrix_from(y->tensor, out->batch, &out->ldy, &out->stride_y);
}
