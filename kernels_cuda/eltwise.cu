// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/eltwise.cu: elementwise kernels over any strides: map (activations and their slopes, binary operations,
// scaling, broadcast), dropout, sgd, adam, copy (any pair of dtypes), fill. Parameters: common/engines/eltwise_params.h.
//
// Each thread strides over units of V elements along the innermost dim (one 16-byte access where V > 1), then over the
// single elements behind the last unit. Arithmetic is in float; copies between wide types use double or 64-bit integers.
#include "../common/engines/eltwise_params.h"
#include "../common/index/philox.h"
#include "pack.cuh"
#include "walk.cuh"

// Offsets of unit i, or of the single element that i means behind the units.
template <int V, int N, typename P>
__device__ __forceinline__ void locate(adn_i64 i, const P &p, unsigned splat, adn_i64 (&at)[N])
{
    if (i < p.dims.count) {
        adn_walk_offsets(i, p.dims, p.stride, at);
    } else {
#pragma unroll
        for (int t = 0; t < N; t++) at[t] = splat >> t & 1 ? 0 : p.dims.count * (V - 1) + i;
    }
}

// ---------------------------------------------------------------- map ------------------------------------------------

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// f'(b) * a for slopes that are 1 where `inside` and `outside` elsewhere; NaN stays.
__device__ __forceinline__ float slope(float a, float b, bool inside, float outside)
{
    return (isnan(b) ? b : inside ? 1.0f : outside) * a;
}

#define ADN_LANES(expression)                                                                                          \
    _Pragma("unroll") for (int k = 0; k < V; k++)                                                                      \
    {                                                                                                                  \
        const float a = x[k], b = z[k];                                                                                \
        (void)b;                                                                                                       \
        x[k] = (expression);                                                                                           \
    }                                                                                                                  \
    break

// x = f(x, z).
template <int V> __device__ __forceinline__ void apply(int mode, float coef, float (&x)[V], const float (&z)[V])
{
    switch (mode) {
    case ADN_MAP_RELU: ADN_LANES(a < 0.0f ? 0.0f : a);
    case ADN_MAP_LEAKY_RELU: ADN_LANES(a < 0.0f ? coef * a : a);
    case ADN_MAP_CLIPPED_RELU: ADN_LANES(a < 0.0f ? 0.0f : a > coef ? coef : a);
    case ADN_MAP_SIGMOID: ADN_LANES(sigmoid(a));
    case ADN_MAP_TANH: ADN_LANES(tanhf(a));
    case ADN_MAP_DIVIDE: ADN_LANES(a / coef);
    case ADN_MAP_RELU_SLOPE: ADN_LANES(slope(a, b, b > 0.0f, 0.0f));
    case ADN_MAP_LEAKY_SLOPE: ADN_LANES(slope(a, b, b > 0.0f, coef));
    case ADN_MAP_CLIPPED_SLOPE: ADN_LANES(slope(a, b, b > 0.0f && b < coef, 0.0f));
    case ADN_MAP_SIGMOID_SLOPE: ADN_LANES(b * (1.0f - b) * a);
    case ADN_MAP_TANH_SLOPE: ADN_LANES((1.0f - b * b) * a);
    case ADN_MAP_SIGMOID_SLOPE_X: ADN_LANES(sigmoid(b) * sigmoid(-b) * a);
    case ADN_MAP_TANH_SLOPE_X: ADN_LANES((1.0f - tanhf(b) * tanhf(b)) * a);
    case ADN_MAP_ADD: ADN_LANES(a + b);
    case ADN_MAP_SUB: ADN_LANES(a - b);
    case ADN_MAP_MUL: ADN_LANES(a * b);
    case ADN_MAP_DIV: ADN_LANES(a / b);
    case ADN_MAP_MAXIMUM: ADN_LANES(adn_max_nan(a, b));
    case ADN_MAP_MINIMUM: ADN_LANES(-adn_max_nan(-a, -b));
    default: break;
    }
}

// v = scale * p[i...]; a scale of 0 reads nothing.
template <typename T, int V>
__device__ __forceinline__ void load_scaled(const T *p, adn_i64 i, bool splat, float scale, float (&v)[V])
{
    if (scale != 0.0f) adn_load_pack<T, V>(p, i, splat, v);
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = scale != 0.0f ? scale * v[k] : 0.0f;
}

