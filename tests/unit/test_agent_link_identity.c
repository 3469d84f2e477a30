/* Whether a link notices that the server at its other end is another by now: behind a relay that
 * keeps our connection while its own to the server ends and is made anew, and on a server that
 * forgot its scripts. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "agent/redis/script.h"
#include "tests/unit/link_fixture.h"

#define KEY          "a resource"
#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CANNOT_BE_NAMED                                                                            \
    OPTIONS("--user", "default", "on", "nopass", "~*", "&*", "+@all", "-client|setname")
#define SCRIPT_ERROR "-ERR Error running script (call to f_01): @user_script:14: @user_script: 14: "

/* --- the relay -------------------------------------------------------------------------------- */

static pid_t relay;
static char relay_path[128];

/* Shared with the relay: when it goes to the fixture's server instead of the one before, and what it changes on the
 * way. */
enum { STAYS, GOES_BEHIND_INFO, GOES, HAS_GONE, REFUSES_NAMES, WRAPS_READONLY };
static volatile int *change;
static struct redis_server before; /* no directory: there is none */

static int server_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", path);
    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);

        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            return fd;
        close(fd);
        poll(NULL, 0, 5);
    }
}

/* Answers CLIENT commands as a proxy does while the server behind it is away, and passes the others. */
static void refuse_names(int client, int server, const char *bytes, size_t n)
{
    for (size_t at = 0, end; at < n; at = end) {
        const char *next = memmem(bytes + at + 1, n - at - 1, "\r\n*", 3);

        end = next ? (size_t)(next - bytes) + 2 : n;
        if (memmem(bytes + at, end - at, "CLIENT", 6))
            (void)!write(client, "-ERR no server\r\n", 16);
        else
            (void)!write(server, bytes + at, end - at);
    }
}

/* Gives a script's READONLY the text that Redis before 7.0 puts before it, and passes the rest. */
static void wrap_readonly(int client, const char *bytes, size_t n)
{
    const char *error = memmem(bytes, n, "-READONLY ", 10);
    size_t before_it = error ? (size_t)(error - bytes) : n;

    (void)!write(client, bytes, before_it);
    if (error) {
        (void)!write(client, SCRIPT_ERROR, strlen(SCRIPT_ERROR));
        (void)!write(client, error, n - before_it);
    }
}

