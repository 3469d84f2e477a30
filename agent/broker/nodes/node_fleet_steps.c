#include "agent/broker/nodes/node_fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/core/ballot.h"
#include "agent/state/journal_layout.h"
#include "agent/state/events.h"
#include "agent/state/fleet_memory.h"
#include "agent/state/stores.h"
#include "shm/status.h"

#define WISH_MOST    hf_ms(5000) /* before an operator's change that nobody took is dropped */
#define PUT_PAUSE    hf_ms(1000) /* before the record is put again on a node that did not take it */
#define PUTS_AT_ONCE 16 /* on one node; then one after each pause: it takes them, and shows none */
#define LAST_ANSWERS hf_ms(100) /* before the agent starts again by another record */

/* --- writing ---------------------------------------------------------------------------------- */

static void steps_on_put(struct link *link, const struct link_reply *reply, void *arg)
{
    struct nodes *nodes = arg;
    int i = link_node(link);
    bool taken = reply->outcome == LINK_ANSWERED && reply->verdict == VERDICT_OK;

    ASSERT_BROKER_THREAD();
    if (reply->final)
        nodes->node[i].putting = false;
    nodes_on_reply(nodes, i, reply);
    nodes_on_write(nodes, i, reply, taken);
    if (reply->final && reply->error != HF_NODE_ERR_NOSCRIPT)
        fleet_on_put(&nodes->fleet_view, i, reply->outcome == LINK_ERROR, taken);
    /* A node that refuses writes answers as fast as it is asked. */
    if (reply->outcome != LINK_ANSWERED && reply->error != HF_NODE_ERR_NOSCRIPT)
        nodes->node[i].put_again = hf_time_add(clock_now(), PUT_PAUSE);
    loop_timer_set(nodes->loop, &nodes->review, clock_now());
}

/* (!) With a deadline by the node's clock: a record that was long under way would undo what came after it. */
static bool steps_put(struct nodes *nodes, const struct fleet_action *action, hf_time now)
{
    struct node *node = &nodes->node[action->node];
    hf_time deadline = hf_time_add(now, nodes->config->timing.attempt);
    char text[FLEET_TEXT_SIZE], by[96];
    struct link_fleet fleet = {
        .nonce = action->nonce, .digest = action->digest, .by = by, .sure = action->sure};
    hf_nodetime high;

    if (!trust_node_time(&node->trust, deadline, &fleet.deadline, &high))
        return false;
    (void)fleet_record_text(&action->record, text);
    fleet.record = text;
    if (nodes->fleet_view.known && action->record.version == nodes->fleet_view.record.version)
        memcpy(by, nodes->fleet_by, sizeof(by)); /* who gives it is not who put it first */
    else
        snprintf(by, sizeof(by), "%.63s %" PRIu32 " %" PRId64 "%s", nodes->agent->host,
                 nodes->fleet_view.known ? nodes->fleet_uid : (uint32_t)getuid(), clock_wall().ms,
                 nodes->fleet_back ? NODE_AUTHOR_BACK : "");
    if (link_fleet(node->link, &fleet, deadline, steps_on_put, nodes) != HF_OK)
        return false;
    node->putting = true;
    link_flush(node->link);
    return true;
}

static void steps_tell_renewal(struct nodes *nodes, const struct fleet_record *record)
{
    struct message *m = message_new(MSG_FLEET);

    m->fleet = malloc(sizeof(*m->fleet));
    if (!m->fleet)
        abort(); /* as for messages */
    *m->fleet = *record;
    m->here = nodes->fleet_here;
    mailbox_post(&nodes->agent->to_renewal, m);
}

/* Where the fleet has private seats, its founder's host is the one for which these are its servers. A later version is of who
 * changed the fleet. (!) One node's word sends no link to such a seat. */
