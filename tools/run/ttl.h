/* The TTL that a timeline goes by. */
#ifndef HOLDFAST_TOOLS_RUN_TTL_H
#define HOLDFAST_TOOLS_RUN_TTL_H

#include <stdint.h>

#include "libclient/holdfast.h"

/* No agent extends a lease for longer than the fleet's ttl_max, which may have become smaller than the TTL that was `asked` for.
 * `told_ns`: what this returned last, for an agent that is away. */
int64_t ttl_now_ns(hf_client *client, int64_t asked_ns, int64_t told_ns);

#endif
