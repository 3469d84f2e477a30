#include "agent/broker/queries/queries.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/queries/fanout.h"
#include "agent/core/fence.h"
#include "agent/core/once.h"
#include "agent/state/events.h"
#include "agent/redis/link.h"
#include "shm/assert.h"
#include "shm/status.h"

/* One order to all nodes, and their answers. */
struct order {
    struct inquiry *inquiry;
    struct once once;
    uint32_t only_tell; /* bit per node: it was asked for what it remembers, and has no vote */
};

#define TRIES_MOST 3 /* of a write that q nodes take in time */
/* For a start that an earlier agent found, and overwrote: each node knows what it had. */
#define AS_IT_WAS (-1)

/* What a lease asked, and the run that it took, for as long as the lease lives. Few leases ask, so no lease has room for it. */
struct once_take {
    LIST_ENTRY(once_take) of_bucket;
    uint32_t slot, generation;
    int64_t turn; /* given out last */
    bool took;    /* if not, the rest means nothing */
    int64_t asker;
    int64_t before_us; /* the start that counts again when it is taken back; 0 none, or AS_IT_WAS */
};

struct inquiry {
    LIST_ENTRY(inquiry) all;
    LIST_ENTRY(inquiry) of_session;
    struct queries *queries;
    struct session
        *session; /* NULL: it was answered, or is gone. Until then its user has one fan-out more */
    uint64_t id;
    int64_t asker;
    hf_dur period;
    uint64_t fence; /* whole */
    enum once_step step;
    int64_t turn;
    bool mends;           /* nobody waits for what is written */
    bool forgets;         /* the last run counts no more */
    bool told;            /* by an operator, or only asked: it is about no lease */
    int64_t at_us, ended; /* to be written */
    hf_dur allowance;     /* how far ahead of the write `at_us` is */
    hf_time until;        /* `at_us` by our clock: the answer says so */
    int tries;
    struct once_record before; /* the start that was found */
    struct hf_wire_holder by;  /* who wrote it; of a run of this host: who runs it */
    struct hf_wire_holder said_by[HF_NODES_MAX]; /* who wrote that node's */
    uint32_t slot, generation;
    struct order orders[ONCE_STEPS];
    int calls; /* without a final answer */
    uint8_t key[CONFIG_KEY_MAX];
    size_t key_len;
};

static void onces_on_reply(struct link *link, const struct link_reply *reply, void *arg);

static void onces_inquiry_free(struct inquiry *i)
{
    hf_assert(i->calls == 0, "calls %d, step %d", i->calls, (int)i->step);
    LIST_REMOVE(i, all);
    free(i);
}

static void onces_leave_session(struct inquiry *i)
{
    hf_assert(i->session, "step %d", (int)i->step);
    fanout_place_leave(i->queries, i->session->user);
    i->session = NULL;
    LIST_REMOVE(i, of_session);
}

static void onces_answer(struct inquiry *i, int status, const char *text) IN_BROKER_THREAD
{
    struct hf_completion_entry e = {.id = i->id,
                                    .op = HF_OP_ONCE,
                                    .status = status,
                                    .fence = i->before.at_us > 0 ? (uint64_t)i->before.at_us : 0,
                                    .deadline_ns = i->until.ns,
                                    .holder = i->by,
                                    .once_end = (uint8_t)(i->before.ended & 0xff),
                                    .once_code = (uint8_t)(i->before.ended >> 8)};
    struct session *s = i->session;

    if (!s)
        return;
    onces_leave_session(i);
    snprintf(e.text, sizeof(e.text), "%s", text);
    session_answer(s, &e);
}

static struct once_take_list *onces_takes_of(struct queries *queries, uint32_t slot)
{
    return &queries->once_takes[slot % HF_LENGTH(queries->once_takes)];
}

static void onces_take_free(struct once_take *take)
{
    LIST_REMOVE(take, of_bucket);
    free(take);
}

/* NULL: this very lease has not asked this agent. Those of leases that are over go. */
static struct once_take *onces_take_find(struct queries *queries, uint32_t slot,
                                         uint32_t generation) IN_BROKER_THREAD
{
    struct once_take *take, *next, *found = NULL;

    for (take = LIST_FIRST(onces_takes_of(queries, slot)); take; take = next) {
        next = LIST_NEXT(take, of_bucket);
        if (!names_lease(queries->locks, take->slot, take->generation))
            onces_take_free(take);
        else if (take->slot == slot && take->generation == generation)
            found = take;
    }
    return found;
}

