/* The broker's view of the nodes: its links, each node's trust, and whether a round may
 * begin. */
#include "agent/broker/nodes/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread_role.h"
#include "agent/broker/nodes/node_events.h"
#include "agent/broker/nodes/node_fleet.h"
#include "agent/broker/nodes/node_fleet_shown.h"
#include "agent/broker/nodes/node_known.h"
#include "agent/broker/nodes/sentinels.h"
#include "agent/core/ballot.h"
#include "agent/record/stores.h"
#include "shm/assert.h"
#include "shm/status.h"
#include "shm/text_cut.h"

/* How long after the agent's start missing nodes are "not there yet" rather than "away". */
#define SETTLING (HF_NS_PER_SEC)

_Static_assert(WRITES_TEXT == sizeof(((struct hf_node_row *)0)->error), "as it is shown");

static void put_error(struct hf_node_row *row, enum hf_node_error error, const char *text)
{
    row->error_class = (uint32_t)error;
    snprintf(row->error, sizeof(row->error), "%s", text);
    hf_text_cut(row->error, sizeof(row->error));
}

static void node_publish(struct nodes *nodes, int i, hf_time now) IN_BROKER_THREAD
{
    struct node *node = &nodes->node[i];
    struct node_trust *t = &node->trust;
    struct hf_node_row *row = &node->row;
    hf_time until = trust_until(t, now);

    row->refused = t->refused              ? (uint32_t)t->refusal
                   : nodes->twins >> i & 1 ? HF_REFUSED_DUPLICATE
                                           : HF_REFUSED_NOT;
    row->unwritable_since_ns =
        writes_refused(&node->writes) != HF_NODE_ERR_NONE ? node->writes.since.ns : 0;
    row->quarantine_reason = 0;
    row->quarantine_until_ns = 0;
    if (!node->up)
        row->state = row->last_reply_ns == 0 && row->error_class == HF_NODE_ERR_NONE
                         ? HF_NODE_CONNECTING
                         : HF_NODE_DOWN;
    else if (t->refused)
        row->state = HF_NODE_REFUSED;
    else if (!trust_may_vote(t, now)) {
        row->state = HF_NODE_QUARANTINED;
        row->quarantine_reason = t->reasons;
        row->quarantine_until_ns = until.ns > now.ns && until.ns < HF_TIME_NEVER.ns ? until.ns : 0;
    } else if (!nodes_takes_writes(nodes, i))
        row->state = HF_NODE_UNWRITABLE;
    else
        row->state = HF_NODE_UP;
    if (node->up && !nodes_takes_writes(nodes, i)) {
        row->error_class = (uint32_t)writes_refused(&node->writes);
        memcpy(row->error, node->writes.text, sizeof(row->error));
    }
    row->clock_steps = t->steps;
    row->flags = (t->fresh_word ? HF_NODE_F_ASSUMED_FRESH : 0) |
                 (nodes->config->ephemeral ? HF_NODE_F_DEV : 0) |
                 (uint32_t)node->tracking << HF_NODE_F_TRACKING_SHIFT | node_fleet_flags(nodes, i);
    if (t->clock_known) {
        int64_t middle = t->low_us + (t->high_us - t->low_us) / 2;

        row->clock_offset_us = middle + now.ns / HF_NS_PER_US - clock_wall().ms * 1000;
    }
    hf_node_publish(&nodes->agent->table, (uint32_t)i, row);
}

void nodes_tell_renewal(struct nodes *nodes, int i, unsigned events)
{
    struct message *m = message_new(MSG_TRUST);

    hf_assert(i >= 0 && i < nodes->n, "node %d of %d", i, nodes->n);
    m->node_number = i;
    m->events = events;
    memcpy(m->nonce, nodes->node[i].trust.sentinel.nonce, sizeof(m->nonce));
    memcpy(m->run_id, nodes->servers.node[i].run_id, sizeof(m->run_id));
    mailbox_post(&nodes->agent->to_renewal, m);
}

