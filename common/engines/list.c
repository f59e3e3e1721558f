/* SPDX-License-Identifier: Apache-2.0
 * common/engines/list.c: the engines that CUDA and OpenCL share, best first within an operation. A new engine is one
 * declaration and one row here. */
#include "common/backend.h"

extern const struct adn_engine adn_engine_eltwise;
extern const struct adn_engine adn_engine_pool;
extern const struct adn_engine adn_engine_softmax;
extern const struct adn_engine adn_engine_conv_igemm;
extern const struct adn_engine adn_engine_conv_direct;

const struct adn_engine *const adn_shared_engines[] = {
    &adn_engine_conv_igemm,
    &adn_engine_conv_direct,
    &adn_engine_eltwise,
    &adn_engine_pool,
    &adn_engine_softmax,
    NULL
};
