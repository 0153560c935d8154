/* One fault in a tokenizer.json or beside it, and the words for it. */
#include "tests/text/json_toy.h"

TestSuite(json_faults, .timeout = 60);

static struct cop_error err;

#define MODEL(rest)        "{\"model\":{\"type\":\"BPE\"," rest "}}"
#define VOCAB(v, m)        MODEL("\"vocab\":{" v "},\"merges\":[" m "]")
#define WITH(front)        "{" front ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"
#define ADDED(rest)        WITH("\"added_tokens\":[{" rest "}]")
#define NORMALIZER(rest)   WITH("\"normalizer\":" rest)
#define PRETOKENIZER(rest) WITH("\"pre_tokenizer\":" rest)
#define DECODER(rest)      WITH("\"decoder\":" rest)
#define SPLIT(regex)                                                                           \
    PRETOKENIZER("{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex                         \
                 "\"},\"behavior\":\"Isolated\"}")

static const struct {
    const char *json;
    enum cop_status status;
    const char *text; /* behind "t.json: " */
} faults[] = {
    {"", COP_ERR_FORMAT, "JSON ends too early: a value is not complete"},
    {"[]", COP_ERR_FORMAT, "is no JSON object"},
    {"{}", COP_ERR_FORMAT, "model: is no object"},
    {"{\"model\":[]}", COP_ERR_FORMAT, "model: is no object"},
    {"{\"model\":{},}", COP_ERR_FORMAT, "bad JSON at byte 13: expected a key in quotes"},
    {"{\"model\":{}} 1", COP_ERR_FORMAT, "bad JSON at byte 14: something follows the value"},
    /* The model. */
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1.5]]}}", COP_ERR_UNSUPPORTED,
     "model.type: \"Unigram\" is not built; known is BPE"},
    {"{\"model\":{\"vocab\":{\"a\":0}}}", COP_ERR_UNSUPPORTED,
     "model.type: \"\" is not built; known is BPE"},
    {MODEL("\"vocab\":{\"a\":0}"), COP_ERR_FORMAT, "model.merges: is absent"},
    {MODEL("\"vocab\":[],\"merges\":[]"), COP_ERR_FORMAT, "model.vocab: is no object"},
    {MODEL("\"merges\":{}"), COP_ERR_FORMAT, "model.merges: is no list"},
    {MODEL("\"merges\":[],\"merges\":[]"), COP_ERR_FORMAT, "model.merges: is there twice"},
    {MODEL("\"vocab\":{},\"vocab\":{}"), COP_ERR_FORMAT, "model.vocab: is there twice"},
    {MODEL("\"end_of_word_suffix\":\"</w>\",\"vocab\":{\"a\":0},\"merges\":[]"),
     COP_ERR_UNSUPPORTED, "model.end_of_word_suffix: is set, which is not built"},
    {MODEL("\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]"), COP_ERR_UNSUPPORTED,
     "model.dropout: is set, which is not built"},
    {MODEL("\"fuse_unk\":1,\"vocab\":{\"a\":0},\"merges\":[]"), COP_ERR_FORMAT,
     "model.fuse_unk: is neither true nor false"},
    {MODEL("\"unk_token\":\"u\",\"vocab\":{\"a\":0},\"merges\":[]"), COP_ERR_FORMAT,
     "model.unk_token: \"u\" is no token"},
    {MODEL("\"unk_token\":7,\"vocab\":{\"a\":0},\"merges\":[]"), COP_ERR_FORMAT,
     "model.unk_token: \"(no string)\" is no token"},
    /* The vocabulary. */
    {VOCAB("", ""), COP_ERR_FORMAT, "model.vocab: is empty"},
    {VOCAB("\"a\":\"x\"", ""), COP_ERR_FORMAT, "model.vocab: the id of \"a\" is no integer"},
    {VOCAB("\"a\":1.0", ""), COP_ERR_FORMAT, "model.vocab: the id of \"a\" is no integer"},
    {VOCAB("\"a\":-1", ""), COP_ERR_FORMAT,
     "model.vocab: the id of \"a\" is -1, outside [0, 536870911]"},
    {VOCAB("\"a\":1152921504606846976", ""), COP_ERR_FORMAT,
     "model.vocab: the id of \"a\" is 1152921504606846976, outside [0, 536870911]"},
    {VOCAB("\"a\":100000000", ""), COP_ERR_FORMAT,
     "id 100000000 is far beyond the number of tokens, 1"},
    {VOCAB("\"a\":1,\"b\":1", ""), COP_ERR_FORMAT,
     "model.vocab: \"a\" and \"b\" both have the id 1"},
    {VOCAB("\"a\":1,\"a\":2", ""), COP_ERR_FORMAT, "model.vocab: \"a\" is there twice"},
    /* Merges. */
    {VOCAB("\"a\":0,\"b\":1", "\"a\""), COP_ERR_FORMAT,
     "model.merges: merge 0 is not two tokens with one space between"},
    {VOCAB("\"a\":0,\"b\":1", "\"a b c\""), COP_ERR_FORMAT,
     "model.merges: merge 0 is not two tokens with one space between"},
    {VOCAB("\"a\":0,\"b\":1", "\" b\""), COP_ERR_FORMAT,
     "model.merges: merge 0 is not two tokens with one space between"},
    {VOCAB("\"a\":0,\"b\":1", "7"), COP_ERR_FORMAT,
     "model.merges: merge 0 is neither a string nor a list of two"},
    {VOCAB("\"a\":0,\"b\":1", "[\"a\"]"), COP_ERR_FORMAT,
     "model.merges: merge 0 is not a list of two strings"},
    {VOCAB("\"a\":0,\"b\":1", "[\"a\",\"b\",\"a\"]"), COP_ERR_FORMAT,
     "model.merges: merge 0 is not a list of two strings"},
    {VOCAB("\"a\":0,\"b\":1", "[\"a\",\"\"]"), COP_ERR_FORMAT,
     "model.merges: merge 0 names an empty token"},
    {VOCAB("\"a\":0,\"b\":1", "\"x b\""), COP_ERR_FORMAT,
     "model.merges: merge 0, \"x\" and \"b\", begins with what is not a token"},
    {VOCAB("\"a\":0,\"b\":1", "\"a x\""), COP_ERR_FORMAT,
     "model.merges: merge 0, \"a\" and \"x\", ends with what is not a token"},
    {VOCAB("\"a\":0,\"b\":1", "\"a b\""), COP_ERR_FORMAT,
     "model.merges: merge 0, \"a\" and \"b\", makes what is not a token"},
    {VOCAB("\"a\":0,\"b\":1,\"ab\":2", "\"a b\",[\"a\",\"b\"]"), COP_ERR_FORMAT,
     "model.merges: merge 1, \"a\" and \"b\", is there twice"},
    /* Added tokens. */
    {WITH("\"added_tokens\":{}"), COP_ERR_FORMAT, "added_tokens: is no list"},
    {WITH("\"added_tokens\":[1]"), COP_ERR_FORMAT, "added_tokens: an item is no object"},
    {ADDED("\"id\":1"), COP_ERR_FORMAT, "added_tokens: an item lacks \"id\" or \"content\""},
    {ADDED("\"id\":\"1\",\"content\":\"x\""), COP_ERR_FORMAT,
     "added_tokens: \"id\" is no integer"},
    {ADDED("\"id\":1152921504606846976,\"content\":\"x\""), COP_ERR_FORMAT,
     "added_tokens: \"id\" is 1152921504606846976, outside [0, 536870911]"},
    {ADDED("\"id\":1,\"content\":\"x\",\"lstrip\":\"yes\""), COP_ERR_FORMAT,
     "added_tokens: \"lstrip\" is neither true nor false"},
    {ADDED("\"id\":1,\"content\":\"a\""), COP_ERR_FORMAT,
     "added_tokens: \"a\" has the id 1, but 0 in model.vocab"},
    {ADDED("\"id\":0,\"content\":\"x\""), COP_ERR_FORMAT,
     "added_tokens: the id 0 of \"x\" is that of another token"},
    {ADDED("\"id\":1,\"content\":\"x\"},{\"id\":1,\"content\":\"y\""), COP_ERR_FORMAT,
     "added_tokens: the id 1 of \"y\" is that of another token"},
    /* Lists of steps. */
    {NORMALIZER("{\"type\":\"Nmt\"}"), COP_ERR_UNSUPPORTED,
     "normalizer: type \"Nmt\" is not built; known are NFC, NFD, NFKC, NFKD, Lowercase, "
     "Prepend, Replace, Strip, StripAccents, Sequence"},
    {NORMALIZER("[]"), COP_ERR_FORMAT, "normalizer: a step has no \"type\""},
    {NORMALIZER("{\"type\":1}"), COP_ERR_FORMAT, "normalizer: \"type\" is no string"},
    {NORMALIZER("{\"type\":\"Sequence\"}"), COP_ERR_FORMAT,
     "normalizer: a Sequence without its list \"normalizers\""},
    {NORMALIZER("{\"type\":\"Replace\",\"content\":\"\"}"), COP_ERR_FORMAT,
     "normalizer: Replace without \"String\""},
    {NORMALIZER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"}}"), COP_ERR_FORMAT,
     "normalizer: Replace without \"content\""},
    {NORMALIZER("{\"type\":\"Prepend\"}"), COP_ERR_FORMAT,
     "normalizer: Prepend without \"prepend\""},
    {PRETOKENIZER("{\"type\":\"CharDelimiterSplit\"}"), COP_ERR_UNSUPPORTED,
     "pre_tokenizer: type \"CharDelimiterSplit\" is not built; known are ByteLevel, Digits, "
     "Metaspace, Punctuation, Split, Whitespace, WhitespaceSplit, Sequence"},
    {PRETOKENIZER("{\"type\":\"Split\",\"pattern\":{\"String\":\"x\"}}"), COP_ERR_FORMAT,
     "pre_tokenizer: Split without \"behavior\""},
    {PRETOKENIZER("{\"type\":\"Punctuation\",\"behavior\":\"Merged\"}"), COP_ERR_UNSUPPORTED,
     "pre_tokenizer: \"behavior\" is \"Merged\"; known are Isolated, Removed, "
     "MergedWithPrevious, MergedWithNext, Contiguous"},
    {PRETOKENIZER("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{"
                  "\"type\":\"Digits\"}]}"),
     COP_ERR_UNSUPPORTED, "pre_tokenizer: a step (Digits) behind the one that must be last"},
    {PRETOKENIZER("{\"type\":\"Metaspace\",\"replacement\":\"\"}"), COP_ERR_FORMAT,
     "pre_tokenizer: \"replacement\" is not one character"},
    {SPLIT("a("), COP_ERR_FORMAT,
     "pre_tokenizer: the regular expression cannot be read (near its byte 2): missing closing "
     "parenthesis"},
    {SPLIT("[a&&b]"), COP_ERR_UNSUPPORTED,
     "pre_tokenizer: the regular expression holds && inside brackets, which is not built"},
    {SPLIT("[[a]b]"), COP_ERR_UNSUPPORTED,
     "pre_tokenizer: the regular expression holds brackets inside brackets, which is not "
     "built"},
    {SPLIT("(*LIMIT_MATCH=1)a"), COP_ERR_UNSUPPORTED,
     "pre_tokenizer: the regular expression holds \"(*\", which is not built"},
    {SPLIT("a{1,3}+"), COP_ERR_UNSUPPORTED,
     "pre_tokenizer: the regular expression holds {n,m}+, which is not built"},
    {DECODER("{\"type\":\"WordPiece\"}"), COP_ERR_UNSUPPORTED,
     "decoder: type \"WordPiece\" is not built; known are ByteFallback, ByteLevel, Fuse, "
     "Replace, Strip, Sequence"},
    {DECODER("{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"),
     COP_ERR_UNSUPPORTED, "decoder: Strip is built once, and behind Fuse"},
    {DECODER("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x\"},\"content\":\"\"}"),
     COP_ERR_UNSUPPORTED, "decoder: Replace with a \"Regex\" is not built"},
    {WITH("\"post_processor\":{\"type\":\"BertProcessing\"}"), COP_ERR_UNSUPPORTED,
     "post_processor: type \"BertProcessing\" is not built; known are ByteLevel, "
     "TemplateProcessing, Sequence"},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
          "\"id\":\"<s>\"}}]}"),
     COP_ERR_FORMAT, "post_processor: \"<s>\" is no token"},
};

