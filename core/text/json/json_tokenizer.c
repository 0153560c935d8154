/* Putting a tokenizer together from a Hugging Face folder. */
#include "core/base/path.h"
#include "core/base/quote.h"
#include "core/files/map.h"
#include "core/text/json/json_source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The model -------------------------------------------------------------------------- */

static enum cop_status read_bool(const struct cop_json_source *source, enum cop_json_part part,
                                 bool *value, struct cop_error *err)
{
    struct cop_json_tree tree;
    enum cop_status status = cop_json_source_part(source, part, &tree, err);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_json_node *node = cop_json_root(&tree);
    struct cop_json_place place = {source->name, cop_json_part_name(part), &tree, err};
    *value = node->kind == COP_JSON_TRUE;
    if (node->kind != COP_JSON_TRUE && node->kind != COP_JSON_FALSE &&
        node->kind != COP_JSON_NULL) {
        status = cop_json_refuse(&place, COP_ERR_FORMAT, "is neither true nor false");
    }
    cop_json_tree_release(&tree);
    return status;
}

/* Whether a setting says nothing: absent, null, "", 0. */
static enum cop_status check_unset(const struct cop_json_source *source,
                                   enum cop_json_part part, struct cop_error *err)
{
    struct cop_json_tree tree;
    enum cop_status status = cop_json_source_part(source, part, &tree, err);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_json_node *node = cop_json_root(&tree);
    struct cop_json_place place = {source->name, cop_json_part_name(part), &tree, err};
    bool is_number = node->kind == COP_JSON_INTEGER || node->kind == COP_JSON_NUMBER;
    bool is_unset = node->kind == COP_JSON_NULL || cop_json_is(node, "") ||
                    (is_number && !(node->number < 0) && !(node->number > 0));
    if (!is_unset) {
        status = cop_json_refuse(&place, COP_ERR_UNSUPPORTED, "is set, which is not built");
    }
    cop_json_tree_release(&tree);
    return status;
}

/* Files older than the field "type" have merges if they are of this type. */
static enum cop_status check_type(const struct cop_json_source *source, struct cop_error *err)
{
    struct cop_json_tree tree;
    enum cop_status status = cop_json_source_part(source, COP_JSON_TYPE, &tree, err);
    if (status != COP_OK) {
        return status;
    }
    const struct cop_json_node *node = cop_json_root(&tree);
    bool is_string = node->kind == COP_JSON_STRING;
    if (!cop_json_is(node, "BPE") && (is_string || !source->has_merges)) {
        char text[COP_QUOTE_SIZE];
        status = cop_fail(err, COP_ERR_UNSUPPORTED,
                          "%s: model.type: \"%s\" is not built; known is BPE", source->name,
                          is_string ? cop_quote(text, node->text, node->length) : "");
    }
    cop_json_tree_release(&tree);
    return status;
}

static enum cop_status check_model(const struct cop_json_source *source, struct cop_error *err)
{
    static const enum cop_json_part unset[] = {COP_JSON_DROPOUT, COP_JSON_PREFIX,
                                               COP_JSON_SUFFIX};
    enum cop_status status = check_type(source, err);
    if (status == COP_OK && (!source->has_vocab || !source->has_merges)) {
        status = cop_fail(err, COP_ERR_FORMAT, "%s: model.%s", source->name,
                          source->has_vocab ? "merges: is absent" : "vocab: is no object");
    }
    for (size_t i = 0; status == COP_OK && i < sizeof unset / sizeof unset[0]; i++) {
        status = check_unset(source, unset[i], err);
    }
    return status;
}

static enum cop_status read_model(const struct cop_json_source *source,
                                  struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    bool has_fallback = false;
    enum cop_status status = read_bool(source, COP_JSON_FUSE, &tokenizer->fuses_unknown, err);
    if (status == COP_OK) {
        status = read_bool(source, COP_JSON_IGNORE, &tokenizer->ignore_merges, err);
    }
    if (status == COP_OK) {
        status = read_bool(source, COP_JSON_FALLBACK, &has_fallback, err);
    }
    if (status == COP_OK && has_fallback) {
        cop_find_fallback(&source->ids, tokenizer->fallback_ids);
    }
    return status;
}

/* ---- The parts together -------------------------------------------------------------------
 */

static enum cop_status build_vocabulary(struct cop_json_source *source,
                                        struct cop_tokenizer *tokenizer, struct cop_error *err)
{
    struct cop_piece_rule rule = {0};
    enum cop_status status = cop_json_read_decoder(source, &tokenizer->decoding, &rule, err);
    if (status == COP_OK) {
        status = cop_json_source_index(source, err);
    }
    if (status == COP_OK) {
        status = cop_json_source_vocabulary(source, &rule, tokenizer, err);
    }
    cop_piece_rule_release(&rule);
    return status;
}

