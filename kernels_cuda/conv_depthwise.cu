// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/conv_depthwise.cu: convolution with one input channel to a group.
//
// Kernels  depthwise_gather: y or dx (common/engines/conv_depthwise_params.h): a thread makes V neighbouring channels
//          of one position, or of ADN_DEPTHWISE_ROWS of them down an axis H of stride and dilation 1, where each input
//          row serves all outputs that see it. Threads lie along W or the channels, as the output does in memory.
//          depthwise_pack: the filter as [tap][channel], so that V channels of a tap are one load.
//          depthwise_filter: dw: a block sums one row of taps of neighbouring channels over a segment of images and
//          positions; depthwise_sum adds the segments up in order.
// Limits   Filters up to 7 along each axis; coordinates below 2^30; V > 1 needs aligned channels.
#include "conv_epilogue.cuh"
#include "pack.cuh"
#include "../common/engines/conv_depthwise_params.h"

constexpr int ROWS = ADN_DEPTHWISE_ROWS, TAPS = ADN_DEPTHWISE_TAPS;

__device__ __forceinline__ adn_conv_place place_of(adn_i64 i, const adn_depthwise_params &p)
{
    return adn_conv_place_of(i, 1, p.channel_inner, p.size[0], p.size[1], p.size[2], p.size[3]);
}

__device__ __forceinline__ bool inside(int at, const adn_depthwise_axis &axis)
{
    return (unsigned)at < (unsigned)axis.limit;
}

template <typename T, int V>
__device__ __forceinline__ void load_tap(const T *tap, const adn_depthwise_params &p, float (&v)[V])
{
    if (V > 1 && p.packed) {
        adn_load_pack<T, V>(tap, 0, false, v);
    } else {
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = adn_load(tap, k * p.w_channel);
    }
}

// sum[i] += one plane of the input, rows row + i .. row + i + R - 1, under one plane of the filter.
template <typename T, int V, int R>
__device__ __forceinline__ void add_window(const T *in, const T *w, int row, adn_depthwise_span x,
                                           const adn_depthwise_params &p, float (&sum)[ROWS][V])
{
    for (; x.tap < p.axis[2].taps; x.tap += p.axis[2].tap_step, x.at += p.axis[2].step) {
        if (!inside(x.at, p.axis[2])) continue;
        const T *from = in + (row * p.in[3] + x.at * p.in[4]), *tap = w + x.tap * p.w[2];
        float f[R][V];
#pragma unroll
        for (int r = 0; r < R; r++, tap += p.w[1]) load_tap<T, V>(tap, p, f[r]);
#pragma unroll
        for (int j = 0; j < ROWS + R - 1; j++, from += p.in[3]) {
            if (!inside(row + j, p.axis[1])) continue;
            float v[V];
            adn_load_pack<T, V>(from, 0, false, v);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                if (j >= i && j - i < R)
#pragma unroll
                    for (int k = 0; k < V; k++) sum[i][k] += v[k] * f[j - i][k];
        }
    }
}

template <typename T, int V>
__device__ __forceinline__ void add_plain(const T *in, const T *w, adn_depthwise_span y, adn_depthwise_span x0,
                                          const adn_depthwise_params &p, float (&sum)[V])
{
    for (; y.tap < p.axis[1].taps; y.tap += p.axis[1].tap_step, y.at += p.axis[1].step) {
        if (!inside(y.at, p.axis[1])) continue;
        const T *row = in + y.at * p.in[3], *taps = w + y.tap * p.w[1];
        for (adn_depthwise_span x = x0; x.tap < p.axis[2].taps; x.tap += p.axis[2].tap_step, x.at += p.axis[2].step) {
            if (!inside(x.at, p.axis[2])) continue;
            float v[V], f[V];
            adn_load_pack<T, V>(row, x.at * p.in[4], false, v);
            load_tap<T, V>(taps + x.tap * p.w[2], p, f);
#pragma unroll
            for (int k = 0; k < V; k++) sum[k] += v[k] * f[k];
        }
    }
}

// One channel, or V of them: all planes of the filter.
template <typename T, int V>
__device__ __forceinline__ void add_channel(const T *in, const T *w, const adn_conv_place &e,
                                            const adn_depthwise_params &p, float (&sum)[ROWS][V])
{
    const adn_depthwise_span y = adn_depthwise_span_of((int)e.y * p.rows, p.axis[1]);
    const adn_depthwise_span x = adn_depthwise_span_of((int)e.x, p.axis[2]);
    adn_depthwise_span z = adn_depthwise_span_of((int)e.z, p.axis[0]);
    for (; z.tap < p.axis[0].taps; z.tap += p.axis[0].tap_step, z.at += p.axis[0].step) {
        if (!inside(z.at, p.axis[0])) continue;
        const T *plane = in + z.at * p.in[2], *taps = w + z.tap * p.w[0];
        if (p.window == 3)
            add_window<T, V, 3>(plane, taps, y.at, x, p, sum);
        else if (p.window == 5)
            add_window<T, V, 5>(plane, taps, y.at, x, p, sum);
        else if (p.window == 7)
            add_window<T, V, 7>(plane, taps, y.at, x, p, sum);
        else
            add_plain<T, V>(plane, taps, y, x, p, sum[0]);
    }
}

