/* SPDX-License-Identifier: Apache-2.0
 * bench/tolerance.c: how far a correct result may lie from the truth, for each element: "slack", besides the rounding
 * to the dtype of the output, which is added where results are compared (harness.c). The rules are those of
 * common/bounds.h; here the numbers are gathered from the trial. */
#include "harness.h"

#include "common/bounds.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double U = ADN_BOUND_UNIT;

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
    } else if (o->flags & ANYDNN_ROLE_PARAM_SCALED) {
        s.alpha = fabs(trial_scalar(t, ANYDNN_PARAM_ALPHA, 1));
        s.beta = fabs(trial_scalar(t, ANYDNN_PARAM_BETA, 0));
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

/* Slack of a written operand, by the magnitudes that make up each element. */
static void from_magnitudes(const struct trial *t, struct operand *o, const double *magnitude, struct adn_bound each)
{
    const struct scaling s = scaling_of(t, o);
    const double unit = o->tensor.dtype == ANYDNN_F64 ? ADN_BOUND_UNIT_F64 : U;
    int64_t i;
    for (i = 0; i < o->count; i++) {
        o->size_sum[i] = fabs(magnitude[i]) + old_share(o, s, i);
        o->slack[i] = unit * (each.growth * o->size_sum[i] + each.floor);
    }
}

static anydnn_status tolerance_sums(struct trial *t, struct device *reference, struct adn_bound each)
{
    double *magnitude[TRIAL_OPERANDS] = { NULL };
    const anydnn_status status = trial_magnitudes(t, reference, magnitude);
    int k;
    for (k = 0; k < t->operands; k++) {
        if (magnitude[k]) from_magnitudes(t, &t->operand[k], magnitude[k], each);
        free(magnitude[k]);
    }
    return status;
}

static void tolerance_relative(struct trial *t, struct adn_bound each)
{
    int64_t i;
    int k;
    for (k = 0; k < t->operands; k++) {
        struct operand *o = &t->operand[k];
        const struct scaling s = scaling_of(t, o);
        for (i = 0; o->written && i < o->count; i++) {
            const double result = fabs(o->want[i]) + old_share(o, s, i);
            o->size_sum[i] = result;
            o->slack[i] = U * (each.growth * result + each.floor * s.alpha);
            if (s.beta != 0 || s.alpha != 1) o->slack[i] += 2 * U * result;
        }
    }
}

/* dx = y * (dy - sum(dy * y)): on magnitudes the reference gives R = |y||dy| - |y| sum |dy y|, and 2|y||dy| - R is the
 * sum of magnitudes that is wanted. */
static anydnn_status tolerance_softmax_backward(struct trial *t, struct device *reference, struct adn_bound each)
{
    double *magnitude[TRIAL_OPERANDS] = { NULL };
    struct operand *y = trial_operand(t, ANYDNN_Y), *dx = trial_operand(t, ANYDNN_DX),
                   *dy = trial_operand(t, ANYDNN_DY);
    const struct scaling s = scaling_of(t, dx);
    const anydnn_status status = trial_magnitudes(t, reference, magnitude);
    int64_t i;
    for (i = 0; status == ANYDNN_OK && i < dx->count; i++) {
        const double own = s.alpha * fabs(initial(y, i) * initial(dy, i));
        dx->size_sum[i] = fabs(2 * own - magnitude[dx - t->operand][i]) + old_share(dx, s, i);
        dx->slack[i] = each.growth * U * dx->size_sum[i];
    }
    for (i = 0; i < t->operands; i++) free(magnitude[i]);
    return status;
}

/* dx = dy - exp(y) * sum(dy): magnitudes would turn exp(y) into exp(|y|), so sum |dy| is bounded by the largest row
 * sum. */
static void tolerance_log_softmax_backward(struct trial *t, struct adn_bound each)
{
    struct operand *y = trial_operand(t, ANYDNN_Y), *dx = trial_operand(t, ANYDNN_DX);
    const struct scaling s = scaling_of(t, dx);
    const double most = largest(trial_operand(t, ANYDNN_DY)), row = most * (t->depth > 1 ? t->depth : 1);
    int64_t i;
    for (i = 0; i < dx->count; i++) {
        dx->size_sum[i] = s.alpha * (most + exp(initial(y, i)) * row) + old_share(dx, s, i);
        dx->slack[i] = each.growth * U * dx->size_sum[i];
    }
}

/* ---- Facts ---- */

static void cross_entropy_facts(const struct trial *t, struct adn_bound_facts *facts)
{
    const struct operand *labels = trial_operand(t, ANYDNN_LABELS), *dloss = trial_operand(t, ANYDNN_DLOSS);
    int64_t i;
    facts->classes = (double)trial_operand(t, ANYDNN_X)->tensor.dims[1];
    facts->dloss = dloss ? largest(dloss) : 1;
    for (i = 0; i < labels->count; i++) facts->counted += initial(labels, i) >= 0;
}

static const anydnn_tensor *read_tensor(const void *trial, int role)
{
    const struct operand *o = trial_operand(trial, role);
    return o && !o->written ? &o->tensor : NULL;
}

static struct adn_bound bound_of(const struct trial *t)
{
    struct adn_bound_facts facts = { 0 };
    facts.depth = t->depth;
    facts.repeats = adn_bound_repeats(&t->op.head, t->depth, read_tensor, t);
    facts.alpha = trial_scalar(t, ANYDNN_ALPHA, 1);
    facts.coef = trial_scalar(t, ANYDNN_COEF, 0.01);
    switch (t->op.head.op) {
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
        cross_entropy_facts(t, &facts);
        facts.x = largest(trial_operand(t, ANYDNN_X));
        break;
    case ANYDNN_OP_SOFTMAX_FORWARD:
        facts.x = largest(trial_operand(t, ANYDNN_X));
        break;
    default:
        break;
    }
    return adn_bound_of(&t->op.head, &facts);
}

/* ---- Batch normalisation ---- */

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
static anydnn_status statistics(const struct trial *t, struct device *reference, struct adn_bound_group *groups,
                                int64_t count)
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

static anydnn_status gather_groups(const struct trial *t, struct device *reference, struct adn_bound_group *groups,
                                   int64_t count)
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
    for (i = 0; i < x->count; i++)
        adn_bound_group_add(&groups[group_of(t, x, i)], initial(x, i), dy ? initial(dy, i) : 0);
    return ANYDNN_OK;
}

