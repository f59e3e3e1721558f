/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/conv_direct.cl: convolution straight from its formulas: one work item for each element of y or dx, which
 * loops over channels and filter; one group for each element of dw, whose work items share images and positions and
 * add up in a fixed order. No workspace, no limits. The CUDA side takes the same steps. */
#include "block_reduce.clh"
#include "conv_epilogue.clh"
#include "../common/engines/conv_direct_params.h"

#define PLACE_OF(i) adn_conv_place_of((i), p.narrow, p.channel_inner, p.size[0], p.size[1], p.size[2], p.size[3])

#define OFFSET_OF(e, s) ((e).n * (s)[0] + (e).c * (s)[1] + (e).z * (s)[2] + (e).y * (s)[3] + (e).x * (s)[4])

ADN_KERNEL(conv_direct_forward)(ADN_IN(x), ADN_IN(w), ADN_CONV_PLACES, struct adn_conv_direct_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_IN(ADN_TW, w);
    ADN_CONV_PLACES_OF(m);
    adn_i64 i, c, t, r, s;
    for (i = (adn_i64)get_global_id(0); i < p.count; i += (adn_i64)get_global_size(0)) {
        const struct adn_conv_place e = PLACE_OF(i);
        __global const ADN_T *xn = x + (e.n * p.xs[0] + e.c / p.k_group * p.c_group * p.xs[1]);
        __global const ADN_TW *wk = w + (e.c * p.ws[0] + p.w_origin);
        ADN_SUM sum = 0;
        for (c = 0; c < p.c_group && p.e.alpha != 0.0f; c++)
            for (t = 0; t < p.filter[0]; t++) {
                const adn_i64 d = e.z * p.stride[0] - p.pad[0] + t * p.dilation[0];
                if (d < 0 || d >= p.in[0]) continue;
                for (r = 0; r < p.filter[1]; r++) {
                    const adn_i64 h = e.y * p.stride[1] - p.pad[1] + r * p.dilation[1];
                    if (h < 0 || h >= p.in[1]) continue;
                    for (s = 0; s < p.filter[2]; s++) {
                        const adn_i64 v = e.x * p.stride[2] - p.pad[2] + s * p.dilation[2];
                        if (v < 0 || v >= p.in[2]) continue;
                        sum += ADN_CONV_INPUT(xn, c * p.xs[1] + d * p.xs[2] + h * p.xs[3] + v * p.xs[4], p.e.x_zero) *
                               ADN_LOAD(wk, c * p.ws[1] + t * p.ws[2] + r * p.ws[3] + s * p.ws[4]);
                    }
                }
            }
        adn_conv_store(sum, e.c, OFFSET_OF(e, p.ys), OFFSET_OF(e, p.zs), &m, &p.e);
    }
}

#if !defined(ADN_BYTES)

/* The output position that tap `t` of an axis carries to input position `i`, or -1. */
ADN_FN adn_i64 position_of(adn_i64 i, adn_i64 t, adn_i64 pad, adn_i64 dilation, adn_i64 stride, adn_i64 out)
{
    const adn_i64 scaled = i + pad - t * dilation;
    const adn_i64 o = scaled / stride;
    return scaled >= 0 && o * stride == scaled && o < out ? o : -1;
}
#define POSITION_OF(i, t, axis) position_of((i), (t), p.pad[axis], p.dilation[axis], p.stride[axis], p.out[axis])

ADN_KERNEL(conv_direct_data)(ADN_IN(dy), ADN_IN(w), ADN_CONV_PLACES, struct adn_conv_direct_params p)
{
    ADN_PTR_IN(ADN_T, dy);
    ADN_PTR_IN(ADN_T, w);
    ADN_CONV_PLACES_OF(m);
    adn_i64 i, k, t, r, s;
    for (i = (adn_i64)get_global_id(0); i < p.count; i += (adn_i64)get_global_size(0)) {
        const struct adn_conv_place e = PLACE_OF(i);
        const adn_i64 group = e.c / p.c_group;
        __global const ADN_T *dyn = dy + (e.n * p.ys[0] + group * p.k_group * p.ys[1]);
        __global const ADN_T *wc =
            w + (group * p.k_group * p.ws[0] + (e.c - group * p.c_group) * p.ws[1] + p.w_origin);
        ADN_SUM sum = 0;
        for (t = 0; t < p.filter[0] && p.e.alpha != 0.0f; t++) {
            const adn_i64 o = POSITION_OF(e.z, t, 0);
            if (o < 0) continue;
            for (r = 0; r < p.filter[1]; r++) {
                const adn_i64 u = POSITION_OF(e.y, r, 1);
                if (u < 0) continue;
                for (s = 0; s < p.filter[2]; s++) {
                    const adn_i64 v = POSITION_OF(e.x, s, 2);
                    if (v < 0) continue;
                    for (k = 0; k < p.k_group; k++)
                        sum += ADN_LOAD(dyn, k * p.ys[1] + o * p.ys[2] + u * p.ys[3] + v * p.ys[4]) *
                               ADN_LOAD(wc, k * p.ws[0] + t * p.ws[2] + r * p.ws[3] + s * p.ws[4]);
                }
            }
        }
        adn_conv_store(sum, e.c, OFFSET_OF(e, p.xs), OFFSET_OF(e, p.zs), &m, &p.e);
    }
}

