/* SPDX-License-Identifier: Apache-2.0
 * tests/fake_cuda/fake_cuda.c: a CUDA driver without a device; see fake_cuda.h. Every handle is the address of an entry
 * in one list, so that stale and foreign handles are found out; device addresses are those of the host memory. */
#include "fake_cuda.h"
#include "backends/cuda/driver.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, STACK = 32, INVALID_VALUE = 1, NO_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
enum { CAPTURE_UNSUPPORTED = 900, DRIVER_VERSION = 13000 };
static const size_t total_memory = (size_t)8 << 30;

enum kind { CONTEXT, MEMORY, HOST, STREAM, EVENT, MODULE, FUNCTION, KINDS };

struct object {
    enum kind kind;
    struct object *context; /* owner; NULL for contexts */
    struct object *module;  /* of a function */
    int device;             /* of a context */
    int references;         /* of a primary context */
    int recorded;           /* of an event */
    char *memory;
    size_t bytes;
    struct object *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;
static struct object primary[DEVICES] = { { .kind = CONTEXT, .device = 0 }, { .kind = CONTEXT, .device = 1 } };
static int calls, launches, fail_in, fail_code, capturing;
static char failed[64], complaint[256], last_function[256];
static _Thread_local struct object *stack[STACK];
static _Thread_local int depth;

/* ---- Book-keeping. ---- */

static CUresult begin(const char *name)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    calls++;
    if (fail_in > 0 && --fail_in == 0) {
        result = fail_code;
        snprintf(failed, sizeof failed, "%s", name);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
#define BEGIN(name)                                                                                                    \
    do {                                                                                                               \
        CUresult begin_ = begin(name);                                                                                 \
        if (begin_ != CUDA_SUCCESS) return begin_;                                                                     \
    } while (0)

static CUresult breach(CUresult code, const char *what)
{
    pthread_mutex_lock(&lock);
    if (!complaint[0]) snprintf(complaint, sizeof complaint, "%s", what);
    pthread_mutex_unlock(&lock);
    return code;
}

static struct object *make(enum kind kind, struct object *context)
{
    struct object *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    o->kind = kind;
    o->context = context;
    pthread_mutex_lock(&lock);
    o->next = objects;
    objects = o;
    pthread_mutex_unlock(&lock);
    return o;
}

static int is_live(const void *handle, enum kind kind)
{
    const struct object *o;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (o = objects; o && !found; o = o->next) found = o == handle && o->kind == kind;
    pthread_mutex_unlock(&lock);
    return found || (kind == CONTEXT && (handle == &primary[0] || handle == &primary[1]) &&
                     ((const struct object *)handle)->references > 0);
}

static struct object *find_memory(enum kind kind, uintptr_t address)
{
    struct object *o;
    pthread_mutex_lock(&lock);
    for (o = objects; o; o = o->next)
        if (o->kind == kind && address - (uintptr_t)o->memory <= o->bytes) break;
    pthread_mutex_unlock(&lock);
    return o;
}

static void drop(struct object *gone)
{
    struct object **at;
    pthread_mutex_lock(&lock);
    for (at = &objects; *at && *at != gone; at = &(*at)->next) continue;
    if (*at) *at = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone->memory);
    free(gone);
}

static CUresult release(const char *name, void *handle, enum kind kind)
{
    CUresult result = begin(name);
    if (!is_live(handle, kind)) return breach(INVALID_HANDLE, name);
    drop(handle);
    return result;
}

static struct object *current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

static CUresult check_context(const char *name)
{
    if (current() && is_live(current(), CONTEXT)) return CUDA_SUCCESS;
    return breach(INVALID_CONTEXT, name);
}

static CUresult check_quiet(const char *name)
{
    return capturing ? breach(CAPTURE_UNSUPPORTED, name) : CUDA_SUCCESS;
}

static CUresult check_stream(CUstream stream, const char *name)
{
    const struct object *o = (const struct object *)stream;
    if (check_context(name) != CUDA_SUCCESS) return INVALID_CONTEXT;
    if (!o) return CUDA_SUCCESS;
    if (!is_live(o, STREAM) || o->context != current()) return breach(INVALID_HANDLE, name);
    return CUDA_SUCCESS;
}

static CUresult check_range(uintptr_t address, size_t bytes, const char *name)
{
    const struct object *o = find_memory(MEMORY, address);
    if (o && bytes <= o->bytes - (address - (uintptr_t)o->memory)) return CUDA_SUCCESS;
    return breach(INVALID_VALUE, name);
}
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        CUresult try_ = (expression);                                                                                  \
        if (try_ != CUDA_SUCCESS) return try_;                                                                         \
    } while (0)

