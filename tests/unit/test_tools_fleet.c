/* Contract. `holdfast fleet`, and what `doctor` says of the fleet: what is read from an agent's answer, what is printed, and
 * what is said when there is none. */
#include "reader_fixture.h"

#include <getopt.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/support/scratch.h"
#include "tools/common/args.h"
#include "tools/doctor/doctor_internal.h"
#include "tools/reader/fleet_told.h"
#include "tools/commands.h"
#include "tools/show/show_internal.h"

#define NAME "3f2a91c00123456789abcdef0123456789abcdef"
#define RECORD                                                                                     \
    "fleet 1\nknown yes\nname " NAME "\ndigest 5c1e22aa\nversion 1\nstate complete\n"              \
    "ttl_max_ms 60000\nseat a 10.0.0.5:6379\nseat b 10.0.0.7:6379\nseat c 10.0.0.8:6379\n"         \
    "by far\\x20host 70 1795342353000\n"
#define NODES                                                                                      \
    "node a says=ours counts=yes elsewhere=no seat=10.0.0.5:6379 configured=db1 "                  \
    "connected=10.0.0.5:6379\n"                                                                    \
    "node b says=none counts=no elsewhere=yes seat=10.0.0.7:6379 configured=10.0.0.9:6379 "        \
    "connected=-\n"
/* b moved, d is new */
#define MOVED(state, more)                                                                         \
    "fleet 1\nknown yes\nname " NAME "\ndigest 5c1e22aa\nversion 2\nstate " state                  \
    "\nttl_max_ms 60000\n" more "seat a 10.0.0.5:6379\nseat b 10.0.0.9:6379\nseat c "              \
    "10.0.0.8:6379\nseat d 10.0.0.4:6379\nbefore a 10.0.0.5:6379\nbefore b 10.0.0.7:6379 gone\n"   \
    "before c 10.0.0.8:6379\nend\n"
#define WELL RECORD NODES "end\n"
#define TEN_SEATS                                                                                  \
    "fleet 1\nseat a /\nseat b /\nseat c /\nseat d /\nseat e /\nseat f /\nseat g /\nseat h /\n"    \
    "seat i /\nseat j /\nend\n"
#define TEN_NODES                                                                                  \
    "fleet 1\nnode a\nnode b\nnode c\nnode d\nnode e\nnode f\nnode g\nnode h\nnode i\nnode j\n"    \
    "end\n"
#define NONE                                                                                       \
    "fleet 1\nknown no\nnode a says=unknown counts=no elsewhere=no seat=- configured=db1 "         \
    "connected=-\nwaits b and c are not up\nend\n"

static int read_it(const char *answer, struct fleet_told *ret_told)
{
    char *text = strdup(answer);
    int rc = fleet_told_read(text, ret_told);

    free(text);
    return rc;
}

static struct fleet_told told_of(const char *answer)
{
    struct fleet_told told;

    assert_int_equal(read_it(answer, &told), 0);
    return told;
}

/* --- reading -------------------------------------------------------------------------------------- */

static void test_what_is_new_is_skipped(void **state)
{
    struct fleet_told told =
        told_of(RECORD "moon full\nnode b says=none phase=new seat=/x\n\nend\n");

    (void)state;
    assert_string_equal(told.by_host, "far host");
    assert_int_equal(told.count, 1);
    assert_string_equal(told.node[0].seat, "/x");
    assert_false(told.node[0].counts);
    assert_string_equal(told_of(RECORD "node b says=dreaming\nend\n").node[0].says, "dreaming");
}

static void test_what_is_no_answer(void **state)
{
    static const char *const bad[] = {
        "",
        "end\n",
        "fleet\nend\n",
        "fleet x\nend\n",
        "fleet 1\n",
        RECORD NODES,      /* cut */
        RECORD "node b\\", /* cut */
        "fleet 1\nknown\nend\n",
        "fleet 1\nknown maybe\nend\n",
        "fleet 1\nknown yes\nend\n",
        "fleet 1\nversion -1\nend\n",
        "fleet 1\nversion 18446744073709551616\nend\n",
        "fleet 1\nseat a\nend\n",
        "fleet 1\nseat a  \nend\n",
        "fleet 1\nby host 1\nend\n",
        "fleet 1\nby host 4294967296 1\nend\n",
        "fleet 1\nnode\nend\n",
        "fleet 1\nnode a counts=1\nend\n",
        "fleet 1\nnode a seat\nend\n",
        "fleet 1\nnode \\q\nend\n",
        "fleet 1\nnode \\x0\nend\n",
        "fleet 1\nnode \\x00\nend\n",
        "fleet 1\nstate abcdefghijklmnop\nend\n",
        TEN_SEATS,
        TEN_NODES,
    };
    struct fleet_told told = {.version = 42};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (read_it(bad[i], &told) != HF_EINVAL)
            fail_msg("taken: %s", bad[i]);
    assert_int_equal(read_it("fleet 2\nend\n", &told), HF_EVERSION);
    assert_int_equal(told.version, 42); /* written on success only */
}

