/* SPDX-License-Identifier: Apache-2.0
 * bench/random_conv.c: draws lines of convolution and pooling: windows as large as the padded input, uneven pads,
 * groups up to one for each channel, epilogues, integers. */
#include "random_words.h"

#include <anydnn/anydnn.h>

#include <string.h>

struct window {
    int rank;
    int64_t in[3], size[3], stride[3], pad[3], pad_end[3], dilation[3], out[3];
    bool explicit_pads, ceil;
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

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

void make_conv(struct maker *m, int op)
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

void make_pool(struct maker *m, int op)
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
