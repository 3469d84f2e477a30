/* What one session owes its client: completions on their way into its ring.
 *
 * What the ring has no room for waits here, in its order. An answer is never dropped for want of memory: a
 * request is taken only while there is a place for its answer, in the ring or in memory that is set aside, and
 * whatever else goes to the client leaves that place alone. Only a client that takes its cursor back, so that
 * there is less room in its ring than there was, may miss one. Belongs to the broker thread.
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
    unsigned owed; /* requests taken and not answered */
    bool posted;   /* something came into the ring; whoever wakes the client clears it */
};

void answers_init(struct answers *answers, struct hf_ring_agent *ring);
/* Drops all. */
void answers_free(struct answers *answers);

/* Makes a place for one more answer; then a request may be taken. HF_ENOMEM: not now. */
int answers_reserve(struct answers *answers);
/* A request was taken that is to be answered; it goes without one after all. */
void answers_owe(struct answers *answers);
void answers_forgo(struct answers *answers);

/* The answer to a request; it is in the ring, or waits for room. */
void answers_put(struct answers *answers, const struct hf_completion_entry *entry);
/* What comes before an answer. HF_ENOMEM: there is no place for it. */
int answers_put_item(struct answers *answers, const struct hf_completion_entry *entry);
/* What may as well be missing, where there is no room to spare. */
void answers_put_hint(struct answers *answers, const struct hf_completion_entry *entry);

/* Posts what waits for room. */
void answers_flush(struct answers *answers);

#endif
