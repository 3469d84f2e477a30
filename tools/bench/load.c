/* The load that renewals put on one node of a quorum, over simulated time: hosts that hold many leases
 * each, with the core that ships deciding what is renewed when and together (agent/core/phases.h,
 * cohorts.h, timing.h, backoff.h), and a node that runs one script after the other. All nodes of a
 * quorum carry the same. Nothing is measured here: the cost of a script on a node is given. */
#include "tools/bench/measure.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/backoff.h"
#include "agent/core/cohorts.h"
#include "agent/core/phases.h"
#include "shm/compiler.h"

#define HALF_TRIP   hf_us(100) /* to the node or back */
#define SLICE       hf_ms(100) /* the unit in which loads are compared */
#define SLICES_MOST 4096
#define START       ((hf_time){INT64_C(1000000) * HF_NS_PER_MS})

static hf_dur hf_us(int64_t us)
{
    return hf_ns(us * HF_NS_PER_US);
}

enum fault { FAULT_NONE, FAULT_HOST_STOPPED, FAULT_NODE_STOPPED, FAULT_NODE_CUT_OFF };

struct host;

struct script {
    struct heap_item event; /* the arrival of its answer */
    struct host *host;
    bool busy;
    size_t count;
    uint32_t lease[COHORT_MOST];
    hf_time sent;
    hf_dur late;
};

struct host {
    struct heap_item event; /* the next send */
    struct cohorts due;
    struct phases phases;
    struct script script[PACE_MOST];
    struct pace pace;
    hf_time away_until; /* until then it is stopped, or has no connection */
    hf_time *a;         /* a_i of each lease */
};

static struct {
    uint32_t hosts, leases; /* of each */
    struct timing timing;
    hf_dur script_cost, key_cost;
    uint32_t random;
    struct host *host;
    struct heap events;
    hf_time now, node_free, fault_from, fault_until;
    enum fault fault;
    uint32_t slice[SLICES_MOST]; /* leases renewed, by the time of the node's work */
    int64_t busy_ns, renewed, scripts, wait_max_ns, late_max_ns, least_ns;
} s;

static void *load_make(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory)
        measure_die("no memory for %u hosts with %u leases", s.hosts, s.leases);
    return memory;
}

static void load_event_at(struct heap_item *item, hf_time at)
{
    if (heap_has(item))
        heap_move(&s.events, item, at);
    else
        heap_insert(&s.events, item, at);
}

/* --- the node --------------------------------------------------------------------------------- */

/* Returns when the node has finished a script that arrives at `at`. */
static hf_time load_node_runs(hf_time at, size_t keys)
{
    hf_dur cost = hf_ns(s.script_cost.ns + (int64_t)keys * s.key_cost.ns);
    hf_time start = hf_time_max(at, s.node_free);
    int64_t number;

    if (s.fault == FAULT_NODE_STOPPED && !hf_time_before(start, s.fault_from))
        start = hf_time_max(start, s.fault_until);
    s.wait_max_ns =
        hf_time_since(start, at).ns > s.wait_max_ns ? hf_time_since(start, at).ns : s.wait_max_ns;
    s.node_free = hf_time_add(start, cost);
    s.busy_ns += cost.ns;
    s.scripts++;
    s.renewed += (int64_t)keys;
    number = hf_time_since(s.node_free, START).ns / SLICE.ns;
    if (number >= 0 && number < SLICES_MOST)
        s.slice[number] += (uint32_t)keys;
    return s.node_free;
}

/* --- a host ----------------------------------------------------------------------------------- */

static void load_plan(struct host *h, uint32_t lease, hf_time at)
{
    if (!cohorts_add(&h->due, lease, at))
        measure_die("more cohorts than there can be");
}

/* Its next event: when something is due, or may be sent again. */
static void load_host_waits(struct host *h)
{
    hf_time next = pace_next(&h->pace, cohorts_next(&h->due), pace_slack(&s.timing));

    if (next.ns == HF_TIME_NEVER.ns)
        heap_remove(&s.events, &h->event);
    else
        load_event_at(&h->event, hf_time_max(next, hf_time_max(s.now, h->away_until)));
}

static void load_send(struct host *h)
{
    struct script *script = h->script;
    hf_dur company = hf_dur_scale(s.timing.attempt, 1, 4);
    int64_t late = hf_time_since(s.now, cohorts_next(&h->due)).ns;

    while (script->busy)
        script++;
    script->count = 0;
    do
        script->count +=
            cohorts_take(&h->due, script->lease + script->count, COHORT_MOST - script->count);
    while (cohorts_first(&h->due) && cohorts_first(&h->due) <= COHORT_MOST - script->count &&
           hf_time_since(cohorts_next(&h->due), s.now).ns <= company.ns);
    for (size_t i = 0; i < script->count; i++) {
        int64_t left = hf_time_since(hf_time_add(h->a[script->lease[i]], s.timing.span), s.now).ns;

        s.least_ns = left < s.least_ns ? left : s.least_ns;
    }
    s.late_max_ns = late > s.late_max_ns ? late : s.late_max_ns;
    script->busy = true;
    script->sent = s.now;
    script->late = hf_ns(late);
    pace_sent(&h->pace);
    load_event_at(
        &script->event,
        hf_time_add(load_node_runs(hf_time_add(s.now, HALF_TRIP), script->count), HALF_TRIP));
}

