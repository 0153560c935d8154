/* The depth of the highest expected speed: progress over time, from what acceptance and costs
 * have been so far (core/trace/pace.h has the equation).
 *
 * Acceptance by depth is a decayed share with a prior: the option's, or the estimate of the
 * level above where that is better, so that a draft that goes well is tried deeper. Costs are
 * given (`costs`, `draft`, `host`: seconds), or measured while it runs (learnt_costs.h).
 *
 * Where no depth beats plain decoding it drafts nothing, and looks again after `rest` such
 * cycles. With given costs that is one cycle at the depth that would do best, and every
 * decision is a function of the sequence's own earlier outcomes: a seed gives the same tokens
 * always.
 *
 * With measured costs decisions depend on the clock anyway (the tokens of temperature 0 and the
 * law above it stay, the tokens of a seed above it do not), so what was learnt stays with the
 * engine: costs, the acceptance by depth that the next request begins with, and how much better
 * than others the drafts are that the proposer is sure of (kept_shares.h), by which each level
 * decides anew. It then tries again in
 *
 *     a burst of TRIES cycles,    for which catching up with the text is paid once,
 *     of a hopeful depth,         the best one if every level were somewhat better than it is
 *                                 known to be: levels that were seldom reached are seen again,
 *     paid out of a purse:        plain cycles put in the share `explore` of their time, a try
 *                                 takes out what it lost and puts in what it gained.
 *
 * Tries that gain pay for more of them, so that drafts which pay are found whatever the first
 * answers were like; those that lose end with the purse. It holds what CREDIT plain cycles put
 * in at most, and for tries that lose little it may owe as much: a new engine learns early.
 *
 * Where everything is drafted, a cycle in 32 is not, to know what that would take. */
#include "algorithms/length/adaptive_view.h"

#include <math.h>
#include <string.h>

enum { TIMED_NODES = 8, CREDIT = 200, TRIES = 6 };

/* How fast the past of the engine fades, beside the option's decay of a sequence's own. */
static const double shared_decay = 0.997;

static const double optimism = 0.5; /* of a try, in standard deviations of what is known */

/* Estimates that speak for drafts are too high more often than not: what would gain less than
 * this share is not begun, only gone on with. */
static const double least_gain = 0.04;

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
    NUMBER(
        explore, 0, 1, 0, COP_OPTION_ABSENT,
        "share of the time without drafts that trying them again may lose; absent: 0.01 with "
        "measured costs, any with given ones"),
    {.name = "rest",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct adaptive, rest),
     .min = 1,
     .max = 1 << 24,
     .fallback = 16,
     .help = "cycles without a draft before it is tried again, at least"},
    {0}};

/* Nothing is shared with given costs. */
static struct shared *shared_of(const struct adaptive *s, void *state)
{
    return s->costs.count > 0 ? NULL : state;
}

static double share_explored(const struct adaptive *s)
{
    return !isnan(s->explore) ? s->explore : s->costs.count > 0 ? (double)INFINITY : 0.01;
}

/* Seconds that CREDIT plain cycles put into the purse. */
static double credit_of(const struct adaptive *s, double plain)
{
    return CREDIT * plain * share_explored(s);
}

/* Whether there is what n tries of `depth` levels are expected to lose, or as much as can be.
 */
static bool can_pay(const struct adaptive *s, const struct shared *shared,
                    const struct memory *m, const struct cop_pace *pace, int32_t depth,
                    int32_t n)
{
    const struct habit *habit = &m->habits[m->kind];
    double plain = cop_pace_seconds(pace, 0);
    double loss = cop_pace_seconds(pace, depth) - cop_pace_tokens(pace, depth) * plain;
    if (!shared) {
        return habit->n_resting * plain * share_explored(s) >= loss;
    }
    double credit = credit_of(s, plain);
    double whole = n * loss + cop_learnt_costs_wake(&shared->costs, m->kind, habit->n_resting);
    double left = shared->purse + (loss < credit / 8 ? credit : 0);
    return left > 0 && left >= fmin(whole, credit);
}

/* A draft of some nodes and nothing in turn until both have been timed. */
static int32_t levels_to_time(const struct memory *m, int32_t limit)
{
    return m->was_all ? 0 : limit;
}
static bool can_be_timed(const struct cop_tree *tree)
{
    return tree->size > TIMED_NODES;
}

