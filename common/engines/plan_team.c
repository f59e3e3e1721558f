/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_team.c: rows over teams of threads. See plan_team.h. */
#include "plan_team.h"

#include <stdio.h>

void adn_team_fill(const struct adn_walk *kept, const struct adn_walk *reduced, int tensors, struct adn_team_walk *team,
                   struct adn_strides *strides)
{
    const struct adn_walk *part[2];
    int i, k, t, rank = 0;
    part[0] = kept, part[1] = reduced;
    for (i = 0; i < 2; i++) {
        for (k = 0; k < part[i]->rank; k++, rank++) {
            team->size[rank] = adn_divisor_of(part[i]->size[k]);
            for (t = 0; t < tensors; t++) strides[t].stride[rank] = part[i]->stride[t][k];
        }
        if (i == 0) team->kept = rank;
    }
    team->rank = rank;
    team->rows = kept->count;
    team->length = reduced->count;
    team->narrow_rows = kept->count <= INT32_MAX;
    team->narrow_length = reduced->count <= INT32_MAX;
    team->lanes = kept->rank == 0 ||
                  (reduced->rank > 0 && reduced->stride[0][reduced->rank - 1] <= kept->stride[0][kept->rank - 1]);
}

static int power_above(int64_t n, int most)
{
    int power = 1;
    while (power < most && power < n) power *= 2;
    return power;
}

/* Neighbouring threads share a row: enough of them for whole memory lines, and for few elements each. Else rows lie
 * side by side: one thread each, unless that leaves most of the device idle. */
static int choose_parts(const struct adn_team_walk *team, bool by_length, int block, int each,
                        const struct adn_device *device)
{
    const int64_t wanted = (int64_t)(device->info.compute_units > 0 ? device->info.compute_units : 1) * 1024;
    int parts = 1;
    if (device->info.is_cpu) return 1;
    if (team->lanes || by_length) {
        const int line = power_above(team->length, 32);
        parts = power_above(team->length / each + (team->length % each != 0), block);
        return parts > line ? parts : line;
    }
    while (parts < block / 32 && team->rows * parts < wanted && (int64_t)parts * each < team->length) parts *= 2;
    while (parts < block && team->rows <= block / parts / 2 && (int64_t)parts * each < team->length) parts *= 2;
    return parts;
}

void adn_team_split(struct adn_team_walk *team, int parts, bool by_length, int block, int each,
                    const struct adn_device *device)
{
    int64_t rows;
    if (parts == 0) parts = choose_parts(team, by_length, block, each, device);
    if (parts > adn_team_most(block, device)) parts = adn_team_most(block, device);
    team->parts_log2 = 0;
    while ((1 << team->parts_log2) < parts) team->parts_log2++;
    rows = block >> team->parts_log2;
    team->groups = team->rows / rows + (team->rows % rows != 0);
}

/* Decimal number below 10000; 0 when there is none. */
static int number(const char **text)
{
    int n = 0;
    for (; **text >= '0' && **text <= '9' && n < 1000; (*text)++) n = n * 10 + (**text - '0');
    return n;
}

int adn_team_most(int block, const struct adn_device *device)
{
    return device->info.is_cpu ? 1 : block;
}

bool adn_team_parse(const char *text, int block, const struct adn_device *device, int *parts, int *splits)
{
    *parts = 0;
    if (splits) *splits = 0;
    if (!text || !text[0]) return true;
    *parts = number(&text);
    if (*parts < 1 || *parts > adn_team_most(block, device) || (*parts & (*parts - 1))) return false;
    if (splits && *text == 'x') {
        text++;
        *splits = number(&text);
        if (*splits < 1 || *splits > 256) return false;
    }
    return *text == 0;
}

bool adn_team_candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32])
{
    (void)p, (void)device;
    if (index < 0 || index > 8) return false;
    snprintf(params, 32, "%d", 1 << index);
    return true;
}
