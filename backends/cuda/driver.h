/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/driver.h: the CUDA driver API, opened at run time: its few types, the table of entry points, and how
 * its failures become statuses. The declarations are our own, so that this code builds without a CUDA toolkit. */
#ifndef ADN_CUDA_DRIVER_H
#define ADN_CUDA_DRIVER_H
#include "common/status.h"
#include <stdbool.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_SUPPORTED = 801
};
enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};
enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_MEMHOSTALLOC_PORTABLE = 1
};

/* Every entry point: member name, exported symbol (the ABI that the parameters are of), parameters. */
#define ADN_CUDA_ENTRIES(X)                                                                                            \
    X(cuInit, "cuInit", (unsigned flags))                                                                              \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *version))                                                        \
    X(cuGetErrorName, "cuGetErrorName", (CUresult result, const char **text))                                          \
    X(cuGetErrorString, "cuGetErrorString", (CUresult result, const char **text))                                      \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                                              \
    X(cuDeviceGet, "cuDeviceGet", (CUdevice * device, int ordinal))                                                    \
    X(cuDeviceGetName, "cuDeviceGetName", (char *name, int size, CUdevice device))                                     \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, CUdevice device))                                      \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, CUdevice device))                      \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext * context, CUdevice device))                    \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                                    \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))                                                       \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                                    \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext * context))                                                    \
    X(cuCtxGetDevice, "cuCtxGetDevice", (CUdevice * device))                                                           \
    X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr * pointer, size_t bytes))                                              \
    X(cuMemFree, "cuMemFree_v2", (CUdeviceptr pointer))                                                                \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **host, size_t bytes, unsigned flags))                                   \
    X(cuMemFreeHost, "cuMemFreeHost", (void *host))                                                                    \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))    \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t bytes, CUstream stream))          \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))    \
    X(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))        \
    X(cuStreamCreate, "cuStreamCreate", (CUstream * stream, unsigned flags))                                           \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                                        \
    X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                                   \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))                        \
    X(cuStreamGetCtx, "cuStreamGetCtx", (CUstream stream, CUcontext * context))                                        \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream stream, int *status))                                      \
    X(cuEventCreate, "cuEventCreate", (CUevent * event, unsigned flags))                                               \
    X(cuEventDestroy, "cuEventDestroy_v2", (CUevent event))                                                            \
    X(cuEventRecord, "cuEventRecord", (CUevent event, CUstream stream))                                                \
    X(cuEventSynchronize, "cuEventSynchronize", (CUevent event))                                                       \
    X(cuEventElapsedTime, "cuEventElapsedTime", (float *milliseconds, CUevent start, CUevent end))                     \
    X(cuModuleLoadData, "cuModuleLoadData", (CUmodule * module, const void *image))                                    \
    X(cuModuleUnload, "cuModuleUnload", (CUmodule module))                                                             \
    X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction * function, CUmodule module, const char *name))          \
    X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *value, int attribute, CUfunction function))                      \
    X(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, int attribute, int value))                       \
    X(cuLaunchKernel, "cuLaunchKernel",                                                                                \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
       unsigned block_z, unsigned shared_bytes, CUstream stream, void **arguments, void **extra))

struct adn_cuda_driver {
#define ADN_CUDA_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    ADN_CUDA_ENTRIES(ADN_CUDA_MEMBER)
#undef ADN_CUDA_MEMBER
    CUresult (*cuFuncLoad)(CUfunction function); /* NULL before CUDA 12.4 */
};

/* The table, valid once adn_cuda_load has succeeded. The driver stays open until the process ends. */
extern struct adn_cuda_driver adn_cuda_driver;

/* Opens and initialises the driver, once; UNSUPPORTED with a message that says why it is not there. */
anydnn_status adn_cuda_load(void);

/* OK for success, else the status of a driver's failure with the message "cuMemAlloc: CUDA_ERROR_... (...)". */
anydnn_status adn_cuda_check(CUresult result, const char *call);

/* "CUDA_ERROR_OUT_OF_MEMORY"; never NULL. */
const char *adn_cuda_error_name(CUresult result);

/* Calls an entry point and translates its result: ADN_TRY(ADN_CU(cuMemAlloc, &pointer, bytes)). */
#define ADN_CU(entry, ...) adn_cuda_check(adn_cuda_driver.entry(__VA_ARGS__), #entry)

#endif
