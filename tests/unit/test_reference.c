/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_reference.c: the CPU reference against what does not come from it: closed forms worked out by hand,
 * and finite differences of each forward operation for its backward one (all in f64). */
#include "unit.h"

#include <anydnn/anydnn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROLE = 32, MAX_COUNT = 4096 };
static anydnn_stream *stream;

/* Values of each tensor role, as doubles; whole numbers for labels. */
static double values[MAX_ROLE][MAX_COUNT];
static int64_t counts[MAX_ROLE];
static int64_t labels[MAX_COUNT];
static int32_t indices[MAX_COUNT];

static double uniform(void)
{
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0 * 2.0 - 1.0;
}

static void *place_of(int role)
{
    return role == ANYDNN_LABELS ? (void *)labels : role == ANYDNN_INDICES ? (void *)indices : (void *)values[role];
}

/* Runs a line on the reference with the values above. */
static void run(const char *line)
{
    anydnn_binding rows[32];
    const anydnn_binding *given;
    anydnn_problem *p = NULL;
    int count, i;
    anydnn_status status = anydnn_problem_parse(line, &p);
    if (status == ANYDNN_OK) {
        given = anydnn_problem_bindings(p, &count);
        for (i = 0; i < count; i++) {
            rows[i] = given[i];
            if (!rows[i].tensor) continue;
            counts[rows[i].role] = anydnn_tensor_count(rows[i].tensor);
            rows[i].mem = anydnn_host_mem(place_of(rows[i].role), 0);
        }
        status = anydnn_run(stream, anydnn_problem_op(p), anydnn_problem_prefs(p), rows, count);
    }
    CHECK_CASE(status == ANYDNN_OK, line);
    if (status != ANYDNN_OK) printf("  %s\n", anydnn_message());
    anydnn_problem_destroy(p);
}

static void set(int role, int count, const double *from) { memcpy(values[role], from, (size_t)count * sizeof *from); }

static void randomise(int role, int64_t count)
{
    int64_t i;
    for (i = 0; i < count; i++) values[role][i] = uniform();
}

static void expect(const char *line, int role, int count, const double *want)
{
    int i;
    run(line);
    CHECK_CASE(counts[role] == count, line);
    for (i = 0; i < count; i++) {
        const double got = values[role][i];
        const int good = isnan(want[i]) ? isnan(got) : want[i] == got || fabs(got - want[i]) <= 1e-12 * (1 + fabs(want[i]));
        CHECK_CASE(good, line);
        if (!good) printf("  element %d: got %.17g, want %.17g\n", i, got, want[i]);
    }
}

/* ---- closed forms ---- */

