/* Contract. The answer to the control request `fleet`: its form, and that the command reads what the agent writes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "agent/process/control.h"
#include "agent/process/fleet_wishes.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/scratch.h"
#include "tools/common/args.h"
#include "tools/reader/control_socket.h"
#include "tools/reader/fleet_told.h"

#define TEST(name) static void name(void **state HF_UNUSED)
#define NAME       "3f2a91c00123456789abcdef0123456789abcdef"

static struct fleet_shown complete(void)
{
    struct fleet_shown shown = {
        .known = true,
        .settles = HF_TIME_PAST,
        .record = {.fleet = NAME,
                   .version = 1,
                   .state = FLEET_COMPLETE,
                   .count = 3,
                   .seat = {{.id = "a", .address = "10.0.0.5:6379"},
                            {.id = "b", .address = "10.0.0.7:6379"},
                            {.id = "c", .address = "10.0.0.8:6379"}},
                   .ttl_max_ms = 60000},
        .digest = "5c1e22aa",
        .by_host = "db1",
        .by_uid = 70,
        .since_wall_ms = 1795342353000,
        .count = 2,
        .node = {{.id = "a",
                  .seat = "10.0.0.5:6379",
                  .configured = "db1",
                  .peer = "10.0.0.5:6379",
                  .word = FLEET_WORD_OURS,
                  .counts = true},
                 {.id = "b",
                  .seat = "10.0.0.7:6379",
                  .configured = "10.0.0.9:6379",
                  .word = FLEET_WORD_NONE}},
    };

    return shown;
}

/* To be freed. */
static char *answer_of(const struct fleet_shown *shown)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    assert_non_null(out);
    fleet_answer(shown, (hf_time){1000 * HF_NS_PER_MS}, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void read_back(const struct fleet_shown *shown, struct fleet_told *ret_told)
{
    char *text = answer_of(shown);

    assert_int_equal(fleet_told_read(text, ret_told), HF_OK);
    free(text);
}

TEST(a_complete_record_line_by_line)
{
    struct fleet_shown shown = complete();
    char *text = answer_of(&shown);

    assert_string_equal(text, "fleet 1\n"
                              "known yes\n"
                              "name " NAME "\n"
                              "digest 5c1e22aa\n"
                              "version 1\n"
                              "state complete\n"
                              "ttl_max_ms 60000\n"
                              "seat a 10.0.0.5:6379\n"
                              "seat b 10.0.0.7:6379\n"
                              "seat c 10.0.0.8:6379\n"
                              "by db1 70 1795342353000\n"
                              "node a says=ours counts=yes elsewhere=no seat=10.0.0.5:6379 "
                              "configured=db1 connected=10.0.0.5:6379\n"
                              "node b says=none counts=no elsewhere=yes seat=10.0.0.7:6379 "
                              "configured=10.0.0.9:6379 connected=-\n"
                              "end\n");
    free(text);
}

static void settles_in(struct fleet_shown *shown, int64_t ms, uint64_t told_ms)
{
    struct fleet_told told;

    shown->settles = (hf_time){(1000 + ms) * HF_NS_PER_MS}; /* now is 1000 ms */
    read_back(shown, &told);
    assert_int_equal(told.settles_ms, told_ms);
}

TEST(until_it_has_settled)
{
    struct fleet_shown shown = complete();
    struct fleet_told told;

    shown.record.version = 2;
    settles_in(&shown, 5000, 5001);
    /* the agent has not started again as one that goes by a settled record */
    settles_in(&shown, 0, 1);
    settles_in(&shown, -500, 1);
    shown.settles = HF_TIME_PAST;
    read_back(&shown, &told);
    assert_int_equal(told.settles_ms, 0);
    shown.record.state = FLEET_CHANGING;
    shown.record.before_count = 2;
    shown.record.before[0] = shown.record.before[1] = shown.record.seat[0];
    shown.record.before[1].gone = true;
    shown.settles = HF_TIME_NEVER;
    read_back(&shown, &told);
    assert_int_equal(told.settles_ms, 0);
    assert_false(told.before[0].gone);
    assert_true(told.before[1].gone);
    assert_true(fleet_told_narrow(&told));
}

TEST(when_a_node_votes)
{
    struct fleet_shown shown = complete();
    struct fleet_told told;

    read_back(&shown, &told);
    assert_false(told.node[1].mute);
    shown.node[1].mute = true;
    shown.node[1].votes = (hf_time){3500 * HF_NS_PER_MS}; /* now is 1000 ms */
    read_back(&shown, &told);
    assert_false(told.node[0].mute);
    assert_true(told.node[1].mute);
    assert_int_equal(told.node[1].votes_in_ms, 2501);
    shown.node[1].votes = HF_TIME_NEVER;
    read_back(&shown, &told);
    assert_true(told.node[1].mute);
    assert_int_equal(told.node[1].votes_in_ms, 0);
}

TEST(without_a_record_nothing_is_said_of_one)
{
    struct fleet_shown shown = {
        .record = {.fleet = NAME,
                   .version = 7,
                   .count = 1,
                   .seat = {{.id = "a", .address = "/tmp/a"}}},
        .by_host = "db1",
        .since_wall_ms = 1,
        .count = 1,
        .node = {{.id = "a", .configured = "/tmp/a"}},
        .waits = "b and c are not up\n: see to them",
        .differs = "ttl_max",
    };
    char *text = answer_of(&shown);

    assert_string_equal(text, "fleet 1\n"
                              "known no\n"
                              "node a says=unknown counts=no elsewhere=no seat=- "
                              "configured=/tmp/a connected=-\n"
                              "waits b and c are not up\\n: see to them\n"
                              "differs ttl_max\n"
                              "end\n");
    free(text);
}

TEST(an_id_is_one_word_whatever_it_is)
{
    static const char *const ids[] = {"two words", "-", "\\x20", "a\nend", "=", "\xff\x01", "a=b"};
    struct fleet_shown shown = complete();
    struct fleet_told told;

    shown.count = (int)HF_LENGTH(ids);
    for (size_t i = 0; i < HF_LENGTH(ids); i++) {
        struct fleet_shown_node *node = &shown.node[i];

        memset(node, 0, sizeof(*node));
        strcpy(node->id, ids[i]);
        strcpy(node->configured, ids[HF_LENGTH(ids) - 1 - i]);
    }
    strcpy(shown.record.seat[2].id, "two words");
    strcpy(shown.record.seat[2].address, "/run/a b");
    read_back(&shown, &told);
    assert_int_equal(told.count, HF_LENGTH(ids));
    for (size_t i = 0; i < HF_LENGTH(ids); i++) {
        assert_string_equal(told.node[i].id, ids[i]);
        assert_string_equal(told.node[i].configured, ids[HF_LENGTH(ids) - 1 - i]);
        assert_string_equal(told.node[i].seat, "");
    }
    assert_string_equal(told.seat[2].id, "two words");
    assert_string_equal(told.seat[2].address, "/run/a b");
}

TEST(the_command_reads_what_the_agent_writes)
{
    static const char *const words[] = {"unknown",  "none",  "ours",    "founding",  "earlier",
                                        "changing", "later", "foreign", "unreadable"};
    struct fleet_shown shown = complete();
    struct fleet_told told;

    shown.record.version = 2;
    shown.record.state = FLEET_CHANGING;
    shown.record.before_count = 1;
    strcpy(shown.record.before[0].id, "old");
    strcpy(shown.record.before[0].address, "10.0.0.1:6379");
    strcpy(shown.waits, "a\\b: \x1b[2J");
    strcpy(shown.differs, "-");
    shown.count = (int)HF_LENGTH(words);
    for (size_t i = 0; i < HF_LENGTH(words); i++)
        shown.node[i].word = (enum fleet_word)i;
    strcpy(shown.node[0].id, "first");
    read_back(&shown, &told);
    assert_true(told.known);
    assert_string_equal(told.name, NAME);
    assert_string_equal(told.digest, "5c1e22aa");
    assert_int_equal(told.version, 2);
    assert_string_equal(told.state, "changing");
    assert_int_equal(told.ttl_max_ms, 60000);
    assert_int_equal(told.seat_count, 3);
    assert_string_equal(told.seat[1].address, "10.0.0.7:6379");
    assert_int_equal(told.before_count, 1);
    assert_string_equal(told.before[0].id, "old");
    assert_string_equal(told.by_host, "db1");
    assert_int_equal(told.by_uid, 70);
    assert_int_equal(told.since_wall_ms, 1795342353000);
    assert_string_equal(told.waits, "a\\b: \x1b[2J");
    assert_string_equal(told.differs, "-");
    for (size_t i = 0; i < HF_LENGTH(words); i++)
        assert_string_equal(told.node[i].says, words[i]);
    assert_true(told.node[0].counts && !told.node[1].counts);
    assert_true(!told.node[0].elsewhere && told.node[1].elsewhere);
}

TEST(the_longest_record_fits)
{
    static char wide[HF_NODE_TEXT_MAX + 1];
    struct fleet_shown shown = complete();
    struct fleet_told told;
    char *text;

    memset(wide, '\x01', sizeof(wide) - 1);
    shown.record.count = shown.record.before_count = shown.count = HF_NODES_MAX;
    for (int i = 0; i < HF_NODES_MAX; i++) {
        strcpy(shown.record.seat[i].id, wide);
        strcpy(shown.record.seat[i].address, wide);
        shown.record.before[i] = shown.record.seat[i];
        strcpy(shown.node[i].id, wide);
        strcpy(shown.node[i].seat, wide);
        strcpy(shown.node[i].configured, wide);
        strcpy(shown.node[i].peer, wide);
        strcpy(shown.node[i].link, wide);
    }
    memset(shown.waits, '\x01', sizeof(shown.waits) - 1);
    memset(shown.differs, '\x01', sizeof(shown.differs) - 1);
    text = answer_of(&shown);
    assert_true(strlen(text) < TOLD_ANSWER_BYTES);
    free(text);
    read_back(&shown, &told);
    assert_int_equal(told.count, HF_NODES_MAX);
    assert_string_equal(told.node[HF_NODES_MAX - 1].connected, wide);
    assert_string_equal(told.node[HF_NODES_MAX - 1].link, wide);
    assert_string_equal(told.differs, shown.differs);
}

static bool elsewhere(const char *seat, const char *configured)
{
    struct fleet_shown shown = {.count = 1, .node = {{.id = "a"}}};
    struct fleet_told told;

    strcpy(shown.node[0].seat, seat);
    strcpy(shown.node[0].configured, configured);
    read_back(&shown, &told);
    return told.node[0].elsewhere;
}

/* Of a name nobody can tell where it leads. */
TEST(only_what_surely_is_another_address_is_called_so)
{
    assert_false(elsewhere("", "10.0.0.9:6379"));
    assert_false(elsewhere("10.0.0.9:6379", ""));
    assert_false(elsewhere("10.0.0.9:6379", "10.0.0.9:6379"));
    assert_false(elsewhere("10.0.0.9:6379", "10.0.0.9"));
    assert_false(elsewhere("10.0.0.9:6379", "redis://10.0.0.9/3"));
    assert_false(elsewhere("10.0.0.9:6379", "db1"));
    assert_false(elsewhere("[::1]:6379", "[0:0:0:0:0:0:0:1]"));
    assert_false(elsewhere("10.0.0.9:6379", "[::ffff:10.0.0.9]:6379"));
    assert_false(elsewhere("/run/a", "unix:/run/a"));
    assert_true(elsewhere("10.0.0.9:6379", "10.0.0.8:6379"));
    assert_true(elsewhere("10.0.0.9:6379", "10.0.0.9:6380"));
    assert_true(elsewhere("10.0.0.9:6379", "db1:6380"));
    assert_true(elsewhere("10.0.0.9:6379", "[::1]:6379"));
    assert_true(elsewhere("[::2]:6379", "[::1]:6379"));
    assert_true(elsewhere("/run/a", "/run/b"));
    assert_true(elsewhere("/run/a", "db1:6379"));
    assert_true(elsewhere("10.0.0.9:6379", "/run/a"));
}

/* --- over the socket ------------------------------------------------------------------------------- */

static struct agent agent;
static struct control control;
static _Atomic bool over;

static hf_time now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_BOOTTIME, &at);
    return (hf_time){at.tv_sec * HF_NS_PER_SEC + at.tv_nsec};
}

