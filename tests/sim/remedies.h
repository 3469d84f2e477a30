/* What operators do by the words of `holdfast fleet`, where a fleet does not go on by itself. */
#ifndef HOLDFAST_TESTS_SIM_REMEDIES_H
#define HOLDFAST_TESTS_SIM_REMEDIES_H

#include "tests/sim/sim.h"

struct sim_host;

void remedies_begin(void);
/* In every schedule, once the faults are over: where no node has the fleet's record any more, the operator looks at all hosts, and
 * confirms on the one that has the latest. */
void remedies_settle(void);
/* The same at once, if the word is true: every host answers. */
void remedies_confirm(void);
/* A record that one node has and most do not: the command is given again. */
void remedies_carry_on(struct sim_host *host);
/* The same; and what else is needed, with time. Once a second. */
void remedies_end(struct sim_host *host);

#endif
