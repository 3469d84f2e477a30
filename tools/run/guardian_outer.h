/* The outer guardian: the process that the user sees. */
#ifndef HOLDFAST_TOOLS_RUN_GUARDIAN_OUTER_H
#define HOLDFAST_TOOLS_RUN_GUARDIAN_OUTER_H

#include "tools/run/guardian.h"

/* Called once the inner guardian, process `inner`, runs. Returns the exit code. */
int guardian_outer(struct guardian *g, pid_t inner);

#endif
