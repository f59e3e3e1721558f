/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/matmul_cublaslt.c: MATMUL by NVIDIA's cuBLASLt.
 *
 * The library thinks in columns: D = alpha * op(A) * op(B) + beta * D. Where y's rows are contiguous its transpose is
 * computed, y^T = b'^T * a'^T; where its columns are, y itself. Each matrix needs one unit stride among its last two
 * dims, and batches that one stride walks (0 = broadcast). Sums are f32 for every dtype; partial sums are never
 * reduced in a narrower type nor by atomics, so that results repeat.
 * Two engines: matmul_cublaslt keeps strict math; matmul_cublaslt_fast does what that forbids: tf32 products, and
 * halves with beta, where the library rounds the product before it adds (measured on H200: 1 ulp).
 * With alpha 0 the library reads a and b all the same (NaN * 0), which the operation forbids: plans for any alpha also
 * carry the steps of matmul_tile, and run these then.
 * Plan: geometry. Prepare: handle, descriptors, the library's choice of algorithm. Run: one call. */
#include "cublaslt.h"

#include <stdlib.h>
#include <string.h>

extern const struct adn_engine adn_engine_matmul_tile;

enum { WORKSPACE = 32 << 20, MATRICES = 3 };

/* A logical matrix of the product. */
struct matrix {
    int64_t rows, columns, row_stride, column_stride;
};

/* adn_engine_plan.own: operands in the library's order A, B, D. */
struct lt_plan {
    void *desc, *layout[MATRICES];
    struct adn_lt_algo algo;
    int64_t rows[MATRICES], columns[MATRICES], ld[MATRICES], batch_stride[MATRICES]; /* as stored, columns first */
    int32_t batches, type, compute;
    int16_t alignment[MATRICES];
    uint8_t transposed[2]; /* op(A), op(B) */
    uint8_t swapped;       /* A is b and B is a */
};
_Static_assert(sizeof(struct lt_plan) <= sizeof(((struct adn_engine_plan *)0)->own), "must fit");

static struct lt_plan *own_of(struct adn_engine_plan *plan)
{
    return (struct lt_plan *)plan->own.bytes;
}

static struct matrix transpose(struct matrix x)
{
    struct matrix y = { x.columns, x.rows, x.column_stride, x.row_stride };
    return y;
}

static struct matrix matrix_of(const anydnn_tensor *t, bool transposed)
{
    int last = t->ndim - 1;
    struct matrix x = { t->dims[last - 1], t->dims[last], t->strides[last - 1], t->strides[last] };
    return transposed ? transpose(x) : x;
}

/* Columns of unit stride that do not run into each other. */
static bool by_columns(const struct matrix *x)
{
    return (x->rows == 1 || x->row_stride == 1) && (x->columns == 1 || x->column_stride >= x->rows);
}

/* Describes operand `at` as stored; *transposed says whether the stored matrix is the transpose of x. */
static bool store(struct lt_plan *own, int at, struct matrix x, bool *transposed)
{
    *transposed = !by_columns(&x);
    if (*transposed) x = transpose(x);
    if (!by_columns(&x)) return false;
    own->rows[at] = x.rows;
    own->columns[at] = x.columns;
    own->ld[at] = x.columns == 1 ? x.rows : x.column_stride;
    return true;
}

/* One stride that walks all leading dims of y in t. */
static bool batch_stride(const anydnn_tensor *t, const anydnn_tensor *y, int64_t *stride)
{
    int64_t count = 1;
    int i;
    *stride = 0;
    for (i = y->ndim - 3; i >= 0; i--) {
        int64_t step = t->dims[i] == 1 ? 0 : t->strides[i];
        if (y->dims[i] == 1) continue;
        if (count == 1) *stride = step;
        if (step != *stride * count) return false;
        count *= y->dims[i];
    }
    return true;
}

