/* The broker's view of the nodes: its links, what each one's word is worth, and whether a round may
 * begin. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/broker_internal.h"
#include "agent/record/stores.h"
#include "shm/status.h"

/* How long after the start missing nodes are "not there yet" rather than "away". */
#define SETTLING (HF_NS_PER_SEC)

_Static_assert(WRITES_TEXT == sizeof(((struct hf_node_row *)0)->error), "as it is shown");

static struct broker *broker_of(void *arg)
{
    return arg;
}

static void node_publish(struct broker *b, int i, hf_time now)
{
    struct node *node = &b->nodes[i];
    struct node_trust *t = &node->trust;
    struct hf_node_row *row = &node->row;
    hf_time until = trust_until(t, now);

    row->refused = t->refused ? (uint32_t)t->refusal : HF_REFUSED_NOT;
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
    } else if (!nodes_takes_writes(b, i))
        row->state = HF_NODE_UNWRITABLE;
    else
        row->state = HF_NODE_UP;
    if (node->up && !nodes_takes_writes(b, i)) {
        row->error_class = (uint32_t)writes_refused(&node->writes);
        memcpy(row->error, node->writes.text, sizeof(row->error));
    }
    row->clock_steps = t->steps;
    row->flags = (t->facts.durable ? HF_NODE_F_DURABLE : 0) |
                 (t->fresh_word ? HF_NODE_F_ASSUMED_FRESH : 0) |
                 (b->config->dev_nodes ? HF_NODE_F_DEV : 0) |
                 (uint32_t)node->tracking << HF_NODE_F_TRACKING_SHIFT;
    if (t->clock_known) {
        int64_t middle = t->low_us + (t->high_us - t->low_us) / 2;

        row->clock_offset_us = middle + now.ns / HF_NS_PER_US - clock_wall().ms * 1000;
    }
    hf_node_publish(&b->agent->table, (uint32_t)i, row);
}

void nodes_tell_renewal(struct broker *b, int i, unsigned events)
{
    struct message *m = message_new(MSG_TRUST);

    m->node_number = i;
    m->events = events;
    memcpy(m->nonce, b->nodes[i].trust.sentinel.nonce, sizeof(m->nonce));
    broker_tell_renewal(b, m);
}

void nodes_note(struct broker *b, int i, unsigned events, hf_time now)
{
    if (!events)
        return;
    node_events_found(b, i, events);
    if (events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED))
        nodes_tell_renewal(b, i, events & (TRUST_RESTARTED | TRUST_FORGOT | TRUST_STEPPED));
    node_records_put(b->agent->node_records, i, &b->nodes[i].trust);
    loop_timer_set(b->loop, &b->review, now);
}

static void mark_duplicates(struct broker *b)
{
    for (int i = 0; i < b->n; i++) {
        struct node_trust *t = &b->nodes[i].trust;
        bool twin = false;

        if (!t->contacted || (t->refused && t->refusal != HF_REFUSED_DUPLICATE))
            continue;
        for (int j = 0; j < i && !twin; j++)
            twin = b->nodes[j].trust.contacted && b->nodes[j].up &&
                   strcmp(b->nodes[j].trust.facts.run_id, t->facts.run_id) == 0;
        (void)trust_refuse(t, twin ? HF_REFUSED_DUPLICATE : HF_REFUSED_NOT);
    }
}

static void judge_first_contacts(struct broker *b, hf_time now)
{
    const struct node_trust *known[HF_NODES_MAX];
    int count = 0;
    int64_t median;

    for (int i = 0; i < b->n; i++)
        if (b->nodes[i].up && b->nodes[i].trust.clock_known)
            known[count++] = &b->nodes[i].trust;
    if (count < b->q || !trust_median(known, count, now, &median))
        return;
    for (int i = 0; i < b->n; i++) {
        struct node_trust *t = &b->nodes[i].trust;

        if (b->nodes[i].up && t->contacted && t->clock_known && t->sentinel.present && !t->judged) {
            trust_judge(t, median, clock_wall(), now);
            node_records_put(b->agent->node_records, i, t);
        }
    }
}

