/* Greedy block verification: prefixes accepted by their joint probabilities, uncapped, at the
 * price of a debt that later cycles pay.
 *
 * Over a chain x_1..x_n with R_i = target(x_1..x_i) / draft(x_1..x_i), not cut at 1:
 *
 *     h_n = min(1, R_n);   h_i = above / max(above, below),
 *         above = sum (R_i target - draft)+,  below = sum (draft - R_i target)+,  h_0 = 1
 *
 * The longest prefix whose coin succeeds is kept; it is kept as often as any rule can, sum over
 * i and x_1..x_i of min(target, draft). Token i + 1 ~ (R_i target - draft)+, and so are the
 * tokens up to position n, each with the R of the output so far. Only the first of them comes
 * in this cycle. For the other n - i - 1 the target of the following cycles is
 *
 *     target'(x | prefix) = norm((target - odds draft)+),
 *         odds = draft(prefix) / target(prefix)
 *
 * with prefixes counted from this cycle's root: a debt of that many steps. A cycle under debt
 * verifies against target' where the debt still runs, and may leave a debt of its own, whose
 * "target" is then target' of the older ones: debts nest, the oldest inside, and all of them
 * together are one surplus (target - scale draft)+. odds < 1 throughout: what target' gives is
 * above the draft.
 *
 * All this holds for a number n that is the same in every cycle: what is owed past a rejection
 * runs to position n also where other drafted tokens would have ended the draft sooner. And
 * target' after a node needs the draft's row there, which a tree records only for nodes that
 * have a child: a cycle must draft past every debt. So a cycle that drafts fewer or more tokens
 * than those before is refused; the engine drafts on behind the last token of an answer for
 * this. And the row after a prefix must be the one that the cycle of the debt would have drawn
 * from, had its draft come there: proposers say whether theirs are (rows_by_prefix).
 * Debts of odds 0 are none: point masses, whose lengths may differ as they like, have no
 * others. Nor has temperature 0. */
#include "algorithms/accept/block.h"
#include "algorithms/accept/levels.h"

#include <math.h>
#include <string.h>

enum { LIMIT = 64 }; /* drafted tokens that are looked at, and so debts at a time */

struct debt {
    double odds;   /* draft(prefix) / target(prefix) since its anchor, below 1 */
    int64_t steps; /* tokens still to come under it; 64 bits, so that equal ledgers are equal
                      bytes */
};
struct ledger {
    int32_t n;
    int32_t length;           /* tokens drafted in every cycle, plus 1; 0: not known yet */
    struct debt debts[LIMIT]; /* oldest first; an older one never runs longer */
};

/* The law after a node under some debts: (target - scale draft)+ / mass. */
struct law {
    const struct cop_row *target, *draft;
    double scale, mass;
};

static double law_at(const struct law *law, cop_token token)
{
    return fmax(0, cop_row_probability(law->target, token) -
                       law->scale * cop_row_probability(law->draft, token)) /
           law->mass;
}

/* (law - odds draft)+ up to its mass, which is (target - (scale + odds mass) draft)+. */
static struct cop_residual under(const struct law *law, double odds)
{
    return (struct cop_residual){.target = law->target,
                                 .draft = law->draft,
                                 .target_scale = 1,
                                 .draft_scale = law->scale + odds * law->mass};
}

/* The law under one more debt; one pass. Nothing left: rounding, and the law stays. */
static struct law with_debt(const struct law *law, double odds)
{
    struct cop_residual rest = under(law, odds);
    struct cop_weights weights = cop_residual_weights(&rest);
    double mass = cop_weights_sum(&weights);
    return mass > 0 ? (struct law){law->target, law->draft, rest.draft_scale, mass} : *law;
}

/* The law `depth` tokens below the root under all debts that still run there, from the plain
 * one; the debts' odds[] move on to the node that `token` leads to. */
