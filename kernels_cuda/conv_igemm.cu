// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/conv_igemm.cu: convolution forward, backward data and backward filter as one gathered matrix product
// (common/index/conv_index.h says how) over tile_gemm.cuh.
//
// Stages   A thread keeps one row of A and one column of B and loads some consecutive depths of both. What a depth
//          means (offsets, coordinates) is decoded into a table in shared memory, by each thread for one depth, for as
//          many stages at once as there are threads: decoding takes longer than a stage. Splits of the depth write float partial sums, which conv_igemm_sum adds up in order.
// Limits   Rows, columns, depths and tiles below 2^31; offsets are 64 bits. Grid x counts tiles.
#include "conv_sum.cuh"
#include "tile_gemm.cuh"

template <typename A, typename B, typename Tile> struct igemm_feed {
    static constexpr int TABLED = Tile::THREADS / Tile::BK; // stages of a table
    const adn_conv_igemm_params &p;
    const adn_igemm_tile &t;
    adn_igemm_depth *table; // of the next THREADS depths
    const A *a;
    const B *b;
    int a_line, b_line, a_depth, b_depth;
    int z, y, x;
    bool a_live, b_live;
    typename Tile::sum_type av[Tile::EA], bv[Tile::EB];

    __device__ igemm_feed(const A *a_base, const B *b_base, const adn_conv_igemm_params &params,
                          const adn_igemm_tile &place, adn_igemm_depth *shared)
        : p(params), t(place), table(shared)
    {
        a_line = threadIdx.x % Tile::ROWS;
        b_line = threadIdx.x % Tile::COLUMNS;
        a_depth = threadIdx.x / Tile::ROWS * Tile::EA;
        b_depth = threadIdx.x / Tile::COLUMNS * Tile::EB;
        a_live = t.row + a_line < p.rows;
        b_live = t.column + b_line < p.columns;
        const adn_digits d = adn_igemm_column(b_live ? t.column + b_line : 0, &p);
        z = d.z * p.axis[0].column_step + t.f[0].origin;
        y = d.y * p.axis[1].column_step + t.f[1].origin;
        x = d.x * p.axis[2].column_step + t.f[2].origin;
        a = a_base + (t.a_origin + (t.row + a_line) * p.a_row);
        b = b_base + (t.group * p.b_group + d.u * p.b_column_u + z * p.axis[0].b + y * p.axis[1].b + x * p.axis[2].b);
    }

    __device__ void prepare(int k)
    {
        const int depth = t.depth_begin + k * Tile::BK + (int)threadIdx.x;
        if (k % TABLED != 0) return;
        if (depth < t.depth_end) table[threadIdx.x] = adn_igemm_depth_of(depth, &t, &p);
        __syncthreads();
    }

    __device__ bool inside(const adn_igemm_depth &r) const
    {
        return (unsigned)(z + r.z) < (unsigned)p.axis[0].limit && (unsigned)(y + r.y) < (unsigned)p.axis[1].limit &&
               (unsigned)(x + r.x) < (unsigned)p.axis[2].limit;
    }

    // Takes the zero point off, where there is one.
    template <int N> __device__ void shift(typename Tile::sum_type *v) const
    {
        if constexpr (sizeof(B) == 1)
#pragma unroll
            for (int i = 0; i < N; i++) v[i] -= p.e.x_zero;
    }

    __device__ void fetch(int k)
    {
        const int left = t.depth_end - t.depth_begin - k * Tile::BK;
        const adn_igemm_depth *row = table + k % TABLED * Tile::BK;
#pragma unroll
        for (int e = 0; e < Tile::EA; e += 4) {
            av[e] = av[e + 1] = av[e + 2] = av[e + 3] = 0;
            if (p.a_vector) {
                if (a_live && a_depth + e < left) adn_load4(a, row[a_depth + e].a, av + e);
            } else {
#pragma unroll
                for (int i = e; i < e + 4; i++)
                    if (a_live && a_depth + i < left) av[i] = adn_load(a, row[a_depth + i].a);
            }
        }
#pragma unroll
        for (int e = 0; e < Tile::EB; e += 4) {
            bv[e] = bv[e + 1] = bv[e + 2] = bv[e + 3] = 0;
            if (p.b_vector) {
                const adn_igemm_depth &r = row[b_depth + e];
                if (b_live && b_depth + e < left && inside(r)) {
                    adn_load4(b, r.b, bv + e);
                    shift<4>(bv + e);
                }
            } else {
#pragma unroll
                for (int i = e; i < e + 4; i++) {
                    const adn_igemm_depth &r = row[b_depth + i];
                    if (b_live && b_depth + i < left && inside(r)) bv[i] = adn_conv_input(b, r.b, p.e.x_zero);
                }
            }
        }
    }

    template <typename ToA, typename ToB> __device__ void stage(ToA &to_a, ToB &to_b) const
    {
        adn_stage_depths(to_a, a_line, a_depth, av);
        adn_stage_depths(to_b, b_line, b_depth, bv);
    }
};

