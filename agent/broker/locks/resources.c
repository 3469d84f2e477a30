/* Names and their slots. A resource is a name that is, or lately was, held or waited for; its slot keeps
 * the name between holds, so that a lock that is acquired again and again stays where it is. */
#include "agent/broker/locks/resources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/base/slab.h"
#include "agent/base/thread_role.h"
#include "agent/broker/locks/locks.h"
#include "shm/assert.h"
#include "shm/index.h"
#include "shm/slot.h"
#include "shm/status.h"

static uint32_t resource_name_hash(const struct locks *locks, const void *name, size_t len)
{
    /* Not the table's key, which every local user can read: names must not be made to collide. */
    return hf_name_hash(locks->hash_key, name, len);
}

struct resource *resource_find(struct locks *locks, const void *name, size_t len)
{
    uint32_t hash = resource_name_hash(locks, name, len);

    for (uint32_t at = chains_first(&locks->names, hash); at; at = chains_next(&locks->names, at)) {
        struct resource *r = locks->by_slot[at - 1];

        if (r->name_len == len && memcmp(r->name, name, len) == 0)
            return r;
    }
    return NULL;
}

/* --- what goes on for a name ------------------------------------------------------------------ */

struct resource_work *resource_work(struct resource *r)
{
    struct locks *locks = resource_locks(r);
    struct resource_work *work;

    if (r->work != locks->no_work)
        return r->work;
    work = slab_take(sizeof(*work));
    if (!work)
        return NULL;
    *work = *locks->no_work;
    work->resource = r;
    TAILQ_INIT(&work->waiters);
    work->retry.fn = locks->on_retry;
    r->work = work;
    return work;
}

static void resource_work_free(struct resource *r)
{
    struct locks *locks = resource_locks(r);

    if (r->work->touched)
        TAILQ_REMOVE(&locks->touched, r->work, touched_link);
    if (r->work != locks->no_work)
        slab_give(r->work, sizeof(*r->work));
    r->work = locks->no_work;
}

/* What is remembered of other hosts' holds counts for 2 T. */
static bool resource_remembers(const struct resource *r, hf_time now)
{
    hf_dur longest = hf_ms(2 * (int64_t)resource_locks(r)->config->ttl_max_ms);

    return hf_time_before(now, r->work->yield_until) ||
           hf_time_before(now, hf_time_add(r->work->others_seen, longest));
}

void resource_calm(struct resource *r)
{
    const struct resource_work *work = r->work;

    if (work == work->locks->no_work || work->touched || !TAILQ_EMPTY(&work->waiters) ||
        work->round || work->granted || work->short_hold || work->handoff || work->waited ||
        work->ended || work->release_session || work->failures || heap_has(&work->retry.item) ||
        r->undoing || r->turn_over || resource_remembers(r, loop_now(resource_locks(r)->loop)))
        return;
    resource_work_free(r);
}

void resource_touch(struct resource *r, enum touch how)
{
    struct locks *locks = resource_locks(r);

    if (r->work == locks->no_work) {
        resource_rest(r);
        return;
    }
    if (!r->work->touched)
        TAILQ_INSERT_TAIL(&locks->touched, r->work, touched_link);
    r->work->touched |= (uint8_t)how;
    resource_rouse(r); /* (!) its slot is no other name's before the step */
}

/* --- names ------------------------------------------------------------------------------------ */

static size_t resource_size_of(size_t name_len)
{
    return offsetof(struct resource, name) + name_len;
}

/* What a name is, by its flags and by the tables of names. */
static void resource_check(const struct resource *r)
{
    const struct locks *locks = resource_locks(r);

    hf_assert(r->name_len >= 1, "slot %u", (unsigned)r->slot);
    hf_assert(locks->by_slot[r->slot] == r, "slot %u, generation %u", (unsigned)r->slot,
              (unsigned)r->generation);
    hf_assert(r->generation <= HF_GEN_MAX, "slot %u, generation %u", (unsigned)r->slot,
              (unsigned)r->generation);
    hf_assert(r->work == locks->no_work || r->work->resource == r, "slot %u", (unsigned)r->slot);
    hf_assert(!r->idle || !r->stalled, "slot %u, idle and stalled", (unsigned)r->slot);
    hf_assert(!r->indexed || r->has_text, "slot %u, indexed without a text", (unsigned)r->slot);
    hf_assert(!r->holder == !resource_lease(r), "slot %u, generation %u, holder %d",
              (unsigned)r->slot, (unsigned)r->generation, r->holder != NULL);
}

