/* SPDX-License-Identifier: Apache-2.0
 * bench/info.c: `anydnn info`, `anydnn list` and `anydnn explain`: what is here, and what would run. */
#include "commands.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

enum { ENGINES = 128 };

static int no_device(const char *word)
{
    fprintf(stderr, "anydnn: no device \"%s\" here; anydnn info lists those that are\n", word);
    return EXIT_NO_DEVICE;
}

/* Reads --device D; *at = the first word behind. Exit code, or -1 to go on. */
static int read_device(int argc, char **argv, const char **word, int *at)
{
    for (*at = 1; *at < argc && argv[*at][0] == '-'; *at += 2) {
        if (strcmp(argv[*at], "--device") || *at + 1 == argc) {
            fprintf(stderr, "anydnn %s: unknown option, or its value is missing: %s\n", argv[0], argv[*at]);
            return EXIT_USAGE;
        }
        *word = argv[*at + 1];
    }
    return -1;
}

/* ---- info ---- */

static void print_device(const anydnn_device_info *d)
{
    const double mib = 1024.0 * 1024.0;
    printf("%s: %s\n  driver            %s\n", d->id, d->name, d->driver);
    printf("  memory            %.0f MiB, largest allocation %.0f MiB%s\n", (double)d->memory_bytes / mib,
           (double)d->max_alloc_bytes / mib, d->unified_memory ? ", shared with the host" : "");
    printf("  compute units     %d\n", d->compute_units);
    if (d->local_memory_bytes)
        printf("  block             up to %d threads, %.0f KiB of local memory\n", d->max_block_threads,
               (double)d->local_memory_bytes / 1024);
    if (d->capability) printf("  capability        %d.%d\n", d->capability / 10, d->capability % 10);
    printf("  f64               %s\n  f16 arithmetic    %s\n", d->has_f64 ? "yes" : "no",
           d->f16_arithmetic ? "yes" : "no");
}

int anydnn_info_main(int argc, char **argv)
{
    static const char *const kinds[] = { "", "cpu", "cuda", "opencl" };
    const int count = anydnn_device_count(), v = anydnn_version();
    int i;
    (void)argc;
    (void)argv;
    printf("anydnn %d.%d.%d\n", v / 10000, v / 100 % 100, v % 100);
    for (i = ANYDNN_BACKEND_CPU; i <= ANYDNN_BACKEND_OPENCL; i++) printf("%s: %s\n", kinds[i], anydnn_backend_note(i));
    for (i = 0; i < count; i++) {
        anydnn_device_info info;
        info.struct_size = sizeof info;
        if (anydnn_device_get(i, &info) != ANYDNN_OK) continue;
        printf("\n");
        print_device(&info);
    }
    return EXIT_GOOD;
}

/* ---- list ---- */

static void trait_text(uint32_t traits, char text[64])
{
    static const char *const names[] = { "deterministic", "reduced-math", "library",
                                         "slow-start",    "generic",      "batch-invariant" };
    int i;
    text[0] = 0;
    for (i = 0; i < 6; i++)
        if (traits >> i & 1u) {
            if (text[0]) strcat(text, ",");
            strcat(text, names[i]);
        }
}

