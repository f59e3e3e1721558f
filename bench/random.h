/* SPDX-License-Identifier: Apache-2.0
 * bench/random.h: random legal problem lines: drawn, checked, and where one fails, made smaller.
 *
 * A line follows from a list of small numbers, its choices, of which 0 is always the simplest. So a failing line is made
 * smaller by lowering its choices: every line on the way is legal and its tensors fit together. */
#ifndef ADN_BENCH_RANDOM_H
#define ADN_BENCH_RANDOM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANDOM_CHOICES = 160, RANDOM_LINE = 2048 };

struct choices {
    int op; /* anydnn_op_id */
    int count;
    unsigned short choice[RANDOM_CHOICES];
};

/* A case of a seed, of operation `op` (0 = any). Each is small enough to take milliseconds. */
void random_case(uint64_t seed, int op, struct choices *choices);

/* The line of some choices; absent ones are 0 and large ones are cut. On return they are those that the line used. */
void random_line(struct choices *choices, char line[RANDOM_LINE]);

/* Draws choices from a seed, or takes the list's, and writes their line (random_lines.c). */
void random_make(struct choices *choices, bool drawing, uint64_t seed, char line[RANDOM_LINE]);

/* False where the line takes more work than a case should. */
bool random_is_small(const char *line);

/* Seed of case number `index` of a run: that of case 0 is the run's own, so that one case can be repeated alone. */
uint64_t random_seed_of(uint64_t seed, long index);

/* Makes smaller choices of a failing line until none of them fails or some tries are over; `fails` checks a line. */
void random_shrink(struct choices *choices, bool (*fails)(void *user, const char *line), void *user);

#endif
