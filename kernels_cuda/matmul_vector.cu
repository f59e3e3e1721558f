// SPDX-License-Identifier: Apache-2.0
// kernels_cuda/matmul_vector.cu: a matrix times 1 to 4 vectors (common/engines/matmul_vector_params.h), any strides and
// batches.
//
// Stages   A team of `parts` threads sums up LINES lines. Along the depth: neighbouring threads take units of WIDTH
// depths
//          of a line. Across the lines: neighbouring threads take units of WIDTH lines, and the parts of a team every
//          parts-th depth. Teams join their sums in shared memory, a few at a time, along a fixed tree. Splits of the
//          depth write float partial sums, which matmul_vector_sum adds up in order.
// Limits   None: sizes, offsets and tile numbers are 64 bits; blocks stride over tiles.
#include "pack.cuh"
#include "../common/engines/matmul_vector_params.h"

// One finished sum.
template <typename T>
__device__ __forceinline__ void vector_store(float sum, adn_i64 line, int c, const adn_vector_place &t, const T *bias,
                                             T *y, float *parts, const adn_matmul_vector_params &p)
{
    const adn_i64 at = t.y + line * p.y_line + c * p.y_few;
    float v = p.alpha * sum;
    if (p.splits > 1) {
        parts[t.split * p.part + (t.batch * p.lines + line) * p.few + c] = sum;
        return;
    }
    if (p.biased) v += adn_load(bias, line * p.bias_line + c * p.bias_few);
    if (p.beta != 0.0f) v += p.beta * adn_load(y, at);
    adn_store(y, at, v);
}

// The share of this thread in the sums of its lines, from `line` on. Lines and vectors that do not exist repeat the
// last one, and are never stored.
template <typename T, int FEW, bool ACROSS, int WIDTH, int LINES>
__device__ __forceinline__ void vector_sums(float (&sum)[LINES * FEW], adn_i64 line, int part,
                                            const adn_vector_place &t, const T *l, const T *s,
                                            const adn_matmul_vector_params &p)
{
    const int threads = 1 << p.parts_log2;
    const T *vectors[FEW];
#pragma unroll
    for (int j = 0; j < LINES * FEW; j++) sum[j] = 0.0f;
#pragma unroll
    for (int c = 0; c < FEW; c++) vectors[c] = s + (t.s + min(c, p.few - 1) * p.s_few);
    if (ACROSS) {
        l += t.l + min(line, p.lines - LINES) * p.l_line;
#pragma unroll 4
        for (adn_i64 k = t.begin + part; k < t.end; k += threads) {
            float lv[WIDTH];
            adn_load_pack<T, WIDTH>(l, k * p.l_depth, false, lv);
#pragma unroll
            for (int c = 0; c < FEW; c++) {
                const float sv = adn_load(vectors[c], k * p.s_depth);
#pragma unroll
                for (int w = 0; w < WIDTH && w < LINES; w++) sum[w * FEW + c] += lv[w] * sv;
            }
        }
    } else {
        const T *from[LINES];
#pragma unroll
        for (int j = 0; j < LINES; j++) from[j] = l + (t.l + min(line + j, p.lines - 1) * p.l_line);
        for (adn_i64 k = t.begin + part * WIDTH; k < t.end; k += threads * WIDTH) {
            float lv[LINES][WIDTH], sv[WIDTH];
#pragma unroll
            for (int j = 0; j < LINES; j++) adn_load_pack<T, WIDTH>(from[j], k * p.l_depth, false, lv[j]);
#pragma unroll
            for (int c = 0; c < FEW; c++) {
                if (p.s_packed) {
                    adn_load_pack<T, WIDTH>(vectors[c], k, false, sv);
                } else {
#pragma unroll
                    for (int w = 0; w < WIDTH; w++) sv[w] = adn_load(vectors[c], (k + w) * p.s_depth);
                }
#pragma unroll
                for (int j = 0; j < LINES; j++)
#pragma unroll
                    for (int w = 0; w < WIDTH; w++) sum[j * FEW + c] += lv[j][w] * sv[w];
            }
        }
    }
}

