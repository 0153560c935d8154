/* Law of the states, and the plan by maximal flow. */
#include "algorithms/accept/coupling.h"
#include "core/cycle/law/flow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sets
 * ------------------------------------------------------------------------------------- */

static int64_t choose(int32_t n, int32_t k)
{
    int64_t result = 1;
    for (int32_t i = 0; i < k; i++) {
        result = result * (n - i) / (i + 1);
    }
    return result;
}

static int64_t count_sets(int32_t n, int32_t size)
{
    int64_t total = 0;
    for (int32_t m = 0; m <= size && m <= n; m++) {
        total += choose(n, m);
    }
    return total;
}

int32_t cop_transport_head(int32_t n_draws, int32_t limit, int32_t vocab)
{
    int32_t most = vocab <= COP_HEAD_LIMIT ? COP_TRANSPORT_SMALL_SETS : COP_TRANSPORT_SETS;
    while (count_sets(limit, n_draws) > most) {
        limit--;
    }
    return limit;
}

static int32_t size_of(uint32_t set)
{
    int32_t size = 0;
    for (; set; set &= set - 1) {
        size++;
    }
    return size;
}

int32_t cop_transport_state(const struct cop_transport *plan, uint32_t set, bool has_rest)
{
    return size_of(set) > plan->size ? -1 : 2 * plan->place[set] + has_rest;
}

static void list_sets(struct cop_transport *plan)
{
    int16_t n = 0;
    plan->place[0] = 0;
    plan->sets[n++] = 0;
    for (int32_t size = 1; size <= plan->size; size++) {
        for (uint32_t set = (1u << size) - 1; set < 1u << plan->n;) {
            plan->place[set] = n;
            plan->sets[n++] = set;
            uint32_t low = set & (~set + 1), next = set + low; /* the next of the same size */
            set = next | (((set ^ next) / low) >> 2);
        }
    }
}

/* ---- Law of the states
 * ------------------------------------------------------------------------ */

/* One more draw from the row with this law on the items, after `n_draws`. */
static void draw_once(const struct cop_transport *plan, const double *law, bool is_replaced,
                      int32_t n_draws, const double *before, double *after)
{
    int32_t n_reached = (int32_t)count_sets(plan->n, n_draws);
    n_reached = n_reached < plan->n_sets ? n_reached : plan->n_sets;
    memset(after, 0, (size_t)plan->n_states * sizeof *after);
    for (int32_t s = 0; s < n_reached; s++) {
        double plain = before[2 * s], rest = before[2 * s + 1], in = 0, out = law[plan->n];
        for (int32_t i = 0; i < plan->n; i++) {
            *(plan->sets[s] >> i & 1 ? &in : &out) += law[i];
        }
        double scale = is_replaced ? 1 : out > 0 ? 1 / out : 0;
        after[2 * s] += plain * (is_replaced ? in : out > 0 ? 0 : 1);
        after[2 * s + 1] +=
            plain * law[plan->n] * scale + rest * (is_replaced ? in + law[plan->n] : 1);
        bool is_full = size_of(plan->sets[s]) == plan->size;
        for (int32_t i = 0; i < plan->n && !is_full; i++) {
            if (!(plan->sets[s] >> i & 1)) {
                int32_t more = 2 * plan->place[plan->sets[s] | 1u << i];
                after[more] += plain * law[i] * scale;
                after[more + 1] += is_replaced ? rest * law[i] : 0;
            }
        }
    }
}

static enum cop_status fill_law(struct cop_transport *plan, const struct cop_siblings *siblings,
                                const struct cop_head *head, bool is_replaced,
                                struct cop_error *err)
{
    double law[COP_HEAD_ITEMS];
    double *next = malloc((size_t)plan->n_states * sizeof *next);
    if (!next) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a transport plan");
    }
    memset(plan->law, 0, (size_t)plan->n_states * sizeof *plan->law);
    plan->law[0] = 1;
    for (int32_t j = 0; j < siblings->n_draws; j++) {
        if (j == 0 || (!siblings->same_draft && j < siblings->n)) {
            cop_head_law(head, siblings->drafts[j], law);
            plan->draft_rest = law[plan->n];
        }
        draw_once(plan, law, is_replaced, j, plan->law, next);
        memcpy(plan->law, next, (size_t)plan->n_states * sizeof *next);
    }
    free(next);
    return COP_OK;
}

/* ---- The plan
 * --------------------------------------------------------------------------------- */

/* Whether a state may give to an item. */
static bool may_give(const struct cop_transport *plan, int32_t state, int32_t item)
{
    return item == plan->n ? state & 1 : plan->sets[state / 2] >> item & 1;
}

/* Source 0, sink 1, items from 2, states after them; edges to items in the order of states and
 * items. */
