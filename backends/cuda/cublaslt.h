/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/cublaslt.h: the part of cuBLASLt that is used, opened at run time: own declarations, as in driver.h. */
#ifndef ADN_CUDA_CUBLASLT_H
#define ADN_CUDA_CUBLASLT_H
#include "cuda.h"

enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4 };
enum {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8,
    CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2
};
enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};

struct adn_lt_algo {
    uint64_t data[8];
};
struct adn_lt_choice { /* cublasLtMatmulHeuristicResult_t */
    struct adn_lt_algo algo;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

#define ADN_LT_ENTRIES(X)                                                                                              \
    X(cublasLtCreate, int, (void **handle))                                                                            \
    X(cublasLtDestroy, int, (void *handle))                                                                            \
    X(cublasLtGetStatusName, const char *, (int status))                                                               \
    X(cublasLtMatmulDescCreate, int, (void **desc, int compute, int scale_type))                                       \
    X(cublasLtMatmulDescDestroy, int, (void *desc))                                                                    \
    X(cublasLtMatmulDescSetAttribute, int, (void *desc, int attribute, const void *value, size_t size))                \
    X(cublasLtMatrixLayoutCreate, int, (void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld))         \
    X(cublasLtMatrixLayoutDestroy, int, (void *layout))                                                                \
    X(cublasLtMatrixLayoutSetAttribute, int, (void *layout, int attribute, const void *value, size_t size))            \
    X(cublasLtMatmulPreferenceCreate, int, (void **preference))                                                        \
    X(cublasLtMatmulPreferenceDestroy, int, (void *preference))                                                        \
    X(cublasLtMatmulPreferenceSetAttribute, int, (void *preference, int attribute, const void *value, size_t size))    \
    X(cublasLtMatmulAlgoGetHeuristic, int,                                                                             \
      (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,                     \
       struct adn_lt_choice *choices, int *count))                                                                     \
    X(cublasLtMatmul, int,                                                                                             \
      (void *handle, void *desc, const void *alpha, const void *a_place, void *a, const void *b_place, void *b,        \
       const void *beta, const void *c_place, void *c, void *d_place, void *d, const struct adn_lt_algo *algo,         \
       void *workspace, size_t workspace_bytes, CUstream stream))

struct adn_cublaslt {
#define ADN_LT_MEMBER(member, result, parameters) result(*member) parameters;
    ADN_LT_ENTRIES(ADN_LT_MEMBER)
#undef ADN_LT_MEMBER
};

/* The table; NULL when no cuBLASLt 12 or 13 is on the loader's path. Opened at the first call, once. */
const struct adn_cublaslt *adn_cublaslt(void);

/* OK, or a failure with the message "cublasLtMatmul: CUBLAS_STATUS_...": while preparing, what the library cannot do
 * is UNSUPPORTED, so that another engine is chosen. */
anydnn_status adn_cublaslt_check(int result, const char *call, bool preparing);

/* The context's handle, made when first wanted. With the context current. */
anydnn_status adn_cublaslt_handle(struct adn_cuda_context *cuda, void **handle);

#define ADN_LT(entry, ...) adn_cublaslt_check(adn_cublaslt()->entry(__VA_ARGS__), #entry, true)

#endif
