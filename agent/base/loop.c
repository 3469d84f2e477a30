#include "agent/base/loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/status.h"

/* Of one turn. What is ready beyond them comes first in the next one. */
#define EVENTS_MOST 64

struct loop {
    int epoll;
    struct epoll_event events[EVENTS_MOST];
    int event_count, event_next; /* of this turn; the next to be told */
    TAILQ_HEAD(, loop_fd) changed;
    struct loop_fd timer_fd, wake_fd;
    hf_time timer_at; /* what timer_fd is armed for */
    hf_time now;
    struct heap timers;
    bool stopped;
    _Atomic bool sleeping; /* whoever wakes it writes to wake_fd, too */
    _Atomic bool woken;
    void (*turn_fn)(void *, hf_time);
    void *turn_arg;
    bool (*idle_fn)(void *);
    void *idle_arg;
    void (*wake_fn)(void *);
    void *wake_arg;
};

/* --- descriptors ------------------------------------------------------------------------------ */

static uint32_t loop_epoll_events(unsigned wanted)
{
    uint32_t events = 0;

    if (wanted & LOOP_READ)
        events |= EPOLLIN;
    if (wanted & LOOP_WRITE)
        events |= EPOLLOUT;
    if (wanted & LOOP_PRIORITY)
        events |= EPOLLPRI;
    return events;
}

/* An end or an error shows when it is read or written. */
static unsigned loop_happened(uint32_t events, unsigned wanted)
{
    unsigned happened = 0;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        happened |= wanted & LOOP_READ;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        happened |= wanted & LOOP_WRITE;
    if (events & (EPOLLPRI | EPOLLERR))
        happened |= wanted & LOOP_PRIORITY;
    return happened;
}

/* (!) A descriptor without a wish is taken out: its end would be told for ever. */
static int loop_tell_kernel(struct loop *loop, struct loop_fd *watch)
{
    struct epoll_event event = {.events = loop_epoll_events(watch->wanted), .data.ptr = watch};
    int op = EPOLL_CTL_MOD;

    if (watch->wanted == watch->watched)
        return HF_OK;
    if (!watch->watched)
        op = EPOLL_CTL_ADD;
    else if (!watch->wanted)
        op = EPOLL_CTL_DEL;
    if (epoll_ctl(loop->epoll, op, watch->fd, &event) < 0)
        return HF_ESYS;
    watch->watched = watch->wanted;
    return HF_OK;
}

/* Where the kernel refuses one its owner hears nothing, and ends by its own deadline. */
static void loop_tell_changes(struct loop *loop)
{
    struct loop_fd *watch;

    while ((watch = TAILQ_FIRST(&loop->changed))) {
        TAILQ_REMOVE(&loop->changed, watch, changed);
        watch->is_changed = false;
        (void)loop_tell_kernel(loop, watch);
    }
}

static void loop_tell_owners(struct loop *loop)
{
    while (loop->event_next < loop->event_count) {
        const struct epoll_event *event = &loop->events[loop->event_next++];
        struct loop_fd *watch = event->data.ptr;

        if (!watch)
            continue;
        watch->happened = loop_happened(event->events, watch->wanted);
        if (watch->happened)
            watch->fn(watch);
    }
}

int loop_fd_watch(struct loop *loop, struct loop_fd *watch, int fd, unsigned events,
                  void (*fn)(struct loop_fd *))
{
    hf_assert(fd >= 0 && events, "fd %d, events %u", fd, events);
    hf_assert(!watch->priv, "fd %d is watched, and %d is to be", watch->fd, fd);
    watch->fd = fd;
    watch->fn = fn;
    watch->wanted = events;
    watch->watched = 0;
    if (loop_tell_kernel(loop, watch) < 0) {
        watch->wanted = 0;
        return HF_ESYS;
    }
    watch->priv = loop;
    return HF_OK;
}

int loop_fd_add(struct loop *loop, struct loop_fd *watch, int fd, void (*fn)(struct loop_fd *))
{
    return loop_fd_watch(loop, watch, fd, LOOP_READ, fn);
}

void loop_fd_want(struct loop *loop, struct loop_fd *watch, unsigned events)
{
    hf_assert(watch->fn && watch->fd >= 0, "fd %d, events %u", watch->fd, events);
    watch->wanted = events;
    watch->priv = loop;
    if (watch->is_changed || watch->wanted == watch->watched)
        return;
    watch->is_changed = true;
    TAILQ_INSERT_TAIL(&loop->changed, watch, changed);
}

