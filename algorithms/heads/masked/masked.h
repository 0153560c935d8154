/* Drafters with mask tokens: one pass over the root and the masks behind it gives a row for
 * every position ahead.
 *
 *     committed     t0 … t5   t6 = root   [M]   [M]   [M]
 *     row of                      t7       t8    t9   t10
 *
 * Position k's row knows nothing of what positions before it will carry, unless the family
 * corrects it (`condition`): it is one for all nodes of a level. Masks never stay in a cache. A
 * family says how the pass is made; which positions have rows, and who shares them, is in
 * algorithms/propose/parallel.c. */
#ifndef COP_ALGORITHMS_MASKED_H
#define COP_ALGORITHMS_MASKED_H

#include "algorithms/propose/draft_law.h"
#include "algorithms/propose/subset.h"
#include "core/cycle/contract/proposer.h"

struct cop_masked; /* a part's state */

/* What one pass gave for a sequence: positions 1 to n behind the root; n 0: nothing to go on.
 */
struct cop_masked_rows {
    float *logits;
    size_t stride; /* of rows, at least the target's vocabulary */
    int32_t n;
};

/* Nodes of one level, of all frontiers one after another. */
struct cop_masked_node {
    int32_t sequence, node;
    const struct cop_tree *tree;
};

struct cop_masked_family {
    /* optional: reads masked->path into masked->files, to be freed by close_files also after
     * failure, and says masked->n_positions */
    enum cop_status (*open_files)(struct cop_masked *masked, struct cop_error *err);
    void (*close_files)(void *files); /* NULL is fine */
    /* optional: layers of the target whose states it reads */
    int32_t (*hidden_layers)(const struct cop_masked *masked,
                             const struct cop_model_info *target, int32_t *layers);
    /* For masked->n_positions of them, fewer where the tree cannot be so deep; *run is freed by
     * close, also after failure. */
    enum cop_status (*open)(const struct cop_masked *masked, const struct cop_proposer_env *env,
                            void **run, struct cop_error *err);
    void (*close)(void *run); /* NULL is fine */
    enum cop_status (*begin)(void *run, int32_t sequence, const cop_token *ids, int32_t n,
                             struct cop_error *err);
    enum cop_status (*prefilled)(void *run, const struct cop_prefilled *chunk,
                                 struct cop_error *err); /* with hidden_layers */
    enum cop_status (*observe)(void *run, const struct cop_observed *observed,
                               struct cop_error *err);
    void (*end)(void *run, int32_t sequence);
    bool (*is_over)(void *run, int32_t sequence); /* optional */
    /* rows[f] of frontier f, all at the root; lent until the next draft */
    enum cop_status (*draft)(void *run, const struct cop_frontier *frontiers,
                             int32_t n_frontiers, struct cop_masked_rows *rows,
                             struct cop_error *err);
    /* optional: what the path above a node changes in its row; logits [n, vocabulary] hold
     * those of the pass. May set stops[i]: nothing is proposed below node i. */
    enum cop_status (*condition)(void *run, int32_t depth, const struct cop_masked_node *nodes,
                                 int32_t n, float *logits, bool *stops, struct cop_error *err);
    /* optional: ids that it may draft, ascending; NULL: any */
    const cop_token *(*ids)(const void *run, int32_t *n);
};

struct cop_masked {
    void *model; /* options */
    char *path;
    int32_t mask_token, depth, weights;
    double confidence;
    struct cop_draft_law law;
    struct cop_vocabulary_option vocabulary;
    const struct cop_masked_family *family; /* known once prepared */
    void *files;                            /* of the family, or NULL */
    int32_t n_positions;                    /* that one pass drafts */
};

enum { COP_MASKED_POSITIONS = 256 /* of one pass, at most */ };

extern const struct cop_masked_family cop_masked_model, cop_masked_eagle, cop_masked_dflash,
    cop_masked_dspark;

#endif
