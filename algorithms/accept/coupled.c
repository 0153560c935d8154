/* Shared Gumbel noise: draft and target race with the same runners, so that they often have the
 * same winner.
 *
 * Noise g is a pure function of seed, absolute position and token; the token after a node is
 * the target's own winner, arg max of log target + g, here as the first of an exponential race,
 * which is the same. A child that carries it is followed. Whatever was drafted, the tokens that
 * come out are those that plain decoding with this rule and this seed would say, so the rule is
 * lossless for every draw and shape; the draft decides only how far one pass reaches. One
 * drafted token that raced with the same noise is met with probability sum over x of 1 / sum
 * over y of max(target(y) / target(x), draft(y) / draft(x)). */
#include "core/cycle/contract/rule.h"

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    (void)state;
    (void)err;
    int32_t node = 0;
    for (;;) {
        uint32_t key = cop_shared_key(in->position, out->n_accepted + 1);
        cop_token winner = -1;
        (void)cop_race(in->draws, COP_PURPOSE_SHARED, key, cop_rows_at(&in->target, node), 1,
                       &winner);
        out->last = winner;
        int32_t child = winner < 0 ? -1 : cop_tree_find(in->tree, node, winner);
        if (child < 0) {
            break;
        }
        out->accepted[out->n_accepted++] = child;
        node = child;
    }
    out->origin =
        cop_tree_children(in->tree, node) > 0 ? COP_ORIGIN_RECOVERED : COP_ORIGIN_BONUS;
    return COP_OK;
}

/* Independent chains come first: they are drafted with the shared noise. */
static const struct cop_claim claims[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false},
                                          {COP_DRAW_DETERMINISTIC, COP_SHAPE_TREE, false},
                                          {COP_DRAW_COUNT, COP_SHAPE_TREE, false},
                                          {.draw = COP_DRAW_AUTO}};

const struct cop_rule_ops cop_accept_coupled = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "coupled",
             .help =
                 "draws each token as arg max of log target + g, with Gumbel noise g that "
                 "depends on seed and position only and that chains are drafted with, and "
                 "follows the child that carries it; the output is the same for every draft",
             .source = "Daliri, Musco, Suresh 2024, arXiv:2408.07978",
             .synonyms = "drafter-invariant, Gumbel coupling, shared randomness, coupling "
                         "without communication"},
    .lossless_for = claims,
    .verify = verify,
    .follows_luck = true,
    .shares_noise = true,
    .several_rows = true,
    .cost = "1 at each visited node",
};
