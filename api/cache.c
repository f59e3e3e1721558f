/* SPDX-License-Identifier: Apache-2.0
 * api/cache.c: the bounded plan cache of one-shot calls: a hash table with the least recently used at the end of a list.
 * The lock is held for look-ups alone, never while a plan is made. */
#include "common/os.h"
#include "internal.h"

#include <stdlib.h>

struct entry {
    uint64_t hash;
    anydnn_plan *plan;
    struct entry *next;              /* of the same bucket */
    struct entry *newer, *older;     /* by last use */
};

struct adn_plan_cache {
    adn_mutex *lock;
    int capacity, count, buckets;
    struct entry **bucket;
    struct entry *newest, *oldest;
};

struct adn_plan_cache *adn_cache_create(int capacity)
{
    struct adn_plan_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return NULL;
    cache->capacity = capacity;
    for (cache->buckets = 16; cache->buckets < capacity && cache->buckets < 1 << 20;) cache->buckets *= 2;
    cache->bucket = calloc((size_t)cache->buckets, sizeof *cache->bucket);
    cache->lock = adn_mutex_create();
    if (cache->bucket && cache->lock) return cache;
    adn_mutex_destroy(cache->lock);
    free(cache->bucket);
    free(cache);
    return NULL;
}

static struct entry **slot_of(struct adn_plan_cache *cache, uint64_t hash)
{
    return &cache->bucket[(hash ^ hash >> 32) & (uint64_t)(cache->buckets - 1)];
}

static void unlink_use(struct adn_plan_cache *cache, struct entry *entry)
{
    if (entry->newer) entry->newer->older = entry->older;
    else cache->newest = entry->older;
    if (entry->older) entry->older->newer = entry->newer;
    else cache->oldest = entry->newer;
}

static void link_newest(struct adn_plan_cache *cache, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    if (cache->newest) cache->newest->newer = entry;
    cache->newest = entry;
    if (!cache->oldest) cache->oldest = entry;
}

static struct entry *find(struct adn_plan_cache *cache, const struct adn_problem *p, uint64_t hash)
{
    struct entry *entry = *slot_of(cache, hash);
    while (entry && (entry->hash != hash || !adn_problem_equal(&entry->plan->problem, p))) entry = entry->next;
    return entry;
}

static void evict_oldest(struct adn_plan_cache *cache)
{
    struct entry *entry = cache->oldest, **at = slot_of(cache, entry->hash);
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
    unlink_use(cache, entry);
    anydnn_plan_release(entry->plan);
    free(entry);
    cache->count--;
}

void adn_cache_clear(struct adn_plan_cache *cache)
{
    if (!cache) return;
    adn_mutex_lock(cache->lock);
    while (cache->oldest) evict_oldest(cache);
    adn_mutex_unlock(cache->lock);
}

void adn_cache_destroy(struct adn_plan_cache *cache)
{
    if (!cache) return;
    while (cache->oldest) evict_oldest(cache);
    adn_mutex_destroy(cache->lock);
    free(cache->bucket);
    free(cache);
}

anydnn_plan *adn_cache_find(struct adn_plan_cache *cache, const struct adn_problem *p, uint64_t hash)
{
    struct entry *entry;
    anydnn_plan *plan = NULL;
    adn_mutex_lock(cache->lock);
    entry = find(cache, p, hash);
    if (entry) {
        unlink_use(cache, entry);
        link_newest(cache, entry);
        plan = anydnn_plan_retain(entry->plan);
    }
    adn_mutex_unlock(cache->lock);
    return plan;
}

void adn_cache_insert(struct adn_plan_cache *cache, anydnn_plan *plan, uint64_t hash)
{
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry) return; /* the next call makes the plan again */
    adn_mutex_lock(cache->lock);
    if (find(cache, &plan->problem, hash)) { /* another thread was first */
        free(entry);
    } else {
        if (cache->count == cache->capacity) evict_oldest(cache);
        entry->hash = hash;
        entry->plan = anydnn_plan_retain(plan);
        entry->next = *slot_of(cache, hash);
        *slot_of(cache, hash) = entry;
        link_newest(cache, entry);
        cache->count++;
    }
    adn_mutex_unlock(cache->lock);
}
