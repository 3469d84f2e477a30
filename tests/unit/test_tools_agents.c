/* tools/reader/agents.h: which agents are here, also where somebody spoils what others read. */
#include "reader_fixture.h"

#include <sys/stat.h>

#include "tests/support/scratch.h"
#include "tools/reader/agents.h"

#define HF_PAGE 4096 /* the header remains */

struct here {
    char base[64], dir[192], agent[HF_AGENT_NAME_MAX + 1], shm_name[HF_TABLE_NAME_MAX];
    char object[HF_TABLE_NAME_MAX + 16];
    struct hf_table table;
};

/* The table of an agent that gives a sign of life. */
static void make_table(const char *agent, char ret_name[HF_TABLE_NAME_MAX],
                       struct hf_table *ret_table)
{
    struct hf_table_spec spec = fixture_spec(4096);
    char why[READER_WHY_SIZE] = "";
    bool warm;

    assert_int_equal(hf_table_name(agent, false, geteuid(), ret_name), 0);
    spec.agent_name = agent;
    spec.timens_inode = fixture_timens();
    spec.pidns_inode = fixture_inode("/proc/self/ns/pid");
    if (hf_table_create(ret_name, &spec, ret_table, &warm, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    hf_table_set_state(ret_table, HF_TABLE_ALIVE);
    ret_table->header->pid = (uint32_t)getpid();
    atomic_store(&ret_table->header->started_ns, fixture_now().ns);
    fixture_beat(ret_table, 0);
}

/* An agent's directory and its table, below a base of this test alone. */
static void set_up(struct here *here)
{
    char any[HF_TABLE_NAME_MAX];

    scratch_path(here->base, sizeof(here->base));
    assert_non_null(mkdtemp(here->base));
    fixture_name(any);
    snprintf(here->agent, sizeof(here->agent), "%.60s", strchr(any, '.') + 1);
    snprintf(here->dir, sizeof(here->dir), "%s/%s", here->base, here->agent);
    assert_int_equal(mkdir(here->dir, 0755), 0);
    make_table(here->agent, here->shm_name, &here->table);
    snprintf(here->object, sizeof(here->object), "/dev/shm%s", here->shm_name);
    setenv("HOLDFAST_RUNTIME_DIR", here->base, 1);
}

static void tear_down(struct here *here)
{
    shm_unlink(here->shm_name);
    hf_table_close(&here->table);
    rmdir(here->dir);
    rmdir(here->base);
    unsetenv("HOLDFAST_RUNTIME_DIR");
}

static struct agents_one only_one(void)
{
    struct agents agents;
    struct agents_one one;

    assert_int_equal(agents_find(&agents), HF_OK);
    assert_int_equal(agents.count, 1);
    one = agents.items[0];
    agents_free(&agents);
    return one;
}

static void an_agent_of_this_base_is_found_and_no_other(void **state)
{
    struct here here = {.base = ""};
    struct agents_one one;

    (void)state;
    set_up(&here);
    one = only_one();
    assert_string_equal(one.place.agent, here.agent);
    assert_string_equal(one.place.dir, here.dir);
    assert_int_equal(one.place.owner, geteuid());
    assert_int_equal(one.state, AGENTS_READ);
    assert_string_equal(agents_state_name(&one), "alive");
    assert_int_equal(one.terms.nodes, 3);
    here.table.header->pid = 1; /* older than that sign of life */
    fixture_beat(&here.table, 5000);
    one = only_one();
    assert_string_equal(agents_state_name(&one), "hung");
    hf_table_set_state(&here.table, HF_TABLE_STOPPED);
    one = only_one();
    assert_string_equal(agents_state_name(&one), "ended");
    tear_down(&here);
}

static void what_cannot_be_read_says_why(void **state)
{
    struct here here = {.base = ""};
    struct agents_one one;

    (void)state;
    set_up(&here);
    hf_table_set_state(&here.table, HF_TABLE_INIT);
    one = only_one();
    assert_string_equal(agents_state_name(&one), "unreadable");
    assert_has(one.why, "not ready");
    assert_int_equal(one.pid, 0);
    tear_down(&here);
}

static void an_owner_that_cuts_its_table_does_not_end_the_reader(void **state)
{
    struct here here = {.base = ""};
    struct agents_one one;
    pid_t child;

    (void)state;
    set_up(&here);
    here.table.header->pid =
        1; /* may be a reused one, so its signs of life are looked at for 0.3 s */
    child = fork();
    if (child == 0) {
        usleep(100 * 1000);
        _exit(truncate(here.object, HF_PAGE) < 0);
    }
    one = only_one();
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(one.state, AGENTS_UNREADABLE);
    assert_has(one.why, "was cut while it was read");
    assert_int_equal(one.pid, 0);
    tear_down(&here);
}

#define MORE 8

/* A sign of life of the moment, and no such process here: only the next sign tells. */
static void look_doubtful(struct hf_table *table)
{
    table->header->pid = INT32_MAX;
    fixture_beat(table, 0);
}

static int64_t look_for_ms(size_t expected)
{
    hf_time start = fixture_now();
    struct agents agents;

    assert_int_equal(agents_find(&agents), HF_OK);
    assert_int_equal(agents.count, expected);
    for (size_t i = 0; i < agents.count; i++)
        assert_string_equal(agents_state_name(&agents.items[i]), "dead");
    agents_free(&agents);
    return hf_dur_ms(hf_time_since(fixture_now(), start));
}

static void doubtful_tables_wait_together_and_unlocked_ones_not_at_all(void **state)
{
    char names[MORE][HF_TABLE_NAME_MAX], agents[MORE][HF_AGENT_NAME_MAX + 1], dirs[MORE][192];
    struct here here = {.base = ""};
    struct hf_table tables[MORE];

    (void)state;
    set_up(&here);
    for (int i = 0; i < MORE; i++) {
        snprintf(agents[i], sizeof(agents[i]), "%.60s-%d", here.agent, i);
        snprintf(dirs[i], sizeof(dirs[i]), "%s/%.63s", here.base, agents[i]);
        assert_int_equal(mkdir(dirs[i], 0755), 0);
        make_table(agents[i], names[i], &tables[i]);
        look_doubtful(&tables[i]);
    }
    look_doubtful(&here.table);
    assert_in_range(look_for_ms(MORE + 1), 300, 3 * 300); /* one by one: 2700 */
    its_agent_ends(&here.table);
    look_doubtful(&here.table);
    for (int i = 0; i < MORE; i++) {
        its_agent_ends(&tables[i]);
        look_doubtful(&tables[i]);
    }
    assert_in_range(look_for_ms(MORE + 1), 0, 299);
    for (int i = 0; i < MORE; i++) {
        shm_unlink(names[i]);
        hf_table_close(&tables[i]);
        rmdir(dirs[i]);
    }
    tear_down(&here);
}

/* A file of that name is anybody's; the agent's lock is on it (agent/process/singleton.c). */
static void a_directory_counts_while_its_lock_is_locked(void **state)
{
    const struct flock agents_lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct here here = {.base = ""};
    struct agents_one one;
    struct agents agents;
    char path[256];
    int fd;

    (void)state;
    set_up(&here);
    shm_unlink(here.shm_name);
    snprintf(path, sizeof(path), "%s/lock", here.dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && dprintf(fd, "%d\n", (int)getpid()) > 0);
    assert_int_equal(agents_find(&agents), HF_OK);
    assert_int_equal(agents.count, 0);
    agents_free(&agents);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &agents_lock), 0);
    one = only_one();
    assert_int_equal(one.state, AGENTS_NO_TABLE);
    assert_int_equal(one.pid, getpid());
    if (geteuid() == 0 && chown(path, 1, (gid_t)-1) == 0) { /* not the directory's owner */
        assert_int_equal(agents_find(&agents), HF_OK);
        assert_int_equal(agents.count, 0);
        agents_free(&agents);
    }
    close(fd);
    unlink(path);
    tear_down(&here);
}

