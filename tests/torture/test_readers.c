/* Readers beside a writer that is killed again and again: processes find names, read slots and walk
 * while a writer gives few slots to many names as fast as it can, some of them colliding in the
 * index; it is killed with SIGKILL at random and followed by one that recovers from its journal.
 *
 * A generation says whose it is: every field of a slot and its name follow from it, so each view
 * that a reader gets is judged by itself. HOLDFAST_FULL=1 makes it a minute long.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include <cmocka.h>

#include "tests/torture/world.h"

#define READERS    2
#define WANTED     24                   /* names, for 8 slots */
#define KILL_MOST  4000                 /* us that a writer lives */
#define NEVER_LONG (20 * HF_NS_PER_SEC) /* an unlucky one yields often */

/* What outlives the writer: its journal, the rest for the sum. */
struct shared {
    struct {
        _Atomic uint32_t generation; /* the newest of the slot */
        _Atomic bool held;
    } slot[CAPACITY];
    _Atomic bool used_up; /* the generations of a slot */
    _Atomic bool over;
    _Atomic uint64_t writes, reads, finds, unreadable, unknown, longest_ns;
    _Atomic uint32_t wrong;
    char what[256];
};

static struct shared *shared;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * HF_NS_PER_SEC + t.tv_nsec;
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

static const char *name_of(uint32_t generation)
{
    return names[generation % WANTED];
}

/* A third of them at one place of the index. */
static void make_names(void)
{
    uint32_t mask = atomic_load(&reader.header->index_size) - 1;
    uint32_t place = hf_name_hash(reader.header->index_key, "first", 5) & mask;

    for (uint32_t i = 0; name_count < WANTED; i++) {
        char name[sizeof(names[0])];
        int len =
            snprintf(name, sizeof(name), "name %u %.*s", i, (int)(i % 150),
                     "........................................................................"
                     "........................................................................"
                     "........................................................");

        if (name_count < WANTED / 3 &&
            (hf_name_hash(reader.header->index_key, name, (size_t)len) & mask) != place)
            continue;
        memcpy(names[name_count++], name, sizeof(name));
    }
}

/* --- the writer ------------------------------------------------------------------------------- */

static uint32_t texts[CAPACITY];

static void drop_text(uint32_t slot, uint32_t generation)
{
    char note[32];

    hf_text_drop(pool, texts[slot], strlen(name_of(generation)),
                 (size_t)snprintf(note, sizeof(note), "note %u", generation), 4);
}

static void leave(uint32_t slot)
{
    uint32_t generation = atomic_load(&shared->slot[slot].generation);
    const char *name = name_of(generation);

    if (generation == 0)
        return;
    atomic_store(&shared->slot[slot].held, false);
    hf_slot_withdraw(&table.slots[slot]);
    hf_slot_end(&table.slots[slot], HF_SLOT_ENDED, HF_LOSS_NONE);
    hf_index_remove(&table, name, strlen(name), slot);
    hf_slot_clear(&table.slots[slot]);
    drop_text(slot, generation);
}

/* For the name that this generation is of; no other slot may have it. */
static void take(uint32_t slot, uint32_t generation)
{
    const char *name = name_of(generation);

    atomic_store(&shared->slot[slot].generation, generation);
    atomic_store(&shared->slot[slot].held, true);
    texts[slot] = put_text(generation, name);
    publish(slot, generation, name, texts[slot]);
    if (hf_index_add(&table, name, strlen(name), slot) != 0)
        _exit(2);
}

static bool is_taken(uint32_t name)
{
    for (uint32_t i = 0; i < CAPACITY; i++)
        if (atomic_load(&shared->slot[i].held) &&
            atomic_load(&shared->slot[i].generation) % WANTED == name)
            return true;
    return false;
}

/* As agent/broker/locks/readopt.c: what stands is kept or written anew, what is over is cleared. */
static void recover(void)
{
    table.text_there = atomic_load(&table.header->text_there);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        uint32_t generation = atomic_load(&shared->slot[i].generation);
        struct hf_slot_view view;

        texts[i] = HF_SLOT_NONE;
        if (!atomic_load(&shared->slot[i].held)) {
            hf_slot_clear(&table.slots[i]);
        } else if (hf_slot_read(&table, i, &view) == 0 && view.generation == generation) {
            texts[i] = atomic_load(&table.slots[i].text_off);
            if (hf_text_pool_reserve(pool, texts[i], view.name_len, view.note_len, view.comm_len) !=
                0)
                _exit(3);
        }
    }
    for (uint32_t i = 0; i < CAPACITY; i++) {
        uint32_t generation = atomic_load(&shared->slot[i].generation);

        if (!atomic_load(&shared->slot[i].held))
            continue;
        if (texts[i] == HF_SLOT_NONE)
            texts[i] = put_text(generation, name_of(generation));
        publish(i, generation, name_of(generation), texts[i]);
    }
    atomic_store(&table.header->slots_used, CAPACITY);
    hf_index_rebuild(&table);
}

static _Noreturn void write_until_killed(uint32_t seed)
{
    recover();
    for (;;) {
        uint32_t slot = draw(&seed, CAPACITY), name = draw(&seed, WANTED);
        uint32_t generation = atomic_load(&shared->slot[slot].generation);

        if (draw(&seed, 3) == 0 && atomic_load(&shared->slot[slot].held)) {
            hf_slot_extend(&table.slots[slot], deadline_of(generation), 3);
            hf_slot_mark(&table.slots[slot], HF_SLOT_LATE, 0, HF_LOSS_NONE);
        } else if (!is_taken(name) && generation < HF_GEN_MAX - 2 * WANTED) {
            if (atomic_load(&shared->slot[slot].held))
                leave(slot);
            generation = (generation / WANTED + 1) * WANTED + name;
            take(slot, generation);
        } else if (generation >= HF_GEN_MAX - 2 * WANTED) {
            atomic_store(&shared->used_up, true);
        }
        atomic_fetch_add(&shared->writes, 1);
    }
}

