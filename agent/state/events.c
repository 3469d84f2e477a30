#include "agent/state/events.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/core/timing.h"
#include "agent/state/lease.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/history.h"
#include "shm/status.h"
#include "shm/text.h"
#include "shm/version.h"

/* What one user, or one node, may have told of the history's losses at once, and from then on. The ring keeps 1024 or more. */
#define SHARE_BURST 128
#define SHARE_EACH  hf_ms(1000)
/* The same of one node in the history of nodes, which keeps 512. */
#define NODE_BURST 64
#define NODE_EACH  hf_ms(30000)

void events_begin(struct agent *agent)
{
    (void)!getrandom(&agent->loss_shares.key, sizeof(agent->loss_shares.key), 0);
    atomic_store(&agent->event_number, hf_history_begin(&agent->table));
}

static void event_put(struct agent *agent, enum hf_event_ring ring, struct hf_event *event)
{
    hf_assert((unsigned)ring < HF_EVENT_RINGS, "ring %d, event %u", (int)ring, event->kind);
    hf_assert(event->node == HF_EVENT_NO_NODE || event->node < HF_NODES_MAX, "event %u, node %u",
              event->kind, event->node);
    event->number = atomic_fetch_add(&agent->event_number, 1) + 1;
    event->wall_ms = clock_wall().ms;
    event->nodes = (uint8_t)agent->config->node_count;
    hf_event_put(&agent->table, ring, event);
}

/* (!) A user who loses leases on purpose, or a node that says that keys are missing, pushes out the losses of nobody else. */
static void event_put_loss(struct agent *agent, struct hf_event *event)
{
    bool of_node = event->kind == HF_EVENT_VOTE_VOID;

    if ((!of_node && !losses_at_will((enum hf_loss_reason)event->reason)) ||
        share_take(&agent->loss_shares,
                   share_of(&agent->loss_shares, of_node ? UINT32_MAX - event->node : event->uid),
                   SHARE_BURST, SHARE_EACH, (hf_time){event->at_ns}))
        event_put(agent, HF_EVENTS_LOSSES, event);
}

/* --- leases ----------------------------------------------------------------------------------- */

static int64_t event_shown(hf_time valid)
{
    return valid.ns > 0 && valid.ns < HF_TIME_NEVER.ns ? valid.ns : 0;
}

/* The nodes whose vote stands beyond `at`. */
static uint16_t event_voting_of(const hf_time *d, int n, hf_time at)
{
    unsigned voting = 0;

    for (int i = 0; i < n; i++)
        if (hf_time_before(at, d[i]))
            voting |= 1u << i;
    return (uint16_t)voting;
}

/* HF_TIME_NEVER: beyond the q-th vote; the stored V may be a little before it. */
static uint16_t event_voting_at(const struct lease_fsm *fsm, hf_time at)
{
    hf_time d[HF_NODES_MAX];

    for (int i = 0; i < fsm->n; i++)
        d[i] = lease_fsm_d(fsm, i);
    if (at.ns == HF_TIME_NEVER.ns)
        at = servers_validity(fsm->servers, d, lease_fsm_timing(fsm).span, fsm->n, fsm->q);
    return event_voting_of(d, fsm->n, at);
}

static struct hf_event event_of_holder(const struct agent *agent, const struct lease *lease,
                                       enum hf_event_kind kind, hf_time now)
{
    struct hf_event event = {
        .kind = (uint8_t)kind,
        .node = HF_EVENT_NO_NODE,
        .flags = lease->is_job ? HF_EVENT_F_JOB : 0,
        .at_ns = now.ns,
        .fence = lease->fence,
        .slot = lease->slot,
        .generation = lease->generation,
        .pid = lease->pid,
        .uid = lease->uid,
    };

    hf_event_name(&agent->table, &event, lease_name(lease), lease->name_len);
    return event;
}

