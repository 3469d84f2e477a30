/* Contract. `holdfast fleet move` and its like: what is asked of the agent, and how the change is followed over answers that a
 * played agent gives one after the other. */
#include "reader_fixture.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "agent/core/timing.h"
#include "shm/compiler.h"
#include "tests/support/scratch.h"
#include "tools/commands.h"
#include "tools/control/control_internal.h"
#include "tools/common/args.h"
#include "tools/reader/fleet_told.h"

#define HEAD(version, state)                                                                       \
    "fleet 1\nknown yes\nname 3f2a\ndigest 5c1e22aa\nversion " version "\nstate " state            \
    "\nttl_max_ms 60000\n"
#define BEFORE    "before a 10.0.0.5:1\nbefore b 10.0.0.6:1\nbefore c 10.0.0.7:1\n"
#define SEATS     "seat a 10.0.0.5:1\nseat b 10.0.0.9:1\nseat c 10.0.0.7:1\n"
#define OLD       HEAD("1", "complete") "seat a 10.0.0.5:1\nseat b 10.0.0.6:1\nseat c 10.0.0.7:1\nend\n"
#define OLD_STUCK HEAD("1", "complete") "seat a 10.0.0.5:1\nwaits make room\nend\n"
#define TAKEN_STUCK                                                                                \
    HEAD("1", "complete")                                                                          \
    "seat a 10.0.0.5:1\nnode a says=changing\nwaits make room\nend\n"
#define CHANGING    HEAD("2", "changing") SEATS BEFORE "waits let node c answer\nend\n"
#define CHANGING_ON HEAD("2", "changing") SEATS BEFORE "end\n"
#define GONE                                                                                       \
    HEAD("2", "changing")                                                                          \
    SEATS "before a 10.0.0.5:1\nbefore b 10.0.0.6:1 gone\nbefore c 10.0.0.7:1\nend\n"
#define SETTLING HEAD("2", "complete") "settles_ms 43210\n" SEATS BEFORE "waits 43 s\nend\n"
#define SETTLED  HEAD("2", "complete") SEATS BEFORE "end\n"
#define MUTE(votes_in)                                                                             \
    HEAD("2", "complete") SEATS BEFORE "node b says=ours votes_in=" votes_in "\nend\n"
#define ANOTHER                                                                                    \
    HEAD("2", "changing")                                                                          \
    "seat a 10.0.0.5:1\nseat b 10.0.0.6:1\nseat c 10.0.0.8:1\n" BEFORE "end"                       \
    "\n"
#define LATER_ONE    HEAD("3", "changing") SEATS SEATS_BEFORE "end\n"
#define SEATS_BEFORE "before a 10.0.0.5:1\nbefore b 10.0.0.9:1\nbefore c 10.0.0.7:1\n"
#define GIVEN_UP                                                                                   \
    HEAD("3", "changing")                                                                          \
    "seat a 10.0.0.5:1\nseat b 10.0.0.6:1\nseat c 10.0.0.7:1\n" SEATS_BEFORE "end\n"
#define LATER_OTHER                                                                                \
    HEAD("3", "changing")                                                                          \
    SEATS "before a 10.0.0.5:1\nbefore b 10.0.0.6:1\nbefore c 10.0.0.7:1\nend\n"
#define BACK_SEATS "seat a 10.0.0.5:1\nseat b 10.0.0.6:1\nseat c 10.0.0.7:1\n" SEATS_BEFORE "end\n"
#define BACK       HEAD("3", "complete") BACK_SEATS
#define UNKNOWN    "fleet 1\nknown no\nend\n"
#define AWAY       "away" /* the agent starts again: the socket is gone for a moment */
#define BEGUN      "begun 2 62200 3 10.0.0.9:1\n"

/* --- an agent that the test plays ------------------------------------------------------------------ */

static char base[64], dir[80], path[96], asked[128];

static int set_up(void **state)
{
    (void)state;
    scratch_path(base, sizeof(base));
    if (!mkdtemp(base) || chmod(base, 0755) < 0)
        return -1;
    snprintf(dir, sizeof(dir), "%s/test", base);
    snprintf(path, sizeof(path), "%s/control", dir);
    snprintf(asked, sizeof(asked), "%s/asked", base);
    return mkdir(dir, 0755) < 0 || setenv("HOLDFAST_RUNTIME_DIR", base, 1) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unsetenv("HOLDFAST_RUNTIME_DIR");
    (void)unlink(path);
    (void)unlink(asked);
    return rmdir(dir) < 0 || rmdir(base) < 0 ? -1 : 0;
}