template <typename T, typename Tile>
__device__ void store_tile(const Tile &tile, const adn_igemm_tile &t, const adn_conv_places &m,
                           typename Tile::sum_type *parts, const adn_conv_igemm_params &p)
{
    constexpr int TM = sizeof(tile.sum) / sizeof(tile.sum[0]), TN = sizeof(tile.sum[0]) / sizeof(tile.sum[0][0]);
    if (p.splits > 1) parts += t.split * p.part + (adn_i64)t.group * p.rows * p.columns;
#pragma unroll
    for (int j = 0; j < TN; j++) {
        const int column = t.column + Tile::column(j);
        const adn_i64 to = adn_igemm_output(column, &t, &p);
#pragma unroll
        for (int i = 0; i < TM; i++) {
            const int row = t.row + Tile::row(i);
            if (to == ADN_IGEMM_NOWHERE || row >= p.rows) continue;
            if (p.splits > 1) {
                parts[(adn_i64)row * p.columns + column] = tile.sum[i][j];
                continue;
            }
            const adn_i64 at = t.y_origin + to + row * p.y_row;
            adn_conv_output<T>::store(tile.sum[i][j], (adn_i64)t.group * p.rows + row, at, at, m, p.e);
        }
    }
}

template <typename A, typename B, typename Tile>
__device__ void conv_igemm(const A *a, const B *b, const adn_conv_places &m, typename Tile::sum_type *parts,
                           const adn_conv_igemm_params &p)
{
    __shared__ typename Tile::buffers buffers;
    __shared__ adn_igemm_depth table[Tile::THREADS];
    __shared__ adn_igemm_tile t; // not in registers: they are short while multiplying
    for (unsigned number = blockIdx.x; number < (unsigned)p.tiles; number += gridDim.x) {
        __syncthreads();
        if (threadIdx.x == 0) t = adn_igemm_tile_of(number, Tile::ROWS, Tile::COLUMNS, &p);
        __syncthreads();
        igemm_feed<A, B, Tile> feed(a, b, p, t, table);
        const int depth = p.e.alpha == 0.0f ? 0 : t.depth_end - t.depth_begin;
        Tile tile;
        tile.clear();
        tile.run(buffers, feed, depth > 0 ? (depth + Tile::BK - 1) / Tile::BK : 0);
        store_tile<B>(tile, t, m, parts, p);
    }
}

// Two blocks a multiprocessor hide each other's barriers: at most 128 registers a thread of a block of 256.
#define ADN_ENTRY_conv_igemm(name, T, block, bm, bn, bk, tm, tn, f)                                                    \
    extern "C" __global__ void __launch_bounds__(block, 512 / block)                                                   \
        name(const adn_conv_filter<T>::type *a, const T *b, ADN_PLACES, adn_sum_of<T>::type *parts,                    \
             const __grid_constant__ adn_conv_igemm_params p)                                                          \
    {                                                                                                                  \
        typedef adn_tile<bm, bn, bk, tm, tn, adn_sum_of<T>::type> tile;                                                \
        static_assert(tile::THREADS == block, "block");                                                                \
        conv_igemm<adn_conv_filter<T>::type, T, tile>(a, b, adn_conv_places{ bias, z, scales, y }, parts, p);          \
    }
#define ADN_ENTRY_conv_igemm_sum(name, T, block, a, b, c, d, e, f) ADN_CONV_SUM(name, T, block)
#define ADN_VARIANT_CL(...)
#include "../common/engines/conv_igemm.variants"
