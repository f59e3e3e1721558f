/* SPDX-License-Identifier: Apache-2.0
 * common/select.c: asks the engines, orders their answers (measured ones, then by estimated cost), prepares the best. */
#include "select.h"

#include "os.h"
#include "tune.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool adn_refuse(struct adn_refusal *why, int reason, int role, const char *argument, int64_t value, int64_t accepted,
                const char *format, ...)
{
    va_list arguments;
    if (!why) return false;
    memset(why, 0, sizeof *why);
    why->reason = reason;
    why->role = role;
    why->value = value;
    why->accepted = accepted;
    snprintf(why->argument, sizeof why->argument, "%s", argument ? argument : "");
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- refusals by compilers ---- */

enum { MAX_REFUSALS = 256 };
struct adn_refusals {
    adn_mutex *lock;
    int count;
    const struct adn_variant *variant[MAX_REFUSALS];
};

struct adn_refusals *adn_refusals_create(void)
{
    struct adn_refusals *refusals = calloc(1, sizeof *refusals);
    if (refusals) refusals->lock = adn_mutex_create();
    if (refusals && !refusals->lock) {
        free(refusals);
        refusals = NULL;
    }
    return refusals;
}

void adn_refusals_destroy(struct adn_refusals *refusals)
{
    if (!refusals) return;
    adn_mutex_destroy(refusals->lock);
    free(refusals);
}

static const struct adn_variant *refused_variant(struct adn_refusals *refusals, const struct adn_engine_plan *plan)
{
    const struct adn_variant *found = NULL;
    int i, j;
    adn_mutex_lock(refusals->lock);
    for (i = 0; i < plan->steps && !found; i++)
        for (j = 0; j < refusals->count && !found; j++)
            if (refusals->variant[j] == plan->step[i].variant) found = refusals->variant[j];
    adn_mutex_unlock(refusals->lock);
    return found;
}

/* Which of the plan's kernels was refused is told by the one that did not load. */
static void remember_refusal(struct adn_refusals *refusals, const anydnn_plan *plan)
{
    int i;
    adn_mutex_lock(refusals->lock);
    for (i = 0; i < plan->body.steps; i++)
        if (!plan->kernel[i] && refusals->count < MAX_REFUSALS) {
            refusals->variant[refusals->count++] = plan->body.step[i].variant;
            break;
        }
    adn_mutex_unlock(refusals->lock);
}

/* ---- asking ---- */

static const struct adn_engine *engine_in(const struct adn_engine *const *engines, int op, int *index)
{
    for (; engines && *engines; engines++)
        if (((*engines)->ops & ADN_OP_BIT(op)) && (*index)-- == 0) return *engines;
    return NULL;
}

#if !defined(ADN_WITH_CUDA) && !defined(ADN_WITH_OPENCL)
static const struct adn_engine *const *const shared_engines = NULL;
#else
static const struct adn_engine *const *const shared_engines = adn_shared_engines;
#endif

const struct adn_engine *adn_engine_at(const struct adn_backend *backend, int op, int index)
{
    const struct adn_engine *engine = engine_in(backend->engines, op, &index);
    if (engine || !backend->kernel_load) return engine;
    return engine_in(shared_engines, op, &index);
}

/* Parameters behind ':' when `id` names the engine; "" when the id has none; NULL when it names another. */
static const char *pinned_parameters(const char *id, const char *name)
{
    const size_t length = strlen(name);
    if (strncmp(id, name, length) != 0) return NULL;
    if (id[length] == 0) return "";
    return id[length] == ':' ? id + length + 1 : NULL;
}

static bool within_wishes(const anydnn_context *context, const struct adn_problem *p, const struct adn_engine *engine,
                          const struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const struct adn_variant *refused;
    if (plan->workspace > p->workspace_limit)
        return adn_refuse(why, ANYDNN_REASON_WORKSPACE, 0, "workspace", (int64_t)p->workspace_limit,
                          (int64_t)plan->workspace, "wants %llu bytes of workspace, allowed are %llu",
                          (unsigned long long)plan->workspace, (unsigned long long)p->workspace_limit);
    if (p->deterministic && !(engine->traits & ANYDNN_TRAIT_DETERMINISTIC))
        return adn_refuse(why, ANYDNN_REASON_DETERMINISM, 0, "deterministic", 1, 0, "is not deterministic");
    if (p->batch_invariant && !(engine->traits & ANYDNN_TRAIT_BATCH_INVARIANT))
        return adn_refuse(why, ANYDNN_REASON_BATCH, 0, "batch_invariant", 1, 0, "sums in an order that follows from the batch");
    if (p->math == ANYDNN_MATH_STRICT && (engine->traits & ANYDNN_TRAIT_REDUCED_MATH))
        return adn_refuse(why, ANYDNN_REASON_MATH, 0, "math", p->math, ANYDNN_MATH_TF32, "rounds more than strict math allows");
    refused = refused_variant(context->refused, plan);
    if (refused)
        return adn_refuse(why, ANYDNN_REASON_COMPILER, 0, "device", 0, 0, "this device's compiler refused kernel %s of %s",
                          refused->kernel, refused->stem);
    return true;
}

/* `params` as for adn_engine.plan; those of a pinned id win. */
static bool ask(const anydnn_context *context, const struct adn_problem *p, const struct adn_engine *engine,
                const char *params, struct adn_engine_plan *plan, struct adn_refusal *why)
{
    if (p->engine[0]) {
        params = pinned_parameters(p->engine, engine->name);
        if (!params) return adn_refuse(why, ANYDNN_REASON_NAME, 0, "engine", 0, 0, "is not %s, asked for by name", p->engine);
        if (!params[0]) params = NULL;
    }
    memset(plan, 0, sizeof *plan);
    if (!engine->plan(p, &context->device, params, plan, why)) return false;
    return within_wishes(context, p, engine, plan, why);
}

static void set_id(char *id, const struct adn_engine *engine, const struct adn_engine_plan *plan)
{
    snprintf(id, ADN_ENGINE_ID, "%s%s%s", engine->name, plan->params[0] ? ":" : "", plan->params);
}

/* Accepted before refused; `as_listed` (batch invariance): else the order of the list; what was measured before all else; engines' own choices before other parameters; slow
 * starters (never chosen unless named) behind all others; then by cost; else as listed. */
static bool before(const struct adn_answer *a, const struct adn_answer *b, bool as_listed)
{
    const int a_slow = (a->engine->traits & ANYDNN_TRAIT_SLOW_START) != 0;
    const int b_slow = (b->engine->traits & ANYDNN_TRAIT_SLOW_START) != 0;
    if (a->accepted != b->accepted) return a->accepted;
    if (!a->accepted) return false;
    if (a->remembered != b->remembered) return a->remembered;
    if (a->own_choice != b->own_choice) return a->own_choice;
    if (a_slow != b_slow) return !a_slow;
    return !as_listed && a->cost_ns < b->cost_ns;
}

static void insert(struct adn_answer *answers, int count, const struct adn_answer *answer, bool as_listed)
{
    int i;
    for (i = count; i > 0 && before(answer, &answers[i - 1], as_listed); i--) answers[i] = answers[i - 1];
    answers[i] = *answer;
}

static struct adn_answer answer_of(const anydnn_context *context, const struct adn_problem *p,
                                   const struct adn_engine *engine, const char *params, struct adn_engine_plan *plan)
{
    struct adn_answer answer;
    memset(&answer, 0, sizeof answer);
    answer.engine = engine;
    answer.own_choice = params == NULL;
    answer.accepted = ask(context, p, engine, params, plan, &answer.why);
    snprintf(answer.id, sizeof answer.id, "%s", engine->name);
    if (answer.accepted) {
        answer.workspace = plan->workspace;
        answer.cost_ns = plan->cost_ns;
        set_id(answer.id, engine, plan);
    }
    return answer;
}

/* Adds what measurements prefer, where the engine still accepts the problem: the caller's wishes count as ever. */
static int ask_remembered(const anydnn_context *context, const struct adn_problem *p, struct adn_engine_plan *plan,
                          struct adn_answer *answers)
{
    const struct adn_engine *engine;
    const char *params;
    struct adn_tuned tuned;
    if (p->engine[0] || p->batch_invariant || (engine = adn_tuning_engine(context, p, &tuned, &params)) == NULL) return 0;
    answers[0] = answer_of(context, p, engine, params, plan);
    answers[0].remembered = true;
    return answers[0].accepted ? 1 : 0;
}

static bool is_remembered(const struct adn_answer *answers, int count, const char *id)
{
    return count > 0 && answers[0].remembered && strcmp(answers[0].id, id) == 0;
}

/* Adds the parameter sets that the engine lists and accepts, but for those that are there already. */
static int ask_parameters(const anydnn_context *context, const struct adn_problem *p, const struct adn_answer *own,
                          struct adn_engine_plan *plan, struct adn_answer *answers, int count)
{
    char params[32];
    int index;
    for (index = 0; count < ADN_MAX_CANDIDATES && own->engine->candidate(p, &context->device, index, params); index++) {
        const struct adn_answer answer = answer_of(context, p, own->engine, params, plan);
        if (answer.accepted && strcmp(answer.id, own->id) != 0 && !is_remembered(answers, count, answer.id))
            insert(answers, count++, &answer, p->batch_invariant);
    }
    return count;
}

int adn_ask_engines(const anydnn_context *context, const struct adn_problem *p, bool all_parameters,
                    struct adn_answer *answers)
{
    struct adn_engine_plan plan;
    const struct adn_engine *engine;
    int count = ask_remembered(context, p, &plan, answers), index;
    for (index = 0; count < ADN_MAX_CANDIDATES &&
                    (engine = adn_engine_at(context->backend, p->def->op, index)) != NULL; index++) {
        const struct adn_answer own = answer_of(context, p, engine, NULL, &plan);
        if (is_remembered(answers, count, own.id)) answers[0].own_choice = true;
        else insert(answers, count++, &own, p->batch_invariant);
        if (all_parameters && own.accepted && engine->candidate && !p->engine[0])
            count = ask_parameters(context, p, &own, &plan, answers, count);
    }
    return count;
}

/* ---- choosing ---- */

static anydnn_status prepare(anydnn_plan *plan, const struct adn_answer *answer)
{
    const struct adn_engine *engine = answer->engine;
    const char *params = answer->remembered ? pinned_parameters(answer->id, engine->name) : NULL;
    struct adn_refusal why;
    anydnn_status status;
    plan->engine = engine;
    memset(plan->kernel, 0, sizeof plan->kernel);
    if (!ask(plan->context, &plan->problem, engine, params && params[0] ? params : NULL, &plan->body, &why))
        return adn_fail(ANYDNN_UNSUPPORTED, "%s: %s", engine->name, why.text);
    if (!engine->run) {
        status = adn_steps_prepare(plan);
        if (status == ANYDNN_UNSUPPORTED) remember_refusal(plan->context->refused, plan);
        return status;
    }
    return engine->prepare ? engine->prepare(plan) : ANYDNN_OK;
}

static anydnn_status none_accepts(const anydnn_plan *plan, struct adn_answer *answers, int count)
{
    char text[900] = "";
    size_t used = 0;
    int i;
    for (i = 0; i < count && used + 1 < sizeof text; i++) {
        if (plan->problem.engine[0] && answers[i].why.reason == ANYDNN_REASON_NAME) continue;
        if (answers[i].accepted) snprintf(answers[i].why.text, sizeof answers[i].why.text, "runs only when asked for by name");
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s", used ? "; " : "", answers[i].id, answers[i].why.text);
    }
    if (!used)
        return adn_fail(ANYDNN_UNSUPPORTED, "%s on %s: no engine named '%s'", plan->problem.def->name,
                        plan->context->device.info.id, plan->problem.engine);
    return adn_fail(ANYDNN_UNSUPPORTED, "%s on %s: no engine accepts it: %s", plan->problem.def->name,
                    plan->context->device.info.id, text);
}

/* Refused, or no memory for it: the next one may do with less. */
static bool leaves_choice(anydnn_status status) { return status == ANYDNN_UNSUPPORTED || status == ANYDNN_OUT_OF_MEMORY; }

anydnn_status adn_plan_choose(anydnn_plan *plan)
{
    struct adn_answer answers[ADN_MAX_CANDIDATES];
    const int count = adn_ask_engines(plan->context, &plan->problem, false, answers);
    const char *starved = NULL;
    anydnn_status status = ANYDNN_UNSUPPORTED;
    int i;
    for (i = 0; i < count && answers[i].accepted && leaves_choice(status); i++) {
        if ((answers[i].engine->traits & ANYDNN_TRAIT_SLOW_START) && !plan->problem.engine[0]) break;
        status = prepare(plan, &answers[i]);
        if (status == ANYDNN_OUT_OF_MEMORY) starved = answers[i].id;
        if (leaves_choice(status))
            adn_log(plan->context, ANYDNN_LOG_WARNING, "%s was refused when it was prepared: %s", answers[i].id, anydnn_message());
    }
    if (i == 0) return none_accepts(plan, answers, count);
    /* Something tried last and failed: its message stands, unless memory is what the problem wants for. */
    if (status != ANYDNN_UNSUPPORTED || !starved) return status;
    return adn_fail(ANYDNN_OUT_OF_MEMORY, "%s on %s: no memory to prepare %s, and no other engine takes it",
                    plan->problem.def->name, plan->context->device.info.id, starved);
}

void adn_plan_discard(anydnn_plan *plan)
{
    if (plan->engine && plan->engine->discard) plan->engine->discard(plan);
}

void adn_log(const anydnn_context *context, anydnn_log_level level, const char *format, ...)
{
    char text[8192];
    va_list arguments;
    if (!context->options.log || (int)level > context->options.log_level) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    context->options.log(context->options.log_user, level, text);
}
