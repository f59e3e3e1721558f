/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/matmul_tile.cl: y = alpha * a * b + bias + beta * y over batches, with any strides: the stages of
 * kernels_cuda/matmul_tile.cu, and a shape for CPUs.
 *
 * Kernels  matmul_tile (constants C0..C4 and a block: GPU shape), matmul_tile_cpu (block 1), matmul_tile_sum (C0 = 0).
 * Limits   None: sizes, offsets and tile numbers are 64 bits; groups stride over tiles. */
#include "prelude.clh"
#include "../common/engines/matmul_tile_params.h"
#if ADN_C0 > 0
#include "tile_gemm.clh"

/* One finished sum. */
ADN_FN void matmul_store(float sum, adn_i64 row, adn_i64 column, const struct adn_matmul_place *t,
                         __global const ADN_T *bias, __global ADN_T *y, __global float *parts,
                         const struct adn_matmul_tile_params *p)
{
    const adn_i64 at = t->y + row * p->y_row + column * p->y_column;
    float v = p->alpha * sum;
    if (p->partial) {
        parts[p->partial == 2 ? at : t->split * p->part + (t->batch * p->rows + row) * p->columns + column] = sum;
        return;
    }
    if (p->biased) v += ADN_LOAD(bias, t->bias + row * p->bias_row + column * p->bias_column);
    if (p->beta != 0.0f) v += p->beta * ADN_LOAD(y, at);
    ADN_STORE(y, at, v);
}
#endif

#if ADN_C0 > 0 && ADN_BLOCK > 1
/* One operand: `lines` rows (or columns) of a tile and the depths of a stage, spread over the group. */
struct matmul_side {
    __global const ADN_T *from;
    adn_i64 depth_step;
    int mode, line, depth;
    int rest; /* depths from this work item's first one of the next stage on; none where the line does not exist */
};

struct adn_feed {
    struct matmul_side a, b;
    float av[ADN_EA], bv[ADN_EB];
};

ADN_FN void side_init(struct matmul_side *s, int id, int tile_lines, int elements, __global const ADN_T *base,
                      adn_i64 lines, int depths, adn_i64 line_step, adn_i64 depth_step, int mode)
{
    s->depth_step = depth_step;
    s->mode = mode;
    s->line = mode == 2 ? id % (tile_lines / 4) * 4 : id % tile_lines;
    s->depth = mode == 2 ? id / (tile_lines / 4) : id / tile_lines * elements;
    s->from = base + (s->line * line_step + s->depth * depth_step);
    s->rest = s->line < lines ? depths - s->depth : 0;
}

ADN_FN void side_fetch(struct matmul_side *s, int tile_lines, int elements, float *v)
{
    const int apart = ADN_BLOCK / (tile_lines / 4); /* depths between a work item's quadruples in mode 2 */
    int e;
    for (e = 0; e < elements; e++) v[e] = 0.0f;
    if (s->mode == 2) {
        for (e = 0; e < elements; e += 4)
            if (e / 4 * apart < s->rest) vstore4(ADN_LOAD4(s->from, e / 4 * apart * s->depth_step), 0, v + e);
    } else if (s->mode == 1) {
        for (e = 0; e < elements; e += 4)
            if (e < s->rest) vstore4(ADN_LOAD4(s->from, e), 0, v + e);
    } else {
        for (e = 0; e < elements; e++)
            if (e < s->rest) v[e] = ADN_LOAD(s->from, e * s->depth_step);
    }
    s->from += ADN_TILE_DEPTH * s->depth_step;
    s->rest -= ADN_TILE_DEPTH;
}

ADN_FN void side_stage(const struct matmul_side *s, int tile_lines, int elements, const float *v, __local float *to)
{
    const int apart = ADN_BLOCK / (tile_lines / 4);
    int e;
    if (s->mode == 2)
        for (e = 0; e < elements; e += 4)
            vstore4(vload4(0, v + e), 0, to + (s->depth + e / 4 * apart) * tile_lines + s->line);
    else
        adn_stage_depths(to, tile_lines, s->line, s->depth, v, elements);
}

