/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/cross_entropy.cl: softmax and cross entropy in one, forward and backward; the same stages as
 * kernels_cuda/cross_entropy.cu.
 *
 *   cross_entropy_forward   a team of work items for each row (team_params.h) finds maximum and sum of exponentials in
 *                           one read; row losses are stored, or added up by the group in order: to one partial result
 * for each group, or to the loss itself when there is one group cross_entropy_finish    one group adds the partial
 * results cross_entropy_count     counts labels, one partial result for each group cross_entropy_backward  counted rows
 * from the partial results, or by reading all labels; then as softmax Labels below 0 leave their row out; labels of C
 * or more give NaN and read nothing. In place (dx on x) is safe. */
#include "prelude.clh"
#include "block_reduce.clh"
#include "logits.clh"
#include "../common/engines/cross_entropy_params.h"

#define N ADN_C0
#define LOAD(x, s, v)                                                                                                  \
    do {                                                                                                               \
        for (int k_ = 0; k_ < N; k_++) v[k_] = -INFINITY;                                                              \
        ADN_TEAM_ITEMS(k, N, i, first, team, length)                                                                   \
        v[k] = ADN_LOAD(x, ADN_ITEM_OFFSET(p.walk, p.stride[s].stride, i));                                            \
    } while (0)

/* Logits are a float4 of max, sum of exp(x - max), count, and sum of x - max for label smoothing. */
ADN_FN float4 join_row(float4 a, float4 b)
{
    float4 r = adn_logits_join(a, b);
    const float p = adn_pivot(r.x);
    r.w = a.w + a.z * (adn_pivot(a.x) - p) + b.w + b.z * (adn_pivot(b.x) - p);
    return r;
}

/* Takes the N logits of v, the last of them absent (-inf) from `count` on. */
ADN_FN float4 take_row(float4 a, const float *v, int count)
{
    float4 r = adn_logits_take(a, v, N);
    const float p = adn_pivot(r.x);
    r.w = a.w + a.z * (adn_pivot(a.x) - p);
    for (int k = 0; k < N; k++)
        if (k < count) r.w += v[k] - p;
    r.z = a.z + (float)count;
    return r;
}

ADN_FN long block_count(long v, __local long *scratch)
{
    ADN_BLOCK_TREE(ADN_JOIN_SUM);
}

#define LABEL(row) label_at(labels, ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row), p.wide_labels)
ADN_FN long label_at(__global const uchar *labels, long at, int wide)
{
    return wide ? ((__global const long *)labels)[at] : ((__global const int *)labels)[at];
}

ADN_FN float total(float sum, long count, int mean)
{
    if (!mean) return sum;
    return count > 0 ? sum / (float)count : 0.0f;
}

ADN_KERNEL(cross_entropy_forward)
(ADN_IN(x), ADN_IN(labels), ADN_OUT(loss), ADN_OUT(partial), struct adn_cross_entropy_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_IN(uchar, labels);
    ADN_PTR_OUT(float, loss);
    ADN_PTR_OUT(struct adn_loss_partial, partial);
    ADN_TEAM_SCRATCH(float4, scratch);
    __local float sums[ADN_BLOCK];
    __local long counts[ADN_BLOCK];
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    const long step = (long)team.parts * N;
    const float e = p.smoothing;
    float sum = 0.0f;
    long count = 0;
    for (long group = get_group_id(0); group < p.walk.groups; group += get_num_groups(0)) {
        const long row = group * team.rows + team.row;
        const long label = row < p.walk.rows ? LABEL(row) : -1, length = label >= 0 ? p.walk.length : 0;
        __global const ADN_T *from = x + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        float4 a = ADN_LOGITS_NONE, aside = a;
        int takes = 0;
        for (long first = 0; first < length; first += step) {
            float v[N];
            int present = 0;
            if (takes++ == ADN_LOGITS_TAKES) {
                aside = join_row(aside, a);
                a = ADN_LOGITS_NONE;
                takes = 1;
            }
            LOAD(from, 0, v);
            for (int k = 0; k < N; k++) present += first + team.part + k * team.parts < length;
            a = take_row(a, v, present);
        }
        if (length > ADN_LOGITS_TAKES * step) a = join_row(aside, a);
        ADN_TEAM_JOIN(join_row, a, scratch, team);
        if (team.part == 0 && row < p.walk.rows) {
            const float log_sum = log(a.y);
            float l = 0.0f;
            /* A coefficient of 0 drops its term: log p may be -inf there. */
            if (label >= p.walk.length || (label >= 0 && !adn_logits_valid(a))) {
                l = NAN;
            } else if (label >= 0) {
                if (e < 1.0f) l = -(1.0f - e) * (ADN_LOAD(from, label * p.x_class) - a.x - log_sum);
                if (e > 0.0f) l -= e * (a.w / a.z - log_sum);
            }
            sum += l;
            count += label >= 0;
            if (p.emit == ADN_LOSS_EMIT_ROWS) loss[ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row)] = l;
        }
    }
    sum = adn_block_sum(sum, sums);
    count = block_count(count, counts);
    if (get_local_id(0) == 0 && p.walk.groups > 0) {
        if (p.emit == ADN_LOSS_EMIT_TOTAL) loss[0] = total(sum, count, p.mean);
        if (p.emit == ADN_LOSS_EMIT_PARTIALS) {
            partial[get_group_id(0)].count = count;
            partial[get_group_id(0)].sum = sum;
        }
    }
}

