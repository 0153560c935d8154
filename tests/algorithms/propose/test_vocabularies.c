/* A draft with another tokenizer: tokens that both know, rows suppressed to them, text. */
#include "algorithms/propose/draft_text.h"
#include "core/text/tokenizer.h"
#include "tests/algorithms/engine/engine_bench.h"
#include "tests/support/reference.h"

/* The tiny tokenizer has a token for every byte; 264 ids bring "Ġt", "he", "in", "er", "Ġth"
 * (259 to 263), 259 ids do not. */
enum { WITH_PAIRS = 264, BYTES = 259, SPACE_T = 259, HE = 260, PROMPT = 16 };

static struct cop_model *open_bytes(int32_t vocab, double noise)
{
    return open_tiny((struct tiny_model){
        .seed = 3, .vocab = vocab, .has_tokenizer = true, .noise = noise, .noise_seed = 1});
}

static struct cop_part *new_foreign(struct cop_model *draft, const char *vocabulary)
{
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "model");
    struct cop_error err = {0};
    cr_assert_eq(cop_option_set_object(option(part, "model"), part->state, draft, "test", &err),
                 COP_OK, "%s", err.text);
    return ready(set_string(part, "vocabulary", vocabulary));
}

/* Whatever the tokenizers, the answer is plain decoding's. */
static void expect_identity(int32_t target_vocab, int32_t draft_vocab, const char *vocabulary,
                            const struct cop_sampling *sampling, const char *rule)
{
    struct cop_model *target = open_bytes(target_vocab, 0);
    struct cop_model *draft = open_bytes(draft_vocab, 0.1);
    struct cop_engine_options plain = {.target = target, .sampling = *sampling};
    struct cop_engine_options options = {.target = target,
                                         .proposer = new_foreign(draft, vocabulary),
                                         .rule = new_rule(rule),
                                         .batch = 2,
                                         .sampling = *sampling};
    static struct trial with[3], without[3];
    cop_token prompts[3][PROMPT];
    int64_t drafted = 0, accepted = 0;
    for (int32_t i = 0; i < 3; i++) {
        random_prompt(prompts[i], PROMPT, target_vocab, (uint64_t)i);
        trial_init(&with[i], prompts[i], PROMPT, 60);
        trial_init(&without[i], prompts[i], PROMPT, 60);
        with[i].request.id = without[i].request.id = (uint32_t)i;
    }
    run_trials(&options, with, 3);
    run_trials(&plain, without, 3);
    for (int32_t i = 0; i < 3; i++) {
        if (sampling->temperature == 0) {
            expect_equal_tokens(&with[i].result, &without[i].result, vocabulary);
        }
        drafted += with[i].result.drafted;
        accepted += with[i].result.accepted;
        trial_release(&with[i]);
        trial_release(&without[i]);
    }
    cr_expect_gt(drafted, 0, "%s", vocabulary);
    cr_expect_gt(accepted, 0, "%s %d for %d", vocabulary, draft_vocab, target_vocab);
    cop_part_free(options.proposer);
    cop_part_free(options.rule);
    cop_model_free(target);
    cop_model_free(draft);
}

Test(vocabularies, tokens_equal_plain_decoding)
{
    const struct cop_sampling zero = {.top_p = 1};
    expect_identity(BYTES, WITH_PAIRS, "intersection", &zero, "match");
    expect_identity(WITH_PAIRS, BYTES, "intersection", &zero, "match");
    expect_identity(WITH_PAIRS, BYTES, "auto", &zero, "token");
    expect_identity(BYTES, BYTES, "intersection", &zero, "token");
    expect_identity(BYTES, WITH_PAIRS, "text", &zero, "match");
    expect_identity(WITH_PAIRS, BYTES, "text", &zero, "sample_match");
}

Test(vocabularies, rules_with_rows_take_the_intersection_when_sampling)
{
    const struct cop_sampling one = {.temperature = 1, .top_p = 1};
    expect_identity(BYTES, WITH_PAIRS, "intersection", &one, "token");
    expect_identity(WITH_PAIRS, BYTES, "intersection", &one, "block");
    expect_identity(WITH_PAIRS, BYTES, "text", &one, "sample_match");
}