static void test_well(void **state)
{
    (void)state;
    struct fleet_told told = told_of(WELL);

    assert_true(fleet_told_well(&told));
    told = told_of(NONE);
    assert_false(fleet_told_well(&told));
    told = told_of(RECORD NODES "differs ttl_max\nend\n");
    assert_false(fleet_told_well(&told));
    told = told_of("fleet 1\nknown yes\nname x\nversion 1\nstate founding\nseat a /a\nend\n");
    assert_false(fleet_told_well(&told));
}

/* --- printing ------------------------------------------------------------------------------------- */

/* To be freed. */
static char *shown(const char *answer)
{
    struct fleet_told told = told_of(answer);
    int saved = fixture_capture_begin();

    show_fleet(&told);
    return fixture_capture_end(saved);
}

static void test_for_people(void **state)
{
    char *text = shown(RECORD NODES "waits b to be \x1b[2J up\nend\n");

    (void)state;
    assert_string_equal(
        text,
        "fleet     3f2a91c0 version 1, complete, since 2026-11-22T10:12:33Z by uid 70 on far host\n"
        "record    5c1e22aa: ttl_max 1m0s, 3 nodes, 2 are needed\n"
        "\n"
        "NODE  ADDRESS        THIS NODE SAYS          COUNTS\n"
        "a     10.0.0.5:6379  this record             yes\n"
        "b     10.0.0.7:6379  no record               no\n"
        "c     10.0.0.8:6379  not configured here     no\n"
        "b is at 10.0.0.7:6379 for this fleet, this host's configuration says 10.0.0.9:6379\n"
        "waits: b to be \\x1b[2J up\n");
    free(text);
    text = shown(NONE);
    assert_string_equal(text, "fleet     none: this agent has no complete record of its fleet\n"
                              "\n"
                              "NODE  ADDRESS  THIS NODE SAYS          COUNTS\n"
                              "a     -        nothing yet             no\n"
                              "waits: b and c are not up\n");
    free(text);
    text = shown("fleet 1\nknown no\nend\n");
    assert_string_equal(text, "fleet     none: this agent has no complete record of its fleet\n");
    free(text);
}

static void test_a_user_of_this_host_has_a_name(void **state)
{
    char answer[1024], host[256] = "", *text;

    (void)state;
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    host[63] = '\0';
    snprintf(
        answer, sizeof(answer),
        "fleet 1\nknown yes\nname x\nversion 1\nstate complete\nseat a /a\nby %s 0 1000\nend\n",
        host);
    text = shown(answer);
    assert_has(text, " by root on ");
    assert_has(text, "1 node, 1 is needed");
    free(text);
}

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static json_t *json_of(const char *answer)
{
    struct fleet_told told = told_of(answer);
    int saved = fixture_capture_begin();
    struct json_out out;
    json_error_t error;
    json_t *document;
    char *text;

    json_begin(&out, stdout);
    show_fleet_json(&out, &told);
    json_end(&out);
    text = fixture_capture_end(saved);
    document = json_loads(text, 0, &error);
    if (!document)
        fail_msg("%s at line %d of:\n%s", error.text, error.line, text);
    free(text);
    return document;
}

