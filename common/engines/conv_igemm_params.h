/* SPDX-License-Identifier: Apache-2.0
 * common/engines/conv_igemm_params.h: parameters of kernels conv_igemm, conv_igemm_cpu and conv_igemm_sum, and what
 * both languages compute from them (common/index/conv_index.h explains the digits). */
#ifndef ADN_CONV_IGEMM_PARAMS_H
#define ADN_CONV_IGEMM_PARAMS_H
#include "../index/conv_index.h"
#include "conv_epilogue.h"

struct adn_conv_igemm_params {
    struct adn_conv_epilogue e;
    struct adn_conv_axis axis[3];         /* z, y, x */
    struct adn_divisor column_u, depth_u; /* sizes of the digits u */
    adn_i64 a_row, a_u, a_group, a_origin;
    adn_i64 b_column_u, b_depth_u, b_group;
    adn_i64 y_row, y_u, y_group, y_origin;
    adn_i64 part;                /* elements of one split's partial sums: groups * rows * columns */
    adn_i32 tiles;     /* phases * groups * splits * column tiles * row tiles; 0: nothing to do */
    adn_i32 rows, columns, groups, splits, split_depth;
    adn_i32 row_tiles, column_tiles;
    adn_i32 column_u_inner, depth_u_inner;
    adn_i32 a_vector, b_vector; /* 1: depths 4i..4i+3 lie side by side, aligned to four elements */
};

/* Where a tile lies. */
struct adn_igemm_tile {
    struct adn_conv_phase f[3];
    adn_i64 a_origin, y_origin;
    adn_i32 phase[3];
    adn_i32 row, column, group, split, depth_begin, depth_end;
};

/* What one depth means: offsets of A and B, coordinates to be added. */
struct adn_igemm_depth {
    adn_i64 a, b;
    adn_i32 z, y, x, unused;
};

/* Splits the phase of axis j off a tile number; called with constant j, so that arrays stay in registers. */
ADN_FN adn_u32 adn_igemm_phase(adn_u32 tile, adn_i32 j, struct adn_igemm_tile *t, adn_i32 *depth,
                               const struct adn_conv_igemm_params *p)
{
    const adn_u32 rest = tile / (adn_u32)p->axis[j].phases;
    t->phase[j] = (adn_i32)(tile - rest * (adn_u32)p->axis[j].phases);
    t->f[j] = adn_conv_phase_of(t->phase[j], p->axis[j].stride, p->axis[j].pad, p->axis[j].dilation, p->axis[j].taps,
                                p->axis[j].tap_step);
    t->a_origin += t->f[j].first_tap * p->axis[j].a;
    t->y_origin += t->phase[j] * p->axis[j].y;
    *depth *= t->f[j].taps;
    return rest;
}

/* Number of a tile -> phase (outermost), group, split, column tile, row tile. */
ADN_FN struct adn_igemm_tile adn_igemm_tile_of(adn_u32 tile, adn_i32 tile_rows, adn_i32 tile_columns,
                                               const struct adn_conv_igemm_params *p)
{
    struct adn_igemm_tile t;
    adn_i32 depth = (adn_i32)p->depth_u.value;
    t.row = (adn_i32)(tile % (adn_u32)p->row_tiles) * tile_rows;
    tile /= (adn_u32)p->row_tiles;
    t.column = (adn_i32)(tile % (adn_u32)p->column_tiles) * tile_columns;
    tile /= (adn_u32)p->column_tiles;
    t.split = (adn_i32)(tile % (adn_u32)p->splits);
    tile /= (adn_u32)p->splits;
    t.group = (adn_i32)(tile % (adn_u32)p->groups);
    tile /= (adn_u32)p->groups;
    t.a_origin = p->a_origin + t.group * p->a_group;
    t.y_origin = p->y_origin + t.group * p->y_group;
    tile = adn_igemm_phase(tile, 2, &t, &depth, p);
    tile = adn_igemm_phase(tile, 1, &t, &depth, p);
    adn_igemm_phase(tile, 0, &t, &depth, p);
    t.depth_begin = t.split * p->split_depth;
    t.depth_end = depth - t.depth_begin < p->split_depth ? depth : t.depth_begin + p->split_depth;
    return t;
}

ADN_FN struct adn_digits adn_igemm_column(adn_i32 column, const struct adn_conv_igemm_params *p)
{
    return adn_digits_of(column, p->column_u_inner, p->column_u, p->axis[0].columns, p->axis[1].columns,
                         p->axis[2].columns);
}

/* Offset of the output of a column within its tile's phase and group, or ADN_IGEMM_NOWHERE. */
#define ADN_IGEMM_NOWHERE (-0x7fffffffffffffff - 1)
ADN_FN adn_i64 adn_igemm_output(adn_i32 column, const struct adn_igemm_tile *t, const struct adn_conv_igemm_params *p)
{
    struct adn_digits d;
    if (column >= p->columns) return ADN_IGEMM_NOWHERE;
    d = adn_igemm_column(column, p);
    d.z *= p->axis[0].stride, d.y *= p->axis[1].stride, d.x *= p->axis[2].stride;
    if (t->phase[0] + d.z >= p->axis[0].extent || t->phase[1] + d.y >= p->axis[1].extent ||
        t->phase[2] + d.x >= p->axis[2].extent)
        return ADN_IGEMM_NOWHERE;
    return d.u * p->y_u + d.z * p->axis[0].y + d.y * p->axis[1].y + d.x * p->axis[2].y;
}

ADN_FN struct adn_divisor adn_igemm_taps(const struct adn_conv_axis *axis, adn_i32 taps)
{
    return axis->depth[taps == (adn_i32)axis->depth[0].value ? 0 : 1];
}

ADN_FN struct adn_igemm_depth adn_igemm_depth_of(adn_i32 depth, const struct adn_igemm_tile *t,
                                                 const struct adn_conv_igemm_params *p)
{
    struct adn_igemm_depth r;
    const struct adn_digits d =
        adn_digits_of(depth, p->depth_u_inner, p->depth_u, adn_igemm_taps(&p->axis[0], t->f[0].taps),
                      adn_igemm_taps(&p->axis[1], t->f[1].taps), adn_igemm_taps(&p->axis[2], t->f[2].taps));
    r.z = d.z * p->axis[0].depth_step;
    r.y = d.y * p->axis[1].depth_step;
    r.x = d.x * p->axis[2].depth_step;
    r.a = d.u * p->a_u + d.z * p->axis[0].tap_step * p->axis[0].a + d.y * p->axis[1].tap_step * p->axis[1].a +
          d.x * p->axis[2].tap_step * p->axis[2].a;
    r.b = d.u * p->b_depth_u + r.z * p->axis[0].b + r.y * p->axis[1].b + r.x * p->axis[2].b;
    r.unused = 0;
    return r;
}
#endif
