/* SPDX-License-Identifier: Apache-2.0
 * bench/harness.c: runs one engine of a device on a trial and compares every element with the truth.
 *
 * All operands, device scalars and the workspace lie in one arena of device memory with guard bytes between them. The
 * host keeps the arena's image and a mask that says of each byte whether it belongs to an output element. After the
 * run every byte outside the mask must be as before (guards, gaps of strided outputs, inputs, scalars), and every
 * element inside it is compared. Outputs that are not read and the workspace start as NaN (bytes 0xff). */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTE = 0xa5, POISON = 0xff, WORKSPACE_GUARD = 512 };

/* ---- Devices ---- */

bool device_open(struct device *d, const char *id)
{
    memset(d, 0, sizeof *d);
    d->info.struct_size = sizeof d->info;
    if (anydnn_open(id, NULL, &d->context) == ANYDNN_OK && anydnn_context_info(d->context, &d->info) == ANYDNN_OK &&
        anydnn_stream_create(d->context, ANYDNN_NO_WORKSPACE, &d->stream) == ANYDNN_OK)
        return true;
    fprintf(stderr, "anydnn: cannot open %s: %s\n", id, anydnn_message());
    device_close(d);
    return false;
}

void device_close(struct device *d)
{
    anydnn_stream_destroy(d->stream);
    if (d->arena.kind != ANYDNN_MEM_NONE) anydnn_free(d->context, d->arena);
    anydnn_close(d->context);
    memset(d, 0, sizeof *d);
}

int devices_open(struct device devices[DEVICES], const char *word)
{
    const int count = anydnn_device_count();
    const size_t length = strlen(word);
    int i, n = 0;
    for (i = 0; i < count && n < DEVICES; i++) {
        anydnn_device_info info;
        info.struct_size = sizeof info;
        if (anydnn_device_get(i, &info) != ANYDNN_OK) continue;
        if (strcmp(word, "all") && strcmp(word, info.id) && (strncmp(word, info.id, length) || info.id[length] != ':'))
            continue;
        if (!device_open(&devices[n], info.id)) {
            while (n > 0) device_close(&devices[--n]);
            return -1;
        }
        n++;
    }
    return n;
}

/* Grows the arena; its content is lost. */
static anydnn_status need_arena(struct device *d, uint64_t bytes)
{
    anydnn_status status;
    if (bytes <= d->arena_bytes) return ANYDNN_OK;
    status = anydnn_free(d->context, d->arena);
    d->arena = anydnn_mem_none();
    d->arena_bytes = 0;
    if (status == ANYDNN_OK) status = anydnn_alloc(d->context, bytes, &d->arena);
    if (status == ANYDNN_OK) d->arena_bytes = bytes;
    return status;
}

/* ---- The image of the arena ---- */

struct image {
    uint64_t bytes;
    uint64_t workspace; /* offset; its size is of the plan */
    unsigned char *before, *after, *again;
    unsigned char *output; /* 1 = belongs to an output element, 2 = workspace, 0 = must not change */
};

static void scatter(const struct operand *o, uint64_t start, struct image *m)
{
    int64_t i;
    for (i = 0; i < o->count; i++) {
        const uint64_t at = start + (uint64_t)tensor_element(&o->tensor, i) * o->size;
        if (o->written) memset(m->output + at, 1, o->size);
        memcpy(m->before + at, o->initial + (size_t)i * o->size, o->size);
    }
}

static void write_scalar(const struct operand *o, unsigned char *at)
{
    const bool whole = o->role == ANYDNN_SEED || o->role == ANYDNN_OFFSET || o->role == ANYDNN_STEP;
    value_store(whole ? ANYDNN_I64 : ANYDNN_F32, at, o->value);
}

static anydnn_status image_make(struct image *m, const struct trial *t, const struct layout *layout, uint64_t workspace)
{
    int i, pass;
    m->workspace = (layout->bytes + WORKSPACE_GUARD + 255) / 256 * 256;
    m->bytes = m->workspace + workspace + WORKSPACE_GUARD;
    m->before = malloc(m->bytes);
    m->after = malloc(m->bytes);
    m->again = malloc(m->bytes);
    m->output = calloc(m->bytes, 1);
    if (!m->before || !m->after || !m->again || !m->output) return ANYDNN_OUT_OF_MEMORY;
    memset(m->before, GUARD_BYTE, m->bytes);
    /* What is not read goes first, so that it does not cover an input in the same place. */
    for (pass = 0; pass < 2; pass++)
        for (i = 0; i < t->operands; i++)
            if (t->operand[i].tensor.ndim && t->operand[i].read == (pass == 1))
                scatter(&t->operand[i], layout->start[i], m);
    for (i = 0; i < t->operands; i++)
        if (t->operand[i].device) write_scalar(&t->operand[i], m->before + layout->start[i]);
    memset(m->before + m->workspace, POISON, workspace);
    memset(m->output + m->workspace, 2, workspace);
    return ANYDNN_OK;
}

