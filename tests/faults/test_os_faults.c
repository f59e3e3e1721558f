/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/test_os_faults.c: every allocation and every file operation of the library fails in turn, on the CPU and
 * on an OpenCL device. A failed allocation gives OUT_OF_MEMORY with a message, or costs nothing but time; a failed file
 * operation of the cache only costs time; one of a tuning file is told and leaves the file as it was. Nothing stays
 * allocated or open, and the next pass works. Processes killed while they write the cache leave what the next one
 * reads or replaces. Files are in a folder of its own below the working one. `test_os_faults [OpenCL device]`. */
#include <stdio.h>

#if !defined(WITH_OS_SHIM)
int main(void)
{
    printf("the allocator cannot be replaced: sanitizers, or a C library that is not glibc\n0 passed, 0 failed, 1 "
           "skipped\n");
    return 77;
}
#else
#include "os_shim.h"
#include "scenario.h"

#include <anydnn/tune.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *opencl = "opencl:0", *device;
static char folder[] = "os_faults_XXXXXX", cache[64], tuning[64];

/* ---- Files of the cache. ---- */

/* Whole ones and leftovers of killed writers. */
static int cached_files(bool remove_them)
{
    DIR *open = opendir(cache);
    struct dirent *entry;
    char path[400];
    int whole = 0;
    while (open && (entry = readdir(open)) != NULL) {
        const size_t length = strlen(entry->d_name);
        if (!strstr(entry->d_name, ".adncl")) continue;
        whole += length > 6 && strcmp(entry->d_name + length - 6, ".adncl") == 0;
        snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
        if (remove_them) unlink(path);
    }
    if (open) closedir(open);
    return whole;
}

static void empty_cache(void)
{
    cached_files(true);
    rmdir(cache);
}

/* ---- Passes. ---- */

typedef anydnn_status pass_function(const char *device, bool *right);

static pass_function *failing_pass; /* under test */
static bool cold;
static int missed; /* orders whose call was not reached: which engines are measured is a matter of time */

static anydnn_status run_pass(bool *right)
{
    if (cold) empty_cache();
    return failing_pass(device, right);
}

static int clean_pass(int group)
{
    bool right;
    anydnn_status status;
    os_shim_reset();
    status = run_pass(&right);
    CHECK(status == ANYDNN_OK && right);
    return os_shim_calls(group);
}

/* Fails call n, then counts what is left over, then all is well again. */
static anydnn_status fail_once(int group, int n, int count, int error, int live)
{
    bool right;
    anydnn_status status;
    os_shim_reset();
    os_shim_fail(group, n, count, error);
    status = run_pass(&right);
    snprintf(scenario_case, sizeof scenario_case, "%s: %s call %d (%s): %s: %s, %d more alive, %d open", device,
             group == OS_SHIM_MEMORY ? "memory" : "file", n, os_shim_failed(), strerror(error),
             anydnn_status_name(status), os_shim_live() - live, os_shim_open_files());
    missed += !os_shim_failed()[0];
    CHECK(right);
    CHECK(os_shim_live() == live && os_shim_open_files() == 0);
    return status;
}

/* ---- Cache files: whatever happens to them, results are right. ---- */

static void test_cache_files(bool without_cache)
{
    static const int errors[] = { EACCES, ENOSPC, EIO };
    int n, calls, live;
    size_t i;
    failing_pass = scenario_relu;
    cold = without_cache;
    snprintf(scenario_case, sizeof scenario_case, "clean pass on %s", device);
    clean_pass(OS_SHIM_FILES);
    live = os_shim_live();
    calls = clean_pass(OS_SHIM_FILES);
    CHECK(calls >= 5 && cached_files(false) == 1);
    for (i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        for (n = 1; n <= calls; n++) {
            CHECK(fail_once(OS_SHIM_FILES, n, 1, errors[i], live) == ANYDNN_OK);
            clean_pass(OS_SHIM_FILES);
            CHECK(cached_files(false) == 1);
        }
        CHECK(fail_once(OS_SHIM_FILES, 1, 1 << 20, errors[i], live) == ANYDNN_OK);
    }
    CHECK(missed == 0);
    if (!cold) return;
    os_shim_reset();
    empty_cache();
    os_shim_occupy(3); /* names that a killed process of this number has left */
    bool right;
    CHECK(scenario_relu(device, &right) == ANYDNN_OK && right && cached_files(false) == 1);
}

