#include "gguf/gguf.h"

#include "gguf_builder.h"
#include "test.h"

enum { MAX_SEEN = 16 };

/* A sink that keeps every tensor's bytes, in exactly their size. */
struct recorder {
    int n_headers, n_begun, n_done;
    int order[MAX_SEEN]; /* tensors as they came */
    uint8_t *data[MAX_SEEN];
    int skip; /* this tensor is skipped */
    hl_status header_status, begin_status, done_status;
};

static hl_status rec_header(void *ctx, const struct gguf *g) {
    struct recorder *r = ctx;
    EXPECT(gguf_has_header(g));
    r->n_headers++;
    return r->header_status ? status_set(r->header_status, "no such header") : HL_OK;
}

static hl_status rec_begin(void *ctx, const struct gguf *g, int i, uint8_t **dst) {
    struct recorder *r = ctx;
    if (r->begin_status) return status_set(r->begin_status, "no such tensor");
    r->order[r->n_begun++] = i;
    *dst = i == r->skip ? NULL : malloc((size_t)gguf_tensor(g, i)->n_bytes);
    r->data[i] = *dst;
    return HL_OK;
}

static hl_status rec_done(void *ctx, const struct gguf *g, int i) {
    struct recorder *r = ctx;
    (void)g;
    EXPECT_EQ(r->order[r->n_done++], i);
    return r->done_status ? status_set(r->done_status, "not done") : HL_OK;
}

/* One parser with its recorder and its memory. */
struct parsing {
    struct mem mem;
    struct recorder r;
    struct gguf *g;
};

static void parsing_start(struct parsing *p) {
    *p = (struct parsing){.r.skip = -1};
    struct gguf_sink sink = {&p->r, rec_header, rec_begin, rec_done};
    p->g = gguf_new(&p->mem, &sink);
}

/* Pushes n bytes in pieces; stops where the parser wants no more. */
static hl_status parsing_push(struct parsing *p, const uint8_t *bytes, size_t n, size_t piece) {
    while (n > 0) {
        size_t room;
        uint8_t *window = gguf_window(p->g, &room);
        if (!window) return hl_error_code();
        if (room == 0) break;
        size_t k = room < n ? room : n;
        if (k > piece) k = piece;
        memcpy(window, bytes, k);
        TRY(gguf_commit(p->g, k));
        bytes += k;
        n -= k;
    }
    return HL_OK;
}

static hl_status parsing_run(struct parsing *p, const uint8_t *bytes, size_t n, size_t piece) {
    TRY(parsing_push(p, bytes, n, piece));
    return gguf_finish(p->g);
}

static void parsing_end(struct parsing *p) {
    gguf_free(p->g);
    for (int i = 0; i < MAX_SEEN; i++) free(p->r.data[i]);
    for (int i = 0; i < MEM_KINDS; i++) EXPECT_EQ(p->mem.used[i], 0);
}

/* Parses what the builder holds; the caller ends it. */
static hl_status parse_built(struct parsing *p, struct builder *b, size_t piece) {
    size_t n;
    uint8_t *bytes = gguf_built(b, &n);
    parsing_start(p);
    hl_status status = parsing_run(p, bytes, n, piece);
    free(bytes);
    return status;
}

/* What the builder holds is refused with this status and these words, whole and in small pieces. */
static void expect_refused(struct builder *b, hl_status status, const char *words) {
    size_t n, pieces[] = {SIZE_MAX, 1, 7};
    uint8_t *bytes = gguf_built(b, &n);
    for (int i = 0; i < 3; i++) {
        struct parsing p;
        parsing_start(&p);
        EXPECT_EQ(parsing_run(&p, bytes, n, pieces[i]), status);
        EXPECT_CONTAINS(hl_error(), words);
        parsing_end(&p);
    }
    free(bytes);
}

static void expect_text_refused(const char *text, size_t n, const char *words) {
    struct parsing p;
    parsing_start(&p);
    EXPECT_EQ(parsing_run(&p, (const uint8_t *)text, n, SIZE_MAX), HL_EFORMAT);
    EXPECT_CONTAINS(hl_error(), words);
    EXPECT_CONTAINS(hl_error(), "GGUF file");
    parsing_end(&p);
}

