#include "agent/broker/nodes/node_fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/nodes/node_events.h"
#include "agent/broker/nodes/sentinels.h"
#include "agent/config/config_fleet.h"
#include "agent/record/fleet_memory.h"
#include "agent/record/stores.h"
#include "shm/status.h"

#define PUT_PAUSE hf_ms(1000) /* before the record is put again on a node that did not take it */

static void show(struct nodes *nodes, hf_time now);

void node_fleet_begin(struct nodes *nodes)
{
    const struct config *c = nodes->config;
    struct fleet_record own;

    config_fleet(c, &own);
    fleet_init(&nodes->fleet_view, &own, c->new_list, nodes->started);
    if (nodes->agent->fleet)
        fleet_restore(&nodes->fleet_view, nodes->agent->fleet);
    for (int i = 0; i < nodes->n; i++) {
        seat_configure(&nodes->node[i].seat, &c->nodes[i]);
        nodes->node[i].put_again = HF_TIME_PAST;
    }
    nodes->fleet_asked = HF_TIME_PAST;
    show(nodes, nodes->started);
}

void node_fleet_configure(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++)
        seat_configure(&nodes->node[i].seat, &nodes->config->nodes[i]);
}

void node_fleet_up(struct nodes *nodes, int i)
{
    char peer[HF_NODE_TEXT_MAX + 1];

    nodes->node[i].failed = false;
    link_peer(nodes->node[i].link, peer);
    fleet_on_up(&nodes->fleet_view, i, peer);
}

void node_fleet_down(struct nodes *nodes, int i)
{
    nodes->node[i].putting = false;
    nodes->node[i].failed = true;
    fleet_on_down(&nodes->fleet_view, i);
}

/* --- reading ---------------------------------------------------------------------------------- */

void node_fleet_reply(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct fleet *f = &nodes->fleet_view;
    bool counted = fleet_counts(f, i);

    if (fleet_on_answer(f, i, reply->nonce, reply->digest, reply->sent, reply->received) &&
        !reply->record)
        sentinel_reread(nodes, i, reply->received);
    if (fleet_counts(f, i) != counted)
        loop_timer_set(nodes->loop, &nodes->review, reply->received);
}

void node_fleet_read(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct fleet *f = &nodes->fleet_view;

    if (!reply->record)
        return;
    fleet_on_record(f, i, reply->digest, reply->record, reply->record_len);
    if (fleet_counts(f, i) || (!f->known && f->node[i].said == FLEET_SAID_RECORD))
        snprintf(nodes->fleet_by, sizeof(nodes->fleet_by), "%s", reply->record_by);
}

bool node_fleet_objects(const struct nodes *nodes, int i, char *ret_text, size_t size)
{
    return fleet_is_foreign(&nodes->fleet_view, i, ret_text, size);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_done(struct link *link, const struct link_reply *reply, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);

    is_broker_thread();
    if (reply->final)
        nodes->node[i].putting = false;
    nodes_on_reply(nodes, i, reply);
    nodes_on_write(nodes, i, reply,
                   reply->outcome == LINK_ANSWERED && reply->verdict == VERDICT_OK);
    /* A node that refuses writes answers as fast as it is asked. */
    if (reply->outcome != LINK_ANSWERED && reply->error != HF_NODE_ERR_NOSCRIPT)
        nodes->node[i].put_again = hf_time_add(clock_now(), PUT_PAUSE);
    loop_timer_set(nodes->loop, &nodes->review, clock_now());
}

/* (!) With a deadline by the node's clock: a record that was long under way would undo what came after it. */
static bool put(struct nodes *nodes, const struct fleet_action *action, hf_time now)
{
    struct node *node = &nodes->node[action->node];
    hf_time deadline = hf_time_add(now, nodes->config->timing.attempt);
    char text[FLEET_TEXT_SIZE], by[96];
    struct link_fleet fleet = {.nonce = action->nonce, .digest = action->digest, .by = by};
    hf_nodetime high;

    if (!trust_node_time(&node->trust, deadline, &fleet.deadline, &high))
        return false;
    (void)fleet_record_text(&action->record, text);
    fleet.record = text;
    if (nodes->fleet_view.known && nodes->fleet_by[0]) /* who gives it is not who founded it */
        memcpy(by, nodes->fleet_by, sizeof(by));
    else
        snprintf(by, sizeof(by), "%.63s %" PRIu32 " %" PRId64, nodes->agent->host,
                 (uint32_t)getuid(), clock_wall().ms);
    if (link_fleet(node->link, &fleet, deadline, put_done, nodes) != HF_OK)
        return false;
    node->putting = true;
    link_flush(node->link);
    return true;
}

static void tell_renewal(struct nodes *nodes, const struct fleet_record *record)
{
    struct message *m = message_new(MSG_FLEET);

    m->fleet = malloc(sizeof(*m->fleet));
    if (!m->fleet)
        abort(); /* as for messages */
    *m->fleet = *record;
    m->here = nodes->fleet_here;
    mailbox_post(&nodes->agent->to_renewal, m);
}

