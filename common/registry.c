/* SPDX-License-Identifier: Apache-2.0
 * common/registry.c: the backends of this build. */
#include "backend.h"

const struct adn_backend *const adn_backends[] = {
    &adn_cpu_backend,
#if defined(ADN_WITH_CUDA)
    &adn_cuda_backend,
#endif
#if defined(ADN_WITH_OPENCL)
    &adn_opencl_backend,
#endif
    NULL
};
