/* SPDX-License-Identifier: Apache-2.0
 * embed [--inline] SYMBOL INPUT OUTPUT: writes a C file that defines SYMBOL (INPUT's bytes and a final zero) and
 * SYMBOL_size. Binary files are pulled in by the assembler (.incbin), which takes no time for megabytes.
 * With --inline each line  #include "file"  is replaced by that file's text, once for each file, relative to the file
 * that names it, so that the result needs no include path; the text is written as an array. Build-time only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 64, MAX_PATH_LENGTH = 1024 };
static char seen[MAX_FILES][MAX_PATH_LENGTH];
static int seen_count;

struct text {
    char *bytes;
    size_t size, capacity;
};

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "embed: %s %s\n", what, path);
    exit(1);
}

static void append(struct text *out, const char *bytes, size_t size)
{
    if (out->size + size + 1 > out->capacity) {
        out->capacity = (out->size + size + 1) * 2;
        out->bytes = realloc(out->bytes, out->capacity);
        if (!out->bytes) fail("out of memory for", "text");
    }
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
    out->bytes[out->size] = 0;
}

static struct text read_file(const char *path)
{
    struct text text = { NULL, 0, 0 };
    char part[4096];
    size_t got;
    FILE *file = fopen(path, "rb");
    if (!file) fail("cannot open", path);
    append(&text, "", 0);
    while ((got = fread(part, 1, sizeof part, file)) > 0) append(&text, part, got);
    fclose(file);
    return text;
}

/* "dir/of/a.cl" + "../b.h" -> "dir/b.h": lexical, so that one file has one name. */
static void resolve(const char *from, const char *name, char *path)
{
    const char *slash = strrchr(from, '/');
    size_t length = slash ? (size_t)(slash - from) : 0;
    if (length + strlen(name) + 2 > MAX_PATH_LENGTH) fail("path too long:", name);
    memcpy(path, from, length);
    path[length] = 0;
    while (strncmp(name, "../", 3) == 0) {
        char *up = strrchr(path, '/');
        *(up ? up : path) = 0;
        name += 3;
    }
    if (path[0]) strcat(path, "/");
    strcat(path, name);
}

static int already_seen(const char *path)
{
    int i;
    for (i = 0; i < seen_count; i++)
        if (strcmp(seen[i], path) == 0) return 1;
    if (seen_count == MAX_FILES) fail("too many includes at", path);
    strcpy(seen[seen_count++], path);
    return 0;
}

static void inline_file(struct text *out, const char *path)
{
    struct text in;
    const char *line;
    if (already_seen(path)) return;
    in = read_file(path);
    for (line = in.bytes; *line;) {
        const char *end = strchr(line, '\n');
        size_t length = end ? (size_t)(end - line) + 1 : strlen(line);
        char name[256], target[MAX_PATH_LENGTH];
        if (sscanf(line, "#include \"%255[^\"]\"", name) == 1) {
            resolve(path, name, target);
            inline_file(out, target);
        } else {
            append(out, line, length);
        }
        line += length;
    }
    if (out->size && out->bytes[out->size - 1] != '\n') append(out, "\n", 1);
    free(in.bytes);
}

static void write_array(FILE *out, const char *symbol, const struct text *text)
{
    size_t i;
    fprintf(out, "extern const unsigned char %s[];\nconst unsigned char %s[] = {", symbol, symbol);
    for (i = 0; i < text->size; i++)
        fprintf(out, "%s%u,", i % 24 ? "" : "\n", (unsigned)(unsigned char)text->bytes[i]);
    fprintf(out, "\n0};\n");
}

static void write_incbin(FILE *out, const char *symbol, const char *path)
{
    fprintf(out,
            "__asm__(\".section .rodata\\n.balign 64\\n.globl %s\\n.hidden %s\\n%s:\\n\"\n"
            "        \".incbin \\\"%s\\\"\\n.byte 0\\n.text\\n\");\n",
            symbol, symbol, symbol, path);
}

int main(int argc, char **argv)
{
    struct text text = { NULL, 0, 0 };
    int inlining = argc > 1 && strcmp(argv[1], "--inline") == 0;
    const char *symbol, *input;
    FILE *out;
    argv += inlining;
    if (argc - inlining != 4) fail("usage:", "embed [--inline] SYMBOL INPUT OUTPUT");
    symbol = argv[1];
    input = argv[2];
    out = fopen(argv[3], "wb");
    if (!out) fail("cannot write", argv[3]);
    if (inlining) {
        append(&text, "", 0);
        inline_file(&text, input);
        write_array(out, symbol, &text);
    } else {
        text = read_file(input);
        write_incbin(out, symbol, input);
    }
    fprintf(out, "extern const unsigned long %s_size;\nconst unsigned long %s_size = %luul;\n", symbol, symbol,
            (unsigned long)text.size);
    if (fclose(out) != 0) fail("cannot write", argv[3]);
    free(text.bytes);
    return 0;
}