static void test_as_json(void **state)
{
    json_t *document = json_of(WELL), *record = json_object_get(document, "record"), *node, *by;

    (void)state;
    assert_true(json_is_true(json_object_get(document, "well")));
    assert_string_equal(text_of(record, "fleet"), NAME);
    assert_string_equal(text_of(record, "digest"), "5c1e22aa");
    assert_int_equal(json_integer_value(json_object_get(record, "version")), 1);
    assert_string_equal(text_of(record, "state"), "complete");
    assert_string_equal(text_of(record, "since"), "2026-11-22T10:12:33Z");
    assert_int_equal(json_integer_value(json_object_get(record, "ttl_max_ms")), 60000);
    assert_int_equal(json_integer_value(json_object_get(record, "quorum")), 2);
    assert_int_equal(json_array_size(json_object_get(record, "members")), 3);
    assert_string_equal(text_of(json_array_get(json_object_get(record, "members"), 2), "address"),
                        "10.0.0.8:6379");
    assert_int_equal(json_array_size(json_object_get(record, "members_before")), 0);
    by = json_object_get(record, "by");
    assert_string_equal(text_of(by, "host"), "far host");
    assert_int_equal(json_integer_value(json_object_get(by, "uid")), 70);
    assert_true(json_is_null(json_object_get(by, "user")));
    node = json_array_get(json_object_get(document, "nodes"), 1);
    assert_string_equal(text_of(node, "id"), "b");
    assert_string_equal(text_of(node, "says"), "none");
    assert_string_equal(text_of(node, "address"), "10.0.0.7:6379");
    assert_string_equal(text_of(node, "configured"), "10.0.0.9:6379");
    assert_true(json_is_null(json_object_get(node, "connected")));
    assert_true(json_is_false(json_object_get(node, "counts")));
    assert_true(json_is_true(json_object_get(node, "elsewhere")));
    assert_true(json_is_null(json_object_get(document, "waits")));
    assert_true(json_is_null(json_object_get(document, "differs")));
    json_decref(document);

    document = json_of(NONE);
    assert_true(json_is_false(json_object_get(document, "well")));
    assert_true(json_is_null(json_object_get(document, "record")));
    assert_string_equal(text_of(document, "waits"), "b and c are not up");
    json_decref(document);
}

static void test_a_change(void **state)
{
    char *text = shown(MOVED("complete", "settles_ms 43210\n"));
    json_t *document, *record, *before;

    (void)state;
    assert_has(text, "version 2, complete and settles in 43.2s\n");
    assert_has(text, "4 nodes, 3 are needed");
    assert_has(text, "leaves: b at 10.0.0.7:6379, stopped for good by an operator's word\n"
                     "new: b at 10.0.0.9:6379 counts when the fleet has settled\n"
                     "new: d at 10.0.0.4:6379 counts when the fleet has settled\n");
    free(text);
    text = shown(RECORD "node a says=changing counts=no\nnode b says=earlier counts=no\n"
                        "node c says=later counts=no\nend\n");
    assert_has(text, "a change under way      no\n");
    assert_has(text, "an earlier record       no\n");
    assert_has(text, "a later record          no\n");
    assert_null(strstr(text, "incomplete"));
    free(text);
    text = shown(MOVED("changing", ""));
    assert_has(text, "version 2, changing\n");
    assert_has(text, "leaves: b at 10.0.0.7:6379");
    free(text);
    text = shown(MOVED("complete", ""));
    assert_null(strstr(text, "leaves"));
    free(text);

    document = json_of(MOVED("complete", "settles_ms 43210\n"));
    record = json_object_get(document, "record");
    assert_int_equal(json_integer_value(json_object_get(record, "settles_ms")), 43210);
    before = json_object_get(record, "members_before");
    assert_true(json_is_true(json_object_get(json_array_get(before, 1), "gone")));
    assert_true(json_is_false(json_object_get(json_array_get(before, 0), "gone")));
    json_decref(document);
    document = json_of(WELL);
    assert_true(json_is_null(json_object_get(json_object_get(document, "record"), "settles_ms")));
    json_decref(document);
}

/* --- in the table --------------------------------------------------------------------------------- */

