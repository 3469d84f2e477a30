#include "tests/sim/checks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/fence.h"
#include "agent/core/fleet_record.h"

#include "tests/sim/changes.h"
#include "tests/sim/fake_hiredis.h"
#include "tests/sim/forces.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/sharers.h"
#include "tests/sim/tokens.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define OLD_EVERY  8  /* events between looks at claims that nobody has any more */
#define KEYS_EVERY 16 /* events between counts of the nodes that have a believed lease's key */

static struct claim *claims; /* newest first */
static uint64_t highest_granted[SIM_RESOURCES], highest_written[SIM_RESOURCES];

void checks_begin(void)
{
    claims = NULL;
    memset(highest_granted, 0, sizeof(highest_granted));
    memset(highest_written, 0, sizeof(highest_written));
    tokens_begin();
}

/* --- claims ----------------------------------------------------------------------------------- */

bool claim_believes(const struct claim *claim)
{
    return hf_check_holds(atomic_load(&claim->slot->check), claim->generation,
                          host_now(claim->host));
}

const struct claim *checks_some_valid(void)
{
    for (const struct claim *c = claims; c; c = c->next)
        if (c->used && claim_believes(c))
            return c;
    return NULL;
}

struct claim *claims_find(const struct sim_host *host, uint32_t slot, uint32_t generation)
{
    for (struct claim *c = claims; c; c = c->next)
        if (c->host == host && c->slot_number == slot && c->generation == generation)
            return c->used ? c : NULL;
    return NULL;
}

/* Handed on, a lock keeps its token, and the fence but for the count of hand-offs. */
static sim_ns token_at(const struct sim_host *host, uint32_t slot, uint64_t fence)
{
    for (const struct claim *c = claims; c; c = c->next)
        if (c->host == host && c->slot_number == slot &&
            fence_node_part(c->fence) == fence_node_part(fence))
            return c->token_at;
    return sim.now;
}

struct claim *checks_granted(struct sim_proc *proc, int resource, uint32_t slot_number,
                             uint32_t generation, uint64_t fence)
{
    struct sim_host *host = proc->host;
    const struct hf_slot *slot = &host->agent.table.slots[slot_number];
    struct claim *claim = claims_find(host, slot_number, generation);
    if (claim && claim->slot == slot)
        return claim; /* answered once more */
    if (wide_has(WIDE_HOT) && claims && !claims->used)
        claims = NULL; /* thousands would be looked at after each event */
    claim = sim_alloc(sizeof(*claim));
    *claim = (struct claim){.next = claims,
                            .proc = proc,
                            .host = host,
                            .resource = resource,
                            .slot = slot,
                            .slot_number = slot_number,
                            .generation = generation,
                            .fence = fence,
                            .token_at = token_at(host, slot_number, fence),
                            .is_job = proc->run,
                            .used = true};
    claims = claim;
    sim.seen[SEEN_GRANT] = true;
    sim_digest(fence);
    sim_trace("h%d grants r%d to p%d: generation %u, fence %" PRIu64 ".%u", host->number, resource,
              proc->number, generation, fence_node_part(fence), fence_handoffs(fence));
    /* One that was answered after its end is nobody's: it has its place before a later one. */
    if (!claim_believes(claim))
        return claim;
    /* Where the record's time is over and clocks were set back nothing makes it rise (docs/SAFETY.md, 3). */
    if (fence <= highest_granted[resource] && !(sim.plan.retention_ms && sim.set_back))
        sim_violation("fence", "r%d: fence %" PRIu64 " is granted to h%d p%d after %" PRIu64,
                      resource, fence, host->number, proc->number, highest_granted[resource]);
    highest_granted[resource] = fence;
    return claim;
}

void checks_dropped(struct claim *claim)
{
    claim->used = false;
    claim->job = false;
}

void claims_drop_all(const struct sim_proc *proc)
{
    for (struct claim *c = claims; c; c = c->next)
        if (c->proc == proc && !c->orphan)
            checks_dropped(c);
}

void checks_killed_inside(const struct sim_host *host)
{
    for (struct claim *c = claims; c; c = c->next)
        if (c->host == host && claim_believes(c))
            c->expired = false;
}

