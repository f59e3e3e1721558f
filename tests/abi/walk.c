/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/walk.c [DEVICE] [--full]: walks the shapes of convolution, matrix products and pooling: each size along one
 * axis at a time, kernels up to the padded input with strides, dilations and unequal pads, groups, layouts; through
 * every engine. What is right is summed here, in double, without the library. Values are multiples of 1/8, so that only
 * the last rounding may differ. */
#include "../support/job.h"
#include "../unit/unit.h"
#include "bench/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct session s;
static bool full;
static uint64_t turn; /* number of the problem in hand: chooses what is not walked */
static int shown;

static const int sizes[] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  10,  11,  12,  13,  14,  15,  16,  17,  18,
                             19, 20, 21, 22, 23, 24, 25, 26, 27, 28,  29,  30,  31,  32,  33,  34,  35,  36,
                             37, 38, 39, 40, 63, 64, 65, 66, 67, 127, 128, 129, 130, 131, 255, 256, 257, 258 };
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- Comparison ---- */

/* What an output must be: sums, and the sums of their terms' magnitudes. */
struct truth {
    double *sum, *size;
};

static bool truth_open(struct truth *t, int64_t count)
{
    t->sum = calloc((size_t)count + 1, sizeof *t->sum);
    t->size = calloc((size_t)count + 1, sizeof *t->size);
    return t->sum && t->size;
}

static void truth_close(struct truth *t)
{
    free(t->sum);
    free(t->size);
}

/* alpha and beta of the turn: beta 0 with a poisoned output, or an old output that counts. */
struct scale {
    double alpha, beta;
};

static struct scale scale_of_turn(struct job *job, struct operand *out)
{
    static const struct scale all[] = { { 1, 0 }, { 1, 0.5 }, { 1, 0 }, { -0.5, 1 }, { 1, 0 }, { 0.5, 0 }, { 1, 1 } };
    const struct scale scale = value_is_integer(out->tensor.dtype) ? all[0] : all[turn % 7];
    int64_t i;
    if (scale.alpha == 1 && scale.beta == 0) return scale;
    job_scalar(job, ANYDNN_ALPHA, scale.alpha);
    job_scalar(job, ANYDNN_BETA, scale.beta);
    for (i = 0; scale.beta != 0 && i < out->count; i++) out->data[i] = job_eighths(turn, (uint64_t)i);
    return scale;
}

static void judge(const struct operand *out, const struct truth *truth, struct scale scale, const char *engine,
                  const char *line)
{
    const double unit = value_roundoff(out->tensor.dtype) * 1.01, least = value_underflow(out->tensor.dtype);
    double want = 0;
    int64_t i;
    for (i = 0; i < out->count; i++) {
        const double old = scale.beta != 0 ? scale.beta * out->data[i] : 0;
        const double size = fabs(scale.alpha) * truth->size[i] + fabs(old);
        want = scale.alpha * truth->sum[i] + old;
        if (isnan(out->got[i]) ? !isnan(want)
                               : fabs(out->got[i] - want) > unit * fabs(want) + size * ldexp(1, -21) + least)
            break;
    }
    if (i == out->count) {
        unit_passed++;
        return;
    }
    unit_failed++;
    if (shown++ < 20)
        printf("failed: %s, alpha %g, beta %g, engine %s: %s[%lld] is %.9g, right is %.9g\n", line, scale.alpha,
               scale.beta, engine, anydnn_role_name(out->role), (long long)i, out->got[i], want);
}

static void run_engines(struct job *job, int role, const struct truth *truth, struct scale scale, const char *line)
{
    static char engines[JOB_ENGINES][64];
    int i, count;
    job->promised = turn % 3 == 1 ? 128 : 0;
    for (i = 0; i < job->operands; i++)
        if (job->operand[i].shift) job->promised = 0;
    count = job_engines(&s, job, full || !s.info.is_cpu, engines);
    CHECK_CASE(count > 0, line);
    for (i = 0; i < count; i++) {
        const anydnn_status status = job_run(&s, job, NULL, engines[i]);
        CHECK_CASE(status == ANYDNN_OK, line);
        if (status)
            printf("  engine %s: %s: %s\n", engines[i], anydnn_status_name(status), anydnn_message());
        else
            judge(job_operand(job, role), truth, scale, engines[i], line);
    }
}

