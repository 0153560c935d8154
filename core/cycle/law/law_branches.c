/* All branches, cycle by cycle.
 *
 * What is left of a cycle when it is over is where its tokens ended (a prefix) and the memory
 * that the sequence carries (of the rule and of the length policy): branches that agree in both
 * have one future. So every cycle is enumerated once from each such place, with the probability
 * of all branches that came to it, and many cycles cost little more than one. */
#include "core/cycle/law/law_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BRANCH_LIMIT = 200000, QUESTION_LIMIT = 20000000 };

/* ---- Places ----------------------------------------------------------------------------- */

static size_t memory_size(const struct cop_law_run *run)
{
    return run->rule_memory + run->length_memory;
}

static char *memory_of(const struct cop_law_run *run, struct cop_law_places *places, int32_t i)
{
    return places->memory + (size_t)i * memory_size(run);
}

static enum cop_status grow(struct cop_law_run *run, struct cop_law_places *places)
{
    int32_t capacity = 2 * places->capacity + 16;
    struct cop_law_place *items =
        realloc(places->items, (size_t)capacity * sizeof *places->items);
    places->items = items ? items : places->items;
    char *memory = realloc(places->memory, (size_t)capacity * memory_size(run) + 1);
    places->memory = memory ? memory : places->memory;
    if (!items || !memory) {
        return cop_fail(run->err, COP_ERR_MEMORY, "no memory for the cycles of an enumeration");
    }
    places->capacity = capacity;
    return COP_OK;
}

/* Adds probability to the place (prefix, the run's own memory). */
static enum cop_status arrive(struct cop_law_run *run, struct cop_law_places *places,
                              int32_t prefix, double probability)
{
    size_t size = memory_size(run);
    int32_t *head = &run->prefixes.items[prefix].place;
    for (int32_t i = *head; i > 0; i = places->items[i - 1].next) {
        if (memcmp(memory_of(run, places, i - 1), run->memory, size) == 0) {
            places->items[i - 1].probability += probability;
            return COP_OK;
        }
    }
    if (places->count == places->capacity && grow(run, places) != COP_OK) {
        return run->err->code;
    }
    places->items[places->count] =
        (struct cop_law_place){.prefix = prefix, .next = *head, .probability = probability};
    memcpy(memory_of(run, places, places->count), run->memory, size);
    *head = ++places->count;
    return COP_OK;
}

/* Marks lead into the list that is being filled; the one that is read needs none. */
static void unmark(struct cop_law_run *run, const struct cop_law_places *places)
{
    for (int32_t i = 0; i < places->count; i++) {
        run->prefixes.items[places->items[i].prefix].place = 0;
    }
}

/* ---- One cycle from one place ------------------------------------------------------------ */

static void observe_length(struct cop_law_run *run, int32_t n_accepted)
{
    const struct cop_length_ops *ops =
        run->what->length ? (const struct cop_length_ops *)run->what->length->plug : NULL;
    if (ops && ops->observe) {
        const struct cop_length_cycle cycle = {.limit = run->law->depth,
                                               .depth = run->drafting.depth,
                                               .n_accepted = n_accepted,
                                               .nodes = run->drafting.tree.size,
                                               .draft_seconds = (double)NAN,
                                               .score_seconds = (double)NAN,
                                               .host_seconds = (double)NAN};
        ops->observe(run->what->length->state, run->length_state, &cycle);
    }
}

/* Where a branch of the cycle ended. */
static enum cop_status end_branch(struct cop_law_run *run, int32_t cycle, double probability,
                                  int32_t n_accepted, struct cop_law_places *next)
{
    struct cop_prefix *end = &run->prefixes.items[run->start];
    if (cycle == 0) {
        end->first += probability;
        run->law->accepted[n_accepted] += probability;
        run->law->expected_accepted += probability * n_accepted;
    }
    bool is_over = run->wanted > 0 ? end->length >= run->wanted : cycle + 1 >= run->n_cycles;
    if (is_over) {
        end->final += probability;
        return COP_OK;
    }
    return arrive(run, next, run->start, probability);
}

