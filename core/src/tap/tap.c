#include "tap/tap.h"

#include <assert.h>
#include <string.h>

static size_t table_bytes(int n_layer) { return (size_t)HL_TAPS * (size_t)n_layer * sizeof(struct tap); }

hl_status taps_init(struct taps *t, struct mem *mem, int n_layer) {
    *t = (struct taps){.mem = mem, .n_layer = n_layer};
    t->all = mem_alloc(mem, MEM_SCRATCH, table_bytes(n_layer));
    CHECK(t->all, HL_EMEMORY, "taps: no memory for %d layers", n_layer);
    return HL_OK;
}

static void tap_clear(struct taps *t, struct tap *tap) {
    mem_free(t->mem, MEM_SCRATCH, tap->data, tap->capacity * sizeof(float));
    *tap = (struct tap){.on = tap->on};
}

void taps_free(struct taps *t) {
    if (!t->all) return;
    for (int i = 0; i < HL_TAPS * t->n_layer; i++) tap_clear(t, &t->all[i]);
    mem_free(t->mem, MEM_SCRATCH, t->all, table_bytes(t->n_layer));
    t->all = NULL;
}

static hl_status check(const struct taps *t, hl_tap name, int layer) {
    CHECK((int)name >= 0 && name < HL_TAPS, HL_EARGUMENT, "tap: there is no tap %d", (int)name);
    CHECK(layer >= 0 && layer < t->n_layer, HL_EARGUMENT, "tap: layer %d, the model has layers 0 to %d",
          layer, t->n_layer - 1);
    return HL_OK;
}

hl_status taps_set(struct taps *t, hl_tap name, int layer, bool on) {
    TRY(check(t, name, layer));
    struct tap *tap = tap_at(t, name, layer);
    t->n_on += (int)on - (int)tap->on;
    tap->on = on;
    if (!on) tap_clear(t, tap);
    return HL_OK;
}

const float *taps_read(const struct taps *t, hl_tap name, int layer, int32_t shape[3]) {
    if (check(t, name, layer) != HL_OK) return NULL;
    const struct tap *tap = tap_at(t, name, layer);
    if (!tap->on || !tap->data) {
        status_set(HL_ESTATE, "tap: tap %d of layer %d is off or holds nothing yet", (int)name, layer);
        return NULL;
    }
    for (int i = 0; i < 3; i++) shape[i] = tap->shape[i];
    return tap->data;
}

hl_status taps_prepare(struct taps *t, hl_tap name, int heads, int rows, int columns) {
    if (t->n_on == 0) return HL_OK;
    size_t n = mem_size(mem_size((size_t)heads, (size_t)rows), (size_t)columns);
    for (int layer = 0; layer < t->n_layer; layer++) {
        struct tap *tap = tap_at(t, name, layer);
        if (!tap->on) continue;
        if (n > tap->capacity) {
            size_t capacity = n + n / 2; /* attention maps grow with every token */
            tap_clear(t, tap);
            tap->data = mem_alloc(t->mem, MEM_SCRATCH, mem_size(capacity, sizeof(float)));
            CHECK(tap->data, HL_EMEMORY,
                  "tap: no memory for %d x %d x %d values of layer %d: watch fewer layers", heads, rows,
                  columns, layer);
            tap->capacity = capacity;
        }
        tap->shape[0] = heads;
        tap->shape[1] = rows;
        tap->shape[2] = columns;
    }
    return HL_OK;
}

void tap_rows(const struct taps *t, hl_tap name, int layer, const float *src, size_t stride) {
    if (!tap_on(t, name, layer)) return;
    struct tap *tap = tap_at(t, name, layer);
    assert(tap->shape[0] == 1);
    size_t columns = (size_t)tap->shape[2];
    for (int row = 0; row < tap->shape[1]; row++)
        memcpy(tap->data + (size_t)row * columns, src + (size_t)row * stride, columns * sizeof(float));
}