/* No depth pays by what `view` knows: a try, if it is time for one and it can be paid. */
static void plan_try(const struct adaptive *s, struct memory *m, const struct shared *shared,
                     int32_t limit, const struct view *view)
{
    struct habit *habit = &m->habits[m->kind];
    bool goes_on = habit->n_tries > 0;
    if (!goes_on && habit->n_resting < s->rest) {
        return;
    }
    struct view hoped;
    (void)cop_adaptive_look(s, m, shared, limit, shared ? optimism : 0, &hoped);
    int32_t depth = cop_pace_best(&hoped.pace, 1, limit);
    int32_t n = goes_on ? 1 : TRIES;
    m->is_try = can_pay(s, shared, m, &view->pace, depth, n);
    m->plan = m->is_try ? depth : 0;
    habit->n_tries = !m->is_try || !shared ? 0 : goes_on ? habit->n_tries - 1 : TRIES - 1;
}

/* The best depth, 0 where none is worth it. */
static int32_t best_depth(const struct cop_pace *pace, int32_t limit, double gain)
{
    int32_t depth = cop_pace_best(pace, 0, limit);
    double rate = cop_pace_tokens(pace, depth) / cop_pace_seconds(pace, depth);
    return rate * cop_pace_seconds(pace, 0) < 1 + gain ? 0 : depth;
}

static void make_plan(const struct adaptive *s, struct memory *m, const struct shared *shared,
                      int32_t limit)
{
    struct view view;
    struct habit *habit = &m->habits[m->kind];
    m->is_try = m->is_timing = false;
    if (m->is_timed && habit->is_resting && habit->n_resting < s->rest && m->n_classes == 0) {
        m->plan = 0; /* nothing has been seen since the last one */
        return;
    }
    m->is_timed = cop_adaptive_look(s, m, shared, limit, 0, &view);
    m->is_timing = !m->is_timed;
    if (m->is_timing) {
        m->plan = levels_to_time(m, limit);
        m->was_all = m->plan > 0;
        return;
    }
    m->plan = best_depth(&view.pace, limit, shared && habit->is_resting ? least_gain : 0);
    if (m->plan > 0) {
        habit->n_tries = 0;
    } else if (limit > 0) {
        plan_try(s, m, shared, limit, &view);
    }
    habit->is_resting = m->plan == 0;
    if (shared && m->kind == MADE && cop_learnt_costs_want_plain(&shared->costs)) {
        m->plan = 0;
        m->is_try = false;
    }
}

/* Points that are offered for a level: builders take all of them, or always as many. */
static void note_offer(struct memory *m, const struct cop_length_in *in)
{
    int32_t *n = &m->offered[cop_kept_index(in->level)];
    *n = 0;
    for (int32_t i = 0; in->offered && i < in->n_frontier * in->n_drafters; i++) {
        *n += in->offered[i].kind == COP_ROW_POINTS ? in->offered[i].count : 0;
    }
}

/* Of the level that is offered, or of the one above. */
static void note_class(struct memory *m, const struct shared *shared,
                       const struct cop_length_in *in)
{
    int32_t level = in->offered ? in->level : in->level - 1;
    if (level == m->n_classes + 1 && level <= LEVELS) {
        double width = shared->widths[level - 1];
        m->classes[m->n_classes++] = (uint8_t)cop_kept_class(in, width, &m->reach);
    }
}

/* What is drafted so far, and what is offered, says more than the plan knew. */
static bool goes_deeper(const struct adaptive *s, const struct memory *m,
                        const struct shared *shared, const struct cop_length_in *in)
{
    struct view view;
    if (m->is_timing && can_be_timed(in->tree)) {
        return false;
    }
    if (m->is_timing ||
        !cop_adaptive_look(s, m, shared, in->limit, m->is_try ? optimism : 0, &view)) {
        return in->level <= m->plan;
    }
    return cop_pace_best(&view.pace, in->level - 1, in->limit) >= in->level;
}

static bool more(const void *state, const struct cop_length_in *in)
{
    const struct adaptive *s = state;
    struct memory *m = in->sequence_state;
    const struct shared *shared = shared_of(s, in->shared_state);
    if (in->level == 1) {
        m->kind = in->offered ? OFFERED : MADE;
        m->n_classes = 0;
        memset(m->offered, 0, sizeof m->offered);
        m->reach = 1;
    }
    if (shared) {
        note_offer(m, in);
        note_class(m, shared, in);
    }
    if (in->level == 1) {
        make_plan(s, m, shared, in->limit);
    }
    m->size[cop_kept_index(in->level)] = in->tree->size;
    return in->level > 1 && shared ? goes_deeper(s, m, shared, in) : in->level <= m->plan;
}

