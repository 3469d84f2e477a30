/* Patterns of names: `*` stands for any bytes, also none and also `/`, `?` for one byte. A byte that a pattern cannot have as it is
 * is written as names are shown (shm/escape.h), besides `\*` and `\?`. Pure.
 *
 * A pattern is the first `len` bytes of a text; the byte behind them is no hex digit. */
#ifndef HOLDFAST_AGENT_CORE_PATTERN_H
#define HOLDFAST_AGENT_CORE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether every `\` begins an escape. The others are for patterns that are good. */
bool pattern_is_good(const char *pattern, size_t len);
bool pattern_matches(const char *pattern, size_t len, const void *name, size_t name_len);
/* Every name that matches `other` matches `pattern`. False: not so, or not plain to see. */
bool pattern_covers(const char *pattern, size_t len, const char *other, size_t other_len);

#endif
