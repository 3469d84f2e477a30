/* Releases on real nodes: each is answered, waits for its node, or is left to the key's TTL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/loop.h"
#include "agent/redis/resolver.h"
#include "agent/redis/key_deleter.h"
#include "tests/unit/nodes_fixture.h"

#define ALL     ((UINT32_C(1) << NODES) - 1)
#define QUORUM  2
#define LONG_MS 60000

/* What `done` told. */
struct told {
    int calls, answered;
    enum hf_loss_reason gone;
    bool inside;
};

static struct loop *loop;
static struct resolver *resolver;
static struct key_deleter *key_deleter;
static struct link *links[NODES];
static struct node_address addresses[NODES];
static bool starting;

/* --- the loop --------------------------------------------------------------------------------- */

struct wait {
    struct loop_timer timer;
    bool (*wanted)(void *);
    void *arg;
    hf_time give_up;
    bool came;
};

static void on_tick(struct loop_timer *timer, hf_time now)
{
    struct wait *wait = HF_CONTAINER(timer, struct wait, timer);

    wait->came = wait->wanted && wait->wanted(wait->arg);
    if (wait->came || hf_time_reached(now, wait->give_up))
        loop_stop(loop);
    else
        loop_timer_set(loop, timer, hf_time_add(now, hf_ms(2)));
}

static bool runs_until(bool (*wanted)(void *), void *arg, int ms)
{
    struct wait wait = {
        .wanted = wanted, .arg = arg, .give_up = hf_time_add(clock_now(), hf_ms(ms))};

    wait.timer.fn = on_tick;
    loop_timer_set(loop, &wait.timer, clock_now());
    loop_run(loop);
    loop_timer_cancel(loop, &wait.timer);
    return wait.came;
}

static bool all_up(void *arg)
{
    (void)arg;
    for (int i = 0; i < NODES; i++)
        if (!link_is_up(links[i]))
            return false;
    return true;
}

static bool is_down(void *arg)
{
    return !link_is_up(*(struct link **)arg);
}

static bool is_idle(void *arg)
{
    (void)arg;
    return key_deleter_busy(key_deleter) == 0;
}

static bool is_told(void *arg)
{
    return ((struct told *)arg)->calls > 0;
}

static bool is_free(void *arg)
{
    return holders_of(arg, TOKEN) == 0;
}

/* --- links ------------------------------------------------------------------------------------ */

static void on_up(struct link *link, const struct node_facts *facts,
                  const struct link_reply *sentinel, void *arg)
{
    (void)facts;
    (void)sentinel;
    (void)arg;
    key_deleter_link_up(key_deleter, link_node(link));
}

static void on_probed(struct link *link, const struct node_facts *facts,
                      const struct link_reply *sentinel, void *arg)
{
    (void)link;
    (void)facts;
    (void)sentinel;
    (void)arg;
}

static void on_down(struct link *link, enum hf_node_error error, const char *text, void *arg)
{
    (void)link;
    (void)error;
    (void)text;
    (void)arg;
}

static uint32_t forgetful; /* by node: what it has not proves nothing */

static bool counts(int node, const struct link_reply *reply, void *owner)
{
    (void)reply;
    (void)owner;
    return !(forgetful & 1u << node);
}

static int refusals, ends; /* that were told of node 2 */

static void refused(int node, const struct link_reply *reply, void *arg)
{
    (void)arg;
    if (node == 2)
        ++*(reply ? &refusals : &ends);
}

static const struct key_deleter_owner releases = {.counts = counts, .refused = refused};

static const struct link_events link_events = {.up = on_up, .probed = on_probed, .down = on_down};

static void on_wake(void *arg)
{
    (void)arg;
    resolver_deliver(resolver);
}

