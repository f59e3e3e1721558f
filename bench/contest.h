/* SPDX-License-Identifier: Apache-2.0
 * bench/contest.h: one problem timed: anydnn and its peers, run by turns on the same memory. */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H
#include "harness.h"
#include "peers/peer.h"
#include "workset.h"

enum { MAX_CONTESTANTS = 24, MAX_SAMPLES = 200, LEAST_SAMPLES = 20 };

/* Workspace of the stream that a contest runs on, for anydnn. */
#define CONTEST_WORKSPACE ((uint64_t)256 << 20)

/* A peer that has been opened, or the reason why not. */
struct opened_peer {
    const struct peer *peer;
    void *state;
    const char *why;
};

/* Somebody who solves the problem. */
struct contestant {
    const char *name; /* "anydnn", or the peer's */
    char engine[64];  /* anydnn's engine */
    uint32_t traits;
    anydnn_plan *plan;       /* anydnn */
    const struct peer *peer; /* a peer and its job */
    void *job;
    char why[256]; /* not empty: it does not take part, and why */
    bool wrong;    /* it took part, and its answer was wrong */
    int calls;     /* in each sample */
    int samples;
    double sample[MAX_SAMPLES]; /* nanoseconds of one call */
    double median, low, high;   /* nanoseconds: the middle, a tenth and nine tenths of the samples */
};

struct contest {
    struct device *device;
    const anydnn_problem *problem;
    struct workset set;
    bool checked; /* answers were compared */
    int count;    /* contestants; the first is anydnn's own choice */
    struct contestant contestant[MAX_CONTESTANTS];
};

struct contest_options {
    double seconds; /* of sampling, all contestants together */
    bool engines;   /* every engine takes part, not just the automatic choice */
    bool check;
};

/* Prepares, checks and times. A status other than OK: the problem could not be made ready at all. Progress goes to
 * stderr through `progress` (may be NULL). Close with contest_free in any case. */
anydnn_status contest_run(struct contest *contest, struct device *device, const anydnn_problem *problem,
                          struct opened_peer *peers, int peer_count, const struct contest_options *options,
                          void (*progress)(const char *what));
void contest_free(struct contest *contest);
#endif
