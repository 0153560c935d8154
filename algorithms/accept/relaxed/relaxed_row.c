/* Readings of a row for relaxed rules: as it stands, or at temperature 1 before truncation. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>

const struct cop_claim cop_claims_nothing[] = {{.draw = COP_DRAW_AUTO}};
const struct cop_claim cop_defined_sampled_chain[] = {
    {COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false}, {.draw = COP_DRAW_AUTO}};
const struct cop_claim cop_defined_sampled_tree[] = {
    {COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
    {COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_TREE, false},
    {COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
    {.draw = COP_DRAW_AUTO}};
const struct cop_claim cop_defined_model_chain[] = {
    {COP_DRAW_DETERMINISTIC, COP_SHAPE_CHAIN, false},
    {COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
    {.draw = COP_DRAW_AUTO}};
const struct cop_claim cop_defined_any_chain[] = {
    {COP_DRAW_DETERMINISTIC, COP_SHAPE_CHAIN, false},
    {COP_DRAW_COUNT, COP_SHAPE_CHAIN, false},
    {.draw = COP_DRAW_AUTO}};
const struct cop_claim cop_defined_any_tree[] = {
    {COP_DRAW_DETERMINISTIC, COP_SHAPE_TREE, false},
    {COP_DRAW_COUNT, COP_SHAPE_TREE, false},
    {.draw = COP_DRAW_AUTO}};

/* ---- Making
 * ---------------------------------------------------------------------------------- */

struct cop_reading cop_read_as_is(const struct cop_row *row)
{
    return (struct cop_reading){.row = *row};
}

struct cop_reading cop_read_plain(const struct cop_row *row)
{
    struct cop_reading reading = {.row = *row};
    bool is_shaped =
        row->kind == COP_ROW_ONE_HOT ||
        (row->kind == COP_ROW_LOGITS &&
         (row->mask || row->inverse_temperature < 1 || row->inverse_temperature > 1));
    if (!is_shaped) {
        return reading;
    }
    if (row->logits) {
        reading.is_plain = true;
        reading.log_sum = cop_row_logsumexp(row);
    } else if (row->dense) { /* a literal row at temperature 0 */
        reading.row.kind = COP_ROW_DENSE;
    }
    return reading;
}

/* ---- One token
 * ------------------------------------------------------------------------------- */

double cop_reading_probability(const struct cop_reading *reading, cop_token token)
{
    const struct cop_row *row = &reading->row;
    if (!reading->is_plain) {
        return cop_row_probability(row, token);
    }
    return token < 0 || token >= row->vocab
               ? 0.0
               : cop_exp((double)row->logits[token] - reading->log_sum);
}

double cop_reading_log(const struct cop_reading *reading, cop_token token)
{
    const struct cop_row *row = &reading->row;
    if (reading->is_plain && token >= 0 && token < row->vocab) {
        return (double)row->logits[token] - reading->log_sum;
    }
    double probability = cop_reading_probability(reading, token);
    return probability > 0 ? cop_log(probability) : -HUGE_VAL;
}

double cop_reading_logit(const struct cop_reading *reading, cop_token token)
{
    const struct cop_row *row = &reading->row;
    bool is_known = row->logits && token >= 0 && token < row->vocab;
    return is_known ? (double)row->logits[token] : cop_reading_log(reading, token);
}

cop_token cop_row_best(const struct cop_row *row)
{
    cop_token best = -1;
    return cop_row_top(row, 1, &best) < 1 ? -1 : best;
}

cop_token cop_reading_best(const struct cop_reading *reading)
{
    return reading->is_plain ? reading->row.best : cop_row_best(&reading->row);
}

/* ---- Passes
 * ---------------------------------------------------------------------------------- */

void cop_reading_fill(const struct cop_reading *reading, int32_t first, int32_t count,
                      double *out)
{
    if (reading->is_plain) {
        cop_exp_block(reading->row.logits + first, count, reading->log_sum, 1.0, out);
    } else {
        cop_row_fill(&reading->row, first, count, out);
    }
}

