/* SPDX-License-Identifier: Apache-2.0
 * kernels_cl/batchnorm.cl: batch normalisation, training, inference and backward, spatial and per activation; the same
 * stages as kernels_cuda/batchnorm.cu.
 *
 * A team of work items takes a feature, or a chunk of it (batchnorm_params.h). Stages of a launch, switched at run
 * time:
 *   1. mean and sum of squared deviations: N elements at a time in two passes over registers, then pairwise joins
 *      (Chan, Golub, LeVeque 1983) in the work item and along the team; or joined from partial results; or given
 *   2. backward: sum dy and sum dy * (x - mean), or joined from partial results
 *   3. partial results are written, or the outputs: the first chunk's group writes statistics and gradients
 * Moments are taken of x - pivot, the row's first element, so that a mean far above the deviation costs no digits.
 * In place is safe: the pivot travels with the partial results, and stage 3 reads and writes an element by the same
 * work item. Any strides. */
#include "prelude.clh"
#include "team.clh"
#include "../common/engines/batchnorm_params.h"

#define N ADN_C0
#define LOAD(x, s, v)                                                                                                  \
    do {                                                                                                               \
        for (int k_ = 0; k_ < N; k_++) v[k_] = 0.0f;                                                                   \
        ADN_TEAM_ITEMS(k, N, i, at, team, end) v[k] = ADN_LOAD(x, ADN_ITEM_OFFSET(p.walk, p.data[s], i));              \
    } while (0)
#define STORE(y, s, v)                                                                                                 \
    ADN_TEAM_ITEMS(k, N, i, at, team, end)                                                                             \
    ADN_STORE_SCALED(y, ADN_ITEM_OFFSET(p.walk, p.data[s], i), v[k], p.alpha, p.beta)
#define PARAMETER(t, which) t[ADN_ROW_OFFSET(p.walk, p.parameter[which], row)]
/* A gradient of parameters with its factors; what was there before is read only where it counts. */
#define SCALED(v, old)                                                                                                 \
    ((p.param_alpha != 0.0f ? p.param_alpha * (v) : 0.0f) + (p.param_beta != 0.0f ? p.param_beta * (old) : 0.0f))

/* Moments are a float4 of count, mean and sum of squared deviations. */
ADN_FN float4 join_moments(float4 a, float4 b)
{
    const float n = a.x + b.x, delta = b.y - a.y, w = b.x / n;
    if (a.x == 0.0f) return b;
    if (b.x == 0.0f) return a;
    return (float4)(n, a.y + delta * w, a.z + b.z + delta * delta * a.x * w, 0.0f);
}

/* join_moments of a long row and a few elements behind it: what the additions round off is kept in *lost and comes back
 * with the next. */
ADN_FN float4 add_moments(float4 a, float4 b, float2 *lost)
{
    const float n = a.x + b.x, delta = b.y - a.y, w = b.x / n;
    const float2 old = (float2)(a.y, a.z), more = (float2)(delta * w, b.z + delta * delta * a.x * w) - *lost;
    const float2 next = old + more;
    if (a.x == 0.0f) return b;
    *lost = (next - old) - more;
    if (!isfinite(next.x)) lost->x = 0.0f;
    if (!isfinite(next.y)) lost->y = 0.0f;
    return (float4)(n, next.x, next.y, 0.0f);
}

/* Joins the first `count` of N elements less the pivot. */
ADN_FN float4 take_moments(float4 a, const float *v, float pivot, int count, float2 *lost)
{
    float4 b = (float4)((float)count, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < N; k++)
        if (k < count) b.y += v[k] - pivot;
    b.y = count == N ? b.y * (1.0f / N) : b.y / b.x;
    for (int k = 0; k < N; k++)
        if (k < count) b.z += (v[k] - pivot - b.y) * (v[k] - pivot - b.y);
    return add_moments(a, b, lost);
}

ADN_FN float4 join_sums(float4 a, float4 b)
{
    return a + b;
}

/* How many of this work item's next N elements lie below end. */
ADN_FN int present(long at, struct adn_team team, long end)
{
    int count = 0;
    for (int k = 0; k < N; k++) count += at + team.part + k * team.parts < end;
    return count;
}

/* Shared beginnings: the work item's row and its chunk [first, end), empty beyond the last row. */
#define SHARE                                                                                                          \
    const long group = item / p.splits, split = item - group * p.splits;                                               \
    const long row = group * team.rows + team.row, first = split * p.chunk;                                            \
    const int valid = row < p.walk.rows;                                                                               \
    const long end = valid ? first + adn_batchnorm_count(p.walk.length, p.chunk, split) : first

/* First element of the row, 0 where that is not finite. */
ADN_FN float pivot_of(__global const ADN_T *x, int there)
{
    const float v = there ? ADN_LOAD(x, 0) : 0.0f;
    return fabs(v) < INFINITY ? v : 0.0f;
}

