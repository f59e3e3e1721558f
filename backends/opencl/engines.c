/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/engines.c: the engines that OpenCL alone has; the shared ones follow behind them. */
#include "internal.h"

extern const struct adn_engine adn_matmul_clblast;

const struct adn_engine *const adn_cl_engines[] = { &adn_matmul_clblast, NULL };
