/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/memory.c: buffers, host memory and copies. A place is a cl_mem and a byte offset; sub-buffers are
 * never made, because their alignment rules differ by vendor. Host memory is plain aligned memory: OpenCL 1.2 has no
 * pinning that works without a mapped buffer. */
#include "internal.h"

#include <string.h>

anydnn_status adn_cl_alloc(anydnn_context *context, uint64_t bytes, void **base)
{
    cl_int code = CL_INVALID_BUFFER_SIZE;
    cl_mem memory = NULL;
    /* Some drivers (NVIDIA's) promise any size and fail at first use. */
    if (bytes <= SIZE_MAX && bytes <= (uint64_t)context->device.info.memory_bytes)
        memory = adn_cl.CreateBuffer(adn_cl_native(context)->context, CL_MEM_READ_WRITE, bytes ? (size_t)bytes : 1,
                                     NULL, &code);
    if (code == CL_INVALID_BUFFER_SIZE)
        return adn_fail_native(ANYDNN_OUT_OF_MEMORY, code,
                               "%llu bytes of device memory were asked for; the largest allocation is %lld bytes",
                               (unsigned long long)bytes, (long long)context->device.info.max_alloc_bytes);
    ADN_TRY(adn_cl_check(code, ADN_CL_ALLOC, "clCreateBuffer", NULL));
    *base = memory;
    return ANYDNN_OK;
}

anydnn_status adn_cl_free(anydnn_context *context, void *base)
{
    (void)context;
    ADN_CL_TRY(ADN_CL_COPY, adn_cl.ReleaseMemObject(base));
    return ANYDNN_OK;
}

anydnn_status adn_cl_check_memory(const anydnn_context *context, void *base, uint64_t end, const char *name)
{
    cl_context owner = NULL;
    size_t size = 0;
    ADN_CL_TRY(ADN_CL_COPY, adn_cl.GetMemObjectInfo(base, CL_MEM_CONTEXT, sizeof(cl_context), &owner, NULL));
    if (owner != adn_cl_native(context)->context)
        return adn_fail(ANYDNN_INVALID,
                        "%s: its cl_mem is of another cl_context; accepted: a buffer of the context's own", name);
    ADN_CL_TRY(ADN_CL_COPY, adn_cl.GetMemObjectInfo(base, CL_MEM_SIZE, sizeof size, &size, NULL));
    if (end <= size) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "%s: reaches %llu bytes into a cl_mem of %llu; accepted: a buffer of %llu or more",
                    name, (unsigned long long)end, (unsigned long long)size, (unsigned long long)end);
}

anydnn_status adn_cl_alloc_host(anydnn_context *context, uint64_t bytes, void **host)
{
    void *memory = bytes <= SIZE_MAX ? adn_aligned_alloc((size_t)bytes) : NULL;
    (void)context;
    if (!memory)
        return adn_fail(ANYDNN_OUT_OF_MEMORY, "%llu bytes of host memory could not be had", (unsigned long long)bytes);
    *host = memory;
    return ANYDNN_OK;
}

void adn_cl_free_host(anydnn_context *context, void *host)
{
    (void)context;
    adn_aligned_free(host);
}

anydnn_status adn_cl_copy_in(anydnn_stream *stream, struct adn_place dst, const void *src, uint64_t bytes)
{
    if (!bytes) return ANYDNN_OK;
    ADN_CL_TRY(ADN_CL_COPY, adn_cl.EnqueueWriteBuffer(adn_cl_queue(stream), dst.base, 0, (size_t)dst.offset,
                                                      (size_t)bytes, src, 0, NULL, NULL));
    return ANYDNN_OK;
}

anydnn_status adn_cl_copy_out(anydnn_stream *stream, void *dst, struct adn_place src, uint64_t bytes)
{
    if (!bytes) return ANYDNN_OK;
    ADN_CL_TRY(ADN_CL_COPY, adn_cl.EnqueueReadBuffer(adn_cl_queue(stream), src.base, 0, (size_t)src.offset,
                                                     (size_t)bytes, dst, 0, NULL, NULL));
    return ANYDNN_OK;
}

