/* Dinic's algorithm without recursion. */
#include "core/cycle/law/flow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Less than this is rounding: capacities are probabilities. */
static const double DUST = 1e-17;

enum cop_status cop_flow_init(struct cop_flow *flow, int32_t n_nodes, int32_t n_edges,
                              struct cop_error *err)
{
    *flow = (struct cop_flow){.edges_capacity = n_edges};
    size_t nodes = (size_t)n_nodes + 1;
    flow->arcs = malloc(2 * ((size_t)n_edges + 1) * sizeof *flow->arcs);
    flow->first = malloc(nodes * sizeof *flow->first);
    flow->level = malloc(nodes * sizeof *flow->level);
    flow->at = malloc(nodes * sizeof *flow->at);
    flow->path = malloc(nodes * sizeof *flow->path);
    if (!flow->arcs || !flow->first || !flow->level || !flow->at || !flow->path) {
        cop_flow_release(flow);
        return cop_fail(err, COP_ERR_MEMORY, "no memory for a flow of %d nodes and %d edges",
                        (int)n_nodes, (int)n_edges);
    }
    cop_flow_reset(flow, n_nodes);
    return COP_OK;
}

void cop_flow_release(struct cop_flow *flow)
{
    free(flow->arcs);
    free(flow->first);
    free(flow->level);
    free(flow->at);
    free(flow->path);
    *flow = (struct cop_flow){0};
}

void cop_flow_reset(struct cop_flow *flow, int32_t n_nodes)
{
    flow->n_nodes = n_nodes;
    flow->n_edges = 0;
    for (int32_t node = 0; node < n_nodes; node++) {
        flow->first[node] = -1;
    }
}

static void add_arc(struct cop_flow *flow, int32_t arc, int32_t from, int32_t to,
                    double capacity)
{
    flow->arcs[arc] =
        (struct cop_flow_arc){.to = to, .next = flow->first[from], .left = capacity};
    flow->first[from] = arc;
}

int32_t cop_flow_add(struct cop_flow *flow, int32_t from, int32_t to, double capacity)
{
    int32_t edge = flow->n_edges++;
    add_arc(flow, 2 * edge, from, to, capacity);
    add_arc(flow, 2 * edge + 1, to, from, 0);
    return edge;
}

/* Distances from the source over arcs with something left; whether the sink is reached. */
static bool find_levels(struct cop_flow *flow, int32_t source, int32_t sink)
{
    int32_t *queue = flow->path, n = 0;
    memset(flow->level, 0xff, (size_t)flow->n_nodes * sizeof *flow->level);
    flow->level[source] = 0;
    queue[n++] = source;
    for (int32_t i = 0; i < n; i++) {
        for (int32_t arc = flow->first[queue[i]]; arc >= 0; arc = flow->arcs[arc].next) {
            int32_t to = flow->arcs[arc].to;
            if (flow->arcs[arc].left > DUST && flow->level[to] < 0) {
                flow->level[to] = flow->level[queue[i]] + 1;
                queue[n++] = to;
            }
        }
    }
    return flow->level[sink] >= 0;
}

/* Pushes what the path can take; returns it, and in *n the length of the path before its first
 * emptied arc. */
static double push(struct cop_flow *flow, int32_t *n)
{
    double least = (double)INFINITY;
    for (int32_t i = 0; i < *n; i++) {
        least = fmin(least, flow->arcs[flow->path[i]].left);
    }
    int32_t kept = *n;
    for (int32_t i = *n - 1; i >= 0; i--) {
        int32_t arc = flow->path[i];
        flow->arcs[arc].left -= least;
        flow->arcs[arc ^ 1].left += least;
        kept = flow->arcs[arc].left > DUST ? kept : i;
    }
    *n = kept;
    return least;
}

/* A blocking flow: every shortest path gets an emptied arc. */
static double fill_levels(struct cop_flow *flow, int32_t source, int32_t sink)
{
    double total = 0;
    int32_t n = 0, node = source;
    memcpy(flow->at, flow->first, (size_t)flow->n_nodes * sizeof *flow->at);
    for (;;) {
        if (node == sink) {
            total += push(flow, &n);
            node = n > 0 ? flow->arcs[flow->path[n - 1]].to : source;
        }
        int32_t arc = flow->at[node];
        if (arc < 0) { /* a dead end */
            if (n == 0) {
                return total;
            }
            flow->level[node] = -1;
            node = flow->arcs[flow->path[--n] ^ 1].to;
        } else if (flow->arcs[arc].left > DUST &&
                   flow->level[flow->arcs[arc].to] == flow->level[node] + 1) {
            flow->path[n++] = arc;
            node = flow->arcs[arc].to;
        } else {
            flow->at[node] = flow->arcs[arc].next;
        }
    }
}

double cop_flow_solve(struct cop_flow *flow, int32_t source, int32_t sink)
{
    double value = 0;
    while (find_levels(flow, source, sink)) {
        value += fill_levels(flow, source, sink);
    }
    return value;
}

double cop_flow_on(const struct cop_flow *flow, int32_t edge)
{
    return flow->arcs[2 * edge + 1].left;
}

bool cop_flow_is_cut(const struct cop_flow *flow, int32_t node)
{
    return flow->level[node] >= 0;
}
