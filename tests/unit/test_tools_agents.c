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

/* An agent's directory and its table, below a base of this test alone. */
static void set_up(struct here *here)
{
    struct hf_table_spec spec = fixture_spec(4096);
    char any[HF_TABLE_NAME_MAX], why[READER_WHY_SIZE] = "";
    bool warm;

    scratch_path(here->base, sizeof(here->base));
    assert_non_null(mkdtemp(here->base));
    fixture_name(any);
    snprintf(here->agent, sizeof(here->agent), "%.60s", strchr(any, '.') + 1);
    snprintf(here->dir, sizeof(here->dir), "%s/%s", here->base, here->agent);
    assert_int_equal(mkdir(here->dir, 0755), 0);
    assert_int_equal(hf_table_name(here->agent, false, geteuid(), here->shm_name), 0);
    snprintf(here->object, sizeof(here->object), "/dev/shm%s", here->shm_name);
    spec.agent_name = here->agent;
    spec.timens_inode = fixture_timens();
    if (hf_table_create(here->shm_name, &spec, &here->table, &warm, why, sizeof(why)) != 0)
        fail_msg("%s", why);
    hf_table_set_state(&here->table, HF_TABLE_ALIVE);
    here->table.header->pid = (uint32_t)getpid();
    atomic_store(&here->table.header->started_ns, fixture_now().ns);
    fixture_beat(&here->table, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_of_this_base_is_found_and_no_other),
        cmocka_unit_test(what_cannot_be_read_says_why),
        cmocka_unit_test(an_owner_that_cuts_its_table_does_not_end_the_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
