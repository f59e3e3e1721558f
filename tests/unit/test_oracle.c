/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_oracle.c: the oracle.
 *   compare      on buffers, with one element changed by more or less than a rounding
 *   end to end   a backend whose relu writes one element wrong: status, log line, message; without the option nothing
 *   environment  the same by ANYDNN_ORACLE=1, in a program of its own: the environment is read once
 *   planted      every operation on a backend that gets one element of one output wrong: one line is reported, which
 *                says the same problem and, given back, fails again
 *   device       every operation on the first OpenCL device, which must pass */
#include "api/oracle.h"
#include "backends/cpu/engines.h"
#include "common/select.h"
#include "common/text.h"
#include "unit.h"

#include <stdlib.h>

/* ---- a backend that is wrong ---- */

enum { COUNT = 24, WRONG = 17 };

static anydnn_status run_wrong(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const struct adn_place *y = &arguments->place[adn_slot(&plan->problem, ANYDNN_Y)];
    const anydnn_status status = adn_activation_ref.run(plan, stream, arguments);
    ((float *)((char *)y->base + y->offset))[WRONG] += 0.001f;
    return status;
}

static struct adn_engine wrong_engine;
static const struct adn_engine *const wrong_engines[] = { &wrong_engine, &adn_copy_ref, NULL };
static struct adn_backend wrong_backend;

static struct adn_device wrong_device(void)
{
    struct adn_device device;
    int count;
    device = adn_devices(&count)[0];
    wrong_engine = adn_activation_ref;
    wrong_engine.name = "relu_wrong";
    wrong_engine.run = run_wrong;
    wrong_backend = adn_cpu_backend;
    wrong_backend.engines = wrong_engines;
    device.backend = &wrong_backend;
    return device;
}

static char logged[2048];
static int log_calls;

static void take_log(void *user, anydnn_log_level level, const char *text)
{
    CHECK(user == &log_calls && level == ANYDNN_LOG_ERROR);
    snprintf(logged, sizeof logged, "%s", text);
    log_calls++;
}

/* y = relu(x) in place or not, by the wrong backend; the status. */
static anydnn_status run_relu(const anydnn_open_options *options, bool in_place)
{
    const struct adn_device device = wrong_device();
    const anydnn_activation op = anydnn_activation_init();
    const anydnn_tensor t = anydnn_tensor_2d(ANYDNN_F32, 2, COUNT / 2);
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL;
    anydnn_binding rows[2];
    float x[COUNT], y[COUNT];
    anydnn_status status = adn_context_create(&device, NULL, options, &context);
    int i;
    if (status == ANYDNN_OK) status = anydnn_stream_create(context, ANYDNN_NO_WORKSPACE, &stream);
    for (i = 0; i < COUNT; i++) x[i] = (float)(i % 5) - 2, y[i] = 0;
    rows[0] = anydnn_bind(ANYDNN_X, &t, anydnn_host_mem(x, sizeof x));
    rows[1] = anydnn_bind(ANYDNN_Y, &t, anydnn_host_mem(in_place ? x : y, sizeof x));
    if (status == ANYDNN_OK) status = anydnn_run(stream, (const anydnn_op *)&op, NULL, rows, 2);
    for (i = 0; i < COUNT && status == ANYDNN_INTERNAL; i++) /* the outputs are the device's */
        CHECK((in_place ? x : y)[i] == (i % 5 > 2 ? (float)(i % 5) - 2 : 0.0f) + (i == WRONG ? 0.001f : 0.0f));
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return status;
}