static int type_of(int dtype)
{
    switch (dtype) {
    case ANYDNN_F32:
        return CUDA_R_32F;
    case ANYDNN_F16:
        return CUDA_R_16F;
    case ANYDNN_BF16:
        return CUDA_R_16BF;
    default:
        return -1;
    }
}

static bool check_kind(const struct adn_problem *p, struct lt_plan *own, struct adn_refusal *why)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B), *y = adn_tensor(p, ANYDNN_Y);
    own->type = type_of(y->dtype);
    if (own->type < 0 || a->dtype != y->dtype || b->dtype != y->dtype)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, ANYDNN_Y, "dtype", y->dtype, ANYDNN_F32,
                          "a, b and y must have one dtype of f32, f16, bf16");
    if (adn_tensor(p, ANYDNN_BIAS))
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_BIAS, "bias", 1, 0, "takes no bias");
    if (p->operand[adn_slot(p, ANYDNN_ALPHA)].device || p->operand[adn_slot(p, ANYDNN_BETA)].device)
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_ALPHA, "alpha", 1, 0,
                          "alpha and beta must be on the host");
    if (p->alpha_class == ADN_CLASS_ZERO)
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_ALPHA, "alpha", 0, 1, "alpha 0 is not worth a product");
    own->compute = CUBLAS_COMPUTE_32F;
    return true;
}

static bool strict_math(const struct adn_problem *p, const struct lt_plan *own, struct adn_refusal *why)
{
    if (own->type == CUDA_R_32F || p->beta_class == ADN_CLASS_ZERO) return true;
    return adn_refuse(why, ANYDNN_REASON_MATH, ANYDNN_BETA, "beta", 1, 0,
                      "the library rounds a half product before it adds beta * y");
}

static bool fast_math(const struct adn_problem *p, struct lt_plan *own, struct adn_refusal *why)
{
    const bool f32 = own->type == CUDA_R_32F;
    const int least = f32 ? ANYDNN_MATH_TF32 : ANYDNN_MATH_FAST;
    if (p->math < least)
        return adn_refuse(why, ANYDNN_REASON_MATH, 0, "math", p->math, least, "rounds more than this math allows");
    if (!f32 && p->beta_class == ADN_CLASS_ZERO)
        return adn_refuse(why, ANYDNN_REASON_MATH, 0, "math", p->math, ANYDNN_MATH_STRICT, "is no faster than strict");
    if (f32) own->compute = CUBLAS_COMPUTE_32F_FAST_TF32;
    return true;
}

static bool check_sizes(const anydnn_tensor *y, int64_t k, struct lt_plan *own, struct adn_refusal *why)
{
    int64_t batches = 1;
    int i;
    for (i = 0; i < y->ndim; i++) {
        if (y->dims[i] < 1 || k < 1)
            return adn_refuse(why, ANYDNN_REASON_SHAPE, ANYDNN_Y, "dims", 0, 1, "an empty product");
        if (y->dims[i] > INT32_MAX || k > INT32_MAX)
            return adn_refuse(why, ANYDNN_REASON_SIZE, ANYDNN_Y, "dims", y->dims[i] > k ? y->dims[i] : k, INT32_MAX,
                              "a dim exceeds 31 bits");
        if (i < y->ndim - 2 && (batches *= y->dims[i]) > INT32_MAX)
            return adn_refuse(why, ANYDNN_REASON_SIZE, ANYDNN_Y, "batch", batches, INT32_MAX,
                              "the number of batches exceeds 31 bits");
    }
    own->batches = (int32_t)batches;
    return true;
}

