// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/reduce.cu: sums, maxima, minima and norms over any axes, sums of gradient expressions, and the
// backward pass of the maximum. Parameters: common/engines/reduce_params.h.
//
// Stages of reduce: a team of threads (team.cuh) takes one segment of one row; each thread joins every parts-th unit of
// V elements, in partial sums of 64 terms and sums of 64 of those, so that long rows stay accurate; the team joins its
// threads in a fixed order; its first thread stores. Segments of a row are joined by a second launch over their results.
// reduce_max_backward: a team finds the first largest element of a row, then writes the whole row.
#include "../common/engines/reduce_params.h"
#include "block_reduce.cuh"
#include "pack.cuh"
#include "team.cuh"

// ---------------------------------------------------------------- terms ----------------------------------------------

__device__ __forceinline__ bool first_wins(float a, float b) { return a >= b || isnan(a); }

#define ADN_TERMS(expression)                                                                                          \
    _Pragma("unroll") for (int k = 0; k < V; k++) v[k] = (expression);                                                 \
    break

// v = the term of v, a, b.
template <int V>
__device__ __forceinline__ void apply_term(int term, float (&v)[V], const float (&a)[V], const float (&b)[V])
{
    switch (term) {
    case ADN_TERM_NEGATIVE: ADN_TERMS(-v[k]);
    case ADN_TERM_TIMES: ADN_TERMS(v[k] * a[k]);
    case ADN_TERM_OVER: ADN_TERMS(v[k] / a[k]);
    case ADN_TERM_QUOTIENT: ADN_TERMS(-(v[k] / b[k]) * (a[k] / b[k]));
    case ADN_TERM_MAX_A: ADN_TERMS(first_wins(a[k], b[k]) ? v[k] : 0.0f);
    case ADN_TERM_MAX_B: ADN_TERMS(first_wins(a[k], b[k]) ? 0.0f : v[k]);
    case ADN_TERM_MIN_A: ADN_TERMS(first_wins(-a[k], -b[k]) ? v[k] : 0.0f);
    case ADN_TERM_MIN_B: ADN_TERMS(first_wins(-a[k], -b[k]) ? 0.0f : v[k]);
    case ADN_TERM_MAGNITUDE: ADN_TERMS(fabsf(v[k]));
    case ADN_TERM_SQUARE: ADN_TERMS(v[k] * v[k]);
    default: break;
    }
}

template <typename T> struct inputs {
    const T *at[3];
    adn_i64 base[3], step[3]; // offsets of the row, and from an element to the next in rows with one reduced dim
};

template <typename T, int V, bool TERMS, bool FLAT>
__device__ __forceinline__ void load_term(const inputs<T> &in, adn_i64 i, const adn_reduce_params &p, float (&v)[V])
{
    adn_i64 at[3];
#pragma unroll
    for (int t = 0; t < (TERMS ? 3 : 1); t++)
        at[t] = in.base[t] + (FLAT ? i * in.step[t] : ADN_ITEM_OFFSET(p.walk, p.stride[t].stride, i));
    adn_load_pack<T, V>(in.at[0], at[0], p.splat & 1, v);
    if (TERMS) {
        float a[V], b[V];
        if (p.inputs > 1) adn_load_pack<T, V>(in.at[1], at[1], p.splat & 2, a);
        if (p.inputs > 2) adn_load_pack<T, V>(in.at[2], at[2], p.splat & 4, b);
        apply_term<V>(p.term, v, a, b);
    }
}

// Only maxima have elements whose signs change; a sum must not pay for that.
template <typename OP> struct signs_change { static const bool value = false; };
template <> struct signs_change<adn_op_max> { static const bool value = true; };

template <int V> __device__ __forceinline__ void change_signs(float (&v)[V], const adn_reduce_params &p)
{
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = __uint_as_float((__float_as_uint(v[k]) & p.keep) ^ p.flip);
}

// ---------------------------------------------------------------- joining --------------------------------------------