/* Carries one connection for as long as the client keeps it. */
static void carry(int client, const char *path)
{
    static char bytes[65536];
    int server = server_connect(*change == HAS_GONE || !before.dir[0] ? path : before.socket);

    for (;;) {
        struct pollfd fds[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        ssize_t n;

        poll(fds, 2, -1);
        if (fds[1].revents) {
            n = read(server, bytes, sizeof(bytes));
            if (n > 0) {
                if (*change == WRAPS_READONLY)
                    wrap_readonly(client, bytes, (size_t)n);
                else
                    (void)!write(client, bytes, (size_t)n);
                if (*change == GOES_BEHIND_INFO && memmem(bytes, (size_t)n, "run_id:", 7))
                    *change = GOES;
            } else {
                close(server);
                server = -1;
            }
        } else if (fds[0].revents) {
            n = read(client, bytes, sizeof(bytes));
            if (n <= 0)
                _exit(0);
            if (*change == GOES) {
                close(server);
                server = -1;
                *change = HAS_GONE;
            }
            if (server < 0)
                server = server_connect(path);
            if (*change == REFUSES_NAMES) {
                refuse_names(client, server, bytes, (size_t)n);
                continue;
            }
            (void)!write(server, bytes, (size_t)n);
        }
    }
}

static const char *start_relay(struct fixture *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(relay_path, sizeof(relay_path), "%s/relay", f->server.dir);
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", relay_path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    if (!change)
        change =
            mmap(NULL, sizeof(*change), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(change, MAP_FAILED);
    *change = STAYS;
    relay = fork();
    if (relay == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(SIGCHLD, SIG_IGN);
        for (;;) {
            int client = accept(fd, NULL, NULL);

            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                carry(client, f->server.socket);
            }
            close(client);
        }
    }
    assert_true(relay > 0);
    close(fd);
    return relay_path;
}

static int end_relay(void **state)
{
    if (relay > 0) {
        kill(relay, SIGKILL);
        waitpid(relay, NULL, 0);
        relay = 0;
    }
    if (before.dir[0])
        redis_server_remove(&before);
    memset(&before, 0, sizeof(before));
    return tear_down(state);
}

/* --- what the tests do ------------------------------------------------------------------------ */

/* One command on a connection of the test's own. */
static long long side(struct fixture *f, const char *format, ...)
{
    redisContext *c = redisConnectUnix(f->server.socket);
    redisReply *reply;
    long long number;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(c, format, args);
    va_end(args);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    number = reply->integer;
    freeReplyObject(reply);
    redisFree(c);
    return number;
}

/* As a snapshot would bring it back, and as other agents leave it. */
static void load(struct fixture *f, enum script script)
{
    size_t length;
    const char *text = script_text(script, &length);

    (void)side(f, "SCRIPT LOAD %b", text, length);
}

static void remember(struct fixture *f)
{
    (void)side(f,
               "HSET holdfast:node nonce " NONCE " created_us 1 created_wall_ms 1 ttl_max_ms 60000 "
               "nodes 3 list_hash cafe");
}

static struct fixture *start(void **state, const char *const *options)
{
    struct fixture *f = *state;

    assert_true(redis_server_start(&f->server, options));
    remember(f);
    return f;
}

static void another_server(struct fixture *f, const char *const *options)
{
    redis_server_kill(&f->server);
    assert_true(redis_server_start(&f->server, options));
    remember(f);
}

/* A server, and another one that the relay may go to; both look as if they had run for long. */
static void start_two(void **state)
{
    struct fixture *f = start(state, NULL);

    before = f->server;
    memset(&f->server, 0, sizeof(f->server));
    (void)start(state, NULL);
}

static void acquire_with(struct fixture *f, link_reply_fn *fn, void *arg)
{
    const struct link_lock lock = {.key = KEY,
                                   .key_len = strlen(KEY),
                                   .token = &token_bytes,
                                   .ttl_ms = 60000,
                                   .deadline = {INT64_C(4000000000) * 1000000},
                                   .nonce = NONCE,
                                   .fence = UINT64_C(1700000000123),
                                   .holder = {.host = "a", .command = "b", .note = ""}};

    assert_int_equal(link_acquire(f->link, &lock, hf_time_add(clock_now(), hf_ms(FAR_MS)), fn, arg),
                     HF_OK);
}

static void acquire(struct fixture *f, struct told *told)
{
    memset(told, 0, sizeof(*told));
    acquire_with(f, note, told);
}

static void renew(struct fixture *f, struct told *told)
{
    const struct link_key key = {KEY, strlen(KEY), &token_bytes, 60000};

    memset(told, 0, sizeof(*told));
    assert_int_equal(
        link_renew(f->link, &key, 1, hf_time_add(clock_now(), hf_ms(FAR_MS)), note, told), HF_OK);
}

static void is_answered(struct fixture *f)
{
    link_flush(f->link);
    assert_true(runs_until(f, is_final, FAR_MS));
}

static void is_granted(struct fixture *f)
{
    acquire(f, &f->told);
    is_answered(f);
    assert_int_equal(f->told.last.outcome, LINK_ANSWERED);
    assert_int_equal(f->told.last.verdict, VERDICT_OK);
}

/* The connection ends, and the next one greets the server that is there now. */
static void is_greeted_anew(struct fixture *f, const char *why)
{
    char run_id[TRUST_RUN_ID_LEN + 1];

    memcpy(run_id, f->facts.run_id, sizeof(run_id));
    assert_true(runs_until(f, is_down, FAR_MS));
    if (!strstr(f->down_text, why))
        fail_msg("%s", f->down_text);
    assert_true(runs_until(f, is_up, FAR_MS));
    assert_string_not_equal(f->facts.run_id, run_id);
    is_granted(f);
}

/* All of it looks as before, the sentinel and the scripts: only the connection's name tells. */
static void another_server_has_no_vote(struct fixture *f)
{
    is_granted(f);
    another_server(f, NULL);
    for (int i = 0; i < SCRIPTS; i++)
        load(f, (enum script)i);
    acquire(f, &f->told);
    is_answered(f);
    assert_int_equal(f->told.last.outcome, LINK_BROKEN);
}

/* --- another server --------------------------------------------------------------------------- */

static void test_votes_of_another_server_do_not_count(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, start_relay(f));
    another_server_has_no_vote(f);
    is_greeted_anew(f, "proxy");
}