static bool describe(struct lt_plan *own, int at, int role, const anydnn_tensor *t, const anydnn_tensor *y,
                     struct matrix x, bool *transposed, struct adn_refusal *why)
{
    int64_t alignment = t->alignment ? t->alignment : (int64_t)anydnn_dtype_size(t->dtype);
    if (!store(own, at, x, transposed))
        return adn_refuse(why, ANYDNN_REASON_LAYOUT, role, "strides", t->strides[t->ndim - 1], 1,
                          "one of the last two strides must be 1 and the other not smaller than a row or column");
    if (!batch_stride(t, y, &own->batch_stride[at]))
        return adn_refuse(why, ANYDNN_REASON_LAYOUT, role, "strides", t->strides[0], 0,
                          "the batches cannot be walked by one stride");
    own->alignment[at] = (int16_t)(alignment > 256 ? 256 : alignment);
    return true;
}

static bool check_layouts(const struct adn_problem *p, struct lt_plan *own, struct adn_refusal *why)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B), *y = adn_tensor(p, ANYDNN_Y);
    struct matrix left = matrix_of(a, p->desc.matmul.trans_a != 0), right = matrix_of(b, p->desc.matmul.trans_b != 0);
    bool rows_contiguous, left_transposed, right_transposed;
    int at_a, at_b;
    if (!check_sizes(y, left.columns, own, why)) return false;
    if (!describe(own, 2, ANYDNN_Y, y, y, matrix_of(y, false), &rows_contiguous, why)) return false;
    own->swapped = rows_contiguous;
    at_a = own->swapped ? 1 : 0;
    at_b = own->swapped ? 0 : 1;
    if (own->swapped) left = transpose(left), right = transpose(right);
    if (!describe(own, at_a, ANYDNN_A, a, y, left, &left_transposed, why)) return false;
    if (!describe(own, at_b, ANYDNN_B, b, y, right, &right_transposed, why)) return false;
    own->transposed[at_a] = left_transposed;
    own->transposed[at_b] = right_transposed;
    return true;
}

/* Tensor cores multiply several times faster than the peak that estimates are made from. */
static double estimate(const struct adn_problem *p, const struct adn_device *device, const struct lt_plan *own)
{
    double flops, depth, bytes = 0.0;
    int i;
    p->def->cost(p, &flops, &depth);
    for (i = 0; i < p->slots; i++)
        if (p->operand[i].present && p->operand[i].t.ndim > 0) bytes += (double)anydnn_tensor_bytes(&p->operand[i].t);
    if (own->type != CUDA_R_32F) flops /= 12.0;
    if (own->compute == CUBLAS_COMPUTE_32F_FAST_TF32) flops /= 6.0;
    return adn_estimate_ns(device, bytes, flops, 0.85);
}

static bool plan_matmul(const struct adn_problem *p, const struct adn_device *device, const char *params, bool fast,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct lt_plan *own = own_of(plan);
    if (params && params[0]) return adn_refuse(why, ANYDNN_REASON_NAME, 0, "engine", 0, 0, "takes no parameters");
    if (!check_kind(p, own, why) || !check_layouts(p, own, why)) return false;
    if (fast ? !fast_math(p, own, why) : !strict_math(p, own, why)) return false;
    if (!adn_cublaslt())
        return adn_refuse(why, ANYDNN_REASON_LIBRARY, 0, "library", 0, 0, "libcublasLt.so.13 and .12 not found");
    plan->workspace = p->workspace_limit < WORKSPACE ? p->workspace_limit / 256 * 256 : WORKSPACE;
    plan->cost_ns = estimate(p, device, own);
    return true;
}

static bool plan_strict(const struct adn_problem *p, const struct adn_device *device, const char *params,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    return plan_matmul(p, device, params, false, plan, why);
}

static bool plan_fast(const struct adn_problem *p, const struct adn_device *device, const char *params,
                      struct adn_engine_plan *plan, struct adn_refusal *why)
{
    return plan_matmul(p, device, params, true, plan, why);
}

