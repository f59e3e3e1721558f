/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/reduce.cl: sums, maxima, minima and norms over any axes, sums of gradient expressions, and the backward
 * pass of the maximum. Parameters: common/engines/reduce_params.h. Constants: a width of a unit, b 0 sum or 1 maximum,
 * c terms, d the kernel of a program.
 *
 * Stages as in kernels_cuda/reduce.cu: a team of work items (team.clh) takes one segment of one row; each work item
 * joins every parts-th unit, in partial sums of 64 terms and sums of 64 of those; the team joins its work items along a
 * tree; its first one stores. On a CPU each row and segment is one work item's, without barriers. */
#define ADN_WIDTH ADN_C0
#include "prelude.clh"
#include "pack.clh"
#include "team.clh"
#include "block_reduce.clh"
#include "../common/engines/reduce_params.h"

#if ADN_C3 == 1
#if ADN_C1 == 0
#define IDENTITY 0.0f
#define JOIN(a, b) ((a) + (b))
#define JOIN_LANES JOIN
#else
#define IDENTITY (-INFINITY)
#define JOIN(a, b) larger(a, b)
#define JOIN_LANES adn_max_nan
ADN_FN ADN_VF larger(ADN_VF a, ADN_VF b) { return ((a > b) | isnan(a)) ? a : b; }
#if ADN_WIDTH > 1
#define WITH_SIGN(v, keep, flip) ADN_CAT(as_float, ADN_WIDTH)((ADN_CAT(as_uint, ADN_WIDTH)(v) & (keep)) ^ (flip))
#else
#define WITH_SIGN(v, keep, flip) as_float((as_uint(v) & (keep)) ^ (flip))
#endif
#endif

#if ADN_WIDTH > 1
#define SPLAT_OR_PACK(p, at, splat) ((splat) ? (ADN_VF)(ADN_LOAD(p, at)) : ADN_LOAD_PACK(p, at))
#else
#define SPLAT_OR_PACK(p, at, splat) ADN_LOAD(p, at)
#endif

#if ADN_C2
/* The term of v, a, b; `|` because conditions of vectors are vectors. */
#define FIRST_WINS(a, b) (((a) >= (b)) | isnan(a))
ADN_FN ADN_VF term_of(adn_i32 term, ADN_VF v, ADN_VF a, ADN_VF b)
{
    const ADN_VF zero = (ADN_VF)(0.0f);
    switch (term) {
    case ADN_TERM_NEGATIVE: return -v;
    case ADN_TERM_TIMES: return v * a;
    case ADN_TERM_OVER: return v / a;
    case ADN_TERM_QUOTIENT: return -(v / b) * (a / b);
    case ADN_TERM_MAX_A: return FIRST_WINS(a, b) ? v : zero;
    case ADN_TERM_MAX_B: return FIRST_WINS(a, b) ? zero : v;
    case ADN_TERM_MIN_A: return FIRST_WINS(-a, -b) ? v : zero;
    case ADN_TERM_MIN_B: return FIRST_WINS(-a, -b) ? zero : v;
    case ADN_TERM_MAGNITUDE: return fabs(v);
    case ADN_TERM_SQUARE: return v * v;
    default: return v;
    }
}
#endif

ADN_FN float load_old(__global const uchar *out, adn_i32 dtype, adn_i64 i)
{
    if (dtype == 1) return ADN_LOAD_F32((__global const float *)out, i);
    if (dtype == 2) return ADN_LOAD_F16((__global const half *)out, i);
    return ADN_LOAD_BF16((__global const ushort *)out, i);
}

ADN_FN void store_new(__global uchar *out, adn_i32 dtype, adn_i64 i, float v)
{
    if (dtype == 1) ADN_STORE_F32((__global float *)out, i, v);
    else if (dtype == 2) ADN_STORE_F16((__global half *)out, i, v);
    else ADN_STORE_BF16((__global ushort *)out, i, v);
}

ADN_FN float finished(adn_i32 finish, float v)
{
    switch (finish) {
    case ADN_FINISH_NEGATE: return -v;
    case ADN_FINISH_POSITIVE: return v < 0.0f ? 0.0f : v;
    case ADN_FINISH_ROOT: return sqrt(v);
    default: return v;
    }
}

ADN_KERNEL(reduce)(ADN_IN(v), ADN_IN(a), ADN_IN(b), ADN_OUT(out), struct adn_reduce_params p)
{
    ADN_PTR_IN(ADN_T, v);
#if ADN_C2
    ADN_PTR_IN(ADN_T, a);
    ADN_PTR_IN(ADN_T, b);
#endif
    ADN_PTR_OUT(uchar, out);
    ADN_TEAM_SCRATCH(ADN_VF, scratch);
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    for (adn_i64 task = (adn_i64)get_group_id(0); task < p.walk.groups * p.segments; task += (adn_i64)get_num_groups(0)) {
        const adn_i64 segment = p.segments > 1 ? task / p.walk.groups : 0;
        const adn_i64 row = (task - segment * p.walk.groups) * team.rows + team.row;
        const adn_i64 first = segment * p.segment, last = min((long)(first + p.segment), (long)p.walk.length);
        const adn_i64 end = row < p.walk.rows && !p.skip ? last : 0;
        const adn_i64 from = ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        const adn_i64 to = ADN_ROW_OFFSET(p.walk, p.stride[3].stride, row) + segment * p.out_segment;
#if ADN_C2
        const adn_i64 from_a = ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row);
        const adn_i64 from_b = ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row);
