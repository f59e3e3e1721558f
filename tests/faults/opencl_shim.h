/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/opencl_shim.h: controls of a libOpenCL.so.1 that forwards every call of backends/opencl/loader.h to the
 * real loader, counts, and fails the calls that it is told to fail. Releases are carried out before they fail, waits
 * are not. A test opens "libOpenCL.so.1" as the library does and finds these functions by name. */
#ifndef OPENCL_SHIM_H
#define OPENCL_SHIM_H
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

enum shim_kind { SHIM_CONTEXT, SHIM_QUEUE, SHIM_MEMORY, SHIM_PROGRAM, SHIM_KERNEL, SHIM_EVENT, SHIM_KINDS };

struct opencl_shim {
    /* True when the real loader was found. */
    int (*present)(void);
    /* Forgets counts and orders; live references stay counted. */
    void (*reset)(void);
    /* The calls first, first + 1, ... first + count - 1 of the function ("clFinish"; NULL: of all together) fail. */
    void (*fail)(const char *function, int first, int count);
    /* Function of the first call that failed by order, "" when none did. */
    const char *(*failed)(void);
    /* Name of the index-th function, NULL behind the last, and its calls. */
    const char *(*function)(int index, int *calls);
    int (*calls)(void);
    /* References that the caller holds: creations and retains less releases. */
    int (*live)(int kind);
};

/* What the library exports: fills the table. */
typedef void opencl_shim_table(struct opencl_shim *table);
#define OPENCL_SHIM_ENTRY "opencl_shim"

/* False where the library is another one. */
static inline bool opencl_shim_open(struct opencl_shim *shim)
{
    opencl_shim_table *fill = NULL;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, OPENCL_SHIM_ENTRY) : NULL;
    memcpy(&fill, &symbol, sizeof fill);
    if (fill) fill(shim);
    return fill != NULL;
}
#endif
