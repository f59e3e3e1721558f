/* SPDX-License-Identifier: Apache-2.0
 * anydnn/plan.h: how operations are run: bindings, preferences, plans, one-shot calls, questions about engines.
 *
 * Rules for all functions below, beside those of anydnn/core.h
 *   A problem  is `op` (a struct of ops.h), `prefs` (NULL = all defaults) and `count` bindings in any order (NULL with
 *              count 0), each role once. They are read during the call; what they point to may go afterwards.
 *   INVALID    of a problem: whatever ops.h calls so; struct_size; an op, mode or member that is not listed; a role
 *              that the operation does not have, that is bound twice, or that it needs and lacks; a malformed tensor;
 *              overlaps. UNSUPPORTED: structs with members set that this version does not know.
 *   rows       of verdicts are the caller's; NULL with capacity 0. *count receives how many there are, also where
 *              capacity holds fewer.
 */
#ifndef ANYDNN_PLAN_H
#define ANYDNN_PLAN_H
#include <anydnn/ops.h>
#ifdef __cplusplus
extern "C" {
#endif

/* What is attached to a role: a tensor with its memory, or a scalar. 64 bytes, frozen. */
typedef struct anydnn_binding {
    int32_t role;                /* anydnn_role */
    int32_t index;               /* 0, for no operation takes a list of tensors yet */
    const anydnn_tensor *tensor; /* tensor roles: its description. Scalars: NULL */
    anydnn_mem mem;              /* tensor roles: where it is (kind NONE at plan creation is fine).
                                    Scalar roles: kind NONE = `value`, else one element in device memory */
    double value;                /* scalar roles on the host */
    int64_t reserved;            /* 0 */
} anydnn_binding;

static inline anydnn_binding anydnn_bind(int role, const anydnn_tensor *tensor, anydnn_mem mem)
{
    anydnn_binding binding = { 0, 0, NULL, { NULL, 0, 0, 0, 0 }, 0.0, 0 };
    binding.role = role;
    binding.tensor = tensor;
    binding.mem = mem;
    return binding;
}

static inline anydnn_binding anydnn_bind_value(int role, double value)
{
    anydnn_binding binding = { 0, 0, NULL, { NULL, 0, 0, 0, 0 }, 0.0, 0 };
    binding.role = role;
    binding.value = value;
    return binding;
}

/* Wishes of one plan. NULL or zero members = the context's settings and automatic choice. */
typedef struct anydnn_prefs {
    uint32_t struct_size;     /* sizeof(anydnn_prefs) */
    int32_t math;             /* anydnn_math; 0 = the context's */
    int32_t deterministic;    /* 1 = only deterministic engines; 0 = the context's */
    int32_t batch_invariant;  /* 1 = an item's result does not depend on the batch it came in, see below; 0 = the
                                 context's */
    uint64_t workspace_limit; /* most bytes of workspace that the plan may want; 0 = no limit for anydnn_plan_create,
                                 the stream's own workspace for anydnn_run; ANYDNN_NO_WORKSPACE = none at all */
    const char *engine;       /* engine id ("conv_igemm", or with parameters "conv_igemm:128x128x8"; up to 63
                                 characters): this one runs or the call is UNSUPPORTED. NULL or "" = automatic */
} anydnn_prefs;

#define ANYDNN_PREFS_INIT { (uint32_t)sizeof(anydnn_prefs), 0, 0, 0, 0, NULL }

/* Batch invariance: an item gives the same bits alone and in any batch, on one device with one library version, where
 * everything but the number of items is equal. Items are the entries of axis 0 (convolution forward and backward data,
 * pooling, softmax, cross entropy's rows) and the rows and batches of a matrix product. Engines whose order of sums
 * follows from the number of items then refuse, sums are not split, and neither measurements nor estimates choose.
 * Other operations either have no sum over an item or sum over the batch: for them the flag changes nothing. Limit:
 * a batch with which a convolution has 2^30 output positions or more may go to another engine, and sum otherwise. */

typedef struct anydnn_plan anydnn_plan; /* an operation compiled for one context; immutable, reference-counted */

/* Engine traits (bits). */
#define ANYDNN_TRAIT_DETERMINISTIC 1u  /* bit-equal from run to run */
#define ANYDNN_TRAIT_REDUCED_MATH 2u   /* rounds more than the strict mode allows; chosen only where math allows it */
#define ANYDNN_TRAIT_LIBRARY 4u        /* runs a vendor library */
#define ANYDNN_TRAIT_SLOW_START 8u     /* its first use may take seconds: never chosen unless asked for by name */
#define ANYDNN_TRAIT_GENERIC 16u       /* takes every legal problem */
#define ANYDNN_TRAIT_BATCH_INVARIANT 32u /* can make an item's result independent of its batch */

typedef struct anydnn_plan_info {
    uint32_t struct_size;     /* sizeof(anydnn_plan_info), set by the caller */
    uint32_t traits;          /* ANYDNN_TRAIT_* */
    uint64_t workspace_bytes; /* exact need of anydnn_plan_run */
    double estimated_ns;      /* cost estimate, not a measurement */
    char engine[64];          /* id that prefs.engine accepts */
} anydnn_plan_info;

/* Checks the problem, chooses an engine and does everything slow: kernels are compiled and loaded. Bindings give the
 * tensors (memory is ignored except to derive aliases: two roles bound to the same place promise to be so at run
 * time) and which optional roles and scalars are present. A scalar bound with a memory kind is promised to be in
 * device memory at run time; alpha and beta promise the class of their value: 0, 1 or other (other serves all).
 * *plan is released by anydnn_plan_release and may outlive op, prefs and bindings. INVALID: the problem. UNSUPPORTED:
 * no engine takes it (message: each engine's reason), or the one that prefs names. OUT_OF_MEMORY, DEVICE, INTERNAL. */
ANYDNN_API anydnn_status anydnn_plan_create(anydnn_context *context, const anydnn_op *op, const anydnn_prefs *prefs,
                                            const anydnn_binding *bindings, int count, anydnn_plan **plan);

/* Enqueues the plan on a stream of its context: nothing is allocated, compiled or waited for. Tensors in bindings may
 * be NULL (those of the plan hold) or must equal the plan's in dtype, dims and, of dims above 1, strides; scalars that
 * are not bound have their defaults. Promises broken (alignment, presence, alias, class of alpha and beta) are INVALID.
 * `workspace` gives plan_info.workspace_bytes bytes, aligned to 256, apart from all that is bound, the plan's until the
 * stream has passed the run; NULL = the stream's own. One plan runs on any number of streams at once.
 * INVALID also: a stream of another context; workspace or memory too small, of another kind or, where the driver tells,
 * another context; scalars out of range. OUT_OF_MEMORY (the driver's own), DEVICE, INTERNAL; a launch that fails leaves
 * outputs undefined. Under the oracle (core.h) it does wait and allocate, and INTERNAL says a wrong result. */
ANYDNN_API anydnn_status anydnn_plan_run(const anydnn_plan *plan, anydnn_stream *stream, const anydnn_binding *bindings,
                                         int count, const anydnn_mem *workspace);

/* Fills *info. INVALID: struct_size below 16. */
ANYDNN_API anydnn_status anydnn_plan_get_info(const anydnn_plan *plan, anydnn_plan_info *info);

/* Reference counting: retain returns its argument, NULL too; release allows NULL. Any thread. A plan may be released
 * while work that it enqueued still runs. */
ANYDNN_API anydnn_plan *anydnn_plan_retain(anydnn_plan *plan);
ANYDNN_API void anydnn_plan_release(anydnn_plan *plan);

/* One-shot call: finds or makes the plan (bounded cache of the stream's context) and runs it with the stream's
 * workspace. Alignment, aliases, presence and scalar classes are taken from the bindings. Statuses of both; the first
 * call of a kind may compile and wait. */
ANYDNN_API anydnn_status anydnn_run(anydnn_stream *stream, const anydnn_op *op, const anydnn_prefs *prefs,
                                    const anydnn_binding *bindings, int count);

/* Shape rule: the packed (row-major) description of output role `role` that follows from the bound inputs; bindings
 * of outputs may be missing, and where they are bound must fit. No context needed. Outputs whose shape no input tells
 * (of FILL and SCALE, gradients of BINARY_BACKWARD with add and sub, dx of REDUCE_BACKWARD without x) must be bound.
 * cudnnGetConvolutionNdForwardOutputDim, cudnnGetPoolingNdForwardOutputDim. INVALID: the problem, a role that is not an
 * output, sizes beyond 2^60. UNSUPPORTED as in the head. */
ANYDNN_API anydnn_status anydnn_output(const anydnn_op *op, const anydnn_binding *bindings, int count, int role,
                                       anydnn_tensor *tensor);

/* One engine's answer to a problem. */
typedef struct anydnn_verdict {
    char engine[64];      /* id with parameters */
    int32_t status;       /* ANYDNN_OK: it would run; ANYDNN_UNSUPPORTED: see reason */
    int32_t reason;       /* anydnn_reason */
    uint32_t traits;      /* ANYDNN_TRAIT_* */
    int32_t role;         /* role the refusal is about; 0 = none */
    uint64_t workspace_bytes;
    double estimated_ns;
    char argument[32];    /* what the refusal is about: "w", "stride", "workspace" */
    int64_t value;        /* its value */
    int64_t accepted;     /* the nearest value that would be accepted */
    char text[160];       /* the same as one sentence */
} anydnn_verdict;

typedef enum anydnn_reason {
    ANYDNN_REASON_NONE = 0,
    ANYDNN_REASON_DTYPE = 1,         /* dtype or mix of dtypes */
    ANYDNN_REASON_SHAPE = 2,         /* a dimension or parameter */
    ANYDNN_REASON_LAYOUT = 3,        /* strides */
    ANYDNN_REASON_ALIGNMENT = 4,     /* promised alignment */
    ANYDNN_REASON_WORKSPACE = 5,     /* wants more workspace than allowed */
    ANYDNN_REASON_DETERMINISM = 6,   /* cannot repeat itself bit by bit */
    ANYDNN_REASON_MATH = 7,          /* reduced precision not allowed */
    ANYDNN_REASON_DEVICE = 8,        /* device lacks something: local memory, class, capability */
    ANYDNN_REASON_LIBRARY = 9,       /* vendor library absent */
    ANYDNN_REASON_COMPILER = 10,     /* the device's compiler refused the kernel earlier */
    ANYDNN_REASON_SIZE = 11,         /* exceeds an index range or launch limit */
    ANYDNN_REASON_FEATURE = 12,      /* optional role or mode not handled by this engine */
    ANYDNN_REASON_NAME = 13,         /* not the engine that was asked for by name */
    ANYDNN_REASON_BATCH = 14         /* its sums follow from the size of the batch */
} anydnn_reason;

/* Asks every engine of the context's device about a problem, in the order of choice (what was measured, tune.h,
 * then estimated cost). Writes up to `capacity` verdicts. Nothing is compiled, so that a kernel that the device's
 * compiler will refuse is accepted here until then. cudnnGetConvolutionForwardAlgorithm_v7. INVALID: the problem,
 * capacity below 0. UNSUPPORTED as in the head; that no engine takes the problem is OK here. */
ANYDNN_API anydnn_status anydnn_explain(anydnn_context *context, const anydnn_op *op, const anydnn_prefs *prefs,
                                        const anydnn_binding *bindings, int binding_count, anydnn_verdict *rows,
                                        int capacity, int *count);

/* As anydnn_explain, but only what accepts the problem: each engine with its own choice of parameters, in the order of
 * choice, then engines with other parameter sets that are worth measuring. Each id can be pinned by prefs.engine.
 * Statuses of anydnn_explain; *count may be 0. */
ANYDNN_API anydnn_status anydnn_candidates(anydnn_context *context, const anydnn_op *op, const anydnn_prefs *prefs,
                                           const anydnn_binding *bindings, int binding_count, anydnn_verdict *rows,
                                           int capacity, int *count);

/* Names and traits of the engines of an operation on the context's device, best first: writes the name of engine
 * `index` to name (64 bytes) and its ANYDNN_TRAIT_* to *traits (may be NULL). INVALID: index out of range (use to end a
 * loop), unknown op. */
ANYDNN_API anydnn_status anydnn_engine_name(const anydnn_context *context, int op, int index, char *name,
                                            uint32_t *traits);

#ifdef __cplusplus
}
#endif
#endif