static void test_status_and_nodes_say_it_by_flags(void **state)
{
    struct reader reader = fixture_reader(8);
    struct hf_node_row row = {.state = HF_NODE_UP, .id = "a", .address = "db1"};
    json_error_t error;
    json_t *document, *nodes, *faults;
    struct json_out out;
    int saved;
    char *text;

    (void)state;
    hf_node_publish(&reader.table, 0, &row);
    row.flags = HF_NODE_F_NO_RECORD | HF_NODE_F_ELSEWHERE;
    hf_node_publish(&reader.table, 1, &row);
    row.flags = HF_NODE_F_NOT_SEATED;
    hf_node_publish(&reader.table, 2, &row);

    saved = fixture_capture_begin();
    show_node_list(&reader, &(struct life){.verdict = LIFE_ALIVE});
    text = fixture_capture_end(saved);
    assert_has(text,
               "it has no record of the fleet, so its answers do not count; the fleet has it at");
    assert_has(text, "it is not at its fleet address, so its answers do not count\n");
    free(text);

    saved = fixture_capture_begin();
    json_begin(&out, stdout);
    show_node_list_json(&out, &reader, &(struct life){.verdict = LIFE_ALIVE}, 0);
    json_end(&out);
    text = fixture_capture_end(saved);
    document = json_loads(text, 0, &error);
    free(text);
    assert_non_null(document);
    nodes = json_object_get(document, "nodes");
    assert_true(json_is_true(json_object_get(json_array_get(nodes, 0), "votes")));
    assert_true(json_is_false(json_object_get(json_array_get(nodes, 1), "votes")));
    assert_true(json_is_false(json_object_get(json_array_get(nodes, 2), "votes")));
    assert_int_equal(json_array_size(json_object_get(json_array_get(nodes, 0), "fleet_faults")), 0);
    faults = json_object_get(json_array_get(nodes, 1), "fleet_faults");
    assert_int_equal(json_array_size(faults), 2);
    assert_string_equal(json_string_value(json_array_get(faults, 0)), "no_record");
    assert_string_equal(json_string_value(json_array_get(faults, 1)), "elsewhere");
    json_decref(document);
    reader_close(&reader);
}

/* --- the subcommand, on an agent that the test plays ------------------------------------------------ */

static char base[64], dir[80], path[96];

static int set_up(void **state)
{
    (void)state;
    scratch_path(base, sizeof(base));
    if (!mkdtemp(base) || chmod(base, 0755) < 0)
        return -1;
    snprintf(dir, sizeof(dir), "%s/test", base);
    snprintf(path, sizeof(path), "%s/control", dir);
    return mkdir(dir, 0755) < 0 || setenv("HOLDFAST_RUNTIME_DIR", base, 1) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unsetenv("HOLDFAST_RUNTIME_DIR");
    (void)unlink(path);
    return rmdir(dir) < 0 || rmdir(base) < 0 ? -1 : 0;
}

/* Answers one request `fleet`. */
static pid_t play(const char *answer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t child;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    (void)unlink(path);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char request[16] = "";
        int fd = accept(listener, NULL, NULL);
        ssize_t got = recv(fd, request, sizeof(request) - 1, 0);

        if (got == 6 && strcmp(request, "fleet\n") == 0)
            (void)!write(fd, answer, strlen(answer));
        _exit(0);
    }
    close(listener);
    return child;
}