static struct once_take *onces_take_make(struct queries *queries, uint32_t slot,
                                         uint32_t generation) IN_BROKER_THREAD
{
    struct once_take *take = onces_take_find(queries, slot, generation);

    if (take)
        return take;
    take = calloc(1, sizeof(*take));
    if (!take)
        return NULL;
    take->slot = slot;
    take->generation = generation;
    LIST_INSERT_HEAD(onces_takes_of(queries, slot), take, of_bucket);
    return take;
}

static void onces_take_note(struct inquiry *i) IN_BROKER_THREAD
{
    struct once_take *take = onces_take_find(i->queries, i->slot, i->generation);

    if (!take) /* the lease is over */
        return;
    if (take->took && take->asker == i->asker) /* it asks again: what it finds is its own */
        i->before.at_us = take->before_us;
    take->took = true;
    take->asker = i->asker;
    take->before_us = i->before.at_us;
}

static struct inquiry *onces_inquiry_new(struct queries *queries, struct session *s,
                                         uint64_t id) IN_BROKER_THREAD
{
    struct inquiry *i = calloc(1, sizeof(*i));

    if (!i)
        return NULL;
    i->queries = queries;
    i->session = s;
    i->id = id;
    i->by.pttl_ms = -2;
    LIST_INSERT_HEAD(&queries->inquiries, i, all);
    LIST_INSERT_HEAD(&s->inquiries, i, of_session);
    fanout_place_take(queries, s->user);
    return i;
}

/* The next one of that lease. NULL: no memory; without it of the turn a second request of the lease would have the same one. */
static struct inquiry *onces_inquiry_of_lease(struct queries *queries, struct session *s,
                                              uint64_t id, const struct lease *lease,
                                              hf_dur period) IN_BROKER_THREAD
{
    struct once_take *take = onces_take_make(queries, lease->slot, lease->generation);
    struct inquiry *i = take ? onces_inquiry_new(queries, s, id) : NULL;

    if (!i)
        return NULL;
    take->turn = once_turn(fence_handoffs(lease->fence), hf_time_since(clock_now(), lease->since),
                           take->turn);
    i->turn = take->turn;
    i->slot = lease->slot;
    i->generation = lease->generation;
    i->period = period;
    i->fence = lease->fence;
    i->key_len = lease->key_len;
    memcpy(i->key, lease_key(lease), lease->key_len);
    return i;
}

/* (!) A server of our fleet that may not vote, be it refused or with another version of the fleet, remembers what it took: it may
 * be the only one. */
static bool onces_only_tells(const struct inquiry *i, int node) IN_BROKER_THREAD
{
    const struct nodes *nodes = i->queries->nodes;

    return (i->step == ONCE_LOOK || i->step == ONCE_PEEK) &&
           fleet_is_of_our_fleet(&nodes->fleet_view, node) &&
           (nodes->node[node].trust.refused || !fleet_shows(&nodes->fleet_view, node));
}

static bool onces_send_to(struct inquiry *i, int node, struct order *order) IN_BROKER_THREAD
{
    struct nodes *nodes = i->queries->nodes;
    hf_time deadline = hf_time_add(clock_now(), i->queries->config->timing.attempt);
    const struct link_holder by = {.host = i->by.host,
                                   .command = i->by.comm,
                                   .note = "",
                                   .pid = i->by.pid,
                                   .uid = i->by.uid,
                                   .since = {i->at_us / 1000}};
    struct link_once sent = {
        .key = i->key,
        .key_len = i->key_len,
        .fence = fence_node_part(i->fence),
        .turn = i->step == ONCE_FORGET ? i->turn : i->turn + i->step,
        .step = i->step,
        .at_us = i->at_us,
        .asker = i->mends ? 0 : i->asker,
        .ended = i->ended,
        .by = *i->by.host ? &by : NULL,
        .retention_ms = hf_dur_ms(once_retention(i->period)),
        .nonce = nodes->node[node].trust.sentinel.nonce,
        .digest = nodes->fleet_view.digest,
    };
    hf_nodetime low, high;

    if (!nodes->node[node].up)
        return false;
    if (onces_only_tells(i, node)) {
        sent.step = ONCE_PEEK;
        order->only_tell |= UINT32_C(1) << node;
    } else if (nodes->node[node].trust.refused) {
        return false;
    }
    if (trust_node_time(&nodes->node[node].trust, deadline, &low, &high))
        sent.deadline = low;
    return link_once(nodes->links[node], &sent, deadline, onces_on_reply, order) == HF_OK;
}

