/* Releases on real nodes: each is answered, waits for its node, or is left to the key's TTL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/loop.h"
#include "agent/redis/resolver.h"
#include "agent/redis/releaser.h"
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
static struct releaser *releaser;
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
    return releaser_busy(releaser) == 0;
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
    releaser_link_up(releaser, link_node(link));
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
    assert_int_equal(releaser_create(loop, links, NULL, NODES, QUORUM, counts, NULL, &releaser),
                     HF_OK);
    for (int i = 0; i < NODES; i++)
        link_start(links[i]);
    assert_true(runs_until(all_up, NULL, FAR_MS));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    releaser_destroy(releaser); /* before the links: answers may still be on their way */
    for (int i = 0; i < NODES; i++)
        link_destroy(links[i]);
    resolver_destroy(resolver);
    loop_destroy(loop);
    remove_nodes();
    return 0;
}

/* --- orders ----------------------------------------------------------------------------------- */

static void on_done(const struct release_outcome *outcome, void *arg, void *owner)
{
    struct told *told = arg;

    (void)owner;
    told->calls++;
    told->answered = outcome->done;
    told->gone = outcome->gone;
    told->inside = starting;
}

static struct release_order order_of(const char *key, struct told *told)
{
    struct release_order order =
        release_order(key, strlen(key), &token_bytes, hf_ms(FAR_MS), hf_ms(LONG_MS), ALL);

    release_order_tell(&order, told ? on_done : NULL, told);
    return order;
}

