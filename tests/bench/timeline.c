/* Where the time of a token goes, phase by phase, on the thread that calls: linked with the core built with
 * -DHL_PROFILE.
 *
 *   timeline MODEL THREADS PROMPT POSITIONS ...
 *
 * Feeds a prompt of PROMPT tokens to an empty context, then goes on from each number of POSITIONS with a few tokens, the
 * best one each time. A line for each: name, positions, tokens, and milliseconds a token in each phase in the order of
 * enum profile_phase. Median of several rounds by their sum. f16 cache, precision fast. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <emscripten.h>

#include "base/profile.h"
#include "headlight.h"

enum { DECODED = 24, ROUNDS = 5 };

static enum profile_phase current = PROFILE_EMBED, before_wait;
static double entered;
static double spent[PROFILE_PHASES]; /* ms */

void profile_enter(enum profile_phase phase) {
    double now = emscripten_get_now();
    spent[current] += now - entered;
    entered = now;
    if (phase == PROFILE_WAIT) before_wait = current;
    /* The output matrix is a product too, and keeps its own name. */
    if (phase == PROFILE_RESUME) current = before_wait;
    else if (phase != PROFILE_LINEAR || current != PROFILE_OUTPUT) current = phase;
}

static void start_clock(void) {
    entered = emscripten_get_now();
    memset(spent, 0, sizeof spent);
}

static void check(bool ok) {
    if (ok) return;
    fprintf(stderr, "timeline: %s\n", hl_error());
    exit(1);
}

static hl_model *read_model(const char *path, int threads) {
    hl_model *m = hl_model_new(threads, HL_FAST);
    FILE *f = fopen(path, "rb");
    size_t size;
    if (!f) perror(path);
    check(m && f);
    for (uint8_t *window; (window = hl_model_window(m, &size)) && size > 0;) {
        size_t n = fread(window, 1, size, f);
        if (n == 0) break;
        check(hl_model_commit(m, n) == HL_OK);
    }
    fclose(f);
    check(hl_model_finish(m) == HL_OK);
    return m;
}

/* Ids that are spread over the vocabulary, the same in every run. */
static void feed_prompt(hl_session *s, int n, int n_vocab) {
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((uint32_t)(i + 1) * 2654435761u % (uint32_t)n_vocab);
    check(hl_feed(s, ids, n) == HL_OK);
    free(ids);
}

static void decode(hl_session *s, hl_sampler *sampler, int n, int n_vocab) {
    for (int i = 0; i < n; i++) {
        profile_enter(PROFILE_SAMPLING);
        int32_t id = hl_sampler_sample(sampler, hl_logits(s), n_vocab);
        check(hl_sampler_accept(sampler, id) == HL_OK && hl_feed(s, &id, 1) == HL_OK);
    }
    profile_enter(PROFILE_SAMPLING);
}

static double total(const double *phases) {
    double sum = 0;
    for (int i = 0; i < PROFILE_PHASES; i++) sum += phases[i];
    return sum;
}

static int by_total(const void *a, const void *b) {
    double x = total(a), y = total(b);
    return (x > y) - (x < y);
}

static void print_median(const char *name, int positions, int tokens, double (*rounds)[PROFILE_PHASES]) {
    qsort(rounds, ROUNDS, sizeof *rounds, by_total);
    printf("%s %d %d", name, positions, tokens);
    for (int i = 0; i < PROFILE_PHASES; i++) printf(" %.4f", rounds[ROUNDS / 2][i] / tokens);
    printf("\n");
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: timeline MODEL THREADS PROMPT POSITIONS ...\n");
        return 2;
    }
    hl_model *m = read_model(argv[1], atoi(argv[2]));
    int prompt = atoi(argv[3]), longest = prompt;
    for (int i = 4; i < argc; i++) longest = atoi(argv[i]) > longest ? atoi(argv[i]) : longest;
    struct hl_info info;
    check(hl_model_info(m, &info) == HL_OK);
    hl_session *s = hl_session_new(m, longest + DECODED, HL_KV_F16);
    hl_sampler *sampler = hl_sampler_new(
        &(struct hl_sampler_params){.temperature = 0, .top_p = 1, .typical_p = 1, .repeat_penalty = 1});
    check(s && sampler);
    double rounds[ROUNDS][PROFILE_PHASES];
    feed_prompt(s, prompt, info.n_vocab); /* until V8 has compiled what runs often */
    decode(s, sampler, 1, info.n_vocab);
    for (int r = 0; r < ROUNDS; r++) {
        check(hl_session_rewind(s, 0) == HL_OK);
        start_clock();
        feed_prompt(s, prompt, info.n_vocab);
        profile_enter(PROFILE_EMBED);
        memcpy(rounds[r], spent, sizeof spent);
    }
    print_median("prefill", prompt, prompt, rounds);
    for (int i = 4; i < argc; i++) {
        int positions = atoi(argv[i]);
        check(hl_session_rewind(s, 0) == HL_OK);
        feed_prompt(s, positions, info.n_vocab);
        for (int r = 0; r < ROUNDS; r++) {
            if (r > 0) check(hl_session_rewind(s, positions - 1) == HL_OK);
            if (r > 0) feed_prompt(s, 1, info.n_vocab);
            start_clock();
            decode(s, sampler, DECODED, info.n_vocab);
            memcpy(rounds[r], spent, sizeof spent);
        }
        print_median("decode", positions, DECODED, rounds);
    }
    /* Model, sessions and workers go with the process. */
    return 0;
}
