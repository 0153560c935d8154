/* Speculation is invisible at temperature 0: a pairwise covering array of proposer, tree, rule,
 * precision, threads and batch, each arm's tokens equal to plain decoding's. */
#include "tests/algorithms/engine/array_proposers.h"

enum factor { PROPOSER, TREE, RULE, PRECISION, THREADS, BATCH, FACTORS };
enum {
    CHAIN_1,
    CHAIN_5,
    WIDTHS,
    PATHS,
    MERGED,
    SEQUOIA,
    EXPAND_RERANK,
    BEST_FIRST,
    OPT_TREE,
    THRESHOLD,
    BEAM,
    BEAM_SEARCH,
    TREES
};
enum { MATCH, SAMPLE_MATCH, TOKEN, RULES };

static const int32_t levels[FACTORS] = {PROPOSERS, TREES, RULES, 2, 3, 3};
static const char *const rule_names[RULES] = {"match", "sample_match", "token"};
static const int32_t batches[] = {1, 3, 5};

enum { LEVELS = (int)PROPOSERS > (int)TREES ? (int)PROPOSERS : (int)TREES };
enum { REQUESTS = 5, PROMPT = 24, ANSWER = 40, ARMS = 512 };

/* ---- The array --------------------------------------------------------------------------- */

/* token is for chains; plain decoding has no tree. */
static bool is_legal(const int32_t *arm)
{
    bool is_chain = arm[TREE] == CHAIN_1 || arm[TREE] == CHAIN_5;
    return arm[RULE] != TOKEN || is_chain;
}

static bool next_arm(int32_t *arm)
{
    for (int f = 0; f < FACTORS; f++) {
        if (++arm[f] < levels[f]) {
            return true;
        }
        arm[f] = 0;
    }
    return false;
}

/* seen[f][a][g][b]: a row has level a of factor f and level b of factor g. */
static int32_t n_new_pairs(bool seen[FACTORS][LEVELS][FACTORS][LEVELS], const int32_t *arm,
                           bool mark)
{
    int32_t count = 0;
    for (int f = 0; f < FACTORS; f++) {
        for (int g = f + 1; g < FACTORS; g++) {
            bool *pair = &seen[f][arm[f]][g][arm[g]];
            count += !*pair;
            *pair |= mark;
        }
    }
    return count;
}

/* Greedily, the row with most pairs that no row has yet; returns the number of rows. */
static int32_t make_array(int32_t arms[ARMS][FACTORS])
{
    static bool seen[FACTORS][LEVELS][FACTORS][LEVELS];
    int32_t n = 0;
    for (;;) {
        int32_t arm[FACTORS] = {0}, best[FACTORS] = {0}, most = 0;
        do {
            int32_t pairs = is_legal(arm) ? n_new_pairs(seen, arm, false) : 0;
            if (pairs > most) {
                most = pairs;
                memcpy(best, arm, sizeof best);
            }
        } while (next_arm(arm));
        if (most == 0) {
            return n;
        }
        cr_assert(n < ARMS);
        (void)n_new_pairs(seen, best, true);
        memcpy(arms[n++], best, sizeof best);
    }
}

/* ---- The arms ---------------------------------------------------------------------------- */

static struct cop_model *open_arm_model(const int32_t *arm, double noise)
{
    struct tiny_model description = {.seed = 7,
                                     .noise = noise,
                                     .noise_seed = 1,
                                     .format =
                                         arm[PRECISION] ? COP_FORMAT_Q8_0 : COP_FORMAT_F32};
    struct cop_model_options options = {.precision = arm[PRECISION] ? COP_PRECISION_CHOOSE_INT8
                                                                    : COP_PRECISION_CHOOSE_F32,
                                        .threads = arm[THREADS] + 1};
    return open_model(tiny_model_new(&description), options);
}

/* A builder with one setting, so small that nodes are dropped and budgets bind. */
static struct cop_part *new_small(const char *name, const char *setting, int32_t value)
{
    struct cop_part *part = new_part(COP_PLUG_BUILDER, name);
    return ready(set_number(set_number(part, setting, value), "depth", 3));
}

