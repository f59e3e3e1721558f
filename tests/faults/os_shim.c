/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/os_shim.c: see os_shim.h. The allocator is reached by glibc's internal names, since dlsym allocates. */
#include "os_shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#define EXPORT __attribute__((visibility("default")))
#pragma GCC visibility push(default)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *pointer);

enum { NODES = 1 << 14, BUCKETS = 1 << 12 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t library_begin, library_end;
static int calls[OS_SHIM_GROUPS], first_failure[OS_SHIM_GROUPS], failures[OS_SHIM_GROUPS], code[OS_SHIM_GROUPS];
static int kill_at, occupied, live, open_files;
static const char *first_failed = "";

/* ---- Whose call is it? ---- */

static int find_library(struct dl_phdr_info *info, size_t size, void *user)
{
    int i;
    (void)size, (void)user;
    if (!strstr(info->dlpi_name, "libanydnn.so")) return 0;
    for (i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        library_begin = (uintptr_t)info->dlpi_addr + part->p_vaddr;
        library_end = library_begin + part->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void find_range(void)
{
    dl_iterate_phdr(find_library, NULL);
}

#define OURS ((uintptr_t)__builtin_return_address(0) - library_begin < library_end - library_begin)

/* True: the call fails, with errno set. */
static bool begin(int group, const char *name)
{
    int number;
    bool fails;
    pthread_mutex_lock(&lock);
    number = ++calls[group];
    fails = number >= first_failure[group] && number < first_failure[group] + failures[group];
    if (fails && !first_failed[0]) first_failed = name;
    if (fails) errno = code[group];
    pthread_mutex_unlock(&lock);
    return fails;
}

static bool begin_file(const char *name)
{
    const bool fails = begin(OS_SHIM_FILES, name);
    if (kill_at && calls[OS_SHIM_FILES] == kill_at) raise(SIGKILL);
    return fails;
}

/* ---- Controls. ---- */

void os_shim_reset(void)
{
    pthread_mutex_lock(&lock);
    memset(calls, 0, sizeof calls);
    memset(failures, 0, sizeof failures);
    kill_at = occupied = 0;
    first_failed = "";
    pthread_mutex_unlock(&lock);
}

void os_shim_fail(int group, int first, int count, int error)
{
    pthread_mutex_lock(&lock);
    first_failure[group] = first;
    failures[group] = count;
    code[group] = error;
    pthread_mutex_unlock(&lock);
}

void os_shim_occupy(int count)
{
    occupied = count;
}
void os_shim_kill(int call)
{
    kill_at = call;
}
int os_shim_calls(int group)
{
    return calls[group];
}
const char *os_shim_failed(void)
{
    return first_failed;
}
int os_shim_live(void)
{
    return live;
}
int os_shim_open_files(void)
{
    return open_files;
}

/* ---- Memory: what the library allocated is kept in a table until anybody frees it. ---- */

static struct node {
    void *pointer;
    struct node *next;
} nodes[NODES], *bucket[BUCKETS], *spare;
static int used;

static struct node **place_of(const void *pointer)
{
    struct node **at = &bucket[((uintptr_t)pointer >> 4) % BUCKETS];
    while (*at && (*at)->pointer != pointer) at = &(*at)->next;
    return at;
}

static void *remember(void *pointer)
{
    struct node *node;
    if (!pointer) return NULL;
    pthread_mutex_lock(&lock);
    node = spare ? spare : used < NODES ? &nodes[used++] : NULL;
    if (node) {
        struct node **at = &bucket[((uintptr_t)pointer >> 4) % BUCKETS];
        if (node == spare) spare = node->next;
        node->pointer = pointer;
        node->next = *at;
        *at = node;
    }
    live++;
    pthread_mutex_unlock(&lock);
    return pointer;
}

static bool forget(const void *pointer)
{
    struct node **at, *node;
    pthread_mutex_lock(&lock);
    at = place_of(pointer);
    node = *at;
    if (node) {
        *at = node->next;
        node->next = spare;
        spare = node;
        live--;
    }
    pthread_mutex_unlock(&lock);
    return node != NULL;
}

void *malloc(size_t size)
{
    if (!OURS) return __libc_malloc(size);
    return begin(OS_SHIM_MEMORY, "malloc") ? NULL : remember(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    if (!OURS) return __libc_calloc(count, size);
    return begin(OS_SHIM_MEMORY, "calloc") ? NULL : remember(__libc_calloc(count, size));
}

void *realloc(void *pointer, size_t size)
{
    void *moved;
    bool ours = OURS;
    if (ours && begin(OS_SHIM_MEMORY, "realloc")) return NULL;
    if (pointer) ours = forget(pointer) || ours;
    moved = __libc_realloc(pointer, size);
    if (ours) remember(moved ? moved : pointer);
    return moved;
}

int posix_memalign(void **pointer, size_t alignment, size_t size)
{
    void *made;
    const bool ours = OURS;
    if (ours && begin(OS_SHIM_MEMORY, "posix_memalign")) return ENOMEM;
    made = __libc_memalign(alignment, size);
    if (!made) return ENOMEM;
    *pointer = ours ? remember(made) : made;
    return 0;
}

void free(void *pointer)
{
    if (!pointer) return;
    forget(pointer);
    __libc_free(pointer);
}

/* ---- The rest, by dlsym. ---- */

#define NEXT(type, name)                                                                                               \
    static type(*next);                                                                                                \
    if (!next) {                                                                                                       \
        void *symbol = dlsym(RTLD_NEXT, name);                                                                         \
        memcpy(&next, &symbol, sizeof symbol);                                                                         \
    }

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    NEXT(create_function, "pthread_create")
    if (OURS && begin(OS_SHIM_MEMORY, "pthread_create")) return EAGAIN;
    return next(thread, attributes, run, argument);
}

static int opened(int change, bool good)
{
    if (good) __atomic_add_fetch(&open_files, change, __ATOMIC_SEQ_CST);
    return good;
}

typedef int open_function(const char *, int, ...);
int open(const char *path, int flags, ...)
{
    NEXT(open_function, "open")
    const bool ours = OURS;
    va_list more;
    int mode, file;
    va_start(more, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
    va_end(more);
    if (ours && begin_file("open")) return -1;
    if (ours && (flags & O_EXCL) && occupied > 0) {
        occupied--;
        errno = EEXIST;
        return -1;
    }
    file = next(path, flags, mode);
    if (ours) opened(1, file >= 0);
    return file;
}

typedef int close_function(int);
int close(int file)
{
    NEXT(close_function, "close")
    int result;
    if (!OURS) return next(file);
    const bool fails = begin_file("close");
    const int error = errno;
    result = next(file);
    opened(-1, true);
    errno = fails ? error : errno;
    return fails ? -1 : result;
}

typedef ssize_t read_function(int, void *, size_t);
ssize_t read(int file, void *bytes, size_t size)
{
    NEXT(read_function, "read")
    return OURS && begin_file("read") ? -1 : next(file, bytes, size);
}

typedef ssize_t write_function(int, const void *, size_t);
ssize_t write(int file, const void *bytes, size_t size)
{
    NEXT(write_function, "write")
    if (!OURS) return next(file, bytes, size);
    if (kill_at == calls[OS_SHIM_FILES] + 1) {
        if (next(file, bytes, size / 2) >= 0) raise(SIGKILL);
    }
    if (!begin_file("write")) return next(file, bytes, size);
    const int error = errno;
    const ssize_t half = next(file, bytes, size / 2);
    (void)half;
    errno = error;
    return -1;
}

typedef FILE *fopen_function(const char *, const char *);
FILE *fopen(const char *path, const char *mode)
{
    NEXT(fopen_function, "fopen")
    return OURS && begin_file("fopen") ? NULL : next(path, mode);
}

typedef DIR *opendir_function(const char *);
DIR *opendir(const char *path)
{
    NEXT(opendir_function, "opendir")
    const bool ours = OURS;
    DIR *folder = ours && begin_file("opendir") ? NULL : next(path);
    if (ours) opened(1, folder != NULL);
    return folder;
}

typedef int closedir_function(DIR *);
int closedir(DIR *folder)
{
    NEXT(closedir_function, "closedir")
    if (OURS) opened(-1, true);
    return next(folder);
}

#define PATH_FUNCTION(name, parameters, arguments)                                                                     \
    typedef int name##_function parameters;                                                                            \
    int name parameters                                                                                                \
    {                                                                                                                  \
        NEXT(name##_function, #name)                                                                                   \
        return OURS && begin_file(#name) ? -1 : next arguments;                                                        \
    }
PATH_FUNCTION(fsync, (int file), (file))
PATH_FUNCTION(rename, (const char *from, const char *to), (from, to))
PATH_FUNCTION(renameat2, (int from_at, const char *from, int to_at, const char *to, unsigned flags),
              (from_at, from, to_at, to, flags))
PATH_FUNCTION(mkdir, (const char *path, mode_t mode), (path, mode))
PATH_FUNCTION(stat, (const char *path, struct stat *info), (path, info))
PATH_FUNCTION(fstat, (int file, struct stat *info), (file, info))
PATH_FUNCTION(unlink, (const char *path), (path))
PATH_FUNCTION(utime, (const char *path, const struct utimbuf *times), (path, times))
