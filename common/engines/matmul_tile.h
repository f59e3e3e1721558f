/* SPDX-License-Identifier: Apache-2.0
 * common/engines/matmul_tile.h: engine matmul_tile for other engines, which write their problem as a product. */
#ifndef ADN_MATMUL_TILE_H
#define ADN_MATMUL_TILE_H
#include "common/backend.h"

extern const struct adn_engine adn_engine_matmul_tile;

/* Its plan, appended to steps that are there, for more than the operation MATMUL allows: the bias may have y's size in
 * any axis; with `raw`, y is f32 whatever the dtype of a and b, and takes the bare sums, without alpha, bias and beta.
 */
bool adn_matmul_tile_plan(const struct adn_problem *p, const struct adn_device *device, const char *params, bool raw,
                          struct adn_engine_plan *plan, struct adn_refusal *why);

#endif