void nodes_note(struct nodes *nodes, int i, unsigned events, hf_time now)
{
    hf_assert(i >= 0 && i < nodes->n, "node %d of %d", i, nodes->n);
    if (!events)
        return;
    if (node_known_is_it(nodes, i))
        node_events_found(nodes, i, events);
    if (events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED))
        nodes_tell_renewal(nodes, i, events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED));
    node_known_keep(nodes, i);
    loop_timer_set(nodes->loop, &nodes->review, now);
}

static void say_twins(const struct nodes *nodes, int one, int other)
{
    log_warn(
        "node %s (%s) says that it is the same server as node %s (%s), and both have one vote "
        "together; list each server once, or, if these are two servers, stop the one that lies",
        nodes->config->nodes[other].id, seat_address(&nodes->node[other].seat)->text,
        nodes->config->nodes[one].id, seat_address(&nodes->node[one].seat)->text);
}

/* (!) None of them is refused: nobody can know which one lies. */
static void find_twins(struct nodes *nodes)
{
    uint32_t before = nodes->twins;

    nodes->twins = 0;
    for (int i = 0; i < nodes->n; i++) {
        int twin = servers_twin(&nodes->servers, i);

        if (twin < 0 || !nodes->node[i].up || !nodes->node[twin].up)
            continue;
        nodes->twins |= UINT32_C(1) << i;
        if (twin < i && !(before >> i & 1))
            say_twins(nodes, twin, i);
    }
}

/* trust_median() of the nodes that are up, or of all that have ever told their TIME. */
static int median_of(const struct nodes *nodes, bool up, hf_time now,
                     const struct node_trust **ret_nodes, int64_t *ret_median_us)
{
    for (int i = 0; i < nodes->n; i++)
        ret_nodes[i] = up && !nodes->node[i].up ? NULL : &nodes->node[i].trust;
    return trust_median(ret_nodes, nodes->n, clock_wall(), now, ret_median_us);
}

static void judge_first_contacts(struct nodes *nodes, hf_time now)
{
    const struct node_trust *up[HF_NODES_MAX];
    int64_t median;

    if (median_of(nodes, true, now, up, &median) < nodes->q)
        return;
    for (int i = 0; i < nodes->n; i++) {
        struct node_trust *t = &nodes->node[i].trust;

        if (nodes->node[i].up && t->contacted && t->clock_known && t->sentinel.present &&
            !t->judged) {
            trust_judge(t, median, clock_wall(), now);
            node_known_keep(nodes, i);
        }
    }
}

/* --- link events ------------------------------------------------------------------------------ */

static void node_learn(struct nodes *nodes, int i, const struct node_facts *facts,
                       const struct link_reply *reply) IN_BROKER_THREAD
{
    struct node *node = &nodes->node[i];
    hf_time now = clock_now();
    unsigned events;

    (void)trust_has_word(&node->trust, nodes->started, now);
    events = trust_on_facts(&node->trust, facts, agent_allowed(nodes->config), now);
    fleet_on_server(&nodes->fleet_view, i, facts->run_id);
    snprintf(node->row.run_id, sizeof(node->row.run_id), "%s", facts->run_id);
    snprintf(node->row.version, sizeof(node->row.version), "%s", facts->version);
    events |= nodes_on_reply(nodes, i, reply);
    if (reply->write_tried)
        writes_on_probe(&node->writes, reply->write_error, reply->write_text, now);
    if (reply->outcome == LINK_ANSWERED) {
        node_fleet_read(nodes, i, reply);
        events |= sentinel_adopt(nodes, i, reply, now);
    }
    servers_on_run_id(&nodes->servers, i, facts->run_id,
                      timing_age(hf_ms(nodes->config->ttl_longest_ms)), now);
    nodes_note(nodes, i, events, now);
    node_known_keep(nodes, i);
    loop_timer_set(nodes->loop, &nodes->review, now);
}

/* How long after a sample of its clock the next one is due, by what the last one left open. */
static hf_dur node_gap(const struct nodes *nodes, int i)
{
    const struct node *node = &nodes->node[i];

    return sampling_gap(nodes->config->timing.ttl,
                        hf_ns(trust_width(&node->trust).ns + sampling_trip(&node->sampling).ns), i);
}

