/* SPDX-License-Identifier: Apache-2.0
 * common/os.c: the operating system (POSIX). */
#include "os.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

void *adn_library_open(const char *const *names)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    return NULL;
}

void *adn_library_symbol(void *library, const char *name) { return dlsym(library, name); }

void adn_library_close(void *library)
{
    if (library) dlclose(library);
}

struct adn_mutex {
    pthread_mutex_t native;
};

adn_mutex *adn_mutex_create(void)
{
    adn_mutex *mutex = malloc(sizeof *mutex);
    if (mutex && pthread_mutex_init(&mutex->native, NULL) != 0) {
        free(mutex);
        mutex = NULL;
    }
    return mutex;
}

void adn_mutex_destroy(adn_mutex *mutex)
{
    if (!mutex) return;
    pthread_mutex_destroy(&mutex->native);
    free(mutex);
}

void adn_mutex_lock(adn_mutex *mutex) { pthread_mutex_lock(&mutex->native); }
bool adn_mutex_try_lock(adn_mutex *mutex) { return pthread_mutex_trylock(&mutex->native) == 0; }
void adn_mutex_unlock(adn_mutex *mutex) { pthread_mutex_unlock(&mutex->native); }

struct adn_condition {
    pthread_cond_t native;
};

adn_condition *adn_condition_create(void)
{
    adn_condition *condition = malloc(sizeof *condition);
    if (condition && pthread_cond_init(&condition->native, NULL) != 0) {
        free(condition);
        condition = NULL;
    }
    return condition;
}

void adn_condition_destroy(adn_condition *condition)
{
    if (!condition) return;
    pthread_cond_destroy(&condition->native);
    free(condition);
}

void adn_condition_wait(adn_condition *condition, adn_mutex *mutex)
{
    pthread_cond_wait(&condition->native, &mutex->native);
}

void adn_condition_signal_all(adn_condition *condition) { pthread_cond_broadcast(&condition->native); }

struct adn_thread {
    pthread_t native;
    void (*run)(void *);
    void *argument;
};

static void *thread_main(void *argument)
{
    adn_thread *thread = argument;
    thread->run(thread->argument);
    return NULL;
}

adn_thread *adn_thread_start(void (*run)(void *), void *argument)
{
    adn_thread *thread = malloc(sizeof *thread);
    if (!thread) return NULL;
    thread->run = run;
    thread->argument = argument;
    if (pthread_create(&thread->native, NULL, thread_main, thread) != 0) {
        free(thread);
        return NULL;
    }
    return thread;
}

void adn_thread_join(adn_thread *thread)
{
    pthread_join(thread->native, NULL);
    free(thread);
}

/* 0 = not begun, 1 = running, 2 = done. Static initialisation of a pthread_once_t would need the header everywhere. */
static pthread_mutex_t once_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t once_done = PTHREAD_COND_INITIALIZER;

/* ---- Forks: no child inherits once_lock held, or a condition with waiters that do not exist. ---- */

static pthread_once_t forks_once = PTHREAD_ONCE_INIT;
static atomic_int forks;

static void before_fork(void) { pthread_mutex_lock(&once_lock); }
static void in_parent(void) { pthread_mutex_unlock(&once_lock); }

static void in_child(void)
{
    atomic_fetch_add(&forks, 1);
    pthread_cond_init(&once_done, NULL);
    pthread_mutex_unlock(&once_lock);
}

static void watch_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

int adn_fork_count(void)
{
    pthread_once(&forks_once, watch_forks);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

/* A thread that was at it before a fork is not there: the child begins again. */
void adn_run_once(adn_once *once, void (*init)(void))
{
    const int now = adn_fork_count();
    pthread_mutex_lock(&once_lock);
    while (once->state == 1 && once->forks == now) pthread_cond_wait(&once_done, &once_lock);
    if (once->state == 2) {
        pthread_mutex_unlock(&once_lock);
        return;
    }
    once->state = 1;
    once->forks = now;
    pthread_mutex_unlock(&once_lock);
    init();
    pthread_mutex_lock(&once_lock);
    once->state = 2;
    pthread_cond_broadcast(&once_done);
    pthread_mutex_unlock(&once_lock);
}

int adn_processor_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
    return 1;
}

void adn_processor_name(char *name, size_t capacity)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, capacity, "CPU");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value) continue;
        value += strspn(value, ": \t");
        snprintf(name, capacity, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file) fclose(file);
}

int64_t adn_memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (int64_t)pages * size : 0;
}

int64_t adn_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void *adn_aligned_alloc(size_t bytes)
{
    void *pointer = NULL;
    return posix_memalign(&pointer, 256, bytes ? bytes : 1) == 0 ? pointer : NULL;
}

void adn_aligned_free(void *pointer) { free(pointer); }

enum adn_file_problem adn_file_problem(const char **text)
{
    const int code = errno;
    if (text) *text = strerror(code);
    return code == ENOENT ? ADN_FILE_MISSING : code == ENOMEM ? ADN_FILE_NO_MEMORY : ADN_FILE_OTHER;
}

static bool read_all(int file, char *bytes, size_t size)
{
    while (size) {
        ssize_t part = read(file, bytes, size);
        if (part < 0 && errno == EINTR) continue;
        if (part == 0) errno = EIO; /* it became shorter */
        if (part <= 0) return false;
        bytes += part;
        size -= (size_t)part;
    }
    return true;
}

