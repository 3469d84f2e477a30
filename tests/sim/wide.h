/* What widens a schedule beyond its plan: each kind is drawn from numbers of its own, so that the other schedules stay as
 * they are, and can be left out (--wide). What each does is in README.md. */
#ifndef HOLDFAST_TESTS_SIM_WIDE_H
#define HOLDFAST_TESTS_SIM_WIDE_H

#include "tests/sim/sim.h"

enum sim_wide {
    WIDE_SIZES,      /* one, two or four nodes */
    WIDE_STEPS,      /* clocks step that one agent watches; agents forget and start afresh */
    WIDE_FAR,        /* far nodes, whose clocks step by little */
    WIDE_RETENTION,  /* the fence records' seven days are seconds */
    WIDE_HOT,        /* thousands of grants of one name within a second, then amnesia */
    WIDE_ROLLBACK,   /* a node's server is replaced by one with older data, or another's */
    WIDE_PROXY,      /* a proxy keeps the agents' connections while the server behind it restarts */
    WIDE_RATES,      /* clocks change their rate */
    WIDE_DRAINS,     /* hosts are drained and undrained */
    WIDE_FOUNDING,   /* the fleet is founded amid faults */
    WIDE_ADDRESSES,  /* hosts' configurations lead to other servers than the fleet's */
    WIDE_CHANGES,    /* the fleet changes: nodes move, ttl_max is another one */
    WIDE_SHARED,     /* programs share r0 or have it alone */
    WIDE_GROUPS,     /* SIGKILL to a process group of each run */
    WIDE_EXCURSIONS, /* clocks are ahead for a moment that nobody sees */
    WIDE_WANDER,     /* clocks are ahead or behind for a while, and commands reach the nodes */
    WIDES
};
extern const char *const sim_wide_names[WIDES];

/* Which of them may be drawn, bit per kind, and whether each is in every schedule. */
extern uint32_t wide_allowed;
extern bool wide_every;
/* Of three nodes or more that change, one lies in each schedule. */
extern bool wide_lies;
/* WIDE_GROUPS is in every schedule, whatever else is drawn. */
extern bool wide_groups;

/* Names with commas between them, "all" or "none". False: one is not known. */
bool wide_parse(const char *list, uint32_t *ret_mask);

/* Draws which of them the schedule has, into sim.wide. */
void wide_draw(void);
static inline bool wide_has(enum sim_wide kind)
{
    return sim.wide >> kind & 1;
}
/* Numbers for that kind alone. */
struct sim_rng *wide_rng(enum sim_wide kind);
/* Of how many nodes the plan has `nodes`. */
int wide_nodes(int nodes);
/* After the rest of the plan was drawn. */
void wide_plan(void);
/* Puts what befalls the nodes into the queue. */
void wide_begin(void);

#endif