template <typename T, int BLOCK, int V>
__device__ void depthwise_gather(const T *in, const T *w, const T *bias, const T *z, T *out, const adn_depthwise_params &p)
{
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.count; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_conv_place e = place_of(i, p);
        const adn_i64 c = e.c * V;
        float sum[ROWS][V] = {}, shift[V] = {};
        if (p.e.alpha != 0.0f) {
            adn_i64 unused;
            const adn_i64 first = adn_divide(c, p.up, 1, &unused) * p.down;
            for (int m = 0; m < p.down; m++)
                add_channel<T, V>(in + (e.n * p.in[0] + (first + m) * p.in[1]),
                                  w + (p.w_origin + (c * p.down + m) * p.w_channel), e, p, sum);
        }
        if (p.e.biased)
#pragma unroll
            for (int k = 0; k < V; k++) shift[k] = adn_load(bias, (c + k) * p.e.bias_step);
        const int y = (int)e.y * p.rows;
        const adn_i64 at = e.n * p.out[0] + c * p.out[1] + e.z * p.out[2] + y * p.out[3] + e.x * p.out[4];
        T *to = out + at;
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            if (j >= p.rows || y + j >= p.axis[1].extent) break;
            float old[V] = {}, more[V] = {};
            const bool residual = p.e.residual && p.e.alpha2 != 0.0f;
            if (p.e.beta != 0.0f) adn_load_pack<T, V>(to, j * p.out[3], false, old);
            if (residual) adn_load_pack<T, V>(z, at + j * p.out[3], false, more);
#pragma unroll
            for (int k = 0; k < V; k++) {
                sum[j][k] = sum[j][k] * p.e.alpha + shift[k];
                if (residual) sum[j][k] += p.e.alpha2 * more[k];
                if (p.e.beta != 0.0f) sum[j][k] += p.e.beta * old[k];
                sum[j][k] = adn_conv_activated(p.e.activation, p.e.coef, sum[j][k]);
            }
            adn_store_pack<T, V>(to, j * p.out[3], sum[j]);
        }
    }
}

// Element number of a filter as [t][r][s][channel] -> its offset in the tensor.
__device__ __forceinline__ adn_i64 filter_offset(adn_i64 i, const adn_depthwise_params &p)
{
    const int tap = (int)i / (int)p.channels, k = (int)i % (int)p.channels;
    const int row = tap / p.axis[2].taps, s = tap % p.axis[2].taps;
    const int t = row / p.axis[1].taps, r = row % p.axis[1].taps;
    return p.w_origin + k * p.w_channel + t * p.w[0] + r * p.w[1] + s * p.w[2];
}

template <typename T, int BLOCK> __device__ void depthwise_pack(const T *w, T *packed, const adn_depthwise_params &p)
{
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.count; i += (adn_i64)gridDim.x * BLOCK)
        packed[i] = w[filter_offset(i, p)];
}

// sum[s] += the products of this thread's positions of channel k with taps t, r, s.
template <typename T>
__device__ __forceinline__ void add_positions(const T *x, const T *dy, adn_i64 first, adn_i64 end, int lanes, int t,
                                              int r, const adn_depthwise_params &p, float (&sum)[TAPS])
{
    for (adn_i64 m = first; m < end; m += lanes) {
        const adn_conv_place e = place_of(m, p);
        const int z = adn_depthwise_span_of((int)e.z, p.axis[0]).at + t * p.axis[0].dilation;
        const int y = adn_depthwise_span_of((int)e.y, p.axis[1]).at + r * p.axis[1].dilation;
        int at = adn_depthwise_span_of((int)e.x, p.axis[2]).at;
        if (!inside(z, p.axis[0]) || !inside(y, p.axis[1])) continue;
        const T *row = x + (e.n * p.in[0] + z * p.in[2] + y * p.in[3]);
        const float v = adn_load(dy, e.n * p.out[0] + e.z * p.out[2] + e.y * p.out[3] + e.x * p.out[4]);
#pragma unroll
        for (int s = 0; s < TAPS; s++, at += p.axis[2].dilation) {
            if (s >= p.axis[2].taps) break;
            if (inside(at, p.axis[2])) sum[s] += v * adn_load(row, at * p.in[4]);
        }
    }
}

