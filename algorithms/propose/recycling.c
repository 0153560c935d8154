/* Token Recycling: the target's own best successors of each token, as it was last seen scored.
 *
 *     matrix  token → its 8 successors     row t: the best 8 of the target's logits at the last
 *                                          scored node that carried t, accepted or not
 *
 * The tree hangs row M[t] below every node of token t. Without a tree of the script's it is the
 * published one of 80 nodes; any other builder may take up to 8 children a node, as deep as it
 * likes. The matrix begins as zeros, as published: below a token that was never scored 8
 * children carry token 0. unseen = "none" drafts nothing there instead.
 *
 * With each successor goes what it had of the eight's probability: the confidence of a draft is
 * the product along its path, for length policies to read and for traces; no shape follows it.
 *
 * One matrix serves all sequences of an engine and stays over its requests. Memory: 40 bytes a
 * token of the vocabulary. */
#include "algorithms/tree/paths.h"
#include "core/cycle/contract/proposer.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESSORS = 8, FULL_SHARE = 255, UNSEEN_ZERO = 0, UNSEEN_NONE = 1 };

struct recycling {
    int32_t unseen;
};

static const struct cop_option options[] = {
    {.name = "unseen",
     .type = COP_OPTION_CHOICE,
     .offset = offsetof(struct recycling, unseen),
     .fallback = UNSEEN_ZERO,
     .choices = "zero|none",
     .help = "what is drafted below a token that was never scored: token 0 as published, or "
             "nothing"},
    {0}};

/* ---- The published tree "2.2.2" --------------------------------------------------------- */

/* A path of child ranks a word. */
static const char published[] =
    "0 1 2 3 4 5 6 7 00 01 02 03 04 05 06 07 10 11 12 13 20 21 22 30 31 40 50 60 70 "
    "000 001 002 003 004 005 006 007 010 011 012 020 021 030 040 050 060 070 100 101 110 200 "
    "300 400 500 0000 0001 0002 0003 0004 0010 0011 0020 0030 0040 0100 0200 1000 2000 3000 "
    "00000 00001 00002 00010 00020 00100 01000 10000 000000 000001 000100";
enum { PUBLISHED_PATHS = 80, PUBLISHED_DEPTH = 6 };

static enum cop_status own_tree(const void *state, struct cop_part **builder,
                                struct cop_error *err)
{
    (void)state;
    int32_t ranks[PUBLISHED_PATHS * PUBLISHED_DEPTH], lengths[PUBLISHED_PATHS] = {0};
    int32_t n = 0, path = 0;
    for (const char *at = published; *at; at++) {
        if (*at == ' ') {
            path++;
        } else {
            ranks[n++] = *at - '0';
            lengths[path]++;
        }
    }
    return cop_tree_paths_new(ranks, lengths, path + 1, builder, err);
}

static int32_t own_depth(const void *state)
{
    (void)state;
    return PUBLISHED_DEPTH;
}

/* ---- Sessions --------------------------------------------------------------------------- */

/* Of one sequence's tree; lives until observe. */
struct drawn {
    double *confidence;            /* [capacity + 1] of the node's path */
    double (*weights)[SUCCESSORS]; /* [capacity + 1] of the row below the node */
};
struct session {
    const struct recycling *options;
    int32_t vocab_size, n_sequences, capacity;
    cop_token (*successors)[SUCCESSORS]; /* [vocab_size]; -1: there are no more */
    uint8_t (*shares)[SUCCESSORS];       /* [vocab_size] of 255 parts of their probability */
    struct drawn *drawn;                 /* [n_sequences] */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (!session) {
        return;
    }
    for (int32_t i = 0; session->drawn && i < session->n_sequences; i++) {
        free(session->drawn[i].confidence);
        free(session->drawn[i].weights);
    }
    free(session->drawn);
    free(session->successors);
    free(session->shares);
    free(session);
}

static bool make_drawn(struct session *session)
{
    size_t nodes = (size_t)session->capacity + 1;
    session->drawn = calloc((size_t)session->n_sequences, sizeof *session->drawn);
    bool is_whole = session->drawn != NULL;
    for (int32_t i = 0; is_whole && i < session->n_sequences; i++) {
        struct drawn *drawn = &session->drawn[i];
        drawn->confidence = malloc(nodes * sizeof *drawn->confidence);
        drawn->weights = malloc(nodes * sizeof *drawn->weights);
        is_whole = drawn->confidence && drawn->weights;
    }
    return is_whole;
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    bool is_whole = false;
    if (session) {
        size_t n = (size_t)env->vocab_size;
        session->options = state;
        session->vocab_size = env->vocab_size;
        session->n_sequences = env->n_sequences;
        session->capacity = env->capacity;
        session->successors = calloc(n, sizeof *session->successors);
        session->shares = calloc(n, sizeof *session->shares);
        is_whole = session->successors && session->shares && make_drawn(session);
    }
    if (!is_whole) {
        close_session(session);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the successors of %d tokens",
                        env->vocab_size);
    }
    *out = session;
    return COP_OK;
}

