/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_tune.c: the tuning store (parser, bounds, revisions, merging, files), the comparison of results, and
 * anydnn_find on the CPU and on the first OpenCL device. */
#include "unit.h"

#include "common/agree.h"
#include "common/os.h"
#include "common/select.h"
#include "common/tune.h"
#include <anydnn/anydnn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parser ---- */

struct seen {
    int count;
    struct adn_tuned last;
    char key[ADN_TUNING_KEY];
};

static bool see(void *user, const struct adn_tuned *tuned, const char *key)
{
    struct seen *seen = user;
    seen->count++;
    seen->last = *tuned;
    strcpy(seen->key, key);
    return true;
}

/* Parses a copy of exactly its size, so that a memory checker sees any read behind it. */
static size_t parse(const char *text, size_t size, struct seen *seen)
{
    char *copy = malloc(size ? size : 1);
    size_t ignored;
    memset(seen, 0, sizeof *seen);
    if (!copy) return SIZE_MAX;
    memcpy(copy, text, size);
    ignored = adn_tuning_parse(copy, size, see, seen);
    free(copy);
    return ignored;
}

static void lines(void)
{
    static const char *const good[] = {
        "a:1x2 7 1234 cpu:x | fill y=4/f32\n",
        "# a comment\n # another 1 2 dev | fill y=4\n\n   \na:1x2 7 1234 cpu:x | fill y=4/f32\n",
        "  a:1x2\t7  1234   cpu:x   |   fill y=4/f32  \r\n",
    };
    static const char *const bad[] = {
        "a\n",
        "a 1\n",
        "a 1 2\n",
        "a 1 2 dev\n",
        "a 1 2 dev |\n",
        "a 1 2 dev | \n",
        "a 1 2 dev fill y=4\n",
        "a -1 2 dev | fill y=4\n",
        "a 1 0 dev | fill y=4\n",
        "a 1 -2 dev | fill y=4\n",
        "a 1 2.5 dev | fill y=4\n",
        "a 4294967296 2 dev | fill y=4\n",
        "a 1 9999999999999999999 dev | fill y=4\n",
        "a 1 2 dev | fill\001y=4\n",
        "a 1 2 dev | fill y=4", /* cut off */
        "an_engine_id_of_more_than_sixty_three_characters_is_no_id_of_this_library 1 2 dev | fill y=4\n",
    };
    static const char whole[] = "a 1 2 cpu:x | fill y=4\nnonsense\nb 3 4 cpu:x | fill y=5\n";
    struct seen seen;
    char *big = malloc(20000);
    size_t i;
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK_CASE(parse(good[i], strlen(good[i]), &seen) == 0 && seen.count == 1, good[i]);
        CHECK_CASE(!strcmp(seen.last.engine, "a:1x2") && seen.last.revision == 7 && seen.last.ns == 1234, good[i]);
        CHECK_CASE(!strcmp(seen.key, "cpu:x | fill y=4/f32"), seen.key);
    }
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_CASE(parse(bad[i], strlen(bad[i]), &seen) == 1 && seen.count == 0, bad[i]);
    CHECK(parse(whole, sizeof whole - 1, &seen) == 1 && seen.count == 2 && !strcmp(seen.last.engine, "b"));
    for (i = 0; i < sizeof whole; i++) CHECK(parse(whole, i, &seen) <= 2);
    CHECK(parse("a 1 2 d | f\0ll\n", 15, &seen) == 1);
    CHECK(parse("", 0, &seen) == 0);
    memset(big, 'x', 20000); /* a line too long, then a good one */
    memcpy(big + 20000 - sizeof whole, "\na 1 2 cpu:x | fill y=4\nnonsense\nb 3 4 cpu:x | fill y=5\n", sizeof whole);
    CHECK(parse(big, 20000, &seen) == 2 && seen.count == 2);
    free(big);
}

/* ---- store ---- */

