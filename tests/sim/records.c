/* What agents keep of their leases: every write of a slot and of the journal is judged, and may be
 * the agent's last. */
#include <string.h>

#include "agent/broker/rooms.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/agent.h"
#include "agent/broker/locks/rounds.h"
#include "agent/broker/locks/waiters.h"
#include "agent/state/journal.h"
#include "agent/core/fence.h"
#include "agent/core/handoff.h"
#include "agent/core/refresh.h"
#include "agent/core/timing.h"
#include "shm/slot.h"
#include "shm/status.h"
#include "tests/sim/checks.h"
#include "tests/sim/fleets.h"
#include "tests/sim/forces.h"
#include "tests/sim/host.h"
#include "tests/sim/procs.h"
#include "tests/sim/tokens.h"
#include "tests/sim/vnode.h"
#include "tests/sim/wide.h"

#define KILL_CHANCE 0.1 /* at each step of a hand-off */

struct record {
    struct journal_identity id;
    struct journal_lease state;
};

static bool get(const struct sim_host *host, uint32_t slot, struct record *ret)
{
    return journal_get(host->agent.journal, slot, &ret->id, &ret->state) == HF_OK;
}

static uint32_t number_of(const struct sim_host *host, const struct hf_slot *slot)
{
    return (uint32_t)(slot - host->agent.table.slots);
}

static bool is_wanted(uint32_t reason)
{
    return reason == HF_LOSS_ASKED || reason == HF_LOSS_MAX_HOLD || reason == HF_LOSS_GUARDIAN ||
           reason == HF_LOSS_HOLDER;
}

/* A pause just to the end of what the word says, or to where a run is losing. */
static void preempt_until_end(const struct hf_slot *slot)
{
    const struct sim_host *host = sim.frame->host;
    int64_t valid = atomic_load(&slot->deadline_ns);
    int64_t ttl = (int64_t)atomic_load(&slot->ttl_ms) * SIM_MS;

    if (!sim.plan.fault[FAULT_PAUSE] || !rng_chance(&sim.rng, 0.02))
        return;
    if (rng_chance(&sim.rng, 0.5))
        valid -= ttl / 10 * 3;
    if (valid > host_now(host).ns && valid < host_now(host).ns + ttl)
        sim_preempt_until(clock_when(&host->boot, valid) + rng_below(&sim.rng, 20 * SIM_MS));
}

/* The server at that place of the list that its agent goes by. */
static struct vnode *server_of(const struct sim_host *host, int i)
{
    const struct fleet_record *r = wide_has(WIDE_CHANGES) ? fleets_record(host) : NULL;
    const struct fleet_seat *seats;

    if (!wide_has(WIDE_CHANGES))
        return sim.node[i];
    return r && i < fleet_record_list(r, &seats) ? vnode_of_seat(seats[i].address)
                                                 : vnode_at(host->config.nodes[i].port);
}

/* --- slots ------------------------------------------------------------------------------------ */

/* A lease that was won against a rival, or while a node was not trusted yet, is on a bare quorum until its first renewal:
 * no promise is made of it. */
static bool is_on_the_others(const struct sim_host *host, const struct hf_slot *slot)
{
    uint32_t others = ((UINT32_C(1) << sim.plan.nodes) - 1) & ~sim.plan.faulty_nodes;
    struct record rec;

    if (sim.plan.gentle) {
        others = 0;
        for (int i = 0; i < host->config.node_count; i++)
            if (host->config.counting >> i & 1)
                others |= UINT32_C(1) << server_of(host, i)->number;
    }
    return get(host, number_of(host, slot), &rec) && token_is_on(&rec.id.token, others);
}

/* By the inequality of docs/SAFETY.md: what all nodes forget, each once in a TTL, is found with the next
 * renewal, healed, and counts before the lease is losing. */
