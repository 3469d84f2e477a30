/* What DIR/fleet is good for at a start: agent/state/fleet_memory.c and agent/state/stores.c, called as main does. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/base/clock.h"
#include "agent/base/log.h"
#include "agent/config/config.h"
#include "agent/state/fleet_memory.h"
#include "agent/state/stores.h"
#include "shm/compiler.h"
#include "tests/support/scratch.h"
#include "tests/unit/shm_fixture.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define NODES      3
#define BY         "host-b 0 1700000000000"

static const struct boot_clock this_boot[1] = {{{1, 2, 3}, 0}}, other_boot[1] = {{{1, 2, 4}, 0}};

static struct config config, now; /* as configured; with what the memory lays over it */
static struct agent agent;
static bool opened;
static char dir[64], path[80];
static bool stuck; /* the memory cannot be removed */

/* Root may remove whatever a mode forbids. */
int unlink(const char *name)
{
    if (stuck && strcmp(name, path) == 0) {
        errno = EPERM;
        return -1;
    }
    return unlinkat(AT_FDCWD, name, 0);
}

static void configure(void)
{
    static const char *const ids[NODES] = {"a", "b", "c"};
    char keys[CONFIG_KEYS_TEXT];

    config = (struct config){.node_count = NODES,
                             .quorum = 2,
                             .ttl_ms = 30000,
                             .ttl_max_ms = 60000,
                             .capacity = 8,
                             .table_mode = 0644,
                             .group = (gid_t)-1};
    snprintf(config.name, sizeof(config.name), "test");
    snprintf(config.key_format, sizeof(config.key_format), "%%s");
    for (int i = 0; i < NODES; i++) {
        snprintf(config.nodes[i].id, sizeof(config.nodes[i].id), "%s", ids[i]);
        snprintf(config.nodes[i].host, sizeof(config.nodes[i].host), "10.0.0.%d", i + 1);
        snprintf(config.nodes[i].text, sizeof(config.nodes[i].text), "10.0.0.%d:6379", i + 1);
        config.nodes[i].port = 6379;
    }
    config_count_all(&config);
    config_keys_text(&config, keys);
    list_hash_with(config.nodes, NODES, keys, config.list_hash);
}

static int set_up(HF_UNUSED void **state)
{
    log_init(LOG_LEVEL_ERROR);
    stuck = opened = false;
    scratch_path(dir, sizeof(dir));
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/fleet", dir);
    configure();
    agent = (struct agent){.config = &now, .timens_inode = 1};
    fixture_name(agent.shm_name);
    agent.clock = *this_boot;
    return 0;
}

static int tear_down(HF_UNUSED void **state)
{
    static const char *const files[] = {"nodes", "journal"};
    char file[80];

    stuck = false;
    if (opened)
        (void)stores_close(&agent);
    (void)shm_unlink(agent.shm_name);
    for (size_t i = 0; i < HF_LENGTH(files); i++) {
        snprintf(file, sizeof(file), "%s/%s", dir, files[i]);
        (void)unlink(file);
    }
    if (unlink(path) < 0)
        (void)rmdir(path);
    return rmdir(dir);
}

/* --- memories ---------------------------------------------------------------------------------- */

/* Of the configured nodes. */
static struct fleet_record record_of(uint64_t version, enum fleet_state state)
{
    struct fleet_record record;

    config_fleet(&config, &record);
    record.version = version;
    record.state = state;
    for (int i = 0; i < NODES; i++)
        snprintf(record.seat[i].address, sizeof(record.seat[i].address), "%s",
                 config.nodes[i].text);
    fleet_record_name(&record, record.fleet);
    if (version > 1) {
        memcpy(record.before, record.seat, sizeof(record.before));
        record.before_count = record.count;
        record.ttl_max_before_ms = record.ttl_max_ms;
    }
    return record;
}

static void keep_of(const struct fleet_record *record, const struct boot_clock *boot)
{
    static struct fleet_memory memory;
    static struct fleet_record again;
    char why[256] = "";

    memset(&memory, 0, sizeof(memory));
    memory.length = fleet_record_text(record, memory.text);
    assert_int_equal(fleet_record_read(memory.text, memory.length, &again), HF_OK);
    memcpy(memory.by, BY, sizeof(BY));
    memory.here = true;
    memory.from = clock_now();
    assert_int_equal(fleet_memory_keep(path, boot, &memory, why, sizeof(why)), HF_OK);
}

static void keep(const struct fleet_record *record)
{
    keep_of(record, this_boot);
}

static bool is_kept(void)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* --- a start ----------------------------------------------------------------------------------- */

static void start(void)
{
    char why[WHY_SIZE] = "";

    now = config;
    fleet_start(&now, dir, &agent.clock);
    if (stores_open(&agent, dir, why, sizeof(why)) != HF_OK)
        fail_msg("%s", why);
    opened = true;
}

static void assert_goes_by(const struct fleet_record *record)
{
    char ours[FLEET_DIGEST_LEN + 1], theirs[FLEET_DIGEST_LEN + 1];

    start();
    assert_non_null(agent.fleet);
    fleet_record_own_digest(record, ours);
    fleet_record_own_digest(agent.fleet, theirs);
    assert_string_equal(ours, theirs);
    assert_string_equal(agent.fleet_by, BY);
    assert_true(agent.fleet_here);
    assert_string_equal(agent.fleet_path, path);
}

static void assert_goes_by_none(void)
{
    start();
    assert_null(agent.fleet);
    assert_false(agent.fleet_here);
    assert_false(now.by_record);
}

/* --- tests ------------------------------------------------------------------------------------- */

