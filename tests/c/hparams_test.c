/* Hyperparameters of each architecture: defaults and rules that files leave out. Numbers come from the
 * models' configurations. */
#include "header.h"

static void expect_read(struct header *h) {
    hl_status status = header_read(h);
    if (status != HL_OK) test_fail(__FILE__, __LINE__, "%s: %s", h->arch, status_message());
}

static void expect_refused(struct header *h, hl_status status, const char *words) {
    EXPECT_EQ(header_read(h), status);
    if (!strstr(status_message(), words))
        test_fail(__FILE__, __LINE__, "'%s' does not say '%s'", status_message(), words);
    header_free(h);
}

TEST(scores_of_the_27B_Gemmas_are_scaled_by_the_share_of_a_head) {
    static const struct {
        const char *arch;
        uint32_t n_layer, n_embd, n_head, d_head;
        double scale;
    } sizes[] = {
        {"gemma2", 46, 4608, 32, 128, 1 / 12.0}, /* query_pre_attn_scalar 144 */
        {"gemma2", 42, 3584, 16, 256, 1 / 16.0},
        {"gemma3", 62, 5376, 32, 128, 0.0771516749810}, /* 168 */
        {"gemma3", 34, 2560, 8, 256, 1 / 16.0},
    };
    for (int i = 0; i < 4; i++) {
        struct header h = header_of(sizes[i].arch, sizes[i].n_layer, sizes[i].n_embd, sizes[i].n_head);
        set_int(&h, "attention.key_length", sizes[i].d_head);
        set_int(&h, "attention.value_length", sizes[i].d_head);
        expect_read(&h);
        EXPECT_NEAR(h.hp.attn_scale, sizes[i].scale, 1e-8);
        header_free(&h);
    }
}

TEST(gemma2_has_its_windows_and_caps_where_the_file_does_not_say) {
    struct header h = header_of("gemma2", 4, 64, 4);
    expect_read(&h);
    EXPECT_NEAR(h.hp.attn_softcap, 50, 0);
    EXPECT_NEAR(h.hp.final_softcap, 30, 0);
    EXPECT_NEAR(h.hp.embed_scale, 8, 0);
    EXPECT_NEAR(h.hp.rope_base_local, 0, 0);
    for (int l = 0; l < 4; l++) EXPECT_EQ(h.layers[l].window, l % 2 == 0 ? 4096 : 0);
    header_free(&h);
}

TEST(gemma3_without_a_window_sees_everything) {
    struct header h = header_of("gemma3", 7, 64, 4);
    set_text(&h, "rope.scaling.type", "linear");
    set_float(&h, "rope.scaling.factor", 8);
    expect_read(&h);
    for (int l = 0; l < 7; l++) EXPECT_EQ(h.layers[l].window, 0);
    EXPECT_NEAR(h.hp.rope_base_local, 10000, 0);
    EXPECT_NEAR(h.hp.rope_scale, 0.125, 0);
    EXPECT_NEAR(h.hp.final_softcap, 0, 0);
    header_free(&h);
}

TEST(the_base_of_windowed_layers_is_the_file_s_where_it_says) {
    struct header h = header_of("gemma3", 7, 64, 4);
    set_float(&h, "rope.freq_base_swa", 20000);
    expect_read(&h);
    EXPECT_NEAR(h.hp.rope_base_local, 20000, 0);
    header_free(&h);
    h = header_of("olmo2", 8, 64, 4);
    set_float(&h, "rope.freq_base", 500000);
    expect_read(&h);
    EXPECT_NEAR(h.hp.rope_base_local, 500000, 0);
    header_free(&h);
}

