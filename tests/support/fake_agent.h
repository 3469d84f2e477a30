/* An agent in a thread of the test, for tests of the library: attach socket, table and rings as the
 * real one has them, and locks that live in memory instead of on nodes. A test can lose a lease,
 * refuse a client, stop answering, die and come back. Every function may be called from any thread.
 */
#ifndef HOLDFAST_TESTS_FAKE_AGENT_H
#define HOLDFAST_TESTS_FAKE_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/layout.h"

struct fake_agent;

struct fake_agent_options {
    uint32_t ttl_ms;         /* default TTL; 0: 30,000 */
    int refuse;              /* status of every welcome */
    const char *refuse_text; /* and its sentence */
    bool silent;             /* never welcomes anybody */
    int64_t ahead_ns;        /* of the clients' clock is its own */
    unsigned hang_ups;       /* so many are turned away without a word first */
};

/* A private directory and a name that no other run has. NULL options: the defaults. Aborts on
 * failure. */
struct fake_agent *fake_agent_start(const struct fake_agent_options *options);
/* Removes everything. */
void fake_agent_free(struct fake_agent *agent);

const char *fake_agent_path(const struct fake_agent *agent); /* of the socket */
const char *fake_agent_name(const struct fake_agent *agent);
const char *fake_agent_dir(const struct fake_agent *agent); /* for $HOLDFAST_RUNTIME_DIR */

/* kill -9: sockets close, the table stays as it was. */
void fake_agent_kill(struct fake_agent *agent);
/* The next agent of that name: goes on with the leases (as from a journal). `cold`: in a new table,
 * and the leases of the old one are lost. */
void fake_agent_revive(struct fake_agent *agent, bool cold);
/* SIGSTOP: nothing is answered or renewed until it goes on. */
void fake_agent_freeze(struct fake_agent *agent, bool frozen);
/* Whether leases are renewed; they are at first. */
void fake_agent_renew(struct fake_agent *agent, bool on);
/* The fleet's ttl_max is another one. */
void fake_agent_ttl_max(struct fake_agent *agent, uint32_t ttl_max_ms);

/* Another host takes or releases `name`. */
void fake_agent_foreign(struct fake_agent *agent, const char *name, bool held);
/* The lease on `name` changes its state: LATE, LOSING or LOST. */
void fake_agent_change(struct fake_agent *agent, const char *name, enum hf_slot_state state,
                       enum hf_loss_reason reason);

bool fake_agent_holds(struct fake_agent *agent, const char *name);
/* How often the holder of `name` has beaten in the page of its present session. */
uint32_t fake_agent_beats(struct fake_agent *agent, const char *name);
unsigned fake_agent_leases(struct fake_agent *agent);
unsigned fake_agent_waiters(struct fake_agent *agent);
unsigned fake_agent_clients(struct fake_agent *agent);
/* Whether a release of a run came with the word that its tree is reaped. */
bool fake_agent_saw_reaped(struct fake_agent *agent);
/* What hf_once() is answered from now on; at first HF_OK. Returns the asker of the last request, or 0. */
uint64_t fake_agent_once(struct fake_agent *agent, int status);
/* Until when the job may start that hf_once() lets start; at first 0, not told. Returns how often it was asked so far. */
unsigned fake_agent_once_until(struct fake_agent *agent, int64_t until_ns);

#endif
