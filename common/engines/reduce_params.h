/* SPDX-License-Identifier: Apache-2.0
 * common/engines/reduce_params.h: parameters of the kernels of the stem reduce, for C, CUDA and OpenCL.
 *
 * Rows are the outputs, or units of `width` of them (constant a) that lie side by side; the elements of a row are the
 * elements that are joined, or units of `width` of them. A row is cut into `segments` of `segment` elements, which
 * different blocks take; the join of each is one output of the step. Groups 0: the kernels do nothing. */
#ifndef ADN_REDUCE_PARAMS_H
#define ADN_REDUCE_PARAMS_H
#include "team_params.h"

/* What is summed: v is the first input, a and b the second and third. */
enum adn_reduce_term {
    ADN_TERM_VALUE,    /* v */
    ADN_TERM_NEGATIVE, /* -v */
    ADN_TERM_TIMES,    /* v * a */
    ADN_TERM_OVER,     /* v / a */
    ADN_TERM_QUOTIENT, /* -v * a / (b * b) */
    ADN_TERM_MAX_A,    /* v where a >= b or a is NaN, else 0 */
    ADN_TERM_MAX_B,    /* v elsewhere */
    ADN_TERM_MIN_A,
    ADN_TERM_MIN_B,
    ADN_TERM_MAGNITUDE, /* |v| */
    ADN_TERM_SQUARE     /* v * v */
};

/* What becomes of a joined row: the last step's business. */
enum adn_reduce_finish {
    ADN_FINISH_VALUE,
    ADN_FINISH_NEGATE,   /* the minimum is the maximum of negatives */
    ADN_FINISH_POSITIVE, /* at least 0: the largest magnitude of nothing */
    ADN_FINISH_ROOT
};

struct adn_reduce_params { /* memories: v, a, b, out */
    struct adn_team_walk walk; /* groups: of rows, for one segment */
    struct adn_strides stride[4];
    adn_i64 segment, segments;
    adn_i64 out_segment; /* from the output of a segment to that of the next */
    adn_i64 out_lane;    /* between the outputs of a unit */
    adn_i32 fold;        /* 1: units lie along the row and their lanes are joined; 0: each lane is an output */
    adn_u32 splat;       /* bit t: input t has one value for a unit */
    adn_i32 term;        /* enum adn_reduce_term */
    adn_i32 inputs;      /* 1..3 */
    adn_i32 out_dtype;   /* 1 f32, 2 f16, 3 bf16 */
    adn_i32 last;        /* 1: out = alpha * finish(join / divisor) + beta * out */
    adn_i32 finish;      /* enum adn_reduce_finish */
    adn_i32 skip;        /* 1: alpha is 0: inputs are not read and the result counts as 0 */
    float alpha, beta, divisor;
    adn_u32 keep, flip; /* maxima: elements enter as bits & keep ^ flip, to be made positive or negated */
};

struct adn_reduce_max_backward_params { /* memories: x, dy, dx */
    struct adn_team_walk walk; /* elements of a row in row-major order */
    struct adn_strides stride[4];
    float alpha, beta;
};
#endif
