/* SPDX-License-Identifier: Apache-2.0
 * bench/dataset.c: see dataset.h. Files are read whole, then checked before anything is believed of them.
 * IDX (LeCun et al., the MNIST database): big-endian 32-bit words: magic 0x00000800 + number of dims, then the dims,
 * then bytes. */
#include "dataset.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef ANYDNN_HAVE_ZLIB
#include <zlib.h>
#endif

enum { DIGIT_SIDE = 8, DIGIT_PIXELS = 64, DIGIT_LARGEST = 16, LARGEST_SIDE = 1024 };
static const size_t largest_file = (size_t)1 << 31;

struct bytes {
    unsigned char *data;
    size_t size;
};

static bool fail(struct dataset *data, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(data->error, sizeof data->error, format, arguments);
    va_end(arguments);
    return false;
}

#ifdef ANYDNN_HAVE_ZLIB
typedef gzFile source; /* reads plain files as well */
static source source_open(const char *path)
{
    return gzopen(path, "rb");
}
static long source_read(source file, void *to, unsigned size)
{
    return gzread(file, to, size);
}
static bool source_close(source file)
{
    return gzclose(file) == Z_OK;
}
#else
typedef FILE *source;
static source source_open(const char *path)
{
    return fopen(path, "rb");
}
static long source_read(source file, void *to, unsigned size)
{
    const size_t got = fread(to, 1, size, file);
    return ferror(file) ? -1 : (long)got;
}
static bool source_close(source file)
{
    return fclose(file) == 0;
}
#endif

static bool read_all(struct dataset *data, const char *path, source file, struct bytes *bytes)
{
    size_t capacity = 0;
    for (;;) {
        long got;
        if (bytes->size == capacity) {
            unsigned char *larger = capacity < largest_file ? realloc(bytes->data, capacity * 2 + 65536) : NULL;
            if (!larger) return fail(data, "%s: too large", path);
            bytes->data = larger;
            capacity = capacity * 2 + 65536;
        }
        got = source_read(file, bytes->data + bytes->size,
                          (unsigned)(capacity - bytes->size < 1 << 24 ? capacity - bytes->size : 1 << 24));
        if (got < 0) return fail(data, "%s: cannot be read: damaged", path);
        if (got == 0) return true;
        bytes->size += (size_t)got;
    }
}

static bool read_file(struct dataset *data, const char *path, struct bytes *bytes)
{
    bool good;
    source file = source_open(path);
    bytes->data = NULL;
    bytes->size = 0;
    if (!file) return fail(data, "%s: %s", path, strerror(errno));
    good = read_all(data, path, file, bytes);
    /* A compressed file that was cut off is only found out when it is closed. */
    if (!source_close(file) && good) good = fail(data, "%s: truncated", path);
    if (good && bytes->size > 2 && bytes->data[0] == 0x1f && bytes->data[1] == 0x8b)
        good = fail(data, "%s: compressed, and this program was built without zlib: unpack it with gunzip", path);
    if (!good) {
        free(bytes->data);
        bytes->data = NULL;
    }
    return good;
}

static bool set_create(struct dataset *data, digits_set *set, int count, int height, int width)
{
    set->images = malloc((size_t)count * height * width * sizeof *set->images + 1);
    set->labels = malloc((size_t)count * sizeof *set->labels + 1);
    set->count = count;
    set->height = height;
    set->width = width;
    return set->images && set->labels ? true : fail(data, "out of memory");
}

static void set_free(digits_set *set)
{
    free(set->images);
    free(set->labels);
    memset(set, 0, sizeof *set);
}

void dataset_free(struct dataset *data)
{
    set_free(&data->train);
    set_free(&data->test);
}

/* ---------------------------------------------------------------- CSV ----------------------------------------- */

