/* agent/base/loop.h, agent/base/clock.h, agent/base/log.h and agent/redis/resolver.h for the simulator: a loop's
 * turn is an event. It has the order of the real one: clock, turn hook, timers, descriptors, wake
 * hook, idle hook.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/redis/resolver.h"
#include "shm/status.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/host.h"

#define WAKE_AFTER (10 * SIM_US) /* a scheduler's turn */
#define FDS        64

struct watch {
    struct sim_io io;
    struct loop *loop;
    struct loop_fd *owner;
};

struct loop {
    struct sim_event turn;
    struct sim_host *host;
    bool running, stopped, on_stack, woken, io_later;
    enum thread_role_taken role; /* of the thread that it would have */
    hf_time now;
    struct heap timers;
    struct sim_io *first, **last; /* what the descriptors have */
    struct watch *watch[FDS];
    void (*turn_fn)(void *, hf_time);
    void *turn_arg;
    bool (*idle_fn)(void *);
    void *idle_arg;
    void (*wake_fn)(void *);
    void *wake_arg;
};

static struct loop *current;

static void schedule(struct loop *loop, sim_ns at)
{
    if (!loop->running || loop->on_stack)
        return;
    if (at < loop->host->stopped_until)
        at = loop->host->stopped_until;
    if (!loop->turn.place || at < loop->turn.at)
        sim_at(&loop->turn, at);
}

static void run_due(struct loop *loop)
{
    struct heap_item *item;

    while ((item = heap_first(&loop->timers)) && hf_time_reached(loop->now, item->at)) {
        struct loop_timer *timer = HF_CONTAINER(item, struct loop_timer, item);

        heap_remove(&loop->timers, item);
        timer->fn(timer, loop->now);
    }
}

static void run_io(struct loop *loop)
{
    struct sim_io *io;

    /* What comes meanwhile is for the next turn. */
    struct sim_io *end = NULL;
    bool some = loop->first != NULL;

    if (some)
        end = HF_CONTAINER(loop->last, struct sim_io, next);
    while (some && (io = loop->first)) {
        some = io != end;
        loop->first = io->next;
        if (!loop->first)
            loop->last = &loop->first;
        io->queued = false;
        io->fn(io);
    }
}

static void turn(void *arg)
{
    struct loop *loop = arg;
    struct loop *before = current;
    bool awake;

    current = loop;
    thread_role_now = loop->role;
    loop->on_stack = true;
    loop->now = clock_now();
    if (loop->turn_fn)
        loop->turn_fn(loop->turn_arg, loop->now);
    run_due(loop);
    if (loop->io_later) {
        loop->io_later = false;
        fake_flush_all(loop);
    }
    run_io(loop);
    if (loop->woken) {
        loop->woken = false;
        if (loop->wake_fn)
            loop->wake_fn(loop->wake_arg);
    }
    awake = loop->idle_fn && loop->idle_fn(loop->idle_arg);
    if (awake)
        loop->woken = true;
    current = before;
    loop->on_stack = false;
}

static void schedule_next(struct loop *loop)
{
    struct heap_item *first = heap_first(&loop->timers);
    sim_ns at = SIM_NEVER;

    if (loop->woken || loop->first || loop->io_later)
        at = sim.now + WAKE_AFTER;
    if (first) {
        sim_ns due = clock_when(&loop->host->boot, first->at.ns);

        if (due < at)
            at = due > sim.now ? due : sim.now + SIM_US;
    }
    if (at < SIM_NEVER)
        schedule(loop, at);
}

static void on_turn_event(struct sim_event *event)
{
    struct loop *loop = HF_CONTAINER(event, struct loop, turn);
    struct sim_host *host = loop->host;
    uint32_t incarnation = host->incarnation;
    struct loop *before = current;
    bool lived;

    if (!loop->running || loop->on_stack)
        return;
    if (sim.now < host->stopped_until) {
        sim_at(&loop->turn, host->stopped_until);
        return;
    }
    lived = sim_agent_run(host, turn, loop);
    current = before;
    /* The memory of a dead agent's loop is not looked at again. */
    if (!lived || host->incarnation != incarnation)
        return;
    if (loop->stopped) {
        loop->running = false;
        host_loop_stopped(host, loop);
        return;
    }
    schedule_next(loop);
}

void loop_forget(struct loop *loop)
{
    sim_cancel(&loop->turn);
    loop->running = false;
}

void loop_resume(struct loop *loop)
{
    if (loop->running && !loop->on_stack)
        schedule(loop, sim.now);
}

struct sim_host *loop_host(const struct loop *loop)
{
    return loop->host;
}

struct loop *loop_current(void)
{
    return current;
}

/* --- descriptors ------------------------------------------------------------------------------ */

void loop_io(struct loop *loop, struct sim_io *io)
{
    if (io->queued)
        return;
    io->queued = true;
    io->next = NULL;
    *loop->last = io;
    loop->last = &io->next;
    schedule(loop, sim.now + WAKE_AFTER);
}

void loop_io_drop(struct loop *loop, struct sim_io *io)
{
    struct sim_io **at = &loop->first;

    if (!io->queued)
        return;
    while (*at && *at != io)
        at = &(*at)->next;
    if (*at) {
        *at = io->next;
        if (!*at)
            loop->last = at;
    }
    io->queued = false;
}

void loop_io_later(struct loop *loop)
{
    loop->io_later = true;
    schedule(loop, sim.now + WAKE_AFTER);
}

