/* SPDX-License-Identifier: Apache-2.0
 * common/bounds.h: how far a correct result may lie from the truth: the rules that the oracle (api/tolerance.c) and the
 * command's check (bench/tolerance.c) share. Each gathers the numbers in its own way; what follows from them is here.
 * It knows the public structs and nothing else of the library, and is compiled into both.
 *
 * A device computes in f32 (u = 2^-24, one rounding) and rounds once to the dtype of the output. The rounding to the
 * dtype is added by the users; here is the rest:
 *   sums      A sum of d terms with magnitudes adding up to S, in any order in f32, is off by at most d*u*S; rounding
 *             errors are as good as random, which leaves sqrt(d)*u*S. growth = 8 + sqrt(d): the 8 stands for the few
 *             roundings of products, scaling, bias and transforms around the sum. S comes from a second run of the
 *             reference on magnitudes, so cancellation in the data does not make the bound blind or unfair.
 *             Rounding errors of equal terms add up one way: where all factors of a sum are repeated by stride 0, r
 *             times, growth = 8 + sqrt(d r), for terms all alike the proven 8 + d.
 *   functions exp, log, tanh and rsqrt of the device languages are good for 2..16 ulp, and exp turns an absolute
 *             error of its argument into a relative one, so that the range of the arguments comes in.
 *   alpha, beta  one rounding each for the products and the sum.
 * Batch normalisation is followed through its own chain of errors, by groups of elements that share statistics. */
#ifndef ADN_BOUNDS_H
#define ADN_BOUNDS_H
#include <anydnn/ops.h>
#include <stdbool.h>

/* One rounding in f32; in f64, for what is computed in it. */
#define ADN_BOUND_UNIT 0x1p-24
#define ADN_BOUND_UNIT_F64 0x1p-53

/* What the error of an element is made of. */
enum adn_bound_kind {
    ADN_BOUND_RELATIVE,             /* of the result, or of a bound of the function: struct adn_bound */
    ADN_BOUND_SUMS,                 /* of the sum of magnitudes */
    ADN_BOUND_SOFTMAX_BACKWARD,     /* of |y dy| and y sum |y dy| */
    ADN_BOUND_LOG_SOFTMAX_BACKWARD, /* of |dy| and exp(y) sum |dy| */
    ADN_BOUND_BATCHNORM
};
enum adn_bound_kind adn_bound_kind_of(const anydnn_op *op);

/* How often the terms of a sum of `depth` are repeated at most: by the least repeated of its factors. `read` gives the
 * tensor of a role that the operation reads, else NULL. */
double adn_bound_repeats(const anydnn_op *op, double depth, const anydnn_tensor *(*read)(const void *user, int role),
                         const void *user);

/* What bounds depend on. */
struct adn_bound_facts {
    double depth, repeats; /* length of the longest sum; how often its terms are repeated */
    double alpha;
    double coef;    /* convolution: of its activation */
    double x;       /* softmax and cross entropy forward and backward: largest finite |x| */
    double classes; /* cross entropy: of a row, */
    double counted; /* rows whose label counts, */
    double dloss;   /* largest |dloss|, 1 where there is none */
};

/* An error is u * (growth * size + floor), where the size is that of the result or of the sum. */
struct adn_bound {
    double growth, floor;
};

/* Of every kind but BATCHNORM. */
struct adn_bound adn_bound_of(const anydnn_op *op, const struct adn_bound_facts *facts);
/* Of results that read no input since alpha is 0: beta * old output, and perhaps a bias. */
struct adn_bound adn_bound_of_nothing(void);

/* ---- batch normalisation ---- */

struct adn_bound_group { /* elements that share one set of statistics */
    double mean, invstd, gamma, shift;
    double x, deviation, dy, dy_sum; /* largest |x|, |x - mean|, |dy|; sum of |dy| */
};

/* Takes an element into its group, whose mean is known; dy 0 where there is none. */
void adn_bound_group_add(struct adn_bound_group *g, double x, double dy);

struct adn_bound_statistics {
    double n;      /* elements of a group */
    bool computed; /* in this call; otherwise they are inputs */
    double factor; /* of the running statistics */
};

/* Error of an element of output `role` whose group is g: `want` is its true value, `old` the one before the call. */
double adn_bound_batchnorm(const struct adn_bound_statistics *s, const struct adn_bound_group *g, int role, double want,
                           double old);

#endif