TEST(files_that_are_no_gguf_files_are_called_by_their_name) {
#define REFUSED(TEXT, WORDS) expect_text_refused(TEXT, sizeof TEXT - 1, WORDS)
    REFUSED("<!DOCTYPE html><html><body>404</body></html>", "HTML");
    REFUSED("\n\n  <html>sign in</html>", "HTML");
    REFUSED("\xef\xbb\xbf<?xml version=\"1.0\"?>", "XML");
    REFUSED("{\"error\": \"not found\"}", "JSON");
    REFUSED("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS pointer");
    REFUSED("PK\3\4 archive/data.pkl", "ZIP");
    REFUSED("\x1f\x8b\x08 compressed", "gzip");
    REFUSED("lmgg\1\0\0\0", "before GGUF");
    REFUSED("tjgg\1\0\0\0", "before GGUF");
    REFUSED("fmgg\1\0\0\0", "before GGUF");
    REFUSED("algg\1\0\0\0", "adapter");
    REFUSED("FUGG\0\0\0\3", "big-endian");
    REFUSED("\x10\x02\0\0\0\0\0\0{\"__metadata__\":{}}", "safetensors");
    REFUSED("\x89PNG\r\n\x1a\n", "89 50 4e 47");
    REFUSED("", "empty");
    REFUSED("GG", "2 bytes");
    REFUSED("<", "HTML");
}

TEST(versions_2_and_3_are_read_and_others_refused_by_number) {
    for (uint32_t version = 0; version < 5; version++) {
        struct builder b = {.version = version};
        struct parsing p;
        if (version == 0) continue; /* the builder takes it for 3 */
        add_u32(&b, "a", 5);
        bool good = version == 2 || version == 3;
        EXPECT_EQ(parse_built(&p, &b, SIZE_MAX), good ? HL_OK : HL_EUNSUPPORTED);
        if (!good) EXPECT_CONTAINS(hl_error(), version == 1 ? "version 1" : "version 4");
        parsing_end(&p);
    }
    struct builder b = {.version = 0x03000000};
    expect_refused(&b, HL_EFORMAT, "big-endian");
}

/* Every type that a value can have, alone and in an array. */
static void add_all_types(struct builder *b) {
    static const int64_t big = -(1ll << 40);
    static const uint64_t huge = 1ull << 60;
    static const double pi = 3.14159265358979;
    add_value(b, "u8", HL_META_U8, "\xff", 1);
    add_value(b, "i8", HL_META_I8, "\xff", 1);
    add_value(b, "u16", HL_META_U16, "\xfe\xff", 2);
    add_value(b, "i16", HL_META_I16, "\xfe\xff", 2);
    add_u32(b, "u32", 0xfffffffd);
    add_value(b, "i32", HL_META_I32, "\xfd\xff\xff\xff", 4);
    add_f32(b, "f32", -1.5f);
    add_value(b, "bool", HL_META_BOOL, "\1", 1);
    add_str(b, "string", "text");
    add_value(b, "u64", HL_META_U64, &huge, 8);
    add_value(b, "i64", HL_META_I64, &big, 8);
    add_value(b, "f64", HL_META_F64, &pi, 8);
    add_array(b, "i16s", HL_META_I16, 3);
    put(&b->values, "\1\0\xff\xff\3\0", 6);
    add_array(b, "none", HL_META_STRING, 0);
    add_array(b, "nested", HL_META_ARRAY, 3);
    put_u32(&b->values, HL_META_U32);
    put_u64(&b->values, 2);
    put_u64(&b->values, 77);
    put_u32(&b->values, HL_META_STRING);
    put_u64(&b->values, 2);
    put_str(&b->values, "in");
    put_str(&b->values, "side");
    put_u32(&b->values, HL_META_BOOL);
    put_u64(&b->values, 0);
    add_str(b, "last", "");
}

static double number(const struct gguf *g, const char *key, int j) {
    int i = gguf_find(g, key, strlen(key));
    return i < 0 ? -12345 : gguf_number(g, i, j);
}