/* Drivers are tested with less than 2^31 bytes in one command: larger ranges go piece by piece. */
static uint64_t piece_of(uint64_t bytes)
{
    const uint64_t most = (uint64_t)1 << 30;
    return bytes < most ? bytes : most;
}

anydnn_status adn_cl_copy(anydnn_stream *stream, struct adn_place dst, struct adn_place src, uint64_t bytes)
{
    uint64_t done, piece;
    for (done = 0; done < bytes; done += piece) {
        piece = piece_of(bytes - done);
        ADN_CL_TRY(ADN_CL_COPY,
                   adn_cl.EnqueueCopyBuffer(adn_cl_queue(stream), src.base, dst.base, (size_t)(src.offset + done),
                                            (size_t)(dst.offset + done), (size_t)piece, 0, NULL, NULL));
    }
    return ANYDNN_OK;
}

/* Fills with a pattern of `width` bytes, whose multiples offset and bytes are. */
static anydnn_status fill(anydnn_stream *stream, struct adn_place dst, uint8_t value, size_t width, uint64_t bytes)
{
    unsigned char pattern[16];
    if (!bytes) return ANYDNN_OK;
    memset(pattern, value, sizeof pattern);
    ADN_CL_TRY(ADN_CL_COPY, adn_cl.EnqueueFillBuffer(adn_cl_queue(stream), dst.base, pattern, width, (size_t)dst.offset,
                                                     (size_t)bytes, 0, NULL, NULL));
    return ANYDNN_OK;
}

/* Whole 16 bytes in the middle, single bytes at both ends. */
static anydnn_status set_near(anydnn_stream *stream, struct adn_place dst, uint8_t value, uint64_t bytes)
{
    const uint64_t before = (16 - dst.offset % 16) % 16, head = before < bytes ? before : bytes;
    const uint64_t tail = (bytes - head) % 16, body = bytes - head - tail;
    ADN_TRY(fill(stream, dst, value, 1, head));
    dst.offset += head;
    ADN_TRY(fill(stream, dst, value, 16, body));
    dst.offset += body;
    return fill(stream, dst, value, 1, tail);
}

/* The bytes 0 to 255: what is written from must outlive the command. */
static const uint8_t *byte_of(uint8_t value)
{
#define ROW(first)                                                                                                     \
    (first), (first) + 1, (first) + 2, (first) + 3, (first) + 4, (first) + 5, (first) + 6, (first) + 7, (first) + 8,   \
        (first) + 9, (first) + 10, (first) + 11, (first) + 12, (first) + 13, (first) + 14, (first) + 15
    static const uint8_t bytes[256] = { ROW(0x00), ROW(0x10), ROW(0x20), ROW(0x30), ROW(0x40), ROW(0x50),
                                        ROW(0x60), ROW(0x70), ROW(0x80), ROW(0x90), ROW(0xa0), ROW(0xb0),
                                        ROW(0xc0), ROW(0xd0), ROW(0xe0), ROW(0xf0) };
#undef ROW
    return &bytes[value];
}

/* NVIDIA's driver (580) counts the offset of a fill of single bytes in 32 bits: from 2^31 on it faults, from 2^32 on it
 * writes elsewhere. Fills stay below; what lies behind is copied from what was set, which doubles. */
anydnn_status adn_cl_set(anydnn_stream *stream, struct adn_place dst, uint8_t value, uint64_t bytes)
{
    const uint64_t limit = (uint64_t)1 << 31;
    uint64_t done = dst.offset < limit ? limit - dst.offset : 1;
    if (done > bytes) done = bytes;
    ADN_TRY(dst.offset < limit ? set_near(stream, dst, value, done)
                               : adn_cl_copy_in(stream, dst, byte_of(value), done));
    while (done < bytes) {
        const struct adn_place next = { dst.base, dst.offset + done };
        const uint64_t piece = done < bytes - done ? done : bytes - done;
        ADN_TRY(adn_cl_copy(stream, next, dst, piece));
        done += piece;
    }
    return ANYDNN_OK;
}
