/* When a guardian acts, counted back from the end of the validity V.
 *
 *   V - 0.3 T   STOP: on-lost hook, or SIGTERM to the job; terminal: a later V changes nothing
 *   V - 0.1 T   KILL: SIGKILL to the whole tree
 *
 * A lease that is asked to stop (LOSING) goes to STOP at once; one that is lost goes to KILL at
 * once. T is the lease's TTL. Instants are CLOCK_BOOTTIME nanoseconds. Decisions use absolute time
 * only, so a guardian that was stopped or starved catches up at once. timeline_judge() and
 * timeline_next() are pure.
 */
#ifndef HOLDFAST_TOOLS_RUN_TIMELINE_H
#define HOLDFAST_TOOLS_RUN_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

enum timeline_phase { TIMELINE_HELD, TIMELINE_STOP, TIMELINE_KILL };

struct timeline {
    enum timeline_phase phase; /* never goes back */
    int64_t ttl_ns;
    int64_t lag_ns;     /* delays STOP: the outer guardian gives the inner one this time */
    int64_t asked_ns;   /* when LOSING was first seen; 0 not yet */
    int64_t valid_ns;   /* V as last seen; kept after a loss */
    int64_t kill_at_ns; /* from STOP on */
};

void timeline_init(struct timeline *timeline, int64_t ttl_ns, int64_t lag_ns);
/* The lease has another TTL from now on: the fleet's ttl_max has changed. */
void timeline_set_ttl(struct timeline *timeline, int64_t ttl_ns);

/* Judges at `now_ns`: `valid_ns` is V as it stands, 0 when lost; `losing` whether the lease is
 * LOSING. */
enum timeline_phase timeline_judge(struct timeline *timeline, int64_t now_ns, int64_t valid_ns,
                                   bool losing);

/* When to judge again at the latest. V may move back without notice, so it is checked every T/20
 * (50 ms .. 1 s). */
int64_t timeline_next(const struct timeline *timeline, int64_t now_ns);

/* --- the clock -------------------------------------------------------------------------------- */

int64_t timeline_now_ns(void);

/* A timer descriptor on CLOCK_BOOTTIME, or -1 with errno. Readable from the armed instant on;
 * reading is not needed: arming it anew clears it. */
int timeline_timer(void);
void timeline_arm(int timer_fd, int64_t at_ns);

#endif
