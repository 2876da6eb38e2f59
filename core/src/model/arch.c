#include <stdio.h>
#include <string.h>

#include "model/model.h"

/* Sources: the models' papers and configurations; llama.cpp's file conventions. */
static const struct arch archs[] = {
    {"llama", .rope = ROPE_INTERLEAVED, .act = ACT_SILU, .experts = true, .expert_norm = true},
    {"qwen2", .rope = ROPE_NEOX, .act = ACT_SILU},
    {"qwen2moe", .rope = ROPE_NEOX, .act = ACT_SILU, .experts = true, .shared_gate = true},
    {"qwen3", .rope = ROPE_NEOX, .act = ACT_SILU, .qk_norm = true},
    {"qwen3moe", .rope = ROPE_NEOX, .act = ACT_SILU, .qk_norm = true, .experts = true, .expert_norm = true},
    {"gemma2", .rope = ROPE_NEOX, .act = ACT_GELU, .global_every = 2, .window = 4096, .post_norm = true,
     .attn_softcap = 50, .final_softcap = 30, .n_layer_wide = 46, .scale_embed = true},
    {"gemma3", .rope = ROPE_NEOX, .act = ACT_GELU, .global_every = 6, .local_rope = true,
     .rope_base_local = 10000, .qk_norm = true, .post_norm = true, .n_layer_wide = 62, .scale_embed = true},
    {"phi3", .rope = ROPE_NEOX, .act = ACT_SILU, .global_every = WINDOW_ALL, .fused_up = true},
    {"granite", .rope = ROPE_INTERLEAVED, .act = ACT_SILU},
    {"olmo2", .rope = ROPE_NEOX, .act = ACT_SILU, .global_every = 4, .local_rope = true, .qk_norm = true,
     .qk_norm_whole = true, .branch_norms_only = true, .post_norm = true},
    {"smollm3", .rope = ROPE_INTERLEAVED, .act = ACT_SILU, .no_rope_every = 4},
    {"deepseek2", .rope = ROPE_INTERLEAVED, .act = ACT_SILU, .attn = ATTN_MLA, .experts = true,
     .yarn_in_scores = true},
    {"minicpm3", .rope = ROPE_NEOX, .act = ACT_SILU, .attn = ATTN_MLA, .minicpm_scales = true},
    {"plm", .rope = ROPE_INTERLEAVED, .act = ACT_RELU2, .attn = ATTN_MLA},
};

enum { N_ARCHS = sizeof archs / sizeof archs[0] };

const struct arch *arch_find(struct str name) {
    for (int i = 0; i < N_ARCHS; i++) {
        if (name.n == strlen(archs[i].name) && memcmp(name.p, archs[i].name, name.n) == 0) return &archs[i];
    }
    return NULL;
}

void arch_names(char *out, size_t size) {
    size_t used = 0;
    for (int i = 0; i < N_ARCHS && used < size; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", archs[i].name);
    }
}
