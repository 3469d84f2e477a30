/* What the tests of the lease state machine share: three nodes, T = 30 s. Granted at 0: V = 29.698
 * s, LATE at 14.698 s, LOSING at 20.698 s. */
#ifndef HOLDFAST_TESTS_LEASE_FIXTURE_H
#define HOLDFAST_TESTS_LEASE_FIXTURE_H

#include "core_fixture.h"

#include "agent/core/lease_fsm.h"
#include "agent/core/timing.h"

#define SPAN            (29698 * MS)
#define LATE            (14698 * MS)
#define LOSING          (20698 * MS)

#define OVER_BY_LOSS    (LEASE_ACT_WITHDRAW | LEASE_ACT_STATE | LEASE_ACT_LOST | LEASE_ACT_TIMER)
#define OVER_BY_RELEASE (LEASE_ACT_WITHDRAW | LEASE_ACT_STATE | LEASE_ACT_ENDED | LEASE_ACT_TIMER)

enum kind { LIBRARY, RUN };

static struct timing timing;
static const uint32_t marks[HF_NODES_MAX];

static int set_up(void **state)
{
    (void)state;
    timing = timing_of_ms(30000);
    return 0;
}

HF_UNUSED static struct lease_fsm granted(enum kind kind, hf_time a0, hf_time a1, hf_time a2)
{
    const hf_time a[] = {a0, a1, a2};
    struct lease_fsm l;

    lease_fsm_init(&l, NULL, 3, 2, &timing, kind == RUN, HF_TIME_NEVER, a, marks);
    return l;
}

HF_UNUSED static struct lease_fsm held(enum kind kind)
{
    return granted(kind, at(0), at(0), at(0));
}

HF_UNUSED static struct lease_fsm readopted(enum kind kind, hf_time d, bool was_losing)
{
    const hf_time all[] = {d, d, d};
    struct lease_fsm l;

    lease_fsm_readopt(&l, NULL, 3, 2, &timing, kind == RUN, HF_TIME_NEVER, all, marks, was_losing);
    return l;
}

HF_UNUSED static void assert_state(const struct lease_fsm *l, enum hf_slot_state state,
                                   enum hf_loss_reason reason)
{
    assert_int_equal(l->state, state);
    assert_int_equal(l->reason, reason);
}

/* Nothing that comes after an end changes anything. */
HF_UNUSED static void assert_final(struct lease_fsm *l, hf_time now)
{
    struct lease_fsm before = *l;

    assert_int_equal(lease_fsm_hit(l, 0, now, 0, now), 0);
    assert_int_equal(lease_fsm_hit(l, 1, now, 0, now), 0);
    assert_int_equal(lease_fsm_missing(l, 0, 7, now), 0);
    assert_int_equal(lease_fsm_missing(l, 1, 0, now), 0);
    assert_int_equal(lease_fsm_foreign(l, 0, now), 0);
    assert_int_equal(lease_fsm_outbid(l, 7, now), 0);
    assert_int_equal(lease_fsm_stepped(l, 0, now, now), 0);
    assert_int_equal(lease_fsm_confirm(l, now, now), 0);
    assert_int_equal(lease_fsm_lose(l, HF_LOSS_ASKED, now), 0);
    assert_int_equal(lease_fsm_release(l, HF_LOSS_NONE, now), 0);
    assert_int_equal(lease_fsm_tick(l, now), 0);
    assert_int_equal(l->state, before.state);
    assert_int_equal(l->reason, before.reason);
    assert_time(l->valid, before.valid);
    assert_time(lease_fsm_next(l), HF_TIME_NEVER);
    assert_false(lease_fsm_renews(l));
}

#endif
