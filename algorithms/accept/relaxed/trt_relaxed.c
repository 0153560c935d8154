/* TensorRT-LLM's relaxed acceptance: a margin, but only while the model thinks.
 *
 * State: whether the sequence is inside its thinking, which begins and ends with given tokens.
 * A token that a cycle commits changes the phase of the next cycle. */
#include "algorithms/accept/relaxed/relaxed.h"

struct trt_relaxed {
    int32_t candidates;
    double delta;
    int32_t begin_token, end_token; /* INT32_MIN: not given */
};

static const struct cop_option options[] = {
    COP_AN_INT(trt_relaxed, candidates, 1, 1000000, 10,
               "N: ranks that may be kept; 1 is greedy (relaxed_topk)"),
    COP_A_NUMBER(trt_relaxed, delta, 0, 1, 0.6,
                 "target(best) - target(token) at most; 0 is greedy (relaxed_delta)"),
    {.name = "begin_token",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct trt_relaxed, begin_token),
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT,
     .help = "token that begins the thinking when it comes out; absent: the answer begins "
             "inside it"},
    {.name = "end_token",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct trt_relaxed, end_token),
     .max = INT32_MAX,
     .flags = COP_OPTION_ABSENT,
     .help = "token that ends it, after which acceptance is greedy; absent: it never ends"},
    {0}};

struct phase {
    int32_t is_outside;
};

static void begin_outside(const void *state, void *sequence_state)
{
    ((struct phase *)sequence_state)->is_outside =
        ((const struct trt_relaxed *)state)->begin_token != INT32_MIN;
}

static void pass(const struct trt_relaxed *s, struct phase *phase, cop_token token)
{
    if (token == s->begin_token) {
        phase->is_outside = 0;
    } else if (token == s->end_token) {
        phase->is_outside = 1;
    }
}

/* What the walk hands to the set: options with the margin of this phase. */
static bool keeps(const void *state, const struct cop_look *look, cop_token token)
{
    const struct trt_relaxed *s = state;
    double most = cop_reading_probability(&look->reading, look->best);
    return cop_reading_probability(&look->reading, token) >= most - s->delta &&
           cop_reading_rank(&look->reading, token) < s->candidates;
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    static const struct cop_set_rule set = {
        .keeps = keeps, .corrects_with_best = true, .ends_with_best = true};
    struct trt_relaxed now = *(const struct trt_relaxed *)state;
    struct phase *phase = in->sequence_state;
    now.delta = phase->is_outside ? 0 : now.delta;
    enum cop_status status = cop_set_walk(&set, &now, in, out, err);
    for (int32_t i = 0; i < out->n_accepted; i++) {
        pass(&now, phase, in->tree->token[out->accepted[i]]);
    }
    pass(&now, phase, out->last);
    return status;
}

const struct cop_rule_ops cop_accept_trt_relaxed = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "trt_relaxed",
             .help = "while the model thinks, keeps drafted tokens among the target's N most "
                     "probable with target(token) >= target(best) - delta (plain row), outside "
                     "with delta = 0; the longest kept path; after it, refused or at its end, "
                     "the target's best token",
             .source = "NVIDIA/TensorRT-LLM, relaxed acceptance for DeepSeek-R1 (tech blog 2)",
             .synonyms = "relaxed acceptance, relaxed_topk, relaxed_delta",
             .state_size = sizeof(struct trt_relaxed),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_any_tree,
    .sequence_state_size = sizeof(struct phase),
    .sequence_init = begin_outside,
    .verify = verify,
    .cost = "1 per tried token",
    .promise =
        "L3, a deterministic bound: every token is within delta of the target's best, and "
        "among its N best",
};
