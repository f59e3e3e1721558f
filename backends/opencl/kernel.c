/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/kernel.c: variants as cl_kernel objects, and their launch. Arguments live in the cl_kernel, which
 * two threads must not share: each variant keeps a list of idle objects, takes one for a launch and makes another when
 * there is none. */
#include "internal.h"

#include <stdlib.h>

struct object {
    cl_kernel native;
    struct object *next;
};

struct adn_kernel {
    const struct adn_variant *variant;
    struct adn_cl_task task, wide; /* loading, and the first launch of many work items */
    cl_program program;
    adn_mutex *lock;
    struct object *idle; /* under lock */
    struct adn_kernel *next;
};

/* ---- Objects. ---- */

static anydnn_status take(struct adn_kernel *kernel, struct object **object)
{
    struct object *one;
    char name[ADN_CL_ENTRY_LENGTH];
    cl_int code;
    adn_mutex_lock(kernel->lock);
    one = kernel->idle;
    if (one) kernel->idle = one->next;
    adn_mutex_unlock(kernel->lock);
    *object = one;
    if (one) return ANYDNN_OK;
    one = malloc(sizeof *one);
    if (!one) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a kernel");
    one->native = adn_cl.CreateKernel(kernel->program, adn_cl_entry_name(kernel->variant, name), &code);
    if (code != CL_SUCCESS) {
        free(one);
        return adn_cl_check(code, ADN_CL_ALLOC, "clCreateKernel", kernel->variant);
    }
    *object = one;
    return ANYDNN_OK;
}

static void give(struct adn_kernel *kernel, struct object *object)
{
    adn_mutex_lock(kernel->lock);
    object->next = kernel->idle;
    kernel->idle = object;
    adn_mutex_unlock(kernel->lock);
}

static void give_new(struct adn_kernel *kernel, struct object *object, anydnn_status status)
{
    if (status == ANYDNN_OK) {
        give(kernel, object);
    } else {
        adn_cl.ReleaseKernel(object->native);
        free(object);
    }
}

/* ---- Arguments. ---- */

static cl_int set_memory(cl_kernel kernel, int index, struct adn_place place)
{
    cl_mem memory = place.base;
    int64_t offset = (int64_t)place.offset;
    cl_int code = adn_cl.SetKernelArg(kernel, (cl_uint)(2 * index), sizeof memory, memory ? &memory : NULL);
    return code == CL_SUCCESS ? adn_cl.SetKernelArg(kernel, (cl_uint)(2 * index + 1), sizeof offset, &offset) : code;
}

static cl_int set_arguments(cl_kernel kernel, const struct adn_launch *launch)
{
    int i;
    for (i = 0; i < launch->memories; i++) {
        cl_int code = set_memory(kernel, i, launch->memory[i]);
        if (code != CL_SUCCESS) return code;
    }
    if (!launch->params_size) return CL_SUCCESS;
    return adn_cl.SetKernelArg(kernel, (cl_uint)(2 * launch->memories), launch->params_size, launch->params);
}

/* ---- First launch. ----
 * Some CPU drivers make machine code at the first launch only, which takes up to half a second: it belongs into the
 * plan. A kernel whose parameters are all zero has nothing to do, by convention of all kernels here. Its memory
 * arguments point into scratch memory all the same, so that a kernel that reads or writes an element too early does
 * no harm. */

/* The size of the parameter struct is known to the compiler alone; drivers that check it accept that size only. */
static cl_int set_zero_params(cl_kernel kernel, cl_uint index)
{
    static const unsigned char zero[ADN_MAX_PARAMS] = { 0 };
    size_t size = sizeof zero;
    cl_int code = CL_INVALID_ARG_SIZE;
    for (; size >= 8 && code == CL_INVALID_ARG_SIZE; size -= 8) code = adn_cl.SetKernelArg(kernel, index, size, zero);
    return code;
}

