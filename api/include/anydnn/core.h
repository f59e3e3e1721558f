/* SPDX-License-Identifier: Apache-2.0
 * anydnn/core.h: status, devices, contexts, streams, memory, events, log, version.
 *
 * Rules that hold for every function of this library
 *   Result     Functions return anydnn_status unless said otherwise. Out parameters are written only when
 *              ANYDNN_OK is returned. On INVALID and UNSUPPORTED nothing was enqueued or written, on no status does
 *              anything leak, and anydnn_message() of the calling thread names the argument, its value and what is
 *              accepted. Functions that return something else do not fail.
 *   Statuses   Each function names those that it gives beside OK. INVALID in any case: a pointer that is NULL where
 *              NULL is not said to be allowed, and a member named reserved that is not 0. Handles that are neither NULL
 *              nor alive are not found out.
 *   Units      Sizes and offsets are in bytes, dims and strides in elements, times in nanoseconds.
 *   Structs    struct_size is the sizeof of the struct as the caller was compiled: shorter structs read as zero-filled
 *              or are filled as far as they go. Too short for the first members is INVALID; of structs that are read so
 *              is a size that cuts a pointer or passes 4096, and members set that the library does not know are
 *              UNSUPPORTED.
 *   Threads    Contexts, plans, problems and events may be used by any number of threads at once. A stream is
 *              used by one thread at a time. There is no global state beyond the list of devices.
 *   Processes  A context and what belongs to it are of the process that opened it: after fork() the child gets INVALID
 *              for them, destroying them there does nothing, and "cpu" can be opened anew. "cuda:N" and "opencl:N"
 *              are UNSUPPORTED in a child whose parent had used this library, as their drivers do not survive. What the
 *              host knows (infos, names, native handles, problems) is told there too.
 *   Ownership  Pointers passed in are read during the call and never kept, unless the function says so. What a function
 *              makes is the caller's, to be given back once by the function named after it (destroy, release, free,
 *              close); what it returns by const pointer stays the library's.
 *   Faults     Work is asynchronous on GPU devices: a device fault may surface in a later call on the stream
 *              (ANYDNN_DEVICE); anydnn_stream_sync reports everything enqueued before it.
 *   Effects    The library never prints, aborts, exits or changes signal handlers; text goes to the log
 *              callback alone. Environment variables are read once, when the device list is first built:
 *              ANYDNN_CACHE_DIR (folder of compiled OpenCL programs; empty string switches the cache off),
 *              ANYDNN_ORACLE=1 (every context as if opened with options.oracle = 1),
 *              ANYDNN_TUNING (file of measurements that every context loads: anydnn/tune.h).
 */
#ifndef ANYDNN_CORE_H
#define ANYDNN_CORE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(ANYDNN_BUILD)
#define ANYDNN_API __declspec(dllexport)
#elif defined(ANYDNN_STATIC)
#define ANYDNN_API
#else
#define ANYDNN_API __declspec(dllimport)
#endif
#else
#define ANYDNN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. The major number is the ABI (and the SONAME): within one major, programs built against
 * an older minor keep working with a newer library. */
#define ANYDNN_VERSION_MAJOR 0
#define ANYDNN_VERSION_MINOR 1
#define ANYDNN_VERSION_PATCH 0
#define ANYDNN_VERSION (ANYDNN_VERSION_MAJOR * 10000 + ANYDNN_VERSION_MINOR * 100 + ANYDNN_VERSION_PATCH)

/* Outcome of a call. */
typedef enum anydnn_status {
    ANYDNN_OK = 0,
    ANYDNN_INVALID = 1,       /* the call is wrong on every device: fix the argument that the message names */
    ANYDNN_UNSUPPORTED = 2,   /* the call is right, but nothing on this device carries it out */
    ANYDNN_OUT_OF_MEMORY = 3, /* host or device memory could not be had */
    ANYDNN_DEVICE = 4,        /* the driver reported a fault; anydnn_native_error() holds its code */
    ANYDNN_INTERNAL = 5       /* a defect of this library */
} anydnn_status;

/* Name of a status ("OK", "INVALID", ...); "unknown status" for any other number. Never NULL. */
ANYDNN_API const char *anydnn_status_name(anydnn_status status);

/* Message of the last failed call of this thread; "" when none failed. Never NULL; valid until this thread's next
 * failure. */
ANYDNN_API const char *anydnn_message(void);

/* Native code (CUresult, cl_int, errno) behind this thread's last ANYDNN_DEVICE or ANYDNN_OUT_OF_MEMORY; 0 if none. */
ANYDNN_API int64_t anydnn_native_error(void);

