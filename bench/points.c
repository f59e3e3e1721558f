/* SPDX-License-Identifier: Apache-2.0
 * bench/points.c: see points.h. Every operation is one function that gives the sum for one output element, straight
 * from the formulas in anydnn/ops.h; axes that are missing have size 1. Points are shared out among threads. */
#include "points.h"
#include "values.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANDOM_POINTS = 4096, EDGE_POINTS = 2048, MAX_THREADS = 64 };

/* A tensor on the host; half types are read through a table of all 65,536 values. */
struct view {
    const anydnn_tensor *tensor;
    const char *data;
    const float *table;
};

struct sum {
    double value, squares;
    int64_t depth;
};

/* Three spatial axes; the last ones are those of the tensors. */
struct geometry {
    int64_t n, c, k, in[3], filter[3], out[3], stride[3], pad[3], dilation[3];
    int64_t xs[5], ws[5], ys[5]; /* strides of input, filter, output */
    int64_t group_c, group_k;
    int flipped;
};

struct check {
    const struct workset *set;
    int op;
    struct geometry geometry;
    struct view in1, in2, bias, old, output;
    double alpha, beta, roundoff, reduced;
    int64_t elements, points;
    bool all;
    pthread_mutex_t lock;
    int64_t next;
    char *why;
    size_t why_size;
    bool good;
};

bool points_known(int op)
{
    return op == ANYDNN_OP_CONV_FORWARD || op == ANYDNN_OP_CONV_BACKWARD_DATA || op == ANYDNN_OP_CONV_BACKWARD_FILTER ||
           op == ANYDNN_OP_MATMUL;
}

int points_output(int op)
{
    return op == ANYDNN_OP_CONV_BACKWARD_DATA ? ANYDNN_DX : op == ANYDNN_OP_CONV_BACKWARD_FILTER ? ANYDNN_DW : ANYDNN_Y;
}

static double load(const struct view *view, int64_t element)
{
    if (view->tensor->dtype == ANYDNN_F32) {
        float value;
        memcpy(&value, view->data + element * 4, sizeof value);
        return (double)value;
    }
    if (view->table) {
        uint16_t bits;
        memcpy(&bits, view->data + element * 2, sizeof bits);
        return (double)view->table[bits];
    }
    return value_load(view->tensor->dtype, view->data + element * (int64_t)anydnn_dtype_size(view->tensor->dtype));
}

static void add(struct sum *sum, double a, double b)
{
    const double product = a * b;
    sum->value += product;
    sum->squares += product * product;
    sum->depth++;
}

/* ---------------------------------------------------------------- operations ---------------------------------- */

static int64_t tap(const struct geometry *g, int axis, int64_t r)
{
    return g->flipped ? g->filter[axis] - 1 - r : r;
}

static struct sum conv_forward(const struct check *check, const int64_t at[5])
{
    const struct geometry *g = &check->geometry;
    const int64_t first_c = at[1] / g->group_k * g->group_c;
    struct sum sum = { 0, 0, 0 };
    int64_t r[3], c;
    for (r[0] = 0; r[0] < g->filter[0]; r[0]++)
        for (r[1] = 0; r[1] < g->filter[1]; r[1]++)
            for (r[2] = 0; r[2] < g->filter[2]; r[2]++) {
                int64_t x = at[0] * g->xs[0] + first_c * g->xs[1], w = at[1] * g->ws[0];
                bool inside = true;
                int a;
                for (a = 0; a < 3; a++) {
                    const int64_t h = at[2 + a] * g->stride[a] - g->pad[a] + r[a] * g->dilation[a];
                    inside = inside && h >= 0 && h < g->in[a];
                    x += h * g->xs[2 + a];
                    w += tap(g, a, r[a]) * g->ws[2 + a];
                }
                for (c = 0; inside && c < g->group_c; c++)
                    add(&sum, load(&check->in1, x + c * g->xs[1]), load(&check->in2, w + c * g->ws[1]));
            }
    return sum;
}

