/* SPDX-License-Identifier: Apache-2.0
 * bench/random_words.h: what random lines are made of, near the edges: sizes about 1 and about powers of two, primes,
 * now and then 0; strided, permuted and broadcast layouts; optional words, and places shared or not. Sizes are drawn
 * from what is left of a bound on the work of a case. Used by the makers of lines alone (random_conv.c,
 * random_lines.c). */
#ifndef ADN_BENCH_RANDOM_WORDS_H
#define ADN_BENCH_RANDOM_WORDS_H
#include "random.h"

#include <anydnn/tensor.h>

struct maker {
    struct choices *choices;
    int used;
    bool drawing; /* choices come from the seed; otherwise from the list */
    uint64_t seed;
    char *line;
    size_t length;
    int64_t room; /* how large the product of the next sizes may be */
};

struct shape {
    int ndim;
    int64_t dims[ANYDNN_MAX_DIMS];
    char layout[160]; /* ":s6,2", "" = packed */
};

/* The next choice: 0 .. count - 1. */
int draw(struct maker *m, int64_t count);

/* True once in `count`. */
bool rarely(struct maker *m, int count);

/* Appends to the line. */
void say(struct maker *m, const char *format, ...);

/* A size up to the room that is left, and now and then 0. */
int64_t size_of_axis(struct maker *m);

/* Of `least` to `most` axes. */
void draw_shape(struct maker *m, struct shape *s, int least, int most);

/* Packed, channels last, or strides with gaps, in another order, or for inputs with 0 (elements seen repeatedly). */
void draw_layout(struct maker *m, struct shape *s, bool output);

/* A type that every operation takes. */
const char *draw_dtype(struct maker *m);

/* A tensor as it is; in a layout of its own, for an input or an output. */
void say_shape(struct maker *m, const char *role, const struct shape *s, const char *dtype);
void say_in(struct maker *m, const char *role, const struct shape *s, const char *dtype);
void say_out(struct maker *m, const char *role, const struct shape *s, const char *dtype);

/* An input and an output like it: left out of the line, apart, or in the input's place. */
void say_pair(struct maker *m, const char *in, const char *out, const struct shape *s, const char *dtype);

/* alpha, beta and, where there is one, alpha2. */
void say_scales(struct maker *m, bool alpha2);

void say_numbers(struct maker *m, const char *key, const int64_t *numbers, int count);

/* A set of axes, said unless it is the default, which is `otherwise`. */
unsigned say_axes(struct maker *m, int ndim, unsigned otherwise);

/* Lines of convolution and of pooling (random_conv.c). */
void make_conv(struct maker *m, int op);
void make_pool(struct maker *m, int op);

#endif
