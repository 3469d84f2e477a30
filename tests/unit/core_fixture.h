/* What the tests of the pure core share: short ways to write instants, and the timing of a 30 s
 * TTL. */
#ifndef HOLDFAST_TESTS_CORE_FIXTURE_H
#define HOLDFAST_TESTS_CORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/core/timing.h"
#include "shm/compiler.h"
#include "shm/status.h"

#define TEST(name) static void name(HF_UNUSED void **state)

#define NS         INT64_C(1)
#define MS         HF_NS_PER_MS
#define SEC        HF_NS_PER_SEC

/* An instant: so many nanoseconds after a boot-time of 1000 s, so that nothing is near 0. */
HF_UNUSED static hf_time at(int64_t ns)
{
    return (hf_time){1000 * SEC + ns};
}

HF_UNUSED static struct timing timing_of_ms(int64_t ttl_ms)
{
    struct timing timing;
    char why[256];

    assert_int_equal(timing_derive(hf_ms(ttl_ms), hf_ms(60000), &timing, why, sizeof(why)), HF_OK);
    return timing;
}

#define assert_time(actual, expected) assert_int_equal((actual).ns, (expected).ns)

#endif
