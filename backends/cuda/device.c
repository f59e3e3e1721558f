/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/device.c: the list of CUDA devices, and the device behind a caller's context. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>

/* Machine code and PTX of the kernels begin at compute capability 7.5. */
enum { LEAST_CAPABILITY = 75 };

static anydnn_status attribute(CUdevice handle, int which, int *value)
{
    return ADN_CU(cuDeviceGetAttribute, value, which, handle);
}

static anydnn_status capability_of(CUdevice handle, int *capability)
{
    int major, minor;
    ADN_TRY(attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major));
    ADN_TRY(attribute(handle, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor));
    *capability = major * 10 + minor;
    return ANYDNN_OK;
}

/* Everything of the info but its id. */
static anydnn_status describe(CUdevice handle, struct adn_device *device)
{
    anydnn_device_info *info = &device->info;
    size_t bytes;
    int version, shared;
    ADN_TRY(ADN_CU(cuDeviceGetName, info->name, (int)sizeof info->name, handle));
    ADN_TRY(ADN_CU(cuDeviceTotalMem, &bytes, handle));
    ADN_TRY(ADN_CU(cuDriverGetVersion, &version));
    ADN_TRY(capability_of(handle, &info->capability));
    ADN_TRY(attribute(handle, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared));
    ADN_TRY(attribute(handle, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->compute_units));
    ADN_TRY(attribute(handle, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &info->max_block_threads));
    ADN_TRY(attribute(handle, CU_DEVICE_ATTRIBUTE_INTEGRATED, &info->unified_memory));
    if (info->capability < LEAST_CAPABILITY)
        return adn_fail(ANYDNN_UNSUPPORTED, "%s has compute capability %d.%d; accepted: 7.5 or higher", info->name,
                        info->capability / 10, info->capability % 10);
    info->struct_size = sizeof *info;
    info->backend = ANYDNN_BACKEND_CUDA;
    snprintf(info->driver, sizeof info->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    info->memory_bytes = info->max_alloc_bytes = (int64_t)bytes;
    info->local_memory_bytes = shared;
    info->has_f64 = info->f16_arithmetic = 1;
    device->backend = &adn_cuda_backend;
    device->native = (void *)(intptr_t)handle;
    return ANYDNN_OK;
}

static anydnn_status probe_one(int ordinal, struct adn_device *device)
{
    static const struct adn_device empty;
    CUdevice handle;
    *device = empty;
    device->ordinal = ordinal;
    ADN_TRY(ADN_CU(cuDeviceGet, &handle, ordinal));
    return describe(handle, device);
}

int adn_cuda_probe(struct adn_device *devices, int capacity, char *note, size_t note_size)
{
    int count = 0, found = 0, left_out = 0, i;
    char why[256] = "";
    if (adn_cuda_load() != ANYDNN_OK || ADN_CU(cuDeviceGetCount, &count) != ANYDNN_OK) {
        snprintf(note, note_size, "%s", anydnn_message());
        return 0;
    }
    for (i = 0; i < count && found < capacity; i++) {
        if (probe_one(i, &devices[found]) == ANYDNN_OK) {
            found++;
        } else {
            left_out++;
            snprintf(why, sizeof why, "; device %d left out: %.200s", i, anydnn_message());
        }
    }
    snprintf(note, note_size, "%s, %d device%s%s", found ? devices[0].info.driver : "libcuda.so.1", found,
             found == 1 ? "" : "s", left_out ? why : "");
    return found;
}

anydnn_status adn_cuda_adopt(void *native, void *native_device, struct adn_device *device)
{
    struct adn_cuda_scope scope;
    CUdevice handle;
    anydnn_status status;
    (void)native_device; /* the context knows it */
    ADN_TRY(adn_cuda_load());
    ADN_TRY(adn_cuda_enter(&scope, native));
    status = ADN_CU(cuCtxGetDevice, &handle);
    if (status == ANYDNN_OK) {
        device->ordinal = handle; /* the driver numbers its handles like its devices */
        snprintf(device->info.id, sizeof device->info.id, "cuda:%d", device->ordinal);
        status = describe(handle, device);
    }
    adn_cuda_leave(&scope);
    return status;
}