static struct hf_event event_of_lease(const struct agent *agent, const struct lease *lease,
                                      enum hf_event_kind kind)
{
    const struct lease_fsm *fsm = &lease->fsm;
    hf_time now = clock_now();
    struct hf_event event = event_of_holder(agent, lease, kind, now);

    event.valid_before_ns = event_shown(fsm->valid);
    event.valid_ns =
        fsm->state == HF_SLOT_LOST && hf_time_before(now, fsm->valid) ? 0 : event.valid_before_ns;
    event.voting = event_voting_at(fsm, now);
    return event;
}

void event_granted(struct agent *agent, const struct lease *lease, hf_dur waited)
{
    struct hf_event event = event_of_lease(agent, lease, HF_EVENT_GRANTED);

    event.valid_before_ns = 0;
    event.value = hf_dur_ms(waited);
    event_put(agent, HF_EVENTS_GRANTS, &event);
}

void event_released(struct agent *agent, const struct lease *lease)
{
    struct hf_event event = event_of_lease(agent, lease, HF_EVENT_RELEASED);

    event.reason = (uint8_t)lease->fsm.reason;
    event.value = hf_dur_ms(hf_time_since((hf_time){event.at_ns}, lease->since));
    event_put(agent, HF_EVENTS_GRANTS, &event);
}

void event_skipped(struct agent *agent, const struct lease *lease, int64_t ago_ms)
{
    /* The lease is the renewal thread's: its validity is not read here. */
    struct hf_event event = event_of_holder(agent, lease, HF_EVENT_SKIPPED, clock_now());

    event.value = ago_ms;
    event_put(agent, HF_EVENTS_GRANTS, &event);
}

void event_found_lost(struct agent *agent, const struct lease *lease, enum hf_loss_reason reason)
{
    struct hf_event event = event_of_lease(agent, lease, HF_EVENT_FOUND_LOST);

    event.reason = (uint8_t)reason;
    event.value = hf_dur_ms(hf_time_since((hf_time){event.at_ns}, lease->since));
    event_put(agent, HF_EVENTS_GRANTS, &event);
}

void event_taken_over(struct agent *agent, const struct lease *lease, hf_time valid,
                      uint16_t voting, hf_dur waited)
{
    struct hf_event event = event_of_holder(agent, lease, HF_EVENT_GRANTED, clock_now());

    event.flags |= HF_EVENT_F_HANDED_OVER;
    event.valid_before_ns = event.valid_ns = event_shown(valid);
    event.voting = voting;
    event.value = hf_dur_ms(waited);
    event_put(agent, HF_EVENTS_GRANTS, &event);
}

void event_readopted(struct agent *agent, const struct lease *lease)
{
    struct hf_event event = event_of_lease(agent, lease, HF_EVENT_READOPTED);

    event_put(agent, HF_EVENTS_GRANTS, &event);
}

void event_forced(struct agent *agent, const void *name, size_t name_len, uint64_t fence,
                  uint32_t pid, uint32_t uid, int nodes)
{
    struct hf_event event = {.kind = HF_EVENT_FORCED,
                             .node = HF_EVENT_NO_NODE,
                             .at_ns = clock_now().ns,
                             .fence = fence,
                             .pid = pid,
                             .uid = uid,
                             .value = nodes};

    hf_event_name(&agent->table, &event, name, name_len);
    event_put(agent, HF_EVENTS_GRANTS, &event);
}

void event_denied(struct agent *agent, enum right right, const void *name, size_t name_len,
                  uint32_t pid, uint32_t uid)
{
    struct hf_event event = {.kind = HF_EVENT_DENIED,
                             .node = HF_EVENT_NO_NODE,
                             .at_ns = clock_now().ns,
                             .pid = pid,
                             .uid = uid,
                             .value = right};

    hf_event_name(&agent->table, &event, name, name_len);
    event_put(agent, HF_EVENTS_GRANTS, &event);
}

