/* Every operation of the CPU backend against its slow twin, at every level of this machine. */
#include <criterion/criterion.h>

#include <string.h>

#include "kernels/cpu/level.h"
#include "kernels/ops.h"
#include "kernels/parity.h"

struct tally {
    const char *level;
    int n_cases, n_matmul, n_attention;
};

static void count_case(void *ctx, const char *op, const char *shape, double worst,
                       double tolerance)
{
    struct tally *tally = ctx;
    tally->n_cases++;
    tally->n_matmul += strcmp(op, "matmul") == 0;
    tally->n_attention += strcmp(op, "attention") == 0;
    cr_expect(worst <= tolerance, "%s: %s %s: %g is above %g", tally->level, op, shape, worst,
              tolerance);
}

static void check_level(int32_t at)
{
    const struct cop_level *level = cop_level_at(at);
    if (!level) {
        cr_skip_test("this machine has no level %d", (int)at);
    }
    struct tally tally = {.level = level->name};
    cr_expect_eq(cop_parity_run(level->name, count_case, &tally), 0);
    cr_expect_geq(tally.n_matmul, 150);
    cr_expect_geq(tally.n_attention, 10);
}

Test(parity, plain_agrees_with_the_twins)
{
    check_level(0);
}

Test(parity, avx2_agrees_with_the_twins)
{
    check_level(1);
}

Test(parity, avx512_agrees_with_the_twins)
{
    check_level(2);
}

Test(parity, vnni_agrees_with_the_twins)
{
    check_level(3);
}

Test(parity, an_unknown_level_is_refused)
{
    cr_expect_eq(cop_parity_run("sse9", NULL, NULL), -1);
    cr_expect_null(cop_ops_cpu.open(1, "sse9"));
    cr_expect_null(cop_ops_cpu.open(0, NULL));
    struct cop_device *device = cop_ops_cpu.open(1, "plain");
    cr_assert_not_null(device);
    cr_expect_str_eq(cop_ops_cpu.level(device), "plain");
    cop_ops_cpu.close(device);
    device = cop_ops_cpu.open(1, NULL);
    cr_expect_str_eq(cop_ops_cpu.level(device), cop_cpu_best_level());
    cop_ops_cpu.close(device);
}
