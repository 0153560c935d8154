/* Coins: questions answered by Philox, and a set of what this cycle has asked.
 *
 * Uniform number `index` of a question takes words (0, 1) or (2, 3), by its parity, of the
 * block with counter {node key, purpose + index / 2, cycle, request}. Shared noise is the same
 * in every cycle: there cycle reads 0. */
#include "core/cycle/draws/coins.h"
#include "core/base/philox.h"
#include "core/cycle/draws/choose.h"
#include "core/cycle/draws/noise.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void cop_coins_init(struct cop_coins *coins, uint64_t seed, uint32_t request,
                    struct cop_error *error)
{
    *coins = (struct cop_coins){.seed = seed, .request = request, .error = error};
}

void cop_coins_cycle(struct cop_coins *coins, uint32_t cycle)
{
    coins->cycle = cycle;
    if (coins->n_asked > 0) {
        memset(coins->asked, 0, (size_t)coins->asked_capacity * sizeof *coins->asked);
    }
    coins->n_asked = 0;
    coins->race.n = 0;
}

void cop_coins_release(struct cop_coins *coins)
{
    free(coins->asked);
    free(coins->urn);
    coins->asked = NULL;
    coins->urn = NULL;
    coins->n_asked = coins->asked_capacity = 0;
}

/* ---- What was asked: an open hash set of (purpose, key), 0 marks a free place
 * ----------------- */