template <typename T, int BLOCK, int FEW, bool ACROSS, int WIDTH, int LINES>
__device__ __forceinline__ void matmul_vector(const T *l, const T *s, const T *bias, T *y, float *parts,
                                              const adn_matmul_vector_params &p)
{
    constexpr int SUMS = LINES * FEW, CHUNK = SUMS < 8 ? SUMS : 8;
    __shared__ float scratch[CHUNK * BLOCK];
    const int id = threadIdx.x, threads = 1 << p.parts_log2, teams = BLOCK >> p.parts_log2;
    const int team = ACROSS ? id & (teams - 1) : id >> p.parts_log2;
    const int part = ACROSS ? id / teams : id & (threads - 1);
    const int first_step = ACROSS ? 1 : threads, part_step = ACROSS ? teams : 1;
    for (adn_i64 number = blockIdx.x; number < p.tiles; number += gridDim.x) {
        const adn_vector_place t = adn_vector_place_of(number, teams * LINES, &p);
        float sum[SUMS];
        vector_sums<T, FEW, ACROSS, WIDTH, LINES>(sum, t.line + team * LINES, part, t, l, s, p);
#pragma unroll
        for (int chunk = 0; chunk < SUMS; chunk += CHUNK) {
#pragma unroll
            for (int e = 0; e < CHUNK; e++) scratch[e * BLOCK + id] = sum[chunk + e];
            __syncthreads();
            for (int half = threads / 2; half > 0; half /= 2) {
                if (part < half) {
#pragma unroll
                    for (int e = 0; e < CHUNK; e++)
                        scratch[e * BLOCK + id] += scratch[e * BLOCK + id + half * part_step];
                }
                __syncthreads();
            }
            for (int i = id; i < CHUNK * teams; i += BLOCK) {
                const int number_of_sum = chunk + i / teams, c = number_of_sum % FEW;
                const adn_i64 line = t.line + i % teams * LINES + number_of_sum / FEW;
                if (line < p.lines && c < p.few)
                    vector_store(scratch[i / teams * BLOCK + i % teams * first_step], line, c, t, bias, y, parts, p);
            }
            __syncthreads();
        }
    }
}

// One thread for each output: partial sums in the order of the splits.
template <typename T, int BLOCK>
__device__ __forceinline__ void matmul_vector_sum(const float *parts, const T *bias, T *y,
                                                  const adn_matmul_vector_params &p)
{
    for (adn_i64 i = (adn_i64)blockIdx.x * BLOCK + threadIdx.x; i < p.part; i += (adn_i64)gridDim.x * BLOCK) {
        const adn_i64 number = i / p.few, c = i - number * p.few;
        const adn_i64 batch = number / p.lines, line = number - batch * p.lines;
        adn_vector_place t;
        adn_vector_batch(batch, &t, &p);
        const adn_i64 at = t.y + line * p.y_line + c * p.y_few;
        float sum = 0.0f;
        for (adn_i64 s = 0; s < p.splits; s++) sum += parts[s * p.part + i];
        sum *= p.alpha;
        if (p.biased) sum += adn_load(bias, line * p.bias_line + c * p.bias_few);
        if (p.beta != 0.0f) sum += p.beta * adn_load(y, at);
        adn_store(y, at, sum);
    }
}

// At most 128 registers a thread, said so that the compiler does not spill to get by with fewer.
#define ADN_ENTRY_matmul_vector(name, T, block, few, across, width, lines, e, f)                                       \
    extern "C" __global__ void __launch_bounds__(block, 512 / block) name(                                             \
        const T *l, const T *s, const T *bias, T *y, float *parts, const __grid_constant__ adn_matmul_vector_params p) \
    {                                                                                                                  \
        matmul_vector<T, block, few, across != 0, width, lines>(l, s, bias, y, parts, p);                              \
    }
#define ADN_ENTRY_matmul_vector_sum(name, T, block, a, b, c, d, e, f)                                                  \
    ADN_KERNEL(name, block)                                                                                            \
    (const float *parts, const T *bias, T *y, const __grid_constant__ adn_matmul_vector_params p)                      \
    {                                                                                                                  \
        matmul_vector_sum<T, block>(parts, bias, y, p);                                                                \
    }
#define ADN_VARIANT_CL(...)
#include "../common/engines/matmul_vector.variants"
