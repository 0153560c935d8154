/* The system calls of a program in the sandbox: a list of those that an interpreter needs to
 * compute, to read its own files and to print. All others fail with EPERM, or with ENOSYS where
 * the C library then takes an older call; a call of another architecture kills.
 *
 * No clone of any kind: threads would be as good a bomb as processes. Arguments decide for a
 * few: signals and limits of the program itself, what fcntl and ioctl ask of a stream (F_SETOWN
 * would send signals to whom it names). All of them are numbers in registers, which cannot
 * change between the look and the call. */
#include "core/sandbox/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define OUR_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define OUR_ARCHITECTURE 0 /* no filter, so no sandbox */
#endif

static const int allowed[] = {
#ifdef __NR_open /* the older calls of x86-64 */
    __NR_open,
    __NR_stat,
    __NR_lstat,
    __NR_access,
    __NR_readlink,
    __NR_getdents,
    __NR_poll,
    __NR_select,
    __NR_epoll_create,
    __NR_epoll_wait,
    __NR_pipe,
    __NR_dup2,
    __NR_time,
    __NR_alarm,
    __NR_arch_prctl,
    __NR_eventfd,
#endif
    __NR_read,
    __NR_readv,
    __NR_pread64,
    __NR_preadv,
    __NR_write,
    __NR_writev,
    __NR_pwrite64,
    __NR_close,
    __NR_close_range,
    __NR_lseek,
    __NR_dup,
    __NR_dup3,
    __NR_pipe2,
    __NR_openat,
    __NR_fstat,
    __NR_newfstatat,
    __NR_statx,
    __NR_statfs,
    __NR_fstatfs,
    __NR_faccessat,
    __NR_faccessat2,
    __NR_readlinkat,
    __NR_getdents64,
    __NR_getcwd,
    __NR_chdir,
    __NR_fadvise64,
    __NR_mmap,
    __NR_munmap,
    __NR_mprotect,
    __NR_mremap,
    __NR_madvise,
    __NR_mincore,
    __NR_msync,
    __NR_brk,
    __NR_membarrier,
    __NR_rt_sigaction,
    __NR_rt_sigprocmask,
    __NR_rt_sigreturn,
    __NR_rt_sigpending,
    __NR_rt_sigtimedwait,
    __NR_sigaltstack,
    __NR_futex,
    __NR_set_robust_list,
    __NR_set_tid_address,
    __NR_rseq,
    __NR_restart_syscall,
    __NR_sched_yield,
    __NR_sched_getaffinity,
    __NR_nanosleep,
    __NR_clock_nanosleep,
    __NR_clock_gettime,
    __NR_clock_getres,
    __NR_gettimeofday,
    __NR_times,
    __NR_getitimer,
    __NR_setitimer,
    __NR_getpid,
    __NR_getppid,
    __NR_gettid,
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
    __NR_getgroups,
    __NR_getpgid,
    __NR_getsid,
    __NR_getrusage,
    __NR_uname,
    __NR_sysinfo,
    __NR_getrandom,
    __NR_getcpu,
    __NR_ppoll,
    __NR_pselect6,
    __NR_epoll_create1,
    __NR_epoll_ctl,
    __NR_epoll_pwait,
    __NR_eventfd2,
    __NR_execve,
    __NR_exit,
    __NR_exit_group,
    __NR_wait4,
    __NR_waitid};

/* Calls that the C library can do without. */
static const int absent[] = {__NR_clone3, __NR_openat2, __NR_io_uring_setup, __NR_memfd_create};

static const uint32_t ioctls[] = {TCGETS, TIOCGWINSZ, FIOCLEX, FIONCLEX, FIONBIO, FIONREAD};
static const uint32_t fcntls[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const uint32_t allow = SECCOMP_RET_ALLOW;
static const uint32_t forbid = SECCOMP_RET_ERRNO | EPERM;
static const uint32_t missing = SECCOMP_RET_ERRNO | ENOSYS;

struct program {
    struct sock_filter *out;
    unsigned short n;
};

static void emit(struct program *p, uint16_t code, size_t k, size_t yes, size_t no)
{
    p->out[p->n++] = (struct sock_filter){
        .code = code, .jt = (uint8_t)yes, .jf = (uint8_t)no, .k = (uint32_t)k};
}

static void load(struct program *p, size_t offset)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void answer(struct program *p, uint32_t action)
{
    emit(p, BPF_RET | BPF_K, action, 0, 0);
}

/* The word that was loaded last is `value`: answer `action`. */
static void answer_if(struct program *p, uint32_t value, uint32_t action)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    answer(p, action);
}

/* Call `number` is allowed when one of its arguments is in the list. */
static void allow_for(struct program *p, int number, int argument, const uint32_t *values,
                      size_t count)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 2 * count + 2);
    load(p, offsetof(struct seccomp_data, args) + 8 * (size_t)argument);
    for (size_t i = 0; i < count; i++) {
        answer_if(p, values[i], allow);
    }
    answer(p, forbid);
}

unsigned short cop_sandbox_filter(struct sock_filter out[COP_SANDBOX_FILTER_CAPACITY],
                                  pid_t own)
{
    const uint32_t self[] = {(uint32_t)own}, caller[] = {0};
    struct program p = {.out = out};
    if (!OUR_ARCHITECTURE) {
        return 0;
    }
    load(&p, offsetof(struct seccomp_data, arch));
    emit(&p, BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCHITECTURE, 1, 0);
    answer(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT(allowed); i++) {
        answer_if(&p, (uint32_t)allowed[i], allow);
    }
    for (size_t i = 0; i < COUNT(absent); i++) {
        answer_if(&p, (uint32_t)absent[i], missing);
    }
    allow_for(&p, __NR_ioctl, 1, ioctls, COUNT(ioctls));
    allow_for(&p, __NR_fcntl, 1, fcntls, COUNT(fcntls));
    allow_for(&p, __NR_tgkill, 0, self, 1);
    allow_for(&p, __NR_kill, 0, self, 1);
    allow_for(&p, __NR_prlimit64, 0, caller, 1);
    answer(&p, forbid);
    return p.n;
}
