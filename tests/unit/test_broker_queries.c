/* The broker's questions, with the test in place of the nodes, the clients and the locks: limits, what becomes of
 * questions whose session ends, and the agent's going away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/broker/locks/locks.h"
#include "agent/broker/locks/names.h"
#include "agent/broker/locks/waiters.h"
#include "agent/broker/locks/locks_internal.h"
#include "agent/broker/nodes/nodes.h"
#include "agent/broker/queries/queries.h"
#include "tests/unit/broker_fixture.h"
#include "tests/unit/links_fixture.h"
#include "tests/unit/sessions_fixture.h"

#define QUERIES_MOST   64 /* agent/broker/queries/query.c */
#define LISTINGS_MOST  HF_NODES_MAX
#define FANOUTS_MOST   1024 /* agent/broker/queries/fanout.c */
#define OVERDUE_MOST   256
#define IN_FLIGHT_MOST 3072

static struct nodes nodes;
static struct locks locks;
static struct queries *queries;
static struct lease *held_here; /* NULL: nobody on this host holds anything */
static struct name here;

/* --- below ------------------------------------------------------------------------------------ */

struct lease *names_lease(HF_UNUSED struct locks *l, HF_UNUSED uint32_t slot,
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

struct name *name_find(HF_UNUSED struct locks *l, HF_UNUSED const void *bytes, HF_UNUSED size_t len)
{
    return held_here ? &here : NULL;
}

struct lease *name_lease(HF_UNUSED const struct name *name)
{
    return held_here;
}

void waiter_describe_local(HF_UNUSED const struct name *name, struct hf_wire_holder *ret)
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
    for (int i = 0; i < SESSIONS; i++)
        if (users[i].uid == geteuid()) /* it would be the agent's */
            users[i].uid += SESSIONS;
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

static void force(int s, uint64_t id, const char *name)
{
    struct hf_request_entry q = {
        .op = HF_OP_FORCE, .id = id, .name_len = (uint8_t)strlen(name), .target = 7};

    memcpy(q.name, name, strlen(name));
    forces_ask(queries, &sessions[s], &q);
}

/* As if it had them under way; fewer than none: no more. */
static void have_under_way(int user, int count)
{
    users[user].fanouts += (unsigned)count;
    queries->fanout_count += (unsigned)count;
}

/* The deadline passes. */
static void be_late(struct command *command)
{
    struct link_reply reply = reply_now(command->sent);

    reply.outcome = LINK_TIMEOUT;
    reply.final = false;
    answer_with(command, reply);
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

/* --- of many users ---------------------------------------------------------------------------- */

static void no_user_has_all_queries(void **state)
{
    const int share = (FANOUTS_MOST - FANOUTS_MOST / 16) / 4 * 3;

    (void)state;
    have_under_way(0, share - 1);
    query(0, 1, "a", false);
    assert_int_equal(times_answered(0, 1), 0);
    query(0, 2, "b", false);
    assert_int_equal(answered(0, 2)->status, HF_ELIMIT);
    assert_non_null(strstr(answered(0, 2)->text, "its share of the 1024"));
    assert_non_null(strstr(answered(0, 2)->text, "; try again"));
    query(1, 3, "c", false);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(links[i].asked, 2);
    answer_all(VERDICT_FREE);
    assert_int_equal(answered(1, 3)->status, HF_OK);
    assert_int_equal(answered(1, 3)->query_answered, NODES);
    query(0, 4, "d", false);
    assert_int_equal(times_answered(0, 4), 0);
    answer_all(VERDICT_FREE);
    have_under_way(0, 1 - share);
    assert_int_equal(queries->fanout_count, 0);
}

static void a_wait_beyond_the_share_asks_later(void **state)
{
    (void)state;
    query(0, 1, "a", true);
    answer_all(VERDICT_TAKEN);
    assert_int_equal(links[0].asked, 1);
    have_under_way(0, FANOUTS_MOST * 3 / 4);
    pass(60000);
    assert_int_equal(links[0].asked, 1);
    assert_int_equal(times_answered(0, 1), 0);
    have_under_way(0, -FANOUTS_MOST * 3 / 4);
    pass(60000);
    assert_int_equal(links[0].asked, 2);
}

/* Others may have all that they can get: root still sees and forces. */
static void some_are_left_for_root(void **state)
{
    const int left = FANOUTS_MOST / 16;

    (void)state;
    have_under_way(0, FANOUTS_MOST - left);
    query(1, 1, "a", false);
    assert_int_equal(answered(1, 1)->status, HF_ELIMIT);
    users[2].uid = 0;
    sessions[2].caller.trusted = true;
    force(2, 2, "a");
    assert_int_equal(links[0].commands[0].kind, FORCE);
    have_under_way(2, left - 2);
    query(2, 3, "a", false);
    assert_int_equal(links[0].asked, 2);
    query(2, 4, "a", false);
    assert_int_equal(answered(2, 4)->status, HF_ELIMIT);
    assert_non_null(strstr(answered(2, 4)->text, "the limit; try again"));
    answer_all(VERDICT_FREE);
    have_under_way(0, left - FANOUTS_MOST);
    have_under_way(2, 2 - left);
}

/* (!) That others keep it busy is no reason to say that it does not answer. */
static void a_busy_node_is_asked(void **state)
{
    (void)state;
    links[0].more = IN_FLIGHT_MOST - 1;
    query(0, 1, "a", false);
    assert_int_equal(links[0].asked, 1);
    query(0, 2, "a", false); /* leases need the rest */
    assert_int_equal(answered(0, 2)->status, HF_ELIMIT);
    assert_non_null(strstr(answered(0, 2)->text, "commands under way; try again"));
    assert_int_equal(links[1].asked, 1);
    links[0].overdue = true; /* it hangs: the others tell */
    query(0, 3, "a", false);
    assert_int_equal(links[0].asked, 1);
    assert_int_equal(links[1].asked, 2);
    answer_all(VERDICT_FREE);
    pass(1000);
    assert_int_equal(answered(0, 3)->query_answered, NODES - 1);
}

/* A node that hangs keeps no places, and gets a bounded number of commands. */
static void a_node_that_hangs_costs_no_share(void **state)
{
    (void)state;
    query(0, 1, "a", false);
    for (int i = 1; i < NODES; i++)
        answer(newest(i), VERDICT_FREE);
    pass(1000);
    assert_int_equal(answered(0, 1)->query_answered, NODES - 1);
    assert_int_equal(users[0].fanouts, 1);
    be_late(newest(0));
    assert_int_equal(users[0].fanouts, 0);
    assert_int_equal(queries->fanout_count, 0);
    assert_int_equal(queries->overdue[0], 1);
    queries->overdue[0] += OVERDUE_MOST - 1; /* as if */
    query(0, 2, "a", false);
    assert_int_equal(links[0].asked, 1);
    assert_int_equal(links[1].asked, 2);
    queries->overdue[0] -= OVERDUE_MOST - 1;
    answer(newest(0), VERDICT_FREE);
    assert_int_equal(queries->overdue[0], 0);
    answer_all(VERDICT_FREE);
    query(0, 3, "a", false);
    assert_int_equal(links[0].asked, 2);
    be_late(newest(0));
    break_off(newest(0));
    assert_int_equal(queries->overdue[0], 0);
    answer_all(VERDICT_FREE);
    assert_int_equal(queries->fanout_count, 0);
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

/* (!) One user has many listings, in two sessions; another one's only listing goes on with each second page. */
static void users_take_turns_at_a_node(void **state)
{
    (void)state;
    sessions[2].user = sessions[0].user;
    for (uint64_t id = 1; id <= LISTINGS_MOST; id++) {
        listing(0, id, 0);
        listing(2, 20 + id, 0);
    }
    for (uint64_t id = 100; id < 104; id++) {
        listing(1, id, 0);
        answer(newest(0), VERDICT_OK); /* of the other user */
        assert_int_equal(times_answered(1, id), 0);
        answer(newest(0), VERDICT_OK);
        assert_int_equal(answered(1, id)->status, HF_OK);
    }
    assert_int_equal(answers_of[0].count + answers_of[2].count, 4);
    /* In the order in which they asked. */
    assert_int_equal(times_answered(0, 1) + times_answered(2, 21) + times_answered(0, 2), 3);
    /* At another node nobody had a page. */
    listing(1, 110, 1);
    assert_int_equal(links[1].asked, 1);
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
    assert_int_equal(answered(0, 1)->status, HF_ESHUTDOWN);
    assert_int_equal(answered(0, 2)->status, HF_ESHUTDOWN);
    assert_int_equal(answered(1, 3)->status, HF_ESHUTDOWN);
    answer_all(VERDICT_FREE);
    assert_int_equal(answers_of[0].count, 2);
    query(0, 4, "d", false);
    assert_int_equal(answered(0, 4)->status, HF_ESHUTDOWN);
    listing(0, 5, 0);
    assert_int_equal(answered(0, 5)->status, HF_ESHUTDOWN);
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
        ROW(no_user_has_all_queries),
        ROW(a_wait_beyond_the_share_asks_later),
        ROW(some_are_left_for_root),
        ROW(a_busy_node_is_asked),
        ROW(a_node_that_hangs_costs_no_share),
        ROW(the_end_of_a_lease_is_heard),
        ROW(a_session_has_so_many_listings),
        ROW(a_node_is_asked_for_one_page_at_a_time),
        ROW(users_take_turns_at_a_node),
        ROW(who_waits_behind_a_broken_page_is_told),
        ROW(nothing_is_asked_for_a_session_that_ended),
        ROW(the_end_answers_every_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
