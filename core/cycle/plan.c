/* From options to a plan: checks first, then defaults, then the pairing. */
#include "core/cycle/plan.h"

#include "core/cycle/law/law.h"
#include <math.h>
#include <string.h>

static enum cop_status check_kind(const struct cop_part *part, enum cop_plug_kind kind,
                                  struct cop_error *err)
{
    if (part && part->plug->kind != kind) {
        return cop_fail(err, COP_ERR_ARGUMENT, "\"%s\" is of kind %s where %s is expected",
                        part->plug->name, cop_plug_kind_name(part->plug->kind),
                        cop_plug_kind_name(kind));
    }
    return COP_OK;
}

/* NaN is off, as everywhere where rows are shaped. */
static enum cop_status check_sampling(const struct cop_sampling *sampling,
                                      struct cop_error *err)
{
    if (!(sampling->temperature >= 0) || isinf(sampling->temperature)) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "temperature = %g: must be a number from 0 (the best token) up",
                        sampling->temperature);
    }
    if (sampling->top_k < 0) {
        return cop_fail(err, COP_ERR_ARGUMENT, "top_k = %d: must be 1 or more, or 0 for off",
                        sampling->top_k);
    }
    if (sampling->top_p <= 0 || sampling->top_p > 1) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "top_p = %g: must be above 0 and at most 1 (off)", sampling->top_p);
    }
    if (sampling->min_p < 0 || sampling->min_p > 1) {
        return cop_fail(err, COP_ERR_ARGUMENT, "min_p = %g: must be 0 (off) to 1",
                        sampling->min_p);
    }
    return COP_OK;
}

static enum cop_status check_options(const struct cop_engine_options *options,
                                     struct cop_error *err)
{
    if (!options->target) {
        return cop_fail(err, COP_ERR_ARGUMENT, "no target model is given");
    }
    if (options->batch < 1 || options->batch > COP_BATCH_LIMIT) {
        return cop_fail(err, COP_ERR_ARGUMENT, "batch = %d: must be 1 to %d", options->batch,
                        COP_BATCH_LIMIT);
    }
    const struct cop_part *parts[] = {options->proposer, options->builder, options->rule,
                                      options->length};
    const enum cop_plug_kind kinds[] = {COP_PLUG_PROPOSER, COP_PLUG_BUILDER, COP_PLUG_RULE,
                                        COP_PLUG_LENGTH};
    enum cop_status status = check_sampling(&options->sampling, err);
    if (status == COP_OK) {
        status = cop_processing_check(&options->processing,
                                      cop_model_info(options->target)->vocab_size, err);
    }
    for (int i = 0; i < 4 && status == COP_OK; i++) {
        status = check_kind(parts[i], kinds[i], err);
    }
    return status;
}

/* A part of the registry with default options, not yet prepared. */
static enum cop_status default_part(const struct cop_registry *registry,
                                    enum cop_plug_kind kind, const char *name,
                                    struct cop_part **out, struct cop_error *err)
{
    const struct cop_plug *plug = registry ? cop_registry_find(registry, kind, name) : NULL;
    if (!plug) {
        return cop_fail(err, COP_ERR_ARGUMENT,
                        "no %s is given and the default \"%s\" is not registered",
                        cop_plug_kind_name(kind), name);
    }
    *out = cop_part_new(plug);
    return *out ? COP_OK : cop_fail(err, COP_ERR_MEMORY, "no memory for \"%s\"", name);
}

static enum cop_status choose_rule(struct cop_plan *plan,
                                   const struct cop_engine_options *options,
                                   struct cop_error *err)
{
    if (options->rule) {
        plan->rule = cop_part_share(options->rule);
        return COP_OK;
    }
    const char *name = options->sampling.temperature == 0 ? "match" : "sample_match";
    enum cop_status status =
        default_part(options->registry, COP_PLUG_RULE, name, &plan->rule, err);
    return status == COP_OK ? cop_part_prepare(plan->rule, err) : status;
}

/* Without a given builder, what the proposer would draft by itself: its own tree or chain. */
static enum cop_status choose_builder(struct cop_plan *plan,
                                      const struct cop_engine_options *options,
                                      struct cop_error *err)
{
    if (options->builder || !options->proposer) {
        plan->builder = cop_part_share(options->builder);
        return COP_OK;
    }
    enum cop_status status = cop_proposer_own_tree(plan->proposer, &plan->builder, err);
    if (status != COP_OK || plan->builder) {
        return status;
    }
    status = default_part(options->registry, COP_PLUG_BUILDER, "chain", &plan->builder, err);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_option *depth = cop_option_find(plan->builder->plug->options, "depth");
    double own = plan->proposer_ops->own_depth(plan->proposer->state);
    status =
        depth ? cop_option_set_number(depth, plan->builder->state, own, "cop.tree.chain", err)
              : cop_fail(err, COP_ERR_ARGUMENT, "\"chain\" has no option \"depth\"");
    return status == COP_OK ? cop_part_prepare(plan->builder, err) : status;
}