static struct resource *resource_new(struct locks *locks, const void *name, size_t len,
                                     uint32_t slot)
{
    struct resource *r = slab_take(resource_size_of(len));

    hf_assert(len >= 1 && len <= HF_NAME_MAX, "length %zu", len);
    hf_assert(slot < locks->agent->table.capacity && !locks->by_slot[slot], "slot %u",
              (unsigned)slot);
    if (!r)
        return NULL;
    r->work = locks->no_work;
    r->slot = slot;
    r->generation = locks->generations[slot];
    r->name_len = (uint8_t)len;
    memcpy(r->name, name, len);
    chains_add(&locks->names, resource_name_hash(locks, name, len), slot);
    locks->by_slot[slot] = r;
    return r;
}

static void resource_count_unindexed(struct resource *r, bool unindexed)
{
    if (r->unindexed == unindexed)
        return;
    r->unindexed = unindexed;
    hf_index_unindexed(&resource_locks(r)->agent->table, unindexed ? 1 : -1);
}

/* Takes the name out of the slot, the index and the text, where readers see it. */
static void resource_slot_blank(struct resource *r)
{
    struct locks *locks = resource_locks(r);

    resource_check(r);
    hf_assert(!resource_lease(r), "slot %u, generation %u", (unsigned)r->slot,
              (unsigned)r->generation);
    if (r->indexed)
        hf_index_remove(&locks->agent->table, r->name, r->name_len, r->slot);
    hf_slot_clear(&locks->agent->table.slots[r->slot]);
    if (r->has_text)
        hf_text_drop(locks->text, r->text_off, r->name_len, r->text_note_len, r->text_comm_len);
    r->indexed = r->has_text = false;
    resource_count_unindexed(r, false);
}

static void resource_slot_leave(struct resource *r)
{
    resource_slot_blank(r);
    chains_remove(&resource_locks(r)->names,
                  resource_name_hash(resource_locks(r), r->name, r->name_len), r->slot);
    resource_locks(r)->by_slot[r->slot] = NULL;
}

void resource_unstall(struct resource *r)
{
    if (!r->stalled)
        return;
    r->stalled = false;
    TAILQ_REMOVE(&resource_locks(r)->stalled, r, stalled_link);
}

static void resource_free(struct resource *r)
{
    resource_work_free(r);
    slab_give(r, resource_size_of(r->name_len));
}

static bool resource_in_use(const struct resource *r)
{
    return resource_lease(r) || r->work->round || r->work->granted || r->work->handoff ||
           r->undoing || !TAILQ_EMPTY(&r->work->waiters) || r->work->waited || r->work->touched;
}

static void resource_forget(struct resource *r)
{
    struct locks *locks = resource_locks(r);

    hf_assert(!resource_in_use(r), "slot %u, generation %u, undoing %d", (unsigned)r->slot,
              (unsigned)r->generation, r->undoing);
    loop_timer_cancel(locks->loop, &r->work->retry);
    if (r->idle)
        TAILQ_REMOVE(&locks->idle, r, idle_link);
    resource_unstall(r);
    resource_slot_leave(r);
    resource_free(r);
}

/* At rest from here on: its slot keeps the name until another name needs the slot. */
void resource_rest(struct resource *r)
{
    resource_check(r);
    hf_assert(!r->idle || !resource_in_use(r), "slot %u, idle and in use", (unsigned)r->slot);
    if (r->idle || resource_in_use(r))
        return;
    resource_unstall(r);
    r->idle = true;
    TAILQ_INSERT_TAIL(&resource_locks(r)->idle, r, idle_link);
    resource_calm(r);
}

void resource_rouse(struct resource *r)
{
    resource_check(r);
    if (!r->idle)
        return;
    r->idle = false;
    TAILQ_REMOVE(&resource_locks(r)->idle, r, idle_link);
}

/* (!) Before anybody writes to the slot: without memory that would raise SIGBUS. Journal and table take it for many
 * slots at a time. */