/* Where the fleet has private seats, its founder's host is the one for which these are its servers. */
static bool is_founder(const struct nodes *nodes)
{
    size_t length = strlen(nodes->agent->host);

    return strncmp(nodes->fleet_by, nodes->agent->host, length) == 0 &&
           nodes->fleet_by[length] == ' ';
}

/* (!) Kept before anything counts by it: an agent never goes back. */
static void adopt(struct nodes *nodes, const struct fleet_record *record)
{
    char text[FLEET_TEXT_SIZE], why[256];
    size_t length = fleet_record_text(record, text);

    if (fleet_memory_keep(nodes->agent->fleet_path, nodes->agent->boot_id, text, length, why,
                          sizeof(why)) < 0) {
        if (!nodes->fleet_unkept)
            log_error("make room, or give this agent its rights: no lock is granted before the "
                      "fleet's record can be kept: %s",
                      why);
        nodes->fleet_unkept = true;
        return;
    }
    nodes->fleet_unkept = false;
    fleet_adopt(&nodes->fleet_view, record);
    log_info("fleet %.8s: %d nodes, version %" PRIu64, record->fleet, record->count,
             record->version);
    nodes->fleet_here |= is_founder(nodes);
    tell_renewal(nodes, record);
}

/* --- seats ------------------------------------------------------------------------------------ */

/* (!) What was learnt of a server that is not the fleet's is forgotten: the one at the seat is met for the first
 * time. */
static void forget_server(struct nodes *nodes, int i)
{
    struct node *node = &nodes->node[i];
    const struct config *c = nodes->config;

    trust_init(&node->trust, timing_quarantine(hf_ms(c->ttl_max_ms)),
               c->assume_fresh || c->ephemeral);
    node_events_begin(nodes, i);
}

static void aim(struct nodes *nodes, int i) IN_BROKER_THREAD
{
    const struct fleet *f = &nodes->fleet_view;
    struct node *node = &nodes->node[i];

    /* Not while it is being connected to: the configuration may lead to the seat by another name. */
    if (!f->known || !(f->node[i].peer[0] || node->failed) ||
        !seat_aim(&node->seat, f->record.seat[i].address, f->node[i].peer, nodes->fleet_here))
        return;
    if (f->node[i].peer[0]) {
        fleet_on_leave(&nodes->fleet_view, i);
        log_warn("node %s is at %s for this fleet, and this host's configuration leads to %s",
                 nodes->config->nodes[i].id, f->record.seat[i].address, f->node[i].peer);
        forget_server(nodes, i);
    } else if (!node_address_same(seat_address(&node->seat), node->seat.configured)) {
        log_info("node %s is looked for at %s, its address for this fleet; this host's "
                 "configuration says %s",
                 nodes->config->nodes[i].id, f->record.seat[i].address,
                 nodes->config->nodes[i].text);
    }
    nodes_reconnect(nodes, i);
}

/* After a start with a memory, a node tells who founded it. */
static void find_founder(struct nodes *nodes)
{
    if (nodes->fleet_here || !nodes->fleet_view.known || !is_founder(nodes))
        return;
    nodes->fleet_here = true;
    tell_renewal(nodes, &nodes->fleet_view.record);
}

/* While no record is known another host may be founding. */
static void look_for_founders(struct nodes *nodes, hf_time now)
{
    if (nodes->fleet_view.known ||
        hf_time_before(now, hf_time_add(nodes->fleet_asked, hf_ns(HF_NS_PER_SEC))))
        return;
    nodes->fleet_asked = now;
    for (int i = 0; i < nodes->n; i++)
        if (nodes->node[i].up && nodes->fleet_view.node[i].nonce[0])
            sentinel_reread(nodes, i, now);
}

/* An empty node gets the record when another member has shown it since: that one is asked now. */
static void ask_members(struct nodes *nodes)
{
    const struct fleet *f = &nodes->fleet_view;
    hf_time empty = HF_TIME_PAST;

    for (int i = 0; f->known && i < nodes->n; i++)
        if (f->node[i].there && f->node[i].said == FLEET_SAID_NONE)
            empty = hf_time_max(empty, f->node[i].empty_since);
    if (empty.ns == HF_TIME_PAST.ns)
        return;
    for (int i = 0; i < nodes->n; i++)
        if (fleet_counts(f, i) && !hf_time_before(empty, f->node[i].asked))
            link_probe_soon(nodes->node[i].link);
}

/* --- the review ------------------------------------------------------------------------------- */

static bool is_usable(const struct node *node)
{
    return node->up && node->trust.contacted &&
           (!node->trust.refused || node->trust.refusal == HF_REFUSED_EVICTION) &&
           !node->fleet_text[0];
}

