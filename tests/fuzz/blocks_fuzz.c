/* Any bytes as blocks of every type: a packed row that is taken reads back as the bits of the file (MXFP4:
 * nearly), and is finite. The first byte says which type. */
#include "../c/blocks.h"

enum { MAX_COLUMNS = 512, MAX_ROWS = 9 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void require(bool ok) {
    if (!ok) abort();
}

/* Panels have scales in f16: MXFP4's below 2^-24 are rounded, which moves a weight by less than this. */
static const float mxfp4_rounding = 12 * 0x1p-25f;

static bool is_same(uint32_t type, const float *want, const float *got, int n) {
    if (type != TYPE_MXFP4) return memcmp(want, got, (size_t)n * sizeof *got) == 0;
    for (int j = 0; j < n; j++)
        if (!(fabsf(want[j] - got[j]) <= mxfp4_rounding)) return false;
    return true;
}

/* Rows [n_rows] of n_in weights. */
static void check_rows(uint32_t type, const uint8_t *rows, int n_in, int n_rows) {
    const struct type_info *t = type_info(type);
    size_t row_bytes = (size_t)n_in / t->n_weights * t->n_bytes;
    unsigned char *panels = calloc(1, panel_matrix_bytes(t->panel, n_in, n_rows));
    struct matrix w = {t->panel, n_in, n_rows, panels};
    float want[MAX_COLUMNS], got[MAX_COLUMNS];
    bool taken = pack_rows(panels, type, rows, n_in, 0, n_rows);
    for (int row = 0; taken && row < n_rows; row++) {
        t->to_f32(want, rows + (size_t)row * row_bytes, (size_t)n_in);
        panel_row(got, &w, row);
        require(is_same(type, want, got, n_in));
        for (int j = 0; j < n_in; j++) require(got[j] - got[j] == 0);
    }
    free(panels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2) return 0;
    int which = data[0] % (N_BLOCK_TYPES + N_PART_TYPES);
    uint32_t type = which < N_BLOCK_TYPES ? block_types[which] : part_types[which - N_BLOCK_TYPES];
    const struct type_info *t = type_info(type);
    int per_row = which < N_BLOCK_TYPES && t->n_weights == 1 ? 32 : 1 + data[0] / 128;
    if (which >= N_BLOCK_TYPES) per_row *= 256 / t->n_weights;
    size_t row_bytes = (size_t)per_row * t->n_bytes, n_rows = (n - 1) / row_bytes;
    if (n_rows == 0) return 0;
    if (n_rows > MAX_ROWS) n_rows = MAX_ROWS;
    uint8_t *exact = malloc(n_rows * row_bytes); /* so that a read past the end is seen */
    memcpy(exact, data + 1, n_rows * row_bytes);
    check_rows(type, exact, per_row * t->n_weights, (int)n_rows);
    free(exact);
    return 0;
}