Test(json_faults, one_fault_one_message)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct cop_tokenizer *made;
        cr_expect_eq(json_toy_open(faults[i].json, &made, &err), faults[i].status, "%s",
                     faults[i].json);
        cr_expect_eq(strncmp(err.text, "t.json: ", 8), 0);
        cr_expect_str_eq(err.text + 8, faults[i].text, "%s", faults[i].json);
        cr_expect_null(made);
    }
}

static const struct {
    enum cop_json_file file;
    const char *json;
    const char *text;
} beside[] = {
    {COP_FILE_TOKENIZER_CONFIG, "[]", "x.json: is no JSON object"},
    {COP_FILE_TOKENIZER_CONFIG, "{\"eos_token\":\"</s>\"}",
     "x.json: eos_token: \"</s>\" is no token"},
    {COP_FILE_SPECIAL_TOKENS, "{\"eos_token\":{\"content\":\"</s>\"}}",
     "x.json: eos_token: \"</s>\" is no token"},
    {COP_FILE_SPECIAL_TOKENS, "{\"eos_token\":[0]}",
     "x.json: eos_token: \"eos_token\" is no string"},
    {COP_FILE_TOKENIZER_CONFIG, "{\"bos_token\":7}",
     "x.json: bos_token: \"bos_token\" is no string"},
    {COP_FILE_TOKENIZER_CONFIG, "{\"add_bos_token\":1}",
     "x.json: add_bos_token: \"add_bos_token\" is neither true nor false"},
    {COP_FILE_TOKENIZER_CONFIG, "{\"chat_template\":1}",
     "x.json: chat_template: \"chat_template\" is no string"},
    {COP_FILE_GENERATION_CONFIG, "{\"eos_token_id\":[0,\"a\"]}",
     "x.json: eos_token_id: is neither an id nor a list of ids"},
    {COP_FILE_GENERATION_CONFIG, "{\"eos_token_id\":[0,1]}",
     "x.json: eos_token_id: id 1 is outside the vocabulary of 1"},
    {COP_FILE_CONFIG, "{\"eos_token_id\":-2}",
     "x.json: eos_token_id: id -2 is outside the vocabulary of 1"},
    {COP_FILE_CONFIG, "{\"bos_token_id\":1152921504606846976}",
     "x.json: bos_token_id: id 1152921504606846976 is outside the vocabulary of 1"},
    {COP_FILE_CONFIG, "{\"a\":", "x.json: JSON ends too early: a value is not complete"},
};

