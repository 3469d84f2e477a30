/* The fleet's record: founded an hour ago, or by the schedule's agents. */
#ifndef HOLDFAST_TESTS_SIM_FLEETS_H
#define HOLDFAST_TESTS_SIM_FLEETS_H

#include <stdbool.h>

struct fleet_record;
struct sim_host;
struct vnode;

/* Once it is known how old the nodes are. */
void fleets_plan(void);
/* Once nodes and hosts are there. */
void fleets_begin(void);
/* What each agent goes by, and what it waits for. */
void fleets_trace(void);
/* What its agent goes by; NULL: it knows none. */
const struct fleet_record *fleets_record(const struct sim_host *host);
/* (!) By rules of the simulator's own, not the product's: how many votes are a majority for the host's agent, and whether those of
 * the node at that place of its list count. */
int fleets_quorum(const struct sim_host *host);
bool fleets_counts(const struct sim_host *host, const struct fleet_record *record, int place);
/* All agents go by the same record. */
bool fleets_are_one(void);
/* A fleet of these servers, complete, as the hosts would found it. */
void fleets_found(struct vnode *const *servers);

#endif
