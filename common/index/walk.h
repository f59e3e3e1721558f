/* SPDX-License-Identifier: Apache-2.0
 * common/index/walk.h: division by constants, and element number -> offset in up to 8 dimensions, for all languages.
 *
 * Division by a constant d of 32-bit n: q = (mulhi(n, multiplier) + n) >> shift, exact for n < 2^31
 * (Granlund and Montgomery, PLDI 1994). */
#ifndef ADN_INDEX_WALK_H
#define ADN_INDEX_WALK_H
#include "lang.h"

struct adn_divisor {
    adn_i64 value;      /* the divisor itself, >= 1 */
    adn_u32 multiplier; /* for n < 2^31 and value < 2^31 */
    adn_u32 shift;
};

ADN_FN adn_u32 adn_div32(adn_u32 n, adn_u32 multiplier, adn_u32 shift)
{
    return (ADN_MULHI(n, multiplier) + n) >> shift;
}

/* 64-bit division is long code: in CUDA one copy for all who divide, which only tensors of 2^31 elements reach. */
#if defined(__CUDACC__)
static __host__ __device__ __noinline__ adn_i64 adn_divide_wide(adn_i64 n, adn_i64 d) { return n / d; }
#else
#define adn_divide_wide(n, d) ((n) / (d))
#endif

/* q = n / d, *r = n % d; narrow != 0 promises n < 2^31. `d` fields are passed one by one because OpenCL C has no
 * pointers to parameter structs. */
ADN_FN adn_i64 adn_divide(adn_i64 n, struct adn_divisor d, adn_i32 narrow, adn_i64 *r)
{
    adn_i64 q;
    if (narrow)
        q = (adn_i64)adn_div32((adn_u32)n, d.multiplier, d.shift);
    else
        q = adn_divide_wide(n, d.value);
    *r = n - q * d.value;
    return q;
}

/* Sizes of a walk over the elements of a shape, innermost last, `rank` of the 8 entries in use. */
struct adn_walk_dims {
    struct adn_divisor size[8];
    adn_i64 count;  /* product of the sizes */
    adn_i32 rank;   /* 0..8 */
    adn_i32 narrow; /* 1: count < 2^31 */
};
struct adn_strides {
    adn_i64 stride[8];
};

#if !defined(__OPENCL_VERSION__) && !defined(__CUDACC__)
static inline struct adn_divisor adn_divisor_of(int64_t d)
{
    struct adn_divisor result = { d, 0, 0 };
    uint32_t shift = 0;
    if (d < 1 || d > INT32_MAX) return result;
    while (shift < 31 && ((int64_t)1 << shift) < d) shift++;
    result.shift = shift;
    result.multiplier = (uint32_t)(((((uint64_t)1 << shift) - (uint64_t)d) << 32) / (uint64_t)d + 1);
    return result;
}
#endif
#endif
