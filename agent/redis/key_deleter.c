#include "agent/redis/key_deleter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/base/clock.h"
#include "agent/base/token.h"
#include "agent/redis/link.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define BATCH_KEYS  128
#define RETRY_AFTER hf_ms(100) /* after a node's error, or when its link takes no more */
#define MARGIN      hf_ms(5)   /* behind a deadline, before the second release */
#define WIDE        SIZE_MAX   /* a lane's window, where nothing is against the node */

/* A job's place in one node's queue. */
struct place {
    TAILQ_ENTRY(place) entry;
    struct job *job;
};
TAILQ_HEAD(place_list, place);

struct job {
    LIST_ENTRY(job) entry;
    struct key_deleter *key_deleter;
    struct loop_timer timer; /* give_up (until `done` was called), the second release, expiry */
    struct place place[HF_NODES_MAX];
    uint32_t nodes;
    uint32_t queued, flying;   /* by node: waits to be sent; sent, not answered */
    uint32_t answered;         /* by node: answered at least once */
    uint32_t finished;         /* by node: nothing is left to do */
    uint32_t again;            /* by node: wants a second release at doubt_until */
    uint32_t sent, sent_again; /* by node: once at least, twice at least */
    uint32_t without,
        foreign; /* by node: did not have the token, as far as that counts; had another's */
    hf_time doubt_until, give_up, expires, covered;
    hf_time attempt_over; /* the first value of give_up */
    hf_dur attempt;
    uint32_t clean; /* by node: had nothing of it anyway */
    release_done_fn *done;
    void *arg;
    struct token token;
    size_t key_len;
    uint8_t key[];
};

struct batch {
    LIST_ENTRY(batch) entry;
    struct key_deleter *key_deleter; /* NULL: it was destroyed */
    int node;
    size_t count;
    struct job *jobs[BATCH_KEYS];
};

/* What goes to one node. */
struct lane {
    struct key_deleter *key_deleter;
    struct place_list queue;
    size_t queued, flying; /* jobs */
    /* (!) Jobs that may fly: one after an error, and as many more as are answered. So a node that refuses is sent no
     * more jobs again than it has carried out, however many wait. */
    size_t window;
    struct loop_timer retry; /* while it is set, nothing is sent */
    bool refuses;            /* the last answer was an error */
};

struct key_deleter {
    struct loop *loop;
    struct link *links[HF_NODES_MAX];
    int n, q;
    const struct servers *servers;
    struct key_deleter_owner owner;
    struct lane lane[HF_NODES_MAX];
    struct loop_timer send;
    LIST_HEAD(, batch) batches;
    LIST_HEAD(, job) jobs;
    size_t job_count;
};

static uint32_t key_deleter_bit(int node)
{
    return UINT32_C(1) << node;
}

/* Each node of a job is in one of these at a time, and in none that it was not made for. */
static void key_deleter_check(const struct job *job)
{
    hf_assert(
        ((job->queued | job->flying | job->answered | job->finished | job->again | job->sent) &
         ~job->nodes) == 0,
        "nodes %x: queued %x, flying %x, answered %x, finished %x, again %x, sent %x",
        (unsigned)job->nodes, (unsigned)job->queued, (unsigned)job->flying, (unsigned)job->answered,
        (unsigned)job->finished, (unsigned)job->again, (unsigned)job->sent);
    hf_assert((job->queued & job->flying) == 0, "queued %x, flying %x", (unsigned)job->queued,
              (unsigned)job->flying);
    hf_assert((job->sent_again & ~job->sent) == 0, "sent %x, sent_again %x", (unsigned)job->sent,
              (unsigned)job->sent_again);
    hf_assert((job->foreign & ~job->without) == 0, "without %x, foreign %x", (unsigned)job->without,
              (unsigned)job->foreign);
}

