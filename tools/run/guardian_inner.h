/* The inner guardian: the job's parent. */
#ifndef HOLDFAST_TOOLS_RUN_GUARDIAN_INNER_H
#define HOLDFAST_TOOLS_RUN_GUARDIAN_INNER_H

#include "tools/run/guardian.h"

/* Never returns. `tickets` are for the outer guardian's leases; `g` was set up before the fork. */
_Noreturn void guardian_inner(struct guardian *g, const struct hf_ticket *tickets);

#endif
