/* The broker's questions, with the test in place of the nodes, the clients and the locks: limits, what becomes of
 * questions whose session ends, and the agent's going away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/resources.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/locks/wakeups.h"
#include "agent/broker/nodes/node_answers.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/queries/queries.h"
#include "tests/unit/broker_fixture.h"
#include "tests/unit/links_fixture.h"
#include "tests/unit/sessions_fixture.h"

#define QUERIES_MOST  64 /* agent/broker/queries/query.c */
#define LISTINGS_MOST HF_NODES_MAX

static struct nodes nodes;
static struct locks locks;
static struct queries *queries;
static struct lease *held_here; /* NULL: nobody on this host holds anything */
static struct resource here;

/* --- below ------------------------------------------------------------------------------------ */

struct lease *resources_lease(HF_UNUSED struct locks *l, HF_UNUSED uint32_t slot,
                              HF_UNUSED uint32_t generation)
{
    return NULL;
}

bool nodes_time(HF_UNUSED const struct nodes *n, HF_UNUSED hf_time now,
                HF_UNUSED hf_nodetime *ret_time)
{
    return false;
}

uint32_t nodes_agree(HF_UNUSED const struct nodes *n, HF_UNUSED hf_dur most, HF_UNUSED hf_time now,
                     HF_UNUSED hf_nodetime *ret_time, HF_UNUSED int *ret_farthest,
                     HF_UNUSED int64_t *ret_ahead_us)
{
    return 0;
}

bool nodes_may_vote(HF_UNUSED const struct nodes *n, int node, HF_UNUSED hf_time now)
{
    return links[node].up;
}

unsigned nodes_on_reply(HF_UNUSED struct nodes *n, HF_UNUSED int node,
                        HF_UNUSED const struct link_reply *reply)
{
    return 0;
}

struct resource *resource_find(HF_UNUSED struct locks *l, HF_UNUSED const void *name,
                               HF_UNUSED size_t len)
{
    return held_here ? &here : NULL;
}

struct lease *resource_lease(HF_UNUSED const struct resource *r)
{
    return held_here;
}

void waiter_describe_local(HF_UNUSED const struct resource *r, struct hf_wire_holder *ret)
{
    *ret = (struct hf_wire_holder){.fence = held_here->fence, .pttl_ms = -2};
}

void wakeups_noticed(HF_UNUSED struct locks *l, HF_UNUSED int node, HF_UNUSED const void *key,
                     HF_UNUSED size_t key_len)
{
}

/* --- asking ----------------------------------------------------------------------------------- */

static int make(void **state)
{
    (void)state;
    make_agent();
    make_links();
    make_sessions();
    held_here = NULL;
    memset(&nodes, 0, sizeof(nodes));
    memset(&locks, 0, sizeof(locks));
    nodes.n = NODES;
    nodes.q = QUORUM;
    for (int i = 0; i < NODES; i++) {
        nodes.node[i].up = true;
        nodes.links[i] = nodes.node[i].link = &links[i];
    }
    assert_int_equal(queries_create(&agent, loop, &nodes, &the_clients, &locks, &queries), HF_OK);
    heard[0] = '\0';
    return 0;
}

/* As the broker ends them. */
static int unmake(void **state)
{
    (void)state;
    queries_close(queries);
    for (int i = 0; i < NODES; i++)
        link_destroy(&links[i]);
    queries_destroy(queries);
    unmake_agent();
    return 0;
}

static void query(int s, uint64_t id, const char *name, bool waits)
{
    struct hf_request_entry q = {.op = HF_OP_QUERY,
                                 .id = id,
                                 .name_len = (uint8_t)strlen(name),
                                 .flags = waits ? HF_REQ_WAIT : 0,
                                 .deadline_ns = HF_TIME_NEVER.ns};

    memcpy(q.name, name, strlen(name));
    query_ask(queries, &sessions[s], &q);
}

static void listing(int s, uint64_t id, int node)
{
    struct hf_request_entry q = {.op = HF_OP_LISTING, .id = id, .slot = (uint32_t)node};

    listings_ask(queries, &sessions[s], &q);
}

