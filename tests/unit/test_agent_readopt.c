/* agent/broker/locks/readopt.c: when the next agent releases what it does not readopt. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/broker/broker.h"
#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/rooms.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/core/fence.h"
#include "agent/renewal/renewal_internal.h"
#include "agent/state/journal_layout.h"
#include "agent/state/stores.h"
#include "shm/history.h"
#include "tests/support/copied.h"
#include "tests/support/scratch.h"
#include "tests/unit/shm_fixture.h"

#define CAPACITY   8
#define SLOT       3
#define GENERATION 7

static struct config config;
static struct agent agent;
static char dir[64];
static enum journal_state left_as; /* what leave() journals */

/* Whether the word of the generation before stood when the agent looked at the clock, after the event of its start. */
static bool watching, looked, old_word_stood;
/* Whether the journal named the agent's own table before it was through. */
static bool named_early;
static uint64_t events_before;

int clock_gettime(clockid_t id, struct timespec *ret)
{
    if (watching && hf_events_written(&agent.table, HF_EVENTS_NODES) > events_before) {
        uint64_t word = atomic_load(&agent.table.slots[SLOT].check);

        looked = true;
        named_early |=
            !agent.readopted && journal_table(agent.journal) == hf_table_id(&agent.table);
        old_word_stood |= word >> HF_CHECK_GEN_SHIFT == GENERATION - 1;
    }
    return (int)syscall(SYS_clock_gettime, id, ret);
}

static void must(int rc)
{
    assert_int_equal(rc, HF_OK);
}

static void open_all(void)
{
    char why[WHY_SIZE] = "";

    must(stores_open(&agent, dir, why, sizeof(why)));
    must(lease_table_create(CAPACITY, &agent.leases));
    must(renewal_create(&agent, &agent.renewal));
    events_before = hf_events_written(&agent.table, HF_EVENTS_NODES);
    agent.readopted = false;
    watching = true;
    must(broker_create(&agent, &agent.broker));
    watching = false;
}

static void close_all(void)
{
    struct message *m;

    while ((m = mailbox_take(&agent.to_renewal))) {
        if (m->kind == MSG_GRANTED)
            renewal_adopt(agent.renewal, m->lease, clock_now());
        free(m);
    }
    broker_destroy(agent.broker);
    renewal_destroy(agent.renewal);
    lease_table_destroy(agent.leases);
    hf_table_close(&agent.table);
    journal_close(agent.journal);
    node_records_close(agent.node_records);
}

static int set_up(void **state)
{
    (void)state;
    left_as = JOURNAL_HELD;
    log_init(LOG_LEVEL_ERROR);
    rcu_register_thread();
    scratch_path(dir, sizeof(dir));
    assert_non_null(mkdtemp(dir));
    config = (struct config){.node_count = 3,
                             .ttl_ms = 30000,
                             .ttl_max_ms = 30000,
                             .capacity = CAPACITY,
                             .clients_max = 8,
                             .table_mode = 0644,
                             .group = (gid_t)-1};
    config_count_all(&config);
    snprintf(config.name, sizeof(config.name), "test");
    snprintf(config.list_hash, sizeof(config.list_hash), "cafe");
    snprintf(config.key_format, sizeof(config.key_format), "%%s");
    agent = (struct agent){
        .config = &config, .timens_inode = 1, .pidns_inode = 1, .clock.boot_id = {1}};
    fixture_name(agent.shm_name);
    return 0;
}

