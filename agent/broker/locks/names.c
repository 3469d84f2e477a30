/* Names and their slots. A name is here while it is, or lately was, held or waited for; its slot keeps
 * it between holds, so that a lock that is acquired again and again stays where it is. */
#include "agent/broker/locks/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/slab.h"
#include "agent/base/thread.h"
#include "agent/broker/locks/locks.h"
#include "shm/assert.h"
#include "shm/index.h"
#include "shm/slot.h"
#include "shm/status.h"

static uint32_t name_hash(const struct locks *locks, const void *bytes, size_t len)
{
    /* Not the table's key, which every local user can read: names must not be made to collide. */
    return hf_name_hash(locks->hash_key, bytes, len);
}

struct name *name_find(struct locks *locks, const void *bytes, size_t len)
{
    uint32_t hash = name_hash(locks, bytes, len);

    for (uint32_t at = chains_first(&locks->names, hash); at; at = chains_next(&locks->names, at)) {
        struct name *name = locks->by_slot[at - 1];

        if (name->len == len && memcmp(name->bytes, bytes, len) == 0)
            return name;
    }
    return NULL;
}

/* --- what goes on for a name ------------------------------------------------------------------ */

struct name_state *name_state(struct name *name)
{
    struct locks *locks = name_locks(name);
    struct name_state *state;

    if (name->state != locks->no_state)
        return name->state;
    state = slab_take(sizeof(*state));
    if (!state)
        return NULL;
    *state = *locks->no_state;
    state->name = name;
    TAILQ_INIT(&state->waiters);
    state->retry.fn = locks->on_retry;
    name->state = state;
    return state;
}

static void name_state_free(struct name *name)
{
    struct locks *locks = name_locks(name);

    if (name->state->touched)
        TAILQ_REMOVE(&locks->touched, name->state, touched_link);
    if (name->state != locks->no_state)
        slab_give(name->state, sizeof(*name->state));
    name->state = locks->no_state;
}

/* What is remembered of other hosts' holds counts for 2 T. */
static bool name_remembers(const struct name *name, hf_time now)
{
    hf_dur longest = hf_ms(2 * (int64_t)name_locks(name)->config->ttl_max_ms);

    return hf_time_before(now, name->state->yield_until) ||
           hf_time_before(now, hf_time_add(name->state->others_seen, longest));
}

void name_free_idle_state(struct name *name)
{
    const struct name_state *state = name->state;

    if (state == state->locks->no_state || state->touched || !TAILQ_EMPTY(&state->waiters) ||
        state->round || state->granted || state->short_hold || state->handoff || state->waited ||
        state->pending_release || state->release_session || state->failures ||
        heap_has(&state->retry.item) || name->undoing || name->turn_over ||
        name_remembers(name, loop_now(name_locks(name)->loop)))
        return;
    name_state_free(name);
}

void name_touch(struct name *name, enum touch how)
{
    struct locks *locks = name_locks(name);

    if (name->state == locks->no_state) {
        name_park(name);
        return;
    }
    if (!name->state->touched)
        TAILQ_INSERT_TAIL(&locks->touched, name->state, touched_link);
    name->state->touched |= (uint8_t)how;
    name_activate(name); /* (!) its slot is no other name's before the step */
}

/* --- names ------------------------------------------------------------------------------------ */

static size_t name_size_of(size_t len)
{
    return offsetof(struct name, bytes) + len;
}

/* What a name is, by its flags and by the tables of names. */
static void name_check(const struct name *name)
{
    const struct locks *locks = name_locks(name);

    hf_assert(name->len >= 1, "slot %u", (unsigned)name->slot);
    hf_assert(locks->by_slot[name->slot] == name, "slot %u, generation %u", (unsigned)name->slot,
              (unsigned)name->generation);
    hf_assert(name->generation <= HF_GEN_MAX, "slot %u, generation %u", (unsigned)name->slot,
              (unsigned)name->generation);
    hf_assert(name->state == locks->no_state || name->state->name == name, "slot %u",
              (unsigned)name->slot);
    hf_assert(!name->idle || !name->stalled, "slot %u, idle and stalled", (unsigned)name->slot);
    hf_assert(!name->indexed || name->has_text, "slot %u, indexed without a text",
              (unsigned)name->slot);
    hf_assert(!name->holder == !name_lease(name), "slot %u, generation %u, holder %d",
              (unsigned)name->slot, (unsigned)name->generation, name->holder != NULL);
}

static struct name *name_new(struct locks *locks, const void *bytes, size_t len, uint32_t slot)
{
    struct name *name = slab_take(name_size_of(len));

