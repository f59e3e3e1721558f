/* SPDX-License-Identifier: Apache-2.0
 * common/problem.c: from a call's struct, bindings and prefs to the canonical problem. */
#include "ops/rules.h"

#include <math.h>
#include <stdio.h>

enum { MAX_STRUCT = 4096 };

anydnn_status adn_read_struct(void *to, size_t size, const void *from, size_t least, const char *what)
{
    uint32_t given;
    size_t i;
    memcpy(&given, from, sizeof given);
    /* Structs end behind whole pointers: a size that cuts one would have its half read as an address. One that nothing
     * can have is not believed, since all of it would be read. */
    if (given < least || given % sizeof(void *) != 0 || given > MAX_STRUCT)
        return adn_fail(ANYDNN_INVALID, "%s: struct_size is %u; accepted: sizeof the struct (%zu here)", what, given, size);
    for (i = size; i < given; i++)
        if (((const unsigned char *)from)[i])
            return adn_fail(ANYDNN_UNSUPPORTED, "%s: struct_size is %u with members set that this version (%zu bytes) does not know",
                            what, given, size);
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    return ANYDNN_OK;
}

int adn_slot(const struct adn_problem *p, int role)
{
    int i;
    for (i = 0; i < p->slots; i++)
        if (p->def->roles[i].role == role) return i;
    return -1;
}

const anydnn_tensor *adn_tensor(const struct adn_problem *p, int role)
{
    const int slot = adn_slot(p, role);
    return slot >= 0 && p->operand[slot].present ? &p->operand[slot].t : NULL;
}

anydnn_status adn_scalar_check(int role, double value)
{
    const char *name = adn_role_text(role);
    const bool whole = value == floor(value);
    switch (role) {
    case ANYDNN_RATIO:
    case ANYDNN_FACTOR:
    case ANYDNN_SMOOTHING:
        if (value >= 0.0 && value <= 1.0) return ANYDNN_OK;
        return adn_fail(ANYDNN_INVALID, "%s is %g; accepted: 0 to 1", name, value);
    case ANYDNN_BETA1:
    case ANYDNN_BETA2:
        if (value >= 0.0 && value < 1.0) return ANYDNN_OK;
        return adn_fail(ANYDNN_INVALID, "%s is %g; accepted: 0 or more, below 1", name, value);
    case ANYDNN_SEED:
    case ANYDNN_OFFSET:
        if (whole && value >= 0.0 && value < 9007199254740992.0) return ANYDNN_OK;
        return adn_fail(ANYDNN_INVALID, "%s is %g; accepted on the host: whole numbers from 0 below 2^53", name, value);
    case ANYDNN_STEP:
        if (whole && value >= 1.0 && value < 9007199254740992.0) return ANYDNN_OK;
        return adn_fail(ANYDNN_INVALID, "%s is %g; accepted: whole numbers from 1", name, value);
    case ANYDNN_EPSILON:
        if (value >= 0.0) return ANYDNN_OK;
        return adn_fail(ANYDNN_INVALID, "%s is %g; accepted: 0 or more", name, value);
    default:
        return ANYDNN_OK;
    }
}

/* A dimension of size 1 may carry any stride, an empty tensor any strides: equal tensors get equal descriptions. */
static void canonical_strides(anydnn_tensor *t)
{
    const bool empty = adn_is_empty(t);
    int i;
    for (i = t->ndim - 1; i >= 0; i--) {
        const int64_t size = i + 1 < t->ndim && t->dims[i + 1] > 0 ? t->dims[i + 1] : 1;
        const int64_t stride = i + 1 < t->ndim ? t->strides[i + 1] : 1;
        if (t->dims[i] > 1 && !empty) continue;
        t->strides[i] = stride > INT64_MAX / size ? INT64_MAX : stride * size;
    }
    for (i = t->ndim; i < ANYDNN_MAX_DIMS; i++) t->dims[i] = t->strides[i] = 0;
}

anydnn_status adn_refuse_role(const struct adn_problem *p, int role)
{
    char accepted[256] = "";
    size_t used = 0;
    int i;
    for (i = 0; i < p->slots && used + 1 < sizeof accepted; i++)
        used += (size_t)snprintf(accepted + used, sizeof accepted - used, "%s%s", i ? ", " : "",
                                 adn_role_text(p->def->roles[i].role));
    return adn_fail(ANYDNN_INVALID, "binding of role %d (%s): %s has no such role; accepted: %s", role, adn_role_text(role),
                    p->def->name, accepted);
}

