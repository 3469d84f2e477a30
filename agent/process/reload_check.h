/* Whether a reload may be applied: reads the file, compares, and tries the nodes' new addresses and
 * passwords. It changes nothing, and it waits: for disks, for names, for nodes two seconds at most. So it
 * has a thread of its own (agent/process/reload.c).
 *
 * (!) A node's address changes only if the server there is the one that the node is already: two hosts that
 * ask different servers under one id could both get a lock (docs/SAFETY.md).
 */
#ifndef HOLDFAST_AGENT_PROCESS_RELOAD_CHECK_H
#define HOLDFAST_AGENT_PROCESS_RELOAD_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "agent/config/config_changes.h"

#define RELOAD_TEXT_SIZE 4096

struct agent;
struct tls_keys;
struct reload_start;

/* Main makes it and frees it; in between it belongs to the thread, which sets `done` last. */
struct reload_check {
    struct agent *agent; /* only its table and its board are read, as any thread may */
    const struct reload_start *start;
    const struct config *now;
    struct config *next;
    struct config *plain;  /* next, without the fleet's record */
    struct tls_keys *keys; /* of `next`; NULL: none */
    char path[4096];       /* of the file */
    struct config_change changes[CONFIG_CHANGES_MAX];
    size_t change_count;
    char untried[256]; /* nodes whose new password could not be tried; "" none */
    bool good;
    char why[RELOAD_TEXT_SIZE]; /* if not */
    atomic_bool done;
};

/* Fills in all but the first three, the places of `next` and `plain` and `done`. */
void reload_check(struct reload_check *check);

#endif
