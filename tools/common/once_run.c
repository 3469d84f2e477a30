#include "tools/common/once_run.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/common/text.h"

const char *once_run_end(int end)
{
    switch (end) {
    case HF_ONCE_EXITED:
        return "exited";
    case HF_ONCE_KILLED:
        return "killed";
    case HF_ONCE_LOST:
        return "lost";
    default:
        return "unknown";
    }
}

static const char *run_ended(char *out, size_t size, const struct hf_once_info *info)
{
    switch (info->end) {
    case HF_ONCE_EXITED:
        snprintf(out, size, "ended with %d", info->code);
        break;
    case HF_ONCE_KILLED:
        snprintf(out, size, "ended by signal %d", info->code);
        break;
    case HF_ONCE_LOST:
        snprintf(out, size, "stopped because its lock was lost");
        break;
    default:
        snprintf(out, size, "its end is not known; it may still run");
    }
    return out;
}

const char *once_run(char *out, size_t size, const struct hf_once_info *info)
{
    char at[TEXT_INSTANT_SIZE], host[4 * sizeof(info->by.host) + 1], end[64];

    snprintf(out, size, "started %s on %s (pid %" PRIu32 ", user %" PRIu32 "), %s",
             text_instant(at, sizeof(at), info->started_wall_ms),
             *info->by.host ? text_escape_str(host, sizeof(host), info->by.host)
                            : "an unknown host",
             info->by.pid, info->by.uid, run_ended(end, sizeof(end), info));
    return out;
}
