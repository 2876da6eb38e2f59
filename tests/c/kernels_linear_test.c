#include "base/f16.h"
#include "blocks.h"
#include "kernels/kernels.h"
#include "test.h"

static const hl_precision precisions[] = {HL_FAST, HL_HIGH};

/* Activation rows in buffers of exactly their size; f32 is random in [-1, 1), each row with a size of its
 * own. */
static struct act act_new(int n_in, int n, uint64_t *seed) {
    size_t size = (size_t)n * n_in;
    size_t n_blocks = size / PANEL_BLOCK + 1;
    struct act a = {.n_in = n_in,
                    .n_rows = n,
                    .blocks = calloc(n_blocks, sizeof *a.blocks),
                    .halves = calloc(n_blocks, sizeof *a.halves),
                    .low8 = calloc(n_blocks, sizeof *a.low8),
                    .codes16 = calloc(n_blocks, sizeof *a.codes16)};
    float *x = malloc(size * sizeof *x);
    for (size_t i = 0; i < size; i++) x[i] = test_random_float(seed) * (float)(1 + i / n_in % 3);
    a.f32 = x;
    return a;
}

static void act_quantize(struct act *a, int n, hl_precision precision) {
    for (int row = 0; row < n; row++)
        kernels_get()->quantize(a, row, a->f32 + (size_t)row * a->n_in, precision);
}

static void act_free(struct act *a) {
    free((void *)a->f32);
    free(a->blocks);
    free(a->halves);
    free(a->low8);
    free(a->codes16);
}

static struct matrix matrix_of(uint32_t type, const uint8_t *rows, int n_in, int n_out) {
    const struct type_info *t = type_info(type);
    unsigned char *data = malloc(panel_matrix_bytes(t->panel, n_in, n_out));
    EXPECT(pack_rows(data, type, rows, n_in, 0, n_out));
    return (struct matrix){t->panel, n_in, n_out, data};
}

static struct matrix random_matrix(uint32_t type, int n_in, int n_out, uint64_t *seed) {
    uint8_t *rows = random_rows(type, n_in, n_out, seed);
    struct matrix w = matrix_of(type, rows, n_in, n_out);
    free(rows);
    return w;
}

static linear_fn *linear_of(const struct kernels *k, const struct matrix *w, hl_precision precision) {
    return precision == HL_FAST ? k->linear_fast[w->type] : k->linear_high[w->type];
}

static void compare_with_scalar(uint32_t type, int n_in, int n_panels, int n_cols, hl_precision precision) {
    uint64_t seed = type + 100 * n_in + n_panels;
    struct matrix w = random_matrix(type, n_in, n_panels * PANEL_ROWS, &seed);
    struct act a = act_new(n_in, n_cols + 1, &seed);
    if (!panel_is_float(w.type)) act_quantize(&a, n_cols + 1, precision);
    int stride = w.n_out + 3;
    size_t n = (size_t)(n_cols - 1) * stride + w.n_out;
    float *want = calloc(n, sizeof *want), *got = calloc(n, sizeof *got);
    linear_of(kernels_scalar(), &w, precision)(want, stride, w.data, n_panels, &a, 1, n_cols);
    linear_of(kernels_get(), &w, precision)(got, stride, w.data, n_panels, &a, 1, n_cols);
    EXPECT_MEM(got, want, n * sizeof *want);
    act_free(&a);
    free((void *)w.data);
    free(want);
    free(got);
}

TEST(linear_gives_the_bits_of_the_scalar_kernel_for_every_type_precision_and_batch) {
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        for (int p = 0; p < 2; p++) {
            for (int n_cols = 1; n_cols <= 9; n_cols++)
                compare_with_scalar(block_types[i], 160, 3, n_cols, precisions[p]);
            for (int n_panels = 1; n_panels <= 5; n_panels++)
                compare_with_scalar(block_types[i], 32, n_panels, 4, precisions[p]);
        }
    }
}

