// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/conv_direct.cu: convolution straight from its formulas: one thread for each element of y or dx, which
// loops over channels and filter; one block for each element of dw, whose threads share images and positions and add
// up in a fixed order. No workspace, no limits.
#include "block_reduce.cuh"
#include "conv_epilogue.cuh"
#include "../common/engines/conv_direct_params.h"

__device__ __forceinline__ adn_conv_place place_of(adn_i64 i, const adn_conv_direct_params &p)
{
    return adn_conv_place_of(i, p.narrow, p.channel_inner, p.size[0], p.size[1], p.size[2], p.size[3]);
}

__device__ __forceinline__ adn_i64 offset_of(const adn_conv_place &e, const adn_i64 (&s)[5])
{
    return e.n * s[0] + e.c * s[1] + e.z * s[2] + e.y * s[3] + e.x * s[4];
}

template <typename T, typename W, int BLOCK>
__device__ void conv_direct_forward(const T *x, const W *w, const adn_conv_places &m, const adn_conv_direct_params &p)
{
    typedef typename adn_sum_of<T>::type S;
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.count; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_conv_place e = place_of(i, p);
        const T *xn = x + (e.n * p.xs[0] + e.c / p.k_group * p.c_group * p.xs[1]);
        const W *wk = w + (e.c * p.ws[0] + p.w_origin);
        S sum = 0;
        for (adn_i64 c = 0; c < p.c_group && p.e.alpha != 0.0f; c++)
            for (adn_i64 t = 0; t < p.filter[0]; t++) {
                const adn_i64 d = e.z * p.stride[0] - p.pad[0] + t * p.dilation[0];
                if (d < 0 || d >= p.in[0]) continue;
                for (adn_i64 r = 0; r < p.filter[1]; r++) {
                    const adn_i64 h = e.y * p.stride[1] - p.pad[1] + r * p.dilation[1];
                    if (h < 0 || h >= p.in[1]) continue;
                    for (adn_i64 s = 0; s < p.filter[2]; s++) {
                        const adn_i64 v = e.x * p.stride[2] - p.pad[2] + s * p.dilation[2];
                        if (v < 0 || v >= p.in[2]) continue;
                        sum += adn_conv_input(xn, c * p.xs[1] + d * p.xs[2] + h * p.xs[3] + v * p.xs[4], p.e.x_zero) *
                               adn_load(wk, c * p.ws[1] + t * p.ws[2] + r * p.ws[3] + s * p.ws[4]);
                    }
                }
            }
        adn_conv_output<T>::store(sum, e.c, offset_of(e, p.ys), offset_of(e, p.zs), m, p.e);
    }
}

// The output position that tap `t` of an axis carries to input position `i`, or -1.
__device__ __forceinline__ adn_i64 position_of(adn_i64 i, adn_i64 t, int axis, const adn_conv_direct_params &p)
{
    const adn_i64 scaled = i + p.pad[axis] - t * p.dilation[axis];
    const adn_i64 o = scaled / p.stride[axis];
    return scaled >= 0 && o * p.stride[axis] == scaled && o < p.out[axis] ? o : -1;
}

template <typename T, int BLOCK>
__device__ void conv_direct_data(const T *dy, const T *w, const adn_conv_places &m, const adn_conv_direct_params &p)
{
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.count; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_conv_place e = place_of(i, p);
        const adn_i64 group = e.c / p.c_group;
        const T *dyn = dy + (e.n * p.ys[0] + group * p.k_group * p.ys[1]);
        const T *wc = w + (group * p.k_group * p.ws[0] + (e.c - group * p.c_group) * p.ws[1] + p.w_origin);
        typename adn_sum_of<T>::type sum = 0;
        for (adn_i64 t = 0; t < p.filter[0] && p.e.alpha != 0.0f; t++) {
            const adn_i64 o = position_of(e.z, t, 0, p);
            if (o < 0) continue;
            for (adn_i64 r = 0; r < p.filter[1]; r++) {
                const adn_i64 u = position_of(e.y, r, 1, p);
                if (u < 0) continue;
                for (adn_i64 s = 0; s < p.filter[2]; s++) {
                    const adn_i64 v = position_of(e.x, s, 2, p);
                    if (v < 0) continue;
                    for (adn_i64 k = 0; k < p.k_group; k++)
                        sum += adn_load(dyn, k * p.ys[1] + o * p.ys[2] + u * p.ys[3] + v * p.ys[4]) *
                               adn_load(wc, k * p.ws[0] + t * p.ws[2] + r * p.ws[3] + s * p.ws[4]);
                }
            }
        }
        adn_conv_output<T>::store(sum, e.c, offset_of(e, p.xs), offset_of(e, p.zs), m, p.e);
    }
}