static bool outlasts_amnesia(const struct hf_slot *slot)
{
    struct timing t = timing_of(hf_ms(atomic_load(&slot->ttl_ms)));

    for (int i = 0; i < sim.plan.nodes; i++)
        if (sim.node[i]->flushed - sim.node[i]->flushed_before < t.ttl.ns)
            return false;
    return t.renew_after.ns + t.renew_jitter.ns + t.attempt.ns +
               timing_age(hf_ms(sim.plan.ttl_max_ms)).ns <
           t.span.ns - t.losing_before.ns;
}

/* The agent starts again twice in a row, and what is renewed from when the nodes have the next record until it goes by that does
 * not count: 100 ms each for the last answers, and main's look, the way of the answers and the start. */
#define STARTS_AGAIN (2 * (100 + 10 + 30) * SIM_MS)
static bool outlasts_changes(const struct hf_slot *slot)
{
    struct timing t = timing_of(hf_ms(atomic_load(&slot->ttl_ms)));

    return t.renew_after.ns + t.renew_jitter.ns + t.attempt.ns + STARTS_AGAIN <
           t.span.ns - t.losing_before.ns;
}

void __real_hf_slot_end(struct hf_slot *slot, enum hf_slot_state state, enum hf_loss_reason reason);
void __wrap_hf_slot_end(struct hf_slot *slot, enum hf_slot_state state, enum hf_loss_reason reason);
void __wrap_hf_slot_end(struct hf_slot *slot, enum hf_slot_state state, enum hf_loss_reason reason)
{
    struct sim_host *host = sim.frame->host;

    if (state == HF_SLOT_LOST) {
        sim_trace("h%d a lease is lost: reason %d", host->number, (int)reason);
        sim.seen[SEEN_LOSS] = true;
        if (reason == HF_LOSS_NONE)
            sim_violation("reason", "h%d: a loss without a reason", host->number);
        /* One that is losing is not renewed, so less takes it. */
        if (((sim.plan.flushes && outlasts_amnesia(slot)) ||
             ((sim.plan.tolerant || (sim.plan.gentle && outlasts_changes(slot))) &&
              is_on_the_others(host, slot))) &&
            !is_wanted(reason) && !is_wanted(atomic_load(&slot->marks) >> 24))
            sim_violation("tolerance", "h%d: a lease is lost (reason %d) by %s", host->number,
                          (int)reason,
                          sim.plan.gentle    ? "nothing but changes of the fleet"
                          : sim.plan.flushes ? "faults of memory"
                                             : "faults of at most N - q nodes");
    }
    /* (!) The word falls first: who reads that a lease is over finds nobody who believes in it. */
    if (atomic_load(&slot->check))
        sim_violation("word", "h%d: a lease is told over, and its word stands", host->number);
    __real_hf_slot_end(slot, state, reason);
}

void __real_hf_slot_withdraw(struct hf_slot *slot);
void __wrap_hf_slot_withdraw(struct hf_slot *slot);
void __wrap_hf_slot_withdraw(struct hf_slot *slot)
{
    struct sim_host *host = sim.frame->host;
    struct record rec;
    bool known;

    sim_preempt();
    known = get(host, number_of(host, slot), &rec);
    /* (!) The next agent would go on with it, though its holder may have seen its end. */
    if (known && atomic_load(&slot->check) && rec.state.state == JOURNAL_HELD &&
        rec.state.slot_state < HF_SLOT_LOST)
        sim_violation("journal", "h%d: a word goes to 0 and the journal says that it is held",
                      host->number);
    __real_hf_slot_withdraw(slot);
    if (known && rec.state.state != JOURNAL_HANDOFF) /* the token goes on */
        token_ended(&rec.id.token, rec.id.who.is_job);
    sim_preempt();
    if (known && rec.state.state == JOURNAL_HANDOFF)
        sim_kill_here(KILL_CHANCE);
}

