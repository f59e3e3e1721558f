/* SPDX-License-Identifier: Apache-2.0
 * bench/random_lines.c: draws legal problem lines of every operation, near the edges: sizes about 1 and about powers of
 * two, primes, now and then 0; filters as large as the padded input; strided, permuted and broadcast layouts; optional
 * tensors and places shared or not. Sizes are drawn from what is left of a bound on the work of a case. */
#include "random.h"

#include "values.h"
#include <anydnn/anydnn.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 40000 };

struct maker {
    struct choices *choices;
    int used;
    bool drawing; /* choices come from the seed; otherwise from the list */
    uint64_t seed;
    char *line;
    size_t length;
    int64_t room; /* how large the product of the next sizes may be */
};

struct shape {
    int ndim;
    int64_t dims[ANYDNN_MAX_DIMS];
    char layout[160]; /* ":s6,2", "" = packed */
};

static int draw(struct maker *m, int64_t count)
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

/* True once in `count`. */
static bool rarely(struct maker *m, int count) { return draw(m, count) == count - 1; }

static void say(struct maker *m, const char *format, ...)
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

/* A size up to the room that is left, and now and then 0. */
static int64_t size_of_axis(struct maker *m)
{
    static const int64_t sizes[] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  15, 16,  17,  31,  32,
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


static void draw_shape(struct maker *m, struct shape *s, int least, int most)
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

/* Packed, channels last, or strides with gaps, in another order, or for inputs with 0 (elements seen repeatedly). */
static void draw_layout(struct maker *m, struct shape *s, bool output)
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

static const char *draw_dtype(struct maker *m)
{
    static const char *const names[] = { "f32", "f32", "f16", "bf16" };
    return names[draw(m, 4)];
}

static void say_shape(struct maker *m, const char *role, const struct shape *s, const char *dtype)
{
    int i;
    say(m, " %s=", role);
    for (i = 0; i < s->ndim; i++) say(m, "%s%lld", i ? "x" : "", (long long)s->dims[i]);
    say(m, "%s/%s", s->layout, dtype);
}

/* Tensors of a shape, each in a layout of its own. */
static void say_in(struct maker *m, const char *role, const struct shape *s, const char *dtype)
{
    struct shape own = *s;
    draw_layout(m, &own, false);
    say_shape(m, role, &own, dtype);
}

static void say_out(struct maker *m, const char *role, const struct shape *s, const char *dtype)
{
    struct shape own = *s;
    draw_layout(m, &own, true);
    say_shape(m, role, &own, dtype);
}

/* An input and an output like it: left out of the line, apart, or in the input's place. */
static void say_pair(struct maker *m, const char *in, const char *out, const struct shape *s, const char *dtype)
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

static void say_scales(struct maker *m, bool alpha2)
{
    static const char *const alphas[] = { "", "", " alpha=1", " alpha=0.5", " alpha=-1.5", " alpha=0" };
    static const char *const betas[] = { "", "", " beta=0", " beta=1", " beta=0.5", " beta=-2" };
    static const char *const alphas2[] = { "", "", " alpha2=1", " alpha2=-1", " alpha2=0.5", " alpha2=0" };
    if (!rarely(m, 2)) return; /* the harness takes scales of its own */
    say(m, "%s%s%s", alphas[draw(m, 6)], betas[draw(m, 6)], alpha2 ? alphas2[draw(m, 6)] : "");
}

static void say_numbers(struct maker *m, const char *key, const int64_t *numbers, int count)
{
    int i;
    say(m, " %s=", key);
    for (i = 0; i < count; i++) say(m, "%s%lld", i ? "," : "", (long long)numbers[i]);
}

/* A set of axes, said unless it is the default 0. */
static unsigned say_axes(struct maker *m, int ndim, unsigned otherwise)
{
    const unsigned axes = (unsigned)draw(m, (int64_t)1 << ndim);
    int i;
    if (axes == 0) return otherwise;
    say(m, " axes=");
    for (i = 0; i < ndim; i++)
        if (axes >> i & 1u) say(m, "%s%d", axes & ((1u << i) - 1u) ? "," : "", i);
    return axes;
}

/* ---- Convolution and pooling ---- */

struct window {
    int rank;
    int64_t in[3], size[3], stride[3], pad[3], pad_end[3], dilation[3], out[3];
    bool explicit_pads, ceil;
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t windows_of(const struct window *w, int i)
{
    const int64_t rest = w->in[i] + w->pad[i] + w->pad_end[i] - w->dilation[i] * (w->size[i] - 1) - 1;
    int64_t count = rest / w->stride[i] + 1;
    if (w->in[i] == 0) return 0;
    if (w->ceil && rest % w->stride[i] && count * w->stride[i] < w->in[i] + w->pad[i]) count++;
    return count;
}

/* One spatial axis. Pads of a pooling window are smaller than its reach. */
static void draw_axis(struct maker *m, struct window *w, int i, bool pool)
{
    int64_t padded, reach;
    w->in[i] = size_of_axis(m);
    w->pad[i] = draw(m, 2) ? draw(m, 5) : 0;
    w->pad_end[i] = w->explicit_pads ? draw(m, 5) : w->pad[i];
    padded = w->in[i] + w->pad[i] + w->pad_end[i];
    w->size[i] = rarely(m, 3) ? 1 + draw(m, least(padded, 67)) : 1 + draw(m, least(padded, 5));
    w->dilation[i] = 1 + draw(m, w->size[i] > 1 ? least(3, (padded - 1) / (w->size[i] - 1)) : 3);
    w->stride[i] = 1 + (draw(m, 2) ? draw(m, 5) : 0);
    reach = w->dilation[i] * (w->size[i] - 1) + 1;
    if (pool) {
        w->pad[i] = least(w->pad[i], reach - 1);
        w->pad_end[i] = w->explicit_pads ? least(w->pad_end[i], reach - 1) : w->pad[i];
        if (w->in[i] > 0 && w->in[i] + w->pad[i] + w->pad_end[i] < reach) { /* smaller pads have left no room */
            w->size[i] = w->dilation[i] = 1;
            w->pad[i] = w->pad_end[i] = 0;
        }
    }
    m->room /= w->size[i];
    w->out[i] = windows_of(w, i);
}

static void draw_window(struct maker *m, struct window *w, bool pool)
{
    static const int ranks[] = { 1, 2, 2, 2, 3 };
    int i;
    w->rank = ranks[draw(m, 5)];
    w->explicit_pads = rarely(m, 3);
    w->ceil = pool && rarely(m, 3);
    for (i = 0; i < w->rank; i++) draw_axis(m, w, i, pool);
}

static void say_window(struct maker *m, const struct window *w)
{
    say_numbers(m, "stride", w->stride, w->rank);
    say_numbers(m, "pad", w->pad, w->rank);
    if (w->explicit_pads) say_numbers(m, "pad_end", w->pad_end, w->rank);
    say_numbers(m, "dilation", w->dilation, w->rank);
}

static struct shape spatial(int64_t first, int64_t second, const int64_t *axes, int rank)
{
    struct shape s = { rank + 2, { first, second }, "" };
    memcpy(s.dims + 2, axes, (size_t)rank * sizeof *axes);
    return s;
}

/* What forward and backward data do beside the sum. `dtype` is that of the output, exact: i32 sums and nothing more. */
static void say_epilogue(struct maker *m, const struct shape *out, const char *dtype, bool integers)
{
    static const char *const activations[] = { "relu", "leaky_relu", "clipped_relu", "sigmoid", "tanh" };
    if (strcmp(dtype, "i32") == 0) return;
    if (rarely(m, 5)) {
        say_in(m, "z", out, dtype);
        if (rarely(m, 2)) say(m, " alpha2=%s", rarely(m, 3) ? "0" : "-0.75");
    }
    if (rarely(m, 4)) say(m, " activation=%s", activations[draw(m, integers ? 3 : 5)]);
    if (rarely(m, 6)) say(m, " coef=%s", rarely(m, 2) ? "1.5" : "0.25");
}

/* Returns whether the output may be scaled: exact sums may not. */
static bool make_integer_conv(struct maker *m, const struct shape *x, const struct shape *w, const struct shape *y,
                              const struct shape *channels)
{
    static const char *const outputs[] = { "i8", "u8", "f32", "i32" };
    const struct shape one = { channels->ndim, { 1, 1, 1, 1, 1 }, "" };
    const char *from = draw(m, 2) ? "i8" : "u8", *to = outputs[draw(m, 4)];
    const bool sums = strcmp(to, "i32") == 0;
    say_in(m, "x", x, from), say_in(m, "w", w, "i8"), say_out(m, "y", y, to);
    if (rarely(m, 2)) say_in(m, "bias", channels, sums || draw(m, 2) ? "i32" : "f32");
    if (!sums && draw(m, 3)) say_in(m, "scales", draw(m, 2) ? channels : &one, "f32");
    if (rarely(m, 2)) say(m, " x_zero=%d", strcmp(from, "i8") == 0 ? draw(m, 255) - 127 : draw(m, 256));
    if (rarely(m, 2) && (strcmp(to, "i8") == 0 || strcmp(to, "u8") == 0)) say(m, " y_zero=%d", draw(m, 128));
    say_epilogue(m, y, to, true);
    return !sums;
}

static void make_conv(struct maker *m, int op)
{
    static const int64_t groups[] = { 1, 1, 1, 2, 3 };
    static const int64_t ones[3] = { 1, 1, 1 };
    const char *dtype = rarely(m, 8) ? "f64" : draw_dtype(m);
    const bool integers = op == ANYDNN_OP_CONV_FORWARD && rarely(m, 5);
    bool scaled = true;
    int64_t g = groups[draw(m, 5)], c = size_of_axis(m), k = size_of_axis(m), n;
    struct shape x, w, y, bias;
    struct window window;
    if (rarely(m, 6)) g = c > 0 ? c : 1, c = 1; /* a group for each channel */
    draw_window(m, &window, false);
    n = size_of_axis(m);
    x = spatial(n, c * g, window.in, window.rank);
    w = spatial(k * g, c, window.size, window.rank);
    y = spatial(n, k * g, window.out, window.rank);
    bias = spatial(1, k * g, ones, window.rank);
    if (op == ANYDNN_OP_CONV_BACKWARD_BIAS) {
        say_in(m, "dy", &y, dtype);
        if (rarely(m, 3)) say_out(m, "dbias", &bias, dtype);
        say_scales(m, false);
        return;
    }
    if (op == ANYDNN_OP_CONV_BACKWARD_DATA) {
        const struct shape channels = spatial(1, c * g, ones, window.rank);
        say_in(m, "dy", &y, dtype), say_in(m, "w", &w, dtype), say_out(m, "dx", &x, dtype);
        if (rarely(m, 4)) say_in(m, "bias", &channels, dtype);
        say_epilogue(m, &x, dtype, false);
    } else if (integers)
        scaled = make_integer_conv(m, &x, &w, &y, &bias);
    else if (op == ANYDNN_OP_CONV_BACKWARD_FILTER)
        say_in(m, "x", &x, dtype), say_in(m, "dy", &y, dtype), say_out(m, "dw", &w, dtype);
    else {
        say_in(m, "x", &x, dtype), say_in(m, "w", &w, dtype);
        if (rarely(m, 3)) say_in(m, "bias", &bias, dtype);
        if (rarely(m, 2)) say_out(m, "y", &y, dtype);
        say_epilogue(m, &y, dtype, false);
    }
    say_window(m, &window);
    if (g != 1) say(m, " groups=%lld", (long long)g);
    if (rarely(m, 4)) say(m, " mode=convolution");
    if (scaled) say_scales(m, false);
}

static void make_pool(struct maker *m, int op)
{
    static const char *const modes[] = { "max", "avg_include", "avg_exclude" };
    const char *dtype = draw_dtype(m);
    const int mode = draw(m, 3), indices = draw(m, 3);
    struct window window;
    struct shape x, y;
    int64_t n, c;
    draw_window(m, &window, true);
    c = size_of_axis(m), n = size_of_axis(m);
    x = spatial(n, c, window.in, window.rank);
    y = spatial(n, c, window.out, window.rank);
    if (op == ANYDNN_OP_POOL_FORWARD) {
        say_in(m, "x", &x, dtype);
        if (rarely(m, 2)) say_out(m, "y", &y, dtype);
        if (mode == 0 && indices) say_out(m, "indices", &y, "i32");
    } else {
        say_in(m, "dy", &y, dtype);
        if (mode == 0 ? indices != 1 : indices == 2) say_in(m, "x", &x, dtype);
        if (mode == 0 && indices) say_out(m, "indices", &y, "i32"); /* no stride 0: each has its own */
        say_out(m, "dx", &x, dtype);
    }
    say(m, " mode=%s", modes[mode]);
    say_numbers(m, "window", window.size, window.rank);
    say_window(m, &window);
    if (window.ceil) say(m, " ceil_mode=1");
    say_scales(m, false);
}

/* ---- The other operations ---- */

static void make_matmul(struct maker *m)
{
    const char *dtype = draw_dtype(m);
    const int batches = draw(m, 2) ? draw(m, 4) : 0, ta = draw(m, 2), tb = draw(m, 2);
    const int64_t rows = size_of_axis(m), columns = size_of_axis(m), inner = size_of_axis(m);
    struct shape a = { 0 }, b = { 0 }, y = { 0 }, bias = { 0 };
    int i;
    a.ndim = b.ndim = y.ndim = bias.ndim = batches + 2;
    for (i = 0; i < batches; i++) {
        const int broadcast = draw(m, 4);
        y.dims[i] = size_of_axis(m);
        a.dims[i] = broadcast == 2 ? 1 : y.dims[i];
        b.dims[i] = broadcast == 3 ? 1 : y.dims[i];
        bias.dims[i] = 1;
    }
    a.dims[i] = ta ? inner : rows, a.dims[i + 1] = ta ? rows : inner;
    b.dims[i] = tb ? columns : inner, b.dims[i + 1] = tb ? inner : columns;
    y.dims[i] = rows, y.dims[i + 1] = columns;
    bias.dims[i] = 1, bias.dims[i + 1] = columns;
    say_in(m, "a", &a, dtype), say_in(m, "b", &b, dtype);
    if (rarely(m, 3)) say_in(m, "bias", &bias, dtype);
    if (rarely(m, 2)) say_out(m, "y", &y, dtype);
    say(m, " trans_a=%d trans_b=%d", ta, tb);
    say_scales(m, false);
}

static void make_activation(struct maker *m, int op)
{
    static const char *const modes[] = { "relu", "leaky_relu", "clipped_relu", "sigmoid", "tanh" };
    const char *dtype = draw_dtype(m);
    struct shape s;
    draw_shape(m, &s, 1, 8);
    if (op == ANYDNN_OP_ACTIVATION_FORWARD)
        say_pair(m, "x", "y", &s, dtype);
    else {
        const int known = draw(m, 3);
        say_pair(m, "dy", "dx", &s, dtype);
        if (known != 1) say_in(m, "x", &s, dtype);
        if (known != 0) say_in(m, "y", &s, dtype);
    }
    say(m, " mode=%s", modes[draw(m, 5)]);
    if (rarely(m, 3)) say(m, " coef=%s", draw(m, 2) ? "0.125" : "1");
    say_scales(m, false);
}

static void make_softmax(struct maker *m, int op)
{
    static const char *const modes[] = { "softmax", "log" };
    const char *dtype = draw_dtype(m);
    struct shape s;
    draw_shape(m, &s, 2, 6);
    if (op == ANYDNN_OP_SOFTMAX_FORWARD)
        say_pair(m, "x", "y", &s, dtype);
    else
        say_in(m, "y", &s, dtype), say_pair(m, "dy", "dx", &s, dtype);
    say(m, " mode=%s", modes[draw(m, 2)]);
    say_axes(m, s.ndim, 2);
    say_scales(m, false);
}

static void make_cross_entropy(struct maker *m, int op)
{
    static const char *const reductions[] = { "mean", "sum", "none" };
    const char *dtype = draw_dtype(m);
    const int reduction = draw(m, 3);
    struct shape x, labels, loss;
    int i;
    draw_shape(m, &x, 2, 5);
    labels = x;
    labels.dims[1] = 1;
    loss = labels;
    for (i = 0; reduction < 2 && i < loss.ndim; i++) loss.dims[i] = 1;
    if (op == ANYDNN_OP_CROSS_ENTROPY_FORWARD)
        say_in(m, "x", &x, dtype);
    else
        say_pair(m, "x", "dx", &x, dtype);
    say_in(m, "labels", &labels, draw(m, 2) ? "i64" : "i32");
    if (op == ANYDNN_OP_CROSS_ENTROPY_FORWARD && rarely(m, 2)) say_out(m, "loss", &loss, "f32");
    if (op == ANYDNN_OP_CROSS_ENTROPY_BACKWARD && rarely(m, 2)) say_in(m, "dloss", &loss, "f32");
    say(m, " reduction=%s", reductions[reduction]);
    if (rarely(m, 2)) say(m, " smoothing=%s", draw(m, 2) ? "0.1" : "1");
}

static void make_batchnorm(struct maker *m, int op)
{
    const char *dtype = draw_dtype(m);
    const bool per_activation = rarely(m, 3);
    const int optional = draw(m, 4);
    struct shape x, p;
    int i;
    draw_shape(m, &x, 2, 5);
    p = x;
    p.dims[0] = 1;
    for (i = 2; i < p.ndim && !per_activation; i++) p.dims[i] = 1;
    if (op == ANYDNN_OP_BATCHNORM_BACKWARD) {
        say_in(m, "x", &x, dtype), say_pair(m, "dy", "dx", &x, dtype), say_in(m, "gamma", &p, "f32");
        if (optional & 1) say_in(m, "saved_mean", &p, "f32"), say_in(m, "saved_invstd", &p, "f32");
        if (optional & 2) say_out(m, "dgamma", &p, "f32"), say_out(m, "dshift", &p, "f32");
    } else {
        say_pair(m, "x", "y", &x, dtype), say_in(m, "gamma", &p, "f32"), say_in(m, "shift", &p, "f32");
        if (op == ANYDNN_OP_BATCHNORM_INFERENCE)
            say_in(m, "running_mean", &p, "f32"), say_in(m, "running_var", &p, "f32");
        else if (optional & 1)
            say_out(m, "running_mean", &p, "f32"), say_out(m, "running_var", &p, "f32");
        if (op == ANYDNN_OP_BATCHNORM_TRAINING && optional & 2)
            say_out(m, "saved_mean", &p, "f32"), say_out(m, "saved_invstd", &p, "f32");
        if (op == ANYDNN_OP_BATCHNORM_TRAINING && rarely(m, 3)) say(m, " factor=%s", draw(m, 2) ? "0" : "1");
    }
    if (per_activation) say(m, " mode=per_activation");
    if (rarely(m, 3)) say(m, " epsilon=0.01");
    say_scales(m, false);
}

/* a and b of a shape: each axis in both, or in one alone. */
static void draw_broadcast(struct maker *m, const struct shape *y, struct shape *a, struct shape *b)
{
    const bool equal = !draw(m, 2);
    int i;
    *a = *b = *y;
    for (i = 0; i < y->ndim && !equal; i++) {
        const int kind = draw(m, 3);
        if (kind == 1) a->dims[i] = 1;
        if (kind == 2) b->dims[i] = 1;
    }
}

static void make_binary(struct maker *m, int op)
{
    static const char *const modes[] = { "add", "sub", "mul", "div", "max", "min" };
    const char *dtype = draw_dtype(m);
    const int mode = draw(m, 6), bound = draw(m, 4), outputs = draw(m, 3);
    struct shape y, a, b;
    draw_shape(m, &y, 1, 8);
    draw_broadcast(m, &y, &a, &b);
    if (op == ANYDNN_OP_BINARY) {
        if (memcmp(a.dims, y.dims, sizeof a.dims) == 0)
            say_pair(m, "a", "y", &a, dtype), say_in(m, "b", &b, dtype);
        else if (memcmp(b.dims, y.dims, sizeof b.dims) == 0)
            say_in(m, "a", &a, dtype), say_pair(m, "b", "y", &b, dtype);
        else
            say_in(m, "a", &a, dtype), say_in(m, "b", &b, dtype), say_out(m, "y", &y, dtype);
    } else {
        const bool in_place = outputs != 2 && rarely(m, 3) &&
                              memcmp(outputs ? b.dims : a.dims, y.dims, sizeof y.dims) == 0;
        draw_layout(m, &y, in_place);
        say_shape(m, "dy", &y, dtype);
        if (mode > 1 || bound & 1) say_in(m, "a", &a, dtype);
        if (mode > 1 || bound & 2) say_in(m, "b", &b, dtype);
        if (in_place) say_shape(m, outputs ? "db" : "da", &y, dtype), say(m, "&dy");
        if (!in_place && outputs != 1) say_out(m, "da", &a, dtype);
        if (!in_place && outputs != 0) say_out(m, "db", &b, dtype);
    }
    say(m, " mode=%s", modes[mode]);
    say_scales(m, op == ANYDNN_OP_BINARY);
}

static void make_reduce(struct maker *m, int op)
{
    static const char *const modes[] = { "sum", "mean", "max", "min", "amax", "norm1", "norm2" };
    const char *dtype = draw_dtype(m);
    const int mode = draw(m, op == ANYDNN_OP_REDUCE ? 7 : 3);
    struct shape x, y;
    unsigned axes;
    int i;
    draw_shape(m, &x, 1, 8);
    axes = say_axes(m, x.ndim, ~0u);
    y = x;
    for (i = 0; i < y.ndim; i++)
        if (axes >> i & 1u) y.dims[i] = 1;
    if (op == ANYDNN_OP_REDUCE) {
        say_in(m, "x", &x, dtype);
        if (rarely(m, 2)) say_out(m, "y", &y, dtype);
    } else {
        say_in(m, "dy", &y, dtype);
        if (mode == 2) say_in(m, "x", &x, dtype);
        say_out(m, "dx", &x, dtype);
    }
    say(m, " mode=%s", modes[mode]);
    say_scales(m, false);
}

static void make_elementwise(struct maker *m, int op)
{
    static const char *const dtypes[] = { "f32", "f16", "bf16", "i8", "u8", "i32", "i64", "f64" };
    static const char *const values[] = { "0", "1", "-2.5", "127.5", "1e30", "-1000000" };
    const char *from = dtypes[draw(m, 8)], *to = dtypes[draw(m, 8)];
    struct shape s;
    draw_shape(m, &s, 1, 8);
    if (op == ANYDNN_OP_COPY) {
        say_in(m, "x", &s, from), say_out(m, "y", &s, to);
        say_scales(m, false);
    } else if (op == ANYDNN_OP_FILL) {
        say_out(m, "y", &s, to);
        say(m, " value=%s", values[draw(m, 6)]);
    } else {
        say_out(m, "y", &s, draw_dtype(m));
        say(m, " alpha=%s", values[draw(m, 3)]);
    }
}

static void make_dropout(struct maker *m, int op)
{
    static const char *const ratios[] = { "", " ratio=0.25", " ratio=0", " ratio=1" };
    const char *dtype = draw_dtype(m);
    struct shape s;
    draw_shape(m, &s, 1, 8);
    if (op == ANYDNN_OP_DROPOUT_FORWARD)
        say_pair(m, "x", "y", &s, dtype);
    else
        say_pair(m, "dy", "dx", &s, dtype);
    say(m, "%s", ratios[draw(m, 4)]);
    say(m, " rng_seed=%s%d", draw(m, 2) ? "device:" : "", draw(m, 1000));
    if (rarely(m, 2)) say(m, " rng_offset=%s%s", draw(m, 2) ? "device:" : "", draw(m, 2) ? "4294967295" : "3");
}

static void make_optimizer(struct maker *m, int op)
{
    const char *grad = draw_dtype(m), *param = draw_dtype(m);
    const bool moment = op == ANYDNN_OP_ADAM || rarely(m, 2);
    struct shape s;
    draw_shape(m, &s, 1, 8);
    say_in(m, "grad", &s, grad), say_out(m, "param", &s, param);
    if (moment) say_out(m, "moment1", &s, "f32");
    if (op == ANYDNN_OP_ADAM) say_out(m, "moment2", &s, "f32");
    say(m, " lr=%s%s", draw(m, 2) ? "device:" : "", draw(m, 2) ? "0.125" : "0");
    if (rarely(m, 2)) say(m, " weight_decay=0.1");
    if (op == ANYDNN_OP_ADAM) {
        say(m, " step=%s%d", draw(m, 2) ? "device:" : "", 1 + draw(m, 1000));
        if (rarely(m, 2)) say(m, " decoupled=1");
    } else if (moment) {
        say(m, " momentum=%s", draw(m, 2) ? "0.9" : "0");
        if (rarely(m, 2)) say(m, " nesterov=1");
    }
}

static void make_line(struct maker *m)
{
    static void (*const makers[])(struct maker *, int) = {
        NULL, make_conv, make_conv, make_conv, make_conv, NULL, make_pool, make_pool, make_activation, make_activation,
        make_softmax, make_softmax, make_cross_entropy, make_cross_entropy, make_batchnorm, make_batchnorm,
        make_batchnorm, make_binary, make_binary, make_reduce, make_reduce, make_elementwise, make_elementwise,
        make_elementwise, make_dropout, make_dropout, make_optimizer, make_optimizer
    };
    static const char *const prefs[] = { "", " det=1", " math=strict", " math=tf32", " math=fast" };
    const int op = m->choices->op;
    m->room = ROOM;
    say(m, "%s", anydnn_op_name(op));
    if (op == ANYDNN_OP_MATMUL)
        make_matmul(m);
    else
        makers[op](m, op);
    if (rarely(m, 6)) say(m, "%s", prefs[draw(m, 5)]);
    m->choices->count = m->used;
}

void random_make(struct choices *choices, bool drawing, uint64_t seed, char line[RANDOM_LINE])
{
    struct maker m = { choices, 0, drawing, seed, line, 0, 0 };
    line[0] = 0;
    make_line(&m);
}