TEST(without_a_memory_the_nodes_tell)
{
    assert_goes_by_none();
    assert_string_equal(agent.fleet_path, path); /* it will be kept there */
}

TEST(a_complete_record_is_gone_by)
{
    struct fleet_record record = record_of(1, FLEET_COMPLETE);

    keep(&record);
    assert_goes_by(&record);
    assert_int_equal(agent.fleet_settles.ns, HF_TIME_PAST.ns);
    assert_false(now.by_record); /* nothing is laid over the configuration */
}

/* (!) It is not on every node yet, and another founder may win. */
TEST(a_founding_record_is_not)
{
    struct fleet_record record = record_of(1, FLEET_FOUNDING);

    keep(&record);
    assert_goes_by_none();
}

TEST(a_changed_fleet_is_gone_by_with_its_configuration)
{
    struct fleet_record record = record_of(2, FLEET_COMPLETE);

    keep(&record);
    assert_goes_by(&record);
    assert_true(now.by_record);
    assert_true(hf_time_before(clock_now(), agent.fleet_settles)); /* it is just complete */
}

TEST(so_is_one_that_changes)
{
    struct fleet_record record = record_of(2, FLEET_CHANGING);

    keep(&record);
    assert_goes_by(&record);
    assert_true(now.by_record);
    assert_int_equal(agent.fleet_settles.ns, HF_TIME_NEVER.ns);
}

/* (!) Which nodes count, and how many, is in the configuration that the record was laid over. This host has other key
 * formats, so it was not. */
static void without_its_configuration(enum fleet_state state)
{
    struct fleet_record record = record_of(2, state);

    memset(record.keys, 'e', FLEET_ID_LEN);
    keep(&record);
    assert_goes_by_none();
}

TEST(a_changed_fleet_without_its_configuration_is_not)
{
    without_its_configuration(FLEET_COMPLETE);
}

TEST(nor_is_one_that_changes)
{
    without_its_configuration(FLEET_CHANGING);
}

TEST(a_record_of_other_ids_is_not)
{
    struct fleet_record record = record_of(1, FLEET_COMPLETE);

    snprintf(record.seat[1].id, sizeof(record.seat[1].id), "d");
    keep(&record);
    assert_goes_by_none();
}

/* Places are what votes and hits are counted by. */
TEST(nor_is_one_of_another_order)
{
    struct fleet_record record = record_of(1, FLEET_COMPLETE);
    struct fleet_seat first = record.seat[0];

    record.seat[0] = record.seat[1];
    record.seat[1] = first;
    keep(&record);
    assert_goes_by_none();
}

TEST(nor_is_one_of_fewer_nodes)
{
    struct fleet_record record = record_of(1, FLEET_COMPLETE);

    record.count = NODES - 1;
    keep(&record);
    assert_goes_by_none();
}

TEST(nor_is_one_of_another_boot)
{
    struct fleet_record record = record_of(1, FLEET_COMPLETE);

    keep_of(&record, other_boot);
    assert_goes_by_none();
}

TEST(what_is_no_file_stops_no_start)
{
    assert_int_equal(mkdir(path, 0700), 0);
    assert_goes_by_none();
}

TEST(an_ephemeral_agent_has_no_memory)
{
    struct fleet_record record = record_of(1, FLEET_COMPLETE);

    keep(&record);
    config.ephemeral = true;
    assert_goes_by_none();
    assert_string_equal(agent.fleet_path, "");
    assert_true(is_kept()); /* it is another agent's */
}

/* --- --reset-fleet -------------------------------------------------------------------------------- */

static void goes_by_none_anew(uint64_t version, bool removable)
{
    struct fleet_record record = record_of(version, FLEET_COMPLETE);

    keep(&record);
    config.reset_fleet = true;
    stuck = !removable;
    assert_goes_by_none();
    assert_int_equal(is_kept(), !removable);
    assert_string_equal(agent.fleet_path, path);
}

TEST(anew_the_memory_is_removed)
{
    goes_by_none_anew(1, true);
}

TEST(anew_that_of_a_changed_fleet_is_removed_too)
{
    goes_by_none_anew(2, true);
}

/* (!) By the operator's word nobody goes by what was before. */
TEST(anew_a_memory_that_stays_is_not_gone_by)
{
    goes_by_none_anew(1, false);
}

TEST(anew_that_of_a_changed_fleet_is_not_gone_by_either)
{
    goes_by_none_anew(2, false);
}

TEST(anew_what_is_no_file_stops_no_start)
{
    config.reset_fleet = true;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_goes_by_none();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_a_memory_the_nodes_tell),
        CASE(a_complete_record_is_gone_by),
        CASE(a_founding_record_is_not),
        CASE(a_changed_fleet_is_gone_by_with_its_configuration),
        CASE(so_is_one_that_changes),
        CASE(a_changed_fleet_without_its_configuration_is_not),
        CASE(nor_is_one_that_changes),
        CASE(a_record_of_other_ids_is_not),
        CASE(nor_is_one_of_another_order),
        CASE(nor_is_one_of_fewer_nodes),
        CASE(nor_is_one_of_another_boot),
        CASE(what_is_no_file_stops_no_start),
        CASE(an_ephemeral_agent_has_no_memory),
        CASE(anew_the_memory_is_removed),
        CASE(anew_that_of_a_changed_fleet_is_removed_too),
        CASE(anew_a_memory_that_stays_is_not_gone_by),
        CASE(anew_that_of_a_changed_fleet_is_not_gone_by_either),
        CASE(anew_what_is_no_file_stops_no_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