static void another_user_has_a_share_of_the_list(void **state)
{
    uid_t other = geteuid() + 1000;
    struct agents_share share;

    (void)state;
    agents_share_begin(&share);
    for (unsigned i = 0; i < AGENTS_ROWS_MOST; i++)
        assert_true(agents_share_row(&share, other));
    assert_false(agents_share_row(&share, other));
    for (unsigned i = 0; i < AGENTS_LOOKS_MOST; i++)
        assert_true(agents_share_look(&share, other));
    assert_false(agents_share_look(&share, other));
    agents_share_leave(&share, other);
    assert_null(share.first->next);
    assert_int_equal(share.first->uid, other);
    assert_int_equal(share.first->left, 1);
    for (unsigned i = 0; i < 2 * AGENTS_LOOKS_OF_ALL; i++)
        assert_true(agents_share_look(&share, geteuid()) && agents_share_row(&share, geteuid()) &&
                    agents_share_look(&share, 0) && agents_share_row(&share, 0));
    agents_share_free(&share);
}

/* A user's subordinate uids are many other users. */
static void all_other_users_have_a_share_together(void **state)
{
    const unsigned users = AGENTS_ROWS_OF_ALL + AGENTS_LOOKS_OF_ALL;
    struct agents_share share;
    unsigned rows = 0, looks = 0;

    (void)state;
    agents_share_begin(&share);
    for (uid_t uid = 100000; uid < 100000 + users; uid++) {
        rows += agents_share_row(&share, uid);
        looks += agents_share_look(&share, uid);
        agents_share_leave(&share, uid);
    }
    assert_int_equal(rows, AGENTS_ROWS_OF_ALL);
    assert_int_equal(looks, AGENTS_LOOKS_OF_ALL);
    assert_int_equal(share.left, users - AGENTS_LOOKS_OF_ALL); /* in one line */
    assert_true(agents_share_row(&share, geteuid()));
    agents_share_free(&share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_of_this_base_is_found_and_no_other),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(an_owner_that_cuts_its_table_does_not_end_the_reader),
        cmocka_unit_test(doubtful_tables_wait_together_and_unlocked_ones_not_at_all),
        cmocka_unit_test(a_directory_counts_while_its_lock_is_locked),
        cmocka_unit_test(another_user_has_a_share_of_the_list),
        cmocka_unit_test(all_other_users_have_a_share_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
