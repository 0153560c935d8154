/* Laws of the target's first token over all spellings of a draft with another tokenizer: by
 * hand, by walking through the draft's texts, by enumerating rules on them, and by chi-square.
 *
 *     target   a b c ab abc ba ca <end>      draft   a b c bc <end>, three unused
 *
 * Both models are bigram tables, so that every number is known. "ab" may become "abc", and "a",
 * "b", "c", "ab" are beginnings; a draft spells "abc" as a b c or a bc. */
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/algorithms/laws.h"

extern const struct cop_rule_ops cop_accept_block, cop_accept_recursive, cop_accept_traversal;

enum { VOCAB = 8, A = 0, B, C, AB, ABC, BA, CA, END, DRAFT_BC = 3, DRAFT_END, TOKENS = 3 };
#ifdef COP_DEBUG /* a fifth, for the sanitizers: they look at the code, not at the law */
enum { DRAWS = 2000 };
#else
enum { DRAWS = 10000 };
#endif

static const char *const target_pieces[VOCAB] = {"a",   "b",  "c",  "ab",
                                                 "abc", "ba", "ca", "<|end|>"};
static const char *const draft_pieces[VOCAB] = {"a",       "b",       "c",       "bc",
                                                "<|end|>", "[none5]", "[none6]", "[none7]"};
static double target_table[VOCAB * VOCAB], draft_table[VOCAB * VOCAB];
static struct cop_model *target, *draft;

static struct cop_model *open_speaker(const double *table, const char *const *pieces,
                                      cop_token end, const char *const *merges, size_t n_merges)
{
    struct gguf_writer *file = tiny_bigram_begin(VOCAB, table);
    int32_t types[VOCAB];
    for (int32_t i = 0; i < VOCAB; i++) {
        types[i] = i == end ? 3 : i > end ? 5 : 1; /* control, unused, normal */
    }
    gguf_put_string(file, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(file, "tokenizer.ggml.pre", "smollm");
    gguf_put_strings(file, "tokenizer.ggml.tokens", pieces, VOCAB);
    gguf_put_array(file, "tokenizer.ggml.token_type", GGUF_I32, types, VOCAB);
    gguf_put_strings(file, "tokenizer.ggml.merges", merges, n_merges);
    gguf_put_u32(file, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    return open_model(file, (struct cop_model_options){0});
}

static void fill_table(double *table, int32_t n, uint64_t seed)
{
    for (int32_t i = 0; i < VOCAB * VOCAB; i++) {
        double weight = tiny_uniform(seed, (uint64_t)i);
        table[i] = i % VOCAB >= n || weight < 0.15 ? 0 : weight * weight;
    }
    tiny_bigram_scale(VOCAB, table);
}

static const char *const draft_merges[] = {"b c"};

static void open_models(void)
{
    static const char *const target_merges[] = {"a b", "ab c", "b a", "c a"};
    const double after_a[] = {.1, .4, .2, .2, .1}, after_b[] = {.2, .1, .5, .1, .1};
    fill_table(target_table, VOCAB, 11);
    fill_table(draft_table, DRAFT_END + 1, 12);
    memcpy(&draft_table[A * VOCAB], after_a, sizeof after_a);
    memcpy(&draft_table[B * VOCAB], after_b, sizeof after_b);
    target = open_speaker(target_table, target_pieces, END, target_merges, 4);
    draft = open_speaker(draft_table, draft_pieces, DRAFT_END, draft_merges, 1);
}
static void free_models(void)
{
    cop_model_free(target);
    cop_model_free(draft);
}
TestSuite(draft_string, .init = open_models, .fini = free_models, .timeout = 120);

static struct cop_part *new_string(struct cop_model *model, int32_t spellings, double top_k)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "model");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, "model"), part->state, model, "test", &err),
                 COP_OK, "%s", err.text);
    if (spellings > 0) {
        set_number(part, "spellings", spellings);
    }
    if (top_k > 0) {
        set_number(part, "top_k", top_k);
    }
    return ready(set_string(part, "vocabulary", "string"));
}

