/* SPDX-License-Identifier: Apache-2.0
 * bench/trial.c: a problem as the harness sees it: operands copied out of the line, laid out in an arena, printed. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 512, UNIT = 256 };

struct operand *trial_operand(const struct trial *trial, int role)
{
    int i;
    for (i = 0; i < trial->operands; i++)
        if (trial->operand[i].role == role) return (struct operand *)&trial->operand[i];
    return NULL;
}

double trial_scalar(const struct trial *trial, int role, double otherwise)
{
    const struct operand *o = trial_operand(trial, role);
    return o ? o->value : otherwise;
}

static uint32_t role_flags(int op, int role)
{
    uint32_t flags = 0;
    int i, r;
    for (i = 0; (r = anydnn_op_role(op, i, &flags)) != 0; i++)
        if (r == role) return flags;
    return 0;
}

bool trial_is_scaled(const struct trial *trial)
{
    const struct operand *y = trial_operand(trial, ANYDNN_Y);
    int i;
    if (!role_flags(trial->op.head.op, ANYDNN_BETA)) return false;
    if (trial->op.head.op == ANYDNN_OP_CONV_FORWARD && y && y->tensor.dtype == ANYDNN_I32) return false; /* exact sums */
    for (i = 0; i < trial->operands; i++)
        if (trial->operand[i].flags & ANYDNN_ROLE_SCALED) return true;
    return trial->op.head.op == ANYDNN_OP_BINARY;
}

bool trial_is_placed(const struct trial *trial)
{
    int i;
    for (i = 0; i < trial->operands; i++)
        if (trial->operand[i].offset || trial->operand[i].tensor.alignment) return true;
    return false;
}

static void set_scalar(struct trial *t, int role, double value)
{
    struct operand *o = trial_operand(t, role);
    const uint32_t flags = role_flags(t->op.head.op, role);
    if (!flags) return;
    if (!o) o = &t->operand[t->operands++];
    memset(o, 0, sizeof *o);
    o->role = role;
    o->flags = flags;
    o->value = value;
    o->root = (int)(o - t->operand);
}

static void set_tensor(struct trial *t, struct operand *o)
{
    const int op = t->op.head.op;
    o->count = anydnn_tensor_count(&o->tensor);
    o->size = anydnn_dtype_size(o->tensor.dtype);
    o->written = (o->flags & ANYDNN_ROLE_OUT) != 0;
    o->read = (o->flags & ANYDNN_ROLE_IN) != 0;
    if (o->written && (o->flags & ANYDNN_ROLE_SCALED || op == ANYDNN_OP_BINARY))
        o->read = o->read || trial_scalar(t, ANYDNN_BETA, 0) != 0;
    if (o->flags & ANYDNN_ROLE_PARAM_SCALED) o->read = o->read || trial_scalar(t, ANYDNN_PARAM_BETA, 0) != 0;
}

/* Dropout's mask, fills, plain copies and convolutions of integers are defined to the last bit. */
static bool is_exact(const struct trial *t)
{
    switch (t->op.head.op) {
    case ANYDNN_OP_DROPOUT_FORWARD:
    case ANYDNN_OP_DROPOUT_BACKWARD:
    case ANYDNN_OP_FILL:
        return true;
    case ANYDNN_OP_CONV_FORWARD:
        return value_is_integer(trial_operand(t, ANYDNN_X)->tensor.dtype);
    case ANYDNN_OP_COPY:
        return trial_scalar(t, ANYDNN_ALPHA, 1) == 1 && trial_scalar(t, ANYDNN_BETA, 0) == 0;
    default:
        return false;
    }
}

