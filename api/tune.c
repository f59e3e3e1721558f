/* SPDX-License-Identifier: Apache-2.0
 * api/tune.c: anydnn_find, and files of measurements.
 *
 * What find runs reads the caller's memory and writes scratch copies of the outputs: a tensor that an output takes the
 * place of moves with it. Outputs that are not read begin as NaN, so that an engine which skips elements is seen. */
#include "common/agree.h"
#include "common/os.h"
#include "common/select.h"
#include "common/tune.h"
#include "internal.h"

#include <anydnn/tune.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 25, MAX_CALLS = 64, MAX_TRIES = 1000, POISON = 0xff, ALIGNMENT = 4096 };

static const double default_budget = 200e6, sample_ns = 100e3;

struct output {
    int slot;
    uint64_t bytes;     /* of its span, 0 = empty */
    bool read;          /* its content counts before a run */
    anydnn_mem bound;   /* the caller's */
    anydnn_mem memory;  /* as allocated */
    anydnn_mem scratch; /* the tensor's place in it */
    void *want, *got;   /* what the plainest engine and another one wrote */
};

struct measured {
    const struct adn_answer *answer;
    double ns;
};

struct find {
    anydnn_context *context;
    anydnn_stream *stream;
    struct adn_problem p;
    anydnn_binding binding[ADN_MAX_ROLES];
    int count, outputs, answers, rows;
    struct output output[ADN_MAX_ROLES];
    anydnn_event *start, *end;
    double budget, spent; /* nanoseconds of running */
    double best, first;   /* least median, and least first run */
    bool has_want;
    struct adn_answer answer[ADN_MAX_CANDIDATES];
    struct measured row[ADN_MAX_CANDIDATES];
};

/* ---- memory ---- */

static anydnn_status make_scratch(struct find *f, struct output *out)
{
    const struct adn_operand *o = &f->p.operand[out->slot];
    const uint32_t flags = f->p.def->roles[out->slot].flags;
    out->bytes = (uint64_t)anydnn_tensor_bytes(&o->t);
    out->read = (flags & ANYDNN_ROLE_IN) || o->alias >= 0 ||
                ((flags & ANYDNN_ROLE_SCALED) && f->p.beta_class != ADN_CLASS_ZERO) || (flags & ANYDNN_ROLE_PARAM_SCALED);
    if (out->bytes == 0) return ANYDNN_OK;
    ADN_TRY(adn_check_memory(f->context, &out->bound, out->bytes, anydnn_role_name(f->p.def->roles[out->slot].role)));
    ADN_TRY(anydnn_alloc(f->context, out->bytes + ALIGNMENT, &out->memory));
    out->scratch = anydnn_mem_at(out->memory, (adn_address_bits(&out->bound) - adn_address_bits(&out->memory)) % ALIGNMENT);
    out->want = malloc(out->bytes);
    out->got = malloc(out->bytes);
    return out->want && out->got ? ANYDNN_OK : adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory to compare results in");
}

/* Finds the outputs among the bindings, and lets them and what shares their place point to scratch. */
static anydnn_status take_bindings(struct find *f, const anydnn_binding *bindings, int count)
{
    int i, j;
    f->count = count;
    for (i = 0; i < count; i++) {
        const int slot = adn_slot(&f->p, bindings[i].role);
        f->binding[i] = bindings[i];
        if (!(f->p.def->roles[slot].flags & ANYDNN_ROLE_OUT)) continue;
        f->output[f->outputs].slot = slot;
        f->output[f->outputs].bound = bindings[i].mem;
        ADN_TRY(make_scratch(f, &f->output[f->outputs++]));
    }
    for (i = 0; i < count; i++) {
        const int slot = adn_slot(&f->p, bindings[i].role);
        for (j = 0; j < f->outputs; j++)
            if (f->output[j].bytes && (f->output[j].slot == slot || f->p.operand[f->output[j].slot].alias == slot))
                f->binding[i].mem = f->output[j].scratch;
    }
    return ANYDNN_OK;
}

static anydnn_status reset_outputs(struct find *f)
{
    int i;
    for (i = 0; i < f->outputs; i++) {
        const struct output *out = &f->output[i];
        if (out->bytes == 0) continue;
        if (out->read) ADN_TRY(anydnn_copy(f->stream, out->scratch, out->bound, out->bytes));
        else ADN_TRY(anydnn_set(f->stream, out->scratch, POISON, out->bytes));
    }
    return ANYDNN_OK;
}

