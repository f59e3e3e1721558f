// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/batchnorm.cu: batch normalisation, training, inference and backward, spatial and per activation.
//
// A team of threads takes a feature, or a chunk of it (batchnorm_params.h). Stages of a launch, switched at run time:
//   1. mean and sum of squared deviations: N elements at a time in two passes over registers, then pairwise joins
//      (Chan, Golub, LeVeque 1983) in the thread and along the team; or joined from partial results; or given
//   2. backward: sum dy and sum dy * (x - mean), or joined from partial results
//   3. partial results are written, or the outputs: the first chunk's block writes statistics and gradients
// One launch does everything for a whole feature, two (three backward without saved statistics) share features out.
// Moments are taken of x - pivot, the row's first element, so that a mean far above the deviation costs no digits.
// In place is safe: the pivot travels with the partial results, and stage 3 reads and writes an element by the same
// thread. Any strides.
#include "team.cuh"

#include "../common/engines/batchnorm_params.h"

namespace
{

using Params = adn_batchnorm_params;

struct Moments {
    struct value {
        float n, mean, m2;
    };
    static __device__ __forceinline__ value join(value a, value b)
    {
        const float n = a.n + b.n;
        if (a.n == 0.0f) return b;
        if (b.n == 0.0f) return a;
        const float delta = b.mean - a.mean, w = b.n / n;
        return { n, a.mean + delta * w, a.m2 + b.m2 + delta * delta * a.n * w };
    }
    // join of a long row and a few elements behind it: what the additions round off is kept in `lost` and comes back
    // with the next.
    static __device__ __forceinline__ value add(value a, value b, value &lost)
    {
        const float n = a.n + b.n, delta = b.mean - a.mean, w = b.n / n;
        const float mean = delta * w - lost.mean, m2 = (b.m2 + delta * delta * a.n * w) - lost.m2;
        const value next = { n, a.mean + mean, a.m2 + m2 };
        if (a.n == 0.0f) return b;
        lost.mean = isfinite(next.mean) ? (next.mean - a.mean) - mean : 0.0f;
        lost.m2 = isfinite(next.m2) ? (next.m2 - a.m2) - m2 : 0.0f;
        return next;
    }
    // Joins the first `count` of N elements, which are `pivot` behind that.
    template <int N>
    static __device__ __forceinline__ value take(value a, const float (&v)[N], float pivot, int count, value &lost)
    {
        value b = { (float)count, 0.0f, 0.0f };
#pragma unroll
        for (int k = 0; k < N; k++) b.mean += v[k] - pivot;
        b.mean = count == N ? b.mean * (1.0f / N) : b.mean / b.n;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const float d = v[k] - pivot - b.mean;
            if (k < count) b.m2 += d * d;
        }
        return add(a, b, lost);
    }
};

struct Sums {
    struct value {
        float dy, dyx; // sum dy, sum dy * (x - mean)
    };
    static __device__ __forceinline__ value join(value a, value b) { return { a.dy + b.dy, a.dyx + b.dyx }; }
};

// A block's share: one row for each team, elements [first, end) of it.
struct Share {
    adn_i64 row, split, first, end;
    bool valid;
};

__device__ __forceinline__ Share share_of(adn_i64 item, const adn_team &team, const Params &p)
{
    Share s;
    const adn_i64 group = p.splits > 1 ? item / p.splits : item;
    s.split = item - group * p.splits;
    s.row = group * team.rows + team.row;
    s.valid = s.row < p.walk.rows;
    s.first = s.split * p.chunk;
    s.end = s.valid ? s.first + adn_batchnorm_count(p.walk.length, p.chunk, s.split) : s.first;
    return s;
}

__device__ __forceinline__ float parameter(const float *t, const Params &p, int which, adn_i64 row)
{
    return t[ADN_ROW_OFFSET(p.walk, p.parameter[which], row)];
}

__device__ __forceinline__ void set_parameter(float *t, const Params &p, int which, adn_i64 row, float v)
{
    t[ADN_ROW_OFFSET(p.walk, p.parameter[which], row)] = v;
}

/* A gradient of parameters with its factors; what was there before is read only where it counts. */
__device__ __forceinline__ void add_gradient(float *t, const Params &p, int which, adn_i64 row, float v)
{
    float *to = t + ADN_ROW_OFFSET(p.walk, p.parameter[which], row);
    *to = (p.param_alpha != 0.0f ? p.param_alpha * v : 0.0f) + (p.param_beta != 0.0f ? p.param_beta * *to : 0.0f);
}

