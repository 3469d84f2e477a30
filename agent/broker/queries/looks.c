/* Questions about one name: who holds it anywhere, and, for a look that waits, when that changes.
 *
 * A look that waits takes no part in the contest for the name. While a lease of this host has it, the
 * look waits for its end. Otherwise the nodes are asked again when one tells that the key has changed,
 * and by time: when the key has expired if a quorum of nodes sends notices, else as waiters do without
 * notices. The more looks of this agent wait, the more slowly they ask. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/random.h"
#include "agent/base/thread_role.h"
#include "agent/broker/clients/sessions.h"
#include "agent/broker/clients/users.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/queries/look.h"
#include "agent/broker/queries/queries.h"
#include "agent/broker/queries/survey.h"
#include "agent/core/backoff.h"
#include "agent/core/fence.h"
#include "agent/core/wakeup.h"
#include "shm/hex.h"
#include "shm/index.h"
#include "shm/status.h"

/* Unanswered looks of one session. */
#define LOOKS_MOST 64
/* Looks of the whole agent that are under way on the nodes. */
#define SURVEYS_MOST 2048
/* How long the slower nodes have to answer, for people who read the result. */
#define GRACE hf_ms(20)
/* A lease of this host tells its end; this poll is only a safety net. */
#define LOCAL_SWEEP hf_ms(1000)

static struct look_list *bucket_of(struct queries *queries, const void *key, size_t key_len)
{
    uint32_t hash = hf_name_hash(queries->hash_key, key, key_len);

    return &queries->waiting_looks[hash % HF_LENGTH(queries->waiting_looks)];
}

static void look_free(struct look *look)
{
    struct queries *queries = look->queries;

    survey_drop(look->survey);
    loop_timer_cancel(queries->loop, &look->deadline);
    loop_timer_cancel(queries->loop, &look->next);
    LIST_REMOVE(look, of_session);
    look->session->user->looks--;
    if (look->waits) {
        LIST_REMOVE(look, waiting);
        queries->waiting_look_count--;
    }
    free(look);
}

void look_end(struct look *look, int status, const char *text)
{
    struct session *s = look->session;
    struct hf_completion_entry answer = look->answer;

    answer.status = status;
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    look_free(look);
    session_answer(s, &answer);
}

/* --- what was found --------------------------------------------------------------------------- */

static enum hf_look look_of(enum census_outcome outcome)
{
    switch (outcome) {
    case CENSUS_HELD:
        return HF_LOOK_HELD;
    case CENSUS_FREE:
        return HF_LOOK_FREE;
    case CENSUS_SPLIT:
        return HF_LOOK_SPLIT;
    case CENSUS_OPEN:
    case CENSUS_UNKNOWN:
        break;
    }
    return HF_LOOK_UNKNOWN;
}

struct resource *look_held_here(const struct look *look)
{
    struct resource *r = resource_find(look->queries->locks, look->name, look->name_len);

    return r && resource_lease(r) ? r : NULL;
}

void look_fill(struct look *look, const struct survey *survey)
{
    const struct census *c = &survey->census;
    struct hf_completion_entry *e = &look->answer;
    struct resource *r = look_held_here(look);
    int leader = census_leader(c);

    memset(&e->holder, 0, sizeof(e->holder));
    e->holder.pttl_ms = -2;
    e->fence = 0;
    for (int i = 0; i < c->n; i++)
        if (e->fence < fence_make(survey->node[i].fence, 0))
            e->fence = fence_make(survey->node[i].fence, 0);
    e->look = (uint8_t)look_of(census_decide(c));
    e->look_answered = (uint8_t)census_answered(c);
    e->look_forced = (uint8_t)survey_forced(survey);
    e->look_free = 0;
    for (int i = 0; i < c->n; i++)
        e->look_free = (uint8_t)(e->look_free + (c->node[i].word == CENSUS_NO_KEY));
    e->look_holding = leader < 0 ? 0 : (uint8_t)census_count(c, leader);
    (void)hf_key_id_bytes(leader < 0 ? "" : c->node[leader].id, e->key_id);
    if (!survey_holder(survey, &e->holder))
        return;
    /* The lease may have been handed over, of which the nodes do not know. */
    if (r && fence_node_part(resource_lease(r)->fence) == fence_node_part(e->holder.fence)) {
        int64_t pttl_ms = e->holder.pttl_ms;

        waiter_describe_local(r, &e->holder);
        e->holder.pttl_ms = pttl_ms;
    }
}

