/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/specials.c [DEVICE]: NaN and infinities, one at a time, at places of every input (all of a small one; the
 * borders, vector lanes and scattered places of a large one), for every operation that computes with floats, through
 * every engine. NaN must come out somewhere, and what comes out is what the CPU reference gives on packed tensors
 * (whose rules are fixed in ../unit/test_reference.c): NaN and infinities at the same elements, other elements as close
 * as ever. Limits: products of padding with what is not finite may be skipped or computed (anydnn/ops.h), so
 * convolutions have no padding here where that would show. */
#include "../support/job.h"
#include "../unit/unit.h"
#include "bench/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct session s, reference;
static int shown;

enum { HIDES = 1 /* NaN decides where a gradient goes, and does not come out itself */, NO_INFINITY = 2 };

/* Lines in which T stands for a data type, and the inputs that take their turn. */
static const struct pattern {
    const char *line;
    int flags, role[3];
} patterns[] = {
    { "conv_forward x=2x3x5x6/T w=4x3x3x3/T", 0, { ANYDNN_X, ANYDNN_W } },
    { "conv_forward x=1x3x5x6/T w=4x3x3x3/T pad=1,1", 0, { ANYDNN_X } },
    { "conv_forward x=1x24x4x5:nhwc/T w=9x24x1x1:nhwc/T bias=1x9x1x1/T activation=relu",
      0,
      { ANYDNN_X, ANYDNN_W, ANYDNN_BIAS } },
    { "conv_forward x=1x4x5x6/T w=4x2x3x3/T z=1x4x3x4/T groups=2 activation=clipped_relu",
      0,
      { ANYDNN_X, ANYDNN_W, ANYDNN_Z } },
    { "conv_forward x=1x8x5x6:nhwc/T w=8x1x3x3/T y=1x8x3x4:nhwc/T groups=8 activation=leaky_relu",
      0,
      { ANYDNN_X, ANYDNN_W } },
    { "conv_backward_data dy=1x4x4x5/T w=4x3x1x1/T dx=1x3x4x5/T", 0, { ANYDNN_DY, ANYDNN_W } },
    { "conv_backward_data dy=1x4x3x3/T w=4x3x3x3/T dx=1x3x6x6/T stride=2,2 pad=1,1", 0, { ANYDNN_DY } },
    { "conv_backward_data dy=1x8x4x4:nhwc/T w=8x1x3x3/T dx=1x8x6x6:nhwc/T groups=8", 0, { ANYDNN_DY } },
    { "conv_backward_filter x=2x3x5x6/T dy=2x4x3x4/T dw=4x3x3x3/T", 0, { ANYDNN_X, ANYDNN_DY } },
    { "conv_backward_filter x=2x8x5x6:nhwc/T dy=2x8x3x4:nhwc/T dw=8x1x3x3/T groups=8", 0, { ANYDNN_X, ANYDNN_DY } },
    { "conv_backward_bias dy=2x3x7x9/T", 0, { ANYDNN_DY } },
    { "matmul a=5x7/T b=7x19/T bias=1x19/T", 0, { ANYDNN_A, ANYDNN_B, ANYDNN_BIAS } },
    { "matmul a=1x67/T b=67x5/T", 0, { ANYDNN_A, ANYDNN_B } },
    { "matmul a=40x17/T b=35x40/T trans_a=1 trans_b=1", 0, { ANYDNN_A, ANYDNN_B } },
    { "pool_forward x=1x2x5x6/T indices=1x2x4x5/i32 mode=max window=2,2", 0, { ANYDNN_X } },
    { "pool_forward x=1x2x7x5:nhwc/T mode=max window=3,3 pad=1,1 stride=2,2", 0, { ANYDNN_X } },
    { "pool_forward x=1x2x5x6/T mode=avg_exclude window=3,3 pad=1,1", 0, { ANYDNN_X } },
    { "pool_backward dy=1x2x4x5/T x=1x2x5x6/T dx=1x2x5x6/T mode=max window=2,2", HIDES, { ANYDNN_X } },
    { "pool_backward dy=1x2x4x5/T dx=1x2x5x6/T mode=avg_include window=2,2", 0, { ANYDNN_DY } },
    { "activation_forward x=67/T mode=relu", 0, { ANYDNN_X } },
    { "activation_forward x=67/T mode=leaky_relu", 0, { ANYDNN_X } },
    { "activation_forward x=67/T mode=clipped_relu", 0, { ANYDNN_X } },
    { "activation_forward x=67/T mode=sigmoid", 0, { ANYDNN_X } },
    { "activation_forward x=67/T mode=tanh", 0, { ANYDNN_X } },
    { "activation_backward dy=67/T x=67/T mode=relu", 0, { ANYDNN_DY, ANYDNN_X } },
    { "activation_backward dy=67/T y=67/T mode=clipped_relu", 0, { ANYDNN_DY, ANYDNN_Y } },
    { "activation_backward dy=67/T x=67/T mode=leaky_relu", 0, { ANYDNN_DY, ANYDNN_X } },
    { "activation_backward dy=67/T x=67/T mode=sigmoid", 0, { ANYDNN_DY, ANYDNN_X } },
    { "activation_backward dy=67/T y=67/T mode=tanh", 0, { ANYDNN_DY, ANYDNN_Y } },
    { "softmax_forward x=3x5/T", 0, { ANYDNN_X } },
    { "softmax_forward x=3x37x2/T mode=log", 0, { ANYDNN_X } },
    { "softmax_forward x=2x1031/T", 0, { ANYDNN_X } },
    { "softmax_forward x=2x9001/T mode=log", 0, { ANYDNN_X } },
    { "softmax_backward y=3x37/T dy=3x37/T", 0, { ANYDNN_Y, ANYDNN_DY } },
    { "cross_entropy_forward x=5x7/T labels=5x1/i32", 0, { ANYDNN_X } },
    { "cross_entropy_forward x=3x1031/T labels=3x1/i64 reduction=none", 0, { ANYDNN_X } },
    { "cross_entropy_backward x=5x7/T labels=5x1/i32 reduction=sum", 0, { ANYDNN_X } },
    { "batchnorm_training x=3x2x3x5/T gamma=1x2x1x1/f32 shift=1x2x1x1/f32 saved_mean=1x2x1x1/f32 "
      "saved_invstd=1x2x1x1/f32 "
      "running_mean=1x2x1x1/f32 running_var=1x2x1x1/f32 epsilon=0.5",
      NO_INFINITY,
      { ANYDNN_X } },
    { "batchnorm_inference x=3x2x3x5/T gamma=1x2x1x1/f32 shift=1x2x1x1/f32 running_mean=1x2x1x1/f32 "
      "running_var=1x2x1x1/f32",
      0,
      { ANYDNN_X } },
    { "batchnorm_backward x=3x2x3x5/T dy=3x2x3x5/T gamma=1x2x1x1/f32 epsilon=0.5",
      NO_INFINITY,
      { ANYDNN_X, ANYDNN_DY } },
    { "binary a=67/T b=67/T mode=add", 0, { ANYDNN_A, ANYDNN_B } },
    { "binary a=67/T b=67/T mode=max", 0, { ANYDNN_A, ANYDNN_B } },
    { "binary a=5x13/T b=1x13/T mode=min", 0, { ANYDNN_A, ANYDNN_B } },
    { "binary a=67/T b=67/T mode=mul", 0, { ANYDNN_A, ANYDNN_B } },
    { "binary_backward dy=5x13/T a=5x13/T b=1x13/T da=5x13/T db=1x13/T mode=mul",
      0,
      { ANYDNN_DY, ANYDNN_A, ANYDNN_B } },
    { "reduce x=3x37/T mode=sum axes=1", 0, { ANYDNN_X } },
    { "reduce x=3x37/T mode=max axes=1", 0, { ANYDNN_X } },
    { "reduce x=37x3/T mode=max axes=0", 0, { ANYDNN_X } },
    { "reduce x=3x37/T mode=min axes=1", 0, { ANYDNN_X } },
    { "reduce x=3x37/T mode=amax axes=1", 0, { ANYDNN_X } },
    { "reduce x=40009/T mode=max", 0, { ANYDNN_X } },
    { "reduce x=40009/T mode=min", 0, { ANYDNN_X } },
    { "reduce x=40009/T mode=amax", 0, { ANYDNN_X } },
    { "reduce x=3x37/T mode=norm1 axes=1", 0, { ANYDNN_X } },
    { "reduce x=3x37/T mode=norm2 axes=1", 0, { ANYDNN_X } },
    { "reduce_backward dy=3x1/T x=3x37/T dx=3x37/T mode=max axes=1", HIDES, { ANYDNN_X } },
    { "copy x=67/T y=67/f32 alpha=0.5", 0, { ANYDNN_X } },
    { "copy x=67/T y=67/bf16", 0, { ANYDNN_X } },
    { "copy x=67/T y=67/i8", HIDES, { ANYDNN_X } },
    { "dropout_forward x=67/T ratio=0", 0, { ANYDNN_X } },
    { "sgd grad=67/T param=67/T moment1=67/f32 lr=0.5 momentum=0.5", 0, { ANYDNN_GRAD, ANYDNN_PARAM, ANYDNN_MOMENT1 } },
    { "adam grad=67/T param=67/T moment1=67/f32 moment2=67/f32 lr=0.5 step=3",
      0,
      { ANYDNN_GRAD, ANYDNN_PARAM, ANYDNN_MOMENT2 } },
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static double sample(const struct operand *o, int64_t i)
{
    const double u = job_eighths((uint64_t)o->role, (uint64_t)i);
    switch (o->role) {
    case ANYDNN_RUNNING_VAR:
    case ANYDNN_SAVED_INVSTD:
    case ANYDNN_MOMENT2:
        return 1.5 + u;
    case ANYDNN_LABELS:
        return (double)(i % 2);
    default:
        return u != 0 ? u : 0.5; /* nothing hides behind a product with 0 */
    }
}

/* Of a small tensor every place, else those around its start, its end, vectors and thirds. */
static int64_t place_of(int64_t count, int number)
{
    static const int places[] = { 0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 63, 64, 255, 256 };
    enum { STARTS = sizeof places / sizeof *places };
    if (count <= 40) return number < count ? number : -1;
    if (number < STARTS) return places[number] < count ? places[number] : count - 1;
    if (number < STARTS + 5) return count - 1 - (number - STARTS);
    if (number < STARTS + 8) return count * (number - STARTS - 4) / 4;
    return -1;
}

static bool holds_nan(const struct job *job)
{
    int64_t i;
    int k;
    for (k = 0; k < job->operands; k++)
        for (i = 0; job->operand[k].flags & ANYDNN_ROLE_OUT && i < job->operand[k].count; i++)
            if (isnan(job->operand[k].got[i])) return true;
    return false;
}

static bool is_right(int dtype, double got, double want)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    return got == want ||
           (!isinf(want) && fabs(got - want) <= 2.1 * value_roundoff(dtype) * fabs(want) + 2e-5 * (1 + fabs(want)) +
                                                    16 * value_roundoff(dtype));
}

