/* SPDX-License-Identifier: Apache-2.0
 * bench/tolerance.c: how far a correct result may lie from the truth, for each element.
 *
 * A device computes in f32 (u = 2^-24, one rounding) and rounds once to the dtype of the output. The rounding to the
 * dtype is added where results are compared (harness.c); here is the rest, "slack":
 *   sums      A sum of d terms with magnitudes adding up to S, in any order in f32, is off by at most d*u*S; rounding
 *             errors are as good as random, which leaves sqrt(d)*u*S. GROWTH = 8 + sqrt(d): the 8 stands for the few
 *             roundings of products, scaling, bias and transforms around the sum. S comes from a second run of the
 *             reference on magnitudes, so cancellation in the data does not make the bound blind or unfair.
 *             Rounding errors of equal terms add up one way: where all factors of a sum are repeated by stride 0, r
 *             times, GROWTH = 8 + sqrt(d r), for terms all alike the proven 8 + d.
 *   functions exp, log, tanh and rsqrt of the device languages are good for 2..16 ulp, and exp turns an absolute
 *             error of its argument into a relative one, so that the range of the arguments comes in.
 *   alpha, beta  one rounding each for the products and the sum.
 * Batch normalisation is followed through its own chain of errors (see there). */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double U = 1.0 / 16777216;

struct scaling {
    double alpha, beta;
};

static double initial(const struct operand *o, int64_t i)
{
    return value_load(o->tensor.dtype, o->initial + (size_t)i * o->size);
}

static struct scaling scaling_of(const struct trial *t, const struct operand *o)
{
    struct scaling s = { 1, 0 };
    if (o->flags & ANYDNN_ROLE_SCALED) {
        s.alpha = fabs(trial_scalar(t, ANYDNN_ALPHA, 1));
        s.beta = fabs(trial_scalar(t, ANYDNN_BETA, 0));
    } else if (t->op.head.op == ANYDNN_OP_BINARY)
        s.beta = fabs(trial_scalar(t, ANYDNN_BETA, 0));
    return s;
}

/* |beta * old output|. */
static double old_share(const struct operand *o, struct scaling s, int64_t i)
{
    return s.beta != 0 ? s.beta * fabs(initial(o, i)) : 0;
}

/* Largest finite magnitude of an operand; 0 when absent. */
static double largest(const struct operand *o)
{
    double most = 0;
    int64_t i;
    for (i = 0; o && i < o->count; i++) {
        const double v = fabs(initial(o, i));
        if (v > most && !isinf(v)) most = v;
    }
    return most;
}

/* Slack of a written operand whose error is `growth` roundings of S, S by element from the magnitudes. */
static void from_magnitudes(const struct trial *t, struct operand *o, const double *magnitude, double growth)
{
    const struct scaling s = scaling_of(t, o);
    const double unit = o->tensor.dtype == ANYDNN_F64 ? ldexp(1, -53) : U;
    int64_t i;
    for (i = 0; i < o->count; i++) {
        const double sum = fabs(magnitude[i]) + old_share(o, s, i);
        o->size_sum[i] = sum;
        o->slack[i] = growth * unit * sum;
    }
}

/* sums: convolution, matmul, reductions, pooling by average, optimisers, elementwise arithmetic */
static anydnn_status tolerance_sums(struct trial *t, struct device *reference, double growth)
{
    double *magnitude[TRIAL_OPERANDS] = { NULL };
    const anydnn_status status = trial_magnitudes(t, reference, magnitude);
    int k;
    for (k = 0; k < t->operands; k++) {
        if (magnitude[k]) from_magnitudes(t, &t->operand[k], magnitude[k], growth);
        free(magnitude[k]);
    }
    return status;
}

/* Selections and functions whose error is relative to the result or to a bound of the function. */
static void tolerance_relative(struct trial *t, double growth, double floor_)
{
    int64_t i;
    int k;
    for (k = 0; k < t->operands; k++) {
        struct operand *o = &t->operand[k];
        const struct scaling s = scaling_of(t, o);
        for (i = 0; o->written && i < o->count; i++) {
            const double old = old_share(o, s, i), result = fabs(o->want[i]) + old;
            o->size_sum[i] = result;
            o->slack[i] =
                U * (growth * result + (floor_ * s.alpha)) + (s.beta != 0 || s.alpha != 1 ? 2 * U * result : 0);
        }
    }
}

