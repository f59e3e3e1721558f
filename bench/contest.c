/* SPDX-License-Identifier: Apache-2.0
 * bench/contest.c: see contest.h.
 *
 *   1. Everybody is made ready: plans compiled, peers' jobs prepared.
 *   2. Everybody's answer is checked, on an output that was poisoned before.
 *   3. Everybody is warmed up for a tenth of a second and measured roughly: a sample is as many calls as take about
 *      2 ms, so that gaps between launches count only where a program that keeps its queue full would see them.
 *   4. Samples are taken by turns, so that a change of clocks hits everybody alike. Each call takes the next of
 *      several sets of memory: caches are cold. Times are those of events on the device. */
#include "contest.h"
#include "points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double sample_ns = 2e6, warm_up_ns = 1e8;
static const uint64_t cold_bytes_gpu = (uint64_t)320 << 20, cold_bytes_cpu = (uint64_t)64 << 20;
static const uint64_t small_bytes = (uint64_t)48 << 20; /* of a problem that the CPU reference may recompute */

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const anydnn_status status_ = (call);                                                                          \
        if (status_ != ANYDNN_OK) return status_;                                                                      \
    } while (0)

static void drop_out(struct contestant *one, const char *why)
{
    snprintf(one->why, sizeof one->why, "%s", why);
}

static bool takes_part(const struct contestant *one)
{
    return !one->why[0];
}

/* Enqueues one call on memory set `number`; false when the contestant drops out. */
static bool run_once(struct contest *contest, struct contestant *one, int number)
{
    anydnn_binding bindings[WORKSET_ROLES];
    workset_bindings(&contest->set, number, bindings);
    if (one->peer) {
        const char *why = one->peer->run(one->job, bindings, contest->set.count);
        if (why) drop_out(one, why);
    } else if (anydnn_plan_run(one->plan, contest->set.stream, bindings, contest->set.count, NULL) != ANYDNN_OK) {
        drop_out(one, anydnn_message());
    }
    return takes_part(one);
}

/* ---------------------------------------------------------------- getting ready ------------------------------- */

static struct contestant *enter(struct contest *contest, const char *name)
{
    struct contestant *one = &contest->contestant[contest->count++];
    one->name = name;
    return one;
}

/* anydnn with an engine by name, or with its own choice. */
static void enter_engine(struct contest *contest, const char *engine)
{
    struct contestant *one = enter(contest, "anydnn");
    anydnn_prefs prefs = *anydnn_problem_prefs(contest->problem);
    anydnn_plan_info info;
    if (engine) prefs.engine = engine;
    if (prefs.workspace_limit == 0) prefs.workspace_limit = CONTEST_WORKSPACE;
    if (engine) snprintf(one->engine, sizeof one->engine, "%s", engine);
    if (anydnn_plan_create(contest->device->context, anydnn_problem_op(contest->problem), &prefs, contest->set.binding,
                           contest->set.count, &one->plan) != ANYDNN_OK) {
        drop_out(one, anydnn_message());
        return;
    }
    info.struct_size = (uint32_t)sizeof info;
    if (anydnn_plan_get_info(one->plan, &info) != ANYDNN_OK) return;
    snprintf(one->engine, sizeof one->engine, "%s", info.engine);
    one->traits = info.traits;
}

static void enter_peer(struct contest *contest, const struct opened_peer *opened)
{
    struct contestant *one = enter(contest, opened->peer->name);
    const char *why = opened->why;
    one->peer = opened->peer;
    if (!why)
        why =
            opened->peer->prepare(opened->state, contest->problem, contest->set.binding, contest->set.count, &one->job);
    if (why) drop_out(one, why);
}

static void enter_all(struct contest *contest, struct opened_peer *peers, int peer_count, bool engines)
{
    anydnn_verdict rows[MAX_CONTESTANTS];
    int found = 0, i;
    enter_engine(contest, NULL);
    if (engines && anydnn_candidates(contest->device->context, anydnn_problem_op(contest->problem),
                                     anydnn_problem_prefs(contest->problem), contest->set.binding, contest->set.count,
                                     rows, MAX_CONTESTANTS, &found) != ANYDNN_OK)
        found = 0;
    for (i = 0; i < found && i < MAX_CONTESTANTS && contest->count < MAX_CONTESTANTS - peer_count; i++)
        if (strcmp(rows[i].engine, contest->contestant[0].engine) != 0) enter_engine(contest, rows[i].engine);
    for (i = 0; i < peer_count; i++)
        if (peers[i].peer->backend == contest->device->info.backend) enter_peer(contest, &peers[i]);
}

