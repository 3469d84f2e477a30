#include "tools/run/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void environment_set_number(const char *variable, uint64_t number)
{
    char value[24];

    snprintf(value, sizeof(value), "%" PRIu64, number);
    setenv(variable, value, 1);
}

/* Of each slot, in their order, with blanks between them. */
static void environment_set_slot_fences(const struct hold *hold)
{
    char value[HF_SET_MAX * 21 + 1] = "";
    size_t used = 0;

    for (unsigned i = 0; i < HF_SET_MAX; i++)
        used += (size_t)snprintf(value + used, sizeof(value) - used, "%s%" PRIu64, i ? " " : "",
                                 hf_fence(hold->leases[i]));
    setenv("HOLDFAST_SLOT_FENCES", value, 1);
}

void environment_set(const struct run_options *wanted, const struct hold *hold)
{
    bool alone = wanted->mode == RUN_EXCLUSIVE;
    size_t count = alone ? 1 : hold->count, first = alone ? HF_EXCLUSIVE_NAME : 0;
    char variable[32], value[RUN_OPTIONS_NAME_SIZE];
    int slot = hf_slot_number(hold->leases[first]);

    for (unsigned i = 0; i < HF_SET_MAX; i++) {
        char suffix[8] = ""; /* none for the first, then _2, _3, ... */
        unsigned lease = (unsigned)first + i;

        if (i > 0)
            snprintf(suffix, sizeof(suffix), "_%u", i + 1);
        snprintf(variable, sizeof(variable), "HOLDFAST_NAME%s", suffix);
        if (i < count)
            setenv(variable, run_options_name(wanted, slot < 0 ? lease : (unsigned)slot, value), 1);
        else
            unsetenv(variable);
        snprintf(variable, sizeof(variable), "HOLDFAST_FENCE%s", suffix);
        if (i < count)
            environment_set_number(variable, hf_fence(hold->leases[lease]));
        else
            unsetenv(variable);
    }
    unsetenv("HOLDFAST_MODE");
    unsetenv("HOLDFAST_SLOT");
    unsetenv("HOLDFAST_SLOTS");
    unsetenv("HOLDFAST_SLOT_FENCES");
    if (wanted->mode)
        setenv("HOLDFAST_MODE", alone ? "exclusive" : "shared", 1);
    if (alone)
        environment_set_slot_fences(hold);
    if (slot >= 0) {
        environment_set_number("HOLDFAST_SLOT", (uint64_t)slot);
        environment_set_number("HOLDFAST_SLOTS",
                               (uint64_t)(wanted->slots ? wanted->slots : HF_SET_MAX));
    }
    if (wanted->agent) /* for `holdfast check` in the job */
        setenv("HOLDFAST_AGENT", wanted->agent, 1);
}
