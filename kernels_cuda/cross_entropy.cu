// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/cross_entropy.cu: softmax and cross entropy in one, forward and backward.
//
//   cross_entropy_forward   a team of threads for each row (team_params.h) finds maximum and sum of exponentials in one
//                           read; row losses are stored, or added up by the block in order: to one partial result for
//                           each block, or to the loss itself when the grid is one block
//   cross_entropy_finish    one block adds the partial results
//   cross_entropy_count     counts labels, one partial result for each block
//   cross_entropy_backward  counted rows from the partial results, or by reading all labels; then as softmax
// Labels below 0 leave their row out; labels of C or more give NaN and read nothing. In place (dx on x) is safe.
#include "block_reduce.cuh"
#include "logits.cuh"

#include "../common/engines/cross_entropy_params.h"

namespace
{

using Params = adn_cross_entropy_params;

// Logits with the sum of x - max for label smoothing.
struct Row {
    struct value {
        float max, sum, count, all; // all = sum of x - pivot(max)
    };
    static __device__ __forceinline__ value join(value a, value b)
    {
        const float max = fmaxf(a.max, b.max), p = adn_logits::pivot(max);
        return { max, a.sum * expf(a.max - p) + b.sum * expf(b.max - p), a.count + b.count,
                 a.all + a.count * (adn_logits::pivot(a.max) - p) + b.all + b.count * (adn_logits::pivot(b.max) - p) };
    }
    // Takes N more logits, the last of them absent (-inf) from `count` on.
    template <int N> static __device__ __forceinline__ void take(value &a, const float (&v)[N], int count)
    {
        adn_logits::value logits = { a.max, a.sum };
        adn_logits::take(logits, v);
        const float p = adn_logits::pivot(logits.max);
        a.all += a.count * (adn_logits::pivot(a.max) - p);
#pragma unroll
        for (int k = 0; k < N; k++)
            if (k < count) a.all += v[k] - p;
        a.count += (float)count;
        a.max = logits.max;
        a.sum = logits.sum;
    }
};

__device__ __forceinline__ adn_i64 label_of(const void *labels, const Params &p, adn_i64 row)
{
    const adn_i64 at = ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row);
    return p.wide_labels ? static_cast<const adn_i64 *>(labels)[at] : static_cast<const adn_i32 *>(labels)[at];
}

template <int BLOCK> __device__ __forceinline__ adn_i64 block_count(adn_i64 v, adn_i64 *scratch)
{
    const int t = threadIdx.x;
    scratch[t] = v;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half >>= 1) {
        if (t < half) scratch[t] += scratch[t + half];
        __syncthreads();
    }
    v = scratch[0];
    __syncthreads();
    return v;
}

__device__ __forceinline__ float total(float sum, adn_i64 count, const Params &p)
{
    if (!p.mean) return sum;
    return count > 0 ? sum / (float)count : 0.0f;
}

// Loss of a row whose logits were joined to a.
template <typename T>
__device__ __forceinline__ float row_loss(const T *x, const Row::value &a, adn_i64 label, const Params &p)
{
    const float log_sum = logf(a.sum), e = p.smoothing;
    float loss = 0.0f;
    if (label >= p.walk.length || !adn_logits_valid({ a.max, a.sum })) return NAN;
    // A coefficient of 0 drops its term: log p may be -inf there.
    if (e < 1.0f) loss = -(1.0f - e) * (adn_load(x, label * p.x_class) - a.max - log_sum);
    if (e > 0.0f) loss -= e * (a.all / a.count - log_sum);
    return loss;
}

