/* TLS of a link, and the question which protocol a peer speaks that says nothing in ours.
 *
 * (!) hiredis keeps its buffers, its parser and its callbacks, and is kept from the descriptor: it gets one that never
 * has anything to read. What was decrypted goes into its reader before redisAsyncHandleRead() is called, and what it
 * would write is taken out of its buffer. So a link with TLS behaves as one without, with hiredis 0.14 and 1.x.
 *
 * Plain TCP to a server of TLS ends without a word, and TLS to a server of plain TCP waits for one in vain. The next
 * attempt but one, or the next one, then only asks in the other protocol: that names the fault.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/redis/link_internal.h"
#include "shm/status.h"

#define READS_IN_A_TURN 16
#define KNOCK_MOST      hf_ms(300)
#define MUTE            "no answer to the TLS handshake"

/* --- the descriptor --------------------------------------------------------------------------- */

static int silent = -1;

static void secure_make_silent(void)
{
    silent = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* One for the whole process: nobody can write to it. */
static int secure_silent_fd(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, secure_make_silent);
    return silent;
}

static void secure_watch(struct link *link, bool reads, bool writes)
{
    loop_fd_want(link->options.loop, &link->secure.io,
                 (reads ? LOOP_READ : 0u) | (writes ? LOOP_WRITE : 0u));
}

/* (!) At once: its descriptor may go. */
static void secure_unwatch(struct link *link)
{
    loop_fd_remove(link->options.loop, &link->secure.io);
}

static void secure_watch_fd(struct link *link, int fd)
{
    secure_unwatch(link);
    link->secure.io.fd = fd;
    secure_watch(link, true, false);
}

/* Gives the descriptor back, closed. Before hiredis frees its context, which may be later. */
static void secure_end(struct link *link)
{
    struct link_secure *s = &link->secure;

    if (!s->context)
        return;
    secure_unwatch(link);
    tls_close(s->tls);
    (void)close(s->fd);
    s->context->c.fd = -1; /* hiredis does not close the silent one */
    memset(&s->context->ev, 0, sizeof(s->context->ev));
    *s = (struct link_secure){.context = NULL};
}

static void secure_on_cleanup(void *arg)
{
    secure_end(arg);
}

static void secure_on_wants_to_write(void *arg)
{
    struct link *link = arg;

    if (link->state >= LINK_GREETING)
        secure_watch(link, true, true);
}

static void secure_on_event(struct loop_fd *io);

static bool secure_take_over(struct link *link)
{
    redisAsyncContext *context = link->context;
    struct link_secure *s = &link->secure;

    if (secure_silent_fd() < 0)
        return false;
    io_detach(context);
    *s = (struct link_secure){.context = context, .fd = context->c.fd};
    context->c.fd = secure_silent_fd();
    context->ev.data = link;
    context->ev.addWrite = secure_on_wants_to_write;
    context->ev.cleanup = secure_on_cleanup;
    s->io.fd = s->fd;
    s->io.fn = secure_on_event;
    return true;
}

int secure_socket(const struct link *link)
{
    return link->secure.context ? link->secure.fd : link->context->c.fd;
}

/* --- the handshake ---------------------------------------------------------------------------- */

static void secure_failed(struct link *link)
{
    char text[LINK_TEXT_MAX];

    /* It is freed before the text is used. */
    link_copy_text(link, text, tls_error_text(link->secure.tls));
    link_end(link, tls_error(link->secure.tls), "%s", text);
}

/* (!) hiredis is in its connect callback, and must not be freed there: all else happens in a later turn. */
void secure_begin(struct link *link)
{
    hf_time at = hf_time_add(clock_now(), link->options.connect_timeout);

    link->secure_slow = false;
    if (secure_take_over(link)) {
        link->secure.failed =
            tls_open(link->options.keys, link->options.address, link->secure.fd, &link->secure.tls);
        if (link->secure.failed == HF_OK)
            secure_watch_fd(link, tls_shaken_fd(link->secure.tls));
    }
    if (!link->secure.tls)
        at = clock_now();
    link_enter(link, LINK_SECURING, at);
}