static void load_answered(struct script *script)
{
    struct host *h = script->host;

    if (hf_time_before(s.now, h->away_until)) { /* read when the host continues */
        load_event_at(&script->event, h->away_until);
        return;
    }
    for (size_t i = 0; i < script->count; i++) {
        h->a[script->lease[i]] = script->sent;
        load_plan(
            h, script->lease[i],
            phases_next(&h->phases, &s.timing, script->sent, script->late, COHORT_MOST, s.leases));
    }
    script->busy = false;
    pace_ended(&h->pace, hf_time_since(s.now, script->sent).ns <= s.timing.attempt.ns, script->late,
               pace_slack(&s.timing));
    load_host_waits(h);
}

static void load_host_make(struct host *h)
{
    uint32_t room = cohorts_room(s.leases);

    h->due = (struct cohorts){
        .heap = {.items = load_make(room + 1, sizeof(struct heap_item *)),
                 .room = (size_t)room + 1},
        .all = load_make(room, sizeof(struct cohort)),
        .free = load_make(room, sizeof(uint32_t)),
        .home = load_make(s.leases, sizeof(uint32_t)),
        .room = room,
    };
    h->a = load_make(s.leases, sizeof(*h->a));
    h->away_until = HF_TIME_PAST;
    phases_init(&h->phases, draw_next(&s.random));
    for (int i = 0; i < PACE_MOST; i++)
        h->script[i].host = h;
    /* Taken one after the other, at times of its own: in the last third of the TTL. */
    for (uint32_t i = 0; i < s.leases; i++)
        h->a[i] = hf_time_sub(START, hf_ns(s.timing.renew_after.ns / s.leases * (s.leases - i)));
    for (uint32_t i = 0; i < s.leases; i++)
        load_plan(h, i,
                  phases_next(&h->phases, &s.timing, h->a[i], hf_ns(0), COHORT_MOST, s.leases));
    s.now = START;
    load_host_waits(h);
}

static void load_host_free(struct host *h)
{
    free(h->due.heap.items);
    free(h->due.all);
    free(h->due.free);
    free(h->due.home);
    free(h->a);
}

/* --- faults ----------------------------------------------------------------------------------- */

/* Its scripts got no answer: each lease is tried again after a while. */
static void load_host_loses_connection(struct host *h)
{
    struct backoff backoff;
    hf_time up = s.fault_from;

    for (int i = 0; i < PACE_MOST; i++) {
        struct script *script = &h->script[i];
        uint8_t count = 0;
        hf_dur delay =
            backoff_next(s.timing.retry_first, s.timing.retry_max, &count, draw_next(&s.random));

        if (!script->busy)
            continue;
        heap_remove(&s.events, &script->event);
        for (size_t k = 0; k < script->count; k++)
            load_plan(h, script->lease[k], hf_time_add(s.now, delay));
        script->busy = false;
        pace_ended(&h->pace, false, script->late, pace_slack(&s.timing));
    }
    backoff_init(&backoff, hf_ms(20), hf_ms(1000)); /* as a link's */
    while (hf_time_before(up, s.fault_until))
        up = hf_time_add(up, backoff_step(&backoff, draw_next(&s.random)));
    h->away_until = up;
    load_host_waits(h);
}

static void load_begin_fault(void)
{
    for (uint32_t i = 0; i < s.hosts; i++)
        if (s.fault == FAULT_NODE_CUT_OFF)
            load_host_loses_connection(&s.host[i]);
    if (s.fault == FAULT_HOST_STOPPED) {
        s.host[0].away_until = s.fault_until;
        load_host_waits(&s.host[0]);
    }
}

/* --- a run ------------------------------------------------------------------------------------ */

static void load_run_until(hf_time end)
{
    struct heap_item *item;

    while ((item = heap_first(&s.events)) && hf_time_before(item->at, end)) {
        bool is_host = (char *)item >= (char *)s.host &&
                       ((size_t)((char *)item - (char *)s.host) % sizeof(struct host)) ==
                           offsetof(struct host, event);

        s.now = hf_time_max(s.now, item->at);
        heap_remove(&s.events, item);
        if (is_host) {
            struct host *h = HF_CONTAINER(item, struct host, event);

            load_send(h);
            load_host_waits(h);
        } else {
            load_answered(HF_CONTAINER(item, struct script, event));
        }
    }
    s.now = end;
}

/* The most of a slice between the two, as a multiple of an even load. */
static double load_peak(hf_time from, hf_time until)
{
    double even = (double)s.hosts * s.leases * (double)SLICE.ns / (double)s.timing.renew_after.ns;
    uint32_t most = 0;

    for (int64_t i = hf_time_since(from, START).ns / SLICE.ns;
         i < hf_time_since(until, START).ns / SLICE.ns && i < SLICES_MOST; i++)
        most = s.slice[i] > most ? s.slice[i] : most;
    return (double)most / even;
}

