/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/conv_igemm.cl: convolution forward, backward data and backward filter as one gathered matrix product
 * (common/index/conv_index.h says how): the stages of kernels_cuda/conv_igemm.cu, and a shape for CPUs.
 *
 * Kernels  conv_igemm (constants C0..C4 and a block: GPU shape), conv_igemm_cpu (block 1), conv_igemm_sum (C0 = 0).
 * Limits   Rows, columns, depths and tiles below 2^31; offsets are 64 bits. */
#include "conv_epilogue.clh"
#include "../common/engines/conv_igemm_params.h"
#if ADN_C0 > 0
#include "tile_gemm.clh"
#endif

/* 4 and 16 inputs side by side, less the zero point that 8-bit integers have. */
#if defined(ADN_BYTES)
#define IGEMM_INPUT4(b, i, p) (ADN_LOAD4(b, i) - (p)->e.x_zero)
#define IGEMM_INPUT16(b, i, p) (ADN_LOAD16(b, i) - (p)->e.x_zero)
#else
#define IGEMM_INPUT4(b, i, p) ADN_LOAD4(b, i)
#define IGEMM_INPUT16(b, i, p) ADN_LOAD16(b, i)
#endif

/* 1 where the coordinates of a column and of a depth meet inside the tensor. */
ADN_FN int igemm_inside(int z, int y, int x, const struct adn_conv_igemm_params *p)
{
    return (uint)z < (uint)p->axis[0].limit && (uint)y < (uint)p->axis[1].limit && (uint)x < (uint)p->axis[2].limit;
}

#if ADN_C0 > 0
/* One finished output; `to` is its offset without the tile's origin and the row. */
ADN_FN void igemm_store(ADN_SUM sum, int row, int column, adn_i64 to, const struct adn_igemm_tile *t,
                        const struct adn_conv_places *m, __global ADN_SUM *parts, const struct adn_conv_igemm_params *p)
{
    const adn_i64 line = (adn_i64)t->group * p->rows + row;
    const adn_i64 at = t->y_origin + to + row * p->y_row;
    if (p->splits > 1)
        parts[t->split * p->part + line * p->columns + column] = sum;
    else
        adn_conv_store(sum, line, at, at, m, &p->e);
}
#endif

#if ADN_C0 > 0 && ADN_BLOCK > 1
/* Stages whose depths are decoded at once, one by each work item: decoding takes longer than a stage. */
#define IGEMM_TABLED (ADN_BLOCK / ADN_TILE_DEPTH)

struct adn_feed {
    const struct adn_conv_igemm_params *p;
    const struct adn_igemm_tile *t;
    __local struct adn_igemm_depth *table; /* of the next ADN_BLOCK depths */
    __global const ADN_TW *a;
    __global const ADN_T *b;
    int a_line, b_line, a_depth, b_depth;
    int z, y, x;
    int a_live, b_live;
    ADN_SUM av[ADN_EA], bv[ADN_EB];
};

ADN_FN void feed_init(struct adn_feed *f, int id, __global const ADN_TW *a, __global const ADN_T *b)
{
    const struct adn_conv_igemm_params *p = f->p;
    const struct adn_igemm_tile *t = f->t;
    struct adn_digits d;
    f->a_line = id % ADN_TILE_ROWS;
    f->b_line = id % ADN_TILE_COLUMNS;
    f->a_depth = id / ADN_TILE_ROWS * ADN_EA;
    f->b_depth = id / ADN_TILE_COLUMNS * ADN_EB;
    f->a_live = t->row + f->a_line < p->rows;
    f->b_live = t->column + f->b_line < p->columns;
    d = adn_igemm_column(f->b_live ? t->column + f->b_line : 0, p);
    f->z = d.z * p->axis[0].column_step + t->f[0].origin;
    f->y = d.y * p->axis[1].column_step + t->f[1].origin;
    f->x = d.x * p->axis[2].column_step + t->f[2].origin;
    f->a = a + (t->a_origin + (t->row + f->a_line) * p->a_row);
    f->b = b + (t->group * p->b_group + d.u * p->b_column_u + f->z * p->axis[0].b + f->y * p->axis[1].b +
                f->x * p->axis[2].b);
}

static void adn_feed_prepare(struct adn_feed *f, int k)
{
    const int e = (int)get_local_id(0), depth = f->t->depth_begin + k * ADN_TILE_DEPTH + e;
    if (k % IGEMM_TABLED != 0) return;
    if (depth < f->t->depth_end) f->table[e] = adn_igemm_depth_of(depth, f->t, f->p);
    barrier(CLK_LOCAL_MEM_FENCE);
}

