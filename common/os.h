/* SPDX-License-Identifier: Apache-2.0
 * common/os.h: everything that the operating system decides, in one place: shared libraries, threads, files, time.
 * common/os.c is the POSIX side. */
#ifndef ADN_OS_H
#define ADN_OS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Shared libraries. adn_library_open tries each name until NULL and returns NULL if none opens. */
void *adn_library_open(const char *const *names);
void *adn_library_symbol(void *library, const char *name);
void adn_library_close(void *library); /* NULL allowed */

/* Locks, conditions, threads. */
typedef struct adn_mutex adn_mutex;
typedef struct adn_condition adn_condition;
typedef struct adn_thread adn_thread;
adn_mutex *adn_mutex_create(void); /* NULL: out of memory, as for the other creators */
void adn_mutex_destroy(adn_mutex *mutex);
void adn_mutex_lock(adn_mutex *mutex);
bool adn_mutex_try_lock(adn_mutex *mutex);
void adn_mutex_unlock(adn_mutex *mutex);
adn_condition *adn_condition_create(void);
void adn_condition_destroy(adn_condition *condition);
void adn_condition_wait(adn_condition *condition, adn_mutex *mutex);
void adn_condition_signal_all(adn_condition *condition);
adn_thread *adn_thread_start(void (*run)(void *), void *argument);
void adn_thread_join(adn_thread *thread); /* frees it */
/* Runs `init` once, however many threads ask; `once` is zero-initialised and static. */
typedef struct adn_once {
    int state, forks;
} adn_once;
void adn_run_once(adn_once *once, void (*init)(void));
/* Forks that lie behind this process since the first call of this function. A child sees a greater number than its
 * parent: what was made under the smaller one has lost its threads, and its locks may be held for ever. */
int adn_fork_count(void);

/* Processors that this process may use, >= 1. */
int adn_processor_count(void);
/* The processor's name in /proc/cpuinfo, "CPU" where unknown, cut to capacity; bytes of memory, 0 where unknown. */
void adn_processor_name(char *name, size_t capacity);
int64_t adn_memory_bytes(void);

/* Monotonic time in nanoseconds. */
int64_t adn_time_ns(void);

/* Memory aligned to 256 bytes; free with adn_aligned_free (NULL allowed). bytes 0 gives a valid pointer. */
void *adn_aligned_alloc(size_t bytes);
void adn_aligned_free(void *pointer);

/* Files. Paths are UTF-8 with '/'. */
/* Reads a whole file into malloc'ed memory; NULL on any failure or above `limit` bytes. */
void *adn_file_read(const char *path, size_t limit, size_t *size);
/* Writes atomically: a temporary name in the same folder, flushed, then renamed. */
bool adn_file_write(const char *path, const void *bytes, size_t size);
/* The same, and *old = what the new content took the place of, malloc'ed (NULL: there was no file, or this system cannot
 * exchange two names). Fails, too, where the old content cannot be read or exceeds `limit` bytes: the new one stays. */
bool adn_file_swap(const char *path, const void *bytes, size_t size, size_t limit, void **old, size_t *old_size);
/* Why the thread's last adn_file_read, _write or _swap failed, to be asked at once; *text (may be NULL) in words. */
enum adn_file_problem { ADN_FILE_MISSING, ADN_FILE_NO_MEMORY, ADN_FILE_OTHER };
enum adn_file_problem adn_file_problem(const char **text);
void adn_file_remove(const char *path);
/* Makes the folder and its parents (mode 0700); true if it exists afterwards. */
bool adn_folder_make(const char *path);
/* Calls visit(user, path, bytes, age_seconds) for each plain file of a folder, where age counts since last use. */
void adn_folder_visit(const char *path, void (*visit)(void *user, const char *path, uint64_t bytes, int64_t age),
                      void *user);
/* Marks a file as used now. */
void adn_file_touch(const char *path);
/* Folder for caches of this user ("$XDG_CACHE_HOME/anydnn", "$HOME/.cache/anydnn"); false if there is none. */
bool adn_cache_folder(char *path, size_t capacity);
/* Environment variable, NULL when unset. */
const char *adn_environment(const char *name);
#endif
