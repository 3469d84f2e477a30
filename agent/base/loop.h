/* One thread's event loop: libev for descriptors, our own timers on CLOCK_BOOTTIME.
 *
 * libev's timers run on CLOCK_MONOTONIC, which stops in suspend. Every turn first reads the clock
 * and runs what is due (leases expire here), before any descriptor's callback. A loop belongs to
 * one thread; only loop_wake() may be called from others.
 */
#ifndef HOLDFAST_AGENT_BASE_LOOP_H
#define HOLDFAST_AGENT_BASE_LOOP_H

#include <stdbool.h>

#include "agent/core/containers.h"
#include "shm/nstime.h"

struct ev_loop;
struct loop;

/* A one-shot timer; embed it and zero it before first use. Set it again from
 * `fn` for a repeating one. */
struct loop_timer {
    struct heap_item item;
    void (*fn)(struct loop_timer *timer, hf_time now);
};

/* A watched descriptor (readable), level-triggered; embed it and zero it. */
struct loop_fd {
    int fd;
    void (*fn)(struct loop_fd *watch);
    void *priv; /* the loop's */
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

int loop_fd_add(struct loop *loop, struct loop_fd *watch, int fd, void (*fn)(struct loop_fd *));
/* The same for an epoll set, of which a loop has few: (!) it must not be put into another one. */
int loop_set_add(struct loop *loop, struct loop_fd *watch, int fd, void (*fn)(struct loop_fd *));
void loop_fd_remove(struct loop *loop, struct loop_fd *watch);

/* Called at the start of each turn, right after the clock was read and before
 * timers and descriptors. */
void loop_on_turn(struct loop *loop, void (*fn)(void *arg, hf_time now), void *arg);
/* Called before the loop sleeps; return true to turn again without sleeping. */
void loop_on_idle(struct loop *loop, bool (*fn)(void *arg), void *arg);
/* Called on the loop's thread after loop_wake(). */
void loop_on_wake(struct loop *loop, void (*fn)(void *arg), void *arg);

/* libev's loop, for the hiredis adapter (agent/redis only). */
struct ev_loop *loop_ev(struct loop *loop);

#endif
