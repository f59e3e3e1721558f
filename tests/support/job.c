/* SPDX-License-Identifier: Apache-2.0
 * tests/support/job.c: see job.h. */
#include "job.h"
#include "bench/values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, UNIT = 256 };

bool test_arguments(int argc, char **argv, const char *flag, const char **device)
{
    bool found = false;
    int i;
    *device = "cpu";
    for (i = 1; i < argc; i++)
        if (strcmp(argv[i], flag) == 0)
            found = true;
        else
            *device = argv[i];
    return found;
}

int session_open(struct session *s, const char *device, const anydnn_open_options *options, uint64_t arena_bytes)
{
    const anydnn_status status = anydnn_open(device, options, &s->context);
    if (status == ANYDNN_UNSUPPORTED) {
        printf("skipped: no %s here: %s\n", device, anydnn_message());
        return SESSION_NO_DEVICE;
    }
    s->info.struct_size = sizeof s->info;
    s->bytes = arena_bytes;
    s->before = malloc(arena_bytes);
    s->after = malloc(arena_bytes);
    if (s->before && s->after && status == ANYDNN_OK && !anydnn_context_info(s->context, &s->info) &&
        !anydnn_stream_create(s->context, ANYDNN_NO_WORKSPACE, &s->stream) &&
        !anydnn_alloc(s->context, arena_bytes, &s->arena))
        return 0;
    printf("cannot open %s: %s\n", device, anydnn_message());
    return 1;
}

void session_close(struct session *s)
{
    anydnn_free(s->context, s->arena);
    anydnn_stream_destroy(s->stream);
    anydnn_close(s->context);
    free(s->before);
    free(s->after);
}

static uint32_t role_flags(int op, int role)
{
    uint32_t flags = 0;
    int i, r;
    for (i = 0; (r = anydnn_op_role(op, i, &flags)) != 0; i++)
        if (r == role) return flags;
    return 0;
}

static void fill(double *data, int64_t count, double value)
{
    int64_t i;
    for (i = 0; i < count; i++) data[i] = value;
}

anydnn_status job_open(struct job *job, const char *line)
{
    const anydnn_binding *rows;
    anydnn_status status;
    int i, count;
    memset(job, 0, sizeof *job);
    status = anydnn_problem_parse(line, &job->problem);
    if (status) return status;
    job->op = anydnn_problem_op(job->problem);
    rows = anydnn_problem_bindings(job->problem, &count);
    for (i = 0; i < count; i++) {
        struct operand *o = &job->operand[job->operands];
        if (!rows[i].tensor) {
            job->scalar[job->scalars++] = rows[i];
            continue;
        }
        o->role = rows[i].role;
        o->flags = role_flags(job->op->op, o->role);
        o->tensor = *rows[i].tensor;
        o->count = anydnn_tensor_count(&o->tensor);
        o->data = malloc(((size_t)o->count + 1) * sizeof *o->data);
        o->got = malloc(((size_t)o->count + 1) * sizeof *o->got);
        job->operands++;
        if (!o->data || !o->got) {
            job_close(job);
            return ANYDNN_OUT_OF_MEMORY;
        }
        fill(o->data, o->count, NAN);
        fill(o->got, o->count, NAN);
    }
    return ANYDNN_OK;
}

void job_close(struct job *job)
{
    int i;
    for (i = 0; i < job->operands; i++) {
        free(job->operand[i].data);
        free(job->operand[i].got);
    }
    anydnn_problem_destroy(job->problem);
    memset(job, 0, sizeof *job);
}

struct operand *job_operand(struct job *job, int role)
{
    int i;
    for (i = 0; i < job->operands; i++)
        if (job->operand[i].role == role) return &job->operand[i];
    return NULL;
}

void job_set(struct job *job, int role, const double *values, int64_t count)
{
    struct operand *o = job_operand(job, role);
    int64_t i;
    for (i = 0; i < o->count; i++) o->data[i] = values[i % count];
}

void job_scalar(struct job *job, int role, double value)
{
    int i;
    for (i = 0; i < job->scalars && job->scalar[i].role != role; i++) continue;
    job->scalar[i] = anydnn_bind_value(role, value);
    if (i == job->scalars) job->scalars++;
}

