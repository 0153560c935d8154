/* The check of rules sees what is broken, and only that. */
#include "tests/algorithms/accept/controls.h"
#include "tests/algorithms/laws.h"

#include "algorithms/register.h"
#include "core/proof/check.h"

#include <criterion/parameterized.h>

static const struct cop_registry *registry(void)
{
    static struct cop_registry all;
    struct cop_error err;
    if (all.count == 0) {
        cr_assert_eq(cop_register_all(&all, &err), COP_OK, "%s", err.text);
    }
    return &all;
}

/* Checks all pairs of a rule; returns whether every one holds, and describes the last one. */
static bool holds(const struct cop_plug *plug, int32_t cases, struct cop_proof_pair *pair)
{
    struct cop_proof_pair pairs[16];
    struct cop_error err;
    struct cop_part *rule = part_of(plug);
    struct cop_proof_plan plan = {
        .registry = registry(), .rule = rule, .seed = 17, .cases = cases, .threads = 2};
    int32_t n = cop_proof_pairs((const struct cop_rule_ops *)plug, pairs, 16);
    bool result = n > 0;
    for (int32_t i = 0; i < n; i++) {
        cr_assert_eq(cop_proof_run(&plan, &pairs[i], &err), COP_OK, "%s", err.text);
        *pair = pairs[i];
        result = result && cop_proof_holds(&pairs[i]);
    }
    cop_part_free(rule);
    return result;
}

static bool is_sound(const struct cop_plug *plug)
{
    return strncmp(plug->name, "sound_", 6) == 0;
}

Test(controls, broken_ones_are_flagged_and_their_sound_twins_pass)
{
    int n_sound = 0, n_broken = 0;
    for (int i = 0; control_plugs[i]; i++) {
        struct cop_proof_pair pair = {0};
        bool result = holds(control_plugs[i], 400, &pair);
        cr_expect_eq(result, is_sound(control_plugs[i]), "%s: %s, worst %.3g in %s",
                     control_plugs[i]->name, pair.problem, pair.worst, pair.at);
        n_sound += is_sound(control_plugs[i]);
        n_broken += !is_sound(control_plugs[i]);
    }
    cr_expect_eq(n_sound, 6);
    cr_expect_geq(n_broken, 9 + 6);
}

/* Every registered rule that calls itself lossless, on fewer cases than the verb takes. */
Test(controls, registered_rules_hold)
{
    for (size_t i = 0; i < registry()->count; i++) {
        const struct cop_plug *plug = registry()->plugs[i];
        struct cop_proof_pair pair = {0};
        if (plug->kind == COP_PLUG_RULE &&
            ((const struct cop_rule_ops *)plug)->lossless_for[0].draw != COP_DRAW_AUTO) {
            cr_expect(holds(plug, 120, &pair), "%s: %s, worst %.3g in %s", plug->name,
                      pair.problem, pair.worst, pair.at);
            cr_expect_eq(pair.weaker_at_zero, 0, "%s keeps less than match", plug->name);
        }
    }
}

/* ---- Known deviations (exact_rules.md 8.8)
 * ----------------------------------------------------
 */

static struct cop_law law_on(const struct cop_rule_ops *rule, struct cop_part *builder,
                             struct fixed_row *target, struct fixed_row *draft)
{
    return law_of((struct cop_law_case){.rule = part_of(&rule->plug),
                                        .builder = builder,
                                        .vocab = target->vocab,
                                        .target = fixed_rows,
                                        .draft = fixed_rows,
                                        .target_context = target,
                                        .draft_context = draft});
}

static struct fixed_row half = {2, {{.5, .5}}}, sure = {2, {{.7, .3}}};

Test(controls, known_deviations)
{
    struct cop_law law = law_on(&drops_stopper_rule, chain_of(1), &half, &half);
    NEAR(law.total_variation, 1.0 / 4);
    NEAR(law.position[0], 3.0 / 4);
    cop_law_release(&law);
    law = law_on(&best_as_sample_rule, chain_of(1), &half, &sure);
    NEAR(law.total_variation, 3.0 / 14);
    NEAR(law.position[0], 5.0 / 7);
    cop_law_release(&law);
    law = law_on(&uncapped_last_rule, chain_of(2), &toy_target, &toy_draft);
    NEAR(law.total_variation, 1.0 / 9);
    NEAR(law.expected_accepted, 4.0 / 3);
    cop_law_release(&law);
    law = law_on(&uncapped_last_rule, chain_of(3), &toy_target, &toy_draft);
    NEAR(law.total_variation, 5.0 / 81);
    NEAR(law.expected_accepted, 16.0 / 9);
    cop_law_release(&law);
}

/* Their sound twins give the numbers of 8.2 and 8.3, so they are the rules they mean to be. */
Test(controls, twins_are_the_real_rules)
{
    static struct fixed_row target = {3, {{.3, .4, .3}}}, draft = {3, {{.6, .3, .1}}};
    struct cop_law law = law_on(&sound_block_rule, chain_of(3), &toy_target, &toy_draft);
    NEAR(law.expected_accepted, 5.0 / 3);
    cop_law_release(&law);
    law = law_on(&sound_traversal_rule, widths_of("12"), &target, &draft);
    NEAR(law.expected_accepted, 27.0 / 20);
    cop_law_release(&law);
    law = law_on(&sound_without_rule, widths_of("12"), &target, &draft);
    NEAR(law.expected_accepted, 21.0 / 16);
    cop_law_release(&law);
}

static struct cop_part *merged_of(int32_t count, int32_t depth)
{
    struct cop_part *part = NULL;
    struct cop_error err;
    cr_assert_eq(cop_proof_merged(&part, registry(), count, depth, &err), COP_OK, "%s",
                 err.text);
    return part;
}

Test(controls, ties_that_disagree)
{
    struct cop_law law = law_on(&ties_disagree_rule, merged_of(2, 2), &half, &half);
    NEAR(law.total_variation, 17.0 / 105);
    cop_law_release(&law);
    law = law_on(&sound_multipath_rule, merged_of(2, 2), &toy_target, &toy_draft);
    NEAR(law.expected_accepted, 131.0 / 81);
    cop_law_release(&law);
    law = law_on(&sound_multipath_rule, merged_of(2, 2), &half, &half);
    NEAR(law.expected_accepted, 23.0 / 16);
    cop_law_release(&law);
}

/* The same seed gives the same cases, whatever the number of threads. */
Test(controls, a_check_repeats)
{
    struct cop_proof_pair first = {0}, second = {0};
    cr_expect_not(holds(&twins_skipped_rule.plug, 300, &first));
    cr_expect_not(holds(&twins_skipped_rule.plug, 300, &second));
    cr_expect_eq(first.branches, second.branches);
    cr_expect_eq(first.cases, second.cases);
    cr_expect_eq(first.worst, second.worst);
    cr_expect_str_eq(first.at, second.at);
}
