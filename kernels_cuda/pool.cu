// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/pool.cu: max and average pooling over up to three axes, forward and backward.
//
// Forward: a thread for each element of y reduces its window. Backward: a thread for each element of dx gathers from
// the windows that cover it, so nothing is written twice and no atomics are needed; for max pooling a window gives its
// dy when the stored index names this element, or when no other cell of the window beats it.
// Any strides; neighbouring threads lie along C (channels last) or along W.
#include "walk.cuh"

#include "../common/engines/pool_params.h"

namespace
{

enum { POOL_MAX = 0, POOL_AVG_INCLUDE = 1, POOL_AVG_EXCLUDE = 2 };

using Params = adn_pool_params;

__device__ __forceinline__ adn_pool_place place_of(const Params &p, adn_i64 e)
{
    return adn_pool_place_of(e, p.channels, p.size[0], p.size[1], p.size[2], p.channels_last, p.narrow);
}

__device__ __forceinline__ adn_i64 offset_of(const adn_i64 *stride, const adn_pool_place &at)
{
    return at.n * stride[0] + at.c * stride[1] + at.at[0] * stride[2] + at.at[1] * stride[3] + at.at[2] * stride[4];
}

__device__ __forceinline__ float divisor_of(const Params &p, const adn_i32 *o)
{
    const adn_i32 include = p.mode == POOL_AVG_INCLUDE;
    return (float)((adn_i64)adn_pool_weight(p.axis[0], o[0], include) * adn_pool_weight(p.axis[1], o[1], include) *
                   adn_pool_weight(p.axis[2], o[2], include));
}

template <typename T>
__device__ __forceinline__ float forward_one(const T *x, const Params &p, const adn_pool_place &at, int *winner)
{
    const adn_pool_range d = adn_pool_cells(p.axis[0], at.at[0]);
    const adn_pool_range h = adn_pool_cells(p.axis[1], at.at[1]);
    const adn_pool_range w = adn_pool_cells(p.axis[2], at.at[2]);
    float best = -INFINITY, sum = 0.0f;
    adn_i64 best_at = -1;
    x += at.n * p.x[0] + at.c * p.x[1];
    for (int r = d.first; r < d.end; r++) {
        const int z = adn_pool_position(p.axis[0], at.at[0], r);
        for (int s = h.first; s < h.end; s++) {
            const int y = adn_pool_position(p.axis[1], at.at[1], s);
            const adn_i64 line = ((adn_i64)z * p.axis[1].in + y) * p.axis[2].in; // beyond 31 bits there are no indices
            const T *row = x + z * p.x[2] + y * p.x[3];
            float part = 0.0f; // a sum for each row of the window: large windows lose no digits
            for (int t = w.first; t < w.end; t++) {
                const int i = adn_pool_position(p.axis[2], at.at[2], t);
                const float v = adn_load(row, i * p.x[4]);
                if (p.mode != POOL_MAX) {
                    part += v;
                } else if (best_at < 0 || v > best || (isnan(v) && !isnan(best))) {
                    best = v;
                    best_at = line + i;
                }
            }
            sum += part;
        }
    }
    *winner = (int)best_at;
    return p.mode == POOL_MAX ? best : sum / divisor_of(p, at.at);
}

template <typename T> __device__ __forceinline__ void pool_forward(const T *x, T *y, int *indices, const Params &p)
{
    ADN_FOR_EACH(e, p.count)
    {
        const adn_pool_place at = place_of(p, e);
        float v = 0.0f;
        int winner = -1;
        if (p.alpha != 0.0f || p.has_indices) v = forward_one(x, p, at, &winner);
        if (p.has_indices) indices[offset_of(p.indices, at)] = winner;
        if (p.alpha == 0.0f) v = 0.0f;
        adn_store_scaled(y, offset_of(p.y, at), v, p.alpha, p.beta);
    }
}

// True when `cell` of the window at output o, which holds `own`, wins: nothing before it is as large, nothing behind it
// larger.
template <typename T>
__device__ __forceinline__ bool wins(const T *x, const Params &p, const adn_i32 *o, const adn_i32 *cell, float own)
{
    const adn_pool_range d = adn_pool_cells(p.axis[0], o[0]);
    const adn_pool_range h = adn_pool_cells(p.axis[1], o[1]);
    const adn_pool_range w = adn_pool_cells(p.axis[2], o[2]);
    const bool own_nan = isnan(own);
    bool before = true;
    for (int r = d.first; r < d.end; r++) {
        for (int s = h.first; s < h.end; s++) {
            const T *row =
                x + adn_pool_position(p.axis[0], o[0], r) * p.x[2] + adn_pool_position(p.axis[1], o[1], s) * p.x[3];
            for (int t = w.first; t < w.end; t++) {
                const float v = adn_load(row, adn_pool_position(p.axis[2], o[2], t) * p.x[4]);
                if (r == cell[0] && s == cell[1] && t == cell[2])
                    before = false;
                else if (own_nan ? (before && isnan(v)) : (isnan(v) || (before ? v >= own : v > own)))
                    return false;
            }
        }
    }
    return true;
}

template <typename T>
__device__ __forceinline__ float backward_one(const T *dy, const T *x, const int *indices, const Params &p,
                                              const adn_pool_place &at)
{
    adn_pool_range range[3];
    adn_i32 o[3], cell[3];
    const int own_at = (at.at[0] * p.axis[1].in + at.at[1]) * p.axis[2].in + at.at[2];
    const bool search = p.mode == POOL_MAX && !p.has_indices;
    float own = 0.0f, sum = 0.0f;
    for (int k = 0; k < 3; k++) range[k] = adn_pool_covering(p.axis[k], at.at[k]);
    dy += at.n * p.y[0] + at.c * p.y[1];
    if (search) {
        own = adn_load(x, offset_of(p.x, at));
        x += at.n * p.x[0] + at.c * p.x[1];
    } else if (p.mode == POOL_MAX) {
        indices += at.n * p.indices[0] + at.c * p.indices[1];
    }
    for (o[0] = range[0].first; o[0] < range[0].end; o[0]++) {
        cell[0] = adn_pool_cell(p.axis[0], at.at[0], o[0]);
        for (o[1] = range[1].first; o[1] < range[1].end; o[1]++) {
            cell[1] = adn_pool_cell(p.axis[1], at.at[1], o[1]);
            for (o[2] = range[2].first; o[2] < range[2].end; o[2]++) {
                float share = 1.0f;
                cell[2] = adn_pool_cell(p.axis[2], at.at[2], o[2]);
                if (cell[0] < 0 || cell[1] < 0 || cell[2] < 0) continue;
                if (p.mode != POOL_MAX)
                    share = divisor_of(p, o);
                else if (search ? !wins(x, p, o, cell, own)
                                : indices[o[0] * p.indices[2] + o[1] * p.indices[3] + o[2] * p.indices[4]] != own_at)
                    continue;
                sum += adn_load(dy, o[0] * p.y[2] + o[1] * p.y[3] + o[2] * p.y[4]) / share;
            }
        }
    }
    return sum;
}

template <typename T>
__device__ __forceinline__ void pool_backward(const T *dy, const T *x, const int *indices, T *dx, const Params &p)
{
    ADN_FOR_EACH(e, p.count)
    {
        const adn_pool_place at = place_of(p, e);
        const float v = p.alpha == 0.0f ? 0.0f : backward_one(dy, x, indices, p, at);
        adn_store_scaled(dx, offset_of(p.dx, at), v, p.alpha, p.beta);
    }
}

} // namespace

#define ADN_ENTRY_pool_forward(name, T, block, a, b, c, d, e, f)                                                       \
    ADN_KERNEL(name, block)(const T *x, T *y, int *indices, const __grid_constant__ Params p)                          \
    {                                                                                                                  \
        pool_forward<T>(x, y, indices, p);                                                                             \
    }
#define ADN_ENTRY_pool_backward(name, T, block, a, b, c, d, e, f)                                                      \
    ADN_KERNEL(name, block)(const T *dy, const T *x, const int *indices, T *dx, const __grid_constant__ Params p)      \
    {                                                                                                                  \
        pool_backward<T>(dy, x, indices, dx, p);                                                                       \
    }
#include "../common/engines/pool.variants"