/* ANYDNN_VERSION of the library at run time. */
ANYDNN_API int anydnn_version(void);
/* The four above may be called at any time, on any thread. */

/* ---------------------------------------------------------------- devices ------------------------------------- */

typedef enum anydnn_backend {
    ANYDNN_BACKEND_CPU = 1,
    ANYDNN_BACKEND_CUDA = 2,
    ANYDNN_BACKEND_OPENCL = 3
} anydnn_backend;

/* What is known of a device. struct_size is set by the caller to sizeof(anydnn_device_info); the library fills at
 * most that much. Strings are zero-terminated and cut to fit. */
typedef struct anydnn_device_info {
    uint32_t struct_size;
    int32_t backend;              /* anydnn_backend */
    char id[32];                  /* what anydnn_open takes: "cpu", "cuda:0", "opencl:1" */
    char name[128];               /* the vendor's name of the device */
    char driver[128];             /* driver or platform with its version */
    int64_t memory_bytes;         /* total device memory */
    int64_t max_alloc_bytes;      /* largest single allocation */
    int64_t local_memory_bytes;   /* shared (CUDA) or local (OpenCL) memory of one block; 0 on the CPU */
    int32_t compute_units;        /* multiprocessors, compute units, or threads of the pool */
    int32_t max_block_threads;    /* threads of the largest block */
    int32_t capability;           /* CUDA compute capability * 10 (90 = 9.0); 0 where unknown */
    int32_t is_cpu;               /* 1 for the CPU backend and for CPUs behind OpenCL */
    int32_t unified_memory;       /* 1 where host and device share memory */
    int32_t has_f64;              /* 1 where double precision is available */
    int32_t f16_arithmetic;       /* 1 where probed half arithmetic works (storage works everywhere) */
    int32_t reserved;             /* 0 */
} anydnn_device_info;

/* Number of devices found: CPU first, then CUDA, then OpenCL, in a stable order. The first call opens drivers (which
 * may take a second); absent or broken drivers mean fewer devices, never a failure. Result >= 1. */
ANYDNN_API int anydnn_device_count(void);

/* Fills *info for device `index` in 0..anydnn_device_count()-1. info->struct_size must be set.
 * INVALID: index out of range, info NULL, struct_size below 8. */
ANYDNN_API anydnn_status anydnn_device_get(int index, anydnn_device_info *info);

/* One line on each backend: what was opened, or why it is absent ("libcuda.so.1 not found"). `backend` is an
 * anydnn_backend; any other value gives "". Never NULL; lives as long as the library. */
ANYDNN_API const char *anydnn_backend_note(int backend);

/* ---------------------------------------------------------------- contexts ------------------------------------ */

typedef struct anydnn_context anydnn_context; /* one device with its loaded kernels and its plan cache */
typedef struct anydnn_stream anydnn_stream;   /* an ordered queue of work on one context */
typedef struct anydnn_event anydnn_event;     /* a point in a stream */

typedef enum anydnn_log_level { ANYDNN_LOG_ERROR = 1, ANYDNN_LOG_WARNING = 2, ANYDNN_LOG_INFO = 3,
                                ANYDNN_LOG_CALL = 4 /* one problem line for each plan created */ } anydnn_log_level;

/* Called from any thread that uses the context, possibly from several at once; must not call into the library with
 * the same context. `text` has no newline at its end and is valid during the call. */
typedef void (*anydnn_log_fn)(void *user, anydnn_log_level level, const char *text);

/* How much liberty arithmetic has. */
typedef enum anydnn_math {
    ANYDNN_MATH_DEFAULT = 0, /* in prefs: the context's mode; at open: ANYDNN_MATH_STRICT */
    ANYDNN_MATH_STRICT = 1,  /* f32 is computed at f32 accuracy; f16 and bf16 accumulate in f32 */
    ANYDNN_MATH_TF32 = 2,    /* f32 products may be rounded to 10 bits of mantissa */
    ANYDNN_MATH_FAST = 3     /* any reduced precision whose error bound is published */
} anydnn_math;

/* Options fixed at open. Zero in every member but struct_size is the default. */
typedef struct anydnn_open_options {
    uint32_t struct_size; /* sizeof(anydnn_open_options) */
    int32_t math;         /* anydnn_math; 0 = strict */
    int32_t deterministic;/* 1: only engines whose result is bit-equal from run to run are chosen */
    int32_t cpu_threads;  /* threads of the CPU backend's pool; 0 = one for each processor the process may use */
    int32_t log_level;    /* highest level passed on; 0 = ANYDNN_LOG_WARNING */
    int32_t plan_cache;   /* plans that one-shot calls keep; 0 = 1024; -1 = none */
    anydnn_log_fn log;    /* NULL = no log */
    void *log_user;       /* passed to log */
    int32_t oracle;       /* 1: checks every run against the CPU reference, see below; 0 = as ANYDNN_ORACLE says */
    int32_t batch_invariant; /* 1: results of an item do not depend on its batch (plan.h) */
} anydnn_open_options;