/* The row below the last of ids[0..n), by asking for all tokens of it. */
static void read_psi(struct cop_part *part, struct cop_model *of, int32_t vocab,
                     const cop_token *ids, int32_t n, double *psi)
{
    struct cop_part *builder = new_widths(&vocab, 1);
    struct cop_proposer_env env = {.target = of, .vocab_size = vocab, .context = 512};
    struct cop_tree tree;
    struct cop_error err = {0};
    double *probabilities = calloc((size_t)vocab + 1, sizeof *probabilities);
    cr_assert_eq(cop_tree_init(&tree, vocab + 1, NULL), COP_OK);
    cr_assert_eq(cop_propose_once(part, builder, COP_DRAW_DETERMINISTIC, &env, ids, n, 0, &tree,
                                  probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    memset(psi, 0, (size_t)vocab * sizeof *psi);
    for (int32_t node = 1; node < tree.size; node++) {
        psi[tree.token[node]] = probabilities[node];
    }
    free(probabilities);
    cop_tree_release(&tree);
    cop_part_free(builder);
}

static void expect_psi(struct cop_part *part, cop_token after, const double *expected)
{
    double psi[VOCAB];
    read_psi(part, target, VOCAB, &after, 1, psi);
    for (int32_t i = 0; i < VOCAB; i++) {
        cr_expect_float_eq(psi[i], expected[i], 2e-5, "after %s, \"%s\": %.8f, not %.8f",
                           target_pieces[after], target_pieces[i], psi[i], expected[i]);
    }
    cop_part_free(part);
}

/* ---- By hand ------------------------------------------------------------------------------
 */

/* After b the draft says a .2, b .1, c .5, bc .1, end .1; after a: .1 .4 .2 .2 .1.
 *     a   .2 · (a .1, c .2, end .1)                          = .08
 *     ab  .2 · b .4 · (1 - c .5 - bc .1 is never "abc…")     below
 *     abc .2 · (b .4 · c .5 + bc .2)                         = .08 */
Test(draft_string, spellings_are_summed_by_hand)
{
    const double *c = &draft_table[C * VOCAB];
    /* "bc" behind "ab" gives "abbc", which begins with "ab"; so does "ab" + "b", + "a". */
    const double abc = .2 * (.4 * .5 + .2), ab = .2 * .4 * .5, a = .2 * (.1 + .2 + .1);
    const double ba = .1 * .2, b = .1 * (.1 + .5 + .1 + .1) + .1; /* "bc" begins with b */
    const double ca = .5 * c[A], cc = .5 * (1 - c[A]);
    const double expected[VOCAB] = {a, b, cc, ab, abc, ba, ca, .1};
    double sum = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        sum += expected[i];
    }
    cr_assert_float_eq(sum, 1, 1e-12);
    expect_psi(new_string(draft, 0, 0), B, expected);
}

/* One spelling: only the node is read, and each own token counts as it stands: .2 a; b .1 and
 * bc .1; c .5. Two: after the likeliest beginning, c, the draft is read too. */
Test(draft_string, what_is_not_read_counts_as_it_stands)
{
    const double *c = &draft_table[C * VOCAB];
    expect_psi(new_string(draft, 1, 0), B, (const double[VOCAB]){.2, .2, .5, 0, 0, 0, 0, .1});
    expect_psi(new_string(draft, 2, 0), B,
               (const double[VOCAB]){.2, .2, .5 * (1 - c[A]), 0, 0, 0, .5 * c[A], .1});
}

/* The draft's own law is shaped first: of its two best after b, c .5 and a .2, 5/7 and 2/7; of
 * those after a, b .4 and the tie of c and bc, 1/2, 1/4, 1/4; a alone is never written. */
Test(draft_string, the_drafts_law_is_shaped_first)
{
    double psi[VOCAB];
    const cop_token after = B;
    struct cop_part *part = new_string(draft, 0, 2);
    read_psi(part, target, VOCAB, &after, 1, psi);
    cr_expect_float_eq(psi[C] + psi[CA], 5.0 / 7, 1e-5);
    /* a b c (of a .2, c .5 after b: 5/7), a bc; a b a; a c. */
    cr_expect_float_eq(psi[ABC], 2.0 / 7 * (.5 * 5 / 7 + .25), 1e-5);
    cr_expect_float_eq(psi[AB], 2.0 / 7 * .5 * 2 / 7, 1e-5);
    cr_expect_float_eq(psi[A], 2.0 / 7 * .25, 1e-5);
    cr_expect_eq(psi[END], 0);
    cop_part_free(part);
}

/* ---- By walking ---------------------------------------------------------------------------
 */

static bool goes_on(const char *text)
{
    for (int32_t i = 0; i < END; i++) {
        size_t length = strlen(text);
        if (strlen(target_pieces[i]) > length && strncmp(text, target_pieces[i], length) == 0) {
            return true;
        }
    }
    return false;
}

/* Merges of the target by rank, on the beginning of a word: ab, abc, ba, ca. */
static cop_token first_of(const char *text)
{
    cop_token ids[64];
    int32_t n = (int32_t)strlen(text);
    static const cop_token merges[][3] = {{A, B, AB}, {AB, C, ABC}, {B, A, BA}, {C, A, CA}};
    for (int32_t i = 0; i < n; i++) {
        ids[i] = text[i] - 'a';
    }
    for (int32_t rank = 0; rank < 4;) {
        int32_t at = -1;
        for (int32_t i = 0; i + 1 < n && at < 0; i++) {
            at = ids[i] == merges[rank][0] && ids[i + 1] == merges[rank][1] ? i : -1;
        }
        if (at < 0) {
            rank++;
            continue;
        }
        ids[at] = merges[rank][2];
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
        rank = 0;
    }
    return ids[0];
}

static void walk(const char *text, cop_token last, double probability, double *psi)
{
    for (cop_token own = 0; own <= DRAFT_END; own++) {
        char longer[64];
        double q = probability * draft_table[last * VOCAB + own];
        if (own == DRAFT_END) {
            psi[*text ? first_of(text) : END] += q;
            continue;
        }
        (void)snprintf(longer, sizeof longer, "%s%s", text, draft_pieces[own]);
        if (q > 0 && goes_on(longer)) {
            walk(longer, own, q, psi);
        } else if (q > 0) {
            psi[first_of(longer)] += q;
        }
    }
}

/* The draft's last own token of a target token: it spells a piece by its own merges. */
static cop_token last_own(cop_token token)
{
    static const cop_token last[VOCAB] = {A, B, C, B, DRAFT_BC, A, A, DRAFT_END};
    return last[token];
}

Test(draft_string, psi_is_the_law_of_the_drafts_texts)
{
    for (cop_token token = 0; token < END; token++) {
        double expected[VOCAB] = {0};
        walk("", last_own(token), 1, expected);
        expect_psi(new_string(draft, 0, 0), token, expected);
    }
}

/* é is the bytes Ã ©. "aÃ" is a token of the target and no text before © has come: after a, the
 * draft writes a .5 (then a .5, Ã .3, end .2), Ã .3, end .2; behind Ã only ©. */
Test(draft_string, tokens_that_end_inside_a_character)
{
    enum { LEAD = 1, TAIL, A_LEAD, STOP, DRAFT_STOP = 3 };
    static const char *const pieces[] = {"a",       "\u00c3",  "\u00a9",  "a\u00c3",
                                         "<|end|>", "[none5]", "[none6]", "[none7]"};
    static const char *const own[] = {"a",       "\u00c3",  "\u00a9",  "<|end|>",
                                      "[none4]", "[none5]", "[none6]", "[none7]"};
    static const char *const merges[] = {"a \u00c3"};
    static double table[VOCAB * VOCAB];
    const double after_a[] = {.5, .3, 0, .2}, after_tail[] = {.6, 0, 0, .4};
    for (int32_t i = 0; i < VOCAB; i++) {
        memcpy(&table[i * VOCAB], i == TAIL ? after_tail : after_a, sizeof after_a);
    }
    memset(&table[LEAD * VOCAB], 0, VOCAB * sizeof *table);
    table[LEAD * VOCAB + TAIL] = 1;
    free_models();
    target = open_speaker(target_table, pieces, STOP, merges, 1);
    draft = open_speaker(table, own, DRAFT_STOP, merges, 0);
    double expected[VOCAB] = {.5 * (.5 + .2), .3, 0, .5 * .3, .2};
    expect_psi(new_string(draft, 0, 0), A, expected);
}

/* Half of the draft's mass behind b is on an id that is not used: whatever its piece says, it
 * is not written, and psi is that of a draft without it; of the two best behind b, too. */
Test(draft_string, padding_is_no_text)
{
    static double table[VOCAB * VOCAB];
    const char *pieces[VOCAB];
    memcpy(pieces, draft_pieces, sizeof pieces);
    memcpy(table, draft_table, sizeof table);
    pieces[DRAFT_END + 1] = "abc";
    table[B * VOCAB + DRAFT_END + 1] = 1;
    tiny_bigram_scale(VOCAB, table);
    struct cop_model *padded = open_speaker(table, pieces, DRAFT_END, draft_merges, 1);
    for (int32_t top_k = 0; top_k <= 2; top_k += 2) {
        double expected[VOCAB];
        struct cop_part *part = new_string(draft, 0, top_k);
        read_psi(part, target, VOCAB, (const cop_token[]){B}, 1, expected);
        cop_part_free(part);
        expect_psi(new_string(padded, 0, top_k), B, expected);
    }
    cop_model_free(padded);
}

/* ---- By enumeration ------------------------------------------------------------------------
 */

/* Rows of target and draft behind `b` and the prefix; the draft's from the proposer. */
static enum cop_status target_rows(void *context, const cop_token *prefix, int32_t length,
                                   int32_t drafter, double *out, struct cop_error *err)
{
    (void)context, (void)drafter, (void)err;
    cop_token last = length > 0 ? prefix[length - 1] : B;
    memcpy(out, &target_table[last * VOCAB], VOCAB * sizeof *out);
    return COP_OK;
}
static enum cop_status draft_rows(void *context, const cop_token *prefix, int32_t length,
                                  int32_t drafter, double *out, struct cop_error *err)
{
    (void)drafter, (void)err;
    static double known[VOCAB][VOCAB];
    static bool is_known[VOCAB];
    cop_token last = length > 0 ? prefix[length - 1] : B;
    if (!is_known[last]) {
        double sum = 0;
        read_psi(context, target, VOCAB, &last, 1, known[last]);
        for (int32_t i = 0; i < VOCAB; i++) {
            sum += known[last][i];
        }
        cr_assert_float_eq(sum, 1, 1e-9);
        is_known[last] = true;
    }
    memcpy(out, known[last], VOCAB * sizeof *out);
    return COP_OK;
}

static void expect_exact(struct cop_part *part, const struct cop_rule_ops *rule,
                         struct cop_part *builder, enum cop_draw draw, double least)
{
    struct cop_part *rule_part = part_of(&rule->plug);
    struct cop_law_case what = {.rule = rule_part,
                                .builder = builder,
                                .draw = draw,
                                .vocab = VOCAB,
                                .target = target_rows,
                                .draft = draft_rows,
                                .draft_context = part,
                                .max_branches = 4000000};
    struct cop_law law;
    struct cop_error err = {0};
    cr_assert_eq(cop_law_enumerate(&law, &what, &err), COP_OK, "%s", err.text);
    cr_expect_lt(law.total_variation, 1e-12, "%s: %g", rule->plug.name, law.total_variation);
    cr_expect_gt(law.expected_accepted, least, "%s: %g", rule->plug.name,
                 law.expected_accepted);
    cop_law_release(&law);
    cop_part_free(rule_part);
    cop_part_free(builder);
}

Test(draft_string, rules_on_psi_give_the_targets_law)
{
    struct cop_part *part = new_string(draft, 0, 0);
    expect_exact(part, &cop_accept_token, chain_of(2), COP_DRAW_INDEPENDENT, .4);
    expect_exact(part, &cop_accept_block, chain_of(2), COP_DRAW_INDEPENDENT, .4);
    expect_exact(part, &cop_accept_recursive, widths_of("2"), COP_DRAW_WITHOUT_REPLACEMENT, .4);
    expect_exact(part, &cop_accept_traversal, widths_of("2"), COP_DRAW_INDEPENDENT, .4);
    cop_part_free(part);
}

/* One accept test by the page: psi, not the probability of one spelling, stands below the
 * bar; (p - psi)+ is what is left. */
Test(draft_string, one_test_against_psi_is_exact_by_fractions)
{
    double psi[VOCAB] = {0}, kept = 0, out[VOCAB], rest = 0;
    const double *p = &target_table[B * VOCAB];
    walk("", B, 1, psi);
    for (int32_t i = 0; i < VOCAB; i++) {
        out[i] = fmin(p[i], psi[i]);
        kept += out[i];
        rest += fmax(p[i] - psi[i], 0);
    }
    for (int32_t i = 0; i < VOCAB; i++) {
        cr_expect_float_eq(out[i] + (1 - kept) * fmax(p[i] - psi[i], 0) / rest, p[i], 1e-14);
    }
}

/* ---- In the engine -------------------------------------------------------------------------
 */

struct histogram {
    int32_t counts[VOCAB * VOCAB * VOCAB];
    int64_t drafted, accepted;
};

static void count_result(void *user, struct cop_result *result)
{
    struct histogram *histogram = user;
    const cop_token *t = result->tokens;
    cr_assert_eq(result->n_tokens, TOKENS);
    histogram->counts[(t[0] * VOCAB + t[1]) * VOCAB + t[2]]++;
    histogram->drafted += result->drafted;
    histogram->accepted += result->accepted;
}

static void expect_engine_law(struct cop_part *builder, const char *rule, enum cop_draw draw)
{
    static const cop_token prompt[] = {CA, B};
    static struct histogram histogram;
    struct cop_engine_options options = {.target = target,
                                         .proposer = new_string(draft, 0, 0),
                                         .builder = builder,
                                         .rule = new_rule(rule),
                                         .draw = draw,
                                         .batch = 4,
                                         .sampling = {.temperature = 1, .top_p = 1}};
    struct cop_engine *engine = new_engine(&options);
    struct cop_error err = {0};
    memset(&histogram, 0, sizeof histogram);
    for (uint32_t i = 0; i < DRAWS; i++) {
        struct cop_request request = {.prompt = prompt,
                                      .n_prompt = 2,
                                      .seed = i / 100,
                                      .id = i % 100,
                                      .max_tokens = TOKENS,
                                      .ignore_eos = true,
                                      .logprobs = -1,
                                      .user = &histogram};
        cr_assert_eq(cop_engine_submit(engine, &request, count_result, &err), COP_OK);
    }
    cr_assert_eq(cop_engine_run(engine, &err), COP_OK, "%s", err.text);
    cop_engine_free(engine);
    double statistic = 0, pooled = 0, pooled_count = 0;
    int32_t cells = 0;
    for (int32_t c = 0; c < VOCAB * VOCAB * VOCAB; c++) {
        int32_t x = c / VOCAB / VOCAB, y = c / VOCAB % VOCAB, z = c % VOCAB;
        double expected = DRAWS * target_table[B * VOCAB + x] * target_table[x * VOCAB + y] *
                          target_table[y * VOCAB + z];
        double difference = histogram.counts[c] - expected;
        pooled += expected < 5 ? expected : 0;
        pooled_count += expected < 5 ? histogram.counts[c] : 0;
        statistic += expected < 5 ? 0 : difference * difference / expected;
        cells += expected >= 5;
    }
    statistic += pooled > 0 ? (pooled_count - pooled) * (pooled_count - pooled) / pooled : 0;
    double h = 2.0 / (9.0 * cells), root = 1 - h + 4.7534 * sqrt(h); /* one in a million */
    cr_expect_gt(cells, 20);
    cr_expect_lt(statistic, cells * root * root * root, "%s: %.1f with %d cells", rule,
                 statistic, cells);
    cr_expect_gt(histogram.accepted, 0, "%s", rule);
    cr_expect_lt(histogram.accepted, histogram.drafted, "%s", rule);
    cop_part_free(options.proposer);
    cop_part_free(options.builder);
    cop_part_free(options.rule);
}

Test(draft_string, the_engine_emits_the_targets_law)
{
    const int32_t pairs[] = {2, 2};
    expect_engine_law(new_chain(3), "token", COP_DRAW_INDEPENDENT);
    expect_engine_law(new_chain(2), "block", COP_DRAW_INDEPENDENT);
    expect_engine_law(new_widths(pairs, 2), "recursive", COP_DRAW_WITHOUT_REPLACEMENT);
    expect_engine_law(new_chain(3), "sample_match", COP_DRAW_DETERMINISTIC);
}

/* ---- Models with a token for every byte
 * ------------------------------------------------------ */

static struct cop_model *open_bytes(int32_t vocab, double noise)
{
    return open_tiny((struct tiny_model){
        .seed = 3, .vocab = vocab, .has_tokenizer = true, .noise = noise, .noise_seed = 1});
}

static void expect_plain_answers(int32_t target_vocab, int32_t draft_vocab, const char *rule)
{
    struct cop_model *of = open_bytes(target_vocab, 0), *by = open_bytes(draft_vocab, 0.1);
    struct cop_engine_options plain = {.target = of, .sampling = {.top_p = 1}};
    struct cop_engine_options options = {.target = of,
                                         .proposer = new_string(by, 0, 0),
                                         .rule = new_rule(rule),
                                         .batch = 2,
                                         .sampling = {.top_p = 1}};
    static struct trial with[3], without[3];
    cop_token prompts[3][16];
    int64_t accepted = 0;
    for (int32_t i = 0; i < 3; i++) {
        random_prompt(prompts[i], 16, target_vocab, (uint64_t)i);
        trial_init(&with[i], prompts[i], 16, 40);
        trial_init(&without[i], prompts[i], 16, 40);
        with[i].request.id = without[i].request.id = (uint32_t)i;
    }
    run_trials(&options, with, 3);
    run_trials(&plain, without, 3);
    for (int32_t i = 0; i < 3; i++) {
        expect_equal_tokens(&with[i].result, &without[i].result, rule);
        accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&without[i]);
    }
    cr_expect_gt(accepted, 0, "%s", rule);
    cop_part_free(options.proposer);
    cop_part_free(options.rule);
    cop_model_free(of);
    cop_model_free(by);
}

