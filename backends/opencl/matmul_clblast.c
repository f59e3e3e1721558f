/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/matmul_clblast.c: matmul by CLBlast where it is installed, opened at run time. f32 only: CLBlast's
 * half GEMM accumulates in half, which the library's accuracy rules out. Rows of y are contiguous, a and b may be
 * stored either way round, leading dims must fold into one batch with one stride. CLBlast compiles at its first call
 * on a device, which may take seconds; therefore automatic choice passes it by. */
#include "internal.h"

#include <string.h>

enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };

typedef int (*sgemm_fn)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                        size_t a_offset, size_t a_ld, cl_mem b, size_t b_offset, size_t b_ld, float beta, cl_mem c,
                        size_t c_offset, size_t c_ld, cl_command_queue *queue, cl_event *event);
typedef int (*sgemm_batched_fn)(int layout, int trans_a, int trans_b, size_t m, size_t n, size_t k, float alpha,
                                cl_mem a, size_t a_offset, size_t a_ld, size_t a_stride, cl_mem b, size_t b_offset,
                                size_t b_ld, size_t b_stride, float beta, cl_mem c, size_t c_offset, size_t c_ld,
                                size_t c_stride, size_t batches, cl_command_queue *queue, cl_event *event);

static adn_once once;
static sgemm_fn sgemm;
static sgemm_batched_fn sgemm_batched;

static void load(void)
{
    static const char *const names[] = { "libclblast.so.1", "libclblast.so", NULL };
    void *library = adn_library_open(names), *plain, *batched;
    if (!library) return;
    plain = adn_library_symbol(library, "CLBlastSgemm");
    batched = adn_library_symbol(library, "CLBlastSgemmStridedBatched");
    if (!plain || !batched) return;
    memcpy(&sgemm, &plain, sizeof plain);
    memcpy(&sgemm_batched, &batched, sizeof batched);
}

/* How one operand lies in memory; in adn_engine_plan.own. */
struct matrix {
    uint64_t ld, stride; /* elements: between rows, between batches */
    int32_t turned;      /* stored by columns */
    int32_t slot;
};
struct gemm {
    struct matrix a, b, y;
    uint64_t m, n, k, batches;
    int32_t beta_slot;
    int32_t pad;
};
_Static_assert(sizeof(struct gemm) <= sizeof(((struct adn_engine_plan *)0)->own), "struct gemm fits");

/* Rows of length `columns` or columns of length `rows` without gaps inside. */
static bool fold_matrix(const anydnn_tensor *t, struct matrix *out)
{
    int64_t rows = t->dims[t->ndim - 2], columns = t->dims[t->ndim - 1];
    int64_t row = t->strides[t->ndim - 2], column = t->strides[t->ndim - 1];
    if ((column == 1 || columns == 1) && (rows == 1 || row >= columns)) {
        out->ld = (uint64_t)(rows == 1 ? columns : row);
        out->turned = 0;
        return true;
    }
    out->ld = (uint64_t)(columns == 1 ? rows : column);
    out->turned = 1;
    return (row == 1 || rows == 1) && (columns == 1 || column >= rows);
}

/* Leading dims as one batch with one stride; all 1 where the output has more = the same matrix for each. */
static bool fold_batches(const anydnn_tensor *t, const anydnn_tensor *y, uint64_t *stride)
{
    int64_t inner = -1, extent = 1, own = 1, wanted = 1;
    int i;
    for (i = t->ndim - 3; i >= 0; i--) {
        own *= t->dims[i];
        wanted *= y->dims[i];
        if (t->dims[i] == 1) continue;
        if (inner >= 0 && t->strides[i] != inner * extent) return false;
        if (inner < 0) inner = t->strides[i];
        extent *= t->dims[i];
    }
    *stride = inner < 0 ? 0 : (uint64_t)inner;
    return own == wanted || own == 1;
}

static bool fold(const struct adn_problem *p, int role, const char *name, struct matrix *out, struct adn_refusal *why)
{
    const anydnn_tensor *t = adn_tensor(p, role), *y = adn_tensor(p, ANYDNN_Y);
    out->slot = adn_slot(p, role);
    if (t->dtype != ANYDNN_F32)
        return adn_refuse(why, ANYDNN_REASON_DTYPE, role, name, t->dtype, ANYDNN_F32, "%s is not f32", name);
    if (!fold_matrix(t, out))
        return adn_refuse(why, ANYDNN_REASON_LAYOUT, role, name, t->strides[t->ndim - 1], 1,
                          "%s has neither contiguous rows nor contiguous columns", name);
    if (!fold_batches(t, y, &out->stride))
        return adn_refuse(why, ANYDNN_REASON_LAYOUT, role, name, t->strides[0], 0,
                          "leading dims of %s do not fold into one batch with one stride", name);
    return true;
}

