/* Greedy multi-path block verification: published numbers, losslessness, and ties. */
#include "tests/algorithms/prefix_laws.h"

static struct fixed_row half = {2, {{.5, .5}}};

Test(multipath_block, numbers_of_the_page)
{
    const struct cop_rule_ops *rule = &cop_accept_multipath_block;
    NEAR(accepted_by(toy(rule, independent_paths_of(1, 2))), 11.0 / 9);
    NEAR(accepted_by(toy(rule, independent_paths_of(2, 2))), 131.0 / 81);
    NEAR(accepted_by(fixed_case(rule, independent_paths_of(1, 2), &half, &half)), 2);
    NEAR(accepted_by(fixed_case(rule, independent_paths_of(2, 2), &half, &half)), 23.0 / 16);
}

static struct cop_part *merged(int32_t i)
{
    static const int32_t sizes[][2] = {{1, 2}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {2, 3}, {5, 1}};
    return independent_paths_of(sizes[i][0], sizes[i][1]);
}

Test(multipath_block, lossless_for_merged_paths)
{
    struct sweep sweep = {&cop_accept_multipath_block,
                          COP_DRAW_INDEPENDENT,
                          merged,
                          {4, 5, 3, 4, 2, 2, 3},
                          .salts = 3};
    cr_expect_gt(expect_lossless(&sweep), 300);
}

/* Half of the nodes stop, by tokens that the selected path does not carry. */
Test(multipath_block, refuses_lengths_that_follow_tokens)
{
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    struct cop_law_case what =
        fixed_case(&cop_accept_multipath_block, independent_paths_of(2, 2), &target, &draft);
    what.length = part_of(&cop_length_confidence.plug);
    struct cop_law law;
    struct cop_error err;
    cr_expect_eq(cop_law_enumerate(&law, &what, &err), COP_ERR_UNSOUND);
    cr_expect_str_eq(err.text,
                     "accept.multipath_block is lossless only where every cycle drafts to the "
                     "same depth, and the draft length \"confidence\" varies; use "
                     "cop.length.fixed {}, or say relaxed = true");
    what.relaxed = true;
    cr_assert_eq(cop_law_enumerate(&law, &what, &err), COP_OK);
    cr_expect_gt(law.total_variation, .001, "%g", law.total_variation);
    cop_law_release(&law);
    free_case(&what);
    what = fixed_case(&cop_accept_multipath_block, independent_paths_of(2, 3), &target, &draft);
    what.length = cop_part_new(&cop_length_fixed.plug);
    cr_assert_eq(
        cop_option_set_number(&what.length->plug->options[0], what.length->state, 2, "t", &err),
        COP_OK);
    NEAR(accepted_by(what), 1.5508);
}

static struct cop_part *chains(int32_t i)
{
    return chain_of(i + 1);
}

Test(multipath_block, one_path_is_block_verification)
{
    expect_same_laws(&cop_accept_multipath_block, &cop_accept_block, chains, 3);
}

Test(multipath_block, match_at_temperature_zero)
{
    expect_match_at_zero(&cop_accept_multipath_block, merged, 7, COP_DRAW_INDEPENDENT);
}

/* ---- Written out over small vocabularies, and the tie that breaks it
 * ---------------------------- */

static bool ties_by_draw_order;

struct written { /* one level of the selected path */
    int32_t vocab;
    double p[5], q[5], selected[5], w;
};

/* Position of t among tokens; the published code clamps ratios at 1, ties then go by id. */
static bool is_before(const struct written *l, cop_token a, cop_token b)
{
    double ra = l->p[a] / l->q[a], rb = l->p[b] / l->q[b];
    ra = ties_by_draw_order ? fmin(1, ra) : ra;
    rb = ties_by_draw_order ? fmin(1, rb) : rb;
    return ra < rb || (ra <= rb && a < b);
}

static int32_t choose_child(const struct cop_tree *tree, const struct written *l, int32_t node)
{
    int32_t best = -1;
    for (int32_t j = 0, child; (child = cop_tree_child(tree, node, j)) > 0; j++) {
        cop_token a = best < 0 ? 0 : tree->token[best], b = tree->token[child];
        bool is_higher = best < 0 || is_before(l, a, b);
        if (best > 0 && ties_by_draw_order) { /* the first drawn among equals */
            is_higher = fmin(1, l->p[a] / l->q[a]) < fmin(1, l->p[b] / l->q[b]);
        }
        best = is_higher ? child : best;
    }
    return best;
}