/* ---- Controls. ---- */

void fake_cuda_reset(void)
{
    pthread_mutex_lock(&lock);
    calls = launches = fail_in = capturing = 0;
    failed[0] = complaint[0] = last_function[0] = 0;
    pthread_mutex_unlock(&lock);
    depth = 0;
}

void fake_cuda_fail_after(int n, int code)
{
    fail_in = n, fail_code = code, failed[0] = 0;
}
const char *fake_cuda_failed(void)
{
    return failed;
}
int fake_cuda_calls(void)
{
    return calls;
}
int fake_cuda_launches(void)
{
    return launches;
}
const char *fake_cuda_last_function(void)
{
    return last_function;
}
const char *fake_cuda_complaint(void)
{
    return complaint;
}
void fake_cuda_capture(int on)
{
    capturing = on;
}
void *fake_cuda_current(void)
{
    return current();
}
int fake_cuda_depth(void)
{
    return depth;
}
void fake_cuda_drop(void *object)
{
    drop(object);
}
void *fake_cuda_make_stream(void *context)
{
    return make(STREAM, context);
}

struct fake_cuda_counts fake_cuda_live(void)
{
    int count[KINDS] = { 0 };
    struct fake_cuda_counts live;
    const struct object *o;
    pthread_mutex_lock(&lock);
    for (o = objects; o; o = o->next) count[o->kind]++;
    live.contexts = count[CONTEXT] + primary[0].references + primary[1].references;
    pthread_mutex_unlock(&lock);
    live.memories = count[MEMORY], live.host_memories = count[HOST], live.streams = count[STREAM];
    live.events = count[EVENT], live.modules = count[MODULE];
    return live;
}

void *fake_cuda_make_context(int device)
{
    struct object *o = make(CONTEXT, NULL);
    if (o) o->device = device;
    return o;
}

void fake_cuda_set_current(void *context)
{
    depth = 0;
    if (context) stack[depth++] = context;
}

/* ---- The driver: devices and contexts. ---- */

#define EXPORT FAKE_CUDA_API
#define ENTRY(name, parameters)                                                                                        \
    EXPORT CUresult name parameters;                                                                                   \
    CUresult name parameters

ENTRY(cuInit, (unsigned flags))
{
    BEGIN("cuInit");
    return flags ? INVALID_VALUE : CUDA_SUCCESS;
}

ENTRY(cuDriverGetVersion, (int *version))
{
    BEGIN("cuDriverGetVersion");
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

ENTRY(cuGetErrorName, (CUresult result, const char **text))
{
    static const struct {
        CUresult code;
        const char *name;
    } names[] = {
        { 1, "CUDA_ERROR_INVALID_VALUE" },    { 2, "CUDA_ERROR_OUT_OF_MEMORY" },
        { 101, "CUDA_ERROR_INVALID_DEVICE" }, { 201, "CUDA_ERROR_INVALID_CONTEXT" },
        { 400, "CUDA_ERROR_INVALID_HANDLE" }, { 209, "CUDA_ERROR_NO_BINARY_FOR_GPU" },
        { 999, "CUDA_ERROR_UNKNOWN" },        { 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
    };
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].code != result) continue;
        *text = names[i].name;
        return CUDA_SUCCESS;
    }
    *text = NULL;
    return INVALID_VALUE;
}

