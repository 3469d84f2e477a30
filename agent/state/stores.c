#include "agent/state/stores.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/core/fleet.h"
#include "agent/state/drain_record.h"
#include "agent/state/events.h"
#include "agent/state/fleet_memory.h"
#include "shm/assert.h"
#include "shm/table_notes.h"
#include "shm/measures.h"
#include "shm/slot.h"
#include "shm/status.h"
#include "shm/version.h"

static uint32_t stores_table_flags(const struct config *c)
{
    return (c->ephemeral ? HF_TABLE_F_DEV : 0) | (c->assume_fresh ? HF_TABLE_F_ASSUME_FRESH : 0) |
           (c->allow_eviction ? HF_TABLE_F_ALLOW_EVICTION : 0) |
           (c->allow_replicas ? HF_TABLE_F_ALLOW_REPLICAS : 0) |
           (c->system || geteuid() == 0 ? 0 : HF_TABLE_F_USER);
}

/* An ephemeral agent neither obeys nor ends the drain of another agent of its name. */
static void stores_take_up_drain(struct agent *agent, const char *dir)
{
    char text[DRAIN_RECORD_TEXT];

    agent->drain_path[0] = '\0';
    if (!agent->config->ephemeral)
        snprintf(agent->drain_path, sizeof(agent->drain_path), "%.590s/drain", dir);
    drain_record_read(agent->drain_path, &agent->clock, &agent->drained);
    hf_drained_publish(&agent->table, &agent->drained);
    if (!agent->drained.stands)
        return;
    drain_record_say(&agent->drained, agent->config->name, text);
    log_warn("%s", text);
}

/* What DIR/fleet says: by which record the agent before went, and of which list its files are. */
struct last {
    struct fleet_memory memory;
    struct fleet_record record;
    bool fits;        /* the record's list is the configuration's */
    int before_count; /* of the list before, if it was carried over */
    struct fleet_seat before[HF_NODES_MAX];
};

static bool stores_has_our_ids(const struct config *c, const struct fleet_record *record)
{
    const struct fleet_seat *seats;

    if (fleet_record_list(record, &seats) != c->node_count)
        return false;
    for (int i = 0; i < c->node_count; i++)
        if (strcmp(seats[i].id, c->nodes[i].id) != 0)
            return false;
    return true;
}

static void stores_read_last(const struct config *c, const char *path,
                             const struct boot_clock *clock, struct last *ret_last)
{
    struct fleet_memory *m = &ret_last->memory;

    fleet_memory_read(path, clock, m);
    ret_last->fits =
        m->length && fleet_record_read(m->text, m->length, &ret_last->record) == HF_OK &&
        fleet_may_go_by(&ret_last->record) && (ret_last->record.version == 1 || c->by_record) &&
        stores_has_our_ids(c, &ret_last->record);
}

static void stores_fleet_path_in(const struct config *c, const char *dir, char *ret_path,
                                 size_t size)
{
    ret_path[0] = '\0';
    if (!c->ephemeral)
        snprintf(ret_path, size, "%.590s/fleet", dir);
}

/* By --reset-fleet the operator vouches that nobody goes by what was before. */
static void stores_take_up_fleet(struct agent *agent, const char *dir, struct last *ret_last)
{
    const struct config *c = agent->config;
    char why[256];

    agent->fleet = NULL;
    stores_fleet_path_in(c, dir, agent->fleet_path, sizeof(agent->fleet_path));
    if (c->reset_fleet) {
        /* By the operator's word nobody goes by what was before, whether or not it can be removed. */
        if (fleet_memory_keep(agent->fleet_path, &agent->clock, NULL, why, sizeof(why)) < 0)
            log_warn("%s", why);
        return;
    }
    stores_read_last(c, agent->fleet_path, &agent->clock, ret_last);
    if (ret_last->memory.length && !ret_last->fits)
        log_warn("%s is of another list of nodes, or of another version: the nodes tell which "
                 "fleet this is",
                 agent->fleet_path);
    if (!ret_last->fits || !(agent->fleet = malloc(sizeof(*agent->fleet))))
        return;
    *agent->fleet = ret_last->record;
    agent->fleet_here = ret_last->memory.here;
    memcpy(agent->fleet_by, ret_last->memory.by, sizeof(agent->fleet_by));
    agent->fleet_from = ret_last->memory.from;
    agent->fleet_settles =
        c->settled ? HF_TIME_PAST : config_settles(c, agent->fleet, agent->fleet_from);
}

/* --- another list ------------------------------------------------------------------------------ */

