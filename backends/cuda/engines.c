/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/engines.c: the engines of CUDA alone, best first within an operation. */
#include "cuda.h"

const struct adn_engine *const adn_cuda_engines[] = {
    &adn_cuda_conv_1x1_cublaslt,
    &adn_cuda_conv_1x1_cublaslt_fast,
    &adn_cuda_engine_conv_mma,
    &adn_cuda_engine_conv_mma_tf32,
    &adn_cuda_matmul_cublaslt,
    &adn_cuda_matmul_cublaslt_fast,
    NULL,
};
