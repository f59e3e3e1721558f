// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/tile_gemm.cuh: the matrix product that convolution and matmul share: a block multiplies a tile of
// BM x BN outputs over a range of depths in the plain arithmetic of type S: float, double or int.
//
// Stages   Two buffers of BK depths each lie in shared memory, depth-major. While the block multiplies one stage, each
//          thread holds the next one in registers (fetched before the arithmetic, stored behind it): one barrier a
//          stage.
// Threads  A warp is 4 x 8 threads. Thread rows and columns come in fragments of four neighbours, fragments 16 rows and
//          32 columns apart, so that shared memory is read 16 bytes at a time without bank conflicts.
// Feed     A type with  prepare(k): what fetch(k) needs in shared memory, with a barrier behind it where it writes any;
//          fetch(k): stage k into registers;  stage(a, b): registers into the buffers. Depths behind the end are fed as zeros.
#pragma once
#include "prelude.cuh"

// Four neighbours, moved as whole vectors.
template <typename S> struct alignas(16) adn_quad { S v[4]; };

template <int BM, int BN, int BK_, int TM, int TN, typename S = float> struct adn_tile {
    typedef S sum_type;
    static constexpr int ROWS = BM, COLUMNS = BN, BK = BK_;
    static constexpr int THREADS = (BM / TM) * (BN / TN);
    static constexpr int ACROSS = BN / (8 * TN); // warps side by side
    static constexpr int EA = BM * BK / THREADS, EB = BN * BK / THREADS;
    static_assert(TM % 4 == 0 && TN % 4 == 0 && THREADS % BM == 0 && THREADS % BN == 0 && EA % 4 == 0 && EB % 4 == 0,
                  "threads take whole fragments");

    struct buffers {
        adn_quad<S> a[2][BK][BM / 4];
        adn_quad<S> b[2][BK][BN / 4];
    };

    S sum[TM][TN];

    __device__ static int row(int i)
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        return warp / ACROSS * (4 * TM) + i / 4 * 16 + lane / 8 * 4 + i % 4;
    }
    __device__ static int column(int j)
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        return warp % ACROSS * (8 * TN) + j / 4 * 32 + lane % 8 * 4 + j % 4;
    }

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++) sum[i][j] = 0;
    }

    __device__ void multiply(const adn_quad<S> (&a)[BK][BM / 4], const adn_quad<S> (&b)[BK][BN / 4])
    {
#pragma unroll
        for (int k = 0; k < BK; k++) {
            S av[TM], bv[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const adn_quad<S> q = a[k][row(i) / 4];
                av[i] = q.v[0], av[i + 1] = q.v[1], av[i + 2] = q.v[2], av[i + 3] = q.v[3];
            }
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const adn_quad<S> q = b[k][column(j) / 4];
                bv[j] = q.v[0], bv[j + 1] = q.v[1], bv[j + 2] = q.v[2], bv[j + 3] = q.v[3];
            }
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) sum[i][j] += av[i] * bv[j];
        }
    }

    // Adds `stages` stages to the sums; `stages` is the same in the whole block.
    template <typename Feed> __device__ void run(buffers &s, Feed &feed, int stages)
    {
        if (stages > 0) {
            feed.prepare(0);
            feed.fetch(0);
            feed.stage(s.a[0], s.b[0]);
            __syncthreads();
        }
        for (int k = 0; k < stages; k++) {
            const int now = k & 1;
            if (k + 1 < stages) {
                feed.prepare(k + 1);
                feed.fetch(k + 1);
            }
            multiply(s.a[now], s.b[now]);
            if (k + 1 < stages) feed.stage(s.a[now ^ 1], s.b[now ^ 1]);
            __syncthreads();
        }
    }
};

// Four elements from an address aligned to four of them.
__device__ __forceinline__ void adn_load4(const float *p, adn_i64 i, float *v)
{
    const float4 q = *reinterpret_cast<const float4 *>(p + i);
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
}
__device__ __forceinline__ void adn_load4(const double *p, adn_i64 i, double *v)
{
    const double2 *q = reinterpret_cast<const double2 *>(p + i);
    v[0] = q[0].x, v[1] = q[0].y, v[2] = q[1].x, v[3] = q[1].y;
}
__device__ __forceinline__ void adn_load4(const signed char *p, adn_i64 i, int *v)
{
    const char4 q = *reinterpret_cast<const char4 *>(p + i);
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
}
__device__ __forceinline__ void adn_load4(const unsigned char *p, adn_i64 i, int *v)
{
    const uchar4 q = *reinterpret_cast<const uchar4 *>(p + i);
    v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
}
template <typename T> __device__ __forceinline__ void adn_load4(const T *p, adn_i64 i, float *v)
{
    const uint2 q = *reinterpret_cast<const uint2 *>(p + i);
    const T *h = reinterpret_cast<const T *>(&q);
#pragma unroll
    for (int e = 0; e < 4; e++) v[e] = adn_load(h, e);
}

// Stage of a thread that holds one row (or column) and N consecutive depths from `depth` on.
template <int N, int BK, int W, typename S>
__device__ __forceinline__ void adn_stage_depths(adn_quad<S> (&to)[BK][W], int line, int depth, const S (&v)[N])
{
    S *p = &to[0][0].v[0] + line;
#pragma unroll
    for (int e = 0; e < N; e++) p[(depth + e) * (4 * W)] = v[e];
}