/* The recorded row is the draft's own row without the tokens that the target lacks, and sums
 * to one; the context is the target's, spelt in the draft's tokens. */
Test(vocabularies, the_recorded_row_is_the_suppressed_one)
{
    struct cop_model *target = open_bytes(WITH_PAIRS, 0), *draft = open_bytes(BYTES, 0);
    struct cop_part *part = new_foreign(draft, "intersection");
    struct cop_error err = {0};
    const cop_token context[] = {'a', HE, SPACE_T, 'o'};
    const cop_token spelt[] = {'a', 'h', 'e', ' ', 't', 'o'};
    static float logits[BYTES];
    struct cop_cache *cache = NULL;
    cr_assert_eq(cop_model_cache_new(draft, 1, 8, &cache, &err), COP_OK);
    cr_assert_eq(cop_model_prefill(draft, cache, 0, spelt, 5, 0, NULL, &err), COP_OK);
    const int32_t no_parent = -1;
    struct cop_score pass = {
        .n = 1, .tokens = spelt + 5, .parents = &no_parent, .logits = logits};
    cr_assert_eq(cop_model_score(draft, cache, &pass, &err), COP_OK);
    const int32_t widths[] = {WITH_PAIRS};
    struct cop_part *tree_part = new_widths(widths, 1);
    struct cop_proposer_env env = {.target = target, .vocab_size = WITH_PAIRS, .context = 512};
    struct cop_tree tree;
    static double probabilities[WITH_PAIRS + 1];
    cr_assert_eq(cop_tree_init(&tree, WITH_PAIRS + 1, NULL), COP_OK);
    cr_assert_eq(cop_propose_once(part, tree_part, COP_DRAW_DETERMINISTIC, &env, context, 4, 0,
                                  &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    double sum = 0, total = 0;
    for (int32_t i = 0; i < BYTES; i++) {
        sum += exp((double)logits[i]);
    }
    cr_assert_eq(tree.size, BYTES + 1);
    for (int32_t node = 1; node < tree.size; node++) {
        cr_assert_lt(tree.token[node], BYTES);
        cr_expect_float_eq(probabilities[node], exp((double)logits[tree.token[node]]) / sum,
                           1e-6);
        total += probabilities[node];
    }
    cr_expect_float_eq(total, 1, 1e-9);
    cop_tree_release(&tree);
    cop_cache_free(cache);
    cop_part_free(part);
    cop_part_free(tree_part);
    cop_model_free(target);
    cop_model_free(draft);
}

/* The other way round: five tokens of the draft are suppressed, and the rest is renormalised.
 */
Test(vocabularies, what_the_target_lacks_is_never_drafted)
{
    struct cop_model *target = open_bytes(BYTES, 0), *draft = open_bytes(WITH_PAIRS, 0);
    struct cop_part *part = new_foreign(draft, "intersection");
    struct cop_error err = {0};
    const cop_token context[] = {'t'};
    static float logits[WITH_PAIRS];
    struct cop_cache *cache = NULL;
    cr_assert_eq(cop_model_cache_new(draft, 1, 8, &cache, &err), COP_OK);
    const int32_t no_parent = -1;
    struct cop_score pass = {
        .n = 1, .tokens = context, .parents = &no_parent, .logits = logits};
    cr_assert_eq(cop_model_score(draft, cache, &pass, &err), COP_OK);
    const int32_t widths[] = {WITH_PAIRS};
    struct cop_part *tree_part = new_widths(widths, 1);
    struct cop_proposer_env env = {.target = target, .vocab_size = BYTES, .context = 512};
    struct cop_tree tree;
    static double probabilities[WITH_PAIRS + 1];
    cr_assert_eq(cop_tree_init(&tree, WITH_PAIRS + 1, NULL), COP_OK);
    cr_assert_eq(cop_propose_once(part, tree_part, COP_DRAW_DETERMINISTIC, &env, context, 1, 0,
                                  &tree, probabilities, NULL, NULL, &err),
                 COP_OK, "%s", err.text);
    double sum = 0;
    for (int32_t i = 0; i < BYTES; i++) {
        sum += exp((double)logits[i]);
    }
    cr_assert_eq(tree.size, BYTES + 1);
    for (int32_t node = 1; node < tree.size; node++) {
        cr_expect_float_eq(probabilities[node], exp((double)logits[tree.token[node]]) / sum,
                           1e-6);
    }
    cop_tree_release(&tree);
    cop_cache_free(cache);
    cop_part_free(part);
    cop_part_free(tree_part);
    cop_model_free(target);
    cop_model_free(draft);
}

static void expect_refusal(struct cop_model *target, struct cop_model *draft,
                           const char *vocabulary, const char *rule, double temperature,
                           const char *words)
{
    struct cop_engine_options options = {.target = target,
                                         .proposer = new_foreign(draft, vocabulary),
                                         .rule = new_rule(rule),
                                         .batch = 1,
                                         .registry = registry(),
                                         .sampling = {.temperature = temperature, .top_p = 1}};
    struct cop_error err = {0};
    cr_expect_neq(cop_engine_check(&options, NULL, &err), COP_OK, "%s", words);
    cr_expect(strstr(err.text, words), "%s", err.text);
    cop_part_free(options.proposer);
    cop_part_free(options.rule);
}

Test(vocabularies, refusals_say_what_to_write)
{
    struct cop_model *pairs = open_bytes(WITH_PAIRS, 0), *bytes = open_bytes(BYTES, 0);
    struct cop_model *none = open_tiny((struct tiny_model){.seed = 3, .vocab = WITH_PAIRS});
    expect_refusal(pairs, bytes, "same", "match", 0, "vocabulary = \"intersection\"");
    expect_refusal(pairs, none, "intersection", "match", 0, "vocabulary = \"same\"");
    expect_refusal(pairs, none, "text", "match", 0, "there is none of the draft");
    expect_refusal(none, bytes, "text", "match", 0, "there is none of the target");
    expect_refusal(none, bytes, "auto", "match", 0, "another vocabulary");
    struct cop_part *part = new_part(COP_PLUG_PROPOSER, "model");
    struct cop_error err = {0};
    (void)cop_option_set_object(option(part, "model"), part->state, bytes, "test", &err);
    set_number(set_string(part, "vocabulary", "text"), "top_k", 4);
    cr_expect_neq(cop_part_prepare(part, &err), COP_OK);
    cr_expect(strstr(err.text, "vocabulary = \"intersection\""), "%s", err.text);
    cop_part_free(part);
    cop_model_free(pairs);
    cop_model_free(bytes);
    cop_model_free(none);
}

/* ---- Text that is cut -------------------------------------------------------------------- */

static void expect_cut(const struct cop_tokenizer *tokenizer, cop_token before,
                       const char *text, const cop_token *expected, int32_t n)
{
    struct cop_string drafted = {text, strlen(text)};
    struct cop_ids ids = {0};
    struct cop_error err = {0};
    cr_assert_eq(cop_draft_text_cut(tokenizer, before, drafted, &ids, &err), COP_OK, "%s",
                 err.text);
    cr_expect_eq(ids.count, (size_t)n, "\"%s\": %zu tokens", text, ids.count);
    for (int32_t i = 0; i < n && (size_t)i < ids.count; i++) {
        cr_expect_eq(ids.items[i], expected[i], "\"%s\": token %d is %d", text, i,
                     ids.items[i]);
    }
    cop_ids_release(&ids);
}

Test(vocabularies, text_is_cut_behind_what_is_committed)
{
    struct cop_model *model = open_bytes(WITH_PAIRS, 0);
    const struct cop_tokenizer *tokenizer = cop_model_tokenizer(model);
    const cop_token then[] = {SPACE_T, HE}, alone[] = {'e'}, snowman[] = {0xe2, 0x98, 0x83};
    expect_cut(tokenizer, 'a', " the", then, 2);
    expect_cut(tokenizer, 'a', " th", (const cop_token[]){263}, 1); /* "Ġth" */
    /* "h" + "e" would be one token: the committed "h" stays as it is. */
    expect_cut(tokenizer, 'h', "e", alone, 1);
    expect_cut(tokenizer, 'a', "", alone, 0);
    expect_cut(tokenizer, -1, "\xe2\x98\x83", snowman, 3);
    expect_cut(tokenizer, 'a', "e\xe2\x98", alone, 1); /* half a character is left out */
    cop_model_free(model);
}

/* ---- The real pair ----------------------------------------------------------------------- */

static struct cop_tokenizer *open_real(const char *name)
{
    struct cop_tokenizer *tokenizer = NULL;
    struct cop_error err = {0};
    cr_assert_eq(cop_tokenizer_open(&tokenizer, reference_model(name), &err), COP_OK, "%s",
                 err.text);
    return tokenizer;
}

/* What SmolLM2 is told is the text that Qwen has read, and the two agree on the ends. */
Test(vocabularies, smollm2_reads_what_qwen_wrote)
{
    static const char text[] = "def f(x):\n    return {\"na\u00efve\": x ** 2}  # "
                               "\u91cf\u5b50\u529b\u5b66\n<|im_end|>";
    struct cop_tokenizer *qwen = open_real("models/Qwen2.5-Coder-0.5B-Instruct.Q4_K_M.gguf");
    struct cop_tokenizer *smol = open_real("models/SmolLM2-135M-Instruct.Q4_1.gguf");
    struct cop_glossary glossary;
    struct cop_ids ids = {0}, spelt = {0}, direct = {0};
    struct cop_text back = {0};
    struct cop_error err = {0};
    const struct cop_encode_options special = {.special = true};
    cr_assert_eq(cop_glossary_init(&glossary, qwen, 151936, smol, 49152, &err), COP_OK);
    cr_expect(glossary.n_shared > 25000 && glossary.n_shared < 49152, "%d", glossary.n_shared);
    for (cop_token id = 0; id < 49152; id++) {
        cop_token twin = glossary.to_target[id];
        struct cop_string a = cop_tokenizer_piece(smol, id),
                          b = cop_tokenizer_piece(qwen, twin);
        cr_assert(twin < 0 || (glossary.to_draft[twin] == id && a.length == b.length &&
                               memcmp(a.bytes, b.bytes, a.length) == 0),
                  "token %d", id);
    }
    cr_assert_eq(cop_tokenizer_encode(qwen, text, sizeof text - 1, special, &ids, &err),
                 COP_OK);
    for (size_t i = 0; i < ids.count; i++) {
        cr_assert_eq(cop_glossary_spell(&glossary, ids.items[i], &spelt, &err), COP_OK);
    }
    cr_assert_eq(cop_tokenizer_decode(smol, spelt.items, spelt.count, true, &back, &err),
                 COP_OK);
    cr_expect_eq(back.length, sizeof text - 1);
    cr_expect_eq(memcmp(back.bytes, text, sizeof text - 1), 0, "%s", back.bytes);
    cr_expect_eq(spelt.items[spelt.count - 1], cop_tokenizer_id(smol, "<|im_end|>", 10));
    /* A text that is cut behind its first token is the text's tokens from the second on. */
    const char phrase[] = "The quantum mechanics of 1925";
    ids.count = 0;
    cr_assert_eq(cop_tokenizer_encode(qwen, phrase, sizeof phrase - 1, special, &direct, &err),
                 COP_OK);
    expect_cut(qwen, direct.items[0], phrase + 3, direct.items + 1, (int32_t)direct.count - 1);
    cop_text_release(&back);
    cop_ids_release(&ids);
    cop_ids_release(&spelt);
    cop_ids_release(&direct);
    cop_glossary_release(&glossary);
    cop_tokenizer_free(qwen);
    cop_tokenizer_free(smol);
}
