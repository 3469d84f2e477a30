/* CLIENT TRACKING on a link: the node watches the keys that the script after link_track() reads, and
 * tells of their next change on a connection of its own (agent/redis/notices.h).
 *
 *   up -> the notices' connection -> CLIENT TRACKING ON REDIRECT ID OPTIN NOLOOP -> on
 * OPTIN: only the command after CLIENT CACHING YES is watched. NOLOOP: changes by this connection
 * itself are not told. Notices are only hints. A node that refuses any of this is used without it,
 * and asked again now and then.
 */
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/base/clock.h"
#include "agent/redis/link_internal.h"
#include "shm/assert.h"
#include "shm/status.h"

#define AGAIN_FIRST  hf_ms(50)
#define AGAIN_MOST   hf_ms(30000)

#define WORDS(words) (int)HF_LENGTH(words), words, NULL

static void tracking_set(struct link *link, enum hf_node_tracking state, const char *text)
{
    struct link_tracking *t = &link->tracking;

    if (t->state == state)
        return;
    t->state = state;
    t->epoch++;
    t->since = clock_now();
    if (link->options.events->tracking)
        link->options.events->tracking(link, state, text, link->options.arg);
}

static void tracking_again(struct link *link)
{
    hf_dur delay = backoff_step(&link->tracking.backoff, link_random(link));

    (void)loop_timer_set(link->options.loop, &link->tracking.again,
                         hf_time_add(clock_now(), delay));
}

static void tracking_give_up(struct link *link, bool refused, const char *text)
{
    char shown[LINK_TEXT_MAX];
    bool lasted = hf_time_since(clock_now(), link->tracking.since).ns >= AGAIN_MOST.ns;

    if (link->tracking.state == HF_TRACKING_ON && lasted)
        backoff_reset(&link->tracking.backoff);
    notices_close(link->tracking.notices);
    link->tracking.ready = false;
    link_copy_text(link, shown, text);
    tracking_set(link, refused ? HF_TRACKING_REFUSED : HF_TRACKING_BROKEN, shown);
    tracking_again(link);
}

/* --- on the link ------------------------------------------------------------------------------ */

static void tracking_on_caching(struct link *link, const struct call *call,
                                const redisReply *answer)
{
    (void)call;
    if (answer->type == REDIS_REPLY_ERROR && link->tracking.state == HF_TRACKING_ON)
        tracking_give_up(link, true, answer->str);
}

static void tracking_on_tracking(struct link *link, const struct call *call,
                                 const redisReply *answer)
{
    (void)call;
    hf_assert(link->tracking.asking > 0, "ready %d, state %d", link->tracking.ready,
              (int)link->tracking.state);
    /* The notices' connection may have ended in between, and a new one may be under way. */
    if (--link->tracking.asking > 0 || !link->tracking.ready)
        return;
    if (answer->type == REDIS_REPLY_ERROR) {
        tracking_give_up(link, true, answer->str);
        return;
    }
    /* (!) It proves nothing of the node that this works: each time that it begins or ends, every name that is waited for
     * is looked at. So the next attempt is soon only after it has lasted. */
    tracking_set(link, HF_TRACKING_ON, "");
}

void link_track(struct link *link)
{
    link->tracking.next = link->tracking.state == HF_TRACKING_ON;
}

uint32_t tracking_mark(struct link *link)
{
    const char *words[] = {"CLIENT", "CACHING", "YES"};
    bool wanted = link->tracking.next && link->in_flight < LINK_IN_FLIGHT_MAX;

    link->tracking.next = false;
    return wanted && call_own(link, tracking_on_caching, WORDS(words)) == HF_OK
               ? link->tracking.epoch
               : 0;
}

bool tracking_stands(const struct link *link, uint32_t mark)
{
    return mark != 0 && link->tracking.state == HF_TRACKING_ON && link->tracking.epoch == mark;
}

enum hf_node_tracking link_tracking(const struct link *link)
{
    return link->tracking.state;
}

/* --- the notices' connection ------------------------------------------------------------------ */

