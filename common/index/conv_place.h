/* SPDX-License-Identifier: Apache-2.0
 * common/index/conv_place.h: which element of a tensor of images a number means, for all languages. */
#ifndef ADN_CONV_PLACE_H
#define ADN_CONV_PLACE_H
#include "walk.h"

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
