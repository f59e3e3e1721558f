/* SPDX-License-Identifier: Apache-2.0
 * api/examples/digits.c: a convolutional network, built and trained with anydnn. See digits.h for its layers.
 *
 * How the API is used here
 *   1. A tensor is a description (anydnn_tensor) plus a place in device memory (anydnn_mem): `struct cell`.
 *   2. Each operation of the network becomes a plan once, when the network is built: add().
 *   3. A pass (forward, backward, update, inference) is a list of plans with their bindings. Running it enqueues the
 *      plans on a stream and nothing more: run().
 *   4. What changes from step to step (rate, step number, place in the dropout sequence) are scalars, given anew with
 *      each run; the same plans serve.
 * All weights lie in one vector, and so do all gradients: one Adam plan updates the whole network. */
#include "digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const anydnn_status status_ = (call);                                                                          \
        if (status_ != ANYDNN_OK) return status_;                                                                      \
    } while (0)
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

enum { CHANNELS1 = 16, CHANNELS2 = 32, HIDDEN = 64 };
enum { SLICES = 14, PARAMETERS = 10, MAX_STEPS = 24, MAX_BINDINGS = 10, MAX_OWNED = 32 };
enum { SLICE_ALIGNMENT = 64 }; /* elements: every slice begins at a multiple of 256 bytes */

static const double dropout_ratio = 0.25, smoothing = 0.1, statistics_factor = 0.1;

/* A tensor and where it lies. */
struct cell {
    anydnn_tensor shape;
    anydnn_mem mem;
};

/* An operation of the network: its plan and what it works on. */
struct operation {
    anydnn_plan *plan;
    int count;
    anydnn_binding bindings[MAX_BINDINGS];
};

struct pass {
    int count;
    struct operation operations[MAX_STEPS];
};

/* The two convolution blocks are built alike. dy takes the gradients of normal and of conv, one after the other. */
struct block {
    struct cell conv, normal, pooled, indices;
    struct cell dy, dpooled;
};

/* Order of the slices: what Adam updates, then the statistics. */
enum { KERNEL1, GAMMA1, SHIFT1, KERNEL2, GAMMA2, SHIFT2, WEIGHT1, BIAS1, WEIGHT2, BIAS2, MEAN1, VAR1, MEAN2, VAR2 };

struct digits_net {
    anydnn_context *context;
    anydnn_stream *stream;
    digits_options options;
    int height, width, step;
    struct cell image, label, loss;
    struct block block[2];
    struct cell features, hidden, dropped, logits; /* features: the second block's result as [N, 32*H/4*W/4] */
    struct cell dfeatures, dhidden, dlogits;
    digits_slice slice[SLICES];
    struct cell value[SLICES];                           /* a weight or running statistic */
    struct cell result[SLICES];                          /* its gradient or the batch's statistic */
    struct cell parameters, gradients, moment1, moment2; /* the vectors that the slices lie in */
    int parameter_count, value_count;
    struct pass forward, backward, update, inference;
    int owned_count;
    anydnn_mem owned[MAX_OWNED];
};

/* ---------------------------------------------------------------- tensors ------------------------------------- */

static anydnn_status allocate(digits_net *net, struct cell *cell, anydnn_tensor shape)
{
    cell->shape = shape;
    TRY(anydnn_alloc(net->context, (uint64_t)anydnn_tensor_bytes(&shape), &cell->mem));
    net->owned[net->owned_count++] = cell->mem;
    return ANYDNN_OK;
}

/* The same memory from element `first` on, seen in another shape: a view costs nothing. */
static struct cell view(const struct cell *cell, anydnn_tensor shape, int first)
{
    struct cell seen;
    seen.shape = shape;
    seen.mem = anydnn_mem_at(cell->mem, (uint64_t)first * sizeof(float));
    return seen;
}

static anydnn_tensor images(int n, int c, int h, int w)
{
    return anydnn_tensor_nchw(ANYDNN_F32, n, c, h, w);
}
static anydnn_tensor matrix(int rows, int columns)
{
    return anydnn_tensor_2d(ANYDNN_F32, rows, columns);
}

