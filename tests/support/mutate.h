/* Damages files, for tests that a parser survives: the same seed gives the same damage. */
#ifndef TESTS_SUPPORT_MUTATE_H
#define TESTS_SUPPORT_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* A damaged copy in memory of exactly its size (so that a sanitizer sees a step past its end);
 * free it. One to four random edits: bytes, 64-bit numbers with awkward values, parts removed,
 * repeated, exchanged, or the end cut off. */
uint8_t *mutate(const uint8_t *image, size_t size, uint64_t seed, size_t *mutated_size);

/* The same for a JSON text: with even seeds its bytes; with odd ones its values change places,
 * are doubled, wrapped or exchanged for awkward ones, so that most of it stays JSON. */
uint8_t *mutate_json(const char *text, size_t size, uint64_t seed, size_t *mutated_size);

enum { MUTATIONS = 100000 }; /* how many a test tries, with seeds from 0 */

#endif
