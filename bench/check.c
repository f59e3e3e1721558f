/* SPDX-License-Identifier: Apache-2.0
 * bench/check.c: `anydnn check`: compares problem lines on devices with the CPU reference.
 *
 * Lines come from the command line or from case files. Words before a line in a file:
 *   !unsupported:KIND  no engine of that kind of device (cpu, cuda, opencl) takes it: a success fails, too
 *   !invalid           the library must refuse it as INVALID, on every device
 *   !full              runs only with --full
 * Every engine that takes a line is run on the line's own alpha and beta and on others (all classes with --full), in
 * memory that is aligned and promised to be, and in memory that is not. One count for each line, device and engine.
 * With --random the lines are drawn (random.h), and each that fails is made smaller while it fails. */
#include "commands.h"
#include "harness.h"
#include "junit.h"
#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ENGINES = 128, LINE = 4096 };

struct session {
    const char *device_word, *engine, *junit_path;
    bool full, list_skips, verbose, has_seed;
    uint64_t seed;
    long shard, shards;
    struct device devices[DEVICES], reference;
    int device_count;
    long line_number, passed, failed, skipped;
    bool progress, single, malformed;
    int files; /* their names are argv[1], ... */
    const char *line; /* the one in hand, as it was given */
    struct junit *junit;
    long random_cases;
    double random_seconds;
    int random_op;
    /* Of a line that is made smaller: where it failed first. Nothing else counts then, and nothing is printed. */
    bool shrinking;
    long failed_before;
    char failed_device[64], failed_engine[64];
};

/* What the words before a line say. */
struct expectation {
    bool invalid, full;
    char unsupported[3][16];
    int unsupported_count;
};

static const char *kind_of(const struct device *d)
{
    return d->info.backend == ANYDNN_BACKEND_CPU ? "cpu" : d->info.backend == ANYDNN_BACKEND_CUDA ? "cuda" : "opencl";
}

static void fail(struct session *s, const char *device, const char *engine, uint64_t seed, const char *line,
                 const char *why)
{
    char repeat[LINE + 256];
    if (s->failed++ == s->failed_before) {
        snprintf(s->failed_device, sizeof s->failed_device, "%s", device);
        snprintf(s->failed_engine, sizeof s->failed_engine, "%s", engine ? engine : "");
    }
    if (s->shrinking) return;
    snprintf(repeat, sizeof repeat, "anydnn check --device %s%s%s --seed %llu '%s'", device, engine ? " --engine " : "",
             engine ? engine : "", (unsigned long long)seed, line);
    junit_case(s->junit, device, engine, s->line ? s->line : line, JUNIT_FAILED, why, repeat);
    printf("FAILED: %s\n        %s\n", repeat, why);
    fflush(stdout);
}

static void pass(struct session *s, const char *device, const char *engine, const char *line)
{
    s->passed++;
    if (!s->shrinking) junit_case(s->junit, device, engine, line, JUNIT_PASSED, NULL, NULL);
}

/* ---- Variants of a line ---- */

struct scale {
    bool use;
    double alpha, beta;
};

/* The line as it is, and with other alpha and beta: one by its seed, or with --full one of each class. */
static int scales_of(const struct session *s, const struct trial *t, uint64_t seed, struct scale scales[6])
{
    static const struct scale all[] = {
        { true, 1, 0.5 }, { true, 1, 1 }, { true, 0.75, 0 }, { true, -1.5, 0.5 }, { true, 0, 0.5 }
    };
    const int count = (int)(sizeof all / sizeof *all);
    int i;
    scales[0].use = false;
    if (!trial_is_scaled(t) || trial_operand(t, ANYDNN_ALPHA) || trial_operand(t, ANYDNN_BETA)) return 1;
    if (!s->full) {
        scales[1] = all[random_bits(seed, 77) % (uint64_t)count];
        return 2;
    }
    for (i = 0; i < count; i++) scales[i + 1] = all[i];
    return count + 1;
}

static const char *wanted_engine(const struct session *s, const struct trial *t) { return s->engine ? s->engine : t->engine; }

