#include "json.h"
#include "sampler/sampler.h"
#include "test.h"

enum { MAX_VOCAB = 1024 };

static struct hl_sampler_params params_off(void) {
    return (struct hl_sampler_params){
        .temperature = 1, .top_p = 1, .typical_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1};
}

static struct sampler *new_sampler(struct hl_sampler_params p) {
    struct sampler *s;
    if (sampler_new(&s, &p) != HL_OK) test_fail(__FILE__, __LINE__, "%s", status_message());
    return s;
}

static void set_number(float *value, const struct json *params, const char *key) {
    *value = (float)json_number(json_get(params, key), (double)*value);
}

/* The cases use llama.cpp's names. */
static struct sampler *sampler_for(const struct json *params) {
    struct hl_sampler_params p = params_off();
    int32_t bias_ids[8], last[8];
    float bias_values[8];
    set_number(&p.temperature, params, "temp");
    set_number(&p.top_p, params, "top_p");
    set_number(&p.min_p, params, "min_p");
    set_number(&p.repeat_penalty, params, "rep");
    set_number(&p.frequency_penalty, params, "freq");
    set_number(&p.presence_penalty, params, "pres");
    p.top_k = (int32_t)json_number(json_get(params, "top_k"), 0);
    const struct json *bias = json_get(params, "bias");
    for (const struct json *b = bias ? bias->child : NULL; b; b = b->next, p.n_bias++) {
        bias_ids[p.n_bias] = atoi(b->key);
        bias_values[p.n_bias] = (float)json_number(b, 0);
    }
    p.bias_ids = bias_ids;
    p.bias_values = bias_values;
    struct sampler *s = new_sampler(p);
    int n_last = (int)json_ints(json_get(params, "last"), last, 8);
    for (int i = 0; i < n_last; i++) EXPECT_EQ(sampler_accept(s, last[i]), HL_OK);
    return s;
}

