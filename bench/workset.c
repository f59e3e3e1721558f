/* SPDX-License-Identifier: Apache-2.0
 * bench/workset.c: see workset.h. Random data repeat after a prime number of elements, which no row length divides:
 * drawing each element anew would take longer than the benchmark. */
#include "workset.h"
#include "values.h"

#include <stdlib.h>
#include <string.h>

enum { PERIOD = 999983, ALIGNMENT = 256, MAX_SETS = 256 };

int workset_find(const struct workset *set, int role)
{
    int i;
    for (i = 0; i < set->count; i++)
        if (set->binding[i].role == role) return i;
    return -1;
}

double workset_scalar(const struct workset *set, int role, double otherwise)
{
    const int i = workset_find(set, role);
    return i < 0 ? otherwise : set->binding[i].value;
}

/* ---------------------------------------------------------------- data ---------------------------------------- */

static bool is_positive(int role)
{
    return role == ANYDNN_RUNNING_VAR || role == ANYDNN_SAVED_INVSTD || role == ANYDNN_MOMENT2;
}

/* Values within -1..1 and never 0; where only positive ones make sense, 0.5..1.5. Integers are spread over 0..99. */
static double draw(int role, int dtype, int64_t index)
{
    const double value = random_unit((uint64_t)role, (uint64_t)index);
    if (value_is_integer(dtype)) return (double)(random_bits((uint64_t)role, (uint64_t)index) % 100);
    if (is_positive(role)) return 1 + value / 2;
    return value == 0 ? 0.5 : value;
}

static void fill_random(void *data, uint64_t bytes, int role, int dtype)
{
    const size_t size = anydnn_dtype_size(dtype);
    const uint64_t elements = bytes / size, period = elements < PERIOD ? elements : PERIOD;
    uint64_t i, done;
    for (i = 0; i < period; i++) value_store(dtype, (char *)data + i * size, draw(role, dtype, (int64_t)i));
    for (done = period * size; done < bytes; done += period * size)
        memcpy((char *)data + done, data, bytes - done < period * size ? bytes - done : period * size);
}

/* Labels below the number of classes. */
static void fill_labels(const struct workset *set, int row, char *data)
{
    const anydnn_tensor *labels = &set->tensor[row];
    const int x = workset_find(set, ANYDNN_X);
    const int64_t classes = x >= 0 && set->tensor[x].dims[1] > 0 ? set->tensor[x].dims[1] : 1;
    const int64_t count = anydnn_tensor_count(labels);
    int64_t i;
    for (i = 0; i < count; i++)
        value_store(labels->dtype, data + tensor_element(labels, i) * (int64_t)anydnn_dtype_size(labels->dtype),
                    (double)(int64_t)(random_bits(1, (uint64_t)i) % (uint64_t)classes));
}

/* Winners of max pooling: the first cell of each window that lies in the input. */
static void fill_indices(const struct workset *set, int row, char *data)
{
    const anydnn_tensor *indices = &set->tensor[row];
    const anydnn_pool *pool = (const anydnn_pool *)(const void *)anydnn_problem_op(set->problem);
    const int dx = workset_find(set, ANYDNN_DX);
    const int64_t count = anydnn_tensor_count(indices);
    int64_t i;
    for (i = 0; dx >= 0 && i < count; i++) {
        int64_t left = i, scale = 1, winner = 0;
        int d;
        for (d = indices->ndim - 1; d >= 2; d--) {
            const int64_t extent = set->tensor[dx].dims[d], step = pool->stride[d - 2] ? pool->stride[d - 2] : 1;
            int64_t first = left % indices->dims[d] * step - pool->pad[d - 2];
            left /= indices->dims[d];
            if (first < 0) first = 0;
            if (first >= extent) first = extent - 1;
            winner += first * scale;
            scale *= extent;
        }
        value_store(indices->dtype, data + tensor_element(indices, i) * (int64_t)anydnn_dtype_size(indices->dtype),
                    (double)winner);
    }
}

static bool is_read(const struct workset *set, int role)
{
    const int op = anydnn_problem_op(set->problem)->op;
    uint32_t flags;
    int i, found;
    for (i = 0; (found = anydnn_op_role(op, i, &flags)) != 0; i++)
        if (found == role) return (flags & (ANYDNN_ROLE_IN | ANYDNN_ROLE_SCALED | ANYDNN_ROLE_PARAM_SCALED)) != 0;
    return true;
}