/* How often the terms of a sum are repeated at most: by the least repeated of its factors. */
static double repeats(const struct trial *t)
{
    static const int factors[] = { ANYDNN_X, ANYDNN_W, ANYDNN_DY, ANYDNN_A, ANYDNN_B, ANYDNN_Y };
    /* log-softmax sums dy alone */
    const bool skips_y = t->op.head.op == ANYDNN_OP_SOFTMAX_BACKWARD && t->op.softmax.mode == ANYDNN_LOG_SOFTMAX;
    double least = t->depth;
    size_t i;
    int k;
    for (i = 0; i < sizeof factors / sizeof *factors; i++) {
        const struct operand *o = trial_operand(t, factors[i]);
        double times = 1;
        if (!o || o->written || (skips_y && o->role == ANYDNN_Y)) continue;
        for (k = 0; k < o->tensor.ndim; k++)
            if (o->tensor.strides[k] == 0 && o->tensor.dims[k] > 1) times *= (double)o->tensor.dims[k];
        if (times < least) least = times;
    }
    return least > 1 ? least : 1;
}

/* softmax backward: dx = y * (dy - sum(dy * y)), or dy - exp(y) * sum(dy). On magnitudes the reference gives
 * R = |y||dy| - |y| sum |dy y|, and 2|y||dy| - R is the sum of magnitudes that is wanted (likewise for log). */
static anydnn_status tolerance_softmax_backward(struct trial *t, struct device *reference)
{
    double *magnitude[TRIAL_OPERANDS] = { NULL };
    struct operand *y = trial_operand(t, ANYDNN_Y), *dx = trial_operand(t, ANYDNN_DX),
                   *dy = trial_operand(t, ANYDNN_DY);
    const bool log_mode = t->op.softmax.mode == ANYDNN_LOG_SOFTMAX;
    struct scaling s = scaling_of(t, dx);
    /* exp of y up to 4 in magnitude: an error of 4 + 4 ulp. */
    const double growth = 16 + sqrt(t->depth * repeats(t));
    anydnn_status status;
    int64_t i;
    if (log_mode) { /* magnitudes would turn exp(y) into exp(|y|): bound sum |dy| by the largest row sum instead */
        const double each = largest(dy), most = each * (t->depth > 1 ? t->depth : 1);
        for (i = 0; i < dx->count; i++) {
            dx->size_sum[i] = s.alpha * (each + exp(initial(y, i)) * most) + old_share(dx, s, i);
            dx->slack[i] = growth * U * dx->size_sum[i];
        }
        return ANYDNN_OK;
    }
    status = trial_magnitudes(t, reference, magnitude);
    for (i = 0; status == ANYDNN_OK && i < dx->count; i++) {
        const double own = s.alpha * fabs(initial(y, i) * initial(dy, i));
        dx->size_sum[i] = fabs(2 * own - magnitude[dx - t->operand][i]) + old_share(dx, s, i);
        dx->slack[i] = growth * U * dx->size_sum[i];
    }
    for (i = 0; i < t->operands; i++) free(magnitude[i]);
    return status;
}

/* softmax forward: exp(x - m) carries the error of its argument, at most u times the range of x, and its own ulps; the
 * sum adds sqrt(d). The logarithm turns these relative errors into absolute ones. */
static void tolerance_softmax(struct trial *t)
{
    const double range = 2 * largest(trial_operand(t, ANYDNN_X)), depth = t->depth > 1 ? t->depth : 1;
    if (t->op.softmax.mode == ANYDNN_LOG_SOFTMAX)
        tolerance_relative(t, 4, (8 + sqrt(depth)) + 2 * range + 2 * log(depth));
    else
        tolerance_relative(t, 16 + 2 * range + sqrt(depth), 0);
}

/* cross entropy: rows are log-softmax values; gradients are probabilities less targets, both of order g. */
static void tolerance_cross_entropy(struct trial *t)
{
    const struct operand *x = trial_operand(t, ANYDNN_X), *labels = trial_operand(t, ANYDNN_LABELS);
    const struct operand *dloss = trial_operand(t, ANYDNN_DLOSS);
    const double range = 2 * largest(x), classes = x->tensor.dims[1] > 1 ? (double)x->tensor.dims[1] : 2;
    const int reduction = t->op.cross_entropy.reduction;
    const double row = 8 + sqrt(classes) + 2 * range + 2 * log(classes);
    double counted = 0, g = dloss ? largest(dloss) : 1;
    int64_t i;
    for (i = 0; i < labels->count; i++) counted += initial(labels, i) >= 0;
    if (t->op.head.op == ANYDNN_OP_CROSS_ENTROPY_BACKWARD) {
        if (reduction == ANYDNN_LOSS_MEAN && counted > 0) g /= counted;
        tolerance_relative(t, 16 + 2 * range + sqrt(classes), 4 * (16 + 2 * range + sqrt(classes)) * g);
    } else if (reduction == ANYDNN_LOSS_NONE)
        tolerance_relative(t, 8, row);
    else
        tolerance_relative(t, 8 + sqrt(counted), row * (reduction == ANYDNN_LOSS_SUM ? counted : 1));
}

