/* A fleet that changes amid faults: nodes move, join and leave, and ttl_max is another one. */
#ifndef HOLDFAST_TESTS_SIM_CHANGES_H
#define HOLDFAST_TESTS_SIM_CHANGES_H

#include "tests/sim/sim.h"

struct fleet_record;
struct fleet_wish;
struct sim_host;
struct vnode;

void changes_plan(void);
void changes_begin(void);
/* The faults are over: hosts whose configurations have too few of the fleet's servers left are given its present ones. */
void changes_end(void);
/* Two changes were begun at once and the node that was to tell them apart forgot: nobody gets on, and that is said. Or all hosts and
 * all nodes forgot. */
bool changes_are_stuck(void);
/* Before the stores of an agent open: lays the record that it kept over its configuration, as main does. */
void changes_configure(struct sim_host *host);
/* Operators put the record's members into all hosts' files. */
void changes_correct(const struct fleet_record *r);
/* An operator asks on that host. Whether it was begun. */
bool changes_ask(struct sim_host *host, const struct fleet_wish *wish);
/* The latest record that an agent goes by; NULL: none. */
const struct fleet_record *changes_latest(void);
/* The fleet's servers: both lists of the latest record, or the plan's. Returns how many. */
int changes_servers(struct vnode *ret_servers[SIM_SERVERS]);
/* All agents go by one complete record that has settled, and all its nodes vote. */
bool changes_have_settled(void);

#endif
