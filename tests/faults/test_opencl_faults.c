/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/test_opencl_faults.c: every OpenCL function that the library calls fails at several of its calls, while
 * devices are listed and in a pass through the API, with and without programs in the library's cache. Wanted each
 * time: a status with a message that names the call, or right results where there is another way; no object left; a
 * clean pass afterwards. `test_opencl_faults [device]`; the calls of one function are thinned to PICKS. */
#include "opencl_shim.h"
#include "scenario.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PICKS = 5, FUNCTIONS = 64 };

static const char *device = "opencl:0";
static struct opencl_shim shim;

static void empty_cache(void)
{
    const char *folder = getenv("ANYDNN_CACHE_DIR");
    DIR *open = opendir(folder);
    struct dirent *entry;
    char path[4096];
    while (open && (entry = readdir(open)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strstr(entry->d_name, ".adncl")) unlink(path);
    }
    if (open) closedir(open);
}

static int live_objects(void)
{
    int kind, sum = 0;
    for (kind = 0; kind < SHIM_KINDS; kind++) sum += abs(shim.live(kind));
    return sum;
}

/* The message names the call, or is the compiler's refusal with its log. */
static bool is_named(void)
{
    if (strstr(anydnn_message(), shim.failed())) return true;
    return strcmp(shim.failed(), "clBuildProgram") == 0 && strstr(anydnn_message(), "refused") &&
           strstr(anydnn_message(), "injected");
}

/* Asked in a child, since a fork must come before the drivers are loaded. */
static bool device_is_there(void)
{
    int outcome = -1;
    const pid_t child = fork();
    if (child == 0) {
        anydnn_context *context;
        _exit(anydnn_open(device, NULL, &context) == ANYDNN_OK ? 0 : 77);
    }
    if (child > 0) waitpid(child, &outcome, 0);
    return !WIFEXITED(outcome) || WEXITSTATUS(outcome) != 77;
}

/* ---- Listing the devices: once in a process, so each failure has a child. ---- */

struct report {
    int calls, checks, failures;
};

static void probe_child(struct report *report, int n)
{
    bool right;
    anydnn_status status;
    int listed;
    scenario_passed = scenario_failed = 0;
    shim.fail(NULL, n, 1);
    listed = anydnn_device_count();
    if (n == 0) report->calls = shim.calls();
    snprintf(scenario_case, sizeof scenario_case, "call %d (%s) fails while devices are listed: %d devices, %s", n,
             shim.failed(), listed, anydnn_backend_note(ANYDNN_BACKEND_OPENCL));
    CHECK(listed >= 1 && anydnn_backend_note(ANYDNN_BACKEND_OPENCL)[0]);
    CHECK((n > 0) == (shim.failed()[0] != 0));
    status = scenario_relu(device, &right);
    CHECK(right && (status == ANYDNN_OK || anydnn_message()[0]));
    if (status != ANYDNN_OK) /* the device is not there, and the note says why */
        CHECK(status == ANYDNN_UNSUPPORTED && strstr(anydnn_backend_note(ANYDNN_BACKEND_OPENCL), "CL_"));
    CHECK(live_objects() == 0);
    report->checks = scenario_passed;
    report->failures = scenario_failed;
    fflush(stdout);
    _exit(0);
}

static void test_probe(void)
{
    struct report *report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int n, calls = 1;
    if (!CHECK(report != MAP_FAILED)) return;
    for (n = 0; n <= calls; n++) {
        int outcome = -1;
        pid_t child;
        fflush(stdout);
        child = fork();
        report->failures = 1;
        if (child == 0) probe_child(report, n);
        if (child > 0) waitpid(child, &outcome, 0);
        snprintf(scenario_case, sizeof scenario_case, "child of call %d", n);
        CHECK(outcome == 0);
        if (n == 0) calls = report->calls;
        scenario_passed += report->checks;
        scenario_failed += report->failures;
    }
    CHECK(calls > 10);
    munmap(report, sizeof *report);
}

/* ---- A pass through the API. ---- */

