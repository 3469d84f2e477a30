/* Servers that come back at a node's address with older data, with another node's, or as a promoted replica; also behind a
 * proxy that keeps the agents' connections. */
#ifndef HOLDFAST_TESTS_SIM_ROLLBACKS_H
#define HOLDFAST_TESTS_SIM_ROLLBACKS_H

void rollbacks_begin(void);
/* Promoted replicas are replaced by servers that never were one. */
void rollbacks_end(void);

#endif