static anydnn_status make_layouts(struct lt_plan *own)
{
    int i;
    for (i = 0; i < MATRICES; i++) {
        ADN_TRY(ADN_LT(cublasLtMatrixLayoutCreate, &own->layout[i], own->type, (uint64_t)own->rows[i],
                       (uint64_t)own->columns[i], own->ld[i]));
        ADN_TRY(ADN_LT(cublasLtMatrixLayoutSetAttribute, own->layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                       &own->batches, sizeof own->batches));
        ADN_TRY(ADN_LT(cublasLtMatrixLayoutSetAttribute, own->layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                       &own->batch_stride[i], sizeof own->batch_stride[i]));
    }
    return ANYDNN_OK;
}

static anydnn_status make_desc(struct lt_plan *own)
{
    int32_t op_a = own->transposed[0], op_b = own->transposed[1]; /* CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 */
    ADN_TRY(ADN_LT(cublasLtMatmulDescCreate, &own->desc, own->compute, CUDA_R_32F));
    ADN_TRY(ADN_LT(cublasLtMatmulDescSetAttribute, own->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a));
    return ADN_LT(cublasLtMatmulDescSetAttribute, own->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
}

static anydnn_status set_preference(void *preference, const struct lt_plan *own, uint64_t workspace)
{
    static const int attribute[MATRICES] = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = (uint32_t)own->alignment[2];
    int i;
    ADN_TRY(ADN_LT(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                   &workspace, sizeof workspace));
    ADN_TRY(ADN_LT(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   &reduction, sizeof reduction));
    ADN_TRY(ADN_LT(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                   &alignment, sizeof alignment));
    for (i = 0; i < MATRICES; i++) {
        alignment = (uint32_t)own->alignment[i];
        ADN_TRY(ADN_LT(cublasLtMatmulPreferenceSetAttribute, preference, attribute[i], &alignment, sizeof alignment));
    }
    return ANYDNN_OK;
}

/* The workspace becomes what the chosen algorithm really wants. */
static anydnn_status choose(void *handle, struct lt_plan *own, uint64_t *workspace)
{
    struct adn_lt_choice choice = { 0 };
    void *preference = NULL;
    anydnn_status status;
    int count = 0;
    ADN_TRY(ADN_LT(cublasLtMatmulPreferenceCreate, &preference));
    status = set_preference(preference, own, *workspace);
    if (status == ANYDNN_OK)
        status = ADN_LT(cublasLtMatmulAlgoGetHeuristic, handle, own->desc, own->layout[0], own->layout[1],
                        own->layout[2], own->layout[2], preference, 1, &choice, &count);
    adn_cublaslt()->cublasLtMatmulPreferenceDestroy(preference);
    ADN_TRY(status);
    if (count < 1)
        return adn_fail(ANYDNN_UNSUPPORTED, "cublasLtMatmulAlgoGetHeuristic has no algorithm for this product");
    ADN_TRY(adn_cublaslt_check(choice.state, "cublasLtMatmulAlgoGetHeuristic", true));
    own->algo = choice.algo;
    *workspace = ((uint64_t)choice.workspace + 255) / 256 * 256;
    return ANYDNN_OK;
}

static void discard_matmul(anydnn_plan *plan)
{
    struct lt_plan *own = own_of(&plan->body);
    int i;
    for (i = 0; i < MATRICES; i++) {
        if (own->layout[i]) adn_cublaslt()->cublasLtMatrixLayoutDestroy(own->layout[i]);
        own->layout[i] = NULL;
    }
    if (own->desc) adn_cublaslt()->cublasLtMatmulDescDestroy(own->desc);
    own->desc = NULL;
}

/* Steps for alpha 0, without workspace. */
static anydnn_status prepare_steps(anydnn_plan *plan)
{
    struct adn_problem problem = plan->problem;
    struct adn_engine_plan *tile = calloc(1, sizeof *tile);
    anydnn_status status = ANYDNN_UNSUPPORTED;
    if (!tile) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a plan");
    problem.workspace_limit = 0;
    if (adn_engine_matmul_tile.plan(&problem, &plan->context->device, NULL, tile, NULL)) {
        plan->body.steps = tile->steps;
        memcpy(plan->body.step, tile->step, sizeof tile->step);
        status = adn_steps_prepare(plan);
    } else {
        adn_fail(status, "matmul_tile, which runs alpha 0, does not take the product without workspace");
    }
    free(tile);
    return status;
}

static void bind_steps(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                       void *params)
{
    adn_engine_matmul_tile.bind(p, scalar, plan, step, params);
}

static anydnn_status prepare_current(anydnn_plan *plan)
{
    struct lt_plan *own = own_of(&plan->body);
    void *handle;
    if (plan->problem.alpha_class == ADN_CLASS_OTHER) ADN_TRY(prepare_steps(plan));
    ADN_TRY(adn_cublaslt_handle(adn_cuda_of(plan->context), &handle));
    ADN_TRY(make_layouts(own));
    ADN_TRY(make_desc(own));
    return choose(handle, own, &plan->body.workspace);
}

static anydnn_status prepare_matmul(anydnn_plan *plan)
{
    struct adn_cuda_scope scope;
    anydnn_status status;
    ADN_TRY(adn_cuda_enter(&scope, adn_cuda_of(plan->context)->handle));
    status = prepare_current(plan);
    adn_cuda_leave(&scope);
    if (status != ANYDNN_OK) discard_matmul(plan);
    return status;
}

static anydnn_status run_matmul(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    const struct lt_plan *own = (const struct lt_plan *)plan->body.own.bytes;
    const struct adn_problem *p = &plan->problem;
    const struct adn_cuda_context *cuda = adn_cuda_of(plan->context);
    void *a = (void *)(uintptr_t)adn_cuda_pointer(arguments->place[adn_slot(p, ANYDNN_A)]);
    void *b = (void *)(uintptr_t)adn_cuda_pointer(arguments->place[adn_slot(p, ANYDNN_B)]);
    void *y = (void *)(uintptr_t)adn_cuda_pointer(arguments->place[adn_slot(p, ANYDNN_Y)]);
    void *workspace = (void *)(uintptr_t)adn_cuda_pointer(arguments->workspace);
    float alpha = (float)arguments->scalar[adn_slot(p, ANYDNN_ALPHA)];
    float beta = (float)arguments->scalar[adn_slot(p, ANYDNN_BETA)];
    struct adn_cuda_scope scope;
    int result;
    if (alpha == 0.0f) return adn_steps_run(plan, stream, arguments);
    ADN_TRY(adn_cuda_enter(&scope, cuda->handle));
    result = adn_cublaslt()->cublasLtMatmul(cuda->cublaslt, own->desc, &alpha, own->swapped ? b : a, own->layout[0],
                                            own->swapped ? a : b, own->layout[1], &beta, y, own->layout[2], y,
                                            own->layout[2], &own->algo, workspace, (size_t)plan->body.workspace,
                                            adn_cuda_stream_of(stream));
    adn_cuda_leave(&scope);
    return adn_cublaslt_check(result, "cublasLtMatmul", false);
}

const struct adn_engine adn_cuda_matmul_cublaslt = {
    .name = "matmul_cublaslt",
    .ops = ADN_OP_BIT(ANYDNN_OP_MATMUL),
    .traits = ANYDNN_TRAIT_LIBRARY | ANYDNN_TRAIT_DETERMINISTIC,
    .revision = 1,
    .plan = plan_strict,
    .bind = bind_steps,
    .prepare = prepare_matmul,
    .run = run_matmul,
    .discard = discard_matmul,
};

const struct adn_engine adn_cuda_matmul_cublaslt_fast = {
    .name = "matmul_cublaslt_fast",
    .ops = ADN_OP_BIT(ANYDNN_OP_MATMUL),
    .traits = ANYDNN_TRAIT_LIBRARY | ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_REDUCED_MATH,
    .revision = 1,
    .plan = plan_fast,
    .bind = bind_steps,
    .prepare = prepare_matmul,
    .run = run_matmul,
    .discard = discard_matmul,
};
