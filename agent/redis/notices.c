#include "agent/redis/notices.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <ev.h>
#include <hiredis/hiredis.h>

#include "agent/base/clock.h"
#include "agent/redis/bounds.h"
#include "agent/redis/tls.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define CHANNEL "__redis__:invalidate"

/* (!) A node may send notices without end. What is read of them in PORTION is bounded, the rest waits. */
#define PORTION      hf_ms(100)
#define PORTION_MOST (128 * 1024) /* bytes */
#define READ_COST    128          /* bytes that a read counts as, however short it is */
#define FLOOD_PAUSE  hf_ms(300)   /* between full portions of one flood, at most */
#define FLOOD_MOST   hf_ms(5000)

enum notices_step { /* which command the next answer belongs to */
                    STEP_AUTH,
                    STEP_ID,
                    STEP_SUBSCRIBE,
                    STEP_READY,
};

struct notices {
    struct loop *loop;
    const struct node_address *address;
    hf_dur silence;
    const struct notices_events *events;
    void *arg;
    redisContext *context; /* NULL: closed */
    struct bounds bounds;
    struct tls *tls; /* NULL: plain */
    ev_io reading, writing;
    bool connected; /* with TLS: the handshake is done */
    enum notices_step step;
    int64_t client_id;
    hf_time heard;
    struct loop_timer timer; /* not ready: when to give up; ready: the next PING */
    const char *failed;      /* the start failed: the timer tells the owner */
    size_t portion;          /* bytes read of the present one */
    hf_time portion_end;
    hf_time full, flooded;  /* the last full portion, and the first of its flood */
    struct loop_timer rest; /* until the end of a full portion */
};

