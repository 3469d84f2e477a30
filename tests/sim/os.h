/* Files in memory, as the agents see them. */
#ifndef HOLDFAST_TESTS_SIM_OS_H
#define HOLDFAST_TESTS_SIM_OS_H

#include "tests/sim/sim.h"

void os_reset(void);
void os_remove(const char *path);
bool os_exists(const char *path);
void os_remove_all(const char *prefix);

#endif