#define MOMENTS(from, v, a)                                                                                            \
    {                                                                                                                  \
        float2 lost = (float2)(0.0f);                                                                                  \
        pivot = pivot_of(from, end > first);                                                                           \
        for (long at = first; at < end; at += step) {                                                                  \
            const int count = present(at, team, end);                                                                  \
            LOAD(from, ADN_BATCHNORM_X, v);                                                                            \
            if (count > 0) a = take_moments(a, v, pivot, count, &lost);                                                \
        }                                                                                                              \
    }
/* Pivots of the rows lie behind the partial moments. */
#define PIVOTS(type, partial) ((type *)(partial + p.splits * p.walk.rows))
#define PARTIAL_MOMENTS(partial, a)                                                                                    \
    {                                                                                                                  \
        if (valid) pivot = PIVOTS(__global const float, partial)[row];                                                 \
        for (int j = team.part; valid && j < p.splits; j += team.parts) {                                              \
            const float2 q = partial[j * p.walk.rows + row];                                                           \
            const float n_j = (float)adn_batchnorm_count(p.walk.length, p.chunk, j);                                   \
            a = join_moments(a, (float4)(n_j, q.x, q.y, 0.0f));                                                        \
        }                                                                                                              \
    }

ADN_KERNEL(batchnorm_forward)
(ADN_IN(x), ADN_OUT(y), ADN_IN(gamma), ADN_IN(shift), ADN_OUT(running_mean), ADN_OUT(running_var), ADN_OUT(saved_mean),
 ADN_OUT(saved_invstd), ADN_OUT(partial), struct adn_batchnorm_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_OUT(ADN_T, y);
    ADN_PTR_IN(float, gamma);
    ADN_PTR_IN(float, shift);
    ADN_PTR_OUT(float, running_mean);
    ADN_PTR_OUT(float, running_var);
    ADN_PTR_OUT(float, saved_mean);
    ADN_PTR_OUT(float, saved_invstd);
    ADN_PTR_OUT(float2, partial);
    ADN_TEAM_SCRATCH(float4, scratch);
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    const long items = p.walk.groups * p.splits, step = (long)team.parts * N;
    for (long item = get_group_id(0); item < items; item += get_num_groups(0)) {
        SHARE;
        __global const ADN_T *from = x + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_X], row);
        __global ADN_T *to = y + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_Y], row);
        const int given = p.statistics == ADN_BATCHNORM_FROM_TENSORS;
        const int resident = p.statistics == ADN_BATCHNORM_FROM_DATA && end - first <= step;
        float4 a = (float4)(0.0f);
        float v[N], var = 0.0f, pivot = 0.0f, invstd, scale, offset;
        for (int k = 0; k < N; k++) v[k] = 0.0f;
        if (p.statistics == ADN_BATCHNORM_FROM_DATA) MOMENTS(from, v, a)
        if (p.statistics == ADN_BATCHNORM_FROM_PARTIALS) PARTIAL_MOMENTS(partial, a)
        ADN_TEAM_JOIN(join_moments, a, scratch, team);
        if (valid && !p.finish && team.part == 0) {
            partial[split * p.walk.rows + row] = (float2)(a.y, a.z);
            if (split == 0) PIVOTS(__global float, partial)[row] = pivot;
        }
        if (valid && p.finish) {
            if (p.walk.length > 0) var = a.z / (float)p.walk.length;
            if (given) {
                pivot = PARAMETER(running_mean, ADN_BATCHNORM_RUNNING_MEAN);
                var = PARAMETER(running_var, ADN_BATCHNORM_RUNNING_VAR);
            }
            invstd = 1.0f / sqrt(var + p.epsilon);
            if (!given && split == 0 && team.part == 0) {
                if (p.has_saved) {
                    PARAMETER(saved_mean, ADN_BATCHNORM_SAVED_MEAN) = pivot + a.y;
                    PARAMETER(saved_invstd, ADN_BATCHNORM_SAVED_INVSTD) = invstd;
                }
                if (p.has_running && p.walk.length > 0) {
                    const float keep = 1.0f - p.factor;
                    const float unbiased = p.walk.length > 1 ? a.z / (float)(p.walk.length - 1) : 0.0f;
                    const float old_mean = PARAMETER(running_mean, ADN_BATCHNORM_RUNNING_MEAN);
                    const float old_var = PARAMETER(running_var, ADN_BATCHNORM_RUNNING_VAR);
                    PARAMETER(running_mean, ADN_BATCHNORM_RUNNING_MEAN) = keep * old_mean + p.factor * (pivot + a.y);
                    PARAMETER(running_var, ADN_BATCHNORM_RUNNING_VAR) = keep * old_var + p.factor * unbiased;
                }
            }
            scale = PARAMETER(gamma, ADN_BATCHNORM_GAMMA) * invstd;
            offset = PARAMETER(shift, ADN_BATCHNORM_SHIFT);
            for (long at = first; at < end; at += step) {
                if (!resident && p.alpha != 0.0f) LOAD(from, ADN_BATCHNORM_X, v);
                for (int k = 0; k < N; k++) v[k] = p.alpha == 0.0f ? 0.0f : (v[k] - pivot - a.y) * scale + offset;
                STORE(to, ADN_BATCHNORM_Y, v);
            }
        }
    }
}

