#include <stdio.h>
#include <string.h>

#include "model/model.h"

static const struct arch archs[] = {
    {"llama", .rope = ROPE_INTERLEAVED, .act = ACT_SILU, .attn = ATTN_GQA},
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
