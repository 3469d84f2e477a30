/* Queries: who holds a name anywhere, and, for a query that waits, when that changes.
 *
 * A query that waits takes no part in the contest for the name. While a lease of this host has it, the
 * query waits for its end. Otherwise the nodes are asked again when one tells that the key has changed,
 * and by time: when the key has expired if a quorum of nodes sends notices, else as waiters do without
 * notices. The more queries of this agent wait, the more slowly they ask. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/token.h"
#include "agent/base/thread.h"
#include "agent/broker/clients/clients.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/queries/fanout.h"
#include "agent/broker/queries/queries.h"
#include "agent/core/backoff.h"
#include "agent/core/fence.h"
#include "agent/core/wakeup.h"
#include "shm/assert.h"
#include "shm/text.h"
#include "shm/index.h"
#include "shm/status.h"
#include "agent/base/log.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/state/events.h"

/* Unanswered queries of one session. */
#define QUERIES_MOST 64
/* How long the slower nodes have to answer, for people who read the result. */
#define GRACE hf_ms(20)
/* A lease of this host tells its end; this poll is only a safety net. */
#define LOCAL_SWEEP hf_ms(1000)

static struct query_list *query_bucket_of(struct queries *queries, const void *key, size_t key_len)
{
    uint32_t hash = hf_name_hash(queries->hash_key, key, key_len);

    return &queries->waiting[hash % HF_LENGTH(queries->waiting)];
}

static void query_free(struct query *query)
{
    struct queries *queries = query->queries;

    fanout_drop(query->fanout);
    loop_timer_cancel(queries->loop, &query->deadline);
    loop_timer_cancel(queries->loop, &query->next);
    LIST_REMOVE(query, of_session);
    hf_assert(query->session->user->queries > 0, "waits %d", query->waits);
    query->session->user->queries--;
    if (query->waits) {
        hf_assert(queries->waiting_count > 0, "queries %u",
                  (unsigned)query->session->user->queries);
        LIST_REMOVE(query, waiting);
        queries->waiting_count--;
        if (--query->session->user->waits == 0)
            queries->waiting_users--;
    }
    free(query);
}

void query_end(struct query *query, int status, const char *text)
{
    struct session *s = query->session;
    struct hf_completion_entry answer = query->answer;

    answer.status = status;
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    query_free(query);
    session_answer(s, &answer);
}

/* --- what was found --------------------------------------------------------------------------- */

static enum hf_query_outcome query_outcome_of(enum tally_outcome outcome)
{
    switch (outcome) {
    case TALLY_HELD:
        return HF_QUERY_HELD;
    case TALLY_FREE:
        return HF_QUERY_FREE;
    case TALLY_SPLIT:
        return HF_QUERY_SPLIT;
    case TALLY_OPEN:
    case TALLY_UNKNOWN:
        break;
    }
    return HF_QUERY_UNKNOWN;
}

/* The lease of this host that has the name, in force or being released; NULL: none. */
static struct name *query_held_here(const struct query *query) IN_BROKER_THREAD
{
    struct name *name = name_find(query->queries->locks, query->name, query->name_len);

    return name && name_lease(name) ? name : NULL;
}

/* Puts what the nodes say into the answer. */
static void query_fill(struct query *query, const struct fanout *fanout) IN_BROKER_THREAD
{
    const struct tally *t = &fanout->tally;
    struct hf_completion_entry *e = &query->answer;
    struct name *name = query_held_here(query);
    int leader = tally_leader(t);

    memset(&e->holder, 0, sizeof(e->holder));
    e->holder.pttl_ms = -2;
    e->fence = 0;
    for (int i = 0; i < t->n; i++)
        if (e->fence < fence_make(fanout->node[i].fence, 0))
            e->fence = fence_make(fanout->node[i].fence, 0);
    e->query_outcome = (uint8_t)query_outcome_of(tally_decide(t));
    e->query_answered = (uint8_t)tally_answered(t);
    e->query_forced = (uint8_t)fanout_forced(fanout);
    e->query_free = 0;
    for (int i = 0; i < t->n; i++)
        e->query_free = (uint8_t)(e->query_free + (t->node[i].word == TALLY_NO_KEY));
    e->query_holding = leader < 0 ? 0 : (uint8_t)tally_count(t, leader);
    (void)hf_key_id_bytes(leader < 0 ? "" : t->node[leader].id, e->key_id);
    if (!fanout_holder(fanout, &e->holder))
        return;
    /* The lease may have been handed over, of which the nodes do not know. */
    if (name && fence_node_part(name_lease(name)->fence) == fence_node_part(e->holder.fence)) {
        int64_t pttl_ms = e->holder.pttl_ms;

        waiter_describe_local(name, &e->holder);
        e->holder.pttl_ms = pttl_ms;
    }
}

