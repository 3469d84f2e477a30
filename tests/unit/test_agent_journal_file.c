/* agent/state/journal.h: which file of an earlier agent is kept, made anew, or refused in words. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "agent/state/journal_layout.h"
#include "tests/support/copied.h"
#include "tests/support/journal.h"
#include "tests/unit/journal_fixture.h"

/* A refused file stays as it is, and the sentence names it. */
static void assert_refused(uint32_t capacity, int nodes, const char *list, const char *about)
{
    struct image before = map_image(), after;
    uint8_t *bytes = malloc(before.size);

    assert_non_null(bytes);
    memcpy(bytes, before.bytes, before.size);
    assert_int_equal(open_as(capacity, nodes, list, this_boot), HF_ETABLE);
    assert_null(journal);
    assert_int_equal(found, UINT32_MAX);
    if (!strstr(why, path) || !strstr(why, about))
        fail_msg("no \"%s\" in: %s", about, why);
    after = map_image();
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.bytes, bytes, before.size);
    free(bytes);
    munmap(before.bytes, before.size);
    munmap(after.bytes, after.size);
}

/* Nothing of the earlier agent is in it. */
static void assert_made_anew(uint32_t capacity)
{
    assert_non_null(journal);
    assert_int_equal(found, 0);
    for (uint32_t slot = 0; slot < capacity; slot++) {
        assert_int_equal(get(slot), HF_ENOTHELD);
        assert_int_equal(journal_generation(journal, slot), 0);
    }
    hold(capacity - 1, 5);
    assert_int_equal(get(capacity - 1), HF_OK);
}

static void hold_and_close(void)
{
    hold(3, 7);
    close_journal();
}

/* Of a half's last line as of its first. */
TEST(any_number_of_nodes_comes_back)
{
    for (int nodes = 1; nodes <= HF_NODES_MAX; nodes++) {
        struct journal_lease lease = numbered_lease(JOURNAL_HELD, 7, 1), back;
        struct journal_identity id = numbered_identity(1);

        close_journal();
        (void)unlink(path);
        for (int i = 0; i < HF_NODES_MAX; i++)
            lease.d[i] = i < nodes ? (hf_time){HF_NS_PER_SEC + i} : HF_TIME_PAST;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(open_as(CAPACITY, nodes, LIST, this_boot), HF_OK);
            for (uint32_t slot = 0; slot < CAPACITY && !again; slot++) {
                journal_put_identity(journal, slot, &id);
                journal_put(journal, slot, &lease);
            }
            for (uint32_t slot = 0; slot < CAPACITY; slot++) {
                assert_int_equal(journal_get(journal, slot, &id, &back), HF_OK);
                assert_memory_equal(back.d, lease.d, sizeof(back.d));
            }
            if (!again)
                close_journal();
        }
    }
}

static void hold_nothing_and_close(void)
{
    hold(3, 7);
    put_lease(3, JOURNAL_FREE, 7, 0);
    close_journal();
}

static void assert_still_held(void)
{
    assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
    assert_int_equal(found, 1);
    assert_int_equal(get(3), HF_OK);
}

/* --- boot, capacity, list --------------------------------------------------------------------- */

TEST(one_of_another_boot_is_emptied)
{
    hold_and_close();
    assert_int_equal(open_as(CAPACITY, NODES, LIST, other_boot), HF_OK);
    assert_made_anew(CAPACITY);
}

TEST(one_of_another_boot_is_emptied_whatever_its_shape)
{
    hold_and_close();
    assert_int_equal(open_as(CAPACITY / 2, NODES + 2, "other", other_boot), HF_OK);
    assert_made_anew(CAPACITY / 2);
}

/* (!) Its agent may renew the leases in it. */
TEST(a_copy_is_emptied_and_a_look_says_so)
{
    struct journal_view view;
    char looked[400];

    hold_and_close();
    assert_true(copied(path));
    view = look_as(CAPACITY, NODES, LIST, this_boot, looked);
    assert_true(view.copy);
    assert_null(view.journal);
    assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
    assert_made_anew(CAPACITY);
    reopen();
    assert_int_equal(found, 1); /* it is this agent's own now */
}

TEST(a_renamed_one_is_kept)
{
    char beside[sizeof(path) + 8];

    hold_and_close();
    snprintf(beside, sizeof(beside), "%s.moved", path);
    assert_int_equal(rename(path, beside), 0);
    assert_int_equal(rename(beside, path), 0);
    assert_still_held();
}

