/* The journal: what a killed agent leaves is always one whole state, whichever instruction it was
 * killed at; and what another boot, list, capacity or damage makes of the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "agent/state/journal.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/journal.h"
#include "tests/support/scratch.h"

#define TEST(name) static void name(HF_UNUSED void **state)

#define CAPACITY   64
#define NODES      3
#define LIST       "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12"
#define HEADER     4096

static const struct boot_clock this_boot[1] = {{{1, 2, 3}, 0}}, other_boot[1] = {{{3, 2, 1}, 0}};
static char dir[64];
static char why[512];

static int make_dir(HF_UNUSED void **state)
{
    scratch_path(dir, sizeof(dir));
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(HF_UNUSED void **state)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/journal", dir);
    (void)unlink(path);
    return rmdir(dir);
}

static int try_open(uint32_t capacity, const char *list, const struct boot_clock *boot,
                    struct journal **ret_journal, uint32_t *ret_found)
{
    why[0] = '\0';
    return journal_open(dir, capacity, NODES, list, boot, ret_journal, ret_found, why, sizeof(why));
}

static struct journal *opened(uint32_t expected)
{
    struct journal *j;
    uint32_t found = UINT32_MAX;

    if (try_open(CAPACITY, LIST, this_boot, &j, &found) != HF_OK)
        fail_msg("%s", why);
    assert_int_equal(found, expected);
    return j;
}

static struct journal_identity identity_of(const char *name)
{
    struct journal_identity id;

    memset(&id, 0, sizeof(id));
    memset(&id.token, 0xaa, sizeof(id.token));
    id.ttl_ms = 30000;
    id.who.pid = 4711;
    id.who.birth = 123456789;
    id.who.cookie_hash = UINT64_C(0xfeedfacecafebeef);
    id.name_len = (uint8_t)strlen(name);
    memcpy(id.name, name, id.name_len);
    strcpy(id.who.note, "nightly");
    id.who.note_len = 7;
    return id;
}

/* Everything in it follows from `n`, so a mixture of two shows. */
static struct journal_lease lease_of(uint32_t n)
{
    struct journal_lease l = {.state = JOURNAL_HELD,
                              .slot_state = HF_SLOT_HELD,
                              .generation = n,
                              .fence = n * UINT64_C(65536)};

    for (int i = 0; i < HF_NODES_MAX; i++)
        l.d[i] = i < NODES ? (hf_time){INT64_C(1000000007) * n + i} : HF_TIME_PAST;
    return l;
}

/* The number that a record was made of; fails on any mixture. */
static uint32_t number_of(const struct journal *j, uint32_t slot)
{
    struct journal_identity id;
    struct journal_lease l, made;

    assert_int_equal(journal_get(j, slot, &id, &l), HF_OK);
    made = lease_of(l.generation);
    assert_int_equal(l.state, made.state);
    assert_int_equal(l.slot_state, made.slot_state);
    assert_int_equal(l.fence, made.fence);
    for (int i = 0; i < HF_NODES_MAX; i++)
        assert_int_equal(l.d[i].ns, made.d[i].ns);
    return l.generation;
}

static void put(struct journal *j, uint32_t slot, uint32_t n)
{
    struct journal_lease l = lease_of(n);

    journal_put(j, slot, &l);
}

static void put_lease(struct journal *j, uint32_t slot, const char *name, uint32_t n)
{
    struct journal_identity id = identity_of(name);

    journal_put_identity(j, slot, &id);
    put(j, slot, n);
}

static void patch(off_t at, const void *bytes, size_t length)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/journal", dir);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, length, at), (ssize_t)length);
    close(fd);
}

/* --- contents --------------------------------------------------------------------------------- */