/* ---- Tuning files. ---- */

static const char foreign[] = "eltwise 1 5 other:device | activation_forward x=3/f32 y=3/f32 mode=relu\n";

static bool holds(const char *text)
{
    static char bytes[1 << 16];
    FILE *file = fopen(tuning, "rb");
    size_t size = file ? fread(bytes, 1, sizeof bytes - 1, file) : 0;
    if (file) fclose(file);
    bytes[size] = 0;
    return strstr(bytes, text) != NULL;
}

static bool write_foreign(void)
{
    FILE *file = fopen(tuning, "wb");
    const bool good = file && fputs(foreign, file) >= 0;
    return (!file || fclose(file) == 0) && good;
}

/* Measures one operation, then saves and loads. */
static anydnn_status measure(anydnn_context *context, anydnn_stream *stream, anydnn_mem x, anydnn_mem y)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 64);
    anydnn_activation op = anydnn_activation_init();
    const anydnn_binding rows[] = { anydnn_bind(ANYDNN_X, &t, x), anydnn_bind(ANYDNN_Y, &t, y) };
    anydnn_verdict verdict;
    anydnn_status status;
    int count;
    op.op = ANYDNN_OP_ACTIVATION_FORWARD;
    op.mode = ANYDNN_RELU;
    status = anydnn_set(stream, x, 0, 256);
    if (status == ANYDNN_OK)
        status = anydnn_find(stream, (const anydnn_op *)&op, NULL, rows, 2, 1e5, &verdict, 1, &count);
    if (status == ANYDNN_OK) status = anydnn_tuning_save(context, tuning);
    if (status == ANYDNN_OK) status = anydnn_tuning_load(context, tuning);
    return status;
}

static anydnn_status tuning_pass(const char *on, bool *right)
{
    anydnn_context *context = NULL;
    anydnn_stream *stream = NULL;
    anydnn_mem x = anydnn_mem_none(), y = x;
    anydnn_status status = anydnn_open(on, NULL, &context);
    *right = true;
    if (status == ANYDNN_OK) status = anydnn_stream_create(context, ANYDNN_NO_WORKSPACE, &stream);
    if (status == ANYDNN_OK) status = anydnn_alloc(context, 256, &x);
    if (status == ANYDNN_OK) status = anydnn_alloc(context, 256, &y);
    if (status == ANYDNN_OK) status = measure(context, stream, x, y);
    if (y.kind) anydnn_free(context, y);
    if (x.kind) anydnn_free(context, x);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return status;
}

static void test_tuning_files(void)
{
    static const int errors[] = { EACCES, ENOSPC, EIO };
    int n, calls, live;
    size_t i;
    failing_pass = tuning_pass;
    cold = false;
    snprintf(scenario_case, sizeof scenario_case, "clean tuning on %s", device);
    CHECK(write_foreign());
    clean_pass(OS_SHIM_FILES);
    live = os_shim_live();
    calls = clean_pass(OS_SHIM_FILES);
    CHECK(calls >= 8 && holds(foreign));
    for (i = 0; i < sizeof errors / sizeof errors[0]; i++)
        for (n = 1; n <= calls; n++) {
            const anydnn_status status = fail_once(OS_SHIM_FILES, n, 1, errors[i], live);
            if (status != ANYDNN_OK)
                CHECK(strstr(anydnn_message(), tuning) && strstr(anydnn_message(), strerror(errors[i])));
            CHECK(holds(foreign));
        }
    CHECK(missed == 0 && clean_pass(OS_SHIM_FILES) == calls && holds(foreign));
}

/* ---- Memory. ---- */

static void test_memory(pass_function *pass, bool without_cache, int at_least)
{
    int n, calls, live;
    failing_pass = pass;
    cold = without_cache;
    snprintf(scenario_case, sizeof scenario_case, "clean pass on %s", device);
    clean_pass(OS_SHIM_MEMORY); /* what is made once in a process is made here */
    live = os_shim_live();
    calls = clean_pass(OS_SHIM_MEMORY);
    CHECK(calls >= at_least && os_shim_live() == live);
    for (n = 1; n <= calls; n++) {
        const anydnn_status status = fail_once(OS_SHIM_MEMORY, n, 1, ENOMEM, live);
        CHECK(status == ANYDNN_OK || (status == ANYDNN_OUT_OF_MEMORY && anydnn_message()[0]));
        CHECK(pass != tuning_pass || holds(foreign));
    }
    for (n = 1; n <= calls; n += 5) {
        const anydnn_status status = fail_once(OS_SHIM_MEMORY, n, 1 << 20, ENOMEM, live);
        CHECK(status == ANYDNN_OK || (status == ANYDNN_OUT_OF_MEMORY && anydnn_message()[0]));
    }
    clean_pass(OS_SHIM_MEMORY);
    CHECK(missed <= calls / 4);
    missed = 0;
}

