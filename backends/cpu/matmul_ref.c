/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/matmul_ref.c: batched matrix product. A work item is a tile of up to 4 x 64 outputs with sums in double
 * on the stack; then alpha, bias and beta, and one rounding. Where y is tall and narrow, rows and columns change places
 * (y' = b' a'), so that the inner loop stays long. Any strides and broadcast batches. */
#include "engines.h"
#include "tile.h"

struct matmul_job {
    struct adn_view a, b, y, bias;
    uint32_t batch_axes;
    int64_t rows, columns, depth, row_blocks, column_blocks;
    int64_t a_row, a_depth, b_depth, b_column, y_row, y_column; /* strides */
    int64_t bias_row, bias_column;
    double alpha, beta;
    adn_tile_add_fn add;
};

static void store_tile(const struct matmul_job *job, double (*sum)[ADN_TILE_COLUMNS], int64_t y_at, int64_t row,
                       int rows, int64_t column, int64_t width)
{
    int64_t i;
    int j;
    for (j = 0; j < rows; j++)
        for (i = 0; i < width; i++) {
            const int64_t at = y_at + (row + j) * job->y_row + (column + i) * job->y_column;
            double v = job->alpha * sum[j][i];
            if (job->bias.t) v += adn_get(&job->bias, (row + j) * job->bias_row + (column + i) * job->bias_column);
            adn_put_scaled(&job->y, at, v, job->beta);
        }
}

static void tiles(void *argument, int64_t first, int64_t last)
{
    const struct matmul_job *job = argument;
    int64_t item;
    for (item = first; item < last; item++) {
        const int64_t column = item % job->column_blocks * ADN_TILE_COLUMNS;
        const int64_t row = item / job->column_blocks % job->row_blocks * ADN_TILE_ROWS;
        const int64_t batch = item / job->column_blocks / job->row_blocks;
        double sum[ADN_TILE_ROWS][ADN_TILE_COLUMNS] = { { 0 } };
        struct adn_tile tile = { .depth = job->alpha == 0 ? 0 : job->depth,
                                 .factor = job->a.data,
                                 .factor_row = job->a_row,
                                 .factor_depth = job->a_depth,
                                 .source = job->b.data,
                                 .source_depth = job->b_depth,
                                 .source_step = job->b_column,
                                 .sum_step = 1 };
        tile.rows = job->rows - row < ADN_TILE_ROWS ? (int)(job->rows - row) : ADN_TILE_ROWS;
        tile.count = job->columns - column < ADN_TILE_COLUMNS ? job->columns - column : ADN_TILE_COLUMNS;
        tile.factor_at = adn_offset_of(job->a.t, job->y.t, job->batch_axes, batch) + row * job->a_row;
        tile.source_at = adn_offset_of(job->b.t, job->y.t, job->batch_axes, batch) + column * job->b_column;
        job->add(&tile, sum);
        store_tile(job, sum, adn_offset_of(job->y.t, job->y.t, job->batch_axes, batch), row, tile.rows, column,
                   tile.count);
    }
}

static void swap(int64_t *a, int64_t *b)
{
    const int64_t t = *a;
    *a = *b;
    *b = t;
}

/* y' = b' a': exchanges the parts of a and b. */
static void transpose(struct matmul_job *job)
{
    const struct adn_view view = job->a;
    job->a = job->b;
    job->b = view;
    swap(&job->rows, &job->columns);
    swap(&job->a_row, &job->b_column);
    swap(&job->a_depth, &job->b_depth);
    swap(&job->y_row, &job->y_column);
    swap(&job->bias_row, &job->bias_column);
}

static void set_shape(struct matmul_job *job, const anydnn_matmul *desc)
{
    const anydnn_tensor *a = job->a.t, *b = job->b.t, *y = job->y.t, *bias = job->bias.t;
    const int m = y->ndim - 2, n = y->ndim - 1;
    job->batch_axes = (1u << m) - 1;
    job->rows = y->dims[m];
    job->columns = y->dims[n];
    job->depth = a->dims[desc->trans_a ? m : n];
    job->a_row = a->strides[desc->trans_a ? n : m];
    job->a_depth = a->strides[desc->trans_a ? m : n];
    job->b_depth = b->strides[desc->trans_b ? n : m];
    job->b_column = b->strides[desc->trans_b ? m : n];
    job->y_row = y->strides[m];
    job->y_column = y->strides[n];
    job->bias_row = 0;
    job->bias_column = bias && bias->dims[bias->ndim - 1] != 1 ? bias->strides[bias->ndim - 1] : 0;
    if (job->columns < 16 && job->rows > job->columns) transpose(job);
    job->row_blocks = (job->rows + ADN_TILE_ROWS - 1) / ADN_TILE_ROWS;
    job->column_blocks = (job->columns + ADN_TILE_COLUMNS - 1) / ADN_TILE_COLUMNS;
}

static anydnn_status matmul_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    struct matmul_job job;
    int64_t batches;
    memset(&job, 0, sizeof job);
    job.a = adn_view_of(plan, arguments, ANYDNN_A);
    job.b = adn_view_of(plan, arguments, ANYDNN_B);
    job.y = adn_view_of(plan, arguments, ANYDNN_Y);
    job.bias = adn_view_of(plan, arguments, ANYDNN_BIAS);
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    if (adn_is_empty(job.y.t)) return ANYDNN_OK;
    set_shape(&job, &plan->problem.desc.matmul);
    batches = anydnn_tensor_count(job.y.t) / (job.rows * job.columns);
    job.add = adn_tile_add(job.y.dtype);
    adn_pool_for(adn_stream_pool(stream), batches * job.row_blocks * job.column_blocks,
                 0.5 * (double)(ADN_TILE_ROWS * ADN_TILE_COLUMNS) * ((double)job.depth + 8), tiles, &job);
    return ANYDNN_OK;
}

const struct adn_engine adn_matmul_ref = {
    .name = "matmul_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_MATMUL),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = matmul_run,
};
