/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/contract_process.c [DEVICE]: what the library promises to processes, on the CPU or the device named.
 *   fork    of a parent that has used the device, and of one whose threads are using it: a child that does nothing
 *           ends, one that goes on with the parent's objects gets a status for each call, and can use the CPU anew; the
 *           parent goes on undisturbed
 *   exit    with contexts, plans and work left behind: exit status 0
 *   cache   eight processes at once on one cold cache run the same convolution: all succeed, every file of the cache
 *           is whole, and a ninth process leaves all of them as they are
 * A child that hangs is killed by its alarm and seen by its status. Thread sanitizer allows no threads behind a fork:
 * with it the children do nothing.
 * Limits: POSIX, Linux's /proc; reloading the library is reload.c. */
#include "contract.h"
#include "sanitized.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 8, FORKS = 20, BUSY = 3, PATIENCE = 200, MOST_FILES = 64, HEADER = 48 };
static const char *const line = "conv_forward x=2x5x9x8/f32 w=7x5x3x3/f32 bias=1x7x1x1/f32 pad=1,1";
static const char *device;

/* ---- children ---- */

/* Exit status of a child; 1000 and the signal when it was killed. */
static int outcome(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static pid_t begin_child(void)
{
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) alarm(PATIENCE);
    return child;
}

/* Starts this program anew in another role. */
static pid_t start(const char *role)
{
    const pid_t child = begin_child();
    if (child != 0) return child;
    execl("/proc/self/exe", "contract_process", device, role, (char *)NULL);
    _exit(127);
}

/* Runs the convolution on a device opened here; `want` NULL: any result. 0 when all went well. */
static int run_anew(const char *where, const unsigned char *want)
{
    anydnn_context *context;
    struct contract c;
    struct place place;
    int failed = 0;
    if (anydnn_open(where, NULL, &context) != ANYDNN_OK) return 11;
    if (!contract_make(&c, line) || !place_make(&place, context)) return 12;
    if (contract_run(&c, &place, NULL, NULL) != ANYDNN_OK) failed = 13;
    if (!failed && want && memcmp(place.bytes, want, c.bytes) != 0) failed = 14;
    contract_free(&c);
    place_free(&place);
    anydnn_close(context);
    return failed;
}

/* ---- fork ---- */

struct parent {
    anydnn_context *context;
    struct contract c;
    struct place place;
    anydnn_plan *plan;
    anydnn_event *event;
    unsigned char *cpu; /* what the CPU gives */
    int stop;           /* atomic: ends the busy threads */
};

#define WANT(condition, number)                                                                                        \
    if (!(condition)) return number

static bool refused(anydnn_status status)
{
    return status != ANYDNN_OK && anydnn_message()[0] != 0;
}

/* Each use of the parent's objects gets a status; giving them back does nothing. */
static int use_inherited(struct parent *p)
{
    anydnn_plan *plan = NULL;
    anydnn_stream *stream = NULL;
    anydnn_event *event = NULL;
    anydnn_mem mem = anydnn_mem_none();
    void *host = NULL;
    anydnn_binding rows[MAX_ROWS];
    int count = 0;
    contract_rows(&p->c, &p->place, rows);
    WANT(refused(anydnn_plan_run(p->plan, p->place.stream, rows, p->c.count, NULL)), 21);
    WANT(refused(anydnn_run(p->place.stream, anydnn_problem_op(p->c.problem), NULL, rows, p->c.count)), 22);
    WANT(refused(contract_plan(&p->c, &p->place, NULL, &plan)), 23);
    WANT(refused(anydnn_alloc(p->context, 16, &mem)), 24);
    WANT(refused(anydnn_alloc_host(p->context, 16, &host)), 25);
    WANT(refused(anydnn_stream_create(p->context, 0, &stream)), 26);
    WANT(refused(anydnn_stream_sync(p->place.stream)), 27);
    WANT(refused(anydnn_event_create(p->context, &event)), 28);
    WANT(refused(anydnn_event_record(p->event, p->place.stream)), 29);
    WANT(refused(anydnn_event_sync(p->event)), 30);
    WANT(refused(anydnn_copy_in(p->place.stream, p->place.slab, p->c.initial, 16)), 31);
    WANT(refused(anydnn_set(p->place.stream, p->place.slab, 0, 16)), 32);
    WANT(refused(anydnn_free(p->context, p->place.slab)), 33);
    WANT(refused(anydnn_explain(p->context, anydnn_problem_op(p->c.problem), NULL, rows, p->c.count, NULL, 0, &count)),
         34);
    anydnn_event_destroy(p->event);
    anydnn_plan_release(p->plan);
    place_free(&p->place);
    anydnn_close(p->context);
    return 0;
}