static void end_to_end(void)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    struct adn_problem p;
    int in_place;
    CHECK(run_relu(&options, false) == ANYDNN_OK);
    options.oracle = 1;
    CHECK(run_relu(&options, false) == ANYDNN_INTERNAL); /* no log: the message alone */
    CHECK(strstr(anydnn_message(), "got") != NULL);
    options.log = take_log;
    options.log_user = &log_calls;
    options.log_level = ANYDNN_LOG_ERROR;
    for (in_place = 0; in_place < 2; in_place++) {
        log_calls = 0;
        CHECK(run_relu(&options, in_place) == ANYDNN_INTERNAL);
        CHECK(log_calls == 1 && strcmp(logged, anydnn_message()) == 0);
        CHECK_CASE(strstr(logged, "activation_forward x=2x12/f32") == logged, logged);
        CHECK_CASE(strstr(logged, "# device cpu engine relu_wrong element y[1,5] got 0.001") != NULL, logged);
        CHECK_CASE(adn_text_parse(logged, &p) == ANYDNN_OK &&
                       (p.operand[adn_slot(&p, ANYDNN_Y)].alias >= 0) == in_place,
                   logged);
    }
}

/* ---- compare ---- */

enum { MAX_ELEMENTS = 4096 };
static double space[4][ADN_MAX_ROLES][MAX_ELEMENTS]; /* before, got, want, size */

/* The value of an element: small numbers; classes and windows for integers. */
static double sample(int dtype, int64_t i)
{
    return dtype >= ANYDNN_I8 ? (double)(i % 3) : 0.25 + (double)(i * 37 % 64) / 64;
}

static int64_t elements_of(const anydnn_tensor *t)
{
    return anydnn_tensor_bytes(t) / (int64_t)anydnn_dtype_size(t->dtype);
}

/* A call in which the device gives exactly 1 where the reference and the magnitudes say 1. */
static void make_call(struct adn_oracle *o, const char *line)
{
    int slot, k;
    int64_t i;
    memset(o, 0, sizeof *o);
    CHECK_CASE(adn_text_parse(line, &o->problem) == ANYDNN_OK, line);
    o->problem.math = ANYDNN_MATH_STRICT;
    for (slot = 0; slot < o->problem.slots; slot++) o->scalar[slot] = o->problem.operand[slot].value;
    adn_oracle_widen(o);
    for (slot = 0; slot < o->problem.slots; slot++) {
        const int narrow = o->problem.operand[slot].t.dtype, wide = o->wide.operand[slot].t.dtype;
        if (!o->problem.operand[slot].present || !narrow) continue;
        for (i = 0; i < elements_of(&o->problem.operand[slot].t); i++)
            for (k = 0; k < 4; k++) adn_store(space[k][slot], k < 2 ? narrow : wide, i, k == 0 ? sample(narrow, i) : 1);
        o->before[slot] = (const unsigned char *)space[0][slot];
        o->got[slot] = (const unsigned char *)space[1][slot];
        o->want[slot] = (const unsigned char *)space[2][slot];
        o->size[slot] = (const unsigned char *)space[3][slot];
    }
}

/* Element `at` of role `out`, where an element of the input `wild` (0 = none) is NaN: is `got` taken for `want`? */
static bool takes_beside(const char *line, int wild, int out, int64_t at, double got, double want)
{
    struct adn_oracle o;
    int slot;
    make_call(&o, line);
    slot = wild ? adn_slot(&o.problem, wild) : -1;
    if (wild) adn_store(space[0][slot], o.problem.operand[slot].t.dtype, 1, NAN);
    slot = adn_slot(&o.problem, out);
    adn_store(space[1][slot], o.problem.operand[slot].t.dtype, at, got);
    adn_store(space[2][slot], o.wide.operand[slot].t.dtype, at, want);
    return adn_oracle_compare(&o, "test", "none") == ANYDNN_OK;
}

static bool takes(const char *line, int64_t at, double got, double want)
{
    return takes_beside(line, 0, ANYDNN_Y, at, got, want);
}