template <int N> __device__ __forceinline__ int present(adn_i64 first, const adn_team &team, adn_i64 end)
{
    int count = 0;
#pragma unroll
    for (int k = 0; k < N; k++) count += first + team.part + k * team.parts < end;
    return count;
}

// First element of the row, 0 where that is not finite.
template <typename T> __device__ __forceinline__ float pivot_of(const T *x, const Share &s)
{
    const float v = s.end > s.first ? adn_load(x, 0) : 0.0f;
    return fabsf(v) < INFINITY ? v : 0.0f;
}

template <typename T, int N>
__device__ __forceinline__ Moments::value moments_of(const T *x, float pivot, const Share &s, const adn_team &team,
                                                     const Params &p, float (&v)[N])
{
    Moments::value a = { 0.0f, 0.0f, 0.0f }, lost = { 0.0f, 0.0f, 0.0f };
    for (adn_i64 first = s.first; first < s.end; first += (adn_i64)team.parts * N) {
        const int count = present<N>(first, team, s.end);
        adn_team_load(x, first, team, p.walk, p.data[ADN_BATCHNORM_X], s.end, pivot, v);
        if (count > 0) a = Moments::take(a, v, pivot, count, lost);
    }
    return a;
}

// Pivots of the rows lie behind the partial moments.
__device__ __forceinline__ float *pivots(float2 *partial, const Params &p)
{
    return reinterpret_cast<float *>(partial + p.splits * p.walk.rows);
}

// What this thread joins of the row's partial moments.
__device__ __forceinline__ Moments::value partial_moments(const float2 *partial, const Share &s, const adn_team &team,
                                                          const Params &p)
{
    Moments::value a = { 0.0f, 0.0f, 0.0f };
    for (int j = team.part; s.valid && j < p.splits; j += team.parts) {
        const float2 q = partial[j * p.walk.rows + s.row];
        a = Moments::join(a, { (float)adn_batchnorm_count(p.walk.length, p.chunk, j), q.x, q.y });
    }
    return a;
}

__device__ __forceinline__ void update_statistics(const Moments::value &a, float pivot, float invstd, const Share &s,
                                                  const Params &p, float *running_mean, float *running_var,
                                                  float *saved_mean, float *saved_invstd)
{
    if (p.has_saved) {
        set_parameter(saved_mean, p, ADN_BATCHNORM_SAVED_MEAN, s.row, pivot + a.mean);
        set_parameter(saved_invstd, p, ADN_BATCHNORM_SAVED_INVSTD, s.row, invstd);
    }
    if (p.has_running && p.walk.length > 0) {
        const float keep = 1.0f - p.factor, unbiased = p.walk.length > 1 ? a.m2 / (float)(p.walk.length - 1) : 0.0f;
        const float mean = parameter(running_mean, p, ADN_BATCHNORM_RUNNING_MEAN, s.row);
        const float var = parameter(running_var, p, ADN_BATCHNORM_RUNNING_VAR, s.row);
        set_parameter(running_mean, p, ADN_BATCHNORM_RUNNING_MEAN, s.row, keep * mean + p.factor * (pivot + a.mean));
        set_parameter(running_var, p, ADN_BATCHNORM_RUNNING_VAR, s.row, keep * var + p.factor * unbiased);
    }
}

