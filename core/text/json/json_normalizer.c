/* "normalizer" of a tokenizer.json. */
#include "core/text/json/json_steps.h"

/* Room for one more step; NULL: there is none. */
static struct cop_normalize_step *new_step(struct cop_json_steps *steps,
                                           enum cop_normalize_kind kind)
{
    struct cop_normalizer *normalizer = steps->normalizer;
    if (normalizer->n_steps == COP_NORMALIZE_STEPS) {
        (void)cop_json_refuse(&steps->place, COP_ERR_LIMIT, "more than %d steps",
                              COP_NORMALIZE_STEPS);
        return NULL;
    }
    struct cop_normalize_step *step = &normalizer->steps[normalizer->n_steps++];
    step->kind = kind;
    return step;
}

static enum cop_status read_form(struct cop_json_steps *steps, const struct cop_json_node *node)
{
    (void)node;
    struct cop_normalize_step *step = new_step(steps, COP_NORMALIZE_FORM);
    if (step) {
        step->form = (enum cop_form)steps->row->value;
    }
    return step ? COP_OK : COP_ERR_LIMIT;
}

static enum cop_status read_lower(struct cop_json_steps *steps,
                                  const struct cop_json_node *node)
{
    (void)node;
    return new_step(steps, COP_NORMALIZE_LOWER) ? COP_OK : COP_ERR_LIMIT;
}

static enum cop_status read_unmark(struct cop_json_steps *steps,
                                   const struct cop_json_node *node)
{
    (void)node;
    return new_step(steps, COP_NORMALIZE_UNMARK) ? COP_OK : COP_ERR_LIMIT;
}

static enum cop_status read_strip(struct cop_json_steps *steps,
                                  const struct cop_json_node *node)
{
    struct cop_normalize_step *step = new_step(steps, COP_NORMALIZE_STRIP);
    if (!step) {
        return COP_ERR_LIMIT;
    }
    step->left = step->right = true;
    enum cop_status status = cop_json_bool(&steps->place, node, "strip_left", &step->left);
    return status == COP_OK ? cop_json_bool(&steps->place, node, "strip_right", &step->right)
                            : status;
}

static enum cop_status read_prepend(struct cop_json_steps *steps,
                                    const struct cop_json_node *node)
{
    struct cop_normalize_step *step = new_step(steps, COP_NORMALIZE_PREPEND);
    return step ? cop_json_text(steps, node, "prepend", &step->to) : COP_ERR_LIMIT;
}

static enum cop_status read_replace(struct cop_json_steps *steps,
                                    const struct cop_json_node *node)
{
    struct cop_normalize_step *step = new_step(steps, COP_NORMALIZE_REPLACE);
    struct cop_string content = {NULL, 0};
    if (!step) {
        return COP_ERR_LIMIT;
    }
    enum cop_status status = cop_json_pattern(steps, node, &step->from, &step->regex);
    if (status == COP_OK) {
        status = cop_json_string(&steps->place, node, "content", &content);
    }
    if (status == COP_OK && !content.bytes) {
        return cop_json_lacks(steps, "content");
    }
    return status == COP_OK
               ? cop_text_append(&step->to, content.bytes, content.length, steps->place.err)
               : status;
}

enum cop_status cop_json_read_normalizer(const struct cop_json_source *source,
                                         struct cop_normalizer *normalizer,
                                         struct cop_error *err)
{
    static const struct cop_json_row rows[] = {
        {"NFC", read_form, COP_FORM_NFC},   {"NFD", read_form, COP_FORM_NFD},
        {"NFKC", read_form, COP_FORM_NFKC}, {"NFKD", read_form, COP_FORM_NFKD},
        {"Lowercase", read_lower, 0},       {"Prepend", read_prepend, 0},
        {"Replace", read_replace, 0},       {"Strip", read_strip, 0},
        {"StripAccents", read_unmark, 0},   {0}};
    struct cop_json_steps steps = {
        .rows = rows, .members = "normalizers", .normalizer = normalizer};
    return cop_json_read_part(source, COP_JSON_NORMALIZER, &steps, err);
}
