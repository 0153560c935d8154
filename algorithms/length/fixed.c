/* The fixed length: draft the whole tree, or its first `depth` levels. */
#include "core/cycle/contract/length.h"

struct fixed {
    int32_t depth; /* INT32_MIN: everything */
};

static const struct cop_option options[] = {{.name = "depth",
                                             .type = COP_OPTION_INT,
                                             .offset = offsetof(struct fixed, depth),
                                             .min = 0,
                                             .max = COP_TREE_LIMIT,
                                             .flags = COP_OPTION_ABSENT,
                                             .help = "levels to draft; absent: the whole tree"},
                                            {0}};

static bool more(const void *state, const struct cop_length_in *in)
{
    const struct fixed *s = state;
    return s->depth == INT32_MIN || in->level <= s->depth;
}

const struct cop_length_ops cop_length_fixed = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_LENGTH,
             .name = "fixed",
             .help = "drafts the whole tree, or its first levels",
             .source = "Leviathan, Kalman, Matias 2023, arXiv:2211.17192",
             .state_size = sizeof(struct fixed),
             .options = options},
    .is_constant = true,
    .more = more,
};
