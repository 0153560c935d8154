/* Two tokenizers side by side: which tokens they share, and how one spells what the other says.
 *
 *     target   "Ġthe" 279    "Ġquantum" 30128    <|im_end|> 151645
 *     draft    "Ġthe" 260    "Ġquant" 8905 "um" 377     <|im_end|> 2
 *
 * Shared are pieces with the same bytes, control tokens among themselves, and the ends of an
 * answer, in their order, where no text pairs them. The map is one to one. A token that is not
 * shared is spelt in the draft's tokens, each token by itself, so that the draft's context is a
 * function of the target's ids alone: it never has to be aligned. */
#ifndef ALGORITHMS_PROPOSE_GLOSSARY_H
#define ALGORITHMS_PROPOSE_GLOSSARY_H

#include "core/text/tokenizer.h"

struct cop_glossary {
    const struct cop_tokenizer *target, *draft; /* lent */
    int32_t target_size, draft_size;            /* rows of the models; ids are below them */
    int32_t *to_draft;                          /* [target_size] -1: not shared */
    int32_t *to_target;                         /* [draft_size] */
    int32_t n_shared;
};

/* Released also after failure. */
enum cop_status cop_glossary_init(struct cop_glossary *glossary,
                                  const struct cop_tokenizer *target, int32_t target_size,
                                  const struct cop_tokenizer *draft, int32_t draft_size,
                                  struct cop_error *err);
void cop_glossary_release(struct cop_glossary *glossary);

/* Appends the draft's spelling of a target token: nothing for padding. */
enum cop_status cop_glossary_spell(const struct cop_glossary *glossary, cop_token token,
                                   struct cop_ids *ids, struct cop_error *err);

/* A row over the target's ids from one over the draft's: what is not shared gets -inf, so that
 * a law shaped from it is the draft's own, suppressed before drawing and renormalised. */
void cop_glossary_row(const struct cop_glossary *glossary, const float *draft, float *target);

#endif