TEST(a_pattern_in_the_file_goes_before_the_architecture_s) {
    static const uint8_t pattern[] = {0, 1, 1, 0, 1};
    struct header h = header_of("gemma3", 5, 64, 4);
    set_int(&h, "attention.sliding_window", 32);
    add_array(&h.b, header_key(&h, "attention.sliding_window_pattern"), HL_META_BOOL, 5);
    put(&h.b.values, pattern, 5);
    expect_read(&h);
    for (int l = 0; l < 5; l++) EXPECT_EQ(h.layers[l].window, pattern[l] ? 32 : 0);
    header_free(&h);

    h = header_of("llama", 6, 64, 4);
    set_int(&h, "attention.sliding_window", 32);
    set_int(&h, "attention.sliding_window_pattern", 3);
    expect_read(&h);
    for (int l = 0; l < 6; l++) EXPECT_EQ(h.layers[l].window, l % 3 < 2 ? 32 : 0);
    header_free(&h);

    h = header_of("llama", 2, 64, 4);
    set_int(&h, "attention.sliding_window", 32);
    set_int(&h, "attention.sliding_window_pattern", 0);
    expect_read(&h);
    for (int l = 0; l < 2; l++) EXPECT_EQ(h.layers[l].window, 32);
    header_free(&h);

    h = header_of("llama", 2, 64, 4);
    set_int(&h, "attention.sliding_window", 32);
    expect_read(&h);
    EXPECT_EQ(h.hp.window, 0);
    header_free(&h);
}

TEST(a_pattern_for_another_number_of_layers_is_refused) {
    struct header h = header_of("gemma3", 5, 64, 4);
    add_array(&h.b, header_key(&h, "attention.sliding_window_pattern"), HL_META_BOOL, 4);
    put(&h.b.values, NULL, 4);
    expect_refused(&h, HL_EFORMAT, "4 elements");
}

TEST(every_layer_of_phi3_has_the_window) {
    struct header h = header_of("phi3", 3, 96, 4);
    set_int(&h, "attention.sliding_window", 2047);
    expect_read(&h);
    for (int l = 0; l < 3; l++) EXPECT_EQ(h.layers[l].window, 2047);
    header_free(&h);
}

TEST(granite_s_factors_are_taken_from_the_file) {
    struct header h = header_of("granite", 2, 64, 4);
    set_float(&h, "embedding_scale", 12);
    set_float(&h, "residual_scale", 0.22f);
    set_float(&h, "attention.scale", 0.015625f);
    set_float(&h, "logit_scale", 8);
    expect_read(&h);
    EXPECT_NEAR(h.hp.embed_scale, 12, 0);
    EXPECT_NEAR(h.hp.residual_scale, 0.22, 1e-8);
    EXPECT_NEAR(h.hp.attn_scale, 0.015625, 0);
    EXPECT_NEAR(h.hp.logit_scale, 0.125, 0);
    header_free(&h);
}

/* ---- latent attention */

static struct header header_mla(const char *arch, uint32_t n_embd, uint32_t n_head, uint32_t latent,
                                uint32_t d_rope) {
    struct header h = header_of(arch, 27, n_embd, n_head);
    set_int(&h, "attention.kv_lora_rank", latent);
    set_int(&h, "rope.dimension_count", d_rope);
    return h;
}

TEST(head_widths_of_latent_attention_are_the_same_in_all_generations_of_files) {
    for (int form = 0; form < 2; form++) {
        struct header h = header_mla("deepseek2", 2048, 16, 512, 64);
        set_int(&h, "attention.head_count_kv", form == 0 ? 16 : 1);
        set_int(&h, "attention.key_length", form == 0 ? 192 : 576);
        set_int(&h, "attention.value_length", form == 0 ? 128 : 512);
        if (form == 1) set_int(&h, "attention.key_length_mla", 192);
        if (form == 1) set_int(&h, "attention.value_length_mla", 128);
        expect_read(&h);
        EXPECT_EQ(h.hp.d_head_k, 192);
        EXPECT_EQ(h.hp.d_head_v, 128);
        EXPECT_EQ(h.hp.d_nope, 128);
        EXPECT_EQ(h.hp.n_head_kv, 1);
        EXPECT_EQ(h.hp.q_lora_rank, 0);
        EXPECT_NEAR(h.hp.attn_scale, 0.0721687836487, 1e-8); /* 1 / sqrt(192) */
        header_free(&h);
    }
}