/* (!) A later V than the journal's would end before its time at the next agent. */
static void check_raised(const struct sim_host *host, const struct hf_slot *slot, hf_time deadline)
{
    struct record rec;

    /* What was promised by the record before stands (agent/core/lease_fsm.h). */
    if (wide_has(WIDE_CHANGES) && deadline.ns <= atomic_load(&slot->deadline_ns))
        return;
    if (!get(host, number_of(host, slot), &rec) || !journal_is_held(rec.state.state) ||
        validity_qth(rec.state.d, host->config.node_count, fleets_quorum(host)).ns < deadline.ns)
        sim_violation("journal", "h%d: a word is raised beyond what is journaled", host->number);
}

void __real_hf_slot_extend(struct hf_slot *slot, hf_time deadline, uint32_t votes);
void __wrap_hf_slot_extend(struct hf_slot *slot, hf_time deadline, uint32_t votes);
void __wrap_hf_slot_extend(struct hf_slot *slot, hf_time deadline, uint32_t votes)
{
    check_raised(sim.frame->host, slot, deadline);
    preempt_until_end(slot);
    __real_hf_slot_extend(slot, deadline, votes);
    sim_preempt();
}

void __real_hf_slot_publish(struct hf_slot *slot, const struct hf_slot_identity *id,
                            hf_time deadline, uint32_t votes);
void __wrap_hf_slot_publish(struct hf_slot *slot, const struct hf_slot_identity *id,
                            hf_time deadline, uint32_t votes);
void __wrap_hf_slot_publish(struct hf_slot *slot, const struct hf_slot_identity *id,
                            hf_time deadline, uint32_t votes)
{
    const struct sim_host *host = sim.frame->host;
    uint64_t word = atomic_load(&slot->check);
    struct record rec;

    check_raised(host, slot, deadline);
    /* (!) Whom the next agent would give it to is who has it now. */
    if (get(host, number_of(host, slot), &rec) &&
        (rec.state.generation != id->generation || rec.id.who.pid != id->pid))
        sim_violation("journal", "h%d: generation %u of p%u is shown, and not journaled",
                      host->number, id->generation, id->pid);
    if (word && word >> HF_CHECK_GEN_SHIFT != id->generation)
        sim_violation("handoff", "h%d: generation %u is shown while the word of another stands",
                      host->number, id->generation);
    __real_hf_slot_publish(slot, id, deadline, votes);
    sim_preempt();
    if (get(host, number_of(host, slot), &rec) && rec.state.state == JOURNAL_HANDOFF)
        sim_kill_here(KILL_CHANCE);
}

/* --- the journal ------------------------------------------------------------------------------ */

/* As it is decided: nothing looks at the clock in between. */
static void check_handoff(const struct sim_host *host, uint32_t slot,
                          const struct journal_lease *state)
{
    int64_t ttl = (int64_t)atomic_load(&host->agent.table.slots[slot].ttl_ms) * SIM_MS;
    int64_t valid = validity_qth(state->d, host->config.node_count, fleets_quorum(host)).ns, left;

    if (wide_has(WIDE_CHANGES)) /* what was promised by the record before stands */
        valid = hf_time_max((hf_time){valid},
                            (hf_time){atomic_load(&host->agent.table.slots[slot].deadline_ns)})
                    .ns;
    left = valid - host_now(host).ns;
    sim_trace("h%d hands over: generation %u", host->number, state->generation);
    if (left < ttl / 2)
        sim_violation("handoff", "h%d: a lease is handed over %.3f s before its end", host->number,
                      (double)left / SIM_SEC);
    if (fence_handoffs(state->fence) == 0 || fence_handoffs(state->fence) > HANDOFF_IN_A_ROW)
        sim_violation("handoff", "h%d: handed over %d times in a row", host->number,
                      (int)fence_handoffs(state->fence));
}

/* By chance alone a kill would seldom be within a hand-off, nor would the next holder turn away. */
static void disturb_handoff(const struct sim_host *host, uint32_t slot)
{
    struct record rec;
    struct sim_proc *next;

    sim_kill_here(KILL_CHANCE);
    if (sim.settling || !get(host, slot, &rec) || !(next = proc_waiting(host, rec.id.who.pid)) ||
        !rng_chance(&sim.rng, 0.1))
        return;
    proc_turn_away(next);
    sim_preempt_until(sim.now + rng_below(&sim.rng, 4 * SIM_MS));
    sim_kill_here(5 * KILL_CHANCE);
}