ENTRY(cuGetErrorString, (CUresult result, const char **text))
{
    (void)result;
    *text = "as the fake driver was told";
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetCount, (int *count))
{
    BEGIN("cuDeviceGetCount");
    *count = DEVICES;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGet, (CUdevice * device, int ordinal))
{
    BEGIN("cuDeviceGet");
    if (ordinal < 0 || ordinal >= DEVICES) return NO_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetName, (char *name, int size, CUdevice device))
{
    BEGIN("cuDeviceGetName");
    snprintf(name, (size_t)size, "Fake device %d", device);
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))
{
    BEGIN("cuDeviceTotalMem");
    (void)device;
    *bytes = total_memory;
    return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))
{
    BEGIN("cuDeviceGetAttribute");
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return *value = 1024, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return *value = 132, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return *value = 9, CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return *value = 232448, CUDA_SUCCESS;
    default:
        return *value = 0, CUDA_SUCCESS;
    }
}

ENTRY(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))
{
    BEGIN("cuDevicePrimaryCtxRetain");
    primary[device].references++;
    *context = (CUcontext)&primary[device];
    return CUDA_SUCCESS;
}

ENTRY(cuDevicePrimaryCtxRelease_v2, (CUdevice device))
{
    CUresult result = begin("cuDevicePrimaryCtxRelease");
    if (primary[device].references < 1) return breach(INVALID_CONTEXT, "cuDevicePrimaryCtxRelease");
    primary[device].references--;
    return result;
}

ENTRY(cuCtxGetCurrent, (CUcontext * context))
{
    BEGIN("cuCtxGetCurrent");
    *context = (CUcontext)current();
    return CUDA_SUCCESS;
}

ENTRY(cuCtxPushCurrent_v2, (CUcontext context))
{
    BEGIN("cuCtxPushCurrent");
    if (!is_live(context, CONTEXT) || depth == STACK) return breach(INVALID_CONTEXT, "cuCtxPushCurrent");
    stack[depth++] = (struct object *)context;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxPopCurrent_v2, (CUcontext * context))
{
    CUresult result = begin("cuCtxPopCurrent");
    if (depth == 0) return breach(INVALID_CONTEXT, "cuCtxPopCurrent");
    *context = (CUcontext)stack[--depth];
    return result;
}

ENTRY(cuCtxGetDevice, (CUdevice * device))
{
    BEGIN("cuCtxGetDevice");
    TRY(check_context("cuCtxGetDevice"));
    *device = current()->device;
    return CUDA_SUCCESS;
}

/* ---- Memory. ---- */

static CUresult allocate(const char *name, enum kind kind, size_t bytes, void **address)
{
    struct object *o;
    BEGIN(name);
    TRY(check_context(name));
    TRY(check_quiet(name));
    if (bytes == 0) return breach(INVALID_VALUE, name);
    if (bytes > total_memory) return CUDA_ERROR_OUT_OF_MEMORY;
    o = make(kind, current());
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    o->bytes = bytes;
    *address = o->memory;
    return CUDA_SUCCESS;
}

static CUresult deallocate(const char *name, enum kind kind, uintptr_t address)
{
    struct object *o = find_memory(kind, address);
    CUresult result = begin(name);
    TRY(check_quiet(name));
    if (!o || (uintptr_t)o->memory != address) return breach(INVALID_VALUE, name);
    drop(o);
    return result;
}

