/* What the machine gives to the kernels, best of several rounds, for each panel type: panels that a cache holds
 * times 1, 4 and 64 columns, and panels in memory times one column.
 *
 *   kernels [N] [fast|high] [TYPE ...]
 *
 * Without N: one thread, in processor time, for comparing kernels. With N: that many threads by the wall clock, for
 * comparing with a whole model. `fast` or `high` and types such as Q4_1 keep these alone.
 *
 * Each line: type, precision, GMAC/s with 1 column, GMAC/s and GB/s from memory, GMAC/s with 4 and 64 columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <emscripten.h>

#include "base/pool.h"
#include "kernels/kernels.h"
#include "quant/types.h"

enum { N_IN = 1024, CACHE_ROWS = 256, MEMORY_BYTES = 128 << 20, COLUMNS = 64, ROUNDS = 6 };
enum { UNITS_PER_THREAD = 4 }; /* as linear.c cuts a matrix */

static const uint32_t types[] = {TYPE_Q4_0,  TYPE_Q4_1, TYPE_Q5_0, TYPE_Q5_1, TYPE_Q8_0,   TYPE_Q2_K,
                                 TYPE_Q3_K,  TYPE_Q4_K, TYPE_Q5_K, TYPE_Q6_K, TYPE_IQ4_NL, TYPE_IQ4_XS,
                                 TYPE_MXFP4, TYPE_F16,  TYPE_BF16, TYPE_F32};

EM_JS(double, processor_seconds, (void), {
    const used = process.threadCpuUsage ? process.threadCpuUsage() : process.cpuUsage();
    return (used.user + used.system) * 1e-6;
})

static bool by_wall_clock;

/* Processor time of one thread, in which other programs on the machine take less part, or the wall clock. */
static double seconds(void) { return by_wall_clock ? emscripten_get_now() * 1e-3 : processor_seconds(); }

/* Units of a phase: each has panels of its own, and its own part of y. */
struct work {
    struct pool *pool;
    linear_fn *linear;
    const unsigned char *panels; /* [n_units][n_panels] of `panel` bytes */
    size_t panel;
    int n_units, n_panels, n_cols;
    int repeats; /* inside a unit: its panels stay in the cache of its thread */
    const struct act *a;
    float *y; /* [n_units][COLUMNS][PANEL_ROWS * n_panels] */
};

static void work_unit(void *arg, int unit, int thread) {
    const struct work *w = arg;
    size_t rows = (size_t)w->n_panels * PANEL_ROWS, at = (size_t)unit * (size_t)w->n_panels;
    (void)thread;
    for (int i = 0; i < w->repeats; i++) {
        w->linear(w->y + at * PANEL_ROWS * (size_t)w->n_cols, rows, w->panels + at * w->panel, w->n_panels,
                  w->a, 0, w->n_cols);
    }
}

static double run(const struct work *w, int repeats) {
    double start = seconds();
    for (int i = 0; i < repeats; i++) pool_run(w->pool, work_unit, (void *)w, w->n_units);
    return seconds() - start;
}

/* Billions of multiply-adds a second, best of ROUNDS, each long against the 4 ms in which systems count. */
static double rate(const struct work *w) {
    int repeats = 1;
    double best = 0, panels = (double)w->n_units * w->n_panels * w->repeats;
    double macs = panels * (double)(PANEL_ROWS * N_IN * w->n_cols) * 1e-9;
    while (run(w, repeats) < 0.06) repeats *= 2;
    for (int i = 0; i < ROUNDS; i++) {
        double r = macs * repeats / run(w, repeats);
        if (r > best) best = r;
    }
    return best;
}

/* GB/s of adding up memory in 16-byte pieces. */
static double read_rate(const unsigned char *p, size_t bytes) {
    double best = 0;
    volatile uint64_t keep = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t sum[4] = {0};
        double start = seconds();
        for (size_t at = 0; at + 32 <= bytes; at += 32) {
            for (int k = 0; k < 4; k++) {
                uint64_t word;
                memcpy(&word, p + at + 8 * k, 8);
                sum[k] += word;
            }
        }
        keep = keep + sum[0] + sum[1] + sum[2] + sum[3];
        double r = (double)bytes * 1e-9 / (seconds() - start);
        if (r > best) best = r;
    }
    return best;
}

