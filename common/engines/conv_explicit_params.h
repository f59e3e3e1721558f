/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_explicit_params.h: parameters of kernels conv_explicit_columns and conv_explicit_gather, which
 * move elements between a tensor and its matrix of columns in the workspace:
 *
 *   matrix[n, group, c, tap, position] = tensor[n, c, position * stride + tap * step + origin], 0 outside
 *
 * Gathering stores tensor = alpha * sum + bias + beta * tensor. */
#ifndef ADN_CONV_EXPLICIT_PARAMS_H
#define ADN_CONV_EXPLICIT_PARAMS_H
#include "../index/conv_place.h"

struct adn_conv_explicit_params {
    adn_i64 count;               /* elements that are walked; 0: nothing to do */
    adn_i64 tensor[5];           /* strides of N, C and the spatial axes */
    adn_i64 n, group, c;         /* strides of the matrix: images, groups, channels of a group, */
    adn_i64 position[3];         /* positions, */
    adn_i64 tap[3];              /* and taps */
    adn_i64 bias_step;           /* elements of the bias from one channel to the next */
    struct adn_divisor size[4];  /* of the walk: channels, then spatial: positions (columns) or coordinates (gather) */
    struct adn_divisor channels; /* of a group */
    struct adn_divisor stride[3];
    adn_i32 extent[3]; /* limit of the coordinates (columns) or of the positions (gather) */
    adn_i32 step[3], origin[3], taps[3];
    adn_i32 narrow, channel_inner; /* count below 2^31; the channel runs fastest */
    adn_i32 biased, unused;        /* gather: there is a bias */
    float alpha, beta;
};
#endif
