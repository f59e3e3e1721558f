/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/growth.c [DEVICE [SHAPES]]: memory does not grow with the number of shapes: one-shot calls of six
 * operations, each call of another shape, on the CPU or the device named (3000 shapes where none are asked for; 10000
 * is the full test). The resident set at a fifth of them and at the end may differ by less than 5 %.
 * OpenCL drivers grow by themselves with every launch: a second process launches a kernel of its own as many times,
 * with as many sizes, by bare OpenCL calls, and what it grows by is subtracted. All figures are printed.
 * The plan cache must be full at the first measurement: with fewer than 10000 shapes it is made smaller.
 * Limits: Linux (/proc/self/statm). */
#include "contract.h"
#include "sanitized.h"

#include <dlfcn.h>
#include <unistd.h>

enum { KINDS = 6, FULL = 10000 };

static int64_t resident(void)
{
    long whole = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%ld %ld", &whole, &pages) != 2) pages = 0;
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* ---- the library ---- */

/* No two of up to 10080 shapes are equal: k counts in three dims. */
static void write_line(int shape, char *line, size_t capacity)
{
    const int k = shape / KINDS, a = k % 4 + 1, b = k / 4 % 20 + 3, c = k / 80 + 3;
    switch (shape % KINDS) {
    case 0:
        snprintf(line, capacity, "conv_forward x=1x%dx%dx%d/f32 w=3x%dx3x3/f32 pad=1,1", a, b, c, a);
        break;
    case 1:
        snprintf(line, capacity, "matmul a=%dx%d/f32 b=%dx%d/f32", a, b, b, c);
        break;
    case 2:
        snprintf(line, capacity, "pool_forward x=1x%dx%dx%d/f32 mode=max window=2,2 stride=2,2", a, b, c);
        break;
    case 3:
        snprintf(line, capacity, "softmax_forward x=%dx%dx%d/f32", a, b, c);
        break;
    case 4:
        snprintf(line, capacity, "batchnorm_training x=%dx%dx%d/f32 gamma=1x%dx1/f32 shift=1x%dx1/f32", a, b, c, b, b);
        break;
    default:
        snprintf(line, capacity, "activation_forward x=%dx%dx%d/f32 mode=tanh", a, b, c);
        break;
    }
}

static bool one_call(const struct place *place, int shape)
{
    struct contract c;
    char line[256];
    bool good;
    write_line(shape, line, sizeof line);
    good = contract_make(&c, line) && contract_run(&c, place, NULL, NULL) == ANYDNN_OK &&
           contract_guarded(&c, place->bytes);
    if (!good) printf("  %s\n", anydnn_message());
    CHECK_CASE(good, line);
    contract_free(&c);
    return good;
}

static void library_loop(const char *device, int shapes, int64_t measured[2])
{
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    anydnn_context *context;
    struct place place;
    int i;
    if (shapes < FULL) options.plan_cache = shapes / 10 + 1;
    context = contract_open(device, &options);
    CHECK(place_make(&place, context));
    for (i = 0; i < shapes && one_call(&place, i); i++)
        if (i + 1 == shapes / 5) measured[0] = resident();
    measured[1] = resident();
    place_free(&place);
    anydnn_close(context);
}

/* ---- bare OpenCL ---- */

typedef int32_t cl_result;
static const char bare_source[] = "__kernel void bare(__global float *p, long n)"
                                  "{ long i = get_global_id(0); if (i < n) p[i] = tanh(p[i]); }";

struct opencl {
    cl_result (*platforms)(uint32_t, void **, uint32_t *);
    cl_result (*devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
    void *(*context)(const intptr_t *, uint32_t, void *const *, void *, void *, cl_result *);
    void *(*queue)(void *, void *, uint64_t, cl_result *);
    void *(*buffer)(void *, uint64_t, size_t, void *, cl_result *);
    void *(*program)(void *, uint32_t, const char **, const size_t *, cl_result *);
    cl_result (*build)(void *, uint32_t, void *const *, const char *, void *, void *);
    void *(*kernel)(void *, const char *, cl_result *);
    cl_result (*argument)(void *, uint32_t, size_t, const void *);
    cl_result (*launch)(void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *,
                        void *);
    cl_result (*write)(void *, void *, uint32_t, size_t, size_t, const void *, uint32_t, void *, void *);
    cl_result (*read)(void *, void *, uint32_t, size_t, size_t, void *, uint32_t, void *, void *);
    cl_result (*finish)(void *);
};

static bool take(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(struct opencl *cl)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    return library && take(library, "clGetPlatformIDs", &cl->platforms) &&
           take(library, "clGetDeviceIDs", &cl->devices) && take(library, "clCreateContext", &cl->context) &&
           take(library, "clCreateCommandQueue", &cl->queue) && take(library, "clCreateBuffer", &cl->buffer) &&
           take(library, "clCreateProgramWithSource", &cl->program) && take(library, "clBuildProgram", &cl->build) &&
           take(library, "clCreateKernel", &cl->kernel) && take(library, "clSetKernelArg", &cl->argument) &&
           take(library, "clEnqueueNDRangeKernel", &cl->launch) && take(library, "clEnqueueWriteBuffer", &cl->write) &&
           take(library, "clEnqueueReadBuffer", &cl->read) && take(library, "clFinish", &cl->finish);
}

/* A write, a launch of a size of its own, a read and a wait, `shapes` times: what one call of the library's loop needs
 * at least. Prints the growth in bytes. */
static int bare_loop(int shapes)
{
    struct opencl cl;
    void *platform, *device, *context, *queue, *buffer, *program, *kernel;
    const char *text = bare_source;
    const size_t length = sizeof bare_source - 1, block = 256;
    static float host[1 << 15];
    cl_result code;
    int64_t first = 0;
    int i;
    if (!load(&cl) || cl.platforms(1, &platform, NULL) || cl.devices(platform, 0xFFFFFFFFu, 1, &device, NULL)) return 1;
    if (!(context = cl.context(NULL, 1, &device, NULL, NULL, &code)) ||
        !(queue = cl.queue(context, device, 0, &code)) || !(buffer = cl.buffer(context, 1, SLAB, NULL, &code)) ||
        !(program = cl.program(context, 1, &text, &length, &code)) || cl.build(program, 1, &device, "", NULL, NULL) ||
        !(kernel = cl.kernel(program, "bare", &code)))
        return 1;
    for (i = 0; i < shapes; i++) {
        const int64_t elements = i + 1;
        const size_t bytes = (size_t)elements * sizeof *host, threads = (size_t)(i / 256 + 1) * block;
        if (cl.argument(kernel, 0, sizeof buffer, &buffer) || cl.argument(kernel, 1, sizeof elements, &elements) ||
            cl.write(queue, buffer, 0, 0, bytes, host, 0, NULL, NULL) ||
            cl.launch(queue, kernel, 1, NULL, &threads, &block, 0, NULL, NULL) ||
            cl.read(queue, buffer, 0, 0, bytes, host, 0, NULL, NULL) || cl.finish(queue))
            return 1;
        if (i + 1 == shapes / 5) first = resident();
    }
    printf("%lld\n", (long long)(resident() - first));
    return 0;
}

static int64_t bare_growth(const char *self, int shapes)
{
    char command[4200];
    long long growth = 0;
    FILE *pipe;
    snprintf(command, sizeof command, "'%s' bare %d", self, shapes);
    pipe = popen(command, "r");
    CHECK(pipe != NULL && fscanf(pipe, "%lld", &growth) == 1);
    CHECK(pipe != NULL && pclose(pipe) == 0);
    return growth;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cpu";
    const int shapes = argc > 2 ? atoi(argv[2]) : 3000;
    int64_t measured[2] = { 0, 0 }, bare = 0, own;
    if (shapes < 100 || shapes > FULL) {
        printf("SHAPES is %d; accepted: 100 to %d\n", shapes, FULL);
        return 2;
    }
    if (strcmp(device, "bare") == 0) return bare_loop(shapes);
    library_loop(device, shapes, measured);
    if (strncmp(device, "opencl", 6) == 0) bare = bare_growth(argv[0], shapes);
    own = measured[1] - measured[0] - bare;
    printf(
        "%s: %.1f KiB after %d shapes, %.1f KiB after %d: %.1f KiB more, %.1f KiB of it the driver's; growth %.2f %%\n",
        device, (double)measured[0] / 1024, shapes / 5, (double)measured[1] / 1024, shapes,
        (double)(measured[1] - measured[0]) / 1024, (double)bare / 1024,
        100.0 * (double)own / (double)(measured[0] + 1));
    if (!ADDRESS_SANITIZED && !THREAD_SANITIZED) /* which keep what was freed */
        CHECK(measured[0] > 0 && (double)own < 0.05 * (double)measured[0]);
    return unit_end();
}
