/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_tile.c: tiles of matrix products. See plan_tile.h. */
#include "plan_tile.h"

#include <stdio.h>
#include <string.h>

static bool is_cpu_shape(const struct adn_variant *v)
{
    return v->block == 1;
}

void adn_tile_name(const struct adn_variant *v, char name[32])
{
    snprintf(name, 32, "%dx%dx%d", (int)v->constant[0], (int)v->constant[1], (int)v->constant[2]);
}

const struct adn_variant *adn_tile_at(const struct adn_variant *rows, int count, int dtype,
                                      const struct adn_device *device, int index)
{
    int i;
    for (i = 0; i < count; i++) {
        if (rows[i].dtype != dtype || rows[i].constant[0] == 0) continue;
        /* A GPU would set the work item's private arrays aside for every thread that it can hold. */
        if (is_cpu_shape(&rows[i]) && (device->backend->id != ANYDNN_BACKEND_OPENCL || !device->info.is_cpu)) continue;
        if (index-- == 0) return &rows[i];
    }
    return NULL;
}

/* Whether a block of the shape fits the device: threads, and two stages, or what its row asks for, in local memory. */
static bool fits(const struct adn_variant *v, const struct adn_tile_product *m, const struct adn_device *device)
{
    const int64_t element = m->element_bytes ? m->element_bytes : adn_tile_sum_bytes(m->dtype);
    const int64_t stages = 2 * v->constant[2] * element * (v->constant[0] + v->constant[1]);
    return is_cpu_shape(v) || (v->block <= device->info.max_block_threads &&
                               v->dynamic_shared <= device->info.local_memory_bytes &&
                               stages + v->block * m->thread_bytes + 256 <= device->info.local_memory_bytes);
}

/* Part of the arithmetic peak that a compute unit reaches in a full tile; the GPU shape is poor on CPUs. */
static double speed_of(const struct adn_variant *v, const struct adn_tile_product *m, const struct adn_device *device)
{
    if (!is_cpu_shape(v) && device->info.is_cpu) return 0.03;
    if (is_cpu_shape(v)) return v->constant[0] > 48 ? m->speed.cpu_large : m->speed.cpu_small;
    return v->constant[0] >= 128 ? m->speed.large : v->constant[0] >= 64 ? m->speed.middle : m->speed.small;
}

/* Few tiles leave most of the device idle: their depth is shared out, each split taking at least 8 stages. */
static void split(const struct adn_tile_product *m, int64_t units, uint64_t workspace, struct adn_tile_layout *l)
{
    const struct adn_variant *v = l->variant;
    const int64_t stage = v->constant[2], wanted = units * (is_cpu_shape(v) ? 2 : 2 * v->block / 256 + 1);
    const double part = (double)(m->part * adn_tile_sum_bytes(m->dtype));
    l->splits = 1;
    l->split_depth = m->depth;
    if (!m->may_split || l->tiles == 0 || l->tiles >= wanted || m->depth < 16 * stage) return;
    l->splits = adn_smaller(adn_smaller(adn_ceil_div(wanted, l->tiles), m->depth / (8 * stage)), 64);
    if (part * (double)l->splits > (double)workspace) l->splits = (int64_t)((double)workspace / part);
    if (l->splits < 1) l->splits = 1;
    l->split_depth = adn_ceil_div(adn_ceil_div(m->depth, l->splits), stage) * stage;
    l->splits = adn_ceil_div(m->depth, l->split_depth);
    l->tiles *= l->splits;
}

/* Multiplications that are carried out, tails and idle units of the last round included. A work item of the CPU shape
 * skips register tiles without outputs; a block computes its whole tile. */
static double carried_out(const struct adn_tile_product *m, int64_t units, const struct adn_tile_layout *l)
{
    const int32_t *c = l->variant->constant;
    double cells = is_cpu_shape(l->variant)
                       ? (double)(adn_ceil_div(m->rows, c[3]) * c[3]) * (double)(adn_ceil_div(m->columns, c[4]) * c[4])
                       : (double)(l->row_tiles * c[0]) * (double)(l->column_tiles * c[1]);
    cells *= (double)m->copies * (double)(adn_ceil_div(m->depth > 0 ? m->depth : 1, c[2]) * c[2]);
    if (l->tiles > 0) cells *= (double)(adn_ceil_div(l->tiles, units) * units) / (double)l->tiles;
    return cells;
}

static void lay_out(const struct adn_tile_product *m, const struct adn_device *device, uint64_t workspace,
                    const struct adn_variant *v, struct adn_tile_layout *l)
{
    const int64_t units = device->info.compute_units > 0 ? device->info.compute_units : 1;
    double cells;
    l->variant = v;
    l->row_tiles = adn_ceil_div(m->rows, v->constant[0]);
    l->column_tiles = adn_ceil_div(m->columns, v->constant[1]);
    l->tiles = m->copies * l->row_tiles * l->column_tiles;
    split(m, units, workspace, l);
    cells = carried_out(m, units, l);
    l->share = cells > 0 && m->multiplications > 0 ? speed_of(v, m, device) * m->multiplications / cells : 1e-3;
    if (l->share > 0.9) l->share = 0.9;
    if (l->share < 1e-6) l->share = 1e-6;
}

bool adn_tile_choose(const struct adn_variant *rows, int count, const struct adn_tile_product *m,
                     const struct adn_device *device, uint64_t workspace, const char *params,
                     struct adn_tile_layout *best, struct adn_refusal *why)
{
    const struct adn_variant *v;
    char name[32];
    int i;
    memset(best, 0, sizeof *best);
    for (i = 0; (v = adn_tile_at(rows, count, m->dtype, device, i)) != NULL; i++) {
        struct adn_tile_layout l;
        adn_tile_name(v, name);
        if ((params && strcmp(params, name) != 0) || !fits(v, m, device)) continue;
        if (m->as_listed && is_cpu_shape(v) != (device->info.is_cpu != 0) && !params) continue;
        lay_out(m, device, workspace, v, &l);
        if (!best->variant || (!m->as_listed && l.share > best->share)) *best = l;
    }
    if (best->variant) return true;
    return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "engine", 0, 0, "this device has no tile '%s'",
                      params ? params : "small enough");
}
