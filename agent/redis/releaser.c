#include "agent/redis/releaser.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "agent/base/clock.h"
#include "agent/base/token.h"
#include "agent/redis/link.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define BATCH_KEYS  128
#define RETRY_AFTER hf_ms(100) /* after a node's error, or when its link takes no more */
#define MARGIN      hf_ms(5)   /* behind a deadline, before the second release */

/* A job's place in one node's queue. */
struct place {
    TAILQ_ENTRY(place) entry;
    struct job *job;
};
TAILQ_HEAD(place_list, place);

struct job {
    LIST_ENTRY(job) entry;
    struct releaser *releaser;
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
    struct releaser *releaser; /* NULL: it was destroyed */
    int node;
    size_t count;
    struct job *jobs[BATCH_KEYS];
};

struct releaser {
    struct loop *loop;
    struct link *links[HF_NODES_MAX];
    int n, q;
    const struct servers *servers;
    release_counts_fn *counts;
    void *owner;
    struct place_list queue[HF_NODES_MAX];
    uint32_t waiting; /* by node: not before the retry timer */
    struct loop_timer send, retry;
    LIST_HEAD(, batch) batches;
    LIST_HEAD(, job) jobs;
    size_t job_count;
};

static uint32_t releaser_bit(int node)
{
    return UINT32_C(1) << node;
}

/* Each node of a job is in one of these at a time, and in none that it was not made for. */
static void releaser_check(const struct job *job)
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

