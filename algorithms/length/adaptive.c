/* The depth of the highest expected speed: progress over time, from what acceptance and costs
 * have been so far (core/trace/pace.h has the equation).
 *
 * Acceptance by depth is a decayed share with a prior: the option's, or the estimate of the
 * level above where that is better, so that a draft that goes well is tried deeper. Costs are
 * given (`costs`, `draft`, `host`: seconds), or measured while it runs: seconds of a pass as a
 * line through decayed sums, and decayed means of the draft's time by level and of the rest.
 * Until passes of two sizes have been timed it drafts everything and nothing in turn.
 *
 * Where no depth beats plain decoding it drafts nothing, and looks again after `rest` such
 * cycles: one cycle at the depth that would do best.
 *
 * With given costs every decision is a function of earlier outcomes: a seed gives the same
 * tokens always. With measured costs, decisions depend on the clock: the tokens of temperature
 * 0 and the law above it stay, the tokens of a seed above it do not. */
#include "core/cycle/contract/length.h"
#include "core/trace/pace.h"

#include <math.h>

enum { LEVELS = 64 }; /* what is deeper is taken as level 64 */

struct adaptive {
    struct cop_number_list costs;
    double draft, host;               /* NaN: not given */
    double acceptance, weight, decay; /* the prior and how fast the past fades */
    int32_t rest;
};

/* Decayed sums for seconds as a line in tokens, and what the draft and the rest took. */
struct times {
    double weight, tokens, squares, seconds, products;
    double draft, levels, host;
};

/* Per sequence; all zero at its start. */
struct memory {
    double passed[LEVELS], tested[LEVELS];
    double widths[LEVELS];   /* nodes by level, as last drafted; 0: not yet */
    int32_t size[LEVELS];    /* of the tree when this cycle asked for the level */
    int32_t plan, n_resting; /* levels of this cycle; cycles in a row without a draft */
    int32_t last_nodes;      /* tokens of the pass before; 0: none */
    int32_t spare;
    struct times times;
};

#define NUMBER(field, low, high, usual, more_flags, text)                                      \
    {                                                                                          \
        .name = #field, .type = COP_OPTION_NUMBER, .offset = offsetof(struct adaptive, field), \
        .min = (low), .max = (high), .fallback = (usual), .flags = (more_flags),               \
        .help = (text)                                                                         \
    }

static const struct cop_option options[] = {
    {.name = "costs",
     .type = COP_OPTION_NUMBERS,
     .offset = offsetof(struct adaptive, costs),
     .min = 1e-12,
     .max = 1e6,
     .flags = COP_OPTION_ABSENT,
     .help = "seconds of a forward pass of 1, 2, … tokens, root included (cop.tune gives it); "
             "absent: measured while it runs"},
    NUMBER(draft, 0, 1e6, 0, COP_OPTION_ABSENT,
           "seconds of one drafted level; absent: measured, or 0 with costs"),
    NUMBER(host, 0, 1e6, 0, COP_OPTION_ABSENT,
           "seconds of the rest of a cycle; absent: measured, or 0 with costs"),
    NUMBER(acceptance, 0, 1, 0.7, 0, "of a level, before anything is known"),
    NUMBER(weight, 0, 1e6, 4, 0, "how many cycles that prior counts for"),
    NUMBER(decay, 0, 1, 0.95, 0, "weight of the past, cycle by cycle"),
    {.name = "rest",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct adaptive, rest),
     .min = 1,
     .max = 1 << 24,
     .fallback = 16,
     .help = "cycles without a draft before it is tried again"},
    {0}};

/* ---- What is known ---------------------------------------------------------------------- */

static int32_t index_of(int32_t level)
{
    return level <= LEVELS ? level - 1 : LEVELS - 1;
}

/* Seconds of passes of one and of two tokens by the fitted line; false before two sizes of pass
 * have been timed. */
static bool line_of(const struct times *t, double *score)
{
    double spread = t->squares * t->weight - t->tokens * t->tokens;
    if (!(spread > 1e-9 * t->squares * t->weight)) {
        return false;
    }
    double slope = (t->products * t->weight - t->tokens * t->seconds) / spread;
    slope = slope > 0 ? slope : 0;
    double start = (t->seconds - slope * t->tokens) / t->weight;
    score[0] = fmax(start, 0) + slope;
    score[1] = score[0] + slope;
    return score[0] > 0;
}

struct view {
    double acceptance[LEVELS], widths[LEVELS], score[2];
    struct cop_pace pace;
};

