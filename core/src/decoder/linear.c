/* y = W x on packed panels: the panels of a group of matrices are cut into units for the pool. */
#include "decoder/steps.h"

/* Activations that one pass over a unit's panels reads stay within the second-level cache of small machines. */
enum { ACT_BYTES = 128 << 10, UNITS_PER_THREAD = 4 };

struct linear_group {
    struct decoder *d;
    const struct linear *jobs;
    int n_jobs, n, n_panels, n_units, columns;
    bool gated;
};

static int n_panels(const struct matrix *w) {
    return (w->n_out + PANEL_ROWS - 1) / PANEL_ROWS;
}

static linear_fn *kernel_of(const struct decoder *d, const struct matrix *w) {
    return d->precision == HL_FAST ? d->k->linear_fast[w->type] : d->k->linear_high[w->type];
}

/* Panels p0 .. p1 - 1 of one matrix, activations c0 .. c1 - 1. */
static void run_panels(const struct decoder *d, const struct linear *job, int p0, int p1, int c0, int c1) {
    const struct matrix *w = job->w;
    size_t stride = (size_t)w->n_out;
    int r0 = p0 * PANEL_ROWS, r1 = p1 * PANEL_ROWS;
    const unsigned char *panels = w->data + (size_t)p0 * panel_bytes(w->type, w->n_in);
    float *y = job->y + (size_t)c0 * stride + r0;
    int whole = r1 <= w->n_out ? p1 - p0 : p1 - p0 - 1;
    kernel_of(d, w)(y, stride, panels, whole, &d->act, c0, c1 - c0);
    if (r1 > w->n_out) { /* the last panel is filled up with rows that have no place in y */
        const unsigned char *last = panels + (size_t)whole * panel_bytes(w->type, w->n_in);
        int rows = w->n_out - (r1 - PANEL_ROWS);
        for (int c = c0; c < c1; c++) {
            float tmp[PANEL_ROWS];
            kernel_of(d, w)(tmp, PANEL_ROWS, last, 1, &d->act, c, 1);
            for (int r = 0; r < rows; r++) job->y[(size_t)c * stride + (size_t)(r1 - PANEL_ROWS + r)] = tmp[r];
        }
        r1 = w->n_out;
    }
    if (!job->bias) return;
    for (int c = c0; c < c1; c++) d->k->add(job->y + (size_t)c * stride + r0, job->bias + r0, r1 - r0);
}

static void run_gate(const struct decoder *d, const struct linear *jobs, int p0, int p1, int c0, int c1) {
    size_t n_ff = (size_t)jobs[0].w->n_out;
    int r0 = p0 * PANEL_ROWS, r1 = p1 * PANEL_ROWS < (int)n_ff ? p1 * PANEL_ROWS : (int)n_ff;
    for (int c = c0; c < c1; c++) {
        float *gate = jobs[0].y + (size_t)c * n_ff + r0;
        const float *up = jobs[1].y + (size_t)c * n_ff + r0;
        if (d->m->arch->act == ACT_GELU) d->k->gelu_mul(gate, gate, up, r1 - r0);
        else d->k->silu_mul(gate, gate, up, r1 - r0);
    }
}

static void linear_unit(void *arg, int unit, int thread) {
    const struct linear_group *g = arg;
    (void)thread;
    int from = (int)((int64_t)g->n_panels * unit / g->n_units), to = (int)((int64_t)g->n_panels * (unit + 1) / g->n_units);
    for (int c0 = 0; c0 < g->n; c0 += g->columns) {
        int c1 = c0 + g->columns < g->n ? c0 + g->columns : g->n;
        if (g->gated) {
            for (int j = 0; j < g->n_jobs; j++) run_panels(g->d, &g->jobs[j], from, to, c0, c1);
            run_gate(g->d, g->jobs, from, to, c0, c1);
            continue;
        }
        int base = 0;
        for (int j = 0; j < g->n_jobs; j++) {
            int count = n_panels(g->jobs[j].w);
            int p0 = from - base > 0 ? from - base : 0, p1 = to - base < count ? to - base : count;
            if (p0 < p1) run_panels(g->d, &g->jobs[j], p0, p1, c0, c1);
            base += count;
        }
    }
}

static void group_run(struct linear_group *g) {
    int threads = pool_threads(g->d->pool);
    g->n_units = threads == 1 ? 1 : threads * UNITS_PER_THREAD;
    if (g->n_units > g->n_panels) g->n_units = g->n_panels;
    g->columns = ACT_BYTES / (2 * g->jobs[0].w->n_in) & ~3;
    if (g->columns < 4) g->columns = 4;
    pool_run(g->d->pool, linear_unit, g, g->n_units);
}

void linear_run(struct decoder *d, const struct linear *jobs, int n_jobs, int n) {
    struct linear_group g = {.d = d, .jobs = jobs, .n_jobs = n_jobs, .n = n};
    for (int j = 0; j < n_jobs; j++) g.n_panels += n_panels(jobs[j].w);
    group_run(&g);
}

void linear_gated(struct decoder *d, const struct linear *gate, const struct linear *up, int n) {
    struct linear jobs[] = {*gate, *up};
    struct linear_group g = {.d = d, .jobs = jobs, .n_jobs = 2, .n = n, .n_panels = n_panels(gate->w), .gated = true};
    group_run(&g);
}

bool linear_reads_codes(const struct matrix *const *w, int n) {
    for (int i = 0; i < n; i++)
        if (w[i]->data && !panel_is_float(w[i]->type)) return true;
    return false;
}