static void secure_shaken(struct link *link)
{
    enum tls_step step;

    secure_unwatch(link);
    step = tls_shake(link->secure.tls);
    if (step == TLS_READ) {
        secure_watch(link, true, false);
        return;
    }
    if (step == TLS_ENDED) {
        if (tls_error(link->secure.tls) == HF_NODE_ERR_NO_TLS)
            link->other = HF_NODE_ERR_NO_TLS;
        secure_failed(link);
        return;
    }
    secure_watch_fd(link, link->secure.fd);
    link_enter(link, LINK_GREETING, clock_now());
}

/* Nothing new was learnt: what is told of a peer that hangs stays the same from one attempt to the next. */
static void secure_knocked_in_vain(struct link *link, const char *text)
{
    bool tls = link->options.address->tls;

    link->other = HF_NODE_ERR_NONE;
    link_end(link, tls ? HF_NODE_ERR_TLS : HF_NODE_ERR_BROKEN, "%s", tls ? MUTE : text);
}

void secure_timed_out(struct link *link)
{
    struct link_secure *s = &link->secure;

    link->secure_slow |= s->tls != NULL;
    if (s->knocking) {
        secure_knocked_in_vain(link, "no answer");
    } else if (!s->tls && s->failed == HF_EINVAL) {
        link_end(link, HF_NODE_ERR_TLS,
                 "the agent has no tls_ca_file: restart or reload it with one");
    } else if (!s->tls && s->failed != HF_EBUSY) {
        link_end(link, HF_NODE_ERR_OTHER, "out of memory");
    } else if (!s->tls || tls_heard(s->tls)) {
        link_end(link, HF_NODE_ERR_TLS, TLS_BUSY_TEXT);
    } else {
        link_mute_end(link, HF_NODE_ERR_TLS, MUTE);
    }
}

/* --- reading and writing ---------------------------------------------------------------------- */

void secure_flush(struct link *link)
{
    enum tls_step step = tls_send(link->secure.tls, &link->secure.context->c.obuf);

    if (step == TLS_ENDED)
        secure_failed(link);
    else
        secure_watch(link, true, step == TLS_WRITE);
}

/* A read takes a whole record, so nothing stays in OpenSSL for which the descriptor would not be readable again. */
static void secure_drain(struct link *link)
{
    redisAsyncContext *context = link->secure.context;
    enum tls_step step = TLS_DONE;
    int reads = 0;

    while (reads < READS_IN_A_TURN && step == TLS_DONE) {
        step = tls_feed(link->secure.tls, context->c.reader);
        reads += step == TLS_DONE;
    }
    if (reads > 0)
        redisAsyncHandleRead(context);
    if (link->secure.context == context)
        link_read_is_over(link);
    if (link->secure.context != context)
        return;
    if (step == TLS_ENDED) {
        secure_failed(link);
        return;
    }
    secure_flush(link);
}

/* --- which protocol it speaks ----------------------------------------------------------------- */

bool knock_wanted(const struct link *link)
{
    const struct node_address *address = link->options.address;

    return !address->unix_socket && link->mute_ends >= (address->tls ? 1 : 2);
}

void knock_begin(struct link *link)
{
    hf_time at = hf_time_add(clock_now(), KNOCK_MOST);

    link->mute_ends = 0;
    if (secure_take_over(link)) {
        link->secure.knocking = true;
        secure_watch(link, false, true);
    } else {
        at = clock_now();
    }
    link_enter(link, LINK_SECURING, at);
}

static void secure_knock(struct link *link, unsigned happened)
{
    const struct node_address *address = link->options.address;
    unsigned char first;
    size_t length;
    const void *words = tls_knock(address, &length);
    ssize_t got;

    if (happened & LOOP_WRITE) {
        (void)send(link->secure.fd, words, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        secure_watch(link, true, false);
        return;
    }
    got = recv(link->secure.fd, &first, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    link->other = got == 1 ? tls_knocked(address, first) : HF_NODE_ERR_NONE;
    if (link->other == HF_NODE_ERR_NONE)
        secure_knocked_in_vain(link, "it ends the connection without an answer");
    else
        link_end(link, link->other, "%s", tls_knocked_text(link->other));
}

static void secure_on_event(struct loop_fd *io)
{
    struct link *link = HF_CONTAINER(io, struct link, secure.io);

    if (link->secure.knocking)
        secure_knock(link, io->happened);
    else if (link->state == LINK_SECURING)
        secure_shaken(link);
    else if (io->happened & LOOP_READ)
        secure_drain(link);
    else
        secure_flush(link);
}
