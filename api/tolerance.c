/* SPDX-License-Identifier: Apache-2.0
 * api/tolerance.c: how far a correct element may lie from the reference's, for the oracle.
 *
 * A device computes in f32 (u = 2^-24, one rounding) and rounds once to the dtype of the output. On top of that
 * rounding: sums       d terms whose magnitudes add up to S, in any order in f32: off by at most d*u*S, and as rounding
 * errors are as good as random, by sqrt(d)*u*S. growth = 8 + sqrt(d), where 8 stands for the roundings of products,
 * scaling, bias and transforms around the sum; where all factors of a sum are repeated by stride 0, r times, errors of
 * equal terms add up one way and growth = 8 + sqrt(d r). S is the reference's result on magnitudes, so cancellation in the data
 * makes the bound neither blind nor unfair. functions  exp, log, tanh and rsqrt of the device languages are good for 2
 * to 16 ulp; exp turns an absolute error of its argument into a relative one, so that the range of the arguments comes
 * in. alpha and beta: one rounding each for the products and the sum. Batch normalisation is followed through its own
 * chain of errors, group by group. */
#include "backends/cpu/number.h"
#include "oracle.h"

#include <stdlib.h>

static const double U = 0x1p-24;

enum kind { RELATIVE, SUMS, SOFTMAX_BACKWARD, LOG_SOFTMAX_BACKWARD, BATCHNORM };

struct adn_bounds_group { /* elements that share one set of statistics */
    double mean, invstd, gamma, shift;
    double x, deviation, dy, dy_sum; /* largest |x|, |x - mean|, |dy|; sum of |dy| */
};

int64_t adn_element_offset(const anydnn_tensor *t, int64_t i)
{
    int64_t offset = 0;
    int axis;
    for (axis = t->ndim - 1; axis >= 0 && i; axis--) {
        offset += i % t->dims[axis] * t->strides[axis];
        i /= t->dims[axis];
    }
    return offset;
}

/* ---- what the call says ---- */

static bool is_scalar(const struct adn_problem *p, int slot)
{
    return (p->def->roles[slot].flags & ANYDNN_ROLE_SCALAR) != 0;
}

static bool is_output(const struct adn_problem *p, int slot)
{
    return p->operand[slot].present && (p->def->roles[slot].flags & ANYDNN_ROLE_OUT);
}

static double scalar_of(const struct adn_oracle *o, int role, double otherwise)
{
    const int slot = adn_slot(&o->problem, role);
    return slot >= 0 ? o->scalar[slot] : otherwise;
}

static bool is_scaled(const struct adn_oracle *o, int slot)
{
    return (o->problem.def->roles[slot].flags & ANYDNN_ROLE_SCALED) != 0;
}

static double before(const struct adn_oracle *o, int slot, int64_t i)
{
    const anydnn_tensor *t = &o->problem.operand[slot].t;
    return adn_load(o->before[slot], t->dtype, adn_element_offset(t, i));
}

/* Slot of a bound tensor, or -1. */
static int bound(const struct adn_oracle *o, int role)
{
    return adn_tensor(&o->problem, role) ? adn_slot(&o->problem, role) : -1;
}

static int64_t count_of(const struct adn_oracle *o, int slot)
{
    return slot < 0 ? 0 : anydnn_tensor_count(&o->problem.operand[slot].t);
}

/* Largest finite magnitude. */
static double largest(const struct adn_oracle *o, int role)
{
    const int slot = bound(o, role);
    const int64_t count = count_of(o, slot);
    double most = 0;
    int64_t i;
    for (i = 0; i < count; i++) {
        const double v = fabs(before(o, slot, i));
        if (v > most && !isinf(v)) most = v;
    }
    return most;
}

static double depth_of(const struct adn_oracle *o)
{
    double flops = 0, depth = 0;
    o->problem.def->cost(&o->problem, &flops, &depth);
    return depth > 1 ? depth : 1;
}

static bool is_epilogue_op(int op) { return op == ANYDNN_OP_CONV_FORWARD || op == ANYDNN_OP_CONV_BACKWARD_DATA; }

