/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/backend.c: devices, contexts and the vtable of the OpenCL 1.2 backend.
 *
 * Every platform is listed: GPUs first, then by platform name and the platform's own order. One cl_context for each
 * anydnn context, or the caller's. The drivers are never unloaded and nothing runs at exit. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLATFORMS = 16, MAX_PLATFORM_DEVICES = 32, MAX_DEVICES = 64 };

/* ---- Questions to a device. ---- */

cl_int adn_cl_device_text(cl_device_id device, cl_uint what, char *text, size_t capacity)
{
    size_t size = 0;
    char *whole;
    cl_int code = adn_cl.GetDeviceInfo(device, what, 0, NULL, &size);
    text[0] = 0;
    if (code != CL_SUCCESS || !size) return code;
    whole = malloc(size + 1);
    if (!whole) return CL_OUT_OF_HOST_MEMORY;
    code = adn_cl.GetDeviceInfo(device, what, size, whole, NULL);
    whole[size] = 0;
    if (code == CL_SUCCESS) snprintf(text, capacity, "%s", whole);
    free(whole);
    return code;
}

bool adn_cl_has_extension(cl_device_id device, const char *name)
{
    char text[8192], *at = text;
    size_t length = strlen(name);
    adn_cl_device_text(device, CL_DEVICE_EXTENSIONS, text, sizeof text);
    while ((at = strstr(at, name)) != NULL) {
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0)) return true;
        at += length;
    }
    return false;
}

/* Numbers come as 4 or 8 bytes, by question and by address width. 0 and the reason in *failure, where there is one. */
static int64_t device_number(cl_device_id device, cl_uint what, cl_int *failure)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    size_t size = 0;
    const cl_int asked = adn_cl.GetDeviceInfo(device, what, 0, NULL, &size);
    const bool is_narrow = size == sizeof narrow, known = is_narrow || size == sizeof wide;
    const cl_int code = asked != CL_SUCCESS ? asked
                        : !known            ? CL_INVALID_VALUE
                                 : adn_cl.GetDeviceInfo(device, what, size, is_narrow ? (void *)&narrow : &wide, NULL);
    if (code != CL_SUCCESS) {
        if (failure) *failure = code;
        return 0;
    }
    if (is_narrow) return narrow;
    return wide > INT64_MAX ? INT64_MAX : (int64_t)wide;
}

static bool platform_text(cl_platform_id platform, cl_uint what, char *text, size_t capacity)
{
    size_t size = 0;
    const cl_int code = adn_cl.GetPlatformInfo(platform, what, capacity - 1, text, &size);
    text[code != CL_SUCCESS ? 0 : size < capacity ? size : capacity - 1] = 0;
    return code == CL_SUCCESS;
}

