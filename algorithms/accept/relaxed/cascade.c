/* Speculative cascades: a gate says where the draft is trusted, and the law that follows from
 * it is sampled exactly.
 *
 * Gates read plain rows (temperature 1), the mass is that of the shaped ones. Chow, Diff and
 * OPT decide per node: pi is the draft or the target. The token gates decide per token: with S
 * the trusted set, pi = draft on S, and the draft's mass outside goes by the target. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>

enum gate { TOKEN_V1, TOKEN_V2, TOKEN_V3, CHOW, DIFF, OPT };

struct cascade {
    int32_t gate;
    double alpha;
};

static const struct cop_option options[] = {
    COP_A_CHOICE(cascade, gate, "token_v1|token_v2|token_v3|chow|diff|opt",
                 "equations 13, 14, 15, 2, 5 and 10 of the paper"),
    COP_A_NUMBER(cascade, alpha, -1e6, 1e6, 0.1,
                 "trust in the draft: 0 to 1 for chow and token_v3, -1 to 1 for diff, token_v1 "
                 "and token_v2, any for opt; the default is ours"),
    {0}};

static enum cop_status prepare(void *state, struct cop_error *err)
{
    const struct cascade *s = state;
    bool is_share = s->gate == CHOW || s->gate == TOKEN_V3;
    double low = s->gate == OPT ? -1e6 : is_share ? 0 : -1, high = s->gate == OPT ? 1e6 : 1;
    if (s->alpha < low || s->alpha > high) {
        static const char *const names[] = {"token_v1", "token_v2", "token_v3",
                                            "chow",     "diff",     "opt"};
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "cop.accept.cascade: option \"alpha\" must be a number from %g to %g "
                        "with gate = \"%s\" (arXiv:2405.19261), got %g",
                        low, high, names[s->gate], s->alpha);
    }
    return COP_OK;
}

/* Whether a whole node trusts the draft. */
static bool trusts_node(enum gate gate, double alpha, const struct cop_swap *swap)
{
    const struct cop_reading *target = &swap->plain_target, *draft = &swap->plain_draft;
    double most_draft = cop_reading_probability(draft, cop_reading_best(draft));
    if (gate == CHOW) {
        return most_draft >= 1 - alpha;
    }
    double most = cop_reading_probability(target, cop_reading_best(target));
    double bar = gate == DIFF ? alpha : alpha * cop_divergence(COP_TV, target, draft);
    return most_draft >= most - bar;
}

static void fill_node(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    double target[COP_SUM_BLOCK];
    cop_reading_fill(&swap->target, first, count, target);
    if (swap->a > 0) {
        cop_swap_fill_trusted(swap, first, count, target, out);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        out[i] = target[i];
    }
}

/* Draft mass of trusted tokens, 0 for the others. swap->a: the bar; choice: the gate. */
static void fill_trusted(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    double gate[COP_SUM_BLOCK];
    const float *logits = swap->target.row.logits;
    cop_reading_fill(swap->choice == TOKEN_V1 ? &swap->plain_draft : &swap->plain_target, first,
                     count, gate);
    cop_reading_fill(&swap->draft, first, count, out);
    for (int32_t i = 0; i < count; i++) {
        bool is_banned = logits && isinf(logits[first + i]);
        out[i] = gate[i] >= swap->a && !is_banned ? out[i] : 0;
    }
}

/* swap->b: mass of the draft outside the set. */
static void fill_tokens(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    double target[COP_SUM_BLOCK];
    fill_trusted(swap, first, count, out);
    cop_reading_fill(&swap->target, first, count, target);
    for (int32_t i = 0; i < count; i++) {
        out[i] += swap->b * target[i];
    }
}

static double trusted_mass(struct cop_swap *swap)
{
    swap->fill = fill_trusted;
    swap->gate.open_draft = 1;
    cop_swap_set_gate(swap, swap->choice == TOKEN_V1 ? &swap->plain_draft : &swap->plain_target,
                      swap->a);
    return cop_swap_sum(swap);
}

static enum cop_status prepare_pi(const void *state, struct cop_swap *swap,
                                  struct cop_error *err)
{
    (void)err;
    const struct cascade *s = state;
    swap->plain_target = cop_read_plain(&swap->target.row);
    swap->plain_draft = cop_read_plain(&swap->draft.row);
    swap->choice = s->gate;
    if (s->gate >= CHOW) {
        swap->a = trusts_node((enum gate)s->gate, s->alpha, swap);
        swap->fill = fill_node;
        swap->gate.open_target = swap->gate.shut_target = 1 - swap->a;
        swap->gate.open_draft = swap->gate.shut_draft = swap->a;
        cop_swap_set_gate(swap, &swap->target, 0);
        return COP_OK;
    }
    double most =
        cop_reading_probability(&swap->plain_target, cop_reading_best(&swap->plain_target));
    swap->a = s->gate == TOKEN_V3 ? (1 - s->alpha) * most : most - s->alpha;
    swap->b = fmax(0, 1 - trusted_mass(swap));
    swap->gate.open_target = swap->gate.shut_target = swap->b;
    swap->fill = fill_tokens;
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    static const struct cop_substitution gated = {.prepare = prepare_pi, .trusts_draft = true};
    return cop_swap_walk(&gated, state, "cascade", in, out, err);
}

const struct cop_rule_ops cop_accept_cascade = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "cascade",
             .help = "the exact rule against a law pi that a gate makes of both rows. With mt, "
                     "md the largest plain probabilities: chow pi = draft if md >= 1 - alpha, "
                     "diff if md >= mt - alpha, opt if md >= mt - alpha TV, else target; "
                     "token_v1 trusts tokens with draft >= mt - alpha, token_v2 with target >= "
                     "mt - alpha, token_v3 with target >= (1 - alpha) mt, and pi = draft there "
                     "plus the draft's other mass by the target. Siblings as in recursive "
                     "rejection; the bonus token is the target's. No setting of token_v2 and "
                     "token_v3 is strict. At temperature 0: the best token of pi",
             .source = "Narasimhan et al. 2024, arXiv:2405.19261",
             .synonyms = "speculative cascades, Chow, Diff, OPT, Token-V1, Token-V2, Token-V3",
             .state_size = sizeof(struct cascade),
             .options = options,
             .prepare = prepare},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "2 at each visited node, and 1 per refused sibling",
    .promise = "L1, the output law is the cascade's pi at every drafted node: the exact rule "
               "runs against it",
};
