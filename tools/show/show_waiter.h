/* Who waits for locks, for people and as JSON. */
#ifndef HOLDFAST_TOOLS_SHOW_SHOW_WAITER_H
#define HOLDFAST_TOOLS_SHOW_SHOW_WAITER_H

#include <stdbool.h>

#include "tools/output/json.h"
#include "tools/reader/waiting.h"

/* A table with a heading after an empty line; nothing if nobody waits. `all`: says how many more wait than it can show. */
void show_waiter_list(const struct waiting *waiting, bool all);

/* "waiting   1. pid 123 ..." a line each, for one name. */
void show_waiter_of_lease(const struct waiting *waiting);

/* null if it is not known who waits. */
void show_waiter_json(struct json_out *out, const struct waiting *waiting);

#endif
