/* lossless_for of a custom rule: { "independent", { draw =, shape =, temperature = } }. */
#include "lua/custom/custom.h"

#include "core/cycle/contract/rule.h"
#include <string.h>

#define OWNER "cop.accept.custom"

/* A string field of the claim at the top of the stack; NULL: absent. */
static const char *claim_text(lua_State *L, const char *key)
{
    lua_getfield(L, -1, key);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING) {
        cop_lua_raise(L, OWNER ": lossless_for: \"%s\" must be a string, got %s", key,
                      cop_lua_got(L, -1));
    }
    const char *text = lua_tostring(L, -1);
    lua_pop(L, 1);
    return text; /* its table keeps it */
}

static enum cop_draw read_draw(lua_State *L, const char *name)
{
    if (name && strcmp(name, "any") == 0) {
        return COP_DRAW_COUNT;
    }
    const char *known[COP_DRAW_COUNT];
    size_t n = 0;
    for (int draw = COP_DRAW_INDEPENDENT; draw < COP_DRAW_COUNT; draw++) {
        known[n++] = cop_draw_name((enum cop_draw)draw);
    }
    enum cop_draw draw = name ? cop_draw_from_name(name) : COP_DRAW_COUNT;
    if (draw == COP_DRAW_COUNT || draw == COP_DRAW_AUTO) {
        cop_lua_unknown(L, OWNER ": lossless_for", "draw", name ? name : "", known, n);
    }
    return draw;
}

static enum cop_shape read_shape(lua_State *L, const char *name)
{
    static const char *const known[] = {"chain", "paths", "tree"};
    static const enum cop_shape shapes[] = {COP_SHAPE_CHAIN, COP_SHAPE_PATHS, COP_SHAPE_TREE};
    for (int i = 0; i < 3; i++) {
        if (!name || strcmp(name, known[i]) == 0) {
            return name ? shapes[i] : COP_SHAPE_TREE;
        }
    }
    cop_lua_unknown(L, OWNER ": lossless_for", "shape", name, known, 3);
    return COP_SHAPE_TREE;
}

static bool read_zero_only(lua_State *L, const char *name)
{
    static const char *const known[] = {"any", "zero"};
    if (name && strcmp(name, "any") != 0 && strcmp(name, "zero") != 0) {
        cop_lua_unknown(L, OWNER ": lossless_for", "temperature", name, known, 2);
    }
    return name && strcmp(name, "zero") == 0;
}

/* The claim at the top of the stack. */
static struct cop_claim read_claim(lua_State *L)
{
    static const char *const known[] = {"draw", "shape", "temperature"};
    if (lua_type(L, -1) == LUA_TSTRING) {
        return (struct cop_claim){.draw = read_draw(L, lua_tostring(L, -1)),
                                  .shape = COP_SHAPE_TREE};
    }
    if (lua_type(L, -1) != LUA_TTABLE) {
        cop_lua_raise(L, OWNER ": lossless_for: an entry must be a draw or a table, got %s",
                      cop_lua_got(L, -1));
    }
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        bool is_known = false;
        for (size_t i = 0; i < 3; i++) {
            is_known |= strcmp(key, known[i]) == 0;
        }
        if (!is_known) {
            cop_lua_unknown(L, OWNER ": lossless_for", "key", key, known, 3);
        }
    }
    return (struct cop_claim){.draw = read_draw(L, claim_text(L, "draw")),
                              .shape = read_shape(L, claim_text(L, "shape")),
                              .zero_only = read_zero_only(L, claim_text(L, "temperature"))};
}

void cop_custom_read_claims(lua_State *L, int list, struct cop_claim *claims, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        claims[i] = read_claim(L);
        lua_pop(L, 1);
    }
    claims[n] = (struct cop_claim){.draw = COP_DRAW_AUTO};
}
