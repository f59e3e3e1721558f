/* SPDX-License-Identifier: Apache-2.0
 * tests/fuzz/fuzz_tuning.c: libFuzzer target: arbitrary bytes as a tuning file. Each entry that is taken, written as a
 * line of its own, must be taken again and be the same. */
#include "common/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct want {
    const struct adn_tuned *tuned;
    const char *key;
    int taken;
};

static bool take_again(void *user, const struct adn_tuned *tuned, const char *key)
{
    struct want *want = user;
    want->taken++;
    return strcmp(tuned->engine, want->tuned->engine) == 0 && tuned->revision == want->tuned->revision &&
           tuned->ns == want->tuned->ns && strcmp(key, want->key) == 0;
}

static bool take(void *user, const struct adn_tuned *tuned, const char *key)
{
    static char line[ADN_TUNING_KEY + ADN_ENGINE_ID + 64];
    struct want want = { tuned, key, 0 };
    const int length = snprintf(line, sizeof line, "%s %lu %llu %s\n", tuned->engine, (unsigned long)tuned->revision,
                                (unsigned long long)tuned->ns, key);
    (*(size_t *)user)++;
    if (adn_tuning_parse(line, (size_t)length, take_again, &want) == 0 && want.taken == 1) return true;
    fprintf(stderr, "read differently a second time: %s", line);
    abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    size_t taken = 0;
    adn_tuning_parse(data, size, take, &taken);
    return 0;
}