static void node_sampled(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct node *node = &nodes->node[i];

    if (reply->outcome != LINK_ANSWERED)
        return;
    sampling_note(&node->sampling, hf_time_since(reply->received, reply->sent));
    link_set_probe(node->link, node_gap(nodes, i));
    node->row.unseen_step_ns = sampling_step(&node->sampling, nodes->config->timing.ttl, i).ns;
}

/* Whether a line tells that the node came or went: of one that does so all the time, two in a minute. */
static bool may_say(struct nodes *nodes, int i, hf_time now)
{
    return share_take(&nodes->comings, (unsigned)i, 64, hf_ms(30000), now);
}

static void on_up(struct link *link, const struct node_facts *facts, const struct link_reply *reply,
                  void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);

    is_broker_thread();
    nodes->node[i].up = true;
    node_fleet_up(nodes, i);
    writes_reset(&nodes->node[i].writes);
    node_events_up(nodes, i, facts->version);
    nodes->node[i].row.error_class = HF_NODE_ERR_NONE;
    nodes->node[i].row.error[0] = '\0';
    if (may_say(nodes, i, clock_now()))
        log_info("node %s is up (%s, version %s)", nodes->config->nodes[i].id,
                 seat_address(&nodes->node[i].seat)->text, facts->version);
    node_learn(nodes, i, facts, reply);
    node_sampled(nodes, i, reply);
    nodes_tell_renewal(nodes, i, 0);
    releaser_link_up(nodes->releaser, i);
}

static void on_probed(struct link *link, const struct node_facts *facts,
                      const struct link_reply *reply, void *arg)
{
    is_broker_thread();
    node_learn(arg, link_node(link), facts, reply);
    node_sampled(arg, link_node(link), reply);
}

static void on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);
    struct node *node = &nodes->node[i];

    is_broker_thread();
    if ((node->up || node->row.error_class != (uint32_t)error) && may_say(nodes, i, clock_now()))
        log_warn("node %s is down: %s: %s", nodes->config->nodes[i].id, link_error_name(error),
                 text);
    node_events_down(nodes, i, error, text);
    if (node->up)
        node->row.reconnects++;
    node->up = false;
    node->asking_sentinel = false;
    node_fleet_down(nodes, i);
    put_error(&node->row, error, text);
    loop_timer_set(nodes->loop, &nodes->review, loop_now(nodes->loop));
}

static void on_noticed(struct link *link, const void *key, size_t key_len, void *arg)
{
    struct nodes *nodes = arg;

    nodes->owner.noticed(nodes->owner.arg, link_node(link), key, key_len);
}

static void on_tracking(struct link *link, enum hf_node_tracking state, const char *text, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);

    if (state == HF_TRACKING_REFUSED && !nodes->node[i].told.deaf)
        log_warn("node %s does not tell of changed keys (%s): waiters for other hosts' locks poll",
                 nodes->config->nodes[i].id, text);
    nodes->node[i].told.deaf |= state == HF_TRACKING_REFUSED;
    nodes->node[i].tracking = state;
    nodes->owner.telling(nodes->owner.arg, i, state == HF_TRACKING_ON);
    loop_timer_set(nodes->loop, &nodes->review, loop_now(nodes->loop));
}

static const struct link_events events = {.up = on_up,
                                          .probed = on_probed,
                                          .down = on_down,
                                          .noticed = on_noticed,
                                          .tracking = on_tracking};

/* --- the review: after every change, and at least every second -------------------------------- */

/* The fleet is known, so one node's difference is its own; or --reset-fleet is about to end it. */
static bool is_settled(const struct nodes *nodes, int i)
{
    return nodes->fleet_view.known || (nodes->config->reset_fleet && !nodes->node[i].replaced);
}

#define FLEET_REMEDY 64
static const char remedy[] = "; all agents of a fleet need the same constants";
_Static_assert(sizeof(remedy) <= FLEET_REMEDY, "it fits");