/* Products of padding with NaN may be skipped or computed; of what is no factor of padding they are always there. */
static void padding(void)
{
    static const char forward[] = "conv_forward x=1x4x6x6/f32 w=3x4x3x3/f32 pad=1,1";
    static const char data[] = "conv_backward_data dy=1x3x6x6/f32 w=3x4x3x3/f32 pad=1,1";
    static const char filter[] = "conv_backward_filter x=1x4x6x6/f32 dy=1x3x6x6/f32 dw=3x4x3x3/f32 pad=1,1";
    CHECK(takes_beside(forward, ANYDNN_W, ANYDNN_Y, 2, NAN, 1) && !takes_beside(forward, ANYDNN_X, ANYDNN_Y, 2, NAN, 1));
    CHECK(takes_beside(data, ANYDNN_W, ANYDNN_DX, 2, NAN, 1) && !takes_beside(data, ANYDNN_DY, ANYDNN_DX, 2, NAN, 1));
    CHECK(takes_beside(filter, ANYDNN_DY, ANYDNN_DW, 2, NAN, 1) && !takes_beside(filter, ANYDNN_X, ANYDNN_DW, 2, NAN, 1));
    CHECK(!takes_beside(filter, ANYDNN_DY, ANYDNN_DW, 2, 2, 1)); /* numbers count as ever */
}

static void compare(void)
{
    static const char conv[] = "conv_forward x=1x4x6x6/f32 w=3x4x3x3/f32";
    static const char half[] = "matmul a=8x8/f16 b=8x8/f16", brain[] = "matmul a=8x8/bf16 b=8x8/bf16";
    static const char strided[] = "activation_forward x=4x5:s8,1/f32 y=4x5:s8,1/f32",
                      drop[] = "dropout_forward x=33/f32";
    static const char relu[] = "activation_forward x=40/f32", integers[] = "copy x=9/f32 y=9/i8 alpha=0.5";
    CHECK(takes(conv, 11, 1, 1) && takes(conv, 11, 1 + 1e-6, 1) && !takes(conv, 11, 1 + 1e-5, 1));
    CHECK(strstr(anydnn_message(), "element y[0,0,2,3] got 1.00001001 want 1 tolerance ") != NULL);
    CHECK(!takes(conv, 0, 0, 1) && !takes(conv, 47, 0, 1)); /* the first and the last */
    CHECK(takes(half, 5, 1 + 0x1p-11, 1) && takes(half, 5, 1, 1 + 0x1p-12) && !takes(half, 5, 1 + 0x1p-9, 1));
    CHECK(takes(brain, 5, 1, 1 + 0x1p-9) && !takes(brain, 5, 1 + 0x1p-6, 1));
    CHECK(takes(relu, 7, 1 + 0x1p-23, 1) && !takes(relu, 7, 1 + 0x1p-20, 1));
    CHECK(takes(drop, 32, 1, 1) && !takes(drop, 32, 1 + 0x1p-23, 1));
    CHECK(takes(strided, 6, 7, 1) && !takes(strided, 9, 7, 1)); /* a gap, an element */
    CHECK(takes(integers, 3, 2, 1) && !takes(integers, 3, 3, 1));
    CHECK(takes(conv, 2, NAN, NAN) && !takes(conv, 2, NAN, 1) && !takes(conv, 2, 1, NAN));
    CHECK(takes(conv, 2, INFINITY, INFINITY) && !takes(conv, 2, -INFINITY, INFINITY) && !takes(conv, 2, INFINITY, 1));
    CHECK(takes(half, 2, INFINITY, 65519.99) && takes(half, 2, 65504, 65504) && !takes(half, 2, INFINITY, 1000));
    CHECK(takes(relu, 2, 0, 0x1p-130) && !takes(relu, 2, 0, 0x1p-100));
}

/* ---- every operation on a device ---- */

