/* y = W x on packed panels: the panels of a group of matrices are cut into units for the pool. */
#include <assert.h>

#include "base/profile.h"
#include "decoder/steps.h"

/* Activations that one pass over a unit's panels reads stay within the second-level cache of small
 * machines. */
enum { ACT_BYTES = 128 << 10, UNITS_PER_THREAD = 4 };

struct linear_group {
    struct decoder *d;
    const struct linear *jobs;
    int n_jobs;
    bool gated;   /* jobs are pairs (gate, up) of the same shape */
    int n_pieces; /* units of all jobs */
    int64_t work; /* panels x columns of all jobs */
};

static int n_panels(const struct linear *job) { return (job->w.n_out + PANEL_ROWS - 1) / PANEL_ROWS; }

static int64_t job_work(const struct linear *job) { return (int64_t)n_panels(job) * job->n * job->w.n_in; }

static linear_fn *kernel_of(const struct decoder *d, const struct matrix *w) {
    return d->precision == HL_FAST ? d->k->linear_fast[w->type] : d->k->linear_high[w->type];
}

/* The last panel of a matrix may be filled up with rows that have no place in y. */
static void run_last_panel(const struct decoder *d, const struct linear *job, const unsigned char *panel,
                           int r0, int c0, int c1) {
    for (int c = c0; c < c1; c++) {
        float rows[PANEL_ROWS];
        kernel_of(d, &job->w)(rows, PANEL_ROWS, panel, 1, job->act, job->col0 + c, 1);
        for (int r = r0; r < job->w.n_out; r++) job->y[(size_t)c * job->y_stride + (size_t)r] = rows[r - r0];
    }
}

/* Panels p0 .. p1 - 1 of one matrix times its columns c0 .. c1 - 1. */
static void run_panels(const struct decoder *d, const struct linear *job, int p0, int p1, int c0, int c1) {
    const struct matrix *w = &job->w;
    size_t panel_size = panel_bytes(w->type, w->n_in);
    int r0 = p0 * PANEL_ROWS, r1 = p1 * PANEL_ROWS;
    int whole = r1 <= w->n_out ? p1 - p0 : p1 - p0 - 1;
    const unsigned char *panels = w->data + (size_t)p0 * panel_size;
    kernel_of(d, w)(job->y + (size_t)c0 * job->y_stride + r0, job->y_stride, panels, whole, job->act,
                    job->col0 + c0, c1 - c0);
    if (r1 > w->n_out) {
        run_last_panel(d, job, panels + (size_t)whole * panel_size, r1 - PANEL_ROWS, c0, c1);
        r1 = w->n_out;
    }
    if (!job->bias) return;
    for (int c = c0; c < c1; c++) d->k->add(job->y + (size_t)c * job->y_stride + r0, job->bias + r0, r1 - r0);
}

/* gate = act(gate) * up, for the rows of panels p0 .. p1 - 1. */
static void run_gate(const struct decoder *d, const struct linear *gate, const struct linear *up, int p0,
                     int p1, int c0, int c1) {
    int r0 = p0 * PANEL_ROWS, r1 = p1 * PANEL_ROWS < gate->w.n_out ? p1 * PANEL_ROWS : gate->w.n_out;
    for (int c = c0; c < c1; c++) {
        float *g = gate->y + (size_t)c * gate->y_stride + r0;
        const float *u = up->y + (size_t)c * up->y_stride + r0;
        if (d->m->arch->act == ACT_GELU) d->k->gelu_mul(g, g, u, r1 - r0);
        else d->k->silu_mul(g, g, u, r1 - r0);
    }
}

/* How many units a job is cut into: its share of them, at least one, at most a panel each. */
static int job_pieces(const struct linear_group *g, const struct linear *job) {
    int64_t units = (int64_t)pool_threads(g->d->pool) * UNITS_PER_THREAD;
    int64_t pieces = (units * job_work(job) + g->work - 1) / g->work;
    if (pool_threads(g->d->pool) == 1) pieces = 1;
    if (pieces > n_panels(job)) pieces = n_panels(job);
    return pieces < 1 ? 1 : (int)pieces;
}

static void linear_unit(void *arg, int unit, int thread) {
    const struct linear_group *g = arg;
    const struct linear *job = g->jobs;
    (void)thread;
    int step = g->gated ? 2 : 1, pieces;
    for (; unit >= (pieces = job_pieces(g, job)); job += step) unit -= pieces;
    int p0 = (int)((int64_t)n_panels(job) * unit / pieces),
        p1 = (int)((int64_t)n_panels(job) * (unit + 1) / pieces);
    int columns = ACT_BYTES / (2 * job->w.n_in) & ~3;
    if (columns < 4) columns = 4;
    for (int c0 = 0; c0 < job->n; c0 += columns) {
        int c1 = c0 + columns < job->n ? c0 + columns : job->n;
        run_panels(g->d, job, p0, p1, c0, c1);
        if (!g->gated) continue;
        run_panels(g->d, job + 1, p0, p1, c0, c1);
        run_gate(g->d, job, job + 1, p0, p1, c0, c1);
    }
}

static void group_run(struct linear_group *g) {
    int step = g->gated ? 2 : 1;
    for (int j = 0; j < g->n_jobs; j += step) g->work += job_work(&g->jobs[j]);
    if (g->work == 0) return;
    PROFILE(LINEAR);
    for (int j = 0; j < g->n_jobs; j += step) g->n_pieces += job_pieces(g, &g->jobs[j]);
    pool_run(g->d->pool, linear_unit, g, g->n_pieces);
}

void linear_run(struct decoder *d, const struct linear *jobs, int n_jobs) {
    struct linear_group g = {.d = d, .jobs = jobs, .n_jobs = n_jobs};
    group_run(&g);
}

void linear_gated(struct decoder *d, const struct linear *pairs, int n_jobs) {
    assert(n_jobs % 2 == 0);
    struct linear_group g = {.d = d, .jobs = pairs, .n_jobs = n_jobs, .gated = true};
    group_run(&g);
}

bool linear_reads_codes(const struct matrix *const *w, int n) {
    for (int i = 0; i < n; i++)
        if (w[i]->data && !panel_is_float(w[i]->type)) return true;
    return false;
}