static int set_up(void **state)
{
    (void)state;
    if (start_nodes() != 0)
        return -1;
    assert_int_equal(loop_create(&loop), HF_OK);
    assert_int_equal(resolver_create(loop, &resolver), HF_OK);
    loop_on_wake(loop, on_wake, NULL);
    for (int i = 0; i < NODES; i++) {
        struct link_options options = {
            .loop = loop,
            .resolver = resolver,
            .address = &addresses[i],
            .node = i,
            .connect_timeout = hf_ms(5000),
            .silence = hf_ms(1000),
            .probe = hf_ms(60000),
            .events = &link_events,
        };

        node_address(i, &addresses[i]);
        assert_int_equal(link_create(&options, &links[i]), HF_OK);
    }
    assert_int_equal(key_deleter_create(loop, links, NULL, NODES, QUORUM, &releases, &key_deleter),
                     HF_OK);
    for (int i = 0; i < NODES; i++)
        link_start(links[i]);
    assert_true(runs_until(all_up, NULL, FAR_MS));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    key_deleter_destroy(key_deleter); /* before the links: answers may still be on their way */
    for (int i = 0; i < NODES; i++)
        link_destroy(links[i]);
    resolver_destroy(resolver);
    loop_destroy(loop);
    remove_nodes();
    return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static void on_done(const struct release_outcome *outcome, void *arg, void *owner)
{
    struct told *told = arg;

    (void)owner;
    told->calls++;
    told->answered = outcome->done;
    told->gone = outcome->gone;
    told->inside = starting;
}

static struct delete_request request_of(const char *key, struct told *told)
{
    struct delete_request request =
        delete_request(key, strlen(key), &token_bytes, hf_ms(FAR_MS), hf_ms(LONG_MS), ALL);

    delete_request_tell(&request, told ? on_done : NULL, told);
    return request;
}

static void start(const struct delete_request *request)
{
    starting = true;
    assert_int_equal(key_deleter_start(key_deleter, request), HF_OK);
    starting = false;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_own_token_goes_from_every_node(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("mine", &told);

    (void)state;
    put_everywhere("mine", TOKEN, LONG_MS);
    start(&request);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(told.calls, 1);
    assert_false(told.inside);
    assert_true(told.answered >= QUORUM);
    assert_int_equal(holders_of("mine", ""), ALL);
}

static void test_anothers_key_stays(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("theirs", &told);

    (void)state;
    put_everywhere("theirs", OTHER, LONG_MS);
    ask(0, "DEL theirs");
    ask(1, "DEL theirs");
    ask(1, "RPUSH theirs another type");
    start(&request);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(told.calls, 1);
    assert_string_equal(ask(2, "GET theirs"), OTHER);
    assert_int_equal(ask_number(1, "LLEN", "theirs"), 2);
}

static void test_only_nodes_of_the_mask(void **state)
{
    struct told told = {0}, nothing = {0};
    struct delete_request request = request_of("masked", &told);

    (void)state;
    put_everywhere("masked", TOKEN, LONG_MS);
    request.nodes = 1 << 1;
    start(&request);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(told.answered, 1); /* all of the mask, though no quorum */
    assert_int_equal(holders_of("masked", TOKEN), 1 << 0 | 1 << 2);

    request = request_of("masked", &nothing);
    request.nodes = 0;
    start(&request);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(nothing.calls, 1);
    assert_int_equal(nothing.answered, 0);
    assert_false(nothing.inside);
}

static void test_one_turn_is_one_script_per_node(void **state)
{
    enum { KEYS = 300 };
    char key[32];

    (void)state;
    for (int i = 0; i < NODES; i++)
        ask(i, "CONFIG RESETSTAT");
    for (int k = 0; k < KEYS; k++) {
        struct delete_request request;

        snprintf(key, sizeof(key), "many-%d", k);
        put_everywhere(key, TOKEN, LONG_MS);
        request = request_of(key, NULL);
        start(&request);
    }
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(calls_of(i, "del"), KEYS);
        assert_in_range(calls_of(i, "evalsha"), 1, KEYS / 50);
        assert_int_equal(ask_number(i, "EXISTS", "many-0"), 0);
    }
}

static void test_quorum_is_told_without_the_stopped_node(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("waits", &told);

    (void)state;
    put_everywhere("waits", TOKEN, LONG_MS);
    redis_server_pause(&nodes[2]);
    start(&request);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_int_equal(told.answered, QUORUM);
    assert_int_equal(key_deleter_busy(key_deleter), 1);
    /* Its connection is closed for silence; the release goes over the next one. */
    assert_true(runs_until(is_down, &links[2], FAR_MS));
    redis_server_resume(&nodes[2]);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(holders_of("waits", TOKEN), 0);
    assert_int_equal(told.calls, 1);
    assert_true(runs_until(all_up, NULL, FAR_MS));
}

static void test_nodes_that_never_had_it_count(void **state)
{
    struct told told = {0}, at_once = {0};
    struct delete_request request = request_of("part", &told);

    (void)state;
    put_everywhere("part", TOKEN, LONG_MS);
    ask(0, "DEL part");
    redis_server_pause(&nodes[2]);
    request.nodes = 1 << 1 | 1 << 2;
    start(&request);
    (void)runs_until(is_told, &told, 1000);
    request = request_of("part", &at_once);
    request.nodes = 1 << 2;
    start(&request);
    (void)runs_until(is_told, &at_once, 1000);
    redis_server_resume(&nodes[2]);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.answered, 1); /* not before: one has it, and one may */
    assert_int_equal(at_once.calls, 1);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(holders_of("part", TOKEN), 0);
    assert_true(runs_until(all_up, NULL, FAR_MS));
}

