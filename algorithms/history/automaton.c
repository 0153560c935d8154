/* Growing a suffix automaton by one token (Blumer et al. 1985), transitions in one table. */
#include "algorithms/history/automaton.h"
#include "algorithms/history/room.h"

#include "core/base/hash.h"
#include <stdlib.h>
#include <string.h>

void cop_automaton_release(struct cop_automaton *automaton)
{
    cop_ids_release(&automaton->text);
    free(automaton->states);
    free(automaton->moves);
    free(automaton->slots);
    *automaton = (struct cop_automaton){0};
}

/* ---- Transitions ------------------------------------------------------------------------- */

static int32_t *slot_of(const struct cop_automaton *automaton, int32_t from, cop_token token)
{
    uint64_t key = (uint64_t)(uint32_t)from << 32 | (uint32_t)token;
    size_t mask = automaton->n_slots - 1;
    for (size_t at = (size_t)cop_hash_u64(key, cop_hash_seed()) & mask;; at = (at + 1) & mask) {
        int32_t *slot = &automaton->slots[at];
        if (*slot < 0 ||
            (automaton->moves[*slot].from == from && automaton->moves[*slot].token == token)) {
            return slot;
        }
    }
}

/* The transition of a state by a token, or NULL. */
static struct cop_move *find(const struct cop_automaton *automaton, int32_t from,
                             cop_token token)
{
    int32_t move = automaton->n_slots > 0 ? *slot_of(automaton, from, token) : -1;
    return move >= 0 ? &automaton->moves[move] : NULL;
}

static bool grow_slots(struct cop_automaton *automaton, size_t n)
{
    int32_t *slots = malloc(n * sizeof *slots);
    if (!slots) {
        return false;
    }
    memset(slots, -1, n * sizeof *slots);
    free(automaton->slots);
    automaton->slots = slots;
    automaton->n_slots = n;
    for (int32_t i = 0; i < automaton->n_moves; i++) {
        *slot_of(automaton, automaton->moves[i].from, automaton->moves[i].token) = i;
    }
    return true;
}

static bool reserve_moves(struct cop_automaton *automaton, int32_t n)
{
    if (n > automaton->move_capacity) {
        int32_t capacity = automaton->move_capacity + automaton->move_capacity / 2 + 128;
        capacity = capacity < n ? n : capacity;
        struct cop_move *moves =
            realloc(automaton->moves, (size_t)capacity * sizeof *automaton->moves);
        if (!moves) {
            return false;
        }
        automaton->moves = moves;
        automaton->move_capacity = capacity;
    }
    size_t n_slots = cop_room_slots((size_t)n, automaton->n_slots);
    return n_slots == automaton->n_slots || grow_slots(automaton, n_slots);
}

static bool add_move(struct cop_automaton *automaton, int32_t from, cop_token token, int32_t to)
{
    if (!reserve_moves(automaton, automaton->n_moves + 1)) {
        return false;
    }
    int32_t move = automaton->n_moves++;
    automaton->moves[move] = (struct cop_move){from, token, to, automaton->states[from].moves};
    automaton->states[from].moves = move;
    *slot_of(automaton, from, token) = move;
    return true;
}

/* ---- States ------------------------------------------------------------------------------ */

static bool reserve_states(struct cop_automaton *automaton, int32_t n)
{
    if (n > automaton->state_capacity) {
        int32_t capacity = automaton->state_capacity + automaton->state_capacity / 2 + 128;
        capacity = capacity < n ? n : capacity;
        struct cop_state *states =
            realloc(automaton->states, (size_t)capacity * sizeof *automaton->states);
        if (!states) {
            return false;
        }
        automaton->states = states;
        automaton->state_capacity = capacity;
    }
    return true;
}

static int32_t add_state(struct cop_automaton *automaton, int32_t length, int32_t link,
                         int32_t end)
{
    if (!reserve_states(automaton, automaton->n_states + 1)) {
        return -1;
    }
    automaton->states[automaton->n_states] = (struct cop_state){length, link, end, -1};
    return automaton->n_states++;
}