#define CHILD_SKIPS 77

/* Slots with every kind of history, and what they say. */
static void fill(void)
{
    for (uint32_t slot = 0; slot < CAPACITY; slot++) {
        struct journal_identity id = numbered_identity(slot + 1);
        struct journal_lease lease = numbered_lease(JOURNAL_HELD, slot + 1, slot + 1);

        if (slot % 4 == 0)
            continue;
        journal_put_identity(journal, slot, &id);
        journal_put(journal, slot, &lease);
        if (slot % 4 == 1) /* one half is of another owner */
            journal_put_holder(journal, slot, &id.who);
        if (slot % 4 != 2)
            journal_put(journal, slot, &lease);
        if (slot % 4 == 3)
            put_lease(slot, JOURNAL_FREE, slot + 1, 0);
    }
}

static void assert_filled(uint32_t slots)
{
    assert_int_equal(found, CAPACITY / 2);
    assert_int_equal(journal_slots_live(journal), CAPACITY - 1);
    for (uint32_t slot = 0; slot < CAPACITY; slot++) {
        struct journal_identity id, wanted = numbered_identity(slot + 1);
        struct journal_lease lease, was = numbered_lease(JOURNAL_HELD, slot + 1, slot + 1);
        bool held = slot % 4 == 1 || slot % 4 == 2;

        assert_int_equal(journal_generation(journal, slot), slot % 4 ? slot + 1 : 0);
        assert_int_equal(journal_get(journal, slot, &id, &lease), held ? HF_OK : HF_ENOTHELD);
        if (!held)
            continue;
        assert_memory_equal(&id, &wanted, sizeof(id));
        assert_int_equal(lease.fence, was.fence);
        assert_memory_equal(lease.d, was.d, NODES * sizeof(lease.d[0]));
    }
    for (uint32_t slot = CAPACITY; slot < slots; slot++) {
        assert_int_equal(get(slot), HF_ENOTHELD);
        assert_int_equal(journal_generation(journal, slot), 0);
    }
}

/* Slots that have no room yet are free; with room they are as the first ones, and the next agent finds them. */
TEST(more_slots_come_behind_the_others)
{
    enum { MORE = 5 * CAPACITY, MOST = 100 * CAPACITY };
    struct stat st;

    close_journal();
    (void)unlink(path);
    assert_int_equal(
        journal_find(dir, MOST, NODES, LIST, this_boot, &journal, &found, why, sizeof(why)), HF_OK);
    assert_int_equal(journal_make(journal, CAPACITY, why, sizeof(why)), HF_OK);
    fill();
    journal_shown_in(journal, 77);
    assert_int_equal(get(MOST - 1), HF_ENOTHELD);
    assert_int_equal(journal_generation(journal, MOST - 1), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, journal_size_for(CAPACITY, NODES));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(journal_take_slots(journal, MORE), HF_OK);
        assert_int_equal(journal_take_slots(journal, CAPACITY), HF_OK); /* it has them */
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, journal_size_for(MORE, NODES));
        close_journal();
        assert_int_equal(open_as(MOST, NODES, LIST, this_boot), HF_OK);
        assert_filled(MORE);
        assert_int_equal(journal_table(journal), 77);
    }
    hold(MORE - 1, 5);
    reopen_as(MOST);
    assert_int_equal(get(MORE - 1), HF_OK);
    assert_int_equal(journal_slots_live(journal), MORE);
    assert_int_equal(journal_take_slots(journal, MOST), HF_OK);
    assert_int_equal(journal_take_slots(journal, MOST + 1), HF_EFULL);
}

/* (!) Wherever it lies by then. Not by the lock of the directory: anybody with the agent's rights can remove that. */
TEST(one_that_a_living_agent_writes_is_left_to_it)
{
    char elsewhere[sizeof(path) + 8], pid[32];
    struct journal *owner;

    snprintf(elsewhere, sizeof(elsewhere), "%s.room", path); /* what a start would remove */
    snprintf(pid, sizeof(pid), "pid %ld;", (long)getpid());
    fill();
    for (int again = 0; again < 2; again++) { /* made by its owner, and then kept by it */
        int fd = open(elsewhere, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        close(fd);
        owner = journal;
        journal = NULL;
        assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_EBUSY);
        assert_null(journal);
        if (!strstr(why, path) || !strstr(why, pid))
            fail_msg("no path, or not %s in: %s", pid, why);
        assert_int_equal(unlink(elsewhere), 0);
        journal = owner;
        reopen();
        assert_filled(CAPACITY);
    }
}

