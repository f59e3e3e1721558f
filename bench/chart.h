/* SPDX-License-Identifier: Apache-2.0
 * bench/chart.h: a bar chart as an SVG file, without any library. */
#ifndef BENCH_CHART_H
#define BENCH_CHART_H
#include <stdbool.h>

struct chart_bar {
    const char *group; /* bars of a group lie together; equal neighbouring pointers or texts are one group */
    const char *name;  /* decides the colour */
    double value;
};

/* Writes horizontal bars in the given order; false when the file cannot be written. */
bool chart_write(const char *path, const char *title, const char *unit, const struct chart_bar *bars, int count);
#endif
