/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/memory.c: device memory, pinned host memory, and copies in stream order. */
#include "cuda.h"

anydnn_status adn_cuda_alloc(anydnn_context *context, uint64_t bytes, void **base)
{
    struct adn_cuda_scope scope;
    CUdeviceptr pointer = 0;
    anydnn_status status;
    if (bytes > SIZE_MAX)
        return adn_fail(ANYDNN_OUT_OF_MEMORY, "%llu bytes exceed the address space", (unsigned long long)bytes);
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(context)->handle));
    /* The driver refuses 0 bytes, and an empty memory is legal here. */
    status = ADN_CU(cuMemAlloc, &pointer, bytes ? (size_t)bytes : 1);
    adn_cuda_leave(&scope);
    if (status == ANYDNN_OK) *base = (void *)(uintptr_t)pointer;
    return status;
}

anydnn_status adn_cuda_free(anydnn_context *context, void *base)
{
    struct adn_cuda_scope scope;
    anydnn_status entered, status;
    if (!base) return ANYDNN_OK;
    entered = adn_cuda_enter(&scope, adn_cuda_of(context)->handle);
    /* Tried all the same: the driver finds most pointers without a current context. */
    status = ADN_CU(cuMemFree, (CUdeviceptr)(uintptr_t)base);
    adn_cuda_leave(&scope);
    return status != ANYDNN_OK ? status : entered;
}

anydnn_status adn_cuda_alloc_host(anydnn_context *context, uint64_t bytes, void **host)
{
    struct adn_cuda_scope scope;
    void *pointer = NULL;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(context)->handle));
    status = ADN_CU(cuMemHostAlloc, &pointer, bytes ? (size_t)bytes : 1, CU_MEMHOSTALLOC_PORTABLE);
    adn_cuda_leave(&scope);
    if (status == ANYDNN_OK) *host = pointer;
    return status;
}

void adn_cuda_free_host(anydnn_context *context, void *host)
{
    struct adn_cuda_scope scope;
    if (!host) return;
    adn_cuda_enter(&scope, adn_cuda_of(context)->handle);
    adn_cuda_driver.cuMemFreeHost(host);
    adn_cuda_leave(&scope);
}

anydnn_status adn_cuda_copy_in(anydnn_stream *stream, struct adn_place dst, const void *src, uint64_t bytes)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    if (bytes == 0) return ANYDNN_OK;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle));
    status = ADN_CU(cuMemcpyHtoDAsync, adn_cuda_pointer(dst), src, (size_t)bytes, adn_cuda_stream_of(stream));
    adn_cuda_leave(&scope);
    return status;
}

anydnn_status adn_cuda_copy_out(anydnn_stream *stream, void *dst, struct adn_place src, uint64_t bytes)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    if (bytes == 0) return ANYDNN_OK;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle));
    status = ADN_CU(cuMemcpyDtoHAsync, dst, adn_cuda_pointer(src), (size_t)bytes, adn_cuda_stream_of(stream));
    adn_cuda_leave(&scope);
    return status;
}

anydnn_status adn_cuda_copy(anydnn_stream *stream, struct adn_place dst, struct adn_place src, uint64_t bytes)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    if (bytes == 0) return ANYDNN_OK;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle));
    status = ADN_CU(cuMemcpyDtoDAsync, adn_cuda_pointer(dst), adn_cuda_pointer(src), (size_t)bytes,
                    adn_cuda_stream_of(stream));
    adn_cuda_leave(&scope);
    return status;
}

anydnn_status adn_cuda_set(anydnn_stream *stream, struct adn_place dst, uint8_t value, uint64_t bytes)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    if (bytes == 0) return ANYDNN_OK;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle));
    status = ADN_CU(cuMemsetD8Async, adn_cuda_pointer(dst), value, (size_t)bytes, adn_cuda_stream_of(stream));
    adn_cuda_leave(&scope);
    return status;
}
