// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/walk.cuh: element number -> offsets in up to 4 tensors (common/index/walk.h), and the loop over elements
// that every elementwise kernel has: a coalesced stride over the grid.
#pragma once
#include "../common/index/walk.h"
#include "prelude.cuh"

// Runs the body for i = this thread's share of 0..count-1.
#define ADN_FOR_EACH(i, count)                                                                                         \
    for (adn_i64 i = (adn_i64)blockIdx.x * blockDim.x + threadIdx.x, adn_step_ = (adn_i64)gridDim.x * blockDim.x;      \
         i < (count); i += adn_step_)

// Offset of element i in one tensor; `dims` and `strides` stay in parameter memory.
__device__ __forceinline__ adn_i64 adn_walk_offset(adn_i64 i, const adn_walk_dims &dims, const adn_strides &strides)
{
    adn_i64 offset = 0, c;
    for (int k = dims.rank - 1; k > 0; k--) {
        i = adn_divide(i, dims.size[k], dims.narrow, &c);
        offset += c * strides.stride[k];
    }
    return offset + i * strides.stride[0];
}

// Offsets of element i in N tensors at once.
template <int N, int M>
__device__ __forceinline__ void adn_walk_offsets(adn_i64 i, const adn_walk_dims &dims, const adn_strides (&strides)[M],
                                                 adn_i64 (&offset)[N])
{
    adn_i64 c;
#pragma unroll
    for (int t = 0; t < N; t++) offset[t] = 0;
    for (int k = dims.rank - 1; k > 0; k--) {
        i = adn_divide(i, dims.size[k], dims.narrow, &c);
#pragma unroll
        for (int t = 0; t < N; t++) offset[t] += c * strides[t].stride[k];
    }
#pragma unroll
    for (int t = 0; t < N; t++) offset[t] += i * strides[t].stride[0];
}