static anydnn_status create_block(digits_net *net, struct block *block, int channels, int height, int width)
{
    const int n = net->options.batch;
    const anydnn_tensor full = images(n, channels, height, width);
    const anydnn_tensor half = images(n, channels, height / 2, width / 2);
    anydnn_tensor indices = half;
    indices.dtype = ANYDNN_I32;
    TRY(allocate(net, &block->conv, full));
    TRY(allocate(net, &block->normal, full));
    TRY(allocate(net, &block->dy, full));
    TRY(allocate(net, &block->pooled, half));
    TRY(allocate(net, &block->dpooled, half));
    return allocate(net, &block->indices, indices);
}

static anydnn_status create_tensors(digits_net *net)
{
    const int n = net->options.batch, h = net->height, w = net->width;
    anydnn_tensor labels = matrix(n, 1);
    labels.dtype = ANYDNN_I32;
    TRY(allocate(net, &net->image, images(n, 1, h, w)));
    TRY(allocate(net, &net->label, labels));
    TRY(allocate(net, &net->loss, matrix(1, 1)));
    TRY(create_block(net, &net->block[0], CHANNELS1, h, w));
    TRY(create_block(net, &net->block[1], CHANNELS2, h / 2, w / 2));
    TRY(allocate(net, &net->hidden, matrix(n, HIDDEN)));
    TRY(allocate(net, &net->dropped, matrix(n, HIDDEN)));
    TRY(allocate(net, &net->dhidden, matrix(n, HIDDEN)));
    TRY(allocate(net, &net->logits, matrix(n, DIGITS_CLASSES)));
    TRY(allocate(net, &net->dlogits, matrix(n, DIGITS_CLASSES)));
    net->features = view(&net->block[1].pooled, matrix(n, CHANNELS2 * (h / 4) * (w / 4)), 0);
    net->dfeatures = view(&net->block[1].dpooled, net->features.shape, 0);
    return ANYDNN_OK;
}

/* The vectors of weights, gradients and moments, and their slices. */
static anydnn_status create_slices(digits_net *net)
{
    const int features = CHANNELS2 * (net->height / 4) * (net->width / 4);
    const struct {
        const char *name;
        anydnn_tensor shape;
        int fan_in;
        float start;
    } table[SLICES] = {
        { "conv1.weight", images(CHANNELS1, 1, 3, 3), 9, 0 },
        { "norm1.gamma", images(1, CHANNELS1, 1, 1), 0, 1 },
        { "norm1.shift", images(1, CHANNELS1, 1, 1), 0, 0 },
        { "conv2.weight", images(CHANNELS2, CHANNELS1, 3, 3), CHANNELS1 * 9, 0 },
        { "norm2.gamma", images(1, CHANNELS2, 1, 1), 0, 1 },
        { "norm2.shift", images(1, CHANNELS2, 1, 1), 0, 0 },
        { "full1.weight", matrix(features, HIDDEN), features, 0 },
        { "full1.bias", matrix(1, HIDDEN), 0, 0 },
        { "full2.weight", matrix(HIDDEN, DIGITS_CLASSES), HIDDEN, 0 },
        { "full2.bias", matrix(1, DIGITS_CLASSES), 0, 0 },
        { "norm1.mean", images(1, CHANNELS1, 1, 1), 0, 0 },
        { "norm1.variance", images(1, CHANNELS1, 1, 1), 0, 1 },
        { "norm2.mean", images(1, CHANNELS2, 1, 1), 0, 0 },
        { "norm2.variance", images(1, CHANNELS2, 1, 1), 0, 1 },
    };
    int i, first = 0;
    for (i = 0; i < SLICES; i++) {
        const int count = (int)anydnn_tensor_count(&table[i].shape);
        const digits_slice slice = { table[i].name, first, count, table[i].fan_in, table[i].start };
        net->slice[i] = slice;
        first += (count + SLICE_ALIGNMENT - 1) / SLICE_ALIGNMENT * SLICE_ALIGNMENT;
        if (i == PARAMETERS - 1) net->parameter_count = first;
    }
    net->value_count = first;
    TRY(allocate(net, &net->parameters, anydnn_tensor_1d(ANYDNN_F32, net->value_count)));
    TRY(allocate(net, &net->gradients, anydnn_tensor_1d(ANYDNN_F32, net->value_count)));
    TRY(allocate(net, &net->moment1, anydnn_tensor_1d(ANYDNN_F32, net->parameter_count)));
    TRY(allocate(net, &net->moment2, anydnn_tensor_1d(ANYDNN_F32, net->parameter_count)));
    for (i = 0; i < SLICES; i++) {
        net->value[i] = view(&net->parameters, table[i].shape, net->slice[i].first);
        net->result[i] = view(&net->gradients, table[i].shape, net->slice[i].first);
    }
    /* The gaps between slices take part in Adam: zero gradients there stay without effect. */
    return anydnn_set(net->stream, net->gradients.mem, 0, (uint64_t)net->value_count * sizeof(float));
}

