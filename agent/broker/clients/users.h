/* The account of each user: what it uses of what all share, and how much of that one may. */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_USERS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "shm/nstime.h"

struct clients;

/* What one uid uses, for its limits. Kept for as long as the agent runs: there are few uids. */
struct user {
    LIST_ENTRY(user) all;
    uint32_t uid;
    unsigned sessions, leases, waiters, looks, scans, groups;
    uint64_t text_units; /* of the leases' and waiters' names and notes */
    hf_time paid_until;  /* when its requests so far are within its rate */
    hf_time tell_again;
};

/* The account of a uid; NULL when out of memory. */
struct user *user_get(struct clients *clients, uint32_t uid);
void users_destroy(struct clients *clients);
uint64_t user_text_units(size_t name_len, size_t note_len);
/* One more connection; whether it may become a client is judged at its hello. */
bool user_may_connect(const struct clients *clients, const struct user *u);
/* One more request now; then user_asked(), before the next. */
bool user_may_ask(const struct clients *clients, struct user *u, hf_time now);
void user_asked(const struct clients *clients, struct user *u);
bool user_may_hold(const struct clients *clients, const struct user *u);
void user_say_held(const struct clients *clients, const struct user *u, char *text, size_t size);
/* One more acquire, of a name and note of so many units. HF_ELIMIT with the limit by its name. */
int user_judge_acquire(const struct clients *clients, const struct user *u, uint64_t units,
                       char *text, size_t size);

#endif