static void tracking_on_ready(int64_t client_id, void *arg)
{
    struct link *link = arg;
    char id[24];
    const char *words[] = {"CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN", "NOLOOP"};

    snprintf(id, sizeof(id), "%" PRId64, client_id);
    if (link->state != LINK_UP || call_own(link, tracking_on_tracking, WORDS(words)) != HF_OK)
        return; /* the link's next connection begins it anew */
    link->tracking.ready = true;
    link->tracking.asking++;
    link_flush(link);
}

static void tracking_on_changed(const void *key, size_t key_len, void *arg)
{
    struct link *link = arg;
    size_t prefix = sizeof(LINK_FENCE_PREFIX) - 1;

    /* Every script reads the key's fence record too: a notice of the record says nothing of the key.
     */
    if (link->tracking.state != HF_TRACKING_ON ||
        (key && key_len >= prefix && memcmp(key, LINK_FENCE_PREFIX, prefix) == 0))
        return;
    if (!key ||
        (key_len == sizeof(LINK_SENTINEL_KEY) - 1 && memcmp(key, LINK_SENTINEL_KEY, key_len) == 0))
        link_probe_soon(link);
    link->options.events->noticed(link, key, key_len, link->options.arg);
}

static void tracking_on_ended(bool refused, const char *text, void *arg)
{
    tracking_give_up(arg, refused, text);
}

static const struct notices_events notices_events = {
    .ready = tracking_on_ready, .changed = tracking_on_changed, .ended = tracking_on_ended};

static void tracking_on_again(struct loop_timer *timer, hf_time now)
{
    struct link *link = HF_CONTAINER(timer, struct link, tracking.again);

    (void)now;
    tracking_begin(link);
}

/* --- the link's life -------------------------------------------------------------------------- */

/* The address that the link itself is connected to: the name may have several. */
static bool tracking_peer_of(const struct link *link, char ret_host[64])
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof(peer);

    return getpeername(secure_socket(link), (struct sockaddr *)&peer, &size) == 0 &&
           getnameinfo((struct sockaddr *)&peer, size, ret_host, 64, NULL, 0, NI_NUMERICHOST) == 0;
}

void tracking_begin(struct link *link)
{
    const struct node_address *address = link->options.address;
    char host[64];

    if (!link->tracking.notices || link->state != LINK_UP)
        return;
    loop_timer_cancel(link->options.loop, &link->tracking.again);
    if (address->unix_socket)
        notices_open(link->tracking.notices, address->host);
    else if (tracking_peer_of(link, host))
        notices_open(link->tracking.notices, host);
    else
        tracking_again(link);
}

void tracking_stop(struct link *link)
{
    if (!link->tracking.notices)
        return;
    loop_timer_cancel(link->options.loop, &link->tracking.again);
    notices_close(link->tracking.notices);
    link->tracking.ready = link->tracking.next = false;
    link->tracking.asking = 0;
    tracking_set(link, HF_TRACKING_DOWN, "");
}

int tracking_init(struct link *link)
{
    const struct link_options *o = &link->options;

    link->tracking.again.fn = tracking_on_again;
    backoff_init(&link->tracking.backoff, AGAIN_FIRST, AGAIN_MOST);
    if (!o->events->noticed)
        return HF_OK;
    return notices_create(o->loop, o->address, o->silence, &notices_events, link,
                          &link->tracking.notices);
}

/* Notices are hints: without memory for them the link goes on alone. */
void tracking_configure(struct link *link, const struct link_events *events)
{
    const struct link_options *o = &link->options;

    if (link->tracking.notices)
        notices_configure(link->tracking.notices, o->address, o->silence);
    if (!events->noticed == !o->events->noticed) {
        link->options.events = events;
        return;
    }
    tracking_stop(link);
    notices_destroy(link->tracking.notices);
    link->tracking.notices = NULL;
    link->options.events = events;
    if (events->noticed && notices_create(o->loop, o->address, o->silence, &notices_events, link,
                                          &link->tracking.notices) == HF_OK)
        tracking_begin(link);
}

void tracking_destroy(struct link *link)
{
    loop_timer_cancel(link->options.loop, &link->tracking.again);
    notices_destroy(link->tracking.notices);
}
