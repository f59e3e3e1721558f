/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/driver.c: opens libcuda and resolves its entry points once; translates its errors. */
#include "driver.h"
#include "common/os.h"

#include <stdio.h>
#include <string.h>

struct adn_cuda_driver adn_cuda_driver;

static adn_once once;
static CUresult init_result;
static char absence[160]; /* why the driver cannot be used, "" when it can */

/* POSIX promises that an object pointer holds a function; copying the bytes says so without a cast that C forbids. */
static bool resolve(void *library, const char *symbol, void *member)
{
    void *address = adn_library_symbol(library, symbol);
    memcpy(member, &address, sizeof address);
    return address != NULL;
}

static const char *resolve_all(void *library)
{
#define ADN_CUDA_RESOLVE(member, symbol, parameters)                                                                   \
    if (!resolve(library, symbol, &adn_cuda_driver.member)) return symbol;
    ADN_CUDA_ENTRIES(ADN_CUDA_RESOLVE)
#undef ADN_CUDA_RESOLVE
    resolve(library, "cuFuncLoad", &adn_cuda_driver.cuFuncLoad);
    return NULL;
}

static void load_once(void)
{
    static const char *const names[] = { "libcuda.so.1", "libcuda.so", NULL };
    void *library = adn_library_open(names);
    const char *missing;
    if (!library) {
        snprintf(absence, sizeof absence, "libcuda.so.1 not found");
        return;
    }
    missing = resolve_all(library);
    if (missing) {
        snprintf(absence, sizeof absence, "libcuda.so.1 is too old: it has no %s", missing);
        adn_library_close(library);
        return;
    }
    init_result = adn_cuda_driver.cuInit(0);
    if (init_result != CUDA_SUCCESS)
        snprintf(absence, sizeof absence, "cuInit failed: %s", adn_cuda_error_name(init_result));
}

anydnn_status adn_cuda_load(void)
{
    adn_run_once(&once, load_once);
    if (!absence[0]) return ANYDNN_OK;
    return adn_fail_native(ANYDNN_UNSUPPORTED, init_result, "%s", absence);
}

const char *adn_cuda_error_name(CUresult result)
{
    const char *name = NULL;
    if (adn_cuda_driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "unknown CUDA error";
    return name;
}

static anydnn_status status_of(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return ANYDNN_OUT_OF_MEMORY;
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
    case CUDA_ERROR_NOT_SUPPORTED:
        return ANYDNN_UNSUPPORTED;
    default:
        return ANYDNN_DEVICE;
    }
}

anydnn_status adn_cuda_check(CUresult result, const char *call)
{
    const char *text = NULL;
    if (result == CUDA_SUCCESS) return ANYDNN_OK;
    if (adn_cuda_driver.cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "no description";
    return adn_fail_native(status_of(result), result, "%s: %s (%d, %s)", call, adn_cuda_error_name(result), result,
                           text);
}
