/* SPDX-License-Identifier: Apache-2.0
 * api/oracle.c: the oracle (ANYDNN_ORACLE, options.oracle): every run of a plan is repeated on the CPU reference.
 *
 * Stages of a run: tensors and device scalars are copied to the host; the device runs; outputs are copied; the
 * reference runs the same problem on copies, with the same strides and aliases; where the bound of the error needs it,
 * a second time on magnitudes (api/tolerance.c); every element is compared.
 * Limits: it waits for the stream and allocates host memory, several times the size of the tensors; where the
 * reference's engine is the one under test (CPU contexts) there is nothing to compare and the call just runs. */
#include "oracle.h"

#include "backends/cpu/number.h"
#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the problem ---- */

static bool is_tensor(const struct adn_problem *p, int slot)
{
    return p->operand[slot].present && !(p->def->roles[slot].flags & ANYDNN_ROLE_SCALAR);
}

static bool is_output(const struct adn_problem *p, int slot)
{
    return is_tensor(p, slot) && (p->def->roles[slot].flags & ANYDNN_ROLE_OUT);
}

static size_t span_of(const struct adn_problem *p, int slot)
{
    return (size_t)anydnn_tensor_bytes(&p->operand[slot].t);
}

static double scalar_of(const struct adn_oracle *o, int role, double otherwise)
{
    const int slot = adn_slot(&o->problem, role);
    return slot >= 0 ? o->scalar[slot] : otherwise;
}

/* Dropout's mask, fills, plain copies and convolutions of integers are defined to the last bit. */
static bool is_exact(const struct adn_oracle *o)
{
    switch (o->problem.def->op) {
    case ANYDNN_OP_DROPOUT_FORWARD:
    case ANYDNN_OP_DROPOUT_BACKWARD:
    case ANYDNN_OP_FILL:
        return true;
    case ANYDNN_OP_CONV_FORWARD:
        return adn_is_byte(o->problem.operand[0].t.dtype);
    case ANYDNN_OP_COPY:
        return scalar_of(o, ANYDNN_ALPHA, 1) == 1 && scalar_of(o, ANYDNN_BETA, 0) == 0;
    default:
        return false;
    }
}

void adn_oracle_widen(struct adn_oracle *o)
{
    int slot;
    o->exact = is_exact(o);
    o->wide = o->problem;
    o->wide.engine[0] = 0;
    o->wide.deterministic = o->wide.batch_invariant = false;
    o->wide.workspace_limit = UINT64_MAX;
    for (slot = 0; slot < o->wide.slots; slot++) {
        anydnn_tensor *t = &o->wide.operand[slot].t;
        if (!is_tensor(&o->wide, slot)) continue;
        t->alignment = 0;
        if (!o->exact && (t->dtype == ANYDNN_F16 || t->dtype == ANYDNN_BF16)) t->dtype = ANYDNN_F32;
    }
}

/* ---- comparing ---- */

static double rounded(int dtype, double value)
{
    uint64_t element[1];
    adn_store(element, dtype, 0, value);
    return adn_load(element, dtype, 0);
}

/* Products of padding with what is not finite may be skipped or computed: a NaN tells nothing there. The other factor is
 * the filter, and in its gradient dy. */
static bool has_wild_factor(const struct adn_oracle *o)
{
    const bool gradient = o->problem.def->op == ANYDNN_OP_CONV_BACKWARD_FILTER;
    const int slot = adn_slot(&o->problem, gradient ? ANYDNN_DY : ANYDNN_W);
    const anydnn_tensor *t = &o->problem.operand[slot < 0 ? 0 : slot].t;
    int64_t i, count;
    if (slot < 0) return false;
    count = anydnn_tensor_count(t);
    for (i = 0; i < count; i++)
        if (!isfinite(adn_load(o->before[slot], t->dtype, adn_element_offset(t, i)))) return true;
    return false;
}

static bool agrees(const struct adn_oracle *o, int dtype, double got, double want, double tolerance)
{
    const double nearest = rounded(dtype, want);
    if (got == want || got == nearest) return true;
    if (isnan(want) || isnan(got)) {
        if (isnan(want) && isnan(got)) return true;
        /* A sum whose magnitudes overflow may pass infinities of both signs on its way to a finite end. */
        return (isfinite(want) && isinf(tolerance)) || has_wild_factor(o);
    }
    /* Devices may flush what is subnormal. */
    if (got == 0 && (dtype == ANYDNN_F32 || dtype == ANYDNN_BF16) && fabs(want) < 0x1p-126) return true;
    if (isinf(want)) return has_wild_factor(o);
    /* At the edge of the range a tolerated error may decide between the largest number and infinity. */
    if (isinf(got) || isinf(nearest))
        return signbit(got) == signbit(want) && isinf(rounded(dtype, want + copysign(tolerance, want)));
    return !(fabs(got - want) > tolerance);
}

