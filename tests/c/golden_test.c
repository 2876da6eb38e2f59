/* Whole models against transformers in float32, plm against numpy in float64 (see "reference" in each
 * golden file). The tolerances came with the values; where weights are quantized, activations of 16 bits
 * move logits by up to 8e-4. */
#include "json.h"
#include "model_file.h"

struct golden {
    const char *name;
    double logits, attention, hidden; /* largest difference from float32 activations */
    double fast; /* of logits in HL_FAST: twice llama.cpp's own; 0: the file holds floats, as `logits` */
};

static const struct golden goldens[] = {
    {"llama_mha", 1e-4, 1e-4, 1e-4, 0},
    {"llama_gqa", 1e-4, 1e-4, 1e-4, 0},
    {"llama_mqa", 1e-4, 1e-4, 1e-4, 0},
    {"llama3_rope", 2e-4, 1e-4, 1e-4, 0},
    {"mixtral", 1e-4, 1e-4, 1e-4, 0},
    {"gemma3", 1e-4, 1e-4, 2e-4, 0},
    {"gemma2", 1e-4, 1e-4, 1e-4, 0},
    {"deepseek_v2_mla", 1e-4, 1e-4, 1e-4, 0},
    {"deepseek_v2_mla.kv_b", 1e-4, 1e-4, 1e-4, 0},
    {"deepseek_v2_mla.flat", 1e-4, 1e-4, 1e-4, 0},
    {"deepseek_v2_moe", 1e-4, 1e-4, 2e-4, 0},
    {"deepseek_v2_group", 1e-4, 1e-4, 2e-4, 0},
    {"deepseek_v2_group_max", 1e-4, 1e-4, 1e-4, 0},
    {"deepseek_v3", 1e-4, 1e-4, 1e-4, 0},
    {"minicpm3", 1e-4, 1e-4, 1e-4, 0},
    {"plm", 1e-4, 1e-4, 1e-4, 0},
    {"qwen2", 1e-4, 1e-4, 1e-4, 0},
    {"qwen2moe", 1e-4, 1e-4, 1e-4, 0},
    {"qwen3", 1e-4, 1e-4, 1e-4, 0},
    {"smollm3", 1e-4, 1e-4, 1e-4, 0},
    {"phi3", 1e-4, 1e-4, 1e-4, 0},
    {"granite", 1e-4, 1e-4, 1e-4, 0},
    {"olmo2", 1e-4, 1e-4, 1e-4, 0},
    {"llama_gqa.f16", 1e-4, 1e-4, 1e-4, 0},
    {"llama_gqa.q8_0", 3e-3, 1e-3, 3e-3, 2 * 0.14741},
    {"llama_gqa.q4_0", 3e-3, 1e-3, 3e-3, 2 * 0.13544},
    {"deepseek_v2_q.q8_0", 3e-3, 1e-3, 3e-3, 2 * 0.12688},
    {"deepseek_v2_q.q4_0", 3e-3, 1e-3, 3e-3, 2 * 0.16705},
    {"llama_k.q4_k_m", 3e-3, 1e-3, 3e-3, 2 * 0.20463},
};
enum { N_GOLDENS = sizeof goldens / sizeof goldens[0], MAX_TOKENS = 256 };

struct run {
    const struct golden *g;
    struct json_doc doc;
    const struct json *root;
    hl_model *model;
    hl_session *session;
    struct hl_info info;
    int32_t tokens[MAX_TOKENS];
    int n;
};

/* Files that hold the same weights in another form share the values of the first: NAME.kv_b and NAME.flat
 * those of NAME. */
static int length_of_values_name(const char *name) {
    const char *dot = strrchr(name, '.');
    bool shared = dot && (strcmp(dot, ".kv_b") == 0 || strcmp(dot, ".flat") == 0);
    return shared ? (int)(dot - name) : (int)strlen(name);
}

static bool run_open(struct run *r, const struct golden *g, int threads, hl_precision precision) {
    char path[256];
    snprintf(path, sizeof path, "tests/golden/models/%.*s.golden.json", length_of_values_name(g->name),
             g->name);
    *r = (struct run){.g = g, .doc = json_load(path)};
    r->root = r->doc.root;
    r->n = (int)json_ints(json_get(r->root, "tokens"), r->tokens, MAX_TOKENS);
    r->model = load_golden(g->name, threads, precision);
    if (!r->model) return false;
    hl_model_info(r->model, &r->info);
    r->session = hl_session_new(r->model, 512, HL_KV_F32);
    return r->session != NULL;
}

static void run_close(struct run *r) {
    hl_session_free(r->session);
    hl_model_free(r->model);
    json_free(&r->doc);
}

