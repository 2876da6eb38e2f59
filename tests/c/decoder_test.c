/* The plan of a load includes the decoder: what hl_info says beforehand is what it takes. */
#include "decoder/decoder.h"
#include "test.h"

static const char *const models[] = {
    "llama_mha",         "llama_gqa.q4_0",     "gemma3",   "mixtral", "deepseek_v2_mla",
    "deepseek_v2_group", "deepseek_v2_q.q8_0", "minicpm3", "plm",     "phi3"};

static bool load(struct model *m, const char *name) {
    char path[128];
    size_t n, at = 0, room;
    snprintf(path, sizeof path, "tests/golden/models/%s.gguf", name);
    uint8_t *bytes = test_read_file(path, &n), *window;
    while (at < n && (window = model_window(m, &room)) && room > 0) {
        size_t piece = room < n - at ? room : n - at;
        memcpy(window, bytes + at, piece);
        if (model_commit(m, piece) != HL_OK) break;
        at += piece;
    }
    free(bytes);
    return model_finish(m) == HL_OK && model_ready(m);
}

TEST(a_decoder_takes_what_was_planned_and_gives_all_back) {
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct mem mem = {0};
        struct pool *pool = pool_new(1);
        struct model *m = model_new(&mem, pool);
        struct decoder *d = NULL;
        REQUIRE(load(m, models[i]));
        size_t before = mem.used[MEM_SCRATCH], planned = decoder_scratch_bytes(m);
        REQUIRE(decoder_new(&d, m, HL_FAST) == HL_OK);
        size_t taken = mem.used[MEM_SCRATCH] - before;
        if (taken > planned || planned > taken + taken / 8)
            test_fail(__FILE__, __LINE__, "%s: %zu bytes were planned, %zu are taken", models[i], planned,
                      taken);
        decoder_free(d);
        EXPECT_EQ(mem.used[MEM_SCRATCH], before);
        EXPECT_EQ(mem.used[MEM_WEIGHTS], m->packed_bytes);
        model_free(m);
        for (int kind = 0; kind < MEM_KINDS; kind++) EXPECT_EQ(mem.used[kind], 0);
        pool_free(pool);
    }
}
