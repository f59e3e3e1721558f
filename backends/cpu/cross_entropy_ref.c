/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/cross_entropy_ref.c: softmax and cross entropy in one, and its gradient. A work item is a row (the C
 * logits of one label). Summed losses are added up in a fixed number of parts of the rows and then part by part, so
 * that the result depends neither on the number of threads nor on timing. */
#include "engines.h"

enum { PARTS = 64 };

struct loss_job {
    struct adn_walk rows; /* labels, x, loss or dloss, dx */
    struct adn_view x, labels, loss, dx, dloss;
    int reduction;
    double smoothing;
    int64_t classes, x_step, dx_step;
    double counted; /* rows */
    double part[PARTS];
};

static int64_t label_at(const struct loss_job *job, int64_t at)
{
    return job->labels.dtype == ANYDNN_I32 ? ((const int32_t *)(const void *)job->labels.data)[at]
                                           : ((const int64_t *)(const void *)job->labels.data)[at];
}

/* Largest logit of a row, NaN winning, and log of the sum of exp(x - max). */
static double row_max(const struct loss_job *job, int64_t at, double *log_sum)
{
    double max = -INFINITY, sum = 0;
    int64_t c;
    for (c = 0; c < job->classes; c++) {
        const double v = adn_get(&job->x, at + c * job->x_step);
        if (v > max || v != v) max = v;
        if (max != max) break;
    }
    for (c = 0; c < job->classes; c++) sum += exp(adn_get(&job->x, at + c * job->x_step) - max);
    *log_sum = log(sum);
    return max;
}

static double row_loss(const struct loss_job *job, int64_t at, int64_t label)
{
    const double e = job->smoothing;
    double max, log_sum, loss = 0, all = 0;
    int64_t c;
    if (label < 0) return 0;
    if (label >= job->classes) return NAN;
    max = row_max(job, at, &log_sum);
    /* A coefficient of 0 drops its term: log p may be -inf there. */
    if (e < 1) loss = -(1 - e) * (adn_get(&job->x, at + label * job->x_step) - max - log_sum);
    if (e == 0) return loss;
    for (c = 0; c < job->classes; c++) all += adn_get(&job->x, at + c * job->x_step) - max - log_sum;
    return loss - e / (double)job->classes * all;
}

static void each_loss(void *argument, int64_t first, int64_t last)
{
    const struct loss_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->rows, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++)
            adn_put(&job->loss, r.at[2] + i * r.step[2],
                    row_loss(job, r.at[1] + i * r.step[1], label_at(job, r.at[0] + i * r.step[0])));
}

/* First row of a part. */
static int64_t part_begin(const struct loss_job *job, int64_t part)
{
    const int64_t whole = job->rows.count / PARTS, rest = job->rows.count % PARTS;
    return part * whole + (part < rest ? part : rest);
}

static void part_sums(void *argument, int64_t first, int64_t last)
{
    struct loss_job *job = argument;
    struct adn_rows r;
    int64_t part, i;
    for (part = first; part < last; part++) {
        double sum = 0;
        for (adn_rows_begin(&r, &job->rows, part_begin(job, part), part_begin(job, part + 1)); r.run; adn_rows_next(&r))
            for (i = 0; i < r.run; i++)
                sum += row_loss(job, r.at[1] + i * r.step[1], label_at(job, r.at[0] + i * r.step[0]));
        job->part[part] = sum;
    }
}

static double count_rows(const struct loss_job *job)
{
    int64_t count = 0, i;
    struct adn_rows r;
    for (adn_rows_begin(&r, &job->rows, 0, job->rows.count); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) count += label_at(job, r.at[0] + i * r.step[0]) >= 0;
    return (double)count;
}

