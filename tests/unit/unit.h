/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/unit.h: the smallest test frame: CHECK counts and names what fails; unit_end prints the closing line. */
#ifndef ADN_UNIT_H
#define ADN_UNIT_H
#include <stdio.h>

static int unit_passed, unit_failed;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            unit_passed++;                                                                                             \
        } else {                                                                                                       \
            unit_failed++;                                                                                             \
            printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                                             \
        }                                                                                                              \
    } while (0)

/* As CHECK, with a text that says which case it was. */
#define CHECK_CASE(condition, text)                                                                                    \
    do {                                                                                                               \
        if (condition) {                                                                                               \
            unit_passed++;                                                                                             \
        } else {                                                                                                       \
            unit_failed++;                                                                                             \
            printf("%s:%d: failed: %s, case: %s\n", __FILE__, __LINE__, #condition, text);                             \
        }                                                                                                              \
    } while (0)

static inline int unit_end(void)
{
    printf("%d passed, %d failed, 0 skipped\n", unit_passed, unit_failed);
    return unit_failed > 0 || unit_passed == 0;
}

#endif
