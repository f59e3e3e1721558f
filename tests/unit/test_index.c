/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_index.c: index math and geometry without a device: division by constants, Philox against the
 * published vectors, walks, overlap proofs, output sizes. */
#include "common/index/philox.h"
#include "common/index/walk.h"
#include "common/ops/rules.h"
#include "unit.h"

static void division(void)
{
    static const int64_t divisors[] = { 1, 2, 3, 5, 7, 10, 31, 32, 33, 641, 65535, 65536, 65537, 1000003,
                                        1073741823, 1073741824, 1073741825, 2147483646, 2147483647 };
    static const int64_t numbers[] = { 0, 1, 2, 3, 6, 7, 8, 63, 64, 65534, 65535, 65536, 1000002, 1000003, 1000004,
                                       1073741823, 1073741824, 2147483645, 2147483646, 2147483647 };
    size_t i, j;
    for (i = 0; i < sizeof divisors / sizeof divisors[0]; i++) {
        const struct adn_divisor d = adn_divisor_of(divisors[i]);
        bool good = true;
        int64_t n, r;
        for (j = 0; j < sizeof numbers / sizeof numbers[0]; j++)
            good = good && adn_divide(numbers[j], d, 1, &r) == numbers[j] / divisors[i] && r == numbers[j] % divisors[i];
        for (n = 1; n < 2147483647; n = n * 5 / 3 + 1)
            good = good && adn_divide(n, d, 1, &r) == n / divisors[i] && r == n % divisors[i];
        CHECK(good);
        CHECK(adn_divide((int64_t)1 << 40, d, 0, &r) == ((int64_t)1 << 40) / divisors[i]);
    }
}

/* Known answers of Philox4x32-10 from the generator's published test vectors. */
static void philox(void)
{
    struct adn_philox r = adn_philox4x32(0, 0, 0);
    CHECK(r.word[0] == 0x6627e8d5u && r.word[1] == 0xe169c58du && r.word[2] == 0xbc57ac4cu && r.word[3] == 0x9b00dbd8u);
    r = adn_philox4x32(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    CHECK(r.word[0] == 0x408f276du && r.word[1] == 0x41c83b0eu && r.word[2] == 0xa20bc7c6u && r.word[3] == 0x6d5451fdu);
    r = adn_philox4x32(0x85a308d3243f6a88ull, 0x0370734413198a2eull, 0x299f31d0a4093822ull);
    CHECK(r.word[0] == 0xd16cfe09u && r.word[1] == 0x94fdccebu && r.word[2] == 0x5001e420u && r.word[3] == 0x24126ea1u);
}

static void walks(void)
{
    const anydnn_tensor nchw = anydnn_tensor_nchw(ANYDNN_F32, 2, 3, 4, 5), nhwc = anydnn_tensor_nhwc(ANYDNN_F32, 2, 3, 4, 5);
    const anydnn_tensor bias = anydnn_tensor_nchw(ANYDNN_F32, 1, 3, 1, 1);
    const anydnn_tensor *two[2];
    struct adn_walk walk;
    two[0] = &nchw, two[1] = &nchw;
    adn_walk_init(&walk, &nchw, ~0u, 2, two, true);
    CHECK(walk.rank == 1 && walk.count == 120 && walk.size[0] == 120 && walk.stride[1][0] == 1);
    two[0] = two[1] = &nhwc;
    adn_walk_init(&walk, &nhwc, ~0u, 2, two, false);
    CHECK(walk.rank == 1 && walk.size[0] == 120);
    adn_walk_init(&walk, &nhwc, ~0u, 2, two, true);
    CHECK(walk.rank == 3 && walk.size[0] == 2 && walk.size[1] == 3 && walk.size[2] == 20 && walk.stride[0][2] == 3);
    two[0] = &nchw, two[1] = &bias;
    adn_walk_init(&walk, &nchw, ~0u, 2, two, true);
    CHECK(walk.rank == 3 && walk.stride[1][0] == 0 && walk.stride[1][1] == 1 && walk.stride[1][2] == 0);
    adn_walk_init(&walk, &bias, ~0u & ~2u, 1, two + 1, true);
    CHECK(walk.rank == 0 && walk.count == 1);
}

static void overlaps(void)
{
    const anydnn_tensor half = { ANYDNN_F32, 4, 0, 0, { 2, 4, 3, 3 }, { 72, 1, 24, 8 }, { 0 } }; /* 4 of 8 NHWC channels */
    const anydnn_tensor row = anydnn_tensor_1d(ANYDNN_F32, 10);
    CHECK(!adn_may_overlap(&half, 0, &half, 16));  /* channels 0..3 and 4..7 of one buffer */
    CHECK(adn_may_overlap(&half, 0, &half, 12));
    CHECK(adn_may_overlap(&half, 0, &half, 0));
    CHECK(!adn_may_overlap(&row, 0, &row, 40));
    CHECK(adn_may_overlap(&row, 0, &row, 36));
    CHECK(!adn_may_overlap(&row, 4096, &row, 0));
}

static void windows(void)
{
    CHECK(adn_window_count(4, 0, 3, 2, 2) == 0);   /* floor towards minus infinity, not 1 */
    CHECK(adn_window_count(5, 0, 3, 2, 2) == 1);
    CHECK(adn_window_count(224, 6, 7, 2, 1) == 112);
    CHECK(adn_window_count(1, 0, 64, 1, 1) < 1);
    CHECK(adn_window_count(7, 0, 1, 5, 1) == 2);
    CHECK(adn_window_count(INT64_MAX / 8, 0, INT64_MAX / 8, 1, 1) == 1);
    CHECK(adn_window_count(10, 0, INT64_MAX / 4, 1, INT64_MAX / 4) == -1);
}

int main(void)
{
    division();
    philox();
    walks();
    overlaps();
    windows();
    return unit_end();
}
