/* Handles: how they are made and end, and how a lease's slot is read. */
#include "libclient/internal.h"

#include "shm/assert.h"
#include "shm/slot.h"
#include "shm/wordings.h"

_Static_assert(HF_PRIVATE_GEN_SHIFT == HF_CHECK_GEN_SHIFT, "holdfast.h knows the check word");
_Static_assert(HF_PRIVATE_TIME_SHIFT == HF_CHECK_TIME_SHIFT, "holdfast.h knows the check word");
_Static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t) &&
                   sizeof(_Atomic uint32_t) == sizeof(uint32_t),
               "what holdfast.h reads are plain words");
_Static_assert((int)HF_STATE_HELD == (int)HF_SLOT_HELD && (int)HF_STATE_LATE == (int)HF_SLOT_LATE &&
                   (int)HF_STATE_LOSING == (int)HF_SLOT_LOSING &&
                   (int)HF_STATE_LOST == (int)HF_SLOT_LOST &&
                   (int)HF_STATE_RELEASED == (int)HF_SLOT_ENDED,
               "the API's states are the slot's");
_Static_assert(offsetof(struct hfc_lease, handle) == 0, "one address");

#define GLANCES 8

static const struct hf_slot *lease_slot_of(const struct hfc_lease *lease)
{
    return &lease->map->table.slots[lease->slot];
}

int hfc_lease_make(hf_client *client, uint32_t slot, uint32_t generation, uint64_t fence,
                   bool is_job, uint32_t beat_word, hf_lease **ret_lease)
{
    struct hfc_map *map = client->session->map;
    const struct hf_slot *at;
    struct hfc_lease *lease;
    int64_t until_ns;

    if (slot >= hf_table_slots(&map->table) || generation == 0 || generation > HF_GEN_MAX)
        return HF_EPROTO;
    at = &map->table.slots[slot];
    if (!hf_check_holds(atomic_load(&at->check), generation, (hf_time){hfc_now()}))
        return HF_ELOST;
    lease = hfc_pool_take(client);
    if (!lease)
        return HF_ENOMEM;
    /* (!) A handle that is in use and given out again would say "held" of another's lock. */
    hf_assert(__atomic_load_n(&lease->handle.hf_private_generation, __ATOMIC_RELAXED) == 0,
              "slot %u, generation %u", (unsigned)slot, (unsigned)generation);
    /* (!) So would the word of a table that is unmapped, and another one in its place. */
    hf_assert(map->refs > 0, "slot %u, generation %u", (unsigned)slot, (unsigned)generation);
    lease->client = client;
    lease->map = map;
    map->refs++;
    lease->fence = fence;
    lease->slot = slot;
    lease->generation = generation;
    lease->ttl_ms = atomic_load(&at->ttl_ms);
    lease->is_job = is_job;
    lease->thread = 0;
    lease->number = HF_ENOTHELD;
    lease->beat_word = beat_word;
    lease->reported = HF_STATE_HELD;
    lease->once_asker = 0;
    lease->fn = NULL;
    lease->arg = NULL;
    atomic_store(&lease->final, 0);
    atomic_store(&lease->reason, HF_LOSS_NONE);
    lease->handle.hf_private_beat = beat_word ? client->beats + beat_word : NULL;
    lease->handle.hf_private_agent =
        (const uint32_t *)(const void *)&map->table.header->incarnation;
    lease->handle.hf_private_known = &client->known;
    lease->handle.hf_private_word = (const uint64_t *)(const void *)&at->check;
    __atomic_store_n(&lease->handle.hf_private_generation, generation, __ATOMIC_RELEASE);
    *ret_lease = &lease->handle;
    until_ns = hf_valid_until_ns(&lease->handle);
    client->until_ns = hfc_min(client->until_ns, until_ns);
    hfc_timer_pull(client, until_ns);
    return HF_OK;
}

void hfc_lease_drop(struct hfc_lease *lease)
{
    __atomic_store_n(&lease->handle.hf_private_generation, 0, __ATOMIC_RELEASE);
    lease->fn = NULL;
    hfc_beats_give(lease->client, lease->beat_word);
    hfc_map_unref(lease->map);
    hfc_pool_give(lease);
}

/* No agent extends a lease for longer than the fleet's ttl_max, which may have become smaller than the TTL that was asked for. */
static int64_t lease_ttl_ns(const struct hfc_lease *lease)
{
    int64_t most_ms =
        atomic_load_explicit(&lease->map->table.header->ttl_max_ms, memory_order_relaxed);

    return (most_ms && most_ms < lease->ttl_ms ? most_ms : lease->ttl_ms) * HF_NS_PER_MS;
}

static int64_t lease_losing_before_ns(const struct hfc_lease *lease)
{
    return lease_ttl_ns(lease) * 3 / 10;
}

int64_t hfc_lease_next(struct hfc_lease *lease, int64_t now_ns)
{
    int64_t until_ns = hf_valid_until_ns(&lease->handle);
    int64_t late_ns = until_ns - lease_ttl_ns(lease) / 2;
    int64_t losing_ns = until_ns - lease_losing_before_ns(lease);

    if (now_ns < late_ns)
        return late_ns;
    /* That an agent has just gone is known a moment later. */
    if (now_ns < losing_ns + HFC_GONE_NS)
        return hfc_min(now_ns < losing_ns ? losing_ns : now_ns + HFC_GONE_NS / 10, until_ns);
    return until_ns;
}