static int listen_there(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    (void)unlink(path);
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 4) < 0)
        _exit(1);
    return listener;
}

/* The first request is kept for the test. */
static void keep_request(const char *request, ssize_t length)
{
    int fd = open(asked, O_WRONLY | O_CREAT | O_EXCL, 0600);

    if (fd >= 0 && (write(fd, request, (size_t)length) != length || close(fd) < 0))
        _exit(1);
}

static void answer(int listener, const char *text)
{
    char request[4096];
    int peer = accept(listener, NULL, NULL);
    ssize_t got = recv(peer, request, sizeof(request), 0);

    if (got > 0) {
        keep_request(request, got);
        (void)send(peer, text, strlen(text), MSG_NOSIGNAL);
    }
    close(peer);
}

/* Gives the answers one after the other, the last one for ever. */
static pid_t play(const char *const *answers)
{
    int pipes[2];
    char ready;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct timespec moment = {.tv_nsec = 300000000};
        int listener = listen_there();

        if (write(pipes[1], "x", 1) != 1)
            _exit(1);
        for (;;) {
            if (strcmp(*answers, AWAY) == 0) {
                close(listener);
                (void)unlink(path);
                (void)nanosleep(&moment, NULL);
                listener = listen_there();
            } else {
                answer(listener, *answers);
            }
            answers += answers[1] != NULL;
        }
    }
    assert_int_equal(read(pipes[0], &ready, 1), 1);
    close(pipes[0]);
    close(pipes[1]);
    return child;
}

/* Runs the subcommand in a process of its own; its words follow "fleet". Returns the exit code. */
static int run(const char *const *words, char *ret_said, size_t size)
{
    char *argv[16] = {(char *)"fleet"};
    int pipes[2], status, argc = 1;
    ssize_t got = 0, more;
    pid_t child;

    while (*words)
        argv[argc++] = (char *)*words++;
    argv[argc++] = (char *)"--agent";
    argv[argc++] = (char *)"test";
    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (dup2(pipes[1], STDOUT_FILENO) < 0 || dup2(pipes[1], STDERR_FILENO) < 0)
            _exit(1);
        close(pipes[0]);
        optind = 0;
        status = cmd_fleet_changes(argc, argv) ? cmd_fleet_change(argc, argv) : -1;
        fflush(stdout);
        _exit(status);
    }
    close(pipes[1]);
    while ((more = read(pipes[0], ret_said + got, size - 1 - (size_t)got)) > 0)
        got += more;
    ret_said[got] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define WORDS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define MOVE WORDS("move", "b=10.0.0.9:1")

static char said[16384];

/* The exit code; what it said is in `said`. */
static int with(const char *const *words, const char *const *answers)
{
    pid_t agent = play(answers);
    int code = run(words, said, sizeof(said));

    assert_int_equal(kill(agent, SIGKILL), 0);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
    return code;
}

static void says(const char *part)
{
    if (!strstr(said, part))
        fail_msg("no \"%s\" in:\n%s", part, said);
}

static void says_no(const char *part)
{
    if (strstr(said, part))
        fail_msg("\"%s\" in:\n%s", part, said);
}

/* --- what is asked -------------------------------------------------------------------------------- */

static void asks(const char *const *words, const char *request)
{
    char text[4096];
    ssize_t got;
    int fd;

    (void)unlink(asked);
    assert_int_equal(with(words, WORDS("error: no\n")), EXIT_CONFIG);
    says("holdfast fleet: refused, and nothing changes: no\n");
    fd = open(asked, O_RDONLY);
    assert_true(fd >= 0);
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    assert_true(got > 0);
    text[got] = '\0';
    assert_string_equal(text, request);
}

static void test_requests(void **state)
{
    static char wide[2 * HF_NODE_TEXT_MAX + 2], request[9 * HF_NODE_TEXT_MAX + 64];

    (void)state;
    asks(MOVE, "fleet-change move b 10.0.0.9:1\n");
    asks(WORDS("move", "--old-server-dead", "b=10.0.0.9:1"),
         "fleet-change move b 10.0.0.9:1 gone\n");
    asks(WORDS("add", "b-2_.C=/a=b"), "fleet-change add b-2_.C /a=b\n");
    asks(WORDS("move", "two words=/a=b"), "fleet-change move two\\x20words /a=b\n");
    asks(WORDS("remove", "10.0.0.6:1"), "fleet-change remove 10.0.0.6:1\n");
    asks(WORDS("remove", "c"), "fleet-change remove c\n");
    asks(WORDS("remove", "c", "--old-server-dead"), "fleet-change remove c gone\n");
    asks(WORDS("ttl-max", "2m", "--yes"), "fleet-change ttl-max 120000\n");
    asks(WORDS("mark-dead", "b"), "fleet-change gone b\n");

    memset(wide, '\xfe', sizeof(wide) - 1);
    wide[HF_NODE_TEXT_MAX] = '=';
    strcpy(request, "fleet-change move ");
    for (int i = 0; i < 2 * HF_NODE_TEXT_MAX; i++)
        strcat(strcat(request, i == HF_NODE_TEXT_MAX ? " " : ""), "\\xfe");
    asks(WORDS("move", wide), strcat(request, "\n"));
}

