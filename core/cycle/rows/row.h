/* A probability row: the law of the token after one node, as a view that computes what it is
 * asked for.
 *
 * Over a vocabulary of 49,152 a dense row of doubles costs 400 kB; a tree has 64 rows and a
 * rule visits three. So a row of a model keeps the f32 logits, an inverse temperature, a mask
 * of the tokens that truncation kept and, once somebody asks, the normaliser: probability(i) =
 * exp((logit[i] - max) * inverse_temperature) / normaliser for kept i, 0 else. The exponentials
 * are rounded to f32 once, by normalising, and every later pass reads those: the law of a row
 * is the one that these numbers state, in drawing and in verifying. Everything else is in
 * double. Rows live until the cycle has been observed. */
#ifndef COP_CYCLE_ROW_H
#define COP_CYCLE_ROW_H

#include "core/base/error.h"
#include "core/text/tokenizer.h"
#include <stdbool.h>
#include <stdint.h>

enum cop_row_kind {
    COP_ROW_NONE,
    COP_ROW_LOGITS, /* a model's row, shaped by temperature and truncation */
    COP_ROW_DENSE,  /* probabilities [vocab]: literal rows, enumeration */
    COP_ROW_SPARSE, /* ids and probabilities, ids ascending, everything else 0 */
    COP_ROW_POINTS, /* proposals in order: child j carries ids[j]; to a rule each is a point
                       mass, whatever the proposer thinks of it (weights) */
    COP_ROW_ONE_HOT /* temperature 0: all mass on `best` */
};

struct cop_row {
    enum cop_row_kind kind;
    int32_t vocab;
    const float *logits; /* [vocab] raw: after penalties, bias and bans, before temperature and
                            truncation; NULL: unknown */
    double inverse_temperature; /* LOGITS */
    const uint64_t *mask;       /* LOGITS: bit i set: token i was kept; NULL: all kept */
    double max_logit;           /* LOGITS */
    double normaliser;          /* LOGITS: sum over kept tokens; 0 until cop_row_normalise */
    double inverse_normaliser;
    const float *exponentials; /* LOGITS [vocab]: 0 for tokens that were cut; in the arena */
    const double *block_sums;  /* LOGITS: of the exponentials by COP_SUM_BLOCK, so that a pick
                                  touches one block; in the arena */
    const float *maxima;       /* of `logits` by COP_MAXIMA_GROUP, so that the best are found
                                  without a pass over the row; NULL: unknown; in the arena */
    const double *dense;   /* DENSE [vocab], sums to 1 up to rounding; ONE_HOT of a literal row:
                              that row, else NULL */
    const cop_token *ids;  /* SPARSE, POINTS [count]; LOGITS: NULL, or ascending: all others are
                              at -inf, so that nobody who makes the row looks at them */
    const double *weights; /* SPARSE [count]; POINTS [count]: the proposer's confidence in each,
                              never a law; NULL: none */
    int32_t count;
    cop_token best; /* ONE_HOT; LOGITS: the arg max, ties to the lowest id */
};

/* Sampling settings that make a law out of logits, in the documented order: temperature, top-k
 * (ties with the k-th logit stay), top-p (smallest set whose mass reaches p, at least one
 * token), min-p (relative to the best). NaN or 0: off. */
struct cop_sampling {
    double temperature; /* 0: the arg max */
    int32_t top_k;      /* 0: off */
    double top_p;       /* 1: off */
    double min_p;       /* 0: off */
};
#define COP_SAMPLING_DEFAULT                                                                   \
    ((struct cop_sampling){.temperature = 0, .top_k = 0, .top_p = 1, .min_p = 0})

/* Scratch for shaping rows: masks and sort space, grown by need, reused every cycle. */
struct cop_row_arena;
struct cop_row_arena *cop_row_arena_new(void); /* NULL: no memory */
/* Rows made from it are invalid afterwards. */
void cop_row_arena_reset(struct cop_row_arena *arena);
void cop_row_arena_free(struct cop_row_arena *arena);

/* A row from logits[0..vocab) (borrowed). COP_ERR_NUMERIC if an entry is NaN or +inf, or none
 * is above -inf. Finds the arg max and the maxima in one pass; truncation is applied now, the
 * normaliser when first needed. */
enum cop_status cop_row_from_logits(struct cop_row *row, const float *logits, int32_t vocab,
                                    const struct cop_sampling *sampling,
                                    struct cop_row_arena *arena, struct cop_error *err);

/* The tokens of a row: a vocabulary, and those of it that a drafter with few ids draws from. */
struct cop_row_tokens {
    int32_t vocab;
    const cop_token *ids; /* [n_ids] ascending, lent for the life of the arena: all others are
                             at -inf; NULL: unknown */
    int32_t n_ids;
};
/* The same row, to the last bit, from a look at the blocks of the vocabulary that hold such
 * ids. */
enum cop_status cop_row_from_listed(struct cop_row *row, const float *logits,
                                    const struct cop_row_tokens *tokens,
                                    const struct cop_sampling *sampling,
                                    struct cop_row_arena *arena, struct cop_error *err);

/* Computes normaliser and block sums of a LOGITS row if they are not there yet (one pass over
 * the vocabulary, or what of it is listed). Whoever hands a row to a rule, builder or reader
 * below has normalised it: cop_rows.at does. */
enum cop_status cop_row_normalise(struct cop_row *row, struct cop_row_arena *arena,
                                  struct cop_error *err);

/* 0 outside the vocabulary; POINTS: 1 for ids[0]. */
double cop_row_probability(const struct cop_row *row, cop_token token);
/* The probabilities of tokens [first, first + count). */
void cop_row_fill(const struct cop_row *row, int32_t first, int32_t count, double *out);
/* The k most probable tokens with positive probability, best first, ties to the lowest id
 * (POINTS: in their order). Returns how many. */
int32_t cop_row_top(const struct cop_row *row, int32_t k, cop_token *ids);
/* The k highest raw logits above -inf, whatever the temperature and truncation. Needs
 * row->logits. */
int32_t cop_row_top_logits(const struct cop_row *row, int32_t k, cop_token *ids);
/* The same among the tokens whose probability is above `floor`: what is below costs one pass of
 * comparisons (POINTS: all have probability 1). */
int32_t cop_row_top_above(const struct cop_row *row, double floor, int32_t k, cop_token *ids);
/* Natural log of the sum of exp(raw logit) over the vocabulary, and log-probability under the
 * raw logits. Need row->logits. */
double cop_row_logsumexp(const struct cop_row *row);

/* Rows by index, made when first asked for: how a rule sees the rows of a tree without anybody
 * materialising 64 of them. */
struct cop_rows {
    /* NULL where no row was recorded; normalised; valid until verify returns. */
    const struct cop_row *(*at)(void *context, int32_t index);
    void *context;
};
static inline const struct cop_row *cop_rows_at(const struct cop_rows *rows, int32_t index)
{
    return rows->at(rows->context, index);
}

#endif
