#include "agent/state/lease.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/base/slab.h"
#include "agent/base/thread.h"
#include "agent/core/fence.h"
#include "agent/state/journal.h"
#include "shm/assert.h"
#include "shm/compiler.h"
#include "shm/ring.h"
#include "shm/slot.h"
#include "shm/status.h"
#include "shm/wordings.h"

#define WALK_SLOTS   512 /* in one read section: a longer one would hold up every free */
#define REMOVED_MOST 64  /* leases that wait for a grace period to begin */

/* C11 release and acquire instead of rcu_assign_pointer() and rcu_dereference(): the same
 * instructions, and TSan understands them. */
struct lease_table {
    struct lease *removed;
    unsigned removed_count;
    uint32_t capacity;
    _Atomic uint32_t used; /* no slot from here on ever had a lease */
    _Atomic(struct lease *) slot[];
};

/* What readers release and frees acquire: TSan does not know that a grace period orders the two. */
HF_UNUSED static char grace;

/* --- one lease ------------------------------------------------------------------------------- */

static size_t lease_whole_size(const struct lease *lease)
{
    return offsetof(struct lease, fsm) + lease_fsm_size(lease->nodes) +
           lease->nodes * sizeof(struct lease_node) + lease->name_len +
           (lease->key_is_name ? 0u : lease->key_len) + lease->note_len + 1u + lease->comm_len +
           1u + (lease->has_extra ? _Alignof(struct lease_extra) + sizeof(struct lease_extra) : 0);
}

struct lease *lease_new(int nodes, const struct lease_words *words)
{
    const struct holder *who = words->holder;
    bool same =
        words->key_len == words->name_len && memcmp(words->key, words->name, words->name_len) == 0;
    const struct lease facts = {.nodes = (uint8_t)nodes,
                                .name_len = (uint8_t)words->name_len,
                                .key_len = (uint16_t)words->key_len,
                                .key_is_name = same,
                                .note_len = who->note_len,
                                .comm_len = who->comm_len,
                                .pid = who->pid,
                                .uid = who->uid,
                                .request_id = who->request_id,
                                .is_job = who->is_job,
                                .has_extra = words->extra || who->heartbeat_ms};
    struct lease *lease = slab_take(lease_whole_size(&facts));

    hf_assert(nodes >= 1 && nodes <= HF_NODES_MAX, "nodes %d", nodes);
    hf_assert(words->name_len >= 1 && words->name_len <= HF_NAME_MAX && words->key_len >= 1 &&
                  who->note_len <= HF_NOTE_MAX && who->comm_len <= HF_COMM_MAX,
              "name_len %zu, key_len %zu, note_len %u, comm_len %u", words->name_len,
              words->key_len, who->note_len, who->comm_len);
    if (!lease)
        return NULL;
    memcpy(lease, &facts, offsetof(struct lease, fsm));
    memcpy((uint8_t *)lease_name(lease), words->name, words->name_len);
    memcpy((uint8_t *)lease_key(lease), words->key, words->key_len);
    memcpy((char *)lease_note(lease), who->note, who->note_len);
    memcpy((char *)lease_comm(lease), who->comm, who->comm_len);
    if (lease->has_extra)
        *lease_extra(lease) = (struct lease_extra){.token_end = HF_TIME_NEVER,
                                                   .heartbeat_ms = who->heartbeat_ms,
                                                   .beat_word = who->beat_word};
    return lease;
}

