/* SPDX-License-Identifier: Apache-2.0
 * bench/bench.c: `anydnn bench`: times problem lines on a device, beside other libraries; prints a line for each
 * problem, the geometric mean of the ratios, and on request a CSV file and a chart. contest.c does the timing. */
#include "chart.h"
#include "commands.h"
#include "contest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: anydnn bench [options] LINE | -f FILE...\n"
    "\n"
    "Checks the answers, then times anydnn's automatic choice and the peers by turns: device events, cold caches,\n"
    "random data, at least 20 samples. LINE is one problem, quoted or as several words, as for anydnn check.\n"
    "\n"
    "  --device D      cpu, cuda:0, opencl:1, or auto (default)\n"
    "  --peer P        cublaslt, cudnn (CUDA), clblast (OpenCL), none, or all that are there (default)\n"
    "  --engines       also every other engine that accepts the problem\n"
    "  --seconds S     of sampling for each problem (default 1)\n"
    "  --no-check      does not check the answers\n"
    "  --csv FILE      appends rows; the first line names the columns:\n"
    "                  date (UTC), device, driver, commit, problem, contestant, engine, samples, calls in a sample,\n"
    "                  median_us, p10_us, p90_us (of one call), tflops, gbps (each tensor once), checked (yes, no),\n"
    "                  ratio (best peer's median / anydnn's; only in rows of anydnn)\n"
    "  --commit C      what the CSV calls the version (default: git's, if there is one)\n"
    "  --plot FILE     writes a bar chart (SVG)\n"
    "  -f FILE         problems from a file: one a line, # begins a comment\n"
    "\n"
    "Columns: median time of one call in us, a tenth and nine tenths of the samples, TFLOP/s, GB/s with each tensor\n"
    "once, and the best peer's time divided by anydnn's (above 1: anydnn is faster).\n"
    "Exit codes: 0 good; 1 a wrong answer or a failure; 2 wrong usage or a malformed line; 3 nothing was run;\n"
    "            77 the device is not here.\n";

enum { MAX_LINE = 4096, MAX_PEERS = 3, MAX_BARS = 512 };

struct session {
    const char *device_word, *peer_word, *csv_path, *plot_path, *commit;
    struct contest_options options;
    struct device device;
    struct opened_peer peers[MAX_PEERS];
    int peer_count;
    FILE *csv;
    char date[32], git[64];
    int done, failed;
    bool malformed;
    int ratios;
    double ratio_logs, worst_ratio;
    struct chart_bar bars[MAX_BARS];
    int bar_count;
};

/* ---------------------------------------------------------------- output -------------------------------------- */

static void show_stage(const char *what)
{
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%-20s\r", what);
}