template <typename T, int V>
__device__ __forceinline__ void map_unit(T *out, const T *in, const T *other, const adn_i64 (&at)[3],
                                         const adn_map_params &p)
{
    float x[V], z[V], old[V];
    load_scaled<T, V>(in, at[1], p.splat & 2, p.scale_a, x);
    load_scaled<T, V>(other, at[2], p.splat & 4, p.scale_b, z);
    load_scaled<T, V>(out, at[0], false, p.beta, old);
    apply<V>(p.mode, p.coef, x, z);
#pragma unroll
    for (int k = 0; k < V; k++) x[k] = p.alpha * x[k] + old[k];
    adn_store_pack<T, V>(out, at[0], x);
}

template <typename T, int V>
__device__ __forceinline__ void map(T *out, const T *in, const T *other, const adn_map_params &p)
{
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        adn_i64 at[3];
        locate<V>(i, p, p.splat, at);
        if (i < p.dims.count) map_unit<T, V>(out, in, other, at, p);
        else map_unit<T, 1>(out, in, other, at, p);
    }
}

#define ADN_ENTRY_map(name, T, block, a, b, c, d, e, f)                                                                \
    ADN_KERNEL(name, block)(T *out, const T *in, const T *other, const __grid_constant__ adn_map_params p)             \
    {                                                                                                                  \
        map<T, a>(out, in, other, p);                                                                                  \
    }

// ---------------------------------------------------------------- dropout --------------------------------------------

__device__ __forceinline__ adn_u32 pick(const adn_philox &r, int word)
{
    return word < 2 ? (word ? r.word[1] : r.word[0]) : (word == 2 ? r.word[2] : r.word[3]);
}

// Elements number, number + 1, ... of the row-major order; number is a multiple of 4 where V > 1.
template <typename T, int V>
__device__ __forceinline__ void dropout_unit(T *out, const T *in, const adn_i64 (&at)[2], adn_i64 number, adn_u64 seed,
                                             adn_u64 offset, const adn_dropout_params &p)
{
    float x[V];
    adn_load_pack<T, V>(in, at[1], false, x);
#pragma unroll
    for (int first = 0; first < V; first += 4) {
        const adn_philox r = adn_philox4x32(offset + (adn_u64)((number + first) >> 2), 0, seed);
#pragma unroll
        for (int k = first; k < V && k < first + 4; k++) {
            const adn_u32 word = V == 1 ? pick(r, (int)(number & 3)) : r.word[k - first];
            x[k] = (word >> 8) >= p.threshold ? x[k] * p.scale : 0.0f;
        }
    }
    adn_store_pack<T, V>(out, at[0], x);
}

template <typename T, int V>
__device__ __forceinline__ void dropout(T *out, const T *in, const adn_i64 *seed_place, const adn_i64 *offset_place,
                                        const adn_dropout_params &p)
{
    const adn_u64 seed = (adn_u64)(p.seed_device ? *seed_place : p.seed);
    const adn_u64 offset = (adn_u64)(p.offset_device ? *offset_place : p.offset);
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        adn_i64 at[2];
        locate<V>(i, p, 0, at);
        if (i < p.dims.count) dropout_unit<T, V>(out, in, at, i * V, seed, offset, p);
        else dropout_unit<T, 1>(out, in, at, p.dims.count * (V - 1) + i, seed, offset, p);
    }
}

#define ADN_ENTRY_dropout(name, T, block, a, b, c, d, e, f)                                                            \
    ADN_KERNEL(name, block)(T *out, const T *in, const adn_i64 *seed, const adn_i64 *offset,                           \
                            const __grid_constant__ adn_dropout_params p)                                              \
    {                                                                                                                  \
        dropout<T, a>(out, in, seed, offset, p);                                                                       \
    }

// ---------------------------------------------------------------- optimisers -----------------------------------------

