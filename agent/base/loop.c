#include "agent/base/loop.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <ev.h>

#include "agent/base/clock.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

struct watch {
    ev_io io;
    struct ev_loop *ev; /* which watches it */
    struct loop_fd *owner;
};

/* Sleeps by poll(2) on the few descriptors that are sets of others: what libev has most in, an epoll set, is embedded in it.
 * (!) No epoll set is in another one: to each change of an inner one the kernel takes a lock that is the whole host's, and that any
 * user can hold for 0.2 s at a time. */
struct loop {
    struct ev_loop *ev;
    struct ev_loop *epoll; /* of descriptors */
    ev_embed embed;        /* `epoll`, in `ev` */
    ev_check check;        /* runs before every other watcher of a turn, */
    ev_check
        epoll_check;    /* also of a turn of `epoll`: libev may give that several in one of `ev` */
    ev_prepare prepare; /* runs last before sleeping */
    ev_idle idle;       /* active only to keep the loop from sleeping */
    ev_async wake;
    ev_io timer_io;
    int timer_fd;
    hf_time timer_at; /* what timer_fd is armed for */
    hf_time now;
    struct heap timers;
    void (*turn_fn)(void *, hf_time);
    void *turn_arg;
    bool (*idle_fn)(void *);
    void *idle_arg;
    void (*wake_fn)(void *);
    void *wake_arg;
};

static void loop_run_due(struct loop *loop)
{
    struct heap_item *item;

    /* Timers that a callback sets for this same instant wait for the next turn's clock. */
    while ((item = heap_first(&loop->timers)) && hf_time_reached(loop->now, item->at)) {
        struct loop_timer *timer = HF_CONTAINER(item, struct loop_timer, item);

        heap_remove(&loop->timers, item);
        timer->fn(timer, loop->now);
    }
}

static void loop_on_check(struct ev_loop *ev, ev_check *w, int revents)
{
    struct loop *loop = w->data;

    (void)ev;
    (void)revents;
    loop->now = clock_now();
    if (loop->turn_fn)
        loop->turn_fn(loop->turn_arg, loop->now);
    loop_run_due(loop);
}

static void loop_on_prepare(struct ev_loop *ev, ev_prepare *w, int revents)
{
    struct loop *loop = w->data;
    struct heap_item *first;
    bool awake;

    (void)revents;
    awake = loop->idle_fn && loop->idle_fn(loop->idle_arg);
    first = heap_first(&loop->timers);
    /* The first timer is due already: the next turn runs it, and no system call is needed to get
     * there. */
    if (first && hf_time_reached(loop->now, first->at))
        awake = true;
    if (awake)
        ev_idle_start(ev, &loop->idle);
    else
        ev_idle_stop(ev, &loop->idle);
    /* A timer that is armed too early is harmless, and cheaper than arming it anew every turn. */
    if (!awake && first && hf_time_before(first->at, loop->timer_at)) {
        clock_timerfd_set(loop->timer_fd, first->at);
        loop->timer_at = first->at;
    }
}

static void loop_idle(struct ev_loop *ev, ev_idle *w, int revents)
{
    (void)ev;
    (void)w;
    (void)revents;
}