TEST(linear_gives_the_bits_of_the_scalar_kernel_for_types_with_scales_inside_blocks) {
    for (int i = 0; i < N_PART_TYPES; i++) {
        for (int p = 0; p < 2; p++) {
            for (int n_cols = 1; n_cols <= 5; n_cols++)
                compare_with_scalar(part_types[i], 512, 3, n_cols, precisions[p]);
            compare_with_scalar(part_types[i], 256, 2, 20, precisions[p]);
        }
    }
}

static bool is_nan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }

/* The same bits, or NaN in both: which NaN differs between processors. */
static bool same_floats(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t x, y;
        memcpy(&x, a + i, 4);
        memcpy(&y, b + i, 4);
        if (x != y && !(is_nan(x) && is_nan(y))) return false;
    }
    return true;
}

/* Any bytes as blocks of one row each: codes of all kinds, scales from subnormal to the largest. */
static uint8_t *wild_rows(uint32_t type, int n_in, int n_rows, uint64_t *seed) {
    static const uint16_t scales[] = {0, 0x8000, 1, 0x83ff, 0x0400, 0x3c00, 0x7bff, 0xfbff};
    const struct type_info *t = type_info(type);
    size_t n_blocks = (size_t)n_in / t->n_weights * n_rows, bytes = n_blocks * t->n_bytes;
    uint8_t *rows = random_rows(type, n_in, n_rows, seed);
    for (size_t i = 0; i < bytes; i += t->n_bytes) {
        uint8_t kind = (uint8_t)test_random(seed);
        if (t->decode || t->n_weights == 1 || kind % 3 == 0) continue;
        memcpy(rows + i, &scales[kind % 8], 2);
        if (type == TYPE_Q4_1 || type == TYPE_Q5_1) memcpy(rows + i + 2, &scales[kind / 8 % 8], 2);
    }
    return rows;
}

/* Activations of all sizes: rows of zeros, of subnormals, of 1e30, and with a number that stands out. */
static void make_wild(float *x, int n_in, int n, uint64_t *seed) {
    static const float sizes[] = {0, 1e-40f, 1e-20f, 1, 1, 1e4f, 1e30f};
    for (int row = 0; row < n; row++) {
        float size = sizes[test_random(seed) % 7];
        for (int j = 0; j < n_in; j++) x[row * n_in + j] = test_random_float(seed) * size;
        if (row % 3 == 0) x[row * n_in + test_random(seed) % n_in] = 3e4f * size;
    }
}

static void compare_wild(uint32_t type, hl_precision precision, uint64_t *seed) {
    enum { N_IN = 512, N_PANELS = 2, N_COLS = 6, N_OUT = N_PANELS * PANEL_ROWS };
    uint8_t *rows = wild_rows(type, N_IN, N_OUT, seed);
    struct matrix w = matrix_of(type, rows, N_IN, N_OUT);
    struct act a = act_new(N_IN, N_COLS, seed);
    make_wild((float *)a.f32, N_IN, N_COLS, seed);
    if (!panel_is_float(w.type)) act_quantize(&a, N_COLS, precision);
    float want[N_COLS * N_OUT], got[N_COLS * N_OUT];
    linear_of(kernels_scalar(), &w, precision)(want, N_OUT, w.data, N_PANELS, &a, 0, N_COLS);
    linear_of(kernels_get(), &w, precision)(got, N_OUT, w.data, N_PANELS, &a, 0, N_COLS);
    EXPECT(same_floats(got, want, N_COLS * N_OUT));
    act_free(&a);
    free(rows);
    free((void *)w.data);
}

TEST(linear_gives_the_scalar_kernel_s_bits_on_blocks_and_activations_of_any_size) {
    uint64_t seed = 4711;
    for (int round = 0; round < 60; round++) {
        for (int p = 0; p < 2; p++) {
            for (int i = 0; i < N_BLOCK_TYPES; i++) compare_wild(block_types[i], precisions[p], &seed);
            for (int i = 0; i < N_PART_TYPES; i++) compare_wild(part_types[i], precisions[p], &seed);
        }
    }
}

TEST(float_matrices_may_have_any_number_of_columns) {
    for (int i = 0; i < 3; i++) {
        for (int n_in = 1; n_in <= 11; n_in++) compare_with_scalar(block_types[i], n_in, 2, 5, HL_HIGH);
    }
}

