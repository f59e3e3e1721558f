/* SPDX-License-Identifier: Apache-2.0
 * bench/workset.h: the memory that a benchmark works on: every tensor of a problem several times over, so that runs
 * which go round the sets find cold caches, filled with random data. */
#ifndef BENCH_WORKSET_H
#define BENCH_WORKSET_H
#include <anydnn/anydnn.h>
#include <stdbool.h>

enum { WORKSET_ROLES = 24 };

struct workset {
    anydnn_context *context;
    anydnn_stream *stream;
    const anydnn_problem *problem;
    int count; /* bindings */
    int sets;
    anydnn_tensor tensor[WORKSET_ROLES];   /* the line's, with the alignment that the memory has */
    anydnn_binding binding[WORKSET_ROLES]; /* of set 0 */
    anydnn_mem memory[WORKSET_ROLES];      /* of all sets; kind NONE where another role's memory is shared */
    uint64_t distance[WORKSET_ROLES];      /* bytes from a set to the next; 0 for scalars */
    void *host[WORKSET_ROLES];             /* what the device memory was filled with, NULL for mere outputs */
    uint64_t bytes;                        /* of one set */
};

/* Allocates sets until they take `least_bytes` together (1 to 256 sets, 2 where memory allows) and fills them. */
anydnn_status workset_create(struct workset *set, anydnn_stream *stream, const anydnn_problem *problem,
                             uint64_t least_bytes);
void workset_free(struct workset *set);

/* The bindings of set `index` (any number: counted round). */
void workset_bindings(const struct workset *set, int index, anydnn_binding bindings[WORKSET_ROLES]);

/* The row of a role, -1 when it is not bound; the value of a scalar. */
int workset_find(const struct workset *set, int role);
double workset_scalar(const struct workset *set, int role, double otherwise);
#endif