static bool steps_is_founder(const struct nodes *nodes, const struct fleet_record *record)
{
    const struct fleet *f = &nodes->fleet_view;
    size_t length = strlen(nodes->agent->host);
    uint32_t founded = 0;

    for (int i = 0; record->version == 1 && i < nodes->n; i++) {
        const char *by = nodes->node[i].record_by;

        if (f->node[i].said == FLEET_SAID_RECORD &&
            strcmp(f->node[i].record.fleet, record->fleet) == 0 &&
            strncmp(by, nodes->agent->host, length) == 0 && by[length] == ' ')
            founded |= UINT32_C(1) << i;
    }
    return fleet_servers(f, founded) >= ballot_quorum(nodes->n);
}

/* For people: who put it, as a node says that has it. */
static void steps_find_author(struct nodes *nodes, const struct fleet_record *record)
{
    for (int i = 0; i < nodes->n; i++)
        if (nodes->fleet_view.node[i].said == FLEET_SAID_RECORD &&
            fleet_record_is_same(&nodes->fleet_view.node[i].record, record))
            memcpy(nodes->fleet_by, nodes->node[i].record_by, sizeof(nodes->fleet_by));
}

/* The nodes of which journal and node records are: the next agent may have others. */
static void steps_list_nodes(const struct nodes *nodes, const struct fleet_record *record,
                             struct fleet_memory *memory)
{
    const struct fleet *f = &nodes->fleet_view;

    if (record->version == 1)
        return; /* they are the record's */
    memory->list_count = nodes->n;
    for (int i = 0; i < nodes->n; i++) {
        struct fleet_seat *seat = &memory->list[i];

        snprintf(seat->id, sizeof(seat->id), "%s", nodes->config->nodes[i].id);
        snprintf(seat->address, sizeof(seat->address), "%s",
                 f->known ? fleet_place(f, i)->address : f->node[i].peer);
    }
}

/* Where journal and records are; "": nothing is kept. */
static void steps_dir(const struct nodes *nodes, char ret_dir[600])
{
    char *end;

    snprintf(ret_dir, 600, "%s", nodes->agent->fleet_path);
    end = strrchr(ret_dir, '/');
    ret_dir[end ? end - ret_dir : 0] = '\0';
}

/* (!) Before the record is kept: the start by it carries the journal over, and must not fail for want of room. */
static int steps_make_room(const struct nodes *nodes, const struct fleet_record *record,
                           const struct fleet_memory *memory, char *why, size_t size)
{
    const struct fleet_seat *seats;
    struct list_change change;
    char dir[600];
    int count = fleet_record_list(record, &seats);

    steps_dir(nodes, dir);
    if (!*dir || !memory->list_count ||
        !list_change_find(&change, memory->list, memory->list_count, seats, count))
        return HF_OK;
    return carry_room_take(dir, count, why, size);
}

static int steps_write_down(const struct nodes *nodes, const struct fleet_record *record,
                            hf_time from, char *why, size_t size)
{
    struct fleet_memory *memory = calloc(1, sizeof(*memory));
    int rc;

    if (!memory) {
        snprintf(why, size, "no memory");
        return HF_ENOMEM;
    }
    memory->here = nodes->fleet_here;
    memcpy(memory->went_by, nodes->agent->config->file_hash, sizeof(memory->went_by));
    memcpy(memory->by, nodes->fleet_by, sizeof(memory->by));
    memory->from = from;
    memory->length = fleet_record_text(record, memory->text);
    steps_list_nodes(nodes, record, memory);
    rc = steps_make_room(nodes, record, memory, why, size);
    if (rc == HF_OK)
        rc = fleet_memory_keep(nodes->agent->fleet_path, &nodes->agent->clock, memory, why, size);
    free(memory);
    return rc;
}

/* (!) Kept before anything counts by it: an agent never goes back. */
static bool steps_keep(struct nodes *nodes, const struct fleet_record *record, hf_time from)
{
    char why[256];

    if (steps_write_down(nodes, record, from, why, sizeof(why)) < 0) {
        if (!nodes->fleet_view.unkept)
            log_error("make room, or give this agent its rights: no lock is granted before the "
                      "fleet's record can be kept: %s",
                      why);
        nodes->fleet_view.unkept = true;
    } else {
        nodes->fleet_view.unkept = false;
    }
    return !nodes->fleet_view.unkept;
}

