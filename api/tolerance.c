/* SPDX-License-Identifier: Apache-2.0
 * api/tolerance.c: how far a correct element may lie from the reference's, for the oracle. The rules are those of
 * common/bounds.h; here the numbers are gathered from the call. */
#include "backends/cpu/number.h"
#include "oracle.h"

#include <stdlib.h>

static const double U = ADN_BOUND_UNIT;

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

static bool is_epilogue_op(int op)
{
    return op == ANYDNN_OP_CONV_FORWARD || op == ANYDNN_OP_CONV_BACKWARD_DATA;
}

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

static enum adn_bound_kind kind_of(const struct adn_oracle *o)
{
    return reads_nothing(o) ? ADN_BOUND_RELATIVE : adn_bound_kind_of(&o->problem.desc.head);
}

/* ---- magnitudes ---- */

bool adn_bounds_need_sizes(const struct adn_oracle *o)
{
    const enum adn_bound_kind kind = kind_of(o);
    return !o->exact && (kind == ADN_BOUND_SUMS || kind == ADN_BOUND_SOFTMAX_BACKWARD);
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

/* ---- facts ---- */

static void cross_entropy_facts(const struct adn_oracle *o, struct adn_bound_facts *facts)
{
    const int labels = bound(o, ANYDNN_LABELS);
    const int64_t rows = count_of(o, labels);
    int64_t i;
    facts->classes = (double)adn_tensor(&o->problem, ANYDNN_X)->dims[1];
    facts->dloss = bound(o, ANYDNN_DLOSS) >= 0 ? largest(o, ANYDNN_DLOSS) : 1;
    for (i = 0; i < rows; i++) facts->counted += before(o, labels, i) >= 0;
}

static const anydnn_tensor *read_tensor(const void *oracle, int role)
{
    const struct adn_oracle *o = oracle;
    const int slot = bound(o, role);
    return slot < 0 || is_output(&o->problem, slot) ? NULL : &o->problem.operand[slot].t;
}

static struct adn_bound bound_of(const struct adn_oracle *o)
{
    struct adn_bound_facts facts = { 0 };
    facts.depth = depth_of(o);
    facts.repeats = adn_bound_repeats(&o->problem.desc.head, facts.depth, read_tensor, o);
    facts.alpha = scalar_of(o, ANYDNN_ALPHA, 1);
    facts.coef = scalar_of(o, ANYDNN_COEF, 0);
    switch (o->problem.def->op) {
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
        cross_entropy_facts(o, &facts);
        facts.x = largest(o, ANYDNN_X);
        break;
    case ANYDNN_OP_SOFTMAX_FORWARD:
        facts.x = largest(o, ANYDNN_X);
        break;
    default:
        break;
    }
    return adn_bound_of(&o->problem.desc.head, &facts);
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
    const double n = b->statistics.n;
    const int x = bound(b->o, ANYDNN_X);
    const int64_t count = count_of(b->o, x);
    const anydnn_tensor *t = &b->o->problem.operand[x].t;
    int64_t i;
    for (i = 0; i < count; i++) b->groups[group_of(b->o, t, i)].mean += before(b->o, x, i) / n;
    for (i = 0; i < count; i++) {
        struct adn_bound_group *g = &b->groups[group_of(b->o, t, i)];
        const double d = before(b->o, x, i) - g->mean;
        g->invstd += d * d / n;
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
    if (b->statistics.computed) compute_statistics(b, groups);
    for (i = 0; i < groups; i++) {
        struct adn_bound_group *g = &b->groups[i];
        g->gamma = fabs(before(o, gamma, i));
        if (shift >= 0) g->shift = fabs(before(o, shift, i));
        if (b->statistics.computed) continue;
        g->mean = before(o, mean, i);
        g->invstd = before(o, second, i);
        if (inference) g->invstd = 1 / sqrt(g->invstd + scalar_of(o, ANYDNN_EPSILON, 1e-5));
    }
    for (i = 0; i < count; i++)
        adn_bound_group_add(&b->groups[group_of(o, &o->problem.operand[x].t, i)], before(o, x, i),
                            dy >= 0 ? before(o, dy, i) : 0);
}

static anydnn_status batchnorm_bounds(struct adn_bounds *b)
{
    const struct adn_oracle *o = b->o;
    const int64_t groups = count_of(o, bound(o, ANYDNN_GAMMA)), count = count_of(o, bound(o, ANYDNN_X));
    b->statistics.n = groups > 0 && count > groups ? (double)(count / groups) : 1;
    b->statistics.factor = scalar_of(o, ANYDNN_FACTOR, 0.1);
    b->statistics.computed = o->problem.def->op == ANYDNN_OP_BATCHNORM_TRAINING ||
                             (o->problem.def->op == ANYDNN_OP_BATCHNORM_BACKWARD && bound(o, ANYDNN_SAVED_MEAN) < 0);
    b->groups = calloc((size_t)groups + 1, sizeof *b->groups);
    if (!b->groups) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for the oracle");
    gather_groups(b, groups);
    return ANYDNN_OK;
}

static double batchnorm_slack(const struct adn_bounds *b, int slot, int64_t i, double want)
{
    const struct adn_oracle *o = b->o;
    const int64_t group = group_of(o, &o->problem.operand[slot].t, i);
    return adn_bound_batchnorm(&b->statistics, &b->groups[group], o->problem.def->roles[slot].role, want,
                               before(o, slot, i));
}

/* ---- all kinds ---- */

anydnn_status adn_bounds_begin(struct adn_bounds *b, const struct adn_oracle *o)
{
    memset(b, 0, sizeof *b);
    b->o = o;
    b->kind = kind_of(o);
    b->alpha = fabs(scalar_of(o, ANYDNN_ALPHA, 1));
    b->beta = fabs(scalar_of(o, ANYDNN_BETA, 0));
    if (o->exact) return ANYDNN_OK;
    if (b->kind == ADN_BOUND_BATCHNORM) return batchnorm_bounds(b);
    b->each = reads_nothing(o) ? adn_bound_of_nothing() : bound_of(o);
    b->floor_by_dy = o->problem.def->op == ANYDNN_OP_ACTIVATION_BACKWARD;
    if (b->kind == ADN_BOUND_LOG_SOFTMAX_BACKWARD) {
        b->most = largest(o, ANYDNN_DY);
        b->row = b->most * depth_of(o);
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
    const bool of_parameters = (o->problem.def->roles[slot].flags & ANYDNN_ROLE_PARAM_SCALED) != 0;
    const double alpha = scaled ? b->alpha : of_parameters ? fabs(scalar_of(o, ANYDNN_PARAM_ALPHA, 1)) : 1;
    const double beta = reads_old ? b->beta : of_parameters ? fabs(scalar_of(o, ANYDNN_PARAM_BETA, 0)) : 0;
    const double old = beta != 0 ? beta * fabs(before(o, slot, i)) : 0;
    const anydnn_tensor *t = &o->wide.operand[slot].t;
    const double sum = o->size[slot] ? adn_load(o->size[slot], t->dtype, adn_element_offset(t, i)) : 0;
    double floor_ = b->each.floor * alpha;
    *size = fabs(want) + old;
    switch (b->kind) {
    case ADN_BOUND_SUMS:
        *size = fabs(sum) + old;
        return (t->dtype == ANYDNN_F64 && o->problem.operand[slot].t.dtype == ANYDNN_F64 ? ADN_BOUND_UNIT_F64 : U) *
               (b->each.growth * *size + b->each.floor);
    case ADN_BOUND_SOFTMAX_BACKWARD: /* on magnitudes |y dy| - |y| sum |dy y|: twice |y dy| less that is the sum wanted
                                      */
        *size =
            fabs(2 * alpha * fabs(before(o, bound(o, ANYDNN_Y), i) * before(o, bound(o, ANYDNN_DY), i)) - sum) + old;
        return b->each.growth * U * *size;
    case ADN_BOUND_LOG_SOFTMAX_BACKWARD: /* magnitudes would make exp(|y|) of exp(y) */
        *size = alpha * (b->most + exp(before(o, bound(o, ANYDNN_Y), i)) * b->row) + old;
        return b->each.growth * U * *size;
    case ADN_BOUND_BATCHNORM:
        return (alpha > 1 ? alpha : 1) * batchnorm_slack(b, slot, i, want) + 4 * U * *size;
    default:
        if (b->floor_by_dy && floor_ != 0) floor_ *= fabs(before(o, bound(o, ANYDNN_DY), i));
        return U * (b->each.growth * *size + floor_) + (beta != 0 || alpha != 1 ? 2 * U * *size : 0);
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
