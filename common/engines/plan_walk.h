/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_walk.h: what engines need to lay out a walk over tensors: parameters for kernels_cuda/walk.cuh
 * and kernels_cl/walk.clh, vector width along the innermost dimension, and bounded grids. */
#ifndef ADN_PLAN_WALK_H
#define ADN_PLAN_WALK_H
#include "common/backend.h"
#include "common/index/walk.h"

/* Sizes, and the strides of one tensor of the walk, as kernels take them. A rank of 0 becomes one dim of size 1. */
void adn_walk_params(const struct adn_walk *walk, struct adn_walk_dims *dims);
struct adn_strides adn_walk_strides(const struct adn_walk *walk, int tensor);

/* True when units of `width` elements along the innermost dim can be moved at once: each tensor has stride 1 there
 * (then its promised alignment must allow accesses of min(16, width * element size) bytes, and its outer strides keep
 * it) or stride 0 (one value for the unit), and the innermost size is a multiple of width. With `tail` a walk of
 * rank 1 may have any size: the kernel does the count % width last elements one by one. */
bool adn_walk_fits(const struct adn_walk *walk, int tensors, const anydnn_tensor *const *tensor, int width, bool tail);

/* Turns the walk into one over units of `width` elements: offsets stay in elements. The rest of a rank 1 walk is
 * dropped from the count. */
void adn_walk_units(struct adn_walk *walk, int tensors, int width);

/* Bit i is set when tensor i has innermost stride 0. */
uint32_t adn_walk_splats(const struct adn_walk *walk, int tensors);

/* Blocks for `count` things of which a block does `per_block` in a pass: enough to fill the device, bounded, so that
 * kernels loop. 0 for count 0. */
uint64_t adn_blocks(int64_t count, int64_t per_block, const struct adn_device *device);

#endif