ADN_KERNEL(conv_direct_filter)(ADN_IN(x), ADN_IN(dy), ADN_CONV_PLACES, struct adn_conv_direct_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_IN(ADN_T, dy);
    ADN_CONV_PLACES_OF(m);
    __local ADN_SUM scratch[ADN_BLOCK];
    const adn_i64 positions = p.e.alpha == 0.0f ? 0 : p.n * p.size[1].value * p.size[2].value * p.size[3].value;
    adn_i64 i, j;
    for (i = (adn_i64)get_group_id(0); i < p.count; i += (adn_i64)get_num_groups(0)) {
        const adn_i64 s = i % p.filter[2], i3 = i / p.filter[2];
        const adn_i64 r = i3 % p.filter[1], i2 = i3 / p.filter[1];
        const adn_i64 t = i2 % p.filter[0], i1 = i2 / p.filter[0];
        const adn_i64 c = i1 % p.c_group, k = i1 / p.c_group;
        __global const ADN_T *xc = x + (k / p.k_group * p.c_group + c) * p.xs[1], *dyk = dy + k * p.ys[1];
        ADN_SUM sum = 0;
        for (j = (adn_i64)get_local_id(0); j < positions; j += ADN_BLOCK) {
            const struct adn_conv_place e = PLACE_OF(j);
            const adn_i64 d = e.z * p.stride[0] - p.pad[0] + t * p.dilation[0];
            const adn_i64 h = e.y * p.stride[1] - p.pad[1] + r * p.dilation[1];
            const adn_i64 v = e.x * p.stride[2] - p.pad[2] + s * p.dilation[2];
            if (d >= 0 && d < p.in[0] && h >= 0 && h < p.in[1] && v >= 0 && v < p.in[2])
                sum += ADN_LOAD(xc, e.n * p.xs[0] + d * p.xs[2] + h * p.xs[3] + v * p.xs[4]) *
                       ADN_LOAD(dyk, e.n * p.ys[0] + e.z * p.ys[2] + e.y * p.ys[3] + e.x * p.ys[4]);
        }
        sum = adn_block_sum(sum, scratch);
        if (get_local_id(0) == 0) {
            const adn_i64 at = k * p.ws[0] + c * p.ws[1] + t * p.ws[2] + r * p.ws[3] + s * p.ws[4] + p.w_origin;
            adn_conv_store(sum, 0, at, 0, &m, &p.e);
        }
    }
}

#if defined(ADN_DTYPE_F64)
/* One group for each channel. */
ADN_KERNEL(conv_direct_bias)(ADN_IN(dy), ADN_OUT(y), struct adn_conv_direct_params p)
{
    ADN_PTR_IN(ADN_T, dy);
    struct adn_conv_places m;
    __local ADN_SUM scratch[ADN_BLOCK];
    const adn_i64 positions = p.e.alpha == 0.0f ? 0 : p.n * p.size[1].value * p.size[2].value * p.size[3].value;
    adn_i64 k, j;
    m.bias = m.z = 0;
    m.scales = 0;
    m.y = y_base + y_offset;
    for (k = (adn_i64)get_group_id(0); k < p.count; k += (adn_i64)get_num_groups(0)) {
        ADN_SUM sum = 0;
        for (j = (adn_i64)get_local_id(0); j < positions; j += ADN_BLOCK) {
            const struct adn_conv_place e = PLACE_OF(j);
            sum += ADN_LOAD(dy, k * p.ys[1] + OFFSET_OF(e, p.ys));
        }
        sum = adn_block_sum(sum, scratch);
        if (get_local_id(0) == 0) adn_conv_store(sum, 0, k * p.ws[0], 0, &m, &p.e);
    }
}
#endif
#endif