/* Every branch asks all its questions anew, so a rule of hundreds of flips is slow long before
 * it has many branches. */
static enum cop_status fail_limit(const struct cop_law_run *run, int64_t limit)
{
    if (run->law->branches > limit) {
        return cop_fail(
            run->err, COP_ERR_LIMIT,
            "more than %lld branches; take a smaller vocabulary, depth or width, or "
            "a rule that flips fewer coins",
            (long long)limit);
    }
    return cop_fail(
        run->err, COP_ERR_LIMIT,
        "more than %d questions in %lld branches, about %lld in each; take a smaller "
        "vocabulary, depth or width, or a rule that asks fewer",
        QUESTION_LIMIT, (long long)run->law->branches - 1,
        (long long)(run->n_questions / (run->law->branches - 1)));
}

static enum cop_status run_cycle(struct cop_law_run *run, int32_t cycle,
                                 const struct cop_law_place *from, const char *memory,
                                 struct cop_law_places *next)
{
    int64_t limit = run->what->max_branches > 0 ? run->what->max_branches : BRANCH_LIMIT;
    do {
        if (run->law->branches++ >= limit || run->n_questions > QUESTION_LIMIT) {
            return fail_limit(run, limit);
        }
        struct cop_draws draws = cop_enumeration_start(&run->enumeration);
        int32_t n_accepted = 0;
        run->start = from->prefix;
        memcpy(run->memory, memory, memory_size(run));
        enum cop_status status = cop_law_cycle(run, &draws, &n_accepted);
        run->n_questions += run->enumeration.n_asked;
        if (status != COP_OK) {
            return status;
        }
        observe_length(run, n_accepted);
        status = end_branch(run, cycle, from->probability * run->enumeration.probability,
                            n_accepted, next);
        if (status != COP_OK) {
            return status;
        }
    } while (cop_enumeration_next(&run->enumeration));
    return run->asked.code == COP_OK ? COP_OK
                                     : cop_fail(run->err, run->asked.code, "accept.%s: %s",
                                                run->rule->plug.name, run->asked.text);
}

/* ---- All cycles -------------------------------------------------------------------------- */

/* Memory at the start of a sequence. */
static void begin_memory(struct cop_law_run *run)
{
    memset(run->memory, 0, memory_size(run));
    if (run->rule_memory > 0 && run->rule->sequence_init) {
        run->rule->sequence_init(run->what->rule->state, run->sequence_state);
    }
}

enum cop_status cop_law_branches(struct cop_law_run *run)
{
    struct cop_law_places *here = &run->places[0], *next = &run->places[1];
    begin_memory(run);
    enum cop_status status = arrive(run, here, 0, 1);
    for (int32_t cycle = 0; here->count > 0 && status == COP_OK; cycle++) {
        unmark(run, here);
        for (int32_t i = 0; i < here->count && status == COP_OK; i++) {
            status = run_cycle(run, cycle, &here->items[i], memory_of(run, here, i), next);
        }
        here->count = 0;
        struct cop_law_places *swap = here;
        here = next;
        next = swap;
    }
    return status;
}

void cop_law_forget(struct cop_law_run *run)
{
    for (int32_t i = 0; i < run->prefixes.count; i++) {
        struct cop_prefix *item = &run->prefixes.items[i];
        item->first = item->final = 0;
        item->place = 0;
    }
    run->places[0].count = run->places[1].count = 0;
    memset(run->law->accepted, 0, (size_t)(run->law->depth + 1) * sizeof *run->law->accepted);
    run->law->expected_accepted = 0;
    run->law->branches = run->n_questions = 0;
    cop_enumeration_release(&run->enumeration);
    run->asked = (struct cop_error){.code = COP_OK};
    cop_enumeration_init(&run->enumeration, &run->asked);
}