    hf_assert(len >= 1 && len <= HF_NAME_MAX, "length %zu", len);
    hf_assert(slot < locks->agent->table.capacity && !locks->by_slot[slot], "slot %u",
              (unsigned)slot);
    if (!name)
        return NULL;
    name->state = locks->no_state;
    name->slot = slot;
    name->generation = locks->generations[slot];
    name->len = (uint8_t)len;
    memcpy(name->bytes, bytes, len);
    chains_add(&locks->names, name_hash(locks, bytes, len), slot);
    locks->by_slot[slot] = name;
    return name;
}

static void name_count_unindexed(struct name *name, bool unindexed)
{
    if (name->unindexed == unindexed)
        return;
    name->unindexed = unindexed;
    hf_index_unindexed(&name_locks(name)->agent->table, unindexed ? 1 : -1);
}

/* Takes the name out of the slot, the index and the text, where readers see it. */
static void name_slot_blank(struct name *name)
{
    struct locks *locks = name_locks(name);

    name_check(name);
    hf_assert(!name_lease(name), "slot %u, generation %u", (unsigned)name->slot,
              (unsigned)name->generation);
    if (name->indexed)
        hf_index_remove(&locks->agent->table, name->bytes, name->len, name->slot);
    hf_slot_clear(&locks->agent->table.slots[name->slot]);
    if (name->has_text)
        hf_text_drop(locks->text, name->text_off, name->len, name->text_note_len,
                     name->text_comm_len);
    name->indexed = name->has_text = false;
    name_count_unindexed(name, false);
}

static void name_slot_leave(struct name *name)
{
    name_slot_blank(name);
    chains_remove(&name_locks(name)->names, name_hash(name_locks(name), name->bytes, name->len),
                  name->slot);
    name_locks(name)->by_slot[name->slot] = NULL;
}

void name_unstall(struct name *name)
{
    if (!name->stalled)
        return;
    name->stalled = false;
    TAILQ_REMOVE(&name_locks(name)->stalled, name, stalled_link);
}

static void name_free(struct name *name)
{
    name_state_free(name);
    slab_give(name, name_size_of(name->len));
}

static bool name_in_use(const struct name *name)
{
    return name_lease(name) || name->state->round || name->state->granted || name->state->handoff ||
           name->undoing || !TAILQ_EMPTY(&name->state->waiters) || name->state->waited ||
           name->state->touched;
}

static void name_forget(struct name *name)
{
    struct locks *locks = name_locks(name);

    hf_assert(!name_in_use(name), "slot %u, generation %u, undoing %d", (unsigned)name->slot,
              (unsigned)name->generation, name->undoing);
    loop_timer_cancel(locks->loop, &name->state->retry);
    if (name->idle)
        TAILQ_REMOVE(&locks->idle, name, idle_link);
    name_unstall(name);
    name_slot_leave(name);
    name_free(name);
}

/* At rest from here on: its slot keeps the name until another name needs the slot. */
void name_park(struct name *name)
{
    name_check(name);
    hf_assert(!name->idle || !name_in_use(name), "slot %u, idle and in use", (unsigned)name->slot);
    if (name->idle || name_in_use(name))
        return;
    name_unstall(name);
    name->idle = true;
    TAILQ_INSERT_TAIL(&name_locks(name)->idle, name, idle_link);
    name_free_idle_state(name);
}

void name_activate(struct name *name)
{
    name_check(name);
    if (!name->idle)
        return;
    name->idle = false;
    TAILQ_REMOVE(&name_locks(name)->idle, name, idle_link);
}

/* (!) Before anybody writes to the slot: without memory that would raise SIGBUS. Journal and table take it for many
 * slots at a time. */
static bool name_slot_has_memory(struct locks *locks, uint32_t slot)
{
    struct journal *journal = locks->agent->journal;
    struct hf_table *table = &locks->agent->table;
    uint32_t upto = slot / HF_SLOTS_STEP * HF_SLOTS_STEP + HF_SLOTS_STEP;

    if (slot < journal_slots(journal) && slot < table->slots_there)
        return true;
    if (upto > table->capacity)
        upto = table->capacity;
    locks->no_memory =
        journal_take_slots(journal, upto) < 0 || hf_table_take_slots(table, upto) < 0;
    return !locks->no_memory;
}

/* A slot for a new name: one never used, else the one longest at rest. So readers that just looked a
 * lease up see its end, and not another name, for as long as possible. Slots beyond the capacity had leases of an earlier
 * agent, and are given to no other name. */
