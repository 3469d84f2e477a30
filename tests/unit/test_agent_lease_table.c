/* The table of leases: found and walked by other threads while the broker adds and removes.
 * With --bench: what that costs beside a map that a mutex guards. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/clock.h"
#include "agent/lease.h"
#include "agent/mutex.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define CHANGES  100000
#define RESIDENT 2000 /* leases that stay throughout */
#define PASSING  2000 /* at most so many come and go beside them */
#define READERS  2

static struct lease *made(const char *name, size_t name_len, const char *key, size_t key_len)
{
    return lease_new(3, &(struct lease_words){
                            .name = name, .name_len = name_len, .key = key, .key_len = key_len});
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
    lease->fence = (uint64_t)number << 16;
    atomic_init(&lease->valid_ns, number);
    return lease;
}

static struct lease *find_numbered(struct lease_table *table, uint32_t number)
{
    char name[32];

    snprintf(name, sizeof(name), "lease-%u", number);
    return lease_table_find(table, name, strlen(name));
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

static void test_found_by_whole_name_only(void **state)
{
    static const char names[][4] = {{'a', 0, 'b', 0}, {'a', 0, 'b', 'c'}, {'a', 0, 'c', 0}};
    struct lease_table *table;
    struct lease *lease[HF_LENGTH(names)];

    (void)state;
    assert_int_equal(lease_table_create(16, &table), HF_OK);
    for (size_t i = 0; i < HF_LENGTH(names); i++) {
        lease[i] = made(names[i], sizeof(names[i]), "k", 1);
        lease_table_add(table, lease[i]);
    }
    lease_read_begin();
    for (size_t i = 0; i < HF_LENGTH(names); i++)
        assert_ptr_equal(lease_table_find(table, names[i], sizeof(names[i])), lease[i]);
    assert_null(lease_table_find(table, names[0], 3));
    assert_null(lease_table_find(table, "", 0));
    lease_read_end();
    lease_table_remove(table, lease[1]);
    lease_read_begin();
    assert_null(lease_table_find(table, names[1], sizeof(names[1])));
    assert_ptr_equal(lease_table_find(table, names[2], sizeof(names[2])), lease[2]);
    lease_read_end();
    lease_table_destroy(table);
}

static void test_every_capacity(void **state)
{
    static const uint32_t capacities[] = {1, 2, 511, 512, 513, 1024, 4096, 100000};

    (void)state;
    for (size_t i = 0; i < HF_LENGTH(capacities); i++) {
        struct lease_table *table;
        uint32_t leases = capacities[i] < 3000 ? capacities[i] : 3000;
        size_t whole = 0;

        assert_int_equal(lease_table_create(capacities[i], &table), HF_OK);
        assert_int_equal(lease_table_walk(table, count_one, &whole), 0);
        for (uint32_t n = 0; n < leases; n++)
            lease_table_add(table, numbered(n));
        assert_int_equal(lease_table_walk(table, count_one, &whole), leases);
        assert_int_equal(whole, leases);
        lease_read_begin();
        for (uint32_t n = 0; n < leases; n++)
            assert_int_equal(find_numbered(table, n)->slot, n);
        lease_read_end();
        lease_table_destroy(table);
    }
}

/* --- many threads ----------------------------------------------------------------------------- */

struct crowd {
    struct lease_table *table;
    atomic_bool over;
    atomic_size_t walks, finds, wrong;
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

static void *find_until_over(void *arg)
{
    struct crowd *crowd = arg;
    uint32_t number = 0;

    rcu_register_thread();
    do {
        struct lease *lease;

        number = (number + 7) % (RESIDENT + PASSING);
        lease_read_begin();
        lease = find_numbered(crowd->table, number);
        if (lease ? !is_whole(lease) || lease->slot != number : number < RESIDENT)
            atomic_fetch_add(&crowd->wrong, 1);
        lease_read_end();
        atomic_fetch_add(&crowd->finds, 1);
    } while (!atomic_load(&crowd->over));
    rcu_unregister_thread();
    return NULL;
}

static void test_changes_beside_walkers(void **state)
{
    static struct lease *passing[PASSING];
    struct crowd crowd = {0};
    pthread_t walker[READERS], finder[READERS];

    (void)state;
    memset(passing, 0, sizeof(passing));
    assert_int_equal(lease_table_create(RESIDENT + PASSING, &crowd.table), HF_OK);
    for (uint32_t n = 0; n < RESIDENT; n++)
        lease_table_add(crowd.table, numbered(n));
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(pthread_create(&walker[i], NULL, walk_until_over, &crowd), 0);
        assert_int_equal(pthread_create(&finder[i], NULL, find_until_over, &crowd), 0);
    }
    for (uint32_t change = 0; change < CHANGES; change++) {
        uint32_t n = change * 2654435761u % PASSING;

        if (passing[n]) {
            lease_table_remove(crowd.table, passing[n]);
            passing[n] = NULL;
        } else {
            passing[n] = numbered(RESIDENT + n);
            lease_table_add(crowd.table, passing[n]);
        }
    }
    atomic_store(&crowd.over, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(walker[i], NULL);
        pthread_join(finder[i], NULL);
    }
    assert_int_equal(atomic_load(&crowd.wrong), 0);
    assert_true(atomic_load(&crowd.walks) >= READERS);
    lease_table_destroy(crowd.table);
}

/* --- bench ------------------------------------------------------------------------------------ */

/* The rival: chains of leases behind one mutex. */
struct guarded_map {
    struct mutex lock;
    size_t buckets;
    struct entry {
        struct entry *next;
        struct lease *lease;
    } * *bucket;
};

static struct entry **place_of(struct guarded_map *map, const void *name, size_t name_len)
{
    const unsigned char *bytes = name;
    uint64_t hash = UINT64_C(14695981039346656037);
    struct entry **at;

