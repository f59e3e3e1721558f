/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/backend.c: the CUDA backend's vtable, its contexts, and the scope in which a context is current.
 * Nothing runs at process exit or unload: a context that was never closed is the driver's to clean up. */
#include "cuda.h"

#include <stdlib.h>

anydnn_status adn_cuda_enter(struct adn_cuda_scope *scope, CUcontext handle)
{
    CUcontext current = NULL;
    scope->pushed = false;
    /* A failure to tell is no reason to stop: pushing is always right, not pushing is only quicker. */
    if (adn_cuda_driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == handle) return ANYDNN_OK;
    ADN_TRY(ADN_CU(cuCtxPushCurrent, handle));
    scope->pushed = true;
    return ANYDNN_OK;
}

void adn_cuda_leave(const struct adn_cuda_scope *scope)
{
    CUcontext popped;
    if (scope->pushed) adn_cuda_driver.cuCtxPopCurrent(&popped);
}

static anydnn_status open_context(anydnn_context *context, void *native)
{
    struct adn_cuda_context *cuda;
    anydnn_status status;
    ADN_TRY(adn_cuda_load());
    cuda = calloc(1, sizeof *cuda);
    if (!cuda) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a CUDA context");
    cuda->device = (CUdevice)(intptr_t)context->device.native;
    cuda->handle = native;
    status = adn_cuda_kernels_open(cuda);
    if (status == ANYDNN_OK && !native) {
        status = ADN_CU(cuDevicePrimaryCtxRetain, &cuda->handle, cuda->device);
        cuda->retained = status == ANYDNN_OK;
    }
    if (status != ANYDNN_OK) {
        adn_cuda_kernels_close(cuda);
        free(cuda);
        return status;
    }
    context->native = cuda;
    return ANYDNN_OK;
}

/* Results are ignored here: a driver that is already shut down has given everything back itself. */
static void close_context(anydnn_context *context)
{
    struct adn_cuda_context *cuda = adn_cuda_of(context);
    struct adn_cuda_scope scope;
    adn_cuda_enter(&scope, cuda->handle);
    adn_cuda_cublaslt_close(cuda);
    adn_cuda_kernels_close(cuda);
    adn_cuda_leave(&scope);
    if (cuda->retained) adn_cuda_driver.cuDevicePrimaryCtxRelease(cuda->device);
    free(cuda);
    context->native = NULL;
}

static void *native_handle(const void *object, int which)
{
    switch (which) {
    case 0:
        return adn_cuda_of(object)->handle;
    case 1:
        return (void *)(intptr_t)adn_cuda_of(object)->device;
    case 2:
        return adn_cuda_stream_of(object);
    default:
        return NULL;
    }
}

const struct adn_backend adn_cuda_backend = {
    .abi = ADN_BACKEND_ABI,
    .id = ANYDNN_BACKEND_CUDA,
    .name = "cuda",
    .mem_kind = ANYDNN_MEM_CUDA,
    .probe = adn_cuda_probe,
    .open = open_context,
    .close = close_context,
    .adopt = adn_cuda_adopt,
    .alloc = adn_cuda_alloc,
    .free = adn_cuda_free,
    .alloc_host = adn_cuda_alloc_host,
    .free_host = adn_cuda_free_host,
    .stream_create = adn_cuda_stream_create,
    .stream_destroy = adn_cuda_stream_destroy,
    .stream_sync = adn_cuda_stream_sync,
    .copy_in = adn_cuda_copy_in,
    .copy_out = adn_cuda_copy_out,
    .copy = adn_cuda_copy,
    .set = adn_cuda_set,
    .event_create = adn_cuda_event_create,
    .event_destroy = adn_cuda_event_destroy,
    .event_record = adn_cuda_event_record,
    .event_sync = adn_cuda_event_sync,
    .stream_wait = adn_cuda_stream_wait,
    .event_elapsed = adn_cuda_event_elapsed,
    .kernel_load = adn_cuda_kernel_load,
    .kernel_launch = adn_cuda_kernel_launch,
    .native_handle = native_handle,
    .engines = adn_cuda_engines,
};
