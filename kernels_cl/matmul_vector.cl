/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/matmul_vector.cl: a matrix times 1 to 4 vectors: the stages of kernels_cuda/matmul_vector.cu, and a shape
 * for CPUs.
 *
 * Kernels  matmul_vector (a block: GPU shape), matmul_vector_cpu (block 1), matmul_vector_sum (C0 = 0).
 * Limits   None: sizes, offsets and tile numbers are 64 bits; groups stride over tiles. */
#include "prelude.clh"
#include "../common/engines/matmul_vector_params.h"

#define ADN_FEW ADN_C0
#define ADN_ACROSS ADN_C1
#define ADN_LINES ADN_C3 /* of a work item */

#if ADN_C0 > 0
/* One finished sum. */
ADN_FN void vector_store(float sum, adn_i64 line, int c, const struct adn_vector_place *t, __global const ADN_T *bias,
                         __global ADN_T *y, __global float *parts, const struct adn_matmul_vector_params *p)
{
    const adn_i64 at = t->y + line * p->y_line + c * p->y_few;
    float v = p->alpha * sum;
    if (p->splits > 1) {
        parts[t->split * p->part + (t->batch * p->lines + line) * p->few + c] = sum;
        return;
    }
    if (p->biased) v += ADN_LOAD(bias, line * p->bias_line + c * p->bias_few);
    if (p->beta != 0.0f) v += p->beta * ADN_LOAD(y, at);
    ADN_STORE(y, at, v);
}
#endif

#if ADN_C0 > 0 && ADN_BLOCK > 1
#define ADN_WIDTH ADN_C2
#include "pack.clh"
#define ADN_SUMS (ADN_LINES * ADN_FEW)
#define ADN_CHUNK (ADN_SUMS < 8 ? ADN_SUMS : 8)

#if ADN_WIDTH == 1
#define LOAD_UNIT(v, p, i) ((v)[0] = ADN_LOAD(p, i))
#else
#define LOAD_UNIT(v, p, i) ADN_CAT(vstore, ADN_WIDTH)(ADN_LOAD_PACK(p, i), 0, v)
#endif

/* The share of this work item in the sums of its lines, from `line` on. Lines and vectors that do not exist repeat the
 * last one, and are never stored. */
ADN_FN void vector_sums(float *sum, adn_i64 line, int part, const struct adn_vector_place *t, __global const ADN_T *l,
                        __global const ADN_T *s, const struct adn_matmul_vector_params *p)
{
    __global const ADN_T *vectors[ADN_FEW];
    const int threads = 1 << p->parts_log2;
    adn_i64 k;
    int j, c, w;
#pragma unroll
    for (j = 0; j < ADN_SUMS; j++) sum[j] = 0.0f;
#pragma unroll
    for (c = 0; c < ADN_FEW; c++) vectors[c] = s + (t->s + min(c, p->few - 1) * p->s_few);
#if ADN_ACROSS
    l += t->l + min(line, p->lines - ADN_LINES) * p->l_line;
#pragma unroll 4
    for (k = t->begin + part; k < t->end; k += threads) {
        float lv[ADN_WIDTH];
        LOAD_UNIT(lv, l, k * p->l_depth);
#pragma unroll
        for (c = 0; c < ADN_FEW; c++) {
            const float sv = ADN_LOAD(vectors[c], k * p->s_depth);
#pragma unroll
            for (w = 0; w < ADN_WIDTH; w++) sum[w * ADN_FEW + c] += lv[w] * sv;
        }
    }
#else
    __global const ADN_T *from[ADN_LINES];
#pragma unroll
    for (j = 0; j < ADN_LINES; j++) from[j] = l + (t->l + min(line + j, p->lines - 1) * p->l_line);
    for (k = t->begin + part * ADN_WIDTH; k < t->end; k += threads * ADN_WIDTH) {
        float lv[ADN_LINES][ADN_WIDTH], sv[ADN_WIDTH];
#pragma unroll
        for (j = 0; j < ADN_LINES; j++) LOAD_UNIT(lv[j], from[j], k * p->l_depth);
#pragma unroll
        for (c = 0; c < ADN_FEW; c++) {
            if (p->s_packed)
                LOAD_UNIT(sv, vectors[c], k);
            else
#pragma unroll
                for (w = 0; w < ADN_WIDTH; w++) sv[w] = ADN_LOAD(vectors[c], (k + w) * p->s_depth);
#pragma unroll
            for (j = 0; j < ADN_LINES; j++)
#pragma unroll
                for (w = 0; w < ADN_WIDTH; w++) sum[j * ADN_FEW + c] += lv[j][w] * sv[w];
        }
    }
#endif
}

