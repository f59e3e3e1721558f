/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/legacy_layers.c [device]: the layers that programs written for cuDNN call, as api/docs/cudnn.md maps them,
 * against plain loops: activation, softmax, pooling, batch normalisation and dropout, in place and added to what is
 * there. */
#include "../support/arrays.h"

static struct array x, y, dx, dy, gamma_, shift, mean, variance, saved_mean, saved_invstd, dgamma, dshift;
static struct array *const arrays[] = { &x,    &y,        &dx,         &dy,           &gamma_, &shift,
                                        &mean, &variance, &saved_mean, &saved_invstd, &dgamma, &dshift };
enum { COUNT = sizeof arrays / sizeof arrays[0] };

static double activate(int mode, double v)
{
    return mode == ANYDNN_RELU ? (v < 0 ? 0 : v) : mode == ANYDNN_SIGMOID ? 1 / (1 + exp(-v)) : tanh(v);
}

static double slope(int mode, double f)
{
    return mode == ANYDNN_RELU ? f > 0 : mode == ANYDNN_SIGMOID ? f * (1 - f) : 1 - f * f;
}

/* y is x, then dx is dy: all from y. The last backward adds (beta 1) from x and y both. */
static void activation(void)
{
    static const int modes[] = { ANYDNN_RELU, ANYDNN_SIGMOID, ANYDNN_TANH };
    anydnn_activation op = anydnn_activation_init();
    int64_t k;
    int i;
    for (i = 0; i < 3; i++) {
        op.mode = modes[i];
        op.op = ANYDNN_OP_ACTIVATION_FORWARD;
        give(&x, nchw(2, 3, 4, 5));
        give(&y, x.t);
        memcpy(y.host, x.host, sizeof y.host), send(&y);
        for (k = 0; k < count_of(&y); k++) y.want[k] = activate(op.mode, y.was[k]);
        RUN(&op, bind(ANYDNN_X, &y), bind(ANYDNN_Y, &y));
        expect(&y, "ActivationForward in place");
        op.op = ANYDNN_OP_ACTIVATION_BACKWARD;
        give(&dy, x.t);
        give(&dx, x.t);
        for (k = 0; k < count_of(&y); k++) {
            dx.want[k] = dx.was[k] + slope(op.mode, y.was[k]) * dy.was[k];
            dy.want[k] = slope(op.mode, y.was[k]) * dy.was[k];
        }
        RUN(&op, bind(ANYDNN_Y, &y), bind(ANYDNN_DY, &dy), bind(ANYDNN_X, &x), bind(ANYDNN_DX, &dx),
            value(ANYDNN_BETA, 1));
        expect(&dx, "ActivationBackward, beta 1");
        RUN(&op, bind(ANYDNN_Y, &y), bind(ANYDNN_DY, &dy), bind(ANYDNN_DX, &dy));
        expect(&dy, "ActivationBackward in place");
    }
}

/* CLIPPED_RELU with a ceiling, and both calls with factors. */
static void clipped_activation(void)
{
    anydnn_activation op = anydnn_activation_init();
    int64_t k;
    op.mode = ANYDNN_CLIPPED_RELU;
    give(&x, nchw(2, 3, 4, 5));
    give(&y, x.t), give(&dy, x.t), give(&dx, x.t);
    for (k = 0; k < count_of(&y); k++) {
        const double v = x.was[k];
        y.want[k] = 2 * (v < 0 ? 0 : v > 0.5 ? 0.5 : v) - 0.5 * y.was[k];
        dx.want[k] = 2 * (v > 0 && v < 0.5 ? dy.was[k] : 0) - 0.5 * dx.was[k];
    }
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y), value(ANYDNN_COEF, 0.5), value(ANYDNN_ALPHA, 2),
        value(ANYDNN_BETA, -0.5));
    expect(&y, "ActivationForward, clipped");
    op.op = ANYDNN_OP_ACTIVATION_BACKWARD;
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_DY, &dy), bind(ANYDNN_DX, &dx), value(ANYDNN_COEF, 0.5),
        value(ANYDNN_ALPHA, 2), value(ANYDNN_BETA, -0.5));
    expect(&dx, "ActivationBackward, clipped");
}