static void convolutions(void)
{
    static const double one_to_nine[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, ones[64] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const double centre[] = { 0, 0, 0, 0, 1, 0, 0, 0, 0 };
    static const double spread[] = { 1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5, 0, 6, 0, 0, 0, 0, 0, 7, 0, 8, 0, 9 };
    static const double sums[] = { 12, 0, 21, 0, 16, 0, 0, 0, 0, 0, 27, 0, 45, 0, 33, 0, 0, 0, 0, 0, 24, 0, 39, 0, 28 };
    static const double group_x[] = { 0, 0, 0, 1 };
    static const double group_y[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1 };
    static const double two[] = { 2, 2 }, ramp[] = { 1, 2, 3, 4 }, taps[] = { 1, 10, 100 };
    static const double cross[] = { 321, 432 }, flipped[] = { 123, 234 };
    int i;
    for (i = 0; i < 16 * 4; i++) values[ANYDNN_W][i] = 1;
    set(ANYDNN_X, 4, group_x);
    expect("conv_forward x=1x4x1x1/f64 w=16x2x1x1/f64 groups=2", ANYDNN_Y, 16, group_y);
    /* A transposed convolution with stride 2, pad 2, dilation 2 is this backward data. */
    set(ANYDNN_DY, 9, one_to_nine);
    set(ANYDNN_W, 9, centre);
    expect("conv_backward_data dy=1x1x3x3/f64 w=1x1x3x3/f64 dx=1x1x5x5/f64 stride=2,2 pad=2,2 dilation=2,2", ANYDNN_DX, 25, spread);
    set(ANYDNN_W, 9, ones);
    expect("conv_backward_data dy=1x1x3x3/f64 w=1x1x3x3/f64 dx=1x1x5x5/f64 stride=2,2 pad=2,2 dilation=2,2", ANYDNN_DX, 25, sums);
    set(ANYDNN_X, 3, ones);
    set(ANYDNN_W, 1, ones);
    expect("conv_forward x=1x1x3/f64 w=1x1x2:s0,0,0/f64", ANYDNN_Y, 2, two); /* one tap seen twice */
    set(ANYDNN_X, 4, ramp);
    set(ANYDNN_W, 3, taps);
    expect("conv_forward x=1x1x4/f64 w=1x1x3/f64", ANYDNN_Y, 2, cross);
    expect("conv_forward x=1x1x4/f64 w=1x1x3/f64 mode=convolution", ANYDNN_Y, 2, flipped);
}

static void elementwise(void)
{
    const double nan = NAN, inf = INFINITY;
    const double x[] = { -2, -0.5, 0, 3, 9, nan, inf, -inf };
    const double relu[] = { 0, 0, 0, 3, 9, nan, inf, 0 }, leaky[] = { -0.5, -0.125, 0, 3, 9, nan, inf, -inf };
    const double clipped[] = { 0, 0, 0, 3, 6, nan, 6, 0 };
    const double sigmoid[] = { 1 / (1 + exp(2.0)), 1 / (1 + exp(0.5)), 0.5, 1 / (1 + exp(-3.0)), 1 / (1 + exp(-9.0)), nan, 1, 0 };
    const double b[] = { 4, nan, 0, 2, 9, 1, 1, inf }, larger[] = { 4, nan, 0, 3, 9, nan, inf, inf };
    const double smaller[] = { -2, nan, 0, 2, 9, nan, 1, -inf }, scaled[] = { -8, nan, 0, 6, 18, nan, inf, -inf };
    set(ANYDNN_X, 8, x);
    expect("activation_forward x=8/f64 mode=relu", ANYDNN_Y, 8, relu);
    expect("activation_forward x=8/f64 mode=leaky_relu coef=0.25", ANYDNN_Y, 8, leaky);
    expect("activation_forward x=8/f64 mode=clipped_relu", ANYDNN_Y, 8, clipped);
    expect("activation_forward x=8/f64 mode=sigmoid", ANYDNN_Y, 8, sigmoid);
    set(ANYDNN_A, 8, x);
    set(ANYDNN_B, 8, b);
    expect("binary a=8/f64 b=8/f64 mode=max", ANYDNN_Y, 8, larger);
    expect("binary a=8/f64 b=8/f64 mode=min", ANYDNN_Y, 8, smaller);
    values[ANYDNN_B][0] = 4, values[ANYDNN_B][4] = 2, values[ANYDNN_B][7] = 1;
    expect("binary a=8/f64 b=8/f64 mode=mul", ANYDNN_Y, 8, scaled);
    /* beta 0 does not read y, alpha 0 does not read x. */
    values[ANYDNN_Y][0] = nan;
    set(ANYDNN_X, 1, b);
    expect("copy x=1/f64 y=1/f64 beta=0", ANYDNN_Y, 1, b);
    values[ANYDNN_X][0] = nan;
    expect("copy x=1/f64 y=1/f64 alpha=0 beta=1", ANYDNN_Y, 1, b);
}

static void pools(void)
{
    const double nan = NAN;
    const double x[] = { 1, nan, 2, 5, 5, 3 }, largest[] = { nan, nan, 5, 5, 5 };
    const double ramp[] = { 1, 2, 3, 4 };
    const double ceil_sizes[] = { 1.5, 3.5, 5 };
    static const double five[] = { 1, 2, 3, 4, 5 };
    static const double dy[] = { 10, 20, 30 };
    set(ANYDNN_X, 6, x);
    expect("pool_forward x=1x1x6/f64 window=2", ANYDNN_Y, 5, largest);
    set(ANYDNN_X, 4, ramp);
    expect("pool_forward x=1x1x4/f64 window=2 pad=1 mode=avg_exclude", ANYDNN_Y, 5, (const double[]){ 1, 1.5, 2.5, 3.5, 4 });
    expect("pool_forward x=1x1x4/f64 window=2 pad=1 mode=avg_include", ANYDNN_Y, 5, (const double[]){ 0.5, 1.5, 2.5, 3.5, 2 });
    set(ANYDNN_X, 5, five);
    expect("pool_forward x=1x1x5/f64 window=2 stride=2 ceil_mode=1 mode=avg_exclude", ANYDNN_Y, 3, ceil_sizes);
    expect("pool_forward x=1x1x5/f64 window=2 stride=2 ceil_mode=1 mode=avg_include", ANYDNN_Y, 3, ceil_sizes);
    set(ANYDNN_X, 6, (const double[]){ 1, 1, 7, 7, 2, 0 }); /* ties: the first */
    set(ANYDNN_DY, 3, dy);
    expect("pool_backward dy=1x1x3/f64 x=1x1x6/f64 window=4", ANYDNN_DX, 6, (const double[]){ 0, 0, 30 + 30, 0, 0, 0 });
}

static void normalisations(void)
{
    const double nan = NAN, inf = INFINITY;
    const double x[] = { 1, 1, 1, 1000, 0, inf, 0, 0, -inf, -inf, -inf, -inf };
    const double y[] = { 0, 0, 0, 1, nan, nan, nan, nan, nan, nan, nan, nan };
    const double one[] = { 3, -4 }, shift[] = { 0.5, 0.25 }, gamma[] = { 2, 2 }, zero[] = { 0, 0 };
    set(ANYDNN_X, 12, x);
    expect("softmax_forward x=3x4/f64", ANYDNN_Y, 12, y);
    /* One value a channel: output = shift, running variance takes 0. */
    set(ANYDNN_X, 2, one), set(ANYDNN_GAMMA, 2, gamma), set(ANYDNN_SHIFT, 2, shift);
    set(ANYDNN_RUNNING_MEAN, 2, zero), set(ANYDNN_RUNNING_VAR, 2, gamma);
    expect("batchnorm_training x=1x2/f64 gamma=1x2/f64 shift=1x2/f64 running_mean=1x2/f64 running_var=1x2/f64 factor=0.5 epsilon=0.5",
           ANYDNN_Y, 2, shift);
    CHECK(values[ANYDNN_RUNNING_MEAN][0] == 1.5 && values[ANYDNN_RUNNING_VAR][0] == 1);
    /* Unbiased running variance: var of {0, 2} is 1, times 2/1. */
    set(ANYDNN_X, 2, (const double[]){ 0, 2 }), set(ANYDNN_RUNNING_VAR, 1, zero);
    run("batchnorm_training x=2x1/f64 gamma=1x1/f64 shift=1x1/f64 running_mean=1x1/f64 running_var=1x1/f64 factor=1 saved_mean=1x1/f64 saved_invstd=1x1/f64 epsilon=0");
    CHECK(values[ANYDNN_RUNNING_VAR][0] == 2 && values[ANYDNN_SAVED_INVSTD][0] == 1 && values[ANYDNN_SAVED_MEAN][0] == 1);
}

static void losses(void)
{
    const double x[] = { 0, 0, 5, 1, 1, 1, 7, 8, 9 };
    const double two_thirds = (log(2 + exp(5.0)) + log(3.0)) / 2;
    set(ANYDNN_X, 9, x);
    labels[0] = 1, labels[1] = 0, labels[2] = -100;
    expect("cross_entropy_forward x=3x3/f64 labels=3x1/i64", ANYDNN_LOSS, 1, &two_thirds);
    labels[0] = labels[1] = -1;
    expect("cross_entropy_forward x=3x3/f64 labels=3x1/i64", ANYDNN_LOSS, 1, (const double[]){ 0 });
    labels[1] = 3;
    expect("cross_entropy_forward x=3x3/f64 labels=3x1/i64 reduction=none", ANYDNN_LOSS, 3, (const double[]){ 0, NAN, 0 });
}

static void reductions_and_optimisers(void)
{
    set(ANYDNN_X, 4, (const double[]){ 1, NAN, 3, 4 });
    expect("reduce x=2x2/f64 mode=max axes=1", ANYDNN_Y, 2, (const double[]){ NAN, 4 });
    expect("reduce x=2x2/f64 mode=min axes=1", ANYDNN_Y, 2, (const double[]){ NAN, 3 });
    expect("reduce x=2x2/f64 mode=amax axes=1", ANYDNN_Y, 2, (const double[]){ NAN, 4 });
    expect("reduce x=2x2/f64 mode=norm1 axes=1", ANYDNN_Y, 2, (const double[]){ NAN, 7 });
    expect("reduce x=2x2/f64 mode=norm2 axes=1", ANYDNN_Y, 2, (const double[]){ NAN, 5 });
    expect("reduce x=2x0/f64 mode=mean axes=1", ANYDNN_Y, 2, (const double[]){ NAN, NAN });
    expect("reduce x=2x0/f64 mode=sum axes=1", ANYDNN_Y, 2, (const double[]){ 0, 0 });
    expect("reduce x=2x0/f64 mode=max axes=1", ANYDNN_Y, 2, (const double[]){ -INFINITY, -INFINITY });
    expect("reduce x=2x0/f64 mode=min axes=1", ANYDNN_Y, 2, (const double[]){ INFINITY, INFINITY });
    expect("reduce x=2x0/f64 mode=amax axes=1", ANYDNN_Y, 2, (const double[]){ 0, 0 });
    expect("reduce x=2x0/f64 mode=norm2 axes=1", ANYDNN_Y, 2, (const double[]){ 0, 0 });
    set(ANYDNN_PARAM, 1, (const double[]){ 1 }), set(ANYDNN_GRAD, 1, (const double[]){ 0.5 }), set(ANYDNN_MOMENT1, 1, (const double[]){ 2 });
    expect("sgd param=1/f64 grad=1/f64 moment1=1/f64 lr=0.125 momentum=0.5", ANYDNN_PARAM, 1, (const double[]){ 1 - 0.125 * 1.5 });
    /* The first step of Adam moves by lr, whatever the gradient's size. */
    set(ANYDNN_PARAM, 1, (const double[]){ 1 }), set(ANYDNN_MOMENT1, 1, (const double[]){ 0 }), set(ANYDNN_MOMENT2, 1, (const double[]){ 0 });
    expect("adam param=1/f64 grad=1/f64 moment1=1/f64 moment2=1/f64 lr=0.01 epsilon=0", ANYDNN_PARAM, 1, (const double[]){ 0.99 });
}

/* ---- finite differences ---- */

/* The gradient line must give d(sum of dy * forward(...)) / d(input) in `gradient`. `out` is forward's output role, whose
 * weights are put where the backward line reads them (dy_role). */
static void differentiate(const char *forward, int out, const char *backward, int dy_role, int input, int gradient, double h)
{
    static double weight[MAX_COUNT], want[MAX_COUNT];
    const double tolerance = 2e-6;
    int64_t i, j;
    run(forward);
    for (j = 0; j < counts[out]; j++) weight[j] = dy_role ? values[dy_role][j] = uniform() : 1.0;
    for (i = 0; i < counts[input]; i++) {
        const double old = values[input][i];
        want[i] = 0;
        values[input][i] = old + h;
        run(forward);
        for (j = 0; j < counts[out]; j++) want[i] += weight[j] * values[out][j];
        values[input][i] = old - h;
        run(forward);
        for (j = 0; j < counts[out]; j++) want[i] -= weight[j] * values[out][j];
        values[input][i] = old;
        want[i] /= 2 * h;
    }
    run(forward); /* leaves saved statistics and y as backward expects them */
    if (dy_role) memcpy(values[dy_role], weight, (size_t)counts[out] * sizeof weight[0]);
    run(backward);
    CHECK_CASE(counts[gradient] == counts[input] && counts[input] > 0, backward);
    for (i = 0; i < counts[input]; i++) {
        const double got = values[gradient][i];
        const int good = fabs(got - want[i]) <= tolerance * (1 + fabs(want[i]));
        CHECK_CASE(good, backward);
        if (!good) printf("  element %lld: got %.12g, want %.12g\n", (long long)i, got, want[i]);
    }
}

static void convolution_gradients(void)
{
    static const char *const shapes[][3] = {
        { "x=2x4x5x6/f64 w=6x2x3x2/f64 stride=2,1 pad=1,2 pad_end=2,0 dilation=1,2 groups=2",
          "dy=2x6x3x6/f64 w=6x2x3x2/f64 dx=2x4x5x6/f64 stride=2,1 pad=1,2 pad_end=2,0 dilation=1,2 groups=2",
          "x=2x4x5x6/f64 dy=2x6x3x6/f64 dw=6x2x3x2/f64 stride=2,1 pad=1,2 pad_end=2,0 dilation=1,2 groups=2" },
        { "x=1x2x3x4x3/f64 w=2x2x2x3x1/f64 stride=1,2,3 mode=convolution",
          "dy=1x2x2x1x1/f64 w=2x2x2x3x1/f64 dx=1x2x3x4x3/f64 stride=1,2,3 mode=convolution",
          "x=1x2x3x4x3/f64 dy=1x2x2x1x1/f64 dw=2x2x2x3x1/f64 stride=1,2,3 mode=convolution" },
    };
    char forward[256], data[256], filter[256];
    size_t i;
    for (i = 0; i < 2; i++) {
        randomise(ANYDNN_X, MAX_COUNT), randomise(ANYDNN_W, MAX_COUNT);
        snprintf(forward, sizeof forward, "conv_forward %s", shapes[i][0]);
        snprintf(data, sizeof data, "conv_backward_data %s", shapes[i][1]);
        snprintf(filter, sizeof filter, "conv_backward_filter %s", shapes[i][2]);
        differentiate(forward, ANYDNN_Y, data, ANYDNN_DY, ANYDNN_X, ANYDNN_DX, 1e-3);
        differentiate(forward, ANYDNN_Y, filter, ANYDNN_DY, ANYDNN_W, ANYDNN_DW, 1e-3);
    }
    randomise(ANYDNN_X, 64), randomise(ANYDNN_W, 64), randomise(ANYDNN_BIAS, 3);
    differentiate("conv_forward x=2x2x4/f64 w=3x2x2/f64 bias=1x3x1/f64", ANYDNN_Y, "conv_backward_bias dy=2x3x3/f64",
                  ANYDNN_DY, ANYDNN_BIAS, ANYDNN_DBIAS, 1e-3);
}

static void activation_gradients(void)
{
    static const char *const modes[] = { "relu", "leaky_relu", "clipped_relu coef=0.5", "sigmoid", "tanh" };
    char forward[300], backward[300];
    size_t i;
    for (i = 0; i < 5; i++) {
        randomise(ANYDNN_X, 30);
        snprintf(forward, sizeof forward, "activation_forward x=5x6/f64 mode=%s", modes[i]);
        snprintf(backward, sizeof backward, "activation_backward dy=5x6/f64 x=5x6/f64 mode=%s", modes[i]);
        differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_X, ANYDNN_DX, 1e-6);
        snprintf(backward, sizeof backward, "activation_backward dy=5x6/f64 y=5x6/f64 mode=%s", modes[i]);
        differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_X, ANYDNN_DX, 1e-6);
    }
}