/* A device that does not answer what engines go by is of no use: then the code says why. */
static cl_int fill_device(cl_platform_id platform, cl_device_id native, struct adn_device *device)
{
    anydnn_device_info *info = &device->info;
    cl_int code = CL_SUCCESS, named;
    const int64_t type = device_number(native, CL_DEVICE_TYPE, &code);
    char platform_name[64], driver[56];
    memset(device, 0, sizeof *device);
    device->backend = &adn_opencl_backend;
    device->native = native;
    device->native2 = platform;
    platform_text(platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
    adn_cl_device_text(native, CL_DRIVER_VERSION, driver, sizeof driver);
    info->struct_size = sizeof *info;
    info->backend = ANYDNN_BACKEND_OPENCL;
    named = adn_cl_device_text(native, CL_DEVICE_NAME, info->name, sizeof info->name);
    snprintf(info->driver, sizeof info->driver, "%s %s", platform_name, driver);
    info->memory_bytes = device_number(native, CL_DEVICE_GLOBAL_MEM_SIZE, &code);
    info->max_alloc_bytes = device_number(native, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &code);
    info->local_memory_bytes = device_number(native, CL_DEVICE_LOCAL_MEM_SIZE, &code);
    info->compute_units = (int32_t)device_number(native, CL_DEVICE_MAX_COMPUTE_UNITS, &code);
    info->max_block_threads = (int32_t)device_number(native, CL_DEVICE_MAX_WORK_GROUP_SIZE, &code);
    /* A simulator that claims both is there to run what a GPU runs. */
    info->is_cpu = (type & (int64_t)CL_DEVICE_TYPE_CPU) && !(type & (int64_t)CL_DEVICE_TYPE_GPU);
    info->unified_memory = device_number(native, CL_DEVICE_HOST_UNIFIED_MEMORY, NULL) != 0;
    info->has_f64 = device_number(native, CL_DEVICE_DOUBLE_FP_CONFIG, NULL) != 0;
    if (adn_cl_has_extension(native, "cl_nv_device_attribute_query"))
        info->capability = (int32_t)(10 * device_number(native, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV, NULL) +
                                     device_number(native, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV, NULL));
    return named != CL_SUCCESS ? named : code;
}

/* ---- List of devices. ---- */

struct found {
    struct adn_device device;
    char platform_name[64];
    bool gpu;
    int index;
};

static int by_order(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    int names;
    if (x->gpu != y->gpu) return x->gpu ? -1 : 1;
    names = strcmp(x->platform_name, y->platform_name);
    return names ? names : x->index - y->index;
}

/* True for a device that can be used; *failure says what a broken one answered. */
static bool inspect(cl_platform_id platform, cl_device_id native, struct found *found, cl_int *failure)
{
    cl_int code = CL_SUCCESS;
    if (device_number(native, CL_DEVICE_AVAILABLE, &code) &&
        device_number(native, CL_DEVICE_COMPILER_AVAILABLE, &code)) {
        code = fill_device(platform, native, &found->device);
        found->gpu = (device_number(native, CL_DEVICE_TYPE, &code) & (int64_t)CL_DEVICE_TYPE_GPU) != 0;
        platform_text(platform, CL_PLATFORM_NAME, found->platform_name, sizeof found->platform_name);
        if (code == CL_SUCCESS) return true;
    }
    if (code != CL_SUCCESS) *failure = code;
    return false;
}

static cl_int find_in_platform(cl_platform_id platform, struct found *list, int *count)
{
    cl_device_id devices[MAX_PLATFORM_DEVICES];
    cl_uint i, there = 0;
    cl_int failure = CL_SUCCESS, code;
    code = adn_cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_PLATFORM_DEVICES, devices, &there);
    if (code != CL_SUCCESS) return code == CL_DEVICE_NOT_FOUND ? CL_SUCCESS : code;
    for (i = 0; i < there && i < MAX_PLATFORM_DEVICES && *count < MAX_DEVICES; i++) {
        if (!inspect(platform, devices[i], &list[*count], &failure)) continue;
        list[*count].index = *count;
        ++*count;
    }
    return failure;
}

/* All usable devices in their order; *note says what was seen. */
static int find_all(struct found *list, char *note, size_t note_size)
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint i, there = 0;
    int count = 0;
    const char *why;
    char name[64], failed[96] = "";
    cl_int code;
    if (!adn_cl_load(&why)) {
        snprintf(note, note_size, "%s", why);
        return 0;
    }
    code = adn_cl.GetPlatformIDs(MAX_PLATFORMS, platforms, &there);
    if (code != CL_SUCCESS || !there) {
        snprintf(note, note_size, "no OpenCL platform (%s)", adn_cl_code_name(code));
        return 0;
    }
    if (there > MAX_PLATFORMS) there = MAX_PLATFORMS;
    for (i = 0; i < there; i++) {
        code = find_in_platform(platforms[i], list, &count);
        if (code == CL_SUCCESS) continue;
        platform_text(platforms[i], CL_PLATFORM_NAME, name, sizeof name);
        snprintf(failed, sizeof failed, "; skipped %.40s: %s", name, adn_cl_code_name(code));
    }
    qsort(list, (size_t)count, sizeof *list, by_order);
    snprintf(note, note_size, "%d device%s on %u platform%s%s", count, count == 1 ? "" : "s", (unsigned)there,
             there == 1 ? "" : "s", failed);
    return count;
}