static void load_forget(void)
{
    s.busy_ns = s.renewed = s.scripts = s.wait_max_ns = s.late_max_ns = 0;
    s.least_ns = INT64_MAX;
}

static void load_report(const char *name, const char *when, hf_time from, hf_time until)
{
    double seconds = (double)hf_time_since(until, from).ns / 1e9;
    double asked = (double)s.hosts * s.leases * seconds * 1e9 / (double)s.timing.renew_after.ns;

    printf(
        "{\"bench\":\"load\",\"scenario\":\"%s\",\"when\":\"%s\",\"hosts\":%u,\"leases_each\":%u,"
        "\"ttl_s\":%.0f,\"seconds\":%.1f,\"renewals_per_s\":%.0f,\"of_asked\":%.3f,"
        "\"keys_per_script\":%.1f,\"node_busy_percent\":%.1f,\"peak\":%.2f,\"wait_max_ms\":%.2f,"
        "\"late_max_ms\":%.1f,\"least_left\":%.2f}\n",
        name, when, s.hosts, s.leases, (double)s.timing.ttl.ns / 1e9, seconds,
        (double)s.renewed / seconds, (double)s.renewed / asked,
        s.scripts ? (double)s.renewed / (double)s.scripts : 0.0, (double)s.busy_ns / seconds / 1e7,
        load_peak(from, until), (double)s.wait_max_ns / 1e6, (double)s.late_max_ns / 1e6,
        s.least_ns == INT64_MAX ? 0.99 : (double)s.least_ns / (double)s.timing.ttl.ns);
    load_forget();
}

static void load_phase_of_run(const char *name, const char *when, int64_t length_ns)
{
    hf_time from = s.now;

    load_run_until(hf_time_add(from, hf_ns(length_ns)));
    load_report(name, when, from, s.now);
}

/* Two rounds to settle, one undisturbed, the fault, and three rounds after it. */
static void load_run(const char *name, enum fault fault, hf_dur fault_for)
{
    int64_t round = s.timing.renew_after.ns;
    hf_time from;

    s.events.room = (size_t)s.hosts * (PACE_MOST + 1) + 1;
    s.events.items = load_make(s.events.room, sizeof(struct heap_item *));
    s.events.count = 0;
    s.host = load_make(s.hosts, sizeof(*s.host));
    s.node_free = START;
    s.fault = FAULT_NONE;
    memset(s.slice, 0, sizeof(s.slice));
    for (uint32_t i = 0; i < s.hosts; i++)
        load_host_make(&s.host[i]);
    load_run_until(hf_time_add(START, hf_ns(2 * round)));
    load_forget();
    load_phase_of_run(name, "before", round);
    if (fault != FAULT_NONE) {
        s.fault = fault;
        s.fault_from = from = s.now;
        s.fault_until = hf_time_add(s.now, fault_for);
        load_begin_fault();
        load_run_until(hf_time_add(s.fault_until, hf_ns(round)));
        load_report(name, "fault and round 1", from, s.now);
        load_phase_of_run(name, "round 2", round);
        load_phase_of_run(name, "round 3", round);
    }
    for (uint32_t i = 0; i < s.hosts; i++)
        load_host_free(&s.host[i]);
    free(s.host);
    free(s.events.items);
}

static void load_set(uint32_t hosts, uint32_t leases, int64_t ttl_s)
{
    s.hosts = hosts;
    s.leases = leases;
    s.timing = timing_of(hf_ms(ttl_s * 1000));
}

int bench_load(int argc, char **argv)
{
    uint32_t less = argc == 4 && strcmp(argv[3], "--quick") == 0 ? 100 : 1;

    if (argc != 3 && less == 1) {
        fputs("usage: bench load KEY_NS SCRIPT_NS [--quick]\n", stderr);
        return 64;
    }
    s.key_cost = hf_ns(measure_number(argv[1], 1));
    s.script_cost = hf_ns(measure_number(argv[2], 0));
    s.random = 1;
    load_set(1, 1000000 / less, 60);
    load_run("a million of one host", FAULT_NONE, hf_ns(0));
    load_run("its agent is stopped", FAULT_HOST_STOPPED, hf_ms(5000));
    load_run("the node is stopped", FAULT_NODE_STOPPED, hf_ms(5000));
    load_run("the node is cut off", FAULT_NODE_CUT_OFF, hf_ms(5000));
    load_set(1000 / less, 1000, 60);
    load_run("1000 hosts", FAULT_NONE, hf_ns(0));
    load_run("1000 hosts, the node is cut off", FAULT_NODE_CUT_OFF, hf_ms(5000));
    load_set(1000 / less, 1000, 30);
    load_run("1000 hosts, half the TTL", FAULT_NODE_CUT_OFF, hf_ms(5000));
    load_set(2500 / less, 1000, 30);
    load_run("2500 hosts, half the TTL", FAULT_NODE_CUT_OFF, hf_ms(5000));
    return 0;
}
