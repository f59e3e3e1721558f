/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/sanitized.h: which sanitizer watches the program: ADDRESS_SANITIZED and THREAD_SANITIZED are 0 or 1. */
#ifndef ANYDNN_TESTS_SANITIZED_H
#define ANYDNN_TESTS_SANITIZED_H

#if defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZED 1
#endif
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZED 1
#endif
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZED 1
#endif
#if !defined(ADDRESS_SANITIZED)
#define ADDRESS_SANITIZED 0
#endif
#if !defined(THREAD_SANITIZED)
#define THREAD_SANITIZED 0
#endif

#endif
