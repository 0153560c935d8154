/* Flips are enumerated by an odometer, a pick ends a run: what follows cannot change which
 * token stands at this position. */
#include "core/cycle/law/position_law.h"

#include "core/cycle/draws/choose.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FLIPS 24 /* in one run */

/* Answers of one run, and what it has picked. */
struct run {
    bool answers[FLIPS], are_last[FLIPS]; /* the second: no other answer is possible */
    int32_t n_given, n_asked;
    double weight;
    double *picked; /* [vocab] weights of the pick, summing to picked_sum */
    double picked_sum;
    int32_t n_picks;
    bool is_filled, fills_all;
    struct cop_error error; /* of a question that was wrong */
};

static bool answer_flip(void *state, uint32_t purpose, uint32_t key, double probability)
{
    (void)purpose;
    (void)key;
    struct run *run = state;
    double chance = probability >= 1 ? 1 : probability > 0 ? probability : 0;
    if (isnan(probability) || run->n_asked >= FLIPS) {
        cop_draws_refuse(&run->error, "a flip with probability NaN, or too many of them");
        return false;
    }
    int32_t i = run->n_asked++;
    if (i >= run->n_given) {
        run->answers[i] = chance > 0;
        run->are_last[i] = !(chance > 0 && chance < 1);
        run->n_given = i + 1;
    }
    run->weight *= run->answers[i] ? chance : 1 - chance;
    return run->answers[i];
}

/* The weights are those of the bonus token, which nobody looks at, unless the pick is the
 * root's: then filling them is most of the work. fills_all is for rules that name it otherwise.
 */
static cop_token answer_pick(void *state, uint32_t purpose, uint32_t key,
                             const struct cop_weights *weights)
{
    (void)purpose;
    struct run *run = state;
    if (run->n_picks++ > 0) {
        cop_draws_refuse(&run->error, "a second pick");
        return -1;
    }
    run->picked_sum = 0;
    run->is_filled = run->fills_all || key == COP_TREE_ROOT_KEY;
    if (run->is_filled) {
        weights->fill(weights->context, 0, weights->vocab, run->picked);
    }
    for (int32_t token = 0; run->is_filled && token < weights->vocab; token++) {
        run->picked_sum += run->picked[token];
    }
    return cop_choose(weights, 0.5, &run->error);
}

static int32_t answer_race(void *state, uint32_t purpose, uint32_t key,
                           const struct cop_row *row, int32_t k, cop_token *ids, int32_t n)
{
    (void)purpose;
    (void)key;
    (void)row;
    (void)k;
    (void)ids;
    (void)n;
    struct run *run = state;
    cop_draws_refuse(&run->error, "a race");
    return 0;
}

static const struct cop_draws_ops answers = {answer_flip, answer_pick, answer_race};

/* The next answers: the last flip that has another is turned. → false when none is left */
static bool turn(struct run *run)
{
    while (run->n_given > 0 && run->are_last[run->n_given - 1]) {
        run->n_given--;
    }
    if (run->n_given == 0) {
        return false;
    }
    run->answers[run->n_given - 1] = false; /* true was first */
    run->are_last[run->n_given - 1] = true;
    return true;
}

static const struct cop_row *target_at(void *context, int32_t index)
{
    (void)
        index; /* the row after the draft only gives the bonus token, which is not looked at */
    return ((const struct cop_position *)context)->target;
}

static const struct cop_row *draft_at(void *context, int32_t index)
{
    return index <= 1 ? ((const struct cop_position *)context)->draft : NULL;
}

struct work {
    const struct cop_position *position;
    struct cop_tree tree;
    struct run run;
    int32_t accepted[2];
};

/* Adds one run's outcome, of probability `mass`. */
static void add_outcome(struct work *w, const struct cop_verdict *verdict, double mass,
                        double *law, struct cop_position_law *out)
{
    const struct run *run = &w->run;
    if (verdict->n_accepted > 0) {
        law[w->tree.token[1]] += mass;
        out->acceptance += mass;
    } else if (run->n_picks == 0) {
        law[verdict->last] += mass;
    } else {
        double scale = mass / run->picked_sum;
        for (int32_t token = 0; token < w->position->target->vocab; token++) {
            law[token] += scale * run->picked[token];
        }
    }
}