/* Whether the earlier agent told the end of that lease before its own end. */
static bool event_end_is_told(const struct agent *agent, uint32_t slot, uint32_t generation,
                              uint64_t fence)
{
    static const enum hf_event_ring rings[] = {HF_EVENTS_LOSSES, HF_EVENTS_ENDS, HF_EVENTS_GRANTS};

    for (size_t k = 0; k < sizeof(rings) / sizeof(rings[0]); k++)
        for (uint64_t i = hf_events_written(&agent->table, rings[k]);
             i > hf_events_oldest(&agent->table, rings[k]); i--) {
            struct hf_event event;

            if (hf_event_read(&agent->table, rings[k], i - 1, &event) == HF_OK &&
                event.slot == slot && event.generation == generation && event.fence == fence &&
                (event.kind == HF_EVENT_LOST || event.kind == HF_EVENT_RELEASED))
                return true;
        }
    return false;
}

void event_not_readopted(struct agent *agent, uint32_t slot, const struct journal_identity *id,
                         const struct journal_lease *state, enum hf_event_kind kind,
                         enum hf_loss_reason reason)
{
    int n = agent->config->node_count;
    hf_time now = clock_now(), valid = validity_qth(state->d, n, n / 2 + 1);
    struct hf_event event = {
        .kind = (uint8_t)kind,
        .node = HF_EVENT_NO_NODE,
        .reason = (uint8_t)reason,
        .flags = id->who.is_job ? HF_EVENT_F_JOB : 0,
        .at_ns = now.ns,
        .valid_before_ns = event_shown(valid),
        .valid_ns = event_shown(valid),
        .fence = state->fence,
        .value = (now.ns - id->who.since.ns) / HF_NS_PER_MS,
        .slot = slot,
        .generation = state->generation,
        .pid = id->who.pid,
        .uid = id->who.uid,
        .voting = event_voting_of(state->d, n, now),
    };

    if (event_end_is_told(agent, slot, state->generation, state->fence))
        return;
    if (kind == HF_EVENT_LOST)
        losses_count(&agent->table, reason);
    hf_event_name(&agent->table, &event, id->name, id->name_len);
    event_put(agent, kind == HF_EVENT_LOST ? HF_EVENTS_LOSSES : HF_EVENTS_ENDS, &event);
}

/* --- findings of the renewal thread ----------------------------------------------------------- */

struct lease_before lease_before(const struct lease *lease, int node, enum hf_loss_reason finding)
{
    return (struct lease_before){
        .valid = lease->fsm.valid,
        .state = lease->fsm.state,
        .node = node,
        .vote = node >= 0 ? lease_fsm_d(&lease->fsm, node) : HF_TIME_PAST,
        .finding = finding,
    };
}

static bool event_is_void(hf_time vote)
{
    return vote.ns == HF_TIME_PAST.ns;
}

static void event_put_vote(struct agent *agent, const struct lease *lease,
                           const struct lease_before *before, enum hf_event_kind kind)
{
    struct hf_event event = event_of_lease(agent, lease, kind);

    hf_assert(before->node >= 0 && before->node < lease->nodes, "slot %u, node %d of %d",
              (unsigned)lease->slot, before->node, lease->nodes);
    event.node = (uint8_t)before->node;
    event.reason = (uint8_t)before->finding;
    event.valid_before_ns = event_shown(before->valid);
    if (kind == HF_EVENT_VOTE_VOID)
        event_put_loss(agent, &event);
    else
        event_put(agent, HF_EVENTS_ENDS, &event);
}

/* A vote that had lapsed by itself is no voided vote. */
static void event_tell_vote(struct agent *agent, const struct lease *lease,
                            const struct lease_before *before)
{
    hf_time vote = before->node >= 0 ? lease_fsm_d(&lease->fsm, before->node) : HF_TIME_PAST;

    if (before->node < 0 || event_is_void(vote) == event_is_void(before->vote))
        return;
    if (!event_is_void(vote))
        event_put_vote(agent, lease, before, HF_EVENT_VOTE);
    else if (hf_time_before(clock_now(), before->vote))
        event_put_vote(agent, lease, before, HF_EVENT_VOTE_VOID);
}

