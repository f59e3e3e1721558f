/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/cuda.h: what the files of the CUDA backend share: a context's data, the current-context scope, and
 * the slots of the vtable. */
#ifndef ADN_CUDA_H
#define ADN_CUDA_H
#include "common/backend.h"
#include "common/os.h"
#include "driver.h"

enum { ADN_CUDA_BUCKETS = 256 };

/* anydnn_context.native */
struct adn_cuda_context {
    CUcontext handle;
    CUdevice device;
    bool retained;     /* the primary context, to be released at close; else the caller's own */
    adn_mutex *lock;   /* guards everything below */
    CUmodule *modules; /* by place in adn_cuda_stems; NULL = not loaded yet */
    struct adn_kernel *kernels[ADN_CUDA_BUCKETS]; /* by variant; never shrinks before close */
    void *cublaslt;                               /* cublasLtHandle_t, NULL until the first plan that uses it */
};

/* anydnn_stream.native */
struct adn_cuda_stream {
    CUstream handle;
    bool owned;
};

static inline struct adn_cuda_context *adn_cuda_of(const anydnn_context *context)
{
    return (struct adn_cuda_context *)context->native;
}

static inline CUstream adn_cuda_stream_of(const anydnn_stream *stream)
{
    return ((const struct adn_cuda_stream *)stream->native)->handle;
}

static inline CUdeviceptr adn_cuda_pointer(struct adn_place place)
{
    return (CUdeviceptr)(uintptr_t)place.base + place.offset;
}

/* Makes a context the thread's current one and gives back what the caller had:
 *     struct adn_cuda_scope scope;
 *     ADN_TRY(adn_cuda_enter(&scope, context));
 *     ...
 *     adn_cuda_leave(&scope);
 * A failed enter leaves nothing behind, and leave after it does nothing, so that clean-up may go on without it. */
struct adn_cuda_scope {
    bool pushed;
};
anydnn_status adn_cuda_enter(struct adn_cuda_scope *scope, CUcontext handle);
void adn_cuda_leave(const struct adn_cuda_scope *scope);

/* device.c */
int adn_cuda_probe(struct adn_device *devices, int capacity, char *note, size_t note_size);
anydnn_status adn_cuda_adopt(void *native, void *native_device, struct adn_device *device);

/* memory.c */
anydnn_status adn_cuda_alloc(anydnn_context *context, uint64_t bytes, void **base);
anydnn_status adn_cuda_free(anydnn_context *context, void *base);
anydnn_status adn_cuda_alloc_host(anydnn_context *context, uint64_t bytes, void **host);
void adn_cuda_free_host(anydnn_context *context, void *host);
anydnn_status adn_cuda_copy_in(anydnn_stream *stream, struct adn_place dst, const void *src, uint64_t bytes);
anydnn_status adn_cuda_copy_out(anydnn_stream *stream, void *dst, struct adn_place src, uint64_t bytes);
anydnn_status adn_cuda_copy(anydnn_stream *stream, struct adn_place dst, struct adn_place src, uint64_t bytes);
anydnn_status adn_cuda_set(anydnn_stream *stream, struct adn_place dst, uint8_t value, uint64_t bytes);

/* stream.c */
anydnn_status adn_cuda_stream_create(anydnn_stream *stream, bool wrap, void *native);
void adn_cuda_stream_destroy(anydnn_stream *stream);
anydnn_status adn_cuda_stream_sync(anydnn_stream *stream);
anydnn_status adn_cuda_stream_wait(anydnn_stream *stream, anydnn_event *event);
anydnn_status adn_cuda_event_create(anydnn_event *event);
void adn_cuda_event_destroy(anydnn_event *event);
anydnn_status adn_cuda_event_record(anydnn_event *event, anydnn_stream *stream);
anydnn_status adn_cuda_event_sync(anydnn_event *event);
anydnn_status adn_cuda_event_elapsed(anydnn_event *start, anydnn_event *end, double *nanoseconds);

/* kernels.c */
anydnn_status adn_cuda_kernels_open(struct adn_cuda_context *cuda);
void adn_cuda_kernels_close(struct adn_cuda_context *cuda); /* with the context current */
anydnn_status adn_cuda_kernel_load(anydnn_context *context, const struct adn_variant *variant,
                                   struct adn_kernel **kernel);
anydnn_status adn_cuda_kernel_launch(anydnn_stream *stream, struct adn_kernel *kernel, const struct adn_launch *launch);

/* engines.c, matmul_cublaslt.c, conv_1x1_cublaslt.c, conv_mma.c */
extern const struct adn_engine *const adn_cuda_engines[];
extern const struct adn_engine adn_cuda_matmul_cublaslt, adn_cuda_matmul_cublaslt_fast, adn_cuda_engine_conv_mma,
    adn_cuda_engine_conv_mma_tf32, adn_cuda_conv_1x1_cublaslt, adn_cuda_conv_1x1_cublaslt_fast;
void adn_cuda_cublaslt_close(struct adn_cuda_context *cuda); /* with the context current */

#endif
