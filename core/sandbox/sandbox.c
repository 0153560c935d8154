/* The side that stays outside: prepares streams and arguments, makes the child, reads what it
 * prints and watches the clock. */
#include "core/sandbox/sandbox.h"

#include "core/base/quote.h"
#include "core/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define READABLE  12
#define ARGUMENTS 96

static const char wrapper[] = "/usr/bin/bwrap";

/* Reads the program to the end before it runs, so that it finds an empty input. */
static const char boot[] =
    "exec(compile(__import__(\"sys\").stdin.buffer.read(), \"program.py\", \"exec\"))";

const char *const cop_sandbox_names[] = {"namespaces", "bubblewrap", "landlock", NULL};

/* ---- What the program may read ---------------------------------------------------------- */

static const char *const system_paths[] = {"/usr",
                                           "/bin",
                                           "/lib",
                                           "/lib32",
                                           "/lib64",
                                           "/libx32",
                                           "/nix/store",
                                           "/etc/ld.so.cache",
                                           "/etc/alternatives",
                                           NULL};

/* Everything that one job needs, so that the child allocates nothing. */
struct sandbox {
    const struct cop_sandbox_job *job;
    struct cop_sandbox_child child;
    const char *readable[READABLE + 1];
    char library[PATH_MAX];
    char *arguments[ARGUMENTS];
    size_t n_arguments;
    char targets[READABLE][PATH_MAX]; /* of links, for bubblewrap */
    int in, out[2], err[2], report[2], filter;
    pid_t pid;
};

static bool lies_in(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

/* An interpreter outside of the system's folders brings its own: itself and the lib beside its
 * bin, nothing else of what may be somebody's home. */
static void list_readable(struct sandbox *s)
{
    size_t n = 0;
    bool is_ours = false;
    for (; system_paths[n]; n++) {
        s->readable[n] = system_paths[n];
        is_ours = is_ours || lies_in(s->job->interpreter, system_paths[n]);
    }
    const char *name = strrchr(s->job->interpreter, '/');
    size_t length = name ? (size_t)(name - s->job->interpreter) : 0;
    while (length > 0 && s->job->interpreter[--length] != '/') {
    }
    if (!is_ours && length > 0 && length + sizeof "/lib" <= sizeof s->library) {
        memcpy(s->library, s->job->interpreter, length);
        memcpy(s->library + length, "/lib", sizeof "/lib");
        s->readable[n++] = s->library;
        s->readable[n++] = s->job->interpreter;
    }
    s->readable[n] = NULL;
}

/* ---- Arguments -------------------------------------------------------------------------- */

static void add(struct sandbox *s, const char *word)
{
    s->arguments[s->n_arguments++] = (char *)(uintptr_t)word; /* execve writes to none */
}

static void add_interpreter(struct sandbox *s)
{
    const char *const words[] = {s->job->interpreter, "-B", "-s", "-c", boot};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        add(s, words[i]);
    }
}

static void add_readable(struct sandbox *s)
{
    for (size_t i = 0; s->readable[i]; i++) {
        const char *path = s->readable[i];
        ssize_t length = readlink(path, s->targets[i], PATH_MAX - 1);
        s->targets[i][length > 0 ? length : 0] = 0;
        add(s, length > 0 ? "--symlink" : "--ro-bind-try");
        add(s, length > 0 ? s->targets[i] : path);
        add(s, path);
    }
}

static void add_wrapper(struct sandbox *s)
{
    static const char *const words[] = {wrapper,
                                        "--unshare-user",
                                        "--unshare-ipc",
                                        "--unshare-pid",
                                        "--unshare-net",
                                        "--unshare-uts",
                                        "--uid",
                                        "65534",
                                        "--gid",
                                        "65534",
                                        "--as-pid-1",
                                        "--new-session",
                                        "--die-with-parent"};
    static const char *const last[] = {"--dev",
                                       "/dev",
                                       "--remount-ro",
                                       "/dev",
                                       "--remount-ro",
                                       "/",
                                       "--chdir",
                                       "/",
                                       "--seccomp",
                                       "4",
                                       "--"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        add(s, words[i]);
    }
    add_readable(s);
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        add(s, last[i]);
    }
}

