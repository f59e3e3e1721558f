// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/logits.cuh: the running maximum and sum of exponentials of a row, which softmax and cross entropy share.
// A NaN makes the sum NaN; an infinite maximum (+inf in the row, or nothing but -inf) is told by adn_logits_valid.
#pragma once
#include "team.cuh"

// After so many takes a partial sum is put aside, and joined with the others at the end: an f32 sum that takes its
// terms one by one would be wrong in its fourth digit after 100000 of them.
constexpr int ADN_LOGITS_TAKES = 64;

struct adn_logits {
    struct value {
        float max, sum; // sum of exp(x - max)
    };
    static __device__ __forceinline__ value none() { return { -INFINITY, 0.0f }; }
    // What exponents are taken against: finite while nothing but -inf was seen, so that -inf counts as 0.
    static __device__ __forceinline__ float pivot(float max) { return max == -INFINITY ? 0.0f : max; }
    static __device__ __forceinline__ value join(value a, value b)
    {
        const float max = fmaxf(a.max, b.max), p = pivot(max);
        return { max, a.sum * expf(a.max - p) + b.sum * expf(b.max - p) };
    }
    // Takes N more elements; absent ones are -inf.
    template <int N> static __device__ __forceinline__ void take(value &a, const float (&v)[N])
    {
        float max = a.max;
#pragma unroll
        for (int k = 0; k < N; k++) max = fmaxf(max, v[k]);
        const float p = pivot(max);
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < N; k++) sum += expf(v[k] - p);
        a.sum = a.sum * expf(a.max - p) + sum;
        a.max = max;
    }
};

__device__ __forceinline__ bool adn_logits_valid(adn_logits::value a)
{
    return fabsf(a.max) < INFINITY && !isnan(a.sum);
}
