/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/internal.h: what the files of the OpenCL backend share. */
#ifndef ADN_OPENCL_INTERNAL_H
#define ADN_OPENCL_INTERNAL_H
#include "cache.h"
#include "loader.h"

#include "common/os.h"

struct adn_cl_program;

/* Scratch of a first launch; its arguments point to the middle. */
enum { ADN_CL_WARM_BYTES = 128 << 10 };

/* anydnn_context.native. */
struct adn_cl_context {
    cl_context context;
    cl_device_id device;
    adn_mutex *lock;      /* guards the two lists; never held while compiling */
    adn_condition *built; /* some program or kernel of the lists is finished */
    struct adn_cl_program *programs;
    struct adn_kernel *kernels;
    struct adn_cache_key identity; /* of the device and its compiler */
    bool identified;               /* else programs are not kept on disk */
    cl_command_queue warm_queue;   /* CPU devices: first launches, see program.c; NULL elsewhere */
    cl_mem warm_memory;
};

/* anydnn_stream.native is the cl_command_queue itself. */
static inline struct adn_cl_context *adn_cl_native(const anydnn_context *context)
{
    return context->native;
}
static inline cl_command_queue adn_cl_queue(const anydnn_stream *stream)
{
    return stream->native;
}

/* backend.c */
/* A string of the device, "" when it cannot be had; cut to `capacity`. */
cl_int adn_cl_device_text(cl_device_id device, cl_uint what, char *text, size_t capacity);
/* True if the device lists the extension. */
bool adn_cl_has_extension(cl_device_id device, const char *name);

/* memory.c */
anydnn_status adn_cl_alloc(anydnn_context *context, uint64_t bytes, void **base);
anydnn_status adn_cl_free(anydnn_context *context, void *base);
anydnn_status adn_cl_alloc_host(anydnn_context *context, uint64_t bytes, void **host);
void adn_cl_free_host(anydnn_context *context, void *host);
anydnn_status adn_cl_check_memory(const anydnn_context *context, void *base, uint64_t end, const char *name);
anydnn_status adn_cl_copy_in(anydnn_stream *stream, struct adn_place dst, const void *src, uint64_t bytes);
anydnn_status adn_cl_copy_out(anydnn_stream *stream, void *dst, struct adn_place src, uint64_t bytes);
anydnn_status adn_cl_copy(anydnn_stream *stream, struct adn_place dst, struct adn_place src, uint64_t bytes);
anydnn_status adn_cl_set(anydnn_stream *stream, struct adn_place dst, uint8_t value, uint64_t bytes);

/* stream.c */
anydnn_status adn_cl_stream_create(anydnn_stream *stream, bool wrap, void *native);
void adn_cl_stream_destroy(anydnn_stream *stream);
anydnn_status adn_cl_stream_sync(anydnn_stream *stream);
anydnn_status adn_cl_stream_wait(anydnn_stream *stream, anydnn_event *event);
anydnn_status adn_cl_event_create(anydnn_event *event);
void adn_cl_event_destroy(anydnn_event *event);
anydnn_status adn_cl_event_record(anydnn_event *event, anydnn_stream *stream);
anydnn_status adn_cl_event_sync(anydnn_event *event);
anydnn_status adn_cl_event_elapsed(anydnn_event *start, anydnn_event *end, double *nanoseconds);

/* program.c */
enum { ADN_CL_ENTRY_LENGTH = 96 };
/* Writes the kernel's name in its program and returns it. */
const char *adn_cl_entry_name(const struct adn_variant *variant, char name[ADN_CL_ENTRY_LENGTH]);
/* The built program that holds the variant; it lives until close. */
anydnn_status adn_cl_program_get(anydnn_context *context, const struct adn_variant *variant, cl_program *native);
void adn_cl_programs_release(struct adn_cl_context *own);

/* Work that one thread does and the others of the context wait for: a program's build, a kernel's first launch. */
struct adn_cl_task {
    int state; /* 0 = nobody began it, 1 = running, 2 = finished */
    anydnn_status status;
    char *message; /* of a refusal that is remembered */
};
/* True: the caller does the work and calls finish. False: it is done, and *status (with its message) says how. */
bool adn_cl_task_begin(struct adn_cl_context *own, struct adn_cl_task *task, anydnn_status *status);
/* Refusals of the compiler stay; other failures are forgotten, so that the next call tries again. */
void adn_cl_task_finish(struct adn_cl_context *own, struct adn_cl_task *task, anydnn_status status);

/* kernel.c */
anydnn_status adn_cl_kernel_warm(anydnn_context *context, struct adn_kernel *kernel, const uint32_t grid[3]);
anydnn_status adn_cl_kernel_load(anydnn_context *context, const struct adn_variant *variant,
                                 struct adn_kernel **kernel);
anydnn_status adn_cl_kernel_launch(anydnn_stream *stream, struct adn_kernel *kernel, const struct adn_launch *launch);
void adn_cl_kernels_release(struct adn_cl_context *own);

extern const struct adn_engine *const adn_cl_engines[]; /* engines.c */
#endif
