// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/conv_sum.cuh: the second step of convolutions whose depth is split: partial sums become outputs.
#pragma once
#include "conv_epilogue.cuh"
#include "../common/engines/conv_igemm_params.h"

// One thread for each output: partial sums in the order of the splits.
template <typename T, int BLOCK>
__device__ void conv_sum(const typename adn_sum_of<T>::type *parts, const adn_conv_places &m,
                         const adn_conv_igemm_params &p)
{
    const adn_igemm_tile t = {};
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.part; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_i64 line = i / p.columns;
        const int group = (int)(line / p.rows), row = (int)(line % p.rows);
        const adn_i64 at =
            group * p.y_group + p.y_origin + row * p.y_row + adn_igemm_output((int)(i - line * p.columns), &t, &p);
        typename adn_sum_of<T>::type sum = 0;
        for (int s = 0; s < p.splits; s++) sum += parts[s * p.part + i];
        adn_conv_output<T>::store(sum, line, at, at, m, p.e);
    }
}

#define ADN_PLACES const void *bias, const void *z, const float *scales, void *y
#define ADN_CONV_SUM(name, T, block)                                                                                   \
    ADN_KERNEL(name, block)                                                                                            \
    (const adn_sum_of<T>::type *parts, ADN_PLACES, const __grid_constant__ adn_conv_igemm_params p)                    \
    {                                                                                                                  \
        conv_sum<T, block>(parts, adn_conv_places{ bias, z, scales, y }, p);                                           \
    }