static int32_t block_count(int32_t vocab, int32_t first)
{
    return vocab - first < COP_SUM_BLOCK ? vocab - first : COP_SUM_BLOCK;
}

/* Whether the logits are in the order of the law. */
static bool has_order(const struct cop_reading *reading)
{
    return reading->is_plain || (reading->row.kind == COP_ROW_LOGITS && !reading->row.mask);
}

int32_t cop_reading_rank(const struct cop_reading *reading, cop_token token)
{
    const struct cop_row *row = &reading->row;
    if (has_order(reading) && token >= 0 && token < row->vocab) {
        float own = row->logits[token], below = nextafterf(own, -HUGE_VALF);
        return cop_count_above(row->logits, token, below) +
               cop_count_above(row->logits + token, row->vocab - token, own);
    }
    double own = cop_reading_probability(reading, token), values[COP_SUM_BLOCK];
    int32_t rank = 0;
    for (int32_t first = 0; first < row->vocab; first += COP_SUM_BLOCK) {
        int32_t count = block_count(row->vocab, first);
        cop_reading_fill(reading, first, count, values);
        for (int32_t i = 0; i < count; i++) {
            rank += first + i < token ? values[i] >= own : values[i] > own;
        }
    }
    return rank;
}

int32_t cop_reading_top(const struct cop_reading *reading, int32_t k, cop_token *ids)
{
    const struct cop_row *row = &reading->row;
    if (!reading->is_plain) {
        return cop_row_top(row, k, ids);
    }
    int32_t n = 0;
    for (int32_t i = 0; i < row->vocab; i++) { /* insertion; k is small */
        if (n == k && !(row->logits[i] > row->logits[ids[n - 1]])) {
            continue;
        }
        int32_t at = n < k ? n++ : n - 1;
        for (; at > 0 && row->logits[i] > row->logits[ids[at - 1]]; at--) {
            ids[at] = ids[at - 1];
        }
        ids[at] = i;
    }
    while (n > 0 && isinf(row->logits[ids[n - 1]])) {
        n--;
    }
    return n;
}

/* A row of a model as it stands: exponentials and logits, f32 both. */
static bool is_kept(const struct cop_reading *reading)
{
    return !reading->is_plain && reading->row.kind == COP_ROW_LOGITS && reading->row.logits;
}

/* Sum of law ln other over one block, where ln other = (z - z_best) / T - ln N: no logarithm
 * per token. Both rows are kept. */
static double block_energy(const struct cop_row *law, const struct cop_row *other,
                           int32_t first, int32_t count)
{
    return cop_energy_block(law->exponentials + first, other->logits + first, other->max_logit,
                            count) *
               (law->inverse_normaliser * other->inverse_temperature) -
           law->block_sums[first / COP_SUM_BLOCK] * law->inverse_normaliser *
               cop_log(other->normaliser);
}

/* The entropy of plain logits. */
static double plain_entropy(const struct cop_reading *reading)
{
    const struct cop_row *row = &reading->row;
    double values[COP_SUM_BLOCK], entropy = 0;
    for (int32_t first = 0; first < row->vocab; first += COP_SUM_BLOCK) {
        int32_t count = block_count(row->vocab, first);
        cop_reading_fill(reading, first, count, values);
        for (int32_t i = 0; i < count; i++) {
            double log = (double)row->logits[first + i] - reading->log_sum;
            entropy -= values[i] > 0 ? values[i] * log : 0;
        }
    }
    return entropy;
}

