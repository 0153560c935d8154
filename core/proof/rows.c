/* Rows from hashes. */
#include "core/proof/rows.h"

#include "core/base/hash.h"
#include <float.h>
#include <math.h>
#include <string.h>

const char *cop_proof_flavour_name(enum cop_proof_flavour flavour)
{
    static const char *const names[] = {"plain", "skewed",   "zeros",   "ties",       "equal",
                                        "near",  "disjoint", "one-hot", "mixed rows", "fixed"};
    return names[flavour];
}

uint64_t cop_proof_hash(uint64_t seed, const cop_token *tokens, int32_t length)
{
    uint64_t hash = cop_hash_u64(seed, 0x70726f6f66u);
    for (int32_t i = 0; i < length; i++) {
        hash = cop_hash_u64((uint64_t)tokens[i] + 1, hash);
    }
    return hash;
}

static double uniform(uint64_t hash)
{
    return (double)(hash >> 11) * 0x1p-53;
}

/* What the weights of one row depend on. */
struct pair {
    enum cop_proof_flavour flavour;
    int32_t vocab;
    bool is_draft;
    uint64_t shared; /* hash of the prefix */
    uint64_t own;    /* and of the side: target, or which drafter */
};

static bool is_certain(const struct pair *pair)
{
    uint64_t sides = 1 + pair->shared / 64 % 3; /* bit 0: target, bit 1: draft */
    return pair->flavour == COP_PROOF_ONE_HOT && sides >> pair->is_draft & 1;
}

/* Both sides have at least one token. */
static bool is_mine(const struct pair *pair, int32_t token)
{
    int32_t first = (int32_t)(pair->shared % (uint64_t)pair->vocab);
    if (token == first || token == (first + 1) % pair->vocab) {
        return (token == first) != pair->is_draft;
    }
    return (pair->shared >> (32 + token) & 1) == pair->is_draft;
}

static double weight(const struct pair *pair, int32_t token)
{
    uint64_t bits = cop_hash_u64((uint64_t)token, pair->own);
    bool is_kept = token == (int32_t)(pair->own % (uint64_t)pair->vocab) || bits & 1;
    switch (pair->flavour) {
    case COP_PROOF_SKEWED: return exp2(-40 * uniform(bits));
    case COP_PROOF_ZEROS: return is_kept ? 0.05 + uniform(bits) : 0;
    case COP_PROOF_TIES: return bits >> 8 & 1 ? 1 : 2;
    case COP_PROOF_NEAR:
        return (0.05 + uniform(bits)) *
               (pair->is_draft ? 1 + DBL_EPSILON * ((double)(bits & 7) - 3) : 1);
    case COP_PROOF_DISJOINT: return is_mine(pair, token) ? 0.05 + uniform(bits) : 0;
    case COP_PROOF_ONE_HOT:
        return is_certain(pair) ? token == (int32_t)(pair->own % (uint64_t)pair->vocab)
                                : 0.05 + uniform(bits);
    case COP_PROOF_PLAIN:
    case COP_PROOF_EQUAL:
    case COP_PROOF_MIXED:
    case COP_PROOF_FIXED: break;
    }
    return 0.05 + uniform(bits);
}

enum cop_status cop_proof_row(void *context, const cop_token *prefix, int32_t length,
                              int32_t drafter, double *out, struct cop_error *err)
{
    (void)err;
    const struct cop_proof_rows *rows = context;
    if (rows->flavour == COP_PROOF_FIXED) {
        memcpy(out, rows->fixed, (size_t)rows->vocab * sizeof *out);
        return COP_OK;
    }
    struct pair pair = {.flavour = rows->flavour,
                        .vocab = rows->vocab,
                        .is_draft = rows->is_draft,
                        .shared = cop_proof_hash(rows->seed, prefix, length)};
    if (pair.flavour == COP_PROOF_MIXED) {
        pair.flavour = (enum cop_proof_flavour)(pair.shared / 4096 % COP_PROOF_FLAVOURS);
    }
    bool is_same = pair.flavour == COP_PROOF_EQUAL || pair.flavour == COP_PROOF_NEAR;
    uint64_t side = rows->is_draft && !is_same ? 1 + (uint64_t)drafter : 0;
    pair.own = cop_hash_u64(side, pair.shared);
    double total = 0;
    for (int32_t i = 0; i < rows->vocab; i++) {
        out[i] = weight(&pair, i);
        total += out[i];
    }
    for (int32_t i = 0; i < rows->vocab; i++) {
        out[i] /= total;
    }
    return COP_OK;
}
