/* A fleet that is founded amid faults, by several agents at once. */
#ifndef HOLDFAST_TESTS_SIM_FOUNDINGS_H
#define HOLDFAST_TESTS_SIM_FOUNDINGS_H

void foundings_plan(void);
void foundings_begin(void);

#endif