/* alpha = 0 where every output is scaled: beta * old output, and perhaps a bias. */
static bool reads_nothing(const struct adn_oracle *o)
{
    const struct adn_problem *p = &o->problem;
    int slot;
    if (is_epilogue_op(p->def->op) && (p->desc.conv.activation || adn_tensor(p, ANYDNN_Z))) return false;
    if (scalar_of(o, ANYDNN_ALPHA, 1) != 0 || p->def->op == ANYDNN_OP_BINARY) return false;
    for (slot = 0; slot < p->slots; slot++)
        if (is_output(p, slot) && !is_scaled(o, slot)) return false;
    return true;
}

static bool selects(int reduce_mode)
{
    return reduce_mode == ANYDNN_REDUCE_MAX || reduce_mode == ANYDNN_REDUCE_MIN || reduce_mode == ANYDNN_REDUCE_AMAX;
}

static enum kind kind_of(const struct adn_oracle *o)
{
    const union adn_desc *desc = &o->problem.desc;
    if (reads_nothing(o)) return RELATIVE;
    switch (desc->head.op) {
    case ANYDNN_OP_POOL_FORWARD:
        return desc->pool.mode == ANYDNN_POOL_MAX ? RELATIVE : SUMS;
    case ANYDNN_OP_REDUCE:
        return selects(desc->reduce.mode) ? RELATIVE : SUMS;
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_ACTIVATION_BACKWARD:
    case ANYDNN_OP_SOFTMAX_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
    case ANYDNN_OP_COPY:
    case ANYDNN_OP_SCALE:
        return RELATIVE;
    case ANYDNN_OP_SOFTMAX_BACKWARD:
        return desc->softmax.mode == ANYDNN_LOG_SOFTMAX ? LOG_SOFTMAX_BACKWARD : SOFTMAX_BACKWARD;
    case ANYDNN_OP_BATCHNORM_TRAINING:
    case ANYDNN_OP_BATCHNORM_INFERENCE:
    case ANYDNN_OP_BATCHNORM_BACKWARD:
        return BATCHNORM;
    default:
        return SUMS;
    }
}

/* ---- magnitudes ---- */

bool adn_bounds_need_sizes(const struct adn_oracle *o)
{
    const enum kind kind = kind_of(o);
    return !o->exact && (kind == SUMS || kind == SOFTMAX_BACKWARD);
}

/* What decides a selection keeps its sign. */
bool adn_bounds_keep_sign(const struct adn_problem *p, int slot)
{
    return p->def->op == ANYDNN_OP_POOL_BACKWARD && p->def->roles[slot].role == ANYDNN_X;
}

/* Differences become sums, and whatever selects one of its terms takes them all. The old output's share is added by
 * adn_bounds_of, and an optimiser's step goes upwards. */
void adn_bounds_magnify(struct adn_problem *p, double *scalar)
{
    const int op = p->def->op;
    int slot;
    for (slot = 0; slot < p->slots; slot++) {
        const int role = p->def->roles[slot].role;
        if (!is_scalar(p, slot)) continue;
        scalar[slot] = role == ANYDNN_BETA ? 0 : role == ANYDNN_LR ? -fabs(scalar[slot]) : fabs(scalar[slot]);
        p->operand[slot].device = false;
    }
    if (adn_slot(p, ANYDNN_BETA) >= 0) p->beta_class = ADN_CLASS_ZERO;
    if ((op == ANYDNN_OP_BINARY || op == ANYDNN_OP_BINARY_BACKWARD) && p->desc.binary.mode != ANYDNN_MUL &&
        p->desc.binary.mode != ANYDNN_DIV)
        p->desc.binary.mode = ANYDNN_ADD;
    if (is_epilogue_op(op)) p->desc.conv.activation = ANYDNN_CONV_IDENTITY; /* none is steeper than 1, or than |coef| */
    if (op == ANYDNN_OP_REDUCE_BACKWARD && p->desc.reduce.mode == ANYDNN_REDUCE_MAX)
        p->desc.reduce.mode = ANYDNN_REDUCE_SUM;
}

/* ---- relative kinds ---- */

static void relative(struct adn_bounds *b, double growth, double floor_)
{
    b->growth = growth;
    b->floor = floor_;
}