/* Sum over the row of element k of f * g, rows along the channels or along everything but the batch. */
static double row_sum(const struct array *a, bool instance, int64_t k, const double *f, const double *g)
{
    const int64_t plane = a->t.dims[2] * a->t.dims[3], item = plane * a->t.dims[1];
    const int64_t first = instance ? k / item * item : k / item * item + k % plane;
    const int64_t step = instance ? 1 : plane, count = instance ? item : a->t.dims[1];
    double sum = 0;
    int64_t i;
    for (i = 0; i < count; i++) sum += f[first + i * step] * (g ? g[first + i * step] : 1);
    return sum;
}

static void softmax(void)
{
    static double exponential[LIMIT];
    anydnn_softmax op = anydnn_softmax_init();
    int64_t k;
    int i;
    for (i = 0; i < 2; i++) {
        op.axes = i ? 1u << 1 | 1u << 2 | 1u << 3 : 1u << 1;
        op.op = ANYDNN_OP_SOFTMAX_FORWARD;
        give(&y, nchw(2, 5, 3, 4));
        for (k = 0; k < count_of(&y); k++) exponential[k] = exp(y.was[k]);
        for (k = 0; k < count_of(&y); k++) y.want[k] = exponential[k] / row_sum(&y, i, k, exponential, NULL);
        RUN(&op, bind(ANYDNN_X, &y), bind(ANYDNN_Y, &y));
        expect(&y, "SoftmaxForward in place");
        op.op = ANYDNN_OP_SOFTMAX_BACKWARD;
        give(&dy, y.t);
        for (k = 0; k < count_of(&y); k++) dy.want[k] = y.was[k] * (dy.was[k] - row_sum(&y, i, k, dy.was, y.was));
        RUN(&op, bind(ANYDNN_Y, &y), bind(ANYDNN_DY, &dy), bind(ANYDNN_DX, &dy));
        expect(&dy, "SoftmaxBackward in place");
    }
}

/* SOFTMAX_LOG, with factors. */
static void log_softmax(void)
{
    static double exponential[LIMIT];
    anydnn_softmax op = anydnn_softmax_init();
    int64_t k;
    op.mode = ANYDNN_LOG_SOFTMAX;
    give(&x, nchw(2, 5, 3, 4));
    give(&y, x.t), give(&dy, x.t), give(&dx, x.t);
    for (k = 0; k < count_of(&x); k++) exponential[k] = exp(x.was[k]);
    for (k = 0; k < count_of(&x); k++) y.want[k] = x.was[k] - log(row_sum(&x, false, k, exponential, NULL));
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y));
    expect(&y, "SoftmaxForward, log");
    op.op = ANYDNN_OP_SOFTMAX_BACKWARD;
    for (k = 0; k < count_of(&x); k++)
        dx.want[k] = 2 * (dy.was[k] - exp(y.was[k]) * row_sum(&x, false, k, dy.was, NULL)) + dx.was[k];
    RUN(&op, bind(ANYDNN_Y, &y), bind(ANYDNN_DY, &dy), bind(ANYDNN_DX, &dx), value(ANYDNN_ALPHA, 2),
        value(ANYDNN_BETA, 1));
    expect(&dx, "SoftmaxBackward, log");
}

/* Windows of 3x3, stride 2, padding 1: adds to what is wanted of y, or of dx where backward. */
static void pool_loops(int mode, bool backward)
{
    int64_t i, j;
    for (i = 0; i < count_of(&y); i++) {
        const int64_t q = i % y.t.dims[3], p = i / y.t.dims[3] % y.t.dims[2], c = channel_of(&y, i),
                      n = i / (y.t.dims[1] * y.t.dims[2] * y.t.dims[3]);
        int64_t cells[9], best = -1;
        int inside = 0;
        double sum = 0;
        for (j = 0; j < 9; j++) {
            const int64_t h = 2 * p - 1 + j / 3, v = 2 * q - 1 + j % 3, at = number_of(&x, n, c, h, v);
            if (h < 0 || h >= x.t.dims[2] || v < 0 || v >= x.t.dims[3]) continue;
            cells[inside++] = at;
            sum += x.was[at];
            if (best < 0 || x.was[at] > x.was[best]) best = at;
        }
        if (mode == ANYDNN_POOL_MAX && backward)
            dx.want[best] += dy.was[i];
        else if (mode == ANYDNN_POOL_MAX)
            y.want[i] += x.was[best];
        else if (!backward)
            y.want[i] += sum / (mode == ANYDNN_POOL_AVG_INCLUDE ? 9 : inside);
        for (j = 0; j < inside && mode != ANYDNN_POOL_MAX && backward; j++)
            dx.want[cells[j]] += dy.was[i] / (mode == ANYDNN_POOL_AVG_INCLUDE ? 9 : inside);
    }
}

