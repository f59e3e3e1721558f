/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/fuzz_opencl_cache.c: libFuzzer target: arbitrary bytes as a file of the program cache, and the same bytes as
 * a payload: packed they must come back, and with any one byte changed be refused. */
#include "backends/opencl/cache.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void must(bool good)
{
    if (!good) abort();
}

static void whole_and_damaged(const struct adn_cache_key *key, const unsigned char *data, size_t size)
{
    const unsigned char *payload = NULL;
    size_t packed = 0, length = 0;
    unsigned char *file = adn_cache_pack(key, data, size, &packed);
    if (!file) return;
    must(adn_cache_unpack(key, file, packed, &payload, &length) && length == size && !memcmp(payload, data, size));
    must(!adn_cache_unpack(key, file, packed - 1, &payload, &length));
    file[(data[0] | (size_t)data[size - 1] << 8) % packed] ^= (unsigned char)(1u << data[size / 2] % 8);
    must(!adn_cache_unpack(key, file, packed, &payload, &length));
    free(file);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static const struct adn_cache_key key = { 1, 2 };
    const unsigned char *payload = NULL;
    size_t length = 0;
    if (adn_cache_unpack(&key, data, size, &payload, &length))
        must(payload >= data && length > 0 && length <= size && payload - data <= (ptrdiff_t)(size - length));
    if (size) whole_and_damaged(&key, data, size);
    return 0;
}
