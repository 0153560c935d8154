/* The tree of least times over a block of tokens, as a heap: part 1 is the block, part h has
 * the halves 2h and 2h + 1, parts 1024 to 2047 are tokens. What is drawn at part h has Philox
 * index 2048 * block + h; the block's own least time has h = 0.
 *
 * A part is passed by when its least time is too late even for the heaviest token in it. Those
 * weights are looked up for groups of 64 tokens first, and within a group only when the race
 * comes to it. */
#include "core/cycle/draws/noise.h"
#include "core/base/philox.h"
#include "kernels/ops.h"

#include <math.h>

enum { BLOCK = 1024, LEVELS = 10, GROUP = 64, GROUPS = BLOCK / GROUP, BLOCKS = 1024 };

struct split {
    double u;     /* of an exponential with mean 1: -ln(1 - u), which is at least u */
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
    return (struct split){cop_uniform(words[0], words[1]), (int32_t)(words[2] & 1)};
}

static double exponential(double u)
{
    return -cop_log(1.0 - u);
}

struct race {
    const struct cop_noise *noise;
    const struct cop_row *row;
    struct cop_weights weights;
    struct cop_podium *podium;
    int32_t block;
    double most[2 * BLOCK]; /* the heaviest token of every part that was come to */
};

static int32_t tokens_from(const struct race *race, int32_t first, int32_t most)
{
    int32_t left = race->weights.vocab - first;
    return left < 0 ? 0 : left < most ? left : most;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static void weigh_within(struct race *race, int32_t group)
{
    int32_t leaf = group * GROUP, first = race->block * BLOCK + leaf - BLOCK;
    int32_t count = tokens_from(race, first, GROUP);
    race->weights.fill(race->weights.context, first, count, race->most + leaf);
    for (int32_t i = count; i < GROUP; i++) {
        race->most[leaf + i] = 0;
    }
    for (int32_t size = GROUP / 2; size > 0; size /= 2) {
        for (int32_t i = 0; i < size; i++) {
            int32_t part = group * size + i;
            race->most[part] = larger(race->most[2 * part], race->most[2 * part + 1]);
        }
    }
}

static void weigh_groups(struct race *race)
{
    int32_t count = tokens_from(race, race->block * BLOCK, BLOCK);
    float most[GROUPS] = {0};
    if (race->row->kind == COP_ROW_LOGITS) {
        cop_maxima(race->row->exponentials + (ptrdiff_t)race->block * BLOCK, count, most);
    }
    for (int32_t g = 0; g < GROUPS; g++) {
        race->most[GROUPS + g] = (double)most[g];
        if (race->row->kind != COP_ROW_LOGITS) {
            weigh_within(race, GROUPS + g);
        }
    }
    for (int32_t part = GROUPS - 1; part > 0; part--) {
        race->most[part] = larger(race->most[2 * part], race->most[2 * part + 1]);
    }
}

/* Whether something of this weight that finishes at `least` or later, up to rounding, can still
 * have a place. */
static bool is_in_time(const struct race *race, double least, double weight)
{
    return weight > 0 && least * (1 - 0x1p-40) < cop_podium_limit(race->podium) * weight;
}

/* The tokens of one part, which has `size`; the half with the heavier token first, as it ends
 * the race for more of the others. */
static void run_part(struct race *race, int32_t part, int32_t size, double least)
{
    if (!is_in_time(race, least, race->most[part])) {
        return;
    }
    if (size == 1) {
        cop_podium_enter(race->podium, race->block * BLOCK + part - BLOCK,
                         least / race->most[part]);
        return;
    }
    if (size == GROUP) {
        weigh_within(race, part);
    }
    struct split s = split(race->noise, race->block, part);
    int32_t heavier = race->most[2 * part + 1] > race->most[2 * part];
    size /= 2;
    for (int32_t i = 0; i < 2; i++) {
        int32_t half = i == 0 ? heavier : 1 - heavier, child = 2 * part + half;
        if (half == s.heir) {
            run_part(race, child, size, least);
        } else if (is_in_time(race, least + s.u / size, race->most[child])) {
            run_part(race, child, size, least + exponential(s.u) / size);
        }
    }
}

/* A block that may have a winner. */
struct start {
    double soonest; /* a bound: no token of it finishes before */
    double u;       /* of its least time */
    int32_t block;
};

static void run_block(struct race *race, const struct start *start)
{
    race->block = start->block;
    weigh_groups(race);
    run_part(race, 1, BLOCK, exponential(start->u) / BLOCK);
}

/* The block that looks soonest, moved to the end of the list. */
static const struct start *take_soonest(struct start *starts, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = starts[i].soonest < starts[best].soonest ? i : best;
    }
    struct start taken = starts[best];
    starts[best] = starts[n - 1];
    starts[n - 1] = taken;
    return &starts[n - 1];
}

/* Blocks [first, first + count): the one that looks soonest by the sum of its weights; it ends
 * the race for many, so that they need not be read; then those left, by their heaviest token.
 */
static void run_blocks(struct race *race, int32_t first, int32_t count)
{
    struct start starts[BLOCKS];
    const double *sums = race->weights.block_sums ? race->weights.block_sums + first : NULL;
    for (int32_t i = 0; i < count; i++) {
        double u = split(race->noise, first + i, 0).u, weight = sums ? sums[i] : 1;
        starts[i] = (struct start){weight > 0 ? u / BLOCK / weight : HUGE_VAL, u, first + i};
    }
    run_block(race, take_soonest(starts, count));
    int32_t n = 0;
    for (int32_t i = 0; i < count - 1; i++) {
        struct start start = starts[i];
        double weight = sums ? sums[start.block - first] : 1;
        if (!sums || is_in_time(race, start.u / BLOCK, weight)) {
            race->block = start.block;
            weigh_groups(race);
            start.soonest = start.u / BLOCK / race->most[1];
            starts[n] = start;
            n += is_in_time(race, start.u / BLOCK, race->most[1]);
        }
    }
    for (bool goes_on = true; n > 0 && goes_on; n--) {
        const struct start *next = take_soonest(starts, n);
        goes_on = next->soonest * (1 - 0x1p-40) < cop_podium_limit(race->podium);
        if (goes_on) {
            run_block(race, next);
        }
    }
}

_Static_assert(COP_SUM_BLOCK == BLOCK && COP_MAXIMA_GROUP == GROUP,
               "block sums are those of the tree's blocks");

void cop_noise_race(const struct cop_noise *noise, const struct cop_row *row,
                    struct cop_podium *podium)
{
    struct race race;
    race.noise = noise;
    race.row = row;
    race.weights = cop_row_weights(row);
    race.podium = podium;
    int32_t n_blocks = (row->vocab + BLOCK - 1) / BLOCK;
    for (int32_t first = 0; first < n_blocks; first += BLOCKS) {
        run_blocks(&race, first, n_blocks - first < BLOCKS ? n_blocks - first : BLOCKS);
    }
}
