/* SPDX-License-Identifier: Apache-2.0
 * bench/fill.c: data for a trial. Each value is a function of (seed, role, row-major number), so that it depends on
 * neither layout nor threads. Values are chosen for what an operation gets wrong most easily: ties, borders of
 * activations, exponents that overflow, a mean far from zero, labels outside the classes. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounds down to a grid of 1/steps: makes ties. */
static double grid(double u, double steps)
{
    return floor(u * steps) / steps;
}

/* Mean of a channel: every fourth lies so far away that a variance taken as E[x^2] - mean^2 is lost in f32. */
static double channel_mean(const struct trial *t, const struct operand *o, int64_t i)
{
    const struct operand *x = trial_operand(t, ANYDNN_X);
    int64_t inner = 1;
    int k;
    for (k = 2; k < o->tensor.ndim; k++) inner *= o->tensor.dims[k];
    if (i / inner % o->tensor.dims[1] % 4 != 3) return 3;
    return x && value_roundoff(x->tensor.dtype) > ldexp(1, -20) ? 30 : 1000;
}

static double label(const struct trial *t, int64_t i, uint64_t bits)
{
    const struct operand *x = trial_operand(t, ANYDNN_X);
    const int64_t classes = x->tensor.dims[1];
    (void)i;
    if (bits % 8 == 0) return -1 - (double)(bits >> 8 & 127);
    /* A label behind the last class makes its row NaN; in a mean or a sum it would hide all others. */
    if (bits % 16 == 1 && t->op.cross_entropy.reduction == ANYDNN_LOSS_NONE) return (double)classes + 3;
    return classes ? (double)((bits >> 8) % (uint64_t)classes) : 0;
}

static double activation_sample(const struct trial *t, const struct operand *o, double u)
{
    const int mode = t->op.activation.mode;
    const bool steps = mode == ANYDNN_RELU || mode == ANYDNN_LEAKY_RELU || mode == ANYDNN_CLIPPED_RELU;
    if (o->role == ANYDNN_X) return steps ? grid(8 * u, 4) : 12 * u;
    if (o->role == ANYDNN_Y && !o->written) {
        if (mode == ANYDNN_SIGMOID) return (u + 1) / 2;
        return steps ? grid(8 * u, 4) : u;
    }
    return u;
}

/* Copies meet fractions at the middle between integers, saturation, NaN and infinities. */
static double copy_sample(const struct trial *t, const struct operand *o, double u, uint64_t bits)
{
    static const double special[] = { NAN, INFINITY, -INFINITY, 1e10, -1e10, 127.5, -128.5, 2147483647.0 };
    (void)t;
    if (bits % 23 == 0) return special[bits / 23 % 8];
    return value_is_integer(o->tensor.dtype) ? rint(300 * u) : rint(600 * u) / 2;
}

/* 8-bit convolutions: small numbers among the extremes; scales are powers of two, so that ties come up. */
static double integer_conv_sample(const struct operand *o, double u, uint64_t bits)
{
    if (o->role == ANYDNN_SCALES) return ldexp(1, -3 - (int)(bits % 5));
    if (o->role == ANYDNN_BIAS) return o->tensor.dtype == ANYDNN_I32 ? rint(2000 * u) : rint(100 * u) / 4;
    if (o->role == ANYDNN_X || o->role == ANYDNN_W) return bits % 11 == 0 ? 256 * u : 16 * u;
    return 120 * u;
}

