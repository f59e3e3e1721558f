// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/conv_epilogue.cuh: a finished sum becomes an output (common/engines/conv_epilogue.h, anydnn/ops.h):
//   out = f(alpha * sum + bias + alpha2 * z + beta * out)
// in f32, in f64 for f64; for 8-bit integers each step is rounded by itself, so that every backend gives the same bits.
#pragma once
#include "prelude.cuh"
#include "../common/engines/conv_epilogue.h"

// The scalars in the arithmetic of S.
template <typename S> struct adn_conv_scalars {
    S alpha, beta, alpha2, coef;
    __device__ explicit adn_conv_scalars(const adn_conv_epilogue &e)
        : alpha(e.alpha), beta(e.beta), alpha2(e.alpha2), coef(e.coef)
    {
    }
};
template <> __device__ __forceinline__ adn_conv_scalars<double>::adn_conv_scalars(const adn_conv_epilogue &e)
    : alpha(__longlong_as_double((long long)e.wide_alpha)), beta(__longlong_as_double((long long)e.wide_beta)),
      alpha2(__longlong_as_double((long long)e.wide_alpha2)), coef(__longlong_as_double((long long)e.wide_coef))
{
}

template <typename S> __device__ __forceinline__ S adn_conv_activated(int activation, S coef, S v)
{
    switch (activation) {
    case ADN_CONV_RELU: return v < 0 ? 0 : v;
    case ADN_CONV_LEAKY_RELU: return v < 0 ? coef * v : v;
    case ADN_CONV_CLIPPED_RELU: return v < 0 ? 0 : v > coef ? coef : v;
    case ADN_CONV_SIGMOID: return 1 / (1 + exp(-v));
    case ADN_CONV_TANH: return tanh(v);
    default: return v;
    }
}

// Memories of the kernel; elements are T but for 8-bit integers.
struct adn_conv_places {
    const void *bias, *z;
    const float *scales;
    void *y;
};

// What not every convolution wants, out of line: inlined at each of a thread's outputs it would be most of a kernel.
template <typename T, typename S>
__device__ __noinline__ S adn_conv_rest(S v, const void *z, adn_i64 z_at, const void *y, adn_i64 at,
                                        const adn_conv_epilogue &e)
{
    const adn_conv_scalars<S> s(e);
    if (e.residual && s.alpha2 != 0) v += s.alpha2 * adn_load(static_cast<const T *>(z), z_at);
    if (s.beta != 0) v += s.beta * adn_load(static_cast<const T *>(y), at);
    return adn_conv_activated(e.activation, s.coef, v);
}

template <typename T> struct adn_conv_output {
    template <typename S>
    __device__ static void store(S sum, adn_i64 channel, adn_i64 at, adn_i64 z_at, const adn_conv_places &m,
                                 const adn_conv_epilogue &e)
    {
        const adn_conv_scalars<S> s(e);
        T *y = static_cast<T *>(m.y);
        S v = s.alpha * sum;
        if (e.biased) v += adn_load(static_cast<const T *>(m.bias), channel * e.bias_step);
        if (e.residual | e.activation) v = adn_conv_rest<T>(v, m.z, z_at, m.y, at, e);
        else if (s.beta != 0) v += s.beta * adn_load(y, at);
        adn_store(y, at, v);
    }
};

// 8-bit integers, bias and output of several dtypes.
struct adn_conv_output_bytes {
    __device__ static float load(const void *p, int dtype, adn_i64 i)
    {
        if (dtype == ADN_Y_F32) return static_cast<const float *>(p)[i];
        return dtype == ADN_Y_I8 ? static_cast<const signed char *>(p)[i] : static_cast<const unsigned char *>(p)[i];
    }

    __device__ __noinline__ static void store(int sum, adn_i64 channel, adn_i64 at, adn_i64 z_at, const adn_conv_places &m,
                                 const adn_conv_epilogue &e)
    {
        if (e.biased == 2)
            sum = (int)((unsigned)sum + (unsigned)static_cast<const int *>(m.bias)[channel * e.bias_step]);
        if (e.y_dtype == ADN_Y_I32) {
            static_cast<int *>(m.y)[at] = sum;
            return;
        }
        const float factor = e.scaled ? __fmul_rn(e.alpha, m.scales[channel * e.scale_step]) : e.alpha;
        float v = __fmul_rn((float)sum, factor);
        if (e.biased == 1) v = __fadd_rn(v, static_cast<const float *>(m.bias)[channel * e.bias_step]);
        if (e.residual && e.alpha2 != 0.0f) v = __fadd_rn(v, __fmul_rn(e.alpha2, load(m.z, e.y_dtype, z_at)));
        if (e.beta != 0.0f) v = __fadd_rn(v, __fmul_rn(e.beta, load(m.y, e.y_dtype, at)));
        if (e.activation == ADN_CONV_LEAKY_RELU) v = v < 0 ? __fmul_rn(e.coef, v) : v;
        else v = adn_conv_activated(e.activation, e.coef, v);
        if (e.y_dtype == ADN_Y_F32) {
            static_cast<float *>(m.y)[at] = v;
            return;
        }
        v = (isnan(v) ? 0.0f : rintf(v)) + e.y_zero;
        if (e.y_dtype == ADN_Y_I8) static_cast<signed char *>(m.y)[at] = (signed char)fminf(fmaxf(v, -128.0f), 127.0f);
        else static_cast<unsigned char *>(m.y)[at] = (unsigned char)fminf(fmaxf(v, 0.0f), 255.0f);
    }
};
template <> struct adn_conv_output<signed char> : adn_conv_output_bytes {};
template <> struct adn_conv_output<unsigned char> : adn_conv_output_bytes {};

// What the filter is made of.
template <typename T> struct adn_conv_filter { typedef T type; };
template <> struct adn_conv_filter<unsigned char> { typedef signed char type; };

// x less its zero point, which only 8-bit integers have.
template <typename T> __device__ __forceinline__ typename adn_sum_of<T>::type adn_conv_input(const T *x, adn_i64 i, int)
{
    return adn_load(x, i);
}
__device__ __forceinline__ int adn_conv_input(const signed char *x, adn_i64 i, int zero) { return x[i] - zero; }
__device__ __forceinline__ int adn_conv_input(const unsigned char *x, adn_i64 i, int zero) { return x[i] - zero; }