static cl_int warm(const struct adn_cl_context *own, cl_kernel kernel, size_t block, size_t blocks)
{
    struct adn_place middle = { own->warm_memory, ADN_CL_WARM_BYTES / 2 };
    const size_t items = block * blocks;
    cl_uint i, arguments = 0;
    cl_event done;
    cl_int code = adn_cl.GetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof arguments, &arguments, NULL);
    if (code != CL_SUCCESS) return code;
    if (arguments % 2 == 0) return CL_SUCCESS; /* memories are pairs; the parameters are one more */
    for (i = 0; i < arguments / 2 && code == CL_SUCCESS; i++) code = set_memory(kernel, (int)i, middle);
    if (code == CL_SUCCESS) code = set_zero_params(kernel, arguments - 1);
    if (code == CL_SUCCESS)
        code = adn_cl.EnqueueNDRangeKernel(own->warm_queue, kernel, 1, NULL, &items, &block, 0, NULL, &done);
    if (code != CL_SUCCESS) return code;
    code = adn_cl.WaitForEvents(1, &done);
    adn_cl.ReleaseEvent(done);
    return code;
}

/* ---- Loading. ---- */

/* *threads: what the driver says is the largest block. */
static anydnn_status check_limits(const anydnn_context *context, cl_kernel kernel, const struct adn_variant *variant,
                                  size_t *threads)
{
    cl_device_id device = adn_cl_native(context)->device;
    cl_ulong local = 0;
    ADN_TRY(adn_cl_check(
        adn_cl.GetKernelWorkGroupInfo(kernel, device, CL_KERNEL_WORK_GROUP_SIZE, sizeof *threads, threads, NULL),
        ADN_CL_ALLOC, "clGetKernelWorkGroupInfo", variant));
    ADN_TRY(adn_cl_check(
        adn_cl.GetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, NULL),
        ADN_CL_ALLOC, "clGetKernelWorkGroupInfo", variant));
    if (local > (cl_ulong)context->device.info.local_memory_bytes)
        return adn_fail(ANYDNN_UNSUPPORTED, "kernel %s of %s wants %llu bytes of local memory; %s has %lld",
                        variant->kernel, variant->stem, (unsigned long long)local, context->device.info.id,
                        (long long)context->device.info.local_memory_bytes);
    return ANYDNN_OK;
}

/* rusticl of Mesa 22 gives the size of a subgroup for the largest block of every kernel, and takes no size at all for
 * some structs. So where there is a first launch, it decides; a failure that has nothing to do with the kernel is left
 * to later launches. */
static anydnn_status try_out(const anydnn_context *context, cl_kernel kernel, const struct adn_variant *variant,
                             size_t threads)
{
    const struct adn_cl_context *own = adn_cl_native(context);
    const bool large = (size_t)variant->block > threads;
    const cl_int code = own->warm_queue ? warm(own, kernel, (size_t)variant->block, 1) : CL_SUCCESS;
    if (large && (!own->warm_queue || code != CL_SUCCESS))
        return adn_fail(ANYDNN_UNSUPPORTED, "kernel %s of %s wants blocks of %d threads; %s runs it with at most %llu",
                        variant->kernel, variant->stem, (int)variant->block, context->device.info.id,
                        (unsigned long long)threads);
    if (code == CL_INVALID_ARG_SIZE)
        return adn_fail(ANYDNN_UNSUPPORTED, "kernel %s of %s: %s accepts no size of its parameters", variant->kernel,
                        variant->stem, context->device.info.id);
    return ANYDNN_OK;
}

static anydnn_status first_object(anydnn_context *context, struct adn_kernel *kernel)
{
    struct object *object;
    anydnn_status status;
    size_t threads = 0;
    ADN_TRY(adn_cl_program_get(context, kernel->variant, &kernel->program));
    ADN_TRY(take(kernel, &object));
    status = check_limits(context, object->native, kernel->variant, &threads);
    if (status == ANYDNN_OK) status = try_out(context, object->native, kernel->variant, threads);
    give_new(kernel, object, status);
    return status;
}

