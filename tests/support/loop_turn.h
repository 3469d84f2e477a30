/* Turns a loop once, without sleeping. */
#ifndef HOLDFAST_TESTS_LOOP_TURN_H
#define HOLDFAST_TESTS_LOOP_TURN_H

#include "agent/base/loop.h"

static struct loop *loop_turned;

static void loop_turn_is_over(struct loop_timer *timer, hf_time now)
{
    (void)timer;
    (void)now;
    loop_stop(loop_turned);
}

static inline void loop_turn_once(struct loop *loop)
{
    struct loop_timer timer = {.fn = loop_turn_is_over};

    loop_turned = loop;
    (void)loop_timer_set(loop, &timer, HF_TIME_PAST); /* due: it does not sleep */
    loop_run(loop);
}

#endif