static void adn_feed_fetch(struct adn_feed *f, int k)
{
    const int left = f->t->depth_end - f->t->depth_begin - k * ADN_TILE_DEPTH;
    __local const struct adn_igemm_depth *row = f->table + k % IGEMM_TABLED * ADN_TILE_DEPTH;
    int e, i;
    for (e = 0; e < ADN_EA; e += 4) {
        for (i = e; i < e + 4; i++) f->av[i] = 0;
        if (f->p->a_vector) {
            if (f->a_live && f->a_depth + e < left) vstore4(ADN_LOAD4(f->a, row[f->a_depth + e].a), 0, f->av + e);
        } else {
            for (i = e; i < e + 4; i++)
                if (f->a_live && f->a_depth + i < left) f->av[i] = ADN_LOAD(f->a, row[f->a_depth + i].a);
        }
    }
    for (e = 0; e < ADN_EB; e += 4) {
        __local const struct adn_igemm_depth *r = row + f->b_depth + e;
        for (i = e; i < e + 4; i++) f->bv[i] = 0;
        if (f->p->b_vector) {
            if (f->b_live && f->b_depth + e < left && igemm_inside(f->z + r->z, f->y + r->y, f->x + r->x, f->p))
                vstore4(IGEMM_INPUT4(f->b, r->b, f->p), 0, f->bv + e);
        } else {
            for (i = e; i < e + 4; i++, r++)
                if (f->b_live && f->b_depth + i < left && igemm_inside(f->z + r->z, f->y + r->y, f->x + r->x, f->p))
                    f->bv[i] = ADN_CONV_INPUT(f->b, r->b, f->p->e.x_zero);
        }
    }
}

static void adn_feed_stage(struct adn_feed *f, __local ADN_SUM *a, __local ADN_SUM *b)
{
    adn_stage_depths(a, ADN_TILE_ROWS, f->a_line, f->a_depth, f->av, ADN_EA);
    adn_stage_depths(b, ADN_TILE_COLUMNS, f->b_line, f->b_depth, f->bv, ADN_EB);
}

ADN_KERNEL(conv_igemm)(ADN_IN(a), ADN_IN(b), ADN_CONV_PLACES, ADN_OUT(parts), struct adn_conv_igemm_params p)
{
    ADN_PTR_IN(ADN_TW, a);
    ADN_PTR_IN(ADN_T, b);
    ADN_CONV_PLACES_OF(m);
    ADN_PTR_OUT(ADN_SUM, parts);
    __local ADN_SUM4 a_buffer[2 * ADN_TILE_DEPTH * ADN_TILE_ROWS / 4], b_buffer[2 * ADN_TILE_DEPTH * ADN_TILE_COLUMNS / 4];
    __local struct adn_igemm_depth table[ADN_BLOCK];
    const int id = (int)get_local_id(0);
    uint number;
    for (number = (uint)get_group_id(0); number < (uint)p.tiles; number += (uint)get_num_groups(0)) {
        const struct adn_igemm_tile t = adn_igemm_tile_of(number, ADN_TILE_ROWS, ADN_TILE_COLUMNS, &p);
        const int depth = p.e.alpha == 0.0f ? 0 : t.depth_end - t.depth_begin;
        ADN_SUM sum[ADN_TM][ADN_TN];
        struct adn_feed f;
        int i, j;
        f.p = &p, f.t = &t, f.table = table;
        feed_init(&f, id, a, b);
        adn_tile_clear(sum);
        adn_tile_run(id, (__local ADN_SUM *)a_buffer, (__local ADN_SUM *)b_buffer, &f,
                     depth > 0 ? (depth + ADN_TILE_DEPTH - 1) / ADN_TILE_DEPTH : 0, sum);
        for (j = 0; j < ADN_TN; j++) {
            const int column = t.column + adn_tile_column(id, j);
            const adn_i64 to = adn_igemm_output(column, &t, &p);
            for (i = 0; i < ADN_TM; i++) {
                const int row = t.row + adn_tile_row(id, i);
                if (to != ADN_IGEMM_NOWHERE && row < p.rows) igemm_store(sum[i][j], row, column, to, &t, &m, parts, &p);
            }
        }
    }
}
#endif

#if ADN_C0 > 0 && ADN_BLOCK == 1
/* What a column means: coordinates and offset of B. Of each vector of columns: the least and the largest coordinates, and
 * whether they lie side by side. */