static int64_t onces_now_us(const struct inquiry *i) IN_BROKER_THREAD
{
    hf_nodetime median = {clock_wall().ms * 1000};

    (void)nodes_time(i->queries->nodes, clock_now(), &median);
    return median.us;
}

static void onces_send_all(struct inquiry *i, enum once_step step) IN_BROKER_THREAD
{
    struct order *order = &i->orders[step];

    hf_assert((unsigned)step < ONCE_STEPS, "step %d after %d", (int)step, (int)i->step);
    i->step = step;
    order->inquiry = i;
    once_begin(&order->once, i->queries->n, i->queries->q, onces_now_us(i));
    servers_twins(&i->queries->nodes->servers, NULL, i->queries->n, &order->once.twins);
    for (int node = 0; node < i->queries->n; node++) {
        if (onces_send_to(i, node, order)) {
            i->calls++;
            link_flush(i->queries->nodes->links[node]);
        } else {
            once_silent(&order->once, node);
        }
    }
}

static void onces_too_few(struct inquiry *i) IN_BROKER_THREAD
{
    char text[120];

    snprintf(
        text, sizeof(text),
        "fewer than %d of %d nodes that may vote told when the job last ran, or took it down%s",
        i->queries->q, i->queries->n, i->tries == TRIES_MOST ? " in time" : "");
    onces_answer(i, HF_ENOQUORUM, text);
}

/* Whether it has run may be known to a node alone that did not answer. */
static void onces_too_young(struct inquiry *i) IN_BROKER_THREAD
{
    const struct once *once = &i->orders[ONCE_LOOK].once;
    const struct config *config = i->queries->nodes->config;
    int silent = 0, young = 0;
    char text[200];

    for (int node = once->n - 1; node >= 0; node--) {
        if (once->node[node].word != ONCE_SAID || once_doubts(once, node))
            silent = node;
        else if (!once->node[node].remembers)
            young = node;
    }
    snprintf(text, sizeof(text),
             "node %s is new in this period, or was restarted in it, so only node %s may know "
             "whether the job has run, and gives no answer that counts; start or mend that one",
             config->nodes[young].id, config->nodes[silent].id);
    onces_answer(i, HF_ENOQUORUM, text);
}

static void onces_done_already(struct inquiry *i, int64_t now) IN_BROKER_THREAD
{
    struct locks *locks = i->queries->locks;
    const struct lease *lease = names_lease(locks, i->slot, i->generation);
    int64_t ago_ms = now > i->before.at_us ? (now - i->before.at_us) / 1000 : 0;
    char text[160];

    if (lease)
        event_skipped(locks->agent, lease, ago_ms);

    snprintf(text, sizeof(text),
             "it has run in this period: it was started %" PRId64 ".%" PRId64 " s ago%s%s",
             ago_ms / 1000, ago_ms % 1000 / 100, *i->by.host ? " on " : "", i->by.host);
    onces_answer(i, HF_EDONE, text);
}

/* Its holder is about to run it, on this host. */
static void onces_is_ours(struct inquiry *i) IN_BROKER_THREAD
{
    const struct agent *agent = i->queries->agent;
    const struct lease *lease = names_lease(i->queries->locks, i->slot, i->generation);

    i->by = (struct hf_wire_holder){.pttl_ms = -2};
    snprintf(i->by.host, sizeof(i->by.host), "%s", agent->host);
    if (lease) {
        i->by.pid = lease->pid;
        i->by.uid = lease->uid;
        snprintf(i->by.comm, sizeof(i->by.comm), "%.*s", (int)lease->comm_len, lease_comm(lease));
    }
}

static void onces_find(struct inquiry *i, const struct once *once, int64_t now) IN_BROKER_THREAD
{
    int node = once_standing(once, now, i->period);

    i->before = once_record_of(once, node);
    if (node >= 0)
        i->by = i->said_by[node];
}

