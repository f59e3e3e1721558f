/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_walk.c: walks as kernel parameters, vector units, grids. See plan_walk.h. */
#include "plan_walk.h"

void adn_walk_params(const struct adn_walk *walk, struct adn_walk_dims *dims)
{
    int i;
    for (i = 0; i < ANYDNN_MAX_DIMS; i++) dims->size[i] = adn_divisor_of(i < walk->rank ? walk->size[i] : 1);
    dims->count = walk->count;
    dims->rank = walk->rank > 0 ? walk->rank : 1;
    dims->narrow = walk->count <= INT32_MAX;
}

struct adn_strides adn_walk_strides(const struct adn_walk *walk, int tensor)
{
    struct adn_strides strides = { { 0 } };
    int i;
    for (i = 0; i < walk->rank; i++) strides.stride[i] = walk->stride[tensor][i];
    return strides;
}

static bool tensor_fits(const struct adn_walk *walk, int index, const anydnn_tensor *tensor, int width)
{
    const int inner = walk->rank - 1;
    const int64_t unit = (int64_t)width * (int64_t)anydnn_dtype_size(tensor->dtype);
    int i;
    if (walk->stride[index][inner] == 0) return true;
    if (walk->stride[index][inner] != 1 || tensor->alignment < (unit < 16 ? unit : 16)) return false;
    for (i = 0; i < inner; i++)
        if (walk->stride[index][i] % width != 0) return false;
    return true;
}

bool adn_walk_fits(const struct adn_walk *walk, int tensors, const anydnn_tensor *const *tensor, int width, bool tail)
{
    int i;
    if (walk->rank < 1 || walk->count < width) return false;
    if (walk->size[walk->rank - 1] % width != 0 && !(tail && walk->rank == 1)) return false;
    for (i = 0; i < tensors; i++)
        if (!tensor_fits(walk, i, tensor[i], width)) return false;
    return true;
}

void adn_walk_units(struct adn_walk *walk, int tensors, int width)
{
    const int inner = walk->rank - 1;
    int i;
    walk->size[inner] /= width;
    walk->count /= width;
    for (i = 0; i < tensors; i++) walk->stride[i][inner] *= width;
}

uint32_t adn_walk_splats(const struct adn_walk *walk, int tensors)
{
    uint32_t mask = 0;
    int i;
    for (i = 0; i < tensors && walk->rank > 0; i++)
        if (walk->stride[i][walk->rank - 1] == 0) mask |= 1u << i;
    return mask;
}

uint64_t adn_blocks(int64_t count, int64_t per_block, const struct adn_device *device)
{
    const uint64_t units = device->info.compute_units > 0 ? (uint64_t)device->info.compute_units : 1;
    const uint64_t most = units * (device->info.is_cpu ? 4 : 32);
    uint64_t blocks;
    if (count <= 0) return 0;
    blocks = ((uint64_t)count - 1) / (uint64_t)per_block + 1;
    return blocks < most ? blocks : most;
}
