/* Progress and time by depth, summed level by level. */
#include "core/trace/pace.h"

static double of_level(const double *values, int32_t count, int32_t level, double otherwise)
{
    return count < 1 ? otherwise : values[level < count ? level : count - 1];
}

double cop_pace_score(const double *score, int32_t n_score, double tokens)
{
    double last = score[n_score - 1];
    if (n_score < 2 || tokens <= 1) {
        return score[0];
    }
    if (tokens >= n_score) {
        double slope = last - score[n_score - 2];
        return last + (slope > 0 ? slope * (tokens - n_score) : 0);
    }
    int32_t left = (int32_t)tokens;
    return score[left - 1] + (tokens - left) * (score[left] - score[left - 1]);
}

/* Sums over the levels so far. */
struct walk {
    double tokens, survival, nodes;
    int32_t depth;
};

static struct walk begin(void)
{
    return (struct walk){.tokens = 1, .survival = 1, .nodes = 1};
}

static void descend(const struct cop_pace *pace, struct walk *walk)
{
    walk->survival *= of_level(pace->acceptance, pace->n_acceptance, walk->depth, 0);
    walk->tokens += walk->survival;
    walk->nodes += of_level(pace->widths, pace->n_widths, walk->depth, 1);
    walk->depth++;
}

static struct walk walk_to(const struct cop_pace *pace, int32_t depth)
{
    struct walk walk = begin();
    while (walk.depth < depth) {
        descend(pace, &walk);
    }
    return walk;
}

static double seconds_of(const struct cop_pace *pace, const struct walk *walk)
{
    double draft = walk->depth > 0 ? pace->start + walk->depth * pace->draft : 0;
    return cop_pace_score(pace->score, pace->n_score, walk->nodes) + draft + pace->host;
}

double cop_pace_tokens(const struct cop_pace *pace, int32_t depth)
{
    return walk_to(pace, depth).tokens;
}

double cop_pace_seconds(const struct cop_pace *pace, int32_t depth)
{
    const struct walk walk = walk_to(pace, depth);
    return seconds_of(pace, &walk);
}

int32_t cop_pace_best(const struct cop_pace *pace, int32_t least, int32_t most)
{
    struct walk walk = walk_to(pace, least);
    double highest = walk.tokens / seconds_of(pace, &walk);
    int32_t best = least;
    while (walk.depth < most) {
        descend(pace, &walk);
        double speed = walk.tokens / seconds_of(pace, &walk);
        if (speed > highest * (1 + 1e-12)) {
            highest = speed;
            best = walk.depth;
        }
    }
    return best;
}