template <int V>
__device__ __forceinline__ void sgd_unit(void *param, const void *grad, float *moment, const adn_i64 (&at)[3], float lr,
                                         const adn_optimizer_params &p)
{
    float w[V], g[V], m[V];
    adn_load_pack_any<V>(param, p.param_dtype, at[0], false, w);
    adn_load_pack_any<V>(grad, p.grad_dtype, at[1], false, g);
    if (p.moments) adn_load_pack<float, V>(moment, at[2], false, m);
#pragma unroll
    for (int k = 0; k < V; k++) {
        g[k] += p.weight_decay * w[k];
        if (p.moments) {
            m[k] = p.beta1 * m[k] + g[k];
            g[k] = p.variant ? g[k] + p.beta1 * m[k] : m[k];
        }
        w[k] -= lr * g[k];
    }
    if (p.moments) adn_store_pack<float, V>(moment, at[2], m);
    adn_store_pack_any<V>(param, p.param_dtype, at[0], w);
}

template <int V>
__device__ __forceinline__ void sgd(void *param, const void *grad, float *moment, const float *lr_place,
                                    const adn_optimizer_params &p)
{
    const float lr = p.lr_device ? *lr_place : p.lr;
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        adn_i64 at[3];
        locate<V>(i, p, 0, at);
        if (i < p.dims.count) sgd_unit<V>(param, grad, moment, at, lr, p);
        else sgd_unit<1>(param, grad, moment, at, lr, p);
    }
}

#define ADN_ENTRY_sgd(name, T, block, a, b, c, d, e, f)                                                                \
    ADN_KERNEL(name, block)(void *param, const void *grad, float *moment, const float *lr,                             \
                            const __grid_constant__ adn_optimizer_params p)                                            \
    {                                                                                                                  \
        sgd<a>(param, grad, moment, lr, p);                                                                            \
    }

struct adam_state {
    float lr, correction1, correction2;
};

template <int V>
__device__ __forceinline__ void adam_unit(void *param, const void *grad, float *moment1, float *moment2,
                                          const adn_i64 (&at)[4], const adam_state &s, const adn_optimizer_params &p)
{
    float w[V], g[V], m1[V], m2[V];
    adn_load_pack_any<V>(param, p.param_dtype, at[0], false, w);
    adn_load_pack_any<V>(grad, p.grad_dtype, at[1], false, g);
    adn_load_pack<float, V>(moment1, at[2], false, m1);
    adn_load_pack<float, V>(moment2, at[3], false, m2);
#pragma unroll
    for (int k = 0; k < V; k++) {
        if (p.variant) w[k] -= s.lr * p.weight_decay * w[k];
        else g[k] += p.weight_decay * w[k];
        m1[k] = p.beta1 * m1[k] + p.rest1 * g[k];
        m2[k] = p.beta2 * m2[k] + p.rest2 * g[k] * g[k];
        w[k] -= s.lr * (m1[k] / s.correction1) / (sqrtf(m2[k] / s.correction2) + p.epsilon);
    }
    adn_store_pack<float, V>(moment1, at[2], m1);
    adn_store_pack<float, V>(moment2, at[3], m2);
    adn_store_pack_any<V>(param, p.param_dtype, at[0], w);
}

template <int V>
__device__ __forceinline__ void adam(void *param, const void *grad, float *moment1, float *moment2,
                                     const float *lr_place, const adn_i64 *step_place, const adn_optimizer_params &p)
{
    adam_state s = { p.lr, p.correction1, p.correction2 };
    if (p.lr_device) s.lr = *lr_place;
    if (p.step_device) {
        const float step = (float)*step_place;
        s.correction1 = -expm1f(step * p.log_beta1);
        s.correction2 = -expm1f(step * p.log_beta2);
    }
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        adn_i64 at[4];
        locate<V>(i, p, 0, at);
        if (i < p.dims.count) adam_unit<V>(param, grad, moment1, moment2, at, s, p);
        else adam_unit<1>(param, grad, moment1, moment2, at, s, p);
    }
}

#define ADN_ENTRY_adam(name, T, block, a, b, c, d, e, f)                                                               \
    ADN_KERNEL(name, block)(void *param, const void *grad, float *moment1, float *moment2, const float *lr,            \
                            const adn_i64 *step, const __grid_constant__ adn_optimizer_params p)                       \
    {                                                                                                                  \
        adam<a>(param, grad, moment1, moment2, lr, step, p);                                                           \
    }

// ---------------------------------------------------------------- copy -----------------------------------------------

