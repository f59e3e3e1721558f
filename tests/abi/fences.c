/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/fences.c [DEVICE]: nothing is read or written outside a tensor: every operand lies against a page that may
 * not be touched, once behind its last byte and once before its first, and every engine runs. What is read too far is
 * mostly thrown away, so values do not tell. On the CPU, and on OpenCL devices that are CPUs: these compute in the
 * caller's own memory. The line in hand is printed when a page is touched.
 * Limits: POSIX; GPUs have no such pages (tests/sanitize.sh has compute-sanitizer and oclgrind for their kernels). */
#define _DEFAULT_SOURCE
#include "../unit/unit.h"
#include "bench/values.h"
#include "sanitized.h"

#include <anydnn/anydnn.h>
#include <anydnn/opencl.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OPERANDS = 16, ENGINES = 96, WORKSPACE = 16 << 20 };

static const char *const lines[] = {
    "conv_forward x=2x5x7x9/T w=6x5x3x3/T bias=1x6x1x1/T z=2x6x7x9/T y=2x6x7x9/T pad=1,1",
    "conv_forward x=2x16x6x5:nhwc/T w=24x16x3x3:nhwc/T y=2x24x6x5:nhwc/T pad=1,1",
    "conv_forward x=2x16x6x5:nhwc/T w=20x16x1x1:nhwc/T y=2x20x6x5:nhwc/T",
    "conv_forward x=1x7x33/T w=5x7x4/T stride=3 pad=2",
    "conv_forward x=1x4x5x6x7/T w=8x2x2x3x3/T groups=2 dilation=1,2,1",
    "conv_forward x=1x8x11x13:nhwc/T w=8x1x3x3/T y=1x8x11x13:nhwc/T groups=8 pad=1,1",
    "conv_forward x=1x6x11x13/T w=6x1x5x5/T groups=6 pad=2,2 stride=2,2",
    "conv_backward_data dy=2x6x5x7/T w=6x5x3x3/T dx=2x5x10x14/T stride=2,2 pad=1,1",
    "conv_backward_data dy=2x24x6x5:nhwc/T w=24x16x3x3:nhwc/T dx=2x16x6x5:nhwc/T pad=1,1",
    "conv_backward_data dy=1x8x9x9:nhwc/T w=8x1x3x3/T dx=1x8x9x9:nhwc/T groups=8 pad=1,1",
    "conv_backward_filter x=2x5x10x14/T dy=2x6x5x7/T dw=6x5x3x3/T stride=2,2 pad=1,1",
    "conv_backward_filter x=2x16x6x5:nhwc/T dy=2x24x6x5:nhwc/T dw=24x16x3x3:nhwc/T pad=1,1",
    "conv_backward_filter x=2x8x9x9:nhwc/T dy=2x8x9x9:nhwc/T dw=8x1x3x3/T groups=8 pad=1,1",
    "conv_backward_bias dy=3x5x7x9/T",
    "conv_backward_bias dy=3x8x7x9:nhwc/T",
    "matmul a=13x17/T b=17x23/T bias=1x23/T",
    "matmul a=2x16x24/T b=2x24x40/T",
    "matmul a=37x20/T b=44x37/T trans_a=1 trans_b=1",
    "matmul a=1x131/T b=131x24/T",
    "matmul a=33x136/T b=136x1/T",
    "pool_forward x=2x3x7x9/T indices=2x3x4x5/i32 mode=max window=3,3 stride=2,2 pad=1,1",
    "pool_forward x=2x8x7x9:nhwc/T mode=avg_include window=2,3 pad=1,1",
    "pool_backward dy=2x3x4x5/T x=2x3x7x9/T dx=2x3x7x9/T mode=max window=3,3 stride=2,2 pad=1,1",
    "pool_backward dy=2x8x8x9:nhwc/T dx=2x8x7x9:nhwc/T mode=avg_exclude window=2,3 pad=1,1",
    "activation_forward x=133/T mode=tanh",
    "activation_forward x=5x32:s37,1/T mode=relu",
    "activation_backward dy=136/T x=136/T y=136/T mode=sigmoid",
    "softmax_forward x=5x37/T",
    "softmax_forward x=3x64x2/T mode=log",
    "softmax_forward x=2x4099/T",
    "softmax_backward y=5x40/T dy=5x40/T",
    "cross_entropy_forward x=9x24/T labels=9x1/i32",
    "cross_entropy_backward x=9x13x2/T labels=9x1x2/i64 dloss=1x1x1/f32",
    "batchnorm_training x=3x5x4x7/T gamma=1x5x1x1/f32 shift=1x5x1x1/f32 saved_mean=1x5x1x1/f32 "
    "saved_invstd=1x5x1x1/f32 running_mean=1x5x1x1/f32 running_var=1x5x1x1/f32",
    "batchnorm_training x=3x8x4x7:nhwc/T gamma=1x8x1x1/f32 shift=1x8x1x1/f32",
    "batchnorm_inference x=3x5x4x7/T gamma=1x5x1x1/f32 shift=1x5x1x1/f32 running_mean=1x5x1x1/f32 "
    "running_var=1x5x1x1/f32",
    "batchnorm_backward x=3x8x4x7:nhwc/T dy=3x8x4x7:nhwc/T gamma=1x8x1x1/f32",
    "binary a=7x24/T b=1x24/T mode=add",
    "binary a=7x1x13/T b=1x5x13/T mode=max",
    "binary_backward dy=7x24/T a=7x24/T b=1x24/T da=7x24/T db=1x24/T mode=mul",
    "reduce x=7x131/T mode=sum axes=1",
    "reduce x=131x24/T mode=max axes=0",
    "reduce x=40009/T mode=norm2",
    "reduce_backward dy=7x1/T x=7x40/T dx=7x40/T mode=max axes=1",
    "copy x=5x7x24/T y=5x7x24:s1,5,35/T",
    "copy x=131/T y=131/i8",
    "fill y=131/T value=2",
    "scale y=136/T alpha=0.5",
    "dropout_forward x=131/T rng_seed=5",
    "dropout_backward dy=136/T rng_seed=5",
    "sgd grad=136/T param=136/T moment1=136/f32 lr=0.5 momentum=0.5",
    "adam grad=131/T param=131/T moment1=131/f32 moment2=131/f32 lr=0.5",
};
enum { LINES = sizeof lines / sizeof *lines };