static double sample(const struct trial *t, const struct operand *o, int64_t i)
{
    const uint64_t seed = t->seed ^ (uint64_t)o->role * UINT64_C(0xD1342543DE82EF95);
    const double u = random_unit(seed, (uint64_t)i);
    const uint64_t bits = random_bits(~seed, (uint64_t)i);
    const int op = t->op.head.op;
    const bool max_pool =
        (op == ANYDNN_OP_POOL_FORWARD || op == ANYDNN_OP_POOL_BACKWARD) && t->op.pool.mode == ANYDNN_POOL_MAX;
    const bool max_reduce =
        (op == ANYDNN_OP_REDUCE || op == ANYDNN_OP_REDUCE_BACKWARD) &&
        (t->op.reduce.mode == ANYDNN_REDUCE_MAX || t->op.reduce.mode == ANYDNN_REDUCE_MIN ||
         t->op.reduce.mode == ANYDNN_REDUCE_AMAX);
    const bool half = value_roundoff(o->tensor.dtype) > ldexp(1, -20);

    if (o->role == ANYDNN_LABELS) return label(t, i, bits);
    if (o->role == ANYDNN_RUNNING_VAR || o->role == ANYDNN_MOMENT2 || o->role == ANYDNN_SAVED_INVSTD)
        return 0.6 + 0.5 * u;
    if (o->role == ANYDNN_SAVED_MEAN || o->role == ANYDNN_RUNNING_MEAN) return channel_mean(t, o, i) + 0.1 * u;
    switch (op) {
    case ANYDNN_OP_CONV_FORWARD:
        if (t->exact) return integer_conv_sample(o, u, bits);
        break;
    case ANYDNN_OP_BATCHNORM_TRAINING:
    case ANYDNN_OP_BATCHNORM_INFERENCE:
    case ANYDNN_OP_BATCHNORM_BACKWARD:
        return o->role == ANYDNN_X ? channel_mean(t, o, i) + u : u;
    case ANYDNN_OP_SOFTMAX_FORWARD:
        return o->role != ANYDNN_X ? u : half ? 10 * u : 60 * u;
    case ANYDNN_OP_SOFTMAX_BACKWARD:
        if (o->role != ANYDNN_Y) return u;
        return t->op.softmax.mode == ANYDNN_SOFTMAX ? (u + 1) / 2 : -2 * (u + 1);
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
        return o->role == ANYDNN_X ? (half ? 8 * u : 50 * u) : u;
    case ANYDNN_OP_ACTIVATION_FORWARD:
    case ANYDNN_OP_ACTIVATION_BACKWARD:
        return activation_sample(t, o, u);
    case ANYDNN_OP_COPY:
    case ANYDNN_OP_FILL:
    case ANYDNN_OP_SCALE:
        return o->written ? (double)rint(50 * u) : copy_sample(t, o, u, bits);
    case ANYDNN_OP_BINARY:
    case ANYDNN_OP_BINARY_BACKWARD:
        if (t->op.binary.mode == ANYDNN_DIV && o->role == ANYDNN_B) return copysign(0.5 + fabs(u), u);
        if (t->op.binary.mode == ANYDNN_MAXIMUM || t->op.binary.mode == ANYDNN_MINIMUM) return grid(u, 8);
        break;
    default:
        break;
    }
    if (o->role == ANYDNN_X && max_pool) return grid(u, 8) - 0.5;
    if (o->role == ANYDNN_X && max_reduce) return grid(u, 64);
    if (o->role == ANYDNN_X && op == ANYDNN_OP_REDUCE) return u + 0.25;
    return bits % 16 == 0 ? 0 : u;
}

bool trial_reads_nothing(const struct trial *t)
{
    int i;
    if (!trial_is_scaled(t) || trial_scalar(t, ANYDNN_ALPHA, 1) != 0 || t->op.head.op == ANYDNN_OP_BINARY) return false;
    for (i = 0; i < t->operands; i++)
        if (t->operand[i].written && !(t->operand[i].flags & ANYDNN_ROLE_SCALED)) return false;
    return true;
}

/* Inputs that must not be read are made NaN, but for a bias and z, which alpha does not scale. */
static bool must_not_be_read(const struct trial *t, const struct operand *o)
{
    const bool unread = o->role == ANYDNN_Z ? trial_scalar(t, ANYDNN_ALPHA2, 1) == 0
                                            : o->role != ANYDNN_BIAS && o->role != ANYDNN_SCALES && trial_reads_nothing(t);
    int i;
    if (o->written || value_is_integer(o->tensor.dtype) || !unread) return false;
    for (i = 0; i < t->operands; i++) /* an old output in the same place is read */
        if (t->operand[i].written && t->operand[i].root == o->root) return false;
    return true;
}

static void fill_operand(const struct trial *t, struct operand *o)
{
    const bool whole_bits = t->op.head.op == ANYDNN_OP_COPY && o->tensor.dtype == ANYDNN_I64 && o->role == ANYDNN_X &&
                            trial_operand(t, ANYDNN_Y)->tensor.dtype == ANYDNN_I64 && t->exact;
    int64_t i;
    if (!o->read || must_not_be_read(t, o)) {
        memset(o->initial, 0xff, (size_t)o->count * o->size);
        return;
    }
    for (i = 0; i < o->count; i++) {
        const int64_t bits = (int64_t)random_bits(t->seed, (uint64_t)i) >> 1;
        if (whole_bits)
            memcpy(o->initial + (size_t)i * o->size, &bits, sizeof bits);
        else
            value_store(o->tensor.dtype, o->initial + (size_t)i * o->size, sample(t, o, i));
    }
}

