/* agent/base/loop.h: what happens in a turn, what waits for the next one, and that nothing keeps the others from theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "agent/base/clock.h"
#include "agent/base/loop.h"
#include "shm/compiler.h"
#include "shm/status.h"
#include "tests/support/loop_turn.h"

#define MOST 200 /* more than one turn takes */

static struct loop *loop;
static struct loop_fd watches[MOST];
static int told[MOST];

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++) {
        watches[i] = (struct loop_fd){.fd = -1};
        told[i] = 0;
    }
    return loop_create(&loop) == HF_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++) {
        loop_fd_remove(loop, &watches[i]);
        if (watches[i].fd >= 0)
            close(watches[i].fd);
    }
    loop_destroy(loop);
    return 0;
}

static void count(struct loop_fd *watch)
{
    told[watch - watches]++;
}

static int readable(void)
{
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

    assert_true(fd >= 0);
    return fd;
}

static void in_two_turns_everybody_of_many_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < MOST; i++)
        assert_int_equal(loop_fd_add(loop, &watches[i], readable(), count), HF_OK);
    for (int turn = 0; turn < (MOST + 63) / 64 + 1; turn++)
        loop_turn_once(loop);
    for (int i = 0; i < MOST; i++)
        assert_true(told[i] > 0);
}

/* A connection that is let in brings the next one. */
static void let_in(struct loop_fd *watch)
{
    int i = (int)(watch - watches);

    told[i]++;
    if (i + 1 < MOST)
        assert_int_equal(loop_fd_add(loop, watch + 1, readable(), let_in), HF_OK);
    loop_fd_remove(loop, watch);
}

static void what_a_callback_adds_waits_for_the_next_turn(void **state)
{
    (void)state;
    assert_int_equal(loop_fd_add(loop, &watches[0], readable(), let_in), HF_OK);
    for (int turn = 1; turn < 10; turn++) {
        loop_turn_once(loop);
        assert_int_equal(told[turn - 1], 1);
        assert_int_equal(told[turn], 0);
    }
}

/* What it is to be watched for from here on has not happened. */
static void replace_the_other(struct loop_fd *watch)
{
    struct loop_fd *other = &watches[watch == &watches[0]];

    count(watch);
    loop_fd_remove(loop, other);
    close(other->fd);
    assert_int_equal(loop_fd_add(loop, other, eventfd(0, EFD_CLOEXEC), count), HF_OK);
}

static void what_was_replaced_within_a_turn_is_not_told(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(loop_fd_add(loop, &watches[i], readable(), replace_the_other), HF_OK);
    loop_turn_once(loop);
    assert_int_equal(told[0] + told[1], 1);
}

static unsigned happened;

static void note(struct loop_fd *watch)
{
    happened |= watch->happened;
}

static void wishes_count_as_they_are_when_the_loop_sleeps(void **state)
{
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    watches[0] = (struct loop_fd){.fd = pair[0], .fn = note};
    loop_fd_want(loop, &watches[0], LOOP_READ | LOOP_WRITE);
    loop_fd_want(loop, &watches[0], LOOP_READ);
    happened = 0;
    loop_turn_once(loop);
    assert_int_equal(happened, 0);
    loop_fd_want(loop, &watches[0], LOOP_READ | LOOP_WRITE);
    loop_turn_once(loop);
    assert_int_equal(happened, LOOP_WRITE);
    /* An end shows to whoever reads, and to nobody who wants nothing. */
    close(pair[1]);
    happened = 0;
    loop_fd_want(loop, &watches[0], LOOP_READ);
    loop_turn_once(loop);
    assert_int_equal(happened, LOOP_READ);
    loop_fd_want(loop, &watches[0], 0);
    happened = 0;
    loop_turn_once(loop);
    assert_int_equal(happened, 0);
    assert_int_equal(watches[0].watched, 0);
}

static hf_time at;
static int order[3], ordered;

static void on_turn(void *arg, hf_time now)
{
    (void)arg;
    at = now;
    ordered = 0;
    order[ordered++] = 1;
}