static bool clean_pass(const char *what)
{
    bool right;
    anydnn_status status;
    shim.reset();
    snprintf(scenario_case, sizeof scenario_case, "clean pass %s", what);
    status = scenario_run(device, &right);
    return CHECK(status == ANYDNN_OK && right) && CHECK(live_objects() == 0);
}

static void failing_pass(const char *function, int n, int count, int calls)
{
    bool right;
    anydnn_status status;
    shim.reset();
    shim.fail(function, n, count);
    status = scenario_run(device, &right);
    snprintf(scenario_case, sizeof scenario_case, "%s, call %d of %d: %s, %d alive", function, n, calls,
             anydnn_status_name(status), live_objects());
    CHECK(strcmp(shim.failed(), function) == 0);
    CHECK(right);
    CHECK(status != ANYDNN_INVALID && status != ANYDNN_INTERNAL);
    CHECK(status == ANYDNN_OK || is_named());
    CHECK(live_objects() == 0);
}

/* Functions that a device of this kind does not need: GPUs have no first launch of a kernel at its loading, and give times
 * by their queues. */
static int idle_functions(void)
{
    anydnn_device_info info;
    int i;
    for (i = 0; i < anydnn_device_count(); i++) {
        info.struct_size = sizeof info;
        if (anydnn_device_get(i, &info) == ANYDNN_OK && strcmp(info.id, device) == 0) return info.is_cpu ? 3 : 5;
    }
    return 0;
}

/* Calls 1, 2, ... of each function, thinned; counts are those of the clean pass before. */
static void test_each_function(bool cold)
{
    const char *function[FUNCTIONS];
    int calls[FUNCTIONS], count = 0, reached = 0, i, pick;
    if (cold) empty_cache();
    if (!clean_pass(cold ? "without a cache" : "with a cache")) return;
    while (count < FUNCTIONS && (function[count] = shim.function(count, &calls[count])) != NULL) count++;
    for (i = 0; i < count; i++) {
        const int picks = calls[i] < PICKS ? calls[i] : PICKS;
        reached += calls[i] > 0;
        if (!calls[i]) printf("not called %s a cache: %s\n", cold ? "without" : "with", function[i]);
        for (pick = 0; pick < picks; pick++) {
            if (cold) empty_cache();
            failing_pass(function[i], picks == 1 ? 1 : 1 + (calls[i] - 1) * pick / (picks - 1), 1, calls[i]);
        }
        if (picks) clean_pass(function[i]);
    }
    snprintf(scenario_case, sizeof scenario_case, "%d of %d functions were called", reached, count);
    CHECK(reached >= count - idle_functions());
}

/* A compiler that refuses all, and one that refuses a single variant: builds are tried twice. */
static void test_refusals(void)
{
    int n, calls = 0, index;
    empty_cache();
    if (!clean_pass("before refusals")) return;
    for (index = 0; shim.function(index, &n) && strcmp(shim.function(index, &n), "clBuildProgram") != 0;) index++;
    shim.function(index, &calls);
    CHECK(calls > 1);
    empty_cache();
    failing_pass("clBuildProgram", 1, 1 << 20, calls);
    for (n = 1; n <= calls; n++) {
        empty_cache();
        failing_pass("clBuildProgram", n, 2, calls);
    }
    clean_pass("after refusals");
}

int main(int argc, char **argv)
{
    if (argc > 1) device = argv[1];
    if (!opencl_shim_open(&shim)) {
        printf("libOpenCL.so.1 is not the shim: LD_LIBRARY_PATH must begin with its folder\n0 passed, 1 failed, 0 "
               "skipped\n");
        return 1;
    }
    if (!shim.present()) {
        printf("no OpenCL loader at '%s'\n0 passed, 0 failed, 1 skipped\n", getenv("ANYDNN_REAL_OPENCL"));
        return 77;
    }
    if (!device_is_there()) {
        printf("no device %s\n0 passed, 0 failed, 1 skipped\n", device);
        return 77;
    }
    if (!getenv("ANYDNN_CACHE_DIR")) return 1; /* files are deleted there */
    test_probe();
    clean_pass("that lists the devices");
    test_each_function(true);
    test_each_function(false);
    test_refusals();
    return scenario_end(0);
}