static void stores_hash_list(const struct config *c, const struct fleet_seat *list, int count,
                             char ret_hash[41])
{
    struct node_address nodes[HF_NODES_MAX];
    char keys[CONFIG_KEYS_TEXT];

    for (int i = 0; i < count; i++)
        memcpy(nodes[i].id, list[i].id, sizeof(nodes[i].id));
    config_keys_text(c, keys);
    list_hash_with(nodes, count, keys, ret_hash);
}

/* Whether journal and node records may be of another list than the record by which the agent goes. Without a list of
 * their own they are of the record's members. */
static bool stores_find_change(const struct config *c, const struct last *last,
                               struct list_change *ret_change)
{
    const struct fleet_memory *m = &last->memory;
    const struct fleet_seat *seats, *before = m->list_count ? m->list : last->record.seat;
    int count, before_count = m->list_count ? m->list_count : last->record.count;

    if (!last->fits)
        return false;
    count = fleet_record_list(&last->record, &seats);
    if (!list_change_find(ret_change, before, before_count, seats, count))
        return false;
    stores_hash_list(c, before, before_count, ret_change->hash_before);
    memcpy(ret_change->hash, c->list_hash, sizeof(ret_change->hash));
    return true;
}

static int stores_keep_list(const struct agent *agent, struct last *last, char *why,
                            size_t why_size)
{
    const struct fleet_seat *seats;

    last->memory.list_count = fleet_record_list(&last->record, &seats);
    memcpy(last->memory.list, seats, sizeof(last->memory.list));
    return fleet_memory_keep(agent->fleet_path, &agent->clock, &last->memory, why, why_size);
}

/* (!) The list is kept last: until then the next start carries over again what was not, and only that. */
static int stores_carry_over(const struct agent *agent, const char *dir, struct last *last,
                             char *why, size_t why_size)
{
    struct list_change change;
    int rc;

    if (!stores_find_change(agent->config, last, &change))
        return HF_OK;
    last->before_count = last->memory.list_count ? last->memory.list_count : last->record.count;
    memcpy(last->before, last->memory.list_count ? last->memory.list : last->record.seat,
           sizeof(last->before));
    rc = journal_carry(dir, &agent->clock, &change, why, why_size);
    if (rc == HF_OK)
        rc = node_records_carry(dir, &agent->clock, &change, why, why_size);
    if (rc == HF_OK)
        rc = stores_keep_list(agent, last, why, why_size);
    if (rc == HF_OK)
        log_info("the fleet's list of nodes has changed, from %d nodes to %d: all leases are kept",
                 change.nodes_before, change.nodes);
    return rc;
}

/* Events of before tell nodes by their places in the list of then. */
static void stores_tell_places(struct agent *agent, const struct last *last)
{
    const struct config *c = agent->config;

    for (int i = 0; agent->warm && i < last->before_count; i++)
        if (i >= c->node_count || strcmp(last->before[i].id, c->nodes[i].id) != 0)
            event_node_place(agent, i, last->before[i].id);
}

/* --- opening ----------------------------------------------------------------------------------- */

static struct hf_table_spec stores_table_spec(const struct config *c, const char *dir,
                                              const struct boot_clock *clock, uint64_t timens_inode)
{
    struct hf_table_spec spec = {
        .agent_name = c->name,
        .dir = dir,
        .capacity = c->capacity,
        .nodes = (uint32_t)c->node_count,
        .quorum = (uint32_t)c->quorum,
        .ttl_ms = c->ttl_ms,
        .ttl_max_ms = c->ttl_max_ms,
        .flags = stores_table_flags(c),
        .mode = c->table_mode,
        .group = c->group,
        .version = HOLDFAST_VERSION,
        .timens_inode = timens_inode,
        .timens_offset_ns = clock->offset_ns,
    };

    memcpy(spec.boot_id, clock->boot_id, sizeof(spec.boot_id));
    return spec;
}

#define NO_TABLE UINT64_MAX /* in place of an id */

/* The table is kept only together with the journal that says what its check words mean. Without a journal
 * no release will leave for the leases that it shows, so its words are true until their V. */