/* A small problem of each operation; '$' stands for the dtype of its data. */
static const char *const probes[] = {
    "conv_forward x=2x8x6x6/$ w=8x8x3x3/$ pad=1,1",
    "conv_backward_data dy=2x8x6x6/$ w=8x8x3x3/$ pad=1,1 dx=2x8x6x6/$",
    "conv_backward_filter x=2x8x6x6/$ dy=2x8x6x6/$ pad=1,1 dw=8x8x3x3/$",
    "conv_backward_bias dy=2x8x6x6/$",
    "matmul a=4x8/$ b=8x8/$", /* few rows: what engines for small batches take too */
    "pool_forward x=2x4x6x6/$ window=2,2 stride=2,2 mode=avg_include",
    "pool_backward dy=2x4x3x3/$ window=2,2 stride=2,2 mode=avg_include dx=2x4x6x6/$",
    "activation_forward x=2x8/$",
    "activation_backward x=2x8/$ dy=2x8/$",
    "softmax_forward x=2x8/$",
    "softmax_backward y=2x8/$ dy=2x8/$",
    "cross_entropy_forward x=2x8/$ labels=2x1/i32",
    "cross_entropy_backward x=2x8/$ labels=2x1/i32",
    "batchnorm_training x=2x4x3x3/$ gamma=1x4x1x1/f32 shift=1x4x1x1/f32",
    ("batchnorm_inference x=2x4x3x3/$ gamma=1x4x1x1/f32 shift=1x4x1x1/f32 running_mean=1x4x1x1/f32 "
     "running_var=1x4x1x1/f32"),
    "batchnorm_backward x=2x4x3x3/$ dy=2x4x3x3/$ gamma=1x4x1x1/f32",
    "binary a=2x8/$ b=2x8/$",
    "binary_backward a=2x8/$ b=2x8/$ dy=2x8/$ da=2x8/$",
    "reduce x=2x8/$ axes=1",
    "reduce_backward dy=2x1/$ dx=2x8/$ axes=1",
    "copy x=2x8/$",
    "fill y=2x8/$",
    "scale y=2x8/$",
    "dropout_forward x=2x8/$",
    "dropout_backward dy=2x8/$",
    "sgd grad=2x8/$ param=2x8/$",
    "adam grad=2x8/$ param=2x8/$ moment1=2x8/f32 moment2=2x8/f32",
};

/* Whether an engine takes the small problem of an operation in a dtype. */
static bool takes(anydnn_context *context, int op, const char *engine, int dtype)
{
    char line[256];
    anydnn_verdict rows[ENGINES];
    anydnn_problem *problem = NULL;
    size_t used = 0;
    int i, bindings, count = 0;
    bool yes = false;
    const char *at;
    for (at = probes[op - 1]; *at && used + 8 < sizeof line; at++)
        used += (size_t)(*at == '$' ? snprintf(line + used, sizeof line - used, "%s", anydnn_dtype_name(dtype))
                                    : snprintf(line + used, sizeof line - used, "%c", *at));
    if (anydnn_problem_parse(line, &problem) != ANYDNN_OK) return false;
    const anydnn_binding *b = anydnn_problem_bindings(problem, &bindings);
    const size_t length = strlen(engine);
    if (anydnn_explain(context, anydnn_problem_op(problem), anydnn_problem_prefs(problem), b, bindings, rows, ENGINES,
                       &count) == ANYDNN_OK)
        for (i = 0; i < count && i < ENGINES; i++)
            if (!strncmp(rows[i].engine, engine, length) && (!rows[i].engine[length] || rows[i].engine[length] == ':'))
                yes = yes || rows[i].status == ANYDNN_OK;
    anydnn_problem_destroy(problem);
    return yes;
}

static void list_operation(anydnn_context *context, int op)
{
    char name[64], traits_text[64], dtypes[64];
    uint32_t traits;
    int i, dtype;
    for (i = 0; anydnn_engine_name(context, op, i, name, &traits) == ANYDNN_OK; i++) {
        trait_text(traits, traits_text);
        dtypes[0] = 0;
        for (dtype = ANYDNN_F32; dtype <= ANYDNN_I64; dtype++)
            if (takes(context, op, name, dtype)) {
                if (dtypes[0]) strcat(dtypes, " ");
                strcat(dtypes, anydnn_dtype_name(dtype));
            }
        printf("  %-23s %-24s %-26s %s\n", i ? "" : anydnn_op_name(op), name, dtypes[0] ? dtypes : "-", traits_text);
    }
    if (i == 0) printf("  %-23s no engine\n", anydnn_op_name(op));
}

