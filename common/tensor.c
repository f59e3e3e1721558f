/* SPDX-License-Identifier: Apache-2.0
 * common/tensor.c: dtypes, checks and measures of tensor descriptions. */
#include "problem.h"

#include <stdio.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = { { "?", 0 }, { "f32", 4 }, { "f16", 2 }, { "bf16", 2 }, { "f64", 8 },
               { "i8", 1 }, { "u8", 1 },  { "i32", 4 },  { "i64", 8 } };

static bool known_dtype(int dtype) { return dtype >= 1 && dtype < (int)(sizeof dtypes / sizeof dtypes[0]); }

size_t anydnn_dtype_size(int dtype) { return known_dtype(dtype) ? dtypes[dtype].size : 0; }
const char *anydnn_dtype_name(int dtype) { return known_dtype(dtype) ? dtypes[dtype].name : "?"; }

/* a * b, or -1 when it does not fit; both >= 0. */
static int64_t multiply(int64_t a, int64_t b)
{
    if (b != 0 && a > INT64_MAX / b) return -1;
    return a * b;
}

static bool well_formed(const anydnn_tensor *t)
{
    int i;
    if (!t || !known_dtype(t->dtype) || t->ndim < 1 || t->ndim > ANYDNN_MAX_DIMS) return false;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] < 0 || t->strides[i] < 0) return false;
    return true;
}

int64_t anydnn_tensor_count(const anydnn_tensor *t)
{
    int64_t count = 1;
    int i;
    if (!well_formed(t)) return -1;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] == 0) return 0;
    for (i = 0; i < t->ndim && count >= 0; i++) count = multiply(count, t->dims[i]);
    return count;
}

int64_t anydnn_tensor_bytes(const anydnn_tensor *t)
{
    int64_t last = 0;
    int i;
    if (!well_formed(t)) return -1;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] == 0) return 0;
    for (i = 0; i < t->ndim; i++) {
        int64_t span = multiply(t->dims[i] - 1, t->strides[i]);
        if (span < 0 || last > INT64_MAX - span) return -1;
        last += span;
    }
    return last == INT64_MAX ? -1 : multiply(last + 1, (int64_t)dtypes[t->dtype].size);
}

bool adn_is_empty(const anydnn_tensor *t)
{
    int i;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] == 0) return true;
    return false;
}

void adn_dims_text(const anydnn_tensor *t, char *text, size_t size)
{
    size_t used = 0;
    int i;
    for (i = 0; i < t->ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "x" : "", (long long)t->dims[i]);
}

/* True when no two index tuples share an element: sorted by stride, each stride passes the span of all smaller ones. */
static bool injective(const anydnn_tensor *t)
{
    int order[ANYDNN_MAX_DIMS], count = 0, i, j;
    int64_t span = 0;
    for (i = 0; i < t->ndim; i++) {
        if (t->dims[i] < 2) continue;
        for (j = count; j > 0 && t->strides[order[j - 1]] > t->strides[i]; j--) order[j] = order[j - 1];
        order[j] = i;
        count++;
    }
    for (i = 0; i < count; i++) {
        if (t->strides[order[i]] <= span) return false;
        span += (t->dims[order[i]] - 1) * t->strides[order[i]];
    }
    return true;
}

static anydnn_status check_dims(const anydnn_tensor *t, const char *name)
{
    int i;
    for (i = 0; i < t->ndim; i++) {
        if (t->dims[i] < 0)
            return adn_fail(ANYDNN_INVALID, "%s: dims[%d] is %lld; accepted: 0 or more", name, i, (long long)t->dims[i]);
        if (t->strides[i] < 0)
            return adn_fail(ANYDNN_INVALID, "%s: strides[%d] is %lld; accepted: 0 or more", name, i,
                            (long long)t->strides[i]);
    }
    if (anydnn_tensor_count(t) < 0 || anydnn_tensor_bytes(t) < 0)
        return adn_fail(ANYDNN_INVALID, "%s: dims and strides reach past 2^63-1 bytes; accepted: up to 2^63-1", name);
    return ANYDNN_OK;
}

anydnn_status adn_tensor_check(const anydnn_tensor *t, const char *name, bool output)
{
    if (!known_dtype(t->dtype))
        return adn_fail(ANYDNN_INVALID, "%s: dtype is %d; accepted: 1 (f32) to 8 (i64)", name, t->dtype);
    if (t->ndim < 1 || t->ndim > ANYDNN_MAX_DIMS)
        return adn_fail(ANYDNN_INVALID, "%s: ndim is %d; accepted: 1 to %d", name, t->ndim, ANYDNN_MAX_DIMS);
    if (t->alignment < 0 || t->alignment > 4096 || (t->alignment & (t->alignment - 1)))
        return adn_fail(ANYDNN_INVALID, "%s: alignment is %d; accepted: 0 or a power of two up to 4096", name,
                        t->alignment);
    if (t->reserved0 || t->reserved[0] || t->reserved[1])
        return adn_fail(ANYDNN_INVALID, "%s: a reserved member is not 0; accepted: 0", name);
    ADN_TRY(check_dims(t, name));
    if (output && !adn_is_empty(t) && !injective(t))
        return adn_fail(ANYDNN_INVALID,
                        "%s: its strides let elements overlap; accepted for outputs: each stride larger than the span "
                        "of all smaller ones",
                        name);
    return ANYDNN_OK;
}

/* Bytes that the dims whose stride is no multiple of `period` (bytes) span, element included. */
static int64_t inner_span(const anydnn_tensor *t, int64_t period)
{
    int64_t size = (int64_t)dtypes[t->dtype].size, span = size;
    int i;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] > 1 && t->strides[i] * size % period != 0) span += (t->dims[i] - 1) * t->strides[i] * size;
    return span;
}

/* Both tensors, modulo the period, stay inside windows that do not meet: shown disjoint. */
static bool disjoint_in_period(const anydnn_tensor *a, uint64_t a_offset, const anydnn_tensor *b, uint64_t b_offset,
                               int64_t period)
{
    const int64_t a_start = (int64_t)(a_offset % (uint64_t)period), b_start = (int64_t)(b_offset % (uint64_t)period);
    const int64_t a_end = a_start + inner_span(a, period), b_end = b_start + inner_span(b, period);
    return a_end <= period && b_end <= period && (a_end <= b_start || b_end <= a_start);
}

bool adn_may_overlap(const anydnn_tensor *a, uint64_t a_offset, const anydnn_tensor *b, uint64_t b_offset)
{
    const anydnn_tensor *both[2];
    int which, i;
    both[0] = a, both[1] = b;
    if (adn_is_empty(a) || adn_is_empty(b)) return false;
    if (a_offset + (uint64_t)anydnn_tensor_bytes(a) <= b_offset) return false;
    if (b_offset + (uint64_t)anydnn_tensor_bytes(b) <= a_offset) return false;
    for (which = 0; which < 2; which++)
        for (i = 0; i < both[which]->ndim; i++) {
            int64_t period;
            if (both[which]->dims[i] < 2) continue; /* its stride may be any */
            period = both[which]->strides[i] * (int64_t)dtypes[both[which]->dtype].size;
            if (period > 0 && disjoint_in_period(a, a_offset, b, b_offset, period)) return false;
        }
    return true;
}
