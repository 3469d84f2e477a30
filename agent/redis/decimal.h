/* Whole numbers in decimal digits, as commands and answers have them. Pure. */
#ifndef HOLDFAST_AGENT_REDIS_DECIMAL_H
#define HOLDFAST_AGENT_REDIS_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECIMAL_MAX 20 /* characters of any int64_t */

/* `length` digits, 1 to 19, and nothing else; false: they are not, or more than `most`. */
bool decimal_read(const char *text, size_t length, uint64_t most, uint64_t *ret_number);
/* Writes into the end of `room`, which has at least as many bytes as the number has characters. Returns where it begins; there
 * is no NUL. */
const char *decimal_write(char *room, size_t size, int64_t number);

#endif