/* ---------------------------------------------------------------- operations ---------------------------------- */

static anydnn_binding bind(int role, const struct cell *cell)
{
    return anydnn_bind(role, &cell->shape, cell->mem);
}

/* Makes the plan of an operation and appends it to a pass. */
static anydnn_status add(digits_net *net, struct pass *pass, const void *op, const anydnn_binding *bindings, int count)
{
    struct operation *operation = &pass->operations[pass->count];
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    prefs.workspace_limit = ANYDNN_DEFAULT_WORKSPACE; /* what the stream owns */
    TRY(anydnn_plan_create(net->context, op, &prefs, bindings, count, &operation->plan));
    memcpy(operation->bindings, bindings, (size_t)count * sizeof *bindings);
    operation->count = count;
    pass->count++;
    return ANYDNN_OK;
}

/* A convolution in any direction: `op` tells which, the roles which tensor is what. */
static anydnn_status add_conv(digits_net *net, struct pass *pass, int op, anydnn_binding in1, anydnn_binding in2,
                              anydnn_binding out)
{
    const anydnn_binding bindings[] = { in1, in2, out };
    anydnn_conv conv = anydnn_conv_init();
    conv.op = op;
    conv.pad[0] = conv.pad[1] = 1;
    return add(net, pass, &conv, bindings, COUNT(bindings));
}

/* y = a' * b' (+ bias, which may be NULL). */
static anydnn_status add_matmul(digits_net *net, struct pass *pass, const struct cell *a, int trans_a,
                                const struct cell *b, int trans_b, const struct cell *bias, const struct cell *y)
{
    anydnn_binding bindings[] = { bind(ANYDNN_A, a), bind(ANYDNN_B, b), bind(ANYDNN_Y, y), { 0 } };
    anydnn_matmul matmul = anydnn_matmul_init();
    matmul.trans_a = trans_a;
    matmul.trans_b = trans_b;
    if (bias) bindings[3] = bind(ANYDNN_BIAS, bias);
    return add(net, pass, &matmul, bindings, bias ? 4 : 3);
}

/* Both directions work in place. The gradient of relu is told from its result. */
static anydnn_status add_relu(digits_net *net, struct pass *pass, const struct cell *y)
{
    const anydnn_binding bindings[] = { bind(ANYDNN_X, y), bind(ANYDNN_Y, y) };
    const anydnn_activation relu = anydnn_activation_init();
    return add(net, pass, &relu, bindings, COUNT(bindings));
}

static anydnn_status add_relu_backward(digits_net *net, struct pass *pass, const struct cell *y, const struct cell *dy)
{
    const anydnn_binding bindings[] = { bind(ANYDNN_Y, y), bind(ANYDNN_DY, dy), bind(ANYDNN_DX, dy) };
    anydnn_activation relu = anydnn_activation_init();
    relu.op = ANYDNN_OP_ACTIVATION_BACKWARD;
    return add(net, pass, &relu, bindings, COUNT(bindings));
}

