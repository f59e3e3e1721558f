/* SPDX-License-Identifier: Apache-2.0
 * bench/random.c: random cases from seeds, and smaller ones of those that fail. */
#include "random.h"

#include "values.h"
#include <anydnn/anydnn.h>

#include <string.h>

uint64_t random_seed_of(uint64_t seed, long index) { return index ? random_bits(seed, (uint64_t)index) >> 16 : seed; }

void random_line(struct choices *choices, char line[RANDOM_LINE]) { random_make(choices, false, 0, line); }

bool random_is_small(const char *line)
{
    anydnn_problem *problem = NULL;
    double flops = 0, bytes = 0;
    if (anydnn_problem_parse(line, &problem) != ANYDNN_OK) return true; /* the check will say why it is refused */
    anydnn_problem_cost(problem, &flops, &bytes, NULL);
    anydnn_problem_destroy(problem);
    return flops <= 1e6 && bytes <= 1e6;
}

/* Convolutions and products, which have the most engines, are drawn more often than the rest. */
static int op_of(uint64_t seed)
{
    static const int often[] = { ANYDNN_OP_CONV_FORWARD, ANYDNN_OP_CONV_BACKWARD_DATA, ANYDNN_OP_CONV_BACKWARD_FILTER,
                                 ANYDNN_OP_MATMUL };
    const int drawn = (int)(random_bits(~seed, 0) % (2 * ANYDNN_OP_ADAM));
    return drawn < ANYDNN_OP_ADAM ? drawn + 1 : often[drawn % 4];
}

void random_case(uint64_t seed, int op, struct choices *choices)
{
    char line[RANDOM_LINE];
    uint64_t attempt;
    for (attempt = 0; attempt < 50; attempt++) {
        choices->op = op ? op : op_of(seed);
        random_make(choices, true, random_bits(seed, attempt), line);
        if (random_is_small(line)) return;
    }
    choices->count = 0; /* the simplest line of all */
}

/* Tries one change; the old choices come back where the line does not fail with it. */
static bool try_change(struct choices *choices, const struct choices *changed,
                       bool (*fails)(void *user, const char *line), void *user, int *tries)
{
    struct choices next = *changed;
    char line[RANDOM_LINE], old[RANDOM_LINE];
    random_line(choices, old);
    random_line(&next, line);
    if (!strcmp(line, old) || !random_is_small(line) || --*tries < 0 || !fails(user, line)) return false;
    *choices = next;
    return true;
}

void random_shrink(struct choices *choices, bool (*fails)(void *user, const char *line), void *user)
{
    bool better = true;
    int tries = 400, i, span;
    while (better && tries > 0) {
        better = false;
        for (span = choices->count; span > 1; span /= 2) /* whole stretches to 0 */
            for (i = 0; i + span <= choices->count; i += span) {
                struct choices next = *choices;
                memset(next.choice + i, 0, (size_t)span * sizeof next.choice[0]);
                better = try_change(choices, &next, fails, user, &tries) || better;
            }
        for (i = 0; i < choices->count; i++) {
            struct choices next = *choices;
            int to;
            if (!next.choice[i]) continue;
            for (to = 0; to < 3; to++) {
                const int value = choices->choice[i];
                next.choice[i] = (unsigned short)(to == 0 ? 0 : to == 1 ? value / 2 : value - 1);
                if (try_change(choices, &next, fails, user, &tries)) break;
            }
            better = better || to < 3;
        }
    }
}