static void review(struct loop_timer *timer, hf_time now)
{
    struct nodes *nodes = HF_CONTAINER(timer, struct nodes, review);
    hf_time next = hf_time_add(now, hf_ns(HF_NS_PER_SEC));

    is_broker_thread();
    find_twins(nodes);
    sentinels_make(nodes, now);
    sentinels_trace(nodes, now);
    judge_first_contacts(nodes, now);
    node_fleet_review(nodes, now);
    sentinels_judge(nodes);
    if (fleet_differs(&nodes->fleet_view, nodes->fleet, sizeof(nodes->fleet) - FLEET_REMEDY))
        strcat(nodes->fleet, remedy);
    for (int i = 0; i < nodes->n; i++) {
        hf_time until;

        trust_tick(&nodes->node[i].trust, clock_wall(), now);
        node_events_review(nodes, i, now);
        node_publish(nodes, i, now);
        until = trust_until(&nodes->node[i].trust, now);
        if (hf_time_before(now, until))
            next = hf_time_min(next, until);
        if (nodes->node[i].fleet_text[0] && !nodes->fleet[0] && !is_settled(nodes, i))
            snprintf(nodes->fleet, sizeof(nodes->fleet), "%s%s", nodes->node[i].fleet_text,
                     fleet_misplaced(&nodes->fleet_view, i) >= 0 ? "" : remedy);
    }
    if (nodes->fleet_view.leaving)
        nodes->fleet[0] = '\0'; /* the record that this agent starts again by will tell */
    if (nodes->fleet_view.leaving && hf_time_before(now, nodes->fleet_ends))
        next = hf_time_min(next, nodes->fleet_ends);
    nodes->owner.reviewed(nodes->owner.arg, now);
    loop_timer_set(nodes->loop, &nodes->review, next);
}

unsigned nodes_on_reply(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct node *node = &nodes->node[i];
    unsigned seen = 0;

    hf_assert(i >= 0 && i < nodes->n, "node %d of %d", i, nodes->n);
    hf_assert(hf_time_reached(reply->received, reply->sent), "node %d, sent %lld, received %lld", i,
              (long long)reply->sent.ns, (long long)reply->received.ns);
    switch (reply->outcome) {
    case LINK_ANSWERED:
        node->row.replies++;
        node->row.rtt_ns = hf_time_since(reply->received, reply->sent).ns;
        node->row.last_reply_ns = reply->received.ns;
        seen = trust_on_time(&node->trust, reply->node_time, reply->sent, reply->received);
        seen |= trust_on_nonce(&node->trust, reply->nonce, reply->received);
        node_fleet_reply(nodes, i, reply);
        nodes_note(nodes, i, seen, reply->received);
        break;
    case LINK_ERROR:
        node->row.errors++;
        node->row.last_reply_ns = reply->received.ns;
        put_error(&node->row, reply->error, reply->error_text);
        break;
    case LINK_TIMEOUT:
        node->row.timeouts++;
        break;
    case LINK_BROKEN:
    case LINK_NOT_SENT:
        break;
    }
    return seen;
}

void nodes_on_write(struct nodes *nodes, int i, const struct link_reply *reply, bool written)
{
    struct node_writes *writes = &nodes->node[i].writes;
    enum hf_node_error before = writes_refused(writes);

    if (written)
        writes_on_lock(writes, HF_NODE_ERR_NONE, "", reply->received);
    else if (reply->outcome == LINK_ERROR)
        writes_on_lock(writes, reply->error, reply->error_text, reply->received);
    if (writes_refused(writes) != before)
        loop_timer_set(nodes->loop, &nodes->review, reply->received);
}

void nodes_on_told(struct nodes *nodes, const struct message *m)
{
    hf_time now = clock_now();

    trust_on_told(&nodes->node[m->node_number].trust, m->events, now);
    if (m->events & TRUST_STEPPED)
        trust_owe_trace(&nodes->node[m->node_number].trust, m->nonce);
    node_events_heard(nodes, m->node_number, m->events);
    if (m->events & TRUST_FORGOT)
        nodes->node[m->node_number].reread = true;
    node_records_put(nodes->agent->node_records, m->node_number,
                     &nodes->node[m->node_number].trust);
    loop_timer_set(nodes->loop, &nodes->review, now);
}

