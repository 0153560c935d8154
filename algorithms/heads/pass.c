/* Room that grows by need. */
#include "algorithms/heads/pass.h"

#include <stdlib.h>

bool cop_floats_reserve(struct cop_floats *floats, size_t n)
{
    if (n > floats->capacity) {
        free(floats->items);
        floats->items = malloc(n * sizeof *floats->items);
        floats->capacity = floats->items ? n : 0;
    }
    return n == 0 || floats->items;
}

bool cop_feed_start(struct cop_feed *feed, int32_t n)
{
    feed->n = 0;
    if (n <= feed->capacity) {
        return true;
    }
    cop_feed_release(feed);
    feed->tokens = malloc(3 * (size_t)n * sizeof *feed->tokens);
    if (feed->tokens) {
        feed->sequences = feed->tokens + n;
        feed->parents = feed->sequences + n;
        feed->capacity = n;
    }
    return feed->tokens != NULL;
}

void cop_feed_add(struct cop_feed *feed, int32_t sequence, cop_token token, int32_t parent)
{
    feed->tokens[feed->n] = token;
    feed->sequences[feed->n] = sequence;
    feed->parents[feed->n++] = parent;
}

void cop_feed_release(struct cop_feed *feed)
{
    free(feed->tokens);
    *feed = (struct cop_feed){0};
}
