/* A tokenizer.json while a tokenizer is being made from it; private to core/text.
 *
 * The file is read once, from front to back: the two long lists are taken apart on the way, of
 * everything else only the place is kept. So the order of its members does not matter. */
#ifndef COP_TEXT_JSON_SOURCE_H
#define COP_TEXT_JSON_SOURCE_H

#include "core/text/json/json_fields.h"
#include "core/text/parts.h"

struct cop_json_piece {
    size_t at; /* in `text` */
    uint32_t length;
    cop_token id;
};
struct cop_json_merge { /* left and right lie one behind the other in `text` */
    size_t at;
    uint32_t left, right;
};

enum cop_json_part { /* members whose places are kept */
                     COP_JSON_ADDED,
                     COP_JSON_NORMALIZER,
                     COP_JSON_PRETOKENIZER,
                     COP_JSON_POSTPROCESSOR,
                     COP_JSON_DECODER,
                     /* of "model" */
                     COP_JSON_TYPE,
                     COP_JSON_DROPOUT,
                     COP_JSON_UNKNOWN,
                     COP_JSON_PREFIX,
                     COP_JSON_SUFFIX,
                     COP_JSON_FUSE,
                     COP_JSON_FALLBACK,
                     COP_JSON_IGNORE,
                     COP_JSON_PARTS
};

struct cop_json_added {
    struct cop_string content; /* borrowed from the tree of added tokens */
    cop_token id;
    bool is_special;
    uint8_t flags; /* COP_MARK_… */
};

struct cop_json_source {
    const char *name; /* the file's name, for messages */
    struct cop_string parts[COP_JSON_PARTS];
    struct cop_text text; /* pieces and merges */
    struct cop_json_piece *pieces;
    size_t n_pieces, room_for_pieces;
    struct cop_json_merge *merges;
    size_t n_merges, room_for_merges;
    bool has_model, has_vocab, has_merges;

    struct cop_json_tree added_tree;
    struct cop_json_added *added;
    size_t n_added;

    int32_t size;         /* of the vocabulary: the largest id and one */
    int32_t *piece_of;    /* [size]: the model's piece of an id, or -1 */
    int32_t *added_of;    /* [size]: the added token of an id, or -1 */
    struct cop_names ids; /* the model's pieces */
};
void cop_json_source_release(struct cop_json_source *source);

/* Reads the file. */
enum cop_status cop_json_source_read(struct cop_json_source *source, struct cop_string file,
                                     struct cop_error *err);
/* A part as a tree; the caller releases it. An absent part is null. */
enum cop_status cop_json_source_part(const struct cop_json_source *source,
                                     enum cop_json_part part, struct cop_json_tree *tree,
                                     struct cop_error *err);
const char *cop_json_part_name(enum cop_json_part part); /* "model.unk_token" */

/* How one piece becomes text. */
#define COP_PIECE_REPLACES 8
struct cop_piece_rule {
    bool is_byte_level;
    bool has_byte_pieces; /* "<0x0A>" is a byte */
    size_t n_replaces;
    struct {
        struct cop_text from, to;
    } replaces[COP_PIECE_REPLACES];
};
void cop_piece_rule_release(struct cop_piece_rule *rule);

/* Added tokens, and the ids of all; then vocabulary and fingerprint; words, ids of bytes and
 * merges; marks (which need the normaliser). */
enum cop_status cop_json_source_index(struct cop_json_source *source, struct cop_error *err);
enum cop_status cop_json_source_vocabulary(const struct cop_json_source *source,
                                           const struct cop_piece_rule *rule,
                                           struct cop_tokenizer *tokenizer,
                                           struct cop_error *err);
enum cop_status cop_json_source_symbols(const struct cop_json_source *source,
                                        struct cop_tokenizer *tokenizer, struct cop_error *err);
enum cop_status cop_json_source_merges(const struct cop_json_source *source,
                                       struct cop_merges *merges, struct cop_error *err);
enum cop_status cop_json_source_marks(const struct cop_json_source *source,
                                      struct cop_tokenizer *tokenizer, struct cop_error *err);

/* The four parts that are lists of steps. */
enum cop_status cop_json_read_normalizer(const struct cop_json_source *source,
                                         struct cop_normalizer *normalizer,
                                         struct cop_error *err);
enum cop_status cop_json_read_pretokenizer(const struct cop_json_source *source,
                                           struct cop_tokenizer *tokenizer,
                                           struct cop_error *err);
enum cop_status cop_json_read_decoder(const struct cop_json_source *source,
                                      struct cop_decoding *decoding,
                                      struct cop_piece_rule *rule, struct cop_error *err);
/* The beginning token that the post-processor puts in front. */
enum cop_status cop_json_read_postprocessor(const struct cop_json_source *source,
                                            struct cop_tokenizer *tokenizer,
                                            struct cop_error *err);

/* ---- The files together ----------------------------------------------------------------- */

enum cop_json_file {
    COP_FILE_TOKENIZER,
    COP_FILE_TOKENIZER_CONFIG,
    COP_FILE_CHAT_TEMPLATE,
    COP_FILE_GENERATION_CONFIG,
    COP_FILE_CONFIG,
    COP_FILE_SPECIAL_TOKENS,
    COP_JSON_FILES
};
struct cop_json_text {
    const char *name;       /* for messages */
    struct cop_string text; /* bytes NULL: there is no such file */
};
enum cop_status cop_tokenizer_from_json(struct cop_tokenizer **out,
                                        const struct cop_json_text files[COP_JSON_FILES],
                                        struct cop_error *err);

/* What the files beside tokenizer.json add to a tokenizer. */
enum cop_status cop_json_read_configs(const struct cop_json_text files[COP_JSON_FILES],
                                      struct cop_tokenizer *tokenizer, struct cop_error *err);

#endif