Test(json_faults, faults_beside)
{
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        struct cop_tokenizer *made;
        struct cop_json_text files[COP_JSON_FILES] = {
            json_toy_text("t.json", "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}")};
        files[beside[i].file] = json_toy_text("x.json", beside[i].json);
        cr_expect_eq(cop_tokenizer_from_json(&made, files, &err), COP_ERR_FORMAT);
        cr_expect_str_eq(err.text, beside[i].text);
        cr_expect_null(made);
    }
}

/* ---- Sizes ------------------------------------------------------------------------------ */

/* `head`, a unit many times, `tail`. */
static char *repeat(const char *head, const char *unit, size_t count, const char *tail)
{
    size_t length = strlen(unit);
    char *text = malloc(strlen(head) + count * length + strlen(tail) + 1);
    char *at = stpcpy(text, head);
    for (size_t i = 0; i < count; i++) {
        at = stpcpy(at, unit);
    }
    strcpy(at, tail);
    return text;
}

static void expect_refused(char *json, enum cop_status status, const char *text)
{
    struct cop_tokenizer *made;
    cr_expect_eq(json_toy_open(json, &made, &err), status, "%s", text);
    cr_expect_str_eq(err.text, text);
    cr_expect_null(made);
    free(json);
}

Test(json_faults, deep_and_large_files_are_refused)
{
    expect_refused(repeat("{\"normalizer\":", "[[", 50000, ""), COP_ERR_FORMAT,
                   "t.json: bad JSON at byte 142: lists and objects nested more than 128 deep");
    expect_refused(repeat("{\"model\":{\"x\":", "{\"a\":", 100000, ""), COP_ERR_FORMAT,
                   "t.json: bad JSON at byte 645: lists and objects nested more than 128 deep");
    expect_refused(
        repeat("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[",
               "{\"type\":\"NFC\"},", 16,
               "{\"type\":\"NFC\"}]},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"),
        COP_ERR_LIMIT, "t.json: normalizer: more than 16 steps");
    expect_refused(repeat("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[",
                          "{\"type\":\"Digits\"},", 16,
                          "{\"type\":\"Digits\"}]},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]"
                          "}}"),
                   COP_ERR_LIMIT, "t.json: pre_tokenizer: more than 16 steps");
    expect_refused(repeat("{\"added_tokens\":[{\"id\":1,\"content\":\"", "x", 1001,
                          "\"}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"),
                   COP_ERR_LIMIT,
                   "t.json: added_tokens: token 1 has 1001 bytes, more than 1000");
    expect_refused(repeat("{\"added_tokens\":[", "0,", 1 << 20,
                          "0],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}"),
                   COP_ERR_LIMIT, "t.json: added_tokens: JSON with more than 1048576 values");
}

