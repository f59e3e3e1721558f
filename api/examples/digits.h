/* SPDX-License-Identifier: Apache-2.0
 * api/examples/digits.h: a small convolutional network for images of digits and its training, on any device of the
 * library. digits.c is written to be read from top to bottom as a worked example of the API.
 *
 * The network (N = batch, images of H x W with one channel):
 *   conv 3x3 1->16, batch norm, relu, max pool 2x2        [N, 16, H/2, W/2]
 *   conv 3x3 16->32, batch norm, relu, max pool 2x2       [N, 32, H/4, W/4]
 *   fully connected ->64 with bias, relu, dropout         [N, 64]
 *   fully connected 64->10 with bias                      [N, 10]
 *   softmax with cross entropy and smoothed labels; Adam, the rate falls along half a cosine.
 *
 * Every function returns the status of the library call that failed; anydnn_message() then tells more. */
#ifndef DIGITS_H
#define DIGITS_H
#include <anydnn/anydnn.h>

enum { DIGITS_CLASSES = 10 };

/* Images as [count, 1, height, width], values in 0..1, and their classes. */
typedef struct digits_set {
    int count, height, width;
    float *images;
    int32_t *labels;
} digits_set;

typedef struct digits_options {
    int epochs;
    int steps; /* training ends behind so many, whatever the epochs; 0: no such limit */
    int batch;
    double rate;   /* of the first step */
    uint64_t seed; /* of weights, order and dropout: equal seeds start equal on every device */
} digits_options;

/* A part of the network's numbers: a weight tensor with its gradient, or the running statistics of a batch
 * normalisation with those of the last batch. */
typedef struct digits_slice {
    const char *name;
    int first, count; /* elements, in the vectors of digits_state and digits_results */
    int fan_in;       /* inputs of one output: 0 for biases, statistics and parameters of batch norms */
    float start;      /* value before training where fan_in is 0 */
} digits_slice;

typedef struct digits_net digits_net;

/* Builds the network for images of a size: allocates its memory and compiles a plan for every operation. */
anydnn_status digits_create(anydnn_context *context, int height, int width, const digits_options *options,
                            digits_net **net);
void digits_destroy(digits_net *net);

/* Called before each training step, and once more behind the last (step == steps). */
typedef anydnn_status (*digits_observer)(void *user, digits_net *net, int step, int steps);

/* Steps that digits_train makes with a set. */
int digits_steps(const digits_options *options, const digits_set *set);

/* Trains from the network's present state; losses takes one value for each step. observe may be NULL. */
anydnn_status digits_train(digits_net *net, const digits_set *set, float *losses, digits_observer observe, void *user);

/* One training step on options->batch images; waits for the result. */
anydnn_status digits_step(digits_net *net, const float *images, const int32_t *labels, double rate, float *loss);

/* Logits [set->count, 10] of the trained network. */
anydnn_status digits_predict(digits_net *net, const digits_set *set, float *logits);

/* Names and places of the parts of the vectors below. */
const digits_slice *digits_slices(const digits_net *net, int *count);

/* The state that training changes, as one vector of digits_state_count() floats: weights and running statistics in
 * the order of the slices, then both moments of Adam. */
size_t digits_state_count(const digits_net *net);
anydnn_status digits_state_get(digits_net *net, float *state, int *step);
anydnn_status digits_state_set(digits_net *net, const float *state, int step);

/* Gradients and batch statistics of the last step, in the order of the slices. */
size_t digits_results_count(const digits_net *net);
anydnn_status digits_results(digits_net *net, float *results);

/* The example's random numbers: uniform in 0..1, a state for each use (splitmix64, Steele et al., OOPSLA 2014), and a
 * shuffle of 0..count-1. */
static inline double digits_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static inline void digits_shuffle(int *order, int count, uint64_t *state)
{
    int i;
    for (i = 0; i < count; i++) order[i] = i;
    for (i = count - 1; i > 0; i--) {
        const int other = (int)(digits_random(state) * (i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

#endif
