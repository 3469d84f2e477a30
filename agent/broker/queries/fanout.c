#include "agent/broker/nodes/node_answers.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/base/thread_role.h"
#include "agent/broker/queries/fanout.h"
#include "agent/broker/queries/queries.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "shm/assert.h"
#include "shm/status.h"

/* A node with so many open commands gets none that no lease needs. */
#define IN_FLIGHT_MOST 1024

static void fanout_free(struct fanout *fanout)
{
    hf_assert(fanout->calls == 0 && fanout->queries->fanout_count > 0, "calls %d", fanout->calls);
    LIST_REMOVE(fanout, all);
    fanout->queries->fanout_count--;
    loop_timer_cancel(fanout->queries->loop, &fanout->timer);
    free(fanout);
}

static void fanout_tell(struct fanout *fanout)
{
    fanout_fn *fn = fanout->fn;

    fanout->fn = NULL;
    loop_timer_cancel(fanout->queries->loop, &fanout->timer);
    if (fn)
        fn(fanout, fanout->arg);
}

static void fanout_on_timer(struct loop_timer *timer, hf_time now)
{
    struct fanout *fanout = HF_CONTAINER(timer, struct fanout, timer);

    (void)now;
    fanout_tell(fanout);
    if (fanout->calls == 0)
        fanout_free(fanout);
}

/* Tells the outcome once it is certain; at once if no node is awaited. */
static void fanout_review(struct fanout *fanout)
{
    hf_dur wait = fanout->grace;

    if (!fanout->fn || tally_decide(&fanout->tally) == TALLY_OPEN)
        return;
    if (tally_complete(&fanout->tally))
        wait = hf_ms(0);
    else if (heap_has(&fanout->timer.item))
        return;
    loop_timer_set(fanout->queries->loop, &fanout->timer, hf_time_add(clock_now(), wait));
}

static void fanout_hear(struct fanout *fanout, int node,
                        const struct link_reply *reply) IN_BROKER_THREAD
{
    struct queries *queries = fanout->queries;

    fanout->node[node].error = reply->error;
    if (reply->outcome != LINK_ANSWERED) {
        if (!reply->late)
            tally_silent(&fanout->tally, node);
        return;
    }
    fanout->node[node].fence = reply->fence;
    fanout->node[node].forced = reply->forced;
    fanout->node[node].tracked = reply->tracked;
    fanout->node[node].holder = reply->holder;
    if (reply->verdict == VERDICT_TAKEN || reply->verdict == VERDICT_OK)
        tally_key(&fanout->tally, node, reply->id, reply->holder.pttl_ms);
    else if (nodes_may_vote(queries->nodes, node, clock_now()))
        tally_no_key(&fanout->tally, node);
    else
        tally_silent(&fanout->tally, node);
}

static void fanout_on_reply(struct link *link, const struct link_reply *reply, void *arg)
{
    struct fanout *fanout = arg;
    int node = link_node(link);

    is_broker_thread();
    nodes_on_reply(fanout->queries->nodes, node, reply);
    hf_assert(fanout->calls > 0, "node %d", node);
    fanout->calls -= reply->final;
    if (fanout->fn) {
        fanout_hear(fanout, node, reply);
        fanout_review(fanout);
    } else if (fanout->calls == 0) {
        fanout_free(fanout);
    }
}

static bool fanout_ask(struct fanout *fanout, enum fanout_kind kind, int node, const void *key,
                       size_t key_len, const struct link_force *force)
{
    struct queries *queries = fanout->queries;
    struct link *link = queries->nodes->links[node];
    hf_time deadline = hf_time_add(clock_now(), queries->config->timing.attempt);
    int rc;

    if (!queries->nodes->node[node].up || queries->nodes->node[node].trust.refused ||
        link_in_flight(link) > IN_FLIGHT_MOST)
        return false;
    if (kind == FANOUT_TRACK)
        link_track(link);
    rc = kind == FANOUT_FORCE
             ? link_force(link, force, deadline, fanout_on_reply, fanout)
             : link_query(link, key, key_len, true, deadline, fanout_on_reply, fanout);
    if (rc == HF_OK)
        link_flush(link);
    return rc == HF_OK;
}

