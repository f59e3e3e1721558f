/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_opencl_host.c: the OpenCL backend's host side on every device there is: memory, copies, streams,
 * events, the caller's contexts and queues, threads on one plan, and the program cache on disk. The cache is read once
 * in a process, so its cases run this program again with another ANYDNN_CACHE_DIR. */
#if !defined(ADN_WITH_OPENCL)
#include <stdio.h>

int main(void)
{
    printf("OpenCL is not in this build\n0 passed, 0 failed, 1 skipped\n");
    return 77;
}
#else
#include "backends/opencl/cache.h"
#include "backends/opencl/loader.h"
#include "common/os.h"
#include "unit.h"

#include <anydnn/anydnn.h>
#include <anydnn/opencl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 1000, THREADS = 4, LAUNCHES = 500 };

/* ---- A small plan. ---- */

/* y = alpha * relu(x) of COUNT elements. */
static anydnn_status make_plan(anydnn_context *context, anydnn_plan **plan)
{
    anydnn_activation op = anydnn_activation_init();
    anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, COUNT);
    anydnn_binding rows[3];
    rows[0] = anydnn_bind(ANYDNN_X, &t, anydnn_mem_none());
    rows[1] = anydnn_bind(ANYDNN_Y, &t, anydnn_mem_none());
    rows[2] = anydnn_bind_value(ANYDNN_ALPHA, 3.0);
    return anydnn_plan_create(context, (const anydnn_op *)&op, NULL, rows, 3, plan);
}

static anydnn_status run_plan(const anydnn_plan *plan, anydnn_stream *stream, anydnn_mem x, anydnn_mem y, double alpha)
{
    anydnn_binding rows[3];
    rows[0] = anydnn_bind(ANYDNN_X, NULL, x);
    rows[1] = anydnn_bind(ANYDNN_Y, NULL, y);
    rows[2] = anydnn_bind_value(ANYDNN_ALPHA, alpha);
    return anydnn_plan_run(plan, stream, rows, 3, NULL);
}

/* Launches the plan `rounds` times with changing data and alpha; returns how many elements came out wrong, -1 for a
 * failed call. */
static int exercise(const anydnn_plan *plan, anydnn_stream *stream, int seed, int rounds)
{
    anydnn_context *context = anydnn_stream_context(stream);
    anydnn_mem x = anydnn_mem_none(), y = anydnn_mem_none();
    float in[COUNT], out[COUNT];
    int wrong = 0, round, i;
    if (anydnn_alloc(context, sizeof in, &x) || anydnn_alloc(context, sizeof out, &y)) wrong = -1;
    for (round = 0; round < rounds && wrong >= 0; round++) {
        const float alpha = (float)(seed + round % 7 + 2);
        for (i = 0; i < COUNT; i++) in[i] = (float)((i * 7 + round * 13 + seed) % 201 - 100);
        if (anydnn_copy_in(stream, x, in, sizeof in) || run_plan(plan, stream, x, y, alpha) ||
            anydnn_copy_out(stream, out, y, sizeof out) || anydnn_stream_sync(stream))
            wrong = -1;
        for (i = 0; i < COUNT && wrong >= 0; i++) wrong += out[i] != (in[i] < 0 ? 0.0f : alpha * in[i]);
    }
    anydnn_free(context, x);
    anydnn_free(context, y);
    return wrong;
}

/* ---- Cases. ---- */