anydnn_status trial_init(struct trial *t, const anydnn_problem *problem, uint64_t seed, bool use_scale, double alpha,
                         double beta)
{
    const anydnn_op *op = anydnn_problem_op(problem);
    int i, k, count;
    const anydnn_binding *b = anydnn_problem_bindings(problem, &count);
    memset(t, 0, sizeof *t);
    memcpy(&t->op, op, op->struct_size < sizeof t->op ? op->struct_size : sizeof t->op);
    t->prefs = *anydnn_problem_prefs(problem);
    if (t->prefs.engine) snprintf(t->engine, sizeof t->engine, "%s", t->prefs.engine);
    t->prefs.engine = NULL;
    t->seed = seed;
    for (i = 0; i < count && i < TRIAL_OPERANDS - 2; i++) {
        struct operand *o = &t->operand[i];
        o->role = b[i].role;
        o->flags = role_flags(op->op, b[i].role);
        o->root = i;
        if (b[i].tensor) o->tensor = *b[i].tensor;
        if (b[i].tensor) o->offset = b[i].mem.offset;
        o->device = !b[i].tensor && b[i].mem.kind != ANYDNN_MEM_NONE;
        o->value = b[i].value;
    }
    t->operands = i;
    if (use_scale) {
        set_scalar(t, ANYDNN_ALPHA, alpha);
        set_scalar(t, ANYDNN_BETA, beta);
    }
    for (i = 0; i < t->operands; i++) {
        struct operand *o = &t->operand[i];
        const int alias = o->tensor.ndim ? anydnn_problem_alias(problem, o->role) : 0;
        if (o->tensor.ndim) set_tensor(t, o);
        for (k = 0; alias && k < t->operands; k++)
            if (t->operand[k].role == alias) o->root = t->operand[k].root;
    }
    t->exact = is_exact(t);
    return anydnn_problem_cost(problem, NULL, NULL, &t->depth);
}

void trial_free(struct trial *trial)
{
    int i;
    for (i = 0; i < trial->operands; i++) {
        free(trial->operand[i].initial);
        free(trial->operand[i].want);
        free(trial->operand[i].slack);
        free(trial->operand[i].size_sum);
    }
    trial->operands = 0;
}

/* Offset of an operand from its place's start. */
static uint64_t shift(const struct operand *o, enum placement placement)
{
    if (placement == PLACE_AS_GIVEN) return o->offset;
    return placement == PLACE_UNALIGNED ? o->size : 0;
}

void trial_layout(const struct trial *t, enum placement placement, anydnn_mem arena, struct layout *layout)
{
    uint64_t at = GUARD;
    int i, k;
    memset(layout, 0, sizeof *layout);
    for (i = 0; i < t->operands; i++) {
        const struct operand *o = &t->operand[i];
        uint64_t bytes = 0;
        if (o->tensor.ndim == 0 && !o->device) continue;
        if (o->root != i) continue;
        layout->start[i] = at + shift(o, placement);
        for (k = i; k < t->operands; k++)
            if (t->operand[k].root == i && t->operand[k].tensor.ndim) {
                const uint64_t span = (uint64_t)anydnn_tensor_bytes(&t->operand[k].tensor);
                bytes = span > bytes ? span : bytes;
            }
        if (o->device) bytes = 8;
        at = (layout->start[i] + bytes + GUARD + UNIT - 1) / UNIT * UNIT;
    }
    layout->bytes = at;
    for (i = 0; i < t->operands; i++) {
        const struct operand *o = &t->operand[i];
        anydnn_binding *b = &layout->binding[layout->count++];
        anydnn_mem mem = arena;
        layout->start[i] = layout->start[o->root];
        layout->tensor[i] = o->tensor;
        if (placement == PLACE_ALIGNED) layout->tensor[i].alignment = UNIT;
        if (arena.kind == ANYDNN_MEM_NONE) { /* a pretended place for each root: shows aliases and the line's offset */
            mem = anydnn_host_mem((void *)((uintptr_t)(o->root + 1) << 40), 0);
            mem.offset = shift(o, placement);
        } else {
            mem.offset = arena.offset + layout->start[i];
            mem.size = mem.offset + (o->device ? 8 : o->tensor.ndim ? (uint64_t)anydnn_tensor_bytes(&o->tensor) : 0);
        }
        *b = o->tensor.ndim ? anydnn_bind(o->role, &layout->tensor[i], mem) : anydnn_bind_value(o->role, o->value);
        if (o->device) b->mem = mem;
    }
}

void trial_print(const struct trial *t, enum placement placement, const char *engine, char text[TRIAL_TEXT])
{
    struct layout layout;
    anydnn_problem *problem = NULL;
    anydnn_prefs prefs = t->prefs;
    size_t length;
    prefs.engine = engine;
    trial_layout(t, placement, anydnn_mem_none(), &layout);
    if (anydnn_problem_create(&t->op.head, &prefs, layout.binding, layout.count, &problem) != ANYDNN_OK ||
        anydnn_problem_print(problem, text, TRIAL_TEXT, &length) != ANYDNN_OK)
        snprintf(text, TRIAL_TEXT, "(%s: %s)", anydnn_op_name(t->op.head.op), anydnn_message());
    anydnn_problem_destroy(problem);
}
