/* The line that names the holder. */
#ifndef HOLDFAST_TOOLS_COMMON_CONFLICT_H
#define HOLDFAST_TOOLS_COMMON_CONFLICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"

#define CONFLICT_SIZE 2048

/* "db/migrate is held by host7 pid 4121 (user postgres) command pg_dump since 2026-03-01T12:00:00Z
 * (3m12s), fence 9182, note deploy-771"; unknown facts are left out. For a holder without a record:
 * the time left of its key. `holder` NULL: nothing is known. `now_wall_ms` is Unix time. Returns
 * `out`. A user of this host is shown by name, one of another host by number. */
const char *conflict_line(char *out, size_t size, const char *name, const struct hf_holder *holder,
                          int64_t now_wall_ms);

/* Whether the holder is on this host, by its name; false when it is unknown. */
bool conflict_is_here(const struct hf_holder *holder);

#endif
