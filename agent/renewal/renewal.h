/* The renewal thread: owns every lease from grant to release; nothing a client does can delay it.
 *
 * It has its own loop and its own link to each node. It renews on each node separately at a_i + T/3
 * (many keys per script), heals nodes that lack our key, declares losses by the clock, and releases.
 * A lease is marked as ended before the first byte of a release leaves: journal ENDING, check word 0,
 * then the releases.
 * Ways in: messages of agent->to_renewal. Ways out: messages of agent->to_broker, slots, journal.
 */
#ifndef HOLDFAST_AGENT_RENEWAL_RENEWAL_H
#define HOLDFAST_AGENT_RENEWAL_RENEWAL_H

#include "agent/base/thread.h"

struct agent;
struct renewal;

int renewal_create(struct agent *agent, struct renewal **ret_renewal) IN_MAIN_THREAD;
/* Starts the thread ("hf-renewal"). */
int renewal_start(struct renewal *renewal) IN_MAIN_THREAD;
/* After MSG_STOP was posted: waits for the thread. Leases that are still held stay in
 * journal and on the nodes. */
void renewal_join(struct renewal *renewal) IN_MAIN_THREAD;
void renewal_destroy(struct renewal *renewal) IN_MAIN_THREAD;

#endif
