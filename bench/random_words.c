/* SPDX-License-Identifier: Apache-2.0
 * bench/random_words.c: draws sizes, layouts and the words of a line; see random_words.h. */
#include "random_words.h"

#include "values.h"
#include <anydnn/anydnn.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int draw(struct maker *m, int64_t count)
{
    unsigned value = 0;
    if (count <= 1 || m->used == RANDOM_CHOICES) return 0;
    if (m->drawing)
        value = (unsigned)(random_bits(m->seed, (uint64_t)m->used) % (uint64_t)count);
    else if (m->used < m->choices->count)
        value = m->choices->choice[m->used] < count ? m->choices->choice[m->used] : (unsigned)(count - 1);
    m->choices->choice[m->used++] = (unsigned short)value;
    return (int)value;
}

bool rarely(struct maker *m, int count)
{
    return draw(m, count) == count - 1;
}

void say(struct maker *m, const char *format, ...)
{
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(m->line + m->length, RANDOM_LINE - m->length, format, arguments);
    va_end(arguments);
    if (length > 0) m->length += (size_t)length;
    if (m->length >= RANDOM_LINE) m->length = RANDOM_LINE - 1;
}

/* ---- Sizes and layouts ---- */

int64_t size_of_axis(struct maker *m)
{
    static const int64_t sizes[] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,   15,  16,  17,  31,  32,
                                     33, 37, 63, 64, 65, 66, 67, 97, 127, 128, 129, 257, 509, 1021 };
    int few = 0, count;
    int64_t size;
    for (count = 0; count < (int)(sizeof sizes / sizeof *sizes) && sizes[count] <= m->room; count++)
        if (sizes[count] < 9) few = count + 1;
    if (few == 0) return 1;
    size = sizes[draw(m, draw(m, 3) > 1 ? count : few)];
    m->room /= size;
    return rarely(m, 60) ? 0 : size;
}

void draw_shape(struct maker *m, struct shape *s, int least, int most)
{
    int i;
    s->ndim = least + draw(m, most - least + 1);
    for (i = 0; i < s->ndim; i++) s->dims[i] = size_of_axis(m);
    if (rarely(m, 60)) { /* one axis alone, longer than 16 bits can count */
        for (i = 0; i < s->ndim; i++) s->dims[i] = 1;
        s->dims[draw(m, s->ndim)] = 70001;
    }
    s->layout[0] = 0;
}

/* Memory order of the axes: that of the dims, channels last, or any. */
static void draw_order(struct maker *m, const struct shape *s, bool any, int order[ANYDNN_MAX_DIMS])
{
    int i, k, swap;
    for (i = 0; i < s->ndim; i++) order[i] = i;
    for (i = s->ndim - 1; any && i > 0; i--) {
        k = i - draw(m, i + 1);
        swap = order[i], order[i] = order[k], order[k] = swap;
    }
}

void draw_layout(struct maker *m, struct shape *s, bool output)
{
    const int kind = draw(m, output ? 9 : 10);
    int64_t strides[ANYDNN_MAX_DIMS], stride = 1;
    int order[ANYDNN_MAX_DIMS], i;
    size_t length = 0;
    s->layout[0] = 0;
    if (kind < 4) return;
    if (kind < 6) {
        if (s->ndim >= 3) strcpy(s->layout, ":nhwc");
        return;
    }
    draw_order(m, s, kind != 6, order);
    if (kind != 7) stride += draw(m, 3);
    for (i = s->ndim - 1; i >= 0; i--) {
        strides[order[i]] = kind == 9 && rarely(m, 2) ? 0 : stride;
        stride *= s->dims[order[i]] > 1 ? s->dims[order[i]] : 1;
        if (kind != 7) stride += draw(m, 4);
    }
    for (i = 0; i < s->ndim; i++)
        length += (size_t)snprintf(s->layout + length, sizeof s->layout - length, "%s%lld", i ? "," : ":s",
                                   (long long)strides[i]);
}

/* ---- Words ---- */

const char *draw_dtype(struct maker *m)
{
    static const char *const names[] = { "f32", "f32", "f16", "bf16" };
    return names[draw(m, 4)];
}

void say_shape(struct maker *m, const char *role, const struct shape *s, const char *dtype)
{
    int i;
    say(m, " %s=", role);
    for (i = 0; i < s->ndim; i++) say(m, "%s%lld", i ? "x" : "", (long long)s->dims[i]);
    say(m, "%s/%s", s->layout, dtype);
}

void say_in(struct maker *m, const char *role, const struct shape *s, const char *dtype)
{
    struct shape own = *s;
    draw_layout(m, &own, false);
    say_shape(m, role, &own, dtype);
}

void say_out(struct maker *m, const char *role, const struct shape *s, const char *dtype)
{
    struct shape own = *s;
    draw_layout(m, &own, true);
    say_shape(m, role, &own, dtype);
}

void say_pair(struct maker *m, const char *in, const char *out, const struct shape *s, const char *dtype)
{
    struct shape own = *s;
    const int kind = draw(m, 4);
    draw_layout(m, &own, kind == 3);
    say_shape(m, in, &own, dtype);
    if (kind == 0) return;
    if (kind < 3) {
        say_out(m, out, s, dtype);
        return;
    }
    say_shape(m, out, &own, dtype);
    say(m, "&%s", in);
}

void say_scales(struct maker *m, bool alpha2)
{
    static const char *const alphas[] = { "", "", " alpha=1", " alpha=0.5", " alpha=-1.5", " alpha=0" };
    static const char *const betas[] = { "", "", " beta=0", " beta=1", " beta=0.5", " beta=-2" };
    static const char *const alphas2[] = { "", "", " alpha2=1", " alpha2=-1", " alpha2=0.5", " alpha2=0" };
    if (!rarely(m, 2)) return; /* the harness takes scales of its own */
    say(m, "%s%s%s", alphas[draw(m, 6)], betas[draw(m, 6)], alpha2 ? alphas2[draw(m, 6)] : "");
}

void say_numbers(struct maker *m, const char *key, const int64_t *numbers, int count)
{
    int i;
    say(m, " %s=", key);
    for (i = 0; i < count; i++) say(m, "%s%lld", i ? "," : "", (long long)numbers[i]);
}

unsigned say_axes(struct maker *m, int ndim, unsigned otherwise)
{
    const unsigned axes = (unsigned)draw(m, (int64_t)1 << ndim);
    int i;
    if (axes == 0) return otherwise;
    say(m, " axes=");
    for (i = 0; i < ndim; i++)
        if (axes >> i & 1u) say(m, "%s%d", axes & ((1u << i) - 1u) ? "," : "", i);
    return axes;
}
