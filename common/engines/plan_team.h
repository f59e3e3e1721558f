/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_team.h: lays rows out over teams of threads (team_params.h). */
#ifndef ADN_PLAN_TEAM_H
#define ADN_PLAN_TEAM_H
#include "plan_walk.h"
#include "team_params.h"

/* Fills sizes, counts and the strides of `tensors` tensors from a walk over the kept axes and one over the reduced
 * axes, and whether the threads of a team are neighbours (tensor 0 decides). Strides: kept dims, then reduced dims. */
void adn_team_fill(const struct adn_walk *kept, const struct adn_walk *reduced, int tensors, struct adn_team_walk *team,
                   struct adn_strides *strides);

/* Sets parts and groups: `parts` threads for a row where it is not 0 (cut to the block), else as many as the row's
 * length and the number of rows want, or with by_length the length alone. `each` = elements that a thread takes at once. */
void adn_team_split(struct adn_team_walk *team, int parts, bool by_length, int block, int each,
                    const struct adn_device *device);

/* Reads an engine's parameter text: "PARTS", or "PARTSxSPLITS" where splits is not NULL. Both become 0 for NULL (the
 * engine's own choice). False unless parts is a power of two up to adn_team_most and splits 1 to 256. */
bool adn_team_parse(const char *text, int block, const struct adn_device *device, int *parts, int *splits);

/* The parameter texts "1", "2", "4", ... of engines that have PARTS alone. */
bool adn_team_candidate(const struct adn_problem *p, const struct adn_device *device, int index, char params[32]);

/* Most parts of a team: the block; 1 on a CPU behind OpenCL, whose kernels join nothing (team.clh). */
int adn_team_most(int block, const struct adn_device *device);
#endif