/* Every parameter that a case names is one that sampler_for knows. */
static bool is_known(const char *key) {
    static const char *const keys[] = {"temp", "top_p", "top_k", "min_p", "rep",
                                       "last", "freq",  "pres",  "bias"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

TEST(distributions_are_exactly_those_of_llama_cpp_s_order) {
    struct json_doc doc = json_load("tests/cases/sampling_cases.json");
    static float logits[MAX_VOCAB], want[MAX_VOCAB], got[MAX_VOCAB];
    int n_cases = 0;
    REQUIRE(doc.root);
    for (const struct json *c = json_get(doc.root, "distributions")->child; c; c = c->next, n_cases++) {
        const struct json *expected = json_get(c, "expected_probs"), *params = json_get(c, "params");
        if (expected->type == JSON_OBJECT) expected = json_get(expected, "llama.cpp");
        for (const struct json *p = params->child; p; p = p->next) EXPECT(is_known(p->key));
        int n = (int)json_floats(json_get(c, "logits"), logits, MAX_VOCAB);
        EXPECT_EQ(json_floats(expected, want, MAX_VOCAB), n);
        struct sampler *s = sampler_for(params);
        EXPECT_EQ(sampler_probs(s, logits, n, got), HL_OK);
        for (int i = 0; i < n; i++) {
            bool near =
                fabsf(got[i] - want[i]) <= 1e-6f && (want[i] > 0 || got[i] == 0 || want[i] + got[i] < 1e-9f);
            const char *id = json_text(json_get(c, "id"));
            if (!near)
                test_fail(__FILE__, __LINE__, "%s: p[%d] %.9g, not %.9g", id, i, (double)got[i],
                          (double)want[i]);
        }
        for (int i = 0; i < 50; i++) {
            int32_t id = sampler_sample(s, logits, n);
            EXPECT(id >= 0 && id < n && got[id] > 0);
        }
        sampler_free(s);
    }
    EXPECT(n_cases >= 23);
    json_free(&doc);
}

static void expect_probs(struct hl_sampler_params p, const float *logits, int n, const float *want) {
    float got[16];
    struct sampler *s = new_sampler(p);
    EXPECT_EQ(sampler_probs(s, logits, n, got), HL_OK);
    for (int i = 0; i < n; i++) EXPECT_NEAR(got[i], want[i], 1e-6);
    sampler_free(s);
}

/* Values from the public report that the order comes from: top_p 0.8, then temperature 0.5. */
TEST(temperature_comes_after_the_steps_that_cut) {
    struct hl_sampler_params p = params_off();
    p.top_p = 0.8f;
    p.temperature = 0.5f;
    expect_probs(p, (const float[]){3, 2, 1}, 3, (const float[]){0.880797078f, 0.119202922f, 0});
}

/* Worked by hand after Meister et al. 2022: p = 0.5, 0.25, 0.125, 0.125 has an entropy of 1.75 bits; the
 * distances of 1, 2, 3 and 3 bits from it are 0.75, 0.25, 1.25 and 1.25. */
TEST(typical_p_keeps_what_is_near_the_entropy_even_without_the_likeliest) {
    const float logits[] = {3 * 0.69314718f, 2 * 0.69314718f, 0.69314718f, 0.69314718f};
    struct hl_sampler_params p = params_off();
    p.typical_p = 0.2f;
    expect_probs(p, logits, 4, (const float[]){0, 1, 0, 0});
    p.typical_p = 0.5f;
    expect_probs(p, logits, 4, (const float[]){2 / 3.0f, 1 / 3.0f, 0, 0});
    p.typical_p = 0.8f;
    expect_probs(p, logits, 4, (const float[]){4 / 7.0f, 2 / 7.0f, 1 / 7.0f, 0});
    p.typical_p = 0.2f;
    p.temperature = 0;
    expect_probs(p, logits, 4, (const float[]){0, 1, 0, 0});
}

TEST(each_step_keeps_at_least_one_token) {
    const float logits[] = {1, 3, 2};
    for (int step = 0; step < 4; step++) {
        struct hl_sampler_params p = params_off();
        if (step == 0) p.top_p = 0;
        if (step == 1) p.typical_p = 0;
        if (step == 2) p.min_p = 100;
        if (step == 3) p.top_k = 1;
        float got[3];
        struct sampler *s = new_sampler(p);
        EXPECT_EQ(sampler_probs(s, logits, 3, got), HL_OK);
        EXPECT_NEAR(got[0] + got[1] + got[2], 1, 1e-6);
        if (step != 1) EXPECT_NEAR(got[1], 1, 1e-6);
        sampler_free(s);
    }
}

TEST(greedy_takes_the_lowest_of_the_best_ids_and_needs_no_seed) {
    float logits[] = {1, 5, 5, 0};
    for (int k = 0; k < 3; k++) {
        for (uint32_t seed = 0; seed < 5; seed++) {
            struct hl_sampler_params p = params_off();
            p.temperature = k == 0 ? 0 : -1;
            p.top_k = k == 2 ? 3 : 0;
            p.seed = seed;
            struct sampler *s = new_sampler(p);
            EXPECT_EQ(sampler_sample(s, logits, 4), 1);
            sampler_free(s);
        }
    }
}

TEST(infinite_and_missing_logits_never_give_a_wrong_token) {
    const float certain[] = {0, INFINITY, NAN, INFINITY, -INFINITY}, nothing[] = {-INFINITY, NAN, -INFINITY};
    for (int k = 0; k < 6; k++) {
        struct hl_sampler_params p = params_off();
        if (k == 1) p.temperature = 0;
        if (k == 2) p.top_k = 3;
        if (k == 3) p.top_p = 0.9f;
        if (k == 4) p.min_p = 0.1f;
        if (k == 5) p.typical_p = 0.9f;
        float got[5];
        struct sampler *s = new_sampler(p);
        EXPECT_EQ(sampler_probs(s, certain, 5, got), HL_OK);
        EXPECT_NEAR(got[1] + got[3], 1, 1e-6);
        EXPECT_NEAR(got[3], k == 1 ? 0 : 0.5, 1e-6);
        EXPECT_EQ(sampler_sample(s, nothing, 3), HL_EARGUMENT);
        EXPECT_CONTAINS(status_message(), "no token is left");
        EXPECT_EQ(sampler_sample(s, nothing, 0), HL_EARGUMENT);
        sampler_free(s);
    }
}

TEST(penalties_look_back_on_the_last_tokens_only) {
    static const int windows[] = {4, 0, -1, 1};
    /* Seen: 0 1 2 3 4 5; a window of 4 holds 2 3 4 5. */
    static const char *const penalized[] = {"001111", "000000", "111111", "000001"};
    const float logits[6] = {0};
    for (int k = 0; k < 4; k++) {
        struct hl_sampler_params p = params_off();
        float got[6], most = 0;
        p.presence_penalty = 50;
        p.repeat_last_n = windows[k];
        struct sampler *s = new_sampler(p);
        for (int32_t id = 0; id < 6; id++) EXPECT_EQ(sampler_accept(s, id), HL_OK);
        EXPECT_EQ(sampler_probs(s, logits, 6, got), HL_OK);
        for (int i = 0; i < 6; i++) most = got[i] > most ? got[i] : most;
        for (int i = 0; i < 6; i++) EXPECT_EQ(got[i] < most / 2, k != 2 && penalized[k][i] == '1');
        sampler_free(s);
    }
}

TEST(a_long_history_is_counted_as_its_window) {
    struct hl_sampler_params p = params_off();
    float logits[3] = {0}, got[3];
    int counts[3] = {0}, n = 10007;
    p.frequency_penalty = 0.01f;
    p.repeat_last_n = 100;
    struct sampler *s = new_sampler(p);
    for (int i = 0; i < n; i++) {
        int32_t id = i / 37 % 3;
        EXPECT_EQ(sampler_accept(s, id), HL_OK);
        counts[id] += i >= n - 100;
    }
    EXPECT_EQ(sampler_probs(s, logits, 3, got), HL_OK);
    EXPECT_NEAR(got[0] / got[1], exp(0.01 * (counts[1] - counts[0])), 1e-5);
    EXPECT_NEAR(got[0] / got[2], exp(0.01 * (counts[2] - counts[0])), 1e-5);
    EXPECT_EQ(sampler_accept(s, -1), HL_EARGUMENT);
    sampler_free(s);
}

TEST(the_same_seed_draws_the_same_tokens_and_other_seeds_others) {
    float logits[10] = {0};
    int32_t first[64], same = 0;
    for (uint32_t seed = 7; seed < 9; seed++) {
        for (int round = 0; round < 2; round++) {
            struct hl_sampler_params p = params_off();
            p.seed = seed;
            struct sampler *s = new_sampler(p);
            for (int i = 0; i < 64; i++) {
                int32_t id = sampler_sample(s, logits, 10);
                if (seed == 7 && round == 0) first[i] = id;
                else if (seed == 7) EXPECT_EQ(id, first[i]);
                else same += id == first[i];
            }
            sampler_free(s);
        }
    }
    EXPECT(same < 64);
}

TEST(tokens_are_drawn_as_often_as_their_probability_says) {
    const float logits[] = {0, 1, 2, -INFINITY};
    float probs[4];
    int drawn[4] = {0}, n = 20000;
    struct sampler *s = new_sampler(params_off());
    EXPECT_EQ(sampler_probs(s, logits, 4, probs), HL_OK);
    for (int i = 0; i < n; i++) drawn[sampler_sample(s, logits, 4)]++;
    /* Five standard deviations of a binomial count. */
    for (int i = 0; i < 4; i++)
        EXPECT_NEAR((double)drawn[i] / n, probs[i],
                    5 * sqrt((double)(probs[i] * (1 - probs[i])) / n) + 1e-12);
    sampler_free(s);
}

/* Selecting by heaps against sorting everything, with many ties. */
TEST(top_k_and_top_p_keep_what_a_full_sort_would) {
    static float logits[MAX_VOCAB], got[MAX_VOCAB];
    uint64_t seed = 3;
    for (int round = 0; round < 200; round++) {
        struct hl_sampler_params p = params_off();
        int n = 1 + (int)(test_random(&seed) % MAX_VOCAB), kept = 0;
        double sum = 0, reached = 0;
        for (int i = 0; i < n; i++) logits[i] = (float)(test_random(&seed) % 16) * 0.5f;
        if (round & 1) p.top_k = 1 + (int32_t)(test_random(&seed) % 60);
        else p.top_p = test_random_float(&seed) * 0.5f + 0.5f;
        for (int i = 0; i < n; i++) sum += exp((double)logits[i]);
        struct sampler *s = new_sampler(p);
        EXPECT_EQ(sampler_probs(s, logits, n, got), HL_OK);
        for (int level = 15; level >= 0; level--) {
            for (int i = 0; i < n; i++) {
                if (logits[i] != (float)level * 0.5f) continue;
                bool keep =
                    p.top_k > 0 ? kept < p.top_k : kept == 0 || reached < (double)p.top_p * sum * (1 - 1e-12);
                if (keep != (got[i] > 0))
                    test_fail(__FILE__, __LINE__, "round %d: token %d of %d", round, i, n);
                kept += keep;
                reached += exp((double)logits[i]);
            }
        }
        sampler_free(s);
    }
}

TEST(log_probabilities_are_sorted_and_sum_to_one) {
    const float logits[] = {1, 3, NAN, 3, -INFINITY}, certain[] = {0, INFINITY};
    int32_t ids[6];
    float logprobs[6];
    /* log(e / (e + 2 e^3)) */
    EXPECT_NEAR(top_logprobs(logits, 5, 0, 6, ids, logprobs), -2.7586233, 1e-5);
    EXPECT(ids[0] == 1 && ids[1] == 3 && ids[2] == 0 && ids[3] == -1);
    EXPECT_NEAR(exp((double)logprobs[0]) + exp((double)logprobs[1]) + exp((double)logprobs[2]), 1, 1e-6);
    EXPECT(top_logprobs(logits, 5, 2, 0, NULL, NULL) == -INFINITY);
    EXPECT(isnan(top_logprobs(logits, 5, 5, 0, NULL, NULL)) &&
           isnan(top_logprobs(logits, 5, -1, 0, NULL, NULL)));
    EXPECT_NEAR(top_logprobs(certain, 2, 1, 2, ids, logprobs), 0, 0);
    EXPECT(ids[0] == 1 && ids[1] == 0 && logprobs[1] == -INFINITY);
}

static void expect_refused(struct hl_sampler_params p, const char *part) {
    struct sampler *s;
    EXPECT_EQ(sampler_new(&s, &p), HL_EARGUMENT);
    EXPECT_CONTAINS(status_message(), part);
}

TEST(values_out_of_range_are_refused_by_name) {
    struct hl_sampler_params p;
    const float nan_bias = NAN, bias = -INFINITY, logits[2] = {1, 2};
    const int32_t id = 0, far = 2;
    p = params_off(), p.temperature = NAN, expect_refused(p, "temperature");
    p = params_off(), p.top_p = 1.5f, expect_refused(p, "top_p");
    p = params_off(), p.top_p = NAN, expect_refused(p, "top_p");
    p = params_off(), p.min_p = -1, expect_refused(p, "min_p");
    p = params_off(), p.typical_p = 2, expect_refused(p, "typical_p");
    p = params_off(), p.repeat_penalty = 0, expect_refused(p, "repeat_penalty");
    p = params_off(), p.repeat_last_n = -2, expect_refused(p, "repeat_last_n");
    p = params_off(), p.frequency_penalty = INFINITY, expect_refused(p, "frequency_penalty");
    p = params_off(), p.presence_penalty = NAN, expect_refused(p, "presence_penalty");
    p = params_off(), p.n_bias = 1, expect_refused(p, "logit_bias");
    p.bias_ids = &id, p.bias_values = &nan_bias, expect_refused(p, "logit_bias of token 0");
    p.bias_ids = &far, p.bias_values = &bias;
    struct sampler *s = new_sampler(p);
    EXPECT_EQ(sampler_sample(s, logits, 2), HL_EARGUMENT);
    EXPECT_CONTAINS(status_message(), "token 2 of 2");
    sampler_free(s);
}
