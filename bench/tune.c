/* SPDX-License-Identifier: Apache-2.0
 * bench/tune.c: `anydnn tune`: measures the engines of problems on a device and merges the winners into a tuning file,
 * after every problem, so that an interrupted run keeps what it has. */
#include "commands.h"
#include "workset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: anydnn tune [--device D] [--budget MS] [--out FILE] LINE | -f FILE\n"
    "\n"
    "Measures every engine, with each of its parameter sets, that accepts a problem, checks the fastest against the\n"
    "plainest one, and keeps it in a tuning file. Programs that run with ANYDNN_TUNING=FILE then choose it.\n"
    "  --device D      auto, cpu, cuda:0, opencl:1 ... (default auto)\n"
    "  --budget MS     milliseconds of running for each problem, without compilation (default 200)\n"
    "  --out FILE      tuning file to merge into (default: $ANYDNN_TUNING; neither: nothing is kept)\n"
    "  -f FILE         problems from a file: one a line, # begins a comment\n"
    "\n"
    "Exit codes: 0 good; 1 something could not be measured or kept; 2 wrong usage or a malformed line;\n"
    "            3 nothing was run; 77 the device is not here.\n";

enum { MAX_LINE = 4096, MAX_ROWS = 64, BAR = 24 };

struct session {
    const char *device, *out;
    double budget_ms;
    anydnn_context *context;
    anydnn_stream *stream;
    char **line;
    int lines, done, failed;
    bool malformed;
};

/* ---- lines ---- */

/* Cuts comments, words that are for anydnn check, and blanks. */
static char *trim(char *line)
{
    char *end = strpbrk(line, "#\r\n");
    if (end) *end = 0;
    for (line += strspn(line, " \t"); *line == '!'; line += strspn(line, " \t")) line += strcspn(line, " \t");
    for (end = line + strlen(line); end > line && strchr(" \t", end[-1]);) *--end = 0;
    return line;
}

static bool add_line(struct session *s, char *text)
{
    const char *line = trim(text);
    char **grown, *copy;
    if (!*line) return true;
    grown = realloc(s->line, ((size_t)s->lines + 1) * sizeof *grown);
    if (grown) s->line = grown;
    copy = grown ? malloc(strlen(line) + 1) : NULL;
    if (!copy) return false;
    s->line[s->lines++] = strcpy(copy, line);
    return true;
}

static bool add_file(struct session *s, const char *path)
{
    char text[MAX_LINE];
    FILE *file = fopen(path, "r");
    bool good = file != NULL;
    while (good && fgets(text, sizeof text, file)) good = add_line(s, text);
    if (file) fclose(file);
    if (!good) fprintf(stderr, "anydnn tune: %s cannot be read\n", path);
    return good;
}

/* ---- one problem ---- */

static void show_progress(const struct session *s, int index)
{
    const int filled = index * BAR / s->lines;
    if (!isatty(STDERR_FILENO)) return;
    if (index == s->lines)
        fprintf(stderr, "\r%*s\r", BAR + 24, "");
    else
        fprintf(stderr, "\r[%.*s%*s] %d/%d ", filled, "########################", BAR - filled, "", index, s->lines);
}

static void print_row(const char *before, const anydnn_verdict *rows, int count, const char *line)
{
    char old[24] = "-", ratio[24] = "-";
    int i;
    for (i = 0; i < count; i++)
        if (!strcmp(rows[i].engine, before)) {
            snprintf(old, sizeof old, "%.2f", rows[i].estimated_ns / 1e3);
            if (rows[0].estimated_ns > 0)
                snprintf(ratio, sizeof ratio, "%.2fx", rows[i].estimated_ns / rows[0].estimated_ns);
        }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%*s\r", BAR + 24, "");
    printf("%11s %11.2f %8s %3d  %-28s -> %-28s %s\n", old, rows[0].estimated_ns / 1e3, ratio, count, before,
           rows[0].engine, line);
    fflush(stdout);
}

