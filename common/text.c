/* SPDX-License-Identifier: Apache-2.0
 * common/text.c: parser and printer of problem lines. Numbers use '.' whatever the program's locale. */
#include "text.h"

#include "ops/rules.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_LINE = 4096, MAX_WORD = 512 };

static const char *const math_names[] = { "default", "strict", "tf32", "fast", NULL };
static const char common_keys[] = "math, det, ws, engine, align, seed";

/* ---- printer ---- */

struct writer {
    char *text;
    size_t capacity, length;
};

static void put(struct writer *w, const char *format, ...) ADN_PRINTF(2, 3);
static void put(struct writer *w, const char *format, ...)
{
    const size_t room = w->length < w->capacity ? w->capacity - w->length : 0;
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vsnprintf(room ? w->text + w->length : NULL, room, format, arguments);
    va_end(arguments);
    if (length > 0) w->length += (size_t)length;
}

/* Shortest of 9 and 17 digits that reads back the same. */
static void put_number(struct writer *w, double value)
{
    char text[40], *comma;
    snprintf(text, sizeof text, "%.9g", value);
    if (strtod(text, NULL) != value) snprintf(text, sizeof text, "%.17g", value);
    comma = strpbrk(text, localeconv()->decimal_point);
    if (comma) *comma = '.';
    put(w, "%s", text);
}

static bool has_strides_of(const anydnn_tensor *t, const anydnn_tensor *like)
{
    int i;
    for (i = 0; i < t->ndim; i++)
        if (t->dims[i] > 1 && t->strides[i] != like->strides[i]) return false;
    return true;
}

static void put_layout(struct writer *w, const anydnn_tensor *t)
{
    const anydnn_tensor packed = anydnn_tensor_packed(t->dtype, t->ndim, t->dims);
    const anydnn_tensor last = anydnn_tensor_channels_last(t->dtype, t->ndim, t->dims);
    int i;
    if (adn_is_empty(t) || has_strides_of(t, &packed)) return;
    if (has_strides_of(t, &last)) {
        put(w, ":nhwc");
        return;
    }
    for (i = 0; i < t->ndim; i++) put(w, "%s%lld", i ? "," : ":s", (long long)t->strides[i]);
}

static void put_tensor(struct writer *w, const struct adn_problem *p, int slot)
{
    const struct adn_operand *o = &p->operand[slot];
    char dims[192];
    adn_dims_text(&o->t, dims, sizeof dims);
    put(w, " %s=%s", adn_role_text(p->def->roles[slot].role), dims);
    put_layout(w, &o->t);
    put(w, "/%s", anydnn_dtype_name(o->t.dtype));
    if (o->offset) put(w, "@%llu", (unsigned long long)o->offset);
    if (o->alias >= 0) put(w, "&%s", adn_role_text(p->def->roles[o->alias].role));
}

static int first_tensor(const struct adn_problem *p)
{
    int i = 0;
    while (!p->operand[i].present || (p->def->roles[i].flags & ANYDNN_ROLE_SCALAR)) i++;
    return i;
}

static void put_key(struct writer *w, const struct adn_problem *p, const struct adn_key_def *key)
{
    const unsigned char *member = (const unsigned char *)&p->desc + key->offset;
    const int rank = p->operand[first_tensor(p)].t.ndim - 2;
    int32_t number;
    int64_t wide[3];
    uint32_t axes;
    int i;
    put(w, " %s=", key->name);
    switch (key->type) {
    case ADN_KEY_I32:
        memcpy(&number, member, sizeof number);
        put(w, "%d", number);
        break;
    case ADN_KEY_ENUM:
        memcpy(&number, member, sizeof number);
        put(w, "%s", key->names[number]);
        break;
    case ADN_KEY_I64:
        memcpy(wide, member, sizeof wide[0]);
        put(w, "%lld", (long long)wide[0]);
        break;
    case ADN_KEY_I64S:
        memcpy(wide, member, sizeof wide);
        for (i = 0; i < rank; i++) put(w, "%s%lld", i ? "," : "", (long long)wide[i]);
        break;
    case ADN_KEY_AXES:
        memcpy(&axes, member, sizeof axes);
        for (i = 0; i < ANYDNN_MAX_DIMS; i++)
            if (axes >> i & 1u) put(w, "%s%d", axes & ((1u << i) - 1u) ? "," : "", i);
        break;
    }
}

