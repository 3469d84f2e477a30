/* The account of each user: how much it uses of the shared limits, and how much it may. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_USERS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/core/share.h"
#include "shm/layout.h"
#include "shm/nstime.h"

struct clients;

/* What one uid uses. Kept for as long as the agent runs: there are few uids. */
struct user {
    LIST_ENTRY(user) all;
    uint32_t uid;
    unsigned sessions;  /* all of its connections */
    unsigned strangers; /* of those: no hello yet */
    unsigned shared;    /* of those: they share a place with another */
    unsigned kept;      /* ended sessions whose memory is open */
    unsigned leases, waiters, groups, listings;
    unsigned queries;
    unsigned waits, fanouts; /* of its queries */
    unsigned unread;         /* answers that its sessions have no room for */
    uint64_t text_units;     /* of the leases' and waiters' names and notes */
    hf_time paid_until;      /* when its requests so far will be within its rate */
    hf_time attached_until;  /* when its attaches so far will be within their rate */
    hf_time connected_until; /* and its connections */
    hf_time suspect_until;   /* what is done for it is measured more closely */
    hf_time tolled_until;    /* when the kernel's work for it will be within its share */
    hf_time tell_again;
    struct turns_user turns; /* of its waiters, to have nodes asked */
    /* The last one that each node made for it, counting everybody's; 0 none. */
    uint64_t page[HF_NODES_MAX];
};

/* Root or the agent's user, whom the host could not keep from anything. */
bool user_is_trusted(const struct user *u);
/* The account of a uid, or of the user whose subordinate uid it is; NULL when out of memory. */
struct user *user_get(struct clients *clients, uint32_t uid);
void users_destroy(struct clients *clients);
uint64_t user_text_units(size_t name_len, size_t note_len);
/* One more connection, of so many beyond clients_max, counting it in its rate; its hello decides whether it may become a
 * client. `ret_makes_room`: NULL, or the user whose oldest connection without a hello is to end for it. (!) Those take no place of
 * anybody else: else a user who says nothing would have them all. */
bool user_may_connect(const struct clients *clients, struct user *u, uint32_t strangers,
                      hf_time now, struct user **ret_makes_room);
/* A connection without a hello; its hello was taken, or it ended. */
void user_stranger_comes(struct clients *clients, struct user *u);
void user_stranger_goes(struct clients *clients, struct user *u);
/* A session shares the place of another one, or does so no more. */
void user_shares(struct clients *clients, struct user *u);
void user_shares_no_more(struct clients *clients, struct user *u);
/* Whether one more of its sessions may share another's place. */
bool user_may_share(const struct clients *clients, const struct user *u);
/* Its connection says hello, and is counted already: HF_OK; HF_EFULL, HF_ELIMIT with the limit. `known`: it comes back to
 * a client that is there. */
int user_judge_attach(const struct clients *clients, const struct user *u, bool known, char *text,
                      size_t size);
/* The same for the rate of its attaches, counting this one: HF_OK; HF_ELIMIT, and in a moment it may be welcome. */
int user_judge_rate(const struct clients *clients, struct user *u, hf_time now, char *text,
                    size_t size);
/* (!) What the kernel does in the broker's thread to wake a user's processes takes as long as the user likes: it walks all who watch a
 * socket, or sleep in a futex's bucket, and that may be a million. Between these two calls is whatever wakes some. */
struct toll {
    hf_time begun;
    hf_dur spent; /* of a processor, if it is a suspect's */
};
struct toll user_toll_begin(const struct user *u);
void user_toll_end(struct user *u, struct toll toll);
/* It has had more than its share: it is woken later, and makes no new connections. */
bool user_is_tolled(const struct user *u, hf_time now);
/* Whether so many leases may be looked through for it now, and that they were: they count as requests. */
bool user_may_have_searched(const struct clients *clients, struct user *u, unsigned leases,
                            hf_time now);
void user_searched(const struct clients *clients, struct user *u, unsigned looked_at, hf_time now);
/* Whether it may make one more request now; if so user_asked() follows, before the next. */
bool user_may_ask(const struct clients *clients, struct user *u, hf_time now);
void user_asked(const struct clients *clients, struct user *u, hf_time now);
bool user_may_hold(const struct clients *clients, const struct user *u);
void user_say_held(const struct clients *clients, const struct user *u, char *text, size_t size);
/* One more fan-out, where all users have `taken` of `most`. HF_ELIMIT with the limit. */
int user_judge_fanout(const struct user *u, unsigned most, unsigned taken, char *text, size_t size);
/* One more acquire, with a name and note of so many units. HF_ELIMIT with the limit's name. */
int user_judge_acquire(const struct clients *clients, const struct user *u, uint64_t units,
                       char *text, size_t size);

#endif
