#include "agent/broker/nodes/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/thread.h"
#include "agent/broker/nodes/node_fleet.h"
#include "shm/status.h"

/* --- link events ------------------------------------------------------------------------------ */

static void review_learn(struct nodes *nodes, int i, const struct node_facts *facts,
                         const struct link_reply *reply) IN_BROKER_THREAD
{
    struct node *node = &nodes->node[i];
    hf_time now = clock_now();
    unsigned events;

    (void)trust_has_word(&node->trust, nodes->started, now);
    events = trust_on_facts(&node->trust, facts, agent_allowed(nodes->config), now);
    fleet_on_server(&nodes->fleet_view, i, facts->run_id, now);
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

static void review_sample(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct node *node = &nodes->node[i];

    if (reply->outcome != LINK_ANSWERED)
        return;
    sampling_note(&node->sampling, hf_time_since(reply->received, reply->sent));
    link_set_probe(node->link, nodes_probe_gap(nodes, i));
    node->row.unseen_step_ns = sampling_step(&node->sampling, nodes->config->timing.ttl, i).ns;
}

/* Whether a line tells that the node came or went: of one that does so all the time, two in a minute. */
static bool review_may_say(struct nodes *nodes, int i, hf_time now)
{
    return share_take(&nodes->comings, (unsigned)i, 64, hf_ms(30000), now);
}

static void review_on_up(struct link *link, const struct node_facts *facts,
                         const struct link_reply *reply, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);

    ASSERT_BROKER_THREAD();
    nodes->node[i].up = true;
    node_fleet_up(nodes, i);
    writes_reset(&nodes->node[i].writes);
    node_events_up(nodes, i, facts->version);
    nodes->node[i].row.error_class = HF_NODE_ERR_NONE;
    nodes->node[i].row.error[0] = '\0';
    if (review_may_say(nodes, i, clock_now()))
        log_info("node %s is up (%s, version %s)", nodes->config->nodes[i].id,
                 seat_address(&nodes->node[i].seat)->text, facts->version);
    review_learn(nodes, i, facts, reply);
    review_sample(nodes, i, reply);
    nodes_tell_renewal(nodes, i, 0);
    key_deleter_link_up(nodes->key_deleter, i);
}

static void review_on_probed(struct link *link, const struct node_facts *facts,
                             const struct link_reply *reply, void *arg)
{
    ASSERT_BROKER_THREAD();
    review_learn(arg, link_node(link), facts, reply);
    review_sample(arg, link_node(link), reply);
}

static void review_on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);
    struct node *node = &nodes->node[i];

    ASSERT_BROKER_THREAD();
    if ((node->up || node->row.error_class != (uint32_t)error) &&
        review_may_say(nodes, i, clock_now()))
        log_warn("node %s is down: %s: %s", nodes->config->nodes[i].id, link_error_name(error),
                 text);
    node_events_down(nodes, i, error, text);
    if (node->up)
        node->row.reconnects++;
    node->up = false;
    node->asking_sentinel = false;
    node_fleet_down(nodes, i);
    nodes_show_error(&node->row, error, text);
    loop_timer_set(nodes->loop, &nodes->review, loop_now(nodes->loop));
}

static void review_on_noticed(struct link *link, const void *key, size_t key_len, void *arg)
{
    struct nodes *nodes = arg;

    nodes->owner.noticed(nodes->owner.arg, link_node(link), key, key_len);
}

static void review_on_tracking(struct link *link, enum hf_node_tracking state, const char *text,
                               void *arg)
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

static const struct link_events events = {.up = review_on_up,
                                          .probed = review_on_probed,
                                          .down = review_on_down,
                                          .noticed = review_on_noticed,
                                          .tracking = review_on_tracking};

/* --- the review: after every change, and at least every second -------------------------------- */

static void review_publish(struct nodes *nodes, int i, hf_time now) IN_BROKER_THREAD
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

static void review_say_twins(const struct nodes *nodes, int one, int other)
{
    log_warn(
        "node %s (%s) says that it is the same server as node %s (%s), and both have one vote "
        "together; list each server once, or, if these are two servers, stop the one that lies",
        nodes->config->nodes[other].id, seat_address(&nodes->node[other].seat)->text,
        nodes->config->nodes[one].id, seat_address(&nodes->node[one].seat)->text);
}

/* (!) None of them is refused: nobody can know which one lies. */
static void review_find_twins(struct nodes *nodes)
{
    uint32_t before = nodes->twins;

    nodes->twins = 0;
    for (int i = 0; i < nodes->n; i++) {
        int twin = servers_twin(&nodes->servers, i);

        if (twin < 0 || !nodes->node[i].up || !nodes->node[twin].up)
            continue;
        nodes->twins |= UINT32_C(1) << i;
        if (twin < i && !(before >> i & 1))
            review_say_twins(nodes, twin, i);
    }
}

