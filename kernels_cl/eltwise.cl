/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/eltwise.cl: elementwise kernels over any strides: map (activations and their slopes, binary operations,
 * scaling, broadcast), dropout, sgd, adam, copy (any pair of dtypes), fill. Parameters:
 * common/engines/eltwise_params.h. Constant a is the width of a unit, b selects the kernel of a program.
 *
 * Each work item walks over units of `width` elements along the innermost dim (one vector), then over the single
 * elements behind the last unit. Arithmetic is in float; copies between wide types use double, where the device has it,
 * or 64-bit integers. Same steps as kernels_cuda/eltwise.cu. */
#define ADN_WIDTH ADN_C0
#if defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#include "prelude.clh"
#include "walk.clh"
#include "pack.clh"
#include "../common/index/philox.h"
#include "../common/engines/eltwise_params.h"

/* Offsets `at` (long4) of unit i, or of the single element that i means behind the units. */
#define LOCATE(i, splat, at)                                                                                           \
    if ((i) < p.dims.count) {                                                                                          \
        ADN_WALK_OFFSETS(i, p.dims, p.stride, at);                                                                     \
    } else {                                                                                                           \
        at = (long4)(p.dims.count * (ADN_WIDTH - 1) + (i));                                                            \
        if ((splat) & 1) at.s0 = 0;                                                                                    \
        if ((splat) & 2) at.s1 = 0;                                                                                    \
        if ((splat) & 4) at.s2 = 0;                                                                                    \
    }

/* ---------------------------------------------------------------- map ----------------------------------------------- */

#if ADN_C1 == 1
/* f(a, b) for vectors of a width; `|` and `&` because conditions of vectors are vectors. */
#define DEFINE_APPLY(name, VF)                                                                                         \
    ADN_FN VF name##_sigmoid(VF a) { return 1.0f / (1.0f + exp(-a)); }                                                 \
    ADN_FN VF name##_max(VF a, VF b) { return ((a > b) | isnan(a)) ? a : b; }                                          \
    ADN_FN VF name(adn_i32 mode, float coef, VF a, VF b)                                                               \
    {                                                                                                                  \
        const VF zero = (VF)(0.0f), one = (VF)(1.0f), c = (VF)(coef);                                                  \
        switch (mode) {                                                                                                \
        case ADN_MAP_RELU: return a < zero ? zero : a;                                                                 \
        case ADN_MAP_LEAKY_RELU: return a < zero ? c * a : a;                                                          \
        case ADN_MAP_CLIPPED_RELU: return a < zero ? zero : (a > c ? c : a);                                           \
        case ADN_MAP_SIGMOID: return name##_sigmoid(a);                                                                \
        case ADN_MAP_TANH: return tanh(a);                                                                             \
        case ADN_MAP_DIVIDE: return a / c;                                                                             \
        case ADN_MAP_RELU_SLOPE: return (isnan(b) ? b : (b > zero ? one : zero)) * a;                                  \
        case ADN_MAP_LEAKY_SLOPE: return (isnan(b) ? b : (b > zero ? one : c)) * a;                                    \
        case ADN_MAP_CLIPPED_SLOPE: return (isnan(b) ? b : (((b > zero) & (b < c)) ? one : zero)) * a;                 \
        case ADN_MAP_SIGMOID_SLOPE: return b * (1.0f - b) * a;                                                         \
        case ADN_MAP_TANH_SLOPE: return (1.0f - b * b) * a;                                                            \
        case ADN_MAP_SIGMOID_SLOPE_X: return name##_sigmoid(b) * name##_sigmoid(-b) * a;                               \
        case ADN_MAP_TANH_SLOPE_X: return (1.0f - tanh(b) * tanh(b)) * a;                                              \
        case ADN_MAP_ADD: return a + b;                                                                                \
        case ADN_MAP_SUB: return a - b;                                                                                \
        case ADN_MAP_MUL: return a * b;                                                                                \
        case ADN_MAP_DIV: return a / b;                                                                                \
        case ADN_MAP_MAXIMUM: return name##_max(a, b);                                                                 \
        case ADN_MAP_MINIMUM: return -name##_max(-a, -b);                                                              \
        default: return a;                                                                                             \
        }                                                                                                              \
    }
