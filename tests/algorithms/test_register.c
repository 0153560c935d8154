/* The register: everything is there once, complete, and documented. */
#include "algorithms/register.h"
#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/rule.h"
#include <criterion/criterion.h>

#include <string.h>

static struct cop_registry registry;
static void start(void)
{
    struct cop_error err = {0};
    cr_assert_eq(cop_register_all(&registry, &err), COP_OK, "%s", err.text);
}
static void stop(void)
{
    cop_registry_release(&registry);
}
TestSuite(registered, .init = start, .fini = stop);

Test(registered, first_light)
{
    static const struct {
        enum cop_plug_kind kind;
        const char *name;
    } expected[] = {{COP_PLUG_PROPOSER, "model"},    {COP_PLUG_PROPOSER, "lookup"},
                    {COP_PLUG_BUILDER, "chain"},     {COP_PLUG_BUILDER, "widths"},
                    {COP_PLUG_BUILDER, "paths"},     {COP_PLUG_RULE, "match"},
                    {COP_PLUG_RULE, "sample_match"}, {COP_PLUG_RULE, "token"},
                    {COP_PLUG_LENGTH, "fixed"},      {COP_PLUG_LENGTH, "confidence"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        cr_expect_not_null(cop_registry_find(&registry, expected[i].kind, expected[i].name),
                           "%s", expected[i].name);
    }
    struct cop_error err;
    cr_expect_eq(cop_register_all(&registry, &err), COP_ERR_ARGUMENT, "names are taken");
}

Test(registered, everything_is_documented)
{
    for (size_t i = 0; i < registry.count; i++) {
        const struct cop_plug *plug = registry.plugs[i];
        cr_expect(plug->help && strlen(plug->help) > 20, "%s has no help", plug->name);
        cr_expect(plug->source && plug->source[0], "%s has no source", plug->name);
        for (const struct cop_option *o = plug->options; o && o->name; o++) {
            cr_expect(o->help && o->help[0], "%s.%s has no help", plug->name, o->name);
            cr_expect(o->flags & (COP_OPTION_REQUIRED | COP_OPTION_ABSENT) ||
                          o->type == COP_OPTION_STRING || o->type == COP_OPTION_OBJECT ||
                          o->min == o->max || (o->fallback >= o->min && o->fallback <= o->max),
                      "%s.%s: the default is out of range", plug->name, o->name);
        }
    }
}

Test(registered, claims)
{
    const struct {
        const char *rule;
        enum cop_draw draw;
        enum cop_shape shape;
        bool is_zero, claims;
    } cases[] = {{"token", COP_DRAW_INDEPENDENT, COP_SHAPE_CHAIN, false, true},
                 {"token", COP_DRAW_INDEPENDENT, COP_SHAPE_PATHS, false, false},
                 {"token", COP_DRAW_DETERMINISTIC, COP_SHAPE_CHAIN, false, false},
                 {"token", COP_DRAW_DETERMINISTIC, COP_SHAPE_CHAIN, true, true},
                 {"match", COP_DRAW_DETERMINISTIC, COP_SHAPE_TREE, true, true},
                 {"match", COP_DRAW_DETERMINISTIC, COP_SHAPE_CHAIN, false, false},
                 {"sample_match", COP_DRAW_SELECTED, COP_SHAPE_TREE, false, true},
                 {"sample_match", COP_DRAW_BEAM, COP_SHAPE_PATHS, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct cop_rule_ops *rule = (const struct cop_rule_ops *)cop_registry_find(
            &registry, COP_PLUG_RULE, cases[i].rule);
        cr_expect_eq(cop_rule_claims(rule, cases[i].draw, cases[i].shape, cases[i].is_zero),
                     cases[i].claims, "case %zu", i);
    }
}