static void start(const struct release_order *order)
{
    starting = true;
    assert_int_equal(releaser_start(releaser, order), HF_OK);
    starting = false;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void test_own_token_goes_from_every_node(void **state)
{
    struct told told = {0};
    struct release_order order = order_of("mine", &told);

    (void)state;
    put_everywhere("mine", TOKEN, LONG_MS);
    start(&order);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(told.calls, 1);
    assert_false(told.inside);
    assert_true(told.answered >= QUORUM);
    assert_int_equal(holders_of("mine", ""), ALL);
}

static void test_anothers_key_stays(void **state)
{
    struct told told = {0};
    struct release_order order = order_of("theirs", &told);

    (void)state;
    put_everywhere("theirs", OTHER, LONG_MS);
    ask(0, "DEL theirs");
    ask(1, "DEL theirs");
    ask(1, "RPUSH theirs another type");
    start(&order);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(told.calls, 1);
    assert_string_equal(ask(2, "GET theirs"), OTHER);
    assert_int_equal(ask_number(1, "LLEN", "theirs"), 2);
}

static void test_only_nodes_of_the_mask(void **state)
{
    struct told told = {0}, nothing = {0};
    struct release_order order = order_of("masked", &told);

    (void)state;
    put_everywhere("masked", TOKEN, LONG_MS);
    order.nodes = 1 << 1;
    start(&order);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(told.answered, 1); /* all of the mask, though no quorum */
    assert_int_equal(holders_of("masked", TOKEN), 1 << 0 | 1 << 2);

    order = order_of("masked", &nothing);
    order.nodes = 0;
    start(&order);
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
        struct release_order order;

        snprintf(key, sizeof(key), "many-%d", k);
        put_everywhere(key, TOKEN, LONG_MS);
        order = order_of(key, NULL);
        start(&order);
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
    struct release_order order = order_of("waits", &told);

    (void)state;
    put_everywhere("waits", TOKEN, LONG_MS);
    redis_server_pause(&nodes[2]);
    start(&order);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_int_equal(told.answered, QUORUM);
    assert_int_equal(releaser_busy(releaser), 1);
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
    struct release_order order = order_of("part", &told);

    (void)state;
    put_everywhere("part", TOKEN, LONG_MS);
    ask(0, "DEL part");
    redis_server_pause(&nodes[2]);
    order.nodes = 1 << 1 | 1 << 2;
    start(&order);
    (void)runs_until(is_told, &told, 1000);
    order = order_of("part", &at_once);
    order.nodes = 1 << 2;
    start(&order);
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
    struct release_order order = order_of("slow", &told);

    (void)state;
    put_everywhere("slow", TOKEN, LONG_MS);
    redis_server_pause(&nodes[1]);
    redis_server_pause(&nodes[2]);
    order.attempt = hf_ms(100);
    start(&order);
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
    struct release_order order = order_of("lapses", &told);
    hf_time began;

    (void)state;
    redis_server_kill(&nodes[0]);
    assert_true(runs_until(is_down, &links[0], FAR_MS));
    order.ttl = hf_ms(800);
    began = clock_now();
    start(&order);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_int_equal(releaser_busy(releaser), 1);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_true(hf_time_reached(clock_now(), hf_time_add(began, hf_ms(2 * 800))));
    assert_true(redis_server_start(&nodes[0], NULL));
    assert_true(runs_until(all_up, NULL, FAR_MS));
}

/* (!) The lost command may have run behind the first release. */
static void test_in_doubt_is_released_twice(void **state)
{
    struct told told = {0};
    struct release_order order = order_of("doubted", &told);

    (void)state;
    order.in_doubt = 1 << 1;
    order.doubt_until = hf_time_add(clock_now(), hf_ms(600));
    start(&order);
    assert_true(runs_until(is_told, &told, FAR_MS));
    assert_true(hf_time_before(clock_now(), order.doubt_until)); /* not held up by the doubt */
    (void)runs_until(NULL, NULL, 100);
    ask(1, "SET doubted %s PX %d", TOKEN, LONG_MS);
    ask(0, "SET doubted %s PX %d", TOKEN, LONG_MS);
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_true(hf_time_reached(clock_now(), order.doubt_until));
    assert_int_equal(holders_of("doubted", TOKEN), 1 << 0);
    ask(0, "DEL doubted");
}

/* (!) The same when the connection breaks with the release itself unanswered behind that command.
 */
static void test_broken_behind_a_doubtful_command(void **state)
{
    struct release_order order = order_of("broken", NULL);

    (void)state;
    redis_server_pause(&nodes[1]);
    order.nodes = 1 << 1;
    order.doubt_until = hf_time_add(clock_now(), hf_ms(4000));
    start(&order);
    assert_true(runs_until(is_down, &links[1], FAR_MS));
    redis_server_resume(&nodes[1]);
    assert_true(runs_until(all_up, NULL, FAR_MS));
    (void)runs_until(NULL, NULL, 200);
    ask(1, "SET broken %s PX %d", TOKEN, LONG_MS);
    assert_true(runs_until(is_free, "broken", FAR_MS));
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_true(hf_time_reached(clock_now(), order.doubt_until));
}

static void test_node_that_refuses_for_now(void **state)
{
    struct told told = {0};
    struct release_order order = order_of("later", &told);

    (void)state;
    put_everywhere("later", TOKEN, LONG_MS);
    ask(2, "CONFIG SET min-replicas-to-write 1"); /* NOREPLICAS for every write */
    start(&order);
    assert_true(runs_until(is_told, &told, FAR_MS));
    (void)runs_until(NULL, NULL, 50);
    assert_int_equal(holders_of("later", TOKEN), 1 << 2);
    ask(2, "CONFIG SET min-replicas-to-write 0");
    assert_true(runs_until(is_idle, NULL, FAR_MS));
    assert_int_equal(holders_of("later", TOKEN), 0);
}

/* Of a lease that is valid for so long. */
static enum hf_loss_reason gone_of(const char *key, int valid_ms)
{
    struct told told = {0};
    struct release_order order = order_of(key, &told);

    release_order_judge(&order, hf_time_add(clock_now(), hf_ms(valid_ms)));
    start(&order);
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
    struct release_order order = order_of("third", &told);

    (void)state;
    put_on(1, "third", TOKEN);
    put_on(2, "third", OTHER);
    release_order_judge(&order, hf_time_add(clock_now(), hf_ms(FAR_MS)));
    redis_server_pause(&nodes[2]);
    start(&order);
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
    struct release_order order = order_of("killed", &told);

    (void)state;
    put_on(1, "killed", TOKEN);
    put_on(2, "killed", OTHER);
    release_order_judge(&order, hf_time_add(clock_now(), hf_ms(FAR_MS)));
    redis_server_pause(&nodes[2]);
    start(&order);
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
    struct release_order order = order_of("twice", &told);

    (void)state;
    release_order_judge(&order, hf_time_add(clock_now(), hf_ms(FAR_MS)));
    for (int i = 0; i < NODES; i++)
        redis_server_pause(&nodes[i]);
    start(&order);
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
    struct release_order order = order_of("left", &told);

    (void)state;
    redis_server_pause(&nodes[0]);
    start(&order);
    (void)runs_until(NULL, NULL, 20);
    releaser_destroy(releaser);
    assert_int_equal(releaser_create(loop, links, NULL, NODES, QUORUM, counts, NULL, &releaser),
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
        cmocka_unit_test(test_what_q_nodes_do_not_have_was_lost),
        cmocka_unit_test(test_it_is_told_when_it_is_certain),
        cmocka_unit_test(test_it_does_not_wait_for_a_killed_node),
        cmocka_unit_test(test_who_forgot_or_comes_late_proves_nothing),
        cmocka_unit_test(test_what_our_own_release_took_proves_nothing),
        cmocka_unit_test(test_destroyed_with_jobs_under_way),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