static void give_back(struct find *f)
{
    int i;
    anydnn_stream_sync(f->stream); /* after a failure something may still run */
    for (i = 0; i < f->outputs; i++) {
        anydnn_free(f->context, f->output[i].memory);
        free(f->output[i].want);
        free(f->output[i].got);
    }
    anydnn_event_destroy(f->start);
    anydnn_event_destroy(f->end);
}

/* ---- measuring ---- */

static anydnn_status make_plan(struct find *f, const struct adn_answer *answer, anydnn_plan **plan)
{
    struct adn_problem pinned = f->p;
    memcpy(pinned.engine, answer->id, sizeof pinned.engine);
    return adn_plan_make(f->context, &pinned, true, plan);
}

/* Time of one of `calls` runs. */
static anydnn_status time_calls(struct find *f, const anydnn_plan *plan, int calls, double *ns)
{
    const int64_t began = adn_time_ns();
    int i;
    ADN_TRY(anydnn_event_record(f->start, f->stream));
    for (i = 0; i < calls; i++) ADN_TRY(anydnn_plan_run(plan, f->stream, f->binding, f->count, NULL));
    ADN_TRY(anydnn_event_record(f->end, f->stream));
    ADN_TRY(anydnn_event_elapsed(f->start, f->end, ns));
    *ns /= calls;
    f->spent += (double)(adn_time_ns() - began);
    return ANYDNN_OK;
}

static double median(double *sample, int count)
{
    int i, j;
    for (i = 1; i < count; i++) {
        const double value = sample[i];
        for (j = i; j > 0 && sample[j - 1] > value; j--) sample[j] = sample[j - 1];
        sample[j] = value;
    }
    return count % 2 ? sample[count / 2] : (sample[count / 2 - 1] + sample[count / 2]) / 2;
}

/* Warm-up, first run, and samples of several calls until `limit` has been spent. The first run is compared with the
 * best first run: it carries what one launch costs. */
static anydnn_status time_plan(struct find *f, const anydnn_plan *plan, double limit, double *ns)
{
    double sample[MAX_SAMPLES], first;
    int count = 0, calls;
    ADN_TRY(time_calls(f, plan, 1, ns));
    if (f->first > 0 && *ns > 10 * f->first && *ns > 100 * sample_ns) return ANYDNN_OK; /* no warming makes up for that */
    ADN_TRY(time_calls(f, plan, 1, &first));
    *ns = first;
    if (f->first > 0 && first > 2 * f->first) return ANYDNN_OK;
    if (f->first <= 0 || first < f->first) f->first = first;
    calls = first * MAX_CALLS < sample_ns ? MAX_CALLS : first < sample_ns ? (int)(sample_ns / first) : 1;
    while (count < MAX_SAMPLES && f->spent < limit) ADN_TRY(time_calls(f, plan, calls, &sample[count++]));
    if (count > 0) *ns = median(sample, count);
    return ANYDNN_OK;
}

/* Adds a row. A kernel that the device's compiler refuses is no failure. */
static anydnn_status measure(struct find *f, const struct adn_answer *answer, double limit)
{
    anydnn_plan *plan;
    double ns = 0;
    anydnn_status status = make_plan(f, answer, &plan);
    if (status == ANYDNN_UNSUPPORTED) {
        adn_log(f->context, ANYDNN_LOG_INFO, "find: %s left out: %s", answer->id, anydnn_message());
        return ANYDNN_OK;
    }
    if (status != ANYDNN_OK) return status;
    status = time_plan(f, plan, limit, &ns);
    if (status != ANYDNN_OK) anydnn_stream_sync(f->stream); /* nothing of the plan may run when it goes */
    anydnn_plan_release(plan);
    ADN_TRY(status);
    f->row[f->rows].answer = answer;
    f->row[f->rows++].ns = ns;
    return ANYDNN_OK;
}

static bool takes_part(const struct find *f, const struct adn_answer *answer)
{
    return answer->accepted && (f->p.engine[0] || !(answer->engine->traits & ANYDNN_TRAIT_SLOW_START));
}

/* Whether a run should fit into what is left of the budget: by its estimate, corrected by how far off that of the first
 * candidate was. */
