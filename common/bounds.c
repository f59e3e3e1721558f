/* SPDX-License-Identifier: Apache-2.0
 * common/bounds.c: see bounds.h. */
#include "bounds.h"

#include <math.h>

static const double U = ADN_BOUND_UNIT;

static bool is_log(const anydnn_op *op)
{
    return ((const anydnn_softmax *)op)->mode == ANYDNN_LOG_SOFTMAX;
}

static enum adn_bound_kind kind_of_reduction(int mode)
{
    const bool selects = mode == ANYDNN_REDUCE_MAX || mode == ANYDNN_REDUCE_MIN || mode == ANYDNN_REDUCE_AMAX;
    return selects ? ADN_BOUND_RELATIVE : ADN_BOUND_SUMS;
}

enum adn_bound_kind adn_bound_kind_of(const anydnn_op *op)
{
    switch (op->op) {
    case ANYDNN_OP_POOL_FORWARD:
        return ((const anydnn_pool *)op)->mode == ANYDNN_POOL_MAX ? ADN_BOUND_RELATIVE : ADN_BOUND_SUMS;
    case ANYDNN_OP_REDUCE: /* a root halves the relative error of its sum: its rounding is paid from that */
        return kind_of_reduction(((const anydnn_reduce *)op)->mode);
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_ACTIVATION_BACKWARD:
    case ANYDNN_OP_SOFTMAX_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
    case ANYDNN_OP_COPY:
    case ANYDNN_OP_SCALE:
        return ADN_BOUND_RELATIVE;
    case ANYDNN_OP_SOFTMAX_BACKWARD:
        return is_log(op) ? ADN_BOUND_LOG_SOFTMAX_BACKWARD : ADN_BOUND_SOFTMAX_BACKWARD;
    case ANYDNN_OP_BATCHNORM_TRAINING:
    case ANYDNN_OP_BATCHNORM_INFERENCE:
    case ANYDNN_OP_BATCHNORM_BACKWARD:
        return ADN_BOUND_BATCHNORM;
    default:
        return ADN_BOUND_SUMS;
    }
}

double adn_bound_repeats(const anydnn_op *op, double depth, const anydnn_tensor *(*read)(const void *user, int role),
                         const void *user)
{
    static const int factors[] = { ANYDNN_X, ANYDNN_W, ANYDNN_DY, ANYDNN_A, ANYDNN_B, ANYDNN_Y };
    const bool skips_y = op->op == ANYDNN_OP_SOFTMAX_BACKWARD && is_log(op); /* it sums dy alone */
    double least = depth;
    size_t i;
    int k;
    for (i = 0; i < sizeof factors / sizeof *factors; i++) {
        const anydnn_tensor *t = skips_y && factors[i] == ANYDNN_Y ? NULL : read(user, factors[i]);
        double times = 1;
        if (!t) continue;
        for (k = 0; k < t->ndim; k++)
            if (t->strides[k] == 0 && t->dims[k] > 1) times *= (double)t->dims[k];
        if (times < least) least = times;
    }
    return least > 1 ? least : 1;
}

/* exp(x - m) carries the error of its argument, at most u times the range of x, and its own ulps; the sum adds sqrt(d).
 * The logarithm turns these relative errors into absolute ones. */
static struct adn_bound softmax(const anydnn_op *op, const struct adn_bound_facts *f)
{
    const double range = 2 * f->x, depth = f->depth > 1 ? f->depth : 1;
    const struct adn_bound plain = { 16 + 2 * range + sqrt(depth), 0 };
    const struct adn_bound of_log = { 4, 8 + sqrt(depth) + 2 * range + 2 * log(depth) };
    return is_log(op) ? of_log : plain;
}

/* Rows are log-softmax values; gradients are probabilities less targets, both of the order of dloss. */
static struct adn_bound cross_entropy(const anydnn_op *op, const struct adn_bound_facts *f)
{
    const int reduction = ((const anydnn_cross_entropy *)op)->reduction;
    const double range = 2 * f->x, classes = f->classes > 1 ? f->classes : 2;
    const double row = 8 + sqrt(classes) + 2 * range + 2 * log(classes), softened = 16 + 2 * range + sqrt(classes);
    const double each = reduction == ANYDNN_LOSS_MEAN && f->counted > 0 ? f->dloss / f->counted : f->dloss;
    const struct adn_bound gradient = { softened, 4 * softened * each }, rows = { 8, row };
    const struct adn_bound joined = { 8 + sqrt(f->counted), row * (reduction == ANYDNN_LOSS_SUM ? f->counted : 1) };
    if (op->op == ANYDNN_OP_CROSS_ENTROPY_BACKWARD) return gradient;
    return reduction == ANYDNN_LOSS_NONE ? rows : joined;
}

/* An activation passes the error of the sum on, leaky by coef where that is steeper than 1; sigmoid and tanh add 16 ulp
 * of their bound, 1. */