static int name_slot_take(struct locks *locks, uint32_t *ret_slot)
{
    uint32_t capacity = locks->config->capacity;
    struct name *oldest;

    locks->no_memory = false;
    while (locks->next_slot < capacity && name_slot_has_memory(locks, locks->next_slot)) {
        uint32_t slot = locks->next_slot++;

        if (locks->by_slot[slot] || locks->generations[slot] >= HF_GEN_MAX)
            continue; /* readopted, or retired: its generations are used up */
        if (slot >= locks->slots_used) {
            locks->slots_used = slot + 1;
            atomic_store_explicit(&locks->agent->table.header->slots_used, locks->slots_used,
                                  memory_order_release);
        }
        *ret_slot = slot;
        return HF_OK;
    }
    while ((oldest = TAILQ_FIRST(&locks->idle))) {
        uint32_t slot = oldest->slot;

        hf_assert(oldest->idle, "slot %u", (unsigned)slot);
        name_forget(oldest);
        if (slot >= capacity || locks->generations[slot] >= HF_GEN_MAX)
            continue;
        *ret_slot = slot;
        return HF_OK;
    }
    return HF_EFULL;
}

void names_say_full(const struct locks *locks, char *text, size_t size)
{
    if (locks->no_memory)
        snprintf(
            text, size,
            "no memory is left for more than %u leases; release some, or make room in /dev/shm "
            "and in the agent's directory",
            locks->next_slot);
    else
        snprintf(text, size,
                 "all %u leases of this agent are in use; release some, or raise its capacity",
                 locks->config->capacity);
}

int name_get(struct locks *locks, const void *bytes, size_t len, struct name **ret_name)
{
    struct name *name = name_find(locks, bytes, len);
    uint32_t slot;

    if (!name) {
        if (name_slot_take(locks, &slot) < 0)
            return HF_EFULL;
        name = name_new(locks, bytes, len, slot);
        if (!name)
            return HF_ENOMEM;
        name_park(name);
    }
    *ret_name = name;
    return HF_OK;
}

int name_at(struct locks *locks, const void *bytes, size_t len, uint32_t slot,
            struct name **ret_name)
{
    struct name *name;

    hf_assert(slot < locks->agent->table.capacity, "slot %u", (unsigned)slot);
    if (locks->by_slot[slot] || name_find(locks, bytes, len))
        return HF_EBUSY;
    name = name_new(locks, bytes, len, slot);
    if (!name)
        return HF_ENOMEM;
    *ret_name = name;
    return HF_OK;
}

struct lease *name_lease(const struct name *name)
{
    return lease_table_at(name_locks(name)->agent->leases, name->slot);
}

struct lease *names_lease(struct locks *locks, uint32_t slot, uint32_t generation)
{
    struct lease *lease =
        slot < locks->agent->table.capacity ? lease_table_at(locks->agent->leases, slot) : NULL;

    return lease && lease->generation == generation ? lease : NULL;
}

/* The slot's generations are used up (after 16 million grants): the name moves to another. */
int name_move(struct name *name)
{
    struct locks *locks = name_locks(name);
    uint32_t slot;
    int rc = name_slot_take(locks, &slot);

    if (rc < 0)
        return rc;
    name_slot_leave(name);
    name->slot = slot;
    chains_add(&locks->names, name_hash(locks, name->bytes, name->len), slot);
    locks->by_slot[slot] = name;
    return HF_OK;
}

/* Names at rest free their texts, the longest at rest first, until there is room for this one. */
static int name_text_put(struct name *name, const struct lease *lease, uint32_t *ret_off)
{
    struct locks *locks = name_locks(name);
    struct name *resting = TAILQ_FIRST(&locks->idle);
    int rc;

    while ((rc = hf_text_put(locks->text, name->bytes, name->len, lease_note(lease),
                             lease->note_len, lease_comm(lease), lease->comm_len, ret_off)) ==
           HF_EFULL) {
        while (resting && !resting->has_text)
            resting = TAILQ_NEXT(resting, idle_link);
        if (!resting)
            break;
        name_slot_blank(resting);
    }
    return rc;
}

static bool name_same_text(const struct name *name, const struct lease *other)
{
    const struct lease *now = name_lease(name);

    return now && name->has_text && now->note_len == other->note_len &&
           now->comm_len == other->comm_len &&
           memcmp(lease_note(now), lease_note(other), now->note_len) == 0 &&
           memcmp(lease_comm(now), lease_comm(other), now->comm_len) == 0;
}

int name_text_prepare(struct name *name, const struct lease *lease, uint32_t *ret_off,
                      bool *ret_new)
{
    *ret_new = !name_same_text(name, lease);
    if (*ret_new)
        return name_text_put(name, lease, ret_off);
    *ret_off = name->text_off;
    return HF_OK;
}

void name_text_drop(struct name *name, const struct lease *lease, uint32_t text_off)
{
    hf_text_drop(name_locks(name)->text, text_off, name->len, lease->note_len, lease->comm_len);
}

