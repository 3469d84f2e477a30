#include "tools/run/around.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/holdfast_sets.h"
#include "tools/common/args.h"
#include "tools/common/conflict.h"
#include "tools/common/process.h"
#include "tools/common/wall.h"
#include "tools/run/timeline.h"

#define NS_PER_MS INT64_C(1000000)

/* The innermost run, by the environment: nobody but its job has this fence there. */
static bool around_innermost_holds(const char *name, uint64_t fence)
{
    for (unsigned i = 1; i <= HF_SET_MAX && fence; i++) {
        char variable[32], suffix[8] = ""; /* tools/run/environment.c */
        const char *value;
        uint64_t number;

        if (i > 1)
            snprintf(suffix, sizeof(suffix), "_%u", i);
        snprintf(variable, sizeof(variable), "HOLDFAST_NAME%s", suffix);
        value = getenv(variable);
        if (!value)
            return false;
        if (strcmp(value, name) != 0)
            continue;
        snprintf(variable, sizeof(variable), "HOLDFAST_FENCE%s", suffix);
        value = getenv(variable);
        if (value && args_number(value, 1, UINT64_MAX, &number) == HF_OK && number == fence)
            return true;
    }
    return false;
}

/* Any run around that one. A process that has started after the grant is another one with a reused pid; a program that is no run may
 * release its lock while a child waits for it. */
static bool around_ancestor_holds(const struct hf_holder *holder)
{
    int64_t held_ms = wall_now_ms() - holder->since_wall_ms;
    struct process_stat stat;

    return holder->pid && holder->since_wall_ms > 0 && conflict_is_here(holder) &&
           process_stat(-1, (pid_t)holder->pid, &stat) == 0 && !strcmp(stat.command, "holdfast") &&
           process_descends(getppid(), (pid_t)holder->pid, timeline_now_ns() - held_ms * NS_PER_MS);
}

bool around_holds(const char *name, const struct hf_holder *holder)
{
    return around_innermost_holds(name, holder->fence) || around_ancestor_holds(holder);
}