#define ANYDNN_OPEN_OPTIONS_INIT { (uint32_t)sizeof(anydnn_open_options), 0, 0, 0, 0, 0, NULL, NULL, 0, 0 }

/* The oracle repeats each anydnn_plan_run and anydnn_run on the CPU reference, on copies of the tensors, and compares
 * every element of every output: NaN and infinities must agree, what is defined to the bit (dropout, fill, plain
 * copies) must be equal, all else must lie within the error that the dtype and the length of the sums explain. A
 * difference gives ANYDNN_INTERNAL, with the outputs written; its message, which also goes to the log at level
 * ANYDNN_LOG_ERROR, is the problem line that repeats the call (anydnn check LINE) with the first wrong element as a
 * comment. Runs then wait for the stream and allocate host memory (OUT_OF_MEMORY), so they cannot be captured into a
 * graph. Where the CPU context's own engine is the reference, nothing is repeated. */

/* Opens a device: "cpu", "cuda:N", "opencl:N", or "auto" (first of cuda:0, the first OpenCL GPU, cpu). A named device
 * is opened or the call fails: nothing is substituted. `options` may be NULL. On CUDA the primary context of the
 * device is retained; the calling thread's current context is left as it was.
 * INVALID: device malformed or not in the list (the message lists what is there), a member of options out of range.
 * UNSUPPORTED: the backend is not in this build, its driver is absent or was opened before fork(). OUT_OF_MEMORY,
 * DEVICE. */
ANYDNN_API anydnn_status anydnn_open(const char *device, const anydnn_open_options *options, anydnn_context **context);

/* Gives up the caller's reference; NULL is allowed. Streams, plans, events and memory of the context must be
 * destroyed first or not be used again; the native resources go with the last of them. */
ANYDNN_API void anydnn_close(anydnn_context *context);

/* Fills *info (struct_size set by the caller) for the context's device. INVALID: struct_size below 8. */
ANYDNN_API anydnn_status anydnn_context_info(const anydnn_context *context, anydnn_device_info *info);

/* ---------------------------------------------------------------- memory -------------------------------------- */

typedef enum anydnn_mem_kind {
    ANYDNN_MEM_NONE = 0,
    ANYDNN_MEM_HOST = 1,  /* base is a host address: CPU contexts */
    ANYDNN_MEM_CUDA = 2,  /* base is a CUdeviceptr */
    ANYDNN_MEM_OPENCL = 3 /* base is a cl_mem */
} anydnn_mem_kind;

/* A place in memory, by value: no registry, no ownership. Tensors begin at `offset` bytes from `base`; `size` counts
 * the bytes usable from `base` on, 0 = unknown: bounds are then not checked, but of OpenCL buffers, whose driver knows
 * their size and context. `base` + `offset` must be a multiple of the element size. A kind that the context cannot
 * address is INVALID, not a crash. NULL as `base` is for nothing but empty tensors and copies of 0 bytes. */
typedef struct anydnn_mem {
    void *base;
    uint64_t offset;
    uint64_t size;
    int32_t kind; /* anydnn_mem_kind */
    int32_t reserved; /* 0 */
} anydnn_mem;

static inline anydnn_mem anydnn_mem_none(void)
{
    anydnn_mem mem = { NULL, 0, 0, ANYDNN_MEM_NONE, 0 };
    return mem;
}

/* Host memory of the caller, for CPU contexts. */
static inline anydnn_mem anydnn_host_mem(void *base, uint64_t size)
{
    anydnn_mem mem = { base, 0, size, ANYDNN_MEM_HOST, 0 };
    return mem;
}

/* The same memory, `bytes` further on. */
static inline anydnn_mem anydnn_mem_at(anydnn_mem mem, uint64_t bytes)
{
    mem.offset += bytes;
    return mem;
}

/* Allocates `bytes` of device memory, aligned to at least 128 bytes, content undefined. bytes == 0 gives a valid
 * empty memory. INVALID: bytes from 2^63 on. OUT_OF_MEMORY, DEVICE. May synchronise the device. */
ANYDNN_API anydnn_status anydnn_alloc(anydnn_context *context, uint64_t bytes, anydnn_mem *mem);