anydnn_status adn_binding_check(const struct adn_problem *p, const anydnn_binding *b)
{
    const char *name = adn_role_text(b->role);
    if (b->index) return adn_fail(ANYDNN_INVALID, "%s: binding index is %d; accepted by %s: 0", name, b->index, p->def->name);
    if (b->reserved)
        return adn_fail(ANYDNN_INVALID, "%s: binding member reserved is %lld; accepted: 0", name, (long long)b->reserved);
    if (b->tensor && (p->def->roles[adn_slot(p, b->role)].flags & ANYDNN_ROLE_SCALAR))
        return adn_fail(ANYDNN_INVALID, "%s is a scalar bound with a tensor; accepted: tensor NULL", name);
    return ANYDNN_OK;
}

static anydnn_status bind_scalar(struct adn_problem *p, int slot, const anydnn_binding *b)
{
    struct adn_operand *o = &p->operand[slot];
    o->device = b->mem.kind != ANYDNN_MEM_NONE;
    if (!o->device) {
        ADN_TRY(adn_scalar_check(b->role, b->value));
    } else if (!(p->def->roles[slot].flags & ANYDNN_ROLE_DEVICE)) {
        return adn_fail(ANYDNN_INVALID, "%s is bound to device memory; accepted in %s: a host value (memory kind 0)",
                        adn_role_text(b->role), p->def->name);
    }
    o->value = b->value;
    return ANYDNN_OK;
}

static anydnn_status bind(struct adn_problem *p, const anydnn_binding *b)
{
    const int slot = adn_slot(p, b->role);
    struct adn_operand *o;
    if (slot < 0) return adn_refuse_role(p, b->role);
    ADN_TRY(adn_binding_check(p, b));
    o = &p->operand[slot];
    if (o->present) return adn_fail(ANYDNN_INVALID, "%s is bound twice; accepted: once", adn_role_text(b->role));
    o->present = true;
    if (p->def->roles[slot].flags & ANYDNN_ROLE_SCALAR) return bind_scalar(p, slot, b);
    if (!b->tensor) return adn_fail(ANYDNN_INVALID, "%s: tensor is NULL; accepted: a description", adn_role_text(b->role));
    ADN_TRY(adn_tensor_check(b->tensor, adn_role_text(b->role), (p->def->roles[slot].flags & ANYDNN_ROLE_OUT) != 0));
    o->t = *b->tensor;
    o->offset = b->mem.offset;
    canonical_strides(&o->t);
    return ANYDNN_OK;
}

static anydnn_status check_missing(const struct adn_problem *p, bool allow_missing)
{
    int i;
    for (i = 0; i < p->slots; i++) {
        const uint32_t flags = p->def->roles[i].flags;
        if (p->operand[i].present || (flags & ANYDNN_ROLE_OPTIONAL)) continue;
        if (allow_missing && !(flags & ANYDNN_ROLE_IN)) continue;
        return adn_fail(ANYDNN_INVALID, "%s is not bound; accepted by %s: bound", adn_role_text(p->def->roles[i].role),
                        p->def->name);
    }
    return ANYDNN_OK;
}

static anydnn_status check_outputs(const struct adn_problem *p)
{
    int i, axis;
    for (i = 0; i < p->slots; i++) {
        const int role = p->def->roles[i].role;
        const anydnn_tensor *have = &p->operand[i].t;
        anydnn_tensor want;
        if (!p->operand[i].present || !(p->def->roles[i].flags & ANYDNN_ROLE_OUT)) continue;
        ADN_TRY(p->def->infer(p, role, &want));
        if (want.dtype) ADN_TRY(adn_need_dtype(p, role, 1u << want.dtype));
        ADN_TRY(adn_need_ndim(p, role, want.ndim, want.ndim));
        for (axis = 0; axis < have->ndim; axis++) ADN_TRY(adn_need_dim(p, role, axis, want.dims[axis]));
    }
    return ANYDNN_OK;
}

