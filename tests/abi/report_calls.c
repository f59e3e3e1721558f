/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/report_calls.c [DEVICE]: public bug reports on other libraries whose point is a rule of calls: what is
 * refused and how it is named, repeats, caches, order, memory, processes. Those with right values are in reports.c. */
#include "../support/job.h"
#include "../unit/unit.h"
#include "sanitized.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/wait.h>
#include <unistd.h>
#endif

static struct session s;
static const char *device;

/* A convolution that has its right answer still. */
static void works(const char *name)
{
    static const double one = 1;
    struct job job;
    struct operand *y;
    int64_t i;
    CHECK_CASE(job_open(&job, "conv_forward x=2x3x6x7/f32 w=4x3x3x3/f32") == ANYDNN_OK, name);
    job_set(&job, ANYDNN_X, &one, 1);
    job_set(&job, ANYDNN_W, &one, 1);
    y = job_operand(&job, ANYDNN_Y);
    CHECK_CASE(job_run(&s, &job, NULL, NULL) == ANYDNN_OK, name);
    for (i = 0; i < y->count && y->got[i] == 27; i++) continue;
    CHECK_CASE(i == y->count, name);
    job_close(&job);
}

/* ---- Refusals ---- */

/* The line is refused, with a message that names what is wrong. */
static void refused(const char *name, const char *line, const char *named)
{
    struct job job;
    const anydnn_status status = job_open(&job, line);
    if (status == ANYDNN_OK) job_close(&job);
    CHECK_CASE(status == ANYDNN_INVALID, name);
    CHECK_CASE(strstr(anydnn_message(), named) != NULL, name);
    if (!strstr(anydnn_message(), named)) printf("  the message is: %s\n", anydnn_message());
}

static void refusals(void)
{
    refused("pytorch/pytorch#9592: a filter's reach of 5 in 4 pixels",
            "conv_forward x=1x1x4x4/f32 w=1x1x3x3/f32 stride=2,2 dilation=2,2", "spatial axis 0");
    refused("ROCm/MIOpen#55: a transposed convolution without output",
            "conv_backward_data dy=1x6x4x4/f32 w=6x4x1x1/f32 dx=1x4x1x1/f32 pad=2,2", "dims[2]");
    refused("uxlfoundation/oneDNN#1721: a window that exceeds its axis",
            "pool_forward x=1x64x1x64:nhwc/f32 window=64,1", "window[0] is 64");
    refused("apache/mxnet#6191: windows of padding only", "pool_forward x=1x1x2x2/f32 window=2,2 pad=2,2", "pad[0]");
    refused("CNugteren/CLBlast#346: an output that overlaps itself",
            "matmul a=2x3x4/f32 b=2x4x5/f32 y=2x3x5:s0,5,1/f32 beta=1", "y: its strides");
    refused("ROCm/MIOpen#1441: inference without statistics",
            "batchnorm_inference x=2x3x4x4/f32 gamma=1x3x1x1/f32 shift=1x3x1x1/f32", "running_mean");
    refused("ggml-org/ggml#1521: dx over y", "softmax_backward y=4x5/f32 dy=4x5/f32 dx=4x5/f32&y", "dx");
}

/* Memory that is of no such device, or not there, is refused and nothing is written. */
static void memory_kinds(void)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 4);
    const anydnn_mem x = s.arena;
    anydnn_mem y = anydnn_mem_at(s.arena, 256), wrong = y;
    float out[4];
    anydnn_activation op = anydnn_activation_init();
    anydnn_binding rows[2];
    int i;
    CHECK(anydnn_set(s.stream, s.arena, 0, 512) == ANYDNN_OK);
    for (i = 0; i < 3; i++) {
        if (i == 0) wrong.kind = y.kind == ANYDNN_MEM_HOST ? ANYDNN_MEM_OPENCL : ANYDNN_MEM_HOST;
        if (i == 1) wrong = y, wrong.base = NULL;
        if (i == 2) wrong = anydnn_mem_none();
        rows[0] = anydnn_bind(ANYDNN_X, &t, x), rows[1] = anydnn_bind(ANYDNN_Y, &t, wrong);
        CHECK_CASE(anydnn_run(s.stream, (anydnn_op *)&op, NULL, rows, 2) == ANYDNN_INVALID,
                   "artyom-beilis/pytorch_dlprim#6");
        CHECK_CASE(strstr(anydnn_message(), "y") != NULL, "artyom-beilis/pytorch_dlprim#6: the message names y");
    }
    CHECK(anydnn_copy_out(s.stream, out, y, sizeof out) == ANYDNN_OK && anydnn_stream_sync(s.stream) == ANYDNN_OK);
    for (i = 0; i < 4; i++) CHECK_CASE(out[i] == 0, "artyom-beilis/pytorch_dlprim#6: nothing is written");
}