static void pooling_gradients(void)
{
    static const char *const modes[] = { "max", "avg_include", "avg_exclude" };
    char forward[300], backward[300];
    size_t i;
    for (i = 0; i < 3; i++) {
        randomise(ANYDNN_X, 200);
        snprintf(forward, sizeof forward,
                 "pool_forward x=2x3x5x6/f64 window=3,2 stride=2,1 pad=1,1 pad_end=0,1 mode=%s", modes[i]);
        snprintf(backward, sizeof backward,
                 "pool_backward dy=2x3x2x7/f64 x=2x3x5x6/f64 window=3,2 stride=2,1 pad=1,1 pad_end=0,1 mode=%s",
                 modes[i]);
        differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_X, ANYDNN_DX, 1e-6);
    }
}

static void softmax_gradients(void)
{
    char forward[300], backward[300];
    size_t i;
    for (i = 0; i < 2; i++) {
        randomise(ANYDNN_X, 120);
        snprintf(forward, sizeof forward, "softmax_forward x=3x5x4/f64 axes=1,2 mode=%s", i ? "log" : "softmax");
        snprintf(backward, sizeof backward, "softmax_backward y=3x5x4/f64 dy=3x5x4/f64 axes=1,2 mode=%s",
                 i ? "log" : "softmax");
        differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_X, ANYDNN_DX, 1e-5);
    }
}