TEST(minicpm3_s_constants_and_value_heads_come_from_its_widths) {
    struct header h = header_mla("minicpm3", 2560, 40, 256, 32);
    set_int(&h, "attention.q_lora_rank", 768);
    set_int(&h, "attention.key_length", 96);
    expect_read(&h);
    EXPECT_EQ(h.hp.d_head_v, 64);
    EXPECT_EQ(h.hp.d_nope, 64);
    EXPECT_EQ(h.hp.q_lora_rank, 768);
    EXPECT_NEAR(h.hp.embed_scale, 12, 0);
    EXPECT_NEAR(h.hp.residual_scale, 0.26943012562182533, 1e-7); /* 1.4 / sqrt(27) */
    EXPECT_NEAR(h.hp.logit_scale, 0.1, 1e-8);
    header_free(&h);
}

/* DeepSeek-V2-Lite; right value from the report that the second correction was missing. */
TEST(yarn_of_deepseek_scales_the_scores_and_not_the_cosines) {
    struct header h = header_mla("deepseek2", 2048, 16, 512, 64);
    set_int(&h, "attention.key_length", 192);
    set_int(&h, "attention.value_length", 128);
    set_text(&h, "rope.scaling.type", "yarn");
    set_float(&h, "rope.scaling.factor", 40);
    set_int(&h, "rope.scaling.original_context_length", 4096);
    set_float(&h, "rope.scaling.yarn_log_multiplier", 0.0707f);
    expect_read(&h);
    EXPECT_NEAR(h.hp.attn_scale, 0.114721386793, 3e-8);
    EXPECT_NEAR(h.hp.rope_mscale, 1, 0);
    EXPECT_NEAR(h.hp.yarn_factor, 40, 0);
    EXPECT_NEAR(h.hp.yarn_beta_fast, 32, 0);
    EXPECT_NEAR(h.hp.yarn_beta_slow, 1, 0);
    EXPECT_EQ(h.hp.n_ctx_orig, 4096);
    EXPECT_NEAR(h.hp.rope_scale, 1, 0);
    header_free(&h);
}

TEST(a_rotated_part_as_wide_as_the_head_is_refused) {
    struct header h = header_mla("deepseek2", 256, 4, 64, 32);
    set_int(&h, "attention.key_length", 32);
    set_int(&h, "attention.value_length", 32);
    expect_refused(&h, HL_EFORMAT, "rope.dimension_count");
}

TEST(latent_attention_without_its_rank_is_refused) {
    struct header h = header_of("plm", 2, 64, 4);
    expect_refused(&h, HL_EFORMAT, "plm.attention.kv_lora_rank");
}

TEST(longrope_multiplies_cosines_by_the_file_s_factor) {
    struct header h = header_of("phi3", 2, 96, 4);
    uint64_t half = 12;
    add_info(&h.b, "rope_factors_long.weight", TYPE_F32, 1, &half, 0);
    set_float(&h, "rope.scaling.attn_factor", 1.1902380714238083f);
    set_int(&h, "rope.scaling.original_context_length", 2048);
    expect_read(&h);
    EXPECT_NEAR(h.hp.rope_mscale, 1.19023807142, 1e-7);
    EXPECT_EQ(h.hp.n_ctx_orig, 2048);
    header_free(&h);
}

TEST(longrope_without_its_factors_is_refused) {
    struct header h = header_of("phi3", 2, 96, 4);
    set_text(&h, "rope.scaling.type", "longrope");
    expect_refused(&h, HL_EUNSUPPORTED, "longrope");
}

/* ---- experts */

