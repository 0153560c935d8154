/* AdaEDL: stop when the draft's entropy says that the next token would hardly be accepted.
 *
 * 1 - sqrt(scale * H) bounds the acceptance probability of a token drawn from a row of entropy
 * H (nats) from below. Another level is drafted while the bound of some frontier node's row
 * reaches a threshold, which moves a step a cycle so that acceptance nears `target`:
 *     rate      <- decay * rate + (1 - decay) * accepted / drafted
 *     wish       = threshold + step  where rate < target,
 *                  threshold - step  else, unless every possible level was accepted
 *     threshold <- smoothing * threshold + (1 - smoothing) * wish
 *
 * The row is the one that the frontier's own token was drawn from: the pass that gave it is
 * paid, so the token stays and only what would follow is not drafted. The identity of that
 * token plays no part. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "core/cycle/contract/length.h"

#include <math.h>

struct entropy {
    double scale, threshold, target, step, decay, smoothing;
};

/* Per sequence; all zero before the first cycle that drafted. */
struct control {
    double rate, threshold;
    int64_t n_cycles;
};

#define NUMBER(field, low, high, usual, text)                                                  \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_NUMBER, .offset = offsetof(struct entropy, field),  \
        .min = (low), .max = (high), .fallback = (usual), .help = (text)                       \
    }

static const struct cop_option options[] = {
    NUMBER(scale, 0, 100, 0.2, "factor of the entropy in nats under the root"),
    NUMBER(threshold, -100, 1, 0.7, "bound at which drafting stops, at the start of an answer"),
    NUMBER(target, 0, 1, 0.9, "share of drafted levels that should be accepted"),
    NUMBER(step, 0, 1, 0.01, "how far the threshold wants to move in a cycle; 0: it stays"),
    NUMBER(decay, 0, 1, 0.5, "weight of the past in the acceptance rate"),
    NUMBER(smoothing, 0, 1, 0.9, "weight of the past in the threshold"),
    {0}};

static struct control current(const struct entropy *s, const struct control *control)
{
    return control && control->n_cycles > 0
               ? *control
               : (struct control){.rate = s->target, .threshold = s->threshold};
}

/* Points and nodes without a row are certain by definition. */
static double bound(const struct entropy *s, const struct cop_row *row)
{
    if (!row || row->kind == COP_ROW_POINTS || row->kind == COP_ROW_ONE_HOT) {
        return 1;
    }
    const struct cop_reading reading = cop_read_as_is(row);
    double entropy = cop_reading_entropy(&reading, 0);
    return 1 - sqrt(s->scale * fmax(entropy, 0));
}

static bool more(const void *state, const struct cop_length_in *in)
{
    const struct entropy *s = state;
    if (in->level <= 1) {
        return true;
    }
    double threshold = current(s, in->sequence_state).threshold;
    for (int32_t i = 0; i < in->n_frontier; i++) {
        if (bound(s, cop_rows_at(&in->draft, in->frontier[i])) >= threshold) {
            return true;
        }
    }
    return false;
}

static void observe(const void *state, void *sequence_state,
                    const struct cop_length_cycle *cycle)
{
    const struct entropy *s = state;
    if (cycle->depth < 1) {
        return;
    }
    struct control next = current(s, sequence_state);
    double accepted = (double)cycle->n_accepted / cycle->depth, wish = next.threshold;
    next.rate = s->decay * next.rate + (1 - s->decay) * accepted;
    if (next.rate < s->target) {
        wish += s->step;
    } else if (cycle->n_accepted != cycle->limit) {
        wish -= s->step;
    }
    next.threshold = s->smoothing * next.threshold + (1 - s->smoothing) * wish;
    next.n_cycles++;
    *(struct control *)sequence_state = next;
}

const struct cop_length_ops cop_length_entropy = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_LENGTH,
             .name = "entropy",
             .help =
                 "drafts on while 1 - sqrt(scale * entropy of the last draft row) reaches a "
                 "threshold, which follows the acceptance rate",
             .source = "Agrawal, Jeon, Lee 2024, arXiv:2410.18351",
             .synonyms = "AdaEDL, entropy-based lower bound",
             .state_size = sizeof(struct entropy),
             .options = options},
    .sequence_state_size = sizeof(struct control),
    .more = more,
    .observe = observe,
};
