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

/* The list and its strings in one block. */
static bool copy_strings(const char *const *from, int32_t count, const char *const **out)
{
    size_t list = (size_t)count * sizeof *from, bytes = list;
    for (int32_t i = 0; i < count; i++) {
        bytes += strlen(from[i]) + 1;
    }
    *out = NULL;
    if (bytes == 0) {
        return true;
    }
    char **copy = malloc(bytes);
    if (!copy) {
        return false;
    }
    char *at = (char *)copy + list;
    for (int32_t i = 0; i < count; i++) {
        size_t length = strlen(from[i]) + 1;
        copy[i] = memcpy(at, from[i], length);
        at += length;
    }
    *out = (const char *const *)copy;
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
    is_whole &= copy_strings(request->stop, request->n_stop, &ticket->request.stop);
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