static void judge(const struct operand *out, const struct operand *right, const char *engine, const char *what)
{
    int64_t i;
    for (i = 0; i < out->count && is_right(out->tensor.dtype, out->got[i], right->got[i]); i++) continue;
    if (i == out->count) {
        unit_passed++;
        return;
    }
    unit_failed++;
    if (shown++ < 30)
        printf("failed: %s, engine %s: %s[%lld] is %.9g, right is %.9g\n", what, engine, anydnn_role_name(out->role),
               (long long)i, out->got[i], right->got[i]);
}

/* One value in one place, through the engines. */
static void one(struct job *job, struct job *right, char engines[JOB_ENGINES][64], int count, const char *what,
                bool hides)
{
    anydnn_status status = job_run(&reference, right, NULL, NULL);
    int i, k;
    CHECK_CASE(status == ANYDNN_OK && (hides || holds_nan(right)), what);
    for (i = 0; i < count; i++) {
        status = job_run(&s, job, NULL, engines[i]);
        CHECK_CASE(status == ANYDNN_OK, what);
        if (status) printf("  %s: %s: %s\n", engines[i], anydnn_status_name(status), anydnn_message());
        for (k = 0; !status && k < job->operands; k++)
            if (job->operand[k].flags & ANYDNN_ROLE_OUT) judge(&job->operand[k], &right->operand[k], engines[i], what);
    }
}