/* ---- Batch normalisation ---- */

struct group { /* of elements that share one set of statistics */
    double mean, invstd, gamma, shift;
    double x, deviation, dy, dy_sum; /* largest |x|, |x - mean|, |dy|; sum of |dy| */
};

static int64_t group_of(const struct trial *t, const struct operand *o, int64_t i)
{
    int64_t inner = 1;
    int k;
    if (o->tensor.dims[0] == 1 && o->role != ANYDNN_X && o->role != ANYDNN_Y && o->role != ANYDNN_DX &&
        o->role != ANYDNN_DY)
        return i; /* a parameter */
    for (k = 2; k < o->tensor.ndim; k++) inner *= o->tensor.dims[k];
    if (t->op.batchnorm.mode == ANYDNN_BATCHNORM_PER_ACTIVATION) return i % (inner * o->tensor.dims[1]);
    return i / inner % o->tensor.dims[1];
}

/* Statistics of x from the reference where the trial has none as inputs. */
static anydnn_status statistics(const struct trial *t, struct device *reference, struct group *groups, int64_t count)
{
    const struct operand *x = trial_operand(t, ANYDNN_X), *gamma = trial_operand(t, ANYDNN_GAMMA);
    union any_op op = t->op;
    struct dense rows[7];
    float *data[6];
    anydnn_status status = ANYDNN_OK;
    int64_t i;
    int k;
    data[0] = dense_copy(x, ANYDNN_F32, false);
    data[1] = dense_copy(x, ANYDNN_F32, false);
    for (k = 2; k < 6; k++) data[k] = dense_copy(gamma, ANYDNN_F32, false);
    for (k = 0; k < 6; k++) {
        static const int roles[] = { ANYDNN_X,     ANYDNN_Y,          ANYDNN_GAMMA,
                                     ANYDNN_SHIFT, ANYDNN_SAVED_MEAN, ANYDNN_SAVED_INVSTD };
        rows[k] = (struct dense){ roles[k], dense_tensor(k < 2 ? &x->tensor : &gamma->tensor, ANYDNN_F32), data[k], 0 };
        if (!data[k]) status = ANYDNN_OUT_OF_MEMORY;
    }
    rows[6] = (struct dense){ ANYDNN_EPSILON, { 0 }, NULL, trial_scalar(t, ANYDNN_EPSILON, 1e-5) };
    op.head.op = ANYDNN_OP_BATCHNORM_TRAINING;
    if (status == ANYDNN_OK) status = dense_run(reference, &op.head, rows, 7);
    for (i = 0; status == ANYDNN_OK && i < count; i++) {
        groups[i].mean = data[4][i];
        groups[i].invstd = data[5][i];
    }
    for (k = 0; k < 6; k++) free(data[k]);
    return status;
}

static anydnn_status gather_groups(const struct trial *t, struct device *reference, struct group *groups, int64_t count)
{
    const struct operand *x = trial_operand(t, ANYDNN_X), *dy = trial_operand(t, ANYDNN_DY);
    const struct operand *gamma = trial_operand(t, ANYDNN_GAMMA), *shift = trial_operand(t, ANYDNN_SHIFT);
    const bool inference = t->op.head.op == ANYDNN_OP_BATCHNORM_INFERENCE;
    const struct operand *mean = trial_operand(t, inference ? ANYDNN_RUNNING_MEAN : ANYDNN_SAVED_MEAN);
    const struct operand *second = trial_operand(t, inference ? ANYDNN_RUNNING_VAR : ANYDNN_SAVED_INVSTD);
    int64_t i;
    if (mean && mean->read)
        for (i = 0; i < count; i++) {
            groups[i].mean = initial(mean, i);
            groups[i].invstd = initial(second, i);
            if (inference) groups[i].invstd = 1 / sqrt(groups[i].invstd + trial_scalar(t, ANYDNN_EPSILON, 1e-5));
        }
    else if (statistics(t, reference, groups, count) != ANYDNN_OK)
        return ANYDNN_INTERNAL;
    for (i = 0; i < count; i++) groups[i].gamma = fabs(initial(gamma, i));
    for (i = 0; shift && i < count; i++) groups[i].shift = fabs(initial(shift, i));
    for (i = 0; i < x->count; i++) {
        struct group *g = &groups[group_of(t, x, i)];
        const double v = initial(x, i), gradient = dy ? fabs(initial(dy, i)) : 0;
        if (fabs(v) > g->x) g->x = fabs(v);
        if (fabs(v - g->mean) > g->deviation) g->deviation = fabs(v - g->mean);
        if (gradient > g->dy) g->dy = gradient;
        g->dy_sum += gradient;
    }
    return ANYDNN_OK;
}