template <typename T, int BLOCK, int N>
__device__ __forceinline__ void forward(const T *x, const void *labels, float *loss, adn_loss_partial *partial,
                                        const Params &p)
{
    __shared__ alignas(8) Row::value scratch[BLOCK]; // also holds counts
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    const adn_i64 step = (adn_i64)team.parts * N;
    float sum = 0.0f;
    adn_i64 count = 0;
    for (adn_i64 group = blockIdx.x; group < p.walk.groups; group += gridDim.x) {
        const adn_i64 row = group * team.rows + team.row;
        const adn_i64 label = row < p.walk.rows ? label_of(labels, p, row) : -1;
        const adn_i64 length = label >= 0 ? p.walk.length : 0;
        const T *from = x + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        Row::value a = { -INFINITY, 0.0f, 0.0f, 0.0f }, aside = a;
        int takes = 0;
        for (adn_i64 first = 0; first < length; first += step) {
            float v[N];
            int present = 0;
            if (takes++ == ADN_LOGITS_TAKES) {
                aside = Row::join(aside, a);
                a = { -INFINITY, 0.0f, 0.0f, 0.0f };
                takes = 1;
            }
            adn_team_load(from, first, team, p.walk, p.stride[0].stride, length, -INFINITY, v);
#pragma unroll
            for (int k = 0; k < N; k++) present += first + team.part + k * team.parts < length;
            Row::take(a, v, present);
        }
        if (length > ADN_LOGITS_TAKES * step) a = Row::join(aside, a);
        a = adn_team_join<Row>(a, scratch, team);
        if (team.part == 0 && row < p.walk.rows) {
            const float l = label < 0 ? 0.0f : row_loss(from, a, label, p);
            sum += l;
            count += label >= 0;
            if (p.emit == ADN_LOSS_EMIT_ROWS) loss[ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row)] = l;
        }
    }
    if (p.emit == ADN_LOSS_EMIT_ROWS || p.walk.groups == 0) return;
    sum = adn_block_sum<BLOCK>(sum, reinterpret_cast<float *>(scratch));
    count = block_count<BLOCK>(count, reinterpret_cast<adn_i64 *>(scratch));
    if (threadIdx.x != 0) return;
    if (p.emit == ADN_LOSS_EMIT_TOTAL)
        loss[0] = total(sum, count, p);
    else
        partial[blockIdx.x] = { count, sum, 0 };
}

template <int BLOCK>
__device__ __forceinline__ void finish(const adn_loss_partial *partial, float *loss, const Params &p)
{
    __shared__ adn_i64 scratch[BLOCK];
    float sum = 0.0f;
    adn_i64 count = 0;
    for (int i = threadIdx.x; i < p.partials; i += BLOCK) {
        sum += partial[i].sum;
        count += partial[i].count;
    }
    sum = adn_block_sum<BLOCK>(sum, reinterpret_cast<float *>(scratch));
    count = block_count<BLOCK>(count, scratch);
    if (threadIdx.x == 0 && p.emit == ADN_LOSS_EMIT_TOTAL) loss[0] = total(sum, count, p);
}

// Counted rows among first, first + step, ...
__device__ __forceinline__ adn_i64 count_labels(const void *labels, adn_i64 first, adn_i64 step, const Params &p)
{
    adn_i64 count = 0;
    for (adn_i64 row = first; row < p.walk.rows; row += step) count += label_of(labels, p, row) >= 0;
    return count;
}

template <int BLOCK>
__device__ __forceinline__ void count(const void *labels, adn_loss_partial *partial, const Params &p)
{
    __shared__ adn_i64 scratch[BLOCK];
    adn_i64 n = count_labels(labels, (adn_i64)blockIdx.x * BLOCK + threadIdx.x, (adn_i64)gridDim.x * BLOCK, p);
    n = block_count<BLOCK>(n, scratch);
    if (threadIdx.x == 0 && p.walk.rows > 0) partial[blockIdx.x] = { n, 0.0f, 0 };
}

template <int BLOCK>
__device__ __forceinline__ adn_i64 counted(const void *labels, const adn_loss_partial *partial, adn_i64 *scratch,
                                           const Params &p)
{
    adn_i64 n = 0;
    if (p.partials == 0) n = count_labels(labels, threadIdx.x, BLOCK, p);
    for (int i = threadIdx.x; i < p.partials; i += BLOCK) n += partial[i].count;
    return block_count<BLOCK>(n, scratch);
}

