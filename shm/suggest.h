/* Which known word somebody may have meant by an unknown one. Pure. */
#ifndef HOLDFAST_SHM_SUGGEST_H
#define HOLDFAST_SHM_SUGGEST_H

#include <stddef.h>

/* The nearest known word so far; zeroed at first. */
struct suggestion {
    const char *known; /* NULL: none is near enough */
    size_t distance;
};

/* How many letters are to be added, left out, changed, or swapped with the next one. Case does not count, and a dash
 * is an underscore. */
size_t suggest_distance(const char *word, size_t word_len, const char *known);

/* Takes `known` if it is nearer than what is there. Near enough is a word of which at most a third differs, and one
 * that begins with all of `word`. */
void suggest_try(struct suggestion *suggestion, const char *word, size_t word_len,
                 const char *known);

#endif