enum cop_status cop_automaton_clear(struct cop_automaton *automaton, int32_t n,
                                    struct cop_error *err)
{
    automaton->text.count = 0;
    automaton->n_states = automaton->n_moves = automaton->last = 0;
    if (automaton->n_slots > 0) {
        memset(automaton->slots, -1, automaton->n_slots * sizeof *automaton->slots);
    }
    enum cop_status status = cop_room_ids(&automaton->text, n, err);
    n = n < INT32_MAX / 4 ? n : INT32_MAX / 4;
    bool has_room = reserve_states(automaton, 2 * n) && reserve_moves(automaton, 3 * n);
    return status != COP_OK || has_room
               ? status
               : cop_fail(err, COP_ERR_MEMORY, "no memory for a suffix automaton");
}

/* The strings of `state` up to length + 1 of `from` occur at one more place from now on: they
 * get a state of their own, which takes over every transition that led there. -1: no memory. */
static int32_t split(struct cop_automaton *automaton, int32_t from, cop_token token,
                     int32_t state)
{
    struct cop_state old = automaton->states[state];
    int32_t twin = add_state(automaton, automaton->states[from].length + 1, old.link, old.end);
    for (int32_t m = old.moves; m >= 0 && twin >= 0; m = automaton->moves[m].next) {
        if (!add_move(automaton, twin, automaton->moves[m].token, automaton->moves[m].to)) {
            return -1;
        }
    }
    for (struct cop_move *move = NULL; from >= 0 && twin >= 0;
         from = automaton->states[from].link) {
        move = find(automaton, from, token);
        if (!move || move->to != state) {
            break;
        }
        move->to = twin;
    }
    if (twin >= 0) {
        automaton->states[state].link = twin;
    }
    return twin;
}

/* False: no memory. */
static bool append(struct cop_automaton *automaton, cop_token token)
{
    if (automaton->n_states == 0 && add_state(automaton, 0, -1, -1) < 0) {
        return false;
    }
    int32_t from = automaton->last, end = (int32_t)automaton->text.count - 1;
    int32_t fresh = add_state(automaton, automaton->states[from].length + 1, 0, end);
    struct cop_move *move = NULL;
    for (; fresh >= 0 && from >= 0; from = automaton->states[from].link) {
        move = find(automaton, from, token);
        if (move) {
            break;
        }
        if (!add_move(automaton, from, token, fresh)) {
            return false;
        }
    }
    automaton->last = fresh;
    if (fresh < 0 || from < 0) {
        return fresh >= 0;
    }
    int32_t link = move->to;
    if (automaton->states[link].length != automaton->states[from].length + 1) {
        link = split(automaton, from, token, link);
    }
    automaton->states[fresh].link = link;
    return link >= 0;
}

enum cop_status cop_automaton_push(struct cop_automaton *automaton, cop_token token,
                                   struct cop_error *err)
{
    if (automaton->text.count >= INT32_MAX / 3) {
        return cop_fail(err, COP_ERR_LIMIT, "a suffix automaton indexes at most %d tokens",
                        INT32_MAX / 3);
    }
    enum cop_status status = cop_ids_push(&automaton->text, token, err);
    if (status == COP_OK && !append(automaton, token)) {
        status = cop_fail(err, COP_ERR_MEMORY, "no memory for a suffix automaton");
    }
    if (status != COP_OK) {
        cop_automaton_release(automaton); /* half a step leaves no automaton */
    }
    return status;
}

struct cop_cursor cop_automaton_advance(const struct cop_automaton *automaton,
                                        struct cop_cursor cursor, cop_token token)
{
    const struct cop_move *move = find(automaton, cursor.state, token);
    while (!move && cursor.state > 0) {
        cursor.state = automaton->states[cursor.state].link;
        cursor.length = automaton->states[cursor.state].length;
        move = find(automaton, cursor.state, token);
    }
    return move ? (struct cop_cursor){move->to, cursor.length + 1} : (struct cop_cursor){0, 0};
}
