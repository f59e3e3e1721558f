/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/cublaslt.c: opens cuBLASLt once, translates its errors, keeps one handle for each context. */
#include "cublaslt.h"

#include <string.h>

static struct adn_cublaslt table;
static bool usable;
static adn_once once;

static bool resolve(void *library, const char *symbol, void *member)
{
    void *address = adn_library_symbol(library, symbol);
    memcpy(member, &address, sizeof address);
    return address != NULL;
}

static bool resolve_all(void *library)
{
#define ADN_LT_RESOLVE(member, result, parameters)                                                                     \
    if (!resolve(library, #member, &table.member)) return false;
    ADN_LT_ENTRIES(ADN_LT_RESOLVE)
#undef ADN_LT_RESOLVE
    return true;
}

static void open_once(void)
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", NULL };
    void *library = adn_library_open(names);
    usable = library && resolve_all(library);
    if (!usable) adn_library_close(library);
}

const struct adn_cublaslt *adn_cublaslt(void)
{
    adn_run_once(&once, open_once);
    return usable ? &table : NULL;
}

static anydnn_status status_of(int result, bool preparing)
{
    switch (result) {
    case CUBLAS_STATUS_ALLOC_FAILED:
        return ANYDNN_OUT_OF_MEMORY;
    case CUBLAS_STATUS_NOT_INITIALIZED:
    case CUBLAS_STATUS_INVALID_VALUE:
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return preparing ? ANYDNN_UNSUPPORTED : ANYDNN_DEVICE;
    default:
        return ANYDNN_DEVICE;
    }
}

anydnn_status adn_cublaslt_check(int result, const char *call, bool preparing)
{
    if (result == CUBLAS_STATUS_SUCCESS) return ANYDNN_OK;
    return adn_fail_native(status_of(result, preparing), result, "%s: %s (%d)", call,
                           table.cublasLtGetStatusName(result), result);
}

anydnn_status adn_cublaslt_handle(struct adn_cuda_context *cuda, void **handle)
{
    anydnn_status status = ANYDNN_OK;
    adn_mutex_lock(cuda->lock);
    if (!cuda->cublaslt) status = ADN_LT(cublasLtCreate, &cuda->cublaslt);
    *handle = cuda->cublaslt;
    adn_mutex_unlock(cuda->lock);
    return status;
}

void adn_cuda_cublaslt_close(struct adn_cuda_context *cuda)
{
    if (cuda->cublaslt) table.cublasLtDestroy(cuda->cublaslt);
    cuda->cublaslt = NULL;
}
