/* Suspend counts, for the agent, a holder's check and a guardian alike. This program stands between
 * them and the kernel: what it gives for CLOCK_BOOTTIME is ahead of the other clocks by what the
 * host has been suspended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/base/clock.h"
#include "libclient/holdfast.h"
#include "shm/compiler.h"
#include "shm/slot.h"
#include "tools/run/timeline.h"

#define TEST(name) static void name(HF_UNUSED void **state)
#define HOUR_S     3600
#define HOUR       (HOUR_S * HF_NS_PER_SEC)

static int64_t suspended_s;
static int timer_clock;

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);

    if (rc == 0 && id == CLOCK_BOOTTIME)
        ret->tv_sec += suspended_s;
    return rc;
}

int timerfd_create(clockid_t id, int flags)
{
    timer_clock = id;
    return (int)syscall(SYS_timerfd_create, id, flags);
}

TEST(suspend_counts)
{
    hf_time before = clock_now();

    suspended_s += HOUR_S;
    assert_true(hf_time_since(clock_now(), before).ns >= HOUR);
    assert_true(hf_time_since(clock_now(), before).ns < 2 * HOUR);
}

TEST(suspend_counts_for_a_guardian)
{
    int64_t before_ns = timeline_now_ns();

    suspended_s += HOUR_S;
    assert_true(timeline_now_ns() - before_ns >= HOUR);
}

TEST(timers_go_off_though_the_host_was_suspended)
{
    int fd = clock_timerfd();

    assert_true(fd >= 0);
    assert_int_equal(timer_clock, CLOCK_BOOTTIME);
    close(fd);
    fd = timeline_timer();
    assert_true(fd >= 0);
    assert_int_equal(timer_clock, CLOCK_BOOTTIME);
    close(fd);
}

TEST(a_lease_ends_during_a_suspend)
{
    uint64_t word = hf_check_pack(7, hf_time_add(clock_now(), hf_ns(HOUR)));
    hf_lease inlined = {.hf_private_word = &word, .hf_private_generation = 7}, called = inlined;

    assert_true(hf_held(&inlined));
    assert_true(hf_remaining_ms(&called) > 0);
    suspended_s += HOUR_S;
    assert_false(hf_held(&inlined));
    assert_int_equal(hf_remaining_ms(&called), 0);
    /* An agent that was suspended, too, may extend it once more before it notices. */
    word = hf_check_pack(7, hf_time_add(clock_now(), hf_ns(HOUR)));
    assert_false(hf_held(&inlined));
    assert_int_equal(hf_remaining_ms(&called), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suspend_counts),
        cmocka_unit_test(suspend_counts_for_a_guardian),
        cmocka_unit_test(timers_go_off_though_the_host_was_suspended),
        cmocka_unit_test(a_lease_ends_during_a_suspend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