static int stores_open_files(struct agent *agent, const char *dir, char *why, size_t why_size)
{
    const struct config *c = agent->config;
    struct hf_table_spec spec = stores_table_spec(c, dir, &agent->clock, agent->timens_inode);
    char path[sizeof(agent->socket_path)];
    bool found_journal;
    uint32_t found;
    int rc;

    spec.pidns_inode = agent->pidns_inode;
    snprintf(path, sizeof(path), "%.590s/journal", dir);
    found_journal = access(path, F_OK) == 0;
    /* With other keys an agent would neither renew nor release the earlier agent's keys. */
    rc = journal_find(dir, HF_SLOTS_MAX, c->node_count, c->list_hash, &agent->clock,
                      &agent->journal, &found, why, why_size);
    if (rc < 0)
        return rc; /* the node records stay for an agent that is not refused */
    spec.fresh = !journal_is_kept(agent->journal);
    spec.slots_live = journal_slots_live(agent->journal);
    spec.id = journal_table(agent->journal);
    /* (!) A table that is made now shows none of its leases, also if the agent is killed before it can say so. */
    if (!spec.fresh && !spec.id &&
        hf_table_dry_run(agent->shm_name, &spec, why, why_size) != HF_OK) {
        spec.id = NO_TABLE;
        journal_shown_in(agent->journal, spec.id);
    }
    if (spec.fresh)
        rc = hf_table_drop(agent->shm_name, c->name, why, why_size);
    if (rc == HF_OK)
        rc = journal_make(agent->journal,
                          c->capacity < HF_SLOTS_FIRST ? c->capacity : HF_SLOTS_FIRST, why,
                          why_size);
    if (rc == HF_OK)
        rc = node_records_open(dir, c->node_count, c->list_hash, &agent->clock,
                               &agent->node_records, why, why_size);
    if (rc == HF_OK)
        rc = hf_table_create(agent->shm_name, &spec, &agent->table, &agent->warm, why, why_size);
    if (rc < 0) {
        /* An earlier agent's journal and node records are kept for the next start. */
        if (found_journal)
            journal_close(agent->journal);
        else
            journal_remove(agent->journal);
        node_records_undo(agent->node_records);
        return rc;
    }
    if (!agent->warm && found && why[0])
        log_warn("the earlier agent's table is not kept, and its leases end: %s", why);
    if (agent->table.capacity > c->capacity)
        log_info("leases of an earlier agent are in %" PRIu32
                 " slots, more than the capacity of %" PRIu32
                 ": they are kept, and new ones are granted once there are fewer",
                 agent->table.capacity, c->capacity);
    return HF_OK;
}

int stores_open(struct agent *agent, const char *dir, char *why, size_t why_size)
{
    struct last *last = calloc(1, sizeof(*last));
    int rc;

    if (!last) {
        snprintf(why, why_size, "out of memory");
        return HF_ENOMEM;
    }
    stores_take_up_fleet(agent, dir, last);
    rc = stores_carry_over(agent, dir, last, why, why_size);
    if (rc == HF_OK)
        rc = stores_open_files(agent, dir, why, why_size);
    if (rc < 0) {
        free(last);
        free(agent->fleet);
        agent->fleet = NULL;
        return rc;
    }
    hf_assert(agent->table.writable && agent->journal && agent->node_records, "warm %d",
              agent->warm);
    stores_take_up_drain(agent, dir);
    events_begin(agent);
    stores_tell_places(agent, last);
    free(last);
    atomic_store(&agent->table.header->started_ns, agent->started.ns);
    hf_gauge_set(
        &agent->table, HF_GAUGE_START_WALL_MS,
        (uint64_t)(clock_wall().ms - hf_dur_ms(hf_time_since(clock_now(), agent->started))));
    atomic_store(&agent->table.header->main_beat_ns, clock_now().ns);
    return HF_OK;
}

int stores_refuse_second(const struct config *c, const char *but_in, char *why, size_t why_size)
{
    struct hf_table_living living;
    char shm_name[HF_TABLE_NAME_MAX];

    if (hf_table_name(c->name, c->system, geteuid(), shm_name) < 0 ||
        !hf_table_find_living(shm_name, geteuid(), &living) ||
        (but_in && strcmp(living.dir, but_in) == 0))
        return HF_OK;
    return hf_table_say_living(c->name, &living, why, why_size);
}

/* Without a journal the table is dropped, if it is ours. */
static int stores_look_at_table(const char *shm_name, struct hf_table_spec *spec,
                                struct stores_view *view, char *why, size_t why_size)
{
    const struct journal *j = view->journal.other_list ? NULL : view->journal.journal;
    int rc;

    spec->fresh = !j;
    spec->slots_live = j ? journal_slots_live(j) : 0;
    spec->id = j ? journal_table(j) : 0;
    rc = hf_table_dry_run(shm_name, spec, why, why_size);
    view->warm = rc == HF_OK;
    if (rc == HF_ETABLE || rc == HF_ESYS)
        return rc;
    if (!j)
        why[0] = '\0';
    return HF_OK;
}

