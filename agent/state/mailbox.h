/* Messages between the agent's threads: liburcu's wait-free queue and the receiver's loop_wake().
 *
 * Who writes: any thread (mailbox_post). Who reads: the receiving thread only (mailbox_take, from
 * its loop's wake hook). Ordering: what was written before the post is seen after the take. A
 * message belongs to the receiver once posted.
 */
#ifndef HOLDFAST_AGENT_STATE_MAILBOX_H
#define HOLDFAST_AGENT_STATE_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <urcu/wfcqueue.h>

#include "agent/base/loop.h"
#include "agent/core/fleet_change.h"
#include "shm/layout.h"
#include "shm/nstime.h"

struct beats;
struct config_order;
struct fleet_order;
struct fleet_record;
struct handoff;
struct lease;

enum message_kind {
    /* broker to renewal thread */
    MSG_GRANTED,   /* `lease`: the renewal thread adopts it */
    MSG_VOTE,      /* a vote that came after the grant: slot, generation, node, at (= a) */
    MSG_RELEASE,   /* slot, generation: release it; `reason` HF_LOSS_HOLDER: its holder died */
    MSG_HAND_OVER, /* slot, generation, `handoff`: carry it out, or release the lease */
    MSG_LOSE,      /* slot, generation, reason: LOSING; `killing`: a guardian kills its job */
    MSG_BEATS,     /* slot, generation: its holder beats in `beats`, a reference, from here on */
    MSG_ABANDON,   /* slot, generation: a run's holder is gone without a word */
    MSG_TRUST,     /* both ways: node, events (enum trust_event bits) seen by the sender; the nonce
                    that the broker knows now, or under which a step was seen */
    MSG_FLEET,     /* `fleet`: go by this record; the receiver frees it */
    MSG_STOP,      /* stop the loop */
    /* renewal thread to broker */
    MSG_REFUSED,     /* node: it gave this error, with this text, to a release; NONE: no more */
    MSG_ANOTHER,     /* node: it told another record than ours, so that its answers do not count */
    MSG_CHANGED,     /* `lease`: state or reason changed, or V moved back: tell the holder */
    MSG_HANDED_OVER, /* `handoff`: done or refused, as it says */
    MSG_ENDED, /* `lease`: over, and q nodes answered its release or it timed out: the broker owns
                  it again */
    /* main thread to broker */
    MSG_GO_AWAY, /* the agent ends: answer waiters, undo rounds, stop */
    /* main thread to both */
    MSG_CONFIG, /* `order`: a reload */
    /* main thread to broker */
    MSG_FLEET_CHANGE, /* `change`: what an operator asks for */
};

/* Who asked a holder to stop; pid 0: nobody. */
struct asker {
    uint32_t pid, uid;
};

struct message {
    struct cds_wfcq_node node;
    enum message_kind kind;
    struct lease *lease;
    struct beats *beats;
    struct handoff *handoff;
    struct config_order *order; /* main's */
    struct fleet_order *change; /* main's */
    struct fleet_record *fleet;
    enum hf_node_error error;
    char *text; /* the receiver frees it; NULL: none */
    bool here;  /* MSG_FLEET: the fleet was founded by this host */
    uint32_t slot, generation;
    int node_number;
    hf_time at;
    unsigned events;
    enum hf_loss_reason reason;
    bool killing;
    struct asker by; /* MSG_LOSE */
    char nonce[33];
    char run_id[41]; /* MSG_TRUST, to the renewal thread; "" not known */
};

struct mailbox {
    struct cds_wfcq_head head;
    struct cds_wfcq_tail tail;
    struct loop *loop; /* the receiver's */
};

void mailbox_init(struct mailbox *box, struct loop *receiver);
/* Frees messages that were never taken. */
void mailbox_fini(struct mailbox *box);

/* A zeroed message of that kind; out of memory ends the program: a lost message would be a lost
 * lease. */
struct message *message_new(enum message_kind kind);

void mailbox_post(struct mailbox *box, struct message *message);
/* The oldest message, to be freed by the caller; NULL when there is none. */
struct message *mailbox_take(struct mailbox *box);

/* What the main thread tells the broker and the renewal thread of a reload (MSG_CONFIG).
 *
 * Who writes: main, before it posts the order; then only `taken`, by the threads. Who reads: the threads
 * that got it. The configuration is never changed. (!) A thread counts itself in `taken` when nothing of
 * it points into the configuration before any more: main then frees that one, and the order.
 */

struct config;

struct config_order {
    const struct config *config;  /* from now on; NULL: the reload was refused, nothing changes */
    char text[HF_EVENT_TEXT + 1]; /* what changes, or why it was refused */
    atomic_int taken;
};

static inline void config_order_taken(struct config_order *order)
{
    atomic_fetch_add_explicit(&order->taken, 1, memory_order_release);
}

/* What the main thread asks the broker for in an operator's name (MSG_FLEET_CHANGE), and its answer.
 *
 * Who writes: main, before it posts the order; then the broker, up to `taken`. Main frees it after that, or when
 * the broker thread has ended.
 */

struct fleet_order {
    struct fleet_wish wish;
    int rc; /* of fleet_change_begin() */
    char why[512];
    struct fleet_record record; /* HF_OK: what will be put */
    atomic_bool taken;
};

#endif