static void put_alignment(struct writer *w, const struct adn_problem *p)
{
    int32_t all[ADN_MAX_ROLES] = { 0 };
    int count = 0, i;
    bool same = true;
    for (i = 0; i < p->slots; i++)
        if (p->operand[i].present && !(p->def->roles[i].flags & ANYDNN_ROLE_SCALAR)) {
            all[count++] = p->operand[i].t.alignment;
            same = same && all[count - 1] == all[0];
        }
    if (same && all[0] == 0) return;
    for (i = 0; i < (same ? 1 : count); i++) put(w, "%s%d", i ? "," : " align=", all[i]);
}

static void put_prefs(struct writer *w, const struct adn_problem *p)
{
    if (p->math != ANYDNN_MATH_DEFAULT) put(w, " math=%s", math_names[p->math]);
    if (p->deterministic) put(w, " det=1");
    if (p->batch_invariant) put(w, " batch_invariant=1");
    if (p->workspace_limit != UINT64_MAX) put(w, " ws=%llu", (unsigned long long)p->workspace_limit);
    if (p->engine[0]) put(w, " engine=%s", p->engine);
    put_alignment(w, p);
    if (p->seed) put(w, " seed=%llu", (unsigned long long)p->seed);
}

size_t adn_text_print(const struct adn_problem *p, char *text, size_t capacity)
{
    struct writer w = { text, capacity, 0 };
    const struct adn_key_def *key;
    int i;
    if (capacity) text[0] = 0;
    put(&w, "%s", p->def->name);
    for (i = 0; i < p->slots; i++)
        if (p->operand[i].present && !(p->def->roles[i].flags & ANYDNN_ROLE_SCALAR)) put_tensor(&w, p, i);
    for (key = p->def->keys; key->name; key++) put_key(&w, p, key);
    for (i = 0; i < p->slots; i++)
        if (p->def->roles[i].flags & ANYDNN_ROLE_SCALAR) {
            put(&w, " %s=%s", adn_role_text(p->def->roles[i].role), p->operand[i].device ? "device:" : "");
            put_number(&w, p->operand[i].value);
        }
    put_prefs(&w, p);
    return w.length;
}

/* ---- parser ---- */

struct parser {
    const struct adn_op_def *def;
    union adn_desc desc;
    anydnn_prefs prefs;
    char engine[ADN_ENGINE_ID];
    anydnn_tensor tensor[ADN_MAX_ROLES];
    anydnn_binding binding[ADN_MAX_ROLES];
    char alias[ADN_MAX_ROLES][32]; /* role name behind '&', "" = none */
    int count;
    int32_t align[ADN_MAX_ROLES];
    int aligns;
    uint64_t seed;
    bool channels_last, pad_mode_given, pad_end_given;
};

static anydnn_status malformed(const char *word, const char *accepted)
{
    return adn_fail(ANYDNN_INVALID, "'%s': accepted: %s", word, accepted);
}

/* Reads a whole number from *at and moves on. */
static bool read_whole(const char **at, int64_t *value)
{
    char *end;
    if (**at != '-' && (**at < '0' || **at > '9')) return false;
    errno = 0;
    *value = strtoll(*at, &end, 10);
    if (end == *at || errno) return false;
    *at = end;
    return true;
}

static bool read_wholes(const char *at, char separator, int least, int most, int64_t *values, int *count)
{
    *count = 0;
    for (;;) {
        if (*count == most || !read_whole(&at, &values[(*count)++])) return false;
        if (*at == 0) return *count >= least;
        if (*at++ != separator) return false;
    }
}

static bool read_real(const char *at, double *value)
{
    char text[64], *dot, *end;
    if (strlen(at) >= sizeof text || strpbrk(at, " \t,")) return false;
    strcpy(text, at);
    dot = strchr(text, '.');
    if (dot) *dot = localeconv()->decimal_point[0];
    *value = strtod(text, &end);
    return end != text && *end == 0;
}

static int dtype_by_name(const char *name)
{
    int dtype;
    for (dtype = ANYDNN_F32; dtype <= ANYDNN_I64; dtype++)
        if (strcmp(anydnn_dtype_name(dtype), name) == 0) return dtype;
    return 0;
}

