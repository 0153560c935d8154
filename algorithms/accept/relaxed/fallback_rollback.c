/* BiLD: a small model writes until it is unsure, a big one rolls back what it finds unlikely.
 *
 * The first half, falling back, decides how much is drafted: here a token whose draft row was
 * too flat ends the block as if it had not been drafted. (A length policy, cop.length.
 * confidence, also saves the time of drafting what follows.) */
#include "algorithms/accept/relaxed/relaxed.h"

struct fallback_rollback {
    double rollback, fallback;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(fallback_rollback, rollback, 0, 1000, 5,
                 "largest -ln target of a kept token (2 to 5 recommended)"),
    COP_A_NUMBER(fallback_rollback, fallback, 0, 1, 0,
                 "least largest draft probability of a token that counts as drafted; 0: off "
                 "(0.6 in the code)"),
    {0}};

/* The small model was unsure where it drew this token. */
static bool falls_back(const struct fallback_rollback *s, const struct cop_row *draft)
{
    struct cop_reading plain = cop_read_plain(draft);
    return cop_reading_probability(&plain, cop_reading_best(&plain)) < s->fallback;
}

static bool is_kept(const struct fallback_rollback *s, const struct cop_row *target,
                    cop_token token)
{
    struct cop_reading plain = cop_read_plain(target);
    bool is_possible =
        target->kind == COP_ROW_ONE_HOT || cop_row_probability(target, token) > 0;
    return token == cop_reading_best(&plain) ||
           (is_possible && -cop_reading_log(&plain, token) <= s->rollback);
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct fallback_rollback *s = state;
    int32_t node = 0;
    for (int32_t child; (child = cop_next_child(in->tree, node, node)) > 0; node = child) {
        const struct cop_row *draft = s->fallback > 0 ? cop_rows_at(&in->draft, child) : NULL;
        if (s->fallback > 0 && !draft) {
            return cop_fail(err, COP_ERR_ARGUMENT,
                            "accept.fallback_rollback needs every draft row for fallback = %g",
                            s->fallback);
        }
        if ((draft && falls_back(s, draft)) ||
            !is_kept(s, cop_rows_at(&in->target, node), in->tree->token[child])) {
            break;
        }
        out->accepted[out->n_accepted++] = child;
    }
    cop_end_with_target(in, cop_stop_of(in, out), true, out);
    return COP_OK;
}

const struct cop_rule_ops cop_accept_fallback_rollback = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "fallback_rollback",
             .help =
                 "keeps drafted tokens with -ln target <= rollback (plain row), or that are "
                 "the target's best, up to the first whose draft row has its largest "
                 "probability below fallback; after them the target's best token. No state: "
                 "every cycle is one call of the big model. The paper's first large step, "
                 "before anything is drafted, is not made",
             .source = "Kim et al. 2023, arXiv:2302.07863 (Big Little Decoder)",
             .synonyms = "BiLD",
             .state_size = sizeof(struct fallback_rollback),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_model_chain,
    .verify = verify,
    .cost = "1 per tried token with penalties, temperatures or truncation, else none",
    .promise = "L4, none: measured only",
};
