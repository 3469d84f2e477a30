/* Names and their slots. A resource is a name that is held, waited for, or was so lately; its slot
 * keeps the name between holds, so that a lock that is taken again and again stays where it is. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/broker_internal.h"
#include "agent/clock.h"
#include "agent/log.h"
#include "agent/slab.h"
#include "shm/index.h"
#include "shm/slot.h"
#include "shm/status.h"

struct name_key {
    const void *name;
    size_t len;
};

static unsigned long name_hash(struct broker *b, const void *name, size_t len)
{
    /* Not the table's key, which every local user can read: names must not be made to collide. */
    return hf_name_hash(b->hash_key, name, len);
}

static int name_match(struct cds_lfht_node *node, const void *key)
{
    const struct resource *r = HF_CONTAINER(node, struct resource, node);
    const struct name_key *k = key;

    return r->name_len == k->len && memcmp(r->name, k->name, k->len) == 0;
}

struct resource *resource_find(struct broker *b, const void *name, size_t len)
{
    struct name_key key = {name, len};
    struct cds_lfht_iter iter;
    struct cds_lfht_node *node;

    rcu_read_lock();
    cds_lfht_lookup(b->resources, name_hash(b, name, len), name_match, &key, &iter);
    node = cds_lfht_iter_get_node(&iter);
    rcu_read_unlock();
    return node ? HF_CONTAINER(node, struct resource, node) : NULL;
}

static void on_retry(struct loop_timer *timer, hf_time now)
{
    struct resource *r = HF_CONTAINER(timer, struct resource, retry);

    if (wakeups_due(r, now))
        resource_kick(r);
}

static size_t size_of(size_t name_len)
{
    return offsetof(struct resource, name) + name_len;
}

static struct resource *resource_new(struct broker *b, const void *name, size_t len, uint32_t slot)
{
    struct resource *r = slab_take(size_of(len));

    if (!r)
        return NULL;
    r->b = b;
    r->slot = slot;
    r->generation = b->generations[slot];
    r->name_len = (uint8_t)len;
    memcpy(r->name, name, len);
    TAILQ_INIT(&r->waiters);
    r->others_seen = r->yield_until = HF_TIME_PAST;
    r->retry.fn = on_retry;
    cds_lfht_node_init(&r->node);
    rcu_read_lock();
    cds_lfht_add(b->resources, name_hash(b, name, len), &r->node);
    rcu_read_unlock();
    b->by_slot[slot] = r;
    return r;
}

/* Takes what readers see out of the slot, the index and the text. */
static void slot_blank(struct resource *r)
{
    struct broker *b = r->b;

    if (r->indexed)
        hf_index_remove(&b->agent->table, r->name, r->name_len, r->slot);
    hf_slot_clear(&b->agent->table.slots[r->slot]);
    if (r->has_text)
        hf_text_drop(b->text, r->text_off, r->name_len, r->text_note_len, r->text_comm_len);
    r->indexed = r->has_text = false;
}

static void slot_leave(struct resource *r)
{
    slot_blank(r);
    r->b->by_slot[r->slot] = NULL;
}

void resource_unstall(struct resource *r)
{
    if (!r->stalled)
        return;
    r->stalled = false;
    TAILQ_REMOVE(&r->b->stalled, r, stalled_link);
}

/* Only the broker looks into this map, so nobody else can still see the node. */
static void resource_forget(struct resource *r)
{
    struct broker *b = r->b;

    loop_timer_cancel(b->loop, &r->retry);
    if (r->idle)
        TAILQ_REMOVE(&b->idle, r, idle_link);
    resource_unstall(r);
    slot_leave(r);
    rcu_read_lock();
    (void)cds_lfht_del(b->resources, &r->node);
    rcu_read_unlock();
    slab_give(r, size_of(r->name_len));
}

static bool resource_in_use(const struct resource *r)
{
    return r->lease || r->round || r->granted || r->handoff || r->undoing ||
           !TAILQ_EMPTY(&r->waiters);
}