/* --- link events ------------------------------------------------------------------------------ */

static void node_learn(struct broker *b, int i, const struct node_facts *facts,
                       const struct link_reply *reply)
{
    struct node *node = &b->nodes[i];
    hf_time now = clock_now();
    unsigned events;

    (void)trust_has_word(&node->trust, b->started, now);
    events = trust_on_facts(&node->trust, facts, agent_allowed(b->config), now);
    snprintf(node->row.run_id, sizeof(node->row.run_id), "%s", facts->run_id);
    snprintf(node->row.version, sizeof(node->row.version), "%s", facts->version);
    events |= nodes_on_reply(b, i, reply);
    if (reply->write_tried)
        writes_on_probe(&node->writes, reply->write_error, reply->write_text, now);
    if (reply->outcome == LINK_ANSWERED)
        events |= sentinel_adopt(b, i, reply, now);
    /* At once: a round may begin before the review. */
    mark_duplicates(b);
    nodes_note(b, i, events, now);
    node_records_put(b->agent->node_records, i, &node->trust);
    loop_timer_set(b->loop, &b->review, now);
}

/* The next look at its clock, by what this one left open. */
static void node_sampled(struct broker *b, int i, const struct link_reply *reply)
{
    struct node *node = &b->nodes[i];
    hf_dur ttl = b->config->timing.ttl, widths;

    if (reply->outcome != LINK_ANSWERED)
        return;
    sampling_note(&node->sampling, hf_time_since(reply->received, reply->sent));
    widths = hf_ns(trust_width(&node->trust).ns + sampling_trip(&node->sampling).ns);
    link_set_probe(node->link, sampling_gap(ttl, widths, i));
    node->row.unseen_step_ns = sampling_step(&node->sampling, ttl, i).ns;
}

static void on_up(struct link *link, const struct node_facts *facts, const struct link_reply *reply,
                  void *arg)
{
    struct broker *b = broker_of(arg);
    int i = link_node(link);

    b->nodes[i].up = true;
    writes_reset(&b->nodes[i].writes);
    node_events_up(b, i, facts->version);
    b->nodes[i].row.error_class = HF_NODE_ERR_NONE;
    b->nodes[i].row.error[0] = '\0';
    log_info("node %s is up (%s, version %s)", b->config->nodes[i].id, b->config->nodes[i].text,
             facts->version);
    node_learn(b, i, facts, reply);
    node_sampled(b, i, reply);
    nodes_tell_renewal(b, i, 0);
    releaser_link_up(b->releaser, i);
}

static void on_probed(struct link *link, const struct node_facts *facts,
                      const struct link_reply *reply, void *arg)
{
    node_learn(broker_of(arg), link_node(link), facts, reply);
    node_sampled(broker_of(arg), link_node(link), reply);
}

static void on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    struct broker *b = broker_of(arg);
    int i = link_node(link);
    struct node *node = &b->nodes[i];

    if (node->up || node->row.error_class != (uint32_t)error)
        log_warn("node %s is down: %s: %s", b->config->nodes[i].id, link_error_name(error), text);
    node_events_down(b, i, error, text);
    if (node->up)
        node->row.reconnects++;
    node->up = false;
    node->asking_sentinel = false;
    node->row.error_class = (uint32_t)error;
    snprintf(node->row.error, sizeof(node->row.error), "%s", text);
    loop_timer_set(b->loop, &b->review, loop_now(b->loop));
}

static void on_noticed(struct link *link, const void *key, size_t key_len, void *arg)
{
    wakeups_noticed(broker_of(arg), link_node(link), key, key_len);
}

