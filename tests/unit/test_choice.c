/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_choice.c: what decides which plan serves a call, for every operation, on the CPU with made-up
 * engines. keys       whatever a plan may depend on tells two problems apart: each byte of the operation's struct, each
 * member of each tensor, aliases, places of scalars, classes of alpha and beta, each wish; values of scalars do not
 *   wishes     an engine that is cheap, but not deterministic (rounds more, wants workspace, ...), is chosen where that
 * is allowed and never where it is not, by plans and by one-shot calls whose wishes come in turn fallbacks  an engine
 * that is refused, or finds no memory, while it is prepared leaves the problem to the next */
#include "common/select.h"
#include "common/text.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 2 * ADN_MAX_ROLES, WORKSPACE = 1000, ARENA = 1 << 16, PARTS = 7 };

static const char *const lines[] = {
    "conv_forward x=2x4x5x6/f32 w=6x2x3x3/f32 bias=1x6x1x1/f32 z=2x6x5x6/f32 y=2x6x5x6/f32 pad=1,1 groups=2",
    "conv_backward_data dy=2x6x5x6/f32 w=6x4x3x3/f32 bias=1x4x1x1/f32 z=2x4x5x6/f32 dx=2x4x5x6/f32 pad=1,1",
    "conv_backward_filter x=2x4x5x6/f32 dy=2x6x5x6/f32 dw=6x4x3x3/f32 pad=1,1",
    "conv_backward_bias dy=2x3x4x5/f32",
    "matmul a=2x3x4/f32 b=2x4x5/f32 bias=1x1x5/f32",
    "pool_forward x=2x3x5x6/f32 indices=2x3x4x5/i32 window=2,2",
    "pool_backward dy=2x3x4x5/f32 x=2x3x5x6/f32 indices=2x3x4x5/i32 dx=2x3x5x6/f32 window=2,2",
    "activation_forward x=4x5/f32 mode=leaky_relu coef=0.5",
    "activation_backward dy=4x5/f32 x=4x5/f32 y=4x5/f32",
    "softmax_forward x=4x5/f32",
    "softmax_backward y=4x5/f32 dy=4x5/f32",
    "cross_entropy_forward x=4x5/f32 labels=4x1/i32",
    "cross_entropy_backward x=4x5/f32 labels=4x1/i32 dloss=1x1/f32",
    "batchnorm_training x=2x3x4x5/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32 saved_mean=1x3x1x1/f32 "
    "saved_invstd=1x3x1x1/f32 running_mean=1x3x1x1/f32 running_var=1x3x1x1/f32",
    "batchnorm_inference x=2x3x4x5/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32 running_mean=1x3x1x1/f32 "
    "running_var=1x3x1x1/f32",
    "batchnorm_backward x=2x3x4x5/f32 dy=2x3x4x5/f32 gamma=1x3x1x1/f32 saved_mean=1x3x1x1/f32 saved_invstd=1x3x1x1/f32",
    "binary a=4x5/f32 b=1x5/f32",
    "binary_backward dy=4x5/f32 a=4x5/f32 b=1x5/f32 da=4x5/f32 db=1x5/f32 mode=mul",
    "reduce x=4x5/f32 axes=1",
    "reduce_backward dy=4x1/f32 x=4x5/f32 dx=4x5/f32 mode=max axes=1",
    "copy x=4x5/f32 y=4x5/f16",
    "fill y=4x5/f32 value=2",
    "scale y=4x5/f32 alpha=2",
    "dropout_forward x=4x5/f32",
    "dropout_backward dy=4x5/f32",
    "sgd grad=4x5/f32 param=4x5/f32 moment1=4x5/f32 lr=0.5",
    "adam grad=4x5/f32 param=4x5/f32 moment1=4x5/f32 moment2=4x5/f32 lr=0.5",
};
enum { LINES = (int)(sizeof lines / sizeof *lines) };

/* ---- keys ---- */

/* `other` differs from p in what `what` names. */
static void apart(const struct adn_problem *p, const struct adn_problem *other, const char *what)
{
    char text[96];
    snprintf(text, sizeof text, "%s: %s", p->def->name, what);
    CHECK_CASE(!adn_problem_equal(p, other) && !adn_problem_equal(other, p), text);
    CHECK_CASE(adn_problem_hash(p) != adn_problem_hash(other), text);
}

static void struct_bytes(const struct adn_problem *p)
{
    struct adn_problem q = *p;
    char what[48];
    size_t i;
    for (i = sizeof(anydnn_op); i < p->def->desc_size; i++) {
        ((unsigned char *)&q.desc)[i] ^= 1;
        snprintf(what, sizeof what, "byte %zu of its struct", i);
        apart(p, &q, what);
        ((unsigned char *)&q.desc)[i] ^= 1;
    }
}

