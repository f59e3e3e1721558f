/* SPDX-License-Identifier: Apache-2.0
 * bench/points.h: checks single elements of large convolutions and matrix products against float64 on the host. */
#ifndef BENCH_POINTS_H
#define BENCH_POINTS_H
#include "workset.h"

#include <stddef.h>

/* True for the operations that points_check knows. */
bool points_known(int op);

/* The role of the operation's output. */
int points_output(int op);

/* Recomputes at least 4,096 random elements of the output (all, where there are no more), and 2,048 on corners and on
 * edges of tiles, from the inputs in set->host. `output` is the output tensor as it came from the device. False, and a
 * sentence in `why`, at the first element that is off by more than
 *   8 * u * sqrt(depth) * sqrt(sum of the squared products) + the rounding of the result to its dtype,
 * which is what independent roundings (u = 2^-24, or 2^-53 for f64) of a sum's partial sums come to, eightfold. With
 * math=tf32 or fast 2^-8 of the root of the squared products is added: both factors are rounded to 10 bits. */
bool points_check(const struct workset *set, const void *output, char *why, size_t why_size);
#endif
