/* One acquire round: the same token to every node that may vote, at once; decided as soon as it is
 * certain.
 *
 * (!) A token lives for one round: once a release of it was sent anywhere it is never SET again.
 * (!) In doubt: an acquire without an answer may still run. The round lives until every node's
 * final answer came. A late success that is no use any more is followed by a release on that same
 * connection, and a broken connection by two releases (agent/redis/key_deleter.h).
 */
#include "agent/core/backoff.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/rounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/token.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/fence.h"
#include "shm/assert.h"
#include "shm/status.h"

static void round_reply(struct link *link, const struct link_reply *reply, void *arg);

/* An event of a round comes in. */
static void round_check(const struct round *round)
{
    const unsigned nodes = (1u << round->locks->n) - 1;

    hf_assert(round->calls >= 0, "calls %d", round->calls);
    hf_assert(((round->asked | round->written | round->unanswered | round->broken) & ~nodes) == 0,
              "asked %x, written %x, unanswered %x, broken %x", (unsigned)round->asked,
              (unsigned)round->written, (unsigned)round->unanswered, (unsigned)round->broken);
    hf_assert((round->unanswered & ~round->asked) == 0, "unanswered %x, asked %x",
              (unsigned)round->unanswered, (unsigned)round->asked);
    hf_assert(!round->over || round->decided, "calls %d", round->calls);
    hf_assert(round->over == !round->name, "over %d, decided %d", round->over, round->decided);
    hf_assert(round->decided || round->name->state->round == round, "calls %d, over %d",
              round->calls, round->over);
    hf_assert(!round->decided || !round->waiter, "calls %d, over %d", round->calls, round->over);
}

static void round_settle(struct round *round)
{
    hf_assert(round->calls >= 0 && round->locks->round_count > 0, "calls %d, rounds %d",
              round->calls, (int)round->locks->round_count);
    if (round->calls > 0 || !round->decided)
        return;
    if (!round->over) {
        struct lease *lease = name_lease(round->name);

        hf_assert(lease && round->name->state->granted == round, "slot %u, generation %u",
                  (unsigned)round->name->slot, (unsigned)round->name->generation);
        /* Its lease lives. A broken connection is remembered until the lease ends. */
        if (round->broken)
            return;
        round->name->state->granted = NULL;
        /* Every acquire was answered before the check word went to 0: their keys stood before the
         * first release of this lease left, and it deletes them. */
        if (atomic_load(&lease->valid_ns) != 0)
            lease->unanswered = 0;
        name_free_idle_state(round->name);
    }
    LIST_REMOVE(round, all);
    round->locks->round_count--;
    loop_timer_cancel(round->locks->loop, &round->overdue);
    free(round);
}

static void round_fill_lock(struct round *round, int node, struct link_lock *lock)
{
    struct locks *locks = round->locks;
    hf_time now = clock_now();
    hf_nodetime low, high;

    *lock = (struct link_lock){.key = round->key,
                               .key_len = round->key_len,
                               .token = &round->token,
                               .ttl_ms = (uint32_t)hf_dur_ms(round->timing.ttl),
                               .nonce = locks->nodes->node[node].trust.sentinel.nonce,
                               .digest = locks->nodes->fleet_view.digest,
                               .fence = round->ballot.fence,
                               .holder = round->described,
                               .words = &round->words};
    round->sent[node] = now;
    round->deadline[node] = hf_time_min(hf_time_add(now, round->timing.attempt),
                                        ballot_ends(&round->ballot, &round->timing));
    /* The lower bound of what the node's clock may say then: too early is harmless, too late is an
     * orphan key. */
    if (trust_node_time(&locks->nodes->node[node].trust, round->deadline[node], &low, &high))
        lock->deadline = low;
}

static void round_no_vote(struct round *round, int node, enum round_why why)
{
    round->why[node] = (uint8_t)why;
    ballot_answer(&round->ballot, node, BALLOT_NO, HF_TIME_PAST, 0);
}

/* (!) What it says now voids the vote that it gave before, too. */
static bool round_may_count(const struct round *round, int node, hf_time now) IN_BROKER_THREAD
{
    const struct nodes *nodes = round->locks->nodes;

    return trust_may_vote(&nodes->node[node].trust, now) && nodes_has_our_record(nodes, node);
}

