/* coppice repl as a person meets it, on a terminal of its own, and as a pipe meets it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define PATIENCE 20000 /* milliseconds */

static char program[4200], home[64];

/* The program lies two folders above this one: of the release build one folder further. */
static void setup(void)
{
    char folder[4096];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    cr_assert(length > 0);
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    (void)snprintf(program, sizeof program, "%s/../../coppice", folder);
    if (access(program, X_OK) != 0) {
        (void)snprintf(program, sizeof program, "%s/../../../coppice", folder);
    }
    cr_assert_eq(access(program, X_OK), 0, "%s is not there", program);
    (void)snprintf(home, sizeof home, "%s/coppice-home-XXXXXX", P_tmpdir);
    cr_assert(mkdtemp(home) != NULL);
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", home);
    cr_expect_eq(system(command), 0);
}

TestSuite(repl, .init = setup, .fini = teardown, .timeout = 120);

/* ---- A terminal -----------------------------------------------------------------------------
 */

struct terminal {
    int fd;
    pid_t child;
    char text[1 << 16]; /* what the program has written */
    size_t length, seen;
};

static struct terminal *start(void)
{
    static struct terminal t;
    t = (struct terminal){0};
    t.child = forkpty(&t.fd, NULL, NULL, NULL);
    cr_assert_geq(t.child, 0);
    if (t.child == 0) {
        (void)setenv("HOME", home, 1);
        (void)setenv("TERM", "xterm", 1);
        (void)setenv("LC_ALL", "C.UTF-8", 1);
        (void)unsetenv("XDG_STATE_HOME");
        (void)execl(program, "coppice", "repl", (char *)NULL);
        _exit(127);
    }
    return &t;
}

static void type(struct terminal *t, const char *text)
{
    cr_assert_eq(write(t->fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Reads until `text` stands behind what was expected before. */
static void expect(struct terminal *t, const char *text)
{
    for (;;) {
        char *found = strstr(t->text + t->seen, text);
        if (found) {
            t->seen = (size_t)(found - t->text) + strlen(text);
            return;
        }
        struct pollfd wait = {.fd = t->fd, .events = POLLIN};
        cr_assert_gt(poll(&wait, 1, PATIENCE), 0, "no \"%s\" in\n%s", text, t->text);
        ssize_t n = read(t->fd, t->text + t->length, sizeof t->text - 1 - t->length);
        cr_assert_gt(n, 0, "no \"%s\" before the end of\n%s", text, t->text);
        t->length += (size_t)n;
    }
}

/* The editor takes the terminal a moment after its prompt; before, keys mean other things. */
static void enter(struct terminal *t, const char *keys)
{
    struct termios mode;
    expect(t, "> ");
    while (tcgetattr(t->fd, &mode) == 0 && (mode.c_lflag & ICANON)) {
        (void)poll(NULL, 0, 1);
    }
    type(t, keys);
}

static void finish(struct terminal *t)
{
    int status = -1;
    enter(t, "\004"); /* Ctrl-D */
    char rest[256];
    while (read(t->fd, rest, sizeof rest) > 0) {
    }
    cr_assert_eq(waitpid(t->child, &status, 0), t->child);
    (void)close(t->fd);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

/* Whether the program was built with libedit. */
static bool can_edit(void)
{
    char command[4400];
    (void)snprintf(command, sizeof command, "ldd '%s' | grep -q libedit", program);
    if (system(command) == 0) {
        return true;
    }
    cr_skip_test("built without libedit (make deps installs libedit-dev)");
    return false;
}

Test(repl, results_completion_and_history)
{
    if (!can_edit()) {
        return;
    }
    struct terminal *t = start();
    expect(t, "cop.help() lists what there is");
    enter(t, "20 + 22\n");
    expect(t, "\r\n42\r\n");
    enter(t, "cop.accept.typ\t {}\n"); /* one name */
    expect(t, "\r\ncop.accept.typical { epsilon = 0.09");
    enter(t, "cop.tree.chain { de\t4 }\n"); /* an option's key */
    expect(t, "\r\ncop.tree.chain { depth = 4 }\r\n");
    enter(t, "cop.propose.suff\t\t"); /* two names: what they share, then both */
    expect(t, "suffix_automaton  suffix_tree");
    type(t, "tree {}\n");
    expect(t, "\r\ncop.propose.suffix_tree {");
    enter(t, "\"gr\xc3\xbc\xc3\x9f\" .. \"e\"\n"); /* characters of two bytes */
    expect(t, "\r\ngr\xc3\xbc\xc3\x9f"
              "e\r\n");
    finish(t);
    t = start(); /* another day: the line before the last */
    enter(t, "\033[A\033[A\n");
    expect(t, "\r\ncop.propose.suffix_tree {");
    finish(t);
}

Test(repl, control_c_stops_and_the_session_goes_on)
{
    if (!can_edit()) {
        return;
    }
    struct terminal *t = start();
    enter(t, "for i = 1, 2 do\n");
    expect(t, ">");
    enter(t, "\003"); /* forget the lines so far */
    expect(t, "^C");
    enter(t, "'still ' .. 'here'\n");
    expect(t, "\r\nstill here\r\n");
    enter(t, "io.write('run', 'ning\\n') while true do end\n");
    expect(t, "\r\nrunning\r\n");
    type(t, "\003");
    expect(t, "interrupted\r\n");
    enter(t, "6 * 7\n");
    expect(t, "\r\n42\r\n");
    finish(t);
}

/* ---- A pipe ---------------------------------------------------------------------------------
 */

/* What comes of the lines, both streams in one, and the exit status. */
static int piped(const char *lines, char *out, size_t size)
{
    char path[128], command[4600];
    (void)snprintf(path, sizeof path, "%s/lines", home);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    (void)fputs(lines, file);
    (void)fclose(file);
    (void)snprintf(command, sizeof command, "HOME=%s '%s' repl <'%s' 2>&1", home, program,
                   path);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    size_t n = fread(out, 1, size - 1, pipe);
    out[n] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

Test(repl, without_a_terminal_lines_come_from_standard_input)
{
    char out[4096];
    cr_expect_eq(piped("1 + 1\n"
                       "for i = 1, 2 do\n"
                       "   print(i)\n"
                       "end\n"
                       "x = { b = 'two\\n', 1, false }\n"
                       "x\n"
                       "_.b\n"
                       "cop.tree.chain { depth = 3 }\n"
                       "cop.model { path = 'none.gguf' }\n"
                       "nil\n",
                       out, sizeof out),
                 0);
    cr_expect_str_eq(out, "2\n1\n2\n{ 1, false, b = \"two\\n\" }\ntwo\n\n"
                          "cop.tree.chain { depth = 3 }\n"
                          "nil\tcop.model: none.gguf: No such file or directory\tio\nnil\n");
}

Test(repl, errors_are_one_line_and_the_next_line_runs)
{
    char out[4096];
    cr_expect_eq(piped("cop.tree.chain { dept = 3 }\n"
                       "x = = 1\n"
                       "error('boo\\nhoo')\n"
                       "error({ code = 7 })\n"
                       "setmetatable({}, { __tostring = function() error('tostring') end })\n"
                       "'on'\n"
                       "for\n",
                       out, sizeof out),
                 1);
    cr_expect_str_eq(
        out, "cop.tree.chain: unknown option \"dept\"; did you mean \"depth\"? (known: depth)\n"
             "unexpected symbol near '='\n"
             "boo\n"
             "{ code = 7 }\n"
             "tostring\n"
             "on\n"
             "the last lines are unfinished: for\n");
}