static anydnn_status tolerance_batchnorm(struct trial *t, struct device *reference)
{
    const int64_t count = trial_operand(t, ANYDNN_GAMMA)->count;
    const struct operand *x = trial_operand(t, ANYDNN_X), *saved = trial_operand(t, ANYDNN_SAVED_MEAN);
    const struct adn_bound_statistics statistics = {
        count > 0 && x->count > count ? (double)(x->count / count) : 1,
        t->op.head.op != ANYDNN_OP_BATCHNORM_INFERENCE && !(saved && saved->read),
        trial_scalar(t, ANYDNN_FACTOR, 0.1),
    };
    struct adn_bound_group *groups = calloc((size_t)count + 1, sizeof *groups);
    anydnn_status status = groups ? gather_groups(t, reference, groups, count) : ANYDNN_OUT_OF_MEMORY;
    int64_t i;
    int k;
    for (k = 0; status == ANYDNN_OK && k < t->operands; k++) {
        struct operand *o = &t->operand[k];
        const struct scaling s = scaling_of(t, o);
        for (i = 0; o->written && i < o->count; i++) {
            const double slack =
                adn_bound_batchnorm(&statistics, &groups[group_of(t, o, i)], o->role, o->want[i], initial(o, i));
            o->size_sum[i] = fabs(o->want[i]) + old_share(o, s, i);
            o->slack[i] = (s.alpha > 1 ? s.alpha : 1) * slack + 4 * U * o->size_sum[i];
        }
    }
    free(groups);
    return status;
}

/* Beside alpha * 0 and beta * old output there is more to store. */
static bool has_epilogue(const struct trial *t)
{
    const int op = t->op.head.op;
    return (op == ANYDNN_OP_CONV_FORWARD || op == ANYDNN_OP_CONV_BACKWARD_DATA) &&
           (t->op.conv.activation || trial_operand(t, ANYDNN_Z));
}

static anydnn_status tolerance_by_kind(struct trial *t, struct device *reference)
{
    switch (adn_bound_kind_of(&t->op.head)) {
    case ADN_BOUND_RELATIVE:
        tolerance_relative(t, bound_of(t));
        return ANYDNN_OK;
    case ADN_BOUND_SOFTMAX_BACKWARD:
        return tolerance_softmax_backward(t, reference, bound_of(t));
    case ADN_BOUND_LOG_SOFTMAX_BACKWARD:
        tolerance_log_softmax_backward(t, bound_of(t));
        return ANYDNN_OK;
    case ADN_BOUND_BATCHNORM:
        return tolerance_batchnorm(t, reference);
    default:
        return tolerance_sums(t, reference, bound_of(t));
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
        tolerance_relative(t, adn_bound_of_nothing());
        return ANYDNN_OK;
    }
    return tolerance_by_kind(t, reference);
}