static enum hf_event_kind event_kind_of(const struct lease_fsm *fsm)
{
    switch (fsm->state) {
    case HF_SLOT_LATE:
        return HF_EVENT_LATE;
    case HF_SLOT_HELD:
        return HF_EVENT_ON_TIME;
    case HF_SLOT_LOSING:
        return HF_EVENT_LOSING;
    case HF_SLOT_LOST:
        return HF_EVENT_LOST;
    case HF_SLOT_ENDED:
        return HF_EVENT_RELEASED;
    case HF_SLOT_FREE:
        break;
    }
    return HF_EVENT_NONE;
}

/* The few holders that were asked to stop last: a lease has no room for that. */
static void event_remember_asker(struct agent *agent, const struct lease *lease, struct asker by)
{
    agent->asked[agent->asked_next++ % HF_LENGTH(agent->asked)] =
        (struct asked){lease->slot, lease->generation, by};
}

static void event_name_asker(const struct agent *agent, const struct lease *lease,
                             struct hf_event *event)
{
    for (size_t i = 0; event->reason == HF_LOSS_ASKED && i < HF_LENGTH(agent->asked); i++)
        if (agent->asked[i].slot == lease->slot &&
            agent->asked[i].generation == lease->generation) {
            event->by_pid = agent->asked[i].by.pid;
            event->by_uid = agent->asked[i].by.uid;
        }
}

static void event_tell_state(struct agent *agent, struct lease *lease,
                             const struct lease_before *before)
{
    const struct lease_fsm *fsm = &lease->fsm;
    enum hf_event_kind kind = event_kind_of(fsm);
    struct hf_event event = event_of_lease(agent, lease, kind);
    bool often = kind == HF_EVENT_ON_TIME || kind == HF_EVENT_RELEASED;

    hf_assert(kind != HF_EVENT_NONE, "slot %u, state %d", (unsigned)lease->slot, (int)fsm->state);
    event.reason = (uint8_t)fsm->reason;
    if (kind == HF_EVENT_LATE)
        event.reason = before->finding ? (uint8_t)before->finding : HF_LOSS_QUORUM;
    if (event.reason == HF_LOSS_QUORUM && kind != HF_EVENT_LOST)
        event.voting =
            event_voting_at(fsm, HF_TIME_NEVER); /* the others should have been renewed by now */
    if (before->finding && event.reason == before->finding)
        lease->blamed = before->node;
    if (lease->blamed >= 0 && !often)
        event.node = (uint8_t)lease->blamed;
    if (kind == HF_EVENT_LOSING && before->by.pid)
        event_remember_asker(agent, lease, before->by);
    event_name_asker(agent, lease, &event);
    event.valid_before_ns = event_shown(before->valid);
    if (kind == HF_EVENT_LOST || kind == HF_EVENT_RELEASED)
        event.value = hf_dur_ms(hf_time_since((hf_time){event.at_ns}, lease->since));
    if (often)
        event_put(agent, HF_EVENTS_ENDS, &event);
    else
        event_put_loss(agent, &event);
}

void events_of_lease(struct agent *agent, struct lease *lease, const struct lease_before *before)
{
    event_tell_vote(agent, lease, before);
    if (lease->fsm.state != before->state)
        event_tell_state(agent, lease, before);
}

void event_healed(struct agent *agent, const struct lease *lease, const struct lease_before *before)
{
    event_put_vote(agent, lease, before, HF_EVENT_HEALED);
}

uint16_t event_handed_over(struct agent *agent, const struct lease *lease,
                           enum hf_loss_reason reason)
{
    struct hf_event event = event_of_lease(agent, lease, HF_EVENT_RELEASED);