static void on_watch(struct sim_io *io)
{
    struct watch *watch = HF_CONTAINER(io, struct watch, io);

    if (watch->owner)
        watch->owner->fn(watch->owner);
}

int loop_fd_add(struct loop *loop, struct loop_fd *owner, int fd, void (*fn)(struct loop_fd *))
{
    for (int i = 0; i < FDS; i++) {
        struct watch *watch = loop->watch[i];

        if (watch && watch->owner)
            continue;
        watch = sim_alloc(sizeof(*watch));
        *watch = (struct watch){.io.fn = on_watch, .loop = loop, .owner = owner};
        loop->watch[i] = watch;
        owner->fd = fd;
        owner->fn = fn;
        owner->priv = watch;
        return HF_OK;
    }
    return HF_ENOMEM;
}

int loop_fd_watch(struct loop *l, struct loop_fd *watch, int fd, HF_UNUSED unsigned events,
                  void (*fn)(struct loop_fd *))
{
    return loop_fd_add(l, watch, fd, fn);
}

void loop_fd_remove(struct loop *loop, struct loop_fd *owner)
{
    struct watch *watch = owner->priv;

    if (!watch)
        return;
    loop_io_drop(loop, &watch->io);
    watch->owner = NULL;
    owner->priv = NULL;
}

void loops_tell_end(struct sim_host *host, int pidfd)
{
    for (int l = 0; l < host->loops; l++)
        for (int i = 0; i < FDS; i++) {
            struct watch *watch = host->loop[l]->watch[i];

            if (watch && watch->owner && watch->owner->fd == pidfd)
                loop_io(host->loop[l], &watch->io);
        }
}

/* --- agent/base/loop.h ----------------------------------------------------------------------------- */

int loop_create(struct loop **ret_loop)
{
    struct loop *loop = sim_alloc(sizeof(*loop));
    struct sim_host *host = sim.frame->host;

    loop->host = host;
    loop->turn.fn = on_turn_event;
    loop->last = &loop->first;
    loop->now = clock_now();
    host->loop[host->loops++] = loop;
    *ret_loop = loop;
    return HF_OK;
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    loop_forget(loop);
    free(loop->timers.items);
    loop->timers = (struct heap){0};
}

void loop_run(struct loop *loop)
{
    loop->running = true;
    loop->role = thread_role_now;
    schedule(loop, sim.now);
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}

void loop_wake(struct loop *loop)
{
    loop->woken = true;
    schedule(loop, sim.now + WAKE_AFTER);
}

hf_time loop_now(const struct loop *loop)
{
    return loop->now;
}

int loop_timer_set(struct loop *loop, struct loop_timer *timer, hf_time at)
{
    if (heap_has(&timer->item)) {
        heap_move(&loop->timers, &timer->item, at);
    } else {
        if (loop->timers.count == loop->timers.room) {
            size_t room = loop->timers.room ? loop->timers.room * 2 : 64;

            /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers. */
            loop->timers.items = realloc(loop->timers.items, room * sizeof(*loop->timers.items));
            loop->timers.room = room;
        }
        heap_insert(&loop->timers, &timer->item, at);
    }
    /* Set from outside its turn (before it runs): it may be the next. */
    if (loop->running && !loop->on_stack)
        schedule(loop, clock_when(&loop->host->boot, at.ns));
    return HF_OK;
}

void loop_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
    heap_remove(&loop->timers, &timer->item);
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

/* The fake hiredis has events of its own. */
void loop_fd_want(HF_UNUSED struct loop *l, struct loop_fd *watch, unsigned events)
{
    watch->wanted = events;
}

/* --- agent/base/clock.h ---------------------------------------------------------------------------- */

hf_time clock_now(void)
{
    sim.clock_reads++;
    sim_preempt();
    return host_now(sim.frame->host);
}

hf_wall clock_wall(void)
{
    const struct sim_host *host = sim.frame->host;

    return (hf_wall){host_now(host).ns / HF_NS_PER_MS + host->wall_ms};
}

/* --- agent/base/log.h ------------------------------------------------------------------------------ */

void log_flush(void) {}

void log_init(enum log_level most)
{
    (void)most;
}

void log_write(enum log_level level, const char *format, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char text[400];
    va_list args;

    if (!sim.trace)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    sim_trace("h%d agent: %s: %s", sim.frame ? sim.frame->host->number : -1, names[level], text);
}

void log_say(const char *format, ...)
{
    (void)format;
}

const char *log_name(const void *name, size_t name_len, char *buffer, size_t buffer_size)
{
    snprintf(buffer, buffer_size, "%.*s", (int)name_len, (const char *)name);
    return buffer;
}

/* --- agent/redis/resolver.h: addresses are numbers -------------------------------------------- */

int resolver_create(struct loop *loop, struct resolver **ret_resolver)
{
    *ret_resolver = (struct resolver *)loop;
    return HF_OK;
}

void resolver_destroy(struct resolver *resolver)
{
    (void)resolver;
}

int resolver_ask(struct resolver *resolver, const char *host, resolver_fn *fn, void *arg)
{
    (void)resolver;
    (void)host;
    (void)fn;
    (void)arg;
    return HF_ENOMEM;
}

void resolver_cancel(struct resolver *resolver, void *arg)
{
    (void)resolver;
    (void)arg;
}

void resolver_deliver(struct resolver *resolver)
{
    (void)resolver;
}
