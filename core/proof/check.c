/* Running the cases of one pair on a few threads. */
#include "core/proof/check.h"

#include "core/cycle/law/optimum.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ATTEMPTS = 24, THREADS = 64 };
enum { BOUNDED = 4, BOUNDED_BRANCHES = 5000 }; /* cases beside which the optimum is computed */

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Pairs
 * ------------------------------------------------------------------------------------
 */

static int32_t add_pair(struct cop_proof_pair *pairs, int32_t n, int32_t room,
                        const struct cop_proof_kind *kind)
{
    for (int32_t i = 0; i < n; i++) {
        struct cop_proof_kind *known = &pairs[i].kind;
        if (known->draw == kind->draw && known->zero_only == kind->zero_only) {
            known->shape = kind->shape > known->shape ? kind->shape : known->shape;
            return n;
        }
    }
    if (n < room) {
        pairs[n] = (struct cop_proof_pair){.kind = *kind, .expected_accepted = (double)NAN};
        return n + 1;
    }
    return n;
}

int32_t cop_proof_pairs(const struct cop_rule_ops *rule, struct cop_proof_pair *pairs,
                        int32_t room)
{
    int32_t n = 0;
    for (const struct cop_claim *c = rule->lossless_for; c && c->draw != COP_DRAW_AUTO; c++) {
        struct cop_proof_kind kind = {.draw = c->draw,
                                      .shape = c->shape,
                                      .zero_only = c->zero_only,
                                      .has_state = rule->sequence_state_size > 0,
                                      .several_rows = rule->several_rows,
                                      .constant_length = rule->constant_length};
        bool is_any = c->draw == COP_DRAW_COUNT;
        if (c->zero_only) { /* temperature 0 knows one draw */
            kind.draw = COP_DRAW_DETERMINISTIC;
            is_any = false;
        }
        for (int draw = COP_DRAW_INDEPENDENT; is_any && draw < COP_DRAW_COUNT; draw++) {
            kind.draw = (enum cop_draw)draw;
            n = add_pair(pairs, n, room, &kind);
        }
        n = is_any ? n : add_pair(pairs, n, room, &kind);
    }
    return n;
}

bool cop_proof_holds(const struct cop_proof_pair *pair)
{
    return pair->cases > 0 && !pair->problem[0] && pair->worst < COP_PROOF_LIMIT;
}

/* ---- One case
 * ---------------------------------------------------------------------------------
 */

struct run {
    const struct cop_proof_plan *plan;
    struct cop_proof_pair *pair;
    struct cop_part *match; /* NULL: not in the registry */
    atomic_int next;
    int32_t n_cases;
    pthread_mutex_t lock; /* of the pair, problem_at and worst_at */
    int32_t problem_at, worst_at;
};

static void note_problem(struct run *run, int32_t number, const char *text, const char *at)
{
    (void)pthread_mutex_lock(&run->lock);
    if (!run->pair->problem[0] || number < run->problem_at) {
        run->problem_at = number;
        (void)snprintf(run->pair->problem, sizeof run->pair->problem, "%s (case %d: %s)", text,
                       (int)number, at);
    }
    (void)pthread_mutex_unlock(&run->lock);
}

static void note_law(struct run *run, int32_t number, const struct cop_law *law,
                     const char *text)
{
    struct cop_proof_pair *pair = run->pair;
    double distance = isnan(law->total_variation) ? 1 : law->total_variation;
    (void)pthread_mutex_lock(&run->lock);
    pair->cases++;
    pair->branches += law->branches;
    if (distance > pair->worst || (distance == pair->worst && number < run->worst_at)) {
        pair->worst = distance;
        run->worst_at = number;
        (void)snprintf(pair->at, sizeof pair->at, "case %d: %s", (int)number, text);
    }
    (void)pthread_mutex_unlock(&run->lock);
}

/* At temperature 0 there is one right answer, and greedy matching keeps all of it. */
static void compare_with_match(struct run *run, const struct cop_proof_case *drawn,
                               const struct cop_law *law)
{
    struct cop_law_case what = drawn->law;
    struct cop_law expected;
    struct cop_error err;
    what.rule = run->match;
    if (cop_law_enumerate(&expected, &what, &err) != COP_OK) {
        return; /* match claims every draw and shape: this is another builder's fault */
    }
    if (law->expected_accepted < expected.expected_accepted - 1e-9) {
        (void)pthread_mutex_lock(&run->lock);
        run->pair->weaker_at_zero++;
        (void)pthread_mutex_unlock(&run->lock);
    }
    cop_law_release(&expected);
}