void lease_set_token(struct lease *lease, hf_time won, hf_time token_end)
{
    hf_assert(lease->has_extra, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    lease_extra(lease)->won = won;
    lease_extra(lease)->token_end = token_end;
}

void lease_free(struct lease *lease)
{
    if (!lease)
        return;
    if (lease->has_extra)
        beats_drop(lease_extra(lease)->beats);
    explicit_bzero(&lease->token, sizeof(lease->token));
    slab_give(lease, lease_whole_size(lease));
}

static void lease_free_after_grace(struct rcu_head *head)
{
    tsan_acquire(&grace);
    lease_free(HF_CONTAINER(head, struct lease, rcu));
}

/* --- the table ------------------------------------------------------------------------------- */

int lease_table_create(uint32_t capacity, struct lease_table **ret_table)
{
    struct lease_table *table = calloc(1, sizeof(*table) + capacity * sizeof(table->slot[0]));

    if (!table)
        return HF_ENOMEM;
    table->capacity = capacity;
    *ret_table = table;
    return HF_OK;
}

struct last_free {
    struct rcu_head rcu;
    sem_t reached;
};

static void lease_reach_last_free(struct rcu_head *head)
{
    (void)sem_post(&HF_CONTAINER(head, struct last_free, rcu)->reached);
}

/* Frees run in the order of their call_rcu(), all on liburcu's one worker. (rcu_barrier() waits
 * too, but TSan takes what it does inside for races.) */
static void lease_wait_for_frees(void)
{
    struct last_free last;

    (void)sem_init(&last.reached, 0, 0);
    call_rcu(&last.rcu, lease_reach_last_free);
    while (sem_wait(&last.reached) != 0)
        continue;
    (void)sem_destroy(&last.reached);
}

void lease_table_destroy(struct lease_table *table)
{
    if (!table)
        return;
    lease_table_tidy(table);
    lease_wait_for_frees();
    for (uint32_t slot = 0; slot < atomic_load(&table->used); slot++)
        lease_free(lease_table_at(table, slot));
    free(table);
}

void lease_table_add(struct lease_table *table, struct lease *lease)
{
    hf_assert(lease->slot < table->capacity, "slot %u of %u", (unsigned)lease->slot,
              (unsigned)table->capacity);
    hf_assert(lease->generation >= 1 && lease->generation <= HF_GEN_MAX, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    hf_assert(!lease_table_at(table, lease->slot), "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    atomic_store_explicit(&table->slot[lease->slot], lease, memory_order_release);
    if (lease->slot >= atomic_load_explicit(&table->used, memory_order_relaxed))
        atomic_store_explicit(&table->used, lease->slot + 1, memory_order_release);
}

void lease_table_remove(struct lease_table *table, uint32_t slot)
{
    struct lease *lease = lease_table_at(table, slot);

    hf_assert(lease && lease->slot == slot, "slot %u", (unsigned)slot);
    atomic_store_explicit(&table->slot[slot], NULL, memory_order_relaxed);
    lease->removed = table->removed;
    table->removed = lease;
    hf_assert(table->removed_count < REMOVED_MOST, "slot %u, removed %u", (unsigned)slot,
              table->removed_count);
    if (++table->removed_count == REMOVED_MOST)
        lease_table_tidy(table);
}

void lease_table_tidy(struct lease_table *table)
{
    struct lease *lease = table->removed, *next;

    table->removed = NULL;
    table->removed_count = 0;
    for (; lease; lease = next) {
        next = lease->removed;
        tsan_release(&grace); /* after the last read of this lease */
        call_rcu(&lease->rcu, lease_free_after_grace);
    }
}

/* --- readers --------------------------------------------------------------------------------- */

void lease_read_begin(void)
{
    rcu_read_lock();
}

void lease_read_end(void)
{
    tsan_release(&grace);
    rcu_read_unlock();
}

struct lease *lease_table_at(const struct lease_table *table, uint32_t slot)
{
    return atomic_load_explicit(&table->slot[slot], memory_order_acquire);
}

size_t lease_table_walk(const struct lease_table *table, void (*fn)(const struct lease *, void *),
                        void *arg)
{
    uint32_t used = atomic_load_explicit(&table->used, memory_order_acquire);
    size_t count = 0;

    for (uint32_t first = 0; first < used; first += WALK_SLOTS) {
        uint32_t end = used - first > WALK_SLOTS ? first + WALK_SLOTS : used;

        lease_read_begin();
        for (uint32_t slot = first; slot < end; slot++) {
            const struct lease *lease = lease_table_at(table, slot);

            if (!lease)
                continue;
            fn(lease, arg);
            count++;
        }
        lease_read_end();
    }
    return count;
}

/* --- losses ----------------------------------------------------------------------------------- */

void losses_count(struct hf_table *table, enum hf_loss_reason reason)
{
    enum hf_counter counter;

    if (reason != HF_LOSS_ASKED)
        hf_counter_add(table, HF_COUNTER_LOSSES, 1);
    if (hf_loss_counter(reason, &counter))
        hf_counter_add(table, counter, 1);
}

bool losses_at_will(enum hf_loss_reason reason)
{
    return reason == HF_LOSS_ASKED || reason == HF_LOSS_MAX_HOLD || reason == HF_LOSS_GUARDIAN ||
           reason == HF_LOSS_HOLDER || reason == HF_LOSS_HEARTBEAT;
}

/* --- heartbeats ------------------------------------------------------------------------------- */

struct beats {
    const _Atomic uint32_t *words;
    atomic_uint references;
};

struct beats *beats_new(const _Atomic uint32_t *words)
{
    struct beats *beats = malloc(sizeof(*beats));

    if (!beats) {
        hf_beats_unmap(words);
        return NULL;
    }
    beats->words = words;
    atomic_init(&beats->references, 1);
    return beats;
}

struct beats *beats_hold(struct beats *beats)
{
    if (beats)
        atomic_fetch_add(&beats->references, 1);
    return beats;
}

void beats_drop(struct beats *beats)
{
    if (!beats || atomic_fetch_sub(&beats->references, 1) > 1)
        return;
    hf_beats_unmap(beats->words);
    free(beats);
}

uint32_t beats_count(const struct beats *beats, uint32_t word)
{
    hf_assert(word < HF_BEATS, "word %u", (unsigned)word);
    return beats ? atomic_load_explicit(&beats->words[word], memory_order_relaxed) : 0;
}

/* --- hand-offs -------------------------------------------------------------------------------- */

/* The facts by which either thread judges a hand-off. */

struct handoff_facts handoff_facts(const struct lease *lease, enum hf_slot_state state,
                                   hf_time valid, hf_dur next_ttl, hf_time next_end, hf_time now)
{
    return (struct handoff_facts){
        .now = now,
        .state = state,
        .renewed = true,
        .valid = valid,
        .ttl = hf_ms(lease->ttl_ms),
        .next_ttl = next_ttl,
        .count = fence_handoffs(lease->fence),
        .won = lease_won(lease),
        .turn = handoff_turn(hf_ms(lease->ttl_ms), HF_TIME_PAST, now),
        .token_end = lease_token_end(lease),
        .next_end = next_end,
    };
}
/* --- a lease's record and slot ---------------------------------------------------------------- */

void lease_journal(struct agent *agent, const struct lease *lease, enum journal_state state)
{
    struct journal_lease record = {.state = state,
                                   .slot_state = lease->fsm.state,
                                   .reason = lease->fsm.reason,
                                   .generation = lease->generation,
                                   .fence = lease->fence};
    int latest = 0;

    hf_assert(lease->generation >= 1 && lease->generation <= HF_GEN_MAX, "slot %u, generation %u",
              (unsigned)lease->slot, (unsigned)lease->generation);
    hf_assert(lease->fence != 0, "slot %u, generation %u", (unsigned)lease->slot,
              (unsigned)lease->generation);
    for (int i = 0; i < lease->fsm.n; i++) {
        record.d[i] = lease_fsm_d(&lease->fsm, i);
        if (hf_time_before(record.d[latest], record.d[i]))
            latest = i;
    }
    /* (!) Whatever became of the votes, a job lives until the V that it was shown. */
    if (lease->fsm.state == HF_SLOT_LOST)
        record.d[latest] = hf_time_max(record.d[latest], lease->fsm.valid);
    journal_put(agent->journal, lease->slot, &record);
}

void lease_record_end(struct agent *agent, struct lease *lease)
{
    struct hf_slot *slot = &agent->table.slots[lease->slot];

    hf_assert(lease->fsm.state == HF_SLOT_LOST || lease->fsm.state == HF_SLOT_ENDED,
              "slot %u, state %d", (unsigned)lease->slot, (int)lease->fsm.state);
    lease_journal(agent, lease, JOURNAL_ENDING);
    hf_slot_withdraw(slot);
    atomic_store(&lease->valid_ns, 0);
    atomic_store(&lease->state, (uint8_t)lease->fsm.state);
    hf_slot_end(slot, lease->fsm.state, lease->fsm.reason);
}