// Any element -> W (float, double or 64-bit integer). What goes on to a type narrower than W is cut where W cannot hold
// it, the last bit set where bits were lost: the narrow type rounds that as it would have rounded v, which rounding twice
// does not.
template <typename W, typename S> __device__ __forceinline__ W widen(S v, bool) { return (W)v; }
template <typename W> __device__ __forceinline__ W widen(__half v, bool) { return (W)__half2float(v); }
template <typename W> __device__ __forceinline__ W widen(__nv_bfloat16 v, bool) { return (W)__bfloat162float(v); }
template <> __device__ __forceinline__ double widen<double, long long>(long long v, bool narrow)
{
    const double cut = __ll2double_rz(v);
    if (!narrow) return (double)v;
    return __double2ll_rz(cut) == v ? cut : __longlong_as_double(__double_as_longlong(cut) | 1);
}

// W -> any element: integers half to even, saturated, NaN as 0.
__device__ __forceinline__ float nearest(float v) { return rintf(v); }
__device__ __forceinline__ double nearest(double v) { return rint(v); }
template <typename S, typename W> __device__ __forceinline__ S saturate(W v, W low, W high, S least, S most)
{
    if (isnan(v)) return (S)0;
    v = nearest(v);
    return v >= high ? most : v < low ? least : (S)v;
}
template <typename S> __device__ __forceinline__ S saturate(long long v, long long, long long, S least, S most)
{
    return v > (long long)most ? most : v < (long long)least ? least : (S)v;
}

template <typename W> __device__ __forceinline__ void narrow(W v, float *to) { *to = (float)v; }
template <typename W> __device__ __forceinline__ void narrow(W v, double *to) { *to = (double)v; }
template <typename W> __device__ __forceinline__ void narrow(W v, __half *to) { *to = __float2half_rn((float)v); }
__device__ __forceinline__ void narrow(double v, __half *to) { *to = __double2half(v); }
template <typename W> __device__ __forceinline__ void narrow(W v, __nv_bfloat16 *to)
{
    *to = __float2bfloat16_rn((float)v);
}
__device__ __forceinline__ void narrow(double v, __nv_bfloat16 *to) { *to = __double2bfloat16(v); }
template <typename W> __device__ __forceinline__ void narrow(W v, signed char *to)
{
    *to = saturate<signed char>(v, (W)-128, (W)128, (signed char)-128, (signed char)127);
}
template <typename W> __device__ __forceinline__ void narrow(W v, unsigned char *to)
{
    *to = saturate<unsigned char>(v, (W)0, (W)256, (unsigned char)0, (unsigned char)255);
}
template <typename W> __device__ __forceinline__ void narrow(W v, int *to)
{
    *to = saturate<int>(v, (W)-2147483648.0, (W)2147483648.0, (int)-2147483647 - 1, 2147483647);
}
template <typename W> __device__ __forceinline__ void narrow(W v, long long *to)
{
    *to = saturate<long long>(v, (W)-9223372036854775808.0, (W)9223372036854775808.0, -9223372036854775807LL - 1,
                              9223372036854775807LL);
}
__device__ __forceinline__ void narrow(long long v, long long *to) { *to = v; }

template <typename W, typename S, int V>
__device__ __forceinline__ void read_wide(const void *p, adn_i64 i, bool splat, bool narrow, W (&v)[V])
{
    if (V > 1 && !splat) {
        const adn_pack<S, V> pack = adn_read_pack<S, V>((const S *)p + i);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = widen<W>(pack.at[k], narrow);
    } else {
        const W one = widen<W>(((const S *)p)[i], narrow);
#pragma unroll
        for (int k = 0; k < V; k++) v[k] = one;
    }
}

template <typename W, typename S, int V>
__device__ __forceinline__ void write_wide(void *p, adn_i64 i, const W (&v)[V])
{
    adn_pack<S, V> pack;
#pragma unroll
    for (int k = 0; k < V; k++) narrow(v[k], &pack.at[k]);
    adn_write_pack<S, V>((S *)p + i, pack);
}

#define ADN_BY_DTYPE(dtype, call)                                                                                      \
    switch (dtype) {                                                                                                   \
    case 1: { typedef float S; call; break; }                                                                          \
    case 2: { typedef __half S; call; break; }                                                                         \
    case 3: { typedef __nv_bfloat16 S; call; break; }                                                                  \
    case 4: { typedef double S; call; break; }                                                                         \
    case 5: { typedef signed char S; call; break; }                                                                    \
    case 6: { typedef unsigned char S; call; break; }                                                                  \
    case 7: { typedef int S; call; break; }                                                                            \
    default: { typedef long long S; call; break; }                                                                     \
    }