static bool has_stride_0(const anydnn_tensor *t)
{
    int i;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] > 1 && t->strides[i] == 0) return true;
    return false;
}

/* Operands that share memory, and elements seen several times by stride 0, must agree: writes every operand that is
 * read through its strides into one memory and reads all of them back. */
static anydnn_status settle(struct trial *t, int root)
{
    uint64_t bytes = 0;
    unsigned char *memory;
    bool strided = false;
    int64_t i;
    int k;
    for (k = 0; k < t->operands; k++) {
        const struct operand *o = &t->operand[k];
        if (o->root != root || !o->tensor.ndim) continue;
        if ((uint64_t)anydnn_tensor_bytes(&o->tensor) > bytes) bytes = (uint64_t)anydnn_tensor_bytes(&o->tensor);
        strided = strided || k != root || has_stride_0(&o->tensor);
    }
    if (!strided) return ANYDNN_OK;
    memory = malloc(bytes + 1);
    if (!memory) return ANYDNN_OUT_OF_MEMORY;
    memset(memory, 0xff, bytes);
    for (k = 0; k < t->operands; k++) {
        const struct operand *o = &t->operand[k];
        if (o->root != root || !o->read || must_not_be_read(t, o)) continue;
        for (i = 0; i < o->count; i++)
            memcpy(memory + (uint64_t)tensor_element(&o->tensor, i) * o->size, o->initial + (size_t)i * o->size,
                   o->size);
    }
    for (k = 0; k < t->operands; k++) {
        const struct operand *o = &t->operand[k];
        if (o->root != root) continue;
        for (i = 0; i < o->count; i++)
            memcpy(o->initial + (size_t)i * o->size, memory + (uint64_t)tensor_element(&o->tensor, i) * o->size,
                   o->size);
    }
    free(memory);
    return ANYDNN_OK;
}

/* Indices of max pooling backward must be those of a forward pass over the same windows. */
static anydnn_status fill_indices(struct trial *t, struct operand *indices, struct device *reference)
{
    const struct operand *x = trial_operand(t, ANYDNN_X);
    const struct operand *dx = trial_operand(t, ANYDNN_DX);
    union any_op op = t->op;
    struct dense rows[3];
    anydnn_status status = ANYDNN_OUT_OF_MEMORY;
    float *data = x ? dense_copy(x, ANYDNN_F32, false) : malloc((size_t)dx->count * sizeof *data + 1);
    float *y = malloc((size_t)indices->count * sizeof *y + 1);
    int64_t i;
    for (i = 0; data && !x && i < dx->count; i++) data[i] = (float)random_unit(t->seed, (uint64_t)i);
    if (data && y) {
        op.head.op = ANYDNN_OP_POOL_FORWARD;
        rows[0] = (struct dense){ ANYDNN_X, dense_tensor(&dx->tensor, ANYDNN_F32), data, 0 };
        rows[1] = (struct dense){ ANYDNN_Y, dense_tensor(&indices->tensor, ANYDNN_F32), y, 0 };
        rows[2] = (struct dense){ ANYDNN_INDICES, dense_tensor(&indices->tensor, ANYDNN_I32), indices->initial, 0 };
        status = dense_run(reference, &op.head, rows, 3);
    }
    free(data);
    free(y);
    return status;
}

anydnn_status trial_fill(struct trial *t, struct device *reference)
{
    anydnn_status status = ANYDNN_OK;
    int i;
    for (i = 0; i < t->operands; i++) {
        struct operand *o = &t->operand[i];
        if (!o->tensor.ndim) continue;
        if (o->count < 0) return ANYDNN_INVALID;
        o->initial = malloc((size_t)o->count * o->size + 1);
        if (!o->initial) return ANYDNN_OUT_OF_MEMORY;
        fill_operand(t, o);
    }
    for (i = 0; i < t->operands && status == ANYDNN_OK; i++)
        if (t->operand[i].root == i && t->operand[i].tensor.ndim) status = settle(t, i);
    for (i = 0; i < t->operands && status == ANYDNN_OK; i++)
        if (t->operand[i].role == ANYDNN_INDICES && t->operand[i].read)
            status = fill_indices(t, &t->operand[i], reference);
    return status;
}
