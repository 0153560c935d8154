/* The loss of rows: the divergence of a head's law from the target's k likeliest tokens,
 * renormalised. The soft-max runs over candidates instead of the vocabulary: all labels of the
 * batch, and others drawn by chance, each of which stands for (others) / (drawn) of its kind.
 *
 *     loss(row) = weight * sum over labels of p (ln p - ln q)
 *     d logit(c) = weight * (q(c) - p(c))
 */
#ifndef COP_NETWORKS_CHOICE_H
#define COP_NETWORKS_CHOICE_H

#include "algorithms/networks/network.h"

struct cop_choice {
    int32_t vocab, samples, limit;
    int32_t *place;           /* [vocab] of a token among the candidates, or -1 */
    cop_token *ids;           /* [limit] */
    int32_t n, n_sure;        /* candidates; of them labels */
    cop_real offset;          /* of the others' logits */
    const cop_real *gathered; /* the frozen output layer whose rows `matrix` holds, or NULL */
    double *row_losses;       /* [rows of a batch] */
    /* Grown by need. */
    cop_real *matrix, *logits, *d_matrix;
    size_t matrix_capacity, logits_capacity;
};

enum cop_status cop_choice_init(struct cop_choice *choice, int32_t vocab, int32_t samples,
                                int32_t rows, int32_t labels, struct cop_error *err);
void cop_choice_release(struct cop_choice *choice);

/* The candidates of a batch; row_of as of an output layer. key names the chance. */
void cop_choice_draw(struct cop_choice *choice, const struct cop_train_batch *batch,
                     const int32_t *row_of, int32_t rows, const uint32_t key[2], int64_t step);

struct cop_choice_rows {
    const struct cop_train_batch *batch;
    int32_t shift;     /* the label of row r is that of row r + shift in its window */
    double weight;     /* of this depth */
    const cop_real *x; /* [n, inner] what the output layer reads */
    cop_real *d_x;     /* [n, inner] out; NULL: not wanted */
};
/* The loss (a mean over rows by their weights, times the depth's weight). Gradients of a
 * trained matrix are added. */
double cop_choice_loss(struct cop_choice *choice, struct cop_products *products,
                       const struct cop_train_output *output,
                       const struct cop_choice_rows *rows);

#endif