static struct sum conv_backward_data(const struct check *check, const int64_t at[5])
{
    const struct geometry *g = &check->geometry;
    const int64_t first_k = at[1] / g->group_c * g->group_k;
    struct sum sum = { 0, 0, 0 };
    int64_t r[3], k;
    for (r[0] = 0; r[0] < g->filter[0]; r[0]++)
        for (r[1] = 0; r[1] < g->filter[1]; r[1]++)
            for (r[2] = 0; r[2] < g->filter[2]; r[2]++) {
                int64_t dy = at[0] * g->ys[0] + first_k * g->ys[1];
                int64_t w = first_k * g->ws[0] + at[1] % g->group_c * g->ws[1];
                bool inside = true;
                int a;
                for (a = 0; a < 3; a++) {
                    const int64_t far = at[2 + a] + g->pad[a] - r[a] * g->dilation[a], p = far / g->stride[a];
                    inside = inside && far >= 0 && far % g->stride[a] == 0 && p < g->out[a];
                    dy += p * g->ys[2 + a];
                    w += tap(g, a, r[a]) * g->ws[2 + a];
                }
                for (k = 0; inside && k < g->group_k; k++)
                    add(&sum, load(&check->in1, dy + k * g->ys[1]), load(&check->in2, w + k * g->ws[0]));
            }
    return sum;
}

static struct sum conv_backward_filter(const struct check *check, const int64_t at[5])
{
    const struct geometry *g = &check->geometry;
    const int64_t c = at[0] / g->group_k * g->group_c + at[1];
    struct sum sum = { 0, 0, 0 };
    int64_t n, p[3];
    for (n = 0; n < g->n; n++)
        for (p[0] = 0; p[0] < g->out[0]; p[0]++)
            for (p[1] = 0; p[1] < g->out[1]; p[1]++)
                for (p[2] = 0; p[2] < g->out[2]; p[2]++) {
                    int64_t x = n * g->xs[0] + c * g->xs[1], dy = n * g->ys[0] + at[0] * g->ys[1];
                    bool inside = true;
                    int a;
                    for (a = 0; a < 3; a++) {
                        const int64_t h = p[a] * g->stride[a] - g->pad[a] + tap(g, a, at[2 + a]) * g->dilation[a];
                        inside = inside && h >= 0 && h < g->in[a];
                        x += h * g->xs[2 + a];
                        dy += p[a] * g->ys[2 + a];
                    }
                    if (inside) add(&sum, load(&check->in1, x), load(&check->in2, dy));
                }
    return sum;
}

/* `at` is the place in y; batch dims of size 1 in a or b are broadcast. */
static struct sum matmul(const struct check *check, const int64_t *at)
{
    const anydnn_matmul *op = (const anydnn_matmul *)(const void *)anydnn_problem_op(check->set->problem);
    const anydnn_tensor *a = check->in1.tensor, *b = check->in2.tensor;
    const int row = a->ndim - 2, column = a->ndim - 1;
    const int a_k = op->trans_a ? row : column, b_k = op->trans_b ? column : row;
    int64_t ao = at[row] * a->strides[op->trans_a ? column : row];
    int64_t bo = at[column] * b->strides[op->trans_b ? row : column], k;
    struct sum sum = { 0, 0, 0 };
    int d;
    for (d = 0; d < row; d++) {
        ao += a->dims[d] == 1 ? 0 : at[d] * a->strides[d];
        bo += b->dims[d] == 1 ? 0 : at[d] * b->strides[d];
    }
    for (k = 0; k < a->dims[a_k]; k++)
        add(&sum, load(&check->in1, ao + k * a->strides[a_k]), load(&check->in2, bo + k * b->strides[b_k]));
    return sum;
}

/* ---------------------------------------------------------------- points -------------------------------------- */

/* Where point `number` lies. Behind the random ones come corners, then places beside multiples of tile sizes. */
static void choose_point(const struct check *check, int64_t number, int64_t at[ANYDNN_MAX_DIMS])
{
    const anydnn_tensor *t = check->output.tensor;
    int64_t left = number;
    int d;
    for (d = t->ndim - 1; d >= 0; d--) {
        const int64_t extent = t->dims[d];
        const uint64_t bits = random_bits((uint64_t)d + 77, (uint64_t)number);
        const int64_t edge = number - RANDOM_POINTS;
        if (check->all) {
            at[d] = left % extent;
            left /= extent;
        } else if (edge < 0 || (edge >= 256 && bits % 4 == 0)) {
            at[d] = (int64_t)((bits >> 8) % (uint64_t)extent);
        } else if (edge < 256) {
            at[d] = edge >> d & 1 ? extent - 1 : 0;
        } else {
            const int64_t tile = (int64_t)16 << ((bits >> 2) % 5), tiles = extent / tile + 1;
            const int64_t place = (int64_t)((bits >> 8) % (uint64_t)tiles) * tile - (int64_t)((bits >> 5) & 1);
            at[d] = place < 0 ? 0 : place >= extent ? extent - 1 : place;
        }
    }
}

