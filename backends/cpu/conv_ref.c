/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/conv_ref.c: convolution in three directions and the gradient of its bias.
 *
 * A work item of forward and backward data is a row of outputs (along the last spatial axis) of up to four channels,
 * kept as sums in double on the stack. Stages: for each filter tap the range of outputs whose input lies inside is
 * found once; then the tile adds factor * input row for every reduced channel; then alpha, bias and beta, and one
 * rounding. A work item of backward filter is one tap of up to four filters and 64 input channels, to whose sums every
 * output position adds dy * x; with few input channels it is one channel, with 16 partial sums for each filter along
 * the rows, added in order at the end. Any strides, groups, pads, dilations, flipped filters. The order of additions
 * depends on the problem alone. */
#include "engines.h"
#include "tile.h"

struct conv_job {
    struct adn_conv_geometry g;
    int dtype;
    const void *a; /* forward: x; backward: dy */
    const void *b; /* forward, backward data: w; backward filter: x */
    const void *bias, *z;
    void *out;
    int64_t bias_stride;
    int activation;
    double alpha, beta, alpha2, coef;
    int64_t cg, kg;            /* channels of a group */
    int64_t blocks;            /* of four output channels in a group */
    int64_t c_blocks, c_block; /* backward filter: blocks of input channels in a group, and their size */
    adn_tile_add_fn add;
    adn_tile_dot_fn dot;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? (a + b - 1) / b : -(-a / b);
}
static int64_t floor_div(int64_t a, int64_t b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}
static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Splits *n by size: returns the remainder and leaves the quotient. */
static int64_t digit(int64_t *n, int64_t size)
{
    const int64_t r = *n % size;
    *n /= size;
    return r;
}

/* Offset of filter tap (t, r, s) in w. */
static int64_t tap(const struct adn_conv_geometry *g, int64_t t, int64_t r, int64_t s)
{
    if (g->flip) {
        t = g->filter[0] - 1 - t;
        r = g->filter[1] - 1 - r;
        s = g->filter[2] - 1 - s;
    }
    return t * g->ws[2] + r * g->ws[3] + s * g->ws[4];
}

/* Input position of output o under tap r along an axis. */
static int64_t input_of(const struct adn_conv_geometry *g, int axis, int64_t o, int64_t r)
{
    return o * g->stride[axis] - g->pad[axis] + r * g->dilation[axis];
}

/* Outputs *from..*to-1 along an axis that tap r joins to inputs low..high-1. */
static void outputs_of(const struct adn_conv_geometry *g, int axis, int64_t r, int64_t low, int64_t high, int64_t *from,
                       int64_t *to)
{
    const int64_t shift = input_of(g, axis, 0, r);
    *from = most(0, ceil_div(low - shift, g->stride[axis]));
    *to = least(g->out[axis], floor_div(high - 1 - shift, g->stride[axis]) + 1);
}

static void clear(double (*sum)[ADN_TILE_COLUMNS], int rows, int64_t width)
{
    int64_t i;
    int j;
    for (j = 0; j < rows; j++)
        for (i = 0; i < width; i++) sum[j][i] = 0;
}

/* ---- What is stored. ---- */

/* Stores one result of forward or backward data; bias is that of its channel, z_at its place in z. */
static void store(const struct conv_job *job, int64_t at, int64_t z_at, double sum, double bias)
{
    double v = job->alpha * sum + bias;
    if (job->z && job->alpha2 != 0) v += job->alpha2 * adn_load(job->z, job->dtype, z_at);
    if (job->beta != 0) v += job->beta * adn_load(job->out, job->dtype, at);
    if (job->activation) v = adn_activated(job->activation - 1, job->coef, v);
    adn_store(job->out, job->dtype, at, v);
}

static double bias_of(const struct conv_job *job, int64_t channel)
{
    return job->bias ? adn_load(job->bias, job->dtype, channel * job->bias_stride) : 0;
}

/* Offset of an element by strides s. */
static int64_t place(const int64_t s[5], int64_t n, int64_t c, int64_t z, int64_t y, int64_t x)
{
    return n * s[0] + c * s[1] + z * s[2] + y * s[3] + x * s[4];
}

/* ---- Forward. ---- */

/* Sums of outputs q0..q0+width-1 of row (o, p); tile->source_at and factor_at are those of the group's first channel.
 */