/* Cuts *text at the first `mark` and returns what follows it, NULL when there is none. */
static char *cut(char *text, char mark)
{
    char *at = strchr(text, mark);
    if (at) *at++ = 0;
    return at;
}

static bool read_layout(struct parser *q, const char *layout, int64_t *dims, int ndim, anydnn_tensor *t)
{
    int64_t strides[ANYDNN_MAX_DIMS];
    int count, i;
    *t = anydnn_tensor_packed(t->dtype, ndim, dims);
    if (!layout || strcmp(layout, "nchw") == 0) return true;
    if (strcmp(layout, "nhwc") == 0) {
        if (q->count == 0) q->channels_last = true;
        *t = anydnn_tensor_channels_last(t->dtype, ndim, dims);
        return true;
    }
    if (layout[0] != 's' || !read_wholes(layout + 1, ',', ndim, ndim, strides, &count)) return false;
    for (i = 0; i < ndim; i++) t->strides[i] = strides[i];
    return true;
}

/* DIMS[:layout]/dtype[@offset][&role] */
static anydnn_status read_tensor(struct parser *q, int role, const char *word, char *value)
{
    static const char form[] = "role=DIMS[:nhwc|:nchw|:sS0,S1,..]/dtype[@byteoffset][&role], as in x=64x3x7x7:nhwc/f16";
    char *alias = cut(value, '&'), *offset = cut(value, '@'), *dtype = cut(value, '/'), *layout = cut(value, ':');
    anydnn_tensor *t = &q->tensor[q->count];
    anydnn_mem mem = { NULL, 0, 0, ANYDNN_MEM_OPENCL, 0 };
    int64_t dims[ANYDNN_MAX_DIMS], number;
    int ndim;
    memset(t, 0, sizeof *t);
    t->dtype = dtype ? dtype_by_name(dtype) : ANYDNN_F32;
    if (!t->dtype || !read_wholes(value, 'x', 1, ANYDNN_MAX_DIMS, dims, &ndim) || !read_layout(q, layout, dims, ndim, t))
        return malformed(word, form);
    if (offset) {
        const char *at = offset;
        if (!read_whole(&at, &number) || *at || number < 0) return malformed(word, form);
        mem.offset = (uint64_t)number;
    }
    if (alias && (!anydnn_role_by_name(alias) || strlen(alias) >= sizeof q->alias[0])) return malformed(word, form);
    strcpy(q->alias[q->count], alias ? alias : "");
    mem.base = &q->tensor[q->count]; /* a place of its own: a handle, whatever the tensor's extent */
    q->binding[q->count] = anydnn_bind(role, t, mem);
    q->count++;
    return ANYDNN_OK;
}

static anydnn_status read_scalar(struct parser *q, int role, const char *word, const char *value)
{
    const bool device = strncmp(value, "device:", 7) == 0;
    double number;
    if (!read_real(device ? value + 7 : value, &number)) return malformed(word, "role=NUMBER or role=device:NUMBER");
    q->binding[q->count] = anydnn_bind_value(role, number);
    if (device) q->binding[q->count].mem.kind = ANYDNN_MEM_HOST;
    q->count++;
    return ANYDNN_OK;
}

static anydnn_status read_enum(const char *word, const char *value, const char *const *names, int32_t *number)
{
    char accepted[128] = "";
    for (*number = 0; names[*number]; (*number)++) {
        if (strcmp(names[*number], value) == 0) return ANYDNN_OK;
        if (accepted[0]) strcat(accepted, ", ");
        strcat(accepted, names[*number]);
    }
    return malformed(word, accepted);
}

