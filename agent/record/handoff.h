/* Handing a lease over to a waiter of this host without asking the nodes: same token, next
 * generation, and a fence that is higher by one in its low part.
 *
 * The broker chooses the next holder (agent/broker/locks/handoffs.c) and asks the renewal thread, which owns the
 * lease (agent/renewal/renewal_handoff.c). The renewal thread judges anew, and either carries it out or releases
 * the lease. Order (!): journal {HANDOFF, new holder}; check word to 0; new identity and check word. Only
 * then does the broker tell the two processes. So an agent that is killed in between leaves the lease to
 * the old holder, whose handle is empty by then, or to the new one, but never to both.
 *
 * Who writes: the broker makes it; from MSG_HAND_OVER to MSG_HANDED_OVER it belongs to the renewal
 * thread, but for `waiter`, which stays the broker's.
 */
#ifndef HOLDFAST_AGENT_RECORD_HANDOFF_H
#define HOLDFAST_AGENT_RECORD_HANDOFF_H

#include <stdint.h>

#include "agent/core/handoff.h"
#include "agent/record/journal.h"
#include "agent/record/lease.h"

struct client;
struct resource;
struct waiter;

struct handoff {
    uint32_t slot, generation; /* of the lease that ends */
    struct lease *to;          /* all but the renewal thread's fields; its generation is the next */
    struct holder owner;
    uint32_t text_off;          /* offset of the next holder's text in the table */
    hf_time max_hold;           /* of the next holder */
    enum hf_loss_reason reason; /* why the old one ends */
    /* the answer */
    enum handoff_verdict verdict;
    hf_time valid;
    uint16_t voting;
    /* the broker's */
    struct resource *resource;
    struct client *client; /* kept until the answer */
    struct waiter *waiter; /* NULL: its session ended */
    bool unwanted;         /* it was cancelled meanwhile */
    bool new_text;         /* `to` has a text of its own in the table */
};

/* The facts by which a hand-off of `lease` is judged; `state` and `valid` as the caller's thread knows them. */
struct handoff_facts handoff_facts(const struct lease *lease, enum hf_slot_state state,
                                   hf_time valid, hf_dur next_ttl, hf_time next_end, hf_time now);

#endif
