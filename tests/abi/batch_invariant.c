/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/batch_invariant.c [device [cases [seed]]]: with prefs.batch_invariant an item gives the same bits alone and
 * in a batch of five, for every operation that the flag concerns; on a GPU language the flag must make a difference
 * somewhere: without it the same items differ. Then random problems: items of a batch of 64 alone, and in batches of 2,
 * 3 and 7 in another order. */
#include "../support/job.h"
#include "bench/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 5, LARGE = 64, CASES = 60, LINE = 512 };

/* %d is the number of items, everywhere axis 0 of what belongs to them. */
static const char *const lines[] = {
    "conv_forward x=%dx512x4x4/f32 w=16x512x3x3/f32 pad=1,1",
    "conv_forward x=%dx512x4x4:nhwc/f16 w=16x512x3x3:nhwc/f16 pad=1,1 bias=1x16x1x1/f16 activation=relu",
    "conv_forward x=%dx700x7/f32 w=12x700x1/f32",
    "conv_forward x=%dx64x9x9:nhwc/f32 w=64x1x3x3/f32 groups=64 pad=1,1 y=%dx64x9x9:nhwc/f32",
    "conv_forward x=%dx96x5x5/bf16 w=24x48x3x3/bf16 groups=2 stride=2,2",
    "conv_forward x=%dx256x5x5/f32 w=24x256x3x3/f32 math=tf32",
    "conv_backward_data dy=%dx512x4x4/f32 w=512x16x3x3/f32 pad=1,1 dx=%dx16x4x4/f32",
    "conv_backward_data dy=%dx64x9x9:nhwc/f16 w=64x1x3x3/f16 groups=64 pad=1,1 dx=%dx64x9x9:nhwc/f16",
    "matmul a=%dx3000/f32 b=3000x19/f32",
    "matmul a=%dx7x900/f16 b=%dx900x11/f16",
    "matmul a=%dx3000/f32 b=3000x1/f32",
    "pool_forward x=%dx3x20x20/f32 window=9,9 mode=avg_include",
    "pool_backward dy=%dx3x4x4/f32 window=3,3 stride=2,2 dx=%dx3x9x9/f32 mode=avg_exclude",
    "softmax_forward x=%dx1000/f32",
    "softmax_forward x=%dx1000x3/f16",
    "softmax_backward y=%dx777x2/f32 dy=%dx777x2/f32 mode=log",
    "cross_entropy_forward x=%dx1000/f32 labels=%dx1/i32 reduction=none",
    "cross_entropy_backward x=%dx1000/f32 labels=%dx1/i32 reduction=sum",
};

static int failures;

static void fill(struct job *job)
{
    int i;
    int64_t k;
    for (i = 0; i < job->operands; i++)
        for (k = 0; k < job->operand[i].count; k++) {
            const double v = random_unit((uint64_t)job->operand[i].role, (uint64_t)k);
            if (job->operand[i].flags & ANYDNN_ROLE_IN)
                job->operand[i].data[k] = job->operand[i].role == ANYDNN_LABELS ? floor(500 * (v + 1)) : v;
        }
}

/* The part of an operand that belongs to an item: a slice of axis 0, or all of it. */
static const double *part(const struct operand *whole, const double *data, const struct operand *single, int item)
{
    return data + (whole->count == single->count ? 0 : item * single->count);
}

/* Whether all items of the batch equal those that were computed alone. */
static bool agree(struct session *s, const char *line, struct job *batch, const anydnn_prefs *prefs, const char *engine)
{
    char text[256];
    bool same = true;
    int item, i;
    for (item = 0; item < BATCH; item++) {
        struct job one;
        snprintf(text, sizeof text, line, 1, 1);
        if (job_open(&one, text) != ANYDNN_OK) return false;
        for (i = 0; i < one.operands; i++)
            memcpy(one.operand[i].data, part(&batch->operand[i], batch->operand[i].data, &one.operand[i], item),
                   (size_t)one.operand[i].count * sizeof(double));
        if (job_run(s, &one, prefs, engine) != ANYDNN_OK) same = false;
        for (i = 0; i < one.operands; i++)
            if ((one.operand[i].flags & ANYDNN_ROLE_OUT) &&
                memcmp(one.operand[i].got, part(&batch->operand[i], batch->operand[i].got, &one.operand[i], item),
                       (size_t)one.operand[i].count * sizeof(double)) != 0)
                same = false;
        job_close(&one);
    }
    return same;
}

