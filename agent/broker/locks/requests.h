/* Requests of clients: each is judged and answered. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_REQUESTS_H
#define HOLDFAST_AGENT_BROKER_LOCKS_REQUESTS_H

#include "agent/base/thread_role.h"
#include "agent/broker/locks/resources.h"
#include "agent/record/mailbox.h"
#include "shm/wire.h"

struct client;
struct locks;
struct session;

/* Each sends its own answer. */
void request_acquire(struct locks *locks, struct session *s,
                     const struct hf_request_entry *r) IN_BROKER_THREAD;
void request_release(struct locks *locks, struct session *s,
                     const struct hf_request_entry *r) IN_BROKER_THREAD;
void request_cancel(struct session *s, uint64_t id) IN_BROKER_THREAD;
void request_ask(struct locks *locks, struct session *s,
                 const struct hf_request_entry *r) IN_BROKER_THREAD;
void request_losing(struct locks *locks, struct session *s,
                    const struct hf_request_entry *r) IN_BROKER_THREAD;
/* After a reload that changed the rules: who waits and may not any more is told so. A hand-off that is under way is completed. */
void requests_look_at_rules(struct locks *locks) IN_BROKER_THREAD;
/* A session ended: its waiters are dropped. */
void requests_drop_session(struct session *s) IN_BROKER_THREAD;
/* Its client ended: its leases are released; those of a run that may have a job are abandoned. */
void requests_client_gone(struct locks *locks, struct client *c) IN_BROKER_THREAD;
/* Its holder came back with this session: its beats come in this session's page now. */
void requests_rebind(struct locks *locks, struct session *s) IN_BROKER_THREAD;
/* The agent ends: waiters are answered and rounds undone; an ephemeral agent ends its leases, too. */
void requests_go_away(struct locks *locks) IN_BROKER_THREAD;

#endif