static void fill_inputs(struct job *job)
{
    int64_t i;
    int k;
    for (k = 0; k < job->operands; k++) {
        struct operand *o = &job->operand[k];
        const double scale = value_is_integer(o->tensor.dtype) ? 8 : 1;
        if (o->flags & ANYDNN_ROLE_OUT) continue;
        for (i = 0; i < o->count; i++) o->data[i] = scale * job_eighths(turn * 31 + (uint64_t)k, (uint64_t)i);
    }
}

/* Layouts of the operands as three digits to the base LAYOUTS, one for each operand in the order of the job. */
static void lay_out(struct job *job, int layouts)
{
    int k;
    for (k = 0; k < job->operands; k++, layouts /= LAYOUTS)
        job_layout(&job->operand[k], layouts % LAYOUTS, 1 + (int)(turn % 15));
}

/* ---- Convolution and pooling ---- */

struct shape {
    int spatial;
    int64_t n, c, k, groups;
    int64_t in[3], window[3], stride[3], dilation[3], pad[3], end[3], out[3];
};

enum { FORWARD, DATA, FILTER, DIRECTIONS };

static const struct shape plain = { 2,           2,           3,           4,           1,           { 5, 6, 1 },
                                    { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, { 1, 1, 1 } };

/* Output sizes; false where one is below 1. Division rounds towards minus infinity. */
static bool outputs(struct shape *p, bool ceiling)
{
    bool legal = true;
    int i;
    for (i = 0; i < p->spatial; i++) {
        const int64_t room = p->in[i] + p->pad[i] + p->end[i] - (p->dilation[i] * (p->window[i] - 1) + 1),
                      step = p->stride[i];
        p->out[i] = room < 0 ? 0 : room / step + 1;
        if (ceiling && room >= 0 && room % step && p->out[i] * step < p->in[i] + p->pad[i]) p->out[i]++;
        legal = legal && p->out[i] >= 1;
    }
    return legal;
}

static int numbers(char *text, const char *before, int count, const int64_t *values, char between)
{
    int i, length = sprintf(text, "%s", before);
    for (i = 0; i < count; i++) length += sprintf(text + length, "%.1s%lld", i ? &between : "", (long long)values[i]);
    return length;
}

static int tensor_text(char *text, const char *role, int64_t n, int64_t c, const struct shape *p,
                       const int64_t *spatial, const char *dtype)
{
    int64_t dims[5] = { n, c, 0, 0, 0 };
    char before[24];
    int length;
    memcpy(dims + 2, spatial, sizeof *dims * (size_t)p->spatial);
    sprintf(before, " %s=", role);
    length = numbers(text, before, p->spatial + 2, dims, 'x');
    return length + sprintf(text + length, "/%s", dtype);
}

static int window_text(char *text, const struct shape *p)
{
    int length = numbers(text, " stride=", p->spatial, p->stride, ',');
    length += numbers(text + length, " dilation=", p->spatial, p->dilation, ',');
    length += numbers(text + length, " pad=", p->spatial, p->pad, ',');
    return length + numbers(text + length, " pad_end=", p->spatial, p->end, ',');
}

/* Without an output size there is no y to name. */
static void conv_text(char *text, const struct shape *p, int direction, const char *dtype, bool legal)
{
    static const char *const operation[] = { "conv_forward", "conv_backward_data", "conv_backward_filter" };
    static const char *const role[][3] = { { "x", "w", "y" }, { "dx", "w", "dy" }, { "x", "dw", "dy" } };
    int length = sprintf(text, "%s", operation[direction]);
    length += tensor_text(text + length, role[direction][0], p->n, p->c, p, p->in, dtype);
    length += tensor_text(text + length, role[direction][1], p->k, p->c / p->groups, p, p->window, dtype);
    if (legal)
        length +=
            tensor_text(text + length, role[direction][2], p->n, p->k, p, p->out, strcmp(dtype, "i8") ? dtype : "i32");
    length += window_text(text + length, p);
    sprintf(text + length, " groups=%lld", (long long)p->groups);
}

/* Calls `visit` for every product of the convolution: positions of x, w and y in dense order. */
struct products {
    const double *x, *w, *y;
    struct truth *truth;
    int direction;
};

static void product(const struct products *p, int64_t x, int64_t w, int64_t y)
{
    const double term = p->direction == FORWARD ? p->x[x] * p->w[w]
                        : p->direction == DATA  ? p->y[y] * p->w[w]
                                                : p->x[x] * p->y[y];
    const int64_t at = p->direction == FORWARD ? y : p->direction == DATA ? x : w;
    p->truth->sum[at] += term;
    p->truth->size[at] += fabs(term);
}

/* All taps of one output position for one pair of channels, whose planes begin at x, w and y. */
static void taps(const struct shape *p, const struct products *sums, const int64_t o[3], int64_t x, int64_t w,
                 int64_t y)
{
    int64_t t[3], at[3];
    int i;
    for (t[0] = 0; t[0] < p->window[0]; t[0]++)
        for (t[1] = 0; t[1] < p->window[1]; t[1]++)
            for (t[2] = 0; t[2] < p->window[2]; t[2]++) {
                for (i = 0; i < 3; i++) at[i] = o[i] * p->stride[i] - p->pad[i] + t[i] * p->dilation[i];
                for (i = 0; i < 3 && at[i] >= 0 && at[i] < p->in[i]; i++) continue;
                if (i < 3) continue;
                product(sums, x + (at[0] * p->in[1] + at[1]) * p->in[2] + at[2],
                        w + (t[0] * p->window[1] + t[1]) * p->window[2] + t[2],
                        y + (o[0] * p->out[1] + o[1]) * p->out[2] + o[2]);
            }
}

static void convolve(const struct shape *p, const struct products *sums)
{
    const int64_t cg = p->c / p->groups, kg = p->k / p->groups, in = p->in[0] * p->in[1] * p->in[2];
    const int64_t window = p->window[0] * p->window[1] * p->window[2], out = p->out[0] * p->out[1] * p->out[2];
    int64_t n, k, c, o[3];
    for (n = 0; n < p->n; n++)
        for (k = 0; k < p->k; k++)
            for (c = 0; c < cg; c++)
                for (o[0] = 0; o[0] < p->out[0]; o[0]++)
                    for (o[1] = 0; o[1] < p->out[1]; o[1]++)
                        for (o[2] = 0; o[2] < p->out[2]; o[2]++)
                            taps(p, sums, o, (n * p->c + k / kg * cg + c) * in, (k * cg + c) * window,
                                 (n * p->k + k) * out);
}

static const double *content(struct job *job, int role, int gradient)
{
    struct operand *o = job_operand(job, role);
    return (o ? o : job_operand(job, gradient))->data;
}

/* One convolution in one direction: compared, or refused where it has no output. */
static void conv(struct shape p, int direction, const char *dtype, int layouts)
{
    const bool legal = outputs(&p, false);
    struct products sums;
    struct truth truth;
    struct job job;
    struct operand *out;
    struct scale scale;
    char line[512];
    if (!strcmp(dtype, "i8") && direction != FORWARD) dtype = "f32";
    turn++;
    if (!legal) direction = FORWARD;
    conv_text(line, &p, direction, dtype, legal);
    if (!legal) {
        const anydnn_status status = job_open(&job, line);
        CHECK_CASE(status == ANYDNN_INVALID, line);
        if (status == ANYDNN_OK) job_close(&job);
        return;
    }
    CHECK_CASE(job_open(&job, line) == ANYDNN_OK, line);
    if (!job.problem) return;
    fill_inputs(&job);
    lay_out(&job, layouts);
    out = job_operand(&job, direction == FORWARD ? ANYDNN_Y : direction == DATA ? ANYDNN_DX : ANYDNN_DW);
    scale = scale_of_turn(&job, out);
    sums.x = content(&job, ANYDNN_X, ANYDNN_DX), sums.w = content(&job, ANYDNN_W, ANYDNN_DW),
    sums.y = content(&job, ANYDNN_Y, ANYDNN_DY);
    sums.direction = direction, sums.truth = &truth;
    if (truth_open(&truth, out->count)) {
        convolve(&p, &sums);
        run_engines(&job, out->role, &truth, scale, line);
    }
    truth_close(&truth);
    job_close(&job);
}

/* In all directions; data type and layout take turns, or with --full are all of them. */
static void conv_all(struct shape p)
{
    static const char *const dtypes[] = { "f32", "f16", "f32", "i8", "bf16" };
    static const int layouts[] = { LAYOUT_PACKED * (1 + LAYOUTS + LAYOUTS * LAYOUTS),
                                   LAYOUT_CHANNELS_LAST * (1 + LAYOUTS + LAYOUTS * LAYOUTS) };
    int direction, i, k;
    for (direction = 0; direction < DIRECTIONS; direction++)
        for (i = 0; i < (full ? 5 : 1); i++)
            for (k = 0; k < (full ? 2 : 1); k++)
                conv(p, direction, dtypes[(turn + (uint64_t)i) % 5], layouts[(turn / 5 + (uint64_t)k) % 2]);
}

/* Sizes along batch, channels, filters and both spatial axes, one at a time, under kinds of windows. */
static void conv_sizes(void)
{
    int axis, i, kind;
    for (axis = 0; axis < 5; axis++)
        for (i = 0; i < SIZES; i++)
            for (kind = 0; kind < 4; kind++) {
                struct shape p = plain;
                *(axis == 0 ? &p.n : axis == 1 ? &p.c : axis == 2 ? &p.k : &p.in[axis - 3]) = sizes[i];
                if (kind > 0) p.window[0] = p.window[1] = 3, p.pad[0] = p.pad[1] = p.end[0] = p.end[1] = 1;
                if (kind == 2) p.stride[0] = p.stride[1] = 2;
                if (kind == 3) p.window[0] = 2, p.dilation[1] = 2, p.pad[0] = 0, p.end[1] = 3, p.stride[0] = 3;
                conv_all(p);
            }
}

/* Windows along one axis: up to the padded input and one behind it. */
static void conv_windows(void)
{
    static const int64_t pads[][2] = { { 0, 0 }, { 1, 1 }, { 2, 0 }, { 0, 3 } };
    int pad, stride, dilation, window;
    for (pad = 0; pad < 4; pad++)
        for (stride = 1; stride <= 5; stride++)
            for (dilation = 1; dilation <= 3; dilation++)
                for (window = 1; window <= 13; window++) {
                    const int axis = (int)(turn % 2);
                    struct shape p = plain;
                    p.in[axis] = 9, p.in[1 - axis] = 3, p.n = 1;
                    p.window[axis] = window, p.stride[axis] = stride, p.dilation[axis] = dilation;
                    p.pad[axis] = pads[pad][0], p.end[axis] = pads[pad][1];
                    conv_all(p);
                    if (dilation * (window - 1) + 1 > 9 + p.pad[axis] + p.end[axis]) break; /* refused just now */
                }
}

static void conv_groups(void)
{
    static const int channels[] = { 2, 4, 6, 8, 16, 34, 66 };
    int i, kind, multiplier, group;
    for (i = 0; i < 7; i++)
        for (group = 0; group < 3; group++)
            for (multiplier = 1; multiplier <= 3; multiplier++)
                for (kind = 0; kind < 4; kind++) {
                    struct shape p = plain;
                    p.c = channels[i], p.k = channels[i] * multiplier, p.groups = group == 2 ? p.c : group + 1;
                    if (kind > 0) p.window[0] = p.window[1] = 3, p.pad[0] = p.pad[1] = p.end[0] = p.end[1] = 1;
                    if (kind == 2) p.stride[0] = p.stride[1] = 2;
                    if (kind == 3) p.window[1] = 5, p.dilation[0] = 2, p.pad[1] = 0;
                    conv_all(p);
                }
}

/* One and three spatial axes. */
static void conv_ranks(void)
{
    int axis, size, spatial;
    for (spatial = 1; spatial <= 3; spatial += 2)
        for (axis = 0; axis < spatial; axis++)
            for (size = 1; size <= 20; size++) {
                struct shape p = plain;
                p.spatial = spatial, p.in[0] = 3, p.in[1] = spatial > 1 ? 4 : 1, p.in[2] = spatial > 1 ? 3 : 1;
                p.in[axis] = size, p.window[axis] = 3, p.pad[axis] = 1, p.end[axis] = 2, p.stride[axis] = 1 + size % 2;
                conv_all(p);
            }
}

/* Every layout of one tensor with the others packed, and of all three together. */
static void conv_layouts(void)
{
    static const int weight[] = { 1, LAYOUTS, LAYOUTS * LAYOUTS, 1 + LAYOUTS + LAYOUTS * LAYOUTS };
    static const char *const dtypes[] = { "f32", "f16", "i8" };
    int which, layout, direction, dtype, kind;
    for (which = 0; which < 4; which++)
        for (layout = 0; layout < LAYOUTS; layout++)
            for (direction = 0; direction < DIRECTIONS; direction++)
                for (dtype = 0; dtype < 3; dtype++)
                    for (kind = 0; kind < 3; kind++) {
                        struct shape p = plain;
                        p.c = 8, p.k = 16;
                        if (kind) p.window[0] = p.window[1] = 3, p.pad[0] = p.pad[1] = p.end[0] = p.end[1] = 1;
                        if (kind == 2) p.groups = 8, p.stride[1] = 2;
                        conv(p, direction, dtypes[dtype], layout * weight[which]);
                    }
}

/* ---- Matrix products ---- */

struct product_shape {
    int64_t batch, m, n, k;
    int trans_a, trans_b;
};

static void multiply(const struct product_shape *p, const double *a, const double *b, struct truth *truth)
{
    int64_t batch, m, n, k;
    for (batch = 0; batch < p->batch; batch++)
        for (m = 0; m < p->m; m++)
            for (n = 0; n < p->n; n++)
                for (k = 0; k < p->k; k++) {
                    const double term = a[batch * p->m * p->k + (p->trans_a ? k * p->m + m : m * p->k + k)] *
                                        b[batch * p->k * p->n + (p->trans_b ? n * p->k + k : k * p->n + n)];
                    truth->sum[(batch * p->m + m) * p->n + n] += term;
                    truth->size[(batch * p->m + m) * p->n + n] += fabs(term);
                }
}

static void matmul(const struct product_shape *p, const char *dtype, int layouts)
{
    struct truth truth;
    struct job job;
    struct operand *y;
    struct scale scale;
    char line[256];
    turn++;
    sprintf(line, "matmul a=%lldx%lldx%lld/%s b=%lldx%lldx%lld/%s trans_a=%d trans_b=%d", (long long)p->batch,
            (long long)(p->trans_a ? p->k : p->m), (long long)(p->trans_a ? p->m : p->k), dtype, (long long)p->batch,
            (long long)(p->trans_b ? p->n : p->k), (long long)(p->trans_b ? p->k : p->n), dtype, p->trans_a,
            p->trans_b);
    CHECK_CASE(job_open(&job, line) == ANYDNN_OK, line);
    if (!job.problem) return;
    fill_inputs(&job);
    lay_out(&job, layouts);
    y = job_operand(&job, ANYDNN_Y);
    scale = scale_of_turn(&job, y);
    if (truth_open(&truth, y->count)) {
        multiply(p, job_operand(&job, ANYDNN_A)->data, job_operand(&job, ANYDNN_B)->data, &truth);
        run_engines(&job, ANYDNN_Y, &truth, scale, line);
    }
    truth_close(&truth);
    job_close(&job);
}

static void matmul_walk(void)
{
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    int axis, i, transposes, layout, large;
    for (axis = 0; axis < 4; axis++)
        for (i = 0; i < SIZES; i++)
            for (transposes = 0; transposes < 4; transposes++)
                for (large = 0; large < 2; large++) {
                    struct product_shape p = { 1, 5, 7, 9, transposes & 1, transposes >> 1 };
                    if (large) p.m = 17, p.n = 34, p.k = 33;
                    *(axis == 0 ? &p.batch : axis == 1 ? &p.m : axis == 2 ? &p.n : &p.k) = sizes[i];
                    if (axis == 0 && large) p.m = 1;
                    matmul(&p, dtypes[turn % 3], 0);
                }
    for (layout = 0; layout < LAYOUTS * LAYOUTS * LAYOUTS; layout++) {
        const struct product_shape p = { 3, 16, 24, 8, layout & 1, layout >> 1 & 1 };
        matmul(&p, dtypes[turn % 3], layout);
    }
}

/* ---- Pooling ---- */

/* One plane: the largest element or the average of each window. */
static void pool_plane(const struct shape *p, int mode, const double *x, double *y)
{
    int64_t o[2], t[2], at[2];
    for (o[0] = 0; o[0] < p->out[0]; o[0]++)
        for (o[1] = 0; o[1] < p->out[1]; o[1]++) {
            double sum = 0, largest = -INFINITY, inside = 0, padded = 0;
            for (t[0] = 0; t[0] < p->window[0]; t[0]++)
                for (t[1] = 0; t[1] < p->window[1]; t[1]++) {
                    at[0] = o[0] * p->stride[0] - p->pad[0] + t[0] * p->dilation[0];
                    at[1] = o[1] * p->stride[1] - p->pad[1] + t[1] * p->dilation[1];
                    padded += at[0] < p->in[0] + p->end[0] && at[1] < p->in[1] + p->end[1];
                    if (at[0] < 0 || at[1] < 0 || at[0] >= p->in[0] || at[1] >= p->in[1]) continue;
                    inside++;
                    sum += x[at[0] * p->in[1] + at[1]];
                    if (x[at[0] * p->in[1] + at[1]] > largest) largest = x[at[0] * p->in[1] + at[1]];
                }
            y[o[0] * p->out[1] + o[1]] = mode == 0 ? largest : sum / (mode == 1 ? padded : inside);
        }
}

static void pool(struct shape p, int mode, bool ceiling, const char *dtype, int layouts)
{
    static const char *const modes[] = { "max", "avg_include", "avg_exclude" };
    struct truth truth;
    struct job job;
    struct operand *y;
    struct scale scale;
    char line[512];
    int64_t plane;
    int length = sprintf(line, "pool_forward");
    turn++;
    length += tensor_text(line + length, "x", p.n, p.c, &p, p.in, dtype);
    length += numbers(line + length, " window=", p.spatial, p.window, ',');
    length += window_text(line + length, &p);
    sprintf(line + length, " mode=%s ceil_mode=%d", modes[mode], ceiling);
    if (!outputs(&p, ceiling)) {
        CHECK_CASE(job_open(&job, line) == ANYDNN_INVALID, line);
        return;
    }
    CHECK_CASE(job_open(&job, line) == ANYDNN_OK, line);
    if (!job.problem) return;
    fill_inputs(&job);
    lay_out(&job, layouts);
    y = job_operand(&job, ANYDNN_Y);
    scale = scale_of_turn(&job, y);
    CHECK_CASE(y->count == p.n * p.c * p.out[0] * p.out[1], line);
    if (y->count == p.n * p.c * p.out[0] * p.out[1] && truth_open(&truth, y->count)) {
        for (plane = 0; plane < p.n * p.c; plane++)
            pool_plane(&p, mode, job_operand(&job, ANYDNN_X)->data + plane * p.in[0] * p.in[1],
                       truth.sum + plane * p.out[0] * p.out[1]);
        for (plane = 0; plane < y->count; plane++) truth.size[plane] = 1;
        run_engines(&job, ANYDNN_Y, &truth, scale, line);
        truth_close(&truth);
    }
    job_close(&job);
}

static void pool_walk(void)
{
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    int mode, axis, i, stride, dilation, window, pad;
    for (mode = 0; mode < 3; mode++) {
        for (axis = 0; axis < 4; axis++)
            for (i = 0; i < SIZES; i++) {
                struct shape p = plain;
                *(axis == 0 ? &p.n : axis == 1 ? &p.c : &p.in[axis - 2]) = sizes[i];
                p.window[0] = p.window[1] = 3, p.pad[0] = p.pad[1] = p.end[0] = 1, p.stride[axis % 2] = 2;
                pool(p, mode, turn % 2, dtypes[turn % 3], (int)(turn % 4) / 2 * (1 + LAYOUTS));
            }
        for (stride = 1; stride <= 5; stride++)
            for (dilation = 1; dilation <= 3; dilation++)
                for (window = 1; window <= 12; window++)
                    for (pad = 0; pad < 4; pad++) {
                        const int reach = dilation * (window - 1) + 1, lead = pad == 1 ? reach - 1 : pad == 3 ? 1 : 0;
                        struct shape p = plain;
                        axis = (int)(turn % 2);
                        p.in[axis] = 9, p.in[1 - axis] = 3, p.n = 1;
                        p.window[axis] = window, p.stride[axis] = stride, p.dilation[axis] = dilation;
                        p.pad[axis] = lead < reach ? lead : 0, p.end[axis] = pad == 2 && reach > 1 ? reach / 2 : 0;
                        pool(p, mode, turn % 3 == 0, dtypes[turn % 3], 0);
                    }
        for (i = 0; i < LAYOUTS * LAYOUTS; i++) {
            struct shape p = plain;
            p.window[0] = 2, p.window[1] = 3, p.end[1] = 2;
            pool(p, mode, false, dtypes[turn % 3], i);
        }
    }
}

int main(int argc, char **argv)
{
    const char *device;
    int code;
    full = test_arguments(argc, argv, "--full", &device);
    code = session_open(&s, device, NULL, 32 << 20);
    if (code) return code;
    conv_sizes();
    conv_windows();
    conv_groups();
    conv_ranks();
    conv_layouts();
    matmul_walk();
    pool_walk();
    session_close(&s);
    return unit_end();
}