int fanout_begin(struct queries *queries, enum fanout_kind kind, const void *key, size_t key_len,
                 const struct link_force *force, hf_dur grace, fanout_fn *fn, void *arg,
                 struct fanout **ret_fanout)
{
    struct fanout *fanout = calloc(1, sizeof(*fanout));

    if (!fanout)
        return HF_ENOMEM;
    fanout->queries = queries;
    fanout->grace = grace;
    fanout->fn = fn;
    fanout->arg = arg;
    fanout->timer.fn = fanout_on_timer;
    tally_init(&fanout->tally, queries->n, queries->q);
    servers_twins(&queries->nodes->servers, NULL, queries->n, &fanout->tally.twins);
    LIST_INSERT_HEAD(&queries->fanouts, fanout, all);
    queries->fanout_count++;
    for (int i = 0; i < queries->n; i++) {
        fanout->node[i].asked = fanout_ask(fanout, kind, i, key, key_len, force);
        if (fanout->node[i].asked)
            fanout->calls++;
        else
            tally_silent(&fanout->tally, i);
    }
    hf_assert(fanout->calls <= queries->n, "calls %d, nodes %d", fanout->calls, queries->n);
    fanout_review(fanout);
    *ret_fanout = fanout;
    return HF_OK;
}

void fanout_drop(struct fanout *fanout)
{
    if (!fanout)
        return;
    fanout->fn = NULL;
    loop_timer_cancel(fanout->queries->loop, &fanout->timer);
    if (fanout->calls == 0)
        fanout_free(fanout);
}

void fanouts_destroy(struct queries *queries)
{
    struct fanout *fanout;

    while ((fanout = LIST_FIRST(&queries->fanouts)))
        fanout_free(fanout);
}

/* How many nodes with the leader's key name that holder. A node whose record another's attempt wrote over names none. */
static int fanout_namers(const struct fanout *fanout, int leader,
                         const struct hf_wire_holder *holder)
{
    const struct tally *t = &fanout->tally;
    int count = 0;

    for (int i = 0; i < t->n && holder->fence; i++) {
        const struct hf_wire_holder *other = &fanout->node[i].holder;

        count += t->node[i].word == TALLY_A_KEY && !strcmp(t->node[i].id, t->node[leader].id) &&
                 other->fence == holder->fence && other->pid == holder->pid &&
                 other->uid == holder->uid && !strcmp(other->host, holder->host);
    }
    return count;
}

bool fanout_holder(const struct fanout *fanout, struct hf_wire_holder *ret_holder)
{
    const struct tally *t = &fanout->tally;
    int leader = tally_leader(t), best = leader;

    if (leader < 0)
        return false;
    /* One node may lie: the holder is whom most of them name. */
    for (int i = 0; i < t->n; i++)
        if (t->node[i].word == TALLY_A_KEY && !strcmp(t->node[i].id, t->node[leader].id) &&
            fanout_namers(fanout, leader, &fanout->node[i].holder) >
                fanout_namers(fanout, leader, &fanout->node[best].holder))
            best = i;
    *ret_holder = fanout->node[best].holder;
    ret_holder->pttl_ms = tally_lapse_ms(t, leader);
    return true;
}

int fanout_forced(const struct fanout *fanout)
{
    int count = 0;

    for (int i = 0; i < fanout->tally.n; i++)
        count += fanout->node[i].forced;
    return count;
}

int fanout_tracked(const struct fanout *fanout)
{
    int count = 0;

    for (int i = 0; i < fanout->tally.n; i++)
        count += fanout->node[i].tracked;
    return count;
}