static void query_unknown_text(const struct query *query, char *text, size_t size)
{
    const struct queries *queries = query->queries;

    snprintf(text, size, "%d of %d nodes answered, which leaves open who holds it",
             query->answer.query_answered, queries->n);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void query_ask_again(struct query *query);

/* All queries together ask the nodes at most WAKEUP_PER_S times a second, and each user's as often as another's. `told_of`: the
 * nodes send notices of the key. */
static void query_sleep_on_it(struct query *query, bool told_of)
{
    struct queries *queries = query->queries;
    hf_dur least = hf_ns((int64_t)query->session->user->waits * queries->waiting_users *
                         HF_NS_PER_SEC / WAKEUP_PER_S);
    hf_dur delay = backoff_contend(query->answer.holder.pttl_ms, random_u32());
    int64_t left_ms = query->answer.holder.pttl_ms;

    if (left_ms == -1) /* it never expires */
        delay = hf_dur_scale(delay, 4, 1);
    else if (told_of && left_ms < hf_dur_ms(WAKEUP_SLEEP_MOST))
        delay = hf_ms(left_ms + 1);
    else if (told_of)
        delay = WAKEUP_SLEEP_MOST;
    loop_timer_set(queries->loop, &query->next, hf_time_add(clock_now(), hf_dur_max(delay, least)));
}

/* A notice of this key, or of any, came. The nodes are not asked at once: the other nodes' notices
 * follow, and each of a holder's renewals must not cost a fan-out. */
static void query_take_notice(struct query *query)
{
    hf_time now = clock_now();
    hf_time at = hf_time_max(hf_time_add(now, WAKEUP_GATHER),
                             hf_time_add(query->asked_at, WAKEUP_QUERY_EVERY));

    if (query->fanout)
        query->noticed = true;
    else if (!heap_has(&query->next.item) || hf_time_before(at, query->next.item.at))
        loop_timer_set(query->queries->loop, &query->next, at);
}

static void query_tell_progress(struct query *query,
                                const struct hf_wire_holder *holder) IN_BROKER_THREAD
{
    struct hf_completion_entry entry = {
        .id = query->answer.id, .op = HF_OP_PROGRESS, .status = HF_EBUSY, .holder = *holder};

    if (holder->fence == query->told)
        return;
    if (session_progress(query->session, &entry))
        query->told = holder->fence;
}

static void query_on_found(const struct fanout *fanout, void *arg)
{
    struct query *query = arg;
    char text[184] = "";

    ASSERT_BROKER_THREAD();
    query->fanout = NULL;
    query_fill(query, fanout);
    if (!query->waits) {
        if (query->answer.query_outcome == HF_QUERY_UNKNOWN)
            query_unknown_text(query, text, sizeof(text));
        query_end(query, *text ? HF_ENOQUORUM : HF_OK, text);
    } else if (query->answer.query_outcome == HF_QUERY_FREE) {
        query_end(query, HF_OK, "");
    } else {
        if (query->answer.query_outcome == HF_QUERY_HELD)
            query_tell_progress(query, &query->answer.holder);
        query_sleep_on_it(query, fanout_tracked(fanout) >= query->queries->q);
        if (query->noticed)
            query_take_notice(query);
    }
}

static void query_ask_again(struct query *query) IN_BROKER_THREAD
{
    struct queries *queries = query->queries;
    struct name *name = query->waits ? query_held_here(query) : NULL;
    struct fanout_order order = {.kind = query->waits ? FANOUT_TRACK : FANOUT_QUERY,
                                 .user = query->session->user,
                                 .key = query->key,
                                 .key_len = query->key_len,
                                 .grace = query->waits ? hf_ms(0) : GRACE};

    loop_timer_cancel(queries->loop, &query->next);
    if (query->fanout)
        return;
    if (name) {
        waiter_describe_local(name, &query->answer.holder);
        query->answer.query_outcome = HF_QUERY_HELD;
        query_tell_progress(query, &query->answer.holder);
        loop_timer_set(queries->loop, &query->next, hf_time_add(clock_now(), LOCAL_SWEEP));
        return;
    }
    query->noticed = false;
    query->asked_at = clock_now();
    if ((query->waits && fanout_judge(queries, order.user, NULL, 0) < 0) ||
        fanout_begin(queries, &order, query_on_found, query, &query->fanout) < 0)
        query_sleep_on_it(query, false);
}

static void query_on_next(struct loop_timer *timer, hf_time now)
{
    ASSERT_BROKER_THREAD();
    (void)now;
    query_ask_again(HF_CONTAINER(timer, struct query, next));
}

static void query_on_deadline(struct loop_timer *timer, hf_time now)
{
    struct query *query = HF_CONTAINER(timer, struct query, deadline);
    char text[184] = "";

    ASSERT_BROKER_THREAD();
    if (query->answer.holder.pttl_ms >= 0) {
        int64_t passed_ms = hf_dur_ms(hf_time_since(now, query->asked_at));
        int64_t left_ms = query->answer.holder.pttl_ms - passed_ms;

        query->answer.holder.pttl_ms = left_ms > 0 ? left_ms : 0;
    }
    if (query->answer.query_outcome != HF_QUERY_HELD &&
        query->answer.query_outcome != HF_QUERY_SPLIT)
        query_unknown_text(query, text, sizeof(text));
    query_end(query, *text ? HF_ENOQUORUM : HF_ETIMEDOUT, text);
}

static bool query_has_key(const struct query *query, const void *key, size_t key_len)
{
    return query->key_len == key_len && memcmp(query->key, key, key_len) == 0;
}

void query_hear_ended(struct queries *queries, const void *name, size_t name_len)
{
    uint8_t key[CONFIG_KEY_MAX];
    struct query *query;
    size_t key_len;

    if (queries->waiting_count == 0 ||
        config_key(queries->config, name, name_len, key, &key_len) < 0)
        return;
    LIST_FOREACH (query, query_bucket_of(queries, key, key_len), waiting)
        if (query_has_key(query, key, key_len))
            query_ask_again(query);
}

void query_hear_noticed(struct queries *queries, const void *key, size_t key_len)
{
    struct query *query;

    if (queries->waiting_count == 0)
        return;
    if (key) {
        LIST_FOREACH (query, query_bucket_of(queries, key, key_len), waiting)
            if (query_has_key(query, key, key_len))
                query_take_notice(query);
        return;
    }
    for (size_t i = 0; i < HF_LENGTH(queries->waiting); i++)
        LIST_FOREACH (query, &queries->waiting[i], waiting)
            query_take_notice(query);
}

/* --- requests --------------------------------------------------------------------------------- */

static int query_judge(struct queries *queries, struct session *s, const struct hf_request_entry *q,
                       char *text, size_t size)
{
    const struct query *query;
    uint32_t most = queries->config->waiters_per_uid;
    int count = 0;

    if (queries->going)
        return HF_ESHUTDOWN;
    if (q->name_len == 0) {
        snprintf(text, size, "the name is empty; 1 to %d bytes are allowed", HF_NAME_MAX);
        return HF_ENAME;
    }
    LIST_FOREACH (query, &s->queries, of_session)
        count++;
    if (count >= QUERIES_MOST) {
        snprintf(text, size,
                 "end one first: this process has %d queries open, the limit of one connection",
                 QUERIES_MOST);
        return HF_ELIMIT;
    }
    if (most && s->user->queries >= most) {
        snprintf(text, size,
                 "end one first: user %" PRIu32 " has %" PRIu32
                 " queries open, the limit (waiters_per_uid)",
                 s->uid, most);
        return HF_ELIMIT;
    }
    return fanout_judge(queries, s->user, text, size);
}

void query_refuse(struct queries *queries, struct session *s, const struct hf_request_entry *q,
                  int status, const char *text)
{
    struct hf_completion_entry answer = {.id = q->id, .op = q->op, .status = status};

    hf_counter_add(&queries->agent->table, HF_COUNTER_REFUSED, 1);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    session_answer(s, &answer);
}

/* NULL: refused, and answered. */
static struct query *query_new(struct queries *queries, struct session *s,
                               const struct hf_request_entry *q) IN_BROKER_THREAD
{
    uint8_t key[CONFIG_KEY_MAX];
    char text[184] = "";
    struct query *query;
    size_t key_len;
    int rc = query_judge(queries, s, q, text, sizeof(text));

    if (rc == HF_OK) {
        rc = config_key(queries->config, q->name, q->name_len, key, &key_len);
        if (rc < 0)
            config_key_refused(queries->config, q->name, q->name_len, text, sizeof(text));
    }
    query = rc == HF_OK ? calloc(1, sizeof(*query)) : NULL;
    if (!query) {
        query_refuse(queries, s, q, rc < 0 ? rc : HF_ENOMEM, text);
        return NULL;
    }
    query->queries = queries;
    query->session = s;
    query->answer.id = q->id;
    query->answer.op = q->op;
    query->answer.holder.pttl_ms = -2;
    query->told = UINT64_MAX; /* not 0: that is a holder without a record */
    query->next.fn = query_on_next;
    query->deadline.fn = query_on_deadline;
    query->name_len = q->name_len;
    memcpy(query->name, q->name, q->name_len);
    query->key_len = key_len;
    memcpy(query->key, key, key_len);
    LIST_INSERT_HEAD(&s->queries, query, of_session);
    s->user->queries++;
    return query;
}

void query_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct query *query;
    char text[184];

    if (q->name_len && !rights_allow(s, RIGHT_SEE, q->name, q->name_len, text, sizeof(text))) {
        query_refuse(queries, s, q, HF_EPERM, text);
        return;
    }
    query = query_new(queries, s, q);
    if (!query)
        return;
    if (q->flags & HF_REQ_WAIT) {
        struct query_list *bucket = query_bucket_of(queries, query->key, query->key_len);

        query->waits = true;
        LIST_INSERT_HEAD(bucket, query, waiting);
        queries->waiting_count++;
        if (s->user->waits++ == 0)
            queries->waiting_users++;
        if (q->deadline_ns < HF_TIME_NEVER.ns)
            loop_timer_set(queries->loop, &query->deadline, (hf_time){q->deadline_ns});
    }
    query_ask_again(query);
}