DEFINE_APPLY(apply_one, float)
#if ADN_WIDTH > 1
DEFINE_APPLY(apply_pack, ADN_VF)
#else
#define apply_pack apply_one
#endif

/* One unit: a scale of 0 reads nothing. */
#define MAP_UNIT(VF, LOAD, STORE, APPLY, splat)                                                                        \
    do {                                                                                                               \
        VF a = (VF)(0.0f), b = (VF)(0.0f);                                                                             \
        if (p.scale_a != 0.0f) a = p.scale_a * (((splat) & 2) ? (VF)(ADN_LOAD(in, at.s1)) : LOAD(in, at.s1));          \
        if (p.scale_b != 0.0f) b = p.scale_b * (((splat) & 4) ? (VF)(ADN_LOAD(other, at.s2)) : LOAD(other, at.s2));    \
        a = p.alpha * APPLY(p.mode, p.coef, a, b);                                                                     \
        if (p.beta != 0.0f) a += p.beta * LOAD(out, at.s0);                                                            \
        STORE(out, at.s0, a);                                                                                          \
    } while (0)

ADN_KERNEL(map)(ADN_OUT(out), ADN_IN(in), ADN_IN(other), struct adn_map_params p)
{
    ADN_PTR_OUT(ADN_T, out);
    ADN_PTR_IN(ADN_T, in);
    ADN_PTR_IN(ADN_T, other);
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        long4 at;
        LOCATE(i, p.splat, at)
        if (i < p.dims.count) MAP_UNIT(ADN_VF, ADN_LOAD_PACK, ADN_STORE_PACK, apply_pack, p.splat);
        else MAP_UNIT(float, ADN_LOAD, ADN_STORE, apply_one, p.splat);
    }
}
#endif

/* ---------------------------------------------------------------- dropout ------------------------------------------- */

#if ADN_C1 == 2
/* 1 where the element of this number stays. */
ADN_FN bool stays(adn_u32 word, adn_u32 threshold) { return (word >> 8) >= threshold; }

ADN_FN adn_u32 word_of(adn_i64 number, adn_u64 seed, adn_u64 offset)
{
    const struct adn_philox r = adn_philox4x32(offset + (adn_u64)(number >> 2), 0, seed);
    const int k = (int)(number & 3);
    return k < 2 ? (k ? r.word[1] : r.word[0]) : (k == 2 ? r.word[2] : r.word[3]);
}

ADN_FN uint4 words_of(adn_i64 number, adn_u64 seed, adn_u64 offset)
{
    const struct adn_philox r = adn_philox4x32(offset + (adn_u64)(number >> 2), 0, seed);
    return (uint4)(r.word[0], r.word[1], r.word[2], r.word[3]);
}

#if ADN_WIDTH == 8
#define WORDS(number) (uint8)(words_of(number, seed, offset), words_of((number) + 4, seed, offset))
#elif ADN_WIDTH == 4
#define WORDS(number) words_of(number, seed, offset)
#else
#define WORDS(number) word_of(number, seed, offset)
#endif

ADN_KERNEL(dropout)(ADN_OUT(out), ADN_IN(in), ADN_IN(seed_place), ADN_IN(offset_place), struct adn_dropout_params p)
{
    ADN_PTR_OUT(ADN_T, out);
    ADN_PTR_IN(ADN_T, in);
    ADN_PTR_IN(long, seed_place);
    ADN_PTR_IN(long, offset_place);
    const adn_u64 seed = (adn_u64)(p.seed_device ? *seed_place : p.seed);
    const adn_u64 offset = (adn_u64)(p.offset_device ? *offset_place : p.offset);
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        long4 at;
        LOCATE(i, 0, at)
        if (i < p.dims.count) {
            const ADN_VF x = ADN_LOAD_PACK(in, at.s1) * p.scale;
            ADN_STORE_PACK(out, at.s0, (WORDS(i * ADN_WIDTH) >> 8) >= p.threshold ? x : (ADN_VF)(0.0f));
        } else {
            const adn_u32 word = word_of(p.dims.count * (ADN_WIDTH - 1) + i, seed, offset);
            const float x = ADN_LOAD(in, at.s1) * p.scale;
            ADN_STORE(out, at.s0, stays(word, p.threshold) ? x : 0.0f);
        }
    }
}
#endif

