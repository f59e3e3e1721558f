/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_epilogue.h: what a convolution does with a finished sum (anydnn/ops.h): the head of the parameter
 * structs of every convolution kernel, for all languages. Zeroed, it stores 0. */
#ifndef ADN_CONV_EPILOGUE_H
#define ADN_CONV_EPILOGUE_H
#include "../index/lang.h"

/* Numbers of anydnn_conv_activation, and of anydnn_dtype for the outputs of 8-bit convolutions. */
enum { ADN_CONV_RELU = 1, ADN_CONV_LEAKY_RELU, ADN_CONV_CLIPPED_RELU, ADN_CONV_SIGMOID, ADN_CONV_TANH };
enum { ADN_Y_F32 = 1, ADN_Y_I8 = 5, ADN_Y_U8 = 6, ADN_Y_I32 = 7 };

struct adn_conv_epilogue {
    adn_u64 wide_alpha, wide_beta, wide_alpha2, wide_coef; /* bits of doubles, for f64 */
    adn_i64 bias_step, scale_step;                         /* elements from one channel to the next */
    adn_i32 biased;                                        /* 1: bias of the sums' real dtype; 2: of i32 */
    adn_i32 residual, scaled;                              /* z, scales are there */
    adn_i32 activation;                                    /* anydnn_conv_activation */
    adn_i32 y_dtype, x_zero;                               /* 8-bit convolutions alone */
    float alpha, beta, alpha2, coef, y_zero;
    adn_i32 unused;
};
#endif
