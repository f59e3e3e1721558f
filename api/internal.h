/* SPDX-License-Identifier: Apache-2.0
 * api/internal.h: what the files behind the public headers share. */
#ifndef ADN_API_INTERNAL_H
#define ADN_API_INTERNAL_H
#include "common/backend.h"

/* The device list, built at the first call. */
const struct adn_device *adn_devices(int *count);
/* True when ANYDNN_ORACLE asked for the oracle (api/oracle.h) as that list was built. */
bool adn_oracle_wanted(void);

/* Reference counting of contexts: streams, events and plans each hold one. */
void adn_context_retain(anydnn_context *context);
void adn_context_release(anydnn_context *context);

/* True in a child of the process that opened the context, where nothing of it can be used or given back. */
bool adn_is_foreign(const anydnn_context *context);
/* INVALID there. */
anydnn_status adn_check_process(const anydnn_context *context);
/* UNSUPPORTED in a child of the process that opened the backend's driver. */
anydnn_status adn_check_driver(const struct adn_backend *backend);

/* Makes a context on a device; `native` as for adn_backend.open. */
anydnn_status adn_context_create(const struct adn_device *device, void *native, const anydnn_open_options *options,
                                 anydnn_context **context);
/* Makes a stream; `wrap` and `native` as for adn_backend.stream_create. */
anydnn_status adn_stream_make(anydnn_context *context, bool wrap, void *native, uint64_t workspace_bytes,
                              anydnn_stream **stream);

#define ADN_NOT_NULL(pointer)                                                                                          \
    do {                                                                                                               \
        if (!(pointer)) return adn_fail(ANYDNN_INVALID, "%s: %s is NULL; accepted: not NULL", __func__, #pointer);       \
    } while (0)

/* `bytes` from mem.offset on must lie in a memory of the context's kind. */
anydnn_status adn_check_memory(const anydnn_context *context, const anydnn_mem *mem, uint64_t bytes, const char *name);

/* Plan cache of one-shot calls (api/cache.c). find returns a retained plan or NULL. */
struct adn_plan_cache *adn_cache_create(int capacity); /* NULL: out of memory */
void adn_cache_destroy(struct adn_plan_cache *cache);  /* NULL allowed */
anydnn_plan *adn_cache_find(struct adn_plan_cache *cache, const struct adn_problem *p, uint64_t hash);
void adn_cache_insert(struct adn_plan_cache *cache, anydnn_plan *plan, uint64_t hash);
void adn_cache_clear(struct adn_plan_cache *cache); /* NULL allowed */

/* Makes a plan for a settled problem. */
anydnn_status adn_plan_make(anydnn_context *context, const struct adn_problem *p, bool cached, anydnn_plan **plan);
/* Enqueues a plan with checked arguments. */
anydnn_status adn_plan_enqueue(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments);

/* Promises of one-shot calls: the alignment that the bound memory has. */
void adn_promise_alignment(struct adn_problem *p, const anydnn_binding *bindings, int count);
/* An engine's answer in the public form. */
struct adn_answer;
void adn_give_verdict(const struct adn_answer *answer, anydnn_verdict *row);

/* The file named by the environment, "" = none. */
const char *adn_tuning_path(void);
/* Loads it at open, where it is there. */
void adn_tuning_open(anydnn_context *context);

#endif