static void check_all_types(const struct gguf *g) {
    EXPECT_EQ(gguf_n_values(g), 16);
    EXPECT(number(g, "u8", 0) == 255);
    EXPECT(number(g, "i8", 0) == -1);
    EXPECT(number(g, "u16", 0) == 65534);
    EXPECT(number(g, "i16", 0) == -2);
    EXPECT(number(g, "u32", 0) == 4294967293.0);
    EXPECT(number(g, "i32", 0) == -3);
    EXPECT(number(g, "f32", 0) == -1.5);
    EXPECT(number(g, "bool", 0) == 1);
    EXPECT(number(g, "u64", 0) == 0x1p60);
    EXPECT(number(g, "i64", 0) == -0x1p40);
    EXPECT(number(g, "f64", 0) == 3.14159265358979);
    EXPECT(number(g, "i16s", 1) == -1 && number(g, "i16s", 2) == 3);
    EXPECT(isnan(number(g, "string", 0)));
    EXPECT(isnan(number(g, "nested", 2)));
    struct gguf_value v = gguf_value(g, gguf_find(g, "nested", 6));
    EXPECT(v.is_array && v.type == HL_META_ARRAY && v.n == 3);
    v = gguf_value(g, gguf_find(g, "none", 4));
    EXPECT(v.is_array && v.type == HL_META_STRING && v.n == 0);
    struct str s = gguf_string(g, gguf_find(g, "string", 6), 0);
    EXPECT(s.n == 4 && memcmp(s.p, "text", 4) == 0);
    EXPECT_EQ(gguf_string(g, gguf_find(g, "last", 4), 0).n, 0);
    EXPECT(gguf_string(g, gguf_find(g, "u8", 2), 0).p == NULL);
    EXPECT_EQ(gguf_find(g, "las", 3), -1);
    EXPECT_EQ(gguf_find(g, "lastt", 5), -1);
    EXPECT_EQ(gguf_find(g, "", 0), -1);
}

TEST(metadata_of_every_type_is_read_however_the_file_is_cut) {
    for (size_t piece = 1; piece < 20; piece++) {
        struct builder b = {0};
        struct parsing p;
        add_all_types(&b);
        EXPECT_EQ(parse_built(&p, &b, piece), HL_OK);
        EXPECT_EQ(p.r.n_headers, 1);
        check_all_types(p.g);
        parsing_end(&p);
    }
}

TEST(every_string_of_a_long_array_is_found) {
    struct builder b = {0};
    struct parsing p;
    char text[16];
    add_array(&b, "words", HL_META_STRING, 1000);
    for (int j = 0; j < 1000; j++)
        put_str(&b.values, (snprintf(text, sizeof text, "%.*s%d", j % 5, "-----", j), text));
    EXPECT_EQ(parse_built(&p, &b, 13), HL_OK);
    for (int j = 0; j < 1000; j++) {
        struct str s = gguf_string(p.g, 0, j);
        snprintf(text, sizeof text, "%.*s%d", j % 5, "-----", j);
        EXPECT(s.n == strlen(text) && memcmp(s.p, text, s.n) == 0);
    }
    parsing_end(&p);
}