void checks_host_rebooted(struct sim_host *host)
{
    struct claim **at = &claims;

    while (*at) {
        if ((*at)->host == host)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

/* --- at every moment -------------------------------------------------------------------------- */

/* V is frozen once the lease is losing: by the agent's word, or of a run by the clock. */
static void check_losing(struct claim *c)
{
    int64_t valid = atomic_load(&c->slot->deadline_ns);
    int64_t ttl = (int64_t)atomic_load(&c->slot->ttl_ms) * SIM_MS;
    bool losing = atomic_load(&c->slot->lengths) >> 24 == HF_SLOT_LOSING;

    /* The next agent knows what is journaled, and that may be a later V than was shown. */
    if (c->losing_by != c->host->incarnation)
        c->losing_ns = 0;
    if (c->losing_ns && valid > c->losing_ns)
        sim_violation(
            "losing", "h%d: r%d, generation %u, is extended by %.6f s though it was losing",
            c->host->number, c->resource, c->generation, (double)(valid - c->losing_ns) / SIM_SEC);
    if (!c->losing_ns && (losing || (c->is_job && host_now(c->host).ns >= valid - ttl / 10 * 3))) {
        c->losing_ns = valid;
        c->losing_by = c->host->incarnation;
    }
}

/* What the word of a lease may do: fall, and never rise again. */
static bool check_word(struct claim *c)
{
    uint64_t word = atomic_load(&c->slot->check);
    bool same = word >> HF_CHECK_GEN_SHIFT == c->generation;
    bool believes = same && hf_check_holds(word, c->generation, host_now(c->host));

    if (!same) {
        c->ended = true;
    } else if (c->ended) {
        sim_violation("resurrection", "h%d: the word of r%d, generation %u, rose again",
                      c->host->number, c->resource, c->generation);
    }
    /* The word ends up to a millisecond before V: it has no room for more. */
    if (!believes && !c->expired && host_now(c->host).ns >= atomic_load(&c->slot->deadline_ns)) {
        sim_trace("h%d the word of r%d, generation %u, ends", c->host->number, c->resource,
                  c->generation);
        c->expired = true;
    }
    /* Between storing an extension and looking at the clock the agent may be too late; it then
     * takes it back before its turn is over. */
    if (!host_is_running(c->host)) {
        if (believes && c->expired)
            sim_violation("resurrection", "h%d: r%d, generation %u, is valid again after its end",
                          c->host->number, c->resource, c->generation);
        if (same && !c->ended)
            check_losing(c);
    }
    return believes;
}

/* How many of these servers have one key for it. */
static int count_same(int resource, struct vnode *const *servers, int servers_count)
{
    char name[] = {'r', (char)('0' + resource), '\0'};
    const char *value[SIM_SERVERS] = {0};
    int most = 0;

    for (int i = 0; i < servers_count; i++) {
        struct vnode *node = servers[i];
        const struct store_key *key = store_find(&node->store, name, vnode_wall_us(node) / 1000);

        value[i] = key ? key->value : NULL;
    }
    for (int i = 0; i < servers_count; i++) {
        int count = 0;

        for (int k = 0; k < servers_count; k++)
            count += value[i] && value[k] && forces_same_hold(value[i], value[k]);
        most = count > most ? count : most;
    }
    return most;
}

static bool is_on_most(int resource, const struct fleet_seat *seats, int count)
{
    struct vnode *servers[SIM_SERVERS];

    for (int i = 0; i < count; i++)
        servers[i] = vnode_of_seat(seats[i].address);
    return count && count_same(resource, servers, count) > count / 2;
}

/* Without amnesia and steps a quorum has the key of every lease that is believed in: of one of both lists, where the fleet
 * changes. */
static void check_keys(const struct claim *c)
{
    const struct fleet_record *r = wide_has(WIDE_CHANGES) ? changes_latest() : NULL;
    int most;

    if (wide_has(WIDE_CHANGES) && !r)
        return; /* all agents are away */
    if (r && (is_on_most(c->resource, r->seat, r->count) ||
              is_on_most(c->resource, r->before, r->before_count)))
        return;
    most = count_same(c->resource, sim.node, vnodes_struck());
    if (r || most < sim.plan.quorum)
        sim_violation("quorum", "r%d is believed in on h%d, and only %d nodes have one key",
                      c->resource, c->host->number, most);
}

/* Whoever is renewed on a quorum is known there, with its fence, however long it holds. */
static void check_record(struct claim *c)
{
    char name[] = {'r', (char)('0' + c->resource), '\0'}, record_name[24];
    int missing = 0;

    snprintf(record_name, sizeof(record_name), "holdfast:fence:%s", name);
    for (int i = 0; i < sim.plan.nodes; i++) {
        struct vnode *node = sim.node[i];
        int64_t now_ms = vnode_wall_us(node) / 1000;
        const struct store_key *record = store_find(&node->store, record_name, now_ms);

        missing +=
            store_find(&node->store, name, now_ms) && (!record || !store_field(record, "fence"));
    }
    if (missing < sim.plan.quorum)
        c->unrecorded_since = 0;
    else if (!c->unrecorded_since)
        c->unrecorded_since = sim.now;
    else if (sim.now - c->unrecorded_since > (sim.plan.retention_ms + sim.plan.ttl_max_ms) * SIM_MS)
        sim_violation("record", "r%d is held on h%d, and %d nodes know no fence of it", c->resource,
                      c->host->number, missing);
}

void checks_run(void)
{
    const struct claim *believed[SIM_RESOURCES] = {0};
    bool old = sim.events % OLD_EVERY == 0;

    for (struct claim *c = claims; c; c = c->next) {
        const struct claim *other;

        if (!c->used && !old)
            continue;
        if (!check_word(c) && (!c->job || sim.now < c->frozen_until))
            continue;
        if (!c->used)
            continue;
        other = believed[c->resource];
        if (other)
            sim_violation("exclusion",
                          "r%d is believed in by h%d p%d (fence %" PRIu64 "%s) and h%d p%d (fence "
                          "%" PRIu64 "%s)",
                          c->resource, other->host->number, other->proc->number, other->fence,
                          other->job ? ", a job" : "", c->host->number, c->proc->number, c->fence,
                          c->job ? ", a job" : "");
        believed[c->resource] = c;
        if (!sim.plan.amnesia && !c->job && sim.events % KEYS_EVERY == 0)
            check_keys(c);
        if (!sim.plan.amnesia && sim.plan.retention_ms && sim.events % KEYS_EVERY == 0)
            check_record(c);
    }
    sharers_check();
    if (sim.events % OLD_EVERY == 0)
        tokens_check();
}

/* --- what the lock protects ------------------------------------------------------------------- */

struct write {
    struct sim_event event;
    int resource;
    uint64_t fence;
};

static void on_write(struct sim_event *event)
{
    struct write *w = HF_CONTAINER(event, struct write, event);

    if (w->fence < highest_written[w->resource])
        sim.seen[SEEN_STALE_WRITE] = true; /* refused */
    else
        highest_written[w->resource] = w->fence;
    sim_free(w);
}

void checks_write(const struct claim *claim)
{
    struct write *w = sim_alloc(sizeof(*w));

    w->event.fn = on_write;
    w->resource = claim->resource;
    w->fence = claim->fence;
    sim_at(&w->event, sim.now + rng_log(&sim.rng, 10 * SIM_US, 2 * SIM_SEC));
}

/* --- the agents' own words -------------------------------------------------------------------- */

void checks_counters(const struct sim_host *host)
{
    static const struct {
        enum hf_counter counter;
        enum sim_seen seen;
    } known[] = {{HF_COUNTER_HEALS, SEEN_HEAL},       {HF_COUNTER_GRANTS_CONTENDED, SEEN_CONTENDED},
                 {HF_COUNTER_HANDOFFS, SEEN_HANDOFF}, {HF_COUNTER_WAKEUPS, SEEN_WOKEN},
                 {HF_COUNTER_UNDONE, SEEN_UNDONE},    {HF_COUNTER_IN_DOUBT, SEEN_IN_DOUBT}};
    const struct hf_table *table = &host->agent.table;

    for (size_t i = 0; table->counters && i < HF_LENGTH(known); i++)
        if (atomic_load(&table->counters[known[i].counter]) > 0)
            sim.seen[known[i].seen] = true;
}
