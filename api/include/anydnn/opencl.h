/* SPDX-License-Identifier: Apache-2.0
 * anydnn/opencl.h: contexts, queues and buffers that the caller already has on OpenCL. No OpenCL header is needed:
 * cl_context, cl_device_id, cl_command_queue and cl_mem are pointers and are passed as void *.
 * Without the OpenCL backend every function here answers ANYDNN_UNSUPPORTED. */
#ifndef ANYDNN_OPENCL_H
#define ANYDNN_OPENCL_H
#include <anydnn/core.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Opens a context on the caller's cl_context and one of its devices; both are retained until the last use.
 * INVALID: NULL, or a device that is not of the context. UNSUPPORTED, OUT_OF_MEMORY, DEVICE. */
ANYDNN_API anydnn_status anydnn_opencl_open(void *cl_context_, void *cl_device_id_, const anydnn_open_options *options,
                                            anydnn_context **context);

/* Wraps the caller's in-order cl_command_queue of the same cl_context and device (retained while wrapped).
 * INVALID: NULL, a queue of another context or device, an out-of-order queue. */
ANYDNN_API anydnn_status anydnn_opencl_stream(anydnn_context *context, void *cl_command_queue_,
                                              uint64_t workspace_bytes, anydnn_stream **stream);

/* The native objects behind anydnn's; NULL when they are of another backend. */
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