static void loop_on_timer_fd(struct ev_loop *ev, ev_io *w, int revents)
{
    struct loop *loop = w->data;
    uint64_t ticks;

    (void)ev;
    (void)revents;
    /* The timers themselves ran in on_check; this only makes the descriptor quiet again. */
    if (read(loop->timer_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
        loop->timer_at = HF_TIME_NEVER;
}

static void loop_woken(struct ev_loop *ev, ev_async *w, int revents)
{
    struct loop *loop = w->data;

    (void)ev;
    (void)revents;
    if (loop->wake_fn)
        loop->wake_fn(loop->wake_arg);
}

int loop_create(struct loop **ret_loop)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return HF_ENOMEM;
    loop->timer_at = HF_TIME_NEVER;
    loop->timer_fd = clock_timerfd();
    if (loop->timer_fd < 0)
        goto error_loop;
    loop->ev = ev_loop_new(EVBACKEND_POLL | EVFLAG_NOENV);
    loop->epoll = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (!loop->ev || !loop->epoll)
        goto error_ev;
    loop->now = clock_now();
    ev_set_userdata(loop->epoll, loop->ev); /* for tests, which turn it by hand */

    ev_check_init(&loop->check, loop_on_check);
    ev_set_priority(&loop->check, EV_MAXPRI);
    loop->check.data = loop;
    ev_check_start(loop->ev, &loop->check);
    ev_check_init(&loop->epoll_check, loop_on_check);
    ev_set_priority(&loop->epoll_check, EV_MAXPRI);
    loop->epoll_check.data = loop;
    ev_check_start(loop->epoll, &loop->epoll_check);
    ev_prepare_init(&loop->prepare, loop_on_prepare);
    ev_set_priority(&loop->prepare, EV_MINPRI);
    loop->prepare.data = loop;
    ev_prepare_start(loop->ev, &loop->prepare);
    ev_idle_init(&loop->idle, loop_idle);
    ev_set_priority(&loop->idle, EV_MINPRI);
    ev_async_init(&loop->wake, loop_woken);
    loop->wake.data = loop;
    ev_async_start(loop->ev, &loop->wake);
    ev_io_init(&loop->timer_io, loop_on_timer_fd, loop->timer_fd, EV_READ);
    loop->timer_io.data = loop;
    ev_io_start(loop->ev, &loop->timer_io);
    ev_embed_init(&loop->embed, NULL, loop->epoll);
    ev_embed_start(loop->ev, &loop->embed);
    *ret_loop = loop;
    return HF_OK;

error_ev:
    if (loop->ev)
        ev_loop_destroy(loop->ev);
    if (loop->epoll)
        ev_loop_destroy(loop->epoll);
    close(loop->timer_fd);
error_loop:
    free(loop);
    return HF_ESYS;
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    ev_embed_stop(loop->ev, &loop->embed);
    ev_loop_destroy(loop->ev);
    ev_loop_destroy(loop->epoll);
    close(loop->timer_fd);
    free(loop->timers.items);
    free(loop);
}

void loop_run(struct loop *loop)
{
    ev_run(loop->ev, 0);
}

void loop_stop(struct loop *loop)
{
    /* ev_break belongs to the loop's thread: callers stop their own loop from a wake hook. */
    ev_break(loop->ev, EVBREAK_ALL);
}

void loop_wake(struct loop *loop)
{
    ev_async_send(loop->ev, &loop->wake);
}

hf_time loop_now(const struct loop *loop)
{
    return loop->now;
}

int loop_timer_set(struct loop *loop, struct loop_timer *timer, hf_time at)
{
    if (heap_has(&timer->item)) {
        heap_move(&loop->timers, &timer->item, at);
        return HF_OK;
    }
    if (loop->timers.count == loop->timers.room) {
        size_t room = loop->timers.room ? loop->timers.room * 2 : 64;
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers. */
        struct heap_item **items = realloc(loop->timers.items, room * sizeof(*items));

        if (!items)
            return HF_ENOMEM;
        loop->timers.items = items;
        loop->timers.room = room;
    }
    hf_assert(timer->fn, "timers %zu", loop->timers.count);
    heap_insert(&loop->timers, &timer->item, at);
    return HF_OK;
}

void loop_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
    heap_remove(&loop->timers, &timer->item);
}

static void loop_on_fd(struct ev_loop *ev, ev_io *io, int revents)
{
    struct watch *watch = (struct watch *)io;

    (void)ev;
    (void)revents;
    watch->owner->fn(watch->owner);
}

static int loop_watch(struct ev_loop *ev, struct loop_fd *owner, int fd,
                      void (*fn)(struct loop_fd *))
{
    struct watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return HF_ENOMEM;
    hf_assert(fd >= 0, "fd %d", fd);
    watch->ev = ev;
    watch->owner = owner;
    owner->fd = fd;
    owner->fn = fn;
    owner->priv = watch;
    ev_io_init(&watch->io, loop_on_fd, fd, EV_READ);
    ev_io_start(ev, &watch->io);
    return HF_OK;
}

int loop_fd_add(struct loop *loop, struct loop_fd *owner, int fd, void (*fn)(struct loop_fd *))
{
    return loop_watch(loop->epoll, owner, fd, fn);
}

int loop_set_add(struct loop *loop, struct loop_fd *owner, int fd, void (*fn)(struct loop_fd *))
{
    return loop_watch(loop->ev, owner, fd, fn);
}

void loop_fd_remove(struct loop *loop, struct loop_fd *owner)
{
    struct watch *watch = owner->priv;

    (void)loop;
    if (!watch)
        return;
    ev_io_stop(watch->ev, &watch->io);
    owner->priv = NULL;
    free(watch);
}

void loop_on_turn(struct loop *loop, void (*fn)(void *, hf_time), void *arg)
{
    loop->turn_fn = fn;
    loop->turn_arg = arg;
}

void loop_on_idle(struct loop *loop, bool (*fn)(void *), void *arg)
{
    loop->idle_fn = fn;
    loop->idle_arg = arg;
}

void loop_on_wake(struct loop *loop, void (*fn)(void *), void *arg)
{
    loop->wake_fn = fn;
    loop->wake_arg = arg;
}

struct ev_loop *loop_ev(struct loop *loop)
{
    return loop->epoll;
}