static bool round_send(struct round *round, int node, bool raise)
{
    struct locks *locks = round->locks;
    struct link_lock lock;
    int rc;

    hf_assert(!round->decided, "node %d, over %d", node, round->over);
    round_fill_lock(round, node, &lock);
    if (round->track && !raise)
        link_track(locks->nodes->links[node]);
    rc = raise ? link_raise(locks->nodes->links[node], &lock, round->deadline[node], round_reply,
                            round)
               : link_acquire(locks->nodes->links[node], &lock, round->deadline[node], round_reply,
                              round);
    if (rc < 0)
        return false;
    round->calls++;
    round->asked |= 1u << node;
    round->written |= 1u << node;
    round->unanswered |= 1u << node;
    ballot_ask(&round->ballot, node);
    return true;
}

/* Sent together with all other commands of this turn. */
static void round_flush(struct round *round)
{
    nodes_send_later(round->locks->nodes, round->unanswered);
}

/* Releases this round's token on some nodes; nobody waits for the answers. */
static bool round_release_nodes(struct round *round, uint32_t nodes, uint32_t in_doubt,
                                release_done_fn *done, void *arg)
{
    struct delete_request request = delete_request(round->key, round->key_len, &round->token,
                                                   round->timing.attempt, round->timing.ttl, nodes);
    hf_time doubt_until = HF_TIME_PAST;

    for (int i = 0; i < round->locks->n; i++)
        if (in_doubt & 1u << i)
            doubt_until = hf_time_max(doubt_until, round->deadline[i]);
    delete_request_doubt(&request, in_doubt, doubt_until);
    delete_request_tell(&request, done, arg);
    if (key_deleter_start(round->locks->key_deleter, &request) == HF_OK)
        return true;
    log_error("out of memory for a release; the key expires by its TTL");
    return false;
}

static void round_undone(const struct release_outcome *outcome, void *arg, void *owner)
{
    struct name *name = arg;

    ASSERT_BROKER_THREAD();
    (void)outcome;
    (void)owner;
    grant_undone(name);
}

static void round_journal_round(struct round *round, enum journal_state state)
{
    struct name *name = round->name;
    struct journal_lease record = {.state = state,
                                   .generation = name->generation,
                                   .fence = fence_make(round->ballot.fence, 0)};

    for (int i = 0; i < HF_NODES_MAX; i++)
        record.d[i] = HF_TIME_PAST;
    journal_put(round->locks->agent->journal, name->slot, &record);
}

/* The nodes that voted. */
static uint32_t round_won(const struct round *round)
{
    uint32_t won = 0;

    for (int i = 0; i < round->locks->n; i++)
        if (round->ballot.node[i].vote == BALLOT_YES ||
            round->ballot.node[i].vote == BALLOT_YES_LOW)
            won |= 1u << i;
    return won;
}

static void rounds_explain(const struct round *round, struct name *name, char *ret_text,
                           size_t size) IN_BROKER_THREAD
{
    name->state->refused = round_whys(round);
    if (round->errors)
        nodes_explain_round(round->locks->nodes, round->errors, ret_text, size);
    else
        (void)round_explain(round->locks->nodes, &name->state->refused, ret_text, size);
}