/* Whatever is unanswered. */
static void answer_all(enum link_verdict verdict)
{
    for (int node = 0; node < NODES; node++)
        for (int i = 0; i < links[node].asked; i++)
            if (!links[node].commands[i].answered)
                answer(&links[node].commands[i], verdict);
    pass(1);
}

/* --- queries ---------------------------------------------------------------------------------- */

static void a_query_is_answered_once(void **state)
{
    (void)state;
    query(0, 1, "a", false);
    assert_int_equal(times_answered(0, 1), 0);
    answer_all(VERDICT_FREE);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    assert_int_equal(answered(0, 1)->query_outcome, HF_QUERY_FREE);
    pass(10000);
    assert_int_equal(times_answered(0, 1), 1);
    assert_int_equal(users[0].queries, 0);
}

/* The key is the same everywhere; the first node lies about who has it. */
static void the_holder_is_whom_most_nodes_name(void **state)
{
    static const uint64_t fences[NODES] = {9000, 7000, 7000};

    (void)state;
    query(0, 1, "a", false);
    for (int node = 0; node < NODES; node++) {
        struct link_reply reply = reply_now(its_time);

        reply.verdict = VERDICT_TAKEN;
        memset(reply.id, 'a', LINK_ID_LEN);
        reply.holder = (struct hf_wire_holder){
            .fence = fences[node], .pid = (uint32_t)fences[node], .pttl_ms = 5000};
        answer_with(&links[node].commands[0], reply);
    }
    pass(1000);
    assert_int_equal(answered(0, 1)->query_outcome, HF_QUERY_HELD);
    assert_int_equal(answered(0, 1)->query_holding, NODES);
    assert_int_equal(answered(0, 1)->holder.fence, 7000);
    assert_int_equal(answered(0, 1)->holder.pid, 7000);
}

/* 200 a second are shared by users: 6,000 waits of one are asked for in turn, and another's one as ever. */
static void one_users_waits_do_not_delay_anothers(void **state)
{
    (void)state;
    query(0, 1, "a", true);
    users[0].waits += 6000; /* as if */
    queries->waiting_count += 6000;
    query(1, 2, "b", true);
    answer_all(VERDICT_TAKEN);
    assert_int_equal(links[0].asked, 2);
    pass(1200);
    assert_int_equal(links[0].asked, 3);
    users[0].waits -= 6000;
    queries->waiting_count -= 6000;
}

static void a_session_has_so_many_queries(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= QUERIES_MOST; id++)
        query(0, id, "a", false);
    assert_int_equal(answers_of[0].count, 0);
    query(0, 100, "a", false);
    assert_int_equal(answered(0, 100)->status, HF_ELIMIT);
    assert_non_null(strstr(answered(0, 100)->text, "limit of one connection"));
    /* Another one's are its own. */
    query(1, 1, "a", false);
    assert_int_equal(answers_of[1].count, 0);
    answer_all(VERDICT_FREE);
    assert_int_equal(users[0].queries, 0);
    query(0, 101, "a", false);
    assert_int_equal(times_answered(0, 101), 0);
}

static void a_user_has_so_many_queries(void **state)
{
    (void)state;
    config.waiters_per_uid = 2;
    sessions[1].user = sessions[0].user;
    query(0, 1, "a", true);
    query(1, 2, "b", true);
    query(1, 3, "c", false);
    assert_int_equal(answered(1, 3)->status, HF_ELIMIT);
    assert_non_null(strstr(answered(1, 3)->text, "waiters_per_uid"));
    assert_int_equal(counter(HF_COUNTER_REFUSED), 1);
}

/* Who waits for a name to be free asks when a lease of this host has ended, not with the next sweep. */
static void the_end_of_a_lease_is_heard(void **state)
{
    struct lease lease = {.fence = 7};

    (void)state;
    held_here = &lease;
    query(0, 1, "a", true);
    assert_int_equal(links[0].asked, 0); /* no node need be asked */
    assert_int_equal(progress_of[0].count, 1);
    held_here = NULL;
    query_hear_ended(queries, "b", 1);
    assert_int_equal(links[0].asked, 0);
    query_hear_ended(queries, "a", 1);
    assert_int_equal(links[0].asked, 1);
    answer_all(VERDICT_FREE);
    assert_int_equal(answered(0, 1)->query_outcome, HF_QUERY_FREE);
}

