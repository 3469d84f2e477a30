/* By which record of the fleet a start would go: that which this host remembers, or a later one that the nodes tell. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/broker/nodes/node_texts.h"
#include "agent/check/parts.h"
#include "agent/config/config_fleet.h"
#include "agent/core/fleet.h"
#include "agent/record/fleet_memory.h"
#include "agent/record/fleet_start.h"
#include "shm/status.h"

#define PATIENCE     hf_ms(2000)
#define FLEET_ROUNDS 3 /* a record leads to nodes that may have a later one */

struct look {
    struct fleet fleet;
    struct fleet_memory memory;
    struct fleet_record record; /* by which a start would go, where there is one */
    struct fleet_action action;
    struct config file;
};

/* --- how the fleet by whose record this host goes differs from the file ------------------------ */

static void fleet_say_record(const struct config *c, const struct config *now, struct findings *f)
{
    for (int i = 0; i < now->node_count; i++)
        if (now->unconfigured >> i & 1)
            find_warning(f, 0,
                         "node %s is at %s for this fleet, and not in this file: agents go there",
                         now->nodes[i].id, now->nodes[i].text);
    for (int i = 0; i < c->node_count; i++) {
        const struct node_address *a = &c->nodes[i];
        int place = config_place_of(now, a->id), line = f->report->node_line[i];

        if (place < 0)
            find_warning(f, line,
                         "node %s is not of this fleet, or not any more: agents do not go there",
                         a->id);
        else if ((a->numeric || a->unix_socket) && !a->as[0] &&
                 !node_address_same(a, &now->nodes[place]))
            find_warning(f, line,
                         "node %s is at %s for this fleet, and this leads to %s: agents go to %s",
                         a->id, now->nodes[place].text, a->text, now->nodes[place].text);
    }
    if (c->ttl_max_ms < now->ttl_longest_ms)
        find_warning(
            f, f->report->line[CONFIG_ID_ttl_max],
            "ttl_max is %.1f s for this fleet, write that here, too: by the %.1f s of this "
            "file an agent without a memory of the fleet, as after a reboot, may count "
            "emptied nodes while a longer lease is still held",
            (double)now->ttl_longest_ms / 1000, (double)c->ttl_max_ms / 1000);
    else if (now->settled && now->ttl_max_ms != c->ttl_max_ms)
        find_warning(f, f->report->line[CONFIG_ID_ttl_max],
                     "ttl_max is %.1f s for this fleet, whatever this file says",
                     (double)now->ttl_max_ms / 1000);
}

/* --- what the nodes tell ------------------------------------------------------------------------ */

static void fleet_ask_nodes(const struct config *c, struct trial *ret_nodes)
{
    for (int i = 0; i < c->node_count; i++)
        ret_nodes[i] = (struct trial){.address = &c->nodes[i], .asks_rights = true};
    (void)trial_run(ret_nodes, c->node_count, PATIENCE);
}

/* As an answer to the broker. */
static void fleet_hear(struct fleet *f, const struct config *c, int i, const struct trial *there,
                       hf_time now)
{
    char text[FLEET_TEXT_SIZE], digest[FLEET_DIGEST_LEN + 1] = "";
    size_t length = 0;

    if (!there->answered || (there->recorded != HF_OK && there->recorded != HF_ENOTHELD))
        return;
    fleet_on_up(f, i, there->peer);
    if (there->recorded == HF_OK) {
        length = fleet_record_text(&there->record, text);
        fleet_record_digest(text, length, digest);
    }
    (void)fleet_on_answer(f, i, "-", digest, now, now);
    fleet_on_record(f, i, digest, text, length);
    fleet_on_usable(f, i, !node_facts_refusal(c, &there->facts), false);
}

/* Whether an agent of that configuration would start again by a record that its nodes have. */
static bool fleet_find_later(struct look *l, const struct config *c, const struct trial *nodes)
{
    hf_time now = clock_now();
    struct fleet_record own;

    config_fleet(c, &own);
    fleet_init(&l->fleet, &own, c->reset_fleet, HF_TIME_PAST);
    if (c->by_record)
        fleet_restore(&l->fleet, &l->record, HF_TIME_NEVER);
    for (int i = 0; i < c->node_count; i++) {
        char named[HF_NODE_TEXT_MAX + 1];

        node_address_seat_named(&c->nodes[i], named);
        fleet_on_configured(&l->fleet, i, named);
        fleet_hear(&l->fleet, c, i, &nodes[i], now);
    }
    fleet_next(&l->fleet, now, UINT32_MAX, &l->action);
    if (l->action.step != FLEET_AGAIN)
        return false;
    l->record = l->action.record;
    return true;
}

static void fleet_go_by(const struct look *l, bool settled, struct config *now)
{
    *now = l->file;
    config_go_by(now, &l->record, settled, l->memory.here);
}

void check_fleet(struct config *c, const struct host *host, struct trial *ret_nodes,
                 struct findings *f)
{
    char dir[sizeof(c->runtime_dir) + sizeof(c->name) + 2];
    struct look *l = calloc(1, sizeof(*l));
    bool told = false;

    if (!l) {
        fleet_ask_nodes(c, ret_nodes);
        return;
    }
    l->file = *c;
    snprintf(dir, sizeof(dir), "%s/%s", c->runtime_dir, c->name);
    if (fleet_start_find(c, dir, &host->clock, &l->memory, &l->record))
        fleet_go_by(
            l, hf_time_reached(clock_now(), fleet_record_settles(&l->record, l->memory.from)), c);
    for (int round = 0; round < FLEET_ROUNDS; round++) {
        fleet_ask_nodes(c, ret_nodes);
        if (!fleet_find_later(l, c, ret_nodes))
            break;
        fleet_go_by(l, l->record.state == FLEET_COMPLETE, c); /* after a quarantine */
        told = true;
    }
    if (c->by_record) {
        find_fact("fleet: %.8s version %" PRIu64 ", %s", l->record.fleet, l->record.version,
                  told ? "as its nodes tell" : "as this host remembers");
        fleet_say_record(&l->file, c, f);
    }
    explicit_bzero(l, sizeof(*l)); /* passwords */
    free(l);
}