/* Appends the candidates that differ from every row in their parameters. */
static int add_parameters(const struct trial *t, struct device *d, const struct layout *layout, anydnn_verdict *rows,
                          int count)
{
    anydnn_verdict candidates[ENGINES];
    int all = 0, i, j;
    if (anydnn_candidates(d->context, &t->op.head, &t->prefs, layout->binding, layout->count, candidates, ENGINES, &all))
        return count;
    for (i = 0; i < all && i < ENGINES && count < ENGINES; i++) {
        for (j = 0; j < count && strcmp(rows[j].engine, candidates[i].engine) != 0; j++) continue;
        if (j == count) rows[count++] = candidates[i];
    }
    return count;
}

/* Verdicts of all engines on the trial in one placement: their number, or -1 with the status. An engine that is asked
 * for with parameters gets them. Other parameter sets than the engines' own choices are tried on GPUs, and everywhere
 * with --full: compiling each of them for a CPU takes seconds. */
static int ask(const struct session *s, const struct trial *t, struct device *d, enum placement placement,
               anydnn_verdict *rows, anydnn_status *status)
{
    const char *wanted = wanted_engine(s, t);
    struct layout layout;
    anydnn_prefs prefs = t->prefs;
    int count = 0;
    trial_layout(t, placement, anydnn_mem_none(), &layout);
    if (strchr(wanted, ':')) prefs.engine = wanted;
    *status = anydnn_explain(d->context, &t->op.head, &prefs, layout.binding, layout.count, rows, ENGINES, &count);
    if (*status != ANYDNN_OK) return -1;
    if (count > ENGINES) count = ENGINES;
    return !prefs.engine && (s->full || !d->info.is_cpu) ? add_parameters(t, d, &layout, rows, count) : count;
}

/* One engine of a device over all variants of a line. */
struct tally {
    char engine[64], why[256];
    bool ran, failed;
};

static struct tally *tally_of(struct tally *tallies, int *count, const char *engine)
{
    int i;
    for (i = 0; i < *count; i++)
        if (!strcmp(tallies[i].engine, engine)) return &tallies[i];
    if (*count == ENGINES) return NULL;
    memset(&tallies[*count], 0, sizeof *tallies);
    snprintf(tallies[*count].engine, sizeof tallies->engine, "%s", engine);
    return &tallies[(*count)++];
}

static bool is_wanted(const struct session *s, const struct trial *t, const anydnn_verdict *v)
{
    const char *wanted = wanted_engine(s, t);
    const size_t length = strlen(wanted);
    if (*wanted) return !strncmp(v->engine, wanted, length) && (v->engine[length] == 0 || v->engine[length] == ':');
    return s->full || !(v->traits & ANYDNN_TRAIT_SLOW_START);
}

static void run_placement(struct session *s, const struct trial *t, struct device *d, enum placement placement,
                          struct tally *tallies, int *count)
{
    anydnn_verdict rows[ENGINES];
    anydnn_status status;
    const int engines = ask(s, t, d, placement, rows, &status);
    char why[512], text[TRIAL_TEXT];
    int i;
    if (engines < 0) {
        struct tally *tally = tally_of(tallies, count, "(all)");
        tally->ran = tally->failed = true;
        trial_print(t, placement, NULL, text);
        snprintf(why, sizeof why, "asking the engines answers %s: %s", anydnn_status_name(status), anydnn_message());
        fail(s, d->info.id, NULL, t->seed, text, why);
        return;
    }
    for (i = 0; i < engines; i++) {
        struct tally *tally = is_wanted(s, t, &rows[i]) ? tally_of(tallies, count, rows[i].engine) : NULL;
        if (!tally || tally->failed) continue;
        if (rows[i].status != ANYDNN_OK) {
            snprintf(tally->why, sizeof tally->why, "%s", rows[i].text);
            continue;
        }
        tally->ran = true;
        if (trial_run(t, d, &rows[i], placement, why, sizeof why)) continue;
        tally->failed = true;
        trial_print(t, placement, NULL, text);
        fail(s, d->info.id, rows[i].engine, t->seed, text, why);
    }
}