// a * b and a + b; integers modulo 2^64.
template <typename W> __device__ __forceinline__ W times(W a, W b) { return a * b; }
template <typename W> __device__ __forceinline__ W plus(W a, W b) { return a + b; }
__device__ __forceinline__ long long times(long long a, long long b) { return (long long)((adn_u64)a * (adn_u64)b); }
__device__ __forceinline__ long long plus(long long a, long long b) { return (long long)((adn_u64)a + (adn_u64)b); }

template <typename W, int V>
__device__ __forceinline__ void copy_unit(void *out, const void *in, const adn_i64 (&at)[2], W alpha, W beta,
                                          const adn_copy_params &p)
{
    const bool narrow = p.out_dtype != 4;
    W v[V], old[V];
    if (alpha != (W)0) ADN_BY_DTYPE(p.in_dtype, (read_wide<W, S, V>(in, at[1], p.splat & 2, narrow, v)))
    if (beta != (W)0) ADN_BY_DTYPE(p.out_dtype, (read_wide<W, S, V>(out, at[0], false, false, old)))
#pragma unroll
    for (int k = 0; k < V; k++) {
        v[k] = alpha != (W)0 ? times(alpha, v[k]) : (W)0;
        if (beta != (W)0) v[k] = plus(v[k], times(beta, old[k]));
    }
    ADN_BY_DTYPE(p.out_dtype, (write_wide<W, S, V>(out, at[0], v)))
}

template <int V>
__device__ __forceinline__ void copy_any(void *out, const void *in, const adn_i64 (&at)[2], const adn_copy_params &p)
{
    if (p.kind == ADN_COPY_FLOAT)
        copy_unit<float, V>(out, in, at, p.alpha, p.beta, p);
    else if (p.kind == ADN_COPY_DOUBLE)
        copy_unit<double, V>(out, in, at, __longlong_as_double(p.alpha_bits), __longlong_as_double(p.beta_bits), p);
    else
        copy_unit<long long, V>(out, in, at, p.alpha_bits, p.beta_bits, p);
}

template <int V> __device__ __forceinline__ void copy(void *out, const void *in, const adn_copy_params &p)
{
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        adn_i64 at[2];
        locate<V>(i, p, p.splat, at);
        if (i < p.dims.count) copy_any<V>(out, in, at, p);
        else copy_any<1>(out, in, at, p);
    }
}

#define ADN_ENTRY_copy(name, T, block, a, b, c, d, e, f)                                                               \
    ADN_KERNEL(name, block)(void *out, const void *in, const __grid_constant__ adn_copy_params p)                      \
    {                                                                                                                  \
        copy<a>(out, in, p);                                                                                           \
    }

// ---------------------------------------------------------------- fill -----------------------------------------------

__device__ __forceinline__ void fill_one(unsigned char *out, adn_i64 i, const adn_fill_params &p)
{
    if (p.size == 1) out[i] = (unsigned char)p.pattern;
    else if (p.size == 2) ((unsigned short *)out)[i] = (unsigned short)p.pattern;
    else if (p.size == 4) ((unsigned *)out)[i] = (unsigned)p.pattern;
    else ((adn_u64 *)out)[i] = p.pattern;
}

__device__ __forceinline__ void fill(unsigned char *out, const adn_fill_params &p)
{
    const uint4 four = { (unsigned)p.pattern, (unsigned)(p.pattern >> 32), (unsigned)p.pattern,
                         (unsigned)(p.pattern >> 32) };
    ADN_FOR_EACH(i, p.dims.count + p.tail) {
        if (i >= p.dims.count) fill_one(out, p.dims.count * (16 / p.size - 1) + i, p);
        else if (p.wide) *(uint4 *)(out + adn_walk_offset(i, p.dims, p.stride[0]) * p.size) = four;
        else fill_one(out, adn_walk_offset(i, p.dims, p.stride[0]), p);
    }
}

#define ADN_ENTRY_fill(name, T, block, a, b, c, d, e, f)                                                               \
    ADN_KERNEL(name, block)(unsigned char *out, const __grid_constant__ adn_fill_params p)                             \
    {                                                                                                                  \
        fill(out, p);                                                                                                  \
    }

#include "../common/engines/eltwise.variants"
