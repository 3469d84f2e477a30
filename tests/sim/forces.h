/* An operator who ends holds by force: agent/scripts/force.lua on the nodes, one after the other, as
 * slowly and as often lost as it may be, first by the fence and then by the id that has it, as
 * agent/forces.c does where a record is another's by now. The rest of that is not here. */
#ifndef HOLDFAST_TESTS_SIM_FORCES_H
#define HOLDFAST_TESTS_SIM_FORCES_H

#include <stdbool.h>

/* Draws whether there is one; from numbers of its own, so that a seed's other faults stay as they
 * are. */
void forces_begin(void);

/* Two values of a key stand for one hold: equal, or one is the mark of the other. */
bool forces_same_hold(const char *value, const char *other);
/* A mark, which nobody's release of another token takes away. */
bool forces_is_mark(const char *value);

#endif
