/* Misspelt names: the known one that is fewest edits away. */
#include "core/base/option.h"

#include <string.h>

enum { NAME_LIMIT = 64 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap neighbours) between names of at most NAME_LIMIT bytes.
 */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][NAME_LIMIT + 1];
    for (size_t j = 0; j <= nb; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= na; i++) {
        size_t *now = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t replace = above[j - 1] + (a[i - 1] != b[j - 1]);
            now[j] = smaller(replace, smaller(above[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                now[j] = smaller(now[j], above2[j - 2] + 1);
            }
        }
    }
    return rows[na % 3][nb];
}

/* Near: at most two edits, or a third of the letters, and never all of them. */
const char *cop_nearest(const char *name, const char *const *known, size_t count)
{
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > NAME_LIMIT) {
        return NULL;
    }
    const char *best = NULL;
    size_t bound = (length / 3 > 2 ? length / 3 : 2) + 1; /* distances below it count */
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(known[i]);
        if (other == 0 || other > NAME_LIMIT) {
            continue;
        }
        size_t distance = edit_distance(name, length, known[i], other);
        if (distance < bound && distance < (length > other ? length : other)) {
            best = known[i];
            bound = distance;
        }
    }
    return best;
}