#endif
        ADN_VF total = (ADN_VF)(IDENTITY), middle = total;
        adn_i64 i = first + team.part;
        int flushes;
        for (flushes = 1; i < end; flushes++) {
            const adn_i64 stop = min((long)end, (long)(i + 64 * (adn_i64)team.parts));
            ADN_VF part = (ADN_VF)(IDENTITY);
            for (; i < stop; i += team.parts) {
                ADN_VF x = SPLAT_OR_PACK(v, from + ADN_ITEM_OFFSET(p.walk, p.stride[0].stride, i), p.splat & 1);
#if ADN_C2
                ADN_VF y = (ADN_VF)(0.0f), z = y;
                if (p.inputs > 1)
                    y = SPLAT_OR_PACK(a, from_a + ADN_ITEM_OFFSET(p.walk, p.stride[1].stride, i), p.splat & 2);
                if (p.inputs > 2)
                    z = SPLAT_OR_PACK(b, from_b + ADN_ITEM_OFFSET(p.walk, p.stride[2].stride, i), p.splat & 4);
                x = term_of(p.term, x, y, z);
#endif
#if ADN_C1 == 1
                x = WITH_SIGN(x, p.keep, p.flip);
#endif
                part = JOIN(part, x);
            }
            middle = JOIN(middle, part);
            if (flushes % 64 == 0) {
                total = JOIN(total, middle);
                middle = (ADN_VF)(IDENTITY);
            }
        }
        total = JOIN(total, middle);
        ADN_TEAM_JOIN(JOIN, total, scratch, team);
        if (row < p.walk.rows && team.part == 0) {
            float lane[ADN_WIDTH];
            int k;
#if ADN_WIDTH == 8
            vstore8(total, 0, lane);
#elif ADN_WIDTH == 4
            vstore4(total, 0, lane);
#else
            lane[0] = total;
#endif
            if (p.fold) {
                for (k = ADN_WIDTH / 2; k > 0; k /= 2)
                    for (int j = 0; j < k; j++) lane[j] = JOIN_LANES(lane[j], lane[j + k]);
            }
            for (k = 0; k < (p.fold ? 1 : ADN_WIDTH); k++) {
                const adn_i64 at = to + k * p.out_lane;
                float result = lane[k];
                if (p.last) {
                    result = p.skip ? 0.0f : p.alpha * finished(p.finish, result / p.divisor);
                    if (p.beta != 0.0f) result += p.beta * load_old(out, p.out_dtype, at);
                }
                store_new(out, p.out_dtype, at, result);
            }
        }
    }
}
#endif

#if ADN_C3 == 2
/* A team finds the first largest element of its row, then writes the row. */
ADN_KERNEL(reduce_max_backward)(ADN_IN(x), ADN_IN(dy), ADN_OUT(dx), struct adn_reduce_max_backward_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_IN(ADN_T, dy);
    ADN_PTR_OUT(ADN_T, dx);
    ADN_TEAM_SCRATCH(struct adn_best, scratch);
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    for (adn_i64 group = (adn_i64)get_group_id(0); group < p.walk.groups; group += (adn_i64)get_num_groups(0)) {
        const adn_i64 row = group * team.rows + team.row, end = row < p.walk.rows ? p.walk.length : 0;
        const adn_i64 from = ADN_ROW_OFFSET(p.walk, p.stride[0].stride, row);
        const adn_i64 to = ADN_ROW_OFFSET(p.walk, p.stride[2].stride, row);
        struct adn_best best;
        float gradient = 0.0f;
        adn_i64 i;
        best.value = 0.0f, best.pad = 0, best.index = -1;
        for (i = team.part; i < end && p.alpha != 0.0f; i += team.parts) {
            const float value = ADN_LOAD(x, from + ADN_ITEM_OFFSET(p.walk, p.stride[0].stride, i));
            if (adn_better(value, i, best.value, best.index)) best.value = value, best.index = i;
        }
        ADN_TEAM_JOIN(adn_join_best, best, scratch, team);
        if (best.index >= 0) gradient = ADN_LOAD(dy, ADN_ROW_OFFSET(p.walk, p.stride[1].stride, row));
        for (i = team.part; i < end; i += team.parts)
            ADN_STORE_SCALED(dx, to + ADN_ITEM_OFFSET(p.walk, p.stride[2].stride, i),
                             i == best.index ? gradient : 0.0f, p.alpha, p.beta);
    }
}
#endif
