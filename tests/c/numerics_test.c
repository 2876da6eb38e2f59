/* Arithmetic that implementations have got wrong: tests/cases/numerics_cases.json, from public reports.
 * Its case llama_permute is about the conversion of files and has no place here; gqa_mapping is checked by
 * every grouped golden model. */
#include "decoder/steps.h"
#include "header.h"
#include "json.h"
#include "kernels/kernels.h"
#include "model_file.h"
#include "quant/transpose.h"

enum { MAX_VALUES = 128 };

/* One case; numbers of its parts by name. */
struct numerics {
    struct json_doc doc;
    const struct json *input, *expected;
};

static struct numerics numerics_open(const char *name) {
    struct numerics c = {.doc = json_load("tests/cases/numerics_cases.json")};
    for (const struct json *v = c.doc.root->child; v; v = v->next) {
        if (strcmp(json_text(json_get(v, "name")), name) != 0) continue;
        c.input = json_get(v, "input");
        c.expected = json_get(v, "expected");
        return c;
    }
    test_fail(__FILE__, __LINE__, "there is no case %s", name);
    return c;
}

static double in(const struct numerics *c, const char *name) {
    return json_number(json_get(c->input, name), (double)NAN);
}

static int in_int(const struct numerics *c, const char *name) { return (int)in(c, name); }

static int values(const struct json *array, float *out) { return (int)json_floats(array, out, MAX_VALUES); }

static void expect_values(const float *got, const struct numerics *c, const char *name, double tolerance) {
    float want[MAX_VALUES];
    int n = values(json_get(c->expected, name), want);
    EXPECT(n > 0);
    for (int i = 0; i < n; i++)
        EXPECT_NEAR(got[i], (double)want[i], tolerance * fmax(1, fabs((double)want[i])));
}

/* ---- rotation */

static void check_llama3_rope(const char *name) {
    struct numerics c = numerics_open(name);
    float divisors[MAX_VALUES];
    struct mem mem = {0};
    struct model m = {.mem = &mem, .rope_factors = divisors};
    m.hp.n_rot = in_int(&c, "head_dim");
    m.hp.rope_base = (float)in(&c, "base");
    m.hp.rope_scale = 1;
    values(json_get(c.expected, "rope_freqs_weight_divisor"), divisors);
    REQUIRE(rope_init(&m) == HL_OK);
    const struct json *want = json_get(c.expected, "inv_freq");
    EXPECT_EQ(want->n, m.hp.n_rot / 2);
    for (int i = 0; i < m.hp.n_rot / 2; i++) {
        double right = json_at(want, (size_t)i)->number;
        EXPECT_NEAR(m.rope_freq[ROPE_GLOBAL][i], right, 3e-6 * right); /* six digits are given */
    }
    rope_free(&m);
    json_free(&c.doc);
}

TEST(llama_3_s_frequencies_are_divided_by_the_file_s_factors) {
    check_llama3_rope("llama3_rope_llama3.2-1b");
    check_llama3_rope("llama3_rope_llama3.1-8b");
}

TEST(yarn_outside_deepseek_scales_cosines_and_not_the_scores) {
    struct numerics c = numerics_open("yarn_generic");
    uint32_t d = (uint32_t)in(&c, "rope_dim");
    struct header h = header_of("qwen2", 2, 2 * d, 2);
    set_text(&h, "rope.scaling.type", "yarn");
    set_float(&h, "rope.scaling.factor", (float)in(&c, "factor"));
    set_int(&h, "rope.scaling.original_context_length", (uint32_t)in(&c, "original_ctx"));
    REQUIRE(header_read(&h) == HL_OK);
    EXPECT_NEAR(h.hp.rope_mscale, json_get(c.expected, "cos_sin_scale")->number, 1e-6);
    EXPECT_NEAR(h.hp.attn_scale * sqrtf((float)d), json_get(c.expected, "softmax_scale_change")->number,
                1e-6);
    header_free(&h);
    json_free(&c.doc);
}