/* exp(x - m) carries the error of its argument, at most u times the range of x, and its own ulps; the sum adds sqrt(d).
 * The logarithm turns these relative errors into absolute ones. */
static void softmax_bounds(struct adn_bounds *b, double depth)
{
    const double range = 2 * largest(b->o, ANYDNN_X);
    if (b->o->problem.desc.softmax.mode == ANYDNN_LOG_SOFTMAX)
        relative(b, 4, 8 + sqrt(depth) + 2 * range + 2 * log(depth));
    else
        relative(b, 16 + 2 * range + sqrt(depth), 0);
}

/* Rows are log-softmax values; gradients are probabilities less targets, both of the order of g. */
static void cross_entropy_bounds(struct adn_bounds *b)
{
    const struct adn_oracle *o = b->o;
    const anydnn_tensor *x = adn_tensor(&o->problem, ANYDNN_X);
    const int labels = bound(o, ANYDNN_LABELS), reduction = o->problem.desc.cross_entropy.reduction;
    const double range = 2 * largest(o, ANYDNN_X), classes = x->dims[1] > 1 ? (double)x->dims[1] : 2;
    const double row = 8 + sqrt(classes) + 2 * range + 2 * log(classes);
    const int64_t rows = count_of(o, labels);
    double counted = 0, g = bound(o, ANYDNN_DLOSS) >= 0 ? largest(o, ANYDNN_DLOSS) : 1;
    int64_t i;
    for (i = 0; i < rows; i++) counted += before(o, labels, i) >= 0;
    if (o->problem.def->op == ANYDNN_OP_CROSS_ENTROPY_BACKWARD) {
        if (reduction == ANYDNN_LOSS_MEAN && counted > 0) g /= counted;
        relative(b, 16 + 2 * range + sqrt(classes), 4 * (16 + 2 * range + sqrt(classes)) * g);
    } else if (reduction == ANYDNN_LOSS_NONE)
        relative(b, 8, row);
    else
        relative(b, 8 + sqrt(counted), row * (reduction == ANYDNN_LOSS_SUM ? counted : 1));
}

/* Piecewise linear: one product. Sigmoid, tanh and their derivatives are bounded by 1; 16 ulp of that. */
static void activation_bounds(struct adn_bounds *b)
{
    const int mode = b->o->problem.desc.activation.mode;
    relative(b, 2, mode == ANYDNN_SIGMOID || mode == ANYDNN_TANH ? 32 : 0);
    b->floor_by_dy = b->o->problem.def->op == ANYDNN_OP_ACTIVATION_BACKWARD;
}

/* A convolution's activation passes the error of its sum on, leaky by coef where that is steeper than 1. */
static void convolution_bounds(struct adn_bounds *b)
{
    const int activation = b->o->problem.desc.conv.activation;
    const double coef = fabs(scalar_of(b->o, ANYDNN_COEF, 0));
    if (activation == ANYDNN_CONV_LEAKY_RELU && coef > 1) b->growth *= coef;
    if (activation == ANYDNN_CONV_SIGMOID || activation == ANYDNN_CONV_TANH) b->floor = 32;
}

/* ---- batch normalisation ---- */

/* Number of the group of an element: its place along the axes in which a parameter extends. */
static int64_t group_of(const struct adn_oracle *o, const anydnn_tensor *t, int64_t i)
{
    const anydnn_tensor *parameter = adn_tensor(&o->problem, ANYDNN_GAMMA);
    int64_t group = 0, stride = 1;
    int axis;
    for (axis = t->ndim - 1; axis >= 0; axis--) {
        if (parameter->dims[axis] > 1) {
            group += i % t->dims[axis] * stride;
            stride *= parameter->dims[axis];
        }
        i /= t->dims[axis];
    }
    return group;
}

