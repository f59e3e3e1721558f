/* SPDX-License-Identifier: Apache-2.0
 * api/stream.c: streams and events. */
#include "internal.h"

#include <stdlib.h>

static anydnn_status give_workspace(anydnn_stream *stream, uint64_t bytes)
{
    if (bytes == ANYDNN_NO_WORKSPACE) return ANYDNN_OK;
    if (bytes > (uint64_t)INT64_MAX)
        return adn_fail(ANYDNN_INVALID, "workspace_bytes is %llu; accepted: below 2^63, or ANYDNN_NO_WORKSPACE",
                        (unsigned long long)bytes);
    return anydnn_alloc(stream->context, bytes ? bytes : ANYDNN_DEFAULT_WORKSPACE, &stream->workspace);
}

anydnn_status adn_stream_make(anydnn_context *context, bool wrap, void *native, uint64_t workspace_bytes,
                              anydnn_stream **stream)
{
    anydnn_stream *made;
    anydnn_status status;
    ADN_TRY(adn_check_process(context));
    made = calloc(1, sizeof *made);
    if (!made) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a stream");
    made->context = context;
    status = context->backend->stream_create(made, wrap, native);
    if (status != ANYDNN_OK) {
        free(made);
        return status;
    }
    status = give_workspace(made, workspace_bytes);
    if (status != ANYDNN_OK) {
        context->backend->stream_destroy(made);
        free(made);
        return status;
    }
    adn_context_retain(context);
    *stream = made;
    return ANYDNN_OK;
}

anydnn_status anydnn_stream_create(anydnn_context *context, uint64_t workspace_bytes, anydnn_stream **stream)
{
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(stream);
    return adn_stream_make(context, false, NULL, workspace_bytes, stream);
}

void anydnn_stream_destroy(anydnn_stream *stream)
{
    anydnn_context *context;
    if (!stream || adn_is_foreign(stream->context)) return;
    context = stream->context;
    context->backend->stream_sync(stream); /* a fault has been or will be told by other calls */
    anydnn_free(context, stream->workspace);
    context->backend->stream_destroy(stream);
    free(stream);
    adn_context_release(context);
}

anydnn_status anydnn_stream_sync(anydnn_stream *stream)
{
    ADN_NOT_NULL(stream);
    ADN_TRY(adn_check_process(stream->context));
    return stream->context->backend->stream_sync(stream);
}

anydnn_context *anydnn_stream_context(const anydnn_stream *stream) { return stream ? stream->context : NULL; }

anydnn_status anydnn_event_create(anydnn_context *context, anydnn_event **event)
{
    anydnn_event *made;
    anydnn_status status;
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(event);
    ADN_TRY(adn_check_process(context));
    made = calloc(1, sizeof *made);
    if (!made) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for an event");
    made->context = context;
    status = context->backend->event_create(made);
    if (status != ANYDNN_OK) {
        free(made);
        return status;
    }
    adn_context_retain(context);
    *event = made;
    return ANYDNN_OK;
}

void anydnn_event_destroy(anydnn_event *event)
{
    anydnn_context *context;
    if (!event || adn_is_foreign(event->context)) return;
    context = event->context;
    context->backend->event_destroy(event);
    free(event);
    adn_context_release(context);
}

static anydnn_status same_context(const anydnn_event *event, const anydnn_stream *stream)
{
    ADN_TRY(adn_check_process(event->context));
    if (event->context == stream->context) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "event is of context %s, stream of another context (%s); accepted: the same context",
                    event->context->device.info.id, stream->context->device.info.id);
}

static anydnn_status recorded(const anydnn_event *event, const char *name)
{
    ADN_TRY(adn_check_process(event->context));
    if (__atomic_load_n(&event->recorded, __ATOMIC_ACQUIRE)) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "%s was never recorded; accepted: an event after anydnn_event_record", name);
}

anydnn_status anydnn_event_record(anydnn_event *event, anydnn_stream *stream)
{
    ADN_NOT_NULL(event);
    ADN_NOT_NULL(stream);
    ADN_TRY(same_context(event, stream));
    ADN_TRY(event->context->backend->event_record(event, stream));
    __atomic_store_n(&event->recorded, true, __ATOMIC_RELEASE);
    return ANYDNN_OK;
}

anydnn_status anydnn_event_sync(anydnn_event *event)
{
    ADN_NOT_NULL(event);
    ADN_TRY(recorded(event, "event"));
    return event->context->backend->event_sync(event);
}

anydnn_status anydnn_stream_wait(anydnn_stream *stream, anydnn_event *event)
{
    ADN_NOT_NULL(stream);
    ADN_NOT_NULL(event);
    ADN_TRY(same_context(event, stream));
    ADN_TRY(recorded(event, "event"));
    return stream->context->backend->stream_wait(stream, event);
}

anydnn_status anydnn_event_elapsed(anydnn_event *start, anydnn_event *end, double *nanoseconds)
{
    ADN_NOT_NULL(start);
    ADN_NOT_NULL(end);
    ADN_NOT_NULL(nanoseconds);
    if (start->context != end->context)
        return adn_fail(ANYDNN_INVALID, "start and end are of different contexts; accepted: the same context");
    ADN_TRY(recorded(start, "start"));
    ADN_TRY(recorded(end, "end"));
    return start->context->backend->event_elapsed(start, end, nanoseconds);
}
