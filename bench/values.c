/* SPDX-License-Identifier: Apache-2.0
 * bench/values.c: elements of every dtype on the host. The half types are converted straight from double, so that
 * nothing is rounded twice. */
#include "values.h"

#include <math.h>
#include <string.h>

/* Binary formats of 16 bits: sign, exponent, `mantissa` bits; emin is the exponent of the smallest normal number. */
static uint16_t encode16(double value, int mantissa, int emin, int emax)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const uint16_t infinity = (uint16_t)((emax - emin + 2) << mantissa);
    const double a = fabs(value);
    int e;
    double q;
    if (isnan(value)) return (uint16_t)(infinity | 1u << (mantissa - 1));
    if (a == 0) return sign;
    e = isinf(value) ? emax + 1 : ilogb(a);
    if (e > emax) return (uint16_t)(sign | infinity);
    if (e < emin) e = emin;
    q = nearbyint(ldexp(a, mantissa - e));
    /* A q of 2^(mantissa+1) carries into the exponent, one below 2^mantissa is subnormal: both fall out of the sum. */
    return (uint16_t)(sign | (uint16_t)(((uint32_t)(e - emin) << mantissa) + (uint32_t)q));
}

static double decode16(uint16_t bits, int mantissa, int emin, int emax)
{
    const int exponent = (bits & 0x7fff) >> mantissa;
    const double fraction = bits & ((1 << mantissa) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == emax - emin + 2) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, emin - mantissa);
    return sign * ldexp(fraction + (1 << mantissa), exponent - 1 + emin - mantissa);
}

double value_load(int dtype, const void *element)
{
    union {
        float f32;
        double f64;
        uint16_t bits;
        int8_t i8;
        uint8_t u8;
        int32_t i32;
        int64_t i64;
    } v;
    memcpy(&v, element, anydnn_dtype_size(dtype));
    switch (dtype) {
    case ANYDNN_F32:
        return (double)v.f32;
    case ANYDNN_F16:
        return decode16(v.bits, 10, -14, 15);
    case ANYDNN_BF16:
        return decode16(v.bits, 7, -126, 127);
    case ANYDNN_F64:
        return v.f64;
    case ANYDNN_I8:
        return v.i8;
    case ANYDNN_U8:
        return v.u8;
    case ANYDNN_I32:
        return v.i32;
    default:
        return (double)v.i64;
    }
}

static int64_t saturate(double value, double low, double high)
{
    if (isnan(value)) return 0;
    value = nearbyint(value);
    if (value <= low) return (int64_t)low;
    /* 2^63 itself does not fit into 64 bits. */
    if (value >= high) return high >= 9223372036854775807.0 ? INT64_MAX : (int64_t)high;
    return (int64_t)value;
}

void value_store(int dtype, void *element, double value)
{
    const float f32 = (float)value;
    uint16_t bits;
    int64_t whole;
    switch (dtype) {
    case ANYDNN_F32:
        memcpy(element, &f32, sizeof f32);
        break;
    case ANYDNN_F64:
        memcpy(element, &value, sizeof value);
        break;
    case ANYDNN_F16:
        bits = encode16(value, 10, -14, 15);
        memcpy(element, &bits, sizeof bits);
        break;
    case ANYDNN_BF16:
        bits = encode16(value, 7, -126, 127);
        memcpy(element, &bits, sizeof bits);
        break;
    case ANYDNN_I8:
        *(int8_t *)element = (int8_t)saturate(value, -128, 127);
        break;
    case ANYDNN_U8:
        *(uint8_t *)element = (uint8_t)saturate(value, 0, 255);
        break;
    case ANYDNN_I32: {
        const int32_t i32 = (int32_t)saturate(value, -2147483648.0, 2147483647.0);
        memcpy(element, &i32, sizeof i32);
        break;
    }
    default:
        whole = saturate(value, -9223372036854775808.0, 9223372036854775807.0);
        memcpy(element, &whole, sizeof whole);
        break;
    }
}

double value_rounded(int dtype, double value)
{
    unsigned char element[8];
    value_store(dtype, element, value);
    return value_load(dtype, element);
}

bool value_is_integer(int dtype)
{
    return dtype >= ANYDNN_I8;
}

double value_roundoff(int dtype)
{
    switch (dtype) {
    case ANYDNN_F32:
        return ldexp(1, -24);
    case ANYDNN_F16:
        return ldexp(1, -11);
    case ANYDNN_BF16:
        return ldexp(1, -8);
    case ANYDNN_F64:
        return ldexp(1, -53);
    default:
        return 0;
    }
}

double value_underflow(int dtype)
{
    switch (dtype) {
    case ANYDNN_F16:
        return ldexp(1, -25);
    case ANYDNN_F32:
    case ANYDNN_BF16:
        return ldexp(1, -126);
    case ANYDNN_F64:
        return ldexp(1, -1022);
    default:
        return 0;
    }
}

int64_t tensor_element(const anydnn_tensor *tensor, int64_t index)
{
    int64_t offset = 0;
    int i;
    for (i = tensor->ndim - 1; i >= 0; i--) {
        offset += index % tensor->dims[i] * tensor->strides[i];
        index /= tensor->dims[i];
    }
    return offset;
}

uint64_t random_bits(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

double random_unit(uint64_t seed, uint64_t index)
{
    return (double)(int64_t)(random_bits(seed, index) >> 40) / 8388608.0 - 1;
}
