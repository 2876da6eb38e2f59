#include "kv/kv.h"

#include "test.h"

static const struct kv_shape shapes[] = {{2, 16, 8, 0, 0}, {1, 24, 0, 0, 0}};

static struct kv *small_cache(struct mem *mem, hl_kv_type type) {
    struct kv *kv = NULL;
    if (kv_new(&kv, mem, type, 2, shapes, 200) != HL_OK) test_fail(__FILE__, __LINE__, "no cache");
    return kv;
}

TEST(cache_bytes_are_those_of_the_formula_and_of_the_allocator) {
    for (int type = HL_KV_F32; type <= HL_KV_F16; type++) {
        struct mem mem = {0};
        struct kv *kv = small_cache(&mem, (hl_kv_type)type);
        size_t value = type == HL_KV_F32 ? 4 : 2, row = value * (2 * (16 + 8) + 24);
        for (int n = 0; n <= 200; n++) {
            struct hl_cache all, first;
            kv_stats(kv, -1, &all);
            kv_stats(kv, 0, &first);
            size_t blocks = (size_t)(n + KV_BLOCK - 1) / KV_BLOCK;
            EXPECT_EQ(all.positions, n);
            EXPECT_EQ(all.used, (size_t)n * row);
            EXPECT_EQ(first.used, (size_t)n * value * 2 * (16 + 8));
            EXPECT_EQ(all.reserved, blocks * KV_BLOCK * row);
            EXPECT_EQ(all.reserved, mem.used[MEM_CACHE]);
            EXPECT_EQ(all.blocks, 2 * blocks);
            EXPECT_EQ(all.shared, 0);
            if (n == 200) break;
            REQUIRE(kv_reserve(kv, 1) == HL_OK);
            kv_advance(kv, 1);
        }
        kv_free(kv);
        for (int k = 0; k < MEM_KINDS; k++) EXPECT_EQ(mem.used[k], 0);
    }
}

TEST(rewinding_gives_blocks_back) {
    struct mem mem = {0};
    struct kv *kv = small_cache(&mem, HL_KV_F16);
    REQUIRE(kv_reserve(kv, 150) == HL_OK);
    kv_advance(kv, 150);
    size_t full = mem.used[MEM_CACHE];
    kv_rewind(kv, 64);
    EXPECT_EQ(mem.used[MEM_CACHE], full / 3);
    kv_rewind(kv, 0);
    EXPECT_EQ(mem.used[MEM_CACHE], 0);
    kv_free(kv);
}

TEST(reserved_blocks_without_positions_are_given_back_by_a_rewind) {
    struct mem mem = {0};
    struct kv *kv = small_cache(&mem, HL_KV_F16);
    REQUIRE(kv_reserve(kv, 200) == HL_OK);
    kv_rewind(kv, 0);
    EXPECT_EQ(mem.used[MEM_CACHE], 0);
    kv_free(kv);
}

TEST(rows_of_one_head_are_contiguous_within_a_block_and_apart_from_others) {
    struct mem mem = {0};
    struct kv *kv = small_cache(&mem, HL_KV_F32);
    REQUIRE(kv_reserve(kv, 200) == HL_OK);
    float number = 0;
    for (int pos = 0; pos < 200; pos++) {
        for (int h = 0; h < 2; h++) {
            float *k = kv_keys(kv, 0, h, pos), *v = kv_values(kv, 0, h, pos);
            for (int i = 0; i < 16; i++) k[i] = number++;
            for (int i = 0; i < 8; i++) v[i] = number++;
        }
    }
    number = 0;
    for (int pos = 0; pos < 200; pos++) {
        int start = pos - pos % KV_BLOCK;
        for (int h = 0; h < 2; h++) {
            const float *k = (const float *)kv_keys(kv, 0, h, start) + (pos - start) * 16;
            const float *v = (const float *)kv_values(kv, 0, h, start) + (pos - start) * 8;
            for (int i = 0; i < 16; i++) EXPECT_EQ(k[i], number++);
            for (int i = 0; i < 8; i++) EXPECT_EQ(v[i], number++);
        }
    }
    kv_free(kv);
}