static void on_tracking(struct link *link, enum hf_node_tracking state, const char *text, void *arg)
{
    struct broker *b = broker_of(arg);
    int i = link_node(link);

    if (state == HF_TRACKING_REFUSED && !b->nodes[i].told.deaf)
        log_warn("node %s does not tell of changes (%s): who waits for another host's locks polls",
                 b->config->nodes[i].id, text);
    b->nodes[i].told.deaf |= state == HF_TRACKING_REFUSED;
    b->nodes[i].tracking = state;
    wakeups_telling(b, i, state == HF_TRACKING_ON);
    loop_timer_set(b->loop, &b->review, loop_now(b->loop));
}

static const struct link_events events = {.up = on_up,
                                          .probed = on_probed,
                                          .down = on_down,
                                          .noticed = on_noticed,
                                          .tracking = on_tracking};

/* --- the review: after every change, and at least every second -------------------------------- */

static void review(struct loop_timer *timer, hf_time now)
{
    struct broker *b = HF_CONTAINER(timer, struct broker, review);
    hf_time next = hf_time_add(now, hf_ns(HF_NS_PER_SEC));

    mark_duplicates(b);
    sentinels_make(b, now);
    sentinels_trace(b, now);
    judge_first_contacts(b, now);
    b->fleet[0] = '\0';
    for (int i = 0; i < b->n; i++) {
        hf_time until;

        trust_tick(&b->nodes[i].trust, clock_wall(), now);
        node_events_review(b, i, now);
        node_publish(b, i, now);
        until = trust_until(&b->nodes[i].trust, now);
        if (hf_time_before(now, until))
            next = hf_time_min(next, until);
        if (b->nodes[i].fleet_text[0] && !b->fleet[0])
            snprintf(b->fleet, sizeof(b->fleet),
                     "%s; all agents of a fleet need the same constants", b->nodes[i].fleet_text);
    }
    broker_review(b, now);
    loop_timer_set(b->loop, &b->review, next);
}

