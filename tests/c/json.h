/* A small JSON reader for test data: trusted files only, memory is given back all at once. */
#ifndef HL_TEST_JSON_H
#define HL_TEST_JSON_H

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_type type;
    double number;    /* numbers; 0 or 1 for booleans */
    const char *text; /* strings: UTF-8, terminated, and n bytes without the terminator (it may hold zeros) */
    size_t n;         /* bytes of a string, elements of an array or object */
    const char *key;  /* name within the object around it */
    struct json *child, *next; /* first element; next one of the array or object around it */
};

struct json_doc {
    char *source; /* strings are decoded in place */
    struct json *root, *nodes;
    size_t n_nodes, room;
};

/* Elements in order: for (const struct json *v = array->child; v; v = v->next). */

/* The member called key; NULL when absent or when object is none. */
static inline const struct json *json_get(const struct json *object, const char *key) {
    if (!object || object->type != JSON_OBJECT) return NULL;
    const struct json *v = object->child;
    while (v && strcmp(v->key, key) != 0) v = v->next;
    return v;
}

/* Element i, counted from the start: use the list for long arrays. */
static inline const struct json *json_at(const struct json *array, size_t i) {
    const struct json *v = array ? array->child : NULL;
    while (v && i-- > 0) v = v->next;
    return v;
}

/* Numbers, and the strings "inf", "-inf", "nan" that stand for what JSON cannot say; missing when v is
 * neither. */
static inline double json_number(const struct json *v, double missing) {
    if (!v) return missing;
    if (v->type == JSON_NUMBER || v->type == JSON_BOOL) return v->number;
    if (v->type != JSON_STRING) return missing;
    if (strcmp(v->text, "-inf") == 0) return -(double)INFINITY;
    if (strcmp(v->text, "inf") == 0) return (double)INFINITY;
    return strcmp(v->text, "nan") == 0 ? (double)NAN : missing;
}

static inline const char *json_text(const struct json *v) {
    return v && v->type == JSON_STRING ? v->text : NULL;
}

/* Copies an array of numbers; returns how many there are in all. out: [capacity] */
static inline size_t json_floats(const struct json *array, float *out, size_t capacity) {
    size_t i = 0;
    for (const struct json *v = array ? array->child : NULL; v; v = v->next, i++)
        if (i < capacity) out[i] = (float)json_number(v, 0);
    return i;
}

static inline size_t json_ints(const struct json *array, int32_t *out, size_t capacity) {
    size_t i = 0;
    for (const struct json *v = array ? array->child : NULL; v; v = v->next, i++)
        if (i < capacity) out[i] = (int32_t)json_number(v, 0);
    return i;
}

static inline char *json_space(char *p) {
    while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') p++;
    return p;
}

static inline char *json_put_utf8(char *out, unsigned cp) {
    if (cp < 0x80) {
        *out++ = (char)cp;
        return out;
    }
    int more = cp < 0x800 ? 1 : cp < 0x10000 ? 2 : 3;
    *out++ = (char)((0xf0 << (3 - more)) | (cp >> (6 * more)));
    while (more-- > 0) *out++ = (char)(0x80 | ((cp >> (6 * more)) & 0x3f));
    return out;
}

/* Four hex digits. */
static inline unsigned json_hex4(const char *p) {
    char digits[5] = {p[0], p[1], p[2], p[3], 0};
    return (unsigned)strtoul(digits, NULL, 16);
}

/* Decodes the string that starts behind the quote at p, in place; returns what follows it. Lone surrogates
 * become U+FFFD. */
static inline char *json_string(char *p, size_t *n) {
    char *out = p, *start = p;
    while (*p != '"') {
        assert(*p && "json: string without end");
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        char c = p[1];
        p += 2;
        if (c == 'u') {
            unsigned cp = json_hex4(p);
            p += 4;
            if (cp >= 0xd800 && cp < 0xdc00 && p[0] == '\\' && p[1] == 'u') {
                cp = 0x10000 + ((cp - 0xd800) << 10) + (json_hex4(p + 2) - 0xdc00);
                p += 6;
            }
            out = json_put_utf8(out, cp >= 0xd800 && cp < 0xe000 ? 0xfffd : cp);
        } else {
            const char *from = "nrtbf", *to = "\n\r\t\b\f", *at = strchr(from, c);
            *out++ = at ? to[at - from] : c;
        }
    }
    *n = (size_t)(out - start);
    *out = 0;
    return p + 1;
}

static inline char *json_value(struct json_doc *d, char *p, struct json **out);

/* Elements up to the closing bracket; p is behind the opening one. */
static inline char *json_elements(struct json_doc *d, char *p, struct json *in) {
    char close = in->type == JSON_ARRAY ? ']' : '}';
    struct json **link = &in->child;
    p = json_space(p);
    while (*p != close) {
        const char *key = NULL;
        if (in->type == JSON_OBJECT) {
            size_t n;
            assert(*p == '"' && "json: key expected");
            key = p + 1;
            p = json_space(json_string(p + 1, &n));
            assert(*p == ':' && "json: colon expected");
            p++;
        }
        struct json *v;
        p = json_space(json_value(d, json_space(p), &v));
        v->key = key;
        *link = v;
        link = &v->next;
        in->n++;
        assert((*p == ',' || *p == close) && "json: comma or bracket expected");
        if (*p == ',') p = json_space(p + 1);
    }
    return p + 1;
}

static inline char *json_value(struct json_doc *d, char *p, struct json **out) {
    assert(d->n_nodes < d->room);
    struct json *v = *out = &d->nodes[d->n_nodes++];
    if (*p == '"') {
        v->type = JSON_STRING;
        v->text = p + 1;
        return json_string(p + 1, &v->n);
    }
    if (*p == '[' || *p == '{') {
        v->type = *p == '[' ? JSON_ARRAY : JSON_OBJECT;
        return json_elements(d, p + 1, v);
    }
    if (*p == 't' || *p == 'f') {
        v->type = JSON_BOOL;
        v->number = *p == 't';
        return p + (*p == 't' ? 4 : 5);
    }
    if (*p == 'n') return p + 4;
    char *end;
    v->type = JSON_NUMBER;
    v->number = strtod(p, &end);
    assert(end != p && "json: value expected");
    return end;
}

/* Takes source (malloc'd, terminated). Every value but the first follows a bracket, a comma or a colon, so
 * these bound the number of nodes. */
static inline struct json_doc json_parse(char *source) {
    struct json_doc d = {.source = source, .room = 1};
    for (const char *p = source; *p; p++) d.room += *p == ',' || *p == '[' || *p == '{';
    d.nodes = calloc(d.room, sizeof *d.nodes);
    assert(d.nodes);
    json_value(&d, json_space(source), &d.root);
    return d;
}

static inline void json_free(struct json_doc *d) {
    free(d->nodes);
    free(d->source);
    *d = (struct json_doc){0};
}

/* Reads and parses a file; root is NULL when it cannot be opened. */
static inline struct json_doc json_load(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return (struct json_doc){0};
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *source = malloc(n + 1);
    assert(source);
    n = fread(source, 1, n, f);
    source[n] = 0;
    fclose(f);
    return json_parse(source);
}

#endif
