/* Commands in flight: sending, deadlines, late answers, silence. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/core/ballot.h"
#include "agent/redis/script.h"
#include "agent/redis/command.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/status.h"

/* --- one command ------------------------------------------------------------------------------ */

struct link_reply call_reply(const struct call *call, enum link_outcome outcome,
                             enum hf_node_error error, hf_time now)
{
    return (struct link_reply){
        .outcome = outcome,
        .final = true,
        .late = call->timed_out,
        .error = error,
        .error_text = "",
        .sent = call->sent,
        .received = now,
    };
}

void call_free(struct call *call)
{
    struct link *link = call->link;

    explicit_bzero(call->command, call->length); /* it had a token, or a password */
    if (call->room != CALL_ROOM || link->spare_count == CALLS_SPARE_MOST) {
        free(call);
        return;
    }
    TAILQ_INSERT_HEAD(&link->spare, call, entry);
    link->spare_count++;
}

/* Takes it off the list: its answer is here, or none will come. */
static void call_take(struct link *link, struct call *call)
{
    hf_assert(call->link == link && link->in_flight > 0, "in_flight %d, state %d", link->in_flight,
              (int)link->state);
    TAILQ_REMOVE(&link->calls, call, entry);
    link->in_flight--;
    loop_timer_cancel(link->options.loop, &call->deadline);
}

static void call_on_deadline(struct loop_timer *timer, hf_time now)
{
    struct call *call = HF_CONTAINER(timer, struct call, deadline);
    ABOUT_NODE(call->link->options.address->id);
    struct link_reply reply = call_reply(call, LINK_TIMEOUT, HF_NODE_ERR_TIMEOUT, clock_now());

    (void)now;
    reply.final = false;
    reply.late = false;
    hf_assert(!call->own && !call->timed_out, "script %d, timed_out %d", (int)call->script,
              call->timed_out);
    call->timed_out = true;
    call->fn(call->link, &reply, call->arg);
}

static void call_on_answer(redisAsyncContext *context, void *answer, void *arg);

size_t call_unsent(const struct link *link)
{
    return bounds_output(link->context->c.obuf);
}

/* (!) What a node does not take is bounded. Its silence ends the connection, unless it has answered all of it unread. */
static bool call_is_full(struct link *link, size_t length)
{
    bool full = call_unsent(link) + length > BOUNDS_LINK;

    if (full && link->in_flight == 0)
        link_end(link, HF_NODE_ERR_PROTOCOL, "it answers what it has not read");
    return full;
}

/* Appends to the connection's buffer and to the list. */
int call_send(struct link *link, struct call *call)
{
    if (!link->context || call_is_full(link, call->length))
        return HF_ENOQUORUM;
    hf_assert(call->link == link && link->in_flight >= 0, "in_flight %d, state %d", link->in_flight,
              (int)link->state);
    call->sent = clock_now();
    if (redisAsyncFormattedCommand(link->context, call_on_answer, call, call->command,
                                   call->length) != REDIS_OK)
        return HF_ENOQUORUM;
    TAILQ_INSERT_TAIL(&link->calls, call, entry);
    if (link->in_flight++ == 0) {
        hf_time silent_at = hf_time_add(call->sent, link->options.silence);

        link->silence_grace = false;
        (void)loop_timer_set(link->options.loop, &link->silence, silent_at);
    }
    return HF_OK;
}

static void call_on_answer(redisAsyncContext *context, void *answer, void *arg)
{
    struct link *link = context->data;
    struct call *call = arg;

    /* Without a link, we ended it and the call is gone or was told; without an answer, hiredis is
     * ending it and the disconnect callback comes next. */
    if (!link || !answer)
        return;
    /* hiredis keeps the order, whatever the node sends. */
    hf_assert(call == TAILQ_FIRST(&link->calls), "in_flight %d, script %d", link->in_flight,
              (int)call->script);
    call_take(link, call);
    link->heard = clock_now();
    link->rtt = hf_time_since(link->heard, call->sent);
    link->silence_grace = false;
    if (call->own) {
        call->own(link, call, answer);
        call_free(call);
    } else if (!call->answered(link, call, answer)) {
        call_free(call);
    }
}

/* --- sending ---------------------------------------------------------------------------------- */

/* A lock takes a call on each node: those whose commands are no longer than most are used again. */
struct call *call_new(struct link *link, int argc, const char **argv, const size_t *lengths)
{
    size_t room = command_room(argc, argv, lengths);
    struct call *call = NULL;