/* Unused from here on: its slot keeps the name until another name needs the slot. */
void resource_rest(struct resource *r)
{
    if (r->idle || resource_in_use(r))
        return;
    resource_unstall(r);
    r->idle = true;
    TAILQ_INSERT_TAIL(&r->b->idle, r, idle_link);
}

void resource_rouse(struct resource *r)
{
    if (!r->idle)
        return;
    r->idle = false;
    TAILQ_REMOVE(&r->b->idle, r, idle_link);
}

/* A slot for a new name: one never used, else the one longest at rest, so that readers who just
 * looked one up see its end rather than a stranger for as long as can be. */
static int slot_take(struct broker *b, uint32_t *ret_slot)
{
    struct resource *oldest;

    while (b->next_slot < b->agent->table.capacity) {
        uint32_t slot = b->next_slot++;

        if (b->by_slot[slot] || b->generations[slot] >= HF_GEN_MAX)
            continue; /* readopted, or retired: its generations are used up */
        if (slot >= b->slots_used) {
            b->slots_used = slot + 1;
            atomic_store_explicit(&b->agent->table.header->slots_used, b->slots_used,
                                  memory_order_release);
        }
        *ret_slot = slot;
        return HF_OK;
    }
    while ((oldest = TAILQ_FIRST(&b->idle))) {
        uint32_t slot = oldest->slot;

        resource_forget(oldest);
        if (b->generations[slot] >= HF_GEN_MAX)
            continue;
        *ret_slot = slot;
        return HF_OK;
    }
    return HF_EFULL;
}

int resource_get(struct broker *b, const void *name, size_t name_len,
                 struct resource **ret_resource)
{
    struct resource *r = resource_find(b, name, name_len);
    uint32_t slot;

    if (!r) {
        if (slot_take(b, &slot) < 0)
            return HF_EFULL;
        r = resource_new(b, name, name_len, slot);
        if (!r)
            return HF_ENOMEM;
        resource_rest(r);
    }
    *ret_resource = r;
    return HF_OK;
}

int resource_at(struct broker *b, const void *name, size_t name_len, uint32_t slot,
                struct resource **ret_resource)
{
    struct resource *r;

    if (b->by_slot[slot] || resource_find(b, name, name_len))
        return HF_EBUSY;
    r = resource_new(b, name, name_len, slot);
    if (!r)
        return HF_ENOMEM;
    *ret_resource = r;
    return HF_OK;
}

struct lease *resources_lease(struct broker *b, uint32_t slot, uint32_t generation)
{
    struct resource *r = slot < b->agent->table.capacity ? b->by_slot[slot] : NULL;

    return r && r->lease && r->lease->generation == generation ? r->lease : NULL;
}

/* The slot's generations are used up (after 16 million grants): the name moves to another. */
int resource_move(struct resource *r)
{
    struct broker *b = r->b;
    uint32_t slot;
    int rc = slot_take(b, &slot);

    if (rc < 0)
        return rc;
    slot_leave(r);
    r->slot = slot;
    b->by_slot[slot] = r;
    return HF_OK;
}

/* Names at rest give their text up, the longest at rest first, until there is room for this. */
static int text_put(struct resource *r, const struct lease *lease, uint32_t *ret_off)
{
    struct broker *b = r->b;
    struct resource *resting = TAILQ_FIRST(&b->idle);
    int rc;

    while ((rc = hf_text_put(b->text, r->name, r->name_len, lease_note(lease), lease->note_len,
                             lease_comm(lease), lease->comm_len, ret_off)) == HF_EFULL) {
        while (resting && !resting->has_text)
            resting = TAILQ_NEXT(resting, idle_link);
        if (!resting)
            break;
        slot_blank(resting);
    }
    return rc;
}

