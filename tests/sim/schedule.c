/* One schedule: the plan, the faults, and the quiet after them. */
#include <stdarg.h>
#include <string.h>

#include "tests/sim/addresses.h"
#include "tests/sim/changes.h"
#include "tests/sim/checks.h"
#include "tests/sim/drains.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/faults.h"
#include "tests/sim/fleets.h"
#include "tests/sim/forces.h"
#include "tests/sim/host.h"
#include "tests/sim/os.h"
#include "tests/sim/procs.h"
#include "tests/sim/scenes.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wander.h"
#include "tests/sim/wide.h"

struct sim sim;

const char *const sim_seen_names[SEENS] = {
    [SEEN_GRANT] = "grant",
    [SEEN_CONTENDED] = "contended grant",
    [SEEN_HANDOFF] = "hand-off",
    [SEEN_LOSS] = "loss",
    [SEEN_HEAL] = "heal",
    [SEEN_QUARANTINE] = "quarantine",
    [SEEN_RESTART] = "restart",
    [SEEN_RECOVERY] = "recovery",
    [SEEN_STEP] = "clock step",
    [SEEN_KILL] = "agent killed",
    [SEEN_STALE_WRITE] = "stale write refused",
    [SEEN_RUN_STOPPED] = "job stopped",
    [SEEN_UNDONE] = "round undone",
    [SEEN_IN_DOUBT] = "in doubt",
    [SEEN_WOKEN] = "woken by notices",
    [SEEN_FORCED] = "forced release",
    [SEEN_SHARED] = "shared hold",
    [SEEN_ALONE] = "hold alone",
    [SEEN_LIE] = "a member lies",
    [SEEN_CLAIM] = "a member says that it is another one",
    [SEEN_GROUP_KILL] = "group killed",
    [SEEN_ASTRAY_ACQUIRE] = "acquire astray",
    [SEEN_ASTRAY_RENEWAL] = "renewal astray",
    [SEEN_ASTRAY_HEAL] = "heal astray",
    [SEEN_ASTRAY_RELEASE] = "release astray",
    [SEEN_ASTRAY_FORCE] = "force astray",
};

void sim_violation(const char *check, const char *format, ...)
{
    va_list args;

    sim.over = true;
    if (sim.violation)
        return;
    sim.violation = check;
    va_start(args, format);
    vsnprintf(sim.violation_text, sizeof(sim.violation_text), format, args);
    va_end(args);
    sim_trace("VIOLATION of %s: %s", check, sim.violation_text);
}

