/* The job's environment: HOLDFAST_NAME, HOLDFAST_FENCE and the like. */
#ifndef HOLDFAST_TOOLS_RUN_ENVIRONMENT_H
#define HOLDFAST_TOOLS_RUN_ENVIRONMENT_H

#include "tools/run/hold.h"
#include "tools/run/run_options.h"

/* Sets this run's variables and removes others: this run may be a job of another run. */
void environment_set(const struct run_options *wanted, const struct hold *hold);

#endif