static bool resource_slot_has_memory(struct locks *locks, uint32_t slot)
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
static int resource_slot_take(struct locks *locks, uint32_t *ret_slot)
{
    uint32_t capacity = locks->config->capacity;
    struct resource *oldest;

    locks->no_memory = false;
    while (locks->next_slot < capacity && resource_slot_has_memory(locks, locks->next_slot)) {
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
        resource_forget(oldest);
        if (slot >= capacity || locks->generations[slot] >= HF_GEN_MAX)
            continue;
        *ret_slot = slot;
        return HF_OK;
    }
    return HF_EFULL;
}

void resources_say_full(const struct locks *locks, char *text, size_t size)
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

int resource_get(struct locks *locks, const void *name, size_t name_len,
                 struct resource **ret_resource)
{
    struct resource *r = resource_find(locks, name, name_len);
    uint32_t slot;

    if (!r) {
        if (resource_slot_take(locks, &slot) < 0)
            return HF_EFULL;
        r = resource_new(locks, name, name_len, slot);
        if (!r)
            return HF_ENOMEM;
        resource_rest(r);
    }
    *ret_resource = r;
    return HF_OK;
}

int resource_at(struct locks *locks, const void *name, size_t name_len, uint32_t slot,
                struct resource **ret_resource)
{
    struct resource *r;

    hf_assert(slot < locks->agent->table.capacity, "slot %u", (unsigned)slot);
    if (locks->by_slot[slot] || resource_find(locks, name, name_len))
        return HF_EBUSY;
    r = resource_new(locks, name, name_len, slot);
    if (!r)
        return HF_ENOMEM;
    *ret_resource = r;
    return HF_OK;
}

struct lease *resource_lease(const struct resource *r)
{
    return lease_table_at(resource_locks(r)->agent->leases, r->slot);
}

struct lease *resources_lease(struct locks *locks, uint32_t slot, uint32_t generation)
{
    struct lease *lease =
        slot < locks->agent->table.capacity ? lease_table_at(locks->agent->leases, slot) : NULL;

    return lease && lease->generation == generation ? lease : NULL;
}

/* The slot's generations are used up (after 16 million grants): the name moves to another. */
int resource_move(struct resource *r)
{
    struct locks *locks = resource_locks(r);
    uint32_t slot;
    int rc = resource_slot_take(locks, &slot);

    if (rc < 0)
        return rc;
    resource_slot_leave(r);
    r->slot = slot;
    chains_add(&locks->names, resource_name_hash(locks, r->name, r->name_len), slot);
    locks->by_slot[slot] = r;
    return HF_OK;
}

/* Names at rest free their texts, the longest at rest first, until there is room for this one. */
static int resource_text_put(struct resource *r, const struct lease *lease, uint32_t *ret_off)
{
    struct locks *locks = resource_locks(r);
    struct resource *resting = TAILQ_FIRST(&locks->idle);
    int rc;

    while ((rc = hf_text_put(locks->text, r->name, r->name_len, lease_note(lease), lease->note_len,
                             lease_comm(lease), lease->comm_len, ret_off)) == HF_EFULL) {
        while (resting && !resting->has_text)
            resting = TAILQ_NEXT(resting, idle_link);
        if (!resting)
            break;
        resource_slot_blank(resting);
    }
    return rc;
}

static bool resource_same_text(const struct resource *r, const struct lease *other)
{
    const struct lease *now = resource_lease(r);

    return now && r->has_text && now->note_len == other->note_len &&
           now->comm_len == other->comm_len &&
           memcmp(lease_note(now), lease_note(other), now->note_len) == 0 &&
           memcmp(lease_comm(now), lease_comm(other), now->comm_len) == 0;
}

int resource_text_prepare(struct resource *r, const struct lease *lease, uint32_t *ret_off,
                          bool *ret_new)
{
    *ret_new = !resource_same_text(r, lease);
    if (*ret_new)
        return resource_text_put(r, lease, ret_off);
    *ret_off = r->text_off;
    return HF_OK;
}

void resource_text_drop(struct resource *r, const struct lease *lease, uint32_t text_off)
{
    hf_text_drop(resource_locks(r)->text, text_off, r->name_len, lease->note_len, lease->comm_len);
}

void resource_text_switch(struct resource *r, const struct lease *lease, uint32_t text_off)
{
    if (r->has_text)
        hf_text_drop(resource_locks(r)->text, r->text_off, r->name_len, r->text_note_len,
                     r->text_comm_len);
    r->has_text = true;
    r->text_off = text_off;
    r->text_note_len = lease->note_len;
    r->text_comm_len = lease->comm_len;
}