static anydnn_status add_pool(digits_net *net, struct pass *pass, int op, anydnn_binding in, anydnn_binding out,
                              const struct cell *indices)
{
    const anydnn_binding bindings[] = { in, out, bind(ANYDNN_INDICES, indices) };
    anydnn_pool pool = anydnn_pool_init();
    pool.op = op;
    pool.window[0] = pool.window[1] = 2;
    pool.stride[0] = pool.stride[1] = 2;
    return add(net, pass, &pool, bindings, COUNT(bindings));
}

/* Training takes statistics from the batch and updates the running ones; inference takes the running ones. */
static anydnn_status add_norm(digits_net *net, struct pass *pass, int training, int which)
{
    const struct block *block = &net->block[which];
    const struct cell *value = net->value, *result = net->result;
    const int gamma = which ? GAMMA2 : GAMMA1, mean = which ? MEAN2 : MEAN1;
    const anydnn_binding bindings[] = {
        bind(ANYDNN_X, &block->conv),
        bind(ANYDNN_Y, &block->normal),
        bind(ANYDNN_GAMMA, &value[gamma]),
        bind(ANYDNN_SHIFT, &value[gamma + 1]),
        bind(ANYDNN_RUNNING_MEAN, &value[mean]),
        bind(ANYDNN_RUNNING_VAR, &value[mean + 1]),
        /* From here on in training only. */
        bind(ANYDNN_SAVED_MEAN, &result[mean]),
        bind(ANYDNN_SAVED_INVSTD, &result[mean + 1]),
        anydnn_bind_value(ANYDNN_FACTOR, statistics_factor),
    };
    anydnn_batchnorm norm = anydnn_batchnorm_init();
    norm.op = training ? ANYDNN_OP_BATCHNORM_TRAINING : ANYDNN_OP_BATCHNORM_INFERENCE;
    return add(net, pass, &norm, bindings, training ? COUNT(bindings) : 6);
}

/* In place: dx replaces dy. */
static anydnn_status add_norm_backward(digits_net *net, struct pass *pass, int which)
{
    const struct block *block = &net->block[which];
    const struct cell *result = net->result;
    const int gamma = which ? GAMMA2 : GAMMA1, mean = which ? MEAN2 : MEAN1;
    const anydnn_binding bindings[] = {
        bind(ANYDNN_X, &block->conv),
        bind(ANYDNN_DY, &block->dy),
        bind(ANYDNN_DX, &block->dy),
        bind(ANYDNN_GAMMA, &net->value[gamma]),
        bind(ANYDNN_SAVED_MEAN, &result[mean]),
        bind(ANYDNN_SAVED_INVSTD, &result[mean + 1]),
        bind(ANYDNN_DGAMMA, &result[gamma]),
        bind(ANYDNN_DSHIFT, &result[gamma + 1]),
    };
    anydnn_batchnorm norm = anydnn_batchnorm_init();
    norm.op = ANYDNN_OP_BATCHNORM_BACKWARD;
    return add(net, pass, &norm, bindings, COUNT(bindings));
}

/* Forward and backward draw the same mask, because seed and offset are the same. */
static anydnn_status add_dropout(digits_net *net, struct pass *pass, int op, anydnn_binding in, anydnn_binding out)
{
    const anydnn_binding bindings[] = {
        in,
        out,
        anydnn_bind_value(ANYDNN_RATIO, dropout_ratio),
        anydnn_bind_value(ANYDNN_SEED, (double)(net->options.seed & 0xffffffffu)),
        anydnn_bind_value(ANYDNN_OFFSET, 0), /* see run */
    };
    anydnn_dropout dropout = anydnn_dropout_init();
    dropout.op = op;
    return add(net, pass, &dropout, bindings, COUNT(bindings));
}