/* --- questions -------------------------------------------------------------------------------- */

bool nodes_may_vote(const struct nodes *nodes, int i, hf_time now)
{
    return !nodes->fleet_view.leaving && nodes->node[i].up && link_is_up(nodes->node[i].link) &&
           trust_may_vote(&nodes->node[i].trust, now) && fleet_counts(&nodes->fleet_view, i);
}

/* (!) Not what a node says that may have forgotten. */
static bool release_counts(int node, const struct link_reply *reply, void *owner)
{
    const struct nodes *nodes = owner;

    is_broker_thread();
    return nodes_may_vote(nodes, node, clock_now()) &&
           strcmp(reply->nonce, nodes->node[node].trust.sentinel.nonce) == 0;
}

int nodes_voting(const struct nodes *nodes, hf_time now)
{
    uint32_t voting = 0;

    for (int i = 0; i < nodes->n; i++)
        if (nodes_may_vote(nodes, i, now))
            voting |= UINT32_C(1) << i;
    return servers_count(&nodes->servers, voting);
}

bool nodes_takes_writes(const struct nodes *nodes, int i)
{
    return writes_refused(&nodes->node[i].writes) == HF_NODE_ERR_NONE;
}

int nodes_granting(const struct nodes *nodes, hf_time now)
{
    uint32_t granting = 0;

    for (int i = 0; i < nodes->n; i++)
        if (nodes_may_vote(nodes, i, now) && nodes_takes_writes(nodes, i))
            granting |= UINT32_C(1) << i;
    return servers_count(&nodes->servers, granting);
}

int nodes_up(const struct nodes *nodes)
{
    int count = 0;

    for (int i = 0; i < nodes->n; i++)
        count += nodes->node[i].up;
    return count;
}

/* By a record of a fleet that changes: it is up, and is told of it just now. */
static bool is_being_told(const struct nodes *nodes, int i)
{
    const struct config *c = nodes->config;

    return c->by_record && c->counting >> i & 1 && !fleet_counts(&nodes->fleet_view, i);
}

bool nodes_settling(const struct nodes *nodes, hf_time now)
{
    if (nodes->fleet_view.leaving)
        return true;
    if (hf_time_reached(now, hf_time_add(nodes->started, hf_ns(SETTLING))))
        return false;
    for (int i = 0; i < nodes->n; i++)
        if (!nodes->node[i].up || !nodes->node[i].trust.judged || is_being_told(nodes, i))
            return true;
    return false;
}

bool nodes_time(const struct nodes *nodes, hf_time now, hf_nodetime *ret_time)
{
    const struct node_trust *known[HF_NODES_MAX];
    int64_t median;

    if (median_of(nodes, false, now, known, &median) == 0)
        return false;
    *ret_time = (hf_nodetime){median + now.ns / HF_NS_PER_US};
    return true;
}

uint32_t nodes_agree(const struct nodes *nodes, hf_dur most, hf_time now, hf_nodetime *ret_time,
                     int *ret_farthest, int64_t *ret_ahead_us)
{
    const struct node_trust *up[HF_NODES_MAX];
    int64_t median;

    if (median_of(nodes, true, now, up, &median) == 0)
        return 0;
    *ret_time = (hf_nodetime){median + now.ns / HF_NS_PER_US};
    return trust_near(up, nodes->n, median, most, ret_farthest, ret_ahead_us);
}

const char *nodes_fleet_text(const struct nodes *nodes)
{
    return nodes->fleet;
}

/* --- start and end ---------------------------------------------------------------------------- */

static struct link_options options_of(struct nodes *nodes, int i, hf_dur probe)
{
    const struct config *c = nodes->config;

    return (struct link_options){
        .loop = nodes->loop,
        .address = seat_address(&nodes->node[i].seat),
        .node = i,
        .connect_timeout = hf_dur_max(c->timing.attempt, hf_ms(200)),
        .silence = timing_silence(c->timing.ttl),
        .probe_writes = true,
        .probe = probe,
        .events = &events,
        .arg = nodes,
    };
}

