// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/matmul_tile.cu: y = alpha * a * b + bias + beta * y over batches, with any strides, over tile_gemm.cuh.
//
// Stages   A thread loads some consecutive depths of one row of a and of one column of b (mode 0 element by element,
//          mode 1 four at a time), or four rows or columns of a depth at a time (mode 2). Splits of the depth write
//          float partial sums, which matmul_tile_sum adds up in order.
// Limits   None: sizes, offsets and tile numbers are 64 bits; blocks stride over tiles.
#include "tile_gemm.cuh"
#include "../common/engines/matmul_tile_params.h"

// One operand: LINES rows (or columns) of a tile and BK depths, spread over the block as N elements a thread.
template <typename T, int LINES, int BK, int N, int THREADS> struct matmul_side {
    const T *from;
    const adn_i64 depth_step;
    const int mode;
    int rest; // depths from this thread's first one of the next stage on; none where the line does not exist
    float v[N];

    __device__ int line() const { return mode == 2 ? threadIdx.x % (LINES / 4) * 4 : threadIdx.x % LINES; }
    __device__ int depth() const { return mode == 2 ? threadIdx.x / (LINES / 4) : threadIdx.x / LINES * N; }

    __device__ matmul_side(const T *base, adn_i64 lines, int depths, adn_i64 line_step, adn_i64 step, int m)
        : depth_step(step), mode(m)
    {
        from = base + (line() * line_step + depth() * depth_step);
        rest = line() < lines ? depths - depth() : 0;
    }

    __device__ void fetch()
    {
#pragma unroll
        for (int e = 0; e < N; e++) v[e] = 0.0f;
        if (mode == 2) {
#pragma unroll
            for (int e = 0; e < N; e += 4) {
                constexpr int APART = THREADS / (LINES / 4); // depths between a thread's quadruples
                if (e / 4 * APART < rest) adn_load4(from, e / 4 * APART * depth_step, v + e);
            }
        } else if (mode == 1) {
#pragma unroll
            for (int e = 0; e < N; e += 4)
                if (e < rest) adn_load4(from, e, v + e);
        } else {
#pragma unroll
            for (int e = 0; e < N; e++)
                if (e < rest) v[e] = adn_load(from, e * depth_step);
        }
        from += BK * depth_step;
        rest -= BK;
    }

    template <int W> __device__ void stage(adn_quad<float> (&to)[BK][W]) const
    {
        if (mode == 2) {
#pragma unroll
            for (int e = 0; e < N; e += 4)
                to[depth() + e / 4 * (THREADS / (LINES / 4))][line() / 4] =
                    adn_quad<float>{ { v[e], v[e + 1], v[e + 2], v[e + 3] } };
        } else {
            adn_stage_depths(to, line(), depth(), v);
        }
    }
};

template <typename T, typename Tile> struct matmul_feed {
    matmul_side<T, Tile::ROWS, Tile::BK, Tile::EA, Tile::THREADS> a;
    matmul_side<T, Tile::COLUMNS, Tile::BK, Tile::EB, Tile::THREADS> b;

    __device__ matmul_feed(const T *a_base, const T *b_base, const adn_matmul_place &t, adn_i64 begin, int depths,
                           const adn_matmul_tile_params &p)
        : a(a_base + (t.a + t.row * p.a_row + begin * p.a_depth), p.rows - t.row, depths, p.a_row, p.a_depth, p.a_mode),
          b(b_base + (t.b + t.column * p.b_column + begin * p.b_depth), p.columns - t.column, depths, p.b_column,
            p.b_depth, p.b_mode)
    {
    }
    __device__ void prepare(int) {}
    __device__ void fetch(int)
    {
        a.fetch();
        b.fetch();
    }
    template <typename A, typename B> __device__ void stage(A &to_a, B &to_b) const
    {
        a.stage(to_a);
        b.stage(to_b);
    }
};

