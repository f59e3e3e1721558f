/* SPDX-License-Identifier: Apache-2.0
 * common/tune.c: the tuning store: parser, hash table, keys, merging. */
#include "tune.h"

#include "os.h"
#include "select.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parser ---- */

/* A blank-separated word into *word (cut in place); the rest of the line, or NULL when there is no word. */
static char *next_word(char *at, char **word)
{
    at += strspn(at, " \t");
    *word = at;
    if (!*at) return NULL;
    at += strcspn(at, " \t");
    if (*at) *at++ = 0;
    return at;
}

static bool read_number(const char *word, uint64_t most, uint64_t *value)
{
    const size_t length = strlen(word);
    size_t i;
    *value = 0;
    if (length == 0 || length > 18 || strspn(word, "0123456789") != length) return false;
    for (i = 0; i < length; i++) *value = *value * 10 + (uint64_t)(word[i] - '0');
    return *value <= most;
}

/* `line` is zero-terminated and cut to pieces; `key` has ADN_TUNING_KEY bytes. */
static bool read_entry(char *line, struct adn_tuned *tuned, char *key)
{
    char *word[5];
    uint64_t revision;
    size_t length, i;
    int length_of_key;
    for (i = 0; i < 5; i++)
        if ((line = next_word(line, &word[i])) == NULL) return false;
    line += strspn(line, " \t");
    for (length = strlen(line); length > 0 && strchr(" \t\r", line[length - 1]);) line[--length] = 0;
    if (length == 0 || strcmp(word[4], "|") != 0 || strlen(word[0]) >= sizeof tuned->engine) return false;
    memset(tuned, 0, sizeof *tuned);
    strcpy(tuned->engine, word[0]);
    if (!read_number(word[1], UINT32_MAX, &revision) || !read_number(word[2], INT64_MAX, &tuned->ns) || tuned->ns == 0)
        return false;
    tuned->revision = (uint32_t)revision;
    length_of_key = snprintf(key, ADN_TUNING_KEY, "%s | %s", word[3], line);
    return length_of_key > 0 && length_of_key < ADN_TUNING_KEY;
}

