#include "sampler/candidates.h"

#include <math.h>

static bool before(const struct candidate *a, const struct candidate *b) {
    return a->key != b->key ? a->key > b->key : a->id < b->id;
}

/* Moves c[i] down until the heap c: [n] has its first candidate (worst: its last) on top again. */
static void sift_down(struct candidate *c, int n, int i, bool worst) {
    struct candidate moving = c[i];
    int child;
    while ((child = 2 * i + 1) < n) {
        if (child + 1 < n && before(&c[child + 1], &c[child]) != worst) child++;
        if (before(&c[child], &moving) == worst) break;
        c[i] = c[child];
        i = child;
    }
    c[i] = moving;
}

static void heapify(struct candidate *c, int n, bool worst) {
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(c, n, i, worst);
}

static void swap(struct candidate *a, struct candidate *b) {
    struct candidate t = *a;
    *a = *b;
    *b = t;
}

int candidates_top(struct candidate *c, int k, const float *logits, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (!(logits[i] > -INFINITY)) continue;
        if (kept < k) {
            c[kept++] = (struct candidate){logits[i], logits[i], i, 0};
            if (kept == k) heapify(c, k, true);
        } else if (logits[i] > c[0].key) { /* a tie is lost: the id is higher */
            c[0] = (struct candidate){logits[i], logits[i], i, 0};
            sift_down(c, k, 0, true);
        }
    }
    if (kept < k) heapify(c, kept, true);
    for (int left = kept - 1; left > 0; left--) {
        swap(&c[0], &c[left]);
        sift_down(c, left, 0, true);
    }
    return kept;
}

int candidates_take(struct candidate *c, int n, double enough) {
    double sum = 0;
    int left = n;
    heapify(c, n, false);
    do {
        swap(&c[0], &c[--left]);
        sum += c[left].p;
        sift_down(c, left, 0, false);
    } while (left > 0 && !(sum >= enough));
    for (int i = 0, j = n - 1; i < j; i++, j--) swap(&c[i], &c[j]);
    return n - left;
}
