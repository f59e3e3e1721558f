/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/batch_invariant.c [device]: with prefs.batch_invariant an item gives the same bits alone and in a batch of
 * five, for every operation that the flag concerns; on a GPU language the flag must make a difference somewhere: without it
 * the same items differ. */
#include "../support/job.h"
#include "bench/values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 5 };

/* %d is the number of items, everywhere axis 0 of what belongs to them. */
static const char *const lines[] = {
    "conv_forward x=%dx512x4x4/f32 w=16x512x3x3/f32 pad=1,1",
    "conv_forward x=%dx512x4x4:nhwc/f16 w=16x512x3x3:nhwc/f16 pad=1,1 bias=1x16x1x1/f16 activation=relu",
    "conv_forward x=%dx700x7/f32 w=12x700x1/f32",
    "conv_forward x=%dx64x9x9:nhwc/f32 w=64x1x3x3/f32 groups=64 pad=1,1 y=%dx64x9x9:nhwc/f32",
    "conv_forward x=%dx96x5x5/bf16 w=24x48x3x3/bf16 groups=2 stride=2,2",
    "conv_forward x=%dx256x5x5/f32 w=24x256x3x3/f32 math=tf32",
    "conv_backward_data dy=%dx512x4x4/f32 w=512x16x3x3/f32 pad=1,1 dx=%dx16x4x4/f32",
    "conv_backward_data dy=%dx64x9x9:nhwc/f16 w=64x1x3x3/f16 groups=64 pad=1,1 dx=%dx64x9x9:nhwc/f16",
    "matmul a=%dx3000/f32 b=3000x19/f32",
    "matmul a=%dx7x900/f16 b=%dx900x11/f16",
    "matmul a=%dx3000/f32 b=3000x1/f32",
    "pool_forward x=%dx3x20x20/f32 window=9,9 mode=avg_include",
    "pool_backward dy=%dx3x4x4/f32 window=3,3 stride=2,2 dx=%dx3x9x9/f32 mode=avg_exclude",
    "softmax_forward x=%dx1000/f32",
    "softmax_forward x=%dx1000x3/f16",
    "softmax_backward y=%dx777x2/f32 dy=%dx777x2/f32 mode=log",
    "cross_entropy_forward x=%dx1000/f32 labels=%dx1/i32 reduction=none",
    "cross_entropy_backward x=%dx1000/f32 labels=%dx1/i32 reduction=sum",
};

static int failures;

static void fill(struct job *job)
{
    int i;
    int64_t k;
    for (i = 0; i < job->operands; i++)
        for (k = 0; k < job->operand[i].count; k++) {
            const double v = random_unit((uint64_t)job->operand[i].role, (uint64_t)k);
            if (job->operand[i].flags & ANYDNN_ROLE_IN)
                job->operand[i].data[k] = job->operand[i].role == ANYDNN_LABELS ? floor(500 * (v + 1)) : v;
        }
}

/* The part of an operand that belongs to an item: a slice of axis 0, or all of it. */
static const double *part(const struct operand *whole, const double *data, const struct operand *single, int item)
{
    return data + (whole->count == single->count ? 0 : item * single->count);
}

/* Whether all items of the batch equal those that were computed alone. */
static bool agree(struct session *s, const char *line, struct job *batch, const anydnn_prefs *prefs, const char *engine)
{
    char text[256];
    bool same = true;
    int item, i;
    for (item = 0; item < BATCH; item++) {
        struct job one;
        snprintf(text, sizeof text, line, 1, 1);
        if (job_open(&one, text) != ANYDNN_OK) return false;
        for (i = 0; i < one.operands; i++)
            memcpy(one.operand[i].data, part(&batch->operand[i], batch->operand[i].data, &one.operand[i], item),
                   (size_t)one.operand[i].count * sizeof(double));
        if (job_run(s, &one, prefs, engine) != ANYDNN_OK) same = false;
        for (i = 0; i < one.operands; i++)
            if ((one.operand[i].flags & ANYDNN_ROLE_OUT) &&
                memcmp(one.operand[i].got, part(&batch->operand[i], batch->operand[i].got, &one.operand[i], item),
                       (size_t)one.operand[i].count * sizeof(double)) != 0)
                same = false;
        job_close(&one);
    }
    return same;
}

static bool runs_alike(struct session *s, const char *line, bool flag)
{
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    struct job batch;
    char text[256];
    bool same = false;
    prefs.batch_invariant = flag;
    prefs.math = strstr(line, "math=tf32") ? ANYDNN_MATH_TF32 : ANYDNN_MATH_DEFAULT;
    snprintf(text, sizeof text, line, BATCH, BATCH);
    if (job_open(&batch, text) == ANYDNN_OK) {
        fill(&batch);
        if (job_run(s, &batch, &prefs, NULL) == ANYDNN_OK) same = agree(s, line, &batch, &prefs, NULL);
        job_close(&batch);
    }
    return same;
}

int main(int argc, char **argv)
{
    struct session s;
    const int opened = session_open(&s, argc > 1 ? argv[1] : "cpu", NULL, 64 << 20);
    int i, differ = 0, count = (int)(sizeof lines / sizeof *lines);
    if (opened) return opened;
    for (i = 0; i < count; i++) {
        if (!runs_alike(&s, lines[i], true)) {
            printf("FAILED: %s: an item depends on its batch (%s)\n", lines[i], anydnn_message());
            failures++;
        }
        if (!runs_alike(&s, lines[i], false)) differ++;
    }
    if (s.info.backend != ANYDNN_BACKEND_CPU && differ == 0) {
        printf("FAILED: without the flag nothing differs: this test sees nothing\n");
        failures++;
    }
    printf("%d passed, %d failed; %d of %d differ without the flag\n", count - failures, failures, differ, count);
    session_close(&s);
    return failures ? 1 : 0;
}
