/* The table of leases: looked up and walked by other threads while the broker adds and removes.
 * With --bench: what that costs beside a table that a mutex guards. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/clock.h"
#include "agent/state/lease.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define CHANGES  100000
#define RESIDENT 2000 /* leases that stay throughout */
#define PASSING  2000 /* at most so many come and go beside them */
#define READERS  2
#define SECTION  512 /* slots, of one read section of a walk */

static struct lease *made(const char *name, size_t name_len, const char *key, size_t key_len)
{
    return lease_new(3, &(struct lease_words){.name = name,
                                              .name_len = name_len,
                                              .key = key,
                                              .key_len = key_len,
                                              .holder = &(struct holder){0}});
}

/* A lease whose every byte that readers look at can be told from its number. */
static struct lease *numbered(uint32_t number)
{
    char name[32], key[40];
    struct lease *lease;

    snprintf(name, sizeof(name), "lease-%u", number);
    snprintf(key, sizeof(key), "key:%s", name);
    lease = made(name, strlen(name), key, strlen(key));
    assert_non_null(lease);
    lease->slot = number;
    lease->generation = 1;
    lease->fence = (uint64_t)number << 16;
    atomic_init(&lease->valid_ns, number);
    return lease;
}

static bool is_whole(const struct lease *lease)
{
    char name[32];

    snprintf(name, sizeof(name), "lease-%u", lease->slot);
    return lease->name_len == strlen(name) &&
           memcmp(lease_name(lease), name, lease->name_len) == 0 &&
           lease->fence == (uint64_t)lease->slot << 16 &&
           atomic_load_explicit(&lease->valid_ns, memory_order_relaxed) == lease->slot;
}

static void count_one(const struct lease *lease, void *arg)
{
    size_t *count = arg;

    *count += is_whole(lease);
}

/* --- one thread ------------------------------------------------------------------------------- */

static void test_lease_keeps_name_and_key(void **state)
{
    static const char name[] = {'a', '\0', '\n', (char)0xff};
    struct lease *lease = made(name, sizeof(name), "key", 3);

    (void)state;
    assert_int_equal(lease->name_len, sizeof(name));
    assert_memory_equal(lease_name(lease), name, sizeof(name));
    assert_int_equal(lease->key_len, 3);
    assert_memory_equal(lease_key(lease), "key", 3);
    assert_null(lease_extra(lease));
    lease_free(lease);
    lease_free(NULL);
}

static void test_a_lease_stands_at_its_slot(void **state)
{
    struct lease_table *table;
    struct lease *first = numbered(1), *last = numbered(3), *next;
    size_t whole = 0;

    (void)state;
    assert_int_equal(lease_table_create(4, &table), HF_OK);
    lease_table_add(table, last);
    lease_table_add(table, first);
    lease_read_begin();
    assert_null(lease_table_at(table, 0));
    assert_ptr_equal(lease_table_at(table, 1), first);
    assert_null(lease_table_at(table, 2));
    assert_ptr_equal(lease_table_at(table, 3), last);
    lease_read_end();
    assert_int_equal(lease_table_walk(table, count_one, &whole), 2);

    lease_table_remove(table, 1);
    assert_null(lease_table_at(table, 1));
    assert_ptr_equal(lease_table_at(table, 3), last);
    assert_int_equal(lease_table_walk(table, count_one, &whole), 1);
    next = numbered(1); /* as after a hand-off */
    lease_table_add(table, next);
    lease_table_tidy(table);
    assert_ptr_equal(lease_table_at(table, 1), next);
    assert_int_equal(lease_table_walk(table, count_one, &whole), 2);
    assert_int_equal(whole, 5);
    lease_table_destroy(table);
}

struct order {
    uint32_t next;
    size_t wrong;
};

static void comes_next(const struct lease *lease, void *arg)
{
    struct order *order = arg;

    order->wrong += !is_whole(lease) || lease->slot != order->next++;
}

static void test_every_capacity(void **state)
{
    static const uint32_t capacities[] = {1,           2,           SECTION - 1, SECTION,
                                          SECTION + 1, 2 * SECTION, 4096,        100000};

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(capacities); i++) {
        struct lease_table *table;
        uint32_t leases = capacities[i] < 3000 ? capacities[i] : 3000, last = capacities[i] - 1;
        struct order order = {0};

        assert_int_equal(lease_table_create(capacities[i], &table), HF_OK);
        assert_int_equal(lease_table_walk(table, comes_next, &order), 0);
        for (uint32_t n = 0; n < leases; n++)
            lease_table_add(table, numbered(n));
        assert_int_equal(lease_table_walk(table, comes_next, &order), leases);
        for (uint32_t n = 0; n < leases; n++)
            lease_table_remove(table, n);
        assert_int_equal(lease_table_walk(table, comes_next, &order), 0);
        lease_table_add(table, numbered(last));
        order.next = last;
        assert_int_equal(lease_table_walk(table, comes_next, &order), 1);
        assert_int_equal(order.wrong, 0);
        lease_table_destroy(table);
    }
}

/* --- many threads ----------------------------------------------------------------------------- */

struct crowd {
    struct lease_table *table;
    atomic_bool over;
    atomic_size_t walks, wrong;
};

struct sight {
    struct crowd *crowd;
    unsigned char seen[RESIDENT];
    size_t resident;
};

static void look(const struct lease *lease, void *arg)
{
    struct sight *sight = arg;

    if (!is_whole(lease))
        atomic_fetch_add(&sight->crowd->wrong, 1);
    if (lease->slot < RESIDENT) {
        sight->resident++;
        sight->seen[lease->slot]++;
    }
}