ENTRY(cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes))
{
    void *address = NULL;
    TRY(allocate("cuMemAlloc", MEMORY, bytes, &address));
    *pointer = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

ENTRY(cuMemFree_v2, (CUdeviceptr pointer))
{
    return deallocate("cuMemFree", MEMORY, (uintptr_t)pointer);
}

ENTRY(cuMemHostAlloc, (void **host, size_t bytes, unsigned flags))
{
    (void)flags;
    return allocate("cuMemHostAlloc", HOST, bytes, host);
}

ENTRY(cuMemFreeHost, (void *host))
{
    return deallocate("cuMemFreeHost", HOST, (uintptr_t)host);
}

ENTRY(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))
{
    BEGIN("cuMemcpyHtoDAsync");
    TRY(check_stream(stream, "cuMemcpyHtoDAsync"));
    TRY(check_range((uintptr_t)to, bytes, "cuMemcpyHtoDAsync"));
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

ENTRY(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))
{
    BEGIN("cuMemcpyDtoHAsync");
    TRY(check_stream(stream, "cuMemcpyDtoHAsync"));
    TRY(check_range((uintptr_t)from, bytes, "cuMemcpyDtoHAsync"));
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

ENTRY(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))
{
    BEGIN("cuMemcpyDtoDAsync");
    TRY(check_stream(stream, "cuMemcpyDtoDAsync"));
    TRY(check_range((uintptr_t)from, bytes, "cuMemcpyDtoDAsync"));
    TRY(check_range((uintptr_t)to, bytes, "cuMemcpyDtoDAsync"));
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

ENTRY(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))
{
    BEGIN("cuMemsetD8Async");
    TRY(check_stream(stream, "cuMemsetD8Async"));
    TRY(check_range((uintptr_t)to, bytes, "cuMemsetD8Async"));
    memset((void *)(uintptr_t)to, value, bytes);
    return CUDA_SUCCESS;
}

/* ---- Streams and events. ---- */

ENTRY(cuStreamCreate, (CUstream * stream, unsigned flags))
{
    BEGIN("cuStreamCreate");
    TRY(check_context("cuStreamCreate"));
    if (flags != CU_STREAM_NON_BLOCKING) return breach(INVALID_VALUE, "cuStreamCreate");
    *stream = (CUstream)make(STREAM, current());
    return CUDA_SUCCESS;
}

ENTRY(cuStreamDestroy_v2, (CUstream stream))
{
    return release("cuStreamDestroy", stream, STREAM);
}

ENTRY(cuStreamSynchronize, (CUstream stream))
{
    BEGIN("cuStreamSynchronize");
    TRY(check_quiet("cuStreamSynchronize"));
    return check_stream(stream, "cuStreamSynchronize");
}

ENTRY(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))
{
    BEGIN("cuStreamWaitEvent");
    (void)flags;
    if (!is_live(event, EVENT)) return breach(INVALID_HANDLE, "cuStreamWaitEvent");
    return check_stream(stream, "cuStreamWaitEvent");
}

ENTRY(cuStreamGetCtx, (CUstream stream, CUcontext *context))
{
    BEGIN("cuStreamGetCtx");
    if (stream && !is_live(stream, STREAM)) return breach(INVALID_HANDLE, "cuStreamGetCtx");
    *context = (CUcontext)(stream ? ((struct object *)stream)->context : current());
    return CUDA_SUCCESS;
}

ENTRY(cuStreamIsCapturing, (CUstream stream, int *status))
{
    BEGIN("cuStreamIsCapturing");
    TRY(check_stream(stream, "cuStreamIsCapturing"));
    *status = capturing;
    return CUDA_SUCCESS;
}

ENTRY(cuEventCreate, (CUevent * event, unsigned flags))
{
    BEGIN("cuEventCreate");
    TRY(check_context("cuEventCreate"));
    (void)flags;
    *event = (CUevent)make(EVENT, current());
    return CUDA_SUCCESS;
}

ENTRY(cuEventDestroy_v2, (CUevent event))
{
    return release("cuEventDestroy", event, EVENT);
}

ENTRY(cuEventRecord, (CUevent event, CUstream stream))
{
    BEGIN("cuEventRecord");
    if (!is_live(event, EVENT)) return breach(INVALID_HANDLE, "cuEventRecord");
    ((struct object *)event)->recorded = 1;
    return check_stream(stream, "cuEventRecord");
}

ENTRY(cuEventSynchronize, (CUevent event))
{
    BEGIN("cuEventSynchronize");
    TRY(check_quiet("cuEventSynchronize"));
    return is_live(event, EVENT) ? CUDA_SUCCESS : breach(INVALID_HANDLE, "cuEventSynchronize");
}

