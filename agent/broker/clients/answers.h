/* What one session owes its client: completions on their way into its ring.
 *
 * Completions that the ring has no room for wait here, in order. An answer is never dropped for want of memory:
 * a request is taken only while there is a place for its answer, in the ring or in memory that is set aside, and
 * no other completion takes that place. Only a client that moves its cursor back, so that its ring has less room
 * than before, may miss an answer. Belongs to the broker thread.
 */
#ifndef HOLDFAST_AGENT_BROKER_CLIENTS_ANSWERS_H
#define HOLDFAST_AGENT_BROKER_CLIENTS_ANSWERS_H

#include <stdbool.h>
#include <sys/queue.h>

#include "shm/ring.h"

struct answer;
STAILQ_HEAD(answer_list, answer);

struct answers {
    struct hf_ring_agent *ring;
    struct answer_list waiting, spare;
    unsigned waiting_count, spare_count;
    unsigned *waiting_of_user; /* of all sessions of its user together */
    unsigned owed;             /* requests taken and not answered */
    bool posted;               /* the ring has something new; whoever wakes the client clears it */
};

void answers_init(struct answers *answers, struct hf_ring_agent *ring, unsigned *waiting_of_user);
/* Drops all. */
void answers_free(struct answers *answers);

/* Makes a place for one more answer; then a request may be taken. HF_ENOMEM: not now. */
int answers_reserve(struct answers *answers);
/* A request was taken that is answered; or it gets no answer after all, and its place is free again. */
void answers_owe(struct answers *answers);
void answers_owe_no_more(struct answers *answers);

/* The answer to a request: put into the ring, or it waits for room. */
void answers_put(struct answers *answers, const struct hf_completion_entry *entry);
/* A completion that comes before an answer. HF_ENOMEM: there is no place for it. */
int answers_put_item(struct answers *answers, const struct hf_completion_entry *entry);
/* Whether there is room to spare for a completion that may be left out. */
bool answers_take_hint(const struct answers *answers);
/* Such a completion. False: it was left out. */
bool answers_put_hint(struct answers *answers, const struct hf_completion_entry *entry);

/* Posts the completions that wait for room. */
void answers_flush(struct answers *answers);

#endif