static void binary_gradients(void)
{
    static const char *const modes[] = { "add", "sub", "mul", "div", "max", "min" };
    char forward[300], backward[300];
    size_t i;
    for (i = 0; i < 6; i++) {
        randomise(ANYDNN_A, 12), randomise(ANYDNN_B, 20);
        values[ANYDNN_B][0] += 3, values[ANYDNN_B][1] -= 3, values[ANYDNN_B][2] += 2, values[ANYDNN_B][3] += 5;
        snprintf(forward, sizeof forward, "binary a=3x1x4/f64 b=1x1x4/f64 y=3x1x4/f64 mode=%s", modes[i]);
        snprintf(backward, sizeof backward,
                 "binary_backward dy=3x1x4/f64 a=3x1x4/f64 b=1x1x4/f64 da=3x1x4/f64 db=1x1x4/f64 mode=%s", modes[i]);
        differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_A, ANYDNN_DA, 1e-6);
        differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_B, ANYDNN_DB, 1e-6);
    }
}

static void reduction_gradients(void)
{
    static const char *const modes[] = { "sum", "mean", "max" };
    char forward[300], backward[300];
    size_t i;
    for (i = 0; i < 3; i++) {
        randomise(ANYDNN_X, 60);
        snprintf(forward, sizeof forward, "reduce x=3x4x5/f64 axes=0,2 mode=%s", modes[i]);
        snprintf(backward, sizeof backward, "reduce_backward dy=1x4x1/f64 x=3x4x5/f64 axes=0,2 mode=%s", modes[i]);
        differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_X, ANYDNN_DX, 1e-6);
    }
}

