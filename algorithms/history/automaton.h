/* A suffix automaton: the smallest machine that reads exactly the substrings of a text that
 * grows at its end.
 *
 * A state stands for substrings that end at the same places; `length` is that of the longest,
 * `link` the state of the longest one that ends at more places, `end` the first of these
 * places. Appending a token costs a few table probes on average; a state that has to be split
 * copies its transitions.
 *
 * Memory: 16 bytes a state (at most 2 a token), 16 a transition (at most 3 a token) and 8 to 16
 * of table each: with room to grow 100 to 150 bytes a token of ordinary text. */
#ifndef ALGORITHMS_HISTORY_AUTOMATON_H
#define ALGORITHMS_HISTORY_AUTOMATON_H

#include "core/text/tokenizer.h"

struct cop_state {
    int32_t length;
    int32_t link;  /* -1: the empty string, state 0 */
    int32_t end;   /* index of the last token of the first occurrence */
    int32_t moves; /* first transition; -1: none */
};
struct cop_move {
    int32_t from;
    cop_token token;
    int32_t to;
    int32_t next; /* of the same state; -1: none */
};
struct cop_automaton {
    struct cop_ids text;
    struct cop_state *states;
    struct cop_move *moves;
    int32_t n_states, state_capacity;
    int32_t n_moves, move_capacity;
    int32_t *slots; /* numbers of transitions, -1: free; at most half full */
    size_t n_slots;
    int32_t last; /* state of the whole text */
};
/* How much of the end of some token sequence occurs in the text. */
struct cop_cursor {
    int32_t state, length;
};

void cop_automaton_release(struct cop_automaton *automaton); /* leaves it empty */
/* Empty, with room for n tokens; keeps what room it has. */
enum cop_status cop_automaton_clear(struct cop_automaton *automaton, int32_t n,
                                    struct cop_error *err);
enum cop_status cop_automaton_push(struct cop_automaton *automaton, cop_token token,
                                   struct cop_error *err);
/* The cursor after one more token. Before that token is pushed: else it finds itself. */
struct cop_cursor cop_automaton_advance(const struct cop_automaton *automaton,
                                        struct cop_cursor cursor, cop_token token);

#endif