static bool check_features(const struct adn_problem *p, struct adn_refusal *why)
{
    int beta = adn_slot(p, ANYDNN_BETA);
    if (adn_tensor(p, ANYDNN_BIAS))
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_BIAS, "bias", 1, 0, "CLBlast adds no bias");
    if (p->alpha_class != ADN_CLASS_ONE)
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_ALPHA, "alpha", p->alpha_class, 1,
                          "alpha other than 1: CLBlast reads its inputs when alpha is 0");
    if (p->operand[beta].device)
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_BETA, "beta", 1, 0, "beta is in device memory");
    adn_run_once(&once, load);
    if (!sgemm) return adn_refuse(why, ANYDNN_REASON_LIBRARY, 0, "library", 0, 0, "libclblast.so.1 not found");
    return true;
}

static bool plan_gemm(const struct adn_problem *p, const struct adn_device *device, const char *params,
                      struct adn_engine_plan *plan, struct adn_refusal *why)
{
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *y = adn_tensor(p, ANYDNN_Y);
    struct gemm gemm;
    double bytes;
    int i;
    (void)params;
    memset(&gemm, 0, sizeof gemm);
    if (!check_features(p, why) || !fold(p, ANYDNN_A, "a", &gemm.a, why) || !fold(p, ANYDNN_B, "b", &gemm.b, why) ||
        !fold(p, ANYDNN_Y, "y", &gemm.y, why))
        return false;
    if (gemm.y.turned)
        return adn_refuse(why, ANYDNN_REASON_LAYOUT, ANYDNN_Y, "y", y->strides[y->ndim - 1], 1,
                          "rows of y are not contiguous");
    gemm.m = (uint64_t)y->dims[y->ndim - 2];
    gemm.n = (uint64_t)y->dims[y->ndim - 1];
    gemm.k = (uint64_t)a->dims[a->ndim - (p->desc.matmul.trans_a ? 2 : 1)];
    if (!gemm.k) return adn_refuse(why, ANYDNN_REASON_SHAPE, ANYDNN_A, "K", 0, 1, "K is 0; CLBlast wants at least 1");
    for (gemm.batches = 1, i = 0; i < y->ndim - 2; i++) gemm.batches *= (uint64_t)y->dims[i];
    gemm.a.turned ^= p->desc.matmul.trans_a != 0;
    gemm.b.turned ^= p->desc.matmul.trans_b != 0;
    gemm.beta_slot = adn_slot(p, ANYDNN_BETA);
    memcpy(plan->own.bytes, &gemm, sizeof gemm);
    bytes = 4.0 * (double)gemm.batches *
            ((double)gemm.m * (double)gemm.k + (double)gemm.k * (double)gemm.n + (double)gemm.m * (double)gemm.n);
    plan->cost_ns =
        adn_estimate_ns(device, bytes, 2.0 * (double)gemm.batches * (double)gemm.m * (double)gemm.n * (double)gemm.k,
                        device->info.is_cpu ? 0.06 : 0.45);
    return true;
}

static anydnn_status fail(int code)
{
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY)
        return adn_fail_native(ANYDNN_OUT_OF_MEMORY, code, "CLBlast could not get memory (%d)", code);
    return adn_fail_native(ANYDNN_DEVICE, code, "CLBlastSgemm failed with %d (%s)", code,
                           code > -1000 ? adn_cl_code_name(code) : "CLBlast's own code");
}

static anydnn_status run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    cl_command_queue queue = adn_cl_queue(stream);
    struct adn_place a, b, y;
    struct gemm g;
    float beta;
    int code, trans_a, trans_b;
    memcpy(&g, plan->body.own.bytes, sizeof g);
    if (!g.m || !g.n || !g.batches) return ANYDNN_OK;
    a = arguments->place[g.a.slot];
    b = arguments->place[g.b.slot];
    y = arguments->place[g.y.slot];
    beta = (float)arguments->scalar[g.beta_slot];
    trans_a = g.a.turned ? TRANSPOSED : NOT_TRANSPOSED;
    trans_b = g.b.turned ? TRANSPOSED : NOT_TRANSPOSED;
    if (g.batches == 1)
        code = sgemm(ROW_MAJOR, trans_a, trans_b, g.m, g.n, g.k, 1.0f, a.base, a.offset / 4, g.a.ld, b.base,
                     b.offset / 4, g.b.ld, beta, y.base, y.offset / 4, g.y.ld, &queue, NULL);
    else
        code = sgemm_batched(ROW_MAJOR, trans_a, trans_b, g.m, g.n, g.k, 1.0f, a.base, a.offset / 4, g.a.ld, g.a.stride,
                             b.base, b.offset / 4, g.b.ld, g.b.stride, beta, y.base, y.offset / 4, g.y.ld, g.y.stride,
                             g.batches, &queue, NULL);
    return code == 0 ? ANYDNN_OK : fail(code);
}

const struct adn_engine adn_matmul_clblast = {
    .name = "matmul_clblast",
    .ops = ADN_OP_BIT(ANYDNN_OP_MATMUL),
    .traits = ANYDNN_TRAIT_LIBRARY | ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_SLOW_START,
    .revision = 1,
    .plan = plan_gemm,
    .run = run,
};