/* --- reading: any thread, and signal handlers ------------------------------------------------- */

static int64_t lease_valid_until(hf_lease *handle, int64_t *ret_now)
{
    uint64_t generation, word;
    int64_t until_ns;

    if (!handle)
        return 0;
    generation = __atomic_load_n(&handle->hf_private_generation, __ATOMIC_ACQUIRE);
    if (!generation)
        return 0;
    word = __atomic_load_n(handle->hf_private_word, __ATOMIC_ACQUIRE);
    *ret_now = hfc_now();
    until_ns = (int64_t)((word & HF_CHECK_TIME_MASK) << HF_CHECK_TIME_SHIFT);
    if (word >> HF_CHECK_GEN_SHIFT == generation && *ret_now < until_ns)
        return until_ns;
    __atomic_store_n(&handle->hf_private_generation, 0, __ATOMIC_RELEASE);
    return 0;
}

static int64_t lease_remaining_ns(hf_lease *handle)
{
    int64_t now = 0, until_ns = lease_valid_until(handle, &now);

    return until_ns ? until_ns - now : 0;
}

int64_t hf_remaining_ms(hf_lease *handle)
{
    return lease_remaining_ns(handle) / HF_NS_PER_MS;
}

int64_t hf_valid_until_ns(hf_lease *handle)
{
    int64_t now;

    return lease_valid_until(handle, &now);
}

uint64_t hf_fence(const hf_lease *handle)
{
    return handle ? ((const struct hfc_lease *)handle)->fence : 0;
}

/* State and reason of this lease in its slot; false when the slot is another lease's by now, or
 * could not be read consistently (a writer killed inside): then only the check word counts. */
static bool lease_glance(const struct hfc_lease *lease, uint32_t *ret_state, uint32_t *ret_reason)
{
    const struct hf_slot *slot = lease_slot_of(lease);

    for (int i = 0; i < GLANCES; i++) {
        uint32_t seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
        uint32_t generation = atomic_load_explicit(&slot->generation, memory_order_acquire);
        uint32_t lengths = atomic_load_explicit(&slot->lengths, memory_order_acquire);
        uint32_t marks = atomic_load_explicit(&slot->marks, memory_order_acquire);

        if (seq & 1 || atomic_load_explicit(&slot->seq, memory_order_relaxed) != seq)
            continue;
        if (generation != lease->generation)
            return false;
        *ret_state = lengths >> 24;
        *ret_reason = marks >> 24;
        return true;
    }
    return false;
}

int hf_state(hf_lease *handle)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    uint32_t state = HF_SLOT_HELD, reason = HF_LOSS_NONE, final;
    int64_t left;
    bool seen;

    if (!lease)
        return HF_EINVAL;
    if (!lease->client)
        return HF_EFORKED;
    final = atomic_load(&lease->final);
    if (final)
        return (int) final;
    left = lease_remaining_ns(handle);
    seen = lease_glance(lease, &state, &reason);
    if (seen && reason != HF_LOSS_NONE)
        atomic_store(&lease->reason, reason);
    if (left > 0) {
        if (seen && state == HF_SLOT_LOSING)
            return HF_STATE_LOSING;
        /* (!) By our own clock only when there is no agent to say it: a living agent decides, and one
         * that comes back may extend it. */
        if (left <= lease_losing_before_ns(lease) &&
            hfc_table_is_silent(&lease->map->table, hfc_now(), HFC_GONE_NS))
            return HF_STATE_LOSING;
        /* LATE by the clock too: the agent that should say so may be dead. */
        if ((seen && state == HF_SLOT_LATE) || left < lease_ttl_ns(lease) / 2)
            return HF_STATE_LATE;
        return HF_STATE_HELD;
    }
    final = seen && state == HF_SLOT_ENDED ? HF_STATE_RELEASED : HF_STATE_LOST;
    atomic_store(&lease->final, final);
    return (int) final;
}

const char *hf_reason(hf_lease *handle)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    int state = hf_state(handle);
    uint32_t slot_state, reason = HF_LOSS_NONE;

    if (state != HF_STATE_LOSING && state != HF_STATE_LOST)
        return "";
    /* The agent withdraws the word first and writes the reason after it. */
    if (lease_glance(lease, &slot_state, &reason) && reason != HF_LOSS_NONE)
        atomic_store(&lease->reason, reason);
    reason = atomic_load(&lease->reason);
    if (reason == HF_LOSS_NONE && atomic_load(&lease->map->replaced))
        reason = HF_LOSS_RESTART;
    if (reason == HF_LOSS_NONE && state == HF_STATE_LOSING)
        return "the agent is gone or hangs, and does not renew it";
    if (reason == HF_LOSS_NONE)
        return "its validity ended without a renewal";
    return hf_loss_text(reason);
}

void hf_lease_free(hf_lease *handle)
{
    struct hfc_lease *lease = hfc_lease_of(handle);
    hf_client *client = lease ? lease->client : NULL;

    if (!client) /* NULL, or emptied by fork(): hf_disconnect() frees the page */
        return;
    hfc_lock(client);
    hfc_lease_drop(lease);
    hfc_unlock(client);
}