/* All codes of a panel become their largest, or 0. */
static void fill_codes(const struct matrix *w, int byte) {
    for (int p = 0; p < w->n_out / PANEL_ROWS; p++) {
        unsigned char *panel = (unsigned char *)w->data + (size_t)p * panel_bytes(w->type, w->n_in);
        for (int b = 0; b < w->n_in / PANEL_BLOCK; b++) {
            unsigned char *block = (unsigned char *)panel_block_at(w->type, panel, b);
            memset(block + panel_high_at(w->type), byte,
                   (size_t)(panel_block_bytes(w->type) - panel_high_at(w->type)));
        }
    }
}

static void compare_extremes(uint32_t type, int byte, float x, hl_precision precision) {
    enum { N_IN = 256, N_OUT = 8, N_COLS = 2 };
    uint64_t seed = type;
    struct matrix w = random_matrix(type, N_IN, N_OUT, &seed);
    struct act a = act_new(N_IN, N_COLS, &seed);
    float want[N_COLS * N_OUT], got[N_COLS * N_OUT];
    fill_codes(&w, byte);
    /* The first blocks are wide. */
    for (int i = 0; i < N_COLS * N_IN; i++) ((float *)a.f32)[i] = i % N_IN < 96 ? x : x / 100;
    act_quantize(&a, N_COLS, precision);
    EXPECT(a.blocks[0].wide == (precision == HL_FAST));
    linear_of(kernels_scalar(), &w, precision)(want, N_OUT, w.data, N_OUT / PANEL_ROWS, &a, 0, N_COLS);
    linear_of(kernels_get(), &w, precision)(got, N_OUT, w.data, N_OUT / PANEL_ROWS, &a, 0, N_COLS);
    EXPECT_MEM(got, want, sizeof want);
    act_free(&a);
    free((void *)w.data);
}

TEST(no_sum_overflows_where_all_codes_are_extreme) {
    for (int k = 0; k < 8; k++) {
        int byte = k & 1 ? 0xff : 0;
        float x = k & 2 ? 1.0f : -1.0f;
        for (int i = 3; i < N_BLOCK_TYPES; i++) compare_extremes(block_types[i], byte, x, precisions[k / 4]);
        for (int i = 0; i < N_PART_TYPES; i++) compare_extremes(part_types[i], byte, x, precisions[k / 4]);
    }
}

/* Every output by a call of its own: a panel and a column. */
TEST(an_output_does_not_depend_on_what_is_computed_with_it) {
    enum { N_IN = 96, N_PANELS = 5, N_COLS = 7, N_OUT = N_PANELS * PANEL_ROWS };
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        for (int p = 0; p < 2; p++) {
            uint64_t seed = i;
            struct matrix w = random_matrix(block_types[i], N_IN, N_OUT, &seed);
            struct act a = act_new(N_IN, N_COLS, &seed);
            if (!panel_is_float(w.type)) act_quantize(&a, N_COLS, precisions[p]);
            linear_fn *linear = linear_of(kernels_get(), &w, precisions[p]);
            float together[N_COLS][N_OUT], alone[PANEL_ROWS];
            linear(together[0], N_OUT, w.data, N_PANELS, &a, 0, N_COLS);
            for (int c = 0; c < N_COLS; c++) {
                for (int panel = 0; panel < N_PANELS; panel++) {
                    linear(alone, 0, w.data + panel * panel_bytes(w.type, N_IN), 1, &a, c, 1);
                    EXPECT_MEM(together[c] + panel * PANEL_ROWS, alone, sizeof alone);
                }
            }
            act_free(&a);
            free((void *)w.data);
        }
    }
}

/* What stands for activation j of the only row. */
static double act_value(const struct act *a, int j) {
    static const int column[4] = {0, 2, 1, 3}; /* codes16's order inside four columns */
    int b = j / PANEL_BLOCK, i = j % PANEL_BLOCK;
    return (double)a->codes16[b][i / 4 * 4 + column[i % 4]] * (double)a->blocks[b].d;
}

