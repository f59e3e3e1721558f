/* SPDX-License-Identifier: Apache-2.0
 * common/backend.h: the contract between the library and its backends: devices, contexts, streams, engines, plans.
 *
 * Every backend is one static const struct adn_backend with designated initialisers; a NULL slot marked optional
 * means "not supported". Slots return a status and set the thread's message (adn_fail, adn_fail_native).
 * The API layer has checked NULL, kinds and bounds before a slot is called. */
#ifndef ADN_BACKEND_H
#define ADN_BACKEND_H
#include "problem.h"

enum { ADN_BACKEND_ABI = 1 };

struct adn_backend;
struct adn_engine;
struct adn_variant;
struct adn_kernel; /* a loaded kernel; each backend's own */

/* One device of the list, filled by probe. */
struct adn_device {
    const struct adn_backend *backend;
    int ordinal;              /* the backend's own number */
    anydnn_device_info info;
    void *native;             /* the backend's handle of the device (CUdevice, cl_device_id) */
    void *native2;            /* a second one (cl_platform_id) */
};

struct anydnn_context {
    const struct adn_backend *backend;
    struct adn_device device;     /* a copy: its own, also for wrapped contexts */
    void *native;                 /* the backend's data */
    int references;               /* atomic; API layer */
    anydnn_open_options options;  /* as given, defaults filled in */
    struct adn_plan_cache *cache; /* API layer */
    struct adn_refusals *refused; /* variants that the device's compiler refused; common/select.c */
    struct anydnn_context *reference; /* the oracle's CPU context, NULL until it is needed; api/oracle.c */
    struct adn_tuning *tuning;    /* what was measured; common/tune.c; may be NULL */
    int forks;                    /* adn_fork_count() at open: another number is another process */
};

struct anydnn_stream {
    anydnn_context *context;
    void *native;          /* the backend's data */
    anydnn_mem workspace;  /* kind NONE when there is none; size = its bytes */
};

struct anydnn_event {
    anydnn_context *context;
    void *native;
    bool recorded; /* atomic: events are shared between threads */
};

/* A kernel launch: blocks of variant->block threads; `grid` counts blocks (0 blocks: the caller skips the launch).
 * Memory arguments come first and in order (CUDA: a pointer each; OpenCL: buffer and 64-bit byte offset each), then
 * the parameter struct by value. */
enum { ADN_MAX_MEMORIES = 12, ADN_MAX_PARAMS = 704 };
struct adn_place {
    void *base;
    uint64_t offset; /* bytes */
};
struct adn_launch {
    uint32_t grid[3];
    int memories;
    struct adn_place memory[ADN_MAX_MEMORIES]; /* base NULL = a null pointer */
    uint32_t params_size;
    const void *params;
};

struct adn_backend {
    uint32_t abi;  /* ADN_BACKEND_ABI */
    int id;        /* anydnn_backend */
    const char *name;
    int mem_kind;  /* anydnn_mem_kind of its memories */

    /* Devices. Writes up to `capacity` devices (info complete but id, which the registry sets to "name:index") and
     * one line for anydnn_backend_note; returns how many. Never fails: no driver means 0 and a note. */
    int (*probe)(struct adn_device *devices, int capacity, char *note, size_t note_size);

    /* Contexts. context->device and ->options are set; `native` is the caller's native context or NULL for an own one.
     * On failure leaves nothing behind. */
    anydnn_status (*open)(anydnn_context *context, void *native);
    void (*close)(anydnn_context *context);
    /* Optional: fills the device for a native context and its device (CUcontext; cl_context, cl_device_id). */
    anydnn_status (*adopt)(void *native, void *native_device, struct adn_device *device);

    /* Memory. */
    anydnn_status (*alloc)(anydnn_context *context, uint64_t bytes, void **base);
    anydnn_status (*free)(anydnn_context *context, void *base);
    anydnn_status (*alloc_host)(anydnn_context *context, uint64_t bytes, void **host);
    void (*free_host)(anydnn_context *context, void *host);
    /* Optional, where memories are objects that can be asked: INVALID when `base`, called `name`, is not of the context or
     * ends before `end` bytes. */
    anydnn_status (*check_memory)(const anydnn_context *context, void *base, uint64_t end, const char *name);

