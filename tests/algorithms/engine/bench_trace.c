/* What the store of a run adds to a cycle of a model: the same answers with and without it, in
 * turns, each timed whole (the transaction at the answer's end included), by plain decoding and
 * with lookup's trees. Told is the median over pairs of answers of their difference, of the
 * cycles without; the bar is 1 %. Run it under `chrt -f 50`; the model is the first argument.
 */
#include "algorithms/register.h"
#include "core/cycle/engine.h"
#include "core/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TOKENS = 48, PAIRS = 25 };
static const double bar = 0.01;
static const char text[] =
    "The path between the village and the mill follows the river. In spring the river covers "
    "the path between the village and the mill, and people walk along the ridge. Again: ";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(enum cop_status status, const struct cop_error *err)
{
    if (status != COP_OK) {
        fprintf(stderr, "%s\n", err->text);
        exit(1);
    }
}

static int by_size(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Sorts. */
static double median(double *values, int32_t n)
{
    qsort(values, (size_t)n, sizeof *values, by_size);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* ---- A store in a throw-away folder --------------------------------------------------------
 */

static char folder[64], path[96];

static struct cop_trace *new_store(int64_t *session, int64_t *arm)
{
    struct cop_error err = {0};
    struct cop_trace *trace = NULL;
    const struct cop_trace_session start = {.name = "bench"};
    const struct cop_trace_arm facts = {.name = "arm", .sampling = "T=0"};
    (void)snprintf(folder, sizeof folder, "%s/coppice-bench-XXXXXX", P_tmpdir);
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    (void)snprintf(path, sizeof path, "%s/trace.db", folder);
    check(cop_trace_open(&trace, path, COP_TRACE_WRITE, &err), &err);
    check(cop_trace_session_start(trace, &start, session, &err), &err);
    check(cop_trace_arm(trace, &facts, arm, &err), &err);
    return trace;
}

static void remove_store(struct cop_trace *trace)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    cop_trace_close(trace);
    for (int i = 0; i < 3; i++) {
        char file[sizeof path + 8];
        (void)snprintf(file, sizeof file, "%s%s", path, ends[i]);
        (void)unlink(file);
    }
    (void)rmdir(folder);
}

/* ---- One answer ----------------------------------------------------------------------------
 */

struct answer {
    struct cop_trace *trace; /* NULL: not stored */
    struct cop_record *record;
    int64_t session, arm;
    int32_t number, passes;
    double prefill;
};

static enum cop_status observe(void *user, const struct cop_cycle *cycle, struct cop_error *err)
{
    const struct answer *answer = user;
    return cop_record_cycle(answer->record, cycle, err);
}

static void take(void *user, struct cop_result *result)
{
    struct answer *answer = user;
    struct cop_error err = {0};
    answer->passes = result->forward_passes;
    answer->prefill = result->prefill_seconds;
    if (answer->trace) {
        const struct cop_trace_request request = {
            .key = {.arm = answer->arm, .prompt = answer->number, .repeat = 1, .turn = 1},
            .session = answer->session,
            .n_prompt = 1,
            .tokens = result->tokens,
            .n_tokens = result->n_tokens,
            .text = result->text.bytes,
            .text_length = result->text.length,
            .finish = cop_finish_name(result->finish)};
        check(cop_trace_commit(answer->trace, &request, answer->record, &err), &err);
    }
}

/* Wall time of an answer without its prefill, by its cycles. */
static double seconds_of_cycle(struct cop_engine *engine, const struct cop_ids *prompt,
                               struct answer *answer)
{
    struct cop_error err = {0};
    const struct cop_request request = {.prompt = prompt->items,
                                        .n_prompt = (int32_t)prompt->count,
                                        .max_tokens = TOKENS,
                                        .ignore_eos = true,
                                        .logprobs = -1,
                                        .on_cycle = answer->trace ? observe : NULL,
                                        .user = answer};
    double since = now();
    answer->record = answer->trace ? cop_record_new() : NULL;
    check(cop_engine_submit(engine, &request, take, &err), &err);
    check(cop_engine_run(engine, &err), &err);
    cop_record_free(answer->record);
    return (now() - since - answer->prefill) / answer->passes;
}

/* ---- The comparison ------------------------------------------------------------------------
 */

static void compare(const char *name, struct cop_model *model, struct cop_part *proposer,
                    const struct cop_registry *registry, const struct cop_ids *prompt)
{
    struct cop_error err = {0};
    struct cop_engine *engine = NULL;
    struct answer stored = {0}, plain = {0};
    double without[PAIRS], added[PAIRS];
    const struct cop_engine_options options = {.target = model,
                                               .proposer = proposer,
                                               .sampling = COP_SAMPLING_DEFAULT,
                                               .batch = 1,
                                               .registry = registry};
    check(cop_engine_new(&engine, &options, &err), &err);
    stored.trace = new_store(&stored.session, &stored.arm);
    (void)seconds_of_cycle(engine, prompt, &plain); /* warms up */
    for (int32_t i = 0; i < PAIRS; i++) {
        stored.number = i + 1;
        double first = i % 2 ? seconds_of_cycle(engine, prompt, &stored) : 0;
        without[i] = seconds_of_cycle(engine, prompt, &plain);
        added[i] = (i % 2 ? first : seconds_of_cycle(engine, prompt, &stored)) - without[i];
    }
    double cycle = median(without, PAIRS), more = median(added, PAIRS);
    printf("trace, %-7s %3d cycles: %8.1f us a cycle, the store adds %6.1f us: %.2f %% (bar "
           "%.0f %%)%s\n",
           name, plain.passes, 1e6 * cycle, 1e6 * more, 100 * more / cycle, 100 * bar,
           more > bar * cycle ? " MISSED" : "");
    remove_store(stored.trace);
    cop_engine_free(engine);
}

int main(int count, char **words)
{
    struct cop_error err = {0};
    struct cop_registry registry = {0};
    struct cop_model *model = NULL;
    struct cop_ids prompt = {0};
    const char *file = count > 1 ? words[1] : "models/SmolLM2-135M-Instruct.Q4_1.gguf";
    const struct cop_model_options options = {
        .path = file, .device = "cpu", .context = 1024, .threads = 2};
    if (access(file, R_OK) != 0) {
        printf("trace: %s is not there (make model)\n", file);
        return 0;
    }
    check(cop_register_all(&registry, &err), &err);
    check(cop_model_open(&model, &options, &err), &err);
    check(cop_tokenizer_encode(cop_model_tokenizer(model), text, strlen(text),
                               (struct cop_encode_options){0}, &prompt, &err),
          &err);
    struct cop_part *lookup =
        cop_part_new(cop_registry_find(&registry, COP_PLUG_PROPOSER, "lookup"));
    check(cop_part_prepare(lookup, &err), &err);
    compare("plain", model, NULL, &registry, &prompt);
    compare("lookup", model, lookup, &registry, &prompt);
    cop_part_free(lookup);
    cop_ids_release(&prompt);
    cop_model_free(model);
    cop_registry_release(&registry);
    return 0;
}