#define CPU_VECTORS (ADN_TILE_COLUMNS / 16)
struct cpu_column {
    int z[ADN_TILE_COLUMNS], y[ADN_TILE_COLUMNS], x[ADN_TILE_COLUMNS];
    adn_i64 b[ADN_TILE_COLUMNS];
    int z0[CPU_VECTORS], z1[CPU_VECTORS], y0[CPU_VECTORS], y1[CPU_VECTORS], x0[CPU_VECTORS], x1[CPU_VECTORS];
    int run[CPU_VECTORS];
};

/* Columns behind `count` repeat the last one: they are loaded, never stored. */
ADN_FN void cpu_columns(struct cpu_column *s, int count, const struct adn_igemm_tile *t,
                        const struct adn_conv_igemm_params *p)
{
    int c, v;
    for (c = 0; c < ADN_TILE_COLUMNS; c++) {
        const struct adn_digits d = adn_igemm_column(t->column + min(c, count - 1), p);
        s->z[c] = d.z * p->axis[0].column_step + t->f[0].origin;
        s->y[c] = d.y * p->axis[1].column_step + t->f[1].origin;
        s->x[c] = d.x * p->axis[2].column_step + t->f[2].origin;
        s->b[c] = t->group * p->b_group + d.u * p->b_column_u + s->z[c] * p->axis[0].b + s->y[c] * p->axis[1].b +
                  s->x[c] * p->axis[2].b;
    }
    for (v = 0; v < CPU_VECTORS; v++) {
        const int first = v * 16;
        s->z0[v] = s->z1[v] = s->z[first];
        s->y0[v] = s->y1[v] = s->y[first];
        s->x0[v] = s->x1[v] = s->x[first];
        s->run[v] = 1;
        for (c = first + 1; c < first + 16; c++) {
            s->z0[v] = min(s->z0[v], s->z[c]), s->z1[v] = max(s->z1[v], s->z[c]);
            s->y0[v] = min(s->y0[v], s->y[c]), s->y1[v] = max(s->y1[v], s->y[c]);
            s->x0[v] = min(s->x0[v], s->x[c]), s->x1[v] = max(s->x1[v], s->x[c]);
            if (s->b[c] != s->b[first] + (c - first)) s->run[v] = 0;
        }
    }
}

ADN_FN void cpu_pack_a(ADN_SUM *to, __global const ADN_TW *a, const struct adn_igemm_depth *e, int rows, int depth,
                       const struct adn_conv_igemm_params *p)
{
    int r, d;
    for (r = 0; r < rows; r++) {
        __global const ADN_TW *line = a + r * p->a_row;
        ADN_SUM *out = to + ADN_CPU_A(r, 0);
        for (d = 0; d < depth; d++) out[d * ADN_CPU_ROWS] = ADN_LOAD(line, e[d].a);
    }
}

/* Channels side by side: one test of the coordinates serves four depths. */
ADN_FN void cpu_pack_b_vector(ADN_SUM *to, __global const ADN_T *b, const struct cpu_column *s,
                              const struct adn_igemm_depth *e, int columns, int depth,
                              const struct adn_conv_igemm_params *p)
{
    int c, d;
    for (c = 0; c < columns; c++) {
        ADN_SUM *out = to + ADN_CPU_B(0, c);
        for (d = 0; d < depth; d += 4) {
            ADN_SUM4 v = (ADN_SUM4)(0);
            if (igemm_inside(s->z[c] + e[d].z, s->y[c] + e[d].y, s->x[c] + e[d].x, p)) v = IGEMM_INPUT4(b, s->b[c] + e[d].b, p);
            out[d * 16] = v.x;
            out[d * 16 + 16] = v.y;
            out[d * 16 + 32] = v.z;
            out[d * 16 + 48] = v.w;
        }
    }
}

/* A vector of columns all of which are inside needs no test of each; side by side it is one load. */
ADN_FN void cpu_pack_b(ADN_SUM *to, __global const ADN_T *b, const struct cpu_column *s, const struct adn_igemm_depth *e,
                       int columns, int depth, const struct adn_conv_igemm_params *p)
{
    int c, d, v;
    for (v = 0; v * 16 < columns; v++) {
        const adn_i64 *at = s->b + v * 16;
        const int *zc = s->z + v * 16, *yc = s->y + v * 16, *xc = s->x + v * 16;
        for (d = 0; d < depth; d++) {
            ADN_SUM *out = to + ADN_CPU_B(d, v * 16);
            const int z = e[d].z, y = e[d].y, x = e[d].x;
            __global const ADN_T *from = b + e[d].b;
            if (igemm_inside(s->z0[v] + z, s->y0[v] + y, s->x0[v] + x, p) &&
                igemm_inside(s->z1[v] + z, s->y1[v] + y, s->x1[v] + x, p)) {
                if (s->run[v])
                    vstore16(IGEMM_INPUT16(from, at[0], p), 0, out);
                else
                    for (c = 0; c < 16; c++) out[c] = ADN_CONV_INPUT(from, at[c], p->e.x_zero);
            } else {
                for (c = 0; c < 16; c++)
                    out[c] = igemm_inside(zc[c] + z, yc[c] + y, xc[c] + x, p) ? ADN_CONV_INPUT(from, at[c], p->e.x_zero) : 0;
            }
        }
    }
}

