/* Clock steps of nodes that at least one agent watches, while others forget what they knew of the clocks. */
#ifndef HOLDFAST_TESTS_SIM_STEPS_H
#define HOLDFAST_TESTS_SIM_STEPS_H

#include <stdbool.h>

struct sim_host;

void steps_begin(void);
/* Or is killed: what it knew of the clocks is to be known to the next one, if it had the time to write it. */
void steps_agent_ends(const struct sim_host *host);
/* Its host rebooted. */
void steps_forgotten(const struct sim_host *host);
/* An agent that knows nothing yet must not start now: who watched a node that stepped had no time to leave its trace
 * there. */
bool steps_hold_back(const struct sim_host *host);

#endif
