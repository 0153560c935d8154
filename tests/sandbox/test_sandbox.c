/* Programs that mean harm, under each means that this machine has: what they tried must not
 * have happened, seen from outside. A means that is missing here is left out. */
#include "core/sandbox/sandbox.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char python[PATH_MAX];

static enum cop_status run_for(enum cop_sandbox_means means, const char *program,
                               double seconds, struct cop_sandbox_result *result,
                               struct cop_error *err)
{
    struct cop_sandbox_job job = {.interpreter = python,
                                  .program = program,
                                  .length = strlen(program),
                                  .seconds = seconds,
                                  .memory_bytes = 256 << 20,
                                  .output_bytes = 100000};
    if (!python[0]) {
        cr_assert_eq(cop_sandbox_interpreter("python3", python, err), COP_OK, "%s", err->text);
    }
    return cop_sandbox_run(means, &job, result, err);
}

static bool is_here(enum cop_sandbox_means means)
{
    static int known[COP_SANDBOX_N_MEANS]; /* 1 here, -1 not */
    struct cop_sandbox_result result;
    struct cop_error err = {0};
    if (!known[means]) {
        bool is_run = run_for(means, "raise SystemExit(7)", 20, &result, &err) == COP_OK;
        known[means] = is_run && result.end == COP_SANDBOX_EXIT && result.code == 7 ? 1 : -1;
        cop_sandbox_release(&result);
    }
    return known[means] > 0;
}

/* Runs a program by every means of this machine and hands each result to `judge`. */
static void everywhere(const char *program, double seconds,
                       void (*judge)(const char *means,
                                     const struct cop_sandbox_result *result))
{
    for (int means = 0; means < COP_SANDBOX_N_MEANS; means++) {
        struct cop_sandbox_result result;
        struct cop_error err = {0};
        if (is_here((enum cop_sandbox_means)means)) {
            const char *name = cop_sandbox_names[means];
            enum cop_status status =
                run_for((enum cop_sandbox_means)means, program, seconds, &result, &err);
            cr_expect_eq(status, COP_OK, "%s: %s", name, err.text);
            judge(name, &result);
            cop_sandbox_release(&result);
        }
    }
}

static bool printed(const struct cop_sandbox_text *text, const char *wanted)
{
    size_t length = strlen(wanted);
    for (size_t i = 0; i + length <= text->length; i++) {
        if (memcmp(text->bytes + i, wanted, length) == 0) {
            return true;
        }
    }
    return false;
}

static const char *wanted_text;

static void expect_text(const char *means, const struct cop_sandbox_result *result)
{
    cr_expect(printed(&result->out, wanted_text), "%s: wanted \"%s\", got \"%.*s\" \"%.*s\"",
              means, wanted_text, (int)result->out.length,
              result->out.bytes ? result->out.bytes : "", (int)result->err.length,
              result->err.bytes ? result->err.bytes : "");
}

static void expect(const char *program, const char *text)
{
    wanted_text = text;
    everywhere(program, 20, expect_text);
}

static void expect_timeout(const char *means, const struct cop_sandbox_result *result)
{
    cr_expect_eq(result->end, COP_SANDBOX_TIMEOUT, "%s: %d, code %d", means, result->end,
                 result->code);
    cr_expect_lt(result->seconds, 20.0, "%s", means); /* of 1000 */
}

static void expect_output_end(const char *means, const struct cop_sandbox_result *result)
{
    cr_expect_eq(result->end, COP_SANDBOX_OUTPUT, "%s: %d", means, result->end);
    cr_expect_eq(result->out.length + result->err.length, 100000, "%s", means);
}

static void expect_status_3(const char *means, const struct cop_sandbox_result *result)
{
    cr_expect_eq(result->end, COP_SANDBOX_EXIT, "%s", means);
    cr_expect_eq(result->code, 3, "%s: %d", means, result->code);
}

static void expect_signal(const char *means, const struct cop_sandbox_result *result)
{
    cr_expect_eq(result->end, COP_SANDBOX_SIGNAL, "%s: %d %d", means, result->end,
                 result->code);
}

/* What is tried reports here: a line for each attempt, "kept out" when it failed. */
#define TRY                                                                                    \
    "def attempt(name, what):\n"                                                               \
    "    try:\n"                                                                               \
    "        print(name, 'succeeded', repr(what())[:60])\n"                                    \
    "    except BaseException as e:\n"                                                         \
    "        print(name, 'kept out', type(e).__name__)\n"