static struct law law_under(const struct ledger *ledger, int32_t depth, struct law law,
                            cop_token token, double *odds)
{
    for (int32_t i = 0; i < ledger->n; i++) {
        if (ledger->debts[i].steps > depth) {
            double here = odds[i], p = law_at(&law, token); /* under the older ones */
            double q = cop_row_probability(law.draft, token);
            odds[i] = p > 0 ? here * (q / p) : (double)INFINITY;
            law = with_debt(&law, here);
        }
    }
    return law;
}

/* ---- One cycle
 * --------------------------------------------------------------------------------- */

struct cycle {
    const struct cop_verify_in *in;
    const struct ledger *ledger;
    int32_t *nodes; /* [n] the chain below the root */
    int32_t n;
    int32_t n_possible;            /* of which the target under debt allows */
    struct law laws[LIMIT];        /* after i tokens, i < n */
    double ratios[LIMIT + 1];      /* R_i */
    double odds[LIMIT + 1][LIMIT]; /* of every debt after i tokens */
};

static int32_t node_at(const struct cycle *c, int32_t i)
{
    return i > 0 ? c->nodes[i - 1] : 0;
}

static enum cop_status find_chain(struct cycle *c, struct cop_error *err)
{
    const struct cop_tree *tree = c->in->tree;
    for (int32_t child, node = 0;
         c->n < LIMIT && (child = cop_level_next(tree, node, node)) > 0; node = child) {
        if (!cop_rows_at(&c->in->draft, child)) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.greedy_block needs every draft row");
        }
        c->nodes[c->n++] = child;
    }
    return COP_OK;
}

/* Where the draft is a function of the context, so is its length. */
static bool length_is_free(const struct cycle *c)
{
    return c->n == 0 || cop_rows_at(&c->in->draft, c->nodes[0])->kind == COP_ROW_POINTS;
}

static enum cop_status check_length(const struct cycle *c, struct cop_error *err)
{
    int32_t length = c->ledger->length;
    int64_t owed = c->ledger->n ? c->ledger->debts[c->ledger->n - 1].steps : 0;
    return (length_is_free(c) || length == 0 || length == c->n + 1) && owed <= c->n
               ? COP_OK
               : cop_fail(
                     err, COP_ERR_ARGUMENT,
                     "accept.greedy_block is lossless only where every cycle drafts to the "
                     "same depth; it was %d and is %d now: use a fixed draft "
                     "length, and a draft model with the target's context",
                     (int)length - 1, (int)c->n);
}

/* Laws, ratios and odds along the chain, as far as the target allows it. */
static void weigh(struct cycle *c)
{
    c->ratios[0] = 1;
    for (int32_t e = 0; e < c->ledger->n; e++) {
        c->odds[0][e] = c->ledger->debts[e].odds;
    }
    for (int32_t i = 0; i < c->n; i++) {
        cop_token token = c->in->tree->token[c->nodes[i]];
        struct law law = {.target = cop_rows_at(&c->in->target, node_at(c, i)),
                          .draft = cop_rows_at(&c->in->draft, c->nodes[i]),
                          .mass = 1};
        memcpy(c->odds[i + 1], c->odds[i], sizeof c->odds[i]);
        c->laws[i] = law_under(c->ledger, i, law, token, c->odds[i + 1]);
        double p = law_at(&c->laws[i], token), q = cop_row_probability(law.draft, token);
        if (!(p > 0 && q > 0)) {
            break;
        }
        c->ratios[i + 1] = c->ratios[i] * (p / q);
        c->n_possible = i + 1;
    }
}

/* h_i for i < n. */
static double probability_of(const struct cycle *c, int32_t i)
{
    double ratio = c->ratios[i];
    if (i == 0 || ratio >= 1) {
        return 1;
    }
    if (ratio < 1e-200) {
        return 0; /* and its inverse may overflow */
    }
    struct cop_residual rest = under(&c->laws[i], 1 / ratio);
    struct cop_weights weights = cop_residual_weights(&rest);
    double above = cop_weights_sum(&weights) * ratio / c->laws[i].mass;
    return fmin(1, above / (above + (1 - ratio)));
}

