/* SPDX-License-Identifier: Apache-2.0
 * bench/reference.c: the truth of a trial: the operation on the CPU backend, on packed row-major copies. Where the
 * reference takes it, everything is widened to f64 (else to f32), so that the truth is not rounded to the dtype of the
 * line; inputs are those of the line, rounded to its dtypes before. */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

anydnn_tensor dense_tensor(const anydnn_tensor *tensor, int dtype)
{
    return anydnn_tensor_packed(dtype, tensor->ndim, tensor->dims);
}

void *dense_copy(const struct operand *o, int dtype, bool magnitudes)
{
    const size_t size = anydnn_dtype_size(dtype);
    unsigned char *copy = malloc((size_t)o->count * size + 1);
    int64_t i;
    if (!copy) return NULL;
    if (dtype == o->tensor.dtype && !magnitudes) {
        memcpy(copy, o->initial, (size_t)o->count * size);
        return copy;
    }
    for (i = 0; i < o->count; i++) {
        const double v = value_load(o->tensor.dtype, o->initial + (size_t)i * o->size);
        value_store(dtype, copy + (size_t)i * size, magnitudes ? fabs(v) : v);
    }
    return copy;
}

anydnn_status dense_run(struct device *reference, const anydnn_op *op, const struct dense *rows, int count)
{
    anydnn_binding bindings[TRIAL_OPERANDS];
    anydnn_status status;
    int i;
    for (i = 0; i < count; i++) {
        const anydnn_mem mem = anydnn_host_mem(rows[i].data, 0);
        bindings[i] = rows[i].data ? anydnn_bind(rows[i].role, &rows[i].tensor, mem)
                                   : anydnn_bind_value(rows[i].role, rows[i].value);
    }
    status = anydnn_run(reference->stream, op, NULL, bindings, count);
    return status == ANYDNN_OK ? anydnn_stream_sync(reference->stream) : status;
}

static bool is_widened(const struct trial *t, const struct operand *o)
{
    return !t->exact && !value_is_integer(o->tensor.dtype);
}

/* Turns an operation into the one whose result bounds the sum of the magnitudes of its terms: inputs become
 * magnitudes, differences become sums, and whatever selects one of its terms takes them all. */
static void magnify(struct trial *t)
{
    struct operand *lr = trial_operand(t, ANYDNN_LR);
    const int op = t->op.head.op;
    int i;
    for (i = 0; i < t->operands; i++)
        if (t->operand[i].role == ANYDNN_ALPHA || t->operand[i].role == ANYDNN_ALPHA2)
            t->operand[i].value = fabs(t->operand[i].value);
        else if (t->operand[i].role == ANYDNN_BETA)
            t->operand[i].value = 0; /* the old output's share is added afterwards */
    if (op == ANYDNN_OP_BINARY || op == ANYDNN_OP_BINARY_BACKWARD) {
        const int mode = t->op.binary.mode;
        if (mode == ANYDNN_SUB || mode == ANYDNN_MAXIMUM || mode == ANYDNN_MINIMUM) t->op.binary.mode = ANYDNN_ADD;
    }
    if (op == ANYDNN_OP_CONV_FORWARD || op == ANYDNN_OP_CONV_BACKWARD_DATA)
        t->op.conv.activation = ANYDNN_CONV_IDENTITY; /* none of them is steeper than 1, or than |coef| */
    if (op == ANYDNN_OP_REDUCE_BACKWARD && t->op.reduce.mode == ANYDNN_REDUCE_MAX)
        t->op.reduce.mode = ANYDNN_REDUCE_SUM;
    if (op == ANYDNN_OP_SGD || op == ANYDNN_OP_ADAM) {
        if (!lr) {
            lr = &t->operand[t->operands++];
            lr->role = ANYDNN_LR;
            lr->value = 0.001;
        }
        lr->value = -fabs(lr->value);
    }
}

/* Runs the trial widened to `wide`; results as double to result[operand], to be freed by the caller. */
static anydnn_status run_wide(const struct trial *original, struct device *reference, int wide, bool magnitudes,
                              double *result[TRIAL_OPERANDS])
{
    struct dense rows[TRIAL_OPERANDS];
    struct trial t = *original;
    anydnn_status status = ANYDNN_OK;
    int64_t i;
    int k;
    memset(rows, 0, sizeof rows);
    if (magnitudes) magnify(&t);
    for (k = 0; k < t.operands; k++) {
        const struct operand *o = &t.operand[k];
        const int dtype = is_widened(&t, o) ? wide : o->tensor.dtype;
        /* What decides a selection keeps its sign. */
        const bool keeps = t.op.head.op == ANYDNN_OP_POOL_BACKWARD && o->role == ANYDNN_X;
        rows[k].role = o->role;
        rows[k].value = o->value;
        if (!o->tensor.ndim) continue;
        rows[k].tensor = dense_tensor(&o->tensor, dtype);
        rows[k].data = dense_copy(o, dtype, magnitudes && !keeps && !value_is_integer(dtype));
        if (!rows[k].data) status = ANYDNN_OUT_OF_MEMORY;
    }
    if (status == ANYDNN_OK) status = dense_run(reference, &t.op.head, rows, t.operands);
    for (k = 0; k < t.operands && status == ANYDNN_OK; k++) {
        const int dtype = rows[k].tensor.dtype;
        if (!t.operand[k].written) continue;
        result[k] = malloc((size_t)t.operand[k].count * sizeof **result + 1);
        if (!result[k]) status = ANYDNN_OUT_OF_MEMORY;
        for (i = 0; result[k] && i < t.operand[k].count; i++)
            result[k][i] = value_load(dtype, (char *)rows[k].data + (size_t)i * anydnn_dtype_size(dtype));
        if (t.exact && dtype == ANYDNN_I64) /* a double does not hold these: keep the bits */
            memcpy(result[k], rows[k].data, (size_t)t.operand[k].count * sizeof **result);
    }
    for (k = 0; k < t.operands; k++) free(rows[k].data);
    return status;
}

anydnn_status trial_magnitudes(const struct trial *t, struct device *reference, double *result[TRIAL_OPERANDS])
{
    return run_wide(t, reference, t->wide, true, result);
}

anydnn_status trial_reference(struct trial *t, struct device *reference)
{
    double *result[TRIAL_OPERANDS] = { NULL };
    anydnn_status status;
    int k;
    t->wide = ANYDNN_F64;
    status = run_wide(t, reference, ANYDNN_F64, false, result);
    if (!t->exact && (status == ANYDNN_UNSUPPORTED || status == ANYDNN_INVALID)) {
        t->wide = ANYDNN_F32;
        status = run_wide(t, reference, ANYDNN_F32, false, result);
    }
    for (k = 0; k < t->operands; k++) t->operand[k].want = result[k];
    return status == ANYDNN_OK ? trial_tolerance(t, reference) : status;
}