ADN_KERNEL(conv_igemm_cpu)(ADN_IN(a), ADN_IN(b), ADN_CONV_PLACES, ADN_OUT(parts), struct adn_conv_igemm_params p)
{
    ADN_PTR_IN(ADN_TW, a);
    ADN_PTR_IN(ADN_T, b);
    ADN_CONV_PLACES_OF(m);
    ADN_PTR_OUT(ADN_SUM, parts);
    uint number;
    for (number = (uint)get_group_id(0); number < (uint)p.tiles; number += (uint)get_num_groups(0)) {
        const struct adn_igemm_tile t = adn_igemm_tile_of(number, ADN_TILE_ROWS, ADN_TILE_COLUMNS, &p);
        const int rows = min(p.rows - t.row, ADN_TILE_ROWS), columns = min(p.columns - t.column, ADN_TILE_COLUMNS);
        const int end = p.e.alpha == 0.0f ? t.depth_begin : t.depth_end;
        ADN_SUM av[ADN_TILE_ROWS * ADN_TILE_DEPTH], bv[ADN_TILE_COLUMNS * ADN_TILE_DEPTH];
        ADN_SUM sum[ADN_TILE_ROWS * ADN_TILE_COLUMNS];
        struct adn_igemm_depth e[ADN_TILE_DEPTH];
        struct cpu_column s;
        int r, c, d, begin;
        for (r = 0; r < ADN_TILE_ROWS * ADN_TILE_COLUMNS; r++) sum[r] = 0;
        for (r = 0; r < ADN_TILE_ROWS * ADN_TILE_DEPTH; r++) av[r] = 0;
        for (r = 0; r < ADN_TILE_COLUMNS * ADN_TILE_DEPTH; r++) bv[r] = 0;
        cpu_columns(&s, columns, &t, &p);
        for (begin = t.depth_begin; begin < end; begin += ADN_TILE_DEPTH) {
            const int depth = min(end - begin, ADN_TILE_DEPTH);
            for (d = 0; d < depth; d++) e[d] = adn_igemm_depth_of(begin + d, &t, &p);
            cpu_pack_a(av, a + (t.a_origin + t.row * p.a_row), e, rows, depth, &p);
            if (p.b_vector)
                cpu_pack_b_vector(bv, b, &s, e, columns, depth, &p);
            else
                cpu_pack_b(bv, b, &s, e, columns, depth, &p);
            adn_cpu_multiply(av, bv, sum, rows, columns, depth);
        }
        for (c = 0; c < columns; c++) {
            const adn_i64 to = adn_igemm_output(t.column + c, &t, &p);
            for (r = 0; r < rows && to != ADN_IGEMM_NOWHERE; r++)
                igemm_store(sum[ADN_CPU_SUM(r, c)], t.row + r, t.column + c, to, &t, &m, parts, &p);
        }
    }
}
#endif

#if ADN_C0 == 0
/* One work item for each output: partial sums in the order of the splits. */
ADN_KERNEL(conv_igemm_sum)(ADN_IN(parts), ADN_CONV_PLACES, struct adn_conv_igemm_params p)
{
    ADN_PTR_IN(ADN_SUM, parts);
    ADN_CONV_PLACES_OF(m);
    struct adn_igemm_tile t;
    adn_i64 i;
    int s;
    t.phase[0] = t.phase[1] = t.phase[2] = 0;
    for (i = (adn_i64)get_global_id(0); i < p.part; i += (adn_i64)get_global_size(0)) {
        const adn_i64 line = i / p.columns;
        const int group = (int)(line / p.rows), row = (int)(line % p.rows);
        const adn_i64 at = group * p.y_group + p.y_origin + row * p.y_row +
                           adn_igemm_output((int)(i - line * p.columns), &t, &p);
        ADN_SUM sum = 0;
        for (s = 0; s < p.splits; s++) sum += parts[s * p.part + i];
        adn_conv_store(sum, line, at, at, &m, &p.e);
    }
}
#endif
