/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_opencl_cache.c: files of the program cache: what was packed unpacks, and nothing else does. */
#include <stdio.h>

#if !defined(ADN_WITH_OPENCL)
int main(void)
{
    printf("OpenCL is not in this build\n0 passed, 0 failed, 1 skipped\n");
    return 77;
}
#else
#include "backends/opencl/cache.h"

#include <stdlib.h>
#include <string.h>

static int passed, failed;

static void expect(bool good, const char *what, size_t at)
{
    if (good) {
        passed++;
    } else {
        failed++;
        printf("FAILED %s (%zu)\n", what, at);
    }
}

static struct adn_cache_key key_of(const char *text)
{
    struct adn_cache_key key;
    adn_cache_key_init(&key);
    adn_cache_key_add(&key, text, strlen(text));
    return key;
}

/* Unpacks a copy of exactly `size` bytes, so that a memory checker sees any read behind it. */
static bool unpacks(const struct adn_cache_key *key, const unsigned char *file, size_t size)
{
    const unsigned char *payload = NULL;
    size_t payload_size = 0;
    unsigned char *copy = malloc(size ? size : 1);
    bool good;
    if (!copy) return false;
    if (size) memcpy(copy, file, size);
    good = adn_cache_unpack(key, copy, size, &payload, &payload_size);
    if (good) good = payload >= copy && payload + payload_size == copy + size;
    free(copy);
    return good;
}

static void test_round_trip(void)
{
    static const size_t sizes[] = { 1, 2, 47, 48, 49, 4096, 100001 };
    struct adn_cache_key key = key_of("a");
    size_t i, j;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *payload = malloc(sizes[i]), *file;
        const unsigned char *back;
        size_t packed = 0, back_size = 0;
        for (j = 0; j < sizes[i]; j++) payload[j] = (unsigned char)(j * 31 + i);
        file = adn_cache_pack(&key, payload, sizes[i], &packed);
        expect(file && packed == sizes[i] + ADN_CACHE_HEADER, "packs", sizes[i]);
        expect(adn_cache_unpack(&key, file, packed, &back, &back_size) && back_size == sizes[i] &&
                   memcmp(back, payload, sizes[i]) == 0,
               "unpacks what was packed", sizes[i]);
        free(file);
        free(payload);
    }
}

static void test_damage(void)
{
    static const unsigned char payload[] = "a program for some device, long enough to be damaged in many places";
    struct adn_cache_key key = key_of("a"), other = key_of("b");
    size_t i, packed = 0;
    unsigned bit;
    unsigned char *file = adn_cache_pack(&key, payload, sizeof payload, &packed);
    expect(unpacks(&key, file, packed), "unpacks", 0);
    expect(!unpacks(&other, file, packed), "refuses another key", 0);
    expect(!unpacks(&key, file, 0), "refuses an empty file", 0);
    for (i = 0; i < packed; i++) expect(!unpacks(&key, file, i), "refuses a truncated file", i);
    for (i = 0; i < packed; i++) {
        for (bit = 0; bit < 8; bit++) {
            file[i] ^= (unsigned char)(1u << bit);
            expect(!unpacks(&key, file, packed), "refuses a flipped bit", i * 8 + bit);
            file[i] ^= (unsigned char)(1u << bit);
        }
    }
    for (i = 32; i < 40; i++) {
        unsigned char old = file[i];
        file[i] = 0xff;
        expect(!unpacks(&key, file, packed), "refuses a huge length", i);
        file[i] = old;
    }
    memset(file + 32, 0xff, 8);
    expect(!unpacks(&key, file, packed), "refuses the largest length", 0);
    free(file);
}

static void test_longer_and_empty(void)
{
    struct adn_cache_key key = key_of("a");
    unsigned char longer[ADN_CACHE_HEADER + 8] = { 0 }, *file;
    size_t packed = 0;
    file = adn_cache_pack(&key, "1234567", 7, &packed);
    memcpy(longer, file, packed);
    expect(!unpacks(&key, longer, packed + 1), "refuses a file with a tail", 0);
    free(file);
    file = adn_cache_pack(&key, "", 0, &packed);
    expect(file && packed == ADN_CACHE_HEADER && !unpacks(&key, file, packed), "refuses an empty payload", 0);
    free(file);
}

static void test_random_bytes(void)
{
    struct adn_cache_key key = key_of("a");
    unsigned char bytes[200];
    uint32_t state = 1;
    size_t i, round;
    for (round = 0; round < 2000; round++) {
        for (i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)((state = state * 1664525u + 1013904223u) >> 24);
        if (round % 2) memcpy(bytes, "ADNCLBIN\1\0\0\0\0\0\0\0", 16);
        if (unpacks(&key, bytes, round % sizeof bytes)) break;
    }
    expect(round == 2000, "refuses random bytes", round);
}

static void test_keys(void)
{
    struct adn_cache_key joined, split, same = key_of("source");
    adn_cache_key_init(&joined);
    adn_cache_key_init(&split);
    adn_cache_key_add(&joined, "ab", 2);
    adn_cache_key_add(&joined, "c", 1);
    adn_cache_key_add(&split, "a", 1);
    adn_cache_key_add(&split, "bc", 2);
    expect(joined.first != split.first && joined.second != split.second, "parts are separated", 0);
    expect(same.first == key_of("source").first && same.second == key_of("source").second, "keys repeat", 0);
    expect(same.first != key_of("sourcf").first && same.second != key_of("sourcf").second, "keys differ", 0);
}

int main(void)
{
    test_round_trip();
    test_damage();
    test_longer_and_empty();
    test_random_bytes();
    test_keys();
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
#endif
