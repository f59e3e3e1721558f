/* SPDX-License-Identifier: Apache-2.0
 * common/engines/softmax_params.h: parameters of the softmax kernels, for C, CUDA and OpenCL C. */
#ifndef ADN_SOFTMAX_PARAMS_H
#define ADN_SOFTMAX_PARAMS_H
#include "team_params.h"

struct adn_softmax_params {
    struct adn_team_walk walk;
    struct adn_strides stride[3]; /* forward: x, y; backward: y, dy, dx */
    float alpha, beta;
    adn_i32 log; /* log-softmax */
    adn_i32 pad;
};
#endif
