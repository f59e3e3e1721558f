/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_direct_params.h: parameters of the conv_direct kernels: plain geometry, everything 64 bits. */
#ifndef ADN_CONV_DIRECT_PARAMS_H
#define ADN_CONV_DIRECT_PARAMS_H
#include "../index/conv_place.h"
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
#endif
