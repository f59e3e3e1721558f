/* SPDX-License-Identifier: Apache-2.0
 * common/engines/pool_params.h: parameters of the pooling kernels and the window arithmetic they share, for C, CUDA
 * and OpenCL C. Axes are D, H, W; absent ones have size 1, window 1, stride 1, pad 0. */
#ifndef ADN_POOL_PARAMS_H
#define ADN_POOL_PARAMS_H
#include "../index/walk.h"

/* Every member, and padded + stride + dilation, is below 2^30: coordinates are 32 bits wide, offsets 64. */
struct adn_pool_axis {
    struct adn_divisor stride, dilation;
    adn_i32 in, out, window, pad;
    adn_i32 padded; /* pad + in + pad_end */
    adn_i32 reach;  /* (window - 1) * dilation */
};

/* Strides are of N, C, D, H, W. `walked` elements are those of y (forward) or dx (backward), one thread each. */
struct adn_pool_params {
    struct adn_pool_axis axis[3];
    struct adn_divisor channels, size[3]; /* sizes of the walked tensor */
    adn_i64 count;                        /* its elements; 0 = do nothing */
    adn_i64 x[5], y[5], indices[5], dx[5];
    float alpha, beta;
    adn_i32 mode; /* anydnn_pool_mode */
    adn_i32 has_indices;
    adn_i32 channels_last; /* threads walk C innermost, else W */
    adn_i32 narrow;        /* count < 2^31 */
};

/* An element of the walked tensor, and a range [first, end) of cells or positions. */
struct adn_pool_place {
    adn_i64 n, c;
    adn_i32 at[3];
};
struct adn_pool_range {
    adn_i32 first, end;
};

/* Smallest r >= 0 with r * d >= n: the number of cells before n. */
ADN_FN adn_i32 adn_pool_steps(adn_i32 n, struct adn_divisor d)
{
    return n <= 0 ? 0 : (adn_i32)adn_div32((adn_u32)(n + (adn_i32)d.value - 1), d.multiplier, d.shift);
}

ADN_FN adn_i32 adn_pool_least(adn_i32 a, adn_i32 b)
{
    return a < b ? a : b;
}

/* Window cells of output position o that lie in the input. */
ADN_FN struct adn_pool_range adn_pool_cells(struct adn_pool_axis a, adn_i32 o)
{
    struct adn_pool_range r;
    const adn_i32 start = o * (adn_i32)a.stride.value - a.pad;
    r.end = adn_pool_least(a.window, adn_pool_steps(a.in - start, a.dilation));
    r.first = adn_pool_least(adn_pool_steps(-start, a.dilation), r.end);
    return r;
}

/* Cells that an average divides by: those in the padded input, or those in the input. */
ADN_FN adn_i32 adn_pool_weight(struct adn_pool_axis a, adn_i32 o, adn_i32 include)
{
    struct adn_pool_range r;
    if (include) return adn_pool_least(a.window, adn_pool_steps(a.padded - o * (adn_i32)a.stride.value, a.dilation));
    r = adn_pool_cells(a, o);
    return r.end - r.first;
}

/* Output positions whose window reaches over input position i. With a dilation some of them pass by between two
 * cells: adn_pool_cell tells. */
ADN_FN struct adn_pool_range adn_pool_covering(struct adn_pool_axis a, adn_i32 i)
{
    struct adn_pool_range r;
    r.first = adn_pool_steps(i + a.pad - a.reach, a.stride);
    r.end = adn_pool_least(a.out, adn_pool_steps(i + a.pad + 1, a.stride));
    return r;
}

/* Cell of output position o's window that lies on input position i, -1 if none. */
ADN_FN adn_i32 adn_pool_cell(struct adn_pool_axis a, adn_i32 i, adn_i32 o)
{
    const adn_i32 t = i + a.pad - o * (adn_i32)a.stride.value;
    const adn_i32 cell = (adn_i32)adn_div32((adn_u32)t, a.dilation.multiplier, a.dilation.shift);
    return cell * (adn_i32)a.dilation.value == t ? cell : -1;
}

/* Input position of cell r of output position o. */
ADN_FN adn_i32 adn_pool_position(struct adn_pool_axis a, adn_i32 o, adn_i32 r)
{
    return o * (adn_i32)a.stride.value - a.pad + r * (adn_i32)a.dilation.value;
}

/* Coordinates of walked element e. */
ADN_FN struct adn_pool_place adn_pool_place_of(adn_i64 e, struct adn_divisor channels, struct adn_divisor d,
                                               struct adn_divisor h, struct adn_divisor w, adn_i32 channels_last,
                                               adn_i32 narrow)
{
    struct adn_pool_place p;
    adn_i64 rest;
    p.c = 0;
    if (channels_last) e = adn_divide(e, channels, narrow, &p.c);
    e = adn_divide(e, w, narrow, &rest);
    p.at[2] = (adn_i32)rest;
    e = adn_divide(e, h, narrow, &rest);
    p.at[1] = (adn_i32)rest;
    e = adn_divide(e, d, narrow, &rest);
    p.at[0] = (adn_i32)rest;
    if (!channels_last) e = adn_divide(e, channels, narrow, &p.c);
    p.n = e;
    return p;
}
#endif
