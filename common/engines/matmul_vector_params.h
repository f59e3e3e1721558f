/* SPDX-License-Identifier: Apache-2.0
 * common/engines/matmul_vector_params.h: parameters of kernels matmul_vector, matmul_vector_cpu and matmul_vector_sum.
 *
 *   y[line, c] = alpha * sum over depth of l[line, depth] * s[depth, c] + bias + beta * y[line, c]
 *
 * `l` is the larger operand, of any number of lines, `s` the smaller one, of 1 to 4 vectors c. */
#ifndef ADN_MATMUL_VECTOR_PARAMS_H
#define ADN_MATMUL_VECTOR_PARAMS_H
#include "../index/lang.h"

enum { ADN_VECTOR_FEW = 4 };

struct adn_matmul_vector_params {
    adn_i64 lines, depth;
    adn_i64 l_line, l_depth, s_depth, s_few, y_line, y_few, bias_line, bias_few;
    adn_i64 batch_size[6], l_batch[6], s_batch[6], y_batch[6]; /* outermost last */
    adn_i64 batches;
    adn_i64 tiles; /* batches * splits * line_tiles; 0: nothing to do */
    adn_i64 line_tiles, splits, split_depth;
    adn_i64 part; /* elements of one split's partial sums: batches * lines * few */
    adn_i32 batch_rank, few;
    adn_i32 parts_log2; /* of the threads that share a sum */
    adn_i32 s_packed;   /* depths of s may be loaded as whole units */
    adn_i32 biased, pad;
    float alpha, beta;
};

struct adn_vector_place {
    adn_i64 line, begin, end, split, batch; /* first line, depths, split, batch of a tile */
    adn_i64 l, s, y;                        /* offsets of the batch */
};

/* Adds the offsets of batch number `batch`. */
ADN_FN void adn_vector_batch(adn_i64 batch, struct adn_vector_place *t, const struct adn_matmul_vector_params *p)
{
    adn_i32 i;
    t->batch = batch;
    t->l = t->s = t->y = 0;
    for (i = 0; i < p->batch_rank; i++) {
        const adn_i64 rest = batch / p->batch_size[i], digit = batch - rest * p->batch_size[i];
        t->l += digit * p->l_batch[i];
        t->s += digit * p->s_batch[i];
        t->y += digit * p->y_batch[i];
        batch = rest;
    }
}

/* Number of a tile -> batch (outermost), split, first line. */
ADN_FN struct adn_vector_place adn_vector_place_of(adn_i64 tile, adn_i32 tile_lines,
                                                   const struct adn_matmul_vector_params *p)
{
    struct adn_vector_place t;
    t.line = tile % p->line_tiles * tile_lines;
    tile /= p->line_tiles;
    t.split = tile % p->splits;
    t.begin = t.split * p->split_depth;
    t.end = p->depth - t.begin < p->split_depth ? p->depth : t.begin + p->split_depth;
    if (p->alpha == 0.0f) t.end = t.begin;
    adn_vector_batch(tile / p->splits, &t, p);
    return t;
}
#endif
