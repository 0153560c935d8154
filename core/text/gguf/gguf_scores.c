/* Merges by scores: two pieces merge where their text together is a piece, the best score
 * first, the leftmost of equals. So every way to cut a piece in two pieces is a merge, and
 * pieces of equal score share a rank. */
#include "core/text/gguf/gguf_source.h"

#include <stdlib.h>

/* A longer piece would take a square of its length to cut. Real ones have some ten bytes. */
#define LONGEST_PIECE 1024

struct ranked {
    double score;
    int32_t id;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *left = a;
    const struct ranked *right = b;
    if (left->score != right->score) {
        return left->score > right->score ? -1 : 1;
    }
    return (left->id > right->id) - (left->id < right->id);
}

static bool merges(const struct cop_gguf_source *source, int32_t id)
{
    enum cop_piece_kind kind =
        id < 0 ? COP_PIECE_UNUSED : cop_gguf_source_kind(source, (size_t)id);
    return kind == COP_PIECE_NORMAL || kind == COP_PIECE_ADDED;
}

static enum cop_status read_scores(struct cop_gguf_source *source, struct cop_error *err)
{
    static const char key[] = "tokenizer.ggml.scores";
    size_t count;
    enum cop_status status = cop_gguf_numbers(source->file, key, &source->scores, &count, err);
    if (status != COP_OK) {
        return status;
    }
    if (count != source->n_pieces) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: key \"%s\" has %zu items for %zu tokens",
                        source->name, key, count, source->n_pieces);
    }
    for (size_t i = 0; i < count; i++) {
        if (merges(source, (int32_t)i) && source->pieces[i].length > LONGEST_PIECE) {
            return cop_fail(err, COP_ERR_LIMIT,
                            "%s: token %zu has %zu bytes; at most %d can be merged",
                            source->name, i, source->pieces[i].length, LONGEST_PIECE);
        }
    }
    return COP_OK;
}

/* Rank 0 for the best score; equal scores have equal ranks. */
static int32_t *rank_pieces(const struct cop_gguf_source *source)
{
    struct ranked *order = malloc(source->n_pieces * sizeof *order);
    int32_t *ranks = calloc(source->n_pieces, sizeof *ranks);
    if (!order || !ranks) {
        free(order);
        free(ranks);
        return NULL;
    }
    for (size_t i = 0; i < source->n_pieces; i++) {
        order[i] = (struct ranked){source->scores[i], (int32_t)i};
    }
    qsort(order, source->n_pieces, sizeof *order, compare);
    int32_t rank = 0;
    for (size_t i = 0; i < source->n_pieces; i++) {
        rank += i > 0 && order[i].score < order[i - 1].score;
        ranks[order[i].id] = rank;
    }
    free(order);
    return ranks;
}

/* Enters the cuts of a piece (NULL: only counts them). */
static size_t cut_piece(const struct cop_gguf_source *source, int32_t id, int32_t rank,
                        struct cop_merges *table)
{
    struct cop_string piece = source->pieces[id];
    size_t n_cuts = 0;
    for (size_t at = 1; at < piece.length; at++) {
        if (((unsigned char)piece.bytes[at] & 0xC0) == 0x80) {
            continue; /* inside a character */
        }
        int32_t left = cop_names_find(&source->ids, piece.bytes, at);
        if (!merges(source, left)) {
            continue;
        }
        int32_t right = cop_names_find(&source->ids, piece.bytes + at, piece.length - at);
        if (!merges(source, right)) {
            continue;
        }
        if (table) {
            (void)cop_merges_add_ranked(table, left, right, id, rank);
        }
        n_cuts++;
    }
    return n_cuts;
}

enum cop_status cop_gguf_source_scores(struct cop_gguf_source *source, struct cop_merges *table,
                                       struct cop_error *err)
{
    enum cop_status status = read_scores(source, err);
    if (status != COP_OK) {
        return status;
    }
    size_t n_cuts = 0;
    for (size_t i = 0; i < source->n_pieces; i++) {
        n_cuts += merges(source, (int32_t)i) ? cut_piece(source, (int32_t)i, 0, NULL) : 0;
    }
    int32_t *ranks = rank_pieces(source);
    status = ranks ? cop_merges_init(table, n_cuts, err)
                   : cop_fail(err, COP_ERR_MEMORY, "%s: no memory for %zu merges", source->name,
                              n_cuts);
    for (size_t i = 0; status == COP_OK && i < source->n_pieces; i++) {
        if (merges(source, (int32_t)i)) {
            (void)cut_piece(source, (int32_t)i, ranks[i], table);
        }
    }
    free(ranks);
    return status;
}