static bool is_affordable(const struct find *f, const struct adn_answer *answer)
{
    const double estimate = f->rows > 0 ? f->row[0].answer->cost_ns : 0;
    return estimate <= 0 || answer->cost_ns / estimate * f->row[0].ns <= f->budget - f->spent;
}

static anydnn_status measure_all(struct find *f)
{
    int i, left = 0;
    for (i = 0; i < f->answers; i++) left += takes_part(f, &f->answer[i]);
    for (i = 0; i < f->answers && (f->rows == 0 || f->spent < f->budget); i++) {
        if (!takes_part(f, &f->answer[i])) continue;
        if (is_affordable(f, &f->answer[i]))
            ADN_TRY(measure(f, &f->answer[i], f->spent + (f->budget - f->spent) / left));
        left--;
    }
    return ANYDNN_OK;
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const struct measured *)a)->ns, y = ((const struct measured *)b)->ns;
    return (x > y) - (x < y);
}

/* ---- checking ---- */

/* The GENERIC engine that comes last among those of the device: best ones come first, so it is the plainest. */
static const struct adn_answer *plainest(const struct find *f)
{
    const struct adn_answer *found = NULL;
    const struct adn_engine *engine;
    int index, i;
    for (index = 0; (engine = adn_engine_at(f->context->backend, f->p.def->op, index)) != NULL; index++)
        for (i = 0; i < f->answers; i++)
            if (f->answer[i].engine == engine && f->answer[i].own_choice && f->answer[i].accepted &&
                (engine->traits & ANYDNN_TRAIT_GENERIC))
                found = &f->answer[i];
    return found;
}

static anydnn_status produce(struct find *f, const struct adn_answer *answer, bool want)
{
    anydnn_plan *plan;
    anydnn_status status;
    int i;
    ADN_TRY(make_plan(f, answer, &plan));
    status = reset_outputs(f);
    if (status == ANYDNN_OK) status = anydnn_plan_run(plan, f->stream, f->binding, f->count, NULL);
    for (i = 0; i < f->outputs && status == ANYDNN_OK; i++)
        status = anydnn_copy_out(f->stream, want ? f->output[i].want : f->output[i].got, f->output[i].scratch,
                                 f->output[i].bytes);
    if (status == ANYDNN_OK) status = anydnn_stream_sync(f->stream);
    else anydnn_stream_sync(f->stream);
    anydnn_plan_release(plan);
    return status;
}

static bool outputs_agree(const struct find *f, const struct adn_answer *answer, const struct adn_answer *reference)
{
    const int op = f->p.def->op;
    const bool converts = op == ANYDNN_OP_COPY || op == ANYDNN_OP_SCALE; /* ties may fall either way */
    struct adn_closeness close = { 1, 0, converts };
    double flops = 0, want, got;
    int64_t element;
    int i;
    f->p.def->cost(&f->p, &flops, &close.depth);
    if (answer->engine->traits & ANYDNN_TRAIT_REDUCED_MATH) close.reduced = ldexp(1, f->p.math == ANYDNN_MATH_TF32 ? -10 : -8);
    for (i = 0; i < f->outputs; i++) {
        const struct output *out = &f->output[i];
        if (adn_agrees(&f->p.operand[out->slot].t, out->want, out->got, &close, &element, &want, &got)) continue;
        adn_log(f->context, ANYDNN_LOG_WARNING, "find: %s is dropped: element %lld of %s is %.9g, but %.9g by %s", answer->id,
                (long long)element, anydnn_role_name(f->p.def->roles[out->slot].role), got, want, reference->id);
        return false;
    }
    return true;
}

/* Says whether the first row may win; takes it out if not. */
static anydnn_status check_first(struct find *f, const struct adn_answer *reference, bool *good)
{
    const struct adn_answer *first = f->row[0].answer;
    *good = first == reference;
    if (*good) return ANYDNN_OK;
    if (!f->has_want) ADN_TRY(produce(f, reference, true));
    f->has_want = true;
    ADN_TRY(produce(f, first, false));
    *good = outputs_agree(f, first, reference);
    if (!*good) memmove(f->row, f->row + 1, (size_t)--f->rows * sizeof *f->row);
    return ANYDNN_OK;
}