/* ---- Repeats, caches, order ---- */

static void random_data(struct job *job)
{
    int64_t i;
    int k;
    for (k = 0; k < job->operands; k++)
        for (i = 0; i < job->operand[k].count; i++)
            if (job->operand[k].flags & ANYDNN_ROLE_IN)
                job->operand[k].data[i] = (double)((i * 7919 + k * 31) % 1021) / 1021 - 0.5;
}

/* Every deterministic engine gives the same bits 20 times. */
static void repeats(const char *name, const char *line)
{
    static char engines[JOB_ENGINES][64];
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    struct job job;
    struct operand *o;
    double *first;
    int i, k, count, out = 0;
    prefs.deterministic = 1;
    CHECK_CASE(job_open(&job, line) == ANYDNN_OK, name);
    random_data(&job);
    while (!(job.operand[out].flags & ANYDNN_ROLE_OUT)) out++;
    o = &job.operand[out];
    first = malloc((size_t)o->count * sizeof *first);
    count = job_engines(&s, &job, !s.info.is_cpu, engines);
    CHECK_CASE(count > 0 && first, name);
    for (i = 0; first && i < count; i++) {
        CHECK_CASE(job_run(&s, &job, &prefs, engines[i]) == ANYDNN_OK, name);
        memcpy(first, o->got, (size_t)o->count * sizeof *first);
        for (k = 1; k < 20; k++) {
            CHECK_CASE(job_run(&s, &job, &prefs, engines[i]) == ANYDNN_OK, name);
            CHECK_CASE(!memcmp(first, o->got, (size_t)o->count * sizeof *first), name);
        }
    }
    free(first);
    job_close(&job);
}

/* The masks of two calls differ, and the same seed and offset repeat them. */
static void dropout_masks(void)
{
    static const double one = 1;
    struct job job;
    struct operand *y;
    double masks[4][4096];
    int i, k, kept = 0;
    CHECK(job_open(&job, "dropout_forward x=4096/f32 ratio=0.5") == ANYDNN_OK);
    job_set(&job, ANYDNN_X, &one, 1);
    y = job_operand(&job, ANYDNN_Y);
    for (k = 0; k < 4; k++) { /* the first call, the next one, the first again, another seed */
        job_scalar(&job, ANYDNN_SEED, k == 3 ? 8 : 7);
        job_scalar(&job, ANYDNN_OFFSET, k == 1 ? 1024 : 0);
        CHECK(job_run(&s, &job, NULL, NULL) == ANYDNN_OK);
        memcpy(masks[k], y->got, sizeof masks[k]);
    }
    for (i = 0; i < 4096; i++) kept += masks[0][i] == 2;
    CHECK_CASE(memcmp(masks[0], masks[1], sizeof *masks) != 0,
               "PaddlePaddle/Paddle#7796: the next call's mask differs");
    CHECK_CASE(memcmp(masks[0], masks[3], sizeof *masks) != 0, "PaddlePaddle/Paddle#7796: another seed's mask differs");
    CHECK_CASE(!memcmp(masks[0], masks[2], sizeof *masks), "PaddlePaddle/Paddle#7796: a repeat repeats");
    CHECK_CASE(kept > 1900 && kept < 2200, "PaddlePaddle/Paddle#7796: about half is kept, scaled by 2");
    job_close(&job);
}

