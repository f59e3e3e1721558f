/* SPDX-License-Identifier: Apache-2.0
 * api/problem.c: problems as objects: the text form and its parts. */
#include "common/text.h"
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct anydnn_problem {
    struct adn_problem p;
    anydnn_prefs prefs;
    anydnn_binding binding[ADN_MAX_ROLES];
    int count;
};

/* Rows in the order: tensors, then scalars. */
static void make_rows(anydnn_problem *problem)
{
    const struct adn_problem *p = &problem->p;
    int scalars, i;
    for (scalars = 0; scalars < 2; scalars++)
        for (i = 0; i < p->slots; i++) {
            const int role = p->def->roles[i].role;
            anydnn_binding *row = &problem->binding[problem->count];
            if (!p->operand[i].present || !(p->def->roles[i].flags & ANYDNN_ROLE_SCALAR) != !scalars) continue;
            if (scalars) {
                *row = anydnn_bind_value(role, p->operand[i].value);
                if (p->operand[i].device) row->mem.kind = ANYDNN_MEM_HOST;
            } else {
                *row = anydnn_bind(role, &p->operand[i].t, anydnn_mem_none());
                row->mem.offset = p->operand[i].offset;
            }
            problem->count++;
        }
}

static void make_prefs(anydnn_problem *problem)
{
    const struct adn_problem *p = &problem->p;
    problem->prefs.struct_size = (uint32_t)sizeof problem->prefs;
    problem->prefs.math = p->math;
    problem->prefs.deterministic = p->deterministic;
    problem->prefs.batch_invariant = p->batch_invariant;
    problem->prefs.workspace_limit = p->workspace_limit == UINT64_MAX ? 0
                                     : p->workspace_limit == 0        ? ANYDNN_NO_WORKSPACE
                                                                      : p->workspace_limit;
    problem->prefs.engine = p->engine[0] ? p->engine : NULL;
}

static anydnn_status finish(anydnn_status status, anydnn_problem *made, anydnn_problem **problem)
{
    if (status != ANYDNN_OK) {
        free(made);
        return status;
    }
    make_rows(made);
    make_prefs(made);
    *problem = made;
    return ANYDNN_OK;
}

anydnn_status anydnn_problem_parse(const char *line, anydnn_problem **problem)
{
    anydnn_problem *made;
    ADN_NOT_NULL(line);
    ADN_NOT_NULL(problem);
    made = calloc(1, sizeof *made);
    if (!made) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a problem");
    return finish(adn_text_parse(line, &made->p), made, problem);
}

anydnn_status anydnn_problem_create(const anydnn_op *op, const anydnn_prefs *prefs, const anydnn_binding *bindings,
                                    int count, anydnn_problem **problem)
{
    anydnn_problem *made;
    anydnn_status status;
    ADN_NOT_NULL(problem);
    made = calloc(1, sizeof *made);
    if (!made) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a problem");
    status = adn_problem_init(&made->p, op, prefs, bindings, count, true);
    if (status == ANYDNN_OK) status = adn_problem_complete(&made->p, false);
    return finish(status, made, problem);
}

void anydnn_problem_destroy(anydnn_problem *problem) { free(problem); }

anydnn_status anydnn_problem_print(const anydnn_problem *problem, char *text, size_t capacity, size_t *length)
{
    size_t full;
    ADN_NOT_NULL(problem);
    if (capacity) ADN_NOT_NULL(text);
    full = adn_text_print(&problem->p, text, capacity);
    if (length) *length = full;
    return ANYDNN_OK;
}

const anydnn_op *anydnn_problem_op(const anydnn_problem *problem) { return problem ? &problem->p.desc.head : NULL; }
const anydnn_prefs *anydnn_problem_prefs(const anydnn_problem *problem) { return problem ? &problem->prefs : NULL; }
uint64_t anydnn_problem_seed(const anydnn_problem *problem) { return problem ? problem->p.seed : 0; }

const anydnn_binding *anydnn_problem_bindings(const anydnn_problem *problem, int *count)
{
    if (count) *count = problem ? problem->count : 0;
    return problem ? problem->binding : NULL;
}

int anydnn_problem_alias(const anydnn_problem *problem, int role)
{
    const int slot = problem ? adn_slot(&problem->p, role) : -1;
    if (slot < 0 || problem->p.operand[slot].alias < 0) return 0;
    return problem->p.def->roles[problem->p.operand[slot].alias].role;
}

anydnn_status anydnn_problem_cost(const anydnn_problem *problem, double *flops, double *bytes, double *depth)
{
    double f = 0.0, d = 1.0, b = 0.0;
    int i;
    ADN_NOT_NULL(problem);
    problem->p.def->cost(&problem->p, &f, &d);
    for (i = 0; i < problem->count; i++)
        if (problem->binding[i].tensor)
            b += (double)anydnn_tensor_count(problem->binding[i].tensor) *
                 (double)anydnn_dtype_size(problem->binding[i].tensor->dtype);
    if (flops) *flops = f;
    if (bytes) *bytes = b;
    if (depth) *depth = d;
    return ANYDNN_OK;
}