/* ---------------------------------------------------------------- optimisers ---------------------------------------- */

#if ADN_C1 == 3 || ADN_C1 == 4
/* Parameters and gradients have dtypes of their own: 1 f32, 2 f16, 3 bf16. */
#define LOAD_BY(LOAD, p, dtype, i)                                                                                     \
    ((dtype) == 1 ? LOAD##_F32((__global const float *)(p), i)                                                         \
                  : (dtype) == 2 ? LOAD##_F16((__global const half *)(p), i) : LOAD##_BF16((__global const ushort *)(p), i))
#define STORE_BY(STORE, p, dtype, i, v)                                                                                \
    do {                                                                                                               \
        if ((dtype) == 1) STORE##_F32((__global float *)(p), i, v);                                                    \
        else if ((dtype) == 2) STORE##_F16((__global half *)(p), i, v);                                                \
        else STORE##_BF16((__global ushort *)(p), i, v);                                                               \
    } while (0)
#endif

#if ADN_C1 == 3
#define SGD_UNIT(VF, LOAD, STORE)                                                                                      \
    do {                                                                                                               \
        VF w = LOAD_BY(LOAD, param, p.param_dtype, at.s0);                                                             \
        VF g = LOAD_BY(LOAD, grad, p.grad_dtype, at.s1) + p.weight_decay * w;                                          \
        if (p.moments) {                                                                                               \
            const VF m = p.beta1 * LOAD##_F32(moment, at.s2) + g;                                                      \
            g = p.variant ? g + p.beta1 * m : m;                                                                       \
            STORE##_F32(moment, at.s2, m);                                                                             \
        }                                                                                                              \
        w -= lr * g;                                                                                                   \
        STORE_BY(STORE, param, p.param_dtype, at.s0, w);                                                               \
    } while (0)

ADN_KERNEL(sgd)(ADN_OUT(param), ADN_IN(grad), ADN_OUT(moment), ADN_IN(lr_place), struct adn_optimizer_params p)
{
    ADN_PTR_OUT(uchar, param);
    ADN_PTR_IN(uchar, grad);
    ADN_PTR_OUT(float, moment);
    ADN_PTR_IN(float, lr_place);
    const float lr = p.lr_device ? *lr_place : p.lr;
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        long4 at;
        LOCATE(i, 0, at)
        if (i < p.dims.count) SGD_UNIT(ADN_VF, ADN_LOAD_PACK, ADN_STORE_PACK);
        else SGD_UNIT(float, ADN_LOAD, ADN_STORE);
    }
}
#endif

#if ADN_C1 == 4
#define ADAM_UNIT(VF, LOAD, STORE)                                                                                     \
    do {                                                                                                               \
        VF w = LOAD_BY(LOAD, param, p.param_dtype, at.s0), m1, m2;                                                     \
        VF g = LOAD_BY(LOAD, grad, p.grad_dtype, at.s1);                                                               \
        if (p.variant) w -= lr * p.weight_decay * w;                                                                   \
        else g += p.weight_decay * w;                                                                                  \
        m1 = p.beta1 * LOAD##_F32(moment1, at.s2) + p.rest1 * g;                                                       \
        m2 = p.beta2 * LOAD##_F32(moment2, at.s3) + p.rest2 * g * g;                                                   \
        w -= lr * (m1 / correction1) / (sqrt(m2 / correction2) + p.epsilon);                                           \
        STORE##_F32(moment1, at.s2, m1);                                                                               \
        STORE##_F32(moment2, at.s3, m2);                                                                               \
        STORE_BY(STORE, param, p.param_dtype, at.s0, w);                                                               \
    } while (0)

ADN_KERNEL(adam)(ADN_OUT(param), ADN_IN(grad), ADN_OUT(moment1), ADN_OUT(moment2), ADN_IN(lr_place), ADN_IN(step_place),
                 struct adn_optimizer_params p)
{
    ADN_PTR_OUT(uchar, param);
    ADN_PTR_IN(uchar, grad);
    ADN_PTR_OUT(float, moment1);
    ADN_PTR_OUT(float, moment2);
    ADN_PTR_IN(float, lr_place);
    ADN_PTR_IN(long, step_place);
    const float lr = p.lr_device ? *lr_place : p.lr;
    float correction1 = p.correction1, correction2 = p.correction2;
    if (p.step_device) {
        const float step = (float)*step_place;
        correction1 = -expm1(step * p.log_beta1);
        correction2 = -expm1(step * p.log_beta2);
    }
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        long4 at;
        LOCATE(i, 0, at)
        if (i < p.dims.count) ADAM_UNIT(ADN_VF, ADN_LOAD_PACK, ADN_STORE_PACK);
        else ADAM_UNIT(float, ADN_LOAD, ADN_STORE);
    }
}
#endif

