/* The table of networks, opening one, and its loss. */
#include "algorithms/networks/choice.h"

#include <stdlib.h>
#include <string.h>

const struct cop_network_ops *cop_network_find(const char *name)
{
    static const struct cop_network_ops *const known[] = {
        &cop_network_medusa, &cop_network_hydra, &cop_network_mlp, &cop_network_eagle,
        &cop_network_model};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i]->name, name) == 0) {
            return known[i];
        }
    }
    return NULL;
}

enum cop_status cop_network_open(struct cop_network *network, const struct cop_network_ops *ops,
                                 const struct cop_train_target *target,
                                 struct cop_products *products,
                                 const struct cop_network_options *options,
                                 struct cop_error *err)
{
    *network = (struct cop_network){.ops = ops,
                                    .target = target,
                                    .products = products,
                                    .options = *options,
                                    .depths = options->depths,
                                    .inner = target->width};
    enum cop_status status = ops->open(network, err);
    if (status != COP_OK) {
        cop_network_close(network);
    }
    return status;
}

void cop_network_close(struct cop_network *network)
{
    if (network->ops) {
        network->ops->close(network);
        for (int32_t i = 0; i < COP_TRAIN_DEPTHS; i++) {
            free(network->out[i]);
            free(network->d_out[i]);
        }
        cop_parameters_release(&network->parameters);
        network->ops = NULL;
    }
}

enum cop_status cop_network_reserve(struct cop_network *network, int32_t n,
                                    struct cop_error *err)
{
    size_t bytes = (size_t)n * (size_t)network->inner * sizeof(cop_real);
    bool is_whole = true;
    for (int32_t i = 0; i < network->depths; i++) {
        network->out[i] = malloc(bytes);
        network->d_out[i] = malloc(bytes);
        is_whole &= network->out[i] && network->d_out[i];
    }
    return is_whole ? network->ops->reserve(network, n, err)
                    : cop_fail(err, COP_ERR_MEMORY, "no memory for batches of %d rows", n);
}

double cop_network_loss(struct cop_network *network, struct cop_choice *choice,
                        const struct cop_train_batch *batch, double depth_decay,
                        const uint32_t key[2], bool with_gradient)
{
    const struct cop_network_ops *ops = network->ops;
    struct cop_train_output output;
    double loss = 0, weight = 1;
    int32_t depths = 0; /* that have rows */
    if (with_gradient) {
        cop_parameters_clear(&network->parameters, network->products);
    }
    ops->output(network, 0, &output);
    cop_choice_draw(choice, batch, output.row_of, output.rows, key, network->step);
    for (int32_t i = 0; i < network->depths; i++, weight *= depth_decay) {
        const struct cop_train_batch *of_depth =
            ops->is_unrolled ? cop_train_rows(batch, i) : batch;
        if (of_depth->n == 0) {
            break; /* nor have deeper ones any */
        }
        depths = i + 1;
        ops->forward(network, batch, i, network->out[i]);
        ops->output(network, i, &output);
        const struct cop_choice_rows rows = {.batch = of_depth,
                                             .shift = i + ops->label_shift,
                                             .weight = weight,
                                             .x = network->out[i],
                                             .d_x = with_gradient ? network->d_out[i] : NULL};
        loss += cop_choice_loss(choice, network->products, &output, &rows);
        loss += ops->extra ? ops->extra(network, batch, i, rows.d_x) : 0;
    }
    for (int32_t i = depths - 1; with_gradient && i >= 0; i--) {
        ops->backward(network, batch, i, network->d_out[i]);
    }
    return loss;
}
