/* SPDX-License-Identifier: Apache-2.0
 * common/engines/batchnorm_params.h: parameters of the batch normalisation kernels, for C, CUDA and OpenCL C. A row is
 * a feature (channel, or activation), its elements are the batch. A row may be cut into `splits` chunks, one for each
 * block; partial results lie as pairs at [chunk][row]: mean of x - pivot and sum of squared deviations, or the two sums
 * of the backward pass; then come the rows' pivots. */
#ifndef ADN_BATCHNORM_PARAMS_H
#define ADN_BATCHNORM_PARAMS_H
#include "team_params.h"

enum adn_batchnorm_source {
    ADN_BATCHNORM_FROM_DATA = 0,     /* computed from the row's chunk (the whole row if splits is 1) */
    ADN_BATCHNORM_FROM_PARTIALS = 1, /* joined from what an earlier launch left */
    ADN_BATCHNORM_FROM_TENSORS = 2   /* running (inference) or saved statistics */
};

/* Tensors of the strides below. */
enum { ADN_BATCHNORM_X = 0, ADN_BATCHNORM_Y = 1, ADN_BATCHNORM_DY = 1, ADN_BATCHNORM_DX = 2 };
enum {
    ADN_BATCHNORM_GAMMA = 0,
    ADN_BATCHNORM_SHIFT = 1,
    ADN_BATCHNORM_RUNNING_MEAN = 2,
    ADN_BATCHNORM_RUNNING_VAR = 3,
    ADN_BATCHNORM_SAVED_MEAN = 4,
    ADN_BATCHNORM_SAVED_INVSTD = 5,
    ADN_BATCHNORM_DGAMMA = 2,
    ADN_BATCHNORM_DSHIFT = 3 /* backward: in the place of the running statistics */
};

struct adn_batchnorm_params {
    struct adn_team_walk walk;
    adn_i64 data[3][5];      /* strides of the data, kept dims then reduced dims */
    adn_i64 parameter[6][4]; /* strides of parameters and statistics, kept dims */
    adn_i64 chunk;           /* elements of a row in a block's share */
    float alpha, beta, epsilon, factor;
    float param_alpha, param_beta; /* backward: of dgamma and dshift */
    adn_i32 splits;
    adn_i32 statistics; /* enum adn_batchnorm_source: where mean and variance come from */
    adn_i32 sums;       /* backward: where the two sums come from: data or partials */
    adn_i32 finish;     /* 0: writes partial results; 1: writes the outputs */
    adn_i32 has_running, has_saved;
};

/* Elements of chunk j. */
ADN_FN adn_i64 adn_batchnorm_count(adn_i64 length, adn_i64 chunk, adn_i64 j)
{
    const adn_i64 left = length - j * chunk;
    return left < chunk ? left : chunk;
}
#endif