/* Not granted: its key is released wherever it may stand; the waiter is told why, or waits on. */
static void round_undo(struct round *round, int failure) IN_BROKER_THREAD
{
    struct name *name = round->name;
    struct waiter *w = round->waiter;
    hf_time now = clock_now();

    hf_assert(!round->decided && name->state->round == round, "slot %u, decided %d, over %d",
              (unsigned)name->slot, round->decided, round->over);
    hf_assert(failure < 0, "slot %u, failure %d", (unsigned)name->slot, failure);
    hf_assert(!name->undoing && !name_lease(name), "slot %u, undoing %d", (unsigned)name->slot,
              name->undoing);
    round->decided = round->over = true;
    round->waiter = NULL;
    name->state->round = NULL;
    round_journal_round(round, round->written ? JOURNAL_ENDING : JOURNAL_FREE);
    if (round->written) {
        hf_counter_add(&round->locks->agent->table, HF_COUNTER_UNDONE, 1);
        name->undoing =
            round_release_nodes(round, round->written, round->broken, round_undone, name);
        /* Nodes may have accepted this fence: the next proposal is higher at once. */
        if (name->last_fence < round->ballot.fence)
            name->last_fence = round->ballot.fence;
    }
    round->name = NULL;
    if (w && failure != HF_EBUSY && failure != HF_ENOQUORUM) {
        char text[184] = "";

        if (failure == HF_ELIMIT)
            user_say_held(round->locks->clients, w->session->user, text, sizeof(text));
        else if (failure == HF_EFULL)
            snprintf(text, sizeof(text),
                     "no room for its name and note in the table: they may take %d bytes for each "
                     "of the "
                     "capacity, as far as /dev/shm has memory",
                     HF_TEXT_MOST);
        waiter_fail(w, failure, text);
    } else if (w) {
        char text[184] = "";

        if (failure == HF_ENOQUORUM)
            rounds_explain(round, name, text, sizeof(text));
        waiters_notify(name, failure, &round->holder, round->started, text);
        if (!TAILQ_EMPTY(&name->state->waiters) && failure == HF_EBUSY)
            wakeups_lost(name, round_won(round), round_has_winner(round), round->track,
                         round->holder.pttl_ms, now);
        else if (!TAILQ_EMPTY(&name->state->waiters))
            wakeups_failed(name,
                           hf_time_add(now, backoff_next(hf_ms(50), hf_ms(1000),
                                                         &name->state->failures, random_u32())));
    }
    round_settle(round);
    /* After a cancel the caller touches it, when the waiter has left the queue. */
    if (w && !name->undoing)
        name_touch(name, TOUCH_CHANGED);
}

static void round_raise(struct round *round)
{
    struct ballot *ballot = &round->ballot;

    hf_counter_add(&round->locks->agent->table, HF_COUNTER_FENCE_RAISES, 1);
    ballot_raise(ballot);
    for (int i = 0; i < round->locks->n; i++)
        if (ballot_vote_of(ballot, i) == BALLOT_YES_LOW && !round_send(round, i, true))
            round_no_vote(round, i, WHY_BROKEN);
    round_flush(round);
}

static hf_time round_overdue_at(const struct round *round, int node)
{
    const struct locks *locks = round->locks;

    return hf_time_add(round->sent[node],
                       links_patience(locks->nodes->links, locks->n, locks->q, node));
}

/* (!) While another's key is in the way, a round does not wait for a hanging node until its deadline:
 * the hosts may have split the other nodes, and then nobody has the lock meanwhile. */
static void round_hurry(struct round *round)
{
    hf_time at = HF_TIME_NEVER;
    bool taken = false;

    for (int i = 0; i < round->locks->n; i++) {
        taken |= round->ballot.node[i].vote == BALLOT_TAKEN;
        if (round->ballot.node[i].vote == BALLOT_ASKED)
            at = hf_time_min(at, round_overdue_at(round, i));
    }
    if (taken && !heap_has(&round->overdue.item))
        (void)loop_timer_set(round->locks->loop, &round->overdue, at);
}

/* Which votes are of one server. */
static void round_note_twins(struct round *round, hf_time now) IN_BROKER_THREAD
{
    struct locks *locks = round->locks;
    hf_time a[HF_NODES_MAX];

    for (int i = 0; i < locks->n; i++)
        a[i] = round->ballot.node[i].a.ns != HF_TIME_PAST.ns ? round->ballot.node[i].a : now;
    servers_twins(&locks->nodes->servers, a, locks->n, &round->ballot.twins);
}