static int probe(struct adn_device *devices, int capacity, char *note, size_t note_size)
{
    struct found list[MAX_DEVICES];
    int i, count = find_all(list, note, note_size);
    adn_cache_configure();
    if (count > capacity) count = capacity;
    for (i = 0; i < count; i++) {
        devices[i] = list[i].device;
        devices[i].ordinal = i;
    }
    return count;
}

/* ---- Contexts. ---- */

static anydnn_status adopt(void *native, void *native_device, struct adn_device *device)
{
    struct found list[MAX_DEVICES];
    cl_device_id members[MAX_DEVICES];
    cl_platform_id platform = NULL;
    char note[160];
    size_t i, size = 0;
    int at, count = find_all(list, note, sizeof note);
    if (!adn_cl_load(NULL)) return adn_fail(ANYDNN_UNSUPPORTED, "OpenCL: %s", note);
    ADN_CL_TRY(ADN_CL_WRAP, adn_cl.GetContextInfo(native, CL_CONTEXT_DEVICES, sizeof members, members, &size));
    for (i = 0; i < size / sizeof members[0] && members[i] != native_device; i++) {
    }
    if (i == size / sizeof members[0])
        return adn_fail(ANYDNN_INVALID, "cl_device_id is not of the cl_context; accepted: one of its %d devices",
                        (int)(size / sizeof members[0]));
    ADN_CL_TRY(ADN_CL_WRAP,
               adn_cl.GetDeviceInfo(native_device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL));
    ADN_TRY(adn_cl_check(fill_device(platform, native_device, device), ADN_CL_WRAP, "clGetDeviceInfo", NULL));
    for (at = 0; at < count && list[at].device.native != native_device; at++) {
    }
    device->ordinal = at < count ? at : -1; /* a sub-device, say, is not in the list */
    snprintf(device->info.id, sizeof device->info.id, "opencl:%d", device->ordinal);
    return ANYDNN_OK;
}

/* Everything but source and options that a compiled program depends on. False: not all of it was answered. */
static bool identify(const struct adn_device *device, struct adn_cache_key *key)
{
    static const cl_uint questions[] = { CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
                                         CL_DEVICE_EXTENSIONS };
    int32_t numbers[3] = { ANYDNN_VERSION, ADN_CACHE_FORMAT, 0 };
    char text[8192];
    cl_int code = CL_SUCCESS;
    size_t i;
    adn_cache_key_init(key);
    numbers[2] = (int32_t)device_number(device->native, CL_DEVICE_ADDRESS_BITS, &code);
    adn_cache_key_add(key, numbers, sizeof numbers);
    for (i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (code == CL_SUCCESS) code = adn_cl_device_text(device->native, questions[i], text, sizeof text);
        adn_cache_key_add(key, text, strlen(text));
    }
    if (!platform_text(device->native2, CL_PLATFORM_NAME, text, sizeof text)) return false;
    adn_cache_key_add(key, text, strlen(text));
    if (!platform_text(device->native2, CL_PLATFORM_VERSION, text, sizeof text)) return false;
    adn_cache_key_add(key, text, strlen(text));
    return code == CL_SUCCESS;
}

static void release(struct adn_cl_context *own)
{
    adn_cl_kernels_release(own);
    adn_cl_programs_release(own);
    if (own->warm_queue) adn_cl.ReleaseCommandQueue(own->warm_queue);
    if (own->warm_memory) adn_cl.ReleaseMemObject(own->warm_memory);
    if (own->context) adn_cl.ReleaseContext(own->context);
    adn_condition_destroy(own->built);
    adn_mutex_destroy(own->lock);
    free(own);
}

