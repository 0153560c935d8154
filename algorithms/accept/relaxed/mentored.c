/* Mentored decoding: of all laws within a divergence of the target, the one that accepts most.
 *
 * With r = target / draft, pi = target / alpha where r <= alpha, the draft in between, target /
 * beta where r >= beta; alpha <= 1 <= beta are such that pi sums to 1 and KL(target || pi) is
 * the budget. Solved exactly, not within a tolerance: sorted by r, all the sums are differences
 * of running ones, and KL falls as alpha rises. */
#include "algorithms/accept/ratio_order.h"
#include "algorithms/accept/relaxed/relaxed.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>

struct mentored {
    double budget;
};

static const struct cop_option options[] = {
    COP_A_NUMBER(
        mentored, budget, 0, 1000, 0.2,
        "D, nats of KL(target || output) per drafted token; 0 is strict (0.2: a port to "
        "vLLM; 0.1 to 0.2 by the author)"),
    {0}};

/* ---- The solution
 * ----------------------------------------------------------------------------- */

/* Sums over the first k entries: tokens of the k smallest ratios. */
struct sums {
    double target, draft, divergence; /* target ln(target / draft), finite ratios only */
};
struct problem {
    const struct cop_ratio_entry *entries; /* sorted */
    const struct sums *sums;               /* [n + 1] */
    int32_t n;
};

