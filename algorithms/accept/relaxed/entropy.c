/* Trusts the draft where the target is unsure. */
#include "algorithms/accept/relaxed/relaxed.h"

struct entropy {
    double entropy;
    int32_t correction;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(entropy, entropy, 0, 1000, 1,
                 "nats above which every drafted token is kept; the default is ours"),
    COP_BEST_OR_TARGET(entropy),
    {0}};

static void look(const void *state, struct cop_look *look)
{
    look->is_open =
        cop_reading_entropy(&look->reading, 0) > ((const struct entropy *)state)->entropy;
}

static bool keeps(const void *state, const struct cop_look *look, cop_token token)
{
    (void)state;
    return look->is_open || token == look->best;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    const struct cop_set_rule set = {.look = look,
                                     .keeps = keeps,
                                     .corrects_with_best =
                                         ((const struct entropy *)state)->correction == 0};
    return cop_set_walk(&set, state, in, out, err);
}

const struct cop_rule_ops cop_accept_entropy = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "entropy",
             .help = "keeps every drafted token where the entropy of the target (plain row) "
                     "exceeds a threshold, elsewhere only the target's best; the longest kept "
                     "path; after a refusal the target's best token, the bonus token is drawn "
                     "from the target",
             .source = "the gate of FLy, EARS and typical acceptance by itself",
             .synonyms = "entropy gate",
             .state_size = sizeof(struct entropy),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .verify = verify,
    .cost = "1 at each kept node that has children",
    .promise = "L4, none: measured only",
};