static void test_memory(anydnn_context *context, anydnn_stream *stream, int64_t max_alloc)
{
    unsigned char in[300], out[300];
    anydnn_mem a = anydnn_mem_none(), b = a, none = a;
    void *host = NULL;
    size_t i;
    CHECK(anydnn_alloc(context, 300, &a) == ANYDNN_OK && anydnn_alloc(context, 0, &b) == ANYDNN_OK);
    CHECK(anydnn_free(context, b) == ANYDNN_OK && anydnn_free(context, none) == ANYDNN_OK);
    CHECK(anydnn_alloc(context, 300, &b) == ANYDNN_OK);
    for (i = 0; i < sizeof in; i++) in[i] = (unsigned char)(i * 5);
    memset(out, 0, sizeof out);
    CHECK(anydnn_copy_in(stream, a, in, sizeof in) == ANYDNN_OK);
    CHECK(anydnn_set(stream, b, 7, 300) == ANYDNN_OK); /* 300 is a multiple of 4, not of 16 */
    CHECK(anydnn_copy(stream, anydnn_mem_at(b, 11), anydnn_mem_at(a, 3), 101) == ANYDNN_OK);
    CHECK(anydnn_set(stream, anydnn_mem_at(b, 5), 9, 3) == ANYDNN_OK);
    CHECK(anydnn_set(stream, anydnn_mem_at(b, 128), 1, 32) == ANYDNN_OK);
    CHECK(anydnn_set(stream, b, 1, 0) == ANYDNN_OK && anydnn_copy_in(stream, b, in, 0) == ANYDNN_OK);
    CHECK(anydnn_copy_out(stream, out, b, sizeof out) == ANYDNN_OK && anydnn_stream_sync(stream) == ANYDNN_OK);
    for (i = 0; i < sizeof out; i++) {
        unsigned char want = i >= 11 && i < 112 ? in[i - 8] : i >= 5 && i < 8 ? 9 : i >= 128 && i < 160 ? 1 : 7;
        if (out[i] != want) break;
    }
    CHECK(i == sizeof out);
    b.size = 0; /* unknown to the library: the driver checks */
    CHECK(anydnn_copy_out(stream, out, anydnn_mem_at(b, 200), 200) == ANYDNN_INVALID);
    CHECK(anydnn_alloc_host(context, 0, &host) == ANYDNN_OK && host != NULL);
    anydnn_free_host(context, host);
    CHECK(anydnn_alloc_host(context, 1000, &host) == ANYDNN_OK && (uintptr_t)host % 256 == 0);
    anydnn_free_host(context, host);
    CHECK(anydnn_free(context, a) == ANYDNN_OK && anydnn_free(context, b) == ANYDNN_OK);
    CHECK(anydnn_alloc(context, (uint64_t)max_alloc * 1024, &a) == ANYDNN_OUT_OF_MEMORY);
    CHECK(strstr(anydnn_message(), "largest allocation") || anydnn_native_error() != 0);
}

static void test_events(anydnn_context *context, anydnn_stream *stream)
{
    const uint64_t bytes = 8u << 20;
    anydnn_stream *other;
    anydnn_event *start, *end;
    anydnn_mem mem;
    unsigned char *out = malloc(bytes);
    double ns = -1;
    size_t i;
    int round;
    CHECK(anydnn_stream_create(context, ANYDNN_NO_WORKSPACE, &other) == ANYDNN_OK);
    CHECK(anydnn_event_create(context, &start) == ANYDNN_OK && anydnn_event_create(context, &end) == ANYDNN_OK);
    CHECK(anydnn_event_sync(start) == ANYDNN_INVALID);
    CHECK(anydnn_alloc(context, bytes, &mem) == ANYDNN_OK);
    for (round = 1; round <= 10; round++) {
        CHECK(anydnn_event_record(start, stream) == ANYDNN_OK);
        CHECK(anydnn_set(stream, mem, 0, bytes) == ANYDNN_OK);
        CHECK(anydnn_set(stream, mem, (uint8_t)round, bytes) == ANYDNN_OK);
        CHECK(anydnn_event_record(end, stream) == ANYDNN_OK);
        CHECK(anydnn_stream_wait(other, end) == ANYDNN_OK);
        CHECK(anydnn_copy_out(other, out, mem, bytes) == ANYDNN_OK && anydnn_stream_sync(other) == ANYDNN_OK);
        for (i = 0; i < bytes && out[i] == round;) i++;
        CHECK(i == bytes);
        CHECK(anydnn_event_sync(end) == ANYDNN_OK);
        CHECK(anydnn_event_elapsed(start, end, &ns) == ANYDNN_OK && ns > 0 && ns < 60e9);
    }
    for (round = 0; round < 200; round++) anydnn_event_record(end, stream);
    anydnn_event_destroy(start); /* with its callback perhaps still to come */
    anydnn_event_destroy(end);
    anydnn_stream_destroy(other);
    anydnn_free(context, mem);
    free(out);
}