static void pooling(void)
{
    anydnn_pool op = anydnn_pool_init();
    op.window[0] = op.window[1] = 3;
    op.stride[0] = op.stride[1] = 2;
    op.pad[0] = op.pad[1] = 1;
    for (op.mode = ANYDNN_POOL_MAX; op.mode <= ANYDNN_POOL_AVG_EXCLUDE; op.mode++) {
        give(&x, nchw(2, 3, 7, 5));
        give(&y, nchw(2, 3, 4, 3));
        give(&dy, y.t);
        give(&dx, x.t);
        op.op = ANYDNN_OP_POOL_FORWARD;
        pool_loops(op.mode, false);
        RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y), value(ANYDNN_BETA, 1));
        expect(&y, "PoolingForward, beta 1");
        op.op = ANYDNN_OP_POOL_BACKWARD;
        pool_loops(op.mode, true);
        RUN(&op, bind(ANYDNN_DY, &dy), bind(ANYDNN_X, &x), bind(ANYDNN_DX, &dx), value(ANYDNN_BETA, 1));
        expect(&dx, "PoolingBackward, beta 1");
    }
}

/* A NaN takes each window that it lies in. */
static void pooling_of_nan(void)
{
    anydnn_pool op = anydnn_pool_init();
    int64_t k;
    op.window[0] = op.window[1] = 2;
    for (op.mode = ANYDNN_POOL_MAX; op.mode <= ANYDNN_POOL_AVG_EXCLUDE; op.mode++) {
        give_value(&x, nchw(1, 1, 3, 3), 0.5f);
        x.host[4] = NAN, send(&x);
        give(&y, nchw(1, 1, 2, 2));
        for (k = 0; k < 4; k++) y.want[k] = NAN;
        RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y));
        expect(&y, "PoolingForward of a NaN");
    }
}

static void want_training(double epsilon, double factor)
{
    const double n = (double)count_of(&x) / (double)x.t.dims[1];
    int64_t k, c;
    for (c = 0; c < x.t.dims[1]; c++) saved_mean.want[c] = saved_invstd.want[c] = 0;
    for (k = 0; k < count_of(&x); k++) saved_mean.want[channel_of(&x, k)] += x.was[k] / n;
    for (k = 0; k < count_of(&x); k++) {
        const double d = x.was[k] - saved_mean.want[channel_of(&x, k)];
        saved_invstd.want[channel_of(&x, k)] += d * d / n;
    }
    for (c = 0; c < x.t.dims[1]; c++) {
        const double var = saved_invstd.want[c];
        mean.want[c] = (1 - factor) * mean.was[c] + factor * saved_mean.want[c];
        variance.want[c] = (1 - factor) * variance.was[c] + factor * var * n / (n - 1);
        saved_invstd.want[c] = 1 / sqrt(var + epsilon);
    }
    for (k = 0; k < count_of(&x); k++) {
        c = channel_of(&x, k);
        y.want[k] = gamma_.was[c] * (x.was[k] - saved_mean.want[c]) * saved_invstd.want[c] + shift.was[c];
    }
}

static void want_gradients(void)
{
    const double n = (double)count_of(&x) / (double)x.t.dims[1];
    int64_t k, c;
    for (c = 0; c < x.t.dims[1]; c++) dgamma.want[c] = dshift.want[c] = 0;
    for (k = 0; k < count_of(&x); k++) {
        c = channel_of(&x, k);
        dshift.want[c] += dy.was[k];
        dgamma.want[c] += dy.was[k] * (x.was[k] - saved_mean.was[c]) * saved_invstd.was[c];
    }
    for (k = 0; k < count_of(&x); k++) {
        c = channel_of(&x, k);
        dx.want[k] = gamma_.was[c] * saved_invstd.was[c] *
                     (dy.was[k] - dshift.want[c] / n -
                      (x.was[k] - saved_mean.was[c]) * saved_invstd.was[c] * dgamma.want[c] / n);
    }
}