static void *serve(void *arg HF_UNUSED)
{
    struct pollfd polls[CONTROL_POLLS];

    while (!atomic_load(&over)) {
        size_t count = control_poll(&control, polls);

        (void)poll(polls, count, 10);
        control_serve(&control, polls, count, now());
    }
    return NULL;
}

TEST(the_agent_answers_with_what_stands_on_the_board)
{
    struct fleet_shown shown = complete();
    struct place place = {.agent = "test"};
    struct fleet_told told;
    char why[512] = "";
    pthread_t thread;

    scratch_path(place.dir, sizeof(place.dir));
    assert_non_null(mkdtemp(place.dir));
    fleet_board_init(&agent.fleet_board);
    assert_int_equal(control_open(&control, &agent, place.dir, NULL), HF_OK);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);

    assert_int_equal(fleet_told_ask_at(&place, &told, why, sizeof(why)), EXIT_OK);
    assert_false(told.known);
    fleet_board_show(&agent.fleet_board, &shown);
    assert_int_equal(fleet_told_ask_at(&place, &told, why, sizeof(why)), EXIT_OK);
    assert_true(told.known);
    assert_string_equal(told.node[1].configured, "10.0.0.9:6379");

    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    control_close(&control);
    fleet_board_fini(&agent.fleet_board);
    assert_int_equal(chdir(place.dir), 0);
    assert_int_equal(unlink("control"), 0); /* it stays, for the next agent */
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(place.dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_complete_record_line_by_line),
        cmocka_unit_test(until_it_has_settled),
        cmocka_unit_test(when_a_node_votes),
        cmocka_unit_test(without_a_record_nothing_is_said_of_one),
        cmocka_unit_test(an_id_is_one_word_whatever_it_is),
        cmocka_unit_test(the_command_reads_what_the_agent_writes),
        cmocka_unit_test(the_longest_record_fits),
        cmocka_unit_test(only_what_surely_is_another_address_is_called_so),
        cmocka_unit_test(the_agent_answers_with_what_stands_on_the_board),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
