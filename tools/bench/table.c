/* Reading a table of many leases: the holder's check of a random one, and the look-up of a random name, in turns with
 * clock reads and with random cache lines of the same memory. The program makes the table, with the code that agents
 * use; there is no agent. */
#include "tools/bench/measure.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shm/index.h"
#include "libclient/holdfast_admin.h"

#define TURNS        11
#define HANDLE_BYTES 192 /* of the library's struct around a hf_lease, rounded up to lines */

struct subject {
    struct hf_table table;
    struct hf_text_pool *text;
    hf_view *view;
    uint32_t leases;
    long rounds;
    uint32_t *order;   /* `rounds` random slots */
    char *names;       /* theirs, one after the other */
    uint8_t *handles;  /* one for each lease, HANDLE_BYTES apart */
    uint64_t checksum; /* of all reads, so that they are not optimised away */
};

static void table_fill_slot(struct subject *s, uint32_t slot)
{
    struct hf_slot_identity id = {
        .generation = 1, .ttl_ms = 30000, .pid = 1, .fence = slot, .name_len = LIBRARY_NAME_LEN};
    char name[LIBRARY_NAME_LEN + 1];
    hf_lease *lease = (hf_lease *)(void *)(s->handles + (size_t)slot * HANDLE_BYTES);

    library_name(name, "table", slot);
    if (hf_text_put(s->text, name, LIBRARY_NAME_LEN, "", 0, "bench", 5, &id.text_off) < 0)
        measure_die("no room for the text of %s", name);
    id.comm_len = 5;
    hf_slot_publish(&s->table.slots[slot], &id, (hf_time){INT64_C(1) << 60}, 3);
    if (hf_index_add(&s->table, name, LIBRARY_NAME_LEN, slot) < 0)
        measure_die("no room in the index for %s", name);
    *lease = (hf_lease){.hf_private_word = (const uint64_t *)&s->table.slots[slot].check,
                        .hf_private_generation = 1};
}

static void table_make(struct subject *s)
{
    struct hf_table_spec spec = {.agent_name = "",
                                 .capacity = s->leases,
                                 .nodes = 3,
                                 .quorum = 2,
                                 .ttl_ms = 30000,
                                 .ttl_max_ms = 60000,
                                 .mode = 0644,
                                 .group = (gid_t)-1,
                                 .version = "bench",
                                 .fresh = true};
    const char *tag = getenv("HOLDFAST_TEST_TAG"); /* a test finds leftovers by it */
    char name[64], shm_name[HF_TABLE_NAME_MAX], why[256] = "";
    bool warm;

    snprintf(name, sizeof(name), "bench-table%s-%d", tag ? tag : "", (int)getpid());
    spec.agent_name = name;
    setenv("HOLDFAST_RUNTIME_DIR", "/", 1); /* so that the library takes the name for ours */
    if (hf_table_name(name, false, geteuid(), shm_name) < 0 ||
        hf_table_create(shm_name, &spec, &s->table, &warm, why, sizeof(why)) < 0)
        measure_die("table: %s", why);
    if (hf_table_take_slots(&s->table, s->leases) < 0)
        measure_die("no memory in /dev/shm for %" PRIu32 " slots", s->leases);
    if (hf_text_pool_create(&s->table, &s->text) < 0)
        measure_die("no memory");
    s->handles = calloc(s->leases, HANDLE_BYTES);
    for (uint32_t slot = 0; slot < s->leases; slot++)
        table_fill_slot(s, slot);
    hf_table_set_state(&s->table, HF_TABLE_ALIVE);
    library_must(hf_view_open(name, &s->view), "hf_view_open");
    shm_unlink(shm_name); /* so that nothing is left, however this ends */
    s->order = malloc((size_t)s->rounds * sizeof(*s->order));
    s->names = malloc((size_t)s->rounds * (LIBRARY_NAME_LEN + 1));
    for (long k = 0; k < s->rounds; k++) {
        s->order[k] = (uint32_t)random() % s->leases;
        library_name(s->names + k * (LIBRARY_NAME_LEN + 1), "table", s->order[k]);
    }
}

/* --- what is measured: nanoseconds for each ------------------------------------------------------ */

static double table_per_round(const struct subject *s, double start_us)
{
    return (measure_now_us() - start_us) * 1e3 / (double)s->rounds;
}