template <typename T, int BLOCK, int N>
__device__ __forceinline__ void backward(const T *x, const void *labels, const float *dloss, T *dx,
                                         const adn_loss_partial *partial, const Params &p)
{
    __shared__ alignas(8) adn_logits::value scratch[BLOCK]; // also holds counts
    const adn_team team = adn_team_of<BLOCK>(p.walk);
    const adn_i64 step = (adn_i64)team.parts * N;
    const float e = p.smoothing, share = e / (float)p.walk.length;
    const float rows = p.mean ? (float)counted<BLOCK>(labels, partial, reinterpret_cast<adn_i64 *>(scratch), p) : 1.0f;
    for (adn_i64 group = blockIdx.x; group < p.walk.groups; group += gridDim.x) {
        const adn_i64 row = group * team.rows + team.row;
        const adn_i64 label = row < p.walk.rows ? label_of(labels, p, row) : -1;
        const adn_i64 length = row < p.walk.rows ? p.walk.length : 0;
        const bool reads = label >= 0 && label < length;
        const T *from = x + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        T *to = dx + ADN_ROW_OFFSET(p.walk, p.stride[3].stride, row);
        adn_logits::value a = adn_logits::none(), aside = a;
        float v[N] = {}, g = 1.0f;
        int takes = 0;
        for (adn_i64 first = 0; first < length && reads; first += step) {
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
        if (label >= 0 && p.has_dloss) g = dloss[ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row)];
        g /= rows;
        const float max = reads && adn_logits_valid(a) ? a.max : NAN, scale = 1.0f / a.sum;
        for (adn_i64 first = 0; first < length; first += step) {
            if (length > step && reads)
                adn_team_load(from, first, team, p.walk, p.stride[0].stride, length, -INFINITY, v);
#pragma unroll
            for (int k = 0; k < N; k++) {
                const bool hit = first + team.part + k * team.parts == label;
                v[k] = label < 0 ? 0.0f : (expf(v[k] - max) * scale - (hit ? 1.0f - e : 0.0f) - share) * g;
            }
            adn_team_store(to, first, team, p.walk, p.stride[3].stride, length, v, 1.0f, 0.0f);
        }
    }
}

} // namespace

#define ADN_ENTRY_cross_entropy_forward(name, T, block, a, b, c, d, e, f)                                              \
    ADN_KERNEL(name, block)                                                                                            \
    (const T *x, const void *labels, float *loss, adn_loss_partial *partial, const __grid_constant__ Params p)         \
    {                                                                                                                  \
        forward<T, block, a>(x, labels, loss, partial, p);                                                             \
    }
#define ADN_ENTRY_cross_entropy_finish(name, T, block, a, b, c, d, e, f)                                               \
    ADN_KERNEL(name, block)(const adn_loss_partial *partial, float *loss, const __grid_constant__ Params p)            \
    {                                                                                                                  \
        finish<block>(partial, loss, p);                                                                               \
    }
#define ADN_ENTRY_cross_entropy_count(name, T, block, a, b, c, d, e, f)                                                \
    ADN_KERNEL(name, block)(const void *labels, adn_loss_partial *partial, const __grid_constant__ Params p)           \
    {                                                                                                                  \
        count<block>(labels, partial, p);                                                                              \
    }
#define ADN_ENTRY_cross_entropy_backward(name, T, block, a, b, c, d, e, f)                                             \
    ADN_KERNEL(name, block)                                                                                            \
    (const T *x, const void *labels, const float *dloss, T *dx, const adn_loss_partial *partial,                       \
     const __grid_constant__ Params p)                                                                                 \
    {                                                                                                                  \
        backward<T, block, a>(x, labels, dloss, dx, partial, p);                                                       \
    }
#include "../common/engines/cross_entropy.variants"
