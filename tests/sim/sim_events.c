/* The queue of what will happen, and the clocks. */
#include <stdlib.h>

#include "tests/sim/checks.h"
#include "tests/sim/sim.h"

#define ROOM 65536

/* What decides the order is here: a look at the events themselves would miss the cache. */
static struct entry {
    sim_ns at;
    uint64_t order;
    struct sim_event *event;
} queue[ROOM];
static uint32_t count;
static uint64_t order;

static bool before(const struct entry *a, const struct entry *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put(uint32_t i, struct entry entry)
{
    queue[i] = entry;
    entry.event->place = i + 1;
}

static void sift(uint32_t i, struct sim_event *event)
{
    struct entry entry = {event->at, event->order, event};

    while (i > 0 && before(&entry, &queue[(i - 1) / 2])) {
        put(i, queue[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= count)
            break;
        if (child + 1 < count && before(&queue[child + 1], &queue[child]))
            child++;
        if (!before(&queue[child], &entry))
            break;
        put(i, queue[child]);
        i = child;
    }
    put(i, entry);
}

void sim_at(struct sim_event *event, sim_ns at)
{
    event->at = at < sim.now ? sim.now : at;
    event->order = order++;
    if (event->place) {
        sift(event->place - 1, event);
        return;
    }
    if (count == ROOM) {
        fputs("sim: too many events\n", stderr);
        abort();
    }
    count++;
    sift(count - 1, event);
}

void sim_cancel(struct sim_event *event)
{
    uint32_t i;
    struct sim_event *last;

    if (!event->place)
        return;
    i = event->place - 1;
    event->place = 0;
    last = queue[--count].event;
    if (last != event)
        sift(i, last);
}

void sim_events_reset(void)
{
    count = 0;
    order = 0;
}

void sim_run_until(sim_ns until)
{
    while (count && queue[0].at <= until && !sim.over) {
        struct sim_event *event = queue[0].event;

        sim_cancel(event);
        if (event->at > sim.now)
            sim.now = event->at;
        sim.events++;
        event->fn(event);
        checks_run();
    }
    if (until > sim.now && !sim.over)
        sim.now = until;
}

/* --- clocks ----------------------------------------------------------------------------------- */

int64_t clock_at(const struct sim_clock *clock, sim_ns t)
{
    return clock->base_ns + t + t / SIM_US * clock->ppb / SIM_MS;
}

sim_ns clock_when(const struct sim_clock *clock, int64_t ns)
{
    sim_ns t, near;
    bool above;

    if (ns >= SIM_NEVER)
        return SIM_NEVER;
    /* A schedule is short and rates are near 1, so this is off by little. */
    ns -= clock->base_ns;
    t = ns - ns / SIM_US * clock->ppb / SIM_MS;
    t -= clock_at(clock, t) - clock->base_ns - ns;
    above = clock_at(clock, t) - clock->base_ns >= ns;
    near = t - (clock_at(clock, t) - clock->base_ns - ns);
    near -= clock_at(clock, near) - clock->base_ns - ns;
    /* A slow clock steps back by some nanoseconds each microsecond: from where it was reached it stays the first. */
    if (above && near + 16 < t && clock_at(clock, near + 16) - clock->base_ns >= ns)
        t = near + 16;
    else if (!above && near - 16 > t && clock_at(clock, near - 16) - clock->base_ns < ns)
        t = near - 16;
    while (clock_at(clock, t) - clock->base_ns >= ns)
        t--;
    while (clock_at(clock, t) - clock->base_ns < ns)
        t++;
    return t;
}
