/* SPDX-License-Identifier: Apache-2.0
 * common/engines/matmul_tile_params.h: parameters of kernels matmul_tile, matmul_tile_cpu and matmul_tile_sum. */
#ifndef ADN_MATMUL_TILE_PARAMS_H
#define ADN_MATMUL_TILE_PARAMS_H
#include "../index/lang.h"

/* Depths that a tile counts in 32 bits at a time: a multiple of every stage. */
#define ADN_MATMUL_CHUNK (1 << 30)

struct adn_matmul_tile_params {
    adn_i64 rows, columns, depth;
    adn_i64 a_row, a_depth, b_depth, b_column, y_row, y_column, bias_row, bias_column;
    adn_i64 batch_size[6], a_batch[6], b_batch[6], y_batch[6], bias_batch[6]; /* innermost last */
    adn_i64 batches;
    adn_i64 tiles; /* batches * splits * column tiles * row tiles; 0: nothing to do */
    adn_i64 row_tiles, column_tiles, splits, split_depth;
    adn_i64 part; /* elements of one split's partial sums: batches * rows * columns */
    adn_i32 batch_rank;
    adn_i32 a_mode, b_mode; /* 0 any strides; 1 four depths, 2 four rows (or columns) lie side by side, aligned */
    adn_i32 biased;
    adn_i32
        partial; /* float sums without alpha, bias and beta go to parts: 1 packed, split by split; 2 in y's places */
    float alpha, beta;
    adn_i32 unused;
};

struct adn_matmul_place {
    adn_i64 row, column, depth_begin, depth_end, split, batch;
    adn_i64 a, b, y, bias; /* offsets of the batch */
};

/* Adds the offsets of batch number `batch`. */
ADN_FN void adn_matmul_batch(adn_i64 batch, struct adn_matmul_place *t, const struct adn_matmul_tile_params *p)
{
    adn_i32 i;
    t->batch = batch;
    t->a = t->b = t->y = t->bias = 0;
    for (i = p->batch_rank - 1; i >= 0; i--) {
        const adn_i64 rest = batch / p->batch_size[i], digit = batch - rest * p->batch_size[i];
        t->a += digit * p->a_batch[i];
        t->b += digit * p->b_batch[i];
        t->y += digit * p->y_batch[i];
        t->bias += digit * p->bias_batch[i];
        batch = rest;
    }
}

/* Number of a tile -> batch (outermost), split, column tile, row tile. */
ADN_FN struct adn_matmul_place adn_matmul_place_of(adn_i64 tile, adn_i32 tile_rows, adn_i32 tile_columns,
                                                   const struct adn_matmul_tile_params *p)
{
    struct adn_matmul_place t;
    t.row = tile % p->row_tiles * tile_rows;
    tile /= p->row_tiles;
    t.column = tile % p->column_tiles * tile_columns;
    tile /= p->column_tiles;
    t.split = tile % p->splits;
    tile /= p->splits;
    t.depth_begin = t.split * p->split_depth;
    t.depth_end = p->depth - t.depth_begin < p->split_depth ? p->depth : t.depth_begin + p->split_depth;
    if (p->alpha == 0.0f) t.depth_end = t.depth_begin;
    adn_matmul_batch(tile, &t, p);
    return t;
}
#endif