/* ---------------------------------------------------------------- copy ---------------------------------------------- */

#if ADN_C1 == 5
#if defined(cl_khr_fp64)
#define F64_AS_FLOAT(v) ((float)as_double(v))
#else
#define F64_AS_FLOAT(v) 0.0f /* plans refuse f64 there */
#endif

/* Numbers cut to fewer bits, the last of them set where bits were lost: any narrower type rounds them as it would have
 * rounded v, which rounding twice does not. */
ADN_FN float cut_float(long v)
{
    const float cut = convert_float_rtz(v);
    return (long)cut == v ? cut : as_float(as_uint(cut) | 1u);
}
#if defined(cl_khr_fp64)
ADN_FN double cut_double(long v)
{
    const double cut = convert_double_rtz(v);
    return (long)cut == v ? cut : as_double(as_ulong(cut) | 1ul);
}
ADN_FN float cut_double_to_float(double v)
{
    const float cut = convert_float_rtz(v);
    return (double)cut == v || isnan(v) ? cut : as_float(as_uint(cut) | 1u);
}
#endif

/* Element i of a memory of any dtype, as W. Pointers to f64 are read as long. */
#define DEFINE_READ(name, W, F64)                                                                                      \
    ADN_FN W name(__global const uchar *p, adn_i32 dtype, adn_i64 i)                                                   \
    {                                                                                                                  \
        switch (dtype) {                                                                                               \
        case 1: return (W)((__global const float *)p)[i];                                                              \
        case 2: return (W)vload_half((size_t)i, (__global const half *)p);                                             \
        case 3: return (W)adn_bf16_to_f32(((__global const ushort *)p)[i]);                                            \
        case 4: return (W)F64(((__global const long *)p)[i]);                                                          \
        case 5: return (W)((__global const char *)p)[i];                                                               \
        case 6: return (W)p[i];                                                                                        \
        case 7: return (W)((__global const int *)p)[i];                                                                \
        default: return (W)((__global const long *)p)[i];                                                              \
        }                                                                                                              \
    }

/* W -> element i. convert_*_sat_rte rounds half to even and saturates; NaN is taken out before. */
#define DEFINE_WRITE(name, W, HALF, CUT, F64, SAFE)                                                                    \
    ADN_FN void name(__global uchar *p, adn_i32 dtype, adn_i64 i, W v)                                                 \
    {                                                                                                                  \
        switch (dtype) {                                                                                               \
        case 1: ((__global float *)p)[i] = (float)v; break;                                                            \
        case 2: vstore_half_rte((HALF)v, (size_t)i, (__global half *)p); break;                                        \
        case 3: ((__global ushort *)p)[i] = adn_f32_to_bf16(CUT(v)); break;                                            \
        case 4: ((__global long *)p)[i] = F64(v); break;                                                               \
        case 5: ((__global char *)p)[i] = convert_char_sat_rte(SAFE(v)); break;                                        \
        case 6: p[i] = convert_uchar_sat_rte(SAFE(v)); break;                                                          \
        case 7: ((__global int *)p)[i] = convert_int_sat_rte(SAFE(v)); break;                                          \
        default: ((__global long *)p)[i] = convert_long_sat_rte(SAFE(v)); break;                                       \
        }                                                                                                              \
    }
#define NOT_NAN(v) (isnan(v) ? 0 : (v))
#define PLAIN(v) (v)

