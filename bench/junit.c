/* SPDX-License-Identifier: Apache-2.0
 * bench/junit.c: writes JUnit XML, as the schema of Jenkins (junit-10.xsd) has it. Cases are kept in memory until the
 * end, since a suite begins with its counts. */
#include "junit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUITES = 20 };

struct suite {
    char device[64];
    char *text;
    size_t length, capacity;
    long cases, failed, skipped;
};

struct junit {
    FILE *file;
    const char *path;
    struct suite suite[SUITES];
    int suites;
    bool short_of_memory;
    struct timespec start;
};

struct junit *junit_open(const char *path)
{
    struct junit *j = calloc(1, sizeof *j);
    if (j) j->file = fopen(path, "w");
    if (j && j->file) {
        j->path = path;
        timespec_get(&j->start, TIME_UTC);
        return j;
    }
    fprintf(stderr, "anydnn: cannot write %s\n", path);
    free(j);
    return NULL;
}

static struct suite *suite_of(struct junit *j, const char *device)
{
    int i;
    for (i = 0; i < j->suites; i++)
        if (!strcmp(j->suite[i].device, device)) return &j->suite[i];
    if (j->suites == SUITES) return &j->suite[SUITES - 1];
    snprintf(j->suite[j->suites].device, sizeof j->suite[0].device, "%s", device);
    return &j->suite[j->suites++];
}

static void append(struct junit *j, struct suite *s, const char *text, size_t length)
{
    if (s->capacity - s->length < length) {
        const size_t capacity = 2 * s->capacity + length + 65536;
        char *larger = realloc(s->text, capacity);
        j->short_of_memory = j->short_of_memory || !larger;
        if (!larger) return;
        s->text = larger;
        s->capacity = capacity;
    }
    memcpy(s->text + s->length, text, length);
    s->length += length;
}

static void append_plain(struct junit *j, struct suite *s, const char *text) { append(j, s, text, strlen(text)); }

/* Markup and bytes outside ASCII as references; XML 1.0 has no place for other control characters: they become '?'. */
static void append_escaped(struct junit *j, struct suite *s, const char *text)
{
    char reference[16];
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if ((c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127)
            append_plain(j, s, "?");
        else if (c < 32 || c > 127 || strchr("<>&\"'", c)) {
            snprintf(reference, sizeof reference, "&#%d;", c);
            append_plain(j, s, reference);
        } else
            append(j, s, text, 1);
    }
}

/* What viewers of reports show of a failure differs: the message has the reason, the text all that there is. */
static void append_failure(struct junit *j, struct suite *s, const char *text, const char *repeat)
{
    append_plain(j, s, "<failure type=\"check\" message=\"");
    append_escaped(j, s, text);
    append_plain(j, s, "\">");
    if (repeat) append_escaped(j, s, repeat);
    if (repeat) append_plain(j, s, "\n");
    append_escaped(j, s, text);
    append_plain(j, s, "</failure>");
}

void junit_case(struct junit *j, const char *device, const char *engine, const char *line, enum junit_outcome outcome,
                const char *text, const char *repeat)
{
    struct suite *s;
    char operation[64];
    if (!j) return;
    s = suite_of(j, device);
    s->cases++;
    s->failed += outcome == JUNIT_FAILED;
    s->skipped += outcome == JUNIT_SKIPPED;
    snprintf(operation, sizeof operation, "%.*s", (int)strcspn(line, " "), line);
    append_plain(j, s, "    <testcase classname=\"");
    append_escaped(j, s, device);
    append_plain(j, s, ".");
    append_escaped(j, s, operation);
    append_plain(j, s, "\" name=\"");
    if (engine) append_escaped(j, s, engine);
    if (engine) append_plain(j, s, ": ");
    append_escaped(j, s, line);
    append_plain(j, s, outcome == JUNIT_PASSED ? "\"/>\n" : "\">");
    if (outcome == JUNIT_PASSED) return;
    if (outcome == JUNIT_FAILED) {
        append_failure(j, s, text ? text : "", repeat);
    } else {
        append_plain(j, s, "<skipped message=\"");
        append_escaped(j, s, text ? text : "");
        append_plain(j, s, "\"/>");
    }
    append_plain(j, s, "</testcase>\n");
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return difftime(now.tv_sec, start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

bool junit_close(struct junit *j)
{
    long cases = 0, failed = 0;
    bool good;
    int i;
    if (!j) return true;
    for (i = 0; i < j->suites; i++) {
        cases += j->suite[i].cases;
        failed += j->suite[i].failed;
    }
    fprintf(j->file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"anydnn check\" tests=\"%ld\" "
            "failures=\"%ld\" errors=\"0\" time=\"%.3f\">\n",
            cases, failed, seconds_since(&j->start));
    for (i = 0; i < j->suites; i++) {
        struct suite *s = &j->suite[i];
        fprintf(j->file, "  <testsuite name=\"%s\" tests=\"%ld\" failures=\"%ld\" errors=\"0\" skipped=\"%ld\">\n",
                s->device, s->cases, s->failed, s->skipped);
        fwrite(s->text, 1, s->length, j->file);
        fputs("  </testsuite>\n", j->file);
        free(s->text);
    }
    fputs("</testsuites>\n", j->file);
    good = !ferror(j->file) && !j->short_of_memory;
    good = fclose(j->file) == 0 && good;
    if (!good) fprintf(stderr, "anydnn: cannot write %s\n", j->path);
    free(j);
    return good;
}
