#include "agent/lease.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent/beats.h"
#include "agent/slab.h"
#include "agent/tsan.h"
#include "shm/compiler.h"
#include "shm/index.h"
#include "shm/status.h"

/* The table is many small cds_lfht, chosen by the hash's upper bits, so that a walk can leave its
 * read section between two of them: an iterator of one cds_lfht is worth nothing after its section,
 * and one long section would hold up every free. Buckets are fixed from the start: resizing has a
 * thread of its own in liburcu 0.13, and destroying a table that is being resized can deadlock
 * there. */
#define SHARD_LEASES 512 /* two to a bucket: what one read section of a walk sees, more or less */

#define REMOVED_MOST 64 /* that wait for a grace period to begin */

struct lease_table {
    struct lease *removed;
    unsigned removed_count;
    uint8_t hash_key[16]; /* names come from local users: they must not make them collide */
    unsigned shard_shift;
    size_t shards;
    struct cds_lfht *shard[];
};

/* What readers release and frees acquire: TSan does not know that a grace period orders the two. */
HF_UNUSED static char grace;

struct wanted {
    const void *name;
    size_t name_len;
};

/* --- one lease ------------------------------------------------------------------------------- */

static size_t whole_size(const struct lease *lease)
{
    return offsetof(struct lease, fsm) + lease_fsm_size(lease->nodes) +
           lease->nodes * sizeof(struct lease_node) + lease->name_len +
           (lease->key_is_name ? 0u : lease->key_len) + lease->note_len + 1u + lease->comm_len +
           1u + (lease->has_extra ? _Alignof(struct lease_extra) + sizeof(struct lease_extra) : 0);
}

struct lease *lease_new(int nodes, const struct lease_words *words)
{
    bool same =
        words->key_len == words->name_len && memcmp(words->key, words->name, words->name_len) == 0;
    const struct lease facts = {.nodes = (uint8_t)nodes,
                                .name_len = (uint8_t)words->name_len,
                                .key_len = (uint16_t)words->key_len,
                                .key_is_name = same,
                                .note_len = (uint8_t)words->note_len,
                                .comm_len = (uint8_t)(words->comm ? strlen(words->comm) : 0),
                                .has_extra = words->extra || words->heartbeat_ms};
    struct lease *lease = slab_take(whole_size(&facts));

    if (!lease)
        return NULL;
    memcpy(lease, &facts, offsetof(struct lease, fsm));
    memcpy((uint8_t *)lease_name(lease), words->name, words->name_len);
    memcpy((uint8_t *)lease_key(lease), words->key, words->key_len);
    if (lease->note_len)
        memcpy((char *)lease_note(lease), words->note, lease->note_len);
    if (words->comm)
        memcpy((char *)lease_comm(lease), words->comm, lease->comm_len);
    if (lease->has_extra)
        *lease_extra(lease) = (struct lease_extra){.token_end = HF_TIME_NEVER,
                                                   .heartbeat_ms = words->heartbeat_ms,
                                                   .beat_word = words->beat_word};
    return lease;
}

void lease_set_token(struct lease *lease, hf_time won, hf_time token_end)
{
    lease_extra(lease)->won = won;
    lease_extra(lease)->token_end = token_end;
}

void lease_free(struct lease *lease)
{
    if (!lease)
        return;
    if (lease->has_extra)
        beats_drop(lease_extra(lease)->beats);
    explicit_bzero(lease->token, sizeof(lease->token));
    slab_give(lease, whole_size(lease));
}

static void free_after_grace(struct rcu_head *head)
{
    tsan_acquire(&grace);
    lease_free(HF_CONTAINER(head, struct lease, rcu));
}

/* --- the table ------------------------------------------------------------------------------- */

static struct lease *lease_of(struct cds_lfht_node *node)
{
    struct lease *lease = HF_CONTAINER(node, struct lease, table_node);

    tsan_acquire(lease);
    return lease;
}

static unsigned long hash_of(const struct lease_table *table, const void *name, size_t name_len)
{
    return hf_name_hash(table->hash_key, name, name_len);
}

static struct cds_lfht *shard_of(const struct lease_table *table, unsigned long hash)
{
    return table->shard[table->shards > 1 ? hash >> table->shard_shift : 0];
}

static size_t power_of_two(size_t least)
{
    size_t n = 1;

    while (n < least)
        n *= 2;
    return n;
}

