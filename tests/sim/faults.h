/* What goes wrong, and when. */
#ifndef HOLDFAST_TESTS_SIM_FAULTS_H
#define HOLDFAST_TESTS_SIM_FAULTS_H

#include "tests/sim/sim.h"

/* Draws the plan of the schedule. */
void plan_draw(void);
/* Puts the faults of the plan into the queue. */
void faults_begin(void);
/* What is still broken is made whole. */
void faults_end(void);

#endif