static struct adn_bound convolution(const anydnn_op *op, const struct adn_bound_facts *f, double growth)
{
    const int activation = ((const anydnn_conv *)op)->activation;
    const bool smooth = activation == ANYDNN_CONV_SIGMOID || activation == ANYDNN_CONV_TANH;
    const bool steep = activation == ANYDNN_CONV_LEAKY_RELU && fabs(f->coef) > 1;
    const struct adn_bound bound = { steep ? growth * fabs(f->coef) : growth, smooth ? 32 : 0 };
    return bound;
}

/* Selections are exact. Each square of a norm may be flushed below 2^-126: a sum of them may be off by d of these, its
 * root by the root of that. */
static struct adn_bound reduction(const anydnn_op *op, const struct adn_bound_facts *f, double growth)
{
    const int mode = ((const anydnn_reduce *)op)->mode;
    const double flushed = mode == ANYDNN_REDUCE_NORM2 ? fabs(f->alpha) * sqrt(f->depth) * 0x1p-63 / U : 0;
    const struct adn_bound bound = { kind_of_reduction(mode) == ADN_BOUND_SUMS ? growth : 0, flushed };
    return bound;
}

/* Piecewise linear: one product. Sigmoid, tanh and their derivatives are bounded by 1; 16 ulp of that. */
static struct adn_bound activation(const anydnn_op *op)
{
    const int mode = ((const anydnn_activation *)op)->mode;
    const struct adn_bound bound = { 2, mode == ANYDNN_SIGMOID || mode == ANYDNN_TANH ? 32 : 0 };
    return bound;
}

struct adn_bound adn_bound_of(const anydnn_op *op, const struct adn_bound_facts *facts)
{
    const double roundings = facts->depth > 0 ? sqrt(facts->depth * facts->repeats) : 0;
    struct adn_bound bound = { 8 + roundings, 0 };
    switch (op->op) {
    case ANYDNN_OP_CONV_FORWARD:
    case ANYDNN_OP_CONV_BACKWARD_DATA:
        return convolution(op, facts, bound.growth);
    case ANYDNN_OP_POOL_FORWARD:
        if (((const anydnn_pool *)op)->mode == ANYDNN_POOL_MAX) bound.growth = 0;
        return bound;
    case ANYDNN_OP_REDUCE:
        return reduction(op, facts, bound.growth);
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_ACTIVATION_BACKWARD:
        return activation(op);
    case ANYDNN_OP_SOFTMAX_FORWARD:
        return softmax(op, facts);
    case ANYDNN_OP_SOFTMAX_BACKWARD: /* exp of y up to 4 in magnitude: an error of 4 + 4 ulp */
        bound.growth += 8;
        return bound;
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
        return cross_entropy(op, facts);
    case ANYDNN_OP_COPY:
    case ANYDNN_OP_SCALE:
        return adn_bound_of_nothing();
    case ANYDNN_OP_ADAM: /* 1 - beta2^step is off by up to u / (1 - beta2) in f32; the update is small beside that */
        bound.growth = 16;
        return bound;
    default:
        return bound;
    }
}

struct adn_bound adn_bound_of_nothing(void)
{
    const struct adn_bound bound = { 4, 0 };
    return bound;
}

/* ---- batch normalisation ---- */

void adn_bound_group_add(struct adn_bound_group *g, double x, double dy)
{
    const double gradient = fabs(dy);
    if (fabs(x) > g->x) g->x = fabs(x);
    if (fabs(x - g->mean) > g->deviation) g->deviation = fabs(x - g->mean);
    if (gradient > g->dy) g->dy = gradient;
    g->dy_sum += gradient;
}

/* With k = 8 + sqrt(n): the mean is off by e = k*u*max|x| where it is computed (u*max|x| where it is given), the
 * variance by k*u relative and e^2 absolute, and everything else follows from the formulas in ops.h to first order. */
double adn_bound_batchnorm(const struct adn_bound_statistics *s, const struct adn_bound_group *g, int role, double want,
                           double old)
{
    const double n = s->n, f = s->factor, sum = g->dy_sum, reach = g->deviation * g->invstd;
    const double k = 8 + sqrt(n), e = (s->computed ? k : 2) * U * g->x, ku = s->computed ? k * U : 8 * U;
    const double variance = ku + e * e * g->invstd * g->invstd;
    const double normal = g->invstd * (e + 4 * U * g->deviation) + reach * variance;
    const double dshift = k * U * sum, dgamma = k * U * sum * reach + sum * normal;
    switch (role) {
    case ANYDNN_Y:
        return g->gamma * normal + 8 * U * (fabs(want) + g->shift);
    case ANYDNN_SAVED_MEAN:
        return e;
    case ANYDNN_SAVED_INVSTD:
        return g->invstd * variance;
    case ANYDNN_RUNNING_MEAN:
        return f * e + 4 * U * (fabs(old) + f * g->x);
    case ANYDNN_RUNNING_VAR:
        return 2 * f * e * e + 4 * (ku + U) * (fabs(old) + fabs(want));
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