static void run_device(struct session *s, const struct trial *t, struct device *d, struct tally *tallies, int *count)
{
    if (trial_is_placed(t)) {
        run_placement(s, t, d, PLACE_AS_GIVEN, tallies, count);
        return;
    }
    run_placement(s, t, d, PLACE_ALIGNED, tallies, count);
    run_placement(s, t, d, PLACE_UNALIGNED, tallies, count);
}

/* ---- One line ---- */

static bool expects_unsupported(const struct expectation *e, const char *kind)
{
    int i;
    for (i = 0; i < e->unsupported_count; i++)
        if (!strcmp(e->unsupported[i], kind)) return true;
    return false;
}

static void conclude(struct session *s, const char *line, uint64_t seed, const struct expectation *e, struct device *d,
                     const struct tally *tallies, int count)
{
    const bool unsupported = expects_unsupported(e, kind_of(d));
    int i, ran = 0;
    for (i = 0; i < count; i++) {
        const struct tally *t = &tallies[i];
        ran += t->ran;
        if (t->failed) continue; /* counted when it failed */
        if (!t->ran) {
            s->skipped++;
            if (!s->shrinking) junit_case(s->junit, d->info.id, t->engine, line, JUNIT_SKIPPED, t->why, NULL);
            if (s->list_skips && !s->shrinking) printf("skipped: %s %s '%s': %s\n", d->info.id, t->engine, line, t->why);
        } else if (!unsupported) {
            pass(s, d->info.id, t->engine, line);
            if (s->verbose && !s->shrinking) printf("passed: %s %s '%s'\n", d->info.id, t->engine, line);
        }
    }
    if (unsupported && ran)
        fail(s, d->info.id, NULL, seed, line, "is expected to be unsupported here, but an engine takes it");
    else if (unsupported)
        pass(s, d->info.id, NULL, line);
    else if (!ran && !s->engine)
        fail(s, d->info.id, NULL, seed, line, count ? tallies[count - 1].why : "no engine has this operation here");
}

static void check_invalid(struct session *s, const char *line, uint64_t seed)
{
    anydnn_problem *problem = NULL;
    int i, count;
    const anydnn_binding *bindings;
    if (anydnn_problem_parse(line, &problem) == ANYDNN_INVALID) {
        for (i = 0; i < s->device_count; i++) pass(s, s->devices[i].info.id, NULL, line);
        return;
    }
    bindings = problem ? anydnn_problem_bindings(problem, &count) : NULL;
    for (i = 0; i < s->device_count; i++) {
        anydnn_plan *plan = NULL;
        const anydnn_status status = bindings
                                         ? anydnn_plan_create(s->devices[i].context, anydnn_problem_op(problem),
                                                              anydnn_problem_prefs(problem), bindings, count, &plan)
                                         : ANYDNN_INTERNAL;
        if (status == ANYDNN_INVALID)
            pass(s, s->devices[i].info.id, NULL, line);
        else
            fail(s, s->devices[i].info.id, NULL, seed, line, "must be refused as INVALID, but is not");
        anydnn_plan_release(plan);
    }
    anydnn_problem_destroy(problem);
}

/* While a line is made smaller, only the device that it fails on counts ("cpu" also stands for the reference). */
static bool concerns(const struct session *s, const struct device *d)
{
    return !s->shrinking || !strcmp(s->failed_device, d->info.id);
}

/* The line with one alpha and beta on all devices: its data and the truth are made once. */
static void check_variant(struct session *s, const anydnn_problem *problem, const char *line, uint64_t seed,
                          struct scale scale, struct tally tallies[DEVICES][ENGINES], int counts[DEVICES])
{
    struct trial trial;
    char why[512];
    anydnn_status status = trial_init(&trial, problem, seed, scale.use, scale.alpha, scale.beta);
    int i;
    if (status == ANYDNN_OK) status = trial_fill(&trial, &s->reference);
    if (status == ANYDNN_OK) status = trial_reference(&trial, &s->reference);
    for (i = 0; status == ANYDNN_OK && i < s->device_count; i++)
        if (concerns(s, &s->devices[i])) run_device(s, &trial, &s->devices[i], tallies[i], &counts[i]);
    if (status != ANYDNN_OK) {
        snprintf(why, sizeof why, "the reference answers %s: %s", anydnn_status_name(status), anydnn_message());
        fail(s, "cpu", NULL, seed, line, why);
    }
    trial_free(&trial);
}

