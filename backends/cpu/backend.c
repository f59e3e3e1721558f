/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/backend.c: the CPU backend: one device, a thread pool for each context.
 *
 * A stream is no queue: every call does its work before it returns, so that waiting is trivial and an event is a point
 * in time. Memory is the host's. Native contexts and streams do not exist. */
#include "engines.h"
#include "common/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static int probe(struct adn_device *devices, int capacity, char *note, size_t note_size)
{
    anydnn_device_info *info;
    if (capacity < 1) return 0;
    memset(&devices[0], 0, sizeof devices[0]);
    info = &devices[0].info;
    devices[0].backend = &adn_cpu_backend;
    info->struct_size = (uint32_t)sizeof *info;
    info->backend = ANYDNN_BACKEND_CPU;
    adn_processor_name(info->name, sizeof info->name);
    snprintf(info->driver, sizeof info->driver, "anydnn reference %d.%d.%d", ANYDNN_VERSION_MAJOR, ANYDNN_VERSION_MINOR,
             ANYDNN_VERSION_PATCH);
    info->memory_bytes = info->max_alloc_bytes = adn_memory_bytes();
    info->compute_units = adn_processor_count();
    info->max_block_threads = 1;
    info->is_cpu = info->unified_memory = info->has_f64 = 1;
    snprintf(note, note_size, "%d processors: %s", (int)info->compute_units, info->name);
    return 1;
}

static anydnn_status no_memory(uint64_t bytes)
{
    return adn_fail_native(ANYDNN_OUT_OF_MEMORY, ENOMEM, "%llu bytes of host memory could not be had",
                           (unsigned long long)bytes);
}

static anydnn_status open_context(anydnn_context *context, void *native)
{
    const int threads = context->options.cpu_threads > 0 ? context->options.cpu_threads : adn_processor_count();
    struct adn_pool *pool;
    if (native) return adn_fail(ANYDNN_INVALID, "native is not NULL; accepted: NULL, as the CPU has no native context");
    pool = adn_pool_create(threads);
    if (!pool) return no_memory((uint64_t)threads * sizeof(void *));
    context->native = pool;
    context->device.info.compute_units = adn_pool_threads(pool);
    return ANYDNN_OK;
}

static void close_context(anydnn_context *context)
{
    adn_pool_destroy(context->native);
    context->native = NULL;
}

/* ---- Memory. ---- */

static anydnn_status allocate(anydnn_context *context, uint64_t bytes, void **base)
{
    void *memory = bytes <= SIZE_MAX / 2 ? adn_aligned_alloc((size_t)bytes) : NULL;
    (void)context;
    if (!memory) return no_memory(bytes);
    *base = memory;
    return ANYDNN_OK;
}

static anydnn_status release(anydnn_context *context, void *base)
{
    (void)context;
    adn_aligned_free(base);
    return ANYDNN_OK;
}

static void free_host(anydnn_context *context, void *host)
{
    (void)context;
    adn_aligned_free(host);
}

/* ---- Streams. ---- */

static anydnn_status stream_create(anydnn_stream *stream, bool wrap, void *native)
{
    (void)native;
    if (wrap) return adn_fail(ANYDNN_UNSUPPORTED, "the CPU has no native streams to wrap");
    stream->native = NULL;
    return ANYDNN_OK;
}

static void stream_destroy(anydnn_stream *stream)
{
    (void)stream;
}

static anydnn_status stream_sync(anydnn_stream *stream)
{
    (void)stream;
    return ANYDNN_OK;
}

static void *address(struct adn_place place)
{
    return (char *)place.base + place.offset;
}

static anydnn_status copy_in(anydnn_stream *stream, struct adn_place dst, const void *src, uint64_t bytes)
{
    (void)stream;
    if (bytes) memmove(address(dst), src, (size_t)bytes);
    return ANYDNN_OK;
}

static anydnn_status copy_out(anydnn_stream *stream, void *dst, struct adn_place src, uint64_t bytes)
{
    (void)stream;
    if (bytes) memmove(dst, address(src), (size_t)bytes);
    return ANYDNN_OK;
}

static anydnn_status copy(anydnn_stream *stream, struct adn_place dst, struct adn_place src, uint64_t bytes)
{
    return copy_in(stream, dst, bytes ? address(src) : NULL, bytes);
}

static anydnn_status set(anydnn_stream *stream, struct adn_place dst, uint8_t value, uint64_t bytes)
{
    (void)stream;
    if (bytes) memset(address(dst), value, (size_t)bytes);
    return ANYDNN_OK;
}

/* ---- Events: the time of the last record, -1 before the first. ---- */

struct point {
    atomic_llong time_ns;
};

static anydnn_status event_create(anydnn_event *event)
{
    struct point *point = malloc(sizeof *point);
    if (!point) return no_memory(sizeof *point);
    atomic_init(&point->time_ns, -1);
    event->native = point;
    return ANYDNN_OK;
}

static void event_destroy(anydnn_event *event)
{
    free(event->native);
}

static anydnn_status event_record(anydnn_event *event, anydnn_stream *stream)
{
    struct point *point = event->native;
    (void)stream;
    atomic_store(&point->time_ns, adn_time_ns());
    return ANYDNN_OK;
}

static anydnn_status time_of(anydnn_event *event, int64_t *time_ns)
{
    struct point *point = event->native;
    *time_ns = atomic_load(&point->time_ns);
    return *time_ns >= 0 ? ANYDNN_OK : adn_fail(ANYDNN_INVALID, "event was never recorded; accepted: an event after anydnn_event_record");
}

static anydnn_status event_sync(anydnn_event *event)
{
    int64_t time_ns;
    return time_of(event, &time_ns);
}

static anydnn_status stream_wait(anydnn_stream *stream, anydnn_event *event)
{
    (void)stream;
    return event_sync(event);
}

static anydnn_status event_elapsed(anydnn_event *start, anydnn_event *end, double *nanoseconds)
{
    int64_t from, to;
    ADN_TRY(time_of(start, &from));
    ADN_TRY(time_of(end, &to));
    *nanoseconds = (double)(to - from);
    return ANYDNN_OK;
}

const struct adn_backend adn_cpu_backend = {
    .abi = ADN_BACKEND_ABI,
    .id = ANYDNN_BACKEND_CPU,
    .name = "cpu",
    .mem_kind = ANYDNN_MEM_HOST,
    .probe = probe,
    .open = open_context,
    .close = close_context,
    .alloc = allocate,
    .free = release,
    .alloc_host = allocate,
    .free_host = free_host,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_sync = stream_sync,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
    .set = set,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_sync = event_sync,
    .stream_wait = stream_wait,
    .event_elapsed = event_elapsed,
    .engines = adn_cpu_engines,
};