static anydnn_status add_loss(digits_net *net, struct pass *pass, int op, anydnn_binding out)
{
    const anydnn_binding bindings[] = { bind(ANYDNN_X, &net->logits), bind(ANYDNN_LABELS, &net->label), out,
                                        anydnn_bind_value(ANYDNN_SMOOTHING, smoothing) };
    anydnn_cross_entropy loss = anydnn_cross_entropy_init();
    loss.op = op;
    return add(net, pass, &loss, bindings, COUNT(bindings));
}

/* Gradient of a bias: the sum over the batch. */
static anydnn_status add_sum(digits_net *net, struct pass *pass, const struct cell *x, const struct cell *y)
{
    const anydnn_binding bindings[] = { bind(ANYDNN_X, x), bind(ANYDNN_Y, y) };
    anydnn_reduce sum = anydnn_reduce_init();
    sum.axes = 1u << 0;
    return add(net, pass, &sum, bindings, COUNT(bindings));
}

/* ---------------------------------------------------------------- the network --------------------------------- */

static anydnn_status build_block_forward(digits_net *net, struct pass *pass, int training, int which)
{
    const struct block *block = &net->block[which];
    const struct cell *x = which ? &net->block[0].pooled : &net->image;
    TRY(add_conv(net, pass, ANYDNN_OP_CONV_FORWARD, bind(ANYDNN_X, x),
                 bind(ANYDNN_W, &net->value[which ? KERNEL2 : KERNEL1]), bind(ANYDNN_Y, &block->conv)));
    TRY(add_norm(net, pass, training, which));
    TRY(add_relu(net, pass, &block->normal));
    return add_pool(net, pass, ANYDNN_OP_POOL_FORWARD, bind(ANYDNN_X, &block->normal), bind(ANYDNN_Y, &block->pooled),
                    &block->indices);
}

/* Inference has the same layers with fixed statistics, and neither dropout nor loss. */
static anydnn_status build_forward(digits_net *net, struct pass *pass, int training)
{
    const struct cell *value = net->value;
    TRY(build_block_forward(net, pass, training, 0));
    TRY(build_block_forward(net, pass, training, 1));
    TRY(add_matmul(net, pass, &net->features, 0, &value[WEIGHT1], 0, &value[BIAS1], &net->hidden));
    TRY(add_relu(net, pass, &net->hidden));
    if (training)
        TRY(add_dropout(net, pass, ANYDNN_OP_DROPOUT_FORWARD, bind(ANYDNN_X, &net->hidden),
                        bind(ANYDNN_Y, &net->dropped)));
    TRY(add_matmul(net, pass, training ? &net->dropped : &net->hidden, 0, &value[WEIGHT2], 0, &value[BIAS2],
                   &net->logits));
    return training ? add_loss(net, pass, ANYDNN_OP_CROSS_ENTROPY_FORWARD, bind(ANYDNN_LOSS, &net->loss)) : ANYDNN_OK;
}

static anydnn_status build_block_backward(digits_net *net, struct pass *pass, int which)
{
    const struct block *block = &net->block[which];
    const struct cell *x = which ? &net->block[0].pooled : &net->image;
    const int kernel = which ? KERNEL2 : KERNEL1;
    TRY(add_pool(net, pass, ANYDNN_OP_POOL_BACKWARD, bind(ANYDNN_DY, &block->dpooled), bind(ANYDNN_DX, &block->dy),
                 &block->indices));
    TRY(add_relu_backward(net, pass, &block->normal, &block->dy));
    TRY(add_norm_backward(net, pass, which));
    TRY(add_conv(net, pass, ANYDNN_OP_CONV_BACKWARD_FILTER, bind(ANYDNN_X, x), bind(ANYDNN_DY, &block->dy),
                 bind(ANYDNN_DW, &net->result[kernel])));
    if (which == 0) return ANYDNN_OK; /* nobody wants the gradient of the image */
    return add_conv(net, pass, ANYDNN_OP_CONV_BACKWARD_DATA, bind(ANYDNN_DY, &block->dy),
                    bind(ANYDNN_W, &net->value[kernel]), bind(ANYDNN_DX, &net->block[0].dpooled));
}

