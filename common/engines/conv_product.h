/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_product.h: a convolution as a gathered matrix product (common/index/conv_index.h), for the engines
 * that multiply it: which sides, strides and digits it has. */
#ifndef ADN_CONV_PRODUCT_H
#define ADN_CONV_PRODUCT_H
#include "common/backend.h"
#include "conv_igemm_params.h"
#include "plan_conv.h"
#include "plan_tile.h"

/* What depends on the problem alone. */
struct adn_conv_product {
    struct adn_conv_igemm_params params;
    int dtype;
    int64_t rows, columns, depth, groups; /* depth: the mean over the phases, rounded up */
    int64_t phases;
    bool a_lines, b_lines; /* whether `width` rows of A, columns of B lie side by side at every depth */
    double bytes, flops;
};

/* Describes the problem; params.a_vector and .b_vector say whether `width` depths may be loaded as one vector. */
bool adn_conv_product_of(const struct adn_problem *p, int width, struct adn_conv_product *m, struct adn_refusal *why);

/* The role among three that belongs to the operation. */
int adn_conv_role(int op, int forward_role, int data_role, int filter_role);

/* Chooses a tile among `rows`, whose operands take element_bytes (0: those of a sum) in local memory; where it splits the depth, problems of several stride phases are left whole. */
bool adn_conv_choose(const struct adn_variant *rows, int count, struct adn_tile_speed speed, int element_bytes,
                     const struct adn_conv_product *m, const struct adn_problem *p, const struct adn_device *device,
                     const char *params, struct adn_tile_layout *l, struct adn_refusal *why);

/* Adds the product with the layout's tile, and `sum` behind it where the depth is split. */
void adn_conv_add_steps(struct adn_conv_product *m, const struct adn_problem *p, const struct adn_tile_layout *l,
                        const struct adn_variant *sum, struct adn_engine_plan *plan);
#endif
