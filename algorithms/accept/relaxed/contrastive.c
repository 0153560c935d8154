/* Contrastive decoding as a substituted target: what the draft also likes counts less. */
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>

struct contrastive {
    double beta;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(contrastive, beta, 0, 10, 0.5,
                 "strength; 0 is strict (0.1, 0.5, 1: arXiv:2607.08690)"),
    {0}};

/* The score (1 + beta) ln target - beta ln draft at the sampling temperature. A token that only
 * the draft excludes has no bound: `is_unbounded`. */
static double score_of(const struct cop_swap *swap, double target, double draft_log,
                       bool *is_unbounded)
{
    *is_unbounded = false;
    if (!(target > 0)) {
        return -HUGE_VAL;
    }
    *is_unbounded = swap->a > 0 && isinf(draft_log);
    double log_target = cop_log(target);
    return *is_unbounded ? (1 + swap->a) * log_target
                         : (1 + swap->a) * log_target - swap->a * swap->c * draft_log;
}

/* swap->b: the largest score, or what the largest scores are counted from. Only unbounded
 * tokens, if there are any, have a share (the limit of a small draft probability). */
static void fill_scores(const struct cop_swap *swap, int32_t first, int32_t count, double *out,
                        bool *are_unbounded)
{
    cop_reading_fill(&swap->target, first, count, out);
    for (int32_t i = 0; i < count; i++) {
        double draft_log = cop_reading_log(&swap->plain_draft, first + i);
        out[i] = score_of(swap, out[i], draft_log, &are_unbounded[i]);
    }
}

static void fill(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    bool are_unbounded[COP_SUM_BLOCK];
    fill_scores(swap, first, count, out, are_unbounded);
    for (int32_t i = 0; i < count; i++) {
        bool counts = are_unbounded[i] == (swap->choice != 0) && !isinf(out[i]);
        out[i] = counts ? cop_exp(out[i] - swap->b) : 0;
    }
}

/* The largest score among the tokens that count, then the normaliser; both in `b`. */
static void find_normaliser(struct cop_swap *swap)
{
    double scores[COP_SUM_BLOCK], best[2] = {-HUGE_VAL, -HUGE_VAL};
    bool are_unbounded[COP_SUM_BLOCK];
    for (int32_t first = 0; first < swap->vocab; first += COP_SUM_BLOCK) {
        int32_t left = swap->vocab - first;
        int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
        fill_scores(swap, first, count, scores, are_unbounded);
        for (int32_t i = 0; i < count; i++) {
            double *most = &best[are_unbounded[i]];
            *most = fmax(*most, scores[i]);
        }
    }
    swap->choice = best[1] > -HUGE_VAL;
    swap->b = best[swap->choice];
    struct cop_weights shares = {.vocab = swap->vocab, .fill = cop_swap_fill, .context = swap};
    swap->b += cop_log(cop_weights_sum(&shares));
}

static void fill_weighed(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    for (int32_t i = 0; i < count; i++) {
        out[i] = (double)swap->weights[first + i] * swap->weight_scale;
    }
}

/* From logits the shares are exponentials of a linear form, counted from the target's best
 * token: one pass, and pi is what its f32 numbers state. The sum of them. */
static double weigh(const struct cop_swap *swap, float *weights)
{
    const float *target = swap->target.row.logits, *draft = swap->draft.row.logits;
    const double target_scale = (1 + swap->a) * swap->c, draft_scale = swap->a * swap->c;
    cop_token best = swap->target.row.best;
    double shift = target_scale * (double)target[best] - draft_scale * (double)draft[best];
    double sum = 0;
    for (int32_t first = 0; first < swap->vocab; first += COP_SUM_BLOCK) {
        int32_t left = swap->vocab - first;
        sum += cop_contrast_row(target + first, target_scale, draft + first, draft_scale, shift,
                                left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK, weights + first);
    }
    return sum;
}

/* The target row is softmax(z / T); the draft's logits are divided by the same T. */
static enum cop_status prepare_pi(const void *state, struct cop_swap *swap,
                                  struct cop_error *err)
{
    const struct cop_row *target = &swap->target.row, *draft = &swap->draft.row;
    bool has_logits = target->kind == COP_ROW_LOGITS && draft->logits;
    swap->a = ((const struct contrastive *)state)->beta;
    swap->c = has_logits ? target->inverse_temperature : 1;
    if (has_logits && !target->mask) {
        float *weights = cop_swap_room(swap);
        if (!weights) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for a row of %d tokens",
                            (int)swap->vocab);
        }
        /* Not where a token is excluded that only scores one by one can tell about, or where
         * the best token is too far from the largest score. */
        double sum = weigh(swap, weights);
        if (sum > 0 && !isinf(sum)) {
            swap->weights = weights;
            swap->weight_scale = 1 / sum;
            swap->fill = fill_weighed;
            return COP_OK;
        }
    }
    swap->plain_draft = has_logits ? cop_read_plain(draft) : swap->draft;
    swap->fill = fill;
    find_normaliser(swap);
    return COP_OK;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    static const struct cop_substitution contrast = {.prepare = prepare_pi};
    return cop_swap_walk(&contrast, state, "contrastive", in, out, err);
}

const struct cop_rule_ops cop_accept_contrastive = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "contrastive",
             .help =
                 "the exact rule against pi = softmax(((1 + beta) target logits - beta draft "
                 "logits) / T), of tokens that the target allows (where the draft excludes "
                 "some of them: of those alone, the limit); siblings as in recursive "
                 "rejection; the bonus token is the target's. A method for quality: it "
                 "accepts less. At temperature 0: the best token of pi",
             .source = "Yuan et al. 2023, arXiv:2311.08981; as run in arXiv:2607.08690",
             .synonyms = "speculative contrastive decoding",
             .state_size = sizeof(struct contrastive),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "1 at each visited node, and 1 per refused sibling",
    .promise = "L1, the output law is pi at every drafted node: the exact rule runs against it",
};