/* By the paper's formulas in double: pairs that turn more than 32 times over the old context stay, those
 * that turn less than once are divided by the factor, the ones between are mixed. */
TEST(yarn_leaves_fast_pairs_and_divides_slow_ones) {
    struct mem mem = {0};
    struct model m = {
        .mem = &mem,
        .hp = {.n_rot = 64, .rope_base = 10000, .rope_scale = 1, .yarn_factor = 40, .n_ctx_orig = 4096}};
    m.hp.yarn_beta_fast = 32;
    m.hp.yarn_beta_slow = 1;
    REQUIRE(rope_init(&m) == HL_OK);
    for (int i = 0; i < 32; i++) {
        double plain = pow(10000, -2.0 * i / 64), turns = 4096 * plain / 6.283185307179586,
               got = m.rope_freq[ROPE_GLOBAL][i];
        if (turns > 32 * 1.4) EXPECT_NEAR(got, plain, 1e-6 * plain);
        else if (turns < 1 / 1.4) EXPECT_NEAR(got, plain / 40, 1e-6 * plain / 40);
        else EXPECT(got <= plain && got >= plain / 40 * (1 - 1e-6));
    }
    /* low = floor(10.47), high = ceil(22.51): pair 16 is 6 / 13 of the way */
    double plain = pow(10000, -0.5);
    EXPECT_NEAR(m.rope_freq[ROPE_GLOBAL][16], plain * (7 / 13.0) + plain / 40 * (6 / 13.0), 1e-6 * plain);
    rope_free(&m);
}

TEST(columns_behind_the_rotated_ones_pass_through) {
    struct numerics c = numerics_open("partial_rotary");
    int n_rot = in_int(&c, "rope_dim");
    float cs[MAX_VALUES], sn[MAX_VALUES], x[MAX_VALUES];
    for (int i = 0; i < n_rot / 2; i++) {
        double angle = in(&c, "pos") * pow(in(&c, "base"), -2.0 * i / n_rot);
        cs[i] = (float)cos(angle);
        sn[i] = (float)sin(angle);
    }
    values(json_get(c.input, "x"), x);
    kernels_get()->rope(x, cs, sn, n_rot, false);
    expect_values(x, &c, "neox", 1e-6);
    values(json_get(c.input, "x"), x);
    kernels_get()->rope(x, cs, sn, n_rot, true);
    expect_values(x, &c, "norm", 1e-6);
    json_free(&c.doc);
}