static void put_quoted(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

/* The fastest peer that took part; NULL when there is none. */
static const struct contestant *best_peer(const struct contest *contest)
{
    const struct contestant *best = NULL;
    int i;
    for (i = 0; i < contest->count; i++) {
        const struct contestant *one = &contest->contestant[i];
        if (one->peer && one->median > 0 && (!best || one->median < best->median)) best = one;
    }
    return best;
}

static void write_csv(struct session *s, const struct contest *contest, const char *line, double flops, double bytes)
{
    const struct contestant *peer = best_peer(contest);
    int i;
    for (i = 0; s->csv && i < contest->count; i++) {
        const struct contestant *one = &contest->contestant[i];
        if (one->median <= 0) continue;
        fprintf(s->csv, "%s,", s->date);
        put_quoted(s->csv, s->device.info.name);
        fputc(',', s->csv);
        put_quoted(s->csv, s->device.info.driver);
        fprintf(s->csv, ",%s,", s->commit);
        put_quoted(s->csv, line);
        fprintf(s->csv, ",%s,%s,%d,%d,%.3f,%.3f,%.3f,%.4f,%.2f,%s,", one->name, one->engine, one->samples, one->calls,
                one->median / 1e3, one->low / 1e3, one->high / 1e3, flops / one->median / 1e3, bytes / one->median,
                contest->checked ? "yes" : "no");
        if (peer && !one->peer) fprintf(s->csv, "%.4f", peer->median / one->median);
        fputc('\n', s->csv);
    }
    if (s->csv) fflush(s->csv);
}

static char *copy_text(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    if (copy) strcpy(copy, text);
    return copy;
}

static void remember_bars(struct session *s, const struct contest *contest, const char *line, double flops,
                          double bytes)
{
    int i;
    for (i = 0; s->plot_path && i < contest->count && s->bar_count < MAX_BARS; i++) {
        const struct contestant *one = &contest->contestant[i];
        struct chart_bar *bar = &s->bars[s->bar_count];
        char name[96];
        if (one->median <= 0) continue;
        if (s->options.engines && !one->peer)
            snprintf(name, sizeof name, "%.20s", one->engine);
        else
            snprintf(name, sizeof name, "%s", one->name);
        bar->group = copy_text(line);
        bar->name = copy_text(name);
        /* Work that moves data more than it computes has a few operations a byte: then bytes are what counts. */
        bar->value = flops > 8 * bytes ? flops / one->median / 1e3 : bytes / one->median / 1e3;
        if (bar->group && bar->name) s->bar_count++;
    }
}

static void print_one(const struct contestant *one, double flops, double bytes, const char *ratio, const char *line)
{
    char spread[48];
    snprintf(spread, sizeof spread, "%.1f..%.1f", one->low / 1e3, one->high / 1e3);
    printf("%11.2f  %-19s %8.3g %8.3g %8s  %-9s %-28s %s\n", one->median / 1e3, spread, flops / one->median / 1e3,
           bytes / one->median, ratio, one->name, one->engine, line);
}

static void report(struct session *s, const struct contest *contest, const char *line)
{
    const struct contestant *peer = best_peer(contest);
    double flops = 0, bytes = 0;
    int i;
    anydnn_problem_cost(contest->problem, &flops, &bytes, NULL);
    for (i = 0; i < contest->count; i++) {
        const struct contestant *one = &contest->contestant[i];
        const bool ours = !one->peer;
        char ratio[24] = "";
        if (one->median <= 0) {
            if (ours || one->wrong) s->failed++;
            /* That a peer does not know an operation is no news; that it fails in one that it knows is. */
            else if (anydnn_problem_op(contest->problem)->op != ANYDNN_OP_MATMUL)
                continue;
            printf("%11s  %s%s%s: %s: %s\n", one->wrong ? "WRONG" : "-", one->name, ours ? " " : "",
                   ours ? one->engine : "", one->why, i == 0 ? line : "");
            continue;
        }
        if (ours && peer) snprintf(ratio, sizeof ratio, "%.3f", peer->median / one->median);
        print_one(one, flops, bytes, ratio, i == 0 ? line : "");
        if (i == 0 && peer) {
            const double value = peer->median / one->median;
            s->ratio_logs += log(value);
            if (s->ratios++ == 0 || value < s->worst_ratio) s->worst_ratio = value;
        }
    }
    if (s->options.check && !contest->checked)
        printf("%11s  the answer was not checked: too large for the CPU reference\n", "");
    fflush(stdout);
    write_csv(s, contest, line, flops, bytes);
    remember_bars(s, contest, line, flops, bytes);
}

/* ---------------------------------------------------------------- lines --------------------------------------- */

static void run_line(struct session *s, const char *line)
{
    static struct contest contest; /* too large for a stack */
    anydnn_problem *problem;
    if (anydnn_problem_parse(line, &problem) != ANYDNN_OK) {
        fprintf(stderr, "anydnn bench: %s: %s\n", line, anydnn_message());
        s->malformed = true;
        return;
    }
    if (contest_run(&contest, &s->device, problem, s->peers, s->peer_count, &s->options, show_stage) == ANYDNN_OK) {
        report(s, &contest, line);
        s->done++;
    } else {
        printf("%11s  %s: %s\n", "-", line, anydnn_message());
        s->failed++;
    }
    contest_free(&contest);
    anydnn_problem_destroy(problem);
}

/* Cuts comments, words that are for anydnn check, and blanks around what is left. */
static char *trim(char *line)
{
    char *end = strpbrk(line, "#\r\n");
    if (end) *end = 0;
    line += strspn(line, " \t");
    while (*line == '!') {
        line += strcspn(line, " \t");
        line += strspn(line, " \t");
    }
    end = line + strlen(line);
    while (end > line && (end[-1] == ' ' || end[-1] == '\t')) *--end = 0;
    return line;
}

static void run_file(struct session *s, const char *path)
{
    static char text[MAX_LINE];
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "anydnn bench: %s cannot be read\n", path);
        s->malformed = true;
        return;
    }
    while (fgets(text, sizeof text, file)) {
        char *line = trim(text);
        if (*line) run_line(s, line);
    }
    fclose(file);
}

