#include "agent/broker/locks/orders.h"

#include "agent/agent.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/young.h"

void order_renewal(struct locks *locks, struct message *m)
{
    if (m->kind != MSG_GRANTED && locks->by_slot[m->slot])
        young_hand_in(locks->by_slot[m->slot]);
    mailbox_post(&locks->agent->to_renewal, m);
}

void order_end(struct resource *r, enum message_kind kind, enum hf_loss_reason reason)
{
    struct message *m = message_new(kind);
    struct lease *lease = resource_lease(r);

    m->slot = r->slot;
    m->generation = lease->generation;
    m->reason = reason;
    if (kind == MSG_RELEASE && r->work->granted)
        lease->unanswered = r->work->granted->unanswered;
    order_renewal(resource_locks(r), m);
}

void order_losing(struct resource *r, bool killing)
{
    struct message *m = message_new(MSG_LOSE);

    m->slot = r->slot;
    m->generation = resource_lease(r)->generation;
    m->reason = HF_LOSS_GUARDIAN;
    m->killing = killing;
    order_renewal(resource_locks(r), m);
}
