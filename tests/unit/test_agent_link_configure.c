/* A link whose address, password and times change while it lives; and trials of addresses before that. Against
 * real redis-servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <netinet/in.h>

#include <cmocka.h>

#include "agent/redis/trial.h"
#include "tests/unit/link_fixture.h"

static struct node_address next;

static void parse(struct node_address *address, const char *format, ...) HF_PRINTF(2, 3);
static void parse(struct node_address *address, const char *format, ...)
{
    char text[256], why[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (node_address_parse(text, address, why, sizeof(why)) != HF_OK)
        fail_msg("%s", why);
}

/* As a reload does: what the link had before may be gone afterwards. */
static void configure(struct fixture *f, const struct link_events *events)
{
    const struct link_options options = {.address = &next,
                                         .connect_timeout = f->connect_timeout,
                                         .silence = f->silence,
                                         .probe = f->probe,
                                         .events = events};

    link_configure(f->link, &options);
    memset(&f->address, 0x5a, sizeof(f->address));
}

static void side(struct fixture *f, const char *format, ...)
{
    redisContext *c = redisConnectUnix(f->server.socket);
    redisReply *reply;
    va_list args;

    assert_non_null(c);
    va_start(args, format);
    reply = redisvCommand(c, format, args);
    va_end(args);
    assert_true(reply && reply->type != REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    redisFree(c);
}

static struct fixture *start(void **state)
{
    struct fixture *f = *state;

    f->server.has_tcp = true;
    assert_true(redis_server_start(&f->server, NULL));
    return f;
}

static bool is_up_again(struct fixture *f)
{
    return f->ups >= 2;
}

static bool tracks(struct fixture *f)
{
    return link_tracking(f->link) == HF_TRACKING_ON;
}

/* --- links ------------------------------------------------------------------------------------ */

static void another_password_is_for_the_next_connection(void **state)
{
    struct fixture *f = start(state);
    redisContext *c = redisConnectUnix(f->server.socket);

    link_comes_up(f, NULL);
    freeReplyObject(redisCommand(c, "CONFIG SET requirepass two"));
    parse(&next, "redis+unix://:two@%s", f->server.socket);
    configure(f, &fixture_events);
    assert_false(runs_until(f, is_down, 100)); /* the one that stands stays */
    assert_true(link_is_up(f->link));
    freeReplyObject(redisCommand(c, "CLIENT KILL TYPE normal"));
    redisFree(c);
    assert_true(runs_until(f, is_up_again, FAR_MS));
    assert_int_equal(f->downs, 1);
}

static void another_address_ends_the_connection_and_makes_a_new_one(void **state)
{
    struct fixture *f = start(state);
    char run_id[TRUST_RUN_ID_LEN + 1];

    link_comes_up(f, NULL);
    memcpy(run_id, f->facts.run_id, sizeof(run_id));
    parse(&next, "127.0.0.1:%d", f->server.port);
    configure(f, &fixture_events);
    assert_int_equal(f->downs, 0); /* not from inside the call */
    assert_true(runs_until(f, is_up_again, FAR_MS));
    assert_int_equal(f->downs, 1);
    assert_int_equal(f->down_error, HF_NODE_ERR_BROKEN);
    assert_string_equal(f->facts.run_id, run_id);
}

static bool is_down_twice(struct fixture *f)
{
    return f->downs >= 2;
}

/* (!) Else it would go on where the earlier name led to, as while a name cannot be looked up for a moment. */
static void what_a_name_led_to_is_forgotten(void **state)
{
    struct fixture *f = start(state);
    char text[64];

    f->connect_timeout = hf_ms(500);
    snprintf(text, sizeof(text), "localhost:%d", f->server.port);
    link_comes_up(f, text);
    parse(&next, "no-such-host.invalid:%d", f->server.port);
    configure(f, &fixture_events);
    assert_true(runs_until(f, is_down_twice, FAR_MS));
    assert_int_equal(f->down_error, HF_NODE_ERR_RESOLVE);
    assert_int_equal(f->ups, 1);
}

static void a_link_that_waits_tries_the_new_address_at_once(void **state)
{
    struct fixture *f = start(state);
    hf_time began;

    make_link(f, "unix:/nonexistent/sock");
    while (f->downs < 8) /* its delays have grown to a second */
        (void)runs_until(f, never, 50);
    parse(&next, "%s", f->server.socket);
    began = clock_now();
    configure(f, &fixture_events);
    assert_true(runs_until(f, is_up, FAR_MS));
    assert_true(hf_time_since(clock_now(), began).ns < 500 * HF_NS_PER_MS);
}

static void tracking_begins_and_ends_with_the_events(void **state)
{
    struct fixture *f = start(state);

    link_comes_up(f, NULL);
    parse(&next, "%s", f->server.socket);
    assert_int_equal(link_tracking(f->link), HF_TRACKING_DOWN);
    configure(f, &tracking_events);
    assert_true(runs_until(f, tracks, FAR_MS));
    configure(f, &fixture_events);
    assert_int_equal(link_tracking(f->link), HF_TRACKING_DOWN);
    assert_false(runs_until(f, tracks, 200));
    assert_int_equal(f->downs, 0); /* the link itself stays */
    configure(f, &tracking_events);
    assert_true(runs_until(f, tracks, FAR_MS));
}

static bool is_connected(struct fixture *f)
{
    return link_is_connected(f->link);
}

static void an_interface_is_no_part_of_a_seat(void **state)
{
    struct fixture *f = start(state);
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t length = sizeof(here);
    int silent = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char address[32], seat[32], peer[HF_NODE_TEXT_MAX + 1];

    if (bind(silent, (struct sockaddr *)&here, sizeof(here)) < 0) {
        close(silent);
        skip(); /* this host has no IPv6 */
    }
    assert_int_equal(listen(silent, 1), 0);
    assert_int_equal(getsockname(silent, (struct sockaddr *)&here, &length), 0);
    snprintf(address, sizeof(address), "[::1%%1]:%u", ntohs(here.sin6_port));
    snprintf(seat, sizeof(seat), "[::1]:%u", ntohs(here.sin6_port));
    make_link(f, address);
    assert_true(runs_until(f, is_connected, FAR_MS));
    link_peer(f->link, peer);
    assert_string_equal(peer, seat);
    close(silent);
}

/* --- trials ----------------------------------------------------------------------------------- */

static void a_trial_tells_who_answers(void **state)
{
    struct fixture *f = start(state);
    struct node_address a, b;
    struct trial trials[2] = {{.address = &a}, {.address = &b}};

    link_comes_up(f, NULL);
    parse(&a, "%s", f->server.socket);
    parse(&b, "localhost:%d", f->server.port);
    assert_int_equal(trial_run(trials, 2, hf_ms(FAR_MS)), HF_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(trials[i].answered);
        assert_int_equal(trials[i].error, HF_NODE_ERR_NONE);
        assert_string_equal(trials[i].facts.run_id, f->facts.run_id);
    }
}

static void a_trial_tells_why_not(void **state)
{
    struct fixture *f = start(state);
    int silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct node_address a, b, c, d;
    struct trial trials[4] = {{.address = &a}, {.address = &b}, {.address = &c}, {.address = &d}};
    struct sockaddr_un here = {.sun_family = AF_UNIX};

    snprintf(here.sun_path, sizeof(here.sun_path), "%s.silent", f->server.socket);
    assert_int_equal(bind(silent, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(silent, 1), 0);
    side(f, "ACL SETUSER poor on >p ~* +@read +auth +info +client");
    side(f, "CONFIG SET requirepass right");
    parse(&a, "redis+unix://:guess@%s", f->server.socket);
    parse(&b, "unix:/nonexistent/sock");
    parse(&c, "unix:%s", here.sun_path);
    parse(&d, "redis+unix://poor:p@%s", f->server.socket);
    assert_int_equal(trial_run(trials, 4, hf_ms(500)), HF_OK);
    assert_int_equal(trials[0].error, HF_NODE_ERR_AUTH);
    assert_null(strstr(trials[0].text, "guess"));
    assert_int_equal(trials[1].error, HF_NODE_ERR_CONNECT);
    assert_int_equal(trials[2].error, HF_NODE_ERR_TIMEOUT);
    assert_string_equal(trials[2].text, "no answer within 0.5 s");
    assert_int_equal(trials[3].error, HF_NODE_ERR_PERM);
    for (int i = 0; i < 4; i++)
        assert_false(trials[i].answered);
    close(silent);
    (void)unlink(here.sun_path);
}

/* The server may say so, or just hang up. */
static void a_trial_waits_for_nothing_where_a_socket_is_closed(void **state)
{
    struct fixture *f = start(state);
    struct node_address a;
    struct trial trial = {.address = &a};

    link_comes_up(f, NULL);
    side(f, "CONFIG SET maxclients 1");
    parse(&a, "%s", f->server.socket);
    assert_int_equal(trial_run(&trial, 1, hf_ms(FAR_MS)), HF_OK);
    assert_false(trial.answered);
    assert_int_not_equal(trial.error, HF_NODE_ERR_TIMEOUT);
}

/* All that agents use, but for HSET, which they need, and SCAN. */
#define RIGHTS                                                                                     \
    "+info +evalsha +script|load +time +get +set +del +pexpire +pttl +hmget +mget +client +ping"

static void a_trial_names_the_rights_that_are_missing(void **state)
{
    struct fixture *f = start(state);
    struct node_address a, b;
    struct trial trials[2] = {{.address = &a, .asks_rights = true},
                              {.address = &b, .asks_rights = true}};

    side(f, "ACL SETUSER poor on >p ~* " RIGHTS);
    side(f, "ACL SETUSER fair on >p ~* +hset " RIGHTS);
    parse(&a, "redis+unix://poor:p@%s", f->server.socket);
    parse(&b, "redis+unix://fair:p@%s", f->server.socket);
    assert_int_equal(trial_run(trials, 2, hf_ms(FAR_MS)), HF_OK);
    assert_false(trials[0].answered);
    assert_false(trial_may_pass(&trials[0]));
    assert_int_equal(trials[0].error, HF_NODE_ERR_PERM);
    assert_string_equal(trials[0].text,
                        "ACL SETUSER poor +hset +scan: its user lacks these rights");
    assert_true(trials[1].answered);
    assert_string_equal(trials[1].lacks, "ACL SETUSER fair +scan: its user lacks these rights");
}

static void a_trial_seeks_keys_of_agents(void **state)
{
    struct fixture *f = start(state);
    struct node_address a;
    struct trial trials[2] = {{.address = &a}, {.address = &a, .seeks_keys = true}};

    parse(&a, "%s", f->server.socket);
    assert_int_equal(trial_run(trials, 2, hf_ms(FAR_MS)), HF_OK);
    assert_true(trials[1].answered);
    assert_string_equal(trials[1].key, "");
    side(f, "SET holdfast:fence:x 1");
    for (int i = 0; i < 2000; i++)
        side(f, "SET k%d 1", i);
    assert_int_equal(trial_run(trials, 2, hf_ms(FAR_MS)), HF_OK);
    assert_string_equal(trials[0].key, "");
    assert_true(trials[1].answered);
    assert_string_equal(trials[1].key, "holdfast:fence:x");
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ROW(another_password_is_for_the_next_connection),
        ROW(another_address_ends_the_connection_and_makes_a_new_one),
        ROW(what_a_name_led_to_is_forgotten),
        ROW(a_link_that_waits_tries_the_new_address_at_once),
        ROW(tracking_begins_and_ends_with_the_events),
        ROW(an_interface_is_no_part_of_a_seat),
        ROW(a_trial_tells_who_answers),
        ROW(a_trial_tells_why_not),
        ROW(a_trial_waits_for_nothing_where_a_socket_is_closed),
        ROW(a_trial_names_the_rights_that_are_missing),
        ROW(a_trial_seeks_keys_of_agents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
