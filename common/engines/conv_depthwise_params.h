/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_depthwise_params.h: parameters of the conv_depthwise kernels.
 *
 * Forward and backward data are one gather. An output at `position` of an axis meets tap t at the input coordinate
 *     (position * scale - pad + t * dilation) / divide        where that is whole and in 0..limit-1
 * forward: scale = stride, divide = 1; backward data: scale = 1, divide = stride, the taps counted backwards. The taps
 * that divide evenly are every tap_step-th one, and from one to the next the coordinate moves by `step`. */
#ifndef ADN_CONV_DEPTHWISE_PARAMS_H
#define ADN_CONV_DEPTHWISE_PARAMS_H
#include "../index/conv_place.h"
#include "conv_epilogue.h"

/* Filter elements of an axis; outputs along H that a work item of the window path makes. */
#define ADN_DEPTHWISE_TAPS 7
#define ADN_DEPTHWISE_ROWS 4

struct adn_depthwise_axis {
    struct adn_divisor divide;
    adn_i32 taps, scale, pad, dilation;
    adn_i32 limit, extent; /* positions of the input, of the output */
    adn_i32 tap_step, step;
    adn_i32 lift, lift_quotient; /* a multiple of divide that makes position * scale - pad + lift >= 0; lift / divide */
    adn_i32 dilation_rest;       /* dilation % divide */
    adn_i32 unused;
};

struct adn_depthwise_params {
    struct adn_conv_epilogue e;
    struct adn_depthwise_axis axis[3];
    struct adn_divisor size[4];          /* digits of a work item: channel units, z, y (runs of rows), x */
    struct adn_divisor up;               /* first input channel = output channel / up * down, `down` of them in all */
    struct adn_divisor tap_rows, chunks; /* filter gradient: digits of a unit */
    adn_i64 in[5], out[5];               /* strides of N, C, D, H, W; filter gradient: of x and of dy */
    adn_i64 w_channel, w[3], w_origin;   /* of a filter's channel and taps, flips folded in */
    adn_i64 count;                        /* work items, filter gradient: units; 0: nothing to do */
    adn_i64 channels;                     /* filters; K */
    adn_i64 positions, segment, segments; /* filter gradient: of n, p, q; of them in a segment */
    adn_i32 down, rows, window;           /* rows of a work item; taps along H of the window path, 0 = the plain path */
    adn_i32 channel_inner, packed;
    adn_i32 lanes_log2; /* filter gradient: neighbouring channels of a block */
};

/* The taps of an axis that meet the input from one position. */
struct adn_depthwise_span {
    adn_i32 tap, at; /* the first tap, its coordinate */
};

ADN_FN struct adn_depthwise_span adn_depthwise_span_of(adn_i32 position, struct adn_depthwise_axis a)
{
    struct adn_depthwise_span s;
    s.tap = 0;
    s.at = position * a.scale - a.pad;
    if (a.divide.value != 1) {
        const adn_u32 n = (adn_u32)(s.at + a.lift), divide = (adn_u32)a.divide.value;
        adn_u32 rest = n - adn_div32(n, a.divide.multiplier, a.divide.shift) * divide;
        while (rest != 0 && s.tap < a.taps && s.tap < a.tap_step) {
            rest += (adn_u32)a.dilation_rest;
            if (rest >= divide) rest -= divide;
            s.tap++;
        }
        if (rest != 0) s.tap = a.taps;
        s.at = (adn_i32)adn_div32(n + (adn_u32)(s.tap * a.dilation), a.divide.multiplier, a.divide.shift) -
               a.lift_quotient;
    }
    return s;
}
#endif