/* (!) By clocks that are apart another host may find that no run is of this period. */
static bool onces_clocks_agree(struct inquiry *i, hf_time now, int64_t *ret_now_us) IN_BROKER_THREAD
{
    const struct nodes *nodes = i->queries->nodes;
    hf_dur most = once_clocks_apart(i->period);
    hf_nodetime time = {0};
    int64_t ahead_us = 0, off_us;
    int node = 0;
    uint32_t near = nodes_agree(nodes, most, now, &time, &node, &ahead_us);
    char text[160];

    if (twins_count(&i->orders[ONCE_LOOK].once.twins, near) >= i->queries->q) {
        *ret_now_us = time.us;
        return true;
    }
    off_us = ahead_us < 0 ? -ahead_us : ahead_us;
    snprintf(text, sizeof(text),
             "fewer than %d of %d nodes agree on the time: node %s's clock is %" PRId64 ".%" PRId64
             " s %s; correct that server's clock",
             i->queries->q, i->queries->n, nodes->config->nodes[node].id, off_us / 1000000,
             off_us % 1000000 / 100000, ahead_us < 0 ? "behind" : "ahead");
    if (off_us <= most.ns / HF_NS_PER_US) /* too few are up */
        onces_too_few(i);
    else
        onces_answer(i, HF_ENOQUORUM, text);
    return false;
}

static void onces_looked(struct inquiry *i) IN_BROKER_THREAD
{
    const struct once *once = &i->orders[ONCE_LOOK].once;
    hf_time instant = clock_now();
    int64_t now;
    bool ours;

    if (!onces_clocks_agree(i, instant, &now))
        return;
    onces_find(i, once, now);
    /* Then it asks again: after a reconnect, or since an answer was missing or too late. */
    ours = once_is_of(&i->before, fence_node_part(i->fence), i->asker);
    if (!ours && once_is_done(i->before.at_us, now, i->period)) {
        onces_done_already(i, now);
        if (!once_differs(once, &i->before))
            return;
        /* A node that forgot it, or was away, is told. */
        i->mends = true;
        i->at_us = i->before.at_us;
        i->ended = i->before.ended;
    } else if (!ours && !once_proves_none(once)) {
        onces_too_young(i);
        return;
    } else {
        i->at_us = now + i->allowance.ns / HF_NS_PER_US;
        i->until = hf_time_add(instant, i->allowance);
        onces_is_ours(i);
        if (ours)
            i->before.at_us = AS_IT_WAS;
        onces_take_note(i);
    }
    onces_send_all(i, ONCE_WRITE);
}

static void onces_begin(struct inquiry *i, enum once_step step) IN_BROKER_THREAD;

/* (!) Not in the same inquiry: a late answer to its first write is none to the second. */
static int onces_ask_again(struct inquiry *i, hf_dur took) IN_BROKER_THREAD
{
    const struct lease *lease = names_lease(i->queries->locks, i->slot, i->generation);
    struct session *s = i->session;
    struct inquiry *again;

    if (!lease)
        return HF_ELOST;
    again = onces_inquiry_of_lease(i->queries, s, i->id, lease, i->period);
    if (!again)
        return HF_ENOMEM;
    onces_leave_session(i);
    again->asker = i->asker;
    again->allowance = once_allowance(i->period, took);
    again->tries = i->tries;
    onces_begin(again, ONCE_LOOK);
    return HF_OK;
}

static void onces_written(struct inquiry *i, enum once_outcome outcome) IN_BROKER_THREAD
{
    hf_time now = clock_now();
    int status = HF_OK;

    if (outcome == ONCE_ENOUGH && once_is_in_time(i->until, now, i->allowance)) {
        onces_answer(i, HF_OK, "");
        return;
    }
    if (outcome == ONCE_ENOUGH && ++i->tries < TRIES_MOST) {
        status = onces_ask_again(i, hf_time_since(now, hf_time_sub(i->until, i->allowance)));
        if (status == HF_OK)
            return;
    }
    if (status < 0)
        onces_answer(i, status, "");
    else
        onces_too_few(i);
    /* The job is not started: else whoever asks next takes it for done. */
    i->mends = true;
    i->at_us = i->before.at_us;
    onces_send_all(i, ONCE_TAKE_BACK);
}