static enum cop_status begin(void *opened, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err)
{
    (void)opened;
    (void)sequence;
    (void)ids;
    (void)n;
    (void)err;
    return COP_OK;
}

static void end(void *opened, int32_t sequence)
{
    (void)opened;
    (void)sequence;
}

/* Successors are different tokens once they were learnt. */
static bool is_unseen(const cop_token *successors)
{
    return successors[0] == successors[1];
}

static int32_t count_successors(const struct session *session, const cop_token *successors)
{
    if (is_unseen(successors) && session->options->unseen == UNSEEN_NONE) {
        return 0;
    }
    int32_t n = 0;
    while (n < SUCCESSORS && successors[n] >= 0) {
        n++;
    }
    return n;
}

/* Of the path down to a node, whose parent was expanded before it. A token that the parent's
 * row does not have is another drafter's: nothing is known of it. */
static double confidence_of(const struct session *session, const struct cop_frontier *frontier,
                            int32_t node)
{
    const struct drawn *drawn = &session->drawn[frontier->sequence];
    int32_t parent = frontier->tree->parent[node];
    if (parent < 0) {
        return 1;
    }
    const cop_token *successors = session->successors[frontier->tree->token[parent]];
    for (int32_t i = 0; i < SUCCESSORS; i++) {
        if (successors[i] == frontier->tree->token[node]) {
            return drawn->weights[parent][i];
        }
    }
    return drawn->confidence[parent];
}

static void weigh(struct session *session, const struct cop_frontier *frontier, int32_t node)
{
    struct drawn *drawn = &session->drawn[frontier->sequence];
    const uint8_t *shares = session->shares[frontier->tree->token[node]];
    drawn->confidence[node] = confidence_of(session, frontier, node);
    for (int32_t i = 0; i < SUCCESSORS; i++) {
        drawn->weights[node][i] = drawn->confidence[node] * shares[i] / FULL_SHARE;
    }
}

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    for (int32_t f = 0; f < n_frontiers; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        for (int32_t i = 0; i < frontier->count; i++) {
            int32_t node = frontier->nodes[i];
            const cop_token *successors = session->successors[frontier->tree->token[node]];
            int32_t count = count_successors(session, successors);
            weigh(session, frontier, node);
            if (count > 0) {
                frontier->rows[i] = (struct cop_row){
                    .kind = COP_ROW_POINTS,
                    .vocab = session->vocab_size,
                    .ids = successors,
                    .weights = session->drawn[frontier->sequence].weights[node],
                    .count = count};
            }
        }
    }
    return COP_OK;
}

static void share_out(const float *logits, const cop_token *successors, int32_t n,
                      uint8_t *shares)
{
    double parts[SUCCESSORS] = {0}, sum = 0;
    for (int32_t i = 0; i < n; i++) {
        parts[i] = cop_exp((double)logits[successors[i]] - (double)logits[successors[0]]);
        sum += parts[i];
    }
    const bool is_law = sum < HUGE_VAL; /* an infinite logit makes none */
    for (int32_t i = 0; i < SUCCESSORS; i++) {
        shares[i] = is_law ? (uint8_t)(FULL_SHARE * parts[i] / sum + 0.5) : 0;
    }
}

/* Where several nodes carry a token the last one counts. */
static enum cop_status observe(void *opened, const struct cop_observed *observed,
                               struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    const struct cop_tree *tree = observed->tree;
    for (int32_t node = 0; node < tree->size; node++) {
        const struct cop_row *row = cop_rows_at(&observed->target, node);
        if (!row || !row->logits) {
            continue;
        }
        cop_token *successors = session->successors[tree->token[node]];
        int32_t n = cop_row_top_logits(row, SUCCESSORS, successors);
        share_out(row->logits, successors, n, session->shares[tree->token[node]]);
        for (; n < SUCCESSORS; n++) {
            successors[n] = -1;
        }
    }
    return COP_OK;
}

const struct cop_proposer_ops cop_propose_recycling = {
    .plug = {.abi = COP_PLUG_ABI,
             .kind = COP_PLUG_PROPOSER,
             .name = "recycling",
             .help =
                 "the target's 8 best successors of each token when it was last scored, in a "
                 "fixed tree",
             .source = "Luo et al. 2024, arXiv:2408.08696",
             .synonyms = "Token Recycling, TR",
             .state_size = sizeof(struct recycling),
             .options = options},
    .supply = COP_SUPPLY_POINTS,
    .is_cheap = true,
    .remembers = true,
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .own_tree = own_tree,
};
