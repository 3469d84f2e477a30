/* agent/core/phases.h: when leases are renewed next, as counts over simulated time. */
#include "core_fixture.h"

#include "agent/core/phases.h"

#define LEASES 100000
#define FULL   128
#define SLICES 100 /* of T/3 */
#define SEEDS  5

static hf_time at_ms(int64_t ms)
{
    return at(ms * MS);
}

static struct phases phases;
static hf_time due[LEASES];

/* The largest load of a slice of T/3, as a multiple of the mean. */
static double peak(const struct timing *timing, hf_time from)
{
    static int slice[4 * SLICES];
    int most = 0;

    memset(slice, 0, sizeof(slice));
    for (int i = 0; i < LEASES; i++) {
        int64_t s = hf_time_since(due[i], from).ns * SLICES / timing->renew_after.ns;

        if (s >= 0 && s < 4 * SLICES && ++slice[s] > most)
            most = slice[s];
    }
    return (double)most * SLICES / LEASES;
}

/* Renews whatever is due until `end`, at its time but not before `standstill` ends, and then no more
 * than one a microsecond. */
static void run_until(const struct timing *timing, hf_time standstill, hf_time end)
{
    for (;;) {
        static int order[LEASES], next[LEASES];
        static int head[4096];
        hf_time now = standstill;
        int count = 0;

        /* By time, coarsely: the order within a slice does not matter. */
        memset(head, -1, sizeof(head));
        for (int i = 0; i < LEASES; i++) {
            int64_t s;

            if (!hf_time_before(due[i], end))
                continue;
            s = hf_time_since(due[i], hf_time_sub(standstill, hf_dur_scale(timing->ttl, 1, 1))).ns /
                (timing->ttl.ns / 1024);
            s = s < 0 ? 0 : s > 4095 ? 4095 : s;
            next[i] = head[s];
            head[s] = i;
        }
        for (int s = 0; s < 4096; s++)
            for (int i = head[s]; i >= 0; i = next[i])
                order[count++] = i;
        if (!count)
            return;
        for (int k = 0; k < count; k++) {
            now = hf_time_max(hf_time_add(now, hf_ns(1000)), due[order[k]]);
            due[order[k]] =
                phases_next(&phases, timing, now, hf_time_since(now, due[order[k]]), FULL, LEASES);
        }
    }
}

TEST(a_time_is_within_the_jitter)
{
    struct timing t = timing_of_ms(30000);

    phases_init(&phases, 1);
    for (int i = 0; i < 1000; i++) {
        hf_time a = at_ms(100000 + i * 100);
        hf_time next = phases_next(&phases, &t, a, hf_ns(0), FULL, 1000);

        assert_true(hf_time_reached(next, hf_time_add(a, hf_ms(9000 - 250))));
        assert_false(hf_time_before(hf_time_add(a, hf_ms(10344)), next));
        assert_true(phases_fits(&t, a, next));
    }
}

TEST(who_was_renewed_together_stays_together)
{
    struct timing t = timing_of_ms(30000);
    hf_time first, next;

    phases_init(&phases, 1);
    first = phases_next(&phases, &t, at_ms(1000), hf_ns(0), FULL, 1000);
    for (int i = 1; i < FULL; i++) {
        next = phases_next(&phases, &t, at_ms(1000 + i), hf_ns(0), FULL, 1000);
        assert_true(next.ns == first.ns);
    }
    next = phases_next(&phases, &t, at_ms(1200), hf_ns(0), FULL, 1000);
    assert_true(next.ns != first.ns); /* full */
    first = phases_next(&phases, &t, at_ms(1200 + 260), hf_ns(0), FULL, 1000);
    assert_true(next.ns != first.ns); /* later than a fortieth of T/3 */
}

TEST(ttls_do_not_mix)
{
    struct timing a = timing_of_ms(30000), b = timing_of_ms(10000);

    phases_init(&phases, 1);
    for (int i = 0; i < 100; i++) {
        hf_time now = at_ms(1000 + i);

        assert_true(phases_fits(&a, now, phases_next(&phases, &a, now, hf_ns(0), FULL, 200)));
        assert_true(phases_fits(&b, now, phases_next(&phases, &b, now, hf_ns(0), FULL, 200)));
    }
}

/* All of them at once, as after a restart: two rounds later no slice of 1 % has thrice its share. */
TEST(a_burst_is_spread)
{
    struct timing t = timing_of_ms(60000);

    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        hf_time burst = at_ms(1000000);

        phases_init(&phases, seed);
        for (int i = 0; i < LEASES; i++)
            due[i] = phases_next(&phases, &t, hf_time_add(burst, hf_ns(i * 1000)), hf_ns(0), FULL,
                                 LEASES);
        assert_true(peak(&t, burst) < 8);
        run_until(&t, burst, hf_time_add(burst, hf_ms(60000)));
        assert_true(peak(&t, hf_time_add(burst, hf_ms(60000))) < 3);
    }
}

/* Nothing was renewed for 5 s, a quarter of T/3, and then all that was due at once. */
TEST(a_standstill_leaves_no_crowd)
{
    struct timing t = timing_of_ms(60000);

    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        hf_time stop = at_ms(1000000), on = at_ms(1005000);

        phases_init(&phases, seed);
        for (int i = 0; i < LEASES; i++)
            due[i] = hf_time_add(stop, hf_ns(i * (t.renew_after.ns / LEASES)));
        run_until(&t, on, hf_time_add(on, hf_ms(20000)));
        assert_true(peak(&t, hf_time_add(on, hf_ms(20000))) < 3);
    }
}

/* A host with few leases is never crowded, but it is not alone: when a node is back all come at once. */
TEST(who_was_late_is_spread)
{
    struct timing t = timing_of_ms(30000);
    int early = 0;

    for (uint32_t host = 1; host <= 1000; host++) {
        hf_time next;

        phases_init(&phases, host * 7919);
        next = phases_next(&phases, &t, at_ms(0), hf_ms(1001), FULL, 10);
        assert_true(phases_fits(&t, at_ms(0), next));
        early += hf_time_before(next, at_ms(7000));
    }
    assert_in_range(early, 300, 700);
}

TEST(another_nodes_time_must_be_near)
{
    struct timing t = timing_of_ms(30000);
    hf_time a = at_ms(1000);

    assert_true(phases_fits(&t, a, at_ms(1000 + 10000)));
    assert_true(phases_fits(&t, a, at_ms(1000 + 4000)));
    assert_false(phases_fits(&t, a, at_ms(1000 + 3999)));
    assert_false(phases_fits(&t, a, at_ms(1000 + 11001)));
    assert_false(phases_fits(&t, a, at_ms(500)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_within_the_jitter),
        cmocka_unit_test(who_was_renewed_together_stays_together),
        cmocka_unit_test(ttls_do_not_mix),
        cmocka_unit_test(a_burst_is_spread),
        cmocka_unit_test(a_standstill_leaves_no_crowd),
        cmocka_unit_test(who_was_late_is_spread),
        cmocka_unit_test(another_nodes_time_must_be_near),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
