#include "tests/sim/watches.h"

#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/redis/notices.h"
#include "shm/status.h"

#define WATCHES 512

/* What the agent has of it: as the shipped one, it dies with its agent. */
struct notices {
    struct loop *loop;
    const struct node_address *address;
    hf_dur silence;
    const struct notices_events *events;
    void *arg;
    struct channel *channel; /* NULL: closed */
    hf_time heard;
    struct loop_timer timer;
};

enum channel_step { CHANNEL_CONNECTING, CHANNEL_GREETING, CHANNEL_READY, CHANNEL_ENDED };

/* One connection for notices. */
struct channel {
    struct channel *next;
    struct notices *notices; /* NULL: the client's end is closed */
    struct loop *loop;
    struct sim_host *host;
    struct vnode *node;
    uint32_t node_life;
    int id;
    enum channel_step step;
    bool cut;               /* nothing passes any more */
    struct sim_event event; /* the next step of its life */
    struct sim_io io;
    struct notice *first, **last; /* on their way */
    sim_ns back_at;
};

struct notice {
    struct notice *next; /* of the channel, in order */
    struct sim_event event;
    struct sim_io io;
    struct channel *channel;
    char key[sizeof(((struct store_key *)0)->name)]; /* "": any */
};

static struct channel *channels;
static int channel_count;

static struct watch { /* a key that a node watches for a connection */
    struct vnode *node;
    struct sim_connection *reader;
    char key[sizeof(((struct store_key *)0)->name)];
} watches[WATCHES];
static int watch_count;

void watches_reset(void)
{
    channels = NULL;
    channel_count = 0;
    watch_count = 0;
}

/* --- the client's end ------------------------------------------------------------------------- */

void notices_close(struct notices *n)
{
    struct channel *c = n->channel;

    loop_timer_cancel(n->loop, &n->timer);
    if (!c)
        return;
    n->channel = NULL;
    c->notices = NULL;
    loop_io_drop(c->loop, &c->io);
    sim_cancel(&c->event);
    for (struct notice *m = c->first; m; m = m->next) {
        loop_io_drop(c->loop, &m->io);
        sim_cancel(&m->event);
    }
}

static void end(struct notices *n, const char *text)
{
    notices_close(n);
    n->events->ended(false, text, n->arg);
}

static void on_io(struct sim_io *io)
{
    struct channel *c = HF_CONTAINER(io, struct channel, io);
    struct notices *n = c->notices;

    if (!n)
        return;
    sim_preempt();
    if (c->step == CHANNEL_ENDED) {
        end(n, "Server closed the connection");
        return;
    }
    c->step = CHANNEL_READY;
    n->heard = clock_now();
    (void)loop_timer_set(n->loop, &n->timer, hf_time_add(n->heard, hf_ns(n->silence.ns / 3)));
    n->events->ready(c->id, n->arg);
}

static void on_notice_io(struct sim_io *io)
{
    struct notice *m = HF_CONTAINER(io, struct notice, io);
    struct channel *c = m->channel;
    struct notices *n = c->notices;

    if (!n)
        return;
    c->first = m->next;
    if (!c->first)
        c->last = &c->first;
    sim_preempt();
    n->heard = clock_now();
    n->events->changed(m->key[0] ? m->key : NULL, strlen(m->key), n->arg);
}

static bool is_up(const struct channel *c)
{
    return !c->cut && c->node->running && c->node->life == c->node_life;
}

/* A PING goes there and back; here it is enough that it could. */
static bool would_answer(const struct channel *c)
{
    const struct net_path *path = net_path(c->host, c->node);

    return is_up(c) && sim.now >= c->node->stopped_until &&
           sim.now >= path->blocked_until[NET_THERE] && sim.now >= path->blocked_until[NET_BACK];
}

static void on_timer(struct loop_timer *timer, hf_time now)
{
    struct notices *n = HF_CONTAINER(timer, struct notices, timer);

    if (n->channel->step == CHANNEL_READY && would_answer(n->channel))
        n->heard = now;
    if (n->channel->step != CHANNEL_READY ||
        hf_time_reached(now, hf_time_add(n->heard, n->silence)))
        end(n, "no answer");
    else
        (void)loop_timer_set(n->loop, timer, hf_time_add(now, hf_ns(n->silence.ns / 3)));
}

/* --- connecting ------------------------------------------------------------------------------- */

static void tell_end(struct channel *c)
{
    c->cut = true;
    c->step = CHANNEL_ENDED;
    sim_at(&c->event, net_arrival(c->host, c->node, NET_BACK));
}

static void on_event(struct sim_event *event)
{
    struct channel *c = HF_CONTAINER(event, struct channel, event);

    if (!c->notices)
        return;
    if (c->step != CHANNEL_CONNECTING) {
        if (!c->cut || c->step == CHANNEL_ENDED)
            loop_io(c->loop, &c->io);
    } else if (!c->node->running) {
        if (!c->node->unreachable)
            tell_end(c);
    } else if (sim.now < c->node->stopped_until) {
        sim_at(event, c->node->stopped_until);
    } else {
        c->node_life = c->node->life;
        c->step = CHANNEL_GREETING;
        c->back_at = net_arrival(c->host, c->node, NET_BACK);
        sim_at(event, c->back_at);
    }
}