/* Sorts, and drops what is wrong until the first row is right. If all were dropped the reference itself is measured. */
static anydnn_status elect(struct find *f, bool *checked)
{
    const struct adn_answer *reference = plainest(f);
    *checked = reference != NULL;
    qsort(f->row, (size_t)f->rows, sizeof *f->row, by_time);
    if (!reference) {
        adn_log(f->context, ANYDNN_LOG_WARNING, "find: nothing to compare with: no generic engine takes the problem");
        return ANYDNN_OK;
    }
    for (bool good = false; f->rows > 0 && !good;) ADN_TRY(check_first(f, reference, &good));
    return f->rows > 0 || f->p.engine[0] ? ANYDNN_OK : measure(f, reference, f->spent);
}

static void remember(const struct find *f)
{
    const struct measured *best = &f->row[0];
    char key[ADN_TUNING_KEY];
    struct adn_tuned tuned;
    memset(&tuned, 0, sizeof tuned);
    memcpy(tuned.engine, best->answer->id, sizeof tuned.engine);
    tuned.revision = best->answer->engine->revision;
    tuned.ns = best->ns < 1 ? 1 : (uint64_t)best->ns;
    if (!adn_tuning_key(f->context, &f->p, key, sizeof key) || !adn_tuning_put(f->context->tuning, key, &tuned)) {
        adn_log(f->context, ANYDNN_LOG_WARNING, "find: the tuning store is full; %s is not remembered", tuned.engine);
        return;
    }
    adn_cache_clear(f->context->cache);
    adn_log(f->context, ANYDNN_LOG_INFO, "find: %s, %.2f us, best of %d: %s", tuned.engine, best->ns / 1e3, f->rows, key);
}

static anydnn_status find(struct find *f, const anydnn_binding *bindings, int count)
{
    bool checked = false;
    ADN_TRY(take_bindings(f, bindings, count));
    ADN_TRY(anydnn_event_create(f->context, &f->start));
    ADN_TRY(anydnn_event_create(f->context, &f->end));
    f->answers = adn_ask_engines(f->context, &f->p, true, f->answer);
    ADN_TRY(reset_outputs(f));
    ADN_TRY(measure_all(f));
    if (f->rows > 0) ADN_TRY(elect(f, &checked));
    if (f->rows == 0) { /* the reasons are those of a plan */
        anydnn_plan *plan;
        ADN_TRY(adn_plan_make(f->context, &f->p, true, &plan));
        anydnn_plan_release(plan);
        return adn_fail(ANYDNN_UNSUPPORTED, "no engine of %s could be measured", f->p.def->name);
    }
    if (checked && !f->p.engine[0]) remember(f);
    return ANYDNN_OK;
}

static anydnn_status begin(struct find *f, anydnn_stream *stream, const anydnn_op *op, const anydnn_prefs *prefs,
                           const anydnn_binding *bindings, int count)
{
    f->stream = stream;
    f->context = stream->context;
    ADN_TRY(adn_problem_init(&f->p, op, prefs, bindings, count, false));
    adn_problem_settle(&f->p, &f->context->options);
    adn_promise_alignment(&f->p, bindings, count);
    if (f->p.workspace_limit > stream->workspace.size) f->p.workspace_limit = stream->workspace.size;
    return find(f, bindings, count);
}

anydnn_status anydnn_find(anydnn_stream *stream, const anydnn_op *op, const anydnn_prefs *prefs,
                          const anydnn_binding *bindings, int count, double budget_ns, anydnn_verdict *rows, int capacity,
                          int *rows_count)
{
    struct find *f;
    anydnn_status status;
    int i;
    ADN_NOT_NULL(stream);
    ADN_NOT_NULL(rows_count);
    ADN_TRY(adn_check_process(stream->context));
    if (capacity < 0 || (capacity > 0 && !rows))
        return adn_fail(ANYDNN_INVALID, "rows: %d rows at %p; accepted: 0 or more rows, not NULL", capacity, (void *)rows);
    if (!(budget_ns >= 0)) return adn_fail(ANYDNN_INVALID, "budget_ns is %g; accepted: 0 or more", budget_ns);
    f = calloc(1, sizeof *f);
    if (!f) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory to measure");
    f->budget = budget_ns > 0 ? budget_ns : default_budget;
    status = begin(f, stream, op, prefs, bindings, count);
    for (i = 0; status == ANYDNN_OK && i < f->rows && i < capacity; i++) {
        adn_give_verdict(f->row[i].answer, &rows[i]);
        rows[i].estimated_ns = f->row[i].ns;
    }
    if (status == ANYDNN_OK) *rows_count = f->rows;
    give_back(f);
    free(f);
    return status;
}

