/* cop.philox: the engine's own generator, one call at a time. */
#include "lua/evidence/evidence.h"

#include "core/base/philox.h"

static void read_words(lua_State *L, int index, lua_Integer n, const char *what, uint32_t *out)
{
    if (lua_type(L, index) != LUA_TTABLE) {
        cop_lua_raise(L, "cop.philox: the %s must be a list of %I integers, got %s", what,
                      (LUAI_UACINT)n, cop_lua_got(L, index));
    }
    if ((lua_Integer)lua_rawlen(L, index) != n) {
        cop_lua_raise(L, "cop.philox: the %s must be a list of %I integers, got %I", what,
                      (LUAI_UACINT)n, (LUAI_UACINT)lua_rawlen(L, index));
    }
    for (lua_Integer i = 0; i < n; i++) {
        lua_rawgeti(L, index, i + 1);
        const char *name =
            lua_pushfstring(L, "cop.philox: word %I of the %s", (LUAI_UACINT)i + 1, what);
        out[i] = (uint32_t)cop_lua_check_integer(L, -2, 0, UINT32_MAX, name);
        lua_pop(L, 2);
    }
}

int cop_evidence_philox(lua_State *L)
{
    cop_lua_at_most(L, 2, "cop.philox");
    uint32_t counter[4], key[2], out[4];
    read_words(L, 1, 4, "counter", counter);
    read_words(L, 2, 2, "key", key);
    cop_philox(counter, key, 10, out);
    lua_createtable(L, 4, 0);
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(L, out[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}