static bool parse_csv(struct dataset *data, const char *path, const struct bytes *bytes, digits_set *all)
{
    const char *at = (const char *)bytes->data, *end = at + bytes->size;
    int lines = 0, row, column;
    const char *seek;
    for (seek = at; seek < end; seek++) lines += *seek == '\n';
    if (!set_create(data, all, lines, DIGIT_SIDE, DIGIT_SIDE)) return false;
    for (row = 0; row < lines; row++) {
        for (column = 0; column <= DIGIT_PIXELS; column++) {
            const int largest = column < DIGIT_PIXELS ? DIGIT_LARGEST : DIGITS_CLASSES - 1;
            int value = 0, digits = 0;
            for (; at < end && *at >= '0' && *at <= '9' && digits < 4; at++, digits++) value = value * 10 + (*at - '0');
            if (column == DIGIT_PIXELS && at < end && *at == '\r') at++;
            if (digits == 0 || value > largest || at == end || *at != (column < DIGIT_PIXELS ? ',' : '\n'))
                return fail(data,
                            "%s:%d: field %d: accepted: 64 whole numbers 0..16 and a digit 0..9, separated by ','",
                            path, row + 1, column + 1);
            at++;
            if (column < DIGIT_PIXELS)
                all->images[(size_t)row * DIGIT_PIXELS + column] = (float)value / DIGIT_LARGEST;
            else
                all->labels[row] = value;
        }
    }
    if (at != end) return fail(data, "%s: the last line has no end: truncated", path);
    return lines >= 2 * DIGITS_CLASSES ? true : fail(data, "%s: %d lines: too few", path, lines);
}

/* How many test images each digit gives: 30 % in all, the rounding to those who lost most by it. */
static void share_out(const digits_set *all, int test_count, int quota[DIGITS_CLASSES])
{
    int64_t rest[DIGITS_CLASSES];
    int count[DIGITS_CLASSES] = { 0 }, given = 0, i;
    for (i = 0; i < all->count; i++) count[all->labels[i]]++;
    for (i = 0; i < DIGITS_CLASSES; i++) {
        quota[i] = (int)((int64_t)test_count * count[i] / all->count);
        rest[i] = (int64_t)test_count * count[i] % all->count;
        given += quota[i];
    }
    while (given < test_count) {
        int largest = 0;
        for (i = 1; i < DIGITS_CLASSES; i++)
            if (rest[i] > rest[largest]) largest = i;
        rest[largest] = -1;
        quota[largest]++;
        given++;
    }
}

static bool split(struct dataset *data, const digits_set *all, uint64_t seed)
{
    const int test_count = (int)(((int64_t)all->count * 3 + 9) / 10), pixels = all->height * all->width;
    int quota[DIGITS_CLASSES], filled[2] = { 0, 0 }, i;
    int *order = malloc((size_t)all->count * sizeof *order);
    uint64_t random = seed ^ 0x73706c6974u;
    bool good = order && set_create(data, &data->test, test_count, all->height, all->width) &&
                set_create(data, &data->train, all->count - test_count, all->height, all->width);
    if (good) {
        share_out(all, test_count, quota);
        digits_shuffle(order, all->count, &random);
        for (i = 0; i < all->count; i++) {
            const int label = all->labels[order[i]], is_test = quota[label] > 0;
            digits_set *set = is_test ? &data->test : &data->train;
            const int place = filled[is_test]++;
            quota[label] -= is_test;
            memcpy(set->images + (size_t)place * pixels, all->images + (size_t)order[i] * pixels,
                   (size_t)pixels * sizeof *set->images);
            set->labels[place] = label;
        }
    }
    free(order);
    return good ? true : fail(data, "out of memory");
}

bool dataset_read_digits(const char *path, uint64_t seed, struct dataset *data)
{
    struct bytes bytes;
    digits_set all = { 0 };
    bool good;
    memset(data, 0, sizeof *data);
    if (!read_file(data, path, &bytes)) return false;
    good = parse_csv(data, path, &bytes, &all) && split(data, &all, seed);
    free(bytes.data);
    set_free(&all);
    if (!good) dataset_free(data);
    return good;
}

/* ---------------------------------------------------------------- IDX ----------------------------------------- */