static bool runs_alike(struct session *s, const char *line, bool flag)
{
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    struct job batch;
    char text[256];
    bool same = false;
    prefs.batch_invariant = flag;
    prefs.math = strstr(line, "math=tf32") ? ANYDNN_MATH_TF32 : ANYDNN_MATH_DEFAULT;
    snprintf(text, sizeof text, line, BATCH, BATCH);
    if (job_open(&batch, text) == ANYDNN_OK) {
        fill(&batch);
        if (job_run(s, &batch, &prefs, NULL) == ANYDNN_OK) same = agree(s, line, &batch, &prefs, NULL);
        job_close(&batch);
    }
    return same;
}

/* ---- random problems: `n` items of the problem of a seed ---- */

struct dice {
    uint64_t seed, used;
};

static int among(struct dice *d, int first, int last)
{
    return first + (int)(random_bits(d->seed, d->used++) % (uint64_t)(last - first + 1));
}

static const char *dtype_of(struct dice *d)
{
    static const char *const names[] = { "f32", "f16", "bf16" };
    return names[among(d, 0, 2)];
}

/* Plain, grouped and depthwise, forward and backward data. */
static void conv_line(struct dice *d, int n, char *line)
{
    const int kind = among(d, 0, 2), groups = kind == 0 ? 1 : kind == 1 ? among(d, 2, 4) : among(d, 3, 40);
    const int cg = kind == 2 ? 1 : among(d, 1, among(d, 0, 1) ? 9 : 150),
              kg = kind == 2 ? among(d, 1, 2) : among(d, 1, 20);
    const int r = among(d, 1, 4), stride = among(d, 1, 2), dilation = among(d, 1, 2), pad = among(d, 0, r - 1);
    const int reach = (r - 1) * dilation + 1, inside = (among(d, 1, 6) - 1) * stride + reach - 2 * pad;
    const int in = inside < 1 ? 1 : inside, padded = in + 2 * pad < reach ? reach - in : 2 * pad;
    const int out = (in + padded - reach) / stride + 1, c = groups * cg, k = groups * kg;
    const char *layout = among(d, 0, 1) ? ":nhwc" : "", *t = dtype_of(d);
    const bool data = among(d, 0, 1);
    snprintf(line, LINE,
             "%s=%dx%dx%dx%d%s/%s w=%dx%dx%dx%d%s/%s %s=%dx%dx%dx%d%s/%s groups=%d stride=%d,%d dilation=%d,%d "
             "pad=%d,%d pad_end=%d,%d",
             data ? "conv_backward_data dy" : "conv_forward x", n, data ? k : c, data ? out : in, data ? out : in,
             layout, t, k, cg, r, r, layout, t, data ? "dx" : "y", n, data ? c : k, data ? in : out, data ? in : out,
             layout, t, groups, stride, stride, dilation, dilation, pad, pad, padded - pad, padded - pad);
}

static void other_line(struct dice *d, int n, char *line)
{
    const char *t = dtype_of(d);
    const int depth = among(d, 1, among(d, 0, 1) ? 40 : 3000), columns = among(d, 1, 40), rows = among(d, 1, 5),
              x = among(d, 3, 12);
    switch (among(d, 0, 6)) {
    case 0:
        snprintf(line, LINE, "matmul a=%dx%d/%s b=%dx%d/%s", n, depth, t, depth, columns, t);
        break;
    case 1:
        snprintf(line, LINE, "matmul a=%dx%dx%d/%s b=1x%dx%d/%s trans_b=1", n, rows, depth, t, columns, depth, t);
        break;
    case 2:
        snprintf(line, LINE, "matmul a=%dx%dx%d/%s b=%dx%dx%d/%s", n, rows, depth, t, n, depth, columns, t);
        break;
    case 3:
        snprintf(line, LINE, "pool_forward x=%dx%dx%dx%d/%s window=3,2 stride=%d,1 mode=avg_exclude", n, rows, x, x, t,
                 rows);
        break;
    case 4:
        snprintf(line, LINE, "softmax_forward x=%dx%d/%s", n, depth, t);
        break;
    case 5:
        snprintf(line, LINE, "softmax_backward y=%dx%dx%d/%s dy=%dx%dx%d/%s", n, depth, rows, t, n, depth, rows, t);
        break;
    default:
        snprintf(line, LINE, "cross_entropy_forward x=%dx%d/%s labels=%dx1/i32 reduction=none", n, depth, t, n);
    }
}