void sim_trace_line(const char *format, ...)
{
    va_list args;

    printf("%12.6f ", (double)sim.now / SIM_SEC);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

static void trace_plan(void)
{
    const struct sim_plan *p = &sim.plan;

    sim_trace("seed %llu: %d hosts, %d nodes, %d resources, %d processes per host, ttl %u ms, "
              "ttl_max %u ms%s%s",
              (unsigned long long)sim.seed, p->hosts, p->nodes, p->resources, p->procs,
              (unsigned)p->ttl_ms, (unsigned)p->ttl_max_ms, p->young ? ", young nodes" : "",
              p->tolerant ? ", faults within tolerance" : "");
    for (int i = 0; i < FAULTS; i++)
        if (p->fault[i])
            sim_trace("fault: %s", sim_fault_names[i]);
    for (int i = 0; i < WIDES; i++)
        if (sim.wide >> i & 1)
            sim_trace("wide: %s", sim_wide_names[i]);
}

/* Keys that nobody knows of any more stand until their time is up by their node's clock. */
static sim_ns set_back(void)
{
    int64_t most_us = 0;

    for (int i = 0; i < sim.plan.nodes; i++)
        if (most_us < sim.node[i]->set_back_us)
            most_us = sim.node[i]->set_back_us;
    return most_us * SIM_US;
}

/* Until when all that waits must have been granted: a lost lease's keys lapse, nodes leave their
 * quarantine, what was delayed arrives, links come back. */
static sim_ns settled_at_latest(void)
{
    sim_ns ttl_max = (sim_ns)sim.plan.ttl_max_ms * SIM_MS;

    /* A change of the fleet that was under way settles, too, with a longer ttl_max. */
    if (wide_has(WIDE_CHANGES))
        ttl_max = ttl_max * 2 + SIM_SEC;
    return sim.now + 2 * ttl_max + (ttl_max * 102 / 100 + SIM_SEC) + 3 * SIM_SEC + set_back() +
           wander_stands();
}

static bool all_connected(void)
{
    sim_ns latest = sim.now + 3 * SIM_SEC + (sim_ns)sim.plan.ttl_max_ms * SIM_MS;

    while (!sim.over && !hosts_connected() && sim.now < latest)
        sim_run_until(sim.now + 50 * SIM_MS);
    return hosts_connected();
}

static bool all_granted(void)
{
    sim_ns latest = settled_at_latest();

    while (!sim.over && !procs_settled() && sim.now < latest)
        sim_run_until(sim.now + 50 * SIM_MS);
    return procs_settled();
}

/* A change may have begun just before, and its new members are young. */
static bool all_settled(void)
{
    sim_ns latest =
        sim.now + 3 * ((sim_ns)sim.plan.ttl_max_ms * SIM_MS * 133 / 100 + SIM_SEC) + 3 * SIM_SEC;

    while (!sim.over && !changes_have_settled() && sim.now < latest)
        sim_run_until(sim.now + 50 * SIM_MS);
    return changes_have_settled();
}

static void stuck(const char *what)
{
    if (!sim.over && sim.trace)
        fleets_trace();
    if (changes_are_stuck())
        return;
    if (!sim.over)
        sim_violation("liveness", "%.1f s after the last fault %s",
                      (double)(sim.now - sim.settled_at) / SIM_SEC, what);
}

static void settle(void)
{
    sim.settling = true;
    sim.settled_at = sim.now;
    faults_end();
    if (!all_connected()) {
        stuck("a link is still down");
        return;
    }
    drains_end();
    procs_settle();
    if (!all_granted() && !(addresses_found_anew() && all_granted())) {
        stuck("somebody still waits");
        return;
    }
    /* Releases, also second ones. */
    sim_run_until(sim.now + 400 * SIM_MS + (sim_ns)sim.plan.ttl_max_ms * SIM_MS / 7);
    /* A connection that died without a word is found by its silence. */
    if (!checks_quiet(false))
        sim_run_until(sim.now + (sim_ns)sim.plan.ttl_max_ms * SIM_MS / 3);
    /* A release that a killed agent still had to bring to a node that was away is forgotten: the
     * key lapses. */
    if ((sim.agent_ended || checks_lapsing()) && !checks_quiet(false))
        sim_run_until(sim.now + (sim_ns)sim.plan.ttl_max_ms * SIM_MS * 102 / 100);
    (void)checks_quiet(true);
    if (wide_has(WIDE_CHANGES) && !all_settled())
        stuck("the fleet's record has not settled, or a node does not vote");
}

void sim_schedule(void)
{
    uint64_t seed = sim.seed;
    bool trace = sim.trace;

    memset(&sim, 0, sizeof(sim));
    sim.seed = seed;
    sim.trace = trace;
    sim.rng.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    sim.product_rng.state = rng_next(&sim.rng);
    sim_heap_now = NULL;
    sim_alloc_reset();
    sim_events_reset();
    os_reset();
    stores_reset();
    fake_reset();
    net_reset();
    checks_begin();
    wide_draw();
    plan_draw();
    scenes_plan();
    if (sim.plan.scene)
        sim.wide = 0;
    trace_plan();
    sim.preempt_in = rng_between(&sim.rng, 1, 2 * sim.plan.preempt_every);
    vnodes_begin();
    hosts_begin();
    fleets_begin();
    procs_begin();
    faults_begin();
    forces_begin();
    scenes_begin();
    wide_begin();
    sim_run_until(sim.plan.faults_until);
    if (!sim.over)
        settle();
    for (int i = 0; i < sim.plan.hosts; i++)
        if (sim.host[i]->phase != HOST_OFF)
            checks_counters(sim.host[i]);
    sim_digest((uint64_t)sim.now ^ sim.events << 32);
}