/* ---------------------------------------------------------------- answers ------------------------------------- */

/* A convolution or matrix product: the output of set 0 against single elements in float64. */
static void check_by_points(struct contest *contest, struct contestant *one)
{
    struct workset *set = &contest->set;
    const int row = workset_find(set, points_output(anydnn_problem_op(contest->problem)->op));
    const uint64_t bytes = (uint64_t)anydnn_tensor_bytes(&set->tensor[row]);
    const anydnn_mem output = set->binding[row].mem;
    char *answer = malloc(bytes + 1), why[256];
    anydnn_status status = answer ? ANYDNN_OK : ANYDNN_OUT_OF_MEMORY;
    if (status == ANYDNN_OK)
        status = set->host[row] && workset_scalar(set, ANYDNN_BETA, 0) != 0
                     ? anydnn_copy_in(set->stream, output, set->host[row], bytes)
                     : anydnn_set(set->stream, output, 0xff, bytes); /* NaN in every floating-point dtype */
    if (status == ANYDNN_OK && run_once(contest, one, 0)) {
        status = anydnn_copy_out(set->stream, answer, output, bytes);
        if (status == ANYDNN_OK) status = anydnn_stream_sync(set->stream);
        if (status == ANYDNN_OK && !points_check(set, answer, why, sizeof why)) {
            drop_out(one, why);
            one->wrong = true;
        }
    }
    if (status != ANYDNN_OK) {
        drop_out(one, anydnn_message());
        one->wrong = true;
    }
    free(answer);
}

/* Any other operation: the cross-check of `anydnn check`, where the problem is small enough for the CPU. */
static void check_by_reference(struct contest *contest)
{
    struct device cpu;
    struct trial trial;
    int i;
    if (!device_open(&cpu, "cpu")) return;
    if (trial_init(&trial, contest->problem, anydnn_problem_seed(contest->problem), false, 1, 0) == ANYDNN_OK) {
        anydnn_status status = trial_fill(&trial, &cpu);
        if (status == ANYDNN_OK) status = trial_reference(&trial, &cpu);
        if (status == ANYDNN_OK) status = trial_tolerance(&trial, &cpu);
        for (i = 0; status == ANYDNN_OK && i < contest->count; i++) {
            struct contestant *one = &contest->contestant[i];
            const enum placement placement = trial_is_placed(&trial) ? PLACE_AS_GIVEN : PLACE_ALIGNED;
            anydnn_verdict engine;
            if (one->peer || !takes_part(one)) continue;
            memset(&engine, 0, sizeof engine);
            memcpy(engine.engine, one->engine, sizeof engine.engine);
            engine.traits = one->traits;
            one->wrong = !trial_run(&trial, contest->device, &engine, placement, one->why, sizeof one->why);
            if (!one->wrong) one->why[0] = 0;
        }
        contest->checked = status == ANYDNN_OK;
        trial_free(&trial);
    }
    device_close(&cpu);
}

static void check_answers(struct contest *contest)
{
    int i;
    if (!points_known(anydnn_problem_op(contest->problem)->op)) {
        if (contest->set.bytes <= small_bytes) check_by_reference(contest);
        return;
    }
    for (i = 0; i < contest->count; i++)
        if (takes_part(&contest->contestant[i])) check_by_points(contest, &contest->contestant[i]);
    contest->checked = true;
}

/* ---------------------------------------------------------------- times --------------------------------------- */