/* Host data of one role, and the same in every set. */
static anydnn_status fill_role(struct workset *set, int row)
{
    const int role = set->binding[row].role;
    const uint64_t offset = set->binding[row].mem.offset - set->memory[row].offset;
    const uint64_t bytes = (uint64_t)anydnn_tensor_bytes(&set->tensor[row]);
    anydnn_status status = ANYDNN_OK;
    int i;
    if (!is_read(set, role) || bytes == 0) return ANYDNN_OK;
    set->host[row] = malloc(bytes);
    if (!set->host[row]) return ANYDNN_OUT_OF_MEMORY;
    fill_random(set->host[row], bytes, role, set->tensor[row].dtype);
    if (role == ANYDNN_LABELS) fill_labels(set, row, set->host[row]);
    if (role == ANYDNN_INDICES) fill_indices(set, row, set->host[row]);
    status = anydnn_copy_in(set->stream, anydnn_mem_at(set->memory[row], offset), set->host[row], bytes);
    for (i = 1; status == ANYDNN_OK && i < set->sets; i++)
        status = anydnn_copy(set->stream, anydnn_mem_at(set->memory[row], offset + (uint64_t)i * set->distance[row]),
                             anydnn_mem_at(set->memory[row], offset), bytes);
    return status;
}

/* ---------------------------------------------------------------- memory -------------------------------------- */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* A scalar that the line wants in device memory. */
static anydnn_status place_scalar(struct workset *set, int row)
{
    anydnn_binding *binding = &set->binding[row];
    const float real = (float)binding->value;
    const int64_t whole = (int64_t)binding->value;
    const bool is_real = binding->role == ANYDNN_LR;
    anydnn_status status;
    if (binding->mem.kind == ANYDNN_MEM_NONE) return ANYDNN_OK;
    status = anydnn_alloc(set->context, ALIGNMENT, &set->memory[row]);
    if (status != ANYDNN_OK) return status;
    binding->mem = set->memory[row];
    status = anydnn_copy_in(set->stream, binding->mem, is_real ? (const void *)&real : (const void *)&whole,
                            is_real ? sizeof real : sizeof whole);
    return status == ANYDNN_OK ? anydnn_stream_sync(set->stream) : status; /* the value is this function's */
}

/* Allocates a tensor's memory in all sets, or shares that of the role that the line names. */
static anydnn_status place_tensor(struct workset *set, int row)
{
    anydnn_binding *binding = &set->binding[row];
    const int alias = anydnn_problem_alias(set->problem, binding->role);
    const uint64_t offset = binding->mem.offset;
    anydnn_status status;
    if (alias) {
        const int other = workset_find(set, alias);
        if (other >= 0 && other < row) {
            binding->mem = set->binding[other].mem;
            set->distance[row] = set->distance[other];
            return ANYDNN_OK;
        }
    }
    set->distance[row] = round_up(offset + (uint64_t)anydnn_tensor_bytes(&set->tensor[row]));
    status = anydnn_alloc(set->context, set->distance[row] * (uint64_t)set->sets, &set->memory[row]);
    if (status != ANYDNN_OK) return status;
    binding->mem = anydnn_mem_at(set->memory[row], offset);
    return fill_role(set, row);
}

static void take_bindings(struct workset *set)
{
    int count, i;
    const anydnn_binding *bindings = anydnn_problem_bindings(set->problem, &count);
    set->count = count < WORKSET_ROLES ? count : WORKSET_ROLES;
    for (i = 0; i < set->count; i++) {
        set->binding[i] = bindings[i];
        if (!bindings[i].tensor) continue;
        set->tensor[i] = *bindings[i].tensor;
        set->binding[i].tensor = &set->tensor[i];
        /* All of the memory is aligned, and every program that cares says so. */
        if (set->tensor[i].alignment == 0 && bindings[i].mem.offset == 0) set->tensor[i].alignment = ALIGNMENT;
        set->bytes += round_up((uint64_t)anydnn_tensor_bytes(&set->tensor[i]));
    }
}

anydnn_status workset_create(struct workset *set, anydnn_stream *stream, const anydnn_problem *problem,
                             uint64_t least_bytes)
{
    anydnn_status status = ANYDNN_OK;
    int i;
    memset(set, 0, sizeof *set);
    set->stream = stream;
    set->context = anydnn_stream_context(stream);
    set->problem = problem;
    take_bindings(set);
    set->sets = set->bytes * MAX_SETS < least_bytes ? MAX_SETS : (int)(least_bytes / (set->bytes + 1)) + 1;
    if (set->sets < 2 && set->bytes < (uint64_t)4 << 30) set->sets = 2;
    for (i = 0; status == ANYDNN_OK && i < set->count; i++)
        status = set->binding[i].tensor ? place_tensor(set, i) : place_scalar(set, i);
    if (status == ANYDNN_OK) status = anydnn_stream_sync(stream);
    if (status != ANYDNN_OK) workset_free(set);
    return status;
}

void workset_free(struct workset *set)
{
    int i;
    if (!set->stream) return;
    anydnn_stream_sync(set->stream);
    for (i = 0; i < set->count; i++) {
        anydnn_free(set->context, set->memory[i]);
        free(set->host[i]);
    }
    memset(set, 0, sizeof *set);
}

void workset_bindings(const struct workset *set, int index, anydnn_binding bindings[WORKSET_ROLES])
{
    const uint64_t number = (uint64_t)(index % set->sets);
    int i;
    for (i = 0; i < set->count; i++) {
        bindings[i] = set->binding[i];
        if (bindings[i].tensor) bindings[i].mem.offset += number * set->distance[i];
    }
}