static uint32_t word_at(const struct bytes *bytes, int index)
{
    const unsigned char *b = bytes->data + 4 * index;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Reads FOLDER/NAME or FOLDER/NAME.gz and checks that it is an IDX file of `dims` dimensions and whole. */
static bool read_idx(struct dataset *data, const char *folder, const char *name, int dims, char *path, size_t path_size,
                     struct bytes *bytes)
{
    const uint32_t magic = 0x800u + (uint32_t)dims;
    uint64_t expected = 1;
    FILE *plain;
    int i;
    snprintf(path, path_size, "%s/%s", folder, name);
    plain = fopen(path, "rb");
    if (plain)
        fclose(plain);
    else
        snprintf(path, path_size, "%s/%s.gz", folder, name);
    if (!read_file(data, path, bytes)) return false;
    if (bytes->size < 4 * (size_t)(dims + 1))
        return fail(data, "%s: %zu bytes: too short for its header", path, bytes->size);
    if (word_at(bytes, 0) != magic)
        return fail(data, "%s: magic number 0x%08x; accepted: 0x%08x", path, word_at(bytes, 0), magic);
    for (i = 1; i <= dims; i++) {
        const uint32_t size = word_at(bytes, i), largest = i == 1 ? 10000000 : LARGEST_SIDE, least = i == 1 ? 1 : 4;
        if (size < least || size > largest)
            return fail(data, "%s: size %d is %u; accepted: %u..%u", path, i, size, least, largest);
        expected *= size;
    }
    expected += 4 * (uint64_t)(dims + 1);
    if (bytes->size != expected)
        return fail(data, "%s: %zu bytes, its header promises %llu: %s", path, bytes->size,
                    (unsigned long long)expected, bytes->size < expected ? "truncated" : "not an IDX file");
    return true;
}

static bool fill_set(struct dataset *data, digits_set *set, const struct bytes *images, const struct bytes *labels,
                     const char *images_path, const char *labels_path)
{
    const size_t header = 16;
    size_t i, pixels;
    if (word_at(images, 1) != word_at(labels, 1))
        return fail(data, "%s has %u labels, %s has %u images", labels_path, word_at(labels, 1), images_path,
                    word_at(images, 1));
    if (!set_create(data, set, (int)word_at(images, 1), (int)word_at(images, 2), (int)word_at(images, 3))) return false;
    pixels = (size_t)set->count * set->height * set->width;
    for (i = 0; i < pixels; i++) set->images[i] = images->data[header + i] / 255.0f;
    for (i = 0; i < (size_t)set->count; i++) {
        set->labels[i] = labels->data[8 + i];
        if (set->labels[i] >= DIGITS_CLASSES)
            return fail(data, "%s: label %zu is %d; accepted: 0..9", labels_path, i, set->labels[i]);
    }
    return true;
}

static bool read_set(struct dataset *data, const char *folder, const char *prefix, digits_set *set)
{
    char image_name[64], label_name[64], image_path[1024], label_path[1024];
    struct bytes images = { NULL, 0 }, labels = { NULL, 0 };
    bool good;
    snprintf(image_name, sizeof image_name, "%s-images-idx3-ubyte", prefix);
    snprintf(label_name, sizeof label_name, "%s-labels-idx1-ubyte", prefix);
    good = read_idx(data, folder, image_name, 3, image_path, sizeof image_path, &images) &&
           read_idx(data, folder, label_name, 1, label_path, sizeof label_path, &labels) &&
           fill_set(data, set, &images, &labels, image_path, label_path);
    free(images.data);
    free(labels.data);
    return good;
}

bool dataset_read_mnist(const char *folder, struct dataset *data)
{
    bool good;
    memset(data, 0, sizeof *data);
    good = read_set(data, folder, "train", &data->train) && read_set(data, folder, "t10k", &data->test);
    if (good && (data->train.height != data->test.height || data->train.width != data->test.width))
        good = fail(data, "%s: training images are %dx%d, test images %dx%d", folder, data->train.height,
                    data->train.width, data->test.height, data->test.width);
    if (!good) dataset_free(data);
    return good;
}