int resource_publish(struct resource *r, struct lease *lease, bool stands, hf_time valid,
                     uint32_t votes, uint32_t flags)
{
    struct locks *locks = resource_locks(r);
    struct hf_slot_identity id = {.generation = lease->generation,
                                  .pid = lease->pid,
                                  .uid = lease->uid,
                                  .ttl_ms = lease->ttl_ms,
                                  .flags = flags,
                                  .text_off = r->text_off,
                                  .name_len = r->name_len,
                                  .note_len = lease->note_len,
                                  .comm_len = lease->comm_len,
                                  .fence = lease->fence,
                                  .since = lease->since};
    uint32_t old_off = r->text_off;
    uint8_t old_note = r->text_note_len, old_comm = r->text_comm_len;
    bool had_text = r->has_text && !stands;
    int rc = HF_OK;

    hf_assert(lease->slot == r->slot && lease->generation == r->generation,
              "slot %u, generation %u of %u, %u", (unsigned)lease->slot,
              (unsigned)lease->generation, (unsigned)r->slot, (unsigned)r->generation);
    hf_assert(!stands || r->has_text, "slot %u", (unsigned)r->slot);
    if (!stands)
        rc = resource_text_put(r, lease, &id.text_off);
    if (rc < 0)
        return rc;
    hf_slot_publish(&locks->agent->table.slots[r->slot], &id, valid, votes);
    /* The old text is freed only now: a reader that copied it sees the slot's sequence count changed.
     */
    if (had_text)
        hf_text_drop(locks->text, old_off, r->name_len, old_note, old_comm);
    r->has_text = true;
    r->text_off = id.text_off;
    r->text_note_len = lease->note_len;
    r->text_comm_len = lease->comm_len;
    if (!r->indexed) {
        rc = hf_index_add(&locks->agent->table, r->name, r->name_len, r->slot);
        r->indexed = rc == HF_OK;
        resource_count_unindexed(r, !r->indexed);
        if (!r->indexed && log_allows(&locks->index_full, LOG_LIMIT, clock_now()))
            log_warn("the name index is full in one place: programs look at each lease to find a "
                     "name; end the program that takes names which collide");
    }
    return HF_OK;
}

/* Which names are left out is known to the index alone: they are counted until the next start. */
void resources_index(struct locks *locks)
{
    hf_index_rebuild(&locks->agent->table);
    for (uint32_t i = 0; i < locks->slots_used; i++)
        if (locks->by_slot[i] && locks->by_slot[i]->has_text) {
            locks->by_slot[i]->indexed = true;
            locks->by_slot[i]->unindexed = false;
        }
}

int resources_create(struct locks *locks)
{
    uint32_t capacity = locks->agent->table.capacity;

    TAILQ_INIT(&locks->idle);
    TAILQ_INIT(&locks->stalled);
    TAILQ_INIT(&locks->touched);
    locks->no_work = malloc(sizeof(*locks->no_work));
    if (!locks->no_work)
        return HF_ENOMEM;
    /* TAILQ_EMPTY() of its waiters holds. */
    *locks->no_work = (struct resource_work){.locks = locks,
                                             .others_seen = HF_TIME_PAST,
                                             .yield_until = HF_TIME_PAST,
                                             .foreign_seen = HF_TIME_PAST};
    locks->by_slot = calloc(capacity, sizeof(struct resource *));
    locks->generations = calloc(capacity, sizeof(*locks->generations));
    locks->names.buckets = chains_buckets(capacity);
    locks->names.first = calloc(locks->names.buckets, sizeof(uint32_t));
    locks->names.links = calloc(capacity, sizeof(uint32_t));
    locks->names.step = sizeof(uint32_t);
    if (!locks->by_slot || !locks->generations || !locks->names.first || !locks->names.links)
        return HF_ENOMEM;
    return hf_text_pool_create(&locks->agent->table, &locks->text);
}

void resources_destroy(struct locks *locks)
{
    if (locks->by_slot)
        for (uint32_t i = 0; i < locks->agent->table.capacity; i++) {
            struct resource *r = locks->by_slot[i];

            if (!r)
                continue;
            resource_free(r);
        }
    free(locks->names.first);
    free(locks->names.links);
    hf_text_pool_destroy(locks->text);
    free(locks->by_slot);
    free(locks->generations);
    free(locks->no_work);
}
