#include "agent/redis/notices.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <hiredis/hiredis.h>

#include "agent/base/clock.h"
#include "agent/redis/bounds.h"
#include "agent/redis/tls.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define CHANNEL "__redis__:invalidate"

/* (!) A node may send notices without end. Within PORTION so many bytes are read, and their work takes a quarter of
 * the thread: the rest waits. */
#define PORTION      hf_ms(100)
#define PORTION_MOST (128 * 1024) /* bytes */
#define PORTION_WORK 4            /* the portion lasts so many times the work, at least */
#define READ_COST    128          /* bytes that a read counts as, however short it is */
/* (!) To tell of a flush has the owner look at all that it has, so flushes are merged; the last one is always told. */
#define FLUSH_EVERY hf_ms(100)
#define FLUSH_WORK  100         /* the next one is told after so many times the work, at least */
#define FLOOD_PAUSE hf_ms(300)  /* between full portions, or flushes, of one flood, at most */
#define FLOOD_MOST  hf_ms(5000) /* of one flood */

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
    struct loop_fd io;
    bool connected; /* with TLS: the handshake is done */
    enum notices_step step;
    int64_t client_id;
    hf_time heard;
    struct loop_timer timer; /* not ready: when to give up; ready: the next PING */
    const char *failed;      /* the start failed: the timer tells the owner */
    size_t portion;          /* bytes read of the present one */
    hf_dur work, worked;     /* for it, of the thread's processor time; and when that was read */
    hf_time portion_end;
    hf_time full, flooded;  /* the last full portion's end, or a flush; and the flood's beginning */
    struct loop_timer rest; /* until the end of a full portion */
    hf_time told;           /* a flush; kept from one connection to the next, as is... */
    hf_dur apart;           /* ...how long after it the next one is told */
    struct loop_timer flush; /* set: one is still to be told */
};

static void notices_tell_flush(struct notices *n, hf_time now)
{
    hf_dur began = clock_of_thread();

    loop_timer_cancel(n->loop, &n->flush);
    n->told = now;
    n->events->changed(NULL, 0, n->arg);
    n->apart = hf_dur_max(FLUSH_EVERY, hf_ns(FLUSH_WORK * (clock_of_thread().ns - began.ns)));
}

