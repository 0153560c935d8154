/* cop.load: algorithms from a shared object, under the contracts of core/cycle.
 *
 * A plug-in uses the functions of this program. Under the program itself they are visible
 * (-rdynamic); under a stock lua5.4 this module was loaded with its symbols hidden, so it is
 * opened once more as global before the first plug-in. A plug-in that was taken is never
 * unloaded: parts of it may live as long as the process. */
#include "lua/home.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void show_own_symbols(void)
{
    Dl_info own;
    if (dladdr(&cop_lua_interrupt, &own) && own.dli_fname) {
        (void)dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    }
}

struct handle {
    void *library;
};

static void close_handle(void *block)
{
    struct handle *handle = block;
    if (handle->library) {
        (void)dlclose(handle->library);
        handle->library = NULL;
    }
}

/* All plugs of a plug-in or none. */
static enum cop_status add_plugs(struct cop_registry *registry, const struct cop_plugin *plugin,
                                 struct cop_error *err)
{
    if (plugin->abi != COP_PLUG_ABI) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "the plug-in was built for version %u of the contracts, this program "
                        "has version %u: rebuild it",
                        plugin->abi, COP_PLUG_ABI);
    }
    if (!plugin->plugs || !plugin->plugs[0]) {
        return cop_fail(err, COP_ERR_FORMAT, "the plug-in has no tables");
    }
    size_t before = registry->count;
    for (size_t i = 0; plugin->plugs[i]; i++) {
        enum cop_status status = cop_registry_add(registry, plugin->plugs[i], err);
        if (status != COP_OK) {
            registry->count = before;
            return status;
        }
    }
    return COP_OK;
}

/* { name = …, "accept.mine", … } */
static void push_names(lua_State *L, const struct cop_plugin *plugin)
{
    lua_newtable(L);
    cop_lua_set_string(L, "name", plugin->name);
    for (lua_Integer i = 0; plugin->plugs[i]; i++) {
        const struct cop_plug *plug = plugin->plugs[i];
        lua_pushfstring(L, "%s.%s", cop_plug_kind_name(plug->kind), plug->name);
        lua_rawseti(L, -2, i + 1);
    }
}

/* Upvalue 1: the module. */
static int load(lua_State *L)
{
    cop_lua_at_most(L, 1, "cop.load");
    size_t length = 0;
    if (lua_type(L, 1) != LUA_TSTRING || strlen(lua_tolstring(L, 1, &length)) != length) {
        return cop_lua_raise(L, "cop.load: expects the path of a shared object, got %s",
                             cop_lua_got(L, 1));
    }
    const char *path = lua_tostring(L, 1);
    if (!strchr(path, '/')) {
        path = lua_pushfstring(L, "./%s", path); /* else the system's folders are searched */
    }
    struct handle *handle = cop_lua_guard(L, sizeof *handle, close_handle);
    int guard = lua_gettop(L);
    show_own_symbols();
    struct cop_error err;
    handle->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle->library) {
        const char *reason = dlerror();
        (void)cop_fail(&err, COP_ERR_IO, "cop.load: %s", reason ? reason : path);
        return cop_lua_fail(L, &err);
    }
    const struct cop_plugin *plugin = dlsym(handle->library, "coppice_plugin");
    struct cop_registry *registry = cop_lua_registry(L);
    size_t first = registry->count;
    enum cop_status status =
        plugin ? add_plugs(registry, plugin, &err)
               : cop_fail(&err, COP_ERR_FORMAT, "it has no symbol \"coppice_plugin\"");
    if (status != COP_OK) {
        struct cop_error named;
        (void)cop_fail(&named, err.code, "cop.load: %.160s: %.280s", path, err.text);
        cop_lua_guard_close(L, guard);
        return cop_lua_fail(L, &named);
    }
    handle->library = NULL; /* from now on it stays */
    cop_lua_enter_parts(L, lua_upvalueindex(1), first);
    push_names(L, plugin);
    return 1;
}

void cop_lua_open_plugin(lua_State *L)
{
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, load, 1);
    lua_setfield(L, -3, "load");
}