void notices_open(struct notices *n, const char *host)
{
    struct channel *c = sim_alloc(sizeof(*c));

    (void)host;
    notices_close(n);
    c->notices = n;
    c->loop = n->loop;
    c->host = sim.frame->host;
    c->node = vnode_at(n->address->port);
    c->id = ++channel_count;
    c->last = &c->first;
    c->event.fn = on_event;
    c->io.fn = on_io;
    c->next = channels;
    channels = c;
    n->channel = c;
    n->heard = clock_now();
    (void)loop_timer_set(n->loop, &n->timer, hf_time_add(n->heard, n->silence));
    sim_at(&c->event, net_arrival(c->host, c->node, NET_THERE));
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
    n->timer.fn = on_timer;
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

/* --- the node's end --------------------------------------------------------------------------- */

static struct channel *channel_of(const struct vnode *node, int id)
{
    struct channel *c = channels;

    while (c && c->id != id)
        c = c->next;
    return c && c->node == node && c->step != CHANNEL_ENDED && is_up(c) ? c : NULL;
}

static void on_notice(struct sim_event *event)
{
    struct notice *m = HF_CONTAINER(event, struct notice, event);

    if (m->channel->notices && !m->channel->cut)
        loop_io(m->channel->loop, &m->io);
}

static void tell(const struct vnode *node, int id, const char *key)
{
    struct channel *c = channel_of(node, id);
    struct notice *m;
    sim_ns at;

    if (!c || !c->notices)
        return;
    at = net_arrival(c->host, c->node, NET_BACK);
    if (at < c->back_at)
        at = c->back_at;
    c->back_at = at;
    m = sim_alloc(sizeof(*m));
    m->channel = c;
    m->event.fn = on_notice;
    m->io.fn = on_notice_io;
    snprintf(m->key, sizeof(m->key), "%s", key);
    *c->last = m;
    c->last = &m->next;
    sim_at(&m->event, at);
}

bool watches_on(struct sim_connection *reader, int id)
{
    if (!channel_of(reader->node, id))
        return false;
    reader->redirect = id;
    return true;
}

void watches_read(struct vnode *node, struct sim_connection *reader, const char *key)
{
    if (rng_chance(&sim.rng, 0.005)) { /* there is no room for it */
        tell(node, reader->redirect, key);
        return;
    }
    for (int i = 0; i < watch_count; i++)
        if (watches[i].node == node && watches[i].reader == reader &&
            strcmp(watches[i].key, key) == 0)
            return;
    if (watch_count == WATCHES) {
        fputs("sim: too many keys are watched\n", stderr);
        abort();
    }
    watches[watch_count] = (struct watch){.node = node, .reader = reader};
    snprintf(watches[watch_count++].key, sizeof(watches->key), "%s", key);
}

/* Whether the node still has this reader. */
static bool reads(const struct watch *w)
{
    return !w->reader->client_gone && !w->reader->cut && w->reader->node_life == w->node->life;
}

void watches_changed(struct vnode *node, const struct sim_connection *writer, const char *key)
{
    int kept = 0;

    for (int i = 0; i < watch_count; i++) {
        struct watch *w = &watches[i];

        if (!reads(w))
            continue;
        if (w->node != node || strcmp(w->key, key) != 0)
            watches[kept++] = *w;
        else if (w->reader != writer) /* NOLOOP */
            tell(node, w->reader->redirect, key);
    }
    watch_count = kept;
}

void watches_forget(const struct sim_connection *reader)
{
    int kept = 0;

    for (int i = 0; i < watch_count; i++)
        if (watches[i].reader != reader)
            watches[kept++] = watches[i];
    watch_count = kept;
}

void watches_flushed(struct vnode *node)
{
    for (const struct sim_connection *c = connections_first(); c; c = c->next)
        if (c->node == node && c->redirect && !c->cut && c->node_life == node->life)
            tell(node, c->redirect, "");
}

/* --- faults ----------------------------------------------------------------------------------- */

void watches_agent_gone(const struct sim_host *host)
{
    for (struct channel *c = channels; c; c = c->next)
        if (c->host == host) {
            c->notices = NULL;
            c->cut = true;
        }
}

void watches_node_gone(const struct vnode *node)
{
    for (struct channel *c = channels; c; c = c->next)
        if (c->node == node && c->notices && !c->cut && c->step != CHANNEL_CONNECTING)
            tell_end(c);
}

void watches_break(const struct vnode *node, bool told)
{
    for (struct channel *c = channels; c; c = c->next) {
        if (c->node != node || !c->notices || c->cut || c->step == CHANNEL_CONNECTING ||
            !rng_chance(&sim.rng, 0.6))
            continue;
        c->cut = true;
        if (told)
            tell_end(c);
    }
}

void watches_hurry(void)
{
    for (struct channel *c = channels; c; c = c->next) {
        sim_ns last = sim.now;

        if (!c->notices)
            continue;
        if (c->event.place)
            sim_at(&c->event, last);
        for (struct notice *m = c->first; m; m = m->next)
            if (m->event.place)
                sim_at(&m->event, last += SIM_US);
        c->back_at = last;
    }
}
