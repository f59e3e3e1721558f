/* SPDX-License-Identifier: Apache-2.0
 * tests/faults/scenario.h: one pass through the public API on a device: context, streams, events, memory, copies, a
 * convolution and two matrix products and a softmax, one-shot and by plan. It stops at the first call that fails, and
 * gives back all that it made. Linked to the tests that make things fail. */
#ifndef SCENARIO_H
#define SCENARIO_H
#include <anydnn/anydnn.h>
#include <stdbool.h>

/* *right: what came back is what the operations define, as far as the pass got. */
anydnn_status scenario_run(const char *device, bool *right);
/* The same for one small operation: a context, a stream, relu. */
anydnn_status scenario_relu(const char *device, bool *right);

/* CHECK counts, and prints what fails with `scenario_case`, the thread's message and the line. */
extern int scenario_passed, scenario_failed;
extern char scenario_case[160];
bool scenario_check(bool good, const char *file, int line, const char *what);
#define CHECK(condition) scenario_check((condition) != 0, __FILE__, __LINE__, #condition)
/* Prints the closing line; the exit code. */
int scenario_end(int skipped);
#endif
