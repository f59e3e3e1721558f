// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/team.cuh: teams of threads that reduce rows together (common/engines/team_params.h), in a fixed order.
// The OpenCL side (kernels_cl/team.clh) does the same joins along a tree of its own.
#pragma once
#include "prelude.cuh"

#include "../common/engines/team_params.h"

struct adn_team {
    int part, parts; // this thread of its team, threads of a team
    int row, rows;   // this team of the block, teams of a block
    int lanes;
};

template <int BLOCK> __device__ __forceinline__ adn_team adn_team_of(const adn_team_walk &walk)
{
    adn_team team;
    const int t = threadIdx.x;
    team.parts = 1 << walk.parts_log2;
    team.rows = BLOCK >> walk.parts_log2;
    team.lanes = walk.lanes;
    team.part = walk.lanes ? t & (team.parts - 1) : t / team.rows;
    team.row = walk.lanes ? t >> walk.parts_log2 : t & (team.rows - 1);
    return team;
}

// Joins the values of a team; all threads of the block call it and get their team's result. OP has a type `value` of
// floats alone and a static join(a, b), b standing behind a. `scratch` has BLOCK entries and is free afterwards.
template <typename OP> __device__ __forceinline__ typename OP::value adn_team_shuffle(typename OP::value v, int mask)
{
    typename OP::value other;
#pragma unroll
    for (int i = 0; i < (int)(sizeof v / sizeof(float)); i++)
        reinterpret_cast<float *>(&other)[i] = __shfl_xor_sync(0xffffffffu, reinterpret_cast<float *>(&v)[i], mask);
    return (threadIdx.x & mask) ? OP::join(other, v) : OP::join(v, other);
}

template <typename OP>
__device__ __forceinline__ typename OP::value adn_team_join(typename OP::value v, typename OP::value *scratch,
                                                            const adn_team &team)
{
    const int t = threadIdx.x;
    if (team.lanes) {
        for (int mask = 1; mask < team.parts && mask < 32; mask <<= 1) v = adn_team_shuffle<OP>(v, mask);
        if (team.parts <= 32) return v;
        const int warps = team.parts / 32;
        if ((t & 31) == 0) scratch[t / 32] = v;
        __syncthreads();
        v = scratch[team.row * warps];
        for (int w = 1; w < warps; w++) v = OP::join(v, scratch[team.row * warps + w]);
    } else {
        if (team.parts == 1) return v;
        scratch[t] = v;
        __syncthreads();
        for (int half = team.parts / 2; half > 0; half >>= 1) {
            if (team.part < half) scratch[t] = OP::join(scratch[t], scratch[t + half * team.rows]);
            __syncthreads();
        }
        v = scratch[team.row];
    }
    __syncthreads();
    return v;
}

// Calls body(k, offset) for the elements first + part + k * parts below `end` of a row, k in 0..N-1, with their offsets
// in a tensor. Rows with one reduced dim have a path without divisions, whose accesses the compiler can batch.
template <int N, typename Body>
__device__ __forceinline__ void adn_team_items(adn_i64 first, const adn_team &team, const adn_team_walk &walk,
                                               const adn_i64 *stride, adn_i64 end, Body body)
{
    const adn_i64 start = first + team.part;
    if (walk.rank - walk.kept <= 1) {
        const adn_i64 s = stride[walk.kept < 8 ? walk.kept : 7], base = start * s, step = s * team.parts;
#pragma unroll
        for (int k = 0; k < N; k++)
            if (start + k * team.parts < end) body(k, base + k * step);
    } else {
#pragma unroll
        for (int k = 0; k < N; k++)
            if (start + k * team.parts < end) body(k, ADN_ITEM_OFFSET(walk, stride, start + k * team.parts));
    }
}

// Those elements of x as floats; `absent` where there is none.
template <typename T, int N>
__device__ __forceinline__ void adn_team_load(const T *x, adn_i64 first, const adn_team &team,
                                              const adn_team_walk &walk, const adn_i64 *stride, adn_i64 end,
                                              float absent, float (&v)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++) v[k] = absent;
    adn_team_items<N>(first, team, walk, stride, end, [&](int k, adn_i64 at) { v[k] = adn_load(x, at); });
}

template <typename T, int N>
__device__ __forceinline__ void adn_team_store(T *y, adn_i64 first, const adn_team &team, const adn_team_walk &walk,
                                               const adn_i64 *stride, adn_i64 end, const float (&v)[N], float alpha,
                                               float beta)
{
    adn_team_items<N>(first, team, walk, stride, end,
                      [&](int k, adn_i64 at) { adn_store_scaled(y, at, v[k], alpha, beta); });
}