void loop_fd_remove(struct loop *loop, struct loop_fd *watch)
{
    if (!watch->priv)
        return;
    hf_assert(watch->priv == loop, "fd %d is another loop's", watch->fd);
    if (watch->is_changed)
        TAILQ_REMOVE(&loop->changed, watch, changed);
    watch->is_changed = false;
    watch->wanted = 0;
    (void)loop_tell_kernel(loop, watch);
    watch->watched = 0;
    watch->priv = NULL;
    for (int i = loop->event_next; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
}

/* --- timers ----------------------------------------------------------------------------------- */

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

/* A timer that is armed too early is harmless, and cheaper than arming it anew every turn. */
static void loop_arm(struct loop *loop)
{
    struct heap_item *first = heap_first(&loop->timers);

    if (first && hf_time_before(first->at, loop->timer_at)) {
        clock_timerfd_set(loop->timer_fd.fd, first->at);
        loop->timer_at = first->at;
    }
}

static void loop_on_timer_fd(struct loop_fd *watch)
{
    struct loop *loop = HF_CONTAINER(watch, struct loop, timer_fd);
    uint64_t ticks;

    /* The timers themselves have run; this only makes the descriptor quiet again. */
    if (read(watch->fd, &ticks, sizeof(ticks)) == sizeof(ticks))
        loop->timer_at = HF_TIME_NEVER;
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

/* --- wake-ups --------------------------------------------------------------------------------- */

static void loop_on_wake_fd(struct loop_fd *watch)
{
    uint64_t count;

    (void)!read(watch->fd, &count, sizeof(count));
}

void loop_wake(struct loop *loop)
{
    const uint64_t one = 1;

    /* (!) In this order, and the other way round in loop_sleep(): one of the two sees the other. */
    atomic_store(&loop->woken, true);
    if (atomic_load(&loop->sleeping))
        (void)!write(loop->wake_fd.fd, &one, sizeof(one));
}

/* Up to `timeout`, -1 for any time, in which events come. */
static void loop_sleep(struct loop *loop, int timeout)
{
    loop->event_next = 0;
    if (timeout < 0) {
        atomic_store(&loop->sleeping, true);
        if (atomic_load(&loop->woken))
            timeout = 0;
    }
    loop->event_count = epoll_wait(loop->epoll, loop->events, EVENTS_MOST, timeout);
    atomic_store_explicit(&loop->sleeping, false, memory_order_relaxed);
    if (loop->event_count < 0) {
        hf_assert(errno == EINTR, "error %d", errno);
        loop->event_count = 0;
    }
}

/* --- turns ------------------------------------------------------------------------------------ */

static bool loop_is_awake(const struct loop *loop)
{
    struct heap_item *first;

    if (loop->idle_fn && loop->idle_fn(loop->idle_arg))
        return true;
    /* The first timer is due already: the next turn runs it, and no system call is needed to get
     * there. */
    first = heap_first(&loop->timers);
    return first && hf_time_reached(loop->now, first->at);
}

static void loop_turn(struct loop *loop)
{
    bool awake = loop_is_awake(loop);

    if (loop->stopped)
        return;
    if (!awake)
        loop_arm(loop);
    loop_tell_changes(loop);
    loop_sleep(loop, awake ? 0 : -1);
    loop->now = clock_now();
    if (loop->turn_fn)
        loop->turn_fn(loop->turn_arg, loop->now);
    loop_run_due(loop);
    loop_tell_owners(loop);
    if (atomic_exchange(&loop->woken, false) && loop->wake_fn)
        loop->wake_fn(loop->wake_arg);
}

void loop_run(struct loop *loop)
{
    loop->stopped = false;
    while (!loop->stopped)
        loop_turn(loop);
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}

hf_time loop_now(const struct loop *loop)
{
    return loop->now;
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

/* --- the loop --------------------------------------------------------------------------------- */

static void loop_close(struct loop *loop)
{
    if (loop->timer_fd.fd >= 0)
        close(loop->timer_fd.fd);
    if (loop->wake_fd.fd >= 0)
        close(loop->wake_fd.fd);
    if (loop->epoll >= 0)
        close(loop->epoll);
    free(loop->timers.items);
    free(loop);
}

int loop_create(struct loop **ret_loop)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return HF_ENOMEM;
    TAILQ_INIT(&loop->changed);
    loop->timer_at = HF_TIME_NEVER;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->timer_fd.fd = clock_timerfd();
    loop->wake_fd.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll < 0 || loop->timer_fd.fd < 0 || loop->wake_fd.fd < 0 ||
        loop_fd_add(loop, &loop->timer_fd, loop->timer_fd.fd, loop_on_timer_fd) < 0 ||
        loop_fd_add(loop, &loop->wake_fd, loop->wake_fd.fd, loop_on_wake_fd) < 0) {
        int error = errno;

        loop_close(loop);
        errno = error;
        return HF_ESYS;
    }
    loop->now = clock_now();
    *ret_loop = loop;
    return HF_OK;
}

void loop_destroy(struct loop *loop)
{
    if (loop)
        loop_close(loop);
}