static const char *const lines[] = {
    "conv_forward x=2x8x9x9%s w=6x8x3x3%s bias=1x6x1x1%s pad=1,1 alpha=0.5",
    "conv_forward x=2x8x9x9:nhwc%s w=6x4x3x3:nhwc%s groups=2 beta=0.5",
    "conv_backward_data dy=2x6x9x9%s w=6x8x3x3%s dx=2x8x9x9%s pad=1,1 beta=1",
    "conv_backward_filter x=2x8x9x9%s dy=2x6x9x9%s dw=6x8x3x3%s pad=1,1",
    "conv_backward_bias dy=2x6x9x9%s",
    "matmul a=3x17x33%s b=1x33x20%s bias=1x1x20%s alpha=-1.5",
    "matmul a=33x17:s40,2%s b=33x20:s32,1%s y=17x20:s30,1%s trans_a=1 beta=2",
    "pool_forward x=2x3x9x9%s indices=2x3x4x4/i32 mode=max window=3,3 stride=2,2",
    "pool_forward x=2x3x9x9%s mode=avg_exclude window=3,3 pad=1,1",
    "pool_backward dy=2x3x4x4%s x=2x3x9x9%s mode=max window=3,3 stride=2,2",
    "pool_backward dy=2x3x7x7%s dx=2x3x9x9%s mode=avg_include window=3,3",
    "activation_forward x=3x41%s y=3x41%s&x mode=tanh",
    "activation_forward x=3x41:s50,1%s y=3x41:s1,3%s mode=leaky_relu coef=0.1 beta=0.5",
    "activation_backward dy=3x41%s y=3x41%s mode=sigmoid",
    "softmax_forward x=4x33%s alpha=0.5",
    "softmax_forward x=4x33%s mode=log",
    "softmax_backward y=4x33%s dy=4x33%s dx=4x33%s&dy",
    "softmax_backward y=4x33%s dy=4x33%s mode=log",
    "cross_entropy_forward x=5x7%s labels=5x1/i32 smoothing=0.1",
    "cross_entropy_backward x=5x7%s labels=5x1/i64 reduction=sum",
    "batchnorm_training x=4x3x5x5%s gamma=1x3x1x1/f32 shift=1x3x1x1/f32 saved_mean=1x3x1x1/f32 "
    "saved_invstd=1x3x1x1/f32 running_mean=1x3x1x1/f32 running_var=1x3x1x1/f32",
    "batchnorm_inference x=4x3x5x5%s gamma=1x3x5x5/f32 shift=1x3x5x5/f32 running_mean=1x3x5x5/f32 "
    "running_var=1x3x5x5/f32 mode=per_activation",
    "batchnorm_backward x=4x3x5x5%s dy=4x3x5x5%s gamma=1x3x1x1/f32 saved_mean=1x3x1x1/f32 saved_invstd=1x3x1x1/f32",
    "batchnorm_backward x=4x3x5x5%s dy=4x3x5x5%s gamma=1x3x1x1/f32",
    "binary a=4x1x7%s b=1x5x7%s y=4x5x7%s mode=sub alpha2=0.5 beta=1",
    "binary a=4x7%s b=4x7%s y=4x7%s&a mode=div",
    "binary_backward a=4x5x7%s b=1x5x1%s dy=4x5x7%s da=4x5x7%s db=1x5x1%s mode=mul",
    "reduce x=5x7x9%s mode=mean axes=0,2",
    "reduce x=5x7x9%s mode=max",
    "reduce x=5x7x9%s mode=amax axes=1",
    "reduce x=5x7x9%s mode=norm2 axes=0,2",
    "reduce_backward dy=5x1x9%s x=5x7x9%s dx=5x7x9%s mode=max axes=1",
    "copy x=5x7%s y=5x7:s1,5/f32",
    "copy x=5x7%s y=5x7/i8 alpha=3.3",
    "fill y=7x9%s value=0.3",
    "scale y=7x9%s alpha=1.7",
    "dropout_forward x=77%s ratio=0.3 rng_seed=device:5 rng_offset=9",
    "dropout_backward dy=77%s dx=77%s&dy ratio=0.3",
    "sgd param=77%s grad=77%s moment1=77/f32 momentum=0.9 lr=device:0.1 weight_decay=0.01 nesterov=1",
    "adam param=77%s grad=77%s moment1=77/f32 moment2=77/f32 step=device:3 lr=0.01 weight_decay=0.01",
};

static anydnn_status put(anydnn_stream *stream, anydnn_binding *row, const void *bytes, size_t size)
{
    anydnn_status status = anydnn_alloc(anydnn_stream_context(stream), size, &row->mem);
    if (status == ANYDNN_OK) status = anydnn_copy_in(stream, row->mem, bytes, size);
    return status == ANYDNN_OK ? anydnn_stream_sync(stream) : status;
}