static uint64_t seed_of(const struct session *s, const anydnn_problem *problem, const char *line)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    if (s->has_seed) return s->seed;
    if (problem && anydnn_problem_seed(problem)) return anydnn_problem_seed(problem);
    for (; *line; line++) hash = (hash ^ (unsigned char)*line) * UINT64_C(0x100000001b3);
    return hash >> 32;
}

static void check_line(struct session *s, const char *line, const struct expectation *e)
{
    static struct tally tallies[DEVICES][ENGINES];
    int counts[DEVICES] = { 0 };
    anydnn_problem *problem = NULL;
    struct scale scales[6];
    struct trial shape;
    uint64_t seed = seed_of(s, NULL, line);
    int i, count;
    s->line = line;
    if (e->invalid) {
        check_invalid(s, line, seed);
        return;
    }
    if (anydnn_problem_parse(line, &problem) != ANYDNN_OK) {
        s->malformed = true;
        if (s->single) {
            fprintf(stderr, "anydnn check: %s\n", anydnn_message());
            junit_case(s->junit, s->device_word, NULL, line, JUNIT_FAILED, anydnn_message(), NULL);
        } else
            fail(s, s->device_word, NULL, seed, line, anydnn_message());
        return;
    }
    seed = seed_of(s, problem, line);
    if (trial_init(&shape, problem, seed, false, 1, 0) == ANYDNN_OK) {
        /* Given --seed, a line is run as it stands: this is how a failure is repeated. */
        count = s->has_seed ? (scales[0].use = false, 1) : scales_of(s, &shape, seed, scales);
        for (i = 0; i < count; i++) check_variant(s, problem, line, seed, scales[i], tallies, counts);
    }
    trial_free(&shape);
    for (i = 0; i < s->device_count; i++)
        if (concerns(s, &s->devices[i])) conclude(s, line, seed, e, &s->devices[i], tallies[i], counts[i]);
    anydnn_problem_destroy(problem);
}

/* ---- Files ---- */

/* Takes the words that begin with '!' off the line; false for an unknown one. */
static bool read_expectation(char **line, struct expectation *e)
{
    static const char unsupported[] = "!unsupported:";
    memset(e, 0, sizeof *e);
    for (;;) {
        size_t length;
        *line += strspn(*line, " \t\r\n");
        if (**line != '!') return true;
        length = strcspn(*line, " \t\r\n");
        if (length == 8 && !strncmp(*line, "!invalid", 8))
            e->invalid = true;
        else if (length == 5 && !strncmp(*line, "!full", 5))
            e->full = true;
        else if (!strncmp(*line, unsupported, sizeof unsupported - 1) && e->unsupported_count < 3 && length < 28)
            snprintf(e->unsupported[e->unsupported_count++], 16, "%.*s", (int)(length - (sizeof unsupported - 1)),
                     *line + sizeof unsupported - 1);
        else
            return false;
        *line += length;
    }
}

static void check_text(struct session *s, char *line, const char *where)
{
    struct expectation e;
    char *end;
    if ((end = strchr(line, '#')) != NULL) *end = 0;
    for (end = line + strlen(line); end > line && strchr(" \t\r\n", end[-1]); end--) end[-1] = 0;
    if (!read_expectation(&line, &e)) {
        fprintf(stderr, "anydnn: %s: unknown word before the line: %s\n", where, line);
        junit_case(s->junit, s->device_word, NULL, line, JUNIT_FAILED, "unknown word before the line", NULL);
        s->failed++;
        s->malformed = true;
        return;
    }
    if (*line == 0 || (e.full && !s->full)) return;
    if (s->line_number++ % s->shards != s->shard - 1) return;
    if (s->progress)
        fprintf(stderr, "\r%s: %ld lines, %ld passed, %ld failed\033[K", where, s->line_number, s->passed, s->failed);
    check_line(s, line, &e);
}