static void expect_kept_out(const char *means, const struct cop_sandbox_result *result)
{
    cr_expect(printed(&result->out, "kept out"), "%s: %.*s", means, (int)result->err.length,
              result->err.bytes ? result->err.bytes : "");
    cr_expect(!printed(&result->out, "succeeded"), "%s: %.*s", means, (int)result->out.length,
              result->out.bytes ? result->out.bytes : "");
    cr_expect_eq(result->end, COP_SANDBOX_EXIT, "%s", means);
    cr_expect_eq(result->code, 0, "%s: %.*s", means, (int)result->err.length,
                 result->err.bytes ? result->err.bytes : "");
}

TestSuite(sandbox, .timeout = 120);

Test(sandbox, some_means_is_here)
{
    bool any = false;
    for (int means = 0; means < COP_SANDBOX_N_MEANS; means++) {
        any = any || is_here((enum cop_sandbox_means)means);
    }
    if (!any) {
        cr_skip_test(
            "no namespaces, no bubblewrap, no Landlock: nothing of this file was tested");
    }
}

/* ---- Harmless programs run -------------------------------------------------------------- */

Test(sandbox, a_program_computes_prints_and_ends_with_its_status)
{
    expect("import math, collections, re, typing, itertools, json, random, datetime\n"
           "print(math.comb(10, 3) + 1)",
           "121\n");
    everywhere("import sys; sys.stderr.write('x'); sys.exit(3)", 20, expect_status_3);
    expect("try:\n    input()\nexcept EOFError:\n    print('no input')", "no input");
    expect("import sys; print(__name__, 'sys' in globals())", "__main__ True");
    expect("print('sys' in globals())", "False");
}

Test(sandbox, zero_bytes_and_wrong_encodings_fail_in_python_alone)
{
    everywhere("raise SystemExit(3)", 20, expect_status_3);
    struct cop_error err = {0};
    struct cop_sandbox_result result;
    for (int means = 0; means < COP_SANDBOX_N_MEANS; means++) {
        struct cop_sandbox_job job = {python, "print(1)\0print(2)\n\xff", 19, 20, 1 << 28,
                                      1000};
        if (is_here((enum cop_sandbox_means)means)) {
            cr_expect_eq(cop_sandbox_run((enum cop_sandbox_means)means, &job, &result, &err),
                         COP_OK);
            cr_expect_eq(result.end, COP_SANDBOX_EXIT);
            cr_expect_eq(result.code, 1);
            cop_sandbox_release(&result);
        }
    }
}

Test(sandbox, a_crash_is_a_signal)
{
    everywhere("import ctypes; ctypes.string_at(0)", 20, expect_signal);
}

/* ---- Time, memory, output --------------------------------------------------------------- */

Test(sandbox, a_sleeper_is_killed)
{
    everywhere("import time\ntime.sleep(1000)", 0.5, expect_timeout);
}

Test(sandbox, a_busy_loop_that_ignores_signals_is_killed)
{
    everywhere("import signal\n"
               "for n in range(1, 32):\n"
               "    try: signal.signal(n, signal.SIG_IGN)\n"
               "    except OSError: pass\n"
               "while True: pass",
               0.5, expect_timeout);
}

Test(sandbox, closing_its_streams_hides_nobody)
{
    everywhere("import os, time\n"
               "try: os.setsid()\n"
               "except OSError: pass\n"
               "os.closerange(0, 100)\n"
               "while True: time.sleep(1)",
               0.5, expect_timeout);
}

Test(sandbox, memory_ends_in_a_memory_error)
{
    expect("try:\n"
           "    x = [bytearray(1 << 24) for _ in range(1000)]\n"
           "    print('succeeded')\n"
           "except MemoryError:\n"
           "    print('out of memory')",
           "out of memory");
    expect("import mmap\n"
           "try:\n"
           "    print('succeeded', mmap.mmap(-1, 1 << 30))\n"
           "except OSError:\n"
           "    print('out of memory')",
           "out of memory");
}

Test(sandbox, endless_output_is_cut_and_ended)
{
    everywhere("while True: print('x' * 1000)", 20, expect_output_end);
    everywhere("import sys\nwhile True: sys.stderr.write('y')", 20, expect_output_end);
}

/* ---- Files ------------------------------------------------------------------------------ */

