/* The engine's own copy of a request: nothing in it is borrowed but what `user` stands for. */
#include "core/cycle/sequence.h"

#include <stdlib.h>
#include <string.h>

static bool copy_array(const void *from, size_t bytes, const void **out)
{
    void *copy = bytes > 0 ? malloc(bytes) : NULL;
    if (copy) {
        memcpy(copy, from, bytes);
    }
    *out = copy;
    return copy || bytes == 0;
}

/* Pointers, lengths and strings in one block. */
static bool copy_stops(const struct cop_request *from, struct cop_request *to)
{
    size_t count = (size_t)from->n_stop, bytes = 0;
    to->stop = NULL;
    to->stop_lengths = NULL;
    for (size_t i = 0; i < count; i++) {
        bytes += from->stop_lengths ? from->stop_lengths[i] : strlen(from->stop[i]);
    }
    if (count == 0) {
        return true;
    }
    char **list = malloc(count * (sizeof *list + sizeof(size_t)) + bytes);
    if (!list) {
        return false;
    }
    size_t *lengths = (size_t *)(void *)(list + count);
    char *at = (char *)(lengths + count);
    for (size_t i = 0; i < count; i++) {
        lengths[i] = from->stop_lengths ? from->stop_lengths[i] : strlen(from->stop[i]);
        list[i] = memcpy(at, from->stop[i], lengths[i]);
        at += lengths[i];
    }
    to->stop = (const char *const *)list;
    to->stop_lengths = lengths;
    return true;
}

struct cop_ticket *cop_ticket_new(const struct cop_request *request)
{
    struct cop_ticket *ticket = calloc(1, sizeof *ticket);
    if (!ticket) {
        return NULL;
    }
    ticket->request = *request;
    const void *prompt = NULL, *stop_tokens = NULL;
    bool is_whole = copy_array(request->prompt,
                               (size_t)request->n_prompt * sizeof *request->prompt, &prompt);
    is_whole &=
        copy_array(request->stop_tokens,
                   (size_t)request->n_stop_tokens * sizeof *request->stop_tokens, &stop_tokens);
    is_whole &= copy_stops(request, &ticket->request);
    ticket->request.prompt = prompt;
    ticket->request.stop_tokens = stop_tokens;
    if (!is_whole) {
        cop_ticket_free(ticket);
        return NULL;
    }
    return ticket;
}

static void free_const(const void *memory)
{
    union {
        const void *lent;
        void *own;
    } pointer = {.lent = memory};
    free(pointer.own);
}

void cop_ticket_free(struct cop_ticket *ticket)
{
    if (ticket) {
        free_const(ticket->request.prompt);
        free_const(ticket->request.stop_tokens);
        free_const(ticket->request.stop);
        free(ticket);
    }
}