static void notices_end(struct notices *n, bool refused, const char *text)
{
    const redisContext *context = n->context;
    char kept[160];

    hf_assert(n->step <= STEP_READY, "step %d", (int)n->step);
    /* `text` may lie in the context. */
    strncpy(kept, text, sizeof(kept) - 1);
    kept[sizeof(kept) - 1] = '\0';
    if (heap_has(&n->flush.item))
        notices_tell_flush(n, clock_now());
    if (n->context != context)
        return;
    notices_close(n);
    n->events->ended(refused, kept, n->arg);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void notices_begin_portion(struct notices *n, hf_time now)
{
    n->portion = 0;
    n->work = hf_ns(0);
    n->portion_end = hf_time_add(now, PORTION);
}

static void notices_count_read(struct notices *n, size_t bytes, hf_time now)
{
    if (hf_time_reached(now, n->portion_end))
        notices_begin_portion(n, now);
    n->portion += READ_COST + bytes;
}

static bool notices_is_too_much_work(const struct notices *n)
{
    return n->work.ns * PORTION_WORK >= PORTION.ns;
}

/* Since it was counted before. */
static void notices_count_work(struct notices *n)
{
    hf_dur before = n->worked;

    n->worked = clock_of_thread();
    n->work = hf_ns(n->work.ns + n->worked.ns - before.ns);
}

/* After a full portion that ends at `full`, or a flush. Whether the connection has ended. */
static bool notices_is_flood(struct notices *n, hf_time full)
{
    if (hf_time_reached(n->heard, hf_time_add(n->full, FLOOD_PAUSE)))
        n->flooded = n->heard;
    n->full = hf_time_max(n->full, full);
    if (!hf_time_reached(n->heard, hf_time_add(n->flooded, FLOOD_MOST)))
        return false;
    /* As a refusal, so that it is told. */
    notices_end(
        n, true,
        "more notices than three flushes in a second, or 128 KiB in 100 ms, or a quarter of a "
        "thread, for 5 s; see what listens there");
    return true;
}

static void notices_want(struct notices *n, unsigned events)
{
    loop_fd_want(n->loop, &n->io, events);
}

static void notices_rest(struct notices *n)
{
    hf_time worked_off = hf_time_add(n->portion_end, hf_ns(n->work.ns * PORTION_WORK - PORTION.ns));

    n->portion_end = hf_time_max(n->portion_end, worked_off);
    if (notices_is_flood(n, n->portion_end))
        return;
    notices_want(n, n->io.wanted & ~(unsigned)LOOP_READ);
    (void)loop_timer_set(n->loop, &n->rest, n->portion_end);
}

/* --- flushes ---------------------------------------------------------------------------------- */

static void notices_hear_flush(struct notices *n)
{
    const redisContext *context = n->context;

    if (hf_time_reached(n->heard, hf_time_add(n->told, n->apart)))
        notices_tell_flush(n, n->heard);
    else if (!heap_has(&n->flush.item))
        (void)loop_timer_set(n->loop, &n->flush, hf_time_add(n->told, n->apart));
    if (n->context == context)
        (void)notices_is_flood(n, n->heard);
}

static void notices_on_flush_due(struct loop_timer *timer, hf_time now)
{
    notices_tell_flush(HF_CONTAINER(timer, struct notices, flush), now);
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
        notices_hear_flush(n);
    if (keys->type != REDIS_REPLY_ARRAY)
        return;
    for (size_t i = 0; i < keys->elements && n->context == context; i++) {
        if (i > 0)
            notices_count_work(n);
        if (notices_is_too_much_work(n)) { /* one message may have hundreds */
            notices_hear_flush(n);
            return;
        }
        if (keys->element[i]->type == REDIS_REPLY_STRING)
            n->events->changed(keys->element[i]->str, keys->element[i]->len, n->arg);
    }
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

/* Of what has been read; the rest of that waits, too. */
static void notices_take(struct notices *n)
{
    redisContext *context = n->context;
    void *answer = NULL;

    n->worked = clock_of_thread();
    while (!notices_is_too_much_work(n)) {
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
        notices_count_work(n);
    }
    /* As a refusal, so that it is told. */
    if (!bounds_hold(&n->bounds, context->reader))
        notices_end(n, true, bounds_text(&n->bounds));
    else if (n->portion >= PORTION_MOST || notices_is_too_much_work(n))
        notices_rest(n);
}

static void notices_on_rested(struct loop_timer *timer, hf_time now)
{
    struct notices *n = HF_CONTAINER(timer, struct notices, rest);

    n->heard = now;
    notices_begin_portion(n, now);
    notices_want(n, n->io.wanted | LOOP_READ);
    notices_take(n);
}

static void notices_read_all(struct notices *n)
{
    redisContext *context = n->context;
    size_t before = context->reader->len;
    enum tls_step step = notices_read_some(n);

    if (step == TLS_ENDED) {
        notices_end(n, false, n->tls ? tls_error_text(n->tls) : context->errstr);
        return;
    }
    n->heard = clock_now();
    notices_count_read(n, context->reader->len - before, n->heard);
    notices_take(n);
}

static void notices_shaken(struct notices *n);

static void notices_on_readable(struct notices *n)
{
    if (n->connected)
        notices_read_all(n);
    else
        notices_shaken(n);
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
        notices_want(n, n->io.wanted | LOOP_WRITE);
    else
        notices_want(n, n->io.wanted & ~(unsigned)LOOP_WRITE);
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
    notices_want(n, n->io.wanted | LOOP_READ);
    notices_greet(n);
}

static void notices_watch_fd(struct notices *n, int fd)
{
    loop_fd_remove(n->loop, &n->io);
    n->io.fd = fd;
    notices_want(n, LOOP_READ);
}

static void notices_shaken(struct notices *n)
{
    enum tls_step step;

    loop_fd_remove(n->loop, &n->io); /* its descriptor may go */
    step = tls_shake(n->tls);
    if (step == TLS_ENDED)
        notices_end(n, false, tls_error_text(n->tls));
    else if (step == TLS_READ)
        notices_want(n, LOOP_READ);
    else {
        notices_watch_fd(n, n->context->fd);
        notices_begin(n);
    }
}

static void notices_on_writable(struct notices *n)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (n->connected) {
        notices_flush(n);
        return;
    }
    if (getsockopt(n->context->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error) {
        notices_end(n, false, "cannot connect");
        return;
    }
    if (!n->address->tls) {
        notices_begin(n);
        return;
    }
    if (tls_open(NULL, n->address, n->context->fd, &n->tls) == HF_OK)
        notices_watch_fd(n, tls_shaken_fd(n->tls));
    else
        notices_end(n, false, "TLS cannot be begun");
}

/* Reading may end the connection. */
static void notices_on_event(struct loop_fd *io)
{
    struct notices *n = HF_CONTAINER(io, struct notices, io);
    unsigned happened = io->happened;

    if (happened & LOOP_READ)
        notices_on_readable(n);
    if (n->context && (happened & io->wanted & LOOP_WRITE))
        notices_on_writable(n);
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
    /* What it said within a rest is not read. */
    if (n->step != STEP_READY ||
        (!heap_has(&n->rest.item) && hf_time_reached(now, hf_time_add(n->heard, n->silence)))) {
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
    n->io.fd = context->fd;
    n->io.fn = notices_on_event;
    notices_want(n, LOOP_WRITE);
    n->step = STEP_AUTH;
    n->heard = clock_now();
    notices_begin_portion(n, n->heard);
    n->full = HF_TIME_PAST;
    (void)loop_timer_set(n->loop, &n->timer, hf_time_add(n->heard, n->silence));
}

void notices_close(struct notices *n)
{
    loop_timer_cancel(n->loop, &n->timer);
    loop_timer_cancel(n->loop, &n->rest);
    loop_timer_cancel(n->loop, &n->flush);
    if (!n->context)
        return;
    loop_fd_remove(n->loop, &n->io);
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
    n->flush.fn = notices_on_flush_due;
    n->told = HF_TIME_PAST;
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
