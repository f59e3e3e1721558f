/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/cache.c: compiled programs kept on disk, bounded to 256 MiB by oldest use. */
#include "cache.h"

#include "common/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = { 'A', 'D', 'N', 'C', 'L', 'B', 'I', 'N' };
static const uint64_t byte_limit = (uint64_t)256 << 20;
static const char suffix[] = ".adncl";

/* ---- Bytes. ---- */

void adn_cache_key_init(struct adn_cache_key *key)
{
    key->first = 0xcbf29ce484222325u;
    key->second = 0x9e3779b97f4a7c15u;
}

static void mix(struct adn_cache_key *key, unsigned char byte)
{
    key->first = (key->first ^ byte) * 0x100000001b3u; /* FNV-1a */
    key->second = (key->second + byte + 1) * 0xd6e8feb86659fd93u;
    key->second ^= key->second >> 32;
}

void adn_cache_key_add(struct adn_cache_key *key, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t length = size;
    size_t i;
    for (i = 0; i < size; i++) mix(key, at[i]);
    for (i = 0; i < 8; i++) mix(key, (unsigned char)(length >> (8 * i)));
}

static uint64_t checksum(const unsigned char *bytes, size_t size)
{
    struct adn_cache_key sum;
    adn_cache_key_init(&sum);
    adn_cache_key_add(&sum, bytes, size);
    return sum.second ^ (sum.first << 1);
}

static void put(unsigned char *at, uint64_t value, int bytes)
{
    int i;
    for (i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *at, int bytes)
{
    uint64_t value = 0;
    int i;
    for (i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

unsigned char *adn_cache_pack(const struct adn_cache_key *key, const void *payload, size_t size, size_t *packed)
{
    unsigned char *file = size <= SIZE_MAX - ADN_CACHE_HEADER ? malloc(ADN_CACHE_HEADER + size) : NULL;
    if (!file) return NULL;
    memcpy(file, magic, 8);
    put(file + 8, ADN_CACHE_FORMAT, 4);
    put(file + 12, 0, 4);
    put(file + 16, key->first, 8);
    put(file + 24, key->second, 8);
    put(file + 32, size, 8);
    put(file + 40, checksum(payload, size), 8);
    if (size) memcpy(file + ADN_CACHE_HEADER, payload, size);
    *packed = ADN_CACHE_HEADER + size;
    return file;
}

bool adn_cache_unpack(const struct adn_cache_key *key, const void *file, size_t size, const unsigned char **payload,
                      size_t *payload_size)
{
    const unsigned char *at = file;
    if (size <= ADN_CACHE_HEADER) return false; /* an empty payload is no program */
    if (memcmp(at, magic, 8) != 0 || get(at + 8, 4) != ADN_CACHE_FORMAT || get(at + 12, 4) != 0) return false;
    if (get(at + 16, 8) != key->first || get(at + 24, 8) != key->second) return false;
    if (get(at + 32, 8) != size - ADN_CACHE_HEADER) return false;
    if (get(at + 40, 8) != checksum(at + ADN_CACHE_HEADER, size - ADN_CACHE_HEADER)) return false;
    *payload = at + ADN_CACHE_HEADER;
    *payload_size = size - ADN_CACHE_HEADER;
    return true;
}

/* ---- Folder. ---- */

enum { FOLDER_LENGTH = 2048, PATH_LENGTH = FOLDER_LENGTH + 64 };
static adn_once folder_once;
static char folder[FOLDER_LENGTH]; /* "" = no cache */

static void find_folder(void)
{
    const char *wanted = adn_environment("ANYDNN_CACHE_DIR");
    char base[FOLDER_LENGTH - 16];
    if (wanted && strlen(wanted) < sizeof folder)
        snprintf(folder, sizeof folder, "%s", wanted);
    else if (!wanted && adn_cache_folder(base, sizeof base))
        snprintf(folder, sizeof folder, "%s/opencl", base);
}

void adn_cache_configure(void)
{
    adn_run_once(&folder_once, find_folder);
}

static bool path_of(const struct adn_cache_key *key, char path[PATH_LENGTH])
{
    adn_cache_configure();
    if (!folder[0]) return false;
    snprintf(path, PATH_LENGTH, "%s/%016llx%016llx%s", folder, (unsigned long long)key->first,
             (unsigned long long)key->second, suffix);
    return true;
}

unsigned char *adn_cache_load(const struct adn_cache_key *key, size_t *size)
{
    char path[PATH_LENGTH];
    const unsigned char *payload;
    unsigned char *file;
    size_t file_size;
    if (!path_of(key, path) || (file = adn_file_read(path, byte_limit, &file_size)) == NULL) return NULL;
    if (!adn_cache_unpack(key, file, file_size, &payload, size)) {
        adn_file_remove(path);
        free(file);
        return NULL;
    }
    adn_file_touch(path);
    memmove(file, payload, *size);
    return file;
}

struct census {
    uint64_t bytes;
    int64_t oldest_age;
    char oldest[PATH_LENGTH];
};

/* The folder may be the user's own: only our files count, those of an interrupted write included. */
static void count_file(void *user, const char *path, uint64_t bytes, int64_t age)
{
    struct census *census = user;
    if (!strstr(path + strlen(folder), suffix) || strlen(path) >= sizeof census->oldest) return;
    census->bytes += bytes;
    if (age <= census->oldest_age) return;
    census->oldest_age = age;
    snprintf(census->oldest, sizeof census->oldest, "%s", path);
}

static void trim(void)
{
    for (;;) {
        struct census census = { 0, -1, "" };
        adn_folder_visit(folder, count_file, &census);
        if (census.bytes <= byte_limit || !census.oldest[0]) return;
        adn_file_remove(census.oldest);
    }
}

void adn_cache_store(const struct adn_cache_key *key, const void *payload, size_t size)
{
    char path[PATH_LENGTH];
    unsigned char *file;
    size_t packed;
    if (!size || size > byte_limit / 4 || !path_of(key, path) || !adn_folder_make(folder)) return;
    file = adn_cache_pack(key, payload, size, &packed);
    if (file && adn_file_write(path, file, packed)) trim();
    free(file);
}

void adn_cache_drop(const struct adn_cache_key *key)
{
    char path[PATH_LENGTH];
    if (path_of(key, path)) adn_file_remove(path);
}
