/* The search over masks of sub-layers. */
#include "algorithms/propose/layer_search.h"
#include "core/base/philox.h"
#include "core/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOPEFUL_EVERY = 25, /* steps */
    CANDIDATES = 64,    /* of a hopeful step */
    MOST_IDLE = 300
};
static const double HOPE = 2.5, NOISE = 1e-2;

/* ---- Masks ------------------------------------------------------------------------------- */

static uint8_t part_bit(int32_t part)
{
    return part % 2 == 0 ? COP_SKIP_ATTENTION : COP_SKIP_MLP;
}

/* Mask number (step, index): n_skipped parts of 2 (layers - 2), each set as likely as another.
 */
static void random_mask(const struct cop_layer_search *search, uint32_t step, uint32_t index,
                        uint8_t *mask)
{
    int32_t n_parts = 2 * (search->layers - 2), left = search->n_skipped;
    memset(mask, 0, (size_t)search->layers);
    for (int32_t part = 0; part < n_parts; part++) {
        uint32_t words[4];
        const uint32_t counter[4] = {(uint32_t)part, index, step, 0}, key[2] = {0x5ec7, 0x13f7};
        cop_philox(counter, key, 10, words);
        double u = words[0] * 0x1p-32;
        if (u * (n_parts - part) < left) {
            mask[1 + part / 2] |= part_bit(part);
            left--;
        }
    }
}

/* Parts in which two masks differ. */
static int32_t distance(const struct cop_layer_search *search, const uint8_t *a,
                        const uint8_t *b)
{
    int32_t n = 0;
    for (int32_t i = 0; i < search->layers; i++) {
        uint8_t differs = a[i] ^ b[i];
        n += (differs & COP_SKIP_ATTENTION) != 0;
        n += (differs & COP_SKIP_MLP) != 0;
    }
    return n;
}

/* ---- The Gaussian process ---------------------------------------------------------------- */

struct process {
    const struct cop_layer_search *search;
    int32_t n;
    double mean;
    double factor[COP_LAYER_SEARCH_MEMORY][COP_LAYER_SEARCH_MEMORY]; /* of the covariance, below
                                                                        the diagonal */
    double weights[COP_LAYER_SEARCH_MEMORY]; /* factor^-1 (scores - mean) */
};

static double kernel(const struct cop_layer_search *search, const uint8_t *a, const uint8_t *b)
{
    return exp(-(double)distance(search, a, b) / search->n_skipped);
}

static const uint8_t *known_at(const struct cop_layer_search *search, int32_t i)
{
    return search->known + (size_t)i * (size_t)search->layers;
}

static void learn(struct process *process, const struct cop_layer_search *search)
{
    process->search = search;
    process->n =
        search->n_known < COP_LAYER_SEARCH_MEMORY ? search->n_known : COP_LAYER_SEARCH_MEMORY;
    process->mean = 0;
    for (int32_t i = 0; i < process->n; i++) {
        process->mean += search->scores[i] / process->n;
    }
    for (int32_t i = 0; i < process->n; i++) {
        double weight = search->scores[i] - process->mean;
        for (int32_t j = 0; j <= i; j++) {
            double sum =
                kernel(search, known_at(search, i), known_at(search, j)) + (i == j ? NOISE : 0);
            for (int32_t k = 0; k < j; k++) {
                sum -= process->factor[i][k] * process->factor[j][k];
            }
            process->factor[i][j] = i == j ? sqrt(sum) : sum / process->factor[j][j];
        }
        for (int32_t k = 0; k < i; k++) {
            weight -= process->factor[i][k] * process->weights[k];
        }
        process->weights[i] = weight / process->factor[i][i];
    }
}

/* The upper end of what a mask may score. */
static double hope_of(const struct process *process, const uint8_t *mask)
{
    double mean = process->mean, variance = 1, column[COP_LAYER_SEARCH_MEMORY];
    for (int32_t i = 0; i < process->n; i++) {
        double sum = kernel(process->search, known_at(process->search, i), mask);
        for (int32_t k = 0; k < i; k++) {
            sum -= process->factor[i][k] * column[k];
        }
        column[i] = sum / process->factor[i][i];
        mean += column[i] * process->weights[i];
        variance -= column[i] * column[i];
    }
    return mean + HOPE * sqrt(variance > 0 ? variance : 0);
}

/* The most hopeful of many random masks. */
static void hopeful_mask(struct cop_layer_search *search, uint8_t *mask)
{
    static const struct process blank;
    struct process process = blank;
    uint32_t best = 0;
    double most = -HUGE_VAL;
    learn(&process, search);
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        random_mask(search, (uint32_t)search->step, i, mask);
        double hope = hope_of(&process, mask);
        best = hope > most ? i : best;
        most = hope > most ? hope : most;
    }
    random_mask(search, (uint32_t)search->step, best, mask);
}

/* ---- The search -------------------------------------------------------------------------- */

void cop_layer_search_restart(struct cop_layer_search *search)
{
    search->step = search->idle = search->n_known = 0;
    search->is_over = false;
    search->best_score = -1;
    random_mask(search, 0, 0, search->best);
}

enum cop_status cop_layer_search_init(struct cop_layer_search *search, int32_t layers,
                                      double ratio, double goal, int32_t most_steps,
                                      struct cop_error *err)
{
    size_t bytes = (size_t)layers;
    int32_t n = (int32_t)lround(ratio * 2 * (layers - 2));
    *search = (struct cop_layer_search){.layers = layers,
                                        .n_skipped = n > 0 ? n : 1,
                                        .goal = goal,
                                        .most_steps = most_steps,
                                        .best = malloc(bytes),
                                        .trial = malloc(bytes),
                                        .known = malloc(COP_LAYER_SEARCH_MEMORY * bytes)};
    if (!search->best || !search->trial || !search->known) {
        return cop_fail(err, COP_ERR_MEMORY, "no memory to search among %d layers", layers);
    }
    cop_layer_search_restart(search);
    return COP_OK;
}

void cop_layer_search_release(struct cop_layer_search *search)
{
    free(search->best);
    free(search->trial);
    free(search->known);
    *search = (struct cop_layer_search){0};
}

bool cop_layer_search_next(struct cop_layer_search *search)
{
    search->is_over = search->is_over || search->step >= search->most_steps ||
                      search->idle >= MOST_IDLE || search->best_score > search->goal;
    if (search->is_over) {
        return false;
    }
    bool is_hopeful = search->step > 0 && search->step % HOPEFUL_EVERY == 0;
    if (is_hopeful) {
        hopeful_mask(search, search->trial);
    } else {
        random_mask(search, (uint32_t)search->step, 0, search->trial);
    }
    return true;
}

void cop_layer_search_told(struct cop_layer_search *search, double score)
{
    size_t bytes = (size_t)search->layers;
    int32_t place = search->n_known++ % COP_LAYER_SEARCH_MEMORY;
    memcpy(search->known + (size_t)place * bytes, search->trial, bytes);
    search->scores[place] = score;
    search->step++;
    search->idle++;
    if (score > search->best_score) {
        search->best_score = score;
        search->idle = 0;
        memcpy(search->best, search->trial, bytes);
    }
}