    if (room <= CALL_ROOM) {
        room = CALL_ROOM;
        call = TAILQ_FIRST(&link->spare);
    }
    if (call) {
        hf_assert(link->spare_count > 0 && call->room == CALL_ROOM, "spare_count %d, room %zu",
                  link->spare_count, call->room);
        TAILQ_REMOVE(&link->spare, call, entry);
        link->spare_count--;
    } else {
        call = malloc(sizeof(*call) + room);
        if (!call)
            return NULL;
    }
    memset(call, 0, sizeof(*call));
    call->link = link;
    call->deadline.fn = call_on_deadline;
    call->room = room;
    call->length = command_write(call->command, argc, argv, lengths);
    return call;
}

static int call_send_own(struct link *link, struct call *call)
{
    int rc = call_send(link, call);

    if (rc != HF_OK)
        call_free(call);
    return rc;
}

int call_own(struct link *link, call_fn *own, int argc, const char **argv, const size_t *lengths)
{
    struct call *call = call_new(link, argc, argv, lengths);

    if (!call)
        return HF_ENOMEM;
    call->own = own;
    return call_send_own(link, call);
}

/* An error shows as NOSCRIPT of the command that follows. */
static void call_on_reloaded(struct link *link, const struct call *call, const redisReply *answer)
{
    (void)answer;
    link->loading[call->script] = false;
}

int call_load(struct link *link, enum script script, call_fn *loaded)
{
    const char *argv[3] = {"SCRIPT", "LOAD"};
    size_t lengths[3] = {6, 4};
    struct call *call;
    int rc;

    hf_assert((unsigned)script < SCRIPTS, "script %d", (int)script);
    if (link->loading[script])
        return HF_OK;
    argv[2] = script_text(script, &lengths[2]);
    call = call_new(link, 3, argv, lengths);
    if (!call)
        return HF_ENOMEM;
    call->own = loaded ? loaded : call_on_reloaded;
    call->script = script;
    rc = call_send_own(link, call);
    link->loading[script] = rc == HF_OK;
    return rc;
}

/* --- all commands of a link ------------------------------------------------------------------- */

static bool call_has_unread(const struct link *link)
{
    int bytes = 0;

    return ioctl(secure_socket(link), FIONREAD, &bytes) == 0 && bytes > 0;
}

static void call_on_silence(struct loop_timer *timer, hf_time now)
{
    struct link *link = HF_CONTAINER(timer, struct link, silence);
    struct call *oldest = TAILQ_FIRST(&link->calls);
    hf_time silent_at;

    if (!oldest || !link->context)
        return;
    silent_at = hf_time_add(hf_time_max(link->heard, oldest->sent), link->options.silence);
    if (!hf_time_reached(now, silent_at)) {
        (void)loop_timer_set(link->options.loop, timer, silent_at);
    } else if (!link->silence_grace && call_has_unread(link)) {
        /* The agent was silent itself: stopped, or suspended with the host. */
        link->silence_grace = true;
        (void)loop_timer_set(link->options.loop, timer, hf_time_add(now, hf_ms(100)));
    } else {
        link_end(link, HF_NODE_ERR_SILENT, "no answer for %lld ms",
                 (long long)hf_dur_ms(link->options.silence));
    }
}

void calls_init(struct link *link)
{
    TAILQ_INIT(&link->calls);
    TAILQ_INIT(&link->spare);
    link->silence.fn = call_on_silence;
}

void calls_reset(struct link *link)
{
    link->heard = HF_TIME_PAST;
    memset(link->loading, 0, sizeof(link->loading));
}

void calls_break(struct link *link)
{
    struct call *call;

    loop_timer_cancel(link->options.loop, &link->silence);
    link->checks = 0;
    while ((call = TAILQ_FIRST(&link->calls))) {
        call_take(link, call);
        if (!call->own) {
            struct link_reply reply = call_reply(call, LINK_BROKEN, link->end_error, clock_now());

            reply.error_text = link->end_text;
            call->fn(link, &reply, call->arg);
        }
        call_free(call);
    }
}

void calls_destroy(struct link *link)
{
    struct call *call;

    while ((call = TAILQ_FIRST(&link->spare))) {
        TAILQ_REMOVE(&link->spare, call, entry);
        free(call);
    }
}

hf_dur links_round_time(struct link *const links[], int n, int q)
{
    hf_dur rtt[HF_NODES_MAX];

    for (int i = 0; i < n; i++)
        rtt[i] = links[i]->rtt;
    return ballot_round_time(rtt, n, q);
}

hf_dur links_patience(struct link *const links[], int n, int q, int node)
{
    return ballot_patience(links_round_time(links, n, q), links[node]->rtt);
}

bool links_is_overdue(struct link *const links[], int n, int q, int node, hf_time now)
{
    const struct call *oldest = TAILQ_FIRST(&links[node]->calls);

    return oldest &&
           hf_time_reached(now, hf_time_add(oldest->sent, links_patience(links, n, q, node)));
}
