/* Rates of the kernels on one thread, in processor time, best of several rounds: what the machine gives, for
 * choosing between kernels. `make bench-kernels` runs it for each variant. Arguments: names of panel types to
 * keep, such as Q4_1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <emscripten.h>

#include "kernels/kernels.h"
#include "quant/types.h"

enum { N_IN = 1024, CACHE_ROWS = 256, MEMORY_BYTES = 64 << 20, COLUMNS = 64, ROUNDS = 6 };

static const uint32_t types[] = {TYPE_Q4_0,  TYPE_Q4_1, TYPE_Q5_0, TYPE_Q5_1, TYPE_Q8_0,   TYPE_Q2_K,
                                 TYPE_Q3_K,  TYPE_Q4_K, TYPE_Q5_K, TYPE_Q6_K, TYPE_IQ4_NL, TYPE_IQ4_XS,
                                 TYPE_MXFP4, TYPE_F16,  TYPE_BF16, TYPE_F32};

/* Seconds of processor time, so that other programs on the machine take less part in it. */
EM_JS(double, seconds, (void), {
    const used = process.threadCpuUsage ? process.threadCpuUsage() : process.cpuUsage();
    return (used.user + used.system) * 1e-6;
})

struct work {
    linear_fn *linear;
    const unsigned char *panels;
    int n_panels, n_cols;
    const struct act *a;
    float *y; /* [COLUMNS][4 * n_panels] */
};

static double run(const struct work *w, int repeats) {
    double start = seconds();
    for (int i = 0; i < repeats; i++) {
        w->linear(w->y, (size_t)w->n_panels * PANEL_ROWS, w->panels, w->n_panels, w->a, 0, w->n_cols);
    }
    return seconds() - start;
}

/* Billions of multiply-adds a second, best of ROUNDS, each long against the 4 ms in which systems count. */
static double rate(const struct work *w) {
    int repeats = 1;
    double best = 0, macs = (double)(w->n_panels * PANEL_ROWS) * (double)(N_IN * w->n_cols) * 1e-9;
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
    size_t size = (size_t)COLUMNS * N_IN, blocks = size / PANEL_BLOCK;
    return (struct act){.n_in = N_IN,
                        .f32 = x,
                        .codes8 = calloc(size, 1),
                        .low8 = calloc(size, 1),
                        .wide = calloc(blocks, 1),
                        .codes16 = calloc(size, 2),
                        .d = calloc(blocks, 4),
                        .s = calloc(blocks, 4),
                        .s2 = calloc(2 * blocks, 4),
                        .sum8 = calloc(blocks, 4)};
}

static void bench_type(uint32_t type, hl_precision precision, const unsigned char *panels, struct act *a,
                       float *y) {
    const struct type_info *t = type_info(type);
    const struct kernels *k = kernels_get();
    for (int c = 0; c < COLUMNS; c++) k->quantize(a, c, a->f32 + (size_t)c * N_IN, precision);
    int whole = (int)(MEMORY_BYTES / panel_bytes(t->panel, N_IN)), few = CACHE_ROWS / PANEL_ROWS;
    struct work w = {
        precision == HL_FAST ? k->linear_fast[t->panel] : k->linear_high[t->panel], panels, few, 1, a, y};
    double cached = rate(&w);
    w.n_cols = 4;
    double tile = rate(&w);
    w.n_cols = COLUMNS;
    double prompt = rate(&w);
    w.n_cols = 1;
    w.n_panels = whole;
    double memory = rate(&w);
    printf("%-6s %-4s %8.1f %8.1f %8.1f %8.1f %8.1f\n", t->name, precision == HL_FAST ? "fast" : "high",
           cached, memory, memory * (double)panel_bytes(t->panel, N_IN) / (PANEL_ROWS * N_IN), tile, prompt);
}

static bool is_wanted(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return argc < 2;
}

int main(int argc, char **argv) {
    unsigned char *panels = malloc(MEMORY_BYTES);
    float *x = malloc((size_t)COLUMNS * N_IN * sizeof *x),
          *y = malloc((size_t)MEMORY_BYTES / N_IN * 4 * sizeof *y);
    /* 0x21 bytes are small finite scales and floats. */
    memset(panels, 0x21, MEMORY_BYTES);
    /* One block in five is larger than the others, and so wide. */
    for (int i = 0; i < COLUMNS * N_IN; i++) {
        uint32_t block = (uint32_t)(i / PANEL_BLOCK) * 2654435761u;
        x[i] = (float)(i * 7919 % 2000 - 1000) * ((block >> 16) % 5 == 0 ? 4e-3f : 1e-3f);
    }
    struct act a = activations(x);
    printf("one thread; GMAC/s of %d x %d weights in cache, %d MB in memory; plain reading %.1f GB/s\n",
           CACHE_ROWS, N_IN, MEMORY_BYTES >> 20, read_rate(panels, MEMORY_BYTES));
    printf("%-11s %8s %8s %8s %8s %8s\n", "panels", "1 column", "memory", "GB/s", "4", "64");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (!is_wanted(type_info(types[i])->name, argc, argv)) continue;
        bench_type(types[i], HL_FAST, panels, &a, y);
        if (!panel_is_float(type_info(types[i])->panel)) bench_type(types[i], HL_HIGH, panels, &a, y);
    }
    free(panels);
    free(x);
    free(y);
    free(a.codes8);
    free(a.low8);
    free(a.wide);
    free(a.codes16);
    free(a.d);
    free(a.s);
    free(a.s2);
    free(a.sum8);
    return 0;
}
