/* The children that were asked for together, and the head of their draft rows. */
#include "algorithms/heads/head.h"
#include "algorithms/accept/levels.h"

#include <math.h>
#include <stdlib.h>

/* Two views of one row. */
static bool is_same_row(const struct cop_row *a, const struct cop_row *b)
{
    return a == b || (a->kind == b->kind && a->vocab == b->vocab && a->logits == b->logits &&
                      a->mask == b->mask && a->dense == b->dense && a->ids == b->ids &&
                      a->weights == b->weights && a->count == b->count && a->best == b->best &&
                      a->inverse_temperature <= b->inverse_temperature &&
                      a->inverse_temperature >= b->inverse_temperature);
}

enum cop_status cop_siblings_init(struct cop_siblings *siblings, const struct cop_tree *tree,
                                  struct cop_error *err)
{
    size_t n = (size_t)tree->size;
    *siblings = (struct cop_siblings){.children = malloc(n * sizeof *siblings->children),
                                      .drafts = malloc(n * sizeof *siblings->drafts)};
    if (!siblings->children || !siblings->drafts) {
        cop_siblings_release(siblings);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for the children of a node");
    }
    return COP_OK;
}

void cop_siblings_release(struct cop_siblings *siblings)
{
    free(siblings->children);
    free(siblings->drafts);
    *siblings = (struct cop_siblings){0};
}

static void add_sibling(struct cop_siblings *s, const struct cop_tree *tree, int32_t child,
                        const struct cop_row *draft)
{
    s->children[s->n] = child;
    if (s->n == 0 || (!tree->is_merged && !is_same_row(s->drafts[0], draft))) {
        s->drafts[s->n] = draft;
    } else {
        s->drafts[s->n] = s->drafts[0];
    }
    s->same_draft = s->same_draft && s->drafts[s->n] == s->drafts[0];
    s->n++;
    s->n_draws += tree->is_merged ? tree->multiplicity[child] : 1;
}

enum cop_status cop_siblings_read(struct cop_siblings *siblings, const struct cop_verify_in *in,
                                  int32_t node, const char *rule, struct cop_error *err)
{
    const struct cop_tree *tree = in->tree;
    bool is_later = false;
    siblings->node = node;
    siblings->n = siblings->n_draws = 0;
    siblings->same_draft = true;
    for (int32_t child = cop_level_next(tree, node, node); child > 0;
         child = cop_level_next(tree, node, child)) {
        const struct cop_row *draft = cop_rows_at(&in->draft, child);
        if (!draft) {
            return cop_fail(err, COP_ERR_ARGUMENT, "accept.%s needs every draft row", rule);
        }
        is_later = is_later || (tree->flags[child] & COP_NODE_LATER);
        if (!is_later) {
            add_sibling(siblings, tree, child, draft);
        }
    }
    return COP_OK;
}

/* A token takes a free place, or that of the least likely one. */
static void enter(struct cop_head *head, double *best, int32_t limit, cop_token token,
                  double probability)
{
    int32_t least = 0;
    for (int32_t i = 0; i < head->n; i++) {
        if (head->ids[i] == token) {
            best[i] = fmax(best[i], probability);
            return;
        }
        least = best[i] < best[least] ? i : least;
    }
    if (head->n < limit) {
        least = head->n++;
    } else if (!(probability > best[least])) {
        return;
    }
    head->ids[least] = token;
    best[least] = probability;
}

void cop_head_fill(struct cop_head *head, const struct cop_siblings *siblings,
                   const struct cop_row *target, int32_t limit)
{
    double best[COP_HEAD_LIMIT];
    head->n = 0;
    for (int32_t j = 0; j < siblings->n; j++) {
        const struct cop_row *draft = siblings->drafts[j];
        if (j > 0 && draft == siblings->drafts[j - 1]) {
            continue;
        }
        cop_token top[COP_HEAD_LIMIT];
        int32_t n = cop_row_top(draft, limit, top);
        for (int32_t i = 0; i < n; i++) {
            enter(head, best, limit, top[i], cop_row_probability(draft, top[i]));
        }
    }
    double rest = 1;
    for (int32_t i = 0; i < head->n; i++) {
        head->target[i] = cop_row_probability(target, head->ids[i]);
        rest -= head->target[i];
    }
    head->target[head->n] = fmax(rest, 0); /* only a hint for plans */
}

void cop_head_law(const struct cop_head *head, const struct cop_row *row, double *law)
{
    for (int32_t i = 0; i < head->n; i++) {
        law[i] = cop_row_probability(row, head->ids[i]);
    }
    law[head->n] =
        head->n < row->vocab ? fmax(cop_level_mass_without(row, head->ids, head->n), 0) : 0;
}

int32_t cop_head_item(const struct cop_head *head, cop_token token)
{
    int32_t i = 0;
    while (i < head->n && head->ids[i] != token) {
        i++;
    }
    return i;
}