static void table(void)
{
    struct adn_tuning *tuning = adn_tuning_create();
    struct adn_tuned a = { "a", 1, 10 }, b = { "b", 1, 20 }, got;
    char key[64];
    int i, kept = 0;
    CHECK(!adn_tuning_get(tuning, "k", &got) && adn_tuning_count(tuning) == 0);
    CHECK(adn_tuning_put(tuning, "k", &a) && adn_tuning_put(tuning, "k", &b) && adn_tuning_count(tuning) == 1);
    CHECK(adn_tuning_get(tuning, "k", &got) && got.ns == 20 && !strcmp(got.engine, "b"));
    for (i = 0; i < ADN_TUNING_ENTRIES + 10; i++) {
        snprintf(key, sizeof key, "key %d", i);
        kept += adn_tuning_put(tuning, key, &a);
    }
    CHECK(kept == ADN_TUNING_ENTRIES - 1 && adn_tuning_count(tuning) == ADN_TUNING_ENTRIES);
    CHECK(adn_tuning_put(tuning, "k", &a) && adn_tuning_get(tuning, "k", &got) && got.ns == 10);
    adn_tuning_destroy(tuning);
    adn_tuning_destroy(NULL);
}

/* ---- comparison ---- */

static void comparison(void)
{
    const struct adn_closeness sums = { 100, 0, 0 }, loose = { 1, 0, 1 };
    const int64_t dims[2] = { 2, 2 };
    anydnn_tensor t = anydnn_tensor_packed(ANYDNN_F32, 2, dims), empty = anydnn_tensor_1d(ANYDNN_F32, 0);
    float want[5] = { 1000, -2, 0, NAN }, got[5] = { 1000, -2, 0, NAN };
    int32_t whole[4] = { 1, 2, 3, 4 }, other[4] = { 1, 2, 3, 5 };
    uint16_t half[4] = { 0x3c00, 0, 0x7c00, 0xfe00 }, near[4] = { 0x3c01, 0x8000, 0x7c00, 0x7e00 };
    int64_t at;
    double w, g;
    CHECK(adn_agrees(&t, want, got, &sums, &at, &w, &g));
    got[1] = -2.0005f, got[2] = 1e-4f; /* rounding of the thousand */
    CHECK(adn_agrees(&t, want, got, &sums, &at, &w, &g));
    got[1] = -2.5f;
    CHECK(!adn_agrees(&t, want, got, &sums, &at, &w, &g) && at == 1 && w == -2 && g == -2.5);
    got[1] = -2, got[3] = 0;
    CHECK(!adn_agrees(&t, want, got, &sums, &at, &w, &g) && at == 3);
    want[3] = INFINITY, got[3] = -INFINITY;
    CHECK(!adn_agrees(&t, want, got, &sums, &at, &w, &g));
    t.strides[0] = 3; /* elements 0, 1, 3, 4: a gap may hold anything */
    want[3] = got[3] = 7, got[2] = 99;
    want[4] = got[4] = 8;
    CHECK(adn_agrees(&t, want, got, &sums, &at, &w, &g));
    t = anydnn_tensor_packed(ANYDNN_I32, 2, dims);
    CHECK(!adn_agrees(&t, whole, other, &sums, &at, &w, &g) && adn_agrees(&t, whole, other, &loose, &at, &w, &g));
    t = anydnn_tensor_packed(ANYDNN_F16, 2, dims);
    CHECK(adn_agrees(&t, half, near, &sums, &at, &w, &g));
    near[0] = 0x3c10;
    CHECK(!adn_agrees(&t, half, near, &sums, &at, &w, &g) && at == 0 && w == 1);
    CHECK(adn_agrees(&empty, want, got, &sums, &at, &w, &g));
}

/* ---- find ---- */

static anydnn_context *context;
static anydnn_stream *stream;
static const char path[] = "test_tune.tuning", other_path[] = "test_tune_other.tuning";

static const struct adn_engine *engine_named(int op, const char *id)
{
    const struct adn_engine *engine;
    const size_t length = strcspn(id, ":");
    int i;
    for (i = 0; (engine = adn_engine_at(context->backend, op, i)) != NULL; i++)
        if (strlen(engine->name) == length && !memcmp(engine->name, id, length)) return engine;
    return NULL;
}

static int row_of(const anydnn_verdict *rows, int count, const char *id)
{
    int i;
    for (i = 0; i < count; i++)
        if (!strcmp(rows[i].engine, id)) return i;
    return -1;
}

struct rows { /* a softmax: two parameter sets on OpenCL, and quick to compile */
    anydnn_softmax op;
    anydnn_tensor t;
    anydnn_mem memory[2];
    anydnn_binding row[2];
};
enum { SIZE = 48, ELEMENTS = SIZE * SIZE };