/* Gives a row its memory: its own with samples, its scalar, or that of the row in whose place it is. */
static anydnn_status place_row(anydnn_stream *stream, const anydnn_problem *problem, anydnn_binding *rows, int row)
{
    static double data[MAX_ELEMENTS];
    anydnn_binding *b = &rows[row];
    const int alias = b->tensor ? anydnn_problem_alias(problem, b->role) : 0;
    const float real = (float)b->value;
    const int64_t whole = (int64_t)b->value;
    int64_t i;
    if (!b->tensor && b->mem.kind == ANYDNN_MEM_NONE) return ANYDNN_OK;
    if (!b->tensor)
        return b->role == ANYDNN_LR ? put(stream, b, &real, sizeof real) : put(stream, b, &whole, sizeof whole);
    for (i = 0; i < row; i++)
        if (alias && rows[i].role == alias) b->mem = rows[i].mem;
    if (alias) return ANYDNN_OK;
    for (i = 0; i < elements_of(b->tensor); i++) adn_store(data, b->tensor->dtype, i, sample(b->tensor->dtype, i));
    return put(stream, b, data, (size_t)anydnn_tensor_bytes(b->tensor));
}

static void free_rows(anydnn_context *context, const anydnn_problem *problem, const anydnn_binding *rows, int count)
{
    int i;
    for (i = 0; i < count; i++)
        if (rows[i].mem.base && !(rows[i].tensor && anydnn_problem_alias(problem, rows[i].role)))
            anydnn_free(context, rows[i].mem);
}

static anydnn_status run_text(anydnn_stream *stream, const char *line)
{
    anydnn_binding rows[ADN_MAX_ROLES];
    const anydnn_binding *given;
    anydnn_problem *problem = NULL;
    anydnn_status status = anydnn_problem_parse(line, &problem);
    int count = 0, i;
    given = anydnn_problem_bindings(problem, &count);
    for (i = 0; i < count; i++) rows[i] = given[i];
    for (i = 0; i < count && status == ANYDNN_OK; i++) status = place_row(stream, problem, rows, i);
    if (status == ANYDNN_OK) status = anydnn_run(stream, anydnn_problem_op(problem), NULL, rows, count);
    free_rows(anydnn_stream_context(stream), problem, rows, count);
    anydnn_problem_destroy(problem);
    return status;
}

static void run_line(anydnn_stream *stream, const char *line)
{
    const anydnn_status status = run_text(stream, line);
    CHECK_CASE(status == ANYDNN_OK, line);
    if (status != ANYDNN_OK) printf("        %s\n", anydnn_message());
}

/* ---- a wrong element in every operation ---- */

static const struct adn_engine *real_engine(const struct adn_problem *p)
{
    struct adn_engine_plan plan;
    const struct adn_engine *engine;
    int i, count;
    const struct adn_device *cpu = adn_devices(&count);
    for (i = 0; (engine = adn_engine_at(&adn_cpu_backend, p->def->op, i)) != NULL; i++) {
        memset(&plan, 0, sizeof plan);
        if (engine->plan(p, cpu, NULL, &plan, NULL)) return engine;
    }
    return NULL;
}

static bool plan_planted(const struct adn_problem *p, const struct adn_device *device, const char *params,
                         struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const struct adn_engine *real = real_engine(p);
    return real ? real->plan(p, device, params, plan, why)
                : adn_refuse(why, ANYDNN_REASON_FEATURE, 0, "op", 0, 0, "no engine");
}

/* The last element of the first output. */
static anydnn_status run_planted(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const struct adn_problem *p = &plan->problem;
    const anydnn_status status = real_engine(p)->run(plan, stream, arguments);
    int slot = 0;
    while (!p->operand[slot].present || !(p->def->roles[slot].flags & ANYDNN_ROLE_OUT)) slot++;
    if (status == ANYDNN_OK) {
        const anydnn_tensor *t = &p->operand[slot].t;
        char *data = (char *)arguments->place[slot].base + arguments->place[slot].offset;
        const int64_t at = adn_element_offset(t, anydnn_tensor_count(t) - 1);
        adn_store(data, t->dtype, at, 2 * adn_load(data, t->dtype, at) + 1);
    }
    return status;
}