TEST(q8_0_rows_take_34_bytes_a_group_and_keep_the_rotated_part_as_f16) {
    /* 8192 positions of 30 layers of 3 heads of 64: 100,270,080 bytes (kv-043); MLA rows: r / 32 * 34 + 2
     * d_rope. */
    static const struct kv_shape heads = {3, 64, 64, 0, 0}, latent = {1, 96, 0, 32, 0};
    struct mem mem = {0};
    struct kv *kv = NULL;
    struct hl_cache stats;
    REQUIRE(kv_new(&kv, &mem, HL_KV_Q8_0, 1, &heads, 8192) == HL_OK);
    REQUIRE(kv_reserve(kv, 8192) == HL_OK);
    kv_advance(kv, 8192);
    kv_stats(kv, -1, &stats);
    EXPECT_EQ(stats.used, 100270080 / 30);
    kv_free(kv);
    REQUIRE(kv_new(&kv, &mem, HL_KV_Q8_0, 1, &latent, 64) == HL_OK);
    REQUIRE(kv_reserve(kv, 64) == HL_OK);
    kv_advance(kv, 64);
    kv_stats(kv, -1, &stats);
    EXPECT_EQ(stats.used, 64 * (64 / 32 * 34 + 2 * 32));
    kv_free(kv);
}

TEST(heads_that_are_no_multiple_of_32_are_refused_with_q8_0) {
    static const struct kv_shape d80 = {1, 80, 80, 0, 0}, d256 = {1, 256, 256, 0, 0}; /* kv-040, kv-042 */
    struct mem mem = {0};
    struct kv *kv = NULL;
    EXPECT_EQ(kv_new(&kv, &mem, HL_KV_Q8_0, 1, &d80, 64), HL_EUNSUPPORTED);
    EXPECT_CONTAINS(status_message(), "groups of 32");
    REQUIRE(kv_new(&kv, &mem, HL_KV_Q8_0, 1, &d256, 64) == HL_OK);
    kv_free(kv);
    for (int k = 0; k < MEM_KINDS; k++) EXPECT_EQ(mem.used[k], 0);
}

static const struct kv_shape windowed[] = {{1, 4, 4, 0, 0}, {1, 4, 4, 0, 100}};

TEST(layers_with_a_window_give_blocks_back) {
    struct mem mem = {0};
    struct kv *kv = NULL;
    REQUIRE(kv_new(&kv, &mem, HL_KV_F32, 2, windowed, 1000) == HL_OK);
    for (int n = 1; n <= 1000; n++) {
        struct hl_cache all, local;
        REQUIRE(kv_reserve(kv, 1) == HL_OK);
        kv_advance(kv, 1);
        kv_stats(kv, -1, &all);
        kv_stats(kv, 1, &local);
        EXPECT_EQ(local.used, (n < 100 ? n : 100) * 32);
        EXPECT(local.blocks <= 3);
        EXPECT_EQ(all.reserved, mem.used[MEM_CACHE]);
    }
    kv_free(kv);
    for (int k = 0; k < MEM_KINDS; k++) EXPECT_EQ(mem.used[k], 0);
}

TEST(a_rewind_keeps_what_windows_still_hold_and_nothing_else) {
    struct mem mem = {0};
    struct kv *kv = NULL;
    REQUIRE(kv_new(&kv, &mem, HL_KV_F32, 2, windowed, 1000) == HL_OK);
    REQUIRE(kv_reserve(kv, 300) == HL_OK);
    kv_advance(kv,
               300); /* rows from 200 on are kept: blocks 0 .. 2 are gone, 192 is the first position held */
    EXPECT_EQ(kv_keeps(kv, 300), 300);
    EXPECT_EQ(kv_keeps(kv, 291), 291); /* sees from 192 on */
    EXPECT_EQ(kv_keeps(kv, 290), 0);
    kv_rewind(kv, 291);
    EXPECT_EQ(kv_length(kv), 291);
    kv_rewind(kv, 0);
    EXPECT_EQ(mem.used[MEM_CACHE], 0);
    REQUIRE(kv_reserve(kv, 64) == HL_OK);
    kv_advance(kv, 64);
    EXPECT_EQ(kv_keeps(kv, 1), 1);
    kv_free(kv);
}

/* kv-009, kv-012, kv-013 with a block for each of their positions: a window of 4, 12 cached, held from 8 on. */
TEST(a_prefix_is_reused_only_where_windows_hold_what_its_next_position_sees) {
    static const struct kv_shape layer = {1, 4, 4, 0, 4 * KV_BLOCK};
    struct mem mem = {0};
    struct kv *kv = NULL;
    REQUIRE(kv_new(&kv, &mem, HL_KV_F32, 1, &layer, 13 * KV_BLOCK) == HL_OK);
    REQUIRE(kv_reserve(kv, 12 * KV_BLOCK) == HL_OK);
    kv_advance(kv, 12 * KV_BLOCK);
    EXPECT_EQ(kv_first_live(kv, 0), 8 * KV_BLOCK);
    EXPECT_EQ(kv_keeps(kv, 12 * KV_BLOCK), 12 * KV_BLOCK);         /* a longer prompt */
    EXPECT_EQ(kv_keeps(kv, 12 * KV_BLOCK - 1), 12 * KV_BLOCK - 1); /* the same prompt */
    EXPECT_EQ(kv_keeps(kv, 10 * KV_BLOCK), 0);                     /* another tenth position */
    kv_free(kv);
}