template <typename T, int BLOCK>
__device__ void depthwise_filter(const T *x, const T *dy, T *dw, float *parts, const adn_depthwise_params &p)
{
    __shared__ float scratch[TAPS][BLOCK];
    const int tid = threadIdx.x, channels = 1 << p.lanes_log2, lanes = BLOCK >> p.lanes_log2;
    const adn_i64 positions = p.e.alpha == 0.0f ? 0 : p.positions;
    for (adn_i64 unit = blockIdx.x; unit < p.count; unit += gridDim.x) {
        adn_i64 tap_row, chunk, unused;
        const adn_i64 segment = adn_divide(adn_divide(unit, p.tap_rows, 1, &tap_row), p.chunks, 1, &chunk);
        const adn_i64 k = (chunk << p.lanes_log2) + (tid & (channels - 1));
        const int t = (int)tap_row / p.axis[1].taps, r = (int)tap_row % p.axis[1].taps;
        const adn_i64 first = segment * p.segment, end = min(first + p.segment, positions);
        float sum[TAPS] = {};
        if (k < p.channels)
            add_positions<T>(x + adn_divide(k, p.up, 1, &unused) * p.in[1], dy + k * p.out[1],
                             first + (tid >> p.lanes_log2), end, lanes, t, r, p, sum);
#pragma unroll
        for (int s = 0; s < TAPS; s++) scratch[s][tid] = sum[s];
        __syncthreads();
        for (int half = BLOCK / 2; half >= channels; half >>= 1) {
#pragma unroll
            for (int s = 0; s < TAPS; s++)
                if (tid < half) scratch[s][tid] += scratch[s][tid + half];
            __syncthreads();
        }
        for (int s = 0; s < p.axis[2].taps && tid < channels && k < p.channels; s++) {
            if (p.segments > 1)
                parts[((segment * p.tap_rows.value + tap_row) * p.axis[2].taps + s) * p.channels + k] = scratch[s][tid];
            else
                adn_store_scaled(dw, p.w_origin + k * p.w_channel + t * p.w[0] + r * p.w[1] + s * p.w[2],
                                 scratch[s][tid], p.e.alpha, p.e.beta);
        }
        __syncthreads();
    }
}

template <typename T, int BLOCK> __device__ void depthwise_sum(const float *parts, T *dw, const adn_depthwise_params &p)
{
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.count; i += (adn_i64)gridDim.x * BLOCK) {
        float sum = 0.0f;
#pragma unroll 8
        for (adn_i64 segment = 0; segment < p.segments; segment++) sum += parts[segment * p.count + i];
        adn_store_scaled(dw, filter_offset(i, p), sum, p.e.alpha, p.e.beta);
    }
}

// As many blocks a multiprocessor as their sums and taps leave registers for.
#define ADN_ENTRY_depthwise_gather(name, T, block, v, b, c, d, e, f)                                                   \
    extern "C" __global__ void __launch_bounds__(block, v > 1 ? 5 : 8)                                                 \
        name(const T *in, const T *w, const T *bias, const T *z, const float *, T *out,                                \
             const __grid_constant__ adn_depthwise_params p)                                                           \
    {                                                                                                                  \
        depthwise_gather<T, block, v>(in, w, bias, z, out, p);                                                         \
    }
#define ADN_ENTRY_depthwise_pack(name, T, block, a, b, c, d, e, f)                                                     \
    ADN_KERNEL(name, block)(const T *w, T *packed, const __grid_constant__ adn_depthwise_params p)                     \
    {                                                                                                                  \
        depthwise_pack<T, block>(w, packed, p);                                                                        \
    }
#define ADN_ENTRY_depthwise_filter(name, T, block, a, b, c, d, e, f)                                                   \
    ADN_KERNEL(name, block)                                                                                            \
    (const T *x, const T *dy, T *dw, float *parts, const __grid_constant__ adn_depthwise_params p)                     \
    {                                                                                                                  \
        depthwise_filter<T, block>(x, dy, dw, parts, p);                                                               \
    }
#define ADN_ENTRY_depthwise_sum(name, T, block, a, b, c, d, e, f)                                                      \
    ADN_KERNEL(name, block)(const float *parts, T *dw, const __grid_constant__ adn_depthwise_params p)                 \
    {                                                                                                                  \
        depthwise_sum<T, block>(parts, dw, p);                                                                         \
    }
#define ADN_VARIANT_CL(...)
#include "../common/engines/conv_depthwise.variants"
