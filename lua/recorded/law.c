/* One recorded row as a law. */
#include "lua/recorded/recorded.h"

#include "kernels/ops.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* `slack`: how far a row of probabilities may sum from 1 by the rounding of its entries. */
static const struct {
    size_t bytes;
    double slack;
} types[] = {{2, 1e-2}, {2, 2e-2}, {4, 1e-4}, {8, 1e-9}};

static double number_at(const void *data, enum cop_number_type type, int64_t i)
{
    const char *at = (const char *)data + (size_t)i * types[type].bytes;
    if (type == COP_NUMBER_F64) {
        double wide;
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (type == COP_NUMBER_F32) {
        float single;
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    uint16_t half;
    memcpy(&half, at, sizeof half);
    return (double)(type == COP_NUMBER_F16 ? cop_f16_to_f32(half) : cop_bf16_to_f32(half));
}

struct place { /* of a row, for messages */
    const struct cop_recorded *recorded;
    const struct cop_recorded_side *side;
    int64_t row;
};

static enum cop_status fail_row(const struct place *at, const char *text, int64_t token,
                                double value, struct cop_error *err)
{
    return cop_fail(err, COP_ERR_FORMAT, "%s: row %d of the %s: %s %d is %f",
                    cop_safetensors_path(at->recorded->file), (int)at->row, at->side->name,
                    text, (int)token, value);
}

/* Logits may be -infinity, a token that cannot come; probabilities are finite. */
static enum cop_status read_all(const struct place *at, double *out, struct cop_error *err)
{
    const struct cop_recorded_side *side = at->side;
    double sum = 0, best = -HUGE_VAL;
    for (int64_t i = 0; i < side->width; i++) {
        out[i] = number_at(side->tensor->data, side->type, at->row * side->width + i);
        if (!(out[i] <= DBL_MAX) || (!side->are_logits && out[i] < 0)) {
            return fail_row(at, "entry of token", i, out[i], err);
        }
        sum += out[i];
        best = fmax(best, out[i]);
    }
    if (!side->are_logits && !(fabs(sum - 1) <= types[side->type].slack)) {
        return cop_fail(
            err, COP_ERR_FORMAT, "%s: row %d of the %s: probabilities sum to %f, not to 1",
            cop_safetensors_path(at->recorded->file), (int)at->row, side->name, sum);
    }
    if (!(best >= -DBL_MAX)) {
        return cop_fail(err, COP_ERR_FORMAT, "%s: row %d of the %s has no token",
                        cop_safetensors_path(at->recorded->file), (int)at->row, side->name);
    }
    return COP_OK;
}

/* The law at a temperature above 0: probabilities are logits of themselves. */
static void make_law(const struct cop_recorded_side *side, double temperature, double *row)
{
    double best = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < side->width; i++) {
        best = fmax(best, row[i]);
    }
    for (int64_t i = 0; i < side->width; i++) {
        if (side->are_logits) {
            row[i] = exp((row[i] - best) / temperature);
        } else if (temperature != 1) {
            row[i] = pow(row[i] / best, 1 / temperature);
        }
        sum += row[i];
    }
    for (int64_t i = 0; i < side->width; i++) {
        row[i] /= sum;
    }
}

/* The k best as they are, the rest spread over all others. */
static enum cop_status spread(const struct place *at, double *law, double *rest,
                              struct cop_error *err)
{
    const struct cop_recorded_side *side = at->side;
    int64_t vocab = at->recorded->vocab, n_listed = 0;
    double sum = 0;
    *rest = number_at(side->rest.tensor->data, COP_NUMBER_F32, at->row);
    if (!(*rest >= 0 && *rest <= 1)) {
        return fail_row(at, "the rest beside the best", side->width, *rest, err);
    }
    for (int64_t i = 0; i < vocab; i++) {
        law[i] = -1;
    }
    for (int64_t k = 0; k < side->width; k++) {
        int64_t id = cop_recorded_integer(&side->ids, at->row * side->width + k);
        double value = number_at(side->tensor->data, side->type, at->row * side->width + k);
        if (id >= 0 && (!(value <= 0.1) || law[id] >= 0)) {
            return fail_row(at, "log-probability of token", id, value, err);
        }
        if (id >= 0) {
            law[id] = exp(value);
            sum += law[id];
            n_listed++;
        }
    }
    *rest = n_listed < vocab ? *rest : 0;
    if (!(sum > 0) || !(fabs(sum + *rest - 1) <= types[side->type].slack)) {
        return fail_row(at, "the sum of the best and the rest, of", side->width, sum + *rest,
                        err);
    }
    double total = sum + *rest;
    for (int64_t i = 0; i < vocab; i++) {
        law[i] = law[i] >= 0 ? law[i] / total : *rest / total / (double)(vocab - n_listed);
    }
    return COP_OK;
}

static int64_t row_of(const struct cop_recorded_side *side, int64_t entry)
{
    return side->index.tensor ? cop_recorded_integer(&side->index, entry) : entry;
}

bool cop_recorded_lists(const struct cop_recorded *recorded, int which, int64_t entry,
                        int64_t token)
{
    const struct cop_recorded_side *side = &recorded->sides[which];
    int64_t row = row_of(side, entry);
    bool is_there = row >= 0 && !side->ids.tensor;
    for (int64_t k = 0; row >= 0 && side->ids.tensor && k < side->width && !is_there; k++) {
        is_there = cop_recorded_integer(&side->ids, row * side->width + k) == token;
    }
    return is_there;
}

enum cop_status cop_recorded_law(const struct cop_recorded *recorded, int which, int64_t entry,
                                 double temperature, double *law, double *rest, bool *is_there,
                                 struct cop_error *err)
{
    const struct cop_recorded_side *side = &recorded->sides[which];
    struct place at = {recorded, side, row_of(side, entry)};
    *rest = 0;
    *is_there = at.row >= 0;
    if (!*is_there) {
        return COP_OK;
    }
    if (side->ids.tensor) {
        return spread(&at, law, rest, err);
    }
    enum cop_status status = read_all(&at, law, err);
    if (status == COP_OK) {
        make_law(side, temperature, law);
    }
    return status;
}