Test(sandbox, files_outside_are_not_read)
{
    char path[] = "/tmp/coppice-secret-XXXXXX", program[2048];
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, "secret", 6) == 6);
    (void)snprintf(program, sizeof program,
                   TRY "import os\n"
                       "attempt('file', lambda: open('%s').read())\n"
                       "attempt('passwords', lambda: open('/etc/passwd').read())\n"
                       "attempt('home', lambda: os.listdir('/root'))\n"
                       "attempt('tmp', lambda: os.listdir('/tmp')[0])\n"
                       "attempt('disk', lambda: open('/dev/sda', 'rb').read(1))\n"
                       "attempt('up', lambda: open('/usr/../../../..%s').read())\n",
                   path, path);
    everywhere(program, 20, expect_kept_out);
    cr_expect_eq(close(fd), 0);
    cr_expect_eq(unlink(path), 0);
}

Test(sandbox, nothing_is_written_anywhere)
{
    char folder[] = "/tmp/coppice-open-XXXXXX", program[2048];
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert_eq(chmod(folder, 0777), 0);
    (void)snprintf(program, sizeof program,
                   TRY "import os, tempfile\n"
                       "attempt('there', lambda: open('%s/x', 'w').write('x'))\n"
                       "attempt('root', lambda: open('/x', 'w'))\n"
                       "attempt('tmp', lambda: open('/tmp/x', 'w'))\n"
                       "attempt('usr', lambda: open('/usr/x', 'w'))\n"
                       "attempt('shm', lambda: open('/dev/shm/x', 'w'))\n"
                       "attempt('folder', lambda: os.mkdir('/tmp/y'))\n"
                       "attempt('temporary', tempfile.mkstemp)\n"
                       "attempt('remove', lambda: os.remove('/usr/bin/env'))\n"
                       "attempt('mode', lambda: os.chmod('/usr/bin/env', 0o777))\n"
                       "attempt('mode of a folder', lambda: os.chmod('%s', 0o700))\n"
                       "attempt('times', lambda: os.utime('%s'))\n"
                       "attempt('in memory', lambda: os.memfd_create('x'))\n"
                       "attempt('standard input', lambda: os.write(0, b'x'))\n",
                   folder, folder, folder);
    everywhere(program, 20, expect_kept_out);
    cr_expect_eq(rmdir(folder), 0, "something was written");
}

Test(sandbox, a_huge_file_fills_no_disk)
{
    expect(TRY "import os\n"
               "for place in ('/tmp', '/', '/dev/shm', '/var/tmp', '.'):\n"
               "    def fill():\n"
               "        f = open(place + '/huge', 'wb')\n"
               "        while True: f.write(b'0' * (1 << 20))\n"
               "    attempt(place, fill)\n"
               "print('end')",
           "end");
}