static void test_what_is_no_change(void **state)
{
    static const char *const bad[][4] = {
        {"move"},
        {"move", "b"},
        {"move", "b="},
        {"move", "=x"},
        {"add", "b=x", "--old-server-dead"},
        {"remove"},
        {"remove", "b", "c"},
        {"mark-dead", "b", "--old-server-dead"},
        {"ttl-max", "soon"},
        {"abort", "b"},
        {"abort", "--yes"},
        {"confirm", "--old-server-dead", "--yes"},
        {"move", "b=x", "--yes"},
        {"ttl-max", "60s", "--old-server-dead"},
        {"remove", "b", "--no-wait", "--timeout=3"},
        {"remove", "b", "--json"},
    };
    char *plain[] = {(char *)"fleet", (char *)"--agent", (char *)"move", (char *)"--json", NULL};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *words[] = {bad[i][0], bad[i][1], bad[i][2], bad[i][3], NULL};

        if (run(words, said, sizeof(said)) != EXIT_USAGE)
            fail_msg("taken: %s %s", bad[i][0], bad[i][1] ? bad[i][1] : "");
    }
    assert_false(cmd_fleet_changes(4, plain)); /* an agent of that name */
    assert_int_equal(run(MOVE, said, sizeof(said)), EXIT_UNAVAILABLE);
    says("no agent test runs here");
}

/* What is wrong, what may be, and where to read on. */
static void test_what_is_said_of_it(void **state)
{
    static char wide[HF_NODE_TEXT_MAX + 4];
    static const struct {
        const char *words[4], *says;
    } rows[] = {
        {{"ttl-max", "0"}, "fleet ttl-max: give a time from 500 ms to 24 h: '0' is shorter; see "},
        {{"ttl-max", "499ms"}, "'499ms' is shorter"},
        {{"ttl-max", "2d"}, "'2d' is longer"},
        {{"ttl-max", "-1"},
         "give a time such as 90s, 2m or 1.5h, from 500 ms to 24 h: '-1' is none"},
        {{"ttl-max", "--timeout=5", "-5s"}, "'-5s' is none"},
        {{"ttl-max", "--", "-1"}, "'-1' is none"},
        {{"ttl-max", "1y"}, "'1y' is none"},
        {{"ttl-max", ""}, "'' is none"},
        {{"ttl-max"}, "give TIME behind ttl-max; see "},
        {{"ttl-max", "1m", "2m"}, "unexpected argument '2m'"},
        {{"move"}, "give ID=ADDRESS behind move; see "},
        {{"move", "b"}, "'b' has no '='"},
        {{"move", "b="}, "'b=' has no address"},
        {{"move", "=x"}, "'=x' has no id"},
        {{"move", "b\n=x"},
         "give the id as holdfast fleet shows it: 'b\\n' has bytes that no id has"},
        {{"add", "two words=x"},
         "give an id of letters, digits, '.', '-' and '_': 'two words' has"},
        {{"add", "\xff=x"}, "'\\xff' has other bytes"},
        {{"remove"}, "give ID behind remove; see "},
        {{"remove", ""}, "'' is none"},
        {{"remove", "\x1b[2J"}, "'\\x1b[2J' has bytes that no id has"},
        {{"remove", wide}, "give a shorter id: it has 128 bytes, and 127 are the most"},
        {{"mark-dead"}, "give ID behind mark-dead"},
    };

    (void)state;
    assert_int_equal(FLEET_TTL_LEAST_MS, hf_dur_ms(timing_ttl_min()));
    memset(wide, 'x', HF_NODE_TEXT_MAX + 1);
    for (size_t i = 0; i < HF_LENGTH(rows); i++) {
        assert_int_equal(run(rows[i].words, said, sizeof(said)), EXIT_USAGE);
        says(rows[i].says);
    }
}