/* ---- pages ---- */

static anydnn_context *context;
static anydnn_stream *stream;
static char hand[800]; /* the line in hand */
static size_t page;

/* clCreateBuffer and clReleaseMemObject, by hand: the library's headers know no OpenCL. */
static void *(*create_buffer)(void *, uint64_t, size_t, void *, int32_t *);
static int32_t (*release_buffer)(void *);

static void touched(int signal)
{
    const ssize_t written = write(1, hand, strlen(hand));
    (void)signal, (void)written;
    _exit(1);
}

/* An operand: `pages` of memory between two that may not be touched. */
struct fenced {
    unsigned char *map; /* the first of the untouchable pages */
    size_t pages;
    anydnn_mem mem;
};

static bool fence(struct fenced *f, uint64_t bytes, bool behind)
{
    enum { READ_WRITE = 1, USE_HOST_POINTER = 8 };
    int32_t code = 0;
    f->pages = (bytes + page - 1) / page + (bytes == 0);
    f->map = mmap(NULL, (f->pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->map == MAP_FAILED || mprotect(f->map + page, f->pages * page, PROT_READ | PROT_WRITE)) return false;
    f->mem = anydnn_host_mem(f->map + page, f->pages * page);
    if (create_buffer)
        f->mem = anydnn_cl_mem(create_buffer(anydnn_opencl_native_context(context), READ_WRITE | USE_HOST_POINTER,
                                             f->pages * page, f->map + page, &code),
                               0, f->pages * page);
    if (behind) f->mem.offset = f->pages * page - bytes;
    return code == 0 && f->mem.base;
}

static void unfence(struct fenced *f)
{
    if (create_buffer && f->mem.base) release_buffer(f->mem.base);
    munmap(f->map, (f->pages + 2) * page);
}

/* ---- runs ---- */

static double sample(int role, int64_t i)
{
    if (role == ANYDNN_LABELS) return (double)(i % 3);
    return 0.25 + (double)(i * 7 % 13) / 16; /* positive: variances among them */
}

static anydnn_status fill(const anydnn_binding *row)
{
    const size_t size = anydnn_dtype_size(row->tensor->dtype);
    const int64_t bytes = anydnn_tensor_bytes(row->tensor);
    unsigned char *data = malloc((size_t)bytes + 1);
    anydnn_status status = data ? ANYDNN_OK : ANYDNN_OUT_OF_MEMORY;
    int64_t i;
    for (i = 0; data && i < bytes / (int64_t)size; i++)
        value_store(row->tensor->dtype, data + (size_t)i * size, sample(row->role, i));
    if (!status) status = anydnn_copy_in(stream, row->mem, data, (uint64_t)bytes);
    if (!status) status = anydnn_stream_sync(stream);
    free(data);
    return status;
}

/* Each engine by its own choice, and the automatic one. */
static void engines(const anydnn_op *op, const anydnn_binding *rows, int count, const char *line)
{
    static anydnn_verdict verdict[ENGINES];
    anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    int i, found = 0;
    CHECK_CASE(anydnn_candidates(context, op, NULL, rows, count, verdict, ENGINES, &found) == ANYDNN_OK && found > 0,
               line);
    for (i = 0; i < found && i < ENGINES; i++) {
        if (verdict[i].traits & ANYDNN_TRAIT_SLOW_START || verdict[i].workspace_bytes > WORKSPACE) continue;
        if (i > 0 && !strncmp(verdict[i].engine, verdict[i - 1].engine, strcspn(verdict[i].engine, ":") + 1)) continue;
        snprintf(hand, sizeof hand, "%.64s leaves a tensor of %.500s\n1 failed\n", verdict[i].engine, line);
        prefs.engine = verdict[i].engine;
        CHECK_CASE(anydnn_run(stream, op, &prefs, rows, count) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK,
                   hand);
    }
}

static void try_line(const char *pattern, const char *dtype, bool behind)
{
    struct fenced memory[OPERANDS];
    anydnn_binding rows[2 * OPERANDS];
    anydnn_problem *problem = NULL;
    const anydnn_binding *given;
    char line[512], *to = line;
    int i, count = 0, fenced = 0;
    for (; *pattern; pattern++) to += *pattern == 'T' ? sprintf(to, "%s", dtype) : sprintf(to, "%c", *pattern);
    CHECK_CASE(anydnn_problem_parse(line, &problem) == ANYDNN_OK, line);
    given = anydnn_problem_bindings(problem, &count);
    for (i = 0; i < count; i++) {
        rows[i] = given[i];
        if (!given[i].tensor) continue;
        CHECK_CASE(fence(&memory[fenced], (uint64_t)anydnn_tensor_bytes(given[i].tensor), behind), line);
        rows[i].mem = memory[fenced++].mem;
        CHECK_CASE(fill(&rows[i]) == ANYDNN_OK, line);
    }
    engines(anydnn_problem_op(problem), rows, count, line);
    for (i = 0; i < fenced; i++) unfence(&memory[i]);
    anydnn_problem_destroy(problem);
}

/* ---- devices ---- */

static bool take(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* 0, or the exit code of the test, which has said why. */
static int open_device(const char *device)
{
    anydnn_device_info info = { (uint32_t)sizeof info };
    const anydnn_status status = anydnn_open(device, NULL, &context);
    void *library;
    if (status == ANYDNN_UNSUPPORTED || (!status && (anydnn_context_info(context, &info) || !info.is_cpu))) {
        printf("skipped: %s: %s\n", device, status ? anydnn_message() : "is no CPU");
        anydnn_close(status ? NULL : context);
        return 77;
    }
    if (status || anydnn_stream_create(context, WORKSPACE, &stream)) {
        printf("cannot open %s: %s\n", device, anydnn_message());
        return 1;
    }
    if (info.backend != ANYDNN_BACKEND_OPENCL) return 0;
    library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    return library && take(library, "clCreateBuffer", &create_buffer) &&
                   take(library, "clReleaseMemObject", &release_buffer)
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    struct sigaction action;
    int i, behind, code;
    if (ADDRESS_SANITIZED || THREAD_SANITIZED) {
        printf("skipped: sanitizers have their own handler of faults\n");
        return 77;
    }
    page = (size_t)sysconf(_SC_PAGESIZE);
    code = open_device(argc > 1 ? argv[1] : "cpu");
    if (code) return code;
    memset(&action, 0, sizeof action);
    action.sa_handler = touched;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    for (i = 0; i < LINES; i++)
        for (behind = 0; behind < 2; behind++) {
            try_line(lines[i], "f32", behind);
            try_line(lines[i], dtypes[1 + i % 2], behind);
        }
    signal(SIGSEGV, SIG_DFL);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return unit_end();
}
