/* Private to gguf/: the parser's state and the steps it is made of. */
#ifndef HL_GGUF_PARSER_H
#define HL_GGUF_PARSER_H

#include "gguf/gguf.h"

/* Limits on what a header may claim. Memory is taken as bytes arrive, never for a claim. */
#define MAX_HEADER ((size_t)512 << 20) /* bytes; offsets into the header fit 32 bits */
#define MAX_VALUES ((uint64_t)1 << 17)
#define MAX_TENSORS ((uint64_t)1 << 17)
#define MAX_NAME ((size_t)65535)     /* bytes of a key or a tensor name; the specification's limit for keys */
#define MAX_FILE ((uint64_t)1 << 52) /* bytes; exact as a double */

enum {
    MAX_DIMS = 4,
    MAX_DEPTH = 2,   /* arrays of arrays, no deeper */
    MARK_EVERY = 16, /* every 16th string of an array has its place remembered */
    FIRST_WINDOW = 64 << 10,
    MAX_WINDOW =
        1 << 20, /* of the header: more than that and too much of the tensors behind it is copied twice */
    SKIP_WINDOW = 32 << 10,
};

/* What a step answers when the bytes it needs have not arrived: it is tried again from where it began. */
#define NEED_MORE ((hl_status)1)

enum stage { STAGE_FIXED, STAGE_VALUES, STAGE_TENSORS, STAGE_DATA, STAGE_END };

/* A metadata entry; places are offsets from the start of the file. */
struct entry {
    uint32_t key, key_n;
    uint32_t at;   /* its first element */
    uint32_t mark; /* arrays of strings: marks[mark + j / MARK_EVERY] is the place of string j */
    int32_t n;
    uint8_t type;
    bool is_array;
};

struct info {
    uint32_t name, name_n;
    struct gguf_tensor tensor; /* its name is filled in once the header stays in place */
};

/* Places in which to look a name up: sorted by name. */
struct named {
    struct str name;
    int index;
};

struct slice {
    uint64_t offset;
    int index;
};

struct gguf {
    struct mem *mem;
    struct gguf_sink sink;
    enum stage stage;
    hl_status status; /* the first failure; final */
    char message[512];

    uint8_t *head;                /* the file's first bytes, kept */
    size_t head_cap, head_n, pos; /* pos: parsed so far */
    uint8_t *rest; /* the buffer that the header came in; what is behind the header is the data's beginning */
    size_t rest_cap, rest_n, rest_pos;
    size_t window;    /* size of the window that was given out */
    uint64_t arrived; /* bytes */

    uint32_t version, alignment;
    uint64_t want_values, want_tensors;
    struct entry *entries;
    int n_entries, cap_entries;
    uint32_t *marks;
    int n_marks, cap_marks;
    struct info *infos;
    int n_infos, cap_infos;
    struct named *keys, *names; /* [n_entries], [n_infos] */
    struct slice *order;        /* [n_infos], by offset */

    /* The value that is being walked: elements left on each level of nesting. */
    int depth;
    struct {
        uint32_t type;
        uint64_t left;
    } level[MAX_DEPTH];

    uint64_t data_start, file_bytes;
    uint64_t at;  /* place in the file of the next data byte */
    int next;     /* in order: the tensor that comes next or is being read */
    bool begun;   /* it is being read */
    uint8_t *dst; /* its room; NULL: skipped */
    uint8_t skip[SKIP_WINDOW];
};

/* Takes steps through the header until it is complete (HL_OK) or bytes are missing (NEED_MORE). */
hl_status header_parse(struct gguf *g);

/* What the first n bytes of a file are when they are no GGUF file. */
hl_status header_refuse_magic(const uint8_t *p, size_t n);

/* Checks that need the whole header, and the look-up tables. */
hl_status header_index(struct gguf *g);

/* Bytes of one element; 0 for strings, arrays and unknown types. */
size_t value_size(uint32_t type);
const char *value_type_name(uint32_t type);

/* Makes room for one more element in an array that grows: items has n of cap elements. */
hl_status grow_array(struct mem *mem, void **items, int n, int *cap, size_t size);

static inline uint32_t load_u32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t load_u64(const uint8_t *p) { return load_u32(p) | (uint64_t)load_u32(p + 4) << 32; }

#endif
