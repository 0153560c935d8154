/* What one opened module owns, and the border between C and a script's functions.
 *
 * Rules of the border:
 *  - Whatever C allocates while Lua may raise lies in a guard: a userdata whose collector frees
 *    it. A raise then leaks nothing.
 *  - C calls a script's function only through cop_lua_protected. Errors become
 *    COP_ERR_CALLBACK; nothing ever jumps over C frames of the core.
 *  - No lua_State of a coroutine is kept. `current` is the state of the Lua function that is
 *    inside a C call right now (cop_lua_enter, cop_lua_leave); it may be a coroutine, because
 *    it cannot end before that call returns. Outside of such a call `main` serves.
 *  - Objects that a callback lends to a script (trees, rows, draws) carry the serial of their
 *    scope and are dead once it has closed. */
#ifndef COP_LUA_HOME_H
#define COP_LUA_HOME_H

#include "lua/bind.h"
#include <stdint.h>

/* One callback that is running, innermost first. */
struct cop_lua_scope {
    uint64_t serial;
    struct cop_lua_scope *outer;
};

struct cop_lua_home {
    lua_State *main, *current;
    struct cop_lua_scope *scopes;
    uint64_t serial; /* of the newest scope */
    double microseconds;
    struct cop_error *failure; /* first failure of a callback without a status of its own
                                  (length policies); NULL outside of a call */
    struct cop_registry registry;
};

/* Creates the home of this state in the Lua registry, or finds it. Raises without memory. */
struct cop_lua_home *cop_lua_home(lua_State *L);

/* Around every call of the core that may call back: remembers L, and where a callback that
 * cannot return a status reports its failure. */
struct cop_lua_border {
    lua_State *outer;
    struct cop_error *outer_failure;
    struct cop_error failure;
};
void cop_lua_enter(struct cop_lua_home *home, lua_State *L, struct cop_lua_border *border);
/* The status of the call; a failure that a callback reported aside replaces COP_OK. */
enum cop_status cop_lua_leave(struct cop_lua_home *home, struct cop_lua_border *border,
                              enum cop_status status, struct cop_error *err);

/* Runs body(L) protected, with a scope open. Its arguments: `argument` as a light userdata and,
 * when `index` is not 0, the value at that index of the C function that entered the border.
 * `owner` begins the message. The time it takes is added to the home's microseconds. */
enum cop_status cop_lua_protected(struct cop_lua_home *home, lua_CFunction body, void *argument,
                                  int index, const char *owner, struct cop_error *err);
bool cop_lua_scope_is_open(const struct cop_lua_home *home, uint64_t serial);

/* A zeroed block of `size` bytes in a userdata, pushed; release(block) runs when it is
 * collected, closed by a script, or cop_lua_guard_close is called. Not for blocks that need
 * more than 16-byte alignment. */
void *cop_lua_guard(lua_State *L, size_t size, void (*release)(void *block));
void cop_lua_guard_close(lua_State *L, int index);

/* Tells the collector about memory that it does not see. */
void cop_lua_pressure(lua_State *L, size_t bytes);
/* Whether a failure was a lack of memory; then collects all garbage, so that one retry makes
 * sense. */
bool cop_lua_collect(lua_State *L, enum cop_status status);

/* cop_lua_error with "owner: " in front, unless the text names its owner already. */
int cop_lua_error_of(lua_State *L, const char *owner, const struct cop_error *err);

/* cop_lua_fail in the same way: for what the world did, whatever its code. */
int cop_lua_fail_of(lua_State *L, const char *owner, const struct cop_error *err);

/* Raises unless the function got exactly one argument, a table. */
void cop_lua_one_table(lua_State *L, const char *owner);
/* Raises when there are more than n arguments. */
void cop_lua_at_most(lua_State *L, int n, const char *owner);
/* "a table", "a number", "a coppice.model": what stands at an index, for messages. */
const char *cop_lua_got(lua_State *L, int index);
/* An integer in [low, high]; integral floats count. Raises "owner: what must be …, got …". */
lua_Integer cop_lua_check_integer(lua_State *L, int index, lua_Integer low, lua_Integer high,
                                  const char *what);
/* Raises `owner: unknown WORD "name"; did you mean "…"? (known: …)` for a name that is not in
 * known[0..count). */
int cop_lua_unknown(lua_State *L, const char *owner, const char *word, const char *name,
                    const char *const *known, size_t count);

/* Pushes a list of ids. */
void cop_lua_push_ids(lua_State *L, const cop_token *ids, size_t count);
/* Sets table[key] = value at the top of the stack. */
void cop_lua_set_integer(lua_State *L, const char *key, lua_Integer value);
void cop_lua_set_number(lua_State *L, const char *key, double value);
void cop_lua_set_string(lua_State *L, const char *key, const char *value);
void cop_lua_set_boolean(lua_State *L, const char *key, bool value);

/* ---- Metatables and userdata of the binding -------------------------------------------------
 */