static void random_problem(uint64_t seed, int n, char *line)
{
    struct dice d = { seed, 0 };
    if (among(&d, 0, 1))
        conv_line(&d, n, line);
    else
        other_line(&d, n, line);
}

/* Items first, first + step, ... of the batch in a job of their own: bit-equal with what the batch gave. */
static bool same_items(struct session *s, struct job *batch, const anydnn_prefs *prefs, uint64_t seed, int n, int first,
                       int step)
{
    char line[LINE];
    struct job few;
    bool same;
    int i, k;
    random_problem(seed, n, line);
    if (job_open(&few, line) != ANYDNN_OK) return false;
    for (i = 0; i < few.operands; i++) {
        const struct operand *whole = &batch->operand[i];
        const bool shared = whole->count == few.operand[i].count;
        const int64_t size = whole->count / LARGE;
        for (k = 0; k < n && !shared; k++)
            memcpy(few.operand[i].data + k * size, whole->data + (first + k * step) % LARGE * size,
                   (size_t)size * sizeof(double));
        if (shared) memcpy(few.operand[i].data, whole->data, (size_t)whole->count * sizeof(double));
    }
    same = job_run(s, &few, prefs, NULL) == ANYDNN_OK;
    for (i = 0; i < few.operands; i++)
        for (k = 0; k < n && (few.operand[i].flags & ANYDNN_ROLE_OUT); k++) {
            const int64_t size = batch->operand[i].count / LARGE;
            same = same &&
                   !memcmp(few.operand[i].got + k * size, batch->operand[i].got + (first + k * step) % LARGE * size,
                           (size_t)size * sizeof(double));
        }
    job_close(&few);
    return same;
}

static void random_case(struct session *s, uint64_t seed)
{
    static const struct {
        int n, first, step;
    } parts[] = { { 1, 0, 1 }, { 1, 63, 1 }, { 1, 17, 1 }, { 2, 40, 61 }, { 3, 5, 25 }, { 7, 63, 55 } };
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    struct job batch;
    char line[LINE];
    size_t i;
    prefs.batch_invariant = 1;
    random_problem(seed, LARGE, line);
    if (job_open(&batch, line) != ANYDNN_OK) {
        printf("FAILED: %s: %s\n", line, anydnn_message());
        failures++;
        return;
    }
    fill(&batch);
    for (i = 0; i < (size_t)batch.operands; i++) /* classes that are there */
        if (batch.operand[i].role == ANYDNN_LABELS)
            for (int64_t k = 0; k < batch.operand[i].count; k++)
                batch.operand[i].data[k] = (double)(k % job_operand(&batch, ANYDNN_X)->tensor.dims[1]);
    if (job_run(s, &batch, &prefs, NULL) != ANYDNN_OK) {
        printf("FAILED: %s: %s\n", line, anydnn_message());
        failures++;
    } else {
        for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            if (same_items(s, &batch, &prefs, seed, parts[i].n, parts[i].first, parts[i].step)) continue;
            printf("FAILED: seed %llu, %d items: %s: an item depends on its batch\n", (unsigned long long)seed,
                   parts[i].n, line);
            failures++;
        }
    }
    job_close(&batch);
}

int main(int argc, char **argv)
{
    const int cases = argc > 2 ? atoi(argv[2]) : CASES;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    struct session s;
    const int opened = session_open(&s, argc > 1 ? argv[1] : "cpu", NULL, 64 << 20);
    int i, differ = 0, count = (int)(sizeof lines / sizeof *lines);
    if (opened) return opened;
    for (i = 0; i < count; i++) {
        if (!runs_alike(&s, lines[i], true)) {
            printf("FAILED: %s: an item depends on its batch (%s)\n", lines[i], anydnn_message());
            failures++;
        }
        if (!runs_alike(&s, lines[i], false)) differ++;
    }
    if (s.info.backend != ANYDNN_BACKEND_CPU && differ == 0) {
        printf("FAILED: without the flag nothing differs: this test sees nothing\n");
        failures++;
    }
    for (i = 0; i < cases; i++) random_case(&s, seed * 1000003 + (uint64_t)i);
    printf("%d passed, %d failed; %d of %d differ without the flag\n", count + cases - failures, failures, differ,
           count);
    session_close(&s);
    return failures ? 1 : 0;
}