/* --- listings --------------------------------------------------------------------------------- */

static void a_session_has_so_many_listings(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= LISTINGS_MOST; id++)
        listing(0, id, 0);
    assert_int_equal(answers_of[0].count, 0);
    listing(0, 100, 1);
    assert_int_equal(answered(0, 100)->status, HF_ELIMIT);
    assert_non_null(strstr(answered(0, 100)->text, "limit of one connection"));
    listing(1, 1, 1);
    assert_int_equal(answers_of[1].count, 0);
}

/* (!) A node has one page at a time to make, whoever asks. */
static void a_node_is_asked_for_one_page_at_a_time(void **state)
{
    (void)state;
    listing(0, 1, 0);
    listing(1, 2, 0);
    listing(2, 3, 1);
    assert_int_equal(links[0].asked, 1);
    assert_int_equal(links[1].asked, 1);
    answer(newest(0), VERDICT_OK);
    assert_int_equal(answered(0, 1)->status, HF_OK);
    assert_int_equal(links[0].asked, 2);
    assert_int_equal(times_answered(1, 2), 0);
    answer(newest(0), VERDICT_OK);
    assert_int_equal(answered(1, 2)->status, HF_OK);
}

static void who_waits_behind_a_broken_page_is_told(void **state)
{
    (void)state;
    listing(0, 1, 0);
    listing(1, 2, 0);
    links[0].up = false;
    break_off(newest(0));
    assert_int_equal(answered(0, 1)->status, HF_ENOQUORUM);
    assert_int_equal(answered(1, 2)->status, HF_ENOQUORUM);
    assert_int_equal(links[0].asked, 1);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void nothing_is_asked_for_a_session_that_ended(void **state)
{
    (void)state;
    query(0, 1, "a", false);
    query(0, 2, "b", true);
    listing(0, 3, 0); /* on its way */
    listing(0, 4, 0); /* behind it */
    listing(1, 5, 0);
    queries_drop_session(&sessions[0]);
    assert_true(LIST_EMPTY(&sessions[0].queries));
    assert_true(LIST_EMPTY(&sessions[0].listings));
    assert_int_equal(users[0].queries, 0);
    assert_int_equal(users[0].listings, 0);
    assert_int_equal(queries->waiting_count, 0);
    answer_all(VERDICT_FREE);
    pass(10000);
    assert_int_equal(answers_of[0].count, 0);
    /* The other's turn comes behind the page that nobody wants any more. */
    assert_int_equal(answered(1, 5)->status, HF_OK);
    assert_int_equal(queries->fanout_count, 0);
}

static void the_end_answers_every_query(void **state)
{
    struct lease lease = {.fence = 7};

    (void)state;
    query(0, 1, "a", false);
    query(0, 2, "b", true);
    held_here = &lease;
    query(1, 3, "c", true);
    held_here = NULL;
    queries_go_away(queries);
    assert_int_equal(answered(0, 1)->status, HF_EGOING);
    assert_int_equal(answered(0, 2)->status, HF_EGOING);
    assert_int_equal(answered(1, 3)->status, HF_EGOING);
    answer_all(VERDICT_FREE);
    assert_int_equal(answers_of[0].count, 2);
    query(0, 4, "d", false);
    assert_int_equal(answered(0, 4)->status, HF_EGOING);
    listing(0, 5, 0);
    assert_int_equal(answered(0, 5)->status, HF_EGOING);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, make, unmake)
    const struct CMUnitTest tests[] = {
        ROW(a_query_is_answered_once),
        ROW(the_holder_is_whom_most_nodes_name),
        ROW(one_users_waits_do_not_delay_anothers),
        ROW(a_session_has_so_many_queries),
        ROW(a_user_has_so_many_queries),
        ROW(the_end_of_a_lease_is_heard),
        ROW(a_session_has_so_many_listings),
        ROW(a_node_is_asked_for_one_page_at_a_time),
        ROW(who_waits_behind_a_broken_page_is_told),
        ROW(nothing_is_asked_for_a_session_that_ended),
        ROW(the_end_answers_every_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