TEST(test_a_new_one_is_empty_and_private)
{
    struct journal *j = opened(0);
    struct journal_identity id;
    struct journal_lease l;
    struct stat st;
    char path[128];

    for (uint32_t slot = 0; slot < CAPACITY; slot++) {
        assert_int_equal(journal_get(j, slot, &id, &l), HF_ENOTHELD);
        assert_int_equal(journal_generation(j, slot), 0);
    }
    snprintf(path, sizeof(path), "%s/journal", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true(st.st_blocks * 512 >=
                st.st_size); /* no holes: a full /run cannot kill the agent later */
    journal_remove(j);
    assert_int_equal(stat(path, &st), -1);
}

TEST(test_records_come_back)
{
    struct journal *j = opened(0);
    struct journal_identity id, put_id = identity_of("a\nb");
    struct journal_lease l, over = {.state = JOURNAL_FREE, .generation = 9};

    journal_put_identity(j, 7, &put_id);
    put(j, 7, 1);
    for (uint32_t n = 2; n < 10; n++)
        put(j, 7, n);
    put_lease(j, 8, "over", 8);
    journal_put(j, 8, &over);
    journal_close(j);

    j = opened(1);
    assert_int_equal(number_of(j, 7), 9);
    assert_int_equal(journal_get(j, 7, &id, &l), HF_OK);
    assert_memory_equal(&id, &put_id, sizeof(id));
    assert_int_equal(journal_get(j, 8, &id, &l), HF_ENOTHELD);
    assert_int_equal(journal_generation(j, 8), 9); /* goes on rising after a restart */
    journal_remove(j);
}

TEST(test_a_new_identity_is_not_seen_before_its_state)
{
    struct journal *j = opened(0);
    struct journal_identity id, next = identity_of("next");
    struct journal_lease l, over = {.state = JOURNAL_FREE, .generation = 4};

    put_lease(j, 0, "first", 4);
    journal_put(j, 0, &over);
    journal_put_identity(j, 0, &next);
    assert_int_equal(journal_get(j, 0, &id, &l), HF_ENOTHELD);
    journal_remove(j);
}

/* --- killed at any instruction ---------------------------------------------------------------- */

/* Whose lease of slot 5 it is, by pid; the state is that holder's all through. */
static uint32_t holder_of(const struct journal *j)
{
    struct journal_identity id;
    struct journal_lease l;

    assert_int_equal(journal_get(j, 5, &id, &l), HF_OK);
    assert_int_equal(l.generation, id.who.pid);
    assert_int_equal(id.who.request_id, id.who.pid * 1000);
    assert_string_equal(id.who.note, id.who.pid == 1 ? "the first" : "the second");
    assert_memory_equal(id.name, "handed", 6);
    return id.who.pid;
}

static struct journal_identity holder(uint32_t number)
{
    struct journal_identity id = identity_of("handed");

    id.who.pid = number;
    id.who.request_id = number * 1000;
    strcpy(id.who.note, number == 1 ? "the first" : "the second");
    id.who.note_len = (uint8_t)strlen(id.who.note);
    return id;
}

static void hand_over(struct journal *j)
{
    struct journal_identity next = holder(2);
    struct journal_lease l = lease_of(2);

    l.state = JOURNAL_HANDOFF;
    journal_put_holder(j, 5, &next.who);
    journal_put(j, 5, &l);
}

static void put_again(struct journal *j)
{
    put(j, 5, 2);
}

static uint32_t number_now(const struct journal *j)
{
    return number_of(j, 5);
}

/* The mapping is shared, so what this process sees between two instructions of a traced child is
 * what a kill there leaves: `look` says 1 and from some instruction on 2. */
static void step_through(struct journal *j, void (*act)(struct journal *),
                         uint32_t (*look)(const struct journal *))
{
    struct journal_view view;
    uint32_t last = 1, changes = 0, steps = 0;
    struct journal *seen;
    pid_t child;
    int status;

    if (journal_dry_run(dir, CAPACITY, NODES, LIST, this_boot, &view, why, sizeof(why)) != HF_OK)
        fail_msg("%s", why);
    seen = view.journal;
    assert_non_null(seen);
    child = fork();
    if (child == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        (void)raise(SIGSTOP);
        act(j);
        (void)raise(SIGUSR1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) { /* a container that forbids ptrace */
        journal_close(seen);
        journal_remove(j);
        skip();
    }
    for (;;) {
        uint32_t now = look(seen);

        assert_true(now == last || (last == 1 && now == 2)); /* never back */
        changes += now != last;
        last = now;
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            break;
        steps++;
    }
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
    assert_int_equal(last, 2);
    assert_int_equal(changes, 1);
    assert_true(steps > 100);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    journal_close(seen);
}

TEST(test_every_instruction_of_a_put_leaves_a_whole_state)
{
    struct journal *j = opened(0);

    put_lease(j, 5, "stepped", 1);
    step_through(j, put_again, number_now);
    journal_remove(j);
}

TEST(test_every_instruction_of_a_handoff_leaves_one_holder)
{
    struct journal *j = opened(0);
    struct journal_identity first = holder(1), before;

    journal_put_identity(j, 5, &first);
    put(j, 5, 1);
    step_through(j, hand_over, holder_of);
    journal_close(j);
    j = opened(1);
    assert_int_equal(holder_of(j), 2);
    assert_int_equal(journal_get_previous(j, 5, &before), HF_OK);
    assert_int_equal(before.who.pid, 1);
    assert_string_equal(before.who.note, "the first");
    journal_remove(j);
}

/* A next agent goes on with the holder that it found. */
TEST(test_a_state_after_a_restart_is_of_the_same_holder)
{
    struct journal *j = opened(0);
    struct journal_identity first = holder(1), id;
    struct journal_lease l;

    journal_put_identity(j, 5, &first);
    put(j, 5, 1);
    hand_over(j);
    for (int restart = 0; restart < 3; restart++) {
        journal_close(j);
        j = opened(1);
        put(j, 5, 2);
        assert_int_equal(journal_get(j, 5, &id, &l), HF_OK);
        assert_int_equal(id.who.pid, 2);
    }
    journal_remove(j);
}

static _Noreturn void write_for_ever(struct journal *j)
{
    for (uint32_t n = journal_generation(j, 0) + 1;; n++)
        for (uint32_t slot = 0; slot < 4; slot++)
            put(j, slot, n);
}

TEST(test_writers_that_are_killed)
{
    struct journal *j = opened(0);
    char name[8];

    for (uint32_t slot = 0; slot < 4; slot++) {
        snprintf(name, sizeof(name), "r%u", slot);
        put_lease(j, slot, name, 1);
    }
    for (unsigned round = 0; round < 40; round++) {
        struct timespec moment = {.tv_nsec = 200000 + 37013 * round};
        pid_t child = fork();

        if (child == 0)
            write_for_ever(j);
        assert_true(child > 0);
        nanosleep(&moment, NULL);
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        /* As the next agent finds it. */
        journal_close(j);
        j = opened(4);
        for (uint32_t slot = 0; slot < 4; slot++)
            /* A half that was being written may count already; never the other way round. */
            assert_true(journal_generation(j, slot) >= number_of(j, slot));
    }
    journal_remove(j);
}

/* --- damage ----------------------------------------------------------------------------------- */

/* The newest half of slot 0 is found by its generation; the record begins
 * after the header. */
static off_t find_bytes(uint64_t bytes, int which)
{
    char path[128];
    uint64_t word;
    off_t at = HEADER;
    int fd;

    snprintf(path, sizeof(path), "%s/journal", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    for (; pread(fd, &word, sizeof(word), at) == (ssize_t)sizeof(word); at += (off_t)sizeof(word))
        if (word == bytes && which-- == 0)
            break;
    close(fd);
    return at;
}

/* (!) An agent that is killed before it stores the number of its put leaves any bytes in the older half. */
TEST(test_a_half_that_is_being_written_does_not_count)
{
    struct journal *j = opened(0);
    uint64_t junk = UINT64_C(0x5555555555555555);

    put_lease(j, 3, "torn", 100);
    put(j, 3, 101);
    patch(find_bytes(100 * UINT64_C(65536), 0), &junk, sizeof(junk));
    journal_close(j);
    j = opened(1);
    assert_int_equal(number_of(j, 3), 101);
    put(j, 3, 102);
    assert_int_equal(number_of(j, 3), 102);
    journal_remove(j);
}

/* Refused, with words that contain `word`; the file is left as it is. */
static void refused(uint32_t capacity, const char *list, const char *word)
{
    struct journal *j;
    uint32_t found;

    assert_int_equal(try_open(capacity, list, this_boot, &j, &found), HF_ETABLE);
    if (!strstr(why, word) || !strstr(why, dir))
        fail_msg("%s", why);
}

TEST(test_a_damaged_header_is_refused)
{
    struct journal *j = opened(0);
    char path[128];
    uint8_t junk = 0xff;

    put_lease(j, 0, "held", 1);
    journal_close(j);
    patch(2, &junk, 1);
    refused(CAPACITY, LIST, "damaged");
    snprintf(path, sizeof(path), "%s/journal", dir);
    assert_int_equal(truncate(path, 100), 0);
    refused(CAPACITY, LIST, "damaged");
    assert_int_equal(truncate(path, 0), 0);
    refused(CAPACITY, LIST, "damaged");
}

TEST(test_a_file_that_others_can_reach_is_refused)
{
    char path[128];

    journal_close(opened(0));
    snprintf(path, sizeof(path), "%s/journal", dir);
    assert_int_equal(chmod(path, 0640), 0);
    refused(CAPACITY, LIST, "private");
}

/* --- another boot, capacity, list ------------------------------------------------------------- */

TEST(test_another_boot_empties_it)
{
    struct journal *j = opened(0);
    uint32_t found = 9;

    put_lease(j, 0, "held", 1);
    journal_close(j);
    assert_int_equal(try_open(CAPACITY, LIST, other_boot, &j, &found), HF_OK);
    assert_int_equal(found, 0);
    assert_int_equal(journal_generation(j, 0), 0);
    journal_remove(j);
}

static void put_valid_for(struct journal *j, hf_dur time)
{
    struct journal_identity id = identity_of("held");
    struct journal_lease l = {.state = JOURNAL_HELD, .generation = 1};

    for (int i = 0; i < NODES; i++)
        l.d[i] = hf_time_add(clock_now(), time);
    journal_put_identity(j, 0, &id);
    journal_put(j, 0, &l);
}

TEST(test_another_list_waits_for_what_is_valid)
{
    static const char other[] = "0000000000000000000000000000000000000000";
    struct journal *j = opened(0);
    uint32_t found = 9;

    put_valid_for(j, hf_ms(100000));
    journal_close(j);
    refused(CAPACITY * 2, other, "another list of nodes");
    refused(CAPACITY, other, "another list of nodes");
    assert_non_null(strstr(why, "100 s"));

    j = opened(1);
    put_valid_for(j, hf_ms(-1));
    journal_close(j);
    assert_int_equal(try_open(CAPACITY * 2, other, this_boot, &j, &found), HF_OK);
    assert_int_equal(found, 0);
    put(j, CAPACITY * 2 - 1, 1); /* there is room for them all */
    journal_remove(j);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        ROW(test_a_new_one_is_empty_and_private),
        ROW(test_records_come_back),
        ROW(test_a_new_identity_is_not_seen_before_its_state),
        ROW(test_every_instruction_of_a_put_leaves_a_whole_state),
        ROW(test_every_instruction_of_a_handoff_leaves_one_holder),
        ROW(test_a_state_after_a_restart_is_of_the_same_holder),
        ROW(test_writers_that_are_killed),
        ROW(test_a_half_that_is_being_written_does_not_count),
        ROW(test_a_damaged_header_is_refused),
        ROW(test_a_file_that_others_can_reach_is_refused),
        ROW(test_another_boot_empties_it),
        ROW(test_another_list_waits_for_what_is_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
