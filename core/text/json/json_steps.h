/* Lists of steps in a tokenizer.json: one object with a "type", or a sequence of them; each
 * type that is built is a row of a table. Private to core/text. */
#ifndef COP_TEXT_JSON_STEPS_H
#define COP_TEXT_JSON_STEPS_H

#include "core/text/json/json_source.h"

struct cop_json_steps;
struct cop_json_row {
    const char *type; /* NULL ends a table */
    enum cop_status (*read)(struct cop_json_steps *steps, const struct cop_json_node *node);
    int32_t value; /* a form, say */
};

/* A part while it is being read. */
struct cop_json_steps {
    struct cop_json_place place;
    const struct cop_json_row *rows;
    const struct cop_json_row *row; /* of the step that is being read */
    const char *members;            /* key of a sequence's list */
    struct cop_normalizer *normalizer;
    struct cop_tokenizer *tokenizer;
    struct cop_decoding *decoding;
    struct cop_piece_rule *rule;
    bool is_over;  /* no step may follow */
    bool is_fused; /* pieces have been put together */
};

enum cop_status cop_json_read_part(const struct cop_json_source *source,
                                   enum cop_json_part part, struct cop_json_steps *steps,
                                   struct cop_error *err);

/* ---- What several types have --------------------------------------------------------------
 */

enum cop_status cop_json_lacks(const struct cop_json_steps *steps, const char *key);
/* A string that must be there and not be empty. */
enum cop_status cop_json_text(const struct cop_json_steps *steps,
                              const struct cop_json_node *node, const char *key,
                              struct cop_text *text);
enum cop_status cop_json_compile(const struct cop_json_steps *steps, struct cop_string pattern,
                                 struct cop_regex **regex);
/* {"String": "…"} into *text, or {"Regex": "…"} into *regex (NULL: refused). */
enum cop_status cop_json_pattern(const struct cop_json_steps *steps,
                                 const struct cop_json_node *node, struct cop_text *text,
                                 struct cop_regex **regex);
/* Metaspace: the character that stands for a space, and where one is put in front. */
enum cop_json_scheme { COP_JSON_ALWAYS, COP_JSON_FIRST, COP_JSON_NEVER };
enum cop_status cop_json_replacement(const struct cop_json_steps *steps,
                                     const struct cop_json_node *node,
                                     struct cop_string *replacement);
enum cop_status cop_json_prepends(const struct cop_json_steps *steps,
                                  const struct cop_json_node *node,
                                  enum cop_json_scheme *scheme);

#endif