static void test_wrapped(anydnn_context *foreign)
{
    cl_device_id device = (cl_device_id)anydnn_opencl_native_device(foreign);
    cl_context theirs = (cl_context)anydnn_opencl_native_context(foreign), native;
    cl_command_queue plain, strange, profiled, disordered;
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_plan *plan;
    cl_int code = -1;
    native = adn_cl.CreateContext(NULL, 1, &device, NULL, NULL, &code);
    CHECK(code == CL_SUCCESS);
    plain = adn_cl.CreateCommandQueue(native, device, 0, &code);
    profiled = adn_cl.CreateCommandQueue(native, device, CL_QUEUE_PROFILING_ENABLE, &code);
    disordered = adn_cl.CreateCommandQueue(native, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    strange = adn_cl.CreateCommandQueue(theirs, device, 0, &code);
    CHECK(anydnn_opencl_open(native, &code, NULL, &context) == ANYDNN_INVALID);
    CHECK(strstr(anydnn_message(), "cl_device_id") != NULL);
    CHECK(anydnn_opencl_open(native, device, NULL, &context) == ANYDNN_OK);
    CHECK(anydnn_opencl_native_context(context) == native && anydnn_opencl_native_device(context) == device);
    CHECK(anydnn_opencl_stream(context, strange, 0, &stream) == ANYDNN_INVALID);
    if (disordered) CHECK(anydnn_opencl_stream(context, disordered, 0, &stream) == ANYDNN_INVALID);
    CHECK(anydnn_opencl_stream(context, profiled, 0, &stream) == ANYDNN_OK);
    test_events(context, stream); /* by the device's times */
    anydnn_stream_destroy(stream);
    CHECK(anydnn_opencl_stream(context, plain, 0, &stream) == ANYDNN_OK);
    CHECK(anydnn_opencl_native_queue(stream) == plain);
    CHECK(make_plan(context, &plan) == ANYDNN_OK);
    adn_cl.ReleaseContext(native); /* ours keeps it */
    CHECK(exercise(plan, stream, 5, 20) == 0);
    anydnn_plan_release(plan);
    anydnn_stream_destroy(stream);
    CHECK(adn_cl.Finish(plain) == CL_SUCCESS); /* the caller's queue outlives the stream */
    anydnn_close(context);
    adn_cl.ReleaseCommandQueue(plain);
    adn_cl.ReleaseCommandQueue(profiled);
    if (disordered) adn_cl.ReleaseCommandQueue(disordered);
    adn_cl.ReleaseCommandQueue(strange);
}

struct worker {
    anydnn_context *context;
    const anydnn_plan *plan;
    int seed, wrong;
};

static void work(void *argument)
{
    struct worker *worker = argument;
    anydnn_stream *stream;
    worker->wrong = -1;
    if (anydnn_stream_create(worker->context, ANYDNN_NO_WORKSPACE, &stream) != ANYDNN_OK) return;
    worker->wrong = exercise(worker->plan, stream, worker->seed, LAUNCHES);
    anydnn_stream_destroy(stream);
}

static void make_plan_in_thread(void *argument)
{
    struct worker *worker = argument;
    anydnn_plan *plan;
    worker->wrong = make_plan(worker->context, &plan) == ANYDNN_OK ? 0 : -1;
    if (!worker->wrong) anydnn_plan_release(plan);
}

static void in_threads(anydnn_context *context, const anydnn_plan *plan, void (*run)(void *))
{
    struct worker workers[THREADS];
    adn_thread *threads[THREADS];
    int i;
    for (i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ context, plan, i * 10, -1 };
        threads[i] = adn_thread_start(run, &workers[i]);
    }
    for (i = 0; i < THREADS; i++) {
        if (threads[i]) adn_thread_join(threads[i]);
        CHECK(workers[i].wrong == 0);
    }
}

static void test_device(const anydnn_device_info *info)
{
    anydnn_context *context = NULL, *second = NULL;
    anydnn_stream *stream, *foreign;
    anydnn_plan *plan;
    CHECK(anydnn_open(info->id, NULL, &context) == ANYDNN_OK && anydnn_open(info->id, NULL, &second) == ANYDNN_OK);
    if (!context || !second) return;
    CHECK(anydnn_stream_create(context, 0, &stream) == ANYDNN_OK);
    CHECK(anydnn_stream_create(second, ANYDNN_NO_WORKSPACE, &foreign) == ANYDNN_OK);
    test_memory(context, stream, info->max_alloc_bytes);
    test_events(context, stream);
    in_threads(context, NULL, make_plan_in_thread); /* all want the same program at once */
    CHECK(make_plan(context, &plan) == ANYDNN_OK);
    CHECK(exercise(plan, stream, 0, 10) == 0);
    CHECK(exercise(plan, foreign, 0, 1) != 0); /* a stream of another context is refused */
    in_threads(context, plan, work);
    anydnn_plan_release(plan);
    CHECK(make_plan(second, &plan) == ANYDNN_OK && exercise(plan, foreign, 3, 10) == 0);
    anydnn_plan_release(plan);
    test_wrapped(second);
    anydnn_stream_destroy(stream);
    anydnn_stream_destroy(foreign);
    anydnn_close(context);
    anydnn_close(second);
}

static void test_device_names(void)
{
    static const char *const wrong[] = { "opencl", "opencl:", "opencl:99", "opencl:-1", "opencl:0x", "OPENCL:0" };
    anydnn_context *context;
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_CASE(anydnn_open(wrong[i], NULL, &context) == ANYDNN_INVALID, wrong[i]);
        CHECK_CASE(strstr(anydnn_message(), wrong[i]) != NULL, wrong[i]);
    }
}