static enum cop_status find_flow(struct cop_transport *plan, const double *target,
                                 bool uses_rest, struct cop_error *err)
{
    int32_t n_items = plan->n + 1, first_state = 2 + n_items, edge = 0;
    struct cop_flow flow;
    enum cop_status status = cop_flow_init(&flow, first_state + plan->n_states,
                                           n_items + plan->n_states * (2 + plan->size), err);
    if (status != COP_OK) {
        return status;
    }
    for (int32_t s = 0; s < plan->n_states; s++) {
        for (int32_t i = 0; i < n_items && plan->law[s] > 0; i++) {
            if (may_give(plan, s, i) && (i < plan->n || uses_rest)) {
                (void)cop_flow_add(&flow, first_state + s, 2 + i, (double)INFINITY);
            }
        }
    }
    for (int32_t i = 0; i < n_items; i++) {
        (void)cop_flow_add(&flow, 2 + i, 1, target[i]);
    }
    for (int32_t s = 0; s < plan->n_states; s++) {
        (void)cop_flow_add(&flow, 0, first_state + s, plan->law[s]);
    }
    (void)cop_flow_solve(&flow, 0, 1);
    for (int32_t s = 0; s < plan->n_states; s++) {
        for (int32_t i = 0; i < n_items && plan->law[s] > 0; i++) {
            if (may_give(plan, s, i) && (i < plan->n || uses_rest)) {
                plan->gives[s * n_items + i] = cop_flow_on(&flow, edge++);
            }
        }
    }
    cop_flow_release(&flow);
    return COP_OK;
}

void cop_transport_settle(struct cop_transport *plan, const double *target)
{
    int32_t n_items = plan->n + 1;
    memset(plan->used, 0, sizeof plan->used);
    for (int32_t s = 0; s < plan->n_states; s++) {
        double *gives = plan->gives + (ptrdiff_t)s * n_items, sum = 0;
        for (int32_t i = 0; i < n_items; i++) {
            sum += gives[i];
        }
        double scale = sum > plan->law[s] ? plan->law[s] / sum : 1;
        for (int32_t i = 0; i < n_items; i++) {
            plan->used[i] += gives[i] *= scale;
        }
    }
    for (int32_t i = 0; i < plan->n; i++) {
        double scale = plan->used[i] > target[i] ? target[i] / plan->used[i] : 1;
        for (int32_t s = 0; s < plan->n_states && scale < 1; s++) {
            plan->gives[s * n_items + i] *= scale;
        }
        plan->used[i] *= scale;
    }
    plan->rest_scale = plan->draft_rest > 0 ? plan->used[plan->n] / plan->draft_rest : 0;
}

/* Probability that would go to nobody may as well be offered to the rest. */
static void offer_rest(struct cop_transport *plan)
{
    int32_t n_items = plan->n + 1;
    for (int32_t s = 1; s < plan->n_states; s += 2) {
        double *gives = plan->gives + (ptrdiff_t)s * n_items, given = 0;
        for (int32_t i = 0; i < plan->n; i++) {
            given += gives[i];
        }
        gives[plan->n] = fmax(plan->law[s] - given, gives[plan->n]);
    }
}

enum cop_status cop_transport_solve(struct cop_transport *plan,
                                    const struct cop_siblings *siblings,
                                    const struct cop_head *head, bool is_replaced,
                                    struct cop_error *err)
{
    *plan = (struct cop_transport){.n = head->n};
    plan->size = siblings->n_draws < head->n ? siblings->n_draws : head->n;
    plan->n_sets = (int32_t)count_sets(plan->n, plan->size);
    plan->n_states = 2 * plan->n_sets;
    plan->sets = malloc((size_t)plan->n_sets * sizeof *plan->sets);
    plan->place = malloc(((size_t)1 << plan->n) * sizeof *plan->place);
    plan->law = malloc((size_t)plan->n_states * sizeof *plan->law);
    plan->gives = calloc((size_t)plan->n_states * (size_t)(plan->n + 1), sizeof *plan->gives);
    enum cop_status status = COP_OK;
    if (!plan->sets || !plan->place || !plan->law || !plan->gives) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a transport plan");
    }
    /* Tokens of the rest from different rows have no common law. */
    bool uses_rest = siblings->same_draft;
    if (status == COP_OK) {
        list_sets(plan);
        status = fill_law(plan, siblings, head, is_replaced, err);
    }
    if (status == COP_OK) {
        status = find_flow(plan, head->target, uses_rest, err);
    }
    if (status != COP_OK) {
        cop_transport_release(plan);
        return status;
    }
    if (uses_rest) {
        offer_rest(plan);
    }
    cop_transport_settle(plan, head->target);
    return COP_OK;
}

void cop_transport_release(struct cop_transport *plan)
{
    free(plan->sets);
    free(plan->place);
    free(plan->law);
    free(plan->gives);
    *plan = (struct cop_transport){0};
}
