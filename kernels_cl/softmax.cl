/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/softmax.cl: softmax and log-softmax over any set of axes, forward and backward; the same stages as
 * kernels_cuda/softmax.cu.
 *
 * A team of work items takes a row (team_params.h): each reduces its elements (forward: running maximum and sum of
 * exponentials, in one read; backward: a sum), the team joins, each writes its elements. Rows of up to parts * N
 * elements stay in registers, longer ones are read twice. In place is safe: an element is read and written by the
 * same work item. Any strides. */
#include "prelude.clh"
#include "logits.clh"
#include "../common/engines/softmax_params.h"

#define N ADN_C0
#define LOAD(x, s, absent, v)                                                                                          \
    do {                                                                                                               \
        for (int k_ = 0; k_ < N; k_++) v[k_] = absent;                                                                 \
        ADN_TEAM_ITEMS(k, N, i, first, team, length)                                                                   \
        v[k] = ADN_LOAD(x, ADN_ITEM_OFFSET(p.walk, p.stride[s].stride, i));                                            \
    } while (0)
#define STORE(y, s, v)                                                                                                 \
    ADN_TEAM_ITEMS(k, N, i, first, team, length)                                                                       \
    ADN_STORE_SCALED(y, ADN_ITEM_OFFSET(p.walk, p.stride[s].stride, i), v[k], p.alpha, p.beta)

ADN_KERNEL(softmax_forward)(ADN_IN(x), ADN_OUT(y), struct adn_softmax_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_OUT(ADN_T, y);
    ADN_TEAM_SCRATCH(float4, scratch);
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    const long step = (long)team.parts * N;
    for (long group = get_group_id(0); group < p.walk.groups; group += get_num_groups(0)) {
        const long row = group * team.rows + team.row;
        const long length = row < p.walk.rows ? p.walk.length : 0;
        __global const ADN_T *from = x + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        __global ADN_T *to = y + ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row);
        float4 a = ADN_LOGITS_NONE, aside = a;
        float v[N], top, scale, log_sum;
        int takes = 0;
        for (int k = 0; k < N; k++) v[k] = 0.0f;
        for (long first = 0; first < length && p.alpha != 0.0f; first += step) {
            if (takes++ == ADN_LOGITS_TAKES) {
                aside = adn_logits_join(aside, a);
                a = ADN_LOGITS_NONE;
                takes = 1;
            }
            LOAD(from, 0, -INFINITY, v);
            a = adn_logits_take(a, v, N);
        }
        if (length > ADN_LOGITS_TAKES * step) a = adn_logits_join(aside, a);
        ADN_TEAM_JOIN(adn_logits_join, a, scratch, team);
        top = adn_logits_valid(a) ? a.x : NAN;
        scale = 1.0f / a.y;
        log_sum = log(a.y);
        for (long first = 0; first < length; first += step) {
            if (length > step && p.alpha != 0.0f) LOAD(from, 0, -INFINITY, v);
            for (int k = 0; k < N; k++) {
                v[k] = p.log ? v[k] - top - log_sum : exp(v[k] - top) * scale;
                if (p.alpha == 0.0f) v[k] = 0.0f;
            }
            STORE(to, 1, v);
        }
    }
}

ADN_FN float4 join_sum(float4 a, float4 b)
{
    return a + b;
}

ADN_KERNEL(softmax_backward)(ADN_IN(y), ADN_IN(dy), ADN_OUT(dx), struct adn_softmax_params p)
{
    ADN_PTR_IN(ADN_T, y);
    ADN_PTR_IN(ADN_T, dy);
    ADN_PTR_OUT(ADN_T, dx);
    ADN_TEAM_SCRATCH(float4, scratch);
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    const long step = (long)team.parts * N;
    for (long group = get_group_id(0); group < p.walk.groups; group += get_num_groups(0)) {
        const long row = group * team.rows + team.row;
        const long length = row < p.walk.rows ? p.walk.length : 0;
        __global const ADN_T *from = y + ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        __global const ADN_T *gradient = dy + ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row);
        __global ADN_T *to = dx + ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row);
        float4 a = (float4)(0.0f), aside = a;
        float v[N], g[N];
        int takes = 0;
        for (int k = 0; k < N; k++) v[k] = g[k] = 0.0f;
        for (long first = 0; first < length && p.alpha != 0.0f; first += step) {
            LOAD(from, 0, 0.0f, v);
            LOAD(gradient, 1, 0.0f, g);
            if (takes++ == ADN_LOGITS_TAKES) {
                aside += a;
                a = (float4)(0.0f);
                takes = 1;
            }
            for (int k = 0; k < N; k++) a.x += p.log ? g[k] : g[k] * v[k];
        }
        a += aside;
        ADN_TEAM_JOIN(join_sum, a, scratch, team);
        for (long first = 0; first < length; first += step) {
            if (length > step && p.alpha != 0.0f) {
                LOAD(from, 0, 0.0f, v);
                LOAD(gradient, 1, 0.0f, g);
            }
            for (int k = 0; k < N; k++) {
                v[k] = p.log ? g[k] - exp(v[k]) * a.x : v[k] * (g[k] - a.x);
                if (p.alpha == 0.0f) v[k] = 0.0f;
            }
            STORE(to, 2, v);
        }
    }
}
