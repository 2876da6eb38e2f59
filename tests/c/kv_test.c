#include "kv/kv.h"

#include "test.h"

static const struct kv_shape shapes[] = {{2, 16, 8}, {1, 24, 0}};

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