/* Mean and 1 / standard deviation of x, in two passes. */
static void compute_statistics(const struct adn_bounds *b, int64_t groups)
{
    const int x = bound(b->o, ANYDNN_X);
    const int64_t count = count_of(b->o, x);
    const anydnn_tensor *t = &b->o->problem.operand[x].t;
    int64_t i;
    for (i = 0; i < count; i++) b->groups[group_of(b->o, t, i)].mean += before(b->o, x, i) / b->n;
    for (i = 0; i < count; i++) {
        struct adn_bounds_group *g = &b->groups[group_of(b->o, t, i)];
        const double d = before(b->o, x, i) - g->mean;
        g->invstd += d * d / b->n;
    }
    for (i = 0; i < groups; i++)
        b->groups[i].invstd = 1 / sqrt(b->groups[i].invstd + scalar_of(b->o, ANYDNN_EPSILON, 1e-5));
}

static void gather_groups(const struct adn_bounds *b, int64_t groups)
{
    const struct adn_oracle *o = b->o;
    const bool inference = o->problem.def->op == ANYDNN_OP_BATCHNORM_INFERENCE;
    const int x = bound(o, ANYDNN_X), dy = bound(o, ANYDNN_DY), gamma = bound(o, ANYDNN_GAMMA),
              shift = bound(o, ANYDNN_SHIFT);
    const int mean = bound(o, inference ? ANYDNN_RUNNING_MEAN : ANYDNN_SAVED_MEAN);
    const int second = bound(o, inference ? ANYDNN_RUNNING_VAR : ANYDNN_SAVED_INVSTD);
    const int64_t count = count_of(o, x);
    int64_t i;
    if (b->computed) compute_statistics(b, groups);
    for (i = 0; i < groups; i++) {
        struct adn_bounds_group *g = &b->groups[i];
        g->gamma = fabs(before(o, gamma, i));
        if (shift >= 0) g->shift = fabs(before(o, shift, i));
        if (b->computed) continue;
        g->mean = before(o, mean, i);
        g->invstd = before(o, second, i);
        if (inference) g->invstd = 1 / sqrt(g->invstd + scalar_of(o, ANYDNN_EPSILON, 1e-5));
    }
    for (i = 0; i < count; i++) {
        struct adn_bounds_group *g = &b->groups[group_of(o, &o->problem.operand[x].t, i)];
        const double v = before(o, x, i), gradient = dy >= 0 ? fabs(before(o, dy, i)) : 0;
        if (fabs(v) > g->x) g->x = fabs(v);
        if (fabs(v - g->mean) > g->deviation) g->deviation = fabs(v - g->mean);
        if (gradient > g->dy) g->dy = gradient;
        g->dy_sum += gradient;
    }
}

static anydnn_status batchnorm_bounds(struct adn_bounds *b)
{
    const struct adn_oracle *o = b->o;
    const int64_t groups = count_of(o, bound(o, ANYDNN_GAMMA)), count = count_of(o, bound(o, ANYDNN_X));
    b->n = groups > 0 && count > groups ? (double)(count / groups) : 1;
    b->computed = o->problem.def->op == ANYDNN_OP_BATCHNORM_TRAINING ||
                  (o->problem.def->op == ANYDNN_OP_BATCHNORM_BACKWARD && bound(o, ANYDNN_SAVED_MEAN) < 0);
    b->groups = calloc((size_t)groups + 1, sizeof *b->groups);
    if (!b->groups) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for the oracle");
    gather_groups(b, groups);
    return ANYDNN_OK;
}

/* Error of one output element of a group. With k = 8 + sqrt(n): the mean is off by e = k*u*max|x| where it is computed
 * (u*max|x| where it is given), the variance by k*u relative and e^2 absolute, and everything else follows from the
 * formulas in ops.h to first order. */
