/* Evidence without a model: laws, single verifications, shapes, random numbers, rows.
 *
 * Rows come from a script as literal rows, row objects or functions of the prefix (the list of
 * ids below the root). A source is one such row for the core: literal ones are read once,
 * functions are called under the rules of the border (lua/home.h). */
#ifndef COP_LUA_EVIDENCE_H
#define COP_LUA_EVIDENCE_H

#include "lua/home.h"

#include "core/cycle/law/law.h"

struct cop_source {
    struct cop_lua_home *home;
    const char *owner; /* "cop.exact_law": in messages */
    const char *name;  /* "target", "draft": in messages and as key */
    int32_t vocab;     /* 0: no such row */
    int32_t n;         /* rows: 1, or the number of drafters */
    double *literal;   /* [n, vocab]; a row that is a function leaves its place unused */
    bool *is_function; /* [n] */
    int functions;     /* index, in the frame that enters the border, of the table below */
};

/* Reads a row (is_list: a list of rows) at `index`. Functions go to the table at `functions` as
 * "target 1", "target 2", …. `vocab` 0: found out, for functions by asking for the first row.
 * The source lies in a guard that is pushed. Raises. */
struct cop_source *cop_source_read(lua_State *L, int index, bool is_list, const char *name,
                                   const char *owner, int32_t vocab, int functions);
/* A cop_row_function over a struct cop_source. */
enum cop_status cop_source_row(void *context, const cop_token *prefix, int32_t length,
                               int32_t drafter, double *out, struct cop_error *err);

/* A proposer that hands out the rows of a source, which must outlive it; NULL: no memory. */
struct cop_part *cop_source_proposer(struct cop_source *source);

/* A tree builder by name, its one list option set from the option value; pushed as an object.
 */
struct cop_part *cop_evidence_widths(lua_State *L, const struct cop_int_list *widths,
                                     const char *owner);
struct cop_part *cop_evidence_paths(lua_State *L, const struct cop_path_list *paths,
                                    const char *owner);

struct cop_part *cop_evidence_independent_paths(lua_State *L, int32_t count, int32_t depth,
                                                const char *owner);

void cop_evidence_push_law(lua_State *L, const struct cop_law *law, int32_t vocab,
                           bool is_relaxed);

/* The case that the option table at 1 describes. What it borrows lies in guards that are
 * pushed; index 3 holds the functions of its rows. Without a rule: the options that are about
 * one are unknown. Raises. */
void cop_evidence_read_case(lua_State *L, const char *owner, bool has_rule,
                            struct cop_law_case *what);

int cop_evidence_optimum(lua_State *L);     /* optimum.c */
int cop_evidence_verify_rows(lua_State *L); /* verify.c */
int cop_evidence_build_tree(lua_State *L);  /* once.c */
int cop_evidence_propose_once(lua_State *L);
int cop_evidence_philox(lua_State *L);      /* numbers.c */
void cop_evidence_open_proof(lua_State *L); /* proof.c: into core, at the top */
void cop_evidence_open_runs(lua_State *L);  /* runs.c: the same */
int cop_evidence_process_row(lua_State *L);

#define COP_EVIDENCE_DRAWS                                                                     \
    "independent|without_replacement|deterministic|greedy_draw|hub_pair|beam|selected"
/* From the value of a CHOICE option over the names above. */
enum cop_draw cop_evidence_draw(int32_t choice, enum cop_draw absent);

#endif