/* Where connections cannot be named, what it has forgotten tells. */
static void test_scripts_that_are_gone_tell_of_another_server(void **state)
{
    struct fixture *f = start(state, CANNOT_BE_NAMED);
    struct told late;

    link_comes_up(f, start_relay(f));
    is_granted(f);
    another_server(f, CANNOT_BE_NAMED);
    load(f, SCRIPT_ACQUIRE);
    renew(f, &f->told);
    acquire(f, &late);
    is_answered(f);
    assert_int_equal(f->told.last.error, HF_NODE_ERR_NOSCRIPT);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(late.finals, 1);
    assert_int_not_equal(late.last.outcome, LINK_ANSWERED); /* though it was granted */
    assert_int_equal(side(f, "EXISTS %s", KEY), 1);
    is_greeted_anew(f, "another server answers");
}

static void test_a_probe_tells_of_another_server(void **state)
{
    struct fixture *f = start(state, CANNOT_BE_NAMED);

    f->probe = hf_ms(50);
    link_comes_up(f, start_relay(f));
    another_server(f, CANNOT_BE_NAMED);
    is_greeted_anew(f, "another server");
}

static void test_password_of_another_server(void **state)
{
    struct fixture *f = *state;
    char text[160];

    assert_true(redis_server_start(&f->server, OPTIONS("--requirepass", "geheim")));
    snprintf(text, sizeof(text), "redis+unix://:geheim@%s", start_relay(f));
    link_comes_up(f, text);
    redis_server_kill(&f->server);
    assert_true(redis_server_start(&f->server, OPTIONS("--requirepass", "geheim")));
    acquire(f, &f->told);
    is_answered(f);
    assert_int_not_equal(f->told.last.outcome, LINK_ANSWERED);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_AUTH);
    assert_true(runs_until(f, is_up, FAR_MS)); /* it logged in again */
}

static void new_replica_ends_the_connection(struct fixture *f)
{
    (void)side(f, "REPLICAOF 127.0.0.1 1");
    acquire(f, &f->told);
    is_answered(f);
    assert_int_equal(f->told.last.error, HF_NODE_ERR_READONLY);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_non_null(strstr(f->down_text, "role"));
    assert_true(runs_until(f, is_up, FAR_MS));
    assert_true(f->facts.replica);
}

static void test_master_that_is_a_replica_by_now(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    new_replica_ends_the_connection(f);
}

/* Its READONLY comes wrapped. */
static void test_master_before_7_that_is_a_replica_by_now(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, start_relay(f));
    *change = WRAPS_READONLY;
    new_replica_ends_the_connection(f);
}

static void is_the_servers(struct fixture *f, const char *run_id)
{
    if (side(f, "EVAL %s 0 %s",
             "return string.find(redis.call('INFO', 'server'), ARGV[1], 1, true) and 1 or 0",
             run_id) != 1)
        fail_msg("%s is another server", run_id);
}

/* It gets the connection's name, and what it says would pass for the words of the one before. */
static void test_another_server_behind_the_handshakes_info(void **state)
{
    struct fixture *f = *state;
    const char *path;

    start_two(state);
    path = start_relay(f);
    *change = GOES_BEHIND_INFO;
    make_link(f, path);
    assert_true(runs_until(f, is_up, FAR_MS));
    is_the_servers(f, f->facts.run_id);
    assert_non_null(strstr(f->down_text, "another server answers"));
    is_granted(f);
}

static void test_another_server_behind_the_info_of_a_doubt(void **state)
{
    struct fixture *f = *state;
    redisContext *c;

    start_two(state);
    link_comes_up(f, start_relay(f));
    is_granted(f);
    c = redisConnectUnix(before.socket);
    freeReplyObject(redisCommand(c, "ACL SETUSER default -client|getname"));
    redisFree(c);
    *change = GOES_BEHIND_INFO;
    acquire(f, &f->told);
    is_answered(f);
    assert_int_not_equal(f->told.last.outcome, LINK_ANSWERED);
    is_greeted_anew(f, "another server answers");
    is_the_servers(f, f->facts.run_id);
}

/* --- the same server -------------------------------------------------------------------------- */