TEST(typed_look_ups_name_key_type_and_value_when_they_refuse) {
    struct builder b = {0};
    struct parsing p;
    const uint32_t three[] = {4, 5, 6};
    int32_t i = 0, ints[3] = {0};
    float f;
    bool found, flag;
    struct str s, missing = {"default", 7};
    add_all_types(&b);
    add_u32s(&b, "u32s", three, 3);
    add_f32(&b, "nan", NAN);
    EXPECT_EQ(parse_built(&p, &b, SIZE_MAX), HL_OK);
    EXPECT(gguf_get_int(p.g, "i16", -9, 9, 5, &i) == HL_OK && i == -2);
    EXPECT(gguf_get_int(p.g, "absent", 1, 9, 55, &i) == HL_OK && i == 55);
    EXPECT_EQ(gguf_get_int(p.g, "u32", 1, 9, 5, &i), HL_EFORMAT);
    EXPECT_CONTAINS(hl_error(), "'u32' is 4294967293; 1 to 9");
    EXPECT_EQ(gguf_get_int(p.g, "f32", -9, 9, 5, &i), HL_EFORMAT);
    EXPECT_CONTAINS(hl_error(), "'f32' is of type f32; an integer");
    EXPECT_EQ(gguf_get_int(p.g, "u32s", 0, 9, 5, &i), HL_EFORMAT);
    EXPECT_CONTAINS(hl_error(), "array of u32");
    EXPECT_EQ(gguf_get_int(p.g, "bool", 0, 9, 5, &i), HL_EFORMAT);
    EXPECT(gguf_get_float(p.g, "f32", -2, 2, 0, &f) == HL_OK && f == -1.5f);
    EXPECT(gguf_get_float(p.g, "u8", 0, 300, 0, &f) == HL_OK && f == 255);
    EXPECT_EQ(gguf_get_float(p.g, "nan", -1e9, 1e9, 0, &f), HL_EFORMAT);
    EXPECT_EQ(gguf_get_float(p.g, "string", -1e9, 1e9, 0, &f), HL_EFORMAT);
    EXPECT(gguf_get_bool(p.g, "bool", false, &flag) == HL_OK && flag);
    EXPECT(gguf_get_bool(p.g, "absent", true, &flag) == HL_OK && flag);
    EXPECT_EQ(gguf_get_bool(p.g, "u8", false, &flag), HL_EFORMAT);
    EXPECT(gguf_get_str(p.g, "string", missing, &s) == HL_OK && s.n == 4);
    EXPECT(gguf_get_str(p.g, "absent", missing, &s) == HL_OK && s.n == 7);
    EXPECT_EQ(gguf_get_str(p.g, "u8", missing, &s), HL_EFORMAT);
    EXPECT(gguf_get_ints(p.g, "u32s", 0, 9, 3, ints, &found) == HL_OK && found && ints[0] == 4 &&
           ints[2] == 6);
    EXPECT(gguf_get_ints(p.g, "u8", 0, 255, 3, ints, &found) == HL_OK && found && ints[0] == 255 &&
           ints[2] == 255);
    EXPECT(gguf_get_ints(p.g, "absent", 0, 9, 3, ints, &found) == HL_OK && !found);
    EXPECT_EQ(gguf_get_ints(p.g, "u32s", 0, 9, 2, ints, &found), HL_EFORMAT);
    EXPECT_EQ(gguf_get_ints(p.g, "u32s", 0, 5, 3, ints, &found), HL_EFORMAT);
    parsing_end(&p);
}

TEST(two_equal_keys_and_two_equal_tensor_names_are_refused) {
    struct builder b = {0};
    add_u32(&b, "once", 1);
    add_u32(&b, "twice", 1);
    add_u32(&b, "twice", 1);
    expect_refused(&b, HL_EFORMAT, "'twice'");
    add_tensor(&b, "t", TYPE_F32, 4, 0, NULL);
    add_tensor(&b, "t", TYPE_F32, 4, 0, NULL);
    expect_refused(&b, HL_EFORMAT, "two tensors have the name 't'");
}

TEST(arrays_nested_too_deep_are_refused) {
    struct builder b = {0};
    add_array(&b, "deep", HL_META_ARRAY, 1);
    for (int i = 0; i < 2; i++) {
        put_u32(&b.values, HL_META_ARRAY);
        put_u64(&b.values, 1);
    }
    expect_refused(&b, HL_EFORMAT, "nests arrays");
}

TEST(unknown_value_types_are_refused) {
    struct builder b = {0};
    add_value(&b, "odd", (hl_meta_type)13, "\0\0\0\0", 4);
    expect_refused(&b, HL_EFORMAT, "value type 13");
    add_array(&b, "odds", (hl_meta_type)99, 0);
    expect_refused(&b, HL_EFORMAT, "value type 99");
}

TEST(tensors_come_in_order_of_their_offset_and_gaps_are_skipped) {
    static const uint64_t dims[] = {4};
    for (size_t piece = 1; piece < 300; piece += 13) {
        struct builder b = {0};
        struct parsing p;
        float data[40];
        for (int i = 0; i < 40; i++) data[i] = (float)i;
        add_info(&b, "behind", TYPE_F32, 1, dims, 128);
        add_info(&b, "first", TYPE_F32, 1, dims, 32); /* a gap of 32 bytes before it, of 80 behind it */
        add_info(&b, "skipped", TYPE_F32, 1, dims, 96);
        put(&b.data, data, 144);
        size_t n;
        uint8_t *bytes = gguf_built(&b, &n);
        parsing_start(&p);
        p.r.skip = 2;
        EXPECT_EQ(parsing_run(&p, bytes, n, piece), HL_OK);
        free(bytes);
        EXPECT(gguf_complete(p.g) && p.r.n_done == 3);
        EXPECT(p.r.order[0] == 1 && p.r.order[1] == 2 && p.r.order[2] == 0);
        EXPECT_MEM(p.r.data[1], data + 8, 16);
        EXPECT_MEM(p.r.data[0], data + 32, 16);
        EXPECT_EQ(gguf_file_bytes(p.g), n);
        EXPECT_EQ(gguf_find_tensor(p.g, "skipped"), 2);
        EXPECT_EQ(gguf_find_tensor(p.g, "skip"), -1);
        parsing_end(&p);
    }
}