static void rows_make(struct rows *m)
{
    const int64_t dims[2] = { SIZE, SIZE };
    float data[ELEMENTS];
    int i;
    m->op = anydnn_softmax_init();
    m->t = anydnn_tensor_packed(ANYDNN_F32, 2, dims);
    for (i = 0; i < 2; i++) CHECK(anydnn_alloc(context, sizeof data, &m->memory[i]) == ANYDNN_OK);
    for (i = 0; i < ELEMENTS; i++) data[i] = (float)(i * 7 % 23 - 11) / 8;
    CHECK(anydnn_copy_in(stream, m->memory[0], data, sizeof data) == ANYDNN_OK);
    CHECK(anydnn_set(stream, m->memory[1], 0x5a, sizeof data) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    m->row[0] = anydnn_bind(ANYDNN_X, &m->t, m->memory[0]);
    m->row[1] = anydnn_bind(ANYDNN_Y, &m->t, m->memory[1]);
}

static void rows_free(struct rows *m)
{
    int i;
    for (i = 0; i < 2; i++) CHECK(anydnn_free(context, m->memory[i]) == ANYDNN_OK);
}

static void chosen(struct rows *m, const anydnn_prefs *prefs, char engine[64])
{
    anydnn_plan_info info = { (uint32_t)sizeof info };
    anydnn_plan *plan;
    strcpy(engine, "none");
    if (anydnn_plan_create(context, (const anydnn_op *)&m->op, prefs, m->row, 2, &plan) != ANYDNN_OK) return;
    CHECK(anydnn_plan_get_info(plan, &info) == ANYDNN_OK);
    strcpy(engine, info.engine);
    anydnn_plan_release(plan);
}

/* Another candidate than the automatic choice, with parameters where there are any. */
static void remembered_by_hand(struct rows *m, const anydnn_verdict *rows, int count)
{
    struct adn_problem p;
    struct adn_tuned tuned = { "", 0, 1 };
    char key[ADN_TUNING_KEY], before[64], after[64];
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    const char *loser = rows[count - 1].engine;
    if (count < 2) return;
    strcpy(tuned.engine, loser);
    tuned.revision = engine_named(ANYDNN_OP_SOFTMAX_FORWARD, loser)->revision;
    CHECK(adn_problem_init(&p, (const anydnn_op *)&m->op, NULL, m->row, 2, false) == ANYDNN_OK);
    adn_problem_settle(&p, &context->options);
    CHECK(adn_tuning_key(context, &p, key, sizeof key) && adn_tuning_put(context->tuning, key, &tuned));
    chosen(m, NULL, after);
    CHECK_CASE(!strcmp(after, loser), after);
    prefs.engine = rows[0].engine; /* a name wins */
    chosen(m, &prefs, after);
    CHECK_CASE(!strcmp(after, rows[0].engine), after);
    tuned.revision += 1; /* another revision: as if nothing were remembered */
    CHECK(adn_tuning_put(context->tuning, key, &tuned));
    chosen(m, NULL, before);
    CHECK(row_of(rows, count, before) >= 0);
    strcpy(tuned.engine, "no_such_engine:1x1");
    CHECK(adn_tuning_put(context->tuning, key, &tuned));
    chosen(m, NULL, after);
    CHECK_CASE(!strcmp(before, after), after);
    tuned.revision = engine_named(ANYDNN_OP_SOFTMAX_FORWARD, rows[0].engine)->revision;
    snprintf(tuned.engine, sizeof tuned.engine, "%.*s:no_such_parameters", (int)strcspn(rows[0].engine, ":"), rows[0].engine);
    CHECK(adn_tuning_put(context->tuning, key, &tuned));
    chosen(m, NULL, after);
    CHECK_CASE(row_of(rows, count, after) >= 0, after);
}

static void find_rows(void)
{
    anydnn_verdict rows[ADN_MAX_CANDIDATES], known[ADN_MAX_CANDIDATES];
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    struct rows m;
    unsigned char after[ELEMENTS * 4];
    char engine[64];
    int count = -1, all = -1, i, same = 0;
    rows_make(&m);
    CHECK(anydnn_candidates(context, (const anydnn_op *)&m.op, NULL, m.row, 2, known, ADN_MAX_CANDIDATES, &all) == ANYDNN_OK && all > 0);
    CHECK(anydnn_find(stream, (const anydnn_op *)&m.op, NULL, m.row, 2, 30e6, rows, ADN_MAX_CANDIDATES, &count) == ANYDNN_OK);
    CHECK(count > 0 && count <= all);
    for (i = 0; i < count; i++) {
        CHECK_CASE(row_of(known, all, rows[i].engine) >= 0, rows[i].engine);
        CHECK(rows[i].status == ANYDNN_OK && rows[i].estimated_ns >= 0);
        CHECK(i == 0 || rows[i].estimated_ns >= rows[i - 1].estimated_ns);
    }
    CHECK(anydnn_copy_out(stream, after, m.memory[1], sizeof after) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    for (i = 0; i < (int)sizeof after; i++) same += after[i] == 0x5a;
    CHECK(same == (int)sizeof after); /* the caller's output is not touched */
    CHECK(adn_tuning_count(context->tuning) > 0);
    chosen(&m, NULL, engine);
    CHECK_CASE(!strcmp(engine, rows[0].engine), engine);
    for (i = 0; i < count; i++) { /* a name wins over what was measured */
        prefs.engine = rows[i].engine;
        chosen(&m, &prefs, engine);
        CHECK_CASE(!strcmp(engine, rows[i].engine), engine);
    }
    CHECK(anydnn_find(stream, (const anydnn_op *)&m.op, &prefs, m.row, 2, 1e6, known, 1, &all) == ANYDNN_OK && all == 1);
    CHECK(!strcmp(known[0].engine, prefs.engine));
    chosen(&m, NULL, engine);
    CHECK_CASE(!strcmp(engine, rows[0].engine), engine); /* a pinned find decides nothing */
    CHECK(anydnn_run(stream, (const anydnn_op *)&m.op, NULL, m.row, 2) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    remembered_by_hand(&m, rows, count);
    rows_free(&m);
}

/* In place, with a mode that makes repeated runs drift: what is bound stays as it is. */
static void find_in_place(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 1000);
    anydnn_elementwise op = anydnn_scale_init();
    anydnn_binding row[2];
    anydnn_verdict rows[8];
    float data[1000], after[1000];
    anydnn_mem y;
    int count = 0, i;
    for (i = 0; i < 1000; i++) data[i] = (float)i;
    CHECK(anydnn_alloc(context, sizeof data + 4, &y) == ANYDNN_OK);
    row[0] = anydnn_bind(ANYDNN_Y, &t, anydnn_mem_at(y, 4));
    row[1] = anydnn_bind_value(ANYDNN_ALPHA, 3);
    CHECK(anydnn_copy_in(stream, row[0].mem, data, sizeof data) == ANYDNN_OK);
    CHECK(anydnn_find(stream, (const anydnn_op *)&op, NULL, row, 2, 2e6, rows, 8, &count) == ANYDNN_OK && count > 0);
    CHECK(anydnn_copy_out(stream, after, row[0].mem, sizeof after) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    CHECK(memcmp(data, after, sizeof data) == 0);
    CHECK(anydnn_free(context, y) == ANYDNN_OK);
}

/* An engine that is fast because it writes nothing must not win, and neither may one that starts slowly. */
static bool plan_anything(const struct adn_problem *p, const struct adn_device *device, const char *params,
                          struct adn_engine_plan *plan, struct adn_refusal *why)
{
    (void)p, (void)device, (void)params, (void)why;
    plan->cost_ns = 1;
    return true;
}

static anydnn_status run_nothing(const anydnn_plan *plan, anydnn_stream *on, const struct adn_arguments *arguments)
{
    (void)plan, (void)on, (void)arguments;
    return ANYDNN_OK;
}

static const struct adn_engine idle = { .name = "idle", .ops = ADN_OP_BIT(ANYDNN_OP_SOFTMAX_FORWARD),
                                        .traits = ANYDNN_TRAIT_DETERMINISTIC, .revision = 1, .plan = plan_anything,
                                        .run = run_nothing };
static const struct adn_engine sleepy = { .name = "sleepy", .ops = ADN_OP_BIT(ANYDNN_OP_SOFTMAX_FORWARD),
                                          .traits = ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_SLOW_START, .revision = 1,
                                          .plan = plan_anything, .run = run_nothing };

static void count_warnings(void *user, anydnn_log_level level, const char *text)
{
    if (level == ANYDNN_LOG_WARNING && strstr(text, "idle is dropped")) ++*(int *)user;
}

static void find_wrong(void)
{
    const struct adn_backend *backend = context->backend;
    struct adn_backend fake = *backend;
    const struct adn_engine *engines[4] = { &idle, &sleepy, adn_engine_at(backend, ANYDNN_OP_SOFTMAX_FORWARD, 0), NULL };
    anydnn_verdict rows[8];
    struct rows m;
    int count = 0, warnings = 0;
    char engine[64];
    fake.engines = engines;
    context->backend = &fake;
    context->options.log = count_warnings;
    context->options.log_user = &warnings;
    rows_make(&m);
    m.op.mode = 1; /* a problem that nothing is remembered of */
    chosen(&m, NULL, engine);
    CHECK_CASE(!strcmp(engine, "idle"), engine);
    CHECK(anydnn_find(stream, (const anydnn_op *)&m.op, NULL, m.row, 2, 1e6, rows, 8, &count) == ANYDNN_OK);
    CHECK(count == 1 && row_of(rows, count, "idle") < 0 && row_of(rows, count, "sleepy") < 0 && warnings == 1);
    chosen(&m, NULL, engine);
    CHECK_CASE(!strcmp(engine, rows[0].engine), engine);
    rows_free(&m);
    context->options.log = NULL;
    context->backend = backend;
}

/* An engine whose estimate says that it takes too long is not run at all, one that turns out slow is not run again. */
enum { SLOW_NS = 20000000 };
static int slow_runs, endless_runs;

static bool plan_endless(const struct adn_problem *p, const struct adn_device *device, const char *params,
                         struct adn_engine_plan *plan, struct adn_refusal *why)
{
    (void)p, (void)device, (void)params, (void)why;
    plan->cost_ns = 1e15;
    return true;
}

static anydnn_status run_slow(const anydnn_plan *plan, anydnn_stream *on, const struct adn_arguments *arguments)
{
    const int64_t end = adn_time_ns() + SLOW_NS;
    (void)on, (void)arguments;
    if (plan->body.cost_ns > 1) endless_runs++;
    else slow_runs++;
    while (adn_time_ns() < end) continue;
    return ANYDNN_OK;
}

static const struct adn_engine slow = { .name = "slow", .ops = ADN_OP_BIT(ANYDNN_OP_SOFTMAX_FORWARD),
                                        .traits = ANYDNN_TRAIT_DETERMINISTIC, .revision = 1, .plan = plan_anything,
                                        .run = run_slow };
static const struct adn_engine endless = { .name = "endless", .ops = ADN_OP_BIT(ANYDNN_OP_SOFTMAX_FORWARD),
                                           .traits = ANYDNN_TRAIT_DETERMINISTIC, .revision = 1, .plan = plan_endless,
                                           .run = run_slow };

/* As the plain engine, but chosen first. */
static struct adn_engine quick;
static bool plan_quick(const struct adn_problem *p, const struct adn_device *device, const char *params,
                       struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const bool good = engine_named(ANYDNN_OP_SOFTMAX_FORWARD, "softmax_ref")->plan(p, device, params, plan, why);
    plan->cost_ns = 1;
    return good;
}

static void find_in_time(void)
{
    const struct adn_backend *backend = context->backend;
    struct adn_backend fake = *backend;
    const struct adn_engine *plain = adn_engine_at(backend, ANYDNN_OP_SOFTMAX_FORWARD, 0);
    const struct adn_engine *engines[5] = { &quick, &slow, &endless, plain, NULL };
    anydnn_verdict rows[8];
    struct rows m;
    int count = 0;
    quick = *plain;
    quick.name = "quick";
    quick.plan = plan_quick;
    fake.engines = engines;
    context->backend = &fake;
    rows_make(&m);
    m.op.mode = 1;
    CHECK(anydnn_find(stream, (const anydnn_op *)&m.op, NULL, m.row, 2, 1e9, rows, 8, &count) == ANYDNN_OK);
    CHECK(slow_runs > 0 && slow_runs <= 2 && endless_runs == 0);
    CHECK(row_of(rows, count, "slow") == count - 1 && row_of(rows, count, "endless") < 0);
    CHECK(row_of(rows, count, "quick") >= 0);
    rows_free(&m);
    context->backend = backend;
}

/* ---- files ---- */

static char *read_text(const char *name)
{
    size_t size = 0;
    char *bytes = adn_file_read(name, 1 << 20, &size), *text = calloc(size + 1, 1);
    if (bytes && text) memcpy(text, bytes, size);
    free(bytes);
    return text;
}

static void write_text(const char *name, const char *text) { CHECK(adn_file_write(name, text, strlen(text))); }

static void files(const char *device)
{
    struct rows m;
    anydnn_verdict rows[ADN_MAX_CANDIDATES];
    anydnn_context *second = NULL;
    char key[ADN_TUNING_KEY], line[2 * ADN_TUNING_KEY + 400], *text;
    struct adn_problem p;
    struct adn_tuned tuned;
    int count;
    rows_make(&m);
    adn_file_remove(path);
    CHECK(anydnn_find(stream, (const anydnn_op *)&m.op, NULL, m.row, 2, 5e6, rows, ADN_MAX_CANDIDATES, &count) == ANYDNN_OK);
    CHECK(anydnn_tuning_save(context, path) == ANYDNN_OK && anydnn_open(device, NULL, &second) == ANYDNN_OK);
    CHECK(adn_tuning_count(second->tuning) == 0 && anydnn_tuning_load(second, path) == ANYDNN_OK);
    CHECK(adn_tuning_count(second->tuning) == adn_tuning_count(context->tuning));

    /* Merging: other devices and what is no entry stay, what is no text goes, the faster of two stays unless it is of
     * another revision. */
    CHECK(adn_problem_init(&p, (const anydnn_op *)&m.op, NULL, m.row, 2, false) == ANYDNN_OK);
    adn_problem_settle(&p, &context->options);
    CHECK(adn_tuning_key(context, &p, key, sizeof key) && adn_tuning_get(context->tuning, key, &tuned));
    snprintf(line, sizeof line, "other:1 1 5 moon:x | fill y=4\nnonsense\n# mine  \n\n\001\nnonsense\n%s %u 1 %s\n# more\ncut off",
             tuned.engine, tuned.revision, key);
    write_text(other_path, line);
    for (count = 0; count < 2; count++) CHECK(anydnn_tuning_save(context, other_path) == ANYDNN_OK);
    text = read_text(other_path);
    snprintf(line, sizeof line, "%s %u 1 %s\n", tuned.engine, tuned.revision, key);
    CHECK(strstr(text, line) && strstr(text, "other:1 1 5 moon:x | fill y=4\n"));
    CHECK_CASE(strncmp(text, "# anydnn tuning", 15) == 0 && strstr(text, "PROBLEM\nnonsense\n# mine\n# more\n") ==
               strstr(text, "PROBLEM\n"), text);
    CHECK(strstr(strstr(text, "nonsense") + 1, "nonsense") == NULL && !strchr(text, 1) && !strstr(text, "cut off"));
    free(text);
    snprintf(line, sizeof line, "%s %u 1 %s\n", tuned.engine, tuned.revision + 1, key);
    write_text(other_path, line);
    CHECK(anydnn_tuning_save(context, other_path) == ANYDNN_OK);
    text = read_text(other_path);
    snprintf(line, sizeof line, "%s %u %llu %s\n", tuned.engine, tuned.revision, (unsigned long long)tuned.ns, key);
    CHECK_CASE(strstr(text, line), text);
    free(text);

    /* A corrupt file costs nothing but itself. */
    write_text(other_path, "\x01\x02 garbage\n\n| | | |\n");
    count = adn_tuning_count(second->tuning);
    CHECK(anydnn_tuning_load(second, other_path) == ANYDNN_OK && adn_tuning_count(second->tuning) == count);
    snprintf(line, sizeof line, "%s %u 1 %s\n%s %u 1 %s\n", tuned.engine, tuned.revision + 1, key, "unheard_of", 1u, key);
    CHECK(adn_tuning_add(second, line, strlen(line)) == 2);
    CHECK(anydnn_tuning_load(second, "no such file") == ANYDNN_INVALID);
    CHECK(anydnn_tuning_save(second, "no such folder/file") == ANYDNN_INVALID);
    anydnn_close(second);
    adn_file_remove(path);
    adn_file_remove(other_path);
    rows_free(&m);
}

static void on_device(const char *device)
{
    if (anydnn_open(device, NULL, &context) != ANYDNN_OK) {
        printf("%s is not here: %s\n", device, anydnn_message());
        return;
    }
    CHECK(anydnn_stream_create(context, 1 << 20, &stream) == ANYDNN_OK);
    find_rows();
    find_in_place();
    if (context->backend == &adn_cpu_backend) find_wrong();
    files(device);
    if (context->backend == &adn_cpu_backend) find_in_time(); /* leaves an engine in the store that no file may name */
    anydnn_stream_destroy(stream);
    anydnn_close(context);
}

int main(void)
{
    lines();
    table();
    comparison();
    on_device("cpu");
    on_device("opencl:0");
    return unit_end();
}
