/* The fleet's record: founded an hour ago, or by the schedule's agents. */
#ifndef HOLDFAST_TESTS_SIM_FLEETS_H
#define HOLDFAST_TESTS_SIM_FLEETS_H

#include <stdbool.h>

struct vnode;

/* Once it is known how old the nodes are. */
void fleets_plan(void);
/* Once nodes and hosts are there. */
void fleets_begin(void);
/* What each agent goes by, and what it waits for. */
void fleets_trace(void);
/* All agents go by the same record. */
bool fleets_are_one(void);
/* A fleet of these servers, complete, as the hosts would found it. */
void fleets_found(struct vnode *const *servers);

#endif