TEST(skipped_tensors_and_gaps_larger_than_any_window_pass_by) {
    const uint64_t large[] = {1000, 100}, small[] = {4};
    const float x[4] = {1, 2, 3, 4};
    struct builder b = {0};
    struct parsing p;
    size_t n;
    add_info(&b, "large", TYPE_F32, 2, large, 200000); /* a gap of 200000 bytes, 400000 of the tensor */
    add_info(&b, "small", TYPE_F32, 1, small, 600000);
    put(&b.data, NULL, 600000);
    put(&b.data, x, sizeof x);
    uint8_t *bytes = gguf_built(&b, &n);
    parsing_start(&p);
    p.r.skip = 0;
    EXPECT_EQ(parsing_run(&p, bytes, n, SIZE_MAX), HL_OK);
    EXPECT_MEM(p.r.data[1], x, sizeof x);
    parsing_end(&p);
    free(bytes);
}

TEST(bytes_behind_the_last_tensor_are_not_asked_for) {
    struct builder b = {0};
    struct parsing p;
    size_t n, room;
    add_tensor(&b, "t", TYPE_Q8_0, 64, 2, NULL);
    uint8_t *bytes = gguf_built(&b, &n), *longer = calloc(1, n + 5000);
    memcpy(longer, bytes, n);
    parsing_start(&p);
    EXPECT_EQ(parsing_push(&p, longer, n + 5000, SIZE_MAX), HL_OK);
    EXPECT(gguf_window(p.g, &room) != NULL);
    EXPECT_EQ(room, 0);
    EXPECT_EQ(gguf_finish(p.g), HL_OK);
    EXPECT_EQ(gguf_file_bytes(p.g), n);
    parsing_end(&p);
    free(bytes);
    free(longer);
}

TEST(general_alignment_moves_the_data) {
    struct builder b = {.alignment = 256};
    struct parsing p;
    const float x[4] = {1, 2, 3, 4};
    add_u32(&b, "general.alignment", 256);
    add_tensor(&b, "a", TYPE_F32, 4, 0, x);
    add_tensor(&b, "b", TYPE_F32, 4, 0, x);
    EXPECT_EQ(parse_built(&p, &b, 5), HL_OK);
    EXPECT_EQ(gguf_tensor(p.g, 1)->offset, 256);
    EXPECT_MEM(p.r.data[0], x, 16);
    EXPECT_MEM(p.r.data[1], x, 16);
    parsing_end(&p);
}

TEST(alignments_that_make_no_sense_are_refused) {
    static const uint32_t bad[] = {0, 1, 4, 24, 33, 1u << 31};
    struct builder b = {0};
    for (int i = 0; i < 6; i++) {
        add_u32(&b, "general.alignment", bad[i]);
        expect_refused(&b, HL_EFORMAT, "general.alignment is");
    }
    add_str(&b, "general.alignment", "32");
    expect_refused(&b, HL_EFORMAT, "must be u32");
}

TEST(tensors_that_overlap_or_are_not_aligned_are_refused) {
    static const uint64_t dims[] = {16};
    struct builder b = {0};
    add_info(&b, "a", TYPE_F32, 1, dims, 0);
    add_info(&b, "b", TYPE_F32, 1, dims, 32);
    expect_refused(&b, HL_EFORMAT, "'b' at offset 32 overlaps 'a'");
    add_info(&b, "a", TYPE_F32, 1, dims, 8);
    expect_refused(&b, HL_EFORMAT, "alignment");
    add_info(&b, "a", TYPE_F32, 1, dims, 1ull << 63);
    expect_refused(&b, HL_EFORMAT, "at offset 9223372036854775808");
}