/* (!) Before d_i no node that remembers lets the key go. */
static void check_votes(const struct sim_host *host, const struct record *rec)
{
    char name[HF_NAME_MAX + 1] = "", token[TOKEN_LEN + 1] = "";

    memcpy(name, rec->id.name, rec->id.name_len);
    token_text(&rec->id.token, token);
    for (int i = 0; i < host->config.node_count; i++) {
        struct vnode *node = server_of(host, i);
        const struct store_key *key;
        sim_ns until, lapses = sim.now;

        if (rec->state.d[i].ns <= host_now(host).ns)
            continue;
        until = clock_when(&host->boot, rec->state.d[i].ns);
        key = store_find(&node->store, name, vnode_wall_us(node) / 1000);
        if (key && forces_same_hold(key->value, token))
            lapses = clock_when(&node->clock, (key->expires_ms * 1000 - node->wall_us) * SIM_US);
        if (lapses < until)
            sim_violation("vote", "h%d counts on n%d for %s %.6f s longer than the key is there",
                          host->number, i, name, (double)(until - lapses) / SIM_SEC);
    }
}

/* Of a lease that is over no d_i is a vote (agent/state/journal.h). */
static bool is_believed(const struct journal_lease *state)
{
    return journal_is_held(state->state) && state->slot_state < HF_SLOT_LOST;
}

/* (!) No d_i rises but by an answer that counts. */
static void check_seats(const struct sim_host *host, const struct record *before,
                        const struct journal_lease *state)
{
    bool was_held = journal_is_held(before->state.state);
    const struct fleet_record *r = wide_has(WIDE_CHANGES) ? fleets_record(host) : NULL;

    for (int i = 0; i < host->config.node_count; i++) {
        hf_time d = state->d[i],
                until = token_counted(&before->id.token, server_of(host, i)->number).until;

        if (r && !fleets_counts(host, r, i) && hf_time_before(host_now(host), d))
            sim_violation("seat", "h%d counts on n%d, which leaves or is new", host->number,
                          server_of(host, i)->number);
        if (hf_time_before(until, d) && !(was_held && d.ns <= before->state.d[i].ns))
            sim_violation("seat",
                          "h%d counts on n%d, and not by the fleet's server or for %.6f s longer",
                          host->number, i, (double)(d.ns - until.ns) / SIM_SEC);
    }
}

void __real_journal_put(struct journal *journal, uint32_t slot, const struct journal_lease *state);
void __wrap_journal_put(struct journal *journal, uint32_t slot, const struct journal_lease *state);
void __wrap_journal_put(struct journal *journal, uint32_t slot, const struct journal_lease *state)
{
    const struct sim_host *host = sim.frame->host;
    struct record rec;

    if (state->state == JOURNAL_HANDOFF)
        check_handoff(host, slot, state);
    sim_preempt();
    if (get(host, slot, &rec) && state->state == JOURNAL_FREE)
        token_freed(host, &rec.id.token);
    if (get(host, slot, &rec) && is_believed(state))
        check_seats(host, &rec, state);
    if (state->state == JOURNAL_HELD)
        preempt_until_end(&host->agent.table.slots[slot]);
    __real_journal_put(journal, slot, state);
    if (get(host, slot, &rec))
        for (int i = 0; i < host->config.node_count; i++)
            if (state->d[i].ns > HF_TIME_PAST.ns && state->slot_state < HF_SLOT_LOST)
                token_voted(&rec.id.token, UINT32_C(1) << server_of(host, i)->number);
    if (is_believed(state) && !sim.plan.amnesia && get(host, slot, &rec))
        check_votes(host, &rec);
    sim_preempt();
    if (state->state == JOURNAL_HANDOFF)
        disturb_handoff(host, slot);
}

