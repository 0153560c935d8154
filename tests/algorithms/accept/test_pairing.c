/* Which combinations are taken, which draw AUTO becomes, and what the refusals say. */
#include "core/cycle/contract/proposer.h"
#include "tests/algorithms/laws.h"

static struct cop_error err;
static enum cop_draw resolved;
static bool is_lossless;

enum { CHAIN, WIDTHS, TWOS, STAR };

struct request {
    const struct cop_rule_ops *rule;
    int builder;
    enum cop_draw draw;
    enum cop_supply supply;
    bool relaxed, is_zero;
};

static enum cop_status check(struct request r)
{
    struct cop_pairing pairing = {.rule = part_of(&r.rule->plug),
                                  .builder = r.builder == CHAIN    ? chain_of(3)
                                             : r.builder == WIDTHS ? widths_of("32")
                                             : r.builder == TWOS   ? widths_of("22")
                                                                   : paths_of("0 1 00 01"),
                                  .supply = (int32_t)r.supply,
                                  .draw = r.draw,
                                  .relaxed = r.relaxed,
                                  .is_zero_temperature = r.is_zero};
    err = (struct cop_error){.code = COP_OK};
    resolved = COP_DRAW_COUNT;
    enum cop_status status = cop_pairing_check(&pairing, &resolved, &is_lossless, &err);
    cop_part_free((struct cop_part *)(uintptr_t)pairing.rule);
    cop_part_free((struct cop_part *)(uintptr_t)pairing.builder);
    return status;
}

#define DENSE  COP_SUPPLY_DENSE
#define POINTS COP_SUPPLY_POINTS
#define MATCH  &cop_accept_match
#define SAMPLE &cop_accept_sample_match
#define TOKEN  &cop_accept_token

