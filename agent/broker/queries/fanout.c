#include "agent/broker/nodes/nodes.h"
#include "agent/base/thread.h"
#include "agent/broker/queries/fanout.h"
#include "agent/broker/queries/queries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/broker/clients/users.h"
#include "shm/assert.h"
#include "shm/status.h"

/* Of all users, awaited; one is a command on each node. */
#define FANOUTS_MOST 1024
/* A node with so many overdue ones gets no more: it does not answer. */
#define OVERDUE_MOST 256
/* A node with so many open commands gets none that no lease needs: leases need the rest of its link. */
#define IN_FLIGHT_MOST 3072

static void fanout_free(struct fanout *fanout)
{
    hf_assert(fanout->calls == 0 && !fanout->user, "calls %d, awaited %d", fanout->calls,
              fanout->awaited);
    LIST_REMOVE(fanout, all);
    loop_timer_cancel(fanout->queries->loop, &fanout->timer);
    free(fanout);
}

void fanout_place_take(struct queries *queries, struct user *user)
{
    user->fanouts++;
    queries->fanout_count++;
}

void fanout_place_leave(struct queries *queries, struct user *user)
{
    hf_assert(user->fanouts > 0 && user->fanouts <= queries->fanout_count, "fan-outs %u of %u",
              user->fanouts, queries->fanout_count);
    user->fanouts--;
    queries->fanout_count--;
}

/* It counts for its user no more. */
static void fanout_pass(struct fanout *fanout)
{
    if (fanout->user)
        fanout_place_leave(fanout->queries, fanout->user);
    fanout->user = NULL;
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

/* An answer, or the deadline before it. */
static void fanout_count(struct fanout *fanout, int node, const struct link_reply *reply)
{
    unsigned *overdue = &fanout->queries->overdue[node];
    bool was_overdue = fanout->node[node].overdue;

    hf_assert(fanout->calls > 0 && (was_overdue ? *overdue > 0 : fanout->awaited > 0),
              "node %d, calls %d, awaited %d, overdue %u", node, fanout->calls, fanout->awaited,
              *overdue);
    fanout->calls -= reply->final;
    fanout->awaited -= !was_overdue;
    fanout->node[node].overdue = !reply->final;
    *overdue += (unsigned)!reply->final - was_overdue;
    if (fanout->awaited == 0)
        fanout_pass(fanout);
}

static void fanout_on_reply(struct link *link, const struct link_reply *reply, void *arg)
{
    struct fanout *fanout = arg;
    int node = link_node(link);

    ASSERT_BROKER_THREAD();
    nodes_on_reply(fanout->queries->nodes, node, reply);
    fanout_count(fanout, node, reply);
    if (fanout->fn) {
        fanout_hear(fanout, node, reply);
        fanout_review(fanout);
    } else if (fanout->calls == 0) {
        fanout_free(fanout);
    }
}

/* False: it is away, or does not answer. */
static bool fanout_reaches(const struct queries *queries, int node)
{
    const struct nodes *nodes = queries->nodes;

    return nodes->node[node].up && !nodes->node[node].trust.refused &&
           queries->overdue[node] < OVERDUE_MOST;
}

/* It answers, and has more to do than it may have from queries. */
static bool fanout_would_delay(const struct queries *queries, int node)
{
    struct link *const *links = queries->nodes->links;

    return link_in_flight(links[node]) >= IN_FLIGHT_MOST &&
           !links_is_overdue(links, queries->n, queries->q, node, clock_now());
}

int fanout_judge(const struct queries *queries, const struct user *user, char *text, size_t size)
{
    for (int i = 0; i < queries->n; i++)
        if (fanout_reaches(queries, i) && fanout_would_delay(queries, i)) {
            snprintf(text, size, "node %s has %d commands under way; try again",
                     queries->config->nodes[i].id, link_in_flight(queries->nodes->links[i]));
            return HF_ELIMIT;
        }
    return user_judge_fanout(user, FANOUTS_MOST, queries->fanout_count, text, size);
}

static bool fanout_ask(struct fanout *fanout, const struct fanout_order *order, int node)
{
    struct queries *queries = fanout->queries;
    struct link *link = queries->nodes->links[node];
    hf_time deadline = hf_time_add(clock_now(), queries->config->timing.attempt);
    int rc;

    if (!fanout_reaches(queries, node) || link_in_flight(link) >= IN_FLIGHT_MOST)
        return false;
    if (order->kind == FANOUT_TRACK)
        link_track(link);
    rc =
        order->kind == FANOUT_FORCE
            ? link_force(link, order->force, deadline, fanout_on_reply, fanout)
            : link_query(link, order->key, order->key_len, true, deadline, fanout_on_reply, fanout);
    if (rc == HF_OK)
        link_flush(link);
    return rc == HF_OK;
}

static void fanout_ask_all(struct fanout *fanout, const struct fanout_order *order)
{
    struct queries *queries = fanout->queries;

    for (int i = 0; i < queries->n; i++) {
        fanout->node[i].asked = fanout_ask(fanout, order, i);
        if (fanout->node[i].asked)
            fanout->calls++;
        else
            tally_silent(&fanout->tally, i);
    }
    hf_assert(fanout->calls <= queries->n, "calls %d, nodes %d", fanout->calls, queries->n);
    fanout->awaited = fanout->calls;
    if (fanout->awaited == 0)
        return;
    fanout->user = order->user;
    fanout_place_take(queries, fanout->user);
}

int fanout_begin(struct queries *queries, const struct fanout_order *order, fanout_fn *fn,
                 void *arg, struct fanout **ret_fanout)
{
    struct fanout *fanout = calloc(1, sizeof(*fanout));

    if (!fanout)
        return HF_ENOMEM;
    fanout->queries = queries;
    fanout->grace = order->grace;
    fanout->fn = fn;
    fanout->arg = arg;
    fanout->timer.fn = fanout_on_timer;
    tally_init(&fanout->tally, queries->n, queries->q);
    servers_twins(&queries->nodes->servers, NULL, queries->n, &fanout->tally.twins);
    LIST_INSERT_HEAD(&queries->fanouts, fanout, all);
    fanout_ask_all(fanout, order);
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
