/* SPDX-License-Identifier: Apache-2.0
 * anydnn/opencl.h: contexts, queues and buffers that the caller already has on OpenCL. No OpenCL header is needed:
 * cl_context, cl_device_id, cl_command_queue and cl_mem are pointers and are passed as void *.
 * The rules of anydnn/core.h hold. Source: the OpenCL 1.2 specification. */
#ifndef ANYDNN_OPENCL_H
#define ANYDNN_OPENCL_H
#include <anydnn/core.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Opens a context on the caller's cl_context and one of its devices. The cl_context is retained until the last use; a
 * sub-device must outlive it. `options` may be NULL. INVALID: a device that is not of the context, options as for
 * anydnn_open. UNSUPPORTED: the backend is not in this build, or as for anydnn_open. OUT_OF_MEMORY, DEVICE. */
ANYDNN_API anydnn_status anydnn_opencl_open(void *cl_context_, void *cl_device_id_, const anydnn_open_options *options,
                                            anydnn_context **context);

/* Wraps the caller's in-order cl_command_queue of the same cl_context and device (retained while wrapped).
 * Workspace as for anydnn_stream_create. INVALID: a context that is not on OpenCL, a queue of another cl_context or
 * device, an out-of-order queue, workspace_bytes. OUT_OF_MEMORY, DEVICE. */
ANYDNN_API anydnn_status anydnn_opencl_stream(anydnn_context *context, void *cl_command_queue_,
                                              uint64_t workspace_bytes, anydnn_stream **stream);

/* The native objects behind anydnn's, not retained for the caller; NULL for NULL and objects of another backend. */
ANYDNN_API void *anydnn_opencl_native_context(const anydnn_context *context);
ANYDNN_API void *anydnn_opencl_native_device(const anydnn_context *context);
ANYDNN_API void *anydnn_opencl_native_queue(const anydnn_stream *stream);

/* A buffer of the caller's; `offset` in bytes, `size` of the whole buffer in bytes (0 = unknown). */
static inline anydnn_mem anydnn_cl_mem(void *cl_mem_, uint64_t offset, uint64_t size)
{
    anydnn_mem mem = { cl_mem_, offset, size, ANYDNN_MEM_OPENCL, 0 };
    return mem;
}

#ifdef __cplusplus
}
#endif
#endif
