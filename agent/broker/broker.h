/* The broker thread: serves clients (attach, rings, waiters, deaths), runs acquire rounds
 * on its own links, and keeps what is known of each node's trust. It gives every granted
 * lease to the renewal thread.
 *
 * Its parts, each a file: clients (who is attached), requests (what they ask for), names
 * (names and slots), waiters (who waits, and the next step), rounds (one acquire on the nodes),
 * grants (from a won round to a lease and back), nodes (links and trust), readopt (what an earlier
 * agent left in the journal).
 * Ways in: agent->to_broker, the attach socket, the rings. Ways out: agent->to_renewal,
 * completions, slots up to the grant.
 */
#ifndef HOLDFAST_AGENT_BROKER_BROKER_H
#define HOLDFAST_AGENT_BROKER_BROKER_H

#include "agent/base/thread.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Blocked in every thread but the broker's. */
#define BROKER_ROUSE SIGURG

struct agent;
struct broker;

/* Also reads the journal: leases of living holders are readopted, all others are released. */
int broker_create(struct agent *agent, struct broker **ret_broker) IN_MAIN_THREAD;
/* Listens on agent->socket_path and starts the thread ("hf-broker"). HF_ESYS with errno. */
int broker_start(struct broker *broker) IN_MAIN_THREAD;
/* Any thread, while the broker lives. Interrupts a system call in which its thread waits: before Linux 6.16 any process
 * that can attach may send it a socket whose last close lingers. */
void broker_rouse(struct broker *broker);
/* After MSG_GO_AWAY was posted: waits for the thread. */
void broker_join(struct broker *broker);
void broker_destroy(struct broker *broker) IN_MAIN_THREAD;

/* Any thread. q nodes may vote, and the fleet's constants agree. */
bool broker_ready(const struct broker *broker);
/* Any thread. A sentence that says what is missing for that; "" when ready. */
void broker_why_not_ready(struct broker *broker, char *ret_text, size_t size);

#endif