static anydnn_status build_backward(digits_net *net, struct pass *pass)
{
    const struct cell *value = net->value, *result = net->result;
    TRY(add_loss(net, pass, ANYDNN_OP_CROSS_ENTROPY_BACKWARD, bind(ANYDNN_DX, &net->dlogits)));
    TRY(add_matmul(net, pass, &net->dropped, 1, &net->dlogits, 0, NULL, &result[WEIGHT2]));
    TRY(add_sum(net, pass, &net->dlogits, &result[BIAS2]));
    TRY(add_matmul(net, pass, &net->dlogits, 0, &value[WEIGHT2], 1, NULL, &net->dhidden));
    TRY(add_dropout(net, pass, ANYDNN_OP_DROPOUT_BACKWARD, bind(ANYDNN_DY, &net->dhidden),
                    bind(ANYDNN_DX, &net->dhidden)));
    TRY(add_relu_backward(net, pass, &net->hidden, &net->dhidden));
    TRY(add_matmul(net, pass, &net->features, 1, &net->dhidden, 0, NULL, &result[WEIGHT1]));
    TRY(add_sum(net, pass, &net->dhidden, &result[BIAS1]));
    TRY(add_matmul(net, pass, &net->dhidden, 0, &value[WEIGHT1], 1, NULL, &net->dfeatures));
    TRY(build_block_backward(net, pass, 1));
    return build_block_backward(net, pass, 0);
}

static anydnn_status build_update(digits_net *net, struct pass *pass)
{
    const anydnn_binding bindings[] = {
        anydnn_bind(ANYDNN_PARAM, &net->moment1.shape, net->parameters.mem), /* without the statistics behind them */
        anydnn_bind(ANYDNN_GRAD, &net->moment1.shape, net->gradients.mem),
        bind(ANYDNN_MOMENT1, &net->moment1),
        bind(ANYDNN_MOMENT2, &net->moment2),
        anydnn_bind_value(ANYDNN_LR, net->options.rate), /* see run */
        anydnn_bind_value(ANYDNN_STEP, 1),
    };
    const anydnn_optimizer adam = anydnn_adam_init();
    return add(net, pass, &adam, bindings, COUNT(bindings));
}

/* ---------------------------------------------------------------- running ------------------------------------- */

/* Enqueues a pass, with the scalars of this step. */
static anydnn_status run(digits_net *net, struct pass *pass, double rate)
{
    const double counters = (double)((int64_t)net->options.batch * HIDDEN / 4); /* that one dropout call uses */
    int i, j;
    for (i = 0; i < pass->count; i++) {
        struct operation *operation = &pass->operations[i];
        for (j = 0; j < operation->count; j++) {
            anydnn_binding *binding = &operation->bindings[j];
            if (binding->role == ANYDNN_LR) binding->value = rate;
            if (binding->role == ANYDNN_STEP) binding->value = net->step + 1;
            if (binding->role == ANYDNN_OFFSET) binding->value = net->step * counters;
        }
        TRY(anydnn_plan_run(operation->plan, net->stream, operation->bindings, operation->count, NULL));
    }
    return ANYDNN_OK;
}

/* Enqueues one training step. images, labels and loss must stay in place until the stream has passed them. */
static anydnn_status enqueue_step(digits_net *net, const float *images, const int32_t *labels, double rate, float *loss)
{
    TRY(anydnn_copy_in(net->stream, net->image.mem, images, (uint64_t)anydnn_tensor_bytes(&net->image.shape)));
    TRY(anydnn_copy_in(net->stream, net->label.mem, labels, (uint64_t)anydnn_tensor_bytes(&net->label.shape)));
    TRY(run(net, &net->forward, rate));
    TRY(run(net, &net->backward, rate));
    TRY(run(net, &net->update, rate));
    net->step++;
    return anydnn_copy_out(net->stream, loss, net->loss.mem, sizeof(float));
}