void __real_journal_put_identity(struct journal *journal, uint32_t slot,
                                 const struct journal_identity *identity);
void __wrap_journal_put_identity(struct journal *journal, uint32_t slot,
                                 const struct journal_identity *identity);
void __wrap_journal_put_identity(struct journal *journal, uint32_t slot,
                                 const struct journal_identity *identity)
{
    const struct sim_host *host = sim.frame->host;
    struct record rec;

    /* (!) What the next agent has to release must not be forgotten for another round. */
    if (get(host, slot, &rec) && memcmp(&rec.id.token, &identity->token, sizeof(rec.id.token)) != 0)
        sim_violation("journal", "h%d: the record of a token that may stand is written over",
                      host->number);
    __real_journal_put_identity(journal, slot, identity);
}

/* (!) Where the list is another one each lease has taken along what its own nodes said. */
void records_check_taken(const struct sim_host *host)
{
    struct record rec;

    for (uint32_t slot = 0; wide_has(WIDE_CHANGES) && slot < host->agent.table.capacity; slot++) {
        if (!get(host, slot, &rec) || !is_believed(&rec.state))
            continue;
        for (int i = 0; i < host->config.node_count; i++)
            if (hf_time_before(token_counted(&rec.id.token, server_of(host, i)->number).until,
                               rec.state.d[i]))
                sim_violation(
                    "seat",
                    "h%d takes over a lease that counts on n%d by the answers of another server",
                    host->number, server_of(host, i)->number);
    }
}

/* --- the retention of fence records ------------------------------------------------------------- */

#define WEEK_MS (7 * 24 * 3600 * INT64_C(1000))

static hf_time started[SIM_HOSTS]; /* each one's agent */

/* Where the nodes' seven days are seconds, the agents' day is as much shorter. */
static hf_time in_weeks(hf_time now)
{
    int64_t since = hf_time_since(now, started[sim.frame->host->number]).ns;

    return sim.plan.retention_ms ? (hf_time){since / sim.plan.retention_ms * WEEK_MS} : now;
}

void __real_refresh_init(struct refresh *r, uint32_t slots, uint32_t random, hf_time now);
void __wrap_refresh_init(struct refresh *r, uint32_t slots, uint32_t random, hf_time now);
void __wrap_refresh_init(struct refresh *r, uint32_t slots, uint32_t random, hf_time now)
{
    started[sim.frame->host->number] = now;
    __real_refresh_init(r, slots, random, in_weeks(now));
}

bool __real_refresh_take(struct refresh *r, hf_time now, uint32_t *ret_slot);
bool __wrap_refresh_take(struct refresh *r, hf_time now, uint32_t *ret_slot);
bool __wrap_refresh_take(struct refresh *r, hf_time now, uint32_t *ret_slot)
{
    return __real_refresh_take(r, in_weeks(now), ret_slot);
}

/* --- grants ----------------------------------------------------------------------------------- */

/* (!) A node in quarantine gives no vote, also if it was not yet when it was asked. Nor does a server that is not the
 * fleet's, or has not its record. */
int __real_grant_lease(struct round *round, hf_time now);
int __wrap_grant_lease(struct round *round, hf_time now);
int __wrap_grant_lease(struct round *round, hf_time now)
{
    const struct sim_host *host = sim.frame->host;
    int count = 0, seated = 0;

    for (int i = 0; i < host->config.node_count; i++) {
        bool yes = round->ballot.node[i].vote == BALLOT_YES;

        count += yes && trust_may_vote(&round->locks->nodes->node[i].trust, now);
        seated += yes && token_counted(&round->token, server_of(host, i)->number).acquired;
    }
    if (count < fleets_quorum(host))
        sim_violation("trust", "h%d grants with %d votes of nodes that may vote", host->number,
                      count);
    if (seated < fleets_quorum(host))
        sim_violation("seat", "h%d grants with %d votes of nodes of its fleet", host->number,
                      seated);
    return __real_grant_lease(round, now);
}
