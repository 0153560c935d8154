/* Runs one Python program that nobody has read, so that it can harm nothing: it sees the
 * interpreter's own files and its input, and nothing else.
 *
 * What holds for every program, whatever the means:
 *   - no file can be written; /dev/null alone takes bytes. Only the interpreter's own can be
 *     read: /usr, /lib…, and of an interpreter elsewhere the lib beside its bin;
 *   - no network, no other process to see, signal or trace, no new process and no thread;
 *   - address space, seconds of wall clock and bytes of output are limited: a program that goes
 *     past one is killed, and so is one whose caller dies.
 *
 * Three means, each complete by itself: namespaces of its own (user, mount, pid, net, ipc, uts)
 * with a file system built for it; bubblewrap, for systems that let only that program make
 * namespaces; or Landlock. System calls are filtered in all three (filter.c), and from the
 * filter comes what Landlock lacks: sockets, signals, processes, changes of a file's name or
 * mode. */
#ifndef COP_SANDBOX_SANDBOX_H
#define COP_SANDBOX_SANDBOX_H

#include "core/base/error.h"
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

enum cop_sandbox_means {
    COP_SANDBOX_NAMESPACES,
    COP_SANDBOX_BUBBLEWRAP,
    COP_SANDBOX_LANDLOCK,
    COP_SANDBOX_N_MEANS
};

/* "namespaces", "bubblewrap", "landlock"; NULL ends them. */
extern const char *const cop_sandbox_names[COP_SANDBOX_N_MEANS + 1];

struct cop_sandbox_job {
    const char *interpreter; /* absolute path of a Python 3, from cop_sandbox_interpreter */
    const char *program;     /* its source; zero bytes are Python's business */
    size_t length;
    double seconds;       /* of wall clock */
    int64_t memory_bytes; /* of address space */
    int64_t output_bytes; /* of standard output and standard error together */
};

enum cop_sandbox_end {
    COP_SANDBOX_EXIT,    /* code: its exit status */
    COP_SANDBOX_SIGNAL,  /* code: the signal that ended it */
    COP_SANDBOX_TIMEOUT, /* killed */
    COP_SANDBOX_OUTPUT   /* killed: it printed more than output_bytes */
};

struct cop_sandbox_text {
    char *bytes; /* not ended by a zero; NULL when empty */
    size_t length, capacity;
};

struct cop_sandbox_result {
    enum cop_sandbox_end end;
    int code;
    double seconds;
    struct cop_sandbox_text out, err;
};

/* Runs it and waits. Fails when the sandbox cannot be made (COP_ERR_UNSUPPORTED; the text says
 * which step was refused): the program has not run then. Release the result in either case. */
enum cop_status cop_sandbox_run(enum cop_sandbox_means means, const struct cop_sandbox_job *job,
                                struct cop_sandbox_result *result, struct cop_error *err);
void cop_sandbox_release(struct cop_sandbox_result *result);

/* Finds an interpreter: a path, or a name that is looked for in /usr/bin, /usr/local/bin and
 * PATH. Scripts that start another program (as version managers install them) are passed over.
 */
enum cop_status cop_sandbox_interpreter(const char *name, char path[PATH_MAX],
                                        struct cop_error *err);

#endif