/* ---------------------------------------------------------------- session ------------------------------------- */

static void open_peers(struct session *s)
{
    static const struct peer *const known[MAX_PEERS] = { &peer_cublaslt, &peer_cudnn, &peer_clblast };
    int i;
    for (i = 0; i < MAX_PEERS; i++) {
        struct opened_peer *peer = &s->peers[s->peer_count];
        const bool named = !strcmp(s->peer_word, known[i]->name);
        if (!named && strcmp(s->peer_word, "all") != 0) continue;
        if (known[i]->backend != s->device.info.backend) {
            if (named) printf("%s does not run on %s\n", known[i]->name, s->device.info.id);
            continue;
        }
        peer->peer = known[i];
        peer->state = NULL;
        peer->why = known[i]->open(s->device.stream, &peer->state);
        if (peer->why)
            printf("peer %s is absent: %s\n", known[i]->name, peer->why);
        else
            s->peer_count++;
    }
}

static bool open_device(struct session *s)
{
    struct device *d = &s->device;
    d->info.struct_size = (uint32_t)sizeof d->info;
    if (anydnn_open(s->device_word, NULL, &d->context) == ANYDNN_OK &&
        anydnn_context_info(d->context, &d->info) == ANYDNN_OK &&
        anydnn_stream_create(d->context, CONTEST_WORKSPACE, &d->stream) == ANYDNN_OK)
        return true;
    fprintf(stderr, "anydnn bench: %s: %s\n", s->device_word, anydnn_message());
    device_close(d);
    return false;
}

/* The commit of the tree that the program is run in. */
static void ask_git(struct session *s)
{
    FILE *pipe = popen("git rev-parse --short=12 HEAD 2>/dev/null", "r");
    if (pipe && fgets(s->git, sizeof s->git, pipe)) s->git[strcspn(s->git, "\r\n")] = 0;
    if (pipe) pclose(pipe);
    if (!s->git[0]) strcpy(s->git, "unknown");
    s->commit = s->git;
}

static bool open_csv(struct session *s)
{
    if (!s->csv_path) return true;
    s->csv = fopen(s->csv_path, "a");
    if (!s->csv) {
        fprintf(stderr, "anydnn bench: %s cannot be written\n", s->csv_path);
        return false;
    }
    if (!s->commit) ask_git(s);
    fseek(s->csv, 0, SEEK_END);
    if (ftell(s->csv) == 0)
        fputs("date,device,driver,commit,problem,contestant,engine,samples,calls,median_us,p10_us,p90_us,tflops,gbps,"
              "checked,ratio\n",
              s->csv);
    return true;
}

static void finish(struct session *s)
{
    int i;
    if (s->ratios)
        printf("geometric mean of %d ratios to the best peer: %.3f, worst %.3f\n", s->ratios,
               exp(s->ratio_logs / s->ratios), s->worst_ratio);
    if (s->plot_path && !chart_write(s->plot_path, s->device.info.name,
                                     "TFLOP/s (TB/s where an operation mostly moves data)", s->bars, s->bar_count)) {
        fprintf(stderr, "anydnn bench: %s cannot be written\n", s->plot_path);
        s->failed++;
    }
    for (i = 0; i < s->bar_count; i++) {
        free((char *)s->bars[i].group);
        free((char *)s->bars[i].name);
    }
    for (i = 0; i < s->peer_count; i++) s->peers[i].peer->close(s->peers[i].state);
    if (s->csv) fclose(s->csv);
    device_close(&s->device);
}

