/* SPDX-License-Identifier: Apache-2.0
 * api/oracle.h: the oracle: a call repeated on the CPU reference and compared. */
#ifndef ADN_API_ORACLE_H
#define ADN_API_ORACLE_H
#include "common/bounds.h"
#include "internal.h"

/* One call on the host. Tensors lie as on the device: whole spans, gaps of strides included, by slot. The truth is not
 * rounded to f16 or bf16: where the outputs are not exact to the bit, `wide` is the problem with these as f32. */
struct adn_oracle {
    struct adn_problem problem, wide;           /* with the values and byte offsets of this run */
    double scalar[ADN_MAX_ROLES];               /* those in device memory, too */
    uint32_t traits;                            /* of the engine under test */
    bool exact;                                 /* every bit of the outputs is defined */
    const unsigned char *before[ADN_MAX_ROLES]; /* tensors before the run; dtypes of `problem` */
    const unsigned char *got[ADN_MAX_ROLES];    /* outputs after it; dtypes of `problem` */
    const unsigned char *want[ADN_MAX_ROLES];   /* the reference's; dtypes of `wide` */
    const unsigned char
        *size[ADN_MAX_ROLES]; /* outputs of the run on magnitudes; dtypes of `wide`; NULL = not needed */
};

/* Fills exact, wide and its dtypes from problem and scalar. */
void adn_oracle_widen(struct adn_oracle *o);

/* Compares every element of every output. A difference gives INTERNAL with the line that repeats the call, or
 * OUT_OF_MEMORY: no room to compare. `device` and `engine` are named in the line. */
anydnn_status adn_oracle_compare(const struct adn_oracle *o, const char *device, const char *engine);

/* Runs the plan, repeats it on the reference, compares; logs a difference. */
anydnn_status adn_oracle_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments);

/* ---- api/tolerance.c: how far a correct element may lie from the truth ---- */

struct adn_bounds {
    const struct adn_oracle *o;
    enum adn_bound_kind kind;
    double alpha, beta; /* magnitudes */
    struct adn_bound each;
    bool floor_by_dy; /* its floor is relative to |dy| of the element */
    double most, row; /* softmax: largest |dy|, and its row sum at most */
    struct adn_bound_statistics statistics;
    struct adn_bound_group *groups;
};

/* True where bounds need the sizes: results of the reference on magnitudes. */
bool adn_bounds_need_sizes(const struct adn_oracle *o);
/* Turns the problem into that one; `scalar` too. Tensors other than those kept become magnitudes. */
void adn_bounds_magnify(struct adn_problem *p, double *scalar);
bool adn_bounds_keep_sign(const struct adn_problem *p, int slot);

anydnn_status adn_bounds_begin(struct adn_bounds *b, const struct adn_oracle *o);
void adn_bounds_end(struct adn_bounds *b);

/* Tolerance of element i (row-major) of an output. */
double adn_bounds_of(const struct adn_bounds *b, int slot, int64_t i, double want);

/* Element offset, by strides, of the element with row-major number i. */
int64_t adn_element_offset(const anydnn_tensor *t, int64_t i);

#endif