/* false: times are not known yet. */
static bool look(const struct adaptive *s, const struct memory *m, struct view *view)
{
    double width = 1, prior = s->acceptance;
    for (int32_t d = 0; d < LEVELS; d++) {
        double tested = m->tested[d] + s->weight;
        view->acceptance[d] = tested > 0 ? (m->passed[d] + s->weight * prior) / tested : prior;
        prior = fmax(s->acceptance, view->acceptance[d]);
        width = m->widths[d] > 0 ? m->widths[d] : width;
        view->widths[d] = width;
    }
    view->pace = (struct cop_pace){.acceptance = view->acceptance,
                                   .n_acceptance = LEVELS,
                                   .widths = view->widths,
                                   .n_widths = LEVELS,
                                   .score = s->costs.items,
                                   .n_score = s->costs.count,
                                   .draft = isnan(s->draft) ? 0 : s->draft,
                                   .host = isnan(s->host) ? 0 : s->host};
    if (s->costs.count > 0) {
        return true;
    }
    const struct times *t = &m->times;
    view->pace.score = view->score;
    view->pace.n_score = 2;
    if (isnan(s->draft) && t->levels > 0) {
        view->pace.draft = t->draft / t->levels;
    }
    if (isnan(s->host) && t->weight > 0) {
        view->pace.host = t->host / t->weight;
    }
    return line_of(t, view->score);
}

static int32_t levels_to_draft(const struct adaptive *s, const struct memory *m, int32_t limit)
{
    struct view view;
    if (!look(s, m, &view)) {
        return m->last_nodes > 1 ? 0 : limit;
    }
    int32_t best = cop_pace_best(&view.pace, 0, limit);
    return best > 0 || m->n_resting < s->rest || limit < 1
               ? best
               : cop_pace_best(&view.pace, 1, limit);
}

/* ---- The policy ------------------------------------------------------------------------- */

static bool more(const void *state, const struct cop_length_in *in)
{
    const struct adaptive *s = state;
    struct memory *m = in->sequence_state;
    if (in->level == 1) {
        m->plan = levels_to_draft(s, m, in->limit);
    }
    m->size[index_of(in->level)] = in->tree->size;
    return in->level <= m->plan;
}

static void learn_acceptance(const struct adaptive *s, struct memory *m,
                             const struct cop_length_cycle *cycle)
{
    for (int32_t d = 0; d < LEVELS && d < cycle->depth && d <= cycle->n_accepted; d++) {
        m->tested[d] = s->decay * m->tested[d] + 1;
        m->passed[d] = s->decay * m->passed[d] + (cycle->n_accepted > d);
    }
    for (int32_t level = 1; level <= cycle->depth && level <= LEVELS; level++) {
        int32_t after = level < cycle->depth && level < LEVELS ? m->size[level] : cycle->nodes;
        int32_t added = after - m->size[level - 1];
        m->widths[level - 1] = added > 0 ? added : 1;
    }
}

static void learn_times(const struct adaptive *s, struct times *t,
                        const struct cop_length_cycle *cycle)
{
    double tokens = cycle->nodes, seconds = cycle->score_seconds;
    t->weight = s->decay * t->weight + 1;
    t->tokens = s->decay * t->tokens + tokens;
    t->squares = s->decay * t->squares + tokens * tokens;
    t->seconds = s->decay * t->seconds + seconds;
    t->products = s->decay * t->products + tokens * seconds;
    t->host = s->decay * t->host + cycle->host_seconds;
    if (cycle->depth > 0) {
        t->draft = s->decay * t->draft + cycle->draft_seconds;
        t->levels = s->decay * t->levels + cycle->depth;
    }
}

static void observe(const void *state, void *sequence_state,
                    const struct cop_length_cycle *cycle)
{
    const struct adaptive *s = state;
    struct memory *m = sequence_state;
    learn_acceptance(s, m, cycle);
    m->last_nodes = cycle->nodes;
    m->n_resting = m->plan > 0 ? 0 : m->n_resting + (m->n_resting < s->rest);
    if (s->costs.count == 0 && !isnan(cycle->score_seconds)) {
        learn_times(s, &m->times, cycle);
    }
}

const struct cop_length_ops cop_length_adaptive = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_LENGTH,
             .name = "adaptive",
             .help =
                 "the depth of the highest expected tokens per second, by measured acceptance "
                 "and by given or measured costs; nothing where no draft pays. Measured "
                 "costs make the tokens of a seed depend on the clock above temperature 0",
             .source = "Coppice; the marginal rule of Liu et al. 2024, arXiv:2406.14066",
             .synonyms = "SmartSpec, goodput, dynamic speculation length",
             .state_size = sizeof(struct adaptive),
             .options = options},
    .sequence_state_size = sizeof(struct memory),
    .more = more,
    .observe = observe,
};