// V lanes at once.
template <typename OP, int V> struct lanes_of {
    struct value {
        float at[V];
    };
    __device__ __forceinline__ static value identity()
    {
        value v;
#pragma unroll
        for (int k = 0; k < V; k++) v.at[k] = OP::identity();
        return v;
    }
    __device__ __forceinline__ static value join(const value &a, const value &b)
    {
        value v;
#pragma unroll
        for (int k = 0; k < V; k++) v.at[k] = OP::join(a.at[k], b.at[k]);
        return v;
    }
};

// Joins elements first, first + step, ... below end.
template <typename T, int V, typename OP, bool TERMS, bool FLAT>
__device__ __forceinline__ typename lanes_of<OP, V>::value join_items(const inputs<T> &in, adn_i64 first, adn_i64 end,
                                                                      int step, const adn_reduce_params &p)
{
    typedef lanes_of<OP, V> L;
    typename L::value total = L::identity(), middle = L::identity();
    for (int flushes = 1; first < end; flushes++) {
        const adn_i64 stop = min((long long)end, (long long)(first + 64 * (adn_i64)step));
        typename L::value part = L::identity();
#pragma unroll(FLAT ? (TERMS ? 2 : 4) : 1)
        for (; first < stop; first += step) {
            typename L::value v;
            load_term<T, V, TERMS, FLAT>(in, first, p, v.at);
            if (signs_change<OP>::value) change_signs<V>(v.at, p);
            part = L::join(part, v);
        }
        middle = L::join(middle, part);
        if (flushes % 64 == 0) {
            total = L::join(total, middle);
            middle = L::identity();
        }
    }
    return L::join(total, middle);
}

template <typename T, int V, typename OP, bool TERMS>
__device__ __forceinline__ typename lanes_of<OP, V>::value join_row(const T *v, const T *a, const T *b, adn_i64 row,
                                                                    adn_i64 first, adn_i64 end, int step,
                                                                    const adn_reduce_params &p)
{
    const int flat = p.walk.kept < 8 ? p.walk.kept : 7;
    inputs<T> in = { { v, a, b }, { 0, 0, 0 }, { 0, 0, 0 } };
#pragma unroll
    for (int t = 0; t < (TERMS ? 3 : 1); t++) {
        in.base[t] = ADN_ROW_OFFSET(p.walk, p.stride[t].stride, row);
        in.step[t] = p.stride[t].stride[flat];
    }
    if (p.walk.rank - p.walk.kept <= 1) return join_items<T, V, OP, TERMS, true>(in, first, end, step, p);
    return join_items<T, V, OP, TERMS, false>(in, first, end, step, p);
}

__device__ __forceinline__ float finished(adn_i32 finish, float v)
{
    switch (finish) {
    case ADN_FINISH_NEGATE: return -v;
    case ADN_FINISH_POSITIVE: return v < 0.0f ? 0.0f : v;
    case ADN_FINISH_ROOT: return sqrtf(v);
    default: return v;
    }
}

__device__ __forceinline__ void store_result(void *out, adn_i64 i, float v, const adn_reduce_params &p)
{
    float result[1] = { v }, old[1];
    if (p.last) {
        result[0] = p.skip ? 0.0f : p.alpha * finished(p.finish, v / p.divisor);
        if (p.beta != 0.0f) {
            adn_load_pack_any<1>(out, p.out_dtype, i, false, old);
            result[0] += p.beta * old[0];
        }
    }
    adn_store_pack_any<1>(out, p.out_dtype, i, result);
}