static struct cop_part *new_tree(int32_t tree)
{
    static const int32_t widths[] = {3, 2, 1};
    /* 0, 00, 01, 1, 000: ranks of each path, one after another */
    static const int32_t ranks[] = {0, 0, 0, 0, 1, 1, 0, 0, 0}, lengths[] = {1, 2, 2, 1, 3};
    switch (tree) {
    case CHAIN_1: return new_chain(1);
    case CHAIN_5: return new_chain(5);
    case WIDTHS: return new_widths(widths, 3);
    case MERGED: return new_independent_paths(3, 4);
    case SEQUOIA: return new_small("sequoia", "budget", 9);
    case EXPAND_RERANK: return new_small("expand_rerank", "top_k", 3);
    case BEST_FIRST: return new_small("best_first", "budget", 7);
    case OPT_TREE: return new_small("opt_tree", "budget", 7);
    case THRESHOLD: return new_small("threshold", "budget", 7);
    case BEAM: return new_small("beam", "width", 3);
    case BEAM_SEARCH: return new_small("beam_search", "width", 3);
    default: return new_paths(ranks, lengths, 5);
    }
}

static cop_token prompts[REQUESTS][PROMPT];

static void make_trials(struct trial *trials)
{
    for (int32_t i = 0; i < REQUESTS; i++) {
        random_prompt(prompts[i], PROMPT, 61, (uint64_t)i);
        trial_init(&trials[i], prompts[i], PROMPT - 4 * i, ANSWER - 3 * i);
        trials[i].request.id = (uint32_t)i;
    }
}

struct sums {
    int64_t drafted, accepted;
};

static void run_arm(const int32_t *arm, struct trial *plain, struct sums *sums)
{
    struct cop_model *target = open_arm_model(arm, 0), *kin = open_arm_model(arm, 0.1);
    struct cop_engine_options options = {.target = target,
                                         .proposer = array_proposer(arm[PROPOSER], target, kin),
                                         .batch = batches[arm[BATCH]]};
    /* What is about drafts is refused where nobody drafts. */
    options.builder = options.proposer ? new_tree(arm[TREE]) : NULL;
    options.rule = new_rule(options.proposer ? rule_names[arm[RULE]] : "match");
    static struct trial trials[REQUESTS];
    make_trials(trials);
    run_trials(&options, trials, REQUESTS);
    for (int32_t i = 0; i < REQUESTS; i++) {
        char what[128];
        snprintf(
            what, sizeof what,
            "proposer %d, tree %d, rule %s, precision %d, threads %d, batch %d, request %d",
            arm[PROPOSER], arm[TREE], rule_names[arm[RULE]], arm[PRECISION], arm[THREADS] + 1,
            batches[arm[BATCH]], i);
        expect_equal_tokens(&trials[i].result, &plain[i].result, what);
        sums->drafted += trials[i].result.drafted;
        sums->accepted += trials[i].result.accepted;
        for (int32_t c = 0; arm[PROPOSER] == TWIN && c < trials[i].n_cycles; c++) {
            /* The deepest path may be another one where probable nodes are kept; the best child
             * of the root is the target's choice all the same. */
            int32_t depth = trials[i].depth[c];
            int32_t least = arm[TREE] <= SEQUOIA ? depth : depth > 0;
            cr_expect_geq(trials[i].accepted[c], least, "%s: cycle %d accepted %d of depth %d",
                          what, c, trials[i].accepted[c], depth);
        }
        trial_release(&trials[i]);
    }
    cop_part_free(options.proposer);
    array_release();
    cop_part_free(options.builder);
    cop_part_free(options.rule);
    cop_model_free(target);
    cop_model_free(kin);
}

Test(engine_greedy, tokens_equal_plain_decoding, .timeout = 280)
{
    static int32_t arms[ARMS][FACTORS];
    static struct trial plain[2][REQUESTS];
    struct sums sums[PROPOSERS] = {{0}};
    int32_t n = make_array(arms);
    cr_expect_geq(n, 12);
    for (int32_t precision = 0; precision < 2; precision++) {
        const int32_t arm[FACTORS] = {[PRECISION] = precision};
        struct cop_model *target = open_arm_model(arm, 0);
        struct cop_engine_options options = {.target = target};
        make_trials(plain[precision]);
        run_trials(&options, plain[precision], REQUESTS);
        cop_model_free(target);
    }
    for (int32_t i = 0; i < n; i++) {
        run_arm(arms[i], plain[arms[i][PRECISION]], &sums[arms[i][PROPOSER]]);
    }
    cr_expect_eq(sums[NONE].drafted, 0);
    for (int32_t p = LOOKUP; p < PROPOSERS; p++) {
        cr_expect_gt(sums[p].drafted, 0, "proposer %d", p);
        cr_expect_gt(sums[p].accepted, 0, "proposer %d", p);
    }
    cr_expect_lt(sums[KIN].accepted, sums[KIN].drafted);
    for (int32_t i = 0; i < REQUESTS; i++) {
        trial_release(&plain[0][i]);
        trial_release(&plain[1][i]);
    }
}