/* Time of `calls` calls; -1 when the contestant drops out. */
static double time_calls(struct contest *contest, struct contestant *one, int calls, int *next,
                         anydnn_event *const event[2])
{
    double elapsed = -1;
    int i;
    if (anydnn_event_record(event[0], contest->set.stream) != ANYDNN_OK) drop_out(one, anydnn_message());
    for (i = 0; takes_part(one) && i < calls; i++) run_once(contest, one, (*next)++);
    if (!takes_part(one)) return -1;
    if (anydnn_event_record(event[1], contest->set.stream) != ANYDNN_OK ||
        anydnn_event_elapsed(event[0], event[1], &elapsed) != ANYDNN_OK) {
        drop_out(one, anydnn_message());
        return -1;
    }
    return elapsed;
}

/* Result: nanoseconds of a call, roughly. */
static double warm_up(struct contest *contest, struct contestant *one, int *next, anydnn_event *const event[2])
{
    double each = time_calls(contest, one, 1, next, event), spent = each;
    int calls = 1;
    while (takes_part(one) && spent < warm_up_ns) {
        const double elapsed = time_calls(contest, one, calls, next, event);
        each = elapsed / calls;
        spent += fmax(elapsed, 1000);
        if (elapsed < warm_up_ns / 8) calls *= 2;
    }
    one->calls = each > 0 && each * 4000 > sample_ns ? (int)fmax(1, ceil(sample_ns / each)) : 4000;
    return each;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(struct contestant *one)
{
    double sorted[MAX_SAMPLES];
    const int n = one->samples;
    if (!takes_part(one) || n == 0) return;
    memcpy(sorted, one->sample, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    one->median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    one->low = sorted[(n - 1) / 10];
    one->high = sorted[n - 1 - (n - 1) / 10];
}

static void sample_all(struct contest *contest, int samples, int *next, anydnn_event *const event[2])
{
    int i, sample;
    for (sample = 0; sample < samples; sample++)
        for (i = 0; i < contest->count; i++) {
            struct contestant *one = &contest->contestant[i];
            double elapsed;
            if (!takes_part(one)) continue;
            elapsed = time_calls(contest, one, one->calls, next, event);
            if (elapsed >= 0) one->sample[one->samples++] = elapsed / one->calls;
        }
    for (i = 0; i < contest->count; i++) summarise(&contest->contestant[i]);
}

static anydnn_status time_all(struct contest *contest, const struct contest_options *options)
{
    anydnn_event *event[2] = { NULL, NULL };
    double round_ns = 0;
    int next = 0, samples, i;
    anydnn_status status = anydnn_event_create(contest->device->context, &event[0]);
    if (status == ANYDNN_OK) status = anydnn_event_create(contest->device->context, &event[1]);
    for (i = 0; status == ANYDNN_OK && i < contest->count; i++) {
        struct contestant *one = &contest->contestant[i];
        if (takes_part(one)) round_ns += warm_up(contest, one, &next, event) * one->calls;
    }
    if (status == ANYDNN_OK && round_ns > 0) {
        samples = (int)fmin(MAX_SAMPLES, options->seconds * 1e9 / round_ns);
        /* Twenty at least, unless that would take minutes. */
        if (samples < LEAST_SAMPLES) samples = round_ns * LEAST_SAMPLES > 6e10 ? 3 : LEAST_SAMPLES;
        sample_all(contest, samples, &next, event);
    }
    anydnn_event_destroy(event[0]);
    anydnn_event_destroy(event[1]);
    return status;
}

anydnn_status contest_run(struct contest *contest, struct device *device, const anydnn_problem *problem,
                          struct opened_peer *peers, int peer_count, const struct contest_options *options,
                          void (*progress)(const char *what))
{
    memset(contest, 0, sizeof *contest);
    contest->device = device;
    contest->problem = problem;
    if (progress) progress("data");
    TRY(workset_create(&contest->set, device->stream, problem, device->info.is_cpu ? cold_bytes_cpu : cold_bytes_gpu));
    if (progress) progress("plans");
    enter_all(contest, peers, peer_count, options->engines);
    if (progress) progress("answers");
    if (options->check) check_answers(contest);
    if (progress) progress("times");
    return time_all(contest, options);
}

void contest_free(struct contest *contest)
{
    int i;
    for (i = 0; i < contest->count; i++) {
        struct contestant *one = &contest->contestant[i];
        if (one->peer && one->job) one->peer->finish(one->job);
        anydnn_plan_release(one->plan);
    }
    workset_free(&contest->set);
}