static anydnn_status read_key(struct parser *q, const struct adn_key_def *key, const char *word, const char *value)
{
    unsigned char *member = (unsigned char *)&q->desc + key->offset;
    int64_t numbers[ANYDNN_MAX_DIMS];
    int32_t number;
    uint32_t axes = 0;
    int count, i;
    if (strcmp(key->name, "pad_end") == 0) q->pad_end_given = true;
    if (key->type == ADN_KEY_ENUM) {
        ADN_TRY(read_enum(word, value, key->names, &number));
        memcpy(member, &number, sizeof number);
        if (strcmp(key->name, "pad_mode") == 0) q->pad_mode_given = true;
        return ANYDNN_OK;
    }
    if (!read_wholes(value, ',', 1, key->type == ADN_KEY_AXES ? 8 : key->type == ADN_KEY_I64S ? 3 : 1, numbers, &count))
        return malformed(word, key->type == ADN_KEY_I64S ? "one whole number for each spatial axis, separated by ','"
                                                         : "whole numbers, separated by ','");
    if (key->type == ADN_KEY_I64S || key->type == ADN_KEY_I64) {
        memcpy(member, numbers, (size_t)count * sizeof numbers[0]);
    } else if (key->type == ADN_KEY_I32) {
        number = (int32_t)numbers[0];
        if (number != numbers[0]) return malformed(word, "a number of 32 bits");
        memcpy(member, &number, sizeof number);
    } else {
        for (i = 0; i < count; i++) {
            if (numbers[i] < 0 || numbers[i] >= ANYDNN_MAX_DIMS) return malformed(word, "axes 0 to 7, separated by ','");
            axes |= 1u << numbers[i];
        }
        memcpy(member, &axes, sizeof axes);
    }
    return ANYDNN_OK;
}

/* math, det, ws, engine, align, seed; *known = false for another word. */
static anydnn_status read_common(struct parser *q, const char *name, const char *word, const char *value, bool *known)
{
    int64_t numbers[ADN_MAX_ROLES];
    int count, i;
    *known = true;
    if (strcmp(name, "math") == 0) return read_enum(word, value, math_names, &q->prefs.math);
    if (strcmp(name, "engine") == 0) {
        if (!value[0] || strlen(value) >= sizeof q->engine) return malformed(word, "an engine id of up to 63 characters");
        strcpy(q->engine, value);
        return ANYDNN_OK;
    }
    if (strcmp(name, "align") == 0) {
        if (!read_wholes(value, ',', 1, ADN_MAX_ROLES, numbers, &q->aligns)) return malformed(word, "bytes, one number or one for each tensor");
        for (i = 0; i < q->aligns; i++) {
            if (numbers[i] < 0 || numbers[i] > 4096) return malformed(word, "0 to 4096");
            q->align[i] = (int32_t)numbers[i];
        }
        return ANYDNN_OK;
    }
    *known = strcmp(name, "det") == 0 || strcmp(name, "batch_invariant") == 0 || strcmp(name, "ws") == 0 || strcmp(name, "seed") == 0;
    if (!*known) return ANYDNN_OK;
    if (!read_wholes(value, ',', 1, 1, numbers, &count) || numbers[0] < 0) return malformed(word, "a whole number from 0");
    if (name[0] == 'd') q->prefs.deterministic = (int32_t)(numbers[0] != 0);
    if (name[0] == 'b') q->prefs.batch_invariant = (int32_t)(numbers[0] != 0);
    if (name[0] == 'w') q->prefs.workspace_limit = numbers[0] ? (uint64_t)numbers[0] : ANYDNN_NO_WORKSPACE;
    if (name[0] == 's') q->seed = (uint64_t)numbers[0];
    return ANYDNN_OK;
}

static bool has_role(const struct adn_op_def *def, int role, uint32_t *flags)
{
    int i;
    for (i = 0; def->roles[i].role; i++)
        if (def->roles[i].role == role) {
            *flags = def->roles[i].flags;
            return true;
        }
    return false;
}

static anydnn_status unknown_word(const struct adn_op_def *def, const char *word)
{
    char accepted[600] = "";
    const struct adn_key_def *key;
    int i;
    for (i = 0; def->roles[i].role; i++) {
        strcat(accepted, adn_role_text(def->roles[i].role));
        strcat(accepted, ", ");
    }
    for (key = def->keys; key->name; key++) {
        strcat(accepted, key->name);
        strcat(accepted, ", ");
    }
    strcat(accepted, common_keys);
    return adn_fail(ANYDNN_INVALID, "'%s' is no word of %s; accepted: %s", word, def->name, accepted);
}

static anydnn_status read_word(struct parser *q, const char *word)
{
    char name[MAX_WORD], *value;
    const struct adn_key_def *key;
    uint32_t flags;
    int role;
    bool known;
    strcpy(name, word);
    value = cut(name, '=');
    if (!value) return malformed(word, "name=value");
    role = anydnn_role_by_name(name);
    if (role && has_role(q->def, role, &flags)) {
        if (q->count == ADN_MAX_ROLES) return malformed(word, "each role once");
        return flags & ANYDNN_ROLE_SCALAR ? read_scalar(q, role, word, value) : read_tensor(q, role, word, value);
    }
    for (key = q->def->keys; key->name; key++)
        if (strcmp(key->name, name) == 0) return read_key(q, key, word, value);
    ADN_TRY(read_common(q, name, word, value, &known));
    return known ? ANYDNN_OK : unknown_word(q->def, word);
}