/* Options about drafts while nobody drafts: a script meant a proposer. Plain decoding in its
 * place would look like speculation that does not pay. A fixed length is the default and says
 * nothing. */
static enum cop_status check_alone(const struct cop_plan *plan,
                                   const struct cop_engine_options *options,
                                   struct cop_error *err)
{
    const struct cop_length_ops *length =
        options->length ? (const struct cop_length_ops *)options->length->plug : NULL;
    const char *about = options->proposer                  ? NULL
                        : options->builder                 ? "tree"
                        : length && !length->is_constant   ? "length"
                        : options->draw != COP_DRAW_AUTO   ? "draw"
                        : plan->rule_ops->needs_draft_rows ? "rule"
                                                           : NULL;
    return !about
               ? COP_OK
               : cop_fail(err, COP_ERR_ARGUMENT,
                          "option \"%s\" is about drafts, but proposer is nil (a constructor "
                          "that fails returns nil and a message); for plain decoding leave "
                          "both out",
                          about);
}

static enum cop_status choose_parts(struct cop_plan *plan,
                                    const struct cop_engine_options *options,
                                    struct cop_error *err)
{
    enum cop_status status = choose_rule(plan, options, err);
    if (status != COP_OK) {
        return status;
    }
    plan->rule_ops = (const struct cop_rule_ops *)plan->rule->plug;
    status = check_alone(plan, options, err);
    if (status != COP_OK) {
        return status;
    }
    if (options->proposer) {
        plan->proposer = cop_part_share(options->proposer);
        plan->proposer_ops = (const struct cop_proposer_ops *)plan->proposer->plug;
    }
    if (options->length) {
        plan->length = cop_part_share(options->length);
        plan->length_ops = (const struct cop_length_ops *)plan->length->plug;
    }
    return choose_builder(plan, options, err);
}

/* Shape and size of the builder's trees, within the limits. */
static enum cop_status check_tree(struct cop_plan *plan, struct cop_error *err)
{
    struct cop_engine_facts *facts = &plan->facts;
    const struct cop_builder_ops *builder = (const struct cop_builder_ops *)plan->builder->plug;
    facts->shape = builder->shape(plan->builder->state);
    facts->depth = builder->depth(plan->builder->state);
    facts->nodes = builder->nodes(plan->builder->state);
    if (facts->nodes < 1 || facts->nodes > COP_TREE_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "\"%s\" makes trees of %d drafted nodes; 1 to %d are possible",
                        builder->plug.name, facts->nodes, COP_TREE_LIMIT);
    }
    plan->candidates = cop_builder_candidates(plan->builder);
    if (plan->candidates < facts->nodes || plan->candidates > COP_DRAFT_LIMIT) {
        return cop_fail(err, COP_ERR_LIMIT,
                        "\"%s\" drafts up to %d nodes and keeps %d; at most %d can be drafted",
                        builder->plug.name, plan->candidates, facts->nodes, COP_DRAFT_LIMIT);
    }
    return COP_OK;
}

static enum cop_status check_pairing(struct cop_plan *plan,
                                     const struct cop_engine_options *options,
                                     struct cop_error *err)
{
    struct cop_engine_facts *facts = &plan->facts;
    struct cop_proposer_facts proposer = {.supply = COP_SUPPLY_DENSE, .n_drafters = 1};
    if (plan->proposer) {
        proposer = cop_proposer_facts(plan->proposer);
    }
    plan->n_drafters = proposer.n_drafters;
    plan->is_cheap = proposer.is_cheap;
    facts->remembers = proposer.remembers;
    plan->offer = proposer.is_cheap    ? plan->proposer_ops->expand
                  : plan->proposer_ops ? plan->proposer_ops->offer
                                       : NULL;
    plan->n_scouts = proposer.n_scouts;
    plan->n_slots = 1;
    struct cop_pairing pairing = {.rule = plan->rule,
                                  .builder = plan->builder,
                                  .length = plan->length,
                                  .proposer = plan->proposer,
                                  .shape = COP_SHAPE_CHAIN,
                                  .supply = (int32_t)proposer.supply,
                                  .n_drafters = proposer.n_drafters,
                                  .draw = options->draw,
                                  .relaxed = options->relaxed,
                                  .is_zero_temperature = options->sampling.temperature == 0};
    enum cop_status status =
        cop_pairing_check(&pairing, &facts->draw, &facts->is_lossless, err);
    if (status == COP_OK && plan->builder) {
        status = check_tree(plan, err);
    }
    if (status != COP_OK || !plan->builder) {
        return status;
    }
    plan->n_slots = proposer.n_slots * (plan->candidates + 1);
    int32_t scored = facts->nodes + 1 + plan->n_scouts;
    plan->n_slots = plan->n_slots > scored ? plan->n_slots : scored;
    return COP_OK;
}