static void image_free(struct image *m)
{
    free(m->before);
    free(m->after);
    free(m->again);
    free(m->output);
}

/* ---- Comparison ---- */

/* What the first byte that must not have changed belongs to. */
static bool unchanged(const struct trial *t, const struct layout *layout, const struct image *m, char *why,
                      size_t capacity)
{
    uint64_t at;
    int i;
    for (at = 0; at < m->bytes; at++)
        if (m->output[at] == 0 && m->before[at] != m->after[at]) break;
    if (at == m->bytes) return true;
    if (at >= m->workspace - WORKSPACE_GUARD) {
        snprintf(why, capacity, "wrote outside its workspace: %+lld bytes from its start",
                 (long long)at - (long long)m->workspace);
        return false;
    }
    for (i = 0; i < t->operands; i++) {
        const struct operand *o = &t->operand[i];
        const uint64_t span = o->tensor.ndim ? (uint64_t)anydnn_tensor_bytes(&o->tensor) : 8;
        if ((!o->tensor.ndim && !o->device) || at + 512 < layout->start[i] || at >= layout->start[i] + span + 512)
            continue;
        snprintf(why, capacity, "changed byte %+lld of %s (%llu bytes), which is %s",
                 (long long)at - (long long)layout->start[i], anydnn_role_name(o->role), (unsigned long long)span,
                 at < layout->start[i] || at >= layout->start[i] + span ? "outside it"
                 : o->written                                           ? "a gap of its strides"
                                                                        : "an input");
        return false;
    }
    snprintf(why, capacity, "changed a guard byte at %llu of the arena", (unsigned long long)at);
    return false;
}

static double reduced_error(const struct trial *t, const struct operand *o, uint32_t traits)
{
    if (!(traits & ANYDNN_TRAIT_REDUCED_MATH)) return 0;
    (void)o;
    /* tf32 rounds both factors to 11 bits: 2 * 2^-11 of each product. "fast" publishes 2^-8 of the sum of magnitudes.
     */
    return t->prefs.math == ANYDNN_MATH_TF32 ? ldexp(1, -10) : ldexp(1, -8);
}

/* Compares one element positively: NaN and infinities must agree, then the error must be within the tolerance. */
static bool agrees(double want, double got, int dtype, double tolerance)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(got) || isinf(value_rounded(dtype, want)))
        /* At the edge of the range a tolerated error may decide between the largest number and infinity. */
        return got == value_rounded(dtype, want) || (!isinf(want) && signbit(got) == signbit(want) &&
                                                     isinf(value_rounded(dtype, want + copysign(tolerance, want))));
    return fabs(got - want) <= tolerance;
}

