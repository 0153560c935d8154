/* A fixed mixture of target and draft in the target's place. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

struct ensemble {
    double weight;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(ensemble, weight, 0, 1, 0.9,
                 "of the target; 1 is strict, 0 trusts the draft (0.95, 0.9, 0.8: "
                 "arXiv:2607.08690)"),
    {0}};

static void fill(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    double draft[COP_SUM_BLOCK];
    cop_reading_fill(&swap->target, first, count, out);
    cop_swap_fill_trusted(swap, first, count, out, draft);
    for (int32_t i = 0; i < count; i++) {
        out[i] = swap->a * out[i] + (1 - swap->a) * draft[i];
    }
}

static enum cop_status prepare_pi(const void *state, struct cop_swap *swap,
                                  struct cop_error *err)
{
    (void)err;
    swap->a = ((const struct ensemble *)state)->weight;
    swap->fill = fill;
    swap->gate.open_target = swap->gate.shut_target = swap->a;
    swap->gate.open_draft = swap->gate.shut_draft = 1 - swap->a;
    cop_swap_set_gate(swap, &swap->target, 0);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    static const struct cop_substitution mixture = {.prepare = prepare_pi,
                                                    .trusts_draft = true};
    return cop_swap_walk(&mixture, state, "ensemble", in, out, err);
}

const struct cop_rule_ops cop_accept_ensemble = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "ensemble",
             .help = "the exact rule against pi = w target + (1 - w) draft: keeps with "
                     "probability min(1, pi / draft), else draws from norm((pi - draft)+); "
                     "siblings as in recursive rejection; the bonus token is the target's. At "
                     "temperature 0: the best token of pi, made at temperature 1",
             .source = "as a baseline in arXiv:2607.08690 and MANGA-UOFA/Cactus; with learned "
                       "weights DIVERSED, arXiv:2604.07622",
             .synonyms = "static ensemble, interpolation",
             .state_size = sizeof(struct ensemble),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at the refused node, and 1 per further sibling",
    .promise = "L1, the output law is pi = w target + (1 - w) draft at every drafted node: the "
               "exact rule runs against it",
};