static void show_address(struct nodes *nodes, int i)
{
    char *address = nodes->node[i].row.address;

    snprintf(address, sizeof(nodes->node[i].row.address), "%s",
             seat_address(&nodes->node[i].seat)->text);
}

static int node_create(struct nodes *nodes, int i,
                       struct resolver *resolver) BEFORE_OR_AFTER_THREADS
{
    const struct config *c = nodes->config;
    struct node *node = &nodes->node[i];
    struct link_options options;
    int rc;

    node_known_meet(nodes, i, nodes->started);
    snprintf(node->row.id, sizeof(node->row.id), "%s", c->nodes[i].id);
    show_address(nodes, i);
    options = options_of(nodes, i, sampling_gap(c->timing.ttl, hf_ns(0), i));
    options.resolver = resolver;
    rc = link_create(&options, &node->link);
    if (rc < 0)
        return rc;
    nodes->links[i] = node->link;
    node_publish(nodes, i, nodes->started);
    return HF_OK;
}

int nodes_create(struct agent *agent, struct loop *loop, struct resolver *resolver,
                 const struct nodes_owner *owner, struct nodes **ret_nodes)
{
    struct nodes *nodes = calloc(1, sizeof(*nodes));
    int rc = HF_OK;

    if (!nodes)
        return HF_ENOMEM;
    nodes->agent = agent;
    nodes->config = agent->config;
    nodes->loop = loop;
    nodes->owner = *owner;
    nodes->n = agent->config->node_count;
    nodes->q = agent->config->quorum;
    nodes->started = clock_now();
    nodes->review.fn = review;
    node_fleet_begin(nodes);
    for (int i = 0; rc == HF_OK && i < nodes->n; i++)
        rc = node_create(nodes, i, resolver);
    if (rc == HF_OK)
        rc = releaser_create(loop, nodes->links, &nodes->servers, nodes->n, nodes->q,
                             release_counts, nodes, &nodes->releaser);
    if (rc < 0) {
        nodes_end(nodes);
        nodes_destroy(nodes);
        return rc;
    }
    *ret_nodes = nodes;
    return HF_OK;
}

void nodes_configure(struct nodes *nodes, const struct config *config)
{
    bool shorter = config->timing.ttl.ns < nodes->config->timing.ttl.ns;

    nodes->config = config;
    node_fleet_configure(nodes);
    for (int i = 0; i < nodes->n; i++) {
        const struct link_options options = options_of(nodes, i, node_gap(nodes, i));

        link_configure(nodes->node[i].link, &options);
        if (shorter) /* its clock may step by less than before (agent/core/sampling.h) */
            link_probe_soon(nodes->node[i].link);
        show_address(nodes, i);
    }
    loop_timer_set(nodes->loop, &nodes->review, clock_now());
}

void nodes_reconnect(struct nodes *nodes, int i)
{
    const struct link_options options = options_of(nodes, i, node_gap(nodes, i));

    link_configure(nodes->node[i].link, &options);
    show_address(nodes, i);
}

void nodes_start(struct nodes *nodes)
{
    if (nodes->n % 2 == 0)
        log_warn("use an odd number of nodes: %d survive no more failures than %d would", nodes->n,
                 nodes->n - 1);

    for (int i = 0; i < nodes->n; i++)
        link_start(nodes->node[i].link);
    loop_timer_set(nodes->loop, &nodes->review, nodes->started);
}

void nodes_send(struct nodes *nodes)
{
    releaser_flush(nodes->releaser);
    for (int i = 0; i < nodes->n; i++)
        if (nodes->unsent >> i & 1)
            link_flush(nodes->links[i]);
    nodes->unsent = 0;
}

void nodes_end(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        if (nodes->node[i].link)
            link_destroy(nodes->node[i].link);
    loop_timer_cancel(nodes->loop, &nodes->review);
    releaser_destroy(nodes->releaser);
    nodes->releaser = NULL;
}

void nodes_destroy(struct nodes *nodes)
{
    free(nodes);
}