    for (size_t i = 0; i < name_len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    for (at = &map->bucket[hash % map->buckets]; *at; at = &(*at)->next)
        if ((*at)->lease->name_len == name_len &&
            memcmp(lease_name((*at)->lease), name, name_len) == 0)
            break;
    return at;
}

static void guarded_add(struct guarded_map *map, struct lease *lease)
{
    struct entry **at, *entry = malloc(sizeof(*entry));

    *entry = (struct entry){NULL, lease};
    mutex_lock(&map->lock);
    at = place_of(map, lease_name(lease), lease->name_len);
    *at = entry;
    mutex_unlock(&map->lock);
}

static void guarded_remove(struct guarded_map *map, struct lease *lease)
{
    struct entry **at, *entry;

    mutex_lock(&map->lock);
    at = place_of(map, lease_name(lease), lease->name_len);
    entry = *at;
    *at = entry->next;
    mutex_unlock(&map->lock);
    free(entry);
    lease_free(lease);
}

static size_t guarded_walk(struct guarded_map *map)
{
    size_t whole = 0;

    mutex_lock(&map->lock);
    for (size_t i = 0; i < map->buckets; i++)
        for (struct entry *entry = map->bucket[i]; entry; entry = entry->next)
            count_one(entry->lease, &whole);
    mutex_unlock(&map->lock);
    return whole;
}

static bool guarded_find(struct guarded_map *map, const char *name)
{
    bool found;

    mutex_lock(&map->lock);
    found = *place_of(map, name, strlen(name)) != NULL;
    mutex_unlock(&map->lock);
    return found;
}

/* Exactly one of the two. */
struct bench {
    struct lease_table *table;
    struct guarded_map *map;
    uint32_t leases;
    atomic_bool over;
    int64_t walk_ns, walks, find_ns, finds;
};

static void *bench_walk(void *arg)
{
    struct bench *bench = arg;

    rcu_register_thread();
    do {
        hf_time start = clock_now();
        size_t whole = 0;

        if (bench->table)
            (void)lease_table_walk(bench->table, count_one, &whole);
        else
            (void)guarded_walk(bench->map);
        bench->walk_ns += hf_time_since(clock_now(), start).ns;
        bench->walks++;
    } while (!atomic_load(&bench->over));
    rcu_unregister_thread();
    return NULL;
}

static void bench_finds(struct bench *bench)
{
    hf_time start = clock_now();

    for (bench->finds = 0; bench->finds < CHANGES; bench->finds++) {
        char name[32];

        snprintf(name, sizeof(name), "lease-%u", (uint32_t)bench->finds % bench->leases);
        if (bench->table) {
            lease_read_begin();
            (void)lease_table_find(bench->table, name, strlen(name));
            lease_read_end();
        } else {
            (void)guarded_find(bench->map, name);
        }
    }
    bench->find_ns = hf_time_since(clock_now(), start).ns;
}

static void bench_run(struct bench *bench, const char *what)
{
    struct lease **passing = calloc(bench->leases, sizeof(*passing));
    int64_t change_ns = 0, change_max_ns = 0;
    pthread_t walker;

    for (uint32_t n = 0; n < bench->leases; n++)
        if (bench->table)
            lease_table_add(bench->table, numbered(n));
        else
            guarded_add(bench->map, numbered(n));
    pthread_create(&walker, NULL, bench_walk, bench);
    for (uint32_t change = 0; change < CHANGES; change++) {
        uint32_t n = change * 2654435761u % bench->leases;
        struct lease *lease = passing[n] ? passing[n] : numbered(bench->leases + n);
        hf_time start = clock_now();
        int64_t took;

        if (bench->table)
            (passing[n] ? lease_table_remove : lease_table_add)(bench->table, lease);
        else
            (passing[n] ? guarded_remove : guarded_add)(bench->map, lease);
        took = hf_time_since(clock_now(), start).ns;
        change_ns += took;
        change_max_ns = took > change_max_ns ? took : change_max_ns;
        passing[n] = passing[n] ? NULL : lease;
    }
    bench_finds(bench);
    atomic_store(&bench->over, true);
    pthread_join(walker, NULL);
    printf("%-22s %8lld ns/change (longest %6lld us) %8lld ns/find %8lld us/walk\n", what,
           (long long)change_ns / CHANGES, (long long)change_max_ns / 1000,
           (long long)(bench->find_ns / bench->finds),
           (long long)(bench->walk_ns / bench->walks / 1000));
    free(passing);
}

static int bench_main(uint32_t leases)
{
    struct bench lockfree = {.leases = leases}, guarded = {.leases = leases};
    struct guarded_map map = {.buckets = leases * 2};

    printf("%d changes, then as many finds, on %u leases beside one walker\n", CHANGES, leases);
    if (lease_table_create(leases * 2, &lockfree.table) != HF_OK)
        return 1;
    bench_run(&lockfree, "liburcu lease table");
    lease_table_destroy(lockfree.table);

    mutex_init(&map.lock);
    map.bucket = calloc(map.buckets, sizeof(struct entry *));
    guarded.map = &map;
    bench_run(&guarded, "mutex-guarded map");
    for (size_t i = 0; i < map.buckets; i++)
        while (map.bucket[i])
            guarded_remove(&map, map.bucket[i]->lease);
    free(map.bucket);
    mutex_fini(&map.lock);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lease_keeps_name_and_key),
        cmocka_unit_test(test_found_by_whole_name_only),
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