    event.flags |= HF_EVENT_F_HANDED_OVER;
    event.reason = (uint8_t)reason;
    event.value = hf_dur_ms(hf_time_since((hf_time){event.at_ns}, lease->since));
    event_put(agent, HF_EVENTS_ENDS, &event);
    return event.voting;
}

void event_abandoned(struct agent *agent, const struct lease *lease)
{
    struct hf_event event = event_of_lease(agent, lease, HF_EVENT_ABANDONED);

    event.reason = HF_LOSS_HOLDER;
    event_put_loss(agent, &event);
}

void event_job(struct agent *agent, struct lease *lease, enum hf_event_kind kind)
{
    bool stopped = kind == HF_EVENT_JOB_STOPPED;
    struct hf_event event = event_of_lease(agent, lease, kind);

    if (stopped ? lease->job_stopped : lease->job_killed)
        return;
    lease->job_stopped |= stopped;
    lease->job_killed |= !stopped;
    event.reason = (uint8_t)lease->fsm.reason;
    event_put_loss(agent, &event);
}

/* --- the agent and its nodes ------------------------------------------------------------------ */

static struct hf_event event_of_node(int node, enum hf_event_kind kind, unsigned reason,
                                     const char *text)
{
    struct hf_event event = {
        .kind = (uint8_t)kind,
        .node = node < 0 ? HF_EVENT_NO_NODE : (uint8_t)node,
        .reason = (uint8_t)reason,
        .at_ns = clock_now().ns,
    };

    event.text_len = (uint8_t)strnlen(text, HF_EVENT_TEXT);
    memcpy(event.text, text, event.text_len);
    if (text[event.text_len]) {
        hf_text_cut((char *)event.text, sizeof(event.text));
        event.text_len = (uint8_t)strlen((char *)event.text);
    }
    return event;
}

static void event_put_node(struct agent *agent, int node, enum hf_event_kind kind, unsigned reason,
                           const char *text)
{
    struct hf_event event = event_of_node(node, kind, reason, text);

    /* (!) A node that comes and goes does not push out what is told of the agent and of the other nodes. */
    if (node < 0 || share_take(&agent->node_shares, (unsigned)node, NODE_BURST, NODE_EACH,
                               (hf_time){event.at_ns}))
        event_put(agent, HF_EVENTS_NODES, &event);
}

void event_agent_started(struct agent *agent)
{
    struct hf_event event = event_of_node(-1, HF_EVENT_AGENT_STARTED, 0, HOLDFAST_VERSION);

    event.pid = (uint32_t)getpid();
    event.value = agent->warm;
    event_put(agent, HF_EVENTS_NODES, &event);
}

void event_agent_ending(struct agent *agent)
{
    struct hf_event event = event_of_node(-1, HF_EVENT_AGENT_ENDING, 0, "");

    event.pid = (uint32_t)getpid();
    event_put(agent, HF_EVENTS_NODES, &event);
}

void event_reload(struct agent *agent, bool applied, const char *text)
{
    event_put_node(agent, -1, applied ? HF_EVENT_RELOADED : HF_EVENT_RELOAD_REFUSED, 0, text);
}

void event_drained(struct agent *agent, bool drained, uint32_t pid, uint32_t uid)
{
    struct hf_event event =
        event_of_node(-1, drained ? HF_EVENT_DRAINED : HF_EVENT_UNDRAINED, 0, "");

    event.pid = pid;
    event.uid = uid;
    event_put(agent, HF_EVENTS_NODES, &event);
}

void event_fleet(struct agent *agent, enum hf_fleet_step step, uint64_t version, const char *host,
                 uint32_t uid)
{
    struct hf_event event = event_of_node(-1, HF_EVENT_FLEET, step, host);

    event.value = (int64_t)version;
    event.uid = uid;
    event_put(agent, HF_EVENTS_NODES, &event);
}

