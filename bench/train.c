/* SPDX-License-Identifier: Apache-2.0
 * bench/train.c: `anydnn train`: trains the network of api/examples/digits.c on one or all devices and judges them.
 *
 * Accuracy: at least 97 % of the test images must be told right.
 *
 * Agreement with the CPU reference is judged from equal states, since training amplifies the smallest rounding
 * difference. The reference's weights, running statistics and moments at step 0, at step 50 and behind the last are
 * loaded on the device, which then makes one step on the same images:
 *   - the loss must be within 1e-5 of the reference's, relatively;
 *   - every element of every gradient and batch statistic must be within 1e-5 * (|r| + max |r| of its tensor).
 *     A rounding of f32 is 6e-8; the sums here have up to 2,048 terms of either sign (in batches of 32 images), whose
 *     rounding errors grow like a square root, to some 3e-6 of the largest element, and a gradient passes eight
 *     layers of them. The second term is for elements in which large terms cancel.
 *   - with the final weights, test images must be given the same digit, unless the reference's two largest logits are
 *     within 1e-3 of each other.
 * How far the free-running losses of the first 20 steps differ is shown only. */
#include "commands.h"
#include "dataset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Where the images are looked for: in the source tree, then where they were installed. */
#ifndef ANYDNN_DATA_DIR
#define ANYDNN_DATA_DIR "api/examples"
#endif
#ifndef ANYDNN_INSTALLED_DATA_DIR
#define ANYDNN_INSTALLED_DATA_DIR ANYDNN_DATA_DIR
#endif

static const char usage[] =
    "usage: anydnn train [options]\n"
    "\n"
    "Trains a small convolutional network on images of handwritten digits. Prints a line for each device: accuracy,\n"
    "seconds, agreement with the CPU reference.\n"
    "\n"
    "  --device D      cpu, cuda:0, opencl:1, auto, or all (default)\n"
    "  --judge         also with a single device: trains on the CPU first and compares with it (all: always)\n"
    "  --digits FILE   the CSV file of 8x8 digits (default: the one that came with anydnn)\n"
    "  --data DIR      MNIST's four IDX files instead, compressed or not (many minutes an epoch on the CPU reference)\n"
    "  --epochs N      default 25; 2 with --data\n"
    "  --steps N       ends training behind N steps and tests a single batch, whose accuracy is not judged: for tools\n"
    "                  that slow everything down\n"
    "  --batch N       default 32; 64 with --data\n"
    "  --seed N        of split, weights, order and dropout (default 1)\n"
    "  --out FILE      writes the first device's trained weights: for each tensor a line \"NAME COUNT\" and its f32\n"
    "\n"
    "Exit codes: 0 good; 1 accuracy below 97 %, disagreement or failure; 2 wrong usage; 77 the device is not here.\n";

enum { MAX_DEVICES = 32, SNAPSHOTS = 3, EARLY_STEP = 50, SHOWN_STEPS = 20, BAR = 30 };
static const double least_accuracy = 97.0, tolerance = 1e-5, undecided = 1e-3, first_rate = 0.004;

struct settings {
    const char *device, *digits, *folder, *out;
    bool judge;
    digits_options options;
};

/* What the CPU reference leaves for the judgement of the others. */
struct reference {
    bool made;
    float *state[SNAPSHOTS];
    int step[SNAPSHOTS];
    float loss[SNAPSHOTS];
    float *results[SNAPSHOTS];
    float *losses, *logits;
};

struct outcome {
    char id[32];
    bool good;
    double accuracy, seconds; /* accuracy < 0: did not get so far */
    char agreement[320];
};

