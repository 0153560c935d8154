/* Maximal flow in doubles: how much of one law can be carried over to another along allowed
 * pairs.
 *
 *     struct cop_flow flow;
 *     cop_flow_init(&flow, 4, 4, &err);      source 0, sink 3
 *     cop_flow_add(&flow, 0, 1, .5); …       edges 0, 1, 2, …
 *     double value = cop_flow_solve(&flow, 0, 3);
 *     cop_flow_on(&flow, edge), cop_flow_is_cut(&flow, node)
 *     cop_flow_release(&flow);
 *
 * Dinic's algorithm: shortest augmenting paths, phase by phase. The smallest edge of a path is
 * emptied exactly (x - x), so no capacity gets negative; what is left of others by rounding
 * (below 1e-17) counts as nothing. */
#ifndef COP_CYCLE_FLOW_H
#define COP_CYCLE_FLOW_H

#include "core/base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct cop_flow_arc { /* arc 2 e is edge e, arc 2 e + 1 its reverse */
    int32_t to, next; /* next arc out of the same node, -1: none */
    double left;      /* capacity that is left; on a reverse arc: the flow */
};
struct cop_flow {
    int32_t n_nodes, n_edges, edges_capacity;
    struct cop_flow_arc *arcs; /* [2 edges_capacity] */
    int32_t *first;            /* [n_nodes] of the arcs out of a node */
    int32_t *level;            /* [n_nodes] distance from the source, -1: cut off */
    int32_t *at;               /* [n_nodes] arc to try next */
    int32_t *path;             /* [n_nodes] queue, then arcs of the path */
};

/* Room for that many nodes and edges; nothing below fails. */
enum cop_status cop_flow_init(struct cop_flow *flow, int32_t n_nodes, int32_t n_edges,
                              struct cop_error *err);
void cop_flow_release(struct cop_flow *flow);
/* No edges any more; keeps the room. */
void cop_flow_reset(struct cop_flow *flow, int32_t n_nodes);
/* Number of the new edge. Capacities are at least 0, INFINITY is fine. */
int32_t cop_flow_add(struct cop_flow *flow, int32_t from, int32_t to, double capacity);
/* The value; every path has a finite edge. */
double cop_flow_solve(struct cop_flow *flow, int32_t source, int32_t sink);
double cop_flow_on(const struct cop_flow *flow, int32_t edge);
/* After solve: whether the node lies on the source's side of a minimal cut. */
bool cop_flow_is_cut(const struct cop_flow *flow, int32_t node);

#endif
