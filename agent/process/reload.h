/* Reloads: the configuration is read again while the agent runs, on SIGHUP and for `holdfast reload`.
 *
 * Main thread, with a thread (hf-reload) for what may wait: agent/process/reload.h. Only when all of it is good anything changes:
 * permissions, then one message to each thread with the whole configuration
 * (agent/state/mailbox.h).
 * (!) One reload at a time. Who asks while one runs gets the next one: the file may have changed since.
 * However many ask, there is one to come.
 */
#ifndef HOLDFAST_AGENT_PROCESS_RELOAD_H
#define HOLDFAST_AGENT_PROCESS_RELOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/base/thread.h"
#include "agent/config/config_changes.h"

struct agent;
struct config;
struct reload;

/* What the agent was started with. */
struct reload_start {
    int argc;
    char **argv;
    int64_t descriptors; /* for config_bound_clients() */
    /* By another record of the fleet: --reset-fleet and --assume-fresh were about the first time. */
    bool again;
};

int reload_create(struct agent *agent, const struct reload_start *start,
                  struct reload **ret_reload) IN_MAIN_THREAD; /* HF_ENOMEM */
/* After the threads that use the configuration are gone; NULL is fine. */
void reload_destroy(struct reload *reload) IN_MAIN_THREAD;

/* The configuration that was reloaded last, as its file has it; unchanged where there was none. */
void reload_take(const struct reload *reload, struct config *config) IN_MAIN_THREAD;

/* Begins a reload, or has one follow that which runs. Returns its number. */
uint64_t reload_ask(struct reload *reload) IN_MAIN_THREAD;
/* Something is under way: reload_turn() is wanted soon. */
bool reload_busy(const struct reload *reload) IN_MAIN_THREAD;
void reload_turn(struct reload *reload) IN_MAIN_THREAD;
/* The configuration that is in force, until the next reload_turn(). */
const struct config *reload_in_force(const struct reload *reload) IN_MAIN_THREAD;

/* Whether that reload is over. Then `ret_applied`, and what to say: lines of what changed, or why it was
 * refused. The text stays until the next reload is over. */
bool reload_over(const struct reload *reload, uint64_t number, bool *ret_applied,
                 const char **ret_text) IN_MAIN_THREAD;

/* Whether a reload may be applied: reads the file, compares, and tries the nodes' new addresses and
 * passwords. It changes nothing, and it waits: for disks, for names, for nodes two seconds at most. So it
 * has a thread of its own (agent/process/reload.c).
 *
 * (!) A node's address changes only if the server there is the one that the node is already: two hosts that
 * ask different servers under one id could both get a lock (docs/SAFETY.md).
 */

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

#endif