/* What the nodes had of the last run; HF_ENOTHELD: nothing. */
static void onces_peeked(struct inquiry *i, bool few) IN_BROKER_THREAD
{
    const struct once *once = &i->orders[ONCE_PEEK].once;
    struct once_record seen = once_seen(once);

    onces_find(i, once, onces_now_us(i));
    if (few) {
        onces_too_few(i);
    } else if (i->before.at_us == 0) {
        onces_answer(i, HF_ENOTHELD, "the nodes have no run of it, or none that counts");
    } else if (!i->forgets) {
        onces_answer(i, HF_OK, "");
    } else {
        /* (!) After all that have asked: whoever comes later finds it, and who has only looked writes nothing. */
        i->fence = fence_make(seen.seen, 0);
        i->turn = once_turn_to_forget(seen.seen_turn);
        onces_send_all(i, ONCE_FORGET);
    }
}

static void onces_tell_of_doubts(struct inquiry *i) IN_BROKER_THREAD
{
    const struct once *once = &i->orders[i->step].once;
    struct nodes *nodes = i->queries->nodes;

    for (int node = 0; node < once->n; node++)
        if (once_doubts(once, node))
            nodes_doubt(nodes, node, DOUBT_ONCE, i->key, i->key_len);
        else if (once->node[node].word == ONCE_SAID &&
                 i->step != ONCE_PEEK) /* which takes any asker */
            nodes_believe(nodes, node, DOUBT_ONCE, i->key, i->key_len);
}

static void onces_review(struct inquiry *i) IN_BROKER_THREAD
{
    const struct once *once = &i->orders[i->step].once;
    enum once_outcome outcome = i->step == ONCE_WRITE ? once_taken(once) : once_decide(once);
    bool few = outcome == ONCE_FEW || (i->step != ONCE_LOOK && outcome != ONCE_ENOUGH);

    if (outcome == ONCE_OPEN || i->mends || !i->session)
        return;
    onces_tell_of_doubts(i);
    if (i->step == ONCE_PEEK)
        onces_peeked(i, few);
    else if (outcome == ONCE_LATE && i->told)
        onces_answer(i, HF_EBUSY, "a run has begun meanwhile; look at it, then try again");
    else if (outcome == ONCE_LATE)
        onces_answer(i, HF_ELOST, "another holder has asked since, with a later fence");
    else if (i->step == ONCE_WRITE)
        onces_written(i, outcome);
    else if (few)
        onces_too_few(i);
    else if (i->step == ONCE_LOOK)
        onces_looked(i);
    else
        onces_answer(i, HF_OK, "");
}

/* A step that reaches no node is decided at once. */
static void onces_review_all(struct inquiry *i) IN_BROKER_THREAD
{
    enum once_step step;

    do {
        step = i->step;
        onces_review(i);
    } while (i->step != step);
}

static void onces_on_reply(struct link *link, const struct link_reply *reply, void *arg)
{
    struct order *order = arg;
    struct inquiry *i = order->inquiry;
    struct nodes *nodes = i->queries->nodes;
    bool answered = reply->outcome == LINK_ANSWERED;
    int node = link_node(link);
    hf_time now = clock_now();

    ASSERT_BROKER_THREAD();
    nodes_on_reply(nodes, node, reply);
    if (answered && reply->verdict == VERDICT_OK && !reply->late) {
        i->said_by[node] = reply->holder;
        /* (!) A node that may have forgotten has no vote: that it knows of no run proves nothing. */
        once_said(
            &order->once, node, nodes_may_vote(nodes, node, now) && !(order->only_tell >> node & 1),
            trust_remembers(&nodes->node[node].trust, once_memory(i->period), clock_wall(), now),
            &reply->once);
    } else if (answered && reply->verdict == VERDICT_LOW) {
        once_refused(&order->once, node, reply->fence);
    } else {
        once_silent(&order->once, node);
    }
    hf_assert(i->calls > 0, "node %d, step %d", node, (int)i->step);
    i->calls -= reply->final;
    if (order == &i->orders[i->step])
        onces_review_all(i);
    if (i->calls == 0)
        onces_inquiry_free(i);
}

static void onces_refuse(struct session *s, const struct hf_request_entry *q, int status,
                         const char *text) IN_BROKER_THREAD
{
    struct hf_completion_entry e = {.id = q->id, .op = q->op, .status = status};

    snprintf(e.text, sizeof(e.text), "%s", text);
    session_answer(s, &e);
}