static int64_t element_at(const anydnn_tensor *tensor, const int64_t *at)
{
    int64_t element = 0;
    int d;
    for (d = 0; d < tensor->ndim; d++) element += tensor->dims[d] == 1 ? 0 : at[d] * tensor->strides[d];
    return element;
}

static struct sum sum_at(const struct check *check, const int64_t *at)
{
    int64_t wide[5] = { at[0], at[1], 0, 0, 0 };
    const int axes = check->output.tensor->ndim - 2;
    int d;
    if (check->op == ANYDNN_OP_MATMUL) return matmul(check, at);
    for (d = 0; d < axes; d++) wide[5 - axes + d] = at[2 + d];
    if (check->op == ANYDNN_OP_CONV_FORWARD) return conv_forward(check, wide);
    if (check->op == ANYDNN_OP_CONV_BACKWARD_DATA) return conv_backward_data(check, wide);
    return conv_backward_filter(check, wide);
}

static bool check_point(struct check *check, int64_t number, char *why, size_t why_size)
{
    const int dtype = check->output.tensor->dtype;
    int64_t at[ANYDNN_MAX_DIMS] = { 0 };
    struct sum sum;
    double want, got, allowed, scale;
    size_t length;
    int d;
    choose_point(check, number, at);
    sum = sum_at(check, at);
    want = check->alpha * sum.value;
    if (check->bias.data) want += load(&check->bias, element_at(check->bias.tensor, at));
    if (check->beta != 0 && check->old.data) want += check->beta * load(&check->old, element_at(check->old.tensor, at));
    got = load(&check->output, element_at(check->output.tensor, at));
    scale = fabs(check->alpha) * sqrt(sum.squares);
    allowed = scale * (8 * check->roundoff * sqrt((double)sum.depth) + check->reduced) +
              1.01 * fabs(want) * fmax(value_roundoff(dtype), 4 * check->roundoff) + value_underflow(dtype);
    if (fabs(got - want) <= allowed) return true;
    length = (size_t)snprintf(why, why_size, "element");
    for (d = 0; d < check->output.tensor->ndim && length < why_size; d++)
        length += (size_t)snprintf(why + length, why_size - length, "%c%lld", d ? ',' : ' ', (long long)at[d]);
    if (length < why_size)
        snprintf(why + length, why_size - length, " is %.9g, should be %.9g within %.2g", got, want, allowed);
    return false;
}

/* One thread: takes points in small parts until they are used up or one is wrong. */
static void *work(void *argument)
{
    struct check *check = argument;
    enum { PART = 16 };
    for (;;) {
        char why[256];
        int64_t first, i;
        pthread_mutex_lock(&check->lock);
        first = check->good ? check->next : check->points;
        check->next += PART;
        pthread_mutex_unlock(&check->lock);
        if (first >= check->points) return NULL;
        for (i = first; i < first + PART && i < check->points; i++) {
            if (check_point(check, i, why, sizeof why)) continue;
            pthread_mutex_lock(&check->lock);
            if (check->good) snprintf(check->why, check->why_size, "%s", why);
            check->good = false;
            pthread_mutex_unlock(&check->lock);
            return NULL;
        }
    }
}

static void run_threads(struct check *check)
{
    pthread_t threads[MAX_THREADS];
    long wanted = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    if (wanted > MAX_THREADS) wanted = MAX_THREADS;
    pthread_mutex_init(&check->lock, NULL);
    while (started < wanted - 1 && pthread_create(&threads[started], NULL, work, check) == 0) started++;
    work(check);
    while (started > 0) pthread_join(threads[--started], NULL);
    pthread_mutex_destroy(&check->lock);
}

/* ---------------------------------------------------------------- set-up -------------------------------------- */

static void widen(int64_t wide[5], const int64_t *narrow, int ndim, int64_t missing)
{
    int d;
    for (d = 0; d < 5; d++) wide[d] = missing;
    wide[0] = narrow[0];
    wide[1] = narrow[1];
    for (d = 2; d < ndim; d++) wide[5 - ndim + d] = narrow[d];
}

