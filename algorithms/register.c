/* Everything that exists, one line each. A new idea is one file in this folder and one line
 * here. */
#include "algorithms/register.h"

#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/length.h"
#include "core/cycle/contract/proposer.h"
#include "core/cycle/contract/rule.h"

#define EVERYTHING(_)                                                                          \
    _(cop_proposer_ops, cop_propose_eagle)                                                     \
    _(cop_proposer_ops, cop_propose_model)                                                     \
    _(cop_proposer_ops, cop_propose_lookup)                                                    \
    _(cop_proposer_ops, cop_propose_medusa)                                                    \
    _(cop_proposer_ops, cop_propose_hydra)                                                     \
    _(cop_proposer_ops, cop_propose_mlp)                                                       \
    _(cop_proposer_ops, cop_propose_redrafter)                                                 \
    _(cop_proposer_ops, cop_propose_mtp)                                                       \
    _(cop_proposer_ops, cop_propose_ngram_cache)                                               \
    _(cop_proposer_ops, cop_propose_suffix_tree)                                               \
    _(cop_proposer_ops, cop_propose_suffix_automaton)                                          \
    _(cop_proposer_ops, cop_propose_recycling)                                                 \
    _(cop_proposer_ops, cop_propose_retrieval)                                                 \
    _(cop_proposer_ops, cop_propose_lookahead)                                                 \
    _(cop_proposer_ops, cop_propose_jacobi)                                                    \
    _(cop_proposer_ops, cop_propose_layer_skip)                                                \
    _(cop_proposer_ops, cop_propose_staged)                                                    \
    _(cop_proposer_ops, cop_propose_cascade)                                                   \
    _(cop_proposer_ops, cop_propose_mixture)                                                   \
    _(cop_proposer_ops, cop_propose_parallel)                                                  \
    _(cop_builder_ops, cop_tree_chain)                                                         \
    _(cop_builder_ops, cop_tree_widths)                                                        \
    _(cop_builder_ops, cop_tree_paths)                                                         \
    _(cop_builder_ops, cop_tree_independent_paths)                                             \
    _(cop_builder_ops, cop_tree_sequoia)                                                       \
    _(cop_builder_ops, cop_tree_expand_rerank)                                                 \
    _(cop_builder_ops, cop_tree_best_first)                                                    \
    _(cop_builder_ops, cop_tree_opt_tree)                                                      \
    _(cop_builder_ops, cop_tree_threshold)                                                     \
    _(cop_builder_ops, cop_tree_beam)                                                          \
    _(cop_builder_ops, cop_tree_beam_search)                                                   \
    _(cop_rule_ops, cop_accept_match)                                                          \
    _(cop_rule_ops, cop_accept_sample_match)                                                   \
    _(cop_rule_ops, cop_accept_token)                                                          \
    _(cop_rule_ops, cop_accept_recursive)                                                      \
    _(cop_rule_ops, cop_accept_kseq)                                                           \
    _(cop_rule_ops, cop_accept_greedy_draw)                                                    \
    _(cop_rule_ops, cop_accept_spechub)                                                        \
    _(cop_rule_ops, cop_accept_coupled)                                                        \
    _(cop_rule_ops, cop_accept_block)                                                          \
    _(cop_rule_ops, cop_accept_hierarchical)                                                   \
    _(cop_rule_ops, cop_accept_greedy_block)                                                   \
    _(cop_rule_ops, cop_accept_traversal)                                                      \
    _(cop_rule_ops, cop_accept_multipath_block)                                                \
    _(cop_rule_ops, cop_accept_transport)                                                      \
    _(cop_rule_ops, cop_accept_canonical)                                                      \
    _(cop_rule_ops, cop_accept_typical)                                                        \
    _(cop_rule_ops, cop_accept_lenience)                                                       \
    _(cop_rule_ops, cop_accept_additive)                                                       \
    _(cop_rule_ops, cop_accept_ears)                                                           \
    _(cop_rule_ops, cop_accept_mixed)                                                          \
    _(cop_rule_ops, cop_accept_mentored)                                                       \
    _(cop_rule_ops, cop_accept_cascade)                                                        \
    _(cop_rule_ops, cop_accept_ensemble)                                                       \
    _(cop_rule_ops, cop_accept_cactus)                                                         \
    _(cop_rule_ops, cop_accept_contrastive)                                                    \
    _(cop_rule_ops, cop_accept_truncated)                                                      \
    _(cop_rule_ops, cop_accept_sglang_threshold)                                               \
    _(cop_rule_ops, cop_accept_tau_relaxed)                                                    \
    _(cop_rule_ops, cop_accept_fallback_rollback)                                              \
    _(cop_rule_ops, cop_accept_trt_relaxed)                                                    \
    _(cop_rule_ops, cop_accept_top_k)                                                          \
    _(cop_rule_ops, cop_accept_margin)                                                         \
    _(cop_rule_ops, cop_accept_entropy)                                                        \
    _(cop_rule_ops, cop_accept_mars)                                                           \
    _(cop_rule_ops, cop_accept_budgeted)                                                       \
    _(cop_rule_ops, cop_accept_fuzzy)                                                          \
    _(cop_rule_ops, cop_accept_deferred)                                                       \
    _(cop_length_ops, cop_length_fixed)                                                        \
    _(cop_length_ops, cop_length_confidence)                                                   \
    _(cop_length_ops, cop_length_entropy)                                                      \
    _(cop_length_ops, cop_length_schedule)                                                     \
    _(cop_length_ops, cop_length_adaptive)

#define DECLARE(type, name) extern const struct type name;
EVERYTHING(DECLARE)

enum cop_status cop_register_all(struct cop_registry *registry, struct cop_error *err)
{
#define PLUG(type, name) &name.plug,
    static const struct cop_plug *const plugs[] = {EVERYTHING(PLUG)};
    for (size_t i = 0; i < sizeof plugs / sizeof *plugs; i++) {
        enum cop_status status = cop_registry_add(registry, plugs[i], err);
        if (status != COP_OK) {
            return status;
        }
    }
    return COP_OK;
}
