// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/prelude.cuh: what every CUDA kernel file begins with: types, loads and stores with conversion, entry
// names, block reductions.
//
// How a kernel file is built
//   1. a template for each kernel:  template <typename T, int BLOCK> __device__ void relu(const T *x, T *y, const P &p)
//   2. an entry macro for each:     #define ADN_ENTRY_relu(name, T, block, a, b, c, d, e, f)                         \
//                                       ADN_KERNEL(name, block)(const T *x, T *y, const __grid_constant__ P p)       \
//                                       { relu<T, block>(x, y, p); }
//   3. at the end:                  #include "../common/engines/<stem>.variants", whose rows instantiate the entries
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../common/index/lang.h"

#define ADN_TYPE_F32 float
#define ADN_TYPE_F16 __half
#define ADN_TYPE_BF16 __nv_bfloat16
#define ADN_TYPE_F64 double
#define ADN_TYPE_I8 signed char
#define ADN_TYPE_U8 unsigned char

#define ADN_NAME_(kernel, dtype, block, a, b, c, d, e, f)                                                              \
    adn_##kernel##_##dtype##_##block##_##a##_##b##_##c##_##d##_##e##_##f
#define ADN_KERNEL(name, block) extern "C" __global__ void __launch_bounds__(block) name
#define ADN_VARIANT(kernel, dtype, block, a, b, c, d, e, f)                                                            \
    ADN_ENTRY_##kernel(ADN_NAME_(kernel, dtype, block, a, b, c, d, e, f), ADN_TYPE_##dtype, block, a, b, c, d, e, f)

// What sums of products are kept in.
template <typename T> struct adn_sum_of { typedef float type; };
template <> struct adn_sum_of<double> { typedef double type; };
template <> struct adn_sum_of<signed char> { typedef int type; };
template <> struct adn_sum_of<unsigned char> { typedef int type; };

// Storage -> that, exact.
__device__ __forceinline__ float adn_load(const float *p, adn_i64 i) { return p[i]; }
__device__ __forceinline__ float adn_load(const __half *p, adn_i64 i) { return __half2float(p[i]); }
__device__ __forceinline__ float adn_load(const __nv_bfloat16 *p, adn_i64 i) { return __bfloat162float(p[i]); }
__device__ __forceinline__ double adn_load(const double *p, adn_i64 i) { return p[i]; }
__device__ __forceinline__ int adn_load(const signed char *p, adn_i64 i) { return p[i]; }
__device__ __forceinline__ int adn_load(const unsigned char *p, adn_i64 i) { return p[i]; }

// float -> storage, rounded to nearest even.
__device__ __forceinline__ void adn_store(float *p, adn_i64 i, float v) { p[i] = v; }
__device__ __forceinline__ void adn_store(double *p, adn_i64 i, double v) { p[i] = v; }
__device__ __forceinline__ void adn_store(__half *p, adn_i64 i, float v) { p[i] = __float2half_rn(v); }
__device__ __forceinline__ void adn_store(__nv_bfloat16 *p, adn_i64 i, float v) { p[i] = __float2bfloat16_rn(v); }

// Larger of two numbers, NaN if either is.
__device__ __forceinline__ float adn_max_nan(float a, float b) { return (a > b || isnan(a)) ? a : b; }

// alpha * v + beta * old; the old value is read only when beta != 0.
template <typename T>
__device__ __forceinline__ void adn_store_scaled(T *p, adn_i64 i, float v, float alpha, float beta)
{
    v *= alpha;
    if (beta != 0.0f) v += beta * adn_load(p, i);
    adn_store(p, i, v);
}