/* A decayed mean; of nothing yet, the value itself. */
static void follow(double *mean, double decay, double value)
{
    *mean = *mean > 0 ? decay * *mean + (1 - decay) * value : value;
}

/* Scouts come with the first level, whatever the tree. */
static void learn_widths(const struct adaptive *s, const struct memory *m, double *widths,
                         const struct cop_length_cycle *cycle)
{
    int32_t drafted = cycle->nodes - cycle->n_scouts;
    for (int32_t level = 1; level <= cycle->depth && level <= LEVELS; level++) {
        int32_t after = level < cycle->depth && level < LEVELS ? m->size[level] : drafted;
        double added = fmax(after - m->size[level - 1], 1) + (level == 1 ? cycle->n_scouts : 0);
        follow(&widths[level - 1], s->decay, added);
    }
    if (cycle->depth == 0 && cycle->n_scouts > 0) {
        widths[0] = fmax(widths[0], cycle->n_scouts);
    }
}

/* Levels that a cycle has paid for, up to the first that was not kept. Scouts without a draft
 * are a level that held nothing. */
static int32_t levels_paid(const struct cop_length_cycle *cycle)
{
    return cycle->depth == 0 && cycle->n_scouts > 0 ? 1 : cycle->depth;
}

/* Of what such cycles usually take: a machine's slow moments are no draft's fault. */
static void settle(const struct adaptive *s, const struct memory *m, struct shared *shared,
                   const struct cop_length_cycle *cycle)
{
    double plain = cop_learnt_costs_plain(&shared->costs);
    if (m->is_try) {
        shared->purse += (cycle->n_accepted + 1) * plain -
                         cop_learnt_costs_usual(&shared->costs, cycle, m->kind,
                                                m->habits[m->kind].n_resting);
    } else if (m->plan == 0) {
        shared->purse += share_explored(s) * plain;
    }
    shared->purse = fmin(shared->purse, credit_of(s, plain));
}

static void learn_offers(const struct adaptive *s, const struct memory *m,
                         struct shared *shared, const struct cop_length_cycle *cycle)
{
    for (int32_t d = 0; d < cycle->depth && d < LEVELS; d++) {
        if (m->offered[d] > 0) {
            follow(&shared->offered[d], s->decay, m->offered[d]);
        }
    }
}

static void learn_shared(const struct adaptive *s, const struct memory *m,
                         struct shared *shared, const struct cop_length_cycle *cycle)
{
    learn_offers(s, m, shared, cycle);
    cop_kept_learn(&shared->kept[m->kind], shared_decay, levels_paid(cycle), cycle->n_accepted,
                   m->classes, m->n_classes);
    cop_learnt_costs_take(&shared->costs, cycle, m->kind, m->habits[m->kind].n_resting);
    settle(s, m, shared, cycle);
}

static void count_rests(struct memory *m)
{
    for (enum kind kind = MADE; kind < KINDS; kind++) {
        int32_t *n = &m->habits[kind].n_resting;
        *n = m->plan > 0 && m->kind == kind ? 0 : *n + (*n < INT32_MAX);
    }
}

static void observe(const void *state, void *sequence_state,
                    const struct cop_length_cycle *cycle)
{
    const struct adaptive *s = state;
    struct memory *m = sequence_state;
    struct shared *shared = shared_of(s, cycle->shared_state);
    for (int32_t d = 0; d < LEVELS && d < levels_paid(cycle) && d <= cycle->n_accepted; d++) {
        cop_kept_count(&m->habits[m->kind].kept[d], s->decay, cycle->n_accepted > d);
    }
    learn_widths(s, m, shared ? shared->widths : m->widths, cycle);
    if (shared) {
        learn_shared(s, m, shared, cycle);
    }
    count_rests(m);
    m->plan = m->n_classes = 0; /* a cycle to which nothing is offered asks for no plan */
    m->kind = MADE;
    m->is_try = m->is_timing = false;
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
    .shared_state_size = sizeof(struct shared),
};
