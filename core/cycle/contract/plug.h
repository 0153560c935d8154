/* What every pluggable concept shares: a constant table with a name, documentation and typed
 * options; a registry of such tables; and a part, which is a table with its options filled in.
 *
 * The five contracts (proposer.h, builder.h, rule.h, length.h, observer.h) begin with a struct
 * cop_plug. Core never knows an algorithm: algorithms/register.c fills a registry, plug-ins
 * from shared objects add to it. */
#ifndef COP_CYCLE_PLUG_H
#define COP_CYCLE_PLUG_H

#include "core/base/error.h"
#include "core/base/option.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define COP_PLUG_ABI 9u /* changes when any contract changes; new slots go at the end */

enum cop_plug_kind {
    COP_PLUG_PROPOSER,
    COP_PLUG_BUILDER,
    COP_PLUG_RULE,
    COP_PLUG_LENGTH,
    COP_PLUG_OBSERVER,
    COP_PLUG_KINDS
};
/* "propose", "tree", "accept", "length", "observe": the tables of the Lua module. */
const char *cop_plug_kind_name(enum cop_plug_kind kind);

struct cop_plug {
    uint32_t abi; /* COP_PLUG_ABI */
    enum cop_plug_kind kind;
    const char *name;                 /* what scripts ask for: "token" */
    const char *help;                 /* what it does and the equation it computes */
    const char *source;               /* paper, authors, arXiv id; or "Coppice" */
    const char *synonyms;             /* what papers call it, or NULL */
    size_t state_size;                /* zeroed and owned by the core */
    const struct cop_option *options; /* optional; filled into the state by offset */
    /* optional: derives what the options imply and checks combinations; frees what it allocated
     * when it fails. What a user should know although it went well is a cop_warn */
    enum cop_status (*prepare)(void *state, struct cop_error *err);
    /* optional: frees what prepare (not the options) allocated; called once per prepare that
     * succeeded */
    void (*release)(void *state);
};

/* A table with its state: what a script's constructor returns. Reference-counted. */
struct cop_part {
    const struct cop_plug *plug;
    void *state;
    atomic_int references;
    bool is_prepared;
};
/* A part with default options, not yet prepared. NULL: no memory. */
struct cop_part *cop_part_new(const struct cop_plug *plug);
enum cop_status cop_part_prepare(struct cop_part *part, struct cop_error *err);
struct cop_part *cop_part_share(struct cop_part *part);
void cop_part_free(struct cop_part *part); /* drops one reference; NULL is fine */

struct cop_registry {
    const struct cop_plug **plugs; /* in order of registration */
    size_t count, capacity;
};
/* Borrows the table. Refuses another ABI version, a table without name or required slots, and a
 * (kind, name) that is taken; the registry is unchanged then. */
enum cop_status cop_registry_add(struct cop_registry *registry, const struct cop_plug *plug,
                                 struct cop_error *err);
const struct cop_plug *cop_registry_find(const struct cop_registry *registry,
                                         enum cop_plug_kind kind, const char *name);
void cop_registry_release(struct cop_registry *registry);

/* What a shared object exports under the symbol "coppice_plugin". */
struct cop_plugin {
    uint32_t abi;
    const char *name;
    const struct cop_plug *const *plugs; /* ends with NULL */
};

#endif
