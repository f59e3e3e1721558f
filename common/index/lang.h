/* SPDX-License-Identifier: Apache-2.0
 * common/index/lang.h: one spelling of types and functions for C11, CUDA C++ and OpenCL C 1.2. Parameter structs use
 * these types alone: 8-byte members first, explicit padding to a multiple of 8, no pointers. */
#ifndef ADN_LANG_H
#define ADN_LANG_H
#if defined(__OPENCL_VERSION__)
typedef long adn_i64;
typedef ulong adn_u64;
typedef int adn_i32;
typedef uint adn_u32;
#define ADN_FN static inline
#define ADN_MULHI(a, b) mul_hi((adn_u32)(a), (adn_u32)(b))
#else
#include <stdint.h>
typedef int64_t adn_i64;
typedef uint64_t adn_u64;
typedef int32_t adn_i32;
typedef uint32_t adn_u32;
#if defined(__CUDACC__)
#define ADN_FN static __host__ __device__ __forceinline__
#else
#define ADN_FN static inline
#endif
#define ADN_MULHI(a, b) ((adn_u32)(((adn_u64)(adn_u32)(a) * (adn_u32)(b)) >> 32))
#endif
#endif
