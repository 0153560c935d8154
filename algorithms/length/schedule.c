/* The heuristic of transformers: two levels more after a cycle whose draft was accepted whole,
 * one fewer after any other, never below one.
 *
 * Every sequence begins at `start` (there called heuristic_transient). The length never passes
 * what the tree allows, so name one that is deep enough. A cycle that drafted nothing (a lookup
 * that found nothing) leaves the length alone. */
#include "core/cycle/contract/length.h"

enum { HEURISTIC, CONSTANT };

struct schedule {
    int32_t kind, start, up, down;
};

/* Per sequence: the length less `start`, so that zero memory is a beginning. */
struct drift {
    int32_t levels;
};

#define COUNT(field, low, usual, text)                                                         \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_INT, .offset = offsetof(struct schedule, field),    \
        .min = (low), .max = COP_TREE_LIMIT, .fallback = (usual), .help = (text)               \
    }

static const struct cop_option options[] = {
    {.name = "kind",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct schedule, kind),
     .choices = "heuristic|constant",
     .help = "whether the length moves with the outcome of each cycle"},
    COUNT(start, 1, 5, "levels to draft in the first cycle of an answer"),
    COUNT(up, 0, 2, "levels more after a draft that was accepted whole"),
    COUNT(down, 0, 1, "levels fewer after any other"),
    {0}};

static bool more(const void *state, const struct cop_length_in *in)
{
    const struct schedule *s = state;
    const struct drift *drift = in->sequence_state;
    return in->level <= s->start + (drift ? drift->levels : 0);
}

static void observe(const void *state, void *sequence_state,
                    const struct cop_length_cycle *cycle)
{
    const struct schedule *s = state;
    struct drift *drift = sequence_state;
    if (s->kind == CONSTANT || cycle->depth < 1) {
        return;
    }
    int32_t length = s->start + drift->levels;
    if (cycle->n_accepted == cycle->depth) {
        int32_t most = length > cycle->limit ? length : cycle->limit;
        length = length + s->up < most ? length + s->up : most;
    } else {
        length = length - s->down > 1 ? length - s->down : 1;
    }
    drift->levels = length - s->start;
}

const struct cop_length_ops cop_length_schedule = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_LENGTH,
             .name = "schedule",
             .help =
                 "two levels more after a draft that was accepted whole, one fewer after any "
                 "other",
             .source = "Hugging Face transformers, num_assistant_tokens_schedule",
             .synonyms = "heuristic, heuristic_transient, constant",
             .state_size = sizeof(struct schedule),
             .options = options},
    .sequence_state_size = sizeof(struct drift),
    .more = more,
    .observe = observe,
};
