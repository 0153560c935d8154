/* The tree of a document. */
#include "core/base/json_tree.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(json_tree, .timeout = 30);

static struct cop_json_tree tree;
static struct cop_error err;

static const struct cop_json_node *read_text(const char *text)
{
    cr_assert_eq(cop_json_tree_read(&tree, text, strlen(text), &err), COP_OK, "%s", err.text);
    return cop_json_root(&tree);
}

Test(json_tree, keeps_values_keys_and_order)
{
    const struct cop_json_node *root =
        read_text("{\"a\":[1,\"x\\u0000y\",null,[]],\"b\":{\"c\":2.5,\"d\":true}}");
    cr_assert_eq(root->kind, COP_JSON_OBJECT);
    const struct cop_json_node *item = cop_json_first(&tree, cop_json_get(&tree, root, "a"));
    cr_expect(item->kind == COP_JSON_INTEGER && item->integer == 1);
    item = cop_json_after(&tree, item);
    cr_expect(item->kind == COP_JSON_STRING && item->length == 3 &&
              memcmp(item->text, "x\0y", 3) == 0);
    item = cop_json_after(&tree, item);
    cr_expect_eq(item->kind, COP_JSON_NULL);
    item = cop_json_after(&tree, item);
    cr_expect_eq(item->kind, COP_JSON_LIST);
    cr_expect_null(cop_json_first(&tree, item));
    cr_expect_null(cop_json_after(&tree, item));
    const struct cop_json_node *b = cop_json_get(&tree, root, "b");
    cr_expect_eq(cop_json_get(&tree, b, "c")->number, 2.5);
    cr_expect_eq(cop_json_get(&tree, b, "d")->kind, COP_JSON_TRUE);
    cr_expect(cop_json_first(&tree, b)->key_length == 1 &&
              cop_json_first(&tree, b)->key[0] == 'c');
    cop_json_tree_release(&tree);
}

Test(json_tree, the_last_of_equal_keys_counts)
{
    const struct cop_json_node *root = read_text("{\"a\":1,\"a\":\"two\"}");
    cr_expect(cop_json_is(cop_json_get(&tree, root, "a"), "two"));
    cr_expect_not(cop_json_is(cop_json_get(&tree, root, "a"), "tw"));
    cr_expect_not(cop_json_is(cop_json_get(&tree, root, "b"), "two"));
    cop_json_tree_release(&tree);
}

Test(json_tree, what_is_not_there_is_null)
{
    const struct cop_json_node *root = read_text("[1]");
    cr_expect_null(cop_json_get(&tree, root, "a"));
    cr_expect_null(cop_json_get(&tree, NULL, "a"));
    cr_expect_null(cop_json_first(&tree, NULL));
    cr_expect_null(cop_json_after(&tree, root));
    cop_json_tree_release(&tree);
    cop_json_tree_release(&tree);
    cr_expect_null(cop_json_root(&tree));
}

Test(json_tree, bad_text_leaves_nothing)
{
    cr_expect_eq(cop_json_tree_read(&tree, "[1,", 3, &err), COP_ERR_FORMAT);
    cr_expect_eq(tree.n_nodes, 0);
    cr_expect_null(tree.nodes);
    enum { MANY = (1 << 20) + 1 };
    char *text = malloc(2 * (size_t)MANY + 1);
    text[0] = '[';
    for (size_t i = 0; i < MANY; i++) {
        text[1 + 2 * i] = '0';
        text[2 + 2 * i] = i + 1 < MANY ? ',' : ']';
    }
    cr_expect_eq(cop_json_tree_read(&tree, text, 2 * (size_t)MANY + 1, &err), COP_ERR_LIMIT);
    cr_expect_str_eq(err.text, "JSON with more than 1048576 values");
    cr_expect_null(tree.nodes);
    free(text);
}
