#include "agent/broker/locks/orders.h"

#include "agent/agent.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/short_holds.h"

void order_renewal(struct locks *locks, struct message *m)
{
    if (m->kind != MSG_GRANTED && locks->by_slot[m->slot])
        short_hold_adopt(locks->by_slot[m->slot]);
    mailbox_post(&locks->agent->to_renewal, m);
}

static void orders_lose(struct resource *r, enum hf_loss_reason reason,
                        bool killing) IN_BROKER_THREAD
{
    struct message *m = message_new(MSG_LOSE);

    m->slot = r->slot;
    m->generation = resource_lease(r)->generation;
    m->reason = reason;
    m->killing = killing;
    order_renewal(resource_locks(r), m);
}

void order_lose(struct resource *r, enum hf_loss_reason reason)
{
    orders_lose(r, reason, false);
}

void order_losing(struct resource *r, bool killing)
{
    orders_lose(r, HF_LOSS_GUARDIAN, killing);
}