/* All runs of the rule on one draft, drawn with probability `mass`. */
static enum cop_status add_draft(struct work *w, cop_token token, double mass, double *law,
                                 struct cop_position_law *out, struct cop_error *err)
{
    const struct cop_position *p = w->position;
    const struct cop_draws draws = {&answers, &w->run, &w->run.error};
    const struct cop_verify_in in = {.tree = &w->tree,
                                     .target = {target_at, (void *)(uintptr_t)p},
                                     .draft = {draft_at, (void *)(uintptr_t)p},
                                     .draws = &draws};
    cop_tree_reset(&w->tree, 0);
    (void)cop_tree_add(&w->tree, 0, token, 0);
    w->run.n_given = 0;
    for (bool is_going = true; is_going;) {
        struct cop_verdict verdict = {.accepted = w->accepted, .last = -1};
        w->run.weight = 1;
        w->run.n_asked = w->run.n_picks = 0;
        enum cop_status status = p->rule->verify(p->rule_state, &in, &verdict, err);
        if (status == COP_OK && (w->run.error.code != COP_OK || verdict.last < 0)) {
            status = cop_fail(err, COP_ERR_UNSUPPORTED,
                              "rule \"%s\" has no law of one position: it asks for %s",
                              p->rule->plug.name,
                              w->run.error.code != COP_OK ? w->run.error.text : "nothing");
        }
        if (status != COP_OK) {
            return status;
        }
        if (verdict.n_accepted == 0 && w->run.n_picks > 0 && !w->run.is_filled) {
            w->run.fills_all = true; /* once more */
            continue;
        }
        if (w->run.weight > 0) {
            add_outcome(w, &verdict, mass * w->run.weight, law, out);
        }
        is_going = turn(&w->run);
    }
    return COP_OK;
}

/* Drafts under the floor as the strict rule treats them: kept with target / draft, else a token
 * of the positive part of target - draft. */
static void add_rare(const struct cop_position *p, double *law, struct cop_position_law *out)
{
    double residual = 0, refused = 0;
    for (cop_token token = 0; token < p->target->vocab; token++) {
        double wanted = cop_row_probability(p->target, token);
        double offered = cop_row_probability(p->draft, token);
        residual += wanted > offered ? wanted - offered : 0;
        if (offered > 0 && offered < p->floor) {
            double kept = wanted < offered ? wanted : offered;
            law[token] += kept;
            out->acceptance += kept;
            out->left_out += offered;
            refused += offered - kept;
        }
    }
    for (cop_token token = 0; residual > 0 && token < p->target->vocab; token++) {
        double left =
            cop_row_probability(p->target, token) - cop_row_probability(p->draft, token);
        law[token] += left > 0 ? refused * left / residual : 0;
    }
}

static enum cop_status add_drafts(struct work *w, double *law, struct cop_position_law *out,
                                  struct cop_error *err)
{
    const struct cop_position *p = w->position;
    if (p->draw == COP_DRAW_DETERMINISTIC) {
        cop_token best;
        (void)cop_row_top(p->draft, 1, &best);
        return add_draft(w, best, 1, law, out, err);
    }
    for (cop_token token = 0; token < p->draft->vocab; token++) {
        double mass = cop_row_probability(p->draft, token);
        if (mass > 0 && mass >= p->floor) {
            enum cop_status status = add_draft(w, token, mass, law, out, err);
            if (status != COP_OK) {
                return status;
            }
        }
    }
    add_rare(p, law, out);
    return COP_OK;
}

enum cop_status cop_position_law(const struct cop_position *position, double *law,
                                 struct cop_position_law *out, struct cop_error *err)
{
    const struct cop_rule_ops *rule = position->rule;
    int32_t vocab = position->target->vocab;
    *out = (struct cop_position_law){0};
    if (rule->sequence_state_size > 0) {
        return cop_fail(
            err, COP_ERR_UNSUPPORTED,
            "rule \"%s\" has no law of one position: it carries state from cycle to "
            "cycle",
            rule->plug.name);
    }
    struct work w = {.position = position};
    w.run.picked = malloc((size_t)vocab * sizeof *w.run.picked);
    enum cop_status status = cop_tree_init(&w.tree, 2, err);
    if (status == COP_OK && !w.run.picked) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a row of %d tokens", (int)vocab);
    }
    memset(law, 0, (size_t)vocab * sizeof *law);
    w.tree.draw = position->draw;
    if (status == COP_OK) {
        status = add_drafts(&w, law, out, err);
    }
    cop_tree_release(&w.tree);
    free(w.run.picked);
    return status;
}