static double batchnorm_slack(const struct adn_bounds *b, int slot, int64_t i, double want)
{
    const struct adn_oracle *o = b->o;
    const struct adn_bounds_group *g = &b->groups[group_of(o, &o->problem.operand[slot].t, i)];
    const double k = 8 + sqrt(b->n), e = (b->computed ? k : 2) * U * g->x, ku = b->computed ? k * U : 8 * U;
    const double variance = ku + e * e * g->invstd * g->invstd, sum = g->dy_sum, reach = g->deviation * g->invstd;
    const double normal = g->invstd * (e + 4 * U * g->deviation) + reach * variance;
    const double dshift = k * U * sum, dgamma = k * U * sum * reach + sum * normal,
                 f = scalar_of(o, ANYDNN_FACTOR, 0.1);
    switch (o->problem.def->roles[slot].role) {
    case ANYDNN_Y:
        return g->gamma * normal + 8 * U * (fabs(want) + g->shift);
    case ANYDNN_SAVED_MEAN:
        return e;
    case ANYDNN_SAVED_INVSTD:
        return g->invstd * variance;
    case ANYDNN_RUNNING_MEAN:
        return f * e + 4 * U * (fabs(before(o, slot, i)) + f * g->x);
    case ANYDNN_RUNNING_VAR:
        return 2 * f * e * e + 4 * (ku + U) * (fabs(before(o, slot, i)) + fabs(want));
    case ANYDNN_DSHIFT:
        return dshift;
    case ANYDNN_DGAMMA:
        return dgamma;
    default: /* dx */
        return g->gamma * g->invstd *
               ((k * U + variance) * (g->dy + sum / b->n + reach * reach * sum / b->n) + dshift / b->n +
                normal * sum * reach / b->n + reach * dgamma / b->n);
    }
}

/* How often the terms of a sum are repeated at most: by the least repeated of its factors. */
static double repeats(const struct adn_oracle *o, enum kind kind, double depth)
{
    static const int factors[] = { ANYDNN_X, ANYDNN_W, ANYDNN_DY, ANYDNN_A, ANYDNN_B, ANYDNN_Y };
    const bool skips_y = kind == LOG_SOFTMAX_BACKWARD; /* it sums dy alone */
    double least = depth;
    size_t i;
    int k;
    for (i = 0; i < sizeof factors / sizeof *factors; i++) {
        const anydnn_tensor *t = adn_tensor(&o->problem, factors[i]);
        double times = 1;
        if (!t || is_output(&o->problem, adn_slot(&o->problem, factors[i])) || (skips_y && factors[i] == ANYDNN_Y)) continue;
        for (k = 0; k < t->ndim; k++)
            if (t->strides[k] == 0 && t->dims[k] > 1) times *= (double)t->dims[k];
        if (times < least) least = times;
    }
    return least > 1 ? least : 1;
}

/* ---- all kinds ---- */

anydnn_status adn_bounds_begin(struct adn_bounds *b, const struct adn_oracle *o)
{
    const double depth = depth_of(o);
    double roundings;
    memset(b, 0, sizeof *b);
    b->o = o;
    b->kind = kind_of(o);
    b->alpha = fabs(scalar_of(o, ANYDNN_ALPHA, 1));
    b->beta = fabs(scalar_of(o, ANYDNN_BETA, 0));
    roundings = sqrt(depth * repeats(o, b->kind, depth));
    b->growth = 8 + roundings;
    if (o->exact) return ANYDNN_OK;
    if (b->kind == BATCHNORM) return batchnorm_bounds(b);
    if (b->kind == SOFTMAX_BACKWARD || b->kind == LOG_SOFTMAX_BACKWARD) b->growth = 16 + roundings; /* exp of y */
    if (b->kind == LOG_SOFTMAX_BACKWARD) {
        b->most = largest(o, ANYDNN_DY);
        b->row = b->most * depth;
    }
    if (o->problem.def->op == ANYDNN_OP_ADAM) b->growth = 16;
    if (is_epilogue_op(o->problem.def->op)) convolution_bounds(b);
    /* Each square may be flushed below 2^-126: a sum of them may be off by d of these, a root by the root of that. */
    if (b->kind == SUMS && o->problem.def->op == ANYDNN_OP_REDUCE && o->problem.desc.reduce.mode == ANYDNN_REDUCE_NORM2)
        b->floor = b->alpha * sqrt(depth) * 0x1p-63 / U;
    if (b->kind != RELATIVE) return ANYDNN_OK;
    relative(b, 4, 0);
    if (reads_nothing(o)) return ANYDNN_OK;
    switch (o->problem.def->op) {
    case ANYDNN_OP_POOL_FORWARD:
    case ANYDNN_OP_REDUCE:
        relative(b, 0, 0);
        break;
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_ACTIVATION_BACKWARD:
        activation_bounds(b);
        break;
    case ANYDNN_OP_SOFTMAX_FORWARD:
        softmax_bounds(b, depth);
        break;
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
        cross_entropy_bounds(b);
        break;
    default:
        break;
    }
    return ANYDNN_OK;
}

