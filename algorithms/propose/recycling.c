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
 * One matrix serves all sequences of an engine and stays over its requests. Memory: 32 bytes a
 * token of the vocabulary. */
#include "algorithms/tree/paths.h"
#include "core/cycle/contract/proposer.h"

#include <stdlib.h>
#include <string.h>

enum { SUCCESSORS = 8, UNSEEN_ZERO = 0, UNSEEN_NONE = 1 };

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

struct session {
    const struct recycling *options;
    int32_t vocab_size;
    cop_token (*successors)[SUCCESSORS]; /* [vocab_size]; -1: there are no more */
};

static void close_session(void *opened)
{
    struct session *session = opened;
    if (session) {
        free(session->successors);
    }
    free(session);
}

static enum cop_status open_session(const void *state, const struct cop_proposer_env *env,
                                    void **out, struct cop_error *err)
{
    struct session *session = calloc(1, sizeof *session);
    if (session) {
        session->options = state;
        session->vocab_size = env->vocab_size;
        session->successors = calloc((size_t)env->vocab_size, sizeof *session->successors);
    }
    if (!session || !session->successors) {
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

static enum cop_status expand(void *opened, struct cop_frontier *frontiers, int32_t n_frontiers,
                              struct cop_error *err)
{
    (void)err;
    struct session *session = opened;
    for (int32_t f = 0; f < n_frontiers; f++) {
        const struct cop_frontier *frontier = &frontiers[f];
        for (int32_t i = 0; i < frontier->count; i++) {
            cop_token token = frontier->tree->token[frontier->nodes[i]];
            const cop_token *successors = session->successors[token];
            int32_t count = count_successors(session, successors);
            if (count > 0) {
                frontier->rows[i] = (struct cop_row){.kind = COP_ROW_POINTS,
                                                     .vocab = session->vocab_size,
                                                     .ids = successors,
                                                     .count = count};
            }
        }
    }
    return COP_OK;
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
    .own_depth = own_depth,
    .open = open_session,
    .close = close_session,
    .begin = begin,
    .expand = expand,
    .observe = observe,
    .end = end,
    .own_tree = own_tree,
};
