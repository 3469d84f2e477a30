/* What `run` and `hold` make of a grant: the TTL that their timeline goes by, and the names of the leases. */
#ifndef HOLDFAST_TOOLS_RUN_GRANT_H
#define HOLDFAST_TOOLS_RUN_GRANT_H

#include <stdint.h>

#include "libclient/holdfast.h"
#include "tools/common/text.h"
#include "tools/run/acquire.h"
#include "tools/run/lease_group.h"

/* Before the grant: the TTL that was asked for, or the agent's. Says when the agent's nodes are private. HF_OK or a negative code. */
int grant_ttl_ns(const struct acquire *acquire, hf_client *client, int64_t *ret_ttl_ns);

/* Escapes the names of the leases for messages into `leases->names` and, for a slot, `acquire->shown`. The caller frees `ret_each`
 * after the hold's end. HF_OK or HF_ENOMEM. */
int grant_names(struct acquire *acquire, struct lease_group *leases,
                char (**ret_each)[TEXT_NAME_SIZE]);

/* The name of the i-th lease. May use `ret_name`. */
const char *grant_name(const struct run_options *wanted, const struct lease_group *leases, size_t i,
                       char ret_name[RUN_OPTIONS_NAME_SIZE]);

/* Which lease stands for the hold, of which people and programs are told: the first, but of an exclusive hold NAME's. */
size_t grant_first(const struct run_options *wanted);
/* How many are told of one by one. */
size_t grant_told(const struct run_options *wanted);

/* One line for each lease: after how long, and its fence. */
void grant_say(const struct acquire *acquire, const struct lease_group *leases);

#endif
