/* Judging what the nodes answer. Every judgement reads the clock anew: a reply is worth what it is
 * worth when processed. */
#include "agent/renewal_internal.h"

#include <stdlib.h>

#include "agent/clock.h"

/* The next renewal after a hit that was sent at `a`, or whatever else the lease needs on that node
 * now. */
static void plan(struct renewal_node *node, struct lease *lease, hf_time a)
{
    const struct lease_fsm *fsm = &lease->fsm;

    if (fsm->node[node->number].d.ns == HF_TIME_PAST.ns) {
        /* Sent before the vote was found void: it does not count, and another may be sent at once.
         */
        renewal_schedule(node, lease, clock_now());
        return;
    }
    backoff_reset(&lease->node[node->number].retry);
    renewal_schedule(
        node, lease,
        hf_time_add(a, timing_renew_delay(&fsm->timing, renewal_random(node->renewal))));
}

static void on_hit(struct renewal_node *node, struct lease *lease, hf_time a)
{
    renewal_hit(node, lease, a);
    plan(node, lease, a);
}

static void on_missing(struct renewal_node *node, struct lease *lease)
{
    hf_time previous = lease->fsm.valid, now = clock_now();
    unsigned actions = lease_fsm_missing(&lease->fsm, node->number, node->trust.mark, now);

    renewal_act(node->renewal, lease, actions, previous);
    renewal_schedule(node, lease, now); /* healed at once */
}

static void on_foreign(struct renewal_node *node, struct lease *lease)
{
    hf_time previous = lease->fsm.valid, now = clock_now();
    unsigned actions = lease_fsm_foreign(&lease->fsm, node->number, now);

    renewal_act(node->renewal, lease, actions, previous);
    renewal_retry(node, lease, now);
}

/* --- renewals --------------------------------------------------------------------------------- */

static void judge_mark(struct renewal_node *node, struct lease *lease, char mark, hf_time a)
{
    switch (mark) {
    case '1':
        renewal_count(node->renewal, HF_COUNTER_RENEWED, 1);
        on_hit(node, lease, a);
        break;
    case '0':
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        on_missing(node, lease);
        break;
    default:
        renewal_count(node->renewal, HF_COUNTER_RENEW_MISSES, 1);
        on_foreign(node, lease);
        break;
    }
}

static void renewed(const struct renew_batch *batch, const struct link_reply *reply)
{
    struct renewal_node *node = batch->node;
    unsigned events = renewal_learn(node, reply);

    for (size_t k = 0; k < batch->count && k < reply->mark_count; k++) {
        struct lease *lease =
            renewal_find(node->renewal, batch->keys[k].slot, batch->keys[k].generation);

        if (!lease || lease_is_over(lease))
            continue;
        if (!reply->late)
            lease->node[node->number].in_flight = false;
        judge_mark(node, lease, reply->marks[k], reply->sent);
    }
    if (events & TRUST_STEPPED)
        renewal_stepped(node, reply->sent);
}

/* No answer, for now or for good. Nothing is known, so nothing changes but the time of the next
 * attempt. */
static void not_renewed(const struct renew_batch *batch)
{
    struct renewal_node *node = batch->node;
    hf_time now = clock_now();

    for (size_t k = 0; k < batch->count; k++) {
        struct lease *lease =
            renewal_find(node->renewal, batch->keys[k].slot, batch->keys[k].generation);

        if (!lease)
            continue;
        lease->node[node->number].in_flight = false;
        renewal_retry(node, lease, now);
    }
}

void renewal_on_renewed(struct link *link, const struct link_reply *reply, void *arg)
{
    struct renew_batch *batch = arg;
    struct renewal_node *node = batch->node;

    (void)link;
    if (!node->renewal->closing) {
        if (reply->outcome == LINK_ANSWERED)
            renewed(batch, reply);
        else if (!reply->late)
            not_renewed(batch);
    }
    if (reply->final) {
        batch->busy = false;
        if (node->renews-- == RENEWS_MAX)
            node->ready = clock_now();
    }
}

/* --- heals ------------------------------------------------------------------------------------ */

static void judge_heal(struct renewal_node *node, struct lease *lease,
                       const struct link_reply *reply)
{
    switch (reply->verdict) {
    case VERDICT_OK:
    case VERDICT_LOW: /* our key stands; the fence was the grant's affair */
        renewal_count(node->renewal, HF_COUNTER_HEALS, 1);
        on_hit(node, lease, reply->sent);
        break;
    case VERDICT_TAKEN:
        on_foreign(node, lease);
        break;
    case VERDICT_STALE:
    case VERDICT_SENTINEL:
    case VERDICT_GONE:
        renewal_retry(node, lease, clock_now());
        break;
    }
}

static void healed(struct heal *heal, const struct link_reply *reply)
{
    struct renewal_node *node = heal->node;
    struct renewal *r = node->renewal;
    struct lease *lease = renewal_find(r, heal->slot, heal->generation);
    unsigned events = renewal_learn(node, reply);

    if (lease && !lease_is_over(lease)) {
        struct lease_node *ln = &lease->node[node->number];

        if (!reply->late)
            ln->in_flight = false;
        if (!ln->in_flight)
            r->slots[lease->slot].doubt &= ~(UINT32_C(1) << node->number);
        judge_heal(node, lease, reply);
    } else if ((reply->verdict == VERDICT_OK || reply->verdict == VERDICT_LOW) &&
               (!lease || lease->release)) {
        /* (!) A late answer whose lease has ended is followed by a release on the same connection;
         * of a lost run, whose tree may still live, once the other keys are released. */
        renewal_undo(node, heal->key, heal->key_len, heal->token, heal->attempt, heal->ttl);
    }
    if (events & TRUST_STEPPED)
        renewal_stepped(node, reply->sent);
}

void renewal_on_healed(struct link *link, const struct link_reply *reply, void *arg)
{
    struct heal *heal = arg;
    struct renewal_node *node = heal->node;

    (void)link;
    if (!node->renewal->closing) {
        struct lease *lease = renewal_find(node->renewal, heal->slot, heal->generation);

        if (reply->outcome == LINK_ANSWERED) {
            healed(heal, reply);
        } else if (lease && !reply->late) {
            lease->node[node->number].in_flight = false;
            renewal_retry(node, lease, clock_now());
        }
    }
    if (reply->final) {
        node->heals--;
        free(heal);
    }
}
