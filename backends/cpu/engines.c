/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/engines.c: the engines of the CPU backend. */
#include "engines.h"

const struct adn_engine *const adn_cpu_engines[] = {
    &adn_conv_ref,
    &adn_matmul_ref,
    &adn_pool_ref,
    &adn_activation_ref,
    &adn_softmax_ref,
    &adn_cross_entropy_ref,
    &adn_batchnorm_ref,
    &adn_binary_ref,
    &adn_reduce_ref,
    &adn_copy_ref,
    &adn_dropout_ref,
    &adn_optimizer_ref,
    NULL,
};
