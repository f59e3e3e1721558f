/* SPDX-License-Identifier: Apache-2.0
 * anydnn/cuda.h: contexts, streams and memory that the caller already has on CUDA. No CUDA header is needed: handles
 * are passed as the types that the driver API gives them (CUcontext and CUstream are pointers, CUdeviceptr 64 bits).
 * The rules of anydnn/core.h hold. Sources: CUDA driver API, cuCtxPushCurrent, cuStreamGetCtx. */
#ifndef ANYDNN_CUDA_H
#define ANYDNN_CUDA_H
#include <anydnn/core.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Opens a context on the caller's CUcontext, which must outlive it. `options` may be NULL.
 * INVALID: options as for anydnn_open. UNSUPPORTED: the backend is not in this build, or as for anydnn_open.
 * OUT_OF_MEMORY, DEVICE. */
ANYDNN_API anydnn_status anydnn_cuda_open(void *cu_context, const anydnn_open_options *options, anydnn_context **context);

/* Wraps the caller's CUstream (NULL = the default stream) of the same CUcontext; it stays the caller's and must outlive
 * what wraps it. Workspace as for anydnn_stream_create. INVALID: a context that is not on CUDA, a stream of another
 * CUcontext, workspace_bytes. OUT_OF_MEMORY, DEVICE. */
ANYDNN_API anydnn_status anydnn_cuda_stream(anydnn_context *context, void *cu_stream, uint64_t workspace_bytes,
                                            anydnn_stream **stream);

/* The CUcontext and CUstream behind anydnn objects, which stay theirs; NULL for NULL, objects of another backend, and
 * the default stream. */
ANYDNN_API void *anydnn_cuda_native_context(const anydnn_context *context);
ANYDNN_API void *anydnn_cuda_native_stream(const anydnn_stream *stream);

/* Device memory of the caller; `size` 0 = unknown. */
static inline anydnn_mem anydnn_cuda_mem(unsigned long long device_pointer, uint64_t size)
{
    anydnn_mem mem = { (void *)(uintptr_t)device_pointer, 0, size, ANYDNN_MEM_CUDA, 0 };
    return mem;
}

#ifdef __cplusplus
}
#endif
#endif
