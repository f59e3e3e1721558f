/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/conv_depthwise.cl: convolution with one input channel to a group: the stages of
 * kernels_cuda/conv_depthwise.cu. C0 = channels of a work item of depthwise_gather. With a block of one work item
 * depthwise_filter sums alone, without barriers: the shape for CPUs. */
#define ADN_WIDTH ADN_C0
#include "conv_epilogue.clh"
#include "pack.clh"
#include "../common/engines/conv_depthwise_params.h"

#define ROWS ADN_DEPTHWISE_ROWS
#define TAPS ADN_DEPTHWISE_TAPS
#define PLACE_OF(i) adn_conv_place_of((i), 1, p.channel_inner, p.size[0], p.size[1], p.size[2], p.size[3])
#define SPAN_OF(i, k) adn_depthwise_span_of((adn_i32)(i), p.axis[k])
#define INSIDE(at, k) ((uint)(at) < (uint)p.axis[k].limit)
/* Steps a span through the taps of its axis. */
#define FOR_TAPS(span, k) for (; span.tap < p.axis[k].taps; span.tap += p.axis[k].tap_step, span.at += p.axis[k].step)

#if ADN_C0 == 1
#define LOAD_TAP(w, tap) ADN_LOAD(w, tap)
#define LOAD_BIAS(c) ADN_LOAD(bias, (c)*p.e.bias_step)
#define ACTIVATED(v) adn_conv_activated(p.e.activation, p.e.coef, v)
#else
ADN_FN ADN_VF load_spread(__global const ADN_T *w, adn_i64 at, adn_i64 step)
{
    return (ADN_VF)(ADN_LOAD(w, at), ADN_LOAD(w, at + step), ADN_LOAD(w, at + 2 * step), ADN_LOAD(w, at + 3 * step));
}
#define LOAD_TAP(w, tap) (p.packed ? ADN_LOAD_PACK(w, tap) : load_spread((w), (tap), p.w_channel))
#define LOAD_BIAS(c) load_spread(bias, (c)*p.e.bias_step, p.e.bias_step)
ADN_FN ADN_VF activated(int activation, float coef, ADN_VF v)
{
    return (ADN_VF)(adn_conv_activated(activation, coef, v.x), adn_conv_activated(activation, coef, v.y),
                    adn_conv_activated(activation, coef, v.z), adn_conv_activated(activation, coef, v.w));
}
#define ACTIVATED(v) activated(p.e.activation, p.e.coef, v)
#endif

/* sum[i] += one plane of the input, rows row + i .. row + i + R - 1, under one plane of the filter. */
#define ADD_WINDOW(R, plane, taps, row)                                                                                \
    FOR_TAPS(x, 2)                                                                                                     \
    {                                                                                                                  \
        __global const ADN_T *column = (plane) + ((row)*p.in[3] + x.at * p.in[4]);                                     \
        ADN_VF f[R];                                                                                                   \
        if (!INSIDE(x.at, 2)) continue;                                                                                \
        _Pragma("unroll") for (int r = 0; r < R; r++) f[r] = LOAD_TAP(taps, r * p.w[1] + x.tap * p.w[2]);              \
        _Pragma("unroll") for (int j = 0; j < ROWS + R - 1; j++)                                                       \
        {                                                                                                              \
            ADN_VF v;                                                                                                  \
            if (!INSIDE((row) + j, 1)) continue;                                                                       \
            v = ADN_LOAD_PACK(column, j * p.in[3]);                                                                    \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++) if (j >= i && j - i < R) sum[i] += v * f[j - i];          \
        }                                                                                                              \
    }