static void adn_feed_prepare(struct adn_feed *f, int k) {}

static void adn_feed_fetch(struct adn_feed *f, int k)
{
    side_fetch(&f->a, ADN_TILE_ROWS, ADN_EA, f->av);
    side_fetch(&f->b, ADN_TILE_COLUMNS, ADN_EB, f->bv);
}

static void adn_feed_stage(struct adn_feed *f, __local float *a, __local float *b)
{
    side_stage(&f->a, ADN_TILE_ROWS, ADN_EA, f->av, a);
    side_stage(&f->b, ADN_TILE_COLUMNS, ADN_EB, f->bv, b);
}

ADN_KERNEL(matmul_tile)(ADN_IN(a), ADN_IN(b), ADN_IN(bias), ADN_OUT(y), ADN_OUT(parts), struct adn_matmul_tile_params p)
{
    ADN_PTR_IN(ADN_T, a);
    ADN_PTR_IN(ADN_T, b);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_OUT(ADN_T, y);
    ADN_PTR_OUT(float, parts);
    __local float4 a_buffer[2 * ADN_TILE_DEPTH * ADN_TILE_ROWS / 4],
        b_buffer[2 * ADN_TILE_DEPTH * ADN_TILE_COLUMNS / 4];
    const int id = (int)get_local_id(0);
    adn_i64 number, begin;
    for (number = (adn_i64)get_group_id(0); number < p.tiles; number += (adn_i64)get_num_groups(0)) {
        const struct adn_matmul_place t = adn_matmul_place_of(number, ADN_TILE_ROWS, ADN_TILE_COLUMNS, &p);
        float sum[ADN_TM][ADN_TN];
        int i, j;
        adn_tile_clear(sum);
        for (begin = t.depth_begin; begin < t.depth_end; begin += ADN_MATMUL_CHUNK) {
            const int depths = (int)min(t.depth_end - begin, (adn_i64)ADN_MATMUL_CHUNK);
            struct adn_feed f;
            side_init(&f.a, id, ADN_TILE_ROWS, ADN_EA, a + (t.a + t.row * p.a_row + begin * p.a_depth), p.rows - t.row,
                      depths, p.a_row, p.a_depth, p.a_mode);
            side_init(&f.b, id, ADN_TILE_COLUMNS, ADN_EB, b + (t.b + t.column * p.b_column + begin * p.b_depth),
                      p.columns - t.column, depths, p.b_column, p.b_depth, p.b_mode);
            adn_tile_run(id, (__local float *)a_buffer, (__local float *)b_buffer, &f,
                         (depths + ADN_TILE_DEPTH - 1) / ADN_TILE_DEPTH, sum);
        }
        for (i = 0; i < ADN_TM; i++) {
            const adn_i64 row = t.row + adn_tile_row(id, i);
            for (j = 0; j < ADN_TN; j++) {
                const adn_i64 column = t.column + adn_tile_column(id, j);
                if (row < p.rows && column < p.columns) matmul_store(sum[i][j], row, column, &t, bias, y, parts, &p);
            }
        }
    }
}
#endif

#if ADN_C0 > 0 && ADN_BLOCK == 1
ADN_FN void cpu_pack_a(float *to, __global const ADN_T *a, int rows, int depth, adn_i64 row_step, adn_i64 depth_step)
{
    int r, d;
    for (r = 0; r < rows; r++) {
        float *out = to + ADN_CPU_A(r, 0);
        __global const ADN_T *line = a + r * row_step;
        for (d = 0; d < depth; d++) out[d * ADN_CPU_ROWS] = ADN_LOAD(line, d * depth_step);
    }
}

ADN_FN void cpu_pack_b(float *to, __global const ADN_T *b, int columns, int depth, adn_i64 column_step,
                       adn_i64 depth_step)
{
    int c, d, first;
    for (first = 0; first < columns; first += 16) {
        float *out = to + ADN_CPU_B(0, first);
        if (column_step == 1 && first + 16 <= columns) {
            for (d = 0; d < depth; d++) vstore16(ADN_LOAD16(b, d * depth_step + first), d, out);
        } else {
            const int end = columns < first + 16 ? columns : first + 16;
            for (c = first; c < end; c++)
                for (d = 0; d < depth; d++) out[d * 16 + c - first] = ADN_LOAD(b, d * depth_step + c * column_step);
        }
    }
}

