/* agent/core/timing.h: the inequality, against what node_trust.h sees; and how often it is looked. */
#include "trust_fixture.h"

#include "agent/core/backoff.h"
#include "agent/core/timing.h"

static struct sampling of_trip(hf_dur trip)
{
    struct sampling s = {0};

    sampling_note(&s, trip);
    return s;
}

/* An answer to a command that took `trip_us`; the node's clock was read after `read_us` of it. */
static unsigned answer(struct node_trust *t, hf_time sent, int64_t trip_us, int64_t read_us,
                       int64_t off_us)
{
    hf_time read = hf_time_add(sent, hf_ns(read_us * 1000));

    return trust_on_time(t, (hf_nodetime){node_time(read).us + off_us}, sent,
                         hf_time_add(sent, hf_ns(trip_us * 1000)));
}

/* Whether a step between two answers is seen. */
static bool is_seen(int64_t gap_us, int64_t trip0_us, int64_t read0_us, int64_t trip1_us,
                    int64_t read1_us, int64_t step_us, hf_dur *ret_unseen)
{
    struct node_trust t;
    int64_t known_us;

    trust_init(&t, hf_ns(QUARANTINE), false);
    (void)answer(&t, at(0), trip0_us, read0_us, 0);
    known_us = t.high_us - t.low_us;
    /* The gap is from answer to answer. */
    *ret_unseen = sampling_unseen(hf_ns(gap_us * 1000),
                                  hf_ns((known_us + trip1_us + trip1_us / 100 + 4) * 1000));
    return answer(&t, at((trip0_us + gap_us - trip1_us) * 1000), trip1_us, read1_us, step_us) &
           TRUST_STEPPED;
}

TEST(what_is_above_the_bound_is_seen_however_the_answers_lie)
{
    uint32_t random = 7;

    for (int i = 0; i < 20000; i++) {
        int64_t trip0 = draw_next(&random) % 300000, trip1 = draw_next(&random) % 300000;
        int64_t gap = trip1 + draw_next(&random) % 8000000;
        int64_t read0 = trip0 ? draw_next(&random) % (uint32_t)trip0 : 0;
        int64_t read1 = trip1 ? draw_next(&random) % (uint32_t)trip1 : 0;
        int64_t sign = draw_next(&random) & 1 ? 1 : -1;
        hf_dur unseen;

        (void)is_seen(gap, trip0, read0, trip1, read1, 0, &unseen);
        assert_true(
            is_seen(gap, trip0, read0, trip1, read1, sign * (unseen.ns / 1000 + 1), &unseen));
        assert_false(is_seen(gap, trip0, read0, trip1, read1, 0, &unseen));
    }
}

/* Read at the end of the first way and at the beginning of the second one: all of it goes unseen. */
TEST(the_bound_is_reached)
{
    hf_dur unseen;

    (void)is_seen(5000000, 40000, 40000, 40000, 0, 0, &unseen);
    assert_in_range(unseen.ns, 130 * MS, 132 * MS);
    assert_false(is_seen(5000000, 40000, 40000, 40000, 0, 129 * 1000, &unseen));
    assert_false(is_seen(5000000, 40000, 0, 40000, 40000, -129 * 1000, &unseen));
    /* Ways there and back that take the same leave half of the round trips. */
    assert_false(is_seen(5000000, 40000, 20000, 40000, 20000, 89 * 1000, &unseen));
    assert_true(is_seen(5000000, 40000, 20000, 40000, 20000, 92 * 1000, &unseen));
}

TEST(near_nodes_are_looked_at_every_five_to_eight_seconds)
{
    hf_dur t = hf_ms(30000);

    assert_int_equal(sampling_allowance(t).ns, 302 * MS);
    assert_int_equal(sampling_gap(t, hf_ms(1), 0).ns, 5 * SEC);
    assert_int_equal(sampling_gap(t, hf_ms(1), 8).ns, 7800 * MS);
    assert_int_equal(sampling_gap(t, hf_ms(200), 8).ns, 7800 * MS);
    assert_int_equal(sampling_gap(hf_ms(3000), hf_ms(1), 0).ns, SEC);
    assert_int_equal(sampling_gap(hf_ms(60000), hf_ms(1), 0).ns, 5 * SEC);
}

TEST(far_nodes_are_looked_at_more_often)
{
    hf_dur t = hf_ms(30000);

    assert_int_equal(sampling_gap(t, hf_ms(262), 0).ns, 4 * SEC);
    assert_int_equal(sampling_gap(t, hf_ms(291), 0).ns, 1100 * MS);
    assert_int_equal(sampling_gap(t, hf_ms(293), 0).ns, SEC);
    assert_int_equal(sampling_gap(t, hf_ms(100000), 0).ns, SEC);
    assert_int_equal(sampling_gap(hf_ms(500), hf_ms(9), 0).ns, 100 * MS);
}

/* As holdfast doctor judges what the row of a node says. */
static bool is_far(const struct sampling *s, hf_dur ttl, int node)
{
    return sampling_step(s, ttl, node).ns > sampling_allowance(ttl).ns;
}

/* No round trip is left out of the step that goes unseen, and nobody near is far. */
TEST(an_unseen_step_is_within_the_allowance_or_the_node_is_far)
{
    for (int64_t ttl_ms = 500; ttl_ms <= 86400000; ttl_ms += 1 + ttl_ms / 7) {
        hf_dur t = hf_ms(ttl_ms);

        for (int node = 0; node < HF_NODES_MAX; node++) {
            struct sampling near = of_trip(hf_ms(2));

            for (int64_t us = 0; us < 1000000; us += 1 + us / 3) {
                struct sampling s = of_trip(hf_ns(us * 1000));
                hf_dur step = sampling_step(&s, t, node);

                assert_true(step.ns >= 2000 * us);
            }
            assert_false(is_far(&near, t, node));
        }
    }
}

TEST(who_is_far)
{
    struct sampling s = of_trip(hf_ms(146)), far = of_trip(hf_ms(147)), unknown = {0};

    assert_false(is_far(&s, hf_ms(30000), 0));
    assert_true(is_far(&far, hf_ms(30000), 0));
    assert_false(is_far(&far, hf_ms(31000), 0));
    assert_false(is_far(&unknown, hf_ms(30000), 0));
}

/* One slow answer makes no far node, and a node that comes nearer is near soon. */
TEST(the_shortest_of_the_last_eight_counts)
{
    struct sampling s = {0};

    assert_int_equal(sampling_trip(&s).ns, 0);
    sampling_note(&s, hf_ms(3));
    for (int i = 0; i < SAMPLING_TRIPS - 1; i++)
        sampling_note(&s, hf_ms(400));
    assert_int_equal(sampling_trip(&s).ns, 3 * MS);
    sampling_note(&s, hf_ms(400));
    assert_int_equal(sampling_trip(&s).ns, 400 * MS);
    sampling_note(&s, hf_ms(1));
    assert_int_equal(sampling_trip(&s).ns, MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_above_the_bound_is_seen_however_the_answers_lie),
        cmocka_unit_test(the_bound_is_reached),
        cmocka_unit_test(near_nodes_are_looked_at_every_five_to_eight_seconds),
        cmocka_unit_test(far_nodes_are_looked_at_more_often),
        cmocka_unit_test(an_unseen_step_is_within_the_allowance_or_the_node_is_far),
        cmocka_unit_test(who_is_far),
        cmocka_unit_test(the_shortest_of_the_last_eight_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
