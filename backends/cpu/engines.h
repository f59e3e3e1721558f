/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/engines.h: the reference engines, one for each family of operations. */
#ifndef ADN_CPU_ENGINES_H
#define ADN_CPU_ENGINES_H
#include "ref.h"

extern const struct adn_engine adn_conv_ref, adn_matmul_ref, adn_pool_ref, adn_activation_ref, adn_softmax_ref,
    adn_cross_entropy_ref, adn_batchnorm_ref, adn_binary_ref, adn_reduce_ref, adn_copy_ref, adn_dropout_ref,
    adn_optimizer_ref;
extern const struct adn_engine *const adn_cpu_engines[]; /* NULL ends */

/* Forward convolution of i8 and u8. */
anydnn_status adn_conv_integer(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments);

/* f(x) for an anydnn_activation_mode. */
double adn_activated(int mode, double coef, double x);

/* y = alpha * sum of x over the axes along which y has one element + beta * y. */
void adn_reduce_sum(anydnn_stream *stream, const struct adn_view *x, const struct adn_view *y, double alpha,
                    double beta);
#endif
