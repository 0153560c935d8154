/* Summing up the spellings of the target's tokens.
 *
 * A level of the tree takes as many passes as the longest spelling: first the nodes themselves,
 * then the beginnings that their rows made likely, and so on. Own tokens of a cycle hang in the
 * draft's cache as one tree, and are dropped when it is over. */
#include "algorithms/propose/draft_string.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASS = 64 }; /* own rows of one pass */

/* ---- Opening ----------------------------------------------------------------------------- */

enum cop_status cop_draft_string_room(int32_t spellings, const struct cop_sampling *sampling,
                                      const struct cop_model *draft, int32_t n_nodes,
                                      int32_t *n_own, struct cop_error *err)
{
    int32_t vocab = cop_model_info(draft)->vocab_size;
    int32_t kept = sampling->top_k > 0 && sampling->top_k < vocab ? sampling->top_k : vocab;
    int64_t texts = (int64_t)spellings * kept, own = (int64_t)(spellings + COP_STRING_SPELT);
    if (spellings > 1 && texts > COP_STRING_TEXTS) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "vocabulary = \"string\" would sum up %lld texts for a row: %d "
                        "spellings, each followed by any of the draft's %d tokens; at most "
                        "%d: write top_k = %d for the draft's law, spellings = 1 or "
                        "vocabulary = \"intersection\"",
                        (long long)texts, spellings, kept, COP_STRING_TEXTS,
                        COP_STRING_TEXTS / spellings);
    }
    if (own * n_nodes > COP_STRING_OWN) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "vocabulary = \"string\" with %d spellings a row has room for trees of "
                        "%lld nodes, not of %d: write a smaller tree or fewer spellings",
                        spellings, (long long)(COP_STRING_OWN / own) - 1, n_nodes - 1);
    }
    *n_own = (int32_t)(own * n_nodes);
    return COP_OK;
}

static bool make_writings(struct cop_draft_string *string)
{
    const struct cop_drafter *drafter = string->drafter;
    string->writings = calloc((size_t)drafter->n_sequences, sizeof *string->writings);
    bool is_whole = string->writings != NULL;
    for (int32_t i = 0; is_whole && i < drafter->n_sequences; i++) {
        struct cop_string_writing *writing = &string->writings[i];
        writing->number_of = malloc((size_t)string->n_nodes * sizeof(int32_t));
        writing->depth_of = malloc(((size_t)string->n_own + 1) * sizeof(int32_t));
        is_whole = writing->number_of && writing->depth_of;
    }
    string->first_of = malloc((size_t)drafter->draft_vocab * sizeof *string->first_of);
    for (int32_t i = 0; string->first_of && i < drafter->draft_vocab; i++) {
        string->first_of[i] = -2;
    }
    return is_whole && string->first_of;
}

enum cop_status cop_draft_string_open(struct cop_draft_string *string,
                                      struct cop_drafter *drafter,
                                      const struct cop_sampling *sampling, int32_t spellings,
                                      int32_t n_nodes, struct cop_error *err)
{
    *string = (struct cop_draft_string){.drafter = drafter,
                                        .sampling = *sampling,
                                        .spellings = spellings,
                                        .n_nodes = n_nodes,
                                        .n_own = drafter->capacity,
                                        .arena = cop_row_arena_new()};
    enum cop_status status =
        cop_pieces_init(&string->pieces, drafter->map.target, drafter->vocab_size, err);
    if (status == COP_OK && (!make_writings(string) || !string->arena)) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a draft's spellings");
    }
    return status;
}

void cop_draft_string_close(struct cop_draft_string *string)
{
    for (int32_t i = 0; string->writings && i < string->drafter->n_sequences; i++) {
        free(string->writings[i].number_of);
        free(string->writings[i].depth_of);
    }
    free(string->writings);
    free(string->first_of);
    free(string->rows);
    free(string->now.items);
    free(string->next.items);
    cop_text_release(&string->texts);
    cop_text_release(&string->text);
    cop_row_arena_free(string->arena);
    cop_pieces_release(&string->pieces);
    *string = (struct cop_draft_string){0};
}

/* ---- Feeding ----------------------------------------------------------------------------- */

/* The next number for an own token below `parent`; -1: no room in the draft's context. */
static int32_t feed(struct cop_draft_string *string, int32_t sequence, int32_t parent,
                    cop_token own, bool is_wanted)
{
    struct cop_string_writing *writing = &string->writings[sequence];
    int32_t number = writing->count + 1, depth = writing->depth_of[parent] + 1;
    if (number > string->n_own || !cop_drafter_feed_own(string->drafter, sequence, number,
                                                        parent, depth, own, is_wanted)) {
        return -1;
    }
    writing->depth_of[number] = depth;
    writing->count = number;
    return number;
}