static void on_timer(struct loop_timer *timer, hf_time now)
{
    (void)timer;
    assert_true(now.ns == at.ns);
    order[ordered++] = 2;
}

static void on_fd(struct loop_fd *watch)
{
    (void)watch;
    order[ordered++] = 3;
}

static void what_is_due_comes_before_descriptors(void **state)
{
    struct loop_timer timer = {.fn = on_timer};

    (void)state;
    loop_on_turn(loop, on_turn, NULL);
    assert_int_equal(loop_fd_add(loop, &watches[0], readable(), on_fd), HF_OK);
    assert_int_equal(loop_timer_set(loop, &timer, clock_now()), HF_OK);
    loop_turn_once(loop);
    assert_int_equal(ordered, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(order[i], i + 1);
}

#define WAKES 2000

static int woken, lost;

static void on_wake(void *arg)
{
    (void)arg;
    if (__atomic_add_fetch(&woken, 1, __ATOMIC_RELEASE) >= WAKES)
        loop_stop(loop);
}

/* Each once the one before was seen, as the loop falls asleep again. */
static void *wake_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < WAKES && !lost; i++) {
        hf_time deadline = hf_time_add(clock_now(), hf_ms(10000));

        loop_wake(loop);
        while (__atomic_load_n(&woken, __ATOMIC_ACQUIRE) <= i) {
            if (hf_time_reached(clock_now(), deadline)) {
                lost++;
                __atomic_store_n(&woken, WAKES, __ATOMIC_RELEASE);
                loop_wake(loop);
            }
            sched_yield();
        }
    }
    return NULL;
}

static void no_wake_is_lost(void **state)
{
    pthread_t thread;

    (void)state;
    loop_on_wake(loop, on_wake, NULL);
    assert_int_equal(pthread_create(&thread, NULL, wake_often, NULL), 0);
    loop_run(loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lost, 0);
}

static void stop_at(struct loop_timer *timer, hf_time now)
{
    (void)timer;
    at = now;
    loop_stop(loop);
}

static void it_sleeps_until_its_first_timer(void **state)
{
    struct loop_timer first = {.fn = stop_at}, second = {.fn = stop_at};
    hf_time due = hf_time_add(clock_now(), hf_ms(30));

    (void)state;
    assert_int_equal(loop_timer_set(loop, &second, hf_time_add(due, hf_ms(600000))), HF_OK);
    assert_int_equal(loop_timer_set(loop, &first, due), HF_OK);
    loop_run(loop);
    assert_false(hf_time_before(at, due));
    loop_timer_cancel(loop, &second);
}

static bool stop_before_it_sleeps(void *arg)
{
    (void)arg;
    loop_stop(loop);
    return false;
}

/* Only the timer would wake it. */
static void who_stops_it_before_it_sleeps_need_not_wake_it(void **state)
{
    struct loop_timer late = {.fn = stop_at};

    (void)state;
    assert_int_equal(loop_timer_set(loop, &late, hf_time_add(clock_now(), hf_ms(3000))), HF_OK);
    loop_on_idle(loop, stop_before_it_sleeps, NULL);
    loop_run(loop);
    assert_true(heap_has(&late.item));
    loop_timer_cancel(loop, &late);
}

static void what_the_kernel_refuses_is_an_error(void **state)
{
    int fd = memfd_create("file", MFD_CLOEXEC); /* epoll takes no file */

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(loop_fd_add(loop, &watches[0], fd, count), HF_ESYS);
    assert_null(watches[0].priv);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(in_two_turns_everybody_of_many_is_told),
        ROW(what_a_callback_adds_waits_for_the_next_turn),
        ROW(what_was_replaced_within_a_turn_is_not_told),
        ROW(wishes_count_as_they_are_when_the_loop_sleeps),
        ROW(what_is_due_comes_before_descriptors),
        ROW(no_wake_is_lost),
        ROW(it_sleeps_until_its_first_timer),
        ROW(who_stops_it_before_it_sleeps_need_not_wake_it),
        ROW(what_the_kernel_refuses_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