static void forward_row(const struct conv_job *job, struct adn_tile *tile, double (*sum)[ADN_TILE_COLUMNS], int64_t o,
                        int64_t p, int64_t q0, int64_t width)
{
    const struct adn_conv_geometry *g = &job->g;
    const int64_t x_at = tile->source_at, w_at = tile->factor_at;
    int64_t t, r, s, from, to;
    for (s = 0; s < g->filter[2]; s++) {
        outputs_of(g, 2, s, 0, g->in[2], &from, &to);
        from = most(from, q0);
        tile->count = least(to, q0 + width) - from;
        tile->sum_at = from - q0;
        if (tile->count <= 0) continue;
        for (t = 0; t < g->filter[0]; t++) {
            const int64_t d = input_of(g, 0, o, t);
            if (d < 0 || d >= g->in[0]) continue;
            for (r = 0; r < g->filter[1]; r++) {
                const int64_t h = input_of(g, 1, p, r);
                if (h < 0 || h >= g->in[1]) continue;
                tile->source_at = x_at + d * g->xs[2] + h * g->xs[3] + input_of(g, 2, from, s) * g->xs[4];
                tile->factor_at = w_at + tap(g, t, r, s);
                job->add(tile, sum);
            }
        }
    }
}

static void forward(void *argument, int64_t first, int64_t last)
{
    const struct conv_job *job = argument;
    const struct adn_conv_geometry *g = &job->g;
    int64_t item, q0, i;
    int j;
    for (item = first; item < last; item++) {
        int64_t rest = item;
        const int64_t p = digit(&rest, g->out[1]), o = digit(&rest, g->out[0]);
        const int64_t block = digit(&rest, job->blocks), group = digit(&rest, g->groups), n = rest;
        const int64_t k = group * job->kg + block * ADN_TILE_ROWS;
        const int rows = (int)least(ADN_TILE_ROWS, job->kg - block * ADN_TILE_ROWS);
        for (q0 = 0; q0 < g->out[2]; q0 += ADN_TILE_COLUMNS) {
            const int64_t width = least(ADN_TILE_COLUMNS, g->out[2] - q0);
            double sum[ADN_TILE_ROWS][ADN_TILE_COLUMNS];
            struct adn_tile tile = { .rows = rows,
                                     .depth = job->cg,
                                     .factor = job->b,
                                     .factor_at = k * g->ws[0],
                                     .factor_row = g->ws[0],
                                     .factor_depth = g->ws[1],
                                     .source = job->a,
                                     .source_at = n * g->xs[0] + group * job->cg * g->xs[1],
                                     .source_depth = g->xs[1],
                                     .source_step = g->stride[2] * g->xs[4],
                                     .sum_step = 1 };
            clear(sum, rows, width);
            if (job->alpha != 0) forward_row(job, &tile, sum, o, p, q0, width);
            for (j = 0; j < rows; j++) {
                const int64_t at = place(g->ys, n, k + j, o, p, q0), z_at = place(job->g.zs, n, k + j, o, p, q0);
                const double bias = bias_of(job, k + j);
                for (i = 0; i < width; i++) store(job, at + i * g->ys[4], z_at + i * job->g.zs[4], sum[j][i], bias);
            }
        }
    }
}

/* ---- Backward data. ---- */

/* Output position along one axis that tap r of the filter joins to input position i; -1 if there is none. */
static int64_t joined(const struct adn_conv_geometry *g, int axis, int64_t i, int64_t r)
{
    const int64_t at = i + g->pad[axis] - r * g->dilation[axis];
    if (at < 0 || at % g->stride[axis] != 0 || at / g->stride[axis] >= g->out[axis]) return -1;
    return at / g->stride[axis];
}