TEST(dimensions_out_of_range_and_sizes_that_wrap_are_refused) {
    struct builder b = {0};
    const uint64_t zero[] = {32, 0}, wide[] = {1ull << 31}, wraps[] = {1 << 30, 1 << 30, 1 << 30, 1 << 30},
                   odd[] = {33};
    add_info(&b, "t", TYPE_F32, 2, zero, 0);
    expect_refused(&b, HL_EFORMAT, "dimension 1 of tensor 't' is 0");
    add_info(&b, "t", TYPE_F32, 1, wide, 0);
    expect_refused(&b, HL_EFORMAT, "2147483648");
    add_info(&b, "t", TYPE_F32, 4, wraps, 0);
    expect_refused(&b, HL_EFORMAT, "1073741824 x 1073741824");
    add_info(&b, "t", TYPE_F32, 0, zero, 0);
    expect_refused(&b, HL_EFORMAT, "0 dimensions");
    add_info(&b, "t", TYPE_Q4_0, 1, odd, 0);
    expect_refused(&b, HL_EFORMAT, "multiple of 32");
}

TEST(tensor_types_that_cannot_be_sized_are_refused_by_name_or_number) {
    static const uint64_t dims[] = {256};
    struct builder b = {0};
    add_info(&b, "t", 5, 1, dims, 0);
    expect_refused(&b, HL_EUNSUPPORTED, "Q4_3");
    add_info(&b, "t", 1000, 1, dims, 0);
    expect_refused(&b, HL_EUNSUPPORTED, "unknown type 1000");
}

TEST(tensors_of_types_that_are_not_built_in_are_still_listed) {
    static const uint64_t dims[] = {256, 3};
    struct builder b = {0};
    struct parsing p;
    add_info(&b, "k", 12, 2, dims, 0);
    put(&b.data, NULL, 3 * 144);
    EXPECT_EQ(parse_built(&p, &b, SIZE_MAX), HL_OK);
    EXPECT_STR(gguf_tensor(p.g, 0)->type->name, "Q4_K");
    EXPECT_EQ(gguf_tensor(p.g, 0)->n_bytes, 3 * 144);
    parsing_end(&p);
}

TEST(counts_and_lengths_beyond_all_sense_are_refused_at_once) {
    struct builder b = {0};
    b.n_tensors = 1ull << 40;
    expect_refused(&b, HL_EFORMAT, "claims 1099511627776 tensors");
    b.n_values = UINT64_MAX;
    expect_refused(&b, HL_EFORMAT, "claims 18446744073709551615 metadata");
    add_key(&b, "s", HL_META_STRING);
    put_u64(&b.values, UINT64_MAX - 3);
    expect_refused(&b, HL_EFORMAT, "a string of 18446744073709551612 bytes");
    add_array(&b, "a", HL_META_F64, (UINT64_MAX >> 3) + 2); /* times 8 wraps to 8 */
    expect_refused(&b, HL_EFORMAT, "claims an array of");
    b.n_values = 1;
    put_u64(&b.values, 70000);
    expect_refused(&b, HL_EFORMAT, "key of 70000 bytes");
}

TEST(memory_follows_the_bytes_that_arrive_not_the_claims) {
    struct builder b = {0};
    struct parsing p;
    b.n_tensors = 100000;
    b.n_values = 99999;
    add_array(&b, "a", HL_META_STRING, 50 << 20); /* 400 MB of lengths alone */
    EXPECT_EQ(parse_built(&p, &b, SIZE_MAX), HL_ETRUNCATED);
    EXPECT_CONTAINS(hl_error(), "inside its header");
    EXPECT(p.mem.peak < 200000);
    parsing_end(&p);
    add_key(&b, "s", HL_META_STRING);
    put_u64(&b.values, 300 << 20);
    put(&b.values, NULL, 1000);
    EXPECT_EQ(parse_built(&p, &b, SIZE_MAX), HL_ETRUNCATED);
    EXPECT(p.mem.peak < 200000);
    parsing_end(&p);
}

TEST(the_commit_that_completes_the_header_begins_no_tensor) {
    struct builder b = {0};
    struct parsing p;
    size_t n, room;
    add_tensor(&b, "t", TYPE_F32, 4, 4, NULL);
    uint8_t *bytes = gguf_built(&b, &n);
    parsing_start(&p);
    uint8_t *window = gguf_window(p.g, &room);
    memcpy(window, bytes, n);
    EXPECT_EQ(gguf_commit(p.g, n), HL_OK);
    EXPECT(gguf_has_header(p.g) && p.r.n_headers == 1 && p.r.n_begun == 0 && !gguf_complete(p.g));
    EXPECT(gguf_window(p.g, &room) != NULL);
    EXPECT(room == 0 && p.r.n_done == 1 && gguf_complete(p.g));
    parsing_end(&p);
    free(bytes);
}