#define COP_LUA_TOKENIZER "coppice.tokenizer"
#define COP_LUA_MODEL     "coppice.model"
#define COP_LUA_ROW       "coppice.row"
#define COP_LUA_VECTOR    "coppice.vector"
#define COP_LUA_RESIDUAL  "coppice.residual"
#define COP_LUA_TREE      "coppice.tree"
#define COP_LUA_ENGINE    "coppice.engine"

/* Creates a metatable with these functions, itself as __index unless `functions` has one, and
 * __metatable hidden from scripts; leaves nothing on the stack. */
void cop_lua_class(lua_State *L, const char *name, const luaL_Reg *functions);

/* "coppice.propose", "coppice.tree_builder", "coppice.accept", "coppice.length" */
const char *cop_lua_part_class(enum cop_plug_kind kind);

/* A part as a script holds it. User value 1: the table that keeps what its options borrow;
 * custom parts also keep their functions there, by name. */
struct cop_lua_part {
    struct cop_part *part;
    struct cop_plug *owned; /* custom parts: the table that `part` points to, freed after it */
};
/* Pushes a closed part of a kind, with an empty keeper. */
struct cop_lua_part *cop_lua_part_new(lua_State *L, enum cop_plug_kind kind);

/* Model and tokenizer objects around a reference that is given away (also after a raise). */
void cop_lua_push_tokenizer(lua_State *L, struct cop_tokenizer *tokenizer);
int cop_lua_model_score(lua_State *L); /* bind_score.c */
/* Pushes another object of a model that is open. */
void cop_lua_push_model(lua_State *L, struct cop_model *model);
/* Pushes an object that keeps a model alive and has no methods. */
void cop_lua_push_model_keeper(lua_State *L, struct cop_model *model);

/* ---- Rows (bind_rows.c) ---------------------------------------------------------------------
 */

/* What a row object shows under row[id]. */
enum cop_lua_row_face { COP_LUA_FACE_PROBABILITY, COP_LUA_FACE_LOGIT };

/* Pushes a row of logits[0..vocab) that lies in the userdata at `owner`, which it keeps alive.
 */
void cop_lua_push_logits(lua_State *L, int owner, const float *logits, int32_t vocab);
/* The same of probabilities that sum to 1. */
void cop_lua_push_law(lua_State *L, int owner, const double *law, int32_t vocab);
/* Pushes a row lent by a callback; nil for NULL. */
void cop_lua_push_row(lua_State *L, struct cop_lua_home *home, const struct cop_row *row,
                      enum cop_lua_row_face face);
/* Pushes floats of the userdata at `owner` as a vector that counts from 1. */
void cop_lua_push_vector(lua_State *L, int owner, const float *values, int32_t count);
/* The row behind an object of a live callback, or NULL if it is none. Raises for a dead one. */
const struct cop_row *cop_lua_test_row(lua_State *L, int index);
/* The residual behind an object of a live callback, or NULL if it is none. */
struct cop_residual;
const struct cop_residual *cop_lua_test_residual(lua_State *L, int index);
/* Number of entries of a literal row or row object; raises for anything else. */
int32_t cop_lua_row_size(lua_State *L, int index, const char *what);
/* Reads a literal row (first entry: token 0) or a row object of exactly `vocab` entries into
 * out: what the row shows under [id]. Raises. */
void cop_lua_read_row(lua_State *L, int index, int32_t vocab, const char *what, double *out);
/* The same, and it must be a law: no entry negative, sum 1 within 1e-6. What float noise makes
 * of the sum is divided away; a sum within COP_LUA_EXACT stays as it is, bit for bit. */
#define COP_LUA_EXACT 1e-12
void cop_lua_read_law(lua_State *L, int index, int32_t vocab, const char *what, double *out);

/* ---- Trees (bind_tree.c) --------------------------------------------------------------------
 */

/* Pushes a tree lent by a callback: size, merged, draw, token(i), parent(i), children(i),
 * depth(i). `grow`: also add and draw (tree builders); NULL else. */
struct cop_grow;
void cop_lua_push_tree(lua_State *L, struct cop_lua_home *home, const struct cop_tree *tree,
                       struct cop_grow *grow);
void cop_lua_open_tree(lua_State *L);
/* A node number of the tree, 0 … size - 1. Raises. */
int32_t cop_lua_check_node(lua_State *L, int index, const struct cop_tree *tree);
/* Reads { tokens = {…}, parents = {…}, merged = false } into an initialised tree with enough
 * capacity; node i + 1 gets draft_row parents[i]. Raises. */
void cop_lua_read_tree(lua_State *L, int index, int32_t vocab, const char *owner,
                       struct cop_tree *tree);
/* Pushes { tokens = …, parents = … } of the drafted nodes. */
void cop_lua_push_shape(lua_State *L, const struct cop_tree *tree);

/* ---- Opened by bind_parts.c -----------------------------------------------------------------
 */

void cop_lua_open_custom(lua_State *L);
void cop_lua_open_plugin(lua_State *L);
/* Enters constructors for the plugs of the registry from index `first` on into cop.propose,
 * cop.tree, …; `module` is the index of the module table. */
void cop_lua_enter_parts(lua_State *L, int module, size_t first);

#endif