int anydnn_list_main(int argc, char **argv)
{
    static struct device devices[DEVICES];
    const char *word = "all";
    int at, i, op, count, code = read_device(argc, argv, &word, &at);
    if (code >= 0) return code;
    count = devices_open(devices, word);
    if (count < 0) return EXIT_FAILED;
    if (count == 0) return no_device(word);
    for (i = 0; i < count; i++) {
        printf("%s%s (%s)\n  %-23s %-24s %-26s %s\n", i ? "\n" : "", devices[i].info.id, devices[i].info.name,
               "operation", "engine", "dtypes of a small problem", "traits");
        for (op = 1; anydnn_op_name(op) && op <= (int)(sizeof probes / sizeof *probes); op++)
            list_operation(devices[i].context, op);
        device_close(&devices[i]);
    }
    return EXIT_GOOD;
}

/* ---- explain ---- */

static void print_verdict(const anydnn_verdict *v)
{
    char traits[64];
    trait_text(v->traits, traits);
    if (v->status == ANYDNN_OK)
        printf("  %-32s runs       about %.1f us, workspace %llu bytes, %s\n", v->engine, v->estimated_ns / 1000,
               (unsigned long long)v->workspace_bytes, traits);
    else
        printf("  %-32s refuses    %s (reason %d, argument %s, value %lld, accepted %lld)\n", v->engine, v->text,
               v->reason, v->argument[0] ? v->argument : "-", (long long)v->value, (long long)v->accepted);
}

static int explain_on(struct device *d, const anydnn_problem *problem)
{
    anydnn_verdict rows[ENGINES];
    int i, bindings, count = 0;
    const anydnn_binding *b = anydnn_problem_bindings(problem, &bindings);
    const anydnn_status status = anydnn_explain(d->context, anydnn_problem_op(problem), anydnn_problem_prefs(problem),
                                                b, bindings, rows, ENGINES, &count);
    printf("%s (%s), in the order of choice\n", d->info.id, d->info.name);
    if (status != ANYDNN_OK) {
        fprintf(stderr, "anydnn: %s: %s\n", anydnn_status_name(status), anydnn_message());
        return EXIT_FAILED;
    }
    for (i = 0; i < count && i < ENGINES; i++) print_verdict(&rows[i]);
    if (count == 0) printf("  no engine has this operation here\n");
    return EXIT_GOOD;
}

static int explain_line(const char *word, const char *line)
{
    static struct device devices[DEVICES];
    char text[TRIAL_TEXT];
    anydnn_problem *problem = NULL;
    double flops, bytes, depth;
    size_t length;
    int i, count, code = EXIT_GOOD;
    if (anydnn_problem_parse(line, &problem) != ANYDNN_OK) {
        fprintf(stderr, "anydnn explain: %s\n", anydnn_message());
        return EXIT_USAGE;
    }
    if (anydnn_problem_print(problem, text, sizeof text, &length) == ANYDNN_OK &&
        anydnn_problem_cost(problem, &flops, &bytes, &depth) == ANYDNN_OK)
        printf("%s\n%.6g operations, %.6g bytes, longest sum %.6g\n", text, flops, bytes, depth);
    count = devices_open(devices, word);
    for (i = 0; i < count; i++) {
        const int one = explain_on(&devices[i], problem);
        if (one != EXIT_GOOD) code = one;
        device_close(&devices[i]);
    }
    anydnn_problem_destroy(problem);
    return count < 0 ? EXIT_FAILED : count == 0 ? no_device(word) : code;
}

int anydnn_explain_main(int argc, char **argv)
{
    char line[4096] = "";
    const char *word = "all";
    int at, code = read_device(argc, argv, &word, &at);
    if (code >= 0) return code;
    for (; at < argc && strlen(line) + strlen(argv[at]) + 2 < sizeof line; at++) {
        strcat(line, argv[at]);
        strcat(line, " ");
    }
    if (line[0]) return explain_line(word, line);
    fprintf(stderr, "anydnn explain: a problem line is missing; try: anydnn help\n");
    return EXIT_USAGE;
}