/* What an agent left that was killed in the midst of it: never believed, and gone with the next start. */
TEST(one_that_was_not_finished_is_forgotten)
{
    char beside[sizeof(path) + 8];
    int fd;

    fill();
    close_journal();
    snprintf(beside, sizeof(beside), "%s.new", path);
    fd = open(beside, O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && write(fd, beside, sizeof(beside)) == (ssize_t)sizeof(beside));
    close(fd);
    assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
    assert_filled(CAPACITY);
    assert_int_not_equal(access(beside, F_OK), 0);
}

static void take_without_room(void)
{
    enum { MOST = 4096 };

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        _exit(CHILD_SKIPS);
    close_journal();
    if (mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700") != 0)
        _exit(CHILD_SKIPS);
    if (journal_find(dir, MOST, NODES, LIST, this_boot, &journal, &found, why, sizeof(why)) < 0 ||
        journal_make(journal, CAPACITY, why, sizeof(why)) < 0)
        _exit(1);
    fill();
    if (journal_take_slots(journal, MOST) != HF_EFULL || get(MOST - 1) != HF_ENOTHELD)
        _exit(2);
    reopen_as(MOST);
    assert_filled(MOST);
    if (journal_take_slots(journal, 2 * BLOCK) != HF_OK)
        _exit(3);
    hold(2 * BLOCK - 1, 5);
    reopen_as(MOST);
    if (get(2 * BLOCK - 1) != HF_OK)
        _exit(4);
    _exit(0);
}

TEST(without_room_it_stays_as_it_is)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        take_without_room();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPS)
        skip();
    assert_int_equal(status, 0);
}

/* (!) No time in it means anything to a clock with another offset, but the ends of its leases are known. */
TEST(one_of_another_time_namespace_is_refused_while_leases_are_valid_there)
{
    const struct boot_clock ahead = {{1, 2, 3}, 1000 * HF_NS_PER_SEC},
                            behind = {{1, 2, 3}, -1000 * HF_NS_PER_SEC};

    hold_and_close();
    assert_int_equal(open_as(CAPACITY, NODES, LIST, &ahead), HF_ETABLE);
    assert_non_null(strstr(why, "leases of an agent in another time namespace"));
    assert_int_equal(open_as(CAPACITY, NODES, "another", &behind), HF_ETABLE);
    assert_non_null(strstr(why, "in another time namespace"));
    assert_still_held();
}

TEST(one_of_another_time_namespace_is_made_anew_when_its_leases_are_over_there)
{
    const struct boot_clock before = {{1, 2, 3}, -INT64_MAX / 3};

    hold_and_close();
    assert_int_equal(open_as(CAPACITY, NODES, LIST, &before), HF_OK);
    assert_made_anew(CAPACITY);
}

TEST(another_list_is_refused_while_leases_are_held)
{
    hold_and_close();
    assert_refused(CAPACITY, NODES, "another", "list of nodes");
    assert_refused(CAPACITY, NODES + 2, LIST, "list of nodes");
    assert_still_held();
}

TEST(another_list_is_made_anew_when_nothing_is_held)
{
    hold_nothing_and_close();
    assert_int_equal(open_as(CAPACITY, NODES + 2, "another", this_boot), HF_OK);
    assert_made_anew(CAPACITY);
}

/* --- layout ----------------------------------------------------------------------------------- */

/* The number of the layout follows the magic one. */
static void change_layout(void)
{
    struct image image = map_image();

    image.bytes[8] ^= 1;
    munmap(image.bytes, image.size);
}

/* Somebody changed the records if this fails, and an agent of before this change cannot be upgraded
 * while leases are held. Before a release: correct the number. After one: put it back, if at all
 * possible. */
TEST(the_records_are_those_of_this_version)
{
    struct image image;
    uint64_t layout;

    hold_and_close();
    image = map_image();
    memcpy(&layout, image.bytes + 8, sizeof(layout));
    munmap(image.bytes, image.size);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_int_equal(layout, UINT64_C(0x9bb842b15290c696));
#else
    (void)layout;
    skip();
#endif
}

TEST(another_layout_is_refused)
{
    hold_and_close();
    change_layout();
    assert_refused(CAPACITY, NODES, LIST, "another version");
    change_layout();
    assert_still_held();
}