static anydnn_status tune_set(struct session *s, const struct workset *set, const char *line)
{
    const anydnn_op *op = anydnn_problem_op(set->problem);
    const anydnn_prefs *prefs = anydnn_problem_prefs(set->problem);
    anydnn_verdict rows[MAX_ROWS];
    anydnn_plan *plan;
    anydnn_plan_info info;
    int count = 0;
    anydnn_status status = anydnn_plan_create(s->context, op, prefs, set->binding, set->count, &plan);
    if (status != ANYDNN_OK) return status;
    info.struct_size = (uint32_t)sizeof info;
    status = anydnn_plan_get_info(plan, &info);
    anydnn_plan_release(plan);
    if (status == ANYDNN_OK)
        status = anydnn_find(s->stream, op, prefs, set->binding, set->count, s->budget_ms * 1e6, rows, MAX_ROWS, &count);
    if (status == ANYDNN_OK && s->out) status = anydnn_tuning_save(s->context, s->out);
    if (status == ANYDNN_OK) print_row(info.engine, rows, count < MAX_ROWS ? count : MAX_ROWS, line);
    return status;
}

static void tune_line(struct session *s, const char *line)
{
    static struct workset set;
    anydnn_problem *problem;
    anydnn_status status;
    if (anydnn_problem_parse(line, &problem) != ANYDNN_OK) {
        fprintf(stderr, "anydnn tune: %s: %s\n", line, anydnn_message());
        s->malformed = true;
        return;
    }
    status = workset_create(&set, s->stream, problem, 0);
    if (status == ANYDNN_OK) {
        status = tune_set(s, &set, line);
        workset_free(&set);
    }
    if (status == ANYDNN_OK) {
        s->done++;
    } else {
        printf("%11s %s: %s\n", "-", line, anydnn_message());
        s->failed++;
    }
    anydnn_problem_destroy(problem);
}

/* ---- session ---- */

/* Result: -1 to go on, else an exit code. */
static int parse(int argc, char **argv, struct session *s)
{
    char line[MAX_LINE] = "";
    size_t length = 0;
    int i;
    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            return EXIT_GOOD;
        }
        if (value) i++;
        if (value && !strcmp(option, "--device")) s->device = value;
        else if (value && !strcmp(option, "--out")) s->out = value;
        else if (value && !strcmp(option, "--budget")) s->budget_ms = atof(value);
        else if (value && !strcmp(option, "-f")) {
            if (!add_file(s, value)) return EXIT_USAGE;
        } else {
            fprintf(stderr, "anydnn tune: \"%s\" is unknown or wants a value; try: anydnn tune --help\n", option);
            return EXIT_USAGE;
        }
    }
    for (; i < argc && length < sizeof line; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, "%s%s", length ? " " : "", argv[i]);
    if (!add_line(s, line)) return EXIT_FAILED;
    if (s->budget_ms > 0 && s->budget_ms < 1e9) return -1;
    fputs("anydnn tune: --budget: accepted: a number above 0\n", stderr);
    return EXIT_USAGE;
}

static void log_warning(void *user, anydnn_log_level level, const char *text)
{
    (void)user, (void)level;
    fprintf(stderr, "anydnn tune: %s\n", text);
}

static int run(struct session *s)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    anydnn_device_info info;
    int i;
    options.log = log_warning;
    info.struct_size = (uint32_t)sizeof info;
    if (anydnn_open(s->device, &options, &s->context) != ANYDNN_OK ||
        anydnn_context_info(s->context, &info) != ANYDNN_OK ||
        anydnn_stream_create(s->context, (uint64_t)256 << 20, &s->stream) != ANYDNN_OK) {
        fprintf(stderr, "anydnn tune: %s: %s\n", s->device, anydnn_message());
        return EXIT_NO_DEVICE;
    }
    printf("%s: %s, %s%s%s\n", info.id, info.name, info.driver, s->out ? "; into " : "", s->out ? s->out : "");
    printf("%11s %11s %8s %3s  engine before -> after, problem\n", "before us", "after us", "gain", "of");
    for (i = 0; i < s->lines; i++) {
        show_progress(s, i);
        tune_line(s, s->line[i]);
    }
    if (s->lines) show_progress(s, s->lines);
    if (s->malformed) return EXIT_USAGE;
    if (s->failed) return EXIT_FAILED;
    return s->done ? EXIT_GOOD : EXIT_NOTHING;
}

int anydnn_tune_main(int argc, char **argv)
{
    struct session s = { 0 };
    int code, i;
    s.device = "auto";
    s.budget_ms = 200;
    s.out = getenv("ANYDNN_TUNING");
    if (s.out && !s.out[0]) s.out = NULL;
    code = parse(argc, argv, &s);
    if (code < 0) code = run(&s);
    anydnn_stream_destroy(s.stream);
    anydnn_close(s.context);
    for (i = 0; i < s.lines; i++) free(s.line[i]);
    free(s.line);
    return code;
}