static void *walk_until_over(void *arg)
{
    struct crowd *crowd = arg;

    rcu_register_thread();
    do {
        struct sight sight = {.crowd = crowd};

        (void)lease_table_walk(crowd->table, look, &sight);
        if (sight.resident != RESIDENT || memchr(sight.seen, 0, RESIDENT))
            atomic_fetch_add(&crowd->wrong, 1);
        atomic_fetch_add(&crowd->walks, 1);
    } while (!atomic_load(&crowd->over));
    rcu_unregister_thread();
    return NULL;
}

static void *look_up_until_over(void *arg)
{
    struct crowd *crowd = arg;
    uint32_t number = 0;

    rcu_register_thread();
    do {
        struct lease *lease;

        number = (number + 7) % (RESIDENT + PASSING);
        lease_read_begin();
        lease = lease_table_at(crowd->table, number);
        if (lease ? !is_whole(lease) || lease->slot != number : number < RESIDENT)
            atomic_fetch_add(&crowd->wrong, 1);
        lease_read_end();
    } while (!atomic_load(&crowd->over));
    rcu_unregister_thread();
    return NULL;
}

static void test_changes_beside_walkers(void **state)
{
    static struct lease *passing[PASSING];
    struct crowd crowd = {0};
    pthread_t walker[READERS], seeker[READERS];

    (void)state;
    memset(passing, 0, sizeof(passing));
    assert_int_equal(lease_table_create(RESIDENT + PASSING, &crowd.table), HF_OK);
    for (uint32_t n = 0; n < RESIDENT; n++)
        lease_table_add(crowd.table, numbered(n));
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&walker[i], NULL, walk_until_over, &crowd), 0);
        assert_int_equal(pthread_create(&seeker[i], NULL, look_up_until_over, &crowd), 0);
    }
    for (uint32_t change = 0; change < CHANGES; change++) {
        uint32_t n = change * 2654435761u % PASSING;

        if (passing[n]) {
            lease_table_remove(crowd.table, passing[n]->slot);
            passing[n] = NULL;
        } else {
            passing[n] = numbered(RESIDENT + n);
            lease_table_add(crowd.table, passing[n]);
        }
    }
    atomic_store(&crowd.over, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(walker[i], NULL);
        pthread_join(seeker[i], NULL);
    }
    if (atomic_load(&crowd.wrong))
        fail_msg("race: %zu wrong sights", atomic_load(&crowd.wrong));
    assert_true(atomic_load(&crowd.walks) >= READERS);
    lease_table_destroy(crowd.table);
}

/* --- bench ------------------------------------------------------------------------------------ */

/* The rival: a mutex around each change and each walk. */
struct bench {
    struct lease_table *table;
    pthread_mutex_t *guard; /* NULL: it needs none */
    atomic_bool over;
    int64_t walk_ns, walks;
};

static void guard(struct bench *bench)
{
    if (bench->guard)
        pthread_mutex_lock(bench->guard);
}

static void unguard(struct bench *bench)
{
    if (bench->guard)
        pthread_mutex_unlock(bench->guard);
}

static void *bench_walk(void *arg)
{
    struct bench *bench = arg;

    rcu_register_thread();
    do {
        hf_time start = clock_now();
        size_t whole = 0;

        guard(bench);
        (void)lease_table_walk(bench->table, count_one, &whole);
        unguard(bench);
        bench->walk_ns += hf_time_since(clock_now(), start).ns;
        bench->walks++;
    } while (!atomic_load(&bench->over));
    rcu_unregister_thread();
    return NULL;
}

static void bench_run(struct bench *bench, uint32_t leases, const char *what)
{
    int64_t change_ns = 0, change_max_ns = 0;
    pthread_t walker;

    if (lease_table_create(leases * 2, &bench->table) != HF_OK)
        exit(1);
    for (uint32_t n = 0; n < leases; n++)
        lease_table_add(bench->table, numbered(n));
    pthread_create(&walker, NULL, bench_walk, bench);
    for (uint32_t change = 0; change < CHANGES; change++) {
        uint32_t slot = leases + change * 2654435761u % leases;
        struct lease *lease = lease_table_at(bench->table, slot) ? NULL : numbered(slot);
        hf_time start = clock_now();
        int64_t took;

        guard(bench);
        if (lease)
            lease_table_add(bench->table, lease);
        else
            lease_table_remove(bench->table, slot);
        unguard(bench);
        took = hf_time_since(clock_now(), start).ns;
        change_ns += took;
        change_max_ns = took > change_max_ns ? took : change_max_ns;
    }
    atomic_store(&bench->over, true);
    pthread_join(walker, NULL);
    printf("%-14s %8lld ns/change (longest %6lld us) %8lld us/walk\n", what,
           (long long)change_ns / CHANGES, (long long)change_max_ns / 1000,
           (long long)(bench->walk_ns / bench->walks / 1000));
    lease_table_destroy(bench->table);
}

static int bench_main(uint32_t leases)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct bench bare = {0}, guarded = {.guard = &mutex};

    printf("%d changes on %u leases beside one walker\n", CHANGES, leases);
    bench_run(&bare, leases, "lease table");
    bench_run(&guarded, leases, "with a mutex");
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lease_keeps_name_and_key),
        cmocka_unit_test(test_a_lease_stands_at_its_slot),
        cmocka_unit_test(test_every_capacity),
        cmocka_unit_test(test_changes_beside_walkers),
    };
    int rc;

    rcu_register_thread();
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        rc = bench_main(argc > 2 ? (uint32_t)atoi(argv[2]) : 10000);
    else
        rc = cmocka_run_group_tests(tests, NULL, NULL);
    rcu_unregister_thread();
    return rc;
}
