/* Hosts whose configuration leads to other servers than the fleet's, for some ids. */
#ifndef HOLDFAST_TESTS_SIM_ADDRESSES_H
#define HOLDFAST_TESTS_SIM_ADDRESSES_H

#include <stdbool.h>

struct sim_host;

void addresses_plan(void);
void addresses_begin(void);
/* The host's agent is about to start: what its configuration says by now. */
void addresses_configure(struct sim_host *host);
/* The faults are over: where an operator has to correct something, that is done. */
void addresses_end(void);
/* Nobody holds anything. Where the hosts belong to no fleet, or to different ones, as one of them founded it of other
 * servers, an operator founds it anew (--reset-fleet). False: there is nothing to be done. */
bool addresses_found_anew(void);

#endif