static int key_deleter_count_bits(uint32_t bits)
{
    return __builtin_popcount(bits);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void key_deleter_job_unqueue(struct job *job, int node)
{
    if (!(job->queued & key_deleter_bit(node)))
        return;
    TAILQ_REMOVE(&job->key_deleter->lane[node].queue, &job->place[node], entry);
    job->key_deleter->lane[node].queued--;
    job->queued &= ~key_deleter_bit(node);
}

/* With key_deleter_flush(), or at this instant: the releases of one turn leave together. */
static void key_deleter_send_soon(struct key_deleter *d)
{
    if (!heap_has(&d->send.item))
        (void)loop_timer_set(d->loop, &d->send, loop_now(d->loop));
}

static void key_deleter_job_queue(struct job *job, int node)
{
    struct key_deleter *d = job->key_deleter;

    if ((job->queued | job->flying | job->finished) & key_deleter_bit(node))
        return;
    TAILQ_INSERT_TAIL(&d->lane[node].queue, &job->place[node], entry);
    d->lane[node].queued++;
    job->queued |= key_deleter_bit(node);
    key_deleter_send_soon(d);
}

static void key_deleter_job_free(struct job *job)
{
    struct key_deleter *d = job->key_deleter;

    hf_assert(d->job_count > 0, "flying %x", (unsigned)job->flying);
    for (int i = 0; i < d->n; i++)
        key_deleter_job_unqueue(job, i);
    loop_timer_cancel(d->loop, &job->timer);
    LIST_REMOVE(job, entry);
    d->job_count--;
    explicit_bzero(&job->token, sizeof(job->token));
    free(job);
}

static bool key_deleter_job_is_gone(const struct job *job)
{
    return servers_count(job->key_deleter->servers, job->without) >= job->key_deleter->q;
}

/* (!) No later than that, for a release of a lock that stands ends with the first q answers. */
static bool key_deleter_job_is_certain(const struct job *job)
{
    const struct key_deleter *d = job->key_deleter;
    /* A node that is away, or lost its connection, will not say what the first release there found. */
    uint32_t open = job->flying & ~job->answered & ~job->sent_again;

    return job->covered.ns == HF_TIME_PAST.ns || key_deleter_job_is_gone(job) ||
           servers_count(d->servers, job->without | open) < d->q;
}

/* So many nodes have nothing of it; all of them, where so many had nothing anyway. */
static bool key_deleter_job_is_free(const struct job *job)
{
    const struct key_deleter *d = job->key_deleter;

    if (servers_count(d->servers, job->clean) >= d->q)
        return !(job->nodes & ~job->answered);
    return servers_count(d->servers, job->clean | job->answered) >= d->q;
}

static void key_deleter_job_done(struct job *job)
{
    release_done_fn *done = job->done;
    struct release_outcome outcome = {.done = key_deleter_count_bits(job->answered)};

    hf_assert(done, "answered %x, finished %x", (unsigned)job->answered, (unsigned)job->finished);
    if (key_deleter_job_is_gone(job))
        outcome.gone = job->foreign ? HF_LOSS_FOREIGN : HF_LOSS_MISSING;

    job->give_up = HF_TIME_NEVER;
    job->done = NULL;
    if (done)
        done(&outcome, job->arg, job->key_deleter->owner.arg);
}

/* Calls `done`, ends the job or sets its timer, as is due. The job may be gone afterwards. */
static void key_deleter_job_review(struct job *job, hf_time now)
{
    struct key_deleter *d = job->key_deleter;
    hf_time next;

    key_deleter_check(job);
    if (hf_time_reached(now, job->expires)) {
        job->finished = job->nodes; /* the key has expired by itself */
        for (int i = 0; i < d->n; i++)
            key_deleter_job_unqueue(job, i);
    }
    if (hf_time_reached(now, hf_time_add(job->doubt_until, MARGIN))) {
        uint32_t again = job->again & ~job->flying;

        job->again &= ~again;
        for (int i = 0; i < d->n; i++)
            if (again & key_deleter_bit(i))
                key_deleter_job_queue(job, i);
    }
    job->finished |= job->answered & ~(job->again | job->queued | job->flying);
    if (job->done && ((key_deleter_job_is_free(job) && key_deleter_job_is_certain(job)) ||
                      job->finished == job->nodes || hf_time_reached(now, job->give_up)))
        key_deleter_job_done(job);
    if (job->finished == job->nodes && !job->flying) {
        key_deleter_job_free(job);
        return;
    }
    next = job->done ? job->give_up : HF_TIME_NEVER;
    if (job->again & ~job->flying)
        next = hf_time_min(next, hf_time_add(job->doubt_until, MARGIN));
    if (job->finished != job->nodes)
        next = hf_time_min(next, job->expires);
    if (next.ns < HF_TIME_NEVER.ns)
        (void)loop_timer_set(d->loop, &job->timer, hf_time_max(next, hf_time_add(now, hf_ms(1))));
    else
        loop_timer_cancel(d->loop, &job->timer);
}

static void key_deleter_on_job_timer(struct loop_timer *timer, hf_time now)
{
    key_deleter_job_review(HF_CONTAINER(timer, struct job, timer), now);
}

/* --- lanes ------------------------------------------------------------------------------------ */

static void key_deleter_lane_rest(struct key_deleter *d, struct lane *lane, hf_time now)
{
    if (!heap_has(&lane->retry.item))
        (void)loop_timer_set(d->loop, &lane->retry, hf_time_add(now, RETRY_AFTER));
}

/* (!) The node as a whole is tried again, by one job: not each job by itself. */
static void key_deleter_lane_refused(struct key_deleter *d, struct lane *lane, hf_time now)
{
    lane->window = 1;
    lane->refuses = true;
    key_deleter_lane_rest(d, lane, now);
}

static void key_deleter_lane_carried_out(struct key_deleter *d, struct lane *lane, size_t count)
{
    bool all = lane->flying == 0 && lane->queued == 0;

    if (all || lane->window >= KEY_DELETER_MOST - count)
        lane->window = WIDE;
    else
        lane->window += count;
    lane->refuses = false;
    if (heap_has(&lane->retry.item))
        return; /* an error came in between */
    if (lane->queued > 0)
        key_deleter_send_soon(d);
}

/* The answer to so many jobs. */
static void key_deleter_lane_on_answer(struct key_deleter *d, int node,
                                       const struct link_reply *reply, size_t count, hf_time now)
{
    struct lane *lane = &d->lane[node];
    bool refused = lane->refuses;

    hf_assert(lane->flying >= count, "flying %zu, count %zu", lane->flying, count);
    lane->flying -= count;
    if (reply->outcome == LINK_ANSWERED)
        key_deleter_lane_carried_out(d, lane, count);
    else if (reply->outcome == LINK_ERROR)
        key_deleter_lane_refused(d, lane, now);
    else if (lane->window > BATCH_KEYS)
        lane->window = BATCH_KEYS; /* the connection ended with it */
    if (!d->owner.refused)
        return;
    if (reply->outcome == LINK_ERROR)
        d->owner.refused(node, reply, d->owner.arg);
    else if (refused && !lane->refuses)
        d->owner.refused(node, NULL, d->owner.arg);
}

/* It may take long until the node has all that waits for it. */
static bool key_deleter_lane_is_stuck(const struct key_deleter *d, int node, hf_time now)
{
    return d->lane[node].window != WIDE || !link_is_up(d->links[node]) ||
           links_is_overdue(d->links, d->n, d->q, node, now);
}

/* Before a job comes to a full lane of a node that is stuck, the one that has waited there longest goes, unless somebody
 * waits for its end. */
static void key_deleter_lane_make_room(struct key_deleter *d, int node, hf_time now)
{
    struct place *oldest = TAILQ_FIRST(&d->lane[node].queue);
    struct job *job;

    if (d->lane[node].queued < KEY_DELETER_MOST || !key_deleter_lane_is_stuck(d, node, now))
        return;
    job = oldest->job;
    if (job->done || !(key_deleter_job_is_free(job) || hf_time_reached(now, job->attempt_over)))
        return;
    key_deleter_job_unqueue(job, node);
    job->again &= ~key_deleter_bit(node);
    job->finished |= key_deleter_bit(node);
    key_deleter_job_review(job, now);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Whether this node had the token when the lease was released. */
static void key_deleter_job_judge(struct job *job, int node, const struct link_reply *reply,
                                  char mark)
{
    struct key_deleter *d = job->key_deleter;

    if ((mark != 'f' && mark != '0') || (job->answered | job->sent_again) & key_deleter_bit(node) ||
        reply->doubtful || hf_time_reached(reply->received, job->covered) ||
        !d->owner.counts(node, reply, d->owner.arg))
        return;
    job->without |= key_deleter_bit(node);
    if (mark == 'f')
        job->foreign |= key_deleter_bit(node);
}

static void key_deleter_on_answer(struct link *link, const struct link_reply *reply, void *arg)
{
    struct batch *batch = arg;
    struct key_deleter *d = batch->key_deleter;
    hf_time now = clock_now();

    (void)link;
    if (!reply->final)
        return; /* a timeout: the answer, or the end of the connection, is still to come */
    if (!d) {
        free(batch);
        return;
    }
    LIST_REMOVE(batch, entry);
    key_deleter_lane_on_answer(d, batch->node, reply, batch->count, now);
    for (size_t i = 0; i < batch->count; i++) {
        struct job *job = batch->jobs[i];

        hf_assert(job->flying & key_deleter_bit(batch->node), "flying %x, node %d",
                  (unsigned)job->flying, batch->node);
        job->flying &= ~key_deleter_bit(batch->node);
        if (reply->outcome == LINK_ANSWERED) {
            key_deleter_job_judge(job, batch->node, reply, reply->marks[i]);
            job->answered |= key_deleter_bit(batch->node);
        } else {
            /* (!) The command of `doubt_until` may have been ahead of this one on the connection
             * that ended. */
            if (reply->outcome == LINK_BROKEN &&
                hf_time_before(now, hf_time_add(job->doubt_until, MARGIN)))
                job->again |= key_deleter_bit(batch->node);
            key_deleter_job_queue(job, batch->node);
        }
        key_deleter_job_review(job, now);
    }
    free(batch);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Sends up to BATCH_KEYS of the node's queue; false when its link takes no more now. */
static bool key_deleter_send_batch(struct key_deleter *d, int node, hf_time now)
{
    struct lane *lane = &d->lane[node];
    size_t most = lane->window - lane->flying;
    struct batch *batch = malloc(sizeof(*batch));
    struct link_key keys[BATCH_KEYS];
    hf_dur attempt = hf_ns(0);
    struct place *place;

    if (!batch)
        return false;
    batch->key_deleter = d;
    batch->node = node;
    batch->count = 0;
    TAILQ_FOREACH (place, &lane->queue, entry) {
        struct job *job = place->job;

        if (batch->count == BATCH_KEYS || batch->count == most)
            break;
        keys[batch->count] =
            (struct link_key){.key = job->key, .key_len = job->key_len, .token = &job->token};
        batch->jobs[batch->count++] = job;
        attempt = hf_dur_max(attempt, job->attempt);
    }
    if (link_release(d->links[node], keys, batch->count, hf_time_add(now, attempt),
                     key_deleter_on_answer, batch) != HF_OK) {
        free(batch);
        return false;
    }
    LIST_INSERT_HEAD(&d->batches, batch, entry);
    lane->flying += batch->count;
    for (size_t i = 0; i < batch->count; i++) {
        struct job *job = batch->jobs[i];

        key_deleter_job_unqueue(job, node);
        job->flying |= key_deleter_bit(node);
        job->sent_again |= job->sent & key_deleter_bit(node);
        job->sent |= key_deleter_bit(node);
    }
    return true;
}

static void key_deleter_send_node(struct key_deleter *d, int node, hf_time now)
{
    struct lane *lane = &d->lane[node];
    bool sent = false;

    if (heap_has(&lane->retry.item) || !link_is_up(d->links[node]))
        return;
    while (lane->queued > 0 && lane->flying < lane->window) {
        if (!key_deleter_send_batch(d, node, now)) {
            key_deleter_lane_rest(d, lane, now);
            break;
        }
        sent = true;
    }
    if (sent)
        link_flush(d->links[node]);
}

static void key_deleter_send_all(struct loop_timer *timer, hf_time now)
{
    struct key_deleter *d = HF_CONTAINER(timer, struct key_deleter, send);

    for (int i = 0; i < d->n; i++)
        key_deleter_send_node(d, i, now);
}

void key_deleter_flush(struct key_deleter *d)
{
    if (!heap_has(&d->send.item))
        return;
    loop_timer_cancel(d->loop, &d->send);
    key_deleter_send_all(&d->send, clock_now());
}

static void key_deleter_on_retry(struct loop_timer *timer, hf_time now)
{
    struct lane *lane = HF_CONTAINER(timer, struct lane, retry);
    struct key_deleter *d = lane->key_deleter;

    key_deleter_send_node(d, (int)(lane - d->lane), now);
}

void key_deleter_link_up(struct key_deleter *d, int node)
{
    loop_timer_cancel(d->loop, &d->lane[node].retry);
    key_deleter_send_node(d, node, clock_now());
}

/* --- making and ending ------------------------------------------------------------------------ */

/* (!) Where q nodes have nothing of it anyway, it does not wait for hanging nodes: else the next one to
 * get the lock would wait, too, for as long as an attempt. */
static void key_deleter_set_done(struct job *job, hf_time now)
{
    struct key_deleter *d = job->key_deleter;
    uint32_t clean = (key_deleter_bit(d->n) - 1) & ~job->nodes;
    hf_dur patience = hf_ns(0);

    job->clean = clean;
    job->give_up = job->attempt_over;
    if (servers_count(d->servers, clean) < d->q)
        return;
    for (int i = 0; i < d->n; i++)
        if (job->nodes & key_deleter_bit(i))
            patience = hf_dur_max(patience, links_patience(d->links, d->n, d->q, i));
    job->give_up = hf_time_min(job->give_up, hf_time_add(now, patience));
}

int key_deleter_start(struct key_deleter *d, const struct delete_request *request)
{
    struct job *job = calloc(1, sizeof(*job) + request->key_len);
    hf_time now = clock_now();

    if (!job)
        return HF_ENOMEM;
    job->key_deleter = d;
    job->timer.fn = key_deleter_on_job_timer;
    job->nodes = request->nodes & (key_deleter_bit(d->n) - 1);
    job->again = request->in_doubt & job->nodes;
    job->doubt_until = request->doubt_until;
    job->attempt = request->attempt;
    job->attempt_over = hf_time_add(now, request->attempt);
    job->expires =
        hf_time_add(hf_time_max(now, request->doubt_until), hf_dur_scale(request->ttl, 202, 100));
    job->covered = request->covered;
    key_deleter_set_done(job, now);
    job->done = request->done;
    job->arg = request->arg;
    job->token = *request->token;
    job->key_len = request->key_len;
    memcpy(job->key, request->key, request->key_len);
    LIST_INSERT_HEAD(&d->jobs, job, entry);
    d->job_count++;
    for (int i = 0; i < d->n; i++) {
        job->place[i].job = job;
        if (!(job->nodes & key_deleter_bit(i)))
            continue;
        key_deleter_lane_make_room(d, i, now);
        key_deleter_job_queue(job, i);
    }
    /* `done` is never called from here: with nothing to do it is called at the next turn. */
    if (loop_timer_set(d->loop, &job->timer, job->nodes ? job->give_up : now) != HF_OK) {
        key_deleter_job_free(job);
        return HF_ENOMEM;
    }
    return HF_OK;
}

int key_deleter_create(struct loop *loop, struct link *const *links, const struct servers *servers,
                       int nodes, int quorum, const struct key_deleter_owner *owner,
                       struct key_deleter **ret_key_deleter)
{
    struct key_deleter *d = calloc(1, sizeof(*d));

    if (!d)
        return HF_ENOMEM;
    d->loop = loop;
    d->n = nodes;
    d->q = quorum;
    d->servers = servers;
    d->owner = *owner;
    d->send.fn = key_deleter_send_all;
    LIST_INIT(&d->jobs);
    LIST_INIT(&d->batches);
    for (int i = 0; i < nodes; i++) {
        struct lane *lane = &d->lane[i];

        d->links[i] = links[i];
        lane->key_deleter = d;
        lane->window = WIDE;
        lane->retry.fn = key_deleter_on_retry;
        TAILQ_INIT(&lane->queue);
    }
    *ret_key_deleter = d;
    return HF_OK;
}

void key_deleter_destroy(struct key_deleter *d)
{
    struct batch *batch;

    if (!d)
        return;
    LIST_FOREACH (batch, &d->batches, entry) {
        batch->key_deleter = NULL;
    }
    for (struct job *job = LIST_FIRST(&d->jobs), *next; job; job = next) {
        next = LIST_NEXT(job, entry);
        key_deleter_job_free(job);
    }
    loop_timer_cancel(d->loop, &d->send);
    for (int i = 0; i < d->n; i++)
        loop_timer_cancel(d->loop, &d->lane[i].retry);
    free(d);
}

hf_time key_deleter_attempts_over(const struct key_deleter *d)
{
    const struct job *job;
    hf_time latest = HF_TIME_PAST;

    LIST_FOREACH (job, &d->jobs, entry)
        latest = hf_time_max(latest, job->attempt_over);
    return latest;
}

size_t key_deleter_busy(const struct key_deleter *d)
{
    return d->job_count;
}