Test(sandbox, links_lead_nowhere)
{
    char folder[] = "/tmp/coppice-link-XXXXXX", path[64], program[2048];
    cr_assert(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/link", folder);
    cr_assert_eq(symlink("/etc/passwd", path), 0);
    (void)snprintf(program, sizeof program,
                   TRY "import os\n"
                       "attempt('link outside', lambda: open('%s').read())\n"
                       "attempt('new link', lambda: os.symlink('/etc', '/tmp/e'))\n"
                       "attempt('hard link', lambda: os.link('/usr/bin/env', '/tmp/e'))\n"
                       "attempt('self', lambda: open('/proc/self/root/etc/passwd').read())\n"
                       "attempt('up', lambda: (os.chdir('/usr/..'), os.chroot('.')))\n"
                       "attempt('bind', lambda: __import__('ctypes').CDLL(None).mount(b'/', "
                       "b'/usr', None, 4096, None) == 0 or 1 / 0)\n",
                   path);
    everywhere(program, 20, expect_kept_out);
    (void)unlink(path);
    cr_expect_eq(rmdir(folder), 0);
}

/* ---- Processes -------------------------------------------------------------------------- */

Test(sandbox, a_fork_bomb_is_one_process)
{
    everywhere(TRY "import os, threading, subprocess, ctypes\n"
                   "attempt('fork', os.fork)\n"
                   "attempt('thread', lambda: threading.Thread(target=print).start())\n"
                   "attempt('program', lambda: subprocess.run(['/usr/bin/env']))\n"
                   "attempt('spawn', lambda: os.posix_spawn('/usr/bin/env', ['env'], {}))\n"
                   "def raw():\n"
                   "    libc = ctypes.CDLL(None, use_errno=True)\n"
                   "    for number in (56, 57, 58, 435, 220):\n"
                   "        if libc.syscall(number, 17, 0, 0, 0, 0) >= 0 and number != 220:\n"
                   "            return number\n"
                   "    raise OSError\n"
                   "attempt('raw calls', raw)\n",
               20, expect_kept_out);
}

Test(sandbox, its_parent_and_others_live)
{
    char program[2048];
    pid_t victim = fork();
    if (victim == 0) {
        for (;;) {
            pause();
        }
    }
    (void)snprintf(program, sizeof program,
                   TRY "import os, fcntl, signal\n"
                       "def end(pid):\n"
                       "    for number in (9, 15, 19):\n"
                       "        try: os.kill(pid, number)\n"
                       "        except OSError: pass\n"
                       "    raise OSError\n"
                       "attempt('parent', lambda: end(os.getppid()))\n"
                       "attempt('other', lambda: end(%d))\n"
                       "attempt('all', lambda: os.kill(-1, 9))\n"
                       "attempt('group', lambda: os.killpg(0, 9))\n"
                       "r, w = os.pipe()\n"
                       "attempt('owner', lambda: fcntl.fcntl(r, fcntl.F_SETOWN, %d))\n"
                       "attempt('owner of a stream', lambda: fcntl.fcntl(0, 10, 9))\n"
                       "attempt('priority', lambda: os.setpriority(os.PRIO_PROCESS, %d, 19))\n",
                   (int)victim, (int)victim, (int)victim);
    everywhere(program, 20, expect_kept_out);
    int status = 0;
    cr_expect_eq(waitpid(victim, &status, WNOHANG), 0, "the other process has ended");
    cr_expect_eq(kill(victim, SIGKILL), 0);
    cr_expect_eq(waitpid(victim, &status, 0), victim);
}

Test(sandbox, nobody_is_traced_or_read)
{
    char program[2048];
    (void)snprintf(program, sizeof program,
                   TRY
                   "import ctypes, os\n"
                   "libc = ctypes.CDLL(None, use_errno=True)\n"
                   "def call(f, *arguments):\n"
                   "    if f(*arguments) < 0: raise OSError\n"
                   "    return 1\n"
                   "attempt('attach', lambda: call(libc.ptrace, 16, %d, 0, 0))\n"
                   "attempt('trace me', lambda: call(libc.ptrace, 0, 0, 0, 0))\n"
                   "attempt('memory', lambda: call(libc.process_vm_readv, %d, 0, 0, 0, 0, 0))\n"
                   "attempt('handle', lambda: os.pidfd_open(%d))\n"
                   "attempt('namespace', lambda: call(libc.unshare, 0x10000000))\n"
                   "attempt('bpf', lambda: call(libc.syscall, 321, 0, 0, 0))\n"
                   "attempt('keys', lambda: call(libc.syscall, 250, 0, 0, 0))\n"
                   "attempt('shared memory', lambda: call(libc.shmget, 0, 1 << 30, 0o600))\n",
                   (int)getpid(), (int)getpid(), (int)getpid());
    everywhere(program, 20, expect_kept_out);
}

Test(sandbox, there_is_no_proc_to_play_with)
{
    char program[2048];
    (void)snprintf(program, sizeof program,
                   TRY "import os\n"
                       "attempt('maps', lambda: open('/proc/self/maps').read())\n"
                       "attempt('mem', lambda: open('/proc/self/mem', 'r+b'))\n"
                       "attempt('caller', lambda: open('/proc/%d/environ').read())\n"
                       "attempt('cwd', lambda: os.listdir('/proc/%d/cwd'))\n"
                       "attempt('score', lambda: open('/proc/self/oom_score_adj', 'w'))\n"
                       "attempt('host', lambda: open('/sys/power/state').read())\n",
                   (int)getpid(), (int)getpid());
    everywhere(program, 20, expect_kept_out);
}

Test(sandbox, limits_cannot_be_raised)
{
    everywhere(TRY
               "import resource as r\n"
               "attempt('memory', lambda: r.setrlimit(r.RLIMIT_AS, (-1, -1)))\n"
               "attempt('files', lambda: r.setrlimit(r.RLIMIT_FSIZE, (1 << 20, 1 << 20)))\n"
               "attempt('of its parent', lambda: r.prlimit(__import__('os').getppid() or 2, "
               "r.RLIMIT_AS))\n",
               20, expect_kept_out);
}

/* ---- Network ---------------------------------------------------------------------------- */

Test(sandbox, there_is_no_network)
{
    everywhere(TRY "import socket\n"
                   "attempt('tcp', lambda: socket.create_connection(('127.0.0.1', 22), 1))\n"
                   "attempt('name', lambda: socket.gethostbyname('example.org'))\n"
                   "attempt('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))\n"
                   "attempt('local', lambda: socket.socket(socket.AF_UNIX))\n"
                   "attempt('pair', socket.socketpair)\n"
                   "attempt('kernel', lambda: socket.socket(socket.AF_NETLINK))\n",
               20, expect_kept_out);
}

/* ---- Its caller ------------------------------------------------------------------------- */

Test(sandbox, nothing_of_its_caller_is_passed_on)
{
    (void)setenv("COPPICE_SECRET", "secret", 1);
    int fds[2];
    cr_assert_eq(pipe(fds), 0); /* without O_CLOEXEC */
    expect("import os\n"
           "open_fds = []\n"
           "for fd in range(64):\n"
           "    try:\n"
           "        os.fstat(fd); open_fds.append(fd)\n"
           "    except OSError: pass\n"
           "print(open_fds, 'COPPICE_SECRET' in os.environ, os.getcwd())",
           "[0, 1, 2] False /");
}

/* The parent of a process, 0 when it has ended (also when nobody has asked for its end yet). */
static pid_t parent_of(pid_t pid)
{
    char path[64], state = 'Z';
    int parent = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file) {
        (void)!fscanf(file, "%*d (%*[^)]) %c %d", &state, &parent);
        (void)fclose(file);
    }
    return state == 'Z' ? 0 : parent;
}

