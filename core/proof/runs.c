/* Counting runs, and the law that they should have. */
#include "core/proof/runs.h"

#include "core/cycle/rows/row.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTINUATIONS = 100000, QUEUE = 4096, PIECE = 256 };

/* ---- The law
 * ----------------------------------------------------------------------------------
 */

/* Rows after context, root and some paths below it: one pass of nodes[0..n), the root first. */
struct scorer {
    struct cop_model *model;
    struct cop_cache *cache;
    const struct cop_sampling *sampling;
    struct cop_row_arena *arena;
    int32_t vocab;
    float *logits;     /* [PIECE, vocab] */
    cop_token *tokens; /* [PIECE] */
    int32_t *parents;  /* [PIECE] */
    struct cop_error *err;
};

static enum cop_status score(struct scorer *s, int32_t n)
{
    struct cop_score pass = {
        .n = n, .tokens = s->tokens, .parents = s->parents, .logits = s->logits};
    enum cop_status status = cop_model_score(s->model, s->cache, &pass, s->err);
    cop_cache_rollback(s->cache, 0);
    cop_row_arena_reset(s->arena);
    return status;
}

/* The probabilities of node i of the last pass. */
static enum cop_status read_row(struct scorer *s, int32_t i, double *out)
{
    struct cop_row row;
    enum cop_status status = cop_row_from_logits(&row, s->logits + (ptrdiff_t)i * s->vocab,
                                                 s->vocab, s->sampling, s->arena, s->err);
    if (status == COP_OK) {
        status = cop_row_normalise(&row, s->arena, s->err);
    }
    if (status == COP_OK) {
        cop_row_fill(&row, 0, s->vocab, out);
    }
    return status;
}

static int32_t support(const double *row, int32_t vocab)
{
    int32_t n = 0;
    for (int32_t i = 0; i < vocab; i++) {
        n += row[i] > 0;
    }
    return n;
}

/* Adds weight times the rows after (first, second) for every possible second token. */
static enum cop_status add_third(struct scorer *s, struct cop_runs_law *law, cop_token first,
                                 double weight, const double *second, double *row)
{
    cop_token from = 0;
    while (from < law->vocab) {
        int32_t n = 2;
        s->tokens[1] = first;
        s->parents[1] = 0;
        cop_token b = from;
        for (; b < law->vocab && n < PIECE; b++) {
            if (second[b] > 0) {
                s->tokens[n] = b;
                s->parents[n++] = 1;
            }
        }
        from = b;
        enum cop_status status = score(s, n);
        for (int32_t i = 2; i < n && status == COP_OK; i++) {
            status = read_row(s, i, row);
            double w = weight * second[s->tokens[i]];
            for (int32_t c = 0; c < law->vocab; c++) {
                law->position[2][c] += w * row[c];
            }
        }
        if (status != COP_OK) {
            return status;
        }
    }
    return COP_OK;
}

static enum cop_status add_second(struct scorer *s, struct cop_runs_law *law, cop_token first,
                                  double *second, double *row, int64_t *visited)
{
    double weight = law->position[0][first];
    s->tokens[1] = first;
    s->parents[1] = 0;
    enum cop_status status = score(s, 2);
    if (status == COP_OK) {
        status = read_row(s, 1, second);
    }
    if (status != COP_OK) {
        return status;
    }
    *visited += support(second, law->vocab);
    if (*visited > CONTINUATIONS) {
        return cop_fail(s->err, COP_ERR_LIMIT,
                        "more than %d continuations of two tokens; truncate the rows (top_k)",
                        CONTINUATIONS);
    }
    for (int32_t b = 0; b < law->vocab; b++) {
        law->position[1][b] += weight * second[b];
    }
    return add_third(s, law, first, weight, second, row);
}

static enum cop_status find_law(struct scorer *s, struct cop_runs_law *law, double *rows)
{
    int64_t visited = 0;
    enum cop_status status = score(s, 1);
    if (status == COP_OK) {
        status = read_row(s, 0, law->position[0]);
    }
    for (int32_t a = 0; a < law->vocab && status == COP_OK; a++) {
        if (law->position[0][a] > 0) {
            status = add_second(s, law, a, rows, rows + law->vocab, &visited);
        }
    }
    return status;
}

