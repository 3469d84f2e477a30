#include "agent/broker/nodes/node_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/config/config.h"
#include "shm/measures.h"

void node_fleet_begin(struct nodes *nodes)
{
    const struct config *c = nodes->config;
    struct fleet_record own;

    config_fleet(c, &own);
    fleet_init(&nodes->fleet_view, &own, c->reset_fleet, nodes->started);
    nodes->fleet_view.trusting = c->ephemeral;
    if (nodes->agent->fleet)
        fleet_restore(&nodes->fleet_view, nodes->agent->fleet, nodes->agent->fleet_settles);
    fleet_restore_shown(&nodes->fleet_view, nodes->agent->fleet_shown);
    nodes->fleet_here = nodes->agent->fleet_here;
    memcpy(nodes->fleet_by, nodes->agent->fleet_by, sizeof(nodes->fleet_by));
    fleet_on_way_back(&nodes->fleet_view, node_author_read(nodes->fleet_by).way_back);
    for (int i = 0; i < nodes->n; i++) {
        char named[HF_NODE_TEXT_MAX + 1];

        seat_configure(&nodes->node[i].seat, &c->nodes[i]);
        node_address_seat_named(&c->nodes[i], named);
        fleet_on_configured(&nodes->fleet_view, i, named);
        fleet_on_written(&nodes->fleet_view, i, c->file, c->nodes[i].line);
        nodes->node[i].put_again = HF_TIME_PAST;
    }
    nodes->fleet_asked = HF_TIME_PAST;
    node_fleet_show(nodes, nodes->started);
}

void node_fleet_configure(struct nodes *nodes)
{
    for (int i = 0; i < nodes->n; i++) {
        const struct node_address *a = &nodes->config->nodes[i];
        char named[HF_NODE_TEXT_MAX + 1];

        seat_configure(&nodes->node[i].seat, a);
        node_address_seat_named(a, named);
        fleet_on_reload(&nodes->fleet_view, i, named);
        fleet_on_written(&nodes->fleet_view, i, nodes->config->file, a->line);
    }
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
    bool counted = fleet_counts(f, i), changing = f->known && f->record.state == FLEET_CHANGING;

    if (fleet_on_answer(f, i, reply->nonce, reply->digest, reply->sent, reply->received) ||
        fleet_counts(f, i) != counted || changing || fleet_proves(f, i))
        loop_timer_set(nodes->loop, &nodes->review, reply->received);
}

void node_fleet_read(struct nodes *nodes, int i, const struct link_reply *reply)
{
    struct fleet *f = &nodes->fleet_view;

    if (!reply->record)
        return;
    fleet_on_record(f, i, reply->digest, reply->record, reply->record_len);
    fleet_on_sure(f, i, reply->record_sure);
    fleet_note_told(f, i);
    snprintf(nodes->node[i].record_by, sizeof(nodes->node[i].record_by), "%s", reply->record_by);
    if (fleet_shows(f, i))
        memcpy(nodes->fleet_by, nodes->node[i].record_by, sizeof(nodes->fleet_by));
    fleet_on_since(f, i, node_author_read(reply->record_by).wall_ms,
                   node_author_read(nodes->fleet_by).wall_ms);
    fleet_on_way_back(f, node_author_read(nodes->fleet_by).way_back);
}

void node_fleet_probe(struct nodes *nodes, int i)
{
    link_probe_soon(nodes->node[i].link);
}

/* --- what people are shown -------------------------------------------------------------------- */

/* What people are shown of the fleet's record and of what each node says of it. */

/* Of a record of this fleet, or of what may be. */
static enum fleet_word node_fleet_shown_word_of_another(const struct fleet *f,
                                                        const struct fleet_record *record)
{
    if (record->state == FLEET_FOUNDING)
        return FLEET_WORD_FOUNDING;
    if (record->state == FLEET_CHANGING)
        return FLEET_WORD_CHANGING;
    if (!f->known)
        return FLEET_WORD_OURS;
    return fleet_record_rank(record, &f->record) < 0 ? FLEET_WORD_EARLIER : FLEET_WORD_LATER;
}

static enum fleet_word node_fleet_shown_word_of(const struct fleet *f, int i)
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
        return node_fleet_shown_word_of_another(f, &node->record);
    }
    return FLEET_WORD_UNKNOWN;
}

