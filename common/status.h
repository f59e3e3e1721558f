/* SPDX-License-Identifier: Apache-2.0
 * common/status.h: how failures are reported inside the library: a status and one message per thread. */
#ifndef ADN_STATUS_H
#define ADN_STATUS_H
#include <anydnn/core.h>

#if defined(__GNUC__)
#define ADN_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define ADN_PRINTF(text, first)
#endif

/* Sets this thread's message and returns status, so that a check is one statement:
 *     return adn_fail(ANYDNN_INVALID, "pad[%d] is %lld; accepted: 0 or more", i, value); */
anydnn_status adn_fail(anydnn_status status, const char *format, ...) ADN_PRINTF(2, 3);

/* The same for a driver's failure: keeps the native code for anydnn_native_error(). */
anydnn_status adn_fail_native(anydnn_status status, int64_t code, const char *format, ...) ADN_PRINTF(3, 4);

#define ADN_TRY(expression)                                                                                            \
    do {                                                                                                               \
        anydnn_status adn_try_status_ = (expression);                                                                  \
        if (adn_try_status_ != ANYDNN_OK) return adn_try_status_;                                                      \
    } while (0)

#endif