static void onces_begin(struct inquiry *i, enum once_step step) IN_BROKER_THREAD
{
    onces_send_all(i, step);
    onces_review_all(i);
    if (i->calls == 0)
        onces_inquiry_free(i);
}

/* By name: about the last run, whoever holds the lock. */
static void onces_ask_of_name(struct queries *queries, struct session *s,
                              const struct hf_request_entry *q) IN_BROKER_THREAD
{
    bool forgets = q->flags & HF_REQ_FORGET;
    char text[184] = "";
    struct inquiry *i;

    if (!rights_allow(s, forgets ? RIGHT_FORCE : RIGHT_SEE, q->name, q->name_len, text,
                      sizeof(text))) {
        onces_refuse(s, q, HF_EPERM, text);
        return;
    }
    i = onces_inquiry_new(queries, s, q->id);
    if (!i) {
        onces_refuse(s, q, HF_ENOMEM, "");
        return;
    }
    i->told = true;
    i->forgets = forgets;
    if (config_key(queries->config, q->name, q->name_len, i->key, &i->key_len) < 0)
        onces_answer(i, HF_ENAME, "");
    else if (forgets)
        log_warn("user %" PRIu32 " (process %" PRIu32 ") has the last run of %s forgotten", s->uid,
                 s->pid, log_name(q->name, q->name_len, text, sizeof(text)));
    onces_begin(i, ONCE_PEEK);
}

static enum once_step onces_step_of(struct inquiry *i, const struct hf_request_entry *q,
                                    const struct once_take *take)
{
    if (q->flags & HF_REQ_TAKE_BACK) {
        i->at_us = take->before_us;
        return ONCE_TAKE_BACK;
    }
    if (q->flags & HF_REQ_ENDED) {
        i->ended = (int64_t)(q->target & 0xffff);
        return ONCE_END;
    }
    i->asker = (int64_t)(q->target & INT64_MAX);
    return ONCE_LOOK;
}

void onces_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct locks *locks = queries->locks;
    const struct lease *lease = names_lease(locks, q->slot, q->generation);
    const struct once_take *take;
    struct inquiry *i;
    char text[184];

    if (queries->going) {
        onces_refuse(s, q, HF_ESHUTDOWN, "");
        return;
    }
    if (fanout_judge(queries, s->user, text, sizeof(text)) < 0) {
        onces_refuse(s, q, HF_ELIMIT, text);
        return;
    }
    if (q->name_len) {
        onces_ask_of_name(queries, s, q);
        return;
    }
    if (!lease || lease->ending || locks->by_slot[q->slot]->holder != s->client) {
        onces_refuse(s, q, HF_ELOST, "the lock is not held");
        return;
    }
    if (!q->period_ms) {
        onces_refuse(s, q, HF_EINVAL, "give a period above 0");
        return;
    }
    take = onces_take_find(queries, q->slot, q->generation);
    /* (!) By our memory and not by its word: who may take a name may not have others' runs forgotten. */
    if (q->flags & HF_REQ_TAKE_BACK && (!take || !take->took)) {
        onces_refuse(s, q, HF_ENOTHELD, "this agent knows of no run that began under this lease");
        return;
    }
    i = onces_inquiry_of_lease(queries, s, q->id, lease, hf_ms(q->period_ms));
    if (!i) {
        onces_refuse(s, q, HF_ENOMEM, "");
        return;
    }
    i->allowance = once_allowance(i->period, hf_ms(0));
    onces_begin(i, onces_step_of(i, q, take));
}

void onces_drop_session(struct session *s)
{
    struct inquiry *i;

    while ((i = LIST_FIRST(&s->inquiries)))
        onces_leave_session(i);
}

void onces_go_away(struct queries *queries)
{
    struct inquiry *i;

    LIST_FOREACH (i, &queries->inquiries, all)
        onces_answer(i, HF_ESHUTDOWN, "");
}

void onces_destroy(struct queries *queries)
{
    struct inquiry *i;

    while ((i = LIST_FIRST(&queries->inquiries)))
        onces_inquiry_free(i);
    for (size_t k = 0; k < HF_LENGTH(queries->once_takes); k++)
        while (!LIST_EMPTY(&queries->once_takes[k]))
            onces_take_free(LIST_FIRST(&queries->once_takes[k]));
}
