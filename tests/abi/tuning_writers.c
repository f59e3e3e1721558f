/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/tuning_writers.c: eight processes measure problems of their own and save into one tuning file at once, after
 * every problem. Wanted: every entry of every process, the lines that were there before, no temporary file, and at any
 * moment a whole file. Limits: the CPU; a file system that exchanges names (elsewhere additions may be lost). */
#include "../unit/unit.h"
#include <anydnn/anydnn.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 8, PROBLEMS = 20, FIRST = 1000, PATIENCE = 120, MOST = 1 << 17 };
static const char before[] = "# a comment of the user\nstandard of a later version\nother:1 7 99 moon:x | fill y=4/f32\n";

static char folder[] = "/tmp/anydnn-writers-XXXXXX", path[64];

static int size_of(int writer, int problem)
{
    return (writer + 1) * FIRST + problem;
}

/* Measures the fill of so many numbers. */
static anydnn_status measure(anydnn_stream *stream, anydnn_mem y, int size)
{
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, size);
    const anydnn_elementwise op = anydnn_fill_init();
    const anydnn_binding row[2] = { anydnn_bind(ANYDNN_Y, &t, y), anydnn_bind_value(ANYDNN_VALUE, 3) };
    anydnn_verdict verdict;
    int count;
    return anydnn_find(stream, (const anydnn_op *)&op, NULL, row, 2, 1e4, &verdict, 1, &count);
}

/* Exit code of a process that saves after every problem. */
static int write_all(int writer)
{
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_mem y;
    int i;
    if (anydnn_open("cpu", NULL, &context) != ANYDNN_OK) return 1;
    if (anydnn_stream_create(context, ANYDNN_NO_WORKSPACE, &stream) != ANYDNN_OK) return 2;
    if (anydnn_alloc(context, 4 * (WRITERS + 1) * FIRST, &y) != ANYDNN_OK) return 3;
    for (i = 0; i < PROBLEMS; i++) {
        if (measure(stream, y, size_of(writer, i)) != ANYDNN_OK) return 4;
        if (anydnn_tuning_save(context, path) != ANYDNN_OK) return 5;
    }
    anydnn_free(context, y);
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return 0;
}

/* The file's text, always whole: its first line is there and its last line ends. */
static const char *read_file(void)
{
    static char text[MOST];
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[size] = 0;
    CHECK_CASE(size > 0 && text[0] == '#' && text[size - 1] == '\n', text);
    return text;
}

static void check_entries(const char *text)
{
    char entry[64];
    int writer, i, missing = 0;
    for (writer = 0; writer < WRITERS; writer++)
        for (i = 0; i < PROBLEMS; i++) {
            const char *found;
            snprintf(entry, sizeof entry, "| fill y=%d/f32", size_of(writer, i));
            found = strstr(text, entry);
            missing += !found;
            CHECK_CASE(!found || !strstr(found + 1, entry), entry);
        }
    if (missing) printf("%d of %d entries are lost\n", missing, WRITERS * PROBLEMS);
    CHECK(missing == 0);
    CHECK_CASE(strstr(text, "# a comment of the user\nstandard of a later version\n"), text);
    CHECK_CASE(strstr(text, "other:1 7 99 moon:x | fill y=4/f32\n"), text);
}

static bool is_alone(void)
{
    DIR *listing = opendir(folder);
    struct dirent *entry;
    int count = 0;
    while (listing && (entry = readdir(listing)) != NULL) count += entry->d_name[0] != '.';
    if (listing) closedir(listing);
    return count == 1;
}

/* Reads while they write; the number of those that failed. */
static int wait_for(const pid_t *child)
{
    int running = WRITERS, failed = 0, i, status;
    pid_t ended;
    while (running > 0) {
        read_file();
        ended = waitpid(-1, &status, WNOHANG);
        for (i = 0; i < WRITERS; i++)
            if (ended > 0 && child[i] == ended) {
                running--;
                if (status != 0) printf("writer %d ended with status %d\n", i, status);
                failed += status != 0;
            }
        if (ended < 0) return failed + running;
        if (ended == 0) usleep(1000);
    }
    return failed;
}

int main(void)
{
    pid_t child[WRITERS];
    FILE *file;
    int i;
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/store", folder);
    file = fopen(path, "wb");
    CHECK(file && fputs(before, file) >= 0 && fclose(file) == 0);
    fflush(stdout);
    for (i = 0; i < WRITERS; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            alarm(PATIENCE);
            _exit(write_all(i));
        }
    }
    CHECK(wait_for(child) == 0);
    check_entries(read_file());
    CHECK(is_alone());
    unlink(path);
    rmdir(folder);
    return unit_end();
}
