/* SPDX-License-Identifier: Apache-2.0
 * common/engines/list.c: the engines that CUDA and OpenCL share, best first within an operation. A new engine is one
 * declaration and one row here. */
#include "common/backend.h"

extern const struct adn_engine adn_engine_eltwise;
extern const struct adn_engine adn_engine_reduce;
extern const struct adn_engine adn_engine_pool;
extern const struct adn_engine adn_engine_softmax;
extern const struct adn_engine adn_engine_cross_entropy;
extern const struct adn_engine adn_engine_batchnorm;
extern const struct adn_engine adn_engine_conv_1x1;
extern const struct adn_engine adn_engine_conv_depthwise;
extern const struct adn_engine adn_engine_conv_igemm;
extern const struct adn_engine adn_engine_conv_explicit;
extern const struct adn_engine adn_engine_conv_direct;
extern const struct adn_engine adn_engine_conv_bias;
extern const struct adn_engine adn_engine_matmul_vector;
extern const struct adn_engine adn_engine_matmul_tile;

const struct adn_engine *const adn_shared_engines[] = {
    &adn_engine_conv_depthwise,
    &adn_engine_conv_1x1,
    &adn_engine_conv_igemm,
    &adn_engine_conv_explicit,
    &adn_engine_conv_direct,
    &adn_engine_conv_bias,
    &adn_engine_matmul_vector,
    &adn_engine_matmul_tile,
    &adn_engine_eltwise,
    &adn_engine_reduce,
    &adn_engine_pool,
    &adn_engine_softmax,
    &adn_engine_cross_entropy,
    &adn_engine_batchnorm,
    NULL
};
