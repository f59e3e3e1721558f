/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_direct_params.h: parameters of the conv_direct kernels: plain geometry, everything 64 bits. */
#ifndef ADN_CONV_DIRECT_PARAMS_H
#define ADN_CONV_DIRECT_PARAMS_H
#include "../index/walk.h"
#include "conv_epilogue.h"

struct adn_conv_direct_params {
    struct adn_conv_epilogue e;
    adn_i64 in[3], filter[3], out[3], stride[3], pad[3], dilation[3];
    adn_i64 xs[5], ws[5], ys[5]; /* of N,C,D,H,W; K,C,T,R,S; N,K,O,P,Q; a flip is folded into ws and w_origin */
    adn_i64 zs[5];               /* of z, as the output's */
    struct adn_divisor size[4];  /* element numbers: sizes of axes 1..4 of the output; filter: of the dy of a channel */
    adn_i64 w_origin;
    adn_i64 count;               /* outputs; 0: nothing to do */
    adn_i64 n, k_group, c_group; /* images; channels of a group */
    adn_i32 narrow, channel_inner;
};

struct adn_conv_place {
    adn_i64 n, c, z, y, x;
};

/* Element number -> its five digits, the channel outside or inside of the spatial ones. */
ADN_FN struct adn_conv_place adn_conv_place_of(adn_i64 i, adn_i32 narrow, adn_i32 channel_inner, struct adn_divisor c,
                                               struct adn_divisor z, struct adn_divisor y, struct adn_divisor x)
{
    struct adn_conv_place e;
    e.c = 0;
    if (channel_inner) i = adn_divide(i, c, narrow, &e.c);
    i = adn_divide(i, x, narrow, &e.x);
    i = adn_divide(i, y, narrow, &e.y);
    i = adn_divide(i, z, narrow, &e.z);
    if (!channel_inner) i = adn_divide(i, c, narrow, &e.c);
    e.n = i;
    return e;
}
#endif