static struct act activations(const float *x) {
    size_t n_blocks = (size_t)COLUMNS * N_IN / PANEL_BLOCK;
    return (struct act){.n_in = N_IN,
                        .n_rows = COLUMNS,
                        .f32 = x,
                        .blocks = calloc(n_blocks, sizeof(struct act_block)),
                        .halves = calloc(n_blocks, sizeof(struct act_halves)),
                        .low8 = calloc(n_blocks, PANEL_BLOCK),
                        .codes16 = calloc(n_blocks, 2 * PANEL_BLOCK)};
}

static void quantize_rows(struct act *a, int n, hl_precision precision) {
    a->n_rows = n;
    for (int c = 0; c < n; c++) kernels_get()->quantize(a, c, a->f32 + (size_t)c * N_IN, precision);
}

static void bench_type(struct pool *pool, uint32_t type, hl_precision precision, const unsigned char *panels,
                       struct act *a, float *y) {
    const struct type_info *t = type_info(type);
    const struct kernels *k = kernels_get();
    size_t panel = panel_bytes(t->panel, N_IN);
    int threads = pool_threads(pool), units = threads * UNITS_PER_THREAD;
    struct work w = {.pool = pool,
                     .linear = precision == HL_FAST ? k->linear_fast[t->panel] : k->linear_high[t->panel],
                     .panels = panels,
                     .panel = panel,
                     .n_units = threads,
                     .n_panels = CACHE_ROWS / PANEL_ROWS,
                     .n_cols = 1,
                     .repeats = 64,
                     .a = a,
                     .y = y};
    quantize_rows(a, 1, precision);
    double cached = rate(&w);
    w.repeats = 1;
    w.n_units = units;
    w.n_panels = (int)(MEMORY_BYTES / panel) / units;
    double memory = rate(&w);
    quantize_rows(a, COLUMNS, precision);
    w.n_units = threads;
    w.n_panels = CACHE_ROWS / PANEL_ROWS;
    w.repeats = 64;
    w.n_cols = 4;
    double tile = rate(&w);
    w.n_cols = COLUMNS;
    w.repeats = 4;
    double prompt = rate(&w);
    printf("%-6s %-4s %8.1f %8.1f %8.1f %8.1f %8.1f\n", t->name, precision == HL_FAST ? "fast" : "high",
           cached, memory, memory * (double)panel / (PANEL_ROWS * N_IN), tile, prompt);
}

/* Whether a name is among the arguments, or no name of its kind is. */
static bool is_wanted(const char *name, bool is_precision, int argc, char **argv) {
    bool any = false;
    for (int i = 1; i < argc; i++) {
        bool precision = strcmp(argv[i], "fast") == 0 || strcmp(argv[i], "high") == 0;
        if (strcmp(argv[i], name) == 0) return true;
        any |= precision == is_precision && atoi(argv[i]) == 0;
    }
    return !any;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    by_wall_clock = threads > 0;
    struct pool *pool = pool_new(by_wall_clock ? threads : 1);
    unsigned char *panels = malloc(MEMORY_BYTES);
    float *x = malloc((size_t)COLUMNS * N_IN * sizeof *x),
          *y = malloc((size_t)MEMORY_BYTES / N_IN * 4 * sizeof *y);
    if (!pool) {
        fprintf(stderr, "no pool of %d threads in this build\n", threads);
        return 1;
    }
    /* 0x21 bytes are small finite scales and floats. */
    memset(panels, 0x21, MEMORY_BYTES);
    /* One block in five is larger than the others, and so wide. */
    for (int i = 0; i < COLUMNS * N_IN; i++) {
        uint32_t block = (uint32_t)(i / PANEL_BLOCK) * 2654435761u;
        x[i] = (float)(i * 7919 % 2000 - 1000) * ((block >> 16) % 5 == 0 ? 4e-3f : 1e-3f);
    }
    struct act a = activations(x);
    printf(
        "%d %s; GMAC/s of %d x %d weights in cache, %d MB in memory; plain reading by one thread %.1f GB/s\n",
        pool_threads(pool), by_wall_clock ? "threads by the wall clock" : "thread in processor time",
        CACHE_ROWS, N_IN, MEMORY_BYTES >> 20, read_rate(panels, MEMORY_BYTES));
    printf("%-11s %8s %8s %8s %8s %8s\n", "panels", "1 column", "memory", "GB/s", "4", "64");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!is_wanted(type_info(types[i])->name, false, argc, argv)) continue;
        if (is_wanted("fast", true, argc, argv)) bench_type(pool, types[i], HL_FAST, panels, &a, y);
        if (!panel_is_float(type_info(types[i])->panel) && is_wanted("high", true, argc, argv))
            bench_type(pool, types[i], HL_HIGH, panels, &a, y);
    }
    /* Panels, rows and workers go with the process. */
    return 0;
}