Test(pairing, accepted)
{
    static const struct {
        struct request request;
        enum cop_draw draw;
        bool is_lossless;
    } cases[] = {
        /* AUTO: the rule's first claim that builder and proposer fit. */
        {{TOKEN, CHAIN, COP_DRAW_AUTO, DENSE, false, false}, COP_DRAW_INDEPENDENT, true},
        {{TOKEN, CHAIN, COP_DRAW_AUTO, POINTS, false, false}, COP_DRAW_INDEPENDENT, true},
        {{SAMPLE, CHAIN, COP_DRAW_AUTO, DENSE, false, false}, COP_DRAW_DETERMINISTIC, true},
        {{SAMPLE, WIDTHS, COP_DRAW_AUTO, POINTS, false, false}, COP_DRAW_DETERMINISTIC, true},
        {{SAMPLE, WIDTHS, COP_DRAW_INDEPENDENT, DENSE, false, false},
         COP_DRAW_INDEPENDENT,
         true},
        {{SAMPLE, WIDTHS, COP_DRAW_WITHOUT_REPLACEMENT, COP_SUPPLY_SPARSE, false, false},
         COP_DRAW_WITHOUT_REPLACEMENT,
         true},
        /* Temperature 0: deterministic whatever was asked for. */
        {{MATCH, WIDTHS, COP_DRAW_AUTO, POINTS, false, true}, COP_DRAW_DETERMINISTIC, true},
        {{MATCH, WIDTHS, COP_DRAW_INDEPENDENT, DENSE, false, true},
         COP_DRAW_DETERMINISTIC,
         true},
        {{SAMPLE, WIDTHS, COP_DRAW_AUTO, DENSE, false, true}, COP_DRAW_DETERMINISTIC, true},
        {{TOKEN, CHAIN, COP_DRAW_AUTO, DENSE, false, true}, COP_DRAW_DETERMINISTIC, true},
        /* Relaxed: anything that can be drawn. */
        {{MATCH, CHAIN, COP_DRAW_AUTO, DENSE, true, false}, COP_DRAW_INDEPENDENT, false},
        {{MATCH, WIDTHS, COP_DRAW_AUTO, POINTS, true, false}, COP_DRAW_DETERMINISTIC, false},
        {{TOKEN, WIDTHS, COP_DRAW_AUTO, DENSE, true, false}, COP_DRAW_INDEPENDENT, false},
        {{TOKEN, CHAIN, COP_DRAW_DETERMINISTIC, DENSE, true, false},
         COP_DRAW_DETERMINISTIC,
         false},
        {{SAMPLE, CHAIN, COP_DRAW_GREEDY, DENSE, false, false}, COP_DRAW_GREEDY, true},
        {{SAMPLE, WIDTHS, COP_DRAW_GREEDY, DENSE, false, false}, COP_DRAW_GREEDY, true},
        {{SAMPLE, TWOS, COP_DRAW_HUB_PAIR, DENSE, false, false}, COP_DRAW_HUB_PAIR, true},
        {{SAMPLE, STAR, COP_DRAW_HUB_PAIR, DENSE, false, false}, COP_DRAW_HUB_PAIR, true},
        {{TOKEN, CHAIN, COP_DRAW_INDEPENDENT, DENSE, true, false}, COP_DRAW_INDEPENDENT, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(check(cases[i].request), COP_OK, "case %zu: %s", i, err.text);
        cr_expect_eq(resolved, cases[i].draw, "case %zu: %s", i, cop_draw_name(resolved));
        cr_expect_eq(is_lossless, cases[i].is_lossless, "case %zu", i);
    }
}

Test(pairing, refused)
{
    static const struct {
        struct request request;
        enum cop_status status;
        const char *text;
    } cases[] = {
        {{MATCH, CHAIN, COP_DRAW_AUTO, DENSE, false, false},
         COP_ERR_UNSOUND,
         "accept.match is lossless at temperature 0 only; use cop.accept.sample_match {} "
         "(lossless "
         "for every draw and shape), or say relaxed = true"},
        {{TOKEN, WIDTHS, COP_DRAW_AUTO, DENSE, false, false},
         COP_ERR_UNSOUND,
         "accept.token is lossless for independent × chain only, not on a tree; use "
         "cop.accept.sample_match {} (lossless for every draw and shape), or say relaxed = "
         "true"},
        {{TOKEN, CHAIN, COP_DRAW_DETERMINISTIC, DENSE, false, false},
         COP_ERR_UNSOUND,
         "accept.token is not lossless for draw = \"deterministic\" on a chain; write draw = "
         "\"independent\", or use cop.accept.sample_match {} (lossless for every draw and "
         "shape), or say relaxed = true"},
        {{TOKEN, WIDTHS, COP_DRAW_AUTO, POINTS, false, true},
         COP_ERR_UNSOUND,
         "accept.token is lossless for independent × chain only, not on a tree, at temperature "
         "0 either; use cop.accept.sample_match {} (lossless for every draw and shape), or say "
         "relaxed = true"},
        {{SAMPLE, WIDTHS, COP_DRAW_HUB_PAIR, DENSE, false, false},
         COP_ERR_ARGUMENT,
         "draw = \"hub_pair\" draws two children of every node that has any: write "
         "cop.tree.widths with every width 2, as { 2 } or { 2, 2 }"},
        {{SAMPLE, CHAIN, COP_DRAW_HUB_PAIR, DENSE, false, false},
         COP_ERR_ARGUMENT,
         "cop.tree.chain cannot pick children by draw = \"hub_pair\"; it can by "
         "\"independent\", \"without_replacement\", \"deterministic\" or \"greedy_draw\""},
        {{SAMPLE, WIDTHS, COP_DRAW_INDEPENDENT, POINTS, true, false},
         COP_ERR_ARGUMENT,
         "draw = \"independent\" needs probabilities, and the proposer supplies points without "
         "any; use draw = \"deterministic\""},
        {{SAMPLE, CHAIN, COP_DRAW_WITHOUT_REPLACEMENT, POINTS, false, false},
         COP_ERR_ARGUMENT,
         "draw = \"without_replacement\" needs probabilities, and the proposer supplies points "
         "without any; use draw = \"deterministic\""},
        {{SAMPLE, WIDTHS, COP_DRAW_BEAM, DENSE, true, false},
         COP_ERR_ARGUMENT,
         "cop.tree.widths cannot pick children by draw = \"beam\"; it can by \"independent\", "
         "\"without_replacement\", \"deterministic\", \"greedy_draw\" or \"hub_pair\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(check(cases[i].request), cases[i].status, "case %zu", i);
        cr_expect_str_eq(err.text, cases[i].text);
    }
}

static enum cop_status no_verify(const void *state, const struct cop_verify_in *in,
                                 struct cop_verdict *out, struct cop_error *error)
{
    (void)state, (void)in, (void)out, (void)error;
    return COP_OK;
}
static const struct cop_claim nothing[] = {{.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops typical = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "typical"},
    .lossless_for = nothing,
    .verify = no_verify};

Test(pairing, rules_without_claims)
{
    cr_expect_eq(check((struct request){&typical, CHAIN, COP_DRAW_AUTO, DENSE, false, true}),
                 COP_ERR_UNSOUND);
    cr_expect_str_eq(
        err.text,
        "accept.typical changes the output distribution by design; say relaxed = "
        "true, or use cop.accept.sample_match {} (lossless for every draw and shape)");
    cr_expect_eq(check((struct request){&typical, CHAIN, COP_DRAW_AUTO, DENSE, true, false}),
                 COP_OK);
    cr_expect_eq(resolved, COP_DRAW_INDEPENDENT);
    cr_expect_not(is_lossless);
}

static const struct cop_claim ordered[] = {
    {COP_DRAW_BEAM, COP_SHAPE_TREE, false},
    {COP_DRAW_WITHOUT_REPLACEMENT, COP_SHAPE_CHAIN, false},
    {COP_DRAW_INDEPENDENT, COP_SHAPE_TREE, false},
    {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops picky = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "picky"},
    .lossless_for = ordered,
    .verify = no_verify};

Test(pairing, auto_takes_claims_in_their_order)
{
    cr_expect_eq(check((struct request){&picky, CHAIN, COP_DRAW_AUTO, DENSE, false, false}),
                 COP_OK);
    cr_expect_eq(resolved, COP_DRAW_WITHOUT_REPLACEMENT, "no chain can be drawn as a beam");
    cr_expect_eq(check((struct request){&picky, WIDTHS, COP_DRAW_AUTO, DENSE, false, false}),
                 COP_OK);
    cr_expect_eq(resolved, COP_DRAW_INDEPENDENT);
    cr_expect_eq(check((struct request){&picky, CHAIN, COP_DRAW_AUTO, POINTS, false, false}),
                 COP_OK);
    cr_expect_eq(resolved, COP_DRAW_INDEPENDENT, "one point is a draw from a point mass");
    cr_expect_eq(check((struct request){&picky, WIDTHS, COP_DRAW_AUTO, POINTS, false, false}),
                 COP_ERR_UNSOUND);
}

static const struct cop_claim hub_only[] = {{COP_DRAW_HUB_PAIR, COP_SHAPE_TREE, false},
                                            {COP_DRAW_GREEDY, COP_SHAPE_TREE, false},
                                            {.draw = COP_DRAW_AUTO}};
static const struct cop_rule_ops hub_rule = {
    .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "hub"},
    .lossless_for = hub_only,
    .verify = no_verify};

Test(pairing, claimed_draws_that_cannot_be_had_here)
{
    cr_expect_eq(check((struct request){&hub_rule, TWOS, COP_DRAW_AUTO, DENSE, false, false}),
                 COP_OK);
    cr_expect_eq(resolved, COP_DRAW_HUB_PAIR);
    cr_expect_eq(check((struct request){&hub_rule, WIDTHS, COP_DRAW_AUTO, DENSE, false, false}),
                 COP_OK);
    cr_expect_eq(resolved, COP_DRAW_GREEDY, "three children are no pair");
    cr_expect_eq(
        check((struct request){&hub_rule, TWOS, COP_DRAW_INDEPENDENT, DENSE, false, false}),
        COP_ERR_UNSOUND);
    cr_expect_str_eq(
        err.text, "accept.hub is not lossless for draw = \"independent\" on a tree; write "
                  "draw = \"greedy_draw\" or \"hub_pair\", or use cop.accept.sample_match {} "
                  "(lossless for every draw and shape), or say relaxed = true");
    cr_expect_eq(check((struct request){&hub_rule, TWOS, COP_DRAW_AUTO, POINTS, false, false}),
                 COP_ERR_UNSOUND);
    cr_expect_str_eq(
        err.text, "accept.hub is lossless on a tree for draw = \"greedy_draw\" or \"hub_pair\" "
                  "only, not for \"deterministic\", and draw = \"greedy_draw\" needs "
                  "probabilities, and the proposer supplies points without any; use draw = "
                  "\"deterministic\"; use cop.accept.sample_match {} (lossless for every draw "
                  "and shape), or say relaxed = true");
}

Test(pairing, several_drafters)
{
    struct cop_pairing pairing = {.rule = part_of(&cop_accept_sample_match.plug),
                                  .builder = widths_of("22"),
                                  .supply = (int32_t)DENSE,
                                  .n_drafters = 2,
                                  .draw = COP_DRAW_WITHOUT_REPLACEMENT};
    cr_expect_eq(cop_pairing_check(&pairing, NULL, NULL, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "several drafters draw one child each: draw = \"independent\", "
                               "not \"without_replacement\"");
    pairing.draw = COP_DRAW_INDEPENDENT;
    cr_expect_eq(cop_pairing_check(&pairing, NULL, &is_lossless, &err), COP_OK);
    cr_expect(is_lossless);
    cop_part_free((struct cop_part *)(uintptr_t)pairing.rule);
    pairing.rule = part_of(&picky.plug);
    cr_expect_eq(cop_pairing_check(&pairing, NULL, NULL, &err), COP_ERR_UNSOUND);
    cr_expect_str_eq(err.text,
                     "accept.picky is lossless only where all siblings are drawn from one row, "
                     "and several drafters have one each; use cop.accept.sample_match {} "
                     "(lossless for every draw and shape), or say relaxed = true");
    cop_part_free((struct cop_part *)(uintptr_t)pairing.rule);
    cop_part_free((struct cop_part *)(uintptr_t)pairing.builder);
}
