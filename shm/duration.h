/* Spans of time as people write them: "30" and "30s", "500ms", "1.5h", ".3", "7d". Pure; any thread. */
#ifndef HOLDFAST_SHM_DURATION_H
#define HOLDFAST_SHM_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/* Whole milliseconds, and whether a part of one remains; six digits of a fraction count. HF_EINVAL:
 * it is no duration, is negative, or is above `most_ms`. */
int hf_duration_parse(const char *text, int64_t most_ms, int64_t *ret_ms, bool *ret_part);

#endif