/* Control characters have no place in a line, but for a tab and the return before the newline. */
static bool is_text(const char *line, size_t length)
{
    size_t i;
    for (i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' && line[i] != '\t' && !(line[i] == '\r' && i + 1 == length)) return false;
    return true;
}

enum kind { ENTRY, COMMENT, MALFORMED }; /* blank lines are comments */

static enum kind read_line(const char *line, size_t length, struct adn_tuned *tuned, char *key)
{
    char text[ADN_TUNING_KEY + 256];
    const char *first;
    if (length >= sizeof text || !is_text(line, length)) return MALFORMED;
    memcpy(text, line, length);
    text[length] = 0;
    first = text + strspn(text, " \t\r");
    if (*first == '#' || *first == 0) return COMMENT;
    return read_entry(text, tuned, key) ? ENTRY : MALFORMED;
}

/* The next line from *at on, without its newline; false when only a piece without newline, or nothing, is left. */
static bool next_line(const char **at, size_t *left, const char **line, size_t *length)
{
    const char *end = *left ? memchr(*at, '\n', *left) : NULL;
    if (!end) return false;
    *line = *at;
    *length = (size_t)(end - *at);
    *left -= *length + 1;
    *at = end + 1;
    return true;
}

size_t adn_tuning_parse(const void *bytes, size_t size, adn_tuning_take *take, void *user)
{
    char key[ADN_TUNING_KEY];
    const char *at = bytes, *line;
    struct adn_tuned tuned;
    size_t ignored = 0, length;
    while (next_line(&at, &size, &line, &length)) {
        const enum kind kind = read_line(line, length, &tuned, key);
        if (kind == MALFORMED || (kind == ENTRY && !take(user, &tuned, key))) ignored++;
    }
    return ignored + (size > 0);
}

/* ---- table ---- */

enum { BUCKETS = 4096 };

struct entry {
    struct entry *next;
    struct adn_tuned tuned;
    char key[];
};

struct adn_tuning {
    adn_mutex *lock;
    int count;
    struct entry *bucket[BUCKETS];
};

struct adn_tuning *adn_tuning_create(void)
{
    struct adn_tuning *tuning = calloc(1, sizeof *tuning);
    if (tuning) tuning->lock = adn_mutex_create();
    if (tuning && !tuning->lock) {
        free(tuning);
        tuning = NULL;
    }
    return tuning;
}

void adn_tuning_destroy(struct adn_tuning *tuning)
{
    int i;
    if (!tuning) return;
    for (i = 0; i < BUCKETS; i++)
        while (tuning->bucket[i]) {
            struct entry *entry = tuning->bucket[i];
            tuning->bucket[i] = entry->next;
            free(entry);
        }
    adn_mutex_destroy(tuning->lock);
    free(tuning);
}

/* Where the entry of `key` is linked, or would be. */
static struct entry **place_of(struct adn_tuning *tuning, const char *key)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    const char *c;
    struct entry **at;
    for (c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3ull;
    at = &tuning->bucket[(hash ^ hash >> 32) % BUCKETS];
    while (*at && strcmp((*at)->key, key) != 0) at = &(*at)->next;
    return at;
}

static struct entry *add_entry(struct adn_tuning *tuning, struct entry **at, const char *key)
{
    const size_t size = strlen(key) + 1;
    struct entry *entry = tuning->count < ADN_TUNING_ENTRIES ? malloc(sizeof *entry + size) : NULL;
    if (!entry) return NULL;
    entry->next = NULL;
    memcpy(entry->key, key, size);
    *at = entry;
    tuning->count++;
    return entry;
}

bool adn_tuning_put(struct adn_tuning *tuning, const char *key, const struct adn_tuned *tuned)
{
    struct entry **at, *entry;
    adn_mutex_lock(tuning->lock);
    at = place_of(tuning, key);
    entry = *at ? *at : add_entry(tuning, at, key);
    if (entry) entry->tuned = *tuned;
    adn_mutex_unlock(tuning->lock);
    return entry != NULL;
}

bool adn_tuning_get(struct adn_tuning *tuning, const char *key, struct adn_tuned *tuned)
{
    const struct entry *entry;
    adn_mutex_lock(tuning->lock);
    entry = *place_of(tuning, key);
    if (entry) *tuned = entry->tuned;
    adn_mutex_unlock(tuning->lock);
    return entry != NULL;
}

int adn_tuning_count(struct adn_tuning *tuning)
{
    int count;
    adn_mutex_lock(tuning->lock);
    count = tuning->count;
    adn_mutex_unlock(tuning->lock);
    return count;
}

/* ---- keys ---- */

/* Two backends may name one device alike, so the backend's name comes first. */
static void device_word(const anydnn_context *context, char *word, size_t capacity)
{
    char *c;
    snprintf(word, capacity, "%s:%s", context->backend->name, context->device.info.name);
    for (c = word; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 127) *c = '_';
}

static double plain_value(const struct adn_problem *p, int slot)
{
    const int role = p->def->roles[slot].role;
    const int class_of = role == ANYDNN_ALPHA ? p->alpha_class : p->beta_class;
    if (role != ANYDNN_ALPHA && role != ANYDNN_BETA) return p->def->roles[slot].value;
    return class_of == ADN_CLASS_ZERO ? 0.0 : class_of == ADN_CLASS_ONE ? 1.0 : 2.0;
}

bool adn_tuning_key(const anydnn_context *context, const struct adn_problem *p, char *key, size_t capacity)
{
    struct adn_problem plain = *p;
    size_t used;
    int i;
    plain.engine[0] = 0;
    plain.seed = 0;
    plain.workspace_limit = UINT64_MAX;
    for (i = 0; i < plain.slots; i++) {
        plain.operand[i].offset = 0;
        plain.operand[i].t.alignment = 0;
        plain.operand[i].value = plain_value(p, i);
    }
    if (capacity < 160) return false;
    device_word(context, key, 140);
    used = strlen(key);
    memcpy(key + used, " | ", 4);
    used += 3;
    return adn_text_print(&plain, key + used, capacity - used) < capacity - used;
}

static const struct adn_engine *engine_of(const struct adn_backend *backend, int op, const struct adn_tuned *tuned,
                                          const char **params)
{
    const size_t length = strcspn(tuned->engine, ":");
    const struct adn_engine *engine;
    int index;
    *params = tuned->engine[length] && tuned->engine[length + 1] ? tuned->engine + length + 1 : NULL;
    for (index = 0; (engine = adn_engine_at(backend, op, index)) != NULL; index++)
        if (strlen(engine->name) == length && memcmp(engine->name, tuned->engine, length) == 0) break;
    /* What starts slowly is used only by those who name it. */
    return engine && engine->revision == tuned->revision && !(engine->traits & ANYDNN_TRAIT_SLOW_START) ? engine : NULL;
}

const struct adn_engine *adn_tuning_engine(const anydnn_context *context, const struct adn_problem *p,
                                           struct adn_tuned *tuned, const char **params)
{
    char key[ADN_TUNING_KEY];
    if (!context->tuning || adn_tuning_count(context->tuning) == 0) return NULL; /* the usual case costs no printing */
    if (!adn_tuning_key(context, p, key, sizeof key) || !adn_tuning_get(context->tuning, key, tuned)) return NULL;
    return engine_of(context->backend, p->def->op, tuned, params);
}

/* ---- files ---- */

/* True for entries of other devices, and for those of the context's that it could use. */
static bool is_current(const anydnn_context *context, const struct adn_tuned *tuned, const char *key, bool *own)
{
    char word[140], name[64];
    const char *params, *line = strstr(key, " | ");
    size_t length;
    device_word(context, word, sizeof word);
    *own = line && (size_t)(line - key) == strlen(word) && memcmp(key, word, strlen(word)) == 0;
    if (!*own) return true;
    line += 3;
    length = strcspn(line, " \t");
    if (length >= sizeof name) return false;
    memcpy(name, line, length);
    name[length] = 0;
    return anydnn_op_by_name(name) && engine_of(context->backend, anydnn_op_by_name(name), tuned, &params);
}

static bool take_own(void *user, const struct adn_tuned *tuned, const char *key)
{
    const anydnn_context *context = user;
    bool own;
    if (!is_current(context, tuned, key, &own)) return false;
    return !own || adn_tuning_put(context->tuning, key, tuned);
}

size_t adn_tuning_add(anydnn_context *context, const void *bytes, size_t size)
{
    return adn_tuning_parse(bytes, size, take_own, context);
}

/* ---- merging ---- */

static const char head[] = "# anydnn tuning: ENGINE REVISION NANOSECONDS DEVICE | PROBLEM\n";

/* Lines that are no entries, each once, in their order. */
struct others {
    struct adn_tuning *seen;
    char *text;
    size_t used, room;
};

struct filling {
    struct adn_tuning *table;
    bool short_of_memory;
};

static bool take_into(void *user, const struct adn_tuned *tuned, const char *key)
{
    struct filling *filling = user;
    const bool good = adn_tuning_put(filling->table, key, tuned);
    if (!good && adn_tuning_count(filling->table) < ADN_TUNING_ENTRIES) filling->short_of_memory = true;
    return good;
}

/* False: out of memory. */
static bool fill(struct adn_tuning *table, struct adn_tuning_text from)
{
    struct filling filling = { table, false };
    adn_tuning_parse(from.bytes, from.size, take_into, &filling);
    return !filling.short_of_memory;
}

static bool append_other(struct others *o, const char *line, size_t length)
{
    if (o->room - o->used < length + 1) {
        const size_t room = 2 * o->room + length + 1024;
        char *grown = realloc(o->text, room);
        if (!grown) return false;
        o->text = grown;
        o->room = room;
    }
    memcpy(o->text + o->used, line, length);
    o->used += length;
    o->text[o->used++] = '\n';
    return true;
}

/* False: out of memory. What is no text, or longer than any entry, goes. */
static bool keep_other(struct others *o, const char *line, size_t length)
{
    static const struct adn_tuned nothing;
    struct adn_tuned found;
    char text[ADN_TUNING_KEY + 256];
    while (length > 0 && strchr(" \t\r", line[length - 1])) length--;
    if (length == 0 || length >= sizeof text || !is_text(line, length)) return true;
    if (length == sizeof head - 2 && memcmp(line, head, length) == 0) return true;
    memcpy(text, line, length);
    text[length] = 0;
    if (adn_tuning_get(o->seen, text, &found) || adn_tuning_count(o->seen) >= ADN_TUNING_ENTRIES) return true;
    return adn_tuning_put(o->seen, text, &nothing) && append_other(o, line, length);
}

static bool keep_others(struct others *o, struct adn_tuning_text from)
{
    char key[ADN_TUNING_KEY];
    const char *at = from.bytes, *line;
    struct adn_tuned tuned;
    size_t length;
    bool good = true;
    while (good && next_line(&at, &from.size, &line, &length))
        if (read_line(line, length, &tuned, key) != ENTRY) good = keep_other(o, line, length);
    return good;
}

/* Where both have an entry, that of `from` comes in when it is faster or the other one is of no use. */
static bool bring_in(const anydnn_context *context, struct adn_tuning *from, struct adn_tuning *all)
{
    const struct entry *entry;
    struct adn_tuned there;
    bool good = true, mine;
    int i;
    adn_mutex_lock(from->lock);
    for (i = 0; i < BUCKETS && good; i++)
        for (entry = from->bucket[i]; entry && good; entry = entry->next) {
            const bool known = adn_tuning_get(all, entry->key, &there);
            if (known && !is_current(context, &entry->tuned, entry->key, &mine)) continue;
            if (!known || there.ns > entry->tuned.ns || !is_current(context, &there, entry->key, &mine))
                good = adn_tuning_put(all, entry->key, &entry->tuned);
        }
    adn_mutex_unlock(from->lock);
    return good;
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct entry *const *)a)->key, (*(const struct entry *const *)b)->key);
}

