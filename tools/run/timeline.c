#include "tools/run/timeline.h"

#include <sys/timerfd.h>
#include <time.h>

#define NS_PER_MS  INT64_C(1000000)
#define NS_PER_SEC INT64_C(1000000000)

static int64_t timeline_min_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t timeline_max_ns(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t timeline_stop_at(const struct timeline *t)
{
    int64_t at = t->valid_ns - t->ttl_ns / 10 * 3;

    if (t->asked_ns)
        at = timeline_min_ns(at, t->asked_ns);
    return at + t->lag_ns;
}

static int64_t timeline_kill_at(const struct timeline *t)
{
    return t->valid_ns - t->ttl_ns / 10;
}

void timeline_init(struct timeline *t, int64_t ttl_ns, int64_t lag_ns)
{
    *t = (struct timeline){.phase = TIMELINE_HELD, .ttl_ns = ttl_ns, .lag_ns = lag_ns};
}

void timeline_set_ttl(struct timeline *t, int64_t ttl_ns)
{
    t->ttl_ns = ttl_ns;
}

enum timeline_phase timeline_judge(struct timeline *t, int64_t now_ns, int64_t valid_ns,
                                   bool losing)
{
    if (t->phase == TIMELINE_KILL)
        return t->phase;
    if (valid_ns == 0) { /* lost: the old V is void */
        t->phase = TIMELINE_KILL;
        t->kill_at_ns = now_ns;
        return t->phase;
    }
    t->valid_ns = valid_ns;
    if (losing && !t->asked_ns)
        t->asked_ns = now_ns;
    if (t->phase == TIMELINE_HELD && now_ns >= timeline_stop_at(t)) {
        t->phase = TIMELINE_STOP;
        t->kill_at_ns = timeline_kill_at(t);
    }
    /* Without the lag: KILL is at the same time for both guardians. */
    if (t->phase == TIMELINE_STOP)
        t->kill_at_ns = timeline_min_ns(t->kill_at_ns, timeline_kill_at(t));
    else
        t->kill_at_ns = timeline_kill_at(t);
    if (now_ns >= t->kill_at_ns)
        t->phase = TIMELINE_KILL;
    return t->phase;
}

int64_t timeline_next(const struct timeline *t, int64_t now_ns)
{
    int64_t look =
        now_ns + timeline_min_ns(timeline_max_ns(t->ttl_ns / 20, 50 * NS_PER_MS), NS_PER_SEC);

    switch (t->phase) {
    case TIMELINE_HELD:
        return timeline_min_ns(look, timeline_stop_at(t));
    case TIMELINE_STOP:
        return timeline_min_ns(look, t->kill_at_ns);
    case TIMELINE_KILL:
        break;
    }
    return look;
}

int64_t timeline_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

int timeline_timer(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void timeline_arm(int timer_fd, int64_t at_ns)
{
    struct itimerspec spec = {0};

    at_ns = timeline_max_ns(at_ns, 1); /* 0 would disarm it */
    spec.it_value.tv_sec = at_ns / NS_PER_SEC;
    spec.it_value.tv_nsec = at_ns % NS_PER_SEC;
    timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}