static void batchnorm_gradients(void)
{
    static const char *const modes[] = { "spatial", "per_activation" };
    char forward[300], backward[300];
    size_t i;
    for (i = 0; i < 2; i++) {
        const char *parameters = i ? "gamma=1x2x3/f64 shift=1x2x3/f64" : "gamma=1x2x1/f64 shift=1x2x1/f64";
        const char *saved =
            i ? "saved_mean=1x2x3/f64 saved_invstd=1x2x3/f64" : "saved_mean=1x2x1/f64 saved_invstd=1x2x1/f64";
        int with_saved;
        randomise(ANYDNN_X, 24), randomise(ANYDNN_GAMMA, 6), randomise(ANYDNN_SHIFT, 6);
        for (with_saved = 0; with_saved < 2; with_saved++) {
            snprintf(forward, sizeof forward, "batchnorm_training x=4x2x3/f64 %s %s mode=%s epsilon=0.01", parameters,
                     saved, modes[i]);
            snprintf(backward, sizeof backward,
                     "batchnorm_backward x=4x2x3/f64 dy=4x2x3/f64 %.16s %s mode=%s epsilon=0.01", parameters,
                     with_saved ? saved : "", modes[i]);
            differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_X, ANYDNN_DX, 1e-5);
            differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_GAMMA, ANYDNN_DGAMMA, 1e-5);
            differentiate(forward, ANYDNN_Y, backward, ANYDNN_DY, ANYDNN_SHIFT, ANYDNN_DSHIFT, 1e-5);
        }
    }
}