template <typename T, int BLOCK>
__device__ void conv_direct_filter(const T *x, const T *dy, const adn_conv_places &m, const adn_conv_direct_params &p)
{
    typedef typename adn_sum_of<T>::type S;
    __shared__ S scratch[BLOCK / 32];
    const adn_i64 positions = p.e.alpha == 0.0f ? 0 : p.n * p.size[1].value * p.size[2].value * p.size[3].value;
    for (adn_i64 i = blockIdx.x; i < p.count; i += gridDim.x) {
        adn_i64 rest = i;
        const adn_i64 s = rest % p.filter[2];
        rest /= p.filter[2];
        const adn_i64 r = rest % p.filter[1];
        rest /= p.filter[1];
        const adn_i64 t = rest % p.filter[0];
        rest /= p.filter[0];
        const adn_i64 c = rest % p.c_group, k = rest / p.c_group;
        const T *xc = x + (k / p.k_group * p.c_group + c) * p.xs[1], *dyk = dy + k * p.ys[1];
        S sum = 0;
        for (adn_i64 j = threadIdx.x; j < positions; j += BLOCK) {
            const adn_conv_place e = place_of(j, p);
            const adn_i64 d = e.z * p.stride[0] - p.pad[0] + t * p.dilation[0];
            const adn_i64 h = e.y * p.stride[1] - p.pad[1] + r * p.dilation[1];
            const adn_i64 v = e.x * p.stride[2] - p.pad[2] + s * p.dilation[2];
            if (d < 0 || d >= p.in[0] || h < 0 || h >= p.in[1] || v < 0 || v >= p.in[2]) continue;
            sum += adn_load(xc, e.n * p.xs[0] + d * p.xs[2] + h * p.xs[3] + v * p.xs[4]) *
                   adn_load(dyk, e.n * p.ys[0] + e.z * p.ys[2] + e.y * p.ys[3] + e.x * p.ys[4]);
        }
        sum = adn_block_sum<BLOCK>(sum, scratch);
        if (threadIdx.x == 0)
            adn_conv_output<T>::store(
                sum, 0, k * p.ws[0] + c * p.ws[1] + t * p.ws[2] + r * p.ws[3] + s * p.ws[4] + p.w_origin, 0, m, p.e);
    }
}

// One block for each channel.
template <typename T, int BLOCK>
__device__ void conv_direct_bias(const T *dy, T *dbias, const adn_conv_direct_params &p)
{
    typedef typename adn_sum_of<T>::type S;
    __shared__ S scratch[BLOCK / 32];
    const adn_i64 positions = p.e.alpha == 0.0f ? 0 : p.n * p.size[1].value * p.size[2].value * p.size[3].value;
    for (adn_i64 k = blockIdx.x; k < p.count; k += gridDim.x) {
        S sum = 0;
        for (adn_i64 j = threadIdx.x; j < positions; j += BLOCK)
            sum += adn_load(dy + k * p.ys[1], offset_of(place_of(j, p), p.ys));
        sum = adn_block_sum<BLOCK>(sum, scratch);
        if (threadIdx.x == 0)
            adn_conv_output<T>::store(sum, 0, k * p.ws[0], 0, adn_conv_places{ nullptr, nullptr, nullptr, dbias }, p.e);
    }
}

#define ADN_PLACES const void *bias, const void *z, const float *scales, void *y
#define ADN_ENTRY_conv_direct_forward(name, T, block, a, b, c, d, e, f)                                                \
    ADN_KERNEL(name, block)                                                                                            \
    (const T *x, const adn_conv_filter<T>::type *w, ADN_PLACES, const __grid_constant__ adn_conv_direct_params p)      \
    {                                                                                                                  \
        conv_direct_forward<T, adn_conv_filter<T>::type, block>(x, w, adn_conv_places{ bias, z, scales, y }, p);       \
    }
#define ADN_ENTRY_conv_direct_data(name, T, block, a, b, c, d, e, f)                                                   \
    ADN_KERNEL(name, block)(const T *dy, const T *w, ADN_PLACES, const __grid_constant__ adn_conv_direct_params p)     \
    {                                                                                                                  \
        conv_direct_data<T, block>(dy, w, adn_conv_places{ bias, z, scales, y }, p);                                   \
    }
#define ADN_ENTRY_conv_direct_filter(name, T, block, a, b, c, d, e, f)                                                 \
    ADN_KERNEL(name, block)(const T *x, const T *dy, ADN_PLACES, const __grid_constant__ adn_conv_direct_params p)     \
    {                                                                                                                  \
        conv_direct_filter<T, block>(x, dy, adn_conv_places{ bias, z, scales, y }, p);                                 \
    }
#define ADN_ENTRY_conv_direct_bias(name, T, block, a, b, c, d, e, f)                                                   \
    ADN_KERNEL(name, block)(const T *dy, T *dbias, const __grid_constant__ adn_conv_direct_params p)                   \
    {                                                                                                                  \
        conv_direct_bias<T, block>(dy, dbias, p);                                                                      \
    }
#include "../common/engines/conv_direct.variants"
