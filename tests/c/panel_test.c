#include "quant/panel.h"

#include "blocks.h"
#include "test.h"

static void read_back(uint32_t type, int n_in, int n_rows, int first) {
    uint64_t seed = type * 1000 + n_rows;
    const struct type_info *t = type_info(type);
    size_t row_bytes = (size_t)n_in / t->n_weights * t->n_bytes;
    uint8_t *rows = random_rows(type, n_in, n_rows, &seed);
    uint8_t *panels = malloc(panel_matrix_bytes(t->panel, n_in, n_rows));
    struct matrix w = {t->panel, n_in, n_rows, panels};
    float *want = malloc(n_in * sizeof *want), *got = malloc(n_in * sizeof *got);
    if (first) EXPECT(pack_rows(panels, type, rows, n_in, 0, first));
    EXPECT(pack_rows(panels, type, rows + first * row_bytes, n_in, first, n_rows - first));
    for (int row = 0; row < n_rows; row++) {
        t->to_f32(want, rows + row * row_bytes, n_in);
        panel_row(got, &w, row);
        EXPECT_MEM(got, want, n_in * sizeof *got);
    }
    free(rows);
    free(panels);
    free(want);
    free(got);
}

TEST(a_packed_row_reads_back_as_the_file_s_bits_for_every_type) {
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        for (int n_rows = 1; n_rows <= 9; n_rows++) read_back(block_types[i], 96, n_rows, 0);
    }
}

TEST(rows_packed_in_two_parts_read_back_the_same) {
    for (int i = 0; i < N_BLOCK_TYPES; i++) read_back(block_types[i], 64, 11, 8);
}

TEST(packing_adds_no_bytes_but_rows_that_fill_the_last_panel) {
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        const struct type_info *t = type_info(block_types[i]);
        size_t row_bytes = (size_t)128 / t->n_weights * t->n_bytes;
        EXPECT_EQ(panel_matrix_bytes(t->panel, 128, 8), 8 * row_bytes);
        EXPECT_EQ(panel_matrix_bytes(t->panel, 128, 9), 12 * row_bytes);
    }
}

TEST(the_rows_that_fill_the_last_panel_are_zero) {
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        const struct type_info *t = type_info(block_types[i]);
        uint64_t seed = i;
        uint8_t *rows = random_rows(block_types[i], 32, 2, &seed), panel[4 * 32 * 4];
        memset(panel, 0xff, sizeof panel);
        EXPECT(panel_pack(panel, t->panel, rows, (size_t)32 / t->n_weights * t->n_bytes, 32, 0, 2));
        struct matrix w = {t->panel, 32, 4, panel};
        float got[32], zero[32] = {0};
        for (int row = 2; row < 4; row++) {
            panel_row(got, &w, row);
            for (int j = 0; j < 32; j++) EXPECT(got[j] == zero[j]);
        }
        free(rows);
    }
}

/* A block of 32 weights with the given f16 scale (and offset, in types that have one). */
static bool packs_scale(uint32_t type, uint16_t d, uint16_t m) {
    const struct type_info *t = type_info(type);
    uint8_t block[34] = {0}, panel[136];
    memcpy(block, &d, 2);
    if (type == TYPE_Q4_1 || type == TYPE_Q5_1) memcpy(block + 2, &m, 2);
    return panel_pack(panel, t->panel, block, t->n_bytes, 32, 0, 1);
}

TEST(a_scale_that_is_infinite_or_NaN_is_refused) {
    for (int i = 3; i < N_BLOCK_TYPES; i++) {
        EXPECT(packs_scale(block_types[i], 0x7bff, 0xfbff));
        EXPECT(packs_scale(block_types[i], 0x0001, 0x8000));
        EXPECT(!packs_scale(block_types[i], 0x7c00, 0));
        EXPECT(!packs_scale(block_types[i], 0xfc00, 0));
        EXPECT(!packs_scale(block_types[i], 0x7e01, 0));
        if (block_types[i] == TYPE_Q4_1 || block_types[i] == TYPE_Q5_1)
            EXPECT(!packs_scale(block_types[i], 0, 0xfc00));
    }
}

TEST(a_float_weight_that_is_infinite_or_NaN_is_refused) {
    const uint32_t bad[] = {0x7f800000, 0xff800000, 0x7fc00000};
    for (int i = 0; i < 3; i++) {
        float f32[4] = {1, 2, 3, 4}, panel[16];
        uint16_t f16[4] = {0x3c00, 0x7bff, 0x0001, 0}, bf16[4] = {0x3f80, 0x7f7f, 0x0001, 0};
        EXPECT(panel_pack(panel, PANEL_F32, f32, 16, 4, 0, 1));
        EXPECT(panel_pack(panel, PANEL_F16, f16, 8, 4, 0, 1));
        EXPECT(panel_pack(panel, PANEL_BF16, bf16, 8, 4, 0, 1));
        memcpy(&f32[2], &bad[i], 4);
        f16[2] = (uint16_t)(bad[i] >> 16 & 0x8000) | (i == 2 ? 0x7e00 : 0x7c00);
        bf16[2] = (uint16_t)(bad[i] >> 16);
        EXPECT(!panel_pack(panel, PANEL_F32, f32, 16, 4, 0, 1));
        EXPECT(!panel_pack(panel, PANEL_F16, f16, 8, 4, 0, 1));
        EXPECT(!panel_pack(panel, PANEL_BF16, bf16, 8, 4, 0, 1));
    }
}

TEST(types_with_scales_inside_blocks_read_back_as_the_file_s_bits) {
    for (int i = 0; i < N_PART_TYPES; i++) {
        for (int n_rows = 1; n_rows <= 9; n_rows++) read_back(part_types[i], 512, n_rows, 0);
        read_back(part_types[i], 256, 11, 8);
    }
}

/* The scales of a row and block take 4 bytes in IQ4_XS' files and are spread to 8 bits in panels. */
TEST(packing_types_with_scales_inside_blocks_adds_less_than_a_fifth) {
    for (int i = 0; i < N_PART_TYPES; i++) {
        const struct type_info *t = type_info(part_types[i]);
        size_t row_bytes = (size_t)512 / t->n_weights * t->n_bytes,
               packed = panel_matrix_bytes(t->panel, 512, 8);
        EXPECT(packed <= 8 * row_bytes * 6 / 5);
    }
}

TEST(a_shared_scale_that_is_infinite_or_NaN_is_refused) {
    uint8_t block[144] = {0}, panel[592];
    EXPECT(pack_rows(panel, TYPE_Q4_K, block, 256, 0, 1));
    block[3] = 0x7c;
    EXPECT(!pack_rows(panel, TYPE_Q4_K, block, 256, 0, 1));
    block[3] = 0;
    block[1] = 0x7e;
    EXPECT(!pack_rows(panel, TYPE_Q4_K, block, 256, 0, 1));
}
