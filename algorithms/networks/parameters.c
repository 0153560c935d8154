/* Tensors that are trained, and the optimiser. */
#include "algorithms/networks/parameters.h"
#include "core/base/hash.h"
#include "core/base/philox.h"
#include "kernels/large.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cop_parameter *cop_parameters_add(struct cop_parameters *parameters, int32_t rows,
                                         int32_t cols, const char *name, ...)
{
    size_t count = (size_t)(rows > 0 ? rows : 1) * (size_t)cols;
    struct cop_parameter *parameter =
        parameters->n < COP_PARAMETERS_LIMIT ? calloc(1, sizeof *parameter) : NULL;
    cop_real *block = parameter ? cop_large_new(4 * count * sizeof *block) : NULL;
    if (!block) {
        free(parameter);
        return NULL;
    }
    memset(block, 0, 4 * count * sizeof *block);
    va_list args;
    va_start(args, name);
    (void)vsnprintf(parameter->name, sizeof parameter->name, name, args);
    va_end(args);
    parameter->rows = rows;
    parameter->cols = cols;
    parameter->count = count;
    parameter->value = block;
    parameter->gradient = block + count;
    parameter->first = block + 2 * count;
    parameter->second = block + 3 * count;
    parameters->list[parameters->n++] = parameter;
    return parameter;
}

void cop_parameters_release(struct cop_parameters *parameters)
{
    for (int32_t i = 0; i < parameters->n; i++) {
        free(parameters->list[i]->value);
        free(parameters->list[i]);
    }
    parameters->n = 0;
}

size_t cop_parameters_count(const struct cop_parameters *parameters)
{
    size_t count = 0;
    for (int32_t i = 0; i < parameters->n; i++) {
        count += parameters->list[i]->count;
    }
    return count;
}

/* Box and Muller, two numbers of a block of four words. */
void cop_parameter_normal(struct cop_parameter *parameter, double scale, uint64_t seed)
{
    uint64_t name = cop_hash_bytes(parameter->name, strlen(parameter->name), seed);
    const uint32_t key[2] = {(uint32_t)name, (uint32_t)(name >> 32)};
    for (size_t i = 0; i < parameter->count; i += 2) {
        const uint32_t counter[4] = {(uint32_t)(i / 2), 0, 0, 0};
        uint32_t words[4];
        cop_philox(counter, key, 10, words);
        double radius = sqrt(-2 * cop_log(1 - cop_uniform(words[0], words[1])));
        double angle = 6.283185307179586 * cop_uniform(words[2], words[3]);
        parameter->value[i] = (cop_real)(scale * radius * cos(angle));
        if (i + 1 < parameter->count) {
            parameter->value[i + 1] = (cop_real)(scale * radius * sin(angle));
        }
    }
}

void cop_parameter_fill(struct cop_parameter *parameter, double value)
{
    for (size_t i = 0; i < parameter->count; i++) {
        parameter->value[i] = (cop_real)value;
    }
}

#ifdef COP_TRAIN_DOUBLE

struct cop_train_rates {
    cop_real scale, beta1, beta2, rate, root, epsilon, decay;
};

static double sum_squares(const cop_real *values, int32_t count)
{
    double sum = 0;
    for (int32_t k = 0; k < count; k++) {
        sum += values[k] * values[k];
    }
    return sum;
}

static void step_row(const struct cop_train_rates *r, const cop_real *gradient, int32_t count,
                     cop_real *value, cop_real *first, cop_real *second)
{
    for (int32_t k = 0; k < count; k++) {
        cop_real g = gradient[k] * r->scale;
        first[k] = r->beta1 * first[k] + (1 - r->beta1) * g;
        second[k] = r->beta2 * second[k] + (1 - r->beta2) * g * g;
        cop_real size = cop_real_sqrt(second[k]) * r->root + r->epsilon;
        value[k] -= r->rate * first[k] / size + r->decay * value[k];
    }
}

#else
#define cop_train_rates cop_adamw_rates
#define sum_squares     cop_squares
#define step_row        cop_adamw_row
#endif

static void clear_part(void *arg, size_t first, size_t end)
{
    struct cop_parameter *parameter = arg;
    memset(parameter->gradient + first, 0, (end - first) * sizeof *parameter->gradient);
}

void cop_parameters_clear(struct cop_parameters *parameters, struct cop_products *products)
{
    for (int32_t i = 0; i < parameters->n; i++) {
        cop_products_spread(products, parameters->list[i]->count, clear_part,
                            parameters->list[i]);
    }
}

enum { SLICES = 64 /* of a tensor, for sums of one order */ };

struct squares {
    const cop_real *values;
    size_t count;
    double sums[SLICES];
};

static void sum_slices(void *arg, size_t first, size_t end)
{
    struct squares *squares = arg;
    for (size_t slice = first; slice < end; slice++) {
        size_t stop = squares->count * (slice + 1) / SLICES;
        squares->sums[slice] = 0;
        for (size_t k = squares->count * slice / SLICES; k < stop; k += COP_TRAIN_STRETCH) {
            squares->sums[slice] +=
                sum_squares(squares->values + k, cop_train_stretch(k, stop));
        }
    }
}

double cop_parameters_norm(const struct cop_parameters *parameters,
                           struct cop_products *products)
{
    double sum = 0;
    for (int32_t i = 0; i < parameters->n; i++) {
        const struct cop_parameter *parameter = parameters->list[i];
        struct squares squares = {.values = parameter->gradient, .count = parameter->count};
        cop_products_spread(products, SLICES, sum_slices, &squares);
        for (int32_t slice = 0; slice < SLICES; slice++) {
            sum += squares.sums[slice];
        }
    }
    return sqrt(sum);
}

struct stepping {
    struct cop_parameter *parameter;
    struct cop_train_rates rates; /* of one step, the biases of young moments taken out */
};

static void step_part(void *arg, size_t first, size_t end)
{
    const struct stepping *stepping = arg;
    struct cop_parameter *parameter = stepping->parameter;
    struct cop_train_rates rates = stepping->rates;
    rates.decay = parameter->rows > 0 ? rates.decay : 0;
    for (size_t k = first; k < end; k += COP_TRAIN_STRETCH) {
        step_row(&rates, parameter->gradient + k, cop_train_stretch(k, end),
                 parameter->value + k, parameter->first + k, parameter->second + k);
    }
}

void cop_parameters_step(struct cop_parameters *parameters, struct cop_products *products,
                         const struct cop_adamw *adamw, double norm, int64_t step)
{
    bool is_long = adamw->clip > 0 && norm > adamw->clip;
    double young1 = 1 - pow(adamw->beta1, (double)step);
    double young2 = 1 - pow(adamw->beta2, (double)step);
    struct stepping stepping = {.rates = {.scale = (cop_real)(is_long ? adamw->clip / norm : 1),
                                          .beta1 = (cop_real)adamw->beta1,
                                          .beta2 = (cop_real)adamw->beta2,
                                          .rate = (cop_real)(adamw->rate / young1),
                                          .root = (cop_real)(1 / sqrt(young2)),
                                          .epsilon = (cop_real)adamw->epsilon,
                                          .decay = (cop_real)(adamw->rate * adamw->decay)}};
    for (int32_t i = 0; i < parameters->n; i++) {
        stepping.parameter = parameters->list[i];
        cop_products_spread(products, stepping.parameter->count, step_part, &stepping);
    }
}
