/* The memory that a session shares with its client. Its pages are the client's, by whom they were allocated. The kernel charges the
 * files themselves, their inodes and other objects of a few KiB, to the agent, and frees them when both have closed them: so an ended
 * session's place stays taken for as long as its client keeps the memory. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_KEPT_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_KEPT_H

#include "agent/broker/clients/clients.h"

struct hf_ring_agent;
struct kept;

/* Looks whether this kernel tells who has a memfd open; without that nothing is watched, and the log says so. */
void kept_create(struct clients *clients);
void kept_destroy(struct clients *clients);
/* Watches the memory whose descriptors the client is about to get. HF_ESYS with errno, HF_ENOMEM. */
int kept_watch(struct user *user, const int fds[2], struct kept **ret_kept);
/* hf_ring_admit(). Then *kept is dropped, and NULL, if its client may keep the memory. */
int kept_admit(const struct clients *clients, struct hf_ring_agent *ring, struct kept **kept);
/* The session is over, and the agent's own mappings are gone. NULL is fine. */
void kept_after_session(struct clients *clients, struct kept *kept) IN_BROKER_THREAD;
void kept_drop(struct kept *kept); /* NULL is fine */
/* Gives up places whose memory is closed by now: looks at a bounded number, those that ended last first. How many were given up. */
unsigned kept_look(struct clients *clients) IN_BROKER_THREAD;

#endif