#define CHANGED(member, to)                                                                                            \
    do {                                                                                                               \
        struct adn_problem q_ = *p;                                                                                    \
        q_.member = (to);                                                                                              \
        apart(p, &q_, #member);                                                                                        \
    } while (0)

static void tensor_members(const struct adn_problem *p, int slot)
{
    const anydnn_tensor *t = &p->operand[slot].t;
    int i;
    CHANGED(operand[slot].present, false);
    CHANGED(operand[slot].alias, (int16_t)(p->operand[slot].alias + 1));
    CHANGED(operand[slot].t.dtype, t->dtype % 8 + 1);
    CHANGED(operand[slot].t.ndim, t->ndim + 1);
    CHANGED(operand[slot].t.alignment, t->alignment ? 0 : 16);
    for (i = 0; i < t->ndim; i++) {
        CHANGED(operand[slot].t.dims[i], t->dims[i] + 1);
        CHANGED(operand[slot].t.strides[i], t->strides[i] + 1);
    }
}

static void wish_members(const struct adn_problem *p)
{
    struct adn_problem q = *p;
    CHANGED(math, ANYDNN_MATH_FAST);
    CHANGED(deterministic, !p->deterministic);
    CHANGED(batch_invariant, !p->batch_invariant);
    CHANGED(workspace_limit, p->workspace_limit - 1);
    CHANGED(alpha_class, (p->alpha_class + 1) % 3);
    CHANGED(beta_class, (p->beta_class + 1) % 3);
    strcpy(q.engine, "another");
    apart(p, &q, "engine");
}

static void keys(const char *line)
{
    struct adn_problem parsed, same;
    const struct adn_problem *p = &parsed;
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    int slot;
    options.math = ANYDNN_MATH_STRICT;
    CHECK_CASE(adn_text_parse(line, &parsed) == ANYDNN_OK, line);
    adn_problem_settle(&parsed, &options);
    struct_bytes(p);
    wish_members(p);
    same = parsed;
    for (slot = 0; slot < p->slots; slot++)
        if (p->def->roles[slot].flags & ANYDNN_ROLE_SCALAR) {
            CHANGED(operand[slot].device, !p->operand[slot].device);
            same.operand[slot].value += 0.25;
        } else if (p->operand[slot].present) {
            tensor_members(p, slot);
            same.operand[slot].offset += 256;
        }
    CHECK_CASE(adn_problem_equal(p, &same) && adn_problem_hash(p) == adn_problem_hash(&same), line);
}

/* ---- made-up engines ---- */

static anydnn_context *context;
static const struct adn_backend *cpu;
static anydnn_mem arena;
static int loose_runs;
static uint64_t loose_workspace;
static anydnn_status loose_status;

static bool plan_loose(const struct adn_problem *p, const struct adn_device *device, const char *params,
                       struct adn_engine_plan *plan, struct adn_refusal *why)
{
    (void)p, (void)device, (void)params, (void)why;
    plan->cost_ns = 1e-3;
    plan->workspace = loose_workspace;
    return true;
}

static anydnn_status prepare_loose(anydnn_plan *plan)
{
    (void)plan;
    return loose_status ? adn_fail(loose_status, "loose is not prepared") : ANYDNN_OK;
}

static anydnn_status run_loose(const anydnn_plan *plan, anydnn_stream *on, const struct adn_arguments *arguments)
{
    (void)plan, (void)on, (void)arguments;
    loose_runs++;
    return ANYDNN_OK;
}

/* Cheap, and of the traits given, beside the operation's own engine. */
static struct adn_engine loose = {
    .name = "loose", .revision = 1, .plan = plan_loose, .prepare = prepare_loose, .run = run_loose
};

enum { EVERY = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_BATCH_INVARIANT };

/* The context's backend with the loose engine, whose traits are reset. */
static void with_loose(int op)
{
    static struct adn_backend fake;
    static const struct adn_engine *engines[3];
    fake = *cpu;
    loose.ops = ADN_OP_BIT(op), loose.traits = EVERY;
    loose_workspace = 0, loose_status = ANYDNN_OK;
    engines[0] = adn_engine_at(cpu, op, 0), engines[1] = &loose;
    fake.engines = engines;
    context->backend = &fake;
}

/* A line with its tensors one after the other in the arena. */
struct call {
    anydnn_problem *problem;
    const anydnn_op *op;
    anydnn_binding row[ROWS];
    int count;
};

static bool call_make(struct call *c, const char *line)
{
    const anydnn_binding *rows;
    uint64_t at = 0;
    int i;
    if (anydnn_problem_parse(line, &c->problem) != ANYDNN_OK) return false;
    c->op = anydnn_problem_op(c->problem);
    rows = anydnn_problem_bindings(c->problem, &c->count);
    for (i = 0; i < c->count; i++) {
        c->row[i] = rows[i];
        if (!rows[i].tensor) continue;
        c->row[i].mem = anydnn_mem_at(arena, at);
        at += ((uint64_t)anydnn_tensor_bytes(rows[i].tensor) + 255) / 256 * 256;
    }
    return at <= ARENA;
}

static anydnn_prefs no_wishes(void)
{
    const anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    return prefs;
}

static bool plans_loose(const struct call *c, const anydnn_prefs *prefs)
{
    anydnn_plan_info info = { (uint32_t)sizeof info };
    anydnn_plan *plan = NULL;
    CHECK_CASE(anydnn_plan_create(context, c->op, prefs, c->row, c->count, &plan) == ANYDNN_OK,
               anydnn_op_name(c->op->op));
    CHECK_CASE(anydnn_plan_get_info(plan, &info) == ANYDNN_OK, anydnn_op_name(c->op->op));
    anydnn_plan_release(plan);
    return strcmp(info.engine, "loose") == 0;
}

/* Whether the loose engine is what a plan chooses, and a one-shot call runs. */
static bool chooses_loose(const struct call *c, const anydnn_prefs *prefs, anydnn_stream *stream)
{
    const bool planned = plans_loose(c, prefs);
    const int before = loose_runs;
    CHECK_CASE(anydnn_run(stream, c->op, prefs, c->row, c->count) == ANYDNN_OK, anydnn_op_name(c->op->op));
    CHECK_CASE(planned == (loose_runs > before), anydnn_op_name(c->op->op));
    return planned;
}

/* ---- wishes ---- */

/* Calls with and without the wish in turn, so that the cache of plans has both; `named` is in the refusal by name. */
static void in_turn(const struct call *c, const anydnn_prefs *prefs, anydnn_stream *stream, const char *named)
{
    const anydnn_prefs none = no_wishes();
    anydnn_prefs pinned = *prefs;
    anydnn_plan *plan = NULL;
    int i;
    for (i = 0; i < 2; i++) {
        CHECK_CASE(chooses_loose(c, &none, stream), anydnn_op_name(c->op->op));
        CHECK_CASE(!chooses_loose(c, prefs, stream), anydnn_op_name(c->op->op));
    }
    pinned.engine = "loose";
    CHECK_CASE(anydnn_plan_create(context, c->op, &pinned, c->row, c->count, &plan) == ANYDNN_UNSUPPORTED &&
                   strstr(anydnn_message(), named),
               anydnn_op_name(c->op->op));
}

static void deterministic(const struct call *c, anydnn_stream *stream)
{
    anydnn_prefs prefs = no_wishes();
    prefs.deterministic = 1;
    with_loose(c->op->op);
    loose.traits &= ~ANYDNN_TRAIT_DETERMINISTIC;
    in_turn(c, &prefs, stream, "not deterministic");
}

/* Operations without sums of an item leave the flag without effect. */
static void batch_invariant(const struct call *c, anydnn_stream *stream, const char *line)
{
    anydnn_prefs prefs = no_wishes();
    struct adn_problem p;
    const anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    prefs.batch_invariant = 1;
    with_loose(c->op->op);
    loose.traits &= ~ANYDNN_TRAIT_BATCH_INVARIANT;
    CHECK(adn_text_parse(line, &p) == ANYDNN_OK);
    p.batch_invariant = true;
    adn_problem_settle(&p, &options);
    if (p.batch_invariant)
        in_turn(c, &prefs, stream, "from the batch");
    else
        CHECK_CASE(chooses_loose(c, &prefs, stream), line);
}

static void reduced_math(const struct call *c, anydnn_stream *stream)
{
    anydnn_prefs prefs = no_wishes(), freely = prefs;
    int i;
    freely.math = ANYDNN_MATH_TF32;
    with_loose(c->op->op);
    loose.traits |= ANYDNN_TRAIT_REDUCED_MATH;
    for (i = 0; i < 2; i++) { /* strict is what is meant where nothing is said */
        CHECK_CASE(chooses_loose(c, &freely, stream), anydnn_op_name(c->op->op));
        prefs.math = i ? ANYDNN_MATH_STRICT : ANYDNN_MATH_DEFAULT;
        CHECK_CASE(!chooses_loose(c, &prefs, stream), anydnn_op_name(c->op->op));
    }
}

static void workspace(const struct call *c, anydnn_stream *stream)
{
    anydnn_prefs prefs = no_wishes();
    with_loose(c->op->op);
    loose_workspace = WORKSPACE;
    prefs.workspace_limit = WORKSPACE - 1;
    in_turn(c, &prefs, stream, "wants 1000 bytes of workspace");
    prefs.workspace_limit = ANYDNN_NO_WORKSPACE;
    in_turn(c, &prefs, stream, "wants 1000 bytes of workspace");
    prefs.workspace_limit = WORKSPACE;
    CHECK_CASE(chooses_loose(c, &prefs, stream), anydnn_op_name(c->op->op));
}

static void slow_start(const struct call *c, anydnn_stream *stream)
{
    anydnn_prefs prefs = no_wishes();
    with_loose(c->op->op);
    loose.traits |= ANYDNN_TRAIT_SLOW_START;
    CHECK_CASE(!chooses_loose(c, &prefs, stream), anydnn_op_name(c->op->op));
    prefs.engine = "loose";
    CHECK_CASE(chooses_loose(c, &prefs, stream), anydnn_op_name(c->op->op));
}

/* ---- fallbacks ---- */

static void fallbacks(const struct call *c, anydnn_stream *stream)
{
    static const anydnn_status left[] = { ANYDNN_UNSUPPORTED, ANYDNN_OUT_OF_MEMORY };
    anydnn_prefs prefs = no_wishes();
    anydnn_plan *plan = NULL;
    int i;
    for (i = 0; i < 2; i++) {
        with_loose(c->op->op);
        loose_status = left[i];
        prefs.engine = NULL;
        CHECK_CASE(!chooses_loose(c, &prefs, stream), anydnn_op_name(c->op->op));
        prefs.engine = "loose";
        CHECK_CASE(anydnn_plan_create(context, c->op, &prefs, c->row, c->count, &plan) == left[i],
                   anydnn_op_name(c->op->op));
        CHECK_CASE(strstr(anydnn_message(), "loose"), anydnn_message());
    }
    loose_status = ANYDNN_DEVICE; /* a fault is no matter of choice */
    prefs.engine = NULL;
    CHECK_CASE(anydnn_plan_create(context, c->op, &prefs, c->row, c->count, &plan) == ANYDNN_DEVICE,
               anydnn_op_name(c->op->op));
}

/* What the context was opened with counts as a wish of every call. */
static void wishes_of_context(const struct call *c, anydnn_stream *stream)
{
    const anydnn_prefs none = no_wishes();
    with_loose(c->op->op);
    CHECK_CASE(chooses_loose(c, &none, stream), anydnn_op_name(c->op->op));
    loose.traits &= ~ANYDNN_TRAIT_DETERMINISTIC;
    CHECK_CASE(!plans_loose(c, &none), anydnn_op_name(c->op->op));
}

/* ---- the walk ---- */

/* Each part on a context of its own: a cached plan outlives the engine that made it. */
static void part(const char *line, int number)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    anydnn_stream *stream = NULL;
    struct call c;
    options.deterministic = number == 6;
    CHECK(anydnn_open("cpu", &options, &context) == ANYDNN_OK);
    cpu = context->backend;
    CHECK(anydnn_alloc(context, ARENA, &arena) == ANYDNN_OK &&
          anydnn_stream_create(context, 4 * WORKSPACE, &stream) == ANYDNN_OK);
    CHECK(anydnn_set(stream, arena, 0, ARENA) == ANYDNN_OK);
    CHECK_CASE(call_make(&c, line), line);
    if (number == 0) deterministic(&c, stream);
    if (number == 1) batch_invariant(&c, stream, line);
    if (number == 2) reduced_math(&c, stream);
    if (number == 3) workspace(&c, stream);
    if (number == 4) slow_start(&c, stream);
    if (number == 5) fallbacks(&c, stream);
    if (number == 6) wishes_of_context(&c, stream);
    context->backend = cpu;
    anydnn_problem_destroy(c.problem);
    anydnn_stream_destroy(stream);
    anydnn_free(context, arena);
    anydnn_close(context);
}

int main(void)
{
    int i, number;
    for (i = 0; i < LINES; i++) {
        keys(lines[i]);
        for (number = 0; number < PARTS; number++) part(lines[i], number);
        CHECK_CASE(!strncmp(lines[i], anydnn_op_name(i + 1), strlen(anydnn_op_name(i + 1))), lines[i]);
    }
    CHECK(anydnn_op_name(LINES + 1) == NULL); /* no operation is left out */
    return unit_end();
}