/* Sorted, so that files compare well. */
static char *print_all(const struct others *others, const struct adn_tuning *all, size_t *size)
{
    const struct entry **sorted = malloc(((size_t)all->count + 1) * sizeof *sorted), *entry;
    size_t room = sizeof head + others->used, used = sizeof head - 1;
    char *text;
    int count = 0, i;
    for (i = 0; sorted && i < BUCKETS; i++)
        for (entry = all->bucket[i]; entry; entry = entry->next) {
            sorted[count++] = entry;
            room += strlen(entry->key) + ADN_ENGINE_ID + 40;
        }
    text = sorted ? malloc(room) : NULL;
    if (text) {
        qsort(sorted, (size_t)count, sizeof *sorted, by_key);
        memcpy(text, head, used);
        if (others->used) memcpy(text + used, others->text, others->used);
        used += others->used;
        for (i = 0; i < count; i++)
            used += (size_t)snprintf(text + used, room - used, "%s %u %llu %s\n", sorted[i]->tuned.engine,
                                     sorted[i]->tuned.revision, (unsigned long long)sorted[i]->tuned.ns, sorted[i]->key);
        *size = used;
    }
    free(sorted);
    return text;
}

static char *merge(const anydnn_context *context, struct adn_tuning_text now, struct adn_tuning_text late,
                   struct adn_tuning *all, struct adn_tuning *before, struct others *others, size_t *size)
{
    if (!fill(all, now) || !fill(before, late)) return NULL;
    if (!keep_others(others, now) || !keep_others(others, late)) return NULL;
    if (!bring_in(context, before, all) || !bring_in(context, context->tuning, all)) return NULL;
    return print_all(others, all, size);
}

char *adn_tuning_merge(const anydnn_context *context, struct adn_tuning_text now, struct adn_tuning_text late,
                       size_t *merged_size)
{
    struct adn_tuning *all = adn_tuning_create(), *before = adn_tuning_create();
    struct others others = { adn_tuning_create(), NULL, 0, 0 };
    char *text = NULL;
    if (all && before && others.seen) text = merge(context, now, late, all, before, &others, merged_size);
    adn_tuning_destroy(all);
    adn_tuning_destroy(before);
    adn_tuning_destroy(others.seen);
    free(others.text);
    return text;
}
