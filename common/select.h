/* SPDX-License-Identifier: Apache-2.0
 * common/select.h: which engine runs a problem. */
#ifndef ADN_SELECT_H
#define ADN_SELECT_H
#include "backend.h"

enum { ADN_MAX_CANDIDATES = 64 };

/* One engine's answer. */
struct adn_answer {
    const struct adn_engine *engine;
    bool accepted;
    bool own_choice;         /* the engine chose its parameters itself */
    bool remembered;         /* the tuning store names it (with these parameters) for the problem */
    struct adn_refusal why;  /* when refused */
    uint64_t workspace;
    double cost_ns;
    char id[ADN_ENGINE_ID];  /* with parameters when accepted */
};

/* Engine `index` of an operation on a backend, in table order; NULL behind the last. */
const struct adn_engine *adn_engine_at(const struct adn_backend *backend, int op, int index);

/* Asks every engine; writes up to ADN_MAX_CANDIDATES answers and returns how many: what the tuning store remembers,
 * where it is accepted, then the other accepted ones by cost, then the refusals. With
 * `all_parameters`, each engine's other parameter sets follow behind all engines' own choices. */
int adn_ask_engines(const anydnn_context *context, const struct adn_problem *p, bool all_parameters,
                    struct adn_answer *answers);

/* Makes *plan (context and problem set) the best that this device's compiler takes: chooses, prepares, falls back to
 * the next candidate when prepare answers UNSUPPORTED. A named engine is never substituted. */
anydnn_status adn_plan_choose(anydnn_plan *plan);

/* Gives back what prepare took. */
void adn_plan_discard(anydnn_plan *plan);

/* Memory of refusals by a device's compiler, one for each context. */
struct adn_refusals *adn_refusals_create(void);
void adn_refusals_destroy(struct adn_refusals *refusals);

#endif
