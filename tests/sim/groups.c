#include "tests/sim/groups.h"

#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/wide.h"

#define STRIKES     0.8 /* of the jobs */
#define RIVALS_MOST 6   /* processes that come besides */

struct strike {
    struct sim_event event;
    struct sim_proc *proc;
    const struct claim *claim; /* of that job */
};

static int rivals;

static struct sim_rng *rng(void)
{
    return wide_rng(WIDE_GROUPS);
}

static sim_ns ttl(const struct claim *claim, int64_t percent)
{
    return (sim_ns)atomic_load(&claim->slot->ttl_ms) * SIM_MS * percent / 100;
}

/* Somebody elsewhere wants the lock while the job may still live. */
static void rival_comes(const struct claim *claim)
{
    struct sim_host *host = sim.host[rng_below(rng(), sim.plan.hosts)];

    if (host == claim->host || rivals == RIVALS_MOST)
        return;
    rivals++;
    proc_come(host, claim->resource, sim.now + rng_log(rng(), SIM_MS, 100 * SIM_MS));
}

static void on_strike(struct sim_event *event)
{
    struct strike *s = HF_CONTAINER(event, struct strike, event);

    if (!sim.settling && s->proc->job_alive && s->proc->claim == s->claim) {
        proc_group_kill(s->proc, (int)rng_below(rng(), SIM_GROUPS));
        rival_comes(s->claim);
    }
    sim_free(s);
}

/* By the host's clock: about SIGTERM, and until SIGKILL, if nobody extends the lease. */
static sim_ns near_v(const struct claim *claim)
{
    static const int before[] = {30, 20, 12, 10}; /* % of the TTL */
    sim_ns v = clock_when(&claim->host->boot, atomic_load(&claim->slot->deadline_ns));

    return v - ttl(claim, before[rng_below(rng(), HF_LENGTH(before))]) +
           rng_between(rng(), -20 * SIM_MS, 20 * SIM_MS);
}

/* The agent hangs or is dead at the strike, and for up to a TTL after it. */
static void take_agent_away(const struct claim *claim, sim_ns strike)
{
    struct sim_host *host = claim->host;
    sim_ns until = strike + rng_below(rng(), ttl(claim, 100));

    if (rng_chance(rng(), 0.5)) {
        sim_trace("h%d agent is stopped for %.3f s", host->number,
                  (double)(until - sim.now) / SIM_SEC);
        if (host->stopped_until < until)
            host->stopped_until = until;
    } else {
        host_kill(host);
        host_start_later(host, until - sim.now);
    }
}

void groups_job_starts(struct sim_proc *proc)
{
    /* The agents stay where no lease may be lost, and where a host that is away for several changes has to be
     * helped by hand. */
    bool alone = sim.plan.tolerant || sim.plan.flushes || wide_has(WIDE_CHANGES);
    struct strike *s;
    sim_ns at;

    if (!wide_has(WIDE_GROUPS))
        return;
    if (!rng_chance(rng(), STRIKES) && sim.seen[SEEN_GROUP_KILL])
        return;
    s = sim_alloc(sizeof(*s));
    *s = (struct strike){.event.fn = on_strike, .proc = proc, .claim = proc->claim};
    switch (alone ? 0 : rng_below(rng(), 3)) {
    case 0: /* just after the grant */
        at = sim.now + rng_log(rng(), SIM_US, 5 * SIM_MS);
        break;
    case 1:
        at = sim.now + rng_below(rng(), ttl(proc->claim, 100));
        take_agent_away(proc->claim, at);
        break;
    default:
        at = near_v(proc->claim);
        if (at < sim.now)
            at = sim.now;
        take_agent_away(proc->claim, at);
        break;
    }
    sim_at(&s->event, at);
    if (proc->job.at <= at) /* it works at least until then */
        sim_at(&proc->job, at + 1);
}

bool groups_wants_job(const struct sim_proc *proc)
{
    return wide_has(WIDE_GROUPS) &&
           (proc->number == 0 || !sim.seen[SEEN_GROUP_KILL] || rng_chance(rng(), 0.3));
}

void groups_begin(void)
{
    rivals = 0;
}