static void steps_tell_history(struct nodes *nodes, enum hf_fleet_step step,
                               const struct fleet_record *record)
{
    const struct node_author by = node_author_read(nodes->fleet_by);

    event_fleet(nodes->agent, step, record->version, by.host, by.uid);
}

static void steps_adopt(struct nodes *nodes, const struct fleet_record *record, hf_time now)
{
    steps_find_author(nodes, record);
    nodes->fleet_here |= steps_is_founder(nodes, record);
    if (!steps_keep(nodes, record, now))
        return;
    fleet_adopt(&nodes->fleet_view, record);
    log_info("fleet %.8s: %d nodes, version %" PRIu64, record->fleet, record->count,
             record->version);
    steps_tell_history(nodes, HF_FLEET_COMPLETE, record);
    steps_tell_renewal(nodes, record);
}

/* Rounds under way end with this agent's run, and what a server that leaves has told does not count in the next one. No
 * round begins from here on, so that the last answers to those before come in: a lease that was granted without the answer
 * of a node that stays would be lost. */
static void steps_begin_again(struct nodes *nodes, const struct fleet_record *record, hf_time now)
{
    const struct fleet *f = &nodes->fleet_view;
    bool settled = f->known && fleet_record_rank(record, &f->record) == 0;

    steps_find_author(nodes, record);
    if (!steps_keep(nodes, record, settled ? nodes->agent->fleet_from : now))
        return;
    log_info("fleet %.8s: version %" PRIu64 " %s; starting again by it", record->fleet,
             record->version,
             settled                           ? "has settled"
             : record->state == FLEET_COMPLETE ? "is complete"
                                               : "is on its way");
    steps_tell_history(nodes,
                       settled                           ? HF_FLEET_SETTLED
                       : record->state == FLEET_COMPLETE ? HF_FLEET_COMPLETE
                                                         : HF_FLEET_CHANGING,
                       record);
    nodes->agent->fleet_shown = node_known_shown(nodes);
    fleet_leave(&nodes->fleet_view);
    nodes->fleet_ends = hf_time_add(now, LAST_ANSWERS);
}

/* --- seats ------------------------------------------------------------------------------------ */

static void steps_aim(struct nodes *nodes, int i, hf_time now) IN_BROKER_THREAD
{
    const struct fleet *f = &nodes->fleet_view;
    struct node *node = &nodes->node[i];

    /* Not while it is being connected to: the configuration may lead to the seat by another name. */
    if (!f->known || !(f->node[i].peer[0] || node->failed) ||
        !seat_aim(&node->seat, fleet_place(f, i)->address, f->node[i].peer, nodes->fleet_here))
        return;
    if (f->node[i].peer[0]) {
        fleet_on_leave(&nodes->fleet_view, i);
        log_warn("node %s is at %s for this fleet, and this host's configuration leads to %s",
                 nodes->config->nodes[i].id, fleet_place(f, i)->address, f->node[i].peer);
        /* (!) What was learnt of a server that is not the fleet's is forgotten. */
        node_known_meet(nodes, i, now);
    } else if (!node_address_same(seat_address(&node->seat), node->seat.configured)) {
        log_info("node %s is looked for at %s, its address for this fleet; this host's "
                 "configuration says %s",
                 nodes->config->nodes[i].id, fleet_place(f, i)->address,
                 nodes->config->nodes[i].text);
    }
    nodes_reconnect(nodes, i);
}

/* After a start with a memory, a node tells who founded it. */
static void steps_find_founder(struct nodes *nodes)
{
    if (nodes->fleet_here || !nodes->fleet_view.known ||
        !steps_is_founder(nodes, &nodes->fleet_view.record))
        return;
    nodes->fleet_here = true;
    steps_tell_renewal(nodes, &nodes->fleet_view.record);
}

