/* A name that is taken and given back thousands of times a second, by one process, until a majority forgets. */
#ifndef HOLDFAST_TESTS_SIM_HOT_H
#define HOLDFAST_TESTS_SIM_HOT_H

#include <stdbool.h>

#include "tests/sim/sim.h"

struct sim_proc;

void hot_plan(void);
void hot_begin(void);
/* This process has the name again and again, as fast as it can. */
bool hot_hurries(const struct sim_proc *proc);
/* 0: now; else this process is to come after the burst. */
sim_ns hot_waits(const struct sim_proc *proc);

#endif
