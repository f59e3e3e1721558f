/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/fuzz_text.c: libFuzzer target: arbitrary bytes as a problem line. A line that is accepted must print to a
 * line that is accepted and prints the same, also in part into a short buffer. */
#include <anydnn/anydnn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void found(const char *what, const char *first, const char *second)
{
    fprintf(stderr, "%s: %s\n  '%s'\n  '%s'\n", what, anydnn_message(), first, second);
    abort();
}

static char *print(const anydnn_problem *problem)
{
    size_t length = 0, again = 0;
    char part[9], *text;
    if (anydnn_problem_print(problem, NULL, 0, &length) != ANYDNN_OK || !(text = malloc(length + 1))) abort();
    if (anydnn_problem_print(problem, text, length + 1, &again) != ANYDNN_OK || again != length || strlen(text) != length)
        found("the length is wrong", text, "");
    if (anydnn_problem_print(problem, part, sizeof part, NULL) != ANYDNN_OK || strncmp(part, text, strlen(part)) != 0)
        found("a part differs", text, part);
    return text;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    anydnn_problem *a = NULL, *b = NULL;
    char *line = malloc(size + 1), *first, *second;
    if (!line) return 0;
    if (size) memcpy(line, data, size);
    line[size] = 0;
    if (anydnn_problem_parse(line, &a) == ANYDNN_OK) {
        first = print(a);
        if (anydnn_problem_parse(first, &b) != ANYDNN_OK) found("the printed line is refused", line, first);
        second = print(b);
        if (strcmp(first, second) != 0) found("a second print differs", first, second);
        free(first);
        free(second);
    }
    anydnn_problem_destroy(a);
    anydnn_problem_destroy(b);
    free(line);
    return 0;
}
