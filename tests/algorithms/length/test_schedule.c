/* A depth by the cycle before: two up where all was kept, one down where not. Or a constant
 * one. */
#include "tests/algorithms/length/length_bench.h"

Test(schedule, up_by_two_down_by_one)
{
    struct asked asked = ask_of(ready(new_length("schedule")));
    static const struct {
        int32_t accepted, next;
    } cycles[] = {{5, 7}, {7, 9}, {8, 8}, {0, 7}, {0, 6}, {0, 5}, {0, 4},
                  {0, 3}, {0, 2}, {0, 1}, {0, 1}, {1, 3}, {3, 5}};
    int32_t depth = depth_of(&asked, 20);
    cr_expect_eq(depth, 5);
    for (size_t i = 0; i < sizeof cycles / sizeof *cycles; i++) {
        tell(&asked, (struct cop_length_cycle){
                         .limit = 20, .depth = depth, .n_accepted = cycles[i].accepted});
        depth = depth_of(&asked, 20);
        cr_expect_eq(depth, cycles[i].next, "cycle %d", (int)i);
    }
    tell(&asked, (struct cop_length_cycle){.limit = 20}); /* a lookup that found nothing */
    cr_expect_eq(depth_of(&asked, 20), 5);
    for (int i = 0; i < 20; i++) { /* never past the tree, so that the way down is not long */
        tell(&asked, (struct cop_length_cycle){.limit = 8, .depth = 8, .n_accepted = 8});
    }
    cr_expect_eq(depth_of(&asked, 20), 8);
    done(&asked);
}

Test(schedule, constant)
{
    struct cop_part *part = set_number(new_length("schedule"), "start", 20);
    part = ready(set_string(part, "kind", "constant"));
    struct asked asked = ask_of(part);
    tell(&asked, (struct cop_length_cycle){.limit = 30, .depth = 20, .n_accepted = 20});
    cr_expect_eq(depth_of(&asked, 30), 20);
    tell(&asked, (struct cop_length_cycle){.limit = 30, .depth = 20, .n_accepted = 2});
    cr_expect_eq(depth_of(&asked, 30), 20);
    done(&asked);
}
