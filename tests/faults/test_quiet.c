/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/test_quiet.c: once a plan is there, a run of it allocates no host memory and touches no file, and
 * neither does a one-shot call whose plan is cached: what a stream capture and a time-critical loop rely on. Every
 * operation, by each engine's own choice, on the CPU and on an OpenCL device. `test_quiet [OpenCL device]`. What
 * drivers do inside their own calls does not count: calls are told apart by where they come from (os_shim.h). */
#include <stdio.h>

#if !defined(WITH_OS_SHIM)
int main(void)
{
    printf("the allocator cannot be replaced: sanitizers, or a C library that is not glibc\n0 passed, 0 failed, 1 "
           "skipped\n");
    return 77;
}
#else
#include "../abi/contract.h"
#include "os_shim.h"

enum { ENGINES = 64, AGAIN = 3 };

static bool is_quiet(void)
{
    return os_shim_calls(OS_SHIM_MEMORY) == 0 && os_shim_calls(OS_SHIM_FILES) == 0;
}

/* The first run may still make what later ones use again. */
static void plan_runs(const struct contract *c, const struct place *place, const char *engine)
{
    anydnn_binding rows[MAX_ROWS];
    anydnn_plan *plan = NULL;
    int i;
    CHECK_CASE(contract_plan(c, place, engine, &plan) == ANYDNN_OK, c->line);
    contract_rows(c, place, rows);
    CHECK_CASE(anydnn_plan_run(plan, place->stream, rows, c->count, NULL) == ANYDNN_OK, c->line);
    os_shim_reset();
    for (i = 0; i < AGAIN; i++)
        CHECK_CASE(anydnn_plan_run(plan, place->stream, rows, c->count, NULL) == ANYDNN_OK, c->line);
    if (!is_quiet()) printf("  engine %s\n", engine);
    CHECK_CASE(is_quiet(), c->line);
    CHECK(anydnn_stream_sync(place->stream) == ANYDNN_OK);
    anydnn_plan_release(plan);
}

static void one_shot_calls(const struct contract *c, const struct place *place)
{
    anydnn_binding rows[MAX_ROWS];
    const anydnn_op *op = anydnn_problem_op(c->problem);
    int i;
    contract_rows(c, place, rows);
    CHECK_CASE(anydnn_run(place->stream, op, NULL, rows, c->count) == ANYDNN_OK, c->line);
    os_shim_reset();
    for (i = 0; i < AGAIN; i++) CHECK_CASE(anydnn_run(place->stream, op, NULL, rows, c->count) == ANYDNN_OK, c->line);
    CHECK_CASE(is_quiet(), c->line);
    CHECK(anydnn_stream_sync(place->stream) == ANYDNN_OK);
}

/* The own choice of each engine that neither starts slowly nor wants more workspace than the stream has. */
static void each_engine(const struct contract *c, const struct place *place)
{
    static anydnn_verdict verdict[ENGINES];
    int i, k, count = 0;
    CHECK_CASE(anydnn_candidates(place->context, anydnn_problem_op(c->problem), NULL, c->row, c->count, verdict,
                                 ENGINES, &count) == ANYDNN_OK,
               c->line);
    for (i = 0; i < count && i < ENGINES; i++) {
        const size_t length = strcspn(verdict[i].engine, ":");
        for (k = 0; k < i && strncmp(verdict[k].engine, verdict[i].engine, length + 1) != 0;) k++;
        if (k == i && !(verdict[i].traits & ANYDNN_TRAIT_SLOW_START) && verdict[i].workspace_bytes <= WORKSPACE)
            plan_runs(c, place, verdict[i].engine);
    }
}

/* False where there is no such device. */
static bool on_device(const char *device)
{
    anydnn_context *context = NULL;
    struct place place;
    int i;
    if (anydnn_open(device, NULL, &context) == ANYDNN_UNSUPPORTED) return false;
    CHECK(place_make(&place, context));
    for (i = 0; i < EXAMPLES && !unit_failed; i++) {
        struct contract c;
        CHECK(contract_example(&c, i, 0));
        CHECK(anydnn_copy_in(place.stream, place.slab, c.initial, c.bytes) == ANYDNN_OK);
        each_engine(&c, &place);
        one_shot_calls(&c, &place);
        contract_free(&c);
    }
    place_free(&place);
    anydnn_close(context);
    return true;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "opencl:0";
    CHECK(on_device("cpu"));
    if (!on_device(device)) printf("no device %s: %s\n", device, anydnn_message());
    return unit_end();
}
#endif