enum cop_status cop_runs_law_find(struct cop_runs_law *law, struct cop_model *target,
                                  const cop_token *prompt, int32_t n_prompt,
                                  const struct cop_sampling *sampling, struct cop_error *err)
{
    int32_t vocab = cop_model_info(target)->vocab_size;
    struct scorer s = {.model = target, .sampling = sampling, .vocab = vocab, .err = err};
    double *rows = malloc((size_t)vocab * 2 * sizeof *rows);
    *law = (struct cop_runs_law){.vocab = vocab};
    law->position[0] = calloc((size_t)vocab * COP_RUNS_TOKENS, sizeof(double));
    s.arena = cop_row_arena_new();
    s.logits = malloc((size_t)vocab * PIECE * sizeof *s.logits);
    s.tokens = malloc(PIECE * sizeof *s.tokens);
    s.parents = malloc(PIECE * sizeof *s.parents);
    enum cop_status status =
        rows && law->position[0] && s.arena && s.logits && s.tokens && s.parents
            ? cop_model_cache_new(target, 1, PIECE, &s.cache, err)
            : cop_fail(err, COP_ERR_MEMORY, "no memory for a law of %d tokens", (int)vocab);
    if (status == COP_OK) {
        law->position[1] = law->position[0] + vocab;
        law->position[2] = law->position[1] + vocab;
        s.tokens[0] = prompt[n_prompt - 1];
        s.parents[0] = -1;
        status = cop_model_prefill(target, s.cache, 0, prompt, n_prompt - 1, 0, NULL, err);
    }
    if (status == COP_OK) {
        status = find_law(&s, law, rows);
    }
    cop_cache_free(s.cache);
    cop_row_arena_free(s.arena);
    free(s.logits);
    free(s.tokens);
    free(s.parents);
    free(rows);
    if (status != COP_OK) {
        cop_runs_law_release(law);
    }
    return status;
}

void cop_runs_law_release(struct cop_runs_law *law)
{
    free(law->position[0]);
    *law = (struct cop_runs_law){0};
}

/* ---- The runs
 * ---------------------------------------------------------------------------------
 */

struct counter {
    int64_t *counts[COP_RUNS_TOKENS]; /* [vocab]; the first owns them all */
    struct cop_runs_result *result;
    struct cop_error failure;
};

static void count(void *user, struct cop_result *result)
{
    struct counter *counter = user;
    if (result->n_tokens != COP_RUNS_TOKENS) {
        if (counter->failure.code == COP_OK) {
            (void)cop_fail(&counter->failure,
                           result->error.code == COP_OK ? COP_ERR_ARGUMENT : result->error.code,
                           "a run ended after %d tokens: %s", (int)result->n_tokens,
                           result->error.code == COP_OK ? cop_finish_name(result->finish)
                                                        : result->error.text);
        }
        return;
    }
    for (int32_t d = 0; d < COP_RUNS_TOKENS; d++) {
        counter->counts[d][result->tokens[d]]++;
    }
    counter->result->drafted += result->drafted;
    counter->result->accepted += result->accepted;
    counter->result->passes += result->forward_passes;
}

static enum cop_status run_all(struct cop_engine *engine, const struct cop_runs *runs,
                               struct counter *counter, struct cop_error *err)
{
    enum cop_status status = COP_OK;
    for (int64_t i = 0; i < runs->n_runs && status == COP_OK; i++) {
        struct cop_request request = {.prompt = runs->prompt,
                                      .n_prompt = runs->n_prompt,
                                      .seed = runs->seed,
                                      .id = (uint32_t)i,
                                      .max_tokens = COP_RUNS_TOKENS,
                                      .logprobs = -1,
                                      .ignore_eos = true,
                                      .user = counter};
        status = cop_engine_submit(engine, &request, count, err);
        if (status == COP_OK && ((i + 1) % QUEUE == 0 || i + 1 == runs->n_runs)) {
            status = cop_engine_run(engine, err);
        }
        if (status == COP_OK && counter->failure.code != COP_OK) {
            status = cop_fail(err, counter->failure.code, "%s", counter->failure.text);
        }
    }
    return status;
}

enum cop_status cop_runs_test(struct cop_runs_result *result, const struct cop_runs *runs,
                              const struct cop_runs_law *law, struct cop_error *err)
{
    *result = (struct cop_runs_result){.p = 1};
    struct counter counter = {.result = result, .failure = {.code = COP_OK}};
    struct cop_engine *engine = NULL;
    counter.counts[0] = calloc((size_t)law->vocab * COP_RUNS_TOKENS, sizeof(int64_t));
    if (!counter.counts[0]) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory for counts");
    }
    counter.counts[1] = counter.counts[0] + law->vocab;
    counter.counts[2] = counter.counts[1] + law->vocab;
    enum cop_status status = cop_engine_new(&engine, runs->engine, err);
    if (status == COP_OK) {
        status = run_all(engine, runs, &counter, err);
    }
    for (int32_t d = 0; d < COP_RUNS_TOKENS && status == COP_OK; d++) {
        result->position[d] =
            cop_chi_square_test(counter.counts[d], runs->n_runs, law->position[d], law->vocab);
        result->p = fmin(result->p, result->position[d].p);
    }
    cop_engine_free(engine);
    free(counter.counts[0]);
    return status;
}