static enum cop_status build(struct cop_json_source *source, struct cop_tokenizer *tokenizer,
                             struct cop_error *err)
{
    enum cop_status status = check_model(source, err);
    if (status == COP_OK) {
        status = build_vocabulary(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = read_model(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = cop_json_source_merges(source, &tokenizer->merges, err);
    }
    if (status == COP_OK) {
        status = cop_json_read_normalizer(source, &tokenizer->normalizer, err);
    }
    if (status == COP_OK) {
        status = cop_json_source_marks(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = cop_json_read_pretokenizer(source, tokenizer, err);
    }
    if (status == COP_OK) {
        status = cop_json_source_symbols(source, tokenizer, err);
    }
    return status == COP_OK ? cop_json_read_postprocessor(source, tokenizer, err) : status;
}

enum cop_status cop_tokenizer_from_json(struct cop_tokenizer **out,
                                        const struct cop_json_text files[COP_JSON_FILES],
                                        struct cop_error *err)
{
    *out = NULL;
    struct cop_json_source source = {.name = files[COP_FILE_TOKENIZER].name};
    struct cop_tokenizer *tokenizer = cop_tokenizer_new();
    enum cop_status status =
        tokenizer ? cop_json_source_read(&source, files[COP_FILE_TOKENIZER].text, err)
                  : cop_fail(err, COP_ERR_MEMORY, "%s: no memory", source.name);
    if (status == COP_OK) {
        status = build(&source, tokenizer, err);
    }
    cop_json_source_release(&source);
    if (status == COP_OK) {
        status = cop_json_read_configs(files, tokenizer, err);
    }
    if (status != COP_OK) {
        cop_tokenizer_free(tokenizer);
        return status;
    }
    *out = tokenizer;
    return COP_OK;
}

/* ---- Files ------------------------------------------------------------------------------ */

#define NAME_SIZE 152

struct opened {
    struct cop_map maps[COP_JSON_FILES];
    char names[COP_JSON_FILES][NAME_SIZE];
    struct cop_json_text files[COP_JSON_FILES];
};

static const char *const file_names[COP_JSON_FILES] = {
    [COP_FILE_TOKENIZER] = "tokenizer.json",
    [COP_FILE_TOKENIZER_CONFIG] = "tokenizer_config.json",
    [COP_FILE_CHAT_TEMPLATE] = "chat_template.jinja",
    [COP_FILE_GENERATION_CONFIG] = "generation_config.json",
    [COP_FILE_CONFIG] = "config.json",
    [COP_FILE_SPECIAL_TOKENS] = "special_tokens_map.json",
};

/* Maps a file if it is there; the name lacks what is too long of the path's beginning. */
static enum cop_status open_file(struct opened *opened, enum cop_json_file which,
                                 const char *path, struct cop_error *err)
{
    struct stat about;
    struct cop_map *map = &opened->maps[which];
    char *name = opened->names[which];
    (void)snprintf(name, NAME_SIZE, "%s", cop_path_tail(path, NAME_SIZE - 2));
    opened->files[which] = (struct cop_json_text){name, {NULL, 0}};
    if (stat(path, &about) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return COP_OK;
    }
    enum cop_status status = cop_map_open(map, path, err);
    if (status == COP_OK) {
        opened->files[which].text =
            (struct cop_string){map->data ? (const char *)map->data : "", map->size};
    }
    return status;
}

/* The folder's files; `path` is the folder or its tokenizer.json. */
static enum cop_status open_files(struct opened *opened, const char *path,
                                  struct cop_error *err)
{
    struct stat about;
    if (stat(path, &about) != 0) {
        return cop_fail(err, COP_ERR_IO, "%s: %s", cop_path_tail(path, 300), strerror(errno));
    }
    bool is_folder = S_ISDIR(about.st_mode);
    size_t folder_length = is_folder ? strlen(path) : (size_t)(cop_path_name(path) - path);
    enum cop_status status = COP_OK;
    for (int i = 0; status == COP_OK && i < COP_JSON_FILES; i++) {
        char beside[PATH_MAX];
        int length = snprintf(beside, sizeof beside, "%.*s%s%s", (int)folder_length, path,
                              is_folder ? "/" : "", file_names[i]);
        if (length < 0 || (size_t)length >= sizeof beside) {
            return cop_fail(err, COP_ERR_IO, "%s: the path is too long",
                            cop_path_tail(path, 300));
        }
        bool is_named = i == COP_FILE_TOKENIZER && !is_folder;
        status = open_file(opened, (enum cop_json_file)i, is_named ? path : beside, err);
    }
    return status;
}

enum cop_status cop_tokenizer_from_folder(struct cop_tokenizer **out, const char *path,
                                          struct cop_error *err)
{
    struct opened opened;
    memset(&opened, 0, sizeof opened);
    *out = NULL;
    enum cop_status status = open_files(&opened, path, err);
    if (status == COP_OK && opened.files[COP_FILE_TOKENIZER].text.bytes) {
        status = cop_tokenizer_from_json(out, opened.files, err);
    }
    for (int i = 0; i < COP_JSON_FILES; i++) {
        cop_map_close(&opened.maps[i]);
    }
    return status;
}
