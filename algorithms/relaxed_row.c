/* Readings of a row for relaxed rules: as it stands, or at temperature 1 before truncation. */
#include "algorithms/relaxed.h"
#include "kernels/ops.h"

#include <math.h>

const struct cop_claim cop_claims_nothing[] = {{.draw = COP_DRAW_AUTO}};
const struct cop_claim cop_defined_sampled_chain[] = {
    {COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false}, {.draw = COP_DRAW_AUTO}};
const struct cop_claim cop_defined_sampled_tree[] = {
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

static int32_t rank_of_logit(const float *logits, int32_t vocab, cop_token token)
{
    int32_t rank = 0;
    for (int32_t i = 0; i < vocab; i++) {
        rank += i < token ? logits[i] >= logits[token] : logits[i] > logits[token];
    }
    return rank;
}

int32_t cop_reading_rank(const struct cop_reading *reading, cop_token token)
{
    const struct cop_row *row = &reading->row;
    if (reading->is_plain && token >= 0 && token < row->vocab) {
        return rank_of_logit(row->logits, row->vocab, token);
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

double cop_reading_entropy(const struct cop_reading *reading, double guard)
{
    const struct cop_row *row = &reading->row;
    double values[COP_SUM_BLOCK], entropy = 0;
    for (int32_t first = 0; first < row->vocab; first += COP_SUM_BLOCK) {
        int32_t count = block_count(row->vocab, first);
        cop_reading_fill(reading, first, count, values);
        for (int32_t i = 0; i < count; i++) {
            entropy -= values[i] > 0 ? values[i] * cop_log(values[i] + guard) : 0;
        }
    }
    return entropy;
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

double cop_divergence(enum cop_divergence kind, const struct cop_reading *target,
                      const struct cop_reading *draft)
{
    double left[COP_SUM_BLOCK], right[COP_SUM_BLOCK], sum = 0;
    for (int32_t first = 0; first < target->row.vocab; first += COP_SUM_BLOCK) {
        int32_t count = block_count(target->row.vocab, first);
        cop_reading_fill(target, first, count, left);
        cop_reading_fill(draft, first, count, right);
        for (int32_t i = 0; i < count; i++) {
            sum += divergence_term(kind, left[i], right[i]);
        }
    }
    return sum > 0 ? sum : 0;
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

cop_token cop_pick_without(const struct cop_draws *draws, uint32_t purpose,
                           const struct cop_without *without)
{
    struct cop_weights weights = {
        .vocab = without->row->vocab, .fill = fill_without, .context = without};
    if (!(cop_weights_sum(&weights) > 0)) { /* only rounding refused the last child */
        weights = cop_row_weights(without->row);
    }
    return cop_pick(draws, purpose, without->tree->key[without->node], &weights);
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
