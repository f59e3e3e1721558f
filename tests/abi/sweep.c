/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/sweep.c [DEVICE] [--full]: every operation at extents around the limits of launches, with each extent 0, in
 * every layout of every operand, and with alpha and beta over poisoned and counting outputs; through every engine. What
 * is right comes from the CPU reference on packed tensors (whose numbers walk.c and the unit tests check). */
#include "../support/job.h"
#include "../unit/unit.h"
#include "bench/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct session s, reference;
static bool full;
static int shown;

/* Lines in which N, C, H, W and K stand for extents and T for a data type. */
struct pattern {
    const char *line;
    bool zero; /* what is summed over an empty axis is 0 */
};

static const struct pattern patterns[] = {
    { "conv_forward x=NxCxHxW/T w=KxCx1x1/T", true },
    { "conv_forward x=NxKxHxW/T w=CxKx3x1/T pad=1,0", true },
    { "conv_forward x=NxCxHxW/T w=Cx1x1x3/T groups=C pad=0,1", false },
    { "conv_backward_data dy=NxKxHxW/T w=KxCx1x1/T dx=NxCxHxW/T", true },
    { "conv_backward_data dy=NxCxHxW/T w=Cx1x1x3/T dx=NxCxHxW/T groups=C pad=0,1", false },
    { "conv_backward_filter x=NxCxHxW/T dy=NxKxHxW/T dw=KxCx1x1/T", true },
    { "conv_backward_filter x=NxCxHxW/T dy=NxCxHxW/T dw=Cx1x1x3/T groups=C pad=0,1", false },
    { "conv_backward_bias dy=NxCxHxW/T", true },
    { "matmul a=NxHxK/T b=NxKxW/T", true },
    { "matmul a=NxKxH/T b=1xWxK/T trans_a=1 trans_b=1", true },
    { "matmul a=HxK/T b=KxW/T bias=1xW/T", false },
    { "pool_forward x=NxCxHxW/T indices=NxCxHxW/i32 mode=max window=1,1", false },
    { "pool_forward x=NxCxHxW/T mode=avg_include window=3,1 pad=1,0", false },
    { "pool_forward x=NxCxHxW/T mode=avg_exclude window=1,3 pad=0,1", false },
    { "pool_backward dy=NxCxHxW/T x=NxCxHxW/T dx=NxCxHxW/T mode=max window=3,1 pad=1,0", false },
    { "pool_backward dy=NxCxHxW/T dx=NxCxHxW/T mode=avg_include window=1,3 pad=0,1", false },
    { "activation_forward x=NxCxHxW/T mode=tanh", false },
    { "activation_backward dy=NxCxHxW/T x=NxCxHxW/T mode=relu", false },
    { "activation_backward dy=NxCxHxW/T y=NxCxHxW/T mode=sigmoid", false },
    { "softmax_forward x=NxCxHxW/T", false },
    { "softmax_forward x=NxCxHxW/T axes=2,3 mode=log", false },
    { "softmax_backward y=NxCxHxW/T dy=NxCxHxW/T", false },
    { "softmax_backward y=NxCxHxW/T dy=NxCxHxW/T axes=3 mode=log", false },
    { "cross_entropy_forward x=NxCxHxW/T labels=Nx1xHxW/i32", false },
    { "cross_entropy_forward x=NxC/T labels=Nx1/i64 reduction=none", false },
    { "cross_entropy_backward x=NxCxHxW/T labels=Nx1xHxW/i64 smoothing=0.25", false },
    { "batchnorm_training x=NxCxHxW/T gamma=1xCx1x1/f32 shift=1xCx1x1/f32 saved_mean=1xCx1x1/f32 "
      "saved_invstd=1xCx1x1/f32 "
      "running_mean=1xCx1x1/f32 running_var=1xCx1x1/f32 epsilon=0.5",
      false },
    { "batchnorm_training x=NxCxHxW/T gamma=1xCxHxW/f32 shift=1xCxHxW/f32 mode=per_activation epsilon=0.5", false },
    { "batchnorm_inference x=NxCxHxW/T gamma=1xCx1x1/f32 shift=1xCx1x1/f32 running_mean=1xCx1x1/f32 "
      "running_var=1xCx1x1/f32",
      false },
    { "batchnorm_inference x=NxCxHxW/T gamma=1xCxHxW/f32 shift=1xCxHxW/f32 running_mean=1xCxHxW/f32 "
      "running_var=1xCxHxW/f32 "
      "mode=per_activation",
      false },
    { "batchnorm_backward x=NxCxHxW/T dy=NxCxHxW/T gamma=1xCx1x1/f32 epsilon=0.5", false },
    { "batchnorm_backward x=NxCxHxW/T dy=NxCxHxW/T gamma=1xCxHxW/f32 saved_mean=1xCxHxW/f32 saved_invstd=1xCxHxW/f32 "
      "mode=per_activation",
      false },
    { "binary a=NxCxHxW/T b=1xCx1x1/T mode=add alpha2=0.5", false },
    { "binary a=NxCxHxW/T b=NxCxHxW/T mode=max", false },
    { "binary a=Nx1x1xW/T b=1xCxHx1/T mode=mul", false },
    { "binary_backward dy=NxCxHxW/T a=NxCxHxW/T b=1xCx1x1/T da=NxCxHxW/T db=1xCx1x1/T mode=mul", true },
    { "binary_backward dy=NxCxHxW/T da=1x1xHxW/T db=Nx1x1x1/T mode=sub", true },
    { "reduce x=NxCxHxW/T mode=sum axes=1", true },
    { "reduce x=NxCxHxW/T mode=sum", true },
    { "reduce x=NxCxHxW/T mode=mean axes=0,2,3", false },
    { "reduce x=NxCxHxW/T mode=max axes=3", false },
    { "reduce_backward dy=Nx1xHxW/T x=NxCxHxW/T dx=NxCxHxW/T mode=max axes=1", false },
    { "reduce_backward dy=1xCx1x1/T dx=NxCxHxW/T mode=mean axes=0,2,3", false },
    { "copy x=NxCxHxW/T y=NxCxHxW/f64 alpha=0.5", false },
    { "copy x=NxCxHxW/f32 y=NxCxHxW/T beta=0", false },
    { "copy x=NxCxHxW/T y=NxCxHxW/i8 alpha=4", false },
    { "fill y=NxCxHxW/T value=-2.5", false },
    { "scale y=NxCxHxW/T alpha=-3", false },
    { "dropout_forward x=NxCxHxW/T ratio=0.25 rng_seed=5", false },
    { "dropout_backward dy=NxCxHxW/T ratio=0.25 rng_seed=5 rng_offset=3", false },
    { "sgd grad=NxCxHxW/T param=NxCxHxW/T moment1=NxCxHxW/f32 lr=0.5 momentum=0.5", false },
    { "adam grad=NxCxHxW/T param=NxCxHxW/T moment1=NxCxHxW/f32 moment2=NxCxHxW/f32 lr=0.5 step=3", false },
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static const char letters[] = "NCHWK";

static void expand(const char *pattern, const int extents[5], const char *dtype, char *line)
{
    for (; *pattern; pattern++) {
        const char *letter = strchr(letters, *pattern);
        if (letter)
            line += sprintf(line, "%d", extents[letter - letters]);
        else if (*pattern == 'T')
            line += sprintf(line, "%s", dtype);
        else
            *line++ = *pattern;
    }
    *line = 0;
}

static double sample(const struct operand *o, uint64_t seed, int64_t i)
{
    const double u = job_eighths(seed + (uint64_t)o->role, (uint64_t)i);
    switch (o->role) {
    case ANYDNN_RUNNING_VAR:
    case ANYDNN_SAVED_INVSTD:
    case ANYDNN_MOMENT2:
        return 1.5 + u;
    case ANYDNN_LABELS:
        return random_bits(seed, (uint64_t)i) % 4 ? (double)(random_bits(seed, (uint64_t)i) >> 8 & 1) : -1;
    default:
        return u;
    }
}

static void fill_inputs(struct job *job, uint64_t seed)
{
    int64_t i;
    int k;
    for (k = 0; k < job->operands; k++)
        for (i = 0; job->operand[k].flags & ANYDNN_ROLE_IN && i < job->operand[k].count; i++)
            job->operand[k].data[i] = sample(&job->operand[k], seed, i);
}

/* alpha and beta of outputs that they scale: want = alpha * result + beta * old. */
struct scale {
    double alpha, beta;
};
static const struct scale unscaled = { 1, 0 };

/* Gradients of parameters sum `terms` products of about 1, which may cancel: as many roundings of their magnitude. */
static double allowed(int dtype, double want, double terms)
{
    return value_is_integer(dtype) || dtype == ANYDNN_F64
               ? 0
               : 2.1 * value_roundoff(dtype) * fabs(want) + 2e-5 * (1 + fabs(want)) + value_roundoff(dtype) * terms;
}

static double terms_of(struct job *job, const struct operand *out)
{
    const struct operand *x = job_operand(job, ANYDNN_X);
    const bool sums = out->role == ANYDNN_DGAMMA || out->role == ANYDNN_DSHIFT;
    return sums && x && out->count > 0 ? (double)x->count / (double)out->count : 0;
}

static void judge(struct job *job, const struct operand *out, const struct operand *right, struct scale scale,
                  const char *engine, const char *line)
{
    const double terms = terms_of(job, out);
    double want = 0;
    int64_t i;
    for (i = 0; i < out->count; i++) {
        const double got = out->got[i];
        want = right->got[i];
        if (out->flags & ANYDNN_ROLE_SCALED)
            want = (scale.alpha != 0 ? scale.alpha * want : 0) + (scale.beta != 0 ? scale.beta * out->data[i] : 0);
        if (isnan(want) ? !isnan(got) : got != want && !(fabs(got - want) <= allowed(out->tensor.dtype, want, terms)))
            break;
    }
    if (i == out->count) {
        unit_passed++;
        return;
    }
    unit_failed++;
    if (shown++ < 30)
        printf("failed: %s, alpha %g, beta %g, engine %s: %s[%lld] at strides %lld,%lld,.. is %.9g, right is %.9g\n",
               line, scale.alpha, scale.beta, engine, anydnn_role_name(out->role), (long long)i,
               (long long)out->tensor.strides[0], (long long)out->tensor.strides[1], out->got[i], want);
}

/* The reference's answer to the same values in packed tensors. */
static bool answer(struct job *right, const struct job *job, const char *line)
{
    anydnn_status status = job_open(right, line);
    int k;
    for (k = 0; !status && k < right->operands; k++)
        memcpy(right->operand[k].data, job->operand[k].data, (size_t)job->operand[k].count * sizeof(double));
    if (!status) status = job_run(&reference, right, NULL, NULL);
    CHECK_CASE(status == ANYDNN_OK, line);
    if (status) printf("  the reference answers %s: %s\n", anydnn_status_name(status), anydnn_message());
    return status == ANYDNN_OK;
}

static void run_engines(struct job *job, struct job *right, struct scale scale, const char *line)
{
    static char engines[JOB_ENGINES][64];
    int i, k, count = job_engines(&s, job, full || !s.info.is_cpu, engines);
    /* Without double precision a device may decline f64. */
    CHECK_CASE(count > 0 || (strstr(line, "/f64") && !s.info.has_f64), line);
    for (i = 0; i < count; i++) {
        const anydnn_status status = job_run(&s, job, NULL, engines[i]);
        CHECK_CASE(status == ANYDNN_OK, line);
        if (status) printf("  engine %s: %s: %s\n", engines[i], anydnn_status_name(status), anydnn_message());
        for (k = 0; !status && k < job->operands; k++)
            if (job->operand[k].flags & ANYDNN_ROLE_OUT)
                judge(job, &job->operand[k], &right->operand[k], scale, engines[i], line);
    }
}

static void set_scale(struct job *job, struct scale scale)
{
    int64_t i;
    int k;
    job_scalar(job, ANYDNN_ALPHA, scale.alpha);
    job_scalar(job, ANYDNN_BETA, scale.beta);
    for (k = 0; k < job->operands; k++)
        for (i = 0; job->operand[k].flags & ANYDNN_ROLE_SCALED && scale.beta != 0 && i < job->operand[k].count; i++)
            job->operand[k].data[i] = job_eighths(99, (uint64_t)i);
}

/* One line; `layout` for operand `which`, or for all where which is -1. */
static void problem(const char *line, int which, int layout, int shift, struct scale scale)
{
    struct job job, right;
    const anydnn_status status = job_open(&job, line);
    int k;
    CHECK_CASE(status == ANYDNN_OK, line);
    if (status) printf("  %s: %s\n", anydnn_status_name(status), anydnn_message());
    if (status) return;
    memset(&right, 0, sizeof right);
    fill_inputs(&job, (uint64_t)strlen(line));
    for (k = 0; k < job.operands; k++)
        if (k == which || which < 0) job_layout(&job.operand[k], layout, shift);
    if (answer(&right, &job, line)) {
        if (scale.alpha != 1 || scale.beta != 0) set_scale(&job, scale);
        run_engines(&job, &right, scale, line);
    }
    job_close(&right);
    job_close(&job);
}

static void extents_around_limits(void)
{
    static const int extents[] = { 65534, 65535, 65536, 65537, 131070, 131071, 131072, 131073 };
    static const int few[] = { 65536, 131073 };
    const int *const list = full ? extents : few;
    int i, letter, k;
    for (i = 0; i < PATTERNS; i++)
        for (letter = 0; letter < 5; letter++)
            for (k = 0; strchr(patterns[i].line, letters[letter]) && k < (full ? 8 : 2); k++) {
                int values[5] = { 2, 2, 1, 2, 2 };
                char line[512];
                values[letter] = list[k];
                if (letter > 1) values[0] = 1;
                expand(patterns[i].line, values, k % 2 ? "f32" : "f16", line);
                problem(line, -1, letter == 1 && k % 2 ? LAYOUT_CHANNELS_LAST : LAYOUT_PACKED, 0, unscaled);
            }
}

/* What is summed over nothing is 0, from the reference as well. */
static void zero_sums(const char *line)
{
    struct job job;
    bool empty = false;
    int64_t i;
    int k;
    if (job_open(&job, line)) return;
    fill_inputs(&job, 3);
    for (k = 0; k < job.operands; k++)
        empty = empty || (!(job.operand[k].flags & ANYDNN_ROLE_OUT) && job.operand[k].count == 0);
    CHECK_CASE(job_run(&s, &job, NULL, NULL) == ANYDNN_OK, line);
    for (k = 0; k < job.operands; k++)
        for (i = 0; empty && job.operand[k].flags & ANYDNN_ROLE_OUT && i < job.operand[k].count; i++)
            CHECK_CASE(job.operand[k].got[i] == 0, line);
    job_close(&job);
}

static void empty_extents(void)
{
    int i, letter, layout;
    for (i = 0; i < PATTERNS; i++)
        for (letter = 0; letter < 5; letter++) {
            int values[5] = { 2, 3, 4, 5, 6 };
            char line[512];
            if (!strchr(patterns[i].line, letters[letter]) || (letter == 1 && strstr(patterns[i].line, "groups=C")))
                continue;
            values[letter] = 0;
            expand(patterns[i].line, values, letter % 2 ? "f16" : "f32", line);
            for (layout = LAYOUT_PACKED; layout <= LAYOUT_CHANNELS_LAST; layout++)
                problem(line, -1, layout, 0, unscaled);
            if (patterns[i].zero) zero_sums(line);
        }
}

static void layouts(void)
{
    static const int values[5] = { 3, 5, 4, 6, 7 };
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    int i, which, layout, dtype;
    for (i = 0; i < PATTERNS; i++)
        for (dtype = 0; dtype < (full ? 3 : 2); dtype++)
            for (which = -1; which < (dtype && !full ? 0 : 4); which++)
                for (layout = 0; layout < LAYOUTS; layout++) {
                    char line[512];
                    expand(patterns[i].line, values, dtypes[dtype], line);
                    problem(line, which, layout, 1 + (i + which + layout) % 15, unscaled);
                }
}

static void scales(void)
{
    static const struct scale all[] = { { 1, 0.5 }, { -0.5, 1 }, { 0, 0.5 }, { 0, 1 }, { 0.5, 0 }, { 0, 0 } };
    static const int values[5] = { 3, 5, 4, 6, 7 };
    int i, k, layout;
    for (i = 0; i < PATTERNS; i++) {
        char line[512];
        struct job job;
        bool scaled = false;
        expand(patterns[i].line, values, "f32", line);
        /* A bias is not scaled, and the alpha of binary operations is a factor of a. */
        if (strstr(line, "bias=") || !strncmp(line, "binary ", 7)) continue;
        if (strstr(line, "alpha=") || strstr(line, "beta=") || job_open(&job, line)) continue;
        for (k = 0; k < job.operands; k++) scaled = scaled || (job.operand[k].flags & ANYDNN_ROLE_SCALED);
        job_close(&job);
        for (k = 0; scaled && k < 6; k++)
            for (layout = LAYOUT_PACKED; layout <= LAYOUT_ROWS; layout++) problem(line, -1, layout, 0, all[k]);
    }
}

int main(int argc, char **argv)
{
    const char *device;
    int code;
    full = test_arguments(argc, argv, "--full", &device);
    code = session_open(&s, device, NULL, 64 << 20);
    if (!code) code = session_open(&reference, "cpu", NULL, 64 << 20);
    if (code) return code;
    empty_extents();
    layouts();
    scales();
    extents_around_limits();
    session_close(&reference);
    session_close(&s);
    return unit_end();
}