template <typename T, typename Tile>
__device__ void store_tile(const Tile &tile, const adn_matmul_place &t, const T *bias, T *y, float *parts,
                           const adn_matmul_tile_params &p)
{
    constexpr int TM = sizeof(tile.sum) / sizeof(tile.sum[0]), TN = sizeof(tile.sum[0]) / sizeof(float);
    const adn_i64 part = t.split * p.part + t.batch * p.rows * p.columns;
#pragma unroll
    for (int i = 0; i < TM; i++) {
        const adn_i64 row = t.row + Tile::row(i);
#pragma unroll
        for (int j = 0; j < TN; j++) {
            const adn_i64 column = t.column + Tile::column(j);
            if (row >= p.rows || column >= p.columns) continue;
            const adn_i64 at = t.y + row * p.y_row + column * p.y_column;
            if (p.partial) {
                parts[p.partial == 2 ? at : part + row * p.columns + column] = tile.sum[i][j];
                continue;
            }
            float v = p.alpha * tile.sum[i][j];
            if (p.biased) v += adn_load(bias, t.bias + row * p.bias_row + column * p.bias_column);
            if (p.beta != 0.0f) v += p.beta * adn_load(y, at);
            adn_store(y, at, v);
        }
    }
}

template <typename T, typename Tile>
__device__ void matmul_tile(const T *a, const T *b, const T *bias, T *y, float *parts, const adn_matmul_tile_params &p)
{
    __shared__ typename Tile::buffers buffers;
    __shared__ adn_matmul_place t; // not in registers: they are short while multiplying
    for (adn_i64 number = blockIdx.x; number < p.tiles; number += gridDim.x) {
        __syncthreads();
        if (threadIdx.x == 0) t = adn_matmul_place_of(number, Tile::ROWS, Tile::COLUMNS, &p);
        __syncthreads();
        Tile tile;
        tile.clear();
        for (adn_i64 begin = t.depth_begin; begin < t.depth_end; begin += ADN_MATMUL_CHUNK) {
            const int depths = (int)min(t.depth_end - begin, (adn_i64)ADN_MATMUL_CHUNK);
            matmul_feed<T, Tile> feed(a, b, t, begin, depths, p);
            tile.run(buffers, feed, (depths + Tile::BK - 1) / Tile::BK);
        }
        store_tile(tile, t, bias, y, parts, p);
    }
}

// One thread for each output: partial sums in the order of the splits.
template <typename T, int BLOCK>
__device__ void matmul_tile_sum(const float *parts, const T *bias, T *y, const adn_matmul_tile_params &p)
{
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.part; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_i64 line = i / p.columns, column = i - line * p.columns;
        const adn_i64 batch = line / p.rows, row = line - batch * p.rows;
        adn_matmul_place t;
        adn_matmul_batch(batch, &t, &p);
        const adn_i64 at = t.y + row * p.y_row + column * p.y_column;
        float sum = 0.0f;
        for (adn_i64 s = 0; s < p.splits; s++) sum += parts[s * p.part + i];
        sum *= p.alpha;
        if (p.biased) sum += adn_load(bias, t.bias + row * p.bias_row + column * p.bias_column);
        if (p.beta != 0.0f) sum += p.beta * adn_load(y, at);
        adn_store(y, at, sum);
    }
}

// Two blocks a multiprocessor hide each other's barriers: at most 128 registers a thread of a block of 256.
#define ADN_ENTRY_matmul_tile(name, T, block, bm, bn, bk, tm, tn, f)                                                   \
    extern "C" __global__ void __launch_bounds__(block, 512 / block) name(                                             \
        const T *a, const T *b, const T *bias, T *y, float *parts, const __grid_constant__ adn_matmul_tile_params p)   \
    {                                                                                                                  \
        static_assert(adn_tile<bm, bn, bk, tm, tn>::THREADS == block, "block");                                        \
        matmul_tile<T, adn_tile<bm, bn, bk, tm, tn>>(a, b, bias, y, parts, p);                                         \
    }
#define ADN_ENTRY_matmul_tile_sum(name, T, block, a, b, c, d, e, f)                                                    \
    ADN_KERNEL(name, block)                                                                                            \
    (const float *parts, const T *bias, T *y, const __grid_constant__ adn_matmul_tile_params p)                        \
    {                                                                                                                  \
        matmul_tile_sum<T, block>(parts, bias, y, p);                                                                  \
    }
#define ADN_VARIANT_CL(...)
#include "../common/engines/matmul_tile.variants"