static void test_attempt_bounds_done(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("slow", &told);

    (void)state;
    put_everywhere("slow", TOKEN, LONG_MS);
    redis_server_pause(&nodes[1]);
    redis_server_pause(&nodes[2]);
    request.attempt = hf_ms(100);
    start(&request);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_int_equal(told.answered, 1);
    redis_server_resume(&nodes[1]);
    redis_server_resume(&nodes[2]);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(told.calls, 1);
    assert_int_equal(holders_of("slow", TOKEN), 0);
    assert_true(runs_until(all_up, NULL, FAR_MS));
}

/* (!) A node that was stopped may have run a renewal of before the release as late as the key's end, for one TTL more. */
static void test_job_ends_when_the_key_has_lapsed(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("lapses", &told);
    hf_time began;

    (void)state;
    redis_server_kill(&nodes[0]);
    assert_true(runs_until(is_down, &links[0], FAR_MS));
    request.ttl = hf_ms(800);
    began = clock_now();
    start(&request);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_int_equal(key_deleter_busy(key_deleter), 1);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_true(hf_time_reached(clock_now(), hf_time_add(began, hf_ms(2 * 800))));
    assert_true(redis_server_start(&nodes[0], NULL));
    assert_true(runs_until(all_up, NULL, FAR_MS));
}

/* (!) The lost command may have run behind the first release. */
static void test_in_doubt_is_released_twice(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("doubted", &told);

    (void)state;
    request.in_doubt = 1 << 1;
    request.doubt_until = hf_time_add(clock_now(), hf_ms(600));
    start(&request);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_true(hf_time_before(clock_now(), request.doubt_until)); /* not held up by the doubt */
    (void)runs_until(NULL, NULL, 100);
    ask(1, "SET doubted %s PX %d", TOKEN, LONG_MS);
    ask(0, "SET doubted %s PX %d", TOKEN, LONG_MS);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_true(hf_time_reached(clock_now(), request.doubt_until));
    assert_int_equal(holders_of("doubted", TOKEN), 1 << 0);
    ask(0, "DEL doubted");
}

/* (!) The same when the connection breaks with the release itself unanswered behind that command.
 */
static void test_broken_behind_a_doubtful_command(void **state)
{
    struct delete_request request = request_of("broken", NULL);

    (void)state;
    redis_server_pause(&nodes[1]);
    request.nodes = 1 << 1;
    request.doubt_until = hf_time_add(clock_now(), hf_ms(4000));
    start(&request);
    assert_true(runs_until(is_down, &links[1], FAR_MS));
    redis_server_resume(&nodes[1]);
    assert_true(runs_until(all_up, NULL, FAR_MS));
    (void)runs_until(NULL, NULL, 200);
    ask(1, "SET broken %s PX %d", TOKEN, LONG_MS);
    assert_true(runs_until(is_free, "broken", FAR_MS));
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_true(hf_time_reached(clock_now(), request.doubt_until));
}

static void test_node_that_refuses_for_now(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("later", &told);

    (void)state;
    put_everywhere("later", TOKEN, LONG_MS);
    ask(2, "CONFIG SET min-replicas-to-write 1"); /* NOREPLICAS for every write */
    start(&request);
    assert_true(runs_until(is_told, &told, FAR_MS));
    (void)runs_until(NULL, NULL, 50);
    assert_int_equal(holders_of("later", TOKEN), 1 << 2);
    ask(2, "CONFIG SET min-replicas-to-write 0");
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(holders_of("later", TOKEN), 0);
}

static void start_many(int count, struct told *told)
{
    char key[32];

    for (int i = 0; i < count; i++) {
        struct delete_request request;

        snprintf(key, sizeof(key), "many-%d", i);
        request = request_of(key, told);
        start(&request);
    }
}

