/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_1x1.c: convolution forward, backward data and backward filter by filters of one tap, without
 * pads, as a matrix product of matmul_tile: any strides and groups. Forward and backward filter also step over
 * positions (stride above 1). Parameters: the tile, "128x128x8".
 * Limits: backward filter wants one stride for the positions of all images (channels last, or one image). */
#include "conv_as_matmul.h"
#include "plan_conv.h"

static bool plan_1x1(const struct adn_problem *p, const struct adn_device *device, const char *params,
                     struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct adn_conv_pointwise c;
    struct adn_conv_places places;
    if (!adn_conv_is_product(p, why) || !adn_conv_pointwise_of(p, &c, why)) return false;
    adn_conv_places_of(p, &places);
    return adn_conv_tile_plan(p, &c, &places, device, params, plan, why);
}

static void bind(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                 void *params)
{
    (void)plan, (void)step;
    adn_conv_tile_bind(p, scalar, params);
}

const struct adn_engine adn_engine_conv_1x1 = {
    .name = "conv_1x1",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT,
    .revision = 1,
    .plan = plan_1x1,
    .candidate = adn_conv_tile_candidate,
    .bind = bind,
};
