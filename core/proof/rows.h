/* Rows of a drawn case: laws over two to five tokens that depend on the whole prefix, made by a
 * hash of it, so that a case is named by a few numbers.
 *
 * A flavour says in which corner the pair of rows lies: rules fail where tokens are impossible,
 * equally likely, certain, or where target and draft agree to the last bit. */
#ifndef COP_PROOF_ROWS_H
#define COP_PROOF_ROWS_H

#include "core/cycle/law/law.h"

enum cop_proof_flavour {
    COP_PROOF_PLAIN,    /* positive everywhere */
    COP_PROOF_SKEWED,   /* positive, over twelve orders of magnitude */
    COP_PROOF_ZEROS,    /* some tokens impossible, not the same ones for target and draft */
    COP_PROOF_TIES,     /* one of two values */
    COP_PROOF_EQUAL,    /* the draft is the target */
    COP_PROOF_NEAR,     /* and again, but for the last bits */
    COP_PROOF_DISJOINT, /* no token is possible in both */
    COP_PROOF_ONE_HOT,  /* target, draft or both are certain of a token */
    COP_PROOF_FLAVOURS,
    COP_PROOF_MIXED = COP_PROOF_FLAVOURS, /* every prefix has a flavour of its own */
    COP_PROOF_FIXED                       /* the same given row after every prefix */
};
const char *cop_proof_flavour_name(enum cop_proof_flavour flavour);

struct cop_proof_rows {
    int32_t vocab;
    enum cop_proof_flavour flavour;
    uint64_t seed; /* the same for target and draft of a case */
    bool is_draft;
    const double *fixed; /* [vocab] for COP_PROOF_FIXED */
};

/* A cop_row_function over a struct cop_proof_rows. */
enum cop_status cop_proof_row(void *context, const cop_token *prefix, int32_t length,
                              int32_t drafter, double *out, struct cop_error *err);

/* A hash of a sequence of tokens; the source of everything that depends on a prefix here. */
uint64_t cop_proof_hash(uint64_t seed, const cop_token *tokens, int32_t length);

#endif
