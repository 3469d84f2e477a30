/* What a lease takes in the agent and in the table, with a name of 32 bytes on three nodes: by the sizes of
 * what is made for each, so that it does not grow unnoticed. The journal stands beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/broker/locks/names.h"
#include "agent/renewal/renewal_internal.h"
#include "agent/base/slab.h"
#include "shm/table.h"
#include "tests/support/chunks.h"
#include "tests/support/scratch.h"

#define NODES    3
#define LEASES   1000000 /* of the arrays by slot */
#define CAPACITY 131072  /* of the table */
#define NAME     "orders/eu-west/00000000000000017"
#define NAME_LEN (sizeof(NAME) - 1)
#define CELLS    10000

/* The bytes of so many of them in the slab, for each. */
static size_t lease_cell(void)
{
    static struct lease *leases[CELLS];
    static const struct holder holder = {.comm = "a-worker", .comm_len = 8};
    const struct lease_words words = {
        .name = NAME, .name_len = NAME_LEN, .key = NAME, .key_len = NAME_LEN, .holder = &holder};
    static struct chunks chunks;

    for (int i = 0; i < CELLS; i++) {
        assert_non_null(leases[i] = lease_new(NODES, &words));
        chunks_note(&chunks, leases[i]);
    }
    for (int i = 0; i < CELLS; i++)
        lease_free(leases[i]);
    return chunks.count * CHUNK / CELLS;
}

static size_t name_cell(void)
{
    return (offsetof(struct name, bytes) + NAME_LEN + 7) / 8 * 8;
}

/* Arrays by slot: the lease table and three others; a bucket for two in each of two hash tables; a
 * place in a full cohort for each node and for the next look. (What is due by itself has 28 bytes
 * more for as long as it is.) */
static size_t per_slot(void)
{
    size_t arrays = sizeof(struct lease *) + sizeof(struct renewal_slot) + sizeof(struct name *) +
                    sizeof(uint32_t);
    size_t chains = sizeof(uint32_t) + 2 * chains_buckets(LEASES) * sizeof(uint32_t) / LEASES;
    size_t cohort = sizeof(uint32_t) + sizeof(struct cohort) / COHORT_MOST;

    return arrays + chains + (1 + NODES) * cohort;
}

static size_t table_share(void)
{
    char name[64], shm_name[HF_TABLE_NAME_MAX], why[256];
    struct hf_table_spec spec = {.agent_name = name,
                                 .capacity = CAPACITY,
                                 .nodes = NODES,
                                 .quorum = 2,
                                 .ttl_ms = 30000,
                                 .ttl_max_ms = 60000,
                                 .mode = 0600,
                                 .group = (gid_t)-1,
                                 .fresh = true};
    struct hf_text_pool *pool;
    struct hf_table table;
    struct stat st;
    uint32_t off;
    size_t share;
    bool warm;

    scratch_name(name, sizeof(name), "test-memory");
    assert_int_equal(hf_table_name(name, true, 0, shm_name), 0);
    assert_int_equal(hf_table_create(shm_name, &spec, &table, &warm, why, sizeof(why)), 0);
    assert_int_equal(hf_table_take_slots(&table, CAPACITY), 0);
    assert_int_equal(hf_text_pool_create(&table, &pool), 0);
    for (uint32_t i = 0; i < CAPACITY; i++)
        assert_int_equal(hf_text_put(pool, NAME, NAME_LEN, "", 0, "a-worker", 8, &off), 0);
    hf_text_pool_destroy(pool);
    assert_int_equal(fstat(table.fd, &st), 0);
    share = (size_t)st.st_blocks * 512 / CAPACITY;
    hf_table_close(&table);
    (void)shm_unlink(shm_name);
    return share;
}

static void a_lease_takes_no_more_than_it_did(void **state)
{
    size_t lease = lease_cell(), name = name_cell(), slot = per_slot();

    (void)state;
    print_message("lease %zu, name %zu, per slot %zu: %zu bytes\n", lease, name, slot,
                  lease + name + slot);
    if (!SLAB_IS_PLAIN) /* those take what they want */
        assert_in_range(lease, 1, 229);
    assert_in_range(name, 1, 88);
    assert_in_range(slot, 1, 84);
}

/* Slot, text, both areas of the index; and history, which holds at most 16384 losses however many leases there are. */
static void the_table_takes_no_more_than_it_did(void **state)
{
    (void)state;
    assert_in_range(table_share(), 64 + 48 + 32, 64 + 48 + 32 + 24 + 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_takes_no_more_than_it_did),
        cmocka_unit_test(the_table_takes_no_more_than_it_did),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