anydnn_status digits_step(digits_net *net, const float *images, const int32_t *labels, double rate, float *loss)
{
    TRY(enqueue_step(net, images, labels, rate, loss));
    return anydnn_stream_sync(net->stream);
}

int digits_steps(const digits_options *options, const digits_set *set)
{
    const int steps = options->epochs * (set->count / options->batch);
    return options->steps && options->steps < steps ? options->steps : steps;
}

/* Trains for one epoch, on images in an order of their own; a rest that fills no batch waits for another epoch. The
 * whole epoch is enqueued before the host waits for it. */
static anydnn_status train_epoch(digits_net *net, const digits_set *set, const int *order, float *images,
                                 int32_t *labels, float *losses, digits_observer observe, void *user)
{
    const double pi = 3.14159265358979323846;
    const int batch = net->options.batch, pixels = set->height * set->width;
    const int steps = digits_steps(&net->options, set);
    int i;
    for (i = 0; i < set->count; i++) {
        memcpy(images + (size_t)i * pixels, set->images + (size_t)order[i] * pixels, (size_t)pixels * sizeof *images);
        labels[i] = set->labels[order[i]];
    }
    for (i = 0; i + batch <= set->count && net->step < steps; i += batch) {
        const int step = net->step;
        const double rate = net->options.rate * 0.5 * (1.0 + cos(pi * step / steps));
        if (observe) TRY(observe(user, net, step, steps));
        TRY(enqueue_step(net, images + (size_t)i * pixels, labels + i, rate, &losses[step]));
    }
    return anydnn_stream_sync(net->stream);
}

anydnn_status digits_train(digits_net *net, const digits_set *set, float *losses, digits_observer observe, void *user)
{
    const size_t image_bytes = (size_t)set->count * set->height * set->width * sizeof(float);
    uint64_t random = net->options.seed ^ 0x6f72646572u;
    anydnn_status status;
    void *images = NULL, *labels = NULL;
    int *order = malloc((size_t)set->count * sizeof *order);
    int epoch;
    status = order ? anydnn_alloc_host(net->context, image_bytes, &images) : ANYDNN_OUT_OF_MEMORY;
    if (status == ANYDNN_OK) status = anydnn_alloc_host(net->context, (uint64_t)set->count * sizeof(int32_t), &labels);
    for (epoch = 0; status == ANYDNN_OK && epoch < net->options.epochs; epoch++) {
        digits_shuffle(order, set->count, &random);
        status = train_epoch(net, set, order, images, labels, losses, observe, user);
    }
    if (status != ANYDNN_OK) anydnn_stream_sync(net->stream); /* what was enqueued still uses the host memory */
    anydnn_free_host(net->context, images);
    anydnn_free_host(net->context, labels);
    free(order);
    if (status == ANYDNN_OK && observe) status = observe(user, net, net->step, net->step);
    return status;
}

anydnn_status digits_predict(digits_net *net, const digits_set *set, float *logits)
{
    const int batch = net->options.batch, pixels = set->height * set->width;
    int first;
    /* The last batch may be short: the rows behind it keep old images, and their logits are not fetched. */
    for (first = 0; first < set->count; first += batch) {
        const size_t rows = (size_t)(set->count - first < batch ? set->count - first : batch);
        TRY(anydnn_copy_in(net->stream, net->image.mem, set->images + (size_t)first * pixels,
                           rows * pixels * sizeof(float)));
        TRY(run(net, &net->inference, 0));
        TRY(anydnn_copy_out(net->stream, logits + (size_t)first * DIGITS_CLASSES, net->logits.mem,
                            rows * DIGITS_CLASSES * sizeof(float)));
    }
    return anydnn_stream_sync(net->stream);
}

/* ---------------------------------------------------------------- state --------------------------------------- */

const digits_slice *digits_slices(const digits_net *net, int *count)
{
    *count = SLICES;
    return net->slice;
}

