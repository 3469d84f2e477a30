/* A host sleeps while the fleet changes, and meanwhile servers come back with their data of before: each has an earlier record then. */
#ifndef HOLDFAST_TESTS_SIM_SLEEPERS_H
#define HOLDFAST_TESTS_SIM_SLEEPERS_H

#include "tests/sim/sim.h"

/* Into the plan, after all else of it was drawn: whether this schedule is one of those. Then nothing else befalls the fleet. */
void sleepers_plan(void);
void sleepers_begin(void);

#endif
