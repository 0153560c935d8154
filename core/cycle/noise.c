/* The tree of least times over a block of tokens, as a heap: part 1 is the block, part h has
 * the halves 2h and 2h + 1, parts 1024 to 2047 are tokens. What is drawn at part h has Philox
 * index 2048 * block + h; the block's own least time has h = 0.
 *
 * The weights of parts are summed for groups of 64 tokens first, and within a group only when
 * the race comes to it. */
#include "core/cycle/noise.h"
#include "core/base/philox.h"
#include "kernels/ops.h"

enum { BLOCK = 1024, LEVELS = 10, GROUP = 64, GROUPS = BLOCK / GROUP };

struct split {
    double more;  /* exponential with mean 1 */
    int32_t heir; /* the half that has the whole's least time */
};

static struct split split(const struct cop_noise *noise, int32_t block, int32_t part)
{
    const uint32_t counter[4] = {
        noise->position, COP_PURPOSE_SHARED + 2 * BLOCK * (uint32_t)block + (uint32_t)part, 0,
        noise->request};
    const uint32_t key[2] = {(uint32_t)noise->seed, (uint32_t)(noise->seed >> 32)};
    uint32_t words[4];
    cop_philox(counter, key, 10, words);
    return (struct split){-cop_log(1.0 - cop_uniform(words[0], words[1])),
                          (int32_t)(words[2] & 1)};
}

double cop_noise_time(const struct cop_noise *noise, cop_token token)
{
    int32_t block = token / BLOCK, part = 1, size = BLOCK;
    double least = split(noise, block, 0).more / BLOCK;
    for (int32_t level = LEVELS - 1; level >= 0; level--) {
        int32_t half = token % BLOCK >> level & 1;
        struct split s = split(noise, block, part);
        size /= 2;
        least += half == s.heir ? 0 : s.more / size;
        part = 2 * part + half;
    }
    return least;
}

struct race {
    const struct cop_noise *noise;
    const struct cop_row *row;
    struct cop_weights weights;
    struct cop_podium *podium;
    int32_t block;
    double of[2 * BLOCK]; /* the weight of every part that was come to */
};

static int32_t tokens_from(const struct race *race, int32_t first, int32_t most)
{
    int32_t left = race->weights.vocab - first;
    return left < 0 ? 0 : left < most ? left : most;
}

static double group_sum(const struct race *race, int32_t first, int32_t count)
{
    if (race->row->kind == COP_ROW_LOGITS) {
        const float *all = race->row->exponentials + first;
        return cop_residual_block(all, 1, all, 0, count, NULL);
    }
    double values[GROUP];
    race->weights.fill(race->weights.context, first, count, values);
    return cop_sum_block(values, count);
}

static void sum_groups(struct race *race)
{
    for (int32_t g = 0; g < GROUPS; g++) {
        int32_t first = race->block * BLOCK + g * GROUP;
        int32_t count = tokens_from(race, first, GROUP);
        race->of[GROUPS + g] = count > 0 ? group_sum(race, first, count) : 0;
    }
    for (int32_t part = GROUPS - 1; part > 0; part--) {
        race->of[part] = race->of[2 * part] + race->of[2 * part + 1];
    }
}

/* The parts within a group, which keeps its sum: that may differ in the last bits. */
static void sum_within(struct race *race, int32_t group)
{
    int32_t leaf = group * GROUP, first = race->block * BLOCK + leaf - BLOCK;
    int32_t count = tokens_from(race, first, GROUP);
    race->weights.fill(race->weights.context, first, count, race->of + leaf);
    for (int32_t i = count; i < GROUP; i++) {
        race->of[leaf + i] = 0;
    }
    for (int32_t size = GROUP / 2; size > 1; size /= 2) {
        for (int32_t i = 0; i < size; i++) {
            int32_t part = group * size + i;
            race->of[part] = race->of[2 * part] + race->of[2 * part + 1];
        }
    }
}

/* The tokens of one part, which has `size`; the heavier half first, as it ends the race for
 * more of the others. */
static void run_part(struct race *race, int32_t part, int32_t size, double least)
{
    if (!(race->of[part] > 0) || least >= cop_podium_limit(race->podium) * race->of[part]) {
        return;
    }
    if (size == 1) {
        cop_podium_enter(race->podium, race->block * BLOCK + part - BLOCK,
                         least / race->of[part]);
        return;
    }
    if (size == GROUP) {
        sum_within(race, part);
    }
    struct split s = split(race->noise, race->block, part);
    int32_t heavier = race->of[2 * part + 1] > race->of[2 * part];
    for (int32_t i = 0; i < 2; i++) {
        int32_t half = i == 0 ? heavier : 1 - heavier;
        run_part(race, 2 * part + half, size / 2,
                 half == s.heir ? least : least + s.more / (size / 2));
    }
}

static void run_block(struct race *race, int32_t block)
{
    double least = split(race->noise, block, 0).more / BLOCK;
    const double *sums = race->weights.block_sums;
    if (!sums || least < cop_podium_limit(race->podium) * sums[block]) {
        race->block = block;
        sum_groups(race);
        run_part(race, 1, BLOCK, least);
    }
}

_Static_assert(COP_SUM_BLOCK == BLOCK, "block sums are those of the tree's blocks");

void cop_noise_race(const struct cop_noise *noise, const struct cop_row *row,
                    struct cop_podium *podium)
{
    struct race race;
    race.noise = noise;
    race.row = row;
    race.weights = cop_row_weights(row);
    race.podium = podium;
    const double *sums = race.weights.block_sums;
    int32_t n_blocks = (row->vocab + BLOCK - 1) / BLOCK, heaviest = 0;
    for (int32_t b = 1; sums && b < n_blocks; b++) {
        heaviest = sums[b] > sums[heaviest] ? b : heaviest;
    }
    for (int32_t i = 0; i < n_blocks; i++) { /* the heaviest, then the others */
        run_block(&race, i == 0 ? heaviest : i <= heaviest ? i - 1 : i);
    }
}
