/* The one line that says who has the lock. */
#ifndef HOLDFAST_TOOLS_CONFLICT_H
#define HOLDFAST_TOOLS_CONFLICT_H

#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast.h"

#define CONFLICT_SIZE 2048

/* "db/migrate is held by host7 pid 4121 (user postgres) command pg_dump since 2026-03-01T12:00:00Z
 * (3m12s), fence 9182, note deploy-771"; what is not known is left out. `holder` may be NULL:
 * nothing is known. `now_wall_ms` is Unix time. Returns `out`. The user's name is looked up on this
 * host. */
const char *conflict_line(char *out, size_t size, const char *name, const struct hf_holder *holder,
                          int64_t now_wall_ms);

#endif