/* Sums of inputs w0..w0+width-1 of row (d, h). */
static void data_row(const struct conv_job *job, struct adn_tile *tile, double (*sum)[ADN_TILE_COLUMNS], int64_t d,
                     int64_t h, int64_t w0, int64_t width)
{
    const struct adn_conv_geometry *g = &job->g;
    const int64_t dy_at = tile->source_at, w_at = tile->factor_at;
    int64_t t, r, s, from, to;
    for (s = 0; s < g->filter[2]; s++) {
        outputs_of(g, 2, s, w0, w0 + width, &from, &to);
        tile->count = to - from;
        tile->sum_at = input_of(g, 2, from, s) - w0;
        if (tile->count <= 0) continue;
        for (t = 0; t < g->filter[0]; t++) {
            const int64_t o = joined(g, 0, d, t);
            if (o < 0) continue;
            for (r = 0; r < g->filter[1]; r++) {
                const int64_t p = joined(g, 1, h, r);
                if (p < 0) continue;
                tile->source_at = dy_at + o * g->ys[2] + p * g->ys[3] + from * g->ys[4];
                tile->factor_at = w_at + tap(g, t, r, s);
                job->add(tile, sum);
            }
        }
    }
}

static void backward_data(void *argument, int64_t first, int64_t last)
{
    const struct conv_job *job = argument;
    const struct adn_conv_geometry *g = &job->g;
    int64_t item, w0, i;
    int j;
    for (item = first; item < last; item++) {
        int64_t rest = item;
        const int64_t h = digit(&rest, g->in[1]), d = digit(&rest, g->in[0]);
        const int64_t block = digit(&rest, job->blocks), group = digit(&rest, g->groups), n = rest;
        const int64_t c = block * ADN_TILE_ROWS;
        const int rows = (int)least(ADN_TILE_ROWS, job->cg - c);
        for (w0 = 0; w0 < g->in[2]; w0 += ADN_TILE_COLUMNS) {
            const int64_t width = least(ADN_TILE_COLUMNS, g->in[2] - w0);
            double sum[ADN_TILE_ROWS][ADN_TILE_COLUMNS];
            struct adn_tile tile = { .rows = rows,
                                     .depth = job->kg,
                                     .factor = job->b,
                                     .factor_at = group * job->kg * g->ws[0] + c * g->ws[1],
                                     .factor_row = g->ws[1],
                                     .factor_depth = g->ws[0],
                                     .source = job->a,
                                     .source_at = n * g->ys[0] + group * job->kg * g->ys[1],
                                     .source_depth = g->ys[1],
                                     .source_step = g->ys[4],
                                     .sum_step = g->stride[2] };
            clear(sum, rows, width);
            if (job->alpha != 0) data_row(job, &tile, sum, d, h, w0, width);
            for (j = 0; j < rows; j++) {
                const int64_t channel = group * job->cg + c + j;
                const int64_t at = place(g->xs, n, channel, d, h, w0), z_at = place(job->g.zs, n, channel, d, h, w0);
                const double bias = bias_of(job, channel);
                for (i = 0; i < width; i++) store(job, at + i * g->xs[4], z_at + i * job->g.zs[4], sum[j][i], bias);
            }
        }
    }
}

/* ---- Backward filter. ---- */

/* Runs the inner loop over every image and output row for tap at[] (t, r, s). With lanes: the outputs of a row are the
 * columns of a dot, and rows its depth. With sums: channels are the columns of an add, the outputs of a row its depth.
 */
static void filter_sums(const struct conv_job *job, struct adn_tile *tile, double (*sum)[ADN_TILE_COLUMNS],
                        double (*lane)[ADN_TILE_LANES], int64_t k, int64_t c, const int64_t at[3])
{
    const struct adn_conv_geometry *g = &job->g;
    int64_t n, o, p, p_end, q, q_end, line;
    outputs_of(g, 1, at[1], 0, g->in[1], &p, &p_end);
    outputs_of(g, 2, at[2], 0, g->in[2], &q, &q_end);
    if (p >= p_end || q >= q_end) return;
    for (n = 0; n < g->n; n++)
        for (o = 0; o < g->out[0]; o++) {
            const int64_t d = input_of(g, 0, o, at[0]);
            if (d < 0 || d >= g->in[0]) continue;
            tile->factor_at = n * g->ys[0] + k * g->ys[1] + o * g->ys[2] + p * g->ys[3] + q * g->ys[4];
            tile->source_at = n * g->xs[0] + c * g->xs[1] + d * g->xs[2] + input_of(g, 1, p, at[1]) * g->xs[3] +
                              input_of(g, 2, q, at[2]) * g->xs[4];
            if (lane) {
                tile->depth = p_end - p;
                tile->count = q_end - q;
                job->dot(tile, lane);
                continue;
            }
            tile->depth = q_end - q;
            for (line = p; line < p_end; line++) {
                job->add(tile, sum);
                tile->factor_at += g->ys[3];
                tile->source_at += g->stride[1] * g->xs[3];
            }
        }
}

