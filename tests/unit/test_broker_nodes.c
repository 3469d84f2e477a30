/* The broker's nodes, with the test in place of their links and of whoever is above: what links tell becomes what the
 * owner hears, each thing once, and what is said of the fleet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/nodes_room_fixture.h"

/* --- up, down, probes ------------------------------------------------------------------------- */

static void a_node_that_comes_up_is_told(void **state)
{
    (void)state;
    comes_up(0);
    assert_heard("up0 key_deleter");
    was_posted(MSG_TRUST);
    assert_int_equal(reviews, 0); /* not from within the link's event */
    pass(0);
    assert_int_equal(reviews, 1);
    assert_int_equal(voting, 0); /* its clock is judged by q of them */
    comes_up(1);
    pass(0);
    assert_int_equal(reviews, 2);
    assert_int_equal(voting, 2);
    assert_int_equal(nodes_up(nodes), 2);
}

static void a_node_that_goes_down_is_told_once(void **state)
{
    (void)state;
    all_come_up();
    goes_down(1, HF_NODE_ERR_BROKEN);
    assert_int_equal(nodes_voting(nodes, its_time), 2); /* at once */
    pass(0);
    assert_int_equal(reviews, 1);
    assert_int_equal(voting, 2);
    /* Each attempt fails in another way. */
    goes_down(1, HF_NODE_ERR_CONNECT);
    goes_down(1, HF_NODE_ERR_TIMEOUT);
    pass(0);
    assert_int_equal(reviews, 2);
    assert_heard("down1");
    comes_up(1);
    pass(0);
    assert_heard("up1 key_deleter");
    assert_int_equal(voting, 3);
}

static void one_that_never_came_up_is_told_once(void **state)
{
    (void)state;
    goes_down(2, HF_NODE_ERR_CONNECT);
    goes_down(2, HF_NODE_ERR_TIMEOUT);
    assert_heard("down2");
}