/* 264 ids bring " t", "he", "in", "er", " th", which 259 ids spell in bytes. */
Test(draft_string, tokens_equal_plain_decoding)
{
    expect_plain_answers(259, 264, "match");
    expect_plain_answers(264, 259, "match");
    expect_plain_answers(264, 259, "token");
}

/* A draft of pairs for a target of bytes: what begins with a byte counts for it. */
Test(draft_string, longer_own_tokens_count_for_their_beginning)
{
    enum { PAIRS = 264, BYTES = 259 };
    struct cop_model *of = open_bytes(BYTES, 0), *by = open_bytes(PAIRS, 0);
    struct cop_part *part = new_string(by, 1, 0);
    static float logits[PAIRS];
    static double psi[BYTES], q[PAIRS];
    const cop_token context[] = {'t'};
    struct cop_cache *cache = NULL;
    struct cop_error err = {0};
    const int32_t no_parent = -1;
    struct cop_score pass = {
        .n = 1, .tokens = context, .parents = &no_parent, .logits = logits};
    cr_assert_eq(cop_model_cache_new(by, 1, 8, &cache, &err), COP_OK);
    cr_assert_eq(cop_model_score(by, cache, &pass, &err), COP_OK);
    double sum = 0;
    for (int32_t i = 0; i < PAIRS; i++) {
        sum += q[i] = exp((double)logits[i]);
    }
    read_psi(part, of, BYTES, context, 1, psi);
    cr_expect_float_eq(psi[' '], (q[' '] + q[259] + q[263]) / sum, 1e-6);
    cr_expect_float_eq(psi['h'], (q['h'] + q[260]) / sum, 1e-6);
    cr_expect_float_eq(psi['i'], (q['i'] + q[261]) / sum, 1e-6);
    cr_expect_float_eq(psi['z'], q['z'] / sum, 1e-6);
    cr_expect_float_eq(psi[258], q[258] / sum, 1e-6);   /* an end is an end */
    cr_expect_float_eq(psi[0xe2], q[0xe2] / sum, 1e-6); /* part of a character */
    cop_cache_free(cache);
    cop_part_free(part);
    cop_model_free(of);
    cop_model_free(by);
}