static void unknown_text(const struct look *look, char *text, size_t size)
{
    const struct queries *queries = look->queries;

    snprintf(text, size, "%d of %d nodes answered, which leaves open who holds it",
             look->answer.look_answered, queries->n);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void look_again(struct look *look);

/* All looks together ask the nodes at most WAKEUP_PER_S times a second. `told_of`: the nodes send notices
 * of the key. */
static void sleep_on_it(struct look *look, bool told_of)
{
    struct queries *queries = look->queries;
    hf_dur least = hf_ns((int64_t)queries->waiting_look_count * HF_NS_PER_SEC / WAKEUP_PER_S);
    hf_dur delay = backoff_contend(look->answer.holder.pttl_ms, random_u32());
    int64_t left_ms = look->answer.holder.pttl_ms;

    if (left_ms == -1) /* it never expires */
        delay = hf_dur_scale(delay, 4, 1);
    else if (told_of && left_ms < hf_dur_ms(WAKEUP_SLEEP_MOST))
        delay = hf_ms(left_ms + 1);
    else if (told_of)
        delay = WAKEUP_SLEEP_MOST;
    loop_timer_set(queries->loop, &look->next, hf_time_add(clock_now(), hf_dur_max(delay, least)));
}

/* A notice of this key, or of any, came. The look is not at once: the other nodes' notices follow, and each
 * of a holder's renewals must not cost a look. */
static void take_notice(struct look *look)
{
    hf_time now = clock_now();
    hf_time at = hf_time_max(hf_time_add(now, WAKEUP_GATHER),
                             hf_time_add(look->looked_at, WAKEUP_LOOK_EVERY));

    if (look->survey)
        look->noticed = true;
    else if (!heap_has(&look->next.item) || hf_time_before(at, look->next.item.at))
        loop_timer_set(look->queries->loop, &look->next, at);
}

static void tell_progress(struct look *look, const struct hf_wire_holder *holder) IN_BROKER_THREAD
{
    struct hf_completion_entry entry = {
        .id = look->answer.id, .op = HF_OP_PROGRESS, .status = HF_EBUSY, .holder = *holder};

    if (holder->fence == look->told)
        return;
    look->told = holder->fence;
    session_progress(look->session, &entry);
}

static void on_found(const struct survey *survey, void *arg)
{
    struct look *look = arg;
    char text[184] = "";

    is_broker_thread();
    look->survey = NULL;
    look_fill(look, survey);
    if (!look->waits) {
        if (look->answer.look == HF_LOOK_UNKNOWN)
            unknown_text(look, text, sizeof(text));
        look_end(look, *text ? HF_ENOQUORUM : HF_OK, text);
    } else if (look->answer.look == HF_LOOK_FREE) {
        look_end(look, HF_OK, "");
    } else {
        if (look->answer.look == HF_LOOK_HELD)
            tell_progress(look, &look->answer.holder);
        sleep_on_it(look, survey_tracked(survey) >= look->queries->q);
        if (look->noticed)
            take_notice(look);
    }
}

static void look_again(struct look *look) IN_BROKER_THREAD
{
    struct queries *queries = look->queries;
    struct resource *r = look->waits ? look_held_here(look) : NULL;

    loop_timer_cancel(queries->loop, &look->next);
    if (look->survey)
        return;
    if (r) {
        waiter_describe_local(r, &look->answer.holder);
        look->answer.look = HF_LOOK_HELD;
        tell_progress(look, &look->answer.holder);
        loop_timer_set(queries->loop, &look->next, hf_time_add(clock_now(), LOCAL_SWEEP));
        return;
    }
    look->noticed = false;
    look->looked_at = clock_now();
    if ((look->waits && queries->survey_count >= SURVEYS_MOST) ||
        survey_begin(queries, look->waits ? SURVEY_TRACK : SURVEY_LOOK, look->key, look->key_len,
                     NULL, look->waits ? hf_ms(0) : GRACE, on_found, look, &look->survey) < 0)
        sleep_on_it(look, false);
}

static void on_next(struct loop_timer *timer, hf_time now)
{
    is_broker_thread();
    (void)now;
    look_again(HF_CONTAINER(timer, struct look, next));
}

static void on_deadline(struct loop_timer *timer, hf_time now)
{
    struct look *look = HF_CONTAINER(timer, struct look, deadline);
    char text[184] = "";

    is_broker_thread();
    if (look->answer.holder.pttl_ms >= 0) {
        int64_t passed_ms = hf_dur_ms(hf_time_since(now, look->looked_at));
        int64_t left_ms = look->answer.holder.pttl_ms - passed_ms;

        look->answer.holder.pttl_ms = left_ms > 0 ? left_ms : 0;
    }
    if (look->answer.look != HF_LOOK_HELD && look->answer.look != HF_LOOK_SPLIT)
        unknown_text(look, text, sizeof(text));
    look_end(look, *text ? HF_ENOQUORUM : HF_ETIMEDOUT, text);
}

static bool has_key(const struct look *look, const void *key, size_t key_len)
{
    return look->key_len == key_len && memcmp(look->key, key, key_len) == 0;
}

void looks_hear_ended(struct queries *queries, const void *name, size_t name_len)
{
    uint8_t key[CONFIG_KEY_MAX];
    struct look *look;
    size_t key_len;

    if (queries->waiting_look_count == 0 ||
        config_key(queries->config, name, name_len, key, &key_len) < 0)
        return;
    LIST_FOREACH (look, bucket_of(queries, key, key_len), waiting)
        if (has_key(look, key, key_len))
            look_again(look);
}

void looks_hear_noticed(struct queries *queries, const void *key, size_t key_len)
{
    struct look *look;

    if (queries->waiting_look_count == 0)
        return;
    if (key) {
        LIST_FOREACH (look, bucket_of(queries, key, key_len), waiting)
            if (has_key(look, key, key_len))
                take_notice(look);
        return;
    }
    for (size_t i = 0; i < HF_LENGTH(queries->waiting_looks); i++)
        LIST_FOREACH (look, &queries->waiting_looks[i], waiting)
            take_notice(look);
}

/* --- requests --------------------------------------------------------------------------------- */

static int judge(struct queries *queries, struct session *s, const struct hf_request_entry *q,
                 char *text, size_t size)
{
    const struct look *look;
    uint32_t most = queries->config->waiters_per_uid;
    int count = 0;

    if (queries->draining)
        return HF_EGOING;
    if (q->name_len == 0) {
        snprintf(text, size, "the resource name is empty; 1 to %d bytes are allowed", HF_NAME_MAX);
        return HF_ENAME;
    }
    LIST_FOREACH (look, &s->looks, of_session)
        count++;
    if (count >= LOOKS_MOST) {
        snprintf(text, size,
                 "this process already has %d questions about holders open, the limit of one "
                 "connection",
                 LOOKS_MOST);
        return HF_ELIMIT;
    }
    if (most && s->user->looks >= most) {
        snprintf(text, size,
                 "user %" PRIu32 " already has %" PRIu32
                 " questions about holders open, the limit (waiters_per_uid)",
                 s->uid, most);
        return HF_ELIMIT;
    }
    if (queries->survey_count >= SURVEYS_MOST) {
        snprintf(text, size, "the agent has %d questions about holders under way: try again",
                 SURVEYS_MOST);
        return HF_ELIMIT;
    }
    return HF_OK;
}

void look_refuse(struct queries *queries, struct session *s, const struct hf_request_entry *q,
                 int status, const char *text)
{
    struct hf_completion_entry answer = {.id = q->id, .op = q->op, .status = status};

    hf_counter_add(&queries->agent->table, HF_COUNTER_REFUSED, 1);
    snprintf(answer.text, sizeof(answer.text), "%s", text);
    session_answer(s, &answer);
}

struct look *look_new(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    uint8_t key[CONFIG_KEY_MAX];
    char text[184] = "";
    struct look *look;
    size_t key_len;
    int rc = judge(queries, s, q, text, sizeof(text));

    if (rc == HF_OK) {
        rc = config_key(queries->config, q->name, q->name_len, key, &key_len);
        if (rc < 0)
            config_key_refused(queries->config, q->name, q->name_len, text, sizeof(text));
    }
    look = rc == HF_OK ? calloc(1, sizeof(*look)) : NULL;
    if (!look) {
        look_refuse(queries, s, q, rc < 0 ? rc : HF_ENOMEM, text);
        return NULL;
    }
    look->queries = queries;
    look->session = s;
    look->answer.id = q->id;
    look->answer.op = q->op;
    look->answer.holder.pttl_ms = -2;
    look->told = UINT64_MAX; /* not 0: that is a holder without a record */
    look->next.fn = on_next;
    look->deadline.fn = on_deadline;
    look->name_len = q->name_len;
    memcpy(look->name, q->name, q->name_len);
    look->key_len = key_len;
    memcpy(look->key, key, key_len);
    LIST_INSERT_HEAD(&s->looks, look, of_session);
    s->user->looks++;
    return look;
}

void looks_ask(struct queries *queries, struct session *s, const struct hf_request_entry *q)
{
    struct look *look = look_new(queries, s, q);

    if (!look)
        return;
    if (q->flags & HF_REQ_WAIT) {
        struct look_list *bucket = bucket_of(queries, look->key, look->key_len);

        look->waits = true;
        LIST_INSERT_HEAD(bucket, look, waiting);
        queries->waiting_look_count++;
        if (q->deadline_ns < HF_TIME_NEVER.ns)
            loop_timer_set(queries->loop, &look->deadline, (hf_time){q->deadline_ns});
    }
    look_again(look);
}

void looks_cancel(struct session *s, uint64_t id)
{
    struct look *look;

    LIST_FOREACH (look, &s->looks, of_session)
        if (look->answer.id == id && look->answer.op == HF_OP_LOOK) {
            look_end(look, HF_ECANCELED, "");
            return;
        }
}

void looks_drop_session(struct session *s)
{
    while (!LIST_EMPTY(&s->looks))
        look_free(LIST_FIRST(&s->looks));
}