/* ---- files ---- */

static const char readable[] = "a file of up to 64 MiB";

static void load(anydnn_context *context, const void *bytes, size_t size, const char *path)
{
    const size_t ignored = adn_tuning_add(context, bytes, size);
    adn_log(context, ignored ? ANYDNN_LOG_WARNING : ANYDNN_LOG_INFO,
            "tuning: %d entries for this device after %s; %zu lines ignored: malformed, or of an engine that changed",
            adn_tuning_count(context->tuning), path, ignored);
    adn_cache_clear(context->cache);
}

void adn_tuning_open(anydnn_context *context)
{
    const char *path = adn_tuning_path();
    size_t size;
    void *bytes = path[0] ? adn_file_read(path, ADN_TUNING_FILE, &size) : NULL;
    const char *why;
    if (bytes) load(context, bytes, size, path);
    else if (path[0] && adn_file_problem(&why) != ADN_FILE_MISSING)
        adn_log(context, ANYDNN_LOG_WARNING, "tuning: %s cannot be read: %s", path, why);
    free(bytes);
}

static anydnn_status cannot(const char *verb, const char *path, const char *accepted)
{
    const char *why;
    if (adn_file_problem(&why) == ADN_FILE_NO_MEMORY)
        return adn_fail(ANYDNN_OUT_OF_MEMORY, "path '%s' cannot be %s: %s", path, verb, why);
    return adn_fail(ANYDNN_INVALID, "path '%s' cannot be %s: %s; accepted: %s", path, verb, why, accepted);
}

anydnn_status anydnn_tuning_load(anydnn_context *context, const char *path)
{
    size_t size;
    void *bytes;
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(path);
    ADN_TRY(adn_check_process(context));
    bytes = adn_file_read(path, ADN_TUNING_FILE, &size);
    if (!bytes) return cannot("read", path, readable);
    load(context, bytes, size, path);
    free(bytes);
    return ANYDNN_OK;
}

struct content {
    void *bytes; /* malloc'ed; NULL = no file */
    size_t size;
};

static struct adn_tuning_text text_of(const struct content *content)
{
    const struct adn_tuning_text text = { content->bytes ? content->bytes : "", content->bytes ? content->size : 0 };
    return text;
}

static bool same_content(const struct content *a, const struct content *b)
{
    if (!a->bytes || !b->bytes) return !a->bytes && !b->bytes;
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Merges into what the file holds. What it held instead at the last moment becomes *late; none: all is done. */
static anydnn_status save_once(const anydnn_context *context, const char *path, struct content *late)
{
    struct content now = { NULL, 0 }, old = { NULL, 0 }, merged = { NULL, 0 };
    anydnn_status status = ANYDNN_OK;
    now.bytes = adn_file_read(path, ADN_TUNING_FILE, &now.size);
    /* What cannot be read cannot be merged, and must not be lost. */
    if (!now.bytes && adn_file_problem(NULL) != ADN_FILE_MISSING) return cannot("read", path, readable);
    merged.bytes = adn_tuning_merge(context, text_of(&now), text_of(late), &merged.size);
    if (!merged.bytes)
        status = adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory to merge tuning files");
    else if (late->bytes && same_content(&merged, &now))
        status = ANYDNN_OK; /* whoever came between has merged everything in */
    else if (!adn_file_swap(path, merged.bytes, merged.size, ADN_TUNING_FILE, &old.bytes, &old.size))
        status = cannot("written", path, "a file in a folder that exists and has room");
    free(late->bytes);
    late->bytes = NULL;
    if (old.bytes && !same_content(&old, &now)) *late = old, old.bytes = NULL;
    free(now.bytes);
    free(old.bytes);
    free(merged.bytes);
    return status;
}

anydnn_status anydnn_tuning_save(anydnn_context *context, const char *path)
{
    struct content late = { NULL, 0 };
    anydnn_status status;
    int tries = 0;
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(path);
    ADN_TRY(adn_check_process(context));
    /* Whoever displaces a content that it has not merged answers for it: nothing of programs that save at once is lost. */
    do status = save_once(context, path, &late);
    while (status == ANYDNN_OK && late.bytes && ++tries < MAX_TRIES);
    free(late.bytes);
    return status;
}