/* While no record is known another host may be founding. */
static void steps_look_for_founders(struct nodes *nodes, hf_time now)
{
    if (nodes->fleet_view.known ||
        hf_time_before(now, hf_time_add(nodes->fleet_asked, hf_ns(HF_NS_PER_SEC))))
        return;
    nodes->fleet_asked = now;
    for (int i = 0; i < nodes->n; i++)
        if (nodes->node[i].up && nodes->fleet_view.node[i].nonce[0])
            sentinel_reread(nodes, i, now);
}

/* What the next answer of some nodes decides is asked for now. */
static void steps_ask_members(struct nodes *nodes)
{
    uint32_t which = fleet_awaits(&nodes->fleet_view);

    for (int i = 0; i < nodes->n; i++)
        if (which >> i & 1)
            link_probe_soon(nodes->node[i].link);
}

/* --- the review ------------------------------------------------------------------------------- */

static bool steps_is_usable(const struct node *node)
{
    return node->up && node->trust.contacted &&
           (!node->trust.refused || node->trust.refusal == HF_REFUSED_EVICTION) &&
           !node->fleet_text[0];
}

/* (!) A private address that only the record names is another host's server here: no record is put there. */
static bool steps_may_be_another(const struct nodes *nodes, int i)
{
    const struct fleet *f = &nodes->fleet_view;

    return f->known && nodes->config->unconfigured >> i & 1 && !nodes->fleet_here &&
           node_address_seat_is_private(fleet_place(f, i)->address);
}

/* (!) The next agent has to know whom this one was sure of: it would be sure of nobody. */
static void steps_settle_doubts(struct nodes *nodes, hf_time now)
{
    fleet_settle_doubts(&nodes->fleet_view, now);
    for (int i = 0; i < nodes->n; i++)
        if (strcmp(nodes->fleet_view.node[i].sure, nodes->node[i].trust.sure) != 0)
            node_known_keep(nodes, i);
}

/* (!) A node that takes the record and never shows it is given it again, for somebody may have emptied it, but not as fast as it
 * answers. */
static bool steps_may_put(struct nodes *nodes, int i, hf_time now)
{
    struct node *node = &nodes->node[i];
    bool may = bucket_take(&node->puts_paid, PUT_PAUSE, PUTS_AT_ONCE, now);
    char text[160];

    if (may || node->forgetful)
        return may;
    node->forgetful = true;
    snprintf(text, sizeof(text),
             "it takes the fleet's record and does not show it; see who answers at %.60s",
             seat_address(&node->seat)->text);
    log_warn("node %s: %s", nodes->config->nodes[i].id, text);
    nodes_show_error(&node->row, HF_NODE_ERR_OTHER, text);
    return false;
}

void node_fleet_review(struct nodes *nodes, hf_time now)
{
    struct fleet_action action;
    uint32_t busy = 0;

    for (int i = 0; i < nodes->n; i++) {
        fleet_on_usable(&nodes->fleet_view, i, steps_is_usable(&nodes->node[i]),
                        trust_may_vote(&nodes->node[i].trust, now));
        if (fleet_counts(&nodes->fleet_view, i))
            nodes->node[i].forgetful = false;
        if (nodes->node[i].trust.reasons)
            fleet_on_young(&nodes->fleet_view, i);
        if (nodes->node[i].putting || hf_time_before(now, nodes->node[i].put_again) ||
            steps_may_be_another(nodes, i))
            busy |= 1u << i;
        if (fleet_is_unread(&nodes->fleet_view, i))
            sentinel_reread(nodes, i, now);
    }
    if (nodes->fleet_view.leaving && hf_time_reached(now, nodes->fleet_ends))
        atomic_store_explicit(&nodes->agent->again, true, memory_order_release);
    for (;;) {
        steps_settle_doubts(nodes, now);
        fleet_next(&nodes->fleet_view, now, busy, &action);
        if (action.step == FLEET_ADOPT) {
            steps_adopt(nodes, &action.record, now);
            if (nodes->fleet_view.unkept)
                break;
        } else if (action.step == FLEET_AGAIN) {
            steps_begin_again(nodes, &action.record, now);
            break;
        } else if (action.step == FLEET_PUT) {
            busy |= 1u << action.node;
            if (steps_may_put(nodes, action.node, now))
                (void)steps_put(nodes, &action, now);
        } else {
            break;
        }
    }
    steps_find_founder(nodes);
    for (int i = 0; i < nodes->n; i++)
        steps_aim(nodes, i, now);
    steps_look_for_founders(nodes, now);
    steps_ask_members(nodes);
    node_fleet_show(nodes, now);
}

