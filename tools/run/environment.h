/* What the job finds in its environment: HOLDFAST_NAME, HOLDFAST_FENCE and the like. */
#ifndef HOLDFAST_TOOLS_RUN_ENVIRONMENT_H
#define HOLDFAST_TOOLS_RUN_ENVIRONMENT_H

#include "tools/run/hold.h"
#include "tools/run/run_options.h"

/* Only what is true of this run: it may be a job of another one. */
void environment_set(const struct run_options *wanted, const struct hold *hold);

#endif