/* One channel, or ADN_WIDTH of them: all planes of the filter. */
#define ADD_CHANNEL(source, filter)                                                                                    \
    {                                                                                                                  \
        const struct adn_depthwise_span y0 = SPAN_OF(e.y * p.rows, 1), x0 = SPAN_OF(e.x, 2);                           \
        struct adn_depthwise_span z = SPAN_OF(e.z, 0);                                                                 \
        FOR_TAPS(z, 0)                                                                                                 \
        {                                                                                                              \
            __global const ADN_T *plane = (source) + z.at * p.in[2], *taps = (filter) + z.tap * p.w[0];                \
            struct adn_depthwise_span y = y0, x = x0;                                                                  \
            if (!INSIDE(z.at, 0)) continue;                                                                            \
            if (p.window == 3) {                                                                                       \
                ADD_WINDOW(3, plane, taps, y.at)                                                                       \
            } else if (p.window == 5) {                                                                                \
                ADD_WINDOW(5, plane, taps, y.at)                                                                       \
            } else if (p.window == 7) {                                                                                \
                ADD_WINDOW(7, plane, taps, y.at)                                                                       \
            } else {                                                                                                   \
                FOR_TAPS(y, 1)                                                                                         \
                {                                                                                                      \
                    if (!INSIDE(y.at, 1)) continue;                                                                    \
                    x = x0;                                                                                            \
                    FOR_TAPS(x, 2)                                                                                     \
                    if (INSIDE(x.at, 2))                                                                               \
                        sum[0] += ADN_LOAD_PACK(plane, y.at * p.in[3] + x.at * p.in[4]) *                              \
                                  LOAD_TAP(taps, y.tap * p.w[1] + x.tap * p.w[2]);                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

ADN_KERNEL(depthwise_gather)(ADN_IN(in), ADN_IN(w), ADN_IN(bias), ADN_IN(residual), ADN_IN(scales), ADN_OUT(out),
                             struct adn_depthwise_params p)
{
    ADN_PTR_IN(ADN_T, in);
    ADN_PTR_IN(ADN_T, w);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_IN(ADN_T, residual);
    ADN_PTR_OUT(ADN_T, out);
    adn_i64 i, unused;
    for (i = (adn_i64)get_global_id(0); i < p.count; i += (adn_i64)get_global_size(0)) {
        const struct adn_conv_place e = PLACE_OF(i);
        const adn_i64 c = e.c * ADN_WIDTH, first = adn_divide(c, p.up, 1, &unused) * p.down;
        const int y_first = (int)e.y * p.rows;
        const adn_i64 at = e.n * p.out[0] + c * p.out[1] + e.z * p.out[2] + y_first * p.out[3] + e.x * p.out[4];
        ADN_VF sum[ROWS], shift = 0.0f;
        for (int j = 0; j < ROWS; j++) sum[j] = 0.0f;
        for (int m = 0; m < p.down && p.e.alpha != 0.0f; m++)
            ADD_CHANNEL(in + (e.n * p.in[0] + (first + m) * p.in[1]), w + (p.w_origin + (c * p.down + m) * p.w_channel))
        if (p.e.biased) shift = LOAD_BIAS(c);
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            ADN_VF v = sum[j] * p.e.alpha + shift;
            if (j >= p.rows || y_first + j >= p.axis[1].extent) continue;
            if (p.e.residual && p.e.alpha2 != 0.0f) v += p.e.alpha2 * ADN_LOAD_PACK(residual, at + j * p.out[3]);
            if (p.e.beta != 0.0f) v += p.e.beta * ADN_LOAD_PACK(out, at + j * p.out[3]);
            if (p.e.activation) v = ACTIVATED(v);
            ADN_STORE_PACK(out, at + j * p.out[3], v);
        }
    }
}

#if ADN_C0 == 1
/* Element number of a filter as [t][r][s][channel] -> its offset in the tensor. */
#define FILTER_OFFSET(i, at)                                                                                           \
    do {                                                                                                               \
        const int tap_ = (int)(i) / (int)p.channels, k_ = (int)(i) % (int)p.channels;                                  \
        const int row_ = tap_ / p.axis[2].taps, s_ = tap_ % p.axis[2].taps;                                            \
        const int t_ = row_ / p.axis[1].taps, r_ = row_ % p.axis[1].taps;                                              \
        (at) = p.w_origin + k_ * p.w_channel + t_ * p.w[0] + r_ * p.w[1] + s_ * p.w[2];                                \
    } while (0)

ADN_KERNEL(depthwise_pack)(ADN_IN(w), ADN_OUT(packed), struct adn_depthwise_params p)
{
    ADN_PTR_IN(ADN_T, w);
    ADN_PTR_OUT(ADN_T, packed);
    adn_i64 i, at;
    for (i = (adn_i64)get_global_id(0); i < p.count; i += (adn_i64)get_global_size(0)) {
        FILTER_OFFSET(i, at);
        ADN_STORE(packed, i, ADN_LOAD(w, at));
    }
}

ADN_KERNEL(depthwise_filter)(ADN_IN(x), ADN_IN(dy), ADN_OUT(dw), ADN_OUT(parts), struct adn_depthwise_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_IN(ADN_T, dy);
    ADN_PTR_OUT(ADN_T, dw);
    ADN_PTR_OUT(float, parts);
#if ADN_BLOCK > 1
    __local float scratch[TAPS * ADN_BLOCK];
#endif
    const int tid = (int)get_local_id(0), channels = 1 << p.lanes_log2, lanes = ADN_BLOCK >> p.lanes_log2;
    const adn_i64 positions = p.e.alpha == 0.0f ? 0 : p.positions;
    adn_i64 unit, m;
    for (unit = (adn_i64)get_group_id(0); unit < p.count; unit += (adn_i64)get_num_groups(0)) {
        adn_i64 tap_row, chunk, unused;
        const adn_i64 segment = adn_divide(adn_divide(unit, p.tap_rows, 1, &tap_row), p.chunks, 1, &chunk);
        const adn_i64 k = (chunk << p.lanes_log2) + (tid & (channels - 1));
        const int t = (int)tap_row / p.axis[1].taps, r = (int)tap_row % p.axis[1].taps;
        const adn_i64 first = segment * p.segment, end = k < p.channels ? min(first + p.segment, positions) : 0;
        __global const ADN_T *xc = x + adn_divide(k, p.up, 1, &unused) * p.in[1], *dyk = dy + k * p.out[1];
        float sum[TAPS] = { 0.0f };
        for (m = first + (tid >> p.lanes_log2); m < end; m += lanes) {
            const struct adn_conv_place e = PLACE_OF(m);
            const int z = SPAN_OF(e.z, 0).at + t * p.axis[0].dilation, y = SPAN_OF(e.y, 1).at + r * p.axis[1].dilation;
            int at = SPAN_OF(e.x, 2).at;
            if (INSIDE(z, 0) && INSIDE(y, 1)) {
                const adn_i64 row = e.n * p.in[0] + z * p.in[2] + y * p.in[3];
                const float v = ADN_LOAD(dyk, e.n * p.out[0] + e.z * p.out[2] + e.y * p.out[3] + e.x * p.out[4]);
#pragma unroll
                for (int s = 0; s < TAPS; s++, at += p.axis[2].dilation) {
                    if (s >= p.axis[2].taps) break;
                    if (INSIDE(at, 2)) sum[s] += v * ADN_LOAD(xc, row + at * p.in[4]);
                }
            }
        }
#if ADN_BLOCK > 1
        for (int s = 0; s < TAPS; s++) scratch[s * ADN_BLOCK + tid] = sum[s];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int half_size = ADN_BLOCK / 2; half_size >= channels; half_size >>= 1) {
            for (int s = 0; s < TAPS && tid < half_size; s++)
                scratch[s * ADN_BLOCK + tid] += scratch[s * ADN_BLOCK + tid + half_size];
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (int s = 0; s < TAPS; s++) sum[s] = scratch[s * ADN_BLOCK + tid];
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        for (int s = 0; s < p.axis[2].taps && tid < channels && k < p.channels; s++) {
            const adn_i64 at = p.w_origin + k * p.w_channel + t * p.w[0] + r * p.w[1] + s * p.w[2];
            if (p.segments > 1)
                parts[((segment * p.tap_rows.value + tap_row) * p.axis[2].taps + s) * p.channels + k] = sum[s];
            else
                ADN_STORE_SCALED(dw, at, sum[s], p.e.alpha, p.e.beta);
        }
    }
}

ADN_KERNEL(depthwise_sum)(ADN_IN(parts), ADN_OUT(dw), struct adn_depthwise_params p)
{
    ADN_PTR_IN(float, parts);
    ADN_PTR_OUT(ADN_T, dw);
    adn_i64 i, at, segment;
    for (i = (adn_i64)get_global_id(0); i < p.count; i += (adn_i64)get_global_size(0)) {
        float sum = 0.0f;
        for (segment = 0; segment < p.segments; segment++) sum += parts[segment * p.count + i];
        FILTER_OFFSET(i, at);
        ADN_STORE_SCALED(dw, at, sum, p.e.alpha, p.e.beta);
    }
}
#endif