/* Runs the subcommand in a process of its own, as another user if root plays. Returns the exit code. */
static int run(bool stranger, const char *option, char *ret_said, size_t size)
{
    char *argv[] = {(char *)"fleet", (char *)"--agent", (char *)"test", (char *)option, NULL};
    int pipes[2], status;
    ssize_t got = 0, more;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (dup2(pipes[1], STDOUT_FILENO) < 0 || dup2(pipes[1], STDERR_FILENO) < 0 ||
            (stranger && geteuid() == 0 && setuid(65534) < 0))
            _exit(1);
        close(pipes[0]);
        optind = 0;
        status = cmd_fleet(option ? 4 : 3, argv);
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

static void with(const char *answer, const char *option, int code, const char *part)
{
    char said[4096];
    pid_t agent = play(answer);

    assert_int_equal(run(false, option, said, sizeof(said)), code);
    assert_has(said, part);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
}

static void test_exit_codes(void **state)
{
    (void)state;
    with(WELL, NULL, EXIT_OK, "3f2a91c0 version 1, complete");
    with(WELL, "--json", EXIT_OK, "\"agent_name\":");
    with(NONE, NULL, EXIT_ATTENTION, "waits: b and c");
    with(RECORD NODES "differs its ttl_max\nend\n", NULL, EXIT_ATTENTION,
         "this host may take no locks: its ttl_max");
    with("fleet 2\nend\n", NULL, EXIT_UNAVAILABLE, "a later form");
    with(RECORD, NULL, EXIT_UNAVAILABLE, "cannot be read");
    with("", NULL, EXIT_UNAVAILABLE, "ended or hangs");
}

static void test_no_agent(void **state)
{
    char said[4096];

    (void)state;
    assert_int_equal(run(false, NULL, said, sizeof(said)), EXIT_UNAVAILABLE);
    assert_has(said, "holdfast fleet: start holdfastd, or name another agent with --agent: no "
                     "agent test runs here");
    assert_int_equal(run(false, "more", said, sizeof(said)), EXIT_USAGE);
}

/* The socket is 0600, for the agent's user. */
static void test_another_user(void **state)
{
    pid_t agent = play(WELL);
    char said[4096];

    (void)state;
    assert_int_equal(chmod(path, geteuid() == 0 ? 0600 : 0), 0);
    assert_int_equal(run(true, NULL, said, sizeof(said)), EXIT_DENIED);
    assert_has(said, "only root and the agent's own user may ask it for its fleet: ");
    assert_int_equal(kill(agent, SIGKILL), 0);
    assert_int_equal(waitpid(agent, NULL, 0), agent);
}

/* --- doctor ----------------------------------------------------------------------------------------- */

/* What doctor says to an answer, NULL: the socket is refused; to be freed. */
static char *examined(const char *answer, uint32_t table_flags, uint32_t node_flags,
                      struct doctor *ret_doctor)
{
    struct reader reader = fixture_reader(8);
    struct hf_node_row row = {.state = HF_NODE_UP, .id = "b", .flags = node_flags};
    const struct life life = {.verdict = LIFE_ALIVE};
    pid_t agent = answer ? play(answer) : 0;
    int saved;
    char *text;

    hf_node_publish(&reader.table, 1, &row);
    reader.table.header->flags |= table_flags;
    snprintf(reader.place.dir, sizeof(reader.place.dir), "%s", dir);
    *ret_doctor = (struct doctor){0};
    saved = fixture_capture_begin();
    doctor_fleet_look(ret_doctor, &reader, &life);
    text = fixture_capture_end(saved);
    if (agent)
        assert_int_equal(waitpid(agent, NULL, 0), agent);
    reader_close(&reader);
    return text;
}

static void finds(const char *answer, unsigned warnings, unsigned failures, const char *part)
{
    struct doctor doctor;
    char *text = examined(answer, 0, 0, &doctor);

    assert_has(text, part);
    assert_int_equal(doctor.warnings, warnings);
    assert_int_equal(doctor.failures, failures);
    free(text);
}

static void test_doctor(void **state)
{
    (void)state;
    finds(RECORD "end\n", 0, 0, "ok    fleet.record      fleet 3f2a91c0 version 1, complete");
    finds(NONE, 0, 1, "no new lock can be had: b and c are not up\n");
    finds(NONE, 0, 1, "> found the fleet: ");
    finds(RECORD "differs its ttl_max\nend\n", 0, 1, "this host may take no locks: its ttl_max");
    finds(RECORD "waits b has none\nend\n", 1, 0, "not on all nodes: b has none");
    finds(MOVED("changing", "waits c is away\n"), 1, 0,
          "the fleet changes to version 2: c is away");
    finds(MOVED("complete", "settles_ms 43210\nwaits 43 s\n"), 0, 0,
          "version 2 of the fleet settles in 44 s");
    finds(WELL, 1, 0, "b is at 10.0.0.7:6379 for this fleet, this host's configuration says ");
    finds(WELL, 1, 0, "> configure b=10.0.0.7:6379\n");
    finds(RECORD "seat d 127.0.0.1:6379\nend\n", 1, 0, "d is at 127.0.0.1:6379 for this fleet: ");
    finds(RECORD "seat d [::1]:6379\nend\n", 1, 0, "d is at [::1]:6379");
    finds(RECORD "seat d /run/redis\nend\n", 1, 0, "d is at /run/redis");
}

/* (!) fleet_address= behind the address of the server that has left would make that one a node of this host alone. */
static void test_doctor_vouches_for_no_server_that_left(void **state)
{
    static const char as[] =
        RECORD "node b says=unknown counts=no elsewhere=yes seat=10.0.0.7:6379 "
               "configured=10.0.0.9:6379 connected=- link=/run/to-b\nend\n";
    struct doctor doctor;
    char *text = examined(WELL, 0, 0, &doctor);

    (void)state;
    assert_lacks(text, "fleet_address=");
    free(text);
    text = examined(as, 0, 0, &doctor);
    assert_has(text, "> let /run/to-b lead to the server at 10.0.0.7:6379 first; only then "
                     "configure b=/run/to-b,fleet_address=10.0.0.7:6379\n");
    assert_lacks(text, "b=10.0.0.9");
    free(text);
}

/* (!) A host without a memory goes by its file. */
static void test_doctor_and_the_files_ttl_max(void **state)
{
    struct doctor doctor;
    char *text;

    (void)state;
    finds(RECORD "file_ttl_max_ms 4000\nend\n", 1, 0,
          "warn  fleet.ttl_max     ttl_max is 1m0s for this fleet and 4.0s in this host's "
          "configuration file: after a reboot");
    finds(RECORD "file_ttl_max_ms 4000\nend\n", 1, 0, "> write ttl_max = 60000ms into");
    text = examined(RECORD "file_ttl_max_ms 60000\nend\n", 0, 0, &doctor);
    assert_lacks(text, "fleet.ttl_max");
    free(text);
    text = examined(RECORD "file_ttl_max_ms 90000\nend\n", 0, 0, &doctor);
    assert_lacks(text, "fleet.ttl_max");
    free(text);
}

static void test_doctor_and_a_host_that_is_left_behind(void **state)
{
    struct doctor doctor;
    char *text = examined(
        RECORD NODES "told_version 4\nwaits see that it has b=10.0.0.9:6379\nend\n", 0, 0, &doctor);

    (void)state;
    assert_has(text, "fail  fleet.record      this host remembers version 1 of the fleet, which is "
                     "at version 4 at the least\n");
    assert_has(text, "> see that it has b=10.0.0.9:6379\n");
    assert_lacks(text, "configure b=");
    assert_lacks(text, "all its hosts");
    free(text);
    /* Nor is a fleet founded that exists. */
    text =
        examined("fleet 1\nknown no\nnode a says=ours\nnode b says=unknown\nwaits put b=/b\nend\n",
                 0, 0, &doctor);
    assert_has(text, "so no new lock can be had: put b=/b\n");
    assert_lacks(text, "found the fleet");
    free(text);
}

/* Only that other hosts are meant makes an address of this host a mistake. */
static void test_doctor_and_a_fleet_of_one_host(void **state)
{
    static const char local[] =
        "fleet 1\nknown yes\nname x\nversion 1\nstate complete\nseat a /a\nseat b "
        "127.0.0.1:6379\nend\n";
    struct doctor doctor;
    char *text;

    (void)state;
    finds(local, 0, 0, "note  nodes.addresses   the fleet has all its nodes at addresses of this");
    text = examined(local, HF_TABLE_F_DEV, 0, &doctor);
    assert_lacks(text, "nodes.addresses");
    free(text);
}

static void test_doctor_without_the_agents_answer(void **state)
{
    struct doctor doctor;
    char *text;

    (void)state;
    text = examined(NULL, 0, HF_NODE_F_ELSEWHERE, &doctor);
    assert_has(text, "note  fleet.record ");
    assert_has(text, "the fleet has b at another address than this host's configuration");
    assert_int_equal(doctor.warnings, 1);
    assert_int_equal(doctor.failures, 0);
    free(text);
    text = examined(NULL, 0, 0, &doctor);
    assert_int_equal(doctor.warnings, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_new_is_skipped),
        cmocka_unit_test(test_what_is_no_answer),
        cmocka_unit_test(test_well),
        cmocka_unit_test(test_for_people),
        cmocka_unit_test(test_a_user_of_this_host_has_a_name),
        cmocka_unit_test(test_as_json),
        cmocka_unit_test(test_a_change),
        cmocka_unit_test(test_status_and_nodes_say_it_by_flags),
        cmocka_unit_test_setup_teardown(test_exit_codes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_agent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_doctor, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_doctor_vouches_for_no_server_that_left, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_doctor_and_the_files_ttl_max, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_doctor_and_a_host_that_is_left_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_doctor_and_a_fleet_of_one_host, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_doctor_without_the_agents_answer, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