/* As after stores_carry_over(): a journal of the list before is one of this list then. */
static int stores_look_at_journal(const struct config *c, const char *dir,
                                  const struct boot_clock *clock, struct journal_view *ret_view,
                                  char *why, size_t why_size)
{
    int rc = journal_dry_run(dir, HF_SLOTS_MAX, c->node_count, c->list_hash, clock, ret_view, why,
                             why_size);
    struct list_change change;
    struct last *last;
    char path[600];

    if (rc < 0 || !ret_view->other_list || c->reset_fleet || !(last = calloc(1, sizeof(*last))))
        return rc;
    stores_fleet_path_in(c, dir, path, sizeof(path));
    stores_read_last(c, path, clock, last);
    if (stores_find_change(c, last, &change) && ret_view->nodes == change.nodes_before &&
        strcmp(ret_view->list_hash, change.hash_before) == 0) {
        journal_close(ret_view->journal);
        why[0] = '\0';
        rc = journal_dry_run(dir, HF_SLOTS_MAX, change.nodes_before, change.hash_before, clock,
                             ret_view, why, why_size);
    }
    free(last);
    return rc;
}

int stores_dry_run(const struct config *c, const char *dir, const char *shm_name,
                   const struct boot_clock *clock, uint64_t timens_inode,
                   struct stores_view *ret_view, char *why, size_t why_size)
{
    struct hf_table_spec spec = stores_table_spec(c, dir, clock, timens_inode);
    struct stores_view view = {0};
    int rc = stores_refuse_second(c, dir, why, why_size);

    if (rc == HF_OK)
        rc = stores_look_at_journal(c, dir, clock, &view.journal, why, why_size);
    if (rc < 0)
        return rc;
    if (view.journal.refused)
        rc = HF_ETABLE;
    else
        rc = node_records_dry_run(dir, why, why_size);
    if (rc == HF_OK)
        rc = stores_look_at_table(shm_name, &spec, &view, why, why_size);
    if (rc == HF_ESYS)
        journal_close(view.journal.journal);
    else
        *ret_view = view;
    return rc;
}

/* (!) The nodes of an ephemeral agent are new by construction, and an operator who vouches for fresh nodes overrules
 * the records of an earlier agent, unless leases of that agent may be left. */
bool stores_known_node(const struct agent *agent, int node, struct node_trust *ret_trust)
{
    const struct config *c = agent->config;

    return !c->ephemeral && (!c->assume_fresh || journal_slots_live(agent->journal)) &&
           node_records_get(agent->node_records, node, ret_trust) == HF_OK && ret_trust->contacted;
}

/* No check word stands any more, so pending releases need not wait for their V. */
static void stores_believed_by_nobody(struct agent *agent)
{
    for (uint32_t slot = 0; slot < agent->table.capacity; slot++) {
        struct journal_identity identity;
        struct journal_lease state;

        if (journal_get(agent->journal, slot, &identity, &state) != HF_OK)
            continue;
        for (int i = 0; i < HF_NODES_MAX; i++)
            state.d[i] = HF_TIME_PAST;
        journal_put(agent->journal, slot, &state);
    }
}

/* Leases of living holders wait in the journal for the next agent. */
static bool stores_anything_left(const struct agent *agent, bool *ret_held)
{
    bool left = false;

    *ret_held = false;
    for (uint32_t slot = 0; slot < agent->table.capacity; slot++) {
        struct journal_identity identity;
        struct journal_lease state;

        if (journal_get(agent->journal, slot, &identity, &state) != HF_OK)
            continue;
        left = true;
        *ret_held = *ret_held || journal_is_held(state.state);
    }
    return left;
}

/* An ephemeral agent leaves nothing: its nodes end now. */
static void stores_leave_nothing(struct agent *agent, bool stays, bool held)
{
    if (!stays) {
        for (uint32_t slot = 0; held && slot < agent->table.slots_there; slot++)
            hf_slot_withdraw(&agent->table.slots[slot]);
        hf_table_set_state(&agent->table, HF_TABLE_RETIRED);
        if (hf_table_is_linked(&agent->table, agent->shm_name))
            (void)shm_unlink(agent->shm_name);
    }
    hf_table_close(&agent->table);
    journal_remove(agent->journal);
    node_records_remove(agent->node_records);
}

/* (!) Where the agent starts again in this process, who reads the table finds it in use. */
static void stores_leave_files(struct agent *agent, bool stays, bool left, bool held)
{
    if (!stays) {
        if (left && !held && agent->readopted)
            stores_believed_by_nobody(agent);
        hf_last_words_clear(agent->table.header);
        hf_table_set_state(&agent->table, HF_TABLE_STOPPED);
    }
    hf_table_close(&agent->table);
    if (left)
        journal_close(agent->journal);
    else
        journal_close_empty(agent->journal);
    node_records_close(agent->node_records);
}

bool stores_close(struct agent *agent)
{
    bool stays = atomic_load_explicit(&agent->stays, memory_order_acquire), held,
         left = stores_anything_left(agent, &held) && !agent->config->ephemeral;

    if (agent->config->ephemeral)
        stores_leave_nothing(agent, stays, held);
    else
        stores_leave_files(agent, stays, left, held);
    free(agent->fleet);
    agent->fleet = NULL;
    return left;
}
