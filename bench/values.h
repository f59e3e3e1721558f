/* SPDX-License-Identifier: Apache-2.0
 * bench/values.h: elements of every dtype on the host: reading, rounding, precision, and where they lie. */
#ifndef ADN_BENCH_VALUES_H
#define ADN_BENCH_VALUES_H
#include <anydnn/tensor.h>
#include <stdbool.h>

/* Reads one element; exact for everything but i64 beyond 2^53. */
double value_load(int dtype, const void *element);

/* Rounds to nearest even and writes one element; integers saturate and take NaN as 0. */
void value_store(int dtype, void *element, double value);

/* The value that a store and a load give. */
double value_rounded(int dtype, double value);

bool value_is_integer(int dtype);

/* Largest relative error of one rounding to the dtype (2^-24 for f32); 0 for integers. */
double value_roundoff(int dtype);

/* Largest absolute error of rounding a number so small that it is subnormal, or of flushing it to zero. */
double value_underflow(int dtype);

/* Offset in elements, by strides, of the element with row-major number `index`. */
int64_t tensor_element(const anydnn_tensor *tensor, int64_t index);

/* A stateless generator: 64 random bits from a seed and an index. */
uint64_t random_bits(uint64_t seed, uint64_t index);

/* Uniform in [-1, 1), on a grid of 2^-23. */
double random_unit(uint64_t seed, uint64_t index);

#endif