static char *read_open(int file, size_t limit, size_t *size)
{
    struct stat info;
    char *bytes;
    if (fstat(file, &info) != 0) return NULL;
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size > limit) {
        errno = S_ISREG(info.st_mode) ? EFBIG : EINVAL;
        return NULL;
    }
    bytes = malloc((size_t)info.st_size + 1);
    if (!bytes) return NULL;
    if (!read_all(file, bytes, (size_t)info.st_size)) {
        free(bytes);
        return NULL;
    }
    bytes[info.st_size] = 0;
    *size = (size_t)info.st_size;
    return bytes;
}

void *adn_file_read(const char *path, size_t limit, size_t *size)
{
    char *bytes;
    int problem, file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    bytes = read_open(file, limit, size);
    problem = errno;
    close(file);
    errno = problem;
    return bytes;
}

static bool write_all(int file, const char *bytes, size_t size)
{
    while (size) {
        ssize_t part = write(file, bytes, size);
        if (part < 0 && errno == EINTR) continue;
        if (part == 0) errno = ENOSPC;
        if (part <= 0) return false;
        bytes += part;
        size -= (size_t)part;
    }
    return fsync(file) == 0;
}

/* A process that was killed may have left the name, and another machine or container may use our number. */
static int create_beside(const char *path, char *temporary, size_t capacity)
{
    static atomic_uint serial;
    int file = -1, tries;
    for (tries = 0; file < 0 && tries < 100; tries++) {
        int length = snprintf(temporary, capacity, "%s.%d.%u.tmp", path, (int)getpid(), atomic_fetch_add(&serial, 1));
        if (length < 0 || (size_t)length >= capacity) {
            errno = ENAMETOOLONG;
            return -1;
        }
        file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (file < 0 && errno != EEXIST) return -1;
    }
    return file;
}

/* A new file beside `path` with this content; false when nothing of it is left. */
static bool write_beside(const char *path, const void *bytes, size_t size, char *temporary, size_t capacity)
{
    bool good;
    int problem, file = create_beside(path, temporary, capacity);
    if (file < 0) return false;
    good = write_all(file, bytes, size);
    problem = errno;
    if (close(file) != 0 && good) good = false, problem = errno;
    if (!good) unlink(temporary);
    errno = problem;
    return good;
}

/* Takes a temporary file away and keeps errno. */
static void drop(const char *temporary)
{
    const int problem = errno;
    unlink(temporary);
    errno = problem;
}

bool adn_file_write(const char *path, const void *bytes, size_t size)
{
    char temporary[4096];
    if (!write_beside(path, bytes, size, temporary, sizeof temporary)) return false;
    if (rename(temporary, path) == 0) return true;
    drop(temporary);
    return false;
}

enum placing { PLACED, EXCHANGED, NOT_PLACED };

/* Gives a temporary file its name; what had the name gets the temporary one where the file system can do that. */
static enum placing put_in_place(const char *temporary, const char *path)
{
#ifdef RENAME_EXCHANGE
    int tries;
    for (tries = 0; tries < 100; tries++) { /* the file may come and go in between */
        if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0) return EXCHANGED;
        if (errno != ENOENT) break;
        if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0) return PLACED;
        if (errno != EEXIST) break;
    }
    if (errno != EINVAL && errno != ENOSYS) return NOT_PLACED;
#endif
    return rename(temporary, path) == 0 ? PLACED : NOT_PLACED;
}

bool adn_file_swap(const char *path, const void *bytes, size_t size, size_t limit, void **old, size_t *old_size)
{
    char temporary[4096];
    enum placing placing;
    *old = NULL;
    if (!write_beside(path, bytes, size, temporary, sizeof temporary)) return false;
    placing = put_in_place(temporary, path);
    if (placing == PLACED) return true;
    if (placing == EXCHANGED) *old = adn_file_read(temporary, limit, old_size);
    drop(temporary);
    return *old != NULL;
}

void adn_file_remove(const char *path) { unlink(path); }

bool adn_folder_make(const char *path)
{
    char part[4096];
    struct stat info;
    size_t i, length = strlen(path);
    if (length >= sizeof part) return false;
    memcpy(part, path, length + 1);
    for (i = 1; i < length; i++) {
        if (part[i] != '/') continue;
        part[i] = 0;
        mkdir(part, 0700);
        part[i] = '/';
    }
    mkdir(part, 0700);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

void adn_folder_visit(const char *path, void (*visit)(void *user, const char *path, uint64_t bytes, int64_t age),
                      void *user)
{
    struct dirent *entry;
    DIR *folder = opendir(path);
    if (!folder) return;
    while ((entry = readdir(folder)) != NULL) {
        char full[4096];
        struct stat info;
        int length = snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof full) continue;
        if (stat(full, &info) != 0 || !S_ISREG(info.st_mode)) continue;
        visit(user, full, (uint64_t)info.st_size, (int64_t)(time(NULL) - info.st_mtime));
    }
    closedir(folder);
}

void adn_file_touch(const char *path) { utime(path, NULL); }

bool adn_cache_folder(char *path, size_t capacity)
{
    const char *base = getenv("XDG_CACHE_HOME"), *inner = "anydnn";
    int length;
    if (!base || base[0] != '/') {
        base = getenv("HOME");
        inner = ".cache/anydnn";
    }
    if (!base || base[0] != '/') return false;
    length = snprintf(path, capacity, "%s/%s", base, inner);
    return length > 0 && (size_t)length < capacity;
}

const char *adn_environment(const char *name) { return getenv(name); }