ENTRY(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))
{
    BEGIN("cuEventElapsedTime");
    if (!is_live(start, EVENT) || !is_live(end, EVENT)) return breach(INVALID_HANDLE, "cuEventElapsedTime");
    if (!((struct object *)start)->recorded || !((struct object *)end)->recorded) return INVALID_HANDLE;
    *milliseconds = 0.5f;
    return CUDA_SUCCESS;
}

/* ---- Modules and launches. ---- */

ENTRY(cuModuleLoadData, (CUmodule * module, const void *image))
{
    BEGIN("cuModuleLoadData");
    TRY(check_context("cuModuleLoadData"));
    TRY(check_quiet("cuModuleLoadData"));
    if (!image || (uintptr_t)image % 8 != 0) return breach(INVALID_VALUE, "cuModuleLoadData");
    *module = (CUmodule)make(MODULE, current());
    return CUDA_SUCCESS;
}

/* Its functions go with a module. */
ENTRY(cuModuleUnload, (CUmodule module))
{
    struct object *o, *next;
    for (o = objects; o; o = next) {
        next = o->next;
        if (o->kind == FUNCTION && o->module == (struct object *)module) drop(o);
    }
    return release("cuModuleUnload", module, MODULE);
}

ENTRY(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))
{
    struct object *o;
    BEGIN("cuModuleGetFunction");
    if (!is_live(module, MODULE)) return breach(INVALID_HANDLE, "cuModuleGetFunction");
    o = make(FUNCTION, ((struct object *)module)->context);
    o->module = (struct object *)module;
    snprintf(last_function, sizeof last_function, "%s", name);
    *function = (CUfunction)o;
    return CUDA_SUCCESS;
}

ENTRY(cuFuncLoad, (CUfunction function))
{
    BEGIN("cuFuncLoad");
    return is_live(function, FUNCTION) ? CUDA_SUCCESS : breach(INVALID_HANDLE, "cuFuncLoad");
}

ENTRY(cuFuncGetAttribute, (int *value, int attribute, CUfunction function))
{
    BEGIN("cuFuncGetAttribute");
    if (!is_live(function, FUNCTION)) return breach(INVALID_HANDLE, "cuFuncGetAttribute");
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}

ENTRY(cuFuncSetAttribute, (CUfunction function, int attribute, int value))
{
    BEGIN("cuFuncSetAttribute");
    (void)attribute, (void)value;
    return is_live(function, FUNCTION) ? CUDA_SUCCESS : breach(INVALID_HANDLE, "cuFuncSetAttribute");
}

/* The backend ends the arguments with NULL; all but the last are pointers, the last is the parameter struct. */
static CUresult check_arguments(void **arguments)
{
    int i;
    for (i = 0; arguments[i] && arguments[i + 1]; i++) {
        CUdeviceptr pointer;
        memcpy(&pointer, arguments[i], sizeof pointer);
        if (pointer && !find_memory(MEMORY, (uintptr_t)pointer))
            return breach(INVALID_VALUE, "cuLaunchKernel: pointer");
    }
    return CUDA_SUCCESS;
}

ENTRY(cuLaunchKernel,
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
       unsigned block_z, unsigned shared, CUstream stream, void **arguments, void **extra))
{
    unsigned long long threads = (unsigned long long)block_x * block_y * block_z;
    BEGIN("cuLaunchKernel");
    TRY(check_stream(stream, "cuLaunchKernel"));
    if (!is_live(function, FUNCTION) || ((struct object *)function)->context != current())
        return breach(INVALID_HANDLE, "cuLaunchKernel: function");
    if (grid_x < 1 || grid_y < 1 || grid_z < 1 || grid_x > 2147483647u || grid_y > 65535 || grid_z > 65535)
        return breach(INVALID_VALUE, "cuLaunchKernel: grid");
    if (threads < 1 || threads > 1024 || shared > 232448) return breach(INVALID_VALUE, "cuLaunchKernel: block");
    if (!arguments || extra) return breach(INVALID_VALUE, "cuLaunchKernel: arguments");
    TRY(check_arguments(arguments));
    launches++;
    return CUDA_SUCCESS;
}