static enum cop_status feed_root(struct cop_draft_string *string, int32_t sequence,
                                 int32_t *number, struct cop_error *err)
{
    struct cop_string_writing *writing = &string->writings[sequence];
    memset(writing->number_of, -1, (size_t)string->n_nodes * sizeof(int32_t));
    writing->count = 0;
    writing->depth_of[0] = 0;
    bool is_fed;
    enum cop_status status = cop_drafter_feed_root(string->drafter, sequence, &is_fed, err);
    writing->number_of[0] = *number = is_fed ? 0 : -1;
    return status;
}

/* A node in the draft's spelling. */
static enum cop_status feed_node(struct cop_draft_string *string,
                                 const struct cop_frontier *frontier, int32_t node,
                                 int32_t *number, struct cop_error *err)
{
    struct cop_string_writing *writing = &string->writings[frontier->sequence];
    struct cop_ids *spelt = &string->drafter->spelt;
    const struct cop_tree *tree = frontier->tree;
    spelt->count = 0;
    enum cop_status status =
        cop_glossary_spell(&string->drafter->map, tree->token[node], spelt, err);
    int32_t n = (int32_t)spelt->count, at = writing->number_of[tree->parent[node]];
    at = n == 0 || n > COP_STRING_SPELT ? -1 : at;
    for (int32_t i = 0; i < n && at >= 0 && status == COP_OK; i++) {
        at = feed(string, frontier->sequence, at, spelt->items[i], i == n - 1);
    }
    writing->number_of[node] = *number = at;
    return status;
}

static enum cop_status feed_beginning(struct cop_draft_string *string,
                                      struct cop_beginning *begun, struct cop_error *err)
{
    const struct cop_string_row *row = &string->rows[begun->row];
    const struct cop_frontier *frontier = row->frontier;
    int32_t node = frontier->nodes[row->i];
    if (begun->length > 0) {
        begun->number = feed(string, frontier->sequence, begun->parent, begun->own, true);
        return COP_OK;
    }
    return node == 0 ? feed_root(string, frontier->sequence, &begun->number, err)
                     : feed_node(string, frontier, node, &begun->number, err);
}

/* ---- Passes ------------------------------------------------------------------------------ */

/* Padding is no text: it is gone before the law is shaped. */
static void leave_out_padding(const struct cop_drafter *drafter, float *logits)
{
    for (cop_token id = 0; id < drafter->draft_vocab; id++) {
        if (cop_tokenizer_is_padding(drafter->map.draft, id)) {
            logits[id] = -INFINITY;
        }
    }
}

/* One own row: each token of positive probability is written behind the beginning. */
static enum cop_status read_row(struct cop_draft_string *string,
                                const struct cop_beginning *begun, float *logits,
                                struct cop_error *err)
{
    struct cop_string_row *row = &string->rows[begun->row];
    int32_t vocab = string->drafter->draft_vocab;
    struct cop_error failure = {0};
    struct cop_row own;
    cop_row_arena_reset(string->arena);
    leave_out_padding(string->drafter, logits);
    enum cop_status status =
        cop_row_from_logits(&own, logits, vocab, &string->sampling, string->arena, &failure);
    if (status == COP_OK) {
        status = cop_row_normalise(&own, string->arena, &failure);
    }
    if (status != COP_OK) {
        row->is_over = true;
        struct cop_error *to = row->frontier->error;
        (void)cop_fail(to ? to : err, status, "draft row behind node %d: %s",
                       row->frontier->nodes[row->i], failure.text);
        return to ? COP_OK : status;
    }
    for (cop_token id = 0; id < vocab && status == COP_OK; id++) {
        double q = cop_row_probability(&own, id);
        if (q > 0) {
            status = cop_draft_string_write(string, begun, id, begun->probability * q, err);
        }
    }
    return status;
}

/* Own rows of now[from .. from + n). */
static enum cop_status run_pass(struct cop_draft_string *string, int32_t from, int32_t n,
                                struct cop_error *err)
{
    struct cop_drafter *drafter = string->drafter;
    enum cop_status status = cop_drafter_start(drafter, n * COP_STRING_SPELT, n, err);
    for (int32_t i = from; i < from + n && status == COP_OK; i++) {
        status = feed_beginning(string, &string->now.items[i], err);
    }
    if (status == COP_OK) {
        status = cop_drafter_run_own(drafter, err);
    }
    float *logits = drafter->own.items;
    for (int32_t i = from; i < from + n && status == COP_OK; i++) {
        struct cop_beginning *begun = &string->now.items[i];
        struct cop_string_row *row = &string->rows[begun->row];
        bool is_fed = begun->number >= 0;
        row->is_over |= !is_fed && begun->length == 0;
        if (is_fed && !row->is_over) {
            status = read_row(string, begun, logits, err);
        } else if (!row->is_over) {
            status = cop_draft_string_end(string, begun, err);
        }
        logits += is_fed ? drafter->draft_vocab : 0;
    }
    return status;
}

