/* Subspace iteration on the second moments of a sample of rows. */
#include "algorithms/networks/factor.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 4096, ROUNDS = 8 };

static double *moments_of(const cop_real *table, int32_t rows, int32_t width)
{
    size_t w = (size_t)width;
    int32_t step = rows > SAMPLE ? rows / SAMPLE : 1;
    double *moments = calloc(w * w, sizeof *moments);
    for (int32_t r = 0; moments && r < rows; r += step) {
        const cop_real *x = table + (size_t)r * w;
        for (size_t i = 0; i < w; i++) {
            double at = (double)x[i];
            for (size_t j = 0; j < w; j++) {
                moments[i * w + j] += at * (double)x[j];
            }
        }
    }
    return moments;
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Gram and Schmidt, twice, so that rounding leaves nothing behind. */
static void make_orthonormal(double *rows, size_t d, size_t width)
{
    for (size_t i = 0; i < d; i++) {
        double *x = rows + i * width;
        for (size_t k = 0; k < 2 * i; k++) {
            const double *y = rows + k % i * width;
            double along = dot(x, y, width);
            for (size_t j = 0; j < width; j++) {
                x[j] -= along * y[j];
            }
        }
        double size = sqrt(dot(x, x, width));
        for (size_t j = 0; j < width; j++) {
            x[j] = size > 1e-300 ? x[j] / size : 0;
        }
    }
}

bool cop_factor_axes(const cop_real *table, int32_t rows, int32_t width, int32_t d,
                     cop_real *axes)
{
    size_t w = (size_t)width, n = (size_t)d;
    double *moments = moments_of(table, rows, width);
    double *now = calloc(n * w, sizeof *now), *next = calloc(n * w, sizeof *next);
    bool is_whole = moments && now && next;
    for (size_t i = 0; is_whole && i < n * w; i++) { /* any start that favours no direction */
        now[i] = sin(1.0 + 12.9898 * (double)i) + (i / w == i % w ? 1 : 0);
    }
    for (int round = 0; is_whole && round < ROUNDS; round++) {
        make_orthonormal(now, n, w);
        memset(next, 0, n * w * sizeof *next);
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < w; k++) {
                double at = now[i * w + k];
                for (size_t j = 0; j < w; j++) {
                    next[i * w + j] += at * moments[k * w + j];
                }
            }
        }
        double *held = now;
        now = next;
        next = held;
    }
    if (is_whole) {
        make_orthonormal(now, n, w);
    }
    for (size_t i = 0; is_whole && i < n * w; i++) {
        axes[i] = (cop_real)now[i];
    }
    free(moments);
    free(now);
    free(next);
    return is_whole;
}

void cop_factor_project(const cop_real *table, int32_t rows, int32_t width,
                        const cop_real *axes, int32_t d, double size, cop_real *out)
{
    size_t w = (size_t)width, n = (size_t)d, count = (size_t)rows * n;
    double squares = 0;
    for (size_t r = 0; r < (size_t)rows; r++) {
        for (size_t i = 0; i < n; i++) {
            cop_real sum = 0;
            for (size_t k = 0; k < w; k++) {
                sum += table[r * w + k] * axes[i * w + k];
            }
            out[r * n + i] = sum;
            squares += (double)sum * (double)sum;
        }
    }
    double now = sqrt(squares / (double)count);
    for (size_t i = 0; now > 0 && i < count; i++) {
        out[i] *= (cop_real)(size / now);
    }
}
