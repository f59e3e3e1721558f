/* SPDX-License-Identifier: Apache-2.0
 * tests/support/expect.h: what an operation gives at one element, for tensors that are too large for the host: their
 * content is a short table, repeated. Each element is worked out by its formula in double, without the others.
 * Limits: no bias, z, scales, beta or flipped filter; pooling without padding. */
#ifndef ADN_TESTS_EXPECT_H
#define ADN_TESTS_EXPECT_H
#include <anydnn/anydnn.h>
#include <stdbool.h>

enum { EXPECT_OPERANDS = 12 };

/* Element `offset` of the memory is table[offset % period], but EXPECT_PLANTED at offset `plant` (-1 = nowhere). */
#define EXPECT_PLANTED 4.0
struct periodic {
    int role;
    anydnn_tensor tensor;
    int64_t period, plant;
    double *table;
};

struct expectation {
    const anydnn_op *op;
    struct periodic operand[EXPECT_OPERANDS]; /* what an in-out role holds before the call */
    anydnn_binding scalar[EXPECT_OPERANDS];
    int operands, scalars;
};

/* What the memory of an operand holds at an offset before the call. */
double expect_content(const struct periodic *p, int64_t offset);

/* Coordinates of the element at an offset; false where the offset lies between elements or behind them. */
bool expect_coordinates(const anydnn_tensor *tensor, int64_t offset, int64_t at[ANYDNN_MAX_DIMS]);

/* The element of output `role` at coordinates, before it is rounded to a floating dtype; integers are final. */
double expect_element(const struct expectation *e, int role, const int64_t at[ANYDNN_MAX_DIMS]);

/* Whether expect_element knows the operation. */
bool expect_knows(int op);

#endif