template <typename T, int BLOCK, int N>
__device__ __forceinline__ void batchnorm_forward(const T *x, T *y, const float *gamma, const float *shift,
                                                  float *running_mean, float *running_var, float *saved_mean,
                                                  float *saved_invstd, float2 *partial, const Params &p)
{
    __shared__ Moments::value scratch[BLOCK];
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    const adn_i64 items = p.walk.groups * p.splits, step = (adn_i64)team.parts * N;
    for (adn_i64 item = blockIdx.x; item < items; item += gridDim.x) {
        const Share s = share_of(item, team, p);
        const T *from = x + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_X], s.row);
        T *to = y + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_Y], s.row);
        const bool resident = p.statistics == ADN_BATCHNORM_FROM_DATA && s.end - s.first <= step;
        Moments::value a = { 0.0f, 0.0f, 0.0f };
        float v[N] = {}, var, pivot = 0.0f;
        if (p.statistics == ADN_BATCHNORM_FROM_DATA) {
            pivot = pivot_of(from, s);
            a = moments_of(from, pivot, s, team, p, v);
        } else if (p.statistics == ADN_BATCHNORM_FROM_PARTIALS) {
            if (s.valid) pivot = pivots(partial, p)[s.row];
            a = partial_moments(partial, s, team, p);
        }
        if (p.statistics != ADN_BATCHNORM_FROM_TENSORS) a = adn_team_join<Moments>(a, scratch, team);
        if (!s.valid) continue;
        if (!p.finish) {
            if (team.part == 0) partial[s.split * p.walk.rows + s.row] = make_float2(a.mean, a.m2);
            if (team.part == 0 && s.split == 0) pivots(partial, p)[s.row] = pivot;
            continue;
        }
        if (p.statistics == ADN_BATCHNORM_FROM_TENSORS) {
            pivot = parameter(running_mean, p, ADN_BATCHNORM_RUNNING_MEAN, s.row);
            var = parameter(running_var, p, ADN_BATCHNORM_RUNNING_VAR, s.row);
        } else {
            var = p.walk.length > 0 ? a.m2 / (float)p.walk.length : 0.0f;
        }
        const float invstd = 1.0f / sqrtf(var + p.epsilon);
        if (p.statistics != ADN_BATCHNORM_FROM_TENSORS && s.split == 0 && team.part == 0)
            update_statistics(a, pivot, invstd, s, p, running_mean, running_var, saved_mean, saved_invstd);
        const float scale = parameter(gamma, p, ADN_BATCHNORM_GAMMA, s.row) * invstd;
        const float offset = parameter(shift, p, ADN_BATCHNORM_SHIFT, s.row);
        for (adn_i64 first = s.first; first < s.end; first += step) {
            if (!resident && p.alpha != 0.0f)
                adn_team_load(from, first, team, p.walk, p.data[ADN_BATCHNORM_X], s.end, 0.0f, v);
#pragma unroll
            for (int k = 0; k < N; k++) v[k] = p.alpha == 0.0f ? 0.0f : (v[k] - pivot - a.mean) * scale + offset;
            adn_team_store(to, first, team, p.walk, p.data[ADN_BATCHNORM_Y], s.end, v, p.alpha, p.beta);
        }
    }
}

template <typename T, int N>
__device__ __forceinline__ Sums::value sums_of(const T *x, const T *dy, float pivot, float mean, const Share &s,
                                               const adn_team &team, const Params &p, float (&v)[N], float (&g)[N])
{
    Sums::value a = { 0.0f, 0.0f }, lost = { 0.0f, 0.0f }; // what each addition rounds off comes back with the next
    for (adn_i64 first = s.first; first < s.end; first += (adn_i64)team.parts * N) {
        adn_team_load(x, first, team, p.walk, p.data[ADN_BATCHNORM_X], s.end, 0.0f, v);
        adn_team_load(dy, first, team, p.walk, p.data[ADN_BATCHNORM_DY], s.end, 0.0f, g);
        const int count = present<N>(first, team, s.end);
        Sums::value c = { -lost.dy, -lost.dyx };
#pragma unroll
        for (int k = 0; k < N; k++) {
            c.dy += g[k];
            if (k < count) c.dyx += g[k] * (v[k] - pivot - mean);
        }
        const Sums::value next = Sums::join(a, c);
        lost = { isfinite(next.dy) ? (next.dy - a.dy) - c.dy : 0.0f,
                 isfinite(next.dyx) ? (next.dyx - a.dyx) - c.dyx : 0.0f };
        a = next;
    }
    return a;
}

__device__ __forceinline__ Sums::value partial_sums(const float2 *partial, const Share &s, const adn_team &team,
                                                    const Params &p)
{
    Sums::value a = { 0.0f, 0.0f };
    for (int j = team.part; s.valid && j < p.splits; j += team.parts) {
        const float2 q = partial[j * p.walk.rows + s.row];
        a = Sums::join(a, { q.x, q.y });
    }
    return a;
}