void name_text_switch(struct name *name, const struct lease *lease, uint32_t text_off)
{
    if (name->has_text)
        hf_text_drop(name_locks(name)->text, name->text_off, name->len, name->text_note_len,
                     name->text_comm_len);
    name->has_text = true;
    name->text_off = text_off;
    name->text_note_len = lease->note_len;
    name->text_comm_len = lease->comm_len;
}

int name_publish(struct name *name, struct lease *lease, bool stands, hf_time valid, uint32_t votes,
                 uint32_t flags)
{
    struct locks *locks = name_locks(name);
    struct hf_slot_identity id = {.generation = lease->generation,
                                  .pid = lease->pid,
                                  .uid = lease->uid,
                                  .ttl_ms = lease->ttl_ms,
                                  .flags = flags,
                                  .text_off = name->text_off,
                                  .name_len = name->len,
                                  .note_len = lease->note_len,
                                  .comm_len = lease->comm_len,
                                  .fence = lease->fence,
                                  .since = lease->since};
    uint32_t old_off = name->text_off;
    uint8_t old_note = name->text_note_len, old_comm = name->text_comm_len;
    bool had_text = name->has_text && !stands;
    int rc = HF_OK;

    hf_assert(lease->slot == name->slot && lease->generation == name->generation,
              "slot %u, generation %u of %u, %u", (unsigned)lease->slot,
              (unsigned)lease->generation, (unsigned)name->slot, (unsigned)name->generation);
    hf_assert(!stands || name->has_text, "slot %u", (unsigned)name->slot);
    if (!stands)
        rc = name_text_put(name, lease, &id.text_off);
    if (rc < 0)
        return rc;
    hf_slot_publish(&locks->agent->table.slots[name->slot], &id, valid, votes);
    /* The old text is freed only now: a reader that copied it sees the slot's sequence count changed.
     */
    if (had_text)
        hf_text_drop(locks->text, old_off, name->len, old_note, old_comm);
    name->has_text = true;
    name->text_off = id.text_off;
    name->text_note_len = lease->note_len;
    name->text_comm_len = lease->comm_len;
    if (!name->indexed) {
        rc = hf_index_add(&locks->agent->table, name->bytes, name->len, name->slot);
        name->indexed = rc == HF_OK;
        name_count_unindexed(name, !name->indexed);
        if (!name->indexed && log_allows(&locks->index_full, LOG_LIMIT, clock_now()))
            log_warn("the name index is full in one place: programs look at each lease to find a "
                     "name; end the program that takes names which collide");
    }
    return HF_OK;
}

/* Which names are left out is known to the index alone: they are counted until the next start. */
void names_index(struct locks *locks)
{
    hf_index_rebuild(&locks->agent->table);
    for (uint32_t i = 0; i < locks->slots_used; i++)
        if (locks->by_slot[i] && locks->by_slot[i]->has_text) {
            locks->by_slot[i]->indexed = true;
            locks->by_slot[i]->unindexed = false;
        }
}

int names_create(struct locks *locks)
{
    uint32_t capacity = locks->agent->table.capacity;

    TAILQ_INIT(&locks->idle);
    TAILQ_INIT(&locks->stalled);
    TAILQ_INIT(&locks->touched);
    locks->no_state = malloc(sizeof(*locks->no_state));
    if (!locks->no_state)
        return HF_ENOMEM;
    /* TAILQ_EMPTY() of its waiters holds. */
    *locks->no_state = (struct name_state){.locks = locks,
                                           .others_seen = HF_TIME_PAST,
                                           .yield_until = HF_TIME_PAST,
                                           .foreign_seen = HF_TIME_PAST};
    locks->by_slot = calloc(capacity, sizeof(struct name *));
    locks->generations = calloc(capacity, sizeof(*locks->generations));
    locks->names.buckets = chains_buckets(capacity);
    locks->names.first = calloc(locks->names.buckets, sizeof(uint32_t));
    locks->names.links = calloc(capacity, sizeof(uint32_t));
    locks->names.step = sizeof(uint32_t);
    if (!locks->by_slot || !locks->generations || !locks->names.first || !locks->names.links)
        return HF_ENOMEM;
    return hf_text_pool_create(&locks->agent->table, &locks->text);
}

void names_destroy(struct locks *locks)
{
    if (locks->by_slot)
        for (uint32_t i = 0; i < locks->agent->table.capacity; i++) {
            struct name *name = locks->by_slot[i];

            if (!name)
                continue;
            name_free(name);
        }
    free(locks->names.first);
    free(locks->names.links);
    hf_text_pool_destroy(locks->text);
    free(locks->by_slot);
    free(locks->generations);
    free(locks->no_state);
}