/* ---- The cache, in child processes. ---- */

/* What a child does: 0 when the results are right. */
static int child(const char *device)
{
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_plan *plan;
    int wrong;
    if (anydnn_open(device, NULL, &context) || anydnn_stream_create(context, 0, &stream) || make_plan(context, &plan))
        return 2;
    wrong = exercise(plan, stream, 1, 3);
    anydnn_plan_release(plan);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return wrong != 0;
}

/* A child that leaves without closing anything must end well too. */
static int careless_child(const char *device)
{
    static anydnn_context *context; /* reachable, so that leak checkers are content */
    static anydnn_stream *stream;
    static anydnn_plan *plan;
    if (anydnn_open(device, NULL, &context) || anydnn_stream_create(context, 0, &stream) || make_plan(context, &plan))
        return 2;
    return exercise(plan, stream, 1, 1) != 0;
}

static bool run_child(const char *self, const char *mode, const char *device, const char *folder)
{
    char command[4096];
    snprintf(command, sizeof command, "ANYDNN_CACHE_DIR='%s' '%s' %s %s", folder, self, mode, device);
    return system(command) == 0;
}

struct files {
    int count;
    char path[1024]; /* of the last */
};

static void count_file(void *user, const char *path, uint64_t bytes, int64_t age)
{
    struct files *files = user;
    (void)bytes, (void)age;
    files->count++;
    snprintf(files->path, sizeof files->path, "%s", path);
}

static struct files files_in(const char *folder)
{
    struct files files = { 0, "" };
    adn_folder_visit(folder, count_file, &files);
    return files;
}

static void damage(const char *path, size_t keep, size_t flip)
{
    size_t size;
    unsigned char *bytes = adn_file_read(path, (size_t)1 << 30, &size);
    CHECK(bytes && size > ADN_CACHE_HEADER + 8);
    if (!bytes) return;
    if (flip) bytes[flip] ^= 0x10;
    CHECK(adn_file_write(path, bytes, keep < size ? keep : size));
    free(bytes);
}

static void test_cache(const char *self, const char *device)
{
    static const struct {
        size_t keep, flip;
    } damages[] = { { SIZE_MAX, ADN_CACHE_HEADER + 5 }, { SIZE_MAX, 20 }, { 60, 0 }, { 10, 0 }, { 0, 0 } };
    struct files first, now;
    char folder[64], below[sizeof first.path + 8];
    size_t i;
    strcpy(folder, "/tmp/anydnn-test-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    CHECK(run_child(self, "child", device, folder)); /* cold */
    first = files_in(folder);
    CHECK(first.count >= 1);
    CHECK(run_child(self, "child", device, folder)); /* warm */
    CHECK(files_in(folder).count == first.count);
    for (i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        damage(first.path, damages[i].keep, damages[i].flip);
        CHECK(run_child(self, "child", device, folder));
        now = files_in(folder);
        CHECK(now.count == first.count && strcmp(now.path, first.path) == 0);
        CHECK(run_child(self, "child", device, folder));
    }
    CHECK(run_child(self, "careless", device, folder));
    CHECK(run_child(self, "child", device, "")); /* off */
    CHECK(files_in(folder).count == first.count);
    snprintf(below, sizeof below, "%s/below", first.path); /* a folder that cannot be made */
    CHECK(run_child(self, "child", device, below));
    for (now = files_in(folder); now.count; now = files_in(folder)) adn_file_remove(now.path);
    chmod(folder, 0500); /* read-only (but for root) */
    CHECK(run_child(self, "child", device, folder));
    for (now = files_in(folder); now.count; now = files_in(folder)) adn_file_remove(now.path);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    anydnn_device_info info = { .struct_size = sizeof info };
    int i, tested = 0;
    if (argc == 3 && strcmp(argv[1], "child") == 0) return child(argv[2]);
    if (argc == 3 && strcmp(argv[1], "careless") == 0) return careless_child(argv[2]);
    for (i = 0; anydnn_device_get(i, &info) == ANYDNN_OK; i++) {
        if (info.backend != ANYDNN_BACKEND_OPENCL) continue;
        test_device(&info);
        test_cache(argv[0], info.id);
        tested++;
    }
    if (!tested) {
        printf("no OpenCL device: %s\n0 passed, 0 failed, 1 skipped\n", anydnn_backend_note(ANYDNN_BACKEND_OPENCL));
        return 77;
    }
    test_device_names();
    return unit_end();
}
#endif
