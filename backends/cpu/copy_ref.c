/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/copy_ref.c: copies between any strides and dtypes, fill, scale. Values go through double; the exceptions
 * keep the promise of one rounding: equal dtypes with alpha 1 and beta 0 copy bits, i64 going to f32 or bf16 is cut to
 * double with its last bit sticky, and i32 and i64 with whole alpha and beta stay in 64-bit integers. */
#include "engines.h"

struct copy_job {
    struct adn_walk walk; /* y, x */
    struct adn_view y, x;
    double alpha, beta, value;
};

static void copy_bits(void *argument, int64_t first, int64_t last)
{
    const struct copy_job *job = argument;
    const int64_t size = (int64_t)anydnn_dtype_size(job->y.dtype);
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r)) {
        if (r.step[0] == 1 && r.step[1] == 1) {
            memcpy(job->y.data + r.at[0] * size, job->x.data + r.at[1] * size, (size_t)(r.run * size));
            continue;
        }
        for (i = 0; i < r.run; i++)
            memcpy(job->y.data + (r.at[0] + i * r.step[0]) * size, job->x.data + (r.at[1] + i * r.step[1]) * size,
                   (size_t)size);
    }
}

/* A double that rounds to any narrower format as v itself would: bits behind the 53rd leave a sticky last bit. */
static double sticky(int64_t v)
{
    uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v, lost;
    int shift = 0;
    while (magnitude >> shift > ((uint64_t)1 << 53) - 1) shift++;
    lost = magnitude & (((uint64_t)1 << shift) - 1);
    magnitude = magnitude >> shift | (lost != 0);
    return ldexp(v < 0 ? -(double)magnitude : (double)magnitude, shift);
}

static double source(const struct copy_job *job, int64_t at)
{
    if (job->x.dtype == ANYDNN_I64 && job->y.dtype != ANYDNN_F64)
        return sticky(((const int64_t *)(const void *)job->x.data)[at]);
    return adn_get(&job->x, at);
}

static void copy_values(void *argument, int64_t first, int64_t last)
{
    const struct copy_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++)
            adn_put_scaled(&job->y, r.at[0] + i * r.step[0], job->alpha * source(job, r.at[1] + i * r.step[1]),
                           job->beta);
}

static int64_t load_integer(const struct adn_view *v, int64_t at)
{
    const void *data = v->data;
    return v->dtype == ANYDNN_I64 ? ((const int64_t *)data)[at] : ((const int32_t *)data)[at];
}

static void store_integer(const struct adn_view *v, int64_t at, int64_t value)
{
    void *data = v->data;
    if (v->dtype == ANYDNN_I64) ((int64_t *)data)[at] = value;
    else ((int32_t *)data)[at] = (int32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}

/* alpha * x + beta * y modulo 2^64; a factor of 0 reads nothing. */
static void copy_integers(void *argument, int64_t first, int64_t last)
{
    const struct copy_job *job = argument;
    const uint64_t alpha = (uint64_t)(int64_t)job->alpha, beta = (uint64_t)(int64_t)job->beta;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            const int64_t to = r.at[0] + i * r.step[0], from = r.at[1] + i * r.step[1];
            uint64_t sum = alpha ? alpha * (uint64_t)load_integer(&job->x, from) : 0;
            if (beta) sum += beta * (uint64_t)load_integer(&job->y, to);
            store_integer(&job->y, to, (int64_t)sum);
        }
}

static void fill_range(void *argument, int64_t first, int64_t last)
{
    const struct copy_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->walk, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) adn_put(&job->y, r.at[0] + i * r.step[0], job->value);
}

static bool is_counter(int dtype) { return dtype == ANYDNN_I32 || dtype == ANYDNN_I64; }
static bool is_whole(double v) { return v == rint(v) && fabs(v) <= 0x1p53; }

static void copy(anydnn_stream *stream, struct copy_job *job)
{
    const struct adn_view *views[] = { &job->y, &job->x };
    const bool bits = job->alpha == 1 && job->beta == 0 && job->x.dtype == job->y.dtype;
    const bool whole = is_counter(job->x.dtype) && is_counter(job->y.dtype) && is_whole(job->alpha) && is_whole(job->beta);
    if (job->alpha == 0 && !whole) {
        adn_rescale(stream, &job->y, job->beta);
        return;
    }
    adn_walk_views(&job->walk, job->y.t, ~0u, false, 2, views);
    adn_pool_for(adn_stream_pool(stream), job->walk.count, 4, bits ? copy_bits : whole ? copy_integers : copy_values, job);
}

static anydnn_status copy_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const int op = plan->problem.desc.head.op;
    struct copy_job job;
    const struct adn_view *views[] = { &job.y };
    memset(&job, 0, sizeof job);
    job.y = adn_view_of(plan, arguments, ANYDNN_Y);
    job.x = adn_view_of(plan, arguments, ANYDNN_X);
    job.alpha = adn_scalar(plan, arguments, ANYDNN_ALPHA, 1);
    job.beta = adn_scalar(plan, arguments, ANYDNN_BETA, 0);
    job.value = adn_scalar(plan, arguments, ANYDNN_VALUE, 0);
    if (op == ANYDNN_OP_COPY) {
        copy(stream, &job);
    } else if (op == ANYDNN_OP_SCALE) {
        adn_rescale(stream, &job.y, job.alpha);
    } else {
        adn_walk_views(&job.walk, job.y.t, ~0u, false, 1, views);
        adn_pool_for(adn_stream_pool(stream), job.walk.count, 2, fill_range, &job);
    }
    return ANYDNN_OK;
}

const struct adn_engine adn_copy_ref = {
    .name = "copy_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_COPY) | ADN_OP_BIT(ANYDNN_OP_FILL) | ADN_OP_BIT(ANYDNN_OP_SCALE),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_GENERIC,
    .revision = 2,
    .plan = adn_ref_plan,
    .run = copy_run,
};