/* Error of one output element of a group. With k = GROWTH: the mean is off by e = k*u*max|x| where it is computed (u
 * max|x| where it is given), the variance by k*u relative and e^2 absolute, and everything else follows from the
 * formulas in ops.h to first order. */
static double batchnorm_slack(const struct trial *t, const struct operand *o, const struct group *g, double n,
                              bool computed, int64_t i)
{
    const double k = 8 + sqrt(n), e = (computed ? k : 2) * U * g->x;
    const double ku = computed ? k * U : 8 * U, variance = ku + e * e * g->invstd * g->invstd;
    const double normal = g->invstd * (e + 4 * U * g->deviation) + g->invstd * g->deviation * variance;
    const double sum = g->dy_sum, reach = g->deviation * g->invstd;
    const double dshift = k * U * sum, dgamma = k * U * sum * reach + sum * normal;
    const struct operand *factor = trial_operand(t, ANYDNN_FACTOR);
    const double f = factor ? factor->value : 0.1;
    switch (o->role) {
    case ANYDNN_Y:
        return g->gamma * normal + 8 * U * (fabs(o->want[i]) + g->shift);
    case ANYDNN_SAVED_MEAN:
        return e;
    case ANYDNN_SAVED_INVSTD:
        return g->invstd * variance;
    case ANYDNN_RUNNING_MEAN:
        return f * e + 4 * U * (fabs(initial(o, i)) + f * g->x);
    case ANYDNN_RUNNING_VAR:
        return 2 * f * e * e + 4 * (ku + U) * (fabs(initial(o, i)) + fabs(o->want[i]));
    case ANYDNN_DSHIFT:
        return dshift;
    case ANYDNN_DGAMMA:
        return dgamma;
    default: /* dx */
        return g->gamma * g->invstd *
               ((k * U + variance) * (g->dy + sum / n + reach * reach * sum / n) + dshift / n +
                normal * sum * reach / n + reach * dgamma / n);
    }
}

static anydnn_status tolerance_batchnorm(struct trial *t, struct device *reference)
{
    const int64_t count = trial_operand(t, ANYDNN_GAMMA)->count;
    const struct operand *x = trial_operand(t, ANYDNN_X), *saved = trial_operand(t, ANYDNN_SAVED_MEAN);
    const bool computed = t->op.head.op != ANYDNN_OP_BATCHNORM_INFERENCE && !(saved && saved->read);
    const double n = count > 0 && x->count > count ? (double)(x->count / count) : 1;
    struct group *groups = calloc((size_t)count + 1, sizeof *groups);
    anydnn_status status = groups ? gather_groups(t, reference, groups, count) : ANYDNN_OUT_OF_MEMORY;
    int64_t i;
    int k;
    for (k = 0; status == ANYDNN_OK && k < t->operands; k++) {
        struct operand *o = &t->operand[k];
        const struct scaling s = scaling_of(t, o);
        for (i = 0; o->written && i < o->count; i++) {
            const double slack = batchnorm_slack(t, o, &groups[group_of(t, o, i)], n, computed, i);
            o->size_sum[i] = fabs(o->want[i]) + old_share(o, s, i);
            o->slack[i] = (s.alpha > 1 ? s.alpha : 1) * slack + 4 * U * o->size_sum[i];
        }
    }
    free(groups);
    return status;
}

/* A convolution's activation passes the error of its sum on, leaky by coef where that is steeper than 1; sigmoid and tanh
 * add 16 ulp of their bound. */