static const char *node_fleet_shown_configured_text(const struct nodes *nodes, int i)
{
    const struct node_address *a = &nodes->config->nodes[i];

    if (nodes->config->by_record)
        return nodes->config->named[i];
    return a->as[0] ? a->as : a->text;
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
    if (f->known && node->said == FLEET_SAID_RECORD && !fleet_counts(f, i))
        flags |= HF_NODE_F_UNCOUNTED;
    if (f->known && fleet_shown_elsewhere(&nodes->fleet_shown.node[i]))
        flags |= HF_NODE_F_ELSEWHERE;
    return flags;
}

static void node_fleet_shown_measure(struct nodes *nodes, const struct fleet_shown *s)
{
    struct hf_table *table = &nodes->agent->table;
    bool complete = s->known && s->record.state == FLEET_COMPLETE;
    unsigned foreign = 0;

    for (int i = 0; i < s->count; i++)
        foreign += s->node[i].word == FLEET_WORD_FOREIGN;
    hf_gauge_set(table, HF_GAUGE_FLEET_VERSION, s->known ? s->record.version : 0);
    hf_gauge_set(table, HF_GAUGE_FLEET_COMPLETE, complete);
    hf_gauge_set(table, HF_GAUGE_FLEET_SETTLED, complete && s->settles.ns == HF_TIME_PAST.ns);
    hf_gauge_set(table, HF_GAUGE_FLEET_DIFFERS, *s->differs != '\0');
    hf_gauge_set(table, HF_GAUGE_FLEET_FOREIGN, foreign);
}

void node_fleet_show(struct nodes *nodes, hf_time now)
{
    const struct fleet *f = &nodes->fleet_view;
    const struct node_author by = node_author_read(nodes->fleet_by);
    struct fleet_shown *s = &nodes->fleet_shown;

    memset(s, 0, sizeof(*s));
    s->known = f->known;
    s->record = f->record;
    s->settles = f->settles;
    s->told_version = f->told.count ? f->told.version : 0;
    s->file_ttl_max_ms = nodes->config->file_ttl_max_ms;
    memcpy(s->digest, f->digest, sizeof(s->digest));
    memcpy(s->by_host, by.host, sizeof(s->by_host));
    s->by_uid = by.uid;
    s->since_wall_ms = by.wall_ms;
    s->count = nodes->n;
    for (int i = 0; i < nodes->n; i++) {
        struct fleet_shown_node *n = &s->node[i];

        snprintf(n->id, sizeof(n->id), "%s", nodes->config->nodes[i].id);
        if (f->known)
            memcpy(n->seat, fleet_place(f, i)->address, sizeof(n->seat));
        snprintf(n->configured, sizeof(n->configured), "%s",
                 node_fleet_shown_configured_text(nodes, i));
        if (nodes->config->nodes[i].as[0])
            snprintf(n->link, sizeof(n->link), "%s", nodes->config->nodes[i].text);
        memcpy(n->peer, f->node[i].peer, sizeof(n->peer));
        if (fleet_misplaced(f, i) >= 0)
            (void)fleet_is_foreign(f, i, n->misplaced, sizeof(n->misplaced));
        n->word = node_fleet_shown_word_of(f, i);
        n->counts = fleet_counts(f, i) && !fleet_is_stranger(f, i);
        n->mute = !nodes->node[i].up || !trust_may_vote(&nodes->node[i].trust, now) || !n->counts;
        n->votes = nodes->node[i].up ? trust_until(&nodes->node[i].trust, now) : HF_TIME_NEVER;
        if (n->votes.ns == HF_TIME_PAST.ns)
            n->votes = HF_TIME_NEVER; /* something else than its quarantine is in its way */
    }
    fleet_waits(f, now, s->waits, sizeof(s->waits));
    (void)fleet_differs(f, s->differs, sizeof(s->differs));
    fleet_board_show(&nodes->agent->fleet_board, s);
    node_fleet_shown_measure(nodes, s);
}

/* --- who put a record ------------------------------------------------------------------------- */

struct node_author node_author_read(const char *by)
{
    struct node_author author = {.host = ""};
    size_t length = strcspn(by, " ");
    char *end;
    unsigned long uid;

    if (length == 0 || length >= sizeof(author.host) || by[length] != ' ')
        return author;
    uid = strtoul(by + length + 1, &end, 10);
    if (*end != ' ' || uid > UINT32_MAX)
        return author;
    author.wall_ms = strtoll(end + 1, &end, 10);
    author.way_back = strcmp(end, NODE_AUTHOR_BACK) == 0;
    author.uid = (uint32_t)uid;
    memcpy(author.host, by, length);
    return author;
}