static void round_judge(struct round *round) IN_BROKER_THREAD
{
    hf_time now = clock_now();
    int rc;

    if (round->decided)
        return;
    /* A node that stepped or forgot since it voted has no vote any more. */
    for (int i = 0; i < round->locks->n; i++)
        if ((round->ballot.node[i].vote == BALLOT_YES ||
             round->ballot.node[i].vote == BALLOT_YES_LOW) &&
            !round_may_count(round, i, now))
            round_no_vote(round, i, WHY_TRUST);
    round_note_twins(round, now);
    switch (ballot_decide(&round->ballot, &round->timing, now)) {
    case BALLOT_UNDECIDED:
        round_hurry(round);
        return;
    case BALLOT_RAISE:
        round_raise(round);
        round_judge(round);
        return;
    case BALLOT_WON:
        rc = round->locks->going ? HF_ESHUTDOWN : grant_lease(round, now);
        if (rc == HF_OK)
            round_settle(round);
        else
            round_undo(round, rc);
        return;
    case BALLOT_TAKEN_BY_OTHER:
        round_undo(round, HF_EBUSY);
        return;
    case BALLOT_TOO_LATE:
        round->late = true;
        round_undo(round, HF_ENOQUORUM);
        return;
    case BALLOT_FAILED:
        round_undo(round, HF_ENOQUORUM);
        return;
    }
}

static void round_on_overdue(struct loop_timer *timer, hf_time now)
{
    struct round *round = HF_CONTAINER(timer, struct round, overdue);

    ASSERT_BROKER_THREAD();
    for (int i = 0; i < round->locks->n; i++)
        if (round->ballot.node[i].vote == BALLOT_ASKED &&
            hf_time_reached(now, round_overdue_at(round, i)))
            round_no_vote(round, i, WHY_SILENT);
    round_judge(round);
}

/* (!) Unless an attempt before may have set it, whose answer did not count: it was in doubt who gave it. */
static void round_is_not_written(struct round *round, int node)
{
    if (!(round->reloaded & 1u << node))
        round->written &= ~(1u << node);
}

static void round_vote(struct round *round, int node, const struct link_reply *reply)
{
    struct locks *locks = round->locks;
    struct ballot *ballot = &round->ballot;
    hf_time now = clock_now();

    ASSERT_BROKER_THREAD();
    switch (reply->verdict) {
    case VERDICT_OK:
    case VERDICT_LOW:
        /* This very reply may show that it may not vote (a clock step, a lost sentinel, another record). */
        if (!round_may_count(round, node, now))
            round_no_vote(round, node, WHY_TRUST);
        else
            ballot_answer(ballot, node, reply->verdict == VERDICT_OK ? BALLOT_YES : BALLOT_YES_LOW,
                          reply->sent, reply->fence);
        return;
    case VERDICT_TAKEN:
        if (round->name)
            round->name->state->others_seen = now;
        round->written &= ~(1u << node);
        round->in_way[node] = reply->holder.fence;
        if (!round->holder.pid || reply->holder.pid)
            round->holder = reply->holder;
        ballot_answer(ballot, node, BALLOT_TAKEN, HF_TIME_PAST, reply->fence);
        return;
    case VERDICT_STALE:
        hf_counter_add(&locks->agent->table, HF_COUNTER_STALE, 1);
        /* Its clock was learnt anew from this reply; sent once more, then STALE is a no. */
        if (!round->decided && !(round->stale_retried & 1u << node) &&
            nodes_may_vote(locks->nodes, node, now)) {
            round->stale_retried |= 1u << node;
            if (round_send(round, node, false)) {
                link_flush(locks->nodes->links[node]);
                return;
            }
        }
        round_is_not_written(round, node);
        round_no_vote(round, node, WHY_STALE);
        return;
    case VERDICT_SENTINEL:
        round_is_not_written(round, node);
        round_no_vote(round, node, WHY_RECORD);
        return;
    case VERDICT_GONE:
    case VERDICT_FREE:
        round_no_vote(round, node, WHY_GONE);
        return;
    }
}

