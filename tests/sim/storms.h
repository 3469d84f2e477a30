/* Faults that belong together: what is dangerous is rare by chance. */
#ifndef HOLDFAST_TESTS_SIM_STORMS_H
#define HOLDFAST_TESTS_SIM_STORMS_H

/* The host of a valid lease is cut off or its agent stopped or killed, so that it cannot heal, and
 * then nodes forget, restart or step, while others want the lock. */
void storm_begin(void);

#endif