/* Entries with a ratio of at most `ratio`. */
static int32_t count_to(const struct problem *in, double ratio)
{
    int32_t low = 0, high = in->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (cop_ratio_of(&in->entries[middle]) <= ratio) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* What the entries from k on would take up with beta = their smallest ratio. */
static double taken_from(const struct problem *in, int32_t k)
{
    double ratio = cop_ratio_of(&in->entries[k]);
    const struct sums *all = &in->sums[in->n], *before = &in->sums[k];
    double scaled = isinf(ratio) ? 0 : (all->target - before->target) / ratio;
    return scaled - (all->draft - before->draft);
}

/* beta for the mass that alpha set free; *from: the first entry of its zone. */
static double solve_beta(const struct problem *in, int32_t low_zone, double free_mass,
                         int32_t *from)
{
    int32_t low = low_zone, high = in->n; /* the first entry that would take too little */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (taken_from(in, middle) > free_mass) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    /* Entries from `low` on need a smaller scale than their ratio: the zone begins there. */
    *from = low;
    const struct sums *all = &in->sums[in->n], *before = &in->sums[low];
    double target = all->target - before->target;
    double room = free_mass + all->draft - before->draft;
    return target > 0 && room > 0 ? target / room : HUGE_VAL;
}

static double divergence_of(const struct problem *in, double alpha, double *beta)
{
    int32_t low = count_to(in, alpha), from;
    double free_mass = fmax(0, in->sums[low].draft - in->sums[low].target / alpha);
    *beta = solve_beta(in, low, free_mass, &from);
    double high_target = in->sums[in->n].target - in->sums[from].target;
    double sum = in->sums[low].target > 0 ? in->sums[low].target * cop_log(alpha) : 0;
    sum += in->sums[from].divergence - in->sums[low].divergence;
    return sum + (high_target > 0 ? high_target * cop_log(*beta) : 0);
}

static void solve(const struct problem *in, double budget, double *alpha, double *beta)
{
    double low = -700, high = 0; /* ln alpha */
    for (int i = 0; i < 100 && high - low > 1e-15; i++) {
        double middle = (low + high) / 2;
        if (divergence_of(in, cop_exp(middle), beta) > budget) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *alpha = cop_exp(high);
    (void)divergence_of(in, *alpha, beta);
}

/* ---- Rows
 * ------------------------------------------------------------------------------------- */

static void read_entries(const struct cop_swap *swap, struct cop_ratio_entry *entries)
{
    double target[COP_SUM_BLOCK], draft[COP_SUM_BLOCK];
    for (int32_t first = 0; first < swap->vocab; first += COP_SUM_BLOCK) {
        int32_t left = swap->vocab - first;
        int32_t count = left < COP_SUM_BLOCK ? left : COP_SUM_BLOCK;
        cop_reading_fill(&swap->target, first, count, target);
        cop_reading_fill(&swap->draft, first, count, draft);
        for (int32_t i = 0; i < count; i++) {
            entries[first + i] = (struct cop_ratio_entry){
                target[i], draft[i], cop_ratio_bits(target[i], draft[i]), first + i};
        }
    }
}

static void add_up(const struct cop_ratio_entry *entries, int32_t n, struct sums *sums)
{
    sums[0] = (struct sums){0};
    for (int32_t i = 0; i < n; i++) {
        const struct cop_ratio_entry *e = &entries[i];
        bool is_finite = e->target > 0 && e->draft > 0;
        sums[i + 1].target = sums[i].target + e->target;
        sums[i + 1].draft = sums[i].draft + e->draft;
        sums[i + 1].divergence =
            sums[i].divergence + (is_finite ? e->target * cop_log(cop_ratio_of(e)) : 0);
    }
}

/* swap->a: alpha, b: beta; choice: everything is kept. */
static void fill(const struct cop_swap *swap, int32_t first, int32_t count, double *out)
{
    double target[COP_SUM_BLOCK];
    cop_reading_fill(&swap->target, first, count, target);
    if (swap->choice) {
        cop_swap_fill_trusted(swap, first, count, target, out);
        return;
    }
    cop_reading_fill(&swap->draft, first, count, out);
    for (int32_t i = 0; i < count; i++) {
        double most = target[i] / swap->a, least = target[i] / swap->b;
        out[i] = out[i] > most ? most : out[i] < least ? least : out[i];
    }
}

static enum cop_status solve_rows(double budget, struct cop_swap *swap, struct cop_error *err)
{
    size_t n = (size_t)swap->vocab;
    struct cop_ratio_entry *entries = malloc(2 * n * sizeof *entries);
    struct sums *sums = malloc((n + 1) * sizeof *sums);
    if (!entries || !sums) {
        free(entries);
        free(sums);
        return cop_fail(err, COP_ERR_MEMORY, "no memory to sort a row of %d tokens",
                        (int)swap->vocab);
    }
    read_entries(swap, entries);
    cop_ratio_sort(entries, swap->vocab, entries + n);
    add_up(entries, swap->vocab, sums);
    struct problem problem = {entries, sums, swap->vocab};
    solve(&problem, budget, &swap->a, &swap->b);
    free(entries);
    free(sums);
    return COP_OK;
}

static enum cop_status prepare_pi(const void *state, struct cop_swap *swap,
                                  struct cop_error *err)
{
    double budget = ((const struct mentored *)state)->budget;
    swap->fill = fill;
    swap->a = swap->b = 1;
    if (!(budget > 0)) {
        return COP_OK;
    }
    swap->choice = cop_divergence(COP_KL_TARGET, &swap->target, &swap->draft) <= budget;
    if (swap->choice) {
        swap->gate.open_draft = swap->gate.shut_draft = 1;
        cop_swap_set_gate(swap, &swap->target, 0);
        return COP_OK;
    }
    return solve_rows(budget, swap, err);
}

static enum cop_status verify(const void *state, const struct cop_verify_in *in,
                              struct cop_verdict *out, struct cop_error *err)
{
    static const struct cop_substitution mentor = {.prepare = prepare_pi, .trusts_draft = true};
    return cop_swap_walk(&mentor, state, "mentored", in, out, err);
}

const struct cop_rule_ops cop_accept_mentored = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_RULE,
             .name = "mentored",
             .help = "the exact rule against the law pi nearest to the draft with KL(target || "
                     "pi) = D: keeps with probability min(1, target / (alpha draft)), else "
                     "draws from norm((target / beta - draft)+), alpha and beta solved at each "
                     "node; everything is kept where KL(target || draft) <= D. Siblings as in "
                     "recursive rejection; the bonus token is the target's. At temperature 0: "
                     "the best token of pi",
             .source = "Tran-Thien 2023, vivien000/mentored_decoding; Tran-Thien, Nock, "
                       "arXiv:2609.30474",
             .synonyms = "optimal lossy speculative decoding",
             .state_size = sizeof(struct mentored),
             .options = options},
    .lossless_for = cop_claims_nothing,
    .defined_for = cop_defined_sampled_tree,
    .needs_draft_rows = true,
    .verify = verify,
    .cost = "2 at each visited node, a sort where not everything is kept, and 1 per refused "
            "sibling",
    .promise =
        "L2, a bound: KL(target || output) <= D at every drafted node, and no rule of this "
        "kind keeps more for it; the output law is pi (L1)",
};