/* How often INFO was asked since RESETSTAT. */
static long long infos(struct fixture *f)
{
    return side(f, "EVAL %s 0",
                "return tonumber(string.match(redis.call('INFO', 'commandstats'), "
                "'cmdstat_info:calls=(%d+)') or 0)");
}

/* What was asked behind the NOSCRIPT is not believed before INFO; sent again, it is. */
static void test_forgotten_scripts_are_no_restart(void **state)
{
    struct fixture *f = start(state, NULL);
    struct told early, again;

    link_comes_up(f, NULL);
    (void)side(f, "SCRIPT FLUSH");
    load(f, SCRIPT_ACQUIRE);
    (void)side(f, "CONFIG RESETSTAT");
    renew(f, &f->told);
    acquire(f, &early);
    is_answered(f);
    acquire(f, &again);
    renew(f, &f->told);
    is_answered(f);
    assert_int_equal(early.last.outcome, LINK_ERROR);
    assert_int_equal(early.last.error, HF_NODE_ERR_NOSCRIPT);
    assert_int_equal(early.last.verdict, VERDICT_OK); /* all the same */
    assert_int_equal(again.last.outcome, LINK_ANSWERED);
    assert_int_equal(again.last.verdict, VERDICT_OK);
    assert_string_equal(f->told.marks, "1");
    assert_int_equal(f->downs, 0);
    assert_int_equal(infos(f), 1);
}

static bool all_answered(struct fixture *f)
{
    return f->told.finals >= 100;
}

/* However many are told so: one INFO, not one each. */
static void test_doubt_asks_once(void **state)
{
    struct fixture *f = start(state, NULL);
    const struct link_key key = {KEY, strlen(KEY), &token_bytes, 60000};

    link_comes_up(f, NULL);
    (void)side(f, "SCRIPT FLUSH");
    (void)side(f, "CONFIG RESETSTAT");
    memset(&f->told, 0, sizeof(f->told));
    for (int i = 0; i < 100; i++)
        assert_int_equal(
            link_renew(f->link, &key, 1, hf_time_add(clock_now(), hf_ms(FAR_MS)), note, &f->told),
            HF_OK);
    link_flush(f->link);
    assert_true(runs_until(f, all_answered, FAR_MS));
    runs_until(f, never, 50);
    assert_int_equal(infos(f), 1);
    assert_int_equal(f->downs, 0);
}

/* (!) A node can say so again and again. INFO then waits, and nothing counts meanwhile. */
static void test_doubt_asks_ten_times_a_second(void **state)
{
    struct fixture *f = start(state, NULL);
    hf_time began = clock_now();
    enum { ROUNDS = 200, BURST = 4 * SCRIPTS };
    struct told first;

    link_comes_up(f, NULL);
    (void)side(f, "CONFIG RESETSTAT");
    for (int i = 0; i < ROUNDS; i++) {
        (void)side(f, "SCRIPT FLUSH");
        load(f, SCRIPT_ACQUIRE);
        renew(f, &first);
        acquire(f, &f->told);
        is_answered(f);
        assert_int_equal(f->told.last.outcome, LINK_ERROR);
        assert_int_equal(f->told.last.error, HF_NODE_ERR_NOSCRIPT);
        assert_int_equal(f->told.last.verdict, VERDICT_OK); /* all the same */
    }
    assert_in_range(infos(f), BURST,
                    BURST + 1 + hf_dur_ms(hf_time_since(clock_now(), began)) / 100);
    runs_until(f, never, 250);
    load(f, SCRIPT_ACQUIRE);
    acquire(f, &f->told);
    is_answered(f);
    assert_int_equal(f->told.last.outcome, LINK_ANSWERED);
    assert_int_equal(f->downs, 0);
}

/* An error is no name: what is behind it does not count before INFO. The name is set anew, with INFO behind it,
 * and asked for no more. */
static void test_a_name_that_is_refused_is_a_doubt(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    is_granted(f);
    (void)side(f, "ACL SETUSER default -client|getname");
    (void)side(f, "CONFIG RESETSTAT");
    acquire(f, &f->told);
    is_answered(f);
    assert_int_equal(f->told.last.outcome, LINK_ERROR);
    runs_until(f, never, 50);
    is_granted(f);
    assert_int_equal(infos(f), 2);
    assert_int_equal(f->downs, 0);
}

