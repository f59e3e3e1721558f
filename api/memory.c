/* SPDX-License-Identifier: Apache-2.0
 * api/memory.c: memory and copies. */
#include "internal.h"

static const char *kind_name(int kind)
{
    static const char *const names[] = { "none", "host", "CUDA", "OpenCL" };
    return kind >= 0 && kind <= ANYDNN_MEM_OPENCL ? names[kind] : "unknown";
}

anydnn_status adn_check_memory(const anydnn_context *context, const anydnn_mem *mem, uint64_t bytes, const char *name)
{
    ADN_TRY(adn_check_process(context));
    if (mem->kind != context->backend->mem_kind)
        return adn_fail(ANYDNN_INVALID, "%s: memory kind is %d (%s); accepted on %s: %d (%s)", name, mem->kind,
                        kind_name(mem->kind), context->device.info.id, context->backend->mem_kind,
                        kind_name(context->backend->mem_kind));
    if (mem->reserved) return adn_fail(ANYDNN_INVALID, "%s: memory member reserved is %d; accepted: 0", name, mem->reserved);
    if (bytes == 0) return ANYDNN_OK;
    if (!mem->base) return adn_fail(ANYDNN_INVALID, "%s: memory base is NULL; accepted: memory of %llu bytes", name,
                                    (unsigned long long)bytes);
    if (mem->offset > (uint64_t)INT64_MAX - bytes)
        return adn_fail(ANYDNN_INVALID, "%s: memory offset is %llu; accepted: below 2^63", name, (unsigned long long)mem->offset);
    if (mem->size && mem->offset + bytes > mem->size)
        return adn_fail(ANYDNN_INVALID, "%s: needs %llu bytes from offset %llu, but its memory has %llu; accepted: %llu or more",
                        name, (unsigned long long)bytes, (unsigned long long)mem->offset, (unsigned long long)mem->size,
                        (unsigned long long)(mem->offset + bytes));
    if (!context->backend->check_memory) return ANYDNN_OK;
    return context->backend->check_memory(context, mem->base, mem->offset + bytes, name);
}

anydnn_status anydnn_alloc(anydnn_context *context, uint64_t bytes, anydnn_mem *mem)
{
    anydnn_mem made = { NULL, 0, bytes, 0, 0 };
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(mem);
    ADN_TRY(adn_check_process(context));
    if (bytes > (uint64_t)INT64_MAX)
        return adn_fail(ANYDNN_INVALID, "bytes is %llu; accepted: below 2^63", (unsigned long long)bytes);
    ADN_TRY(context->backend->alloc(context, bytes, &made.base));
    made.kind = context->backend->mem_kind;
    *mem = made;
    return ANYDNN_OK;
}

anydnn_status anydnn_free(anydnn_context *context, anydnn_mem mem)
{
    ADN_NOT_NULL(context);
    if (mem.kind == ANYDNN_MEM_NONE) return ANYDNN_OK;
    ADN_TRY(adn_check_memory(context, &mem, 0, "mem"));
    if (mem.offset)
        return adn_fail(ANYDNN_INVALID, "mem: offset is %llu; accepted: 0, as anydnn_alloc gave it", (unsigned long long)mem.offset);
    return mem.base ? context->backend->free(context, mem.base) : ANYDNN_OK;
}

anydnn_status anydnn_alloc_host(anydnn_context *context, uint64_t bytes, void **host)
{
    void *made = NULL;
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(host);
    ADN_TRY(adn_check_process(context));
    if (bytes > (uint64_t)INT64_MAX)
        return adn_fail(ANYDNN_INVALID, "bytes is %llu; accepted: below 2^63", (unsigned long long)bytes);
    ADN_TRY(context->backend->alloc_host(context, bytes, &made));
    *host = made;
    return ANYDNN_OK;
}

void anydnn_free_host(anydnn_context *context, void *host)
{
    if (context && host && !adn_is_foreign(context)) context->backend->free_host(context, host);
}

static struct adn_place place(anydnn_mem mem)
{
    struct adn_place result;
    result.base = mem.base;
    result.offset = mem.offset;
    return result;
}

anydnn_status anydnn_copy_in(anydnn_stream *stream, anydnn_mem dst, const void *src, uint64_t bytes)
{
    ADN_NOT_NULL(stream);
    ADN_TRY(adn_check_memory(stream->context, &dst, bytes, "dst"));
    if (bytes == 0) return ANYDNN_OK;
    ADN_NOT_NULL(src);
    return stream->context->backend->copy_in(stream, place(dst), src, bytes);
}

anydnn_status anydnn_copy_out(anydnn_stream *stream, void *dst, anydnn_mem src, uint64_t bytes)
{
    ADN_NOT_NULL(stream);
    ADN_TRY(adn_check_memory(stream->context, &src, bytes, "src"));
    if (bytes == 0) return ANYDNN_OK;
    ADN_NOT_NULL(dst);
    return stream->context->backend->copy_out(stream, dst, place(src), bytes);
}

/* CUDA and host bases are addresses: two bases may be one allocation. OpenCL bases are handles. */
static bool overlap(const anydnn_mem *a, const anydnn_mem *b, uint64_t bytes)
{
    const bool addresses = a->kind != ANYDNN_MEM_OPENCL;
    const uint64_t x = a->offset + (addresses ? (uint64_t)(uintptr_t)a->base : 0);
    const uint64_t y = b->offset + (addresses ? (uint64_t)(uintptr_t)b->base : 0);
    if (!addresses && a->base != b->base) return false;
    return x < y + bytes && y < x + bytes;
}

anydnn_status anydnn_copy(anydnn_stream *stream, anydnn_mem dst, anydnn_mem src, uint64_t bytes)
{
    ADN_NOT_NULL(stream);
    ADN_TRY(adn_check_memory(stream->context, &dst, bytes, "dst"));
    ADN_TRY(adn_check_memory(stream->context, &src, bytes, "src"));
    if (bytes == 0) return ANYDNN_OK;
    if (overlap(&dst, &src, bytes))
        return adn_fail(ANYDNN_INVALID, "dst overlaps src within %llu bytes; accepted: apart", (unsigned long long)bytes);
    return stream->context->backend->copy(stream, place(dst), place(src), bytes);
}

anydnn_status anydnn_set(anydnn_stream *stream, anydnn_mem dst, uint8_t value, uint64_t bytes)
{
    ADN_NOT_NULL(stream);
    ADN_TRY(adn_check_memory(stream->context, &dst, bytes, "dst"));
    if (bytes == 0) return ANYDNN_OK;
    return stream->context->backend->set(stream, place(dst), value, bytes);
}