/* One-shot calls that differ only in `lines`, in turn: each has its own answer at y[0]. */
static void in_turn(const char *name, const char *const *lines, const double *answers, int count)
{
    static const double counting[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    int round, i, k;
    for (round = 0; round < 3; round++)
        for (i = 0; i < count; i++) {
            const int at = round == 1 ? count - 1 - i : i;
            struct job job;
            CHECK_CASE(job_open(&job, lines[at]) == ANYDNN_OK, name);
            for (k = 0; k < job.operands; k++)
                if (job.operand[k].flags & ANYDNN_ROLE_IN) job_set(&job, job.operand[k].role, counting, 9);
            job.one_shot = true;
            CHECK_CASE(job_run(&s, &job, NULL, NULL) == ANYDNN_OK, name);
            CHECK_CASE(fabs(job_operand(&job, ANYDNN_Y)->got[0] - answers[at]) < 1e-5, name);
            job_close(&job);
        }
}

static void plan_keys(void)
{
    static const char *const pools[] = { "pool_forward x=1x1x3x3/f32 mode=avg_include window=2,2 pad=1,1",
                                         "pool_forward x=1x1x3x3/f32 mode=avg_exclude window=2,2 pad=1,1",
                                         "pool_forward x=1x1x3x3/f32 mode=max window=2,2 pad=1,1",
                                         "pool_forward x=1x1x3x3/f32 mode=avg_include window=2,2",
                                         "pool_forward x=1x1x3x3:s9,9,1,3/f32 mode=max window=2,1" };
    static const double pooled[] = { 0.25, 1, 1, 3, 4 };
    static const char *const convs[] = { "conv_forward x=1x1x3x3/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x2x2/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x2x4/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x4x2/f32 w=1x1x2x2/f32",
                                         "conv_forward x=1x1x3x3/f32 w=1x1x2x2/f32 mode=convolution",
                                         "conv_forward x=1x1x3x3/f32 w=1x1x2x2/f32 dilation=2,2" };
    static const double convolved[] = { 37, 30, 44, 30, 23, 64 };
    static const char *const clips[] = { "activation_forward x=3/f32 mode=clipped_relu coef=0.5",
                                         "activation_forward x=3/f32 mode=clipped_relu",
                                         "conv_forward x=1x1x3/f32 w=1x1x1/f32 activation=clipped_relu coef=0.25",
                                         "conv_forward x=1x1x3/f32 w=1x1x1/f32 activation=clipped_relu" };
    static const double clipped[] = { 0.5, 1, 0.25, 1 };
    in_turn("kulinseth/pytorch#273: pools that differ in mode, padding or strides", pools, pooled, 5);
    in_turn("davisking/dlib#2531: convolutions of one filter at sizes in turn", convs, convolved, 6);
    in_turn("a default that depends on the mode, behind a call that gave a value", clips, clipped, 4);
}

/* Work of a stream runs in its order, and another stream that waits for an event sees all of it. */
static void stream_order(void)
{
    const anydnn_tensor big = anydnn_tensor_2d(ANYDNN_F32, 192, 192), t = anydnn_tensor_1d(ANYDNN_F32, 64);
    const anydnn_mem a = s.arena, x = anydnn_mem_at(a, 1 << 20), y = anydnn_mem_at(a, 2 << 20);
    const anydnn_matmul product = anydnn_matmul_init();
    anydnn_stream *second = NULL;
    anydnn_event *done = NULL;
    float out[64] = { 0 };
    int i;
    CHECK(anydnn_stream_create(s.context, ANYDNN_NO_WORKSPACE, &second) == ANYDNN_OK);
    CHECK(anydnn_event_create(s.context, &done) == ANYDNN_OK);
    CHECK(anydnn_fill_tensor(s.stream, &big, a, 1) == ANYDNN_OK && anydnn_fill_tensor(s.stream, &t, x, 1) == ANYDNN_OK);
    for (i = 0; i < 4; i++) /* the long kernels before */
        CHECK(anydnn_matmul_run(s.stream, &product, &big, a, &big, a, NULL, anydnn_mem_none(), &big, y) == ANYDNN_OK);
    for (i = 0; i < 20; i++) CHECK(anydnn_scale_tensor(s.stream, &t, x, 2) == ANYDNN_OK);
    CHECK(anydnn_event_record(done, s.stream) == ANYDNN_OK && anydnn_stream_wait(second, done) == ANYDNN_OK);
    CHECK(anydnn_copy_tensor(second, &t, x, &t, anydnn_mem_at(x, 4096)) == ANYDNN_OK);
    CHECK(anydnn_copy_out(second, out, anydnn_mem_at(x, 4096), sizeof out) == ANYDNN_OK);
    CHECK(anydnn_stream_sync(second) == ANYDNN_OK);
    for (i = 0; i < 64; i++) CHECK_CASE(out[i] == 1048576, "pytorch/pytorch#2984: order on the stream");
    CHECK(anydnn_stream_sync(s.stream) == ANYDNN_OK);
    anydnn_event_destroy(done);
    anydnn_stream_destroy(second);
}

/* Every engine that declines says why. */
static void reasons(void)
{
    static anydnn_verdict rows[JOB_ENGINES];
    static const char *const lines[] = {
        "conv_forward x=1x3x9x9:s300,97,11,1/f32 w=5x3x3x3/f32 pad=1,1",
        "conv_backward_filter x=2x12x49/f16 dy=2x12x50/f16 dw=12x6x128/f16 pad=64 groups=2",
        "matmul a=3x5/bf16 b=5x7/bf16"
    };
    int i, k, count = 0, bound;
    for (i = 0; i < 3; i++) {
        struct job job;
        const anydnn_binding *b;
        CHECK(job_open(&job, lines[i]) == ANYDNN_OK);
        b = anydnn_problem_bindings(job.problem, &bound);
        CHECK(anydnn_explain(s.context, job.op, NULL, b, bound, rows, JOB_ENGINES, &count) == ANYDNN_OK && count > 0);
        for (k = 0; k < count && k < JOB_ENGINES; k++)
            CHECK_CASE(rows[k].status == ANYDNN_OK || (rows[k].reason && rows[k].text[0]),
                       "NVIDIA/cudnn-frontend#116: a reason each");
        job_close(&job);
    }
}

/* A context may be opened again after it was closed; what it cached is gone with it. */
static void reopening(void)
{
    int i;
    for (i = 0; i < 3; i++) {
        session_close(&s);
        CHECK_CASE(session_open(&s, device, NULL, 16 << 20) == 0, "CNugteren/CLBlast#47: open again");
        works("CNugteren/CLBlast#47: works after it was opened again");
    }
}

#ifdef __linux__
static long resident_pages(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long total = 0, resident = 0;
    if (!f || fscanf(f, "%ld %ld", &total, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return resident;
}

static void many_shapes(int from, int to)
{
    static const double one = 1;
    int i;
    for (i = from; i < to; i++) {
        char line[128];
        struct job job;
        snprintf(line, sizeof line, "conv_forward x=1x3x3x%d/f32 w=2x3x3x3/f32", 3 + i);
        CHECK(job_open(&job, line) == ANYDNN_OK);
        job_set(&job, ANYDNN_X, &one, 1), job_set(&job, ANYDNN_W, &one, 1);
        job.one_shot = true;
        CHECK_CASE(job_run(&s, &job, NULL, NULL) == ANYDNN_OK && job_operand(&job, ANYDNN_Y)->got[i] == 27, line);
        job_close(&job);
    }
}

/* Memory does not grow with the number of shapes once the plan cache is full. Drivers keep memory of their own, so this
 * is measured on the CPU alone. */
static void growth(void)
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    long before;
    options.plan_cache = 32;
    session_close(&s);
    CHECK(session_open(&s, device, &options, 16 << 20) == 0);
    many_shapes(0, 100);
    before = resident_pages();
    many_shapes(100, 1500);
    /* Sanitizers keep what is freed for a while. */
    if (s.info.backend == ANYDNN_BACKEND_CPU && !ADDRESS_SANITIZED && !THREAD_SANITIZED)
        CHECK_CASE(resident_pages() - before < 512, "pytorch/pytorch#104701, #32037: memory after 1400 further shapes");
    else
        works("pytorch/pytorch#104701: after 1400 further shapes");
}

/* A child that does nothing leaves the parent's device as it is. */
static void forked_child(void)
{
    int i, status = -1;
    for (i = 0; i < 3; i++) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        works("opencv/opencv#21707: after a child that did nothing");
    }
}
#endif

int main(int argc, char **argv)
{
    int code;
    device = argc > 1 ? argv[1] : "cpu";
    code = session_open(&s, device, NULL, 16 << 20);
    if (code) return code;
    refusals();
    memory_kinds();
    repeats("pytorch/pytorch#3614: filter gradients",
            "conv_backward_filter x=4x5x9x9/f32 dy=4x6x9x9/f32 dw=6x5x3x3/f32 pad=1,1");
    repeats("soumith/cudnn.torch#274: data gradients",
            "conv_backward_data dy=4x6x9x9/f32 w=6x5x3x3/f32 dx=4x5x9x9/f32 pad=1,1");
    repeats("soumith/cudnn.torch#274: bias gradients", "conv_backward_bias dy=8x3x33x31/f32");
    repeats("soumith/cudnn.torch#274: overlapping windows", "pool_backward dy=2x3x5x5/f32 x=2x3x9x9/f32 dx=2x3x9x9/f32 "
                                                            "mode=max window=5,5");
    dropout_masks();
    plan_keys();
    stream_order();
    reasons();
    reopening();
#ifdef __linux__
    growth();
    forked_child();
#endif
    session_close(&s);
    return unit_end();
}
