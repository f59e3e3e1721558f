/* SPDX-License-Identifier: Apache-2.0
 * api/plan.c: plans: making them, and running them with every promise checked. */
#include "common/select.h"
#include "common/text.h"
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static void log_plan(const anydnn_plan *plan)
{
    char line[2048];
    if (!plan->context->options.log || plan->context->options.log_level < ANYDNN_LOG_CALL) return;
    adn_text_print(&plan->problem, line, sizeof line);
    adn_log(plan->context, ANYDNN_LOG_CALL, "%s # %s%s%s on %s", line, plan->engine->name, plan->body.params[0] ? ":" : "",
            plan->body.params, plan->context->device.info.id);
}

anydnn_status adn_plan_make(anydnn_context *context, const struct adn_problem *p, bool cached, anydnn_plan **plan)
{
    anydnn_plan *made = calloc(1, sizeof *made);
    anydnn_status status;
    if (!made) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a plan");
    made->context = context;
    made->problem = *p;
    made->references = 1;
    made->cached = cached;
    status = adn_plan_choose(made);
    if (status != ANYDNN_OK) {
        free(made);
        return status;
    }
    if (!cached) adn_context_retain(context);
    log_plan(made);
    *plan = made;
    return ANYDNN_OK;
}

anydnn_status anydnn_plan_create(anydnn_context *context, const anydnn_op *op, const anydnn_prefs *prefs,
                                 const anydnn_binding *bindings, int count, anydnn_plan **plan)
{
    struct adn_problem p;
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(plan);
    ADN_TRY(adn_check_process(context));
    ADN_TRY(adn_problem_init(&p, op, prefs, bindings, count, false));
    adn_problem_settle(&p, &context->options);
    return adn_plan_make(context, &p, false, plan);
}

anydnn_plan *anydnn_plan_retain(anydnn_plan *plan)
{
    if (plan) __atomic_add_fetch(&plan->references, 1, __ATOMIC_RELAXED);
    return plan;
}