template <typename T, int BLOCK, int N>
__device__ __forceinline__ void batchnorm_backward(const T *x, const T *dy, T *dx, const float *gamma,
                                                   const float *saved_mean, const float *saved_invstd, float *dgamma,
                                                   float *dshift, float2 *moments, float2 *partial, const Params &p)
{
    __shared__ Moments::value scratch[BLOCK];
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    const adn_i64 items = p.walk.groups * p.splits, step = (adn_i64)team.parts * N;
    for (adn_i64 item = blockIdx.x; item < items; item += gridDim.x) {
        const Share s = share_of(item, team, p);
        const T *from = x + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_X], s.row);
        const T *gradient = dy + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_DY], s.row);
        T *to = dx + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_DX], s.row);
        const bool resident = p.sums == ADN_BATCHNORM_FROM_DATA && s.end - s.first <= step;
        Moments::value a = { 0.0f, 0.0f, 0.0f };
        Sums::value b = { 0.0f, 0.0f };
        float v[N] = {}, g[N] = {}, invstd, pivot = 0.0f;
        if (p.statistics == ADN_BATCHNORM_FROM_TENSORS) {
            pivot = s.valid ? parameter(saved_mean, p, ADN_BATCHNORM_SAVED_MEAN, s.row) : 0.0f;
            invstd = s.valid ? parameter(saved_invstd, p, ADN_BATCHNORM_SAVED_INVSTD, s.row) : 0.0f;
        } else {
            if (p.statistics == ADN_BATCHNORM_FROM_DATA) {
                pivot = pivot_of(from, s);
                a = moments_of(from, pivot, s, team, p, v);
            } else {
                if (s.valid) pivot = pivots(moments, p)[s.row];
                a = partial_moments(moments, s, team, p);
            }
            a = adn_team_join<Moments>(a, scratch, team);
            invstd = 1.0f / sqrtf(a.m2 / (float)p.walk.length + p.epsilon);
        }
        if (p.sums == ADN_BATCHNORM_FROM_DATA)
            b = sums_of(from, gradient, pivot, a.mean, s, team, p, v, g);
        else
            b = partial_sums(partial, s, team, p);
        b = adn_team_join<Sums>(b, reinterpret_cast<Sums::value *>(scratch), team);
        if (!s.valid) continue;
        if (!p.finish) {
            if (team.part == 0) partial[s.split * p.walk.rows + s.row] = make_float2(b.dy, b.dyx);
            continue;
        }
        if (s.split == 0 && team.part == 0) {
            add_gradient(dgamma, p, ADN_BATCHNORM_DGAMMA, s.row, p.walk.length > 0 ? b.dyx * invstd : 0.0f);
            add_gradient(dshift, p, ADN_BATCHNORM_DSHIFT, s.row, b.dy);
        }
        const float n = (float)p.walk.length, scale = parameter(gamma, p, ADN_BATCHNORM_GAMMA, s.row) * invstd;
        const float mean_dy = b.dy / n, slope = b.dyx * invstd / n * invstd;
        for (adn_i64 first = s.first; first < s.end; first += step) {
            if (!resident && p.alpha != 0.0f) {
                adn_team_load(from, first, team, p.walk, p.data[ADN_BATCHNORM_X], s.end, 0.0f, v);
                adn_team_load(gradient, first, team, p.walk, p.data[ADN_BATCHNORM_DY], s.end, 0.0f, g);
            }
#pragma unroll
            for (int k = 0; k < N; k++)
                v[k] = p.alpha == 0.0f ? 0.0f : scale * (g[k] - mean_dy - (v[k] - pivot - a.mean) * slope);
            adn_team_store(to, first, team, p.walk, p.data[ADN_BATCHNORM_DX], s.end, v, p.alpha, p.beta);
        }
    }
}

} // namespace

#define ADN_ENTRY_batchnorm_forward(name, T, block, a, b, c, d, e, f)                                                  \
    ADN_KERNEL(name, block)                                                                                            \
    (const T *x, T *y, const float *gamma, const float *shift, float *running_mean, float *running_var,                \
     float *saved_mean, float *saved_invstd, float2 *partial, const __grid_constant__ Params p)                        \
    {                                                                                                                  \
        batchnorm_forward<T, block, a>(x, y, gamma, shift, running_mean, running_var, saved_mean, saved_invstd,        \
                                       partial, p);                                                                    \
    }
#define ADN_ENTRY_batchnorm_backward(name, T, block, a, b, c, d, e, f)                                                 \
    ADN_KERNEL(name, block)                                                                                            \
    (const T *x, const T *dy, T *dx, const float *gamma, const float *saved_mean, const float *saved_invstd,           \
     float *dgamma, float *dshift, float2 *moments, float2 *partial, const __grid_constant__ Params p)                 \
    {                                                                                                                  \
        batchnorm_backward<T, block, a>(x, dy, dx, gamma, saved_mean, saved_invstd, dgamma, dshift, moments, partial,  \
                                        p);                                                                            \
    }
#include "../common/engines/batchnorm.variants"
