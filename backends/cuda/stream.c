/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/stream.c: streams (own or the caller's) and events. */
#include "cuda.h"

#include <stdlib.h>

/* The default streams (NULL and the two special handles) belong to whichever context is current: ours. */
static anydnn_status check_owner(CUcontext handle, CUstream stream)
{
    CUcontext owner = NULL;
    ADN_TRY(ADN_CU(cuStreamGetCtx, stream, &owner));
    if (owner == handle) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "cu_stream is of CUcontext %p; accepted: a stream of the context's CUcontext %p",
                    (void *)owner, (void *)handle);
}

anydnn_status adn_cuda_stream_create(anydnn_stream *stream, bool wrap, void *native)
{
    CUcontext handle = adn_cuda_of(stream->context)->handle;
    struct adn_cuda_stream *own = calloc(1, sizeof *own);
    struct adn_cuda_scope scope;
    anydnn_status status;
    if (!own) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a stream");
    own->handle = native;
    own->owned = !wrap;
    status = adn_cuda_enter(&scope, handle);
    if (status == ANYDNN_OK) {
        status = wrap ? check_owner(handle, own->handle) : ADN_CU(cuStreamCreate, &own->handle, CU_STREAM_NON_BLOCKING);
        adn_cuda_leave(&scope);
    }
    if (status == ANYDNN_OK)
        stream->native = own;
    else
        free(own);
    return status;
}

void adn_cuda_stream_destroy(anydnn_stream *stream)
{
    struct adn_cuda_stream *own = stream->native;
    struct adn_cuda_scope scope;
    int capturing = 0;
    const bool entered = adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle) == ANYDNN_OK;
    /* Waiting for a stream that is being captured would break the caller's capture, and nothing of it runs yet. */
    if (entered && adn_cuda_driver.cuStreamIsCapturing(own->handle, &capturing) == CUDA_SUCCESS && !capturing)
        adn_cuda_driver.cuStreamSynchronize(own->handle);
    if (own->owned) adn_cuda_driver.cuStreamDestroy(own->handle);
    adn_cuda_leave(&scope);
    free(own);
    stream->native = NULL;
}

anydnn_status adn_cuda_stream_sync(anydnn_stream *stream)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle));
    status = ADN_CU(cuStreamSynchronize, adn_cuda_stream_of(stream));
    adn_cuda_leave(&scope);
    return status;
}

anydnn_status adn_cuda_stream_wait(anydnn_stream *stream, anydnn_event *event)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle));
    status = ADN_CU(cuStreamWaitEvent, adn_cuda_stream_of(stream), event->native, 0);
    adn_cuda_leave(&scope);
    return status;
}

anydnn_status adn_cuda_event_create(anydnn_event *event)
{
    struct adn_cuda_scope scope;
    CUevent handle = NULL;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(event->context)->handle));
    status = ADN_CU(cuEventCreate, &handle, 0);
    adn_cuda_leave(&scope);
    if (status == ANYDNN_OK) event->native = handle;
    return status;
}

void adn_cuda_event_destroy(anydnn_event *event)
{
    struct adn_cuda_scope scope;
    adn_cuda_enter(&scope, adn_cuda_of(event->context)->handle);
    adn_cuda_driver.cuEventDestroy(event->native);
    adn_cuda_leave(&scope);
    event->native = NULL;
}

anydnn_status adn_cuda_event_record(anydnn_event *event, anydnn_stream *stream)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(event->context)->handle));
    status = ADN_CU(cuEventRecord, event->native, adn_cuda_stream_of(stream));
    adn_cuda_leave(&scope);
    return status;
}

anydnn_status adn_cuda_event_sync(anydnn_event *event)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(event->context)->handle));
    status = ADN_CU(cuEventSynchronize, event->native);
    adn_cuda_leave(&scope);
    return status;
}

static anydnn_status elapsed(CUevent start, CUevent end, double *nanoseconds)
{
    float milliseconds = 0.0f;
    ADN_TRY(ADN_CU(cuEventSynchronize, start));
    ADN_TRY(ADN_CU(cuEventSynchronize, end));
    ADN_TRY(ADN_CU(cuEventElapsedTime, &milliseconds, start, end));
    *nanoseconds = (double)milliseconds * 1e6;
    return ANYDNN_OK;
}

anydnn_status adn_cuda_event_elapsed(anydnn_event *start, anydnn_event *end, double *nanoseconds)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(start->context)->handle));
    status = elapsed(start->native, end->native, nanoseconds);
    adn_cuda_leave(&scope);
    return status;
}
