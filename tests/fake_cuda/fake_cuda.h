/* SPDX-License-Identifier: Apache-2.0
 * tests/fake_cuda/fake_cuda.h: controls of the fake CUDA driver (fake_cuda.c, built as libcuda.so.1).
 *
 * Memory is host memory, streams finish at once, modules accept any image, kernels do nothing. What it does check is
 * the host side's manners: handles, bounds of copies, the current context, shapes and pointers of launches, calls that
 * a stream capture forbids. A breach fails the call and is kept as a complaint. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#define FAKE_CUDA_API __attribute__((visibility("default")))

/* What is alive: all zero when nothing leaks. contexts counts retains of primary contexts and made ones. */
struct fake_cuda_counts {
    int contexts, memories, host_memories, streams, events, modules;
};

/* Forgets calls, complaints and the pending failure, and empties this thread's stack of contexts. Live objects stay. */
FAKE_CUDA_API void fake_cuda_reset(void);

/* The n-th driver call from now fails with `code` (n = 1: the next); 0 = none. Calls that give something back do so
 * even then. cuGetErrorName and cuGetErrorString neither count nor fail. */
FAKE_CUDA_API void fake_cuda_fail_after(int n, int code);
FAKE_CUDA_API const char *fake_cuda_failed(void); /* the call that did, without its version suffix; "" = none yet */

FAKE_CUDA_API int fake_cuda_calls(void); /* since reset */
FAKE_CUDA_API int fake_cuda_launches(void);
FAKE_CUDA_API const char *fake_cuda_last_function(void); /* last name looked up in a module */
FAKE_CUDA_API struct fake_cuda_counts fake_cuda_live(void);
FAKE_CUDA_API const char *fake_cuda_complaint(void); /* the first breach since reset; "" = none */

/* While set, every stream counts as captured: calls that allocate, load or wait are breaches. */
FAKE_CUDA_API void fake_cuda_capture(int on);

/* The caller's side: contexts, streams and the current context of this thread. None of these counts as a call. */
FAKE_CUDA_API void *fake_cuda_make_context(int device);
FAKE_CUDA_API void *fake_cuda_make_stream(void *context);
FAKE_CUDA_API void fake_cuda_drop(void *context_or_stream);
FAKE_CUDA_API void fake_cuda_set_current(void *context); /* NULL: none */
FAKE_CUDA_API void *fake_cuda_current(void);
FAKE_CUDA_API int fake_cuda_depth(void); /* of this thread's stack */

#endif