ADN_KERNEL(matmul_tile_cpu)
(ADN_IN(a), ADN_IN(b), ADN_IN(bias), ADN_OUT(y), ADN_OUT(parts), struct adn_matmul_tile_params p)
{
    ADN_PTR_IN(ADN_T, a);
    ADN_PTR_IN(ADN_T, b);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_OUT(ADN_T, y);
    ADN_PTR_OUT(float, parts);
    adn_i64 number, begin;
    for (number = (adn_i64)get_group_id(0); number < p.tiles; number += (adn_i64)get_num_groups(0)) {
        const struct adn_matmul_place t = adn_matmul_place_of(number, ADN_TILE_ROWS, ADN_TILE_COLUMNS, &p);
        const int rows = (int)min(p.rows - t.row, (adn_i64)ADN_TILE_ROWS);
        const int columns = (int)min(p.columns - t.column, (adn_i64)ADN_TILE_COLUMNS);
        float av[ADN_TILE_ROWS * ADN_TILE_DEPTH], bv[ADN_TILE_COLUMNS * ADN_TILE_DEPTH];
        float sum[ADN_TILE_ROWS * ADN_TILE_COLUMNS];
        int r, c;
        for (r = 0; r < ADN_TILE_ROWS * ADN_TILE_COLUMNS; r++) sum[r] = 0.0f;
        for (r = 0; r < ADN_TILE_ROWS * ADN_TILE_DEPTH; r++) av[r] = 0.0f;
        for (r = 0; r < ADN_TILE_COLUMNS * ADN_TILE_DEPTH; r++) bv[r] = 0.0f;
        for (begin = t.depth_begin; begin < t.depth_end; begin += ADN_TILE_DEPTH) {
            const int depth = (int)min(t.depth_end - begin, (adn_i64)ADN_TILE_DEPTH);
            cpu_pack_a(av, a + (t.a + t.row * p.a_row + begin * p.a_depth), rows, depth, p.a_row, p.a_depth);
            cpu_pack_b(bv, b + (t.b + t.column * p.b_column + begin * p.b_depth), columns, depth, p.b_column,
                       p.b_depth);
            adn_cpu_multiply(av, bv, sum, rows, columns, depth);
        }
        for (r = 0; r < rows; r++)
            for (c = 0; c < columns; c++)
                matmul_store(sum[ADN_CPU_SUM(r, c)], t.row + r, t.column + c, &t, bias, y, parts, &p);
    }
}
#endif

#if ADN_C0 == 0
/* One work item for each output: partial sums in the order of the splits. */
ADN_KERNEL(matmul_tile_sum)(ADN_IN(parts), ADN_IN(bias), ADN_OUT(y), struct adn_matmul_tile_params p)
{
    ADN_PTR_IN(float, parts);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_OUT(ADN_T, y);
    adn_i64 i, s;
    for (i = (adn_i64)get_global_id(0); i < p.part; i += (adn_i64)get_global_size(0)) {
        const adn_i64 line = i / p.columns, column = i - line * p.columns;
        const adn_i64 batch = line / p.rows, row = line - batch * p.rows;
        struct adn_matmul_place t;
        adn_i64 at;
        float sum = 0.0f;
        adn_matmul_batch(batch, &t, &p);
        at = t.y + row * p.y_row + column * p.y_column;
        for (s = 0; s < p.splits; s++) sum += parts[s * p.part + i];
        sum *= p.alpha;
        if (p.biased) sum += ADN_LOAD(bias, t.bias + row * p.bias_row + column * p.bias_column);
        if (p.beta != 0.0f) sum += p.beta * ADN_LOAD(y, at);
        ADN_STORE(y, at, sum);
    }
}
#endif
