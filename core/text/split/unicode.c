/* Normal forms in three steps over one stretch of characters: decompose each, sort the marks
 * behind each letter by their class, compose.
 *
 * The tables and the last step are those of utf8proc. Its own sorting takes a square of time,
 * so we sort. A character of ASCII never merges with what is before it, so a text is cut in
 * front of every one, and runs of ASCII pass untouched. */
#include "core/text/split/unicode.h"

#include "core/base/utf8.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- Properties ------------------------------------------------------------------------- */

bool cop_is_white(uint32_t character)
{
    return (character >= 0x09 && character <= 0x0D) || character == 0x20 || character == 0x85 ||
           character == 0xA0 || character == 0x1680 ||
           (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
           character == 0x2029 || character == 0x202F || character == 0x205F ||
           character == 0x3000;
}

/* Circled and squared letters: alphabetic, though their category is "symbol". */
static bool is_lettered_symbol(uint32_t character)
{
    return (character >= 0x24B6 && character <= 0x24E9) ||
           (character >= 0x1F130 && character <= 0x1F149) ||
           (character >= 0x1F150 && character <= 0x1F169) ||
           (character >= 0x1F170 && character <= 0x1F189);
}

bool cop_is_mark(uint32_t character)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)character);
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool cop_is_word(uint32_t character)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)character);
    bool is_letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    bool is_number = category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL;
    return is_letter || cop_is_mark(character) || is_number ||
           category == UTF8PROC_CATEGORY_PC || character == 0x200C || character == 0x200D ||
           is_lettered_symbol(character);
}

/* ---- Lower case ------------------------------------------------------------------------- */

enum cop_status cop_unicode_lower(const char *text, size_t length, struct cop_text *out,
                                  struct cop_error *err)
{
    size_t at = 0;
    while (at < length) {
        size_t used;
        (void)cop_utf8_next(text + at, length - at, &used);
        uint32_t character = cop_utf8_read(text + at, used);
        char lower[8];
        size_t n_bytes =
            cop_utf8_write((uint32_t)utf8proc_tolower((utf8proc_int32_t)character), lower);
        if (character == 0x130) { /* the one that becomes two: i and a dot above */
            memcpy(lower, "i\u0307", 3);
            n_bytes = 3;
        }
        enum cop_status status = cop_text_append(out, lower, n_bytes, err);
        if (status != COP_OK) {
            return status;
        }
        at += used;
    }
    return COP_OK;
}

/* ---- Normal forms ----------------------------------------------------------------------- */

/* Characters of one stretch; behind them lies as much room for sorting. */
struct stretch {
    utf8proc_int32_t *items;
    size_t count, capacity;
};

#define MOST_PARTS 20 /* characters that one decomposes to: at most 18 */

static bool reserve(struct stretch *stretch, size_t needed)
{
    if (needed <= stretch->capacity) {
        return true;
    }
    size_t capacity = needed + needed / 2 + 64;
    utf8proc_int32_t *items = realloc(stretch->items, 2 * capacity * sizeof *items);
    if (items) {
        stretch->items = items;
        stretch->capacity = capacity;
    }
    return items != NULL;
}

static unsigned mark_class(utf8proc_int32_t character)
{
    return (unsigned)utf8proc_get_property(character)->combining_class & 0xFF;
}

/* Sorts a run of marks by class; equal ones keep their order. */
static void sort_marks(utf8proc_int32_t *items, utf8proc_int32_t *spare, size_t count)
{
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[mark_class(items[i]) + 1]++;
    }
    for (size_t c = 1; c <= 256; c++) {
        starts[c] += starts[c - 1];
    }
    for (size_t i = 0; i < count; i++) {
        spare[starts[mark_class(items[i])]++] = items[i];
    }
    memcpy(items, spare, count * sizeof *items);
}

