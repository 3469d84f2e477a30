#include "tests/sim/forces.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/broker/rooms.h"
#include "shm/status.h"
#include "tests/sim/checks.h"
#include "tests/sim/drains.h"
#include "tests/sim/host.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"
#include "tests/support/status_name.h"

#define MARK       "holdfast:" /* and a word, ':' and the id */
#define TIMES_MOST 4

enum forcer_step {
    FORCER_COMES,
    FORCER_QUERIES,
    FORCER_DECIDES,
    FORCER_FORCES,
    FORCER_DRAINS,
    FORCER_UNDRAINS,
    FORCER_GONE
};

struct forcer { /* of one order */
    struct forcer *next;
    struct sim_event event; /* its next step, or its patience */
    struct sim_host *host;  /* whose agent it asks */
    struct session *session;
    enum forcer_step step;
    bool asks;
    uint64_t orders; /* drains and undrains */
    int resource;
    bool by_id;
    uint64_t fence;
    uint8_t id[HF_KEY_ID_LEN];
};

static struct sim_rng rng;
static struct forcer *forcers;

bool forces_is_mark(const char *value)
{
    return strncmp(value, MARK, strlen(MARK)) == 0;
}

bool forces_same_hold(const char *value, const char *other)
{
    char id[SHA1_HEX_LEN + 1];

    if (forces_is_mark(value) && forces_is_mark(other))
        return strcmp(strrchr(value, ':'), strrchr(other, ':')) == 0;
    if (!forces_is_mark(value) && !forces_is_mark(other))
        return strcmp(value, other) == 0;
    if (forces_is_mark(other))
        return forces_same_hold(other, value);
    scripts_id(other, id);
    return strcmp(strrchr(value, ':') + 1, id) == 0;
}

/* --- the session ------------------------------------------------------------------------------ */

struct forcer *forcers_first(void)
{
    return forcers;
}

struct forcer *forcer_next(const struct forcer *o)
{
    return o->next;
}

struct session *forcer_session(const struct forcer *o)
{
    return o->session;
}

void forcer_attached(struct forcer *o, struct session *session)
{
    o->session = session;
}

/* As the tool, it does not try again: people do. */
void forcer_detached(struct forcer *o)
{
    o->session = NULL;
    o->asks = false;
    o->step = FORCER_GONE;
    sim_cancel(&o->event);
}

void forcers_agent_gone(const struct sim_host *host)
{
    for (struct forcer *o = forcers; o; o = o->next)
        if (o->host == host && (o->session || o->asks))
            forcer_detached(o);
}

bool forcer_wants(struct forcer *o, const struct sim_host *host,
                  struct hf_request_entry *ret_request)
{
    struct hf_request_entry q = {.id = (uint64_t)o->step + 1, .name_len = 2};

    if (!o->asks || o->host != host)
        return false;
    o->asks = false;
    if (o->step == FORCER_DRAINS || o->step == FORCER_UNDRAINS) {
        *ret_request =
            (struct hf_request_entry){.op = HF_OP_DRAIN,
                                      .id = ++o->orders,
                                      .flags = o->step == FORCER_UNDRAINS ? HF_REQ_UNDRAIN : 0};
        return true;
    }
    q.op = o->step == FORCER_QUERIES ? HF_OP_QUERY : HF_OP_FORCE;
    q.name[0] = 'r';
    q.name[1] = (uint8_t)('0' + o->resource);
    if (o->step == FORCER_FORCES && o->by_id)
        memcpy(q.key_id, o->id, sizeof(q.key_id));
    else if (o->step == FORCER_FORCES)
        q.target = o->fence;
    *ret_request = q;
    return true;
}

/* --- what it does ----------------------------------------------------------------------------- */

static void ask(struct forcer *o, enum forcer_step step)
{
    if (!o->host->broker || sim.settling) {
        o->step = FORCER_GONE;
        return;
    }
    o->step = step;
    o->asks = true;
    loop_wake(o->host->broker->loop);
}

/* Whose lock it is may hear of it only when it is too late, from wherever the order comes. */
static void put_out_of_touch(struct sim_host *host)
{
    sim_ns until =
        sim.now + rng_log(&rng, 50 * SIM_MS, (sim_ns)sim.plan.ttl_max_ms * SIM_MS * 3 / 2);

    if (rng_chance(&rng, 0.6))
        host_cut_off(host, until);
    else if (host->stopped_until < until)
        host->stopped_until = until;
}

static void on_event(struct sim_event *event)
{
    struct forcer *o = HF_CONTAINER(event, struct forcer, event);
    const struct claim *claim = checks_some_valid();

    if (sim.settling)
        return;
    if (o->step == FORCER_COMES && claim) {
        o->resource = claim->resource;
        sim_trace("an operator asks h%d for r%d", o->host->number, o->resource);
        ask(o, FORCER_QUERIES);
    } else if (o->step == FORCER_DECIDES) {
        sim_trace("an operator has h%d end the hold of r%d by force, by its %s", o->host->number,
                  o->resource, o->by_id ? "id" : "fence");
        if (claim && claim->resource == o->resource && rng_chance(&rng, 0.35))
            put_out_of_touch(claim->host);
        ask(o, FORCER_FORCES);
    }
}

struct forcer *forcer_new(struct sim_host *host)
{
    struct forcer *o = sim_alloc(sizeof(*o));

    o->event.fn = on_event;
    o->host = host;
    o->next = forcers;
    forcers = o;
    return o;
}

void forcer_orders(struct forcer *o, bool undrain)
{
    if (!o->host->broker)
        return;
    o->step = undrain ? FORCER_UNDRAINS : FORCER_DRAINS;
    o->asks = true;
    loop_wake(o->host->broker->loop);
}

/* The tool says the fence where it is known, else the id; people know of --id, too. */
void forcer_answer(struct forcer *o, const struct hf_completion_entry *e)
{
    if (e->op == HF_OP_DRAIN) {
        drains_answered(o->host, o->step == FORCER_UNDRAINS);
        return;
    }
    if (o->step == FORCER_QUERIES && e->status == HF_OK && e->query_holding > 0) {
        o->fence = e->holder.fence;
        o->by_id = !o->fence || rng_chance(&rng, 0.4);
        memcpy(o->id, e->key_id, sizeof(o->id));
        o->step = FORCER_DECIDES;
        sim_at(&o->event, sim.now + rng_log(&rng, SIM_MS, 1000 * SIM_MS));
    } else {
        sim_trace("an operator is answered %s, forced out on %d nodes", status_name(e->status),
                  e->query_forced);
        if (e->op == HF_OP_FORCE && e->query_forced > 0)
            sim.seen[SEEN_FORCED] = true;
        o->step = FORCER_GONE;
    }
}

void forces_begin(void)
{
    int times;

    forcers = NULL;
    rng.state = sim.seed * UINT64_C(0xd1342543de82ef95) + 3;
    /* Who is forced out loses its lease, and that is no fault of the nodes'. */
    if (sim.plan.tolerant || sim.plan.flushes || sim.plan.gentle || sim.plan.scene ||
        !rng_chance(&rng, wide_has(WIDE_RETENTION) ? 0.7 : 0.2))
        return;
    times = (int)rng_between(&rng, 1, TIMES_MOST);
    for (int i = 0; i < times; i++) {
        struct forcer *o = forcer_new(sim.host[rng_below(&rng, sim.plan.hosts)]);

        sim_at(&o->event, rng_between(&rng, 300 * SIM_MS, sim.plan.faults_until));
    }
}
