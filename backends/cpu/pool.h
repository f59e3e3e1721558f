/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/pool.h: the thread pool of a CPU context: one parallel loop at a time.
 *
 * A loop whose pool already serves another thread, or that is short, runs in its caller alone, so that any number of
 * host threads may use one pool, also from inside of a loop. How a range is cut depends on timing: bodies must
 * compute each index independently of the others. */
#ifndef ADN_CPU_POOL_H
#define ADN_CPU_POOL_H
#include <stdint.h>

struct adn_pool;
typedef void (*adn_range_fn)(void *argument, int64_t first, int64_t last); /* indices first..last-1 */

/* A pool in which `threads` threads work, the caller included; fewer where the system grants fewer. NULL: memory. */
struct adn_pool *adn_pool_create(int threads);
void adn_pool_destroy(struct adn_pool *pool);
int adn_pool_threads(const struct adn_pool *pool);

/* Runs body over 0..count-1. `nanoseconds` is about what one index takes; it decides on threads and pieces. */
void adn_pool_for(struct adn_pool *pool, int64_t count, double nanoseconds, adn_range_fn body, void *argument);
#endif