    /* Streams: `native` is the caller's stream or queue where `wrap`, else an own one is made. */
    anydnn_status (*stream_create)(anydnn_stream *stream, bool wrap, void *native);
    void (*stream_destroy)(anydnn_stream *stream); /* waits first */
    anydnn_status (*stream_sync)(anydnn_stream *stream);
    anydnn_status (*copy_in)(anydnn_stream *stream, struct adn_place dst, const void *src, uint64_t bytes);
    anydnn_status (*copy_out)(anydnn_stream *stream, void *dst, struct adn_place src, uint64_t bytes);
    anydnn_status (*copy)(anydnn_stream *stream, struct adn_place dst, struct adn_place src, uint64_t bytes);
    anydnn_status (*set)(anydnn_stream *stream, struct adn_place dst, uint8_t value, uint64_t bytes);

    /* Events. */
    anydnn_status (*event_create)(anydnn_event *event);
    void (*event_destroy)(anydnn_event *event);
    anydnn_status (*event_record)(anydnn_event *event, anydnn_stream *stream);
    anydnn_status (*event_sync)(anydnn_event *event);
    anydnn_status (*stream_wait)(anydnn_stream *stream, anydnn_event *event);
    anydnn_status (*event_elapsed)(anydnn_event *start, anydnn_event *end, double *nanoseconds);

    /* Optional (GPU languages): loads a variant, once per context (later calls return the same kernel; it lives until
     * close; thread-safe), and launches it. UNSUPPORTED from kernel_load = this device's compiler refuses it. */
    anydnn_status (*kernel_load)(anydnn_context *context, const struct adn_variant *variant, struct adn_kernel **kernel);
    /* Optional: makes sure that launches of this many blocks compile nothing any more. */
    anydnn_status (*kernel_warm)(anydnn_context *context, struct adn_kernel *kernel, const uint32_t grid[3]);
    anydnn_status (*kernel_launch)(anydnn_stream *stream, struct adn_kernel *kernel, const struct adn_launch *launch);

    /* Optional: native handles. which 0 = context, 1 = device, 2 = stream (object is the stream then). */
    void *(*native_handle)(const void *object, int which);

    /* Engines of this backend alone, best first within an operation, NULL ends. Backends with kernel_load also have
     * those of adn_shared_engines(), behind their own. */
    const struct adn_engine *const *engines;
};

/* Backends of this build, in the order of the device list; NULL ends. */
extern const struct adn_backend *const adn_backends[];
extern const struct adn_backend adn_cpu_backend, adn_cuda_backend, adn_opencl_backend;

/* Engines over the kernel slots, shared by the GPU backends (common/engines/list.c). NULL ends. */
extern const struct adn_engine *const adn_shared_engines[];

/* ---- Variants: one compiled kernel with its constants. ---- */

/* A row of common/engines/<stem>.variants: ADN_VARIANT(kernel, DTYPE, block, a, b, c, d, e, f). The six constants mean
 * what the stem's file says; unused ones are 0. CUDA entry: adn_<kernel>_<DTYPE>_<block>_<a>_<b>_<c>_<d>_<e>_<f>;
 * OpenCL entry: adn_<kernel> in the program of (stem, dtype, block, constants). */
struct adn_variant {
    const char *stem;   /* "eltwise": kernels_cuda/eltwise.cu, kernels_cl/eltwise.cl */
    const char *kernel; /* "activation_forward" */
    const char *dtype_name; /* "F32" */
    int32_t dtype;      /* anydnn_dtype */
    int32_t block;      /* threads of a block (x only) */
    int32_t constant[6];
    int32_t dynamic_shared; /* bytes of dynamic shared memory (CUDA alone); 0 = static shared memory only */
};

/* ---- Engines. ---- */

/* Why an engine refuses; the fields of anydnn_verdict. */
struct adn_refusal {
    int reason; /* anydnn_reason */
    int role;
    char argument[32];
    int64_t value, accepted;
    char text[160];
};
/* Fills *why and returns false, so that a refusal is one statement in plan(). `why` may be NULL. */
bool adn_refuse(struct adn_refusal *why, int reason, int role, const char *argument, int64_t value, int64_t accepted,
                const char *format, ...) ADN_PRINTF(7, 8);

/* One launch of a plan. */
enum { ADN_MAX_STEPS = 6, ADN_FROM_WORKSPACE = -1, ADN_FROM_NULL = -2 };
struct adn_step {
    const struct adn_variant *variant;
    uint32_t grid[3]; /* any 0: the step is skipped */
    int memories;
    struct {
        int source;       /* slot >= 0, ADN_FROM_WORKSPACE or ADN_FROM_NULL */
        uint64_t offset;  /* bytes into it */
    } memory[ADN_MAX_MEMORIES];
    uint32_t params_size;
    union {
        int64_t align;
        unsigned char bytes[ADN_MAX_PARAMS];
    } params;
};

