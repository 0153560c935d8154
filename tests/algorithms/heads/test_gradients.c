/* Every gradient of training against finite differences, in double: the sources of
 * algorithms/networks, compiled for double (see the Makefile). */
#include "algorithms/networks/choice.h"
#include "tests/support/tiny_model.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 8, VOCAB = 13, LABELS = 3, ROWS = 9 };

static double random_at(uint64_t seed, uint64_t index)
{
    return 2 * tiny_uniform(seed, index) - 1;
}

static void fill(cop_real *out, size_t count, uint64_t seed, double scale)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = scale * random_at(seed, i);
    }
}

static cop_real lm_head[VOCAB * WIDTH], embedding[VOCAB * WIDTH];
static cop_real states[COP_TRAIN_TAPS][ROWS * WIDTH], embedded[ROWS * WIDTH];
static cop_token tokens[ROWS], label_ids[ROWS * LABELS];
static float label_probs[ROWS * LABELS], weights[ROWS];
static const int32_t starts[] = {0, 5}, lengths[] = {5, 4};
static struct cop_train_target target = {.width = WIDTH,
                                         .vocab = VOCAB,
                                         .layers = 6,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .head_dim = 4,
                                         .ffn = 10,
                                         .trained_context = 64,
                                         .norm_epsilon = 1e-5,
                                         .rope_theta = 100};
static struct cop_train_batch batch = {.n_windows = 2,
                                       .n = ROWS,
                                       .starts = starts,
                                       .lengths = lengths,
                                       .tokens = tokens,
                                       .embedded = embedded,
                                       .n_labels = LABELS,
                                       .label_ids = label_ids,
                                       .label_probs = label_probs,
                                       .weights = weights};

/* Rows 2 … 4 of the first window and 1 … 3 of the second. */
static const int32_t deep_starts[] = {0, 3}, froms[] = {2, 1};
static const int32_t deep_lengths[] = {3, 3};
static cop_real deep_embedded[6 * WIDTH];
static cop_token deep_label_ids[6 * LABELS];
static float deep_label_probs[6 * LABELS], deep_weights[6];
static struct cop_train_batch deep = {.n_windows = 2,
                                      .n = 6,
                                      .starts = deep_starts,
                                      .lengths = deep_lengths,
                                      .embedded = deep_embedded,
                                      .n_labels = LABELS,
                                      .label_ids = deep_label_ids,
                                      .label_probs = deep_label_probs,
                                      .weights = deep_weights};

static void make_deep(void)
{
    for (size_t i = 0; i < 6; i++) {
        size_t at = i < 3 ? i + 2 : i + 3;
        memcpy(deep_embedded + i * WIDTH, embedded + at * WIDTH, WIDTH * sizeof *embedded);
        memcpy(deep_label_ids + i * LABELS, label_ids + at * LABELS,
               LABELS * sizeof *label_ids);
        memcpy(deep_label_probs + i * LABELS, label_probs + at * LABELS,
               LABELS * sizeof *label_probs);
        deep_weights[i] = weights[at];
    }
}

static void make_batch(void)
{
    fill(lm_head, VOCAB * WIDTH, 1, 1);
    fill(embedding, VOCAB * WIDTH, 2, 1);
    for (uint64_t i = 0; i < COP_TRAIN_TAPS; i++) {
        fill(states[i], ROWS * WIDTH, 3 + i, 1);
        batch.states[i] = states[i];
    }
    for (uint64_t i = 0; i < ROWS; i++) {
        tokens[i] = (cop_token)(tiny_uniform(20, i) * VOCAB);
        weights[i] = i % 3 == 0 ? 0.3f : 1;
        for (uint64_t k = 0; k < LABELS; k++) {
            label_ids[i * LABELS + k] = (cop_token)((3 * i + 5 * k) % VOCAB);
            label_probs[i * LABELS + k] = k == 0 ? 0.6f : 0.2f;
        }
        for (uint64_t k = 0; k < WIDTH; k++) {
            embedded[i * WIDTH + k] = embedding[(size_t)tokens[i] * WIDTH + k];
        }
    }
    make_deep();
    target.lm_head = lm_head;
    target.embedding = embedding;
}

struct trial {
    struct cop_network network;
    struct cop_products products;
    struct cop_choice choice;
};

static const uint32_t key[2] = {11, 12};

static double loss_of(struct trial *trial, bool with_gradient)
{
    return cop_network_loss(&trial->network, &trial->choice, &batch, 0.8, key, with_gradient);
}

