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
#include <string.h>

enum { BLOCK = 1024, LEVELS = 10, GROUP = 64, GROUPS = BLOCK / GROUP, BLOCKS = 1024 };

struct split {
    double u;     /* of an exponential with mean 1: -ln(1 - u), which is at least u */
    int32_t heir; /* the half that has the whole's least time */
};

/* A part of a block. */
struct place {
    int32_t block, part;
};

enum { FOUR = 4 };

static void split_four(const struct cop_noise *noise, const struct place places[FOUR],
                       struct split out[FOUR])
{
    const uint32_t key[2] = {(uint32_t)noise->seed, (uint32_t)(noise->seed >> 32)};
    uint32_t counters[FOUR][4], words[FOUR][4];
    for (int32_t i = 0; i < FOUR; i++) {
        counters[i][0] = noise->position;
        counters[i][1] = COP_PURPOSE_SHARED + 2 * BLOCK * (uint32_t)places[i].block +
                         (uint32_t)places[i].part;
        counters[i][2] = 0;
        counters[i][3] = noise->request;
    }
    cop_philox_four(counters, key, words);
    for (int32_t i = 0; i < FOUR; i++) {
        out[i] =
            (struct split){cop_uniform(words[i][0], words[i][1]), (int32_t)(words[i][2] & 1)};
    }
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
    double most[2 * BLOCK];     /* the heaviest token of every part that was come to */
    struct split splits[BLOCK]; /* of parts of the block whose number + 1 is in split_of */
    int32_t split_of[BLOCK];
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

/* Entries of a row's groups, where its maxima bound them: truncation leaves them alone. */
static const float *maxima_of(const struct race *race)
{
    const struct cop_row *row = race->row;
    return row->kind == COP_ROW_LOGITS && !row->mask ? row->maxima : NULL;
}

/* The powers of n maxima, and what rounding may add to those of the tokens below them: bounds,
 * on which nothing that is drawn depends. */
static void bound_by(const struct cop_row *row, const float *maxima, int32_t n, float *most)
{
    (void)cop_exp_row(maxima, n, row->max_logit, row->inverse_temperature, most);
    for (int32_t i = 0; i < n; i++) {
        most[i] = most[i] * (1 + 0x1p-16f) + 0x1p-149f;
    }
}

/* The heaviest token of each of the blocks [first, first + count), or more; all of them at once
 * where the row's maxima tell, else as they are asked for. */
struct heaviest {
    int32_t first;
    const float *bounds; /* NULL: to be read */
};

static const float *bound_blocks(const struct race *race, int32_t first, int32_t count,
                                 float *most)
{
    const float *maxima = maxima_of(race);
    for (int32_t i = 0; maxima && i < count; i++) {
        int32_t block = first + i, size = tokens_from(race, block * BLOCK, BLOCK);
        most[i] = cop_largest(maxima + (ptrdiff_t)block * GROUPS, (size + GROUP - 1) / GROUP);
    }
    if (maxima) {
        bound_by(race->row, most, count, most);
    }
    return maxima ? most : NULL;
}

static double weigh_block(const struct race *race, const struct heaviest *heaviest,
                          int32_t block)
{
    int32_t count = tokens_from(race, block * BLOCK, BLOCK);
    double values[BLOCK], most = 0;
    if (heaviest->bounds) {
        return (double)heaviest->bounds[block - heaviest->first];
    }
    if (race->row->kind == COP_ROW_LOGITS) {
        return (double)cop_largest(race->row->exponentials + (ptrdiff_t)block * BLOCK, count);
    }
    race->weights.fill(race->weights.context, block * BLOCK, count, values);
    for (int32_t i = 0; i < count; i++) {
        most = larger(most, values[i]);
    }
    return most;
}

static void weigh_groups(struct race *race)
{
    int32_t count = tokens_from(race, race->block * BLOCK, BLOCK);
    const float *maxima = maxima_of(race);
    float most[GROUPS] = {0};
    if (maxima) {
        bound_by(race->row, maxima + (ptrdiff_t)race->block * GROUPS,
                 (count + GROUP - 1) / GROUP, most);
    } else if (race->row->kind == COP_ROW_LOGITS) {
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

/* What is drawn at a part; with it at those below that the race comes to next, towards the
 * heaviest token, as far as weights are known. */
static struct split split_at(struct race *race, int32_t part)
{
    if (race->split_of[part] == race->block + 1) {
        return race->splits[part];
    }
    struct place places[FOUR];
    struct split out[FOUR];
    int32_t at = part;
    for (int32_t i = 0; i < FOUR; i++) {
        places[i] = (struct place){race->block, at};
        bool is_known = at < GROUPS || at >= 2 * GROUPS || at == part;
        if (is_known && 2 * at < BLOCK) {
            at = 2 * at + (race->most[2 * at + 1] > race->most[2 * at]);
        }
    }
    split_four(race->noise, places, out);
    for (int32_t i = 0; i < FOUR; i++) {
        race->splits[places[i].part] = out[i];
        race->split_of[places[i].part] = race->block + 1;
    }
    return out[0];
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
    struct split s = split_at(race, part);
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

/* Memory is slow to answer and there is a draw to make meanwhile. */
static void fetch_groups(const struct race *race, double least)
{
    const struct cop_row *row = race->row;
    for (int32_t g = 0; row->kind == COP_ROW_LOGITS && g < GROUPS; g++) {
        if (is_in_time(race, least, race->most[GROUPS + g])) {
            const float *at = row->exponentials + (ptrdiff_t)race->block * BLOCK + g * GROUP;
            for (int32_t line = 0; line < GROUP; line += 16) {
                __builtin_prefetch(at + line);
            }
        }
    }
}

static void run_block(struct race *race, const struct start *start)
{
    double least = exponential(start->u) / BLOCK;
    race->block = start->block;
    weigh_groups(race);
    fetch_groups(race, least);
    run_part(race, 1, BLOCK, least);
}

/* starts[at] into its place in a heap of n, the soonest first. */
static void sift(struct start *starts, int32_t n, int32_t at)
{
    struct start moved = starts[at];
    for (int32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        child += child + 1 < n && starts[child + 1].soonest < starts[child].soonest;
        if (!(starts[child].soonest < moved.soonest)) {
            break;
        }
        starts[at] = starts[child];
        at = child;
    }
    starts[at] = moved;
}

static void make_heap(struct start *starts, int32_t n)
{
    for (int32_t at = n / 2 - 1; at >= 0; at--) {
        sift(starts, n, at);
    }
}

/* The soonest of a heap of n, which is one of n - 1 afterwards. */
static struct start take_soonest(struct start *starts, int32_t n)
{
    struct start taken = starts[0];
    starts[0] = starts[n - 1];
    sift(starts, n - 1, 0);
    return taken;
}

/* Blocks [first, first + count), with their least times. */
static void list_starts(const struct race *race, int32_t first, int32_t count,
                        struct start *starts)
{
    const double *sums = race->weights.block_sums ? race->weights.block_sums + first : NULL;
    for (int32_t i = 0; i < count; i += FOUR) {
        const struct place places[FOUR] = {
            {first + i, 0}, {first + i + 1, 0}, {first + i + 2, 0}, {first + i + 3, 0}};
        struct split out[FOUR];
        split_four(race->noise, places, out);
        for (int32_t j = i; j < count && j < i + FOUR; j++) {
            double weight = sums ? sums[j] : 1, u = out[j - i].u;
            starts[j] =
                (struct start){weight > 0 ? u / BLOCK / weight : HUGE_VAL, u, first + j};
        }
    }
}

/* Blocks [first, first + count): the one that looks soonest by the sum of its weights; it ends
 * the race for many, so that they need not be read; then those left, by their heaviest token.
 */
static void run_blocks(struct race *race, int32_t first, int32_t count)
{
    struct start starts[BLOCKS];
    float most_of[BLOCKS];
    const struct heaviest heaviest = {first, bound_blocks(race, first, count, most_of)};
    const double *sums = race->weights.block_sums ? race->weights.block_sums + first : NULL;
    list_starts(race, first, count, starts);
    make_heap(starts, count);
    struct start next = take_soonest(starts, count);
    run_block(race, &next);
    int32_t n = 0;
    for (int32_t i = 0; i < count - 1; i++) {
        struct start start = starts[i];
        double least = start.u / BLOCK;
        if (!sums || is_in_time(race, least, sums[start.block - first])) {
            double most = weigh_block(race, &heaviest, start.block);
            start.soonest = least / most;
            starts[n] = start;
            n += is_in_time(race, least, most);
        }
    }
    make_heap(starts, n);
    for (; n > 0 && starts[0].soonest * (1 - 0x1p-40) < cop_podium_limit(race->podium); n--) {
        next = take_soonest(starts, n);
        run_block(race, &next);
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
    memset(race.split_of, 0, sizeof race.split_of);
    int32_t n_blocks = (row->vocab + BLOCK - 1) / BLOCK;
    for (int32_t first = 0; first < n_blocks; first += BLOCKS) {
        run_blocks(&race, first, n_blocks - first < BLOCKS ? n_blocks - first : BLOCKS);
    }
}