/* Roles with '&' move to the place of the role they name. */
static anydnn_status place_aliases(struct parser *q)
{
    int i, j;
    for (i = 0; i < q->count; i++) {
        if (!q->alias[i][0] || !q->binding[i].tensor) continue;
        for (j = 0; j < q->count; j++)
            if (q->binding[j].role == anydnn_role_by_name(q->alias[i]) && q->binding[j].tensor && j != i) break;
        if (j == q->count) return malformed(q->alias[i], "behind '&' a tensor role of the line");
        q->binding[i].mem = q->binding[j].mem;
    }
    return ANYDNN_OK;
}

static anydnn_status apply_alignment(struct parser *q)
{
    int i, tensor = 0;
    for (i = 0; i < q->count; i++) {
        if (!q->binding[i].tensor) continue;
        if (q->aligns > 1 && tensor >= q->aligns) return malformed("align", "one number or one for each tensor of the line");
        if (q->aligns) q->tensor[i].alignment = q->align[q->aligns > 1 ? tensor : 0];
        tensor++;
    }
    if (q->aligns > 1 && tensor != q->aligns) return malformed("align", "one number or one for each tensor of the line");
    return ANYDNN_OK;
}

/* pad_end in a line says that pads are explicit, unless the line says otherwise. */
static void imply_pad_mode(struct parser *q)
{
    const int32_t explicit_mode = ANYDNN_PAD_EXPLICIT;
    const struct adn_key_def *key;
    if (!q->pad_end_given || q->pad_mode_given) return;
    for (key = q->def->keys; key->name; key++)
        if (strcmp(key->name, "pad_mode") == 0)
            memcpy((unsigned char *)&q->desc + key->offset, &explicit_mode, sizeof explicit_mode);
}

static anydnn_status finish(struct parser *q, struct adn_problem *p)
{
    int i;
    ADN_TRY(place_aliases(q));
    ADN_TRY(apply_alignment(q));
    if (q->engine[0]) q->prefs.engine = q->engine;
    imply_pad_mode(q);
    ADN_TRY(adn_problem_init(p, &q->desc.head, &q->prefs, q->binding, q->count, true));
    ADN_TRY(adn_problem_complete(p, q->channels_last));
    if (q->aligns == 1)
        for (i = 0; i < p->slots; i++)
            if (p->operand[i].present && !(p->def->roles[i].flags & ANYDNN_ROLE_SCALAR)) p->operand[i].t.alignment = q->align[0];
    p->seed = q->seed;
    return ANYDNN_OK;
}

anydnn_status adn_text_parse(const char *line, struct adn_problem *p)
{
    static const anydnn_prefs no_prefs = ANYDNN_PREFS_INIT;
    struct parser q;
    char word[MAX_WORD];
    memset(&q, 0, sizeof q);
    q.prefs = no_prefs;
    if (strlen(line) > MAX_LINE) return adn_fail(ANYDNN_INVALID, "line of %zu characters; accepted: up to %d", strlen(line), MAX_LINE);
    for (;;) {
        size_t length;
        line += strspn(line, " \t\r\n");
        length = strcspn(line, " \t\r\n#");
        if (length == 0) break; /* end, or a comment */
        if (length >= sizeof word) return adn_fail(ANYDNN_INVALID, "word of %zu characters; accepted: up to %d", length, MAX_WORD - 1);
        memcpy(word, line, length);
        word[length] = 0;
        line += length;
        if (q.def) {
            ADN_TRY(read_word(&q, word));
            continue;
        }
        q.def = adn_op_def(anydnn_op_by_name(word));
        if (!q.def) return adn_fail(ANYDNN_INVALID, "'%s' is no operation; accepted: conv_forward, matmul, ... (anydnn list prints them all)", word);
        q.desc.head.struct_size = (uint32_t)q.def->desc_size;
        q.desc.head.op = q.def->op;
    }
    if (!q.def) return adn_fail(ANYDNN_INVALID, "empty line; accepted: an operation and its tensors");
    return finish(&q, p);
}