size_t digits_state_count(const digits_net *net)
{
    return (size_t)net->value_count + 2 * (size_t)net->parameter_count;
}
size_t digits_results_count(const digits_net *net)
{
    return (size_t)net->value_count;
}

anydnn_status digits_state_get(digits_net *net, float *state, int *step)
{
    const size_t values = (size_t)net->value_count, moments = (size_t)net->parameter_count;
    TRY(anydnn_copy_out(net->stream, state, net->parameters.mem, values * sizeof *state));
    TRY(anydnn_copy_out(net->stream, state + values, net->moment1.mem, moments * sizeof *state));
    TRY(anydnn_copy_out(net->stream, state + values + moments, net->moment2.mem, moments * sizeof *state));
    *step = net->step;
    return anydnn_stream_sync(net->stream);
}

anydnn_status digits_state_set(digits_net *net, const float *state, int step)
{
    const size_t values = (size_t)net->value_count, moments = (size_t)net->parameter_count;
    TRY(anydnn_copy_in(net->stream, net->parameters.mem, state, values * sizeof *state));
    TRY(anydnn_copy_in(net->stream, net->moment1.mem, state + values, moments * sizeof *state));
    TRY(anydnn_copy_in(net->stream, net->moment2.mem, state + values + moments, moments * sizeof *state));
    net->step = step;
    return anydnn_stream_sync(net->stream);
}

anydnn_status digits_results(digits_net *net, float *results)
{
    TRY(anydnn_copy_out(net->stream, results, net->gradients.mem, (uint64_t)net->value_count * sizeof *results));
    return anydnn_stream_sync(net->stream);
}

/* He et al., ICCV 2015, drawn uniformly: variance 2 / fan_in. Made on the host, so that all devices start equal. */
static anydnn_status initialise(digits_net *net)
{
    float *state = calloc(digits_state_count(net), sizeof *state);
    uint64_t random = net->options.seed ^ 0x77656967687473u;
    anydnn_status status;
    int i, j;
    if (!state) return ANYDNN_OUT_OF_MEMORY;
    for (i = 0; i < SLICES; i++) {
        const digits_slice *slice = &net->slice[i];
        const double limit = slice->fan_in ? sqrt(6.0 / slice->fan_in) : 0.0;
        for (j = 0; j < slice->count; j++)
            state[slice->first + j] =
                slice->fan_in ? (float)((2.0 * digits_random(&random) - 1.0) * limit) : slice->start;
    }
    status = digits_state_set(net, state, 0);
    free(state);
    return status;
}

static anydnn_status build(digits_net *net)
{
    TRY(anydnn_stream_create(net->context, ANYDNN_DEFAULT_WORKSPACE, &net->stream));
    TRY(create_tensors(net));
    TRY(create_slices(net));
    TRY(build_forward(net, &net->forward, 1));
    TRY(build_backward(net, &net->backward));
    TRY(build_update(net, &net->update));
    TRY(build_forward(net, &net->inference, 0));
    return initialise(net);
}

anydnn_status digits_create(anydnn_context *context, int height, int width, const digits_options *options,
                            digits_net **net)
{
    anydnn_status status;
    digits_net *made = calloc(1, sizeof *made);
    if (!made) return ANYDNN_OUT_OF_MEMORY;
    made->context = context;
    made->options = *options;
    made->height = height;
    made->width = width;
    status = build(made);
    if (status == ANYDNN_OK)
        *net = made;
    else
        digits_destroy(made);
    return status;
}

static void release(struct pass *pass)
{
    int i;
    for (i = 0; i < pass->count; i++) anydnn_plan_release(pass->operations[i].plan);
}

/* Also takes apart what was built only in part. */
void digits_destroy(digits_net *net)
{
    int i;
    if (!net) return;
    anydnn_stream_destroy(net->stream);
    release(&net->forward);
    release(&net->backward);
    release(&net->update);
    release(&net->inference);
    for (i = 0; i < net->owned_count; i++) anydnn_free(net->context, net->owned[i]);
    free(net);
}
