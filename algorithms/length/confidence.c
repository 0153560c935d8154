/* The confidence threshold: stop when the draft is no longer sure of what it drew.
 *
 * Another level is drafted while some frontier node's own token had draft probability of at
 * least `threshold`. The unsure token stays in the draft: dropping it because of its own value
 * would bias the output (the tokens that remain would not be draws from their rows). */
#include "core/cycle/contract/length.h"

struct confidence {
    double threshold;
};

static const struct cop_option options[] = {
    {.name = "threshold",
     .type = COP_OPTION_NUMBER,
     .offset = offsetof(struct confidence, threshold),
     .min = 0,
     .max = 1,
     .fallback = 0.4,
     .flags = COP_OPTION_POSITIONAL,
     .help = "draft probability of the last token below which drafting stops"},
    {0}};

/* Points and nodes without a row are sure by definition. */
static double confidence(const struct cop_length_in *in, int32_t node)
{
    const struct cop_row *row = cop_rows_at(&in->draft, node);
    return !row || row->kind == COP_ROW_POINTS
               ? 1.0
               : cop_row_probability(row, in->tree->token[node]);
}

static bool more(const void *state, const struct cop_length_in *in)
{
    const struct confidence *s = state;
    if (in->level <= 1) {
        return true;
    }
    for (int32_t i = 0; i < in->n_frontier; i++) {
        if (confidence(in, in->frontier[i]) >= s->threshold) {
            return true;
        }
    }
    return false;
}

const struct cop_length_ops cop_length_confidence = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_LENGTH,
             .name = "confidence",
             .help = "drafts on while the last token's draft probability reaches a threshold; "
                     "the token below it stays",
             .source = "Hugging Face transformers, assistant_confidence_threshold",
             .synonyms = "dynamic draft length, early stop",
             .state_size = sizeof(struct confidence),
             .options = options},
    .more = more,
};
