/* SPDX-License-Identifier: Apache-2.0
 * common/agree.c: compares two results of one output element by element. It has to tell a wrong kernel from a different
 * order of summation, so the tolerance follows the largest element: with terms that cancel, small elements carry the
 * rounding of large ones. */
#include "agree.h"

#include <math.h>
#include <string.h>

static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -size : size;
}

static double float_value(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int64_t whole_value(int dtype, const unsigned char *at)
{
    int64_t wide;
    int32_t narrow;
    if (dtype == ANYDNN_U8) return *at;
    if (dtype == ANYDNN_I8) return (int8_t)*at;
    if (dtype == ANYDNN_I32) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static bool is_whole(int dtype) { return dtype >= ANYDNN_I8 && dtype <= ANYDNN_I64; }

static double value_at(int dtype, const unsigned char *at)
{
    uint32_t bits;
    uint16_t half;
    double value;
    switch (dtype) {
    case ANYDNN_F32:
        memcpy(&bits, at, sizeof bits);
        return float_value(bits);
    case ANYDNN_F16:
        memcpy(&half, at, sizeof half);
        return half_value(half);
    case ANYDNN_BF16:
        memcpy(&half, at, sizeof half);
        return float_value((uint32_t)half << 16);
    case ANYDNN_F64:
        memcpy(&value, at, sizeof value);
        return value;
    default:
        return (double)whole_value(dtype, at);
    }
}

/* Steps to the next element in row-major order; *offset counts elements of storage. False behind the last. */
static bool next(const anydnn_tensor *t, int64_t *index, int64_t *offset)
{
    int i;
    for (i = t->ndim - 1; i >= 0; i--) {
        *offset += t->strides[i];
        if (++index[i] < t->dims[i]) return true;
        *offset -= index[i] * t->strides[i];
        index[i] = 0;
    }
    return false;
}

static double largest(const anydnn_tensor *t, const unsigned char *image, size_t size)
{
    int64_t index[ANYDNN_MAX_DIMS] = { 0 }, offset = 0;
    double most = 0.0;
    do {
        const double value = fabs(value_at(t->dtype, image + (size_t)offset * size));
        if (value > most && !isinf(value)) most = value;
    } while (next(t, index, &offset));
    return most;
}

static bool is_close(double want, double got, double unit, double slack)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (want == got) return true;
    return !isinf(want) && !isinf(got) && fabs(want - got) <= unit * fabs(want) + slack;
}

/* One unit in the last place, relative, and the least one: what is subnormal may be flushed to zero. */
static double last_place(int dtype) { return ldexp(1.01, dtype == ANYDNN_F16 ? -10 : dtype == ANYDNN_BF16 ? -7 : -22); }
static double least_place(int dtype) { return ldexp(1.0, dtype == ANYDNN_F16 ? -14 : -126); }

bool adn_agrees(const anydnn_tensor *t, const void *want_image, const void *got_image, const struct adn_closeness *close,
                int64_t *element, double *want, double *got)
{
    const unsigned char *a = want_image, *b = got_image;
    const size_t size = anydnn_dtype_size(t->dtype);
    int64_t index[ANYDNN_MAX_DIMS] = { 0 }, offset = 0;
    double slack, unit;
    *element = 0;
    if (anydnn_tensor_count(t) == 0) return true;
    slack = (16 * ldexp(1, -24) * (8 + sqrt(close->depth)) + 4 * close->reduced) * largest(t, a, size) + least_place(t->dtype);
    unit = last_place(t->dtype);
    do {
        const unsigned char *x = a + (size_t)offset * size, *y = b + (size_t)offset * size;
        *want = value_at(t->dtype, x);
        *got = value_at(t->dtype, y);
        if (is_whole(t->dtype)) {
            const int64_t w = whole_value(t->dtype, x), g = whole_value(t->dtype, y);
            const uint64_t apart = w > g ? (uint64_t)w - (uint64_t)g : (uint64_t)g - (uint64_t)w;
            if (apart > (uint64_t)close->whole) return false;
        } else if (!is_close(*want, *got, unit, slack)) {
            return false;
        }
        (*element)++;
    } while (next(t, index, &offset));
    return true;
}
