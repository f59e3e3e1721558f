/* SPDX-License-Identifier: Apache-2.0
 * common/index/philox.h: Philox4x32-10, a counter-based random generator: four 32-bit words from a 128-bit counter
 * and a 64-bit key. Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011. */
#ifndef ADN_INDEX_PHILOX_H
#define ADN_INDEX_PHILOX_H
#include "lang.h"

struct adn_philox {
    adn_u32 word[4];
};

/* Words of counter {low, high} (each 64 bits) under key. */
ADN_FN struct adn_philox adn_philox4x32(adn_u64 counter_low, adn_u64 counter_high, adn_u64 key)
{
    struct adn_philox r;
    adn_u32 c0 = (adn_u32)counter_low, c1 = (adn_u32)(counter_low >> 32);
    adn_u32 c2 = (adn_u32)counter_high, c3 = (adn_u32)(counter_high >> 32);
    adn_u32 k0 = (adn_u32)key, k1 = (adn_u32)(key >> 32);
    adn_i32 round;
    for (round = 0; round < 10; round++) {
        const adn_u32 high0 = ADN_MULHI(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const adn_u32 high1 = ADN_MULHI(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    r.word[0] = c0, r.word[1] = c1, r.word[2] = c2, r.word[3] = c3;
    return r;
}
#endif