static double block_entropy(const struct cop_reading *reading, double guard, bool is_near,
                            int32_t first, int32_t count)
{
    const struct cop_row *row = &reading->row;
    if (is_kept(reading) && is_near) {
        const float *at = row->exponentials + first;
        return -cop_mixture_near(at, row->inverse_normaliser, at, 0, guard, count);
    }
    if (is_kept(reading)) {
        return guard > 0 ? -cop_surprise_block(row->exponentials + first,
                                               row->inverse_normaliser, guard, count)
                         : -block_energy(row, row, first, count);
    }
    double values[COP_SUM_BLOCK], entropy = 0;
    cop_reading_fill(reading, first, count, values);
    for (int32_t i = 0; i < count; i++) {
        entropy -= values[i] > 0 ? values[i] * cop_log(values[i] + guard) : 0;
    }
    return entropy;
}

static double sum_entropy(const struct cop_reading *reading, double guard, bool is_near)
{
    double entropy = 0;
    for (int32_t first = 0; first < reading->row.vocab; first += COP_SUM_BLOCK) {
        entropy += block_entropy(reading, guard, is_near, first,
                                 block_count(reading->row.vocab, first));
    }
    return entropy;
}

double cop_reading_entropy(const struct cop_reading *reading, double guard)
{
    return reading->is_plain && !(guard > 0) ? plain_entropy(reading)
                                             : sum_entropy(reading, guard, false);
}

double cop_reading_entropy_near(const struct cop_reading *reading, double guard)
{
    return sum_entropy(reading, guard, true);
}

/* ---- Two rows
 * --------------------------------------------------------------------------------- */

/* a ln(a / b); infinite where b lacks the token. */
static double term(double a, double b)
{
    return a > 0 ? (b > 0 ? a * cop_log(a / b) : HUGE_VAL) : 0;
}

static double divergence_term(enum cop_divergence kind, double target, double draft)
{
    double middle = (target + draft) / 2;
    switch (kind) {
    case COP_JS: return (term(target, middle) + term(draft, middle)) / 2;
    case COP_KL_DRAFT: return term(draft, target);
    case COP_TV: return fabs(target - draft) / 2;
    case COP_KL_TARGET: return term(target, draft);
    }
    return 0;
}

/* KL(law || other) over one block of kept rows. Tokens that `other` lacks, also by rounding to
 * 0, make it infinite. */
static double kept_kl(const struct cop_row *law, const struct cop_row *other, int32_t first,
                      int32_t count)
{
    const struct cop_gate lacking = {.scale = 1, .bar = 0x1p-160, .shut_target = 1};
    const float *at = law->exponentials + first, *beside = other->exponentials + first;
    return cop_gated_block(&lacking, at, beside, beside, count, NULL) > 0
               ? HUGE_VAL
               : block_energy(law, law, first, count) - block_energy(law, other, first, count);
}

/* The same terms as below, of rows that are kept: sums of whole blocks. */
static double kept_divergence(enum cop_divergence kind, const struct cop_row *target,
                              const struct cop_row *draft, bool is_near, int32_t first,
                              int32_t count)
{
    const float *t = target->exponentials + first, *d = draft->exponentials + first;
    double t_scale = target->inverse_normaliser, d_scale = draft->inverse_normaliser;
    switch (kind) {
    case COP_JS: /* half the sum of t ln t and d ln d, less that of their mixture */
        return (block_energy(target, target, first, count) +
                block_energy(draft, draft, first, count)) /
                   2 -
               (is_near ? cop_mixture_near(t, t_scale / 2, d, d_scale / 2, 0, count)
                        : cop_mixture_block(t, t_scale / 2, d, d_scale / 2, count));
    case COP_KL_DRAFT: return kept_kl(draft, target, first, count);
    case COP_TV:
        return (cop_residual_block(t, t_scale, d, d_scale, count, NULL) +
                cop_residual_block(d, d_scale, t, t_scale, count, NULL)) /
               2;
    case COP_KL_TARGET: return kept_kl(target, draft, first, count);
    }
    return 0;
}