/* Processes below `top`, which is not counted. */
static int below(pid_t top, pid_t *list, int most)
{
    int n = 0;
    glob_t found;
    cr_assert_eq(glob("/proc/[0-9]*", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc && n < most; i++) {
        pid_t pid = (pid_t)atoi(found.gl_pathv[i] + 6), up = parent_of(pid);
        for (int steps = 0; up > 1 && up != top && steps < 8; steps++) {
            up = parent_of(up);
        }
        if (up == top) {
            list[n++] = pid;
        }
    }
    globfree(&found);
    return n;
}

Test(sandbox, a_program_dies_with_its_caller)
{
    for (int means = 0; means < COP_SANDBOX_N_MEANS; means++) {
        if (!is_here((enum cop_sandbox_means)means)) {
            continue;
        }
        pid_t list[16], caller = fork();
        if (caller == 0) {
            struct cop_sandbox_result result;
            struct cop_error err;
            (void)run_for((enum cop_sandbox_means)means, "import time; time.sleep(500)", 600,
                          &result, &err);
            _exit(0);
        }
        int n = 0;
        for (int tries = 0; tries < 100 && n == 0;
             tries++) { /* a busy machine takes its time */
            (void)usleep(100000);
            n = below(caller, list, 16);
        }
        int alive = n;
        cr_expect_geq(n, 1);
        cr_expect_eq(kill(caller, SIGKILL), 0);
        cr_expect_eq(waitpid(caller, NULL, 0), caller);
        for (int tries = 0; tries < 500 && alive > 0; tries++) {
            (void)usleep(20000);
            alive = 0;
            for (int i = 0; i < n; i++) {
                alive += parent_of(list[i]) != 0;
            }
        }
        cr_expect_eq(alive, 0, "%s: %d of %d processes live on", cop_sandbox_names[means],
                     alive, n);
    }
}

/* ---- Interpreters ----------------------------------------------------------------------- */

Test(sandbox, interpreters_are_binaries_that_are_there)
{
    char path[PATH_MAX];
    struct cop_error err = {0};
    cr_expect_eq(cop_sandbox_interpreter("python3", path, &err), COP_OK);
    cr_expect_eq(path[0], '/');
    cr_expect_eq(cop_sandbox_interpreter("no-such-python", path, &err), COP_ERR_UNSUPPORTED);
    cr_expect(strstr(err.text, "no \"no-such-python\" in /usr/bin") != NULL, "%s", err.text);
    cr_expect_eq(cop_sandbox_interpreter("/nowhere/python3", path, &err), COP_ERR_IO);
    cr_expect_eq(cop_sandbox_interpreter("/etc/hostname", path, &err), COP_ERR_UNSUPPORTED);
    cr_expect(strstr(err.text, "is no binary") != NULL, "%s", err.text);
}

Test(sandbox, a_refused_step_is_named)
{
    struct cop_sandbox_job job = {"/nowhere/python3", "", 0, 5, 1 << 28, 1000};
    struct cop_sandbox_result result;
    struct cop_error err = {0};
    if (is_here(COP_SANDBOX_NAMESPACES)) {
        cr_expect_eq(cop_sandbox_run(COP_SANDBOX_NAMESPACES, &job, &result, &err),
                     COP_ERR_UNSUPPORTED);
        cr_expect_str_eq(err.text, "/nowhere/python3: No such file or directory");
        cop_sandbox_release(&result);
    }
}