static void set_geometry(struct geometry *g, const anydnn_conv *op, const anydnn_tensor *x, const anydnn_tensor *w,
                         const anydnn_tensor *y)
{
    const int axes = x->ndim - 2;
    int64_t dims[5];
    int a;
    widen(dims, x->dims, x->ndim, 1);
    g->n = dims[0];
    g->c = dims[1];
    memcpy(g->in, dims + 2, sizeof g->in);
    widen(dims, w->dims, w->ndim, 1);
    g->k = dims[0];
    g->group_c = dims[1];
    memcpy(g->filter, dims + 2, sizeof g->filter);
    widen(dims, y->dims, y->ndim, 1);
    memcpy(g->out, dims + 2, sizeof g->out);
    widen(g->xs, x->strides, x->ndim, 0);
    widen(g->ws, w->strides, w->ndim, 0);
    widen(g->ys, y->strides, y->ndim, 0);
    for (a = 0; a < 3; a++) {
        const int own = a - (3 - axes);
        g->stride[a] = own >= 0 && op->stride[own] ? op->stride[own] : 1;
        g->dilation[a] = own >= 0 && op->dilation[own] ? op->dilation[own] : 1;
        g->pad[a] = own >= 0 ? op->pad[own] : 0;
    }
    g->group_k = g->k / (op->groups ? op->groups : 1);
    g->flipped = op->mode;
}

static struct view view_of(const struct workset *set, int role, float *const tables[2])
{
    const int row = workset_find(set, role);
    struct view view = { NULL, NULL, NULL };
    if (row < 0) return view;
    view.tensor = &set->tensor[row];
    view.data = set->host[row];
    if (view.tensor->dtype == ANYDNN_F16) view.table = tables[0];
    if (view.tensor->dtype == ANYDNN_BF16) view.table = tables[1];
    return view;
}

static void make_tables(float *const tables[2])
{
    uint32_t i;
    for (i = 0; i < 65536; i++) {
        const uint16_t bits = (uint16_t)i;
        tables[0][i] = (float)value_load(ANYDNN_F16, &bits);
        tables[1][i] = (float)value_load(ANYDNN_BF16, &bits);
    }
}

static void set_views(struct check *check, float *const tables[2])
{
    static const int roles[][2] = {
        [ANYDNN_OP_CONV_FORWARD] = { ANYDNN_X, ANYDNN_W },
        [ANYDNN_OP_CONV_BACKWARD_DATA] = { ANYDNN_DY, ANYDNN_W },
        [ANYDNN_OP_CONV_BACKWARD_FILTER] = { ANYDNN_X, ANYDNN_DY },
        [ANYDNN_OP_MATMUL] = { ANYDNN_A, ANYDNN_B },
    };
    const struct workset *set = check->set;
    const anydnn_conv *conv = (const anydnn_conv *)(const void *)anydnn_problem_op(set->problem);
    check->in1 = view_of(set, roles[check->op][0], tables);
    check->in2 = view_of(set, roles[check->op][1], tables);
    check->bias = view_of(set, ANYDNN_BIAS, tables);
    check->output = check->old = view_of(set, points_output(check->op), tables);
    if (check->op == ANYDNN_OP_CONV_FORWARD)
        set_geometry(&check->geometry, conv, check->in1.tensor, check->in2.tensor, check->output.tensor);
    if (check->op == ANYDNN_OP_CONV_BACKWARD_DATA)
        set_geometry(&check->geometry, conv, check->output.tensor, check->in2.tensor, check->in1.tensor);
    if (check->op == ANYDNN_OP_CONV_BACKWARD_FILTER)
        set_geometry(&check->geometry, conv, check->in1.tensor, check->output.tensor, check->in2.tensor);
}

bool points_check(const struct workset *set, const void *output, char *why, size_t why_size)
{
    struct check check;
    float *tables[2];
    const int math = anydnn_problem_prefs(set->problem)->math;
    tables[0] = malloc(2 * 65536 * sizeof(float));
    if (!tables[0]) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    tables[1] = tables[0] + 65536;
    make_tables(tables);
    memset(&check, 0, sizeof check);
    check.set = set;
    check.op = anydnn_problem_op(set->problem)->op;
    set_views(&check, tables);
    check.output.data = output;
    check.alpha = workset_scalar(set, ANYDNN_ALPHA, 1);
    check.beta = workset_scalar(set, ANYDNN_BETA, 0);
    check.roundoff = value_roundoff(check.output.tensor->dtype == ANYDNN_F64 ? ANYDNN_F64 : ANYDNN_F32);
    check.reduced = math >= ANYDNN_MATH_TF32 && check.output.tensor->dtype == ANYDNN_F32 ? ldexp(1, -8) : 0;
    check.elements = anydnn_tensor_count(check.output.tensor);
    check.all = check.elements <= RANDOM_POINTS;
    check.points = check.all ? check.elements : RANDOM_POINTS + EDGE_POINTS;
    check.why = why;
    check.why_size = why_size;
    check.good = true;
    run_threads(&check);
    free(tables[0]);
    return check.good;
}
