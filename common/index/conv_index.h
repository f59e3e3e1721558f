/* SPDX-License-Identifier: Apache-2.0
 * common/index/conv_index.h: the three convolutions as one gathered matrix product, for all languages.
 *
 *   out[row, column] = sum over depth of A[row, depth] * B[depth, column]
 *
 * Columns and depths are numbers of four digits (u, z, y, x): u is a batch or channel, z, y, x are spatial. B is read
 * at the coordinates column part + depth part of each axis, and is 0 where a coordinate leaves 0..limit-1:
 *                    rows      column digits    depth digits     coordinate
 *   forward          K/groups  n, o, p, q       c, t, r, s       p * stride - pad + r * dilation    (of x)
 *   backward data    C/groups  n, d, h, w       k, t, r, s       (h + pad - r * dilation) / stride  (of dy)
 *   backward filter  K/groups  c, t, r, s       n, o, p, q       r * dilation - pad + p * stride    (of x)
 * Backward data splits each axis into phases h = phase + stride * i, so that the taps which divide evenly are every
 * tap_step-th one and the coordinate is linear in both digits again. The other two have one phase.
 * Numbers are below 2^31; offsets are 64 bits. */
#ifndef ADN_CONV_INDEX_H
#define ADN_CONV_INDEX_H
#include "walk.h"

struct adn_conv_axis {
    adn_i64 a;                   /* offset of A from one tap to the next */
    adn_i64 b;                   /* offset of B from one coordinate to the next */
    adn_i64 y;                   /* offset of the output from one position to the next */
    struct adn_divisor columns;  /* column digits of phase 0, which has the most */
    struct adn_divisor depth[2]; /* depth digits: of the phases with more taps, of those with fewer */
    adn_i32 column_step, depth_step, limit;
    adn_i32 extent; /* positions phase + stride * digit from here on do not exist */
    adn_i32 phases, stride, pad, dilation, taps, tap_step;
};

/* What one phase of an axis comes to. */
struct adn_conv_phase {
    adn_i32 first_tap, taps; /* taps first_tap, first_tap + tap_step, ... */
    adn_i32 origin;          /* coordinate of column digit 0 at the first tap */
};

ADN_FN struct adn_conv_phase adn_conv_phase_of(adn_i32 phase, adn_i32 stride, adn_i32 pad, adn_i32 dilation,
                                               adn_i32 taps, adn_i32 tap_step)
{
    struct adn_conv_phase f;
    adn_i32 t = 0;
    while (t < tap_step && t < taps && (phase + pad - t * dilation) % stride != 0) t++;
    f.first_tap = t;
    f.taps = t < tap_step && t < taps ? (taps - 1 - t) / tap_step + 1 : 0;
    f.origin = f.taps > 0 ? (phase + pad - t * dilation) / stride : 0;
    return f;
}

struct adn_digits {
    adn_i32 u, z, y, x;
};

/* n = ((u * z + z') * y + y') * x + x', or with u_inner ((z' * y + y') * x + x') * u + u'. */
ADN_FN struct adn_digits adn_digits_of(adn_i32 n, adn_i32 u_inner, struct adn_divisor u, struct adn_divisor z,
                                       struct adn_divisor y, struct adn_divisor x)
{
    struct adn_digits d;
    adn_u32 rest = (adn_u32)n, q;
    d.u = 0;
    if (u_inner) {
        q = adn_div32(rest, u.multiplier, u.shift);
        d.u = (adn_i32)(rest - q * (adn_u32)u.value);
        rest = q;
    }
    q = adn_div32(rest, x.multiplier, x.shift);
    d.x = (adn_i32)(rest - q * (adn_u32)x.value);
    rest = adn_div32(q, y.multiplier, y.shift);
    d.y = (adn_i32)(q - rest * (adn_u32)y.value);
    if (u_inner) {
        d.z = (adn_i32)rest;
    } else {
        q = adn_div32(rest, z.multiplier, z.shift);
        d.z = (adn_i32)(rest - q * (adn_u32)z.value);
        d.u = (adn_i32)q;
    }
    return d;
}
#endif