static void place_text(const anydnn_tensor *tensor, int64_t index, char *text, size_t capacity)
{
    int64_t at[ANYDNN_MAX_DIMS];
    size_t used = 0;
    int i;
    for (i = tensor->ndim - 1; i >= 0; i--) {
        at[i] = index % tensor->dims[i];
        index /= tensor->dims[i];
    }
    text[0] = 0;
    for (i = 0; i < tensor->ndim && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%lld", i ? "," : "", (long long)at[i]);
}

static bool compare(const struct trial *t, const struct operand *o, const unsigned char *data, uint32_t traits,
                    char *why, size_t capacity)
{
    const int dtype = o->tensor.dtype;
    const bool converts = !t->exact && (t->op.head.op == ANYDNN_OP_COPY || t->op.head.op == ANYDNN_OP_SCALE);
    const double reduced = reduced_error(t, o, traits);
    /* f32: the truth may be rounded as well as the result. Integers computed from products: ties may fall either way.
     */
    const double rounding = t->exact ? 0 : value_roundoff(dtype) * (dtype == ANYDNN_F32 ? 2 : 1.01);
    const double least = t->exact ? 0 : value_underflow(dtype) + (converts && value_is_integer(dtype) ? 1 : 0);
    int64_t i, wrong = 0, first = -1;
    double worst = 0, first_tolerance = 0;
    for (i = 0; i < o->count; i++) {
        const unsigned char *element = data + (uint64_t)tensor_element(&o->tensor, i) * o->size;
        const double got = value_load(dtype, element), want = o->want[i];
        const double tolerance = o->slack[i] + rounding * fabs(want) + reduced * o->size_sum[i] + least;
        const bool ok = t->exact && dtype == ANYDNN_I64 ? !memcmp(element, &o->want[i], sizeof(int64_t))
                                                        : agrees(want, got, dtype, tolerance);
        if (ok) continue;
        if (first < 0) first = i, first_tolerance = tolerance;
        if (fabs(got - want) > worst) worst = fabs(got - want);
        wrong++;
    }
    if (!wrong) return true;
    {
        char place[128];
        const unsigned char *element = data + (uint64_t)tensor_element(&o->tensor, first) * o->size;
        place_text(&o->tensor, first, place, sizeof place);
        snprintf(why, capacity, "%s[%s] is %.9g, wanted %.9g, tolerance %.3g; %lld of %lld wrong, largest error %.3g",
                 anydnn_role_name(o->role), place, value_load(dtype, element), o->want[first], first_tolerance,
                 (long long)wrong, (long long)o->count, worst);
    }
    return false;
}

/* ---- The run ---- */

static anydnn_status run_once(struct device *d, const anydnn_plan *plan, const struct layout *layout,
                              const struct image *m, uint64_t workspace, unsigned char *after)
{
    anydnn_mem space = anydnn_mem_at(d->arena, m->workspace);
    anydnn_status status;
    space.size = space.offset + workspace;
    status = anydnn_copy_in(d->stream, d->arena, m->before, m->bytes);
    if (status == ANYDNN_OK)
        status = anydnn_plan_run(plan, d->stream, layout->binding, layout->count, workspace ? &space : NULL);
    if (status == ANYDNN_OK) status = anydnn_copy_out(d->stream, after, d->arena, m->bytes);
    return status == ANYDNN_OK ? anydnn_stream_sync(d->stream) : status;
}

static bool repeats(const struct image *m, char *why, size_t capacity)
{
    uint64_t at;
    for (at = 0; at < m->bytes; at++)
        if (m->output[at] == 1 && m->after[at] != m->again[at]) {
            snprintf(why, capacity, "a second run differs at byte %llu of the arena, but the engine claims determinism",
                     (unsigned long long)at);
            return false;
        }
    return true;
}

static bool judge(const struct trial *t, const struct layout *layout, const struct image *m, uint32_t traits, char *why,
                  size_t capacity)
{
    int i;
    if (!unchanged(t, layout, m, why, capacity)) return false;
    for (i = 0; i < t->operands; i++)
        if (t->operand[i].written && !compare(t, &t->operand[i], m->after + layout->start[i], traits, why, capacity))
            return false;
    return !(traits & ANYDNN_TRAIT_DETERMINISTIC) || repeats(m, why, capacity);
}

static bool run_plan(const struct trial *t, struct device *d, enum placement placement, const anydnn_plan *plan,
                     char *why, size_t capacity)
{
    anydnn_plan_info info = { 0 };
    struct image m = { 0 };
    struct layout layout;
    anydnn_status status;
    bool good = false;
    info.struct_size = sizeof info;
    trial_layout(t, placement, anydnn_mem_none(), &layout);
    status = anydnn_plan_get_info(plan, &info);
    if (status == ANYDNN_OK) status = image_make(&m, t, &layout, info.workspace_bytes);
    if (status == ANYDNN_OK) status = need_arena(d, m.bytes);
    if (status == ANYDNN_OK) {
        trial_layout(t, placement, d->arena, &layout);
        status = run_once(d, plan, &layout, &m, info.workspace_bytes, m.after);
    }
    if (status == ANYDNN_OK && info.traits & ANYDNN_TRAIT_DETERMINISTIC)
        status = run_once(d, plan, &layout, &m, info.workspace_bytes, m.again);
    if (status != ANYDNN_OK)
        snprintf(why, capacity, "running it answers %s: %s", anydnn_status_name(status), anydnn_message());
    else
        good = judge(t, &layout, &m, info.traits, why, capacity);
    image_free(&m);
    return good;
}

bool trial_run(const struct trial *t, struct device *d, const anydnn_verdict *engine, enum placement placement,
               char *why, size_t capacity)
{
    anydnn_prefs prefs = t->prefs;
    anydnn_plan *plan = NULL;
    struct layout layout;
    anydnn_status status;
    bool good;
    prefs.engine = engine->engine;
    trial_layout(t, placement, anydnn_mem_none(), &layout);
    status = anydnn_plan_create(d->context, &t->op.head, &prefs, layout.binding, layout.count, &plan);
    if (status != ANYDNN_OK) {
        snprintf(why, capacity, "the engine accepts it, but its plan answers %s: %s", anydnn_status_name(status),
                 anydnn_message());
        return false;
    }
    good = run_plan(t, d, placement, plan, why, capacity);
    anydnn_plan_release(plan);
    return good;
}