static void test_answers(void **state)
{
    (void)state;
    assert_int_equal(with(MOVE, WORDS("error: later: wait 5 s\n")), EXIT_BUSY);
    says("refused, and nothing changes: wait 5 s\n");
    assert_int_equal(with(MOVE, WORDS("begun 2\n")), EXIT_UNAVAILABLE);
    says("cannot be read");
}

/* --- how it is followed ---------------------------------------------------------------------------- */

static void test_to_its_end(void **state)
{
    (void)state;
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD, OLD, CHANGING, CHANGING, CHANGING_ON, AWAY,
                                      UNKNOWN, SETTLING, SETTLING, AWAY, SETTLED)),
                     EXIT_OK);
    says("version 2: node b moves to 10.0.0.9:1; it takes 1m2s at the least, also without "
         "this command\n");
    says("version 2: changing; let node c answer (after ");
    says("version 2: changing; its nodes are told of it (after ");
    says("version 2: complete, and settles in 43 s (after ");
    says("version 2 is complete and settled: node b is at 10.0.0.9:1; do not start the old "
         "server again with its old data");
    says_no("warning");
    says_no("votes in");
    /* only what is another word is said at once */
    assert_null(strstr(strstr(said, "let node c answer") + 1, "let node c answer"));
    assert_null(strstr(strstr(said, "settles in") + 1, "settles in"));
}

static void test_no_wait_and_timeout(void **state)
{
    (void)state;
    assert_int_equal(
        with(WORDS("move", "b=10.0.0.9:1", "--no-wait"), WORDS(BEGUN, OLD, OLD, CHANGING)),
        EXIT_OK);
    says("changing; let node c answer");
    says_no("settled");
    assert_int_equal(
        with(WORDS("move", "b=10.0.0.9:1", "--timeout", "500ms"), WORDS(BEGUN, CHANGING)),
        EXIT_BUSY);
    says("the time (500ms) is over; what has begun goes on without this command");
}

static void test_another_operators_change(void **state)
{
    (void)state;
    assert_int_equal(
        with(WORDS("move", "b=10.0.0.9:1", "--timeout", "5s"), WORDS(BEGUN, OLD, ANOTHER)),
        EXIT_BUSY);
    says("another operator's change came first");
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD, LATER_OTHER)), EXIT_BUSY);
    says("another operator's change came first");
    /* too short to be seen, but it is in what was before the next one */
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD, LATER_ONE)), EXIT_OK);
    says("version 2 was complete");
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD, GIVEN_UP)), EXIT_BUSY);
    says("this change was given up, or changed back: version 3 is there since");
    assert_int_equal(with(MOVE, WORDS(BEGUN, CHANGING, GIVEN_UP)), EXIT_BUSY);
    says("this change was given up");
    /* ours was seen, and is over */
    assert_int_equal(with(MOVE, WORDS(BEGUN, SETTLING, LATER_ONE)), EXIT_OK);
    says("version 2 was complete, and version 3 is there since");
    assert_int_equal(with(WORDS("remove", "b"), WORDS("begun 2 62200 2 -\n", CHANGING)), EXIT_BUSY);
    assert_int_equal(with(WORDS("add", "b=10.0.0.9:1"), WORDS(BEGUN, CHANGING)), EXIT_BUSY);
    assert_int_equal(with(WORDS("ttl-max", "61s"), WORDS(OLD, "begun 2 63220 3 -\n", CHANGING)),
                     EXIT_BUSY);
}

static void test_nobody_takes_it(void **state)
{
    (void)state;
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD)), EXIT_BUSY);
    says("no node was seen to take the change: version 1 stands here");
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD_STUCK)), EXIT_BUSY);
    says("no node was seen to take the change: version 1 stands here, and the agent waits: make "
         "room\n");
}

/* The new server may have forgotten what it was before. */
static void test_a_node_that_does_not_vote_yet(void **state)
{
    (void)state;
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD, SETTLING, MUTE("0"), MUTE("12500"))), EXIT_OK);
    says("version 2 is complete and settled: node b is at 10.0.0.9:1, and votes in 12.5s; do not");
    assert_int_equal(with(MOVE, WORDS(BEGUN, OLD, SETTLING, MUTE("0"))), EXIT_OK);
    says("node b is at 10.0.0.9:1, and does not vote yet (holdfast nodes); do not");
}

