/* Loading models from files in tests, through the public header alone. */
#ifndef HL_TEST_MODEL_FILE_H
#define HL_TEST_MODEL_FILE_H

#include "headlight.h"
#include "test.h"

/* Pushes n bytes into the model, at most `piece` at a time. */
static inline hl_status push_bytes(hl_model *m, const uint8_t *bytes, size_t n, size_t piece) {
    while (n > 0) {
        size_t room;
        uint8_t *window = hl_model_window(m, &room);
        if (!window || room == 0) break;
        size_t count = room < n ? room : n;
        if (count > piece) count = piece;
        memcpy(window, bytes, count);
        hl_status status = hl_model_commit(m, count);
        if (status != HL_OK) return status;
        bytes += count;
        n -= count;
    }
    return hl_model_finish(m);
}

/* The model in tests/golden/models/NAME.gguf; NULL (and a failed test) when it does not load. */
static inline hl_model *load_golden(const char *name, int n_threads, hl_precision precision) {
    char path[256];
    size_t n;
    snprintf(path, sizeof path, "tests/golden/models/%s.gguf", name);
    uint8_t *bytes = test_read_file(path, &n);
    hl_model *m = hl_model_new(n_threads, precision);
    hl_status status = m ? push_bytes(m, bytes, n, n) : HL_EMEMORY;
    free(bytes);
    if (status == HL_OK) return m;
    test_fail(__FILE__, __LINE__, "%s: %s", path, hl_error());
    hl_model_free(m);
    return NULL;
}

/* Threads that this build can have. */
#if defined(__EMSCRIPTEN__) && !defined(__EMSCRIPTEN_PTHREADS__)
enum { TEST_THREADS = 1 };
#else
enum { TEST_THREADS = 2 };
#endif

#endif
