/* SPDX-License-Identifier: Apache-2.0
 * anydnn/problem.h: one text form for a problem, the same in logs, case files, bench files and on the command line.
 *
 *   conv_forward x=64x3x224x224:nhwc/f16 w=64x3x7x7:nhwc/f16 stride=2,2 pad=3,3
 *
 * LINE    = operation, then words separated by blanks; '#' begins a comment.
 * tensor  = role=DIMS[:nhwc|:nchw|:sS0,S1,...]/dtype[@byteoffset][&role]
 *           (&role: shares the place of that role; @: byte offset of the first element, for tests of alignment)
 * scalar  = role=NUMBER, or role=device:NUMBER (read from device memory)
 * key     = name=V,V,... of the operation's struct; names for enumerations ("mode=max")
 * then    math=strict|tf32|fast  det=1  batch_invariant=1  ws=BYTES  engine=ID  align=BYTES (of every tensor)
 *         seed=N (of random data)
 * Outputs and keys at their default may be left out: they are derived. The printer prints everything,
 * so that a printed line repeats the problem exactly and print(parse(print(p))) == print(p).
 */
#ifndef ANYDNN_PROBLEM_H
#define ANYDNN_PROBLEM_H
#include <anydnn/plan.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct anydnn_problem anydnn_problem; /* operation, tensors, scalars and preferences of one line */

/* Problems are read by any number of threads at once, are of no context, and go by anydnn_problem_destroy alone.
 *
 * Parses a zero-terminated line. INVALID: the message names the word and what would be accepted, or the problem is
 * wrong (plan.h). OUT_OF_MEMORY. */
ANYDNN_API anydnn_status anydnn_problem_parse(const char *line, anydnn_problem **problem);

/* Makes a problem from what a call takes (plan.h); memory is used only to derive offsets and aliases, and outputs that
 * are not bound are derived. INVALID: the problem. UNSUPPORTED: a struct of a newer version. OUT_OF_MEMORY. */
ANYDNN_API anydnn_status anydnn_problem_create(const anydnn_op *op, const anydnn_prefs *prefs,
                                               const anydnn_binding *bindings, int count, anydnn_problem **problem);

ANYDNN_API void anydnn_problem_destroy(anydnn_problem *problem); /* NULL is allowed */

/* Writes the full line with its final zero to text, cut to capacity; *length = its full length without the zero.
 * text may be NULL with capacity 0; length may be NULL. INVALID: NULL. */
ANYDNN_API anydnn_status anydnn_problem_print(const anydnn_problem *problem, char *text, size_t capacity, size_t *length);

/* Parts of a problem; they live as long as it. bindings: one row for each bound role, tensors first, memory kind
 * NONE, mem.offset = the line's byte offset; scalars marked device have mem.kind HOST as a sign. Of NULL: NULL, 0 rows
 * (count may be NULL), 0. */
ANYDNN_API const anydnn_op *anydnn_problem_op(const anydnn_problem *problem);
ANYDNN_API const anydnn_prefs *anydnn_problem_prefs(const anydnn_problem *problem);
ANYDNN_API const anydnn_binding *anydnn_problem_bindings(const anydnn_problem *problem, int *count);
ANYDNN_API uint64_t anydnn_problem_seed(const anydnn_problem *problem);

/* Role whose place `role` shares, 0 = its own, or not bound, or no problem. */
ANYDNN_API int anydnn_problem_alias(const anydnn_problem *problem, int role);

/* What the arithmetic costs at least: floating-point operations, bytes with each tensor touched once, and the length
 * of the longest sum that one output element takes (for tolerances). The three may be NULL. INVALID: no problem. */
ANYDNN_API anydnn_status anydnn_problem_cost(const anydnn_problem *problem, double *flops, double *bytes, double *depth);

/* The tables behind the text form, for generic programs. Names are of static storage; NULL when unknown or out of
 * range. NULL is no name. */
ANYDNN_API const char *anydnn_op_name(int op);
ANYDNN_API int anydnn_op_by_name(const char *name); /* 0 = unknown */
ANYDNN_API const char *anydnn_role_name(int role);
ANYDNN_API int anydnn_role_by_name(const char *name); /* 0 = unknown */

#define ANYDNN_ROLE_IN 1u
#define ANYDNN_ROLE_OUT 2u
#define ANYDNN_ROLE_OPTIONAL 4u
#define ANYDNN_ROLE_SCALAR 8u
#define ANYDNN_ROLE_DEVICE 16u /* scalar that may be in device memory */
#define ANYDNN_ROLE_SCALED 32u /* output that alpha and beta scale: its old value is an input when beta != 0 */
#define ANYDNN_ROLE_PARAM_SCALED 64u /* the same of param_alpha and param_beta */

/* Role number `index` of an operation and its ANYDNN_ROLE_* flags; result 0 behind the last. flags may be NULL. */
ANYDNN_API int anydnn_op_role(int op, int index, uint32_t *flags);

#ifdef __cplusplus
}
#endif
#endif
