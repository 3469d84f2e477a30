/* A link against peers that are no Redis: each ends in the right error, and none learns or tells a
 * secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/link_fixture.h"

static void not_a_redis(void **state, const char *says, enum hf_node_error error)
{
    struct fixture *f = *state;
    char text[256];

    f->silence = hf_ms(200);
    start_peer(f, says, true);
    snprintf(text, sizeof(text), "redis+unix://:hunter2@%s?db=1", f->server.socket);
    make_link(f, text);
    assert_true(runs_until(f, has_tried, FAR_MS));
    if (f->down_error != error)
        fail_msg("%s: %s", link_error_name(f->down_error), f->down_text);
    assert_null(strstr(f->down_text, "hunter2"));
    assert_int_equal(f->ups, 0);
}

static void test_peer_web_server(void **state)
{
    not_a_redis(state, "HTTP/1.1 400 Bad Request\r\n\r\n", HF_NODE_ERR_PROTOCOL);
}

static void test_peer_mute(void **state)
{
    not_a_redis(state, "", HF_NODE_ERR_SILENT);
}

static void test_peer_echo(void **state)
{
    not_a_redis(state, NULL, HF_NODE_ERR_PROTOCOL);
}

static void test_peer_chatterbox(void **state)
{
    not_a_redis(state, "+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n", HF_NODE_ERR_PROTOCOL);
}

static void test_peer_with_a_huge_array(void **state)
{
    not_a_redis(state, "*1000000000\r\n", HF_NODE_ERR_PROTOCOL);
}

static void test_peer_that_repeats_the_password(void **state)
{
    not_a_redis(state, "-ERR unknown command 'AUTH', with args beginning with: 'hunter2'\r\n",
                HF_NODE_ERR_AUTH);
}

static void test_peer_never_ends_its_answer(void **state)
{
    not_a_redis(state, "$100000000\r\nxxxxxxxxxxxxxxx", HF_NODE_ERR_SILENT);
}

/* (!) Before INFO is answered nothing else is sent, whoever is there. */
static void test_peer_hears_nothing_before_info(void **state)
{
    struct fixture *f = *state;
    char path[96], heard[4096] = "";
    FILE *file;

    not_a_redis(state, "", HF_NODE_ERR_SILENT);
    snprintf(path, sizeof(path), "%s/heard", f->server.dir);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_true(fread(heard, 1, sizeof(heard) - 1, file) > 0);
    fclose(file);
    assert_non_null(strstr(heard,
                           "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n"
                           "*1\r\n$4\r\nINFO\r\n"));
    assert_null(strstr(heard, "CONFIG"));
    assert_null(strstr(heard, "SCRIPT"));
    assert_null(strstr(heard, "EVALSHA"));
}

#define PEER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PEER_TEST(test_peer_web_server),
        PEER_TEST(test_peer_mute),
        PEER_TEST(test_peer_echo),
        PEER_TEST(test_peer_chatterbox),
        PEER_TEST(test_peer_with_a_huge_array),
        PEER_TEST(test_peer_that_repeats_the_password),
        PEER_TEST(test_peer_never_ends_its_answer),
        PEER_TEST(test_peer_hears_nothing_before_info),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