/* Its connections go without a name: it is greeted all the same, and votes without a doubt. */
static void test_a_server_without_the_client_command(void **state)
{
    struct fixture *f = start(state, OPTIONS("--rename-command", "CLIENT", ""));

    link_comes_up(f, NULL);
    (void)side(f, "CONFIG RESETSTAT");
    is_granted(f);
    is_granted(f);
    assert_int_equal(infos(f), 0);
    assert_int_equal(f->downs, 0);
}

static void note_and_acquire(struct link *link, const struct link_reply *reply, void *arg)
{
    (void)link;
    (void)arg;
    assert_int_equal(reply->outcome, LINK_ERROR);
    acquire_with(current, note, &current->told);
}

static void next_connection_has_a_name(struct fixture *f)
{
    *change = STAYS;
    f->downs = 0;
    assert_true(runs_until(f, is_up, FAR_MS));
    another_server_has_no_vote(f);
}

/* (!) An error in passing is no lack of rights: without a name nothing would be asked for any more. */
static void test_an_error_in_place_of_a_name_ends_the_connection(void **state)
{
    struct fixture *f = start(state, NULL);
    const char *path = start_relay(f);

    *change = REFUSES_NAMES;
    make_link(f, path);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_int_equal(f->ups, 0);
    next_connection_has_a_name(f);
}

static void test_an_error_in_place_of_a_new_name_ends_the_connection(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, start_relay(f));
    is_granted(f);
    *change = REFUSES_NAMES;
    acquire(f, &f->told);
    is_answered(f);
    assert_true(runs_until(f, is_down, FAR_MS));
    next_connection_has_a_name(f);
}

/* Sent behind INFO, but without asking for the name: another server may come between. */
static void test_what_is_behind_the_info_of_a_doubt_waits_for_the_name(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, NULL);
    is_granted(f);
    (void)side(f, "ACL SETUSER default -client|getname");
    memset(&f->told, 0, sizeof(f->told));
    acquire_with(f, note_and_acquire, NULL);
    is_answered(f);
    assert_int_equal(f->told.last.outcome, LINK_ERROR);
    runs_until(f, never, 50);
    is_granted(f);
    assert_int_equal(f->downs, 0);
}

static void test_another_connection_to_the_same_server(void **state)
{
    struct fixture *f = start(state, NULL);

    link_comes_up(f, start_relay(f));
    is_granted(f);
    (void)side(f, "CLIENT KILL TYPE normal SKIPME yes");
    acquire(f, &f->told);
    is_answered(f);
    assert_int_equal(f->told.last.outcome, LINK_BROKEN);
    assert_true(runs_until(f, is_down, FAR_MS));
    assert_non_null(strstr(f->down_text, "proxy"));
    assert_true(runs_until(f, is_up, FAR_MS));
    is_granted(f);
}

#define IDENTITY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, end_relay)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IDENTITY_TEST(test_votes_of_another_server_do_not_count),
        IDENTITY_TEST(test_scripts_that_are_gone_tell_of_another_server),
        IDENTITY_TEST(test_a_probe_tells_of_another_server),
        IDENTITY_TEST(test_password_of_another_server),
        IDENTITY_TEST(test_master_that_is_a_replica_by_now),
        IDENTITY_TEST(test_master_before_7_that_is_a_replica_by_now),
        IDENTITY_TEST(test_another_server_behind_the_handshakes_info),
        IDENTITY_TEST(test_another_server_behind_the_info_of_a_doubt),
        IDENTITY_TEST(test_forgotten_scripts_are_no_restart),
        IDENTITY_TEST(test_doubt_asks_once),
        IDENTITY_TEST(test_doubt_asks_ten_times_a_second),
        IDENTITY_TEST(test_a_name_that_is_refused_is_a_doubt),
        IDENTITY_TEST(test_a_server_without_the_client_command),
        IDENTITY_TEST(test_an_error_in_place_of_a_name_ends_the_connection),
        IDENTITY_TEST(test_an_error_in_place_of_a_new_name_ends_the_connection),
        IDENTITY_TEST(test_what_is_behind_the_info_of_a_doubt_waits_for_the_name),
        IDENTITY_TEST(test_another_connection_to_the_same_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
