/* A small stand-in for Criterion's runner, linked instead of it under SANITIZE=thread.
 *
 * Criterion starts each test in a process whose memory it lays out itself, which
 * ThreadSanitizer's own layout does not leave room for. Tests are compiled against Criterion's
 * headers as ever; here are the few functions that those headers call, and a main that forks
 * for each test of the section "cr_tst" and writes the same TAP report. */
#include <criterion/criterion.h>
#include <criterion/options.h>
#include <criterion/parameterized.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_FAILED = 101, EXIT_SKIPPED = 102 };

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
/* Absent where no file of the program declares a suite. */
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak)),
    *__stop_cr_sts[] __attribute__((weak));

struct criterion_options criterion_options;
static const struct criterion_test *current;
static void *current_param; /* of a parameterized test */
static int n_failed_asserts;
static char skip_reason_path[64];

/* ---- What the headers call ------------------------------------------------------------------
 */

int cr_asprintf(char **text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vasprintf(text, format, args);
    va_end(args);
    return length;
}

void cr_asprintf_free(char *text)
{
    free(text);
}

char *cr_translate_assert_msg(int message, ...)
{
    (void)message; /* which comparison failed; file and line say it */
    return strdup("assertion failed");
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
    fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line, stats->message);
    n_failed_asserts++;
}

void cri_asserts_passed_incr(void) {}

void criterion_abort_test(void)
{
    fflush(NULL);
    _exit(EXIT_FAILED);
}

void criterion_continue_test(void) {}

void criterion_skip_test(const char *format, ...)
{
    FILE *file = fopen(skip_reason_path, "w");
    if (file) {
        va_list args;
        va_start(args, format);
        vfprintf(file, format, args);
        va_end(args);
        fclose(file);
    }
    _exit(EXIT_SKIPPED);
}

void cr_log(enum criterion_severity severity, const char *format, ...)
{
    (void)severity;
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* A suite without a declaration of its own has no data. */
static const struct criterion_test_extra_data *suite_of(const struct criterion_test *test)
{
    for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++) {
        if (*suite && strcmp((*suite)->name, test->category) == 0 && (*suite)->data) {
            return (*suite)->data;
        }
    }
    return NULL;
}

void criterion_internal_test_setup(void)
{
    const struct criterion_test_extra_data *suite = suite_of(current);
    if (suite && suite->init) {
        suite->init();
    }
    if (current->data->init) {
        current->data->init();
    }
}

void criterion_internal_test_main(void (*body)(void))
{
    if (current->data->kind_ == CR_TEST_PARAMETERIZED) {
        ((void (*)(void *))body)(current_param);
    } else {
        body();
    }
}

void criterion_internal_test_teardown(void)
{
    if (current->data->fini) {
        current->data->fini();
    }
    const struct criterion_test_extra_data *suite = suite_of(current);
    if (suite && suite->fini) {
        suite->fini();
    }
}

/* ---- The runner -----------------------------------------------------------------------------
 */

static int run_child(const struct criterion_test *test, void *param)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        current = test;
        current_param = param;
        test->test();
        fflush(NULL);
        exit(n_failed_asserts > 0 ? EXIT_FAILED
                                  : 0); /* exit: the sanitizer reports at the end */
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int run_test(const struct criterion_test *test)
{
    if (test->data->kind_ != CR_TEST_PARAMETERIZED) {
        return run_child(test, NULL);
    }
    struct criterion_test_params params = test->data->param_();
    int worst = 0;
    for (size_t i = 0; i < params.length; i++) {
        int code = run_child(test, (char *)params.params + i * params.size);
        worst = code ? code : worst;
    }
    return worst;
}

static void report(FILE *tap, const struct criterion_test *test, int code)
{
    char reason[200] = "";
    if (code == EXIT_SKIPPED) {
        FILE *file = fopen(skip_reason_path, "r");
        if (file) {
            reason[fread(reason, 1, sizeof reason - 1, file)] = '\0';
            fclose(file);
        }
        fprintf(tap, "ok - %s::%s # SKIP %s\n", test->category, test->name, reason);
    } else {
        fprintf(tap, "%s - %s::%s\n", code == 0 ? "ok" : "not ok", test->category, test->name);
    }
    fflush(tap);
}

int main(int argc, char **argv)
{
    FILE *tap = stdout;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--tap=", 6) == 0) {
            tap = fopen(argv[i] + 6, "w");
        }
    }
    if (!tap) {
        return 2;
    }
    snprintf(skip_reason_path, sizeof skip_reason_path, "%s/coppice-skip-%d", P_tmpdir,
             (int)getpid());
    int n_failed = 0;
    fprintf(tap, "1..%td\n", __stop_cr_tst - __start_cr_tst);
    for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
        int code = *test ? run_test(*test) : 0;
        report(tap, *test, code);
        n_failed += code != 0 && code != EXIT_SKIPPED;
    }
    remove(skip_reason_path);
    return n_failed > 0;
}
