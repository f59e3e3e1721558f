/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/ref.h: what the reference engines share: one run's tensors and scalars, walks by rows, parallel loops.
 *
 * Every engine is a run() over the canonical problem: it collects a struct with views and parameters on its stack and
 * hands ranges of independent outputs to the pool. All arithmetic is in double. */
#ifndef ADN_CPU_REF_H
#define ADN_CPU_REF_H
#include "common/backend.h"
#include "number.h"
#include "pool.h"

/* One tensor of a run; t is NULL where the role is absent. */
struct adn_view {
    const anydnn_tensor *t;
    unsigned char *data; /* element 0 */
    int dtype;
};

struct adn_view adn_view_of(const anydnn_plan *plan, const struct adn_arguments *arguments, int role);

ADN_ALWAYS_INLINE double adn_get(const struct adn_view *view, int64_t i)
{
    return adn_load(view->data, view->dtype, i);
}
ADN_ALWAYS_INLINE void adn_put(const struct adn_view *view, int64_t i, double v)
{
    adn_store(view->data, view->dtype, i, v);
}
ADN_ALWAYS_INLINE void adn_put_scaled(const struct adn_view *view, int64_t i, double v, double beta)
{
    adn_store_scaled(view->data, view->dtype, i, v, beta);
}

/* Value of a scalar role: the host's, or read from memory (f32, or i64 by the second). `absent` where the operation has
 * no such role. */
double adn_scalar(const anydnn_plan *plan, const struct adn_arguments *arguments, int role, double absent);
int64_t adn_scalar_i64(const anydnn_plan *plan, const struct adn_arguments *arguments, int role, int64_t absent);

struct adn_pool *adn_stream_pool(const anydnn_stream *stream);

/* Bit mask of the axes along which `t` has the extent of `shape` and more than one element. */
uint32_t adn_axes_kept(const anydnn_tensor *t, const anydnn_tensor *shape);

/* Element offset in t of number n in the row-major order of those axes of `shape` that `axes` names. */
int64_t adn_offset_of(const anydnn_tensor *t, const anydnn_tensor *shape, uint32_t axes, int64_t n);

/* adn_walk_init from views; absent views are passed as the first. */
void adn_walk_views(struct adn_walk *walk, const anydnn_tensor *shape, uint32_t axes, bool keep_order, int count,
                    const struct adn_view *const *views);

/* y = beta * y for the whole tensor: what alpha = 0 leaves to do. beta = 0 writes zeros without reading. */
void adn_rescale(anydnn_stream *stream, const struct adn_view *y, double beta);

/* plan() of every reference engine: accepts everything, no workspace. */
bool adn_ref_plan(const struct adn_problem *p, const struct adn_device *device, const char *params,
                  struct adn_engine_plan *plan, struct adn_refusal *why);

/* Elements first..last-1 of a walk by rows of the innermost dim:
 *     for (adn_rows_begin(&r, walk, first, last); r.run; adn_rows_next(&r))
 *         for (i = 0; i < r.run; i++) ... r.at[0] + i * r.step[0] ...
 * r.number is the element number of the row's begin. */
struct adn_rows {
    const struct adn_walk *walk;
    int64_t run, number, last;
    int64_t at[4], step[4];
    int64_t index[ANYDNN_MAX_DIMS];
};

static inline void adn_rows_begin(struct adn_rows *r, const struct adn_walk *walk, int64_t first, int64_t last)
{
    const int inner = walk->rank - 1;
    int64_t rest = first;
    int i, k;
    r->walk = walk;
    r->number = first;
    r->last = last;
    for (k = 0; k < 4; k++) {
        r->at[k] = 0;
        r->step[k] = inner >= 0 ? walk->stride[k][inner] : 0;
    }
    r->run = last - first;
    if (r->run <= 0) {
        r->run = 0;
        return;
    }
    for (i = inner; i >= 0; i--) {
        r->index[i] = rest % walk->size[i];
        rest /= walk->size[i];
        for (k = 0; k < 4; k++) r->at[k] += r->index[i] * walk->stride[k][i];
    }
    if (inner >= 0 && r->run > walk->size[inner] - r->index[inner]) r->run = walk->size[inner] - r->index[inner];
}

static inline void adn_rows_next(struct adn_rows *r)
{
    const struct adn_walk *walk = r->walk;
    int i = walk->rank - 1, k;
    r->number += r->run;
    if (r->number >= r->last) {
        r->run = 0;
        return;
    }
    for (k = 0; k < 4; k++) r->at[k] -= r->index[i] * r->step[k];
    r->index[i] = 0;
    while (--i >= 0) {
        const int64_t back = r->index[i] + 1 == walk->size[i] ? -r->index[i] : 1;
        r->index[i] += back;
        for (k = 0; k < 4; k++) r->at[k] += back * walk->stride[k][i];
        if (back == 1) break;
    }
    i = walk->rank - 1;
    r->run = r->last - r->number < walk->size[i] ? r->last - r->number : walk->size[i];
}

#endif
