/* SIGKILL to a process group of a run, at moments that matter: README.md. */
#ifndef HOLDFAST_TESTS_SIM_GROUPS_H
#define HOLDFAST_TESTS_SIM_GROUPS_H

#include "tests/sim/sim.h"

void groups_begin(void);
/* Whether what it asks for is for a job. */
bool groups_wants_job(const struct sim_proc *proc);
/* A run has just been granted, and its job starts. */
void groups_job_starts(struct sim_proc *proc);

#endif