/* Frees what anydnn_alloc gave (offset 0 as given). Work that uses it must have finished. A memory of kind NONE is
 * allowed. INVALID: wrong kind or an offset. DEVICE. */
ANYDNN_API anydnn_status anydnn_free(anydnn_context *context, anydnn_mem mem);

/* Host memory from which copies run asynchronously (pinned on CUDA; plain aligned memory where pinning is unknown).
 * Aligned to at least 256 bytes; bytes == 0 gives a pointer that is not to be read. INVALID: bytes from 2^63 on.
 * OUT_OF_MEMORY, DEVICE. Free with anydnn_free_host (NULL allowed there, also as context: nothing is done). */
ANYDNN_API anydnn_status anydnn_alloc_host(anydnn_context *context, uint64_t bytes, void **host);
ANYDNN_API void anydnn_free_host(anydnn_context *context, void *host);

/* ---------------------------------------------------------------- streams and events -------------------------- */

/* Bytes of workspace that a stream owns when 0 is asked for. */
#define ANYDNN_DEFAULT_WORKSPACE ((uint64_t)64 << 20)
/* Asks for a stream without workspace. */
#define ANYDNN_NO_WORKSPACE UINT64_MAX

/* Creates a stream that owns `workspace_bytes` of device memory for engines that want scratch (0 = the default above,
 * ANYDNN_NO_WORKSPACE = none). It never grows. INVALID: any other size from 2^63 on. OUT_OF_MEMORY, DEVICE. */
ANYDNN_API anydnn_status anydnn_stream_create(anydnn_context *context, uint64_t workspace_bytes, anydnn_stream **stream);

/* Waits for the stream's work, then destroys it; NULL is allowed. A wrapped native stream itself stays alive. */
ANYDNN_API void anydnn_stream_destroy(anydnn_stream *stream);

/* Blocks until everything enqueued on the stream has finished. DEVICE: a fault of any of it. OUT_OF_MEMORY: the driver
 * says that of work enqueued before. */
ANYDNN_API anydnn_status anydnn_stream_sync(anydnn_stream *stream);

/* The context that the stream belongs to; NULL for NULL. */
ANYDNN_API anydnn_context *anydnn_stream_context(const anydnn_stream *stream);

/* Copies `bytes` from host to device, from device to host, and within the device, in stream order. All three may
 * return before the copy has run: host memory must stay valid and unchanged until the stream has passed it.
 * Overlapping source and destination is INVALID in anydnn_copy. bytes == 0 succeeds, also with a NULL host pointer.
 * INVALID: wrong kind, out of the memory's bounds. OUT_OF_MEMORY, DEVICE. */
ANYDNN_API anydnn_status anydnn_copy_in(anydnn_stream *stream, anydnn_mem dst, const void *src, uint64_t bytes);
ANYDNN_API anydnn_status anydnn_copy_out(anydnn_stream *stream, void *dst, anydnn_mem src, uint64_t bytes);
ANYDNN_API anydnn_status anydnn_copy(anydnn_stream *stream, anydnn_mem dst, anydnn_mem src, uint64_t bytes);

/* Writes `bytes` bytes of `value` in stream order. Statuses as for anydnn_copy. */
ANYDNN_API anydnn_status anydnn_set(anydnn_stream *stream, anydnn_mem dst, uint8_t value, uint64_t bytes);

/* Events mark a point in a stream. Create and destroy (NULL allowed; work that waits for it is not disturbed) on any
 * thread. OUT_OF_MEMORY, DEVICE, as of all functions of events below. */
ANYDNN_API anydnn_status anydnn_event_create(anydnn_context *context, anydnn_event **event);
ANYDNN_API void anydnn_event_destroy(anydnn_event *event);
/* Marks the point behind all work enqueued so far; recording again moves it. INVALID: another context's. */
ANYDNN_API anydnn_status anydnn_event_record(anydnn_event *event, anydnn_stream *stream);
/* Blocks the calling thread until the point has been reached. INVALID: never recorded. */
ANYDNN_API anydnn_status anydnn_event_sync(anydnn_event *event);
/* Makes later work of `stream` wait for the event, without blocking the host. INVALID: never recorded, or a stream of
 * another context. */
ANYDNN_API anydnn_status anydnn_stream_wait(anydnn_stream *stream, anydnn_event *event);
/* Time between two recorded points in nanoseconds, of the device's clock where it has one; waits for both.
 * INVALID: never recorded, or events of different contexts. */
ANYDNN_API anydnn_status anydnn_event_elapsed(anydnn_event *start, anydnn_event *end, double *nanoseconds);

#ifdef __cplusplus
}
#endif
#endif