/* --- an operator's change ----------------------------------------------------------------------- */

/* Of the list that the wish leads to, and of the way there: one node more at the most. */
static int steps_try_room(const struct nodes *nodes, const struct fleet_wish *wish, char *why,
                          size_t size)
{
    bool longer = wish->kind == FLEET_WISH_ADD || wish->kind == FLEET_WISH_ABORT;
    int count = nodes->n + longer, rc;
    char dir[600];

    steps_dir(nodes, dir);
    if (!*dir || wish->kind == FLEET_WISH_TTL_MAX || wish->kind == FLEET_WISH_CONFIRM)
        return HF_OK;
    rc = carry_room_take(dir, count < HF_NODES_MAX ? count : HF_NODES_MAX, why, size);
    carry_room_give(dir);
    return rc;
}

/* (!) An agent that cannot keep a record does not go by it, and the leases of its host run out: what it has kept is written
 * once more, just as the next record would be. */
static int steps_try_to_keep(struct nodes *nodes, const struct fleet_wish *wish, char *why,
                             size_t size)
{
    char text[256];

    if (steps_write_down(nodes, &nodes->fleet_view.record, nodes->agent->fleet_from, text,
                         sizeof(text)) == HF_OK &&
        steps_try_room(nodes, wish, text, sizeof(text)) == HF_OK)
        return HF_OK;
    snprintf(why, size,
             "make room in the agent's directory, or give the agent its rights there: it could not "
             "keep the fleet's next record: %s",
             text);
    nodes->fleet_view.wish_until = HF_TIME_PAST;
    return HF_EBUSY;
}

/* While it refused the record it would not count, and with three nodes no lock could be had. */
static int steps_try_to_write(struct nodes *nodes, const struct fleet_wish *wish, char *why,
                              size_t size) IN_BROKER_THREAD
{
    for (int i = 0; i < nodes->n && wish->kind <= FLEET_WISH_TTL_MAX; i++) {
        const char *id = nodes->config->nodes[i].id;

        if (nodes_takes_writes(nodes, i) || (wish->gone && strcmp(id, wish->id) == 0))
            continue;
        snprintf(why, size,
                 "node %s refuses writes (%s), and would not take the change; mend it first, or, "
                 "to replace it, stop its server for good and say --old-server-dead %s",
                 id, nodes->node[i].writes.text, id);
        nodes->fleet_view.wish_until = HF_TIME_PAST;
        return HF_EBUSY;
    }
    return HF_OK;
}

int node_fleet_change(struct nodes *nodes, const struct fleet_wish *wish, char *why, size_t size)
{
    hf_time now = clock_now();
    int rc = fleet_change_begin(&nodes->fleet_view, wish, now, WISH_MOST, why, size);

    if (rc == HF_OK)
        rc = steps_try_to_write(nodes, wish, why, size);
    if (rc == HF_OK)
        rc = steps_try_to_keep(nodes, wish, why, size);
    if (rc == HF_OK) {
        nodes->fleet_uid = wish->uid;
        nodes->fleet_back = wish->kind == FLEET_WISH_ABORT;
        loop_timer_set(nodes->loop, &nodes->review, now);
    }
    return rc;
}