static bool may_share(const struct adn_problem *p, int output, int input)
{
    const struct adn_role_def *def = &p->def->roles[output];
    const anydnn_tensor *a = &p->operand[output].t, *b = &p->operand[input].t;
    if (def->in_place[0] != p->def->roles[input].role && def->in_place[1] != p->def->roles[input].role) return false;
    return a->dtype == b->dtype && a->ndim == b->ndim && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

/* Output `output` beside tensor `other` of the same buffer or address space: sets the alias or refuses. */
static anydnn_status relate(struct adn_problem *p, int output, uint64_t offset, int other, uint64_t other_offset)
{
    if (!adn_may_overlap(&p->operand[output].t, offset, &p->operand[other].t, other_offset)) return ANYDNN_OK;
    if (offset == other_offset && may_share(p, output, other)) {
        p->operand[output].alias = (int16_t)other;
        return ANYDNN_OK;
    }
    return adn_fail(ANYDNN_INVALID, "%s overlaps %s in memory; accepted: apart, or exactly in place where %s allows it",
                    adn_role_text(p->def->roles[output].role), adn_role_text(p->def->roles[other].role), p->def->name);
}

static anydnn_status find_aliases(struct adn_problem *p, const anydnn_binding *bindings, int count)
{
    int i, j;
    for (i = 0; i < count; i++) {
        const int out = adn_slot(p, bindings[i].role);
        if (!(p->def->roles[out].flags & ANYDNN_ROLE_OUT) || bindings[i].mem.kind == ANYDNN_MEM_NONE) continue;
        for (j = 0; j < count; j++) {
            const int other = adn_slot(p, bindings[j].role);
            if (i == j || bindings[j].mem.kind != bindings[i].mem.kind || (p->def->roles[other].flags & ANYDNN_ROLE_SCALAR) ||
                (bindings[i].mem.kind == ANYDNN_MEM_OPENCL && bindings[j].mem.base != bindings[i].mem.base))
                continue;
            ADN_TRY(relate(p, out, adn_address_bits(&bindings[i].mem), other, adn_address_bits(&bindings[j].mem)));
        }
    }
    return ANYDNN_OK;
}

static int class_of(const struct adn_problem *p, int role, int absent)
{
    const int slot = adn_slot(p, role);
    if (slot < 0) return absent;
    return p->operand[slot].value == 0.0 ? ADN_CLASS_ZERO : p->operand[slot].value == 1.0 ? ADN_CLASS_ONE : ADN_CLASS_OTHER;
}

static anydnn_status read_prefs(struct adn_problem *p, const anydnn_prefs *prefs)
{
    anydnn_prefs own = ANYDNN_PREFS_INIT;
    if (prefs) ADN_TRY(adn_read_struct(&own, sizeof own, prefs, 16, "prefs"));
    ADN_TRY(adn_need_range("prefs.math", own.math, ANYDNN_MATH_DEFAULT, ANYDNN_MATH_FAST));
    ADN_TRY(adn_need_range("prefs.deterministic", own.deterministic, 0, 1));
    ADN_TRY(adn_need_range("prefs.batch_invariant", own.batch_invariant, 0, 1));
    if (own.engine && strlen(own.engine) >= sizeof p->engine)
        return adn_fail(ANYDNN_INVALID, "prefs.engine has %zu characters; accepted: up to %d", strlen(own.engine),
                        ADN_ENGINE_ID - 1);
    p->math = own.math;
    p->deterministic = own.deterministic != 0;
    p->batch_invariant = own.batch_invariant != 0;
    p->workspace_limit = own.workspace_limit == 0                       ? UINT64_MAX
                         : own.workspace_limit == ANYDNN_NO_WORKSPACE ? 0
                                                                       : own.workspace_limit;
    if (own.engine) snprintf(p->engine, sizeof p->engine, "%s", own.engine);
    return ANYDNN_OK;
}

static anydnn_status read_op(struct adn_problem *p, const anydnn_op *op)
{
    uint32_t given;
    int i;
    if (!op) return adn_fail(ANYDNN_INVALID, "op is NULL; accepted: an operation struct");
    memcpy(&given, op, sizeof given);
    if (given < sizeof *op)
        return adn_fail(ANYDNN_INVALID, "op: struct_size is %u; accepted: sizeof the operation's struct", given);
    p->def = adn_op_def(op->op);
    if (!p->def) return adn_fail(ANYDNN_INVALID, "op.op is %d; accepted: %d to %d", op->op, 1, ANYDNN_OP_ADAM);
    ADN_TRY(adn_read_struct(&p->desc, p->def->desc_size, op, sizeof *op, p->def->name));
    p->desc.head.struct_size = (uint32_t)p->def->desc_size;
    for (i = 0; p->def->roles[i].role; i++) {
        p->operand[i].alias = -1;
        p->operand[i].value = p->operand[i].otherwise = p->def->roles[i].value;
    }
    p->slots = i;
    return ANYDNN_OK;
}

anydnn_status adn_problem_init(struct adn_problem *p, const anydnn_op *op, const anydnn_prefs *prefs,
                               const anydnn_binding *bindings, int count, bool allow_missing)
{
    int i;
    memset(p, 0, sizeof *p);
    ADN_TRY(read_op(p, op));
    ADN_TRY(read_prefs(p, prefs));
    if (count < 0 || (count > 0 && !bindings))
        return adn_fail(ANYDNN_INVALID, "bindings: %d rows at %p; accepted: 0 or more rows, not NULL", count,
                        (const void *)bindings);
    for (i = 0; i < count; i++) ADN_TRY(bind(p, &bindings[i]));
    ADN_TRY(check_missing(p, allow_missing));
    ADN_TRY(p->def->check(p));
    ADN_TRY(check_outputs(p));
    ADN_TRY(find_aliases(p, bindings, count));
    p->alpha_class = class_of(p, ANYDNN_ALPHA, ADN_CLASS_ONE);
    p->beta_class = class_of(p, ANYDNN_BETA, ADN_CLASS_ZERO);
    return ANYDNN_OK;
}

/* Operations that batch invariance concerns: every item has sums of its own. */
static bool is_per_item(int op)
{
    switch (op) {
    case ANYDNN_OP_CONV_FORWARD:
    case ANYDNN_OP_CONV_BACKWARD_DATA:
    case ANYDNN_OP_MATMUL:
    case ANYDNN_OP_POOL_FORWARD:
    case ANYDNN_OP_POOL_BACKWARD:
    case ANYDNN_OP_SOFTMAX_FORWARD:
    case ANYDNN_OP_SOFTMAX_BACKWARD:
    case ANYDNN_OP_CROSS_ENTROPY_FORWARD:
    case ANYDNN_OP_CROSS_ENTROPY_BACKWARD:
        return true;
    default:
        return false;
    }
}

void adn_problem_settle(struct adn_problem *p, const anydnn_open_options *options)
{
    if (p->math == ANYDNN_MATH_DEFAULT) p->math = options->math;
    p->deterministic = p->deterministic || options->deterministic;
    p->batch_invariant = is_per_item(p->def->op) && (p->batch_invariant || options->batch_invariant);
}

anydnn_status adn_problem_complete(struct adn_problem *p, bool channels_last)
{
    int i;
    for (i = 0; i < p->slots; i++) {
        struct adn_operand *o = &p->operand[i];
        const uint32_t flags = p->def->roles[i].flags;
        if (o->present || !(flags & ANYDNN_ROLE_OUT) || (flags & (ANYDNN_ROLE_OPTIONAL | ANYDNN_ROLE_IN))) continue;
        ADN_TRY(p->def->infer(p, p->def->roles[i].role, &o->t));
        if (channels_last && o->t.ndim >= 3) o->t = anydnn_tensor_channels_last(o->t.dtype, o->t.ndim, o->t.dims);
        ADN_TRY(adn_tensor_check(&o->t, adn_role_text(p->def->roles[i].role), true));
        canonical_strides(&o->t);
        o->present = true;
    }
    return p->def->check(p); /* no output at all may fit the inputs */
}

/* ---- key ---- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    size_t i;
    for (i = 0; i < size; i++) hash = (hash ^ b[i]) * 0x100000001b3ull;
    return hash ^ hash >> 29;
}

uint64_t adn_problem_hash(const struct adn_problem *p)
{
    const int32_t head[7] = { p->def->op,       p->alpha_class,     p->beta_class, p->math,
                              p->deterministic, p->batch_invariant, p->slots };
    uint64_t hash = mix(0xcbf29ce484222325ull, head, sizeof head);
    int i;
    hash = mix(hash, &p->desc, p->def->desc_size);
    hash = mix(hash, &p->workspace_limit, sizeof p->workspace_limit);
    hash = mix(hash, p->engine, strlen(p->engine));
    for (i = 0; i < p->slots; i++) {
        const struct adn_operand *o = &p->operand[i];
        const bool scalar = (p->def->roles[i].flags & ANYDNN_ROLE_SCALAR) != 0;
        const int32_t flags[3] = { scalar || o->present, o->device, o->alias };
        hash = mix(hash, flags, sizeof flags);
        if (o->present && !scalar) hash = mix(hash, &o->t, sizeof o->t);
    }
    return hash;
}

/* Of a scalar the key holds where it is read from, never its value: an absent one is its default on the host. */
static bool operand_equal(const struct adn_operand *a, const struct adn_operand *b, bool scalar)
{
    if (scalar) return a->device == b->device;
    return a->present == b->present && a->alias == b->alias && (!a->present || memcmp(&a->t, &b->t, sizeof a->t) == 0);
}

bool adn_problem_equal(const struct adn_problem *a, const struct adn_problem *b)
{
    int i;
    if (a->def != b->def || a->alpha_class != b->alpha_class || a->beta_class != b->beta_class || a->math != b->math ||
        a->deterministic != b->deterministic || a->batch_invariant != b->batch_invariant || a->workspace_limit != b->workspace_limit ||
        strcmp(a->engine, b->engine) != 0 || memcmp(&a->desc, &b->desc, a->def->desc_size) != 0)
        return false;
    for (i = 0; i < a->slots; i++)
        if (!operand_equal(&a->operand[i], &b->operand[i], (a->def->roles[i].flags & ANYDNN_ROLE_SCALAR) != 0)) return false;
    return true;
}