double job_eighths(uint64_t seed, uint64_t index)
{
    return (double)((int64_t)(random_bits(seed, index) % 17) - 8) / 8;
}

/* Elements that lie at the same place take the content of the last of them. */
static void settle(struct operand *o)
{
    const size_t size = anydnn_dtype_size(o->tensor.dtype);
    double *places = size ? malloc((size_t)anydnn_tensor_bytes(&o->tensor) / size * sizeof *places + 1) : NULL;
    int64_t i;
    for (i = 0; places && i < o->count; i++) places[tensor_element(&o->tensor, i)] = o->data[i];
    for (i = 0; places && i < o->count; i++) o->data[i] = places[tensor_element(&o->tensor, i)];
    free(places);
}

void job_layout(struct operand *o, int layout, int shift)
{
    anydnn_tensor *t = &o->tensor;
    const bool zero = layout == LAYOUT_ZERO && !(o->flags & ANYDNN_ROLE_OUT);
    const int64_t step = layout == LAYOUT_GAPS || layout == LAYOUT_ZERO ? 2 : 1,
                  pad = layout == LAYOUT_ROWS ? 3 : step - 1;
    int64_t stride = step;
    int i;
    o->shift = layout == LAYOUT_OFFSET ? shift : 0;
    *t = anydnn_tensor_packed(t->dtype, t->ndim, t->dims);
    if (layout == LAYOUT_CHANNELS_LAST) *t = anydnn_tensor_channels_last(t->dtype, t->ndim, t->dims);
    if (layout == LAYOUT_PACKED || layout == LAYOUT_OFFSET || layout == LAYOUT_CHANNELS_LAST) return;
    for (i = t->ndim - 1; i >= 0; i--) {
        const int axis = layout == LAYOUT_REVERSED ? t->ndim - 1 - i : i;
        t->strides[axis] = stride;
        if (t->dims[axis] > 1) stride *= t->dims[axis];
        stride += pad;
    }
    if (zero && t->ndim > 1) {
        t->strides[1] = 0;
        settle(o);
    }
}

static bool is_packed(const anydnn_tensor *t)
{
    int64_t stride = 1;
    int i;
    for (i = t->ndim - 1; i >= 0; stride *= t->dims[i], i--)
        if (t->dims[i] > 1 && t->strides[i] != stride) return false;
    return true;
}

/* Calls for every element: to memory with `load` false, else from it; NaN is written as the poison itself. */
static void move(const struct operand *o, unsigned char *memory, double *dense, bool load)
{
    const size_t size = anydnn_dtype_size(o->tensor.dtype);
    const bool packed = is_packed(&o->tensor);
    int64_t i;
    for (i = 0; i < o->count; i++) {
        unsigned char *element = memory + (uint64_t)(packed ? i : tensor_element(&o->tensor, i)) * size;
        if (load)
            dense[i] = value_load(o->tensor.dtype, element);
        else if (isnan(dense[i]))
            memset(element, 0xff, size);
        else
            value_store(o->tensor.dtype, element, dense[i]);
    }
}

/* Places the tensors; result: bytes used, 0 where they exceed the arena. */
static uint64_t place(const struct session *s, struct job *job)
{
    uint64_t at = GUARD;
    int i;
    for (i = 0; i < job->operands; i++) {
        struct operand *o = &job->operand[i];
        o->tensor.alignment = job->promised;
        o->start = at + (uint64_t)o->shift * anydnn_dtype_size(o->tensor.dtype);
        at = (o->start + (uint64_t)anydnn_tensor_bytes(&o->tensor) + GUARD + UNIT - 1) / UNIT * UNIT;
    }
    return at > s->bytes ? 0 : at;
}

static int bindings(const struct session *s, struct job *job, anydnn_binding rows[2 * JOB_OPERANDS])
{
    int i, count = 0;
    for (i = 0; i < job->operands; i++) {
        struct operand *o = &job->operand[i];
        anydnn_mem mem = anydnn_mem_at(s->arena, o->start);
        mem.size = mem.offset + (uint64_t)anydnn_tensor_bytes(&o->tensor);
        rows[count++] = anydnn_bind(o->role, &o->tensor, mem);
    }
    for (i = 0; i < job->scalars; i++) rows[count++] = job->scalar[i];
    return count;
}