/* Where its states are is not known: any of them may be a lease. */
TEST(another_layout_is_refused_without_leases_too)
{
    hold_nothing_and_close();
    change_layout();
    assert_refused(CAPACITY, NODES, LIST, "another version");
}

TEST(another_layout_is_made_anew_after_an_orderly_end_with_nothing_held)
{
    hold(3, 7);
    put_lease(3, JOURNAL_FREE, 7, 0);
    journal_close_empty(journal);
    journal = NULL;
    change_layout();
    assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
    assert_made_anew(CAPACITY);
}

/* (!) Who opens it may be killed with leases in it. */
TEST(a_journal_that_was_opened_again_is_in_use)
{
    journal_close_empty(journal);
    journal = NULL;
    assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
    hold_and_close();
    change_layout();
    assert_refused(CAPACITY, NODES, LIST, "another version");
}

TEST(another_layout_of_another_boot_is_emptied)
{
    hold_and_close();
    change_layout();
    assert_int_equal(open_as(CAPACITY, NODES, LIST, other_boot), HF_OK);
    assert_made_anew(CAPACITY);
}

/* --- damage ----------------------------------------------------------------------------------- */

TEST(what_does_not_begin_as_a_journal_is_refused)
{
    struct image image;

    hold_and_close();
    image = map_image();
    image.bytes[0] ^= 16;
    assert_refused(CAPACITY, NODES, LIST, "remove it");
    image.bytes[0] ^= 16;
    munmap(image.bytes, image.size);
    assert_still_held();
}

TEST(a_file_that_was_cut_is_refused)
{
    struct image image;
    off_t size;

    hold_and_close();
    image = map_image();
    size = (off_t)image.size;
    munmap(image.bytes, image.size);
    assert_int_equal(truncate(path, size - 1), 0);
    assert_refused(CAPACITY, NODES, LIST, "remove it");
    /* As of an agent that was killed when it had taken room. */
    assert_int_equal(truncate(path, size + 1), 0);
    assert_still_held();
}

/* (!) Who looked at slots that have no room would get SIGBUS. */
TEST(more_slots_than_the_file_has_room_for_are_damage)
{
    static const uint32_t wrong[] = {CAPACITY + 2 * BLOCK, UINT32_MAX};
    uint32_t *slots;
    struct image image;

    hold_and_close();
    image = map_image();
    slots = (uint32_t *)(void *)(image.bytes + JOURNAL_PAGE + offsetof(struct journal_page, slots));
    assert_int_equal(*slots, CAPACITY);
    for (size_t i = 0; i < HF_LENGTH(wrong); i++) {
        *slots = wrong[i];
        assert_refused(1000 * CAPACITY, NODES, LIST, "damaged");
    }
    *slots = CAPACITY;
    munmap(image.bytes, image.size);
    assert_still_held();
}

TEST(no_link_is_followed_and_no_fifo_waited_for)
{
    char elsewhere[96];

    close_journal();
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", dir);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_true(open_as(CAPACITY, NODES, LIST, this_boot) < 0);
    assert_int_not_equal(why[0], '\0');
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(elsewhere), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(open_as(CAPACITY, NODES, LIST, this_boot) < 0);
    assert_int_not_equal(why[0], '\0');
}

TEST(a_look_leaves_what_a_start_removes)
{
    struct journal_view view;
    char half_made[96], text[400];
    int fd;

    hold_and_close();
    snprintf(half_made, sizeof(half_made), "%s.new", path);
    fd = open(half_made, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    view = look_as(CAPACITY, NODES, LIST, this_boot, text);
    assert_int_equal(view.live, 1);
    assert_int_equal(view.nodes, NODES);
    assert_string_equal(view.list_hash, LIST);
    journal_close(view.journal);
    assert_int_equal(access(half_made, F_OK), 0);
    assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
    assert_int_equal(access(half_made, F_OK), -1);
}

/* The agent that writes it runs on. */
TEST(a_look_sees_what_the_agent_goes_on_writing)
{
    struct journal_view view;
    struct journal_identity id;
    struct journal_lease lease;
    char text[400];

    hold(3, 7);
    view = look_as(CAPACITY, NODES, LIST, this_boot, text);
    assert_int_equal(journal_get(view.journal, 3, &id, &lease), HF_OK);
    assert_lease(&lease, JOURNAL_HELD, 7, 7);
    put_lease(3, JOURNAL_ENDING, 7, 8);
    assert_int_equal(journal_get(view.journal, 3, &id, &lease), HF_OK);
    assert_lease(&lease, JOURNAL_ENDING, 7, 8);
    journal_close(view.journal);
    view = look_as(CAPACITY, NODES, "another", this_boot, text);
    assert_true(view.refused && view.other_list && view.journal);
    journal_close(view.journal);
}

TEST(what_a_start_killed_half_way_left_is_no_hindrance)
{
    char half_made[96];
    int fd;

    close_journal();
    assert_int_equal(unlink(path), 0);
    snprintf(half_made, sizeof(half_made), "%s.new", path);
    fd = open(half_made, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "half", 4), 4);
    close(fd);
    assert_int_equal(open_as(CAPACITY, NODES, LIST, this_boot), HF_OK);
    assert_made_anew(CAPACITY);
    assert_int_equal(access(half_made, F_OK), -1);
}