/* Few input channels: one of them for each item. */
static void filter_by_rows(const struct conv_job *job, int rows, int64_t k, int64_t c, int64_t c_in,
                           const int64_t at[3], int64_t w_at)
{
    const struct adn_conv_geometry *g = &job->g;
    double lane[ADN_TILE_ROWS][ADN_TILE_LANES] = { { 0 } };
    struct adn_tile tile = { .rows = rows,
                             .factor = job->a,
                             .factor_row = g->ys[1],
                             .factor_depth = g->ys[3],
                             .factor_step = g->ys[4],
                             .source = job->b,
                             .source_depth = g->stride[1] * g->xs[3],
                             .source_step = g->stride[2] * g->xs[4] };
    int j, i;
    filter_sums(job, &tile, NULL, lane, k, c_in, at);
    for (j = 0; j < rows; j++) {
        double sum = 0;
        for (i = 0; i < ADN_TILE_LANES; i++) sum += lane[j][i];
        adn_store_scaled(job->out, job->dtype, w_at + j * g->ws[0] + c * g->ws[1], job->alpha * sum, job->beta);
    }
}

static void filter_by_channels(const struct conv_job *job, int rows, int64_t k, int64_t c, int64_t c_in,
                               const int64_t at[3], int64_t w_at)
{
    const struct adn_conv_geometry *g = &job->g;
    double sum[ADN_TILE_ROWS][ADN_TILE_COLUMNS];
    struct adn_tile tile = { .rows = rows,
                             .count = least(ADN_TILE_COLUMNS, job->cg - c),
                             .factor = job->a,
                             .factor_row = g->ys[1],
                             .factor_depth = g->ys[4],
                             .source = job->b,
                             .source_depth = g->stride[2] * g->xs[4],
                             .source_step = g->xs[1],
                             .sum_step = 1 };
    int64_t i;
    int j;
    clear(sum, rows, tile.count);
    filter_sums(job, &tile, sum, NULL, k, c_in, at);
    for (j = 0; j < rows; j++)
        for (i = 0; i < tile.count; i++)
            adn_store_scaled(job->out, job->dtype, w_at + j * g->ws[0] + (c + i) * g->ws[1], job->alpha * sum[j][i],
                             job->beta);
}

static void backward_filter(void *argument, int64_t first, int64_t last)
{
    const struct conv_job *job = argument;
    const struct adn_conv_geometry *g = &job->g;
    int64_t item;
    for (item = first; item < last; item++) {
        int64_t rest = item, at[3], c, block, group, k, w_at;
        int rows;
        at[2] = digit(&rest, g->filter[2]);
        at[1] = digit(&rest, g->filter[1]);
        at[0] = digit(&rest, g->filter[0]);
        c = digit(&rest, job->c_blocks) * job->c_block;
        block = digit(&rest, job->blocks);
        group = rest;
        k = group * job->kg + block * ADN_TILE_ROWS;
        rows = (int)least(ADN_TILE_ROWS, job->kg - block * ADN_TILE_ROWS);
        w_at = k * g->ws[0] + tap(g, at[0], at[1], at[2]);
        if (job->c_block == 1)
            filter_by_rows(job, rows, k, c, group * job->cg + c, at, w_at);
        else
            filter_by_channels(job, rows, k, c, group * job->cg + c, at, w_at);
    }
}

/* ---- The engine. ---- */