static enum fleet_word word_of(const struct fleet *f, int i)
{
    const struct fleet_node *node = &f->node[i];
    char text[256];

    if (!node->peer[0])
        return FLEET_WORD_UNKNOWN;
    switch (node->said) {
    case FLEET_SAID_NOTHING:
        break;
    case FLEET_SAID_NONE:
        return FLEET_WORD_NONE;
    case FLEET_SAID_UNREADABLE:
    case FLEET_SAID_LATER:
        return FLEET_WORD_UNREADABLE;
    case FLEET_SAID_RECORD:
        if (f->known && strcmp(node->digest, f->digest) == 0)
            return FLEET_WORD_OURS;
        if (fleet_is_foreign(f, i, text, sizeof(text)))
            return FLEET_WORD_FOREIGN;
        return node->record.state == FLEET_COMPLETE ? FLEET_WORD_OURS : FLEET_WORD_FOUNDING;
    }
    return FLEET_WORD_UNKNOWN;
}

static const char *configured_text(const struct nodes *nodes, int i)
{
    const struct node_address *a = &nodes->config->nodes[i];

    return a->as[0] ? a->as : a->text;
}

/* "HOST UID WALL_MS"; whatever else it is stays unknown. */
static void read_by(const char *by, struct fleet_shown *s)
{
    size_t length = strcspn(by, " ");
    char *end;
    unsigned long uid;

    if (length == 0 || length >= sizeof(s->by_host) || by[length] != ' ')
        return;
    uid = strtoul(by + length + 1, &end, 10);
    if (*end != ' ' || uid > UINT32_MAX)
        return;
    s->since_wall_ms = strtoll(end + 1, NULL, 10);
    s->by_uid = (uint32_t)uid;
    memcpy(s->by_host, by, length);
    s->by_host[length] = '\0';
}

uint32_t node_fleet_flags(const struct nodes *nodes, int i)
{
    const struct fleet *f = &nodes->fleet_view;
    const struct fleet_node *node = &f->node[i];
    uint32_t flags = 0;

    if (node->peer[0] && node->said == FLEET_SAID_NONE)
        flags |= HF_NODE_F_NO_RECORD;
    if (node->peer[0] && !fleet_is_seated(f, i))
        flags |= HF_NODE_F_NOT_SEATED;
    if (f->known && fleet_shown_elsewhere(&nodes->fleet_shown.node[i]))
        flags |= HF_NODE_F_ELSEWHERE;
    return flags;
}

static void show(struct nodes *nodes, hf_time now)
{
    const struct fleet *f = &nodes->fleet_view;
    struct fleet_shown *s = &nodes->fleet_shown;

    memset(s, 0, sizeof(*s));
    s->known = f->known;
    s->record = f->record;
    memcpy(s->digest, f->digest, sizeof(s->digest));
    read_by(nodes->fleet_by, s);
    s->count = nodes->n;
    for (int i = 0; i < nodes->n; i++) {
        struct fleet_shown_node *n = &s->node[i];

        snprintf(n->id, sizeof(n->id), "%s", nodes->config->nodes[i].id);
        if (f->known)
            memcpy(n->seat, f->record.seat[i].address, sizeof(n->seat));
        snprintf(n->configured, sizeof(n->configured), "%s", configured_text(nodes, i));
        memcpy(n->peer, f->node[i].peer, sizeof(n->peer));
        n->word = word_of(f, i);
        n->counts = fleet_counts(f, i);
    }
    fleet_waits(f, now, s->waits, sizeof(s->waits));
    (void)fleet_differs(f, s->differs, sizeof(s->differs));
    fleet_board_show(&nodes->agent->fleet_board, s);
}

void node_fleet_review(struct nodes *nodes, hf_time now)
{
    struct fleet_action action;
    uint32_t busy = 0;

    for (int i = 0; i < nodes->n; i++) {
        fleet_on_usable(&nodes->fleet_view, i, is_usable(&nodes->node[i]),
                        trust_may_vote(&nodes->node[i].trust, now));
        if (nodes->node[i].putting || hf_time_before(now, nodes->node[i].put_again))
            busy |= 1u << i;
        if (fleet_is_unread(&nodes->fleet_view, i))
            sentinel_reread(nodes, i, now);
    }
    for (;;) {
        fleet_next(&nodes->fleet_view, now, busy, &action);
        if (action.step == FLEET_ADOPT) {
            adopt(nodes, &action.record);
            if (nodes->fleet_unkept)
                break;
        } else if (action.step == FLEET_PUT) {
            busy |= 1u << action.node;
            (void)put(nodes, &action, now);
        } else {
            break;
        }
    }
    find_founder(nodes);
    for (int i = 0; i < nodes->n; i++)
        aim(nodes, i);
    look_for_founders(nodes, now);
    ask_members(nodes);
    show(nodes, now);
}