ADN_KERNEL(matmul_vector)(ADN_IN(l), ADN_IN(s), ADN_IN(bias), ADN_OUT(y), ADN_OUT(parts),
                          struct adn_matmul_vector_params p)
{
    ADN_PTR_IN(ADN_T, l);
    ADN_PTR_IN(ADN_T, s);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_OUT(ADN_T, y);
    ADN_PTR_OUT(float, parts);
    __local float scratch[ADN_CHUNK * ADN_BLOCK];
    const int id = (int)get_local_id(0), threads = 1 << p.parts_log2, teams = ADN_BLOCK >> p.parts_log2;
    const int team = ADN_ACROSS ? id & (teams - 1) : id >> p.parts_log2;
    const int part = ADN_ACROSS ? id / teams : id & (threads - 1);
    const int first_step = ADN_ACROSS ? 1 : threads, part_step = ADN_ACROSS ? teams : 1;
    adn_i64 number;
    for (number = (adn_i64)get_group_id(0); number < p.tiles; number += (adn_i64)get_num_groups(0)) {
        const struct adn_vector_place t = adn_vector_place_of(number, teams * ADN_LINES, &p);
        float sum[ADN_SUMS];
        int chunk, half_team, e, i;
        vector_sums(sum, t.line + team * ADN_LINES, part, &t, l, s, &p);
#pragma unroll
        for (chunk = 0; chunk < ADN_SUMS; chunk += ADN_CHUNK) {
            for (e = 0; e < ADN_CHUNK; e++) scratch[e * ADN_BLOCK + id] = sum[chunk + e];
            barrier(CLK_LOCAL_MEM_FENCE);
            for (half_team = threads / 2; half_team > 0; half_team /= 2) {
                if (part < half_team)
                    for (e = 0; e < ADN_CHUNK; e++)
                        scratch[e * ADN_BLOCK + id] += scratch[e * ADN_BLOCK + id + half_team * part_step];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            for (i = id; i < ADN_CHUNK * teams; i += ADN_BLOCK) {
                const int number_of_sum = chunk + i / teams, c = number_of_sum % ADN_FEW;
                const adn_i64 line = t.line + i % teams * ADN_LINES + number_of_sum / ADN_FEW;
                if (line < p.lines && c < p.few)
                    vector_store(scratch[i / teams * ADN_BLOCK + i % teams * first_step], line, c, &t, bias, y, parts,
                                 &p);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
}
#endif

#if ADN_C0 > 0 && ADN_BLOCK == 1
/* 16 elements side by side, converted. */
#if defined(ADN_DTYPE_F32)
#define LOAD16(p) vload16(0, p)
#elif defined(ADN_DTYPE_F16)
#define LOAD16(p) vload_half16(0, p)
#else
#define LOAD16(p) as_float16(convert_uint16(vload16(0, p)) << 16u)
#endif

/* The first `count` of 16 elements, 0 for the others. */
ADN_FN float16 cpu_load(__global const ADN_T *from, adn_i64 step, adn_i64 count)
{
    float v[16];
    int i;
    if (step == 1 && count >= 16) return LOAD16(from);
    for (i = 0; i < 16; i++) v[i] = 0.0f;
    for (i = 0; i < 16 && i < count; i++) v[i] = ADN_LOAD(from, i * step);
    return vload16(0, v);
}

#if ADN_ACROSS
ADN_FN void cpu_sums(float *sum, const struct adn_vector_place *t, __global const ADN_T *l, __global const ADN_T *s,
                     const struct adn_matmul_vector_params *p)
{
    const adn_i64 lines = p->lines - t->line;
    float16 v[ADN_LINES / 16][ADN_FEW];
    adn_i64 k;
    int g, c, i;
    for (g = 0; g < ADN_LINES / 16; g++)
        for (c = 0; c < ADN_FEW; c++) v[g][c] = 0.0f;
    l += t->l + t->line * p->l_line, s += t->s;
    for (k = t->begin; k < t->end; k++) {
        float sv[ADN_FEW];
        for (c = 0; c < ADN_FEW; c++) sv[c] = ADN_LOAD(s, k * p->s_depth + min(c, p->few - 1) * p->s_few);
        for (g = 0; g < ADN_LINES / 16; g++) {
            const float16 lv = cpu_load(l + (k * p->l_depth + g * 16 * p->l_line), p->l_line, lines - g * 16);
            for (c = 0; c < ADN_FEW; c++) v[g][c] += lv * sv[c];
        }
    }
    for (g = 0; g < ADN_LINES / 16; g++)
        for (c = 0; c < ADN_FEW; c++) {
            float one[16];
            vstore16(v[g][c], 0, one);
            for (i = 0; i < 16; i++) sum[(g * 16 + i) * ADN_FEW + c] = one[i];
        }
}
#else
ADN_FN void cpu_sums(float *sum, const struct adn_vector_place *t, __global const ADN_T *l, __global const ADN_T *s,
                     const struct adn_matmul_vector_params *p)
{
    float16 v[ADN_LINES][ADN_FEW];
    adn_i64 k;
    int j, c;
    for (j = 0; j < ADN_LINES; j++)
        for (c = 0; c < ADN_FEW; c++) v[j][c] = 0.0f;
    l += t->l, s += t->s;
    for (k = t->begin; k < t->end; k += 16) {
        float16 sv[ADN_FEW];
        for (c = 0; c < ADN_FEW; c++)
            sv[c] = cpu_load(s + (k * p->s_depth + min(c, p->few - 1) * p->s_few), p->s_depth, t->end - k);
        for (j = 0; j < ADN_LINES; j++) {
            const adn_i64 line = min(t->line + j, p->lines - 1);
            const float16 lv = cpu_load(l + (line * p->l_line + k * p->l_depth), p->l_depth, t->end - k);
            for (c = 0; c < ADN_FEW; c++) v[j][c] += lv * sv[c];
        }
    }
    for (j = 0; j < ADN_LINES; j++)
        for (c = 0; c < ADN_FEW; c++) {
            const float8 a = v[j][c].lo + v[j][c].hi;
            const float4 b = a.lo + a.hi;
            sum[j * ADN_FEW + c] = (b.x + b.z) + (b.y + b.w);
        }
}
#endif

ADN_KERNEL(matmul_vector_cpu)(ADN_IN(l), ADN_IN(s), ADN_IN(bias), ADN_OUT(y), ADN_OUT(parts),
                              struct adn_matmul_vector_params p)
{
    ADN_PTR_IN(ADN_T, l);
    ADN_PTR_IN(ADN_T, s);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_OUT(ADN_T, y);
    ADN_PTR_OUT(float, parts);
    adn_i64 number;
    for (number = (adn_i64)get_group_id(0); number < p.tiles; number += (adn_i64)get_num_groups(0)) {
        const struct adn_vector_place t = adn_vector_place_of(number, ADN_LINES, &p);
        float sum[ADN_LINES * ADN_FEW];
        int j, c;
        cpu_sums(sum, &t, l, s, &p);
        for (j = 0; j < ADN_LINES && j < p.lines - t.line; j++)
            for (c = 0; c < ADN_FEW && c < p.few; c++)
                vector_store(sum[j * ADN_FEW + c], t.line + j, c, &t, bias, y, parts, &p);
    }
}
#endif

#if ADN_C0 == 0
/* One work item for each output: partial sums in the order of the splits. */
ADN_KERNEL(matmul_vector_sum)(ADN_IN(parts), ADN_IN(bias), ADN_OUT(y), struct adn_matmul_vector_params p)
{
    ADN_PTR_IN(float, parts);
    ADN_PTR_IN(ADN_T, bias);
    ADN_PTR_OUT(ADN_T, y);
    adn_i64 i, s;
    for (i = (adn_i64)get_global_id(0); i < p.part; i += (adn_i64)get_global_size(0)) {
        const adn_i64 number = i / p.few, c = i - number * p.few;
        const adn_i64 batch = number / p.lines, line = number - batch * p.lines;
        struct adn_vector_place t;
        adn_i64 at;
        float sum = 0.0f;
        adn_vector_batch(batch, &t, &p);
        at = t.y + line * p.y_line + c * p.y_few;
        for (s = 0; s < p.splits; s++) sum += parts[s * p.part + i];
        sum *= p.alpha;
        if (p.biased) sum += ADN_LOAD(bias, line * p.bias_line + c * p.bias_few);
        if (p.beta != 0.0f) sum += p.beta * ADN_LOAD(y, at);
        ADN_STORE(y, at, sum);
    }
}
#endif