/* --- readers ---------------------------------------------------------------------------------- */

static void found_wrong(const char *what, uint32_t slot, uint32_t generation)
{
    if (atomic_fetch_add(&shared->wrong, 1) == 0)
        snprintf(shared->what, sizeof(shared->what), "%s: slot %u, generation %u", what, slot,
                 generation);
}

static void judge_view(const struct hf_slot_view *view)
{
    const char *name = name_of(view->generation);
    struct hf_slot_identity id = identity_of(view->generation, name, 0, 0);
    char note[32];

    snprintf(note, sizeof(note), "note %u", view->generation);
    if (view->name_len != strlen(name) || memcmp(view->name, name, view->name_len) != 0)
        found_wrong("another's name", view->slot, view->generation);
    else if (view->pid != id.pid || view->uid != id.uid || view->fence != id.fence ||
             view->since.ns != id.since.ns || view->ttl_ms != id.ttl_ms ||
             strcmp(view->note, note) != 0 || strcmp(view->comm, "comm") != 0)
        found_wrong("another's holder", view->slot, view->generation);
    else if (view->deadline.ns != 0 && view->deadline.ns != deadline_of(view->generation).ns)
        found_wrong("another's validity", view->slot, view->generation);
}

/* A generation never comes back, and a word is of the lease that it says. */
static void judge_word(uint32_t slot, uint32_t *newest)
{
    uint64_t word = atomic_load_explicit(&reader.slots[slot].check, memory_order_acquire);
    uint32_t generation = (uint32_t)(word >> HF_CHECK_GEN_SHIFT);
    struct hf_slot_view view;

    if (word == 0)
        return;
    if (word != hf_check_pack(generation, deadline_of(generation)))
        found_wrong("a word that nobody stored", slot, generation);
    if (generation < *newest)
        found_wrong("a generation that is over", slot, generation);
    *newest = generation;
    if (hf_slot_read(&reader, slot, &view) == 0 && view.generation < generation)
        found_wrong("a word ahead of its slot", slot, generation);
}

static _Noreturn void read_until_over(uint32_t seed)
{
    uint32_t newest[CAPACITY] = {0};

    while (!atomic_load(&shared->over)) {
        uint32_t slot = draw(&seed, CAPACITY), name = draw(&seed, WANTED);
        struct hf_slot_view view;
        int64_t begun = now_ns(), took;
        int status;

        status = hf_slot_read(&reader, slot, &view);
        if (status == 0)
            judge_view(&view);
        else if (status == HF_ETABLE)
            atomic_fetch_add(&shared->unreadable, 1);
        judge_word(slot, &newest[slot]);

        status = hf_index_find(&reader, names[name], strlen(names[name]), &view);
        if (status == 0) {
            judge_view(&view);
            if (view.generation % WANTED != name)
                found_wrong("found another", view.slot, view.generation);
            atomic_fetch_add(&shared->finds, 1);
        } else if (status == HF_ETABLE) {
            atomic_fetch_add(&shared->unknown, 1);
        }
        took = now_ns() - begun;
        if ((uint64_t)took > atomic_load(&shared->longest_ns))
            atomic_store(&shared->longest_ns, (uint64_t)took);
        atomic_fetch_add(&shared->reads, 1);
    }
    _exit(0);
}

/* --- the test --------------------------------------------------------------------------------- */

static pid_t start(void (*fn)(uint32_t), uint32_t seed)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        fn(seed);
    }
    return pid;
}

static void readers_beside_writers_that_are_killed(void **state)
{
    const char *full = getenv("HOLDFAST_FULL");
    int64_t end = now_ns() + (full && *full ? 60 : 4) * HF_NS_PER_SEC;
    pid_t readers[READERS];
    uint32_t seed = (uint32_t)now_ns();
    unsigned kills = 0;

    (void)state;
    make_world();
    make_names();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (uint32_t i = 0; i < READERS; i++)
        readers[i] = start(read_until_over, seed + i);
    while (now_ns() < end && !atomic_load(&shared->used_up) && atomic_load(&shared->wrong) == 0) {
        struct timespec life = {.tv_nsec = draw(&seed, KILL_MOST) * 1000L};
        pid_t writer = start(write_until_killed, seed);
        int status;

        nanosleep(&life, NULL);
        kill(writer, SIGKILL);
        assert_int_equal(waitpid(writer, &status, 0), writer);
        assert_true(WIFSIGNALED(status)); /* it did not give up by itself */
        kills++;
    }
    atomic_store(&shared->over, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(fixture_wait(readers[i]), 0);
    print_message("# %u writers killed, %llu changes; %llu reads, %llu found, %llu slots and %llu "
                  "names not to be known at the moment, the longest %.1f ms\n",
                  kills, (unsigned long long)atomic_load(&shared->writes),
                  (unsigned long long)atomic_load(&shared->reads),
                  (unsigned long long)atomic_load(&shared->finds),
                  (unsigned long long)atomic_load(&shared->unreadable),
                  (unsigned long long)atomic_load(&shared->unknown),
                  (double)atomic_load(&shared->longest_ns) / HF_NS_PER_MS);
    if (atomic_load(&shared->wrong))
        fail_msg("%u times wrong, first: %s", atomic_load(&shared->wrong), shared->what);
    assert_true(kills > 20 && atomic_load(&shared->reads) > 1000);
    assert_true(atomic_load(&shared->longest_ns) < NEVER_LONG);
    end_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_beside_writers_that_are_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
