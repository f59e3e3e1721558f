/* SPDX-License-Identifier: Apache-2.0
 * common/problem.h: the canonical problem: what the API's struct, bindings and prefs say, checked once and translated.
 * Backends and engines see this alone. */
#ifndef ADN_PROBLEM_H
#define ADN_PROBLEM_H
#include "status.h"
#include <anydnn/plan.h>
#include <anydnn/problem.h>
#include <stdbool.h>

enum { ADN_MAX_ROLES = 16, ADN_MAX_OP = 64, ADN_ENGINE_ID = 64 };

/* ---- Tables of one operation (common/ops/<family>.c). ---- */

struct adn_problem;

struct adn_role_def {
    int role;            /* anydnn_role; 0 ends the table */
    uint32_t flags;      /* ANYDNN_ROLE_* */
    double value;        /* scalars: value where unbound */
    int in_place[2];     /* outputs: input roles whose place this one may take; 0 = none */
};

enum adn_key_type { ADN_KEY_I32, ADN_KEY_ENUM, ADN_KEY_I64S /* one for each spatial axis */, ADN_KEY_I64, ADN_KEY_AXES };

struct adn_key_def {
    const char *name;     /* NULL ends the table */
    enum adn_key_type type;
    uint16_t offset;      /* of the member in the operation's struct */
    const char *const *names; /* ADN_KEY_ENUM: NULL-terminated, index = value */
};

struct adn_op_def {
    int op;
    const char *name;
    size_t desc_size;
    const struct adn_role_def *roles;
    const struct adn_key_def *keys;
    /* Fills defaults into p->desc, then checks what only this operation knows of its inputs (ranks, dims, dtypes). Sets
     * this thread's message on failure. */
    anydnn_status (*check)(struct adn_problem *p);
    /* Packed description that output `role` must have, called after check. Where the inputs leave a choice (dx of a
     * strided convolution) a bound output that fits is returned as it is. dtype 0 = any. */
    anydnn_status (*infer)(const struct adn_problem *p, int role, anydnn_tensor *out);
    /* Least arithmetic, and length of the longest sum of an output element. */
    void (*cost)(const struct adn_problem *p, double *flops, double *depth);
    /* Optional: what the values of a run (by slot) must obey together; sets this thread's message. */
    anydnn_status (*check_values)(const struct adn_problem *p, const double *scalar);
};

/* NULL for an unknown id. */
const struct adn_op_def *adn_op_def(int op);

/* ---- The problem. ---- */

enum adn_class { ADN_CLASS_ZERO = 0, ADN_CLASS_ONE = 1, ADN_CLASS_OTHER = 2 };

struct adn_operand {
    anydnn_tensor t;  /* tensors only */
    bool present;
    bool device;      /* scalar that is read from device memory */
    int16_t alias;    /* slot of the tensor whose place this one shares, -1 = none */
    double value;     /* scalar given on the host at creation (defaults filled in); not part of the key */
    double otherwise; /* scalar: its value in a run that gives none; follows from the key */
    uint64_t offset;  /* byte offset given at creation; used by the text form only, not part of the key */
};

union adn_desc {
    anydnn_op head;
    anydnn_conv conv;
    anydnn_matmul matmul;
    anydnn_pool pool;
    anydnn_activation activation;
    anydnn_softmax softmax;
    anydnn_cross_entropy cross_entropy;
    anydnn_batchnorm batchnorm;
    anydnn_binary binary;
    anydnn_reduce reduce;
    anydnn_elementwise elementwise;
    anydnn_dropout dropout;
    anydnn_optimizer optimizer;
};

/* Operands are found by slot: the position of the role in the operation's role table. */
struct adn_problem {
    const struct adn_op_def *def;
    union adn_desc desc; /* canonical: every default filled in, pads explicit */
    struct adn_operand operand[ADN_MAX_ROLES];
    int slots;
    int alpha_class, beta_class; /* enum adn_class; ONE and ZERO where the operation has none */
    int math;                    /* anydnn_math, never DEFAULT once a context is known */
    bool deterministic;
    bool batch_invariant;        /* where items have sums of their own (plan.h) */
    uint64_t workspace_limit;    /* UINT64_MAX = no limit */
    char engine[ADN_ENGINE_ID];  /* "" = automatic */
    uint64_t seed;               /* text form only */
};

/* Slot of a role, -1 when the operation has no such role. */
int adn_slot(const struct adn_problem *p, int role);

/* Tensor of a bound role, NULL when absent or unknown. */
const anydnn_tensor *adn_tensor(const struct adn_problem *p, int role);

/* True for a tensor without elements; true when every output of the problem is empty. */
bool adn_is_empty(const anydnn_tensor *t);

