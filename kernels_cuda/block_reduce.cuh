// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/block_reduce.cuh: reductions over the threads of a block, in a fixed tree order. Every thread of the block
// must call them; all get the result. `scratch` holds BLOCK / 32 entries of shared memory and is free afterwards.
// BLOCK is a multiple of 32 and at most 1024. The OpenCL side (kernels_cl/block_reduce.clh) does the same steps.
#pragma once
#include "prelude.cuh"

struct adn_best {
    float value;
    adn_i64 index;
};

struct adn_op_sum {
    __device__ static float identity() { return 0.0f; }
    template <typename S> __device__ static S join(S a, S b) { return a + b; }
};
struct adn_op_max {
    __device__ static float identity() { return -INFINITY; }
    __device__ static float join(float a, float b) { return adn_max_nan(a, b); }
};

// First largest: NaN is larger than any number; among equals the lower index wins. index < 0 = nothing seen yet.
__device__ __forceinline__ bool adn_better(float a, adn_i64 ia, float b, adn_i64 ib)
{
    if (ia < 0 || ib < 0) return ia >= 0;
    if (isnan(a) || isnan(b)) return isnan(a) && (!isnan(b) || ia < ib);
    return a > b || (a == b && ia < ib);
}

template <typename S> __device__ __forceinline__ S adn_shuffle(S v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}

// Over the 32 threads of a warp; all of them must call it.
template <typename OP, typename S> __device__ __forceinline__ S adn_warp_reduce(S v)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) v = OP::join(v, adn_shuffle(v, mask));
    return v;
}

template <typename OP, int BLOCK, typename S> __device__ __forceinline__ S adn_block_reduce(S v, S *scratch)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    v = adn_warp_reduce<OP>(v);
    if (BLOCK == 32) return v;
    if (lane == 0) scratch[warp] = v;
    __syncthreads();
    v = adn_warp_reduce<OP>(lane < BLOCK / 32 ? scratch[lane] : (S)OP::identity());
    __syncthreads();
    return v;
}

template <int BLOCK, typename S> __device__ __forceinline__ S adn_block_sum(S v, S *scratch)
{
    return adn_block_reduce<adn_op_sum, BLOCK>(v, scratch);
}

template <int BLOCK> __device__ __forceinline__ float adn_block_max(float v, float *scratch)
{
    return adn_block_reduce<adn_op_max, BLOCK>(v, scratch);
}

__device__ __forceinline__ adn_best adn_warp_best(adn_best best)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) {
        const float value = adn_shuffle(best.value, mask);
        const adn_i64 index = __shfl_xor_sync(0xffffffffu, (long long)best.index, mask);
        if (adn_better(value, index, best.value, best.index)) best.value = value, best.index = index;
    }
    return best;
}

template <int BLOCK> __device__ __forceinline__ adn_best adn_block_best(adn_best best, adn_best *scratch)
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    best = adn_warp_best(best);
    if (BLOCK == 32) return best;
    if (lane == 0) scratch[warp] = best;
    __syncthreads();
    best.index = -1;
    if (lane < BLOCK / 32) best = scratch[lane];
    best = adn_warp_best(best);
    __syncthreads();
    return best;
}
