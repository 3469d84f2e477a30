/* Commands in flight: sending, deadlines, late answers, silence, and scripts that a node does not
 * have any more. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "agent/base/clock.h"
#include "agent/base/failure.h"
#include "agent/redis/command.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/status.h"

#define PATIENCE_LEAST hf_ms(50) /* a scheduler's turn on both hosts */
#define PATIENCE_RTTS  4

/* --- one command ------------------------------------------------------------------------------ */

static struct link_reply reply_of(const struct call *call, enum link_outcome outcome,
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

static void call_free(struct call *call)
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

static void on_deadline(struct loop_timer *timer, hf_time now)
{
    struct call *call = HF_CONTAINER(timer, struct call, deadline);
    ABOUT_NODE(call->link->options.address->id);
    struct link_reply reply = reply_of(call, LINK_TIMEOUT, HF_NODE_ERR_TIMEOUT, clock_now());

    (void)now;
    reply.final = false;
    reply.late = false;
    hf_assert(!call->own && !call->timed_out, "script %d, timed_out %d", (int)call->script,
              call->timed_out);
    call->timed_out = true;
    call->fn(call->link, &reply, call->arg);
}

static void on_answer(redisAsyncContext *context, void *answer, void *arg);

/* How many bytes hiredis has still to send. */
static size_t unsent(const struct link *link)
{
    return bounds_output(link->context->c.obuf);
}

/* (!) What a node does not take is bounded. Its silence ends the connection, unless it has answered all of it unread. */
static bool is_full(struct link *link, size_t length)
{
    bool full = unsent(link) + length > BOUNDS_LINK;

    if (full && link->in_flight == 0)
        link_end(link, HF_NODE_ERR_PROTOCOL, "it answers what it has not read");
    return full;
}

/* Appends to the connection's buffer and to the list. */
static int call_send(struct link *link, struct call *call)
{
    if (!link->context || is_full(link, call->length))
        return HF_ENOQUORUM;
    hf_assert(call->link == link && link->in_flight >= 0, "in_flight %d, state %d", link->in_flight,
              (int)link->state);
    call->sent = clock_now();
    if (redisAsyncFormattedCommand(link->context, on_answer, call, call->command, call->length) !=
        REDIS_OK)
        return HF_ENOQUORUM;
    TAILQ_INSERT_TAIL(&link->calls, call, entry);
    if (link->in_flight++ == 0) {
        hf_time silent_at = hf_time_add(call->sent, link->options.silence);

        link->silence_grace = false;
        (void)loop_timer_set(link->options.loop, &link->silence, silent_at);
    }
    return HF_OK;
}

/* NOSCRIPT says that the script did not run, so it is loaded and the command is sent again,
 * once.
 * (!) Not a command that writes a key or makes it live longer: only its owner knows whether the lease
 * is over and its token released meanwhile. */
static bool call_reload(struct link *link, struct call *call)
{
    bool wanted = call->script == SCRIPT_RELEASE; /* however late */

    if (call->script == SCRIPT_RAISE || call->script == SCRIPT_SENTINEL ||
        call->script == SCRIPT_FLEET || call->script >= SCRIPT_QUERY)
        wanted = !call->timed_out;
    if (call->reloaded || !link->context)
        return false;
    call->reloaded = true;
    call->mark = 0; /* what was to be tracked was that attempt */
    if (call_load(link, call->script, NULL) != HF_OK || !wanted)
        return false;
    return call_send(link, call) == HF_OK;
}

/* (!) A reply from an unknown server is no answer: an acquire's may come from a server that has forgotten
 * the true holder. Then nothing is known of the command, as after NOSCRIPT, and its owner sends it once
 * more, after INFO. A release only needs to have been run. */
static bool counts(const struct link *link, const struct call *call)
{
    return !link->doubted || call->script == SCRIPT_RELEASE;
}

static void script_answered(struct link *link, struct call *call, const redisReply *answer)
{
    ABOUT_NODE(link->options.address->id);
    struct link_reply reply = reply_of(call, LINK_ANSWERED, HF_NODE_ERR_NONE, link->heard);
    char text[LINK_TEXT_MAX], better[LINK_TEXT_MAX];

    reply_decode(answer, call->script, call->keys, &reply);
    /* First, so that INFO precedes the script and the commands that are sent again. */
    if (!identity_is_doubtful(link, answer) && reply.outcome == LINK_ANSWERED &&
        !counts(link, call)) {
        reply.outcome = LINK_ERROR;
        reply.error = HF_NODE_ERR_NOSCRIPT;
        reply.error_text = "not counted: it is in doubt who answers";
    }
    reply.doubtful = link->doubted;
    reply.tracked = tracking_stands(link, call->mark);
    if (reply.error == HF_NODE_ERR_NOSCRIPT) {
        hf_time deadline = call->deadline.item.at;

        if (call_reload(link, call)) {
            if (!call->timed_out)
                (void)loop_timer_set(link->options.loop, &call->deadline, deadline);
            return;
        }
    }
    if (reply.error == HF_NODE_ERR_PERM)
        reply.error_text = acl_of_error(link, reply.error_text, better);
    link_copy_text(link, text, reply.error_text);
    reply.error_text = text;
    call->fn(link, &reply, call->arg);
    call_free(call);
}

static void on_answer(redisAsyncContext *context, void *answer, void *arg)
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
    } else {
        script_answered(link, call, answer);
    }
}

