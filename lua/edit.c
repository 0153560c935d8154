/* core.edit of the program (see edit.h):
 *
 *     edit.open(path, complete)   once: history is kept in the file (nil: nowhere);
 *                                 complete(text before the cursor) → bytes to delete before
 *                                 it, text to insert there, text to show below the line | nil
 *     edit.line(prompt)           → a line without its end | false: Ctrl-C | nil: no more
 *     edit.call(f)                → true, results… | false, error; Ctrl-C raises in f
 *
 * Characters are read here and not by libedit, which would go on reading after Ctrl-C. */
#include "lua/edit.h"

#include "lua/bind.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- Ctrl-C ---------------------------------------------------------------------------------
 */

static lua_State *running; /* inside edit.call */
static volatile sig_atomic_t is_interrupted;

static void stop_hook(lua_State *L, lua_Debug *where)
{
    (void)where;
    lua_sethook(L, NULL, 0, 0);
    (void)luaL_error(L, "interrupted");
}

/* Engines look at cop_lua_interrupt, Lua code stops at its next instruction. lua_sethook is
 * made to be called from a handler. */
static void on_interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
    if (running) {
        atomic_store(&cop_lua_interrupt, true);
        lua_sethook(running, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
    }
}

/* From the first line or call on, for good: a Ctrl-C between two of them ends nothing. */
static void catch_interrupt(void)
{
    struct sigaction action = {0};
    action.sa_handler = on_interrupt; /* without SA_RESTART: a read ends */
    (void)sigemptyset(&action.sa_mask);
    is_interrupted = 0;
    (void)sigaction(SIGINT, &action, NULL);
}

static int edit_call(lua_State *L)
{
    lua_settop(L, 1);
    catch_interrupt();
    atomic_store(&cop_lua_interrupt, false);
    running = L;
    int status = lua_pcall(L, 0, LUA_MULTRET, 0);
    running = NULL;
    lua_sethook(L, NULL, 0, 0);
    atomic_store(&cop_lua_interrupt, false);
    lua_pushboolean(L, status == LUA_OK);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* ---- Lines ----------------------------------------------------------------------------------
 */

#ifdef COP_HAS_EDIT
#include <histedit.h>
#include <locale.h>
#include <wchar.h>

#define KEPT_LINES 1000

static EditLine *editor;
static History *history_of_lines;
static char history_path[4096]; /* "": nowhere */
static char prompt_text[64];
static lua_State *completing; /* inside edit.line */
static const char complete_key;

static char *prompt_of(EditLine *e)
{
    (void)e;
    return prompt_text;
}

/* 1: a character; 0: no more; -1: Ctrl-C, or the terminal is gone. */
static int read_character(EditLine *e, wchar_t *out)
{
    (void)e;
    mbstate_t state = {0};
    for (;;) {
        char byte;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got == 0) {
            return 0;
        } else if (got < 0) {
            if (errno == EINTR && !is_interrupted) {
                continue;
            }
            return -1;
        }
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) { /* not of this encoding: as it is */
            *out = (wchar_t)(unsigned char)byte;
            return 1;
        } else if (used != (size_t)-2) {
            return 1;
        }
    }
}

/* What complete says about text[0..length), called protected. */
static int ask_complete(lua_State *L)
{
    (void)lua_rawgetp(L, LUA_REGISTRYINDEX, &complete_key);
    lua_insert(L, 1);
    lua_call(L, 1, 3);
    return 3;
}

static unsigned char complete(EditLine *e, int key)
{
    (void)key;
    const LineInfo *line = el_line(e);
    lua_State *L = completing;
    unsigned char outcome = CC_ERROR;
    lua_pushcfunction(L, ask_complete);
    lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
    if (lua_pcall(L, 1, 3, 0) != LUA_OK) {
        lua_pop(L, 1);
        return outcome;
    }
    const char *insertion = lua_tostring(L, -2), *shown = lua_tostring(L, -1);
    if (insertion) {
        el_deletestr(e, (int)lua_tointeger(L, -3));
        (void)el_insertstr(e, insertion);
        outcome = CC_REFRESH;
    }
    if (shown) {
        (void)fprintf(stdout, "\n%s\n", shown);
        outcome = CC_REDISPLAY;
    }
    lua_pop(L, 3);
    return outcome;
}

static int open_history(const char *path)
{
    HistEvent event;
    history_of_lines = history_init();
    if (!history_of_lines) {
        return -1;
    }
    (void)history(history_of_lines, &event, H_SETSIZE, KEPT_LINES);
    (void)history(history_of_lines, &event, H_SETUNIQUE, 1);
    if (path && strlen(path) < sizeof history_path) {
        (void)strcpy(history_path, path);
        (void)history(history_of_lines, &event, H_LOAD, history_path);
    }
    return el_set(editor, EL_HIST, history, history_of_lines);
}

static int edit_open(lua_State *L)
{
    const char *path = luaL_optstring(L, 1, NULL);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &complete_key);
    if (editor) {
        return 0;
    }
    (void)setlocale(LC_CTYPE,
                    ""); /* characters of more than one byte; numbers stay as they are */
    editor = el_init("coppice", stdin, stdout, stderr);
    if (!editor || open_history(path) != 0) {
        return luaL_error(L, "no memory for a line editor");
    }
    (void)el_set(editor, EL_PROMPT, prompt_of);
    (void)el_set(editor, EL_EDITOR, "emacs");
    (void)el_set(editor, EL_SIGNAL, 0);
    (void)el_set(editor, EL_GETCFN, read_character);
    (void)el_set(editor, EL_ADDFN, "coppice-complete", "names of coppice", complete);
    (void)el_set(editor, EL_BIND, "^I", "coppice-complete", NULL);
    (void)el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    (void)el_source(editor, NULL); /* the person's own ~/.editrc */
    return 0;
}

static void remember(const char *line)
{
    HistEvent event;
    (void)history(history_of_lines, &event, H_ENTER, line);
    if (history_path[0]) {
        (void)history(history_of_lines, &event, H_SAVE, history_path);
    }
}

static int edit_line(lua_State *L)
{
    const char *prompt = luaL_checkstring(L, 1);
    luaL_argcheck(L, strlen(prompt) < sizeof prompt_text && editor, 1,
                  "no editor, or too long");
    (void)strcpy(prompt_text, prompt);
    int length = 0;
    catch_interrupt();
    completing = L;
    el_resize(editor);
    const char *line = el_gets(editor, &length);
    completing = NULL;
    if (is_interrupted) {
        (void)fputs("^C\n", stdout);
        lua_pushboolean(L, false);
    } else if (!line || length <= 0) {
        lua_pushnil(L);
    } else {
        if (line[0] != '\n') {
            remember(line);
        }
        lua_pushlstring(L, line, (size_t)length - (line[length - 1] == '\n'));
    }
    return 1;
}
#endif

void cop_lua_open_edit(lua_State *L)
{
    static const luaL_Reg functions[] = {{"call", edit_call},
#ifdef COP_HAS_EDIT
                                         {"open", edit_open},
                                         {"line", edit_line},
#endif
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    lua_setfield(L, -2, "edit");
}