static void cross_entropy_gradients(void)
{
    size_t i;
    for (i = 0; i < 2; i++) {
        randomise(ANYDNN_X, 48);
        labels[0] = 1, labels[1] = 3, labels[2] = -1, labels[3] = 0;
        differentiate(i ? "cross_entropy_forward x=4x4/f64 labels=4x1/i64 reduction=none smoothing=0.2"
                        : "cross_entropy_forward x=4x4/f64 labels=4x1/i64",
                      ANYDNN_LOSS,
                      i ? "cross_entropy_backward x=4x4/f64 labels=4x1/i64 dloss=4x1/f64 reduction=none smoothing=0.2"
                        : "cross_entropy_backward x=4x4/f64 labels=4x1/i64",
                      i ? ANYDNN_DLOSS : 0, ANYDNN_X, ANYDNN_DX, 1e-5);
    }
}

static void dropout_gradients(void)
{
    randomise(ANYDNN_X, 40);
    differentiate("dropout_forward x=40/f64 ratio=0.25 rng_seed=7 rng_offset=3", ANYDNN_Y,
                  "dropout_backward dy=40/f64 ratio=0.25 rng_seed=7 rng_offset=3", ANYDNN_DY, ANYDNN_X, ANYDNN_DX,
                  1e-3);
}

int main(void)
{
    anydnn_context *context;
    if (anydnn_open("cpu", NULL, &context) || anydnn_stream_create(context, 0, &stream)) return 1;
    convolutions();
    elementwise();
    pools();
    normalisations();
    losses();
    reductions_and_optimisers();
    convolution_gradients();
    activation_gradients();
    pooling_gradients();
    softmax_gradients();
    binary_gradients();
    reduction_gradients();
    batchnorm_gradients();
    cross_entropy_gradients();
    dropout_gradients();
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return unit_end();
}
