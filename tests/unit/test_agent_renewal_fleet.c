/* Which answers count for a lease, by the fleet's record, and where links go by it. Nothing runs here but the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/link_internal.h"
#include "agent/renewal/renewal_internal.h"
#include "tests/unit/renewal_fixture.h"

#define OUR_DIGEST "01234567"
#define ELSEWHERE  "10.0.0.7:6379"

static struct fleet_record record;
static struct renewal_node *node; /* the second one */

/* Nodes at "/nowhere/0" and so on. */
static int make(void **state)
{
    char text[32], why[WHY_SIZE];

    (void)state;
    make_config();
    for (int i = 0; i < NODES; i++) {
        snprintf(text, sizeof(text), "unix:/nowhere/%d", i);
        assert_int_equal(node_address_parse(text, &config.nodes[i], why, sizeof(why)), HF_OK);
    }
    make_agent();
    node = &agent.renewal->node[1];
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    if (agent.renewal->fleet == &record)
        agent.renewal->fleet = NULL;
    for (struct message *m = told(0); m; m = told(0))
        free(m);
    remove_agent();
    return 0;
}

static void go_by(void)
{
    agent.renewal->fleet = &record;
    strcpy(agent.renewal->fleet_digest, OUR_DIGEST);
    node->seated = true;
}

static bool counts(const char *digest)
{
    struct link_reply reply = {.outcome = LINK_ANSWERED};

    ASSERT_RENEWAL_THREAD();
    strcpy(reply.digest, digest);
    return renewal_counts(node, &reply);
}

static void while_no_record_is_known_nodes_without_one_count(void **state)
{
    (void)state;
    assert_true(counts(""));
    assert_false(counts(OUR_DIGEST));
}

static void with_a_record_its_digest_counts_at_its_seat(void **state)
{
    (void)state;
    go_by();
    assert_true(counts(OUR_DIGEST));
    assert_false(counts("01234568"));
    assert_false(counts(""));
    node->seated = false;
    assert_false(counts(OUR_DIGEST));
}

static void a_node_that_the_record_does_not_count_does_not_count(void **state)
{
    (void)state;
    go_by();
    config.counting = 1 << 0 | 1 << 2;
    assert_false(counts(OUR_DIGEST));
}

static const struct message *another_told(const char *digest)
{
    struct link_reply reply = {.outcome = LINK_ANSWERED};
    static struct message copy;
    struct message *m;

    ASSERT_RENEWAL_THREAD();
    strcpy(reply.digest, digest);
    renewal_tell_another(node, &reply);
    m = told(0);
    if (!m)
        return NULL;
    copy = *m;
    free(m);
    return &copy;
}

/* (!) Nothing is renewed until the agent goes by it: the broker's next look at the node may be late. */
static void another_record_is_told_to_the_broker_once(void **state)
{
    const struct message *m;

    (void)state;
    assert_null(another_told("01234568")); /* no record is known */
    go_by();
    assert_null(another_told(OUR_DIGEST));
    assert_null(another_told(""));
    m = another_told("01234568");
    assert_non_null(m);
    assert_int_equal(m->kind, MSG_ANOTHER);
    assert_int_equal(m->node_number, 1);
    assert_null(another_told("01234568"));
    assert_non_null(another_told("01234569"));
    node->seated = false;
    assert_null(another_told("01234570"));
}

/* --- what is sent ------------------------------------------------------------------------------ */

/* (!) A node that goes by another record writes nothing of a heal. */
static void a_heal_names_our_record(void **state)
{
    struct lease *lease = made("name", 0, ALL, false, clock_now());
    struct link_lock lock;

    (void)state;
    ASSERT_RENEWAL_THREAD();
    lock = renewal_lock(node, lease);
    assert_string_equal(lock.digest, "");
    go_by();
    lock = renewal_lock(node, lease);
    assert_string_equal(lock.digest, OUR_DIGEST);
    lease_free(lease);
}

/* --- seats ------------------------------------------------------------------------------------- */