/* --- sending ---------------------------------------------------------------------------------- */

/* A lock takes a call on each node: those whose commands are no longer than most are used again. */
static struct call *call_new(struct link *link, int argc, const char **argv, const size_t *lengths)
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
    call->deadline.fn = on_deadline;
    call->room = room;
    call->length = command_write(call->command, argc, argv, lengths);
    return call;
}

static int send_own(struct link *link, struct call *call)
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
    return send_own(link, call);
}

/* An error shows as NOSCRIPT of the command that follows. */
static void on_reloaded(struct link *link, const struct call *call, const redisReply *answer)
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
    call->own = loaded ? loaded : on_reloaded;
    call->script = script;
    rc = send_own(link, call);
    link->loading[script] = rc == HF_OK;
    return rc;
}

int call_script(struct link *link, enum script script, size_t keys, hf_time deadline,
                link_reply_fn *fn, void *arg, int argc, const char **argv, size_t *lengths)
{
    struct call *call;
    uint32_t mark;
    int rc = HF_OK;

    hf_assert((unsigned)script < SCRIPTS && fn, "script %d", (int)script);
    if (unsent(link) > BOUNDS_LINK / 2)
        link_flush(link); /* not later: a check leaves together with what it is for */
    if (link_in_flight(link) >= LINK_IN_FLIGHT_MAX || !link->context)
        return HF_ENOQUORUM;
    if (script != SCRIPT_RELEASE)
        rc = identity_check(link);
    if (rc != HF_OK)
        return rc;
    mark = tracking_mark(link); /* right ahead of it */
    argv[0] = "EVALSHA";
    lengths[0] = 7;
    argv[1] = link->sha[script];
    lengths[1] = SCRIPT_SHA_LEN;
    call = call_new(link, argc, argv, lengths);
    if (!call)
        return HF_ENOMEM;
    call->mark = mark;
    call->script = script;
    call->keys = keys;
    call->fn = fn;
    call->arg = arg;
    rc = loop_timer_set(link->options.loop, &call->deadline, deadline);
    if (rc == HF_OK)
        rc = call_send(link, call);
    if (rc != HF_OK) {
        loop_timer_cancel(link->options.loop, &call->deadline);
        call_free(call);
    }
    return rc;
}

/* --- all commands of a link ------------------------------------------------------------------- */

static bool has_unread(const struct link *link)
{
    int bytes = 0;

    return ioctl(secure_socket(link), FIONREAD, &bytes) == 0 && bytes > 0;
}

static void on_silence(struct loop_timer *timer, hf_time now)
{
    struct link *link = HF_CONTAINER(timer, struct link, silence);
    struct call *oldest = TAILQ_FIRST(&link->calls);
    hf_time silent_at;

    if (!oldest || !link->context)
        return;
    silent_at = hf_time_add(hf_time_max(link->heard, oldest->sent), link->options.silence);
    if (!hf_time_reached(now, silent_at)) {
        (void)loop_timer_set(link->options.loop, timer, silent_at);
    } else if (!link->silence_grace && has_unread(link)) {
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
    link->silence.fn = on_silence;
}

void calls_reset(struct link *link)
{
    link->heard = HF_TIME_PAST;
    identity_reset(link);
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
            struct link_reply reply = reply_of(call, LINK_BROKEN, link->end_error, clock_now());

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

hf_dur link_patience(const struct link *link)
{
    return hf_dur_max(PATIENCE_LEAST, hf_ns(PATIENCE_RTTS * link->rtt.ns));
}

bool link_is_overdue(const struct link *link, hf_time now)
{
    const struct call *oldest = TAILQ_FIRST(&link->calls);

    return oldest && hf_time_reached(now, hf_time_add(oldest->sent, link_patience(link)));
}