/* The sums in double of the weights as the file has them and the activations as they were rounded. */
static void compare_with_double(uint32_t type, hl_precision precision) {
    enum { N_IN = 256, N_OUT = 8 };
    uint64_t seed = type;
    struct matrix w = random_matrix(type, N_IN, N_OUT, &seed);
    struct act a = act_new(N_IN, 1, &seed);
    if (!panel_is_float(w.type)) act_quantize(&a, 1, precision);
    float y[N_OUT], row[N_IN];
    linear_of(kernels_get(), &w, precision)(y, N_OUT, w.data, N_OUT / PANEL_ROWS, &a, 0, 1);
    for (int r = 0; r < N_OUT; r++) {
        double sum = 0, size = 0;
        panel_row(row, &w, r);
        for (int j = 0; j < N_IN; j++) {
            double x = panel_is_float(w.type) ? (double)a.f32[j] : act_value(&a, j);
            sum += (double)row[j] * x;
            size += fabs((double)row[j] * x);
        }
        EXPECT_NEAR(y[r], sum, size * 1e-6);
    }
    act_free(&a);
    free((void *)w.data);
}

TEST(linear_is_the_dot_product_of_weights_and_rounded_activations) {
    for (int i = 0; i < N_PART_TYPES; i++) {
        compare_with_double(part_types[i], HL_FAST);
        compare_with_double(part_types[i], HL_HIGH);
    }
    for (int i = 0; i < N_BLOCK_TYPES; i++) {
        compare_with_double(block_types[i], HL_FAST);
        compare_with_double(block_types[i], HL_HIGH);
    }
}

/* One block for each of four rows: scale d, all codes the same. */
static struct matrix constant_matrix(uint32_t type, uint16_t d, uint8_t code_bytes) {
    const struct type_info *t = type_info(type);
    uint8_t rows[4 * 34];
    memset(rows, code_bytes, sizeof rows);
    for (int r = 0; r < 4; r++) {
        memcpy(rows + r * t->n_bytes, &d, 2);
        if (type == TYPE_Q4_1 || type == TYPE_Q5_1) memset(rows + r * t->n_bytes + 2, 0, 2);
    }
    return matrix_of(type, rows, 32, 4);
}

/* 32 weights w * scale and 32 activations x, all the same: nothing is rounded. */
static void expect_exact(uint32_t type, uint16_t d, uint8_t code_bytes, int w, hl_precision precision,
                         float x) {
    struct matrix m = constant_matrix(type, d, code_bytes);
    uint64_t seed = 0;
    struct act a = act_new(32, 1, &seed);
    for (int j = 0; j < 32; j++) ((float *)a.f32)[j] = x;
    act_quantize(&a, 1, precision);
    float y[4], want = f32_from_f16(d) * (float)(32 * w) * x;
    linear_of(kernels_get(), &m, precision)(y, 4, m.data, 1, &a, 0, 1);
    for (int r = 0; r < 4; r++) EXPECT(y[r] == want);
    act_free(&a);
    free((void *)m.data);
}

TEST(the_largest_codes_do_not_overflow_the_sums) {
    const struct {
        uint32_t type;
        uint8_t bytes;
        int w;
    } cases[] = {
        {TYPE_Q4_0, 0xff, 7},   {TYPE_Q4_0, 0x00, -8}, {TYPE_Q4_1, 0xff, 15},   {TYPE_Q5_0, 0xff, 15},
        {TYPE_Q5_0, 0x00, -16}, {TYPE_Q5_1, 0xff, 31}, {TYPE_Q8_0, 0x80, -128}, {TYPE_Q8_0, 0x7f, 127},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            expect_exact(cases[i].type, 0x3c00, cases[i].bytes, cases[i].w, HL_FAST, (float)(127 * sign));
            expect_exact(cases[i].type, 0xbc00, cases[i].bytes, cases[i].w, HL_HIGH, (float)(32767 * sign));
        }
    }
}