static const struct adn_engine planted_engine = { .name = "planted", .ops = ~(uint64_t)0, .revision = 1,
                                                  .traits = ANYDNN_TRAIT_DETERMINISTIC, .plan = plan_planted,
                                                  .run = run_planted };
static const struct adn_engine *const planted_engines[] = { &planted_engine, NULL };

/* Whether the report tells the line's problem, by what is printed of both. */
static bool same_problem(const char *line, const char *report)
{
    struct adn_problem want, got;
    char a[2048], b[2048];
    int slot;
    if (adn_text_parse(line, &want) != ANYDNN_OK || adn_text_parse(report, &got) != ANYDNN_OK) return false;
    want.math = ANYDNN_MATH_STRICT;
    want.workspace_limit = got.workspace_limit = UINT64_MAX; /* the stream's */
    for (slot = 0; slot < got.slots; slot++) { /* what the memory of this run is like */
        want.operand[slot].offset = got.operand[slot].offset = 0;
        want.operand[slot].t.alignment = got.operand[slot].t.alignment = 0;
        if (want.operand[slot].device) want.operand[slot].value = (float)want.operand[slot].value;
    }
    adn_text_print(&want, a, sizeof a);
    adn_text_print(&got, b, sizeof b);
    if (strcmp(a, b) != 0) printf("        want %s\n        got  %s\n", a, b);
    return strcmp(a, b) == 0;
}

static void check_report(anydnn_stream *stream, const char *line)
{
    char report[2048];
    log_calls = 0;
    CHECK_CASE(run_text(stream, line) == ANYDNN_INTERNAL && log_calls == 1, line);
    snprintf(report, sizeof report, "%s", logged);
    CHECK_CASE(!strchr(report, '\n') && strstr(report, " # device cpu engine planted element "), report);
    CHECK_CASE(same_problem(line, report), report);
    CHECK_CASE(run_text(stream, report) == ANYDNN_INTERNAL && log_calls == 2, report);
}

static void planted(void)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    struct adn_backend backend = adn_cpu_backend;
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL;
    struct adn_device cpu;
    char text[512];
    size_t i;
    int count;
    cpu = adn_devices(&count)[0];
    backend.engines = planted_engines;
    cpu.backend = &backend;
    options.oracle = 1;
    options.log = take_log;
    options.log_user = &log_calls;
    options.log_level = ANYDNN_LOG_ERROR;
    CHECK(adn_context_create(&cpu, NULL, &options, &context) == ANYDNN_OK);
    CHECK(anydnn_stream_create(context, 0, &stream) == ANYDNN_OK);
    for (i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *d = i % 2 ? "/f16" : "/f32";
        snprintf(text, sizeof text, lines[i], d, d, d, d, d);
        check_report(stream, text);
    }
    anydnn_stream_destroy(stream);
    anydnn_close(context);
}

static void device(void)
{
    static const char *const dtypes[] = { "/f32", "/f16" };
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL;
    char text[512];
    size_t i;
    int k;
    options.oracle = 1;
    if (anydnn_open("opencl:0", &options, &context) != ANYDNN_OK) {
        printf("no device: %s\n", anydnn_message());
        return;
    }
    CHECK(anydnn_stream_create(context, 0, &stream) == ANYDNN_OK);
    for (i = 0; i < sizeof lines / sizeof *lines; i++)
        for (k = 0; k < 2; k++) {
            const char *d = dtypes[k];
            snprintf(text, sizeof text, lines[i], d, d, d, d, d);
            run_line(stream, text);
        }
    CHECK(context->reference != NULL);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
}

int main(int argc, char **argv)
{
    char command[4096];
    if (argc > 1) return run_relu(NULL, false) == ANYDNN_INTERNAL ? 0 : 1; /* under ANYDNN_ORACLE=1 */
    compare();
    padding();
    end_to_end();
    snprintf(command, sizeof command, "ANYDNN_ORACLE=1 '%s' environment", argv[0]);
    CHECK(system(command) == 0);
    planted();
    device();
    return unit_end();
}
