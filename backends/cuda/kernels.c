/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/kernels.c: kernels: the module of a stem is loaded when one of its variants is first wanted, each
 * variant is looked up once, and both live until the context closes. A launch touches no lock and no memory. */
#include "cuda.h"
#include "common/embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct adn_kernel {
    const struct adn_variant *variant; /* the key: variants are static rows */
    CUfunction function;
    struct adn_kernel *next; /* of the same bucket */
};

static struct adn_kernel **bucket_of(struct adn_cuda_context *cuda, const struct adn_variant *variant)
{
    return &cuda->kernels[((uintptr_t)variant / sizeof *variant) % ADN_CUDA_BUCKETS];
}

static int stem_count(void)
{
    int count = 0;
    while (adn_cuda_stems[count].stem) count++;
    return count;
}

anydnn_status adn_cuda_kernels_open(struct adn_cuda_context *cuda)
{
    cuda->lock = adn_mutex_create();
    cuda->modules = calloc((size_t)stem_count() + 1, sizeof(CUmodule));
    if (!cuda->lock || !cuda->modules) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a CUDA context");
    return ANYDNN_OK;
}

/* Also takes back what a failed open has made. */
void adn_cuda_kernels_close(struct adn_cuda_context *cuda)
{
    int i;
    for (i = 0; i < ADN_CUDA_BUCKETS; i++) {
        while (cuda->kernels[i]) {
            struct adn_kernel *first = cuda->kernels[i];
            cuda->kernels[i] = first->next;
            free(first);
        }
    }
    for (i = 0; cuda->modules && adn_cuda_stems[i].stem; i++)
        if (cuda->modules[i]) adn_cuda_driver.cuModuleUnload(cuda->modules[i]);
    free(cuda->modules);
    if (cuda->lock) adn_mutex_destroy(cuda->lock);
}

static anydnn_status module_of(struct adn_cuda_context *cuda, const char *stem, CUmodule *module)
{
    int i;
    for (i = 0; adn_cuda_stems[i].stem; i++) {
        if (strcmp(adn_cuda_stems[i].stem, stem) != 0) continue;
        if (!cuda->modules[i]) ADN_TRY(ADN_CU(cuModuleLoadData, &cuda->modules[i], adn_cuda_stems[i].bytes));
        *module = cuda->modules[i];
        return ANYDNN_OK;
    }
    return adn_fail(ANYDNN_UNSUPPORTED, "this build has no CUDA kernels of '%s'", stem);
}

static void entry_name(const struct adn_variant *v, char *name, size_t size)
{
    const int32_t *c = v->constant;
    snprintf(name, size, "adn_%s_%s_%d_%d_%d_%d_%d_%d_%d", v->kernel, v->dtype_name, (int)v->block, (int)c[0],
             (int)c[1], (int)c[2], (int)c[3], (int)c[4], (int)c[5]);
}

/* Brings the function onto the device now, so that no launch has to load it: with lazy loading the driver would
 * otherwise allocate, and wait, in the middle of a stream or of its capture. */
static anydnn_status make_ready(CUfunction function, const struct adn_variant *variant, const char *name)
{
    int most = 0;
    if (variant->dynamic_shared > 0)
        ADN_TRY(ADN_CU(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                       variant->dynamic_shared));
    if (adn_cuda_driver.cuFuncLoad) ADN_TRY(ADN_CU(cuFuncLoad, function));
    ADN_TRY(ADN_CU(cuFuncGetAttribute, &most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    if (most >= variant->block) return ANYDNN_OK;
    return adn_fail(ANYDNN_UNSUPPORTED, "%s runs in blocks of %d threads at most on this device; it wants %d", name,
                    most, (int)variant->block);
}

static anydnn_status find_function(struct adn_cuda_context *cuda, const struct adn_variant *variant,
                                   CUfunction *function)
{
    char name[192];
    CUmodule module = NULL;
    CUresult result;
    entry_name(variant, name, sizeof name);
    ADN_TRY(module_of(cuda, variant->stem, &module));
    result = adn_cuda_driver.cuModuleGetFunction(function, module, name);
    /* Kernels of one architecture are absent from the code for others: another engine may serve. */
    if (result == CUDA_ERROR_NOT_FOUND)
        return adn_fail_native(ANYDNN_UNSUPPORTED, result,
                               "cuModuleGetFunction: the code of '%s' for this device has no %s", variant->stem, name);
    ADN_TRY(adn_cuda_check(result, "cuModuleGetFunction"));
    return make_ready(*function, variant, name);
}

/* With the lock held and the context current. */
static anydnn_status load(struct adn_cuda_context *cuda, const struct adn_variant *variant, struct adn_kernel **kernel)
{
    struct adn_kernel **bucket = bucket_of(cuda, variant), *made;
    anydnn_status status;
    for (made = *bucket; made; made = made->next) {
        if (made->variant != variant) continue;
        *kernel = made;
        return ANYDNN_OK;
    }
    made = calloc(1, sizeof *made);
    if (!made) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a kernel");
    status = find_function(cuda, variant, &made->function);
    if (status != ANYDNN_OK) {
        free(made);
        return status;
    }
    made->variant = variant;
    made->next = *bucket;
    *kernel = *bucket = made;
    return ANYDNN_OK;
}

anydnn_status adn_cuda_kernel_load(anydnn_context *context, const struct adn_variant *variant,
                                   struct adn_kernel **kernel)
{
    struct adn_cuda_context *cuda = adn_cuda_of(context);
    struct adn_cuda_scope scope;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, cuda->handle));
    adn_mutex_lock(cuda->lock);
    status = load(cuda, variant, kernel);
    adn_mutex_unlock(cuda->lock);
    adn_cuda_leave(&scope);
    return status;
}

/* Only enqueues, so that it may run while the stream is captured. The arguments end with NULL, which the driver does
 * not need but a checker of launches can count on. */
anydnn_status adn_cuda_kernel_launch(anydnn_stream *stream, struct adn_kernel *kernel, const struct adn_launch *launch)
{
    CUdeviceptr pointers[ADN_MAX_MEMORIES];
    void *arguments[ADN_MAX_MEMORIES + 2];
    struct adn_cuda_scope scope;
    anydnn_status status;
    int count;
    for (count = 0; count < launch->memories; count++) {
        pointers[count] = launch->memory[count].base ? adn_cuda_pointer(launch->memory[count]) : 0;
        arguments[count] = &pointers[count];
    }
    if (launch->params_size > 0) memcpy(&arguments[count++], &launch->params, sizeof(void *));
    arguments[count] = NULL;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(stream->context)->handle));
    status = ADN_CU(cuLaunchKernel, kernel->function, launch->grid[0], launch->grid[1], launch->grid[2],
                    (unsigned)kernel->variant->block, 1, 1, (unsigned)kernel->variant->dynamic_shared,
                    adn_cuda_stream_of(stream), arguments, NULL);
    adn_cuda_leave(&scope);
    return status;
}