/* By row, the likeliest first, those written earlier first among equals. */
static int compare_beginnings(const void *a, const void *b)
{
    const struct cop_beginning *x = a, *y = b;
    if (x->row != y->row) {
        return x->row < y->row ? -1 : 1;
    }
    if (x->probability != y->probability) {
        return x->probability > y->probability ? -1 : 1;
    }
    return (x->text > y->text) - (x->text < y->text);
}

/* The likeliest beginnings are read next, as many as their row may; the others end. */
static enum cop_status choose(struct cop_draft_string *string, struct cop_error *err)
{
    struct cop_beginnings spent = string->now;
    enum cop_status status = COP_OK;
    string->now = string->next;
    if (string->now.count > 0) {
        qsort(string->now.items, (size_t)string->now.count, sizeof *string->now.items,
              compare_beginnings);
    }
    int32_t n = 0;
    for (int32_t i = 0; i < string->now.count && status == COP_OK; i++) {
        struct cop_beginning *begun = &string->now.items[i];
        struct cop_string_row *row = &string->rows[begun->row];
        if (row->rest > 0) {
            row->rest--;
            string->now.items[n++] = *begun;
        } else {
            status = cop_draft_string_end(string, begun, err);
        }
    }
    string->now.count = n;
    string->next = spent;
    string->next.count = 0;
    return status;
}

/* ---- A level ----------------------------------------------------------------------------- */

static enum cop_status begin_level(struct cop_draft_string *string,
                                   struct cop_frontier *frontiers, int32_t n_frontiers,
                                   struct cop_floats *level, struct cop_error *err)
{
    int32_t n = 0, vocab = string->drafter->vocab_size;
    for (int32_t f = 0; f < n_frontiers; f++) {
        n += frontiers[f].count;
    }
    if (n > string->rows_capacity) {
        free(string->rows);
        string->rows = malloc((size_t)n * sizeof *string->rows);
        string->rows_capacity = string->rows ? n : 0;
    }
    if (!string->rows || !cop_floats_reserve(level, (size_t)n * (size_t)vocab)) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for %d draft rows", n);
    }
    memset(level->items, 0, (size_t)n * (size_t)vocab * sizeof *level->items);
    string->n_rows = string->now.count = string->next.count = 0;
    string->texts.length = 0;
    enum cop_status status = COP_OK;
    for (int32_t f = 0; f < n_frontiers; f++) {
        for (int32_t i = 0; i < frontiers[f].count && status == COP_OK; i++) {
            int32_t row = string->n_rows++;
            string->rows[row] =
                (struct cop_string_row){.frontier = &frontiers[f],
                                        .i = i,
                                        .rest = string->spellings - 1,
                                        .psi = level->items + (size_t)row * (size_t)vocab};
            status = cop_beginnings_push(
                &string->now, (struct cop_beginning){.row = row, .probability = 1}, err);
        }
    }
    return status;
}

/* A row of the logs of its sums, so that penalties and bans find what they expect. */
static enum cop_status hand_out(struct cop_draft_string *string, struct cop_row_arena *arena,
                                struct cop_error *err)
{
    const struct cop_sampling as_it_is = {.temperature = 1, .top_p = 1};
    const struct cop_row_tokens tokens = {.vocab = string->drafter->vocab_size};
    enum cop_status status = COP_OK;
    for (int32_t r = 0; r < string->n_rows && status == COP_OK; r++) {
        struct cop_string_row *row = &string->rows[r];
        float most = 0;
        for (int32_t id = 0; id < tokens.vocab; id++) {
            most = fmaxf(most, row->psi[id]);
            row->psi[id] = row->psi[id] > 0 ? logf(row->psi[id]) : -INFINITY;
        }
        if (!row->is_over && most > 0) {
            status = cop_frontier_row(row->frontier, row->i, row->psi, &tokens, &as_it_is,
                                      arena, err);
        }
    }
    return status;
}

enum cop_status cop_draft_string_expand(struct cop_draft_string *string,
                                        struct cop_frontier *frontiers, int32_t n_frontiers,
                                        struct cop_floats *level, struct cop_row_arena *arena,
                                        struct cop_error *err)
{
    enum cop_status status = begin_level(string, frontiers, n_frontiers, level, err);
    while (status == COP_OK && string->now.count > 0) {
        for (int32_t i = 0; i < string->now.count && status == COP_OK; i += PASS) {
            int32_t rest = string->now.count - i;
            status = run_pass(string, i, rest < PASS ? rest : PASS, err);
        }
        if (status == COP_OK) {
            status = choose(string, err);
        }
    }
    return status == COP_OK ? hand_out(string, arena, err) : status;
}