/* As deep as the reader allows is deep enough for any sequence. */
Test(json_faults, sequences_nest)
{
    char *head = repeat("{\"pre_tokenizer\":", "{\"type\":\"Sequence\",\"pretokenizers\":[", 60,
                        "{\"type\":\"Digits\"}");
    char *json = repeat(head, "]}", 60, ",\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}");
    struct cop_tokenizer *made;
    cr_expect_eq(json_toy_open(json, &made, &err), COP_OK, "%s", err.text);
    cop_tokenizer_free(made);
    free(head);
    free(json);
}

/* A chain of replacements that would make a text of 10^12 bytes. */
Test(json_faults, text_that_explodes_is_refused)
{
    char *content = repeat("", "a", 10000, "");
    char json[80000];
    (void)snprintf(json, sizeof json,
                   "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
                   "\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"},{\"type\":"
                   "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"%s\"},{\"type\":"
                   "\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"%s\"}]},"
                   "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
                   content, content, content);
    struct cop_tokenizer *made;
    struct cop_ids ids = {0};
    cr_assert_eq(json_toy_open(json, &made, &err), COP_OK, "%s", err.text);
    cr_expect_eq(cop_tokenizer_encode(made, "a", 1, (struct cop_encode_options){0}, &ids, &err),
                 COP_ERR_LIMIT);
    cr_expect(strstr(err.text, "normaliser makes a text longer than"), "%s", err.text);
    cr_expect_eq(ids.count, 0);
    cop_tokenizer_free(made);
    free(content);
}

/* An expression that takes exponential time ends with a message. */
Test(json_faults, an_expression_without_end_is_refused)
{
    struct cop_tokenizer *made;
    struct cop_ids ids = {0};
    cr_assert_eq(json_toy_open(SPLIT("(a+)+$"), &made, &err), COP_OK, "%s", err.text);
    char *text = repeat("", "a", 40, "b");
    cr_expect_eq(cop_tokenizer_encode(made, text, strlen(text), (struct cop_encode_options){0},
                                      &ids, &err),
                 COP_ERR_LIMIT);
    cr_expect_str_eq(err.text,
                     "a regular expression of the tokenizer failed: match limit exceeded");
    cop_tokenizer_free(made);
    free(text);
}
