/* The connection of a link: addresses, connecting, its end, and the next attempt; and what each state does next. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/base/clock.h"
#include "agent/redis/link_internal.h"
#include "agent/redis/acl.h"
#include "shm/assert.h"
#include "shm/status.h"

#define RECONNECT_FIRST_MS 20
#define RECONNECT_MAX_MS   1000
/* To a peer that misbehaves. It costs little, and is told, once in that time. */
#define DISTANCE_FIRST_MS 1000
#define DISTANCE_MAX_MS   60000

/* --- the reader's guard ----------------------------------------------------------------------- */

/* (!) hiredis aborts the program (an assertion) when a peer speaks without being asked. */
static bool link_may_speak(void *owner, const redisReadTask *task)
{
    struct link *link = owner;

    if (!link->context)
        return false;
    /* An unasked error is fine for hiredis: "max number of clients reached". */
    if (task->parent || link->context->replies.head || task->type == REDIS_REPLY_ERROR)
        return true;
    link->is_strange = true;
    return false;
}

static void link_guard_reader(struct link *link)
{
    link->bounds.may = link_may_speak;
    link->bounds.owner = link;
    bounds_guard(&link->bounds, link->context->c.reader, BOUNDS_LINK);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* (!) A peer that misbehaves once it is up, or hangs up, comes up again and again, so coming up proves nothing of it. */
static hf_dur link_delay_of(struct link *link)
{
    bool was_up = link->up_since.ns != HF_TIME_NEVER.ns;
    hf_dur stood = was_up ? hf_time_since(clock_now(), link->up_since) : hf_ns(0);
    bool lasted = stood.ns >= hf_ms(DISTANCE_MAX_MS).ns;

    if (stood.ns >= hf_ms(RECONNECT_MAX_MS).ns)
        backoff_reset(&link->backoff);
    if (link->bounds.beyond || (was_up && link->end_error == HF_NODE_ERR_PROTOCOL)) {
        if (lasted)
            backoff_reset(&link->distance);
        link->is_far = true;
    } else if (lasted) {
        link->is_far = false;
    }
    link->bounds.beyond = false;
    return backoff_step(link->is_far ? &link->distance : &link->backoff, link_random(link));
}

static void link_tell_end(struct link *link)
{
    hf_dur delay = link_delay_of(link);

    hf_assert(link->state == LINK_ENDED && !link->context, "state %d", (int)link->state);
    calls_break(link);
    tracking_stop(link);
    link_enter(link, LINK_WAITING, hf_time_add(clock_now(), delay));
    link->options.events->down(link, link->end_error, link->end_text, link->options.arg);
}

/* --- connecting ------------------------------------------------------------------------------- */

/* The connection to an address failed: takes the next one, or ends the attempt. hiredis may be about
 * to free the context, so nothing new begins before the loop's next turn. */
static void link_connect_failed(struct link *link, const char *text)
{
    link->context = NULL;
    link_copy_text(link, link->end_text, text);
    if (link->address_next < link->address_count)
        link_enter(link, LINK_CONNECTING, clock_now());
    else
        link_ended(link, HF_NODE_ERR_CONNECT);
}

static void link_on_connect(const redisAsyncContext *context, int status)
{
    struct link *link = context->data;

    if (!link)
        return;
    if (status != REDIS_OK) {
        link_connect_failed(link, context->c.errstr[0] ? context->c.errstr : "cannot connect");
        return;
    }
    if (knock_wanted(link)) {
        knock_begin(link);
    } else if (link->options.address->tls) {
        secure_begin(link);
    } else {
        link_enter(link, LINK_GREETING, clock_now());
    }
}

/* A server of TLS ends plain connections without a word. */
static bool link_ended_mute(struct link *link, enum hf_node_error error)
{
    if (link->state != LINK_GREETING || link->heard.ns != HF_TIME_PAST.ns ||
        error != HF_NODE_ERR_BROKEN)
        return false;
    link->mute_ends++;
    return link->other != HF_NODE_ERR_NONE;
}

static void link_on_disconnect(const redisAsyncContext *context, int status)
{
    struct link *link = context->data;
    enum hf_node_error error = HF_NODE_ERR_BROKEN;
    const char *text = context->errstr && *context->errstr ? context->errstr : "connection ended";
    char remedy[REMEDY_SIZE];

    (void)status;
    if (!link)
        return;
    if (link->is_strange || link->bounds.beyond || context->err == REDIS_ERR_PROTOCOL)
        error = HF_NODE_ERR_PROTOCOL;
    else if (context->err == REDIS_ERR_OTHER)
        error = reply_error_class(text);
    if (link->is_strange)
        text = "it spoke out of turn, which no Redis does";
    else if (link->bounds.beyond)
        text = bounds_text(&link->bounds);
    else if (context->err == REDIS_ERR_PROTOCOL && !link->is_redis)
        text = remedy_of_info(NULL);
    else if (context->err == REDIS_ERR_OTHER && *remedy_of("", text, link->is_redis, remedy))
        text = remedy;
    if (link_ended_mute(link, error)) {
        error = link->other;
        text = tls_knocked_text(error);
    }
    link_copy_text(link, link->end_text, text);
    link_ended(link, error);
}

static void link_connect_next(struct link *link)
{
    const struct node_address *address = link->options.address;
    redisAsyncContext *context;

    hf_assert(!link->context, "state %d", (int)link->state);
    hf_assert(link->address_next < link->address_count, "address %d of %d", link->address_next,
              link->address_count);
    if (address->unix_socket)
        context = redisAsyncConnectUnix(address->host);
    else
        context = redisAsyncConnect(link->addresses[link->address_next], address->port);
    memcpy(link->connected, link->addresses[link->address_next], sizeof(link->connected));
    link->address_next++;
    if (!context) {
        link_connect_failed(link, "out of memory");
        return;
    }
    if (context->err) {
        char text[LINK_TEXT_MAX];

        link_copy_text(link, text, context->errstr);
        redisAsyncFree(context);
        link_connect_failed(link, text);
        return;
    }
    (void)fcntl(context->c.fd, F_SETFD, FD_CLOEXEC);
    context->data = link;
    link->context = context;
    link_guard_reader(link);
    calls_reset(link);
    identity_reset(link);
    link->up_since = HF_TIME_NEVER;
    io_attach(link);
    (void)redisAsyncSetConnectCallback(context, link_on_connect);
    (void)redisAsyncSetDisconnectCallback(context, link_on_disconnect);
    link_enter(link, LINK_CONNECTING, hf_time_add(clock_now(), link->options.connect_timeout));
}

static void link_connect_timed_out(struct link *link)
{
    link_drop_context(link);
    link_connect_failed(link, "connecting takes too long");
}

/* --- names ------------------------------------------------------------------------------------ */

static void link_on_resolved(void *arg, const char (*addresses)[64], int count, const char *error)
{
    struct link *link = arg;

    hf_assert(count <= RESOLVER_ADDRESSES, "addresses %d", count);
    if (count > 0) {
        memcpy(link->addresses, addresses, (size_t)count * sizeof(*addresses));
        link->address_count = count;
        link->address_next = count; /* the present attempt belongs to the old list */
    }
    if (link->state != LINK_RESOLVING)
        return;
    if (link->address_count > 0) {
        link->address_next = 0;
        link_connect_next(link);
    } else {
        link_end(link, HF_NODE_ERR_RESOLVE, "%.100s", error);
    }
}

/* The lookup goes on; its result serves the next attempt. */
static void link_resolving_timed_out(struct link *link)
{
    if (link->address_count > 0) {
        link->address_next = 0;
        link_connect_next(link);
    } else {
        link_end(link, HF_NODE_ERR_RESOLVE, "looking up %.100s takes too long",
                 link->options.address->host);
    }
}

static void link_begin_attempt(struct link *link)
{
    const struct node_address *address = link->options.address;

    link->address_next = 0;
    if (address->unix_socket || address->numeric) {
        link->address_count = 1;
        snprintf(link->addresses[0], sizeof(link->addresses[0]), "%.63s", address->host);
        link_connect_next(link);
        return;
    }
    link_enter(link, LINK_RESOLVING, hf_time_add(clock_now(), link->options.connect_timeout));
    if (resolver_ask(link->options.resolver, address->host, link_on_resolved, link) != HF_OK)
        link_resolving_timed_out(link);
}

/* --- the link --------------------------------------------------------------------------------- */

static void link_on_step(struct loop_timer *timer, hf_time now)
{
    struct link *link = HF_CONTAINER(timer, struct link, step);

    (void)now;
    switch (link->state) {
    case LINK_RESOLVING:
        link_resolving_timed_out(link);
        break;
    case LINK_CONNECTING:
        if (link->context)
            link_connect_timed_out(link);
        else if (link->address_next < link->address_count)
            link_connect_next(link);
        else /* a lookup has ended meanwhile: its addresses are for the next attempt */
            link_ended(link, HF_NODE_ERR_CONNECT);
        break;
    case LINK_SECURING:
        secure_timed_out(link);
        break;
    case LINK_ENDED:
        link_tell_end(link);
        break;
    case LINK_IDLE:
    case LINK_WAITING:
        link_begin_attempt(link);
        break;
    case LINK_GREETING:
        handshake_begin(link);
        link_flush(link);
        break;
    case LINK_UP:
        break;
    }
}

int link_create(const struct link_options *options, struct link **ret_link)
{
    struct link *link = calloc(1, sizeof(*link));

    if (!link)
        return HF_ENOMEM;
    link->options = *options;
    link->acl_doubted = options->asks_rights;
    link->step.fn = link_on_step;
    backoff_init(&link->backoff, hf_ms(RECONNECT_FIRST_MS), hf_ms(RECONNECT_MAX_MS));
    backoff_init(&link->distance, hf_ms(DISTANCE_FIRST_MS), hf_ms(DISTANCE_MAX_MS));
    link->up_since = HF_TIME_NEVER;
    if (getrandom(&link->random, sizeof(link->random), GRND_NONBLOCK) < 0 || link->random == 0)
        link->random = (uint32_t)clock_now().ns | 1;
    calls_init(link);
    handshake_init(link);
    identity_init(link);
    if (tracking_init(link) != HF_OK) {
        free(link);
        return HF_ENOMEM;
    }
    *ret_link = link;
    return HF_OK;
}

void link_start(struct link *link)
{
    if (link->state == LINK_IDLE)
        (void)loop_timer_set(link->options.loop, &link->step, clock_now());
}

/* (!) Names that were looked up for the earlier address are forgotten, and a lookup under way is not
 * waited for. */
static void link_move(struct link *link)
{
    if (link->options.resolver)
        resolver_cancel(link->options.resolver, link);
    link->address_count = 0;
    link->mute_ends = 0;
    link->other = HF_NODE_ERR_NONE;
    link->is_far = false;
    backoff_reset(&link->backoff);
    backoff_reset(&link->distance);
    if (link->state == LINK_WAITING)
        link_enter(link, LINK_WAITING, clock_now());
    else
        link_end(link, HF_NODE_ERR_BROKEN, "its address is another one now");
}

void link_configure(struct link *link, const struct link_options *options)
{
    bool moved = !node_address_alike(link->options.address, options->address);

    link->options.address = options->address;
    link->options.connect_timeout = options->connect_timeout;
    link->options.silence = options->silence;
    tracking_configure(link, options->events);
    link_set_probe(link, options->probe);
    if (moved)
        link_move(link);
}

void link_shut(struct link *link)
{
    link_end(link, HF_NODE_ERR_BROKEN, "the agent closed the connection");
    link->state = LINK_ENDED; /* nothing more is sent from the callbacks */
    calls_break(link);
}

void link_destroy(struct link *link)
{
    if (!link)
        return;
    link_shut(link);
    calls_destroy(link);
    tracking_destroy(link);
    loop_timer_cancel(link->options.loop, &link->step);
    if (link->options.resolver)
        resolver_cancel(link->options.resolver, link);
    free(link);
}

int link_node(const struct link *link)
{
    return link->options.node;
}

/* One spelling for one address: every host of the fleet writes the same. The interface is this host's. */
static void link_spell(const char *text, uint16_t port, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    int length = (int)strcspn(text, "%");
    char seat[HF_NODE_TEXT_MAX + 1];

    snprintf(seat, sizeof(seat), strchr(text, ':') ? "[%.*s]:%u" : "%.*s:%u", length, text, port);
    if (!node_address_seat_read(seat, ret_seat))
        memcpy(ret_seat, seat, sizeof(seat));
}

void link_peer(const struct link *link, char ret_seat[HF_NODE_TEXT_MAX + 1])
{
    const struct node_address *address = link->options.address;

    ret_seat[0] = '\0';
    if (!link_is_connected(link))
        return;
    if (address->as[0])
        snprintf(ret_seat, HF_NODE_TEXT_MAX + 1, "%s", address->as);
    else if (address->unix_socket)
        snprintf(ret_seat, HF_NODE_TEXT_MAX + 1, "%s", address->host);
    else
        link_spell(link->connected, address->port, ret_seat);
}

bool link_is_up(const struct link *link)
{
    return link->state == LINK_UP;
}

bool link_is_connected(const struct link *link)
{
    return link->state == LINK_GREETING || link->state == LINK_UP;
}
