/* UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF. Pure; any thread. */
#ifndef HOLDFAST_SHM_UTF8_H
#define HOLDFAST_SHM_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the character that `bytes` (at least one) begin with, 1 to 4; 0: they are no UTF-8. */
size_t hf_utf8_next(const void *bytes, size_t len, uint32_t *ret_character);

/* Whether all of it is UTF-8. */
bool hf_utf8_valid(const void *bytes, size_t len);

/* Whether people may be shown it in a line of text, wherever it stands there. (!) Not what moves the cursor or the direction of
 * writing, what is not seen, and what has a meaning of its own only in one font: a name may be hostile. Letters that are written
 * from right to left are of this kind, because terminals reorder the words around them. */
bool hf_utf8_plain(uint32_t character);

#endif