/* (!) Not each job by itself: else a node that refuses all releases takes ever more time of the agent. */
static void test_a_node_that_refuses_is_asked_by_one_job(void **state)
{
    enum { JOBS = 1000, BATCHES = JOBS / 128 + 1 };
    struct told told = {0};
    long before;

    (void)state;
    refusals = ends = 0;
    for (int i = 0; i < JOBS; i++)
        ask(2, "SET many-%d %s PX %d", i, TOKEN, LONG_MS);
    ask(2, "CONFIG SET min-replicas-to-write 1");
    ask(2, "CONFIG RESETSTAT");
    start_many(JOBS, &told);
    (void)runs_until(NULL, NULL, 1500);
    assert_int_equal(told.calls, JOBS); /* who waits does not wait for it */
    before = calls_of(2, "evalsha");
    /* All at first, then one each 100 ms. */
    assert_in_range(before, BATCHES + 2, BATCHES + 16);
    assert_in_range(refusals, before - 1, before); /* one may be unread */
    assert_int_equal(ends, 0);
    ask(2, "CONFIG SET min-replicas-to-write 0");
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(holders_of("many-999", TOKEN), 0);
    assert_int_equal(ends, 1);
    assert_in_range(refusals, before - 1, before + 1);
    /* The second asked for one, each next one for twice as many. */
    assert_in_range(calls_of(2, "evalsha") - before, 11, 24);
}

static bool are_told(void *arg)
{
    return ((struct told *)arg)->calls >= KEY_DELETER_MOST;
}

static void test_jobs_of_a_node_that_is_away_are_bounded(void **state)
{
    enum { MORE = 100 };
    struct told told = {0};

    (void)state;
    redis_server_kill(&nodes[0]);
    assert_true(runs_until(is_down, &links[0], FAR_MS));
    start_many(KEY_DELETER_MOST, &told);
    assert_true(runs_until(are_told, &told, FAR_MS));
    assert_int_equal(key_deleter_busy(key_deleter), KEY_DELETER_MOST);
    told.calls = 0;
    for (int i = 0; i < MORE; i++) {
        char key[32];
        struct delete_request request;

        snprintf(key, sizeof(key), "more-%d", i);
        request = request_of(key, &told);
        start(&request);
    }
    (void)runs_until(NULL, NULL, 200);
    assert_int_equal(told.calls, MORE);
    assert_int_equal(key_deleter_busy(key_deleter), KEY_DELETER_MOST);
    assert_true(redis_server_start(&nodes[0], NULL));
    ask(0, "SET many-0 %s PX %d", TOKEN, LONG_MS);
    ask(0, "SET more-99 %s PX %d", TOKEN, LONG_MS);
    assert_true(runs_until(all_up, NULL, FAR_MS));
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(holders_of("more-99", TOKEN), 0);
    assert_int_equal(holders_of("many-0", TOKEN), 1); /* the oldest one was dropped */
    ask(0, "DEL many-0");
}

/* Of a lease that is valid for so long. */
static enum hf_loss_reason gone_of(const char *key, int valid_ms)
{
    struct told told = {0};
    struct delete_request request = request_of(key, &told);

    delete_request_judge(&request, hf_time_add(clock_now(), hf_ms(valid_ms)));
    start(&request);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    return told.gone;
}

static void put_on(uint32_t which, const char *key, const char *value)
{
    for (int i = 0; i < NODES; i++)
        if (which & 1u << i)
            ask(i, "SET %s %s PX %d", key, value, LONG_MS);
}

static void test_what_q_nodes_do_not_have_was_lost(void **state)
{
    (void)state;
    put_on(ALL, "gone", TOKEN);
    assert_int_equal(gone_of("gone", FAR_MS), HF_LOSS_NONE);
    assert_int_equal(gone_of("gone", FAR_MS), HF_LOSS_MISSING);
    put_on(1, "gone", TOKEN);
    put_on(2, "gone", OTHER);
    assert_int_equal(gone_of("gone", FAR_MS), HF_LOSS_FOREIGN);
    /* On one it may be missing, whichever answers first. */
    for (uint32_t without = 0; without < NODES; without++) {
        put_on(ALL & ~(1u << without), "one", TOKEN);
        put_on(1u << without, "one", OTHER);
        assert_int_equal(gone_of("one", FAR_MS), HF_LOSS_NONE);
    }
}

