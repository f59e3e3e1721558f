/* SPDX-License-Identifier: Apache-2.0
 * common/ops/rules.h: what the operations' tables share: role rows, key rows, checks. */
#ifndef ADN_OPS_RULES_H
#define ADN_OPS_RULES_H
#include "common/problem.h"

#include <stddef.h>
#include <string.h>

/* Role rows. */
#define ADN_ROLE(role, flags) { ANYDNN_##role, flags, 0.0, { 0, 0 } }
#define ADN_ROLE_INPLACE(role, flags, on0, on1) { ANYDNN_##role, flags, 0.0, { on0, on1 } }
#define ADN_SCALAR(role, value) { ANYDNN_##role, ANYDNN_ROLE_IN | ANYDNN_ROLE_SCALAR | ANYDNN_ROLE_OPTIONAL, value, { 0, 0 } }
#define ADN_SCALAR_DEVICE(role, value)                                                                                 \
    { ANYDNN_##role, ANYDNN_ROLE_IN | ANYDNN_ROLE_SCALAR | ANYDNN_ROLE_OPTIONAL | ANYDNN_ROLE_DEVICE, value, { 0, 0 } }
#define ADN_IN ANYDNN_ROLE_IN
#define ADN_OUT ANYDNN_ROLE_OUT
#define ADN_OPT ANYDNN_ROLE_OPTIONAL
#define ADN_SCALED ANYDNN_ROLE_SCALED
#define ADN_ROLES_END { 0, 0, 0.0, { 0, 0 } }
#define ADN_KEYS_END { NULL, ADN_KEY_I32, 0, NULL }

enum {
    ADN_FLOATS = 1u << ANYDNN_F32 | 1u << ANYDNN_F16 | 1u << ANYDNN_BF16 | 1u << ANYDNN_F64,
    ADN_BYTES = 1u << ANYDNN_I8 | 1u << ANYDNN_U8
};

const char *adn_role_text(int role);

/* The dtype of a role must be in `mask` (bits 1 << dtype). */
anydnn_status adn_need_dtype(const struct adn_problem *p, int role, unsigned mask);
/* If both are bound they must have equal dtypes; equal dims. */
anydnn_status adn_need_same_dtype(const struct adn_problem *p, int role, int like);
anydnn_status adn_need_same_dims(const struct adn_problem *p, int role, int like);
/* dims[axis] of a role must be `size`. */
anydnn_status adn_need_dim(const struct adn_problem *p, int role, int axis, int64_t size);
anydnn_status adn_need_ndim(const struct adn_problem *p, int role, int least, int most);
/* A struct member must lie in least..most. */
anydnn_status adn_need_range(const char *name, int64_t value, int64_t least, int64_t most);
/* Parameters of normalisations: f32, or f64 with f64 data. */
int adn_parameter_dtype(int data_dtype);

/* Packed tensor with the dims of `like`. */
anydnn_tensor adn_packed_like(const anydnn_tensor *like, int dtype);

/* Cost of an elementwise operation: `flops` for each element of role. */
void adn_cost_per_element(const struct adn_problem *p, int role, double each, double *flops, double *depth);

/* Spatial arrays of convolution and pooling: checks entries beyond the rank, pads; fills defaults and pad_end. */
anydnn_status adn_spatial_defaults(int rank, int pad_mode, int64_t *stride, int64_t *pad, int64_t *pad_end,
                                   int64_t *dilation);
/* floor((size + pads - dilation*(window-1) - 1) / stride) + 1, -1 on overflow; may be <= 0. */
int64_t adn_window_count(int64_t size, int64_t pads, int64_t window, int64_t stride, int64_t dilation);
/* What `count` windows span: (count-1)*stride + dilation*(window-1) + 1, INT64_MIN where that passes 2^61. */
int64_t adn_window_span(int64_t count, int64_t window, int64_t stride, int64_t dilation);

extern const struct adn_op_def adn_op_conv_forward, adn_op_conv_backward_data, adn_op_conv_backward_filter,
    adn_op_conv_backward_bias, adn_op_matmul, adn_op_pool_forward, adn_op_pool_backward, adn_op_activation_forward,
    adn_op_activation_backward, adn_op_softmax_forward, adn_op_softmax_backward, adn_op_cross_entropy_forward,
    adn_op_cross_entropy_backward, adn_op_batchnorm_training, adn_op_batchnorm_inference, adn_op_batchnorm_backward,
    adn_op_binary, adn_op_binary_backward, adn_op_reduce, adn_op_reduce_backward, adn_op_copy, adn_op_fill,
    adn_op_scale, adn_op_dropout_forward, adn_op_dropout_backward, adn_op_sgd, adn_op_adam;

#endif
