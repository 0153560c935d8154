/* Registries of pluggable tables, and parts: a table with its options filled in. */
#include "core/cycle/contract/plug.h"

#include "core/cycle/contract/builder.h"
#include "core/cycle/contract/length.h"
#include "core/cycle/contract/observer.h"
#include "core/cycle/contract/proposer.h"
#include "core/cycle/contract/rule.h"

#include <stdlib.h>
#include <string.h>

const char *cop_plug_kind_name(enum cop_plug_kind kind)
{
    switch (kind) {
    case COP_PLUG_PROPOSER: return "propose";
    case COP_PLUG_BUILDER: return "tree";
    case COP_PLUG_RULE: return "accept";
    case COP_PLUG_LENGTH: return "length";
    case COP_PLUG_OBSERVER: return "observe";
    case COP_PLUG_KINDS: break;
    }
    return "unknown";
}

/* ---- Registry -------------------------------------------------------------------------------
 */

/* The name of a required slot that is empty, or NULL. */
static const char *missing_slot(const struct cop_plug *plug)
{
    switch (plug->kind) {
    case COP_PLUG_PROPOSER: {
        const struct cop_proposer_ops *ops = (const struct cop_proposer_ops *)plug;
        return !ops->own_depth ? "own_depth"
               : !ops->begin   ? "begin"
               : !ops->expand  ? "expand"
               : !ops->observe ? "observe"
               : !ops->end     ? "end"
                               : NULL;
    }
    case COP_PLUG_BUILDER: {
        const struct cop_builder_ops *ops = (const struct cop_builder_ops *)plug;
        return !ops->draws   ? "draws"
               : !ops->shape ? "shape"
               : !ops->depth ? "depth"
               : !ops->nodes ? "nodes"
               : !ops->grow  ? "grow"
                             : NULL;
    }
    case COP_PLUG_RULE: {
        const struct cop_rule_ops *ops = (const struct cop_rule_ops *)plug;
        return !ops->lossless_for ? "lossless_for" : !ops->verify ? "verify" : NULL;
    }
    case COP_PLUG_LENGTH: return ((const struct cop_length_ops *)plug)->more ? NULL : "more";
    case COP_PLUG_OBSERVER:
        return ((const struct cop_observer_ops *)plug)->cycle ? NULL : "cycle";
    case COP_PLUG_KINDS: break;
    }
    return "kind";
}

static enum cop_status check_plug(const struct cop_registry *registry,
                                  const struct cop_plug *plug, struct cop_error *err)
{
    if (!plug) {
        return cop_fail(err, COP_ERR_ARGUMENT, "a plug-in table is missing");
    }
    if (plug->abi != COP_PLUG_ABI) {
        return cop_fail(err, COP_ERR_UNSUPPORTED,
                        "a plug-in was built for version %u of the contracts, this program has "
                        "version %u: rebuild it",
                        plug->abi, COP_PLUG_ABI);
    }
    if (!plug->name || !plug->name[0]) {
        return cop_fail(err, COP_ERR_ARGUMENT, "a plug-in table has no name");
    }
    const char *slot = missing_slot(plug);
    if (slot) {
        return cop_fail(err, COP_ERR_ARGUMENT, "%s.%s lacks the required slot %s",
                        cop_plug_kind_name(plug->kind), plug->name, slot);
    }
    if (cop_registry_find(registry, plug->kind, plug->name)) {
        return cop_fail(err, COP_ERR_ARGUMENT, "the name %s.%s is taken",
                        cop_plug_kind_name(plug->kind), plug->name);
    }
    return COP_OK;
}

enum cop_status cop_registry_add(struct cop_registry *registry, const struct cop_plug *plug,
                                 struct cop_error *err)
{
    enum cop_status status = check_plug(registry, plug, err);
    if (status != COP_OK) {
        return status;
    }
    if (registry->count == registry->capacity) {
        size_t capacity = registry->capacity ? 2 * registry->capacity : 32;
        const struct cop_plug **plugs =
            realloc(registry->plugs, capacity * sizeof(*registry->plugs));
        if (!plugs) {
            return cop_fail(err, COP_ERR_MEMORY, "no memory for the registry");
        }
        registry->plugs = plugs;
        registry->capacity = capacity;
    }
    registry->plugs[registry->count++] = plug;
    return COP_OK;
}

const struct cop_plug *cop_registry_find(const struct cop_registry *registry,
                                         enum cop_plug_kind kind, const char *name)
{
    for (size_t i = 0; name && i < registry->count; i++) {
        const struct cop_plug *plug = registry->plugs[i];
        if (plug->kind == kind && strcmp(plug->name, name) == 0) {
            return plug;
        }
    }
    return NULL;
}

void cop_registry_release(struct cop_registry *registry)
{
    free(registry->plugs);
    *registry = (struct cop_registry){0};
}

/* ---- Parts ----------------------------------------------------------------------------------
 */

struct cop_part *cop_part_new(const struct cop_plug *plug)
{
    struct cop_part *part = calloc(1, sizeof *part);
    void *state = calloc(1, plug->state_size ? plug->state_size : 1);
    if (!part || !state) {
        free(part);
        free(state);
        return NULL;
    }
    part->plug = plug;
    part->state = state;
    atomic_init(&part->references, 1);
    cop_option_defaults(plug->options, state);
    return part;
}

static void unprepare(struct cop_part *part)
{
    if (part->is_prepared && part->plug->release) {
        part->plug->release(part->state);
    }
    part->is_prepared = false;
}

enum cop_status cop_part_prepare(struct cop_part *part, struct cop_error *err)
{
    const struct cop_plug *plug = part->plug;
    unprepare(part);
    for (const struct cop_option *o = plug->options; o && o->name; o++) {
        if ((o->flags & COP_OPTION_REQUIRED) && cop_option_is_absent(o, part->state)) {
            return cop_fail(err, COP_ERR_ARGUMENT, "cop.%s.%s: option \"%s\" is required%s%s",
                            cop_plug_kind_name(plug->kind), plug->name, o->name,
                            o->help ? ": " : "", o->help ? o->help : "");
        }
    }
    enum cop_status status = plug->prepare ? plug->prepare(part->state, err) : COP_OK;
    part->is_prepared = status == COP_OK;
    return status;
}

struct cop_part *cop_part_share(struct cop_part *part)
{
    if (part) {
        atomic_fetch_add_explicit(&part->references, 1, memory_order_relaxed);
    }
    return part;
}

void cop_part_free(struct cop_part *part)
{
    if (!part || atomic_fetch_sub_explicit(&part->references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    unprepare(part);
    cop_option_release(part->plug->options, part->state);
    free(part->state);
    free(part);
}