static struct adn_kernel *find(struct adn_cl_context *own, const struct adn_variant *variant)
{
    struct adn_kernel *kernel;
    adn_mutex_lock(own->lock);
    for (kernel = own->kernels; kernel && kernel->variant != variant;) kernel = kernel->next;
    if (!kernel && (kernel = calloc(1, sizeof *kernel)) != NULL) {
        kernel->variant = variant;
        kernel->lock = adn_mutex_create();
        kernel->next = own->kernels;
        if (kernel->lock) {
            own->kernels = kernel;
        } else {
            free(kernel);
            kernel = NULL;
        }
    }
    adn_mutex_unlock(own->lock);
    return kernel;
}

anydnn_status adn_cl_kernel_load(anydnn_context *context, const struct adn_variant *variant, struct adn_kernel **kernel)
{
    struct adn_cl_context *own = adn_cl_native(context);
    struct adn_kernel *found = find(own, variant);
    anydnn_status status;
    if (!found) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a kernel");
    if (adn_cl_task_begin(own, &found->task, &status)) {
        status = first_object(context, found);
        adn_cl_task_finish(own, &found->task, status);
    }
    if (status == ANYDNN_OK) *kernel = found;
    return status;
}

/* PoCL compiles a kernel once more for launches of this many work items. A failure is left to the launches. */
enum { MANY = 65535 };

static anydnn_status first_wide_launch(const struct adn_cl_context *own, struct adn_kernel *kernel)
{
    const size_t block = (size_t)kernel->variant->block;
    struct object *object;
    ADN_TRY(take(kernel, &object));
    warm(own, object->native, block, MANY / block + 1);
    give(kernel, object);
    return ANYDNN_OK;
}

anydnn_status adn_cl_kernel_warm(anydnn_context *context, struct adn_kernel *kernel, const uint32_t grid[3])
{
    struct adn_cl_context *own = adn_cl_native(context);
    const uint64_t items = (uint64_t)grid[0] * (uint64_t)kernel->variant->block;
    anydnn_status status;
    if (!own->warm_queue || (items < MANY && grid[1] < MANY && grid[2] < MANY)) return ANYDNN_OK;
    if (adn_cl_task_begin(own, &kernel->wide, &status)) {
        status = first_wide_launch(own, kernel);
        adn_cl_task_finish(own, &kernel->wide, status);
    }
    return status;
}

void adn_cl_kernels_release(struct adn_cl_context *own)
{
    while (own->kernels) {
        struct adn_kernel *kernel = own->kernels;
        own->kernels = kernel->next;
        while (kernel->idle) {
            struct object *object = kernel->idle;
            kernel->idle = object->next;
            adn_cl.ReleaseKernel(object->native);
            free(object);
        }
        adn_mutex_destroy(kernel->lock);
        free(kernel->task.message);
        free(kernel->wide.message);
        free(kernel);
    }
}

/* ---- Launch. ---- */

anydnn_status adn_cl_kernel_launch(anydnn_stream *stream, struct adn_kernel *kernel, const struct adn_launch *launch)
{
    size_t block[3] = { (size_t)kernel->variant->block, 1, 1 };
    size_t global[3] = { launch->grid[0] * block[0], launch->grid[1], launch->grid[2] };
    cl_uint dims = launch->grid[1] == 1 && launch->grid[2] == 1 ? 1 : 3;
    struct object *object;
    anydnn_status status;
    ADN_TRY(take(kernel, &object));
    status = adn_cl_check(set_arguments(object->native, launch), ADN_CL_ENQUEUE, "clSetKernelArg", kernel->variant);
    if (status == ANYDNN_OK)
        status = adn_cl_check(
            adn_cl.EnqueueNDRangeKernel(adn_cl_queue(stream), object->native, dims, NULL, global, block, 0, NULL, NULL),
            ADN_CL_ENQUEUE, "clEnqueueNDRangeKernel", kernel->variant);
    give(kernel, object);
    return status;
}