void query_look_at_rules(struct session *s)
{
    struct query *query, *next;
    char text[184];

    for (query = LIST_FIRST(&s->queries); query; query = next) {
        next = LIST_NEXT(query, of_session);
        if (query->waits &&
            !rights_allow(s, RIGHT_SEE, query->name, query->name_len, text, sizeof(text)))
            query_end(query, HF_EPERM, text);
    }
}

void query_cancel(struct session *s, uint64_t id)
{
    struct query *query;

    LIST_FOREACH (query, &s->queries, of_session)
        if (query->answer.id == id && query->answer.op == HF_OP_QUERY) {
            query_end(query, HF_ECANCELED, "");
            return;
        }
}

void query_drop_session(struct session *s)
{
    while (!LIST_EMPTY(&s->queries))
        query_free(LIST_FIRST(&s->queries));
}

/* --- forces: ending a hold -------------------------------------------------------------------- */

/* How long a mark stays in the place of a value that has not the form of an agent's token. */
#define FOREIGN_MS 1000

static void forces_force(struct query *query);

/* On how many servers the hold that is meant is forced out; its id. */
static int forces_forced_on(const struct fanout *fanout, char ret_id[LINK_ID_LEN + 1])
{
    const struct tally *t = &fanout->tally;
    uint32_t forced = 0;

    ret_id[0] = '\0';
    for (int i = 0; i < t->n; i++) {
        if (!fanout->node[i].forced || t->node[i].word != TALLY_A_KEY)
            continue;
        if (!*ret_id)
            snprintf(ret_id, LINK_ID_LEN + 1, "%s", t->node[i].id);
        if (strcmp(ret_id, t->node[i].id) == 0)
            forced |= UINT32_C(1) << i;
    }
    return twins_count(&t->twins, forced);
}