static void notices_end(struct notices *n, bool refused, const char *text)
{
    char kept[160];

    hf_assert(n->step <= STEP_READY, "step %d", (int)n->step);
    /* `text` may lie in the context. */
    strncpy(kept, text, sizeof(kept) - 1);
    kept[sizeof(kept) - 1] = '\0';
    notices_close(n);
    n->events->ended(refused, kept, n->arg);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool notices_is_text(const redisReply *e, const char *text)
{
    return e->type == REDIS_REPLY_STRING && e->len == strlen(text) &&
           memcmp(e->str, text, e->len) == 0;
}

/* {message, CHANNEL, {key...}}; NIL instead of the keys after a flush. Anything else is an answer
 * to a PING. */
static void notices_on_message(struct notices *n, const redisReply *message)
{
    const redisContext *context = n->context;
    const redisReply *keys;

    if (message->type != REDIS_REPLY_ARRAY || message->elements != 3 ||
        !notices_is_text(message->element[0], "message") ||
        !notices_is_text(message->element[1], CHANNEL))
        return;
    keys = message->element[2];
    if (keys->type == REDIS_REPLY_NIL)
        n->events->changed(NULL, 0, n->arg);
    if (keys->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i < keys->elements && n->context == context; i++)
        if (keys->element[i]->type == REDIS_REPLY_STRING)
            n->events->changed(keys->element[i]->str, keys->element[i]->len, n->arg);
}

static void notices_on_answer(struct notices *n, const redisReply *answer)
{
    if (answer->type == REDIS_REPLY_ERROR) {
        /* Never the text of AUTH's error: it may repeat the password. */
        notices_end(n, true, n->step == STEP_AUTH ? "AUTH" : answer->str);
        return;
    }
    switch (n->step) {
    case STEP_AUTH:
        n->step = STEP_ID;
        break;
    case STEP_ID:
        n->client_id = answer->type == REDIS_REPLY_INTEGER ? answer->integer : 0;
        n->step = STEP_SUBSCRIBE;
        break;
    case STEP_SUBSCRIBE:
        n->step = STEP_READY;
        (void)loop_timer_set(n->loop, &n->timer,
                             hf_time_add(clock_now(), hf_ns(n->silence.ns / 3)));
        n->events->ready(n->client_id, n->arg);
        break;
    case STEP_READY:
        notices_on_message(n, answer);
        break;
    }
}

static enum tls_step notices_read_some(struct notices *n)
{
    if (n->tls)
        return tls_feed(n->tls, n->context->reader);
    return redisBufferRead(n->context) == REDIS_OK ? TLS_READ : TLS_ENDED;
}

static void notices_begin_portion(struct notices *n, hf_time now)
{
    n->portion = 0;
    n->portion_end = hf_time_add(now, PORTION);
}

static void notices_count_read(struct notices *n, size_t bytes, hf_time now)
{
    if (hf_time_reached(now, n->portion_end))
        notices_begin_portion(n, now);
    n->portion += READ_COST + bytes;
}

static void notices_rest_if_full(struct notices *n)
{
    if (n->portion < PORTION_MOST)
        return;
    if (hf_time_reached(n->heard, hf_time_add(n->full, FLOOD_PAUSE)))
        n->flooded = n->heard;
    n->full = n->heard;
    if (hf_time_reached(n->heard, hf_time_add(n->flooded, FLOOD_MOST))) {
        /* As a refusal, so that it is told. */
        notices_end(n, true,
                    "more notices than 128 KiB in 100 ms, for 5 s; see what listens there");
        return;
    }
    ev_io_stop(loop_ev(n->loop), &n->reading);
    (void)loop_timer_set(n->loop, &n->rest, n->portion_end);
}

static void notices_on_rested(struct loop_timer *timer, hf_time now)
{
    struct notices *n = HF_CONTAINER(timer, struct notices, rest);

    notices_begin_portion(n, now);
    ev_io_start(loop_ev(n->loop), &n->reading);
}

static void notices_read_all(struct notices *n)
{
    redisContext *context = n->context;
    size_t before = context->reader->len;
    enum tls_step step = notices_read_some(n);
    void *answer = NULL;

    if (step == TLS_ENDED) {
        notices_end(n, false, n->tls ? tls_error_text(n->tls) : context->errstr);
        return;
    }
    n->heard = clock_now();
    notices_count_read(n, context->reader->len - before, n->heard);
    for (;;) {
        if (redisReaderGetReply(context->reader, &answer) != REDIS_OK && !n->bounds.beyond) {
            notices_end(n, false, "it speaks no Redis protocol");
            return;
        }
        if (!answer)
            break;
        notices_on_answer(n, answer);
        freeReplyObject(answer);
        if (n->context != context)
            return;
    }
    /* As a refusal, so that it is told. */
    if (!bounds_hold(&n->bounds, context->reader))
        notices_end(n, true, bounds_text(&n->bounds));
    else
        notices_rest_if_full(n);
}

static void notices_shake(struct notices *n);

static void notices_on_readable(struct ev_loop *loop, ev_io *watch, int events)
{
    struct notices *n = HF_CONTAINER(watch, struct notices, reading);

    (void)loop;
    (void)events;
    if (n->connected)
        notices_read_all(n);
    else
        notices_shake(n);
}

/* --- writing ---------------------------------------------------------------------------------- */

static enum tls_step notices_write_some(struct notices *n)
{
    int done = 0;

    if (n->tls)
        return tls_send(n->tls, &n->context->obuf);
    if (redisBufferWrite(n->context, &done) != REDIS_OK)
        return TLS_ENDED;
    return done ? TLS_DONE : TLS_WRITE;
}

static void notices_flush(struct notices *n)
{
    enum tls_step step = notices_write_some(n);

    if (step == TLS_ENDED)
        notices_end(n, false, n->tls ? tls_error_text(n->tls) : n->context->errstr);
    else if (step == TLS_WRITE)
        ev_io_start(loop_ev(n->loop), &n->writing);
    else
        ev_io_stop(loop_ev(n->loop), &n->writing);
}

static void notices_ask(struct notices *n, int argc, const char **argv)
{
    /* Out of memory shows as silence, as does a peer that takes nothing. */
    if (bounds_output(n->context->obuf) < BOUNDS_NOTICES)
        (void)redisAppendCommandArgv(n->context, argc, argv, NULL);
}

static void notices_greet(struct notices *n)
{
    const struct node_address *a = n->address;
    const char *auth[] = {"AUTH", a->user, a->password};
    const char *auth_old[] = {"AUTH", a->password};
    const char *id[] = {"CLIENT", "ID"};
    const char *subscribe[] = {"SUBSCRIBE", CHANNEL};

    n->step = STEP_ID;
    if (a->password[0]) {
        n->step = STEP_AUTH;
        if (a->user[0])
            notices_ask(n, 3, auth);
        else
            notices_ask(n, 2, auth_old);
    }
    notices_ask(n, 2, id);
    notices_ask(n, 2, subscribe);
    notices_flush(n);
}

static void notices_begin(struct notices *n)
{
    n->connected = true;
    ev_io_start(loop_ev(n->loop), &n->reading);
    notices_greet(n);
}

static void notices_shake(struct notices *n)
{
    enum tls_step step = tls_shake(n->tls);

    if (step == TLS_DONE) {
        notices_begin(n);
    } else if (step == TLS_ENDED) {
        notices_end(n, false, tls_error_text(n->tls));
    } else {
        ev_io_start(loop_ev(n->loop), &n->reading);
        if (step == TLS_READ)
            ev_io_stop(loop_ev(n->loop), &n->writing);
    }
}

static void notices_on_writable(struct ev_loop *loop, ev_io *watch, int events)
{
    struct notices *n = HF_CONTAINER(watch, struct notices, writing);
    int error = 0;
    socklen_t size = sizeof(error);

    (void)loop;
    (void)events;
    if (n->connected) {
        notices_flush(n);
        return;
    }
    if (n->tls) {
        notices_shake(n);
        return;
    }
    if (getsockopt(n->context->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        notices_end(n, false, "cannot connect");
        return;
    }
    if (!n->address->tls)
        notices_begin(n);
    else if (tls_open(NULL, n->address, n->context->fd, &n->tls) == HF_OK)
        notices_shake(n);
    else
        notices_end(n, false, "TLS cannot be begun");
}

/* --- time ------------------------------------------------------------------------------------- */

static void notices_on_timer(struct loop_timer *timer, hf_time now)
{
    struct notices *n = HF_CONTAINER(timer, struct notices, timer);
    const char *ping[] = {"PING"};

    if (!n->context) {
        n->events->ended(false, n->failed, n->arg);
        return;
    }
    if (n->step != STEP_READY || hf_time_reached(now, hf_time_add(n->heard, n->silence))) {
        notices_end(n, false, "no answer");
        return;
    }
    (void)loop_timer_set(n->loop, timer, hf_time_add(now, hf_ns(n->silence.ns / 3)));
    notices_ask(n, 1, ping);
    notices_flush(n);
}

/* --- the object ------------------------------------------------------------------------------- */

void notices_open(struct notices *n, const char *host)
{
    const struct node_address *a = n->address;
    redisContext *context;

    notices_close(n);
    context = a->unix_socket ? redisConnectUnixNonBlock(host) : redisConnectNonBlock(host, a->port);
    if (!context || context->err) {
        if (context)
            redisFree(context);
        n->failed = "cannot connect";
        (void)loop_timer_set(n->loop, &n->timer, clock_now());
        return;
    }
    (void)fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    n->context = context;
    n->connected = false;
    bounds_guard(&n->bounds, context->reader, BOUNDS_NOTICES);
    ev_io_init(&n->reading, notices_on_readable, context->fd, EV_READ);
    ev_io_init(&n->writing, notices_on_writable, context->fd, EV_WRITE);
    ev_io_start(loop_ev(n->loop), &n->writing);
    n->step = STEP_AUTH;
    n->heard = clock_now();
    n->portion_end = n->heard;
    n->full = HF_TIME_PAST;
    (void)loop_timer_set(n->loop, &n->timer, hf_time_add(n->heard, n->silence));
}

void notices_close(struct notices *n)
{
    loop_timer_cancel(n->loop, &n->timer);
    loop_timer_cancel(n->loop, &n->rest);
    if (!n->context)
        return;
    ev_io_stop(loop_ev(n->loop), &n->reading);
    ev_io_stop(loop_ev(n->loop), &n->writing);
    tls_close(n->tls);
    n->tls = NULL;
    redisFree(n->context);
    n->context = NULL;
}

int notices_create(struct loop *loop, const struct node_address *address, hf_dur silence,
                   const struct notices_events *events, void *arg, struct notices **ret_notices)
{
    struct notices *n = calloc(1, sizeof(*n));

    if (!n)
        return HF_ENOMEM;
    n->loop = loop;
    n->address = address;
    n->silence = silence;
    n->events = events;
    n->arg = arg;
    n->timer.fn = notices_on_timer;
    n->rest.fn = notices_on_rested;
    *ret_notices = n;
    return HF_OK;
}

void notices_configure(struct notices *n, const struct node_address *address, hf_dur silence)
{
    n->address = address;
    n->silence = silence;
}

void notices_destroy(struct notices *n)
{
    if (!n)
        return;
    notices_close(n);
    free(n);
}