/* ---- Processes that are killed. ---- */

/* What `life` of n returns in a process of its own; 128 + signal when that was killed. */
static int in_child(int (*life)(int n), int n)
{
    int outcome = -1;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) _exit(life(n));
    if (child < 0 || waitpid(child, &outcome, 0) != child) return -1;
    return WIFSIGNALED(outcome) ? 128 + WTERMSIG(outcome) : WEXITSTATUS(outcome);
}

enum { NO_DEVICE = 100, WRONG };

/* Number of file operations of one pass, which is killed at one of them (0: at none). */
static int pass_killed_at(int call)
{
    anydnn_status status;
    bool right;
    os_shim_reset();
    anydnn_device_count();
    os_shim_reset(); /* the files of the device list are not the cache's */
    os_shim_kill(call);
    status = scenario_relu(opencl, &right);
    if (status == ANYDNN_UNSUPPORTED) return NO_DEVICE;
    return status == ANYDNN_OK && right ? os_shim_calls(OS_SHIM_FILES) : WRONG;
}

static bool test_killed(void)
{
    int n, calls, again;
    empty_cache();
    calls = in_child(pass_killed_at, 0);
    if (calls == NO_DEVICE) return false;
    snprintf(scenario_case, sizeof scenario_case, "a child makes %d calls", calls);
    CHECK(calls >= 8 && calls < NO_DEVICE && cached_files(false) == 1);
    for (n = 1; n <= calls; n++) {
        empty_cache();
        snprintf(scenario_case, sizeof scenario_case, "killed at call %d of %d", n, calls);
        CHECK(in_child(pass_killed_at, n) == 128 + SIGKILL);
        again = in_child(pass_killed_at, 0);
        CHECK(again > 0 && again < NO_DEVICE);
        CHECK(cached_files(false) == 1);
    }
    return true;
}

/* The devices are listed while allocation n fails, or all from there on, and now and then the first file. */
static int listing_without(int n)
{
    bool right;
    os_shim_reset();
    os_shim_fail(OS_SHIM_MEMORY, n, n % 4 ? 1 : 1 << 20, ENOMEM);
    os_shim_fail(OS_SHIM_FILES, 1, n % 2, EIO);
    anydnn_device_count();
    os_shim_reset();
    return scenario_run("cpu", &right) == ANYDNN_OK && right ? 0 : WRONG;
}

/* The CPU is always there. */
static void test_listing(void)
{
    int n;
    for (n = 1; n <= 24; n++) {
        snprintf(scenario_case, sizeof scenario_case, "allocation %d fails while devices are listed", n);
        CHECK(in_child(listing_without, n) == 0);
    }
}

int main(int argc, char **argv)
{
    bool there;
    if (argc > 1) opencl = argv[1];
    if (!mkdtemp(folder)) return 1;
    snprintf(cache, sizeof cache, "%s/cache", folder);
    snprintf(tuning, sizeof tuning, "%s/tuning", folder);
    setenv("ANYDNN_CACHE_DIR", cache, 1);
    setenv("ANYDNN_TUNING", tuning, 1);
    test_listing(); /* children first: drivers do not survive a fork */
    there = test_killed();
    device = "cpu";
    test_memory(scenario_run, false, 20);
    CHECK(write_foreign());
    test_memory(tuning_pass, false, 15);
    test_tuning_files();
    if (there) {
        device = opencl;
        unlink(tuning);
        test_memory(scenario_run, false, 30);
        CHECK(write_foreign());
        test_memory(tuning_pass, false, 30);
        unlink(tuning);
        test_memory(scenario_relu, true, 15);
        test_cache_files(true);
        test_cache_files(false);
        empty_cache();
    }
    unlink(tuning);
    rmdir(folder);
    if (!there) printf("no device %s: %s\n", opencl, anydnn_backend_note(ANYDNN_BACKEND_OPENCL));
    return scenario_end(!there);
}
#endif