TEST(a_failure_is_final_and_keeps_its_words) {
    struct parsing p;
    size_t room;
    parsing_start(&p);
    uint8_t *window = gguf_window(p.g, &room);
    memcpy(window, "<html>", 6);
    EXPECT_EQ(gguf_commit(p.g, 6), HL_EFORMAT);
    status_set(HL_EARGUMENT, "something else");
    EXPECT(gguf_window(p.g, &room) == NULL);
    EXPECT_EQ(room, 0);
    EXPECT_CONTAINS(hl_error(), "HTML");
    EXPECT_EQ(gguf_commit(p.g, 0), HL_EFORMAT);
    EXPECT_EQ(gguf_finish(p.g), HL_EFORMAT);
    EXPECT_CONTAINS(hl_error(), "HTML");
    EXPECT(!gguf_has_header(p.g));
    parsing_end(&p);
}

TEST(a_hook_that_fails_ends_the_parsing_with_its_status) {
    for (int which = 0; which < 3; which++) {
        struct builder b = {0};
        struct parsing p;
        size_t n;
        add_tensor(&b, "t", TYPE_F32, 4, 4, NULL);
        uint8_t *bytes = gguf_built(&b, &n);
        parsing_start(&p);
        *(which == 0 ? &p.r.header_status : which == 1 ? &p.r.begin_status : &p.r.done_status) = HL_EMEMORY;
        EXPECT_EQ(parsing_run(&p, bytes, n, 40), HL_EMEMORY);
        EXPECT_EQ(gguf_finish(p.g), HL_EMEMORY);
        EXPECT(gguf_has_header(p.g) && !gguf_complete(p.g));
        parsing_end(&p);
        free(bytes);
    }
}

TEST(more_bytes_than_the_window_has_are_refused) {
    struct parsing p;
    size_t room;
    parsing_start(&p);
    EXPECT_EQ(gguf_commit(p.g, 1), HL_EARGUMENT);
    EXPECT(gguf_window(p.g, &room) != NULL);
    EXPECT_EQ(gguf_commit(p.g, room + 1), HL_EARGUMENT);
    parsing_end(&p);
    parsing_start(&p);
    uint8_t *window = gguf_window(p.g, &room);
    memcpy(window, "GGUF", 4);
    EXPECT_EQ(gguf_commit(p.g, 4), HL_OK);
    EXPECT_EQ(gguf_commit(p.g, 4), HL_EARGUMENT);
    parsing_end(&p);
}

/* Sizes of the file valid.gguf, whose header has 7232 bytes, as gguf-py reads it. */
TEST(a_file_cut_off_anywhere_is_called_incomplete) {
    size_t n;
    uint8_t *bytes = test_read_file("tests/cases/gguf/valid.gguf", &n);
    for (size_t cut = 0; cut < n; cut += cut < 7300 || cut + 300 > n ? 1 : 997) {
        struct parsing p;
        uint8_t *exact = malloc(cut ? cut : 1);
        memcpy(exact, bytes, cut);
        parsing_start(&p);
        EXPECT_EQ(parsing_run(&p, exact, cut, SIZE_MAX), cut < 4 ? HL_EFORMAT : HL_ETRUNCATED);
        if (cut > 7232) EXPECT_CONTAINS(hl_error(), "of 111552 bytes, before the end of tensor");
        EXPECT(!gguf_complete(p.g));
        parsing_end(&p);
        free(exact);
    }
    free(bytes);
}

TEST(a_megabyte_of_header_is_read_byte_by_byte_as_in_one_piece) {
    struct builder b = {0};
    struct parsing p;
    char text[24];
    add_array(&b, "words", HL_META_STRING, 40000);
    for (int j = 0; j < 40000; j++)
        put_str(&b.values, (snprintf(text, sizeof text, "word number %d", j), text));
    add_array(&b, "numbers", HL_META_F64, 10000);
    put(&b.values, NULL, 80000);
    add_u32(&b, "end", 7);
    EXPECT_EQ(parse_built(&p, &b, 1), HL_OK);
    EXPECT(number(p.g, "end", 0) == 7);
    EXPECT_EQ(gguf_string(p.g, 0, 39999).n, 17);
    parsing_end(&p);
}