static struct header header_moe(const char *arch, uint32_t n_expert, uint32_t n_used) {
    struct header h = header_of(arch, 4, 64, 4);
    if (strcmp(arch, "deepseek2") == 0) {
        set_int(&h, "attention.kv_lora_rank", 32);
        set_int(&h, "rope.dimension_count", 8);
    }
    set_int(&h, "expert_count", n_expert);
    set_int(&h, "expert_used_count", n_used);
    return h;
}

TEST(experts_have_the_defaults_of_their_architecture) {
    struct header h = header_moe("llama", 8, 2);
    expect_read(&h);
    EXPECT_EQ(h.hp.n_ff_exp, 256);
    EXPECT_EQ(h.hp.n_ff_shexp, 0);
    EXPECT_EQ(h.hp.n_dense, 0);
    EXPECT_EQ(h.hp.expert_gate, GATE_SOFTMAX);
    EXPECT(h.hp.expert_norm);
    EXPECT_NEAR(h.hp.expert_scale, 1, 0);
    header_free(&h);

    h = header_moe("deepseek2", 64, 6);
    set_int(&h, "leading_dense_block_count", 1);
    set_int(&h, "expert_feed_forward_length", 48);
    set_int(&h, "expert_shared_count", 2);
    set_float(&h, "expert_weights_scale", 2.5f);
    set_int(&h, "expert_gating_func", 2);
    set_int(&h, "expert_group_count", 8);
    set_int(&h, "expert_group_used_count", 4);
    expect_read(&h);
    EXPECT_EQ(h.hp.n_dense, 1);
    EXPECT_EQ(h.hp.n_ff_exp, 48);
    EXPECT_EQ(h.hp.n_ff_shexp, 96);
    EXPECT_EQ(h.hp.expert_gate, GATE_SIGMOID);
    EXPECT(!h.hp.expert_norm);
    EXPECT_NEAR(h.hp.expert_scale, 2.5, 0);
    EXPECT_EQ(h.hp.n_expert_groups, 8);
    EXPECT_EQ(h.hp.n_groups_used, 4);
    header_free(&h);
}

TEST(a_model_whose_layers_are_all_dense_has_no_experts) {
    struct header h = header_moe("deepseek2", 64, 6);
    set_int(&h, "leading_dense_block_count", 4);
    expect_read(&h);
    EXPECT_EQ(h.hp.n_expert, 0);
    EXPECT_EQ(h.hp.n_expert_used, 0);
    EXPECT_EQ(h.hp.n_dense, 4);
    header_free(&h);
}

TEST(experts_that_cannot_be_chosen_are_refused) {
    static const struct {
        uint32_t n_expert, n_used, n_groups, n_groups_used, gate;
        hl_status status;
        const char *words;
    } bad[] = {
        {8, 9, 1, 1, 1, HL_EFORMAT, "expert_used_count"},
        {8, 0, 1, 1, 1, HL_EFORMAT, "expert_used_count"},
        {1025, 2, 1, 1, 1, HL_EFORMAT, "1025 experts"},
        {8, 2, 3, 1, 1, HL_EFORMAT, "8 experts cannot be split into 3 groups"},
        {8, 2, 9, 1, 1, HL_EFORMAT, "expert_group_count"},
        {8, 2, 4, 5, 1, HL_EFORMAT, "expert_group_used_count"},
        {8, 5, 4, 2, 1, HL_EFORMAT, "5 experts are to be chosen from 2 groups that hold 4"},
        {8, 2, 4, 2, 3, HL_EUNSUPPORTED, "gating function 3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct header h = header_moe("deepseek2", bad[i].n_expert, bad[i].n_used);
        set_int(&h, "expert_group_count", bad[i].n_groups);
        set_int(&h, "expert_group_used_count", bad[i].n_groups_used);
        set_int(&h, "expert_gating_func", bad[i].gate);
        expect_refused(&h, bad[i].status, bad[i].words);
    }
    struct header h = header_moe("gemma3", 8, 2);
    expect_refused(&h, HL_EUNSUPPORTED, "a mixture of 8 experts is not built in for gemma3");
}
