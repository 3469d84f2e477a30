/* The line that tells on a terminal how a long wait goes: since when, at which place, for whom. It is rewritten in its place, and is
 * gone when anything else is said. Logs and pipes do not get it. */
#ifndef HOLDFAST_TOOLS_RUN_WAIT_LINE_H
#define HOLDFAST_TOOLS_RUN_WAIT_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/holdfast.h"
#include "tools/common/conflict.h"

#define WAIT_LINE_EVERY_MS 1000

struct wait_line {
    struct hf_progress last; /* `reason` 0: nothing was heard yet */
};

#define WAIT_LINE_SIZE (CONFLICT_SIZE + 128)

/* "waiting for 1m12s of 5m0s, place 2: db/migrate is held by ...". `most_ms`: of the wait; not above 0: no limit. Returns `out`. */
const char *wait_line_text(char out[WAIT_LINE_SIZE], const struct wait_line *line, const char *name,
                           int64_t waited_ms, int64_t most_ms, int64_t now_wall_ms);

/* Shows it, from the third second on. Returns whether to come again after WAIT_LINE_EVERY_MS. */
bool wait_line_show(const struct wait_line *line, const char *name, int64_t waited_ms,
                    int64_t most_ms);

#endif