static int tear_down(void **state)
{
    char path[96];

    (void)state;
    snprintf(path, sizeof(path), "%s/journal", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/nodes", dir);
    unlink(path);
    shm_unlink(agent.shm_name);
    rcu_unregister_thread();
    return rmdir(dir);
}

/* Of a process that is gone. */
static struct journal_identity an_identity(bool is_job)
{
    return (struct journal_identity){
        .name_len = 1,
        .name = "n",
        .token = {"cafe"},
        .ttl_ms = 30000,
        .who = {.pid = 1, .birth = UINT64_MAX, .pidns_inode = agent.pidns_inode, .is_job = is_job}};
}

/* What an agent left that was killed: the votes in its journal, and the V that everybody was shown. Times are seconds
 * from now. */
static void leave(bool is_job, enum hf_slot_state state, const double d_s[3], double shown_s)
{
    struct journal_identity id = an_identity(is_job);
    struct journal_lease rec = {.state = left_as,
                                .slot_state = state,
                                .reason = HF_LOSS_FORCED,
                                .generation = GENERATION,
                                .fence = 1};
    hf_time now = clock_now();

    open_all();
    for (int i = 0; i < HF_NODES_MAX; i++)
        rec.d[i] = i < 3 ? hf_time_add(now, hf_ms((int64_t)(d_s[i] * 1000))) : HF_TIME_PAST;
    journal_put_identity(agent.journal, SLOT, &id);
    journal_put(agent.journal, SLOT, &rec);
    fixture_publish(&agent.table, SLOT, 0, "n", GENERATION,
                    hf_time_add(now, hf_ms((int64_t)(shown_s * 1000))));
    hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
    close_all();
}

/* Seconds until the next agent releases it. */
static double released_in_s(void)
{
    const struct name *name;
    double seconds;

    open_all();
    name = agent.broker->locks->by_slot[SLOT];
    assert_non_null(name);
    assert_true(name->undoing);
    assert_null(name_lease(name));
    assert_int_equal(atomic_load(&agent.table.slots[SLOT].check), 0);
    seconds = (double)hf_time_since(name->state->barred_until, clock_now()).ns / HF_NS_PER_SEC;
    close_all();
    return seconds;
}

/* (!) Killed between the journal, where a vote is void, and the check word: the guardians know of the later V alone. */
static void a_job_lives_until_the_end_that_was_shown(void **state)
{
    const double d_s[3] = {25, -100, -1}; /* the second is void */

    (void)state;
    leave(true, HF_SLOT_LOSING, d_s, 20);
    assert_true(released_in_s() > 19);
}

static void so_it_does_where_no_word_is_left(void **state)
{
    const double d_s[3] = {25, -100, -1};

    (void)state;
    leave(true, HF_SLOT_LOST, d_s, -2);
    assert_true(released_in_s() > 19);
}

/* (!) All votes were void at once, V fell with them, and its agent ended: the guardians may not have killed it yet. */
static void a_job_whose_v_fell_at_once_may_live(void **state)
{
    const double d_s[3] = {-100, -100, -1};

    (void)state;
    left_as = JOURNAL_ENDING; /* as lease_record_end() leaves it */
    leave(true, HF_SLOT_LOST, d_s, -1);
    assert_true(released_in_s() > 29);
    assert_true(released_in_s() > 28);
    assert_true(released_in_s() < 31); /* and no later each time */
}

/* All votes were void when it was lost, and the table that its guardians look at is out of reach. */
static void without_that_table_the_ttl_bounds_it(void **state)
{
    const double d_s[3] = {-100, -100, -100};

    (void)state;
    leave(true, HF_SLOT_LOST, d_s, 20);
    shm_unlink(agent.shm_name);
    assert_true(released_in_s() > 29);
    assert_false(agent.warm);
}

/* (!) Nor is it in the reach of the agent after that one, whose table was made meanwhile. */
static void nor_has_the_agent_after_that_one_the_table(void **state)
{
    const double d_s[3] = {-100, -100, -100};

    (void)state;
    leave(true, HF_SLOT_LOSING, d_s, 20);
    shm_unlink(agent.shm_name);
    (void)released_in_s();
    assert_true(released_in_s() > 19);
    assert_true(agent.warm);
}

/* (!) A vote was void in the journal, and the word was still the earlier one; the second agent takes the first guardian's end
 * for the job's. */
static void nor_where_its_first_guardian_is_gone(void **state)
{
    const double d_s[3] = {25, 5, -100};

    (void)state;
    leave(true, HF_SLOT_HELD, d_s, 20);
    shm_unlink(agent.shm_name);
    assert_true(released_in_s() > 29);
    assert_true(released_in_s() > 19);
    assert_true(released_in_s() < 31); /* and no later each time */
    assert_true(agent.warm);
}

static void a_void_vote_does_not_shorten_a_word_that_is_out_of_reach(void **state)
{
    const double d_s[3] = {20, 5, 19.5};
    const double lost_d_s[3] = {-100, -100, 20}; /* as lease_record_end() leaves it */

    (void)state;
    leave(false, HF_SLOT_HELD, d_s, 19.5);
    shm_unlink(agent.shm_name);
    assert_true(released_in_s() > 19);
    assert_true(released_in_s() > 19);
    assert_true(agent.warm);
    assert_int_equal(tear_down(state), 0);
    assert_int_equal(set_up(state), 0);
    left_as = JOURNAL_ENDING;
    leave(false, HF_SLOT_LOST, lost_d_s, 20);
    shm_unlink(agent.shm_name);
    assert_true(released_in_s() > 19);
    assert_true(released_in_s() > 19);
}

/* (!) Its word stands in the table that was removed. The second agent was killed before it had looked at the journal. The
 * first one was perhaps of a version that names no table. */
static void readopted_by_no_other_table(bool named)
{
    const double d_s[3] = {25, 24, 23};
    char why[WHY_SIZE] = "";

    leave(true, HF_SLOT_HELD, d_s, 24);
    open_all(); /* whose table it is */
    assert_non_null(name_lease(agent.broker->locks->by_slot[SLOT]));
    if (!named)
        journal_shown_in(agent.journal, 0);
    close_all();
    shm_unlink(agent.shm_name);
    must(stores_open(&agent, dir, why, sizeof(why)));
    assert_false(agent.warm);
    hf_table_close(&agent.table);
    journal_close(agent.journal);
    node_records_close(agent.node_records);
    looked = named_early = false;
    assert_true(released_in_s() > 24);
    assert_false(agent.warm);
    assert_true(looked);
    assert_false(named_early);
}

static void no_lease_is_readopted_by_another_table(void **state)
{
    (void)state;
    readopted_by_no_other_table(true);
}

static void nor_if_none_was_named(void **state)
{
    (void)state;
    readopted_by_no_other_table(false);
}

static void the_table_of_a_version_that_names_none_is_kept(void **state)
{
    const double d_s[3] = {25, 24, 23};

    (void)state;
    leave(true, HF_SLOT_HELD, d_s, 24);
    open_all();
    journal_shown_in(agent.journal, 0);
    close_all();
    open_all();
    assert_true(agent.warm);
    assert_non_null(name_lease(agent.broker->locks->by_slot[SLOT]));
    assert_true(journal_table(agent.journal) == hf_table_id(&agent.table));
    close_all();
}

static void table_and_journal_outlive_an_orderly_end(void **state)
{
    const double d_s[3] = {-100, -100, -100};
    char why[WHY_SIZE] = "";
    uint64_t id;

    (void)state;
    left_as = JOURNAL_ENDING;
    leave(false, HF_SLOT_LOST, d_s, -2);
    must(stores_open(&agent, dir, why, sizeof(why)));
    id = hf_table_id(&agent.table);
    journal_shown_in(agent.journal, id);
    assert_true(stores_close(&agent));
    must(stores_open(&agent, dir, why, sizeof(why)));
    assert_true(agent.warm);
    assert_true(hf_table_id(&agent.table) == id);
    assert_true(journal_table(agent.journal) == id);
    assert_true(stores_close(&agent));
}

/* The word falls first: nobody believes in it. */
static void a_lease_of_a_dead_holder_is_released_at_once(void **state)
{
    const double d_s[3] = {25, 24, 23};

    (void)state;
    leave(false, HF_SLOT_HELD, d_s, 24);
    assert_true(released_in_s() < 5);
}

/* (!) Its number means nothing in this PID namespace: it may live. */
static void a_holder_out_of_sight_keeps_its_lease_until_v(void **state)
{
    const double d_s[3] = {25, 24, 23};
    const struct lease *lease;
    uint64_t word;
    struct message *m;
    bool abandoned = false;

    for (int run = 0; run < 2; run++) {
        if (run) {
            assert_int_equal(tear_down(state), 0);
            assert_int_equal(set_up(state), 0);
        }
        leave(run, HF_SLOT_HELD, d_s, 24);
        agent.pidns_inode++;
        open_all();
        lease = name_lease(agent.broker->locks->by_slot[SLOT]);
        assert_non_null(lease);
        assert_true(hf_time_since(lease->fsm.valid, clock_now()).ns > 23 * HF_NS_PER_SEC);
        word = atomic_load(&agent.table.slots[SLOT].check);
        assert_true(hf_check_holds(word, GENERATION, hf_time_add(clock_now(), hf_ms(20000))));
        while ((m = mailbox_take(&agent.to_renewal))) {
            assert_int_not_equal(m->kind, MSG_RELEASE);
            abandoned |= m->kind == MSG_ABANDON;
            if (m->kind == MSG_GRANTED)
                renewal_adopt(agent.renewal, m->lease, clock_now());
            free(m);
        }
        assert_true(abandoned); /* nobody renews it */
        close_all();
    }
}

/* (!) Nor is it released before V where it cannot be taken up. */
static void nor_is_it_released_before_where_it_cannot_be_kept(void **state)
{
    const double d_s[3] = {25, 24, 23};

    (void)state;
    leave(false, HF_SLOT_HELD, d_s, 24);
    agent.pidns_inode++;
    config.ttl_max_ms = 20000; /* less than the lease's TTL */
    assert_true(released_in_s() > 22);
}

/* (!) Whoever made it may live, and renew its leases: holders read another table than the one beside the copy. */
static void of_a_copy_nothing_is_readopted_or_released(void **state)
{
    const double d_s[3] = {25, 24, 23};
    char path[96];

    (void)state;
    leave(false, HF_SLOT_HELD, d_s, 24);
    snprintf(path, sizeof(path), "%s/journal", dir);
    assert_true(copied(path));
    open_all();
    assert_false(agent.warm);
    assert_null(agent.broker->locks->by_slot[SLOT]);
    assert_int_equal(journal_slots_live(agent.journal), 0);
    close_all();
}

/* Killed between the journal, which names the new holder, and its word: the old one's stands. */
static void leave_handoff(bool is_job)
{
    struct journal_identity id = an_identity(is_job);
    struct journal_lease rec = {.state = JOURNAL_HELD, .generation = GENERATION - 1, .fence = 1};
    hf_time valid = hf_time_add(clock_now(), hf_ms(25000));

    open_all();
    for (int i = 0; i < HF_NODES_MAX; i++)
        rec.d[i] = i < 3 ? valid : HF_TIME_PAST;
    journal_put_identity(agent.journal, SLOT, &id);
    journal_put(agent.journal, SLOT, &rec);
    fixture_publish(&agent.table, SLOT, 0, "n", GENERATION - 1, valid);
    id.who.pid = 2;
    journal_put_holder(agent.journal, SLOT, &id.who);
    rec.state = JOURNAL_HANDOFF;
    rec.generation = GENERATION;
    rec.fence = fence_make(7, 1);
    journal_put(agent.journal, SLOT, &rec);
    hf_table_set_state(&agent.table, HF_TABLE_ALIVE);
    close_all();
}

/* (!) The old one gave the lock back. */
static void a_handoff_that_was_cut_off_is_the_new_holders(void **state)
{
    const struct lease *lease;

    (void)state;
    leave_handoff(true);
    open_all();
    lease = name_lease(agent.broker->locks->by_slot[SLOT]);
    assert_non_null(lease);
    assert_int_equal(lease->generation, GENERATION);
    assert_int_equal(lease->pid, 2);
    assert_true(
        hf_check_holds(atomic_load(&agent.table.slots[SLOT].check), GENERATION, clock_now()));
    close_all();
}

/* (!) From then on the lease is the new holder's or nobody's, whatever is told of it. */
static void the_word_of_before_a_handoff_falls_first(void **state)
{
    (void)state;
    leave_handoff(false);
    looked = old_word_stood = false;
    (void)released_in_s();
    assert_true(looked);
    assert_false(old_word_stood);
}

/* (!) A vote of a server that leaves made up the V that the holder knows: it relies on the last vote of those that stay. */
static void by_another_record_nothing_is_released_before_the_v_of_before(void **state)
{
    const double d_s[3] = {25, 20, 18};

    (void)state;
    leave(false, HF_SLOT_HELD, d_s, 20);
    shm_unlink(agent.shm_name); /* its word cannot be withdrawn */
    config.counting = 6;
    config.by_record = true;
    assert_true(released_in_s() > 19);
    assert_false(agent.warm);
}

/* (!) All of a list count from which a node was removed, but V was by the list before. */
static void nor_where_a_node_was_removed(void **state)
{
    const double d_s[3] = {25, 20, 18};

    (void)state;
    leave(false, HF_SLOT_HELD, d_s, 20);
    shm_unlink(agent.shm_name);
    config.by_record = true;
    assert_true(released_in_s() > 24);
}

/* After ttl_max went down. */
static void a_longer_lease_is_readopted_with_the_fleets_ttl_max(void **state)
{
    const struct journal_identity id = {.ttl_ms = 30000};
    struct timing timing;
    char why[160];

    (void)state;
    config.ttl_max_ms = 20000;
    assert_false(readopt_fits(&config, &id, &timing, why, sizeof(why)));
    config.by_record = true;
    assert_true(readopt_fits(&config, &id, &timing, why, sizeof(why)));
    assert_int_equal(hf_dur_ms(timing.ttl), 20000);
    config.ttl_max_ms = 40000;
    assert_true(readopt_fits(&config, &id, &timing, why, sizeof(why)));
    assert_int_equal(hf_dur_ms(timing.ttl), 30000);
}

static void a_longer_lease_keeps_its_v(void **state)
{
    const double d_s[3] = {28, 27, 26};
    const struct lease *lease;

    (void)state;
    leave(true, HF_SLOT_HELD, d_s, 27);
    config.ttl_ms = config.ttl_max_ms = 10000;
    config.by_record = true;
    open_all();
    lease = name_lease(agent.broker->locks->by_slot[SLOT]);
    assert_non_null(lease);
    assert_int_equal(lease->ttl_ms, 10000);
    assert_true(hf_time_since(lease->fsm.valid, clock_now()).ns > 26 * HF_NS_PER_SEC);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_whose_v_fell_at_once_may_live, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_lives_until_the_end_that_was_shown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(so_it_does_where_no_word_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_that_table_the_ttl_bounds_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nor_has_the_agent_after_that_one_the_table, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nor_where_its_first_guardian_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_void_vote_does_not_shorten_a_word_that_is_out_of_reach,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_lease_is_readopted_by_another_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nor_if_none_was_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_table_of_a_version_that_names_none_is_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(table_and_journal_outlive_an_orderly_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lease_of_a_dead_holder_is_released_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_holder_out_of_sight_keeps_its_lease_until_v, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nor_is_it_released_before_where_it_cannot_be_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(of_a_copy_nothing_is_readopted_or_released, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_handoff_that_was_cut_off_is_the_new_holders, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_word_of_before_a_handoff_falls_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            by_another_record_nothing_is_released_before_the_v_of_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nor_where_a_node_was_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_longer_lease_is_readopted_with_the_fleets_ttl_max, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_longer_lease_keeps_its_v, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