static bool same_text(const struct resource *r, const struct lease *other)
{
    const struct lease *now = r->lease;

    return now && r->has_text && now->note_len == other->note_len &&
           now->comm_len == other->comm_len &&
           memcmp(lease_note(now), lease_note(other), now->note_len) == 0 &&
           memcmp(lease_comm(now), lease_comm(other), now->comm_len) == 0;
}

int resource_text_prepare(struct resource *r, struct lease *lease, bool *ret_new)
{
    *ret_new = !same_text(r, lease);
    if (*ret_new)
        return text_put(r, lease, &lease->text_off);
    lease->text_off = r->text_off;
    return HF_OK;
}

void resource_text_drop(struct resource *r, const struct lease *lease)
{
    hf_text_drop(r->b->text, lease->text_off, r->name_len, lease->note_len, lease->comm_len);
}

void resource_text_switch(struct resource *r, const struct lease *lease)
{
    if (r->has_text)
        hf_text_drop(r->b->text, r->text_off, r->name_len, r->text_note_len, r->text_comm_len);
    r->has_text = true;
    r->text_off = lease->text_off;
    r->text_note_len = lease->note_len;
    r->text_comm_len = lease->comm_len;
}

int resource_publish(struct resource *r, struct lease *lease, bool stands, hf_time valid,
                     uint32_t votes, uint32_t flags)
{
    struct broker *b = r->b;
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

    if (!stands)
        rc = text_put(r, lease, &id.text_off);
    if (rc < 0)
        return rc;
    hf_slot_publish(&b->agent->table.slots[r->slot], &id, valid, votes);
    /* The old text goes only now: a reader that copied it sees the slot's sequence count changed.
     */
    if (had_text)
        hf_text_drop(b->text, old_off, r->name_len, old_note, old_comm);
    r->has_text = true;
    r->text_off = id.text_off;
    r->text_note_len = lease->note_len;
    r->text_comm_len = lease->comm_len;
    if (!r->indexed) {
        rc = hf_index_add(&b->agent->table, r->name, r->name_len, r->slot);
        r->indexed = rc == HF_OK;
        if (!r->indexed && log_allows(&b->index_full, LOG_LIMIT, clock_now()))
            log_warn("the name index is full in one place: a lease is held but cannot be looked up "
                     "by name");
    }
    return HF_OK;
}

int resources_create(struct broker *b)
{
    uint32_t capacity = b->agent->table.capacity;
    unsigned long buckets = 1;

    while (2 * buckets < capacity) /* two to a bucket: a hop more, and half the memory */
        buckets <<= 1;
    TAILQ_INIT(&b->idle);
    TAILQ_INIT(&b->stalled);
    b->stalled_timer.fn = resources_on_stalled_timer;
    b->by_slot = calloc(capacity, sizeof(struct resource *));
    b->generations = calloc(capacity, sizeof(*b->generations));
    /* Sized at once: growing it by itself can deadlock its end in liburcu 0.13. */
    b->resources = cds_lfht_new(buckets, buckets, buckets, 0, NULL);
    if (!b->by_slot || !b->generations || !b->resources ||
        getrandom(b->hash_key, sizeof(b->hash_key), 0) != sizeof(b->hash_key))
        return HF_ENOMEM;
    return hf_text_pool_create(&b->agent->table, &b->text);
}

void resources_destroy(struct broker *b)
{
    if (b->by_slot && b->resources)
        for (uint32_t i = 0; i < b->agent->table.capacity; i++) {
            struct resource *r = b->by_slot[i];

            if (!r)
                continue;
            rcu_read_lock();
            (void)cds_lfht_del(b->resources, &r->node);
            rcu_read_unlock();
            handoff_destroy(r->handoff);
            slab_give(r, size_of(r->name_len));
        }
    if (b->resources)
        (void)cds_lfht_destroy(b->resources, NULL);
    hf_text_pool_destroy(b->text);
    free(b->by_slot);
    free(b->generations);
}