static bool check_file(struct session *s, const char *path)
{
    FILE *file = !strcmp(path, "-") ? stdin : fopen(path, "r");
    char line[LINE];
    const char *slash = strrchr(path, '/');
    if (!file) {
        fprintf(stderr, "anydnn: cannot read %s\n", path);
        return false;
    }
    while (fgets(line, sizeof line, file)) check_text(s, line, slash ? slash + 1 : path);
    if (file != stdin) fclose(file);
    if (s->progress) fprintf(stderr, "\r\033[K");
    return true;
}

/* ---- Random lines ---- */

static bool still_fails(void *session, const char *line)
{
    struct session *s = session;
    const struct session before = *s;
    const struct expectation none = { 0 };
    bool failed;
    s->shrinking = true;
    s->engine = *s->failed_engine ? s->failed_engine : NULL;
    s->failed_before = -1; /* the place of the first failure stays */
    check_line(s, line, &none);
    failed = s->failed > before.failed;
    s->shrinking = false;
    s->engine = before.engine;
    s->passed = before.passed, s->failed = before.failed, s->skipped = before.skipped;
    s->malformed = before.malformed;
    return failed;
}

static void check_case(struct session *s, uint64_t seed)
{
    static const struct expectation none;
    struct choices choices;
    char line[RANDOM_LINE];
    random_case(seed, s->random_op, &choices);
    random_line(&choices, line);
    s->failed_before = s->failed;
    check_line(s, line, &none);
    if (s->failed == s->failed_before) return;
    printf("        drawn from --random 1 --seed %llu%s%s; making it smaller\n", (unsigned long long)seed,
           s->random_op ? " --op " : "", s->random_op ? anydnn_op_name(s->random_op) : "");
    fflush(stdout);
    random_shrink(&choices, still_fails, s);
    random_line(&choices, line);
    printf("smallest: anydnn check --device %s%s%s '%s'\n", s->failed_device, *s->failed_engine ? " --engine " : "",
           s->failed_engine, line);
    fflush(stdout);
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check_random(struct session *s)
{
    const uint64_t seed = s->has_seed ? s->seed : (uint64_t)time(NULL);
    const double end = now() + s->random_seconds;
    long i, cases = 0;
    s->has_seed = false; /* the data of a line follow from its text, so that the line alone repeats a failure */
    for (i = s->shard - 1; i < s->random_cases && (s->random_seconds <= 0 || now() < end); i += s->shards, cases++) {
        if (s->progress)
            fprintf(stderr, "\rcase %ld of %ld, %ld passed, %ld failed\033[K", i + 1, s->random_cases, s->passed,
                    s->failed);
        check_case(s, random_seed_of(seed, i));
    }
    if (s->progress) fprintf(stderr, "\r\033[K");
    printf("%ld random cases of seed %llu\n", cases, (unsigned long long)seed);
}

/* ---- The command ---- */

static int bad_usage(const char *text, const char *word)
{
    fprintf(stderr, "anydnn check: %s%s; try: anydnn help\n", text, word);
    return EXIT_USAGE;
}

/* An option with a value. Exit code, or -1 to go on. */
static int read_value(struct session *s, const char *word, const char *value)
{
    char *end;
    if (!value) return bad_usage("unknown option, or its value is missing: ", word);
    if (!strcmp(word, "--device")) {
        s->device_word = value;
    } else if (!strcmp(word, "--engine")) {
        s->engine = value;
    } else if (!strcmp(word, "--junit")) {
        s->junit_path = value;
    } else if (!strcmp(word, "--seed")) {
        s->seed = strtoull(value, &end, 10);
        s->has_seed = true;
        if (*end || !*value) return bad_usage("--seed wants a whole number, not ", value);
    } else if (!strcmp(word, "--shard")) {
        if (sscanf(value, "%ld/%ld", &s->shard, &s->shards) != 2 || s->shard < 1 || s->shard > s->shards)
            return bad_usage("--shard wants I/N with I from 1 to N, not ", value);
    } else if (!strcmp(word, "--random")) {
        s->random_cases = strtol(value, &end, 10);
        if (*end || s->random_cases < 1) return bad_usage("--random wants a number of cases, not ", value);
    } else if (!strcmp(word, "--seconds")) {
        s->random_seconds = strtod(value, &end);
        if (*end || !(s->random_seconds > 0)) return bad_usage("--seconds wants a number above 0, not ", value);
    } else if (!strcmp(word, "--op")) {
        s->random_op = anydnn_op_by_name(value);
        if (!s->random_op) return bad_usage("--op wants an operation, not ", value);
    } else {
        return bad_usage("unknown option ", word);
    }
    return -1;
}

/* Reads options and files; *at = first word of a line, if there is one. Files move to the front of argv. Exit code, or
 * -1 to go on. */
static int read_options(struct session *s, int argc, char **argv, int *at)
{
    bool files = false, in_files = false;
    int i, code;
    for (i = 1; i < argc; i++) {
        const char *word = argv[i];
        const bool option = word[0] == '-' && word[1];
        if (in_files && !option)
            argv[1 + s->files++] = argv[i];
        else if (!option)
            break;
        else if (!strcmp(word, "-f"))
            files = in_files = true;
        else if (!strcmp(word, "--full"))
            s->full = true;
        else if (!strcmp(word, "--list-skips"))
            s->list_skips = true;
        else if (!strcmp(word, "-v"))
            s->verbose = true;
        else if ((code = read_value(s, word, i + 1 < argc ? argv[++i] : NULL)) >= 0)
            return code;
        if (option && strcmp(word, "-f") != 0) in_files = false;
    }
    *at = i;
    if (files && !s->files) return bad_usage("-f wants a file", "");
    if (!s->random_cases && (s->random_op || s->random_seconds > 0))
        return bad_usage("--op and --seconds go with --random", "");
    if ((i < argc) + files + (s->random_cases > 0) > 1)
        return bad_usage("accepted: one of a problem line, -f FILE and --random N", "");
    return i < argc || files || s->random_cases ? -1 : bad_usage("a problem line, -f FILE or --random N is missing", "");
}

static int check_arguments(struct session *s, int argc, char **argv, int at)
{
    char line[LINE] = "";
    int i;
    if (s->random_cases) {
        check_random(s);
        return EXIT_GOOD;
    }
    for (i = 0; i < s->files; i++)
        if (!check_file(s, argv[1 + i])) return EXIT_USAGE;
    if (s->files) return EXIT_GOOD;
    for (; at < argc; at++) {
        if (strlen(line) + strlen(argv[at]) + 2 > sizeof line) return bad_usage("the line is too long", "");
        strcat(line, argv[at]);
        strcat(line, " ");
    }
    s->single = true;
    check_text(s, line, "line");
    return s->malformed ? EXIT_USAGE : EXIT_GOOD;
}

int anydnn_check_main(int argc, char **argv)
{
    static struct session s;
    int at, i, code;
    s.device_word = "all";
    s.shard = s.shards = 1;
    s.progress = isatty(2) != 0;
    code = read_options(&s, argc, argv, &at);
    if (code >= 0) return code;
    if (s.junit_path && !(s.junit = junit_open(s.junit_path))) return EXIT_FAILED;
    s.device_count = devices_open(s.devices, s.device_word);
    if (s.device_count < 0 || !device_open(&s.reference, "cpu")) return EXIT_FAILED;
    if (s.device_count == 0) {
        printf("no device \"%s\" here; skipped\n0 passed, 0 failed, 0 skipped\n", s.device_word);
        device_close(&s.reference);
        return junit_close(s.junit) ? EXIT_NO_DEVICE : EXIT_FAILED;
    }
    code = check_arguments(&s, argc, argv, at);
    for (i = 0; i < s.device_count; i++) device_close(&s.devices[i]);
    device_close(&s.reference);
    if (!junit_close(s.junit)) return EXIT_FAILED;
    if (code != EXIT_GOOD) return code;
    printf("%ld passed, %ld failed, %ld skipped\n", s.passed, s.failed, s.skipped);
    return s.failed ? EXIT_FAILED : s.passed ? EXIT_GOOD : EXIT_NOTHING;
}
