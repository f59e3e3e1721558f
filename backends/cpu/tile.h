/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/tile.h: the inner loops of convolution and matrix product, compiled for each dtype.
 *
 * A tile is up to four rows of sums in double; every element loaded from `source` serves all rows. Sums are independent
 * of each other and take their products in the order of depth, so vectorisation changes no bit. */
#ifndef ADN_CPU_TILE_H
#define ADN_CPU_TILE_H
#include <stdint.h>

enum { ADN_TILE_ROWS = 4, ADN_TILE_COLUMNS = 64, ADN_TILE_LANES = 16 };

struct adn_tile {
    int rows;             /* 1..ADN_TILE_ROWS */
    int64_t depth, count; /* products of each sum; columns */
    const void *factor;   /* element (row j, depth c) at factor_at + j * factor_row + c * factor_depth */
    int64_t factor_at, factor_row, factor_depth;
    int64_t factor_step; /* dot only: stride along the columns */
    const void *source;  /* element (depth c, column i) at source_at + c * source_depth + i * source_step */
    int64_t source_at, source_depth, source_step;
    int64_t sum_at, sum_step; /* add only: column i adds to sum[j][sum_at + i * sum_step] */
};

/* add: sum[j][column i] += factor[j, c] * source[c, i] for all c. */
typedef void (*adn_tile_add_fn)(const struct adn_tile *tile, double (*sum)[ADN_TILE_COLUMNS]);
/* dot: lane[j][i % ADN_TILE_LANES] += factor[j, c, i] * source[c, i] for all c and i: the lanes' total is the sum. */
typedef void (*adn_tile_dot_fn)(const struct adn_tile *tile, double (*lane)[ADN_TILE_LANES]);

adn_tile_add_fn adn_tile_add(int dtype);
adn_tile_dot_fn adn_tile_dot(int dtype);
#endif