/* Whether a node still has the very token in question: an attempt of another agent wrote over its
 * record, so that the fence did not match there. */
static bool forces_was_missed(const struct fanout *fanout, const char *id)
{
    const struct tally *t = &fanout->tally;

    for (int i = 0; i < t->n; i++)
        if (t->node[i].word == TALLY_A_KEY && !fanout->node[i].forced && !strcmp(t->node[i].id, id))
            return true;
    return false;
}

static void forces_on_forced(const struct fanout *fanout, void *arg)
{
    struct query *query = arg;
    struct queries *queries = query->queries;
    char id[LINK_ID_LEN + 1], name[HF_NAME_MAX + 1], text[184] = "";
    int count = forces_forced_on(fanout, id), status = HF_OK;

    ASSERT_BROKER_THREAD();
    query->fanout = NULL;
    query_fill(query, fanout);
    if (*id && !*query->wanted && forces_was_missed(fanout, id)) {
        query->fence = 0;
        memcpy(query->wanted, id, sizeof(query->wanted));
        forces_force(query);
        return;
    }
    query->answer.query_forced = (uint8_t)count;
    /* Nodes send no notice of our own writes, and no longer track the key. */
    for (int i = 0; count > 0 && i < queries->n; i++)
        if (fanout->node[i].forced) {
            wakeups_noticed(queries->locks, i, query->key, query->key_len);
            query_hear_noticed(queries, query->key, query->key_len);
        }
    if (count > 0) {
        log_warn("user %" PRIu32 " forced out the hold of %s (fence %" PRIu64 ") on %d of %d nodes",
                 query->session->uid, log_name(query->name, query->name_len, name, sizeof(name)),
                 query->answer.holder.fence, count, queries->n);
        event_forced(queries->agent, query->name, query->name_len, query->answer.holder.fence,
                     query->session->client->pid, query->session->uid, count);
    }
    if (count >= queries->q) {
        /* done */
    } else if (query->answer.query_outcome == HF_QUERY_FREE) {
        status = HF_ENOTHELD;
    } else if (count == 0 && query->answer.query_outcome == HF_QUERY_HELD) {
        status = HF_EBUSY;
        snprintf(text, sizeof(text), "another hold than the one that is meant has it by now");
    } else {
        status = HF_ENOQUORUM;
        snprintf(text, sizeof(text),
                 "forced out on %d of %d nodes, %d are needed; its holder keeps what it has on the "
                 "others",
                 count, queries->n, queries->q);
    }
    query_end(query, status, text);
}