void anydnn_plan_release(anydnn_plan *plan)
{
    anydnn_context *context;
    if (!plan || adn_is_foreign(plan->context) || __atomic_sub_fetch(&plan->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    context = plan->cached ? NULL : plan->context;
    adn_plan_discard(plan);
    free(plan);
    if (context) adn_context_release(context);
}

anydnn_status anydnn_plan_get_info(const anydnn_plan *plan, anydnn_plan_info *info)
{
    anydnn_plan_info own;
    uint32_t size;
    ADN_NOT_NULL(plan);
    ADN_NOT_NULL(info);
    size = info->struct_size;
    if (size < 16)
        return adn_fail(ANYDNN_INVALID, "info: struct_size is %u; accepted: sizeof(anydnn_plan_info)", size);
    memset(&own, 0, sizeof own);
    own.traits = plan->engine->traits;
    own.workspace_bytes = plan->body.workspace;
    own.estimated_ns = plan->body.cost_ns;
    strncpy(own.engine, plan->engine->name, sizeof own.engine - 1);
    if (plan->body.params[0]) {
        strncat(own.engine, ":", sizeof own.engine - strlen(own.engine) - 1);
        strncat(own.engine, plan->body.params, sizeof own.engine - strlen(own.engine) - 1);
    }
    own.struct_size = size;
    memcpy(info, &own, size < sizeof own ? size : sizeof own);
    return ANYDNN_OK;
}

/* ---- running ---- */

static bool same_tensor(const anydnn_tensor *plan, const anydnn_tensor *given)
{
    int i;
    if (plan->dtype != given->dtype || plan->ndim != given->ndim) return false;
    for (i = 0; i < plan->ndim; i++) {
        if (plan->dims[i] != given->dims[i]) return false;
        if (plan->dims[i] > 1 && plan->strides[i] != given->strides[i] && !adn_is_empty(plan)) return false;
    }
    return true;
}

static anydnn_status take_tensor(const anydnn_plan *plan, int slot, const anydnn_binding *b, struct adn_arguments *arguments)
{
    const anydnn_tensor *t = &plan->problem.operand[slot].t;
    const char *name = anydnn_role_name(b->role);
    const uint64_t size = anydnn_dtype_size(t->dtype), bytes = (uint64_t)anydnn_tensor_bytes(t);
    if (b->tensor && !same_tensor(t, b->tensor))
        return adn_fail(ANYDNN_INVALID, "%s: tensor differs from the plan's; accepted: the plan's, or NULL", name);
    if (bytes == 0) return ANYDNN_OK;
    ADN_TRY(adn_check_memory(plan->context, &b->mem, bytes, name));
    if (adn_address_bits(&b->mem) % size)
        return adn_fail(ANYDNN_INVALID, "%s: byte offset is %llu; accepted: addresses that are multiples of %llu", name,
                        (unsigned long long)b->mem.offset, (unsigned long long)size);
    if (t->alignment > 1 && adn_address_bits(&b->mem) % (uint64_t)t->alignment)
        return adn_fail(ANYDNN_INVALID, "%s: is not aligned to the %d bytes that the plan was promised; accepted: aligned memory",
                        name, t->alignment);
    arguments->place[slot].base = b->mem.base;
    arguments->place[slot].offset = b->mem.offset;
    return ANYDNN_OK;
}

static anydnn_status check_class(const struct adn_problem *p, int role, double value)
{
    const int promised = role == ANYDNN_ALPHA ? p->alpha_class : p->beta_class;
    if (promised == ADN_CLASS_OTHER || value == (promised == ADN_CLASS_ONE ? 1.0 : 0.0)) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "%s is %g, but the plan was promised %d; accepted: %d", anydnn_role_name(role), value,
                    promised == ADN_CLASS_ONE, promised == ADN_CLASS_ONE);
}

/* Bytes of a scalar in device memory. */
static int scalar_size(int role) { return role == ANYDNN_LR ? 4 : 8; }

static anydnn_status take_scalar(const anydnn_plan *plan, int slot, const anydnn_binding *b, struct adn_arguments *arguments)
{
    const char *name = anydnn_role_name(b->role);
    const uint64_t size = (uint64_t)scalar_size(b->role);
    if (plan->problem.operand[slot].device != (b->mem.kind != ANYDNN_MEM_NONE))
        return adn_fail(ANYDNN_INVALID, "%s: memory kind is %d, but the plan was promised a value %s; accepted: %s", name,
                        b->mem.kind, plan->problem.operand[slot].device ? "in device memory" : "on the host",
                        plan->problem.operand[slot].device ? "memory of the device" : "0 (none)");
    if (!plan->problem.operand[slot].device) {
        ADN_TRY(adn_scalar_check(b->role, b->value));
        arguments->scalar[slot] = b->value;
        return b->role == ANYDNN_ALPHA || b->role == ANYDNN_BETA ? check_class(&plan->problem, b->role, b->value) : ANYDNN_OK;
    }
    ADN_TRY(adn_check_memory(plan->context, &b->mem, size, name));
    if (adn_address_bits(&b->mem) % size)
        return adn_fail(ANYDNN_INVALID, "%s: byte offset is %llu; accepted: a multiple of %llu", name,
                        (unsigned long long)b->mem.offset, (unsigned long long)size);
    arguments->place[slot].base = b->mem.base;
    arguments->place[slot].offset = b->mem.offset;
    return ANYDNN_OK;
}

/* Host bases and CUDA bases are addresses and compare by sum; OpenCL places are of one buffer or apart. */
static bool places_meet(const anydnn_plan *plan, const anydnn_tensor *a, const struct adn_place *x, const anydnn_tensor *b,
                        const struct adn_place *y)
{
    const bool handles = plan->context->backend->mem_kind == ANYDNN_MEM_OPENCL;
    if (handles && x->base != y->base) return false;
    return adn_may_overlap(a, x->offset + (handles ? 0 : (uintptr_t)x->base), b,
                           y->offset + (handles ? 0 : (uintptr_t)y->base));
}

static bool same_place(const struct adn_place *x, const struct adn_place *y)
{
    return x->base == y->base ? x->offset == y->offset
                              : (uintptr_t)x->base + x->offset == (uintptr_t)y->base + y->offset;
}

static bool is_tensor(const struct adn_problem *p, int slot)
{
    return p->operand[slot].present && !(p->def->roles[slot].flags & ANYDNN_ROLE_SCALAR);
}

/* What lies at a slot's place: its tensor, or one element that a scalar is read from. */
static anydnn_tensor extent_of(const struct adn_problem *p, int slot)
{
    if (is_tensor(p, slot)) return p->operand[slot].t;
    return anydnn_tensor_1d(ANYDNN_I8, scalar_size(p->def->roles[slot].role));
}

/* Output `out` beside another operand. */
static anydnn_status check_pair(const anydnn_plan *plan, const struct adn_arguments *arguments, int out, int other)
{
    const struct adn_problem *p = &plan->problem;
    const char *name = anydnn_role_name(p->def->roles[out].role), *with = anydnn_role_name(p->def->roles[other].role);
    const bool promised = p->operand[out].alias == other;
    const anydnn_tensor extent = extent_of(p, other);
    if (promised && !same_place(&arguments->place[out], &arguments->place[other]))
        return adn_fail(ANYDNN_INVALID, "%s is not where %s is, as the plan was promised; accepted: the same place", name, with);
    if (!promised && p->operand[other].alias != out &&
        places_meet(plan, &p->operand[out].t, &arguments->place[out], &extent, &arguments->place[other]))
        return adn_fail(ANYDNN_INVALID, "%s overlaps %s, which the plan was not promised; accepted: apart", name, with);
    return ANYDNN_OK;
}

static anydnn_status check_aliases(const anydnn_plan *plan, const struct adn_arguments *arguments)
{
    const struct adn_problem *p = &plan->problem;
    int out, other;
    for (out = 0; out < p->slots; out++) {
        if (!is_tensor(p, out) || !(p->def->roles[out].flags & ANYDNN_ROLE_OUT) || adn_is_empty(&p->operand[out].t)) continue;
        for (other = 0; other < p->slots; other++)
            if (other != out && (is_tensor(p, other) || p->operand[other].device))
                ADN_TRY(check_pair(plan, arguments, out, other));
    }
    return ANYDNN_OK;
}

static anydnn_status take_binding(const anydnn_plan *plan, const anydnn_binding *b, struct adn_arguments *arguments,
                                  uint32_t *bound)
{
    const struct adn_problem *p = &plan->problem;
    const int slot = adn_slot(p, b->role);
    if (slot < 0) return adn_refuse_role(p, b->role);
    ADN_TRY(adn_binding_check(p, b));
    if (*bound >> slot & 1u) return adn_fail(ANYDNN_INVALID, "%s is bound twice; accepted: once", anydnn_role_name(b->role));
    *bound |= 1u << slot;
    if (p->def->roles[slot].flags & ANYDNN_ROLE_SCALAR) return take_scalar(plan, slot, b, arguments);
    if (!p->operand[slot].present)
        return adn_fail(ANYDNN_INVALID, "%s is bound, but the plan was made without it; accepted: not bound",
                        anydnn_role_name(b->role));
    return take_tensor(plan, slot, b, arguments);
}

static anydnn_status check_presence(const struct adn_problem *p, uint32_t bound)
{
    int i;
    for (i = 0; i < p->slots; i++) {
        const bool needed = is_tensor(p, i) || p->operand[i].device;
        if (needed && !(bound >> i & 1u))
            return adn_fail(ANYDNN_INVALID, "%s is not bound, but the plan was made with it; accepted: bound",
                            anydnn_role_name(p->def->roles[i].role));
    }
    return ANYDNN_OK;
}

/* An absent alpha or beta is its default: the promise must hold for that too. */
static anydnn_status check_default_classes(const struct adn_problem *p, uint32_t bound)
{
    const int alpha = adn_slot(p, ANYDNN_ALPHA), beta = adn_slot(p, ANYDNN_BETA);
    if (alpha >= 0 && !(bound >> alpha & 1u)) ADN_TRY(check_class(p, ANYDNN_ALPHA, 1.0));
    if (beta >= 0 && !(bound >> beta & 1u)) ADN_TRY(check_class(p, ANYDNN_BETA, 0.0));
    return ANYDNN_OK;
}

/* The caller's workspace lies apart from everything else; the stream's own does anyway. */
static anydnn_status check_workspace(const anydnn_plan *plan, const struct adn_arguments *arguments)
{
    const struct adn_problem *p = &plan->problem;
    const anydnn_tensor whole = anydnn_tensor_1d(ANYDNN_I8, (int64_t)plan->body.workspace);
    int i;
    for (i = 0; i < p->slots; i++) {
        const anydnn_tensor extent = extent_of(p, i);
        if ((is_tensor(p, i) || p->operand[i].device) &&
            places_meet(plan, &whole, &arguments->workspace, &extent, &arguments->place[i]))
            return adn_fail(ANYDNN_INVALID, "workspace overlaps %s; accepted: apart from all that is bound",
                            anydnn_role_name(p->def->roles[i].role));
    }
    return ANYDNN_OK;
}

static anydnn_status take_workspace(const anydnn_plan *plan, const anydnn_stream *stream, const anydnn_mem *workspace,
                                    struct adn_arguments *arguments)
{
    const anydnn_mem *mem = workspace ? workspace : &stream->workspace;
    const uint64_t need = plan->body.workspace;
    if (need == 0) return ANYDNN_OK;
    if (!workspace && mem->kind == ANYDNN_MEM_NONE)
        return adn_fail(ANYDNN_INVALID, "workspace: the plan needs %llu bytes and the stream has none; accepted: a workspace of that size",
                        (unsigned long long)need);
    ADN_TRY(adn_check_memory(plan->context, mem, need, "workspace"));
    if (adn_address_bits(mem) % 256)
        return adn_fail(ANYDNN_INVALID, "workspace: is not aligned to 256 bytes; accepted: aligned memory");
    arguments->workspace.base = mem->base;
    arguments->workspace.offset = mem->offset;
    return workspace ? check_workspace(plan, arguments) : ANYDNN_OK;
}

/* Values that no binding gives: the operation's defaults, whatever the plan was made with. */
static void default_scalars(const struct adn_problem *p, struct adn_arguments *arguments)
{
    int i;
    for (i = 0; i < p->slots; i++) arguments->scalar[i] = p->operand[i].otherwise;
}

anydnn_status adn_plan_enqueue(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    return plan->engine->run ? plan->engine->run(plan, stream, arguments) : adn_steps_run(plan, stream, arguments);
}

anydnn_status anydnn_plan_run(const anydnn_plan *plan, anydnn_stream *stream, const anydnn_binding *bindings, int count,
                              const anydnn_mem *workspace)
{
    struct adn_arguments arguments;
    uint32_t bound = 0;
    int i;
    ADN_NOT_NULL(plan);
    ADN_NOT_NULL(stream);
    ADN_TRY(adn_check_process(plan->context));
    if (plan->context != stream->context)
        return adn_fail(ANYDNN_INVALID, "stream is of another context than the plan; accepted: the plan's context");
    if (count < 0 || (count > 0 && !bindings))
        return adn_fail(ANYDNN_INVALID, "bindings: %d rows at %p; accepted: 0 or more rows, not NULL", count,
                        (const void *)bindings);
    memset(&arguments, 0, sizeof arguments);
    default_scalars(&plan->problem, &arguments);
    for (i = 0; i < count; i++) ADN_TRY(take_binding(plan, &bindings[i], &arguments, &bound));
    ADN_TRY(check_presence(&plan->problem, bound));
    ADN_TRY(check_default_classes(&plan->problem, bound));
    if (plan->problem.def->check_values) ADN_TRY(plan->problem.def->check_values(&plan->problem, arguments.scalar));
    ADN_TRY(check_aliases(plan, &arguments));
    ADN_TRY(take_workspace(plan, stream, workspace, &arguments));
    return plan->context->options.oracle ? adn_oracle_run(plan, stream, &arguments)
                                         : adn_plan_enqueue(plan, stream, &arguments);
}

/* ---- one-shot calls ---- */

/* 16 bytes is what vector paths ask for; a finer grading would only split the cache. */
void adn_promise_alignment(struct adn_problem *p, const anydnn_binding *bindings, int count)
{
    int i;
    for (i = 0; i < count; i++) {
        anydnn_tensor *t = &p->operand[adn_slot(p, bindings[i].role)].t;
        if (bindings[i].tensor && t->alignment < 16) t->alignment = adn_address_bits(&bindings[i].mem) % 16 == 0 ? 16 : 0;
    }
}

anydnn_status anydnn_run(anydnn_stream *stream, const anydnn_op *op, const anydnn_prefs *prefs,
                         const anydnn_binding *bindings, int count)
{
    struct adn_problem p;
    struct adn_plan_cache *cache;
    anydnn_plan *plan = NULL;
    anydnn_status status;
    uint64_t hash;
    ADN_NOT_NULL(stream);
    ADN_TRY(adn_check_process(stream->context));
    ADN_TRY(adn_problem_init(&p, op, prefs, bindings, count, false));
    adn_problem_settle(&p, &stream->context->options);
    adn_promise_alignment(&p, bindings, count);
    if (p.workspace_limit > stream->workspace.size) p.workspace_limit = stream->workspace.size;
    cache = stream->context->cache;
    hash = adn_problem_hash(&p);
    if (cache) plan = adn_cache_find(cache, &p, hash);
    if (!plan) {
        ADN_TRY(adn_plan_make(stream->context, &p, true, &plan));
        if (cache) adn_cache_insert(cache, plan, hash);
    }
    status = anydnn_plan_run(plan, stream, bindings, count, NULL);
    anydnn_plan_release(plan);
    return status;
}

/* ---- questions ---- */

anydnn_status anydnn_output(const anydnn_op *op, const anydnn_binding *bindings, int count, int role, anydnn_tensor *tensor)
{
    struct adn_problem p;
    anydnn_tensor made;
    int slot;
    ADN_NOT_NULL(tensor);
    ADN_TRY(adn_problem_init(&p, op, NULL, bindings, count, true));
    slot = adn_slot(&p, role);
    if (slot < 0 || !(p.def->roles[slot].flags & ANYDNN_ROLE_OUT))
        return adn_fail(ANYDNN_INVALID, "role is %d; accepted: an output role of %s", role, p.def->name);
    ADN_TRY(p.def->infer(&p, role, &made));
    *tensor = made;
    return ANYDNN_OK;
}

void adn_give_verdict(const struct adn_answer *answer, anydnn_verdict *row)
{
    memset(row, 0, sizeof *row);
    memcpy(row->engine, answer->id, sizeof row->engine);
    row->status = answer->accepted ? ANYDNN_OK : ANYDNN_UNSUPPORTED;
    row->traits = answer->engine->traits;
    row->workspace_bytes = answer->workspace;
    row->estimated_ns = answer->cost_ns;
    if (answer->accepted) return;
    row->reason = answer->why.reason;
    row->role = answer->why.role;
    row->value = answer->why.value;
    row->accepted = answer->why.accepted;
    memcpy(row->argument, answer->why.argument, sizeof row->argument);
    memcpy(row->text, answer->why.text, sizeof row->text);
}

static anydnn_status verdicts(anydnn_context *context, const anydnn_op *op, const anydnn_prefs *prefs,
                              const anydnn_binding *bindings, int binding_count, bool accepted_only, anydnn_verdict *rows,
                              int capacity, int *count)
{
    struct adn_answer answers[ADN_MAX_CANDIDATES];
    struct adn_problem p;
    int all, i, given = 0;
    if (!context || !count) return adn_fail(ANYDNN_INVALID, "%s is NULL; accepted: not NULL", context ? "count" : "context");
    if (capacity < 0 || (capacity > 0 && !rows))
        return adn_fail(ANYDNN_INVALID, "rows: %d rows at %p; accepted: 0 or more rows, not NULL", capacity, (void *)rows);
    ADN_TRY(adn_check_process(context));
    ADN_TRY(adn_problem_init(&p, op, prefs, bindings, binding_count, false));
    adn_problem_settle(&p, &context->options);
    all = adn_ask_engines(context, &p, accepted_only, answers);
    for (i = 0; i < all; i++) {
        if (accepted_only && !answers[i].accepted) continue;
        if (given < capacity) adn_give_verdict(&answers[i], &rows[given]);
        given++;
    }
    *count = given;
    return ANYDNN_OK;
}

anydnn_status anydnn_explain(anydnn_context *context, const anydnn_op *op, const anydnn_prefs *prefs,
                             const anydnn_binding *bindings, int binding_count, anydnn_verdict *rows, int capacity, int *count)
{
    return verdicts(context, op, prefs, bindings, binding_count, false, rows, capacity, count);
}

anydnn_status anydnn_candidates(anydnn_context *context, const anydnn_op *op, const anydnn_prefs *prefs,
                                const anydnn_binding *bindings, int binding_count, anydnn_verdict *rows, int capacity,
                                int *count)
{
    return verdicts(context, op, prefs, bindings, binding_count, true, rows, capacity, count);
}

anydnn_status anydnn_engine_name(const anydnn_context *context, int op, int index, char *name, uint32_t *traits)
{
    const struct adn_engine *engine;
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(name);
    if (!adn_op_def(op)) return adn_fail(ANYDNN_INVALID, "op is %d; accepted: 1 to %d", op, ANYDNN_OP_ADAM);
    engine = index < 0 ? NULL : adn_engine_at(context->backend, op, index);
    if (!engine) return adn_fail(ANYDNN_INVALID, "index is %d; accepted: the engines of the operation", index);
    strncpy(name, engine->name, 63);
    name[63] = 0;
    if (traits) *traits = engine->traits;
    return ANYDNN_OK;
}