static void table_read_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    __asm__ volatile("" : : "g"(&t) : "memory");
}

static double table_turn_clock(struct subject *s)
{
    double start = measure_now_us();

    for (long k = 0; k < s->rounds; k++)
        table_read_clock();
    return table_per_round(s, start);
}

/* One line after the other: each line's place depends on the contents of the one before. */
static double table_turn_line(struct subject *s)
{
    double start = measure_now_us();
    uint64_t last = 0;

    for (long k = 0; k < s->rounds; k++)
        last = atomic_load_explicit(&s->table.slots[s->order[k] + (last >> 63)].check,
                                    memory_order_acquire);
    s->checksum += last;
    return table_per_round(s, start);
}

static double table_turn_line_and_clock(struct subject *s)
{
    double start = measure_now_us();

    for (long k = 0; k < s->rounds; k++) {
        s->checksum +=
            atomic_load_explicit(&s->table.slots[s->order[k]].check, memory_order_acquire);
        table_read_clock();
    }
    return table_per_round(s, start);
}

/* The handle is in the cache, the table's line is not. */
static double table_turn_check(struct subject *s)
{
    double start = measure_now_us();
    long held = 0;

    for (long k = 0; k < s->rounds; k++) {
        hf_lease lease = {.hf_private_word = (const uint64_t *)&s->table.slots[s->order[k]].check,
                          .hf_private_generation = 1};

        held += hf_held(&lease);
    }
    if (held != s->rounds)
        measure_die("%ld of %ld checks said that nothing is held", s->rounds - held, s->rounds);
    return table_per_round(s, start);
}

/* One process has all handles: the handle is random, too. */
static double table_turn_handle(struct subject *s)
{
    double start = measure_now_us();
    long held = 0;

    for (long k = 0; k < s->rounds; k++)
        held += hf_held((hf_lease *)(void *)(s->handles + (size_t)s->order[k] * HANDLE_BYTES));
    if (held != s->rounds)
        measure_die("%ld of %ld checks said that nothing is held", s->rounds - held, s->rounds);
    return table_per_round(s, start);
}

static double table_turn_find(struct subject *s)
{
    struct hf_info info = {.size = sizeof(info)};
    double start = measure_now_us();

    for (long k = 0; k < s->rounds; k++) {
        library_must(
            hf_view_find(s->view, s->names + k * (LIBRARY_NAME_LEN + 1), LIBRARY_NAME_LEN, &info),
            "hf_view_find");
        if (!info.held || info.fence != s->order[k])
            measure_die("the look-up of slot %u told of another", s->order[k]);
    }
    return table_per_round(s, start);
}

static const struct {
    const char *name;
    double (*turn)(struct subject *s);
} figures[] = {
    {"clock_ns", table_turn_clock},
    {"line_ns", table_turn_line},
    {"line_and_clock_ns", table_turn_line_and_clock},
    {"check_ns", table_turn_check},
    {"handle_ns", table_turn_handle},
    {"find_ns", table_turn_find},
};
#define FIGURES (sizeof(figures) / sizeof(figures[0]))

int bench_table(int argc, char **argv)
{
    struct subject s = {0};
    double samples[FIGURES][TURNS];

    if (argc != 3) {
        fputs("usage: bench table LEASES ROUNDS\n", stderr);
        return 64;
    }
    s.leases = (uint32_t)measure_number(argv[1], 1);
    s.rounds = measure_number(argv[2], 1);
    table_make(&s);
    for (int turn = -1; turn < TURNS; turn++) /* the first warms up */
        for (size_t i = 0; i < FIGURES; i++)
            samples[i][turn < 0 ? 0 : turn] = figures[i].turn(&s);
    printf("{\"bench\":\"table\",\"leases\":%u,\"rounds\":%ld", s.leases, s.rounds);
    for (size_t i = 0; i < FIGURES; i++)
        printf(",\"%s\":%.2f", figures[i].name, measure_percentile(samples[i], TURNS, 0.5));
    puts("}");
    hf_view_close(s.view);
    hf_text_pool_destroy(s.text);
    hf_table_close(&s.table);
    free(s.handles);
    free(s.order);
    free(s.names);
    return 0;
}
