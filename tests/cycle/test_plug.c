/* Registry and parts: what is refused, who owns what. */
#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/length.h"
#include "core/cycle/contract/plug.h"
#include "core/cycle/contract/rule.h"
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

struct counted {
    int32_t size;
    char *name;
};
static int n_prepared, n_released;

static enum cop_status prepare(void *state, struct cop_error *err)
{
    if (((struct counted *)state)->size == 3) {
        return cop_fail(err, COP_ERR_ARGUMENT, "three is not possible");
    }
    n_prepared++;
    return COP_OK;
}
static void release(void *state)
{
    (void)state;
    n_released++;
}
static bool more(const void *state, const struct cop_length_in *in)
{
    (void)state, (void)in;
    return false;
}
static const struct cop_option options[] = {
    {.name = "size",
     .type = COP_OPTION_INT,
     .offset = offsetof(struct counted, size),
     .flags = COP_OPTION_REQUIRED,
     .min = 1,
     .max = 9,
     .help = "how many"},
    {.name = "name", .type = COP_OPTION_STRING, .offset = offsetof(struct counted, name)},
    {0}};
static const struct cop_length_ops counted = {.plug = {.abi = COP_PLUG_ABI,
                                                       .kind = COP_PLUG_LENGTH,
                                                       .name = "counted",
                                                       .state_size = sizeof(struct counted),
                                                       .options = options,
                                                       .prepare = prepare,
                                                       .release = release},
                                              .more = more};

static struct cop_error err;

Test(part, life)
{
    struct cop_part *part = cop_part_new(&counted.plug);
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "cop.length.counted: option \"size\" is required: how many");
    cr_expect_eq(n_prepared, 0);
    cr_assert_eq(cop_option_set_number(&options[0], part->state, 2, "x", &err), COP_OK);
    cr_assert_eq(cop_option_set_string(&options[1], part->state, "text", "x", &err), COP_OK);
    cr_expect_eq(cop_part_prepare(part, &err), COP_OK);
    cr_expect_eq(cop_part_prepare(part, &err), COP_OK);
    cr_expect_eq(n_prepared, 2);
    cr_expect_eq(n_released, 1, "once for the first prepare");
    ((struct counted *)part->state)->size = 3;
    cr_expect_eq(cop_part_prepare(part, &err), COP_ERR_ARGUMENT);
    cr_expect_eq(n_released, 2);
    cr_expect_eq(cop_part_share(part), part);
    cop_part_free(part);
    cr_expect_str_eq(((struct counted *)part->state)->name, "text", "one owner is left");
    cop_part_free(part);
    cr_expect_eq(n_released, 2, "nothing prepared, nothing to release");
    cop_part_free(NULL);
    cr_expect_null(cop_part_share(NULL));
}

Test(registry, finds_by_kind_and_name)
{
    struct cop_registry registry = {0};
    static struct cop_length_ops many[40];
    static char names[40][16];
    for (int i = 0; i < 40; i++) {
        many[i] = counted;
        (void)snprintf(names[i], sizeof names[i], "n%d", i);
        many[i].plug.name = names[i];
        cr_assert_eq(cop_registry_add(&registry, &many[i].plug, &err), COP_OK);
    }
    cr_expect_eq(registry.count, 40);
    cr_expect_eq(cop_registry_find(&registry, COP_PLUG_LENGTH, "n39"), &many[39].plug);
    cr_expect_null(cop_registry_find(&registry, COP_PLUG_RULE, "n39"));
    cr_expect_null(cop_registry_find(&registry, COP_PLUG_LENGTH, "n40"));
    cr_expect_null(cop_registry_find(&registry, COP_PLUG_LENGTH, NULL));
    cr_expect_eq(cop_registry_add(&registry, &many[3].plug, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "the name length.n3 is taken");
    cr_expect_eq(registry.count, 40);
    cop_registry_release(&registry);
    cr_expect_eq(registry.count, 0);
}

Test(registry, refuses_what_does_not_fit)
{
    struct cop_registry registry = {0};
    struct cop_length_ops wrong = counted;
    wrong.plug.abi = 99;
    cr_expect_eq(cop_registry_add(&registry, &wrong.plug, &err), COP_ERR_UNSUPPORTED);
    cr_expect(strstr(err.text, "version 99"), "%s", err.text);
    wrong = counted;
    wrong.plug.name = "";
    cr_expect_eq(cop_registry_add(&registry, &wrong.plug, &err), COP_ERR_ARGUMENT);
    wrong = counted;
    wrong.more = NULL;
    cr_expect_eq(cop_registry_add(&registry, &wrong.plug, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "length.counted lacks the required slot more");
    struct cop_rule_ops rule = {
        .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_RULE, .name = "r"}};
    cr_expect_eq(cop_registry_add(&registry, &rule.plug, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "accept.r lacks the required slot lossless_for");
    struct cop_builder_ops builder = {
        .plug = {.abi = COP_PLUG_ABI, .kind = COP_PLUG_BUILDER, .name = "b"}, .draws = 2};
    cr_expect_eq(cop_registry_add(&registry, &builder.plug, &err), COP_ERR_ARGUMENT);
    cr_expect_str_eq(err.text, "tree.b lacks the required slot shape");
    cr_expect_eq(cop_registry_add(&registry, NULL, &err), COP_ERR_ARGUMENT);
    wrong = counted;
    wrong.plug.kind = COP_PLUG_KINDS;
    cr_expect_eq(cop_registry_add(&registry, &wrong.plug, &err), COP_ERR_ARGUMENT);
    cr_expect_eq(registry.count, 0);
    cop_registry_release(&registry);
}