/* An answer after the decision: a late vote for a living lease, or a key that nobody wants. */
static void round_late(struct round *round, int node, const struct link_reply *reply)
{
    struct locks *locks = round->locks;
    bool stands = reply->outcome == LINK_ANSWERED &&
                  (reply->verdict == VERDICT_OK || reply->verdict == VERDICT_LOW);

    ASSERT_BROKER_THREAD();
    if (round->over) {
        if (stands || reply->outcome == LINK_ERROR)
            round_release_nodes(round, 1u << node, 0, NULL, NULL);
        else if (reply->outcome == LINK_BROKEN) {
            hf_counter_add(&locks->agent->table, HF_COUNTER_IN_DOUBT, 1);
            round_release_nodes(round, 1u << node, 1u << node, NULL, NULL);
        }
        return;
    }
    if (reply->outcome == LINK_BROKEN) {
        /* It may still run; this round stays until its lease ends, and then releases twice. */
        hf_counter_add(&locks->agent->table, HF_COUNTER_IN_DOUBT, 1);
        round->broken |= 1u << node;
        return;
    }
    /* (!) By a clock that was behind the key ends early; the reply itself may have shown that. */
    if (stands && round->name && name_lease(round->name) &&
        !(locks->nodes->node[node].trust.reasons & HF_QUARANTINE_CLOCK) &&
        nodes_has_our_record(locks->nodes, node)) {
        /* A raise does not set the expiry anew: the acquire before it counts. */
        hf_time a = round->ballot.node[node].a.ns != HF_TIME_PAST.ns ? round->ballot.node[node].a
                                                                     : reply->sent;
        struct message *m;

        if (short_hold_vote(round->name, node, a))
            return;
        m = message_new(MSG_VOTE);
        m->slot = round->name->slot;
        m->generation = round->name->generation;
        m->node_number = node;
        m->at = a;
        tell_renewal(locks, m);
    }
}

static bool round_is_written(const struct link_reply *reply)
{
    return reply->outcome == LINK_ANSWERED &&
           (reply->verdict == VERDICT_OK || reply->verdict == VERDICT_LOW);
}

/* The node did not have the script, which is loaded by now; or its answer did not count (agent/redis/link_script.c). */
static bool round_send_again(struct round *round, int node) IN_BROKER_THREAD
{
    if (round->reloaded & 1u << node || !nodes_may_vote(round->locks->nodes, node, clock_now()))
        return false;
    round->reloaded |= 1u << node;
    if (!round_send(round, node, false))
        return false;
    link_flush(round->locks->nodes->links[node]);
    return true;
}

static void round_reply(struct link *link, const struct link_reply *reply, void *arg)
{
    struct round *round = arg;
    struct locks *locks = round->locks;
    int node = link_node(link);

    ASSERT_BROKER_THREAD();
    round_check(round);
    hf_assert(round->calls > 0 && round->asked >> node & 1, "calls %d, asked %x, node %d",
              round->calls, (unsigned)round->asked, node);
    nodes_on_reply(locks->nodes, node, reply);
    nodes_on_write(locks->nodes, node, reply, round_is_written(reply));
    round_note_fence(round, node, reply);
    if (reply->outcome == LINK_ERROR)
        round->errors |= 1u << node;
    if (reply->final) {
        round->calls--;
        round->unanswered &= ~(1u << node);
        wakeups_vote(locks, round, node, reply);
    }
    if (round->decided) {
        if (reply->final)
            round_late(round, node, reply);
        round_settle(round);
        return;
    }
    if (reply->outcome == LINK_ANSWERED)
        round_vote(round, node, reply);
    else if (reply->error == HF_NODE_ERR_NOSCRIPT && !reply->late && round_send_again(round, node))
        return;
    else if (!reply->late)
        round_no_vote(round, node, reply->outcome == LINK_TIMEOUT ? WHY_SILENT : WHY_ERROR);
    if (reply->outcome == LINK_BROKEN) {
        /* It may have run: release twice, whatever the round's outcome; the token is not used on
         * that node again. */
        hf_counter_add(&locks->agent->table, HF_COUNTER_IN_DOUBT, 1);
        round->broken |= 1u << node;
        round_no_vote(round, node, WHY_BROKEN);
    }
    round_judge(round);
}

/* (!) Before the first SET, so that a restarted agent can undo the round. */
static void round_journal_intent(struct round *round)
{
    struct name *name = round->name;
    struct journal_identity id = {.token = round->token,
                                  .ttl_ms = (uint32_t)hf_dur_ms(round->timing.ttl),
                                  .name_len = name->len,
                                  .who = round->who};

    memcpy(id.name, name->bytes, name->len);
    journal_put_identity(round->locks->agent->journal, name->slot, &id);
    round_journal_round(round, JOURNAL_INTENT);
}

