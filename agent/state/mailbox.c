#include "agent/state/mailbox.h"

#include <stdlib.h>

#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/compiler.h"

void mailbox_init(struct mailbox *box, struct loop *receiver)
{
    cds_wfcq_init(&box->head, &box->tail);
    box->loop = receiver;
}

void mailbox_fini(struct mailbox *box)
{
    struct message *message;

    while ((message = mailbox_take(box))) {
        beats_drop(message->beats);
        free(message->fleet);
        free(message->text);
        free(message);
    }
    cds_wfcq_destroy(&box->head, &box->tail);
}

struct message *message_new(enum message_kind kind)
{
    struct message *message = calloc(1, sizeof(*message));

    if (!message) {
        log_error("out of memory for a message between threads");
        log_flush();
        abort();
    }
    message->kind = kind;
    cds_wfcq_node_init(&message->node);
    return message;
}

void mailbox_post(struct mailbox *box, struct message *message)
{
    hf_assert(box->loop && message->kind <= MSG_FLEET_CHANGE, "message %d", (int)message->kind);
    tsan_release(message);
    cds_wfcq_enqueue(&box->head, &box->tail, &message->node);
    loop_wake(box->loop);
}

struct message *mailbox_take(struct mailbox *box)
{
    /* Non-blocking: the blocking form polls for 10 ms when a sender is preempted between its two
     * stores. */
    struct cds_wfcq_node *node = __cds_wfcq_dequeue_nonblocking(&box->head, &box->tail);
    struct message *message;

    if (!node)
        return NULL;
    if (node == CDS_WFCQ_WOULDBLOCK) {
        /* The sender will wake us again after its second store. */
        loop_wake(box->loop);
        return NULL;
    }
    message = HF_CONTAINER(node, struct message, node);
    tsan_acquire(message);
    return message;
}
