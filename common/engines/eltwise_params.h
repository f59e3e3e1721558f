/* SPDX-License-Identifier: Apache-2.0
 * common/engines/eltwise_params.h: parameters of the kernels of the stem eltwise, for C, CUDA and OpenCL.
 * All walk over units of `width` elements (constant a of the variant), then over `tail` single elements that follow
 * the units of a rank 1 walk. Tensors are numbered in the order of the memory arguments; bit t of `splat` says that
 * tensor t has one value for a whole unit. Zeroed parameters make every kernel do nothing. */
#ifndef ADN_ELTWISE_PARAMS_H
#define ADN_ELTWISE_PARAMS_H
#include "../index/walk.h"

/* out = alpha * f(scale_a * a, scale_b * b) + beta * out; a scale of 0 does not read its tensor. */
enum adn_map_mode {
    ADN_MAP_RELU,
    ADN_MAP_LEAKY_RELU,
    ADN_MAP_CLIPPED_RELU,
    ADN_MAP_SIGMOID,
    ADN_MAP_TANH,
    ADN_MAP_IDENTITY,
    ADN_MAP_DIVIDE,         /* a / coef */
    ADN_MAP_RELU_SLOPE,     /* f'(b) * a, with b = x or y of the forward pass */
    ADN_MAP_LEAKY_SLOPE,
    ADN_MAP_CLIPPED_SLOPE,
    ADN_MAP_SIGMOID_SLOPE,  /* b = y */
    ADN_MAP_TANH_SLOPE,
    ADN_MAP_SIGMOID_SLOPE_X, /* b = x */
    ADN_MAP_TANH_SLOPE_X,
    ADN_MAP_ADD,
    ADN_MAP_SUB,
    ADN_MAP_MUL,
    ADN_MAP_DIV,
    ADN_MAP_MAXIMUM,
    ADN_MAP_MINIMUM
};

struct adn_map_params { /* tensors: out, a, b */
    struct adn_walk_dims dims;
    struct adn_strides stride[4];
    adn_i64 tail;
    adn_u32 splat;
    adn_i32 mode; /* enum adn_map_mode */
    float alpha, beta, scale_a, scale_b, coef;
    adn_i32 pad;
};

struct adn_dropout_params { /* tensors: out, in, seed, offset */
    struct adn_walk_dims dims; /* in row-major order of the elements */
    struct adn_strides stride[4];
    adn_i64 tail, seed, offset;
    adn_i32 seed_device, offset_device; /* 1: read from memory instead */
    adn_u32 threshold; /* an element stays when its 24 bits are at least this */
    float scale;
};

struct adn_optimizer_params { /* tensors: param, grad, moment1, moment2, lr, step */
    struct adn_walk_dims dims;
    struct adn_strides stride[4];
    adn_i64 tail;
    adn_i32 param_dtype, grad_dtype; /* anydnn_dtype: 1 f32, 2 f16, 3 bf16 */
    adn_i32 lr_device, step_device;
    adn_i32 variant;       /* SGD: nesterov; ADAM: decoupled */
    adn_i32 moments;       /* SGD: 1 with moment1 */
    float lr, weight_decay;
    float beta1, rest1;    /* SGD: momentum; rest = 1 - beta */
    float beta2, rest2;
    float epsilon, pad;
    float correction1, correction2; /* 1 - beta^step, for a step on the host */
    float log_beta1, log_beta2;     /* for a step in memory: correction = -expm1(step * log beta) */
};

/* How copies compute. */
enum adn_copy_kind { ADN_COPY_FLOAT, ADN_COPY_DOUBLE, ADN_COPY_INTEGER /* modulo 2^64 */ };

struct adn_copy_params { /* tensors: out, in */
    struct adn_walk_dims dims;
    struct adn_strides stride[4];
    adn_i64 tail;
    adn_i64 alpha_bits, beta_bits; /* of the doubles: OpenCL may lack the type. Of integers: the values */
    float alpha, beta;
    adn_i32 out_dtype, in_dtype; /* anydnn_dtype */
    adn_i32 kind;                /* enum adn_copy_kind */
    adn_u32 splat;
};

struct adn_fill_params { /* tensors: out */
    struct adn_walk_dims dims;
    struct adn_strides stride[4];
    adn_i64 tail;
    adn_u64 pattern;   /* the element, repeated to 8 bytes */
    adn_i32 size;      /* bytes of an element */
    adn_i32 wide;      /* 1: units are 16 bytes, aligned */
};
#endif
