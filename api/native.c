/* SPDX-License-Identifier: Apache-2.0
 * api/native.c: contexts, streams and handles of CUDA and OpenCL programs. */
#include "internal.h"

#include <anydnn/cuda.h>
#include <anydnn/opencl.h>

#include <string.h>

static const struct adn_backend *backend_of(int id)
{
    int i;
    for (i = 0; adn_backends[i]; i++)
        if (adn_backends[i]->id == id) return adn_backends[i];
    return NULL;
}

static anydnn_status open_native(int id, void *native, void *native_device, const anydnn_open_options *options,
                                 anydnn_context **context)
{
    const struct adn_backend *backend = backend_of(id);
    struct adn_device device;
    int count;
    if (!backend || !backend->adopt)
        return adn_fail(ANYDNN_UNSUPPORTED, "the %s backend is not in this build", id == ANYDNN_BACKEND_CUDA ? "CUDA" : "OpenCL");
    adn_devices(&count); /* opens the driver */
    ADN_TRY(adn_check_driver(backend));
    memset(&device, 0, sizeof device);
    device.backend = backend;
    device.info.struct_size = (uint32_t)sizeof device.info;
    device.info.backend = id;
    ADN_TRY(backend->adopt(native, native_device, &device));
    return adn_context_create(&device, native, options, context);
}

static anydnn_status wrap_stream(int id, anydnn_context *context, void *native, uint64_t workspace_bytes, anydnn_stream **stream)
{
    if (context->backend->id != id)
        return adn_fail(ANYDNN_INVALID, "context is on %s; accepted: a context of the stream's own backend",
                        context->device.info.id);
    return adn_stream_make(context, true, native, workspace_bytes, stream);
}

static void *handle(int id, const anydnn_context *context, const void *object, int which)
{
    if (!context || context->backend->id != id || !context->backend->native_handle) return NULL;
    return context->backend->native_handle(object, which);
}

anydnn_status anydnn_cuda_open(void *cu_context, const anydnn_open_options *options, anydnn_context **context)
{
    ADN_NOT_NULL(cu_context);
    ADN_NOT_NULL(context);
    return open_native(ANYDNN_BACKEND_CUDA, cu_context, NULL, options, context);
}

anydnn_status anydnn_cuda_stream(anydnn_context *context, void *cu_stream, uint64_t workspace_bytes, anydnn_stream **stream)
{
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(stream);
    return wrap_stream(ANYDNN_BACKEND_CUDA, context, cu_stream, workspace_bytes, stream);
}

void *anydnn_cuda_native_context(const anydnn_context *context) { return handle(ANYDNN_BACKEND_CUDA, context, context, 0); }

void *anydnn_cuda_native_stream(const anydnn_stream *stream)
{
    return handle(ANYDNN_BACKEND_CUDA, stream ? stream->context : NULL, stream, 2);
}

anydnn_status anydnn_opencl_open(void *cl_context_, void *cl_device_id_, const anydnn_open_options *options,
                                 anydnn_context **context)
{
    ADN_NOT_NULL(cl_context_);
    ADN_NOT_NULL(cl_device_id_);
    ADN_NOT_NULL(context);
    return open_native(ANYDNN_BACKEND_OPENCL, cl_context_, cl_device_id_, options, context);
}

anydnn_status anydnn_opencl_stream(anydnn_context *context, void *cl_command_queue_, uint64_t workspace_bytes,
                                   anydnn_stream **stream)
{
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(cl_command_queue_);
    ADN_NOT_NULL(stream);
    return wrap_stream(ANYDNN_BACKEND_OPENCL, context, cl_command_queue_, workspace_bytes, stream);
}

void *anydnn_opencl_native_context(const anydnn_context *context) { return handle(ANYDNN_BACKEND_OPENCL, context, context, 0); }
void *anydnn_opencl_native_device(const anydnn_context *context) { return handle(ANYDNN_BACKEND_OPENCL, context, context, 1); }

void *anydnn_opencl_native_queue(const anydnn_stream *stream)
{
    return handle(ANYDNN_BACKEND_OPENCL, stream ? stream->context : NULL, stream, 2);
}