int job_engines(const struct session *s, struct job *job, bool all, char names[JOB_ENGINES][64])
{
    static anydnn_verdict verdicts[JOB_ENGINES];
    anydnn_binding rows[2 * JOB_OPERANDS];
    const int bound = place(s, job) ? bindings(s, job, rows) : 0;
    int i, k, count = 0, found = 0;
    if (anydnn_candidates(s->context, job->op, NULL, rows, bound, verdicts, JOB_ENGINES, &found)) return 0;
    for (i = 0; i < found && i < JOB_ENGINES; i++) {
        const size_t length = strcspn(verdicts[i].engine, ":");
        for (k = 0; !all && k < count &&
                    (strncmp(names[k], verdicts[i].engine, length) != 0 || strcspn(names[k], ":") != length);
             k++)
            continue;
        if (all || k == count) memcpy(names[count++], verdicts[i].engine, 64);
    }
    return count;
}

/* Reads the outputs, puts their old bytes back over them and compares the whole: gaps, guards and inputs. */
static anydnn_status read_back(struct session *s, struct job *job, const char *engine, uint64_t used)
{
    uint64_t at = 0;
    int i;
    for (i = 0; i < job->operands; i++) {
        struct operand *o = &job->operand[i];
        if (!(o->flags & ANYDNN_ROLE_OUT)) continue;
        move(o, s->after + o->start, o->got, true);
        move(o, s->after + o->start, o->data, false);
    }
    if (!memcmp(s->before, s->after, used)) return ANYDNN_OK;
    while (s->before[at] == s->after[at]) at++;
    printf("%s changed byte %llu of the arena, which belongs to no output; tensors begin at",
           engine ? engine : "a plan", (unsigned long long)at);
    for (i = 0; i < job->operands; i++)
        printf(" %s %llu", anydnn_role_name(job->operand[i].role), (unsigned long long)job->operand[i].start);
    printf("\n");
    return ANYDNN_INTERNAL;
}

/* Runs through a plan of its own, whose workspace lies behind the tensors. */
static anydnn_status run_plan(struct session *s, const struct job *job, const anydnn_prefs *prefs,
                              const anydnn_binding *rows, int count, uint64_t used)
{
    anydnn_mem workspace = anydnn_mem_at(s->arena, used);
    anydnn_plan_info info;
    anydnn_plan *plan = NULL;
    anydnn_status status = anydnn_plan_create(s->context, job->op, prefs, rows, count, &plan);
    if (status) return status;
    info.struct_size = sizeof info;
    status = anydnn_plan_get_info(plan, &info);
    if (used + info.workspace_bytes > s->bytes) status = ANYDNN_OUT_OF_MEMORY;
    workspace.size = workspace.offset + info.workspace_bytes;
    if (!status && info.workspace_bytes) status = anydnn_set(s->stream, workspace, 0xff, info.workspace_bytes);
    if (!status) status = anydnn_plan_run(plan, s->stream, rows, count, info.workspace_bytes ? &workspace : NULL);
    anydnn_plan_release(plan);
    return status;
}

anydnn_status job_run(struct session *s, struct job *job, const anydnn_prefs *prefs, const char *engine)
{
    anydnn_prefs wishes = ANYDNN_PREFS_INIT;
    anydnn_binding rows[2 * JOB_OPERANDS];
    const uint64_t used = place(s, job);
    const int count = bindings(s, job, rows);
    anydnn_status status;
    int i;
    if (!used) return ANYDNN_OUT_OF_MEMORY;
    if (prefs) wishes = *prefs;
    if (engine) wishes.engine = engine;
    memset(s->before, 0xff, used);
    for (i = 0; i < job->operands; i++)
        move(&job->operand[i], s->before + job->operand[i].start, job->operand[i].data, false);
    status = anydnn_copy_in(s->stream, s->arena, s->before, used);
    if (!status)
        status = job->one_shot ? anydnn_run(s->stream, job->op, &wishes, rows, count)
                               : run_plan(s, job, &wishes, rows, count, used);
    if (!status) status = anydnn_copy_out(s->stream, s->after, s->arena, used);
    if (!status) status = anydnn_stream_sync(s->stream);
    return status ? status : read_back(s, job, engine, used);
}
