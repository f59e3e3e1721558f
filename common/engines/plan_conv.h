/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_conv.h: what the convolution engines share on the host: the epilogue of their parameter structs, and
 * questions about geometry. */
#ifndef ADN_PLAN_CONV_H
#define ADN_PLAN_CONV_H
#include "common/backend.h"
#include "conv_epilogue.h"

#define ADN_CONVOLUTIONS                                                                                               \
    (ADN_OP_BIT(ANYDNN_OP_CONV_FORWARD) | ADN_OP_BIT(ANYDNN_OP_CONV_BACKWARD_DATA) |                                   \
     ADN_OP_BIT(ANYDNN_OP_CONV_BACKWARD_FILTER))

/* Coordinates that kernels hold in 32 bits must lie below. */
#define ADN_CONV_LIMIT ((int64_t)1 << 30)
bool adn_conv_fits(const struct adn_conv_geometry *g, struct adn_refusal *why);

int64_t adn_gcd(int64_t a, int64_t b);

/* The filter's strides with a flip folded in; returns the offset of its first tap. */
int64_t adn_conv_filter_strides(const struct adn_conv_geometry *g, int64_t ws[5]);

/* What the problem says of the epilogue; scalars are left to bind. */
void adn_conv_epilogue_of(const struct adn_problem *p, struct adn_conv_epilogue *e);

/* An engine's bind where every step's parameter struct begins with an epilogue. */
void adn_conv_bind(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                   void *params);

/* Adds the memories bias, z, scales and the output to a step, in this order. */
void adn_conv_step_roles(struct adn_step *step, const struct adn_problem *p, int out);

/* True for a convolution that stores alpha * sum + bias + beta * out and nothing else. Fills *why otherwise. */
bool adn_conv_is_plain(const struct adn_problem *p, struct adn_refusal *why);

/* Whether the device computes in this dtype. */
bool adn_conv_has_dtype(const struct adn_device *device, int dtype, struct adn_refusal *why);

/* z is addressed by the strides of the output: refuses others. */
bool adn_conv_z_lies_as(const struct adn_problem *p, int out, struct adn_refusal *why);
#endif
