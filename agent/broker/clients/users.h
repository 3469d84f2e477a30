/* The account of each user: how much it uses of the shared limits, and how much it may. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_USERS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/core/turns.h"
#include "shm/nstime.h"

struct clients;

/* What one uid uses. Kept for as long as the agent runs: there are few uids. */
struct user {
    LIST_ENTRY(user) all;
    uint32_t uid;
    unsigned sessions, kept, leases, waiters, queries, waits /* of those */, listings, groups;
    unsigned unread;         /* answers that its sessions have no room for */
    uint64_t text_units;     /* of the leases' and waiters' names and notes */
    hf_time paid_until;      /* when its requests so far will be within its rate */
    hf_time attached_until;  /* when its attaches so far will be within their rate */
    hf_time connected_until; /* and its connections */
    hf_time tell_again;
    struct turns_user turns; /* of its waiters, to have nodes asked */
};

/* Root or the agent's user, whom the host could not keep from anything. */
bool user_is_trusted(const struct user *u);
/* The account of a uid; NULL when out of memory. */
struct user *user_get(struct clients *clients, uint32_t uid);
void users_destroy(struct clients *clients);
uint64_t user_text_units(size_t name_len, size_t note_len);
/* One more connection, of so many beyond clients_max, counting it in its rate; its hello decides whether it may become a
 * client. */
bool user_may_connect(const struct clients *clients, struct user *u, uint32_t strangers,
                      hf_time now);
/* Its connection says hello, and is counted already: HF_OK; HF_EFULL, HF_ELIMIT with the limit. `known`: it comes back to
 * a client that is there. */
int user_judge_attach(const struct clients *clients, const struct user *u, bool known, char *text,
                      size_t size);
/* The same for the rate of its attaches, counting this one: HF_OK; HF_ELIMIT, and in a moment it may be welcome. */
int user_judge_rate(const struct clients *clients, struct user *u, hf_time now, char *text,
                    size_t size);
/* Whether it may make one more request now; if so user_asked() follows, before the next. */
bool user_may_ask(const struct clients *clients, struct user *u, hf_time now);
void user_asked(const struct clients *clients, struct user *u, hf_time now);
bool user_may_hold(const struct clients *clients, const struct user *u);
void user_say_held(const struct clients *clients, const struct user *u, char *text, size_t size);
/* One more acquire, with a name and note of so many units. HF_ELIMIT with the limit's name. */
int user_judge_acquire(const struct clients *clients, const struct user *u, uint64_t units,
                       char *text, size_t size);

#endif