static enum cop_status verify_written_out(const void *state, const struct cop_verify_in *in,
                                          struct cop_verdict *out, struct cop_error *err)
{
    (void)state, (void)err;
    struct written levels[4] = {{.w = 1}};
    double below = 0, at = 1, k = in->tree->multiplicity[0];
    int32_t n = 0, node = 0;
    for (;; n++) {
        struct written *l = &levels[n];
        int32_t child = cop_tree_child(in->tree, node, 0);
        l->vocab = cop_rows_at(&in->target, node)->vocab;
        cop_row_fill(cop_rows_at(&in->target, node), 0, l->vocab, l->p);
        if (child < 0) {
            break;
        }
        cop_row_fill(cop_rows_at(&in->draft, child), 0, l->vocab, l->q);
        child = choose_child(in->tree, l, node);
        double chosen_before = 0;
        for (cop_token t = 0; t < l->vocab; t++) {
            double before = 0;
            for (cop_token u = 0; u < l->vocab; u++) {
                before += u != t && is_before(l, u, t) ? l->q[u] : 0;
            }
            l->selected[t] =
                (pow(below + at * (before + l->q[t]), k) - pow(below + at * before, k)) /
                (pow(below + at, k) - pow(below, k));
            chosen_before = t == in->tree->token[child] ? before : chosen_before;
        }
        cop_token x = in->tree->token[child];
        levels[n + 1].w = fmin(1, l->w * l->p[x] / l->selected[x]);
        below += at * chosen_before;
        at *= l->q[x];
        out->accepted[n] = node = child;
    }
    for (int32_t i = n; i >= 0; i--) {
        struct written *l = &levels[i];
        double above = 0, lack = 0, h = l->w;
        for (cop_token t = 0; i < n && t < l->vocab; t++) {
            double rest = l->w * l->p[t] - l->selected[t];
            above += fmax(0, rest);
            lack += fmax(0, -rest);
            l->p[t] = l->w < 1 || rest > 0 || i == 0 ? fmax(0, rest) : 0;
        }
        h = i < n && l->w < 1 ? above / lack : h;
        if (i > 0 && !cop_flip(in->draws, 1, in->tree->key[out->accepted[i - 1]], h)) {
            continue;
        }
        struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = l->vocab, .dense = l->p};
        struct cop_weights weights = cop_row_weights(&row);
        out->n_accepted = i;
        out->last = cop_pick(in->draws, 2, 0, &weights);
        break;
    }
    return COP_OK;
}
static const struct cop_claim paths_only[] = {{COP_DRAW_INDEPENDENT, COP_SHAPE_PATHS, false},
                                              {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops written_out = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "written_out"},
    .lossless_for = paths_only,
    .verify = verify_written_out};

Test(multipath_block, is_what_the_paper_writes)
{
    static struct fixed_row target = {3, {{.5, .3, .2}}}, draft = {3, {{.2, .3, .5}}};
    for (int32_t i = 0; i < 4; i++) {
        struct cop_law laws[] = {
            law_of(fixed_case(&cop_accept_multipath_block, merged(i), &target, &draft)),
            law_of(fixed_case(&written_out, merged(i), &target, &draft))};
        expect_same_outcomes(&laws[0], &laws[1]);
        cop_law_release(&laws[0]);
        cop_law_release(&laws[1]);
    }
}

Test(multipath_block, ties_must_be_broken_alike)
{
    static struct fixed_row third = {3, {{1.0 / 3, 1.0 / 3, 1.0 / 3}}};
    struct cop_law law;
    ties_by_draw_order = true;
    law = law_of(fixed_case(&written_out, independent_paths_of(2, 2), &half, &half));
    NEAR(law.total_variation, 17.0 / 105);
    cop_law_release(&law);
    law = law_of(fixed_case(&written_out, independent_paths_of(2, 2), &third, &third));
    cr_expect_gt(law.total_variation, .01, "%g", law.total_variation);
    cop_law_release(&law);
}