/* The CPU works anew, and so does the device unless its driver came with the parent. */
static int child_calls(struct parent *p)
{
    anydnn_context *context;
    int failed = use_inherited(p);
    if (!failed) failed = run_anew("cpu", p->cpu);
    if (failed || strcmp(device, "cpu") == 0) return failed;
    WANT(refused(anydnn_open(device, NULL, &context)), 41);
    return 0;
}

static bool parent_make(struct parent *p)
{
    anydnn_context *cpu = NULL;
    struct place reference;
    bool made;
    memset(p, 0, sizeof *p);
    p->context = contract_open(device, NULL);
    made = contract_make(&p->c, line) && place_make(&p->place, p->context) && contract_expect(&p->c, &p->place) &&
           contract_plan(&p->c, &p->place, NULL, &p->plan) == ANYDNN_OK &&
           anydnn_event_create(p->context, &p->event) == ANYDNN_OK &&
           anydnn_event_record(p->event, p->place.stream) == ANYDNN_OK && anydnn_open("cpu", NULL, &cpu) == ANYDNN_OK;
    if (!made || !place_make(&reference, cpu)) return false;
    p->cpu = malloc(p->c.bytes);
    made = p->cpu && contract_run(&p->c, &reference, NULL, NULL) == ANYDNN_OK;
    if (made) memcpy(p->cpu, reference.bytes, p->c.bytes);
    place_free(&reference);
    anydnn_close(cpu);
    return made;
}

static void parent_free(struct parent *p)
{
    anydnn_event_destroy(p->event);
    anydnn_plan_release(p->plan);
    place_free(&p->place);
    anydnn_close(p->context);
    contract_free(&p->c);
    free(p->cpu);
}

/* In a thread of its own: forks while the others of the crowd use the context. */
static void fork_or_work(void *argument, int index)
{
    struct parent *p = argument;
    struct place place;
    const bool made = index && place_make(&place, p->context);
    int i;
    if (index) {
        bool good = made;
        while (good && !__atomic_load_n(&p->stop, __ATOMIC_RELAXED))
            good = contract_repeats(&p->c, &place, index % 2 ? p->plan : NULL);
        check_in_thread(good, "the parent's thread", device);
        if (made) place_free(&place);
        return;
    }
    for (i = 0; i < FORKS; i++) {
        const pid_t child = begin_child();
        int code;
        if (child == 0) _exit(THREAD_SANITIZED ? 0 : i % 2 ? child_calls(p) : run_anew("cpu", p->cpu));
        code = outcome(child);
        if (code) printf("  a child of the threaded parent gave %d\n", code);
        check_in_thread(code == 0, "a child", device);
    }
    __atomic_store_n(&p->stop, 1, __ATOMIC_RELAXED);
}

static void forks(void)
{
    struct parent p;
    pid_t child;
    int code;
    CHECK(parent_make(&p));
    if (unit_failed) return;
    if ((child = begin_child()) == 0) exit(0);
    CHECK(outcome(child) == 0);
    CHECK(contract_repeats(&p.c, &p.place, p.plan));
    if ((child = begin_child()) == 0) _exit(THREAD_SANITIZED ? 0 : child_calls(&p));
    code = outcome(child);
    if (code) printf("  a child gave %d\n", code);
    CHECK(code == 0);
    CHECK(contract_repeats(&p.c, &p.place, p.plan) && contract_repeats(&p.c, &p.place, NULL));
    together(1 + BUSY, fork_or_work, &p);
    CHECK(contract_repeats(&p.c, &p.place, p.plan));
    parent_free(&p);
}

/* ---- cache ---- */

struct file {
    char name[300];
    ino_t inode;
};

static uint64_t word(const unsigned char *at)
{
    uint64_t value = 0;
    int i;
    for (i = 7; i >= 0; i--) value = value << 8 | at[i];
    return value;
}