TEST(forks_share_blocks_until_one_of_them_writes) {
    struct mem mem = {0};
    struct kv *kv = small_cache(&mem, HL_KV_F32), *fork = NULL;
    struct hl_cache stats;
    REQUIRE(kv_reserve(kv, 100) == HL_OK);
    kv_advance(kv, 100);
    float *row = kv_keys(kv, 0, 0, 99);
    row[0] = 7;
    size_t alone = mem.used[MEM_CACHE];
    REQUIRE(kv_fork(&fork, kv) == HL_OK);
    kv_stats(kv, -1, &stats);
    EXPECT_EQ(mem.used[MEM_CACHE], alone);
    EXPECT_EQ(stats.shared, alone);
    EXPECT(kv_keys(fork, 0, 0, 99) == (void *)row);
    REQUIRE(kv_reserve(fork, 1) == HL_OK); /* position 100 lies in the second block */
    EXPECT(kv_keys(fork, 0, 0, 99) != (void *)row);
    EXPECT_EQ(((float *)kv_keys(fork, 0, 0, 99))[0], 7);
    kv_stats(kv, -1, &stats);
    EXPECT_EQ(stats.shared, alone / 2);
    kv_free(kv);
    kv_stats(fork, -1, &stats);
    EXPECT_EQ(stats.shared, 0);
    EXPECT_EQ(mem.used[MEM_CACHE], alone);
    kv_free(fork);
    for (int k = 0; k < MEM_KINDS; k++) EXPECT_EQ(mem.used[k], 0);
}

TEST(saved_rows_come_back_where_they_were) {
    struct mem mem = {0};
    struct kv *kv = NULL, *copy = NULL;
    REQUIRE(kv_new(&kv, &mem, HL_KV_F32, 2, windowed, 1000) == HL_OK);
    REQUIRE(kv_new(&copy, &mem, HL_KV_F32, 2, windowed, 1000) == HL_OK);
    for (int pos = 0; pos < 300; pos++) {
        REQUIRE(kv_reserve(kv, 1) == HL_OK);
        for (int l = 0; l < 2; l++)
            for (int i = 0; i < 4; i++) {
                ((float *)kv_keys(kv, l, 0, pos))[i] = (float)(pos * 10 + l);
                ((float *)kv_values(kv, l, 0, pos))[i] = (float)(pos * 10 + 5 + l);
            }
        kv_advance(kv, 1);
    }
    /* The windowed layer has rows from 192 on, and position 291 sees all of them. */
    REQUIRE(kv_keeps(kv, 291) == 291 && kv_keeps(kv, 290) == 0);
    kv_rewind(kv, 291);
    size_t n = kv_save_bytes(kv);
    EXPECT_EQ(n, 2 * sizeof(int32_t) + 291 * 32 + (291 - 192) * 32);
    uint8_t *bytes = malloc(n);
    kv_save(kv, bytes);
    EXPECT_EQ(kv_restore(copy, bytes, n - 4, 291), HL_EFORMAT);
    EXPECT_EQ(kv_restore(copy, bytes, 7, 291), HL_EFORMAT);
    const int32_t bad[] = {-1, 0, 2, 4, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t *damaged = malloc(n);
        memcpy(damaged, bytes, n);
        memcpy(damaged + sizeof(int32_t), &bad[i], sizeof bad[i]);
        EXPECT_EQ(kv_restore(copy, damaged, n, 291), HL_EFORMAT);
        free(damaged);
    }
    EXPECT_EQ(kv_length(copy), 0);
    REQUIRE(kv_restore(copy, bytes, n, 291) == HL_OK);
    for (int i = 0; i <= 291; i++) EXPECT_EQ(kv_keeps(copy, i), kv_keeps(kv, i));
    for (int l = 0; l < 2; l++)
        for (int pos = l == 1 ? 192 : 0; pos < 291; pos++) {
            EXPECT_EQ(((float *)kv_keys(copy, l, 0, pos))[3], pos * 10 + l);
            EXPECT_EQ(((float *)kv_values(copy, l, 0, pos))[3], pos * 10 + 5 + l);
        }
    free(bytes);
    kv_free(kv);
    kv_free(copy);
    for (int k = 0; k < MEM_KINDS; k++) EXPECT_EQ(mem.used[k], 0);
}