/* The integers that convolution multiplies. */
static inline bool adn_is_byte(int dtype) { return dtype == ANYDNN_I8 || dtype == ANYDNN_U8; }

/* Translates a call. Absent outputs are left absent if `allow_missing`, else INVALID. Checks struct sizes, roles,
 * tensors, overlaps of output elements, and the operation's own rules. Math 0 and deterministic 0 of `prefs` are kept
 * as they are: adn_problem_settle puts the context's in. */
anydnn_status adn_problem_init(struct adn_problem *p, const anydnn_op *op, const anydnn_prefs *prefs,
                               const anydnn_binding *bindings, int count, bool allow_missing);
void adn_problem_settle(struct adn_problem *p, const anydnn_open_options *options);

/* Fills absent required outputs by infer (channels-last where `channels_last`). */
anydnn_status adn_problem_complete(struct adn_problem *p, bool channels_last);

/* Copies a struct that begins with its size: a shorter one reads as zero-filled, a longer one must end in zeros
 * (UNSUPPORTED); a size below `least`, beyond 4096 or that cuts a pointer is INVALID. `what` names it in messages. */
anydnn_status adn_read_struct(void *to, size_t size, const void *from, size_t least, const char *what);

/* Checks one tensor description; `name` is its role in messages. */
anydnn_status adn_tensor_check(const anydnn_tensor *t, const char *name, bool output);

/* True unless it can be shown that two tensors of one buffer, at these byte offsets, share no byte. */
bool adn_may_overlap(const anydnn_tensor *a, uint64_t a_offset, const anydnn_tensor *b, uint64_t b_offset);

/* Where a memory begins: an address, but of an OpenCL buffer, which begins at an aligned place of its own, the offset. */
static inline uint64_t adn_address_bits(const anydnn_mem *mem)
{
    return mem->offset + (mem->kind == ANYDNN_MEM_OPENCL ? 0 : (uint64_t)(uintptr_t)mem->base);
}

/* INVALID with the operation's roles; checks of what a binding holds beside tensor, memory and value. */
anydnn_status adn_refuse_role(const struct adn_problem *p, int role);
anydnn_status adn_binding_check(const struct adn_problem *p, const anydnn_binding *b);

/* Checks the value of a host scalar (ranges in ops.h). */
anydnn_status adn_scalar_check(int role, double value);

/* "64x3x7x7" into text. */
void adn_dims_text(const anydnn_tensor *t, char *text, size_t size);

/* Two problems that may share a plan are equal: everything but scalar values, offsets and seed. */
uint64_t adn_problem_hash(const struct adn_problem *p);
bool adn_problem_equal(const struct adn_problem *a, const struct adn_problem *b);

/* ---- Geometry that several operations share (common/ops/geometry.c). ---- */

/* Convolution and pooling in three spatial dimensions: absent ones have size 1, filter 1, stride 1, pad 0.
 * x stands for x or dx, w for w or dw, y for y or dy. */
struct adn_conv_geometry {
    int64_t n, groups;
    int64_t c, k;                /* channels in all; per group: c / groups, k / groups (pooling: k = c, groups = c) */
    int64_t in[3], filter[3], out[3]; /* D,H,W; T,R,S; O,P,Q */
    int64_t stride[3], pad[3], pad_end[3], dilation[3];
    int64_t xs[5], ws[5], ys[5]; /* strides of N,C,D,H,W; K,C,T,R,S; N,K,O,P,Q */
    int64_t zs[5];               /* of a bound z, which has the dims of the output */
    bool flip;
};
void adn_conv_geometry(const struct adn_problem *p, struct adn_conv_geometry *g);
void adn_pool_geometry(const struct adn_problem *p, struct adn_conv_geometry *g);

/* Tensors with equal dims (or 1 = broadcast, stride 0) walked together: dims that are contiguous in all of them are
 * merged, dims of size 1 dropped, the innermost is last. rank 0 means one element (then size[0] = 1, stride 0). */
struct adn_walk {
    int rank;
    int64_t count; /* product of size */
    int64_t size[ANYDNN_MAX_DIMS];
    int64_t stride[4][ANYDNN_MAX_DIMS]; /* of tensor 0..3 */
};
/* `shape` gives the dims; tensors[i] has the same ndim, each dim equal or 1. Only axes whose bit is set in `axes` are
 * walked (use ~0u for all). `tensors` holds 1 to 4 entries. With keep_order the row-major order of the dims of `shape`
 * is kept (needed where element numbers count: dropout, first-maximum ties); otherwise dims are sorted by the strides
 * of tensor 0. */
void adn_walk_init(struct adn_walk *walk, const anydnn_tensor *shape, uint32_t axes, int tensors,
                   const anydnn_tensor *const *tensor, bool keep_order);

#endif
