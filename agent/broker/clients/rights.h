/* Who a session's process is, and what it may do with a name by the rules in force (agent/core/rules.h). Belongs to the broker's
 * thread.
 *
 * (!) Who asks is what the kernel said of the process that connected: nothing that a client writes, into its hello, its requests
 * or any memory, has a say. It stays so for as long as the session lives, whatever becomes of that process's user, and
 * whoever else got its descriptors from it. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_RIGHTS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "agent/base/thread_role.h"
#include "agent/core/rules.h"

struct session;

/* Whose connection it is, but for supplementary groups: it is in none yet. */
void rights_know_caller(const struct ucred *cred, struct caller *ret_caller);
/* Its supplementary groups that rules name, when it is welcomed and after a reload. Without memory it is in none: it may less. */
void rights_know_groups(struct session *s) IN_BROKER_THREAD;
void rights_forget_caller(struct caller *caller);

/* Whether it may; nothing is counted or told. */
bool rights_has(struct session *s, enum right right, const void *name,
                size_t name_len) IN_BROKER_THREAD;
/* The same for a request: if not, why not and what to do, in `text`; counted, logged, and an event. */
bool rights_allow(struct session *s, enum right right, const void *name, size_t name_len,
                  char *text, size_t size) IN_BROKER_THREAD;

#endif
