/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/test_opencl_run.c [device]: what plans and runs ask of the OpenCL driver, counted by the shim, over random
 * shapes and strides of f32 of every operation.
 *   accepted  a generic engine takes each of them without workspace
 *   built     an engine builds no more programs than it has constants, however many shapes come; an equal plan none
 *   run       the first run of a plan, and a one-shot call whose plan is there, ask what buffers are, set arguments and
 *             enqueue kernels: no build, no object, no wait; and allocate no host memory
 *   compiled  PoCL as users have it, which makes machine code at launches: none in the first run of a plan, be its grid
 *             small or large (seen by the files of its cache) */
#include "bench/random.h"
#include "bench/workset.h"
#include "opencl_shim.h"
#include "os_shim.h"
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 30, TRIES = 400, FUNCTIONS = 64 };

static const char *device = "opencl:0";
static struct opencl_shim shim;

/* Programs of f32 that an engine may need in all: kernels of a stem that differ in constants are programs apart. */
static struct engine {
    const char *name;
    int most, built, plans;
} engines[] = { { "conv_direct", 1, 0, 0 }, { "pool", 1, 0, 0 },          { "softmax", 1, 0, 0 },
                { "cross_entropy", 1, 0, 0 }, { "batchnorm", 1, 0, 0 },   { "matmul_tile", 3, 0, 0 },
                { "eltwise", 11, 0, 0 },      { "reduce", 7, 0, 0 } };

static int calls_of(const char *name)
{
    int i, calls = 0;
    const char *found;
    for (i = 0; (found = shim.function(i, &calls)) != NULL && strcmp(found, name) != 0;) i++;
    return found ? calls : 0;
}

/* Counts from here on. */
static void start_counting(void)
{
    shim.reset();
#ifdef WITH_OS_SHIM
    os_shim_reset();
#endif
}

/* Nothing but arguments, launches and what buffers are since then. */
static void only_launches(const char *what, const char *line)
{
    const int launches = calls_of("clEnqueueNDRangeKernel"), arguments = calls_of("clSetKernelArg");
    const int questions = calls_of("clGetMemObjectInfo");
    snprintf(scenario_case, sizeof scenario_case, "%s: %d calls, %d launches with %d arguments: %.80s", what, shim.calls(),
             launches, arguments, line);
    CHECK(shim.calls() == launches + arguments + questions && launches > 0);
#ifdef WITH_OS_SHIM
    CHECK(os_shim_calls(OS_SHIM_MEMORY) == 0);
#endif
}

/* Tensors of f32, labels and indices aside, with elements. */
static bool is_f32(const anydnn_problem *problem)
{
    int count, i;
    const anydnn_binding *rows = anydnn_problem_bindings(problem, &count);
    for (i = 0; i < count; i++) {
        const bool whole = rows[i].role == ANYDNN_LABELS || rows[i].role == ANYDNN_INDICES;
        if (!rows[i].tensor) continue;
        if (anydnn_tensor_count(rows[i].tensor) == 0 || (!whole && rows[i].tensor->dtype != ANYDNN_F32)) return false;
    }
    return true;
}

/* The engine that takes every problem, without its parameters. */
static struct engine *generic_engine(anydnn_context *context, const struct workset *set, anydnn_prefs *prefs)
{
    static anydnn_verdict rows[64];
    int count = 0, i;
    size_t k;
    prefs->workspace_limit = ANYDNN_NO_WORKSPACE;
    if (anydnn_explain(context, anydnn_problem_op(set->problem), prefs, set->binding, set->count, rows, 64, &count))
        return NULL;
    for (i = 0; i < count; i++)
        for (k = 0; k < sizeof engines / sizeof engines[0]; k++)
            if (rows[i].status == ANYDNN_OK && (rows[i].traits & ANYDNN_TRAIT_GENERIC) && !rows[i].workspace_bytes &&
                strcspn(rows[i].engine, ":") == strlen(engines[k].name) &&
                !strncmp(rows[i].engine, engines[k].name, strlen(engines[k].name)))
                return &engines[k];
    return NULL;
}

static void run_plan(anydnn_stream *stream, const struct workset *set, const anydnn_prefs *prefs, struct engine *engine,
                     const char *line)
{
    anydnn_context *context = anydnn_stream_context(stream);
    const anydnn_op *op = anydnn_problem_op(set->problem);
    anydnn_plan *plan = NULL, *again = NULL;
    start_counting();
    if (!CHECK(anydnn_plan_create(context, op, prefs, set->binding, set->count, &plan) == ANYDNN_OK)) return;
    engine->built += calls_of("clBuildProgram");
    engine->plans++;
    start_counting();
    CHECK(anydnn_plan_create(context, op, prefs, set->binding, set->count, &again) == ANYDNN_OK && shim.calls() == 0);
    start_counting();
    CHECK(anydnn_plan_run(plan, stream, set->binding, set->count, NULL) == ANYDNN_OK);
    only_launches("run", line);
    anydnn_plan_release(again);
    anydnn_plan_release(plan);
    CHECK(anydnn_run(stream, op, prefs, set->binding, set->count) == ANYDNN_OK);
    start_counting();
    CHECK(anydnn_run(stream, op, prefs, set->binding, set->count) == ANYDNN_OK);
    only_launches("one-shot", line);
}

