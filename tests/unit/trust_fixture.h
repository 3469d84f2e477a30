/* What the tests of node trust share. ttl_max = 60 s: a quarantine takes 62.2 s. */
#ifndef HOLDFAST_TESTS_TRUST_FIXTURE_H
#define HOLDFAST_TESTS_TRUST_FIXTURE_H

#include "core_fixture.h"

#include "agent/core/node_trust.h"

#define QUARANTINE (62200 * MS)
#define OLD        (1000 * SEC) /* older than any quarantine */

/* Node TIME and all wall clocks are this far ahead of our BOOTTIME. */
#define OFFSET_US INT64_C(1700000000000000)

HF_UNUSED static const char RUN_A[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
HF_UNUSED static const char RUN_B[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
HF_UNUSED static const char NONCE_A[] = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
HF_UNUSED static const char NONCE_B[] = "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b";

HF_UNUSED static hf_nodetime node_time(hf_time t)
{
    return (hf_nodetime){t.ns / HF_NS_PER_US + OFFSET_US};
}

HF_UNUSED static hf_wall wall(hf_time t)
{
    return (hf_wall){node_time(t).us / 1000};
}

HF_UNUSED static struct node_facts facts_of(const char *run_id, int64_t uptime_ns)
{
    struct node_facts facts = {.version = "7.0.15", .uptime = {uptime_ns}};

    memcpy(facts.run_id, run_id, sizeof(facts.run_id));
    return facts;
}

HF_UNUSED static struct node_sentinel sentinel_of(const char *nonce, hf_time created)
{
    struct node_sentinel s = {
        .present = nonce[0] != '\0',
        .created = node_time(created),
        .created_wall = wall(created),
        .ttl_max_ms = 60000,
        .nodes = 3,
    };

    strcpy(s.nonce, nonce);
    return s;
}

HF_UNUSED static unsigned facts(struct node_trust *t, const char *run_id, hf_time now)
{
    struct node_facts f = facts_of(run_id, OLD);

    return trust_on_facts(t, &f, 0, now);
}

HF_UNUSED static unsigned sentinel(struct node_trust *t, const char *nonce, hf_time now)
{
    struct node_sentinel s = sentinel_of(nonce, at(-OLD));

    return trust_on_sentinel(t, &s, false, now);
}

/* A reply at once: the interval is [TIME - now, TIME - now + 1 us]. */
HF_UNUSED static unsigned sample(struct node_trust *t, int64_t off_us, hf_time now)
{
    return trust_on_time(t, (hf_nodetime){node_time(now).us + off_us}, now, now);
}

HF_UNUSED static void judge(struct node_trust *t, hf_time now)
{
    trust_judge(t, OFFSET_US, wall(now), now);
}

/* First contact at 0 with a node of which nothing is wanting. */
HF_UNUSED static struct node_trust trusted(void)
{
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), false);
    facts(&t, RUN_A, at(0));
    sample(&t, 0, at(0));
    sentinel(&t, NONCE_A, at(0));
    judge(&t, at(0));
    return t;
}

HF_UNUSED static struct node_trust fresh(void)
{
    struct node_trust t;

    trust_init(&t, hf_ns(QUARANTINE), true);
    return t;
}

/* In quarantine since `from`, for these reasons and no others, to the nanosecond. */
HF_UNUSED static void assert_quarantine(struct node_trust t, uint32_t reasons, hf_time from)
{
    hf_time end = hf_time_add(from, hf_ns(QUARANTINE));
    hf_time last = hf_time_sub(end, hf_ns(1));

    assert_int_equal(t.reasons, reasons);
    assert_time(trust_until(&t, last), end);
    trust_tick(&t, wall(last), last);
    assert_false(trust_may_vote(&t, last));
    assert_true(trust_may_vote(&t, end));
    assert_time(trust_until(&t, end), HF_TIME_PAST);
    trust_tick(&t, wall(end), end);
    assert_int_equal(t.reasons, 0);
    assert_time(t.until, HF_TIME_PAST);
}

HF_UNUSED static void assert_votes(const struct node_trust *t, hf_time now)
{
    assert_true(trust_may_vote(t, now));
    assert_time(trust_until(t, now), HF_TIME_PAST);
}

#endif