static double sum_divergence(enum cop_divergence kind, const struct cop_reading *target,
                             const struct cop_reading *draft, bool is_near)
{
    double left[COP_SUM_BLOCK], right[COP_SUM_BLOCK], sum = 0;
    bool are_kept = is_kept(target) && is_kept(draft);
    for (int32_t first = 0; first < target->row.vocab; first += COP_SUM_BLOCK) {
        int32_t count = block_count(target->row.vocab, first);
        if (are_kept) {
            sum += kept_divergence(kind, &target->row, &draft->row, is_near, first, count);
            continue;
        }
        cop_reading_fill(target, first, count, left);
        cop_reading_fill(draft, first, count, right);
        for (int32_t i = 0; i < count; i++) {
            sum += divergence_term(kind, left[i], right[i]);
        }
    }
    return sum > 0 ? sum : 0;
}

double cop_divergence(enum cop_divergence kind, const struct cop_reading *target,
                      const struct cop_reading *draft)
{
    return sum_divergence(kind, target, draft, false);
}

double cop_divergence_near(enum cop_divergence kind, const struct cop_reading *target,
                           const struct cop_reading *draft)
{
    return sum_divergence(kind, target, draft, true);
}

bool cop_is_same_law(const struct cop_row *a, const struct cop_row *b)
{
    return a == b ||
           (a && b && a->kind == b->kind && a->dense == b->dense && a->ids == b->ids &&
            a->logits == b->logits && a->exponentials == b->exponentials);
}

/* ---- Picks
 * ----------------------------------------------------------------------------------- */

int32_t cop_next_child(const struct cop_tree *tree, int32_t node, int32_t elder)
{
    for (int32_t i = elder + 1; i < tree->size; i++) {
        if (tree->parent[i] == node && !(tree->flags[i] & COP_NODE_SCOUT)) {
            return i;
        }
    }
    return -1;
}

static void fill_without(const void *context, int32_t first, int32_t count, double *out)
{
    const struct cop_without *w = context;
    cop_row_fill(w->row, first, count, out);
    for (int32_t child = w->node; (child = cop_next_child(w->tree, w->node, child)) > 0;) {
        int32_t at = w->tree->token[child] - first;
        if (at >= 0 && at < count) {
            out[at] = 0;
        }
    }
}

/* The sums of a model's row are there already; those of blocks that lost a token are not. */
static void copy_sums(const struct cop_without *w, double *sums)
{
    const struct cop_row *row = w->row;
    double values[COP_SUM_BLOCK];
    for (int32_t b = 0; b * COP_SUM_BLOCK < row->vocab; b++) {
        sums[b] = row->block_sums[b] * row->inverse_normaliser;
    }
    for (int32_t child = w->node; (child = cop_next_child(w->tree, w->node, child)) > 0;) {
        int32_t b = w->tree->token[child] / COP_SUM_BLOCK;
        int32_t count = block_count(row->vocab, b * COP_SUM_BLOCK);
        fill_without(w, b * COP_SUM_BLOCK, count, values);
        sums[b] = cop_sum_block(values, count);
    }
}

cop_token cop_pick_without(const struct cop_draws *draws, uint32_t purpose,
                           const struct cop_without *without)
{
    double sums[COP_WEIGHT_BLOCKS];
    struct cop_weights weights = {
        .vocab = without->row->vocab, .fill = fill_without, .context = without};
    if (without->row->kind == COP_ROW_LOGITS &&
        weights.vocab <= COP_WEIGHT_BLOCKS * COP_SUM_BLOCK) {
        copy_sums(without, sums);
        weights.block_sums = sums;
    }
    /* Nothing is left where only rounding refused the last child. */
    return cop_pick_else(draws, purpose, without->tree->key[without->node], &weights,
                         without->row);
}

void cop_end_with_target(const struct cop_verify_in *in, int32_t node, bool is_best,
                         struct cop_verdict *out)
{
    const struct cop_row *target = cop_rows_at(&in->target, node);
    struct cop_weights weights = cop_row_weights(target);
    const char *purpose = out->origin == COP_ORIGIN_BONUS ? "bonus" : "recover";
    out->last = is_best
                    ? cop_row_best(target)
                    : cop_pick(in->draws, cop_purpose(purpose), in->tree->key[node], &weights);
}
