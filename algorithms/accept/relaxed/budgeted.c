/* ASD: greedy decoding that may differ from the target's best a few times, by little, and by a
 * sum that a whole request shares.
 *
 * State: the regret that the request has spent. */
#include "algorithms/accept/relaxed/relaxed.h"

struct budgeted {
    double gate, budget;
    int32_t exceptions;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(budgeted, gate, 0, 1000, 0.25,
                 "largest regret of one token: logit of the target's best less its own"),
    COP_AN_INT(budgeted, exceptions, 0, 1000000, 2, "at most in one cycle (M)"),
    COP_A_NUMBER(budgeted, budget, 0, 1e9, 1,
                 "regret that one request may spend in all; 0 is greedy; the default is ours"),
    {0}};

struct spent {
    double regret;
};

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)err;
    const struct budgeted *s = state;
    struct spent *spent = in->sequence_state;
    int32_t node = 0, left = s->budget > 0 ? s->exceptions : 0;
    for (int32_t child; (child = cop_next_child(in->tree, node, node)) > 0; node = child) {
        const struct cop_row *target = cop_rows_at(&in->target, node);
        struct cop_reading plain = cop_read_plain(target);
        cop_token token = in->tree->token[child], best = cop_reading_best(&plain);
        if (token != best) {
            double regret = cop_reading_logit(&plain, best) - cop_reading_logit(&plain, token);
            bool is_possible =
                target->kind == COP_ROW_ONE_HOT || cop_row_probability(target, token) > 0;
            if (left == 0 || !is_possible || !(regret <= s->gate) ||
                spent->regret + regret > s->budget) {
                break;
            }
            spent->regret += regret;
            left--;
        }
        out->accepted[out->n_accepted++] = child;
    }
    cop_end_with_target(in, cop_stop_of(in, out), true, out);
    return COP_OK;
}

const struct cop_rule_ops cop_accept_budgeted = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "budgeted",
             .help =
                 "keeps the target's best tokens, and others whose regret z(best) - z(token) "
                 "(plain logits) is at most gate, at most `exceptions` of them in a cycle, "
                 "while the regrets of the whole request sum to at most budget; then the "
                 "target's best token. The spent budget is carried from cycle to cycle",
             .source = "arXiv:2608.03447 (ASD)",
             .synonyms = "budgeted regret",
             .state_size = sizeof(struct budgeted),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_chain,
    .sequence_state_size = sizeof(struct spent),
    .verify = verify,
    .cost = "1 per tried token with penalties, temperatures or truncation, else none",
    .promise = "L3, a deterministic bound: regret of each token at most gate, of a request at "
               "most budget",
};
