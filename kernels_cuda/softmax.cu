// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/softmax.cu: softmax and log-softmax over any set of axes, forward and backward.
//
// A team of threads takes a row (team_params.h): each thread reduces its elements (forward: running maximum and sum of
// exponentials, in one read; backward: a sum), the team joins, each thread writes its elements. Rows of up to parts * N
// elements stay in registers, longer ones are read twice. In place is safe: an element is read and written by the
// same thread. Any strides.
#include "logits.cuh"

#include "../common/engines/softmax_params.h"

namespace
{

using Params = adn_softmax_params;

struct Sum {
    struct value {
        float sum;
    };
    static __device__ __forceinline__ value join(value a, value b) { return { a.sum + b.sum }; }
};

template <typename T, int BLOCK, int N>
__device__ __forceinline__ void softmax_forward(const T *x, T *y, const Params &p)
{
    __shared__ adn_logits::value scratch[BLOCK];
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    const adn_i64 step = (adn_i64)team.parts * N;
    for (adn_i64 group = blockIdx.x; group < p.walk.groups; group += gridDim.x) {
        const adn_i64 row = group * team.rows + team.row;
        const adn_i64 length = row < p.walk.rows ? p.walk.length : 0;
        const T *from = x + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        T *to = y + ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row);
        adn_logits::value a = adn_logits::none(), aside = a;
        float v[N] = {};
        int takes = 0;
        for (adn_i64 first = 0; first < length && p.alpha != 0.0f; first += step) {
            if (takes++ == ADN_LOGITS_TAKES) {
                aside = adn_logits::join(aside, a);
                a = adn_logits::none();
                takes = 1;
            }
            adn_team_load(from, first, team, p.walk, p.stride[0].stride, length, -INFINITY, v);
            adn_logits::take(a, v);
        }
        if (length > ADN_LOGITS_TAKES * step) a = adn_logits::join(aside, a);
        a = adn_team_join<adn_logits>(a, scratch, team);
        const float max = adn_logits_valid(a) ? a.max : NAN, scale = 1.0f / a.sum, log_sum = logf(a.sum);
        for (adn_i64 first = 0; first < length; first += step) {
            if (length > step && p.alpha != 0.0f)
                adn_team_load(from, first, team, p.walk, p.stride[0].stride, length, -INFINITY, v);
#pragma unroll
            for (int k = 0; k < N; k++) {
                v[k] = p.log ? v[k] - max - log_sum : expf(v[k] - max) * scale;
                if (p.alpha == 0.0f) v[k] = 0.0f;
            }
            adn_team_store(to, first, team, p.walk, p.stride[1].stride, length, v, p.alpha, p.beta);
        }
    }
}

template <typename T, int BLOCK, int N>
__device__ __forceinline__ void softmax_backward(const T *y, const T *dy, T *dx, const Params &p)
{
    __shared__ Sum::value scratch[BLOCK];
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    const adn_i64 step = (adn_i64)team.parts * N;
    for (adn_i64 group = blockIdx.x; group < p.walk.groups; group += gridDim.x) {
        const adn_i64 row = group * team.rows + team.row;
        const adn_i64 length = row < p.walk.rows ? p.walk.length : 0;
        const T *from = y + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        const T *gradient = dy + ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row);
        T *to = dx + ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row);
        Sum::value a = { 0.0f }, aside = a;
        float v[N] = {}, g[N] = {};
        int takes = 0;
        for (adn_i64 first = 0; first < length && p.alpha != 0.0f; first += step) {
            adn_team_load(from, first, team, p.walk, p.stride[0].stride, length, 0.0f, v);
            adn_team_load(gradient, first, team, p.walk, p.stride[1].stride, length, 0.0f, g);
            if (takes++ == ADN_LOGITS_TAKES) {
                aside.sum += a.sum;
                a.sum = 0.0f;
                takes = 1;
            }
#pragma unroll
            for (int k = 0; k < N; k++) a.sum += p.log ? g[k] : g[k] * v[k];
        }
        a.sum += aside.sum;
        a = adn_team_join<Sum>(a, scratch, team);
        for (adn_i64 first = 0; first < length; first += step) {
            if (length > step && p.alpha != 0.0f) {
                adn_team_load(from, first, team, p.walk, p.stride[0].stride, length, 0.0f, v);
                adn_team_load(gradient, first, team, p.walk, p.stride[1].stride, length, 0.0f, g);
            }
#pragma unroll
            for (int k = 0; k < N; k++) {
                v[k] = p.log ? g[k] - expf(v[k]) * a.sum : v[k] * (g[k] - a.sum);
                if (p.alpha == 0.0f) v[k] = 0.0f;
            }
            adn_team_store(to, first, team, p.walk, p.stride[2].stride, length, v, p.alpha, p.beta);
        }
    }
}

} // namespace

#define ADN_ENTRY_softmax_forward(name, T, block, a, b, c, d, e, f)                                                    \
    ADN_KERNEL(name, block)(const T *x, T *y, const __grid_constant__ Params p)                                        \
    {                                                                                                                  \
        softmax_forward<T, block, a>(x, y, p);                                                                         \
    }
#define ADN_ENTRY_softmax_backward(name, T, block, a, b, c, d, e, f)                                                   \
    ADN_KERNEL(name, block)(const T *y, const T *dy, T *dx, const __grid_constant__ Params p)                          \
    {                                                                                                                  \
        softmax_backward<T, block, a>(y, dy, dx, p);                                                                   \
    }
#include "../common/engines/softmax.variants"