static anydnn_status tolerance_convolution(struct trial *t, struct device *reference, double growth)
{
    const int activation = t->op.conv.activation;
    const double coef = fabs(trial_scalar(t, ANYDNN_COEF, 0.01));
    struct operand *out = trial_operand(t, t->op.head.op == ANYDNN_OP_CONV_FORWARD ? ANYDNN_Y : ANYDNN_DX);
    const anydnn_status status =
        tolerance_sums(t, reference, growth * (activation == ANYDNN_CONV_LEAKY_RELU && coef > 1 ? coef : 1));
    const double unit = out->tensor.dtype == ANYDNN_F64 ? ldexp(1, -53) : U;
    int64_t i;
    if (activation == ANYDNN_CONV_SIGMOID || activation == ANYDNN_CONV_TANH)
        for (i = 0; i < out->count; i++) out->slack[i] += 32 * unit;
    return status;
}

/* Beside alpha * 0 and beta * old output there is more to store. */
static bool has_epilogue(const struct trial *t)
{
    const int op = t->op.head.op;
    return (op == ANYDNN_OP_CONV_FORWARD || op == ANYDNN_OP_CONV_BACKWARD_DATA) &&
           (t->op.conv.activation || trial_operand(t, ANYDNN_Z));
}

static anydnn_status tolerance_by_operation(struct trial *t, struct device *reference)
{
    const double sums = 8 + (t->depth > 0 ? sqrt(t->depth * repeats(t)) : 0);
    switch (t->op.head.op) {
    case ANYDNN_OP_CONV_FORWARD:
    case ANYDNN_OP_CONV_BACKWARD_DATA:
        return tolerance_convolution(t, reference, sums);
    case ANYDNN_OP_POOL_FORWARD:
        if (t->op.pool.mode != ANYDNN_POOL_MAX) return tolerance_sums(t, reference, sums);
        tolerance_relative(t, 0, 0);
        return ANYDNN_OK;
    case ANYDNN_OP_REDUCE:
        /* The root halves the relative error of a sum of squares: its rounding is paid from that. */
        if (t->op.reduce.mode != ANYDNN_REDUCE_MAX && t->op.reduce.mode != ANYDNN_REDUCE_MIN &&
            t->op.reduce.mode != ANYDNN_REDUCE_AMAX)
            return tolerance_sums(t, reference, sums);
        tolerance_relative(t, 0, 0);
        return ANYDNN_OK;
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_ACTIVATION_BACKWARD: {
        /* Piecewise linear: one product. Sigmoid and tanh are bounded by 1; 16 ulp of that. */
        const bool smooth = t->op.activation.mode == ANYDNN_SIGMOID || t->op.activation.mode == ANYDNN_TANH;
        tolerance_relative(t, 2, smooth ? 32 : 0);
        return ANYDNN_OK;
    }
    case ANYDNN_OP_SOFTMAX_FORWARD:
        tolerance_softmax(t);
        return ANYDNN_OK;
    case ANYDNN_OP_SOFTMAX_BACKWARD:
        return tolerance_softmax_backward(t, reference);
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
        tolerance_cross_entropy(t);
        return ANYDNN_OK;
    case ANYDNN_OP_BATCHNORM_TRAINING:
    case ANYDNN_OP_BATCHNORM_INFERENCE:
    case ANYDNN_OP_BATCHNORM_BACKWARD:
        return tolerance_batchnorm(t, reference);
    case ANYDNN_OP_COPY:
    case ANYDNN_OP_SCALE:
        tolerance_relative(t, 4, 0);
        return ANYDNN_OK;
    /* Adam divides by 1 - beta2^step, which in f32 is off by up to u / (1 - beta2); its update is small beside that. */
    case ANYDNN_OP_ADAM:
        return tolerance_sums(t, reference, 16);
    default:
        return tolerance_sums(t, reference, sums);
    }
}

anydnn_status trial_tolerance(struct trial *t, struct device *reference)
{
    int k;
    for (k = 0; k < t->operands; k++) {
        struct operand *o = &t->operand[k];
        if (!o->written) continue;
        o->slack = calloc((size_t)o->count + 1, sizeof *o->slack);
        o->size_sum = calloc((size_t)o->count + 1, sizeof *o->size_sum);
        if (!o->slack || !o->size_sum) return ANYDNN_OUT_OF_MEMORY;
    }
    if (t->exact) return ANYDNN_OK;
    if (trial_reads_nothing(t) && !has_epilogue(t)) { /* beta * old output, and perhaps a bias */
        tolerance_relative(t, 4, 0);
        return ANYDNN_OK;
    }
    return tolerance_by_operation(t, reference);
}
