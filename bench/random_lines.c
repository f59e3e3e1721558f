/* SPDX-License-Identifier: Apache-2.0
 * bench/random_lines.c: draws legal problem lines of every operation (convolution and pooling: random_conv.c). */
#include "random_words.h"

#include <anydnn/anydnn.h>

#include <string.h>

enum { ROOM = 40000 };

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
    if (op == ANYDNN_OP_BATCHNORM_BACKWARD && rarely(m, 3))
        say(m, " param_alpha=%s param_beta=%s", draw(m, 2) ? "0.5" : "0", draw(m, 2) ? "1" : "-2");
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
        const bool in_place =
            outputs != 2 && rarely(m, 3) && memcmp(outputs ? b.dims : a.dims, y.dims, sizeof y.dims) == 0;
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
        NULL,           make_conv,        make_conv,          make_conv,          make_conv,
        NULL,           make_pool,        make_pool,          make_activation,    make_activation,
        make_softmax,   make_softmax,     make_cross_entropy, make_cross_entropy, make_batchnorm,
        make_batchnorm, make_batchnorm,   make_binary,        make_binary,        make_reduce,
        make_reduce,    make_elementwise, make_elementwise,   make_elementwise,   make_dropout,
        make_dropout,   make_optimizer,   make_optimizer
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
