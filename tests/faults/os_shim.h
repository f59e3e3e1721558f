/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/os_shim.h: controls of functions that stand before the C library's and fail, when told so, for calls
 * that come from libanydnn.so itself (seen by the return address); all others go through. Linked before the C library.
 * Two groups are counted: memory (malloc, calloc, realloc, posix_memalign, pthread_create) and files (open, fopen,
 * read, write, fsync, close, rename, renameat2, mkdir, stat, fstat, opendir, unlink, utime). glibc alone. */
#ifndef OS_SHIM_H
#define OS_SHIM_H

enum os_shim_group { OS_SHIM_MEMORY, OS_SHIM_FILES, OS_SHIM_GROUPS };

/* Forgets counts and orders, but not what is allocated or open. */
void os_shim_reset(void);
/* Calls first to first + count - 1 of the group fail with the error. A write that fails has written half. */
void os_shim_fail(int group, int first, int count, int error);
/* The next `count` exclusive creations of a file find it there. */
void os_shim_occupy(int count);
/* The process dies by SIGKILL at this call of the files, a write when half of it is done. */
void os_shim_kill(int call);
int os_shim_calls(int group);
/* Function of the first call that failed by order, "" when none did. */
const char *os_shim_failed(void);
/* Allocations of the library that were not freed; its open files and folders. */
int os_shim_live(void);
int os_shim_open_files(void);
#endif
