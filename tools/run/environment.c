#include "tools/run/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void environment_set(const struct run_options *wanted, const struct hold *hold)
{
    char variable[32], value[RUN_OPTIONS_NAME_SIZE];
    int slot = hf_slot_number(hold->leases[0]);

    for (unsigned i = 0; i < HF_SET_MAX; i++) {
        char suffix[8] = ""; /* none for the first, then _2, _3, ... */

        if (i > 0)
            snprintf(suffix, sizeof(suffix), "_%u", i + 1);
        snprintf(variable, sizeof(variable), "HOLDFAST_NAME%s", suffix);
        if (i < hold->count)
            setenv(variable, run_options_name(wanted, slot < 0 ? i : (unsigned)slot, value), 1);
        else
            unsetenv(variable);
        snprintf(variable, sizeof(variable), "HOLDFAST_FENCE%s", suffix);
        snprintf(value, sizeof(value), "%" PRIu64, i < hold->count ? hf_fence(hold->leases[i]) : 0);
        if (i < hold->count)
            setenv(variable, value, 1);
        else
            unsetenv(variable);
    }
    unsetenv("HOLDFAST_SLOT");
    unsetenv("HOLDFAST_SLOTS");
    if (slot >= 0) {
        snprintf(value, sizeof(value), "%d", slot);
        setenv("HOLDFAST_SLOT", value, 1);
        snprintf(value, sizeof(value), "%d", wanted->slots);
        setenv("HOLDFAST_SLOTS", value, 1);
    }
    if (wanted->agent) /* for `holdfast check` in the job */
        setenv("HOLDFAST_AGENT", wanted->agent, 1);
}