static uint32_t round_nodes_to_ask(const struct round *round, hf_time now) IN_BROKER_THREAD
{
    struct locks *locks = round->locks;
    bool contended = round->name->state->others_seen.ns != HF_TIME_PAST.ns;
    uint32_t may_vote = 0, overdue = 0;
    struct twins twins;

    for (int i = 0; i < locks->n; i++) {
        may_vote |= nodes_may_vote(locks->nodes, i, now) ? 1u << i : 0;
        overdue |= links_is_overdue(locks->nodes->links, locks->n, locks->q, i, now) ? 1u << i : 0;
    }
    servers_twins(&locks->nodes->servers, NULL, locks->n, &twins);
    return ballot_electorate(may_vote, overdue, &twins, locks->q, contended);
}

int round_begin(struct name *name, struct waiter *w)
{
    struct locks *locks = name_locks(name);
    struct round *round = calloc(1, sizeof(*round));
    hf_time now = clock_now();
    hf_nodetime median = {0};
    bool known = nodes_time(locks->nodes, now, &median);
    uint64_t fence;
    uint32_t nodes;

    if (!round)
        return HF_ENOMEM;
    hf_assert(!name->state->round && !name->undoing && !name_lease(name), "slot %u, undoing %d",
              (unsigned)name->slot, name->undoing);
    hf_assert(w->name == name, "slot %u", (unsigned)name->slot);
    hf_assert(locks->generations[name->slot] < HF_GEN_MAX, "slot %u, generation %u",
              (unsigned)name->slot, (unsigned)locks->generations[name->slot]);
    round->locks = locks;
    round->overdue.fn = round_on_overdue;
    round->name = name;
    round->waiter = w;
    round->timing = w->timing;
    round->started = now;
    round->who = w->who;
    round->who.since = now;
    round->who.since_wall = clock_wall();
    round->holder.pttl_ms = -2;
    if (config_key(locks->config, name->bytes, name->len, round->key, &round->key_len) < 0) {
        free(round);
        return HF_ENAME;
    }
    round->described = (struct link_holder){.host = locks->agent->host,
                                            .command = round->who.comm,
                                            .note = round->who.note,
                                            .pid = round->who.pid,
                                            .uid = round->who.uid,
                                            .since = round->who.since_wall};
    token_draw(&locks->tokens, &round->token);
    fence = fence_propose(name->last_fence, known, median, clock_wall());
    ballot_init(&round->ballot, locks->n, locks->q, fence, fence_limit(known, median, clock_wall()),
                now);

    /* Counted only when it is granted: a round that fails uses up no generation. */
    name->generation = locks->generations[name->slot] + 1;
    name->state->round = round;
    LIST_INSERT_HEAD(&locks->rounds, round, all);
    locks->round_count++;
    round->track = wakeups_round(round);
    hf_counter_add(&locks->agent->table, HF_COUNTER_ROUNDS, 1);

    round_journal_intent(round);
    nodes = round_nodes_to_ask(round, now);
    for (int i = 0; i < locks->n; i++)
        if (nodes & 1u << i)
            (void)round_send(round, i, false);
    round_flush(round);
    round_judge(round); /* certain at once if too few could be asked */
    return HF_OK;
}

void round_cancel(struct round *round)
{
    round->waiter = NULL;
    round_undo(round, HF_ECANCELED);
}

void round_lease_over(struct round *round)
{
    hf_assert(round->decided && !round->over, "decided %d, over %d", round->decided, round->over);
    round->over = true;
    round->name = NULL;
    if (round->broken)
        round_release_nodes(round, round->broken, round->broken, NULL, NULL);
    round_settle(round);
}

bool rounds_busy(const struct locks *locks)
{
    const struct round *round;

    /* Open answers to a living lease's round are left to the next agent, like the lease. */
    LIST_FOREACH (round, &locks->rounds, all)
        if (round->calls > 0 && (round->over || !round->decided))
            return true;
    return false;
}

void rounds_destroy(struct locks *locks)
{
    struct round *round;

    while ((round = LIST_FIRST(&locks->rounds))) {
        LIST_REMOVE(round, all);
        loop_timer_cancel(locks->loop, &round->overdue);
        free(round);
    }
}