static void review_first_contacts(struct nodes *nodes, hf_time now) IN_BROKER_THREAD
{
    const struct node_trust *up[HF_NODES_MAX];
    int64_t median;

    if (nodes_median(nodes, true, now, up, &median) < nodes->q)
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

/* The fleet is known, so one node's difference is its own; or --reset-fleet is about to end it. */
static bool review_is_settled(const struct nodes *nodes, int i)
{
    return nodes->fleet_view.known || (nodes->config->reset_fleet && !nodes->node[i].replaced);
}

#define FLEET_REMEDY 64
static const char remedy[] = "; all agents of a fleet need the same constants";
_Static_assert(sizeof(remedy) <= FLEET_REMEDY, "it fits");

static void review_all(struct loop_timer *timer, hf_time now)
{
    struct nodes *nodes = HF_CONTAINER(timer, struct nodes, review);
    hf_time next = hf_time_add(now, hf_ns(HF_NS_PER_SEC));

    ASSERT_BROKER_THREAD();
    review_find_twins(nodes);
    sentinels_make(nodes, now);
    sentinels_trace(nodes, now);
    review_first_contacts(nodes, now);
    node_fleet_review(nodes, now);
    sentinels_judge(nodes);
    if (fleet_differs(&nodes->fleet_view, nodes->fleet, sizeof(nodes->fleet) - FLEET_REMEDY))
        strcat(nodes->fleet, remedy);
    for (int i = 0; i < nodes->n; i++) {
        hf_time until;

        trust_tick(&nodes->node[i].trust, clock_wall(), now);
        node_events_review(nodes, i, now);
        review_publish(nodes, i, now);
        until = trust_until(&nodes->node[i].trust, now);
        if (hf_time_before(now, until))
            next = hf_time_min(next, until);
        if (nodes->node[i].fleet_text[0] && !nodes->fleet[0] && !review_is_settled(nodes, i))
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

/* --- start and end ---------------------------------------------------------------------------- */

/* (!) Not what a node says that may have forgotten. */
static bool review_release_counts(int node, const struct link_reply *reply, void *owner)
{
    const struct nodes *nodes = owner;

    ASSERT_BROKER_THREAD();
    return nodes_may_vote(nodes, node, clock_now()) &&
           strcmp(reply->nonce, nodes->node[node].trust.sentinel.nonce) == 0;
}

static void review_on_release_refused(int node, const struct link_reply *reply, void *owner)
{
    ASSERT_BROKER_THREAD();
    nodes_on_release_refused(owner, node, reply ? reply->error : HF_NODE_ERR_NONE,
                             reply ? reply->error_text : "");
}

static int review_create_node(struct nodes *nodes, int i,
                              struct resolver *resolver) BEFORE_OR_AFTER_THREADS
{
    const struct config *c = nodes->config;
    struct node *node = &nodes->node[i];
    struct link_options options;
    int rc;

    node_known_meet(nodes, i, nodes->started);
    snprintf(node->row.id, sizeof(node->row.id), "%s", c->nodes[i].id);
    nodes_show_address(nodes, i);
    options = nodes_link_options(nodes, i, sampling_gap(c->timing.ttl, hf_ns(0), i));
    options.resolver = resolver;
    rc = link_create(&options, &node->link);
    if (rc < 0)
        return rc;
    nodes->links[i] = node->link;
    review_publish(nodes, i, nodes->started);
    return HF_OK;
}

int nodes_create(struct agent *agent, struct loop *loop, struct resolver *resolver,
                 const struct nodes_owner *owner, struct nodes **ret_nodes)
{
    struct nodes *nodes = calloc(1, sizeof(*nodes));
    const struct key_deleter_owner releases = {
        .counts = review_release_counts, .refused = review_on_release_refused, .arg = nodes};
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
    nodes->review.fn = review_all;
    nodes->link_events = &events;
    node_fleet_begin(nodes);
    for (int i = 0; rc == HF_OK && i < nodes->n; i++)
        rc = review_create_node(nodes, i, resolver);
    if (rc == HF_OK)
        rc = key_deleter_create(loop, nodes->links, &nodes->servers, nodes->n, nodes->q, &releases,
                                &nodes->key_deleter);
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
        const struct link_options options = nodes_link_options(nodes, i, nodes_probe_gap(nodes, i));

        link_configure(nodes->node[i].link, &options);
        if (shorter) /* its clock may step by less than before (agent/core/timing.h) */
            link_probe_soon(nodes->node[i].link);
        nodes_show_address(nodes, i);
    }
    loop_timer_set(nodes->loop, &nodes->review, clock_now());
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

void nodes_end(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        if (nodes->node[i].link)
            link_shut(nodes->node[i].link);
    for (int i = 0; i < nodes->n; i++)
        link_destroy(nodes->node[i].link);
    loop_timer_cancel(nodes->loop, &nodes->review);
    key_deleter_destroy(nodes->key_deleter);
    nodes->key_deleter = NULL;
}

void nodes_destroy(struct nodes *nodes)
{
    free(nodes);
}