ADN_KERNEL(batchnorm_backward)
(ADN_IN(x), ADN_IN(dy), ADN_OUT(dx), ADN_IN(gamma), ADN_IN(saved_mean), ADN_IN(saved_invstd), ADN_OUT(dgamma),
 ADN_OUT(dshift), ADN_IN(moments), ADN_OUT(partial), struct adn_batchnorm_params p)
{
    ADN_PTR_IN(ADN_T, x);
    ADN_PTR_IN(ADN_T, dy);
    ADN_PTR_OUT(ADN_T, dx);
    ADN_PTR_IN(float, gamma);
    ADN_PTR_IN(float, saved_mean);
    ADN_PTR_IN(float, saved_invstd);
    ADN_PTR_OUT(float, dgamma);
    ADN_PTR_OUT(float, dshift);
    ADN_PTR_IN(float2, moments);
    ADN_PTR_OUT(float2, partial);
    ADN_TEAM_SCRATCH(float4, scratch);
    const struct adn_team team = adn_team_of(p.walk.parts_log2, p.walk.lanes);
    const long items = p.walk.groups * p.splits, step = (long)team.parts * N;
    for (long item = get_group_id(0); item < items; item += get_num_groups(0)) {
        SHARE;
        __global const ADN_T *from = x + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_X], row);
        __global const ADN_T *gradient = dy + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_DY], row);
        __global ADN_T *to = dx + ADN_ROW_OFFSET(p.walk, p.data[ADN_BATCHNORM_DX], row);
        const int given = p.statistics == ADN_BATCHNORM_FROM_TENSORS;
        const int resident = p.sums == ADN_BATCHNORM_FROM_DATA && end - first <= step;
        const float n = (float)p.walk.length;
        float4 a = (float4)(0.0f), b = (float4)(0.0f);
        float v[N], g[N], invstd, pivot = 0.0f;
        for (int k = 0; k < N; k++) v[k] = g[k] = 0.0f;
        if (p.statistics == ADN_BATCHNORM_FROM_DATA) MOMENTS(from, v, a)
        if (p.statistics == ADN_BATCHNORM_FROM_PARTIALS) PARTIAL_MOMENTS(moments, a)
        ADN_TEAM_JOIN(join_moments, a, scratch, team);
        invstd = 1.0f / sqrt(a.z / n + p.epsilon);
        if (given && valid) {
            pivot = PARAMETER(saved_mean, ADN_BATCHNORM_SAVED_MEAN);
            invstd = PARAMETER(saved_invstd, ADN_BATCHNORM_SAVED_INVSTD);
        }
        if (p.sums == ADN_BATCHNORM_FROM_DATA) {
            float2 lost = (float2)(0.0f); /* what each addition rounds off comes back with the next */
            for (long at = first; at < end; at += step) {
                const int count = present(at, team, end);
                LOAD(from, ADN_BATCHNORM_X, v);
                LOAD(gradient, ADN_BATCHNORM_DY, g);
                float2 c = -lost, next;
                for (int k = 0; k < N; k++) {
                    c.x += g[k];
                    if (k < count) c.y += g[k] * (v[k] - pivot - a.y);
                }
                next = b.xy + c;
                lost = (next - b.xy) - c;
                if (!isfinite(next.x)) lost.x = 0.0f;
                if (!isfinite(next.y)) lost.y = 0.0f;
                b.xy = next;
            }
        } else {
            for (int j = team.part; valid && j < p.splits; j += team.parts) b.xy += partial[j * p.walk.rows + row];
        }
        ADN_TEAM_JOIN(join_sums, b, scratch, team);
        if (valid && !p.finish && team.part == 0) partial[split * p.walk.rows + row] = b.xy;
        if (valid && p.finish) {
            const float scale = PARAMETER(gamma, ADN_BATCHNORM_GAMMA) * invstd;
            const float mean_dy = b.x / n, slope = b.y * invstd / n * invstd;
            if (split == 0 && team.part == 0) {
                const float whole = p.walk.length > 0 ? b.y * invstd : 0.0f;
                PARAMETER(dgamma, ADN_BATCHNORM_DGAMMA) = SCALED(whole, PARAMETER(dgamma, ADN_BATCHNORM_DGAMMA));
                PARAMETER(dshift, ADN_BATCHNORM_DSHIFT) = SCALED(b.x, PARAMETER(dshift, ADN_BATCHNORM_DSHIFT));
            }
            for (long at = first; at < end; at += step) {
                if (!resident && p.alpha != 0.0f) {
                    LOAD(from, ADN_BATCHNORM_X, v);
                    LOAD(gradient, ADN_BATCHNORM_DY, g);
                }
                for (int k = 0; k < N; k++)
                    v[k] = p.alpha == 0.0f ? 0.0f : scale * (g[k] - mean_dy - (v[k] - pivot - a.y) * slope);
                STORE(to, ADN_BATCHNORM_DX, v);
            }
        }
    }
}