int lease_table_create(uint32_t capacity, struct lease_table **ret_table)
{
    size_t shards = power_of_two(capacity / SHARD_LEASES);
    size_t buckets = power_of_two((capacity < SHARD_LEASES ? capacity : SHARD_LEASES) / 2);
    struct lease_table *table = calloc(1, sizeof(*table) + shards * sizeof(struct cds_lfht *));

    if (!table)
        return HF_ENOMEM;
    if (getrandom(table->hash_key, sizeof(table->hash_key), 0) != sizeof(table->hash_key)) {
        free(table);
        return HF_ESYS;
    }
    table->shard_shift = 32;
    for (size_t n = shards; n > 1; n /= 2)
        table->shard_shift--;
    for (; table->shards < shards; table->shards++) {
        struct cds_lfht *shard = cds_lfht_new(buckets, buckets, buckets, 0, NULL);

        if (!shard) {
            lease_table_destroy(table);
            return HF_ENOMEM;
        }
        table->shard[table->shards] = shard;
    }
    *ret_table = table;
    return HF_OK;
}

struct last_free {
    struct rcu_head rcu;
    sem_t reached;
};

static void reach_last_free(struct rcu_head *head)
{
    (void)sem_post(&HF_CONTAINER(head, struct last_free, rcu)->reached);
}

/* Frees run in the order of their call_rcu(), all on liburcu's one worker. (rcu_barrier() waits
 * too, but TSan takes what it does inside for races.) */
static void wait_for_frees(void)
{
    struct last_free last;

    (void)sem_init(&last.reached, 0, 0);
    call_rcu(&last.rcu, reach_last_free);
    while (sem_wait(&last.reached) != 0)
        continue;
    (void)sem_destroy(&last.reached);
}

void lease_table_destroy(struct lease_table *table)
{
    if (!table)
        return;
    lease_table_tidy(table);
    for (size_t i = 0; i < table->shards; i++) {
        struct cds_lfht_iter iter;
        struct cds_lfht_node *node;

        tsan_release(&grace);
        rcu_read_lock();
        cds_lfht_for_each(table->shard[i], &iter, node)
        {
            struct lease *lease = lease_of(node);

            if (cds_lfht_del(table->shard[i], node) == 0)
                call_rcu(&lease->rcu, free_after_grace);
        }
        rcu_read_unlock();
        (void)cds_lfht_destroy(table->shard[i], NULL);
    }
    wait_for_frees();
    free(table);
}

void lease_table_add(struct lease_table *table, struct lease *lease)
{
    unsigned long hash = hash_of(table, lease_name(lease), lease->name_len);

    cds_lfht_node_init(&lease->table_node);
    tsan_release(lease);
    rcu_read_lock();
    cds_lfht_add(shard_of(table, hash), hash, &lease->table_node);
    rcu_read_unlock();
}

void lease_table_remove(struct lease_table *table, struct lease *lease)
{
    unsigned long hash = hash_of(table, lease_name(lease), lease->name_len);

    rcu_read_lock();
    (void)cds_lfht_del(shard_of(table, hash), &lease->table_node);
    rcu_read_unlock();
    lease->removed = table->removed;
    table->removed = lease;
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
        tsan_release(&grace); /* behind the last look at this lease */
        call_rcu(&lease->rcu, free_after_grace);
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

static int has_name(struct cds_lfht_node *node, const void *key)
{
    const struct wanted *wanted = key;
    const struct lease *lease = lease_of(node);

    return lease->name_len == wanted->name_len &&
           memcmp(lease_name(lease), wanted->name, wanted->name_len) == 0;
}

struct lease *lease_table_find(struct lease_table *table, const void *name, size_t name_len)
{
    struct wanted wanted = {name, name_len};
    unsigned long hash = hash_of(table, name, name_len);
    struct cds_lfht_iter iter;
    struct cds_lfht_node *node;

    cds_lfht_lookup(shard_of(table, hash), hash, has_name, &wanted, &iter);
    node = cds_lfht_iter_get_node(&iter);
    return node ? lease_of(node) : NULL;
}

size_t lease_table_walk(struct lease_table *table, void (*fn)(const struct lease *, void *),
                        void *arg)
{
    size_t count = 0;

    for (size_t i = 0; i < table->shards; i++) {
        struct cds_lfht_iter iter;
        struct cds_lfht_node *node;

        lease_read_begin();
        cds_lfht_for_each(table->shard[i], &iter, node)
        {
            fn(lease_of(node), arg);
            count++;
        }
        lease_read_end();
    }
    return count;
}
