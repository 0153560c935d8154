/* Inside of the sandbox: what happens between the fork and the interpreter. The caller may have
 * threads, so this side allocates nothing and makes system calls only. */
#ifndef COP_SANDBOX_CONFINE_H
#define COP_SANDBOX_CONFINE_H

#include "core/sandbox/sandbox.h"
#include <linux/filter.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/* What the child reports when a step is refused, through a pipe that the interpreter closes. */
struct cop_sandbox_refusal {
    int reason; /* errno */
    char step[60];
};

struct cop_sandbox_child {
    const struct cop_sandbox_job *job;
    int in, out, err; /* become its standard streams */
    int report;       /* where a refusal goes; closed by exec */
    int filter;       /* for bubblewrap, which loads it: becomes 4; else -1 */
    uid_t uid;        /* before it had namespaces */
    gid_t gid;
    const char *const *readable; /* paths, NULL ends them */
    char *const *arguments;      /* of the program to be started, argument 0 is its path */
    struct cop_sandbox_refusal refusal;
};

/* Never return on success; when a step is refused they report it and end the process. */
void cop_sandbox_start_alone(struct cop_sandbox_child *child);    /* in new namespaces */
void cop_sandbox_start_landlock(struct cop_sandbox_child *child); /* in none */
void cop_sandbox_start_wrapper(struct cop_sandbox_child *child);  /* bubblewrap */

/* Fills in what failed, from errno. → false */
bool cop_sandbox_refuse(struct cop_sandbox_child *child, const char *step);

/* mounts.c: a root with the readable paths and a few devices, all of it read-only. */
bool cop_sandbox_mount_root(struct cop_sandbox_child *child);
/* landlock.c: this process reads the readable paths and touches nothing else. */
bool cop_sandbox_restrict_files(struct cop_sandbox_child *child);

/* filter.c: the system calls that a program may make; `own` is the process that it may signal.
 */
#define COP_SANDBOX_FILTER_CAPACITY 512
unsigned short cop_sandbox_filter(struct sock_filter out[COP_SANDBOX_FILTER_CAPACITY],
                                  pid_t own);

#endif