/* A server is connected, and was judged. */
static void is_up(int i)
{
    struct renewal_node *n = &agent.renewal->node[i];

    n->link->state = LINK_UP;
    n->trust.contacted = n->trust.nonce_seen = true;
    memcpy(n->trust.nonce, NONCE, sizeof(NONCE));
}

/* The record names a seat for the second node; the others are where they should be. */
static void learn_record(const char *seat)
{
    struct fleet_record *r = calloc(1, sizeof(*r));

    assert_non_null(r);
    r->version = 1;
    r->state = FLEET_COMPLETE;
    r->count = NODES;
    for (int i = 0; i < NODES; i++) {
        snprintf(r->seat[i].id, sizeof(r->seat[i].id), "n%d", i);
        snprintf(r->seat[i].address, sizeof(r->seat[i].address), "/nowhere/%d", i);
    }
    snprintf(r->seat[1].address, sizeof(r->seat[1].address), "%s", seat);
    ASSERT_RENEWAL_THREAD();
    renewal_take_fleet(agent.renewal, r, false);
}

static void forget_record(void)
{
    renewal_fleet_end(agent.renewal);
    for (int i = 0; i < NODES; i++)
        if (agent.renewal->node[i].link->state == LINK_UP)
            agent.renewal->node[i].link->state = LINK_IDLE;
}

/* (!) The one at the seat is met for the first time: the other one's sentinel and clock are not its. */
static void of_another_server_than_the_seats_nothing_is_kept(void **state)
{
    struct renewal *r = agent.renewal;

    (void)state;
    for (int i = 0; i < NODES; i++)
        is_up(i);
    learn_record(ELSEWHERE);
    assert_false(node->seated);
    assert_false(node->trust.contacted);
    assert_false(node->trust.nonce_seen);
    assert_string_equal(renewal_nonce(node), "");
    assert_string_equal(seat_address(&node->seat)->text, ELSEWHERE);
    assert_false(link_is_up(node->link)); /* it goes there */
    assert_false(counts(r->fleet_digest));
    for (int i = 0; i < NODES; i += 2) {
        assert_true(r->node[i].seated);
        assert_true(r->node[i].trust.contacted);
        assert_string_equal(renewal_nonce(&r->node[i]), NONCE);
        assert_true(link_is_up(r->node[i].link));
    }
    forget_record();
}

/* The operator says where this host reaches whom. */
static void a_link_with_as_stays_and_counts_nowhere_else(void **state)
{
    (void)state;
    strcpy(config.nodes[1].as, "10.0.0.8:6379");
    is_up(1);
    learn_record(ELSEWHERE);
    assert_false(node->seated);
    assert_true(node->trust.contacted);
    assert_true(link_is_up(node->link));
    assert_ptr_equal(seat_address(&node->seat), &config.nodes[1]);
    assert_false(counts(agent.renewal->fleet_digest));
    forget_record();
    is_up(1);
    learn_record("10.0.0.8:6379");
    assert_true(node->seated);
    assert_true(counts(agent.renewal->fleet_digest));
    forget_record();
}

/* It comes up where the configuration leads, with the record known: it is sent on at the next turn. */
static void a_link_that_comes_up_elsewhere_goes_to_its_seat(void **state)
{
    (void)state;
    learn_record(ELSEWHERE);
    is_up(1);
    renewal_seat_up(node);
    assert_false(node->seated);
    assert_false(counts(agent.renewal->fleet_digest));
    renewal_mend_seats(agent.renewal);
    assert_false(node->trust.contacted);
    assert_false(link_is_up(node->link));
    assert_string_equal(seat_address(&node->seat)->text, ELSEWHERE);
    forget_record();
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make, unmake)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(while_no_record_is_known_nodes_without_one_count),
        CASE(with_a_record_its_digest_counts_at_its_seat),
        CASE(a_node_that_the_record_does_not_count_does_not_count),
        CASE(another_record_is_told_to_the_broker_once),
        CASE(a_heal_names_our_record),
        CASE(of_another_server_than_the_seats_nothing_is_kept),
        CASE(a_link_with_as_stays_and_counts_nowhere_else),
        CASE(a_link_that_comes_up_elsewhere_goes_to_its_seat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