struct adn_engine_plan {
    uint64_t workspace;   /* exact bytes */
    double cost_ns;       /* estimate; orders the candidates */
    char params[32];      /* text of the parameters in the id, "" = none */
    int steps;            /* GPU engines */
    struct adn_step step[ADN_MAX_STEPS];
    union {               /* engines with a run of their own: what they please */
        int64_t align;
        unsigned char bytes[256];
    } own;
};

/* Arguments of one run, by slot. */
struct adn_arguments {
    struct adn_place place[ADN_MAX_ROLES]; /* tensors, and scalars in device memory */
    double scalar[ADN_MAX_ROLES];          /* scalars on the host, defaults filled in */
    struct adn_place workspace;            /* base NULL when workspace is 0 */
};

struct anydnn_plan {
    anydnn_context *context;
    struct adn_problem problem;
    const struct adn_engine *engine;
    struct adn_engine_plan body;
    struct adn_kernel *kernel[ADN_MAX_STEPS]; /* of body.step[] */
    int references; /* atomic */
    bool cached;    /* made by a one-shot call: the context owns it, so it does not hold the context */
};

struct adn_engine {
    const char *name;   /* file stem and tuning key; never reused for something else */
    uint64_t ops;       /* ADN_OP_BIT(...) of the operations it serves */
    uint32_t traits;    /* ANYDNN_TRAIT_* */
    uint32_t revision;  /* raised when its results or parameters change meaning */
    const struct adn_variant *variants; /* its own kernels; steps may also name those of another shared engine */
    int variant_count;

    /* Pure: says whether, and how, the problem is run on the device: writes *plan and returns true, or *why and
     * returns false. `params` is the text behind ':' in a pinned id, NULL for the engine's own choice. Outputs may all
     * be empty or some inputs: plan for 0 blocks. A true binds: running may then fail only for memory or faults.
     * adn_explain calls it too; nothing is allocated. *plan is zeroed by the caller. */
    bool (*plan)(const struct adn_problem *p, const struct adn_device *device, const char *params,
                 struct adn_engine_plan *plan, struct adn_refusal *why);

    /* Optional: parameter texts worth trying, index 0, 1, ...; false behind the last. */
    bool (*candidate)(const struct adn_problem *p, const struct adn_device *device, int index, char params[32]);

    /* GPU engines: writes the scalars of a run into a step's parameter struct. Optional. `scalar` is by slot. */
    void (*bind)(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                 void *params);

    /* Engines that do not run by steps (CPU, vendor libraries). prepare does what is slow (optional); run enqueues and
     * neither allocates nor waits; discard gives back what prepare took (optional). */
    anydnn_status (*prepare)(anydnn_plan *plan);
    anydnn_status (*run)(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments);
    void (*discard)(anydnn_plan *plan);
};
#define ADN_OP_BIT(op) ((uint64_t)1 << (op))

/* common/run.c: the run of every engine that works by steps: loads the kernels; binds scalars and launches. */
anydnn_status adn_steps_prepare(anydnn_plan *plan);
anydnn_status adn_steps_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments);

/* Helpers for plan(): appends a step with its parameter struct; memory arguments are added in order. A scalar slot is
 * passed as its device memory when it is read from there, else as a null pointer. Roles that are absent: null. */
struct adn_step *adn_add_step(struct adn_engine_plan *plan, const struct adn_variant *variant, uint64_t blocks,
                              const void *params, size_t params_size);
void adn_step_role(struct adn_step *step, const struct adn_problem *p, int role);
void adn_step_slot(struct adn_step *step, int source); /* a slot, or ADN_FROM_NULL */
void adn_step_workspace(struct adn_step *step, uint64_t offset);
void adn_step_null(struct adn_step *step);
/* Books `bytes` of workspace aligned to 256 and returns their offset. */
uint64_t adn_book(struct adn_engine_plan *plan, uint64_t bytes);
/* First row of `rows` with this kernel, dtype and, where constants is not NULL, these six constants; NULL if none. */
const struct adn_variant *adn_find_variant(const struct adn_variant *rows, int count, const char *kernel, int dtype,
                                           const int32_t *constants);
/* Rough time of moving bytes and doing operations on a device, for cost_ns: launch overhead included. `share` is the
 * part of the device's arithmetic peak that the engine reaches (0..1). */
double adn_estimate_ns(const struct adn_device *device, double bytes, double flops, double share);

/* Log through the context's callback when level is within options.log_level. */
void adn_log(const anydnn_context *context, anydnn_log_level level, const char *format, ...) ADN_PRINTF(3, 4);

#endif
