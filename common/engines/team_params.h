/* SPDX-License-Identifier: Apache-2.0
 * common/engines/team_params.h: rows that are reduced by teams of threads, for C, CUDA and OpenCL C.
 *
 * A tensor is seen as `rows` (the axes that are kept) of `length` elements (the axes that are reduced). A block is
 * block / parts teams of `parts` threads (a power of two); a team takes one row at a time, its thread number `part` the
 * elements part, part + parts, ... With `lanes` the threads of a team are neighbours (rows lie contiguous in memory),
 * else the same part of neighbouring rows is (rows lie side by side). */
#ifndef ADN_TEAM_PARAMS_H
#define ADN_TEAM_PARAMS_H
#include "../index/walk.h"

struct adn_team_walk {
    struct adn_divisor size[8]; /* kept dims, then reduced dims, each innermost last */
    adn_i64 rows, length;
    adn_i64 groups;     /* ceil(rows / teams of a block); 0 = do nothing */
    adn_i32 kept, rank; /* dims [0, kept) are kept, [kept, rank) are reduced */
    adn_i32 narrow_rows, narrow_length;
    adn_i32 parts_log2, lanes;
};

/* Offset of element i of the walk over dims [first, end). */
ADN_FN adn_i64 adn_dims_offset(adn_i64 i, const struct adn_divisor *size, const adn_i64 *stride, adn_i32 first,
                               adn_i32 end, adn_i32 narrow)
{
    adn_i64 offset = 0, c;
    adn_i32 k;
    if (end <= first) return 0;
#if defined(__CUDACC__)
#pragma unroll 1
#endif
    for (k = end - 1; k > first; k--) {
        i = adn_divide(i, size[k], narrow, &c);
        offset += c * stride[k];
    }
    return offset + i * stride[first];
}

/* Offset of a row, and of element i within it. */
#define ADN_ROW_OFFSET(walk, strides, row)                                                                             \
    adn_dims_offset(row, (walk).size, strides, 0, (walk).kept, (walk).narrow_rows)
#define ADN_ITEM_OFFSET(walk, strides, i)                                                                              \
    adn_dims_offset(i, (walk).size, strides, (walk).kept, (walk).rank, (walk).narrow_length)
#endif