static int releaser_count_bits(uint32_t bits)
{
    return __builtin_popcount(bits);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void releaser_job_unqueue(struct job *job, int node)
{
    if (!(job->queued & releaser_bit(node)))
        return;
    TAILQ_REMOVE(&job->releaser->queue[node], &job->place[node], entry);
    job->queued &= ~releaser_bit(node);
}

static void releaser_job_queue(struct job *job, int node)
{
    struct releaser *r = job->releaser;

    if ((job->queued | job->flying | job->finished) & releaser_bit(node))
        return;
    TAILQ_INSERT_TAIL(&r->queue[node], &job->place[node], entry);
    job->queued |= releaser_bit(node);
    /* With releaser_flush(), or at this instant: the releases of one turn leave together. */
    if (!heap_has(&r->send.item))
        (void)loop_timer_set(r->loop, &r->send, loop_now(r->loop));
}

static void releaser_job_free(struct job *job)
{
    struct releaser *r = job->releaser;

    hf_assert(r->job_count > 0, "flying %x", (unsigned)job->flying);
    for (int i = 0; i < r->n; i++)
        releaser_job_unqueue(job, i);
    loop_timer_cancel(r->loop, &job->timer);
    LIST_REMOVE(job, entry);
    r->job_count--;
    explicit_bzero(&job->token, sizeof(job->token));
    free(job);
}

static bool releaser_job_is_gone(const struct job *job)
{
    return servers_count(job->releaser->servers, job->without) >= job->releaser->q;
}

/* (!) No later than that, for a release of a lock that stands ends with the first q answers. */
static bool releaser_job_is_certain(const struct job *job)
{
    const struct releaser *r = job->releaser;
    /* A node that is away, or lost its connection, will not say what the first release there found. */
    uint32_t open = job->flying & ~job->answered & ~job->sent_again;

    return job->covered.ns == HF_TIME_PAST.ns || releaser_job_is_gone(job) ||
           servers_count(r->servers, job->without | open) < r->q;
}

/* So many nodes have nothing of it; all of them, where so many had nothing anyway. */
static bool releaser_job_is_free(const struct job *job)
{
    const struct releaser *r = job->releaser;

    if (servers_count(r->servers, job->clean) >= r->q)
        return !(job->nodes & ~job->answered);
    return servers_count(r->servers, job->clean | job->answered) >= r->q;
}

static void releaser_job_done(struct job *job)
{
    release_done_fn *done = job->done;
    struct release_outcome outcome = {.done = releaser_count_bits(job->answered)};

    hf_assert(done, "answered %x, finished %x", (unsigned)job->answered, (unsigned)job->finished);
    if (releaser_job_is_gone(job))
        outcome.gone = job->foreign ? HF_LOSS_FOREIGN : HF_LOSS_MISSING;

    job->give_up = HF_TIME_NEVER;
    job->done = NULL;
    if (done)
        done(&outcome, job->arg, job->releaser->owner);
}

/* Calls `done`, ends the job or sets its timer, as is due. The job may be gone afterwards. */
static void releaser_job_review(struct job *job, hf_time now)
{
    struct releaser *r = job->releaser;
    hf_time next;

    releaser_check(job);
    if (hf_time_reached(now, job->expires)) {
        job->finished = job->nodes; /* the key has expired by itself */
        for (int i = 0; i < r->n; i++)
            releaser_job_unqueue(job, i);
    }
    if (hf_time_reached(now, hf_time_add(job->doubt_until, MARGIN))) {
        uint32_t again = job->again & ~job->flying;

        job->again &= ~again;
        for (int i = 0; i < r->n; i++)
            if (again & releaser_bit(i))
                releaser_job_queue(job, i);
    }
    job->finished |= job->answered & ~(job->again | job->queued | job->flying);
    if (job->done && ((releaser_job_is_free(job) && releaser_job_is_certain(job)) ||
                      job->finished == job->nodes || hf_time_reached(now, job->give_up)))
        releaser_job_done(job);
    if (job->finished == job->nodes && !job->flying) {
        releaser_job_free(job);
        return;
    }
    next = job->done ? job->give_up : HF_TIME_NEVER;
    if (job->again & ~job->flying)
        next = hf_time_min(next, hf_time_add(job->doubt_until, MARGIN));
    if (job->finished != job->nodes)
        next = hf_time_min(next, job->expires);
    if (next.ns < HF_TIME_NEVER.ns)
        (void)loop_timer_set(r->loop, &job->timer, hf_time_max(next, hf_time_add(now, hf_ms(1))));
    else
        loop_timer_cancel(r->loop, &job->timer);
}

static void releaser_on_job_timer(struct loop_timer *timer, hf_time now)
{
    releaser_job_review(HF_CONTAINER(timer, struct job, timer), now);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Whether this node had the token when the lease was released. */
static void releaser_job_judge(struct job *job, int node, const struct link_reply *reply, char mark)
{
    struct releaser *r = job->releaser;

    if ((mark != 'f' && mark != '0') || (job->answered | job->sent_again) & releaser_bit(node) ||
        reply->doubtful || hf_time_reached(reply->received, job->covered) ||
        !r->counts(node, reply, r->owner))
        return;
    job->without |= releaser_bit(node);
    if (mark == 'f')
        job->foreign |= releaser_bit(node);
}

static void releaser_on_answer(struct link *link, const struct link_reply *reply, void *arg)
{
    struct batch *batch = arg;
    struct releaser *r = batch->releaser;
    hf_time now = clock_now();

    (void)link;
    if (!reply->final)
        return; /* a timeout: the answer, or the end of the connection, is still to come */
    if (!r) {
        free(batch);
        return;
    }
    LIST_REMOVE(batch, entry);
    for (size_t i = 0; i < batch->count; i++) {
        struct job *job = batch->jobs[i];

        hf_assert(job->flying & releaser_bit(batch->node), "flying %x, node %d",
                  (unsigned)job->flying, batch->node);
        job->flying &= ~releaser_bit(batch->node);
        if (reply->outcome == LINK_ANSWERED) {
            releaser_job_judge(job, batch->node, reply, reply->marks[i]);
            job->answered |= releaser_bit(batch->node);
        } else {
            /* (!) The command of `doubt_until` may have been ahead of this one on the connection
             * that ended. */
            if (reply->outcome == LINK_BROKEN &&
                hf_time_before(now, hf_time_add(job->doubt_until, MARGIN)))
                job->again |= releaser_bit(batch->node);
            if (reply->outcome == LINK_ERROR)
                r->waiting |= releaser_bit(batch->node);
            releaser_job_queue(job, batch->node);
        }
        releaser_job_review(job, now);
    }
    if (r->waiting && !heap_has(&r->retry.item))
        (void)loop_timer_set(r->loop, &r->retry, hf_time_add(now, RETRY_AFTER));
    free(batch);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Sends up to BATCH_KEYS of the node's queue; false when nothing more can be sent now. */
static bool releaser_send_batch(struct releaser *r, int node, hf_time now)
{
    struct batch *batch = malloc(sizeof(*batch));
    struct link_key keys[BATCH_KEYS];
    hf_dur attempt = hf_ns(0);
    struct place *place;

    if (!batch)
        return false;
    batch->releaser = r;
    batch->node = node;
    batch->count = 0;
    TAILQ_FOREACH (place, &r->queue[node], entry) {
        struct job *job = place->job;

        if (batch->count == BATCH_KEYS)
            break;
        keys[batch->count] =
            (struct link_key){.key = job->key, .key_len = job->key_len, .token = &job->token};
        batch->jobs[batch->count++] = job;
        attempt = hf_dur_max(attempt, job->attempt);
    }
    if (link_release(r->links[node], keys, batch->count, hf_time_add(now, attempt),
                     releaser_on_answer, batch) != HF_OK) {
        free(batch);
        return false;
    }
    LIST_INSERT_HEAD(&r->batches, batch, entry);
    for (size_t i = 0; i < batch->count; i++) {
        struct job *job = batch->jobs[i];

        releaser_job_unqueue(job, node);
        job->flying |= releaser_bit(node);
        job->sent_again |= job->sent & releaser_bit(node);
        job->sent |= releaser_bit(node);
    }
    return true;
}

static void releaser_send_node(struct releaser *r, int node, hf_time now)
{
    bool sent = false;

    if (r->waiting & releaser_bit(node) || !link_is_up(r->links[node]))
        return;
    while (!TAILQ_EMPTY(&r->queue[node])) {
        if (!releaser_send_batch(r, node, now)) {
            r->waiting |= releaser_bit(node);
            if (!heap_has(&r->retry.item))
                (void)loop_timer_set(r->loop, &r->retry, hf_time_add(now, RETRY_AFTER));
            break;
        }
        sent = true;
    }
    if (sent)
        link_flush(r->links[node]);
}

static void releaser_send_all(struct loop_timer *timer, hf_time now)
{
    struct releaser *r = HF_CONTAINER(timer, struct releaser, send);

    for (int i = 0; i < r->n; i++)
        releaser_send_node(r, i, now);
}

void releaser_flush(struct releaser *r)
{
    if (!heap_has(&r->send.item))
        return;
    loop_timer_cancel(r->loop, &r->send);
    releaser_send_all(&r->send, clock_now());
}

static void releaser_on_retry(struct loop_timer *timer, hf_time now)
{
    struct releaser *r = HF_CONTAINER(timer, struct releaser, retry);

    r->waiting = 0;
    for (int i = 0; i < r->n; i++)
        releaser_send_node(r, i, now);
}

void releaser_link_up(struct releaser *r, int node)
{
    r->waiting &= ~releaser_bit(node);
    releaser_send_node(r, node, clock_now());
}

/* --- making and ending ------------------------------------------------------------------------ */

/* (!) Where q nodes have nothing of it anyway, it does not wait for hanging nodes: else the next one to
 * get the lock would wait, too, for as long as an attempt. */
static void releaser_set_done(struct job *job, hf_time now)
{
    struct releaser *r = job->releaser;
    uint32_t clean = (releaser_bit(r->n) - 1) & ~job->nodes;
    hf_dur patience = hf_ns(0);

    job->clean = clean;
    job->give_up = job->attempt_over;
    if (servers_count(r->servers, clean) < r->q)
        return;
    for (int i = 0; i < r->n; i++)
        if (job->nodes & releaser_bit(i))
            patience = hf_dur_max(patience, link_patience(r->links[i]));
    job->give_up = hf_time_min(job->give_up, hf_time_add(now, patience));
}

int releaser_start(struct releaser *r, const struct release_order *order)
{
    struct job *job = calloc(1, sizeof(*job) + order->key_len);
    hf_time now = clock_now();

    if (!job)
        return HF_ENOMEM;
    job->releaser = r;
    job->timer.fn = releaser_on_job_timer;
    job->nodes = order->nodes & (releaser_bit(r->n) - 1);
    job->again = order->in_doubt & job->nodes;
    job->doubt_until = order->doubt_until;
    job->attempt = order->attempt;
    job->attempt_over = hf_time_add(now, order->attempt);
    job->expires =
        hf_time_add(hf_time_max(now, order->doubt_until), hf_dur_scale(order->ttl, 202, 100));
    job->covered = order->covered;
    releaser_set_done(job, now);
    job->done = order->done;
    job->arg = order->arg;
    job->token = *order->token;
    job->key_len = order->key_len;
    memcpy(job->key, order->key, order->key_len);
    LIST_INSERT_HEAD(&r->jobs, job, entry);
    r->job_count++;
    for (int i = 0; i < r->n; i++) {
        job->place[i].job = job;
        if (job->nodes & releaser_bit(i))
            releaser_job_queue(job, i);
    }
    /* `done` is never called from here: with nothing to do it is called at the next turn. */
    if (loop_timer_set(r->loop, &job->timer, job->nodes ? job->give_up : now) != HF_OK) {
        releaser_job_free(job);
        return HF_ENOMEM;
    }
    return HF_OK;
}

int releaser_create(struct loop *loop, struct link *const *links, const struct servers *servers,
                    int nodes, int quorum, release_counts_fn *counts, void *owner,
                    struct releaser **ret_releaser)
{
    struct releaser *r = calloc(1, sizeof(*r));

    if (!r)
        return HF_ENOMEM;
    r->loop = loop;
    r->n = nodes;
    r->q = quorum;
    r->servers = servers;
    r->counts = counts;
    r->owner = owner;
    r->send.fn = releaser_send_all;
    r->retry.fn = releaser_on_retry;
    LIST_INIT(&r->jobs);
    LIST_INIT(&r->batches);
    for (int i = 0; i < nodes; i++) {
        r->links[i] = links[i];
        TAILQ_INIT(&r->queue[i]);
    }
    *ret_releaser = r;
    return HF_OK;
}

void releaser_destroy(struct releaser *r)
{
    struct batch *batch;

    if (!r)
        return;
    LIST_FOREACH (batch, &r->batches, entry) {
        batch->releaser = NULL;
    }
    for (struct job *job = LIST_FIRST(&r->jobs), *next; job; job = next) {
        next = LIST_NEXT(job, entry);
        releaser_job_free(job);
    }
    loop_timer_cancel(r->loop, &r->send);
    loop_timer_cancel(r->loop, &r->retry);
    free(r);
}

hf_time releaser_attempts_over(const struct releaser *r)
{
    const struct job *job;
    hf_time latest = HF_TIME_PAST;

    LIST_FOREACH (job, &r->jobs, entry)
        latest = hf_time_max(latest, job->attempt_over);
    return latest;
}

size_t releaser_busy(const struct releaser *r)
{
    return r->job_count;
}