/* Reads the options; files and the line are left for run_arguments. Result: -1 to go on, else an exit code. */
static int parse(int argc, char **argv, struct session *s)
{
    int i;
    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            return EXIT_GOOD;
        }
        if (!strcmp(option, "--engines"))
            s->options.engines = true;
        else if (!strcmp(option, "--no-check"))
            s->options.check = false;
        else if (!value) {
            fprintf(stderr, "anydnn bench: \"%s\" is unknown or wants a value; try: anydnn bench --help\n", option);
            return EXIT_USAGE;
        } else {
            i++;
            if (!strcmp(option, "--device"))
                s->device_word = value;
            else if (!strcmp(option, "--peer"))
                s->peer_word = value;
            else if (!strcmp(option, "--csv"))
                s->csv_path = value;
            else if (!strcmp(option, "--plot"))
                s->plot_path = value;
            else if (!strcmp(option, "--commit"))
                s->commit = value;
            else if (!strcmp(option, "--seconds"))
                s->options.seconds = atof(value);
            else if (strcmp(option, "-f") != 0) {
                fprintf(stderr, "anydnn bench: unknown option \"%s\"; try: anydnn bench --help\n", option);
                return EXIT_USAGE;
            }
        }
    }
    if (!(s->options.seconds > 0 && s->options.seconds < 1e6)) {
        fputs("anydnn bench: --seconds: accepted: a number above 0\n", stderr);
        return EXIT_USAGE;
    }
    if (strcmp(s->peer_word, "all") != 0 && strcmp(s->peer_word, "none") != 0 &&
        strcmp(s->peer_word, peer_cublaslt.name) != 0 && strcmp(s->peer_word, peer_cudnn.name) != 0 &&
        strcmp(s->peer_word, peer_clblast.name) != 0) {
        fprintf(stderr, "anydnn bench: --peer \"%s\"; accepted: cublaslt, cudnn, clblast, none, all\n", s->peer_word);
        return EXIT_USAGE;
    }
    return -1;
}

/* The files in their order, then the line that the remaining words form. */
static void run_arguments(struct session *s, int argc, char **argv)
{
    static char line[MAX_LINE];
    size_t length = 0;
    int i;
    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (!strcmp(argv[i], "--engines") || !strcmp(argv[i], "--no-check")) continue;
        if (!strcmp(argv[i], "-f")) run_file(s, argv[i + 1]);
        i++;
    }
    for (; i < argc && length < sizeof line; i++)
        length += (size_t)snprintf(line + length, sizeof line - length, "%s%s", length ? " " : "", argv[i]);
    if (length) run_line(s, trim(line));
}

int anydnn_bench_main(int argc, char **argv)
{
    static struct session session;
    struct session *s = &session;
    const time_t now = time(NULL);
    int code;
    s->device_word = "auto";
    s->peer_word = "all";
    s->options.seconds = 1;
    s->options.check = true;
    strftime(s->date, sizeof s->date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    code = parse(argc, argv, s);
    if (code >= 0) return code;
    if (!open_device(s)) return EXIT_NO_DEVICE;
    if (!open_csv(s)) {
        device_close(&s->device);
        return EXIT_FAILED;
    }
    printf("%s: %s, %s\n", s->device.info.id, s->device.info.name, s->device.info.driver);
    open_peers(s);
    printf("%11s  %-19s %8s %8s %8s  %-9s %-28s %s\n", "median us", "p10..p90", "TFLOP/s", "GB/s", "ratio", "who",
           "engine", "problem");
    fflush(stdout);
    run_arguments(s, argc, argv);
    finish(s);
    if (s->malformed) return EXIT_USAGE;
    if (s->failed) return EXIT_FAILED;
    return s->done ? EXIT_GOOD : EXIT_NOTHING;
}