static void forces_force(struct query *query)
{
    struct queries *queries = query->queries;
    struct link_force order = {.key = query->key,
                               .key_len = query->key_len,
                               .fence = fence_node_part(query->fence),
                               .id = query->wanted,
                               .foreign_ms = FOREIGN_MS,
                               .ttl_max_ms = queries->config->ttl_max_ms};

    struct fanout_order all = {.kind = FANOUT_FORCE,
                               .user = query->session->user,
                               .force = &order,
                               .grace = queries->config->timing.attempt};

    ASSERT_BROKER_THREAD();
    if (fanout_begin(queries, &all, forces_on_forced, query, &query->fanout) < 0)
        query_end(query, HF_ENOMEM, "");
}

/* (!) Nodes do not know of a hand-off within this host. */
static bool forces_was_handed_on(const struct query *query) IN_BROKER_THREAD
{
    const struct name *name = query_held_here(query);
    const struct lease *lease = name ? name_lease(name) : NULL;

    return lease && query->fence && lease->fence != query->fence &&
           fence_node_part(lease->fence) == fence_node_part(query->fence);
}

void forces_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct query *query;
    char text[184];

    if (q->name_len && !rights_allow(s, RIGHT_FORCE, q->name, q->name_len, text, sizeof(text))) {
        query_refuse(queries, s, q, HF_EPERM, text);
        return;
    }
    query = query_new(queries, s, q);
    if (!query)
        return;
    query->fence = q->target;
    hf_key_id_text(q->key_id, query->wanted);
    if (!query->fence && !*query->wanted)
        query_end(query, HF_EINVAL, "say which hold is meant: by its fence or its id");
    else if (forces_was_handed_on(query))
        query_end(query, HF_EBUSY, "another hold than the one that is meant has it by now");
    else
        forces_force(query);
}