template <typename T, int V, typename OP, bool TERMS, int BLOCK>
__device__ __forceinline__ void reduce(const T *v, const T *a, const T *b, void *out, const adn_reduce_params &p)
{
    typedef lanes_of<OP, V> L;
    typedef lanes_of<OP, 1> One;
    __shared__ typename L::value scratch[BLOCK];
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    for (adn_i64 task = blockIdx.x; task < p.walk.groups * p.segments; task += gridDim.x) {
        const adn_i64 segment = p.segments > 1 ? task / p.walk.groups : 0;
        const adn_i64 row = (task - segment * p.walk.groups) * team.rows + team.row;
        const adn_i64 first = segment * p.segment, end = min((long long)(first + p.segment), (long long)p.walk.length);
        typename L::value sum = L::identity();
        if (row < p.walk.rows && !p.skip)
            sum = join_row<T, V, OP, TERMS>(v, a, b, row, first + team.part, end, team.parts, p);
        if (p.fold) {
            typename One::value one;
#pragma unroll
            for (int half = V / 2; half > 0; half /= 2)
#pragma unroll
                for (int k = 0; k < half; k++) sum.at[k] = OP::join(sum.at[k], sum.at[k + half]);
            one.at[0] = sum.at[0];
            sum.at[0] = adn_team_join<One>(one, reinterpret_cast<typename One::value *>(scratch), team).at[0];
        } else {
            sum = adn_team_join<L>(sum, scratch, team);
        }
        if (row < p.walk.rows && team.part == 0) {
            const adn_i64 to = ADN_ROW_OFFSET(p.walk, p.stride[3].stride, row) + segment * p.out_segment;
#pragma unroll
            for (int k = 0; k < V; k++)
                if (k == 0 || !p.fold) store_result(out, to + k * p.out_lane, sum.at[k], p);
        }
    }
}

template <int OPERATION> struct operation_of { typedef adn_op_sum op; };
template <> struct operation_of<1> { typedef adn_op_max op; };

#define ADN_ENTRY_reduce(name, T, block, a, b, c, d, e, f)                                                             \
    ADN_KERNEL(name, block)(const T *v, const T *second, const T *third, void *out,                                    \
                            const __grid_constant__ adn_reduce_params p)                                               \
    {                                                                                                                  \
        reduce<T, a, operation_of<b>::op, c, block>(v, second, third, out, p);                                         \
    }

// ---------------------------------------------------------------- backward of the maximum ----------------------------

// The first largest; the index travels as two words, since teams join words.
struct first_largest {
    struct value {
        float largest;
        adn_i32 low, high;
    };
    __device__ __forceinline__ static adn_i64 index(const value &v)
    {
        return (adn_i64)v.high << 32 | (adn_u32)v.low;
    }
    __device__ __forceinline__ static value make(float largest, adn_i64 index)
    {
        const value v = { largest, (adn_i32)(adn_u32)index, (adn_i32)(index >> 32) };
        return v;
    }
    __device__ __forceinline__ static value join(const value &a, const value &b)
    {
        return adn_better(b.largest, index(b), a.largest, index(a)) ? b : a;
    }
};

template <typename T, int BLOCK>
__device__ __forceinline__ void max_backward(const T *x, const T *dy, T *dx, const adn_reduce_max_backward_params &p)
{
    __shared__ first_largest::value scratch[BLOCK];
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    for (adn_i64 group = blockIdx.x; group < p.walk.groups; group += gridDim.x) {
        const adn_i64 row = group * team.rows + team.row, end = row < p.walk.rows ? p.walk.length : 0;
        const adn_i64 from = ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        const adn_i64 to = ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row);
        float largest = 0.0f, gradient = 0.0f;
        adn_i64 winner = -1;
        for (adn_i64 i = team.part; i < end && p.alpha != 0.0f; i += team.parts) {
            const float v = adn_load(x, from + ADN_ITEM_OFFSET(p.walk, p.stride[0].stride, i));
            if (adn_better(v, i, largest, winner)) largest = v, winner = i;
        }
        winner = first_largest::index(
            adn_team_join<first_largest>(first_largest::make(largest, winner), scratch, team));
        if (winner >= 0) gradient = adn_load(dy, ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row));
        for (adn_i64 i = team.part; i < end; i += team.parts)
            adn_store_scaled(dx, to + ADN_ITEM_OFFSET(p.walk, p.stride[2].stride, i), i == winner ? gradient : 0.0f,
                             p.alpha, p.beta);
    }
}

#define ADN_ENTRY_reduce_max_backward(name, T, block, a, b, c, d, e, f)                                                \
    ADN_KERNEL(name, block)(const T *x, const T *dy, T *dx, const __grid_constant__ adn_reduce_max_backward_params p)  \
    {                                                                                                                  \
        max_backward<T, block>(x, dy, dx, p);                                                                          \
    }

#include "../common/engines/reduce.variants"
