/* Saved contexts that are damaged: whatever the bytes are, nothing outside them is read, a refusal changes nothing,
 * and what is taken can be gone on with. The first byte says whether the checksum is made right again, so that what
 * lies behind it is reached; the rest is laid over a good file, or is the file. */
#include <stdarg.h>

#include "../c/model_file.h"
#include "base/hash.h"

enum { N_CTX = 96, N_TOKENS = 70 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static hl_model *model;
static hl_session *begun; /* what is restored into, as copies of it */
static uint8_t *good;
static size_t n_good;

static void require(bool ok) {
    if (!ok) abort();
}

/* What model_file.h needs of the test runner. */
void test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    va_end(args);
    abort();
}

uint8_t *test_read_file(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    require(f && fseek(f, 0, SEEK_END) == 0);
    *size = (size_t)ftell(f);
    uint8_t *bytes = malloc(*size);
    rewind(f);
    require(bytes && fread(bytes, 1, *size, f) == *size);
    fclose(f);
    return bytes;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    int32_t tokens[N_TOKENS];
    (void)argc, (void)argv;
    model = load_golden("gemma3", 1, HL_FAST);
    require(model != NULL);
    hl_session *saved_from = hl_session_new(model, N_CTX, HL_KV_F16);
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = 2 + 3 * i;
    require(saved_from && hl_feed(saved_from, tokens, N_TOKENS) == HL_OK);
    n_good = hl_session_save_bytes(saved_from);
    good = malloc(n_good);
    hl_session_save(saved_from, 7, good);
    hl_session_free(saved_from);
    begun = hl_session_new(model, N_CTX, HL_KV_F16);
    require(begun && hl_feed(begun, (int32_t[]){5, 6, 7}, 3) == HL_OK);
    return 0;
}

/* data: pairs of a place and a byte that is added there. */
static uint8_t *damaged(const uint8_t *data, size_t n) {
    uint8_t *bytes = malloc(n_good);
    memcpy(bytes, good, n_good);
    for (size_t i = 0; i + 4 <= n; i += 4) {
        size_t at = data[i] | (size_t)data[i + 1] << 8 | (size_t)(data[i + 2] & 1) << 16;
        bytes[at % n_good] = (uint8_t)(bytes[at % n_good] + data[i + 3]);
    }
    return bytes;
}

static void mend(uint8_t *bytes, size_t n) {
    if (n < sizeof(uint64_t)) return;
    uint64_t sum = hash_bytes(HASH_START, bytes, n - sizeof sum);
    memcpy(bytes + n - sizeof sum, &sum, sizeof sum);
}

static void check(const uint8_t *bytes, size_t n) {
    hl_session *s = hl_session_fork(begun);
    require(s != NULL);
    uint32_t note = 0;
    hl_status status = hl_session_restore(s, bytes, n, &note);
    require(status == HL_OK || hl_error()[0] != 0);
    if (status != HL_OK) {
        require(hl_session_length(s) == 3 && hl_session_tokens(s)[1] == 6 && hl_logits(s) != NULL);
    } else {
        require(hl_session_save_bytes(s) == n);
        uint8_t *again = malloc(n);
        hl_session_save(s, note, again);
        require(memcmp(again, bytes, n) == 0);
        free(again);
        if (hl_session_length(s) < N_CTX) require(hl_feed(s, (int32_t[]){9}, 1) == HL_OK);
    }
    hl_session_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n == 0) return 0;
    bool is_whole = data[0] & 1, is_mended = data[0] & 2;
    uint8_t *bytes = is_whole ? malloc(n) : damaged(data + 1, n - 1);
    size_t size = is_whole ? n - 1 : n_good - (data[0] & 4 ? data[0] >> 3 : 0);
    if (is_whole) memcpy(bytes, data + 1, size);
    uint8_t *exact = malloc(size ? size : 1); /* so that a read past the end is seen */
    memcpy(exact, bytes, size);
    if (is_mended) mend(exact, size);
    check(exact, size);
    free(exact);
    free(bytes);
    return 0;
}
