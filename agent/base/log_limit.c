#include "agent/base/log_limit.h"

#include "agent/base/log.h"

bool log_allows(struct log_limit *limit, unsigned most, hf_time now)
{
    if (hf_time_reached(now, limit->until)) {
        if (limit->lines > most)
            log_warn("%u more lines like the last of these were left out", limit->lines - most);
        *limit = (struct log_limit){.until = hf_time_add(now, hf_ns(HF_NS_PER_SEC))};
    }
    if (++limit->lines == most + 1)
        log_warn("more lines like these are left out within this second");
    return limit->lines <= most;
}