TEST(subnormal_and_negative_scales_are_exact) {
    const uint16_t scales[] = {0x0001, 0x0003, 0x03ff, 0x0400, 0x0401, 0x8001,
                               0x83ff, 0x8400, 0xfbff, 0x7bff, 0x8000, 0x0000};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        expect_exact(TYPE_Q4_0, scales[i], 0xff, 7, HL_FAST, 127);
        expect_exact(TYPE_Q4_1, scales[i], 0xff, 15, HL_FAST, 127);
        expect_exact(TYPE_Q8_0, scales[i], 0x40, 64, HL_HIGH, 32767);
    }
}

TEST(an_activation_that_is_no_number_makes_the_outputs_NaN) {
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 3; i < N_BLOCK_TYPES; i++) {
        for (int k = 0; k < 6; k++) {
            uint64_t seed = k;
            struct matrix w = random_matrix(block_types[i], 64, 4, &seed);
            struct act a = act_new(64, 1, &seed);
            ((float *)a.f32)[40] = bad[k % 3];
            act_quantize(&a, 1, precisions[k / 3]);
            float y[4];
            linear_of(kernels_get(), &w, precisions[k / 3])(y, 4, w.data, 1, &a, 0, 1);
            for (int r = 0; r < 4; r++) EXPECT(y[r] != y[r]);
            act_free(&a);
            free((void *)w.data);
        }
    }
}

TEST(quantizing_rounds_to_nearest_even_and_keeps_sums) {
    uint64_t seed = 1;
    struct act a = act_new(32, 1, &seed);
    float *x = (float *)a.f32;
    memset(x, 0, 32 * sizeof *x);
    const float head[] = {-127, 0.5f, 1.5f, -2.5f, 0.49f, -0.51f, 126.5f, 3};
    const int codes[] = {-127, 0, 2, -2, 0, -1, 126, 3};
    memcpy(x, head, sizeof head);
    act_quantize(&a, 1, HL_FAST);
    for (int j = 0; j < 8; j++) EXPECT_EQ(a.blocks[0].codes8[j], codes[j]);
    EXPECT_EQ(a.codes16[0][1], codes[2]); /* inside four columns 0 2 1 3 */
    EXPECT_EQ(a.codes16[0][2], codes[1]);
    EXPECT_EQ(a.codes16[0][7], codes[7]);
    EXPECT_EQ(a.blocks[0].sum8, 8);
    EXPECT(a.blocks[0].d == 1 && a.blocks[0].s == 1);
    for (int j = 0; j < 8; j++) x[j] *= 32767.0f / 127.0f;
    act_quantize(&a, 1, HL_HIGH);
    EXPECT_EQ(a.codes16[0][0], -32767);
    EXPECT_EQ(a.codes16[0][2], 129);
    EXPECT_EQ(a.codes16[0][1], 387);
    act_free(&a);
}

TEST(a_block_of_zeros_or_of_numbers_too_small_to_matter_is_zero) {
    uint64_t seed = 1;
    struct act a = act_new(96, 1, &seed);
    for (int j = 0; j < 96; j++) ((float *)a.f32)[j] = j < 32 ? 0 : j < 64 ? 0x1p-88f : 0x1p-87f;
    act_quantize(&a, 1, HL_FAST);
    EXPECT(a.blocks[0].d == 0 && a.blocks[0].s == 0 && a.blocks[0].sum8 == 0);
    EXPECT(a.blocks[1].d == 0 && a.blocks[1].s == 0 && a.blocks[1].sum8 == 0 && a.blocks[1].codes8[8] == 0);
    EXPECT(a.blocks[2].d > 0 && a.blocks[2].sum8 == 8 * 32 * 127);
    act_free(&a);
}

TEST(blocks_above_the_mean_of_a_row_have_wide_codes) {
    uint64_t seed = 1;
    struct act a = act_new(96, 1, &seed);
    float *x = (float *)a.f32;
    for (int j = 0; j < 96; j++) x[j] = j < 64 ? 1 : 0;
    x[64] = 16256;
    x[65] = 191;
    x[66] = 192;
    x[67] = -193;
    act_quantize(&a, 1, HL_FAST);
    EXPECT(a.blocks[0].wide == 0 && a.blocks[1].wide == 0 && a.blocks[2].wide == 1);
    EXPECT(a.blocks[2].d == 1 && a.blocks[0].codes8[0] == 127);
    EXPECT(a.blocks[2].codes8[0] == 127 && a.low8[2][0] == 0);
    EXPECT(a.blocks[2].codes8[1] == 1 && a.low8[2][1] == 63);
    EXPECT(a.blocks[2].codes8[2] == 2 && a.low8[2][2] == -64);
    EXPECT(a.blocks[2].codes8[3] == -2 && a.low8[2][3] == 63);
    EXPECT_EQ(a.codes16[2][2], 191); /* inside four columns 0 2 1 3 */
    act_free(&a);
}