/* One device in training. */
struct run {
    const struct settings *settings;
    const struct dataset *data;
    struct reference *reference;
    struct outcome *outcome;
    bool is_reference;
    anydnn_context *context;
    digits_net *net;
    float *losses, *logits;
    int shown; /* progress: what was printed last */
    double started;
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---------------------------------------------------------------- progress ------------------------------------ */

/* A bar on a terminal, else a line every few epochs. The loss is that of the last finished epoch. */
static void show_progress(struct run *run, int step, int steps)
{
    const int epochs = run->settings->options.epochs, per_epoch = steps < epochs ? 1 : steps / epochs;
    const int epoch = step / per_epoch;
    const float *losses = run->losses + (size_t)per_epoch * (epoch ? epoch - 1 : 0);
    double loss = 0;
    int i;
    if (isatty(STDERR_FILENO)) {
        const int filled = (int)((int64_t)BAR * step / steps);
        if (step != steps && step * 200 / steps == run->shown) return;
        run->shown = step * 200 / steps;
        fprintf(stderr, "\r%-10s [%.*s%.*s] epoch %d/%d  %.1f s ", run->outcome->id, filled,
                "##############################", BAR - filled, "..............................",
                epoch < epochs ? epoch + 1 : epochs, epochs, now() - run->started);
        if (step == steps) fputc('\n', stderr);
        return;
    }
    if (step % per_epoch != 0 || epoch == 0 || (epoch % 5 != 0 && step != steps)) return;
    for (i = 0; i < per_epoch; i++) loss += (double)losses[i] / per_epoch;
    fprintf(stderr, "%-10s epoch %d/%d  mean loss %.4f  %.1f s\n", run->outcome->id, epoch, epochs, loss,
            now() - run->started);
}

/* Progress, and on the reference the states that the others are judged from. */
static anydnn_status observe(void *user, digits_net *net, int step, int steps)
{
    struct run *run = user;
    const int wanted[SNAPSHOTS] = { 0, steps > EARLY_STEP ? EARLY_STEP : steps / 2, steps };
    int i;
    show_progress(run, step, steps);
    for (i = 0; run->is_reference && i < SNAPSHOTS; i++) {
        anydnn_status status;
        if (step != wanted[i]) continue;
        status = digits_state_get(net, run->reference->state[i], &run->reference->step[i]);
        if (status != ANYDNN_OK) return status;
    }
    return ANYDNN_OK;
}

/* ---------------------------------------------------------------- judgement ----------------------------------- */

/* One step from a state of the reference, on the first training images. */
static anydnn_status probe(struct run *run, int snapshot, float *loss, float *results)
{
    const digits_set *set = &run->data->train;
    anydnn_status status = digits_state_set(run->net, run->reference->state[snapshot], run->reference->step[snapshot]);
    if (status == ANYDNN_OK)
        status = digits_step(run->net, set->images, set->labels, run->settings->options.rate, loss);
    return status == ANYDNN_OK ? digits_results(run->net, results) : status;
}

static anydnn_status make_reference(struct run *run)
{
    struct reference *reference = run->reference;
    int i;
    for (i = 0; i < SNAPSHOTS; i++) {
        const anydnn_status status = probe(run, i, &reference->loss[i], reference->results[i]);
        if (status != ANYDNN_OK) return status;
    }
    reference->made = true;
    return ANYDNN_OK;
}

/* Writes the sentence about the first disagreement; false. */
static bool disagree(struct run *run, const char *what, int step, double got, double want)
{
    snprintf(run->outcome->agreement, sizeof run->outcome->agreement, "NO: %s at step %d is %.9g, on the CPU %.9g",
             what, step, got, want);
    return false;
}

/* Compares one probe; *worst takes the largest share of the tolerance that was used. */
static bool compare(struct run *run, int snapshot, float loss, const float *results, double *worst)
{
    const struct reference *reference = run->reference;
    const double want_loss = (double)reference->loss[snapshot], off = fabs((double)loss - want_loss);
    const int step = reference->step[snapshot];
    int slices, i, j;
    const digits_slice *slice = digits_slices(run->net, &slices);
    if (!(off <= tolerance * fabs(want_loss))) return disagree(run, "the loss", step, (double)loss, want_loss);
    *worst = fmax(*worst, off / (tolerance * fabs(want_loss)));
    for (i = 0; i < slices; i++) {
        const float *got = results + slice[i].first, *want = reference->results[snapshot] + slice[i].first;
        double largest = 0;
        for (j = 0; j < slice[i].count; j++) largest = fmax(largest, fabs((double)want[j]));
        for (j = 0; j < slice[i].count; j++) {
            const double allowed = tolerance * (fabs((double)want[j]) + largest);
            const double error = fabs((double)got[j] - (double)want[j]);
            char name[64];
            snprintf(name, sizeof name, "%s[%d] of the step's results", slice[i].name, j);
            if (!(error <= allowed)) return disagree(run, name, step, (double)got[j], (double)want[j]);
            if (allowed > 0) *worst = fmax(*worst, error / allowed);
        }
    }
    return true;
}

static int best_class(const float *logits, double *lead)
{
    int best = 0, i;
    double second = -INFINITY;
    for (i = 1; i < DIGITS_CLASSES; i++)
        if (!((double)logits[i] <= (double)logits[best])) best = i; /* a NaN is never kept silently */
    for (i = 0; i < DIGITS_CLASSES; i++)
        if (i != best) second = fmax(second, (double)logits[i]);
    *lead = (double)logits[best] - second;
    return best;
}

/* Predictions with the reference's final weights: -1, or the first image with an inexcusable difference. */
static int differing_image(const struct run *run)
{
    int i;
    for (i = 0; i < run->data->test.count; i++) {
        double lead, other;
        const int want = best_class(run->reference->logits + (size_t)i * DIGITS_CLASSES, &lead);
        const int got = best_class(run->logits + (size_t)i * DIGITS_CLASSES, &other);
        if (isnan(other) || (got != want && !(lead < undecided))) return i;
    }
    return -1;
}

static double early_difference(const struct run *run, int steps)
{
    double worst = 0;
    int i;
    for (i = 0; i < steps && i < SHOWN_STEPS; i++) {
        const double want = (double)run->reference->losses[i];
        worst = fmax(worst, fabs((double)run->losses[i] - want) / fabs(want));
    }
    return worst;
}

static anydnn_status judge(struct run *run, bool *good)
{
    struct reference *reference = run->reference;
    const int last = SNAPSHOTS - 1, steps = digits_steps(&run->settings->options, &run->data->train);
    float *results = malloc(digits_results_count(run->net) * sizeof *results);
    double worst = 0;
    anydnn_status status = results ? ANYDNN_OK : ANYDNN_OUT_OF_MEMORY;
    int i, image;
    *good = true;
    for (i = 0; status == ANYDNN_OK && *good && i < SNAPSHOTS; i++) {
        float loss;
        status = probe(run, i, &loss, results);
        if (status == ANYDNN_OK) *good = compare(run, i, loss, results, &worst);
    }
    free(results);
    if (status != ANYDNN_OK || !*good) return status;
    status = digits_state_set(run->net, reference->state[last], reference->step[last]);
    if (status == ANYDNN_OK) status = digits_predict(run->net, &run->data->test, run->logits);
    if (status != ANYDNN_OK) return status;
    image = differing_image(run);
    *good = image < 0;
    if (*good)
        snprintf(run->outcome->agreement, sizeof run->outcome->agreement,
                 "yes (%.0f %% of the tolerance used; the first %d free losses within %.1e)", 100 * worst, SHOWN_STEPS,
                 early_difference(run, steps));
    else
        snprintf(run->outcome->agreement, sizeof run->outcome->agreement,
                 "NO: test image %d is another digit than on the CPU", image);
    return ANYDNN_OK;
}

/* ---------------------------------------------------------------- one device ---------------------------------- */

static double accuracy(const digits_set *set, const float *logits)
{
    int right = 0, i;
    for (i = 0; i < set->count; i++) {
        double lead;
        right += best_class(logits + (size_t)i * DIGITS_CLASSES, &lead) == set->labels[i] && !isnan(lead);
    }
    return 100.0 * right / set->count;
}

static bool write_weights(digits_net *net, const char *path)
{
    int slices, i, step;
    const digits_slice *slice = digits_slices(net, &slices);
    float *state = malloc(digits_state_count(net) * sizeof *state);
    FILE *file = state ? fopen(path, "wb") : NULL;
    bool good = file && digits_state_get(net, state, &step) == ANYDNN_OK;
    for (i = 0; good && i < slices; i++) {
        good = fprintf(file, "%s %d\n", slice[i].name, slice[i].count) > 0;
        good = good &&
               fwrite(state + slice[i].first, sizeof *state, (size_t)slice[i].count, file) == (size_t)slice[i].count;
    }
    if (file) good = fclose(file) == 0 && good;
    free(state);
    if (!good) fprintf(stderr, "anydnn train: %s could not be written\n", path);
    return good;
}

static bool allocate_reference(struct run *run)
{
    struct reference *reference = run->reference;
    bool good = true;
    int i;
    for (i = 0; i < SNAPSHOTS; i++) {
        reference->state[i] = calloc(digits_state_count(run->net), sizeof(float));
        reference->results[i] = calloc(digits_results_count(run->net), sizeof(float));
        good = good && reference->state[i] && reference->results[i];
    }
    reference->losses = run->losses;
    reference->logits = run->logits;
    return good;
}

static anydnn_status train_on(struct run *run, const char *out, bool *good)
{
    struct outcome *outcome = run->outcome;
    const struct settings *settings = run->settings;
    const digits_set *train = &run->data->train, *test = &run->data->test;
    anydnn_status status = anydnn_open(outcome->id, NULL, &run->context);
    if (status == ANYDNN_OK)
        status = digits_create(run->context, train->height, train->width, &settings->options, &run->net);
    if (status != ANYDNN_OK) return status;
    if (run->is_reference && !allocate_reference(run)) return ANYDNN_OUT_OF_MEMORY;
    run->started = now();
    status = digits_train(run->net, train, run->losses, observe, run);
    outcome->seconds = now() - run->started;
    if (status == ANYDNN_OK) status = digits_predict(run->net, test, run->logits);
    if (status != ANYDNN_OK) return status;
    outcome->accuracy = accuracy(test, run->logits);
    *good = settings->options.steps || outcome->accuracy >= least_accuracy;
    if (out && !write_weights(run->net, out)) *good = false;
    if (run->is_reference) {
        snprintf(outcome->agreement, sizeof outcome->agreement, "is the reference");
        return make_reference(run);
    }
    snprintf(outcome->agreement, sizeof outcome->agreement, "not judged");
    if (run->reference->made) {
        bool agrees = false;
        status = judge(run, &agrees);
        *good = *good && agrees;
    }
    return status;
}

static void train_device(const struct settings *settings, const struct dataset *data, struct reference *reference,
                         bool is_reference, const char *out, struct outcome *outcome)
{
    struct run run = { settings, data, reference, outcome, is_reference, NULL, NULL, NULL, NULL, -1, 0 };
    anydnn_status status = ANYDNN_OUT_OF_MEMORY;
    outcome->accuracy = -1;
    run.losses = calloc((size_t)digits_steps(&settings->options, &data->train) + 1, sizeof *run.losses);
    run.logits = calloc((size_t)data->test.count * DIGITS_CLASSES, sizeof *run.logits);
    if (run.losses && run.logits) status = train_on(&run, out, &outcome->good);
    if (status != ANYDNN_OK) {
        outcome->good = false;
        snprintf(outcome->agreement, sizeof outcome->agreement, "FAILED: %s: %s", anydnn_status_name(status),
                 anydnn_message());
    }
    digits_destroy(run.net);
    anydnn_close(run.context);
    if (is_reference) return; /* the reference keeps its losses and logits */
    free(run.losses);
    free(run.logits);
}

static void free_reference(struct reference *reference)
{
    int i;
    for (i = 0; i < SNAPSHOTS; i++) {
        free(reference->state[i]);
        free(reference->results[i]);
    }
    free(reference->losses);
    free(reference->logits);
}

/* ---------------------------------------------------------------- command line -------------------------------- */

static bool whole_number(const char *text, long least, long most, long *value)
{
    char *end;
    *value = strtol(text, &end, 10);
    return *text && !*end && *value >= least && *value <= most;
}

/* Result: -1 to go on, else an exit code. */
static int parse(int argc, char **argv, struct settings *settings)
{
    long epochs = 0, steps = 0, batch = 0, seed = 1;
    int i;
    for (i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = i + 1 < argc;
        i++;
        if (!strcmp(option, "--help") || !strcmp(option, "-h")) {
            fputs(usage, stdout);
            return EXIT_GOOD;
        }
        if (!strcmp(option, "--judge")) {
            settings->judge = true;
            i--;
        } else if (!strcmp(option, "--device"))
            settings->device = value;
        else if (!strcmp(option, "--digits"))
            settings->digits = value;
        else if (!strcmp(option, "--data"))
            settings->folder = value;
        else if (!strcmp(option, "--out"))
            settings->out = value;
        else if (!strcmp(option, "--epochs"))
            good = whole_number(value, 1, 10000, &epochs);
        else if (!strcmp(option, "--steps"))
            good = whole_number(value, 1, 1000000, &steps);
        else if (!strcmp(option, "--batch"))
            good = whole_number(value, 2, 1000, &batch);
        else if (!strcmp(option, "--seed"))
            good = whole_number(value, 0, 0x7fffffff, &seed);
        else {
            fprintf(stderr, "anydnn train: unknown option \"%s\"; try: anydnn train --help\n", option);
            return EXIT_USAGE;
        }
        if (!good && strcmp(option, "--judge") != 0) {
            fprintf(stderr, "anydnn train: %s \"%s\": accepted: see anydnn train --help\n", option, value);
            return EXIT_USAGE;
        }
    }
    settings->options.epochs = epochs ? (int)epochs : settings->folder ? 2 : 25;
    settings->options.steps = (int)steps;
    settings->options.batch = batch ? (int)batch : settings->folder ? 64 : 32;
    settings->options.rate = first_rate;
    settings->options.seed = (uint64_t)seed;
    return -1;
}

/* The devices to train on, the CPU first where it is to judge: how many; 0 when the named one is not here. */
static int choose_devices(struct settings *settings, struct outcome outcomes[MAX_DEVICES])
{
    const int found = anydnn_device_count();
    const bool all = !strcmp(settings->device, "all");
    anydnn_device_info info;
    anydnn_context *context;
    int count = 0, i;
    settings->judge = settings->judge || all;
    if (settings->judge) snprintf(outcomes[count++].id, sizeof outcomes->id, "cpu");
    for (i = 0; all && i < found && count < MAX_DEVICES; i++) {
        info.struct_size = (uint32_t)sizeof info;
        if (anydnn_device_get(i, &info) == ANYDNN_OK && strcmp(info.id, "cpu") != 0)
            snprintf(outcomes[count++].id, sizeof outcomes->id, "%s", info.id);
    }
    if (all) return count;
    if (anydnn_open(settings->device, NULL, &context) != ANYDNN_OK) return 0;
    info.struct_size = (uint32_t)sizeof info;
    if (anydnn_context_info(context, &info) == ANYDNN_OK && (count == 0 || strcmp(info.id, "cpu") != 0))
        snprintf(outcomes[count++].id, sizeof outcomes->id, "%s", info.id);
    anydnn_close(context);
    return count;
}

static void print_table(const struct outcome *outcomes, int count)
{
    int i;
    printf("%-10s %9s %9s  %s\n", "device", "accuracy", "seconds", "agreement with the CPU reference");
    for (i = 0; i < count; i++) {
        if (outcomes[i].accuracy < 0)
            printf("%-10s %9s %9s", outcomes[i].id, "-", "-");
        else
            printf("%-10s %7.2f %% %9.2f", outcomes[i].id, outcomes[i].accuracy, outcomes[i].seconds);
        printf("  %s\n", outcomes[i].agreement);
    }
}

static bool load_data(const struct settings *settings, struct dataset *data)
{
    const char *digits = settings->digits;
    bool good;
    if (!digits)
        digits = access(ANYDNN_DATA_DIR "/digits.csv.gz", R_OK) == 0 ? ANYDNN_DATA_DIR "/digits.csv.gz"
                                                                     : ANYDNN_INSTALLED_DATA_DIR "/digits.csv.gz";
    good = settings->folder ? dataset_read_mnist(settings->folder, data)
                            : dataset_read_digits(digits, settings->options.seed, data);
    if (!good)
        fprintf(stderr, "anydnn train: %s\n", data->error);
    else if (data->train.count < settings->options.batch) {
        fprintf(stderr, "anydnn train: %d training images are fewer than a batch of %d\n", data->train.count,
                settings->options.batch);
        dataset_free(data);
        return false;
    }
    return good;
}

int anydnn_train_main(int argc, char **argv)
{
    struct settings settings = { "all", NULL, NULL, NULL, false, { 0, 0, 0, 0, 0 } };
    struct outcome outcomes[MAX_DEVICES];
    struct reference reference;
    struct dataset data;
    bool good = true;
    int count, i;
    const int code = parse(argc, argv, &settings);
    if (code >= 0) return code;
    memset(outcomes, 0, sizeof outcomes);
    memset(&reference, 0, sizeof reference);
    count = choose_devices(&settings, outcomes);
    if (count == 0) {
        fprintf(stderr, "anydnn train: %s: %s\n", settings.device, anydnn_message());
        return EXIT_NO_DEVICE;
    }
    if (!load_data(&settings, &data)) return EXIT_FAILED;
    if (settings.options.steps && data.test.count > settings.options.batch) data.test.count = settings.options.batch;
    printf("%d training and %d test images of %dx%d; %d epochs, batches of %d, seed %llu\n", data.train.count,
           data.test.count, data.train.height, data.train.width, settings.options.epochs, settings.options.batch,
           (unsigned long long)settings.options.seed);
    fflush(stdout);
    for (i = 0; i < count; i++) {
        train_device(&settings, &data, &reference, settings.judge && i == 0, i == 0 ? settings.out : NULL,
                     &outcomes[i]);
        good = good && outcomes[i].good;
    }
    print_table(outcomes, count);
    free_reference(&reference);
    dataset_free(&data);
    return good ? EXIT_GOOD : EXIT_FAILED;
}