unsigned nodes_on_reply(struct broker *b, int i, const struct link_reply *reply)
{
    struct node *node = &b->nodes[i];
    unsigned seen = 0;

    switch (reply->outcome) {
    case LINK_ANSWERED:
        node->row.replies++;
        node->row.rtt_ns = hf_time_since(reply->received, reply->sent).ns;
        node->row.last_reply_ns = reply->received.ns;
        seen = trust_on_time(&node->trust, reply->node_time, reply->sent, reply->received);
        seen |= trust_on_nonce(&node->trust, reply->nonce, reply->received);
        nodes_note(b, i, seen, reply->received);
        break;
    case LINK_ERROR:
        node->row.errors++;
        node->row.last_reply_ns = reply->received.ns;
        node->row.error_class = (uint32_t)reply->error;
        snprintf(node->row.error, sizeof(node->row.error), "%s", reply->error_text);
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

void nodes_on_write(struct broker *b, int i, const struct link_reply *reply, bool written)
{
    struct node_writes *writes = &b->nodes[i].writes;
    enum hf_node_error before = writes_refused(writes);

    if (written)
        writes_on_lock(writes, HF_NODE_ERR_NONE, "", reply->received);
    else if (reply->outcome == LINK_ERROR)
        writes_on_lock(writes, reply->error, reply->error_text, reply->received);
    if (writes_refused(writes) != before)
        loop_timer_set(b->loop, &b->review, reply->received);
}

void nodes_on_told(struct broker *b, const struct message *m)
{
    hf_time now = clock_now();

    trust_on_told(&b->nodes[m->node_number].trust, m->events, now);
    if (m->events & TRUST_STEPPED)
        trust_owe_trace(&b->nodes[m->node_number].trust, m->nonce);
    node_events_heard(b, m->node_number, m->events);
    if (m->events & TRUST_FORGOT)
        b->nodes[m->node_number].reread = true;
    node_records_put(b->agent->node_records, m->node_number, &b->nodes[m->node_number].trust);
    loop_timer_set(b->loop, &b->review, now);
}

/* --- questions -------------------------------------------------------------------------------- */

bool nodes_may_vote(const struct broker *b, int i, hf_time now)
{
    return b->nodes[i].up && link_is_up(b->nodes[i].link) &&
           trust_may_vote(&b->nodes[i].trust, now);
}

int nodes_voting(const struct broker *b, hf_time now)
{
    int count = 0;

    for (int i = 0; i < b->n; i++)
        count += nodes_may_vote(b, i, now);
    return count;
}

bool nodes_takes_writes(const struct broker *b, int i)
{
    return writes_refused(&b->nodes[i].writes) == HF_NODE_ERR_NONE;
}

int nodes_granting(const struct broker *b, hf_time now)
{
    int count = 0;

    for (int i = 0; i < b->n; i++)
        count += nodes_may_vote(b, i, now) && nodes_takes_writes(b, i);
    return count;
}

int nodes_up(const struct broker *b)
{
    int count = 0;

    for (int i = 0; i < b->n; i++)
        count += b->nodes[i].up;
    return count;
}

bool nodes_settling(const struct broker *b, hf_time now)
{
    if (hf_time_reached(now, hf_time_add(b->started, hf_ns(SETTLING))))
        return false;
    for (int i = 0; i < b->n; i++)
        if (!b->nodes[i].up || !b->nodes[i].trust.judged)
            return true;
    return false;
}

bool nodes_time(const struct broker *b, hf_time now, hf_nodetime *ret_time)
{
    const struct node_trust *known[HF_NODES_MAX];
    int count = 0;
    int64_t median;

    for (int i = 0; i < b->n; i++)
        if (b->nodes[i].trust.clock_known)
            known[count++] = &b->nodes[i].trust;
    if (!count || !trust_median(known, count, now, &median))
        return false;
    *ret_time = (hf_nodetime){median + now.ns / HF_NS_PER_US};
    return true;
}

const char *nodes_fleet_text(const struct broker *b)
{
    return b->fleet;
}

/* --- making and ending ------------------------------------------------------------------------ */

int nodes_create(struct broker *b)
{
    const struct config *c = b->config;
    hf_dur quarantine = timing_quarantine(hf_ms(c->ttl_max_ms));

    b->review.fn = review;
    for (int i = 0; i < b->n; i++) {
        struct node *node = &b->nodes[i];
        bool fresh = c->assume_fresh || c->dev_nodes > 0;
        struct node_trust before;
        struct link_options options = {
            .loop = b->loop,
            .resolver = b->resolver,
            .address = &c->nodes[i],
            .node = i,
            .connect_timeout = hf_dur_max(c->timing.attempt, hf_ms(200)),
            .silence = timing_silence(c->timing.ttl),
            .probe_writes = true,
            .probe = sampling_gap(c->timing.ttl, hf_ns(0), i),
            .events = &events,
            .arg = b,
        };
        int rc;

        trust_init(&node->trust, quarantine, fresh);
        if (stores_known_node(b->agent, i, &before))
            trust_restore(&node->trust, &before, b->started);
        node_events_begin(b, i);
        snprintf(node->row.id, sizeof(node->row.id), "%s", c->nodes[i].id);
        snprintf(node->row.address, sizeof(node->row.address), "%s", c->nodes[i].text);
        rc = link_create(&options, &node->link);
        if (rc < 0)
            return rc;
        b->links[i] = node->link;
        node_publish(b, i, b->started);
    }
    return HF_OK;
}

void nodes_start(struct broker *b)
{
    if (b->n % 2 == 0)
        log_warn("%d nodes: an even number survives no more failures than %d would; use an odd one",
                 b->n, b->n - 1);

    for (int i = 0; i < b->n; i++)
        link_start(b->nodes[i].link);
    loop_timer_set(b->loop, &b->review, b->started);
}

void nodes_destroy(struct broker *b)
{
    for (int i = 0; i < b->n; i++)
        link_destroy(b->nodes[i].link);
}