/* Columns whose codes are 16256, all weights the largest: no sum of the wide path may overflow. */
TEST(wide_codes_give_exact_sums) {
    const struct {
        uint32_t type;
        uint8_t bytes;
        int w;
    } cases[] = {
        {TYPE_Q4_0, 0xff, 7},  {TYPE_Q4_1, 0xff, 15},   {TYPE_Q5_0, 0x00, -16},
        {TYPE_Q5_1, 0xff, 31}, {TYPE_Q8_0, 0x80, -128},
    };
    const float codes[] = {16256, -16256, 64, -65, 63, -64, 8191, -8193};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < sizeof codes / sizeof codes[0]; k++) {
            uint64_t seed = 0;
            uint8_t rows[4 * 68];
            const struct type_info *t = type_info(cases[i].type);
            memset(rows, cases[i].bytes, sizeof rows);
            for (int b = 0; b < 8; b++) { /* scales 1, offsets 0 */
                uint16_t d = 0x3c00;
                memcpy(rows + b * t->n_bytes, &d, 2);
                if (cases[i].type == TYPE_Q4_1 || cases[i].type == TYPE_Q5_1)
                    memset(rows + b * t->n_bytes + 2, 0, 2);
            }
            struct matrix m = matrix_of(cases[i].type, rows, 64, 4);
            struct act a = act_new(64, 1, &seed);
            for (int j = 0; j < 64; j++) ((float *)a.f32)[j] = j < 32 ? codes[k] : 0;
            ((float *)a.f32)[0] = 16256;
            act_quantize(&a, 1, HL_FAST);
            float y[4], want = (float)cases[i].w * (31 * codes[k] + 16256);
            linear_of(kernels_get(), &m, HL_FAST)(y, 4, m.data, 1, &a, 0, 1);
            EXPECT(a.blocks[0].wide == 1);
            for (int r = 0; r < 4; r++) EXPECT(y[r] == want);
            act_free(&a);
            free((void *)m.data);
        }
    }
}

TEST(quantizing_gives_the_bits_of_the_scalar_kernel) {
    for (int p = 0; p < 2; p++) {
        uint64_t seed = 5;
        struct act a = act_new(320, 2, &seed), b = act_new(320, 2, &seed);
        float *x = (float *)a.f32;
        x[33] = NAN;
        x[70] = -INFINITY;
        for (int j = 96; j < 128; j++) x[j] = test_random_float(&seed) * 1e-38f;
        for (int j = 128; j < 160; j++) x[j] = test_random_float(&seed) * 3e38f;
        for (int row = 0; row < 2; row++) {
            kernels_get()->quantize(&a, row, x + 320 * row, precisions[p]);
            kernels_scalar()->quantize(&b, row, x + 320 * row, precisions[p]);
        }
        for (int i = 0; i < 20; i++) {
            const struct act_block *now = &a.blocks[i], *want = &b.blocks[i];
            EXPECT(now->d != now->d ? want->d != want->d : now->d == want->d);
            EXPECT(now->s != now->s ? want->s != want->s : now->s == want->s);
            EXPECT(now->sum8 == want->sum8 && now->wide == want->wide);
            EXPECT_MEM(a.halves[i].sum, b.halves[i].sum, sizeof a.halves[i].sum);
            EXPECT_MEM(now->codes8, want->codes8, sizeof now->codes8);
            EXPECT_MEM(a.low8[i], b.low8[i], sizeof a.low8[i]);
            EXPECT_MEM(a.codes16[i], b.codes16[i], sizeof a.codes16[i]);
        }
        act_free(&a);
        act_free(&b);
    }
}
