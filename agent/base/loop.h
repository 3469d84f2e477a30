/* One thread's event loop: one epoll set for all its descriptors, and timers on CLOCK_BOOTTIME.
 *
 * Every turn first reads the clock and runs what is due (leases expire here), before any descriptor's callback. A loop belongs to one
 * thread; only loop_wake() may be called from others. (!) No epoll set is in another one: to each change of an inner one the kernel
 * takes a lock that is the whole host's, and that any user can hold for 0.2 s at a time. (!) A turn takes a bounded number of events
 * from the kernel, once: no callback that makes new ones keeps the others from their turn.
 */
#ifndef HOLDFAST_AGENT_BASE_LOOP_H
#define HOLDFAST_AGENT_BASE_LOOP_H

#include <stdbool.h>
#include <sys/queue.h>

#include "agent/core/containers.h"
#include "shm/nstime.h"

struct loop;

/* A one-shot timer; embed it and zero it before first use. Set it again from
 * `fn` for a repeating one. */
struct loop_timer {
    struct heap_item item;
    void (*fn)(struct loop_timer *timer, hf_time now);
};

/* What a descriptor is watched for. */
enum loop_event {
    LOOP_READ = 1 << 0, /* it can be read, or has ended */
    LOOP_WRITE = 1 << 1,
    LOOP_PRIORITY = 1 << 2, /* EPOLLPRI */
};

/* A watched descriptor; embed it and zero it. It stays open until it is watched no more. */
struct loop_fd {
    int fd;
    void (*fn)(struct loop_fd *watch);
    unsigned wanted, happened; /* enum loop_event; the second is for `fn` */
    unsigned watched;          /* what the kernel has of `wanted`: the loop's, as what follows */
    TAILQ_ENTRY(loop_fd) changed;
    bool is_changed;
    void *priv; /* NULL: not watched */
};

int loop_create(struct loop **ret_loop); /* HF_OK, HF_ENOMEM, HF_ESYS */
void loop_destroy(struct loop *loop);

/* Runs until loop_stop(), which only the loop's own thread calls. The calling thread becomes the
 * loop's. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
/* Makes the loop turn once more soon, running the wake hook. Any thread. */
void loop_wake(struct loop *loop);

/* The clock as read at the start of this turn. To judge a reply call clock_now() instead. */
hf_time loop_now(const struct loop *loop);

/* HF_ENOMEM only when the heap cannot grow. */
int loop_timer_set(struct loop *loop, struct loop_timer *timer, hf_time at);
void loop_timer_cancel(struct loop *loop, struct loop_timer *timer);

/* Watches it for these events, LOOP_READ with the short form. HF_ESYS with errno: the kernel has no room for one more. */
int loop_fd_watch(struct loop *loop, struct loop_fd *watch, int fd, unsigned events,
                  void (*fn)(struct loop_fd *));
int loop_fd_add(struct loop *loop, struct loop_fd *watch, int fd, void (*fn)(struct loop_fd *));
/* For a connection, whose events come and go within a turn: the kernel is told before the loop sleeps, if anything is different then.
 * `fd` and `fn` are set. 0: none; it has to be so, or loop_fd_remove() called, before the descriptor is closed. */
void loop_fd_want(struct loop *loop, struct loop_fd *watch, unsigned events);
/* At once. It may not be watched at all. */
void loop_fd_remove(struct loop *loop, struct loop_fd *watch);

/* Called at the start of each turn, right after the clock was read and before
 * timers and descriptors. */
void loop_on_turn(struct loop *loop, void (*fn)(void *arg, hf_time now), void *arg);
/* Called before the loop sleeps; return true to turn again without sleeping. */
void loop_on_idle(struct loop *loop, bool (*fn)(void *arg), void *arg);
/* Called on the loop's thread after loop_wake(). */
void loop_on_wake(struct loop *loop, void (*fn)(void *arg), void *arg);

#endif
