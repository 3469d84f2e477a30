#include "tests/sim/drains.h"

#include "tests/sim/forces.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/wide.h"

#define TIMES_MOST 4
#define LOOK_EVERY (100 * SIM_US)
#define LOOKS_MOST 500

struct order { /* drain, then undrain */
    struct sim_event event;
    struct sim_host *host;
    bool drained;
    int looks;
};

struct drained { /* of one host */
    struct sim_event end;
    struct sim_host *host;
    struct forcer *who;
    bool answered;    /* that it is drained */
    int64_t since_ns; /* by the host's clock */
    bool over;        /* the faults are, and it is undrained */
};

static struct drained of_host[SIM_HOSTS];

/* --- what must hold --------------------------------------------------------------------------- */

void drains_answered(const struct sim_host *host, bool undrain)
{
    struct drained *d = &of_host[host->number];

    sim_trace("h%d is %s", host->number, undrain ? "undrained" : "drained");
    d->over |= undrain && sim.settling;
    d->answered = !undrain;
    d->since_ns = host_now(host).ns;
}

void drains_host_rebooted(const struct sim_host *host)
{
    of_host[host->number].answered = false;
}

void drains_check(const struct sim_host *host, int resource, int64_t since_ns, bool readopted)
{
    const struct drained *d = &of_host[host->number];
    /* What an earlier agent had granted, or journaled as handed over, is told by the next one. */
    bool told_again = since_ns < d->since_ns && readopted;

    if (d->answered && !told_again)
        sim_violation("drain", "h%d grants r%d though it is drained", host->number, resource);
}

/* --- what they do ----------------------------------------------------------------------------- */

static bool somebody_waits(const struct sim_host *host)
{
    for (int i = 0; i < proc_count; i++)
        if (procs[i]->host == host && procs[i]->alive && procs[i]->state == PROC_WAITING)
            return true;
    return false;
}

static void on_order(struct sim_event *event)
{
    struct order *o = HF_CONTAINER(event, struct order, event);
    struct sim_rng *rng = wide_rng(WIDE_DRAINS);

    if (sim.settling)
        return;
    /* While a round or a hand-off may be under way. */
    if (!o->drained && !somebody_waits(o->host) && o->looks++ < LOOKS_MOST) {
        sim_at(event, sim.now + LOOK_EVERY);
        return;
    }
    forcer_orders(of_host[o->host->number].who, o->drained);
    if (o->drained)
        of_host[o->host->number].answered = false; /* it may grant before it has answered */
    else
        sim_at(event, sim.now + rng_log(rng, SIM_MS, 2 * SIM_SEC));
    o->drained = true;
}

static void on_end(struct sim_event *event)
{
    struct drained *d = HF_CONTAINER(event, struct drained, end);

    if (d->over)
        return;
    d->answered = false;
    forcer_orders(d->who, true);
    sim_at(event, sim.now + 20 * SIM_MS);
}

void drains_end(void)
{
    for (int i = 0; wide_has(WIDE_DRAINS) && i < sim.plan.hosts; i++)
        sim_at(&of_host[i].end, sim.now);
}

void drains_begin(void)
{
    struct sim_rng *rng = wide_rng(WIDE_DRAINS);
    int times;

    for (int i = 0; i < SIM_HOSTS; i++)
        of_host[i] = (struct drained){.end = {.fn = on_end}, .host = sim.host[i]};
    if (!wide_has(WIDE_DRAINS))
        return;
    for (int i = 0; i < sim.plan.hosts; i++)
        of_host[i].who = forcer_new(sim.host[i]);
    times = (int)rng_between(rng, 1, TIMES_MOST);
    for (int i = 0; i < times; i++) {
        struct order *o = sim_alloc(sizeof(*o));

        o->event.fn = on_order;
        o->host = sim.host[rng_below(rng, sim.plan.hosts)];
        sim_at(&o->event, rng_between(rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}