/* Running factor 0.01, epsilon 0, and the saved statistics given back. */
static void batchnorm(void)
{
    const anydnn_tensor parameters = nchw(1, 5, 1, 1), data = nchw(3, 5, 4, 4);
    anydnn_batchnorm op = anydnn_batchnorm_init();
    int i;
    for (i = 0; i < COUNT; i++) give(arrays[i], parameters);
    give(&x, data), give(&y, data), give(&dy, data), give(&dx, data);
    want_training(0, 0.01);
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_GAMMA, &gamma_), bind(ANYDNN_SHIFT, &shift), bind(ANYDNN_Y, &y),
        bind(ANYDNN_RUNNING_MEAN, &mean), bind(ANYDNN_RUNNING_VAR, &variance), bind(ANYDNN_SAVED_MEAN, &saved_mean),
        bind(ANYDNN_SAVED_INVSTD, &saved_invstd), value(ANYDNN_FACTOR, 0.01), value(ANYDNN_EPSILON, 0));
    expect(&y, "BatchNormalizationForwardTraining");
    expect(&mean, "running mean"), expect(&variance, "running variance");
    expect(&saved_mean, "saved mean"), expect(&saved_invstd, "saved inverse deviation");
    op.op = ANYDNN_OP_BATCHNORM_BACKWARD;
    give_value(&dgamma, parameters, NAN), give_value(&dshift, parameters, NAN); /* not read */
    want_gradients();
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_DY, &dy), bind(ANYDNN_GAMMA, &gamma_),
        bind(ANYDNN_SAVED_MEAN, &saved_mean), bind(ANYDNN_SAVED_INVSTD, &saved_invstd), bind(ANYDNN_DX, &dx),
        bind(ANYDNN_DGAMMA, &dgamma), bind(ANYDNN_DSHIFT, &dshift), value(ANYDNN_EPSILON, 0));
    expect(&dx, "BatchNormalizationBackward"), expect(&dgamma, "dgamma"), expect(&dshift, "dshift");
    /* dx is written, the gradients of the parameters are added: to themselves, times 0.5. */
    give_value(&dx, data, NAN);
    want_gradients();
    for (i = 0; i < 5; i++)
        dgamma.want[i] = dgamma.was[i] + 0.5 * dgamma.want[i], dshift.want[i] = dshift.was[i] + 0.5 * dshift.want[i];
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_DY, &dy), bind(ANYDNN_GAMMA, &gamma_),
        bind(ANYDNN_SAVED_MEAN, &saved_mean), bind(ANYDNN_SAVED_INVSTD, &saved_invstd), bind(ANYDNN_DX, &dx),
        bind(ANYDNN_DGAMMA, &dgamma), bind(ANYDNN_DSHIFT, &dshift), value(ANYDNN_EPSILON, 0),
        value(ANYDNN_PARAM_ALPHA, 0.5), value(ANYDNN_PARAM_BETA, 1));
    expect(&dx, "BatchNormalizationBackward, beta of parameters 1"), expect(&dgamma, "dgamma"),
        expect(&dshift, "dshift");
}

