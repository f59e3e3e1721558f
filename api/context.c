/* SPDX-License-Identifier: Apache-2.0
 * api/context.c: opening and closing contexts. */
#include "common/os.h"
#include "common/select.h"
#include "common/tune.h"
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void adn_context_retain(anydnn_context *context) { __atomic_add_fetch(&context->references, 1, __ATOMIC_RELAXED); }

bool adn_is_foreign(const anydnn_context *context) { return context->forks != adn_fork_count(); }

anydnn_status adn_check_process(const anydnn_context *context)
{
    if (!adn_is_foreign(context)) return ANYDNN_OK;
    return adn_fail(ANYDNN_INVALID, "context of %s was opened before fork(); accepted: one that this process opened",
                    context->device.info.id);
}

void adn_context_release(anydnn_context *context)
{
    if (adn_is_foreign(context) || __atomic_sub_fetch(&context->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    adn_cache_destroy(context->cache);
    context->backend->close(context);
    adn_refusals_destroy(context->refused);
    if (context->reference) adn_context_release(context->reference);
    adn_tuning_destroy(context->tuning);
    free(context);
}

static anydnn_status read_options(const anydnn_open_options *options, anydnn_open_options *own)
{
    static const anydnn_open_options defaults = ANYDNN_OPEN_OPTIONS_INIT;
    *own = defaults;
    if (options) ADN_TRY(adn_read_struct(own, sizeof *own, options, 8, "options"));
    own->struct_size = (uint32_t)sizeof *own;
    if (own->math < ANYDNN_MATH_DEFAULT || own->math > ANYDNN_MATH_FAST)
        return adn_fail(ANYDNN_INVALID, "options.math is %d; accepted: 0 to %d", own->math, ANYDNN_MATH_FAST);
    if (own->deterministic < 0 || own->deterministic > 1)
        return adn_fail(ANYDNN_INVALID, "options.deterministic is %d; accepted: 0 or 1", own->deterministic);
    if (own->cpu_threads < 0 || own->cpu_threads > 4096)
        return adn_fail(ANYDNN_INVALID, "options.cpu_threads is %d; accepted: 0 to 4096", own->cpu_threads);
    if (own->log_level < 0 || own->log_level > ANYDNN_LOG_CALL)
        return adn_fail(ANYDNN_INVALID, "options.log_level is %d; accepted: 0 to %d", own->log_level, ANYDNN_LOG_CALL);
    if (own->plan_cache < -1)
        return adn_fail(ANYDNN_INVALID, "options.plan_cache is %d; accepted: -1 or more", own->plan_cache);
    if (own->oracle < 0 || own->oracle > 1)
        return adn_fail(ANYDNN_INVALID, "options.oracle is %d; accepted: 0 or 1", own->oracle);
    if (own->batch_invariant < 0 || own->batch_invariant > 1)
        return adn_fail(ANYDNN_INVALID, "options.batch_invariant is %d; accepted: 0 or 1", own->batch_invariant);
    own->oracle = own->oracle || adn_oracle_wanted();
    if (own->math == 0) own->math = ANYDNN_MATH_STRICT;
    if (own->log_level == 0) own->log_level = ANYDNN_LOG_WARNING;
    if (own->plan_cache == 0) own->plan_cache = 1024;
    return ANYDNN_OK;
}

static anydnn_status fill(anydnn_context *context, void *native)
{
    if (context->options.plan_cache > 0) {
        context->cache = adn_cache_create(context->options.plan_cache);
        if (!context->cache) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for the plan cache");
    }
    context->refused = adn_refusals_create();
    context->tuning = adn_tuning_create();
    if (!context->refused || !context->tuning) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a context");
    return context->backend->open(context, native);
}

anydnn_status adn_context_create(const struct adn_device *device, void *native, const anydnn_open_options *options,
                                 anydnn_context **context)
{
    anydnn_open_options own;
    anydnn_context *made;
    anydnn_status status;
    ADN_TRY(read_options(options, &own));
    ADN_TRY(adn_check_driver(device->backend));
    made = calloc(1, sizeof *made);
    if (!made) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a context");
    made->backend = device->backend;
    made->device = *device;
    made->options = own;
    made->references = 1;
    made->forks = adn_fork_count();
    status = fill(made, native);
    if (status != ANYDNN_OK) {
        adn_cache_destroy(made->cache);
        adn_refusals_destroy(made->refused);
        adn_tuning_destroy(made->tuning);
        free(made);
        return status;
    }
    adn_tuning_open(made);
    *context = made;
    return ANYDNN_OK;
}

/* Software that claims to be a GPU is never what "auto" means. */
static bool is_simulator(const anydnn_device_info *info)
{
    return strstr(info->name, "llvmpipe") || strstr(info->name, "Oclgrind") || strstr(info->driver, "Oclgrind");
}

/* "auto": the first CUDA device, else the first OpenCL GPU, else the CPU. */
static const struct adn_device *automatic(const struct adn_device *list, int count)
{
    int i;
    for (i = 0; i < count; i++)
        if (list[i].info.backend == ANYDNN_BACKEND_CUDA) return &list[i];
    for (i = 0; i < count; i++)
        if (list[i].info.backend == ANYDNN_BACKEND_OPENCL && !list[i].info.is_cpu && !is_simulator(&list[i].info)) return &list[i];
    return list;
}

/* A backend that is named but has no device: its own note is the reason. */
static anydnn_status not_found(const char *device, const struct adn_device *list, int count)
{
    static const struct {
        const char *prefix;
        int backend;
    } prefixes[] = { { "cuda:", ANYDNN_BACKEND_CUDA }, { "opencl:", ANYDNN_BACKEND_OPENCL } };
    char have[256] = "";
    size_t used = 0;
    bool any = false;
    int i, j;
    for (i = 0; i < 2; i++) {
        const size_t length = strlen(prefixes[i].prefix);
        if (strncmp(device, prefixes[i].prefix, length) != 0 || !device[length] ||
            strspn(device + length, "0123456789") != strlen(device + length))
            continue;
        for (j = 0; j < count; j++) any = any || list[j].info.backend == prefixes[i].backend;
        if (!any)
            return adn_fail(ANYDNN_UNSUPPORTED, "device '%s': no such device: %s", device,
                            anydnn_backend_note(prefixes[i].backend));
    }
    for (i = 0; i < count && used + 1 < sizeof have; i++)
        used += (size_t)snprintf(have + used, sizeof have - used, "%s%s", i ? ", " : "", list[i].info.id);
    return adn_fail(ANYDNN_INVALID, "device is '%s'; accepted: auto, %s", device, have);
}

anydnn_status anydnn_open(const char *device, const anydnn_open_options *options, anydnn_context **context)
{
    int count, i;
    const struct adn_device *list;
    ADN_NOT_NULL(device);
    ADN_NOT_NULL(context);
    list = adn_devices(&count);
    if (strcmp(device, "auto") == 0) return adn_context_create(automatic(list, count), NULL, options, context);
    for (i = 0; i < count; i++)
        if (strcmp(device, list[i].info.id) == 0) return adn_context_create(&list[i], NULL, options, context);
    return not_found(device, list, count);
}

void anydnn_close(anydnn_context *context)
{
    if (context) adn_context_release(context);
}