/* ---- Streams ---------------------------------------------------------------------------- */

static bool write_all(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t n = write(fd, at, length);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* A file in memory with these bytes, that nobody can change. */
static int sealed(const void *bytes, size_t length)
{
    int fd = memfd_create("coppice", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (!write_all(fd, bytes, length) || lseek(fd, 0, SEEK_SET) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static int sealed_filter(void)
{
    struct sock_filter code[COP_SANDBOX_FILTER_CAPACITY];
    unsigned short n = cop_sandbox_filter(code, 1);
    return sealed(code, n * sizeof *code);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

static void release(struct sandbox *s)
{
    int *const fds[] = {&s->in,     &s->out[0],    &s->out[1],    &s->err[0],
                        &s->err[1], &s->report[0], &s->report[1], &s->filter};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        close_fd(fds[i]);
    }
}

static enum cop_status prepare(struct sandbox *s, enum cop_sandbox_means means,
                               struct cop_error *err)
{
    bool is_wrapped = means == COP_SANDBOX_BUBBLEWRAP;
    list_readable(s);
    if (is_wrapped) {
        add_wrapper(s);
    }
    add_interpreter(s);
    s->in = sealed(s->job->program, s->job->length);
    s->filter = is_wrapped ? sealed_filter() : -1;
    if (s->in < 0 || (is_wrapped && s->filter < 0) || pipe2(s->out, O_CLOEXEC) != 0 ||
        pipe2(s->err, O_CLOEXEC) != 0 || pipe2(s->report, O_CLOEXEC) != 0) {
        return cop_fail(err, COP_ERR_IO, "a program's streams: %s", strerror(errno));
    }
    s->child = (struct cop_sandbox_child){.job = s->job,
                                          .in = s->in,
                                          .out = s->out[1],
                                          .err = s->err[1],
                                          .report = s->report[1],
                                          .filter = s->filter,
                                          .uid = geteuid(),
                                          .gid = getegid(),
                                          .readable = s->readable,
                                          .arguments = s->arguments};
    return COP_OK;
}

/* ---- The child -------------------------------------------------------------------------- */

static const unsigned long new_namespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;

static enum cop_status spawn(struct sandbox *s, enum cop_sandbox_means means,
                             struct cop_error *err)
{
    unsigned long flags = means == COP_SANDBOX_NAMESPACES ? new_namespaces : 0;
    s->pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);
    if (s->pid < 0) {
        return cop_fail(err, COP_ERR_UNSUPPORTED, "%s: %s",
                        flags ? "new namespaces" : "a process", strerror(errno));
    }
    if (s->pid > 0) {
        return COP_OK;
    }
    switch (means) {
    case COP_SANDBOX_NAMESPACES: cop_sandbox_start_alone(&s->child); break;
    case COP_SANDBOX_BUBBLEWRAP: cop_sandbox_start_wrapper(&s->child); break;
    case COP_SANDBOX_LANDLOCK: cop_sandbox_start_landlock(&s->child); break;
    case COP_SANDBOX_N_MEANS: break;
    }
    _exit(127);
}

static double now_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool append(struct cop_sandbox_text *text, const char *bytes, size_t length)
{
    if (text->length + length > text->capacity) {
        size_t capacity = 2 * text->capacity + length;
        char *larger = realloc(text->bytes, capacity);
        if (!larger) {
            return false;
        }
        text->bytes = larger;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    return true;
}

/* Reads what a pipe holds, up to what is left of the allowance. → false: more than that, or no
 * memory for it */
static bool take(int *fd, struct cop_sandbox_text *text, int64_t *left)
{
    char bytes[16384];
    ssize_t n = read(*fd, bytes, sizeof bytes);
    if (n <= 0) {
        if (n == 0 || errno != EINTR) {
            close_fd(fd);
        }
        return true;
    }
    size_t kept = n > *left ? (size_t)*left : (size_t)n;
    bool is_kept = append(text, bytes, kept);
    *left -= (int64_t)kept;
    return is_kept && kept == (size_t)n;
}

/* → false when the program printed too much; true when both streams ended or time is over */
static bool listen_until(struct sandbox *s, struct cop_sandbox_result *result, double deadline)
{
    int64_t left = s->job->output_bytes;
    while (s->out[0] >= 0 || s->err[0] >= 0) {
        struct pollfd fds[] = {{.fd = s->out[0], .events = POLLIN},
                               {.fd = s->err[0], .events = POLLIN}};
        double wait = deadline - now_seconds();
        if (wait <= 0) {
            break;
        }
        if (poll(fds, 2, (int)(wait * 1000) + 1) <= 0) {
            continue;
        }
        if ((fds[0].revents && !take(&s->out[0], &result->out, &left)) ||
            (fds[1].revents && !take(&s->err[0], &result->err, &left))) {
            return false;
        }
    }
    return true;
}

/* Waits for its end, also of one that has closed its streams. → whether it ended by itself */
static bool wait_until(pid_t pid, double deadline, int *status)
{
    const struct timespec pause = {.tv_nsec = 500000};
    for (;;) {
        pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) {
            return true;
        }
        if (now_seconds() >= deadline) {
            return false;
        }
        (void)nanosleep(&pause, NULL);
    }
}

static void note_end(struct cop_sandbox_result *result, int status)
{
    bool is_signal = WIFSIGNALED(status);
    int code = is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    if (!is_signal && code > 128 && code < 128 + 65) { /* as bubblewrap hands a signal on */
        is_signal = true;
        code -= 128;
    }
    result->end = is_signal ? COP_SANDBOX_SIGNAL : COP_SANDBOX_EXIT;
    result->code = code;
}

static void supervise(struct sandbox *s, struct cop_sandbox_result *result)
{
    double started = now_seconds(), deadline = started + s->job->seconds;
    int status = 0;
    close_fd(&s->out[1]);
    close_fd(&s->err[1]);
    close_fd(&s->report[1]);
    bool is_quiet = listen_until(s, result, deadline);
    bool is_over = is_quiet && wait_until(s->pid, deadline, &status);
    if (is_over) {
        note_end(result, status);
    } else {
        result->end = is_quiet ? COP_SANDBOX_TIMEOUT : COP_SANDBOX_OUTPUT;
        (void)kill(s->pid, SIGKILL);
        while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    result->seconds = now_seconds() - started;
}

/* What the child reported before it became the interpreter. */
static enum cop_status refusal_of(struct sandbox *s, struct cop_error *err)
{
    struct cop_sandbox_refusal refusal = {0};
    if (read(s->report[0], &refusal, sizeof refusal) != (ssize_t)sizeof refusal) {
        return COP_OK;
    }
    refusal.step[sizeof refusal.step - 1] = 0;
    return cop_fail(err, COP_ERR_UNSUPPORTED, "%s: %s", refusal.step, strerror(refusal.reason));
}

enum cop_status cop_sandbox_run(enum cop_sandbox_means means, const struct cop_sandbox_job *job,
                                struct cop_sandbox_result *result, struct cop_error *err)
{
    *result = (struct cop_sandbox_result){0};
    struct sandbox *s = malloc(sizeof *s);
    if (!s) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a sandbox");
    }
    *s = (struct sandbox){.job = job,
                          .in = -1,
                          .out = {-1, -1},
                          .err = {-1, -1},
                          .report = {-1, -1},
                          .filter = -1};
    enum cop_status status = prepare(s, means, err);
    if (status == COP_OK) {
        status = spawn(s, means, err);
    }
    if (status == COP_OK) {
        supervise(s, result);
        status = refusal_of(s, err);
    }
    release(s);
    free(s);
    return status;
}

void cop_sandbox_release(struct cop_sandbox_result *result)
{
    free(result->out.bytes);
    free(result->err.bytes);
    *result = (struct cop_sandbox_result){0};
}