/* Largest |got - want| over the numbers of a JSON array; infinite when one is NaN or the count is wrong. */
static double distance(const float *got, size_t n, const struct json *want) {
    double worst = 0;
    size_t i = 0;
    for (const struct json *v = want ? want->child : NULL; v; v = v->next, i++) {
        double off = i < n ? fabs((double)got[i] - v->number) : (double)INFINITY;
        if (!(off <= worst)) worst = off;
    }
    return i == n ? worst : (double)INFINITY;
}

static void feed_in_pieces(struct run *r, int piece) {
    for (int i = 0; i < r->n; i += piece) {
        int n = r->n - i < piece ? r->n - i : piece;
        if (hl_feed(r->session, r->tokens + i, n) != HL_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", r->g->name, hl_error());
    }
}

static void check_logits(struct run *r, double tolerance) {
    double off = distance(hl_logits(r->session), (size_t)r->info.n_vocab, json_get(r->root, "logits_last"));
    if (!(off <= tolerance)) test_fail(__FILE__, __LINE__, "%s: logits are off by %g", r->g->name, off);
}

TEST(logits_after_the_prompt_are_those_of_transformers) {
    for (int i = 0; i < N_GOLDENS; i++) {
        struct run r;
        REQUIRE(run_open(&r, &goldens[i], TEST_THREADS, HL_HIGH));
        feed_in_pieces(&r, r.n);
        check_logits(&r, r.g->logits);
        run_close(&r);
    }
}

TEST(fast_precision_stays_within_twice_the_distance_of_llama_cpp) {
    for (int i = 0; i < N_GOLDENS; i++) {
        struct run r;
        REQUIRE(run_open(&r, &goldens[i], 1, HL_FAST));
        feed_in_pieces(&r, r.n);
        check_logits(&r, r.g->fast > 0 ? r.g->fast : r.g->logits);
        run_close(&r);
    }
}

TEST(hidden_states_are_those_of_transformers) {
    for (int i = 0; i < N_GOLDENS; i++) {
        struct run r;
        REQUIRE(run_open(&r, &goldens[i], 1, HL_HIGH));
        hl_tap_set(r.session, HL_TAP_EMBD, 0, true);
        hl_tap_set(r.session, HL_TAP_FINAL_NORM, 0, true);
        for (int l = 0; l < r.info.n_layer; l++) hl_tap_set(r.session, HL_TAP_LAYER_OUT, l, true);
        feed_in_pieces(&r, HL_CHUNK);
        for (const struct json *h = json_get(r.root, "hidden_last")->child; h; h = h->next) {
            int layer = strncmp(h->key, "layer_", 6) == 0 ? atoi(h->key + 6) : 0;
            hl_tap tap = strcmp(h->key, "embed") == 0        ? HL_TAP_EMBD
                         : strcmp(h->key, "final_norm") == 0 ? HL_TAP_FINAL_NORM
                                                             : HL_TAP_LAYER_OUT;
            int32_t shape[3];
            const float *rows = hl_tap_read(r.session, tap, layer, shape);
            REQUIRE(rows);
            double off = distance(rows + (size_t)(shape[1] - 1) * (size_t)shape[2], (size_t)shape[2], h);
            if (!(off <= r.g->hidden))
                test_fail(__FILE__, __LINE__, "%s: %s is off by %g", r.g->name, h->key, off);
        }
        run_close(&r);
    }
}

/* Largest distance of the rows of one layer's map that lie in the last chunk: rows first .. first +
 * shape[1] - 1. */
static double attention_distance(const struct run *r, const struct json *heads, const float *map,
                                 const int32_t shape[3], int first) {
    double worst = 0;
    const struct json *rows = json_get(json_get(r->root, "attention"), "rows");
    int h = 0;
    for (const struct json *head = heads->child; head; head = head->next, h++) {
        const struct json *position = rows->child;
        for (const struct json *row = head->child; row; row = row->next, position = position->next) {
            int pos = (int)position->number;
            if (pos < first || pos >= first + shape[1]) continue;
            const float *got =
                map + ((size_t)h * (size_t)shape[1] + (size_t)(pos - first)) * (size_t)shape[2];
            int key = 0; /* keys behind the chunk are not in the map: transformers has 0 there */
            for (const struct json *want = row->child; want; want = want->next, key++) {
                double off = fabs((key < shape[2] ? (double)got[key] : 0.0) - want->number);
                if (!(off <= worst)) worst = off;
            }
        }
    }
    return h == shape[0] ? worst : (double)INFINITY;
}

static void check_attention(struct run *r, int piece) {
    const struct json *attention = json_get(r->root, "attention");
    for (const struct json *l = json_get(attention, "layers")->child; l; l = l->next)
        hl_tap_set(r->session, HL_TAP_ATTN_PROB, (int)l->number, true);
    for (int i = 0; i < r->n; i += piece) {
        int n = r->n - i < piece ? r->n - i : piece;
        REQUIRE(hl_feed(r->session, r->tokens + i, n) == HL_OK);
        const struct json *heads = json_get(attention, "weights")->child;
        for (const struct json *l = json_get(attention, "layers")->child; l;
             l = l->next, heads = heads->next) {
            int32_t shape[3];
            const float *map = hl_tap_read(r->session, HL_TAP_ATTN_PROB, (int)l->number, shape);
            REQUIRE(map && shape[1] == n && shape[2] == i + n);
            double off = attention_distance(r, heads, map, shape, i);
            if (!(off <= r->g->attention))
                test_fail(__FILE__, __LINE__, "%s: attention of layer %d is off by %g", r->g->name,
                          (int)l->number, off);
        }
    }
}

TEST(attention_maps_are_those_of_transformers) {
    for (int i = 0; i < N_GOLDENS; i++) {
        static const int pieces[] = {HL_CHUNK, 1, 7};
        for (int p = 0; p < 3; p++) {
            struct run r;
            REQUIRE(run_open(&r, &goldens[i], TEST_THREADS, HL_HIGH));
            check_attention(&r, pieces[p]);
            run_close(&r);
        }
    }
}

static int32_t largest(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

TEST(greedy_continuations_are_those_of_transformers) {
    for (int i = 0; i < N_GOLDENS; i++) {
        struct run r;
        REQUIRE(run_open(&r, &goldens[i], 1, HL_HIGH));
        feed_in_pieces(&r, r.n);
        const struct json *margin = json_get(r.root, "greedy_margin")->child;
        for (const struct json *want = json_get(r.root, "greedy")->child; want;
             want = want->next, margin = margin->next) {
            int32_t got = largest(hl_logits(r.session), r.info.n_vocab);
            if (r.g->fast == 0 || margin->number > 0.02) EXPECT_EQ(got, want->number);
            got = (int32_t)want->number;
            REQUIRE(hl_feed(r.session, &got, 1) == HL_OK);
        }
        run_close(&r);
    }
}

/* Logits of every position, however the tokens are fed: [n][n_vocab]. */
static float *all_logits(struct run *r, int piece) {
    size_t n_vocab = (size_t)r->info.n_vocab;
    float *all = malloc((size_t)r->n * n_vocab * sizeof *all);
    hl_tap_set(r->session, HL_TAP_LOGITS, 0, true);
    for (int i = 0; i < r->n; i += piece) {
        int n = r->n - i < piece ? r->n - i : piece;
        int32_t shape[3];
        if (hl_feed(r->session, r->tokens + i, n) != HL_OK) test_fail(__FILE__, __LINE__, "%s", hl_error());
        memcpy(all + (size_t)i * n_vocab, hl_tap_read(r->session, HL_TAP_LOGITS, 0, shape),
               (size_t)n * n_vocab * sizeof *all);
    }
    return all;
}

static void check_same_bits(const struct golden *g, hl_precision precision) {
    static const int pieces[] = {1, 3, 17, HL_CHUNK};
    float *first = NULL;
    for (int p = 0; p < 4; p++) {
        struct run r;
        REQUIRE(run_open(&r, g, p % 2 ? TEST_THREADS : 1, precision));
        float *logits = all_logits(&r, pieces[p]);
        if (first) EXPECT_MEM(logits, first, (size_t)r.n * (size_t)r.info.n_vocab * sizeof *logits);
        run_close(&r);
        if (p > 0) free(logits);
        else first = logits;
    }
    free(first);
}

TEST(bits_do_not_depend_on_chunks_or_threads) {
    for (int i = 0; i < N_GOLDENS; i++) {
        check_same_bits(&goldens[i], HL_FAST);
        check_same_bits(&goldens[i], HL_HIGH);
    }
}

TEST(a_rewound_context_goes_on_with_the_bits_of_a_new_one) {
    for (int i = 0; i < N_GOLDENS; i++) {
        struct run r;
        REQUIRE(run_open(&r, &goldens[i], TEST_THREADS, HL_FAST));
        size_t bytes = (size_t)r.info.n_vocab * sizeof(float);
        float *first = malloc(bytes);
        feed_in_pieces(&r, r.n);
        memcpy(first, hl_logits(r.session), bytes);
        int32_t other[] = {5, 6, 7};
        REQUIRE(hl_session_rewind(r.session, r.n / 2) == HL_OK);
        EXPECT(hl_logits(r.session) == NULL);
        REQUIRE(hl_feed(r.session, other, 3) == HL_OK);
        REQUIRE(hl_session_rewind(r.session, r.n / 2) == HL_OK);
        REQUIRE(hl_feed(r.session, r.tokens + r.n / 2, r.n - r.n / 2) == HL_OK);
        EXPECT_MEM(hl_logits(r.session), first, bytes);
        free(first);
        run_close(&r);
    }
}

TEST(best_logits_of_every_position_are_those_of_transformers) {
    for (int i = 0; i < N_GOLDENS; i++) {
        struct run r;
        REQUIRE(run_open(&r, &goldens[i], 1, HL_HIGH));
        float *logits = all_logits(&r, HL_CHUNK), *row = logits;
        double worst = 0;
        for (const struct json *top = json_get(r.root, "logits_top8")->child; top;
             top = top->next, row += r.info.n_vocab) {
            const struct json *value = json_at(top, 1)->child;
            for (const struct json *id = json_at(top, 0)->child; id; id = id->next, value = value->next)
                worst = fmax(worst, fabs((double)row[(int)id->number] - value->number));
        }
        if (!(worst <= r.g->logits))
            test_fail(__FILE__, __LINE__, "%s: logits are off by %g", r.g->name, worst);
        free(logits);
        run_close(&r);
    }
}

/* ---- experts */

/* Places of the pairs (expert, weight) of one row that golden's list names, in any order; weights within
 * tolerance. */
static void check_route(const struct run *r, int layer, int row, const float *got, int n_used,
                        const struct json *experts, const struct json *weights) {
    const struct json *weight = weights->child;
    for (const struct json *want = experts->child; want; want = want->next, weight = weight->next) {
        double off = (double)INFINITY;
        for (int u = 0; u < n_used; u++)
            if ((double)got[2 * u] == want->number) off = fabs((double)got[2 * u + 1] - weight->number);
        if (!(off <= r->g->attention))
            test_fail(__FILE__, __LINE__, "%s: layer %d, position %d, expert %d: its weight is off by %g",
                      r->g->name, layer, row, (int)want->number, off);
    }
}

TEST(routers_choose_the_experts_of_transformers) {
    int n_routers = 0;
    for (int i = 0; i < N_GOLDENS; i++) {
        struct run r;
        REQUIRE(run_open(&r, &goldens[i], TEST_THREADS, HL_HIGH));
        const struct json *router = json_get(r.root, "router");
        for (const struct json *l = router ? router->child : NULL; l; l = l->next, n_routers++)
            REQUIRE(hl_tap_set(r.session, HL_TAP_ROUTER, atoi(l->key), true) == HL_OK);
        feed_in_pieces(&r, HL_CHUNK);
        for (const struct json *l = router ? router->child : NULL; l; l = l->next) {
            int32_t shape[3];
            const float *rows = hl_tap_read(r.session, HL_TAP_ROUTER, atoi(l->key), shape);
            REQUIRE(rows && shape[1] == r.n && shape[2] == 2 * r.info.n_expert_used);
            for (int row = 0; row < r.n; row++)
                check_route(&r, atoi(l->key), row, rows + row * shape[2], r.info.n_expert_used,
                            json_at(json_get(l, "experts"), (size_t)row),
                            json_at(json_get(l, "weights"), (size_t)row));
        }
        run_close(&r);
    }
    EXPECT(n_routers >= 6);
}

/* ---- multi-head latent attention */

static const hl_mla ways[] = {HL_MLA_ABSORBED, HL_MLA_EXPANDED};

TEST(expanded_latent_attention_gives_what_transformers_gives) {
    int n_models = 0;
    for (int i = 0; i < N_GOLDENS; i++) {
        static const int pieces[] = {HL_CHUNK, 1};
        for (int p = 0; p < 2; p++) {
            struct run r;
            REQUIRE(run_open(&r, &goldens[i], TEST_THREADS, HL_HIGH));
            if (r.info.attention == HL_MLA) {
                REQUIRE(hl_session_set_mla(r.session, HL_MLA_EXPANDED) == HL_OK);
                check_attention(&r, pieces[p]);
                check_logits(&r, r.g->logits);
                n_models++;
            }
            run_close(&r);
        }
    }
    EXPECT_EQ(n_models, 2 * 11);
}

TEST(absorbed_and_expanded_differ_in_more_than_name) {
    float *logits[2];
    size_t n = 0;
    for (int w = 0; w < 2; w++) {
        struct run r;
        REQUIRE(run_open(&r, &(struct golden){"deepseek_v2_mla", 0, 0, 0, 0}, 1, HL_HIGH));
        REQUIRE(hl_session_set_mla(r.session, ways[w]) == HL_OK);
        logits[w] = all_logits(&r, HL_CHUNK);
        n = (size_t)r.n * (size_t)r.info.n_vocab;
        run_close(&r);
    }
    EXPECT(memcmp(logits[0], logits[1], n * sizeof(float)) != 0);
    for (int w = 0; w < 2; w++) free(logits[w]);
}

TEST(a_way_to_evaluate_latent_attention_that_is_none_is_refused) {
    struct run r;
    REQUIRE(run_open(&r, &(struct golden){"deepseek_v2_mla", 0, 0, 0, 0}, 1, HL_HIGH));
    EXPECT_EQ(hl_session_set_mla(r.session, (hl_mla)3), HL_EARGUMENT);
    run_close(&r);
}

/* Softmax over the first n of latent + rope. */
static double score_distance(const float *latent, const float *rope, const float *prob, int n) {
    double sum = 0, worst = 0;
    for (int k = 0; k < n; k++) sum += exp((double)latent[k] + (double)rope[k]);
    for (int k = 0; k < n; k++)
        worst = fmax(worst, fabs(exp((double)latent[k] + (double)rope[k]) / sum - (double)prob[k]));
    return worst;
}

static void check_score_parts(struct run *r, int piece) {
    static const hl_tap taps[] = {HL_TAP_SCORE_LATENT, HL_TAP_SCORE_ROPE, HL_TAP_ATTN_PROB};
    for (int t = 0; t < 3; t++) REQUIRE(hl_tap_set(r->session, taps[t], 1, true) == HL_OK);
    for (int i = 0; i < r->n; i += piece) {
        int n = r->n - i < piece ? r->n - i : piece;
        const float *maps[3];
        int32_t shape[3];
        REQUIRE(hl_feed(r->session, r->tokens + i, n) == HL_OK);
        for (int t = 0; t < 3; t++) {
            maps[t] = hl_tap_read(r->session, taps[t], 1, shape);
            REQUIRE(maps[t] && shape[0] == r->info.n_head && shape[1] == n && shape[2] == i + n);
        }
        for (int row = 0; row < shape[0] * n; row++) {
            int at = row * shape[2], seen = i + row % n + 1;
            EXPECT(score_distance(maps[0] + at, maps[1] + at, maps[2] + at, seen) < 1e-5);
            for (int k = seen; k < shape[2]; k++) EXPECT(maps[0][at + k] == 0 && maps[1][at + k] == 0);
        }
    }
}

TEST(latent_and_rope_parts_add_up_to_the_scores) {
    static const int pieces[] = {HL_CHUNK, 1, 5};
    for (int p = 0; p < 6; p++) {
        struct run r;
        REQUIRE(run_open(&r, &(struct golden){"deepseek_v3", 0, 0, 0, 0}, TEST_THREADS, HL_HIGH));
        REQUIRE(hl_session_set_mla(r.session, ways[p % 2]) == HL_OK);
        check_score_parts(&r, pieces[p / 2]);
        run_close(&r);
    }
}

TEST(the_header_says_what_latent_attention_and_experts_are) {
    struct run r;
    REQUIRE(run_open(&r, &(struct golden){"deepseek_v2_group", 0, 0, 0, 0}, 1, HL_HIGH));
    EXPECT_EQ(r.info.attention, HL_MLA);
    EXPECT_EQ(r.info.kv_lora_rank, 16);
    EXPECT_EQ(r.info.d_rope, 16);
    EXPECT_EQ(r.info.d_head_k, 32);
    EXPECT_EQ(r.info.d_head_v, 12);
    EXPECT_EQ(r.info.n_expert, 8);
    EXPECT_EQ(r.info.n_expert_used, 3);
    EXPECT_EQ(r.info.sliding_window, 0);
    run_close(&r);
    REQUIRE(run_open(&r, &(struct golden){"gemma3", 0, 0, 0, 0}, 1, HL_HIGH));
    EXPECT_EQ(r.info.attention, HL_MQA);
    EXPECT_EQ(r.info.sliding_window, 8);
    for (int l = 0; l < 7; l++) EXPECT_EQ(hl_model_window_of(r.model, l), l == 5 ? 0 : 8);
    EXPECT_EQ(hl_model_window_of(r.model, 7), HL_EARGUMENT);
    EXPECT_EQ(r.info.kv_lora_rank, 0);
    EXPECT_EQ(r.info.d_rope, 0);
    EXPECT_EQ(r.info.n_expert, 0);
    run_close(&r);
}
