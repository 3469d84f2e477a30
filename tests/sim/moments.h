/* Within a change of the fleet: at one step of it, which is drawn, something befalls one of its servers. */
#ifndef HOLDFAST_TESTS_SIM_MOMENTS_H
#define HOLDFAST_TESTS_SIM_MOMENTS_H

#include "tests/sim/sim.h"

struct fleet_record;

void moments_begin(struct sim_rng *rng);
/* An agent is to change the fleet of that record. */
void moments_arm(const struct fleet_record *before);

#endif