static void order(struct stretch *stretch)
{
    size_t at = 0;
    while (at < stretch->count) {
        size_t end = at;
        bool is_sorted = true;
        while (end < stretch->count && mark_class(stretch->items[end]) != 0) {
            is_sorted = is_sorted && (end == at || mark_class(stretch->items[end - 1]) <=
                                                       mark_class(stretch->items[end]));
            end++;
        }
        if (!is_sorted) {
            sort_marks(stretch->items + at, stretch->items + stretch->capacity, end - at);
        }
        at = end + 1;
    }
}

static enum cop_status decompose(struct stretch *stretch, const char *text, size_t length,
                                 utf8proc_option_t options, struct cop_error *err)
{
    stretch->count = 0;
    size_t at = 0;
    while (at < length) {
        size_t used;
        (void)cop_utf8_next(text + at, length - at, &used);
        uint32_t character = cop_utf8_read(text + at, used);
        if (!reserve(stretch, stretch->count + MOST_PARTS)) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory to normalise %zu bytes", length);
        }
        int boundary = 0;
        utf8proc_ssize_t n_parts = utf8proc_decompose_char((utf8proc_int32_t)character,
                                                           stretch->items + stretch->count,
                                                           MOST_PARTS, options, &boundary);
        if (n_parts < 0 || n_parts > MOST_PARTS) {
            return cop_fail(err, COP_ERR_FORMAT, "U+%04X cannot be normalised",
                            (unsigned)character);
        }
        stretch->count += (size_t)n_parts;
        at += used;
    }
    return COP_OK;
}

static enum cop_status append_form(enum cop_form form, struct stretch *stretch,
                                   const char *text, size_t length, struct cop_text *out,
                                   struct cop_error *err)
{
    bool is_compatible = form == COP_FORM_NFKC || form == COP_FORM_NFKD;
    bool composes = form == COP_FORM_NFC || form == COP_FORM_NFKC;
    utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    options = is_compatible ? options | UTF8PROC_COMPAT : options;
    enum cop_status status = decompose(stretch, text, length, options, err);
    if (status != COP_OK) {
        return status;
    }
    order(stretch);
    utf8proc_ssize_t count = (utf8proc_ssize_t)stretch->count;
    if (composes) {
        count =
            utf8proc_normalize_utf32(stretch->items, count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    }
    for (utf8proc_ssize_t i = 0; status == COP_OK && i < count; i++) {
        char bytes[4];
        size_t n_bytes = cop_utf8_write((uint32_t)stretch->items[i], bytes);
        status = cop_text_append(out, bytes, n_bytes, err);
    }
    return status;
}

/* Whether the form can change anything: below these bytes nothing decomposes, and nothing is a
 * mark. NFC leaves all below U+0300 alone (CC 80 is its first byte pair). */
static bool may_change(enum cop_form form, unsigned char byte)
{
    return byte >= (form == COP_FORM_NFC ? 0xCC : 0x80);
}

enum cop_status cop_unicode_form(enum cop_form form, const char *text, size_t length,
                                 struct cop_text *out, struct cop_error *err)
{
    struct stretch stretch = {0};
    enum cop_status status = COP_OK;
    size_t at = 0;
    while (status == COP_OK && at < length) {
        /* [at, changed) is copied, [changed, end) is one stretch. */
        size_t end = at;
        while (end < length && !may_change(form, (unsigned char)text[end])) {
            end++;
        }
        size_t changed = end;
        if (end < length) {
            /* The stretch begins with the ASCII character that a mark may stand on. */
            while (changed > at && ((unsigned char)text[changed] & 0x80) != 0) {
                changed--;
            }
            while (end < length && ((unsigned char)text[end] & 0x80) != 0) {
                end++;
            }
        }
        status = cop_text_append(out, text + at, changed - at, err);
        if (status == COP_OK && changed < end) {
            status = append_form(form, &stretch, text + changed, end - changed, out, err);
        }
        at = end;
    }
    free(stretch.items);
    return status;
}
