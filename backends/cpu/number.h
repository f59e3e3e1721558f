/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/number.h: elements of any dtype as double, and back with one rounding.
 *
 * Loads are exact but for i64 beyond 2^53. Stores round once: floating point to nearest even with subnormals,
 * infinities and NaN (made quiet, payload dropped); integers half to even, saturating, NaN to 0. With a constant dtype
 * the switches fold, so that inner loops are plain loads and multiplications.
 * Limits: assumes IEEE binary32 and binary64 and the default rounding mode. */
#ifndef ADN_CPU_NUMBER_H
#define ADN_CPU_NUMBER_H
#include <anydnn/tensor.h>
#include <math.h>
#include <string.h>

#if defined(__GNUC__)
#define ADN_ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ADN_ALWAYS_INLINE static inline
#endif

ADN_ALWAYS_INLINE double adn_f16_load(uint16_t h)
{
    const uint32_t magnitude = h & 0x7fffu;
    uint32_t bits = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    float value;
    memcpy(&value, &bits, sizeof value);
    value = magnitude < 0x400u ? (float)(int32_t)magnitude * 0x1p-24f : value;
    return h & 0x8000u ? -(double)value : (double)value;
}

ADN_ALWAYS_INLINE double adn_bf16_load(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* Rounds to a 16-bit format with `mantissa` explicit bits and the exponent bias `bias`. `unit` is the reciprocal of
 * the smallest subnormal. */
ADN_ALWAYS_INLINE uint16_t adn_round16(double v, int mantissa, int bias, double unit)
{
    const int drop = 52 - mantissa;
    const uint16_t infinity = (uint16_t)(2 * (unsigned)bias + 1) << mantissa;
    const uint64_t half = (uint64_t)1 << (drop - 1);
    uint64_t bits, rounded;
    uint16_t sign;
    memcpy(&bits, &v, sizeof bits);
    sign = (uint16_t)(bits >> 48 & 0x8000u);
    bits &= INT64_MAX;
    if (bits > (uint64_t)0x7ff << 52) return (uint16_t)(sign | infinity | 1u << (mantissa - 1));
    if (bits >= (uint64_t)(1023 + bias + 1) << 52) return sign | infinity;
    if (bits < (uint64_t)(1023 - bias + 1) << 52) /* adding 2^52 rounds the number of subnormal steps to an integer */
        return (uint16_t)(sign | (uint16_t)(fabs(v) * unit + 0x1p52 - 0x1p52));
    bits -= (uint64_t)(1023 - bias) << 52;
    rounded = (bits + half - 1 + (bits >> drop & 1)) >> drop; /* a carry moves on into the exponent, up to infinity */
    return (uint16_t)(sign | rounded);
}

ADN_ALWAYS_INLINE uint16_t adn_f16_round(double v)
{
    return adn_round16(v, 10, 15, 0x1p24);
}
ADN_ALWAYS_INLINE uint16_t adn_bf16_round(double v)
{
    return adn_round16(v, 7, 127, 0x1p133);
}

ADN_ALWAYS_INLINE int64_t adn_integer_round(double v, int64_t low, int64_t high)
{
    if (v != v) return 0;
    v = rint(v);
    if (v >= (double)high) return high;
    return v <= (double)low ? low : (int64_t)v;
}

ADN_ALWAYS_INLINE double adn_load(const void *data, int dtype, int64_t i)
{
    switch (dtype) {
    case ANYDNN_F32:
        return ((const float *)data)[i];
    case ANYDNN_F16:
        return adn_f16_load(((const uint16_t *)data)[i]);
    case ANYDNN_BF16:
        return adn_bf16_load(((const uint16_t *)data)[i]);
    case ANYDNN_F64:
        return ((const double *)data)[i];
    case ANYDNN_I8:
        return ((const int8_t *)data)[i];
    case ANYDNN_U8:
        return ((const uint8_t *)data)[i];
    case ANYDNN_I32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const int64_t *)data)[i];
    }
}

ADN_ALWAYS_INLINE void adn_store(void *data, int dtype, int64_t i, double v)
{
    switch (dtype) {
    case ANYDNN_F32:
        ((float *)data)[i] = (float)v;
        break;
    case ANYDNN_F16:
        ((uint16_t *)data)[i] = adn_f16_round(v);
        break;
    case ANYDNN_BF16:
        ((uint16_t *)data)[i] = adn_bf16_round(v);
        break;
    case ANYDNN_F64:
        ((double *)data)[i] = v;
        break;
    case ANYDNN_I8:
        ((int8_t *)data)[i] = (int8_t)adn_integer_round(v, INT8_MIN, INT8_MAX);
        break;
    case ANYDNN_U8:
        ((uint8_t *)data)[i] = (uint8_t)adn_integer_round(v, 0, UINT8_MAX);
        break;
    case ANYDNN_I32:
        ((int32_t *)data)[i] = (int32_t)adn_integer_round(v, INT32_MIN, INT32_MAX);
        break;
    default:
        ((int64_t *)data)[i] = adn_integer_round(v, INT64_MIN, INT64_MAX);
        break;
    }
}

/* out = result + beta * out, where `result` already has its alpha; beta = 0 does not read. */
ADN_ALWAYS_INLINE void adn_store_scaled(void *data, int dtype, int64_t i, double result, double beta)
{
    adn_store(data, dtype, i, beta == 0 ? result : result + beta * adn_load(data, dtype, i));
}

#endif
