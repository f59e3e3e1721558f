/* SPDX-License-Identifier: Apache-2.0
 * bench/junit.h: results as JUnit XML, a test suite for each device and a test case for each line and engine. */
#ifndef ADN_BENCH_JUNIT_H
#define ADN_BENCH_JUNIT_H
#include <stdbool.h>

struct junit; /* NULL everywhere means that no report is wanted */

/* Opens the report at once, so that a bad path is told before the work; NULL with a message on stderr. */
struct junit *junit_open(const char *path);

enum junit_outcome { JUNIT_PASSED, JUNIT_FAILED, JUNIT_SKIPPED };

/* Notes one case; engine NULL = the line as a whole. `text` says why it failed or was skipped, NULL when it passed;
 * `repeat` is the command that repeats a failure, NULL when there is none. */
void junit_case(struct junit *junit, const char *device, const char *engine, const char *line,
                enum junit_outcome outcome, const char *text, const char *repeat);

/* Writes and closes the report; false with a message on stderr where it could not be written. */
bool junit_close(struct junit *junit);

#endif