/* Debts after i kept tokens and `last`. */
static void settle(const struct cycle *c, int32_t i, cop_token last, struct ledger *next)
{
    double odds[LIMIT];
    struct law plain = {.target = c->laws[i].target, .draft = c->laws[i].draft, .mass = 1};
    memcpy(odds, c->odds[i], sizeof odds);
    (void)law_under(c->ledger, i, plain, last, odds);
    next->n = 0;
    for (int32_t e = 0; e < c->ledger->n; e++) {
        int64_t steps = c->ledger->debts[e].steps - (i + 1);
        if (steps > 0 && odds[e] > 0 && odds[e] < 1) {
            next->debts[next->n++] = (struct debt){odds[e], steps};
        }
    }
    double own =
        cop_row_probability(plain.draft, last) / law_at(&c->laws[i], last) / c->ratios[i];
    if (c->n > i + 1 && own > 0 && own < 1) {
        next->debts[next->n++] = (struct debt){own, c->n - (i + 1)};
    }
}

/* From the back to the first prefix whose coin succeeds; the root's is certain. */
static void choose(struct cycle *c, struct cop_verdict *out, struct ledger *next)
{
    const struct cop_draws *draws = c->in->draws;
    uint32_t accept = cop_purpose("accept");
    for (int32_t i = c->n_possible; i >= 0; i--) {
        uint32_t key = c->in->tree->key[node_at(c, i)];
        double keep = i < c->n ? probability_of(c, i) : fmin(1, c->ratios[i]);
        if (i > 0 && !cop_flip(draws, accept, key, keep)) {
            continue;
        }
        out->n_accepted = i;
        if (i < c->n) {
            struct cop_residual rest = under(&c->laws[i], 1 / c->ratios[i]);
            out->last = cop_pick_residual(draws, cop_purpose("recover"), key, &rest);
            out->origin = COP_ORIGIN_RECOVERED;
            settle(c, i, out->last, next);
        } else {
            struct cop_weights target =
                cop_row_weights(cop_rows_at(&c->in->target, node_at(c, i)));
            out->last = cop_pick(draws, cop_purpose("bonus"), key, &target);
            out->origin = COP_ORIGIN_BONUS;
            next->n = 0; /* no debt runs past the drafted tokens */
        }
        break;
    }
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    struct ledger none = {0}, next = {0};
    struct ledger *ledger = in->sequence_state ? in->sequence_state : &none;
    if (cop_rows_at(&in->target, 0)->kind == COP_ROW_ONE_HOT) { /* temperature 0 */
        return cop_accept_match.verify(NULL, in, out, err);
    }
    struct cycle cycle = {.in = in, .ledger = ledger, .nodes = out->accepted};
    enum cop_status status = find_chain(&cycle, err);
    status = status == COP_OK ? check_length(&cycle, err) : status;
    if (status == COP_OK) {
        weigh(&cycle);
        choose(&cycle, out, &next);
        next.length =
            ledger->length > 0 || length_is_free(&cycle) ? ledger->length : cycle.n + 1;
        *ledger = next;
    }
    return status;
}

static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_greedy_block = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "greedy_block",
             .help =
                 "keeps the longest prefix whose coin falls below A / max(A, B), A = sum (R "
                 "target - draft)+, B = sum (draft - R target)+, R = target / draft of the "
                 "whole prefix; until the drafted length is reached the following tokens "
                 "have the target norm((R target - draft)+), carried from cycle to cycle. "
                 "Lossless over the tokens as they come, and needs one draft length for "
                 "all cycles",
             .source = "Sun et al. 2024, arXiv:2403.10444 (appendix); Zhou et al. 2026, "
                       "arXiv:2601.05724 (naive HSD)",
             .synonyms = "greedy block verification, naive HSD"},
    .lossless_for = claims,
    .needs_draft_rows = true,
    .sequence_state_size = sizeof(struct ledger),
    .verify = verify,
    .constant_length = true,
    .changes_target = true,
    .cost = "1 at each drafted position from the back to the last kept one, and 1 for each "
            "debt at each position under it",
};