void adn_bounds_end(struct adn_bounds *b)
{
    free(b->groups);
    b->groups = NULL;
}

/* Roundings of the arithmetic; *size is what reduced precision scales with. */
static double slack_of(const struct adn_bounds *b, int slot, int64_t i, double want, double *size)
{
    const struct adn_oracle *o = b->o;
    const bool scaled = is_scaled(o, slot), reads_old = scaled || o->problem.def->op == ANYDNN_OP_BINARY;
    const double alpha = scaled ? b->alpha : 1, beta = reads_old ? b->beta : 0;
    const double old = beta != 0 ? beta * fabs(before(o, slot, i)) : 0;
    const anydnn_tensor *t = &o->wide.operand[slot].t;
    const double sum = o->size[slot] ? adn_load(o->size[slot], t->dtype, adn_element_offset(t, i)) : 0;
    double floor_ = b->floor * alpha;
    *size = fabs(want) + old;
    switch (b->kind) {
    case SUMS:
        *size = fabs(sum) + old;
        return (t->dtype == ANYDNN_F64 && o->problem.operand[slot].t.dtype == ANYDNN_F64 ? 0x1p-53 : U) *
               (b->growth * *size + b->floor);
    case SOFTMAX_BACKWARD: /* on magnitudes |y dy| - |y| sum |dy y|: twice |y dy| less that is the sum wanted */
        *size =
            fabs(2 * alpha * fabs(before(o, bound(o, ANYDNN_Y), i) * before(o, bound(o, ANYDNN_DY), i)) - sum) + old;
        return b->growth * U * *size;
    case LOG_SOFTMAX_BACKWARD: /* magnitudes would make exp(|y|) of exp(y) */
        *size = alpha * (b->most + exp(before(o, bound(o, ANYDNN_Y), i)) * b->row) + old;
        return b->growth * U * *size;
    case BATCHNORM:
        return (alpha > 1 ? alpha : 1) * batchnorm_slack(b, slot, i, want) + 4 * U * *size;
    default:
        if (b->floor_by_dy && floor_ != 0) floor_ *= fabs(before(o, bound(o, ANYDNN_DY), i));
        return U * (b->growth * *size + floor_) + (beta != 0 || alpha != 1 ? 2 * U * *size : 0);
    }
}

/* Rounding to the dtype, relative: the f32 truth is rounded itself. */
static double roundoff(int dtype)
{
    switch (dtype) {
    case ANYDNN_F32:
        return 0x1p-23;
    case ANYDNN_F16:
        return 1.01 * 0x1p-11;
    case ANYDNN_BF16:
        return 1.01 * 0x1p-8;
    case ANYDNN_F64:
        return 1.01 * 0x1p-53;
    default:
        return 0;
    }
}

/* Rounding of what is subnormal, or its flush to zero. Integers computed from products: ties may fall either way. */
static double least(int dtype, bool converts)
{
    switch (dtype) {
    case ANYDNN_F16:
        return 0x1p-25;
    case ANYDNN_F32:
    case ANYDNN_BF16:
        return 0x1p-126;
    case ANYDNN_F64:
        return 0x1p-1022;
    default:
        return converts ? 1 : 0;
    }
}

double adn_bounds_of(const struct adn_bounds *b, int slot, int64_t i, double want)
{
    const struct adn_oracle *o = b->o;
    const int op = o->problem.def->op, dtype = o->problem.operand[slot].t.dtype;
    const bool converts = op == ANYDNN_OP_COPY || op == ANYDNN_OP_SCALE;
    double size = 0, slack;
    if (o->exact || (dtype >= ANYDNN_I8 && !converts)) return 0;
    slack = slack_of(b, slot, i, want, &size);
    /* tf32 rounds both factors to 11 bits; the fast mode publishes 2^-8 of the sum of magnitudes. */
    if (o->traits & ANYDNN_TRAIT_REDUCED_MATH) slack += size * (o->problem.math == ANYDNN_MATH_TF32 ? 0x1p-10 : 0x1p-8);
    return slack + roundoff(dtype) * fabs(want) + least(dtype, converts);
}
