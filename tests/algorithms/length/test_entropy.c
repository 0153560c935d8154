/* A depth by the entropy of the draft's row: published bounds, and the threshold's control. */
#include "tests/algorithms/length/length_bench.h"

static const struct cop_row *the_row(void *context, int32_t node)
{
    (void)node;
    return context;
}

static bool goes_on(double scale, double threshold, struct cop_row *row)
{
    struct cop_part *part = new_length("entropy");
    part = ready(set_number(set_number(part, "scale", scale), "threshold", threshold));
    struct asked asked = ask_of(part);
    static const int32_t node = 1;
    struct cop_length_in in = {.level = 2,
                               .limit = 8,
                               .tree = &asked.tree,
                               .frontier = &node,
                               .n_frontier = 1,
                               .draft = {the_row, row},
                               .sequence_state = asked.memory};
    bool more = asked.ops->more(asked.part->state, &in);
    done(&asked);
    return more;
}

/* A fair coin has ln 2 nats; the scale makes the entropies of the page of it. */
Test(entropy, bounds)
{
    static const double half[] = {.5, .5, 0};
    struct cop_row row = {.kind = COP_ROW_DENSE, .vocab = 3, .dense = half};
    static const double table[][2] = {{.1, .8586}, {.25, .7764}, {.5, .6838},
                                      {1, .5528},  {2, .3675},   {5, 0}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double scale = .2 * table[i][0] / log(2);
        cr_expect(goes_on(scale, table[i][1] - 6e-5, &row), "H = %g", table[i][0]);
        cr_expect_not(goes_on(scale, table[i][1] + 6e-5, &row), "H = %g", table[i][0]);
    }
    static const double sure[] = {0, 1, 0};
    row.dense = sure;
    cr_expect(goes_on(.2, 1, &row), "H = 0");
    static const cop_token ids[] = {2, 1};
    row = (struct cop_row){.kind = COP_ROW_POINTS, .vocab = 3, .ids = ids, .count = 2};
    cr_expect(goes_on(.2, 1, &row), "points");
}

Test(entropy, control)
{
    struct asked asked = ask_of(ready(new_length("entropy")));
    static const int32_t drafted[] = {5, 6, 8, 4}, accepted[] = {5, 3, 8, 1};
    static const double rates[] = {.95, .725, .8625, .55625};
    static const double thresholds[] = {.699, .700, .701, .702};
    for (int i = 0; i < 4; i++) {
        tell(&asked, (struct cop_length_cycle){
                         .limit = 8, .depth = drafted[i], .n_accepted = accepted[i]});
        const double *control = asked.memory; /* rate, threshold */
        cr_expect_lt(fabs(control[0] - rates[i]), 1e-15);
        cr_expect_lt(fabs(control[1] - thresholds[i]), 1e-15, "%.17g", control[1]);
        tell(&asked,
             (struct cop_length_cycle){.limit = 8}); /* nothing drafted, nothing learnt */
    }
    done(&asked);
}
