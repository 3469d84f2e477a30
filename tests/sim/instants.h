/* (!) A record is complete only if all members before it that are not gone had it, changing, at one instant. */
#ifndef HOLDFAST_TESTS_SIM_INSTANTS_H
#define HOLDFAST_TESTS_SIM_INSTANTS_H

#include "tests/sim/sim.h"

struct fleet_record;
struct vnode;

void instants_begin(void);
/* A record was put on the node. */
void instants_put(const struct vnode *node);
/* The host's agent goes by it. */
void instants_check(const struct sim_host *host, const struct fleet_record *r);

#endif
