/* Coins from a list: a verification by hand. Questions take the listed uniforms as struct
 * cop_coin_list says; a list that is too short is an error. */
#include "core/cycle/draws/choose.h"
#include "core/cycle/law/law.h"

#include <math.h>
#include <stdlib.h>

/* The uniform with this number, or NaN (and a report). */
static double take(struct cop_coin_list *list, int32_t number)
{
    if (number > list->count) {
        if (list->error && list->error->code == COP_OK) {
            (void)cop_fail(list->error, COP_ERR_ARGUMENT,
                           "the rule asks for more coins than the %d given", (int)list->count);
        }
        return (double)NAN;
    }
    list->used = number > list->used ? number : list->used;
    if (list->taken) {
        list->taken[number - 1] = true;
    }
    double coin = list->coins[number - 1];
    if (!(coin >= 0 && coin < 1)) {
        cop_draws_refuse(list->error, "a coin outside [0, 1)");
        return (double)NAN;
    }
    return coin;
}

static double next_coin(struct cop_coin_list *list)
{
    return take(list, list->used + 1);
}

/* Number i for node i; the next one for questions that belong to no node of their own. */
static double coin_of_node(struct cop_coin_list *list, uint32_t key)
{
    for (int32_t node = 1; list->tree && node < list->tree->size; node++) {
        if (list->tree->key[node] == key) {
            bool is_taken = list->taken && node <= list->count && list->taken[node - 1];
            return is_taken ? next_coin(list) : take(list, node);
        }
    }
    return next_coin(list);
}

/* One coin for all children of a node: the first one's. */
static double coin_of_siblings(struct cop_coin_list *list, uint32_t key)
{
    for (int32_t node = 0; list->tree && node < list->tree->size; node++) {
        int32_t child = cop_tree_child(list->tree, node, 0);
        if (list->tree->key[node] == key && child > 0) {
            return take(list, child);
        }
    }
    return next_coin(list);
}

/* Of a token that no further test follows. */
static double coin_past_nodes(struct cop_coin_list *list)
{
    if (list->has_pick) {
        list->has_pick = false;
        return list->pick;
    }
    int32_t past = list->tree ? list->tree->size : 0;
    return take(list, past > list->used && past <= list->count ? past : list->used + 1);
}

static bool list_flip(void *state, uint32_t purpose, uint32_t key, double probability)
{
    (void)purpose;
    struct cop_coin_list *list = state;
    double coin = coin_of_node(list, key);
    if (isnan(probability)) {
        cop_draws_refuse(list->error, "a flip with probability NaN");
    }
    return coin < probability; /* NaN: false */
}

static cop_token heaviest(const struct cop_weights *weights)
{
    cop_token best = -1;
    double most = 0;
    for (int32_t i = 0; i < weights->vocab; i++) {
        double weight;
        weights->fill(weights->context, i, 1, &weight);
        if (weight > most) {
            most = weight;
            best = i;
        }
    }
    return best;
}

static cop_token list_pick(void *state, uint32_t purpose, uint32_t key,
                           const struct cop_weights *weights)
{
    struct cop_coin_list *list = state;
    if (purpose == cop_purpose("siblings")) {
        double coin = coin_of_siblings(list, key);
        return isnan(coin) ? -1 : cop_choose(weights, coin, list->error);
    }
    if (list->pick_best) {
        cop_token best = heaviest(weights);
        if (best < 0) {
            cop_draws_refuse(list->error, "a pick from weights that are all zero");
        }
        return best;
    }
    double coin = purpose == cop_purpose("sample") ? next_coin(list) : coin_past_nodes(list);
    return isnan(coin) ? -1 : cop_choose(weights, coin, list->error);
}

static double coin_of_race(void *list, int32_t index)
{
    (void)index;
    return next_coin(list);
}

static int32_t list_race(void *state, uint32_t purpose, uint32_t key, const struct cop_row *row,
                         int32_t k, cop_token *ids, int32_t n)
{
    (void)purpose;
    (void)key;
    struct cop_coin_list *list = state;
    if (list->pick_best) {
        return cop_row_top(row, k, ids);
    }
    struct cop_urn urn;
    return cop_urn_fill(&urn, row, ids, n, list->error)
               ? cop_urn_draw(&urn, k, coin_of_race, list, ids)
               : n;
}

static const struct cop_draws_ops list_ops = {
    .flip = list_flip, .pick = list_pick, .race = list_race};

struct cop_draws cop_coin_list_draws(struct cop_coin_list *list, struct cop_error *error)
{
    list->error = error;
    return (struct cop_draws){.ops = &list_ops, .state = list, .error = error};
}