static void swap(uint8_t *a, uint8_t *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

/* Where the n bytes of a vector lie in a file. */
static uint8_t *find_vector(uint8_t *file, size_t size, const float *v, size_t n) {
    for (size_t at = 0; at + n <= size; at += 4)
        if (memcmp(file + at, v, n) == 0) return file + at;
    test_fail(__FILE__, __LINE__, "a vector is not in its file");
    return file;
}

/* Logits after three tokens of the golden model minicpm3, whose context before longrope is 4096. swapped:
 * its long factors are in the place of the short ones. */
static void longrope_logits(float *logits, int n_ctx, bool swapped) {
    static const int32_t tokens[] = {5, 60, 7};
    static const float short_factors[] = {1, 1.3f, 1.9f, 3.1f}, long_factors[] = {1.1f, 2, 4, 9};
    size_t n;
    uint8_t *bytes = test_read_file("tests/golden/models/minicpm3.gguf", &n);
    uint8_t *at[] = {find_vector(bytes, n, short_factors, sizeof short_factors),
                     find_vector(bytes, n, long_factors, sizeof long_factors)};
    if (swapped) swap(at[0], at[1], sizeof short_factors);
    hl_model *m = hl_model_new(1, HL_HIGH);
    if (push_bytes(m, bytes, n, n) != HL_OK) test_fail(__FILE__, __LINE__, "%s", hl_error());
    hl_session *s = hl_session_new(m, n_ctx, HL_KV_F32);
    if (!s || hl_feed(s, tokens, 3) != HL_OK) test_fail(__FILE__, __LINE__, "%s", hl_error());
    else memcpy(logits, hl_logits(s), MAX_VALUES * sizeof *logits);
    hl_session_free(s);
    hl_model_free(m);
    free(bytes);
}

TEST(contexts_beyond_the_original_one_use_the_long_factors) {
    float usual[MAX_VALUES], beyond[MAX_VALUES], swapped[MAX_VALUES], edge[MAX_VALUES];
    longrope_logits(usual, 512, false);
    longrope_logits(edge, 4096, false);
    longrope_logits(beyond, 4097, false);
    longrope_logits(swapped, 512, true);
    EXPECT_MEM(usual, edge, sizeof usual);
    EXPECT_MEM(beyond, swapped, sizeof beyond);
    EXPECT(memcmp(usual, beyond, sizeof usual) != 0);
}

/* ---- heads and windows */

TEST(the_width_of_a_head_is_the_file_s_and_not_a_share_of_the_columns) {
    struct numerics c = numerics_open("head_dim_from_key_length");
    struct header h = header_of(json_text(json_get(c.input, "arch")), 2, (uint32_t)in(&c, "n_embd"),
                                (uint32_t)in(&c, "n_head"));
    set_int(&h, "attention.head_count_kv", (uint32_t)in(&c, "n_head_kv"));
    set_int(&h, "attention.key_length", (uint32_t)in(&c, "key_length"));
    set_int(&h, "attention.value_length", (uint32_t)in(&c, "key_length"));
    REQUIRE(header_read(&h) == HL_OK);
    EXPECT_EQ(h.hp.n_head * h.hp.d_head_k, json_get(c.expected, "q_rows")->number);
    EXPECT_EQ(h.hp.n_head_kv * h.hp.d_head_k, json_get(c.expected, "kv_rows")->number);
    EXPECT_EQ(h.hp.n_head * h.hp.d_head_v, json_get(c.expected, "o_in")->number);
    EXPECT_NEAR(h.hp.attn_scale, json_get(c.expected, "scale")->number, 1e-8);
    header_free(&h);
    json_free(&c.doc);
}

static void check_layer_types(const char *name) {
    struct numerics c = numerics_open(name);
    int n_layer = in_int(&c, "n_layer");
    struct header h = header_of("gemma3", (uint32_t)n_layer, 64, 4);
    set_int(&h, "attention.sliding_window", 512);
    set_float(&h, "rope.freq_base", 1e6f);
    REQUIRE(header_read(&h) == HL_OK);
    for (int l = 0; l < n_layer; l++) {
        bool sliding = json_at(json_get(c.expected, "sliding"), (size_t)l)->number != 0;
        float base = h.layers[l].window > 0 ? h.hp.rope_base_local : h.hp.rope_base;
        EXPECT_EQ(h.layers[l].window, sliding ? 512 : 0);
        EXPECT_NEAR(base, json_at(json_get(c.expected, "rope_base"), (size_t)l)->number, 0);
    }
    EXPECT_EQ(h.layers[(int)json_get(c.expected, "first_global")->number].window, 0);
    header_free(&h);
    json_free(&c.doc);
}

TEST(every_sixth_layer_of_gemma3_sees_everything) {
    check_layer_types("layer_types_gemma3-270m");
    check_layer_types("layer_types_gemma3-1b");
}

/* The golden model gemma3 with another window, all layers but the sixth having it. */
static hl_model *load_with_window(uint32_t window) {
    static const char key[] = "gemma3.attention.sliding_window";
    size_t n, at = 0;
    uint8_t *bytes = test_read_file("tests/golden/models/gemma3.gguf", &n);
    while (at + sizeof key + 8 < n && memcmp(bytes + at, key, sizeof key - 1) != 0) at++;
    memcpy(bytes + at + sizeof key - 1 + 4, &window, sizeof window);
    hl_model *m = hl_model_new(1, HL_FAST);
    if (push_bytes(m, bytes, n, n) != HL_OK) test_fail(__FILE__, __LINE__, "%s", hl_error());
    free(bytes);
    return m;
}

static void check_window(const char *name) {
    struct numerics c = numerics_open(name);
    int pos = in_int(&c, "query_pos"), first = (int)json_get(c.expected, "first_visible")->number,
        n_visible = 0;
    hl_model *m = load_with_window((uint32_t)in(&c, "window"));
    hl_session *s = hl_session_new(m, 520, HL_KV_F32);
    REQUIRE(s && hl_tap_set(s, HL_TAP_ATTN_PROB, 0, true) == HL_OK);
    for (int i = 0; i <= pos; i++) {
        int32_t token = (i * 37 + 11) % 300;
        REQUIRE(hl_feed(s, &token, 1) == HL_OK);
    }
    int32_t shape[3];
    const float *row = hl_tap_read(s, HL_TAP_ATTN_PROB, 0, shape);
    REQUIRE(row && shape[2] == pos + 1);
    for (int k = 0; k <= pos; k++) {
        EXPECT((row[k] > 0) == (k >= first));
        n_visible += row[k] > 0;
    }
    EXPECT_EQ(n_visible, json_get(c.expected, "n_visible")->number);
    hl_session_free(s);
    hl_model_free(m);
    json_free(&c.doc);
}

TEST(a_window_counts_the_position_itself) {
    check_window("swa_mask_w512_q511");
    check_window("swa_mask_w512_q512");
    check_window("swa_mask_w1_q5");
}

/* ---- elementwise */

TEST(epsilon_is_added_inside_the_root) {
    struct numerics c = numerics_open("rmsnorm_eps_inside");
    float x[MAX_VALUES], w[MAX_VALUES], y[MAX_VALUES];
    int n = values(json_get(c.input, "x"), x);
    values(json_get(c.input, "w"), w);
    kernels_get()->rms_norm(y, x, w, n, (float)in(&c, "eps"));
    expect_values(y, &c, "y", 1e-6);
    json_free(&c.doc);
}

static void check_softcap(const char *name, const char *input) {
    struct numerics c = numerics_open(name);
    float y[MAX_VALUES];
    int n = values(json_get(c.input, input), y);
    kernels_get()->softcap(y, (float)in(&c, "cap"), n);
    expect_values(y, &c, "y", 1e-6);
    json_free(&c.doc);
}

TEST(soft_caps_bend_towards_their_limit) {
    check_softcap("final_softcap_30", "logits");
    check_softcap("attn_softcap_50", "scores");
}

static void check_gate(const char *name, void (*gate)(float *y, const float *g, const float *u, int n)) {
    struct numerics c = numerics_open(name);
    float x[MAX_VALUES], one[MAX_VALUES], y[MAX_VALUES];
    int n = values(json_get(c.input, "x"), x);
    for (int i = 0; i < n; i++) one[i] = 1;
    gate(y, x, one, n);
    expect_values(y, &c, "y", 1e-6);
    json_free(&c.doc);
}

TEST(gates_are_silu_and_the_tanh_form_of_gelu) {
    check_gate("gelu_tanh", kernels_get()->gelu_mul);
    check_gate("silu", kernels_get()->silu_mul);
}

/* ---- experts */

static struct hparams routing(const struct numerics *c, int n_expert) {
    const struct json *norm = json_get(c->input, "norm");
    return (struct hparams){
        .n_expert = n_expert,
        .n_expert_used = in_int(c, "k"),
        .n_expert_groups = 1,
        .n_groups_used = 1,
        .expert_gate = GATE_SOFTMAX,
        .expert_norm = norm && norm->number != 0,
        .expert_scale = (float)json_number(json_get(c->input, "routed_scaling_factor"), 1),
    };
}

TEST(weights_of_experts_are_scaled_also_where_they_are_not_normalised) {
    struct numerics c = numerics_open("moe_scale_without_norm");
    float p[MAX_VALUES], weights[MAX_VALUES];
    int chosen[MAX_VALUES];
    struct hparams hp = routing(&c, values(json_get(c.input, "logits"), p));
    moe_route(&hp, kernels_get(), p, NULL, chosen, weights);
    expect_values(weights, &c, "weights", 1e-6);
    json_free(&c.doc);
}

TEST(the_only_chosen_expert_has_the_whole_weight) {
    struct numerics c = numerics_open("moe_k1_norm");
    float p[MAX_VALUES], weights[MAX_VALUES];
    int chosen[MAX_VALUES];
    struct hparams hp = routing(&c, values(json_get(c.input, "logits"), p));
    moe_route(&hp, kernels_get(), p, NULL, chosen, weights);
    expect_values(weights, &c, "weights", 1e-6);
    EXPECT_EQ(chosen[0], json_at(json_get(c.expected, "experts"), 0)->number);
    json_free(&c.doc);
}

TEST(a_choice_of_experts_is_complete_whatever_the_router_says) {
    static const float odd[] = {NAN, -INFINITY, INFINITY, 0};
    uint64_t seed = 5;
    for (int round = 0; round < 500; round++) {
        struct hparams hp = {
            .n_expert = 8, .n_expert_used = 3, .n_expert_groups = 4, .n_groups_used = 2, .expert_scale = 1};
        float p[8], bias[8], weights[3];
        int chosen[3];
        hp.expert_gate = round % 2 ? GATE_SOFTMAX : GATE_SIGMOID;
        for (int i = 0; i < 8; i++) p[i] = odd[test_random(&seed) % 4];
        for (int i = 0; i < 8; i++) bias[i] = odd[test_random(&seed) % 4];
        moe_route(&hp, kernels_get(), p, round % 3 ? bias : NULL, chosen, weights);
        for (int u = 0; u < 3; u++) EXPECT(chosen[u] >= 0 && chosen[u] < 8);
        EXPECT(chosen[0] != chosen[1] && chosen[0] != chosen[2] && chosen[1] != chosen[2]);
    }
}

/* ---- latent attention */

/* y [w.n_out] = w x for one float row. */
static void multiply(float *y, const struct matrix *w, const float *x) {
    struct act a = {.n_in = w->n_in, .f32 = x};
    kernels_get()->linear_high[w->type](y, (size_t)w->n_out, w->data, w->n_out / PANEL_ROWS, &a, 0, 1);
}

/* Absorbed: the query is brought to the latent, and the weighted latent to a value. Ranks are filled up to
 * whole panels with zeros. */
TEST(absorbed_attention_gives_what_expanded_keys_and_values_give) {
    enum { HEADS = 2, NOPE = 4, ROPE = 2, RANK = 3, PADDED = 4, VALUE = 4, LENGTH = 3 };
    struct numerics c = numerics_open("mla_absorb");
    float w_uk[MAX_VALUES], w_uv[MAX_VALUES], latent[MAX_VALUES], k_rope[MAX_VALUES], q_nope[MAX_VALUES],
        q_rope[MAX_VALUES];
    float out[HEADS * VALUE];
    EXPECT_EQ(values(json_get(c.input, "W_uk"), w_uk), HEADS * NOPE * RANK);
    EXPECT_EQ(values(json_get(c.input, "W_uv"), w_uv), HEADS * VALUE * RANK);
    EXPECT_EQ(values(json_get(c.input, "c_kv"), latent), LENGTH * RANK);
    values(json_get(c.input, "k_rope"), k_rope);
    values(json_get(c.input, "q_nope"), q_nope);
    values(json_get(c.input, "q_rope"), q_rope);
    for (int h = 0; h < HEADS; h++) {
        _Alignas(16) unsigned char turned[PADDED * NOPE * 4] = {0}, straight[VALUE * RANK * 4];
        float q[PADDED], scores[LENGTH], mixed[RANK] = {0};
        const size_t row_bytes = RANK * sizeof(float);
        EXPECT(transpose_pack(turned, type_info(TYPE_F32), w_uk + h * NOPE * RANK, row_bytes, NOPE, RANK));
        EXPECT(panel_pack(straight, PANEL_F32, w_uv + h * VALUE * RANK, row_bytes, RANK, 0, VALUE));
        multiply(q, &(struct matrix){PANEL_F32, NOPE, PADDED, turned}, q_nope + h * NOPE);
        for (int t = 0; t < LENGTH; t++) {
            scores[t] = 0;
            for (int i = 0; i < RANK; i++) scores[t] += q[i] * latent[t * RANK + i];
            for (int i = 0; i < ROPE; i++) scores[t] += q_rope[h * ROPE + i] * k_rope[t * ROPE + i];
            scores[t] /= sqrtf(NOPE + ROPE);
        }
        float sum = kernels_get()->exp_sum(scores, scores, LENGTH, kernels_get()->max(scores, LENGTH));
        for (int t = 0; t < LENGTH; t++)
            for (int i = 0; i < RANK; i++) mixed[i] += scores[t] / sum * latent[t * RANK + i];
        multiply(out + h * VALUE, &(struct matrix){PANEL_F32, RANK, VALUE, straight}, mixed);
    }
    expect_values(out, &c, "out", 1e-5);
    json_free(&c.doc);
}

/* Whatever the type, row r of the turned matrix is column r of the file's, in f16 where blocks were
 * quantized. */
TEST(turned_matrices_hold_the_columns_of_the_file) {
    enum { ROWS = 6, COLUMNS = 288 };
    static const uint32_t types[] = {TYPE_F32, TYPE_F16, TYPE_BF16, TYPE_Q4_0, TYPE_Q5_1, TYPE_Q8_0};
    uint64_t seed = 11;
    for (int t = 0; t < 6; t++) {
        const struct type_info *type = type_info(types[t]);
        size_t row_bytes = (size_t)(COLUMNS / type->n_weights * type->n_bytes), n = ROWS * row_bytes;
        uint8_t *file = malloc(n);
        for (size_t i = 0; i < n; i++) file[i] = (uint8_t)test_random(&seed);
        for (size_t i = 1; i < n; i += 2) file[i] &= 0xbb; /* no scale and no float is infinite */
        struct matrix w = {transpose_panel(type), ROWS, COLUMNS, NULL};
        unsigned char *panels = calloc(1, panel_matrix_bytes(w.type, ROWS, COLUMNS));
        w.data = panels;
        EXPECT(transpose_pack(panels, type, file, row_bytes, ROWS, COLUMNS));
        for (int row = 0; row < ROWS; row++) {
            float want[COLUMNS], got[ROWS];
            type->to_f32(want, file + (size_t)row * row_bytes, COLUMNS);
            for (int column = 0; column < COLUMNS; column++) {
                panel_row(got, &w, column);
                EXPECT_NEAR(got[row], (double)want[column],
                            fabs((double)want[column]) * (t < 3 ? 0 : 0x1p-11) + (t < 3 ? 0 : 0x1p-25));
            }
        }
        free(panels);
        free(file);
    }
}

TEST(a_weight_that_is_no_number_cannot_be_turned) {
    float w[2][4] = {{1, 2, 3, 4}, {5, NAN, 7, 8}};
    unsigned char panels[4 * 2 * 4] = {0};
    EXPECT(!transpose_pack(panels, type_info(TYPE_F32), w, sizeof w[0], 2, 4));
    w[1][1] = 6;
    EXPECT(transpose_pack(panels, type_info(TYPE_F32), w, sizeof w[0], 2, 4));
}
