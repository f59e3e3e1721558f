/* SPDX-License-Identifier: Apache-2.0
 * common/engines/cross_entropy_params.h: parameters of the cross entropy kernels, for C, CUDA and OpenCL C. A row is
 * the logits of one label. */
#ifndef ADN_CROSS_ENTROPY_PARAMS_H
#define ADN_CROSS_ENTROPY_PARAMS_H
#include "team_params.h"

/* What a block leaves in the workspace: its rows' loss and how many of them count. */
struct adn_loss_partial {
    adn_i64 count;
    float sum;
    adn_i32 pad;
};

enum adn_loss_emit {
    ADN_LOSS_EMIT_ROWS = 0,     /* each row's loss */
    ADN_LOSS_EMIT_PARTIALS = 1, /* one adn_loss_partial for each block */
    ADN_LOSS_EMIT_TOTAL = 2     /* the loss itself; the grid is one block */
};

struct adn_cross_entropy_params {
    struct adn_team_walk walk;
    struct adn_strides stride[4]; /* x, labels, loss or dloss, dx */
    adn_i64 x_class;              /* stride of the classes */
    float smoothing;
    adn_i32 mean;        /* divide by the number of counted rows */
    adn_i32 wide_labels; /* labels are i64 */
    adn_i32 emit;        /* forward: enum adn_loss_emit */
    adn_i32 partials;    /* entries in the workspace; 0 in backward: each block counts the labels */
    adn_i32 has_dloss;
};
#endif
