/* What the agent must know of its host and namespaces, read once at the start. */
#ifndef HOLDFAST_AGENT_PROCESS_HOST_H
#define HOLDFAST_AGENT_PROCESS_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "agent/base/clock.h"

struct host {
    struct boot_clock clock;
    uint64_t timens_inode, pidns_inode;
    char name[64];
};

/* HF_OK, or HF_ESYS with a sentence in `why`. */
int host_read(struct host *ret_host, char *why, size_t why_size);

/* No core, and no debugger of the agent's own user: passwords, tokens and keys are in memory. Called first of all; a child
 * that executes another program has its own. */
void host_keep_secrets(void);

/* Raises the soft limit of descriptors to the hard one: each client takes some. Returns what it is
 * now, INT64_MAX when there is none or it cannot be read. */
int64_t host_raise_descriptors(void);

#endif