static void row_gradient(const struct loss_job *job, int64_t x_at, int64_t dx_at, int64_t label, double scale)
{
    const double e = job->smoothing, share = e / (double)job->classes;
    double max = 0, log_sum = 0;
    int64_t c;
    if (label >= 0 && label < job->classes) max = row_max(job, x_at, &log_sum);
    for (c = 0; c < job->classes; c++) {
        double v = 0;
        if (label >= job->classes)
            v = NAN;
        else if (label >= 0)
            v = (exp(adn_get(&job->x, x_at + c * job->x_step) - max - log_sum) - (c == label ? 1 - e : 0) - share) *
                scale;
        adn_put(&job->dx, dx_at + c * job->dx_step, v);
    }
}

static void gradients(void *argument, int64_t first, int64_t last)
{
    const struct loss_job *job = argument;
    struct adn_rows r;
    int64_t i;
    for (adn_rows_begin(&r, &job->rows, first, last); r.run; adn_rows_next(&r))
        for (i = 0; i < r.run; i++) {
            double scale = job->dloss.t ? adn_get(&job->dloss, r.at[2] + i * r.step[2]) : 1;
            if (job->reduction == ANYDNN_LOSS_MEAN) scale /= job->counted;
            row_gradient(job, r.at[1] + i * r.step[1], r.at[3] + i * r.step[3], label_at(job, r.at[0] + i * r.step[0]),
                         scale);
        }
}

static void total_loss(struct adn_pool *pool, struct loss_job *job, double row_ns)
{
    double sum = 0;
    int part;
    adn_pool_for(pool, PARTS, row_ns * ((double)job->rows.count / PARTS + 1), part_sums, job);
    for (part = 0; part < PARTS; part++) sum += job->part[part];
    if (job->reduction == ANYDNN_LOSS_MEAN) {
        job->counted = count_rows(job);
        sum = job->counted > 0 ? sum / job->counted : 0;
    }
    adn_put(&job->loss, 0, sum);
}

static anydnn_status cross_entropy_run(const anydnn_plan *plan, anydnn_stream *stream,
                                       const struct adn_arguments *arguments)
{
    const int backward = plan->problem.desc.head.op == ANYDNN_OP_CROSS_ENTROPY_BACKWARD;
    struct adn_pool *pool = adn_stream_pool(stream);
    struct loss_job job;
    const struct adn_view *views[] = { &job.labels, &job.x, backward ? &job.dloss : &job.loss, &job.dx };
    double row_ns;
    memset(&job, 0, sizeof job);
    job.x = adn_view_of(plan, arguments, ANYDNN_X);
    job.labels = adn_view_of(plan, arguments, ANYDNN_LABELS);
    job.loss = adn_view_of(plan, arguments, ANYDNN_LOSS);
    job.dx = adn_view_of(plan, arguments, ANYDNN_DX);
    job.dloss = adn_view_of(plan, arguments, ANYDNN_DLOSS);
    job.reduction = plan->problem.desc.cross_entropy.reduction;
    job.smoothing = adn_scalar(plan, arguments, ANYDNN_SMOOTHING, 0);
    job.classes = job.x.t->dims[1];
    job.x_step = job.x.t->strides[1];
    job.dx_step = job.dx.t ? job.dx.t->strides[1] : 0;
    adn_walk_views(&job.rows, job.labels.t, ~0u, false, backward ? 4 : 3, views);
    row_ns = 30 + 30 * (double)job.classes;
    if (backward) {
        job.counted = job.reduction == ANYDNN_LOSS_MEAN ? count_rows(&job) : 0;
        adn_pool_for(pool, job.rows.count, row_ns, gradients, &job);
    } else if (job.reduction == ANYDNN_LOSS_NONE) {
        adn_pool_for(pool, job.rows.count, row_ns, each_loss, &job);
    } else {
        total_loss(pool, &job, row_ns);
    }
    return ANYDNN_OK;
}

const struct adn_engine adn_cross_entropy_ref = {
    .name = "cross_entropy_ref",
    .ops = ADN_OP_BIT(ANYDNN_OP_CROSS_ENTROPY_FORWARD) | ADN_OP_BIT(ANYDNN_OP_CROSS_ENTROPY_BACKWARD),
    .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT | ANYDNN_TRAIT_GENERIC,
    .revision = 1,
    .plan = adn_ref_plan,
    .run = cross_entropy_run,
};
