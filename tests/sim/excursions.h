/* Nodes' clocks that are ahead for a moment in which no agent looks. */
#ifndef HOLDFAST_TESTS_SIM_EXCURSIONS_H
#define HOLDFAST_TESTS_SIM_EXCURSIONS_H

void excursions_begin(void);

#endif