#define LONG_OF_INTEGER(v) ((long)(v))
DEFINE_READ(read_float, float, F64_AS_FLOAT)
DEFINE_READ(read_integer, long, LONG_OF_INTEGER)
#if defined(cl_khr_fp64)
#define LONG_OF_DOUBLE(v) as_long((double)(v))
DEFINE_READ(read_double, double, as_double)
DEFINE_WRITE(write_float, float, float, PLAIN, LONG_OF_DOUBLE, NOT_NAN)
DEFINE_WRITE(write_double, double, double, cut_double_to_float, LONG_OF_DOUBLE, NOT_NAN)
#else
#define LONG_OF_DOUBLE(v) 0 /* plans refuse f64 there */
DEFINE_WRITE(write_float, float, float, PLAIN, LONG_OF_DOUBLE, NOT_NAN)
#endif
DEFINE_WRITE(write_integer, long, float, cut_float, LONG_OF_INTEGER, PLAIN)

/* Sources that f32 or f64 cannot hold: all of i64 and, without f64, of i32. */
#define SOURCE_FLOAT(i)                                                                                                \
    (p.in_dtype >= 7 && p.out_dtype == 3 ? cut_float(read_integer(in, p.in_dtype, i)) : read_float(in, p.in_dtype, i))
#define SOURCE_DOUBLE(i)                                                                                               \
    (p.in_dtype == 8 && p.out_dtype != 4 ? cut_double(read_integer(in, 8, i)) : read_double(in, p.in_dtype, i))

#define COPY_SCALED(W, SOURCE, READ, WRITE, alpha, beta)                                                               \
    do {                                                                                                               \
        W v = 0;                                                                                                       \
        if ((alpha) != 0) v = (alpha) * SOURCE(from);                                                                  \
        if ((beta) != 0) v += (beta) * READ(out, p.out_dtype, to);                                                     \
        WRITE(out, p.out_dtype, to, v);                                                                                \
    } while (0)

/* alpha * x + beta * y modulo 2^64. */
#define COPY_INTEGERS(alpha, beta)                                                                                     \
    do {                                                                                                               \
        ulong v = 0;                                                                                                   \
        if ((alpha) != 0) v = (ulong)(alpha) * (ulong)read_integer(in, p.in_dtype, from);                              \
        if ((beta) != 0) v += (ulong)(beta) * (ulong)read_integer(out, p.out_dtype, to);                               \
        write_integer(out, p.out_dtype, to, (long)v);                                                                  \
    } while (0)

ADN_KERNEL(copy)(ADN_OUT(out), ADN_IN(in), struct adn_copy_params p)
{
    ADN_PTR_OUT(uchar, out);
    ADN_PTR_IN(uchar, in);
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        long4 at;
        int k, lanes = i < p.dims.count ? ADN_WIDTH : 1;
        LOCATE(i, p.splat, at)
        for (k = 0; k < lanes; k++) {
            const adn_i64 to = at.s0 + k, from = at.s1 + ((p.splat & 2) ? 0 : k);
            if (p.kind == ADN_COPY_FLOAT) COPY_SCALED(float, SOURCE_FLOAT, read_float, write_float, p.alpha, p.beta);
#if defined(cl_khr_fp64)
            if (p.kind == ADN_COPY_DOUBLE)
                COPY_SCALED(double, SOURCE_DOUBLE, read_double, write_double, as_double(p.alpha_bits),
                            as_double(p.beta_bits));
#endif
            if (p.kind == ADN_COPY_INTEGER) COPY_INTEGERS(p.alpha_bits, p.beta_bits);
        }
    }
}
#endif

/* ---------------------------------------------------------------- fill ---------------------------------------------- */

#if ADN_C1 == 6
ADN_FN void fill_one(__global uchar *out, adn_i64 i, adn_i32 size, adn_u64 pattern)
{
    if (size == 1) out[i] = (uchar)pattern;
    else if (size == 2) ((__global ushort *)out)[i] = (ushort)pattern;
    else if (size == 4) ((__global uint *)out)[i] = (uint)pattern;
    else ((__global ulong *)out)[i] = pattern;
}

ADN_KERNEL(fill)(ADN_OUT(out), struct adn_fill_params p)
{
    ADN_PTR_OUT(uchar, out);
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        const adn_i64 unit = i < p.dims.count ? adn_walk_offset(i, p.dims, p.stride[0]) : 0;
        if (i >= p.dims.count) fill_one(out, p.dims.count * (16 / p.size - 1) + i, p.size, p.pattern);
        else if (p.wide) *(__global ulong2 *)(out + unit * p.size) = (ulong2)(p.pattern);
        else fill_one(out, unit, p.size, p.pattern);
    }
}
#endif