/* Chooses body, number of items and time of an item (about half a nanosecond for a product). */
static void dispatch(struct conv_job *job, int op, struct adn_pool *pool)
{
    const struct adn_conv_geometry *g = &job->g;
    const int64_t taps = g->filter[0] * g->filter[1] * g->filter[2];
    const int64_t channels = op == ANYDNN_OP_CONV_BACKWARD_DATA ? job->cg : job->kg;
    job->blocks = (channels + ADN_TILE_ROWS - 1) / ADN_TILE_ROWS;
    job->c_block = job->cg < 8 ? 1 : least(job->cg, ADN_TILE_COLUMNS);
    job->c_blocks = (job->cg + job->c_block - 1) / job->c_block;
    if (op == ANYDNN_OP_CONV_FORWARD)
        adn_pool_for(pool, g->n * g->groups * job->blocks * g->out[0] * g->out[1],
                     2 * (double)g->out[2] * ((double)taps * (double)job->cg + 4), forward, job);
    else if (op == ANYDNN_OP_CONV_BACKWARD_DATA)
        adn_pool_for(pool, g->n * g->groups * job->blocks * g->in[0] * g->in[1],
                     2 * (double)g->in[2] * ((double)taps * (double)job->kg + 4), backward_data, job);
    else
        adn_pool_for(pool, g->groups * job->blocks * job->c_blocks * taps,
                     2 * (double)job->c_block * ((double)(g->n * g->out[0] * g->out[1]) * (double)g->out[2] + 4),
                     backward_filter, job);
}

static anydnn_status run_bias(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const struct adn_view dy = adn_view_of(plan, arguments, ANYDNN_DY);
    const struct adn_view dbias = adn_view_of(plan, arguments, ANYDNN_DBIAS);
    adn_reduce_sum(stream, &dy, &dbias, adn_scalar(plan, arguments, ANYDNN_ALPHA, 1),
                   adn_scalar(plan, arguments, ANYDNN_BETA, 0));
    return ANYDNN_OK;
}

static void read_job(struct conv_job *job, const anydnn_plan *plan, const struct adn_arguments *arguments)
{
    const int op = plan->problem.desc.head.op;
    const int a = op == ANYDNN_OP_CONV_FORWARD ? ANYDNN_X : ANYDNN_DY;
    const int b = op == ANYDNN_OP_CONV_BACKWARD_FILTER ? ANYDNN_X : ANYDNN_W;
    const struct adn_view bias = adn_view_of(plan, arguments, ANYDNN_BIAS), z = adn_view_of(plan, arguments, ANYDNN_Z);
    adn_conv_geometry(&plan->problem, &job->g);
    job->a = adn_view_of(plan, arguments, a).data;
    job->b = adn_view_of(plan, arguments, b).data;
    job->bias = bias.data;
    job->bias_stride = bias.t && bias.t->dims[1] != 1 ? bias.t->strides[1] : 0;
    job->z = z.data;
    job->activation = plan->problem.desc.conv.activation;
    job->alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job->beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    job->alpha2 = adn_scalar(plan, arguments, ANYDNN_ALPHA2, 1);
    job->coef = adn_scalar(plan, arguments, ANYDNN_COEF, 0);
    job->cg = job->g.c / job->g.groups;
    job->kg = job->g.k / job->g.groups;
}

static anydnn_status conv_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const int op = plan->problem.desc.head.op;
    const int to = op == ANYDNN_OP_CONV_FORWARD ? ANYDNN_Y : op == ANYDNN_OP_CONV_BACKWARD_DATA ? ANYDNN_DX : ANYDNN_DW;
    struct adn_view out;
    struct conv_job job;
    if (op == ANYDNN_OP_CONV_BACKWARD_BIAS) return run_bias(plan, stream, arguments);
    out = adn_view_of(plan, arguments, to);
    if (adn_is_empty(out.t)) return ANYDNN_OK;
    if (adn_is_byte(plan->problem.operand[0].t.dtype)) return adn_conv_integer(plan, stream, arguments);
    memset(&job, 0, sizeof job);
    read_job(&job, plan, arguments);
    job.dtype = out.dtype;
    job.out = out.data;
    job.add = adn_tile_add(job.dtype);
    job.dot = adn_tile_dot(job.dtype);
    if (job.alpha == 0 && !job.bias && !job.z && !job.activation)
        adn_rescale(stream, &out, job.beta);
    else
        dispatch(&job, op, adn_stream_pool(stream));
    return ANYDNN_OK;
}

const struct adn_engine adn_conv_ref = {
    .name = "conv_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_CONV_FORWARD) | ADN_OP_BIT(ANYDNN_OP_CONV_BACKWARD_DATA) |
           ADN_OP_BIT(ANYDNN_OP_CONV_BACKWARD_FILTER) | ADN_OP_BIT(ANYDNN_OP_CONV_BACKWARD_BIAS),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = conv_run,
};
