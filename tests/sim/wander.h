/* WIDE_WANDER: clocks are ahead or behind for a while, in steps, and commands reach the nodes meanwhile. */
#ifndef HOLDFAST_TESTS_SIM_WANDER_H
#define HOLDFAST_TESTS_SIM_WANDER_H

#include "tests/sim/sim.h"

struct sim_message;

void wander_begin(void);
/* All clocks are right again. */
void wander_end(void);
/* A command is about to run on the node. Whether its answer is to be lost. */
bool wander_meets(struct vnode *node, const struct sim_message *message);
/* An agent that knows nothing of the clocks might take a wrong one for right: nobody promises anything then. */
bool wander_holds_back(void);
/* For how long the keys and promises that were made while a clock was ahead may stand. */
sim_ns wander_stands(void);

#endif