/* A node took it, and this agent does not go on. */
static void test_taken_and_not_gone_by(void **state)
{
    (void)state;
    assert_int_equal(with(WORDS("move", "b=10.0.0.9:1", "--no-wait"), WORDS(BEGUN, TAKEN_STUCK)),
                     EXIT_BUSY);
    says("make room: node a has a change of the fleet, and version 1 stands here; what has begun "
         "goes on without this command: holdfast fleet\n");
    says_no("no node was seen");
    assert_int_equal(with(MOVE, WORDS(BEGUN, TAKEN_STUCK, TAKEN_STUCK, CHANGING, SETTLED)),
                     EXIT_OK);
    says("version 1 stands here, and node a has a change of the fleet; make room (after ");
    says("version 2 is complete and settled");
}

static void test_resume(void **state)
{
    const char *const *words = WORDS("mark-dead", "b");

    (void)state;
    assert_int_equal(
        with(words, WORDS("begun 2 62200 3 -\n", CHANGING, CHANGING, GONE, SETTLING, SETTLED)),
        EXIT_OK);
    says("goes on without the server that was node b before it");
    says("version 2 is complete and settled; do not start the old server");
    says_no("let node c answer"); /* before the word is in the record nothing is said */
    assert_int_equal(with(words, WORDS("begun 2 62200 3 -\n", SETTLED)), EXIT_OK);
}

static void test_abort(void **state)
{
    (void)state;
    assert_int_equal(
        with(WORDS("abort"), WORDS(CHANGING, "begun 3 62200 3 -\n", CHANGING, GIVEN_UP, BACK)),
        EXIT_OK);
    says("version 3: the fleet gets back what it was before the change");
    says("version 3 is complete and settled: the fleet is as it was before the change");
    says("do not start the old server again");
    assert_int_equal(with(WORDS("abort", "--old-server-dead", "--timeout", "5s"),
                          WORDS(CHANGING, "begun 3 62200 3 -\n", CHANGING, LATER_ONE)),
                     EXIT_BUSY);
    says("another operator's change came first");
}

/* 24h for 24s is complete at once, and stands for a day. */
static void test_a_much_longer_ttl_max(void **state)
{
    (void)state;
    assert_int_equal(with(WORDS("ttl-max", "24h"), WORDS(OLD, "error: asked\n")), EXIT_USAGE);
    says("holdfast fleet: say --yes, too, if ttl_max is to be ");
    says("more than 10 times the 1m0s that it is:\n");
    says_no("asked");
    assert_int_equal(with(WORDS("ttl-max", "24h", "--yes"), WORDS("error: asked\n")), EXIT_CONFIG);
    assert_int_equal(with(WORDS("ttl-max", "10m"), WORDS(OLD, "error: asked\n")), EXIT_CONFIG);
    assert_int_equal(with(WORDS("ttl-max", "1s"), WORDS(OLD, "error: asked\n")), EXIT_CONFIG);
}

/* (!) A host without a memory goes by its file. */
static void test_every_file_has_to_follow(void **state)
{
    (void)state;
    assert_int_equal(with(WORDS("ttl-max", "1m"), WORDS(OLD, "begun 2 62200 3 -\n", SETTLED)),
                     EXIT_OK);
    says("write ttl_max = 60000ms into the configuration file of every host");
    assert_int_equal(with(MOVE, WORDS(BEGUN, SETTLED)), EXIT_OK);
    says("before every host shows version 2 (holdfast fleet) and has the fleet's nodes in its "
         "configuration file\n");
}

static void test_an_even_number(void **state)
{
    (void)state;
    assert_int_equal(
        with(WORDS("add", "d=10.0.0.8:1", "--no-wait"),
             WORDS("begun 2 62200 4 10.0.0.8:1\n",
                   HEAD("2", "changing") "seat a 10.0.0.5:1\nseat b 10.0.0.6:1\nseat "
                                         "c 10.0.0.7:1\nseat d 10.0.0.8:1\n" BEFORE "end\n")),
        EXIT_OK);
    says("warning: of 4 nodes no more may fail than of 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_what_is_no_change),
        cmocka_unit_test(test_what_is_said_of_it),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_a_node_that_does_not_vote_yet),
        cmocka_unit_test(test_to_its_end),
        cmocka_unit_test(test_no_wait_and_timeout),
        cmocka_unit_test(test_another_operators_change),
        cmocka_unit_test(test_nobody_takes_it),
        cmocka_unit_test(test_taken_and_not_gone_by),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_a_much_longer_ttl_max),
        cmocka_unit_test(test_every_file_has_to_follow),
        cmocka_unit_test(test_an_even_number),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