/* --- no directory, no room -------------------------------------------------------------------- */

TEST(no_directory_is_told)
{
    char missing[96];

    snprintf(missing, sizeof(missing), "%s/missing", dir);
    close_journal();
    assert_int_equal(
        journal_open(missing, CAPACITY, NODES, LIST, this_boot, &journal, &found, why, sizeof(why)),
        HF_ESYS);
    assert_non_null(strstr(why, missing));
    assert_non_null(strstr(why, strerror(ENOENT)));
}

enum outcome { NO_ROOM_TOLD, NO_MOUNT, OPENED, NO_WORDS, LEFTOVER };

/* In a mount namespace that goes with the process. */
static enum outcome open_on_tiny_tmpfs(void)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", dir, "tmpfs", 0, "size=64k") < 0)
        return NO_MOUNT;
    if (open_as(CAPACITY * 64, NODES, LIST, this_boot) != HF_ESYS)
        return OPENED;
    if (!strstr(why, strerror(ENOSPC)) || !strstr(why, path))
        return NO_WORDS;
    if (access(path, F_OK) == 0 || open_as(1, NODES, LIST, this_boot) != HF_OK)
        return LEFTOVER; /* what was begun takes the room */
    return NO_ROOM_TOLD;
}

TEST(no_room_is_told_and_nothing_left)
{
    int status;
    pid_t child;

    close_journal();
    assert_int_equal(unlink(path), 0);
    child = fork();
    if (child == 0)
        _exit((int)open_on_tiny_tmpfs());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_MOUNT) {
        print_message("no tmpfs may be mounted here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), NO_ROOM_TOLD);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(one_of_another_boot_is_emptied),
        ROW(one_of_another_boot_is_emptied_whatever_its_shape),
        ROW(a_copy_is_emptied_and_a_look_says_so),
        ROW(a_renamed_one_is_kept),
        ROW(more_slots_come_behind_the_others),
        ROW(one_that_a_living_agent_writes_is_left_to_it),
        ROW(one_that_was_not_finished_is_forgotten),
        ROW(without_room_it_stays_as_it_is),
        ROW(one_of_another_time_namespace_is_refused_while_leases_are_valid_there),
        ROW(one_of_another_time_namespace_is_made_anew_when_its_leases_are_over_there),
        ROW(another_list_is_refused_while_leases_are_held),
        ROW(another_list_is_made_anew_when_nothing_is_held),
        ROW(the_records_are_those_of_this_version),
        ROW(any_number_of_nodes_comes_back),
        ROW(another_layout_is_refused),
        ROW(another_layout_is_refused_without_leases_too),
        ROW(another_layout_is_made_anew_after_an_orderly_end_with_nothing_held),
        ROW(a_journal_that_was_opened_again_is_in_use),
        ROW(another_layout_of_another_boot_is_emptied),
        ROW(what_does_not_begin_as_a_journal_is_refused),
        ROW(a_file_that_was_cut_is_refused),
        ROW(more_slots_than_the_file_has_room_for_are_damage),
        ROW(no_link_is_followed_and_no_fifo_waited_for),
        ROW(a_look_leaves_what_a_start_removes),
        ROW(a_look_sees_what_the_agent_goes_on_writing),
        ROW(what_a_start_killed_half_way_left_is_no_hindrance),
        ROW(no_directory_is_told),
        ROW(no_room_is_told_and_nothing_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