/* Central differences of every entry of every parameter. */
static void check_gradients(const char *head, const struct cop_network_options *options,
                            int32_t samples)
{
    struct trial t = {0};
    struct cop_error err = {0};
    make_batch();
    const struct cop_network_ops *ops = cop_network_find(head);
    cr_assert(ops != NULL, "%s is known", head);
    cr_assert_eq(cop_network_open(&t.network, ops, &target, &t.products, options, &err), COP_OK,
                 "%s", err.text);
    cr_assert_eq(cop_network_reserve(&t.network, ROWS, &err), COP_OK, "%s", err.text);
    cr_assert_eq(cop_choice_init(&t.choice, VOCAB, samples, ROWS, LABELS, &err), COP_OK);
    struct cop_parameters *list = &t.network.parameters;
    for (int32_t i = 0; i < list->n; i++) { /* away from zeros and ones that initialise them */
        for (size_t k = 0; k < list->list[i]->count; k++) {
            list->list[i]->value[k] += 0.4 * random_at(100 + (uint64_t)i, k);
        }
    }
    double at_all = loss_of(&t, true), largest = 0;
    cr_assert(isfinite(at_all) && at_all > 0);
    for (int32_t i = 0; i < list->n; i++) {
        struct cop_parameter *p = list->list[i];
        for (size_t k = 0; k < p->count; k++) {
            double step = 1e-5, kept = p->value[k];
            p->value[k] = kept + step;
            double above = loss_of(&t, false);
            p->value[k] = kept - step;
            double below = loss_of(&t, false);
            p->value[k] = kept;
            double slope = (above - below) / (2 * step);
            largest = fmax(largest, fabs(slope));
            /* curvature and rounding: about 1e-10 each */
            cr_expect(fabs(slope - p->gradient[k]) < 1e-7 * (1 + fabs(slope)),
                      "%s, %s[%zu]: %.12g, by differences %.12g", head, p->name, k,
                      p->gradient[k], slope);
        }
    }
    cr_expect(largest > 1e-3, "%s: the gradient is no zero", head);
    cop_choice_release(&t.choice);
    cop_network_close(&t.network);
}

Test(gradients, medusa)
{
    check_gradients("medusa", &(struct cop_network_options){.depths = 2, .blocks = 1}, 100);
    check_gradients("medusa", &(struct cop_network_options){.depths = 3, .blocks = 2}, 2);
}

Test(gradients, hydra)
{
    check_gradients("hydra", &(struct cop_network_options){.depths = 2, .blocks = 1}, 100);
    check_gradients("hydra", &(struct cop_network_options){.depths = 3, .blocks = 2}, 3);
}

Test(gradients, mlp)
{
    check_gradients(
        "mlp",
        &(struct cop_network_options){.depths = 3, .inner = 4, .tied = true, .scaled = true},
        100);
    check_gradients("mlp", &(struct cop_network_options){.depths = 2, .inner = 12}, 3);
}

Test(gradients, model)
{
    check_gradients(
        "model",
        &(struct cop_network_options){.depths = 1, .blocks = 2, .inner = 8, .window = ROWS},
        100);
    check_gradients(
        "model",
        &(struct cop_network_options){.depths = 1, .blocks = 1, .inner = 6, .window = ROWS}, 2);
}

Test(gradients, eagle_1)
{
    check_gradients(
        "eagle",
        &(struct cop_network_options){
            .depths = 1, .version = 1, .window = ROWS, .noise = 0.2, .feature_weight = 1},
        3);
    check_gradients("eagle",
                    &(struct cop_network_options){
                        .depths = 3, .version = 1, .window = ROWS, .feature_weight = 10},
                    100);
}

Test(gradients, eagle_3)
{
    static const cop_token ids[] = {0, 2, 3, 5, 6, 8, 9, 11};
    check_gradients(
        "eagle", &(struct cop_network_options){.depths = 1, .version = 3, .window = ROWS}, 100);
    check_gradients("eagle",
                    &(struct cop_network_options){
                        .depths = 3, .version = 3, .window = ROWS, .ids = ids, .n_ids = 8},
                    1);
    check_gradients("eagle",
                    &(struct cop_network_options){
                        .depths = 2, .version = 3, .window = ROWS, .shares_lm_head = true},
                    100);
}

/* Unrolled from the end of each prompt on. */
Test(gradients, eagle_on_answers_alone)
{
    batch.deep = &deep;
    batch.froms = froms;
    for (int32_t version = 1; version <= 3; version += 2) {
        check_gradients(
            "eagle",
            &(struct cop_network_options){
                .depths = 3, .version = version, .window = ROWS, .feature_weight = 10},
            100);
    }
}

/* Where the rows left out would weigh nothing anyway, leaving them out changes nothing. */
static void check_answers_alone(int32_t version)
{
    const struct cop_network_options options = {
        .depths = 2, .version = version, .window = ROWS, .feature_weight = 10};
    struct trial t = {0};
    make_batch();
    batch.deep = NULL;
    /* labels of depth 1 of rows 0 and 1, and of row 0 of the second window */
    weights[2] = weights[3] = weights[7] = 0;
    make_deep();
    cr_assert_eq(
        cop_network_open(&t.network, &cop_network_eagle, &target, &t.products, &options, NULL),
        COP_OK);
    cr_assert_eq(cop_network_reserve(&t.network, ROWS, NULL), COP_OK);
    cr_assert_eq(cop_choice_init(&t.choice, VOCAB, 100, ROWS, LABELS, NULL), COP_OK);
    const struct cop_parameters *list = &t.network.parameters;
    double whole = loss_of(&t, true), kept[COP_PARAMETERS_LIMIT];
    for (int32_t i = 0; i < list->n; i++) {
        kept[i] = list->list[i]->gradient[3];
    }
    batch.deep = &deep;
    batch.froms = froms;
    cr_expect_float_eq(loss_of(&t, true), whole, 1e-12);
    for (int32_t i = 0; i < list->n; i++) {
        cr_expect_float_eq(list->list[i]->gradient[3], kept[i], 1e-12, "%s",
                           list->list[i]->name);
    }
    cop_choice_release(&t.choice);
    cop_network_close(&t.network);
}

Test(gradients, answers_alone_are_the_rows_that_weigh)
{
    check_answers_alone(1);
    check_answers_alone(3);
}