/* ---- What is refused ------------------------------------------------------------------------
 */

static void expect_refusal(struct cop_part *part, struct cop_part *builder, const char *words)
{
    struct cop_engine_options options = {.target = target,
                                         .proposer = part,
                                         .builder = builder,
                                         .rule = new_rule("token"),
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = {.temperature = 1, .top_p = 1}};
    struct cop_error err = {0};
    struct cop_engine *engine = NULL;
    cr_expect_neq(cop_engine_new(&engine, &options, &err), COP_OK, "%s", words);
    cr_expect(strstr(err.text, words), "%s", err.text);
    cop_part_free(options.proposer);
    cop_part_free(options.rule);
    cop_part_free(options.builder);
}

Test(draft_string, what_cannot_be_summed_is_refused)
{
    struct cop_model *large = open_bytes(264, 0);
    expect_refusal(new_string(large, 63, 0), NULL,
                   "would sum up 16632 texts for a row: 63 spellings, each followed by any of "
                   "the draft's 264 tokens; at most 16384: write top_k = 260 for the draft's "
                   "law, spellings = 1 or vocabulary = \"intersection\"");
    expect_refusal(new_string(draft, 1000, 0), new_chain(100),
                   "has room for trees of 63 nodes, not of 100: write a smaller tree or fewer "
                   "spellings");
    cop_model_free(large);
    struct cop_model *none = open_tiny((struct tiny_model){.seed = 3, .vocab = 61});
    expect_refusal(new_string(none, 0, 0), NULL,
                   "vocabulary = \"string\" needs the tokenizers");
    cop_model_free(none);
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "model");
    struct cop_error err = {0};
    (void)cop_option_set_object(option(part, "model"), part->state, draft, "test", &err);
    set_number(set_string(part, "vocabulary", "intersection"), "spellings", 4);
    cr_expect_neq(cop_part_prepare(part, &err), COP_OK);
    cr_expect(strstr(err.text, "spellings says how vocabulary = \"string\" sums"), "%s",
              err.text);
    cop_part_free(part);
}
