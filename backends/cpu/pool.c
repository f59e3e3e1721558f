/* SPDX-License-Identifier: Apache-2.0
 * backends/cpu/pool.c: the thread pool: workers sleep on a condition, join the open loop and take pieces of its range
 * from an atomic counter. The caller works too, closes the loop when the range is used up and waits only for those
 * workers that joined. Limits: none but memory. */
#include "pool.h"
#include "common/os.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Below this a loop is not worth waking anybody; a piece should last at least a quarter of it. */
static const double worthwhile_ns = 40000;

struct adn_pool {
    adn_mutex *busy; /* held by the thread whose loop the workers serve */
    adn_mutex *lock; /* guards what follows, but for next */
    adn_condition *wake, *idle;
    uint64_t generation;
    int active; /* workers inside of the loop */
    bool open, stop;
    adn_range_fn body;
    void *argument;
    int64_t count, piece;
    atomic_llong next;
    int workers;
    adn_thread **worker;
};

static void take_pieces(struct adn_pool *pool)
{
    for (;;) {
        int64_t first = atomic_fetch_add_explicit(&pool->next, pool->piece, memory_order_relaxed);
        if (first >= pool->count) return;
        pool->body(pool->argument, first, pool->count - first > pool->piece ? first + pool->piece : pool->count);
    }
}

static void work(void *argument)
{
    struct adn_pool *pool = argument;
    uint64_t seen = 0;
    adn_mutex_lock(pool->lock);
    while (!pool->stop) {
        if (!pool->open || seen == pool->generation) {
            adn_condition_wait(pool->wake, pool->lock);
            continue;
        }
        seen = pool->generation;
        pool->active++;
        adn_mutex_unlock(pool->lock);
        take_pieces(pool);
        adn_mutex_lock(pool->lock);
        if (--pool->active == 0) adn_condition_signal_all(pool->idle);
    }
    adn_mutex_unlock(pool->lock);
}

struct adn_pool *adn_pool_create(int threads)
{
    struct adn_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->busy = adn_mutex_create();
    pool->lock = adn_mutex_create();
    pool->wake = adn_condition_create();
    pool->idle = adn_condition_create();
    pool->worker = calloc(threads > 1 ? (size_t)threads : 1, sizeof *pool->worker);
    if (!pool->busy || !pool->lock || !pool->wake || !pool->idle || !pool->worker) {
        adn_pool_destroy(pool);
        return NULL;
    }
    while (pool->workers < threads - 1) {
        adn_thread *thread = adn_thread_start(work, pool);
        if (!thread) break;
        pool->worker[pool->workers++] = thread;
    }
    return pool;
}

void adn_pool_destroy(struct adn_pool *pool)
{
    int i;
    if (!pool) return;
    if (pool->workers) {
        adn_mutex_lock(pool->lock);
        pool->stop = true;
        adn_condition_signal_all(pool->wake);
        adn_mutex_unlock(pool->lock);
        for (i = 0; i < pool->workers; i++) adn_thread_join(pool->worker[i]);
    }
    if (pool->idle) adn_condition_destroy(pool->idle);
    if (pool->wake) adn_condition_destroy(pool->wake);
    adn_mutex_destroy(pool->lock);
    adn_mutex_destroy(pool->busy);
    free(pool->worker);
    free(pool);
}

int adn_pool_threads(const struct adn_pool *pool)
{
    return pool->workers + 1;
}

/* Four pieces for each thread even out their speeds, unless the pieces would be too short. */
static int64_t piece_of(int64_t count, double nanoseconds, int threads)
{
    int64_t piece = count / (4 * (int64_t)threads);
    double shortest = worthwhile_ns / 4 / (nanoseconds > 0.1 ? nanoseconds : 0.1);
    if ((double)piece < shortest) piece = (int64_t)shortest;
    return piece > 0 ? piece : 1;
}

void adn_pool_for(struct adn_pool *pool, int64_t count, double nanoseconds, adn_range_fn body, void *argument)
{
    if (count <= 0) return;
    if (count == 1 || !pool->workers || (double)count * nanoseconds < worthwhile_ns ||
        !adn_mutex_try_lock(pool->busy)) {
        body(argument, 0, count);
        return;
    }
    adn_mutex_lock(pool->lock);
    pool->body = body;
    pool->argument = argument;
    pool->count = count;
    pool->piece = piece_of(count, nanoseconds, pool->workers + 1);
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->generation++;
    pool->open = true;
    adn_condition_signal_all(pool->wake);
    adn_mutex_unlock(pool->lock);

    take_pieces(pool);
    adn_mutex_lock(pool->lock);
    pool->open = false;
    while (pool->active) adn_condition_wait(pool->idle, pool->lock);
    adn_mutex_unlock(pool->lock);
    adn_mutex_unlock(pool->busy);
}