static void place_text(const anydnn_tensor *t, int64_t i, char *text, size_t capacity)
{
    int64_t index[ANYDNN_MAX_DIMS];
    size_t used = 0;
    int axis;
    for (axis = t->ndim - 1; axis >= 0; axis--) {
        index[axis] = i % t->dims[axis];
        i /= t->dims[axis];
    }
    text[0] = 0;
    for (axis = 0; axis < t->ndim && used < capacity; axis++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", axis ? "," : "", (long long)index[axis]);
}

struct place {
    const char *device, *engine;
};

static anydnn_status tell(const struct adn_oracle *o, const struct place *where, int slot, int64_t i, double got,
                          double want, double tolerance)
{
    const anydnn_tensor *t = &o->problem.operand[slot].t;
    char line[1664], element[176];
    place_text(t, i, element, sizeof element);
    adn_text_print(&o->problem, line, sizeof line);
    return adn_fail(ANYDNN_INTERNAL, "%s # device %s engine %s element %s[%s] got %.9g want %.9g tolerance %.3g", line,
                    where->device, where->engine, anydnn_role_name(o->problem.def->roles[slot].role), element, got,
                    want, tolerance);
}

static anydnn_status compare_output(const struct adn_oracle *o, const struct adn_bounds *b, int slot,
                                    const struct place *where)
{
    const anydnn_tensor *t = &o->problem.operand[slot].t;
    const int wide = o->wide.operand[slot].t.dtype;
    const size_t bytes = anydnn_dtype_size(t->dtype);
    const int64_t count = anydnn_tensor_count(t);
    int64_t i;
    for (i = 0; i < count; i++) {
        const int64_t at = adn_element_offset(t, i);
        const double got = adn_load(o->got[slot], t->dtype, at), want = adn_load(o->want[slot], wide, at);
        const bool bits = o->exact && t->dtype == ANYDNN_I64; /* a double does not hold these */
        double tolerance;
        if (bits ? memcmp(o->got[slot] + (size_t)at * bytes, o->want[slot] + (size_t)at * bytes, bytes) == 0
                 : got == want)
            continue;
        tolerance = adn_bounds_of(b, slot, i, want);
        if (bits || !agrees(o, t->dtype, got, want, tolerance)) return tell(o, where, slot, i, got, want, tolerance);
    }
    return ANYDNN_OK;
}

anydnn_status adn_oracle_compare(const struct adn_oracle *o, const char *device, const char *engine)
{
    const struct place where = { device, engine };
    struct adn_bounds b;
    anydnn_status status;
    int slot;
    ADN_TRY(adn_bounds_begin(&b, o));
    for (slot = 0, status = ANYDNN_OK; slot < o->problem.slots && status == ANYDNN_OK; slot++)
        if (is_output(&o->problem, slot)) status = compare_output(o, &b, slot, &where);
    adn_bounds_end(&b);
    return status;
}

/* ---- the reference ---- */

/* The context's own CPU context, made at first use. */
static anydnn_status reference_of(anydnn_context *context, anydnn_context **reference)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    anydnn_context *made, *none = NULL;
    int count;
    *reference = __atomic_load_n(&context->reference, __ATOMIC_ACQUIRE);
    if (*reference) return ANYDNN_OK;
    options.cpu_threads = context->options.cpu_threads;
    options.plan_cache = -1;
    ADN_TRY(adn_context_create(adn_devices(&count), NULL, &options, &made)); /* the CPU comes first */
    if (__atomic_compare_exchange_n(&context->reference, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        *reference = made;
    else {
        adn_context_release(made);
        *reference = none;
    }
    return ANYDNN_OK;
}

/* Slot in whose memory a tensor lies. */
static int root_of(const struct adn_problem *p, int slot)
{
    return p->operand[slot].alias >= 0 ? p->operand[slot].alias : slot;
}

/* Copies of the tensors in wide dtypes, as they are or as magnitudes. */
static bool copy_wide(const struct adn_oracle *o, bool magnitudes, unsigned char *data[ADN_MAX_ROLES])
{
    int slot;
    for (slot = 0; slot < o->wide.slots; slot++) {
        const int from = o->problem.operand[slot].t.dtype, to = o->wide.operand[slot].t.dtype;
        const bool all = magnitudes && to < ANYDNN_I8 && !adn_bounds_keep_sign(&o->problem, slot);
        const size_t bytes = is_tensor(&o->wide, slot) ? span_of(&o->wide, slot) : 0;
        int64_t i;
        if (!is_tensor(&o->wide, slot) || root_of(&o->wide, slot) != slot) continue;
        data[slot] = malloc(bytes + 1);
        if (!data[slot]) return false;
        if (from == to && !all)
            memcpy(data[slot], o->before[slot], bytes);
        else
            for (i = 0; i < (int64_t)(bytes / anydnn_dtype_size(to)); i++) {
                const double v = adn_load(o->before[slot], from, i);
                adn_store(data[slot], to, i, all ? fabs(v) : v);
            }
    }
    for (slot = 0; slot < o->wide.slots; slot++)
        if (is_tensor(&o->wide, slot)) data[slot] = data[root_of(&o->wide, slot)];
    return true;
}

static void free_wide(const struct adn_problem *p, unsigned char *const data[ADN_MAX_ROLES])
{
    int slot;
    for (slot = 0; slot < p->slots; slot++)
        if (is_tensor(p, slot) && root_of(p, slot) == slot) free(data[slot]);
}

static anydnn_status run_reference(const anydnn_plan *plan, anydnn_context *reference, const double *scalar,
                                   unsigned char *const data[ADN_MAX_ROLES])
{
    struct adn_arguments arguments;
    anydnn_stream *stream;
    anydnn_status status;
    int slot;
    memset(&arguments, 0, sizeof arguments);
    memcpy(arguments.scalar, scalar, sizeof arguments.scalar);
    for (slot = 0; slot < plan->problem.slots; slot++) arguments.place[slot].base = data[slot];
    ADN_TRY(adn_stream_make(reference, false, NULL, ANYDNN_NO_WORKSPACE, &stream));
    status = plan->engine->run(plan, stream, &arguments);
    anydnn_stream_destroy(stream);
    return status;
}

static anydnn_status run_magnitudes(const struct adn_oracle *o, anydnn_context *reference,
                                    unsigned char *data[ADN_MAX_ROLES])
{
    struct adn_problem p = o->wide;
    double scalar[ADN_MAX_ROLES];
    anydnn_plan *plan;
    anydnn_status status;
    if (!copy_wide(o, true, data)) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for the oracle");
    memcpy(scalar, o->scalar, sizeof scalar);
    adn_bounds_magnify(&p, scalar);
    ADN_TRY(adn_plan_make(reference, &p, true, &plan));
    status = run_reference(plan, reference, scalar, data);
    anydnn_plan_release(plan);
    return status;
}

/* ---- a run ---- */

struct session {
    struct adn_oracle o;
    anydnn_context *reference;
    anydnn_plan *truth; /* of o.wide on the reference */
    unsigned char *before[ADN_MAX_ROLES], *got[ADN_MAX_ROLES], *want[ADN_MAX_ROLES], *size[ADN_MAX_ROLES];
};

/* Enqueues a copy of `bytes` to new host memory. */
static anydnn_status fetch(anydnn_stream *stream, const struct adn_place *place, size_t bytes, unsigned char **host)
{
    *host = malloc(bytes + 1);
    if (!*host) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for the oracle: %zu bytes", bytes);
    return bytes ? stream->context->backend->copy_out(stream, *host, *place, bytes) : ANYDNN_OK;
}

/* Waits for copies to memory that is given back next: where waiting itself fails, they may be under way still. */
static anydnn_status arrive(anydnn_stream *stream)
{
    const anydnn_status status = stream->context->backend->stream_sync(stream);
    if (status != ANYDNN_OK) stream->context->backend->stream_sync(stream);
    return status;
}

static anydnn_status fetch_scalars(struct adn_oracle *o, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const struct adn_backend *backend = stream->context->backend;
    int slot;
    for (slot = 0; slot < o->problem.slots; slot++) {
        const bool f32 = o->problem.def->roles[slot].role == ANYDNN_LR;
        float real = 0;
        int64_t whole = 0;
        o->scalar[slot] = arguments->scalar[slot];
        if (o->problem.operand[slot].device) {
            ADN_TRY(backend->copy_out(stream, f32 ? (void *)&real : &whole, arguments->place[slot], f32 ? 4 : 8));
            ADN_TRY(arrive(stream));
            o->scalar[slot] = f32 ? (double)real : (double)whole;
        }
        if (o->problem.def->roles[slot].flags & ANYDNN_ROLE_SCALAR) o->problem.operand[slot].value = o->scalar[slot];
    }
    return ANYDNN_OK;
}

/* The plan's problem as this run has it. Offsets tell what an address is modulo the alignments that matter. */
static anydnn_status describe(struct session *s, const anydnn_plan *plan, anydnn_stream *stream,
                              const struct adn_arguments *arguments)
{
    const bool handles = plan->context->backend->mem_kind == ANYDNN_MEM_OPENCL;
    struct adn_oracle *o = &s->o;
    int slot;
    o->problem = plan->problem;
    o->traits = plan->engine->traits;
    for (slot = 0; slot < o->problem.slots; slot++) {
        const struct adn_place *place = &arguments->place[slot];
        if (is_tensor(&o->problem, slot))
            o->problem.operand[slot].offset = (place->offset + (handles ? 0 : (uintptr_t)place->base)) % 256;
    }
    ADN_TRY(fetch_scalars(o, stream, arguments));
    adn_oracle_widen(o);
    for (slot = 0; slot < o->wide.slots; slot++) o->wide.operand[slot].device = false;
    return ANYDNN_OK;
}

static anydnn_status snapshot(struct session *s, anydnn_stream *stream, const struct adn_arguments *arguments,
                              bool outputs, unsigned char *data[ADN_MAX_ROLES])
{
    const struct adn_problem *p = &s->o.problem;
    anydnn_status status = ANYDNN_OK, waited;
    int slot;
    for (slot = 0; slot < p->slots && status == ANYDNN_OK; slot++)
        if (outputs ? is_output(p, slot) : is_tensor(p, slot))
            status = fetch(stream, &arguments->place[slot], span_of(p, slot), &data[slot]);
    waited = arrive(stream);
    return status == ANYDNN_OK ? waited : status;
}

/* Wants what the device gave, and compares. */
static anydnn_status judge(struct session *s, const anydnn_plan *plan)
{
    struct adn_oracle *o = &s->o;
    char engine[ADN_ENGINE_ID + 40];
    int slot;
    for (slot = 0; slot < o->problem.slots; slot++) o->before[slot] = s->before[slot], o->got[slot] = s->got[slot];
    if (!copy_wide(o, false, s->want)) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for the oracle");
    ADN_TRY(run_reference(s->truth, s->reference, o->scalar, s->want));
    if (adn_bounds_need_sizes(o)) ADN_TRY(run_magnitudes(o, s->reference, s->size));
    for (slot = 0; slot < o->problem.slots; slot++) o->want[slot] = s->want[slot], o->size[slot] = s->size[slot];
    snprintf(engine, sizeof engine, "%s%s%s", plan->engine->name, plan->body.params[0] ? ":" : "", plan->body.params);
    return adn_oracle_compare(o, plan->context->device.info.id, engine);
}

static void free_session(struct session *s)
{
    int slot;
    if (!s) return;
    free_wide(&s->o.wide, s->want);
    free_wide(&s->o.wide, s->size);
    for (slot = 0; slot < ADN_MAX_ROLES; slot++) {
        free(s->before[slot]);
        free(s->got[slot]);
    }
    anydnn_plan_release(s->truth);
    free(s);
}

static anydnn_status repeat(struct session *s, const anydnn_plan *plan, anydnn_stream *stream,
                            const struct adn_arguments *arguments)
{
    anydnn_status status;
    ADN_TRY(reference_of(plan->context, &s->reference));
    ADN_TRY(describe(s, plan, stream, arguments));
    ADN_TRY(adn_plan_make(s->reference, &s->o.wide, true, &s->truth));
    if (s->truth->engine == plan->engine) return adn_plan_enqueue(plan, stream, arguments);
    ADN_TRY(snapshot(s, stream, arguments, false, s->before));
    ADN_TRY(adn_plan_enqueue(plan, stream, arguments));
    ADN_TRY(snapshot(s, stream, arguments, true, s->got));
    status = judge(s, plan);
    if (status == ANYDNN_INTERNAL) adn_log(plan->context, ANYDNN_LOG_ERROR, "%s", anydnn_message());
    return status;
}

anydnn_status adn_oracle_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    struct session *s = calloc(1, sizeof *s);
    anydnn_status status;
    if (!s) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for the oracle");
    s->o.wide.def = s->o.problem.def = plan->problem.def;
    status = repeat(s, plan, stream, arguments);
    free_session(s);
    return status;
}