void event_agent_away(struct agent *agent, hf_dur gap)
{
    struct hf_event event = event_of_node(-1, HF_EVENT_AGENT_AWAY, 0, "");

    event.value = hf_dur_ms(gap);
    event_put(agent, HF_EVENTS_LOSSES, &event);
}

void event_node_place(struct agent *agent, int place, const char *id)
{
    event_put_node(agent, place, HF_EVENT_NODE_PLACE, 0, id);
}

void event_node_up(struct agent *agent, int node, const char *version)
{
    event_put_node(agent, node, HF_EVENT_NODE_UP, 0, version);
}

void event_node_down(struct agent *agent, int node, enum hf_node_error error, const char *text)
{
    event_put_node(agent, node, HF_EVENT_NODE_DOWN, error, text);
}

void event_node_refused(struct agent *agent, int node, enum hf_node_refusal refusal,
                        const char *text)
{
    event_put_node(agent, node,
                   refusal == HF_REFUSED_NOT ? HF_EVENT_NODE_ACCEPTED : HF_EVENT_NODE_REFUSED,
                   refusal, text);
}

void event_node_writes(struct agent *agent, int node, enum hf_node_error error, const char *text)
{
    bool refused = error != HF_NODE_ERR_NONE;

    event_put_node(agent, node, refused ? HF_EVENT_NODE_UNWRITABLE : HF_EVENT_NODE_WRITABLE, error,
                   refused ? text : "");
}

void event_node_restarted(struct agent *agent, int node, const char *run_id)
{
    event_put_node(agent, node, HF_EVENT_NODE_RESTARTED, 0, run_id);
}

void event_node_forgot(struct agent *agent, int node)
{
    event_put_node(agent, node, HF_EVENT_NODE_FORGOT, 0, "");
}

void event_node_stepped(struct agent *agent, int node, int64_t step_us)
{
    struct hf_event event = event_of_node(node, HF_EVENT_NODE_STEPPED, 0, "");

    event.value = step_us;
    event_put(agent, HF_EVENTS_NODES, &event);
}

void event_quarantine(struct agent *agent, int node, uint32_t reasons, hf_time until)
{
    struct hf_event event = event_of_node(node, HF_EVENT_QUARANTINE, reasons, "");

    event.valid_ns = event_shown(until);
    event_put(agent, HF_EVENTS_NODES, &event);
}

void event_quarantine_over(struct agent *agent, int node)
{
    event_put_node(agent, node, HF_EVENT_QUARANTINE_OVER, 0, "");
}

/* Going back through the events: where the node of a place was before the fleet changed; -1: nowhere. */
struct place_then {
    int place, next;
    bool changes; /* within the events that tell places */
};

static void event_go_back(struct place_then *p, const struct hf_event *event, const char *id)
{
    if (event->kind != HF_EVENT_NODE_PLACE) {
        if (p->changes)
            p->place = p->next;
        p->changes = false;
        return;
    }
    if (!p->changes)
        p->next = p->place;
    p->changes = true;
    if (strncmp((const char *)event->text, id, hf_event_text_kept(event) + 1) == 0)
        p->next = event->node;
    else if (p->next == p->place && event->node == p->place)
        p->next = -1;
}

bool event_quarantine_stands(const struct agent *agent, int node)
{
    const struct hf_table *table = &agent->table;
    struct place_then p = {.place = node};

    for (uint64_t i = hf_events_written(table, HF_EVENTS_NODES);
         i > hf_events_oldest(table, HF_EVENTS_NODES); i--) {
        struct hf_event event;

        if (hf_event_read(table, HF_EVENTS_NODES, i - 1, &event) != HF_OK)
            continue;
        event_go_back(&p, &event, agent->config->nodes[node].id);
        if (p.place < 0)
            return false;
        if (event.node == p.place &&
            (event.kind == HF_EVENT_QUARANTINE || event.kind == HF_EVENT_QUARANTINE_OVER))
            return event.kind == HF_EVENT_QUARANTINE;
    }
    return false;
}