/* (!) Two of three have answered: the third decides. */
static void test_it_is_told_when_it_is_certain(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("third", &told);

    (void)state;
    put_on(1, "third", TOKEN);
    put_on(2, "third", OTHER);
    delete_request_judge(&request, hf_time_add(clock_now(), hf_ms(FAR_MS)));
    redis_server_pause(&nodes[2]);
    start(&request);
    (void)runs_until(is_told, &told, 200);
    redis_server_resume(&nodes[2]);
    assert_int_equal(told.calls, 0);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_int_equal(told.gone, HF_LOSS_FOREIGN);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
}

/* A node that ends its connection cannot say any more what was there: nobody waits for it. */
static void test_it_does_not_wait_for_a_killed_node(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("killed", &told);

    (void)state;
    put_on(1, "killed", TOKEN);
    put_on(2, "killed", OTHER);
    delete_request_judge(&request, hf_time_add(clock_now(), hf_ms(FAR_MS)));
    redis_server_pause(&nodes[2]);
    start(&request);
    (void)runs_until(is_told, &told, 200);
    assert_int_equal(told.calls, 0);
    redis_server_kill(&nodes[2]);
    assert_true(runs_until(is_told, &told, FAR_MS / 4));
    assert_int_equal(told.gone, HF_LOSS_NONE);
    assert_true(redis_server_start(&nodes[2], NULL));
    assert_true(runs_until(all_up, NULL, FAR_MS));
    assert_true(runs_until(is_idle, NULL, FAR_MS));
}

static void test_who_forgot_or_comes_late_proves_nothing(void **state)
{
    (void)state;
    forgetful = 2;
    put_on(1, "forgot", TOKEN);
    assert_int_equal(gone_of("forgot", FAR_MS), HF_LOSS_NONE);
    forgetful = 0;
    /* Its validity is over: the key may have ended by itself. */
    assert_int_equal(gone_of("late", 0), HF_LOSS_NONE);
}

/* (!) Where the first release was run, though its answer was lost, the second one finds nothing. */
static void test_what_our_own_release_took_proves_nothing(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("twice", &told);

    (void)state;
    delete_request_judge(&request, hf_time_add(clock_now(), hf_ms(FAR_MS)));
    for (int i = 0; i < NODES; i++)
        redis_server_pause(&nodes[i]);
    start(&request);
    assert_true(runs_until(is_down, &links[1], FAR_MS));
    for (int i = 0; i < NODES; i++)
        redis_server_resume(&nodes[i]);
    assert_true(runs_until(all_up, NULL, FAR_MS));
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_int_equal(told.gone, HF_LOSS_NONE);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
}

static void test_destroyed_with_jobs_under_way(void **state)
{
    struct told told = {0};
    struct delete_request request = request_of("left", &told);

    (void)state;
    redis_server_pause(&nodes[0]);
    start(&request);
    (void)runs_until(NULL, NULL, 20);
    key_deleter_destroy(key_deleter);
    assert_int_equal(key_deleter_create(loop, links, NULL, NODES, QUORUM, &releases, &key_deleter),
                     HF_OK);
    redis_server_resume(&nodes[0]);
    assert_true(runs_until(all_up, NULL, FAR_MS));
    (void)runs_until(NULL, NULL, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_token_goes_from_every_node),
        cmocka_unit_test(test_anothers_key_stays),
        cmocka_unit_test(test_only_nodes_of_the_mask),
        cmocka_unit_test(test_one_turn_is_one_script_per_node),
        cmocka_unit_test(test_quorum_is_told_without_the_stopped_node),
        cmocka_unit_test(test_nodes_that_never_had_it_count),
        cmocka_unit_test(test_attempt_bounds_done),
        cmocka_unit_test(test_job_ends_when_the_key_has_lapsed),
        cmocka_unit_test(test_in_doubt_is_released_twice),
        cmocka_unit_test(test_broken_behind_a_doubtful_command),
        cmocka_unit_test(test_node_that_refuses_for_now),
        cmocka_unit_test(test_a_node_that_refuses_is_asked_by_one_job),
        cmocka_unit_test(test_jobs_of_a_node_that_is_away_are_bounded),
        cmocka_unit_test(test_what_q_nodes_do_not_have_was_lost),
        cmocka_unit_test(test_it_is_told_when_it_is_certain),
        cmocka_unit_test(test_it_does_not_wait_for_a_killed_node),
        cmocka_unit_test(test_who_forgot_or_comes_late_proves_nothing),
        cmocka_unit_test(test_what_our_own_release_took_proves_nothing),
        cmocka_unit_test(test_destroyed_with_jobs_under_way),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
