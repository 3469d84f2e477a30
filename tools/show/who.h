/* The holder of a name on any host, for people and as JSON. Not thread-safe (user names). */
#ifndef HOLDFAST_TOOLS_SHOW_WHO_H
#define HOLDFAST_TOOLS_SHOW_WHO_H

#include <stddef.h>
#include <stdint.h>

#include "libclient/holdfast_admin.h"
#include "tools/output/json.h"

/* One line per known fact. */
void who_print(const void *name, size_t name_len, const struct hf_who_info *who);

/* The same as members of `object`, without the name. */
void who_put(json_t *object, const struct hf_who_info *who);
/* Only the holder's members. */
void who_put_holder(json_t *object, const struct hf_holder *holder);

#endif
