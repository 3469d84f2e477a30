/* A fleet that changes amid faults: nodes move, and ttl_max is another one. */
#ifndef HOLDFAST_TESTS_SIM_CHANGES_H
#define HOLDFAST_TESTS_SIM_CHANGES_H

#include "tests/sim/sim.h"

void changes_plan(void);
void changes_begin(void);
/* The faults are over: hosts whose configurations have too few of the fleet's servers left are given its present ones. */
void changes_end(void);
/* Two changes were begun at once and the node that was to tell them apart forgot: nobody gets on, and that is said. */
bool changes_are_stuck(void);
/* Before the stores of an agent open: lays the record that it kept over its configuration, as main does. */
void changes_configure(struct sim_host *host);

#endif
