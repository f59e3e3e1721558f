/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_as_matmul.h: convolutions whose filters have one tap, written as matrix products.
 *
 *   forward          y[k, position]  = sum over c of w[k, c] * x[c, position]
 *   backward data    dx[c, position] = sum over k of w[k, c] * dy[k, position]
 *   backward filter  dw[k, c]        = sum over positions of dy[k, position] * x[c, position]
 *
 * Groups are batches; so are positions (of all images) that no single stride walks. Backward filter has no room for
 * such positions: its depth needs one stride in x and in dy. */
#ifndef ADN_CONV_AS_MATMUL_H
#define ADN_CONV_AS_MATMUL_H
#include "common/backend.h"

/* Tensors of a convolution: x or dx, w or dw, y or dy. */
enum adn_conv_tensor { ADN_CONV_X, ADN_CONV_W, ADN_CONV_Y, ADN_CONV_BIAS, ADN_CONV_TENSORS };

/* What is multiplied. Of the geometry count n, groups, c, k, out, the strides of x and y, and of w those of k and c. */
struct adn_conv_pointwise {
    struct adn_conv_geometry g;
    int32_t alignment[3]; /* bytes; of x, w, y */
    bool raw;             /* the output is f32 and takes bare sums: no alpha, bias and beta */
};

/* A problem of MATMUL, and which tensor stands in each of its slots. */
struct adn_conv_matmul {
    struct adn_problem problem;
    int from[ADN_MAX_ROLES];
};

/* Where the tensors lie: as in adn_step.memory. */
struct adn_conv_places {
    int source[ADN_CONV_TENSORS];
    uint64_t offset[ADN_CONV_TENSORS];
};

/* Role of a tensor in an operation. */
int adn_conv_tensor_role(int op, enum adn_conv_tensor tensor);

/* False, with the reason, for what these products do not do: other dtypes than f32, f16, bf16; empty tensors; more than
 * scaling and a bias. */
bool adn_conv_is_product(const struct adn_problem *p, struct adn_refusal *why);

/* False when filters have more than one tap, or when positions lie outside x or are passed over; else the geometry of
 * `p` in the form that adn_conv_pointwise holds. */
bool adn_conv_pointwise_of(const struct adn_problem *p, struct adn_conv_pointwise *c, struct adn_refusal *why);

/* The product of `c` for the operation, scalars, math and bias of `p`. With `turn`, rows and columns are exchanged
 * where the output's rows lie closer in memory. False when backward filter finds no depth of one stride. */
bool adn_conv_as_matmul(const struct adn_problem *p, const struct adn_conv_pointwise *c, bool turn,
                        struct adn_conv_matmul *product, struct adn_refusal *why);

/* Memory of the steps from `first` on: from slots of MATMUL to places of the convolution. */
void adn_conv_rename(const struct adn_conv_matmul *product, const struct adn_conv_places *places, int first,
                     struct adn_engine_plan *plan);
void adn_conv_places_of(const struct adn_problem *p, struct adn_conv_places *places);

/* Appends the steps of matmul_tile for the product, within the workspace that is left. */
bool adn_conv_tile_plan(const struct adn_problem *p, const struct adn_conv_pointwise *c,
                        const struct adn_conv_places *places, const struct adn_device *device, const char *params,
                        struct adn_engine_plan *plan, struct adn_refusal *why);

/* matmul_tile's candidates, and its bind for a step of its kernels. */
bool adn_conv_tile_candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32]);
void adn_conv_tile_bind(const struct adn_problem *p, const double *scalar, void *params);

#endif
