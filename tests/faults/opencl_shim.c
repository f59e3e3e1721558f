/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/opencl_shim.c: a libOpenCL.so.1 before the real one; see opencl_shim.h. The real loader is the file
 * that $ANYDNN_REAL_OPENCL names: by its full path, since our name is the same. */
#include "opencl_shim.h"

#include "backends/opencl/loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum function {
#define ID(result, name, parameters) F_##name,
    ADN_CL_FUNCTIONS(ID)
#undef ID
        FUNCTIONS
};
static const char *const names[] = {
#define NAME(result, name, parameters) "cl" #name,
    ADN_CL_FUNCTIONS(NAME)
#undef NAME
};

static struct adn_cl_api real;
static bool found;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int calls[FUNCTIONS], all_calls, live[SHIM_KINDS];
static int target, first_failure, failures; /* target FUNCTIONS = any */
static const char *first_failed = "";
static cl_program refused; /* the last program whose build failed by order */
static const char refusal[] = "injected: this compiler refuses";

/* ---- The real loader. ---- */

static void load_real(void)
{
    const char *path = getenv("ANYDNN_REAL_OPENCL");
    void *library = path && path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *symbol;
    found = library != NULL;
#define RESOLVE(result, name, parameters)                                                                              \
    symbol = library ? dlsym(library, "cl" #name) : NULL;                                                              \
    memcpy(&real.name, &symbol, sizeof symbol);                                                                        \
    found = found && symbol;
    ADN_CL_FUNCTIONS(RESOLVE)
#undef RESOLVE
}

/* ---- Counting and failing. ---- */

static cl_int fitting_code(enum function f)
{
    switch (f) {
    case F_CreateBuffer:
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    case F_BuildProgram:
        return CL_BUILD_PROGRAM_FAILURE;
    case F_CreateContext:
    case F_CreateCommandQueue:
    case F_CreateProgramWithSource:
    case F_CreateProgramWithBinary:
    case F_CreateKernel:
    case F_SetKernelArg:
        return CL_OUT_OF_HOST_MEMORY;
    default:
        return CL_OUT_OF_RESOURCES;
    }
}

static cl_int begin(enum function f)
{
    int number;
    cl_int code = CL_SUCCESS;
    pthread_once(&once, load_real);
    if (!found) return CL_PLATFORM_NOT_FOUND;
    pthread_mutex_lock(&lock);
    calls[f]++;
    all_calls++;
    number = target == FUNCTIONS ? all_calls : calls[f];
    if ((target == FUNCTIONS || target == (int)f) && number >= first_failure && number < first_failure + failures) {
        code = fitting_code(f);
        if (!first_failed[0]) first_failed = names[f];
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static void hold(enum shim_kind kind, int change)
{
    pthread_mutex_lock(&lock);
    live[kind] += change;
    pthread_mutex_unlock(&lock);
}

static int present(void)
{
    pthread_once(&once, load_real);
    return found;
}

static void reset(void)
{
    pthread_mutex_lock(&lock);
    memset(calls, 0, sizeof calls);
    all_calls = first_failure = failures = 0;
    first_failed = "";
    refused = NULL;
    pthread_mutex_unlock(&lock);
}

static void fail(const char *function, int first, int count)
{
    pthread_mutex_lock(&lock);
    for (target = 0; function && target < FUNCTIONS && strcmp(names[target], function) != 0;) target++;
    if (!function) target = FUNCTIONS;
    first_failure = first;
    failures = count;
    pthread_mutex_unlock(&lock);
}

static const char *failed(void)
{
    return first_failed;
}

static const char *function_name(int index, int *count)
{
    if (index >= FUNCTIONS) return NULL;
    *count = calls[index];
    return names[index];
}

static int call_count(void)
{
    return all_calls;
}

static int live_count(int kind)
{
    return live[kind];
}

EXPORT void opencl_shim(struct opencl_shim *table);
void opencl_shim(struct opencl_shim *table)
{
    const struct opencl_shim own = { present, reset, fail, failed, function_name, call_count, live_count };
    *table = own;
}

/* ---- Entry points: plain ones, ones that count references, creators. ---- */

#define PLAIN(name, parameters, arguments)                                                                             \
    EXPORT cl_int cl##name parameters;                                                                                 \
    cl_int cl##name parameters                                                                                         \
    {                                                                                                                  \
        const cl_int code = begin(F_##name);                                                                           \
        return code == CL_SUCCESS ? real.name arguments : code;                                                        \
    }

#define RETAIN(name, type, kind)                                                                                       \
    EXPORT cl_int cl##name(type object);                                                                               \
    cl_int cl##name(type object)                                                                                       \
    {                                                                                                                  \
        cl_int code = begin(F_##name);                                                                                 \
        if (code == CL_SUCCESS) code = real.name(object);                                                              \
        if (code == CL_SUCCESS) hold(kind, 1);                                                                         \
        return code;                                                                                                   \
    }

#define RELEASE(name, type, kind)                                                                                      \
    EXPORT cl_int cl##name(type object);                                                                               \
    cl_int cl##name(type object)                                                                                       \
    {                                                                                                                  \
        const cl_int ordered = begin(F_##name), code = real.name(object);                                              \
        if (code == CL_SUCCESS) hold(kind, -1);                                                                        \
        return ordered == CL_SUCCESS ? code : ordered;                                                                 \
    }

/* `code` is the last parameter. */
#define CREATE(type, name, kind, parameters, arguments)                                                                \
    EXPORT type cl##name parameters;                                                                                   \
    type cl##name parameters                                                                                           \
    {                                                                                                                  \
        type made = NULL;                                                                                              \
        *code = begin(F_##name);                                                                                       \
        if (*code == CL_SUCCESS) made = real.name arguments;                                                           \
        if (made) hold(kind, 1);                                                                                       \
        return made;                                                                                                   \
    }

/* `event` is the last parameter and may be NULL. */
#define ENQUEUE(name, parameters, arguments)                                                                           \
    EXPORT cl_int cl##name parameters;                                                                                 \
    cl_int cl##name parameters                                                                                         \
    {                                                                                                                  \
        cl_int code = begin(F_##name);                                                                                 \
        if (code == CL_SUCCESS) code = real.name arguments;                                                            \
        if (code == CL_SUCCESS && event) hold(SHIM_EVENT, 1);                                                          \
        return code;                                                                                                   \
    }

#define WAIT_LIST cl_uint waits, const cl_event *list, cl_event *event
#define INFO cl_uint what, size_t size, void *value, size_t *full

PLAIN(GetPlatformIDs, (cl_uint room, cl_platform_id *ids, cl_uint *count), (room, ids, count))
PLAIN(GetPlatformInfo, (cl_platform_id of, INFO), (of, what, size, value, full))
PLAIN(GetDeviceIDs, (cl_platform_id of, cl_bitfield type, cl_uint room, cl_device_id *ids, cl_uint *count),
      (of, type, room, ids, count))
PLAIN(GetDeviceInfo, (cl_device_id of, INFO), (of, what, size, value, full))
PLAIN(GetContextInfo, (cl_context of, INFO), (of, what, size, value, full))
PLAIN(GetCommandQueueInfo, (cl_command_queue of, INFO), (of, what, size, value, full))
PLAIN(GetMemObjectInfo, (cl_mem of, INFO), (of, what, size, value, full))
PLAIN(GetProgramInfo, (cl_program of, INFO), (of, what, size, value, full))
PLAIN(GetKernelInfo, (cl_kernel of, INFO), (of, what, size, value, full))
PLAIN(GetKernelWorkGroupInfo, (cl_kernel of, cl_device_id on, INFO), (of, on, what, size, value, full))
PLAIN(GetEventProfilingInfo, (cl_event of, INFO), (of, what, size, value, full))
PLAIN(SetKernelArg, (cl_kernel of, cl_uint index, size_t size, const void *value), (of, index, size, value))
PLAIN(Flush, (cl_command_queue queue), (queue))
PLAIN(Finish, (cl_command_queue queue), (queue))
PLAIN(WaitForEvents, (cl_uint count, const cl_event *list), (count, list))
PLAIN(SetEventCallback, (cl_event event, cl_int when, adn_cl_event_notify call, void *user), (event, when, call, user))
RETAIN(RetainContext, cl_context, SHIM_CONTEXT)
RETAIN(RetainCommandQueue, cl_command_queue, SHIM_QUEUE)
RETAIN(RetainEvent, cl_event, SHIM_EVENT)
RELEASE(ReleaseContext, cl_context, SHIM_CONTEXT)
RELEASE(ReleaseCommandQueue, cl_command_queue, SHIM_QUEUE)
RELEASE(ReleaseMemObject, cl_mem, SHIM_MEMORY)
RELEASE(ReleaseProgram, cl_program, SHIM_PROGRAM)
RELEASE(ReleaseKernel, cl_kernel, SHIM_KERNEL)
RELEASE(ReleaseEvent, cl_event, SHIM_EVENT)
CREATE(cl_context, CreateContext, SHIM_CONTEXT,
       (const intptr_t *properties, cl_uint count, const cl_device_id *devices, adn_cl_context_notify call, void *user,
        cl_int *code),
       (properties, count, devices, call, user, code))
CREATE(cl_command_queue, CreateCommandQueue, SHIM_QUEUE,
       (cl_context context, cl_device_id device, cl_bitfield properties, cl_int *code),
       (context, device, properties, code))
CREATE(cl_mem, CreateBuffer, SHIM_MEMORY,
       (cl_context context, cl_bitfield flags, size_t size, void *host, cl_int *code),
       (context, flags, size, host, code))
CREATE(cl_program, CreateProgramWithSource, SHIM_PROGRAM,
       (cl_context context, cl_uint count, const char **texts, const size_t *sizes, cl_int *code),
       (context, count, texts, sizes, code))
CREATE(cl_program, CreateProgramWithBinary, SHIM_PROGRAM,
       (cl_context context, cl_uint count, const cl_device_id *devices, const size_t *sizes,
        const unsigned char **binaries, cl_int *each, cl_int *code),
       (context, count, devices, sizes, binaries, each, code))
CREATE(cl_kernel, CreateKernel, SHIM_KERNEL, (cl_program program, const char *name, cl_int *code),
       (program, name, code))
ENQUEUE(EnqueueReadBuffer,
        (cl_command_queue queue, cl_mem memory, cl_bool wait, size_t at, size_t size, void *to, WAIT_LIST),
        (queue, memory, wait, at, size, to, waits, list, event))
ENQUEUE(EnqueueWriteBuffer,
        (cl_command_queue queue, cl_mem memory, cl_bool wait, size_t at, size_t size, const void *from, WAIT_LIST),
        (queue, memory, wait, at, size, from, waits, list, event))
ENQUEUE(EnqueueCopyBuffer,
        (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t size, WAIT_LIST),
        (queue, from, to, from_at, to_at, size, waits, list, event))
ENQUEUE(EnqueueFillBuffer,
        (cl_command_queue queue, cl_mem memory, const void *pattern, size_t width, size_t at, size_t size, WAIT_LIST),
        (queue, memory, pattern, width, at, size, waits, list, event))
ENQUEUE(EnqueueNDRangeKernel,
        (cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset, const size_t *global,
         const size_t *local, WAIT_LIST),
        (queue, kernel, dims, offset, global, local, waits, list, event))
ENQUEUE(EnqueueMarkerWithWaitList, (cl_command_queue queue, WAIT_LIST), (queue, waits, list, event))
ENQUEUE(EnqueueBarrierWithWaitList, (cl_command_queue queue, WAIT_LIST), (queue, waits, list, event))

EXPORT cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             adn_cl_program_notify call, void *user);
cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                      adn_cl_program_notify call, void *user)
{
    const cl_int code = begin(F_BuildProgram);
    if (code == CL_SUCCESS) return real.BuildProgram(program, count, devices, options, call, user);
    refused = program;
    return code;
}

EXPORT cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, INFO);
cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, INFO)
{
    const cl_int code = begin(F_GetProgramBuildInfo);
    if (code != CL_SUCCESS) return code;
    if (program != refused || what != CL_PROGRAM_BUILD_LOG)
        return real.GetProgramBuildInfo(program, device, what, size, value, full);
    if (full) *full = sizeof refusal;
    if (value && size < sizeof refusal) return CL_INVALID_VALUE;
    if (value) memcpy(value, refusal, sizeof refusal);
    return CL_SUCCESS;
}