static anydnn_status take_context(struct adn_cl_context *own, const struct adn_device *device, cl_context native)
{
    intptr_t properties[3] = { CL_CONTEXT_PLATFORM, 0, 0 };
    cl_context made;
    cl_int code;
    if (native) {
        ADN_CL_TRY(ADN_CL_WRAP, adn_cl.RetainContext(native));
        own->context = native;
        return ANYDNN_OK;
    }
    properties[1] = (intptr_t)device->native2;
    made = adn_cl.CreateContext(properties, 1, &own->device, NULL, NULL, &code);
    ADN_TRY(adn_cl_check(code, ADN_CL_ALLOC, "clCreateContext", NULL));
    own->context = made;
    return ANYDNN_OK;
}

static anydnn_status prepare_warm(struct adn_cl_context *own)
{
    cl_int code;
    own->warm_queue = adn_cl.CreateCommandQueue(own->context, own->device, 0, &code);
    ADN_TRY(adn_cl_check(code, ADN_CL_ALLOC, "clCreateCommandQueue", NULL));
    own->warm_memory = adn_cl.CreateBuffer(own->context, CL_MEM_READ_WRITE, ADN_CL_WARM_BYTES, NULL, &code);
    return adn_cl_check(code, ADN_CL_ALLOC, "clCreateBuffer", NULL);
}

static anydnn_status open_context(anydnn_context *context, void *native)
{
    struct adn_cl_context *own = calloc(1, sizeof *own);
    anydnn_status status = ANYDNN_OUT_OF_MEMORY;
    if (!own) return adn_fail(status, "no host memory for a context");
    own->device = context->device.native;
    own->lock = adn_mutex_create();
    own->built = adn_condition_create();
    if (!own->lock || !own->built)
        adn_fail(status, "no host memory for a context");
    else
        status = take_context(own, &context->device, native);
    if (status == ANYDNN_OK && context->device.info.is_cpu) status = prepare_warm(own);
    if (status != ANYDNN_OK) {
        release(own);
        return status;
    }
    own->identified = identify(&context->device, &own->identity);
    context->native = own;
    return ANYDNN_OK;
}

static void close_context(anydnn_context *context)
{
    release(context->native);
    context->native = NULL;
}

static void *native_handle(const void *object, int which)
{
    if (which == 2) return ((const anydnn_stream *)object)->native;
    return which == 0 ? (void *)adn_cl_native(object)->context : (void *)adn_cl_native(object)->device;
}

const struct adn_backend adn_opencl_backend = {
    .abi = ADN_BACKEND_ABI,
    .id = ANYDNN_BACKEND_OPENCL,
    .name = "opencl",
    .mem_kind = ANYDNN_MEM_OPENCL,
    .probe = probe,
    .open = open_context,
    .close = close_context,
    .adopt = adopt,
    .alloc = adn_cl_alloc,
    .free = adn_cl_free,
    .alloc_host = adn_cl_alloc_host,
    .free_host = adn_cl_free_host,
    .check_memory = adn_cl_check_memory,
    .stream_create = adn_cl_stream_create,
    .stream_destroy = adn_cl_stream_destroy,
    .stream_sync = adn_cl_stream_sync,
    .copy_in = adn_cl_copy_in,
    .copy_out = adn_cl_copy_out,
    .copy = adn_cl_copy,
    .set = adn_cl_set,
    .event_create = adn_cl_event_create,
    .event_destroy = adn_cl_event_destroy,
    .event_record = adn_cl_event_record,
    .event_sync = adn_cl_event_sync,
    .stream_wait = adn_cl_stream_wait,
    .event_elapsed = adn_cl_event_elapsed,
    .kernel_load = adn_cl_kernel_load,
    .kernel_warm = adn_cl_kernel_warm,
    .kernel_launch = adn_cl_kernel_launch,
    .native_handle = native_handle,
    .engines = adn_cl_engines,
};