static bool remember(uint64_t *set, int32_t capacity, uint64_t question)
{
    uint64_t mask = (uint64_t)capacity - 1;
    uint64_t at = (question * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (set[at] != 0) {
        if (set[at] == question) {
            return false;
        }
        at = (at + 1) & mask;
    }
    set[at] = question;
    return true;
}

static bool grow_set(struct cop_coins *coins)
{
    int32_t capacity = coins->asked_capacity ? 2 * coins->asked_capacity : COP_COINS_ASKED;
    uint64_t *set = calloc((size_t)capacity, sizeof *set);
    if (!set) {
        return false;
    }
    for (int32_t i = 0; i < coins->asked_capacity; i++) {
        if (coins->asked[i] != 0) {
            (void)remember(set, capacity, coins->asked[i]);
        }
    }
    free(coins->asked);
    coins->asked = set;
    coins->asked_capacity = capacity;
    return true;
}

/* What is remembered of shared noise, which may be asked for twice. */
static uint64_t second_side(uint64_t question)
{
    return question ^ UINT64_C(1) << 32;
}

static void refuse_memory(const struct cop_coins *coins, const char *text)
{
    if (coins->error && coins->error->code == COP_OK) {
        (void)cop_fail(coins->error, COP_ERR_MEMORY, "%s", text);
    }
}

/* Reserves the question; false (and a report) when it was asked before. */
static bool ask(struct cop_coins *coins, uint32_t purpose, uint32_t key)
{
    uint64_t question = (uint64_t)purpose << 32 | key;
    question += question == 0;
    if (coins->n_asked * 2 >= coins->asked_capacity && !grow_set(coins)) {
        refuse_memory(coins, "no memory for the coins of a cycle");
        return false;
    }
    bool is_new = remember(coins->asked, coins->asked_capacity, question) ||
                  (purpose == COP_PURPOSE_SHARED &&
                   remember(coins->asked, coins->asked_capacity, second_side(question)));
    if (!is_new) {
        if (coins->error && coins->error->code == COP_OK) {
            (void)cop_fail(
                coins->error, COP_ERR_ARGUMENT,
                "asked twice for the coin (purpose %08x, node key %08x) in one cycle", purpose,
                key);
        }
        return false;
    }
    coins->n_asked++;
    return true;
}

/* ---- Answers
 * ---------------------------------------------------------------------------------- */

double cop_coins_uniform(uint64_t seed, uint32_t request, uint32_t cycle, uint32_t purpose,
                         uint32_t key, uint32_t index)
{
    const uint32_t counter[4] = {key, purpose + (index >> 1), cycle, request};
    const uint32_t seed_words[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    cop_philox(counter, seed_words, 10, words);
    const uint32_t *pair = words + 2 * (index & 1);
    return cop_uniform(pair[0], pair[1]);
}

static double uniform(const struct cop_coins *coins, uint32_t purpose, uint32_t key,
                      uint32_t index)
{
    return cop_coins_uniform(coins->seed, coins->request, coins->cycle, purpose, key, index);
}

static bool coins_flip(void *state, uint32_t purpose, uint32_t key, double probability)
{
    struct cop_coins *coins = state;
    if (isnan(probability)) {
        cop_draws_refuse(coins->error, "a flip with probability NaN");
        return false;
    }
    return ask(coins, purpose, key) && uniform(coins, purpose, key, 0) < probability;
}

static cop_token coins_pick(void *state, uint32_t purpose, uint32_t key,
                            const struct cop_weights *weights)
{
    struct cop_coins *coins = state;
    if (!ask(coins, purpose, key)) {
        return -1;
    }
    return cop_choose(weights, uniform(coins, purpose, key, 0), coins->error);
}

struct question {
    const struct cop_coins *coins;
    uint32_t purpose, key;
};

static double coin_of(void *context, int32_t index)
{
    const struct question *question = context;
    return uniform(question->coins, question->purpose, question->key, (uint32_t)index);
}

static int32_t race_with_noise(struct cop_coins *coins, uint32_t key, const struct cop_row *row,
                               int32_t k, cop_token *ids)
{
    double *times = malloc((size_t)k * sizeof *times);
    if (!times) {
        refuse_memory(coins, "no memory for a race");
        return 0;
    }
    struct cop_podium podium = {.k = k, .times = times, .ids = ids};
    struct cop_noise noise = {coins->seed, coins->request, key};
    cop_noise_race(&noise, row, &podium);
    free(times);
    return podium.n;
}

/* Whether the urn is still as the race of this question left it after ids[0..n). */
static bool was_left(const struct cop_coins *coins, uint32_t purpose, uint32_t key,
                     const struct cop_row *row, const cop_token *ids, int32_t n)
{
    return n > 0 && coins->race.n == n && coins->race.purpose == purpose &&
           coins->race.key == key && coins->urn->row == row && coins->race.last == ids[n - 1];
}

/* The urn of this race after ids[0..n); NULL, and a report, where there is none. */
static struct cop_urn *urn_of(struct cop_coins *coins, uint32_t purpose, uint32_t key,
                              const struct cop_row *row, const cop_token *ids, int32_t n)
{
    if (was_left(coins, purpose, key, row, ids, n)) {
        return coins->urn;
    }
    coins->urn = coins->urn ? coins->urn : malloc(sizeof *coins->urn);
    if (!coins->urn) {
        refuse_memory(coins, "no memory for a race");
        return NULL;
    }
    return cop_urn_fill(coins->urn, row, ids, n, coins->error) ? coins->urn : NULL;
}

static int32_t coins_race(void *state, uint32_t purpose, uint32_t key,
                          const struct cop_row *row, int32_t k, cop_token *ids, int32_t n)
{
    struct cop_coins *coins = state;
    if (k <= n || (n == 0 && !ask(coins, purpose, key))) {
        return n;
    }
    if (purpose == COP_PURPOSE_SHARED) {
        return race_with_noise(coins, key, row, k, ids);
    }
    struct cop_urn *urn = urn_of(coins, purpose, key, row, ids, n);
    if (urn) {
        struct question question = {coins, purpose, key};
        n = cop_urn_draw(urn, k, coin_of, &question, ids);
        coins->race.purpose = purpose;
        coins->race.key = key;
        coins->race.n = n;
        coins->race.last = n > 0 ? ids[n - 1] : -1;
    }
    return n;
}

static const struct cop_draws_ops coins_ops = {
    .flip = coins_flip, .pick = coins_pick, .race = coins_race};

struct cop_draws cop_coins_draws(struct cop_coins *coins)
{
    return (struct cop_draws){.ops = &coins_ops, .state = coins, .error = coins->error};
}
