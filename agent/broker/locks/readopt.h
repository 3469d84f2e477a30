/* What an earlier agent left in the journal: leases of living holders are readopted, all others are released. */
#ifndef HOLDFAST_AGENT_BROKER_LOCKS_READOPT_H
#define HOLDFAST_AGENT_BROKER_LOCKS_READOPT_H

struct locks;

int readopt(struct locks *locks);
/* Drops the releases that wait for V; the journal has them. */
void readopt_destroy(struct locks *locks);

#endif
