/* The runs that this command is in a job of. */
#ifndef HOLDFAST_TOOLS_RUN_AROUND_H
#define HOLDFAST_TOOLS_RUN_AROUND_H

#include <stdbool.h>

#include "libclient/holdfast.h"

/* Whether this process is in the job of `holder`, who has the lock `name`: to wait for its end would be to wait for oneself. */
bool around_holds(const char *name, const struct hf_holder *holder);

#endif
