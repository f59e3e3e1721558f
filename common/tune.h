/* SPDX-License-Identifier: Apache-2.0
 * common/tune.h: the tuning store of a context: which engine was measured to be best for a problem on its device.
 *
 * A file holds one entry a line, in any order, '#' begins a comment line:
 *     ENGINE_ID REVISION NS DEVICE | PROBLEM
 *     matmul_tile:128x128 1 81234 cuda:NVIDIA_H200 | matmul a=512x512/f16 b=512x512/f16 ... alpha=1 beta=0 math=strict
 * NS: whole nanoseconds of a run. DEVICE: the backend and the device's name, without blanks. PROBLEM: the printed line
 * without what a plan's equality ignores or an engine checks anew: values (alpha and beta: 0, 1, or 2 for any other),
 * offsets, seed, engine, workspace limit, alignment. Files need no lock: they are replaced as a whole. */
#ifndef ADN_TUNE_H
#define ADN_TUNE_H
#include "backend.h"

enum { ADN_TUNING_ENTRIES = 65536, ADN_TUNING_KEY = 4352, ADN_TUNING_FILE = 64 << 20 };

struct adn_tuning; /* the store; thread-safe */

struct adn_tuned {
    char engine[ADN_ENGINE_ID]; /* id with parameters */
    uint32_t revision;          /* of the engine when it was measured */
    uint64_t ns;
};

/* Calls take(user, entry, "DEVICE | PROBLEM") for each well-formed line and returns how many lines are malformed or were
 * turned down by take (false). A last line without its newline was cut off and counts as malformed. Pure. */
typedef bool adn_tuning_take(void *user, const struct adn_tuned *tuned, const char *key);
size_t adn_tuning_parse(const void *bytes, size_t size, adn_tuning_take *take, void *user);

struct adn_tuning *adn_tuning_create(void); /* NULL: out of memory */
void adn_tuning_destroy(struct adn_tuning *tuning);
/* Replaces an entry of the same key. False: full, or out of memory. */
bool adn_tuning_put(struct adn_tuning *tuning, const char *key, const struct adn_tuned *tuned);
bool adn_tuning_get(struct adn_tuning *tuning, const char *key, struct adn_tuned *tuned);
int adn_tuning_count(struct adn_tuning *tuning);

/* "DEVICE | PROBLEM" of a settled problem; false when it is longer than `capacity`. */
bool adn_tuning_key(const anydnn_context *context, const struct adn_problem *p, char *key, size_t capacity);

/* The engine that is remembered for the problem, NULL when none is, or not of this revision. *params = the text behind
 * ':' in tuned->engine, NULL = none. */
const struct adn_engine *adn_tuning_engine(const anydnn_context *context, const struct adn_problem *p,
                                           struct adn_tuned *tuned, const char **params);

/* Takes a file's entries for the context's device over; later ones win. Returns how many lines were ignored for being
 * malformed, or of an unknown engine or another revision. */
size_t adn_tuning_add(anydnn_context *context, const void *bytes, size_t size);

/* A file's content. */
struct adn_tuning_text {
    const void *bytes;
    size_t size;
};

/* The text of a file with the content `now` after the entries of `late`, which has been in its place, and those of the
 * context came in: of two entries the faster stays, unless it is of no use to the context. Lines of `now` and `late` that
 * are no entries but text stay once, before the entries. malloc'ed; NULL: out of memory. */
char *adn_tuning_merge(const anydnn_context *context, struct adn_tuning_text now, struct adn_tuning_text late,
                       size_t *merged_size);

#endif