static void places(struct job *job, struct job *right, const struct pattern *p, int role, const char *line)
{
    static const double values[] = { NAN, INFINITY, -INFINITY };
    static char engines[JOB_ENGINES][64];
    struct operand *o = job_operand(job, role), *same = job_operand(right, role);
    const int count = job_engines(&s, job, false, engines);
    int number, i;
    CHECK_CASE(count > 0, line);
    for (number = 0; place_of(o->count, number) >= 0; number++) {
        const int64_t at = place_of(o->count, number);
        const double old = o->data[at];
        for (i = 0; i < (p->flags & NO_INFINITY ? 1 : 3); i++) {
            char what[600];
            snprintf(what, sizeof what, "%.400s with %g at %s[%lld]", line, values[i], anydnn_role_name(role),
                     (long long)at);
            o->data[at] = same->data[at] = values[i];
            one(job, right, engines, count, what, i > 0 || (p->flags & HIDES));
        }
        o->data[at] = same->data[at] = old;
    }
}

static void walk(const struct pattern *p, const char *dtype)
{
    char line[512], *to = line;
    const char *from;
    struct job job, right;
    int64_t i;
    int k;
    for (from = p->line; *from; from++) to += *from == 'T' ? sprintf(to, "%s", dtype) : sprintf(to, "%c", *from);
    CHECK_CASE(job_open(&job, line) == ANYDNN_OK, line);
    CHECK_CASE(job_open(&right, line) == ANYDNN_OK, line);
    job.promised = right.promised = 128; /* vector paths */
    for (k = 0; k < job.operands; k++)
        for (i = 0; job.operand[k].flags & ANYDNN_ROLE_IN && i < job.operand[k].count; i++)
            job.operand[k].data[i] = right.operand[k].data[i] = sample(&job.operand[k], i);
    for (k = 0; k < 3 && p->role[k]; k++) places(&job, &right, p, p->role[k], line);
    job_close(&right);
    job_close(&job);
}

int main(int argc, char **argv)
{
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    int i, code = session_open(&s, argc > 1 ? argv[1] : "cpu", NULL, 4 << 20);
    if (!code) code = session_open(&reference, "cpu", NULL, 4 << 20);
    if (code) return code;
    for (i = 0; i < PATTERNS; i++) {
        walk(&patterns[i], "f32");
        walk(&patterns[i], dtypes[1 + i % 2]);
    }
    session_close(&reference);
    session_close(&s);
    return unit_end();
}