/* No rule keeps more than the optimum. */
static void compare_with_optimum(struct run *run, int32_t number,
                                 const struct cop_proof_case *drawn, const struct cop_law *law)
{
    struct cop_optimum optimum;
    struct cop_error err; /* not every draw has a bound */
    if (cop_optimum_find(&optimum, &drawn->law, &err) != COP_OK) {
        return;
    }
    if (law->expected_accepted > optimum.value + 1e-9) {
        char text[160];
        (void)snprintf(text, sizeof text, "keeps %.9g tokens, more than the optimum %.9g",
                       law->expected_accepted, optimum.value);
        note_problem(run, number, text, drawn->text);
    }
    cop_optimum_release(&optimum);
}

/* COP_ERR_LIMIT: it has too many branches. */
static enum cop_status run_case(struct run *run, int32_t number, int32_t attempt)
{
    struct cop_proof_case drawn;
    struct cop_error err;
    enum cop_status status = cop_proof_case_draw(&drawn, run->plan->registry, &run->pair->kind,
                                                 run->plan->seed, number, attempt, &err);
    if (status != COP_OK) {
        note_problem(run, number, err.text, "no case could be made");
        return COP_OK;
    }
    struct cop_law law = {0};
    drawn.law.rule = run->plan->rule;
    status = cop_law_enumerate(&law, &drawn.law, &err);
    if (status == COP_OK) {
        note_law(run, number, &law, drawn.text);
        if (drawn.law.is_zero_temperature && run->match && !drawn.law.horizon) {
            compare_with_match(run, &drawn, &law);
        } else if (number % BOUNDED == 0 && law.branches <= BOUNDED_BRANCHES) {
            compare_with_optimum(run, number, &drawn, &law);
        }
    } else if (status != COP_ERR_LIMIT) {
        note_problem(run, number, err.text, drawn.text);
        status = COP_OK;
    }
    cop_law_release(&law);
    cop_proof_case_release(&drawn);
    return status;
}

static bool is_cancelled(const struct run *run)
{
    return run->plan->cancel && atomic_load(run->plan->cancel);
}

static void *work(void *argument)
{
    struct run *run = argument;
    for (int number;
         (number = atomic_fetch_add(&run->next, 1)) < run->n_cases && !is_cancelled(run);) {
        int32_t attempt = 0;
        while (run_case(run, number, attempt) == COP_ERR_LIMIT && attempt < ATTEMPTS) {
            attempt += 3;
        }
    }
    return NULL;
}

/* ---- All of them
 * ------------------------------------------------------------------------------
 */

static void work_together(struct run *run)
{
    pthread_t threads[THREADS];
    int32_t wanted = run->plan->threads < THREADS ? run->plan->threads : THREADS, n = 0;
    while (n < wanted - 1 && pthread_create(&threads[n], NULL, work, run) == 0) {
        n++;
    }
    (void)work(run);
    while (n > 0) {
        (void)pthread_join(threads[--n], NULL);
    }
}

enum cop_status cop_proof_run(const struct cop_proof_plan *plan, struct cop_proof_pair *pair,
                              struct cop_error *err)
{
    double started = now();
    struct run run = {.plan = plan, .pair = pair, .worst_at = -1};
    const struct cop_plug *match = cop_registry_find(plan->registry, COP_PLUG_RULE, "match");
    run.match = match ? cop_part_new(match) : NULL;
    int32_t n_fixed = pair->kind.zero_only ? 0 : cop_proof_fixed_cases(&pair->kind);
    atomic_init(&run.next, 0);
    run.n_cases = plan->cases > n_fixed ? plan->cases : n_fixed;
    if (pthread_mutex_init(&run.lock, NULL) != 0) {
        cop_part_free(run.match);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a lock");
    }
    work_together(&run);
    (void)pthread_mutex_destroy(&run.lock);
    cop_part_free(run.match);
    struct cop_error ignored; /* a rule may decline the reference; its cases speak for it */
    (void)cop_proof_reference(plan, pair, &ignored);
    pair->seconds = now() - started;
    return is_cancelled(&run) ? cop_fail(err, COP_ERR_CANCELLED, "interrupted") : COP_OK;
}

enum cop_status cop_proof_reference(const struct cop_proof_plan *plan,
                                    struct cop_proof_pair *pair, struct cop_error *err)
{
    struct cop_proof_case drawn;
    enum cop_status status = cop_proof_case_reference(&drawn, plan->registry, &pair->kind, err);
    struct cop_law law = {0};
    pair->expected_accepted = pair->distance = pair->optimum = (double)NAN;
    drawn.law.rule = plan->rule;
    drawn.law.relaxed = true;
    if (status == COP_OK) {
        status = cop_law_enumerate(&law, &drawn.law, err);
    }
    if (status == COP_OK) {
        pair->expected_accepted = law.expected_accepted;
        pair->distance = law.total_variation;
    }
    cop_law_release(&law);
    struct cop_optimum optimum;
    struct cop_error ignored; /* not every draw has a bound */
    if (status == COP_OK && cop_optimum_find(&optimum, &drawn.law, &ignored) == COP_OK) {
        pair->optimum = optimum.value;
        cop_optimum_release(&optimum);
    }
    cop_proof_case_release(&drawn);
    return status;
}
