/* What our scripts ask about parts: which models they borrow. */
#include "lua/home.h"
#include "lua/system/system.h"

#include <string.h>

static void push_model_facts(lua_State *L, struct cop_model *model)
{
    const struct cop_model_info *info = cop_model_info(model);
    lua_createtable(L, 0, 4);
    cop_lua_set_string(L, "path", info->path);
    cop_lua_set_string(L, "precision", info->precision == COP_PRECISION_INT8 ? "int8" : "f32");
    cop_lua_set_string(L, "kv", info->kv_f32 ? "f32" : "f16");
    cop_lua_set_integer(L, "threads", info->threads);
}

/* A list with what `push` makes of each model among the part's options. */
static int list_models(lua_State *L, void (*push)(lua_State *L, struct cop_model *model))
{
    static const enum cop_plug_kind kinds[] = {COP_PLUG_PROPOSER, COP_PLUG_BUILDER,
                                               COP_PLUG_RULE, COP_PLUG_LENGTH};
    const struct cop_lua_part *box = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !box; i++) {
        box = luaL_testudata(L, 1, cop_lua_part_class(kinds[i]));
    }
    luaL_argcheck(L, box && box->part, 1, "a part is expected");
    lua_newtable(L);
    const struct cop_option *option = box && box->part ? box->part->plug->options : NULL;
    for (lua_Integer n = 0; option && option->name; option++) {
        if (option->type == COP_OPTION_OBJECT && strcmp(option->choices, "model") == 0) {
            struct cop_model *model =
                *(struct cop_model *const *)(const void *)((const char *)box->part->state +
                                                           option->offset);
            if (model) {
                push(L, model);
                lua_rawseti(L, -2, ++n);
            }
        }
    }
    return 1;
}

/* models(part) → { { path =, precision =, kv =, threads = }, … } of the models among its
 * options */
static int models_of(lua_State *L)
{
    return list_models(L, push_model_facts);
}

/* model_objects(part) → the same models, to be asked */
static int model_objects_of(lua_State *L)
{
    return list_models(L, cop_lua_push_model);
}

/* Into the table `core` at the top. */
void cop_lua_open_claims(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"models", models_of}, {"model_objects", model_objects_of}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
