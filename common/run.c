/* SPDX-License-Identifier: Apache-2.0
 * common/run.c: plans that are lists of kernel launches: building them, loading their kernels, running them. */
#include "backend.h"

#include <string.h>

uint64_t adn_book(struct adn_engine_plan *plan, uint64_t bytes)
{
    const uint64_t offset = (plan->workspace + 255) / 256 * 256;
    plan->workspace = offset + bytes;
    return offset;
}

struct adn_step *adn_add_step(struct adn_engine_plan *plan, const struct adn_variant *variant, uint64_t blocks,
                              const void *params, size_t params_size)
{
    struct adn_step *step = &plan->step[plan->steps++];
    /* NVIDIA's OpenCL gives 2^31 threads as a negative number; kernels loop over what a bounded grid leaves. */
    const uint32_t most = (uint32_t)(INT32_MAX / variant->block);
    step->variant = variant;
    step->grid[0] = blocks > most ? most : (uint32_t)blocks;
    step->grid[1] = step->grid[2] = 1;
    step->params_size = (uint32_t)params_size;
    memcpy(step->params.bytes, params, params_size);
    return step;
}

static void add_memory(struct adn_step *step, int source, uint64_t offset)
{
    step->memory[step->memories].source = source;
    step->memory[step->memories++].offset = offset;
}

void adn_step_role(struct adn_step *step, const struct adn_problem *p, int role)
{
    const int slot = adn_slot(p, role);
    const bool scalar = slot >= 0 && (p->def->roles[slot].flags & ANYDNN_ROLE_SCALAR);
    const bool there = slot >= 0 && p->operand[slot].present && (!scalar || p->operand[slot].device);
    add_memory(step, there ? slot : ADN_FROM_NULL, 0);
}

void adn_step_slot(struct adn_step *step, int source) { add_memory(step, source, 0); }
void adn_step_workspace(struct adn_step *step, uint64_t offset) { add_memory(step, ADN_FROM_WORKSPACE, offset); }
void adn_step_null(struct adn_step *step) { add_memory(step, ADN_FROM_NULL, 0); }

const struct adn_variant *adn_find_variant(const struct adn_variant *rows, int count, const char *kernel, int dtype,
                                           const int32_t *constants)
{
    int i;
    for (i = 0; i < count; i++)
        if (rows[i].dtype == dtype && strcmp(rows[i].kernel, kernel) == 0 &&
            (!constants || memcmp(rows[i].constant, constants, sizeof rows[i].constant) == 0))
            return &rows[i];
    return NULL;
}

double adn_estimate_ns(const struct adn_device *device, double bytes, double flops, double share)
{
    /* Coarse rates by class: they order engines on one device and are no promise. GPUs: 64 FMA units and 20 GB/s a
     * unit at 1.5 GHz; CPUs: 16 FMA a core at 3 GHz, 10 GB/s a core. */
    const double units = device->info.compute_units > 0 ? device->info.compute_units : 1;
    const double flop_rate = units * (device->info.is_cpu ? 96.0 : 192.0); /* per ns */
    const double byte_rate = units * (device->info.is_cpu ? 10.0 : 20.0);
    const double launch = device->info.is_cpu ? 1500.0 : 3000.0;
    const double arithmetic = flops / (flop_rate * (share > 0.001 ? share : 0.001)), traffic = bytes / byte_rate;
    return launch + (arithmetic > traffic ? arithmetic : traffic);
}

anydnn_status adn_steps_prepare(anydnn_plan *plan)
{
    const struct adn_backend *backend = plan->context->backend;
    int i;
    for (i = 0; i < plan->body.steps; i++) {
        ADN_TRY(backend->kernel_load(plan->context, plan->body.step[i].variant, &plan->kernel[i]));
        if (backend->kernel_warm)
            ADN_TRY(backend->kernel_warm(plan->context, plan->kernel[i], plan->body.step[i].grid));
    }
    return ANYDNN_OK;
}

static struct adn_place place_of(const struct adn_step *step, int index, const struct adn_arguments *arguments)
{
    struct adn_place place = { NULL, 0 };
    const int source = step->memory[index].source;
    if (source == ADN_FROM_NULL) return place;
    place = source == ADN_FROM_WORKSPACE ? arguments->workspace : arguments->place[source];
    place.offset += step->memory[index].offset;
    return place;
}

static anydnn_status run_step(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments, int index)
{
    const struct adn_step *step = &plan->body.step[index];
    struct adn_launch launch;
    union {
        int64_t align;
        unsigned char bytes[ADN_MAX_PARAMS];
    } params;
    int i;
    if (step->grid[0] == 0 || step->grid[1] == 0 || step->grid[2] == 0) return ANYDNN_OK;
    memcpy(params.bytes, step->params.bytes, step->params_size);
    if (plan->engine->bind) plan->engine->bind(&plan->problem, arguments->scalar, &plan->body, index, params.bytes);
    memcpy(launch.grid, step->grid, sizeof launch.grid);
    launch.memories = step->memories;
    for (i = 0; i < step->memories; i++) launch.memory[i] = place_of(step, i, arguments);
    launch.params = params.bytes;
    launch.params_size = step->params_size;
    return plan->context->backend->kernel_launch(stream, plan->kernel[index], &launch);
}

anydnn_status adn_steps_run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    int i;
    for (i = 0; i < plan->body.steps; i++) ADN_TRY(run_step(plan, stream, arguments, i));
    return ANYDNN_OK;
}