/* A file of the cache: its header names its key and the bytes that follow. */
static bool is_whole(const char *folder, const char *name, ino_t *inode)
{
    unsigned char header[HEADER];
    char path[700], key[40];
    struct stat info;
    bool good = false;
    int file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = open(path, O_RDONLY);
    if (file < 0) return false;
    if (fstat(file, &info) == 0 && read(file, header, HEADER) == HEADER) {
        snprintf(key, sizeof key, "%016llx%016llx", (unsigned long long)word(header + 16),
                 (unsigned long long)word(header + 24));
        good = memcmp(header, "ADNCLBIN", 8) == 0 && strncmp(name, key, 32) == 0 && strcmp(name + 32, ".adncl") == 0 &&
               word(header + 32) == (uint64_t)info.st_size - HEADER;
        *inode = info.st_ino;
    }
    close(file);
    return good;
}

static int list_cache(const char *folder, struct file files[MOST_FILES])
{
    DIR *listing = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (listing && (entry = readdir(listing)) != NULL) {
        struct file *file = &files[count];
        if (entry->d_name[0] == '.') continue;
        snprintf(file->name, sizeof file->name, "%s", entry->d_name);
        CHECK_CASE(is_whole(folder, file->name, &file->inode), file->name);
        if (count < MOST_FILES - 1) count++;
    }
    if (listing) closedir(listing);
    return count;
}

/* The ninth process reads what the eight wrote: an unusable file would be written anew. */
static void check_cache(const char *folder)
{
    static struct file before[MOST_FILES], after[MOST_FILES];
    const int count = list_cache(folder, before);
    int i, j, kept = 0;
    CHECK(outcome(start("work")) == 0);
    CHECK(list_cache(folder, after) == count);
    for (i = 0; i < count; i++)
        for (j = 0; j < count; j++)
            kept += strcmp(before[i].name, after[j].name) == 0 && before[i].inode == after[j].inode;
    CHECK(kept == count);
    CHECK((count > 0) == (strncmp(device, "opencl", 6) == 0));
    printf("cache: %d files\n", count);
}

static void cache(void)
{
    char folder[] = "/tmp/anydnn-contract-XXXXXX", driver[64], command[128];
    pid_t child[PROCESSES];
    int i;
    if (!mkdtemp(folder)) {
        CHECK(!"a folder");
        return;
    }
    snprintf(driver, sizeof driver, "%s/driver", folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(mkdir(driver, 0700) == 0);
    setenv("POCL_CACHE_DIR", driver, 1);
    strcat(driver, "/../cache");
    setenv("ANYDNN_CACHE_DIR", driver, 1);
    for (i = 0; i < PROCESSES; i++) child[i] = start("work");
    for (i = 0; i < PROCESSES; i++) {
        const int code = outcome(child[i]);
        if (code) printf("  process %d gave %d\n", i, code);
        CHECK(code == 0);
    }
    check_cache(driver);
    CHECK(system(command) == 0);
}

/* ---- roles ---- */

/* Opens, runs and leaves everything as it is, work on its way included. */
static int leave(void)
{
    static struct place place, other;
    static struct contract c;
    static anydnn_plan *plan;
    anydnn_context *context = contract_open(device, NULL), *second = contract_open(device, NULL);
    anydnn_binding rows[MAX_ROWS];
    int i;
    if (!contract_make(&c, line) || !place_make(&place, context) || !place_make(&other, second) ||
        !contract_expect(&c, &place) || !contract_repeats(&c, &other, NULL) ||
        contract_plan(&c, &place, NULL, &plan) != ANYDNN_OK)
        return 51;
    contract_rows(&c, &place, rows);
    for (i = 0; i < 20; i++)
        if (anydnn_plan_run(plan, place.stream, rows, c.count, NULL) != ANYDNN_OK) return 52;
    return 0;
}

int main(int argc, char **argv)
{
    int code;
    device = argc > 1 ? argv[1] : "cpu";
    if (argc > 2) {
        code = strcmp(argv[2], "leave") == 0 ? leave() : run_anew(device, NULL);
        if (code) printf("  %s\n", anydnn_message());
        exit(code);
    }
    anydnn_close(contract_open(device, NULL)); /* skips where there is none */
    forks();
    code = outcome(start("leave"));
    if (code) printf("  a process that cleans nothing up gave %d\n", code);
    CHECK(code == 0);
    cache();
    return unit_end();
}
