/* The computation that block verification and hierarchical speculative decoding share: one
 * chain, its prefixes weighed as wholes. Equations in block.c. */
#ifndef ALGORITHMS_ACCEPT_BLOCK_H
#define ALGORITHMS_ACCEPT_BLOCK_H

#include "core/cycle/contract/rule.h"

extern const struct cop_rule_ops
    cop_accept_match; /* what every lossless rule is at temperature 0 */

/* `name` is the rule's, for messages. */
enum cop_status cop_block_verify(const char *name, const struct cop_verify_in *in,
                                 struct cop_verdict *out, struct cop_error *err);

#endif