ADN_KERNEL(cross_entropy_finish)(ADN_IN(partial), ADN_OUT(loss), struct adn_cross_entropy_params p)
{
    ADN_PTR_IN(struct adn_loss_partial, partial);
    ADN_PTR_OUT(float, loss);
    __local float sums[ADN_BLOCK];
    __local long counts[ADN_BLOCK];
    float sum = 0.0f;
    long count = 0;
    for (int i = get_local_id(0); i < p.partials; i += ADN_BLOCK) {
        sum += partial[i].sum;
        count += partial[i].count;
    }
    sum = adn_block_sum(sum, sums);
    count = block_count(count, counts);
    if (get_local_id(0) == 0 && p.emit == ADN_LOSS_EMIT_TOTAL) loss[0] = total(sum, count, p.mean);
}

ADN_KERNEL(cross_entropy_count)(ADN_IN(labels), ADN_OUT(partial), struct adn_cross_entropy_params p)
{
    ADN_PTR_IN(uchar, labels);
    ADN_PTR_OUT(struct adn_loss_partial, partial);
    __local long counts[ADN_BLOCK];
    long n = 0;
    for (long row = get_global_id(0); row < p.walk.rows; row += get_global_size(0)) n += LABEL(row) >= 0;
    n = block_count(n, counts);
    if (get_local_id(0) == 0 && p.walk.rows > 0) {
        partial[get_group_id(0)].count = n;
        partial[get_group_id(0)].sum = 0.0f;
    }
}

ADN_KERNEL(cross_entropy_backward)
(ADN_IN(x), ADN_IN(labels), ADN_IN(dloss), ADN_OUT(dx), ADN_IN(partial), struct adn_cross_entropy_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_IN(uchar, labels);
    ADN_PTR_IN(float, dloss);
    ADN_PTR_OUT(ADN_T, dx);
    ADN_PTR_IN(struct adn_loss_partial, partial);
    ADN_TEAM_SCRATCH(float4, scratch);
    __local long counts[ADN_BLOCK];
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    const long step = (long)team.parts * N;
    const float e = p.smoothing, share = e / (float)p.walk.length;
    long n = 0;
    float rows;
    if (p.mean && p.partials == 0)
        for (long row = get_local_id(0); row < p.walk.rows; row += ADN_BLOCK) n += LABEL(row) >= 0;
    for (int i = get_local_id(0); i < p.partials; i += ADN_BLOCK) n += partial[i].count;
    n = block_count(n, counts);
    rows = p.mean ? (float)n : 1.0f;
    for (long group = get_group_id(0); group < p.walk.groups; group += get_num_groups(0)) {
        const long row = group * team.rows + team.row;
        const long label = row < p.walk.rows ? LABEL(row) : -1, length = row < p.walk.rows ? p.walk.length : 0;
        const int reads = label >= 0 && label < length;
        __global const ADN_T *from = x + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        __global ADN_T *to = dx + ADN_ROW_OFFSET(p.walk, p.stride[3].stride, row);
        float4 a = ADN_LOGITS_NONE, aside = a;
        float v[N], g = 1.0f, top, scale;
        int takes = 0;
        for (int k = 0; k < N; k++) v[k] = 0.0f;
        for (long first = 0; first < length && reads; first += step) {
            if (takes++ == ADN_LOGITS_TAKES) {
                aside = adn_logits_join(aside, a);
                a = ADN_LOGITS_NONE;
                takes = 1;
            }
            LOAD(from, 0, v);
            a = adn_logits_take(a, v, N);
        }
        if (length > ADN_LOGITS_TAKES * step) a = adn_logits_join(aside, a);
        ADN_TEAM_JOIN(adn_logits_join, a, scratch, team);
        if (label >= 0 && p.has_dloss) g = dloss[ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row)];
        g /= rows;
        top = reads && adn_logits_valid(a) ? a.x : NAN;
        scale = 1.0f / a.y;
        for (long first = 0; first < length; first += step) {
            if (length > step && reads) LOAD(from, 0, v);
            for (int k = 0; k < N; k++) {
                const int hit = first + team.part + k * team.parts == label;
                v[k] = label < 0 ? 0.0f : (exp(v[k] - top) * scale - (hit ? 1.0f - e : 0.0f) - share) * g;
            }
            ADN_TEAM_ITEMS(k, N, i, first, team, length)
            ADN_STORE(to, ADN_ITEM_OFFSET(p.walk, p.stride[3].stride, i), v[k]);
        }
    }
}