/* Statistics of each activation, and inference from what training has left, added to y. */
static void batchnorm_modes(void)
{
    anydnn_batchnorm op = anydnn_batchnorm_init();
    anydnn_tensor parameters, derived;
    int64_t k, c, n;
    int i;
    for (op.mode = ANYDNN_BATCHNORM_SPATIAL; op.mode <= ANYDNN_BATCHNORM_PER_ACTIVATION; op.mode++) {
        const int64_t plane = op.mode ? 6 : 1;
        parameters = op.mode ? nchw(1, 5, 2, 3) : nchw(1, 5, 1, 1);
        for (i = 0; i < COUNT; i++) give(arrays[i], parameters);
        give(&x, nhwc(4, 5, 2, 3)), give(&y, nchw(4, 5, 2, 3));
        for (c = 0; c < 5 * plane; c++) variance.host[c] = fabsf(variance.host[c]) + 0.5f;
        send(&variance);
        op.op = ANYDNN_OP_BATCHNORM_TRAINING;
        CHECK(anydnn_output((const anydnn_op *)&op,
                            ROWS(bind(ANYDNN_X, &x), bind(ANYDNN_GAMMA, &gamma_), bind(ANYDNN_SHIFT, &shift)),
                            ANYDNN_SAVED_MEAN, &derived) == ANYDNN_OK);
        CHECK(memcmp(derived.dims, parameters.dims, sizeof derived.dims) == 0 && derived.dtype == ANYDNN_F32);
        op.op = ANYDNN_OP_BATCHNORM_INFERENCE;
        for (k = 0; k < count_of(&y); k++) {
            c = op.mode ? k % 30 : channel_of(&y, k);
            y.want[k] =
                2 * (gamma_.was[c] * (x.was[k] - mean.was[c]) / sqrt(variance.was[c] + 1e-3) + shift.was[c]) + y.was[k];
        }
        RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_GAMMA, &gamma_), bind(ANYDNN_SHIFT, &shift), bind(ANYDNN_Y, &y),
            bind(ANYDNN_RUNNING_MEAN, &mean), bind(ANYDNN_RUNNING_VAR, &variance), value(ANYDNN_EPSILON, 1e-3),
            value(ANYDNN_ALPHA, 2), value(ANYDNN_BETA, 1));
        expect(&y, "BatchNormalizationForwardInference");
    }
    op.mode = ANYDNN_BATCHNORM_PER_ACTIVATION, op.op = ANYDNN_OP_BATCHNORM_TRAINING;
    for (c = 0; c < 30; c++) {
        double sum = 0, squares = 0;
        for (n = 0; n < 4; n++) sum += x.was[n * 30 + c] / 4;
        for (n = 0; n < 4; n++) squares += (x.was[n * 30 + c] - sum) * (x.was[n * 30 + c] - sum) / 4;
        for (n = 0; n < 4; n++)
            y.want[n * 30 + c] = gamma_.was[c] * (x.was[n * 30 + c] - sum) / sqrt(squares + 1e-3) + shift.was[c];
        saved_mean.want[c] = sum;
        saved_invstd.want[c] = 1 / sqrt(squares + 1e-3);
    }
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_GAMMA, &gamma_), bind(ANYDNN_SHIFT, &shift), bind(ANYDNN_Y, &y),
        bind(ANYDNN_SAVED_MEAN, &saved_mean), bind(ANYDNN_SAVED_INVSTD, &saved_invstd), value(ANYDNN_EPSILON, 1e-3));
    expect(&y, "PER_ACTIVATION"), expect(&saved_mean, "mean of an activation");
    expect(&saved_invstd, "inverse deviation of an activation");
}

/* The state is two numbers: the same ones give the same mask, an advanced offset another. */
static void dropout(void)
{
    static float mask[LIMIT], other[LIMIT];
    anydnn_elementwise op = { sizeof op, ANYDNN_OP_DROPOUT_FORWARD };
    int64_t k, kept = 0;
    give_value(&x, nchw(2, 5, 10, 10), 1);
    give(&y, x.t);
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y), value(ANYDNN_RATIO, 0.25), value(ANYDNN_SEED, 17),
        value(ANYDNN_OFFSET, 1000));
    CHECK(anydnn_copy_out(stream, mask, y.mem, sizeof mask) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    for (k = 0; k < count_of(&y); k++) kept += mask[k] != 0;
    CHECK(kept > 650 && kept < 850); /* 750, give or take seven deviations */
    for (k = 0; k < count_of(&y); k++) y.want[k] = mask[k] != 0 ? 1 / 0.75 : 0;
    expect(&y, "DropoutForward");
    op.op = ANYDNN_OP_DROPOUT_BACKWARD;
    give(&dy, x.t);
    for (k = 0; k < count_of(&y); k++) dy.want[k] = mask[k] != 0 ? dy.was[k] / 0.75 : 0;
    RUN(&op, bind(ANYDNN_DY, &dy), bind(ANYDNN_DX, &dy), value(ANYDNN_RATIO, 0.25), value(ANYDNN_SEED, 17),
        value(ANYDNN_OFFSET, 1000));
    expect(&dy, "DropoutBackward");
    op.op = ANYDNN_OP_DROPOUT_FORWARD;
    RUN(&op, bind(ANYDNN_X, &x), bind(ANYDNN_Y, &y), value(ANYDNN_RATIO, 0.25), value(ANYDNN_SEED, 17),
        value(ANYDNN_OFFSET, 1250));
    CHECK(anydnn_copy_out(stream, other, y.mem, sizeof other) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    CHECK(memcmp(mask, other, sizeof mask) != 0);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cpu";
    const int opened = open_arrays(device, arrays, COUNT);
    if (opened) return opened;
    activation();
    clipped_activation();
    softmax();
    log_softmax();
    pooling();
    pooling_of_nan();
    batchnorm();
    batchnorm_modes();
    dropout();
    return close_arrays(arrays, COUNT);
}