static void note_facts(struct cop_plan *plan, const struct cop_engine_options *options)
{
    const struct cop_model_info *info = cop_model_info(plan->target);
    struct cop_engine_facts *facts = &plan->facts;
    facts->vocab_size = info->vocab_size;
    facts->rule = plan->rule->plug->name;
    facts->builder = plan->builder ? plan->builder->plug->name : NULL;
    facts->proposer = plan->proposer ? plan->proposer->plug->name : NULL;
    facts->length = plan->length ? plan->length->plug->name : NULL;
    bool owes = plan->rule_ops->changes_target && plan->sampling.temperature > 0;
    plan->n_behind = owes ? facts->depth : 0;
    plan->env = (struct cop_proposer_env){.target = plan->target,
                                          .vocab_size = info->vocab_size,
                                          .context = info->context,
                                          .n_sequences = options->batch,
                                          .capacity = plan->candidates,
                                          .sampling = options->sampling,
                                          .cancel = options->cancel};
}

enum cop_status cop_plan_make(struct cop_plan *plan, const struct cop_engine_options *options,
                              struct cop_error *err)
{
    *plan = (struct cop_plan){0};
    enum cop_status status = check_options(options, err);
    if (status != COP_OK) {
        return status;
    }
    plan->target = cop_model_share(options->target);
    plan->sampling = options->sampling;
    plan->processing = options->processing;
    plan->batch = options->batch;
    plan->cancel = options->cancel;
    plan->foreign_us = options->foreign_us;
    status = choose_parts(plan, options, err);
    if (status == COP_OK) {
        status = check_pairing(plan, options, err);
    }
    if (status == COP_OK) {
        note_facts(plan, options);
        status = cop_proposer_layers(plan->proposer_ops,
                                     plan->proposer ? plan->proposer->state : NULL,
                                     plan->target, plan->hidden_layers, &plan->n_hidden, err);
    }
    if (status != COP_OK) {
        cop_plan_release(plan);
    }
    return status;
}

void cop_plan_release(struct cop_plan *plan)
{
    cop_part_free(plan->proposer);
    cop_part_free(plan->builder);
    cop_part_free(plan->rule);
    cop_part_free(plan->length);
    cop_model_free(plan->target);
    *plan = (struct cop_plan){0};
}

enum { SEEN_LIMIT = 16 };
struct seen { /* models that are counted, each once */
    const struct cop_model *models[SEEN_LIMIT];
    int32_t n;
    size_t bytes;
};

static void see_model(struct seen *seen, const struct cop_model *model)
{
    for (int32_t i = 0; i < seen->n; i++) {
        if (seen->models[i] == model) {
            return;
        }
    }
    if (model && seen->n < SEEN_LIMIT) {
        seen->models[seen->n++] = model;
        seen->bytes += cop_model_info(model)->weight_bytes;
    }
}

/* Models among the options of a proposer, and of the proposers among them. */
static void see_part(struct seen *seen, const struct cop_part *part)
{
    const struct cop_option *option = part ? part->plug->options : NULL;
    for (; option && option->name; option++) {
        if (option->type != COP_OPTION_OBJECT) {
            continue;
        }
        void *object =
            *(void *const *)(const void *)((const char *)part->state + option->offset);
        if (strcmp(option->choices, "model") == 0) {
            see_model(seen, object);
        } else if (strcmp(option->choices, "propose") == 0) {
            see_part(seen, object);
        }
    }
}

enum cop_status cop_plan_open(struct cop_plan *plan, void **session, struct cop_error *err)
{
    *session = NULL;
    const struct cop_ops *ops = cop_model_ops(plan->target);
    struct cop_device *device = cop_model_device(plan->target);
    size_t before = ops->held(device);
    enum cop_status status =
        plan->proposer_ops && plan->proposer_ops->open
            ? plan->proposer_ops->open(plan->proposer->state, &plan->env, session, err)
            : COP_OK;
    struct seen seen = {.models = {plan->target}, .n = 1};
    see_part(&seen, plan->proposer);
    plan->facts.draft_bytes = seen.bytes + ops->held(device) - before;
    return status;
}

void cop_plan_close(const struct cop_plan *plan, void *session)
{
    if (plan->proposer_ops && plan->proposer_ops->close) {
        plan->proposer_ops->close(session);
    }
}

enum cop_status cop_engine_check(const struct cop_engine_options *options,
                                 struct cop_engine_facts *facts, struct cop_error *err)
{
    struct cop_plan plan;
    enum cop_status status = cop_plan_make(&plan, options, err);
    if (status != COP_OK) {
        return status;
    }
    void *session = NULL;
    status = cop_plan_open(&plan, &session, err);
    if (status == COP_OK) {
        cop_plan_close(&plan, session);
        if (facts) {
            *facts = plan.facts;
        }
    }
    cop_plan_release(&plan);
    return status;
}