/* True when the line was one of f32 and without empty tensors. */
static bool try_line(anydnn_stream *stream, const char *line)
{
    static struct workset set;
    anydnn_problem *problem = NULL;
    anydnn_prefs prefs;
    struct engine *engine;
    bool good;
    snprintf(scenario_case, sizeof scenario_case, "%.150s", line);
    if (!CHECK(anydnn_problem_parse(line, &problem) == ANYDNN_OK)) return false;
    good = is_f32(problem);
    if (good && CHECK(workset_create(&set, stream, problem, 0) == ANYDNN_OK)) {
        prefs = *anydnn_problem_prefs(problem);
        engine = generic_engine(anydnn_stream_context(stream), &set, &prefs);
        prefs.engine = engine ? engine->name : NULL;
        if (CHECK(engine != NULL)) run_plan(stream, &set, &prefs, engine, line);
        workset_free(&set);
    }
    anydnn_problem_destroy(problem);
    return good;
}

static void all_operations(anydnn_stream *stream)
{
    char line[RANDOM_LINE];
    struct choices choices;
    int op, found;
    long i;
    size_t k;
    for (op = 1; anydnn_op_name(op); op++) {
        for (i = found = 0; i < TRIES && found < LINES; i++) {
            random_case(random_seed_of(11, i), op, &choices);
            random_line(&choices, line);
            found += try_line(stream, line);
        }
        snprintf(scenario_case, sizeof scenario_case, "%s: %d lines", anydnn_op_name(op), found);
        CHECK(found >= 5);
    }
    for (k = 0; k < sizeof engines / sizeof engines[0]; k++) {
        snprintf(scenario_case, sizeof scenario_case, "%s: %d programs for %d plans", engines[k].name, engines[k].built,
                 engines[k].plans);
        printf("%s\n", scenario_case);
        CHECK(engines[k].plans >= LINES / 3 && engines[k].built > 0 && engines[k].built <= engines[k].most);
    }
}

/* ---- machine code ---- */

/* Files of machine code in PoCL's cache. */
static int compiled(void)
{
    int count = -1;
    FILE *list = popen("find \"$POCL_CACHE_DIR\" -name '*.so' | wc -l", "r");
    if (list && fscanf(list, "%d", &count) != 1) count = -1;
    if (list) pclose(list);
    return count;
}

static void first_run(anydnn_stream *stream, const char *line)
{
    static struct workset set;
    anydnn_problem *problem = NULL;
    anydnn_plan *plan = NULL;
    int before;
    snprintf(scenario_case, sizeof scenario_case, "%.150s", line);
    CHECK(anydnn_problem_parse(line, &problem) == ANYDNN_OK && workset_create(&set, stream, problem, 0) == ANYDNN_OK);
    CHECK(anydnn_plan_create(anydnn_stream_context(stream), anydnn_problem_op(problem), anydnn_problem_prefs(problem),
                             set.binding, set.count, &plan) == ANYDNN_OK);
    before = compiled();
    CHECK(anydnn_plan_run(plan, stream, set.binding, set.count, NULL) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    CHECK(compiled() == before);
    anydnn_plan_release(plan);
    workset_free(&set);
    anydnn_problem_destroy(problem);
}

/* In a process of its own, whose driver has a fresh cache and its own ways. */
static int compile_child(void)
{
    char folder[] = "/tmp/anydnn-compiled-XXXXXX", command[64];
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL;
    if (!mkdtemp(folder)) return 1;
    setenv("POCL_CACHE_DIR", folder, 1);
    setenv("ANYDNN_CACHE_DIR", "", 1);
    unsetenv("POCL_WORK_GROUP_SPECIALIZATION");
    CHECK(anydnn_open(device, NULL, &context) == ANYDNN_OK && anydnn_stream_create(context, 0, &stream) == ANYDNN_OK);
    if (stream) {
        first_run(stream, "conv_forward x=1x1x8x8/f32 w=1x1x3x3/f32 engine=conv_direct");
        first_run(stream, "conv_forward x=1x2x200x200/f32 w=2x2x3x3/f32 engine=conv_direct");
        first_run(stream, "activation_forward x=100/f32 mode=relu");
        first_run(stream, "activation_forward x=1000000/f32 mode=relu");
    }
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
    return scenario_failed > 0;
}

static void machine_code(const char *program)
{
    char command[4096];
    snprintf(command, sizeof command, "'%s' '%s' compiled", program, device);
    snprintf(scenario_case, sizeof scenario_case, "machine code on %s", device);
    CHECK(system(command) == 0);
}

/* ---- main ---- */

int main(int argc, char **argv)
{
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL;
    if (argc > 1) device = argv[1];
    if (!opencl_shim_open(&shim)) {
        printf("libOpenCL.so.1 is not the shim: LD_LIBRARY_PATH must begin with its folder\n");
        return 1;
    }
    if (argc > 2) return compile_child();
    if (!shim.present() || anydnn_open(device, NULL, &context) != ANYDNN_OK) {
        printf("no device %s\n0 passed, 0 failed, 1 skipped\n", device);
        return 77;
    }
    if (CHECK(anydnn_stream_create(context, ANYDNN_NO_WORKSPACE, &stream) == ANYDNN_OK)) all_operations(stream);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    machine_code(argv[0]);
    return scenario_end(0);
}