static void a_probe_is_no_news(void **state)
{
    (void)state;
    all_come_up();
    pass(500);
    reviews = 0;
    is_probed_with(0, 0, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_int_equal(reviews, 1);
    assert_heard("");
    nothing_was_posted();
    assert_int_equal(voting, 3);
}

/* What it finds does count: another server in that place has no vote. */
static void a_probe_finds_another_server(void **state)
{
    (void)state;
    all_come_up();
    is_probed_with(0, 7, sentinel_of(TTL_MAX_MS));
    assert_int_equal(nodes_voting(nodes, its_time), 2);
    free(posted(MSG_TRUST));
    pass(0);
    assert_int_equal(voting, 2);
    assert_heard("restarted0 quarantine0");
}

static void a_review_comes_every_second(void **state)
{
    (void)state;
    all_come_up();
    pass(10000);
    assert_in_range(reviews, 10, 11);
}

static void changes_of_keys_go_up(void **state)
{
    const struct link_events *events = links[0].options.events;

    (void)state;
    all_come_up();
    events->tracking(&links[1], HF_TRACKING_ON, "", nodes);
    events->noticed(&links[1], "key", 3, nodes);
    events->noticed(&links[1], NULL, 0, nodes);
    events->tracking(&links[1], HF_TRACKING_REFUSED, "unknown command", nodes);
    assert_heard("telling1 noticed1:key noticed-any deaf1");
}

/* --- who may vote ----------------------------------------------------------------------------- */

/* (!) Two names of one server are one vote, at once: a round may begin before the review. */
static void one_server_has_one_vote(void **state)
{
    (void)state;
    comes_up(0);
    comes_up(2);
    pass(0);
    heard[0] = '\0';
    comes_up_with(1, 0, sentinel_of(TTL_MAX_MS));
    assert_false(
        nodes->node[1].trust.refused); /* nobody knows whether one of them lies, and which */
    assert_false(nodes->node[0].trust.refused);
    assert_int_equal(nodes_voting(nodes, its_time), 2);
    pass(0);
    assert_int_equal(voting, 2);
    pass(TTL_MAX_MS * 2);
    assert_int_equal(nodes_voting(nodes, its_time), 2);
    assert_int_equal(nodes->node[1].row.refused, HF_REFUSED_DUPLICATE);
    assert_int_equal(nodes->node[0].row.refused, HF_REFUSED_DUPLICATE);
    assert_int_equal(nodes->node[2].row.refused, HF_REFUSED_NOT);
    assert_int_equal(nodes->node[1].row.state, HF_NODE_UP);
    /* It is another server by now. */
    goes_down(1, HF_NODE_ERR_BROKEN);
    comes_up_with(1, 1, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_int_equal(nodes->node[1].row.refused, HF_REFUSED_NOT);
    assert_int_equal(nodes->node[0].row.refused, HF_REFUSED_NOT);
}

static void a_node_that_refuses_writes_grants_nothing(void **state)
{
    struct link_reply reply;

    (void)state;
    all_come_up();
    reply = reply_now(its_time);
    reply.outcome = LINK_ERROR;
    reply.error = HF_NODE_ERR_OOM;
    reply.error_text = "OOM";
    nodes_on_write(nodes, 2, &reply, false);
    nodes_on_write(nodes, 2, &reply, false);
    assert_int_equal(nodes_granting(nodes, its_time), 2);
    assert_int_equal(nodes_voting(nodes, its_time), 3); /* it is asked all the same */
    pass(0);
    assert_int_equal(reviews, 1);
    assert_heard("unwritable2");
    nodes_on_write(nodes, 2, &reply, true);
    assert_int_equal(nodes_granting(nodes, its_time), 3);
    pass(0);
    assert_heard("writable2");
}

/* --- the fleet -------------------------------------------------------------------------------- */

static void a_sentinel_of_others_is_said_in_words(void **state)
{
    (void)state;
    comes_up(0);
    comes_up_with(1, 1, sentinel_of(5000));
    pass(0);
    assert_non_null(strstr(fleet, "ttl_max is 5000 ms on node n2 and 60000 ms here"));
    assert_non_null(strstr(fleet, "all agents of a fleet need the same constants"));
    assert_int_equal(count_heard("fleet1"), 1);
    assert_non_null(strstr(last_refusal, "ttl_max is 5000 ms"));
    pass(5000);
    assert_int_equal(count_heard("fleet1"), 1);
    is_probed_with(1, 1, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_string_equal(fleet, "");
    assert_int_equal(count_heard("taken-back1"), 1);
}

/* On any disagreement none is made. */
static void no_sentinel_is_made_beside_one_of_others(void **state)
{
    struct link_reply none = sentinel_of(TTL_MAX_MS);

    (void)state;
    none.sentinel = (struct node_sentinel){.present = false};
    none.nonce[0] = '\0';
    comes_up_with(0, 0, none);
    comes_up_with(1, 1, sentinel_of(5000));
    comes_up(2);
    pass(5000);
    assert_int_equal(links[0].asked, 0);
    is_probed_with(1, 1, sentinel_of(TTL_MAX_MS));
    pass(0);
    assert_int_equal(links[0].asked, 1);
    assert_true(newest(0)->make);
}

/* --- settling --------------------------------------------------------------------------------- */

static void it_settles_within_a_second(void **state)
{
    (void)state;
    assert_true(nodes_settling(nodes, its_time));
    comes_up(0);
    comes_up(1);
    pass(900);
    assert_true(nodes_settling(nodes, its_time));
    pass(100);
    assert_false(nodes_settling(nodes, its_time));
}

static void it_has_settled_when_all_are_judged(void **state)
{
    (void)state;
    comes_up(0);
    comes_up(1);
    pass(0);
    assert_true(nodes_settling(nodes, its_time));
    comes_up(2);
    assert_true(nodes_settling(nodes, its_time)); /* up, and not judged */
    pass(0);
    assert_false(nodes_settling(nodes, its_time));
}

/* --- a reload --------------------------------------------------------------------------------- */

static void a_reload_gives_links_their_addresses_and_times(void **state)
{
    struct config next = config;
    struct hf_node_row row;

    (void)state;
    for (int i = 0; i < NODES; i++)
        comes_up(i);
    strcpy(next.nodes[1].host, "/run/other");
    strcpy(next.nodes[1].text, "unix:/run/other");
    assert_int_equal(timing_derive(hf_ms(9000), hf_ms(TTL_MAX_MS), &next.timing, NULL, 0), HF_OK);
    nodes_configure(nodes, &next);
    pass(0);
    for (int i = 0; i < NODES; i++) {
        assert_ptr_equal(links[i].options.address, &next.nodes[i]);
        assert_int_equal(links[i].options.silence.ns, timing_silence(hf_ms(9000)).ns);
        assert_true(links[i].options.probe.ns > 0 && links[i].options.probe_writes);
    }
    assert_int_equal(hf_node_read(&agent.table, 1, &row), HF_OK);
    assert_string_equal(row.address, "unix:/run/other");
    nodes_configure(nodes, &config);
}

static void who_they_are_stands_at_a_reload(void **state)
{
    struct config next = config;

    (void)state;
    all_come_up();
    assert_int_equal(timing_derive(hf_ms(9000), hf_ms(TTL_MAX_MS), &next.timing, NULL, 0), HF_OK);
    nodes_configure(nodes, &next);
    pass(0);
    assert_int_equal(voting, NODES);
    nodes_configure(nodes, &config);
}

int main(void)
{
#define ROW(test)           cmocka_unit_test_setup_teardown(test, make, unmake)
#define UNFOUNDED_ROW(test) cmocka_unit_test_setup_teardown(test, make_unfounded, unmake)
    const struct CMUnitTest tests[] = {
        ROW(a_node_that_comes_up_is_told),
        ROW(a_node_that_goes_down_is_told_once),
        ROW(one_that_never_came_up_is_told_once),
        ROW(a_probe_is_no_news),
        ROW(a_probe_finds_another_server),
        ROW(a_review_comes_every_second),
        ROW(changes_of_keys_go_up),
        ROW(one_server_has_one_vote),
        ROW(a_node_that_refuses_writes_grants_nothing),
        UNFOUNDED_ROW(a_sentinel_of_others_is_said_in_words),
        UNFOUNDED_ROW(no_sentinel_is_made_beside_one_of_others),
        ROW(it_settles_within_a_second),
        ROW(it_has_settled_when_all_are_judged),
        UNFOUNDED_ROW(a_reload_gives_links_their_addresses_and_times),
        ROW(who_they_are_stands_at_a_reload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
