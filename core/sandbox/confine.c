/* The last steps before the interpreter, in the order in which each is still possible:
 * namespaces, files, limits, streams, no new privileges, the filter, exec. */
#include "core/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

bool cop_sandbox_refuse(struct cop_sandbox_child *child, const char *step)
{
    size_t length = strlen(step), room = sizeof child->refusal.step - 1;
    child->refusal.reason = errno;
    memcpy(child->refusal.step, step, length < room ? length : room);
    return false;
}

static _Noreturn void give_up(struct cop_sandbox_child *child)
{
    (void)!write(child->report, &child->refusal, sizeof child->refusal);
    _exit(127);
}

/* ---- Namespaces ------------------------------------------------------------------------- */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int reason = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = reason;
    return is_written;
}

/* Inside it is "nobody", outside still its owner. */
static bool map_ids(struct cop_sandbox_child *child)
{
    char users[64], groups[64];
    (void)snprintf(users, sizeof users, "65534 %u 1", (unsigned int)child->uid);
    (void)snprintf(groups, sizeof groups, "65534 %u 1", (unsigned int)child->gid);
    return (write_text("/proc/self/setgroups", "deny") &&
            write_text("/proc/self/uid_map", users) &&
            write_text("/proc/self/gid_map", groups)) ||
           cop_sandbox_refuse(child, "ids of its own");
}

/* ---- What is the same for all ----------------------------------------------------------- */

static bool limit(int resource, uint64_t value)
{
    struct rlimit now, lower = {value, value};
    if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max < value) {
        lower = (struct rlimit){now.rlim_max, now.rlim_max};
    }
    return setrlimit((__rlimit_resource_t)resource, &lower) == 0;
}

static bool set_limits(struct cop_sandbox_child *child)
{
    const struct cop_sandbox_job *job = child->job;
    return (limit(RLIMIT_AS, (uint64_t)job->memory_bytes) &&
            limit(RLIMIT_CPU, (uint64_t)job->seconds + 2) && limit(RLIMIT_FSIZE, 0) &&
            limit(RLIMIT_NOFILE, 64) && limit(RLIMIT_CORE, 0) && limit(RLIMIT_MEMLOCK, 0) &&
            limit(RLIMIT_STACK, 8u << 20)) ||
           cop_sandbox_refuse(child, "limits");
}

/* A session of its own: no terminal. Ends when its caller does. */
static bool detach(struct cop_sandbox_child *child)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int number = 1; number < 32;
         number++) { /* handlers end with exec, "ignore" would not */
        (void)signal(number, SIG_DFL);
    }
    return (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && setsid() >= 0 &&
            sigprocmask(SIG_SETMASK, &none, NULL) == 0 && chdir("/") == 0) ||
           cop_sandbox_refuse(child, "a session of its own");
}

/* The three streams, the pipe for refusals at 3, maybe the filter at 4; nothing else is open.
 */
static bool take_streams(struct cop_sandbox_child *child)
{
    int report = fcntl(child->report, F_DUPFD_CLOEXEC, 10);
    int in = fcntl(child->in, F_DUPFD_CLOEXEC, 10);
    int out = fcntl(child->out, F_DUPFD_CLOEXEC, 10);
    int err = fcntl(child->err, F_DUPFD_CLOEXEC, 10);
    bool has_filter = child->filter >= 0;
    int filter = has_filter ? fcntl(child->filter, F_DUPFD_CLOEXEC, 10) : -1;
    bool is_done = report >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2 &&
                   dup3(report, 3, O_CLOEXEC) == 3 && (!has_filter || dup2(filter, 4) == 4) &&
                   syscall(SYS_close_range, has_filter ? 5 : 4, ~0U, 0) == 0;
    child->report = is_done ? 3 : child->report;
    return is_done || cop_sandbox_refuse(child, "streams");
}

static bool load_filter(struct cop_sandbox_child *child)
{
    struct sock_filter code[COP_SANDBOX_FILTER_CAPACITY];
    struct sock_fprog program = {.filter = code};
    program.len = cop_sandbox_filter(code, (pid_t)syscall(SYS_getpid));
    errno = program.len ? 0 : ENOSYS;
    return (program.len && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) ||
           cop_sandbox_refuse(child, "a filter of system calls");
}

static _Noreturn void start(struct cop_sandbox_child *child)
{
    static char words[][24] = {"PATH=/usr/bin:/bin", "HOME=/",
                               "LANG=C.UTF-8",       "PYTHONHASHSEED=0",
                               "OMP_NUM_THREADS=1",  "OPENBLAS_NUM_THREADS=1",
                               "MKL_NUM_THREADS=1"};
    static char *const environment[] = {words[0], words[1], words[2], words[3],
                                        words[4], words[5], words[6], NULL};
    (void)execve(child->arguments[0], child->arguments, environment);
    (void)cop_sandbox_refuse(child, child->arguments[0]);
    give_up(child);
}

static bool forgo_privileges(struct cop_sandbox_child *child)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ||
           cop_sandbox_refuse(child, "no new privileges");
}

void cop_sandbox_start_alone(struct cop_sandbox_child *child)
{
    if (map_ids(child) && cop_sandbox_mount_root(child) && detach(child) &&
        take_streams(child) && set_limits(child) && forgo_privileges(child) &&
        load_filter(child)) {
        start(child);
    }
    give_up(child);
}

void cop_sandbox_start_landlock(struct cop_sandbox_child *child)
{
    if (detach(child) && take_streams(child) && set_limits(child) && forgo_privileges(child) &&
        cop_sandbox_restrict_files(child) && load_filter(child)) {
        start(child);
    }
    give_up(child);
}

/* The wrapper may be set-uid, so privileges are its own business. */
void cop_sandbox_start_wrapper(struct cop_sandbox_child *child)
{
    if (detach(child) && take_streams(child) && set_limits(child)) {
        start(child);
    }
    give_up(child);
}
