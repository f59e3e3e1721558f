/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/cache.h: compiled programs kept on disk. A file is
 *     magic (8 bytes), format (4), zero (4), key (16), payload length (8), checksum of the payload (8), payload
 * in little-endian order. Some drivers crash on a damaged binary, so a file's length and checksum are verified before
 * the driver sees a byte of it. The first half is pure functions of bytes. */
#ifndef ADN_OPENCL_CACHE_H
#define ADN_OPENCL_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ADN_CACHE_FORMAT = 1, ADN_CACHE_HEADER = 48 };

/* What a file is found by: two independent 64-bit hashes of everything that the binary depends on. */
struct adn_cache_key {
    uint64_t first, second;
};
void adn_cache_key_init(struct adn_cache_key *key);
/* Adds one part; parts are separated, so that ("ab", "c") and ("a", "bc") differ. */
void adn_cache_key_add(struct adn_cache_key *key, const void *bytes, size_t size);

/* A file's bytes in malloc'ed memory; NULL when out of memory. */
unsigned char *adn_cache_pack(const struct adn_cache_key *key, const void *payload, size_t size, size_t *packed);
/* True when the bytes are a whole, undamaged file of this key: then *payload points into them. */
bool adn_cache_unpack(const struct adn_cache_key *key, const void *file, size_t size, const unsigned char **payload,
                      size_t *payload_size);

/* The folder: $ANYDNN_CACHE_DIR (empty = no cache), else the user's cache folder + "/opencl". Never fails: a folder
 * that cannot be used means no cache. A damaged file is removed. */
/* Reads the environment, once in the process; the others call it too. */
void adn_cache_configure(void);
/* Payload in malloc'ed memory; NULL when there is none. */
unsigned char *adn_cache_load(const struct adn_cache_key *key, size_t *size);
void adn_cache_store(const struct adn_cache_key *key, const void *payload, size_t size);
void adn_cache_drop(const struct adn_cache_key *key);
#endif
